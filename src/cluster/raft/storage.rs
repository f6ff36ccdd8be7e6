//! The log as Raft reads it: bounds and terms of all of it, the newest entries, and entries that were read from the
//! disk for a peer that is further behind.
//!
//! For Raft a batch is only its size, four bytes; index and term name the entry, and its body is found here by them
//! when it is sent or delivered. So Raft copies nothing large, and the bytes of the bodies bound a message.

use super::codec;
use super::entry::{Base, LogEntry, Payload, Vote};
use super::start::Start;
use crate::cluster::members::Members;
use crate::limits::{APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, FETCHED_RUNS_MAX};
use raft::eraftpb::{ConfState, Entry as RaftEntry, EntryType, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Result, Storage, StorageError};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Entries that were asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// For the answer.
    pub number: u64,
    /// The first index.
    pub low: u64,
    /// One above the last; as many of them as have [`APPEND_BYTES_MAX`], and at least one.
    pub high: u64,
}

/// The log as Raft sees it. Written entries are here at once, before they are durable.
pub(in crate::cluster) struct LogView {
    vote: Vote,
    commit: u64,
    start_members: Members,
    /// The base for a peer that lacks entries which the log no longer has.
    base: Base,
    /// Index and term just before the first entry.
    before: (u64, u64),
    /// Where each term begins, in ascending order.
    terms: VecDeque<(u64, u64)>,
    last: u64,
    /// The newest entries, up to `last`.
    cached: VecDeque<LogEntry>,
    cached_bytes: usize,
    cache_bytes_max: usize,
    asked: RefCell<AskedEntries>,
}

/// Requests made while Raft looked, which it does through a shared reference.
#[derive(Default)]
struct AskedEntries {
    fetches: Vec<(Fetch, Vec<GetEntriesContext>)>,
    /// Fetches not handed out yet.
    new: Vec<Fetch>,
    runs: VecDeque<Vec<LogEntry>>,
    number: u64,
    wants_base: bool,
    base_goes_to: Option<u64>,
}

impl LogView {
    /// The log up to what is applied; the entries after it follow by [`append`](Self::append).
    pub(in crate::cluster) fn new(start: &Start) -> LogView {
        LogView {
            vote: start.vote,
            commit: start.committed(),
            start_members: start.members.clone(),
            base: start.base.clone(),
            before: start.before,
            terms: start.terms.iter().copied().collect(),
            last: start.applied,
            cached: VecDeque::new(),
            cached_bytes: 0,
            cache_bytes_max: start.cache_bytes,
            asked: RefCell::default(),
        }
    }

    pub(in crate::cluster) fn first(&self) -> u64 {
        self.before.0 + 1
    }

    pub(in crate::cluster) fn last(&self) -> u64 {
        self.last
    }

    pub(in crate::cluster) fn base(&self) -> &Base {
        &self.base
    }

    /// The term of an index, from the one before the first on.
    pub(in crate::cluster) fn term_of(&self, index: u64) -> Option<u64> {
        if index == self.before.0 {
            return Some(self.before.1);
        }
        if index < self.before.0 || index > self.last {
            return None;
        }
        let after = self.terms.partition_point(|(from, _)| *from <= index);
        Some(self.terms[after - 1].1)
    }

    /// Puts entries in the place of all from the index of the first one on.
    pub(in crate::cluster) fn append(&mut self, entries: &[LogEntry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.before.0 && first.index <= self.last + 1, "a gap in the log");
        if first.index <= self.last {
            self.cut(first.index);
        }
        for entry in entries {
            assert_eq!(entry.index, self.last + 1, "a gap in the log");
            if self.term_of(self.last) != Some(entry.term) || self.terms.is_empty() {
                self.terms.push_back((entry.index, entry.term));
            }
            self.last = entry.index;
            self.cached_bytes += entry.bytes();
            self.cached.push_back(entry.clone());
        }
    }

    fn cut(&mut self, from: u64) {
        while self.cached.back().is_some_and(|entry| entry.index >= from) {
            let entry = self.cached.pop_back().expect("it was there");
            self.cached_bytes -= entry.bytes();
        }
        while self.terms.back().is_some_and(|(start, _)| *start >= from) {
            self.terms.pop_back();
        }
        self.last = from - 1;
        self.forget_fetched();
    }

    /// A base that was received takes the place of the log.
    pub(in crate::cluster) fn restore(&mut self, base: Base) {
        self.before = (base.index, base.term);
        self.last = base.index;
        self.terms.clear();
        self.cached.clear();
        self.cached_bytes = 0;
        self.base = base;
        self.forget_fetched();
    }

    /// A newer base is in place; whether it is newer.
    pub(in crate::cluster) fn set_base(&mut self, base: Base) -> bool {
        let is_newer = base.index > self.base.index;
        if is_newer {
            self.base = base;
        }
        is_newer
    }

    /// The log no longer has what is before `first`. Nothing after the base is ever dropped.
    pub(in crate::cluster) fn drop_before(&mut self, first: u64) {
        assert!(first <= self.base.index + 1, "entries {first} and before are in no base");
        if first <= self.first() {
            return;
        }
        let term = self.term_of(first - 1).expect("it is in the log");
        while self.terms.get(1).is_some_and(|(from, _)| *from <= first) {
            self.terms.pop_front();
        }
        if self.last < first {
            self.terms.clear();
        }
        self.before = (first - 1, term);
        while self.cached.front().is_some_and(|entry| entry.index < first) {
            self.pop_oldest();
        }
        self.forget_fetched();
    }

    /// Lets go of the oldest entries that are applied, down to the bytes allowed.
    pub(in crate::cluster) fn trim(&mut self, applied: u64) {
        let is_applied = |entry: &LogEntry| entry.index <= applied;
        while self.cached_bytes > self.cache_bytes_max
            && self.cached.front().is_some_and(is_applied)
        {
            self.pop_oldest();
        }
    }

    fn pop_oldest(&mut self) {
        let entry = self.cached.pop_front().expect("it was looked at");
        self.cached_bytes -= entry.bytes();
    }

    /// An entry that Raft has just named.
    pub(in crate::cluster) fn get(&self, index: u64, term: u64) -> Option<LogEntry> {
        let found = match self.cached.front() {
            Some(first) if first.index <= index => {
                self.cached.get((index - first.index) as usize).cloned()
            }
            _ => {
                let asked = self.asked.borrow();
                asked.runs.iter().find_map(|run| in_run(run, index)?.first().cloned())
            }
        };
        found.filter(|entry| entry.term == term)
    }

    fn cached_from(&self) -> u64 {
        self.cached.front().map_or(self.last + 1, |entry| entry.index)
    }

    /// Fetches that were not handed out yet.
    pub(in crate::cluster) fn take_fetches(&mut self) -> Vec<Fetch> {
        std::mem::take(&mut self.asked.get_mut().new)
    }

    /// The answer to a fetch, and the node it is for. An answer that no longer fits the log is dropped: it is requested
    /// again.
    pub(in crate::cluster) fn fetched(
        &mut self,
        number: u64,
        run: Vec<LogEntry>,
    ) -> Vec<GetEntriesContext> {
        let asked = self.asked.get_mut();
        let found = asked.fetches.iter().position(|(fetch, _)| fetch.number == number);
        let Some(at) = found else { return Vec::new() };
        let (fetch, contexts) = asked.fetches.swap_remove(at);
        let fits = run.first().is_some_and(|entry| entry.index == fetch.low)
            && run.iter().zip(fetch.low..fetch.high).all(|(entry, index)| {
                entry.index == index && self.term_of(index) == Some(entry.term)
            });
        if !fits {
            return Vec::new();
        }
        let asked = self.asked.get_mut();
        asked.runs.retain(|other| other[0].index != fetch.low);
        if asked.runs.len() == FETCHED_RUNS_MAX {
            asked.runs.pop_front();
        }
        asked.runs.push_back(run);
        contexts
    }

    /// Whether a base was asked for that is not there: a newer one, with the receiver among its members.
    pub(in crate::cluster) fn take_wants_base(&mut self) -> bool {
        std::mem::take(&mut self.asked.get_mut().wants_base)
    }

    /// A base that was sent has arrived, or not: the next one may go.
    pub(in crate::cluster) fn base_ended(&mut self) {
        self.asked.get_mut().base_goes_to = None;
    }

    fn forget_fetched(&mut self) {
        let asked = self.asked.get_mut();
        (asked.fetches, asked.new, asked.runs) = Default::default();
    }

    /// Whether all entries from `low` to before `high` are available, and those in memory.
    fn read(&self, low: u64, high: u64, is_bounded: bool) -> Option<Vec<RaftEntry>> {
        let mut bytes = 0;
        let mut is_within = |entry: &&LogEntry| {
            let is_first = bytes == 0;
            bytes += entry.bytes().max(1);
            !is_bounded || is_first || bytes <= APPEND_BYTES_MAX
        };
        let most = if is_bounded { APPEND_ENTRIES_MAX } else { usize::MAX };
        let most = most.min((high - low) as usize);
        if low >= self.cached_from() {
            let from = (low - self.cached_from()) as usize;
            let entries = self.cached.iter().skip(from).take(most);
            return Some(entries.take_while(&mut is_within).map(as_raft).collect());
        }
        let asked = self.asked.borrow();
        let run = asked.runs.iter().find_map(|run| in_run(run, low))?;
        Some(run.iter().take(most).take_while(is_within).map(as_raft).collect())
    }
}

/// The entries of a run from `index` on.
fn in_run(run: &[LogEntry], index: u64) -> Option<&[LogEntry]> {
    let from = usize::try_from(index.checked_sub(run[0].index)?).ok()?;
    run.get(from..).filter(|rest| !rest.is_empty())
}

impl Storage for LogView {
    fn initial_state(&self) -> Result<RaftState> {
        let mut hard = HardState::default();
        (hard.term, hard.vote, hard.commit) = (self.vote.term, self.vote.voted_for, self.commit);
        Ok(RaftState::new(hard, conf_state(&self.start_members)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> Result<Vec<RaftEntry>> {
        if low < self.first() {
            return Err(StorageError::Compacted.into());
        }
        assert!(high <= self.last + 1, "entries up to {high} of {}", self.last);
        // Raft's own bound counts four bytes for a batch. Where it gives none it needs all of them.
        let is_bounded = max_size.into().is_some();
        if let Some(entries) = self.read(low, high, is_bounded) {
            return Ok(entries);
        }
        // Committed entries that are not applied are always in memory, so that only peers wait for the disk.
        assert!(context.can_async(), "entry {low} is not applied and not in memory");
        let asked = &mut *self.asked.borrow_mut();
        match asked.fetches.iter_mut().find(|(fetch, _)| fetch.low == low) {
            Some((_, contexts)) if contexts.len() < crate::limits::NODES_MAX => {
                contexts.push(context);
            }
            Some(_) => {}
            None => {
                let high = high.min(self.cached_from()).min(low + APPEND_ENTRIES_MAX as u64);
                asked.number += 1;
                let fetch = Fetch { number: asked.number, low, high };
                asked.fetches.push((fetch, vec![context]));
                asked.new.push(fetch);
            }
        }
        Err(StorageError::LogTemporarilyUnavailable.into())
    }

    fn term(&self, index: u64) -> Result<u64> {
        let error = || {
            if index < self.before.0 { StorageError::Compacted } else { StorageError::Unavailable }
        };
        self.term_of(index).ok_or_else(|| error().into())
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last)
    }

    /// One base is sent at a time. A receiver ignores one in which it is no member, and would be sent it for
    /// ever: it waits for the next base, which is asked for.
    fn snapshot(&self, request_index: u64, to: u64) -> Result<Snapshot> {
        let mut asked = self.asked.borrow_mut();
        let is_usable = self.base.index > 0
            && self.base.index >= request_index
            && self.base.members.contains(to);
        asked.wants_base |= !is_usable;
        if !is_usable || asked.base_goes_to.is_some_and(|other| other != to) {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        asked.base_goes_to = Some(to);
        Ok(snapshot(&self.base))
    }
}

/// An entry as Raft has it.
pub(in crate::cluster) fn as_raft(entry: &LogEntry) -> RaftEntry {
    let mut raft = RaftEntry::default();
    (raft.index, raft.term) = (entry.index, entry.term);
    match &entry.payload {
        Payload::Blank => {}
        Payload::Facts(facts) => raft.data = size_of_batch(facts.body.len()),
        Payload::Members(_) => raft.set_entry_type(EntryType::EntryConfChangeV2),
    }
    raft
}

/// Raft's data of a batch.
pub(in crate::cluster) fn size_of_batch(bytes: usize) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(&(bytes as u32).to_le_bytes())
}

pub(in crate::cluster) fn snapshot(base: &Base) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (base.index, base.term);
    metadata.set_conf_state(conf_state(&base.members));
    codec::members_into(&base.members, &mut snapshot);
    snapshot
}

/// The inverse. The source was checked.
pub(in crate::cluster) fn base(snapshot: &Snapshot) -> Base {
    let metadata = snapshot.get_metadata();
    let members = Members::decode(&snapshot.data).expect("made from members");
    Base { index: metadata.index, term: metadata.term, members }
}

/// Members as Raft has them: a joint state always ends by itself.
pub(in crate::cluster) fn conf_state(members: &Members) -> ConfState {
    let mut state = ConfState::default();
    state.set_voters(members.voters.clone());
    state.set_voters_outgoing(members.outgoing.clone());
    state.set_learners(members.learners.clone());
    state.set_learners_next(members.learners_next.clone());
    state.auto_leave = members.is_joint();
    state
}
