//! The commit of a standalone server: a batch is safe as `appendfsync` says.

use crate::ids::Index;
use crate::journal::record::entry::TurnBatch;
use crate::journal::record::span;
use crate::journal::{Disk, Log};
use crate::limits::{PROPOSAL_AGE_STEP_US, UNSAFE_US_MAX, WRITE_BYTES};
use crate::server::durability::commit::shared::{Fsync, Proposal, WriterShared};
use crate::server::durability::commit::{FailOnPanic, ResumePosition, writer};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

#[derive(Debug)]
pub struct Local {
    writer: Option<JoinHandle<()>>,
    pub(super) fsync: Fsync,
    pub(super) position: ResumePosition,
    /// Bytes of all batches proposed since the start.
    pub(super) proposed_bytes: u64,
    /// Under `everysec`: what is not durable, with the time of its proposal, one a step.
    unsafe_since: VecDeque<(Index, u64)>,
    /// The committed index.
    pub(super) committed: Index,
}

impl Local {
    /// Starts the writer of a log that continues at `position`.
    pub fn start(
        log: Log<Disk>,
        shared: Arc<WriterShared>,
        position: ResumePosition,
        fsync: Fsync,
    ) -> io::Result<Local> {
        let writer = std::thread::Builder::new().name("journal".to_owned());
        let writer = writer.spawn(move || {
            // A thread that panics must not leave the turn waiting for ever.
            let _guard = FailOnPanic(Arc::clone(&shared));
            writer::run(log, &shared);
        })?;
        Ok(Local { writer: Some(writer), ..Local::by_hand(position, fsync) })
    }

    /// Without a writer.
    pub fn by_hand(position: ResumePosition, fsync: Fsync) -> Local {
        let (writer, unsafe_since, committed) = (None, VecDeque::new(), position.index);
        Local { writer, fsync, position, proposed_bytes: 0, unsafe_since, committed }
    }

    /// Hands a batch to the writer, without waiting.
    pub(super) fn propose(&mut self, batch: TurnBatch<'_>, shared: &WriterShared) {
        let TurnBatch { now, mono_us, facts, urgent } = batch;
        let ResumePosition { index, first } = &mut self.position;
        index.0 += 1;
        let count = u32::try_from(facts.count).expect("a turn makes less than 2^32 facts");
        self.proposed_bytes += span(facts.bytes.len());
        let mut work = shared.work();
        let mut bytes = work.buffers.pop().unwrap_or_default();
        bytes.clear();
        std::mem::swap(&mut bytes, &mut facts.bytes);
        facts.count = 0;
        let urgent = urgent && self.fsync == Fsync::Always;
        work.bytes += bytes.len();
        work.batches.push(Proposal { index: *index, first: *first, now, count, facts: bytes });
        *first += u64::from(count);
        if urgent {
            work.wanted = *index;
        }
        // A writer that knows of batches has set itself a time to write them.
        if urgent || work.batches.len() == 1 || work.bytes > WRITE_BYTES {
            shared.wake_writer(work);
        } else {
            drop(work);
        }
        if self.fsync == Fsync::Everysec {
            self.note_age(mono_us);
        }
    }

    pub(super) fn raise_wanted(&self, index: Index, shared: &WriterShared) {
        let mut work = shared.work();
        if index > work.wanted {
            work.wanted = index;
            shared.wake_writer(work);
        }
    }

    /// The committed position at this time.
    pub(super) fn committed_at(&mut self, mono_us: u64, shared: &WriterShared) -> Index {
        let durable = shared.durable();
        while self.unsafe_since.front().is_some_and(|(index, _)| *index <= durable) {
            self.unsafe_since.pop_front();
        }
        let newest = self.position.index;
        self.committed = match self.fsync {
            Fsync::Always => durable,
            Fsync::No => newest,
            Fsync::Everysec => match self.unsafe_since.front() {
                Some((_, since_us)) if mono_us.saturating_sub(*since_us) > UNSAFE_US_MAX => durable,
                _ => newest,
            },
        }
        .max(self.committed);
        self.committed
    }

    /// Ends the writer, once all is synced.
    pub(super) fn stop(mut self, shared: &WriterShared) {
        let mut work = shared.work();
        work.stop = true;
        shared.wake_writer(work);
        if let Some(writer) = self.writer.take() {
            // A panic has been logged and is a failure already.
            let _ = writer.join();
        }
    }

    /// The present proposals are recorded as not durable.
    fn note_age(&mut self, mono_us: u64) {
        let newest = self.position.index;
        match self.unsafe_since.back_mut() {
            Some((index, since_us)) if mono_us - *since_us <= PROPOSAL_AGE_STEP_US => {
                *index = newest;
            }
            _ => self.unsafe_since.push_back((newest, mono_us)),
        }
    }
}
