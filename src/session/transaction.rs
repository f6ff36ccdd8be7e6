//! MULTI: commands are copied and queued, EXEC runs them as one step.

use crate::command::action::{Action, Clients, Connection, Server, Users};
use crate::command::spec::{Flag, Group};
use crate::command::{self, CommandSpec};
use crate::engine::request::Request;
use crate::engine::watch::Watched;
use crate::error::Error;
use crate::limits::{
    INFO_COST, REWRITE_COST, TRANSACTION_ARGUMENTS_MAX, TRANSACTION_BYTES_MAX,
    TRANSACTION_COMMANDS_MAX, TRANSACTION_COST_MAX, TRANSACTION_REPLY_BYTES_MAX,
};
use crate::session::world::{Ended, World};
use crate::session::{Place, Session, Step};

/// The commands of one transaction.
#[derive(Debug, Default)]
pub(super) struct Queue {
    commands: Vec<Queued>,
    bytes: usize,
    arguments: usize,
    /// A command was refused when it was to be queued: EXEC will refuse the whole.
    spoilt: bool,
}

/// One queued command: its words one behind another, and where each ends.
#[derive(Debug)]
struct Queued {
    spec: &'static CommandSpec,
    words: Box<[u8]>,
    ends: Box<[u32]>,
}

impl Queued {
    fn copy(spec: &'static CommandSpec, args: &[&[u8]]) -> Queued {
        let words = args.concat().into_boxed_slice();
        let mut end = 0;
        // A transaction's bytes are limited far below 2^32.
        let ends = args.iter().map(|arg| {
            end += arg.len() as u32;
            end
        });
        Queued { spec, ends: ends.collect(), words }
    }

    fn args(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(&0).chain(self.ends.iter());
        let spans = starts.zip(self.ends.iter());
        spans.map(|(start, end)| &self.words[*start as usize..*end as usize]).collect()
    }

    /// What is held for it, bytes.
    fn cost(args: &[&[u8]]) -> usize {
        let words: usize = args.iter().map(|arg| arg.len() + size_of::<u32>()).sum();
        words + size_of::<Queued>()
    }
}

impl Queue {
    /// How many commands.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Bytes held for them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether one of them writes, or publishes.
    pub(super) fn writes(&self) -> bool {
        self.commands.iter().any(|queued| writes(queued.spec))
    }

    /// EXEC will refuse the whole.
    pub(super) fn spoil(&mut self) {
        self.spoilt = true;
        // Nothing of it will run, so nothing of it is kept.
        self.commands = Vec::new();
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
    pub(super) fn multi(&mut self, world: &mut dyn World) -> Step {
        if self.transaction.is_some() {
            return self.fail("ERR MULTI calls can not be nested", world);
        }
        self.transaction = Some(Queue::default());
        self.ok(world)
    }

    pub(super) fn discard(&mut self, world: &mut dyn World) -> Step {
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
    ) -> Step {
        let Some(queue) = &mut self.transaction else { return Step::Failed };
        let bytes = Queued::cost(args);
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
        // Once it is spoilt the rest is answered as if queued, but not kept.
        if !queue.spoilt {
            queue.bytes += bytes;
            queue.arguments += args.len();
            queue.commands.push(Queued::copy(spec, args));
        }
        world.encoder(self.id).simple("QUEUED");
        Step::Done
    }

    pub(super) fn exec(&mut self, world: &mut dyn World) -> Step {
        let Some(queue) = self.transaction.take() else {
            return self.fail("ERR EXEC without MULTI", world);
        };
        if queue.spoilt {
            self.unwatch(world);
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return self.fail(text, world);
        }
        let cost = self.cost(&queue, world);
        if cost > TRANSACTION_COST_MAX {
            self.unwatch(world);
            let text = format!(
                "EXECABORT Transaction discarded because its commands may look at or take {cost} \
                 entries together; the most are {TRANSACTION_COST_MAX}"
            );
            return self.fail(&text, world);
        }
        // Compared in the turn in which it runs, since preparing may take several.
        let watched = match self.prepared(&queue, world) {
            true => self.look_at_watched(world),
            false => Watched::Again,
        };
        if watched == Watched::Again {
            self.transaction = Some(queue);
            return Step::Again;
        }
        self.unwatch(world);
        if watched == Watched::Changed {
            world.encoder(self.id).null_array();
            return Step::Done;
        }
        let before = world.replied_bytes(self.id);
        self.executing = true;
        world.encoder(self.id).array(queue.commands.len());
        for queued in &queue.commands {
            if world.replied_bytes(self.id) - before > TRANSACTION_REPLY_BYTES_MAX {
                self.skip(queued, world);
                continue;
            }
            self.last = Some(queued.spec);
            let args = queued.args();
            // Users may have changed since it was queued, or by a command before it.
            match self.permit(queued.spec, &args, Place::InExec, world) {
                Ok(()) => drop(self.run(queued.spec, &args, Place::InExec, world)),
                Err(error) => self.refuse_queued(queued, &error.to_string(), world),
            }
        }
        self.executing = false;
        world.hand_off();
        Step::Done
    }

    /// Refuses a command of a transaction whose replies are too large already.
    fn skip(&mut self, queued: &Queued, world: &mut dyn World) {
        let text = format!(
            "ERR not run: the replies of this transaction have more than \
             {TRANSACTION_REPLY_BYTES_MAX} bytes"
        );
        self.refuse_queued(queued, &text, world);
    }

    fn refuse_queued(&mut self, queued: &Queued, text: &str, world: &mut dyn World) {
        world.began(self.id, queued.spec);
        self.fail(text, world);
        world.ended(self.id, queued.spec, &queued.args(), Ended::Rejected);
    }

    /// How many entries the commands may look at or take, all together.
    fn cost(&self, queue: &Queue, world: &dyn World) -> u64 {
        let mut cost = 0;
        self.all_actions(queue, |action| {
            cost += match action {
                Action::Engine(request) => world.cost(request),
                Action::Clients(
                    Clients::Unblock { .. } | Clients::Pause { .. } | Clients::Unpause,
                ) => 1,
                Action::Clients(_) | Action::Connection(Connection::Info) => world.client_count(),
                Action::Server(Server::RandomQueue(db)) => {
                    world.cost(&Request::RandomQueue { db: *db, draw: 0 })
                }
                Action::Server(Server::Info(_)) => INFO_COST,
                // Every connection takes its user up anew.
                Action::Server(Server::ConfigSet(_)) => INFO_COST + world.client_count(),
                Action::Users(Users::Set { .. } | Users::Delete(_)) => world.client_count(),
                Action::Server(Server::ConfigRewrite)
                | Action::Users(Users::Load | Users::Save) => REWRITE_COST,
                Action::PubSub(what) => world.pubsub_cost(what),
                _ => 1,
            };
            true
        });
        cost
    }

    /// Whether every request of the transaction can be answered in one go. All are asked in the
    /// same turn, as what one needs may come back while another is prepared in a later turn.
    fn prepared(&self, queue: &Queue, world: &mut dyn World) -> bool {
        self.all_actions(queue, |action| match action {
            Action::Engine(request) => world.prepare(request),
            _ => true,
        })
    }

    /// Whether `holds` for every command that can be read, each in the database it will run in.
    fn all_actions(&self, queue: &Queue, mut holds: impl FnMut(&Action<'_>) -> bool) -> bool {
        let mut db = self.db;
        queue.commands.iter().all(|queued| {
            let args = queued.args();
            let Ok(action) = command::parse(queued.spec, &args, db) else { return true };
            if let Action::Connection(Connection::Select(chosen)) = action {
                db = chosen;
            }
            holds(&action)
        })
    }
}
