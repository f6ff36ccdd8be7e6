//! Hosts are invited, taken in and removed; and they move.

use super::host::{Host, listed};
use super::site::{FORMED_WITHIN, Site, Weather};
use super::world::E;
use crate::support::seeds::seeds_or;
use delayd::cluster::driver::{MemberChange, Status, WrongChange};
use delayd::cluster::members::names::{Address, Name};
use delayd::limits::LEVEL;
use rand::Rng;

/// `first` of `count` hosts are a cluster, and list themselves alone; the others list all.
fn site(seed: u64, first: usize, count: usize) -> Site {
    let mut site = Site::new(seed, Weather::calm(count));
    for at in 0..first {
        site.hosts[at].nodes = listed(first);
        site.start(at);
    }
    site.wait_for("it has formed", FORMED_WITHIN, |site| {
        (0..first).all(|at| status(site, at).is_some_and(|status| status.forming.is_none()))
            && site.leader().is_some()
    });
    site
}

fn status(site: &Site, at: usize) -> Option<Status> {
    site.hosts[at].driver.as_ref().map(|driver| driver.status())
}

fn name(at: usize) -> Name {
    listed(at + 1)[at].name.clone()
}

fn add(at: usize) -> MemberChange {
    MemberChange::Add(listed(at + 1)[at].clone())
}

fn remove(at: usize) -> MemberChange {
    MemberChange::Remove(name(at))
}

fn ask(site: &mut Site, change: MemberChange) -> Result<(), WrongChange> {
    let leader = site.leader().expect("somebody leads");
    site.hosts[leader].driver().change(change)
}

/// Whether it was told that it was removed.
fn has_left(site: &Site, at: usize) -> bool {
    status(site, at).is_some_and(|status| status.has_left)
}

/// A cluster of three whose second one was removed while it was down: the leader, the removed one, the other.
fn with_one_removed(seed: u64) -> (Site, [usize; 3]) {
    let mut site = site(seed, 3, 3);
    let leader = site.leader().expect("it has formed");
    let [gone, other] = [(leader + 1) % 3, (leader + 2) % 3];
    site.kill(gone);
    site.run_until(site.now + 5 * E);
    ask(&mut site, remove(gone)).unwrap();
    site.wait_for("it is gone", 10 * E, |site| are_members(site, &[leader, other]));
    (site, [leader, gone, other])
}

/// Whether all that run have these voters and no learners, and nobody is invited.
fn are_members(site: &Site, expected: &[usize]) -> bool {
    let mut ids: Vec<u64> = expected.iter().map(|at| site.hosts[*at].id).collect();
    ids.sort_unstable();
    let agrees = |status: Status| {
        let Some(directory) = status.directory else { return false };
        !status.members.is_joint()
            && status.members.voters == ids
            && status.members.learners.is_empty()
            && directory.nodes.keys().copied().eq(ids.iter().copied())
            && directory.invited.is_empty()
    };
    expected.iter().all(|at| status(site, *at).is_none_or(agrees))
}

fn goes_on(site: &mut Site) {
    let before = site.acked.len();
    site.wait_for("somebody leads", 10 * E, |site| site.leader().is_some());
    let leader = site.leader().expect("just seen");
    assert!(site.decide(leader, 1));
    site.wait_for("it is acknowledged", 2 * E, |site| site.acked.len() > before);
}

#[test]
fn three_become_five_and_any_two_may_be_lost() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 3, 5);
        goes_on(&mut site);
        site.start(3);
        site.run_until(site.now + 5 * E);
        let told =
            |text: &String| text.contains("DELAY.CLUSTER ADD n4 127.0.0.1:19251 to its leader");
        assert!(site.refusals.iter().any(told), "{:?}", site.refusals);
        assert!(are_members(&site, &[0, 1, 2]), "nobody is taken in who was not asked for");
        ask(&mut site, add(3)).unwrap();
        ask(&mut site, add(4)).unwrap();
        site.wait_for("four", 20 * E, |site| {
            status(site, 0).is_some_and(|status| status.members.voters.len() == 4)
        });
        site.start(4);
        site.wait_for("five", 20 * E, |site| are_members(site, &[0, 1, 2, 3, 4]));
        let lost = [site.leader().expect("it has formed"), site.chance.random_range(0..5)];
        lost.iter().for_each(|at| site.kill(*at));
        goes_on(&mut site);
        lost.iter().for_each(|at| {
            if !site.runs(*at) {
                site.start(*at)
            }
        });
        site.wait_for("all have all", 20 * E, Site::is_equal);
        site.check_acked();
    }
}

/// Whoever said OK dies before the host was there.
/// Who is away may have anything in its log that was written before: what all could read is not given up for it.
#[test]
fn the_level_falls_for_who_reads_less_and_not_for_who_is_away() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 3, 3);
        let level_after = |site: &Site, at: usize, before: u32| {
            status(site, at).expect("it runs").level_after(before)
        };
        let gone = site.leader().expect("it has formed");
        assert!((0..3).all(|at| level_after(&site, at, 1) == LEVEL), "all are there");
        site.kill(gone);
        goes_on(&mut site);
        let leader = site.leader().expect("it goes on");
        let levels = [0, 1, 2, LEVEL].map(|before| level_after(&site, leader, before));
        assert_eq!(levels, [1, 1, 2, LEVEL], "seed {seed}: what was in force is");
        site.hosts[gone].level = 2;
        site.start(gone);
        site.wait_for("it has said what it reads", 10 * E, |site| {
            level_after(site, leader, LEVEL) == 2
        });
        assert_eq!(level_after(&site, leader, 1), 2);
        // With another one away, too.
        let other = 3 - gone - leader;
        site.kill(other);
        site.run_until(site.now + E);
        let levels = [1, LEVEL].map(|before| level_after(&site, leader, before));
        assert_eq!(levels, [1, 2], "seed {seed}");
    }
}

/// Its list has one member, and another one leads.
#[test]
fn who_is_added_need_not_have_the_leader_in_its_list() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 3, 4);
        let leader = site.leader().expect("it has formed");
        site.hosts[3].nodes = vec![listed(4)[(leader + 1) % 3].clone(), listed(4)[3].clone()];
        site.hosts[3].nodes.sort();
        site.start(3);
        ask(&mut site, add(3)).unwrap();
        site.wait_for("it is taken in", 20 * E, |site| are_members(site, &[0, 1, 2, 3]));
        goes_on(&mut site);
    }
}

#[test]
fn an_invitation_outlives_the_leader() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 3, 4);
        ask(&mut site, add(3)).unwrap();
        let invited = |site: &Site, at| {
            let directory = status(site, at).and_then(|status| status.directory);
            directory.is_some_and(|directory| directory.invited == [listed(4)[3].clone()])
        };
        site.wait_for("it is committed", E, |site| (0..3).all(|at| invited(site, at)));
        let leader = site.leader().expect("it has formed");
        site.kill(leader);
        site.start(3);
        site.wait_for("it is taken in", 20 * E, |site| {
            let voters = status(site, 3).map(|status| status.members.voters.len());
            voters == Some(4)
        });
        site.start(leader);
        site.wait_for("all know", 10 * E, |site| are_members(site, &[0, 1, 2, 3]));
        goes_on(&mut site);
    }
}

#[test]
fn who_was_removed_does_not_come_back_but_by_an_invitation() {
    let mut site = site(1, 3, 3);
    let (leader, gone) = (site.leader().expect("it has formed"), 2);
    assert_ne!(leader, gone);
    ask(&mut site, remove(gone)).unwrap();
    site.wait_for("it is gone", 5 * E, |site| are_members(site, &[0, 1]));
    let term = status(&site, 0).expect("it runs").term;
    site.run_until(site.now + 20 * E);
    goes_on(&mut site);
    assert_eq!(status(&site, 0).expect("it runs").term, term, "nobody is disturbed");
    // With its folder, and as it was.
    site.kill(gone);
    site.start(gone);
    site.run_until(site.now + 20 * E);
    let text = "which does not know it: its folder belongs to a node that has left";
    assert!(site.refusals.iter().any(|refusal| refusal.contains(text)), "{:?}", site.refusals);
    assert!(are_members(&site, &[0, 1]));
    goes_on(&mut site);
    assert_eq!(status(&site, 0).expect("it runs").term, term, "nobody is disturbed");
    // Empty, it is listed by the others and is not taken in for that.
    site.kill(gone);
    let life = site.hosts[gone].life;
    site.hosts[gone] = Host { life: life + 1, id: 55, ..Host::new(gone, 3, 1_000_000, 100) };
    site.start(gone);
    site.run_until(site.now + 10 * E);
    assert!(are_members(&site, &[0, 1]));
    ask(&mut site, add(gone)).unwrap();
    site.wait_for("it is back", 20 * E, |site| are_members(site, &[0, 1, 2]));
    goes_on(&mut site);
}

/// It has missed its removal, and no node sends it anything any more. One that was away and is a member is told nothing.
#[test]
fn who_was_removed_while_away_is_told() {
    for seed in seeds_or(20) {
        let (mut site, [leader, gone, away]) = with_one_removed(seed);
        site.kill(away);
        site.run_until(site.now + 5 * E);
        site.start(away);
        goes_on(&mut site);
        site.start(gone);
        site.wait_for("it knows", 10 * E, |site| has_left(site, gone));
        site.run_until(site.now + 10 * E);
        assert!(!has_left(&site, leader) && !has_left(&site, away), "seed {seed}");
        goes_on(&mut site);
    }
}

/// Nobody leads when it comes back, so that those that are there cannot know whether it is a member.
#[test]
fn who_was_removed_is_told_once_somebody_leads() {
    for seed in seeds_or(20) {
        let (mut site, [leader, gone, other]) = with_one_removed(seed);
        site.kill(leader);
        site.run_until(site.now + 5 * E);
        // The one that was there all the time has to say so.
        site.cut.extend([(gone, leader), (leader, gone)]);
        site.start(gone);
        site.run_until(site.now + 10 * E);
        assert!(!has_left(&site, gone), "seed {seed}: nobody can know");
        site.start(leader);
        site.wait_for("it knows", 20 * E, |site| has_left(site, gone));
        site.run_until(site.now + 10 * E);
        assert!(!has_left(&site, leader) && !has_left(&site, other), "seed {seed}");
        goes_on(&mut site);
    }
}

/// Five hosts, of which the listed three go one after the other: who was removed still knows where the cluster is, and
/// comes back when it is asked for.
#[test]
fn who_was_removed_knows_where_the_cluster_is() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 3, 5);
        for at in [3, 4] {
            ask(&mut site, add(at)).unwrap();
            site.start(at);
            site.wait_for("it is added", 20 * E, |site| are_members(site, &Vec::from_iter(0..=at)));
        }
        for gone in 0..3 {
            if site.leader() == Some(gone) {
                site.hosts[gone].driver().resign();
            }
            let leads = |site: &Site| site.leader().filter(|leader| *leader != gone);
            site.wait_for("another one leads", 20 * E, |site| leads(site).is_some());
            ask(&mut site, remove(gone)).unwrap();
            let left = Vec::from_iter(gone + 1..5);
            site.wait_for("it is gone", 10 * E, |site| are_members(site, &left));
            site.kill(gone);
            let fresh = Host::new(gone, 3, 1_000_000, 100);
            let (life, id) = (site.hosts[gone].life + 1, 50 + gone as u64);
            let removed = Some(listed(5)[gone + 1..].to_vec());
            site.hosts[gone] = Host { life, id, removed, ..fresh };
            site.start(gone);
        }
        let knows = |site: &Site, at: usize| {
            let there = status(site, at).and_then(|status| status.elsewhere);
            let names =
                there.map(|(_, nodes)| nodes.into_iter().map(|(_, node)| node.name).collect());
            names == Some(vec![name(3), name(4)])
        };
        site.wait_for("all know", 20 * E, |site| (0..3).all(|at| knows(site, at)));
        ask(&mut site, add(1)).unwrap();
        site.wait_for("it is back", 20 * E, |site| are_members(site, &[1, 3, 4]));
        assert_eq!(status(&site, 1).expect("it runs").elsewhere, None);
        goes_on(&mut site);
    }
}

#[test]
fn an_invitation_is_changed_and_taken_back() {
    let mut site = site(2, 3, 4);
    let MemberChange::Add(mut elsewhere) = add(3) else { unreachable!("it adds") };
    elsewhere.peer = Address::new("127.0.0.1", 7_000).expect("a port");
    ask(&mut site, MemberChange::Add(elsewhere.clone())).unwrap();
    ask(&mut site, MemberChange::Add(elsewhere)).unwrap();
    site.run_until(site.now + E);
    let dials = |site: &Site, at: usize| {
        let driver = site.hosts[at].driver.as_ref().expect("it runs");
        let mut dials = driver.peers_to_dial().into_iter();
        let dial = dials.find(|dial| dial.name == name(3)).expect("it is invited");
        dial.addresses.iter().map(Address::port).collect::<Vec<_>>()
    };
    assert!((0..3).all(|at| dials(&site, at) == [7_000]));
    ask(&mut site, add(3)).unwrap();
    site.run_until(site.now + E);
    assert!((0..3).all(|at| dials(&site, at) == [19_251]));
    ask(&mut site, remove(3)).unwrap();
    site.run_until(site.now + E);
    assert!(are_members(&site, &[0, 1, 2]));
    site.start(3);
    site.run_until(site.now + 10 * E);
    assert!(are_members(&site, &[0, 1, 2]));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut site = site(3, 3, 4);
    let leader = site.leader().expect("it has formed");
    let follower = (leader + 1) % 3;
    let refused = |site: &mut Site, change| ask(site, change).unwrap_err().to_string();
    let not_here = site.hosts[follower].driver().change(add(3));
    assert_eq!(not_here, Err(WrongChange::NotLeader));
    assert_eq!(refused(&mut site, add(1)), "n2 is a member already");
    let MemberChange::Add(mut same) = add(3) else { unreachable!("it adds") };
    same.peer = listed(2)[1].peer.clone();
    let text = "127.0.0.1:19249 is the address of n2";
    assert_eq!(refused(&mut site, MemberChange::Add(same)), text);
    let text = "n4 is not a member; the members are: n1, n2, n3";
    assert_eq!(refused(&mut site, remove(3)), text);
    let text = format!("n{} leads; run FAILOVER first", leader + 1);
    assert_eq!(refused(&mut site, remove(leader)), text);
    for at in 4..10 {
        ask(&mut site, add(at)).unwrap();
    }
    let text = "a cluster has at most 9 nodes, including those that leave; these are 10";
    assert_eq!(refused(&mut site, add(3)), text, "as those that wait count");
    site.run_until(site.now + E);
    assert_eq!(refused(&mut site, add(3)), text);
    for at in 4..10 {
        ask(&mut site, remove(at)).unwrap();
    }
    site.run_until(site.now + E);
    site.kill(follower);
    site.run_until(site.now + 2 * E);
    let other = (leader + 2) % 3;
    let text = format!(
        "only 1 of the 2 voters without n{} can be reached: nothing could be decided any more",
        other + 1
    );
    assert_eq!(refused(&mut site, remove(other)), text);
    let text = format!(
        "all members must be online and have this version to read an invitation; n{} is not there",
        follower + 1
    );
    assert_eq!(refused(&mut site, add(3)), text);
    site.hosts[follower].level = 1;
    site.start(follower);
    site.run_until(site.now + 2 * E);
    let text = text.replace("is not there", "reads level 1 and not 2");
    assert_eq!(refused(&mut site, add(3)), text);
    assert!(are_members(&site, &[0, 1, 2]));
    // One that is away can leave.
    site.kill(follower);
    site.run_until(site.now + 2 * E);
    ask(&mut site, remove(follower)).unwrap();
    site.wait_for("it is gone", 5 * E, |site| are_members(site, &[leader, other]));
}

/// A change that is asked for while leadership is handed over waits until that is over. Whoever leads no more says that it
/// has not made it; who goes on makes it.
#[test]
fn a_change_waits_for_a_hand_over() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 3, 3);
        site.run_until(site.now + E);
        let leader = site.leader().expect("it has formed");
        let (to, gone) = ((leader + 1) % 3, (leader + 2) % 3);
        let is_lost = seed.is_multiple_of(2);
        if is_lost {
            site.cut.insert((leader, to));
        }
        let (id, clock) = (site.hosts[to].id, site.hosts[leader].clock(site.now));
        assert!(site.hosts[leader].driver().hand_over(clock, Some(id)));
        site.settle(leader);
        ask(&mut site, remove(gone)).unwrap();
        if is_lost {
            site.run_until(site.now + E / 2);
            site.cut.clear();
            site.wait_for("it is gone", 5 * E, |site| are_members(site, &[leader, to]));
            assert_eq!(site.given_up, Vec::<String>::new());
        } else {
            site.wait_for("the other one decides", E, |site| site.hosts[to].leads());
            site.run_until(site.now + E);
            let text = format!("DELAY.CLUSTER REMOVE n{}: another node leads", gone + 1);
            assert_eq!(site.given_up, [text]);
            assert!(are_members(&site, &[0, 1, 2]));
        }
        goes_on(&mut site);
    }
}

/// A host was away while all that it knew were replaced: it learns from those that it does not know who they are.
#[test]
fn a_member_that_knows_nobody_any_more_is_told() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 3, 5);
        ask(&mut site, add(3)).unwrap();
        ask(&mut site, add(4)).unwrap();
        site.run_until(site.now + E / 2);
        site.kill(2);
        site.start(3);
        site.start(4);
        site.wait_for("five", 20 * E, |site| {
            status(site, 0).is_some_and(|status| status.members.voters.len() == 5)
        });
        for gone in [0, 1] {
            site.wait_for("somebody leads", 20 * E, |site| site.leader().is_some());
            for _ in 0..20 {
                // It goes on if the other does not take over.
                if site.leader() == Some(gone) {
                    let (to, clock) = (site.hosts[3].id, site.hosts[gone].clock(site.now));
                    site.hosts[gone].driver().hand_over(clock, Some(to));
                    site.run_until(site.now + 2 * E);
                }
            }
            site.wait_for("another leads", 5 * E, |site| {
                site.leader().is_some_and(|leader| leader != gone)
            });
            ask(&mut site, remove(gone)).unwrap();
            let stay: Vec<usize> = (gone + 1..5).filter(|at| *at != 2).collect();
            site.wait_for("it is gone", 10 * E, |site| {
                stay.iter().all(|at| {
                    let status = status(site, *at);
                    status.is_some_and(|status| status.members.voters.len() == 4 - gone)
                })
            });
            site.kill(gone);
        }
        goes_on(&mut site);
        site.start(2);
        site.wait_for("it knows", 20 * E, |site| are_members(site, &[2, 3, 4]));
        let leader = site.leader().expect("two led");
        site.kill(leader);
        goes_on(&mut site);
    }
}

/// A host was away while all others lost their disks, one after the other: nobody has an id that it knows.
#[test]
fn a_member_whose_others_have_new_ids_is_told() {
    for seed in seeds_or(20) {
        let mut site = site(seed, 5, 5);
        goes_on(&mut site);
        site.kill(4);
        for lost in 0..4 {
            site.kill(lost);
            let life = site.hosts[lost].life + 1;
            let id = 50 + lost as u64;
            site.hosts[lost] = Host { life, id, ..Host::new(lost, 5, 1_000_000, 100) };
            site.start(lost);
            site.wait_for("it votes, and the other id does not", 40 * E, |site| {
                are_members(site, &[0, 1, 2, 3, 4])
            });
        }
        goes_on(&mut site);
        site.start(4);
        site.wait_for("it has all", 20 * E, Site::is_equal);
        // It is one of the majority.
        let lost = site.leader().expect("four lead");
        site.kill(lost);
        site.kill((lost + 1) % 4);
        goes_on(&mut site);
    }
}

/// All are elsewhere at once, and their lists say so.
#[test]
fn a_cluster_that_has_moved_finds_itself() {
    let mut site = site(4, 3, 3);
    goes_on(&mut site);
    (0..3).for_each(|at| site.kill(at));
    let mut list = listed(3);
    for (at, listed) in list.iter_mut().enumerate() {
        listed.peer = Address::new("127.0.0.1", 5_000 + at as u16).expect("a port");
        site.hosts[at].own.peer = listed.peer.clone();
    }
    for at in 0..3 {
        site.hosts[at].nodes = list.clone();
        site.start(at);
    }
    site.wait_for("all know where they are", 20 * E, |site| {
        site.hosts.iter().all(|host| {
            let directory = host.driver.as_ref().and_then(|driver| driver.status().directory);
            let directory = directory.expect("it is a member");
            directory.nodes.values().all(|node| list.iter().any(|at| at.peer == node.peer))
        })
    });
    goes_on(&mut site);
}

/// Hosts come, go and die in any order, one of them at a time; what was acknowledged is there.
#[test]
fn members_change_while_hosts_die() {
    for seed in seeds_or(60) {
        let mut site = site(seed, 3, 5);
        let mut next_id = 100;
        for _ in 0..12 {
            let Some(leader) = site.leader() else {
                site.wait_for("somebody leads", 20 * E, |site| site.leader().is_some());
                continue;
            };
            site.decide(leader, 1);
            let status = status(&site, leader).expect("it leads");
            let members = status.members.voters.clone();
            let at = site.chance.random_range(0..5);
            let is_member = members.contains(&site.hosts[at].id);
            match site.chance.random_range(0..4) {
                // What is refused is refused.
                0 if is_member => drop(ask(&mut site, remove(at))),
                0 | 1 if !is_member => {
                    if site.runs(at) {
                        site.kill(at);
                    }
                    let life = site.hosts[at].life + 1;
                    next_id += 1;
                    let new = Host::new(at, 5, 1_000_000, 100);
                    site.hosts[at] = Host { life, id: next_id, ..new };
                    site.start(at);
                    drop(ask(&mut site, add(at)));
                }
                2 => {
                    site.kill(at);
                    let us = site.chance.random_range(0..2 * E);
                    site.run_until(site.now + us);
                    site.start(at);
                }
                _ => {}
            }
            let us = site.chance.random_range(0..4 * E);
            site.run_until(site.now + us);
        }
        site.wait_for("somebody leads", 30 * E, |site| site.leader().is_some());
        goes_on(&mut site);
        let leader = site.leader().expect("it goes on");
        let engine = &site.hosts[leader].turn.engine;
        for (first, value) in &site.acked {
            assert_eq!(engine.get(*first as usize - 1), Some(value), "seed {seed}");
        }
    }
}
