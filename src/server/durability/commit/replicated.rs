//! The commit of a node of a cluster: a batch is safe once a majority has it.
//!
//! The turn decides and applies at once if this node leads, proposes its decisions under a *ticket*, and releases
//! replies when the batch of the ticket comes back. Decisions of other nodes are applied when they come back. See
//! [`Member`] for the engine after leadership ends.
//!
//! Reads of a leader must not miss changes by another leader: while the lease runs no other node can have been elected;
//! after it has run out, their replies wait until a majority has heard this leader after their turn began.

use crate::cluster;
use crate::cluster::driver::{DriverEvent, MemberChange, Proposed, Status, WrongChange};
use crate::cluster::members::directory::{self, Directory};
use crate::cluster::raft::entry::{Base, EpochFacts, LogEntry, Payload};
use crate::cluster::raft::member::{
    self, DecidedBatch, Delivery, Effect, EnginePosition, Member, Role,
};
use crate::cluster::timing::health::Why;
use crate::engine::Applying;
use crate::engine::model::fact::Fact;
use crate::ids::Index;
use crate::journal::record::entry::TurnBatch;
use crate::journal::record::raft_state::Members;
use crate::journal::record::span;
use crate::limits::{MAKE_WAY_US, REPLICA_PRIORITY_DEFAULT, SYNC_US_MAX, UNCONFIRMED_STEP_US};
use crate::observe::cluster::ClusterView;
use crate::server::cluster::mailbox::{Ask, Mailbox};
use crate::server::cluster::thread::RaftThread;
use crate::server::durability::commit::log_thread::LogThread;
use crate::server::durability::loading::EngineReader;
use crate::server::outbox::gate::TurnNo;
use crate::time::Micros;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

pub struct Replicated {
    /// Between the turn and the thread of Raft.
    pub mailbox: Arc<Mailbox>,
    raft: Option<RaftThread<LogThread>>,
    pub own: Own,
    member: Member,
    /// The members as of the newest entry delivered.
    members: Option<Members>,
    /// Reports that are not handled yet.
    told: VecDeque<DriverEvent>,
    /// The entry of another leader that the engine is applying, and the progress.
    pub applying: Option<(EpochFacts, Applying)>,
    /// The epoch in which the turn decides.
    decides: Option<u64>,
    /// The newest ticket, the newest of which the batch is committed, and the newest of which it is durable here, too.
    newest: u64,
    safe: u64,
    durable: u64,
    /// This node's proposals that were not delivered. Those that are safe are committed.
    ahead: VecDeque<Ahead>,
    ahead_bytes: u64,
    /// The instant of the newest fact, proposed or applied.
    last: Micros,
    /// Turns that have read without a lease: the first of each group, and when the last of it began.
    unconfirmed: VecDeque<Unconfirmed>,
    /// Nothing is decided until nothing is ahead, for a base to begin.
    settling: bool,
    /// The last report to the thread of Raft.
    may_lead: bool,
    has_room: bool,
    priority: u64,
    resigned: bool,
    /// Before it no other node is asked to lead for want of room; boot clock, µs.
    makes_way_us: u64,
    is_clock_wrong: bool,
    /// How often the engine had to be read again.
    pub reloads: u64,
    /// Changes of members that were asked for, as far as is known not heard yet, and the number of the first of them.
    asked: (u64, VecDeque<MemberChange>),
}

/// The properties of a node that do not change while it runs.
pub struct Own {
    pub id: u64,
    /// Its name and addresses.
    pub node: directory::Node,
    /// E, µs.
    pub election_us: u64,
    /// How long leases of jobs live at least after a change of leader, µs.
    pub lease_grace_us: u64,
    /// Beyond this its wall clock is wrong, µs: `cluster-max-clock-skew`.
    pub max_skew_us: u64,
    /// Reads its engine again.
    pub reader: EngineReader,
}

/// A proposal on its way.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    ticket: u64,
    bytes: u64,
    /// When it was proposed; monotonic, µs.
    since_us: u64,
}

/// The oldest of what was decided on a leader and is not committed; monotonic, µs.
#[derive(Clone, Copy, Debug)]
pub struct OldestUncommitted {
    /// Since then it is on its way.
    pub since_us: u64,
    /// From then on it is late, and waiting clients should look for another node.
    pub late_us: u64,
}

/// Times are of the clock of the lease.
#[derive(Clone, Copy, Debug)]
struct Unconfirmed {
    turn: TurnNo,
    begun: Micros,
    newest: Micros,
}

/// The tasks of the turn, in order.
#[derive(Debug)]
pub enum Heard {
    /// The engine applies what another node has decided.
    Apply(EpochFacts),
    /// The cluster was founded.
    Founded {
        /// The key of the hash of job ids on all nodes.
        hash_seed: u64,
    },
    /// This node decides from here on.
    Leads { epoch: u64 },
    /// It does not decide any more.
    Deposed {
        /// The first turn whose reads were never confirmed.
        unconfirmed: Option<TurnNo>,
    },
    /// The engine has facts that are lost: it is read again.
    Lost,
    /// A base has come from another node: the engine is read from it.
    Restored {
        /// The key of the hash of job ids on all nodes.
        hash_seed: Option<u64>,
    },
    /// Another node waits for a base that there is not yet.
    BaseWanted,
}

impl Replicated {
    /// For a node whose engine is at this index, with these members, as of the instant `last`.
    pub fn new(
        own: Own,
        mailbox: Arc<Mailbox>,
        raft: Option<RaftThread<LogThread>>,
        position: EnginePosition,
        members: Option<Members>,
        last: Micros,
    ) -> Replicated {
        Replicated {
            own,
            mailbox,
            raft,
            members,
            member: Member::new(position),
            told: VecDeque::new(),
            applying: None,
            decides: None,
            newest: 0,
            safe: 0,
            durable: 0,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            last,
            unconfirmed: VecDeque::new(),
            settling: false,
            may_lead: false,
            has_room: true,
            priority: REPLICA_PRIORITY_DEFAULT,
            resigned: false,
            makes_way_us: 0,
            is_clock_wrong: false,
            reloads: 0,
            asked: (0, VecDeque::new()),
        }
    }

    /// Takes in the reports of the thread of Raft since the last call.
    pub fn listen(&mut self) {
        self.mailbox.take_told(&mut self.told);
    }

    /// The next thing to be done; nothing for now, or while the engine is being read.
    ///
    /// # Panics
    /// See [`Member::deliver`].
    pub fn next(&mut self) -> Option<Heard> {
        loop {
            if let Some(heard) = self.changed_role() {
                return Some(heard);
            }
            let heard = match self.told.front()? {
                DriverEvent::Elected { epoch } => {
                    let epoch = *epoch;
                    self.resigned = false;
                    let _ = self.member.elected(epoch);
                    None
                }
                DriverEvent::Followed { leader } => {
                    self.member.followed(*leader);
                    None
                }
                DriverEvent::Safe { epoch, end } => {
                    let ticket = self.member.safe(*epoch, *end);
                    self.safe = self.safe.max(ticket.unwrap_or(0));
                    None
                }
                DriverEvent::Refused { epoch, first, count } => {
                    let (epoch, first, count) = (*epoch, *first, u64::from(*count));
                    let batch = DecidedBatch { epoch, first, count };
                    self.member.refused(batch).map(|_| Heard::Lost)
                }
                // The running load comes first.
                DriverEvent::Restored(_) if self.is_loading() => return None,
                DriverEvent::Restored(base) => {
                    let (epoch, index) = (base.term, Index(base.index));
                    self.members = Some(noted(epoch, index, &base.members));
                    let directory = Directory::decode(&base.members.directory).ok();
                    self.member.restored(index);
                    let hash_seed = directory.map(|directory| directory.hash_seed);
                    Some(Heard::Restored { hash_seed })
                }
                DriverEvent::BaseWanted => Some(Heard::BaseWanted),
                DriverEvent::Delivered(entry) => match self.member.deliver(&delivery(entry)) {
                    // It comes again when the engine is there.
                    Effect::Wait => return None,
                    Effect::Reload(_) => return Some(self.lose()),
                    Effect::Apply => {
                        let Payload::Facts(facts) = &entry.payload else {
                            unreachable!("only facts are applied")
                        };
                        Some(Heard::Apply(facts.clone()))
                    }
                    Effect::Confirmed { ticket } => {
                        self.confirm(ticket);
                        None
                    }
                    Effect::Passed | Effect::Leads { .. } => match &entry.payload {
                        Payload::Members(members) => {
                            let (epoch, index) = (entry.term, Index(entry.index));
                            self.members = Some(noted(epoch, index, members));
                            // Only before the first fact is there an engine to begin with.
                            let directory = Directory::decode(&members.directory).ok();
                            let is_new = self.member.position().first == 1;
                            let seed = directory.map(|directory| directory.hash_seed);
                            seed.filter(|_| is_new).map(|hash_seed| Heard::Founded { hash_seed })
                        }
                        _ => None,
                    },
                    Effect::Old => None,
                },
            };
            self.told.pop_front();
            match heard {
                Some(Heard::Lost) => return Some(self.lose()),
                Some(Heard::Restored { .. }) => {
                    let _ = self.lose();
                    return heard;
                }
                _ => {}
            }
            if heard.is_some() {
                return heard;
            }
        }
    }

    /// Whether there is more to be done than the last turn did.
    pub fn is_behind(&self) -> bool {
        self.applying.is_some() || !self.told.is_empty() && !self.is_loading()
    }

    /// The state of the cluster for display, from Raft's status of this node.
    pub fn view(&self, status: &Status, now: Micros) -> ClusterView {
        let (applied, lease) = (self.position().index.0, self.mailbox.lease());
        ClusterView {
            leads: self.decides(),
            loading: self.is_loading(),
            reloads: self.reloads,
            election_us: self.own.election_us,
            max_skew_us: self.own.max_skew_us,
            ..ClusterView::of(status, &self.own.node, applied, lease, now)
        }
    }

    pub fn role(&self) -> Role {
        self.member.role()
    }

    /// Asks the thread of Raft for a change of the members, if it can be by what that has said last, and after those that
    /// it was asked for since.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn change(&mut self, change: MemberChange) -> Result<(), WrongChange> {
        let status = self.mailbox.status().ok_or(WrongChange::NotLeader)?;
        let (first, asked) = &mut self.asked;
        while *first < status.changes_heard && asked.pop_front().is_some() {
            *first += 1;
        }
        let mut status = Status::clone(&status);
        status.asked.extend(asked.iter().cloned());
        status.check_change(&change)?;
        asked.push_back(change.clone());
        self.mailbox.ask(Ask::Change(change));
        Ok(())
    }

    pub fn decides(&self) -> bool {
        self.decides.is_some()
    }

    /// Whether the engine shows nothing but what is committed, and durable here.
    pub fn is_committed(&self) -> bool {
        self.member.is_committed()
    }

    /// Whether all decisions are committed. This node's own disk may be behind.
    pub fn is_safe(&self) -> bool {
        self.newest == self.safe && !self.is_loading()
    }

    /// Whether the engine is being read again.
    pub fn is_loading(&self) -> bool {
        self.member.role() == Role::Loading
    }

    /// How far the engine is, as far as that is committed.
    pub fn position(&self) -> EnginePosition {
        self.member.position()
    }

    pub fn members(&self) -> Option<&Members> {
        self.members.as_ref()
    }

    /// The instant of the newest fact.
    pub fn last(&self) -> Micros {
        self.last
    }

    /// Facts of others were applied up to this instant.
    pub fn applied(&mut self, last: Micros) {
        self.last = self.last.max(last);
    }

    /// The engine cannot go on, though it has nothing that is lost: it is read again.
    pub fn discard(&mut self) {
        self.member.discard();
        let _ = self.lose();
    }

    /// The engine was read again, up to there.
    pub fn loaded(&mut self, position: EnginePosition, last: Micros) {
        (self.last, self.resigned) = (last, false);
        let _ = self.member.loaded(position);
    }

    /// Puts a turn's facts on their way. They are safe with the newest ticket.
    ///
    /// # Panics
    /// If this node does not decide.
    pub(super) fn propose(&mut self, batch: TurnBatch<'_>) {
        let TurnBatch { now, mono_us, facts, .. } = batch;
        let mut body = Vec::with_capacity(facts.bytes.len() + AT_BYTES);
        let mut count = facts.count;
        if now != self.last {
            // It may be placed after the facts of an earlier turn.
            Fact::At { now }.encode(&mut body);
            count += 1;
        }
        body.append(&mut facts.bytes);
        facts.count = 0;
        (self.newest, self.last) = (self.newest + 1, now);
        let DecidedBatch { epoch, first, count } = self.member.propose(count, self.newest);
        let bytes = span(body.len());
        self.ahead.push_back(Ahead { ticket: self.newest, bytes, since_us: mono_us });
        self.ahead_bytes += bytes;
        let count = u32::try_from(count).expect("a turn makes less than 2^32 facts");
        self.mailbox.propose(Proposed { epoch, first, count, now, body: body.into() });
    }

    /// The newest ticket, and the newest that is committed and durable here.
    pub fn tickets(&self) -> (u64, u64) {
        (self.newest, self.durable)
    }

    /// The newest ticket of which replies may leave.
    pub fn safe(&self) -> u64 {
        self.safe
    }

    /// Bytes proposed here and not delivered.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    /// Since when the oldest of what is not committed is on its way; monotonic, µs; 0 for none.
    pub fn uncommitted_since_us(&self) -> u64 {
        let safe = self.ahead.partition_point(|ahead| ahead.ticket <= self.safe);
        self.ahead.get(safe).map_or(0, |ahead| ahead.since_us)
    }

    /// The oldest of what was decided here and is not committed.
    pub fn uncommitted(&self) -> Option<OldestUncommitted> {
        let limit_us = SYNC_US_MAX.max(2 * self.own.election_us);
        let since_us = Some(self.uncommitted_since_us()).filter(|us| *us > 0 && self.decides());
        since_us.map(|since_us| OldestUncommitted { since_us, late_us: since_us + limit_us })
    }

    /// A turn begins that reads from the engine, at `now` of the lease's clock.
    pub fn begin_turn(&mut self, turn: TurnNo, now: Micros) {
        let (until_us, _) = self.mailbox.lease();
        if !self.decides() || now.0 < until_us {
            return;
        }
        match self.unconfirmed.back_mut() {
            Some(group) if now.0 - group.begun.0 < UNCONFIRMED_STEP_US => group.newest = now,
            _ => self.unconfirmed.push_back(Unconfirmed { turn, begun: now, newest: now }),
        }
    }

    /// The turn up to which replies may leave, of those up to `released` as far as the batches go.
    pub(super) fn confirmed(&mut self, released: TurnNo) -> TurnNo {
        let (until_us, heard_us) = self.mailbox.lease();
        // A later lease covers them, too: no other node was elected before it ends.
        let is_confirmed =
            |group: &Unconfirmed| group.newest.0 <= heard_us || group.newest.0 < until_us;
        while self.unconfirmed.front().is_some_and(is_confirmed) {
            self.unconfirmed.pop_front();
        }
        self.unconfirmed.front().map_or(released, |group| released.min(group.turn - 1))
    }

    /// Whether nothing is decided for now, so that a base may begin.
    pub fn is_settling(&self) -> bool {
        self.settling
    }

    /// Whether no requests are read for now.
    pub fn holds_requests(&self) -> bool {
        self.settling || self.applying.is_some()
    }

    /// See [`super::Journal::settle`].
    pub(super) fn settle(&mut self, wanted: bool, mono_us: u64) -> bool {
        // Safe batches may be missing in this node's log, which must not end before its base.
        let is_whole = self.ahead.is_empty() && self.applying.is_none();
        let is_settled = is_whole && !self.is_loading();
        let hangs = || {
            let sick = self.mailbox.status().and_then(|status| status.health.sick);
            sick.is_some_and(|sick| sick.why == Why::DiskHangs)
        };
        // While nothing is committed, a base would keep all requests waiting, PING among them.
        let is_late = || self.uncommitted().is_some_and(|oldest| mono_us >= oldest.late_us);
        // Else all would wait for a disk that the others do without.
        self.settling = wanted && !is_settled && self.decides() && !hangs() && !is_late();
        wanted && is_settled
    }

    /// Why another node should lead, if one should: repeated at intervals.
    pub fn makes_way(&mut self, now: Micros) -> Option<&'static str> {
        let status = self.mailbox.status();
        let clock = status.as_ref().and_then(|status| status.clock);
        let ahead_us = clock.map_or(0, |clock| clock.ahead);
        self.note_clock(ahead_us);
        // A clock that is ahead is limited by the others' clocks; one that is behind would make every job late.
        let is_late = ahead_us < 0 && self.is_clock_wrong;
        let sick = status.filter(|status| status.makes_way).and_then(|status| status.health.sick);
        let why = sick.map(|sick| sick.why.text());
        let why = why.or(is_late.then_some("its wall clock is behind"));
        why.filter(|_| self.decides() && now.0 >= self.makes_way_us)
            .inspect(|_| self.makes_way_us = now.0 + MAKE_WAY_US)
    }

    /// Tells the thread of Raft whether this node may lead: its engine is there, and the disk has `room`.
    pub fn tell_may_lead(&mut self, room: bool, priority: u64) {
        let may_lead = !self.is_loading();
        if may_lead != self.may_lead {
            self.may_lead = may_lead;
            self.mailbox.ask(Ask::MayLead(may_lead));
        }
        if priority != self.priority {
            self.priority = priority;
            self.mailbox.ask(Ask::Priority(priority));
        }
        if room != self.has_room {
            self.has_room = room;
            self.mailbox.ask(Ask::HasRoom(room));
        }
        if self.member.must_resign() && !self.resigned {
            self.resigned = true;
            self.mailbox.ask(Ask::Resign);
        }
    }

    /// Says when this node's wall clock begins to be wrong, and when it is right again.
    fn note_clock(&mut self, ahead_us: i64) {
        let is_wrong = ahead_us.unsigned_abs() > self.own.max_skew_us;
        if is_wrong == self.is_clock_wrong {
            return;
        }
        self.is_clock_wrong = is_wrong;
        let max_us = self.own.max_skew_us;
        if is_wrong {
            tracing::warn!(
                ahead_us,
                max_us,
                "this node's wall clock differs from the majority's: it leads only if no other can, and by their \
                 clocks"
            );
        } else {
            tracing::info!(ahead_us, "this node's wall clock agrees with the majority's");
        }
    }

    /// A base of this node's own is in place, up to `index`: others may be sent it, and the log gives up what is not to
    /// be kept.
    pub(super) fn base_made(&self, index: Index, epoch: u64, members: Option<&Members>) {
        let members = members.map(|noted| cluster::members::Members::decode(&noted.body));
        let Some(members) = members else { return };
        let members = members.expect("they were encoded here");
        self.mailbox.ask(Ask::BaseMade(Base { index: index.0, term: epoch, members }));
    }

    /// Ends the thread of Raft, and with it the log's. Whether that has ended by then.
    pub(super) fn stop(self, until: Instant) -> bool {
        let log = self.raft.and_then(RaftThread::stop);
        log.is_none_or(|mut log| log.stop(Some(until)))
    }

    /// Changes of the role that the turn has not seen yet.
    fn changed_role(&mut self) -> Option<Heard> {
        let decides = match self.member.role() {
            Role::Leader { epoch } => Some(epoch),
            _ => None,
        };
        if self.decides == decides {
            return None;
        }
        // From one epoch to another it does not decide in between.
        if self.decides.take().is_some() {
            let unconfirmed = self.unconfirmed.front().map(|group| group.turn);
            self.unconfirmed.clear();
            self.settling = false;
            return Some(Heard::Deposed { unconfirmed });
        }
        self.decides = decides;
        decides.map(|epoch| Heard::Leads { epoch })
    }

    fn confirm(&mut self, ticket: u64) {
        (self.safe, self.durable) = (self.safe.max(ticket), ticket);
        while let Some(ahead) = self.ahead.front().filter(|ahead| ahead.ticket <= ticket) {
            self.ahead_bytes -= ahead.bytes;
            self.ahead.pop_front();
        }
    }

    fn lose(&mut self) -> Heard {
        self.ahead.clear();
        self.reloads += 1;
        (self.ahead_bytes, self.decides) = (0, None);
        (self.safe, self.durable) = (self.newest, self.newest);
        self.unconfirmed.clear();
        self.settling = false;
        Heard::Lost
    }
}

impl fmt::Debug for Replicated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicated").field("member", &self.member).finish_non_exhaustive()
    }
}

/// Bytes of an encoded `At`, at the most.
const AT_BYTES: usize = 16;

/// As bases have them.
fn noted(epoch: u64, index: Index, members: &cluster::members::Members) -> Members {
    let mut body = Vec::new();
    members.encode(&mut body);
    Members { epoch, index, body }
}

fn delivery(entry: &LogEntry) -> Delivery {
    let payload = match &entry.payload {
        Payload::Blank => member::Payload::Blank,
        Payload::Members(_) => member::Payload::Members,
        Payload::Facts(facts) => member::Payload::Facts(DecidedBatch {
            epoch: entry.term,
            first: facts.first,
            count: facts.count.into(),
        }),
    };
    Delivery { index: Index(entry.index), epoch: entry.term, payload }
}
