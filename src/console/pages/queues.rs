//! All queues of a database, sorted by what is looked for.

use super::paging::ListPage;
use super::{NO_MORE, Page};
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Choice, Column, Confirm, Row, Table, Tone, offered};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, Render, html};

/// `/queues`.
pub const PAGE: Page = Page { path: "/queues", ask, more: NO_MORE, show, whole: false, file: None };

const COUNT: usize = 50;
/// Queues that DELAY.QUEUES gives at most.
const LISTED_MAX: usize = 1_000;

/// The possible orders: the word in addresses, and DELAY.QUEUES's name for it.
const ORDERS: [(&str, &str); 7] = [
    ("name", "NAME"),
    ("ready", "READY"),
    ("delayed", "DELAYED"),
    ("leased", "LEASED"),
    ("dead", "DEAD"),
    ("age", "AGE"),
    ("bytes", "BYTES"),
];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListedQueue {
    pub name: Vec<u8>,
    pub ready: u64,
    pub delayed: u64,
    pub leased: u64,
    pub dead: u64,
    pub waiters: u64,
    /// `no`, `in`, `out`, `all`.
    pub paused: String,
    pub next_due: Option<u64>,
    pub oldest_ready_age_ms: Option<u64>,
    pub bytes: u64,
    pub lateness_p99_us: u64,
    pub schedules: u64,
    /// When a client was last given a job, unix ms.
    pub last_reserve_at: Option<u64>,
}

pub fn read(reply: &Value) -> Vec<ListedQueue> {
    let queue = |row: &Value| {
        let number = |name| row.field(name).number();
        ListedQueue {
            name: row.raw("name").to_vec(),
            ready: row.number_of("ready"),
            delayed: row.number_of("delayed"),
            leased: row.number_of("leased"),
            dead: row.number_of("dead"),
            waiters: row.number_of("waiters"),
            paused: row.field("paused").text().unwrap_or("no").to_owned(),
            next_due: number("next-due"),
            oldest_ready_age_ms: number("oldest-ready-age-ms"),
            bytes: row.number_of("bytes"),
            lateness_p99_us: row.number_of("lateness-p99-us"),
            schedules: row.number_of("schedules"),
            last_reserve_at: number("last-reserve-at"),
        }
    };
    reply.items().iter().map(queue).collect()
}

/// A table of queues; with `form` its rows can be selected for it.
pub fn table(
    frame: &PageFrame,
    id: &'static str,
    caption: &str,
    queues: &[ListedQueue],
    form: &'static str,
    sorted: Option<&Params>,
) -> Markup {
    let head = |column: Column, word: &str| match sorted {
        None => column,
        Some(params) => column.by(href(params, word, None), order(params).0 == word),
    };
    let columns = vec![
        head(Column::text("name"), "name"),
        head(Column::number("ready"), "ready"),
        head(Column::number("delayed"), "delayed"),
        head(Column::number("leased"), "leased"),
        head(Column::number("dead"), "dead"),
        Column::number("waiting"),
        head(Column::number("oldest ready"), "age"),
        Column::number("late p99"),
        Column::text("next due"),
        head(Column::number("bytes"), "bytes"),
        Column::text("status"),
    ];
    let rows = queues.iter().map(|queue| row(frame, queue, !form.is_empty())).collect();
    Table { form, ..Table::plain(id, caption, columns, rows) }.render()
}

fn row(frame: &PageFrame, queue: &ListedQueue, selectable: bool) -> Row {
    let href = parts::queue_href(frame.db, &queue.name);
    let at = |tab: &str| format!("{href}&tab={tab}");
    let dead = parts::cell_number(queue.dead, &at("dead"));
    let cells = vec![
        parts::queue_link(frame.db, &queue.name),
        parts::cell_number(queue.ready, &at("ready")),
        parts::cell_number(queue.delayed, &at("delayed")),
        parts::cell_number(queue.leased, &at("leased")),
        if queue.dead > 0 { parts::badge(Tone::Bad, dead) } else { dead },
        parts::number(queue.waiters),
        html! { @match queue.oldest_ready_age_ms { Some(age) => (parts::duration(age)), None => span class="faint" { "–" } } },
        html! { @if queue.lateness_p99_us > 0 { (parts::micros(queue.lateness_p99_us)) } @else { span class="faint" { "–" } } },
        html! { @match queue.next_due { Some(at) => (parts::ago(frame, at)), None => span class="faint" { "–" } } },
        html! { (parts::bytes(queue.bytes)) },
        open(&queue.paused),
    ];
    let key = escape::query(&queue.name);
    Row { select: selectable.then(|| (key.clone(), escape::text(&queue.name))), key, cells }
}

/// Whether a queue takes jobs and hands them out.
pub fn open(paused: &str) -> Markup {
    match paused {
        "no" | "" => html! { span class="faint" { "open" } },
        "in" => parts::badge(Tone::Off, "paused in"),
        "out" => parts::badge(Tone::Off, "paused out"),
        _ => parts::badge(Tone::Off, "paused"),
    }
}

fn order(params: &Params) -> (&'static str, &'static str) {
    let asked = params.text("by").unwrap_or("name");
    ORDERS.into_iter().find(|(word, _)| *word == asked).unwrap_or(ORDERS[0])
}

/// By name a page begins after the last one of the page before; the other orders have no such place.
fn page(params: &Params) -> ListPage {
    let is_by_name = order(params).0 == "name";
    if is_by_name {
        ListPage::first(COUNT, LISTED_MAX)
    } else {
        ListPage::of(params, COUNT, LISTED_MAX)
    }
}

fn ask(params: &Params) -> Vec<Command> {
    let (word, by) = order(params);
    let mut asked = command!["DELAY.QUEUES", "BY", by, "COUNT", page(params).count().to_string()];
    asked.extend(params.options(&[("match", "MATCH")]));
    if word == "name" {
        asked.extend(params.options(&[("after", "AFTER")]));
    }
    vec![asked]
}

/// The page in another order, or from another queue on.
fn href(params: &Params, by: &str, after: Option<&[u8]>) -> String {
    let mut href = format!("/queues?db={}&by={by}", params.db());
    for (name, value) in [("match", params.bytes("match")), ("after", after)] {
        if let Some(value) = value {
            href.push_str(&format!("&{name}={}", escape::query(value)));
        }
    }
    href
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let reply = &replies[0];
    let queues = read(reply);
    let (word, _) = order(params);
    let body = html! {
        (databases(frame))
        (filter(params))
        @if let Some(error) = reply.error() { p class="refused" role="alert" { (error) } }
        @else if queues.is_empty() && params.bytes("match").is_none() { (empty(frame)) }
        @else {
            (parts::part("queues-part", html! {
                @if queues.is_empty() { p class="lead" { "No queue matches this name." } }
                @else { (table(frame, "queues", "Queues", page(params).shown(&queues), selected_by(frame), Some(params))) }
                (pages(params, word, &queues))
            }))
            (bulk(frame))
        }
    };
    live(frame, "Queues", Tab::Queues, body)
}

fn pages(params: &Params, word: &str, queues: &[ListedQueue]) -> Markup {
    if word != "name" {
        return page(params).pager(queues.len(), None, &href(params, word, None));
    }
    let text = parts::counted(queues.len().min(COUNT) as u64, "queue", "queues");
    let first = params.bytes("after").map(|_| href(params, word, None));
    let last = queues.get(COUNT - 1).filter(|_| queues.len() > COUNT);
    let next = last.map(|last| href(params, word, Some(&last.name)));
    parts::pager(&text, first.as_deref(), next.as_deref())
}

/// Other databases with queues, from INFO's keyspace.
fn databases(frame: &PageFrame) -> Markup {
    let Some(state) = &frame.state else { return html! {} };
    let keys = |db: u8| {
        let line = state.text(&format!("db{db}"));
        line.strip_prefix("keys=").and_then(|rest| rest.split(',').next()?.parse::<u64>().ok())
    };
    let used: Vec<u8> = (0..16).filter(|db| keys(*db).is_some() || *db == frame.db).collect();
    if used == [0] {
        return html! {};
    }
    let words: Vec<String> = used.iter().map(|db| format!("database {db}")).collect();
    let links: Vec<(&str, String, Option<u64>)> = used
        .iter()
        .zip(&words)
        .map(|(db, word)| (word.as_str(), format!("/queues?db={db}"), keys(*db)))
        .collect();
    parts::tabs("Databases", &format!("database {}", frame.db), &links)
}

fn filter(params: &Params) -> Markup {
    let (word, _) = order(params);
    let orders: Vec<Choice<'_>> =
        ORDERS.iter().map(|(other, _)| (*other, *other, *other == word)).collect();
    let glob = params.text("match").unwrap_or_default();
    parts::filter(
        "/queues",
        &[("db", params.db().to_string().as_bytes())],
        html! {
            (parts::text_input("Name", "match", glob, "mail*"))
            (parts::select("Sorted by", "by", &orders))
        },
    )
}

/// The form that rows are selected for; none where it is not offered.
fn selected_by(frame: &PageFrame) -> &'static str {
    if offered(frame, "DELAY.PAUSE") { "bulk" } else { "" }
}

fn bulk(frame: &PageFrame) -> Markup {
    if selected_by(frame).is_empty() {
        return html! {};
    }
    parts::form(
        frame,
        "bulk",
        "/do/pause",
        &[],
        true,
        html! {
            fieldset {
                legend { "Selected queues" }
                (side_choice())
                (parts::text_input("For", "for", "", "until resumed, or 10m"))
                button name="what" value="pause" data-selection { "Pause" }
                button name="resume" value="1" data-selection { "Resume" }
                (parts::selected_count("bulk"))
            }
        },
    )
}

pub fn side_choice() -> Markup {
    let sides =
        [("all", "adding and taking", true), ("in", "adding", false), ("out", "taking", false)];
    parts::select("Side", "side", &sides)
}

pub fn empty(frame: &PageFrame) -> Markup {
    parts::empty(
        "There is no queue yet. Adding the first job creates one.",
        &teaching(frame, b"emails"),
    )
}

/// The two commands that add a job and take it.
pub fn teaching(frame: &PageFrame, queue: &[u8]) -> Vec<(&'static str, String)> {
    vec![
        (
            "Add a job that is due in five seconds:",
            parts::commands(frame, &[b"DELAY.ADD", queue, b"5s", b"hello"]),
        ),
        ("Wait for it and take it:", parts::commands(frame, &[b"DELAY.POP", queue, b"0"])),
    ]
}

/// A button that pauses or resumes, whichever makes sense.
pub fn pause_button(frame: &PageFrame, queue: &[u8], paused: &str) -> Markup {
    let fields = [("queue", queue)];
    html! {
        @if paused != "no" && offered(frame, "DELAY.RESUME") {
            (parts::action_toned(frame, "/do/resume", &fields, "Resume", Confirm::None, Tone::Good))
        }
        @if paused == "no" && offered(frame, "DELAY.PAUSE") {
            (parts::action(frame, "/do/pause", &fields, "Pause", Confirm::None))
        }
    }
}
