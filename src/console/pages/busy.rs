//! Leases: which client has which job, since when, and until when.

use super::{NO_MORE, Page};
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Column, Row, Table};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, Render, html};

/// `/busy`.
pub const PAGE: Page = Page { path: "/busy", ask, more: NO_MORE, show, whole: false, file: None };

/// Leases on a page.
const COUNT: usize = 50;
/// Letters of a client's address, name or library.
const TEXT_CHARS: usize = 40;

fn ask(params: &Params) -> Vec<Command> {
    // One more than is shown, to know whether there is another page.
    let mut asked = command!["DELAY.BUSY", "COUNT", (COUNT + 1).to_string()];
    if let (Some(end), Some(queue), Some(id)) =
        (params.number("end"), params.bytes("queue"), params.bytes("id"))
    {
        asked.extend(command!["AFTER", end.to_string(), queue, id]);
    }
    vec![asked]
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let leases = replies[0].items();
    let shown = &leases[..leases.len().min(COUNT)];
    let body = html! {
        @if let Some(error) = replies[0].error() { p class="refused" role="alert" { (error) } }
        @else {
            (parts::part("leases-part", html! {
                @if shown.is_empty() { (empty(frame, params)) }
                @else { (table(frame, shown, true)) }
                @if !shown.is_empty() || params.has("end") { (pages(params, leases)) }
            }))
        }
    };
    live(frame, "Busy", Tab::Busy, body)
}

fn empty(frame: &PageFrame, params: &Params) -> Markup {
    if params.has("end") {
        return parts::lead("No lease ends later.");
    }
    parts::empty(
        "No client has a job.",
        &[(
            "A worker leases one for 60 s, and acknowledges it when it is done:",
            parts::commands(frame, &[b"DELAY.RESERVE", b"0", b"1", b"emails"]),
        )],
    )
}

fn pages(params: &Params, leases: &[Value]) -> Markup {
    let text =
        parts::counted(leases.len().min(COUNT) as u64, "lease", "leases, the first to end first");
    let first = params.has("end").then(|| format!("/busy?db={}", params.db()));
    let last = leases.get(COUNT - 1).filter(|_| leases.len() > COUNT);
    let next = last.map(|last| {
        let end = last.number_of("lease-end");
        let name = |field| escape::query(last.raw(field));
        let db = params.db();
        format!("/busy?db={db}&end={end}&queue={}&id={}", name("queue"), name("id"))
    });
    parts::pager(&text, first.as_deref(), next.as_deref())
}

/// A table of leases; without the queue where the page is about one.
pub fn table(frame: &PageFrame, leases: &[Value], with_queue: bool) -> Markup {
    let mut columns = Column::list("job|name|address|library|#client|since|lease ends|#attempt");
    if with_queue {
        columns.insert(1, Column::text("queue"));
    }
    let rows = leases.iter().map(|lease| row(frame, lease, with_queue)).collect();
    Table::plain("leases", "Leases, the first to end first", columns, rows).render()
}

fn row(frame: &PageFrame, lease: &Value, with_queue: bool) -> Row {
    let (queue, id) = (lease.raw("queue"), lease.raw("id"));
    let unknown = || html! { span class="faint" { "–" } };
    let text = |field| match lease.raw(field) {
        b"" => unknown(),
        text => html! { bdi class="name" { (escape::shortened(&escape::text(text), TEXT_CHARS)) } },
    };
    let moment =
        |field| lease.field(field).number().map_or_else(unknown, |at: u64| parts::ago(frame, at));
    let number =
        |field| lease.field(field).number().map_or_else(unknown, |number| html! { (number) });
    let mut cells = vec![parts::job_link(frame.db, queue, id)];
    if with_queue {
        cells.push(parts::queue_link(frame.db, queue));
    }
    cells.extend([
        text("name"),
        text("addr"),
        text("lib"),
        number("client"),
        moment("since"),
        moment("lease-end"),
        number("attempt"),
    ]);
    // Both may hold anything; neither has a slash when it is written so.
    let key = format!("{}/{}", escape::query(queue), escape::query(id));
    Row { key, select: None, cells }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::value::tests::{map, text};

    fn lease(number: usize) -> Value {
        let id = Value::Text(format!("j{number}").into());
        let end = Value::Int(1_000 + number as i64);
        map(&[
            ("queue", text("<q>")),
            ("id", id),
            ("name", text("<b>")),
            ("since", Value::Null),
            ("lease-end", end),
        ])
    }

    fn page(query: &str, leases: usize) -> String {
        let reply = Value::Array((0..leases).map(lease).collect());
        show(&PageFrame::default(), &Params::read(query.as_bytes()), &[reply]).into_string()
    }

    #[test]
    fn the_next_page_begins_after_the_last_lease_of_this_one() {
        let shown = page("", 51);
        assert_eq!(shown.matches("data-key=").count(), 50);
        let next = "/busy?db=0&amp;end=1049&amp;queue=%3Cq%3E&amp;id=j49";
        assert!(shown.contains(next), "{shown}");
        let asked = ask(&Params::read(b"end=1049&queue=%3Cq%3E&id=j49"));
        let asked: Vec<_> = asked[0].iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!(asked.join(" "), "DELAY.BUSY COUNT 51 AFTER 1049 <q> j49");
        let last = page("end=1049&queue=%3Cq%3E&id=j49", 3);
        assert!(!last.contains("rel=\"next\"") && last.contains("rel=\"first\""), "{last}");
    }

    #[test]
    fn names_are_inert_and_what_is_not_known_is_a_dash() {
        let shown = page("", 1);
        assert!(shown.contains("&lt;b&gt;") && !shown.contains("<b>"), "{shown}");
        // Address, library, client and since; the attempt, too, was left out here.
        assert_eq!(shown.matches("<span class=\"faint\">–</span>").count(), 5, "{shown}");
    }
}
