//! The rules of the driver (`src/cluster/raft/node.rs`), each by what happens where it is broken.

use super::world::{E, MS, Options, SECOND, World};
use delayd::cluster::members::Members;
use delayd::cluster::peer::frame::Lane;
use delayd::cluster::raft::codec::{Head, Outgoing};
use delayd::cluster::raft::entry::{Base, EpochFacts, LogEntry, Payload};
use delayd::cluster::raft::node::Node;
use delayd::cluster::raft::output::{NotProposed, RaftRole, RefusedMessage};
use delayd::cluster::raft::start::{Start, WrongStart};
use delayd::limits::{WINDOW_BATCHES_MAX, WINDOW_BYTES_MAX};
use delayd::time::Micros;
use rand::Rng;

fn facts(body: Vec<u8>) -> EpochFacts {
    EpochFacts { first: 7, now: Micros(1_000), count: 1, body: body.into() }
}

/// Cuts a machine off, both ways, or joins it again.
fn set_cut(world: &mut World, at: usize, is_cut: bool) {
    let id = at as u64 + 1;
    for other in 1..=world.machines.len() as u64 {
        for link in [(id, other), (other, id)] {
            if is_cut {
                world.cut.insert(link);
            } else {
                world.cut.remove(&link);
            }
        }
    }
}

fn others(world: &World, at: usize) -> Vec<usize> {
    (0..world.machines.len()).filter(|other| *other != at).collect()
}

fn propose_for(world: &mut World, us: u64, every: u64) {
    let end = world.now + us;
    while world.now < end {
        if let Some(leader) = world.leader() {
            world.propose(leader, 100);
        }
        world.run_until(world.now + every);
    }
}

/// A follower that lacks what the leader's log no longer has; it is cut off.
fn left_behind(world: &mut World) -> (usize, usize) {
    let leader = world.wait_for_leader();
    let behind = others(world, leader)[0];
    set_cut(world, behind, true);
    propose_for(world, 100 * MS, MS);
    world.run_until(world.now + 10 * MS);
    let machine = &mut world.machines[leader];
    let node = machine.node();
    let (index, members) = (node.applied(), node.members().clone());
    let term = node.term_of(index).expect("it is in the log");
    let base = Base { index, term, members };
    node.base_made(base.clone());
    node.log_dropped(index + 1);
    machine.disk.put_base(base, index + 1);
    (leader, behind)
}

/// A node that was sent a base, and nothing after it, asks for votes: what it would have to look at before is no
/// longer there, unless the base counts as applied.
#[test]
fn a_received_base_is_applied_when_it_is_durable() {
    let mut world = World::new(1, Options::calm(3));
    let (leader, behind) = left_behind(&mut world);
    set_cut(&mut world, behind, false);
    world.wait_for("the base is there", SECOND, |world| world.bases_restored == 1);
    let node = world.machines[behind].node();
    assert_eq!(node.applied(), node.base().index);
    assert_eq!(node.last(), node.base().index, "nothing came after the base");
    // Only it can be elected: the third machine is down.
    let third = (0..3).find(|at| ![leader, behind].contains(at)).expect("three");
    world.kill(third);
    set_cut(&mut world, leader, true);
    world.run_until(world.now + 3 * E);
    assert!(matches!(world.machines[behind].node().role(), RaftRole::Candidate));
    world.start(third);
    world.wait_for("one of the two leads", 10 * E, |world| {
        [behind, third].iter().any(|at| world.machines[*at].leads())
    });
}

/// The disk takes its time with a base, and the leader is gone by then: Raft looks through what is not applied before it
/// asks for votes, and that is no longer there.
#[test]
fn nobody_asks_for_votes_before_a_received_base_is_durable() {
    let mut world = World::new(3, Options::calm(3));
    let (leader, behind) = left_behind(&mut world);
    world.machines[behind].disk.sync_us = 6 * E;
    set_cut(&mut world, behind, false);
    world.wait_for("the base is written", SECOND, |world| {
        let node = world.machines[behind].node.as_ref().expect("it runs");
        node.base().index > node.applied()
    });
    let third = (0..3).find(|at| ![leader, behind].contains(at)).expect("three");
    world.kill(leader);
    world.kill(third);
    world.run_until(world.now + 4 * E);
    let node = world.machines[behind].node();
    assert!(node.base().index > node.applied(), "the disk is at it still");
    assert!(matches!(node.role(), RaftRole::Follower));
    world.run_until(world.now + 5 * E);
    assert!(matches!(world.machines[behind].node().role(), RaftRole::Candidate));
    world.machines[behind].disk.sync_us = 100;
    world.start(leader);
    world.wait_for("a leader", 10 * E, |world| {
        [behind, leader].iter().any(|at| world.machines[*at].leads())
    });
}

/// The base is lost on its way, and whoever sent it forgets to say so: its receiver is sent another one all the same.
#[test]
fn a_base_that_was_sent_ends() {
    let mut options = Options::calm(3);
    (options.bases_lost, options.ends_untold) = (100, 100);
    let mut world = World::new(2, options);
    let (_, behind) = left_behind(&mut world);
    set_cut(&mut world, behind, false);
    world.wait_for("a base is sent", SECOND, |world| world.bases_sent == 1);
    world.options.bases_lost = 0;
    let took = world.wait_for("another one", 12 * E, |world| world.bases_restored == 1);
    assert!(took > 9 * E, "it had its time: {took} µs");
    world.wait_for("all is equal", SECOND, World::is_equal);

    // One that goes on is waited for: it takes twenty times E.
    let mut options = Options::calm(3);
    options.base_us = 20 * E;
    let mut world = World::new(2, options);
    let (_, behind) = left_behind(&mut world);
    set_cut(&mut world, behind, false);
    world.wait_for("a slow base", 25 * E, |world| world.bases_restored == 1);
    assert_eq!(world.bases_sent, 1);
}

/// Whoever joins is in no base that was made before: it is sent one that is made afterwards, and no other.
#[test]
fn a_base_goes_only_to_its_members() {
    let mut world = World::new(3, Options::calm(3));
    let (leader, behind) = left_behind(&mut world);
    set_cut(&mut world, behind, false);
    world.wait_for("all is equal", SECOND, World::is_equal);
    let (sent, old) = (world.bases_sent, world.machines[leader].node().base().index);
    let joins = world.add_machine(Base::default());
    let node = world.machines[leader].node();
    let members = node.members().clone();
    let target = Members { learners: vec![joins as u64 + 1], ..members };
    let index = node.change(&target).expect("a leader without another change");
    world.settle(leader);
    world.wait_for("the newcomer has all", 5 * SECOND, |world| {
        world.machines[joins].node.as_ref().is_some_and(|node| node.applied() >= index)
    });
    assert_eq!(world.bases_sent, sent + 1, "one base, that it could use");
    assert!(world.machines[joins].node().base().index >= index && old < index);
    world.wait_for("all is equal", SECOND, World::is_equal);
}

/// A leader that is cut off is confirmed by nobody, whatever it still believes.
#[test]
fn leadership_is_confirmed_by_a_majority_each_time() {
    for seed in 0..40 {
        let mut world = World::new(seed, Options::calm(3));
        let leader = world.wait_for_leader();
        propose_for(&mut world, 50 * MS, MS);
        let promises = world.promises;
        world.run_until(world.now + E);
        assert!(world.promises > promises, "while all is well it is, each heartbeat");
        let until = world.machines[leader].lease_until();
        assert!(until > world.now, "and has the lease");
        set_cut(&mut world, leader, true);
        let others = others(&world, leader);
        // The world looks at each moment whether one has the lease while another leads.
        world.wait_for("another leads", 5 * E, |world| {
            others.iter().any(|at| world.machines[*at].leads())
        });
        assert!(world.machines[leader].lease_until() <= until, "seed {seed}: no answer, no lease");
        world.run_until(world.now + E);
    }
}

/// A follower that has promised to elect nobody is restarted, and has forgotten that. The leader is cut off meanwhile
/// and has its lease; the third node, that heard nothing for a while, asks for votes.
#[test]
fn no_vote_for_e_after_a_start() {
    for seed in 0..60 {
        let mut world = World::new(seed, Options::calm(3));
        let leader = world.wait_for_leader();
        propose_for(&mut world, 50 * MS, MS);
        let both = others(&world, leader);
        let (forgets, asks) = (both[0], both[1]);
        set_cut(&mut world, asks, true);
        world.run_until(world.now + 2 * E);
        // It heard the leader to the end.
        set_cut(&mut world, leader, true);
        world.kill(forgets);
        set_cut(&mut world, asks, false);
        world
            .cut
            .extend([(leader as u64 + 1, asks as u64 + 1), (asks as u64 + 1, leader as u64 + 1)]);
        let begin = world.now;
        world.start(forgets);
        let ms = world.chance.random_range(0..50);
        world.run_until(begin + ms * MS);
        let took = world.wait_for("one of the two leads", 10 * E, |world| {
            both.iter().any(|at| world.machines[*at].leads())
        });
        assert!(world.now - begin >= E - 12 * MS, "seed {seed}: elected after {took} µs");
    }
}

/// The leader asks another node to take over and is gone: the third one has just started, and without its vote there is no
/// majority.
#[test]
fn who_has_just_started_votes_for_who_was_asked_to_lead() {
    for seed in 0..60 {
        let mut world = World::new(seed, Options::calm(3));
        let leader = world.wait_for_leader();
        propose_for(&mut world, 50 * MS, MS);
        world.run_until(world.now + 10 * MS);
        let [starts, takes_over] = others(&world, leader)[..] else { panic!("three nodes") };
        world.kill(starts);
        world.run_until(world.now + 10 * MS);
        world.start(starts);
        let ms = world.chance.random_range(0..200);
        world.run_until(world.now + ms * MS);
        assert!(world.transfer(leader, takes_over as u64 + 1));
        world.run_until(world.now + 150);
        world.kill(leader);
        let took = world
            .wait_for("the other one leads", 10 * E, |world| world.machines[takes_over].leads());
        assert!(took < 20 * MS, "seed {seed}: {took} µs");
        world.start(leader);
        world.wait_for("all is equal", 10 * E, World::is_equal);
    }
}

/// 3 MiB take 31 ms on their way, small batches before and after them: everything is sent once. And 100 MB take
/// a second, in which nobody is deposed.
#[test]
fn appends_go_in_order_and_nothing_else_behind_them() {
    let mut world = World::new(6, Options::calm(3));
    let leader = world.wait_for_leader();
    propose_for(&mut world, 50 * MS, MS);
    let (sent, term) = (world.sent_bytes, world.machines[leader].node().term());
    // The first is committed while the second is on its way: an empty append says so.
    assert!(world.propose(leader, 100) && world.propose(leader, 3 << 20));
    for _ in 0..5 {
        world.run_until(world.now + MS);
        assert!(world.propose(leader, 100));
    }
    world.run_until(world.now + SECOND / 2);
    world.wait_for("all is equal", SECOND, World::is_equal);
    let sent = world.sent_bytes - sent;
    assert!(sent < 2 * (3 << 20) + (200 << 10), "{sent} bytes for two followers");
    // A second's worth of bytes: heartbeats do not wait behind them.
    assert!(world.propose(leader, 100_000_000));
    world.wait_for("it is there", 2 * SECOND, World::is_equal);
    assert_eq!(world.machines[leader].node().term(), term, "nobody was elected meanwhile");
}

/// Node B is replaced. The leader is lost in the joint state, and B alone may lead: it ends the joint state, and with it
/// its own leading.
#[test]
fn a_leader_that_is_no_voter_any_more_steps_down() {
    let mut world = World::new(11, Options::calm(3));
    let leader = world.wait_for_leader();
    propose_for(&mut world, 50 * MS, MS);
    let [leaves, stays] = others(&world, leader)[..] else { panic!("three nodes") };
    let joins = world.add_machine(Base::default());
    let members = world.machines[leader].node().members().clone();
    let learner = joins as u64 + 1;
    let target = Members { learners: vec![learner], ..members.clone() };
    world.machines[leader].node().change(&target).expect("no other change");
    world.settle(leader);
    world.wait_for("the newcomer has all", 5 * SECOND, World::is_equal);

    // What the leader does not have durable it does not apply: it never ends the joint state.
    world.machines[leader].disk.sync_us = SECOND;
    let mut voters = members.voters.clone();
    voters.retain(|id| *id != leaves as u64 + 1);
    voters.push(learner);
    world.machines[leader].node().change(&Members::of(voters.clone())).expect("it is over");
    world.settle(leader);
    world.wait_for("all others are joint", SECOND, |world| {
        let is_joint = |at: &usize| {
            world.machines[*at].node.as_ref().is_some_and(|node| node.members().is_joint())
        };
        [leaves, stays, joins].iter().all(is_joint)
    });
    world.kill(leader);
    for at in [stays, joins] {
        world.machines[at].node().set_may_lead(false);
    }
    world.wait_for("the joint state is over", 10 * E, |world| {
        let is_over = |at: &usize| {
            world.machines[*at].node.as_ref().is_some_and(|node| *node.members().voters == voters)
                && world.machines[*at].node.as_ref().is_some_and(|node| !node.members().is_joint())
        };
        [leaves, stays, joins].iter().all(is_over)
    });
    assert!(world.audit.leaders() >= 2);
    assert!(world.leader().is_none(), "nobody who may leads");
    for at in [stays, joins] {
        world.machines[at].node().set_may_lead(true);
    }
    world.wait_for("a voter leads", 10 * E, |world| world.leader().is_some());
    assert_ne!(world.leader(), Some(leaves));
    propose_for(&mut world, 50 * MS, MS);
}

/// What is proposed leaves at once, and counts here only when it is durable here.
#[test]
fn appends_leave_before_the_leader_has_synced_and_answers_after_the_follower_has() {
    let mut world = World::new(7, Options::calm(3));
    let leader = world.wait_for_leader();
    propose_for(&mut world, 50 * MS, MS);
    world.run_until(world.now + 100 * MS);
    let node = world.machines[leader].node();
    let term = node.term();
    let facts = facts(b"facts".to_vec());
    let index = node.propose(term, facts.clone()).expect("a leader");
    let out = node.take_output();
    let is_append = |frame: &&Outgoing| frame.lane == Lane::Data && !frame.bodies.is_empty();
    let append = out.messages.iter().find(is_append).cloned().expect("before any sync");
    assert_eq!((out.writes.len(), out.committed.len()), (1, 0));
    let write = &out.writes[0];
    assert_eq!(write.entries[0].payload, Payload::Facts(facts));
    assert_eq!(write.entries[0].node, leader as u64 + 1);

    let follower = &mut world.machines[append.to as usize - 1];
    let head = Head::read(&append.head).expect("a node's");
    let from = head.from();
    follower.node().receive(from, head, append.bodies).expect("a member's");
    let out = follower.node().take_output();
    assert_eq!(out.messages, [], "nothing is promised before it is durable");
    let number = out.writes[0].number;
    follower.node().persisted(number);
    let out = follower.node().take_output();
    let [answer] = &out.messages[..] else { panic!("one answer, not {:?}", out.messages) };

    // The follower alone is no majority; with the leader's own disk it is.
    let head = Head::read(&answer.head).expect("a node's");
    let from = head.from();
    let node = world.machines[leader].node();
    node.receive(from, head, Vec::new()).expect("a member's");
    assert!(node.take_output().committed.is_empty(), "not durable here");
    node.persisted(write.number);
    let committed = node.take_output().committed;
    assert_eq!(committed.iter().map(|entry| entry.index).collect::<Vec<_>>(), [index]);
}

/// Eight batches or 4 MiB; one batch may be larger. What was decided in another term is refused.
#[test]
fn what_is_in_flight_is_bounded() {
    let mut world = World::new(8, Options::calm(3));
    let leader = world.wait_for_leader();
    world.run_until(world.now + 100 * MS);
    let node = world.machines[leader].node();
    let term = node.term();
    let propose = |node: &mut Node, bytes| node.propose(term, facts(vec![1; bytes]));
    let taken = (0..20).take_while(|_| propose(node, 100).is_ok()).count();
    assert_eq!(taken, WINDOW_BATCHES_MAX);
    assert_eq!(propose(node, 100), Err(NotProposed::Full));
    world.settle(leader);
    world.wait_for("all is equal", SECOND, World::is_equal);
    let node = world.machines[leader].node();
    assert!(propose(node, WINDOW_BYTES_MAX - 100).is_ok() && propose(node, 100).is_ok());
    assert_eq!(propose(node, 1), Err(NotProposed::Full));
    world.settle(leader);
    world.wait_for("all is equal", SECOND, World::is_equal);
    let node = world.machines[leader].node();
    assert!(propose(node, WINDOW_BYTES_MAX + 1).is_ok(), "a large one by itself");
    assert_eq!(propose(node, 1), Err(NotProposed::Full));
    let stale = NotProposed::Stale { decided: term - 1, now: term };
    assert_eq!(node.propose(term - 1, facts(vec![1])), Err(stale));
    assert_eq!(node.propose(term, facts(Vec::new())), Err(NotProposed::Size(0)));
    world.settle(leader);
    let follower = others(&world, leader)[0];
    let node = world.machines[follower].node();
    assert_eq!(node.propose(term, facts(vec![1])), Err(NotProposed::NotLeader));
}

/// A node whose state is not loaded votes, so that another leads, and never does so itself.
#[test]
fn a_node_that_may_not_lead_votes_and_never_leads() {
    for seed in 0..20 {
        let mut world = World::new(seed, Options::calm(3));
        let leader = world.wait_for_leader();
        propose_for(&mut world, 50 * MS, MS);
        let both = others(&world, leader);
        world.machines[both[0]].node().set_may_lead(false);
        world.kill(leader);
        world.wait_for("the other leads", 10 * E, |world| world.machines[both[1]].leads());
        // Handed to it, it does not take it either, nor disturb.
        let term = world.machines[both[1]].node().term();
        world.transfer(both[1], both[0] as u64 + 1);
        world.run_until(world.now + 3 * E);
        assert!(world.machines[both[1]].leads(), "seed {seed}");
        assert_eq!(world.machines[both[1]].node().term(), term, "seed {seed}");
        // Nor when it is alone with a node that has less.
        world.kill(both[1]);
        world.run_until(world.now + 5 * E);
        assert_eq!(world.leader(), None);
        let role = world.machines[both[0]].node().role();
        assert!(matches!(role, RaftRole::Follower), "seed {seed}: {role:?}");
    }
}

/// Once leadership was to be handed over, whoever was to take it may still do so, however late it hears: this leader
/// is confirmed and promised nothing for the rest of its term.
#[test]
fn a_hand_over_that_failed_leaves_no_promise() {
    let mut world = World::new(9, Options::calm(3));
    let leader = world.wait_for_leader();
    propose_for(&mut world, 50 * MS, MS);
    world.run_until(world.now + E);
    assert!(world.machines[leader].lease_until() > world.now);
    let to = others(&world, leader)[0];
    world.pause(to, 2 * E);
    assert!(world.transfer(leader, to as u64 + 1));
    let promises = world.promises;
    world.run_until(world.now + E + E / 2);
    assert!(world.machines[leader].leads() && !world.machines[leader].node().is_transferring());
    assert_eq!(world.promises, promises);
    assert!(world.machines[leader].lease_until() <= world.now);
    // It wakes, reads what it was told, and leads: the world checks that nobody had the lease.
    world.wait_for("it leads", 3 * E, |world| world.machines[to].leads());
    world.wait_for("all is equal", SECOND, World::is_equal);
}

/// Who has just begun is asked before it is fit to lead: it takes over as soon as it is, if that is within E.
#[test]
fn who_was_asked_before_it_was_fit_takes_over_once_it_is() {
    for late in [false, true] {
        let mut world = World::new(11, Options::calm(3));
        let leader = world.wait_for_leader();
        propose_for(&mut world, 50 * MS, MS);
        let to = others(&world, leader)[0];
        world.machines[to].node().set_may_lead(false);
        assert!(world.transfer(leader, to as u64 + 1));
        let wait = if late { 2 * E } else { E / 2 };
        world.run_until(world.now + wait);
        assert!(!world.machines[to].leads());
        world.machines[to].node().set_may_lead(true);
        world.run_until(world.now + 20 * MS);
        assert_eq!(world.machines[to].leads(), !late);
        world.wait_for("all is equal", SECOND, World::is_equal);
    }
}

/// Peers' messages in another's name, for another, or about entries that are not there.
#[test]
fn messages_that_cannot_be_are_refused() {
    let mut world = World::new(10, Options::calm(3));
    let leader = world.wait_for_leader();
    propose_for(&mut world, 50 * MS, MS);
    let follower = others(&world, leader)[0];
    let (me, it) = (leader as u64 + 1, follower as u64 + 1);
    let node = world.machines[leader].node();
    let (term, last) = (node.term(), node.last());
    // kind, flags, entries, zero; from, to, term, index, its term, commit, extra
    let head = |kind: u8, from: u64, to: u64, index: u64, commit: u64| {
        let mut bytes = vec![kind, 0, 0, 0, 0, 0, 0, 0];
        [from, to, term, index, 0, commit, 0].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        Head::read(&bytes).expect("a head")
    };
    let nodes = |peer, from, to| Err(RefusedMessage::Nodes { peer, from, to });
    let answer = 2;
    let node = world.machines[leader].node();
    assert_eq!(node.receive(9, head(answer, it, me, 1, 1), Vec::new()), nodes(9, it, me));
    assert_eq!(node.receive(it, head(answer, it, 9, 1, 1), Vec::new()), nodes(it, it, 9));
    let ahead = Err(RefusedMessage::Ahead { peer: it, index: last + 1, last });
    assert_eq!(node.receive(it, head(answer, it, me, last + 1, 1), Vec::new()), ahead);
    assert_eq!(node.receive(it, head(answer, it, me, last, 1), Vec::new()), Ok(()));
    let heartbeat = 6;
    let node = world.machines[follower].node();
    let last = node.last();
    let ahead = Err(RefusedMessage::Ahead { peer: me, index: last + 1, last });
    assert_eq!(node.receive(me, head(heartbeat, me, it, 0, last + 1), Vec::new()), ahead);
    assert_eq!(node.receive(me, head(heartbeat, me, it, 0, last), Vec::new()), Ok(()));
}

/// What was on a disk and cannot have been.
#[test]
fn a_disk_that_contradicts_itself_is_refused() {
    let base = Base { index: 5, term: 2, members: Members::of([1, 2, 3]) };
    let entry = |index, term| LogEntry { index, term, node: 1, payload: Payload::Blank };
    let start = || Start {
        base: base.clone(),
        before: (3, 2),
        terms: vec![(4, 2)],
        applied: 5,
        members: base.members.clone(),
        entries: vec![entry(6, 2), entry(7, 3)],
        commit: 6,
        ..Start::empty(1, 0)
    };
    let node = |start: Start| Node::new(start).map(|node| (node.last(), node.commit()));
    assert_eq!(node(start()), Ok((7, 6)));
    let terms = |terms: &[(u64, u64)]| node(Start { terms: terms.to_vec(), ..start() });
    assert_eq!(terms(&[(5, 2)]), Err(WrongStart::Entry(5)), "where is 4?");
    assert_eq!(terms(&[(4, 1)]), Err(WrongStart::Entry(4)), "a term that falls");
    assert_eq!(terms(&[(4, 2), (6, 3)]), Err(WrongStart::Entry(6)), "not applied");
    assert_eq!(terms(&[(4, 3)]), Err(WrongStart::Entry(5)), "the base says otherwise");
    assert_eq!(terms(&[]), Err(WrongStart::Entry(5)));
    let entries = |entries| node(Start { entries, ..start() });
    assert_eq!(entries(vec![entry(7, 2)]), Err(WrongStart::Entry(7)));
    assert_eq!(entries(vec![entry(6, 1)]), Err(WrongStart::Entry(6)));
    let bounds = |commit, applied, last| Err(WrongStart::Bounds { base: 5, applied, commit, last });
    assert_eq!(node(Start { commit: 8, ..start() }), bounds(8, 5, 7));
    let none = Vec::new();
    assert_eq!(node(Start { commit: 0, entries: none.clone(), ..start() }), Ok((5, 5)));
    assert_eq!(node(Start { applied: 4, entries: none, ..start() }), bounds(6, 4, 4));
    let applied = Start { applied: 6, commit: 5, entries: vec![entry(7, 3)], ..start() };
    assert_eq!(node(applied), bounds(5, 6, 7));
    let members = Start { members: Members::default(), ..start() };
    assert_eq!(node(members), Err(WrongStart::Members(5)));
    assert_eq!(Node::new(Start::empty(0, 0)).map(|_| ()), Err(WrongStart::Id));
}
