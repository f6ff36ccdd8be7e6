//! The loop's own status while it runs: that it turns, its state, and, on request, all metrics. Reading it never makes
//! the loop wait.

use crate::limits::HUNG_US;
use crate::lock::lock;
use crate::observe::metrics::Scrape;
use crate::server::connection::wake::Notifier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot::{Receiver, Sender, channel};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServiceState {
    /// The journal is being read: this percentage.
    Loading(u8),
    /// Requests are served; of a node of a cluster: it leads, and may answer reads by itself.
    Serving,
    /// It leads, and waits to hear from a majority whether it still does.
    Unsure,
    /// Another node of the cluster leads and is there: reads are answered here.
    Following,
    /// Other nodes hold this partition, and clients are sent to them.
    Elsewhere,
    /// It serves or follows, but is sick.
    Sick {
        /// It leads, and no other node is about to take over.
        leads: bool,
        /// The state in words.
        text: &'static str,
        /// The problem.
        why: &'static str,
    },
    /// On a node of a cluster: why no request is served here.
    Apart(Arc<str>),
    /// The journal failed, for this cause.
    Failed(Arc<str>),
    /// A stop was asked for.
    Stopping,
}

impl ServiceState {
    /// Whether requests are answered, reads at least, or their clients sent to a node that does.
    pub fn is_ready(&self) -> bool {
        use ServiceState::{Elsewhere, Following, Serving, Sick, Unsure};
        matches!(self, Serving | Unsure | Following | Elsewhere | Sick { .. })
    }

    /// Whether this is where jobs are added and taken.
    pub fn leads(&self) -> bool {
        matches!(self, ServiceState::Serving | ServiceState::Sick { leads: true, .. })
    }
}

impl std::fmt::Display for ServiceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServiceState::Loading(percent) => write!(f, "loading the journal, {percent} % read"),
            ServiceState::Serving => f.write_str("serving"),
            ServiceState::Unsure => {
                f.write_str("serving; a majority has not confirmed yet that it still leads")
            }
            ServiceState::Following => f.write_str("following"),
            ServiceState::Elsewhere => f.write_str("held by other nodes"),
            ServiceState::Sick { text, why, .. } => write!(f, "{text}; sick: {why}"),
            ServiceState::Apart(why) => f.write_str(why),
            ServiceState::Failed(cause) => {
                write!(f, "the journal failed: {cause}; no changes until a restart")
            }
            ServiceState::Stopping => f.write_str("stopping"),
        }
    }
}

#[derive(Debug)]
pub struct StatusBoard {
    notifier: Arc<Notifier>,
    /// When the last turn ended; monotonic, µs.
    turned_us: AtomicU64,
    standing: Mutex<ServiceState>,
    /// A scrape is waiting.
    asked: AtomicBool,
    waiting: Mutex<Vec<Sender<Arc<Scrape>>>>,
}

impl StatusBoard {
    pub fn new(notifier: Arc<Notifier>, mono_us: u64) -> StatusBoard {
        StatusBoard {
            notifier,
            turned_us: AtomicU64::new(mono_us),
            standing: Mutex::new(ServiceState::Loading(0)),
            asked: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    pub fn turned(&self, mono_us: u64) {
        self.turned_us.store(mono_us, Ordering::Relaxed);
    }

    /// For how long the loop has not turned, if it hangs.
    pub fn hung_us(&self, mono_us: u64) -> Option<u64> {
        let since_us = mono_us.saturating_sub(self.turned_us.load(Ordering::Relaxed));
        (since_us > HUNG_US).then_some(since_us)
    }

    pub fn set_standing(&self, standing: ServiceState) {
        *lock(&self.standing) = standing;
    }

    pub fn standing(&self) -> ServiceState {
        lock(&self.standing).clone()
    }

    pub fn ask(&self) -> Receiver<Arc<Scrape>> {
        let (sender, receiver) = channel();
        let mut waiting = lock(&self.waiting);
        // Requests that gave up while the loop hung.
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        drop(waiting);
        self.asked.store(true, Ordering::Release);
        self.notifier.notify();
        receiver
    }

    /// The waiting scrapes, if any.
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
