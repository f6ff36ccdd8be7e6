//! Which clients' sockets have something to do: each client has a waker of its own, which puts the
//! client's slot on one list and wakes the turn loop once.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The slots woken since the last turn, and the loop to wake for them.
///
/// Wakers must be `Send`, so this is behind a mutex, which nobody waits for longer than it takes to
/// set a flag: sockets wake their clients from the loop's own thread, and only [`Bell::stop`] and
/// [`Bell::ring`] come from others.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<Rung>,
}

#[derive(Debug, Default)]
struct Rung {
    slots: Vec<u32>,
    stop: bool,
    news: bool,
    turn_loop: Option<Waker>,
}

/// What rang beside sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rang {
    /// A stop was asked for.
    pub stop: bool,
    /// Another thread has news.
    pub news: bool,
}

impl Bell {
    /// Takes the woken slots, in the order in which they were woken; one may stand there twice. If
    /// nothing rang, `turn_loop` is woken when that changes.
    pub fn take(&self, slots: &mut Vec<u32>, turn_loop: &Waker) -> Rang {
        let mut rung = self.lock();
        slots.append(&mut rung.slots);
        if !rung.turn_loop.as_ref().is_some_and(|w| w.will_wake(turn_loop)) {
            rung.turn_loop = Some(turn_loop.clone());
        }
        Rang { stop: mem::take(&mut rung.stop), news: mem::take(&mut rung.news) }
    }

    /// Another thread has news for the loop.
    pub fn ring(&self) {
        let mut rung = self.lock();
        if !mem::replace(&mut rung.news, true)
            && let Some(waker) = &rung.turn_loop
        {
            waker.wake_by_ref();
        }
    }

    /// Asks the loop to stop.
    pub fn stop(&self) {
        let mut rung = self.lock();
        rung.stop = true;
        if let Some(waker) = &rung.turn_loop {
            waker.wake_by_ref();
        }
    }

    /// A waker for one slot. It may outlive the client: then it wakes whoever has the slot, who
    /// finds nothing to do.
    pub fn waker(self: &Arc<Bell>, slot: u32) -> Waker {
        Waker::from(Arc::new(SlotWaker { slot, bell: Arc::clone(self) }))
    }

    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct SlotWaker {
    slot: u32,
    bell: Arc<Bell>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut rung = self.bell.lock();
        rung.slots.push(self.slot);
        if rung.slots.len() == 1
            && let Some(waker) = &rung.turn_loop
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
        let (bell, count) = (Arc::new(Bell::default()), Arc::new(Count::default()));
        let turn_loop = Waker::from(Arc::clone(&count));
        let mut slots = Vec::new();
        assert!(!bell.take(&mut slots, &turn_loop).stop);
        for slot in [7, 3, 7] {
            bell.waker(slot).wake();
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(!bell.take(&mut slots, &turn_loop).stop);
        assert_eq!(slots, [7, 3, 7]);
        bell.waker(1).wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        bell.stop();
        assert!(bell.take(&mut slots, &turn_loop).stop);
        assert!(!bell.take(&mut slots, &turn_loop).stop);
        let before = count.0.load(Ordering::Relaxed);
        bell.ring();
        bell.ring();
        assert_eq!(count.0.load(Ordering::Relaxed), before + 1, "news not taken rings once");
        assert_eq!(bell.take(&mut slots, &turn_loop), Rang { stop: false, news: true });
        assert_eq!(bell.take(&mut slots, &turn_loop), Rang { stop: false, news: false });
    }
}
