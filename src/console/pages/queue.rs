//! One queue: its numbers, its future, its jobs by state, and what can be done to it.

mod actions;
mod columns;
mod consumers;
mod errors;
mod groups;
mod head;
mod jobs;
mod settings;
mod timeline;

use super::Page;
use super::history;
use super::paging::ListPage;
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout::{Tab, live};
use crate::console::view::parts;
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use columns::BodyColumns;
pub use jobs::excerpt;
use maud::{Markup, html};

/// `/queue`.
pub const PAGE: Page = Page { path: "/queue", ask, more, show, whole: false, file: None };

/// Jobs on a page of a tab.
const COUNT: usize = 50;
/// Jobs that are reached page by page: each page asks for all before it.
const LISTED_MAX: usize = 1_000;
/// Schedules on a page.
const SCHEDULES: usize = 100;

const TABS: [&str; 8] =
    ["ready", "delayed", "leased", "dead", "groups", "schedules", "settings", "consumers"];

/// The subject of a request.
struct About<'a> {
    params: &'a Params,
    queue: &'a [u8],
    tab: &'static str,
    columns: BodyColumns<'a>,
}

impl<'a> About<'a> {
    fn of(params: &'a Params) -> About<'a> {
        let asked = params.text("tab").unwrap_or("ready");
        let tab = TABS.into_iter().find(|tab| *tab == asked).unwrap_or("ready");
        let queue = params.bytes("name").unwrap_or_default();
        About { params, queue, tab, columns: BodyColumns::of(params) }
    }

    /// Dead letters by error.
    fn is_grouped(&self) -> bool {
        self.tab == "dead" && self.params.text("by") == Some("error")
    }

    /// The tab is a list of jobs.
    fn lists_jobs(&self) -> bool {
        matches!(self.tab, "ready" | "delayed" | "leased" | "dead") && !self.is_grouped()
    }

    /// The page of the tab's jobs.
    fn page(&self) -> ListPage {
        ListPage::of(self.params, COUNT, LISTED_MAX)
    }

    /// The page with another tab.
    fn href(&self, db: u8, tab: &str) -> String {
        format!("{}&tab={tab}{}", parts::queue_href(db, self.queue), self.columns.query())
    }
}

fn ask(params: &Params) -> Vec<Command> {
    let about = About::of(params);
    let queue = about.queue;
    let peek = |state: &str, count: usize| {
        let mut peek = command!["DELAY.PEEK", queue, state];
        if state == "DEAD" {
            peek.extend(command!["NEWEST"]);
        }
        peek.extend(command!["COUNT", count.to_string()]);
        peek
    };
    let listed = match about.tab {
        "ready" => peek("READY", about.page().count()),
        "delayed" => peek("DELAYED", about.page().count()),
        "leased" => peek("LEASED", about.page().count()),
        "dead" if about.is_grouped() => command!["DELAY.ERRORS", queue],
        "dead" => peek("DEAD", about.page().count()),
        "groups" => groups::ask(&about),
        "schedules" => {
            let after = params.bytes("after").unwrap_or_default();
            let count = (SCHEDULES + 1).to_string();
            command!["DELAY.SCHEDULE", "LIST", queue, "AFTER", after, "COUNT", count]
        }
        "consumers" => command!["DELAY.BUSY", queue, "COUNT", COUNT.to_string()],
        // An empty list, for a user that may ask for it.
        _ => command!["DELAY.STATS", queue],
    };
    let stats = command!["DELAY.STATS", queue];
    vec![stats, command!["DELAY.CONFIG", "GET", queue], listed, history::ask_hour(Some(queue))]
}

fn more(params: &Params, replies: &[Value]) -> Vec<Command> {
    let about = About::of(params);
    let mut asked = timeline::ask(&about, &replies[0]);
    if matches!(about.tab, "leased" | "dead") && !about.is_grouped() {
        let shown = about.page().shown(replies[2].items());
        let ids = shown.iter().filter_map(|job| job.items().first()?.bytes());
        asked.extend(ids.map(|id| command!["DELAY.GET", about.queue, id]));
    }
    if about.tab == "consumers" {
        asked.push(command!["CLIENT", "LIST"]);
    }
    asked
}

fn show(frame: &PageFrame, params: &Params, replies: &[Value]) -> Markup {
    let about = About::of(params);
    let title = escape::shortened(&escape::text(about.queue), 80);
    let (stats, config, listed, rest) = (&replies[0], &replies[1], &replies[2], &replies[4..]);
    if let Some(error) = stats.error() {
        return live(
            frame,
            &title,
            Tab::Queues,
            html! { p class="refused" role="alert" { (error) } },
        );
    }
    let counted = timeline::count(&about, stats).min(rest.len());
    let (forecasts, jobs) = rest.split_at(counted);
    let body = html! {
        (actions::bar(frame, &about, stats))
        (parts::part("head", head::show(frame, &about, stats, config)))
        (tabs(frame, &about, stats))
        div class="tab" { (tab(frame, &about, stats, config, listed, jobs)) }
        @if about.lists_jobs() { (about.columns.form(frame, &about)) }
        (actions::find(frame, &about))
        (timeline::show(frame, &about, stats, forecasts))
        (parts::part("rates", history::card(replies[3].items(), &history::href(frame.db, about.queue))))
        (parts::copy(&parts::commands(frame, &[b"DELAY.STATS", about.queue])))
    };
    live(frame, &title, Tab::Queues, body)
}

fn tabs(frame: &PageFrame, about: &About<'_>, stats: &Value) -> Markup {
    let has_groups = stats.number_of("groups") > 0 || about.tab == "groups";
    let links: Vec<(&str, String, Option<u64>)> = TABS
        .iter()
        .filter(|tab| has_groups || **tab != "groups")
        .map(|tab| {
            let count = match *tab {
                "consumers" => stats.field("waiters").number(),
                "settings" => None,
                tab => stats.field(tab).number(),
            };
            (*tab, about.href(frame.db, tab), count)
        })
        .collect();
    parts::part("tabs", parts::tabs("Jobs by state", about.tab, &links))
}

fn tab(
    frame: &PageFrame,
    about: &About<'_>,
    stats: &Value,
    config: &Value,
    listed: &Value,
    jobs: &[Value],
) -> Markup {
    if let Some(error) = listed.error() {
        return html! { p class="refused" role="alert" { (error) } };
    }
    match about.tab {
        "ready" | "delayed" => jobs::waiting(frame, about, stats, listed),
        "leased" => jobs::leased(frame, about, stats, listed, jobs),
        "dead" => jobs::dead(frame, about, stats, listed, jobs),
        "groups" => groups::show(frame, about, stats, listed),
        "schedules" => jobs::schedules(frame, about, listed),
        "settings" => settings::show(frame, about, config),
        _ => consumers::show(frame, stats, listed, jobs.first()),
    }
}
