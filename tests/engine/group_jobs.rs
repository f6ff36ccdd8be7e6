//! The jobs of one group: PURGE and REDRIVE of them alone, in slices, and how many there may be.

use delayd::engine::Outcome;
use delayd::engine::decide::transaction::TransactionBegun;
use delayd::engine::journal_room::{Flow, Room};
use delayd::engine::model::group::Grouping;
use delayd::engine::model::request::{Add, JobState, Request, Reserve, Taken, Wait, Which};
use delayd::limits::{LOOKED_FOR_GROUP_PER_TURN, REDRIVEN_PER_TURN};

use crate::engine::bench::*;
use crate::engine::group_rates::command;
use crate::engine::groups::{asked, groups, of, popped, reserved, said, with};

const DEFAULT: [bool; 4] = [true, true, false, true];

fn purge_group(group: &'static str, states: [bool; 4]) -> Request<'static> {
    Request::Groups(Grouping::Purge { queue: queue("q"), group: group.as_bytes(), states })
}

fn redrive_group(group: &'static str, count: Option<u32>) -> Request<'static> {
    Request::Redrive(redrive("q", Which::InGroup { group: group.as_bytes(), count }))
}

/// Jobs of a and b by turns, so many of each.
fn many(bench: &mut Bench, of_each: usize) {
    for number in 0..of_each {
        bench.add(of(format!("a{number}").leak(), 0));
        bench.add(of(format!("b{number}").leak(), 1_000_000));
    }
}

/// All of them dead, in the order in which they were added.
fn dead(bench: &mut Bench, ids: &str) {
    for id in ids.split(' ') {
        let id: &'static str = id.to_owned().leak();
        bench.add(of(id, 0));
        assert_eq!(reserved(bench, 1), id);
        bench.nack(1, id, |nack| nack.bury = true);
        bench.take_events();
    }
}

#[test]
fn a_group_is_purged_in_the_states_that_are_named() {
    let all = |bench: &mut Bench| {
        dead(bench, "a1 b1");
        ["a2", "b2"].into_iter().for_each(|id| bench.add(of(id, 0)));
        assert_eq!(asked(bench, Request::Reserve(reserve(Q, Wait::No, 2))), "a2#1 b2#1");
        ["a3", "b3"].into_iter().for_each(|id| bench.add(of(id, 0)));
        ["a4", "b4"].into_iter().for_each(|id| bench.add(of(id, 1_000)));
        bench.add(of("x1", 0));
    };
    for (states, gone, left) in [
        (DEFAULT, "3", "a:[0, 0, 1, 0] b:[1, 1, 1, 1]"),
        ([false, false, true, false], "1", "a:[1, 1, 0, 1] b:[1, 1, 1, 1]"),
        ([false, true, false, false], "1", "a:[1, 0, 1, 1] b:[1, 1, 1, 1]"),
        ([true; 4], "4", "b:[1, 1, 1, 1]"),
    ] {
        let mut bench = Bench::new();
        all(&mut bench);
        let deleted = bench.stats("q").totals.deleted;
        assert_eq!(asked(&mut bench, purge_group("a", states)), gone);
        assert_eq!(groups(&mut bench), left);
        assert_eq!(bench.stats("q").totals.deleted.to_string(), gone, "{deleted} before");
        assert_eq!(asked(&mut bench, purge_group("unknown", states)), "0");
    }
}

#[test]
fn it_is_done_in_slices_and_what_comes_meanwhile_stays() {
    let mut bench = Bench::new();
    let all = LOOKED_FOR_GROUP_PER_TURN;
    many(&mut bench, all);
    assert_eq!(bench.ask(1, purge_group("a", DEFAULT)), Outcome::Again);
    assert_eq!(bench.take_events(), [""; 0]);
    // The same ids again, for those that are gone, and others.
    let gone = all - bench.stats("q").ready as usize;
    assert!(gone > 100, "{gone} in the first slice");
    bench.at(1);
    for number in 0..gone {
        bench.add(of(format!("an{number}").leak(), 0));
    }
    let mut turns = 1;
    while bench.ask(1, purge_group("a", DEFAULT)) == Outcome::Again {
        turns += 1;
    }
    assert_eq!(said(&mut bench), all.to_string());
    assert!((2..6).contains(&turns), "{turns} turns for {} jobs", 2 * all);
    assert_eq!(groups(&mut bench), format!("a:[0, {gone}, 0, 0] b:[{all}, 0, 0, 0]"));
    assert_eq!(popped(&mut bench, 1), "an0");
}

#[test]
fn what_falls_due_while_it_is_done_goes_all_the_same() {
    let mut bench = Bench::new();
    // The whole begins within the ms in which the last of them were added.
    for number in 0..LOOKED_FOR_GROUP_PER_TURN {
        bench.add(of(format!("b{number}").leak(), 0));
    }
    for number in 0..1_000 {
        bench.add(of(format!("a{number}").leak(), 3));
    }
    assert_eq!(bench.ask(1, purge_group("a", DEFAULT)), Outcome::Again);
    ["a-new", "a-soon"]
        .into_iter()
        .zip([0, 9])
        .for_each(|(id, delay_ms)| bench.add(of(id, delay_ms)));
    bench.at(3);
    assert_eq!(asked(&mut bench, purge_group("a", DEFAULT)), "1000");
    assert_eq!(popped(&mut bench, 1), "b0");
    assert!(groups(&mut bench).starts_with("a:[1, 1, 0, 0]"), "{}", groups(&mut bench));
}

#[test]
fn what_it_was_to_purge_is_gone_with_its_queue() {
    let mut bench = Bench::new();
    many(&mut bench, LOOKED_FOR_GROUP_PER_TURN);
    assert_eq!(bench.ask(1, purge_group("a", DEFAULT)), Outcome::Again);
    let left = bench.stats("q").ready as usize;
    bench.ask(2, remove(&[b"q"]));
    bench.take_events();
    bench.add(of("a1", 0));
    let gone = LOOKED_FOR_GROUP_PER_TURN - left;
    assert_eq!(asked(&mut bench, purge_group("a", DEFAULT)), gone.to_string());
    assert_eq!(groups(&mut bench), "a:[0, 1, 0, 0]");
}

#[test]
fn a_purge_of_leases_opens_the_group_for_who_waits() {
    let mut bench = with("a1 a2");
    bench.ask(1, command("DELAY.CONFIG SET q group-max-leased 1"));
    assert_eq!(reserved(&mut bench, 1), "a1");
    bench.ask(
        2,
        Request::Reserve(Reserve { lease_ms: Some(9_000), ..reserve(Q, Wait::Forever, 1) }),
    );
    bench.take_events();
    bench.ask(1, purge_group("a", [false, false, true, false]));
    bench.expect_events(&["1:1", "2:a2#1"]);
}

#[test]
fn those_of_a_group_that_died_first_are_redriven_first() {
    let mut bench = Bench::new();
    dead(&mut bench, "a1 b1 a2 x1 b2 a3 b3");
    assert_eq!(asked(&mut bench, redrive_group("a", Some(2))), "2");
    assert_eq!(groups(&mut bench), "a:[0, 2, 0, 1] b:[0, 0, 0, 3]");
    assert_eq!(asked(&mut bench, redrive_group("b", None)), "3");
    assert_eq!(asked(&mut bench, redrive_group("c", None)), "0");
    assert_eq!(popped(&mut bench, 6), "a1 b1 a2 b2 b3 nil");
    assert_eq!(asked(&mut bench, redrive_group("a", None)), "1");
    assert_eq!(asked(&mut bench, redrive_group("a", None)), "0");
}

#[test]
fn a_redrive_goes_on_behind_what_it_has_passed_whatever_becomes_of_it() {
    for loses in [false, true] {
        let mut bench = Bench::new();
        let others = 2 * LOOKED_FOR_GROUP_PER_TURN + 10;
        for number in 0..others {
            bench.add(of(format!("b{number}").leak(), 0));
        }
        bench.add(of("a1", 0));
        bench.add(of("a2", 0));
        let take =
            Request::Reserve(Reserve { lease_ms: Some(9_000), ..reserve(Q, Wait::No, 10_000) });
        bench.ask(1, take);
        bench.take_events();
        for number in 0..others {
            bench.nack(1, format!("b{number}").leak(), |nack| nack.bury = true);
        }
        ["a1", "a2"].into_iter().for_each(|id| bench.nack(1, id, |nack| nack.bury = true));
        bench.take_events();
        let mut turns = 1;
        while bench.ask(1, redrive_group("a", None)) == Outcome::Again {
            turns += 1;
            if loses {
                // The one that was looked at last, among others.
                let ids: Vec<String> =
                    (0..LOOKED_FOR_GROUP_PER_TURN).map(|at| format!("b{at}")).collect();
                let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes()).collect();
                bench.ask(2, Request::Delete { queue: queue("q"), ids: &ids });
                bench.take_events();
            }
        }
        assert_eq!(said(&mut bench), "2", "{loses}");
        assert_eq!(turns, 3, "{loses}");
        assert_eq!(popped(&mut bench, 3), "a1 a2 nil");
    }
}

#[test]
fn a_redrive_of_many_takes_turns_and_leaves_those_that_die_meanwhile() {
    let mut bench = Bench::new();
    let all = REDRIVEN_PER_TURN as usize + 5;
    let ids: Vec<&'static str> = (0..all).map(|at| &*format!("a{at}").leak()).collect();
    ids.iter().for_each(|id| bench.add(of(id, 0)));
    let take =
        |count| Request::Reserve(Reserve { lease_ms: Some(9_000), ..reserve(Q, Wait::No, count) });
    bench.ask(1, take(10_000));
    ids.iter().for_each(|id| bench.nack(1, id, |nack| nack.bury = true));
    bench.take_events();
    assert_eq!(bench.ask(1, redrive_group("a", None)), Outcome::Again);
    bench.ask(2, take(1));
    bench.nack(2, "a0", |nack| nack.bury = true);
    bench.take_events();
    assert_eq!(asked(&mut bench, redrive_group("a", None)), all.to_string());
    assert_eq!(groups(&mut bench), format!("a:[0, {}, 0, 1]", all - 1));
}

#[test]
fn neither_can_be_part_of_a_transaction() {
    let mut bench = with("a1");
    for request in [purge_group("a", DEFAULT), redrive_group("a", None)] {
        let begun = bench.begin(1, &[request]);
        let TransactionBegun::Refused(error) = begun else { panic!("{begun:?}") };
        assert!(error.to_string().ends_with("works in slices and cannot be part of a transaction"));
    }
    assert_eq!(groups(&mut bench), "a:[0, 1, 0, 0]");
}

#[test]
fn a_purge_may_use_the_reserve_and_says_how_far_it_came() {
    let mut bench = Bench::new();
    for number in 0..500 {
        bench.add(Add { id: None, ..of(format!("a{number}").leak(), 0) });
    }
    bench.flow(Flow::Running { room: Room::of(0, 5_000) });
    let gone: u64 = asked(&mut bench, purge_group("a", DEFAULT)).parse().expect("a number");
    assert!((10..500).contains(&gone), "{gone}");
    assert_eq!(bench.stats("q").ready, 500 - gone);
    assert_eq!(asked(&mut bench, len("q", JobState::Ready)), (500 - gone).to_string());
}

#[test]
fn a_group_takes_no_more_jobs_than_its_limit() {
    let mut bench = with("a1 a2 b1");
    assert_eq!(reserved(&mut bench, 3), "a1 b1 a2");
    bench.ask(1, command("DELAY.CONFIG SET q group-max-jobs 2"));
    bench.take_events();
    let replacing = |id, group: &'static str| {
        let group = Some(group.as_bytes());
        Request::Add(Add { taken: Taken::Replace, group, ..of(id, 0) })
    };
    // Delayed, ready and leased ones count, dead ones do not; a place that becomes free does.
    assert_eq!(asked(&mut bench, Request::Add(of("a3", 1_000))), "FULL");
    assert_eq!(asked(&mut bench, replacing("b1", "a")), "FULL");
    assert_eq!(asked(&mut bench, replacing("a2", "a")), "a2");
    assert_eq!(asked(&mut bench, replacing("a2", "b")), "a2");
    assert_eq!(asked(&mut bench, Request::Add(of("a3", 1_000))), "a3");
    assert_eq!(asked(&mut bench, Request::Add(of("x1", 0))), "x1");
    bench.nack(1, "a1", |nack| nack.bury = true);
    bench.take_events();
    assert_eq!(asked(&mut bench, Request::Add(of("a4", 0))), "a4");
    // Its own limit comes before the queue's, and 0 is none.
    bench.ask(1, command("DELAY.CONFIG SET q GROUP a group-max-jobs 3"));
    bench.take_events();
    assert_eq!(asked(&mut bench, Request::Add(of("a5", 0))), "a5");
    assert_eq!(asked(&mut bench, Request::Add(of("a6", 0))), "FULL");
    bench.ask(1, command("DELAY.CONFIG SET q GROUP a group-max-jobs 0"));
    bench.take_events();
    assert_eq!(asked(&mut bench, Request::Add(of("a6", 0))), "a6");
}

#[test]
fn redriven_jobs_and_occurrences_come_beyond_the_limit() {
    let mut bench = Bench::new();
    dead(&mut bench, "a1 a2");
    bench.ask(1, command("DELAY.CONFIG SET q group-max-jobs 2"));
    bench.take_events();
    assert_eq!(asked(&mut bench, Request::Add(of("a3", 0))), "a3");
    assert_eq!(asked(&mut bench, redrive_group("a", None)), "2");
    bench.ask(1, command("DELAY.SCHEDULE SET q s x EVERY 1s GROUP a"));
    bench.at(1_000);
    assert_eq!(groups(&mut bench), "a:[0, 4, 0, 0]");
    // The queue's limit holds for both, and is asked first.
    bench.ask(1, command("DELAY.CONFIG SET q max-jobs 4"));
    bench.at(3_000);
    assert_eq!(groups(&mut bench), "a:[0, 4, 0, 0]");
}

#[test]
fn a_transaction_is_refused_that_would_fill_a_group() {
    let mut bench = with("a1");
    bench.ask(1, command("DELAY.CONFIG SET q group-max-jobs 3"));
    bench.take_events();
    let add = |id| Request::Add(of(id, 0));
    let digest = bench.engine.digest();
    let refusal = bench.refusal(1, &[add("a2"), add("b1"), add("a3"), add("a4")]);
    assert!(refusal.starts_with("FULL group 'a' of queue 'q' has 3 "), "{refusal}");
    // Whatever is set, unset or brought back in it: it is refused as a whole, or runs to its end.
    for between in [
        vec![command("DELAY.CONFIG SET q GROUP a group-max-jobs 1")],
        vec![command("DELAY.CONFIG RESET q"), command("DELAY.CONFIG SET q group-max-jobs 1")],
        vec![rename("q", "r"), rename("r", "q"), add("a3"), add("a4")],
    ] {
        let all: Vec<Request<'_>> =
            [add("a2")].into_iter().chain(between).chain([add("a9")]).collect();
        let refusal = bench.refusal(1, &all);
        assert!(refusal.starts_with("FULL group 'a' "), "{refusal}");
    }
    assert_eq!(bench.engine.digest(), digest);
    let begun = bench.transact(1, &[add("a2"), add("a3"), add("b1"), add("b2"), add("b3")]);
    assert!(matches!(begun, TransactionBegun::Begun(_)), "{begun:?}");
    bench.expect_events(&["1:a2", "1:a3", "1:b1", "1:b2", "1:b3"]);
}
