//! What a session needs of the server around it: [`World`]. The server implements it once per turn;
//! tests script it. A session reaches sockets, clocks, the engine and other clients in no other way.

use crate::command::spec::action::Server;
use crate::command::{self, CommandSpec};
use crate::engine::Outcome;
use crate::engine::decide::watch::Stamp;
use crate::engine::decide::whole::{Begun, Whole};
use crate::engine::model::request::{QueueName, Request};
use crate::error::Error;
use crate::ids::{ClientId, Db};
use crate::pubsub::PubSub;
use crate::resp::{Encoder, Protocol};
use crate::session::Session;
use crate::session::acl::Acl;
use crate::session::client_line::ClientLine;
use crate::time::Micros;

/// The server as one session sees it during one command.
pub trait World {
    /// The turn's clock: the engine's, the same for the whole turn.
    fn now(&self) -> Micros;

    /// Whether one more line may go to the log that a client can cause before it has said who it is.
    fn admits_line(&mut self) -> bool {
        true
    }

    /// Writes to `client`'s own output, in its protocol, behind what stands there. A muted
    /// client's encoder writes to nowhere.
    fn encoder(&mut self, client: ClientId) -> Encoder<'_>;

    /// The protocol of everything `client` is sent from here on.
    fn set_protocol(&mut self, client: ClientId, protocol: Protocol);

    /// `CLIENT REPLY OFF` and `SKIP`: while muted, replies to `client` are thrown away, the
    /// engine's too, and a waiter's late one; messages of channels are not. Called when a command begins or `REPLY` says so,
    /// only when it changes.
    fn set_muted(&mut self, client: ClientId, muted: bool);

    /// `Engine::handle`; the reply goes to the client's output by way of the server's outbox.
    fn handle(&mut self, client: ClientId, request: &Request<'_>) -> Outcome;

    /// `Engine::handle_in_transaction`, otherwise as [`World::handle`].
    fn handle_in_transaction(&mut self, client: ClientId, request: &Request<'_>) -> Outcome;

    /// `Engine::stamp`: the queue as it is now, for WATCH.
    fn stamp(&mut self, client: ClientId, queue: QueueName<'_>) -> Stamp;

    /// `Engine::begin_transaction`.
    fn begin_transaction(&mut self, client: ClientId, whole: &Whole<'_>) -> Begun;

    /// `Engine::check_queued`: whether a request that is to be queued would be refused now.
    fn check_queued(&self, _request: &Request<'_>, _limits: bool) -> Result<(), Error> {
        Ok(())
    }

    /// `client` watches queues from here on (for INFO; told again while it does), or none any more:
    /// `Engine::unwatch`.
    fn set_watching(&mut self, _client: ClientId, _watching: bool) {}

    /// Bytes of replies written to `client` so far, those thrown away included; only differences
    /// within a transaction mean anything.
    fn replied_bytes(&self, _client: ClientId) -> u64 {
        0
    }

    /// How much more `client` may hold than it does, bytes, once it has freed so many, without being closed
    /// for it.
    fn held_bytes_max(&self, _client: ClientId, _freed_bytes: usize) -> u64 {
        u64::MAX
    }

    /// `Engine::end_transaction`.
    fn end_transaction(&mut self);

    /// Handles a reading request whose reply is an integer (`Exists`, `Len`) and returns that
    /// integer instead of writing it to anybody. Hands nothing off: it may stand in a transaction.
    fn ask(&mut self, client: ClientId, request: &Request<'_>) -> Result<i64, Error>;

    /// RESET: `client` waits for nothing and its `BOUND` leases end (`Engine::closed`).
    fn release(&mut self, client: ClientId);

    /// Channels. What is published leaves no earlier than the replies to what the running client has
    /// done before.
    fn pubsub(&mut self) -> &mut PubSub;

    /// How many entries a command about channels may look at.
    fn pubsub_cost(&self, _what: &command::spec::action::PubSub<'_>) -> u64 {
        1
    }

    /// Whether somebody sees every command that runs.
    fn is_monitored(&self) -> bool {
        false
    }

    /// Shows a command of the running client, which has run in `db`, to those that see every command.
    fn show_command(&mut self, _db: Db, _spec: &CommandSpec, _args: &[&[u8]]) {}

    /// All connections, oldest first. What the running session knows of itself is newer than its
    /// line here; the session corrects that line.
    fn clients(&self) -> Vec<ClientLine>;

    /// How many connections there are.
    fn client_count(&self) -> u64 {
        self.clients().len() as u64
    }

    /// The running connection; the session corrects its own part of it.
    fn running_line(&self) -> ClientLine;

    /// All users, the log of what was denied and the counts of it.
    fn acl(&mut self) -> &mut Acl;

    /// Users have changed: every other session takes up its user's new rules, and the connections of
    /// users that are gone are closed. The running session sees to itself.
    fn users_changed(&mut self);

    /// ACL LOAD: reads the users from the ACL file, then as [`World::users_changed`]. The text says
    /// why not, without a class.
    fn load_users(&mut self) -> Result<(), String>;

    /// ACL SAVE: writes the users to the ACL file.
    fn save_users(&mut self) -> Result<(), String>;

    /// Fills `bytes` with what nobody can guess.
    fn draw_secret(&mut self, bytes: &mut [u8]);

    /// Closes another connection, at once and without a reply; false if there is none. A session
    /// never asks it for itself.
    fn kill(&mut self, client: ClientId) -> bool;

    /// CLIENT PAUSE: for so long, from now on, sessions postpone commands (all, or those that write), no
    /// time passes for jobs and none is handed over.
    fn pause(&mut self, _ms: u64, _writes_only: bool) {}

    /// CLIENT UNPAUSE.
    fn unpause(&mut self) {}

    /// Whether clients are paused, and then whether only commands that write are kept back.
    fn paused(&self) -> Option<bool> {
        None
    }

    /// Releases a waiting client, with the reply of a timeout or with the error `UNBLOCKED`;
    /// false if it does not wait.
    fn unblock(&mut self, client: ClientId, how: Unblock) -> bool;

    /// Does what a command asks of the server, and writes its reply to `asker`'s output. An error's text, which
    /// begins with its class, is left to the session.
    fn serve(&mut self, asker: &Session, what: Server<'_>) -> Result<Served, String>;

    /// Whether the journal is being read. Then the session refuses every command without the flag
    /// `loading`; to those that run the engine must look empty. Once false it stays false.
    fn is_loading(&self) -> bool {
        false
    }

    /// A command is about to run; also each command of a transaction when EXEC comes to it, and
    /// again when it comes back after [`Next::Again`](super::Next::Again).
    fn began(&mut self, _client: ClientId, _spec: &'static CommandSpec) {}

    /// The command of the last [`World::began`] is over. For counters and the slow log; `args`
    /// begins with the command's name. A password is among them only in AUTH and HELLO.
    fn ended(
        &mut self,
        _client: ClientId,
        _spec: &'static CommandSpec,
        _args: &[&[u8]],
        _how: Ended,
    ) {
    }

    /// An error reply is being written by the session; `text` begins with its class. The engine's
    /// errors pass the server's outbox and are not reported here.
    fn refused(&mut self, _client: ClientId, _text: &str) {}
}

/// How a command ended, for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It was answered, or the engine answered it (perhaps with an error that the outbox saw).
    Replied,
    /// It ran and was answered with an error by the session.
    Failed,
    /// It never ran: arity, or not allowed here.
    Rejected,
    /// It waits in line; its time ends here, the reply comes later.
    Waiting,
    /// It is not counted: it comes again in the next turn.
    Again,
}

/// What `CLIENT UNBLOCK` sends to the one it releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unblock {
    /// The reply of a timeout.
    Timeout,
    /// The error [`UNBLOCKED`].
    Error,
}

/// The error a client gets whom `CLIENT UNBLOCK id ERROR` released.
pub const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// How [`World::serve`] ended, and what is left to the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// The reply is written.
    Done,
    /// The client counts as waiting, as after [`Outcome::Waiting`]: its further bytes are held back, and the
    /// world answers it later through its encoder.
    Waiting,
    /// As [`Outcome::Again`].
    Again,
    /// It is OK, and users may have changed: the session takes up its own.
    UsersChanged,
}
