//! Faults of a cluster, drawn from a seed: which nodes are killed, paused, cut off, or have a sick disk, when, and when that
//! is mended.
//! Every floor of the cluster's tests has the same schedule, whatever its nodes are made of: see [`Nodes`].
//!
//! A run that fails prints its faults, one a line: `1.204 s: cut n1>n2 n2>n1 for 310 ms`.

use crate::support::seeds::Seen;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;
/// How long a sync of a slow disk takes, µs.
const SLOW_US: [u64; 4] = [MS, 40 * MS, 300 * MS, 800 * MS];

/// From one node to another.
pub type Way = (usize, usize);

/// Nodes of a cluster by their places. What does not apply any more changes nothing: a node that is killed may be down.
pub trait Nodes {
    fn count(&self) -> usize;
    /// The one that decides: it is struck more often than others.
    fn leader(&self) -> Option<usize>;
    fn kill(&mut self, at: usize);
    fn start(&mut self, at: usize);
    /// It stands still for so long at most, µs.
    fn pause(&mut self, at: usize, us: u64);
    fn go_on(&mut self, at: usize);
    /// Nothing goes this way until it is mended.
    fn cut(&mut self, way: Way);
    fn mend(&mut self, way: Way);
    /// Each of its syncs takes so long, µs, or as long as usual.
    fn slow(&mut self, at: usize, sync_us: Option<u64>);
    /// No sync ends until it is over.
    fn hang(&mut self, _at: usize, _is_on: bool) {}
    /// Another program takes all the room on the disk, and gives it back.
    fn fill(&mut self, _at: usize, _is_on: bool) {}
    /// Packets from the node and to it are lost, and arrive when they are sent again.
    fn lose(&mut self, _at: usize, _is_on: bool) {}
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Kill,
    Pause,
    Cut,
    Slow,
    Hang,
    Fill,
    Lose,
    /// One of the caller's own, by its number.
    Own(usize),
}

/// What happens to one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    Kill,
    Pause,
    /// Nothing passes from it to the others, nor back.
    Apart,
    /// Each sync takes so long, µs.
    Slow(u64),
    Hang,
    Fill,
    Lose,
}

/// How often each kind happens on average, µs; 0 never.
pub type Rates = Vec<(Kind, u64)>;

/// Each seed has a character of its own: about half of the kinds, rarer or more often than usual.
pub fn swarm(
    chance: &mut SmallRng,
    usual: &[(Kind, u64)],
    is_kept: impl Fn(Kind) -> bool,
) -> Rates {
    let mut draw = |(kind, us): &(Kind, u64)| {
        let is_on = is_kept(*kind) || chance.random_bool(0.55);
        (*kind, if is_on { us * chance.random_range(30..=200) / 100 } else { 0 })
    };
    usual.iter().map(&mut draw).collect()
}

/// See the module.
pub struct Faults {
    chance: SmallRng,
    rates: Rates,
    /// So many nodes may be down, still, cut off, or without a disk that works, at the same time.
    pub away_max: usize,
    /// µs.
    pub longest: u64,
    /// By time and number; with the rate at which it comes again.
    agenda: BTreeMap<(u64, u64), (Kind, Option<usize>)>,
    number: u64,
    /// What is wrong, and until when.
    wrong: BTreeMap<Wrong, u64>,
    pub seen: Seen,
    told: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Wrong {
    Down(usize),
    Still(usize),
    Slow(usize),
    Hung(usize),
    Full(usize),
    Lossy(usize),
    Cut(Way),
    /// No fault of its own: this node is among those that are cut off.
    Apart(usize),
}

impl Faults {
    /// The first of each kind comes after `begin`.
    pub fn new(seed: u64, rates: Rates, begin: u64) -> Faults {
        let mut faults = Faults {
            chance: SmallRng::seed_from_u64(seed),
            rates,
            away_max: usize::MAX,
            longest: 3 * SECOND,
            agenda: BTreeMap::new(),
            number: 0,
            wrong: BTreeMap::new(),
            seen: Seen::default(),
            told: Vec::new(),
        };
        (0..faults.rates.len()).for_each(|rate| faults.plan(begin, rate));
        faults
    }

    /// When something is to be done next, if that is not after `end`.
    pub fn next_before(&self, end: u64) -> Option<u64> {
        let planned = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let mended = self.wrong.values().min().copied();
        planned.into_iter().chain(mended).min().filter(|at| *at <= end)
    }

    /// Does one thing that is due by now, what is mended first. A fault of the caller's own is the caller's to do.
    pub fn act(&mut self, now: u64, nodes: &mut impl Nodes) -> Option<usize> {
        if self.mend(now, nodes) {
            return None;
        }
        let entry = self.agenda.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (kind, rate) = entry.remove();
        if let Some(rate) = rate {
            self.plan(now, rate);
        }
        match kind {
            Kind::Own(which) => Some(which),
            kind => {
                self.strike(now, kind, nodes);
                None
            }
        }
    }

    /// One of the caller's own, once.
    pub fn later(&mut self, at: u64, own: usize) {
        self.number += 1;
        self.agenda.insert((at, self.number), (Kind::Own(own), None));
    }

    /// Draws one of that kind; how long it lasts, µs.
    pub fn strike(&mut self, now: u64, kind: Kind, nodes: &mut impl Nodes) -> u64 {
        let us = self.lasts();
        let (harm, several) = match kind {
            Kind::Kill => (Harm::Kill, true),
            Kind::Pause => (Harm::Pause, true),
            Kind::Hang => (Harm::Hang, true),
            Kind::Fill => (Harm::Fill, true),
            Kind::Lose => (Harm::Lose, false),
            Kind::Slow => {
                let at = self.node(nodes);
                let sync_us = *SLOW_US.choose(&mut self.chance).expect("some");
                self.hit(now, at, Harm::Slow(sync_us), us, nodes);
                return us;
            }
            Kind::Cut => {
                self.strike_links(now, us, nodes);
                return us;
            }
            Kind::Own(_) => unreachable!("the caller's"),
        };
        let struck = if several { self.struck(nodes) } else { vec![self.node(nodes)] };
        struck.into_iter().for_each(|at| self.hit(now, at, harm, us, nodes));
        us
    }

    /// Does this to that node, for so long.
    pub fn hit(&mut self, now: u64, at: usize, harm: Harm, us: u64, nodes: &mut impl Nodes) {
        let (wrong, seen, told) = match harm {
            Harm::Apart => return self.isolate(now, at, us, nodes),
            Harm::Kill => (Wrong::Down(at), "killed", "kill".to_owned()),
            Harm::Pause => (Wrong::Still(at), "paused", "pause".to_owned()),
            Harm::Slow(sync_us) => {
                (Wrong::Slow(at), "slow disk", format!("syncs of {sync_us} µs at"))
            }
            Harm::Hang => (Wrong::Hung(at), "hung disk", "hang the disk of".to_owned()),
            Harm::Fill => (Wrong::Full(at), "full disk", "fill the disk of".to_owned()),
            Harm::Lose => (Wrong::Lossy(at), "lost packets", "lose packets of".to_owned()),
        };
        self.tell(now, format!("{told} n{}", at + 1), us);
        self.seen.note(seen);
        let until = self.begin(wrong, now + us);
        match harm {
            Harm::Kill => nodes.kill(at),
            Harm::Pause => nodes.pause(at, until - now),
            Harm::Slow(sync_us) => nodes.slow(at, Some(sync_us)),
            Harm::Hang => nodes.hang(at, true),
            Harm::Fill => nodes.fill(at, true),
            Harm::Lose => nodes.lose(at, true),
            Harm::Apart => unreachable!("done above"),
        }
    }

    /// Cuts a node off, both ways.
    pub fn isolate(&mut self, now: u64, at: usize, us: u64, nodes: &mut impl Nodes) {
        let ways = ways_of(at, nodes.count());
        self.begin(Wrong::Apart(at), now + us);
        self.cut(now, &ways, us, nodes);
    }

    /// Nothing is wrong any more, and nothing is planned.
    pub fn heal(&mut self, nodes: &mut impl Nodes) {
        self.agenda.clear();
        while self.mend(u64::MAX, nodes) {}
    }

    /// The newest one, for a reader.
    pub fn newest(&self) -> &str {
        self.told.last().map_or("", String::as_str)
    }

    fn plan(&mut self, now: u64, rate: usize) {
        let (kind, every) = self.rates[rate];
        if every > 0 {
            let at = now + self.chance.random_range(1..=2 * every);
            self.number += 1;
            self.agenda.insert((at, self.number), (kind, Some(rate)));
        }
    }

    /// Short ones that nobody may notice, and long ones.
    fn lasts(&mut self) -> u64 {
        match self.chance.random_range(0..4) {
            0 => self.chance.random_range(1..200 * MS),
            1 | 2 => self.chance.random_range(200 * MS..1_500 * MS),
            _ => self.chance.random_range(1_500 * MS..self.longest),
        }
    }

    /// Half of the time the one that matters most.
    fn node(&mut self, nodes: &impl Nodes) -> usize {
        let any = self.chance.random_range(0..nodes.count());
        nodes.leader().filter(|_| self.chance.random_bool(0.5)).unwrap_or(any)
    }

    /// One node mostly, several at times; no more than may be away.
    fn struck(&mut self, nodes: &impl Nodes) -> Vec<usize> {
        let mut all: Vec<usize> = (0..nodes.count()).collect();
        all.shuffle(&mut self.chance);
        let first = self.node(nodes);
        let (draw, half) = (self.chance.random_range(0..6), nodes.count() / 2 + 1);
        let mut struck = match draw {
            0 => all[..half].to_vec(),
            1 => all,
            _ => vec![first],
        };
        let mut away = self.away();
        struck.retain(|at| {
            let may = away.contains(at) || away.len() < self.away_max;
            if may && !away.contains(at) {
                away.push(*at);
            }
            may
        });
        struck
    }

    fn away(&self) -> Vec<usize> {
        let mut away: Vec<usize> = self.wrong.keys().filter_map(Wrong::away).collect();
        away.sort_unstable();
        away.dedup();
        away
    }

    /// One way, both, all that leads to a node, or all of it.
    fn strike_links(&mut self, now: u64, us: u64, nodes: &mut impl Nodes) {
        let (at, count) = (self.node(nodes), nodes.count());
        let away = self.away();
        if count < 2 || !away.contains(&at) && away.len() >= self.away_max {
            return;
        }
        let other = (at + self.chance.random_range(1..count)) % count;
        let ways = match self.chance.random_range(0..4) {
            0 => vec![(at, other)],
            1 => vec![(at, other), (other, at)],
            2 => ways_of(at, count).into_iter().filter(|(_, to)| *to == at).collect(),
            _ => ways_of(at, count),
        };
        self.begin(Wrong::Apart(at), now + us);
        self.cut(now, &ways, us, nodes);
    }

    fn cut(&mut self, now: u64, ways: &[Way], us: u64, nodes: &mut impl Nodes) {
        self.seen.note(if ways.len() == 1 { "cut one way" } else { "cut off" });
        let way = |(from, to): &Way| format!(" n{}>n{}", from + 1, to + 1);
        self.tell(now, format!("cut{}", ways.iter().map(way).collect::<String>()), us);
        for way in ways {
            self.begin(Wrong::Cut(*way), now + us);
            nodes.cut(*way);
        }
    }

    /// What was wrong before stays so for as long; until when.
    fn begin(&mut self, wrong: Wrong, until: u64) -> u64 {
        let end = self.wrong.entry(wrong).or_default();
        *end = until.max(*end);
        *end
    }

    /// Ends one that is over by now; whether there was one.
    fn mend(&mut self, now: u64, nodes: &mut impl Nodes) -> bool {
        let over = self.wrong.iter().filter(|(_, until)| **until <= now);
        let Some(wrong) = over.min_by_key(|(_, until)| **until).map(|(wrong, _)| *wrong) else {
            return false;
        };
        self.wrong.remove(&wrong);
        match wrong {
            Wrong::Down(at) => {
                self.seen.note("restarted");
                nodes.start(at);
            }
            Wrong::Still(at) => nodes.go_on(at),
            Wrong::Slow(at) => nodes.slow(at, None),
            Wrong::Hung(at) => nodes.hang(at, false),
            Wrong::Full(at) => nodes.fill(at, false),
            Wrong::Lossy(at) => nodes.lose(at, false),
            Wrong::Cut(way) => nodes.mend(way),
            Wrong::Apart(_) => {}
        }
        true
    }

    fn tell(&mut self, now: u64, what: String, us: u64) {
        let (s, ms) = (now / SECOND, now % SECOND / MS);
        self.told.push(format!("{s}.{ms:03} s: {what} for {} ms", us / MS));
    }
}

impl Wrong {
    /// The node that the others cannot talk to, or that cannot confirm entries.
    fn away(&self) -> Option<usize> {
        match self {
            Wrong::Down(at) | Wrong::Still(at) | Wrong::Apart(at) => Some(*at),
            Wrong::Hung(at) | Wrong::Full(at) => Some(*at),
            Wrong::Slow(_) | Wrong::Lossy(_) | Wrong::Cut(_) => None,
        }
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("faults:\n{}", self.told.join("\n"));
        }
    }
}

/// Every way from a node and to it.
pub fn ways_of(at: usize, count: usize) -> Vec<Way> {
    let others = (0..count).filter(|other| *other != at);
    others.flat_map(|other| [(at, other), (other, at)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five nodes that only remember what is wrong with them.
    #[derive(Default, PartialEq, Debug)]
    struct Marked {
        down: [bool; 5],
        still: [bool; 5],
        slow: [bool; 5],
        hung: [bool; 5],
        full: [bool; 5],
        lossy: [bool; 5],
        cut: std::collections::BTreeSet<Way>,
    }

    impl Marked {
        fn away(&self) -> usize {
            let is_cut = |at| ways_of(at, 5).iter().all(|way| self.cut.contains(way));
            let is_sick = |at: usize| self.hung[at] || self.full[at];
            (0..5)
                .filter(|at| self.down[*at] || self.still[*at] || is_cut(*at) || is_sick(*at))
                .count()
        }
    }

    impl Nodes for Marked {
        fn count(&self) -> usize {
            5
        }
        fn leader(&self) -> Option<usize> {
            (0..5).find(|at| !self.down[*at])
        }
        fn kill(&mut self, at: usize) {
            self.down[at] = true;
        }
        fn start(&mut self, at: usize) {
            assert!(std::mem::take(&mut self.down[at]));
        }
        fn pause(&mut self, at: usize, _: u64) {
            self.still[at] = true;
        }
        fn go_on(&mut self, at: usize) {
            assert!(std::mem::take(&mut self.still[at]));
        }
        fn cut(&mut self, way: Way) {
            self.cut.insert(way);
        }
        fn mend(&mut self, way: Way) {
            assert!(self.cut.remove(&way));
        }
        fn slow(&mut self, at: usize, sync_us: Option<u64>) {
            self.slow[at] = sync_us.is_some();
        }
        fn hang(&mut self, at: usize, is_on: bool) {
            self.hung[at] = is_on;
        }
        fn fill(&mut self, at: usize, is_on: bool) {
            self.full[at] = is_on;
        }
        fn lose(&mut self, at: usize, is_on: bool) {
            self.lossy[at] = is_on;
        }
    }

    const ALL: [(Kind, u64); 8] = [
        (Kind::Kill, SECOND),
        (Kind::Pause, SECOND),
        (Kind::Cut, SECOND),
        (Kind::Slow, SECOND),
        (Kind::Hang, SECOND),
        (Kind::Fill, SECOND),
        (Kind::Lose, SECOND),
        (Kind::Own(3), SECOND),
    ];

    fn run(seed: u64, away_max: usize) -> (Vec<String>, usize, u64) {
        let mut faults = Faults::new(seed, ALL.to_vec(), 0);
        faults.away_max = away_max;
        let (mut nodes, mut most, mut own, mut last) = (Marked::default(), 0, 0, 0);
        while let Some(now) = faults.next_before(60 * SECOND) {
            assert!(now >= last, "time goes back");
            last = now;
            own += faults.act(now, &mut nodes).map_or(0, |which| which as u64 / 3);
            most = most.max(nodes.away());
        }
        faults.heal(&mut nodes);
        assert_eq!(nodes, Marked::default(), "all is mended");
        (std::mem::take(&mut faults.told), most, own)
    }

    #[test]
    fn a_seed_has_its_faults_and_all_of_them_end() {
        for seed in 0..50 {
            let (told, most, own) = run(seed, usize::MAX);
            assert_eq!(told, run(seed, usize::MAX).0, "a second run of the seed differs");
            assert!(told.len() > 100 && own > 10, "{} faults, {own} own", told.len());
            assert_eq!(most, 5, "all are away at some time");
        }
    }

    #[test]
    fn a_majority_stays_where_it_is_to() {
        for seed in 0..50 {
            assert_eq!(run(seed, 2).1, 2);
        }
    }
}
