//! What the loop tells others of itself while it runs: that it turns, how it stands, and, when asked,
//! all that metrics tell. Nobody who looks here makes the loop wait.

use crate::limits::HUNG_US;
use crate::observe::metrics::Scrape;
use crate::server::connection::wake::Notifier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// How the server stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The journal is being read: so many percent.
    Loading(u8),
    /// Requests are served; of a node of a cluster: it leads, and may answer reads by itself.
    Serving,
    /// It leads, and waits to hear from a majority whether it still does.
    Unsure,
    /// Another node of the cluster leads and is there: reads are answered here.
    Following,
    /// It serves or follows, but is sick.
    Sick {
        /// It leads, and no other node is about to take over.
        leads: bool,
        /// How it stands.
        text: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// Of a node of a cluster: why no request is served here.
    Apart(Arc<str>),
    /// The journal failed, for this cause.
    Failed(Arc<str>),
    /// A stop was asked for.
    Stopping,
}

impl Standing {
    /// Whether requests are answered, reads at least.
    pub fn is_ready(&self) -> bool {
        use Standing::{Following, Serving, Sick, Unsure};
        matches!(self, Serving | Unsure | Following | Sick { .. })
    }

    /// Whether this is where jobs are added and taken.
    pub fn leads(&self) -> bool {
        matches!(self, Standing::Serving | Standing::Sick { leads: true, .. })
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Standing::Loading(percent) => write!(f, "loading the journal, {percent} % read"),
            Standing::Serving => f.write_str("serving"),
            Standing::Unsure => {
                f.write_str("serving; a majority has yet to say that it still leads")
            }
            Standing::Following => f.write_str("following"),
            Standing::Sick { text, why, .. } => write!(f, "{text}; sick: {why}"),
            Standing::Apart(why) => f.write_str(why),
            Standing::Failed(cause) => {
                write!(f, "the journal failed: {cause}; nothing changes until a restart")
            }
            Standing::Stopping => f.write_str("stopping"),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct StatusBoard {
    notifier: Arc<Notifier>,
    /// When the last turn ended; monotonic, µs.
    turned_us: AtomicU64,
    standing: Mutex<Standing>,
    /// Somebody waits for a scrape.
    asked: AtomicBool,
    waiting: Mutex<Vec<Sender<Arc<Scrape>>>>,
    gauges: [AtomicU64; GAUGES],
}

/// How many numbers stand on the board as of the last turn.
pub const GAUGES: usize = 8;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StatusBoard {
    /// Of a server that starts at `mono_us`.
    pub fn new(notifier: Arc<Notifier>, mono_us: u64) -> StatusBoard {
        StatusBoard {
            notifier,
            turned_us: AtomicU64::new(mono_us),
            standing: Mutex::new(Standing::Loading(0)),
            asked: AtomicBool::new(false),
            waiting: Mutex::default(),
            gauges: Default::default(),
        }
    }

    /// What is counted as of the turn that ended: eight plain stores, which cost a turn some ns.
    pub fn set_gauges(&self, gauges: [u64; GAUGES]) {
        for (place, gauge) in self.gauges.iter().zip(gauges) {
            place.store(gauge, Ordering::Relaxed);
        }
    }

    /// As of the last turn: delayed, ready, leased and dead jobs; since the start added, delivered, done and died ones.
    pub fn gauges(&self) -> [u64; GAUGES] {
        std::array::from_fn(|at| self.gauges[at].load(Ordering::Relaxed))
    }

    /// A turn ended at `mono_us`.
    pub fn turned(&self, mono_us: u64) {
        self.turned_us.store(mono_us, Ordering::Relaxed);
    }

    /// For how long the loop has not turned, if it hangs.
    pub fn hung_us(&self, mono_us: u64) -> Option<u64> {
        let since_us = mono_us.saturating_sub(self.turned_us.load(Ordering::Relaxed));
        (since_us > HUNG_US).then_some(since_us)
    }

    /// From here on it stands so.
    pub fn set_standing(&self, standing: Standing) {
        *lock(&self.standing) = standing;
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        lock(&self.standing).clone()
    }

    /// Asks the loop for a scrape and wakes it.
    pub fn ask(&self) -> Receiver<Arc<Scrape>> {
        let (sender, receiver) = channel();
        let mut waiting = lock(&self.waiting);
        // Those who gave up while the loop hung.
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        drop(waiting);
        self.asked.store(true, Ordering::Release);
        self.notifier.notify();
        receiver
    }

    /// Who waits for a scrape; empty for nobody.
    pub fn take_asked(&self) -> Vec<Sender<Arc<Scrape>>> {
        match self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Acquire) {
            true => std::mem::take(&mut lock(&self.waiting)),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_turn_hangs() {
        let status = StatusBoard::new(Arc::default(), 1_000);
        assert_eq!(status.hung_us(1_000 + HUNG_US), None);
        assert_eq!(status.hung_us(1_001 + HUNG_US), Some(HUNG_US + 1));
        status.turned(2_000 + HUNG_US);
        assert_eq!(status.hung_us(1_001 + HUNG_US), None);
    }

    #[test]
    fn who_gave_up_is_not_answered() {
        let status = StatusBoard::new(Arc::default(), 0);
        assert!(status.take_asked().is_empty());
        drop(status.ask());
        let _kept = status.ask();
        assert_eq!(status.take_asked().len(), 1);
        assert!(status.take_asked().is_empty());
    }
}
