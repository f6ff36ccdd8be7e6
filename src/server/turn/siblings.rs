//! A partition's share of a process with several: what it tells its siblings and takes from them, turn by turn.

use crate::cluster::members::names::Listed;
use crate::config::options::Name;
use crate::error::Shown;
use crate::hash_slot::{hash_slot, partition_of};
use crate::observe::Counters;
use crate::observe::cluster::ClusterView;
use crate::server::admin::{config, users};
use crate::server::cluster::mailbox::Ask;
use crate::server::core::{Core, Process};
use crate::server::siblings::{Alone, PartitionPlace, Used};
use crate::server::turn::Turns;
use std::io;
use std::sync::Arc;

impl Turns {
    /// Takes up options and users that another partition has changed.
    pub(super) fn heed_siblings(&mut self) {
        let newer = self.core.siblings.as_mut().and_then(|siblings| siblings.newer());
        let Some((agreed, files)) = newer else { return };
        config::take_up(&mut self.core, agreed, files);
        let gone = users::take_up_each(&mut self.core, &mut self.clients);
        gone.into_iter().for_each(|(slot, _)| self.close(slot));
    }

    /// Connections of all partitions.
    pub(super) fn client_count(&self) -> u64 {
        let own = self.clients.count() as u64;
        self.core.siblings.as_ref().map_or(own, |siblings| siblings.count_clients(own))
    }
}

impl Turns {
    /// Once a second, as long as this node is not a member of the partition's cluster: names to the raft thread the nodes
    /// of other partitions, some of which may be members. The nodes of `cluster-nodes` may all have left by now.
    pub(super) fn hint(&mut self) {
        let (Some(siblings), Some(view)) = (&self.core.siblings, &self.core.view) else { return };
        if view.cluster.is_some() {
            return;
        }
        let mut nodes = self.hinted.clone();
        // Those that were known before stay: this node may have lost its last partition.
        nodes.extend(siblings.nodes_of_others().into_iter().map(|node| (node.name, node.peer)));
        if nodes != self.hinted
            && let Some(node) = self.core.durability.replicated()
        {
            let listed = nodes.clone().into_iter();
            let listed = listed.map(|(name, peer)| Listed { name, peer }).collect();
            node.mailbox.ask(Ask::Hint(listed));
            self.hinted = nodes;
        }
    }

    /// A partition whose node was removed begins anew, in an empty folder.
    pub(super) fn leave(&self) {
        if let (Some(siblings), Some(view)) = (&self.core.siblings, &self.core.view)
            && view.has_left()
            && !siblings.leaves(siblings.own())
        {
            siblings.leave();
        }
    }
}

impl Core {
    /// Where this partition is served.
    pub fn place(&self) -> PartitionPlace {
        if let Some(view) = &self.view {
            return PartitionPlace::Node(Arc::new(ClusterView::clone(view)));
        }
        let (config, is_loading) = (&self.options.config, self.durability.shown.loading.is_some());
        let Process { run_id, port, .. } = &self.process;
        PartitionPlace::Alone(Alone::of(config, run_id, *port, is_loading))
    }

    /// Tells the siblings where this partition is served.
    pub fn tell_place(&self) {
        if let Some(siblings) = &self.siblings {
            siblings.move_to(self.place());
        }
    }

    /// Tells the siblings what this partition with its `clients` uses, and looks what they do.
    pub fn share(&mut self, clients: u64) {
        let Some(siblings) = &self.siblings else { return };
        siblings.count_clients(clients);
        let Counters { input_bytes, output_bytes, .. } = self.watch.counters;
        siblings.uses(Used {
            engine_bytes: self.engine.held_bytes() + self.engine.lease_bytes_to_come(),
            clients_bytes: self.common.bytes as u64,
            moved_bytes: input_bytes + output_bytes,
        });
        self.others = siblings.others_use();
        self.share_memory();
    }

    /// The engine may have what the others leave of `maxmemory`; taking and acknowledging never need any.
    pub(in crate::server) fn share_memory(&mut self) {
        let max = self.options.config.number(Name::MaxMemory);
        if self.siblings.is_some() && max > 0 {
            let left = max.saturating_sub(self.others.engine_bytes).max(1);
            let settings = self.engine.settings_mut();
            (settings.memory_bytes_max, settings.memory_bytes_beside) = (left, max - left);
        }
    }

    /// Queues of another partition would be kept, and never found: folders were exchanged, or a copy of others.
    pub(in crate::server) fn check_partition(&self) -> io::Result<()> {
        let config = &self.options.config;
        let (own, count) = (config.partition, config.partitions());
        let foreign = |name: &[u8]| partition_of(hash_slot(name), count) != own;
        let Some(name) = self.engine.queue_names().find(|name| count > 1 && foreign(name)) else {
            return Ok(());
        };
        let owner = partition_of(hash_slot(name), count);
        let (name, folder) = (Shown::new(name), config.folder());
        Err(io::Error::other(format!(
            "the journal in {} has queue {name}, which belongs to partition {owner} of {count}: it is another partition's",
            folder.display()
        )))
    }
}
