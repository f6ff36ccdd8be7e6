//! How long tests wait. Every limit by the wall clock is from here: it is there for what hangs, and says nothing about
//! how fast anything is. What is measured is measured in a time that load does not stretch, or beside the machine itself.
//! `DELAYD_PATIENCE` stretches all of them, for a machine that is slower still.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
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

/// How long a client waits that asks another node instead, and again: no test fails because this was too short.
pub fn haste() -> Duration {
    Duration::from_millis(400)
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

/// Lets time pass. For tests of what happens when it does, never to wait for something that can be looked at.
pub fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// What this thread has used of a processor for it: other threads take nothing from that.
pub fn cpu<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = thread_cpu();
    let done = work();
    (done, thread_cpu() - began)
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How late the machine itself is: a thread that has nothing to do but to wake up each millisecond.
#[derive(Debug)]
pub struct Machine {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

/// Processes and threads that take part in one request and its answer, each of which may have to wait for a processor.
const HOPS: u32 = 10;

impl Machine {
    pub fn watch() -> Machine {
        let is_over = Arc::<AtomicBool>::default();
        let stops = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            while !stops.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            longest
        });
        Machine { is_over, thread }
    }

    /// How long something that should take no longer than `time` may have taken, as slow as the machine was.
    pub fn allows(self, time: Duration) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        let late = self.thread.join().expect("it only sleeps");
        println!("the machine was late by {late:?}");
        time + late * HOPS
    }
}
