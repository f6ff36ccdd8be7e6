//! New connections: who is let in.

use super::client::Client;
use super::turn::Turns;
use crate::ids::ClientId;
use crate::session::Session;

/// What a connection of another machine is told while nobody needs a password.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and \
    no password is set for the default user. In this mode connections are only accepted from the \
    loopback interface and by Unix sockets. To be reached from other machines, set a password: say \
    'CONFIG SET requirepass ...' on the machine itself and state it in the configuration file. To do \
    without one, where only friends reach this port, start with '--protected-mode no' or say 'CONFIG \
    SET protected-mode no' on the machine itself.\r\n";

impl Turns {
    /// Gives each accepted connection a slot, or a reason why not.
    pub(super) fn greet(&mut self) {
        for stream in std::mem::take(&mut self.accepted) {
            self.core.counters.connections += 1;
            let slot = self.clients.reserve();
            let id = ClientId(self.next_id);
            let waker = self.bell.waker(slot);
            let session = Session::greet(id, &self.core.acl);
            let client = match Client::new(session, stream, waker, self.core.mono_us) {
                Ok(client) => client,
                // It is gone already.
                Err(_) => {
                    self.clients.release(slot);
                    continue;
                }
            };
            if let Some(text) = self.refusal(&client) {
                self.core.counters.connections_rejected += 1;
                self.clients.release(slot);
                let mut socket = client.socket;
                // A fresh connection's buffer has room for a line; if not, it closes without one.
                let _ = socket.write(text.as_bytes());
                continue;
            }
            if let Err(error) = client.socket.tune(self.core.limits.keepalive_s) {
                tracing::debug!(%error, "an accepted connection could not be tuned");
            }
            self.next_id += 1;
            self.core.outputs.open(id, slot);
            self.clients.put(slot, Box::new(client));
            self.list(slot);
        }
    }

    fn refusal(&self, client: &Client) -> Option<&'static str> {
        if self.clients.count() as u64 > self.core.limits.clients_max {
            return Some("-ERR max number of clients reached\r\n");
        }
        if self.core.limits.protected
            && self.core.acl.default_user().has_no_password()
            && !client.socket.is_local()
        {
            return Some(DENIED);
        }
        None
    }
}
