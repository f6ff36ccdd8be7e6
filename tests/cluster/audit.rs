//! What must hold whatever happens, known from what all nodes did together.

use delayd::cluster::members::Members;
use delayd::cluster::raft::entry::{Base, LogEntry, Payload, Write};
use std::collections::BTreeMap;

/// What was committed and who led, over all nodes.
pub struct Audit {
    /// By index: term and payload, as whoever applied it first saw it.
    pub history: BTreeMap<u64, (u64, Payload)>,
    /// The members from an index on.
    members: BTreeMap<u64, Members>,
    /// By term.
    leaders: BTreeMap<u64, u64>,
    /// By index and term, all that was ever written.
    written: BTreeMap<(u64, u64), Payload>,
    /// Of the proposals that were answered: index and payload.
    acked: Vec<(u64, Payload)>,
}

impl Audit {
    pub fn new(base: &Base) -> Audit {
        Audit {
            history: BTreeMap::from([(base.index, (base.term, Payload::Blank))]),
            members: BTreeMap::from([(base.index, base.members.clone())]),
            leaders: BTreeMap::new(),
            written: BTreeMap::new(),
            acked: Vec::new(),
        }
    }

    /// The last index that anybody has applied.
    pub fn end(&self) -> u64 {
        self.history.last_key_value().map_or(0, |(index, _)| *index)
    }

    pub fn acked(&self) -> usize {
        self.acked.len()
    }

    /// One leader a term.
    pub fn leads(&mut self, term: u64, id: u64) {
        let first = *self.leaders.entry(term).or_insert(id);
        assert_eq!(first, id, "two leaders of term {term}");
    }

    pub fn leaders(&self) -> usize {
        self.leaders.len()
    }

    /// What a node that has applied `applied` writes: index and term name an entry, and what is applied is never
    /// overwritten.
    pub fn writes(&mut self, id: u64, applied: u64, write: &Write) {
        for entry in &write.entries {
            assert!(entry.index > applied, "node {id} cuts entry {} it applied", entry.index);
            let written = self.written.entry((entry.index, entry.term));
            let written = written.or_insert_with(|| entry.payload.clone());
            assert_eq!(
                *written, entry.payload,
                "two entries {} of term {}",
                entry.index, entry.term
            );
        }
        let last = write.entries.last().map(|entry| entry.index);
        let last = last.or(write.base.as_ref().map(|base| base.index));
        assert!(last.is_none_or(|last| write.commit <= last), "more committed than there is");
    }

    /// The first entry was written and is on no disk: another one may take its place, as long as nobody was told.
    pub fn forget_founding(&mut self) {
        self.written.clear();
        assert_eq!(self.end(), 0, "an entry was applied that is nowhere durable");
    }

    /// What node `id` applies after `applied`.
    pub fn applies(&mut self, id: u64, applied: u64, entry: &LogEntry) {
        assert_eq!(entry.index, applied + 1, "node {id} leaves out entries");
        let first = self.history.entry(entry.index);
        let (term, payload) = first.or_insert_with(|| (entry.term, entry.payload.clone()));
        let same = (*term, &*payload) == (entry.term, &entry.payload);
        assert!(same, "node {id} has another entry {} of term {}", entry.index, entry.term);
        if let Payload::Members(members) = &entry.payload {
            self.members.insert(entry.index, members.clone());
        }
    }

    /// A base is of what is committed, with the members as of then.
    pub fn restores(&self, id: u64, base: &Base) {
        let (term, _) = self.history.get(&base.index).expect("a base of what nobody applied");
        assert_eq!(*term, base.term, "node {id} has a base of another history");
        let (_, members) = self.members.range(..=base.index).next_back().expect("the first ones");
        assert_eq!(*members, base.members, "node {id}: members as of {}", base.index);
    }

    /// The client of a proposal is answered.
    pub fn acks(&mut self, index: u64, payload: Payload) {
        self.acked.push((index, payload));
    }

    /// At the end, everybody is at `end`: everything that was answered is there.
    pub fn check_acked(&self) {
        for (index, payload) in &self.acked {
            let kept = self.history.get(index).is_some_and(|(_, kept)| kept == payload);
            assert!(kept, "entry {index} was acknowledged and is lost");
        }
    }
}
