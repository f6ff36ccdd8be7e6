//! MULTI: commands are copied and queued, EXEC runs them as one step, to its end or not at all.

mod measure;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::command::spec::action::{Action, Connection, ServerRequest};
use crate::command::spec::{Flag, Group};
use crate::command::{self, CommandSpec};
use crate::engine::decide::transaction::{TransactionBegun, WholeTransaction};
use crate::engine::model::request::{QueueName, Request};
use crate::error::Error;
use crate::ids::Db;
use crate::limits::{TRANSACTION_ARGUMENTS_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX};
use crate::session::kept::KeptCommand;
use crate::session::world::{CommandEnd, World};
use crate::session::{CommandPlace, CommandStep, NodeStanding, Session, relayed};

/// Bytes counted for a queue that a command may create, in addition to its name.
const OPENED_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct QueuedCommands {
    commands: Vec<KeptCommand>,
    bytes: usize,
    arguments: usize,
    /// The database that SELECT among them chose.
    db: Option<Db>,
    /// Queues in which a queued command may make room, or which it may open: whether they take jobs is
    /// known when all are together.
    opened: BTreeSet<(Db, Box<[u8]>)>,
    opened_all: bool,
    /// A command was refused when it was to be queued: EXEC will refuse the whole.
    spoilt: bool,
    /// The hash slot of all its queues, if it names any and that matters.
    slot: Option<u16>,
}

/// Bytes held for a queued command.
fn cost(args: &[&[u8]]) -> usize {
    let words: usize = args.iter().map(|arg| arg.len() + size_of::<u32>()).sum();
    words + size_of::<KeptCommand>()
}

impl QueuedCommands {
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn writes(&self) -> bool {
        self.commands.iter().any(|queued| writes(queued.spec))
    }

    pub(super) fn only_reads(&self) -> bool {
        self.commands.iter().all(|queued| queued.spec.has(Flag::ReadOnly))
    }

    /// The hash slot of its queues; none if it will be refused anyway.
    pub(super) fn slot(&self) -> Option<u16> {
        self.slot.filter(|_| !self.spoilt)
    }

    pub(super) fn set_slot(&mut self, slot: u16) {
        self.slot = Some(slot);
    }

    /// Whether the server answers all of them just now.
    pub(super) fn check_standing(&self, standing: &NodeStanding) -> Result<(), Error> {
        self.commands.iter().try_for_each(|queued| standing.check(queued.spec))
    }

    /// Whether a command about to be queued would be refused now, for a lack of resources and not for its own mistake.
    /// A mistake is an error in its place in EXEC.
    fn check(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        db: Db,
        world: &dyn World,
    ) -> Result<(), Error> {
        let db = self.db.unwrap_or(db);
        if spec.name == "select" {
            if let Ok(Action::Connection(Connection::Select(chosen))) =
                command::parse(spec, args, db)
            {
                self.db = Some(chosen);
            }
            return Ok(());
        }
        if !spec.has(Flag::Write) {
            return Ok(());
        }
        if let Ok(Action::Engine(request)) = command::parse(spec, args, db) {
            if let Some(relayed) = world.relayed() {
                relayed::check_bound(&request, relayed)?;
            }
            world.check_queued(&request, !self.opens(&request))?;
            self.note_opened(&request);
        }
        Ok(())
    }

    /// Whether an earlier command may make room in all queues that `request` names.
    fn opens(&self, request: &Request<'_>) -> bool {
        let mut opens = true;
        request.for_each_queue(|queue| {
            opens &= self.opened.contains(&(queue.db, Box::from(queue.name)));
        });
        opens || self.opened_all
    }

    fn note_opened(&mut self, request: &Request<'_>) {
        if !request.may_open() {
            return;
        }
        self.opened_all |= matches!(request, Request::Flush { .. });
        request.for_each_queue(|queue: QueueName<'_>| {
            if self.opened.insert((queue.db, Box::from(queue.name))) {
                self.bytes += OPENED_BYTES + queue.name.len();
            }
        });
    }

    /// EXEC will refuse the whole.
    pub(super) fn spoil(&mut self) {
        self.spoilt = true;
        // Nothing of it will run, so nothing of it is kept.
        self.commands = Vec::new();
        self.opened = BTreeSet::new();
        self.bytes = 0;
    }
}

/// Whether CLIENT PAUSE WRITE keeps `spec` back.
pub(super) fn writes(spec: &CommandSpec) -> bool {
    spec.has(Flag::Write) || matches!(spec.name, "publish" | "spublish")
}

/// Whether `spec` runs inside MULTI instead of being queued.
pub(super) fn runs_at_once(spec: &CommandSpec) -> bool {
    (spec.group == Group::Transactions && spec.name != "unwatch")
        || matches!(spec.name, "quit" | "reset")
}

impl Session {
    pub(super) fn multi(&mut self, world: &mut dyn World) -> CommandStep {
        if self.transaction.is_some() {
            return self.fail("ERR MULTI calls can not be nested", world);
        }
        self.transaction = Some(QueuedCommands::default());
        self.ok(world)
    }

    pub(super) fn discard(&mut self, world: &mut dyn World) -> CommandStep {
        match self.transaction.take() {
            Some(_) => {
                self.unwatch(world);
                self.ok(world)
            }
            None => self.fail("ERR DISCARD without MULTI", world),
        }
    }

    pub(super) fn enqueue(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        world: &mut dyn World,
    ) -> CommandStep {
        let Some(queue) = &mut self.transaction else { return CommandStep::Failed };
        let bytes = cost(args);
        let refused = if spec.has(Flag::NoMulti) {
            Some("ERR Command not allowed inside a transaction".to_string())
        } else if queue.commands.len() >= TRANSACTION_COMMANDS_MAX {
            Some(format!("ERR a transaction holds at most {TRANSACTION_COMMANDS_MAX} commands"))
        } else if queue.bytes + bytes > TRANSACTION_BYTES_MAX {
            Some(format!("ERR a transaction holds at most {TRANSACTION_BYTES_MAX} bytes"))
        } else if queue.arguments + args.len() > TRANSACTION_ARGUMENTS_MAX {
            Some(format!("ERR a transaction holds at most {TRANSACTION_ARGUMENTS_MAX} arguments"))
        } else {
            None
        };
        if let Some(text) = refused {
            return self.refuse(spec, args, Error::text(text), world);
        }
        if !queue.spoilt
            && let Err(error) = queue.check(spec, args, self.db, world)
        {
            return self.refuse(spec, args, error, world);
        }
        let Some(queue) = &mut self.transaction else { return CommandStep::Failed };
        // Once it is spoilt the rest is answered as if queued, but not kept.
        if !queue.spoilt {
            queue.bytes += bytes;
            queue.arguments += args.len();
            queue.commands.push(KeptCommand::new(spec, args));
        }
        world.encoder(self.id).simple("QUEUED");
        CommandStep::Done
    }

    pub(super) fn exec(&mut self, world: &mut dyn World) -> CommandStep {
        let Some(queue) = self.transaction.take() else {
            return self.fail("ERR EXEC without MULTI", world);
        };
        if queue.spoilt {
            self.unwatch(world);
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return self.fail(text, world);
        }
        let step = self.exec_all(&queue, world);
        if step == CommandStep::Again {
            self.transaction = Some(queue);
        } else {
            self.unwatch(world);
        }
        step
    }

    fn exec_all(&mut self, queue: &QueuedCommands, world: &mut dyn World) -> CommandStep {
        let args: Vec<Vec<&[u8]>> =
            queue.commands.iter().map(|queued| queued.args().collect()).collect();
        let commands = parsed(queue, &args, self.db);
        match self.begin_whole(queue, &commands, world) {
            Ok(TransactionBegun::Begun(_)) => {}
            Ok(TransactionBegun::Again) => return CommandStep::Again,
            Ok(TransactionBegun::Changed) => {
                world.encoder(self.id).null_array();
                return CommandStep::Done;
            }
            Ok(TransactionBegun::Refused(error)) | Err(error) => {
                if matches!(error, Error::AnswerTooLarge { .. }) {
                    world.stop_relayed();
                }
                let mut text = error.to_string();
                if !text.starts_with("EXECABORT ") {
                    text = format!("EXECABORT Transaction discarded because of: {text}");
                }
                return self.fail(&text, world);
            }
        }
        self.unwatch(world);
        self.executing = true;
        world.encoder(self.id).array(commands.len());
        for command in commands {
            self.run_queued(command, world);
        }
        self.executing = false;
        world.end_transaction();
        CommandStep::Done
    }

    fn run_queued(&mut self, command: Parsed<'_>, world: &mut dyn World) {
        let Parsed { spec, args, db, action } = command;
        self.last = Some(spec);
        // A command before it may have changed the user.
        if let Err(error) = self.permit(spec, args, CommandPlace::InExec, world) {
            world.began();
            self.fail(&error.to_string(), world);
            return world.ended(self.db, spec, args, CommandEnd::Rejected);
        }
        if db == self.db {
            self.run_parsed(spec, args, action, CommandPlace::InExec, world);
        } else {
            // A SELECT before it was not permitted after all.
            self.run(spec, args, CommandPlace::InExec, world);
        }
    }

    /// Begins the transaction, if all its commands may run to the end.
    fn begin_whole(
        &mut self,
        queue: &QueuedCommands,
        commands: &[Parsed<'_>],
        world: &mut dyn World,
    ) -> Result<TransactionBegun, Error> {
        // Users may have changed since they were queued.
        self.executing = true;
        let permitted = commands.iter().try_for_each(|command| {
            self.permit(command.spec, command.args, CommandPlace::InExec, world)
        });
        self.executing = false;
        permitted?;
        let beside = self.measure(commands, world)?;
        let user = Arc::clone(&self.identity.user);
        let all = commands.iter().any(|of| matches!(of.action, Ok(Action::AllQueues(_))));
        let globs = if all { user.key_globs() } else { Vec::new() };
        let requests: Vec<Cow<'_, Request<'_>>> =
            commands.iter().filter_map(|command| command.request(&globs)).collect();
        let watched = self.watched();
        let answer_bytes_max = world.relayed().map_or(u64::MAX, |relayed| relayed.room_bytes);
        let whole =
            WholeTransaction { requests: &requests, watched: &watched, beside, answer_bytes_max };
        Ok(world.begin_transaction(self.id, &whole, queue.bytes()))
    }
}

/// A queued command as it will run.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    pub spec: &'static CommandSpec,
    pub args: &'a [&'a [u8]],
    /// The database in which it will.
    pub db: Db,
    pub action: Result<Action<'a>, Error>,
}

impl Parsed<'_> {
    /// Its requests to the engine, or something as costly; `globs` are all of its user's.
    pub(super) fn request<'s>(&'s self, globs: &'s [&'s [u8]]) -> Option<Cow<'s, Request<'s>>> {
        match &self.action {
            Ok(Action::Engine(request)) => Some(Cow::Borrowed(request)),
            Ok(Action::AllQueues(request)) => {
                Some(Cow::Owned(request.clone().for_reader(Some(globs))))
            }
            Ok(Action::Probe(queue, _)) => {
                let queues = std::slice::from_ref(&queue.name);
                Some(Cow::Owned(Request::Exists { db: queue.db, queues }))
            }
            Ok(Action::Server(ServerRequest::RandomQueue(db))) => {
                Some(Cow::Owned(Request::RandomQueue { db: *db, draw: 0 }))
            }
            _ => None,
        }
    }
}

/// The commands in order, each read in the database in which it will run.
fn parsed<'a>(queue: &QueuedCommands, args: &'a [Vec<&'a [u8]>], db: Db) -> Vec<Parsed<'a>> {
    let mut db = db;
    let commands = queue.commands.iter().zip(args);
    let commands = commands.map(|(queued, args)| {
        let action = command::parse(queued.spec, args, db);
        let parsed = Parsed { spec: queued.spec, args, db, action };
        if let Ok(Action::Connection(Connection::Select(chosen))) = parsed.action {
            db = chosen;
        }
        parsed
    });
    commands.collect()
}
