//! What closes a group is state: it holds whoever leads.

use crate::processes::trio::{Trio, wait_until};
use crate::support::program::{Reply, Wire};

/// Id, group and token of each job that may be taken.
fn taken(wire: &mut Wire) -> Vec<[String; 3]> {
    wire.ask("DELAY.RESERVE NOWAIT 1 q COUNT 100 LEASE 1h META").jobs_in_groups()
}

/// Name and state of the closed groups.
fn closed(wire: &mut Wire) -> Vec<[String; 2]> {
    let rows = wire.ask("DELAY.GROUPS q CLOSED");
    let of = |row: &Reply| {
        let row = row.array().expect("a row");
        [&row[1], &row[11]].map(|word| word.text().to_owned())
    };
    rows.array().expect("rows").iter().map(of).collect()
}

#[test]
fn closed_groups_stay_closed_whoever_leads() {
    let mut trio = Trio::start("groups", &[]);
    let mut wire = trio.wire(trio.leader());
    wire.ask("DELAY.CONFIG SET q group-max-leased 1 group-retry block");
    for job in 0..18 {
        wire.ask(&format!("DELAY.ADD q 0 x ID g{}:{job} GROUP g{}", job % 3, job % 3));
    }
    wire.ask("DELAY.PAUSE q GROUP g2");
    wire.ask("DELAY.CONFIG SET slow group-rate 1/1h");
    for way in ["FAILOVER", "SIGTERM", "kill -9"] {
        let jobs = taken(&mut wire);
        let [[blocks, blocked, token], [other, group, other_token]] = &jobs[..] else {
            panic!("{way}: {jobs:?}")
        };
        wire.ask(&format!("DELAY.NACK q {blocks} {token} IN 1h"));
        for job in 0..2 {
            wire.ask(
                &format!("DELAY.ADD slow 0 x ID {way}:{job} GROUP {way}")
                    .replace("kill -9", "kill"),
            );
        }
        assert!(wire.ask("DELAY.POP slow NOWAIT").array().is_some(), "before {way}");
        wire.ask(&format!("DELAY.ADD q 0 newer ID {other} LATEST GROUP {group}"));
        let leader = trio.leader();
        match way {
            "FAILOVER" => assert_eq!(wire.ask(way), Reply::Simple("OK".to_owned())),
            "SIGTERM" => drop(trio.stop(leader)),
            _ => drop(trio.kill(leader)),
        }
        wait_until("another one leads", || trio.try_leader().filter(|leads| *leads != leader));
        if !trio.runs(leader) {
            trio.begin(leader);
            trio.wait_for_voters();
        }
        wire = trio.wire(trio.leader());
        assert_eq!(taken(&mut wire), [[""; 3]; 0], "after {way}");
        // Its rate has counted the one that is gone.
        assert_eq!(wire.ask("DELAY.POP slow NOWAIT"), Reply::Nil, "after {way}");
        let states = closed(&mut wire).into_iter().map(|[group, state]| {
            let wanted = match &group[..] {
                "g2" => "paused",
                group if group == blocked => "retry",
                _ => "limit",
            };
            assert_eq!(state, wanted, "{group} after {way}");
        });
        assert_eq!(states.count(), 3);
        // What blocks goes, and who waits has the next one.
        let mut waiter = trio.wire(trio.leader());
        waiter.push_line("DELAY.RESERVE 0 1 q LEASE 1h META");
        waiter.flush().expect("it is there");
        wire.ask(&format!("DELAY.CANCEL q {blocks}"));
        let served = waiter.read().expect("a job").jobs_in_groups();
        let [[id, group, token]] = &served[..] else { panic!("{way}: {served:?}") };
        assert_eq!(group, blocked, "after {way}");
        for (id, token) in [(other, other_token), (id, token)] {
            assert_eq!(wire.ask(&format!("DELAY.ACK q {id} {token}")), Reply::Number(1));
        }
        // A job that followed a lease comes with whoever leads then.
        let followed = wire.ask(&format!("DELAY.GET q {other}"));
        let followed = followed.array().expect("it follows");
        assert_eq!([followed[3].text(), followed[5].text()], ["ready", "newer"], "after {way}");
        wire.ask(&format!("DELAY.DEL q {other}"));
    }
}
