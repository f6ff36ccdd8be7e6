//! One host of three is sick: its disk hangs, is slow, is full, comes and goes, or its process stalls. Facts are decided
//! all the time by whoever leads, and what counts is for how long none is acknowledged.

use super::site::{FORMED_WITHIN, Site, Weather};
use super::world::{E, MS, SECOND};
use crate::support::faults::Nodes;
use crate::support::seeds::{Seen, Telltale, run_seeds, seeds_or};
use delayd::cluster::timing::health::Why;
use delayd::limits::WELL_AGAIN_US;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// For so long nothing may be acknowledged.
const SILENCE_MAX: u64 = 2 * SECOND + E;
/// Between two decisions.
const EACH: u64 = 5 * MS;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Hangs,
    Full,
    /// Each sync takes so long, µs.
    Slow(u64),
    /// It hangs for so long, µs, and works for as long.
    ComesAndGoes(u64),
    /// The process stands still for so long, µs, and goes on for as long.
    StandsStill(u64),
}

/// What is seen of a run.
struct Watch {
    site: Site,
    /// When something was acknowledged last, and the longest span without.
    acked: (usize, u64),
    silence: u64,
    /// The host that leads, since when, and how often that changed.
    leader: Option<usize>,
    changes: usize,
}

impl Watch {
    fn new(seed: u64) -> Watch {
        let mut weather = Weather::calm(3);
        (weather.turn_us, weather.tells) = (2 * MS, true);
        let mut site = Site::new(seed, weather);
        site.start_all();
        site.wait_for("it has formed", FORMED_WITHIN, Site::has_formed);
        // Everybody has told how well it is, and the first syncs are forgotten.
        let (now, leader) = (site.now, site.leader());
        let mut watch = Watch { site, acked: (0, now), silence: 0, leader, changes: 0 };
        watch.run_for(SECOND);
        (watch.silence, watch.changes) = (0, 0);
        watch
    }

    fn run_for(&mut self, us: u64) {
        let end = self.site.now + us;
        while self.site.now < end {
            let leader = self.site.leader();
            if let Some(at) = leader.filter(|at| self.may_add(*at)) {
                self.site.decide(at, 1);
            }
            if leader.is_some() && leader != self.leader {
                (self.leader, self.changes) = (leader, self.changes + 1);
            }
            let until = (self.site.now + EACH).min(end);
            while self.site.step(until) {
                self.look();
            }
        }
        self.silence = self.silence.max(self.site.now - self.acked.1);
    }

    /// As admission: what is full adds nothing.
    fn may_add(&self, at: usize) -> bool {
        let host = &self.site.hosts[at];
        !self.site.is_still(at) && !host.disk.is_full
    }

    fn look(&mut self) {
        let count = self.site.acked.len();
        if count > self.acked.0 {
            self.silence = self.silence.max(self.site.now - self.acked.1);
            self.acked = (count, self.site.now);
        }
    }

    fn why(&self, at: usize) -> Option<Why> {
        let driver = self.site.hosts[at].driver.as_ref()?;
        driver.status().health.sick.map(|sick| sick.why)
    }

    fn leads(&self) -> usize {
        self.site.leader().expect("one leads")
    }

    fn trouble(&mut self, at: usize, trouble: Trouble, us: u64) {
        let end = self.site.now + us;
        match trouble {
            Trouble::Hangs => {
                self.site.hang(at, true);
                self.run_for(us);
            }
            Trouble::Full => {
                self.site.fill(at, true);
                self.run_for(us);
            }
            Trouble::Slow(sync_us) => {
                self.site.slow(at, Some(sync_us));
                self.run_for(us);
            }
            Trouble::ComesAndGoes(each) => {
                while self.site.now < end {
                    self.site.hang(at, true);
                    self.run_for(each);
                    self.site.hang(at, false);
                    self.run_for(each);
                }
            }
            Trouble::StandsStill(each) => {
                while self.site.now < end {
                    Site::pause(&mut self.site, at, each);
                    self.run_for(each);
                    self.run_for(each);
                }
            }
        }
    }

    fn heal(&mut self) {
        self.site.heal();
        self.run_for(SECOND);
        self.site.wait_for("all hosts equal", 30 * SECOND, Site::is_equal);
        self.site.check_acked();
        assert!(self.site.refusals.is_empty(), "refused: {:?}", self.site.refusals);
    }
}

fn draw(chance: &mut SmallRng) -> Trouble {
    let us = *[20 * MS, 100 * MS, 400 * MS, SECOND].choose(chance).expect("some");
    match chance.random_range(0..5) {
        0 => Trouble::Hangs,
        1 => Trouble::Full,
        2 => Trouble::Slow(us),
        3 => Trouble::ComesAndGoes(us.max(200 * MS) * 2),
        _ => Trouble::StandsStill(us),
    }
}

fn one_of_three(seed: u64, seen: &mut Seen) {
    let mut chance = SmallRng::seed_from_u64(seed ^ 0x51c);
    let trouble = draw(&mut chance);
    let mut watch = Watch::new(seed);
    let is_leader = chance.random_bool(0.7);
    let leader = watch.leads();
    let at = if is_leader { leader } else { (leader + chance.random_range(1..3)) % 3 };
    let _telltale =
        Telltale(format!("DELAYD_SEED={seed}: {trouble:?} of n{}, led by n{}", at + 1, leader + 1));
    seen.note(match trouble {
        Trouble::Hangs => "hung",
        Trouble::Full => "full",
        Trouble::Slow(_) => "slow",
        Trouble::ComesAndGoes(_) => "came and went",
        Trouble::StandsStill(_) => "stood still",
    });
    seen.note(if is_leader { "the leader's" } else { "a follower's" });
    watch.trouble(at, trouble, chance.random_range(6..=15) * SECOND);
    assert!(watch.silence <= SILENCE_MAX, "{} µs without an acknowledgement", watch.silence);
    // There and back at most: a standstill that is longer than E costs the leader its place by itself.
    let most = if matches!(trouble, Trouble::StandsStill(_)) { 2 } else { 1 };
    assert!(watch.changes <= most, "{} changes of the leader", watch.changes);
    if matches!(trouble, Trouble::Hangs | Trouble::Full) {
        assert_ne!(watch.leads(), at, "it leads: {}", watch.site.shown());
        assert!(watch.why(at).is_some(), "it does not say that it is sick");
    }
    // The third one is elected, or none is for want of its vote: never the sick one.
    let next = watch.leads();
    // One that works now and then may be elected then.
    let is_in_trouble = watch.why(at).is_some() && !matches!(trouble, Trouble::ComesAndGoes(_));
    if is_in_trouble && next != at {
        Site::kill(&mut watch.site, next);
        watch.run_for(SILENCE_MAX);
        assert_ne!(watch.site.leader(), Some(at), "it was elected: {}", watch.site.shown());
        seen.note("leaders killed beside it");
        Nodes::start(&mut watch.site, next);
    }
    seen.count("answered without the leader's disk", watch.site.early);
    seen.count("changes of the leader", watch.changes as u64);
    watch.heal();
}

#[test]
fn one_sick_host_of_three_silences_nobody() {
    let seen = Seen::of_all(run_seeds(seeds_or(40), one_of_three));
    seen.check(&[
        "a follower's",
        "answered without the leader's disk",
        "came and went",
        "changes of the leader",
        "full",
        "hung",
        "leaders killed beside it",
        "slow",
        "stood still",
        "the leader's",
    ]);
}

/// All disks are slow alike, some syncs of theirs hang: nothing is won by another leader.
#[test]
fn where_all_disks_are_alike_leadership_does_not_go_round() {
    run_seeds(seeds_or(6), |seed, _: &mut Seen| {
        let mut chance = SmallRng::seed_from_u64(seed ^ 0xa11);
        let us = *[20 * MS, 100 * MS, 400 * MS, 900 * MS].choose(&mut chance).expect("some");
        let _telltale = Telltale(format!("DELAYD_SEED={seed}: {us} µs a sync"));
        let mut watch = Watch::new(seed);
        let end = watch.site.now + 60 * SECOND;
        while watch.site.now < end {
            for at in 0..3 {
                let us = chance.random_range(us / 2..=us * 2);
                watch.site.slow(at, Some(us));
            }
            watch.run_for(500 * MS);
        }
        assert!(watch.changes <= 1, "{} changes of the leader in a minute", watch.changes);
        watch.heal();
    });
}

/// Where every disk is full or hangs somebody leads all the same.
#[test]
fn where_all_are_sick_one_leads() {
    let mut watch = Watch::new(3);
    let leader = watch.leads();
    (0..3).for_each(|at| watch.site.fill(at, true));
    watch.run_for(30 * SECOND);
    assert_eq!((watch.leads(), watch.changes), (leader, 0));
    (0..3).for_each(|at| watch.site.fill(at, false));
    watch.run_for(WELL_AGAIN_US / 2);
    // None is well yet: what is left of three elects one of them.
    assert!((0..3).all(|at| watch.why(at) == Some(Why::DiskFull)));
    Site::kill(&mut watch.site, leader);
    watch.run_for(SILENCE_MAX);
    assert_ne!(watch.leads(), leader);
    watch.heal();
}

/// 200 ms are less than E, so nobody elects another leader by itself.
#[test]
fn a_leader_that_stands_still_now_and_then_makes_way() {
    let mut watch = Watch::new(11);
    let leader = watch.leads();
    watch.trouble(leader, Trouble::StandsStill(200 * MS), 10 * SECOND);
    assert_eq!(watch.why(leader), Some(Why::StandsStill));
    assert_ne!(watch.leads(), leader, "it hands over");
    assert_eq!(watch.changes, 1);
    watch.heal();
}

/// The leader's own disk counts as one of three: what the others have is acknowledged as fast as ever.
#[test]
fn a_slow_disk_of_the_leader_costs_little() {
    for sync_us in [20 * MS, 100 * MS, 400 * MS] {
        let mut watch = Watch::new(sync_us);
        let leader = watch.leads();
        watch.site.slow(leader, Some(sync_us));
        watch.run_for(SECOND);
        assert!(watch.silence <= 20 * MS, "{} µs without an acknowledgement", watch.silence);
        watch.run_for(4 * SECOND);
        assert_eq!(watch.why(leader), Some(Why::DiskSlow));
        assert_ne!(watch.leads(), leader, "it hands over");
        watch.heal();
    }
}
