//! Resident memory stays near what is counted: the allocator keeps what was freed for some seconds, and where
//! jobs come and go at full speed that is as much again as `maxmemory`, and more where their sizes differ.
//!
//! ```text
//! resident, without what clients hold
//!   C = maxmemory + a tenth + 32 MiB   what is promised
//!   refused from, C - 12 MiB - 1/64    requests wait while memory is given back; adding is OOM if that did not help
//!   given back from, C - 20 MiB - 1/32 the allocator gives back, on a thread of its own, all that it keeps, and keeps
//!                                      nothing until there is 4 MiB less
//! ```
//!
//! Keeps nothing: what many clients together had and gave up within a few milliseconds would stay for as long as that
//! thread waits for a processor, and in a control group of 96 MB with three busy programs beside it that was too long.
//!
//! And while hardly anything comes or goes, all that the allocator keeps is given back now and then, and the buffers
//! that are kept for the next requests, replies and batches of the journal.
//!
//! The rest is for the needs of a turn, and for data that arrives while memory is returned. Worked, for 64 MiB: C is
//! 102 MiB, returned from 80, refused from 89; a server that is full of jobs has about 75. Below, the allocator keeps
//! pages as long as it likes, which costs less than returning them and asking again.

use crate::limits::{
    GIVE_BACK_AGAIN_BYTES, GIVE_BACK_AGAIN_US, GIVE_BACK_LEFT_BYTES, GIVE_BACK_WAIT_US_MAX,
    REFUSE_LEFT_BYTES, RESIDENT_BYTES_BESIDE, RESIDENT_LOOK_BYTES, RESIDENT_LOOK_US,
    RESIDENT_QUIET_US,
};
use crate::server::connection::wake::Notifier;
use crate::server::observe::machine;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Watches the resident memory of this process.
#[derive(Debug)]
pub struct Resident {
    statm: File,
    giver: Giver,
    /// Bytes sent and received, and the time, as of the last sample.
    sampled: (u64, u64),
    /// Bytes sent and received, and the time, when the last second began; quiet seconds before it.
    second: (u64, u64),
    quiet_seconds: u32,
    keeping: Keeping,
    /// Giving back was asked for then; monotonic, µs.
    asked_us: Option<u64>,
    /// When it was over, and what was resident then.
    gave: (u64, u64),
    /// Bytes over what adding is refused from.
    over: u64,
    waits: bool,
}

/// The state of the process when it is checked.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Monotonic, µs.
    pub mono_us: u64,
    /// Bytes that clients have sent and were sent.
    pub moved_bytes: u64,
    pub clients_bytes: u64,
    /// `maxmemory`, bytes; 0 for no limit.
    pub max: u64,
}

/// What the allocator does with what is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It is kept for some seconds, which saves to ask the system again.
    AsUsual,
    /// It goes back at once. Costs a system call for each range of pages.
    Nothing,
}

/// The thread that gives back; it sleeps until it is asked.
#[derive(Debug)]
struct Giver {
    asks: Sender<Keeping>,
    asked: u64,
    done: Arc<AtomicU64>,
}

impl Resident {
    /// Starts the thread. `give_back` makes the allocator of this program give back what is not in use, and takes as
    /// long as it needs.
    ///
    /// # Errors
    /// The system does not report resident memory, or has no thread.
    pub fn start(give_back: fn(Keeping), notifier: Arc<Notifier>) -> io::Result<Resident> {
        let statm = File::open(machine::STATM)?;
        let (asks, asked) = channel();
        let done = Arc::<AtomicU64>::default();
        let of_thread = Arc::clone(&done);
        std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
            while let Ok(keeping) = asked.recv() {
                give_back(keeping);
                of_thread.fetch_add(1, Ordering::Release);
                notifier.notify();
            }
        })?;
        let giver = Giver { asks, asked: 0, done };
        Ok(Resident {
            statm,
            giver,
            sampled: (0, 0),
            second: (0, 0),
            quiet_seconds: 0,
            keeping: Keeping::AsUsual,
            asked_us: None,
            gave: (0, 0),
            over: 0,
            waits: false,
        })
    }

    /// Checks if it is time, and requests a return of memory if it is needed, or if hardly anything comes or goes. Then
    /// true: caches kept for later should be dropped.
    pub fn note(&mut self, sample: Sample) -> bool {
        let asked = self.giver.asked;
        if self.is_quiet(sample.moved_bytes, sample.mono_us) {
            self.giver.ask(self.keeping);
        }
        self.watch(sample);
        self.giver.asked > asked
    }

    fn watch(&mut self, sample: Sample) {
        let Sample { mono_us, moved_bytes, max, .. } = sample;
        let idle = moved_bytes.abs_diff(self.sampled.0) < RESIDENT_LOOK_BYTES
            && mono_us < self.sampled.1 + RESIDENT_LOOK_US;
        if max == 0 {
            (self.over, self.waits) = (0, false);
            if self.keeping == Keeping::Nothing {
                self.keeping = Keeping::AsUsual;
                self.giver.ask(self.keeping);
            }
        }
        if max == 0 || (idle && !self.is_tight()) {
            return;
        }
        // A system that reported at the start still does; memory it does not report is not counted.
        let Some(resident) = self.resident_bytes() else { return };
        self.sampled = (moved_bytes, mono_us);
        self.decide(sample, resident.saturating_sub(sample.clients_bytes));
    }

    /// After one, two, four, eight … quiet seconds what the allocator keeps is given back: many jobs that are
    /// removed at once are freed in slices, long after the command.
    fn is_quiet(&mut self, moved_bytes: u64, mono_us: u64) -> bool {
        let (began_bytes, began_us) = self.second;
        if mono_us < began_us + RESIDENT_QUIET_US {
            return false;
        }
        self.second = (moved_bytes, mono_us);
        let quiet = moved_bytes.abs_diff(began_bytes) < RESIDENT_LOOK_BYTES;
        self.quiet_seconds = if quiet { self.quiet_seconds.saturating_add(1) } else { 0 };
        self.quiet_seconds.is_power_of_two()
    }

    /// The consequence of this many resident bytes, in addition to the clients' memory.
    fn decide(&mut self, sample: Sample, used: u64) {
        let Sample { mono_us, max, .. } = sample;
        if self.asked_us.is_some() && self.giver.is_done() {
            self.asked_us = None;
            self.gave = (mono_us, used);
        }
        let most = max.saturating_add(max / 10).saturating_add(RESIDENT_BYTES_BESIDE);
        let given_back_from = most - (GIVE_BACK_LEFT_BYTES + max / 32);
        let keeping = match used {
            used if used > given_back_from => Keeping::Nothing,
            used if used + GIVE_BACK_AGAIN_BYTES < given_back_from => Keeping::AsUsual,
            _ => self.keeping,
        };
        let changes = std::mem::replace(&mut self.keeping, keeping) != keeping;
        let again = used > self.gave.1 + GIVE_BACK_AGAIN_BYTES
            || mono_us > self.gave.0 + GIVE_BACK_AGAIN_US;
        if changes || used > given_back_from && self.asked_us.is_none() && again {
            self.giver.ask(keeping);
            if keeping == Keeping::Nothing {
                self.asked_us = Some(mono_us);
            }
        }
        self.over = used.saturating_sub(most - (REFUSE_LEFT_BYTES + max / 64));
        let hopeful =
            self.asked_us.is_some_and(|asked_us| mono_us < asked_us + GIVE_BACK_WAIT_US_MAX);
        self.waits = self.over > 0 && hopeful;
    }

    /// Whether requests are to wait: there is hardly any memory, and more is on its way.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Bytes resident over what there may be, for which adding is refused.
    pub fn over_bytes(&self) -> u64 {
        if self.waits { 0 } else { self.over }
    }

    /// Every turn looks.
    fn is_tight(&self) -> bool {
        self.over > 0 || self.asked_us.is_some()
    }

    fn resident_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.statm.read_at(&mut text, 0).ok()?;
        machine::resident_in(str::from_utf8(&text[..length]).ok()?)
    }
}

impl Giver {
    fn ask(&mut self, keeping: Keeping) {
        self.asked += 1;
        // The thread ends with this.
        let _ = self.asks.send(keeping);
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    use std::sync::mpsc::Receiver;

    /// One that gives back when the test says so.
    fn resident() -> (Resident, Receiver<Keeping>, Arc<AtomicU64>) {
        let mut resident = Resident::start(|_| {}, Arc::default()).expect("a thread");
        let (asks, asked) = channel();
        let done = Arc::<AtomicU64>::default();
        resident.giver = Giver { asks, asked: 0, done: Arc::clone(&done) };
        (resident, asked, done)
    }

    fn at(ms: u64) -> Sample {
        Sample { mono_us: ms * 1_000, moved_bytes: 0, clients_bytes: 0, max: 64 * MIB }
    }

    #[test]
    fn requests_wait_for_memory_that_is_given_back_and_adding_is_refused_if_that_did_not_help() {
        let (mut resident, asked, done) = resident();
        resident.decide(at(1_000), 80 * MIB);
        assert!(asked.try_recv().is_err(), "a full server has less");
        resident.decide(at(1_001), 81 * MIB);
        let asks = asked.try_recv();
        assert_eq!(
            (asks, resident.waits(), resident.over_bytes()),
            (Ok(Keeping::Nothing), false, 0)
        );
        resident.decide(at(1_002), 95 * MIB);
        assert!(asked.try_recv().is_err(), "asked once");
        assert!(resident.waits() && resident.over_bytes() == 0);
        done.fetch_add(1, Ordering::Release);
        resident.decide(at(1_020), 77 * MIB);
        assert!(asked.try_recv().is_err() && !resident.waits() && resident.over_bytes() == 0);
        // Not even a moment later when it has become so much more.
        resident.decide(at(1_021), 92 * MIB);
        assert!(asked.try_recv().is_ok() && resident.waits());
        done.fetch_add(1, Ordering::Release);
        resident.decide(at(1_040), 92 * MIB);
        assert!(asked.try_recv().is_err(), "nothing was to be had");
        assert!(!resident.waits() && resident.over_bytes() > 0);
        resident.decide(at(1_141), 92 * MIB);
        assert!(asked.try_recv().is_ok() && resident.waits(), "and again");
        // The thread does not come to it.
        resident.decide(at(1_141 + GIVE_BACK_WAIT_US_MAX / 1_000), 92 * MIB);
        assert!(!resident.waits() && resident.over_bytes() > 0);
        done.fetch_add(1, Ordering::Release);
        resident.decide(at(1_500), 60 * MIB);
        assert!(!resident.waits() && resident.over_bytes() == 0);
        assert_eq!(asked.try_recv(), Ok(Keeping::AsUsual));
    }

    #[test]
    fn quiet_seconds_give_back_what_is_kept() {
        let (mut resident, asked, _) = resident();
        let mut gives_back = |ms: u64, moved_bytes: u64| {
            let quiet = resident.note(Sample { moved_bytes, max: 0, ..at(ms) });
            assert_eq!(asked.try_recv().is_ok(), quiet);
            quiet
        };
        let busy =
            (1..20).filter(|second| gives_back(second * 1_000, second * RESIDENT_LOOK_BYTES));
        assert_eq!(busy.count(), 0);
        let quiet: Vec<_> = (20..30)
            .filter(|second| gives_back(second * 1_000, 19 * RESIDENT_LOOK_BYTES))
            .collect();
        assert_eq!(quiet, [20, 21, 23, 27]);
        assert!(
            !gives_back(30_000, 20 * RESIDENT_LOOK_BYTES)
                && gives_back(31_000, 20 * RESIDENT_LOOK_BYTES)
        );
    }

    #[test]
    fn without_a_limit_nothing_is_looked_at() {
        let (mut resident, asked, _) = resident();
        resident.over = 1;
        resident.note(Sample { max: 0, ..at(999) });
        assert!(asked.try_recv().is_err() && resident.over_bytes() == 0);
        resident.decide(at(999), 81 * MIB);
        assert_eq!(asked.try_recv(), Ok(Keeping::Nothing));
        resident.note(Sample { max: 0, ..at(999) });
        assert_eq!(asked.try_recv(), Ok(Keeping::AsUsual));
    }

    #[test]
    fn the_system_tells_what_is_resident() {
        let (resident, ..) = resident();
        let grows = || {
            let before = resident.resident_bytes().expect("Linux tells");
            let pages = vec![1_u8; 64 << 20];
            let with = resident.resident_bytes().expect("Linux tells");
            with > before + (32 << 20) && pages.len() == 64 << 20
        };
        // Other tests of this process give back what they had meanwhile.
        crate::patience::until("64 MiB more are shown", || grows().then_some(()));
    }
}
