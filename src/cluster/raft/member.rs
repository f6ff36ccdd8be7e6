//! The state of an engine that decides ahead of committed entries.
//!
//! A leader applies what it decides at once, and proposes it; replies wait until it is committed. If leadership is
//! lost meanwhile, some of that may never be. There is no way back for an engine, so: *if all of its own facts come
//! back committed it is kept, else it is thrown away and read again* from base and log.
//!
//! ```text
//!             elected, its first entry and all before it applied
//!  Follower ──────────────> Rising ──────> Leader ── proposes: `ahead` grows, each batch with its ticket
//!     ^                                       │
//!     └────────────── followed ───────────────┘ `ahead` stays until each batch has come back or cannot any more
//!  Loading: the engine is read anew; deliveries wait
//! ```
//!
//! How it is known that a batch cannot come back: the log's epochs never fall, and an epoch has one leader. So after
//! the first entry of a later epoch no batch of an earlier one is delivered. Every epoch begins with an entry of its
//! leader, so the question is never open for long.
//!
//! An epoch is a term of Raft. A batch is known by its epoch and the sequence of its first fact, which travel with it
//! and are the same on every node. Several proposals may come back as one entry: what is proposed while others are on
//! their way is put together.
//!
//! Worked: a leader of epoch 5 has proposed facts 101 to 110 (ticket 1) and 111 to 112 (ticket 2), and is cut off.
//! Delivered: `(5, 101, 10)`: ticket 1 is confirmed, though the node does not lead any more. Then the first entry of
//! epoch 6: facts 111 and 112 are lost. The engine has applied them, so it is loaded again, and clients that wait for
//! ticket 2 get no answer.

use crate::ids::Index;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// This node's role for the engine's clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Another node decides, or none does.
    Follower {
        /// The leader's id, if one is known.
        leader: Option<u64>,
    },
    /// Elected; what earlier leaders have left is not all applied.
    Rising { epoch: u64 },
    /// It decides.
    Leader { epoch: u64 },
    /// The engine is being read from base and log.
    Loading,
}

/// How far an engine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnginePosition {
    /// The newest entry delivered.
    pub index: Index,
    pub epoch: u64,
    /// The sequence of the next fact.
    pub first: u64,
}

/// Facts that were decided together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecidedBatch {
    /// In which they were decided.
    pub epoch: u64,
    pub first: u64,
    /// How many there are, at least 1.
    pub count: u64,
}

/// A committed entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// From 1, without gaps.
    pub index: Index,
    /// The term in which it was appended.
    pub epoch: u64,
    pub payload: Payload,
}

/// The content of an entry, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// The first entry of a new leader.
    Blank,
    Members,
    Facts(DecidedBatch),
}

/// The effect of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: it has been delivered before.
    Old,
    /// Nothing: it says nothing to the engine.
    Passed,
    /// Facts of others: the engine applies them, all of them before the next delivery.
    Apply,
    /// Own facts, which the engine has applied when it decided them: replies up to this ticket may leave.
    Confirmed {
        /// The last one in it.
        ticket: u64,
    },
    /// This node leads from here on: everything before is applied.
    Leads { epoch: u64 },
    /// The engine has facts that are lost: it is read again. The delivery waits, as those that follow.
    Reload(Lost),
    /// The engine is not there: the delivery is kept until it is.
    Wait,
}

/// Tickets whose facts may never be committed: clients that wait for them get no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The first and the last of them.
    pub tickets: RangeInclusive<u64>,
}

/// A proposal that has been applied here and not delivered.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    batch: DecidedBatch,
    ticket: u64,
}

#[derive(Debug)]
pub struct Member {
    /// The epoch of which Raft says that this node leads it.
    elected: Option<u64>,
    leader: Option<u64>,
    /// Whether it decides, in the epoch `led`.
    leads: bool,
    /// The newest epoch in which it has decided. It never does so again in that one, or in an earlier one: proposals of
    /// then may still be on their way.
    led: u64,
    loading: bool,
    /// The newest entry delivered to the engine, and its epoch.
    delivered: EnginePosition,
    /// The sequence of the next fact of the engine; `delivered.first` without what is ahead.
    next_first: u64,
    ahead: VecDeque<Ahead>,
}

impl Member {
    /// For a node whose engine has yet to be loaded.
    pub fn loading() -> Member {
        let nowhere = EnginePosition { index: Index(0), epoch: 0, first: 1 };
        Member { loading: true, ..Member::new(nowhere) }
    }

    /// For a node whose engine is loaded up to this index.
    pub fn new(position: EnginePosition) -> Member {
        Member {
            elected: None,
            leader: None,
            leads: false,
            led: 0,
            loading: false,
            delivered: position,
            next_first: position.first,
            ahead: VecDeque::new(),
        }
    }

    /// This node's role. Any call may change it.
    pub fn role(&self) -> Role {
        match self.elected.filter(|epoch| *epoch > self.led) {
            _ if self.loading => Role::Loading,
            _ if self.leads => Role::Leader { epoch: self.led },
            Some(epoch) => Role::Rising { epoch },
            None => Role::Follower { leader: self.leader },
        }
    }

    /// Whether the engine shows nothing but what is committed: a follower may answer reads from it.
    pub fn is_committed(&self) -> bool {
        !self.loading && self.ahead.is_empty()
    }

    /// Whether Raft has this node as its leader and it will not decide: leadership goes to another one, or nothing is
    /// decided at all.
    pub fn must_resign(&self) -> bool {
        self.elected.is_some() && (self.loading || !self.leads && self.elected <= Some(self.led))
    }

    /// How far the engine is, as far as that is committed.
    pub fn position(&self) -> EnginePosition {
        self.delivered
    }

    /// Raft says that this node leads the epoch. Gives whether it decides from now on: the first entry of the epoch
    /// may have been delivered before.
    #[must_use]
    pub fn elected(&mut self, epoch: u64) -> bool {
        if self.leads && epoch != self.led {
            self.leads = false;
        }
        self.elected = Some(epoch);
        self.leader = None;
        self.rise()
    }

    /// Raft reports that another node leads, or none.
    pub fn followed(&mut self, leader: Option<u64>) {
        (self.elected, self.leader, self.leads) = (None, leader, false);
    }

    /// Records what this node has decided and applied: this many facts, whose replies wait for the ticket. Tickets
    /// grow.
    ///
    /// # Panics
    /// If it does not lead: it must not decide then.
    pub fn propose(&mut self, count: u64, ticket: u64) -> DecidedBatch {
        assert!(self.leads && !self.loading, "decided as {:?}", self.role());
        assert!(count > 0, "a batch without facts");
        let newest = self.ahead.back().map_or(0, |ahead| ahead.ticket);
        assert!(ticket > newest, "ticket {ticket} after {newest}");
        let batch = DecidedBatch { epoch: self.led, first: self.next_first, count };
        self.next_first += count;
        self.ahead.push_back(Ahead { batch, ticket });
        batch
    }

    /// All facts that it has decided in the epoch before `end` are committed, though not all are delivered: replies up to
    /// this ticket may leave.
    pub fn safe(&self, epoch: u64, end: u64) -> Option<u64> {
        let is_safe = |ahead: &Ahead| {
            ahead.batch.epoch == epoch && ahead.batch.first + ahead.batch.count <= end
        };
        let safe = self.ahead.partition_point(is_safe);
        Some(self.ahead.get(safe.checked_sub(1)?)?.ticket)
    }

    /// [`Proposals::admits`] has refused the batch: it never reaches the log.
    pub fn refused(&mut self, batch: DecidedBatch) -> Option<Lost> {
        let is_ahead =
            |ahead: &Ahead| ahead.batch.epoch == batch.epoch && ahead.batch.first <= batch.first;
        self.ahead.iter().any(is_ahead).then(|| self.lose())
    }

    /// Takes the next committed entry.
    ///
    /// # Panics
    /// If it does not fit what was delivered before: a committed log has no gaps, its epochs never fall, and facts of
    /// another epoch than the entry's, which are void, were kept from it ([`Proposals`]). Going on would make this
    /// node's state another one than that of the others.
    pub fn deliver(&mut self, delivery: &Delivery) -> Effect {
        if self.loading {
            return Effect::Wait;
        }
        let Delivery { index, epoch, payload } = *delivery;
        if index <= self.delivered.index {
            return Effect::Old;
        }
        let EnginePosition { index: last, epoch: last_epoch, .. } = self.delivered;
        assert_eq!(index, last.next(), "entry {index} is delivered after {last}");
        assert!(epoch >= last_epoch, "entry {index} of epoch {epoch} after one of {last_epoch}");
        if let Payload::Facts(batch) = payload {
            assert_eq!(
                batch.epoch, epoch,
                "entry {index} has void facts: those of epoch {}",
                batch.epoch
            );
        }
        if epoch > self.led {
            // Another node was elected, or this node again.
            self.leads = false;
        }
        if self.ahead.front().is_some_and(|ahead| ahead.batch.epoch < epoch) {
            return Effect::Reload(self.lose());
        }
        let effect = match payload {
            Payload::Blank | Payload::Members => Effect::Passed,
            Payload::Facts(batch) => self.take(index, batch),
        };
        (self.delivered.index, self.delivered.epoch) = (index, epoch);
        if effect == Effect::Passed && self.rise() { Effect::Leads { epoch } } else { effect }
    }

    /// The engine was read from base and log, up to `position`. Deliveries that waited come again; those that it has
    /// already are old. Gives whether this node decides from now on.
    #[must_use]
    pub fn loaded(&mut self, position: EnginePosition) -> bool {
        assert!(self.loading, "an engine that nobody has asked for");
        self.loading = false;
        (self.delivered, self.next_first) = (position, position.first);
        self.rise()
    }

    /// Own facts come back in their order; those of others come when there are none.
    fn take(&mut self, index: Index, batch: DecidedBatch) -> Effect {
        let DecidedBatch { first, count, .. } = batch;
        let expected = self.delivered.first;
        assert_eq!(
            first, expected,
            "entry {index} begins with fact {first}; {expected} comes next"
        );
        assert!(count > 0, "entry {index} has no facts");
        self.delivered.first += count;
        if self.ahead.is_empty() {
            assert!(
                !self.leads,
                "entry {index} has facts of this epoch that were not decided here"
            );
            self.next_first = self.delivered.first;
            return Effect::Apply;
        }
        let mut confirmed = 0;
        while self.ahead.front().is_some_and(|ahead| ahead.batch.first < self.delivered.first) {
            let ahead = self.ahead.pop_front().expect("there is one in front");
            assert_eq!(ahead.batch.epoch, batch.epoch, "entry {index} ends an epoch that goes on");
            let end = ahead.batch.first + ahead.batch.count;
            assert!(end <= self.delivered.first, "entry {index} ends within the facts of a turn");
            confirmed = ahead.ticket;
        }
        Effect::Confirmed { ticket: confirmed }
    }

    /// The engine is thrown away and read again, up to what was delivered.
    ///
    /// # Panics
    /// If it has facts that are not committed: what becomes of these is found out first.
    pub fn discard(&mut self) {
        assert!(self.ahead.is_empty(), "an engine is thrown away with facts on their way");
        (self.loading, self.leads) = (true, false);
    }

    /// A base from another node takes the place of all up to `index`: the engine is thrown away and read again, with
    /// all that was decided here and has not come back.
    pub fn restored(&mut self, index: Index) {
        (self.loading, self.leads) = (true, false);
        self.ahead.clear();
        self.delivered.index = index;
    }

    /// Leads, if it is elected and all that was before is applied.
    fn rise(&mut self) -> bool {
        let epoch = self.elected.filter(|epoch| *epoch > self.led);
        let is_here = !self.loading && self.ahead.is_empty() && epoch == Some(self.delivered.epoch);
        if let Some(epoch) = epoch.filter(|_| is_here) {
            (self.leads, self.led) = (true, epoch);
        }
        is_here
    }

    fn lose(&mut self) -> Lost {
        let ticket = |ahead: Option<&Ahead>| ahead.expect("only what is ahead is lost").ticket;
        let tickets = ticket(self.ahead.front())..=ticket(self.ahead.back());
        self.ahead.clear();
        (self.loading, self.leads) = (true, false);
        Lost { tickets }
    }
}

/// Where proposals enter the log, on the thread that runs Raft: what would be void there is refused.
#[derive(Debug, Default)]
pub struct Proposals {
    /// The epoch, and the sequence of the fact that follows what was admitted in it.
    next: Option<(u64, u64)>,
    /// No batch of this epoch or an earlier one is admitted any more: one of it was refused, and what follows a gap
    /// means something else than what was decided.
    refused: u64,
}

impl Proposals {
    /// Whether the batch may be proposed to Raft, where this node leads `term`, if any. If Raft itself refuses it, call
    /// [`refuse`](Self::refuse).
    pub fn admits(&mut self, batch: DecidedBatch, term: Option<u64>) -> bool {
        let DecidedBatch { epoch, first, count } = batch;
        let follows = match self.next {
            Some((of, next)) if of == epoch => first == next,
            _ => true,
        };
        let admitted = term == Some(epoch) && epoch > self.refused && follows;
        if admitted {
            self.next = Some((epoch, first + count));
        } else {
            self.refuse(batch);
        }
        admitted
    }

    /// Nothing that was decided after the batch in its epoch is admitted.
    pub fn refuse(&mut self, batch: DecidedBatch) {
        self.refused = self.refused.max(batch.epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(index: u64, epoch: u64, first: u64, count: u64) -> Delivery {
        let payload = Payload::Facts(DecidedBatch { epoch, first, count });
        Delivery { index: Index(index), epoch, payload }
    }

    fn blank(index: u64, epoch: u64) -> Delivery {
        Delivery { index: Index(index), epoch, payload: Payload::Blank }
    }

    /// Leads epoch 5 from entry 8 on, with fact 101 to come.
    fn leader() -> Member {
        let mut member = Member::new(EnginePosition { index: Index(7), epoch: 4, first: 101 });
        assert!(!member.elected(5));
        assert_eq!(member.role(), Role::Rising { epoch: 5 });
        assert_eq!(member.deliver(&blank(8, 5)), Effect::Leads { epoch: 5 });
        assert_eq!(member.role(), Role::Leader { epoch: 5 });
        member
    }

    /// The example of the module.
    #[test]
    fn a_deposed_leader_hears_of_what_came_through_and_reloads_for_the_rest() {
        let mut member = leader();
        assert_eq!(member.propose(10, 1), DecidedBatch { epoch: 5, first: 101, count: 10 });
        assert_eq!(member.propose(2, 2), DecidedBatch { epoch: 5, first: 111, count: 2 });
        assert!(!member.is_committed());
        member.followed(Some(3));
        assert_eq!(member.role(), Role::Follower { leader: Some(3) });
        assert_eq!(member.deliver(&facts(9, 5, 101, 10)), Effect::Confirmed { ticket: 1 });
        assert_eq!(member.deliver(&blank(10, 6)), Effect::Reload(Lost { tickets: 2..=2 }));
        assert_eq!(member.role(), Role::Loading);
        assert_eq!(member.deliver(&blank(10, 6)), Effect::Wait);
        assert!(!member.loaded(EnginePosition { index: Index(9), epoch: 5, first: 111 }));
        assert_eq!(member.deliver(&facts(9, 5, 101, 10)), Effect::Old);
        assert_eq!(member.deliver(&blank(10, 6)), Effect::Passed);
        assert_eq!(member.deliver(&facts(11, 6, 111, 3)), Effect::Apply);
        assert!(member.is_committed());
    }

    #[test]
    fn what_came_back_whole_needs_no_reload_and_proposals_may_come_back_together() {
        let mut member = leader();
        member.propose(10, 1);
        member.propose(2, 7);
        member.followed(None);
        assert_eq!(member.deliver(&facts(9, 5, 101, 12)), Effect::Confirmed { ticket: 7 });
        assert_eq!(member.deliver(&blank(10, 6)), Effect::Passed);
        assert_eq!(member.deliver(&facts(11, 6, 113, 1)), Effect::Apply);
    }

    #[test]
    fn a_refused_batch_ends_its_epoch_for_good() {
        let mut member = leader();
        let mut proposals = Proposals::default();
        let (one, two) = (member.propose(1, 1), member.propose(1, 2));
        assert!(!proposals.admits(one, None), "Raft hands over");
        assert!(!proposals.admits(two, Some(5)), "it has not, but there is a gap before it");
        assert_eq!(member.refused(one), Some(Lost { tickets: 1..=2 }));
        assert_eq!(member.refused(two), None);
        assert!(member.must_resign());
        assert!(!member.loaded(EnginePosition { index: Index(8), epoch: 5, first: 101 }));
        assert!(!member.elected(5), "it does not decide in this epoch again");
        assert!(member.must_resign());
        assert!(!member.elected(6));
        assert_eq!(member.deliver(&blank(9, 6)), Effect::Leads { epoch: 6 });
        assert!(!member.must_resign());
        assert!(proposals.admits(member.propose(1, 3), Some(6)));
    }

    #[test]
    #[should_panic(expected = "void facts: those of epoch 4")]
    fn void_facts_never_reach_a_log() {
        let payload = Payload::Facts(DecidedBatch { epoch: 4, first: 101, count: 1 });
        leader().deliver(&Delivery { index: Index(9), epoch: 5, payload });
    }

    #[test]
    #[should_panic(expected = "decided as Rising")]
    fn nothing_is_decided_before_all_is_applied() {
        let mut member = Member::new(EnginePosition { index: Index(7), epoch: 4, first: 101 });
        let _ = member.elected(5);
        member.propose(1, 1);
    }
}
