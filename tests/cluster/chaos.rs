//! Everything that may go wrong, at once, each seed with a character of its own.

use super::world::{E, Event, MS, Options, SECOND, World};
use crate::support::seeds::{Seen, Telltale, run_seeds, seeds_or};
use delayd::cluster::entry::Base;
use delayd::cluster::members::Members;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fmt::{Debug, Formatter};

/// What happens again and again: how often on average, µs; 0 never.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Propose,
    Kill,
    Cut,
    Pause,
    SlowDisk,
    Transfer,
    Compact,
    Change,
    MayLead,
    Unreachable,
}

const FAULTS: [(Fault, u64); 10] = [
    (Fault::Propose, 10 * MS),
    (Fault::Kill, SECOND),
    (Fault::Cut, SECOND),
    (Fault::Pause, SECOND),
    (Fault::SlowDisk, SECOND),
    (Fault::Transfer, 2 * SECOND),
    (Fault::Compact, SECOND / 2),
    (Fault::Change, SECOND),
    (Fault::MayLead, SECOND),
    (Fault::Unreachable, SECOND),
];

struct Character {
    options: Options,
    every: Vec<(Fault, u64)>,
    /// Bytes of a batch at the most.
    body: usize,
    span: u64,
}

impl Debug for Character {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {:?}, bodies up to {}", self.options, self.every, self.body)
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
        let every = FAULTS.map(|(fault, us)| {
            let is_on = matches!(fault, Fault::Propose) || chance.random_bool(0.55);
            (fault, if is_on { us * chance.random_range(30..=200) / 100 } else { 0 })
        });
        let body = *[64, 4 << 10, 300 << 10].choose(chance).expect("some");
        let span = chance.random_range(4..=8) * SECOND;
        Character { options, every: every.to_vec(), body, span }
    }
}

struct Chaos {
    world: World,
    character: Character,
    chance: SmallRng,
}

impl Chaos {
    fn new(seed: u64, record: bool) -> Chaos {
        let mut chance = SmallRng::seed_from_u64(seed);
        let mut character = Character::of(seed, &mut chance);
        character.options.record = record;
        let world = World::new(seed ^ 0x5eed, character.options.clone());
        Chaos { world, character, chance }
    }

    fn run(&mut self, seen: &mut Seen) {
        for (which, (_, every)) in self.character.every.clone().into_iter().enumerate() {
            self.next(which, every);
        }
        let end = self.character.span;
        while let Some(which) = self.world.run_until(end) {
            let (fault, every) = self.character.every[which as usize];
            self.strike(fault, seen);
            self.next(which as usize, every);
        }
        self.heal(seen);
    }

    fn next(&mut self, which: usize, every: u64) {
        if every > 0 {
            let us = self.chance.random_range(1..=2 * every);
            self.world.after(us, Event::Alarm(which as u32));
        }
    }

    fn any(&mut self) -> usize {
        self.chance.random_range(0..self.world.machines.len())
    }

    fn strike(&mut self, fault: Fault, seen: &mut Seen) {
        let at = self.any();
        let runs = self.world.machines[at].node.is_some();
        match fault {
            Fault::Propose => self.propose(seen),
            Fault::Kill if runs => {
                seen.note("killed");
                self.world.kill(at);
            }
            Fault::Kill => {
                seen.note("restarted");
                self.world.start(at);
            }
            Fault::Cut => self.cut(at, seen),
            Fault::Pause if runs => {
                seen.note("paused");
                let ms = *[20, 200, 500, 1_500].choose(&mut self.chance).expect("some");
                self.world.pause(at, ms * MS);
            }
            Fault::SlowDisk => {
                seen.note("slow disk");
                let us = *[100, MS, 40 * MS, 300 * MS].choose(&mut self.chance).expect("some");
                self.world.machines[at].disk.sync_us = us;
            }
            Fault::Transfer => {
                let Some(leader) = self.world.leader() else { return };
                if self.is_still(leader) {
                    return;
                }
                if self.world.transfer(leader, at as u64 + 1) {
                    seen.note("handed over");
                }
            }
            Fault::Compact if runs && !self.is_still(at) => {
                seen.note("compacted");
                self.world.make_base(at);
            }
            Fault::Change => self.change(seen),
            Fault::MayLead if runs && !self.is_still(at) => {
                seen.note("may lead or not");
                let may = self.chance.random_bool(0.6);
                self.world.machines[at].node().set_may_lead(may);
                self.world.settle(at);
            }
            Fault::Unreachable if runs && !self.is_still(at) => {
                let to = self.any() as u64 + 1;
                self.world.machines[at].node().unreachable(to);
                self.world.settle(at);
            }
            Fault::Pause | Fault::Compact | Fault::MayLead | Fault::Unreachable => {}
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

    /// One link one way, or all of a machine both ways, or everything is whole again.
    fn cut(&mut self, at: usize, seen: &mut Seen) {
        let count = self.world.machines.len() as u64;
        let id = at as u64 + 1;
        match self.chance.random_range(0..4) {
            0 => {
                seen.note("cut one way");
                let other = self.chance.random_range(1..=count);
                self.world.cut.insert((id, other));
            }
            1 => {
                seen.note("cut off");
                let others = (1..=count).flat_map(|other| [(id, other), (other, id)]);
                self.world.cut.extend(others);
            }
            _ => self.world.cut.clear(),
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
        if node.change(&target).is_ok() {
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
        world.cut.clear();
        world.options.loss = 0;
        world.options.reorder = false;
        world.options.delay = (100, 150);
        world.options.bases_lost = 0;
        world.options.sync_us = 100;
        for at in 0..world.machines.len() {
            world.machines[at].disk.sync_us = 100;
            if world.machines[at].paused_until > world.now {
                let life = world.machines[at].life;
                world.machines[at].paused_until = 0;
                world.after(0, Event::Resumes { at, life });
            }
            if world.machines[at].node.is_none() {
                world.start(at);
            }
            world.machines[at].node().set_may_lead(true);
        }
        let took = world
            .wait_for("a leader after all was healed", 10 * E, |world| world.leader().is_some());
        seen.count("ms without a leader after healing", took / MS);
        let begin = world.now;
        for _ in 0..50 {
            let end = self.world.now + 10 * MS;
            while self.world.run_until(end).is_some() {}
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
        "acknowledged",
        "bases restored",
        "bases sent",
        "compacted",
        "cut off",
        "cut one way",
        "handed over",
        "joined",
        "joint",
        "killed",
        "made a learner",
        "made a voter",
        "may lead or not",
        "not taken",
        "paused",
        "promises",
        "proposed",
        "read from disk",
        "removed",
        "renamed",
        "replaced",
        "restarted",
        "run twice",
        "slow disk",
    ]);
}
