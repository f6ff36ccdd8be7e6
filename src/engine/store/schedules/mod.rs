//! The schedules of a queue: by name, by number, and by when work on them is due.
//!
//! A schedule's definition is text and numbers here. Its next instant was decided, and is in `next`; so a replay of the
//! facts, and a follower, need neither patterns nor zones.

mod change;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::engine::model::queue_settings::Pause;
use crate::engine::model::schedule::{Coming, Definition, Outcomes, Rule};
use crate::engine::store::jobs::{stored_group_bytes, stored_meta_bytes};
use crate::engine::store::memory::allocated_bytes;
use crate::engine::store::queue::NEVER;
use crate::ids::ScheduleNo;
use crate::time::Millis;

/// Bytes of the nodes of the three trees that a schedule is in, with their average slack.
const TREE_BYTES: usize = 96;

/// Marks an offset without a meaning.
const NO_OFFSET: i32 = i32::MIN;

/// Marks that there is no next instant.
const NOTHING: Coming = Coming { nominal: Millis(0), due: Millis(0) };

/// An id made from a name and an instant; most fit without an allocation.
pub type OccurrenceId = SmallVec<[u8; 64]>;

#[derive(Debug)]
pub struct Schedule {
    // Durable: equal after a replay of the facts.
    pub number: ScheduleNo,
    pub name: Arc<[u8]>,
    pub body: Box<[u8]>,
    pub definition: Definition,
    /// The first instant of the grid of EVERY.
    pub anchor: Millis,
    /// No nominal instant up to this one is to come any more.
    pub after: Millis,
    /// The next instant; zeros without one, or while it is paused without an end.
    next: Coming,
    /// The nominal instant of the newest occurrence, and when it was made; 0 for none.
    pub last: Millis,
    pub made_at: Millis,
    /// When SET last changed it.
    pub changed: Millis,
    pause: u64,
    pub outcomes: Outcomes,
    /// The part after the `@` of the newest ids, including those of RUN, oldest first: those that were open when the
    /// newest was made, and that one.
    pub recent: Box<[Millis]>,
    /// By how much the clocks were ahead of UTC at `after`, s, if a nominal instant came due then; else [`NO_OFFSET`].
    pub offset_s: i32,

    // Volatile.
    /// The number of the base file that its image has been written to.
    pub imaged: u32,
    /// Its rule means nothing by the tables there are.
    pub stuck: bool,
    /// Occurrences due from here on are caught up, as long as nothing was held since then; `NEVER` if that is not
    /// settled.
    pub made_from: Millis,
    /// In which spell of work that was settled; see [`Schedules::spell`].
    pub settled_in: u64,
}

impl Default for Schedule {
    /// Nothing is to come of it.
    fn default() -> Schedule {
        Schedule {
            number: ScheduleNo(0),
            name: Arc::default(),
            body: Box::default(),
            definition: Definition::of(Rule::Every { ms: 1 }),
            anchor: Millis(0),
            after: Millis(0),
            next: NOTHING,
            last: Millis(0),
            made_at: Millis(0),
            changed: Millis(0),
            pause: Pause::None.number(),
            outcomes: Outcomes::default(),
            recent: Box::default(),
            offset_s: NO_OFFSET,
            imaged: 0,
            stuck: false,
            made_from: NEVER,
            settled_in: 0,
        }
    }
}

pub fn occurrence_id(name: &[u8], at: Millis) -> OccurrenceId {
    let mut id = OccurrenceId::from_slice(name);
    id.push(b'@');
    let (mut digits, mut left, mut from) = ([0; 20], at.0, 20);
    loop {
        from -= 1;
        digits[from] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    id.extend_from_slice(&digits[from..]);
    id
}

impl Schedule {
    pub fn id_at(&self, at: Millis) -> OccurrenceId {
        occurrence_id(&self.name, at)
    }

    /// When work on it is due; `NEVER` for none.
    pub fn wake(&self) -> Millis {
        match self.pause() {
            _ if self.stuck => NEVER,
            Pause::Endless => NEVER,
            Pause::Until(end) => end,
            Pause::None => self.next().map_or(NEVER, |coming| coming.due),
        }
    }

    /// Whether as many occurrences as RUNS allows are made.
    pub fn is_used_up(&self) -> bool {
        self.runs_left() == Some(0)
    }

    /// How many more RUNS allows; none without it.
    pub fn runs_left(&self) -> Option<u64> {
        let runs = u64::from(self.definition.terms().runs);
        (runs > 0).then(|| runs.saturating_sub(self.outcomes.made))
    }

    /// The next instant; none without one, or while it is paused without an end.
    pub fn next(&self) -> Option<Coming> {
        Some(self.next).filter(|next| *next != NOTHING)
    }

    /// Whether, and until when, it is paused.
    pub fn pause(&self) -> Pause {
        Pause::of_number(self.pause)
    }

    /// The local time at the newest nominal instant that came due, in s since 1970 began there; none if `after` is
    /// another instant by now.
    pub fn last_local_s(&self) -> Option<i64> {
        let came = self.offset_s != NO_OFFSET;
        came.then(|| (self.after.0 / 1_000) as i64 + i64::from(self.offset_s))
    }

    /// Sets the next instant, after `after`.
    pub fn set_next(&mut self, after: Millis, next: Option<Coming>) {
        if self.after != after {
            (self.after, self.offset_s) = (after, NO_OFFSET);
        }
        self.next = next.unwrap_or(NOTHING);
    }

    pub fn set_pause(&mut self, pause: Pause) {
        self.pause = pause.number();
    }

    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(&self.name, self.body.len(), &self.definition)
    }

    /// Bytes of META and body of each job.
    pub fn data_bytes(&self) -> usize {
        let terms = self.definition.terms();
        let beside = stored_group_bytes(terms.group.get()) + stored_meta_bytes(terms.meta.get());
        beside + self.body.len()
    }

    fn come_due(&mut self, nominal: Millis, offset_s: i32, next: Option<Coming>) {
        self.set_next(nominal, next);
        self.offset_s = offset_s;
    }

    /// The newest id, those of RUN included.
    pub fn last_id(&self) -> Option<Millis> {
        self.recent.last().copied()
    }
}

/// Bytes counted for a schedule as memory: what is allocated for it, and its share of the trees.
pub fn memory_bytes(name: &[u8], body_bytes: usize, definition: &Definition) -> u64 {
    // An Arc has two counts before what it holds; of ids one is open as a rule.
    let texts = [name.len() + 16, body_bytes, 2 * size_of::<Millis>()];
    let parts = texts.into_iter().chain(definition.allocations()).filter(|bytes| *bytes > 0);
    let parts: usize = parts.map(allocated_bytes).sum();
    (allocated_bytes(size_of::<Schedule>()) + parts + TREE_BYTES) as u64
}

/// In which way a schedule counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Active,
    Paused,
    Done,
}

impl Schedule {
    fn class(&self) -> Class {
        match (self.pause(), self.next()) {
            (Pause::None, None) => Class::Done,
            (Pause::None, Some(_)) => Class::Active,
            _ => Class::Paused,
        }
    }

    /// Whether it counts as held because its rule means nothing.
    fn is_held_stuck(&self) -> bool {
        self.stuck && self.class() == Class::Active
    }
}

#[derive(Default, Debug)]
pub struct Schedules {
    by_number: BTreeMap<ScheduleNo, Box<Schedule>>,
    by_name: BTreeMap<Arc<[u8]>, ScheduleNo>,
    /// When work is due, and on which.
    wakes: BTreeSet<(Millis, ScheduleNo)>,
    /// Those that were removed included.
    pub made: u64,
    pub missed: u64,
    /// Active, paused and done ones.
    counts: [u64; 3],
    /// How many of the active ones have a rule that means nothing.
    stuck: u64,
    bytes: u64,
    /// A due occurrence cannot be made; this is the time of the retry. Volatile, like the next two.
    held: Option<Millis>,
    /// How many of them were at the last look, and when that was.
    held_count: u64,
    held_counted: Millis,
    /// The due occurrence has been held since it came due.
    pub was_held: bool,
    /// How often something was held.
    holds: u64,
}

impl Schedules {
    /// Whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    pub fn get(&self, number: ScheduleNo) -> Option<&Schedule> {
        self.by_number.get(&number).map(|schedule| &**schedule)
    }

    /// The number of the one with this name.
    pub fn find(&self, name: &[u8]) -> Option<&Schedule> {
        self.get(*self.by_name.get(name)?)
    }

    /// In the order of their names, after this one.
    pub fn by_name(&self, after: Option<&[u8]>) -> impl Iterator<Item = &Schedule> {
        let from = after.map_or(Unbounded, Excluded);
        let named = self.by_name.range::<[u8], _>((from, Unbounded));
        named.filter_map(|(_, number)| self.get(*number))
    }

    /// In the order in which they were first set, from this number on.
    pub fn from(&self, number: ScheduleNo) -> impl Iterator<Item = &Schedule> {
        self.by_number.range(number..).map(|(_, schedule)| &**schedule)
    }

    /// The number that the next new one is to have: above all that there are, so that it follows from the state
    /// alone.
    pub fn next_number(&self) -> ScheduleNo {
        ScheduleNo(self.by_number.last_key_value().map_or(1, |(last, _)| last.0 + 1))
    }

    /// The first with work due by `now`; none while due occurrences are held.
    pub fn due(&self, now: Millis) -> Option<&Schedule> {
        let (at, number) = *self.wakes.first()?;
        let waits = self.held.is_some_and(|retry| now < retry);
        self.get(number).filter(|_| at <= now && !waits)
    }

    /// When work is due next; `NEVER` for none.
    pub fn wake(&self) -> Millis {
        let first = self.first_wake();
        self.held.map_or(first, |retry| retry.max(first))
    }

    /// When something would be done next if nothing was held.
    pub fn first_wake(&self) -> Millis {
        self.wakes.first().map_or(NEVER, |(at, _)| *at)
    }

    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is settled from which nominal instant on all due occurrences of a schedule are caught up. That holds
    /// for one spell of work: after a stall or after being held it is settled again.
    pub fn is_settled(&self, schedule: &Schedule, spells: u64) -> bool {
        schedule.made_from != NEVER && schedule.settled_in == self.spell(spells)
    }

    /// The number of a spell in which all went on: both that it is made of only grow.
    fn spell(&self, spells: u64) -> u64 {
        spells + self.holds
    }

    /// Drops them in `steps`, as their queue was removed; true when none is left. They are counted as memory until
    /// the queue is gone.
    pub fn drop_slice(&mut self, steps: &mut u32) -> bool {
        while *steps > 0 && self.by_number.pop_first().is_some() {
            self.wakes.pop_first();
            self.by_name.pop_first();
            *steps -= 1;
        }
        self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_name_and_instant() {
        assert_eq!(&occurrence_id(b"daily", Millis(1_800_255_600_000))[..], b"daily@1800255600000");
        assert_eq!(&occurrence_id(b"", Millis(0))[..], b"@0");
        assert_eq!(&occurrence_id(b"x", Millis(u64::MAX))[..], b"x@18446744073709551615");
    }

    #[test]
    fn a_schedule_as_people_write_them_is_counted_with_at_most_600_bytes() {
        let rule = Rule::Cron { pattern: "0 8 * * 1-5".into(), zone: "Europe/Berlin".into() };
        let bytes = memory_bytes(&[b'n'; 20], 100, &Definition::of(rule));
        assert!(bytes <= 600, "{bytes} bytes");
    }
}
