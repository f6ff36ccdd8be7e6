//! Clients of every kind at work beside a cluster, and what they were told held against what the nodes have at the end:
//! H1 to H10, of which each module beside this one says its own. H10: all nodes show the same.

use crate::processes::calls::{Answer, Call, Client, QUEUES, What};
use crate::processes::history::{Clocks, History};
use crate::processes::load::Load;
use crate::processes::trio::{NODES, Trio, name, wait_until};
use crate::processes::{linear, order, reads, totals};
use crate::support::patience::seconds;
use crate::support::seen::{Seen, SeenJob};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

/// See the module.
pub struct Clients {
    seed: u64,
    load: Load,
    one_by_one: linear::Jobs,
    pair: order::Pair,
    reader: reads::Reader,
}

impl Clients {
    pub fn start(trio: &Trio, seed: u64) -> Clients {
        Clients {
            seed,
            load: Load::start(&trio.addresses, seed),
            one_by_one: linear::Jobs::start(&trio.addresses, seed),
            pair: order::Pair::start(&trio.addresses, seed),
            reader: reads::Reader::start(&trio.addresses, seed),
        }
    }

    /// What the nodes show at the end, and all calls, `calls` of other clients among them.
    ///
    /// # Panics
    /// If anything that a client was told is false. The calls are left in a file.
    pub fn check(self, trio: &Trio, mut calls: Vec<Call>, clocks: Clocks) -> (Seen, Vec<Call>) {
        calls.extend(self.load.stop());
        let (jobs, not_linear) = self.one_by_one.stop();
        let (taken, not_in_order) = self.pair.stop();
        let (read, not_read) = self.reader.stop();
        let seen = look(trio);
        let history = History::of(calls.clone(), clocks);
        println!("{:?}", history.counts);
        println!("{jobs} jobs one by one, {taken} taken in order, {read} reads of followers");
        assert!(jobs > 10 && taken > 100 && read > 50, "few");
        for what in ["adds answered", "jobs acknowledged", "jobs popped", "jobs cancelled"] {
            assert!(history.counts.get(what).is_some_and(|count| *count >= 20), "{what}: few");
        }
        let mut wrong = history.check(&seen);
        wrong.extend([not_linear, not_in_order, not_read, totals::check(&calls, &seen)].concat());
        let mut claims = BTreeMap::<&str, u64>::new();
        for text in &wrong {
            *claims.entry(text.split([':', ' ']).next().unwrap_or_default()).or_default() += 1;
        }
        let few = &wrong[..wrong.len().min(10)];
        assert!(wrong.is_empty(), "{claims:?} wrong, in {}: {few:#?}", leave(self.seed, &calls));
        (seen, calls)
    }
}

/// An add is answered, from now on within the limit.
pub fn is_open(trio: &Trio, seed: u64, calls: &mut Vec<Call>) {
    let mut client = Client::new(&trio.addresses, SmallRng::seed_from_u64(seed));
    let add = What::Add { label: seed, due_ms: 0, has_id: true };
    wait_until("an add is answered", || {
        client.ask(add.clone()).filter(|answer| matches!(answer, Answer::Told(_)))
    });
    calls.append(&mut client.calls);
}

/// Stopped and started, the nodes show the same.
pub fn survives(trio: &mut Trio, seen: &Seen) {
    (0..NODES).for_each(|node| drop(trio.stop(node)));
    (0..NODES).for_each(|node| trio.check(node));
    (0..NODES).for_each(|node| trio.begin(node));
    trio.leader();
    let again = look(trio);
    assert_eq!(again.jobs.len(), seen.jobs.len());
    assert!(again.jobs.keys().all(|label| seen.jobs.contains_key(label)));
    println!("{} jobs at the end of {}, {}, {}", seen.jobs.len(), name(0), name(1), name(2));
}

/// What all nodes show, once they show the same, no lease runs and no fact is made any more.
fn look(trio: &Trio) -> Seen {
    let (mut last, begin) = (None, Instant::now());
    wait_until("all nodes show the same", || {
        // Until no lease runs any more, and longer than a follower needs.
        let is_late = begin.elapsed() > seconds(30);
        assert!(!is_late, "they do not become the same, but {}", differences(trio, &last));
        let shown: Option<Vec<(u64, Seen)>> = (0..NODES).map(|node| shown_by(trio, node)).collect();
        let before = std::mem::replace(&mut last, shown);
        let shown = last.as_ref()?;
        let is_equal = shown.iter().all(|one| *one == shown[0]);
        // Two looks in a row may come before a lease ends, of 5 s at most.
        let is_leased = shown[0].1.jobs.values().any(|job| job.state == "leased");
        (is_equal && !is_leased && before.as_ref() == Some(shown)).then(|| shown[0].1.clone())
    })
}

/// For a reader: what each node says of itself, and where it differs from the first one.
fn differences(trio: &Trio, shown: &Option<Vec<(u64, Seen)>>) -> String {
    let mut text = String::new();
    for node in 0..NODES {
        writeln!(text, "{}: {}", name(node), trio.wire(node).info("raft")).unwrap();
    }
    let shown = shown.iter().flatten().map(|(index, seen)| (index, &seen.stats, &seen.jobs));
    let all: Vec<_> = shown.collect();
    for (index, stats, jobs) in &all {
        let other = |job: &(&u64, &SeenJob)| all[0].2.get(job.0) != Some(job.1);
        let others: Vec<_> = jobs.iter().filter(other).take(5).collect();
        writeln!(text, "at {index}: {} jobs, {stats:?}; {others:?}", jobs.len()).unwrap();
    }
    text
}

/// How far it has applied, and its jobs and totals.
fn shown_by(trio: &Trio, node: usize) -> Option<(u64, Seen)> {
    let mut wire = trio.wire(node);
    let mut seen = Seen::try_look(&mut wire, &QUEUES)?;
    // It grows by itself. And only the leader knows which clients it has served.
    for totals in seen.stats.values_mut() {
        totals.remove("oldest-ready-age-ms");
        for served in ["last-reserve-at", "last-reserve-by", "last-ack-at", "last-ack-by"] {
            totals.remove(served);
        }
    }
    Some((wire.try_number("raft_applied_index")?, seen))
}

fn leave(seed: u64, calls: &[Call]) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("calls-{seed}"));
    let mut text = String::new();
    for call in calls {
        writeln!(text, "{call:?}").unwrap();
    }
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}
