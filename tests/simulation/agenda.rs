//! What clients ask for about schedules.

use delayd::calendar::Pattern;
use delayd::engine::model::request::{QueueName, Request};
use delayd::engine::model::schedule::{
    AskedRule, JobOptions, Overlap, ScheduleTerms, Scheduling, SetSchedule,
};
use delayd::limits::{DAY_MS, DELAY_MS_MAX};
use delayd::time::Millis;
use rand::Rng;

use crate::simulation::scheduling::{NEVER, in_another_case};
use crate::simulation::timetable::TABLES;
use crate::simulation::trace::{Kept, keep, keep_list};
use crate::simulation::workload::Workload;

/// Patterns that come seldom enough for clocks that jump by weeks, and two for the others.
const PATTERNS: [&str; 14] = [
    "30 2 * * *", "0 2,14 * * *", "0 */5 * * *", "*/15 2 * * *", "0 0 L * *", "15 1-3 * * 0",
    "0 9 13 * 5", "0 10 * * 1#1", "5,35 0 * 3,10 *", "30 59 23 * * *", "0 0 29 2 *", NEVER,
    "*/7 * * * *", "*/10 * * * * *",
];
const DENSE: usize = 2;

const ZONES: [&str; 4] = ["Test/Home", "Test/Isle", "UTC", "+05:30"];

const EVERY_MS: [u64; 9] =
    [100, 250, 1_000, 7_000, 60_000, 3_600_000, 5_400_000, DAY_MS, 7 * DAY_MS];

impl Workload {
    /// Something about a schedule.
    pub fn scheduling(&mut self, now_ms: u64) -> Request<'static> {
        let (queue, name) = (self.queue(), self.schedule_name());
        let of = match self.pick(18) {
            0..5 => Scheduling::Set(Box::new(self.set_schedule(queue, name, now_ms))),
            5 => self.set_again(now_ms),
            6 => {
                let names = [name, self.schedule_name()];
                Scheduling::Delete { queue, names: keep_list(&names[..1 + self.pick(2)]) }
            }
            7..9 => {
                let for_ms = [None, Some(1), Some(self.short_ms()), Some(self.span_ms().max(1))];
                let for_ms = for_ms[self.pick(4)].map(|ms: u64| ms.min(DELAY_MS_MAX + 1));
                Scheduling::Pause { queue, name, for_ms }
            }
            9..11 => Scheduling::Resume { queue, name },
            11..14 => Scheduling::Run { queue, name, force: self.one_in(3) },
            14 => {
                let after = self.one_in(2).then(|| self.schedule_name());
                Scheduling::List { queue, after, pattern: None, count: [1, 3, 100][self.pick(3)] }
            }
            15 => Scheduling::Next { queue, name, count: [1, 5, 100][self.pick(3)] },
            16 => Scheduling::Explain { rule: self.rule(), from: None, count: 3 },
            _ => Scheduling::Get { queue, name },
        };
        Request::Schedule(of)
    }

    fn schedule_name(&mut self) -> Kept {
        let number = self.pick(self.options.schedules.max(1));
        keep(format!("s{number}").as_bytes())
    }

    /// What was said before, word by word or but for the body.
    fn set_again(&mut self, now_ms: u64) -> Scheduling<'static> {
        let mut set = match self.set_last.clone() {
            Some(set) => set,
            None => {
                let (queue, name) = (self.queue(), self.schedule_name());
                self.set_schedule(queue, name, now_ms)
            }
        };
        if self.one_in(3) {
            set.body = self.body();
        } else if self.one_in(3) {
            set.terms = self.terms(now_ms, &set.rule.clone(), set.terms.from);
        }
        Scheduling::Set(Box::new(set))
    }

    fn set_schedule(
        &mut self,
        queue: QueueName<'static>,
        name: Kept,
        now_ms: u64,
    ) -> SetSchedule<'static> {
        let rule = self.rule();
        let from = match self.pick(6) {
            0 => now_ms.saturating_sub(self.short_ms() * 1_000),
            1 => now_ms + self.short_ms(),
            _ => 0,
        };
        let (terms, body) = (self.terms(now_ms, &rule, Millis(from)), self.body());
        let set = SetSchedule { queue, name, body, rule, terms };
        self.set_last = Some(set.clone());
        set
    }

    fn rule(&mut self) -> AskedRule<'static> {
        if self.rng.random() {
            let slow = if self.options.leaps > 0 { 2 } else { 0 };
            return AskedRule::Every { ms: EVERY_MS[slow + self.pick(EVERY_MS.len() - slow)] };
        }
        let dense = if self.options.leaps > 0 { 0 } else { DENSE };
        let pattern = PATTERNS[self.pick(PATTERNS.len() - DENSE + dense)];
        let pattern = Pattern::parse(pattern.as_bytes()).expect("a pattern").into();
        let zone = ZONES[self.pick(4)];
        let zone = if self.one_in(4) { in_another_case(zone) } else { keep(zone.as_bytes()) };
        AskedRule::Cron { pattern, zone }
    }

    fn terms(&mut self, now_ms: u64, rule: &AskedRule<'static>, from: Millis) -> ScheduleTerms {
        let spread_max_ms = match rule {
            AskedRule::Every { ms } => ms - 1,
            AskedRule::Cron { .. } => DAY_MS,
        };
        let spread_ms = [1, 60_000, DAY_MS][self.pick(3)];
        let until = now_ms + self.short_ms() * 1_000;
        ScheduleTerms {
            from,
            until: if self.one_in(5) { Millis(until) } else { ScheduleTerms::DEFAULT.until },
            runs: if self.one_in(4) { [1, 2, 20][self.pick(3)] } else { 0 },
            catchup: [1, 1, 1, 2, 7, 300][self.pick(6)],
            spread_ms: if self.one_in(3) { spread_ms.min(spread_max_ms) } else { 0 },
            grace_ms: if self.one_in(4) { [1_000, 60_000, DAY_MS][self.pick(3)] } else { 0 },
            overlap: [Overlap::Allow, Overlap::Skip, Overlap::Replace][self.pick(3)],
            options: JobOptions {
                priority: self.one_in(4).then(|| self.rng.random_range(0..=9)),
                attempts: self.one_in(4).then_some(self.options.attempts_max),
                backoff: self.one_in(4).then(|| self.backoff()),
                lease_ms: self.one_in(6).then(|| self.lease_ms()),
                ttl_ms: self.one_in(4).then(|| [0, 1, 5_000][self.pick(3)]),
            },
            group: self.group().into(),
            meta: self.meta(),
        }
    }

    /// The id of an occurrence that a reply told of, made or not.
    pub fn occurrence_id(&mut self) -> Option<(QueueName<'static>, Kept)> {
        let count = self.occurrences.len();
        if count == 0 {
            return None;
        }
        let at = self.pick(count);
        Some(self.occurrences[at])
    }

    /// Which tables come next, if other ones do.
    pub fn next_tables(&mut self) -> Option<usize> {
        let swaps = self.options.swaps;
        let comes = swaps > 0 && self.rng.random_range(0..100) < swaps;
        comes.then(|| self.pick(TABLES))
    }
}
