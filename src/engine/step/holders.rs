//! Clients in words: those that take or acknowledge jobs, and for a while those of them that are gone.
//!
//! A lease has the number of its client ([`Job::holder`]); the words for it are here. Many short connections, such as
//! those of a pool or of HTTP, share them. All of it is volatile.
//!
//! [`Job::holder`]: crate::engine::store::jobs::Job::holder

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use ahash::RandomState;

use crate::engine::model::holder::{Holder, LastUse};
use crate::engine::store::queue::Use;
use crate::ids::ClientId;
use crate::limits::HOLDERS_GONE_MAX;

#[derive(Debug)]
pub struct Holders {
    by_client: HashMap<u32, Known, RandomState>,
    words: HashSet<Arc<Holder>, RandomState>,
    /// Clients that are gone, in that order; some may have come again (RESET).
    gone: VecDeque<u32>,
}

#[derive(Debug)]
struct Known {
    holder: Arc<Holder>,
    is_gone: bool,
}

/// A client's number, as jobs and queues keep it: 4 billion connections later it may be another one's.
pub fn number_of(client: ClientId) -> u32 {
    client.0 as u32
}

impl Holders {
    pub fn new(hasher: RandomState) -> Holders {
        let by_client = HashMap::with_hasher(hasher.clone());
        Holders { by_client, words: HashSet::with_hasher(hasher), gone: VecDeque::new() }
    }

    /// `client` is this from here on.
    pub fn introduce(&mut self, client: ClientId, holder: Holder) {
        let holder = self.words.get(&holder).map_or_else(|| Arc::new(holder), Arc::clone);
        self.words.insert(Arc::clone(&holder));
        let known = Known { holder, is_gone: false };
        let before = self.by_client.insert(number_of(client), known);
        before.into_iter().for_each(|known| self.release(known));
    }

    /// The client's connection is gone. It is known until so many others are gone, too.
    pub fn leave(&mut self, client: ClientId) {
        let number = number_of(client);
        let Some(known) = self.by_client.get_mut(&number) else { return };
        if !std::mem::replace(&mut known.is_gone, true) {
            self.gone.push_back(number);
        }
        if self.gone.len() > HOLDERS_GONE_MAX
            && let Some(oldest) = self.gone.pop_front()
            && self.by_client.get(&oldest).is_some_and(|known| known.is_gone)
        {
            let known = self.by_client.remove(&oldest);
            known.into_iter().for_each(|known| self.release(known));
        }
    }

    pub fn get(&self, number: u32) -> Option<&Holder> {
        self.by_client.get(&number).map(|known| &*known.holder)
    }

    pub fn shown(&self, last: Use) -> Option<LastUse> {
        let by = self.get(last.client).map(|holder| holder.short().into());
        last.at().map(|at| LastUse { at, by })
    }

    /// Forgets words that no client has any more.
    fn release(&mut self, known: Known) {
        // This one, and that of the set.
        if Arc::strong_count(&known.holder) == 2 {
            self.words.remove(&known.holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder::new(b"10.0.0.1", name.as_bytes(), [b"", b""])
    }

    fn holders() -> Holders {
        Holders::new(RandomState::with_seeds(1, 2, 3, 4))
    }

    #[test]
    fn clients_that_are_gone_are_known_until_many_others_are() {
        let mut holders = holders();
        for client in 1..=HOLDERS_GONE_MAX as u64 + 1 {
            holders.introduce(ClientId(client), holder(&format!("w{client}")));
            holders.leave(ClientId(client));
        }
        assert_eq!(holders.get(1), None);
        assert_eq!(holders.get(2), Some(&holder("w2")));
        let known = [holders.by_client.len(), holders.words.len(), holders.gone.len()];
        assert_eq!(known, [HOLDERS_GONE_MAX; 3]);
    }

    #[test]
    fn clients_with_the_same_words_share_them_and_the_last_takes_them_along() {
        let mut holders = holders();
        (1..=3).for_each(|client| holders.introduce(ClientId(client), holder("pool")));
        assert_eq!(holders.words.len(), 1);
        holders.introduce(ClientId(1), holder("other"));
        holders.introduce(ClientId(2), holder("other"));
        assert_eq!(holders.words.len(), 2);
        holders.introduce(ClientId(3), holder("other"));
        assert_eq!((holders.words.len(), holders.get(3)), (1, Some(&holder("other"))));
    }

    #[test]
    fn a_client_that_comes_again_is_not_forgotten_with_those_that_are_gone() {
        let mut holders = holders();
        holders.introduce(ClientId(1), holder("reset"));
        holders.leave(ClientId(1));
        holders.introduce(ClientId(1), holder("reset"));
        for client in 2..=HOLDERS_GONE_MAX as u64 + 2 {
            holders.introduce(ClientId(client), holder("w"));
            holders.leave(ClientId(client));
        }
        assert_eq!(holders.get(1), Some(&holder("reset")));
    }
}
