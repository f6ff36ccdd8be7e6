//! The nodes as Redis Sentinels: all name the leader, those that have subscribed hear of the next one, and who is cut
//! off or has stood still names nobody.

use crate::processes::trio::{NODES, Trio, wait_until};
use crate::support::http::free_port;
use crate::support::patience::{limit, pass, seconds};
use crate::support::program::{Reply, Wire};
use std::net::SocketAddr;
use std::time::Instant;

const MASTER: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME delayd";

/// Three nodes and where they answer as Sentinels.
struct Sentinels {
    trio: Trio,
    ports: Vec<u16>,
}

impl Sentinels {
    fn start(options: &[&str]) -> Sentinels {
        let trio = Trio::prepare("sentinel", options);
        let ports = (0..NODES).map(|_| free_port()).collect();
        let mut all = Sentinels { trio, ports };
        (0..NODES).for_each(|node| all.begin(node));
        all.trio.leader();
        all
    }

    fn begin(&mut self, node: usize) {
        let port = self.ports[node].to_string();
        self.trio.begin_with(node, &["--sentinel-port", &port]);
    }

    fn wire(&self, node: usize) -> Wire {
        let address = SocketAddr::from(([127, 0, 0, 1], self.ports[node]));
        Wire::connect_for(address, limit()).unwrap()
    }

    /// The port of the leader's clients, as a node tells it.
    fn named_by(&self, node: usize) -> Option<u16> {
        named(&self.wire(node).ask(MASTER))
    }

    fn port_of(&self, node: usize) -> Option<u16> {
        Some(self.trio.addresses[node].port())
    }

    /// Each of these names that one.
    fn name(&self, nodes: &[usize], leader: usize) {
        for node in nodes {
            wait_until("a Sentinel names the leader", || {
                (self.named_by(*node) == self.port_of(leader)).then_some(())
            });
        }
    }

    /// The ports of the others as a node tells them.
    fn others_by(&self, node: usize) -> Vec<u16> {
        let reply = self.wire(node).ask("SENTINEL SENTINELS delayd");
        let port = |fields: &Reply| fields.value("port").text().parse().unwrap();
        let mut ports: Vec<u16> = reply.array().unwrap().iter().map(port).collect();
        ports.sort_unstable();
        ports
    }

    /// Each node knows the ports of all others.
    fn know_each_other(&self) {
        for node in 0..NODES {
            let others = (0..NODES).filter(|other| *other != node);
            let mut ports: Vec<u16> = others.map(|other| self.ports[other]).collect();
            ports.sort_unstable();
            wait_until("a Sentinel knows the others", || {
                (self.others_by(node) == ports).then_some(())
            });
        }
    }
}

fn named(reply: &Reply) -> Option<u16> {
    reply.array().map(|address| address[1].text().parse().unwrap())
}

#[test]
fn the_next_leader_is_named_to_those_that_ask_and_to_those_that_have_subscribed() {
    let mut all = Sentinels::start(&[]);
    all.know_each_other();
    let leader = all.trio.leader();
    all.name(&[0, 1, 2], leader);
    let others: Vec<usize> = (0..NODES).filter(|node| *node != leader).collect();
    let mut events: Vec<Wire> = others.iter().map(|node| all.wire(*node)).collect();
    for wire in &mut events {
        wire.ask("SUBSCRIBE +switch-master");
    }
    let epoch: u64 = all
        .wire(leader)
        .ask("SENTINEL MASTER delayd")
        .value("config-epoch")
        .text()
        .parse()
        .unwrap();
    let start = Instant::now();
    all.trio.kill(leader);
    let next = all.trio.leader();
    all.name(&others, next);
    println!("the next leader is named after {:?}", start.elapsed());
    let [old, new] = [leader, next].map(|node| all.trio.addresses[node].port());
    let text = format!("delayd 127.0.0.1 {old} 127.0.0.1 {new}");
    for (wire, node) in events.iter_mut().zip(&others) {
        let message = wire.read().unwrap();
        assert_eq!(message.array().unwrap()[2].text(), text, "of node {node}");
        let master = all.wire(*node).ask("SENTINEL MASTER delayd");
        assert_eq!(master.value("flags").text(), "master");
        assert!(master.value("config-epoch").text().parse::<u64>().unwrap() > epoch);
    }
    let replicas = all.wire(next).ask("SENTINEL REPLICAS delayd");
    let flags = |port: u16| {
        let all = replicas.array().unwrap();
        let is_it = |fields: &&Reply| fields.value("port").text() == port.to_string();
        all.iter().find(is_it).unwrap().value("flags").text().to_owned()
    };
    assert_eq!(flags(old), "s_down,slave");
    // It comes back with another port of its own.
    all.ports[leader] = free_port();
    all.begin(leader);
    all.name(&[0, 1, 2], next);
    all.know_each_other();
}

#[test]
fn who_hears_of_no_leader_names_none() {
    let all = Sentinels::start(&[]);
    let (leader, follower) = (all.trio.leader(), all.trio.follower());
    all.name(&[0, 1, 2], leader);
    for node in [follower, leader] {
        all.trio.net.cut(&Trio::ways_of(node));
        wait_until("a node that is cut off names nobody", || {
            all.named_by(node).is_none().then_some(())
        });
        let masters = all.wire(node).ask("SENTINEL MASTERS");
        assert_eq!(masters.array().unwrap()[0].value("flags").text(), "s_down,o_down,master");
        assert!(all.wire(node).ask("SENTINEL CKQUORUM delayd").is_error("NOQUORUM"));
        all.trio.net.mend();
        // The one that was cut off may say for a moment yet that it leads.
        wait_until("all name who leads", || {
            let port = all.port_of(all.trio.try_leader()?)?;
            (0..NODES).all(|node| all.named_by(node) == Some(port)).then_some(())
        });
    }
}

/// What it knew before it stood still is old when it goes on, however soon it is asked. Nothing of the leader may be on its
/// way to it then: it would have been heard of just now.
#[test]
fn who_has_stood_still_does_not_name_who_led_before() {
    const ELECTION_S: u64 = 2;
    let mut all = Sentinels::start(&["--cluster-election-timeout", "2s"]);
    let (leader, follower) = (all.trio.leader(), all.trio.follower());
    let other = (0..NODES).find(|node| ![leader, follower].contains(node)).unwrap();
    all.name(&[0, 1, 2], leader);
    let old = all.port_of(leader);
    let (mut wire, mut data) = (all.wire(follower), all.trio.wire(follower));
    // No node has a majority without these two: no leader follows.
    all.trio.pause(other);
    all.trio.pause(leader);
    data.wait_for("raft_leader_heard_ms", |ms| ms.parse::<u64>().is_ok_and(|ms| ms >= 400));
    assert_eq!(named(&wire.ask(MASTER)), old);
    all.trio.pause(follower);
    all.trio.kill(leader);
    // A leader is named for two election timeouts after it was heard of.
    pass(seconds(2 * ELECTION_S + 1));
    wire.push_line(MASTER);
    wire.flush().unwrap();
    all.trio.go_on(follower);
    assert_ne!(named(&wire.read().unwrap()), old);
    all.trio.go_on(other);
    let next = all.trio.leader();
    all.name(&[follower, other], next);
}

#[test]
fn it_asks_for_the_password_that_the_other_port_asks_for() {
    let trio = Trio::prepare("sentinel", &["--requirepass", "hush"]);
    let ports = (0..NODES).map(|_| free_port()).collect();
    let mut all = Sentinels { trio, ports };
    (0..NODES).for_each(|node| all.begin(node));
    let mut wire = all.wire(0);
    assert!(wire.ask(MASTER).is_error("NOAUTH"));
    assert!(wire.ask("AUTH loud").is_error("WRONGPASS"));
    assert_eq!(wire.ask("AUTH hush"), Reply::Simple("OK".to_owned()));
    wait_until("a leader is named", || named(&wire.ask(MASTER)));
    assert_eq!(wire.ask("SENTINEL MASTER delayd").value("flags").text(), "master");
}

/// Whoever has logged in may ask who leads; another node leads only for those that may say so to the node itself.
#[test]
fn a_sentinel_lets_another_node_lead_for_those_who_may() {
    let all = Sentinels::start(&[]);
    let leader = all.trio.leader();
    let mut data = all.trio.wire(leader);
    data.ask("ACL SETUSER reader on >pass +@read +@connection ~*");
    let mut wire = all.wire(leader);
    wire.ask("AUTH reader pass");
    assert!(named(&wire.ask(MASTER)).is_some());
    let refused = wire.ask("SENTINEL FAILOVER delayd");
    assert!(refused.is_error("NOPERM"), "{refused:?}");
    wire.ask("AUTH default any");
    let other = all.wire((leader + 1) % NODES).ask("SENTINEL FAILOVER delayd");
    assert!(other.text().contains("is not valid when server is a replica"), "{other:?}");
    assert_eq!(wire.ask("SENTINEL FAILOVER delayd"), Reply::Simple("OK".to_owned()));
    // Where nobody takes over, as each knows too little yet, the leader goes on and is asked again.
    wait_until("another leads", || {
        let _ = all.wire(leader).try_ask("SENTINEL FAILOVER delayd");
        (all.trio.try_leader()? != leader).then_some(())
    });
}
