//! How the engine's replies look on the wire, in both protocols.

use crate::command::show::schedule;
use crate::engine::model::across::{FoundJob, QueueRow};
use crate::engine::model::errors::ErrorCount;
use crate::engine::model::group::GroupRow;
use crate::engine::model::holder::{LastUse, LeaseView};
use crate::engine::model::last_errors::LastError;
use crate::engine::model::meta::Meta;
use crate::engine::model::minutes::Span;
use crate::engine::model::queue_settings::Setting;
use crate::engine::model::reply::{Delivered, Glimpse, JobView, Reply};
use crate::engine::model::request::{JobState, Shape};
use crate::engine::model::stats::StatsView;
use crate::resp::Encoder;

/// Writes the engine's reply. Ids, names and tokens are bulk strings: clients that keep numbers in
/// doubles would round them.
pub fn render(reply: &Reply<'_>, out: &mut Encoder<'_>) {
    match reply {
        Reply::Ok => out.ok(),
        Reply::Nil => out.null(),
        Reply::NilArray => out.null_array(),
        Reply::Integer(value) => out.integer(*value),
        Reply::Counts(counts) => each(counts, out, |count, out| out.unsigned(*count)),
        Reply::Id(id) => out.bulk(id),
        Reply::State(state) => out.bulk(state.word().as_bytes()),
        Reply::Popped(job) => {
            out.array(3);
            out.bulk(job.queue.name);
            out.bulk(job.id);
            out.bulk(job.body);
        }
        Reply::Reserved(jobs) => each(jobs, out, write_delivered),
        Reply::Listed(shape, jobs) => write_listed(*shape, jobs, out),
        Reply::Body(body) => out.bulk(body),
        Reply::Bodies(bodies) => write_names(bodies, out),
        Reply::Places(places) => each(places, out, |place, out| out.integer(*place)),
        Reply::Job(job) => write_job(job, out),
        Reply::Settings { values, all } => write_settings(values, *all, out),
        Reply::Stats(stats) => write_stats(stats, out),
        Reply::GroupStats(view) => {
            out.map(14);
            write_group_row(&view.row, out);
            number("weight", view.weight.into(), out);
            number("max-leased", view.max_leased.into(), out);
            text("rate", view.rate.to_string().as_bytes(), out);
            number("max-jobs", view.max_jobs.into(), out);
            text("retry", view.retry.word().as_bytes(), out);
            number("waiting-retries", view.waiting_retries, out);
            maybe("opens", view.opens.map(|at| at.0), out);
        }
        Reply::Groups(rows) => each(rows, out, |row, out| {
            out.map(7);
            write_group_row(row, out);
        }),
        Reply::Errors(rows) => each(rows, out, write_error),
        Reply::Peeked(jobs) => each(jobs, out, |job, out| {
            out.array(4);
            write_glimpse(job, out);
            out.bulk(job.body);
        }),
        Reply::Scanned(cursor, jobs) => {
            out.array(2);
            out.bulk_unsigned(cursor.0);
            each(jobs, out, |job, out| {
                out.array(3);
                write_glimpse(job, out);
            });
        }
        Reply::Names(names) => write_names(names, out),
        Reply::ScannedNames(cursor, names) => {
            out.array(2);
            out.bulk_unsigned(cursor.0);
            write_names(names, out);
        }
        Reply::Queues(rows) => each(rows, out, write_queue),
        Reply::Found(jobs) => each(jobs, out, write_found),
        Reply::Leases(leases) => each(leases, out, write_lease),
        Reply::Minutes(spans) => each(spans, out, write_span),
        Reply::ScheduleSet(change, next) => schedule::write_set(*change, *next, out),
        Reply::Schedule(view) => schedule::write_schedule(view, out),
        Reply::Schedules(rows) => schedule::write_schedules(rows, out),
        Reply::Explained(instants) => schedule::write_explained(instants, out),
        Reply::Error(error) => out.error(&error.to_string()),
    }
}

/// An array of the items, each as `write` has it.
pub(super) fn each<T>(items: &[T], out: &mut Encoder<'_>, write: impl Fn(&T, &mut Encoder<'_>)) {
    out.array(items.len());
    items.iter().for_each(|item| write(item, out));
}

fn write_error(row: &ErrorCount<'_>, out: &mut Encoder<'_>) {
    out.map(6);
    maybe_text("error", row.text, out);
    number("count", row.count, out);
    number("dead", row.dead, out);
    number("first", row.first.0, out);
    number("last", row.last.0, out);
    maybe_text("sample", row.sample, out);
}

fn write_delivered(job: &Delivered<'_>, out: &mut Encoder<'_>) {
    out.array(if job.meta.is_some() { 9 } else { 7 });
    out.bulk(job.queue.name);
    out.bulk(job.id);
    out.bulk(job.body);
    match job.token {
        Some(token) => out.bulk_unsigned(token.0),
        None => out.bulk(b""),
    }
    out.integer(i64::from(job.attempt));
    out.unsigned(job.due.0);
    out.unsigned(job.lease_end.0);
    if let Some((group, meta)) = job.meta {
        match group {
            Some(group) => out.bulk(group),
            None => out.null(),
        }
        out.array(2 * meta.pairs().count());
        write_pairs(meta, out);
    }
}

/// Names and values by turns.
fn write_pairs(meta: Meta<'_>, out: &mut Encoder<'_>) {
    for (name, value) in meta.pairs() {
        out.bulk(name);
        out.bulk(value);
    }
}

/// As a field of a job or a schedule, if there is any.
pub(super) fn write_meta(meta: Meta<'_>, out: &mut Encoder<'_>) {
    if !meta.is_none() {
        out.field("meta").map(meta.pairs().count());
        write_pairs(meta, out);
    }
}

fn write_listed(shape: Shape, jobs: &[Delivered<'_>], out: &mut Encoder<'_>) {
    let Some(first) = jobs.first() else { return out.null_array() };
    if matches!(shape, Shape::Named | Shape::NamedValues) {
        out.array(2);
        out.bulk(first.queue.name);
    }
    if matches!(shape, Shape::Values | Shape::NamedValues) {
        out.array(jobs.len());
    }
    jobs.iter().for_each(|job| out.bulk(job.body));
}

fn write_glimpse(job: &Glimpse<'_>, out: &mut Encoder<'_>) {
    out.bulk(job.id);
    out.bulk(job.state.word().as_bytes());
    out.unsigned(job.due.0);
}

fn write_names(names: &[&[u8]], out: &mut Encoder<'_>) {
    each(names, out, |name, out| out.bulk(name));
}

fn write_job(job: &JobView<'_>, out: &mut Encoder<'_>) {
    let lease = if job.lease.is_some() { 3 } else { 0 };
    let death = if job.death.is_some() { 2 } else { 0 };
    let beside = usize::from(job.group.is_some()) + usize::from(!job.meta.is_none());
    let told = 2 * usize::from(job.errors.is_some()) + usize::from(job.latest.is_some());
    out.map(17 + lease + death + told + beside);
    text("id", job.id, out);
    text("state", job.state.word().as_bytes(), out);
    text("body", job.body, out);
    number("due", job.due.0, out);
    number("added", job.added.0, out);
    number("priority", job.priority.into(), out);
    number("attempt", job.attempt.into(), out);
    number("max-attempts", job.attempts_max.into(), out);
    number("deliveries", job.deliveries.into(), out);
    number("nacks", job.nacks.into(), out);
    number("timeouts", job.timeouts.into(), out);
    number("lost", job.lost.into(), out);
    text("backoff", job.backoff.as_bytes(), out);
    number("lease-ms", job.lease_ms, out);
    number("ttl-ms", job.ttl_ms, out);
    number("expires", job.expires.0, out);
    number("unique-ms", job.unique_ms, out);
    if let Some((token, end, bound)) = job.lease {
        out.field("token").bulk_unsigned(token.0);
        number("lease-end", end.0, out);
        number("bound", bound.into(), out);
    }
    if let Some(due) = job.latest {
        number("latest", due.0, out);
    }
    if let Some((reason, _)) = job.death {
        text("reason", reason.word().as_bytes(), out);
    }
    if let Some(errors) = job.errors {
        text("error", errors.newest().text, out);
    }
    if let Some((_, died)) = job.death {
        number("died", died.0, out);
    }
    if let Some(errors) = job.errors {
        out.field("errors").array(errors.all().count());
        errors.all().for_each(|error| write_last_error(&error, out));
    }
    if let Some(group) = job.group {
        text("group", group, out);
    }
    write_meta(job.meta, out);
}

fn write_last_error(error: &LastError<'_>, out: &mut Encoder<'_>) {
    out.map(3);
    text("error", error.text, out);
    maybe("at", error.given.map(|(at, _)| at.0), out);
    maybe("attempt", error.given.map(|(_, attempt)| attempt.into()), out);
}

fn write_settings(values: &[(Setting, String, bool)], all: bool, out: &mut Encoder<'_>) {
    out.map(values.len() + usize::from(all));
    for (setting, value, _) in values {
        text(setting.word(), value.as_bytes(), out);
    }
    if all {
        let set = || values.iter().filter(|(_, _, is_set)| *is_set);
        out.bulk(b"set");
        out.array(set().count());
        set().for_each(|(setting, _, _)| out.bulk(setting.word().as_bytes()));
    }
}

fn write_stats(stats: &StatsView, out: &mut Encoder<'_>) {
    out.map(33);
    number("delayed", stats.delayed, out);
    number("ready", stats.ready, out);
    number("leased", stats.leased, out);
    number("dead", stats.dead, out);
    number("bytes", stats.bytes, out);
    number("waiters", stats.waiters, out);
    text("paused", stats.paused.as_bytes(), out);
    maybe("next-due", stats.next_due.map(|due| due.0), out);
    maybe("oldest-ready-age-ms", stats.oldest_ready_age_ms, out);
    let names = ["lateness-p50-us", "lateness-p99-us", "lateness-p999-us", "lateness-max-us"];
    for (name, value) in names.into_iter().zip(stats.lateness_us) {
        number(name, value, out);
    }
    let totals = &stats.totals;
    number("added", totals.added, out);
    number("delivered", totals.delivered, out);
    number("acked", totals.acked, out);
    number("nacked", totals.nacked, out);
    number("timeouts", totals.timeouts, out);
    number("lost", totals.lost, out);
    number("expired", totals.expired, out);
    number("deleted", totals.deleted, out);
    number("died", totals.died, out);
    number("dropped", totals.dropped, out);
    number("popped", stats.popped(), out);
    number("schedules", stats.schedules, out);
    number("made", stats.made, out);
    number("missed", stats.missed, out);
    number("groups", stats.groups, out);
    number("groups-closed", stats.groups_closed, out);
    write_last("last-reserve-at", "last-reserve-by", stats.last_reserve.as_ref(), out);
    write_last("last-ack-at", "last-ack-by", stats.last_ack.as_ref(), out);
}

fn write_last(at: &str, by: &str, last: Option<&LastUse>, out: &mut Encoder<'_>) {
    maybe(at, last.map(|last| last.at.0), out);
    maybe_text(by, last.and_then(|last| last.by.as_deref()), out);
}

fn write_group_row(row: &GroupRow, out: &mut Encoder<'_>) {
    text("name", &row.name, out);
    number("ready", row.count(JobState::Ready), out);
    number("delayed", row.count(JobState::Delayed), out);
    number("leased", row.count(JobState::Leased), out);
    number("dead", row.count(JobState::Dead), out);
    text("state", row.state.word().as_bytes(), out);
    maybe("oldest-ready-age-ms", row.oldest_ready_age_ms, out);
}

fn write_queue(row: &QueueRow, out: &mut Encoder<'_>) {
    let [delayed, ready, leased, dead] = row.counts;
    out.map(14);
    text("name", &row.name, out);
    number("ready", ready, out);
    number("delayed", delayed, out);
    number("leased", leased, out);
    number("dead", dead, out);
    number("waiters", row.waiters, out);
    text("paused", row.paused.as_bytes(), out);
    maybe("next-due", row.next_due.map(|due| due.0), out);
    maybe("oldest-ready-age-ms", row.oldest_ready_age_ms, out);
    number("bytes", row.bytes, out);
    number("lateness-p99-us", row.lateness_p99_us, out);
    number("schedules", row.schedules, out);
    number("groups", row.groups, out);
    maybe("last-reserve-at", row.last_reserve.map(|at| at.0), out);
}

fn write_found(job: &FoundJob, out: &mut Encoder<'_>) {
    out.map(3);
    text("queue", &job.queue, out);
    text("state", job.state.word().as_bytes(), out);
    number("due", job.due.0, out);
}

fn write_lease(LeaseView { row, holder }: &LeaseView<'_>, out: &mut Encoder<'_>) {
    out.map(9);
    text("queue", &row.queue, out);
    text("id", &row.id, out);
    maybe("client", (row.client > 0).then_some(row.client.into()), out);
    maybe_text("addr", holder.map(|holder| &*holder.address), out);
    maybe_text("name", holder.map(|holder| &*holder.name), out);
    maybe_text("lib", holder.map(|holder| &*holder.library), out);
    maybe("since", row.since.map(|since| since.0), out);
    number("lease-end", row.lease_end.0, out);
    number("attempt", row.attempt.into(), out);
}

fn write_span(span: &Span, out: &mut Encoder<'_>) {
    out.map(12);
    number("at", span.at.0, out);
    number("added", span.added, out);
    number("delivered", span.delivered, out);
    number("acked", span.acked, out);
    number("failed", span.failed, out);
    number("died", span.died, out);
    for (state, count) in JobState::ALL.into_iter().zip(span.jobs) {
        number(state.word(), count, out);
    }
    number("lateness-p50-us", span.lateness_us[0], out);
    number("lateness-p99-us", span.lateness_us[1], out);
}

pub(super) fn text(field: &str, value: &[u8], out: &mut Encoder<'_>) {
    out.field(field).bulk(value);
}

pub(super) fn number(field: &str, value: u64, out: &mut Encoder<'_>) {
    out.field(field).unsigned(value);
}

pub(super) fn maybe(field: &str, value: Option<u64>, out: &mut Encoder<'_>) {
    out.field(field).unsigned_or_null(value);
}

pub(super) fn maybe_text(field: &str, value: Option<&[u8]>, out: &mut Encoder<'_>) {
    out.field(field).bulk_or_null(value);
}
