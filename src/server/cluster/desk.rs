//! What the turn and the raft thread lay down for each other. Neither waits for the other one: each takes what is
//! there, and is woken when there is something.

use crate::cluster::driver::{MemberChange, Proposed, Status, Told};
use crate::cluster::entry::Base;
use crate::cluster::verify::VerifyNote;
use crate::limits::{APPEND_BYTES_MAX, TOLD_BYTES, TOLD_BYTES_MAX};
use crate::server::cluster::wakeup::Wakeup;
use crate::server::connection::wake::Notifier;
use crate::time::Micros;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What the turn asks of the raft thread, beside what it proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whether this node may ask for votes: its engine is loaded.
    MayLead(bool),
    /// Whether there is room on its disk.
    HasRoom(bool),
    /// How much it is wanted as a leader.
    Priority(u64),
    /// Another one should lead, whoever is furthest.
    Resign,
    /// The node of this id should lead, or whoever is furthest.
    HandOver(Option<u64>),
    /// The members should change.
    Change(MemberChange),
    /// A base of this node's own is in place: the log may give up what is in it.
    BaseMade(Base),
    /// A question or an answer for the node of this id, whether all hold the same.
    Verify(u64, VerifyNote),
    /// The thread ends.
    Stop,
}

/// See the module.
#[derive(Debug)]
pub struct Desk {
    notifier: Arc<Notifier>,
    wakeup: Arc<Wakeup>,
    proposed: Mutex<VecDeque<Open>>,
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
struct Open {
    epoch: u64,
    first: u64,
    count: u32,
    now: Micros,
    bodies: Vec<Bytes>,
    bytes: usize,
}

/// What the turn has not taken.
#[derive(Debug, Default)]
struct Waiting {
    told: VecDeque<Told>,
    bytes: usize,
    /// The raft thread has more, for which there was no room.
    is_full: bool,
}

impl Desk {
    /// An empty one; `notifier` wakes the turn.
    ///
    /// # Errors
    /// The system has no descriptor for what wakes the raft thread.
    pub fn new(notifier: Arc<Notifier>) -> io::Result<Arc<Desk>> {
        Ok(Arc::new(Desk {
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

    /// By the turn: facts that it has decided. They join what the raft thread has not taken yet, if they follow it,
    /// were decided in the same epoch, and both have no more than [`APPEND_BYTES_MAX`]: the instant of a turn that
    /// comes second stands at the head of its facts already.
    pub fn propose(&self, batch: Proposed) {
        let bytes = batch.body.len();
        // Before it can be taken, which lowers it.
        self.waiting_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut proposed = lock(&self.proposed);
        match proposed.back_mut() {
            Some(open) if open.takes(&batch) => open.add(batch),
            _ => proposed.push_back(Open::begin(batch)),
        }
        drop(proposed);
        self.wakeup.wake();
    }

    /// By the turn: bytes that are proposed and that the raft thread has not taken.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// By the turn: all that it is told, in order.
    pub fn take_told(&self, into: &mut VecDeque<Told>) {
        let mut waiting = lock(&self.told);
        into.append(&mut waiting.told);
        waiting.bytes = 0;
        let was_full = mem::take(&mut waiting.is_full);
        drop(waiting);
        if was_full {
            self.wakeup.wake();
        }
    }

    /// By the turn: whether all hold the same, as other nodes have asked and answered. What came before something that
    /// [`Desk::take_told`] has given stands there already.
    pub fn take_verify(&self) -> Vec<(u64, VerifyNote)> {
        mem::take(&mut *lock(&self.verify))
    }

    /// By the turn, and by whoever stops the server.
    pub fn ask(&self, ask: Ask) {
        lock(&self.asks).push(ask);
        self.wakeup.wake();
    }

    /// Until when this node's lease runs, and when what a majority answered last was asked: µs of CLOCK_BOOTTIME,
    /// 0 if there is none.
    pub fn lease(&self) -> (u64, u64) {
        (self.lease_until_us.load(Ordering::Acquire), self.heard_us.load(Ordering::Acquire))
    }

    /// The newest that was published: at most a tick old. Nothing before the raft thread was started.
    pub fn status(&self) -> Option<Arc<Status>> {
        lock(&self.status).clone()
    }

    /// Why the raft thread takes no part any more, if it does not.
    pub fn failure(&self) -> Option<&Arc<str>> {
        self.failure.get()
    }

    /// Wakes the raft thread: whoever else has something for it calls this.
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
    pub fn tell(&self, told: &mut VecDeque<Told>) {
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

    /// By the raft thread: see [`Desk::lease`]. The turn is woken if it may be waiting for it, as its lease has run out
    /// by `now`; while it runs nobody waits.
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

    /// By the raft thread: it takes no part any more. The turn is woken.
    pub fn fail(&self, cause: &str) {
        // The first cause is the one that counts.
        let _ = self.failure.set(cause.into());
        self.lease_until_us.store(0, Ordering::Release);
        self.heard_us.store(0, Ordering::Release);
        self.notifier.notify();
    }
}

impl Open {
    fn begin(batch: Proposed) -> Open {
        let Proposed { epoch, first, count, now, body } = batch;
        Open { epoch, first, count, now, bytes: body.len(), bodies: vec![body] }
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
        let Open { epoch, first, count, now, mut bodies, .. } = self;
        let body = match bodies.len() {
            1 => bodies.remove(0),
            _ => Bytes::from(bodies.concat()),
        };
        Proposed { epoch, first, count, now, body }
    }
}

/// What is counted for it: small ones take room too.
fn bytes_of(told: &Told) -> usize {
    match told {
        Told::Delivered(entry) => TOLD_BYTES + entry.bytes(),
        _ => TOLD_BYTES,
    }
}

/// Nobody holds one for longer than it takes to move what is in it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entry::{Entry, Facts, Payload};
    use std::task::Waker;

    fn desk() -> Arc<Desk> {
        Desk::new(Arc::default()).unwrap()
    }

    fn batch(epoch: u64, first: u64, count: u32, body: &[u8]) -> Proposed {
        let body = Bytes::copy_from_slice(body);
        Proposed { epoch, first, count, now: Micros(100 * first), body }
    }

    fn taken(desk: &Desk) -> Vec<Proposed> {
        std::iter::from_fn(|| desk.take_batch()).collect()
    }

    fn entry(index: u64, body: Bytes) -> Entry {
        let facts = Facts { first: index, now: Micros(0), count: 1, body };
        Entry { index, term: 1, node: 1, payload: Payload::Facts(facts) }
    }

    /// Whether the turn was woken since this was last asked.
    fn is_woken(desk: &Desk) -> bool {
        desk.notifier.take(&mut Vec::new(), Waker::noop()).notice
    }

    #[test]
    fn turns_that_follow_one_another_make_one_batch() {
        let desk = desk();
        let turns = [batch(2, 10, 2, b"ab"), batch(2, 12, 1, b"c"), batch(2, 13, 3, b"def")];
        turns.into_iter().for_each(|turn| desk.propose(turn));
        assert_eq!(desk.waiting_bytes(), 6);
        assert_eq!(taken(&desk), [batch(2, 10, 6, b"abcdef")]);
        assert_eq!(desk.waiting_bytes(), 0);
        desk.propose(batch(2, 16, 1, b"g"));
        assert_eq!(taken(&desk), [batch(2, 16, 1, b"g")], "what was taken is not added to");
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
            let desk = desk();
            desk.propose(one.clone());
            desk.propose(other.clone());
            assert_eq!(taken(&desk), [one, other]);
        }
        let desk = desk();
        desk.propose(batch(2, 10, 2, &large[1..]));
        desk.propose(batch(2, 12, 1, b"c"));
        assert_eq!(taken(&desk).len(), 1);
    }

    #[test]
    fn the_turn_is_told_in_order_and_no_more_than_it_has_room_for() {
        let desk = desk();
        let body = Bytes::from(vec![0; TOLD_BYTES_MAX / 2]);
        let delivered = |index| Told::Delivered(entry(index, body.clone()));
        let all = || -> VecDeque<Told> {
            let mut all = VecDeque::from([Told::Elected { epoch: 1 }]);
            all.extend((1..=4).map(delivered));
            all
        };
        let (mut told, mut taken) = (all(), VecDeque::new());
        desk.tell(&mut told);
        assert_eq!(told.len(), 3, "the first half and what is small");
        assert!(is_woken(&desk));
        desk.tell(&mut told);
        assert!(told.len() == 3 && !is_woken(&desk));
        for left in [2, 1, 0] {
            desk.wakeup.begin_to_look();
            desk.take_told(&mut taken);
            desk.tell(&mut told);
            assert_eq!(told.len(), left);
        }
        desk.take_told(&mut taken);
        assert_eq!(taken, all());
        // One that is larger than all the room is told alone.
        let large = Bytes::from(vec![0; TOLD_BYTES_MAX + 1]);
        let mut told =
            VecDeque::from([Told::Delivered(entry(5, large)), Told::Followed { leader: None }]);
        desk.tell(&mut told);
        assert_eq!(told, [Told::Followed { leader: None }]);
    }

    #[test]
    fn the_turn_is_woken_for_a_lease_that_it_may_wait_for() {
        let desk = desk();
        desk.set_lease(Micros(100), None, None);
        assert!(!is_woken(&desk));
        desk.set_lease(Micros(100), Some(Micros(300)), Some(Micros(90)));
        assert!(is_woken(&desk), "the first");
        desk.set_lease(Micros(200), Some(Micros(400)), Some(Micros(190)));
        assert!(!is_woken(&desk), "it ran all the time");
        desk.set_lease(Micros(400), Some(Micros(400)), Some(Micros(190)));
        assert!(!is_woken(&desk), "nothing was confirmed");
        desk.set_lease(Micros(450), Some(Micros(600)), Some(Micros(390)));
        assert!(is_woken(&desk), "it had run out");
        assert_eq!(desk.lease(), (600, 390));
        desk.fail("a bug");
        assert!(is_woken(&desk));
        assert_eq!((desk.lease(), desk.failure().map(|cause| &**cause)), ((0, 0), Some("a bug")));
    }
}
