//! Groups in the real program, over kill -9 and orderly stops: who is in which group, who is at work, and what is set.

use crate::support::program::{Folder, Program, Reply, Wire};
use std::collections::BTreeMap;

const GROUPS: usize = 40;
const JOBS: usize = 2_000;

/// Id, group and token of each job that is handed over, in the order in which they come.
fn taken(wire: &mut Wire, count: usize) -> Vec<[String; 3]> {
    wire.ask(&format!("DELAY.RESERVE NOWAIT 1 q COUNT {count} LEASE 1h META")).jobs_in_groups()
}

/// Ready and leased jobs of each group.
fn counts(wire: &mut Wire) -> BTreeMap<String, (i64, i64)> {
    let rows = wire.ask("DELAY.GROUPS q COUNT 1000");
    let of = |row: &Reply| {
        let row = row.array().expect("a row");
        let number = |at: usize| match row[at] {
            Reply::Number(number) => number,
            ref other => panic!("{other:?}"),
        };
        assert_eq!([row[2].text(), row[6].text()], ["ready", "leased"]);
        (row[1].text().to_owned(), (number(3), number(7)))
    };
    rows.array().expect("rows").iter().map(of).collect()
}

/// The groups that their rates close, and when these open them.
fn opening(wire: &mut Wire) -> BTreeMap<String, Reply> {
    let rows = wire.ask("DELAY.GROUPS q CLOSED COUNT 100");
    let names = rows.array().expect("rows").iter().map(|row| row.array().expect("a row")[1].text());
    let of = |name: &str| {
        let stats = wire.ask(&format!("DELAY.STATS q GROUP {name}"));
        let stats = stats.array().expect("it is known");
        assert_eq!([stats[10].text(), stats[11].text()], ["state", "rate"]);
        (name.to_owned(), stats[25].clone())
    };
    names.map(of).collect()
}

/// After a kill -9, or an orderly stop with a base.
fn restarted(folder: &Folder, program: Program, kills: bool) -> (Program, Wire) {
    if kills {
        program.kill();
    } else {
        program.connect().ask("BGSAVE");
        program.stop();
    }
    let program = Program::start(&folder.0, &["--appendfsync", "always"]);
    let wire = program.connect();
    (program, wire)
}

#[test]
fn groups_are_what_they_were_after_every_way_of_ending() {
    let folder = Folder::new("groups");
    let mut program = Program::start(&folder.0, &["--appendfsync", "always"]);
    let mut wire = program.connect();
    for job in 0..JOBS {
        let group = if job < 400 { 0 } else { job % GROUPS };
        let added = wire.ask(&format!("DELAY.ADD q 0 x ID g{group}:{job} GROUP g{group}"));
        assert!(matches!(added, Reply::Bulk(_)), "{added:?}");
    }
    wire.ask("DELAY.CONFIG SET q GROUP g0 group-weight 10");
    wire.ask("DELAY.CONFIG SET q GROUP gone group-weight 2");
    let mut left = JOBS;
    for kills in [true, false, true] {
        // Whoever comes names the group that the job was added to, and no job comes twice.
        let jobs = taken(&mut wire, 200);
        left -= jobs.len();
        for [id, group, _] in &jobs {
            assert_eq!(id.split(':').next(), Some(&group[..]), "{id}");
        }
        let before = counts(&mut wire);
        assert_eq!(before.values().map(|(ready, _)| *ready).sum::<i64>(), left as i64);
        assert_eq!(before["gone"], (0, 0));
        (program, wire) = restarted(&folder, program, kills);
        assert_eq!(counts(&mut wire), before, "killed: {kills}");
        // As many from each, but for the one that has more weight: nobody has eight at work.
        let next = taken(&mut wire, GROUPS + 9);
        left -= next.len();
        let of_first = next.iter().filter(|[_, group, _]| group == "g0").count();
        let others = next.iter().map(|[_, group, _]| group).filter(|group| *group != "g0");
        let mut others: Vec<&String> = others.collect();
        let all = others.len();
        others.sort();
        others.dedup();
        assert_eq!((of_first, all, others.len()), (10, GROUPS - 1, GROUPS - 1), "{next:?}");
        for [id, _, token] in jobs.iter().chain(&next) {
            assert_eq!(wire.ask(&format!("DELAY.ACK q {id} {token}")), Reply::Number(1));
        }
    }
    assert_eq!(
        wire.ask("DELAY.CONFIG GET q GROUP g0 group-weight").array().unwrap()[1].text(),
        "10"
    );
}

#[test]
fn what_closes_a_group_closes_it_after_every_way_of_ending() {
    let folder = Folder::new("closed-groups");
    let mut program = Program::start(&folder.0, &["--appendfsync", "always"]);
    let mut wire = program.connect();
    wire.ask("DELAY.CONFIG SET q group-max-leased 2 group-retry block");
    for job in 0..40 {
        wire.ask(&format!("DELAY.ADD q 0 x ID g{}:{job} GROUP g{}", job % 4, job % 4));
    }
    wire.ask("DELAY.PAUSE q GROUP g3");
    for kills in [true, false, true] {
        // Two of each open group, one of which waits for its next attempt then.
        let jobs = taken(&mut wire, 100);
        let mut groups: Vec<&str> = jobs.iter().map(|[_, group, _]| &group[..]).collect();
        groups.sort_unstable();
        assert_eq!(groups, ["g0", "g0", "g1", "g1", "g2", "g2"]);
        let [[blocks, blocked, token], rest @ ..] = &jobs[..] else { panic!("six were taken") };
        wire.ask(&format!("DELAY.NACK q {blocks} {token} IN 1h"));
        (program, wire) = restarted(&folder, program, kills);
        assert_eq!(taken(&mut wire, 100), [[""; 3]; 0], "killed: {kills}");
        let closed = wire.ask("DELAY.GROUPS q CLOSED");
        for (number, row) in closed.array().expect("rows").iter().enumerate() {
            let row = row.array().expect("a row");
            let wanted = match number {
                3 => "paused",
                _ if row[1].text() == blocked => "retry",
                _ => "limit",
            };
            assert_eq!([row[1].text(), row[11].text()], [&format!("g{number}"), wanted]);
        }
        // What blocks goes, and who waits has the next one.
        let mut waiter = program.connect();
        waiter.push_line("DELAY.RESERVE 0 1 q LEASE 1h META");
        waiter.flush().expect("it is there");
        wire.ask(&format!("DELAY.CANCEL q {blocks}"));
        let served = waiter.read().expect("a job").jobs_in_groups();
        assert_eq!(served[0][1], *blocked);
        for [id, _, token] in rest.iter().chain(&served) {
            assert_eq!(wire.ask(&format!("DELAY.ACK q {id} {token}")), Reply::Number(1));
        }
    }
    wire.ask("DELAY.RESUME q GROUP g3");
    assert!(taken(&mut wire, 100).iter().any(|[_, group, _]| group == "g3"));
}

#[test]
fn what_a_rate_has_counted_is_counted_after_every_way_of_ending() {
    let folder = Folder::new("group-rates");
    let mut program = Program::start(&folder.0, &["--appendfsync", "always"]);
    let mut wire = program.connect();
    wire.ask("DELAY.CONFIG SET q group-rate 2/1h");
    // The second of the two may go half an hour later.
    for (round, kills) in [true, false, true].into_iter().enumerate() {
        for job in 0..40 {
            wire.ask(&format!("DELAY.ADD q 0 x ID g{round}:{job} GROUP {round}g{}", job % 20));
        }
        let take = "DELAY.RESERVE NOWAIT 1 q COUNT 100 NOACK META";
        assert_eq!(wire.ask(take).jobs_in_groups().len(), 20);
        // Of the first nothing is left but what its rate has counted.
        wire.ask(&format!("DELAY.CANCEL q g{round}:20"));
        let before = opening(&mut wire);
        (program, wire) = restarted(&folder, program, kills);
        wire.ask(&format!("DELAY.ADD q 0 x ID g{round}:20 GROUP {round}g0"));
        assert_eq!(wire.ask(take).jobs_in_groups(), [[""; 3]; 0], "killed: {kills}");
        let mut after = opening(&mut wire);
        assert!(after.remove(&format!("{round}g0")).is_some(), "{after:?}");
        assert_eq!(after, before, "killed: {kills}");
    }
}
