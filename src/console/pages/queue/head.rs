//! A queue's numbers, and what is in force for it.

use super::About;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Tone};
use crate::console::words::escape;
use crate::console::words::value::Value;
use maud::{Markup, html};

/// Counters, lateness, limits and pauses.
pub fn show(frame: &PageFrame, about: &About<'_>, stats: &Value, config: &Value) -> Markup {
    let figure = |state: &'static str, note: &str, tone| {
        parts::figure(
            state,
            parts::grouped(stats.number_of(state)),
            note,
            tone,
            &about.href(frame.db, state),
        )
    };
    let oldest = stats
        .field("oldest-ready-age-ms")
        .number()
        .map(|age| format!("the oldest for {}", parts::duration(age)));
    let next =
        stats.field("next-due").number().map(|at| format!("next {}", parts::span(frame, at)));
    let taken = stats
        .field("last-reserve-at")
        .number()
        .map(|at| format!("last job taken {}", parts::span(frame, at)));
    let max = match stats.number_of("lateness-max-us") {
        0 => String::new(),
        max => format!("max {}", parts::micros(max)),
    };
    let dead = if stats.number_of("dead") > 0 { Tone::Bad } else { Tone::Plain };
    html! {
        @if about.queue.is_empty() { p class="refused" { "The address does not name a queue." } }
        div class="figures" {
            (figure("ready", &oldest.unwrap_or_default(), Tone::Plain))
            (figure("delayed", &next.unwrap_or_default(), Tone::Plain))
            (figure("leased", &leased_note(stats, config), Tone::Plain))
            (figure("dead", "", dead))
            (parts::figure("late, p99", parts::measured(stats.number_of("lateness-p99-us")), &max, Tone::Plain, ""))
            (parts::figure("waiting consumers", parts::grouped(stats.number_of("waiters")), &taken.unwrap_or_default(), Tone::Plain, &about.href(frame.db, "consumers")))
        }
        (in_force(stats, config))
        details class="more" {
            summary { "Totals" }
            (totals(stats))
        }
    }
}

/// Where jobs wait because of a limit, that is said.
fn leased_note(stats: &Value, config: &Value) -> String {
    match set(config, "max-leased") {
        Some(most) if stats.number_of("leased") >= most && stats.number_of("ready") > 0 => {
            format!("{most} is max-leased: others wait")
        }
        Some(most) => format!("of {}", parts::grouped(most)),
        None => String::new(),
    }
}

/// A limit that is not 0.
fn set(config: &Value, name: &str) -> Option<u64> {
    config.field(name).number().filter(|limit| *limit > 0)
}

fn in_force(stats: &Value, config: &Value) -> Markup {
    let jobs = stats.number_of("ready") + stats.number_of("delayed") + stats.number_of("leased");
    let mut pairs: Vec<(&str, Markup)> = Vec::new();
    if let Some(rate) = set(config, "rate") {
        pairs.push(("rate", html! { (parts::grouped(rate)) " a second" }));
    }
    if let Some(most) = set(config, "max-jobs") {
        let full = jobs >= most;
        pairs.push(("max-jobs", html! { (parts::grouped(jobs)) " of " (parts::grouped(most)) @if full { " " (parts::state("full")) } }));
    }
    if stats.number_of("groups") > 0 {
        let closed = stats.number_of("groups-closed");
        pairs.push(("groups", html! { (parts::grouped(stats.number_of("groups"))) @if closed > 0 { ", " (parts::grouped(closed)) " closed" } }));
    }
    if config.field("due-enters").text() == Some("left") {
        pairs.push(("due-enters", html! { "left" }));
    }
    pairs.push(("memory", html! { (parts::bytes(stats.number_of("bytes"))) }));
    parts::facts(&pairs)
}

fn totals(stats: &Value) -> Markup {
    const SHOWN: [&str; 13] = [
        "added", "delivered", "acked", "popped", "nacked", "timeouts", "lost", "expired",
        "deleted", "died", "dropped", "made", "missed",
    ];
    let pairs: Vec<(&str, Markup)> = SHOWN
        .iter()
        .filter_map(|name| Some((*name, parts::number(stats.field(name).number()?))))
        .collect();
    parts::facts(&pairs)
}

/// Whether the queue is there; a name that nothing is known of shows how to begin.
pub fn is_known(stats: &Value) -> bool {
    !matches!(stats, Value::Null)
}

/// The name as a person reads it.
pub fn name(about: &About<'_>) -> String {
    escape::shortened(&escape::text(about.queue), 80)
}
