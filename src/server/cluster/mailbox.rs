//! The exchange between the turn and the raft thread. Neither waits for the other one: each takes what is there, and is
//! woken when there is more.

use crate::cluster::driver::{DriverEvent, MemberChange, Proposed, Status};
use crate::cluster::members::names::Listed;
use crate::cluster::peer::verify::VerifyNote;
use crate::cluster::raft::entry::Base;
use crate::limits::{APPEND_BYTES_MAX, TOLD_BYTES, TOLD_BYTES_MAX};
use crate::lock::lock;
use crate::server::cluster::poll::Wakeup;
use crate::server::connection::wake::Notifier;
use crate::time::Micros;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What the turn asks of the raft thread, in addition to its proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whether this node may ask for votes: its engine is loaded.
    MayLead(bool),
    /// Whether there is room on its disk.
    HasRoom(bool),
    /// How much it is wanted as a leader.
    Priority(u64),
    /// Another node should lead, the one with most entries.
    Resign,
    /// The node with this id should lead, or the one with most entries. The lease ends before.
    HandOver(Option<u64>),
    Change(MemberChange),
    /// This node is not a member: members of the cluster may be here.
    Hint(Vec<Listed>),
    /// A base of this node's own is in place: the log may give up what is in it.
    BaseMade(Base),
    /// A question or an answer for the node of this id, whether all hold the same.
    Verify(u64, VerifyNote),
    /// The thread ends.
    Stop,
}

/// Nothing in it is locked for longer than moving its content takes.
#[derive(Debug)]
pub struct Mailbox {
    notifier: Arc<Notifier>,
    wakeup: Arc<Wakeup>,
    proposed: Mutex<VecDeque<OpenBatch>>,
    /// Bytes of what is proposed and was not taken.
    waiting_bytes: AtomicU64,
    asks: Mutex<Vec<Ask>>,
    told: Mutex<Waiting>,
    verify: Mutex<Vec<(u64, VerifyNote)>>,
    /// CLOCK_BOOTTIME, µs; 0 none.
    lease_until_us: AtomicU64,
    heard_us: AtomicU64,
    status: Mutex<Option<Arc<Status>>>,
    failure: OnceLock<Arc<str>>,
}

/// A batch that turns still add to.
#[derive(Debug)]
struct OpenBatch {
    epoch: u64,
    first: u64,
    count: u32,
    now: Micros,
    bodies: Vec<Bytes>,
    bytes: usize,
}

/// The part that the turn has not taken.
#[derive(Debug, Default)]
struct Waiting {
    told: VecDeque<DriverEvent>,
    bytes: usize,
    /// The raft thread has more, for which there was no room.
    is_full: bool,
}

impl Mailbox {
    /// An empty one; `notifier` wakes the turn.
    ///
    /// # Errors
    /// The system has no descriptor for what wakes the raft thread.
    pub fn new(notifier: Arc<Notifier>) -> io::Result<Arc<Mailbox>> {
        Ok(Arc::new(Mailbox {
            notifier,
            wakeup: Arc::new(Wakeup::new()?),
            proposed: Mutex::default(),
            waiting_bytes: AtomicU64::new(0),
            asks: Mutex::default(),
            told: Mutex::default(),
            verify: Mutex::default(),
            lease_until_us: AtomicU64::new(0),
            heard_us: AtomicU64::new(0),
            status: Mutex::default(),
            failure: OnceLock::new(),
        }))
    }

    /// Called by the turn: facts that it has decided. They are appended to those that the raft thread has not taken
    /// yet, if they follow them, were decided in the same epoch, and both have no more than [`APPEND_BYTES_MAX`]: the
    /// instant of the second turn is already at the start of its facts.
    pub fn propose(&self, batch: Proposed) {
        let bytes = batch.body.len();
        // Before it can be taken, which lowers it.
        self.waiting_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut proposed = lock(&self.proposed);
        match proposed.back_mut() {
            Some(open) if open.takes(&batch) => open.add(batch),
            _ => proposed.push_back(OpenBatch::begin(batch)),
        }
        drop(proposed);
        self.wakeup.wake();
    }

    /// By the turn: bytes that are proposed and that the raft thread has not taken.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Called by the turn: all messages for it, in order.
    pub fn take_told(&self, into: &mut VecDeque<DriverEvent>) {
        let mut waiting = lock(&self.told);
        into.append(&mut waiting.told);
        waiting.bytes = 0;
        let was_full = mem::take(&mut waiting.is_full);
        drop(waiting);
        if was_full {
            self.wakeup.wake();
        }
    }

    /// Called by the turn: notes of other nodes about comparing data. Notes that arrived before something that
    /// [`Mailbox::take_told`] has returned are included.
    pub fn take_verify(&self) -> Vec<(u64, VerifyNote)> {
        mem::take(&mut *lock(&self.verify))
    }

    /// Called by the turn, and by a stop of the server.
    pub fn ask(&self, ask: Ask) {
        lock(&self.asks).push(ask);
        self.wakeup.wake();
    }

    /// Until when this node's lease runs, and when the question was asked that a majority answered last: µs of
    /// CLOCK_BOOTTIME, 0 for none.
    pub fn lease(&self) -> (u64, u64) {
        (self.lease_until_us.load(Ordering::Acquire), self.heard_us.load(Ordering::Acquire))
    }

    /// The newest that was published. What has arrived is in it a tick later; what time alone changes, after half an
    /// election timeout at most. The same one again until there is a newer one; nothing before the raft thread was started.
    pub fn status(&self) -> Option<Arc<Status>> {
        lock(&self.status).clone()
    }

    /// Why the raft thread has stopped, if it has.
    pub fn failure(&self) -> Option<&Arc<str>> {
        self.failure.get()
    }

    /// Wakes the raft thread: called by everyone else that has work for it.
    pub fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    /// By the raft thread: the next batch.
    pub fn take_batch(&self) -> Option<Proposed> {
        let batch = lock(&self.proposed).pop_front()?.close();
        self.waiting_bytes.fetch_sub(batch.body.len() as u64, Ordering::Relaxed);
        Some(batch)
    }

    /// By the raft thread: what was asked, in order.
    pub fn take_asks(&self) -> Vec<Ask> {
        mem::take(&mut *lock(&self.asks))
    }

    /// By the raft thread: hands over what the turn has room for, [`TOLD_BYTES_MAX`] or a single one that is larger. The
    /// rest stays; the thread is woken when there is room again.
    pub fn tell(&self, told: &mut VecDeque<DriverEvent>) {
        if told.is_empty() {
            return;
        }
        let mut waiting = lock(&self.told);
        let before = waiting.told.len();
        while let Some(next) = told.front() {
            let bytes = bytes_of(next);
            if waiting.bytes > 0 && waiting.bytes + bytes > TOLD_BYTES_MAX {
                waiting.is_full = true;
                break;
            }
            waiting.bytes += bytes;
            waiting.told.extend(told.pop_front());
        }
        let is_news = waiting.told.len() > before;
        drop(waiting);
        if is_news {
            self.notifier.notify();
        }
    }

    /// Called by the raft thread: see [`Mailbox::lease`]. The turn is woken if it may be waiting for it, because its lease
    /// has run out by `now`; while the lease runs nothing waits.
    pub fn set_lease(&self, now: Micros, until: Option<Micros>, heard: Option<Micros>) {
        let heard_us = heard.map_or(0, |at| at.0);
        let is_news = self.heard_us.swap(heard_us, Ordering::AcqRel) != heard_us;
        let until_us = until.map_or(0, |at| at.0);
        let had_run_out = self.lease_until_us.swap(until_us, Ordering::AcqRel) <= now.0;
        if is_news && had_run_out {
            self.notifier.notify();
        }
    }

    /// By the raft thread.
    pub fn publish(&self, status: Status) {
        *lock(&self.status) = Some(Arc::new(status));
    }

    /// By the raft thread: what `node` has asked or answered.
    pub fn tell_verify(&self, node: u64, note: VerifyNote) {
        lock(&self.verify).push((node, note));
        self.notifier.notify();
    }

    /// Called by the raft thread: it has stopped. The turn is woken.
    pub fn fail(&self, cause: &str) {
        // The first cause is the one that counts.
        let _ = self.failure.set(cause.into());
        self.lease_until_us.store(0, Ordering::Release);
        self.heard_us.store(0, Ordering::Release);
        self.notifier.notify();
    }
}

impl OpenBatch {
    fn begin(batch: Proposed) -> OpenBatch {
        let Proposed { epoch, first, count, now, body } = batch;
        OpenBatch { epoch, first, count, now, bytes: body.len(), bodies: vec![body] }
    }

    fn takes(&self, batch: &Proposed) -> bool {
        self.epoch == batch.epoch
            && self.first + u64::from(self.count) == batch.first
            && self.count.checked_add(batch.count).is_some()
            && self.bytes + batch.body.len() <= APPEND_BYTES_MAX
    }

    fn add(&mut self, batch: Proposed) {
        self.count += batch.count;
        self.bytes += batch.body.len();
        self.bodies.push(batch.body);
    }

    fn close(self) -> Proposed {
        let OpenBatch { epoch, first, count, now, mut bodies, .. } = self;
        let body = match bodies.len() {
            1 => bodies.remove(0),
            _ => Bytes::from(bodies.concat()),
        };
        Proposed { epoch, first, count, now, body }
    }
}

/// The bytes counted for it: small ones take memory too.
fn bytes_of(told: &DriverEvent) -> usize {
    match told {
        DriverEvent::Delivered(entry) => TOLD_BYTES + entry.bytes(),
        _ => TOLD_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::raft::entry::{EpochFacts, LogEntry, Payload};
    use std::task::Waker;

    fn mailbox() -> Arc<Mailbox> {
        Mailbox::new(Arc::default()).unwrap()
    }

    fn batch(epoch: u64, first: u64, count: u32, body: &[u8]) -> Proposed {
        let body = Bytes::copy_from_slice(body);
        Proposed { epoch, first, count, now: Micros(100 * first), body }
    }

    fn taken(mailbox: &Mailbox) -> Vec<Proposed> {
        std::iter::from_fn(|| mailbox.take_batch()).collect()
    }

    fn entry(index: u64, body: Bytes) -> LogEntry {
        let facts = EpochFacts { first: index, now: Micros(0), count: 1, body };
        LogEntry { index, term: 1, node: 1, payload: Payload::Facts(facts) }
    }

    /// Whether the turn was woken since this was last asked.
    fn is_woken(mailbox: &Mailbox) -> bool {
        mailbox.notifier.take(&mut Vec::new(), Waker::noop()).notice
    }

    #[test]
    fn turns_that_follow_one_another_make_one_batch() {
        let mailbox = mailbox();
        let turns = [batch(2, 10, 2, b"ab"), batch(2, 12, 1, b"c"), batch(2, 13, 3, b"def")];
        turns.into_iter().for_each(|turn| mailbox.propose(turn));
        assert_eq!(mailbox.waiting_bytes(), 6);
        assert_eq!(taken(&mailbox), [batch(2, 10, 6, b"abcdef")]);
        assert_eq!(mailbox.waiting_bytes(), 0);
        mailbox.propose(batch(2, 16, 1, b"g"));
        assert_eq!(taken(&mailbox), [batch(2, 16, 1, b"g")], "what was taken is not added to");
    }

    #[test]
    fn what_does_not_belong_together_stays_apart() {
        let large = vec![1; APPEND_BYTES_MAX];
        for [one, other] in [
            [batch(2, 10, 2, b"ab"), batch(3, 12, 1, b"c")],
            [batch(2, 10, 2, b"ab"), batch(2, 13, 1, b"c")],
            [batch(2, 10, 2, b"ab"), batch(2, 12, u32::MAX, b"c")],
            [batch(2, 10, 2, b"a"), batch(2, 12, 1, &large)],
            [batch(2, 10, 2, &large), batch(2, 12, 1, b"c")],
        ] {
            let mailbox = mailbox();
            mailbox.propose(one.clone());
            mailbox.propose(other.clone());
            assert_eq!(taken(&mailbox), [one, other]);
        }
        let mailbox = mailbox();
        mailbox.propose(batch(2, 10, 2, &large[1..]));
        mailbox.propose(batch(2, 12, 1, b"c"));
        assert_eq!(taken(&mailbox).len(), 1);
    }

    #[test]
    fn the_turn_is_told_in_order_and_no_more_than_it_has_room_for() {
        let mailbox = mailbox();
        let body = Bytes::from(vec![0; TOLD_BYTES_MAX / 2]);
        let delivered = |index| DriverEvent::Delivered(entry(index, body.clone()));
        let all = || -> VecDeque<DriverEvent> {
            let mut all = VecDeque::from([DriverEvent::Elected { epoch: 1 }]);
            all.extend((1..=4).map(delivered));
            all
        };
        let (mut told, mut taken) = (all(), VecDeque::new());
        mailbox.tell(&mut told);
        assert_eq!(told.len(), 3, "the first half and what is small");
        assert!(is_woken(&mailbox));
        mailbox.tell(&mut told);
        assert!(told.len() == 3 && !is_woken(&mailbox));
        for left in [2, 1, 0] {
            mailbox.wakeup.begin_to_look();
            mailbox.take_told(&mut taken);
            mailbox.tell(&mut told);
            assert_eq!(told.len(), left);
        }
        mailbox.take_told(&mut taken);
        assert_eq!(taken, all());
        // A message that is larger than the whole allowance is delivered alone.
        let large = Bytes::from(vec![0; TOLD_BYTES_MAX + 1]);
        let mut told = VecDeque::from([
            DriverEvent::Delivered(entry(5, large)),
            DriverEvent::Followed { leader: None },
        ]);
        mailbox.tell(&mut told);
        assert_eq!(told, [DriverEvent::Followed { leader: None }]);
    }

    #[test]
    fn the_turn_is_woken_for_a_lease_that_it_may_wait_for() {
        let mailbox = mailbox();
        mailbox.set_lease(Micros(100), None, None);
        assert!(!is_woken(&mailbox));
        mailbox.set_lease(Micros(100), Some(Micros(300)), Some(Micros(90)));
        assert!(is_woken(&mailbox), "the first");
        mailbox.set_lease(Micros(200), Some(Micros(400)), Some(Micros(190)));
        assert!(!is_woken(&mailbox), "it ran all the time");
        mailbox.set_lease(Micros(400), Some(Micros(400)), Some(Micros(190)));
        assert!(!is_woken(&mailbox), "nothing was confirmed");
        mailbox.set_lease(Micros(450), Some(Micros(600)), Some(Micros(390)));
        assert!(is_woken(&mailbox), "it had run out");
        assert_eq!(mailbox.lease(), (600, 390));
        mailbox.fail("a bug");
        assert!(is_woken(&mailbox));
        assert_eq!(
            (mailbox.lease(), mailbox.failure().map(|cause| &**cause)),
            ((0, 0), Some("a bug"))
        );
    }
}
