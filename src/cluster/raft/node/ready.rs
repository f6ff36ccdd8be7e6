//! Raft's requested actions, and the order in which they leave.

use super::{Node, Proposed};
use crate::cluster::members::{Members, NodeStep};
use crate::cluster::raft::codec::{self, Outgoing};
use crate::cluster::raft::entry::{LogEntry, Payload, Vote, Write};
use crate::cluster::raft::output::Confirmed;
use crate::cluster::raft::storage;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
    Entry as RaftEntry, EntryType, Message, MessageType,
};
use raft::{Ready, StateRole};

impl Node {
    /// Everything Raft wants done, until it wants nothing more.
    pub(super) fn drain(&mut self) {
        self.redraw_timeout();
        while self.raw.has_ready() {
            let ready = self.raw.ready();
            self.handle(ready);
            self.redraw_timeout();
        }
        self.given.clear();
        if self.raw.raft.state != StateRole::Leader {
            self.window.clear();
            self.window_bytes = 0;
        }
        self.note_committed();
        let log = self.raw.mut_store();
        self.out.fetches.extend(log.take_fetches());
        self.out.wants_base |= log.take_wants_base();
        log.trim(self.applied);
    }

    /// Proposals that the disks of a majority have leave the window. Raft delivers them once this node's disk has them, too; they
    /// may be answered before that. Raft counts this node's disk like any other, so that may be a majority without it.
    fn note_committed(&mut self) {
        let commit = self.commit();
        while self.window.front().is_some_and(|first| first.index <= commit) {
            let Proposed { index, bytes, end } = self.window.pop_front().expect("it was looked at");
            self.window_bytes -= bytes;
            self.out.safe = Some(end).filter(|_| index > self.applied);
        }
    }

    fn handle(&mut self, mut ready: Ready) {
        self.newest = ready.number();
        self.write(&ready);
        for message in ready.take_messages() {
            self.send(&message);
        }
        for message in ready.take_persisted_messages() {
            self.send_late(&message);
        }
        let states = ready.take_read_states().into_iter();
        let asked = states.filter_map(|state| state.request_ctx.try_into().ok());
        let is_promise = self.transfer_term != self.term();
        let confirmed =
            asked.map(|asked| Confirmed { asked: u64::from_le_bytes(asked), is_promise });
        self.out.confirmed.extend(confirmed);
        let committed = ready.take_committed_entries();
        self.raw.advance_append_async(ready);
        self.deliver(&committed);
        if self.unsynced.is_empty() {
            self.reach();
        }
    }

    /// Data to make durable. Raft reads it from the log at once.
    fn write(&mut self, ready: &Ready) {
        let base = (!ready.snapshot().is_empty()).then(|| storage::base(ready.snapshot()));
        if let Some(base) = &base {
            self.raw.mut_store().restore(base.clone());
            self.members = base.members.clone();
            self.base_write = Some((ready.number(), base.clone()));
            self.draw_timeout();
        }
        let entries: Vec<LogEntry> =
            ready.entries().iter().map(|entry| self.given(entry)).collect();
        self.raw.mut_store().append(&entries);
        let hard = ready.hs().map(|hard| Vote { term: hard.term, voted_for: hard.vote });
        let vote = hard.filter(|vote| *vote != self.vote);
        if let Some(vote) = vote {
            (self.vote, self.vote_write) = (vote, ready.number());
        }
        if base.is_some() || !entries.is_empty() || vote.is_some() {
            let bytes = entries.iter().map(LogEntry::bytes).sum();
            self.unsynced.push_back((ready.number(), bytes));
            self.unsynced_bytes += bytes;
            let whole =
                Write { number: ready.number(), base, entries, vote, commit: self.commit() };
            self.out.writes.extend(after_members(whole));
        }
    }

    /// An entry that Raft was given in this call, or made by itself.
    fn given(&self, entry: &RaftEntry) -> LogEntry {
        let (index, term) = (entry.index, entry.term);
        let given = self.given.iter().find(|given| (given.index, given.term) == (index, term));
        if let Some(given) = given {
            return given.clone();
        }
        let payload = match entry.get_entry_type() {
            EntryType::EntryConfChangeV2 => Payload::Members(self.members.left()),
            _ => Payload::Blank,
        };
        assert!(entry.data.is_empty(), "entry {index} has a batch that nobody gave");
        LogEntry { index, term, node: self.id(), payload }
    }

    fn send(&mut self, message: &Message) {
        let outgoing = self.outgoing(message);
        self.out.messages.extend(outgoing);
    }

    /// Messages with promises wait until the promise is durable. An answer to a heartbeat promises the term alone.
    fn send_late(&mut self, message: &Message) {
        let is_vote_synced =
            self.unsynced.front().is_none_or(|(first, _)| *first > self.vote_write);
        let is_early =
            message.get_msg_type() == MessageType::MsgHeartbeatResponse && is_vote_synced;
        let Some(outgoing) = self.outgoing(message) else { return };
        if is_early {
            self.out.messages.push(outgoing);
        } else {
            self.late.push_back((self.newest, outgoing));
        }
    }

    fn outgoing(&mut self, message: &Message) -> Option<Outgoing> {
        if message.get_msg_type() == MessageType::MsgSnapshot {
            self.bases.insert(message.to, 0);
        }
        let log = self.raw.store();
        let entry = |entry: &RaftEntry| log.get(entry.index, entry.term).expect("it was just read");
        let entries: Vec<LogEntry> = message.entries.iter().map(entry).collect();
        codec::frame(message, &entries)
    }

    fn deliver(&mut self, committed: &[RaftEntry]) {
        for raft in committed {
            let entry = self.raw.store().get(raft.index, raft.term);
            let entry = entry.expect("what is not applied is in memory");
            if let Payload::Members(next) = &entry.payload {
                self.apply_members(next.clone());
            }
            self.applied = entry.index;
            self.out.committed.push(entry);
        }
        if let Some(last) = committed.last() {
            self.raw.advance_apply_to(last.index);
        }
    }

    fn apply_members(&mut self, next: Members) {
        let change = conf_change(&self.members, &next);
        let state = self.raw.apply_conf_change(&change).expect("it was checked when proposed");
        let is_same = are_equal(&state, &storage::conf_state(&next));
        assert!(is_same, "Raft made {state:?} of the change to {next:?}");
        self.members = next;
        let voters = [&self.members.voters, &self.members.outgoing];
        let is_voter = voters.iter().any(|list| list.contains(&self.id()));
        if !is_voter && self.raw.raft.state != StateRole::Follower {
            let term = self.term();
            self.raw.raft.become_follower(term, raft::INVALID_ID);
        }
        let gone: Vec<u64> =
            self.bases.keys().copied().filter(|id| !self.members.contains(*id)).collect();
        for id in gone {
            self.bases.remove(&id);
            self.raw.mut_store().base_ended();
        }
    }

    /// Tells Raft how far all is durable, and lets go what waited for that.
    pub(super) fn reach(&mut self) {
        let reach = self.unsynced.front().map_or(self.newest, |(first, _)| first - 1);
        self.raw.on_persist_ready(reach);
        if let Some((_, base)) = self.base_write.take_if(|(number, _)| *number <= reach) {
            self.raw.advance_apply_to(base.index);
            self.applied = base.index;
            self.out.committed.retain(|entry| entry.index > base.index);
            self.out.restored = Some(base);
            self.draw_timeout();
        }
        while self.late.front().is_some_and(|(number, _)| *number <= reach) {
            let (_, outgoing) = self.late.pop_front().expect("it was looked at");
            self.out.messages.push(outgoing);
        }
    }
}

/// The same in several writes, so that a change of members is written where everything before it that is committed is
/// known to be: a journal remembers the newest committed change and a few after it, and records the commit position
/// with its next write. A node that joins gets many of them at once. All but the last use the number before: it is
/// durable when they are.
fn after_members(mut whole: Write) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut part = |entries: Vec<LogEntry>, up_to: u64, whole: &mut Write| {
        let (number, commit) = (whole.number - 1, whole.commit.min(up_to));
        let (base, vote) = (whole.base.take(), whole.vote.take());
        writes.push(Write { number, base, entries, vote, commit });
    };
    let is_members = |entry: &LogEntry| matches!(entry.payload, Payload::Members(_));
    while let Some(at) = whole.entries.iter().position(is_members) {
        let index = whole.entries[at].index;
        let mut members = whole.entries.split_off(at);
        let before = std::mem::take(&mut whole.entries);
        part(before, index - 1, &mut whole);
        let rest = members.split_off(1);
        if rest.is_empty() {
            whole.entries = members;
            break;
        }
        part(members, index, &mut whole);
        whole.entries = rest;
    }
    writes.push(whole);
    writes
}

/// Raft's form of a change. The bytes of it that the library reads are those that it wrote itself: the log and the
/// peers get the members.
pub(super) fn conf_change(before: &Members, next: &Members) -> ConfChangeV2 {
    let mut change = ConfChangeV2::default();
    if before.is_joint() {
        assert_eq!(*next, before.left(), "a joint state is left before anything else");
        return change;
    }
    let single = |kind, id| {
        let mut single = ConfChangeSingle { node_id: id, ..ConfChangeSingle::default() };
        single.set_change_type(kind);
        single
    };
    for (step, id) in before.changes_to(next) {
        let kind = match step {
            NodeStep::Voter => ConfChangeType::AddNode,
            NodeStep::Learner => ConfChangeType::AddLearnerNode,
            NodeStep::Gone => ConfChangeType::RemoveNode,
        };
        change.mut_changes().push(single(kind, id));
    }
    if change.changes.is_empty() {
        // Names or addresses alone: nothing for Raft, which takes no change without a node in it.
        change.mut_changes().push(single(ConfChangeType::AddNode, next.voters[0]));
        return change;
    }
    if next.is_joint() {
        change.set_transition(ConfChangeTransition::Implicit);
    }
    change
}

/// Whether two are the same, in whatever order.
fn are_equal(one: &ConfState, other: &ConfState) -> bool {
    let sorted = |list: &[u64]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    let lists = |state: &ConfState| {
        let lists = [
            state.get_voters(),
            state.get_voters_outgoing(),
            state.get_learners(),
            state.get_learners_next(),
        ];
        (lists.map(sorted), state.auto_leave)
    };
    lists(one) == lists(other)
}
