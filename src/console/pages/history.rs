//! What happened in the last hour, in six, in a day: of one queue, or of all together.

use super::{NO_MORE, Page};
use crate::console::view::chart::{self, LineOptions};
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Column, Row, Table};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, Render, html};

/// `/history`.
pub const PAGE: Page =
    Page { path: "/history", ask, more: NO_MORE, show, whole: false, file: None };

/// How far back the page looks: its word, and the words of DELAY.HISTORY.
const SPANS: [(&str, &str, &str); 3] =
    [("hour", "1h", "1m"), ("6 hours", "6h", "5m"), ("day", "1d", "15m")];

const MINUTE_MS: u64 = 60_000;

/// The counts of a row, in the order of the table.
const COUNTS: [&str; 9] =
    ["added", "delivered", "acked", "failed", "died", "delayed", "ready", "leased", "dead"];

/// The command for the last hour, minute by minute.
pub fn ask_hour(queue: Option<&[u8]>) -> Command {
    ask_span(queue, SPANS[0])
}

fn ask_span(queue: Option<&[u8]>, (_, last, step): (&str, &str, &str)) -> Command {
    match queue {
        Some(queue) => command!["DELAY.HISTORY", queue, "LAST", last, "STEP", step],
        None => command!["DELAY.HISTORY", "LAST", last, "STEP", step],
    }
}

/// A field of each row of DELAY.HISTORY, to be drawn as a line.
pub fn values(rows: &[Value], field: &str) -> Vec<u64> {
    rows.iter().map(|row| row.number_of(field)).collect()
}

/// Lines of what happened a minute, with the numbers of the minute that is over, and a link to the page; nothing without rows.
pub fn card(rows: &[Value], href: &str) -> Markup {
    // The last one is not over.
    let over = if rows.len() > 1 { &rows[..rows.len() - 1] } else { rows };
    let Some(last) = over.last() else { return html! {} };
    let line = |label: &str, field: &str, shown: fn(u64) -> String| {
        html! {
            div {
                span class="label" { (label) } " " b { (shown(last.number_of(field))) }
                (chart::spark(&values(over, field), label))
            }
        }
    };
    let body = html! {
        div class="sparks" {
            (line("added a minute", "added", parts::grouped))
            (line("delivered a minute", "delivered", parts::grouped))
            (line("failed a minute", "failed", parts::grouped))
            (line("late, p99, µs", "lateness-p99-us", parts::measured))
        }
    };
    parts::card("The last hour", html! { a href=(href) { "history" } }, body)
}

/// The page's address.
pub fn href(db: u8, queue: &[u8]) -> String {
    format!("/history?db={db}&name={}", escape::query(queue))
}

fn span(params: &Params) -> (&'static str, &'static str, &'static str) {
    let asked = params.text("last").unwrap_or_default();
    SPANS.into_iter().find(|(_, last, _)| *last == asked).unwrap_or(SPANS[0])
}

fn queue(params: &Params) -> Option<&[u8]> {
    params.bytes("name").filter(|name| !name.is_empty())
}

fn ask(params: &Params) -> Vec<Command> {
    vec![ask_span(queue(params), span(params))]
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let (rows, queue) = (replies[0].items(), queue(params));
    let name = queue.map(|queue| escape::shortened(&escape::text(queue), 80));
    let title = name.as_ref().map_or("History".to_owned(), |name| format!("History of {name}"));
    let body = html! {
        @if let Some(queue) = queue { p class="lead" { "Queue " (parts::queue_link(frame.db, queue)) } }
        @else { p class="lead" { "All queues of all databases together. A queue's page has its own history." } }
        (spans(params, frame.db, queue))
        @if let Some(error) = replies[0].error() { p class="refused" role="alert" { (error) } }
        @else if rows.is_empty() { (empty(queue)) }
        @else { (parts::part("history", charts(rows, span(params)))) }
    };
    live(frame, &title, Tab::History, body)
}

fn empty(queue: Option<&[u8]>) -> Markup {
    parts::empty(
        match queue {
            Some(_) => {
                "Nothing is kept of this queue: it has had no job until a minute or two ago, or others are busier."
            }
            None => "Nothing has happened yet.",
        },
        &[],
    )
}

fn spans(params: &Params, db: u8, queue: Option<&[u8]>) -> Markup {
    let (shown, ..) = span(params);
    html! {
        nav class="zooms" aria-label="How far back" {
            @for (word, last, _) in SPANS {
                a href={ (href(db, queue.unwrap_or_default())) "&last=" (last) } aria-current=[(word == shown).then_some("true")] { (word) } " "
            }
        }
    }
}

fn charts(rows: &[Value], (_, _, step): (&str, &str, &str)) -> Markup {
    let start_ms = rows[0].number_of("at");
    let step_ms = rows.get(1).map_or(MINUTE_MS, |second| second.number_of("at") - start_ms);
    let times = (start_ms, step_ms);
    // Counts cover the whole step; the other numbers are those at its end.
    let per_step = format!("in {step}");
    let lines = |title: &str, note: &str, shown: fn(u64) -> String, lines: &[(&str, &str)]| {
        let values: Vec<(&str, Vec<u64>)> =
            lines.iter().map(|(label, field)| (*label, values(rows, field))).collect();
        let chart = chart::lines(&values, &LineOptions { title, times, shown });
        parts::card(title, html! { (note) }, chart)
    };
    let count = parts::grouped;
    html! {
        div class="charts" {
            (lines("Added and delivered", &per_step, count, &[("added", "added"), ("delivered", "delivered")]))
            (lines("Failed and died", &per_step, count, &[("failed", "failed"), ("died", "died")]))
            (lines("Jobs ready and leased", "", count, &[("ready", "ready"), ("leased", "leased")]))
            (lines("Jobs delayed and dead", "", count, &[("delayed", "delayed"), ("dead", "dead")]))
            (lines("Late", "", parts::micros, &[("p99", "lateness-p99-us"), ("p50", "lateness-p50-us")]))
        }
        details class="numbers" { summary { "Numbers" } (table(rows, step_ms)) }
    }
}

fn table(rows: &[Value], step_ms: u64) -> Markup {
    let cells = |row: &Value| {
        let counts = COUNTS.map(|field| parts::number(row.number_of(field)));
        let late = ["lateness-p50-us", "lateness-p99-us"]
            .map(|field| html! { (parts::measured(row.number_of(field))) });
        let when = [parts::clock_time(row.number_of("at"), step_ms)].into_iter();
        when.chain(counts).chain(late).collect()
    };
    let columns = Column::list(
        "from|#added|#delivered|#acknowledged|#failed|#died|#delayed|#ready|#leased|#dead|#late, p50|#late, p99",
    );
    let row =
        |row: &Value| Row { key: row.number_of("at").to_string(), select: None, cells: cells(row) };
    let rows = rows.iter().rev().map(row).collect();
    Table::plain("minutes", "What happened, the newest first", columns, rows).render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::value::tests::map;

    fn reply(count: u64) -> Value {
        let row = |minute: u64| {
            let number = |value: u64| Value::Int(value as i64);
            map(&[
                ("at", number(1_893_456_000_000 + minute * MINUTE_MS)),
                ("added", number(minute * 10)),
                ("lateness-p99-us", number(minute * 100)),
            ])
        };
        Value::Array((0..count).map(row).collect())
    }

    fn page(query: &str, reply: Value) -> String {
        show(&PageFrame::default(), &Params::read(query.as_bytes()), &[reply]).into_string()
    }

    #[test]
    fn what_is_asked_is_of_the_queue_and_the_span() {
        for (query, expected) in [
            ("", "DELAY.HISTORY LAST 1h STEP 1m"),
            ("name=last&last=1d", "DELAY.HISTORY last LAST 1d STEP 15m"),
            ("name=&last=2h", "DELAY.HISTORY LAST 1h STEP 1m"),
        ] {
            let asked = ask(&Params::read(query.as_bytes()));
            let asked: Vec<_> = asked[0].iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(asked.join(" "), expected);
        }
    }

    #[test]
    fn each_row_is_in_the_table_and_names_are_inert() {
        let shown = page("name=%3Cb%3E&last=6h", reply(3));
        assert!(shown.contains("&lt;b&gt;") && !shown.contains("<b>&lt;"), "{shown}");
        assert_eq!(shown.matches("data-key=").count(), 3);
        assert!(shown.contains("Added and delivered: added now 20, max 20"), "{shown}");
        assert!(page("", reply(0)).contains("Nothing has happened yet."));
        assert!(page("", reply(1)).contains("added now 0"), "one row is drawn, too");
    }

    #[test]
    fn the_minute_that_is_not_over_is_no_number_of_the_hour() {
        let shown = card(reply(3).items(), "/history").into_string();
        assert!(shown.contains("<b>10</b>") && shown.contains("0.1 ms"), "{shown}");
        assert_eq!(card(&[], "/history").into_string(), "");
    }
}
