//! For a screen on the wall: few large numbers, and what needs a look. Nothing can be done here.

use super::overview::{self, TroubleRow, Troubles};
use super::queues;
use super::{NO_MORE, Page};
use crate::console::view::chrome::{PageFrame, ServerState};
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Tone};
use crate::console::words::params::Params;
use crate::console::words::value::Value;
use maud::{Markup, html};

/// `/wall`.
pub const PAGE: Page =
    Page { path: "/wall", ask: overview::ask, more: NO_MORE, show, whole: false, file: None };

/// Later than this is marked, µs.
const LATE_US: u64 = 100_000;
/// Jobs that wait longer are marked, ms.
const OLD_MS: u64 = 60_000;

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let [ready, oldest, dead] = [0, 1, 2].map(|at| queues::read(&replies[at]));
    let only_trouble = params.text("show") == Some("trouble");
    let mut troubles = overview::troubles(frame, &ready, &oldest, &dead);
    // Notices are not shown on the wall.
    troubles.rows.retain(|row| row.tone() != Tone::Plain);
    let is_unknown = frame.state.is_none() && replies[0].error().is_some();
    let body = html! {
        div class="wall-view" {
            @if !only_trouble {
                (parts::part("figures", html! {
                    @match &frame.state {
                        Some(state) => (figures(state)),
                        None => p class="lead" { "The numbers of the server need the right to run INFO." },
                    }
                }))
            }
            (parts::part("trouble", list(&troubles, is_unknown)))
            p class="note" {
                @if only_trouble { a href={ "/wall?db=" (frame.db) } { "with numbers" } }
                @else { a href={ "/wall?show=trouble&db=" (frame.db) } { "only what needs attention" } }
            }
        }
    };
    live(frame, "Wall", Tab::Wall, body)
}

fn figures(state: &ServerState) -> Markup {
    let (late, age) =
        (state.number_of("lateness_minute_p99_us"), state.number_of("oldest_ready_age_ms"));
    let (ready, dead) = (state.number_of("jobs_ready"), state.number_of("jobs_dead"));
    let oldest = if age == 0 { "–".to_owned() } else { coarse(age) };
    let toned = |is_so: bool, tone: Tone| if is_so { tone } else { Tone::Plain };
    html! {
        div class="figures" {
            (fitted("late p99, last minute", parts::measured(late), toned(late > LATE_US, Tone::Warn)))
            (fitted("oldest ready", oldest, toned(age > OLD_MS, Tone::Warn)))
            (fitted("ready", parts::grouped(ready), Tone::Plain))
            (fitted("dead", parts::grouped(dead), toned(dead > 0, Tone::Bad)))
        }
    }
}

/// A figure as large as its box allows: the stylesheet has a size for each length.
fn fitted(label: &str, value: String, tone: Tone) -> Markup {
    let length = match value.chars().count() {
        ..=4 => "short",
        5..=7 => "middle",
        8..=10 => "long",
        _ => "longest",
    };
    html! { div class={ "fit " (length) } { (parts::figure(label, value, "", tone, "")) } }
}

/// A span in its greatest unit alone: from afar that is enough.
fn coarse(ms: u64) -> String {
    parts::duration(ms).split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Nothing to look at and nothing to be seen look different.
fn list(troubles: &Troubles, is_unknown: bool) -> Markup {
    let alert = |row: &TroubleRow| parts::alert(row.tone(), row.line(), &row.wrongs[0].place.href);
    html! {
        @if is_unknown { p class="calm" { (parts::badge(Tone::Warn, "unknown")) " You may see neither INFO nor the queues." } }
        @else if troubles.rows.is_empty() { p class="calm" { (parts::badge(Tone::Good, "Nothing needs attention")) } }
        @else { ul class="alerts" {
            @for row in &troubles.rows { (alert(row)) }
            @for (text, href) in &troubles.more { (parts::alert(Tone::Plain, text, href)) }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::chrome::May;
    use crate::console::words::value::tests::{map, text};

    fn page(query: &str, fields: &[(&str, &str)], queues: &[Value]) -> String {
        let info = fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned()));
        let state = Some(ServerState { info: info.collect() });
        let frame =
            PageFrame { may: May::all(), state, token: "t0k".into(), ..PageFrame::default() };
        let reply = Value::Array(queues.to_vec());
        show(
            &frame,
            &Params::read(query.as_bytes()),
            &[reply.clone(), reply.clone(), reply.clone(), reply],
        )
        .into_string()
    }

    #[test]
    fn numbers_are_marked_where_they_are_bad_and_nothing_can_be_done() {
        let calm = page("", &[("jobs_ready", "1204")], &[]);
        assert!(calm.contains("1,204") && calm.contains("Nothing needs attention"), "{calm}");
        assert!(!calm.contains("figure bad") && !calm.contains("figure warn"), "{calm}");
        assert_eq!([coarse(230_000), coarse(4_000)], ["3 min", "4 s"]);
        let bad = page("", &[("jobs_dead", "3"), ("lateness_minute_p99_us", "200000")], &[]);
        assert!(bad.contains("figure bad") && bad.contains("figure warn"), "{bad}");
        assert!(!bad.contains("/do/") && bad.contains(r#"class="wall""#), "{bad}");
    }

    #[test]
    fn only_what_needs_a_look() {
        let dead = map(&[("name", text("<b>pay")), ("dead", Value::Int(12))]);
        let shown = page("show=trouble", &[("jobs_dead", "12")], &[dead]);
        assert!(
            shown.contains("&lt;b&gt;pay: 12 dead") && !shown.contains("class=\"figures\""),
            "{shown}"
        );
        let missed = page("", &[("schedule_missed_total", "3")], &[]);
        assert!(missed.contains("Nothing needs attention"), "{missed}");
    }

    #[test]
    fn what_may_not_be_seen_is_not_said_to_be_well() {
        let refused = [(); 4].map(|()| Value::Error("NOPERM".into()));
        let shown = show(&PageFrame::default(), &Params::default(), &refused).into_string();
        assert!(shown.contains("unknown") && !shown.contains("Nothing needs attention"), "{shown}");
    }
}
