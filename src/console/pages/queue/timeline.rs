//! The future of a queue in bars, from days to single jobs.

use super::About;
use crate::console::pages::forecast::{self, Forecast, Window, ZOOMS};
use crate::console::view::chart;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts;
use crate::console::words::escape;
use crate::console::words::value::{Command, Value};
use maud::{Markup, html};

/// With more delayed jobs than this they are counted only on request.
const BY_ITSELF_MAX: u64 = 1_000_000;

/// The counts to ask for: of jobs, and, where there are schedules, with their occurrences.
pub fn ask(about: &About<'_>, stats: &Value) -> Vec<Command> {
    let Some(window) = window(about).filter(|_| is_counted(about, stats)) else {
        return Vec::new();
    };
    let mut asked = vec![window.ask(about.queue, false)];
    if schedules(stats) {
        asked.push(window.ask(about.queue, true));
    }
    asked
}

/// How many replies that makes.
pub fn count(about: &About<'_>, stats: &Value) -> usize {
    ask(about, stats).len()
}

fn schedules(stats: &Value) -> bool {
    stats.number_of("schedules") > 0
}

/// Whether the jobs are counted for this request.
fn is_counted(about: &About<'_>, stats: &Value) -> bool {
    let delayed = stats.number_of("delayed");
    match delayed {
        0 => schedules(stats),
        1..=BY_ITSELF_MAX => true,
        _ => about.params.has("count") && !about.params.parts,
    }
}

/// The part of the future that the address names; none if it is too far off to be counted.
fn window(about: &About<'_>) -> Option<Window> {
    match (about.params.number("from"), about.params.number("length")) {
        (Some(from), Some(length)) => {
            Window::within(from.saturating_sub(about.params.now_ms), length)
        }
        _ => Some(Window::of(zoom(about))),
    }
}

fn zoom<'a>(about: &About<'a>) -> &'a str {
    about.params.text("zoom").unwrap_or("hour")
}

/// The bars, or why there are none.
pub fn show(frame: &PageFrame, about: &About<'_>, stats: &Value, replies: &[Value]) -> Markup {
    let delayed = stats.number_of("delayed");
    if delayed == 0 && !schedules(stats) {
        return html! {};
    }
    let body = match (window(about), replies.first().map(forecast::read)) {
        (None, _) => html! { p class="lead" { "Single minutes are not counted this far ahead." } },
        (Some(_), None) => by_hand(frame, about, delayed),
        (Some(window), Some(jobs)) => {
            bars(frame, about, window, &jobs, replies.get(1).map(forecast::read))
        }
    };
    let card = parts::card("Timeline", zooms(frame, about), body);
    // A count made on request is not renewed by itself.
    if delayed <= BY_ITSELF_MAX { parts::part("timeline", card) } else { card }
}

fn by_hand(frame: &PageFrame, about: &About<'_>, delayed: u64) -> Markup {
    let href = format!("{}&zoom={}&count=1", about.href(frame.db, about.tab), zoom(about));
    html! {
        p class="lead" {
            (parts::grouped(delayed)) " jobs are delayed: counting them takes about "
            (parts::duration(delayed / 8_000)) " of the server's time, in slices between which other clients are \
                                                served. "
            a class="button" href=(href) { "Count" }
        }
    }
}

fn zooms(frame: &PageFrame, about: &About<'_>) -> Markup {
    let zoomed = about.params.has("from");
    let at = |word: &str| format!("{}&zoom={word}", about.href(frame.db, about.tab));
    html! {
        nav class="zooms" aria-label="Timeline" {
            @for (word, ..) in ZOOMS {
                a href=(at(word)) aria-current=[(!zoomed && zoom(about) == word).then_some("true")] { (word) } " "
            }
        }
    }
}

fn bars(
    frame: &PageFrame,
    about: &About<'_>,
    window: Window,
    jobs: &Forecast,
    with: Option<Forecast>,
) -> Markup {
    if let Some(error) = &jobs.error {
        return html! { p class="refused" { (error) } };
    }
    let occurrences = with.map(|with| forecast::occurrences(&with, jobs)).unwrap_or_default();
    let values = window.cut(&jobs.jobs);
    let begin = |at: usize| {
        jobs.as_of_ms
            + window.after_ms / window.span_ms * window.span_ms
            + at as u64 * window.span_ms
    };
    let labels: Vec<String> =
        (0..values.len()).map(|at| parts::clock(begin(at), window.span_ms)).collect();
    let hrefs: Vec<String> =
        (0..values.len()).map(|at| zoomed(frame, about, begin(at), window.span_ms)).collect();
    let second = window.cut(&occurrences);
    let options = chart::BarOptions {
        title: "Jobs by due time",
        unit: "jobs",
        second: (!second.is_empty()).then_some((second, "of schedules")),
        times: Some((begin(0), window.span_ms)),
        small: false,
    };
    let sum: u64 = values.iter().sum();
    html! {
        (chart::bars(values, &labels, &hrefs, &options))
        p class="note" {
            (parts::counted(sum, "job", "jobs")) ", a bar " (parts::duration(window.span_ms)) ", as of "
            (parts::clock_time(jobs.as_of_ms, 1_000))
            ", counted in " (parts::duration(jobs.took_ms)) ". Click a bar to zoom in."
        }
    }
}

/// Closer, or, where it cannot be closer, the jobs themselves.
fn zoomed(frame: &PageFrame, about: &About<'_>, from: u64, length: u64) -> String {
    let after = from.saturating_sub(frame.now_ms);
    match Window::within(after, length) {
        Some(_) => format!("{}&from={from}&length={length}", about.href(frame.db, about.tab)),
        None => format!(
            "/search?db={}&queue={}&state=delayed&from={from}&until={}",
            frame.db,
            escape::query(about.queue),
            from + length
        ),
    }
}
