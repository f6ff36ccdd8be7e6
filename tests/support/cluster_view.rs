//! Views of a cluster of three, n1 to n3, as its node n1 has them.

use delayd::cluster::members::directory::Node;
use delayd::cluster::members::names::{Address, Listed, Name};
use delayd::cluster::peer::verify::{Verification, VerifyNote};
use delayd::cluster::raft::output::RaftRole;
use delayd::cluster::timing::clocks::ClockStatus;
use delayd::cluster::timing::health::{Health, Sick, Why};
use delayd::observe::cluster::{ClusterView, NodeView};

/// By a word: `leader`, `sick` (a leader whose disk hangs), `invited` (a leader that waits for n4), `follower`, `quiet` (it has not
/// heard of the leader for 3 E), `lost` (for 5 s), `removed`, `forming`.
pub fn view_of(word: &str) -> Option<ClusterView> {
    let follower = ClusterView {
        leader_heard_us: Some(50_000),
        read_age_us: Some(50_000),
        ..view(RaftRole::Follower, Some(2))
    };
    let leader = ClusterView {
        leads: true,
        lease_us: Some(225_000),
        quorum_us: Some(1_000),
        verified: Some(compared()),
        ..view(RaftRole::Leader, Some(1))
    };
    Some(match word {
        "leader" => leader,
        "sick" => {
            let sick = Some(Sick { why: Why::DiskHangs, for_us: 1_500_000 });
            let health = Health { sick, waits_us: 2_500_000, ..leader.health };
            let mut view = ClusterView { health, makes_way: true, ..leader };
            view.nodes[0].health = Some(health);
            view
        }
        "invited" => {
            let name = Name::new("n4").expect("a name");
            let peer = Address::new("127.0.0.1", 19_251).expect("an address");
            ClusterView { invited: vec![Listed { name, peer }], ..leader }
        }
        "removed" => {
            let own = NodeView { is_voter: false, has_left: true, ..node(1, None) };
            ClusterView { nodes: vec![own, node(2, None), node(3, None)], ..follower }
        }
        "follower" => follower,
        "quiet" => ClusterView {
            leader: None,
            leader_heard_us: Some(900_000),
            read_age_us: Some(900_000),
            ..follower
        },
        "lost" => ClusterView {
            leader_heard_us: Some(5_000_000),
            read_age_us: Some(5_000_000),
            leaderless_us: Some(4_400_000),
            ..follower
        },
        "forming" => ClusterView {
            cluster: None,
            forming: Some("n3 is missing".to_owned()),
            nodes: vec![node(1, None)],
            epoch: 0,
            base: 0,
            last: 0,
            committed: 0,
            applied: 0,
            ..view(RaftRole::Follower, None)
        },
        _ => return None,
    })
}

/// As of 100 n2 holds what n1 holds; n3 is away.
fn compared() -> Verification {
    let mut compared = Verification::new(100, [2, 3]);
    compared.count(Ok(7));
    compared.hear(2, VerifyNote::Sum { index: 100, sum: 7 });
    compared.part(3);
    compared
}

fn view(role: RaftRole, leader: Option<u64>) -> ClusterView {
    let leads = role == RaftRole::Leader;
    ClusterView {
        clock: Some(ClockStatus { base: 0, ahead: -1_500, known: 3 }),
        max_skew_us: 50_000,
        level: 2,
        cluster: Some(0xc1),
        node: 1,
        name: "n1".to_owned(),
        role,
        epoch: 7,
        leader,
        led: leader,
        last: 120,
        committed: 118,
        applied: 117,
        first: 1,
        base: 100,
        nodes: vec![
            NodeView { clock_ahead: Some(-1_500), ..node(1, None) },
            NodeView { is_heard: Some(true), ..node(2, leads.then_some(119)) },
            NodeView {
                is_heard: leads.then_some(false),
                is_connected: false,
                clock_ahead: Some(-60_000),
                ..node(3, leads.then_some(20))
            },
        ],
        election_us: 300_000,
        elections: 3,
        reloads: 1,
        ..ClusterView::default()
    }
}

fn node(id: u64, matched: Option<u64>) -> NodeView {
    let address = |port: u64| Address::new("127.0.0.1", (port + id) as u16).expect("an address");
    let entry = Node {
        name: Name::new(&format!("n{id}")).expect("a name"),
        client: address(9_247),
        tls: Some(address(9_347)),
        peer: address(19_247),
        sentinel: Some(address(26_378)),
    };
    NodeView {
        matched,
        health: (id < 3).then(Health::default),
        priority: if id == 2 { 10 } else { 100 },
        ..NodeView::met(id, entry)
    }
}
