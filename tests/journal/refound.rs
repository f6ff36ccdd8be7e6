//! A journal that is made the first of a cluster: whatever crash comes, its jobs are there, and it can be made one.

use crate::journal::batches::OPTIONS;
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::Telltale;
use delayd::cluster::members::Members;
use delayd::cluster::members::directory::{Directory, Node};
use delayd::cluster::members::names::{Address, Name};
use delayd::engine::model::fact::Fact;
use delayd::engine::{Facts, Settings};
use delayd::ids::{Db, Index, QueueNo};
use delayd::journal::SegmentEntry;
use delayd::journal::offline::new_cluster::{Founder, refound};
use delayd::journal::record::RecordKind;
use delayd::journal::record::raft_state::Vote;
use delayd::journal::recovery::{Progress, Recovered, recover};
use delayd::server::cluster::start::{check_alone, node_start};
use delayd::time::Micros;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;

/// Queues of their own names, a batch each.
const BATCHES: u64 = 12;

fn opened(storage: &Arc<Lossy>) -> Recovered<Lossy> {
    recover(storage, OPTIONS, Settings::default(), &Progress::default()).unwrap()
}

fn facts(batch: u64) -> Vec<u8> {
    let mut bound = Facts::default();
    let name = format!("q{batch}");
    let queue = QueueNo((batch as u32 - 1) * 16);
    bound.push(&Fact::QueueBound { queue, db: Db(0), name: name.as_bytes() });
    bound.bytes
}

/// Batches of this node; the last `open` of them are not known to be committed.
fn journal(node: u64, open: u64) -> Arc<Lossy> {
    let storage = Lossy::new();
    let mut log = opened(&storage).log;
    let mut index = Index(0);
    let mut write = |kind, first, count, body: &[u8]| {
        index = index.next();
        let now = Micros(1_000 + index.0);
        log.append(&[SegmentEntry { kind, index, epoch: 1, node, first, now, count, body }])
            .unwrap();
        // The head of the next one says so.
        if node > 0 && index.0 <= BATCHES + 1 - open {
            log.commit(index);
        }
    };
    if node > 0 {
        write(RecordKind::Members, 1, 0, &founder(node).members);
    }
    for batch in 1..=BATCHES {
        write(RecordKind::Facts, batch, 1, &facts(batch));
    }
    log.note_state().unwrap();
    log.sync().unwrap();
    storage
}

pub fn founder(node: u64) -> Founder {
    let address = |port| Address::new("127.0.0.1", port).unwrap();
    let (name, peer, client) = (Name::new("n7").unwrap(), address(19_248), address(9_248));
    let own = Node { name, peer, client, tls: None, sentinel: None };
    let directory = Directory::founded(u128::from(node), 9, 1, node, own).encode();
    let mut members = Vec::new();
    Members { directory: directory.into(), ..Members::of([node]) }.encode(&mut members);
    Founder { node, name: Box::from(*b"n7"), members }
}

/// All queues, and the only member is the one of this id.
fn is_founded_by(storage: &Arc<Lossy>, node: u64, digest: u64) {
    let recovered = opened(storage);
    assert_eq!(recovered.engine.digest(), digest);
    let id = recovered.log.state().identity.node;
    assert!(check_alone(&recovered.log).is_err());
    let start = node_start(&recovered, id, 1).unwrap();
    assert_eq!((id, start.members.voters, start.entries.len()), (node, vec![node], 0));
    assert_eq!(start.vote.term, start.base.term, "older votes are another cluster's");
    assert_eq!((start.applied, start.commit), (start.base.index, start.base.index));
}

/// With a death at every operation, four times each. A server alone or a node that has lost the others before.
#[test]
fn a_journal_begins_a_cluster_or_can_be_made_to_whatever_crash_comes() {
    for (of, open) in [(0, 0), (5, 0), (5, 3)] {
        let all = {
            let storage = journal(of, open);
            refound(&storage, founder(70)).unwrap();
            opened(&storage).engine.digest()
        };
        for operation in 0.. {
            let _telltale = Telltale(format!("of node {of}, operation {operation}"));
            let mut rng = SmallRng::seed_from_u64(operation);
            let storage = journal(of, open);
            storage.fail_after(operation / 4, Fault::Death);
            let done = refound(&storage, founder(71));
            let storage = storage.crash(&mut rng);
            let found = opened(&storage);
            let members = found.log.members().map(|noted| Members::decode(&noted.body).unwrap());
            let voters = members.map_or(Vec::new(), |members| members.voters);
            if voters == [71] {
                is_founded_by(&storage, 71, all);
            } else {
                assert!(done.is_err(), "it was said to be done");
                assert_eq!(found.base_index, Index(0));
                assert_eq!(voters.is_empty(), of == 0);
            }
            // Whoever does it again has all of it.
            refound(&storage, founder(72)).unwrap();
            is_founded_by(&storage.crash(&mut rng), 72, all);
            if done.is_ok() && operation % 4 == 3 {
                break;
            }
        }
    }
}

#[test]
fn what_was_not_known_committed_is_kept_and_counted() {
    let storage = journal(5, 3);
    assert_eq!(opened(&storage).index, Index(BATCHES + 1 - 3));
    let mut log = opened(&storage).log;
    log.vote(Vote { epoch: 9, node: 3 }).unwrap();
    log.sync().unwrap();
    drop(log);
    let refounded = refound(&storage, founder(70)).unwrap();
    assert_eq!((refounded.uncommitted, refounded.index), (3, Index(BATCHES + 2)));
    assert_eq!(refounded.epoch, 10, "later than whatever it has voted in");
    assert_eq!(refounded.now, Micros(1_000 + BATCHES + 1));
    is_founded_by(&storage, 70, opened(&journal(0, 0)).engine.digest());
}
