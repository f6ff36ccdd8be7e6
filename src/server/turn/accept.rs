//! New connections: accepting and refusing.

use crate::command::table::Face;
use crate::ids::ClientId;
use crate::limits::{ACCEPTS_BEYOND_MAX, ACCEPTS_PER_TURN, OPERATORS_MAX, TLS_REFUSALS_MAX};
use crate::server::connection::client::Client;
use crate::server::connection::handshake::Handshakes;
use crate::server::connection::stream::Accepted;
use crate::server::turn::Turns;
use crate::session::Session;
use std::any::Any;
use std::sync::Arc;
use tokio::net::TcpStream;

/// The error for a connection beyond `maxclients`: [`crate::session::MAX_CLIENTS`].
const TOO_MANY: &str = "-ERR max number of clients reached\r\n";

/// The refusal of a connection that is to go on in place of another one.
const CHANGED: &str = "-NOAUTH the user has been changed; log in again\r\n";

/// The refusal of a connection from another machine while no password is required.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and \
    no password is set for the default user. In this mode connections are only accepted from the \
    loopback interface and by Unix sockets. To accept connections from other machines, set a password: run 'CONFIG \
    SET requirepass ...' on the machine itself and put it into the configuration file. To run without a password in \
    a trusted network, start with '--protected-mode no' or run 'CONFIG SET protected-mode no' on the machine itself.\r\n";

impl Turns {
    /// Gives each accepted connection a slot, or a reason why not.
    pub(in crate::server) fn greet(&mut self) {
        let mut accepted = std::mem::take(&mut self.accepted);
        accepted.extend(self.handshakes.iter().flat_map(Handshakes::take));
        accepted.extend(self.pairs.iter().flat_map(|pairs| pairs.take()));
        for accepted in accepted {
            let (stream, peer, relay, is_proven) = match accepted {
                Accepted::Ready(stream, peer) => (stream, peer, None, true),
                Accepted::Relayed { stream, peer, relay, is_proven } => {
                    (stream, peer, Some(relay), is_proven)
                }
                Accepted::Handshake(socket) => {
                    self.begin_handshake(socket);
                    continue;
                }
            };
            self.core.watch.counters.connections += 1;
            let slot = self.clients.reserve();
            let id = ClientId(self.next_id);
            let face = if self.core.sentinel.is_at(&peer) { Face::Sentinel } else { Face::Data };
            let mut session = Session::greet(id, face, &self.core.users.acl);
            if !is_proven {
                session = session.with_password(&self.core.users.acl);
            }
            let waker = self.notifier.waker(slot);
            let mut client = Client::new(session, stream, peer, waker, self.core.clock.mono_us);
            let left = relay.as_ref().and_then(|relay| relay.resume());
            let resumes = |user: Arc<dyn Any + Send + Sync>| {
                let user = user.downcast();
                user.is_ok_and(|user| client.session.resume(user, &self.core.users.acl))
            };
            let refusal = match left.is_none_or(resumes) {
                true => self.refusal(slot, &mut client),
                false => Some(CHANGED),
            };
            if let Some(text) = refusal {
                self.core.watch.counters.connections_rejected += 1;
                self.clients.release(slot);
                client.socket.stream.farewell(text.as_bytes());
                continue;
            }
            if let Err(error) = client.socket.tune(self.core.options.limits.keepalive_s) {
                tracing::debug!(%error, "an accepted connection could not be tuned");
            }
            self.next_id += 1;
            self.core.outputs.open(id, slot);
            let holds = relay.as_ref().is_some_and(|relay| relay.holds_jobs);
            self.core.outputs.at(slot).holds_jobs = holds;
            client.socket.relay = relay;
            self.clients.put(slot, Box::new(client));
            self.list(slot);
        }
    }

    /// Connections to accept before the next turn: a few more than there are places for. Each takes a file until it is
    /// refused.
    pub(super) fn accepts_max(&self) -> usize {
        let places = self.core.options.limits.clients_max.saturating_sub(self.client_count());
        let places = usize::try_from(places).unwrap_or(ACCEPTS_PER_TURN);
        places.saturating_add(ACCEPTS_BEYOND_MAX).min(ACCEPTS_PER_TURN)
    }

    /// Connections above `maxclients` still get the error, a few at a time; more are closed without
    /// a reply.
    fn begin_handshake(&mut self, socket: TcpStream) {
        let (Some(handshakes), Some(config)) = (&self.handshakes, &self.core.users.tls) else {
            return;
        };
        let count = self.client_count() + handshakes.count() as u64;
        if count >= self.core.options.limits.clients_max + TLS_REFUSALS_MAX {
            self.core.watch.counters.connections += 1;
            self.core.watch.counters.connections_rejected += 1;
            return;
        }
        if let Err(error) = handshakes.begin(socket, Arc::clone(config)) {
            tracing::debug!(%error, "a TLS handshake could not begin");
        }
    }

    fn refusal(&mut self, slot: u32, client: &mut Client) -> Option<&'static str> {
        let shaking = self.handshakes.as_ref().map_or(0, Handshakes::count);
        let count = self.client_count() + shaking as u64;
        if count > self.core.options.limits.clients_max && !self.seats_operator(slot, client) {
            return Some(TOO_MANY);
        }
        if self.core.options.limits.protected
            && self.core.users.acl.default_user().has_no_password()
            && !client.socket.peer.is_local()
        {
            return Some(DENIED);
        }
        None
    }

    /// Gives a connection of this machine one of the places that are kept for operators, if need be that of the oldest
    /// one which is not known to be an operator's.
    fn seats_operator(&mut self, slot: u32, client: &mut Client) -> bool {
        let socket = &client.socket;
        if !socket.peer.is_local() || socket.is_pair() || client.session.face() == Face::Sentinel {
            return false;
        }
        let mut operators = std::mem::take(&mut self.operators);
        operators.retain(|at| self.operator(*at).is_some());
        // Of the process, and each partition has one.
        let most = OPERATORS_MAX.div_ceil(self.core.options.config.partitions().into());
        if operators.len() >= most {
            let unproven = operators.iter().position(|at| {
                self.operator(*at).is_some_and(|found| !found.session.is_proven_operator())
            });
            if let Some(at) = unproven {
                let (slot, _) = operators.remove(at);
                if let Some(found) = self.clients.get_mut(slot) {
                    found.socket.stream.farewell(TOO_MANY.as_bytes());
                }
                self.core.watch.counters.connections_rejected += 1;
                self.close(slot);
            }
        }
        let has_place = operators.len() < most;
        if has_place {
            client.session.take_spare_seat();
            operators.push((slot, client.id));
        }
        self.operators = operators;
        has_place
    }

    /// Once others have left, those on places for operators have places like all others.
    pub(super) fn settle_operators(&mut self) {
        if self.operators.is_empty() || self.client_count() > self.core.options.limits.clients_max {
            return;
        }
        for at in std::mem::take(&mut self.operators) {
            if let Some(found) = self.operator(at) {
                found.session.take_own_seat();
            }
        }
    }

    fn operator(&mut self, (slot, id): (u32, ClientId)) -> Option<&mut Client> {
        self.clients.get_mut(slot).filter(|found| found.id == id)
    }
}
