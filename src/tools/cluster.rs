//! `delayd cluster found` and `delayd cluster recover`

use super::args::Cluster;
use super::check::{examine, exit, say, text};
use super::{Exit, confirmed, place};
use crate::cluster::claims::{ClusterId, NodeId};
use crate::cluster::directory::{Directory, Node, PARTITIONS};
use crate::cluster::members::Members;
use crate::cluster::names::Listed;
use crate::journal::check::{Report, Verdict};
use crate::journal::dump::written;
use crate::journal::refound::{Founder, Refounded, refound};
use crate::journal::{Disk, JournalError, draw_salt, kept_key};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Checks the journal, and makes it a new cluster's.
pub fn run(asked: &Cluster) -> Exit {
    let exit = place::find(&asked.dir).and_then(|folder| change(asked, &folder));
    exit.unwrap_or_else(|error| {
        eprintln!("delayd: {error}");
        Exit::Unreadable
    })
}

fn change(asked: &Cluster, folder: &Path) -> Result<Exit, JournalError> {
    let disk = Arc::new(Disk::open(folder)?);
    let _lock = disk.lock()?;
    let report = examine(&disk);
    say(&text(&disk, &report, None));
    if !matches!(report.verdict, Verdict::Good | Verdict::Torn(..)) {
        say("only a journal that a server would start with is changed; nothing was\n");
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
        return Ok(Exit::Torn);
    }
    let mut begun = Begun::draw()?;
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

/// What ids are hashed with so far, so that cursors stay as they are.
fn key_of(disk: &Disk, report: &Report) -> Result<Option<u64>, JournalError> {
    let members =
        report.log.state.members.last().and_then(|noted| Members::decode(&noted.body).ok());
    let directory = members.and_then(|members| Directory::decode(&members.directory).ok());
    directory.map_or_else(|| kept_key(disk), |directory| Ok(Some(directory.hash_seed)))
}

fn wrong_kind(is_members: bool, recovers: bool) -> Option<&'static str> {
    match (is_members, recovers) {
        (true, false) => Some(
            "it is the journal of a node of a cluster: delayd cluster recover begins a new one with it",
        ),
        (false, true) => Some(
            "it is the journal of a server alone: delayd cluster found begins a cluster with it",
        ),
        _ => None,
    }
}

fn plan(asked: &Cluster, report: &Report) -> String {
    let own = &asked.own;
    if asked.recovers {
        let (index, now) = (report.index.0 + report.log.uncommitted, written(report.now));
        return format!(
            "\nA new cluster begins with all that this node has, up to batch {index}; what was committed last here is\n\
             of {now}. What others had acknowledged and this node had not received is lost.\n\
             The other nodes of the old cluster must never be started again.\n"
        );
    }
    let others = if asked.has_others {
        "Nothing is acknowledged until all that are listed are members."
    } else {
        "It leads alone; DELAY.CLUSTER ADD takes in others."
    };
    format!(
        "\nA cluster begins with these jobs, {own} its first member. {others}\n\
         A server alone does not open this folder any more.\n"
    )
}

/// What is drawn for a new cluster.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    node: u64,
    pub cluster: ClusterId,
    hash_seed: u64,
}

impl Begun {
    /// By chance.
    pub fn draw() -> Result<Begun, JournalError> {
        let (node, high, low, hash_seed) = (draw()?, draw()?, draw()?, draw()?);
        let cluster = ClusterId(u128::from(high) << 64 | u128::from(low));
        Ok(Begun { node, cluster, hash_seed })
    }

    /// Of its first node.
    pub fn id(&self) -> NodeId {
        NodeId(self.node)
    }
}

/// The first member. Unless the cluster `is_formed`, nothing is acknowledged until all that are listed are there.
pub fn founder(own: &Listed, is_formed: bool, begun: &Begun) -> Founder {
    let Begun { node, cluster, hash_seed } = *begun;
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
