//! Everything that may go wrong with hosts at once, from empty disks on, each seed with a character of its own.

use super::site::{FORMED_WITHIN, Site, Weather};
use super::world::{MS, SECOND};
use crate::support::faults::{Faults, Kind, Rates, swarm};
use crate::support::seeds::{Seen, Telltale, run_seeds, seeds_or};
use delayd::limits::LEADERLESS_US;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// What happens besides kills, pauses, cuts and slow disks.
#[derive(Clone, Copy, Debug)]
enum Own {
    Decide,
    HandOver,
    Resign,
    Base,
    Disconnect,
}

use Own::{Base, Decide, Disconnect, HandOver, Resign};

const OWN: [Own; 5] = [Decide, HandOver, Resign, Base, Disconnect];

/// How often each happens on average, µs.
const USUAL: [(Kind, u64); 11] = [
    (own(Decide), 10 * MS),
    (Kind::Kill, SECOND),
    (Kind::Cut, SECOND),
    (Kind::Pause, SECOND),
    (Kind::Slow, SECOND),
    (Kind::Hang, 2 * SECOND),
    (Kind::Fill, 2 * SECOND),
    (own(HandOver), SECOND),
    (own(Resign), 2 * SECOND),
    (own(Base), SECOND / 2),
    (own(Disconnect), SECOND),
];

const fn own(own: Own) -> Kind {
    Kind::Own(own as usize)
}

struct Storm {
    site: Site,
    rates: Rates,
    seed: u64,
    /// At least a majority is there at all times.
    is_mild: bool,
    chance: SmallRng,
    span: u64,
    /// Whether the faults begin before the cluster has formed.
    is_early: bool,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut chance = SmallRng::seed_from_u64(seed);
        let mut weather = Weather::calm(if seed.is_multiple_of(4) { 5 } else { 3 });
        if chance.random_bool(0.3) {
            weather.delay = (100, *[MS, 20 * MS, 200 * MS].choose(&mut chance).expect("some"));
        }
        if chance.random_bool(0.4) {
            weather.loss = *[5_000, 50_000, 150_000].choose(&mut chance).expect("some");
        }
        // Up to 1.27 times as fast as another one.
        weather.drift = if chance.random_bool(0.5) { 120_000 } else { 0 };
        weather.turn_us = *[MS / 2, 3 * MS, 40 * MS].choose(&mut chance).expect("some");
        weather.replay = chance.random_bool(0.5);
        weather.tells = chance.random_bool(0.7);
        weather.merged = *[8, 64, 4 << 10].choose(&mut chance).expect("some");
        let rates = swarm(&mut chance, &USUAL, |kind| kind == own(Decide));
        let is_mild = chance.random_bool(0.3);
        let (span, is_early) = (chance.random_range(3..=6) * SECOND, chance.random_bool(0.5));
        let site = Site::new(seed ^ 0x5eed, weather);
        Storm { site, rates, seed, is_mild, chance, span, is_early }
    }

    fn run(&mut self, seen: &mut Seen) {
        self.site.start_all();
        if !self.is_early {
            let calm = (self.site.weather.loss, self.site.weather.delay);
            (self.site.weather.loss, self.site.weather.delay) = (0, (100, 150));
            self.site.wait_for("it has formed", FORMED_WITHIN, Site::has_formed);
            (self.site.weather.loss, self.site.weather.delay) = calm;
        }
        let mut faults = Faults::new(self.seed ^ 0xfa17, self.rates.clone(), self.site.now);
        if self.is_mild {
            faults.away_max = (self.site.hosts.len() - 1) / 2;
        }
        let end = self.site.now + self.span;
        while let Some(at) = faults.next_before(end) {
            self.site.run_until(at);
            if let Some(which) = faults.act(at, &mut self.site) {
                self.strike(OWN[which], seen);
            }
        }
        self.site.run_until(end);
        faults.heal(&mut self.site);
        std::mem::take(&mut faults.seen).add_to(seen);
        self.heal(seen);
    }

    fn strike(&mut self, own: Own, seen: &mut Seen) {
        let count = self.site.hosts.len();
        let at = self.chance.random_range(0..count);
        let is_awake = self.site.runs(at) && !self.site.is_still(at);
        match own {
            Own::Decide => self.decide(seen),
            Own::HandOver => self.hand_over(at, seen),
            Own::Resign if is_awake => {
                let host = &mut self.site.hosts[at];
                seen.count("resigned", u64::from(host.led.is_some()));
                host.driver().resign();
                self.site.settle(at);
            }
            Own::Base if is_awake => {
                let host = &mut self.site.hosts[at];
                if let Some(base) = host.make_base() {
                    seen.note("bases");
                    host.driver().base_made(base);
                }
            }
            Own::Disconnect => {
                seen.note("disconnected");
                let to = self.chance.random_range(0..count);
                self.site.disconnect(at, to);
            }
            Own::Resign | Own::Base => {}
        }
    }

    fn hand_over(&mut self, to: usize, seen: &mut Seen) {
        let Some(at) = self.site.leader().filter(|at| !self.site.is_still(*at)) else { return };
        let to = self.chance.random_bool(0.5).then(|| self.site.hosts[to].id);
        let host = &mut self.site.hosts[at];
        let clock = host.clock(self.site.now);
        if host.driver().hand_over(clock, to) {
            seen.note("handed over");
            assert_eq!(host.driver().lease().0, None, "the lease has ended before");
        }
        self.site.settle(at);
    }

    /// At whoever believes that it decides: there may be several.
    fn decide(&mut self, seen: &mut Seen) {
        for at in 0..self.site.hosts.len() {
            if self.site.hosts[at].leads() && !self.site.is_still(at) {
                let count = self.chance.random_range(1..=20);
                seen.count("decided", u64::from(self.site.decide(at, count)));
            }
        }
    }

    /// Nothing is wrong any more: it has formed and is led within 10 E (20 E where clocks are told), and all have the same within 30 s.
    fn heal(&mut self, seen: &mut Seen) {
        self.site.heal();
        // One that knows of no clocks but its own waits so long before it asks for votes.
        let most = FORMED_WITHIN + if self.site.weather.tells { LEADERLESS_US } else { 0 };
        let took = self.site.wait_for("formed and led", most, Site::has_formed);
        seen.count("ms until it was led", took / MS);
        for _ in 0..50 {
            let end = self.site.now + 10 * MS;
            self.site.run_until(end);
            self.decide(seen);
        }
        let site = &mut self.site;
        site.wait_for("all hosts equal", 30 * SECOND, Site::is_equal);
        site.check_acked();
        seen.count("acknowledged", site.acked.len() as u64);
        seen.count("leaders", site.audit.leaders() as u64);
        seen.count("entries", site.audit.end());
        seen.count("refused batches", site.refused_batches);
        seen.count("killed while forming", site.killed_while_forming);
        seen.count("reads by the lease", site.lease_reads);
        seen.count("answered without the leader's disk", site.early);
        for host in &site.hosts {
            seen.count("reloaded", host.turn.reloads);
            seen.count("not answered", host.turn.lost);
        }
        assert!(site.refusals.is_empty(), "refused: {:?}", site.refusals);
        assert!(site.audit.acked() == 0 && !site.acked.is_empty());
    }
}

fn run(seed: u64, seen: &mut Seen) {
    let mut storm = Storm::new(seed);
    let _telltale =
        Telltale(format!("DELAYD_SEED={seed}: {:?}, {:?}", storm.site.weather, storm.rates));
    storm.run(seen);
}

#[test]
fn no_fact_is_lost_or_told_twice_and_all_heals() {
    let seen = Seen::of_all(run_seeds(seeds_or(300), run));
    seen.check(&[
        "acknowledged",
        "answered without the leader's disk",
        "bases",
        "cut off",
        "cut one way",
        "decided",
        "disconnected",
        "full disk",
        "handed over",
        "hung disk",
        "killed",
        "killed while forming",
        "not answered",
        "paused",
        "reads by the lease",
        "refused batches",
        "reloaded",
        "resigned",
        "restarted",
        "slow disk",
    ]);
}
