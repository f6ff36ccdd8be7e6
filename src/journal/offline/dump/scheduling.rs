//! Which fields a fact or an image about a schedule has.

use super::DumpNames;
use super::fields::{DumpFields, put};
use super::value::FieldValue;
use crate::engine::model::fact::Fact;
use crate::engine::model::schedule::{
    Coming, Definition, ENDLESS, JobOptions, Outcomes, Rule, ScheduleTerms,
};
use crate::engine::record::{Schedule, occurrence_id};
use crate::ids::{QueueNo, ScheduleNo};

impl<'a> DumpFields<'a> {
    pub(super) fn scheduling(&mut self, fact: &Fact<'a>) -> &mut Self {
        let Some((queue, schedule)) = fact.schedule() else { return self };
        let named = self.names.schedule(queue, schedule);
        let called = if let Fact::Scheduled { name, .. } = *fact { Some(name) } else { named };
        put!(self.queue(queue); schedule, called);
        if let Some((_, id)) = occurrence_of(fact, self.names) {
            self.put("id", FieldValue::Owned(id.into()));
        }
        match *fact {
            Fact::Scheduled { body, ref definition, anchor, after, next, .. } => {
                self.definition(definition).put("anchor", FieldValue::at_or_none(anchor));
                put!(self.put("after", FieldValue::at_or_none(after)).coming(next); body)
            }
            Fact::Occurred { nominal, due, offset_s, policy, priority, left, next, .. } => {
                put!(self; nominal, due, offset_s, policy, priority, left).coming(next)
            }
            Fact::Passed { nominal, offset_s, missed, skipped, next, .. } => {
                put!(self; nominal, offset_s, missed, skipped).coming(next)
            }
            Fact::SchedulePaused { pause, after, next, .. } => {
                self.put("paused", pause).put("after", FieldValue::at_or_none(after)).coming(next)
            }
            Fact::ScheduleMoved { after, next, .. } => {
                self.put("after", FieldValue::at_or_none(after)).coming(next)
            }
            Fact::Ran { at, due, policy, priority, left, .. } => {
                put!(self.put("nominal", at); due, policy, priority, left)
            }
            _ => self,
        }
    }

    pub(super) fn schedule_image(&mut self, queue: QueueNo, of: &Schedule) -> &mut Self {
        let Outcomes { made, missed, skipped, replaced } = of.outcomes;
        self.queue(queue).put("schedule", of.number);
        self.put("called", FieldValue::Owned((*of.name).into())).definition(&of.definition);
        self.put("anchor", FieldValue::at_or_none(of.anchor))
            .put("after", FieldValue::at_or_none(of.after));
        self.coming(of.next()).put("last", FieldValue::at_or_none(of.last));
        self.put("made_at", FieldValue::at_or_none(of.made_at))
            .put("last_local_s", of.last_local_s());
        self.put("changed", of.changed).put("paused", of.pause());
        put!(self; made, missed, skipped, replaced);
        self.put("recent", FieldValue::Counts(of.recent.iter().map(|at| at.0).collect()));
        self.put("body", of.body.clone())
    }

    fn definition(&mut self, definition: &Definition) -> &mut Self {
        match &definition.rule {
            Rule::Every { ms } => self.put("every_ms", *ms),
            Rule::Cron { pattern, zone } => {
                self.text("cron", pattern.to_string()).text("tz", zone.to_string())
            }
        };
        let &ScheduleTerms {
            from,
            until,
            runs,
            catchup,
            spread_ms,
            grace_ms,
            overlap,
            ref options,
            ref group,
            ref meta,
        } = definition.terms();
        let until = Some(until).filter(|until| *until != ENDLESS);
        put!(self.put("from", FieldValue::at_or_none(from)); until, runs, catchup, spread_ms, grace_ms);
        self.text("overlap", overlap.word());
        self.put("options", FieldValue::Fields(options_of(options.clone())))
            .beside(group.get(), meta.get())
    }

    fn coming(&mut self, next: Option<Coming>) -> &mut Self {
        self.put("next", next.map(|next| next.nominal)).put("next_due", next.map(|next| next.due))
    }
}

/// Its settings, under the names that users set them by.
fn options_of(options: JobOptions) -> Vec<(&'static str, FieldValue<'static>)> {
    let JobOptions { priority, attempts, backoff, lease_ms, ttl_ms } = options;
    let all = [
        ("priority", priority.map(FieldValue::from)),
        ("attempts", attempts.map(FieldValue::from)),
        ("backoff", backoff.map(|backoff| FieldValue::Text(backoff.to_string().into()))),
        ("lease_ms", lease_ms.map(FieldValue::from)),
        ("ttl_ms", ttl_ms.map(FieldValue::from)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The occurrence of a fact, if its schedule's name is known, and its queue.
pub(super) fn occurrence_of(fact: &Fact<'_>, names: &DumpNames) -> Option<(QueueNo, Vec<u8>)> {
    let at = match *fact {
        Fact::Occurred { nominal, .. } => nominal,
        Fact::Ran { at, .. } | Fact::GaveWay { at, .. } => at,
        _ => return None,
    };
    let (queue, schedule): (QueueNo, ScheduleNo) = fact.schedule()?;
    Some((queue, occurrence_id(names.schedule(queue, schedule)?, at).to_vec()))
}
