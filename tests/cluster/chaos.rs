//! Everything that may go wrong, at once, each seed with a character of its own.

use super::world::{E, MS, Options, SECOND, World};
use crate::support::faults::{Faults, Kind, Nodes, Rates, swarm};
use crate::support::seeds::{Seen, Telltale, run_seeds, seeds_or};
use delayd::cluster::members::Members;
use delayd::cluster::raft::entry::Base;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fmt::{Debug, Formatter};

/// What happens besides kills, pauses, cuts and slow disks.
#[derive(Clone, Copy, Debug)]
enum Own {
    Propose,
    Transfer,
    Compact,
    Change,
    MayLead,
    Unreachable,
}

use Own::{Change, Compact, MayLead, Propose, Transfer, Unreachable};

const OWN: [Own; 6] = [Propose, Transfer, Compact, Change, MayLead, Unreachable];

/// How often each happens on average, µs.
const USUAL: [(Kind, u64); 10] = [
    (own(Propose), 10 * MS),
    (Kind::Kill, SECOND),
    (Kind::Cut, SECOND),
    (Kind::Pause, SECOND),
    (Kind::Slow, SECOND),
    (own(Transfer), 2 * SECOND),
    (own(Compact), SECOND / 2),
    (own(Change), SECOND),
    (own(MayLead), SECOND),
    (own(Unreachable), SECOND),
];

const fn own(own: Own) -> Kind {
    Kind::Own(own as usize)
}

struct Character {
    options: Options,
    rates: Rates,
    /// At least a majority is there at all times.
    is_mild: bool,
    /// Bytes of a batch at the most.
    body: usize,
    span: u64,
}

impl Debug for Character {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {:?}, bodies up to {}", self.options, self.rates, self.body)
    }
}

impl Character {
    fn of(seed: u64, chance: &mut SmallRng) -> Character {
        let often = |chance: &mut SmallRng, share| chance.random_bool(share);
        let mut options = Options::calm(if seed % 3 == 2 { 5 } else { 3 });
        if often(chance, 0.3) {
            options.delay = (100, *[MS, 20 * MS, 400 * MS].choose(chance).expect("some"));
        }
        if often(chance, 0.4) {
            options.loss = *[5_000, 50_000, 150_000].choose(chance).expect("some");
        }
        options.reorder = often(chance, 0.3);
        options.drift = if often(chance, 0.5) { 80_000 } else { 0 };
        options.cache_bytes = if often(chance, 0.5) { 16 << 10 } else { 64 << 20 };
        options.base_us = *[MS, 100 * MS, 2 * SECOND].choose(chance).expect("some");
        options.bases_lost = *[0, 20, 80].choose(chance).expect("some");
        options.ends_untold = *[0, 50, 100].choose(chance).expect("some");
        options.replay = often(chance, 0.5);
        let rates = swarm(chance, &USUAL, |kind| kind == own(Propose));
        let is_mild = often(chance, 0.3);
        let body = *[64, 4 << 10, 300 << 10].choose(chance).expect("some");
        let span = chance.random_range(4..=8) * SECOND;
        Character { options, rates, is_mild, body, span }
    }
}

struct Chaos {
    world: World,
    character: Character,
    faults: Faults,
    chance: SmallRng,
}

impl Chaos {
    fn new(seed: u64, record: bool) -> Chaos {
        let mut chance = SmallRng::seed_from_u64(seed);
        let mut character = Character::of(seed, &mut chance);
        character.options.record = record;
        let world = World::new(seed ^ 0x5eed, character.options.clone());
        let mut faults = Faults::new(seed ^ 0xfa17, character.rates.clone(), 0);
        if character.is_mild {
            faults.away_max = (world.machines.len() - 1) / 2;
        }
        Chaos { world, character, faults, chance }
    }

    fn run(&mut self, seen: &mut Seen) {
        let end = self.character.span;
        while let Some(at) = self.faults.next_before(end) {
            self.world.run_until(at);
            if let Some(which) = self.faults.act(at, &mut self.world) {
                self.strike(OWN[which], seen);
            }
        }
        self.world.run_until(end);
        self.heal(seen);
    }

    fn any(&mut self) -> usize {
        self.chance.random_range(0..self.world.machines.len())
    }

    fn strike(&mut self, own: Own, seen: &mut Seen) {
        let at = self.any();
        let is_awake = self.world.machines[at].node.is_some() && !self.is_still(at);
        match own {
            Own::Propose => self.propose(seen),
            Own::Transfer => {
                let Some(leader) = self.world.leader() else { return };
                if self.is_still(leader) {
                    return;
                }
                if self.world.transfer(leader, at as u64 + 1) {
                    seen.note("handed over");
                }
            }
            Own::Compact if is_awake => {
                seen.note("compacted");
                self.world.make_base(at);
            }
            Own::Change => self.change(seen),
            Own::MayLead if is_awake => {
                seen.note("may lead or not");
                let may = self.chance.random_bool(0.6);
                self.world.machines[at].node().set_may_lead(may);
                self.world.settle(at);
            }
            Own::Unreachable if is_awake => {
                let to = self.any() as u64 + 1;
                self.world.machines[at].node().unreachable(to);
                self.world.settle(at);
            }
            Own::Compact | Own::MayLead | Own::Unreachable => {}
        }
    }

    fn is_still(&self, at: usize) -> bool {
        self.world.now < self.world.machines[at].paused_until
    }

    /// At whoever believes that it leads: there may be several.
    fn propose(&mut self, seen: &mut Seen) {
        for at in 0..self.world.machines.len() {
            if self.world.machines[at].leads() && !self.is_still(at) {
                let bytes = self.chance.random_range(8..=self.character.body);
                let taken = self.world.propose(at, bytes);
                seen.note(if taken { "proposed" } else { "not taken" });
            }
        }
    }

    /// One step towards other members: a machine more that learns, learners that vote, others that leave.
    fn change(&mut self, seen: &mut Seen) {
        let Some(leader) = self.world.leader() else { return };
        if self.is_still(leader) {
            return;
        }
        let node = self.world.machines[leader].node();
        let (members, end) = (node.members().clone(), node.last());
        let caught_up =
            |id: &u64| node.peers().iter().any(|peer| peer.id == *id && peer.matched + 8 >= end);
        let ready = members.learners.iter().copied().find(caught_up);
        let mut target = Members { learners: members.learners.clone(), ..members.clone() };
        let me = leader as u64 + 1;
        let others: Vec<u64> = members.voters.iter().copied().filter(|id| *id != me).collect();
        let leaver = others.choose(&mut self.chance).copied();
        let what = match (ready, self.chance.random_range(0..3)) {
            (Some(learner), draw) => {
                target.learners.retain(|id| *id != learner);
                target.voters.push(learner);
                match (draw, leaver) {
                    (0, Some(leaver)) => {
                        target.voters.retain(|id| *id != leaver);
                        "replaced"
                    }
                    (1, Some(leaver)) => {
                        target.voters.retain(|id| *id != leaver);
                        target.learners.push(leaver);
                        "made a learner"
                    }
                    _ => "made a voter",
                }
            }
            (None, 0) if members.voters.len() > 3 => {
                target.voters.retain(|id| Some(*id) != leaver);
                "removed"
            }
            (None, 1) => {
                target.directory = vec![0; self.chance.random_range(0..40)].into();
                "renamed"
            }
            (None, _) if members.learners.is_empty() && members.all().len() < 7 => {
                let fresh = if self.world.machines.len() < 8 {
                    self.world.add_machine(Base::default()) as u64 + 1
                } else {
                    let outside = (1..=8).filter(|id| !members.contains(*id)).collect::<Vec<u64>>();
                    *outside.choose(&mut self.chance).expect("eight, and seven are members")
                };
                target.learners.push(fresh);
                "joined"
            }
            (None, _) => return,
        };
        target.voters.sort_unstable();
        target.learners.sort_unstable();
        let node = self.world.machines[leader].node();
        let is_joint = members.toward(&target).is_ok_and(|next| next.is_joint());
        if node.change(&target).is_some() {
            seen.note(what);
            if is_joint {
                seen.note("joint");
            }
        }
        self.world.settle(leader);
    }

    /// Nothing is wrong any more: a leader within 10 E, and all the same within 30 s.
    fn heal(&mut self, seen: &mut Seen) {
        let world = &mut self.world;
        self.faults.heal(world);
        std::mem::take(&mut self.faults.seen).add_to(seen);
        world.options.loss = 0;
        world.options.reorder = false;
        world.options.delay = (100, 150);
        world.options.bases_lost = 0;
        world.options.sync_us = 100;
        for at in 0..world.machines.len() {
            Nodes::start(world, at);
            world.machines[at].node().set_may_lead(true);
        }
        let took = world
            .wait_for("a leader after all was healed", 10 * E, |world| world.leader().is_some());
        seen.count("ms without a leader after healing", took / MS);
        let begin = world.now;
        for _ in 0..50 {
            let end = self.world.now + 10 * MS;
            self.world.run_until(end);
            self.propose(seen);
        }
        let world = &mut self.world;
        world.wait_for("all nodes equal", 30 * SECOND, World::is_equal);
        world.audit.check_acked();
        seen.count("ms until equal", (world.now - begin) / MS);
        seen.count("acknowledged", world.audit.acked() as u64);
        seen.count("leaders", world.audit.leaders() as u64);
        seen.count("entries", world.audit.end());
        seen.count("read from disk", world.asked_of_disk);
        seen.count("bases sent", world.bases_sent);
        seen.count("bases restored", world.bases_restored);
        seen.count("promises", world.promises);
        assert_eq!(world.refused, 0, "a node refused what another said");
    }
}

/// Each 50th seed is run twice.
fn run(seed: u64, seen: &mut Seen) {
    let is_compared = seed.is_multiple_of(50);
    let mut chaos = Chaos::new(seed, is_compared);
    let _telltale = Telltale(format!("DELAYD_SEED={seed} with {:?}", chaos.character));
    chaos.run(seen);
    if is_compared {
        let mut again = Chaos::new(seed, true);
        again.run(&mut Seen::default());
        assert!(chaos.world.record == again.world.record, "a second run of the seed differs");
        assert!(!again.world.record.is_empty());
        seen.note("run twice");
    }
}

#[test]
fn nothing_is_lost_or_forked_and_all_heals() {
    let seen = Seen::of_all(run_seeds(seeds_or(300), run));
    seen.check(&[
        "acknowledged", "bases restored", "bases sent", "compacted", "cut off", "cut one way",
        "handed over", "joined", "joint", "killed", "made a learner", "made a voter",
        "may lead or not", "not taken", "paused", "promises", "proposed", "read from disk",
        "removed", "renamed", "replaced", "restarted", "run twice", "slow disk",
    ]);
}
