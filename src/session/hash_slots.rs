//! Which node answers for a queue, for clients of a Redis Cluster: with `cluster-enabled yes` a command on a queue of
//! another node is answered with that node's address, and changes nothing.
//!
//! ```text
//! keys of two slots                                      CROSSSLOT
//! another partition                                      MOVED, to its leader; CLUSTERDOWN if none is known
//! this node decides                                      goes on
//! it loads, or the cluster forms                         CLUSTERDOWN, with what is waited for
//! READONLY was said, and the command only reads          goes on, as on a follower without this
//! another node leads                                     MOVED
//! none is known to lead                                  CLUSTERDOWN
//! ```
//!
//! CLUSTERDOWN is what these clients try again on. They hand LOADING and MASTERDOWN, which are said to others, to their
//! callers.

use crate::command::spec::Flag;
use crate::command::{self, CommandSpec};
use crate::error::Error;
use crate::hash_slot::hash_slot;
use crate::ids::Db;
use crate::session::world::World;
use crate::session::{Session, transaction};

/// The answer to those who ask for slots where they are off. It begins as Redis's does, by which clients know it.
pub const OFF: &str =
    "ERR This instance has cluster support disabled: cluster-enabled is no; see docs/spread.md";

const NO_SELECT: &str = "ERR SELECT is not allowed in cluster mode";

const NOT_SERVED: &str = "Hash slot not served";

const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// Where queues are decided on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owner {
    Here,
    /// On another node: `host:port` for the client that asked.
    Elsewhere(String),
    /// None is known to decide.
    Unknown,
    /// In another partition: `host:port` of its leader, if one is known.
    Foreign(Option<String>),
    /// This node cannot know yet, or nothing is decided yet, for this reason.
    NotYet(String),
}

impl Session {
    /// Whether this node answers a command on the queues that `args` name; of EXEC, on those of all that it would run.
    /// In MULTI, and after WATCH, all queues are of one slot. A command without queues is answered here, and so is one
    /// whose queues cannot be found, by its parser. There is only database 0. A client of the console is not sent to
    /// another node, since its browser could not go there. Cost: a hash of each name.
    ///
    /// # Errors
    /// See the module.
    pub(super) fn check_slot(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        world: &dyn World,
    ) -> Result<(), Error> {
        if spec.name == "select" && args.get(1).is_some_and(|index| *index != b"0") {
            return Err(Error::text(NO_SELECT));
        }
        let is_relayed = world.relayed().is_some();
        if is_relayed && !world.obstacles().spread {
            return Ok(());
        }
        let is_exec = spec.name == "exec";
        let earlier = match &self.transaction {
            Some(queue) => queue.slot().or(self.watching.slot()),
            None if spec.name == "watch" => self.watching.slot(),
            None => None,
        };
        let own = if is_exec { None } else { slot_of(spec, args, self.db)? };
        let Some(slot) = own.or(earlier.filter(|_| is_exec)) else { return Ok(()) };
        if earlier.is_some_and(|earlier| earlier != slot) {
            return Err(Error::text(CROSS_SLOT));
        }
        let only_reads = match &self.transaction {
            Some(queue) if is_exec => queue.only_reads(),
            _ => spec.has(Flag::ReadOnly) || spec.name == "watch",
        };
        match world.owner(slot) {
            Owner::Here => {}
            Owner::Foreign(Some(address)) => return Err(Error::Moved { slot, address }),
            Owner::Foreign(None) => return Err(Error::ClusterDown(NOT_SERVED.to_owned())),
            _ if is_relayed => {}
            Owner::NotYet(why) => return Err(Error::ClusterDown(why)),
            Owner::Elsewhere(_) | Owner::Unknown if self.reads_followers && only_reads => {}
            Owner::Elsewhere(address) => return Err(Error::Moved { slot, address }),
            Owner::Unknown => return Err(Error::ClusterDown(NOT_SERVED.to_owned())),
        }
        if let Some(queue) = &mut self.transaction
            && !transaction::runs_at_once(spec)
        {
            queue.set_slot(slot);
        }
        Ok(())
    }
}

/// The slot of the queues that a command names; none if it names none.
fn slot_of(spec: &'static CommandSpec, args: &[&[u8]], db: Db) -> Result<Option<u16>, Error> {
    // A queue may come before options that have two words or four.
    let has_queue =
        matches!(spec.name, "delay.busy" | "delay.history") && args.len().is_multiple_of(2);
    let keys = if has_queue { Some(1..2) } else { spec.find_keys(args) };
    let Some(keys) = keys else { return Ok(None) };
    if keys.is_empty() {
        // The parser's error is answered here, whichever node leads.
        return command::parse(spec, args, db).map(|_| None);
    }
    let mut slots = args[keys].iter().map(|name| hash_slot(name));
    let first = slots.next();
    match slots.all(|slot| Some(slot) == first) {
        true => Ok(first),
        false => Err(Error::text(CROSS_SLOT)),
    }
}
