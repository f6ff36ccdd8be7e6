//! The groups of a queue: how many jobs each has, whether it is closed, and what can be done to one.

use super::About;
use crate::console::pages::paging::ListPage;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column, Confirm, Row, Table, Tone, offered};
use crate::console::words::escape;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, html};

/// Groups on a page.
const SHOWN: usize = 20;
/// Groups that DELAY.GROUPS gives at most.
const LISTED_MAX: usize = 1_000;

/// Orders, by their words in addresses, and the columns that they belong to.
const ORDERS: [(&str, &str); 6] = [
    ("name", "group"),
    ("ready", "ready"),
    ("delayed", "delayed"),
    ("leased", "leased"),
    ("dead", "dead"),
    ("age", "oldest ready"),
];

fn order<'a>(about: &About<'a>) -> &'a str {
    let asked = about.params.text("by").unwrap_or("age");
    if ORDERS.iter().any(|(word, _)| *word == asked) { asked } else { "age" }
}

pub fn ask(about: &About<'_>) -> Command {
    let count = page(about).count().to_string();
    command!["DELAY.GROUPS", about.queue, "BY", order(about).to_uppercase(), "COUNT", count]
}

fn page(about: &About<'_>) -> ListPage {
    ListPage::of(about.params, SHOWN, LISTED_MAX)
}

pub fn show(frame: &PageFrame, about: &About<'_>, stats: &Value, listed: &Value) -> Markup {
    let groups = page(about).shown(listed.items());
    if listed.items().is_empty() {
        let add =
            parts::commands(frame, &[b"DELAY.ADD", about.queue, b"0", b"hello", b"GROUP", b"acme"]);
        let text = "No job of this queue has a group.";
        return parts::empty(text, &[("Groups, such as customers, take turns:", add)]);
    }
    let rows = groups.iter().map(|group| row(frame, about, group)).collect();
    let table = Table::plain("groups", "Groups of the queue", columns(frame, about), rows);
    let table = Table { grow: true, ..table };
    let closed = stats.number_of("groups-closed");
    let href = format!("{}&by={}", about.href(frame.db, "groups"), order(about));
    html! {
        (parts::part("groups-part", html! {
            (table)
            @if closed > 0 { p class="note" { (parts::grouped(closed)) " are closed and have ready jobs." } }
            (page(about).pager(listed.items().len(), stats.field("groups").number(), &href))
        }))
        @if offered(frame, "DELAY.CONFIG SET") { (settings(frame, about)) }
    }
}

fn columns(frame: &PageFrame, about: &About<'_>) -> Vec<Column> {
    let by = |(word, label): (&str, &'static str)| {
        let column = if word == "name" { Column::text(label) } else { Column::number(label) };
        let href = format!("{}&by={word}", about.href(frame.db, "groups"));
        column.by(href, order(about) == word)
    };
    let mut columns: Vec<Column> = ORDERS.map(by).into();
    columns.insert(1, Column::text("state"));
    columns.push(Column::text("action"));
    columns
}

fn row(frame: &PageFrame, about: &About<'_>, group: &Value) -> Row {
    let name = group.raw("name");
    let state = group.word("state");
    let found = |of: &str| {
        let (queue, group) = (escape::query(about.queue), escape::query(name));
        format!("/search?db={}&queue={queue}&group={group}{of}", frame.db)
    };
    let number = |of: &'static str| {
        let count = group.number_of(of);
        parts::cell_number(count, &found(&format!("&state={of}")))
    };
    let age = group.field("oldest-ready-age-ms").number();
    let cells = vec![
        html! { a href=(found("")) { bdi { (escape::shortened(&escape::text(name), 80)) } } },
        badge(state),
        number("ready"),
        number("delayed"),
        number("leased"),
        number("dead"),
        html! { @if let Some(age) = age { (parts::duration(age)) } @else { span class="faint" { "–" } } },
        actions(frame, about, name, state),
    ];
    Row { key: escape::query(name), select: None, cells }
}

/// Why it is closed, if it is.
fn badge(state: &str) -> Markup {
    match state {
        "limit" => parts::badge(Tone::Warn, "at its limit"),
        "retry" => parts::badge(Tone::Warn, "waits for a retry"),
        "rate" => parts::badge(Tone::Warn, "at its rate"),
        word => parts::state(word),
    }
}

fn actions(frame: &PageFrame, about: &About<'_>, name: &[u8], state: &str) -> Markup {
    let fields = [("queue", about.queue), ("group", name)];
    let pause = [fields[0], fields[1], ("for", &b"10m"[..])];
    html! {
        @if state == "paused" && offered(frame, "DELAY.RESUME") {
            (parts::action_toned(frame, "/do/resume", &fields, "Resume", Confirm::None, Tone::Good))
        }
        @if state != "paused" && offered(frame, "DELAY.PAUSE") {
            (parts::action(frame, "/do/pause", &pause, "Pause for 10m", Confirm::None))
        }
    }
}

/// Limits of one group.
fn settings(frame: &PageFrame, about: &About<'_>) -> Markup {
    let fields = [("queue", about.queue)];
    html! {
        details class="more" {
            summary { "Set a limit of one group" }
            (parts::form(frame, "group", "/do/group", &fields, true, html! {
                (parts::text_input("Group", "name", "", "acme"))
                (parts::text_input("Maximum of leases at once", "group-max-leased", "", "the queue's"))
                (parts::text_input("Maximum of deliveries", "group-rate", "", "the queue's, or 100/1m"))
                (parts::text_input("Weight", "group-weight", "", "the queue's"))
                button class="primary" { "Set" }
            }))
        }
    }
}
