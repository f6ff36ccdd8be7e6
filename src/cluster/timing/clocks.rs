//! The wall clocks of the nodes, as one of them knows them: how far each is from this node's, and what most of them say.
//!
//! Each node sends its clock to the others, with the last note it received from them and how long ago. A note is at
//! least as old as nothing and at most as old as the round trip, so each note gives two bounds of the other clock (as
//! in NTP, RFC 5905 section 8); the narrowest of the last 10 s count. Everything is kept relative to this machine's
//! monotonic clock, so it does not matter if this node's own wall clock is set meanwhile.
//!
//! The *median* of the clocks of all voters is what the majority agrees on: a wrong one of three moves it by no more
//! than the distance of the other two. An even number has two in the middle, and neither is known to be right: no clock
//! between them counts as wrong, and time follows the earlier one, because being late can be corrected and being early
//! cannot. Nodes that are away count for an hour with their last clock.

use super::health::Health;
use crate::time::Micros;
use std::collections::{BTreeMap, VecDeque};

/// A note from one node to another, times in µs; little-endian numbers in this order on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockNote {
    /// When it was sent, by the sender's monotonic clock.
    pub sent: u64,
    pub wall: u64,
    /// `sent` of the newest note that it has had from the receiver; 0 none.
    pub echo: u64,
    /// For how long it has had that.
    pub held: u64,
    /// Up to which index all is committed, said by a leader that has its lease; 0 by any other node.
    pub commit: u64,
    /// `replica-priority` of the sender.
    pub priority: u64,
    /// The sender's health. From protocol 5 on: older nodes do not send or receive it.
    pub health: Option<Health>,
    /// The last index of the sender's log, durable there unless it leads. From protocol 6 on, and only with its health.
    pub last: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// This node's wall clock minus its monotonic clock.
    own: Option<i64>,
    others: BTreeMap<u64, Other>,
}

#[derive(Clone, Debug, Default)]
struct Other {
    /// Its newest note: when it was sent, and when it came.
    newest: (u64, Micros),
    /// Oldest first, of the last [`WINDOW_US`].
    seen: VecDeque<ClockSeen>,
}

/// The peer's wall clock minus this node's monotonic clock is between these.
#[derive(Clone, Copy, Debug)]
struct ClockSeen {
    at: Micros,
    low: i64,
    high: i64,
}

/// The state of a node's wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockStatus {
    /// The lower bound of the median of the wall clocks minus this machine's monotonic clock, µs: nothing that follows
    /// it is early.
    pub base: i64,
    /// How far this node's clock is ahead of the upper bound of the median, µs; below 0: behind.
    pub ahead: i64,
    /// The number of voters with a known clock, including this node.
    pub known: usize,
}

/// Notes older than this do not count if there are newer ones.
const WINDOW_US: u64 = 10_000_000;
/// How long the clock of a node that is away counts: 500 ppm make 1.8 s of it.
const KEPT_US: u64 = 3_600_000_000;
/// The contradiction of two notes that means the clock was set in between: 10 s of 500 ppm, twice.
const SET_US: i64 = 10_000;

impl ClockNote {
    /// Bytes on the wire, before the health.
    pub const BYTES: usize = 48;

    /// The note in wire format.
    pub fn encode(&self) -> Vec<u8> {
        let all = [self.sent, self.wall, self.echo, self.held, self.commit, self.priority];
        let health = self.health.map(|health| health.encode());
        let last = self.last.filter(|_| health.is_some()).map(u64::to_le_bytes);
        all.iter()
            .flat_map(|value| value.to_le_bytes())
            .chain(health.into_iter().flatten())
            .chain(last.into_iter().flatten())
            .collect()
    }

    /// Reads it; nothing if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<ClockNote> {
        let (bytes, more) = bytes.split_first_chunk::<{ ClockNote::BYTES }>()?;
        let (health, last) = match more.split_at_checked(Health::BYTES) {
            None if more.is_empty() => (None, None),
            None => return None,
            Some((health, last)) => {
                let last = match last {
                    [] => None,
                    last => Some(u64::from_le_bytes(last.try_into().ok()?)),
                };
                (Some(Health::decode(health)?), last)
            }
        };
        let mut all = bytes
            .chunks_exact(8)
            .map(|part| u64::from_le_bytes(part.try_into().expect("eight bytes")));
        let mut next = || all.next().expect("six of them");
        let (sent, wall, echo, held) = (next(), next(), next(), next());
        let (commit, priority) = (next(), next());
        let note = ClockNote { sent, wall, echo, held, commit, priority, health, last };
        // Sums of such numbers fit.
        let is_sane = |value: u64| value < 1 << 62;
        let last = last.unwrap_or(0);
        let all = [note.sent, note.wall, note.echo, note.held, note.commit, note.priority, last];
        all.into_iter().all(is_sane).then_some(note)
    }
}

impl Clocks {
    /// This node's wall clock shows `wall` now. Returns whether it was set since the last call: the others must hear of
    /// that at once, because two nodes that trust the last report of a third one are a majority.
    pub fn set_own(&mut self, now: Micros, wall: u64) -> bool {
        let own = wall as i64 - now.0 as i64;
        let before = self.own.replace(own);
        before.is_some_and(|before| own.abs_diff(before) > SET_US as u64)
    }

    /// Whether something is known of the clock of `peer`.
    pub fn knows(&self, peer: u64, now: Micros) -> bool {
        self.others.get(&peer).is_some_and(|other| other.bounds(now).is_some())
    }

    /// Whether this node's clock is known.
    pub fn has_own(&self) -> bool {
        self.own.is_some()
    }

    pub fn note_for(&self, peer: u64, now: Micros) -> Option<ClockNote> {
        let wall = u64::try_from(self.own? + now.0 as i64).ok()?;
        let newest = self.others.get(&peer).map(|other| other.newest);
        let (echo, at) = newest.filter(|(sent, _)| *sent > 0).unwrap_or((0, now));
        let held = now.0.saturating_sub(at.0);
        Some(ClockNote { sent: now.0, wall, echo, held, ..ClockNote::default() })
    }

    /// `peer` connected again: it may have restarted, and then never sent the note that was received last.
    pub fn met(&mut self, peer: u64) {
        if let Some(other) = self.others.get_mut(&peer) {
            other.newest = (0, Micros(0));
        }
    }

    /// `peer` has sent this note.
    pub fn hear(&mut self, peer: u64, now: Micros, note: &ClockNote) {
        let other = self.others.entry(peer).or_default();
        other.newest = (note.sent, now);
        let took = now.0.checked_sub(note.echo).and_then(|us| us.checked_sub(note.held));
        // Without an echo, or with one of an earlier life, nothing is known of the way.
        let Some(took) = took.filter(|_| note.echo > 0) else { return };
        let low = note.wall as i64 - now.0 as i64;
        other.see(ClockSeen { at: now, low, high: low + took as i64 });
    }

    /// Forgets all nodes that are not in the list.
    pub fn keep(&mut self, nodes: &[u64]) {
        self.others.retain(|node, _| nodes.contains(node));
    }

    /// The majority's time among `voters`, of which `own` is this node; nothing unless more than half of their clocks
    /// are known.
    pub fn status(&self, own: u64, voters: &[u64], now: Micros) -> Option<ClockStatus> {
        let (low, high, known) = self.median(own, voters, now)?;
        let own = self.own?;
        Some(ClockStatus { base: low, ahead: own - own.clamp(low, high.max(low)), known })
    }

    /// How far the clock of another node is at least from the majority's time, µs, positive if ahead; nothing if
    /// either is unknown.
    pub fn ahead_of(&self, node: u64, own: u64, voters: &[u64], now: Micros) -> Option<i64> {
        let (low, high, _) = self.median(own, voters, now)?;
        let (least, most) = self.others.get(&node)?.bounds(now)?;
        Some((least - high.max(low)).max(0) + (most - low).min(0))
    }

    /// The bounds of the median, and how many clocks are known.
    fn median(&self, own: u64, voters: &[u64], now: Micros) -> Option<(i64, i64, usize)> {
        let bounds_of = |node: &u64| match *node == own {
            true => self.own.map(|own| (own, own)),
            false => self.others.get(node)?.bounds(now),
        };
        let bounds = voters.iter().filter_map(bounds_of);
        let (mut lows, mut highs): (Vec<i64>, Vec<i64>) = bounds.unzip();
        let known = lows.len();
        if 2 * known <= voters.len() {
            return None;
        }
        lows.sort_unstable();
        highs.sort_unstable();
        Some((lows[(known - 1) / 2], highs[known / 2], known))
    }
}

impl Other {
    fn see(&mut self, seen: ClockSeen) {
        let contradicts =
            |(low, high): (i64, i64)| seen.low > high + SET_US || seen.high + SET_US < low;
        if self.bounds(seen.at).is_some_and(contradicts) {
            self.seen.clear();
        }
        self.seen.retain(|old| old.at.0 + WINDOW_US > seen.at.0);
        self.seen.push_back(seen);
    }

    fn bounds(&self, now: Micros) -> Option<(i64, i64)> {
        let fresh = || self.seen.iter().filter(|seen| seen.at.0 + KEPT_US > now.0);
        let low = fresh().map(|seen| seen.low).max()?;
        Some((low, fresh().map(|seen| seen.high).min()?.max(low)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const MS: u64 = 1_000;
    const SECOND: u64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND as i64;
    const WALL: i64 = 1_700_000_000 * SECOND as i64;

    /// Nodes 1 to n with these errors of their wall clocks, over a network with this one-way delay in µs; their
    /// monotonic clocks began at different times.
    struct World {
        now: u64,
        off: Vec<i64>,
        nodes: Vec<Clocks>,
        delay: std::ops::Range<u64>,
        rng: SmallRng,
    }

    impl World {
        fn new(seed: u64, off: &[i64], delay: std::ops::Range<u64>) -> World {
            let (off, nodes) = (off.to_vec(), vec![Clocks::default(); off.len()]);
            World { now: 0, off, nodes, delay, rng: SmallRng::seed_from_u64(seed) }
        }

        fn clock(&self, node: usize) -> Micros {
            Micros(self.now + 77 * SECOND * (node as u64 + 1))
        }

        /// For this long, each node sends its note to all others each 300 ms.
        fn run(&mut self, us: u64, there: &[usize]) {
            let end = self.now + us;
            let mut on_way: BTreeMap<(u64, usize, usize), ClockNote> = BTreeMap::new();
            let mut next = self.now;
            while self.now < end {
                let arrives = on_way.first_key_value().map_or(u64::MAX, |(key, _)| key.0);
                if arrives < next {
                    let ((at, from, to), note) = on_way.pop_first().expect("just seen");
                    self.now = at;
                    let now = self.clock(to);
                    self.nodes[to].hear(from as u64 + 1, now, &note);
                    continue;
                }
                self.now = next;
                next += 300 * MS;
                for from in there {
                    let now = self.clock(*from);
                    let wall = (WALL + self.now as i64 + self.off[*from]) as u64;
                    self.nodes[*from].set_own(now, wall);
                    for to in there.iter().filter(|to| *to != from) {
                        let note = self.nodes[*from].note_for(*to as u64 + 1, now).unwrap();
                        let note = ClockNote::decode(&note.encode()).unwrap();
                        let at = self.now + self.rng.random_range(self.delay.clone());
                        on_way.insert((at, *from, *to), note);
                    }
                }
            }
            self.now = end;
        }

        fn status(&self, node: usize) -> Option<ClockStatus> {
            let voters: Vec<u64> = (1..=self.nodes.len() as u64).collect();
            self.nodes[node].status(node as u64 + 1, &voters, self.clock(node))
        }

        /// The median minus the right time.
        fn median(&self, node: usize) -> i64 {
            let base = self.status(node).unwrap().base;
            base + self.clock(node).0 as i64 - WALL - self.now as i64
        }
    }

    #[test]
    fn a_clock_that_somebody_has_set_is_told_at_once() {
        let mut clocks = Clocks::default();
        let at = |s: u64| Micros(s * SECOND);
        assert!(!clocks.set_own(at(1), 100 * SECOND), "there was none before");
        // By 500 ppm, and by 9 ms at once: as time services do.
        assert!(!clocks.set_own(at(11), 110 * SECOND + 5_000));
        assert!(!clocks.set_own(at(12), 111 * SECOND + 14_000));
        assert!(clocks.set_own(at(13), 113 * SECOND));
        assert!(!clocks.set_own(at(14), 114 * SECOND));
        assert!(clocks.set_own(at(15), 114 * SECOND));
    }

    #[test]
    fn clocks_are_known_to_what_the_way_takes() {
        for seed in 0..50 {
            let mut world = World::new(seed, &[3_000, -40_000, 500], 100..5_000);
            world.run(5 * SECOND, &[0, 1, 2]);
            for node in 0..3 {
                let status = world.status(node).unwrap();
                assert_eq!(status.known, 3);
                assert!(world.median(node).abs_diff(500) <= 5_000, "{}", world.median(node));
                let ahead = world.off[node] - 500;
                assert!(status.ahead.abs_diff(ahead) <= 5_000, "{status:?}, {ahead}");
            }
        }
    }

    /// Each node knows which clock is wrong, and that no other is.
    #[test]
    fn a_wrong_clock_is_known_to_the_other_nodes() {
        for off in [3 * SECOND as i64, -3 * SECOND as i64] {
            let mut world = World::new(1, &[0, off, 500], 100..5_000);
            world.run(5 * SECOND, &[0, 1, 2]);
            let ahead = |node: usize, of: u64| {
                let now = world.clock(node);
                world.nodes[node].ahead_of(of, node as u64 + 1, &[1, 2, 3], now).unwrap()
            };
            for (node, other) in [(0, 3), (2, 1)] {
                assert!(ahead(node, 2).abs_diff(off) <= 20_000, "{}", ahead(node, 2));
                assert!(ahead(node, other).abs() <= 20_000, "{}", ahead(node, other));
            }
        }
    }

    /// It lies as it likes, and differently all the time.
    #[test]
    fn one_liar_of_three_or_five_moves_the_median_by_no_more_than_the_others_are_apart() {
        for seed in 0..200 {
            let count = [3, 5][seed as usize % 2];
            let mut rng = SmallRng::seed_from_u64(seed);
            let off: Vec<i64> = (0..count).map(|_| rng.random_range(-20_000..20_000)).collect();
            let mut world = World::new(seed, &off, 100..2_000);
            let all: Vec<usize> = (0..count).collect();
            for _ in 0..10 {
                world.off[0] = rng.random_range(-10 * HOUR..10 * HOUR);
                world.run(rng.random_range(1..8) * 500 * MS, &all);
                for node in 1..count {
                    let Some(_) = world.status(node) else { continue };
                    assert!(world.median(node).abs() <= 22_000 + 10_000, "seed {seed}");
                }
            }
            world.run(2 * SECOND, &all);
            assert!(world.median(0).abs() <= 22_000, "the liar knows it, too: seed {seed}");
            assert!(
                world.status(0).unwrap().ahead.abs() > HOUR / 100 || world.off[0].abs() < HOUR / 50
            );
        }
    }

    #[test]
    fn clocks_that_are_set_together_are_followed_at_once() {
        let mut world = World::new(1, &[0, 0, 0], 100..200);
        world.run(9 * SECOND, &[0, 1, 2]);
        world.off = vec![HOUR; 3];
        world.run(SECOND, &[0, 1, 2]);
        for node in 0..3 {
            assert!(world.median(node).abs_diff(HOUR) < 1_000);
            assert!(world.status(node).unwrap().ahead.abs() < 1_000);
        }
    }

    #[test]
    fn who_is_away_counts_as_it_was_and_of_two_the_own_clock() {
        let mut world = World::new(2, &[0, 0, 0], 100..200);
        assert_eq!(world.status(0), None);
        world.run(5 * SECOND, &[0, 1, 2]);
        world.off[0] = HOUR;
        world.run(60 * SECOND, &[0, 1]);
        assert!(world.status(0).unwrap().ahead.abs_diff(HOUR) < 1_000, "two of three say so");
        world.run(KEPT_US, &[0, 1]);
        let status = world.status(0).unwrap();
        assert_eq!(
            (status.known, status.ahead),
            (2, 0),
            "nobody can tell which of the two is right"
        );
        assert!(world.median(0).abs() < 1_000, "and nothing is early by either");
        let mut world = World::new(3, &[0, 0, 0], 100..200);
        world.run(5 * SECOND, &[0]);
        assert_eq!(world.status(0), None, "its own clock alone is no majority");
    }

    #[test]
    fn bytes_that_are_no_note_are_none() {
        let (sent, wall, echo, held, commit, priority) = (1, 2, 3, 4, 5, 6);
        let old = ClockNote { sent, wall, echo, held, commit, priority, ..ClockNote::default() };
        let older = ClockNote { health: Some(Health::default()), ..old };
        let note = ClockNote { last: Some(7), ..older };
        for note in [old, older, note] {
            let bytes = note.encode();
            assert_eq!(ClockNote::decode(&bytes), Some(note));
            assert_eq!(ClockNote::decode(&bytes[1..]), None);
            assert_eq!(ClockNote::decode(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(ClockNote::decode(&ClockNote { last: Some(1 << 62), ..note }.encode()), None);
        assert_eq!(old.encode().len(), ClockNote::BYTES, "what older nodes read");
        assert_eq!(ClockNote::decode(&[0xff; ClockNote::BYTES]), None);
        // An echo of a note that was never sent, or an impossibly long hold, has no information.
        let mut clocks = Clocks::default();
        clocks.set_own(Micros(5), 10);
        for note in [
            ClockNote { echo: 9, ..note },
            ClockNote { echo: 1, held: 9, ..note },
            ClockNote { echo: 0, ..note },
        ] {
            clocks.hear(2, Micros(6), &note);
            assert_eq!(clocks.status(1, &[1, 2, 3], Micros(6)), None);
        }
    }
}
