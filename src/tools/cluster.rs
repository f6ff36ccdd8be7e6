//! `delayd cluster found` and `delayd cluster recover`

use super::args::Cluster;
use super::check::{examine, exit, say, text};
use super::{Exit, confirmed, failed, place};
use crate::cluster::members::Members;
use crate::cluster::members::claims::{ClusterId, NodeId};
use crate::cluster::members::directory::{Directory, Node, PARTITIONS};
use crate::cluster::members::names::Listed;
use crate::journal::offline::check::{Report, Verdict};
use crate::journal::offline::dump::written;
use crate::journal::offline::new_cluster::{Founder, Refounded, refound};
use crate::journal::{Disk, JournalError, draw_salt, kept_key};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Checks the journal, and makes it a new cluster's.
pub fn run(asked: &Cluster) -> Exit {
    let exit = place::find(&asked.dir).and_then(|folder| change(asked, &folder));
    exit.unwrap_or_else(|error| failed(error, Exit::Unreadable))
}

fn change(asked: &Cluster, folder: &Path) -> Result<Exit, JournalError> {
    let disk = Arc::new(Disk::open(folder)?);
    let _lock = disk.lock()?;
    let report = examine(&disk);
    say(&text(&disk, &report, None));
    if !matches!(report.verdict, Verdict::Good | Verdict::Torn(..)) {
        say("only a journal with which a server would start can be changed; nothing was changed\n");
        return exit(report.verdict, false);
    }
    let is_members = !report.log.state.members.is_empty();
    if let Some(wrong) = wrong_kind(is_members, asked.recovers) {
        let source = io::Error::new(io::ErrorKind::InvalidInput, wrong);
        return Err(JournalError::io(&folder.display().to_string(), "change")(source));
    }
    say(&plan(asked, &report));
    if !asked.yes && !confirmed("begin the new cluster?") {
        say("nothing was changed\n");
        return Ok(Exit::Failed);
    }
    let mut begun = NewClusterIds::draw()?;
    begun.hash_seed = key_of(&disk, &report)?.unwrap_or(begun.hash_seed);
    let founder = founder(&asked.own, asked.recovers || !asked.has_others, &begun);
    let Refounded { index, epoch, now, uncommitted } = refound(&disk, founder)?;
    let (name, id, cluster) = (&asked.own.name, begun.id(), begun.cluster);
    say(&format!("\n{name} is the only member of cluster {cluster}, with the id {id}\n"));
    say(&format!("it begins with batch {index} of epoch {epoch}, at {}\n", written(now)));
    if uncommitted > 0 {
        say(&format!("{uncommitted} batches were not known to be committed, and are kept\n"));
    }
    say("\n");
    let report = examine(&disk);
    say(&text(&disk, &report, None));
    exit(report.verdict, false)
}

/// The hash key so far of ids, so that cursors stay as they are.
fn key_of(disk: &Disk, report: &Report) -> Result<Option<u64>, JournalError> {
    let members =
        report.log.state.members.last().and_then(|noted| Members::decode(&noted.body).ok());
    let directory = members.and_then(|members| Directory::decode(&members.directory).ok());
    directory.map_or_else(|| kept_key(disk), |directory| Ok(Some(directory.hash_seed)))
}

fn wrong_kind(is_members: bool, recovers: bool) -> Option<&'static str> {
    match (is_members, recovers) {
        (true, false) => Some(
            "it is the journal of a node of a cluster: use delayd cluster recover to begin a new one with it",
        ),
        (false, true) => Some(
            "it is the journal of a standalone server: use delayd cluster found to begin a cluster with it",
        ),
        _ => None,
    }
}

fn plan(asked: &Cluster, report: &Report) -> String {
    let own = &asked.own;
    if asked.recovers {
        let (index, now) = (report.index.0 + report.log.uncommitted, written(report.now));
        return format!(
            "\nA new cluster begins with all data of this node, up to batch {index}; its last commit is of\n\
             {now}. Everything that others had acknowledged and this node had not received is lost.\n\
             Never start the other nodes of the old cluster again.\n"
        );
    }
    let others = if asked.has_others {
        "Nothing is acknowledged until all listed nodes are members."
    } else {
        "It leads alone; DELAY.CLUSTER ADD adds others."
    };
    format!(
        "\nA cluster begins with these jobs; {own} is its first member. {others}\n\
         A standalone server can no longer open this folder.\n"
    )
}

#[derive(Clone, Copy, Debug)]
pub struct NewClusterIds {
    node: u64,
    pub cluster: ClusterId,
    hash_seed: u64,
}

impl NewClusterIds {
    /// By chance.
    pub fn draw() -> Result<NewClusterIds, JournalError> {
        let (node, high, low, hash_seed) = (draw()?, draw()?, draw()?, draw()?);
        let cluster = ClusterId(u128::from(high) << 64 | u128::from(low));
        Ok(NewClusterIds { node, cluster, hash_seed })
    }

    /// The id of its first node.
    pub fn id(&self) -> NodeId {
        NodeId(self.node)
    }
}

/// The first member. Unless the cluster `is_formed`, nothing is acknowledged until all that are listed are there.
pub fn founder(own: &Listed, is_formed: bool, begun: &NewClusterIds) -> Founder {
    let NewClusterIds { node, cluster, hash_seed } = *begun;
    let name = own.name.clone();
    // Where clients find it is said when it starts.
    let (peer, client) = (own.peer.clone(), own.peer.clone());
    let own = Node { name: name.clone(), peer, client, tls: None, sentinel: None };
    let directory = Directory::founded(cluster.0, hash_seed, PARTITIONS, node, own);
    let directory = Directory { is_formed, ..directory };
    let mut members = Vec::new();
    Members { directory: directory.encode().into(), ..Members::of([node]) }.encode(&mut members);
    Founder { node, name: name.as_str().as_bytes().into(), members }
}

/// Never 0.
fn draw() -> Result<u64, JournalError> {
    let drawn = draw_salt().map_err(JournalError::io("this machine", "draw from"))?;
    Ok(drawn.max(1))
}
