//! A queue's user settings and its pauses.

use crate::engine::model::fact::Fact;
use crate::engine::model::group::GroupRate;
use crate::engine::model::queue_settings::{Later, Pause, Pauses, QueueSettings, Setting};
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Direction, JobState, QueueName};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::store::Located;
use crate::engine::store::pace::Pace;
use crate::engine::store::queue::QUEUE_BYTES;
use crate::error::Error;
use crate::ids::QueueNo;
use crate::limits::{self, LEVEL_GROUP_RATES, LEVEL_GROUPS};

impl Step<'_, '_> {
    pub fn show_settings(&mut self, name: QueueName<'_>, only: Option<Setting>) -> Outcome {
        let number = self.queue(name);
        let queue = number.map(|number| self.store.queue(number));
        let own = queue.and_then(|queue| queue.settings.as_deref()).cloned().unwrap_or_default();
        self.reply_settings(&self.defaults().merged(&own), &own, only, |_| true)
    }

    /// As they hold without any.
    pub(super) fn defaults(&self) -> QueueSettings {
        QueueSettings::defaults(self.live.settings.lease_ms_default)
    }

    /// Those of one kind as they hold, and which of them are `own`.
    pub(super) fn reply_settings(
        &mut self,
        holds: &QueueSettings,
        own: &QueueSettings,
        only: Option<Setting>,
        kind: fn(Setting) -> bool,
    ) -> Outcome {
        let asked = |setting: &Setting| kind(*setting) && only.is_none_or(|only| only == *setting);
        let value =
            |setting: Setting| Some((setting, setting.written(holds)?, setting.is_set(own)));
        let values: Vec<(Setting, String, bool)> =
            Setting::ALL.into_iter().filter(asked).filter_map(value).collect();
        self.reply(Reply::Settings { values: &values, all: only.is_none() })
    }

    pub fn configure(
        &mut self,
        name: QueueName<'_>,
        changes: &QueueSettings,
    ) -> Result<Outcome, Error> {
        if let Some(lease_ms) = changes.lease_ms {
            self.live.settings.check_lease("lease", lease_ms)?;
        }
        let of_groups = |setting: &Setting| setting.is_of_groups() && setting.is_set(changes);
        if Setting::ALL.iter().any(of_groups) {
            self.check_level(LEVEL_GROUPS, "groups")?;
        }
        self.check_group_limits(changes.group_rate, changes.group_max_jobs)?;
        let number = self.queue(name);
        let queue = number.map(|number| self.store.queue(number));
        let set = queue.and_then(|queue| queue.settings.as_deref());
        let before = set.map_or(0, QueueSettings::memory_bytes);
        let unset = QueueSettings::default();
        let set = set.unwrap_or(&unset);
        let settings = set.merged(changes);
        if settings == *set {
            return Ok(self.reply(Reply::Ok));
        }
        let more = settings.memory_bytes().saturating_sub(before);
        self.check_own_memory(name, number, more)?;
        let number = self.bound(name, number);
        if !self.drop_beyond(number, settings.dead_max)? {
            return Ok(Outcome::Again);
        }
        self.put_settings(number, settings);
        Ok(self.reply(Reply::Ok))
    }

    /// Drops the oldest dead letters beyond a new `dead-max` before it is set, in slices: so at no time
    /// are there more than it says. Those of earlier slices stay dropped if the client goes away, or if
    /// there is no more room for their facts. False if there are more of them.
    fn drop_beyond(&mut self, queue: QueueNo, dead_max: Option<u64>) -> Result<bool, Error> {
        let max = dead_max.unwrap_or(limits::DEAD_COUNT_DEFAULT);
        // A transaction cannot be interrupted; what it may drop is bounded before.
        let mut steps = if self.alone { limits::DROPPED_PER_TURN } else { u32::MAX };
        while self.store.queue(queue).count(JobState::Dead) > max {
            if steps == 0 {
                return Ok(false);
            }
            // The last one and what is set were promised their room.
            if !self.live.room.has_room(0) {
                return Err(self.live.room.shortage().into());
            }
            self.drop_oldest_dead(queue);
            steps -= 1;
        }
        Ok(true)
    }

    pub fn unconfigure(&mut self, name: QueueName<'_>) -> Result<Outcome, Error> {
        if let Some(number) = self.queue(name)
            && self.store.queue(number).settings.is_some()
        {
            if !self.drop_beyond(number, None)? {
                return Ok(Outcome::Again);
            }
            self.put_settings(number, QueueSettings::default());
        }
        Ok(self.reply(Reply::Ok))
    }

    pub(super) fn bound(&mut self, name: QueueName<'_>, number: Option<QueueNo>) -> QueueNo {
        number.unwrap_or_else(|| self.bind_queue(name))
    }

    fn put_settings(&mut self, queue: QueueNo, settings: QueueSettings) {
        let rate = |step: &Self| {
            step.store.queue(queue).settings.as_ref().and_then(|settings| settings.rate)
        };
        let before = rate(self);
        self.commit(&Fact::Configured { queue, settings: Box::new(settings) }, Located::NOTHING);
        if rate(self) != before {
            // The use of the old rate does not affect the new one.
            let pace = if before.is_some() { Pace::begun(self.now) } else { Pace::default() };
            self.store.aside_mut(queue).pace = pace;
        }
        self.go_on_reviewing(queue);
        // A limit may have been raised: serve waiting clients.
        self.touch(queue, None);
    }

    pub fn pause(
        &mut self,
        name: QueueName<'_>,
        direction: Direction,
        for_ms: Option<u64>,
    ) -> Result<Outcome, Error> {
        let pause = self.pause_for(for_ms)?;
        let number = self.queue(name);
        self.check_own_memory(name, number, 0)?;
        let queue = self.bound(name, number);
        self.put_pause(queue, direction, pause);
        Ok(self.reply(Reply::Ok))
    }

    /// Whether all members of the cluster, if there is one, read such limits of groups.
    pub(super) fn check_group_limits(
        &self,
        rate: Later<GroupRate>,
        max_jobs: Later<u32>,
    ) -> Result<(), Error> {
        rate.0.map_or(Ok(()), |_| self.check_level(LEVEL_GROUP_RATES, "group-rate"))?;
        max_jobs.0.map_or(Ok(()), |_| self.check_level(LEVEL_GROUP_RATES, "group-max-jobs"))
    }

    /// A pause that begins now and ends after so many ms, or that is resumed.
    pub(super) fn pause_for(&self, for_ms: Option<u64>) -> Result<Pause, Error> {
        let max_ms = self.live.settings.delay_ms_max;
        match for_ms {
            Some(asked_ms) if asked_ms > max_ms => Err(Error::PauseTooLong { asked_ms, max_ms }),
            Some(ms) => Ok(Pause::Until(self.now.ceil().plus(ms))),
            None => Ok(Pause::Endless),
        }
    }

    pub fn resume(&mut self, name: QueueName<'_>, direction: Direction) -> Outcome {
        if let Some(queue) = self.queue(name) {
            self.put_pause(queue, direction, Pause::None);
        }
        self.reply(Reply::Ok)
    }

    fn put_pause(&mut self, queue: QueueNo, direction: Direction, pause: Pause) {
        let before = self.store.queue(queue).pauses;
        let pauses = match direction {
            Direction::In => Pauses { into: pause, ..before },
            Direction::Out => Pauses { out: pause, ..before },
            Direction::All => Pauses { into: pause, out: pause },
        };
        if pauses != before {
            self.commit(&Fact::Paused { queue, pauses }, Located::NOTHING);
            self.touch(queue, None);
        }
    }

    /// Whether there is memory for this many bytes more of a queue, and for the queue if it is new.
    pub(super) fn check_own_memory(
        &self,
        name: QueueName<'_>,
        number: Option<QueueNo>,
        bytes: u64,
    ) -> Result<(), Error> {
        let queue = if number.is_none() { QUEUE_BYTES + name.name.len() as u64 } else { 0 };
        let more = queue + bytes;
        // The additions of a transaction were checked before it began.
        if more == 0 || self.live.in_transaction {
            return Ok(());
        }
        self.live.check_room_for(self.store, more)
    }
}
