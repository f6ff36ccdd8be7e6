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

/// What a line shows of a row.
type Of = fn(&Minutes) -> u64;

/// A row of DELAY.HISTORY.
#[derive(Clone, Copy, Default, Debug)]
pub struct Minutes {
    at_ms: u64,
    pub added: u64,
    pub delivered: u64,
    acked: u64,
    pub failed: u64,
    died: u64,
    pub delayed: u64,
    pub ready: u64,
    pub leased: u64,
    pub dead: u64,
    lateness_p50_us: u64,
    pub lateness_p99_us: u64,
}

/// The rows of a reply, oldest first; none if the user may not ask, or if nothing is kept.
pub fn read(reply: &Value) -> Vec<Minutes> {
    let row = |row: &Value| {
        let number = |name: &str| row.field(name).number().unwrap_or(0);
        Minutes {
            at_ms: number("at"),
            added: number("added"),
            delivered: number("delivered"),
            acked: number("acked"),
            failed: number("failed"),
            died: number("died"),
            delayed: number("delayed"),
            ready: number("ready"),
            leased: number("leased"),
            dead: number("dead"),
            lateness_p50_us: number("lateness-p50-us"),
            lateness_p99_us: number("lateness-p99-us"),
        }
    };
    reply.items().iter().map(row).collect()
}

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

/// The values of each row, to be drawn as a line.
pub fn values(rows: &[Minutes], of: Of) -> Vec<u64> {
    rows.iter().map(of).collect()
}

/// Lines of what happened a minute, with the numbers of the minute that is over, and a link to the page; nothing without rows.
pub fn card(rows: &[Minutes], href: &str) -> Markup {
    // The last one is not over.
    let over = if rows.len() > 1 { &rows[..rows.len() - 1] } else { rows };
    let Some(last) = over.last() else { return html! {} };
    let line = |label: &str, now: String, of: Of| {
        html! {
            div {
                span class="label" { (label) } " " b { (now) }
                (chart::spark(&values(over, of), label))
            }
        }
    };
    let late = parts::measured(last.lateness_p99_us);
    let body = html! {
        div class="sparks" {
            (line("added a minute", parts::grouped(last.added), |row| row.added))
            (line("delivered a minute", parts::grouped(last.delivered), |row| row.delivered))
            (line("failed a minute", parts::grouped(last.failed), |row| row.failed))
            (line("late, p99, µs", late, |row| row.lateness_p99_us))
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
    let (rows, queue) = (read(&replies[0]), queue(params));
    let name = queue.map(|queue| escape::shortened(&escape::text(queue), 80));
    let title = name.as_ref().map_or("History".to_owned(), |name| format!("History of {name}"));
    let body = html! {
        @if let Some(queue) = queue { p class="lead" { "Queue " (parts::queue_link(frame.db, queue)) } }
        @else { p class="lead" { "All queues of all databases together. A queue's page has its own history." } }
        (spans(params, frame.db, queue))
        @if let Some(error) = replies[0].error() { p class="refused" role="alert" { (error) } }
        @else if rows.is_empty() { (empty(queue)) }
        @else { (parts::part("history", charts(&rows, span(params)))) }
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

fn charts(rows: &[Minutes], (_, _, step): (&str, &str, &str)) -> Markup {
    let step_ms = rows.get(1).map_or(MINUTE_MS, |second| second.at_ms - rows[0].at_ms);
    let times = (rows[0].at_ms, step_ms);
    // Counts cover the whole step; the other numbers are those at its end.
    let per_step = format!("in {step}");
    let lines = |title: &str, note: &str, shown: fn(u64) -> String, lines: &[(&str, Of)]| {
        let values: Vec<(&str, Vec<u64>)> =
            lines.iter().map(|(label, of)| (*label, values(rows, *of))).collect();
        let chart = chart::lines(&values, &LineOptions { title, times, shown });
        parts::card(title, html! { (note) }, chart)
    };
    let count = parts::grouped;
    html! {
        div class="charts" {
            (lines("Added and delivered", &per_step, count, &[("added", |row| row.added), ("delivered", |row| row.delivered)]))
            (lines("Failed and died", &per_step, count, &[("failed", |row| row.failed), ("died", |row| row.died)]))
            (lines("Jobs ready and leased", "", count, &[("ready", |row| row.ready), ("leased", |row| row.leased)]))
            (lines("Jobs delayed and dead", "", count, &[("delayed", |row| row.delayed), ("dead", |row| row.dead)]))
            (lines("Late", "", parts::micros, &[("p99", |row| row.lateness_p99_us), ("p50", |row| row.lateness_p50_us)]))
        }
        details class="numbers" { summary { "Numbers" } (table(rows, step_ms)) }
    }
}

fn table(rows: &[Minutes], step_ms: u64) -> Markup {
    let cells = |row: &Minutes| {
        let counts = [
            row.added, row.delivered, row.acked, row.failed, row.died, row.delayed, row.ready,
            row.leased, row.dead,
        ];
        let late =
            [row.lateness_p50_us, row.lateness_p99_us].map(|us| html! { (parts::measured(us)) });
        let when = [parts::clock_time(row.at_ms, step_ms)].into_iter();
        when.chain(counts.into_iter().map(parts::number)).chain(late).collect()
    };
    let columns = Column::list(
        "from|#added|#delivered|#acknowledged|#failed|#died|#delayed|#ready|#leased|#dead|#late, p50|#late, p99",
    );
    let row = |row: &Minutes| Row { key: row.at_ms.to_string(), select: None, cells: cells(row) };
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
        let shown = card(&read(&reply(3)), "/history").into_string();
        assert!(shown.contains("<b>10</b>") && shown.contains("0.1 ms"), "{shown}");
        assert_eq!(card(&[], "/history").into_string(), "");
    }
}
