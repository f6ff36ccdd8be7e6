//! What a server shows of its jobs, all at one instant.

use crate::support::patience::limit;
use crate::support::program::{Reply, Wire};
use std::collections::HashMap;
use std::time::Instant;

/// A job as the test knows it: the first word of its body. Never used twice, unlike ids.
pub type Label = u64;

pub fn label_of(body: &[u8]) -> Label {
    let digits = body.split(|byte| *byte == b' ').next().expect("a word");
    std::str::from_utf8(digits).unwrap().parse().unwrap()
}

/// The most that PEEK shows.
const SHOWN_MAX: usize = 9_900;
const STATES: [&str; 4] = ["DELAYED", "READY", "LEASED", "DEAD"];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenJob {
    pub queue: &'static str,
    pub id: String,
    pub state: String,
    pub due_ms: u64,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    pub jobs: HashMap<Label, SeenJob>,
    /// `DELAY.STATS` of each queue; empty for one of which nothing is known.
    pub stats: HashMap<&'static str, HashMap<String, u64>>,
}

impl Seen {
    /// One transaction a queue, so that no job is missed between two states.
    pub fn look(wire: &mut Wire, queues: &[&'static str]) -> Seen {
        Seen::try_look(wire, queues).expect("a server that answers reads")
    }

    /// None if the server goes away or answers no reads.
    pub fn try_look(wire: &mut Wire, queues: &[&'static str]) -> Option<Seen> {
        let mut seen = Seen::default();
        for queue in queues {
            wire.push_line("MULTI");
            for state in STATES {
                wire.push_line(&format!("DELAY.PEEK {queue} {state} COUNT {SHOWN_MAX}"));
            }
            wire.push_line(&format!("DELAY.STATS {queue}"));
            wire.push_line("EXEC");
            wire.flush().ok()?;
            for _ in 0..STATES.len() + 2 {
                wire.read().ok()?;
            }
            let Reply::Array(replies) = wire.read().ok()? else { return None };
            let (stats, states) = replies.split_last().expect("as many as were asked for");
            for shown in states.iter().map(|shown| shown.array().unwrap()) {
                assert!(shown.len() < SHOWN_MAX, "the test keeps too many jobs");
                shown.iter().for_each(|job| seen.add(queue, job.array().unwrap()));
            }
            seen.stats.insert(queue, numbers(stats));
        }
        Some(seen)
    }

    /// As if the queues of these names had these.
    pub fn renamed(mut self, names: &[&'static str], to: &[&'static str]) -> Seen {
        let of: HashMap<_, _> = names.iter().copied().zip(to.iter().copied()).collect();
        self.jobs.values_mut().for_each(|job| job.queue = of[job.queue]);
        self.stats = self.stats.into_iter().map(|(queue, stats)| (of[queue], stats)).collect();
        self
    }

    fn add(&mut self, queue: &'static str, parts: &[Reply]) {
        let label = label_of(parts[3].bytes());
        let (id, state) = (parts[0].text().to_owned(), parts[1].text().to_owned());
        let due_ms = parts[2].number() as u64;
        let before = self.jobs.insert(label, SeenJob { queue, id, state, due_ms });
        assert_eq!(before, None, "job {label} is there twice");
    }
}

/// The totals among the fields of STATS.
fn numbers(reply: &Reply) -> HashMap<String, u64> {
    let fields = reply.array().unwrap_or(&[]).chunks(2);
    let number = |field: &[Reply]| {
        let value = match &field[1] {
            Reply::Number(number) => u64::try_from(*number).expect("never negative"),
            Reply::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok()?,
            _ => return None,
        };
        Some((field[0].text().to_owned(), value))
    };
    fields.filter_map(number).collect()
}

/// Takes every job out, in the ways there are; returns their labels.
pub fn drain(wire: &mut Wire, seen: &Seen, queues: &[&str]) -> Vec<Label> {
    let mut drained = Vec::new();
    let mut wanted = 0;
    for (label, job) in &seen.jobs {
        let SeenJob { queue, id, state, .. } = job;
        match state.as_str() {
            "dead" | "leased" => {
                let state = wire.ask(&format!("DELAY.CANCEL {queue} {id} FORCE"));
                assert!(!matches!(state, Reply::Nil), "{label} {job:?} cannot be cancelled");
                drained.push(*label);
                continue;
            }
            "delayed" => drop(wire.ask(&format!("DELAY.RESCHEDULE {queue} {id} 0"))),
            _ => {}
        }
        wanted += 1;
    }
    let (start, names, count) = (Instant::now(), queues.join(" "), queues.len());
    while wanted > 0 {
        assert!(start.elapsed() < limit(), "{wanted} jobs are not delivered");
        let jobs = wire.ask(&format!("DELAY.RESERVE 1 {count} {names} COUNT 1000 LEASE 1h"));
        for job in jobs.array().unwrap_or(&[]) {
            let parts = job.array().unwrap();
            let args = [b"DELAY.ACK", parts[0].bytes(), parts[1].bytes(), parts[3].bytes()];
            wire.push(&args);
        }
        wire.flush().unwrap();
        for job in jobs.array().unwrap_or(&[]) {
            assert_eq!(wire.read().unwrap(), Reply::Number(1));
            drained.push(label_of(job.array().unwrap()[2].bytes()));
            wanted -= 1;
        }
    }
    drained
}
