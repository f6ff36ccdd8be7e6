//! Which fields a fact or an image about a schedule has.

use super::Names;
use super::fields::Fields;
use super::value::Value;
use crate::engine::model::fact::Fact;
use crate::engine::model::queue_settings::Pause;
use crate::engine::model::schedule::{Coming, Definition, ENDLESS, JobOptions, Rule};
use crate::engine::record::{Schedule, occurrence_id};
use crate::ids::{QueueNo, ScheduleNo};
use crate::time::Millis;

impl<'a> Fields<'a> {
    pub(super) fn scheduling(&mut self, fact: &Fact<'a>) -> &mut Self {
        use Value::{At, Bytes, Count, Flag, Place};
        let Some((queue, schedule)) = fact.schedule() else { return self };
        self.queue(queue).put("schedule", Count(schedule.0));
        let named = self.names.schedule(queue, schedule);
        if let Fact::Scheduled { name, .. } = *fact {
            self.put("called", Bytes(name));
        } else {
            self.put("called", Value::bytes_or_none(named));
        }
        if let Some((_, id)) = occurrence_of(fact, self.names) {
            self.put("id", Value::Owned(id.into()));
        }
        match *fact {
            Fact::Scheduled { body, ref definition, anchor, after, next, .. } => {
                self.definition(definition).put("anchor", Value::at_or_none(anchor));
                self.put("after", Value::at_or_none(after)).coming(next).put("body", Bytes(body))
            }
            Fact::Occurred { nominal, due, offset_s, policy, priority, left, next, .. } => {
                self.put("nominal", At(nominal)).put("due", At(due));
                self.put("offset_s", Place(offset_s.into())).put("policy", Count(policy.0.into()));
                self.put("priority", Count(priority.into())).put("left", Flag(left)).coming(next)
            }
            Fact::Passed { nominal, offset_s, missed, skipped, next, .. } => {
                self.put("nominal", At(nominal)).put("offset_s", Place(offset_s.into()));
                self.put("missed", Count(missed)).put("skipped", Count(skipped)).coming(next)
            }
            Fact::SchedulePaused { pause, after, next, .. } => {
                self.pause(pause).put("after", Value::at_or_none(after)).coming(next)
            }
            Fact::ScheduleMoved { after, next, .. } => {
                self.put("after", Value::at_or_none(after)).coming(next)
            }
            Fact::Ran { at, due, policy, priority, left, .. } => {
                self.put("nominal", At(at)).put("due", At(due));
                self.put("policy", Count(policy.0.into())).put("priority", Count(priority.into()));
                self.put("left", Flag(left))
            }
            _ => self,
        }
    }

    pub(super) fn schedule_image(&mut self, queue: QueueNo, of: &Schedule) -> &mut Self {
        use Value::{Count, Owned};
        self.queue(queue).put("schedule", Count(of.number.0));
        self.put("called", Owned((*of.name).into())).definition(&of.definition);
        self.put("anchor", Value::at_or_none(of.anchor)).put("after", Value::at_or_none(of.after));
        self.coming(of.next()).put("last", Value::at_or_none(of.last));
        self.put("made_at", Value::at_or_none(of.made_at));
        self.put("last_local_s", of.last_local_s().map_or(Value::Null, Value::Place));
        self.put("changed", Value::At(of.changed)).pause(of.pause());
        self.put("made", Count(of.outcomes.made)).put("missed", Count(of.outcomes.missed));
        self.put("skipped", Count(of.outcomes.skipped));
        self.put("replaced", Count(of.outcomes.replaced));
        self.put("recent", Value::Counts(of.recent.iter().map(|at| at.0).collect()));
        self.put("body", Owned(of.body.clone()))
    }

    fn definition(&mut self, definition: &Definition) -> &mut Self {
        use Value::{Count, Null};
        match &definition.rule {
            Rule::Every { ms } => self.put("every_ms", Count(*ms)),
            Rule::Cron { pattern, zone } => {
                self.text("cron", pattern.to_string()).text("tz", zone.to_string())
            }
        };
        let until = Some(definition.terms().until).filter(|until| *until != ENDLESS);
        self.put("from", Value::at_or_none(definition.terms().from));
        self.put("until", until.map_or(Null, Value::At));
        self.put("runs", Count(definition.terms().runs.into()));
        self.put("catchup", Count(definition.terms().catchup.into()));
        self.put("spread_ms", Count(definition.terms().spread_ms));
        self.put("grace_ms", Count(definition.terms().grace_ms));
        self.text("overlap", definition.terms().overlap.word());
        let options = definition.terms().options.clone();
        self.put("options", Value::Fields(options_of(options)))
    }

    fn coming(&mut self, next: Option<Coming>) -> &mut Self {
        let at = |at: Option<Millis>| at.map_or(Value::Null, Value::At);
        self.put("next", at(next.map(|next| next.nominal)));
        self.put("next_due", at(next.map(|next| next.due)))
    }

    fn pause(&mut self, pause: Pause) -> &mut Self {
        let shown = match pause {
            Pause::None => Value::Null,
            Pause::Until(end) => Value::At(end),
            Pause::Endless => Value::Text("endless".into()),
        };
        self.put("paused", shown)
    }
}

/// What is set of it, under the names that users set it by.
fn options_of(options: JobOptions) -> Vec<(&'static str, Value<'static>)> {
    let JobOptions { priority, attempts, backoff, lease_ms, ttl_ms } = options;
    let count = |count: Option<u64>| count.map(Value::Count);
    let all = [
        ("priority", count(priority.map(u64::from))),
        ("attempts", count(attempts.map(u64::from))),
        ("backoff", backoff.map(|backoff| Value::Text(backoff.to_string().into()))),
        ("lease_ms", count(lease_ms)),
        ("ttl_ms", count(ttl_ms)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The occurrence that a fact tells of, if its schedule's name is known, and its queue.
pub(super) fn occurrence_of(fact: &Fact<'_>, names: &Names) -> Option<(QueueNo, Vec<u8>)> {
    let at = match *fact {
        Fact::Occurred { nominal, .. } => nominal,
        Fact::Ran { at, .. } | Fact::GaveWay { at, .. } => at,
        _ => return None,
    };
    let (queue, schedule): (QueueNo, ScheduleNo) = fact.schedule()?;
    Some((queue, occurrence_id(names.schedule(queue, schedule)?, at).to_vec()))
}
