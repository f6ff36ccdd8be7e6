//! How schedules look on the wire.

use crate::command::show::render::{each, maybe, maybe_text, number, text, write_meta};
use crate::engine::model::schedule::{
    Definition, ENDLESS, JobOptions, Rule, ScheduleChange, ScheduleRow, ScheduleView,
};
use crate::resp::Encoder;
use crate::time::{Millis, Written};

pub(super) fn write_set(change: ScheduleChange, next: Option<Millis>, out: &mut Encoder<'_>) {
    out.array(2);
    out.bulk(change.word().as_bytes());
    write_instant(next, out);
}

/// GET's reply.
pub(super) fn write_schedule(view: &ScheduleView<'_>, out: &mut Encoder<'_>) {
    let rule = match view.definition.rule {
        Rule::Every { .. } => 1,
        Rule::Cron { .. } => 2,
    };
    let (group, meta) = (view.definition.group(), view.definition.meta());
    out.map(29 + rule + usize::from(group.is_some()) + usize::from(!meta.is_none()));
    text("name", view.name, out);
    text("state", view.state.word().as_bytes(), out);
    write_definition(view.definition, view.runs_left, out);
    text("body", view.body, out);
    number("changed", view.changed.0, out);
    write_occurrences(view, out);
    maybe("paused-until", view.pause.end().map(|end| end.0), out);
    maybe_text("held", view.obstacle.map(|obstacle| obstacle.word().as_bytes()), out);
    number("made", view.outcomes.made, out);
    number("missed", view.outcomes.missed, out);
    number("skipped", view.outcomes.skipped, out);
    number("replaced", view.outcomes.replaced, out);
    if let Some(group) = group {
        text("group", group, out);
    }
    write_meta(meta, out);
}

/// 13 fields and those of the rule.
fn write_definition(definition: &Definition, runs_left: Option<u64>, out: &mut Encoder<'_>) {
    match &definition.rule {
        Rule::Every { ms } => span("every", Some(*ms), out),
        Rule::Cron { pattern, zone } => {
            text("cron", pattern.as_bytes(), out);
            text("tz", zone.as_bytes(), out);
        }
    }
    let set = |value: u64| (value != 0).then_some(value);
    maybe("from", set(definition.terms().from.0), out);
    let until = Some(definition.terms().until).filter(|until| *until != ENDLESS);
    maybe("until", until.map(|until| until.0), out);
    maybe("runs", set(definition.terms().runs.into()), out);
    maybe("runs-left", runs_left, out);
    span("spread", set(definition.terms().spread_ms), out);
    text("overlap", definition.terms().overlap.word().as_bytes(), out);
    number("catchup", definition.terms().catchup.into(), out);
    span("grace", set(definition.terms().grace_ms), out);
    write_options(&definition.terms().options, out);
}

fn write_options(options: &JobOptions, out: &mut Encoder<'_>) {
    maybe("priority", options.priority.map(u64::from), out);
    maybe("attempts", options.attempts.map(u64::from), out);
    let backoff = options.backoff.as_ref().map(ToString::to_string);
    maybe_text("backoff", backoff.as_deref().map(str::as_bytes), out);
    span("lease", options.lease_ms, out);
    span("ttl", options.ttl_ms, out);
}

fn write_occurrences(view: &ScheduleView<'_>, out: &mut Encoder<'_>) {
    maybe("next", view.next.map(|next| next.nominal.0), out);
    maybe("next-due", view.next.map(|next| next.due.0), out);
    maybe("last", view.last.map(|(nominal, _)| nominal.0), out);
    maybe("last-made", view.last.map(|(_, made)| made.0), out);
    maybe_text("last-id", view.last_id.as_deref(), out);
    each(&view.open, out.field("open"), |id, out| out.bulk(id));
}

/// LIST's reply.
pub(super) fn write_schedules(rows: &[ScheduleRow<'_>], out: &mut Encoder<'_>) {
    each(rows, out, |row, out| {
        out.array(5);
        out.bulk(row.name);
        out.bulk(row.state.word().as_bytes());
        out.bulk(row.rule.to_string().as_bytes());
        write_instant(row.next, out);
        write_instant(row.last, out);
    });
}

pub(super) fn write_explained(instants: &[(Millis, String)], out: &mut Encoder<'_>) {
    each(instants, out, |(instant, shown), out| {
        out.array(2);
        out.unsigned(instant.0);
        out.bulk(shown.as_bytes());
    });
}

fn write_instant(instant: Option<Millis>, out: &mut Encoder<'_>) {
    match instant {
        Some(instant) => out.unsigned(instant.0),
        None => out.null(),
    }
}

fn span(field: &str, ms: Option<u64>, out: &mut Encoder<'_>) {
    let written = ms.map(|ms| Written(ms).to_string());
    maybe_text(field, written.as_deref().map(str::as_bytes), out);
}
