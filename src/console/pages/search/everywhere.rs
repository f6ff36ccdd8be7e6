//! What a search in all queues has found.

use super::SearchResult;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column, Row, Table};
use crate::console::words::escape;
use maud::{Markup, Render, html};

/// An id's jobs in all queues, or those with a part of an id, and queues with this name.
pub(super) fn of_all(frame: &PageFrame, text: &[u8], found: &SearchResult) -> Markup {
    let is_over = found.queue.is_none();
    html! {
        (named(frame, &found.named))
        @if !found.hits.is_empty() { (hits_of_all(frame, found)) }
        @if found.hits.is_empty() && is_over {
            (parts::empty("No queue that you may read has a job with this text in its id. It was acknowledged or \
                removed, or never existed.", &[]))
        }
        @if let Some(queue) = &found.queue {
            @let href = on(frame, text, queue, found);
            nav class="pager" aria-label="Search" {
                span {
                    (parts::counted(found.hits.len() as u64, "job", "jobs")) " here; looked through "
                    (parts::counted(found.queues_looked, "queue", "queues")) "."
                }
                a class="button" href=(href) rel="next" { "Continue" }
            }
        }
    }
}

/// Where the search in all queues goes on.
fn on(frame: &PageFrame, text: &[u8], queue: &[u8], found: &SearchResult) -> String {
    format!(
        "/search?db={}&q={}&in={}&cursor={}&queues={}",
        frame.db,
        escape::query(text),
        escape::query(queue),
        escape::query(found.cursor.as_deref().unwrap_or(b"0")),
        found.queues_looked,
    )
}

fn named(frame: &PageFrame, queues: &[Vec<u8>]) -> Markup {
    html! {
        @if !queues.is_empty() {
            (parts::card("Queues with this name", html! {}, html! {
                p { @for queue in queues { (parts::queue_link(frame.db, queue)) " " } }
            }))
        }
    }
}

fn hits_of_all(frame: &PageFrame, found: &SearchResult) -> Markup {
    let rows = found.hits.iter().map(|hit| {
        let cells = vec![
            parts::job_link(frame.db, &hit.queue, &hit.id),
            parts::queue_link(frame.db, &hit.queue),
            parts::state(&hit.state),
            parts::moment(frame, hit.due),
        ];
        let key = format!("{}/{}", escape::query(&hit.queue), escape::query(&hit.id));
        Row { key, select: None, cells }
    });
    let columns = Column::list("id|queue|state|due");
    let caption =
        if found.is_part { "Jobs with this text in their id" } else { "Jobs with this id" };
    Table::plain("hits", caption, columns, rows.collect()).render()
}
