//! Actions on a whole queue, and adding a job by hand.

use super::{About, head};
use crate::console::pages::queues::{pause_button, side_choice};
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Confirm, offered};
use crate::console::words::value::Value;
use maud::{Markup, html};

/// All that the user may do.
pub fn show(frame: &PageFrame, about: &About<'_>, stats: &Value) -> Markup {
    let paused = stats.field("paused").text().unwrap_or("no");
    html! {
        (find(frame, about))
        section class="card" aria-label="Actions" {
            header { h2 { "Actions" } }
            (parts::part("pause", html! { div class="actions" { (pause_button(frame, about.queue, paused)) } }))
            @if offered(frame, "DELAY.PAUSE") { (pause(frame, about)) }
            @if offered(frame, "DELAY.ADD") { (add(frame, about)) }
            @if head::is_known(stats) { (destroy(frame, about, stats)) }
            (parts::copy(&parts::commands(frame, &[b"DELAY.STATS", about.queue])))
        }
    }
}

/// Jobs of the queue by text.
fn find(frame: &PageFrame, about: &About<'_>) -> Markup {
    let db = frame.db.to_string();
    let states = [
        ("", "any state", true),
        ("delayed", "delayed", false),
        ("ready", "ready", false),
        ("leased", "leased", false),
        ("dead", "dead", false),
    ];
    parts::filter(
        "/search",
        &[("db", db.as_bytes()), ("queue", about.queue)],
        html! {
            (parts::text_input("Id matches", "match", "", "order:*"))
            (parts::text_input("Id, body or error contains", "contains", "", "text"))
            (parts::select("State", "state", &states))
        },
    )
}

fn pause(frame: &PageFrame, about: &About<'_>) -> Markup {
    let db = frame.db.to_string();
    html! {
        details class="more" {
            summary { "Pause a side, or for a while" }
            (parts::form(frame, "", "/do/pause", &[("db", db.as_bytes()), ("queue", about.queue)], true, html! {
                (side_choice())
                (parts::text_input("For", "for", "", "until resumed, or 10m"))
                button { "Pause" }
            }))
        }
    }
}

fn add(frame: &PageFrame, about: &About<'_>) -> Markup {
    let db = frame.db.to_string();
    html! {
        details class="more" {
            summary { "Add a job" }
            (parts::form(frame, "add", "/do/add", &[("db", db.as_bytes()), ("queue", about.queue)], true, html! {
                (parts::text_input("Due", "when", "5s", "5s, 1h30m, @unix-ms, 2030-01-31T12:30:00Z"))
                (parts::text_input("Id", "id", "", "made by the server"))
                (parts::text_input("Priority", "priority", "", "0 first to 9"))
                (parts::text_input("Attempts", "attempts", "", "the queue's"))
                label class="field wide" { span { "Body" } textarea name="body" rows="4" spellcheck="false" {} }
                button class="primary" { "Add" }
            }))
        }
    }
}

fn destroy(frame: &PageFrame, about: &About<'_>, stats: &Value) -> Markup {
    let db = frame.db.to_string();
    let fields = [("db", db.as_bytes()), ("queue", about.queue)];
    let count = |states: &[&str]| {
        states.iter().map(|state| stats.field(state).number().unwrap_or(0)).sum::<u64>()
    };
    let purged = count(&["delayed", "ready", "dead"]);
    let all = parts::counted(purged + count(&["leased"]), "job", "jobs");
    let purged = parts::grouped(purged);
    let name = about.queue.to_vec();
    let purge: [(&str, &[u8]); 5] =
        [fields[0], fields[1], ("delayed", b"1"), ("ready", b"1"), ("dead", b"1")];
    html! {
        div class="actions" {
            @if offered(frame, "DELAY.PURGE") {
                (parts::action(frame, "/do/purge", &purge, "Purge", Confirm::TypeName {
                    name: name.clone(),
                    words: format!("Removes the {purged} delayed, ready and dead jobs of the queue. Leased jobs and \
                                    settings stay."),
                }))
            }
            @if offered(frame, "DEL") {
                (parts::action(frame, "/do/delete", &fields, "Delete queue", Confirm::TypeName {
                    name,
                    words: format!("Removes the queue with its {all}, its settings and schedules."),
                }))
            }
            @if offered(frame, "RENAMENX") {
                details class="more" {
                    summary { "Rename" }
                    (parts::form(frame, "", "/do/rename", &fields, false, html! {
                        (parts::text_input("New name", "to", "", ""))
                        button { "Rename" }
                    }))
                }
            }
        }
    }
}
