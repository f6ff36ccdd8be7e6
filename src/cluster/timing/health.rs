//! The health of a node: its disk, the space on it, its process. Each node measures its own and reports it to the
//! others.
//!
//! A failing disk rarely stops. It hangs, gets slow or fills up, while its node goes on answering heartbeats: Raft has no
//! reason to elect another leader. `driver/sickness.rs` uses what is measured here to move leadership.
//!
//! A write is measured from the moment the log is given it until the log reports it durable. That covers everything that
//! can hold it up: a sync that hangs, a file without room, a thread that does not run.
//!
//! A sick node becomes well when nothing has been wrong for [`WELL_AGAIN_US`], so a disk that comes and goes does not move
//! leadership each time.

use crate::limits::{
    HUNG_TIMES_E, HUNG_US_MIN, SLOW_HELD_US, SLOW_TIMES, SLOW_US_MIN, STOOD_STILL_US_MAX,
    STOOD_STILL_WINDOW_US, SYNCS_KEPT, SYNCS_MIN, SYNCS_WINDOW_US, WELL_AGAIN_US,
};
use crate::time::Micros;
use crate::words::words;
use std::collections::VecDeque;

/// The health of a node, as the node reports it. Spans are as of the report. By default it is well, and has nothing to
/// write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Why it is sick, and for how long; none if it is well.
    pub sick: Option<Sick>,
    /// Whether it is sick only because its trouble ended less than [`WELL_AGAIN_US`] ago. Such a node may lead if no well node can.
    pub recovers: bool,
    /// Age of the oldest write that is not durable yet, µs; 0 if all are.
    pub waits_us: u64,
    /// Median time a write took to become durable, of the newest 8 in the last 5 s, µs; 0 if there were fewer than 4.
    pub sync_us: u64,
    /// Whether its disk is full: ADD is refused with MISCONF.
    pub is_full: bool,
    /// How long its process stalled in the last 10 s, µs. Only spans of E/2 or more count.
    pub stood_still_us: u64,
}

/// A sick node should not lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sick {
    /// The newest cause. It may have ended less than [`WELL_AGAIN_US`] ago.
    pub why: Why,
    /// How long it has been sick, µs.
    pub for_us: u64,
}

words! {
    /// Why a node is sick. Of several causes at a time the first one is reported: a full disk also keeps writes waiting. The
    /// order is part of the wire format.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Why {
        /// Its disk has no room for what is added.
        DiskFull = "disk-full",
        /// A write has waited for its disk for a second, or 3 E if that is more.
        DiskHangs = "disk-hangs",
        /// Its disk takes several times as long for a sync as the others'.
        DiskSlow = "disk-slow",
        /// Its process stalls again and again, or stalled for long.
        StandsStill = "stands-still",
    }
}

impl Why {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Why::DiskHangs => "its disk hangs",
            Why::DiskFull => "its disk is full",
            Why::DiskSlow => "its disk is much slower than the others'",
            Why::StandsStill => "its process stalls",
        }
    }
}

impl Health {
    pub const BYTES: usize = 40;

    /// Whether it may lead.
    pub fn is_well(&self) -> bool {
        self.sick.is_none()
    }

    /// Whether it could lead: nothing is wrong with it at the moment.
    pub fn works(&self) -> bool {
        self.is_well() || self.recovers
    }

    /// Encodes it as five little-endian numbers. The first is the cause, 0 for a well node, plus 256 if there is room and 512 if
    /// it recovers.
    pub fn encode(&self) -> [u8; Health::BYTES] {
        let why = self.sick.map_or(0, |sick| 1 + sick.why as u64);
        let for_us = self.sick.map_or(0, |sick| sick.for_us);
        let first = why | u64::from(!self.is_full) << 8 | u64::from(self.recovers) << 9;
        let mut bytes = [0; Health::BYTES];
        let all = [first, for_us, self.waits_us, self.sync_us, self.stood_still_us];
        for (to, value) in bytes.chunks_exact_mut(8).zip(all) {
            to.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Decodes it; none if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Health> {
        let bytes: &[u8; Health::BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| {
            u64::from_le_bytes(bytes[8 * at..][..8].try_into().expect("there are five of eight"))
        };
        // Sums of such numbers fit.
        if number(0) >> 10 != 0 || (1..5).any(|at| number(at) >= 1 << 62) {
            return None;
        }
        let sick = match number(0) & 0xff {
            0 => None,
            why => {
                let why = *Why::ALL.get(why as usize - 1)?;
                Some(Sick { why, for_us: number(1) })
            }
        };
        let (is_full, recovers) = (number(0) >> 8 & 1 == 0, number(0) >> 9 == 1);
        let (waits_us, sync_us, stood_still_us) = (number(2), number(3), number(4));
        Some(Health { sick, recovers, waits_us, sync_us, is_full, stood_still_us })
    }
}

/// A node's measurements of itself.
#[derive(Debug)]
pub struct Meter {
    election_us: u64,
    /// Writes that are not durable, by number, and since when.
    writes: VecDeque<(u64, Micros)>,
    /// The durations of syncs, and when they ended; the newest ones.
    syncs: VecDeque<(Micros, u64)>,
    has_room: bool,
    /// When the process went on, and how long it had stalled.
    stood_still: VecDeque<(Micros, u64)>,
    /// Since when its syncs are slow.
    slow: Option<Micros>,
    sick: Option<Sickness>,
}

#[derive(Clone, Copy, Debug)]
struct Sickness {
    why: Why,
    since: Micros,
    /// When it was seen last, and whether it is over.
    seen: Micros,
    is_over: bool,
}

impl Meter {
    /// A meter for a node that starts; `election_us` is E.
    pub fn new(election_us: u64) -> Meter {
        Meter {
            election_us,
            writes: VecDeque::new(),
            syncs: VecDeque::new(),
            has_room: true,
            stood_still: VecDeque::new(),
            slow: None,
            sick: None,
        }
    }

    /// A write of this number is given to the log.
    pub fn wrote(&mut self, number: u64, now: Micros) {
        self.writes.push_back((number, now));
    }

    /// The writes up to this number are durable.
    pub fn persisted(&mut self, number: u64, now: Micros) {
        let mut oldest = None;
        while let Some((_, since)) = self.writes.front().filter(|(of, _)| *of <= number) {
            oldest = oldest.or(Some(*since));
            self.writes.pop_front();
        }
        if let Some(since) = oldest {
            if self.syncs.len() == SYNCS_KEPT {
                self.syncs.pop_front();
            }
            self.syncs.push_back((now, now.0.saturating_sub(since.0)));
        }
    }

    pub fn set_has_room(&mut self, has: bool) {
        self.has_room = has;
    }

    /// The process has been called this much later than it asked to be.
    pub fn came_late(&mut self, now: Micros, late_us: u64) {
        if late_us >= self.election_us / 2 {
            self.stood_still.push_back((now, late_us));
        }
        self.stood_still.retain(|(at, _)| now.0 < at.0 + STOOD_STILL_WINDOW_US);
        self.syncs.retain(|(at, _)| now.0 < at.0 + SYNCS_WINDOW_US);
    }

    /// Whether its judgement may change with the next tick.
    pub fn is_watching(&self) -> bool {
        !self.writes.is_empty() || self.slow.is_some() || self.sick.is_some()
    }

    /// Updates whether it is sick. `others_us` is the duration of a sync on the fastest other node, if one has reported
    /// it.
    pub fn judge(&mut self, now: Micros, others_us: Option<u64>) {
        let sync_us = self.sync_us();
        let is_slow = sync_us >= SLOW_US_MIN
            && others_us.is_some_and(|others_us| sync_us / SLOW_TIMES >= others_us);
        self.slow = self.slow.filter(|_| is_slow).or(is_slow.then_some(now));
        let hung_us = HUNG_US_MIN.max(HUNG_TIMES_E * self.election_us);
        let is_so = |why: &Why| match why {
            Why::DiskHangs => self.waits_us(now) >= hung_us,
            Why::DiskFull => !self.has_room,
            Why::DiskSlow => self.slow.is_some_and(|since| now.0 >= since.0 + SLOW_HELD_US),
            Why::StandsStill => self.stood_still_us() >= STOOD_STILL_US_MAX,
        };
        match Why::ALL.into_iter().find(is_so) {
            Some(why) => {
                let since = self.sick.map_or(now, |sick| sick.since);
                self.sick = Some(Sickness { why, since, seen: now, is_over: false });
            }
            None => {
                let lasts = |sick: &Sickness| now.0 < sick.seen.0 + WELL_AGAIN_US;
                self.sick = self.sick.filter(lasts).map(|sick| Sickness { is_over: true, ..sick });
            }
        }
    }

    /// The health to report.
    pub fn health(&self, now: Micros) -> Health {
        let told =
            |sick: Sickness| Sick { why: sick.why, for_us: now.0.saturating_sub(sick.since.0) };
        Health {
            sick: self.sick.map(told),
            recovers: self.sick.is_some_and(|sick| sick.is_over),
            waits_us: self.waits_us(now),
            sync_us: self.sync_us(),
            is_full: !self.has_room,
            stood_still_us: self.stood_still_us(),
        }
    }

    /// The current trouble, as last judged.
    pub fn trouble(&self) -> Option<Why> {
        self.sick.filter(|sick| !sick.is_over).map(|sick| sick.why)
    }

    fn waits_us(&self, now: Micros) -> u64 {
        self.writes.front().map_or(0, |(_, since)| now.0.saturating_sub(since.0))
    }

    fn sync_us(&self) -> u64 {
        if self.syncs.len() < SYNCS_MIN {
            return 0;
        }
        let mut took: Vec<u64> = self.syncs.iter().map(|(_, took)| *took).collect();
        let middle = took.len() / 2;
        *took.select_nth_unstable(middle).1
    }

    /// Nothing of a single time, which is over: two and more may be followed by others.
    fn stood_still_us(&self) -> u64 {
        match self.stood_still.len() {
            0 | 1 => 0,
            _ => self.stood_still.iter().map(|(_, took)| took).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;
    const E: u64 = 300 * MS;

    /// Ticks until then; each write takes this long.
    fn write_until(meter: &mut Meter, from: u64, until: u64, sync_us: u64, others_us: Option<u64>) {
        for at in (from..until).step_by(10 * MS as usize) {
            meter.came_late(Micros(at), 0);
            meter.wrote(at, Micros(at - sync_us));
            meter.persisted(at, Micros(at));
            meter.judge(Micros(at), others_us);
        }
    }

    #[test]
    fn a_write_that_waits_makes_it_sick_until_all_was_well_for_a_while() {
        let mut meter = Meter::new(E);
        let why = |meter: &mut Meter, at: u64| {
            meter.judge(Micros(at), None);
            (meter.trouble(), meter.health(Micros(at)).sick.map(|sick| sick.why))
        };
        meter.wrote(1, Micros(0));
        assert_eq!(why(&mut meter, HUNG_US_MIN - 1), (None, None));
        let hangs = Some(Why::DiskHangs);
        assert_eq!(why(&mut meter, HUNG_US_MIN), (hangs, hangs));
        let ended = HUNG_US_MIN + 1;
        meter.persisted(1, Micros(ended));
        assert_eq!(why(&mut meter, ended), (None, hangs));
        assert!(meter.health(Micros(ended)).works() && !meter.health(Micros(ended)).is_well());
        assert_eq!(why(&mut meter, HUNG_US_MIN + WELL_AGAIN_US - 1), (None, hangs));
        assert_eq!(why(&mut meter, HUNG_US_MIN + WELL_AGAIN_US), (None, None));
        // Slow links have a longer E.
        let mut meter = Meter::new(HUNG_US_MIN);
        meter.wrote(1, Micros(0));
        assert_eq!(why(&mut meter, HUNG_TIMES_E * HUNG_US_MIN - 1), (None, None));
    }

    #[test]
    fn a_disk_is_slow_beside_a_faster_one_alone_and_for_longer_than_a_moment() {
        for (sync_us, others_us, is_slow) in [
            (20 * MS, Some(MS), true),
            (20 * MS, Some(6 * MS), false),
            (8 * MS, Some(100), false),
            (400 * MS, Some(400 * MS), false),
            (400 * MS, None, false),
        ] {
            let mut meter = Meter::new(E);
            let (begun, end) = (1_000 * MS, 1_000 * MS + SLOW_HELD_US);
            write_until(&mut meter, begun, end, sync_us, others_us);
            assert_eq!(meter.trouble(), None, "{sync_us}: not yet");
            write_until(&mut meter, end, end + 100 * MS, sync_us, others_us);
            let why = is_slow.then_some(Why::DiskSlow);
            assert_eq!(meter.trouble(), why, "{sync_us} beside {others_us:?}");
        }
    }

    #[test]
    fn a_process_that_stands_still_now_and_then_is_sick() {
        let mut meter = Meter::new(E);
        for n in 1..=8 {
            assert_eq!(meter.trouble(), None, "{n}");
            meter.came_late(Micros(n * 250 * MS), 250 * MS);
            meter.judge(Micros(n * 250 * MS), None);
        }
        assert_eq!(meter.trouble(), Some(Why::StandsStill));
        // A single time is over when it is noticed.
        let mut meter = Meter::new(E);
        meter.came_late(Micros(5_000 * MS), 4_000 * MS);
        meter.judge(Micros(5_000 * MS), None);
        assert_eq!(meter.trouble(), None);
    }

    /// A bit says that there is room: nodes of all versions read it so.
    #[test]
    fn a_full_disk_is_a_bit_that_is_not_set() {
        let full = Health { is_full: true, ..Health::default() };
        assert_eq!(Health::default().encode()[..2], [0, 1]);
        assert_eq!(full.encode()[..2], [0, 0]);
        assert_eq!(Health::decode(&full.encode()), Some(full));
    }

    #[test]
    fn bytes_that_are_no_health_are_rejected() {
        let sick = |why| Some(Sick { why, for_us: 7 });
        let all = Why::ALL.into_iter().map(sick).chain([None]);
        for (sick, recovers) in all.flat_map(|sick| [(sick, false), (sick, true)]) {
            let (waits_us, sync_us, stood_still_us) = (1, 2, 3);
            let is_full = recovers;
            let health = Health { sick, recovers, waits_us, sync_us, is_full, stood_still_us };
            let bytes = health.encode();
            let read = Health::decode(&bytes).expect("it was just written");
            assert_eq!(read, health);
            assert_eq!(Health::decode(&bytes[1..]), None);
        }
        let mut bytes = Health::default().encode();
        bytes[0] = Why::ALL.len() as u8 + 1;
        assert_eq!(Health::decode(&bytes), None, "an unknown cause");
        assert_eq!(Health::decode(&[0xff; Health::BYTES]), None);
    }
}
