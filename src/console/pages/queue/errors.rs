//! What deliveries of the queue fail with, as DELAY.ERRORS counts it.

use super::About;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column, Confirm, Row, Table, offered};
use crate::console::words::escape;
use crate::console::words::value::Value;
use maud::{Markup, html};

/// Over how long the jobs of an error are spread, if they are not to come all at once.
const SPAN: &str = "10m";

/// The table, what most jobs are dead of first.
pub fn table(frame: &PageFrame, about: &About<'_>, listed: &Value) -> Markup {
    if let Some(error) = listed.error() {
        return html! { p class="refused" role="alert" { (error) } };
    }
    if listed.items().is_empty() {
        return parts::empty("No delivery has failed.", &[]);
    }
    let acts = offered(frame, "DELAY.BULK");
    let row = |error: &Value| {
        let text = error.field("error").bytes();
        let sample = error.field("sample").bytes();
        let mut cells = vec![
            html! { @match text { Some(text) => (name(frame, about, text)), None => span class="faint" { "all others" } } },
            parts::number(error.number_of("count")),
            parts::number(error.number_of("dead")),
            parts::ago(frame, error.number_of("first")),
            parts::ago(frame, error.number_of("last")),
            html! { @if let Some(id) = sample { (parts::job_link(frame.db, about.queue, id)) } },
        ];
        if acts {
            cells.push(match text.filter(|_| error.number_of("dead") > 0) {
                Some(text) => redrive(frame, about, text, error.number_of("dead")),
                None => html! {},
            });
        }
        Row { key: text.map_or("others".to_owned(), escape::query), select: None, cells }
    };
    let mut columns = Column::list("error|#failed|#dead|first|last|newest job");
    columns.extend(acts.then(|| Column::text("action")));
    let rows = listed.items().iter().map(row).collect();
    let table = Table::plain("errors", "Failed deliveries by their error", columns, rows);
    html! {
        (parts::part("jobs-part", html! { (table) }))
        p class="note" { "Errors that differ only in numbers, ids, addresses and quoted words count as one, with # for them." }
        (parts::copy(&parts::commands(frame, &[b"DELAY.ERRORS", about.queue])))
    }
}

/// A link to its dead jobs, and to no others: what is done with all that is found is done with these.
fn name(frame: &PageFrame, about: &About<'_>, text: &[u8]) -> Markup {
    let (queue, error) = (escape::query(about.queue), escape::query(text));
    let href = format!("/search?db={}&queue={queue}&state=dead&error={error}", frame.db);
    html! { a href=(href) { (escape::text(text)) } }
}

fn redrive(frame: &PageFrame, about: &About<'_>, text: &[u8], dead: u64) -> Markup {
    let fields = [("queue", about.queue), ("error", text)];
    let spread = [fields[0], fields[1], ("over", SPAN.as_bytes())];
    let jobs = parts::counted(dead, "job that is dead of it", "jobs that are dead of it");
    let button = |fields: &[(&str, &[u8])], word: &str, when: &str| {
        let words = format!("Deliver the {jobs} again, {when}.");
        parts::action(frame, "/do/redrive-error", fields, word, Confirm::Count { words })
    };
    html! {
        div class="actions" {
            (button(&fields, "Redrive", "all at once"))
            (button(&spread, "over 10 min", "spread over ten minutes"))
        }
    }
}
