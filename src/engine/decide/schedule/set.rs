//! SET: a schedule is made, or changed into exactly what is said.

use crate::calendar::Zone;
use crate::engine::model::fact::Fact;
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::reply::Reply;
use crate::engine::model::schedule::{
    AskedRule, Coming, Definition, ENDLESS, Rule, ScheduleChange, SetSchedule,
};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::schedule::times::Times;
use crate::engine::store::Located;
use crate::engine::store::schedules::{Schedule, memory_bytes};
use crate::error::{Error, Shown};
use crate::limits::LEVEL_SCHEDULES;
use crate::time::{Millis, Written};

/// When a schedule comes once it is set.
struct Timing {
    anchor: Millis,
    after: Millis,
    next: Option<Coming>,
}

impl Step<'_, '_> {
    pub(super) fn set_schedule(&mut self, set: &SetSchedule<'_>) -> Result<Outcome, Error> {
        let definition = self.definition(set)?;
        let name = set.queue;
        let number = self.queue(name);
        let old = number.and_then(|queue| self.store.find_schedule(queue, set.name));
        if let Some(old) = old.filter(|old| old.definition == definition && *old.body == *set.body)
        {
            let next = old.next().map(|coming| coming.nominal);
            return Ok(self.reply(Reply::ScheduleSet(ScheduleChange::Same, next)));
        }
        if let Some((queue, old)) = number.zip(old.map(|old| old.number)) {
            _ = self.end_own_pause(queue, old);
        }
        let old = number.and_then(|queue| self.store.find_schedule(queue, set.name));
        let mut timing = self.timing(set, &definition, old)?;
        let bytes = memory_bytes(set.name, set.body.len(), &definition);
        let more = bytes.saturating_sub(old.map_or(0, Schedule::memory_bytes));
        let (change, known) = match old {
            Some(old) => (ScheduleChange::Changed, Some(old.number)),
            None => (ScheduleChange::Created, None),
        };
        // A held occurrence is not made any more if the rule has changed, or there is no next instant.
        let ends = timing.next.is_none();
        let is_moved = ends || old.is_some_and(|old| !old.definition.times_alike(&definition));
        self.check_own_memory(name, number, more)?;
        let queue = self.bound(name, number);
        if let Some(known) = known.filter(|_| is_moved) {
            self.miss_due(queue, known);
            // An instant recorded as missed does not come again by the new rule.
            timing = self.timing(set, &definition, self.store.find_schedule(queue, set.name))?;
        }
        let schedules = self.store.queue(queue).schedules.as_deref();
        let schedule = known.or_else(|| schedules.map(|all| all.next_number())).unwrap_or_default();
        let Timing { anchor, after, next } = timing;
        let fact = Fact::Scheduled {
            queue,
            schedule,
            name: set.name,
            body: set.body,
            definition: Box::new(definition),
            anchor,
            after,
            next,
        };
        self.commit(&fact, Located::NOTHING);
        Ok(self.reply(Reply::ScheduleSet(change, next.map(|coming| coming.nominal))))
    }

    /// The definition to store.
    fn definition(&self, set: &SetSchedule<'_>) -> Result<Definition, Error> {
        let settings = &self.live.settings;
        if let Some(lease_ms) = set.terms.options.lease_ms {
            settings.check_lease("LEASE", lease_ms)?;
        }
        let rule = self.rule(&set.rule)?;
        self.check_level(LEVEL_SCHEDULES, "schedules")?;
        self.check_beside(set.terms.group.get(), set.terms.meta.get())?;
        Ok(set.terms.clone().with(rule))
    }

    pub(super) fn rule(&self, asked: &AskedRule<'_>) -> Result<Rule, Error> {
        Ok(match asked {
            AskedRule::Every { ms } => {
                let max_ms = self.live.settings.delay_ms_max;
                if *ms > max_ms {
                    let (ms, max) = (Written(*ms), Written(max_ms));
                    return Err(Error::text(format!("ERR EVERY is {ms}; max-delay is {max}")));
                }
                Rule::Every { ms: *ms }
            }
            AskedRule::Cron { pattern, zone } => {
                let zone = self.zone(zone)?.name().into();
                Rule::Cron { pattern: pattern.text().into(), zone }
            }
        })
    }

    pub(super) fn zone(&self, name: &[u8]) -> Result<Zone, Error> {
        let text = String::from_utf8_lossy(name);
        let found = self.live.zones.get(&text);
        found.map_err(|why| Error::text(format!("ERR zone {} {why}", Shown::new(name))))
    }

    /// Its next instant, given the previous one.
    fn timing(
        &self,
        set: &SetSchedule<'_>,
        definition: &Definition,
        old: Option<&Schedule>,
    ) -> Result<Timing, Error> {
        let alike = old.filter(|old| old.definition.times_alike(definition));
        let anchor = match definition.rule {
            Rule::Every { ms } if definition.terms().from == Millis(0) => {
                alike.map_or_else(|| self.now.ceil().plus(ms), |old| old.anchor)
            }
            _ => definition.terms().from,
        };
        let times = Times::of(definition, set.name, anchor, &self.live.zones);
        let times = times.expect("a pattern and a zone that were just read are read again");
        let now = match old.map(|old| old.pause()) {
            Some(Pause::Until(end)) => end.max(self.now.floor()),
            _ => self.now.floor(),
        };
        let mut after = old.map_or(Millis(0), |old| old.after);
        let found = match alike.and_then(|old| old.next()) {
            // An instant that has come but whose occurrence was not made stays the next one, whatever else changes.
            Some(next) => Some(next).filter(|next| next.nominal <= definition.terms().until),
            None => {
                let next = times.next_due(after, now);
                after = times.behind(after, self.now.floor());
                next
            }
        };
        if found.is_none()
            && let Rule::Cron { pattern, .. } = &definition.rule
            && !times.ever_comes(self.now.floor())
        {
            let pattern = Shown::new(pattern.as_bytes());
            return Err(Error::text(format!("ERR cron {pattern} never occurs")));
        }
        let made = old.map_or(0, |old| old.outcomes.made);
        let is_endless = old.is_some_and(|old| old.pause() == Pause::Endless);
        let runs = u64::from(definition.terms().runs);
        let used_up = runs > 0 && made >= runs;
        if old.is_none() && found.is_none() {
            return Err(never(set.name, definition));
        }
        let next = found.filter(|_| !is_endless && !used_up);
        Ok(Timing { anchor, after, next })
    }
}

fn never(name: &[u8], definition: &Definition) -> Error {
    let until = match definition.terms().until {
        ENDLESS => "no instant is left".to_owned(),
        Millis(until) => format!("no instant is left up to UNTIL, @{until}"),
    };
    Error::text(format!("ERR schedule {} never occurs: {until}", Shown::new(name)))
}
