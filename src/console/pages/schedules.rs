//! Schedules of all queues of a database, and the form that sets one.

mod form;
mod one;

use super::Page;
use super::queues;
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Column, Confirm, Row, Table, Tone, offered};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, Render, html};

/// `/schedules`.
pub const PAGE: Page = Page { path: "/schedules", ask, more, show, whole: false, file: None };
/// `/schedule`: one of them.
pub const ONE: Page = one::PAGE;

const QUEUES_MAX: usize = 50;
const COUNT: &str = "100";

/// The schedules of a queue from DELAY.SCHEDULE LIST, and the form for another.
pub fn table(frame: &PageFrame, queue: &[u8], listed: &Value) -> Markup {
    let rows = listed.items().iter().filter_map(|schedule| row(frame, queue, schedule, false));
    html! {
        (list(rows.collect(), false))
        @if offered(frame, "DELAY.SCHEDULE SET") {
            p class="note" { a href={ "/schedules?db=" (frame.db) "&queue=" (escape::query(queue)) "#new" } { "Set another schedule" } }
        }
    }
}

/// Actions on a schedule in this state.
pub fn actions(frame: &PageFrame, queue: &[u8], name: &[u8], state: &str) -> Markup {
    let fields = [("queue", queue), ("schedule", name)];
    let words = format!(
        "Remove the schedule {}; the jobs that it has made stay.",
        escape::shortened(&escape::text(name), 60)
    );
    html! {
        @if offered(frame, "DELAY.SCHEDULE RUN") {
            (parts::action_toned(frame, "/do/schedule-run", &fields, "Run now", Confirm::None, Tone::Good))
        }
        @if state == "paused" && offered(frame, "DELAY.SCHEDULE RESUME") {
            (parts::action(frame, "/do/schedule-resume", &fields, "Resume", Confirm::None))
        }
        @if state != "paused" && offered(frame, "DELAY.SCHEDULE PAUSE") {
            (parts::action(frame, "/do/schedule-pause", &fields, "Pause", Confirm::None))
        }
        @if offered(frame, "DELAY.SCHEDULE DEL") {
            (parts::action(frame, "/do/schedule-remove", &fields, "Remove", Confirm::Count { words }))
        }
    }
}

fn ask(params: &Params) -> Vec<Command> {
    let mut asked =
        vec![command!["DELAY.QUEUES", "BY", "SCHEDULES", "COUNT", (QUEUES_MAX + 1).to_string()]];
    asked.extend(form::preview(params));
    asked
}

fn with_schedules(reply: &Value) -> (Vec<queues::ListedQueue>, usize) {
    let mut with: Vec<queues::ListedQueue> =
        queues::read(reply).into_iter().filter(|queue| queue.schedules > 0).collect();
    let all = with.len();
    with.truncate(QUEUES_MAX);
    (with, all)
}

fn more(_: &Params, replies: &[Value]) -> Vec<Command> {
    let list = |queue: &queues::ListedQueue| {
        command!["DELAY.SCHEDULE", "LIST", queue.name, "COUNT", COUNT]
    };
    with_schedules(&replies[0]).0.iter().map(list).collect()
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let previewed = usize::from(form::preview(params).is_some());
    let (preview, listed) = replies[1..].split_at(previewed.min(replies.len() - 1));
    let (with, all) = with_schedules(&replies[0]);
    let rows: Vec<Row> = with
        .iter()
        .zip(listed)
        .flat_map(|(queue, listed)| {
            listed.items().iter().filter_map(|schedule| row(frame, &queue.name, schedule, true))
        })
        .collect();
    let listed_count: u64 = with.iter().map(|queue| queue.schedules).sum();
    let is_short = (rows.len() as u64) < listed_count;
    let body = html! {
        @if let Some(error) = replies[0].error() { p class="refused" role="alert" { (error) } }
        (parts::part("totals", totals(frame)))
        @if all == 0 { (empty(frame)) }
        @else {
            (parts::part("schedules-part", html! {
                (list(rows, true))
                @if all > with.len() { p class="note" { "Those of the " (with.len()) " queues with the most schedules." } }
                @if is_short { p class="note" { "At most " (COUNT) " of each queue that can be read." } }
            }))
        }
        (form::new(frame, params, preview.first()))
    };
    live(frame, "Schedules", Tab::Schedules, body)
}

/// Totals of all schedules of the server since its start.
fn totals(frame: &PageFrame) -> Markup {
    let Some(state) = &frame.state else { return html! {} };
    let grouped = |field| parts::grouped(state.number_of(field));
    let missed = state.number_of("schedule_missed_total");
    let held = state.number_of("schedules_held");
    let toned = |count: u64| if count > 0 { Tone::Warn } else { Tone::Plain };
    html! {
        div class="figures" {
            (parts::figure("schedules", grouped("schedules"), &format!("{} paused", grouped("schedules_paused")), Tone::Plain, ""))
            (parts::figure("held", parts::grouped(held), if held > 0 { "their queue is full, or memory is short" } else { "" }, toned(held), ""))
            (parts::figure("made", grouped("schedule_made_total"), "since the start", Tone::Plain, ""))
            (parts::figure("missed", parts::grouped(missed), "since the start", toned(missed), ""))
            (parts::figure("skipped", grouped("schedule_skipped_total"), "an earlier one was open", Tone::Plain, ""))
        }
    }
}

fn empty(frame: &PageFrame) -> Markup {
    parts::empty(
        "There is no schedule. A schedule makes a job at each of its instants.",
        &[(
            "A job every five minutes:",
            parts::commands(
                frame,
                &[b"DELAY.SCHEDULE", b"SET", b"poll", b"bank", b"", b"EVERY", b"5m"],
            ),
        )],
    )
}

fn list(rows: Vec<Row>, with_queue: bool) -> Markup {
    let mut columns = Column::list("name|rule|state|next|last|actions");
    if with_queue {
        columns.insert(1, Column::text("queue"));
    }
    Table::plain("schedules", "Schedules, by queue and name", columns, rows).render()
}

/// A row of LIST: name, state, rule, next, last.
fn row(frame: &PageFrame, queue: &[u8], schedule: &Value, with_queue: bool) -> Option<Row> {
    let [name, state, rule, next, last] = schedule.items() else { return None };
    let (name, state) = (name.bytes()?, state.text().unwrap_or_default());
    let href = parts::schedule_href(frame.db, queue, name);
    let mut cells = vec![html! { a href=(href) { (escape::name(name)) } }];
    if with_queue {
        cells.push(parts::queue_link(frame.db, queue));
    }
    cells.extend([
        html! { code { (escape::text(rule.bytes().unwrap_or_default())) } },
        parts::state(state),
        instant(frame, next),
        instant(frame, last),
        html! { div class="actions" { (actions(frame, queue, name, state)) } },
    ]);
    let key = format!("{}/{}", escape::query(queue), escape::query(name));
    Some(Row { key, select: None, cells })
}

fn instant(frame: &PageFrame, at: &Value) -> Markup {
    match at.number() {
        Some(at) => parts::ago(frame, at),
        None => html! { span class="faint" { "–" } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::chrome::May;
    use crate::console::words::value::tests::{map, text};

    fn frame(may: May) -> PageFrame {
        PageFrame { may, now_ms: 1_000, token: "t0k".into(), ..PageFrame::default() }
    }

    fn queue(name: &'static str, schedules: i64) -> Value {
        map(&[("name", text(name)), ("schedules", Value::Int(schedules))])
    }

    fn schedule(name: &'static str, state: &'static str) -> Value {
        let rule = text("every 5m");
        Value::Array(vec![text(name), text(state), rule, Value::Int(61_000), Value::Null])
    }

    fn page(frame: &PageFrame, query: &str, replies: &[Value]) -> String {
        show(frame, &Params::read(query.as_bytes()), replies).into_string()
    }

    #[test]
    fn only_queues_with_schedules_are_asked_and_no_more_than_fit() {
        let queues = vec![queue("calm", 0), queue("poll", 2)];
        let asked = more(&Params::default(), &[Value::Array(queues)]);
        assert_eq!(asked, [command!["DELAY.SCHEDULE", "LIST", "poll", "COUNT", "100"]]);
        let many = (0..200).map(|_| queue("q", 1)).collect();
        assert_eq!(more(&Params::default(), &[Value::Array(many)]).len(), QUEUES_MAX);
        assert!(more(&Params::default(), &[Value::Error("NOPERM".into())]).is_empty());
    }

    #[test]
    fn schedules_stand_with_their_queue_and_what_can_be_done() {
        let queues = Value::Array(vec![queue("poll", 2)]);
        let listed = Value::Array(vec![schedule("bank", "active"), schedule("<b>", "paused")]);
        let shown = page(&frame(May::all()), "", &[queues.clone(), listed.clone()]);
        assert!(shown.contains("in 1 min") && shown.contains("every 5m"), "{shown}");
        assert!(shown.contains("&lt;b&gt;") && !shown.contains("<b>"), "{shown}");
        assert_eq!(shown.matches("/do/schedule-pause?").count(), 1, "{shown}");
        assert_eq!(shown.matches("/do/schedule-resume?").count(), 1, "{shown}");
        assert!(shown.contains("schedule=%3Cb%3E"), "{shown}");
        let shown = page(&frame(May::default()), "", &[queues, listed]);
        assert!(shown.contains("bank") && !shown.contains("/do/"), "{shown}");
    }

    #[test]
    fn nothing_and_refusals_are_told() {
        let shown = page(&frame(May::all()), "", &[Value::Array(Vec::new())]);
        assert!(shown.contains("There is no schedule") && shown.contains("EVERY 5m"), "{shown}");
        let refused = page(&frame(May::default()), "", &[Value::Error("NOPERM no".into())]);
        assert!(refused.contains("NOPERM no"), "{refused}");
        let queues = Value::Array(vec![queue("secret", 1)]);
        let hidden = page(&frame(May::all()), "", &[queues, Value::Error("NOPERM".into())]);
        assert!(!hidden.contains("data-key"), "{hidden}");
    }

    #[test]
    fn a_queue_shows_its_own_without_its_name() {
        let listed = Value::Array(vec![schedule("bank", "active")]);
        let shown = table(&frame(May::all()), b"po/ll", &listed).into_string();
        assert!(shown.contains("queue=po%2Fll&amp;id=bank"), "{shown}");
        assert!(!shown.contains(r#"data-label="queue""#), "{shown}");
    }
}
