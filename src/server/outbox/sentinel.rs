//! The port that answers as a Redis Sentinel: who has subscribed to its events, and what those were told last.
//!
//! Its channels are its own: what is published on the port for jobs does not come here, nor the other way round. Its
//! events rest on no fact, so they wait for no journal.

use crate::observe::cluster::ClusterView;
use crate::observe::sentinel::Watcher;
use crate::pubsub::PubSub;
use crate::server::connection::stream::Peer;
use crate::server::outbox::Outputs;
use crate::server::outbox::messages::{Share, bring_all};

/// See the module.
#[derive(Debug, Default)]
pub struct Sentinel {
    /// The port; none where nothing answers as a Sentinel.
    pub port: Option<u16>,
    /// `sentinel-master-name`.
    pub name: Box<str>,
    pub pubsub: PubSub,
    pub watcher: Watcher,
}

impl Sentinel {
    /// On this port, 0 for none.
    pub fn new(port: u16, name: &str) -> Sentinel {
        Sentinel {
            port: Some(port).filter(|port| *port > 0),
            name: name.into(),
            ..Sentinel::default()
        }
    }

    /// Whether a connection came in by that port.
    pub fn is_at(&self, peer: &Peer) -> bool {
        self.port.is_some() && peer.local_port() == self.port
    }

    /// Publishes how the cluster has changed.
    pub fn look(&mut self, view: &ClusterView) {
        if self.port.is_none() {
            return;
        }
        for event in self.watcher.look(&self.name, view) {
            tracing::debug!(event = event.channel, "{}", event.text);
            self.pubsub.publish(event.channel.as_bytes(), event.text.as_bytes());
        }
    }

    /// Copies messages into outputs, a turn's share of them. Returns the slots that got one.
    pub fn deliver(&mut self, outputs: &mut Outputs) -> Vec<u32> {
        let (mut share, mut slots) = (Share::default(), Vec::new());
        bring_all(&mut self.pubsub, outputs, &mut share, &mut slots);
        slots
    }
}
