//! The commit of a server alone: a batch is safe as `appendfsync` says.

use crate::ids::Index;
use crate::journal::batch::Batch;
use crate::journal::record::span;
use crate::journal::{Disk, Log};
use crate::limits::{PROPOSAL_AGE_STEP_US, UNSAFE_US_MAX, WRITE_BYTES};
use crate::server::durability::commit::shared::{Fsync, Proposal, Shared};
use crate::server::durability::commit::{FailOnPanic, Position, writer};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// See the module.
#[derive(Debug)]
pub struct Local {
    writer: Option<JoinHandle<()>>,
    pub(super) fsync: Fsync,
    pub(super) position: Position,
    /// Bytes of all batches proposed since the start.
    pub(super) proposed_bytes: u64,
    /// Under `everysec`: what is not durable, with the time of its proposal, one a step.
    unsafe_since: VecDeque<(Index, u64)>,
    /// What was committed up to.
    pub(super) committed: Index,
}

impl Local {
    /// Starts the writer behind a log that goes on at `position`.
    pub fn start(
        log: Log<Disk>,
        shared: Arc<Shared>,
        position: Position,
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
    pub fn by_hand(position: Position, fsync: Fsync) -> Local {
        let (writer, unsafe_since, committed) = (None, VecDeque::new(), position.index);
        Local { writer, fsync, position, proposed_bytes: 0, unsafe_since, committed }
    }

    /// Hands a batch to the writer, without waiting.
    pub(super) fn propose(&mut self, batch: Batch<'_>, shared: &Shared) {
        let Batch { now, mono_us, facts, urgent } = batch;
        let Position { index, first } = &mut self.position;
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

    pub(super) fn raise_wanted(&self, index: Index, shared: &Shared) {
        let mut work = shared.work();
        if index > work.wanted {
            work.wanted = index;
            shared.wake_writer(work);
        }
    }

    /// What is committed at this time.
    pub(super) fn committed_at(&mut self, mono_us: u64, shared: &Shared) -> Index {
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
    pub(super) fn stop(mut self, shared: &Shared) {
        let mut work = shared.work();
        work.stop = true;
        shared.wake_writer(work);
        if let Some(writer) = self.writer.take() {
            // A panic has been logged and is a failure already.
            let _ = writer.join();
        }
    }

    /// What was proposed now is remembered as not durable.
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
