//! Whether a node founds the cluster, joins it or waits: a decision of each node about what it heard from all listed
//! nodes.
//!
//! A node that is a member starts, whatever the others say: its cluster exists. A node with an empty folder joins a
//! cluster if it hears of one. It founds one only if *every* listed node answered, all of them empty and started with
//! the same list, and its name is the first. So two nodes never found at the same time, and none does while another one
//! that is away may be a member of a cluster.

use super::claims::{Claims, ClusterId, Holds, NodeId};
use super::directory::WrongDirectory;
use super::names::{Address, Listed, Name};
use thiserror::Error;

/// The answer of a listed node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeAnswer {
    /// Its entry in `cluster-nodes`.
    pub listed: Listed,
    /// Its claims; nothing if it did not answer.
    pub claims: Option<Claims>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is a member: it waits to be led.
    Start,
    /// It asks these, the members that answered, to be taken in.
    Join {
        cluster: ClusterId,
        /// The nodes that answered as members of it, by name.
        through: Vec<Name>,
    },
    /// It founds the cluster; the others join it.
    Found,
    /// It asks again.
    Wait(WaitingFor),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitingFor {
    /// That these answer.
    Missing(Vec<Name>),
    /// That this one founds the cluster.
    Founder(Name),
}

/// Why the listed nodes are no cluster and do not become one. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Conflict {
    #[error("cluster-nodes has {listed} at {address}; the node there is {says}")]
    Misnamed { listed: Name, address: Address, says: Name },
    #[error("cluster-nodes has {listed} at {address}; that is this node, {own}, itself")]
    Itself { listed: Name, address: Address, own: Name },
    #[error(
        "two nodes are called {name}: this one, {own}, and the one at {address}, {other}; cluster-node must differ"
    )]
    NameTwice { name: Name, own: NodeId, address: Address, other: NodeId },
    #[error(
        "{one} and {other} both have the id {node}: one folder is a copy of the other. Empty one of them"
    )]
    SameNode { one: Name, other: Name, node: NodeId },
    #[error(
        "{one} is a member of cluster {cluster}, {other} of cluster {other_cluster}; it is unclear which one {own} \
         should join"
    )]
    TwoClusters { own: Name, one: Name, cluster: ClusterId, other: Name, other_cluster: ClusterId },
    #[error(
        "the folder of {holder} has the journal of a standalone server, and {other} is a member of cluster \
         {cluster}; {holder} can join only with an empty dir"
    )]
    JobsBesideCluster { holder: Name, other: Name, cluster: ClusterId },
    #[error(
        "the folder of {holder} has the journal of a standalone server, and {others} wait to form a cluster with it; \
         start {holder} without cluster-node, or with an empty dir"
    )]
    Jobs { holder: Name, others: String },
    #[error(
        "the folders of {one} and of {other} each have the journal of a standalone server; no cluster can have the \
         jobs of both. Start them without cluster-node, or with an empty dir"
    )]
    TwoJournals { one: Name, other: Name },
    #[error(
        "cluster-nodes of {one} is {list}, that of {other} is {other_list}; they must be equal"
    )]
    Lists { one: Name, list: String, other: Name, other_list: String },
    #[error("{other} is not in the cluster-nodes of {own}: {list}")]
    NotListed { own: Name, other: Name, list: String },
    #[error("two nodes are called {name}: {one} and {other}; cluster-node must differ")]
    SameName { name: Name, one: NodeId, other: NodeId },
    #[error(
        "{name} is a member of cluster {cluster} with the id {member}, and the node that answers to this name has \
         {is}: it has another folder. Start it with its previous folder, or with an empty one"
    )]
    OtherFolder {
        name: Name,
        cluster: ClusterId,
        member: NodeId,
        is: NodeId,
        /// If it was a member: the index of a directory without it.
        left_by: Option<u64>,
    },
    #[error(
        "{name} claims to be a member of cluster {cluster}, which does not know it: its folder belongs to a node \
         that has left, or is a copy. Empty it"
    )]
    Unknown {
        name: Name,
        cluster: ClusterId,
        /// The index of a directory without it.
        left_by: u64,
    },
    /// Its folder is empty, and the cluster has formed without it.
    #[error(
        "{name} is not a member of cluster {cluster}; send DELAY.CLUSTER ADD {name} {address} to its leader to add \
         it"
    )]
    NotAdded { name: Name, address: Address, cluster: ClusterId },
    /// The cluster goes on where it is: a second one would have the same queues.
    #[error("{name} was removed from its cluster, and waits for DELAY.CLUSTER ADD")]
    Waits { name: Name },
    #[error("{own} is a member of cluster {cluster}, {other} of cluster {other_cluster}")]
    OtherCluster { own: Name, cluster: ClusterId, other: Name, other_cluster: ClusterId },
    #[error("{name} cannot be added: {wrong}")]
    NoRoom { name: Name, wrong: WrongDirectory },
}

impl Conflict {
    /// If the conflict is that a node was removed: the index of a directory without it.
    pub fn left_by(&self) -> Option<u64> {
        match self {
            Conflict::Unknown { left_by, .. } => Some(*left_by),
            Conflict::OtherFolder { left_by, .. } => *left_by,
            _ => None,
        }
    }
}

/// Decides for the node with the claims `own`; `others` are all other nodes of `cluster-nodes`.
///
/// # Errors
/// What to repair first, on which nodes.
pub fn decide(own: &Claims, others: &[NodeAnswer]) -> Result<Decision, Conflict> {
    if own.cluster().is_some() {
        return Ok(Decision::Start);
    }
    check_identities(own, others)?;
    if let Some((cluster, through)) = cluster_of(own, others)? {
        return match own.holds {
            Holds::Jobs => Err(Conflict::JobsBesideCluster {
                holder: own.name.clone(),
                other: through[0].clone(),
                cluster,
            }),
            Holds::Nothing | Holds::Member(_) => Ok(Decision::Join { cluster, through }),
        };
    }
    check_journals(own, others)?;
    check_lists(own, others)?;
    let missing = others.iter().filter(|answer| answer.claims.is_none());
    let missing: Vec<Name> = missing.map(|answer| answer.listed.name.clone()).collect();
    if !missing.is_empty() {
        return Ok(Decision::Wait(WaitingFor::Missing(missing)));
    }
    let first = others.iter().map(|answer| &answer.listed.name).min();
    Ok(match first.filter(|first| **first < own.name) {
        Some(first) => Decision::Wait(WaitingFor::Founder(first.clone())),
        None => Decision::Found,
    })
}

fn answered(others: &[NodeAnswer]) -> impl Iterator<Item = (&Listed, &Claims)> + Clone {
    others.iter().filter_map(|answer| Some((&answer.listed, answer.claims.as_ref()?)))
}

/// Each is the one that the list says, and no two are the same.
fn check_identities(own: &Claims, others: &[NodeAnswer]) -> Result<(), Conflict> {
    for (listed, claims) in answered(others) {
        let Listed { name, peer: address } = listed.clone();
        if claims.name == own.name && claims.node == own.node {
            return Err(Conflict::Itself { listed: name, address, own: own.name.clone() });
        }
        if claims.name == own.name {
            let (own, other, name) = (own.node, claims.node, own.name.clone());
            return Err(Conflict::NameTwice { name, own, address, other });
        }
        if claims.name != name {
            return Err(Conflict::Misnamed { listed: name, address, says: claims.name.clone() });
        }
    }
    let mut all: Vec<&Claims> = answered(others).map(|(_, claims)| claims).collect();
    all.push(own);
    all.sort_by_key(|claims| (claims.node, &claims.name));
    match all.windows(2).find(|two| two[0].node == two[1].node) {
        None => Ok(()),
        Some(two) => Err(Conflict::SameNode {
            one: two[0].name.clone(),
            other: two[1].name.clone(),
            node: two[0].node,
        }),
    }
}

/// The one cluster that some of them are members of, and these members.
fn cluster_of(
    own: &Claims,
    others: &[NodeAnswer],
) -> Result<Option<(ClusterId, Vec<Name>)>, Conflict> {
    let mut found: Option<(ClusterId, Vec<Name>)> = None;
    for (listed, claims) in answered(others) {
        let Some(cluster) = claims.cluster() else { continue };
        match &mut found {
            None => found = Some((cluster, vec![listed.name.clone()])),
            Some((first, through)) if *first == cluster => through.push(listed.name.clone()),
            Some((first, through)) => {
                return Err(Conflict::TwoClusters {
                    own: own.name.clone(),
                    one: through[0].clone(),
                    cluster: *first,
                    other: listed.name.clone(),
                    other_cluster: cluster,
                });
            }
        }
    }
    Ok(found)
}

fn check_journals(own: &Claims, others: &[NodeAnswer]) -> Result<(), Conflict> {
    let all = || [own].into_iter().chain(answered(others).map(|(_, claims)| claims));
    let mut holders = all().filter(|claims| claims.holds == Holds::Jobs).map(|claims| &claims.name);
    match (holders.next(), holders.next()) {
        (None, _) => Ok(()),
        (Some(one), Some(other)) => {
            let (one, other) = (one.clone(), other.clone());
            Err(Conflict::TwoJournals { one, other })
        }
        (Some(holder), None) => {
            let listed = others.iter().map(|answer| &answer.listed.name);
            let names = [&own.name].into_iter().chain(listed).filter(|name| *name != holder);
            let names: Vec<&str> = names.map(Name::as_str).collect();
            // A list of one node is a cluster as well.
            let others = if names.is_empty() { "no others".to_owned() } else { names.join(", ") };
            Err(Conflict::Jobs { holder: holder.clone(), others })
        }
    }
}

fn check_lists(own: &Claims, others: &[NodeAnswer]) -> Result<(), Conflict> {
    let mut claims = answered(others).map(|(_, claims)| claims);
    if let Some(waits) = [own].into_iter().chain(claims.clone()).find(|one| one.only_waits()) {
        return Err(Conflict::Waits { name: waits.name.clone() });
    }
    match claims.find(|claims| claims.list != own.list) {
        None => Ok(()),
        Some(other) => Err(Conflict::Lists {
            one: own.name.clone(),
            list: own.list.clone(),
            other: other.name.clone(),
            other_list: other.list.clone(),
        }),
    }
}
