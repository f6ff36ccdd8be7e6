//! The fate of a job whose delivery ended without success.

use crate::engine::model::fact::Destination;
use crate::engine::model::reply::Reason;
use crate::engine::store::Store;
use crate::engine::store::jobs::JobIndex;
use crate::ids::QueueNo;
use crate::limits;
use crate::time::{Micros, Millis};

/// How a delivery ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Nacked, with the consumer's wish for the next time.
    Nacked {
        counted: bool,
        /// Dead now.
        bury: bool,
        /// The next time, if the consumer named one.
        next: Option<Millis>,
    },
    /// The lease ran out.
    Timeout,
    /// The connection of a bound lease closed.
    Lost,
}

/// Where the leased job goes. Its backoff, or its retention as a dead job, counts from `ended`: when the delivery
/// ended, which may be noticed much later. A next time that has passed meanwhile becomes `now`, like every time in the
/// past: the wheels cannot go back.
pub fn destination(
    store: &Store,
    queue: QueueNo,
    index: JobIndex,
    failure: Failure,
    ended: Millis,
    now: Micros,
) -> Destination {
    let policy = store.policy(index);
    let history = store.jobs().history(index).expect("a leased job has a history");
    let used_up = policy.attempts > 0 && history.attempt >= policy.attempts;
    let backoff = || {
        let wait_ms = policy.backoff.wait_ms(store.jobs().id(index), history.attempt);
        Destination::Delayed { due: ended.plus(wait_ms).max(now.floor()) }
    };
    let dead = |reason| {
        let settings = store.queue(queue).settings.as_ref();
        let own_ms = settings.and_then(|settings| settings.dead_retention_ms);
        let kept_ms = own_ms.unwrap_or(limits::DEAD_RETENTION_MS_DEFAULT);
        Destination::Dead { reason, kept_until: ended.plus(kept_ms) }
    };
    match failure {
        // It makes room for what follows, whatever is said of it.
        _ if history.successor.is_some() => Destination::Ready,
        Failure::Nacked { bury: true, .. } => dead(Reason::Buried),
        Failure::Nacked { counted: true, .. } if used_up => dead(Reason::Attempts),
        Failure::Nacked { next: Some(due), .. } => Destination::Delayed { due },
        Failure::Nacked { counted: false, .. } => Destination::Ready,
        Failure::Nacked { .. } => backoff(),
        Failure::Timeout if used_up => dead(Reason::Timeout),
        Failure::Lost if used_up => dead(Reason::Lost),
        // Once may be a hiccup of the worker; twice in a row is the job, which must not come first
        // again and again.
        Failure::Timeout | Failure::Lost if history.unanswered == 0 => Destination::Ready,
        Failure::Timeout | Failure::Lost => backoff(),
    }
}
