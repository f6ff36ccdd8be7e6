//! How long tests wait. Every limit by the wall clock is from here: it is there for what hangs, and says nothing about
//! how fast anything is. `DELAYD_PATIENCE` stretches all of them, for a machine that is slower still.

use std::fmt::Display;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Two busy cores may leave a thread alone for this long without anything being wrong.
const LEAST_SECONDS: u64 = 2;
/// Longer than anything here takes.
const MOST_SECONDS: u64 = 60;
/// Between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(2);

/// Longer than anything here takes.
pub fn limit() -> Duration {
    seconds(MOST_SECONDS)
}

/// This many, or more where `DELAYD_PATIENCE` says so.
pub fn seconds(count: u64) -> Duration {
    static FACTOR: LazyLock<f64> = LazyLock::new(|| {
        let text = std::env::var("DELAYD_PATIENCE").unwrap_or_else(|_| "1".to_owned());
        let factor = text.parse().ok().filter(|factor| (1.0..=1_000.0).contains(factor));
        factor.unwrap_or_else(|| panic!("DELAYD_PATIENCE: a number from 1 to 1000, not {text:?}"))
    });
    assert!(count >= LEAST_SECONDS, "{count} s: load alone takes as long");
    Duration::from_secs(count).mul_f64(*FACTOR)
}

/// Looks again and again until there is something.
///
/// # Panics
/// If there is nothing within [`limit`].
pub fn until<T>(what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    within(limit(), look).unwrap_or_else(|| panic!("{what}: not within {:?}", limit()))
}

/// As [`until`]; None if the time is over first.
pub fn within<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = look();
        if found.is_some() || began.elapsed() > time {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}
