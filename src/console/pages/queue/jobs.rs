//! The jobs of a queue by state, and its schedules.

use super::{About, errors};
use crate::console::pages::queues::teaching;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column, Confirm, Row, Table, offered};
use crate::console::words::escape;
use crate::console::words::value::Value;
use maud::{Markup, html};

/// Letters of a body in a table.
const EXCERPT: usize = 80;
/// Bytes of an error in a table.
const ERROR_BYTES: usize = 80;

/// Ready or delayed jobs, in the order in which they are handed out or fall due.
pub fn waiting(frame: &PageFrame, about: &About<'_>, stats: &Value, listed: &Value) -> Markup {
    let jobs = about.page().shown(listed.items());
    if listed.items().is_empty() {
        let text = match about.tab {
            "ready" => "No job is ready.",
            _ => "No job is delayed.",
        };
        return parts::empty(text, &teaching(frame, about.queue));
    }
    let row = |job: &Value| {
        let [id, _, due, body] = job.items() else { return Row::default() };
        let id = id.bytes().unwrap_or_default();
        let mut cells = vec![
            parts::job_link(frame.db, about.queue, id),
            parts::ago(frame, due.number().unwrap_or(0)),
        ];
        cells.extend(about.columns.cells(body));
        Row { key: escape::query(id), select: Some((escape::query(id), escape::text(id))), cells }
    };
    let table = Table {
        id: "jobs",
        caption: format!("Jobs that are {}, next first", about.tab),
        columns: [Column::list("id|due"), about.columns.heads()].concat(),
        rows: jobs.iter().map(row).collect(),
        form: if offered(frame, "DELAY.DEL") { "bulk" } else { "" },
        grow: true,
    };
    let all = stats.number_of(about.tab);
    html! {
        (parts::part("jobs-part", html! { (table) (pager(frame, about, listed, all)) }))
        (bulk(frame, about))
    }
}

/// The jobs that are still in a state after the list was made.
fn in_state<'v>(jobs: &'v [Value], state: &str) -> Vec<&'v Value> {
    jobs.iter().filter(|job| job.field("state").text() == Some(state)).collect()
}

/// Jobs with a worker: for how long, until when, which attempt.
pub fn leased(
    frame: &PageFrame,
    about: &About<'_>,
    stats: &Value,
    listed: &Value,
    jobs: &[Value],
) -> Markup {
    let held = in_state(jobs, "leased");
    if held.is_empty() {
        return parts::empty(
            "No worker has a job.",
            &[(
                "A worker leases one for 60 s, and acknowledges it when it is done:",
                parts::commands(frame, &[b"DELAY.RESERVE", b"0", b"1", about.queue]),
            )],
        );
    }
    let row = |job: &&Value| {
        let id = job.raw("id");
        let end = job.number_of("lease-end");
        let mut cells = vec![
            parts::job_link(frame.db, about.queue, id),
            parts::ago(frame, end),
            parts::number(job.number_of("attempt")),
            parts::number(job.number_of("deliveries")),
            html! { @if job.number_of("bound") == 1 { "ends with its connection" } @else { span class="faint" { "–" } } },
        ];
        cells.extend(about.columns.cells(job.field("body")));
        Row { key: escape::query(id), select: None, cells }
    };
    let mut columns = Column::list("id|lease ends|#attempt|#deliveries|bound");
    columns.extend(about.columns.heads());
    let rows = held.iter().map(row).collect();
    let table = Table::plain("jobs", "Leased jobs, the next lease to end first", columns, rows);
    let all = stats.number_of("leased");
    parts::part("jobs-part", html! { (table) (pager(frame, about, listed, all)) })
}

/// Dead letters, newest first or by error.
pub fn dead(
    frame: &PageFrame,
    about: &About<'_>,
    stats: &Value,
    listed: &Value,
    jobs: &[Value],
) -> Markup {
    let all = stats.number_of("dead");
    let dead = in_state(jobs, "dead");
    if dead.is_empty() && !about.is_grouped() {
        return parts::empty("No job has died.", &[]);
    }
    let at = |by: &str| format!("{}&by={by}", about.href(frame.db, "dead"));
    let active = if about.is_grouped() { "by error" } else { "newest first" };
    html! {
        (parts::tabs("Order", active, &[("newest first", at("newest"), None), ("by error", at("error"), None)]))
        @if about.is_grouped() { (errors::table(frame, about, listed)) } @else {
            (parts::part("jobs-part", html! { (newest(frame, about, &dead)) (pager(frame, about, listed, all)) }))
        }
        @if all > 0 { (dead_actions(frame, about, all)) }
    }
}

fn newest(frame: &PageFrame, about: &About<'_>, dead: &[&Value]) -> Table {
    let row = |job: &&Value| {
        let id = job.raw("id");
        let mut cells = vec![
            parts::job_link(frame.db, about.queue, id),
            parts::ago(frame, job.number_of("died")),
            html! { (job.field("reason").text().unwrap_or("")) },
            parts::number(job.number_of("deliveries")),
            error_cell(job),
        ];
        cells.extend(about.columns.cells(job.field("body")));
        cells.push(redrive(frame, about, id));
        Row { key: escape::query(id), select: Some((escape::query(id), escape::text(id))), cells }
    };
    let columns = Column::list("id|died|because of|#deliveries|last error");
    Table {
        id: "jobs",
        caption: "Dead letters, newest first".to_owned(),
        columns: [columns, about.columns.heads(), vec![Column::text("action")]].concat(),
        rows: dead.iter().map(row).collect(),
        form: if offered(frame, "DELAY.REDRIVE") { "chosen" } else { "" },
        grow: true,
    }
}

fn redrive(frame: &PageFrame, about: &About<'_>, id: &[u8]) -> Markup {
    if !offered(frame, "DELAY.REDRIVE") {
        return html! {};
    }
    parts::action(
        frame,
        "/do/redrive",
        &[("queue", about.queue), ("id", id)],
        "Redrive",
        Confirm::None,
    )
}

fn error_of(job: &Value) -> &[u8] {
    let error = job.raw("error");
    &error[..error.len().min(ERROR_BYTES)]
}

fn error_cell(job: &Value) -> Markup {
    let error = error_of(job);
    html! { @if error.is_empty() { span class="faint" { "none given" } } @else { (escape::text(error)) } }
}

fn dead_actions(frame: &PageFrame, about: &About<'_>, all: u64) -> Markup {
    let fields = [("queue", about.queue)];
    let seen = all.to_string();
    let purge = [("queue", about.queue), ("dead", &b"1"[..]), ("seen", seen.as_bytes())];
    let name = super::head::name(about);
    let all_dead = parts::counted(all, "dead job", "dead jobs");
    html! {
        div class="actions" {
            @if offered(frame, "DELAY.REDRIVE") && !about.is_grouped() {
                (parts::form(frame, "chosen", "/do/redrive", &[fields[0], ("chosen", b"1")], true, html! {
                    fieldset { legend { "Selected dead letters" }
                        (parts::text_input("Due in", "when", "", "now, or 5m"))
                        label class="check" { input type="checkbox" name="keep" value="1"; " keep the number of \
                            attempts" }
                        button class="primary" data-selection { "Redrive selected" }
                        (parts::selected_count("chosen"))
                    }
                }))
            }
            @if offered(frame, "DELAY.REDRIVE") {
                (parts::form(frame, "", "/do/redrive", &fields, true, html! {
                    fieldset { legend { "Those that died first" }
                        (parts::text_input("How many", "count", "100", "1 to 10000"))
                        (parts::text_input("Due in", "when", "", "now, or 5m"))
                        button { "Redrive" }
                    }
                }))
                (parts::action(frame, "/do/redrive", &fields, "Redrive all", Confirm::Count { words: format!("Move \
                    {all_dead} of {name} back to ready.") }))
            }
            @if offered(frame, "DELAY.PURGE") {
                (parts::action(frame, "/do/purge", &purge, "Remove all dead", Confirm::Count { words: format!("Remove {all_dead} of {name}.") }))
            }
            (export(frame, about, "dead"))
        }
    }
}

/// Actions on selected waiting jobs.
fn bulk(frame: &PageFrame, about: &About<'_>) -> Markup {
    html! {
        div class="actions" {
            @if offered(frame, "DELAY.DEL") {
                (parts::form(frame, "bulk", "/do/remove", &[("queue", about.queue)], true, html! {
                    fieldset {
                        legend { "Selected jobs" }
                        button class="danger" data-selection { "Remove selected" }
                        (parts::selected_count("bulk"))
                    }
                }))
            }
            (export(frame, about, about.tab))
        }
    }
}

fn export(frame: &PageFrame, about: &About<'_>, state: &str) -> Markup {
    let href =
        format!("/export?db={}&queue={}&state={state}", frame.db, escape::query(about.queue));
    html! { a class="button" href=(href) download { "Export as NDJSON" } }
}

/// Which of the tab's jobs are shown, and the ways to others.
fn pager(frame: &PageFrame, about: &About<'_>, listed: &Value, all: u64) -> Markup {
    let href = about.href(frame.db, about.tab);
    about.page().pager(listed.items().len(), Some(all), &href)
}

/// The beginning of a body, on one line.
pub fn excerpt(body: &Value) -> Markup {
    let body = body.bytes().unwrap_or_default();
    let start = &body[..body.len().min(4 * EXCERPT)];
    html! {
        @if body.is_empty() { span class="faint" { "empty" } }
        @else { code class="excerpt" { bdi { (escape::shortened(&escape::text(start), EXCERPT)) } } }
    }
}

/// The queue's schedules, each with its next instant.
pub fn schedules(frame: &PageFrame, about: &About<'_>, listed: &Value) -> Markup {
    if listed.items().is_empty() {
        return parts::empty(
            "This queue has no schedules.",
            &[(
                "A schedule that makes a job every five minutes:",
                parts::commands(
                    frame,
                    &[b"DELAY.SCHEDULE", b"SET", about.queue, b"poll", b"", b"EVERY", b"5m"],
                ),
            )],
        );
    }
    let all = listed.items();
    let shown = &all[..all.len().min(super::SCHEDULES)];
    let href = about.href(frame.db, "schedules");
    let after = all.get(super::SCHEDULES).and_then(|_| shown.last()?.items().first()?.bytes());
    let next = after.map(|name| format!("{href}&after={}", escape::query(name)));
    let first = about.params.bytes("after").map(|_| href.as_str());
    let count = parts::counted(shown.len() as u64, "schedule", "schedules");
    let table =
        crate::console::pages::schedules::table(frame, about.queue, &Value::Array(shown.to_vec()));
    parts::part("jobs-part", html! { (table) (parts::pager(&count, first, next.as_deref())) })
}
