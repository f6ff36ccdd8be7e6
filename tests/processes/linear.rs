//! H6: what clients were told of one job can be put in an order in which each call happened at an instant between its begin
//! and its end, and a job of one delayd would have answered the same.
//!
//! Calls on one job commute with those on others, so the calls on each are searched by themselves (Wing and Gong, "Testing and
//! verifying concurrent objects", 1993; with what was tried remembered, as Lowe's "Testing for linearizability" has it, 2017). A
//! call without an answer may have happened at any time after its begin, or never. Each job is alone in a queue of its own, due
//! at once or not before the end, with leases that outlast the test: what it answers depends on calls only.

use crate::processes::calls::{Answer, At, Finder};
use crate::processes::trio::wait_until;
use crate::support::patience::pass;
use crate::support::program::{Reply, Wire};
use delayd::limits::SYNC_US_MAX;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const CLIENTS: u64 = 3;
/// Calls on one job, of all clients together; the last look comes on top.
const CALLS: u64 = 24;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Taken {
    IsError,
    Keeps,
    IsReplaced,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    Add { body: u64, is_far: bool, taken: Taken },
    Get,
    Length,
    Reschedule { is_far: bool },
    Cancel,
    Reserve,
    Pop,
    Ack { token: u64 },
    Nack { token: u64, is_far: bool },
    Extend { token: u64 },
}

/// A call on one job.
#[derive(Clone, Debug)]
struct Step {
    begin: At,
    end: At,
    op: Op,
    /// None: it may have been done.
    told: Option<Reply>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Delayed,
    Ready,
    /// By a delivery of which nobody read the token: None.
    Leased(Option<u64>),
}

/// The job, if it is there: its body, and where it is.
type State = Option<(u64, Place)>;

fn far(is_far: bool) -> &'static str {
    if is_far { "20d" } else { "0ms" }
}

fn place(is_far: bool) -> Place {
    if is_far { Place::Delayed } else { Place::Ready }
}

impl Op {
    fn draw(random: &mut SmallRng, body: u64, tokens: &[u64]) -> Op {
        let is_far = random.random_ratio(1, 3);
        let token = match tokens.len() {
            0 => 7,
            count => tokens[random.random_range(count.saturating_sub(3)..count)],
        };
        match random.random_range(0..20) {
            0..5 => {
                let all = [Taken::IsError, Taken::Keeps, Taken::IsReplaced];
                Op::Add { body, is_far, taken: all[random.random_range(0..3)] }
            }
            5..9 => Op::Get,
            9 => Op::Length,
            10..12 => Op::Reschedule { is_far },
            12 => Op::Cancel,
            13..16 => Op::Reserve,
            16 => Op::Pop,
            17 => Op::Ack { token },
            18 => Op::Nack { token, is_far },
            _ => Op::Extend { token },
        }
    }

    fn line(&self, queue: &str) -> String {
        match self {
            Op::Add { body, is_far, taken } => {
                let taken = match taken {
                    Taken::IsError => "",
                    Taken::Keeps => " NX",
                    Taken::IsReplaced => " REPLACE",
                };
                format!("DELAY.ADD {queue} {} {body} ID x{taken}", far(*is_far))
            }
            Op::Get => format!("DELAY.GET {queue} x"),
            Op::Length => format!("DELAY.LEN {queue}"),
            Op::Reschedule { is_far } => format!("DELAY.RESCHEDULE {queue} x {}", far(*is_far)),
            Op::Cancel => format!("DELAY.CANCEL {queue} x"),
            Op::Reserve => format!("DELAY.RESERVE NOWAIT 1 {queue} LEASE 12h"),
            Op::Pop => format!("DELAY.POP {queue} NOWAIT"),
            Op::Ack { token } => format!("DELAY.ACK {queue} x {token}"),
            Op::Nack { token, is_far } => {
                format!("DELAY.NACK {queue} x {token} IN {} UNCOUNTED", far(*is_far))
            }
            Op::Extend { token } => format!("DELAY.EXTEND {queue} x {token} 12h"),
        }
    }

    fn changes(&self) -> bool {
        !matches!(self, Op::Get | Op::Length)
    }

    /// The state after it, if it may be answered so in this one.
    fn happen(&self, state: State, told: Option<&Reply>) -> Option<State> {
        let is = |expected: bool| told.is_none() || expected;
        let is_number = |number: i64| is(told == Some(&Reply::Number(number)));
        let is_nil = || is(told == Some(&Reply::Nil));
        let holds =
            |token: u64| matches!(state, Some((_, Place::Leased(Some(held)))) if held == token);
        let (allowed, after) = match *self {
            Op::Add { body, is_far, taken } => match (state, taken) {
                (Some(_), Taken::IsError) => (
                    is(matches!(told, Some(Reply::Error(text)) if text.starts_with("EXISTS"))),
                    state,
                ),
                (Some(_), Taken::Keeps) => (is_nil(), state),
                _ => (is(told == Some(&Reply::Bulk(b"x".to_vec()))), Some((body, place(is_far)))),
            },
            Op::Get => (is(told.and_then(shown) == Some(state.map(plain))), state),
            Op::Length => (is_number(i64::from(state.is_some())), state),
            Op::Reschedule { is_far } => match state {
                Some((body, Place::Delayed | Place::Ready)) => {
                    (is_number(1), Some((body, place(is_far))))
                }
                _ => (is_number(0), state),
            },
            Op::Cancel => match state {
                None => (is_nil(), state),
                Some((_, at)) => {
                    let stays = matches!(at, Place::Leased(_));
                    let word = Reply::Bulk(word(at).as_bytes().to_vec());
                    (is(told == Some(&word)), state.filter(|_| stays))
                }
            },
            Op::Reserve => match state {
                Some((body, Place::Ready)) => {
                    let token = told.and_then(|told| delivered(told, body));
                    (is(token.is_some()), Some((body, Place::Leased(token))))
                }
                _ => (is_nil(), state),
            },
            Op::Pop => match state {
                Some((body, Place::Ready)) => {
                    (is(told.is_some_and(|told| is_popped(told, body))), None)
                }
                _ => (is_nil(), state),
            },
            Op::Ack { token } => match holds(token) {
                true => (is_number(1), None),
                false => (is_number(0), state),
            },
            Op::Nack { token, is_far } => match (holds(token), state) {
                (true, Some((body, _))) => (is_number(1), Some((body, place(is_far)))),
                _ => (is_number(0), state),
            },
            Op::Extend { token } => match holds(token) {
                true => (is(matches!(told, Some(Reply::Number(_)))), state),
                false => (is_nil(), state),
            },
        };
        allowed.then_some(after)
    }
}

fn word(place: Place) -> &'static str {
    match place {
        Place::Delayed => "delayed",
        Place::Ready => "ready",
        Place::Leased(_) => "leased",
    }
}

/// Body and state, as GET shows them.
fn plain((body, place): (u64, Place)) -> (u64, &'static str) {
    (body, word(place))
}

/// What a reply of GET says: of no job, or of one. Nothing if it is not one.
fn shown(reply: &Reply) -> Option<Option<(u64, &'static str)>> {
    let Reply::Array(parts) = reply else { return (*reply == Reply::Nil).then_some(None) };
    let field =
        |name: &str| parts.chunks(2).find(|pair| pair[0].text() == name).map(|pair| pair[1].text());
    let state =
        ["delayed", "ready", "leased"].into_iter().find(|word| field("state") == Some(word))?;
    Some(Some((field("body")?.parse().ok()?, state)))
}

/// The token of a delivery of a job with this body.
fn delivered(reply: &Reply, body: u64) -> Option<u64> {
    let Reply::Array(jobs) = reply else { return None };
    let parts = jobs.first()?.array()?;
    (parts[2].text() == body.to_string()).then(|| parts[3].text().parse().expect("a token"))
}

fn is_popped(reply: &Reply, body: u64) -> bool {
    matches!(reply, Reply::Array(parts) if parts[2].text() == body.to_string())
}

/// Whether a take may have found the job held back: while a sync takes longer than a second no job is handed out, and
/// who does not wait is told nil. Then a call that waits for that sync takes as long.
fn may_be_held(step: &Step, steps: &[Step]) -> bool {
    let is_slow = |other: &Step| other.end.us - other.begin.us > SYNC_US_MAX;
    let is_near =
        |other: &Step| other.begin.us <= step.end.us && step.begin.us <= other.end.us + SYNC_US_MAX;
    let takes = matches!(step.op, Op::Reserve | Op::Pop) && step.told == Some(Reply::Nil);
    takes && steps.iter().any(|other| is_slow(other) && is_near(other))
}

/// Whether there is such an order. Calls that were not answered and change nothing are left out by the caller.
fn is_linearizable(steps: &[Step]) -> bool {
    assert!(steps.len() <= 64, "a bit each");
    let held: Vec<bool> = steps.iter().map(|step| may_be_held(step, steps)).collect();
    let mut tried: HashSet<(u64, State)> = HashSet::new();
    let mut open = vec![(0_u64, None)];
    while let Some((done, state)) = open.pop() {
        if !tried.insert((done, state)) {
            continue;
        }
        let left = || (0..steps.len()).filter(|at| done & 1 << at == 0);
        let told = || left().filter(|at| steps[*at].told.is_some());
        // Whatever began after another one's answer was read comes after that.
        let Some(first_end) = told().map(|at| steps[at].end).min() else { return true };
        for at in left().filter(|at| steps[*at].begin <= first_end) {
            let step = &steps[at];
            let after = step.op.happen(state, step.told.as_ref());
            let stays = held[at].then_some(state);
            let states = after.into_iter().chain(stays);
            open.extend(states.map(|after| (done | 1 << at, after)));
        }
    }
    false
}

/// What all calls on all jobs were told.
#[derive(Default)]
struct Told {
    steps: Mutex<BTreeMap<u64, Vec<Step>>>,
    tokens: Mutex<BTreeMap<u64, Vec<u64>>>,
    calls: AtomicU64,
    is_over: AtomicBool,
}

/// Clients that ask for all sorts of things at once, of one job after the other.
pub struct Jobs {
    addresses: Vec<SocketAddr>,
    told: Arc<Told>,
    threads: Vec<JoinHandle<()>>,
}

impl Jobs {
    pub fn start(addresses: &[SocketAddr], seed: u64) -> Jobs {
        let told = Arc::<Told>::default();
        let client = |number: u64| {
            let (addresses, told) = (addresses.to_vec(), Arc::clone(&told));
            let random = SmallRng::seed_from_u64(seed ^ number << 8);
            std::thread::spawn(move || work(&addresses, &told, random))
        };
        let threads = (0..CLIENTS).map(client).collect();
        Jobs { addresses: addresses.to_vec(), told, threads }
    }

    /// How many jobs were checked, and what is wrong.
    pub fn stop(self) -> (usize, Vec<String>) {
        self.told.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut all = std::mem::take(&mut *self.told.steps.lock().unwrap());
        let mut finder = Finder::new(&self.addresses, SmallRng::seed_from_u64(0));
        let mut wire = None;
        for (job, steps) in &mut all {
            let begin = At::now();
            // On a busy machine another one may come to lead, and closes its clients' connections.
            let told = wait_until("it is told", || {
                let leader = wire.take().or_else(|| finder.find());
                let leader: &mut Wire = wire.insert(leader?);
                let told = leader.try_ask(&Op::Get.line(&queue(*job))).ok();
                let told = told.filter(|told| !matches!(told, Reply::Error(_)));
                wire = wire.take().filter(|_| told.is_some());
                told
            });
            steps.push(Step { begin, end: At::now(), op: Op::Get, told: Some(told) });
        }
        let wrong = all.iter().filter(|(_, steps)| !is_linearizable(steps));
        let text = |(job, steps): (&u64, &Vec<Step>)| {
            let line = |step: &Step| {
                let Step { begin, end, op, told } = step;
                format!("{}..{} {op:?} {told:?}", begin.us, end.us)
            };
            let lines: Vec<String> = steps.iter().map(line).collect();
            format!("H6: {}: {}", queue(*job), lines.join("\n  "))
        };
        (all.len(), wrong.map(text).collect())
    }
}

fn queue(job: u64) -> String {
    format!("one-{job}")
}

fn work(addresses: &[SocketAddr], told: &Told, mut random: SmallRng) {
    let mut finder = Finder::new(addresses, SmallRng::seed_from_u64(random.random()));
    let mut wire = None;
    while !told.is_over.load(Ordering::Relaxed) {
        let Some(mut open) = wire.take().or_else(|| finder.find()) else { continue };
        let number = told.calls.fetch_add(1, Ordering::Relaxed);
        let job = number / CALLS;
        let tokens = told.tokens.lock().unwrap().get(&job).cloned().unwrap_or_default();
        let op = Op::draw(&mut random, number, &tokens);
        let (step, is_open) = ask(&mut open, &op, &queue(job));
        // Who looks for the leader anew may find the next one while others still ask the one before.
        wire = (is_open && random.random_ratio(9, 10)).then_some(open);
        if let Some(step) = step {
            let token = step.told.as_ref().filter(|_| op == Op::Reserve).and_then(token_of);
            told.tokens.lock().unwrap().entry(job).or_default().extend(token);
            told.steps.lock().unwrap().entry(job).or_default().push(step);
        }
        // Two cores have three nodes and the other clients to run.
        pass(Duration::from_millis(5));
    }
}

fn token_of(reply: &Reply) -> Option<u64> {
    let Reply::Array(jobs) = reply else { return None };
    jobs.first()?.array()?[3].text().parse().ok()
}

/// None if it was not done, or says nothing; and whether the connection is good for more.
fn ask(wire: &mut Wire, op: &Op, queue: &str) -> (Option<Step>, bool) {
    let begin = At::now();
    let told = wire.try_ask(&op.line(queue));
    let (end, op) = (At::now(), *op);
    match Answer::of(told) {
        Answer::Told(told) => (Some(Step { begin, end, op, told: Some(told) }), true),
        Answer::Unknown if op.changes() => (Some(Step { begin, end, op, told: None }), false),
        Answer::Unknown | Answer::TurnedAway => (None, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: Op = Op::Add { body: 5, is_far: false, taken: Taken::Keeps };

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    fn step(begin: u64, end: u64, op: Op, told: impl Into<Option<Reply>>) -> Step {
        let at = |us| At { us, ms: 0 };
        Step { begin: at(begin), end: at(end), op, told: told.into() }
    }

    fn got(body: &str, state: &str) -> Reply {
        Reply::Array(["state", state, "body", body].map(bulk).to_vec())
    }

    fn taken(token: &str) -> Reply {
        Reply::Array(vec![Reply::Array(["q", "x", "5", token].map(bulk).to_vec())])
    }

    #[test]
    fn an_order_is_found_if_there_is_one() {
        let added = || step(1, 2, ADD, bulk("x"));
        let far = Op::Reschedule { is_far: true };
        let fine = [
            vec![],
            vec![added(), step(3, 4, Op::Get, got("5", "ready"))],
            // At the same time: in either order.
            vec![added(), step(1, 5, Op::Get, Reply::Nil), step(1, 5, Op::Get, got("5", "ready"))],
            // Not answered: done later, or never.
            vec![
                step(1, 2, ADD, None),
                step(3, 4, Op::Get, Reply::Nil),
                step(5, 6, Op::Get, got("5", "ready")),
            ],
            vec![
                step(1, 2, ADD, None),
                step(3, 4, Op::Get, Reply::Nil),
                step(5, 6, Op::Get, Reply::Nil),
            ],
            vec![
                added(),
                step(3, 4, Op::Reserve, None),
                step(5, 6, Op::Cancel, bulk("leased")),
                step(7, 8, Op::Ack { token: 9 }, Reply::Number(0)),
            ],
            vec![
                added(),
                step(3, 4, Op::Reserve, taken("9")),
                step(5, 6, far, Reply::Number(0)),
                step(7, 8, Op::Nack { token: 9, is_far: true }, Reply::Number(1)),
                step(9, 10, Op::Pop, Reply::Nil),
                step(11, 12, Op::Cancel, bulk("delayed")),
            ],
        ];
        // The disk stands still for a while: nothing is handed out, which a call that waits for it shows.
        let (slow, soon) = (5 + SYNC_US_MAX, 6 + SYNC_US_MAX);
        let held = vec![
            added(),
            step(3, slow, Op::Reschedule { is_far: false }, Reply::Number(1)),
            step(soon, soon + 1, Op::Reserve, Reply::Nil),
            step(soon + 2, soon + 3, Op::Reserve, taken("9")),
        ];
        for steps in fine.into_iter().chain([held]) {
            assert!(is_linearizable(&steps), "{steps:#?}");
        }
    }

    #[test]
    fn and_none_where_there_is_none() {
        let added = || step(1, 2, ADD, bulk("x"));
        let ack = |at, told| step(at, at + 1, Op::Ack { token: 9 }, Reply::Number(told));
        let wrong = [
            // A stale read; one that sees what was never there; one that goes back.
            vec![added(), step(3, 4, Op::Get, Reply::Nil)],
            vec![step(3, 4, Op::Get, got("5", "ready"))],
            vec![
                step(1, 9, ADD, bulk("x")),
                step(2, 3, Op::Get, got("5", "ready")),
                step(4, 5, Op::Get, Reply::Nil),
            ],
            // A job that is ready, and nothing stands still.
            vec![added(), step(3, 4, Op::Reserve, Reply::Nil)],
            // A lost cancel, a lost acknowledgement, two of one.
            vec![
                added(),
                step(3, 4, Op::Cancel, bulk("ready")),
                step(5, 6, Op::Length, Reply::Number(1)),
            ],
            vec![
                added(),
                step(3, 4, Op::Reserve, taken("9")),
                ack(5, 1),
                step(7, 8, Op::Get, got("5", "leased")),
            ],
            vec![added(), step(3, 4, Op::Reserve, taken("9")), ack(5, 1), ack(7, 1)],
            // Handed out twice.
            vec![
                added(),
                step(3, 4, Op::Reserve, taken("9")),
                step(5, 6, Op::Reserve, taken("10")),
            ],
            // Not answered, and done twice.
            vec![
                step(1, 2, ADD, None),
                step(3, 4, Op::Pop, Reply::Array(["q", "x", "5"].map(bulk).to_vec())),
                step(5, 6, Op::Get, got("5", "ready")),
            ],
        ];
        for steps in wrong {
            assert!(!is_linearizable(&steps), "{steps:#?}");
        }
    }
}
