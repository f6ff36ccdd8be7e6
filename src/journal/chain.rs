//! What the next batch of the log must be.

use crate::ids::Index;
use crate::journal::record::Head;
use crate::time::Micros;

/// What the next batch must be, known from those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chain {
    pub next: Index,
    /// The sequence of its first fact; nothing if no batch before it is known.
    pub first: Option<u64>,
    /// Its epoch is not below this one.
    pub epoch: u64,
    /// The time of the batch before; 0 if there is none.
    pub now: Micros,
}

impl Chain {
    /// Before the batch of this index, with nothing known of the one before.
    pub fn before(next: Index) -> Chain {
        Chain { next, first: None, epoch: 0, now: Micros(0) }
    }

    /// Whether a batch is the one that follows.
    pub fn fits(&self, index: Index, epoch: u64, first: u64) -> bool {
        index == self.next
            && epoch >= self.epoch.max(1)
            && self.first.is_none_or(|expected| expected == first)
    }

    /// The batch follows.
    pub fn advance(&mut self, head: &Head) {
        self.next = head.index.next();
        self.first = Some(head.first.saturating_add(u64::from(head.count)));
        self.epoch = head.epoch;
        self.now = head.now;
    }

    /// The last batch; 0 if there is none.
    pub fn last(&self) -> Index {
        Index(self.next.0.saturating_sub(1))
    }
}
