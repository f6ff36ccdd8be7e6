//! A queue's consumers: which wait, which have jobs, and which was the last to take or acknowledge one.

use crate::console::pages::busy;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column, Row, Table, Tone};
use crate::console::words::escape;
use crate::console::words::value::Value;
use maud::{Markup, html};

/// Waiting clients in the table.
const CLIENTS_MAX: usize = 100;

/// `leases` are of BUSY, `clients` of CLIENT LIST, if the user may ask for it.
pub fn show(frame: &PageFrame, stats: &Value, leases: &Value, clients: Option<&Value>) -> Markup {
    let (waiters, leased) = (stats.number_of("waiters"), stats.number_of("leased"));
    let rows = leases.items();
    parts::part(
        "jobs-part",
        html! {
            p class="lead" {
                @if waiters == 0 && leased == 0 { (parts::badge(Tone::Warn, "no consumer")) " is waiting for jobs of this queue, and none has one." }
                @else {
                    (parts::counted(waiters, "consumer is waiting", "consumers are waiting")) " for jobs of this queue; "
                    (parts::counted(leased, "job is leased", "jobs are leased")) "."
                }
            }
            (last_uses(frame, stats))
            @if !rows.is_empty() { (busy::table(frame, rows, false)) }
            @if leased > rows.len() as u64 { p class="note" { "The first " (rows.len()) " of " (parts::grouped(leased)) " leases to end." } }
            (waiting(clients))
        },
    )
}

/// The last clients that took and acknowledged a job.
fn last_uses(frame: &PageFrame, stats: &Value) -> Markup {
    let last = |at, by| {
        let at = stats.field(at).number()?;
        let by = stats.field(by).bytes().map(|by| escape::shortened(&escape::text(by), 80));
        Some(
            html! { (parts::moment(frame, at)) @if let Some(by) = by { " by " bdi class="name" { (by) } } },
        )
    };
    let pairs = [
        ("last job taken", last("last-reserve-at", "last-reserve-by")),
        ("last acknowledged", last("last-ack-at", "last-ack-by")),
    ];
    let pairs: Vec<_> = pairs.into_iter().filter_map(|(name, last)| Some((name, last?))).collect();
    html! { @if !pairs.is_empty() { (parts::facts(&pairs)) } }
}

/// Blocked clients, from CLIENT LIST.
fn waiting(clients: Option<&Value>) -> Markup {
    let text = clients.and_then(Value::text).unwrap_or_default();
    let field = |line: &str, name: &str| {
        let found = line
            .split(' ')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=').map(str::to_owned));
        found.unwrap_or_default()
    };
    let blocked: Vec<&str> =
        text.lines().filter(|line| field(line, "flags").contains('b')).take(CLIENTS_MAX).collect();
    let row = |line: &&str| {
        let cells =
            ["addr", "name", "lib-name", "cmd", "idle"].map(|name| html! { (field(line, name)) });
        Row { key: field(line, "id"), select: None, cells: cells.to_vec() }
    };
    let columns = Column::list("address|name|library|command|#waits for, s");
    let rows = blocked.iter().map(row).collect();
    let table = Table::plain("consumers", "Waiting clients", columns, rows);
    html! { @if !blocked.is_empty() { (table) p class="note" { "All waiting clients of the server, for any queue." } } }
}
