//! Troubles and their remedies: the rules of the alerts in `docs/metrics.md`, as far as a single sample shows them.

use super::cluster::of_cluster;
use crate::console::pages::queues::ListedQueue;
use crate::console::view::chrome::{PageFrame, ServerState};
use crate::console::view::parts::{self, Tone};
use crate::console::words::escape;
use maud::{Markup, html};

/// Jobs later than this are no accident, µs.
const LATE_US: u64 = 100_000;
/// A ready job that waits for longer than this needs attention, ms.
const OLD_MS: u64 = 60_000;
/// A queue has no consumers if its oldest job has waited for longer than this, ms.
const NO_CONSUMER_MS: u64 = 10_000;
/// Queues named for each rule; of more the number is said.
const NAMED_MAX: usize = 5;

/// Something that needs a look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// How bad it is.
    pub tone: Tone,
    /// The problem and the remedy, in words.
    pub text: String,
    pub href: String,
}

/// All troubles, worst first. Queues are those with the most ready, the oldest, and the most dead jobs.
pub fn troubles(
    frame: &PageFrame,
    ready: &[ListedQueue],
    oldest: &[ListedQueue],
    dead: &[ListedQueue],
) -> Vec<Trouble> {
    let mut found = Vec::new();
    if let Some(state) = &frame.state {
        of_server(state, &mut found);
        of_cluster(state, &mut found);
    }
    of_queues(frame, ready, oldest, dead, &mut found);
    found.sort_by_key(|trouble| trouble.tone != Tone::Bad);
    found
}

/// Their list; if it is empty, or not visible to this user, it says so.
pub fn list(troubles: &[Trouble], is_unknown: bool) -> Markup {
    parts::card(
        "Needs attention",
        html! {},
        html! {
            @if is_unknown { p class="lead" { "You may see neither INFO nor the queues." } }
            @else if troubles.is_empty() { p class="lead" { "Nothing." } }
            @else { ul class="alerts" { @for trouble in troubles { (parts::alert(trouble.tone, &trouble.text, &trouble.href)) } } }
        },
    )
}

fn of_server(state: &ServerState, found: &mut Vec<Trouble>) {
    let number = |field| state.number(field).unwrap_or(0);
    let mut say =
        |tone, href: &str, text: String| found.push(Trouble { tone, text, href: href.to_owned() });
    match state.text("journal_state") {
        "failed" => say(
            Tone::Bad,
            "/server#journal",
            "The journal failed: no changes until a restart. The log says why.".to_owned(),
        ),
        "full" => say(
            Tone::Bad,
            "/server#journal",
            "The disk is full: no jobs are accepted. Free space on it.".to_owned(),
        ),
        _ => {}
    }
    let late = number("lateness_minute_p99_us");
    if late > LATE_US {
        say(
            Tone::Warn,
            "/server#lateness",
            format!(
                "Jobs are delivered late: p99 of the last minute is {}. Check the processor and the slow log.",
                parts::micros(late)
            ),
        );
    }
    let (used, most) = (number("used_memory"), number("maxmemory"));
    if most > 0 && used > most / 10 * 9 {
        say(
            Tone::Warn,
            "/server#memory",
            format!(
                "Jobs use {} of maxmemory: adding is refused when it is full.",
                parts::share(used, most)
            ),
        );
    }
    let (clients, clients_max) = (number("connected_clients"), number("maxclients"));
    if clients > clients_max / 10 * 9 {
        say(
            Tone::Warn,
            "/clients",
            format!(
                "{} of {} connections are in use.",
                parts::grouped(clients),
                parts::grouped(clients_max)
            ),
        );
    }
    if number("clock_doubted_us") > 0 || number("clock_ahead_us") > 1_000_000 {
        say(
            Tone::Warn,
            "/server#clock",
            "The machine's clock jumped far ahead: check whether it is right.".to_owned(),
        );
    }
    let held = number("schedules_held");
    if held > 0 {
        say(
            Tone::Warn,
            "/schedules",
            format!(
                "{} held back: their queue is full, or memory is short.",
                parts::counted(held, "schedule is", "schedules are")
            ),
        );
    }
    let missed = number("schedule_missed_total");
    if missed > 0 {
        say(
            Tone::Plain,
            "/schedules",
            format!(
                "{} missed since the start.",
                parts::counted(
                    missed,
                    "occurrence of schedules was",
                    "occurrences of schedules were"
                )
            ),
        );
    }
}

fn of_queues(
    frame: &PageFrame,
    ready: &[ListedQueue],
    oldest: &[ListedQueue],
    dead: &[ListedQueue],
    found: &mut Vec<Trouble>,
) {
    let age = |queue: &ListedQueue| queue.oldest_ready_age_ms.unwrap_or(0);
    let closed = |queue: &ListedQueue| matches!(queue.paused.as_str(), "out" | "all");
    let alone = |queue: &&ListedQueue| {
        queue.ready > 0
            && queue.leased == 0
            && queue.waiters == 0
            && !closed(queue)
            && age(queue) > NO_CONSUMER_MS
    };
    let lists = [ready, oldest];
    each(frame, &lists, alone, found, |queue| {
        let text = format!(
            "0 consumers, {} ready, the oldest for {}: start a worker.",
            parts::grouped(queue.ready),
            parts::duration(age(queue))
        );
        (Tone::Warn, "ready", text)
    });
    let slow = |queue: &&ListedQueue| {
        age(queue) > OLD_MS && (queue.leased > 0 || queue.waiters > 0) && !closed(queue)
    };
    each(frame, &lists, slow, found, |queue| {
        let text = format!(
            "the oldest ready job has waited for {}: workers do not keep up, or a limit holds it back.",
            parts::duration(age(queue))
        );
        (Tone::Warn, "ready", text)
    });
    each(
        frame,
        &[dead],
        |queue: &&ListedQueue| queue.dead > 0,
        found,
        |queue| {
            (
                Tone::Bad,
                "dead",
                format!(
                    "{} dead: check the reasons, then redrive or remove them.",
                    parts::grouped(queue.dead)
                ),
            )
        },
    );
    let all = [ready, oldest, dead];
    each(
        frame,
        &all,
        |queue: &&ListedQueue| queue.paused != "no",
        found,
        |queue| {
            let what = match queue.paused.as_str() {
                "in" => "accepts no jobs",
                "out" => "hands out no jobs",
                _ => "accepts and hands out no jobs",
            };
            (Tone::Off, "ready", format!("paused, it {what}."))
        },
    );
}

/// One trouble for each queue of the lists that `is_meant`, up to five of them.
fn each(
    frame: &PageFrame,
    lists: &[&[ListedQueue]],
    is_meant: impl Fn(&&ListedQueue) -> bool,
    found: &mut Vec<Trouble>,
    say: impl Fn(&ListedQueue) -> (Tone, &'static str, String),
) {
    let mut meant: Vec<&ListedQueue> = Vec::new();
    for queue in lists.iter().flat_map(|list| list.iter()).filter(|queue| is_meant(queue)) {
        if !meant.iter().any(|other| other.name == queue.name) {
            meant.push(queue);
        }
    }
    for queue in meant.into_iter().take(NAMED_MAX) {
        let (tone, tab, text) = say(queue);
        let name = escape::shortened(&escape::text(&queue.name), 60);
        let href = format!("{}&tab={tab}", parts::queue_href(frame.db, &queue.name));
        found.push(Trouble { tone, text: format!("{name}: {text}"), href });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> ListedQueue {
        ListedQueue { name: name.into(), paused: "no".into(), ..ListedQueue::default() }
    }

    fn texts(queues: &[ListedQueue], info: &[(&str, &str)]) -> Vec<String> {
        let info =
            info.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect();
        let frame = PageFrame { state: Some(ServerState { info }), ..PageFrame::default() };
        troubles(&frame, queues, queues, queues).into_iter().map(|trouble| trouble.text).collect()
    }

    #[test]
    fn each_rule_says_what_to_do() {
        assert!(texts(&[queue("calm")], &[]).is_empty());
        let alone =
            ListedQueue { ready: 3_400, oldest_ready_age_ms: Some(20_000), ..queue("imports") };
        assert_eq!(
            texts(std::slice::from_ref(&alone), &[]),
            ["imports: 0 consumers, 3,400 ready, the oldest for 20 s: start a worker."]
        );
        assert!(texts(&[ListedQueue { waiters: 1, ..alone.clone() }], &[]).is_empty());
        let closed = texts(&[ListedQueue { paused: "out".into(), ..alone }], &[]);
        assert_eq!(closed, ["imports: paused, it hands out no jobs."]);
        let dead = ListedQueue { dead: 12, ..queue("payments") };
        assert_eq!(
            texts(&[dead], &[]),
            ["payments: 12 dead: check the reasons, then redrive or remove them."]
        );
        assert!(texts(&[], &[("journal_state", "failed")])[0].contains("journal failed"));
        assert!(texts(&[], &[("used_memory", "95"), ("maxmemory", "100")])[0].contains("95 %"));
        assert!(texts(&[], &[("lateness_minute_p99_us", "200000")])[0].contains("late"));
    }

    #[test]
    fn what_is_worst_comes_first_and_hundreds_are_five() {
        let dead: Vec<ListedQueue> =
            (0..20).map(|n| ListedQueue { dead: 1, ..queue(&format!("q{n}")) }).collect();
        let mut all = dead;
        all.push(ListedQueue { ready: 1, oldest_ready_age_ms: Some(70_000), ..queue("slow") });
        let texts = texts(&all, &[]);
        assert_eq!(texts.len(), 6);
        assert!(texts[0].contains("dead") && texts[5].contains("slow"), "{texts:?}");
    }
}
