//! What the next record of the log must be, and what the log knows beside its batches.

use crate::ids::Index;
use crate::journal::record::{Head, Kind};
use crate::journal::state::{Identity, Members, Position, State, Vote};
use crate::limits::{MEMBERS_BYTES_MAX, MEMBERS_PENDING_MAX};
use crate::time::Micros;

/// What the next record must be, known from those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chain {
    /// The `lsn` of the next record.
    pub lsn: u64,
    /// The index of the next batch.
    pub next: Index,
    /// The sequence of its first fact; nothing if no batch before it is known.
    pub first: Option<u64>,
    /// Its epoch is not below this one.
    pub epoch: u64,
    /// The time of the batch before; 0 if there is none.
    pub now: Micros,
    /// The newest batch known committed.
    pub committed: Index,
}

impl Chain {
    /// Before record `lsn`, behind the batch of this position.
    pub fn behind(lsn: u64, last: Position) -> Chain {
        let (next, epoch, committed) = (last.index.next(), last.epoch, Index(0));
        let first = (last.first > 0).then_some(last.first);
        Chain { lsn, next, first, epoch, now: Micros(0), committed }
    }

    /// Whether a batch is the one that follows.
    pub fn fits(&self, index: Index, epoch: u64, first: u64) -> bool {
        index == self.next
            && epoch >= self.epoch.max(1)
            && self.first.is_none_or(|expected| expected == first)
    }

    /// Whether a record is the one that follows, as far as its head tells.
    pub fn follows(&self, head: &Head) -> bool {
        let committed = head.committed >= self.committed;
        let follows = match head.kind {
            Kind::Images => false,
            kind if kind.is_batch() => {
                self.fits(head.index, head.epoch, head.first)
                    && (kind == Kind::Facts || head.count == 0)
            }
            Kind::Cut => head.index < self.next && head.first > 0,
            _ => {
                head.index == self.last()
                    && (head.first == 0 || self.first.is_none_or(|first| first == head.first))
            }
        };
        head.lsn == self.lsn && committed && head.committed <= self.last_with(head) && follows
    }

    /// Whether a record would make void what an earlier one called committed.
    pub fn is_broken_by(&self, head: &Head) -> bool {
        head.lsn == self.lsn && head.kind == Kind::Cut && head.index < self.committed
    }

    /// The record follows.
    pub fn advance(&mut self, head: &Head) {
        self.lsn = head.lsn + 1;
        self.committed = self.committed.max(head.committed);
        match head.kind {
            Kind::Cut => {
                (self.next, self.epoch) = (head.index.next(), head.epoch);
                (self.first, self.now) = (Some(head.first), head.now);
            }
            kind if kind.is_batch() => {
                self.next = head.index.next();
                self.first = Some(head.first.saturating_add(u64::from(head.count)));
                (self.epoch, self.now) = (head.epoch, head.now);
            }
            _ => {}
        }
    }

    /// The last batch; 0 if there is none.
    pub fn last(&self) -> Index {
        Index(self.next.0.saturating_sub(1))
    }

    /// Behind the last batch.
    pub fn position(&self) -> Position {
        Position { index: self.last(), epoch: self.epoch, first: self.first.unwrap_or(0) }
    }

    fn last_with(&self, head: &Head) -> Index {
        if head.kind.is_batch() { head.index } else { self.last() }
    }
}

/// What the log knows beside its batches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Standing {
    pub identity: Identity,
    pub vote: Option<Vote>,
    /// The newest ones that are committed, then those that are not.
    pub members: Vec<Members>,
}

impl Standing {
    /// A node alone: what it writes is committed.
    pub fn is_alone(&self) -> bool {
        self.members.is_empty()
    }

    /// Members that stand in a batch. False if they are too many or too large.
    pub fn add(&mut self, epoch: u64, index: Index, body: &[u8]) -> bool {
        let fits = body.len() <= MEMBERS_BYTES_MAX && self.members.len() < MEMBERS_PENDING_MAX;
        if fits {
            self.members.push(Members { epoch, index, body: body.to_vec() });
        }
        fits
    }

    /// Batches up to `index` are committed: older members count no more.
    pub fn commit(&mut self, index: Index) {
        let committed = self.members.partition_point(|members| members.index <= index);
        self.members.drain(..committed.saturating_sub(1));
    }

    /// Batches after `index` are void.
    pub fn cut(&mut self, index: Index) {
        self.members.retain(|members| members.index <= index);
    }

    /// What a state tells.
    pub fn take(&mut self, state: State) {
        let State { identity, vote, members, .. } = state;
        *self = Standing { identity, vote, members };
    }

    /// Bytes of the body of a state.
    pub fn state_bytes(&self) -> usize {
        let members = self.members.iter().map(|members| State::members_bytes(members.body.len()));
        State::ALONE_BYTES + self.identity.name.len() + members.sum::<usize>()
    }

    /// The state of a log that begins behind `before`.
    pub fn state(&self, before: Position, chain: &Chain) -> State {
        let Standing { identity, vote, members } = self.clone();
        let last = chain.position();
        State { identity, vote, committed: chain.committed.min(last.index), before, last, members }
    }
}
