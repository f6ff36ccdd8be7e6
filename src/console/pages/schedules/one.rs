//! One schedule: all of GET, its next instants, its body, what can be done, and the form that changes it.

use super::form;
use crate::console::pages::{NO_MORE, Page};
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts;
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, html};

/// `/schedule`.
pub const PAGE: Page =
    Page { path: "/schedule", ask, more: NO_MORE, show, whole: false, file: None };

fn ask(params: &Params) -> Vec<Command> {
    let field = |name| params.bytes(name).unwrap_or_default();
    let (queue, id) = (field("queue"), field("id"));
    let mut asked = vec![
        command!["DELAY.SCHEDULE", "GET", queue, id],
        command!["DELAY.SCHEDULE", "NEXT", queue, id, "COUNT", "5"],
    ];
    asked.extend(form::preview(params));
    asked
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let field = |name| params.bytes(name).unwrap_or_default();
    let (queue, id, got) = (field("queue"), field("id"), &replies[0]);
    let title = format!("Schedule {}", escape::shortened(&escape::text(id), 60));
    let state = got.word("state");
    let body = html! {
        p class="lead" { "of " (parts::queue_link(frame.db, queue)) }
        @match got {
            Value::Error(_) => p class="refused" role="alert" { (got.error().unwrap_or_default()) },
            Value::Map(_) => {
                (parts::part("schedule", html! {
                    (summary(frame, got))
                    div class="grid" { (facts(frame, queue, got)) (next(frame, state, &replies[1])) }
                }))
                (parts::part("schedule-actions", parts::card("Actions", html! {}, html! {
                    div class="actions" { (super::actions(frame, queue, id, state)) }
                })))
                (content(got))
                (form::edit(frame, params, got, replies.get(2)))
            },
            _ => (parts::empty("There is no such schedule: it was removed, or never existed.", &[])),
        }
    };
    live(frame, &title, Tab::Schedules, body)
}

/// "active, every 5m, next in 3 min."
fn summary(frame: &PageFrame, got: &Value) -> Markup {
    html! {
        p class="lead" {
            (parts::state(got.word("state"))) " " code { (rule(got)) }
            @if let Some(at) = got.field("next-due").number() { ", next " (parts::ago(frame, at)) }
            @if let Some(why) = got.field("held").text() { ", held: " (held(why)) }
            @if let Some(at) = got.field("paused-until").number() { ", paused until " (parts::moment(frame, at)) }
            "."
        }
    }
}

fn rule(got: &Value) -> String {
    let text = |name| escape::text(got.raw(name));
    match got.field("every").bytes() {
        Some(_) => format!("every {}", text("every")),
        None => format!("cron {} {}", text("cron"), text("tz")),
    }
}

fn held(why: &str) -> &str {
    match why {
        "paused" => "its queue accepts no jobs",
        "full" => "its queue is full",
        "memory" => "memory is short",
        "journal" => "the journal accepts nothing",
        "zone" => "its time zone is unknown",
        "pattern" => "its pattern is invalid",
        other => other,
    }
}

fn facts(frame: &PageFrame, queue: &[u8], got: &Value) -> Markup {
    const MOMENTS: [(&str, &str); 6] = [
        ("next instant", "next"),
        ("due with spread", "next-due"),
        ("last instant", "last"),
        ("last made", "last-made"),
        ("from", "from"),
        ("until", "until"),
    ];
    const PLAIN: [(&str, &str); 12] = [
        ("overlap", "overlap"),
        ("spread", "spread"),
        ("catch up", "catchup"),
        ("missed after", "grace"),
        ("runs at most", "runs"),
        ("runs left", "runs-left"),
        ("priority", "priority"),
        ("attempts", "attempts"),
        ("backoff", "backoff"),
        ("lease", "lease"),
        ("time to live", "ttl"),
        ("zone", "tz"),
    ];
    const TOTALS: [&str; 4] = ["made", "missed", "skipped", "replaced"];
    let moments = MOMENTS.iter().filter_map(|(label, name)| {
        Some((*label, parts::moment(frame, got.field(name).number()?)))
    });
    let totals = TOTALS.iter().map(|name| (*name, parts::number(got.number_of(name))));
    let plain = PLAIN.iter().filter_map(|(label, name)| match got.field(name) {
        Value::Null => None,
        Value::Int(number) => Some((*label, html! { (number) })),
        other => Some((*label, html! { (escape::text(other.bytes()?)) })),
    });
    let mut pairs: Vec<(&str, Markup)> = totals.chain(moments).chain(plain).collect();
    if let Some(id) = got.field("last-id").bytes() {
        pairs.push(("last job", parts::job_link(frame.db, queue, id)));
    }
    let open: Vec<&[u8]> = got.field("open").items().iter().filter_map(Value::bytes).collect();
    if !open.is_empty() {
        let links = html! { @for id in open { (parts::job_link(frame.db, queue, id)) " " } };
        pairs.push(("not done yet", links));
    }
    if let Some(at) = got.field("changed").number() {
        pairs.push(("changed", parts::moment(frame, at)));
    }
    parts::card("Details", html! {}, parts::facts(&pairs))
}

fn next(frame: &PageFrame, state: &str, next: &Value) -> Markup {
    let note = html! { "without spread" };
    let is_paused = state == "paused" && next.items().is_empty() && next.error().is_none();
    parts::card(
        "Next instants",
        note,
        html! {
            @if is_paused { p class="faint" { "None while it is paused." } }
            @else { (form::instants(frame, next)) }
        },
    )
}

fn content(got: &Value) -> Markup {
    let bytes = got.raw("body");
    let body = escape::body(bytes);
    let note = html! { (body.kind) ", " (parts::bytes(bytes.len() as u64)) };
    let cut = html! {
        @if body.is_cut() { p class="note" { "The first " (parts::bytes(body.shown as u64)) " are shown." } }
    };
    parts::card("Body of each job", note, html! { (cut) (body) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::chrome::May;
    use crate::console::words::value::tests::{map, text};

    fn got(body: &'static [u8]) -> Value {
        map(&[
            ("name", text("bank")),
            ("state", text("active")),
            ("every", text("5m")),
            ("spread", text("30s")),
            ("overlap", text("skip")),
            ("until", Value::Int(90_000)),
            ("next", Value::Int(61_000)),
            ("next-due", Value::Int(71_000)),
            ("made", Value::Int(1_204)),
            ("body", Value::Text(bytes::Bytes::from_static(body))),
        ])
    }

    fn page(may: May, query: &str, replies: &[Value]) -> String {
        let frame = PageFrame { may, now_ms: 1_000, token: "t0k".into(), ..PageFrame::default() };
        show(&frame, &Params::read(query.as_bytes()), replies).into_string()
    }

    fn instants() -> Value {
        Value::Array(vec![Value::Int(61_000), Value::Int(361_000)])
    }

    #[test]
    fn all_that_is_known_of_it_is_there_and_in_the_form() {
        let shown = page(May::all(), "queue=poll&id=bank", &[got(b"{\"a\":1}"), instants()]);
        for word in ["1,204", "every 5m", "1970-01-01 00:06:01", "/do/schedule-run?"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        for field in [
            r#"name="every" value="5m""#,
            r#"name="spread" value="30s""#,
            r#"name="until" value="@90000""#,
            r#"<option value="skip" selected>"#,
        ] {
            assert!(shown.contains(field), "{field}: {shown}");
        }
        let save = r#"formmethod="post" formaction="/do/schedule?db=0&amp;queue=poll&amp;schedule=bank&amp;back=%2Fschedule"#;
        assert!(shown.contains(save), "{shown}");
        let form = &shown[shown.find(r#"<form class="form wide""#).expect("there")..];
        assert!(!form.contains(r#"type="hidden" name="token""#), "no address holds the token");
    }

    #[test]
    fn a_preview_asks_for_the_rule_of_the_form_and_keeps_what_was_typed() {
        let query = "queue=poll&id=bank&preview=1&cron=0+8+*+*+*&zone=UTC&spread=&body=other";
        let asked = ask(&Params::read(query.as_bytes()));
        let explain =
            command!["DELAY.SCHEDULE", "EXPLAIN", "CRON", "0 8 * * *", "TZ", "UTC", "COUNT", "5"];
        assert_eq!(asked.last(), Some(&explain));
        let local = Value::Array(vec![Value::Int(61_000), text("1970-01-01T01:01:01+01:00")]);
        let replies = [got(b"x"), instants(), Value::Array(vec![local])];
        let shown = page(May::all(), query, &replies);
        assert!(shown.contains("1970-01-01T01:01:01+01:00"), "{shown}");
        assert!(shown.contains(r#"name="every" value="""#) && shown.contains("\nother"), "{shown}");
        let query = "queue=poll&id=bank&preview=1&cron=0+8+*+*+*";
        let shown = page(May::all(), query, &[got(b"kept"), instants(), Value::Null]);
        assert!(
            shown.contains("\nkept") && shown.contains(r#"name="spread" value="30s""#),
            "{shown}"
        );
        let both = "queue=poll&id=bank&preview=1&cron=*&every=5m";
        assert_eq!(ask(&Params::read(both.as_bytes())).len(), 2);
        let shown = page(May::all(), both, &[got(b"x"), instants()]);
        assert!(shown.contains("either an interval or a cron"), "{shown}");
    }

    #[test]
    fn a_body_that_no_form_can_carry_stays_as_it_is() {
        let shown = page(May::all(), "queue=q&id=s", &[got(b"a\r\n\xff"), instants()]);
        assert!(shown.contains(r#"name="kept-body" value="a%0D%0A%FF""#), "{shown}");
        assert!(!shown.contains("<textarea"), "{shown}");
        let long: &'static [u8] = vec![b'x'; 9_000].leak();
        let shown = page(May::all(), "queue=q&id=s", &[got(long), instants()]);
        assert!(shown.contains("too long for a form") && !shown.contains("form wide"), "{shown}");
    }

    #[test]
    fn without_rights_or_without_a_schedule_there_is_no_form() {
        let shown = page(May::default(), "queue=q&id=%3Ci%3E", &[got(b"<script>"), instants()]);
        assert!(!shown.contains("<textarea") && !shown.contains("/do/"), "{shown}");
        assert!(shown.contains("&lt;script&gt;") && !shown.contains("<i>"), "{shown}");
        let gone = page(May::all(), "queue=q&id=s", &[Value::Null, Value::Null]);
        assert!(gone.contains("There is no such schedule") && !gone.contains("<textarea"));
        let refused = Value::Error("NOPERM no".into());
        assert!(page(May::all(), "queue=q&id=s", &[refused, Value::Null]).contains("NOPERM no"));
    }
}
