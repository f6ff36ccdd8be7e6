//! One node: Raft, and what Raft needs of its driver.
//!
//! The library decides which node leads and what is committed. It trusts its driver, and if a rule is broken it stops,
//! or waits forever. The rules, each of which `tests/cluster/rules.rs` tests under that name:
//!
//! 1. *A received base is applied when it is durable.* Else a later election looks for entries that it replaced.
//! 2. *A base that was sent ends*, well or badly, at the latest when nothing was heard of it for a while. Else its
//!    receiver is sent nothing any more.
//! 3. *A base goes only to its members.* Another node would ignore it and be sent it forever; so a node that joins
//!    needs a base that is newer than its joining, which is requested.
//! 4. *Leadership is confirmed by a majority, each time.* The library's own lease runs up to 2 E after the last
//!    answer; others elect a leader after one.
//! 5. *No vote for E after a start*, nor for E after a leader was heard: this node may have promised it not to. The
//!    exception is a node that the leader has asked to take over, which has no promises in its term; if another node has
//!    been elected since, that is not the term of the request, or no other node can be elected in it.
//! 6. *Appends go in order, and nothing else after them.* An empty one that overtakes entries has them sent twice; a
//!    heartbeat that waits for a large one costs the leader its place.
//! 7. *A leader that is no voter any more steps down*: one that was elected in a joint state, and leaves with it. The
//!    library goes on, and stops at the next commit.
//!
//! And the order in which messages leave: a leader's appends at once, in parallel with its own sync; a follower's
//! promises when their content is durable. The answer to a heartbeat promises only the term, so that a slow disk does
//! not depose the leader.

mod ready;

use super::codec::{Head, Outgoing};
use super::entry::{Base, EpochFacts, LogEntry, Payload, Vote};
use super::output::{NotProposed, Output, PeerProgress, RaftRole, RefusedMessage};
use super::start::{Start, WrongStart, check};
use super::storage::{self, LogView};
use crate::cluster::members::Members;
use crate::limits::{
    BASE_SILENT_TICKS, BATCH_BYTES_MAX, CONFIRMATIONS_MAX, ELECTION_TICKS, HEARTBEAT_TICKS,
    UNSYNCED_BYTES_MAX, WINDOW_BATCHES_MAX, WINDOW_BYTES_MAX,
};
use bytes::Bytes;
use raft::eraftpb::{Message, MessageType};
use raft::{Config, NO_LIMIT, RawNode, ReadOnlyOption, SnapshotStatus, StateRole};
use ready::conf_change;
use std::collections::{BTreeMap, VecDeque};

pub struct Node {
    raw: RawNode<LogView>,
    out: Output,
    members: Members,
    applied: u64,
    /// Entries given to Raft in this call, by which it has only their sizes.
    given: Vec<LogEntry>,

    /// The number of the newest thing Raft wants done; those of writes among them.
    newest: u64,
    /// Writes that are not durable, and the bytes of their batches.
    unsynced: VecDeque<(u64, usize)>,
    unsynced_bytes: usize,
    /// Messages to send when a number is durable.
    late: VecDeque<(u64, Outgoing)>,
    /// The vote as of the newest write, and the newest write with a change of it.
    vote: Vote,
    vote_write: u64,
    /// A received base that is not durable: the number of its write.
    base_write: Option<(u64, Base)>,

    /// Batches proposed and not committed.
    window: VecDeque<Proposed>,
    window_bytes: usize,

    may_lead: bool,
    /// Ticks until it votes: after a start, and after a leader was heard.
    start_silence: usize,
    leader_silence: usize,
    /// The leader has asked it to take over while it was not fit to; and the ticks for which that counts.
    asked: Option<(Message, usize)>,
    /// The term in which leadership was to be handed over.
    transfer_term: u64,
    /// The node that a base is being sent to, and the ticks since it was last heard.
    bases: BTreeMap<u64, u32>,

    chance: Chance,
    timeout: usize,
    drawn_for: (u64, StateRole),
}

/// A batch on its way.
struct Proposed {
    index: u64,
    bytes: usize,
    /// The sequence after that of its last fact.
    end: u64,
}

impl Node {
    /// A node as it was left. It hears, and votes E later.
    pub fn new(start: Start) -> Result<Node, WrongStart> {
        check(&start)?;
        let mut log = LogView::new(&start);
        log.append(&start.entries);
        let config = Config {
            id: start.id,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: start.applied,
            // The log bounds by the bytes of the batches.
            max_size_per_msg: NO_LIMIT,
            max_inflight_msgs: WINDOW_BATCHES_MAX,
            check_quorum: true,
            pre_vote: true,
            read_only_option: ReadOnlyOption::Safe,
            ..Config::default()
        };
        let logger = super::start::logger(start.id);
        let raw = RawNode::new(&config, log, &logger).expect("what was checked can be begun with");
        let drawn_for = (raw.raft.term, raw.raft.state);
        let mut node = Node {
            raw,
            out: Output::default(),
            members: start.members,
            applied: start.applied,
            given: Vec::new(),
            newest: 0,
            unsynced: VecDeque::new(),
            unsynced_bytes: 0,
            late: VecDeque::new(),
            vote: start.vote,
            vote_write: 0,
            base_write: None,
            window: VecDeque::new(),
            window_bytes: 0,
            may_lead: true,
            start_silence: ELECTION_TICKS,
            leader_silence: 0,
            asked: None,
            transfer_term: 0,
            bases: BTreeMap::new(),
            chance: Chance(start.seed),
            timeout: 0,
            drawn_for,
        };
        node.draw_timeout();
        node.drain();
        Ok(node)
    }

    /// A thirtieth of E has passed. Whether a leader sends heartbeats now.
    pub fn tick(&mut self) -> bool {
        self.start_silence = self.start_silence.saturating_sub(1);
        self.leader_silence = self.leader_silence.saturating_sub(1);
        let asked = self.asked.take().filter(|(_, ticks)| *ticks > 0);
        self.asked = asked.map(|(message, ticks)| (message, ticks - 1));
        self.watch_bases();
        if !self.may_campaign() {
            // It counts as having waited, and never as having waited long enough: the tick adds one, and what was drawn may
            // be no more than ELECTION_TICKS.
            let raft = &mut self.raw.raft;
            let most = raft.randomized_election_timeout().saturating_sub(2).min(ELECTION_TICKS);
            raft.election_elapsed = raft.election_elapsed.min(most);
        }
        self.raw.tick();
        if self.raw.raft.election_elapsed == 0 {
            self.draw_timeout();
        }
        self.drain();
        self.raw.raft.state == StateRole::Leader && self.raw.raft.heartbeat_elapsed() == 0
    }

    /// How many ticks there are to the next one that does something, 1 for the next; unless a message comes. A follower
    /// is called a tick before it would miss its leader.
    pub fn ticks_to_sleep(&self) -> usize {
        let raft = &self.raw.raft;
        let has_more = self.start_silence > 0 || self.asked.is_some() || !self.bases.is_empty();
        let ticks = match raft.state {
            _ if has_more || self.is_transferring() => 1,
            StateRole::Leader => (raft.heartbeat_timeout() - raft.heartbeat_elapsed())
                .min(raft.election_timeout().saturating_sub(raft.election_elapsed)),
            StateRole::Follower => {
                let waits =
                    raft.randomized_election_timeout().saturating_sub(raft.election_elapsed);
                self.leader_silence.min(waits).saturating_sub(1)
            }
            StateRole::Candidate | StateRole::PreCandidate => 1,
        };
        ticks.max(1)
    }

    /// A whole message has arrived from `peer`, with the bodies that [`Head::bodies`] names.
    pub fn receive(
        &mut self,
        peer: u64,
        head: Head,
        bodies: Vec<Bytes>,
    ) -> Result<(), RefusedMessage> {
        let (message, entries) = head.into_message(bodies)?;
        self.check(peer, &message)?;
        if self.is_ignored(&message) {
            if message.get_msg_type() == MessageType::MsgTimeoutNow {
                self.asked = Some((message, ELECTION_TICKS));
            }
            return Ok(());
        }
        let (from, term, kind) = (message.from, message.term, message.get_msg_type());
        self.given = entries;
        // It refuses messages that have become meaningless on the way: from a node that is no
        // longer a member.
        let _ = self.raw.step(message);
        if is_from_leader(kind) && (self.leader(), self.term()) == (from, term) {
            self.leader_silence = ELECTION_TICKS;
        }
        self.drain();
        Ok(())
    }

    /// The writes up to this number are durable.
    pub fn persisted(&mut self, number: u64) {
        while let Some((_, bytes)) = self.unsynced.front().filter(|(first, _)| *first <= number) {
            self.unsynced_bytes -= bytes;
            self.unsynced.pop_front();
        }
        self.reach();
        self.drain();
    }

    /// Proposes facts that were decided in `term`; their index.
    ///
    /// # Panics
    /// If there are none, or they begin before the first fact: peers would take that for garbage.
    pub fn propose(&mut self, term: u64, facts: EpochFacts) -> Result<u64, NotProposed> {
        assert!(facts.count > 0 && facts.first > 0, "facts {} + {}", facts.first, facts.count);
        if self.raw.raft.state != StateRole::Leader {
            return Err(NotProposed::NotLeader);
        }
        if term != self.term() {
            return Err(NotProposed::Stale { decided: term, now: self.term() });
        }
        let bytes = facts.body.len();
        if bytes == 0 || bytes > BATCH_BYTES_MAX {
            return Err(NotProposed::Size(bytes));
        }
        if self.is_transferring() {
            return Err(NotProposed::Transferring);
        }
        if !self.has_room(bytes) {
            return Err(NotProposed::Full);
        }
        let (index, node) = (self.raw.raft.raft_log.last_index() + 1, self.id());
        let end = facts.first + u64::from(facts.count);
        self.given = vec![LogEntry { index, term, node, payload: Payload::Facts(facts) }];
        let data = storage::size_of_batch(bytes).to_vec();
        // A leader that is no member any more, and has yet to step down.
        self.raw.propose(Vec::new(), data).map_err(|_| NotProposed::NotLeader)?;
        self.window.push_back(Proposed { index, bytes, end });
        self.window_bytes += bytes;
        self.drain();
        Ok(index)
    }

    /// Whether a batch of this size may be proposed in addition to those in flight. Entries on the others' disks are no
    /// longer in flight, but this node's own disk may be behind by no more than it is with another leader.
    pub fn has_room(&self, bytes: usize) -> bool {
        if self.is_behind() {
            return false;
        }
        self.window.is_empty()
            || self.window.len() < WINDOW_BATCHES_MAX
                && self.window_bytes + bytes <= WINDOW_BYTES_MAX
    }

    /// Whether its disk has so much to make durable that it is not to be given more.
    pub fn is_behind(&self) -> bool {
        self.unsynced_bytes > UNSYNCED_BYTES_MAX
    }

    /// Begins to change the members to `target`; a change of more than one node passes through a joint state, whose end
    /// the leader proposes by itself. Returns the index of the entry with which it begins; none where this node does not
    /// lead, another change, a hand-over or the beginning of the term is on its way, it would leave itself, which a hand-over
    /// comes before, or there can be no such members.
    pub fn change(&mut self, target: &Members) -> Option<u64> {
        let raft = &self.raw.raft;
        let is_free = raft.state == StateRole::Leader
            && !raft.has_pending_conf()
            && !self.members.is_joint()
            && !self.is_transferring();
        if !is_free || !target.voters.contains(&raft.id) {
            return None;
        }
        let next = self.members.toward(target).ok()?;
        let change = conf_change(&self.members, &next);
        let (index, term, node) = (raft.raft_log.last_index() + 1, self.term(), raft.id);
        self.given = vec![LogEntry { index, term, node, payload: Payload::Members(next) }];
        self.raw.propose_conf_change(Vec::new(), change).ok()?;
        self.drain();
        Some(index)
    }

    /// Begins to hand leadership over to a voter, which is brought up to date first. Nothing is proposed meanwhile; if
    /// it does not lead within E, this node goes on. End its lease before.
    pub fn transfer(&mut self, to: u64) -> bool {
        let is_possible = self.raw.raft.state == StateRole::Leader
            && to != self.raw.raft.id
            && self.members.voters.contains(&to);
        if is_possible {
            self.transfer_term = self.term();
            self.raw.transfer_leader(to);
            self.drain();
        }
        is_possible
    }

    /// Whether a leader has said within E that it is one: that it asks for votes does not count.
    pub fn hears_leader(&self) -> bool {
        self.leader_silence > 0
    }

    /// Stops leading, without a successor.
    pub fn step_down(&mut self) {
        if self.raw.raft.state == StateRole::Leader {
            let term = self.term();
            self.raw.raft.become_follower(term, raft::INVALID_ID);
            self.drain();
        }
    }

    /// Asks a majority whether this node still leads. `asked` is the time of asking, and grows; it comes back in
    /// [`Output::confirmed`]. Nothing comes back if this node does not lead, or has not committed
    /// anything in its term.
    pub fn confirm(&mut self, asked: u64) {
        let raft = &self.raw.raft;
        if raft.state == StateRole::Leader && raft.pending_read_count() < CONFIRMATIONS_MAX {
            self.raw.read_index(asked.to_le_bytes().to_vec());
            self.drain();
        }
    }

    /// Whether this node may ask for votes: not while its state is not loaded, for example. It still votes. A node that
    /// the leader has asked to take over shortly before takes over now.
    pub fn set_may_lead(&mut self, may_lead: bool) {
        self.may_lead = may_lead;
        self.draw_timeout();
        if let Some((message, _)) = self.asked.take_if(|(_, _)| may_lead)
            && !self.is_ignored(&message)
        {
            _ = self.raw.step(message);
            self.drain();
        }
    }

    /// The result of a fetch, from its first index on; nothing if the log no longer has it.
    pub fn fetched(&mut self, number: u64, entries: Vec<LogEntry>) {
        for context in self.raw.mut_store().fetched(number, entries) {
            self.raw.on_entries_fetched(context);
        }
        self.drain();
    }

    /// A base of this node's own is in place, with applied entries. It is sent to any node that needs one.
    pub fn base_made(&mut self, base: Base) {
        assert!(base.index <= self.applied, "a base of what is not applied");
        self.raw.mut_store().set_base(base);
    }

    /// The log no longer has what is before `first`, which is in a base.
    pub fn log_dropped(&mut self, first: u64) {
        self.raw.mut_store().drop_before(first);
    }

    /// A base on its way to `to` goes on.
    pub fn base_moves(&mut self, to: u64) {
        if let Some(silent) = self.bases.get_mut(&to) {
            *silent = 0;
        }
    }

    /// A base that was sent to `to` has arrived whole, with its frame; or it never will.
    pub fn base_ended(&mut self, to: u64, arrived: bool) {
        if self.bases.remove(&to).is_some() {
            self.raw.mut_store().base_ended();
            let status = if arrived { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
            self.raw.report_snapshot(to, status);
            self.drain();
        }
    }

    /// The connection to `to` is gone, and what was on its way with it.
    pub fn unreachable(&mut self, to: u64) {
        self.raw.report_unreachable(to);
        self.drain();
    }

    /// The work since the last call.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.out)
    }

    pub fn id(&self) -> u64 {
        self.raw.raft.id
    }

    pub fn role(&self) -> RaftRole {
        match self.raw.raft.state {
            StateRole::Leader => RaftRole::Leader,
            StateRole::Candidate | StateRole::PreCandidate => RaftRole::Candidate,
            StateRole::Follower => RaftRole::Follower,
        }
    }

    /// Whether it leads, and all that was committed before it did so is applied: it may decide.
    pub fn is_leading(&self) -> bool {
        self.raw.raft.state == StateRole::Leader && self.raw.raft.apply_to_current_term()
    }

    /// The leader, as far as it knows; 0 for none.
    pub fn leader(&self) -> u64 {
        self.raw.raft.leader_id
    }

    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// The last index known committed, durable here or not.
    pub fn commit(&self) -> u64 {
        self.raw.raft.raft_log.committed
    }

    /// The last index handed out in [`Output::committed`], or in a base.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The first index the log still has.
    pub fn first(&self) -> u64 {
        self.raw.store().first()
    }

    /// The last index of the log.
    pub fn last(&self) -> u64 {
        self.raw.store().last()
    }

    /// The last index of the log that is durable here.
    pub fn durable(&self) -> u64 {
        self.raw.raft.raft_log.persisted
    }

    /// The term of an index of the log, and of the one before its first.
    pub fn term_of(&self, index: u64) -> Option<u64> {
        self.raw.store().term_of(index)
    }

    pub fn base(&self) -> &Base {
        self.raw.store().base()
    }

    /// The members as of the last applied index.
    pub fn members(&self) -> &Members {
        &self.members
    }

    pub fn is_transferring(&self) -> bool {
        self.raw.raft.lead_transferee.is_some()
    }

    pub fn transferee(&self) -> Option<u64> {
        self.raw.raft.lead_transferee
    }

    /// The others, as this leader knows them.
    pub fn peers(&self) -> Vec<PeerProgress> {
        let raft = &self.raw.raft;
        let others = self.members.all().into_iter().filter(|id| *id != raft.id);
        let peer = |id| {
            let progress = raft.prs().get(id)?;
            Some(PeerProgress {
                id,
                matched: progress.matched,
                needs_base: progress.state == raft::ProgressState::Snapshot,
                is_heard: progress.recent_active,
            })
        };
        others.filter_map(peer).collect()
    }

    /// The log's own checks are Raft's; these are of what it takes for granted.
    fn check(&self, peer: u64, message: &Message) -> Result<(), RefusedMessage> {
        let (from, to) = (message.from, message.to);
        if from != peer || to != self.id() {
            return Err(RefusedMessage::Nodes { peer, from, to });
        }
        let last = self.last();
        let counted_on = match message.get_msg_type() {
            MessageType::MsgHeartbeat if message.term >= self.term() => message.commit,
            // A former leader that was restarted may receive messages about entries that it forgot
            // unsynced.
            MessageType::MsgAppendResponse
                if !message.reject && self.led_term() == Some(message.term) =>
            {
                message.index
            }
            _ => 0,
        };
        if counted_on > last {
            Err(RefusedMessage::Ahead { peer, index: counted_on, last })
        } else {
            Ok(())
        }
    }

    fn led_term(&self) -> Option<u64> {
        (self.raw.raft.state == StateRole::Leader).then_some(self.raw.raft.term)
    }

    /// Whether to ignore the message for now.
    fn is_ignored(&self, message: &Message) -> bool {
        match message.get_msg_type() {
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => {
                // A leader that hands over has given up its promises; and a former leader has lost its own.
                let is_promised = self.start_silence > 0 || self.leader_silence > 0;
                is_promised && message.context.is_empty()
            }
            MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => {
                !self.is_fit_to_lead() && !message.reject
            }
            MessageType::MsgTimeoutNow => {
                !self.is_fit_to_lead()
                    || (message.from, message.term) != (self.leader(), self.term())
            }
            _ => false,
        }
    }

    /// A lone voter becomes leader as soon as it asks: what it has must be durable by then.
    fn may_campaign(&self) -> bool {
        let voters = self.members.voters.iter().chain(&self.members.outgoing);
        let is_alone = voters.copied().all(|id| id == self.id());
        self.is_fit_to_lead() && (!is_alone || self.unsynced.is_empty())
    }

    /// Not while a received base is not durable: Raft looks through all that is not applied before it asks for votes,
    /// and the log has nothing of what came before the base.
    fn is_fit_to_lead(&self) -> bool {
        self.may_lead && self.base_write.is_none()
    }

    fn watch_bases(&mut self) {
        if self.raw.raft.state != StateRole::Leader && !self.bases.is_empty() {
            self.bases.clear();
            self.raw.mut_store().base_ended();
        }
        let mut silent = Vec::new();
        for (to, ticks) in &mut self.bases {
            *ticks += 1;
            if *ticks > BASE_SILENT_TICKS {
                silent.push(*to);
            }
        }
        silent.into_iter().for_each(|to| self.base_ended(to, false));
    }

    /// The library draws from the system's chance whenever role or term changes; what it drew is replaced.
    fn redraw_timeout(&mut self) {
        let now = (self.raw.raft.term, self.raw.raft.state);
        if self.drawn_for == now {
            self.raw.raft.set_randomized_election_timeout(self.timeout);
        } else {
            self.drawn_for = now;
            self.draw_timeout();
        }
    }

    fn draw_timeout(&mut self) {
        let drawn = ELECTION_TICKS + self.chance.below(ELECTION_TICKS);
        // One that may not lead waits as long as there is.
        self.timeout = if self.is_fit_to_lead() { drawn } else { 2 * ELECTION_TICKS - 1 };
        self.raw.raft.set_randomized_election_timeout(self.timeout);
    }
}

fn is_from_leader(kind: MessageType) -> bool {
    use MessageType::{MsgAppend, MsgHeartbeat, MsgSnapshot};
    matches!(kind, MsgAppend | MsgHeartbeat | MsgSnapshot)
}

/// SplitMix64: enough for timeouts that should differ between nodes.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}
