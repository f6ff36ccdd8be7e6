//! A node's claims to another one, before either trusts the other.
//!
//! ```text
//! text name | u64 id | u8 holds, and of a member u128 id of the cluster | text version | u32 level | text list |
//! its addresses as super::directory has them, from the byte that says which there are
//! ```

use super::directory::{self, put_addresses, read_addresses};
use super::names::{Address, Listed, Name};
use super::wire::{WireReader, put_text};
use crate::limits::{NODE_LIST_BYTES_MAX, NODE_NAME_BYTES_MAX, VERSION_BYTES_MAX};
use std::fmt;

/// The content of a node's folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Holds {
    /// Nothing that was ever acknowledged.
    Nothing,
    /// The journal of a node that was alone.
    Jobs,
    /// A member of this cluster.
    Member(ClusterId),
}

/// The id of a cluster; drawn when it was founded, never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClusterId(pub u128);

/// The id of a node; drawn when its folder was first used, never 0. A lost disk takes its id along, so that no node
/// votes twice under it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claims {
    /// `cluster-node`.
    pub name: Name,
    pub node: NodeId,
    pub holds: Holds,
    /// The version of delayd, for people; after it, where a process has several, [`Claims::partition`].
    pub version: String,
    /// The highest format of facts, images and frames that it reads.
    pub level: u32,
    /// `cluster-nodes` as [`list_text`] writes it.
    pub list: String,
    /// Where peers reach it,
    pub peer: Address,
    /// where clients do,
    pub client: Address,
    /// where they do with TLS,
    pub tls: Option<Address>,
    /// and where it answers as a Sentinel.
    pub sentinel: Option<Address>,
}

impl ClusterId {
    /// Marks each message as one of this cluster: never 0. Two clusters have the same mark by chance once in four
    /// thousand million; a node with the wrong secret is refused before.
    pub fn tag(self) -> u32 {
        let half = (self.0 >> 64) as u64 ^ self.0 as u64;
        ((half >> 32) as u32 ^ half as u32).max(1)
    }
}

/// Separates a version from the partition.
const PARTITION: &str = "+partition.";

/// The version of a node that is this partition of `count` in its process.
pub fn version_text(version: &str, partition: u16, count: u16) -> String {
    match count {
        1 => version.to_owned(),
        _ => format!("{version}{PARTITION}{partition}.of.{count}"),
    }
}

/// The nodes of a list in one form: in the order of their names, with commas.
pub fn list_text(nodes: &[Listed]) -> String {
    let mut nodes: Vec<&Listed> = nodes.iter().collect();
    nodes.sort();
    nodes.iter().map(|node| node.to_string()).collect::<Vec<_>>().join(",")
}

impl Claims {
    /// Its cluster's id, if it is a member.
    pub fn cluster(&self) -> Option<ClusterId> {
        match self.holds {
            Holds::Member(cluster) => Some(cluster),
            Holds::Nothing | Holds::Jobs => None,
        }
    }

    /// Whether it was removed from its cluster, and only waits to be added: it names no list.
    pub fn only_waits(&self) -> bool {
        self.list.is_empty()
    }

    /// Which partition of its process it is, of how many: `3.of.16`. It is part of the version, as build metadata, since
    /// earlier ones have one partition and say nothing.
    pub fn partition(&self) -> &str {
        self.version.split_once(PARTITION).map_or("0.of.1", |(_, partition)| partition)
    }

    /// The directory's entry of such a member.
    pub fn entry(&self) -> directory::Node {
        let Claims { name, peer, client, tls, sentinel, .. } = self.clone();
        directory::Node { name, peer, client, tls, sentinel }
    }

    pub(in crate::cluster) fn encode(&self, into: &mut Vec<u8>) {
        put_text(into, self.name.as_str());
        into.extend_from_slice(&self.node.0.to_le_bytes());
        match self.holds {
            Holds::Nothing => into.push(0),
            Holds::Jobs => into.push(1),
            Holds::Member(cluster) => {
                into.push(2);
                into.extend_from_slice(&cluster.0.to_le_bytes());
            }
        }
        put_text(into, &self.version);
        into.extend_from_slice(&self.level.to_le_bytes());
        put_text(into, &self.list);
        put_addresses(into, &self.entry());
    }

    /// Reads them; nothing if they are none.
    pub(in crate::cluster) fn read(read: &mut WireReader<'_>) -> Option<Claims> {
        let name = Name::new(read.text(NODE_NAME_BYTES_MAX)?).ok()?;
        let node = NodeId(read.u64().filter(|id| *id != 0)?);
        let holds = match read.u8()? {
            0 => Holds::Nothing,
            1 => Holds::Jobs,
            2 => Holds::Member(ClusterId(read.u128().filter(|id| *id != 0)?)),
            _ => return None,
        };
        // Texts of a peer come into our log: nothing that moves a cursor or ends a line.
        let shown = |text: &&str| text.bytes().all(|b| b.is_ascii_graphic());
        let version = read.text(VERSION_BYTES_MAX).filter(shown)?.to_owned();
        let level = u32::from_le_bytes(read.array()?);
        let list = read.text(NODE_LIST_BYTES_MAX).filter(shown)?.to_owned();
        let entry = read_addresses(read, name)?;
        let directory::Node { name, peer, client, tls, sentinel } = entry;
        Some(Claims { name, node, holds, version, level, list, peer, client, tls, sentinel })
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
