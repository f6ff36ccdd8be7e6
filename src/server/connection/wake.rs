//! Which clients' sockets have something to do: each client has a waker of its own, which puts the
//! client's slot on one list and wakes the turn loop once.

use crate::lock::lock;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// The slots woken since the last turn, and the loop to wake for them.
///
/// Wakers must be `Send`, so this is behind a mutex, which is held only for as long as setting a flag takes: sockets
/// wake their clients from the loop's own thread, and only [`Notifier::stop`] and [`Notifier::notify`] come from
/// others.
#[derive(Debug, Default)]
pub struct Notifier {
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    slots: Vec<u32>,
    stop: bool,
    told: u32,
    notice: bool,
    turn_loop: Option<Waker>,
}

/// Events other than sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notified {
    pub stop: bool,
    /// How often others were asked to stop, and this loop with them.
    pub told: u32,
    /// Another thread has news.
    pub notice: bool,
}

impl Notifier {
    /// Takes the woken slots, in the order in which they were woken; a slot may be listed twice. If
    /// there are none, `turn_loop` is woken when that changes.
    pub fn take(&self, slots: &mut Vec<u32>, turn_loop: &Waker) -> Notified {
        let mut pending = lock(&self.pending);
        slots.append(&mut pending.slots);
        if !pending.turn_loop.as_ref().is_some_and(|w| w.will_wake(turn_loop)) {
            pending.turn_loop = Some(turn_loop.clone());
        }
        Notified {
            stop: mem::take(&mut pending.stop),
            told: mem::take(&mut pending.told),
            notice: mem::take(&mut pending.notice),
        }
    }

    /// Another thread has news for the loop.
    pub fn notify(&self) {
        let mut pending = lock(&self.pending);
        if !mem::replace(&mut pending.notice, true)
            && let Some(waker) = &pending.turn_loop
        {
            waker.wake_by_ref();
        }
    }

    /// Whether another thread has news that the loop has not taken.
    pub fn has_news(&self) -> bool {
        lock(&self.pending).notice
    }

    /// Asks the loop to stop.
    pub fn stop(&self) {
        lock(&self.pending).stop = true;
        self.wake();
    }

    /// Asks the loop to stop as if it had been asked so often, and not to hurry if it has been already: a signal reaches
    /// the loops of all partitions, and each asks the others.
    pub fn stop_at_least(&self, times: u32) {
        let mut pending = lock(&self.pending);
        pending.told = pending.told.max(times);
        drop(pending);
        self.wake();
    }

    fn wake(&self) {
        let pending = lock(&self.pending);
        if let Some(waker) = &pending.turn_loop {
            waker.wake_by_ref();
        }
    }

    /// A waker for one slot. It may outlive the client: then it wakes the slot's new client, which
    /// has nothing to do.
    pub fn waker(self: &Arc<Notifier>, slot: u32) -> Waker {
        Waker::from(Arc::new(SlotWaker { slot, notifier: Arc::clone(self) }))
    }
}

#[derive(Debug)]
struct SlotWaker {
    slot: u32,
    notifier: Arc<Notifier>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut pending = lock(&self.notifier.pending);
        pending.slots.push(self.slot);
        if pending.slots.len() == 1
            && let Some(waker) = &pending.turn_loop
        {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_loop_is_woken_once_for_all() {
        let (notifier, count) = (Arc::new(Notifier::default()), Arc::new(Count::default()));
        let turn_loop = Waker::from(Arc::clone(&count));
        let mut slots = Vec::new();
        assert!(!notifier.take(&mut slots, &turn_loop).stop);
        for slot in [7, 3, 7] {
            notifier.waker(slot).wake();
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(!notifier.take(&mut slots, &turn_loop).stop);
        assert_eq!(slots, [7, 3, 7]);
        notifier.waker(1).wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        notifier.stop();
        assert!(notifier.take(&mut slots, &turn_loop).stop);
        assert!(!notifier.take(&mut slots, &turn_loop).stop);
        let before = count.0.load(Ordering::Relaxed);
        notifier.notify();
        notifier.notify();
        assert_eq!(count.0.load(Ordering::Relaxed), before + 1, "news not taken rings once");
        let mut next = || {
            let notified = notifier.take(&mut slots, &turn_loop);
            (notified.stop, notified.told, notified.notice)
        };
        assert_eq!(next(), (false, 0, true));
        notifier.stop_at_least(2);
        notifier.stop_at_least(1);
        assert_eq!(next(), (false, 2, false));
        assert_eq!(next(), (false, 0, false));
    }
}
