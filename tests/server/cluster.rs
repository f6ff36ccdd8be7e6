//! A node of a cluster and its clients, where transcripts do not reach: what is left behind by a demotion, probes, metrics.

use std::collections::BTreeMap;

use crate::support::cluster_view::view_of;
use delayd::cluster::driver::{PeerStatus, Status};
use delayd::cluster::members::Members;
use delayd::cluster::members::directory::{Directory, Node};
use delayd::cluster::members::names::{Address, Name};
use delayd::cluster::raft::member::Role;
use delayd::cluster::raft::output;
use delayd::cluster::timing::clocks::ClockStatus;
use delayd::cluster::timing::health::{Health, Sick, Why};
use delayd::config::Config;
use delayd::observe::cluster::{ClusterView, Elsewhere};
use delayd::observe::hash_slots::{Shard, SlotPart};
use delayd::observe::metrics::families::{FAMILIES, MetricGroup};
use delayd::server::Server;
use delayd::server::in_memory::{FarEnd, InMemory};
use delayd::session::NodeStanding;
use delayd::time::{Micros, Millis};

const START: Millis = Millis(1_893_456_000_000);
const FOLLOWING: NodeStanding = NodeStanding::Following { reads: true, is_led: true };

fn server() -> InMemory {
    let mut config = Config::default();
    config.set("appendonly", &["no".to_owned()]).unwrap();
    InMemory::new(config, START)
}

fn say(server: &mut InMemory, client: &FarEnd, command: &str) -> String {
    client.send(format!("{command}\r\n").as_bytes());
    server.run();
    String::from_utf8(client.receive()).unwrap()
}

fn pass(server: &mut InMemory, us: u64) {
    let until = Micros(server.now().0 + us);
    server.go_to(until);
}

/// A popped job whose reply has not left, one that is leased to a connection which goes, one that is due. What
/// becomes of them is the next leader's to say: no fact is made here, however long this node follows.
#[test]
fn a_demotion_makes_no_fact() {
    let mut server = server();
    let worker = server.connect();
    for id in ["a", "b", "c"] {
        say(&mut server, &worker, &format!("DELAY.ADD q 0 x ID {id}"));
    }
    say(&mut server, &worker, "DELAY.ADD q 1s x ID later");
    assert!(say(&mut server, &worker, "DELAY.RESERVE NOWAIT 1 q BOUND LEASE 2s").contains('a'));
    let stuck = server.connect();
    stuck.set_room(0);
    say(&mut server, &stuck, "DELAY.RESERVE NOWAIT 1 q LEASE 2s");
    say(&mut server, &stuck, "DELAY.POP q NOWAIT");
    let before = server.digest();

    server.stand(FOLLOWING);
    assert!(worker.is_closed());
    pass(&mut server, 10_000_000);
    assert!(stuck.is_closed());
    assert_eq!(server.digest(), before);
    let reader = server.connect();
    assert_eq!(say(&mut server, &reader, "DELAY.LEN q leased"), ":2\r\n");
    assert_eq!(say(&mut server, &reader, "DELAY.LEN q ready"), ":0\r\n");

    // It leads again. The popped job stays popped, as after a crash, and the leases have run out.
    server.stand(NodeStanding::Serving);
    pass(&mut server, 120_000_000);
    assert_eq!(say(&mut server, &reader, "DELAY.LEN q leased"), ":0\r\n");
    let stats = say(&mut server, &reader, "DELAY.STATS q");
    assert!(stats.contains("$6\r\npopped\r\n:1\r\n"), "{stats}");
    assert!(stats.contains("$4\r\nlost\r\n:0\r\n"), "{stats}");
    assert!(stats.contains("$8\r\ntimeouts\r\n:2\r\n"), "{stats}");
}

/// A client that speaks TLS is sent to the port where that is spoken.
#[test]
fn each_client_of_a_redis_cluster_is_sent_to_a_port_of_its_own_kind() {
    let ports = |tls| {
        let shard = Shard::of(&view_of("leader").unwrap(), tls, 0, 1);
        shard.nodes.iter().map(|node| (node.port, node.tls)).collect::<Vec<_>>()
    };
    assert_eq!(ports(false), [(9_248, false), (9_249, false), (9_250, false)]);
    assert_eq!(ports(true), [(9_348, true), (9_349, true), (9_350, true)]);
    let mut view = view_of("leader").unwrap();
    view.nodes[1].entry.tls = None;
    let plain = &Shard::of(&view, true, 0, 1).nodes[1];
    assert_eq!((plain.port, plain.tls), (9_249, false));
}

/// Whoever asks a node that is not a member is sent to one, and the node itself is none that could be asked.
#[test]
fn a_node_that_is_not_a_member_names_those_that_are() {
    let members = view_of("leader").unwrap();
    let mut view =
        ClusterView { node: 77, nodes: vec![members.nodes[2].clone()], ..Default::default() };
    view.nodes[0].id = 77;
    view.forming = Some("it waits".to_owned());
    view.elsewhere = Some(Elsewhere { cluster: 7, nodes: members.nodes[..2].to_vec() });
    let shard = Shard::of(&view, false, 1, 2);
    let usable = shard.usable().map(|node| (node.port, node.part)).collect::<Vec<_>>();
    assert_eq!(usable, [(9_248, SlotPart::Master), (9_249, SlotPart::Replica)]);
    assert!(shard.is_served && shard.nodes[2].is_own && !shard.nodes[0].is_own);
    assert_eq!(shard.slots, (8_192, 16_383));
    assert!(shard.nodes.iter().all(|node| node.id.starts_with("000000000000000000000000")));
}

/// The reply to what was never confirmed is not sent, neither by itself nor when later turns are.
#[test]
fn replies_that_are_lost_never_leave() {
    let mut server = server();
    server.open_journal(1_000_000, 0);
    let client = server.connect();
    assert_eq!(say(&mut server, &client, "DELAY.ADD q 0 x ID a"), "");
    server.stand(FOLLOWING);
    assert!(!client.is_closed());
    server.lose_replies();
    assert!(client.is_closed());
    let reader = server.connect();
    say(&mut server, &reader, "DELAY.LEN q");
    pass(&mut server, 1_000_000);
    assert_eq!(client.receive(), b"");
    assert_eq!(reader.receive(), b":1\r\n");
}

/// Connections that come during the two seconds are not those that leave.
#[test]
fn who_comes_after_a_demotion_stays() {
    let mut server = server();
    server.open_journal(5_000_000, 0);
    let old = server.connect();
    say(&mut server, &old, "DELAY.ADD q 0 x ID a");
    server.stand(FOLLOWING);
    let new = server.connect();
    // It waits for the same sync.
    say(&mut server, &new, "DELAY.LEN q");
    server.stand(NodeStanding::Following { reads: false, is_led: true });
    pass(&mut server, 4_000_000);
    assert!(old.is_closed() && !new.is_closed());
    pass(&mut server, 1_000_000);
    assert_eq!((old.receive(), new.receive()), (b"".to_vec(), b":1\r\n".to_vec()));
}

/// To say the same again closes nobody; to serve again lets everybody stay.
#[test]
fn only_the_end_of_serving_closes_connections() {
    let mut server = server();
    server.stand(NodeStanding::Forming { missing: "n3 is missing".into() });
    let client = server.connect();
    server.stand(FOLLOWING);
    server.stand(FOLLOWING);
    server.stand(NodeStanding::Serving);
    assert_eq!(say(&mut server, &client, "DELAY.ADD q 0 x ID a"), "$1\r\na\r\n");
    assert!(!client.is_closed());
    server.stand(NodeStanding::Down);
    assert!(client.is_closed());
}

/// READONLY makes clients look for the leader anew; what is said instead where there is none must not keep them here.
#[test]
fn whoever_seeks_a_leader_where_none_is_known_is_closed() {
    let mut server = server();
    server.join(Role::Follower { leader: Some(2) }, true, view_of("follower").unwrap());
    let [producer, worker, reader] = [(); 3].map(|()| server.connect());
    for client in [&producer, &worker] {
        assert!(say(&mut server, client, "DELAY.ADD q 0 x").starts_with("-READONLY"));
    }
    pass(&mut server, 3_000_000);
    assert!(!producer.is_closed() && !worker.is_closed());

    server.join(Role::Follower { leader: None }, true, view_of("lost").unwrap());
    assert!(say(&mut server, &producer, "DELAY.ADD q 0 x").starts_with("-MASTERDOWN"));
    assert!(say(&mut server, &worker, "DELAY.POP q 0").starts_with("-MASTERDOWN"));
    say(&mut server, &reader, "INFO raft");
    pass(&mut server, 2_000_000);
    assert!(producer.is_closed() && worker.is_closed() && !reader.is_closed());
    // They come again, and again.
    let producer = server.connect();
    assert!(say(&mut server, &producer, "DELAY.ADD q 0 x").starts_with("-MASTERDOWN"));
    pass(&mut server, 1_000_000);
    assert!(producer.is_closed() && !reader.is_closed());
}

/// Raft reports nothing new as long as nothing changes: what is shown grows all the same, and ends at once.
#[test]
fn how_long_no_leader_has_been_known_is_shown_as_it_grows() {
    let mut server = server();
    let shown = |server: &mut InMemory| -> i64 {
        let watcher = server.connect();
        let info = say(server, &watcher, "INFO raft");
        let value = info.split("raft_leaderless_ms:").nth(1).unwrap().lines().next().unwrap();
        value.parse().unwrap()
    };
    let view = || ClusterView { leaderless_us: None, ..view_of("lost").unwrap() };
    server.join(Role::Follower { leader: None }, true, view());
    for seconds in 1..=5 {
        pass(&mut server, 1_000_000);
        let shown = shown(&mut server);
        let least = (seconds - 1) * 1_000;
        assert!((least..=least + 1_000).contains(&shown), "after {seconds} s: {shown} ms");
    }
    server.join(Role::Follower { leader: Some(2) }, true, view_of("follower").unwrap());
    assert_eq!(shown(&mut server), -1);
}

#[test]
fn probes_say_who_leads_and_who_answers_reads() {
    let mut server = server();
    let serving = "serving".to_owned();
    assert_eq!(server.probes(), (true, true, serving.clone()));
    let missing = || NodeStanding::Forming { missing: "n3 is missing".into() };
    let no_lease = || {
        let view = view_of("leader").unwrap();
        ClusterView { lease_us: None, ..view }
    };
    let sick = |word, why, for_us| {
        let health = Health { sick: Some(Sick { why, for_us }), ..Health::default() };
        ClusterView { health, makes_way: true, ..view_of(word).unwrap() }
    };
    let alone = || ClusterView { makes_way: false, ..sick("leader", Why::DiskFull, 0) };
    for (view, standing, ready, leads, words) in [
        (view_of("leader").unwrap(), NodeStanding::Serving, true, true, "serving"),
        (
            no_lease(),
            NodeStanding::Serving,
            true,
            false,
            "serving; a majority has not confirmed yet that it still leads",
        ),
        // Another node takes over within some seconds. Where none can, or none has, clients are not kept from the leader.
        (
            sick("leader", Why::DiskHangs, 1_000_000),
            NodeStanding::Serving,
            true,
            false,
            "serving until another node leads; sick: its disk hangs",
        ),
        (
            sick("leader", Why::DiskSlow, 5_000_000),
            NodeStanding::Serving,
            true,
            true,
            "serving; sick: its disk is much slower than the others'",
        ),
        (alone(), NodeStanding::Serving, true, true, "serving; sick: its disk is full"),
        (
            sick("follower", Why::StandsStill, 0),
            FOLLOWING,
            true,
            false,
            "following; sick: its process stalls",
        ),
        (view_of("follower").unwrap(), FOLLOWING, true, false, "following"),
        (view_of("lost").unwrap(), FOLLOWING, false, false, "no leader was heard recently"),
        (
            view_of("leader").unwrap(),
            NodeStanding::Down,
            false,
            false,
            "no quorum of the cluster answers",
        ),
        (
            view_of("follower").unwrap(),
            NodeStanding::Loading,
            false,
            false,
            "not all jobs are loaded yet",
        ),
        (
            view_of("forming").unwrap(),
            missing(),
            false,
            false,
            "the cluster is forming: n3 is missing",
        ),
    ] {
        server.stand(standing);
        server.show_cluster(view);
        assert_eq!(server.probes(), (ready, leads, words.to_owned()));
    }
}

#[test]
fn metrics_of_jobs_are_the_leaders_and_those_of_raft_a_nodes() {
    let mut server = server();
    let client = server.connect();
    say(&mut server, &client, "DELAY.ADD q 30s x ID a");
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    let alone = server.metrics();
    assert_eq!(value(&alone, r#"delayd_jobs{state="delayed"}"#).as_deref(), Some("1"));
    assert!(!alone.contains("delayd_raft_"), "{alone}");

    server.show_cluster(view_of("leader").unwrap());
    let leader = server.metrics();
    for (name, is) in [
        (r#"delayd_jobs{state="delayed"}"#, "1"),
        (r#"delayd_queue_jobs{db="",queue="",state="delayed"}"#, "1"),
        ("delayd_raft_leader", "1"),
        ("delayd_raft_led", "1"),
        ("delayd_raft_epoch", "7"),
        ("delayd_raft_last_index", "120"),
        ("delayd_raft_committed_index", "118"),
        ("delayd_raft_applied_index", "117"),
        ("delayd_raft_lease_seconds", "0.225000"),
        ("delayd_raft_quorum_age_seconds", "0.001000"),
        (r#"delayd_raft_peer_online{peer="n2"}"#, "1"),
        (r#"delayd_raft_peer_online{peer="n3"}"#, "0"),
        (r#"delayd_raft_peer_lag_entries{peer="n3"}"#, "100"),
        ("delayd_raft_voters", "3"),
        ("delayd_raft_elections_total", "3"),
        ("delayd_raft_reloads_total", "1"),
        (r#"delayd_raft_sick{why="disk-hangs"}"#, "0"),
        ("delayd_raft_voters_connected", "2"),
        ("delayd_raft_leaderless_seconds", "0.000000"),
    ] {
        assert_eq!(value(&leader, name).as_deref(), Some(is), "{name}");
    }

    server.show_cluster(view_of("sick").unwrap());
    let sick = server.metrics();
    for (name, is) in [
        (r#"delayd_raft_sick{why="disk-hangs"}"#, "1"),
        (r#"delayd_raft_sick{why="disk-slow"}"#, "0"),
        ("delayd_raft_disk_waits_seconds", "2.500000"),
    ] {
        assert_eq!(value(&sick, name).as_deref(), Some(is), "{name}");
    }

    let of_raft = FAMILIES.iter().filter(|family| family.part == MetricGroup::Cluster);
    server.show_cluster(view_of("lost").unwrap());
    let follower = server.metrics();
    for family in of_raft {
        assert!(leader.contains(family.name) || follower.contains(family.name), "{}", family.name);
    }
    for name in ["delayd_jobs{", "delayd_queue_", "delayd_lateness_", "delayd_raft_peer_"] {
        assert!(!follower.contains(name), "{name}");
    }
    assert_eq!(value(&follower, "delayd_raft_leader").as_deref(), Some("0"));
    assert_eq!(value(&follower, "delayd_raft_led").as_deref(), Some("0"));
    let leaderless = value(&follower, "delayd_raft_leaderless_seconds");
    assert_eq!(leaderless.as_deref(), Some("4.400000"));
    let heard = value(&follower, "delayd_raft_leader_heard_age_seconds");
    assert_eq!(heard.as_deref(), Some("5.000000"));
}

fn node(name: &str, id: u16) -> Node {
    let address = |port| Address::new("127.0.0.1", port).unwrap();
    let (peer, client) = (address(19_247 + id), address(9_247 + id));
    let (tls, sentinel) = (Some(address(9_347 + id)), Some(address(26_378 + id)));
    Node { name: Name::new(name).unwrap(), peer, client, tls, sentinel }
}

/// Of n1 in a cluster of three, whose ids are not in the order of the names.
fn status(role: output::RaftRole, leader: Option<u64>) -> Status {
    let nodes = BTreeMap::from([(1, node("n1", 1)), (2, node("n3", 3)), (3, node("n2", 2))]);
    let directory = Directory {
        cluster: 0xc1,
        hash_seed: 5,
        partitions: 1,
        is_formed: true,
        nodes,
        invited: Vec::new(),
    };
    let is_leader = role == output::RaftRole::Leader;
    let peer = |id: u64, name: &str, matched: u64, is_heard| PeerStatus {
        id,
        name: Name::new(name).unwrap(),
        address: node(name, 1).client,
        matched: if is_leader { matched } else { 0 },
        needs_base: false,
        is_heard,
        is_connected: is_heard,
        is_voter: true,
        level: Some(1),
        health: is_heard.then(Health::default),
        last: None,
        is_reporting: None,
        clock_ahead: (!is_heard).then_some(-60_000),
    };
    Status {
        node: 1,
        name: Name::new("n1").unwrap(),
        cluster: Some(0xc1),
        elsewhere: None,
        forming: None,
        conflict: None,
        term: 7,
        leader,
        role,
        commit: 118,
        applied: 118,
        last: 120,
        first: 1,
        base: 100,
        members: Members { learners: vec![2], ..Members::of([1, 3]) },
        asked: Vec::new(),
        changes_heard: 0,
        has_left: false,
        directory: Some(directory),
        peers: vec![peer(2, "n3", 20, false), peer(3, "n2", 119, true)],
        leader_heard: (!is_leader).then_some(Micros(950_000)),
        fresh: vec![(117, Micros(950_000)), (118, Micros(990_000))],
        elections: 3,
        transferring: false,
        priorities: [(1, 100), (3, 10)].into(),
        lease_until: None,
        level: 2,
        knows_levels: true,
        health: Health::default(),
        makes_way: false,
        clock: Some(ClockStatus { base: 0, ahead: -1_500, known: 3 }),
    }
}

/// At 1 s of the clock; the lease runs until 1.225 s.
fn view(status: &Status, leads: bool) -> ClusterView {
    let (lease, now) = ((1_225_000, 999_000), Micros(1_000_000));
    ClusterView {
        leads,
        reloads: 1,
        election_us: 300_000,
        max_skew_us: 50_000,
        ..ClusterView::of(status, &node("n1", 1), 117, lease, now)
    }
}

/// The raft thread's figures and the turn's own become what the transcripts show.
#[test]
fn a_view_has_what_the_node_knows() {
    let leader = view(&status(output::RaftRole::Leader, Some(1)), true);
    let mut expected = view_of("leader").unwrap();
    // The turn knows of that.
    expected.verified = None;
    (expected.nodes[1].id, expected.nodes[2].id, expected.nodes[2].is_voter) = (3, 2, false);
    assert_eq!(leader, expected);
    let words = |view: &ClusterView| {
        let one = |node| (view.part_of(node).word(), view.state_of(node).word(), view.behind(node));
        view.nodes.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(
        words(&leader),
        [
            ("leader", "online", Some(0)),
            ("follower", "online", Some(1)),
            ("learner", "unreachable", Some(100))
        ]
    );

    // A follower that no node reports to hears of the leader alone, and knows of nobody how far it is. What it had as a
    // leader is past.
    let follower = view(&status(output::RaftRole::Follower, Some(3)), false);
    assert_eq!((follower.leader_heard_us, follower.lease_us), (Some(50_000), None));
    // Of 118 entries it has 117.
    assert_eq!(follower.read_age_us, Some(50_000));
    assert_eq!(
        words(&follower),
        [("follower", "online", None), ("leader", "online", None), ("learner", "unknown", None)]
    );
    assert_eq!(follower.master(), ("127.0.0.1", 9_249));
    assert!(follower.nodes.iter().all(|node| node.matched.is_none()), "{follower:?}");

    // What nodes report counts where none leads: it is compared with the leader's, and who reports is online.
    let mut told = status(output::RaftRole::Follower, Some(3));
    (told.peers[0].last, told.peers[1].last) = (Some(20), Some(125));
    told.peers.iter_mut().for_each(|peer| peer.is_reporting = Some(true));
    assert_eq!(
        words(&view(&told, false)),
        [
            ("follower", "online", Some(5)),
            ("leader", "online", Some(0)),
            ("learner", "online", Some(105))
        ]
    );
    told.leader = None;
    let behind = words(&view(&told, false)).into_iter().map(|(_, _, behind)| behind);
    assert_eq!(behind.collect::<Vec<_>>(), [None; 3], "nobody leads");

    // Before it is a member it knows itself.
    let alone =
        Status { directory: None, peers: Vec::new(), ..status(output::RaftRole::Leader, None) };
    let alone = view(&alone, false);
    assert_eq!(alone.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n1"]);
}

/// What follows for clients from what a node is to the engine and knows of the others: an answer to a read, one to an add.
#[test]
fn a_nodes_role_says_what_it_answers() {
    let role = |leader| Role::Follower { leader };
    let silent = |us| ClusterView { read_age_us: us, ..view_of("follower").unwrap() };
    let asked = |us| ClusterView { quorum_us: us, ..view_of("leader").unwrap() };
    let leads = Role::Leader { epoch: 7 };
    let (follower, leader) = (view_of("follower").unwrap(), view_of("leader").unwrap());
    let (four_e, forming) = (1_200_000, view_of("forming").unwrap());
    for (role, is_committed, view, read, add) in [
        (leads, true, leader.clone(), ":0", "$"),
        (leads, false, leader.clone(), ":0", "$"),
        (leads, false, asked(None), ":0", "$"),
        (leads, false, asked(Some(four_e)), ":0", "$"),
        (leads, false, asked(Some(four_e + 1)), "-MASTERDOWN", "-MASTERDOWN"),
        (leads, false, forming, "-LOADING", "-LOADING"),
        (Role::Rising { epoch: 7 }, true, leader.clone(), "-LOADING", "-LOADING"),
        (Role::Loading, true, leader, "-LOADING", "-LOADING"),
        (role(Some(2)), true, follower.clone(), ":0", "-READONLY"),
        // Something that it has decided itself is not known committed.
        (role(Some(2)), false, follower, "-MASTERDOWN", "-READONLY"),
        (role(None), true, silent(Some(four_e)), ":0", "-READONLY"),
        (role(None), true, silent(Some(four_e + 1)), "-MASTERDOWN", "-READONLY"),
        (role(None), true, silent(None), "-MASTERDOWN", "-READONLY"),
        // It has heard of no leader for 5 s.
        (role(None), true, view_of("lost").unwrap(), "-MASTERDOWN", "-MASTERDOWN"),
    ] {
        let mut server = server();
        let shown = format!("{role:?} {is_committed} {view:?}");
        server.join(role, is_committed, view);
        let client = server.connect();
        let answer = say(&mut server, &client, "DELAY.LEN q");
        assert!(answer.starts_with(read), "{shown}: {answer}");
        let answer = say(&mut server, &client, "DELAY.ADD q 30s x");
        assert!(answer.starts_with(add), "{shown}: {answer}");
    }
}

fn clustered(options: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    let nodes = "n1=127.0.0.1:19248,n2=127.0.0.1:19249,n3=127.0.0.1:19250";
    for (word, value) in [("cluster-node", "n1"), ("cluster-nodes", nodes)].iter().chain(options) {
        config.set(word, &[(*value).to_owned()]).unwrap();
    }
    config
}

/// Before anything is opened: neither port nor folder is touched.
#[test]
fn what_does_not_go_with_a_cluster_ends_the_start() {
    let cases: [(&[(&str, &str)], &str); 8] = [
        (&[("appendonly", "no")], "appendonly no cannot be combined with cluster-node"),
        (
            &[("appendfsync", "everysec")],
            "appendfsync everysec cannot be combined with cluster-node",
        ),
        (&[("appendfsync", "no")], "appendfsync no cannot be combined with cluster-node"),
        (&[("max-body-size", "65mb")], "max-body-size is 68157440; with cluster-node"),
        (&[("cluster-node", "n 1")], "cluster-node: a node's name may contain letters"),
        (&[("cluster-node", "n4")], "cluster-node n4 is not in cluster-nodes: n1=127"),
        (&[("cluster-nodes", "n1=10.0.0.1:19248")], "cluster-secret is empty, but n1=10.0.0.1"),
        (&[("cluster-secret", "s3cret")], "cluster-secret has 6 bytes; it needs at least 16"),
    ];
    for (options, text) in cases {
        let mut config = clustered(options);
        config.set("dir", &["/nowhere/at/all".to_owned()]).unwrap();
        let error = Server::bind(config).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

#[test]
fn config_set_keeps_to_what_a_cluster_needs() {
    let mut server = InMemory::new(clustered(&[("cluster-secret", "hush, sixteen bytes")]), START);
    let client = server.connect();
    let mut set = |words: &str| say(&mut server, &client, &format!("CONFIG SET {words}"));
    for fsync in ["everysec", "no"] {
        let answer = set(&format!("maxclients 50 appendfsync {fsync}"));
        let text = format!(
            "-ERR CONFIG SET failed (possibly related to argument 'appendfsync') - appendfsync {fsync} cannot \
             be combined with cluster-node, only always can: "
        );
        assert!(answer.starts_with(&text), "{answer}");
    }
    assert!(set("max-body-size 65mb").contains("at most 67108864"));
    for option in [
        "cluster-node", "cluster-nodes", "cluster-port", "cluster-bind", "cluster-announce-ip",
        "cluster-announce-port", "cluster-announce-tls-port", "cluster-announce-bus-port",
        "cluster-secret", "cluster-election-timeout", "cluster-lease-grace",
    ] {
        let answer = set(&format!("{option} guess"));
        assert!(answer.contains("can't set immutable config"), "{answer}");
        assert!(!answer.contains("guess"), "{answer}");
    }
    assert_eq!(set("appendfsync always max-body-size 64mb replica-serve-stale-data no"), "+OK\r\n");
    let answer = say(&mut server, &client, "CONFIG GET slave-serve-stale-data maxclients");
    assert!(answer.contains("$2\r\nno\r\n") && answer.contains("$5\r\n10000\r\n"), "{answer}");
}

/// Whoever tries to change it may have written the right one.
#[test]
fn the_secret_is_not_in_the_slow_log() {
    let mut server = InMemory::new(clustered(&[("slowlog-log-slower-than", "0")]), START);
    let client = server.connect();
    say(&mut server, &client, "CONFIG SET cluster-secret hush");
    let log = say(&mut server, &client, "SLOWLOG GET 10");
    assert!(log.contains("(redacted)") && !log.contains("hush"), "{log}");
}

/// A client that asks a Sentinel which is stopped asks the next one at once. Who has subscribed may hear yet who leads then.
#[test]
fn a_node_that_is_stopped_lets_go_who_asks_it_as_a_sentinel() {
    let mut server = server();
    let [asking, listening, worker] =
        [server.connect_to_sentinel(), server.connect_to_sentinel(), server.connect()];
    server.join(Role::Leader { epoch: 7 }, true, view_of("leader").unwrap());
    assert_eq!(say(&mut server, &asking, "PING"), "+PONG\r\n");
    say(&mut server, &listening, "SUBSCRIBE +switch-master");
    server.drain();
    assert!(asking.is_closed() && !listening.is_closed() && !worker.is_closed());
    server.join(Role::Follower { leader: Some(2) }, true, view_of("follower").unwrap());
    let heard = String::from_utf8(listening.receive()).unwrap();
    assert!(heard.contains("delayd 127.0.0.1 9248 127.0.0.1 9249"), "{heard}");
}

/// What all that have subscribed are told goes out in the shares of several turns, and to each once.
#[test]
fn a_herd_that_listens_to_a_sentinel_is_told_all() {
    let mut config = Config::default();
    config.set("appendonly", &["no".to_owned()]).unwrap();
    config.set("maxclients", &["3000".to_owned()]).unwrap();
    let mut server = InMemory::new(config, START);
    let listening: Vec<FarEnd> = (0..2_500).map(|_| server.connect_to_sentinel()).collect();
    for client in &listening {
        client.send(b"SUBSCRIBE +switch-master\r\nPSUBSCRIBE * +* +switch-*\r\n");
    }
    server.join(Role::Leader { epoch: 7 }, true, view_of("leader").unwrap());
    server.run();
    listening.iter().for_each(|client| drop(client.receive()));
    server.join(Role::Follower { leader: Some(2) }, true, view_of("follower").unwrap());
    for client in &listening {
        let heard = String::from_utf8(client.receive()).unwrap();
        // More than a turn's share in all.
        assert_eq!(heard.matches("delayd 127.0.0.1 9248 127.0.0.1 9249").count(), 4, "{heard}");
    }
}

/// It may only be slow: a client that does not find it asks another node.
#[test]
fn clients_are_sent_to_the_last_leader_for_four_election_timeouts() {
    let view = |us| ClusterView { leader_heard_us: Some(us), ..view_of("quiet").unwrap() };
    let sent_to = |us| view(us).leader_for_clients().map(|node| node.id);
    let e = view(0).election_us;
    assert_eq!([0, 2 * e, 4 * e, 4 * e + 1].map(sent_to), [Some(2), Some(2), Some(2), None]);
}
