//! The server begins or stops deciding. The leader is found elsewhere; here are the consequences for clients.
//!
//! Clients of Redis take a node that has stopped to lead for one that is gone: they find the new leader when they
//! connect again. So at a demotion all connections go, and those with replies that wait for the journal get 2 s for
//! those of them that are still confirmed.

use crate::cluster::raft::member::Role;
use crate::command::table::Face;
use crate::ids::ClientId;
use crate::limits::DEMOTION_US;
use crate::observe::cluster::ClusterView;
use crate::server::connection::calls::Ending;
use crate::server::connection::client::Client;
use crate::server::core::Core;
use crate::server::turn::Turns;
use crate::session::world::DEMOTED;
use crate::session::{NodeStanding, Session};

/// Connections from before a demotion that are still there for replies which wait.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// Those with lower numbers.
    before: ClientId,
    /// Until then at the latest; monotonic, µs.
    until_us: u64,
}

/// A node's standing for clients, from its role for the engine, whether the engine has only committed facts, and its
/// knowledge of the others. With `serves_stale` a follower answers reads.
pub fn standing_of(
    role: Role,
    is_committed: bool,
    view: &ClusterView,
    serves_stale: bool,
) -> NodeStanding {
    if let Some(missing) = &view.forming {
        return NodeStanding::Forming { missing: missing.as_str().into() };
    }
    match role {
        // A client that comes before everything of earlier leaders is applied tries again, and need not look elsewhere.
        Role::Loading | Role::Rising { .. } => NodeStanding::Loading,
        Role::Leader { .. } if view.has_quorum() => NodeStanding::Serving,
        Role::Leader { .. } => NodeStanding::Down,
        Role::Follower { .. } => {
            let reads = serves_stale && is_committed && view.is_current();
            NodeStanding::Following { reads, is_led: view.is_led() }
        }
    }
}

impl Turns {
    /// From here on the server is this to its clients. To be called at the beginning of a turn, as often as one likes:
    /// the same again changes nothing, and costs a comparison.
    ///
    /// Any state after `Serving` ends it for all connections. Nothing is decided, no time passes and no fact is made
    /// from here on; unsent jobs stay where they are, as after a crash. Waiting clients get an error, and are closed.
    /// Connections without replies are closed at once, those with some when the last of them has left or after 2 s;
    /// those whose replies will never be confirmed are closed by [`Turns::close_leaving`]. Published messages that wait
    /// for the journal are dropped.
    pub fn stand(&mut self, standing: NodeStanding) {
        if self.core.standing == standing {
            return;
        }
        // Decisions until now, for connections that were closed.
        self.propose_leftovers();
        let before = std::mem::replace(&mut self.core.standing, standing);
        let leads = self.core.standing.leads();
        self.troubles.stand(self.core.standing.is_leaderless(), self.core.clock.mono_us);
        self.core.view.iter_mut().for_each(|view| view.leads = leads);
        self.core.tell_place();
        self.show_troubles();
        self.core.set_flow();
        if before.is_serving() {
            self.demote();
        } else if !self.core.standing.is_serving() {
            self.close_subscribers();
        }
    }

    /// Closes those connections from before a demotion that still have replies: they will never be confirmed.
    pub fn close_leaving(&mut self) {
        let Some(Leaving { before, .. }) = self.leaving.take() else { return };
        let asks_for_jobs = |client: &Client| client.session.face() == Face::Data;
        let leaves =
            |client: &Client| !client.socket.is_pair() || client.socket.closing_us.is_some();
        self.close_those(|_, (_, client)| {
            client.id < before && asks_for_jobs(client) && leaves(client)
        });
    }

    /// Closes those that have not left by now, if it is time.
    pub(super) fn end_leaving(&mut self) {
        if self.leaving.is_some_and(|leaving| self.core.clock.mono_us >= leaving.until_us) {
            self.close_leaving();
        }
    }

    /// When that is; monotonic, µs.
    pub(super) fn leaving_us(&self) -> u64 {
        self.leaving.map_or(u64::MAX, |leaving| leaving.until_us)
    }

    fn demote(&mut self) {
        let Core { engine, outputs, durability, messages, clock, .. } = &mut self.core;
        engine.step_down();
        messages.drop_after(outputs.gate.released());
        durability.waits.fail_all(DEMOTED, outputs);
        let (mono_us, mut silent) = (clock.mono_us, Vec::new());
        for (slot, client) in self.clients.iter_mut() {
            // It continues to name the leader.
            if client.session.face() == Face::Sentinel {
                continue;
            }
            let is_silent = outputs.of(slot).unsent.is_empty() && !outputs.of(slot).waiting;
            // Whoever looks at this node through its console is to see what happens to it.
            if client.socket.is_pair() && is_silent && !client.session.is_subscribed() {
                continue;
            }
            client.leave();
            if outputs.of(slot).waiting && engine.stop_waiting(client.id) {
                outputs.set_answered(client.id, Ending::Failed);
                outputs.refuse(client.id, DEMOTED);
            }
            if outputs.of(slot).unsent.is_empty() {
                silent.push(slot);
            } else {
                client.socket.closing_us.get_or_insert(mono_us);
                outputs.mark_dirty(slot);
            }
        }
        silent.into_iter().for_each(|slot| self.close(slot));
        let (before, until_us) = (ClientId(self.next_id), mono_us + DEMOTION_US);
        self.leaving = (self.clients.count() > 0).then_some(Leaving { before, until_us });
        self.list_answered();
    }

    /// They wait for events that only the node makes that decides.
    fn close_subscribers(&mut self) {
        if self.core.messages.pubsub.client_count() > 0 {
            let listens =
                |session: &Session| session.is_subscribed() && session.face() == Face::Data;
            self.close_those(|_, (_, client)| listens(&client.session));
        }
    }
}
