//! The operations on a node's log, in one order: appends, cuts and votes of Raft, and reads for others.
//!
//! Pure except for the storage: the thread around it is `durability/commit/log_thread.rs`, and the simulation runs the
//! same operations on a storage that loses unsynced data.

use crate::cluster::members::{Members, WrongMembers};
use crate::cluster::raft::entry::{self, Base, EpochFacts, Payload, Vote, Write};
use crate::cluster::raft::output::Fetch;
use crate::ids::Index;
use crate::journal::record::raft_state;
use crate::journal::record::{RecordKind, span};

use crate::journal::{JournalError, Log, OwnedEntry, SegmentEntry, Storage, may_pass};
use crate::limits::APPEND_BYTES_MAX;
use crate::lock::lock;
use crate::server::cluster::bases::ArrivedBases;
use crate::server::cluster::raft_loop::LogDone;
use crate::time::Micros;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// An operation.
#[derive(Debug)]
pub enum Op {
    /// To become durable.
    Write(Write),
    /// To be read.
    Fetch(Fetch),
    /// Everything up to this index is known committed.
    Stamp(u64),
    /// Everything before this index is in a base: this many segments of the log are kept, in addition to the one being
    /// written.
    Drop(u64),
}

#[derive(Debug)]
pub struct EntryLog<S: Storage> {
    /// As it was opened.
    pub log: Log<S>,
    /// The newest write that is carried out and not synced.
    unsynced: Option<u64>,
    /// Bytes written since this was last asked.
    written_bytes: u64,
    /// The time of the newest facts written by this process, for entries that have none of their own.
    now: Micros,
    /// The newest index known to be committed, once the log has it.
    committed: Index,
    /// The committed index that the log has recorded already.
    noted: Index,
    /// The newest members that were written and whose commit was not tried to be recorded.
    members: Index,
    storage: Arc<S>,
    arrived: ArrivedBases,
    /// Segments that are kept, in addition to the one being written.
    kept_segments: u64,
}

impl<S: Storage> EntryLog<S> {
    /// For a log that was opened in `storage`. [`Op::Drop`] leaves at least `kept_bytes` of it.
    pub fn new(
        log: Log<S>,
        storage: Arc<S>,
        arrived: ArrivedBases,
        kept_bytes: u64,
    ) -> EntryLog<S> {
        let noted = log.state().committed;
        let kept_segments = kept_bytes.div_ceil(log.options().segment_bytes);
        EntryLog {
            log,
            unsynced: None,
            written_bytes: 0,
            now: Micros(0),
            committed: noted,
            noted,
            members: Index(0),
            storage,
            arrived,
            kept_segments,
        }
    }

    /// Carries out the operations, in order, without making them durable. Those without space, and all later ones, stay
    /// in `ops`: nothing of them is done.
    ///
    /// # Errors
    /// The log cannot be used any more.
    pub fn carry_out(&mut self, ops: &mut VecDeque<Op>, done: &mut Vec<LogDone>) -> io::Result<()> {
        while let Some(op) = ops.front() {
            match op {
                Op::Write(write) => match self.write(write) {
                    Err(error) if !self.log.is_poisoned() && may_pass(&error) => return Ok(()),
                    written => written?,
                },
                Op::Stamp(commit) => self.note_commit(*commit),
                Op::Drop(before) => self.drop_before(Index(*before), done)?,
                Op::Fetch(fetch) => {
                    let found = self.fetch(fetch)?;
                    done.push(LogDone::Fetched(fetch.number, found));
                }
            }
            ops.pop_front();
        }
        Ok(())
    }

    /// Makes the operations durable, and reports them.
    ///
    /// # Errors
    /// As of [`EntryLog::carry_out`].
    pub fn sync(&mut self, done: &mut Vec<LogDone>) -> io::Result<()> {
        self.log.sync()?;
        done.extend(self.unsynced.take().map(LogDone::Persisted));
        Ok(())
    }

    /// Whether something was carried out and is not durable.
    pub fn is_unsynced(&self) -> bool {
        self.unsynced.is_some()
    }

    /// Bytes written since the last call.
    pub fn take_written_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.written_bytes)
    }

    /// Whether the known commit position is in no record yet.
    pub fn is_to_be_noted(&self) -> bool {
        self.committed > self.noted
    }

    /// Whether it has new members behind it: should all nodes stop now, those that start again would go by the members of
    /// before, and need a majority of these.
    pub fn is_urgent(&self) -> bool {
        self.noted < self.members && self.members <= self.committed
    }

    /// Records the committed index, if no record has it yet. No client waits for it: without space it is left out.
    ///
    /// # Errors
    /// As of [`EntryLog::carry_out`].
    pub fn note_committed(&mut self) -> io::Result<()> {
        if !self.is_to_be_noted() {
            return Ok(());
        }
        if self.is_urgent() {
            // Without space it is tried again like any other, once a second and not all the time.
            self.members = Index(0);
        }
        match self.log.note_state() {
            Err(error) if !self.log.is_poisoned() && may_pass(&error) => Ok(()),
            noted => {
                self.noted = self.committed;
                noted
            }
        }
    }

    /// In an order in which it may be begun again after an error: what was done of it before is done no more.
    fn write(&mut self, write: &Write) -> io::Result<()> {
        let Write { number, base, entries, vote, commit } = write;
        if let Some(base) = base {
            self.install(base)?;
        }
        if let Some(vote) = vote.map(noted)
            && self.log.voted() != Some(vote)
        {
            self.log.vote(vote)?;
            self.written_bytes += span(vote.encode().len());
        }
        if let Some(first) = entries.first() {
            self.log.cut_after(Index(first.index - 1))?;
            self.note_commit(*commit);
            self.append(entries)?;
        }
        self.note_commit(*commit);
        self.unsynced = Some(*number);
        Ok(())
    }

    /// The base first: if a crash comes between, a start finds that the log does not lead to it. Until then the log's
    /// part of it counts for others.
    fn install(&mut self, base: &Base) -> io::Result<()> {
        if self.log.bounds().0 == Index(base.index).next() {
            return Ok(());
        }
        let mut arrived = lock(&self.arrived);
        let found = arrived.iter_mut().find(|one| one.position().index.0 == base.index);
        let found = found.filter(|one| one.position().epoch == base.term);
        let found = found.ok_or_else(|| {
            let (index, term) = (base.index, base.term);
            io::Error::other(format!("no base up to {index}, of epoch {term}, has arrived"))
        })?;
        found.put_in_place(&*self.storage)?;
        let (position, members) = (found.position(), found.members.clone());
        self.log.restart_behind(position, members)?;
        (self.committed, self.noted) = (position.index, position.index);
        arrived.retain(|one| one.position().index > position.index);
        Ok(())
    }

    fn drop_before(&mut self, before: Index, done: &mut Vec<LogDone>) -> io::Result<()> {
        while self.log.segments() > self.kept_segments + 1 && self.log.drop_one_before(before)? {}
        done.push(LogDone::Dropped(self.log.bounds().0.0));
        Ok(())
    }

    fn append(&mut self, entries: &[entry::LogEntry]) -> io::Result<()> {
        let before = Index(entries[0].index - 1);
        let position = self.log.position(before)?.ok_or_else(|| missing(before))?;
        let (mut first, mut now) = (position.first.max(1), self.now);
        let bodies: Vec<Vec<u8>> = entries.iter().map(body_of).collect();
        let mut batches = Vec::with_capacity(entries.len());
        for (entry, body) in entries.iter().zip(&bodies) {
            let (kind, count, body) = match &entry.payload {
                Payload::Blank => (RecordKind::Blank, 0, &[][..]),
                Payload::Members(_) => {
                    self.members = Index(entry.index);
                    (RecordKind::Members, 0, &body[..])
                }
                Payload::Facts(facts) => {
                    (first, now) = (facts.first, facts.now);
                    (RecordKind::Facts, facts.count, &facts.body[..])
                }
            };
            let (index, epoch, node) = (Index(entry.index), entry.term, entry.node);
            batches.push(SegmentEntry { kind, index, epoch, node, first, now, count, body });
            first += u64::from(count);
            self.written_bytes += span(body.len());
        }
        self.log.append(&batches)?;
        self.now = now;
        Ok(())
    }

    /// An index that is committed and not in the log yet is recorded when it is.
    fn note_commit(&mut self, commit: u64) {
        let (_, last) = self.log.bounds();
        self.committed = self.committed.max(Index(commit)).min(last);
        self.log.commit(self.committed);
    }

    fn fetch(&self, fetch: &Fetch) -> io::Result<Vec<entry::LogEntry>> {
        let (from, to) = (Index(fetch.low), Index(fetch.high.saturating_sub(1)));
        match self.log.read(from, to, APPEND_BYTES_MAX) {
            Ok(read) => read.into_iter().map(entry_of).collect(),
            Err(JournalError::Gap { .. }) => Ok(Vec::new()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// As Raft has it.
pub(super) fn entry_of(batch: OwnedEntry) -> io::Result<entry::LogEntry> {
    let OwnedEntry { kind, index, epoch, node, first, now, count, body } = batch;
    let payload = match kind {
        RecordKind::Blank => Payload::Blank,
        RecordKind::Members => Payload::Members(members_of(&body).map_err(io::Error::other)?),
        _ => Payload::Facts(EpochFacts { first, now, count, body: Bytes::from(body) }),
    };
    Ok(entry::LogEntry { index: index.0, term: epoch, node, payload })
}

/// As the journal keeps them.
pub(super) fn members_of(body: &[u8]) -> Result<Members, WrongMembers> {
    Members::decode(body)
}

fn body_of(entry: &entry::LogEntry) -> Vec<u8> {
    let mut body = Vec::new();
    if let Payload::Members(members) = &entry.payload {
        members.encode(&mut body);
    }
    body
}

fn noted(vote: Vote) -> raft_state::Vote {
    raft_state::Vote { epoch: vote.term, node: vote.voted_for }
}

fn missing(index: Index) -> io::Error {
    io::Error::other(format!("batch {index}, behind which it goes on, is not in the log"))
}
