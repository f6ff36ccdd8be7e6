//! Commands about the cluster: DELAY.CLUSTER, ROLE, REPLICAOF.

use crate::cluster::driver::{MemberChange, WrongChange};
use crate::cluster::members::names::{Address, Listed, Misnamed, Name};
use crate::command::spec::action::{Failover, Membership};
use crate::hash_slot::slots_of;
use crate::ids::ClientId;
use crate::observe::cluster::{ClusterView, NodePart, NodeState, NodeView};
use crate::observe::health::seconds;
use crate::resp::Encoder;
use crate::server::connection::common::HandOver;
use crate::server::core::Core;
use crate::server::siblings::{PartitionPlace, Siblings};

const ALONE: &str = "ERR this is a standalone server: cluster-node is not set";
const ELECTED: &str = "ERR the cluster elects its leader; FAILOVER hands over";
const NO_REPLICATION: &str = "ERR replication is between the nodes of a cluster, not by REPLICAOF or PSYNC; see cluster-node in docs/cluster.md";

/// REPLICAOF and SLAVEOF. The text says why not: a real Sentinel must not meddle with a cluster.
pub fn replica_of(core: &Core, nobody: bool) -> Result<(), String> {
    match (&core.view, nobody) {
        (Some(_), _) => Err(ELECTED.to_owned()),
        (None, true) => Ok(()),
        (None, false) => Err(NO_REPLICATION.to_owned()),
    }
}

/// FAILOVER; the text says why not.
pub fn fail_over(core: &mut Core, asked: Failover<'_>) -> Result<(), String> {
    let (to, timeout_ms) = match asked {
        Failover::Abort => {
            core.common.hand_over.take().ok_or("ERR No failover in progress.")?;
            core.common.pauses.end();
            core.set_flow();
            return Ok(());
        }
        Failover::Begin { to, timeout_ms } => (to, timeout_ms),
    };
    let view = core.view.as_deref().filter(|view| view.replicas().next().is_some() || !view.leads);
    let view = view.ok_or("ERR FAILOVER requires connected replicas.")?;
    if !view.leads {
        let (host, port) = view.master();
        let leads = if host.is_empty() { String::new() } else { format!("; {host}:{port} leads") };
        return Err(format!("ERR FAILOVER is not valid when server is a replica{leads}"));
    }
    if core.common.hand_over.is_some() || view.transferring {
        return Err("ERR FAILOVER already in progress.".to_owned());
    }
    let to = to.map(|(host, port)| target(view, host, port)).transpose()?;
    let until_us = core.clock.mono_us.saturating_add(timeout_ms.saturating_mul(1_000));
    core.common.hand_over = Some(HandOver { to, until_us, ask_us: 0 });
    core.common.pauses.begin(timeout_ms, true, core.clock.mono_us);
    core.set_flow();
    Ok(())
}

fn target(view: &ClusterView, host: &[u8], port: u16) -> Result<u64, String> {
    let is_meant =
        |node: &&NodeView| node.client.host().as_bytes() == host && node.client.port() == port;
    let node = view.nodes.iter().find(is_meant).filter(|node| node.id != view.node);
    let node = node.filter(|node| node.is_voter);
    let node = node.ok_or("ERR FAILOVER target HOST and PORT is not a replica.")?;
    if node.is_heard == Some(false) {
        return Err(format!("ERR FAILOVER target replica is not online: {}", node.name));
    }
    Ok(node.id)
}

/// DELAY.CLUSTER ADD and REMOVE; the text says why not. It is begun when this returns, and shown by DELAY.CLUSTER.
pub fn change_members(core: &mut Core, asked: Membership<'_>) -> Result<(), String> {
    let view = core.view.as_deref().ok_or(ALONE)?;
    let change = change_of(asked).map_err(|wrong| format!("ERR {wrong}"))?;
    let not_here = || elsewhere(view, "only the leader can change members");
    let node = core.durability.replicated().filter(|_| view.leads).ok_or_else(not_here)?;
    node.change(change).map_err(|wrong| match wrong {
        WrongChange::NotLeader => not_here(),
        wrong => format!("ERR {wrong}"),
    })
}

/// DELAY.CLUSTER VERIFY; the text says why not. It is begun when this returns, and shown by DELAY.CLUSTER.
pub fn verify(core: &mut Core) -> Result<(), String> {
    let view = core.view.as_deref().ok_or(ALONE)?;
    let leads = view.leads && core.durability.replicated().is_some_and(|node| node.decides());
    if !leads {
        return Err(elsewhere(view, "only the leader can compare nodes"));
    }
    core.durability.want_to_verify();
    Ok(())
}

/// An error that names the node that leads, if there is one.
fn elsewhere(view: &ClusterView, why: &str) -> String {
    let (host, port) = view.master();
    match view.is_led() && host != "?" {
        true => format!("READONLY {why}; {host}:{port} leads"),
        false => format!("MASTERDOWN {why}; no node does now"),
    }
}

fn change_of(asked: Membership<'_>) -> Result<MemberChange, Misnamed> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match asked {
        Membership::Add { name, address } => {
            let (name, peer) = (Name::new(&text(name))?, Address::parse(&text(address))?);
            Ok(MemberChange::Add(Listed { name, peer }))
        }
        Membership::Remove(name) => Name::new(&text(name)).map(MemberChange::Remove),
    }
}

pub fn write_role(core: &mut Core, client: ClientId) {
    let offset = core.durability.shown.offset();
    let out = core.outputs.encoder(client);
    match core.view.as_deref() {
        Some(view) if !view.leads => write_follower(view, out),
        view => write_leader(view, offset, out),
    }
}

fn write_leader(view: Option<&ClusterView>, offset: u64, mut out: Encoder<'_>) {
    out.array(3);
    out.bulk(b"master");
    out.unsigned(view.map_or(offset, |view| view.last));
    let replicas: Vec<&NodeView> = view.into_iter().flat_map(ClusterView::replicas).collect();
    out.array(replicas.len());
    for replica in replicas {
        out.array(3);
        out.bulk(replica.client.host().as_bytes());
        out.bulk_unsigned(replica.client.port().into());
        out.bulk_unsigned(replica.matched.unwrap_or(0));
    }
}

fn write_follower(view: &ClusterView, mut out: Encoder<'_>) {
    let (host, port) = view.master();
    out.array(5);
    out.bulk(b"slave");
    out.bulk(host.as_bytes());
    out.unsigned(port.into());
    out.bulk(view.link().word().as_bytes());
    out.unsigned(view.last);
}

/// DELAY.CLUSTER; the text says why not.
pub fn write_nodes(core: &mut Core, client: ClientId) -> Result<(), &'static str> {
    let view = core.view.as_deref().ok_or(ALONE)?;
    let mut out = core.outputs.encoder(client);
    out.array(view.nodes.len() + view.invited.len());
    for node in &view.nodes {
        let texts = [
            ("name", Some(node.name.to_string())),
            ("id", Some(format!("{:016x}", node.id))),
            ("role", Some(view.part_of(node).word().to_owned())),
            ("state", Some(view.state_of(node).word().to_owned())),
            ("client", Some(node.client.to_string())),
            ("peer", Some(node.peer.to_string())),
            ("holds", view.found(node).map(|found| found.to_string())),
            ("health", node.health_word().map(str::to_owned)),
        ];
        let numbers = [("index", view.index_of(node)), ("behind", view.behind(node))];
        write_row(&mut out, &texts, &numbers);
    }
    for Listed { name, peer } in &view.invited {
        let texts = [
            ("name", Some(name.to_string())),
            ("id", None),
            ("role", Some(NodePart::Invited.word().to_owned())),
            ("state", Some(NodeState::Missing.word().to_owned())),
            ("client", None),
            ("peer", Some(peer.to_string())),
            ("holds", None),
            ("health", None),
        ];
        write_row(&mut out, &texts, &[("index", None), ("behind", None)]);
    }
    Ok(())
}

/// DELAY.CLUSTER ALL; the text says why not.
pub fn write_partitions(core: &mut Core, client: ClientId) -> Result<(), &'static str> {
    core.view.as_ref().ok_or(ALONE)?;
    let siblings = core.siblings.as_ref();
    let count = siblings.map_or(1, Siblings::count);
    let place = |partition| match siblings.filter(|siblings| siblings.own() != partition) {
        Some(siblings) => siblings.place(partition),
        None => core.place(),
    };
    let places: Vec<PartitionPlace> = (0..count).map(place).collect();
    let mut out = core.outputs.encoder(client);
    out.array(places.len());
    for (partition, place) in (0..count).zip(&places) {
        let PartitionPlace::Node(view) = place else { unreachable!("all are nodes, or none is") };
        write_partition(&mut out, partition, count, view);
    }
    Ok(())
}

fn write_partition(out: &mut Encoder<'_>, partition: u16, count: u16, view: &ClusterView) {
    let (first, last) = slots_of(partition, count);
    let leader = view.leader_within_reach().map(|leader| leader.name.to_string());
    let members = match &view.elsewhere {
        Some(there) => &there.nodes,
        None => &view.nodes,
    };
    let names = members.iter().filter(|node| !node.has_left).map(|node| node.name.as_str());
    let trouble = match &view.elsewhere {
        Some(_) => Some("this node does not hold it".to_owned()),
        None => view.conflict.clone().or_else(|| view.forming.clone()),
    };
    let trouble = trouble.or_else(|| leader.is_none().then(|| "no leader is known".to_owned()));
    let stuck = || view.stuck_us.map(|us| format!("it has committed nothing for {}", seconds(us)));
    let trouble = trouble.or_else(stuck);
    let nodes = names.collect::<Vec<_>>().join(" ");
    let texts = [
        ("slots", Some(format!("{first}-{last}"))),
        ("leader", leader),
        ("nodes", Some(nodes)),
        ("trouble", trouble),
    ];
    let behind = view.others().filter_map(|node| view.behind(node)).max();
    write_row(out, &texts, &[("partition", Some(partition.into())), ("behind", behind)]);
}

fn write_row(
    out: &mut Encoder<'_>,
    texts: &[(&str, Option<String>)],
    numbers: &[(&str, Option<u64>)],
) {
    out.map(texts.len() + numbers.len());
    for (name, text) in texts {
        out.field(name).bulk_or_null(text.as_ref().map(String::as_bytes));
    }
    for (name, number) in numbers {
        out.field(name).unsigned_or_null(*number);
    }
}
