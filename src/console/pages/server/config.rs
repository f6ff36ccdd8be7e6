//! The settings of the server, and the form that sets one.

use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column, Row, Table, offered};
use crate::console::words::escape;
use crate::console::words::value::Value;
use maud::{Markup, html};

/// The log levels.
const LEVELS: [&str; 5] = ["debug", "verbose", "notice", "warning", "nothing"];

/// The table, the log level, and the form; nothing for a user that may not see it.
pub fn show(frame: &PageFrame, config: &Value) -> Markup {
    let mut options: Vec<&(Value, Value)> = config.fields().iter().collect();
    if options.is_empty() {
        return html! {};
    }
    options.sort_by_key(|(name, _)| name.bytes());
    let may_set = offered(frame, "CONFIG SET");
    let row = |(name, value): &&(Value, Value)| {
        let name = escape::text(name.bytes().unwrap_or_default());
        let value = escape::text(value.bytes().unwrap_or_default());
        let cells = vec![html! { code { (name) } }, cell(&name, &value)];
        Row { key: escape::query(name.as_bytes()), select: None, cells }
    };
    let (columns, rows) = (Column::list("setting|value"), options.iter().map(row).collect());
    let table = Table::plain("settings", "Settings of the server", columns, rows);
    let level = config.word("loglevel");
    parts::card(
        "Settings",
        html! { "as in CONFIG GET" },
        html! {
            @if may_set { (forms(frame, level)) }
            details class="rest" { summary { "All " (options.len()) " settings" } (table) }
        },
    )
}

fn forms(frame: &PageFrame, level: &str) -> Markup {
    let mut levels: Vec<(&str, &str, bool)> =
        LEVELS.iter().map(|word| (*word, *word, *word == level)).collect();
    levels.retain(|(word, ..)| *word != "nothing" || level == "nothing");
    let hidden = html! { input type="hidden" name="option" value="loglevel"; };
    html! {
        (parts::form(frame, "", "/do/config", &[], false, html! {
            (hidden) (parts::select("Log level", "value", &levels)) button { "Set the level" }
        }))
        (parts::form(frame, "", "/do/config", &[], false, html! {
            (parts::text_input("Setting", "option", "", "slowlog-log-slower-than"))
            (parts::text_input("Value", "value", "", ""))
            button { "Set" }
        }))
        p class="note" { "A setting applies until a restart; CONFIG REWRITE writes it to the configuration file. Set \
                          passwords elsewhere: this form shows what you type." }
    }
}

fn cell(name: &str, value: &str) -> Markup {
    html! {
        @if value.is_empty() { span class="faint" { "–" } }
        @else if is_secret(name) { span class="faint" { "not shown" } }
        @else { code { (escape::shortened(value, 120)) } }
    }
}

/// Whether a value is never shown. Files are, what opens them is not.
fn is_secret(name: &str) -> bool {
    ["pass", "secret", "password"].iter().any(|word| name.ends_with(word))
        || name.contains("auth-pass")
}
