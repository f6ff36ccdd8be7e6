//! WATCH: a change of these queues makes the next EXEC do nothing.

use std::collections::BTreeMap;

use crate::engine::decide::watch::Stamp;
use crate::engine::model::request::QueueName;
use crate::hash_slot::hash_slot;
use crate::ids::Db;
use crate::limits::WATCHED_MAX;
use crate::session::world::World;
use crate::session::{CommandStep, Session};

/// Bytes counted for a watched queue, in addition to its name here and, if it did not exist, in the
/// engine.
const WATCHED_BYTES: usize = 256;

/// The queues that a connection watches, as they were then.
#[derive(Debug, Default)]
pub(super) struct Watching {
    queues: BTreeMap<(Db, Box<[u8]>), Stamp>,
    bytes: usize,
}

impl Watching {
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The hash slot of the first of them.
    pub(super) fn slot(&self) -> Option<u16> {
        self.queues.keys().next().map(|(_, name)| hash_slot(name))
    }
}

impl Session {
    pub(super) fn watch(&mut self, names: &[&[u8]], world: &mut dyn World) -> CommandStep {
        if self.transaction.is_some() {
            return self.fail("ERR WATCH inside MULTI is not allowed", world);
        }
        let watching = &self.watching.queues;
        let fresh = |name: &&&[u8]| !watching.contains_key(&(self.db, Box::from(**name)));
        let count = watching.len() + names.iter().filter(fresh).count();
        if count > WATCHED_MAX {
            let text =
                format!("ERR a connection can watch at most {WATCHED_MAX} queues, not {count}");
            return self.fail(&text, world);
        }
        for name in names {
            let key = (self.db, Box::from(*name));
            // Watched twice, it is compared with how it was the first time.
            if !self.watching.queues.contains_key(&key) {
                let stamp = world.watch(self.id, QueueName { db: self.db, name });
                self.watching.queues.insert(key, stamp);
                self.watching.bytes += WATCHED_BYTES + 2 * name.len();
            }
        }
        self.ok(world)
    }

    pub(super) fn unwatch(&mut self, world: &mut dyn World) {
        if self.watching.len() > 0 {
            self.watching = Watching::default();
            world.unwatch(self.id);
        }
    }

    pub(super) fn watched(&self) -> Vec<(QueueName<'_>, Stamp)> {
        let queues = self.watching.queues.iter();
        queues.map(|((db, name), stamp)| (QueueName { db: *db, name }, *stamp)).collect()
    }
}
