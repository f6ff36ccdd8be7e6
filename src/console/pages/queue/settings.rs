//! The settings of a queue as a form: those that are set, those that are default.

use super::About;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Confirm, offered};
use crate::console::words::params::SETTINGS;
use crate::console::words::value::Value;
use maud::{Markup, html};

const MEANINGS: [&str; 16] = [
    "deliveries before a new job is dead; 0 no limit",
    "delay after a failed delivery: exp:1s:1h~, or 1s,10s,1m",
    "how long a worker has a job by default",
    "for a new job, 0 (first) to 9",
    "a new job expires this long after its due time; 0 never",
    "maximum of delayed, ready and leased jobs; 0 no limit",
    "maximum of leases at once; 0 no limit",
    "maximum of deliveries a second; 0 no limit",
    "how long a dead job is kept",
    "how many dead jobs are kept",
    "where due jobs enter: right or left",
    "jobs that each group gives in its turn",
    "maximum of leases of each group at once; 0 no limit",
    "whether a job that waits for its next attempt lets its group pass: pass or block",
    "maximum of deliveries of each group: 5 a second, or 100/1m; 0 no limit",
    "maximum of delayed, ready and leased jobs of each group; 0 no limit",
];

/// The form, or a list for users that may not change it.
pub fn show(frame: &PageFrame, about: &About<'_>, config: &Value) -> Markup {
    if let Some(error) = config.error() {
        return html! { p class="refused" role="alert" { (error) } };
    }
    let set: Vec<&[u8]> = config.field("set").items().iter().filter_map(Value::bytes).collect();
    let is_set = |name: &str| set.contains(&name.as_bytes());
    let value = |name: &str| config.word(name).to_owned();
    if !offered(frame, "DELAY.CONFIG SET") {
        let pairs: Vec<(&str, Markup)> = SETTINGS
            .iter()
            .map(|name| (*name, html! { (value(name)) @if is_set(name) { " (set)" } }))
            .collect();
        return parts::facts(&pairs);
    }
    let fields = [("queue", about.queue)];
    html! {
        (parts::form(frame, "settings", "/do/settings", &fields, false, html! {
            @for (name, meaning) in SETTINGS.iter().zip(MEANINGS) {
                div class="setting" {
                    label class="field" {
                        span { (name) @if is_set(name) { " " b { "set" } } @else { " " span class="faint" { "default" } } }
                        input name=(name) value=(value(name)) autocomplete="off" spellcheck="false" aria-describedby={ "about-" (name) };
                    }
                    input type="hidden" name={ "was-" (name) } value=(value(name));
                    p class="note" id={ "about-" (name) } { (meaning) }
                }
            }
            button class="primary" { "Save settings" }
        }))
        @if !set.is_empty() {
            (parts::action(frame, "/do/reset", &fields, "Back to the defaults", Confirm::Count { words: "Resets \
                every setting of the queue to its default.".to_owned() }))
        }
    }
}
