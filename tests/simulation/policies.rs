//! Settings, limits, rates and pauses: what must follow from them, and what must not happen.

use std::collections::VecDeque;

use delayd::engine::model::fact::Fact;
use delayd::engine::model::queue_settings::{Pause, Pauses, QueueSettings, Setting};
use delayd::engine::model::request::{Direction, JobState, Request};
use delayd::ids::QueueNo;
use delayd::limits::{DEAD_COUNT_DEFAULT, DEAD_RETENTION_MS_DEFAULT};
use delayd::time::{Micros, Millis};

use crate::simulation::auditor::{Check, Input};
use crate::simulation::model::{ModelQueue, QueueKey};
use crate::simulation::trace::{Kept, Said};

/// What is set for a queue, and what was delivered since its rate was set.
#[derive(Default, Debug)]
pub struct Policies {
    pub settings: QueueSettings,
    pub pauses: Pauses,
    /// Deliveries of the last second that were not taken back, with their jobs.
    given: VecDeque<(u64, Kept)>,
    /// The last delivery, whatever became of it.
    given_last_us: Option<u64>,
    /// The rate allows nothing before: who led before may have delivered.
    pub closed_until_us: u64,
    /// The step in which settings or pauses changed last.
    changed: u64,
}

const SECOND_US: u64 = 1_000_000;

impl Policies {
    pub fn any(&self) -> bool {
        !self.settings.is_empty() || self.pauses != Pauses::default()
    }

    pub fn dead_max(&self) -> u64 {
        self.settings.dead_max.unwrap_or(DEAD_COUNT_DEFAULT)
    }

    pub fn kept_ms(&self) -> u64 {
        self.settings.dead_retention_ms.unwrap_or(DEAD_RETENTION_MS_DEFAULT)
    }

    /// 0 is no limit.
    pub fn rate(&self) -> u64 {
        self.settings.rate.unwrap_or(0).into()
    }

    pub fn has_place(&self, leased: usize) -> bool {
        let max = self.settings.max_leased.unwrap_or(0);
        max == 0 || (leased as u64) < max
    }

    /// When the rate has to allow the next delivery: "evenly spaced", within 1 % of the rate.
    pub fn rate_allows_us(&self) -> u64 {
        match (self.rate(), self.given_last_us) {
            (0, _) => 0,
            (_, None) => self.closed_until_us,
            (rate, Some(last)) => {
                (last + (SECOND_US * 101).div_ceil(rate * 100)).max(self.closed_until_us)
            }
        }
    }

    /// Whether waiting for a job that is there could be the policies' doing, in this step.
    pub fn may_throttle(&self, step: u64) -> bool {
        let limited = self.settings.max_leased.is_some() || self.rate() > 0;
        limited || self.pauses.out != Pause::None || self.changed == step
    }

    /// A job is delivered: it must be allowed.
    pub fn deliver(&mut self, now: Micros, id: Kept, leased: usize) {
        assert!(!self.pauses.out.is_on(now), "{id:?} is delivered though the queue is paused");
        assert!(self.has_place(leased), "{id:?} is delivered with {leased} leases running");
        let rate = self.rate();
        if rate == 0 {
            return;
        }
        while self.given.front().is_some_and(|(at, _)| at + SECOND_US <= now.0) {
            self.given.pop_front();
        }
        self.given.push_back((now.0, id));
        self.given_last_us = Some(now.0);
        let within = self.given.len() as u64;
        assert!(within <= rate, "{within} deliveries within a second, {rate} allowed");
        // Evenly spaced: a tenth of a second has a tenth of them, and what a late wake-up made up for.
        let recent = self.given.iter().rev().take_while(|(at, _)| at + SECOND_US / 10 > now.0);
        let (recent, most) = (recent.count() as u64, rate / 10 + rate / 100 + 2);
        assert!(recent <= most, "{recent} of {rate} a second within a tenth of it");
    }

    pub fn take_back(&mut self, id: Kept) {
        if let Some(at) = self.given.iter().rposition(|(_, of)| *of == id) {
            self.given.remove(at);
        }
    }

    fn set(&mut self, settings: QueueSettings, step: u64) {
        if settings.rate != self.settings.rate {
            self.given.clear();
            self.given_last_us = None;
        }
        (self.settings, self.changed) = (settings, step);
    }
}

impl ModelQueue {
    /// Whether a consumer that asks at `now` must get something. A pause whose time is over may go
    /// on until the fact of its end.
    pub fn must_give(&self, now: Micros) -> bool {
        self.must_give_any(now, |_| true)
    }

    /// As [`ModelQueue::must_give`], of these jobs alone.
    pub fn must_give_any(&self, now: Micros, of: impl Fn(Kept) -> bool) -> bool {
        let policies = &self.policies;
        let open = policies.pauses.out == Pause::None && policies.has_place(self.leased.len());
        open && policies.rate_allows_us() <= now.0
            && self
                .ready
                .iter()
                .map(|entry| &self.jobs[entry.2])
                .any(|job| of(job.id) && self.may_go(job) && !job.expired(now.floor()))
    }

    /// When its line must be served though nothing happens.
    pub fn rate_wakes(&self, now: Millis) -> Option<u64> {
        let at = Micros(self.policies.rate_allows_us()).ceil();
        let waits = self.policies.rate() > 0 && at > now && self.must_give(at.start());
        waits.then_some(at.0)
    }
}

impl Check<'_> {
    /// What a request about settings and pauses must do.
    pub fn decide_policy(&mut self, request: &Request<'static>) {
        match *request {
            Request::Settings { queue, only } => {
                let set = self.policies((queue.db.0, queue.name)).settings.clone();
                let Input::Request { client, .. } = self.step.input else { unreachable!() };
                let Some(Said::Settings(values, all)) = self.answer_of(client) else {
                    panic!("no settings")
                };
                self.replied_in_full();
                assert_eq!(*all, only.is_none());
                let names: Vec<Setting> = values.iter().map(|(setting, ..)| *setting).collect();
                assert_eq!(names, only.map_or(Setting::ALL.to_vec(), |only| vec![only]));
                for (setting, value, is_set) in values {
                    let own = setting.written(&set);
                    assert_eq!(*is_set, own.is_some(), "{setting:?} is set");
                    assert!(own.is_none_or(|own| own == *value), "{setting:?} is {value}");
                }
            }
            Request::Configure { queue, ref changes } => {
                if let Some(error) = self.lease_error("lease", changes.lease_ms) {
                    return self.refused(&error);
                }
                let key = (queue.db.0, queue.name);
                let set = self.policies(key).settings.merged(changes);
                if self.refused_for_memory() {
                    return;
                }
                if set != self.policies(key).settings {
                    self.to_set = Some((key, set));
                }
                self.reply = Some(Said::Ok);
                self.auditor.note("configured");
            }
            Request::Unconfigure { queue } => {
                let key = (queue.db.0, queue.name);
                if !self.policies(key).settings.is_empty() {
                    self.to_set = Some((key, QueueSettings::default()));
                }
                self.reply = Some(Said::Ok);
            }
            Request::Pause { queue, direction, for_ms } => {
                let Some(pause) = self.pause_for(for_ms) else { return };
                self.pause((queue.db.0, queue.name), direction, pause);
                self.auditor.note("paused");
            }
            Request::Resume { queue, direction } => {
                self.pause((queue.db.0, queue.name), direction, Pause::None);
            }
            _ => unreachable!("no request about settings"),
        }
    }

    /// The pause that a request asks for; none if it was refused.
    pub fn pause_for(&mut self, for_ms: Option<u64>) -> Option<Pause> {
        let max_ms = self.step.settings.delay_ms_max;
        if for_ms.is_some_and(|ms| ms > max_ms) {
            self.refused("ERR FOR is ");
            return None;
        }
        if self.refused_for_memory() {
            return None;
        }
        let end = for_ms.map(|ms| Millis(self.ceil() + ms));
        Some(end.map_or(Pause::Endless, Pause::Until))
    }

    fn pause(&mut self, key: QueueKey, direction: Direction, pause: Pause) {
        let before = self.policies(key).pauses;
        let pauses = match direction {
            Direction::In => Pauses { into: pause, ..before },
            Direction::Out => Pauses { out: pause, ..before },
            Direction::All => Pauses { into: pause, out: pause },
        };
        if pauses != before {
            self.to_pause = Some((key, pauses));
        }
        self.reply = Some(Said::Ok);
    }

    fn policies(&self, key: QueueKey) -> &Policies {
        static NONE: std::sync::LazyLock<Policies> = std::sync::LazyLock::new(Policies::default);
        self.auditor.model.queues.get(&key).map_or(&NONE, |queue| &queue.policies)
    }

    /// How many dead jobs a queue is to keep, if that is what the request says.
    pub fn dead_max_asked(&self, key: QueueKey) -> Option<u64> {
        let Input::Request { request, .. } = self.step.input else { return None };
        match request {
            Request::Configure { queue, changes } if (queue.db.0, queue.name) == key => {
                changes.dead_max
            }
            Request::Unconfigure { queue } if (queue.db.0, queue.name) == key => {
                Some(DEAD_COUNT_DEFAULT)
            }
            _ => None,
        }
    }

    /// What is set for a queue, if it is known.
    pub fn settings_of(&self, key: QueueKey) -> QueueSettings {
        self.policies(key).settings.clone()
    }

    /// Whether a request that makes a queue, or sets more for it, was refused for lack of memory.
    pub fn refused_for_memory(&mut self) -> bool {
        let Input::Request { client, .. } = self.step.input else { unreachable!() };
        let max = self.step.settings.memory_bytes_max;
        let used = self.memory_wanted().max(self.step.memory_before);
        let said = self.step.replies.iter().find(|(to, _)| *to == client).map(|(_, said)| said);
        if !matches!(said, Some(Said::Error(text)) if text.starts_with("OOM")) {
            return false;
        }
        // A schedule has a body of 4 KiB at most here.
        assert!(max > 0 && used + 8_192 > max, "OOM with {used} of {max} bytes in use");
        self.refused("OOM");
        true
    }

    /// Why the queue takes no new jobs, of which there would be so many more.
    pub fn not_admitted(&self, key: QueueKey, growth: u64) -> Option<&'static str> {
        let queue = self.auditor.model.queues.get(&key)?;
        if queue.policies.pauses.into.is_on(self.step.now) {
            return Some("PAUSED");
        }
        let (max, counts) = (queue.policies.settings.max_jobs.unwrap_or(0), queue.counts());
        let jobs: u64 = counts[..JobState::Dead as usize].iter().sum();
        (max > 0 && growth > 0 && jobs + growth > max).then_some("FULL")
    }

    /// Whether the queue would be full with one more job once so many have left.
    pub fn full_behind(&self, key: QueueKey, leaving: u64) -> bool {
        let queue = &self.auditor.model.queues[&key];
        let (max, counts) = (queue.policies.settings.max_jobs.unwrap_or(0), queue.counts());
        let jobs: u64 = counts[..JobState::Dead as usize].iter().sum();
        max > 0 && jobs + 1 > max + leaving
    }

    /// Something was set.
    pub fn configured(&mut self, queue: QueueNo, settings: &QueueSettings) {
        let key = self.model().numbers[&queue.0];
        assert_eq!(self.to_set.take(), Some((key, settings.clone())), "what is set");
        let (now, step, us) = (self.now().0, self.auditor.steps, self.step.now);
        let queue = self.model().queue(key);
        queue.pushed |= queue.policies.settings.due_enters != settings.due_enters;
        let of_groups = |of: &QueueSettings| {
            let shares = (of.group_weight, of.group_max_leased);
            (shares, of.group_retry, of.group_rate)
        };
        let same = of_groups(&queue.policies.settings) == of_groups(settings);
        queue.policies.set(settings.clone(), step);
        if !same {
            queue.review(us);
        }
        queue.used = now;
    }

    /// A pause began or ended: by itself, or since a request says so.
    pub fn paused(&mut self, fact: &Fact<'_>) {
        let Fact::Paused { queue, pauses } = *fact else { unreachable!("called for a pause") };
        let key = self.model().numbers[&queue.0];
        let (now, step) = (self.step.now, self.auditor.steps);
        let before = self.policies(key).pauses;
        let over = before.still(now);
        if over != before && pauses == over {
            self.work += 1;
            self.auditor.note("pause over");
        } else {
            self.decide_once();
            assert_eq!(self.to_pause.take(), Some((key, pauses)), "what is paused");
        }
        let queue = self.model().queue(key);
        (queue.policies.pauses, queue.policies.changed) = (pauses, step);
        queue.used = now.floor().0;
    }
}
