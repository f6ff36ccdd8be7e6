//! What a node's log is asked to do, in one order: appends, cuts and votes of Raft, and what is read for others.
//!
//! Pure but for the storage: the thread around it is `durability/commit/log_thread.rs`, and the simulation carries
//! the same operations out on a storage that loses what was not synced.

use crate::cluster::entry::{self, Base, Facts, Payload, Vote, Write};
use crate::cluster::members::{Members, WrongMembers};
use crate::cluster::output::Fetch;
use crate::ids::Index;
use crate::journal::record::{Kind, span};
use crate::journal::state;

use crate::journal::{Arrived, Entry, JournalError, Log, OwnedEntry, Storage, may_pass};
use crate::limits::APPEND_BYTES_MAX;
use crate::server::cluster::raft_loop::Done;
use crate::time::Micros;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// What is to be done.
#[derive(Debug)]
pub enum Op {
    /// To become durable.
    Write(Write),
    /// To be read.
    Fetch(Fetch),
    /// Everything up to this index is known committed.
    Stamp(u64),
    /// What is before this index is in a base: of the log so many segments are kept, beside the one that is written.
    Drop(u64),
}

/// Bases that have come from others, are whole, and have not taken the place of the log.
pub type ArrivedBases = Arc<Mutex<Vec<Arrived>>>;

/// A node's log.
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
    /// What is known committed, once the log is so far.
    committed: Index,
    /// The same as the log tells it already.
    noted: Index,
    storage: Arc<S>,
    arrived: ArrivedBases,
    /// Segments that are not given up, beside the one that is written.
    kept_segments: u64,
}

impl<S: Storage> EntryLog<S> {
    /// Of a log that was opened in `storage`. What [`Op::Drop`] gives up leaves it `kept_bytes` at least.
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
            storage,
            arrived,
            kept_segments,
        }
    }

    /// Carries out what there is, in order, without making it durable. What there is no room for, and all behind it,
    /// stays in `ops`: nothing of it is done.
    ///
    /// # Errors
    /// The log is of no use any more.
    pub fn carry_out(&mut self, ops: &mut VecDeque<Op>, done: &mut Vec<Done>) -> io::Result<()> {
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
                    done.push(Done::Fetched(fetch.number, found));
                }
            }
            ops.pop_front();
        }
        Ok(())
    }

    /// Makes durable what was carried out, and tells it.
    ///
    /// # Errors
    /// As of [`EntryLog::carry_out`].
    pub fn sync(&mut self, done: &mut Vec<Done>) -> io::Result<()> {
        self.log.sync()?;
        done.extend(self.unsynced.take().map(Done::Persisted));
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

    /// Whether no record tells yet what is known committed.
    pub fn is_to_be_noted(&self) -> bool {
        self.committed > self.noted
    }

    /// Writes down what is known committed, if no record tells it yet. Nobody waits for it: without room it is left
    /// out.
    ///
    /// # Errors
    /// As of [`EntryLog::carry_out`].
    pub fn note_committed(&mut self) -> io::Result<()> {
        if !self.is_to_be_noted() {
            return Ok(());
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

    /// The base first: if a crash comes between, a start finds that the log does not lead to it. What the log has of it
    /// already counts for others until then.
    fn install(&mut self, base: &Base) -> io::Result<()> {
        if self.log.bounds().0 == Index(base.index).next() {
            return Ok(());
        }
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn drop_before(&mut self, before: Index, done: &mut Vec<Done>) -> io::Result<()> {
        while self.log.segments() > self.kept_segments + 1 && self.log.drop_one_before(before)? {}
        done.push(Done::Dropped(self.log.bounds().0.0));
        Ok(())
    }

    fn append(&mut self, entries: &[entry::Entry]) -> io::Result<()> {
        let before = Index(entries[0].index - 1);
        let position = self.log.position(before)?.ok_or_else(|| missing(before))?;
        let (mut first, mut now) = (position.first.max(1), self.now);
        let bodies: Vec<Vec<u8>> = entries.iter().map(body_of).collect();
        let mut batches = Vec::with_capacity(entries.len());
        for (entry, body) in entries.iter().zip(&bodies) {
            let (kind, count, body) = match &entry.payload {
                Payload::Blank => (Kind::Blank, 0, &[][..]),
                Payload::Members(_) => (Kind::Members, 0, &body[..]),
                Payload::Facts(facts) => {
                    (first, now) = (facts.first, facts.now);
                    (Kind::Facts, facts.count, &facts.body[..])
                }
            };
            let (index, epoch, node) = (Index(entry.index), entry.term, entry.node);
            batches.push(Entry { kind, index, epoch, node, first, now, count, body });
            first += u64::from(count);
            self.written_bytes += span(body.len());
        }
        self.log.append(&batches)?;
        self.now = now;
        Ok(())
    }

    /// What is committed and not in the log yet is so when it is.
    fn note_commit(&mut self, commit: u64) {
        let (_, last) = self.log.bounds();
        self.committed = self.committed.max(Index(commit)).min(last);
        self.log.commit(self.committed);
    }

    fn fetch(&self, fetch: &Fetch) -> io::Result<Vec<entry::Entry>> {
        let (from, to) = (Index(fetch.low), Index(fetch.high.saturating_sub(1)));
        match self.log.read(from, to, APPEND_BYTES_MAX) {
            Ok(read) => read.into_iter().map(entry_of).collect(),
            Err(JournalError::Gap { .. }) => Ok(Vec::new()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// As Raft has it.
pub(super) fn entry_of(batch: OwnedEntry) -> io::Result<entry::Entry> {
    let OwnedEntry { kind, index, epoch, node, first, now, count, body } = batch;
    let payload = match kind {
        Kind::Blank => Payload::Blank,
        Kind::Members => Payload::Members(members_of(&body).map_err(io::Error::other)?),
        _ => Payload::Facts(Facts { first, now, count, body: Bytes::from(body) }),
    };
    Ok(entry::Entry { index: index.0, term: epoch, node, payload })
}

/// As the journal keeps them.
pub(super) fn members_of(body: &[u8]) -> Result<Members, WrongMembers> {
    Members::decode(body)
}

fn body_of(entry: &entry::Entry) -> Vec<u8> {
    let mut body = Vec::new();
    if let Payload::Members(members) = &entry.payload {
        members.encode(&mut body);
    }
    body
}

fn noted(vote: Vote) -> state::Vote {
    state::Vote { epoch: vote.term, node: vote.voted_for }
}

fn missing(index: Index) -> io::Error {
    io::Error::other(format!("batch {index}, behind which it goes on, is not in the log"))
}
