//! A session's access to the server around it: [`World`], which the server implements once per turn. A session reaches
//! sockets, clocks, the engine and other clients in no other way.

use crate::command::CommandSpec;
use crate::command::spec::action::{Action, Clients, ServerRequest, Users};
use crate::engine::Outcome;
use crate::engine::decide::transaction::{TransactionBegun, WholeTransaction};
use crate::engine::decide::watch::Stamp;
use crate::engine::model::request::{QueueName, Request};
use crate::error::Error;
use crate::ids::{ClientId, Db};
use crate::pubsub::PubSub;
use crate::resp::{Encoder, Protocol};
use crate::session::acl::Acl;
use crate::session::acl::log::{Context, Reason};
use crate::session::hash_slots::Owner;
use crate::session::{CommandStep, NodeStanding, Session};

/// The server as one session sees it during one command.
pub trait World {
    /// Writes to `client`'s own output, in its protocol, after its present content. A muted
    /// client's encoder discards everything.
    fn encoder(&mut self, client: ClientId) -> Encoder<'_>;

    /// How `client` is answered from here on: everything it is sent is in `protocol`, and while muted (`CLIENT
    /// REPLY OFF` and `SKIP`) replies are thrown away, the engine's too, and a waiter's late one; messages of
    /// channels are not. Called only when one of the two changes.
    fn set_replies(&mut self, client: ClientId, protocol: Protocol, muted: bool);

    /// Answers `client` with an error and counts it; `text` begins with its class. The engine's errors
    /// pass the server's outbox and are counted there.
    fn refuse(&mut self, client: ClientId, text: &str);

    /// `Engine::handle`, or, in EXEC, `Engine::handle_in_transaction`; the reply goes to the client's output by
    /// way of the server's outbox.
    fn handle(&mut self, client: ClientId, request: &Request<'_>, in_exec: bool) -> Outcome;

    /// `Engine::introduce`: `client`, which is the running one, has this name, and a library with this name and version.
    fn introduce(&mut self, client: ClientId, name: &[u8], library: [&[u8]; 2]);

    /// `Engine::stamp`: the queue as it is now. `client` watches it from here on.
    fn watch(&mut self, client: ClientId, queue: QueueName<'_>) -> Stamp;

    /// `Engine::unwatch`: `client` watches nothing any more.
    fn unwatch(&mut self, client: ClientId);

    /// `Engine::begin_transaction`. `freed_bytes` are what its queued commands took, which are free once it
    /// is over: as many more may its replies and unsent jobs take without the client being closed for it.
    fn begin_transaction(
        &mut self,
        client: ClientId,
        whole: &WholeTransaction<'_>,
        freed_bytes: usize,
    ) -> TransactionBegun;

    /// How many bytes may be sent to the running client, and how long its command may wait; none where nothing is
    /// between it and its replies.
    fn relayed(&self) -> Option<Relayed>;

    /// No further command of the running client is run until its next request.
    fn stop_relayed(&mut self);

    /// `Engine::answer_bytes_max`.
    fn answer_bytes_max(&mut self, client: ClientId, request: &Request<'_>) -> u64;

    /// `Engine::check_queued`: whether a request about to be queued would be refused now.
    fn check_queued(&self, request: &Request<'_>, limits: bool) -> Result<(), Error>;

    /// Bytes of replies written to `client` so far, those thrown away included; only differences
    /// within a transaction mean anything.
    fn replied_bytes(&self, client: ClientId) -> u64;

    /// `Engine::end_transaction`.
    fn end_transaction(&mut self);

    /// Handles a reading request whose reply is an integer (`Exists`, `Len`) and returns that
    /// integer instead of writing it to a client. Hands nothing off: it may be used in a
    /// transaction.
    fn ask(&mut self, client: ClientId, request: &Request<'_>) -> Result<i64, Error>;

    /// RESET: `client` waits for nothing and its `BOUND` leases end (`Engine::closed`).
    fn release(&mut self, client: ClientId);

    /// Channels. Messages leave no earlier than the replies to the running client's earlier commands.
    fn pubsub(&mut self) -> &mut PubSub;

    /// How many entries a command may look at that does not ask the engine.
    fn cost(&self, action: &Action<'_>) -> u64;

    /// All users, the log of what was denied and the counts of it.
    fn acl(&mut self) -> &mut Acl;

    /// Notes in ACL LOG that `asker` was denied something as `user`, and in the server's log that it guessed.
    fn note_denial(
        &mut self,
        asker: &Session,
        denied: (Reason, &[u8]),
        context: Context,
        user: &[u8],
    );

    /// Does what a command asks of the server, and writes its reply to `asker`'s output. An error's text, which
    /// begins with its class, is left to the session.
    fn serve(&mut self, asker: &Session, what: Admin<'_>) -> Result<Served, String>;

    /// The condition that keeps commands from running just now.
    fn obstacles(&self) -> Obstacles;

    /// The server's current role for its clients.
    fn standing(&self) -> &NodeStanding;

    /// Where the queues of a hash slot are decided on, for the running client.
    fn owner(&self, slot: u16) -> Owner;

    /// Whether it is a node of a cluster that another one decides for.
    fn is_replica(&self) -> bool;

    /// A command is about to run; also each command of a transaction when EXEC comes to it, and
    /// again when it comes back after [`Next::Again`](super::AfterCommand::Again).
    fn began(&mut self);

    /// The command of the last [`World::began`] is over, and the client is in `db`. For counters, the slow
    /// log, and those that see every command; `args` begins with the command's name. A password is among
    /// them only in AUTH and HELLO.
    fn ended(&mut self, db: Db, spec: &'static CommandSpec, args: &[&[u8]], how: CommandEnd);
}

/// The terms of a client that is answered through the console.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relayed {
    /// Bytes that its next command may answer.
    pub room_bytes: u64,
    /// How long that command may wait, ms.
    pub wait_ms: Option<u64>,
    /// Its connection ends with the answers to its request.
    pub is_request: bool,
}

/// The condition that keeps commands from running.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Obstacles {
    /// Not every command is served: [`World::standing`] says which. While the server loads, the engine must look
    /// empty to those that are.
    pub limited: bool,
    /// `cluster-enabled yes`: [`World::owner`] says where queues are answered for.
    pub clustered: bool,
    /// The process has several partitions.
    pub spread: bool,
    /// Clients are paused, and then whether only commands that write are kept back.
    pub paused: Option<bool>,
}

/// How a command ended, for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandEnd {
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

/// The error for a client that `CLIENT UNBLOCK id ERROR` released.
pub const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// The error a client gets that waits when its server stops to decide.
pub const DEMOTED: &str = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> \
    replica?)";

/// A command about the server, or about other clients.
#[derive(Clone, Debug)]
pub enum Admin<'a> {
    Clients(Clients<'a>),
    OwnLine,
    Server(ServerRequest<'a>),
    Users(Users<'a>),
}

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
    /// The reply is written, and users may have changed: the session takes up its own.
    UsersChanged,
    /// The reply is written, but CLIENT KILL hit the client itself, which reads it first.
    Killed,
}

// A command's requests to the server as a whole.

impl Session {
    pub(super) fn serve(&mut self, what: Admin<'_>, world: &mut dyn World) -> CommandStep {
        match world.serve(self, what) {
            Ok(Served::Done) => CommandStep::Done,
            Ok(Served::Waiting) => CommandStep::Waiting,
            Ok(Served::Again) => CommandStep::Again,
            Ok(Served::UsersChanged) => {
                self.take_up_own(world);
                CommandStep::Done
            }
            Ok(Served::Killed) => {
                self.closing = true;
                CommandStep::Done
            }
            Err(text) => self.fail(&text, world),
        }
    }
}
