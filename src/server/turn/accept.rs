//! New connections: who is let in.

use crate::command::table::Face;
use crate::ids::ClientId;
use crate::limits::TLS_REFUSALS_MAX;
use crate::server::connection::client::Client;
use crate::server::connection::handshake::Handshakes;
use crate::server::connection::stream::Accepted;
use crate::server::turn::Turns;
use crate::session::Session;
use std::sync::Arc;
use tokio::net::TcpStream;

/// What a connection of another machine is told while nobody needs a password.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and \
    no password is set for the default user. In this mode connections are only accepted from the \
    loopback interface and by Unix sockets. To be reached from other machines, set a password: say \
    'CONFIG SET requirepass ...' on the machine itself and state it in the configuration file. To do \
    without one, where only friends reach this port, start with '--protected-mode no' or say 'CONFIG \
    SET protected-mode no' on the machine itself.\r\n";

impl Turns {
    /// Gives each accepted connection a slot, or a reason why not.
    pub(in crate::server) fn greet(&mut self) {
        let mut accepted = std::mem::take(&mut self.accepted);
        accepted.extend(self.handshakes.iter().flat_map(Handshakes::take));
        accepted.extend(self.pairs.iter().flat_map(|pairs| pairs.take()));
        for accepted in accepted {
            let (stream, peer, is_guarded) = match accepted {
                Accepted::Ready(stream, peer) => (stream, peer, false),
                Accepted::Guarded(stream, peer) => (stream, peer, true),
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
            if is_guarded {
                session = session.with_password(&self.core.users.acl);
            }
            let waker = self.notifier.waker(slot);
            let mut client = Client::new(session, stream, peer, waker, self.core.clock.mono_us);
            if let Some(text) = self.refusal(&client) {
                self.core.watch.counters.connections_rejected += 1;
                self.clients.release(slot);
                client.socket.farewell(text.as_bytes());
                continue;
            }
            if let Err(error) = client.socket.tune(self.core.options.limits.keepalive_s) {
                tracing::debug!(%error, "an accepted connection could not be tuned");
            }
            self.next_id += 1;
            self.core.outputs.open(id, slot);
            self.clients.put(slot, Box::new(client));
            self.list(slot);
        }
    }

    /// Those above `maxclients` are still told so, a few at a time; more are closed without a word.
    fn begin_handshake(&mut self, socket: TcpStream) {
        let (Some(handshakes), Some(config)) = (&self.handshakes, &self.core.users.tls) else {
            return;
        };
        let count = self.clients.count() + handshakes.count();
        if count as u64 >= self.core.options.limits.clients_max + TLS_REFUSALS_MAX {
            self.core.watch.counters.connections += 1;
            self.core.watch.counters.connections_rejected += 1;
            return;
        }
        if let Err(error) = handshakes.begin(socket, Arc::clone(config)) {
            tracing::debug!(%error, "a TLS handshake could not begin");
        }
    }

    fn refusal(&self, client: &Client) -> Option<&'static str> {
        let shaking = self.handshakes.as_ref().map_or(0, Handshakes::count);
        if (self.clients.count() + shaking) as u64 > self.core.options.limits.clients_max {
            return Some("-ERR max number of clients reached\r\n");
        }
        if self.core.options.limits.protected
            && self.core.users.acl.default_user().has_no_password()
            && !client.socket.is_local()
        {
            return Some(DENIED);
        }
        None
    }
}
