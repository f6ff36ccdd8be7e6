//! Who founds the cluster, who joins it, who waits: a decision of each node over what it heard from all that are
//! listed.
//!
//! A node that is a member starts, whatever the others say: its cluster stands. A node with an empty folder joins a
//! cluster if it hears of one. It founds one only if *every* listed node answered, all of them empty and started with
//! the same list, and its name is the first. So two nodes never found at a time, and none does while another one
//! that is away may be a member of a cluster.

use super::claims::{Claims, ClusterId, Holds, NodeId};
use super::directory::WrongDirectory;
use super::names::{Address, Listed, Name};
use thiserror::Error;

/// What a listed node answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its entry in `cluster-nodes`.
    pub listed: Listed,
    /// What it says of itself; nothing if it did not answer.
    pub claims: Option<Claims>,
}

/// What a node does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is a member: it waits to be led.
    Start,
    /// It asks these, the members that answered, to be taken in.
    Join {
        /// Their cluster.
        cluster: ClusterId,
        /// Who answered as a member of it, by name.
        through: Vec<Name>,
    },
    /// It founds the cluster; the others join it.
    Found,
    /// It asks again.
    Wait(Wait),
}

/// What is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wait {
    /// That these answer.
    Missing(Vec<Name>),
    /// That this one founds the cluster.
    Founder(Name),
}

/// Why the listed nodes are no cluster and do not become one. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum Conflict {
    #[error(
        "cluster-nodes says that {listed} is at {address}; the node there says that it is {says}"
    )]
    Misnamed { listed: Name, address: Address, says: Name },
    #[error("cluster-nodes says that {listed} is at {address}; that is this node, {own}, itself")]
    Itself { listed: Name, address: Address, own: Name },
    #[error(
        "two nodes are called {name}: this one, {own}, and the one at {address}, {other}; cluster-node \
         has to differ"
    )]
    NameTwice { name: Name, own: NodeId, address: Address, other: NodeId },
    #[error(
        "{one} and {other} both have the id {node}: one folder is a copy of the other. Empty one of them"
    )]
    SameNode { one: Name, other: Name, node: NodeId },
    #[error(
        "{one} is a member of cluster {cluster}, {other} of cluster {other_cluster}; which one {own} should \
         join is not known"
    )]
    TwoClusters { own: Name, one: Name, cluster: ClusterId, other: Name, other_cluster: ClusterId },
    #[error(
        "the folder of {holder} holds the journal of a single node, and {other} is a member of cluster {cluster}; \
         {holder} joins with an empty dir only"
    )]
    JobsBesideCluster { holder: Name, other: Name, cluster: ClusterId },
    #[error(
        "the folder of {holder} holds the journal of a single node, and {others} are to form a cluster with it; \
         start {holder} without cluster-node, or with an empty dir"
    )]
    Jobs { holder: Name, others: String },
    #[error(
        "the folders of {one} and of {other} each hold the journal of a single node; no cluster has the jobs of both. \
         Start them without cluster-node, or with an empty dir"
    )]
    TwoJournals { one: Name, other: Name },
    #[error(
        "cluster-nodes of {one} is {list}, that of {other} is {other_list}; they have to be equal"
    )]
    Lists { one: Name, list: String, other: Name, other_list: String },
    #[error("{other} is not in the cluster-nodes of {own}: {list}")]
    NotListed { own: Name, other: Name, list: String },
    #[error("two nodes are called {name}: {one} and {other}; cluster-node has to differ")]
    SameName { name: Name, one: NodeId, other: NodeId },
    #[error(
        "{name} is a member of cluster {cluster} with the id {member}, and the node that answers to this name has {is}: \
         its folder is another one. Start it with the folder that it had, or with an empty one"
    )]
    OtherFolder { name: Name, cluster: ClusterId, member: NodeId, is: NodeId },
    #[error(
        "{name} says that it is a member of cluster {cluster}, which does not know it: its folder is that of a node \
         which has left, or a copy. Empty it"
    )]
    Unknown { name: Name, cluster: ClusterId },
    /// Its folder is empty, and the cluster has formed without it.
    #[error(
        "{name} is not a member of cluster {cluster}; DELAY.CLUSTER ADD {name} {address}, said to its leader, takes \
         it in"
    )]
    NotAdded { name: Name, address: Address, cluster: ClusterId },
    #[error("{own} is a member of cluster {cluster}, {other} of cluster {other_cluster}")]
    OtherCluster { own: Name, cluster: ClusterId, other: Name, other_cluster: ClusterId },
    #[error("{name} cannot be taken in: {wrong}")]
    NoRoom { name: Name, wrong: WrongDirectory },
}

/// Decides for the node that says `own` of itself; `others` are all that `cluster-nodes` lists beside it.
///
/// # Errors
/// What has to be mended first, on which nodes.
pub fn decide(own: &Claims, others: &[Answer]) -> Result<Decision, Conflict> {
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
        return Ok(Decision::Wait(Wait::Missing(missing)));
    }
    let first = others.iter().map(|answer| &answer.listed.name).min();
    Ok(match first.filter(|first| **first < own.name) {
        Some(first) => Decision::Wait(Wait::Founder(first.clone())),
        None => Decision::Found,
    })
}

/// Those who answered.
fn answered(others: &[Answer]) -> impl Iterator<Item = (&Listed, &Claims)> {
    others.iter().filter_map(|answer| Some((&answer.listed, answer.claims.as_ref()?)))
}

/// Each is the one that the list says, and no two are the same.
fn check_identities(own: &Claims, others: &[Answer]) -> Result<(), Conflict> {
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

/// The one cluster that some of them are members of, and who they are.
fn cluster_of(own: &Claims, others: &[Answer]) -> Result<Option<(ClusterId, Vec<Name>)>, Conflict> {
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

fn check_journals(own: &Claims, others: &[Answer]) -> Result<(), Conflict> {
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

fn check_lists(own: &Claims, others: &[Answer]) -> Result<(), Conflict> {
    let mut claims = answered(others).map(|(_, claims)| claims);
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
