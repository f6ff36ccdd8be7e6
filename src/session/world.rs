//! What a session needs of the server around it: [`World`]. The server implements it once per turn;
//! tests script it. A session reaches sockets, clocks, the engine and other clients in no other way.

use crate::command::CommandSpec;
use crate::command::action::Shutdown;
use crate::engine::Outcome;
use crate::engine::request::Request;
use crate::error::Error;
use crate::ids::ClientId;
use crate::resp::{Encoder, Protocol};
use crate::session::client_line::ClientLine;
use crate::time::Micros;

/// The server as one session sees it during one command.
pub trait World {
    /// The turn's clock: the engine's, the same for the whole turn.
    fn now(&self) -> Micros;

    /// Any number, for RANDOMKEY.
    fn random(&mut self) -> u64;

    /// Writes to `client`'s own output, in its protocol, behind what stands there. A muted
    /// client's encoder writes to nowhere.
    fn encoder(&mut self, client: ClientId) -> Encoder<'_>;

    /// The protocol of everything `client` is sent from here on.
    fn set_protocol(&mut self, client: ClientId, protocol: Protocol);

    /// `CLIENT REPLY OFF` and `SKIP`: while muted, replies to `client` are thrown away, the
    /// engine's too, and a waiter's late one. Called when a command begins or `REPLY` says so,
    /// only when it changes.
    fn set_muted(&mut self, client: ClientId, muted: bool);

    /// `Engine::handle`; the reply goes to the client's output by way of the server's outbox.
    fn handle(&mut self, client: ClientId, request: &Request<'_>) -> Outcome;

    /// `Engine::handle_in_transaction`, otherwise as [`World::handle`].
    fn handle_in_transaction(&mut self, client: ClientId, request: &Request<'_>) -> Outcome;

    /// `Engine::prepare`: false means that the same must be asked again in the next turn.
    fn prepare(&mut self, request: &Request<'_>) -> bool;

    /// `Engine::hand_off`: the end of a transaction.
    fn hand_off(&mut self);

    /// Handles a reading request whose reply is an integer (`Exists`, `Len`) and returns that
    /// integer instead of writing it to anybody. Hands nothing off: it may stand in a transaction.
    fn ask(&mut self, client: ClientId, request: &Request<'_>) -> Result<i64, Error>;

    /// RESET: `client` waits for nothing and its `BOUND` leases end (`Engine::closed`).
    fn release(&mut self, client: ClientId);

    /// All connections, oldest first. What the running session knows of itself is newer than its
    /// line here; the session corrects that line.
    fn clients(&self) -> Vec<ClientLine>;

    /// Closes another connection, at once and without a reply; false if there is none. A session
    /// never asks it for itself.
    fn kill(&mut self, client: ClientId) -> bool;

    /// Releases a waiting client, with the reply of a timeout or with the error `UNBLOCKED`;
    /// false if it does not wait.
    fn unblock(&mut self, client: ClientId, how: Unblock) -> bool;

    /// All settings with their values as CONFIG GET shows them, in the order of the names.
    fn config(&self) -> Vec<(&'static str, String)>;

    /// CONFIG SET: all or none. Names are lower case and none stands there twice.
    fn config_set(&mut self, settings: &[(&str, &[u8])]) -> Result<(), ConfigError>;

    /// CONFIG REWRITE: writes the settings back to the file; the text says why not.
    fn config_rewrite(&mut self) -> Result<(), String>;

    /// CONFIG RESETSTAT.
    fn reset_stats(&mut self);

    /// INFO's text. No section named: the default ones. Names are as the client wrote them;
    /// `default`, `all` and `everything` are among them; unknown ones add nothing.
    fn info(&mut self, sections: &[&[u8]]) -> String;

    /// The newest `count` entries of the slow log, newest first.
    fn slowlog(&self, count: usize) -> Vec<SlowEntry>;

    /// How many entries the slow log holds.
    fn slowlog_len(&self) -> usize;

    /// Empties the slow log.
    fn slowlog_reset(&mut self);

    /// When the journal was last complete on disk, unix seconds (LASTSAVE).
    fn last_save_s(&self) -> u64;

    /// Bytes written to the journal since it began (ROLE).
    fn journal_offset(&self) -> u64;

    /// Begins an orderly shutdown; the text says why it is refused. On success the connections
    /// are closed by the server and SHUTDOWN has no reply.
    fn shutdown(&mut self, how: Shutdown) -> Result<(), String>;

    /// SHUTDOWN ABORT: false if none is going on.
    fn shutdown_abort(&mut self) -> bool;

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

/// Why CONFIG SET changed nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// There is no setting of that name.
    Unknown {
        /// The name.
        name: String,
    },
    /// The setting does not take that value, or cannot be changed while the server runs.
    Refused {
        /// The name.
        name: String,
        /// Why, without the name: `can't set immutable config`, `must be between 1 and 9`.
        reason: String,
    },
}

/// An entry of the slow log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowEntry {
    /// Its number, never used twice.
    pub id: u64,
    /// When the command ran, unix seconds.
    pub at_s: u64,
    /// How long it ran, µs.
    pub took_us: u64,
    /// The command, cut to 32 arguments of 128 bytes by whoever recorded it.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub name: Vec<u8>,
}
