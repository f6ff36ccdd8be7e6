//! The auditor: what the server owes, from what clients were told.
//!
//! Each round is settled against what the restarted server shows. Whatever was in the air may have
//! gone either way and is then known, for good: a job that was not there then must never appear.

#[path = "checks.rs"]
mod checks;

use crate::pressure::kill::events::{Add, Answer, Event, Handed, Label, What};
use crate::support::program::Reply;
use crate::support::seen::Seen;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

/// How sure something is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Sure {
    No,
    Maybe,
    Yes,
}

/// A delivery with a lease.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    attempt: u64,
    /// The earliest end of its lease; 0 once it may have ended in another way.
    lease_end_ms: u64,
    /// It was given back, so that its attempt may not count.
    uncounted: bool,
    /// It was given back with a delay: not again before.
    not_before_ms: u64,
    read_ms: u64,
    /// It may have been lost with the server.
    unsure: bool,
}

#[derive(Clone, Debug)]
struct Job {
    queue: &'static str,
    id: Option<String>,
    added: Sure,
    ended: Sure,
    /// When the reply that told of its end was read.
    ended_at: Option<Instant>,
    /// Its possible due times; empty once it has been given back.
    dues: Vec<(u64, u64)>,
    /// By token.
    deliveries: BTreeMap<u64, Delivery>,
    /// The token whose ACK was answered 1.
    acked: Option<u64>,
    /// It was handed over at most once.
    popped: bool,
    /// It was rescheduled in this round, or may have been.
    moved: bool,
}

/// How the server ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// What was read after this may be lost.
    pub safe_until: Instant,
    /// In good order: leases that are bound ended uncounted.
    pub orderly: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    jobs: HashMap<Label, Job>,
    /// Ids made by the server, and the jobs that got them.
    made: HashMap<String, Label>,
    /// The greatest token of each queue.
    tokens: HashMap<&'static str, u64>,
    totals: HashMap<&'static str, HashMap<String, u64>>,
    /// What happened, so that a test that tests nothing is noticed.
    pub counts: BTreeMap<&'static str, u64>,
}

/// One round being settled.
struct Round<'r> {
    ledger: &'r mut Ledger,
    ended: Ended,
    /// Which job has the id.
    current: HashMap<(&'static str, String), Vec<Label>>,
    /// Jobs that replies in the air may have taken.
    lost_max: u64,
    /// Added by each client, in order.
    rows: Vec<Vec<Label>>,
    /// In a transaction in the air: both or none; the first gone and the second there, or neither.
    both: Vec<(Label, Label)>,
    moved: Vec<(Label, Label)>,
    /// Least and most of what STATS tells of each queue: added, acked.
    bounds: HashMap<(&'static str, &'static str), (u64, u64)>,
    tokens: HashMap<&'static str, u64>,
}

impl Ledger {
    /// Settles a round: what each client asked, in its order, and what there is afterwards.
    pub fn settle(&mut self, ended: Ended, clients: &[Vec<Event>], seen: &Seen) {
        let mut current: HashMap<_, Vec<Label>> = HashMap::new();
        for (label, job) in &self.jobs {
            let id = job.id.clone().expect("what was seen has an id");
            current.entry((job.queue, id)).or_default().push(*label);
        }
        let mut round = Round {
            ended,
            current,
            lost_max: 0,
            rows: Vec::new(),
            both: Vec::new(),
            moved: Vec::new(),
            bounds: HashMap::new(),
            tokens: self.tokens.clone(),
            ledger: self,
        };
        for events in clients {
            round.rows.push(Vec::new());
            events.iter().for_each(|event| round.change(&event.what, event, event.answer.as_ref()));
        }
        clients.iter().flatten().for_each(|event| round.take(event));
        clients.iter().flatten().for_each(|event| round.end_lease(event));
        round.check_deliveries();
        round.check_atomic(seen);
        round.check_rows(seen);
        round.check_totals(seen);
        round.compare(seen);
        self.tokens = round.tokens;
        self.totals = seen.stats.clone();
    }

    /// The leases there may be: which job, and the newest token read.
    pub fn token_of(&self, label: Label) -> Option<u64> {
        self.jobs.get(&label)?.deliveries.last_key_value().map(|(token, _)| *token)
    }

    /// The jobs that there are.
    pub fn labels(&self) -> HashSet<Label> {
        self.jobs.keys().copied().collect()
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn job(&mut self, label: Label, told: &str) -> &mut Job {
        let found = self.jobs.get_mut(&label);
        found.unwrap_or_else(|| panic!("{told}: job {label} was gone, or never added"))
    }
}

impl Round<'_> {
    fn sure(&self, answer: Option<&Answer>) -> Sure {
        match answer {
            Some(answer) if answer.read <= self.ended.safe_until => Sure::Yes,
            _ => Sure::Maybe,
        }
    }

    fn bound(&mut self, queue: &'static str, what: &'static str, sure: Sure) {
        let (least, most) = self.bounds.entry((queue, what)).or_default();
        *least += u64::from(sure == Sure::Yes);
        *most += 1;
    }

    /// Adds and changes by producers. Each id belongs to one client, so that its order is that of
    /// the server.
    fn change(&mut self, what: &What, event: &Event, answer: Option<&Answer>) {
        if let Some(Answer { reply: Reply::Error(text), .. }) = answer {
            let expected = text.starts_with("LOADING") || matches!(what, What::Save);
            assert!(expected, "{what:?} was answered {text}");
            return;
        }
        match what {
            What::Add(add) => self.add(add, event, answer),
            What::Cancel { queue, id } | What::Delete { queue, id } => {
                let gone = match answer.map(|answer| &answer.reply) {
                    Some(Reply::Bulk(state)) => state != b"leased",
                    Some(Reply::Number(count)) => *count == 1,
                    Some(_) => false,
                    None => true,
                };
                if gone {
                    self.end_current(queue, id, answer);
                }
            }
            What::Reschedule { queue, id, when } => {
                let done = answer.is_none_or(|answer| answer.reply == Reply::Number(1));
                let read_ms = answer.map_or(u64::MAX, |answer| answer.read_ms);
                let labels = self.current.get(&(*queue, id.clone())).cloned().unwrap_or_default();
                for label in labels.into_iter().filter(|_| done) {
                    let job = self.ledger.job(label, "reschedule");
                    // One that was given back with a delay may be moved, too.
                    job.moved = true;
                    job.deliveries.values_mut().for_each(|delivery| delivery.not_before_ms = 0);
                    if !job.dues.is_empty() {
                        job.dues.push(when.bounds(event.sent_ms, read_ms));
                    }
                }
            }
            What::Exec(parts) => self.exec(parts, event, answer),
            _ => {}
        }
    }

    fn exec(&mut self, parts: &[What], event: &Event, answer: Option<&Answer>) {
        let replies = answer.map(|answer| answer.reply.array().expect("nothing is watched"));
        if self.sure(answer) != Sure::Yes {
            match (&parts[0], &parts[1]) {
                (What::Add(first), What::Add(second)) => {
                    self.both.push((first.label, second.label));
                }
                (What::Cancel { queue, id }, What::Add(second)) => {
                    let old = self.current.get(&(*queue, id.clone()));
                    if let Some([old]) = old.map(Vec::as_slice) {
                        self.note_moved(*old, second.label);
                    }
                }
                other => panic!("no such transaction: {other:?}"),
            }
        }
        for (i, part) in parts.iter().enumerate() {
            let reply = replies.map(|replies| replies[i].clone());
            let part_answer = answer.zip(reply).map(|(answer, reply)| {
                let Answer { read, read_ms, .. } = *answer;
                Answer { reply, read, read_ms }
            });
            self.change(part, event, part_answer.as_ref());
        }
        self.ledger.count("transactions");
    }

    fn add(&mut self, add: &Add, event: &Event, answer: Option<&Answer>) {
        let Add { label, queue, ref id, when, mode, .. } = *add;
        let (sure, made) = (self.sure(answer), id.is_none());
        let read_ms = answer.map_or(u64::MAX, |answer| answer.read_ms);
        let id = match answer.map(|answer| &answer.reply) {
            Some(Reply::Bulk(bytes)) => Some(String::from_utf8(bytes.clone()).unwrap()),
            // NX, and it is taken.
            Some(_) => return,
            None => id.clone(),
        };
        if let Some(id) = &id {
            if mode == "REPLACE" {
                let old = self.current.get(&(queue, id.clone())).map(Vec::as_slice);
                if let (Some([old]), Sure::Maybe) = (old, sure) {
                    self.note_moved(*old, label);
                }
                self.end_current(queue, id, answer);
            }
            if made {
                self.note_made(id, label);
            }
            let current = self.current.entry((queue, id.clone())).or_default();
            if answer.is_some() {
                current.clear();
            }
            current.push(label);
        }
        self.bound(queue, "added", sure);
        // NX in the air may have found its id taken.
        if answer.is_some() || mode != "NX" {
            self.rows.last_mut().expect("one a client").push(label);
        }
        let job = Job {
            queue,
            id,
            added: sure,
            ended: Sure::No,
            ended_at: None,
            dues: vec![when.bounds(event.sent_ms, read_ms)],
            deliveries: BTreeMap::new(),
            acked: None,
            popped: false,
            moved: false,
        };
        assert!(self.ledger.jobs.insert(label, job).is_none(), "labels are used once");
        self.ledger.count(if answer.is_some() { "adds answered" } else { "adds in the air" });
    }

    fn note_moved(&mut self, old: Label, new: Label) {
        let job = self.ledger.job(old, "move");
        if (job.added, job.ended) == (Sure::Yes, Sure::No) {
            self.moved.push((old, new));
        }
    }

    fn note_made(&mut self, id: &str, label: Label) {
        let before = self.ledger.made.insert(id.to_owned(), label);
        assert!(before.is_none_or(|before| before == label), "the server made id {id} twice");
    }

    /// What has this id is gone, surely or maybe.
    fn end_current(&mut self, queue: &'static str, id: &str, answer: Option<&Answer>) {
        let sure = self.sure(answer);
        let labels = self.current.get(&(queue, id.to_owned())).cloned().unwrap_or_default();
        // Of several, after one in the air, it is not known which was there.
        let sure = if labels.len() > 1 { sure.min(Sure::Maybe) } else { sure };
        for label in labels {
            self.end(label, sure, answer);
        }
        if answer.is_some() {
            self.current.remove(&(queue, id.to_owned()));
            self.ledger.count("removals answered");
        }
    }

    fn end(&mut self, label: Label, sure: Sure, answer: Option<&Answer>) {
        let job = self.ledger.job(label, "end");
        if sure > job.ended {
            job.ended = sure;
        }
        if let Some(answer) = answer
            && job.ended_at.is_none_or(|at| answer.read < at)
        {
            job.ended_at = Some(answer.read);
        }
    }

    /// Deliveries.
    fn take(&mut self, event: &Event) {
        let (at_most_once, is_bound) = match event.what {
            What::Reserve { bound, .. } => (false, bound),
            What::Pop { count, .. } => {
                if self.sure(event.answer.as_ref()) != Sure::Yes {
                    self.lost_max += count;
                }
                (true, false)
            }
            _ => return,
        };
        let Some(answer) = &event.answer else { return };
        for handed in Handed::all(&event.what, &answer.reply) {
            let Handed { label, queue, ref id, token, attempt, due_ms, lease_end_ms } = handed;
            let sure = self.sure(Some(answer));
            let job = self.ledger.job(label, "delivery");
            assert_eq!(job.queue, queue);
            let is_made = job.id.is_none();
            assert_eq!(job.id.get_or_insert(id.clone()), id, "job {label}");
            let earliest = job.dues.iter().map(|(from, _)| *from).min().unwrap_or(0);
            let due_ms = due_ms.unwrap_or(earliest);
            assert!(answer.read_ms >= due_ms.max(earliest), "early: {handed:?} {job:?}");
            let fits = |(from, to): &(u64, u64)| (*from..=*to).contains(&due_ms);
            // Backoff after leases that ran out moves it.
            let is_first = attempt == 1 && !job.dues.is_empty();
            assert!(!is_first || job.dues.iter().any(fits), "due: {handed:?} {job:?}");
            job.added = job.added.max(sure);
            if let Some(at) = job.ended_at {
                assert!(event.sent <= at, "delivered after its end: {handed:?} {job:?}");
            }
            if !at_most_once {
                let lease_end_ms = if is_bound { 0 } else { lease_end_ms };
                let read_ms = answer.read_ms;
                let uncounted = is_bound && self.ended.orderly;
                let unsure = sure != Sure::Yes;
                let not_before_ms = 0;
                let delivery =
                    Delivery { attempt, lease_end_ms, uncounted, not_before_ms, read_ms, unsure };
                let twice = job.deliveries.insert(token, delivery);
                assert!(twice.is_none(), "token {token} of {queue} twice");
                let before = self.ledger.tokens.get(queue).copied().unwrap_or(0);
                assert!(token > before, "token {token} of {queue} after {before}");
                let newest = self.tokens.entry(queue).or_default();
                *newest = token.max(*newest);
            } else {
                assert!(!std::mem::replace(&mut job.popped, true), "taken twice: {handed:?}");
            }
            if is_made {
                self.note_made(id, label);
            }
            if at_most_once {
                self.end(label, sure, Some(answer));
                self.ledger.count("jobs popped");
            } else {
                self.ledger.count("jobs leased");
            }
        }
    }

    /// ACK, NACK and EXTEND.
    fn end_lease(&mut self, event: &Event) {
        let answer = event.answer.as_ref();
        let reply = answer.map(|answer| &answer.reply);
        match event.what {
            What::Ack { label, queue, token, .. } => {
                if reply == Some(&Reply::Number(0)) {
                    return;
                }
                let sure = self.sure(answer);
                self.bound(queue, "acked", sure);
                let Some(job) = self.ledger.jobs.get_mut(&label) else {
                    assert!(answer.is_none(), "job {label} is acked and was gone");
                    return;
                };
                if answer.is_some() {
                    assert_eq!(job.acked.replace(token), None, "acked twice");
                    self.ledger.count("acks answered");
                }
                self.end(label, sure, answer);
            }
            What::Nack { label, token, uncounted, in_ms, .. } => {
                let is_sure = self.sure(answer) == Sure::Yes;
                let Some(job) = self.ledger.jobs.get_mut(&label) else { return };
                if reply != Some(&Reply::Number(0)) {
                    job.dues.clear();
                    if let Some(delivery) = job.deliveries.get_mut(&token) {
                        delivery.lease_end_ms = 0;
                        delivery.uncounted |= uncounted;
                        if is_sure && !uncounted && !job.moved {
                            delivery.not_before_ms = event.sent_ms + in_ms;
                        }
                    }
                }
            }
            What::Extend { label, token, ms, .. } => {
                let Some(job) = self.ledger.jobs.get_mut(&label) else { return };
                if let Some(delivery) = job.deliveries.get_mut(&token) {
                    delivery.lease_end_ms = delivery.lease_end_ms.min(event.sent_ms + ms);
                }
            }
            _ => {}
        }
    }
}
