//! Names and addresses of the members, and what the whole cluster has in common.
//!
//! It is in the log with each change of the members, and in bases, next to the list of voters. All numbers are
//! little-endian:
//!
//! ```text
//! u8 form of the record, 1 | u128 id of the cluster | u64 key of the id hashes | u16 partitions | u8 1: formed | u8 nodes
//! of each node, in the order of the ids:
//! u64 id | text name | u8 1: tls, 2: sentinel | addresses: peer, client, tls, sentinel, each text host, u16 port
//! of form 2, as nodes are invited, then: u8 how many | of each, in the order of the names: text name | address
//! text: u16 bytes, then these
//! ```
//!
//! Form 2 belongs to level 2. It is used only while a node is invited, so that a node of level 1 can read the directory
//! at all other times.

use super::names::{Address, Listed, Name};
use super::wire::{WireReader, put_text};
use crate::limits::{HOST_BYTES_MAX, NODE_NAME_BYTES_MAX, NODES_BYTES_MAX, NODES_MAX};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// The directory of a cluster whose nodes all hold all jobs.
pub const PARTITIONS: u16 = 1;

const FORM: u8 = 1;
const FORM_INVITED: u8 = 2;
const TLS: u8 = 1;
const SENTINEL: u8 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name. A node whose disk was lost has another id, and joins under the name of the one it replaces; so two
    /// nodes may have the same name for a while, and the same addresses.
    pub name: Name,
    /// Where peers reach it.
    pub peer: Address,
    /// Where clients reach it.
    pub client: Address,
    /// Where they do with TLS.
    pub tls: Option<Address>,
    /// Where it answers as a Sentinel.
    pub sentinel: Option<Address>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Directory {
    /// The id of the cluster, drawn when it was founded; never 0.
    pub cluster: u128,
    /// The key of the hash of job ids on all nodes, so that a cursor of SCAN outlives its leader. Clients must not
    /// learn it: they could choose colliding ids.
    pub hash_seed: u64,
    /// Fixed when the cluster was founded; from 1 on.
    pub partitions: u16,
    /// Whether all nodes that were listed have been voters together: before that nothing is acknowledged.
    pub is_formed: bool,
    /// By id, from 1 on.
    pub nodes: BTreeMap<u64, Node>,
    /// The nodes to add as soon as they connect, in the order of their names, none with the name of a member: a cluster
    /// that has formed adds no other node.
    pub invited: Vec<Listed>,
}

/// Why there is no such directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WrongDirectory {
    #[error("a cluster has at most {NODES_MAX} nodes, including those that leave; these are {0}")]
    TooMany(usize),
    #[error("node {0:016x} is a member without a name and addresses")]
    Unknown(u64),
    #[error("the ids of cluster and nodes and the number of partitions begin with 1")]
    Zero,
    #[error("these bytes are not names and addresses of a cluster")]
    Bytes,
}

impl Directory {
    /// The directory of a cluster with one node, its founder.
    pub fn founded(
        cluster: u128,
        hash_seed: u64,
        partitions: u16,
        id: u64,
        node: Node,
    ) -> Directory {
        let nodes = BTreeMap::from([(id, node)]);
        let invited = Vec::new();
        Directory { cluster, hash_seed, partitions, is_formed: false, nodes, invited }
    }

    /// After a change: `members` are all that are left, or begin to be, and `changed` those of them that are new or
    /// have moved.
    pub fn changed(
        &self,
        members: &[u64],
        changed: &BTreeMap<u64, Node>,
    ) -> Result<Directory, WrongDirectory> {
        let mut next = self.clone();
        next.nodes.extend(changed.iter().map(|(id, node)| (*id, node.clone())));
        next.nodes.retain(|id, _| members.contains(id));
        next.invited.retain(|listed| next.nodes.values().all(|node| node.name != listed.name));
        next.covers(members)?;
        next.check()?;
        Ok(next)
    }

    /// With one more invited node, or with a new address for one.
    pub fn with_invited(&self, listed: Listed) -> Directory {
        let mut next = self.clone();
        next.invited.retain(|other| other.name != listed.name);
        next.invited.push(listed);
        next.invited.sort();
        next
    }

    /// Whether all of these have a name and addresses.
    pub fn covers(&self, members: &[u64]) -> Result<(), WrongDirectory> {
        let unknown = members.iter().find(|id| !self.nodes.contains_key(id));
        unknown.map_or(Ok(()), |id| Err(WrongDirectory::Unknown(*id)))
    }

    /// Those of this name, with their ids: one, and while it is replaced two.
    pub fn named<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = (u64, &'a Node)> {
        let nodes = self.nodes.iter().filter(move |(_, node)| node.name == *name);
        nodes.map(|(id, node)| (*id, node))
    }

    /// The rules for each.
    pub fn check(&self) -> Result<(), WrongDirectory> {
        let count = self.nodes.len() + self.invited.len();
        if count > NODES_MAX {
            return Err(WrongDirectory::TooMany(count));
        }
        if self.cluster == 0 || self.partitions == 0 || self.nodes.contains_key(&0) {
            return Err(WrongDirectory::Zero);
        }
        Ok(())
    }

    /// Its bytes, at most [`NODES_BYTES_MAX`].
    ///
    /// # Panics
    /// If [`check`](Self::check) does not hold.
    pub fn encode(&self) -> Vec<u8> {
        self.check().expect("what is kept was checked");
        let mut bytes = vec![if self.invited.is_empty() { FORM } else { FORM_INVITED }];
        bytes.extend_from_slice(&self.cluster.to_le_bytes());
        bytes.extend_from_slice(&self.hash_seed.to_le_bytes());
        bytes.extend_from_slice(&self.partitions.to_le_bytes());
        bytes.push(u8::from(self.is_formed));
        bytes.push(self.nodes.len() as u8);
        for (id, node) in &self.nodes {
            bytes.extend_from_slice(&id.to_le_bytes());
            put_node(&mut bytes, node);
        }
        if !self.invited.is_empty() {
            bytes.push(self.invited.len() as u8);
        }
        for Listed { name, peer } in &self.invited {
            put_text(&mut bytes, name.as_str());
            put_address(&mut bytes, peer);
        }
        debug_assert!(bytes.len() <= NODES_BYTES_MAX);
        bytes
    }

    /// Reads all of what [`encode`](Self::encode) has written, and checks it.
    pub fn decode(bytes: &[u8]) -> Result<Directory, WrongDirectory> {
        let read = &mut WireReader(bytes);
        let directory = read_directory(read).filter(|_| read.is_done());
        let directory = directory.ok_or(WrongDirectory::Bytes)?;
        directory.check()?;
        Ok(directory)
    }
}

impl fmt::Debug for Directory {
    /// Without the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Directory");
        shown.field("cluster", &self.cluster).field("partitions", &self.partitions);
        shown
            .field("is_formed", &self.is_formed)
            .field("nodes", &self.nodes)
            .field("invited", &self.invited)
            .finish_non_exhaustive()
    }
}

fn put_node(bytes: &mut Vec<u8>, node: &Node) {
    put_text(bytes, node.name.as_str());
    put_addresses(bytes, node);
}

/// Appends what [`read_addresses`] reads.
pub(in crate::cluster) fn put_addresses(bytes: &mut Vec<u8>, node: &Node) {
    let Node { peer, client, tls, sentinel, .. } = node;
    let (with_tls, with_sentinel) = (u8::from(tls.is_some()), u8::from(sentinel.is_some()));
    bytes.push((with_tls * TLS) | (with_sentinel * SENTINEL));
    for address in [Some(peer), Some(client), tls.as_ref(), sentinel.as_ref()].into_iter().flatten()
    {
        put_address(bytes, address);
    }
}

fn put_address(bytes: &mut Vec<u8>, address: &Address) {
    put_text(bytes, address.host());
    bytes.extend_from_slice(&address.port().to_le_bytes());
}

fn read_directory(read: &mut WireReader<'_>) -> Option<Directory> {
    let form = read.u8().filter(|form| [FORM, FORM_INVITED].contains(form))?;
    let (cluster, hash_seed, partitions) = (read.u128()?, read.u64()?, read.u16()?);
    let is_formed = read.u8().filter(|flag| *flag <= 1)? == 1;
    let count = usize::from(read.u8()?);
    let mut nodes = BTreeMap::new();
    for _ in 0..count {
        let id = read.u64()?;
        // In the order of the ids, so that equal directories have equal bytes.
        if nodes.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return None;
        }
        nodes.insert(id, read_node(read)?);
    }
    let invited = if form == FORM { Vec::new() } else { read_invited(read, &nodes)? };
    Some(Directory { cluster, hash_seed, partitions, is_formed, nodes, invited })
}

/// At least one, in the order of their names, and no member: equal directories have equal bytes.
fn read_invited(read: &mut WireReader<'_>, nodes: &BTreeMap<u64, Node>) -> Option<Vec<Listed>> {
    let count = usize::from(read.u8()?);
    let mut invited: Vec<Listed> = Vec::new();
    for _ in 0..count {
        let name = Name::new(read.text(NODE_NAME_BYTES_MAX)?).ok()?;
        let peer = Address::new(read.text(HOST_BYTES_MAX)?, read.u16()?).ok()?;
        let is_new = invited.last().is_none_or(|last| last.name < name);
        if !is_new || nodes.values().any(|node| node.name == name) {
            return None;
        }
        invited.push(Listed { name, peer });
    }
    Some(invited).filter(|invited| !invited.is_empty())
}

fn read_node(read: &mut WireReader<'_>) -> Option<Node> {
    let name = Name::new(read.text(NODE_NAME_BYTES_MAX)?).ok()?;
    read_addresses(read, name)
}

/// The addresses of a node that is known by name.
pub(in crate::cluster) fn read_addresses(read: &mut WireReader<'_>, name: Name) -> Option<Node> {
    let flags = read.u8().filter(|flags| *flags <= (TLS | SENTINEL))?;
    let mut address = || Address::new(read.text(HOST_BYTES_MAX)?, read.u16()?).ok();
    let (peer, client) = (address()?, address()?);
    let tls = if flags & TLS == 0 { None } else { Some(address()?) };
    let sentinel = if flags & SENTINEL == 0 { None } else { Some(address()?) };
    Some(Node { name, peer, client, tls, sentinel })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn node(name: &str, port: u16) -> Node {
        let address = |port| Address::new("10.1.2.3", port).unwrap();
        Node {
            name: Name::new(name).unwrap(),
            peer: address(port + 10_000),
            client: address(port),
            tls: port.is_multiple_of(2).then(|| address(port + 1_000)),
            sentinel: port.is_multiple_of(3).then(|| address(port + 2_000)),
        }
    }

    fn three() -> Directory {
        let mut directory = Directory::founded(7, 9, 1, 11, node("n1", 9248));
        directory.nodes.insert(12, node("n2", 9249));
        directory.nodes.insert(13, node("n3", 9250));
        directory
    }

    fn listed(text: &str) -> Listed {
        let (name, peer) = text.split_once('=').unwrap();
        Listed { name: Name::new(name).unwrap(), peer: Address::parse(peer).unwrap() }
    }

    fn with_invited() -> Directory {
        let invited = vec![listed("n4=10.1.2.3:19251"), listed("n5=h:1")];
        Directory { invited, ..three() }
    }

    #[test]
    fn bytes_give_it_back_and_shorter_or_longer_ones_do_not() {
        for directory in [three(), with_invited()] {
            let mut bytes = directory.encode();
            assert_eq!(Directory::decode(&bytes), Ok(directory));
            for short in 0..bytes.len() {
                assert_eq!(
                    Directory::decode(&bytes[..short]),
                    Err(WrongDirectory::Bytes),
                    "{short}"
                );
            }
            bytes.push(0);
            assert_eq!(Directory::decode(&bytes), Err(WrongDirectory::Bytes));
        }
    }

    #[test]
    fn a_node_of_level_1_reads_it_as_long_as_nobody_is_invited() {
        assert_eq!((three().encode()[0], with_invited().encode()[0]), (1, 2));
    }

    #[test]
    fn who_joins_is_not_invited_any_more_and_invitations_count() {
        let members = [11, 12, 13, 14];
        let new = BTreeMap::from([(14, node("n4", 9251))]);
        let joined = with_invited().changed(&members, &new).unwrap();
        assert_eq!(joined.invited, [listed("n5=h:1")]);
        let many = (1..=NODES_MAX - 2).map(|n| listed(&format!("m{n}=h:1"))).collect();
        let many = Directory { invited: many, ..three() };
        assert_eq!(many.check(), Err(WrongDirectory::TooMany(NODES_MAX + 1)));
    }

    /// Whatever is read is written with the very same bytes: two nodes never take one record for two things.
    #[test]
    fn changed_bytes_are_refused_or_mean_another_directory() {
        let mut read = 0;
        for seed in 0..20_000 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut changed =
                if seed % 2 == 0 { three().encode() } else { with_invited().encode() };
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..changed.len());
                changed[at] = rng.random();
            }
            if let Ok(directory) = Directory::decode(&changed) {
                assert_eq!(directory.encode(), changed, "seed {seed}");
                read += 1;
            }
        }
        assert!(read > 1_000, "only {read} were read");
    }

    #[test]
    fn the_largest_one_stays_within_its_limit() {
        let mut directory = Directory { nodes: BTreeMap::new(), ..three() };
        for id in 1..=NODES_MAX as u64 {
            let address = Address::new(&format!("{id}{}", "h".repeat(252)), 65_535).unwrap();
            let node = Node {
                name: Name::new(&format!("{id}{}", "n".repeat(63))).unwrap(),
                peer: address.clone(),
                client: address.clone(),
                tls: Some(address.clone()),
                sentinel: Some(address),
            };
            directory.nodes.insert(id, node);
        }
        let bytes = directory.encode();
        assert!(bytes.len() <= NODES_BYTES_MAX, "{}", bytes.len());
        assert!(bytes.len() + 100 > NODES_BYTES_MAX, "{}: the limit is too generous", bytes.len());
        assert_eq!(Directory::decode(&bytes), Ok(directory.clone()));

        directory.nodes.insert(99, node("n99", 1));
        assert_eq!(directory.check(), Err(WrongDirectory::TooMany(NODES_MAX + 1)));
    }

    #[test]
    fn a_change_keeps_who_stays_and_names_what_does_not_fit() {
        let directory = three();
        let new = BTreeMap::from([(14, node("n4", 9251))]);
        let changed = directory.changed(&[11, 12, 14], &new).unwrap();
        assert_eq!(changed.nodes.keys().copied().collect::<Vec<_>>(), [11, 12, 14]);
        let named = |directory: &Directory, name: &str| {
            let name = Name::new(name).unwrap();
            directory.named(&name).map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(named(&changed, "n4"), [14]);
        assert_eq!(named(&changed, "n3"), [0; 0]);

        let error = directory.changed(&[11, 12, 14], &BTreeMap::new()).unwrap_err();
        assert_eq!(error, WrongDirectory::Unknown(14));
        // Node 14 replaces node 13, whose disk was lost.
        let replaced = BTreeMap::from([(14, node("n3", 9250))]);
        let both = directory.changed(&[11, 12, 13, 14], &replaced).unwrap();
        assert_eq!(named(&both, "n3"), [13, 14]);
        assert_eq!(named(&both.changed(&[11, 12, 14], &BTreeMap::new()).unwrap(), "n3"), [14]);
    }

    #[test]
    fn the_seed_is_not_shown() {
        let directory = Directory { hash_seed: 123_456_789, ..three() };
        assert!(!format!("{directory:?}").contains("123456789"));
    }
}
