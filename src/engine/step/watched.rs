//! Names that are watched and were without a queue when that began. A queue that does not exist leaves
//! nothing to compare when it has come and gone again, so its comings are counted.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;

use crate::engine::model::fact::Fact;
use crate::engine::store::Store;
use crate::engine::store::queue::Queue;
use crate::ids::{ClientId, DATABASES, Db, QueueNo};

#[derive(Debug)]
pub struct Watched {
    comings: [Comings; DATABASES as usize],
    /// The names that a client watches.
    by_client: HashMap<ClientId, WatchedNames, RandomState>,
}

type WatchedNames = Vec<(Db, Arc<[u8]>)>;

/// The names of one database. A tree, so that a million of them do not stop the loop to grow.
type Comings = BTreeMap<Arc<[u8]>, Coming>;

#[derive(Debug, Default)]
struct Coming {
    watchers: usize,
    /// How often a queue of this name came to exist since the first of them does.
    count: u64,
}

impl Watched {
    pub fn new(hasher: RandomState) -> Watched {
        Watched { comings: Default::default(), by_client: HashMap::with_hasher(hasher) }
    }

    pub fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// How often the queue was created since it is watched.
    pub fn count(&self, db: Db, name: &[u8]) -> u64 {
        self.comings[usize::from(db.0)].get(name).map_or(0, |coming| coming.count)
    }

    pub fn watch(&mut self, client: ClientId, db: Db, name: &[u8]) {
        let comings = &mut self.comings[usize::from(db.0)];
        let known = comings.get_key_value(name).map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| name.into());
        comings.entry(Arc::clone(&name)).or_default().watchers += 1;
        self.by_client.entry(client).or_default().push((db, name));
    }

    /// The client watches nothing any more.
    pub fn unwatch(&mut self, client: ClientId) {
        for (db, name) in self.by_client.remove(&client).unwrap_or_default() {
            let comings = &mut self.comings[usize::from(db.0)];
            let coming = comings.get_mut(&name).expect("a name that is watched is listed");
            coming.watchers -= 1;
            if coming.watchers == 0 {
                comings.remove(&name);
            }
        }
    }

    /// A queue that did not exist under its name may exist now.
    pub fn note(&mut self, store: &Store, number: QueueNo) {
        let queue = store.queue(number);
        let coming = self.comings[usize::from(queue.db.0)].get_mut(&*queue.name);
        if let Some(coming) = coming.filter(|_| queue.exists()) {
            coming.count += 1;
        }
    }
}

/// The queue that may come to exist by a fact that is about to be applied.
pub fn comes(store: &Store, fact: &Fact<'_>) -> Option<QueueNo> {
    let renamed = matches!(fact, Fact::Renamed { .. });
    let exists = |number: &QueueNo| store.bound_queue(*number).is_some_and(Queue::exists);
    fact.queue().filter(|number| renamed || !exists(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever becomes of its watchers, nothing is kept of a name.
    #[test]
    fn names_are_held_for_as_long_as_somebody_watches() {
        let mut watched = Watched::new(RandomState::with_seed(1));
        for client in [1, 2] {
            watched.watch(ClientId(client), Db(3), b"q");
            watched.watch(ClientId(client), Db(3), b"r");
        }
        assert_eq!(watched.comings[3].len(), 2);
        watched.unwatch(ClientId(1));
        watched.unwatch(ClientId(1));
        assert_eq!(watched.comings[3][&b"q"[..]].watchers, 1);
        watched.unwatch(ClientId(2));
        assert!(watched.comings.iter().all(BTreeMap::is_empty) && watched.is_empty());
    }
}
