//! The keeper thread: makes spares for the log and writes base files, so that neither the turn nor
//! the writer waits for a new file.

use crate::ids::Index;
use crate::journal::base::{BaseHead, BaseWriter, rest_after};
use crate::journal::record::raft_state::Members;
use crate::journal::{Disk, SpareMaker, may_pass};
use crate::limits::DISK_LOOK;
use crate::lock::lock;
use crate::server::durability::commit::shared::WriterShared;
use crate::server::durability::commit::worker::Worker;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[derive(Debug)]
pub enum Task {
    /// [`KeeperDone::Spare`] follows.
    MakeSpare,
    /// A base begins, in a cluster with its members; images follow.
    BeginBase(BaseHead, Option<Members>),
    /// Images of that base, whole ones.
    Images(Vec<u8>),
    /// The base has all its images; [`KeeperDone::Base`] or [`KeeperDone::BaseFailed`] follows.
    FinishBase,
    AbandonBase,
    /// By [`Keeper::stop`] alone.
    Stop,
}

#[derive(Debug)]
pub enum KeeperDone {
    /// A spare was made and is with the writer, or there was no room for it.
    Spare(io::Result<()>),
    /// A base is complete and in place: as of which index, and its bytes.
    Base(Index, u64),
    /// A base could not be written.
    BaseFailed(io::Error),
}

/// The turn's end of the keeper.
#[derive(Debug)]
pub struct Keeper {
    tasks: Sender<Task>,
    done: Arc<Mutex<VecDeque<KeeperDone>>>,
    /// Bytes of images given and not yet written.
    backlog_bytes: Arc<AtomicU64>,
    rests: Arc<AtomicBool>,
    thread: Option<Worker>,
}

impl Keeper {
    /// Starts the thread. Bases are written in `storage`.
    pub fn start(
        storage: Arc<Disk>,
        maker: SpareMaker<Disk>,
        shared: Arc<WriterShared>,
    ) -> io::Result<Keeper> {
        let (keeper, tasks) = Keeper::by_hand();
        let rests = Arc::clone(&keeper.rests);
        let measure_at = Instant::now() + DISK_LOOK;
        let work = KeeperWork { storage, maker, shared, tasks, rests, base: None, measure_at };
        // The first turn sees what room there is.
        work.measure();
        let thread = Some(Worker::start("keeper", move || work.run())?);
        Ok(Keeper { thread, ..keeper })
    }

    /// A keeper without a thread, whose tasks the caller does.
    pub(super) fn by_hand() -> (Keeper, Tasks) {
        let (tasks, received) = channel();
        let done = Arc::<Mutex<VecDeque<KeeperDone>>>::default();
        let backlog_bytes = Arc::<AtomicU64>::default();
        let theirs =
            Tasks { received, done: Arc::clone(&done), backlog_bytes: Arc::clone(&backlog_bytes) };
        (Keeper { tasks, done, backlog_bytes, rests: Arc::default(), thread: None }, theirs)
    }

    /// A keeper that does nothing.
    pub(in crate::server) fn idle() -> Keeper {
        Keeper::by_hand().0
    }

    /// Whether it makes way for the log, see [`rest_after`].
    pub fn set_rests(&self, rests: bool) {
        self.rests.store(rests, Ordering::Relaxed);
    }

    /// Bytes of images given and not yet written.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes.load(Ordering::Relaxed)
    }

    /// The completed work since the last call.
    pub fn done(&self) -> Option<KeeperDone> {
        lock(&self.done).pop_front()
    }

    /// Ends the thread, once what it is at is done. Whether it has by then; nothing that was acknowledged rests on it.
    pub fn stop(&mut self, until: Option<Instant>) -> bool {
        self.send(Task::Stop);
        self.thread.take().is_none_or(|thread| thread.end(until))
    }

    /// Gives it something to do, after all before. A keeper that is gone does nothing more: the log then grows, and the
    /// room ends.
    pub fn send(&self, task: Task) {
        let length = if let Task::Images(bytes) = &task { bytes.len() as u64 } else { 0 };
        self.backlog_bytes.fetch_add(length, Ordering::Relaxed);
        if self.tasks.send(task).is_err() {
            self.backlog_bytes.fetch_sub(length, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
pub(super) struct Tasks {
    received: Receiver<Task>,
    done: Arc<Mutex<VecDeque<KeeperDone>>>,
    backlog_bytes: Arc<AtomicU64>,
}

impl Tasks {
    /// The next task, if there is one; images count as written.
    pub fn next(&self) -> Option<Task> {
        let task = self.received.try_recv().ok();
        if let Some(Task::Images(bytes)) = &task {
            self.wrote(bytes.len());
        }
        task
    }

    fn wrote(&self, bytes: usize) {
        self.backlog_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub fn report(&self, done: KeeperDone) {
        lock(&self.done).push_back(done);
    }
}

struct KeeperWork {
    storage: Arc<Disk>,
    maker: SpareMaker<Disk>,
    shared: Arc<WriterShared>,
    tasks: Tasks,
    rests: Arc<AtomicBool>,
    base: Option<BaseWriter<Disk>>,
    /// When the room is looked at next.
    measure_at: Instant,
}

impl KeeperWork {
    fn run(mut self) {
        loop {
            let now = Instant::now();
            if now >= self.measure_at {
                self.measure();
                match self.storage.check_place() {
                    Err(error) if !may_pass(&error) => self.fail(&error),
                    _ => {}
                }
                self.measure_at = now + DISK_LOOK;
            }
            let left = self.measure_at.saturating_duration_since(now);
            let task = match self.tasks.received.recv_timeout(left) {
                Ok(task) => task,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match task {
                Task::Stop => break,
                Task::MakeSpare => self.make_spare(),
                Task::BeginBase(head, members) => {
                    let begun = BaseWriter::begin(&self.storage, head);
                    self.base = self.or_failed(begun);
                    if let (Some(base), Some(members)) = (&mut self.base, members) {
                        base.set_members(members);
                    }
                    self.note_written(0);
                }
                Task::Images(bytes) => {
                    let (before, began) = (self.base_bytes(), Instant::now());
                    let written = self.base.as_mut().map_or(Ok(()), |base| base.write(&bytes));
                    self.note_written(before);
                    self.tasks.wrote(bytes.len());
                    if self.or_failed(written).is_none() {
                        self.abandon();
                    }
                    self.shared.notify();
                    if self.rests.load(Ordering::Relaxed) {
                        rest_after(began);
                    }
                }
                Task::FinishBase => {
                    if let Some(base) = self.base.take() {
                        let finished = base.finish();
                        if let Some((index, bytes)) = self.or_failed(finished) {
                            self.report(KeeperDone::Base(index, bytes));
                        }
                    }
                }
                Task::AbandonBase => self.abandon(),
            }
        }
        // A half-written file is useless.
        self.abandon();
    }

    /// Publishes the disk space of the journal. If the system does not report it, it is unknown.
    fn measure(&self) {
        let space = self.storage.space().ok().flatten();
        let journal_max = space.map_or(u64::MAX, |space| space.journal_max);
        self.shared.journal_max.store(journal_max, Ordering::Release);
    }

    /// Nothing more is written until a restart.
    fn fail(&self, error: &io::Error) {
        if self.shared.failure().is_none() {
            // A folder that is gone fails whatever is made in it first, with a text that says less.
            let gone = self.storage.check_place().err();
            let error = gone.as_ref().unwrap_or(error);
            tracing::error!(%error, "the journal failed; nothing is acknowledged until a restart");
            self.shared.fail(&error.to_string());
        }
    }

    fn base_bytes(&self) -> u64 {
        self.base.as_ref().map_or(0, BaseWriter::bytes)
    }

    /// The base had `before` bytes before what was written now.
    fn note_written(&self, before: u64) {
        let bytes = self.base_bytes() - before;
        self.shared.base_written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn make_spare(&self) {
        let made = self.maker.make();
        let given = made.map(|spare| self.shared.give_spare(spare));
        match &given {
            Ok(()) => {}
            Err(error) if may_pass(error) => self.measure(),
            Err(error) => return self.fail(error),
        }
        self.report(KeeperDone::Spare(given));
    }

    fn abandon(&mut self) {
        if let Some(base) = self.base.take() {
            base.abandon();
        }
    }

    fn or_failed<T>(&self, result: io::Result<T>) -> Option<T> {
        let failed = |error| {
            self.measure();
            self.report(KeeperDone::BaseFailed(error));
        };
        result.map_err(failed).ok()
    }

    fn report(&self, done: KeeperDone) {
        self.tasks.report(done);
        self.shared.notify();
    }
}
