//! What must hold of all calls of a run and of what is there at its end.
//!
//! | | |
//! |---|---|
//! | H1 | what was acknowledged is there, or has ended; nothing is there that was never added |
//! | H2 | a token is given once, and a later delivery has a greater one |
//! | H3 | no job is handed out again within a lease, and a lease holds as long as was told |
//! | H4 | nothing is handed out early |
//! | H5 | what was acknowledged, popped or cancelled has ended |

use crate::processes::calls::{Answer, At, Call, POPS, What, queue_of};
use crate::processes::load::Job;
use crate::support::program::Reply;
use crate::support::seen::{Label, Seen, label_of};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How sure something is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Sure {
    #[default]
    No,
    Maybe,
    Yes,
}

#[derive(Clone, Debug)]
struct Delivery {
    job: Job,
    begin: At,
    end: At,
    connection: u64,
    is_bound: bool,
    /// The earliest end of its lease, unix ms.
    until_ms: u64,
    /// It was given back with a delay: not again before.
    not_before_ms: u64,
}

/// All that clients know of a job.
#[derive(Clone, Debug, Default)]
struct Known {
    added: Sure,
    due_ms: u64,
    /// By token.
    deliveries: BTreeMap<u64, Delivery>,
    popped: Vec<At>,
    acked: Option<(Sure, u64)>,
    /// When the answer was read that it is gone; at the end of time while there was none.
    cancelled: Option<(Sure, u64)>,
}

/// When the wall clock of a node was set, from the step to the step back.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    pub set: Vec<(At, At)>,
}

/// A leader's clock may be ahead of the others' by `cluster-max-clock-skew`, and by what it takes to notice.
const SKEW_MS: u64 = 75;
/// A leader whose clock was set back hands over within this; until then its delays are counted by what it has.
const HANDED_OVER_MS: u64 = 10_000;

impl Clocks {
    /// How much earlier than by the machine's clock something may happen that began then.
    fn early_ms(&self, at: At) -> u64 {
        let is_set = |(from, to): &(At, At)| (from.ms..to.ms + HANDED_OVER_MS).contains(&at.ms);
        if self.set.iter().any(is_set) { SKEW_MS } else { 0 }
    }

    /// Whether what was asked for then as *so long from now* may be due by a clock that was behind.
    fn is_doubtful(&self, at: At) -> bool {
        self.early_ms(at) > 0
    }
}

/// What clients know.
#[derive(Default)]
pub struct History {
    clocks: Clocks,
    jobs: HashMap<Label, Known>,
    made: HashMap<String, Label>,
    unknown_pops: usize,
    /// The last answer on each connection.
    heard: HashMap<u64, At>,
    wrong: Vec<String>,
    pub counts: BTreeMap<&'static str, u64>,
}

impl History {
    /// Of all calls of a run, in any order.
    pub fn of(mut calls: Vec<Call>, clocks: Clocks) -> History {
        calls.sort_by_key(|call| call.begin);
        let mut history = History { clocks, ..History::default() };
        for call in calls.iter().filter(|call| matches!(call.answer, Answer::Told(_))) {
            let heard = history.heard.entry(call.connection).or_insert(call.end);
            *heard = call.end.max(*heard);
        }
        // Deliveries first: what is said of one may have been asked before its reply was sorted in.
        let (takes, rest): (Vec<_>, Vec<_>) =
            calls.iter().partition(|call| matches!(call.what, What::Reserve { .. } | What::Pop));
        takes.iter().for_each(|call| history.take(call));
        rest.iter().for_each(|call| history.change(call));
        history
    }

    /// Everything that is wrong, with these jobs at the end.
    pub fn check(mut self, seen: &Seen) -> Vec<String> {
        self.check_tokens();
        let jobs = std::mem::take(&mut self.jobs);
        for (label, known) in &jobs {
            self.check_deliveries(*label, known);
            self.check_end(*label, known, seen.jobs.contains_key(label));
        }
        for label in seen.jobs.keys().filter(|label| !jobs.contains_key(label)) {
            self.wrong.push(format!("H1: job {label} is there, and nobody added it"));
        }
        self.wrong
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn take(&mut self, call: &Call) {
        let reply = match &call.answer {
            Answer::Told(reply) => reply,
            Answer::TurnedAway => return,
            Answer::Unknown => {
                self.unknown_pops += usize::from(call.what == What::Pop);
                return self.count("takes without an answer");
            }
        };
        if let Reply::Error(text) = reply {
            return self.wrong.push(format!("{:?} was answered {text}", call.what));
        }
        let What::Reserve { bound, .. } = call.what else {
            if let Some(parts) = reply.array() {
                let label = label_of(parts[2].bytes());
                self.jobs.entry(label).or_default().popped.push(call.end);
                self.count("jobs popped");
            }
            return;
        };
        for job in Job::all(reply) {
            self.count("jobs delivered");
            let (token, label, until_ms) = (job.token, job.label, job.lease_end_ms);
            if job.queue != queue_of(label) {
                self.wrong.push(format!("job {label} came from {}", job.queue));
            }
            let Call { begin, end, connection, .. } = *call;
            let (is_bound, not_before_ms) = (bound, 0);
            let delivery =
                Delivery { job, begin, end, connection, is_bound, until_ms, not_before_ms };
            let before = self.jobs.entry(label).or_default().deliveries.insert(token, delivery);
            if let Some(before) = before {
                self.wrong.push(format!("H2: token {token} twice, also for {before:?}"));
            }
        }
    }

    fn change(&mut self, call: &Call) {
        let reply = match &call.answer {
            Answer::Told(Reply::Error(text)) if !text.starts_with("EXISTS") => {
                return self.wrong.push(format!("{:?} was answered {text}", call.what));
            }
            Answer::Told(reply) => Some(reply),
            Answer::TurnedAway => return,
            Answer::Unknown => None,
        };
        match &call.what {
            What::Add { label, due_ms, has_id } => self.add(*label, *due_ms, *has_id, reply),
            What::Cancel { label } => self.cancel(*label, call.end, reply),
            What::Ack { label, token, .. } => self.ack(*label, *token, call, reply),
            What::Nack { label, token, in_ms, .. } => {
                let sure = reply.is_some_and(|reply| *reply == Reply::Number(1));
                let is_doubtful = self.clocks.is_doubtful(call.end);
                if let Some(delivery) =
                    self.delivery(*label, *token).filter(|_| reply.is_none() || sure)
                {
                    delivery.until_ms = delivery.until_ms.min(call.begin.ms);
                    if sure && !is_doubtful {
                        delivery.not_before_ms = call.begin.ms + in_ms;
                    }
                }
            }
            What::Extend { label, token, .. } => {
                if let (Some(Reply::Number(until)), Some(delivery)) =
                    (reply, self.delivery(*label, *token))
                {
                    // One that was told later may have been decided earlier, but each gives the same 4 s.
                    delivery.until_ms = delivery.until_ms.max(*until as u64);
                    self.count("leases extended");
                }
            }
            What::Reserve { .. } | What::Pop => unreachable!("taken before"),
        }
    }

    fn delivery(&mut self, label: Label, token: u64) -> Option<&mut Delivery> {
        self.jobs.get_mut(&label)?.deliveries.get_mut(&token)
    }

    fn add(&mut self, label: Label, due_ms: u64, has_id: bool, reply: Option<&Reply>) {
        let known = self.jobs.entry(label).or_default();
        known.due_ms = due_ms;
        let is_told = match reply {
            None => return known.added = known.added.max(Sure::Maybe),
            Some(Reply::Bulk(id)) => {
                let id = String::from_utf8(id.clone()).expect("ids of ours, or made");
                match has_id {
                    true => id == label.to_string() && known.added != Sure::Yes,
                    false => self.made.insert(id, label).is_none(),
                }
            }
            // It is taken: by what was asked before and not answered.
            Some(_) => has_id && known.added == Sure::Maybe,
        };
        self.jobs.entry(label).or_default().added = Sure::Yes;
        self.count("adds answered");
        if !is_told {
            self.wrong.push(format!("H1: adding {label} was answered {reply:?}"));
        }
    }

    fn cancel(&mut self, label: Label, end: At, reply: Option<&Reply>) {
        let known = self.jobs.entry(label).or_default();
        match reply {
            None => known.cancelled = Some((Sure::Maybe, u64::MAX)),
            Some(Reply::Bulk(state)) if state != b"leased" => {
                known.cancelled = Some((Sure::Yes, end.us));
                self.count("jobs cancelled");
            }
            _ => {}
        }
    }

    fn ack(&mut self, label: Label, token: u64, call: &Call, reply: Option<&Reply>) {
        let heard = self.delivery(label, token).map(|delivery| delivery.connection);
        let heard = heard.and_then(|connection| self.heard.get(&connection)).copied();
        let known = self.jobs.entry(label).or_default();
        let is_one = reply.map(|reply| *reply == Reply::Number(1));
        let unsure = known.acked.is_some() || known.cancelled.is_some();
        match is_one {
            None => known.acked = known.acked.max(Some((Sure::Maybe, token))),
            Some(true) => {
                known.acked = known.acked.max(Some((Sure::Yes, token)));
                self.count("jobs acknowledged");
            }
            // A bound lease may have ended with its connection, at any time after that was last heard of.
            Some(false) => {
                let delivery = known.deliveries.get(&token).expect("it was delivered");
                let early_ms = self.clocks.early_ms(call.end);
                let is_alive = !delivery.is_bound || heard.is_some_and(|heard| heard >= call.end);
                if !unsure && is_alive && call.end.ms + early_ms < delivery.until_ms {
                    let text =
                        format!("H3: a lease was told and did not hold: {delivery:?} {call:?}");
                    self.wrong.push(text);
                }
                self.count("acknowledged too late");
            }
        }
    }

    /// A token is greater than all that were read before its delivery was asked for.
    fn check_tokens(&mut self) {
        let mut queues: HashMap<&str, Vec<&Delivery>> = HashMap::new();
        for (label, known) in &self.jobs {
            queues.entry(queue_of(*label)).or_default().extend(known.deliveries.values());
        }
        for (queue, mut all) in queues {
            let tokens: HashSet<u64> = all.iter().map(|delivery| delivery.job.token).collect();
            if tokens.len() != all.len() {
                self.wrong.push(format!("H2: {queue} gave a token to two jobs"));
            }
            let mut read: Vec<(u64, u64)> =
                all.iter().map(|delivery| (delivery.end.us, delivery.job.token)).collect();
            read.sort_unstable();
            all.sort_by_key(|delivery| delivery.begin.us);
            let (mut next, mut greatest) = (0, 0);
            for delivery in all {
                while read.get(next).is_some_and(|(end, _)| *end < delivery.begin.us) {
                    greatest = greatest.max(read[next].1);
                    next += 1;
                }
                if delivery.job.token <= greatest {
                    self.wrong.push(format!("H2: after {greatest} of {queue}: {delivery:?}"));
                }
            }
        }
    }

    fn check_deliveries(&mut self, label: Label, known: &Known) {
        let mut before: Option<&Delivery> = None;
        for delivery in known.deliveries.values() {
            let read_ms = delivery.end.ms + self.clocks.early_ms(delivery.end);
            if read_ms < delivery.job.due_ms || read_ms < known.due_ms {
                self.wrong.push(format!("H4: job {label}, due {}: {delivery:?}", known.due_ms));
            }
            if let Some(before) = before {
                let heard = self.heard.get(&before.connection).map_or(0, |heard| heard.ms);
                let until = match before.is_bound {
                    true => before.until_ms.min(heard),
                    false => before.until_ms,
                };
                if read_ms < until.max(before.not_before_ms) {
                    self.wrong.push(format!("H3: job {label}: {before:?}, and then {delivery:?}"));
                }
                if delivery.job.attempt < before.job.attempt {
                    self.wrong.push(format!("job {label} lost attempts: {before:?} {delivery:?}"));
                }
                self.count("jobs delivered again");
            }
            if let Some((Sure::Yes, token)) = known.acked
                && delivery.job.token > token
            {
                self.wrong.push(format!("H5: job {label} acknowledged by {token}: {delivery:?}"));
            }
            if let Some((Sure::Yes, us)) = known.cancelled
                && delivery.begin.us > us
            {
                self.wrong.push(format!("H5: job {label} was cancelled: {delivery:?}"));
            }
            before = Some(delivery);
        }
    }

    fn check_end(&mut self, label: Label, known: &Known, is_there: bool) {
        let acked = known.acked.map(|(sure, _)| sure);
        let cancelled = known.cancelled.map(|(sure, _)| sure);
        let ended = acked.max(cancelled).max(known.popped.first().map(|_| Sure::Yes));
        let is_known = is_there || ended.is_some() || !known.deliveries.is_empty();
        let wrong = match known.added {
            Sure::No if is_known => "was never added",
            _ if known.popped.len() > 1 => "H5: was popped twice",
            _ if is_there && ended == Some(Sure::Yes) => "H5: has ended and is there",
            Sure::Yes if !is_there && ended.is_none() => {
                if queue_of(label) == POPS && self.unknown_pops > 0 {
                    // In a reply that nobody read.
                    self.unknown_pops -= 1;
                    return;
                }
                "H1: is lost"
            }
            _ => return,
        };
        self.wrong.push(format!("job {label} {wrong}: {known:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::seen::SeenJob;

    fn call(begin: u64, end: u64, what: What, answer: Answer) -> Call {
        let at = |ms| At { us: ms * 1_000, ms };
        Call { begin: at(begin), end: at(end), connection: 0, what, answer }
    }

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    fn add(label: Label, at: u64, due_ms: u64) -> Call {
        let what = What::Add { label, due_ms, has_id: true };
        call(at, at + 1, what, Answer::Told(bulk(&label.to_string())))
    }

    /// Delivered at this time with a lease of 100 ms.
    fn reserve(label: Label, at: u64, token: u64) -> Call {
        let text = label.to_string();
        let due = Reply::Number(10);
        let until = Reply::Number(at as i64 + 100);
        let parts = vec![bulk(queue_of(label)), bulk(&text), bulk(&text), bulk(&token.to_string())];
        let job = Reply::Array([parts, vec![Reply::Number(1), due, until]].concat());
        let what = What::Reserve { count: 1, lease_ms: 100, bound: false };
        call(at - 1, at, what, Answer::Told(Reply::Array(vec![job])))
    }

    fn pop(label: Label, at: u64) -> Call {
        let parts = vec![bulk(POPS), bulk(&label.to_string()), bulk(&label.to_string())];
        call(at - 1, at, What::Pop, Answer::Told(Reply::Array(parts)))
    }

    fn ack(label: Label, at: u64, token: u64, answer: Answer) -> Call {
        call(at, at + 1, What::Ack { label, id: label.to_string(), token }, answer)
    }

    fn one() -> Answer {
        Answer::Told(Reply::Number(1))
    }

    fn seen(labels: &[Label]) -> Seen {
        let job = |label: &Label| {
            let (queue, id) = (queue_of(*label), label.to_string());
            (*label, SeenJob { queue, id, state: "ready".to_owned(), due_ms: 10 })
        };
        Seen { jobs: labels.iter().map(job).collect(), ..Seen::default() }
    }

    fn wrong(calls: &[Call], there: &[Label]) -> Vec<String> {
        History::of(calls.to_vec(), Clocks::default()).check(&seen(there))
    }

    /// Each history breaks one claim, and it alone is told; mended, none is.
    #[test]
    fn a_history_that_breaks_a_claim_is_found() {
        let unknown = || Answer::Unknown;
        let cancel =
            |label, at| call(at, at + 1, What::Cancel { label }, Answer::Told(bulk("ready")));
        let nack = |at, in_ms| {
            let what = What::Nack { label: 3, id: "3".to_owned(), token: 7, in_ms };
            call(at, at + 1, what, one())
        };
        let asked =
            |call: &Call, at: u64| Call { begin: At { us: at * 1_000, ms: at }, ..call.clone() };
        let zero = Answer::Told(Reply::Number(0));
        let a = || add(3, 1, 10);
        let told: [(&str, Vec<Call>, &[Label]); 14] = [
            ("H1: is lost", vec![a()], &[]),
            ("H1: is lost", vec![add(2, 1, 10)], &[]),
            ("nobody added it", vec![], &[3]),
            ("was never added", vec![reserve(3, 20, 7)], &[3]),
            ("H1: adding", vec![a(), a()], &[3]),
            ("H2: token", vec![a(), reserve(3, 20, 7), reserve(3, 200, 7)], &[3]),
            (
                "H2: work0 gave",
                vec![a(), reserve(3, 20, 7), add(6, 1, 10), reserve(6, 20, 7)],
                &[3, 6],
            ),
            (
                "H2: after 8",
                vec![a(), reserve(3, 20, 8), add(6, 1, 10), reserve(6, 50, 7)],
                &[3, 6],
            ),
            ("H3: job 3", vec![a(), reserve(3, 20, 7), reserve(3, 119, 8)], &[3]),
            ("H3: job 3", vec![a(), reserve(3, 20, 7), nack(30, 50), reserve(3, 79, 8)], &[3]),
            ("H3: a lease", vec![a(), reserve(3, 20, 7), ack(3, 110, 7, zero.clone())], &[3]),
            ("H4", vec![add(3, 1, 30), reserve(3, 29, 7)], &[3]),
            (
                "H5: job 3 ack",
                vec![a(), reserve(3, 20, 7), ack(3, 30, 7, one()), reserve(3, 130, 8)],
                &[],
            ),
            ("H5: has ended", vec![a(), reserve(3, 20, 7), ack(3, 30, 7, one())], &[3]),
        ];
        for (text, calls, there) in told {
            let found = wrong(&calls, there);
            assert!(found.len() == 1 && found[0].contains(text), "{text}: {found:#?}");
        }
        let pops = wrong(&[add(2, 1, 10), pop(2, 20), pop(2, 30)], &[]);
        assert!(pops.len() == 1 && pops[0].contains("popped twice"), "{pops:?}");
        let gone = wrong(&[a(), cancel(3, 20), reserve(3, 30, 7)], &[]);
        assert!(gone.len() == 1 && gone[0].contains("was cancelled"), "{gone:?}");

        let lost_pop = call(5, 30, What::Pop, unknown());
        let again = |answer| Call { answer, ..a() };
        let taken = Answer::Told(Reply::Nil);
        let fine: [(Vec<Call>, &[Label]); 9] = [
            (vec![add(2, 1, 10), lost_pop], &[]),
            (vec![again(unknown())], &[]),
            (vec![again(unknown()), asked(&again(taken), 5)], &[3]),
            (vec![a(), reserve(3, 20, 7), ack(3, 30, 7, unknown())], &[]),
            (vec![a(), reserve(3, 20, 7), reserve(3, 120, 8)], &[3]),
            (vec![a(), reserve(3, 20, 7), nack(30, 50), reserve(3, 80, 8)], &[3]),
            (vec![a(), reserve(3, 20, 7), ack(3, 120, 7, zero)], &[3]),
            // Asked for before the other one was read.
            (vec![a(), reserve(3, 20, 8), add(6, 1, 10), asked(&reserve(6, 50, 7), 20)], &[3, 6]),
            (vec![a(), cancel(3, 20), asked(&reserve(3, 30, 7), 21)], &[]),
        ];
        for (calls, there) in fine {
            let found = wrong(&calls, there);
            assert!(found.is_empty(), "{calls:#?} {found:#?}");
        }
    }
}
