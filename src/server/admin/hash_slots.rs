//! The answers to clients of a Redis Cluster: CLUSTER, and which node answers for a queue.

use crate::command::spec::action::HashSlotsRequest as Asked;
use crate::config::options::Name;
use crate::hash_slot::{hash_slot, partition_of};
use crate::ids::ClientId;
use crate::observe::cluster::{ClusterView, NodeView};
use crate::observe::hash_slots::{HashSlots, Shard, SlotHealth, SlotNode, SlotPart};
use crate::resp::Encoder;
use crate::server::connection::client::Socket;
use crate::server::core::Core;
use crate::server::siblings::{Alone, PartitionPlace};
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
    let own = slots.own();
    let out = &mut core.outputs.encoder(client);
    match asked {
        Asked::Slots => write_slots(&slots, out),
        Asked::Shards => write_shards(&slots, out),
        Asked::Nodes => out.verbatim_txt(&slots.lines()),
        Asked::Info => out.verbatim_txt(&slots.info()),
        Asked::MyId => out.bulk(own.map_or("", |own| &own.id).as_bytes()),
        Asked::MyShardId => out.bulk(slots.shards[slots.own].id.as_bytes()),
        Asked::SlotOf(name) => out.integer(hash_slot(name).into()),
        Asked::FailureReports(id) => out.unsigned(slots.failure_reports(id)?),
        Asked::Links => out.array(0),
        Asked::Replicas(id) => out.bulks(slots.replicas(id)?.iter()),
        Asked::Refused(error) => return Err(error.to_owned()),
    }
    Ok(())
}

/// Where this client's commands on the queues of a slot are decided on.
pub fn owner(core: &Core, standing: &NodeStanding, socket: &Socket, slot: u16) -> Owner {
    if let Some(siblings) = &core.siblings {
        let partition = partition_of(slot, siblings.count());
        if partition != siblings.own() {
            return Owner::Foreign(siblings.place(partition).leader(core, socket));
        }
    }
    let elsewhere = || Some(Owner::Elsewhere(leader_of(core.view.as_ref()?, socket)?));
    match standing {
        NodeStanding::Serving => Owner::Here,
        NodeStanding::Loading => {
            elsewhere().unwrap_or_else(|| Owner::NotYet("the jobs are being loaded".to_owned()))
        }
        NodeStanding::Forming { missing } => match member_of(core.view.as_deref(), socket) {
            Some(address) => Owner::Elsewhere(address),
            None => Owner::NotYet(format!("the cluster is forming: {missing}")),
        },
        NodeStanding::Following { .. } => elsewhere().unwrap_or(Owner::Unknown),
        NodeStanding::Down => Owner::Unknown,
    }
}

impl PartitionPlace {
    /// The leader's address for this client, if it is known; a server alone leads.
    fn leader(&self, core: &Core, socket: &Socket) -> Option<String> {
        match self {
            PartitionPlace::Node(view) => {
                let own = view.nodes.iter().find(|node| view.leads && node.id == view.node);
                own.map(|own| at(own, socket))
                    .or_else(|| leader_of(view, socket))
                    .or_else(|| member_of(Some(view), socket))
            }
            PartitionPlace::Alone(alone) => {
                let node = slot_node(alone, core, socket);
                Some(format!("{}:{}", node.host, node.port))
            }
        }
    }

    fn shard(&self, core: &Core, socket: &Socket, partition: u16, count: u16) -> Shard {
        match self {
            PartitionPlace::Node(view) => Shard::of(view, socket.is_tls(), partition, count),
            PartitionPlace::Alone(alone) => {
                Shard::alone(slot_node(alone, core, socket), partition, count)
            }
        }
    }
}

/// The address of a leader other than this node.
fn leader_of(view: &ClusterView, socket: &Socket) -> Option<String> {
    let leader = view.leader_for_clients().filter(|leader| leader.id != view.node)?;
    Some(at(leader, socket))
}

/// The address of a member, which knows the leader, if this node is not a member itself.
fn member_of(view: Option<&ClusterView>, socket: &Socket) -> Option<String> {
    view?.elsewhere.as_ref()?.nodes.first().map(|member| at(member, socket))
}

/// As Redis writes it, without brackets: clients take the last colon for the border.
fn at(node: &NodeView, socket: &Socket) -> String {
    let (address, _) = node.address_for(socket.is_tls());
    format!("{}:{}", address.host(), address.port())
}

fn of(core: &Core, socket: &Socket) -> HashSlots {
    let own = core.place();
    let Some(siblings) = &core.siblings else {
        return HashSlots { shards: vec![own.shard(core, socket, 0, 1)], own: 0 };
    };
    let count = siblings.count();
    let shards = (0..count).map(|partition| match partition == siblings.own() {
        true => own.shard(core, socket, partition, count),
        false => siblings.place(partition).shard(core, socket, partition, count),
    });
    HashSlots { shards: shards.collect(), own: siblings.own().into() }
}

/// The only node of a partition, where the asking client finds it.
fn slot_node(alone: &Alone, core: &Core, socket: &Socket) -> SlotNode {
    let (announced, own) = match socket.is_tls() {
        true => (alone.announced_tls_port, alone.tls_port),
        false => (alone.announced_port, alone.port),
    };
    let host = match core.options.config.text(Name::ClusterAnnounceIp) {
        "" => socket.peer.local_host().unwrap_or_else(|| "127.0.0.1".to_owned()),
        announced => announced.to_owned(),
    };
    SlotNode {
        id: alone.id.clone(),
        host,
        port: Some(announced).filter(|port| *port != 0).unwrap_or(own),
        tls: socket.is_tls(),
        bus_port: 0,
        part: SlotPart::Master,
        health: if alone.loading { SlotHealth::Loading } else { SlotHealth::Online },
        offset: 0,
        is_own: true,
    }
}

/// Without the slots of a partition of which no node is known yet: libraries cannot read such a row.
fn write_slots(slots: &HashSlots, out: &mut Encoder<'_>) {
    let shards = slots.shards.iter().filter(|shard| shard.usable().next().is_some());
    out.array(shards.clone().count());
    for shard in shards {
        out.array(2 + shard.usable().count());
        out.integer(shard.slots.0.into());
        out.integer(shard.slots.1.into());
        for node in shard.usable() {
            out.array(4);
            out.bulk(node.host.as_bytes());
            out.integer(node.port.into());
            out.bulk(node.id.as_bytes());
            out.array(0);
        }
    }
}

fn write_shards(slots: &HashSlots, out: &mut Encoder<'_>) {
    out.array(slots.shards.len());
    for shard in &slots.shards {
        out.map(2);
        out.field("slots").array(2);
        out.integer(shard.slots.0.into());
        out.integer(shard.slots.1.into());
        out.field("nodes").array(shard.nodes.len());
        shard.nodes.iter().for_each(|node| write_node(node, out));
    }
}

fn write_node(node: &SlotNode, out: &mut Encoder<'_>) {
    out.map(7);
    out.field("id").bulk(node.id.as_bytes());
    out.field(if node.tls { "tls-port" } else { "port" }).integer(node.port.into());
    for name in ["ip", "endpoint"] {
        out.field(name).bulk(node.host.as_bytes());
    }
    out.field("role").bulk(node.part.word().as_bytes());
    out.field("replication-offset").unsigned(node.offset);
    out.field("health").bulk(node.health.word().as_bytes());
}
