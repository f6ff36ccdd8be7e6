//! What needs attention as a table: a subject once, what is wrong with it, since when, how many, and what mends it.

use super::trouble::{Subject, TroubleRow, Troubles};
use crate::console::pages::queues::pause_button;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column, Row, Table};
use crate::console::words::escape;
use maud::{Markup, html};

/// Their list; if it is empty, or not visible to this user, it says so.
pub fn card(frame: &PageFrame, troubles: &Troubles, is_unknown: bool) -> Markup {
    let body = html! {
        @if is_unknown { p class="lead" { "You may see neither INFO nor the queues." } }
        @else if troubles.rows.is_empty() { p class="lead" { "Nothing needs attention." } }
        @else {
            (table(frame, &troubles.rows))
            @for (text, href) in &troubles.more { p class="note" { a href=(href) { (text) } } }
        }
    };
    parts::card("Needs attention", html! {}, body)
}

fn table(frame: &PageFrame, rows: &[TroubleRow]) -> Table {
    let columns = Column::list("what|what is wrong|since|how many|action");
    let rows = rows.iter().map(|one| row(frame, one)).collect();
    Table::plain("troubles", "What needs attention, worst first", columns, rows)
}

fn row(frame: &PageFrame, row: &TroubleRow) -> Row {
    let href = match &row.subject {
        Subject::Queue { name, .. } => parts::queue_href(frame.db, name),
        Subject::Part(_) => row.wrongs[0].place.href.clone(),
    };
    let texts = row.wrongs.iter().map(|wrong| &wrong.text);
    let for_ms = row.wrongs.iter().filter_map(|wrong| wrong.for_ms).max();
    let counts: Vec<_> = row.wrongs.iter().filter_map(|wrong| wrong.count).collect();
    let cells = vec![
        html! { a href=(href) { (parts::badge(row.tone(), bdi(&row.name()))) } },
        html! { div class="wrongs" { @for text in texts { div { (text) } } } },
        html! {
            @match for_ms {
                Some(ms) => (parts::ago(frame, frame.now_ms.saturating_sub(ms))),
                None => span class="faint" { "–" },
            }
        },
        html! {
            @if counts.is_empty() { span class="faint" { "–" } }
            @else { div { @for (count, word) in counts { div { (parts::grouped(count)) " " (word) } } } }
        },
        html! { div class="actions" { (actions(frame, row)) } },
    ];
    Row { key: key(row), select: None, cells }
}

fn bdi(name: &str) -> Markup {
    html! { bdi { (name) } }
}

/// Queues by their names; of the server's parts several may have the same.
fn key(row: &TroubleRow) -> String {
    match &row.subject {
        Subject::Queue { name, .. } => format!("queue-{}", escape::query(name)),
        Subject::Part(word) => format!("{word}-{}", escape::query(row.wrongs[0].text.as_bytes())),
    }
}

/// A button where one press mends it, and links to where it is mended otherwise.
fn actions(frame: &PageFrame, row: &TroubleRow) -> Markup {
    let is_paused = |paused: &str| !matches!(paused, "no" | "");
    html! {
        @if let Subject::Queue { name, paused } = &row.subject {
            @if is_paused(paused) { (pause_button(frame, name, paused)) }
        }
        @for wrong in &row.wrongs { a class="button" href=(wrong.place.href) { (wrong.place.word) } }
    }
}
