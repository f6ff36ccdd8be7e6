//! A random history of a log, and what must be true of it at every moment. Of a node alone, or of a member
//! of a cluster: then there are votes, cuts, other members, and batches that are not committed.

use crate::journal::batches::{Maker, append, start_behind};
use crate::support::lossy::Lossy;
use delayd::ids::Index;
use delayd::journal::record::RecordKind;
use delayd::journal::record::raft_state::{LogPosition, Members, Vote};
use delayd::journal::{JournalError, Log, LogView, OwnedEntry};
use rand::Rng;
use std::io;
use std::sync::Arc;

pub struct History {
    pub storage: Arc<Lossy>,
    pub maker: Maker,
    /// A member of a cluster.
    pub member: bool,
    /// What the base covers.
    pub after: Index,
    /// Batches after the base, as far as they were appended.
    pub batches: Vec<OwnedEntry>,
    /// The newest one said to be durable.
    pub synced: Index,
    /// The newest one said to be committed.
    pub committed: Index,
    /// Behind the base, and the members as of it.
    base: (LogPosition, Option<Members>),
    /// A cut was begun that may or may not have happened.
    cutting: Option<Index>,
    /// What reads beside the writer, since that was asked for.
    view: Option<LogView<Lossy>>,
    /// The newest vote that is durable, and those since.
    votes: Vec<Option<Vote>>,
}

impl History {
    pub fn new(seed: u64) -> History {
        let (storage, maker) = (Lossy::new(), Maker::new(seed));
        let (after, synced) = (Index(0), Index(0));
        let base = (LogPosition { first: 1, ..LogPosition::default() }, None);
        History {
            storage,
            maker,
            member: seed % 2 == 1,
            after,
            batches: Vec::new(),
            synced,
            committed: Index(0),
            base,
            cutting: None,
            view: None,
            votes: vec![None],
        }
    }

    /// Opens the log; checks that it holds what it must and nothing else.
    pub fn open(&mut self) -> Result<Log<Lossy>, JournalError> {
        let short = self.maker.rng.random_range(0..3) * 700;
        self.storage.short_reads(short);
        self.view = None;
        let (base, members) = self.base.clone();
        let (log, opened, mut read) = start_behind(&self.storage, base, members)?;
        let applied = read.last().map_or(self.after, |entry| entry.index);
        read.extend(opened.uncommitted.iter().cloned());
        let last = read.last().map_or(self.after, |entry| entry.index);
        assert_eq!(read[..], self.batches[..read.len()], "a prefix of what was appended");
        let cut = self.cutting.take() == Some(last);
        assert!(last >= self.synced || cut, "{} was synced, {last} is there", self.synced);
        assert_eq!((log.bounds().1, log.durable(), opened.last), (last, last, last));
        assert!(log.bounds().0 <= self.after.next(), "{:?} of {}", log.bounds(), self.after);
        self.batches.truncate(read.len());
        self.check_standing(&log, applied);
        self.synced = last;
        self.go_on();
        Ok(log)
    }

    /// The log's information besides its batches.
    fn check_standing(&mut self, log: &Log<Lossy>, applied: Index) {
        let told = self.batches.iter().rev().find(|batch| batch.kind == RecordKind::Members);
        let told = told.map(|OwnedEntry { epoch, index, body, .. }| Members {
            epoch: *epoch,
            index: *index,
            body: body.clone(),
        });
        let members = told.or(self.base.1.clone());
        assert_eq!(log.members(), members.as_ref(), "the newest members there are");
        match members {
            None => assert_eq!(applied, self.last(), "alone all is committed"),
            Some(_) => {
                let most = self.committed.max(self.after);
                assert!(applied <= most, "{applied} is applied, {most} was committed");
                assert_eq!(log.committed(), applied);
                self.committed = applied;
            }
        }
        let voted = log.voted();
        assert!(
            self.votes.contains(&voted),
            "{voted:?} of {:?}: the first was durable",
            self.votes
        );
        self.votes = vec![voted];
    }

    /// Does something. After an error of a log that is not poisoned nothing has changed.
    pub fn step(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        match self.maker.rng.random_range(0..100) {
            0..50 => self.append(log)?,
            50..55 if self.member => self.vote(log)?,
            50..55 => log.note_state()?,
            55..60 if self.member => self.commit(log),
            55..78 => self.sync(log)?,
            78..80 => log.note_state()?,
            80..87 if self.member => self.cut(log)?,
            80..87 => log.begin_segment()?,
            87..94 => self.compact(log)?,
            94..97 => log.add_spare(log.spare_maker().make()?),
            _ => self.read(log),
        }
        assert_eq!((log.bounds().1, log.durable()), (self.last(), self.known(log)));
        Ok(())
    }

    pub fn last(&self) -> Index {
        self.batches.last().map_or(self.after, |entry| entry.index)
    }

    fn sync(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        let synced = log.sync()?;
        assert_eq!(synced, self.last());
        self.synced = synced;
        self.votes_are_durable();
        Ok(())
    }

    fn votes_are_durable(&mut self) {
        self.votes.drain(..self.votes.len() - 1);
    }

    /// What a full segment made durable on the way is durable too.
    fn known(&mut self, log: &Log<Lossy>) -> Index {
        assert!(log.durable() >= self.synced && log.durable() <= self.last());
        self.synced = log.durable();
        self.synced
    }

    fn append(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        let made = self.maker.rng.random_range(1..5);
        let mut group = Vec::new();
        if self.member {
            group.extend(self.elect());
        }
        group.extend((0..made).map(|_| self.maker.any()));
        self.batches.extend_from_slice(&group);
        let appended = append(log, &group);
        if appended.is_err() && !log.is_poisoned() {
            self.batches.truncate(self.batches.len() - group.len());
            self.go_on();
        }
        appended
    }

    /// The first batch names the members; others begin an epoch, or name other members.
    fn elect(&mut self) -> Option<OwnedEntry> {
        let committed = self.committed;
        let changes =
            |other: &OwnedEntry| other.kind == RecordKind::Members && other.index > committed;
        let changing = self.batches.iter().any(changes);
        let bytes = self.maker.rng.random_range(0..6_000);
        match self.maker.rng.random_range(0..10) {
            _ if self.maker.next == Index(1) => Some(self.maker.aside(RecordKind::Members, bytes)),
            0 if !changing => Some(self.maker.aside(RecordKind::Members, bytes)),
            1..3 => Some(self.maker.aside(RecordKind::Blank, 0)),
            _ => None,
        }
    }

    fn vote(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        let newest = self.votes.last().expect("one at least");
        let epoch = newest.map_or(0, |vote| vote.epoch) + self.maker.rng.random_range(1..3);
        let vote = Vote { epoch, node: self.maker.rng.random_range(0..4) };
        self.votes.push(Some(vote));
        let voted = log.vote(vote);
        if voted.is_err() && !log.is_poisoned() {
            self.votes.pop();
        }
        voted
    }

    fn commit(&mut self, log: &mut Log<Lossy>) {
        if self.batches.is_empty() {
            return;
        }
        let from = self.committed.max(self.after).0;
        self.committed = Index(self.maker.rng.random_range(from..=self.last().0));
        log.commit(self.committed);
    }

    fn cut(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        if log.members().is_none() {
            return Ok(());
        }
        let from = self.committed.max(self.after).0;
        let index = Index(self.maker.rng.random_range(from..=self.last().0));
        self.cutting = Some(index);
        let before = log.durable();
        let cut = log.cut_after(index);
        if cut.is_err() {
            self.cutting = self.cutting.filter(|_| log.is_poisoned());
            assert!(log.is_poisoned() || log.durable() >= before);
            return cut;
        }
        self.cutting = None;
        if index < self.last() {
            self.votes_are_durable();
        }
        self.batches.truncate((index.0 - self.after.0) as usize);
        self.synced = self.synced.min(index);
        self.go_on();
        Ok(())
    }

    /// A base is complete: it may cover what the log has not synced.
    fn compact(&mut self, log: &mut Log<Lossy>) -> io::Result<()> {
        let most =
            if log.members().is_some() { self.committed.max(self.after) } else { self.last() };
        let after = Index(self.maker.rng.random_range(self.after.0..=most.0));
        let covered: Vec<_> = self.batches.drain(..(after.0 - self.after.0) as usize).collect();
        if let Some(OwnedEntry { index, epoch, first, count, .. }) = covered.last() {
            let first = first + u64::from(*count);
            self.base.0 = LogPosition { index: *index, epoch: *epoch, first };
        }
        if let Some(told) = covered.iter().rev().find(|batch| batch.kind == RecordKind::Members) {
            let (epoch, index, body) = (told.epoch, told.index, told.body.clone());
            self.base.1 = Some(Members { epoch, index, body });
        }
        self.after = after;
        log.drop_before(after.next())
    }

    fn read(&mut self, log: &mut Log<Lossy>) {
        if self.batches.is_empty() {
            return;
        }
        let from = self.maker.rng.random_range(0..self.batches.len());
        let to = self.maker.rng.random_range(from..self.batches.len());
        let limit = self.maker.rng.random_range(0..100_000);
        let (first, last) = (self.batches[from].index, self.batches[to].index);
        let read = log.read(first, last, limit).expect("to be read");
        let view = self.view.get_or_insert_with(|| log.view());
        assert_eq!(view.read(first, last, limit).expect("to be read"), read, "beside the writer");
        assert_eq!(view.bounds(), log.bounds());
        assert_eq!(view.reached(), (log.committed(), log.durable()));
        assert_eq!(read[..], self.batches[from..from + read.len()]);
        let bytes: usize = read.iter().map(|entry| entry.body.len()).sum();
        assert!(!read.is_empty() && (bytes <= limit || read.len() == 1));
        let more = self.batches[from..=to].get(read.len());
        assert!(more.is_none_or(|next| bytes + next.body.len() > limit), "stopped too early");
        let OwnedEntry { index, epoch, first, count, .. } = self.batches[from];
        let first = first + u64::from(count);
        let position = log.position(index).expect("to be read");
        assert_eq!(position, Some(LogPosition { index, epoch, first }));
        assert_eq!(view.position(index).expect("to be read"), position);
    }

    /// The next batch made follows the last one.
    fn go_on(&mut self) {
        match self.batches.last() {
            Some(last) => self.maker.go_on_after(last),
            None => {
                (self.maker.next, self.maker.first) = (self.after.next(), self.base.0.first);
            }
        }
    }
}
