//! The form that sets a schedule, filled from its fields, and what its rule comes to.
//!
//! Its own way is GET: the button that previews sends the fields in the address, so that it works without the script.
//! The token, which no address is to hold, is the value of the button that saves, and goes with that alone.

use crate::console::view::chrome::PageFrame;
use crate::console::view::node;
use crate::console::view::parts::{self, offered};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::params::rule;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, html};

/// Instants that a preview shows.
const INSTANTS: &str = "5";
/// Bytes of a body, encoded, that fit into the address of a preview.
const BODY_MAX: usize = 8 << 10;

/// Further fields of a schedule: the field, its label, a hint.
const MORE: [(&str, &str, &str); 9] = [
    ("spread", "Spread over", "30s"),
    ("catchup", "Catch up", "1"),
    ("grace", "Missed after", "10m"),
    ("runs", "Runs at most", "no end"),
    ("from", "From", "@unix-ms, 2030-01-31T12:30:00Z"),
    ("until", "Until", "@unix-ms, 2030-01-31T12:30:00Z"),
    ("priority", "Priority of its jobs", "0 to 9"),
    ("attempts", "Attempts of its jobs", "the queue's"),
    ("backoff", "Backoff of its jobs", "the queue's"),
];
/// As [`MORE`]; two that are seldom wanted.
const SELDOM: [(&str, &str, &str); 2] =
    [("lease", "Lease of its jobs", "the queue's"), ("ttl", "Time to live of its jobs", "0")];

/// The command of an address with a preview.
pub fn preview(params: &Params) -> Option<Command> {
    if !params.has("preview") {
        return None;
    }
    let mut asked = command!["DELAY.SCHEDULE", "EXPLAIN"];
    asked.extend(rule(params).ok()?);
    asked.extend(params.options(&[("from", "FROM")]));
    asked.extend(command!["COUNT", INSTANTS]);
    Some(asked)
}

/// The form for a schedule that is not there yet.
pub fn new(frame: &PageFrame, params: &Params, explained: Option<&Value>) -> Markup {
    if !offered(frame, "DELAY.SCHEDULE SET") {
        return html! {};
    }
    let field = |name: &str| params.text(name).unwrap_or_default().to_owned();
    let save = parts::target(frame, "/do/schedule", &[("back", b"/schedules")]);
    let names = html! {
        (parts::text_input("Queue", "queue", &field("queue"), "poll"))
        (parts::text_input("Name", "schedule", &field("schedule"), "bank"))
    };
    let body = Some(html! { (body_field(&field("body"))) });
    html! {
        div id="new" {
            (parts::card("New schedule", html! {}, whole(frame, "/schedules", &save, names, &field, body, params, explained)))
        }
    }
}

/// The form of a schedule from GET's reply, or from an address with a preview.
pub fn edit(frame: &PageFrame, params: &Params, got: &Value, explained: Option<&Value>) -> Markup {
    if !offered(frame, "DELAY.SCHEDULE SET") {
        return html! {};
    }
    let of_address = |name| params.bytes(name).unwrap_or_default();
    let (queue, id) = (of_address("queue"), of_address("id"));
    let drafted = params.has("preview");
    // A rule is one of two, so what an address does not say of it is not there; the rest stays as it is.
    let is_rule = |name: &str| matches!(name, "every" | "cron" | "zone");
    let field = |name: &str| match drafted && (is_rule(name) || params.has(name)) {
        true => params.text(name).unwrap_or_default().to_owned(),
        false => value(got, name),
    };
    let back = parts::schedule_href(frame.db, queue, id);
    let fields = [("queue", queue), ("schedule", id), ("back", back.as_bytes())];
    let save = parts::target(frame, "/do/schedule", &fields);
    let names = html! { (parts::kept_field("queue", queue)) (parts::kept_field("id", id)) };
    let Some(body) =
        body_of(got.raw("body"), (drafted && params.has("body")).then(|| field("body")))
    else {
        let note = "Its body is too long for a form: DELAY.SCHEDULE SET changes it.";
        return parts::card("Change it", html! {}, html! { p class="note" { (note) } });
    };
    let form = whole(frame, "/schedule", &save, names, &field, Some(body), params, explained);
    parts::card("Change it", html! {}, form)
}

/// The next instants of a rule, each in UTC and as the clocks of its zone show it.
pub fn instants(frame: &PageFrame, explained: &Value) -> Markup {
    let pair = |instant: &Value| match instant {
        Value::Array(both) => Some((
            both.first()?.number()?,
            escape::text(both.get(1).and_then(Value::bytes).unwrap_or_default()),
        )),
        _ => Some((instant.number()?, String::new())),
    };
    let pairs: Vec<(u64, String)> = explained.items().iter().filter_map(pair).collect();
    html! {
        @if let Some(error) = explained.error() { p class="refused" role="alert" { (error) } }
        @else if pairs.is_empty() { p class="faint" { "No instant is left." } }
        @else { ol class="instants" {
            @for (at, local) in pairs {
                li { (parts::moment(frame, at)) @if !local.is_empty() { " " code { (local) } } }
            }
        } }
    }
}

#[allow(clippy::too_many_arguments, reason = "the parts of one form")]
fn whole(
    frame: &PageFrame,
    path: &str,
    save: &str,
    names: Markup,
    field: &dyn Fn(&str) -> String,
    body: Option<Markup>,
    params: &Params,
    explained: Option<&Value>,
) -> Markup {
    let input = |(name, label, hint): &(&str, &str, &str)| {
        parts::text_input(label, name, &field(name), hint)
    };
    let is_open = MORE.iter().chain(&SELDOM).any(|(name, ..)| !field(name).is_empty());
    html! {
        form class="form wide" method="get" action=(path) {
            input type="hidden" name="db" value=(frame.db);
            (names)
            (parts::text_input("Every", "every", &field("every"), "5m"))
            (parts::text_input("or cron", "cron", &field("cron"), "0 8 * * 1-5"))
            (parts::text_input("Zone of cron", "zone", &field("zone"), "UTC"))
            (overlap(&field("overlap")))
            @if let Some(body) = body { (body) }
            details class="rest" open[is_open] {
                summary { "Spread, end and job options" }
                div class="form" { @for one in MORE.iter().chain(&SELDOM) { (input(one)) } }
            }
            @if params.has("preview") { (previewed(frame, params, explained)) }
            div class="choices" {
                button name="preview" value="1" { "Preview" }
                @match node::refusal(frame, save) {
                    Some(why) => button type="button" class="primary" disabled title=(why) { "Save" },
                    None => button class="primary" formmethod="post" formaction=(save) name="token" value=(frame.token) { "Save" },
                }
            }
        }
    }
}

fn previewed(frame: &PageFrame, params: &Params, explained: Option<&Value>) -> Markup {
    html! {
        div class="preview" role="status" {
            h3 { "Preview of its jobs" }
            @match (rule(params), explained) {
                (Err(text), _) => p class="refused" role="alert" { (text) },
                (_, Some(explained)) => (instants(frame, explained)),
                (_, None) => {},
            }
        }
    }
}

fn overlap(chosen: &str) -> Markup {
    let choices = [
        ("allow", "make another", chosen.is_empty() || chosen == "allow"),
        ("skip", "skip it", chosen == "skip"),
        ("replace", "replace waiting ones", chosen == "replace"),
    ];
    parts::select("If an earlier one is open", "overlap", &choices)
}

/// The value of a field of GET as SET takes it.
fn value(got: &Value, name: &str) -> String {
    let named = if name == "zone" { "tz" } else { name };
    match got.field(named) {
        Value::Int(at) if matches!(name, "from" | "until") => format!("@{at}"),
        Value::Int(number) => number.to_string(),
        other => escape::text(other.bytes().unwrap_or_default()),
    }
}

fn body_field(body: &str) -> Markup {
    html! {
        label class="field body-field" {
            span { "Body of each job" }
            // A browser drops the first line break.
            textarea name="body" spellcheck="false" rows="3" { "\n" (body) }
        }
    }
}

/// A field for a body that a form can carry as it is; one that it cannot stays as it is. None if it is too long.
fn body_of(bytes: &[u8], draft: Option<String>) -> Option<Markup> {
    let is_plain =
        |text: &str| !text.chars().any(|char| char.is_control() && !"\n\t".contains(char));
    let encoded = escape::query(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) if is_plain(text) => {
            let text = draft.unwrap_or_else(|| text.to_owned());
            (encoded.len() <= BODY_MAX).then(|| body_field(&text))
        }
        // The sign % of what is encoded is encoded once more by the browser.
        _ => (encoded.len() <= BODY_MAX / 2).then(|| {
            html! {
                input type="hidden" name="kept-body" value=(encoded);
                p class="note" { "Its body has bytes that a form cannot contain, and stays as it is." }
            }
        }),
    }
}
