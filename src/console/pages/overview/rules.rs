//! The rules of troubles: of the server from INFO, and of each queue from a row of DELAY.QUEUES.

use super::trouble::Trouble;
use crate::console::pages::queues::ListedQueue;
use crate::console::view::chrome::ServerState;
use crate::console::view::parts::{self, Tone};

/// Jobs later than this are no accident, µs.
const LATE_US: u64 = 100_000;
/// A ready job that waits for longer than this needs attention, ms.
const OLD_MS: u64 = 60_000;
/// A queue has no consumers if its oldest job has waited for longer than this, ms.
const NO_CONSUMER_MS: u64 = 10_000;

/// Whoever took a job within this time, ms, is at work, though no job is leased just now.
const AT_WORK_MS: u64 = 60_000;

/// What may be wrong with a queue.
pub(super) struct QueueRule {
    /// In a word or two.
    pub name: &'static str,
    pub tone: Tone,
    /// At this instant, unix ms.
    pub is_so: fn(&ListedQueue, u64) -> bool,
    /// The problem and the remedy.
    pub text: fn(&ListedQueue) -> String,
    pub count: fn(&ListedQueue) -> Option<(u64, &'static str)>,
    /// For how long, ms, if that is known.
    pub for_ms: fn(&ListedQueue) -> Option<u64>,
    /// The tab of the queue where it is mended, and a word for it.
    pub tab: &'static str,
    pub word: &'static str,
    /// The order of all queues that shows those it concerns first.
    pub by: &'static str,
}

/// Worst first.
pub(super) const QUEUE_RULES: [QueueRule; 4] = [
    QueueRule {
        name: "dead letters",
        tone: Tone::Bad,
        is_so: |queue, _| queue.dead > 0,
        text: |_| "Jobs died: check the reasons, then redrive or remove them.".to_owned(),
        count: |queue| Some((queue.dead, "dead")),
        for_ms: |_| None,
        tab: "dead",
        word: "Dead letters",
        by: "dead",
    },
    QueueRule {
        name: "no consumer",
        tone: Tone::Warn,
        is_so: |queue, now_ms| {
            let is_alone = !has_consumers(queue, now_ms) && !is_closed(queue);
            queue.ready > 0 && is_alone && age_ms(queue) > NO_CONSUMER_MS
        },
        text: |_| "No consumer takes its jobs: start a worker.".to_owned(),
        count: |queue| Some((queue.ready, "ready")),
        for_ms: |queue| queue.oldest_ready_age_ms,
        tab: "consumers",
        word: "Consumers",
        by: "age",
    },
    QueueRule {
        name: "slow consumers",
        tone: Tone::Warn,
        is_so: |queue, now_ms| {
            age_ms(queue) > OLD_MS && has_consumers(queue, now_ms) && !is_closed(queue)
        },
        text: |_| "Workers do not keep up, or a limit holds its jobs back.".to_owned(),
        count: |queue| Some((queue.ready, "ready")),
        for_ms: |queue| queue.oldest_ready_age_ms,
        tab: "ready",
        word: "Ready jobs",
        by: "age",
    },
    QueueRule {
        name: "paused",
        tone: Tone::Off,
        is_so: |queue, _| !matches!(queue.paused.as_str(), "no" | ""),
        text: |queue| {
            let what = match queue.paused.as_str() {
                "in" => "accepts no jobs",
                "out" => "hands out no jobs",
                _ => "accepts and hands out no jobs",
            };
            format!("It is paused and {what}.")
        },
        count: |_| None,
        for_ms: |_| None,
        tab: "ready",
        word: "Open it",
        by: "ready",
    },
];

fn age_ms(queue: &ListedQueue) -> u64 {
    queue.oldest_ready_age_ms.unwrap_or(0)
}

fn has_consumers(queue: &ListedQueue, now_ms: u64) -> bool {
    let at_work = queue.last_reserve_at.is_some_and(|at| now_ms.saturating_sub(at) < AT_WORK_MS);
    queue.leased > 0 || queue.waiters > 0 || at_work
}

fn is_closed(queue: &ListedQueue) -> bool {
    matches!(queue.paused.as_str(), "out" | "all")
}

/// The troubles of the server, each with the part of it that it is about.
pub(super) fn of_server(state: &ServerState, found: &mut Vec<(&'static str, Trouble)>) {
    of_journal(state, found);
    of_limits(state, found);
    of_schedules(state, found);
}

fn of_journal(state: &ServerState, found: &mut Vec<(&'static str, Trouble)>) {
    let text = match state.text("journal_state") {
        "failed" => "The journal failed: no changes until a restart. The log says why.",
        "full" => "The disk is full: no jobs are accepted. Free space on it.",
        _ => return,
    };
    found.push(("journal", Trouble::at(Tone::Bad, "/server#journal", "Journal", text.to_owned())));
}

fn of_limits(state: &ServerState, found: &mut Vec<(&'static str, Trouble)>) {
    let mut warn = |part, href: &str, word, text: String| {
        found.push((part, Trouble::at(Tone::Warn, href, word, text)));
    };
    let late = state.number_of("lateness_minute_p99_us");
    if late > LATE_US {
        let late = parts::micros(late);
        let text = format!(
            "Jobs are delivered late: p99 of the last minute is {late}. Check the processor and the slow log."
        );
        warn("lateness", "/server#lateness", "Lateness", text);
    }
    let (used, most) = (state.number_of("used_memory"), state.number_of("maxmemory"));
    if most > 0 && used > most / 10 * 9 {
        let share = parts::share(used, most);
        let text = format!("Jobs use {share} of maxmemory: adding is refused when it is full.");
        warn("memory", "/server#memory", "Memory", text);
    }
    let (clients, clients_max) =
        (state.number_of("connected_clients"), state.number_of("maxclients"));
    if clients > clients_max / 10 * 9 {
        let (clients, most) = (parts::grouped(clients), parts::grouped(clients_max));
        let text = format!("{clients} of {most} connections are in use.");
        warn("clients", "/clients", "Clients", text);
    }
    if state.number_of("clock_doubted_us") > 0 || state.number_of("clock_ahead_us") > 1_000_000 {
        let text = "The machine's clock jumped far ahead: check whether it is right.".to_owned();
        warn("clock", "/server#clock", "Clock", text);
    }
}

fn of_schedules(state: &ServerState, found: &mut Vec<(&'static str, Trouble)>) {
    let mut say = |tone, count: u64, word, text: String| {
        let trouble = Trouble::at(tone, "/schedules", "Schedules", text);
        found.push(("schedules", Trouble { count: Some((count, word)), ..trouble }));
    };
    let held = state.number_of("schedules_held");
    if held > 0 {
        let counted = parts::counted(held, "schedule is", "schedules are");
        let text = format!("{counted} held back: their queue is full, or memory is short.");
        say(Tone::Warn, held, "held", text);
    }
    let missed = state.number_of("schedule_missed_total");
    if missed > 0 {
        let (one, many) = ("occurrence of schedules was", "occurrences of schedules were");
        let text = format!("{} missed since the start.", parts::counted(missed, one, many));
        say(Tone::Plain, missed, "missed", text);
    }
}
