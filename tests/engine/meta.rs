//! META: what it costs, and who takes it.

use delayd::command::{self, Action, table};
use delayd::engine::model::meta::OwnMeta;
use delayd::engine::model::request::{Add, JobState, Request, Reserve, Wait};
use delayd::engine::{Lead, Outcome};
use delayd::ids::Db;
use delayd::limits::LEVEL_META;

use crate::engine::bench::*;

fn with(id: &'static str, delay_ms: u64, words: &[&[u8]]) -> Add<'static> {
    Add { meta: OwnMeta::of(words).expect("META"), ..job("q", id, delay_ms) }
}

/// Two pairs as a trace context and a tenant have them, 80 bytes in all.
const PAIRS: [&[u8]; 4] = [
    b"traceparent",
    b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
    b"tenant",
    b"acme-000001",
];

#[test]
fn two_pairs_of_80_bytes_take_ten_more_and_what_slots_round_up() {
    assert_eq!(PAIRS.concat().len(), 80);
    let mut bench = Bench::new();
    let empty = bench.engine.memory_bytes();
    bench.add(job("q", "a", 0));
    let plain = bench.engine.memory_bytes() - empty;
    bench.add(with("b", 0, &PAIRS));
    let both = bench.engine.memory_bytes() - empty;
    bench.add(job("q", "c", 0));
    let next = bench.engine.memory_bytes() - empty - both;
    let more = both - plain - next;
    assert!((80..=96).contains(&more), "{more} bytes");
}

#[test]
fn it_goes_with_its_job_whatever_takes_that() {
    let mut bench = Bench::new();
    bench.add(job("q", "stays", 9_000));
    let before = (bench.engine.memory_bytes(), bench.engine.base_bytes());
    let longest = [7; 8_000];
    for end in 0..4 {
        let id = ["acked", "popped", "cancelled", "purged"][end];
        bench.add(with(id, 0, &[b"k", &longest]));
        match end {
            0 => {
                bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 1)));
                let jobs = vec![(id.as_bytes(), bench.token(id))];
                bench.ask(1, Request::Ack { queue: queue("q"), jobs });
            }
            1 => _ = bench.ask(1, pop(Q, Wait::No)),
            2 => _ = bench.ask(1, cancel("q", id, false)),
            _ => _ = bench.ask(1, purge_state("q", JobState::Ready)),
        }
        // What was purged is freed in slices.
        bench.at(10 * (end as u64 + 1));
        let after = (bench.engine.memory_bytes(), bench.engine.base_bytes());
        assert!(after.0 < before.0 + 1_000 && after.1 < before.1 + 1_000, "{id}: {after:?}");
    }
}

/// 600 jobs have 4.8 MB of META: as much as ends a reply early that has 4 MiB.
#[test]
fn what_is_not_shown_makes_no_reply_shorter() {
    let longest = [7; 8_000];
    for (meta, taken) in [(false, 600..601), (true, 500..600)] {
        let mut bench = Bench::new();
        for _ in 0..600 {
            bench.add(Add { id: None, ..with("", 0, &[b"k", &longest]) });
        }
        bench.ask(1, peek("q", 600));
        assert_eq!(bench.take_events().last().expect("a reply").split(' ').count(), 600);
        bench.ask(1, Request::Reserve(Reserve { meta, ..reserve(Q, Wait::No, 600) }));
        assert!(
            taken.contains(&bench.take_events().last().expect("a reply").split(' ').count()),
            "{meta}"
        );
    }
}

/// Nodes of the version before would take the facts for damage.
#[test]
fn a_cluster_takes_it_once_all_its_nodes_read_it() {
    let mut bench = Bench::new();
    let lines =
        ["DELAY.ADD q 0 body ID a META 1 k v", "DELAY.SCHEDULE SET q s body EVERY 1m META 1 k v"];
    let ask = |bench: &mut Bench, line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let spec = table::resolve(&words).expect("a command");
        let Ok(Action::Engine(request)) = command::parse(spec, &words, Db(0)) else { panic!() };
        assert_ne!(bench.ask(1, request), Outcome::Again);
    };
    for (term, level) in [(1, LEVEL_META - 1), (2, LEVEL_META)] {
        let (from, to) = (bench.now(), bench.now());
        bench.lead(&Lead { term, node: 1, level, from, to });
        for line in lines {
            let digest = bench.engine.digest();
            ask(&mut bench, line);
            assert_eq!(bench.engine.digest() == digest, level < LEVEL_META, "{line} at {level}");
        }
        ask(&mut bench, "DELAY.ADD q 0 body");
    }
}
