//! WATCH: whether anything happened to a queue since it was last looked at.
//!
//! Every binding of a queue has a birth, and every change of it, be it by a fact or by falling due, a
//! version. A queue that does not exist leaves nothing to compare when it has come and gone again, so
//! as long as somebody watches its name, its comings are counted. All of it is volatile: a stamp means
//! something to the engine that gave it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::model::request::QueueName;
use crate::engine::store::{Store, place_of};
use crate::engine::{Engine, Step, Turn};
use crate::ids::{ClientId, Db, QueueNo};
use crate::time::Micros;

/// A queue as it was at some instant; nothing but comparing can be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamp(Seen);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// It did not exist, and had come so often since somebody watches it.
    Absent { comings: u64 },
    /// It existed.
    There { born: u64, version: u64 },
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::Absent { comings: 0 }
    }
}

/// The names of one database that are watched and were without a queue then. A tree, so that a million
/// of them do not stop the loop to grow.
#[derive(Debug, Default)]
pub(in crate::engine) struct Comings {
    by_name: BTreeMap<Arc<[u8]>, Coming>,
}

#[derive(Debug, Default)]
struct Coming {
    /// How many clients watch it.
    watchers: usize,
    /// How often a queue of this name came to exist since the first of them does.
    count: u64,
}

/// The names that a client watches and that were without a queue then.
pub(in crate::engine) type Absent = Vec<(Db, Arc<[u8]>)>;

impl Comings {
    /// A queue of this name has come to exist. Where nobody watches, it costs one comparison.
    pub(in crate::engine) fn note(&mut self, name: &[u8]) {
        if let Some(coming) = self.by_name.get_mut(name) {
            coming.count += 1;
        }
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn count(&self, name: &[u8]) -> u64 {
        self.by_name.get(name).map_or(0, |coming| coming.count)
    }

    /// One more client watches the name.
    fn watch(&mut self, name: &[u8]) -> Arc<[u8]> {
        let known = self.by_name.get_key_value(name).map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| name.into());
        self.by_name.entry(Arc::clone(&name)).or_default().watchers += 1;
        name
    }

    fn unwatch(&mut self, name: &Arc<[u8]>) {
        let coming = self.by_name.get_mut(name).expect("a name that is watched is listed");
        coming.watchers -= 1;
        if coming.watchers == 0 {
            self.by_name.remove(name);
        }
    }
}

/// What became of queues that were stamped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// Nothing.
    Unchanged,
    /// One of them at least has changed.
    Changed,
    /// Time has not passed in all of them: ask again in the next turn.
    Again,
}

impl Engine {
    /// The queue as it is now. What has fallen due in it is swept first, within a small budget. Until
    /// [`Engine::unwatch`] or [`Engine::closed`] the client counts as watching it.
    pub fn stamp(
        &mut self,
        now: Micros,
        client: ClientId,
        queue: QueueName<'_>,
        turn: &mut Turn<'_>,
    ) -> Stamp {
        Step { engine: self, now, client, turn, alone: true }.queue(queue);
        let stamp = self.store.stamp(queue);
        if let Stamp(Seen::Absent { .. }) = stamp {
            let name = self.store.comings_of(queue.db).watch(queue.name);
            self.absent.entry(client).or_default().push((queue.db, name));
        }
        stamp
    }

    /// `client` watches nothing any more: what it was stamped means nothing from here on.
    pub fn unwatch(&mut self, client: ClientId) {
        for (db, name) in self.absent.remove(&client).unwrap_or_default() {
            self.store.comings_of(db).unwatch(&name);
        }
    }

    /// Whether any of `queues` has changed since it was stamped. What has fallen due in them, and what
    /// leases have run out, counts: it is swept before any of them is compared. A queue that did not
    /// exist is unchanged if it has not existed in between either. Cost: as EXISTS of all of them.
    pub fn compare<'q>(
        &mut self,
        now: Micros,
        client: ClientId,
        queues: impl Iterator<Item = (QueueName<'q>, Stamp)> + Clone,
        turn: &mut Turn<'_>,
    ) -> Watched {
        for (queue, _) in queues.clone() {
            Step { engine: self, now, client, turn, alone: true }.queue(queue);
        }
        let mut swept = true;
        for (queue, stamp) in queues {
            if self.store.stamp(queue) != stamp {
                return Watched::Changed;
            }
            let number = self.store.queue_no(queue.db, queue.name);
            let wakes = number.is_some_and(|number| self.store.queue(number).wake <= now.floor());
            swept &= !wakes || !self.gate.lets_time_pass();
        }
        if swept { Watched::Unchanged } else { Watched::Again }
    }
}

impl Store {
    fn stamp(&self, name: QueueName<'_>) -> Stamp {
        let number = self.queue_no(name.db, name.name);
        let queue = number.map(|number| self.queue(number)).filter(|queue| queue.exists());
        Stamp(match queue {
            Some(queue) => Seen::There { born: queue.born, version: queue.version },
            None => Seen::Absent { comings: self.comings[usize::from(name.db.0)].count(name.name) },
        })
    }

    fn comings_of(&mut self, db: Db) -> &mut Comings {
        &mut self.comings[usize::from(db.0)]
    }

    /// The queue exists, and did not before.
    pub(in crate::engine) fn note_coming(&mut self, number: QueueNo) {
        let (db, _) = place_of(number);
        if !self.comings[db].is_empty() {
            let name = self.queue(number).name.clone();
            self.comings[db].note(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::reply::{Outbox, Reply};
    use crate::engine::{Facts, Settings};

    struct Nobody;

    impl Outbox for Nobody {
        fn reply(&mut self, _client: ClientId, _reply: Reply<'_>) {}
    }

    /// Whatever becomes of its watchers, nothing is kept of a name.
    #[test]
    fn names_are_held_for_as_long_as_somebody_watches() {
        let mut engine = Engine::new(Settings::default());
        let (mut facts, mut outbox) = (Facts::default(), Nobody);
        let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
        let (now, queue) = (Micros(1_000), QueueName { db: Db(3), name: b"q" });
        for client in [1, 2] {
            engine.stamp(now, ClientId(client), queue, turn);
            engine.stamp(now, ClientId(client), QueueName { db: Db(3), name: b"r" }, turn);
        }
        assert_eq!(engine.store.comings[3].by_name.len(), 2);
        engine.unwatch(ClientId(1));
        engine.unwatch(ClientId(1));
        assert_eq!(engine.store.comings[3].by_name[&b"q"[..]].watchers, 1);
        engine.closed(now, ClientId(2), turn);
        assert!(engine.store.comings.iter().all(Comings::is_empty) && engine.absent.is_empty());
    }
}
