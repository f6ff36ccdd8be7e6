//! Every combination of three nodes, what their folders hold, their lists, and who hears whom.

use delayd::cluster::members::claims::{Claims, ClusterId, Holds, NodeId, list_text};
use delayd::cluster::members::formation::{Conflict, Decision, NodeAnswer, WaitingFor, decide};
use delayd::cluster::members::names::{Address, Listed, Name};

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Down,
    Empty,
    /// Empty, and started with another list.
    OtherList,
    Jobs,
    Member(u128),
}

const STATES: [State; 6] = [
    State::Down,
    State::Empty,
    State::OtherList,
    State::Jobs,
    State::Member(0xc1),
    State::Member(0xc2),
];

fn name(at: usize) -> Name {
    Name::new(["n1", "n2", "n3"][at]).unwrap()
}

fn listed(at: usize) -> Listed {
    Listed { name: name(at), peer: Address::new("127.0.0.1", 19_248 + at as u16).unwrap() }
}

fn claims(at: usize, state: State) -> Option<Claims> {
    let holds = match state {
        State::Down => return None,
        State::Empty | State::OtherList => Holds::Nothing,
        State::Jobs => Holds::Jobs,
        State::Member(cluster) => Holds::Member(ClusterId(cluster)),
    };
    let count = if state == State::OtherList { 2 } else { 3 };
    let list = list_text(&(0..count).map(listed).collect::<Vec<_>>());
    let node = NodeId(at as u64 + 11);
    let (name, version) = (name(at), "0.1.0".to_owned());
    let (peer, client) = (listed(at).peer, listed(at).peer);
    let (tls, sentinel) = (None, None);
    Some(Claims { name, node, holds, version, level: 1, list, peer, client, tls, sentinel })
}

/// What node `at` decides if it hears those whose bit is set.
fn decided(states: [State; 3], at: usize, hears: usize) -> Option<Result<Decision, Conflict>> {
    let own = claims(at, states[at])?;
    let others = (0..3).filter(|other| *other != at).map(|other| {
        let claims = claims(other, states[other]).filter(|_| hears & 1 << other != 0);
        NodeAnswer { listed: listed(other), claims }
    });
    Some(decide(&own, &others.collect::<Vec<_>>()))
}

#[test]
fn three_nodes_in_every_state_found_once_or_not_at_all() {
    let mut founded = 0;
    for combination in 0..6usize.pow(3) {
        let states = [0, 1, 2].map(|at| STATES[combination / 6usize.pow(at) % 6]);
        // Bits 0 to 2 for what n1 hears, 3 to 5 for n2, 6 to 8 for n3.
        for hears in 0..1 << 9 {
            let all = [0, 1, 2].map(|at| decided(states, at, hears >> (3 * at)));
            let case = || format!("{states:?} hearing {hears:09b}: {all:#?}");
            let found = |one: &&Option<_>| **one == Some(Ok(Decision::Found));
            let founders = all.iter().filter(found).count();
            assert!(founders <= 1, "{}", case());
            if founders == 1 {
                founded += 1;
                let equal = [[State::Empty; 3], [State::OtherList; 3]].contains(&states);
                assert!(equal, "{}", case());
                assert!(all[0] == Some(Ok(Decision::Found)), "{}", case());
            }
            for (at, decision) in all.iter().enumerate() {
                let heard = |other: usize| other != at && hears >> (3 * at) & 1 << other != 0;
                let members = (0..3).filter(|other| heard(*other));
                let mut clusters: Vec<u128> = members
                    .filter_map(|other| match states[other] {
                        State::Member(cluster) => Some(cluster),
                        _ => None,
                    })
                    .collect();
                clusters.dedup();
                match (states[at], decision) {
                    (State::Down, None) => {}
                    (State::Member(_), Some(decision)) => {
                        assert_eq!(*decision, Ok(Decision::Start), "{}", case());
                    }
                    (State::Jobs, Some(decision)) => {
                        assert!(decision.is_err(), "a journal never joins: {}", case());
                    }
                    (_, Some(Ok(Decision::Join { cluster, through }))) => {
                        assert_eq!(clusters, [cluster.0], "{}", case());
                        assert!(!through.is_empty() && !through.contains(&name(at)), "{}", case());
                    }
                    (_, Some(Ok(Decision::Start))) => panic!("no member starts: {}", case()),
                    (_, Some(_)) => assert!(clusters.len() != 1, "it joins: {}", case()),
                    (_, None) => unreachable!(),
                }
            }
        }
    }
    // With either list; n1 has to hear both of the others, the seven other bits may be anything.
    assert_eq!(founded, 2 << 7);
}

#[test]
fn three_empty_nodes_agree_on_the_first() {
    let all = [0, 1, 2].map(|at| decided([State::Empty; 3], at, 0b111).unwrap().unwrap());
    let waits = Decision::Wait(WaitingFor::Founder(name(0)));
    assert_eq!(all, [Decision::Found, waits.clone(), waits]);
}

/// Half a cluster: who is missing is named.
#[test]
fn who_is_missing_is_waited_for() {
    let states = [State::Empty, State::Empty, State::Down];
    let waits = Decision::Wait(WaitingFor::Missing(vec![name(2)]));
    assert_eq!(decided(states, 0, 0b111), Some(Ok(waits.clone())));
    assert_eq!(decided(states, 1, 0b111), Some(Ok(waits)));
    let alone = Decision::Wait(WaitingFor::Missing(vec![name(1), name(2)]));
    assert_eq!(decided(states, 0, 0), Some(Ok(alone)));
}

/// A node that lost its disk joins the cluster it was in, whichever of the others answers.
#[test]
fn an_empty_node_among_members_joins() {
    let states = [State::Empty, State::Member(0xc1), State::Member(0xc1)];
    let join = |through: &[usize]| Decision::Join {
        cluster: ClusterId(0xc1),
        through: through.iter().map(|at| name(*at)).collect(),
    };
    assert_eq!(decided(states, 0, 0b111), Some(Ok(join(&[1, 2]))));
    assert_eq!(decided(states, 0, 0b100), Some(Ok(join(&[2]))));
}

#[test]
fn refusals_name_both_sides() {
    use State::*;
    let list = "n1=127.0.0.1:19248,n2=127.0.0.1:19249";
    for (states, at, text) in [
        (
            [Empty, OtherList, Empty],
            0,
            format!("cluster-nodes of n1 is {list},n3=127.0.0.1:19250, that of n2 is {list}; they must be equal"),
        ),
        (
            [Empty, Empty, Jobs],
            0,
            "the folder of n3 has the journal of a standalone server, and n1, n2 wait to form a cluster with it; start n3 without cluster-node, or with an empty dir"
                .to_owned(),
        ),
        (
            [Jobs, Empty, Jobs],
            1,
            "the folders of n1 and of n3 each have the journal of a standalone server; no cluster can have the jobs of both. Start them without cluster-node, or with an empty dir"
                .to_owned(),
        ),
        (
            [Jobs, Member(0xc1), Empty],
            0,
            "the folder of n1 has the journal of a standalone server, and n2 is a member of cluster 000000000000000000000000000000c1; n1 can join only with an empty dir"
                .to_owned(),
        ),
        (
            [Empty, Member(0xc1), Member(0xc2)],
            0,
            "n2 is a member of cluster 000000000000000000000000000000c1, n3 of cluster \
             000000000000000000000000000000c2; it is unclear which one n1 should join"
                .to_owned(),
        ),
    ] {
        let refused = decided(states, at, 0b111).unwrap().unwrap_err();
        assert_eq!(refused.to_string(), text);
    }
}

#[test]
fn a_node_that_is_not_who_it_should_be_is_named() {
    let own = claims(0, State::Empty).unwrap();
    let refused = |change: &dyn Fn(&mut Claims)| {
        let mut second = claims(1, State::Empty).unwrap();
        change(&mut second);
        let others = [
            NodeAnswer { listed: listed(1), claims: Some(second) },
            NodeAnswer { listed: listed(2), claims: claims(2, State::Empty) },
        ];
        decide(&own, &others).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|other| other.name = name(2)),
        "cluster-nodes has n2 at 127.0.0.1:19249; the node there is n3"
    );
    assert_eq!(
        refused(&|other| other.name = name(0)),
        "two nodes are called n1: this one, 000000000000000b, and the one at 127.0.0.1:19249, 000000000000000c; cluster-node must differ"
    );
    assert_eq!(
        refused(&|other| (other.name, other.node) = (name(0), NodeId(11))),
        "cluster-nodes has n2 at 127.0.0.1:19249; that is this node, n1, itself"
    );
    assert_eq!(
        refused(&|other| other.node = NodeId(13)),
        "n2 and n3 both have the id 000000000000000d: one folder is a copy of the other. Empty one of them"
    );
}
