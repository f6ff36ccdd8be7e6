//! One connection's state machine, from a framed command to its reply, without a socket.
//!
//! The server frames a command, calls [`Session::execute`], and does what [`AfterCommand`] says. Everything
//! a session needs besides its own few fields comes through [`World`].

pub mod acl;
pub mod client_line;
pub mod hash_slots;
pub mod kept;
pub mod standing;
pub mod world;

mod commands;
mod connection;
mod identity;
mod operator;
mod pubsub;
mod relayed;
mod transaction;
mod watching;

pub use client_line::{ClientLine, SessionFacts, SocketFacts};
pub use identity::{Denial, TakenUp, denial_text};
pub use operator::MAX_CLIENTS;
pub use standing::NodeStanding;
pub use world::World;

use crate::command::spec::action::{Action, Probe, ReplyMode, Transaction};
use crate::command::table::Face;
use crate::command::{self, CommandSpec};
use crate::engine::Outcome;
use crate::engine::model::request::{QueueName, Request};
use crate::error::{Error, Shown};
use crate::ids::{ClientId, Db};
use crate::limits::{ARGUMENTS_MAX, CLIENT_NAME_BYTES_FREE};
use crate::pubsub::SubscriptionCounts;
use crate::resp::Protocol;
use acl::Acl;
use identity::Identity;
use operator::Seat;
use std::sync::Arc;
use transaction::QueuedCommands;
use watching::Watching;
use world::{Admin, CommandEnd, Obstacles};

/// The server's actions after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterCommand {
    /// It is over: take the next one.
    Done,
    /// The client waits in line: hold back its further bytes until it is answered.
    Waiting,
    /// Nothing visible happened: call [`Session::execute`] with the same in the next turn, before
    /// anything else of this client.
    Again,
    /// Nothing happened, as clients are paused: call [`Session::execute`] with the same when they are not
    /// any more, before anything else of this client.
    Postponed,
    /// Close once what was written has left; further bytes are not read.
    CloseAfterReply,
}

/// One connection: what it chose (protocol, database, name) and the transaction it collects.
#[derive(Debug)]
pub struct Session {
    id: ClientId,
    face: Face,
    protocol: Protocol,
    db: Db,
    name: Vec<u8>,
    lib_name: Vec<u8>,
    lib_version: Vec<u8>,
    no_evict: bool,
    no_touch: bool,
    /// CLIENT REPLY: what becomes of the next command's reply.
    replies: ReplyMode,
    /// The last report to the world.
    muted: bool,
    /// CLIENT REPLY was among the commands of this call.
    replies_chosen: bool,
    /// CLIENT KILL met this connection.
    closing: bool,
    /// It was refused something, as no node that leads is known here.
    seeks_leader: bool,
    /// READONLY: it reads from followers too.
    reads_followers: bool,
    last: Option<&'static CommandSpec>,
    transaction: Option<QueuedCommands>,
    /// EXEC is running its commands.
    executing: bool,
    /// The size of a command's reply is only measured.
    measuring: bool,
    identity: Identity,
    seat: Seat,
    watching: Watching,
    /// How many channels and patterns it has subscribed to.
    subscriptions: SubscriptionCounts,
    /// It sees every command.
    monitors: bool,
    /// The engine knows it in words.
    introduced: bool,
}

/// How one command went, inside or outside of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandStep {
    Done,
    Failed,
    Waiting,
    Again,
    Postponed,
    Close,
}

/// Whether a command runs by itself or in EXEC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandPlace {
    Alone,
    InExec,
}

impl Session {
    /// A new connection on a server without passwords: RESP2, database 0, no name.
    pub fn new(id: ClientId) -> Session {
        Session::greet(id, Face::Data, &Acl::default())
    }

    /// The same, which has to say a password whatever its user needs.
    pub fn with_password(self, acl: &Acl) -> Session {
        Session { identity: Identity::new(acl, true), ..self }
    }

    /// A new connection with the commands of `face`: RESP2, database 0, no name; its user is `default`, which may have
    /// to send AUTH first.
    pub fn greet(id: ClientId, face: Face, acl: &Acl) -> Session {
        Session {
            id,
            face,
            protocol: Protocol::Resp2,
            db: Db(0),
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            no_evict: false,
            no_touch: false,
            replies: ReplyMode::On,
            muted: false,
            replies_chosen: false,
            closing: false,
            seeks_leader: false,
            reads_followers: false,
            last: None,
            transaction: None,
            executing: false,
            measuring: false,
            identity: Identity::new(acl, false),
            seat: Seat::default(),
            watching: Watching::default(),
            subscriptions: [0; 2],
            monitors: false,
            introduced: false,
        }
    }

    /// Runs one command. `args` begins with its name and is not empty. The reply, if there is one
    /// now, is in the client's output when this returns.
    pub fn execute(&mut self, args: &[&[u8]], world: &mut dyn World) -> AfterCommand {
        self.apply_muting(world);
        let skipped = self.replies == ReplyMode::Skip;
        self.replies_chosen = false;
        let step = match self.face.resolve(args) {
            Ok(spec) => self.begin(spec, args, world),
            Err(error) => self.reject_named(args, error, world),
        };
        match step {
            CommandStep::Again => return AfterCommand::Again,
            CommandStep::Postponed => return AfterCommand::Postponed,
            _ => {}
        }
        // SKIP is for one command. Its world stays muted till the next begins, as the reply of a
        // waiter comes later.
        if skipped && !self.replies_chosen {
            self.replies = ReplyMode::On;
        }
        match step {
            CommandStep::Close => AfterCommand::CloseAfterReply,
            _ if self.closing => AfterCommand::CloseAfterReply,
            CommandStep::Waiting => AfterCommand::Waiting,
            _ => AfterCommand::Done,
        }
    }

    /// Refuses a command of which an argument was too long to be kept: `args` holds it as empty.
    /// Inside MULTI the transaction is lost, as with any command refused when queued.
    pub fn refuse_oversized(
        &mut self,
        args: &[&[u8]],
        bytes: u64,
        (limit, bytes_max): (&str, u64),
        world: &mut dyn World,
    ) -> AfterCommand {
        let name = args.first().copied().unwrap_or_default();
        let error = match self.face.find(name) {
            Some(spec) => Error::text(format!(
                "ERR an argument of '{}' has {bytes} bytes; {limit} is {bytes_max}",
                spec.name
            )),
            None if name.is_empty() => Error::text(format!(
                "ERR the command's name has {bytes} bytes; {limit} is {bytes_max}"
            )),
            // It would not run with a short argument either.
            None => self.face.unknown(args),
        };
        self.refuse_unrun(args, error, world)
    }

    /// Refuses a command with too many arguments, of which only the name is looked at.
    pub fn refuse_many(
        &mut self,
        name: &[u8],
        count: usize,
        world: &mut dyn World,
    ) -> AfterCommand {
        let error = match self.face.find(name) {
            Some(spec) => Error::text(format!(
                "ERR '{}' has {count} arguments; at most {ARGUMENTS_MAX} are allowed",
                spec.name
            )),
            None => self.face.unknown(&[name]),
        };
        self.refuse_unrun(&[name], error, world)
    }

    /// The fields of CLIENT LIST.
    pub fn facts(&self) -> SessionFacts {
        SessionFacts {
            id: self.id,
            name: self.name.clone(),
            db: self.db,
            multi_count: self.transaction.as_ref().map(QueuedCommands::len),
            watched_count: self.watching.len(),
            multi_bytes: self.transaction.as_ref().map_or(0, QueuedCommands::bytes),
            command: self.last.map_or("NULL", |spec| spec.name),
            protocol: self.protocol,
            lib_name: self.lib_name.clone(),
            lib_version: self.lib_version.clone(),
            no_evict: self.no_evict,
            no_touch: self.no_touch,
            user: self.user_name().to_vec(),
            subscriptions: self.subscriptions,
            monitors: self.monitors,
        }
    }

    pub fn is_subscribed(&self) -> bool {
        self.subscriptions != [0; 2]
    }

    /// Whether it sees every command.
    pub fn is_monitor(&self) -> bool {
        self.monitors
    }

    /// Whether it was refused something, as no node that leads is known here.
    pub fn seeks_leader(&self) -> bool {
        self.seeks_leader
    }

    /// Which commands it has.
    pub fn face(&self) -> Face {
        self.face
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub fn db(&self) -> Db {
        self.db
    }

    pub fn is_executing(&self) -> bool {
        self.executing
    }

    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The name given by CLIENT SETNAME; empty for none.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Bytes held for its transaction, for what it watches and for long names.
    pub fn memory_bytes(&self) -> usize {
        let names = [&self.name, &self.lib_name, &self.lib_version].map(Vec::capacity);
        let names = names.iter().sum::<usize>().saturating_sub(CLIENT_NAME_BYTES_FREE);
        self.transaction.as_ref().map_or(0, QueuedCommands::bytes) + self.watching.bytes() + names
    }

    fn apply_muting(&mut self, world: &mut dyn World) {
        self.mute(self.replies != ReplyMode::On, world);
    }

    fn mute(&mut self, muted: bool, world: &mut dyn World) {
        if self.muted != muted {
            self.muted = muted;
            world.set_replies(self.id, self.protocol, muted);
        }
    }

    /// Refuses what is not even looked at as a command.
    fn refuse_unrun(
        &mut self,
        args: &[&[u8]],
        error: Error,
        world: &mut dyn World,
    ) -> AfterCommand {
        self.apply_muting(world);
        let error = if self.is_locked() { Error::text(identity::NO_AUTH) } else { error };
        self.reject_named(args, error, world);
        if self.replies == ReplyMode::Skip {
            self.replies = ReplyMode::On;
        }
        AfterCommand::Done
    }

    /// Refuses what cannot run: it counts for the command that it names, if it names one.
    fn reject_named(&mut self, args: &[&[u8]], error: Error, world: &mut dyn World) -> CommandStep {
        match named(self.face, args) {
            Some(spec) => self.refuse(spec, args, error, world),
            None => self.reject(args, error, world),
        }
    }

    /// A command that never ran.
    fn reject(&mut self, args: &[&[u8]], error: Error, world: &mut dyn World) -> CommandStep {
        let mut text = error.to_string();
        if args.first().is_some_and(|name| name.eq_ignore_ascii_case(b"exec")) {
            self.transaction = None;
            self.unwatch(world);
            // Clients of a Redis Cluster look for these two in the first word, and begin again elsewhere.
            if !matches!(error, Error::Moved { .. } | Error::ClusterDown(_)) {
                let why = text.strip_prefix("ERR ").unwrap_or(&text);
                text = format!("EXECABORT Transaction discarded because of: {why}");
            }
        } else if let Some(queue) = &mut self.transaction {
            queue.spoil();
        }
        self.fail(&text, world)
    }

    /// Refuses a command that is known but not allowed now.
    fn refuse(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        error: Error,
        world: &mut dyn World,
    ) -> CommandStep {
        world.began();
        let step = self.reject(args, error, world);
        world.ended(self.db, spec, args, CommandEnd::Rejected);
        step
    }

    /// Runs a command, or queues it.
    fn begin(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        world: &mut dyn World,
    ) -> CommandStep {
        self.last = Some(spec);
        if let Err(error) = self.check_seat(spec, args) {
            return self.refuse(spec, args, error, world);
        }
        if let Err(error) = self.permit(spec, args, CommandPlace::Alone, world) {
            return self.refuse(spec, args, error, world);
        }
        // Conditions that keep clients from the jobs do not concern a Sentinel.
        let obstacles = match self.face {
            Face::Data => world.obstacles(),
            Face::Sentinel => Obstacles::default(),
        };
        if obstacles.clustered
            && let Err(error) = self.check_slot(spec, args, world)
        {
            self.seeks_leader |= world.standing().is_leaderless();
            return self.refuse(spec, args, error, world);
        }
        // Also when it would only be queued, as in Redis: EXEC refuses the whole then.
        if obstacles.limited
            && let Err(error) = self.check_standing(spec, world)
        {
            self.seeks_leader |= world.standing().is_leaderless();
            return self.refuse(spec, args, error, world);
        }
        if self.is_barred(spec) {
            let text = format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                spec.name
            );
            return self.refuse(spec, args, Error::text(text), world);
        }
        if let Some(writes_only) = obstacles.paused
            && self.is_postponed(spec, writes_only)
        {
            return CommandStep::Postponed;
        }
        if self.transaction.is_some() && !transaction::runs_at_once(spec) {
            return self.enqueue(spec, args, world);
        }
        self.run(spec, args, CommandPlace::Alone, world)
    }

    /// Whether the server answers such a command just now; of EXEC, all that it would run.
    fn check_standing(&self, spec: &CommandSpec, world: &dyn World) -> Result<(), Error> {
        let standing = world.standing();
        match &self.transaction {
            Some(queue) if spec.name == "exec" => queue.check_standing(standing),
            _ => standing.check(spec),
        }
    }

    /// Whether CLIENT PAUSE keeps `spec` back.
    fn is_postponed(&self, spec: &CommandSpec, writes_only: bool) -> bool {
        if !writes_only {
            return spec.name != "client|unpause";
        }
        let queue = self.transaction.as_ref();
        transaction::writes(spec)
            || (spec.name == "exec" && queue.is_some_and(QueuedCommands::writes))
    }

    fn run(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        place: CommandPlace,
        world: &mut dyn World,
    ) -> CommandStep {
        let mut parsed = command::parse(spec, args, self.db);
        if place == CommandPlace::Alone
            && let Some(relayed) = world.relayed()
        {
            let command = transaction::Parsed { spec, args, db: self.db, action: parsed };
            parsed = match self.fit(command, relayed, world) {
                Ok(action) => action,
                Err(error) => return self.refuse(spec, args, error, world),
            };
        }
        self.run_parsed(spec, args, parsed, place, world)
    }

    // An action is large: called, it would be copied.
    #[inline(always)]
    fn run_parsed(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        parsed: Result<Action<'_>, Error>,
        place: CommandPlace,
        world: &mut dyn World,
    ) -> CommandStep {
        world.began();
        let step = match parsed {
            // Most commands by far, and a large one: it stays where it is.
            Ok(Action::Engine(ref request)) => self.ask_engine(request, place, world),
            Ok(action) => self.act((spec, args), action, place, world),
            Err(error) => self.fail(&error.to_string(), world),
        };
        let how = match step {
            CommandStep::Done | CommandStep::Close => CommandEnd::Replied,
            CommandStep::Failed => CommandEnd::Failed,
            CommandStep::Waiting => CommandEnd::Waiting,
            CommandStep::Again | CommandStep::Postponed => CommandEnd::Again,
        };
        world.ended(self.db, spec, args, how);
        step
    }

    fn act(
        &mut self,
        (spec, args): (&'static CommandSpec, &[&[u8]]),
        action: Action<'_>,
        place: CommandPlace,
        world: &mut dyn World,
    ) -> CommandStep {
        match action {
            Action::Engine(request) => self.ask_engine(&request, place, world),
            Action::AllQueues(request) => {
                // Checked again in each turn that it takes: rights may have changed meanwhile.
                let user = Arc::clone(&self.identity.user);
                let readable = user.readable(spec, args);
                self.ask_engine(&request.for_reader(readable.as_deref()), place, world)
            }
            Action::Probe(queue, probe) => self.probe(queue, probe, world),
            Action::Connection(what) => self.connection(what, world),
            Action::PubSub(what) => self.pubsub(what, place, world),
            Action::Transaction(Transaction::Multi) => self.multi(world),
            Action::Transaction(Transaction::Exec) => self.exec(world),
            Action::Transaction(Transaction::Discard) => self.discard(world),
            Action::Transaction(Transaction::Watch(names)) => self.watch(names, world),
            Action::Transaction(Transaction::Unwatch) => {
                self.unwatch(world);
                self.ok(world)
            }
            Action::Clients(what) => self.serve(Admin::Clients(what), world),
            Action::Commands(what) => self.commands(what, world),
            Action::Users(what) => self.serve(Admin::Users(what), world),
            Action::Server(what) => self.serve(Admin::Server(what), world),
        }
    }

    fn ask_engine(
        &mut self,
        request: &Request<'_>,
        place: CommandPlace,
        world: &mut dyn World,
    ) -> CommandStep {
        if !self.introduced && request.is_workers() {
            world.introduce(self.id, &self.name, [&self.lib_name, &self.lib_version]);
            self.introduced = true;
        }
        match world.handle(self.id, request, place == CommandPlace::InExec) {
            Outcome::Replied => CommandStep::Done,
            Outcome::Waiting => CommandStep::Waiting,
            Outcome::Again => CommandStep::Again,
        }
    }

    /// Answers a question about a key of any type.
    fn probe(&mut self, queue: QueueName<'_>, probe: Probe, world: &mut dyn World) -> CommandStep {
        let exists = Request::Exists { db: queue.db, queues: &[queue.name] };
        let exists = match world.ask(self.id, &exists) {
            Ok(count) => count > 0,
            Err(error) => return self.fail(&error.to_string(), world),
        };
        let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
        let mut out = world.encoder(self.id);
        match (probe, exists) {
            (Probe::Type, true) => out.simple("list"),
            (Probe::Type, false) => out.simple("none"),
            (Probe::Ttl, true) => out.integer(-1),
            (Probe::Ttl, false) => out.integer(-2),
            (Probe::Persist, _) | (Probe::OtherCount, false) => out.integer(0),
            (Probe::Encoding, true) => out.bulk(b"delayqueue"),
            (Probe::IdleTime, true) => out.integer(0),
            (Probe::RefCount, true) => out.integer(1),
            (Probe::Frequency, true) => {
                let text = "ERR An LFU maxmemory policy is not selected, access frequency not \
                            tracked. How often a queue is used is not counted.";
                return self.fail(text, world);
            }
            (Probe::OtherValue | Probe::OtherCount, true) => return self.fail(wrong_type, world),
            (Probe::OtherValue, false) => {
                let name = Shown::new(queue.name);
                let text = format!(
                    "ERR {name} is not a string: delayd has only queues; DELAY.GET queue id shows a job"
                );
                return self.fail(&text, world);
            }
            (_, false) => out.null(),
        }
        CommandStep::Done
    }

    fn fail(&mut self, text: &str, world: &mut dyn World) -> CommandStep {
        if self.measuring {
            world.encoder(self.id).error(text);
        } else {
            world.refuse(self.id, text);
        }
        CommandStep::Failed
    }

    fn ok(&mut self, world: &mut dyn World) -> CommandStep {
        world.encoder(self.id).ok();
        CommandStep::Done
    }
}

/// The command that `args` name, whether or not they can call it.
fn named(face: Face, args: &[&[u8]]) -> Option<&'static CommandSpec> {
    let name = args.first().filter(|name| !name.contains(&b'|'))?;
    let spec = face.find(name)?;
    match args.get(1) {
        Some(word) if !spec.subcommands.is_empty() => {
            let is_word = |spec: &&CommandSpec| spec.word().as_bytes().eq_ignore_ascii_case(word);
            spec.subcommands.iter().find(is_word)
        }
        _ => Some(spec),
    }
}
