//! H7: what one consumer takes of a queue comes in its order, priority first and then place, whatever happens to the nodes.

use crate::processes::calls::{Answer, At, Finder};
use crate::support::patience::pass;
use crate::support::program::{Reply, Wire};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const QUEUE: &str = "order";
/// Jobs that were there together are among as many that were taken one after the other: the producer is that little ahead.
const TOGETHER: usize = 500;

#[derive(Clone, Copy, Debug)]
struct Added {
    begin: At,
    end: At,
    priority: u64,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    begin: At,
    number: u64,
}

/// One producer and one consumer of a queue of their own.
pub struct Pair {
    is_over: Arc<AtomicBool>,
    adds: JoinHandle<HashMap<u64, Added>>,
    takes: JoinHandle<Vec<Taken>>,
}

impl Pair {
    pub fn start(addresses: &[SocketAddr], seed: u64) -> Pair {
        let is_over = Arc::<AtomicBool>::default();
        let line = |number: u64| {
            let random = SmallRng::seed_from_u64(seed ^ number << 16);
            Line {
                finder: Finder::new(addresses, random),
                wire: None,
                is_over: Arc::clone(&is_over),
            }
        };
        let (producer, consumer) = (line(1), line(2));
        let random = SmallRng::seed_from_u64(seed ^ 3 << 16);
        let adds = std::thread::spawn(move || produce(producer, random));
        let takes = std::thread::spawn(move || consume(consumer));
        Pair { is_over, adds, takes }
    }

    /// How many were taken, and what is wrong.
    pub fn stop(self) -> (usize, Vec<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        let (adds, takes) = (self.adds.join().unwrap(), self.takes.join().unwrap());
        (takes.len(), check(&adds, &takes))
    }
}

struct Line {
    finder: Finder,
    wire: Option<Wire>,
    is_over: Arc<AtomicBool>,
}

impl Line {
    fn ask(&mut self, line: &str) -> Option<Reply> {
        let mut wire = self.wire.take().or_else(|| self.finder.find())?;
        let told: io::Result<Reply> = wire.try_ask(line);
        let Answer::Told(reply) = Answer::of(told) else { return None };
        self.wire = Some(wire);
        Some(reply)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// In bursts, so that some wait; all that were answered.
fn produce(mut line: Line, mut random: SmallRng) -> HashMap<u64, Added> {
    let mut adds = HashMap::new();
    for number in 1.. {
        if line.is_over() {
            break;
        }
        let (begin, priority) = (At::now(), random.random_range(0..10));
        let told =
            line.ask(&format!("DELAY.ADD {QUEUE} 0 {number} ID {number} PRIORITY {priority}"));
        if matches!(told, Some(Reply::Bulk(_))) {
            adds.insert(number, Added { begin, end: At::now(), priority });
        }
        if number % 20 == 0 {
            pass(Duration::from_millis(150));
        }
    }
    adds
}

fn consume(mut line: Line) -> Vec<Taken> {
    let mut takes = Vec::new();
    while !line.is_over() {
        let begin = At::now();
        if let Some(Reply::Array(parts)) = line.ask(&format!("DELAY.POP {QUEUE} 0.2")) {
            takes.push(Taken { begin, number: parts[2].text().parse().expect("a number of ours") });
        }
        // Slower than they come, so that some wait.
        pass(Duration::from_millis(6));
    }
    takes
}

/// Nothing that was there is taken after what comes behind it.
fn check(adds: &HashMap<u64, Added>, takes: &[Taken]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, earlier) in takes.iter().enumerate() {
        let Some(first) = adds.get(&earlier.number) else { continue };
        for later in takes[at + 1..].iter().take(TOGETHER) {
            let Some(second) = adds.get(&later.number) else { continue };
            let was_there = second.end < earlier.begin;
            let is_before = second.priority < first.priority
                || second.priority == first.priority && second.end < first.begin;
            if was_there && is_before {
                wrong.push(format!("H7: {earlier:?} {first:?} before {later:?} {second:?}"));
            }
        }
    }
    wrong
}

#[test]
fn an_order_that_is_wrong_is_found() {
    let at = |us| At { us, ms: 0 };
    let added = |begin, priority| Added { begin: at(begin), end: at(begin + 1), priority };
    let taken = |begin, number| Taken { begin: at(begin), number };
    let adds = HashMap::from([(1, added(1, 5)), (2, added(3, 5)), (3, added(5, 0))]);
    assert_eq!(check(&adds, &[taken(10, 3), taken(11, 1), taken(12, 2)]).len(), 0);
    // It was not there yet.
    assert_eq!(check(&adds, &[taken(5, 1), taken(11, 3), taken(12, 2)]).len(), 0);
    assert_eq!(check(&adds, &[taken(10, 1), taken(11, 3), taken(12, 2)]).len(), 1);
    assert_eq!(check(&adds, &[taken(10, 3), taken(11, 2), taken(12, 1)]).len(), 1);
}
