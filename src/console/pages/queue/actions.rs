//! Actions on a whole queue, and adding a job by hand.

use super::{About, head};
use crate::console::pages::queues::{open, pause_button, side_choice};
use crate::console::view::chrome::PageFrame;
use crate::console::view::node;
use crate::console::view::parts::{self, Confirm, Tone, offered};
use crate::console::words::value::Value;
use maud::{Markup, html};

/// The queue's status and what is done most, in a line; the rest opens below it.
pub fn bar(frame: &PageFrame, about: &About<'_>, stats: &Value) -> Markup {
    let paused = stats.field("paused").text().unwrap_or("no");
    let is_known = head::is_known(stats);
    let status = match paused {
        _ if !is_known => html! { (parts::badge(Tone::Plain, "no such queue")) },
        "no" => html! { (parts::badge(Tone::Good, "open")) },
        paused => open(paused),
    };
    let has_more =
        ["DELAY.PAUSE", "DELAY.PURGE", "DEL", "RENAMENX"].map(|word| offered(frame, word));
    html! {
        div class="bar-of-queue" id="bar" data-part {
            (status)
            (pause_button(frame, about.queue, paused))
            @if offered(frame, "DELAY.ADD") { (add(frame, about)) }
            @if is_known && has_more.contains(&true) { (more(frame, about, stats)) }
        }
    }
}

fn more(frame: &PageFrame, about: &About<'_>, stats: &Value) -> Markup {
    html! {
        details class="fold" {
            summary class="button" { "More…" }
            div class="card" {
                @if offered(frame, "DELAY.PAUSE") { (pause(frame, about)) }
                (destroy(frame, about, stats))
            }
        }
    }
}

/// Jobs of the queue by text.
pub fn find(frame: &PageFrame, about: &About<'_>) -> Markup {
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
    let fields = [("queue", about.queue)];
    parts::form(
        frame,
        "",
        "/do/pause",
        &fields,
        true,
        html! {
            fieldset {
                legend { "Pause a side, or for a while" }
                (side_choice())
                (parts::text_input("For", "for", "", "until resumed, or 10m"))
                button { "Pause" }
            }
        },
    )
}

fn add(frame: &PageFrame, about: &About<'_>) -> Markup {
    if let Some(why) = node::refusal(frame, "/do/add") {
        return html! { button type="button" disabled title=(why) { "Add a job" } };
    }
    html! {
        details class="fold" {
            summary class="button primary" { "Add a job" }
            div class="card" {
                (parts::form(frame, "add", "/do/add", &[("queue", about.queue)], true, html! {
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
}

fn destroy(frame: &PageFrame, about: &About<'_>, stats: &Value) -> Markup {
    let fields = [("queue", about.queue)];
    let count = |states: &[&str]| states.iter().map(|state| stats.number_of(state)).sum::<u64>();
    let all = parts::counted(count(&["delayed", "ready", "dead", "leased"]), "job", "jobs");
    let name = about.queue.to_vec();
    let choice = |state: &'static str, checked| {
        (state, format!("{} {state}", parts::grouped(count(&[state]))), checked)
    };
    let choices = vec![
        choice("delayed", true),
        choice("ready", true),
        choice("dead", true),
        choice("leased", false),
    ];
    html! {
        div class="actions" {
            @if offered(frame, "DELAY.PURGE") {
                (parts::action(frame, "/do/purge", &fields, "Purge", Confirm::Choose {
                    name: name.clone(),
                    words: "Removes the queue's jobs in the chosen states. Settings stay.".to_owned(),
                    choices,
                }))
            }
            @if offered(frame, "DEL") {
                (parts::action(frame, "/do/delete", &fields, "Delete queue", Confirm::TypeName {
                    name,
                    words: format!("Removes the queue with its {all}, its settings and schedules."),
                }))
            }
            @if offered(frame, "RENAMENX") {
                (parts::form(frame, "", "/do/rename", &fields, false, html! {
                    (parts::text_input("New name", "to", "", ""))
                    button { "Rename" }
                }))
            }
        }
    }
}
