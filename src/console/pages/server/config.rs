//! The settings of the server, and the form that sets one.

use crate::console::frame::Frame;
use crate::console::parts::{self, Column, Row, Table, offered};
use crate::console::shown;
use crate::console::value::Value;
use maud::{Markup, html};

/// What the log can tell.
const LEVELS: [&str; 5] = ["debug", "verbose", "notice", "warning", "nothing"];

/// The table, the log's level, and the form; nothing for who may not see it.
pub fn show(frame: &Frame, config: &Value) -> Markup {
    let mut options: Vec<&(Value, Value)> = config.fields().iter().collect();
    if options.is_empty() {
        return html! {};
    }
    options.sort_by_key(|(name, _)| name.bytes());
    let may_set = offered(frame, "CONFIG SET");
    let row = |(name, value): &&(Value, Value)| {
        let name = shown::text(name.bytes().unwrap_or_default());
        let value = shown::text(value.bytes().unwrap_or_default());
        let cells = vec![html! { code { (name) } }, cell(&name, &value)];
        Row { key: shown::query(name.as_bytes()), select: None, cells }
    };
    let table = Table {
        id: "settings",
        caption: "Settings of the server".to_owned(),
        columns: vec![Column::text("setting"), Column::text("value")],
        rows: options.iter().map(row).collect(),
        form: "",
        grow: false,
    };
    let level = config.field("loglevel").text().unwrap_or_default();
    parts::card(
        "Settings",
        html! { "as CONFIG GET tells them" },
        html! {
            @if may_set { (forms(frame, level)) }
            details class="rest" { summary { "All " (options.len()) " settings" } (table) }
        },
    )
}

fn forms(frame: &Frame, level: &str) -> Markup {
    let mut levels: Vec<(&str, &str, bool)> =
        LEVELS.iter().map(|word| (*word, *word, *word == level)).collect();
    levels.retain(|(word, ..)| *word != "nothing" || level == "nothing");
    let hidden = html! { input type="hidden" name="option" value="loglevel"; };
    html! {
        (parts::form(frame, "", "/do/config", &[], false, html! {
            (hidden) (parts::select("The log tells", "value", &levels)) button { "Set the level" }
        }))
        (parts::form(frame, "", "/do/config", &[], false, html! {
            (parts::text_input("Setting", "option", "", "slowlog-log-slower-than"))
            (parts::text_input("Value", "value", "", ""))
            button { "Set" }
        }))
        p class="note" { "A setting holds until a restart; CONFIG REWRITE writes it to the configuration file. Passwords are better set elsewhere: this form shows what is typed." }
    }
}

fn cell(name: &str, value: &str) -> Markup {
    html! {
        @if value.is_empty() { span class="faint" { "–" } }
        @else if is_secret(name) { span class="faint" { "not shown" } }
        @else { code { (shown::shortened(value, 120)) } }
    }
}

/// Whether a value is never shown. Files are, what opens them is not.
fn is_secret(name: &str) -> bool {
    ["pass", "secret", "password"].iter().any(|word| name.ends_with(word))
        || name.contains("auth-pass")
}
