//! Nodes of this build and of another one in one cluster: each is replaced while clients work, in either direction.
//!
//! `DELAYD_OTHER` names the other program; `make upgrade-test` builds that of an earlier commit.

use crate::processes::calls::{Answer, Call, What};
use crate::processes::history::{Clocks, History};
use crate::processes::load::Load;
use crate::processes::totals;
use crate::processes::trio::{NODES, Trio, name, wait_until};
use crate::support::program::{Reply, seed};
use crate::support::seen::Seen;
use std::path::PathBuf;

/// Longer than a hand-over and shorter than it takes to find out that nobody leads, with some room: the figure is printed.
const GAP_US_MAX: u64 = 1_000_000;

#[test]
fn nodes_are_replaced_by_those_of_another_version_while_clients_work() {
    let Some(other) = std::env::var_os("DELAYD_OTHER").map(PathBuf::from) else {
        return println!("SKIPPED: DELAYD_OTHER names no other delayd; make upgrade-test does");
    };
    let seed = seed();
    for (from, to) in [(Some(&other), None), (None, Some(&other))] {
        for is_leader_first in [false, true] {
            replace(from.cloned(), to.cloned(), is_leader_first, seed);
        }
    }
}

fn replace(from: Option<PathBuf>, to: Option<PathBuf>, is_leader_first: bool, seed: u64) {
    let options = ["--cluster-lease-grace", "500ms", "--cluster-secret", "of both versions"];
    let mut trio = Trio::prepare("upgrade", &options);
    let what = match &to {
        Some(_) => "to the other version",
        None => "from the other version",
    };
    trio.other = from;
    (0..NODES).for_each(|node| trio.begin(node));
    trio.wait_for_voters();
    let load = Load::start(&trio.addresses, seed);
    let leader = trio.leader();
    let mut order: Vec<usize> = (0..NODES).filter(|node| *node != leader).collect();
    order.insert(if is_leader_first { 0 } else { NODES - 1 }, leader);
    trio.other = to;
    for node in order {
        trio.stop(node);
        trio.begin(node);
        trio.wait_for_voters();
        works(&trio);
    }
    let calls = load.stop();
    let gap_ms = longest_gap_us(&calls) / 1_000;
    let last = if is_leader_first { "first" } else { "last" };
    println!("{what}, the leader {last}: adds were answered but for {gap_ms} ms");
    assert!(gap_ms * 1_000 <= GAP_US_MAX, "{gap_ms} ms {what}, the leader {last}");
    let seen = same(&trio);
    let mut wrong = totals::check(&calls, &seen);
    wrong.extend(History::of(calls, Clocks::default()).check(&seen));
    assert!(wrong.is_empty(), "{what}: {:#?}", &wrong[..wrong.len().min(10)]);
    (0..NODES).for_each(|node| drop(trio.stop(node)));
    (0..NODES).for_each(|node| trio.check(node));
}

/// Whoever leads takes jobs, hands them out and shows them.
fn works(trio: &Trio) {
    let mut wire = trio.wire(trio.leader());
    let id = wire.ask("DELAY.ADD upgrade 0 x");
    assert!(matches!(id, Reply::Bulk(_)), "{id:?}");
    let job = wire.ask("DELAY.POP upgrade 5");
    assert_eq!(job.array().expect("the job")[1], id);
}

fn longest_gap_us(calls: &[Call]) -> u64 {
    let is_added = |call: &&Call| {
        matches!((&call.what, &call.answer), (What::Add { .. }, Answer::Told(Reply::Bulk(_))))
    };
    let mut ends: Vec<u64> = calls.iter().filter(is_added).map(|call| call.end.us).collect();
    ends.sort_unstable();
    ends.windows(2).map(|two| two[1] - two[0]).max().expect("some were added")
}

/// What all nodes show, once that is the same.
fn same(trio: &Trio) -> Seen {
    wait_until("all nodes show the same", || {
        let look = |node| {
            let mut seen = Seen::try_look(&mut trio.wire(node), &crate::processes::calls::QUEUES)?;
            // These are a node's own: how old a job is when it is asked, and what it has seen since its start.
            let own = ["oldest-ready-age-ms", "last-reserve-at", "last-ack-at"];
            for totals in seen.stats.values_mut() {
                totals.retain(|name, _| !own.contains(&name.as_str()));
            }
            Some(seen)
        };
        let shown: Vec<Seen> = (0..NODES).map(look).collect::<Option<_>>()?;
        let is_leased = shown[0].jobs.values().any(|job| job.state == "leased");
        let differs = shown.iter().position(|one| *one != shown[0]).map(name);
        (differs.is_none() && !is_leased).then(|| shown[0].clone())
    })
}
