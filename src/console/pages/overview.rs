//! The first page: what waits, what comes, and what needs a look.

mod cluster;
mod rules;
mod table;
mod trouble;

use super::Page;
use super::forecast::{self, Window};
use super::history;
use super::queues::{self, ListedQueue};
use crate::console::view::chart;
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts::{self, Tone};
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use maud::{Markup, html};
pub use trouble::{TroubleRow, Troubles, troubles};

/// `/`.
pub const PAGE: Page = Page { path: "/", ask: ask_all, more, show, whole: false, file: None };

/// Queues in the table.
const COUNT: usize = 20;
/// Queues that are asked for what needs attention: of more the number is not known.
const LISTED_MAX: usize = 100;
/// Delayed jobs that are counted for the bars of the next hour before the page is shown: some 50 ms.
const FORECAST_JOBS_FIRST: u64 = 200_000;
/// ... and for its updates; a queue with more has a timeline of its own. Two million take 0.5 s, and are counted again after
/// twenty times as long.
const FORECAST_JOBS_MAX: u64 = 5_000_000;
/// Queues that are counted for them.
const FORECAST_QUEUES_MAX: usize = 20;

/// The queues that matter: most ready, oldest, most dead, most delayed.
pub fn ask(_: &Params) -> Vec<Command> {
    let by = |order: &str, count: usize| {
        command!["DELAY.QUEUES", "BY", order, "COUNT", count.to_string()]
    };
    vec![by("READY", COUNT), by("AGE", LISTED_MAX), by("DEAD", LISTED_MAX), by("DELAYED", COUNT)]
}

fn ask_all(params: &Params) -> Vec<Command> {
    let mut asked = ask(params);
    asked.push(history::ask_hour(None));
    asked
}

fn more(params: &Params, replies: &[Value]) -> Vec<Command> {
    let hour = Window::of("hour");
    let counted = counted(params, &queues::read(&replies[3]));
    let of = |queue: &ListedQueue| {
        let with = (queue.schedules > 0).then(|| hour.ask(&queue.name, true));
        [Some(hour.ask(&queue.name, false)), with].into_iter().flatten()
    };
    counted.iter().flat_map(of).collect()
}

/// The queues whose jobs are counted: those with most jobs, as long as counting is cheap.
fn counted(params: &Params, delayed: &[ListedQueue]) -> Vec<ListedQueue> {
    let is_patient = params.parts || params.has("count");
    let mut left = if is_patient { FORECAST_JOBS_MAX } else { FORECAST_JOBS_FIRST };
    let mut counted = Vec::new();
    for queue in delayed.iter().filter(|queue| queue.delayed > 0 || queue.schedules > 0) {
        if queue.delayed <= left && counted.len() < FORECAST_QUEUES_MAX {
            left -= queue.delayed;
            counted.push(queue.clone());
        }
    }
    counted
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let [ready, oldest, dead, delayed] = [0, 1, 2, 3].map(|at| queues::read(&replies[at]));
    let (found, rows) = (troubles(frame, &ready, &oldest, &dead), replies[4].items());
    let refused = replies[0].error();
    let is_unknown = frame.state.is_none() && refused.is_some();
    let body = html! {
        (parts::part("figures", figures(frame, rows)))
        (parts::part("trouble", table::card(frame, &found, is_unknown)))
        @if let Some(error) = refused { p class="refused" role="alert" { (error) } }
        @else if ready.is_empty() {
            (queues::empty(frame))
        }
        @else {
            (parts::part("coming", coming(frame, params, &delayed, &replies[5..])))
            (parts::card("Queues", html! { a href="/queues" { "all" } }, parts::part("queues-part",
                queues::table(frame, "queues", "Queues with the most ready jobs", &ready, "", None))))
        }
        (parts::part("rates", history::card(rows, "/history")))
    };
    live(frame, "Overview", Tab::Overview, body)
}

/// The numbers of the server, each with its line of the last hour; the header does not repeat them here.
fn figures(frame: &PageFrame, rows: &[Value]) -> Markup {
    let Some(state) = &frame.state else {
        return html! { p class="lead" { "The numbers of the whole server need the right to run INFO." } };
    };
    let dead_tone = if state.number_of("jobs_dead") > 0 { Tone::Bad } else { Tone::Plain };
    let count = |label: &str, note: &str, tone: Tone| {
        let (href, jobs) =
            (format!("/queues?by={label}"), state.number_of(&format!("jobs_{label}")));
        let line =
            html! { @if rows.len() > 1 { (chart::spark(&history::values(rows, label), label)) } };
        parts::figure_with(label, parts::grouped(jobs), note, tone, &href, line)
    };
    let late = parts::measured(state.number_of("lateness_minute_p99_us"));
    let max = match state.number_of("lateness_minute_max_us") {
        0 => String::new(),
        max => format!("max {}", parts::micros(max)),
    };
    html! {
        div class="figures" {
            (parts::figure("late, p99 of the last minute", late, &max, Tone::Plain, "/server#lateness"))
            (count("ready", &oldest(state.number_of("oldest_ready_age_ms")), Tone::Plain))
            (count("delayed", "", Tone::Plain))
            (count("leased", "", Tone::Plain))
            (count("dead", "", dead_tone))
            (parts::figure("schedules", parts::grouped(state.number_of("schedules")), &missed(state.number_of("schedule_missed_total")), Tone::Plain, "/schedules"))
        }
    }
}

fn oldest(age_ms: u64) -> String {
    if age_ms == 0 { String::new() } else { format!("the oldest for {}", parts::duration(age_ms)) }
}

fn missed(count: u64) -> String {
    if count == 0 { String::new() } else { format!("{} missed", parts::grouped(count)) }
}

/// Jobs that fall due within the hour, in the counted queues.
fn coming(
    frame: &PageFrame,
    params: &Params,
    delayed: &[ListedQueue],
    replies: &[Value],
) -> Markup {
    let counted = counted(params, delayed);
    let hour = Window::of("hour");
    let (mut jobs, mut occurrences) = (vec![0; hour.count as usize], vec![0; hour.count as usize]);
    let mut replies = replies.iter().map(forecast::read);
    for queue in &counted {
        let alone = replies.next().unwrap_or_default();
        forecast::add(&mut jobs, &alone.jobs);
        if queue.schedules > 0 {
            let with = replies.next().unwrap_or_default();
            forecast::add(&mut occurrences, &forecast::occurrences(&with, &alone));
        }
    }
    let all = frame.state.as_ref().and_then(|state| state.number("jobs_delayed")).unwrap_or(0);
    let looked_at: u64 = counted.iter().map(|queue| queue.delayed).sum();
    let note = html! {
        "a bar a minute"
        @if looked_at < all { ", of " (parts::grouped(looked_at)) " of " (parts::grouped(all)) " delayed jobs; \
            larger queues have their own timeline" }
    };
    if counted.is_empty() && all == 0 {
        return parts::card(
            "Due in the next hour",
            html! {},
            html! { p class="lead" { "No job is delayed." } },
        );
    }
    if looked_at == 0 && occurrences.iter().all(|count| *count == 0) {
        let delayed = parts::counted(all, "delayed job", "delayed jobs");
        let body = html! {
            p class="lead" {
                (delayed) " have not been counted yet. " a href="/?count=1" { "Count them" }
            }
        };
        return parts::card("Due in the next hour", html! {}, body);
    }
    let labels: Vec<String> = (0..hour.count)
        .map(|at| if at == 0 { "now".to_owned() } else { format!("in {at} min") })
        .collect();
    let options = chart::BarOptions {
        title: "Due in the next hour",
        unit: "jobs",
        second: Some((&occurrences, "of schedules")),
        times: None,
        small: true,
    };
    parts::card("Due in the next hour", note, chart::bars(&jobs, &labels, &[], &options))
}
