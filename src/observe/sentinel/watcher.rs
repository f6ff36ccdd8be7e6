//! A Sentinel's events for its subscribers: the changes of the cluster since the last look.

use super::{Sentinel, run_id};
use crate::cluster::members::names::Address;
use crate::observe::cluster::{ClusterView, NodeView};
use std::collections::BTreeMap;

/// Something that has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The channel, such as `+switch-master`.
    pub channel: &'static str,
    /// The message.
    pub text: String,
}

/// The last events. Cost of a look: a comparison for each node.
#[derive(Clone, Debug, Default)]
pub struct Watcher {
    /// The leader, or the last one.
    master: Option<(u64, Address)>,
    /// Whether its absence was reported.
    is_down: bool,
    /// The other nodes: their addresses for clients, and whether they were reported down.
    replicas: BTreeMap<u64, (Address, bool)>,
    sentinels: BTreeMap<u64, Address>,
}

impl Watcher {
    /// The leader, or the last one: its id, and its address for clients.
    pub fn master(&self) -> Option<(u64, &Address)> {
        self.master.as_ref().map(|(id, address)| (*id, address))
    }

    /// The events for the cluster's current state. When the first leader becomes known, its nodes cause no events:
    /// nothing has changed.
    pub fn look(&mut self, name: &str, view: &ClusterView) -> Vec<Event> {
        let mut events = Vec::new();
        let is_first = self.master.is_none();
        self.look_at_master(name, view, &mut events);
        if self.master.is_some() {
            self.look_at_replicas(name, view, &mut events);
            self.look_at_sentinels(name, view, &mut events);
        }
        if is_first { Vec::new() } else { events }
    }

    fn look_at_master(&mut self, name: &str, view: &ClusterView, events: &mut Vec<Event>) {
        let mut tell = |channel, text| events.push(Event { channel, text });
        let Some(leader) = view.leader_within_reach() else {
            if let Some((_, address)) = self.master.as_ref().filter(|_| !self.is_down) {
                let quorum = Sentinel { name, view, watcher: self }.quorum();
                let master = format!("master {name} {}", spaced(address));
                tell("+sdown", master.clone());
                tell("+odown", format!("{master} #quorum {quorum}/{quorum}"));
                self.is_down = true;
            }
            return;
        };
        let was_down = std::mem::take(&mut self.is_down);
        let led = self.master.replace((leader.id, leader.client.clone()));
        match led {
            Some((_, old)) if old != leader.client => {
                tell(
                    "+switch-master",
                    format!("{name} {} {}", spaced(&old), spaced(&leader.client)),
                );
                // All are new to the new master.
                self.replicas.clear();
            }
            Some(_) if was_down => {
                let master = format!("master {name} {}", spaced(&leader.client));
                tell("-sdown", master.clone());
                tell("-odown", master);
            }
            _ => {}
        }
    }

    fn look_at_replicas(&mut self, name: &str, view: &ClusterView, events: &mut Vec<Event>) {
        let Some((master, at)) = &self.master else { return };
        let mut tell = |channel, node: &NodeView| {
            let (address, replica) = (&node.client, spaced(&node.client));
            let text = format!("slave {address} {replica} @ {name} {}", spaced(at));
            events.push(Event { channel, text });
        };
        self.replicas.retain(|id, _| view.nodes.iter().any(|node| node.id == *id));
        for node in view.nodes.iter().filter(|node| node.id != *master) {
            let known = self.replicas.get(&node.id);
            let was_down = known.is_some_and(|(_, is_down)| *is_down);
            if known.is_none_or(|(address, _)| *address != node.client) {
                tell("+slave", node);
            }
            // Only the leader knows: elsewhere nothing changes.
            let is_down = node.is_heard.map_or(was_down, |is_heard| !is_heard);
            match (was_down, is_down) {
                (false, true) => tell("+sdown", node),
                (true, false) => tell("-sdown", node),
                _ => {}
            }
            self.replicas.insert(node.id, (node.client.clone(), is_down));
        }
    }

    fn look_at_sentinels(&mut self, name: &str, view: &ClusterView, events: &mut Vec<Event>) {
        let Some((_, at)) = &self.master else { return };
        self.sentinels.retain(|id, _| view.nodes.iter().any(|node| node.id == *id));
        for node in view.others() {
            let Some(address) = &node.sentinel else { continue };
            if self.sentinels.get(&node.id) != Some(address) {
                let (id, sentinel) = (run_id(node.id), spaced(address));
                let text = format!("sentinel {id} {sentinel} @ {name} {}", spaced(at));
                events.push(Event { channel: "+sentinel", text });
                self.sentinels.insert(node.id, address.clone());
            }
        }
    }
}

/// As a Sentinel writes an address: in two words.
fn spaced(address: &Address) -> String {
    format!("{} {}", address.host(), address.port())
}
