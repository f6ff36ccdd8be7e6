//! What a session needs of the server around it: [`World`]. The server implements it once per turn;
//! tests script it. A session reaches sockets, clocks, the engine and other clients in no other way.

use crate::command::spec::action::Shutdown;
use crate::command::{self, CommandSpec};
use crate::engine::Outcome;
use crate::engine::decide::watch::Stamp;
use crate::engine::decide::whole::{Begun, Whole};
use crate::engine::model::request::{QueueName, Request};
use crate::error::Error;
use crate::ids::{ClientId, Db};
use crate::pubsub::PubSub;
use crate::resp::{Encoder, Protocol};
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

    /// Any number, for RANDOMKEY.
    fn random(&mut self) -> u64;

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

    /// How long these commands took, or all that ran, by name; a container stands for its subcommands.
    fn histograms(&self, _names: &[&[u8]]) -> Vec<CallTimes> {
        Vec::new()
    }

    /// MEMORY STATS: names and numbers.
    fn memory_stats(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// When the newest base became complete, unix seconds (LASTSAVE); the start when none has.
    fn last_save_s(&self) -> u64;

    /// Whether the journal is being read. Then the session refuses every command without the flag
    /// `loading`; to those that run the engine must look empty. Once false it stays false.
    fn is_loading(&self) -> bool {
        false
    }

    /// BGSAVE and BGREWRITEAOF: a base begins by the end of this turn. While one runs, or is about
    /// to begin, it is refused, or, with `schedule`, the next begins when that one is over.
    fn begin_base(&mut self, schedule: bool) -> Result<BaseBegun, BaseRefused>;

    /// SAVE: as [`World::begin_base`] with `schedule`, and `client` waits for the base that begins.
    ///
    /// On success the client counts as waiting, as after [`Outcome::Waiting`]: its further bytes are
    /// held back, and the world answers it later through its encoder. `OK` when that base is
    /// complete, an error with the cause when it fails. A base that runs already is not waited for:
    /// it may lack what the client has just changed. It waits without limit; [`World::unblock`]
    /// releases it with [`UNBLOCKED`] in either way; [`World::kill`], [`World::release`] and the end
    /// of its connection forget it, the base goes on.
    fn wait_base(&mut self, client: ClientId) -> Result<(), BaseRefused>;

    /// WAITAOF: `client` waits until everything it has changed so far, this
    /// turn included, is synced here (`local`) and on `replicas` replicas. A world may wait for what
    /// others have changed up to now, too. It has the writer sync at once, whatever `appendfsync` is.
    ///
    /// Unless that holds already, or `patience` is [`Patience::None`], the client counts as waiting, as in [`World::wait_base`]. When it
    /// comes to hold, or `patience` is over, or [`World::unblock`] releases it with
    /// `Timeout`, it gets the array `[local, replicas]` with what holds then: 1 or 0, and how many
    /// replicas have it. When the journal fails, the error [`Misconf::Failed`](crate::error::Misconf::Failed).
    fn wait_durable(
        &mut self,
        client: ClientId,
        local: bool,
        replicas: u64,
        patience: Patience,
    ) -> WaitDurable;

    /// Bytes written to the journal since it began (ROLE).
    fn journal_offset(&self) -> u64;

    /// Begins an orderly shutdown; the text says why it is refused. On success the connections
    /// are closed by the server and SHUTDOWN has no reply.
    ///
    /// What the journal was handed is synced before the process ends, in any case: `NOSAVE` does not
    /// throw it away and `NOW` does not run ahead of it. `SAVE` makes no base, as the journal holds
    /// everything. With a journal that has failed it is refused, unless `FORCE` is given.
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

/// How [`World::begin_base`] was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BaseBegun {
    /// It begins now.
    Started,
    /// It begins when the running one is over.
    Scheduled,
}

/// Why no base is begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BaseRefused {
    /// There is no journal (`appendonly no`).
    NoJournal,
    /// One is running.
    Running,
    /// The journal cannot be written; the cause.
    Failed(String),
}

/// How long WAITAOF may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Not at all: it is in a transaction.
    None,
    /// So many ms, more than 0.
    Ms(u64),
    /// Without limit.
    Endless,
}

/// What becomes of WAITAOF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitDurable {
    /// It holds, or there is no waiting.
    Now {
        /// Synced here: 1, or 0.
        local: u64,
        /// On so many replicas.
        replicas: u64,
    },
    /// The client waits.
    Waiting,
    /// `local` was asked for and there is no journal (`appendonly no`).
    NoJournal,
    /// `local` was asked for, does not hold and never will: the journal has failed; the cause.
    Failed(String),
}

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

/// How long a command's calls took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallTimes {
    /// The command.
    pub name: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// How many of the calls took up to so many us; only where that grows.
    pub up_to_us: Vec<(u64, u64)>,
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
