//! Connected clients: waiting ones, idle ones, and those with unread replies.

use super::paging::ListPage;
use super::{NO_MORE, Page};
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Choice, Column, Confirm, Row, Table, Tone, offered};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, Render, html};
use std::cmp::Reverse;

/// `/clients`.
pub const PAGE: Page =
    Page { path: "/clients", ask, more: NO_MORE, show, whole: false, file: None };

const SHOWN_MAX: usize = 100;
/// Clients that are reached page by page.
const LISTED_MAX: usize = 100_000;
/// The possible orders.
const ORDERS: [(&str, &str); 3] =
    [("idle", "idle"), ("output", "waiting output"), ("age", "connected for")];

/// A connection from CLIENT LIST.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListedClient {
    pub id: u64,
    pub address: String,
    pub name: String,
    pub user: String,
    pub library: String,
    pub db: u64,
    pub age_s: u64,
    pub idle_s: u64,
    pub command: String,
    pub flags: String,
    /// Bytes of replies that have not left.
    pub output: u64,
    /// All bytes held for it.
    pub memory: u64,
}

impl ListedClient {
    pub fn waits(&self) -> bool {
        self.flags.contains('b')
    }

    fn kind(&self) -> &'static str {
        match self.flags.as_str() {
            flags if flags.contains('O') => "monitor",
            flags if flags.contains('P') => "subscribed",
            flags if flags.contains('b') => "waiting for jobs",
            flags if flags.contains('x') => "in a transaction",
            _ => "others",
        }
    }
}

/// The clients of a reply; lines that have no id are none.
pub fn read(reply: &Value) -> Vec<ListedClient> {
    let lines = reply.bytes().unwrap_or_default().split(|byte| *byte == b'\n');
    lines.map(client).filter(|client| client.id > 0).collect()
}

fn client(line: &[u8]) -> ListedClient {
    let mut client = ListedClient::default();
    for field in line.split(|byte| *byte == b' ') {
        let Some(at) = field.iter().position(|byte| *byte == b'=') else { continue };
        let text = escape::text(&field[at + 1..]);
        let number = text.trim_end_matches("\\r").parse().unwrap_or(0);
        match &field[..at] {
            b"id" => client.id = number,
            b"addr" => client.address = text,
            b"name" => client.name = text,
            b"user" => client.user = text,
            b"lib-name" => client.library = text,
            b"db" => client.db = number,
            b"age" => client.age_s = number,
            b"idle" => client.idle_s = number,
            b"cmd" => client.command = text,
            b"flags" => client.flags = text,
            b"omem" => client.output = number,
            b"tot-mem" => client.memory = number,
            _ => {}
        }
    }
    client
}

fn ask(_: &Params) -> Vec<Command> {
    vec![command!["CLIENT", "LIST"]]
}

fn order(params: &Params) -> &'static str {
    let asked = params.text("by").unwrap_or("age");
    ORDERS.iter().map(|(word, _)| *word).find(|word| *word == asked).unwrap_or("age")
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let mut clients = read(&replies[0]);
    let only_waiting = params.has("waiting");
    let totals = totals(&clients);
    clients.retain(|client| !only_waiting || client.waits());
    clients.sort_by_key(|client| match order(params) {
        "output" => Reverse((client.output, client.memory)),
        "idle" => Reverse((client.idle_s, 0)),
        _ => Reverse((client.age_s, 0)),
    });
    let all = clients.len();
    let page = ListPage::of(params, SHOWN_MAX, LISTED_MAX);
    let href =
        format!("/clients?by={}{}", order(params), if only_waiting { "&waiting=1" } else { "" });
    let body = html! {
        @if let Some(error) = replies[0].error() { p class="refused" role="alert" { (error) } }
        @else {
            (parts::part("kinds", totals))
            (filter(params))
            (parts::part("clients-part", html! {
                @if clients.is_empty() { (parts::empty("No client is waiting for jobs.", &[])) }
                @else { (table(frame, params, page.shown(&clients))) (page.pager(all, Some(all as u64), &href)) }
            }))
        }
    };
    live(frame, "Clients", Tab::Clients, body)
}

fn totals(clients: &[ListedClient]) -> Markup {
    let count = |kind: &str| clients.iter().filter(|client| client.kind() == kind).count() as u64;
    let held: u64 = clients.iter().map(|client| client.memory).sum();
    let kinds = ["waiting for jobs", "subscribed", "monitor", "in a transaction", "others"];
    html! {
        div class="figures" {
            (parts::figure("connected", parts::grouped(clients.len() as u64), &parts::bytes(held), Tone::Plain, "/clients"))
            @for kind in kinds {
                @let href = if kind == "waiting for jobs" { "/clients?waiting=1" } else { "" };
                (parts::figure(kind, parts::grouped(count(kind)), "", Tone::Plain, href))
            }
        }
    }
}

fn filter(params: &Params) -> Markup {
    let chosen = order(params);
    let orders: Vec<Choice<'_>> =
        ORDERS.iter().map(|(word, words)| (*word, *words, *word == chosen)).collect();
    parts::filter(
        "/clients",
        &[],
        html! {
            label class="check" {
                input type="checkbox" name="waiting" value="1" checked[params.has("waiting")];
                " only those that wait for jobs"
            }
            (parts::select("Sorted by", "by", &orders))
        },
    )
}

fn table(frame: &PageFrame, params: &Params, clients: &[ListedClient]) -> Markup {
    let waiting = if params.has("waiting") { "&waiting=1" } else { "" };
    let sorted = |column: Column, by: &str| {
        column.by(format!("/clients?by={by}{waiting}"), order(params) == by)
    };
    let columns = vec![
        Column::text("address"),
        Column::number("id"),
        Column::text("name"),
        Column::text("user"),
        Column::text("library"),
        Column::number("db"),
        sorted(Column::number("age"), "age"),
        sorted(Column::number("idle"), "idle"),
        Column::text("command"),
        Column::text("waits"),
        sorted(Column::number("output"), "output"),
        Column::text("action"),
    ];
    let rows = clients.iter().map(|client| row(frame, client)).collect();
    Table::plain("clients", "Clients", columns, rows).render()
}

fn row(frame: &PageFrame, client: &ListedClient) -> Row {
    let text = |text: &str| html! { @if text.is_empty() { span class="faint" { "–" } } @else { bdi class="name" { (escape::shortened(text, 40)) } } };
    let cells = vec![
        text(&client.address),
        html! { (client.id) },
        text(&client.name),
        text(&client.user),
        text(&client.library),
        html! { (client.db) },
        html! { (parts::duration(client.age_s * 1_000)) },
        html! { (parts::duration(client.idle_s * 1_000)) },
        html! { code { (client.command) } },
        html! { @if client.waits() { (parts::badge(Tone::Good, "waits")) } @else { span class="faint" { "no" } } },
        html! { span title={ (parts::bytes(client.memory)) " in all" } { (parts::bytes(client.output)) } },
        kill(frame, client),
    ];
    Row { key: client.id.to_string(), select: None, cells }
}

fn kill(frame: &PageFrame, client: &ListedClient) -> Markup {
    if !offered(frame, "CLIENT KILL") {
        return html! {};
    }
    let id = client.id.to_string();
    let name = if client.name.is_empty() { String::new() } else { format!(" ({})", client.name) };
    let words = format!(
        "Disconnect client {id}{name} at {}. Jobs bound to its connection go back to their queues.",
        client.address
    );
    let fields = [("client", id.as_bytes())];
    parts::action(frame, "/do/kill", &fields, "Kill", Confirm::Count { words })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::chrome::May;

    const LIST: &[u8] = b"id=3 addr=10.0.0.1:5 fd=9 name=<b>\xff age=90 idle=5 flags=b db=2 omem=0 tot-mem=9 cmd=delay.reserve user=w lib-name=py\n\
        id=4 addr=10.0.0.2:5 name= age=10 idle=9 flags=N db=0 omem=4096 tot-mem=8192 cmd=NULL user=default\n\nrubbish\n";

    fn page(may: May, query: &str, list: Value) -> String {
        let frame = PageFrame { may, token: "t0k".into(), ..PageFrame::default() };
        show(&frame, &Params::read(query.as_bytes()), &[list]).into_string()
    }

    fn list() -> Value {
        Value::Text(bytes::Bytes::from_static(LIST))
    }

    #[test]
    fn lines_are_read_whatever_they_hold() {
        let clients = read(&list());
        assert_eq!(clients.len(), 2);
        assert_eq!(
            (clients[0].name.as_str(), clients[0].db, clients[0].waits()),
            ("<b>\\xff", 2, true)
        );
        assert_eq!((clients[1].output, clients[1].memory), (4_096, 8_192));
    }

    #[test]
    fn they_are_sorted_filtered_and_counted() {
        let first = |query: &str| {
            let shown = page(May::all(), query, list());
            shown.split_once("data-key=\"").expect("a row").1[..1].to_owned()
        };
        assert_eq!([first("by=age"), first("by=output"), first("by=idle")], ["3", "4", "4"]);
        let waiting = page(May::all(), "waiting=1", list());
        assert!(waiting.contains("10.0.0.1") && !waiting.contains("10.0.0.2"), "{waiting}");
        let many: String = (1..=150).map(|id| format!("id={id} addr=x age=1\n")).collect();
        let shown = page(May::all(), "", Value::Text(many.into()));
        assert_eq!(shown.matches("data-key=").count(), SHOWN_MAX);
        assert!(shown.contains("1 to 100 of 150") && shown.contains("skip=100"), "{shown}");
    }

    #[test]
    fn killing_asks_first_and_is_offered_to_those_who_may() {
        let shown = page(May::all(), "", list());
        assert!(shown.contains("/do/kill?client=3") && shown.contains("Disconnect client 3"));
        assert!(shown.contains("&lt;b&gt;") && !shown.contains("<b>\\"), "{shown}");
        assert!(!page(May::default(), "", list()).contains("/do/kill"));
        let refused = page(May::default(), "", Value::Error("NOPERM no".into()));
        assert!(refused.contains("NOPERM no"), "{refused}");
    }
}
