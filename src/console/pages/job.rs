//! One job: all of GET in words, its life as far as it is known, its body, and what can be done to it.

use super::{NO_MORE, Page};
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Confirm, Tone, offered};
use crate::console::view::response::{attachment, problem};
use crate::console::words::escape::{self, Way};
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

/// `/job`.
pub const PAGE: Page = Page { path: "/job", ask, more: NO_MORE, show, whole: true, file: None };
/// `/job/body`: the body as a file.
pub const BODY: Page = Page { path: "/job/body", file: Some(file), ..PAGE };

fn ask(params: &Params) -> Vec<Command> {
    let field = |name| params.bytes(name).unwrap_or_default();
    vec![command!["DELAY.GET", field("queue"), field("id")]]
}

struct Job<'a> {
    queue: &'a [u8],
    id: &'a [u8],
    got: &'a Value,
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let field = |name| params.bytes(name).unwrap_or_default();
    let job = Job { queue: field("queue"), id: field("id"), got: &replies[0] };
    let title = format!("Job {}", escape::shortened(&escape::text(job.id), 60));
    let body = html! {
        p class="lead" { "in " (parts::queue_link(frame.db, job.queue)) }
        @match job.got {
            Value::Error(_) => p class="refused" role="alert" { (job.got.error().unwrap_or_default()) },
            // On an open page the buttons that no longer apply go; the body stays so that it can be read.
            Value::Null => {
                (parts::part("job", gone(frame, &job)))
                (parts::part("acts", html! {}))
            },
            _ => {
                (parts::part("job", html! { (summary(frame, &job)) (life(frame, &job)) }))
                (parts::part("acts", actions(frame, &job)))
                (headers(&job))
                (content(frame, params, &job))
            }
        }
    };
    live(frame, &title, Tab::Queues, body)
}

fn gone(frame: &PageFrame, job: &Job<'_>) -> Markup {
    parts::empty(
        "There is no such job: it was acknowledged, taken or removed, or never existed. delayd keeps no history of \
         jobs.",
        &[("Jobs with this id in other queues:", parts::commands(frame, &[b"DELAY.FIND", job.id]))],
    )
}

/// The state in a sentence.
fn summary(frame: &PageFrame, job: &Job<'_>) -> Markup {
    let due = job.got.number_of("due");
    html! {
        p class="lead" {
            (parts::state(job.got.word("state"))) " "
            @match job.got.word("state") {
                "delayed" => { "due " (parts::moment(frame, due)) },
                "ready" => { "due since " (parts::moment(frame, due)) ", waiting for a worker" },
                "leased" => { "with a worker until " (parts::moment(frame, job.got.number_of("lease-end"))) },
                "dead" => { (died(job.got.word("reason"))) " " (parts::moment(frame, job.got.number_of("died"))) },
                _ => {},
            }
            ". " (attempts(job))
        }
        (last_errors(frame, job))
    }
}

/// The last one as it is, the ones before it shortened.
fn last_errors(frame: &PageFrame, job: &Job<'_>) -> Markup {
    let errors = job.got.field("errors").items();
    html! {
        @for (n, error) in errors.iter().enumerate() {
            @let text = error.raw("error");
            p class=[(n > 0).then_some("faint")] {
                @if n == 0 { "The last error" } @else { "Before that" }
                @if let Some(attempt) = error.field("attempt").number() { ", in attempt " (parts::grouped(attempt)) }
                @if let Some(at) = error.field("at").number() { ", " (parts::moment(frame, at)) }
                ": " code { bdi { (escape::text(text)) } }
            }
        }
    }
}

fn died(reason: &str) -> &'static str {
    match reason {
        "attempts" => "its attempts were used up",
        "timeout" => "its last lease ran out",
        "lost" => "its last connection was lost",
        "buried" => "it was buried",
        _ => "died",
    }
}

/// "Attempt 3 of 20, after 2 failures; the next waits by 1s,5s,30s."
fn attempts(job: &Job<'_>) -> Markup {
    let (attempt, most) = (job.got.number_of("attempt"), job.got.number_of("max-attempts"));
    let failures =
        job.got.number_of("nacks") + job.got.number_of("timeouts") + job.got.number_of("lost");
    html! {
        @if attempt == 0 { "Not delivered yet" } @else { "Delivery " (parts::grouped(attempt)) }
        @if most > 0 { @if attempt == 0 { "; at most " } @else { " of " } (parts::grouped(most)) @if attempt == 0 { " deliveries" } }
        @if failures > 0 { ", after " (parts::counted(failures, "failure", "failures")) }
        @if !job.got.word("backoff").is_empty() { "; a failure waits by " code { (job.got.word("backoff")) } }
        "."
    }
}

/// The events of a job's history, in order.
fn life(frame: &PageFrame, job: &Job<'_>) -> Markup {
    let number = |name: &str| parts::number(job.got.number_of(name));
    let times = |name: &str| html! { (number(name)) @if job.got.number_of(name) == 1 { " time" } @else { " times" } };
    let mut pairs = vec![
        ("added", parts::moment(frame, job.got.number_of("added"))),
        ("due", parts::moment(frame, job.got.number_of("due"))),
        ("priority", number("priority")),
        ("delivered", times("deliveries")),
        ("nacked", times("nacks")),
        ("lease ran out", times("timeouts")),
        ("connection lost", times("lost")),
    ];
    let group = job.got.raw("group");
    if !group.is_empty() {
        let (queue, of) = (escape::query(job.queue), escape::query(group));
        let href = format!("/search?db={}&queue={queue}&group={of}", frame.db);
        pairs.insert(0, ("group", html! { a href=(href) { bdi { (escape::text(group)) } } }));
    }
    let spans = [("lease", "lease-ms"), ("time to live", "ttl-ms"), ("unique for", "unique-ms")];
    for (label, name) in spans {
        if job.got.number_of(name) > 0 {
            pairs.push((label, html! { (parts::duration(job.got.number_of(name))) }));
        }
    }
    if job.got.number_of("expires") > 0 {
        pairs.push(("expires", parts::moment(frame, job.got.number_of("expires"))));
    }
    if job.got.word("state") == "leased" {
        pairs.push(("token", html! { code { (job.got.number_of("token")) } }));
        if job.got.number_of("bound") == 1 {
            pairs.push(("bound", html! { "the lease ends with its connection" }));
        }
    }
    parts::card("History", html! {}, parts::facts(&pairs))
}

fn actions(frame: &PageFrame, job: &Job<'_>) -> Markup {
    let fields = [("queue", job.queue), ("id", job.id)];
    let state = job.got.word("state");
    let waits = matches!(state, "delayed" | "ready");
    html! {
        section class="card" aria-label="Actions" {
            header { h2 { "Actions" } }
            div class="actions" {
                @if state == "delayed" && offered(frame, "DELAY.RESCHEDULE") {
                    (parts::action_toned(frame, "/do/run", &fields, "Run now", Confirm::None, Tone::Good))
                }
                @if state == "dead" && offered(frame, "DELAY.REDRIVE") {
                    (parts::action_toned(frame, "/do/redrive", &fields, "Redrive", Confirm::None, Tone::Good))
                }
                @if state == "leased" { (of_leased(frame, job, &fields)) }
                @if state != "leased" && offered(frame, "DELAY.CANCEL") {
                    (parts::action(frame, "/do/cancel", &fields, "Cancel", Confirm::Count { words: format!("Remove this {state} job.") }))
                }
            }
            @if waits && offered(frame, "DELAY.RESCHEDULE") {
                (parts::form(frame, "", "/do/move", &fields, true, html! {
                    (parts::text_input("Due", "when", "", "30s, 1h30m, @unix-ms, 2030-01-31T12:30:00Z"))
                    button { "Move" }
                }))
            }
            (parts::copy(&parts::commands(frame, &[b"DELAY.GET", job.queue, job.id])))
        }
    }
}

fn of_leased(frame: &PageFrame, job: &Job<'_>, fields: &[(&str, &[u8]); 2]) -> Markup {
    let token = job.got.number_of("token").to_string();
    let bury = [fields[0], fields[1], ("lease", token.as_bytes())];
    let force = [fields[0], fields[1], ("force", &b"1"[..])];
    html! {
        @if offered(frame, "DELAY.NACK") {
            (parts::action(frame, "/do/bury", &bury, "Bury", Confirm::Count { words: "The lease ends and the job is dead until it is redriven. Its worker goes on, but its ACK will count for nothing.".to_owned() }))
        }
        @if offered(frame, "DELAY.CANCEL") {
            (parts::action(frame, "/do/cancel", &force, "Cancel", Confirm::Count { words: "Remove the job although a worker has it. The worker goes on, but its ACK will count for nothing.".to_owned() }))
        }
    }
}

/// META, in its order.
fn headers(job: &Job<'_>) -> Markup {
    let shown = |value: &Value| escape::text(value.bytes().unwrap_or_default());
    let meta = job.got.field("meta").fields();
    let words: Vec<_> = meta.iter().map(|(name, value)| (shown(name), shown(value))).collect();
    let pairs: Vec<_> = words
        .iter()
        .map(|(name, value)| (name.as_str(), html! { code { bdi { (value) } } }))
        .collect();
    html! { @if !pairs.is_empty() { (parts::card("Headers", html! {}, parts::facts(&pairs))) } }
}

fn content(frame: &PageFrame, params: &Params, job: &Job<'_>) -> Markup {
    let bytes = job.got.raw("body");
    let way = params.bytes("as").and_then(Way::read);
    let body = way.map_or_else(|| escape::body(bytes), |way| escape::body_as(bytes, way));
    let at = |word: &str| format!("{}&as={word}", parts::job_href(frame.db, job.queue, job.id));
    let links = ["json", "text", "hex"].map(|word| (word, at(word), None));
    let file = format!(
        "/job/body?db={}&queue={}&id={}",
        frame.db,
        escape::query(job.queue),
        escape::query(job.id)
    );
    let note = html! { (body.kind) ", " (parts::bytes(bytes.len() as u64)) " · " a href=(file) download { "Download" } };
    parts::card(
        "Body",
        note,
        html! {
            (parts::tabs("Show as", body.way.word(), &links))
            @if body.is_cut() { p class="note" { "The first " (parts::bytes(body.shown as u64)) " are shown." } }
            (body)
        },
    )
}

/// The body itself, never shown by a browser as a page.
fn file(_: &Params, replies: &[Value]) -> Response {
    match replies[0].field("body") {
        Value::Text(body) => attachment("body.bin", "application/octet-stream", Bytes::clone(body)),
        _ => match replies[0].error() {
            Some(error) if error.starts_with("TOOLARGE ") => {
                problem(StatusCode::PAYLOAD_TOO_LARGE, &error)
            }
            Some(error) => problem(StatusCode::FORBIDDEN, &error),
            None => problem(StatusCode::NOT_FOUND, "There is no such job."),
        },
    }
}
