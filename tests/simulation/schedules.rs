//! The auditor's own picture of schedules, and the rule that tells which nominal instants they have.

use std::fmt::{self, Debug, Formatter};

use delayd::engine::model::queue_settings::Pause;
use delayd::engine::model::request::JobState;
use delayd::engine::model::schedule::{Coming, Definition, Outcomes, Overlap, Rule};
use delayd::time::Millis;

use crate::simulation::decide::stored;
use crate::simulation::model::{ModelJob, ModelQueue};
use crate::simulation::timetable::{BEGIN_MS, clocks_of, look};
use crate::simulation::trace::{Kept, keep};

/// An instant as the model knows it: no timetable goes back farther.
pub fn known(at: Millis) -> u64 {
    if at.0 < BEGIN_MS { 0 } else { at.0 }
}

/// So many of the newest ids are known, of those that were open when the newest was made.
const KNOWN_MAX: usize = 16;

#[derive(Clone)]
pub struct ModelSchedule {
    pub number: u64,
    pub name: Kept,
    pub body: Kept,
    pub definition: Definition,
    pub anchor: u64,
    /// What became of each nominal instant up to this one has been told, or it was never to come.
    pub after: u64,
    /// As the facts told.
    pub next: Option<Coming>,
    pub pause: Pause,
    pub outcomes: Outcomes,
    /// The nominal instant of the newest occurrence, and when it was made.
    pub last: Option<(Millis, Millis)>,
    pub changed: u64,
    /// What stands behind the `@` of ids that are known.
    pub recent: Vec<u64>,
    /// Nothing that was due by then is to come, whatever tables say.
    pub active_from: u64,
    /// What the clocks showed at `after`, s, if that came due.
    pub shown_s: Option<i64>,
    /// What is made up for: all up to here is due, and so many more of it may come.
    pub making_up: Option<(u64, u64)>,
    /// Tables did not know its zone since it was told last what is to come.
    pub was_unknown: bool,
}

/// Without the body, which may be long.
impl Debug for ModelSchedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rule = (&self.definition, self.anchor);
        let state = (self.after, self.next, self.pause, &self.recent);
        let rest = (self.last, self.outcomes, self.shown_s, self.making_up, self.was_unknown);
        write!(f, "{} {} {rule:?} {state:?} {rest:?}", self.number, self.name.escape_ascii())
    }
}

impl ModelSchedule {
    pub fn new(name: Kept, definition: Definition) -> ModelSchedule {
        ModelSchedule {
            number: 0,
            name,
            body: b"",
            definition,
            anchor: 0,
            after: 0,
            next: None,
            pause: Pause::None,
            outcomes: Outcomes::default(),
            last: None,
            changed: 0,
            recent: Vec::new(),
            active_from: 0,
            shown_s: None,
            making_up: None,
            was_unknown: false,
        }
    }

    /// Bytes of META and body of each job.
    pub fn data_bytes(&self) -> usize {
        let group = self.definition.group().map_or(0, |name| 6 + name.len());
        group + stored(self.definition.meta().block()) + self.body.len()
    }

    pub fn id_at(&self, at: u64) -> Kept {
        keep(&[self.name, format!("@{at}").as_bytes()].concat())
    }

    /// Its rule by these tables; none where they do not know its zone.
    pub fn timing(&self, tables: usize) -> Option<Timing<'_>> {
        Timing::of(&self.definition, self.name, self.anchor, tables)
    }

    pub fn is_used_up(&self) -> bool {
        let runs = u64::from(self.definition.terms().runs);
        runs > 0 && self.outcomes.made >= runs
    }

    /// When something is to be done about it, whatever holds it.
    pub fn wake(&self) -> Option<u64> {
        match self.pause {
            Pause::Endless => None,
            Pause::Until(end) => Some(end.0),
            Pause::None => self.next.map(|next| next.due.0),
        }
    }

    /// A nominal instant has come due.
    pub fn came(&mut self, nominal: u64, offset_s: i32, next: Option<Coming>) {
        (self.after, self.next) = (nominal, next);
        self.shown_s = Some((nominal / 1_000) as i64 + i64::from(offset_s));
    }

    /// What is to come is another instant.
    pub fn moved(&mut self, after: u64, next: Option<Coming>) {
        if self.after != after {
            (self.after, self.shown_s) = (after, None);
        }
        (self.next, self.making_up) = (next, None);
    }

    /// It goes on with what is due after `at`: what was told of it before is of no more meaning.
    pub fn goes_on(&mut self, at: u64, after: u64, next: Option<Coming>) {
        let right = after >= self.after && after <= self.after.max(at);
        assert!(right, "behind {after} at {at} comes what is to come of {self:?}");
        if after != self.after {
            self.active_from = at;
        }
        self.moved(after, next);
    }

    /// What is to come by other tables, behind what: a local time that has come is not shown again.
    pub fn by_tables(&self, timing: &Timing<'_>) -> (u64, Option<Coming>) {
        let least_due = match self.pause {
            _ if self.is_used_up() => return (self.after, None),
            Pause::Endless => return (self.after, None),
            Pause::Until(end) => end.0 + 1,
            // Of those that are spread an earlier one may be yet to come, and which that is depends on the tables.
            Pause::None if self.definition.terms().spread_ms > 0 => 0,
            Pause::None => self.active_from + 1,
        };
        // Nothing before is due late enough, however it is spread: a pause of years over an occurrence each second would be
        // walked through one by one.
        let first = self.after.max(least_due.saturating_sub(timing.shift_ms + 1));
        let (mut at, mut is_passed) = (first, false);
        loop {
            let Some(next) = timing.after(at) else { return (self.after, None) };
            at = next.nominal.0;
            let shown_s = (at / 1_000) as i64 + i64::from(timing.offset_s(at));
            let again = self.shown_s.is_some_and(|last| shown_s <= last) && timing.is_local();
            let is_due = next.due.0 >= least_due;
            if is_due && !again {
                let after = if is_passed { at - 1 } else { self.after };
                return (after, Some(next));
            }
            is_passed |= again && next.due.0 >= least_due;
        }
    }

    /// Occurrences that nobody is done with, oldest first.
    pub fn open<'q>(&self, queue: &'q ModelQueue) -> impl Iterator<Item = (u64, &'q ModelJob)> {
        let found = self.recent.iter().map(|at| (*at, queue.jobs.get(self.id_at(*at))));
        let found = found.filter_map(|(at, job)| Some((at, job?)));
        found.filter(|(_, job)| job.state != JobState::Dead)
    }

    /// Those of them that nobody has begun.
    pub fn waiting(&self, queue: &ModelQueue) -> impl Iterator<Item = u64> {
        self.open(queue).filter(|(_, job)| job.state != JobState::Leased).map(|(at, _)| at)
    }

    /// By how many jobs the queue is larger once one more is made.
    pub fn growth(&self, queue: &ModelQueue) -> u64 {
        let replaces = self.definition.terms().overlap == Overlap::Replace;
        u64::from(!replaces || self.waiting(queue).next().is_none())
    }

    /// One more is made; the queue has it.
    pub fn note_made(&mut self, at: u64, queue: &ModelQueue) {
        let mut known: Vec<u64> = self.open(queue).map(|(at, _)| at).collect();
        known.push(at);
        self.recent = known.split_off(known.len().saturating_sub(KNOWN_MAX));
    }
}

/// Which nominal instants there are, and when they are due.
pub struct Timing<'d> {
    definition: &'d Definition,
    clocks: &'static str,
    anchor: u64,
    shift_ms: u64,
}

impl<'d> Timing<'d> {
    pub fn of(
        definition: &'d Definition,
        name: Kept,
        anchor: u64,
        tables: usize,
    ) -> Option<Timing<'d>> {
        let clocks = match &definition.rule {
            Rule::Every { .. } => "UTC",
            Rule::Cron { zone, .. } => clocks_of(tables, zone)?.1,
        };
        let shift_ms = definition.shift_ms(name);
        let spread_ms = definition.terms().spread_ms;
        assert!(shift_ms < spread_ms.max(1), "a share of SPREAD");
        Some(Timing { definition, clocks, anchor, shift_ms })
    }

    pub fn is_local(&self) -> bool {
        let Rule::Cron { pattern, .. } = &self.definition.rule else { return false };
        let fields: Vec<&str> = pattern.split(' ').collect();
        let of_time = &fields[..fields.len() - 3];
        !of_time.iter().any(|field| field.starts_with('*'))
    }

    /// The first nominal instant after this one, whatever its end.
    fn unended(&self, after: u64) -> Option<u64> {
        let from = self.definition.terms().from.0;
        match &self.definition.rule {
            Rule::Every { ms } if after < self.anchor => Some(self.anchor).filter(|_| *ms > 0),
            Rule::Every { ms } => Some(self.anchor + ((after - self.anchor) / ms + 1) * ms),
            Rule::Cron { pattern, .. } => {
                look(pattern, self.clocks, |table| table.after(after.max(from.saturating_sub(1))))
            }
        }
    }

    pub fn due(&self, nominal: u64) -> u64 {
        let due = nominal + self.shift_ms;
        match self.definition.rule {
            Rule::Cron { .. } if self.shift_ms > 0 => {
                self.unended(nominal).map_or(due, |following| due.min(following - 1))
            }
            _ => due,
        }
    }

    fn coming(&self, nominal: u64) -> Coming {
        Coming { nominal: Millis(nominal), due: Millis(self.due(nominal)) }
    }

    pub fn after(&self, after: u64) -> Option<Coming> {
        let nominal = self.unended(after)?;
        let in_time = nominal <= self.definition.terms().until.0;
        in_time.then(|| self.coming(nominal))
    }

    /// The first after `after` that is due after `now`.
    pub fn after_due(&self, after: u64, now: u64) -> Option<Coming> {
        self.after(after.max(self.newest_due(now).unwrap_or(0)))
    }

    /// The newest one that is due by `now`.
    pub fn newest_due(&self, now: u64) -> Option<u64> {
        let (from, until) = (self.definition.terms().from.0, self.definition.terms().until.0);
        let mut upto = now.min(until);
        loop {
            let newest = match &self.definition.rule {
                Rule::Every { ms } => {
                    let since = upto.checked_sub(self.anchor)?;
                    self.anchor + since / ms * ms
                }
                Rule::Cron { pattern, .. } => {
                    look(pattern, self.clocks, |table| table.latest(upto))?
                }
            };
            if newest < from || newest < BEGIN_MS {
                return None;
            }
            if self.due(newest) <= now {
                return Some(newest);
            }
            upto = newest.checked_sub(1)?;
        }
    }

    /// How many there are after `after`, up to `upto`.
    pub fn count(&self, after: u64, upto: u64) -> u64 {
        let from = self.definition.terms().from.0;
        match &self.definition.rule {
            Rule::Every { ms } => {
                let upto_count = |at: u64| at.checked_sub(self.anchor).map_or(0, |at| at / ms + 1);
                upto_count(upto).saturating_sub(upto_count(after))
            }
            Rule::Cron { pattern, .. } => {
                let after = after.max(from.saturating_sub(1));
                look(pattern, self.clocks, |table| table.count(after, upto))
            }
        }
    }

    pub fn is_nominal(&self, at: u64) -> bool {
        self.unended(at - 1) == Some(at)
    }

    /// By how much the clocks are ahead of UTC then, s.
    pub fn offset_s(&self, at: u64) -> i32 {
        match &self.definition.rule {
            Rule::Every { .. } => 0,
            Rule::Cron { pattern, .. } => {
                look(pattern, self.clocks, |table| table.offset_s(at)) as i32
            }
        }
    }
}
