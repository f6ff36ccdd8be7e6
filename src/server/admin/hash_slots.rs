//! The answers to clients of a Redis Cluster: CLUSTER, and which node answers for a queue.

use crate::command::spec::action::HashSlotsRequest as Asked;
use crate::config::options::Name;
use crate::hash_slot::{HASH_SLOTS, hash_slot};
use crate::ids::ClientId;
use crate::observe::hash_slots::{HashSlots, SlotHealth, SlotNode, SlotPart};
use crate::resp::Encoder;
use crate::server::connection::client::Socket;
use crate::server::core::Core;
use crate::session::NodeStanding;
use crate::session::hash_slots::{OFF, Owner};

/// CLUSTER. An error's text begins with its class.
pub fn write(
    core: &mut Core,
    client: ClientId,
    socket: &Socket,
    asked: Asked<'_>,
) -> Result<(), String> {
    if !core.options.limits.clustered {
        return Err(OFF.to_owned());
    }
    let slots = of(core, socket);
    let own = slots.nodes.iter().find(|node| node.is_own);
    let out = &mut core.outputs.encoder(client);
    match asked {
        Asked::Slots => write_slots(&slots, out),
        Asked::Shards => write_shards(&slots, out),
        Asked::Nodes => out.verbatim_txt(&slots.lines()),
        Asked::Info => out.verbatim_txt(&slots.info()),
        Asked::MyId => out.bulk(own.map_or("", |own| &own.id).as_bytes()),
        Asked::MyShardId => out.bulk(slots.shard.as_bytes()),
        Asked::SlotOf(name) => out.integer(hash_slot(name).into()),
        Asked::FailureReports(id) => out.unsigned(slots.failure_reports(id)?),
        Asked::Links => out.array(0),
        Asked::Replicas(id) => {
            let lines = slots.replicas(id)?;
            out.array(lines.len());
            lines.iter().for_each(|line| out.bulk(line.as_bytes()));
        }
        Asked::Refused(error) => return Err(error.to_owned()),
    }
    Ok(())
}

/// Where this client's commands on queues are decided on.
pub fn owner(core: &Core, standing: &NodeStanding, socket: &Socket) -> Owner {
    let elsewhere = || {
        let view = core.view.as_ref()?;
        let leader = view.leader_for_clients().filter(|leader| leader.id != view.node)?;
        let (address, _) = leader.address_for(socket.is_tls());
        // As Redis writes it, without brackets: clients take the last colon for the border.
        Some(Owner::Elsewhere(format!("{}:{}", address.host(), address.port())))
    };
    match standing {
        NodeStanding::Serving => Owner::Here,
        NodeStanding::Loading => {
            elsewhere().unwrap_or_else(|| Owner::NotYet("the jobs are being loaded".to_owned()))
        }
        NodeStanding::Forming { missing } => {
            Owner::NotYet(format!("the cluster is forming: {missing}"))
        }
        NodeStanding::Following { .. } => elsewhere().unwrap_or(Owner::Unknown),
        NodeStanding::Down => Owner::Unknown,
    }
}

fn of(core: &Core, socket: &Socket) -> HashSlots {
    match &core.view {
        Some(view) => HashSlots::of(view, socket.is_tls()),
        None => HashSlots::alone(alone(core, socket)),
    }
}

/// The only node of a server alone, where the asking client finds it.
fn alone(core: &Core, socket: &Socket) -> SlotNode {
    let config = &core.options.config;
    let port = |name| config.number(name) as u16;
    let (announced, own) = match socket.is_tls() {
        true => (Name::ClusterAnnounceTlsPort, port(Name::TlsPort)),
        false => (Name::ClusterAnnouncePort, core.process.port),
    };
    let host = match config.text(Name::ClusterAnnounceIp) {
        "" => socket.peer().local_host().unwrap_or_else(|| "127.0.0.1".to_owned()),
        announced => announced.to_owned(),
    };
    let is_loading = core.durability.shown.loading.is_some();
    SlotNode {
        id: core.process.run_id.clone(),
        host,
        port: Some(port(announced)).filter(|port| *port != 0).unwrap_or(own),
        tls: socket.is_tls(),
        bus_port: 0,
        part: SlotPart::Master,
        health: if is_loading { SlotHealth::Loading } else { SlotHealth::Online },
        offset: 0,
        is_own: true,
    }
}

fn write_slots(slots: &HashSlots, out: &mut Encoder<'_>) {
    out.array(1);
    out.array(2 + slots.usable().count());
    out.integer(0);
    out.integer((HASH_SLOTS - 1).into());
    for node in slots.usable() {
        out.array(4);
        out.bulk(node.host.as_bytes());
        out.integer(node.port.into());
        out.bulk(node.id.as_bytes());
        out.array(0);
    }
}

fn write_shards(slots: &HashSlots, out: &mut Encoder<'_>) {
    out.array(1);
    out.map(2);
    out.bulk(b"slots");
    out.array(2);
    out.integer(0);
    out.integer((HASH_SLOTS - 1).into());
    out.bulk(b"nodes");
    out.array(slots.nodes.len());
    for node in &slots.nodes {
        out.map(7);
        out.bulk(b"id");
        out.bulk(node.id.as_bytes());
        out.bulk(if node.tls { b"tls-port" } else { b"port" });
        out.integer(node.port.into());
        for name in ["ip", "endpoint"] {
            out.bulk(name.as_bytes());
            out.bulk(node.host.as_bytes());
        }
        out.bulk(b"role");
        out.bulk(node.part.word().as_bytes());
        out.bulk(b"replication-offset");
        out.unsigned(node.offset);
        out.bulk(b"health");
        out.bulk(node.health.word().as_bytes());
    }
}
