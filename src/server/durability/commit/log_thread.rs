//! The thread that owns a node's log. It carries operations out in their order; one sync covers all that came while
//! the one before was out.

use crate::cluster::raft::entry::Write;
use crate::cluster::raft::output::Fetch;
use crate::journal::{Disk, may_pass};
use crate::limits::{ROOM_RETRY_US, STATE_NOTE_US, SYNC_US_MAX};
use crate::lock::lock;
use crate::server::clock::timer::mono_us;
use crate::server::cluster::entry_log::{EntryLog, Op};
use crate::server::cluster::raft_loop::{LogDone, NodeLog};
use crate::server::durability::commit::FailOnPanic;
use crate::server::durability::commit::shared::WriterShared;
use crate::server::durability::commit::worker::Worker;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Wakes the thread of Raft.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The other end of the thread.
pub struct LogThread {
    shared: Arc<WriterShared>,
    done: Arc<Mutex<Vec<LogDone>>>,
    thread: Option<Worker>,
}

impl LogThread {
    /// Starts it. `wake` is called when work was completed, and when the log has failed, as `shared` shows.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        log: EntryLog<Disk>,
        shared: Arc<WriterShared>,
        wake: Wake,
    ) -> io::Result<LogThread> {
        let done = Arc::<Mutex<Vec<LogDone>>>::default();
        let mut work = LogWork {
            log,
            shared: Arc::clone(&shared),
            done: Arc::clone(&done),
            wake,
            pending: VecDeque::new(),
            retry_at_us: None,
            noted_us: mono_us(),
        };
        let thread = Worker::start("journal", move || {
            // A thread that panics must not leave the turn waiting for ever.
            let _guard = FailOnPanic(Arc::clone(&work.shared));
            if let Err(error) = work.run() {
                tracing::error!(%error, "the journal failed; this node has left the cluster until a restart");
                work.shared.fail(&error.to_string());
                work.tell(vec![LogDone::Failed(error.to_string())]);
            }
        })?;
        Ok(LogThread { shared, done, thread: Some(thread) })
    }

    /// Carries out the remaining operations, and ends the thread; returns whether it has ended by then.
    /// [`WriterShared::failure`] shows whether that went well.
    pub fn stop(&mut self, until: Option<Instant>) -> bool {
        let mut work = self.shared.work();
        work.stop = true;
        self.shared.wake_writer(work);
        self.thread.take().is_none_or(|thread| thread.end(until))
    }

    fn push(&self, op: Op) {
        let mut work = self.shared.work();
        work.ops.push_back(op);
        self.shared.wake_writer(work);
    }
}

impl NodeLog for LogThread {
    fn write(&mut self, write: Write) {
        self.push(Op::Write(write));
    }

    fn fetch(&mut self, fetch: Fetch) {
        self.push(Op::Fetch(fetch));
    }

    fn stamp(&mut self, commit: u64) {
        self.push(Op::Stamp(commit));
    }

    fn drop_before(&mut self, index: u64) {
        self.push(Op::Drop(index));
    }

    fn take_done(&mut self) -> Vec<LogDone> {
        std::mem::take(&mut lock(&self.done))
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.stop(None);
    }
}

struct LogWork {
    log: EntryLog<Disk>,
    shared: Arc<WriterShared>,
    done: Arc<Mutex<Vec<LogDone>>>,
    wake: Wake,
    /// Taken, and not done yet for want of room.
    pending: VecDeque<Op>,
    /// When that is tried again; monotonic, µs.
    retry_at_us: Option<u64>,
    /// When it was last checked whether a record has the commit position.
    noted_us: u64,
}

impl LogWork {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let stop = self.wait();
            // The keeper had a failure: operations in flight are not reported, and nothing follows
            // them.
            if self.shared.failure().is_some() {
                return Ok(());
            }
            let mut done = Vec::new();
            self.carry_out(&mut done)?;
            if self.log.is_unsynced() {
                self.sync(&mut done)?;
            }
            self.tell(done);
            if self.note_us().is_some_and(|at_us| at_us <= mono_us()) {
                self.log.note_committed()?;
                self.noted_us = mono_us();
            }
            self.shared.publish(&self.log.log);
            if stop {
                return self.close();
            }
        }
    }

    /// Waits until there is something to do; whether that is the end.
    fn wait(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut work = shared.work();
        loop {
            let spares = work.spares.len();
            if spares > 0 {
                work.spares.drain(..).for_each(|spare| self.log.log.add_spare(spare));
                self.retry_at_us = self.retry_at_us.map(|_| 0);
                shared.publish(&self.log.log);
                shared.spares_taken(spares);
            }
            let now_us = mono_us();
            let at_us = [self.retry_at_us, self.note_us()].into_iter().flatten().min();
            let is_new = self.retry_at_us.is_none() && !work.ops.is_empty();
            if work.stop || is_new || at_us.is_some_and(|at_us| at_us <= now_us) {
                self.pending.append(&mut work.ops);
                return work.stop;
            }
            work = shared.sleep(work, at_us.map(|at_us| at_us - now_us));
        }
    }

    fn carry_out(&mut self, done: &mut Vec<LogDone>) -> io::Result<()> {
        self.log.carry_out(&mut self.pending, done)?;
        let bytes = self.log.take_written_bytes();
        self.shared.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_full = !self.pending.is_empty();
        self.retry_at_us = is_full.then(|| mono_us() + ROOM_RETRY_US);
        Ok(())
    }

    fn sync(&mut self, done: &mut Vec<LogDone>) -> io::Result<()> {
        let began_us = mono_us();
        self.shared.unsynced_since_us.store(began_us, Ordering::Relaxed);
        self.shared.sync_began_us.store(began_us, Ordering::Release);
        self.log.sync(done)?;
        self.shared.sync_began_us.store(0, Ordering::Release);
        let over_us = mono_us();
        self.shared.synced(over_us, over_us - began_us);
        if over_us - began_us > SYNC_US_MAX {
            self.shared.slow_syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn tell(&self, done: Vec<LogDone>) {
        if !done.is_empty() {
            lock(&self.done).extend(done);
            (self.wake)();
        }
    }

    /// When the commit position must be written, if no record has it: so that a start has less to learn from the
    /// others.
    fn note_us(&self) -> Option<u64> {
        let wait_us = if self.log.is_urgent() { 0 } else { STATE_NOTE_US };
        self.log.is_to_be_noted().then_some(self.noted_us + wait_us)
    }

    /// The last record is a state: it says that everything before it is durable, so that damage to it is not taken for
    /// a torn tail.
    fn close(&mut self) -> io::Result<()> {
        match self.log.log.note_state() {
            // No client waits for it: without space it is left out.
            Err(error) if !self.log.log.is_poisoned() && may_pass(&error) => Ok(()),
            noted => {
                noted?;
                self.log.log.sync().map(drop)
            }
        }
    }
}
