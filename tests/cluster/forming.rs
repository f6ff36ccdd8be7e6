//! How a cluster comes to be, of hosts with empty disks.

use super::host::Host;
use super::site::{FORMED_WITHIN, Site, Weather};
use super::world::{E, MS};
use crate::support::seeds::{are_few, seeds_or};
use delayd::cluster::members::claims::{Claims, ClusterId, Holds, list_text};
use delayd::cluster::members::names::Address;
use delayd::cluster::raft::codec::Head;
use delayd::cluster::raft::entry::{Base, Vote};
use delayd::cluster::raft::output::RefusedMessage;
use rand::Rng;

#[test]
fn three_hosts_with_empty_disks_are_a_cluster_within_10_e() {
    let mut worst = 0;
    for seed in 0..100 {
        let mut site = Site::new(seed, Weather::calm(3));
        site.start_all();
        let took = site.wait_for("all know that it has formed", FORMED_WITHIN, Site::has_formed);
        worst = worst.max(took);
        let leader = site.leader().expect("it has formed");
        assert_eq!(leader, 0, "n1 is the first by name");
        assert!(site.decide(leader, 3));
        site.wait_for("all have it", E, Site::is_equal);
        assert_eq!(site.acked.len(), 3);
        site.check_acked();
        let status = site.hosts[2].driver().status();
        assert_eq!(status.members.voters, [998, 999, 1_000]);
        assert_eq!(status.peers.len(), 2);
        assert_eq!(site.refusals.len(), 0, "{:?}", site.refusals);
    }
    println!("formed after at most {} ms", worst / MS);
}

fn formed(seed: u64, count: usize) -> Site {
    let mut site = Site::new(seed, Weather::calm(count));
    site.start_all();
    site.wait_for("all know that it has formed", FORMED_WITHIN, Site::has_formed);
    site
}

fn forming(site: &mut Site, at: usize) -> Option<String> {
    site.hosts[at].driver().status().forming
}

fn is_founded(site: &Site) -> bool {
    site.hosts[0].driver.as_ref().is_some_and(|driver| driver.status().cluster.is_some())
}

fn is_untouched(site: &Site, at: usize) -> bool {
    let disk = &site.hosts[at].disk;
    disk.entries.is_empty() && disk.queue.is_empty() && disk.vote == Vote::default()
}

/// Kills one host, or all of them, between any two things that happen until the cluster has formed.
#[test]
fn whoever_restarts_while_it_forms_goes_on() {
    let mut while_forming = 0;
    for seed in seeds_or(300) {
        let mut site = Site::new(seed, Weather::calm(3));
        site.hosts.iter_mut().for_each(|host| host.disk.sync_us = 5 * MS);
        site.start_all();
        let happens = site.chance.random_range(1..400);
        while site.happened < happens && !site.has_formed() {
            site.step(u64::MAX);
        }
        while_forming += u64::from(!site.has_formed());
        let victim = site.chance.random_range(0..4);
        let victims: Vec<usize> = (0..3).filter(|at| *at == victim || victim == 3).collect();
        victims.iter().for_each(|at| site.kill(*at));
        let us = site.chance.random_range(0..2 * E);
        site.run_until(site.now + us);
        assert_eq!(site.acked.len(), 0);
        victims.iter().for_each(|at| site.start(*at));
        site.wait_for("it has formed", FORMED_WITHIN, Site::has_formed);
        let leader = site.leader().expect("it has formed");
        assert!(site.decide(leader, 1));
        site.wait_for("all have it", E, Site::is_equal);
        assert_eq!(site.acked.len(), 1, "seed {seed}");
    }
    assert!(are_few() || while_forming > 100, "only {while_forming} kills came early enough");
}

#[test]
fn half_a_cluster_waits_and_names_whom_it_misses() {
    for away in 0..3 {
        let mut site = Site::new(away as u64, Weather::calm(3));
        let there: Vec<usize> = (0..3).filter(|at| *at != away).collect();
        assert_eq!(site.leader(), None);
        there.iter().for_each(|at| site.start(*at));
        site.run_until(20 * E);
        for at in &there {
            let text = format!("n{} is missing", away + 1);
            assert_eq!(forming(&mut site, *at), Some(text));
            assert!(is_untouched(&site, *at));
        }
        site.start(away);
        site.wait_for("it has formed", FORMED_WITHIN, Site::has_formed);
    }
    let mut site = Site::new(7, Weather::calm(3));
    site.start(1);
    site.run_until(E);
    assert_eq!(forming(&mut site, 1).as_deref(), Some("n1, n3 are missing"));
}

/// It was there when the cluster was founded, and goes before it is a member: the others are led, and nothing is
/// acknowledged until it is back.
#[test]
fn a_host_that_goes_while_it_forms_is_waited_for() {
    let mut site = Site::new(3, Weather::calm(3));
    site.start_all();
    site.wait_for("it is founded", 10 * E, is_founded);
    site.kill(2);
    site.wait_for("two are led", 10 * E, |site| {
        let votes = |host: &Host| {
            let voters = host.driver.as_ref().map(|driver| driver.status().members.voters);
            voters == Some(vec![999, 1_000])
        };
        site.hosts[..2].iter().all(votes) && site.leader().is_some()
    });
    site.run_until(site.now + 10 * E);
    for at in 0..2 {
        assert_eq!(forming(&mut site, at).as_deref(), Some("n3 is missing"));
    }
    let leader = site.leader().expect("one of the two");
    assert!(!site.decide(leader, 1), "nobody decides before");
    site.start(2);
    site.wait_for("it has formed", FORMED_WITHIN, Site::has_formed);
}

/// Who learns and is gone gets no vote: with one of two the others could decide nothing.
#[test]
fn who_learns_votes_when_it_has_all() {
    for seed in 0..20 {
        let mut site = Site::new(seed, Weather::calm(3));
        site.start_all();
        let learners = |site: &Site| {
            let driver = site.hosts[0].driver.as_ref();
            driver.map_or(Vec::new(), |driver| driver.status().members.learners)
        };
        site.wait_for("one learns", 10 * E, |site| !learners(site).is_empty());
        let at = (1_000 - learners(&site)[0]) as usize;
        site.kill(at);
        site.run_until(site.now + 10 * E);
        let id = site.hosts[at].id;
        assert!(!site.hosts[0].driver().status().members.voters.contains(&id), "seed {seed}");
        site.start(at);
        site.wait_for("it has formed", FORMED_WITHIN, Site::has_formed);
    }
}

#[test]
fn once_it_has_formed_a_missing_host_does_not_matter() {
    let mut site = formed(4, 3);
    (0..3).for_each(|at| site.kill(at));
    site.start(1);
    site.start(2);
    site.wait_for("one of the two leads", 10 * E, |site| site.leader().is_some());
    let leader = site.leader().expect("just seen");
    assert_eq!((forming(&mut site, 1), forming(&mut site, 2)), (None, None));
    assert!(site.decide(leader, 1));
    site.wait_for("it is acknowledged", E, |site| site.acked.len() == 1);
}

#[test]
fn a_list_of_one_is_a_cluster() {
    let mut site = Site::new(5, Weather::calm(1));
    site.start_all();
    site.wait_for("it has formed", FORMED_WITHIN, Site::has_formed);
    assert!(site.decide(0, 2));
    site.wait_for("it is acknowledged", E, |site| site.acked.len() == 2);
    site.kill(0);
    site.start(0);
    assert_eq!(forming(&mut site, 0), None);
    site.wait_for("it leads again", 10 * E, |site| site.leader().is_some());
    site.check_acked();
}

#[test]
fn lists_that_differ_are_named_both_and_nothing_is_founded() {
    let mut site = Site::new(6, Weather::calm(3));
    site.hosts[2].nodes[1].peer = Address::new("127.0.0.1", 7_000).expect("a port");
    site.start_all();
    site.run_until(20 * E);
    let [own, other] = [0, 2].map(|at| list_text(&site.hosts[at].nodes));
    let text = |one: &str, list: &str, other: &str, other_list: &str| {
        let both = format!("cluster-nodes of {one} is {list}, that of {other} is {other_list}");
        Some(format!("{both}; they must be equal"))
    };
    assert_eq!(forming(&mut site, 0), text("n1", &own, "n3", &other));
    assert_eq!(forming(&mut site, 2), text("n3", &other, "n1", &own));
    assert!((0..3).all(|at| is_untouched(&site, at)));
}

/// Their cluster has moved on, and would have the same queues as a second one.
#[test]
fn hosts_that_were_removed_never_found_a_cluster() {
    for waiting in 1..8 {
        let mut site = Site::new(waiting, Weather::calm(3));
        let is_waiting = |at: usize| waiting & (1 << at) != 0;
        (0..3).for_each(|at| site.hosts[at].removed = is_waiting(at).then(Vec::new));
        site.start_all();
        site.run_until(20 * E);
        for at in 0..3 {
            assert!(is_untouched(&site, at), "{waiting:b}");
            let text = forming(&mut site, at).expect("nothing is founded");
            assert!(
                text.ends_with("was removed from its cluster, and waits for DELAY.CLUSTER ADD"),
                "{text}"
            );
        }
    }
}

/// Somebody starts a second n3 elsewhere, with the same list.
#[test]
fn two_hosts_of_one_name_are_named_both() {
    let mut site = Site::new(8, Weather::calm(4));
    let list = site.hosts[0].nodes[..3].to_vec();
    site.hosts.iter_mut().for_each(|host| host.nodes = list.clone());
    site.hosts[3].own.name = site.hosts[2].own.name.clone();
    (0..3).for_each(|at| site.start(at));
    site.run_until(E / 2);
    site.start(3);
    site.run_until(20 * E);
    let told = |text: &str| site.refusals.iter().any(|refusal| refusal == text);
    let ids = "00000000000003e6 and 00000000000003e5";
    let one = format!("two nodes are called n3: {ids}; cluster-node must differ");
    let cluster = site.hosts[0].driver.as_ref().and_then(|driver| driver.status().cluster);
    let other = format!(
        "n3 is a member of cluster {:032x} with the id 00000000000003e6, and the node that answers to this name has 00000000000003e5: it has another folder. Start it with its previous folder, or with an empty one",
        cluster.expect("founded")
    );
    assert!(told(&one) || told(&other), "{:?}", site.refusals);
    assert!(is_untouched(&site, 3));
    assert_eq!(forming(&mut site, 0), None, "the first of the two is a member");
}

/// Its disk was lost, and with it its id: it does not vote under the old one. It is taken in under the new one, in the
/// place of the other, which is refused if it should come back.
#[test]
fn a_host_that_lost_its_disk_takes_its_own_place() {
    let mut site = formed(9, 3);
    site.kill(2);
    let mut old = Host::new(2, 3, 1_000_000, 100);
    old.id = 77;
    std::mem::swap(&mut old, &mut site.hosts[2]);
    site.start(2);
    let voters = |site: &Site, at: usize| {
        let driver = site.hosts[at].driver.as_ref()?;
        Some(driver.status().members.voters)
    };
    site.wait_for("it votes", 20 * E, |site| {
        (0..3).all(|at| voters(site, at) == Some(vec![77, 999, 1_000]))
    });
    site.wait_for("the other is forgotten", 5 * E, |site| {
        let directory = site.hosts[0].driver.as_ref().and_then(|driver| driver.status().directory);
        directory.is_some_and(|directory| directory.nodes.len() == 3)
    });
    assert_eq!(forming(&mut site, 2), None);
    // It is one of the majority.
    site.kill(1);
    site.wait_for("the two lead", 10 * E, |site| site.leader().is_some_and(|at| at != 1));
    let leader = site.leader().expect("just seen");
    assert!(site.decide(leader, 1));
    site.wait_for("it is acknowledged", E, |site| site.acked.len() == 1);
    // The old folder turns up.
    site.start(1);
    site.kill(2);
    let life = site.hosts[2].life;
    old.life = life + 1;
    std::mem::swap(&mut old, &mut site.hosts[2]);
    let entries = site.hosts[2].disk.entries.clone();
    site.start(2);
    site.run_until(site.now + 10 * E);
    let is_told = |text: &String| text.starts_with("n3 is a member of cluster ");
    assert!(site.refusals.iter().any(is_told), "{:?}", site.refusals);
    assert_eq!(site.hosts[2].disk.entries, entries, "nothing has come of it");
    let leader = site.leader().expect("the other two");
    assert!(leader < 2 && site.decide(leader, 1));
    site.wait_for("the others go on", E, |site| site.acked.len() == 2);
}

/// And again, before it has a vote: the learner that is gone makes way at once.
#[test]
fn a_host_that_loses_its_disk_again_and_again_takes_its_own_place() {
    let mut site = formed(12, 3);
    for id in [77, 78, 79] {
        site.kill(2);
        let mut other = Host::new(2, 3, 1_000_000, 100);
        (other.id, other.life) = (id, site.hosts[2].life + 1);
        site.hosts[2] = other;
        site.run_until(site.now + 2 * E);
        site.start(2);
        let learns = |site: &Site| {
            let drivers = site.hosts[..2].iter().filter_map(|host| host.driver.as_ref());
            drivers.map(|driver| driver.status().members).any(|members| members.learners == [id])
        };
        site.wait_for("it learns, and is the only one", 20 * E, learns);
    }
    site.wait_for("it votes", 20 * E, |site| {
        let drivers = site.hosts.iter().filter_map(|host| host.driver.as_ref());
        drivers
            .map(|driver| driver.status().members.voters)
            .all(|voters| voters == [79, 999, 1_000])
    });
}

/// The leader may end before its addition is committed: then no member knows it, and it is added once more.
#[test]
fn who_was_only_sent_its_addition_claims_no_membership() {
    let mut seen = 0;
    for seed in 0..10 {
        let mut site = Site::new(seed, Weather::calm(3));
        site.start_all();
        while !site.has_formed() {
            site.step(u64::MAX);
            for driver in site.hosts.iter().filter_map(|host| host.driver.as_ref()) {
                let status = driver.status();
                let knows = !status.members.voters.is_empty();
                assert_eq!(driver.claims().cluster().is_some(), knows, "seed {seed}");
                seen += usize::from(status.cluster.is_some() && !knows);
            }
        }
    }
    assert!(seen > 0, "none was sent it");
}

#[test]
fn a_member_of_another_cluster_is_refused() {
    let (mut site, mut other) = (formed(10, 3), formed(11, 3));
    let ids = [&mut site, &mut other]
        .map(|site| site.hosts[0].driver().status().cluster.expect("it has formed"));
    site.kill(2);
    other.kill(2);
    std::mem::swap(&mut site.hosts[2], &mut other.hosts[2]);
    let entries = site.hosts[2].disk.entries.clone();
    site.hosts[2].nodes = site.hosts[1].nodes.clone();
    site.hosts[2].life += 100;
    // The audit knows one cluster.
    site.audit = super::audit::Audit::new(&Base::default());
    site.start(2);
    site.run_until(site.now + 10 * E);
    let [one, two] = ids.map(|id| format!("{id:032x}"));
    let text = format!("n1 is a member of cluster {one}, n3 of cluster {two}");
    assert!(site.refusals.contains(&text), "{:?}", site.refusals);
    assert_eq!(site.hosts[2].disk.entries, entries, "nothing has changed");
}

/// Messages carry a tag of the cluster, for connections that are older than it.
#[test]
fn messages_of_another_cluster_are_refused() {
    let mut site = formed(12, 3);
    let (from, to) = (site.hosts[1].id, site.hosts[0].id);
    let clock = site.hosts[0].clock(site.now);
    let message = |kind: u8, tag: u32| {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend(tag.to_le_bytes());
        [from, to, 9, 0, 0, 0, 0].iter().for_each(|n: &u64| bytes.extend(n.to_le_bytes()));
        Head::read(&bytes).expect("a head")
    };
    let id = site.hosts[0].driver().status().cluster.expect("it has formed");
    let tag = ClusterId(id).tag();
    let other = Err(RefusedMessage::OtherCluster { peer: from });
    for wrong in [0, tag ^ 1] {
        let received = site.hosts[0].driver().receive(clock, from, message(6, wrong), Vec::new());
        assert_eq!(received, other);
    }
    let term = site.hosts[0].driver().status().term;
    assert!(term < 9, "it was not believed");
    site.hosts[0].driver().receive(clock, from, message(6, tag), Vec::new()).expect("a member's");
    assert_eq!(site.hosts[0].driver().status().term, 9);
}

/// Who holds the jobs of a node that was alone never joins; before and after the others are a cluster.
#[test]
fn the_journal_of_a_single_node_is_refused() {
    let mut site = Site::new(13, Weather::calm(3));
    site.start(2);
    let jobs = Claims { holds: Holds::Jobs, ..site.hosts[2].driver().claims() };
    site.start(0);
    site.start(1);
    let clock = site.hosts[0].clock(site.now);
    site.hosts[0].driver().met(clock, &jobs).expect("it is listed");
    let text = "the folder of n3 has the journal of a standalone server, and n1, n2 wait to form a cluster with it; start n3 without cluster-node, or with an empty dir";
    assert_eq!(forming(&mut site, 0).as_deref(), Some(text));
    assert!(is_untouched(&site, 0));

    let mut site = Site::new(14, Weather::calm(3));
    site.start_all();
    site.wait_for("it is founded", 10 * E, is_founded);
    site.kill(2);
    let clock = site.hosts[0].clock(site.now);
    site.hosts[0].driver().met(clock, &jobs).expect("it is listed");
    site.wait_for("two are led", 10 * E, |site| site.leader().is_some());
    site.run_until(site.now + E);
    let text = site.hosts[0].driver().status().conflict.expect("it has to be mended");
    assert!(text.starts_with(
        "the folder of n3 has the journal of a standalone server, and n1 is a member of"
    ));
    assert!(text.ends_with("n3 can join only with an empty dir"), "{text}");
}

/// A node comes back with other addresses: its peers know them as soon as it is met.
#[test]
fn a_member_that_has_moved_is_found() {
    let mut site = formed(15, 3);
    for at in 0..3 {
        site.kill(at);
        site.hosts[at].own.client = Address::new("127.0.0.1", 6_000 + at as u16).expect("a port");
        site.start(at);
        site.wait_for("all know where it is", 10 * E, |site| {
            let knows = |host: &Host| {
                let directory = host.driver.as_ref().and_then(|driver| driver.status().directory);
                directory.is_some_and(|all| all.nodes[&(1_000 - at as u64)] == site.hosts[at].own)
            };
            site.hosts.iter().all(knows)
        });
    }
}
