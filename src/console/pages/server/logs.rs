//! Slow commands, denials, and the most used commands.

use crate::console::view::chrome::{PageFrame, ServerState};
use crate::console::view::parts::{self, Column, Row, Table};
use crate::console::words::escape;
use crate::console::words::value::Value;
use maud::{Markup, html};

const COMMANDS_MAX: usize = 10;
/// Letters of a command's arguments.
const ARGUMENTS: usize = 160;

pub fn slow(frame: &PageFrame, entries: &Value) -> Markup {
    let row = |entry: &Value| {
        let [number, at, took, words, address, name] = entry.items() else { return None };
        let words: Vec<String> =
            words.items().iter().filter_map(Value::bytes).map(escape::text).collect();
        let cells = vec![
            parts::ago(frame, at.number()? * 1_000),
            html! { (parts::micros(took.number()?)) },
            html! { code { bdi { (escape::shortened(&words.join(" "), ARGUMENTS)) } } },
            html! { (text(address)) " " (text(name)) },
        ];
        Some(Row { key: number.number()?.to_string(), select: None, cells })
    };
    listed("slow", "Slow commands", "when|#took|command|client", entries, row)
}

pub fn denied(entries: &Value) -> Markup {
    let row = |entry: &Value| {
        let field = |name| text(entry.field(name));
        let age = entry.field("age-seconds").fraction().unwrap_or(0.0).max(0.0);
        let cells = vec![
            html! { (parts::duration((age * 1_000.0) as u64)) " ago" },
            html! { (field("username")) },
            html! { (field("reason")) },
            html! { code { (field("object")) } },
            parts::number(entry.number_of("count")),
        ];
        let key = entry.field("entry-id").number()?.to_string();
        Some(Row { key, select: None, cells })
    };
    listed("denied", "Recently denied", "when|user|because of|what|#times", entries, row)
}

/// The commands with the most calls, and how long they take.
pub fn commands(state: &ServerState) -> Markup {
    let calls = |value: &str| value.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok();
    let mut used: Vec<(&str, u64)> = state
        .info
        .iter()
        .filter_map(|(field, value)| Some((field.strip_prefix("cmdstat_")?, calls(value)?)))
        .collect();
    used.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    used.truncate(COMMANDS_MAX);
    let row = |(name, calls): &(&str, u64)| {
        let times = state.text(&format!("latency_percentiles_usec_{name}"));
        let cells = vec![
            html! { code { (name.replace('|', " ").to_uppercase()) } },
            parts::number(*calls),
            html! { (percentile(times, "p50")) },
            html! { (percentile(times, "p99")) },
        ];
        Row { key: (*name).to_owned(), select: None, cells }
    };
    let columns = Column::list("command|#calls|#p50|#p99");
    let rows = used.iter().map(row).collect();
    let table = Table::plain("used", "Most used commands", columns, rows);
    html! { @if used.is_empty() { p class="faint" { "None yet." } } @else { (table) } }
}

/// From `p50=5.632,p99=360.448`.
fn percentile(times: &str, word: &str) -> String {
    let found = times.split(',').find_map(|pair| pair.strip_prefix(word)?.strip_prefix('='));
    match found.and_then(|us| us.parse::<f64>().ok()) {
        Some(us) => parts::micros(us.round() as u64),
        None => "–".to_owned(),
    }
}

/// A log as a card; none where it may not be seen.
fn listed(
    id: &'static str,
    title: &str,
    columns: &'static str,
    entries: &Value,
    row: impl Fn(&Value) -> Option<Row>,
) -> Markup {
    let Value::Array(entries) = entries else { return html! {} };
    let rows = entries.iter().filter_map(row).collect();
    let table = Table::plain(id, title, Column::list(columns), rows);
    let body = html! { @if entries.is_empty() { p class="faint" { "None." } } @else { (table) } };
    parts::card(title, html! { "newest 20" }, body)
}

fn text(value: &Value) -> String {
    escape::shortened(&escape::text(value.bytes().unwrap_or_default()), 80)
}
