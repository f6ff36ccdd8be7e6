//! The expected next record of the log, and the log's information besides its batches.

use crate::ids::Index;
use crate::journal::record::raft_state::{LogIdentity, LogPosition, LogState, Members, Vote};
use crate::journal::record::{Head, RecordKind};
use crate::limits::{MEMBERS_BYTES_MAX, MEMBERS_PENDING_MAX};
use crate::time::Micros;

/// The expected next record, from the previous ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) struct Chain {
    /// The `lsn` of the next record.
    pub lsn: u64,
    pub next: Index,
    /// The sequence of its first fact; nothing if no batch before it is known.
    pub first: Option<u64>,
    /// Its epoch is not below this one.
    pub epoch: u64,
    /// The time of the previous batch; 0 without one.
    pub now: Micros,
    /// The newest batch known committed.
    pub committed: Index,
}

impl Chain {
    /// Before record `lsn`, after the batch of this position.
    pub fn behind(lsn: u64, last: LogPosition) -> Chain {
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

    /// Whether a record is the next one, as far as its header shows.
    pub fn follows(&self, head: &Head) -> bool {
        let committed = head.committed >= self.committed;
        let follows = match head.kind {
            RecordKind::Images => false,
            kind if kind.is_batch() => {
                self.fits(head.index, head.epoch, head.first)
                    && (kind == RecordKind::Facts || head.count == 0)
            }
            RecordKind::Cut => head.index < self.next && head.first > 0,
            _ => {
                head.index == self.last()
                    && (head.first == 0 || self.first.is_none_or(|first| first == head.first))
            }
        };
        head.lsn == self.lsn && committed && head.committed <= self.last_with(head) && follows
    }

    /// Whether a record would make void what an earlier one called committed.
    pub fn is_broken_by(&self, head: &Head) -> bool {
        head.lsn == self.lsn && head.kind == RecordKind::Cut && head.index < self.committed
    }

    /// The record follows.
    pub fn advance(&mut self, head: &Head) {
        self.lsn = head.lsn + 1;
        self.committed = self.committed.max(head.committed);
        match head.kind {
            RecordKind::Cut => {
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

    /// The last batch; 0 without one.
    pub fn last(&self) -> Index {
        Index(self.next.0.saturating_sub(1))
    }

    /// After the last batch.
    pub fn position(&self) -> LogPosition {
        LogPosition { index: self.last(), epoch: self.epoch, first: self.first.unwrap_or(0) }
    }

    fn last_with(&self, head: &Head) -> Index {
        if head.kind.is_batch() { head.index } else { self.last() }
    }
}

/// The log's information besides its batches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::journal) struct LogStanding {
    pub identity: LogIdentity,
    pub vote: Option<Vote>,
    /// The newest ones that are committed, then those that are not.
    pub members: Vec<Members>,
}

impl LogStanding {
    /// A standalone server: its batches are committed when written.
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

    pub fn take(&mut self, state: LogState) {
        let LogState { identity, vote, members, .. } = state;
        *self = LogStanding { identity, vote, members };
    }

    pub fn state_bytes(&self) -> usize {
        let members =
            self.members.iter().map(|members| LogState::members_bytes(members.body.len()));
        LogState::ALONE_BYTES + self.identity.name.len() + members.sum::<usize>()
    }

    /// The state of a log that begins after `before`.
    pub fn state(&self, before: LogPosition, chain: &Chain) -> LogState {
        let LogStanding { identity, vote, members } = self.clone();
        let last = chain.position();
        LogState {
            identity,
            vote,
            committed: chain.committed.min(last.index),
            before,
            last,
            members,
        }
    }
}
