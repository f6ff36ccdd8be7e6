//! Whether a queue takes new jobs, and whether there is memory for them. Consulted only when deciding.

use crate::engine::model::last_errors::LastErrors;
use crate::engine::model::request::{JobState, QueueName};
use crate::engine::step::{Live, Step};
use crate::engine::store::Store;
use crate::engine::store::errors::ERROR_KIND_ROOM;
use crate::engine::store::jobs::bodies::stored_bytes;
use crate::engine::store::jobs::{JOB_BYTES, JobIndex};
use crate::engine::store::memory::errors_bytes;
use crate::engine::store::queue::QUEUE_BYTES;
use crate::error::{Error, Shown};
use crate::ids::QueueNo;
use crate::limits;

impl Step<'_, '_> {
    /// Whether the queue takes new jobs, of which there will be `growth` more then.
    pub fn check_admission(&self, number: QueueNo, growth: u64) -> Result<(), Error> {
        let queue = self.store.queue(number);
        if queue.pauses.into.is_on(self.now) {
            let left_ms = queue.pauses.into.end().map(|end| end.0 - self.now.floor().0);
            return Err(Error::Paused { queue: Shown::new(&queue.name), left_ms });
        }
        let Some(settings) = &queue.settings else { return Ok(()) };
        let max = settings.max_jobs.unwrap_or(0);
        let jobs = queue.jobs - queue.count(JobState::Dead);
        if max > 0 && growth > 0 && jobs.saturating_add(growth) > max {
            return Err(Error::Full { queue: Shown::new(&queue.name), jobs, max });
        }
        Ok(())
    }

    /// Whether one more job may be added to a group.
    pub fn check_group_admission(&self, number: QueueNo, group: u32) -> Result<(), Error> {
        let queue = self.store.queue(number);
        let max = u64::from(queue.group_max_jobs(group));
        if max == 0 {
            return Ok(());
        }
        let jobs = self.store.group_jobs(number, group);
        if jobs + 1 > max {
            let name = queue.groups.as_deref().map_or(&b""[..], |groups| groups.name(group));
            let (group, queue) = (Shown::new(name), Shown::new(&queue.name));
            return Err(Error::GroupFull { group, queue, jobs, max });
        }
        Ok(())
    }

    /// Whether new jobs with this many bytes of id and body may be added to the queue of this name, whose number is
    /// `queue` if it exists.
    pub fn check_adding(
        &self,
        queue: Option<QueueNo>,
        name: QueueName<'_>,
        sizes: impl ExactSizeIterator<Item = usize> + Clone,
    ) -> Result<(), Error> {
        if let Some(queue) = queue {
            self.check_admission(queue, sizes.len() as u64)?;
        }
        self.check_memory(queue, name, sizes)
    }

    /// Whether there is memory for jobs, and for their queue if it is new. Jobs that find room in what is
    /// held need no more of it.
    pub fn check_memory(
        &self,
        queue: Option<QueueNo>,
        name: QueueName<'_>,
        sizes: impl ExactSizeIterator<Item = usize> + Clone,
    ) -> Result<(), Error> {
        // The additions of a transaction were checked before it began.
        if self.live.in_transaction || self.live.settings.memory_bytes_max == 0 {
            return Ok(());
        }
        let bytes =
            sizes.clone().map(|bytes| stored_bytes(bytes) + JOB_BYTES).sum::<usize>() as u64;
        let new = if queue.is_none() { QUEUE_BYTES + name.name.len() as u64 } else { 0 };
        let fits =
            || sizes.len() == 1 && sizes.clone().all(|size| self.store.jobs().has_room(size));
        self.live.check_memory_for(self.store, bytes + new, sizes.len() as u64, fits)
    }

    /// Whether there is memory for this text in addition to what is kept with the job.
    pub fn has_memory_for_text(&self, index: JobIndex, text: &[u8]) -> bool {
        let kept = self.store.jobs().history(index).and_then(|history| history.errors.as_ref());
        let after = errors_bytes(Some(LastErrors::bytes_with(kept, text)));
        let more = after.saturating_sub(errors_bytes(kept.map(LastErrors::bytes)));
        more == 0 || self.live.check_room_for(self.store, more as u64 + ERROR_KIND_ROOM).is_ok()
    }
}

impl Live {
    pub fn check_room_for(&self, store: &Store, bytes: u64) -> Result<(), Error> {
        self.check_memory_for(store, bytes, 0, || false)
    }

    /// Whether there is memory for this many bytes more, of this many new jobs or of something else; `fits` says that
    /// it fits into held memory.
    ///
    /// A job that is delivered for the first time takes a history more, and taking is never refused. So
    /// adding keeps that back, for as far as it goes beyond the 16th by which leases may exceed the limit:
    ///
    /// ```text
    /// maxmemory 1,000 MB, histories of 104 B:   4 KiB a job   240,000 jobs, 25 MB to come: nothing is kept back
    ///                                             92 B a job   5.4 million jobs: 500 MB, and 562 MB to come
    /// ```
    ///
    /// Totals of queues without jobs never keep a job out: their bytes are not counted here, as far as their share goes,
    /// and once they would make a difference they go in the same turn, when time passes.
    fn check_memory_for(
        &self,
        store: &Store,
        bytes: u64,
        jobs: u64,
        fits: impl FnOnce() -> bool,
    ) -> Result<(), Error> {
        let max = self.settings.memory_bytes_max;
        if max == 0 {
            return Ok(());
        }
        let spared = store.giving_way_bytes().min(max / limits::TOTALS_SHARE);
        self.check_memory_beside(store, spared, bytes, jobs, fits)
    }

    /// Whether caches must be freed: totals take more than their share, or adding would be refused if they were
    /// counted. Forgotten totals do not count, even while a base file still needs them.
    pub fn is_short(&self, store: &Store) -> bool {
        let max = self.settings.memory_bytes_max;
        let leaving = || store.giving_way_bytes() - store.spare_bytes();
        max > 0
            && (store.spare_bytes() > max / limits::TOTALS_SHARE
                || self.check_memory_beside(store, leaving(), 0, 1, || false).is_err())
    }

    /// The same, where `spared` of the bytes that are held are about to go.
    fn check_memory_beside(
        &self,
        store: &Store,
        spared: u64,
        bytes: u64,
        jobs: u64,
        fits: impl FnOnce() -> bool,
    ) -> Result<(), Error> {
        let max = self.settings.memory_bytes_max;
        // As a user sees it: of the process.
        let beside = self.settings.memory_bytes_beside;
        let full = |used| Error::OutOfMemory { used: used + beside, max: max + beside };
        let used = store.bytes() - spared + bytes;
        if used > max {
            return Err(full(used));
        }
        let left = max + max / limits::LEASE_SHARE - used;
        let leases = store.lease_bytes_to_come(left, jobs);
        if leases > left {
            let (used, max) = (used + beside, max + beside);
            return Err(Error::OutOfMemoryForLeases { used, leases, max });
        }
        // Whatever room there is in what is held: pages that hold nothing may not be resident.
        if self.settings.memory_bytes_over > 0 {
            store.press();
            return Err(full(max.saturating_add(self.settings.memory_bytes_over)));
        }
        let held = self.held_bytes(store) - spared + bytes;
        if held > max + limits::HELD_BYTES_BEYOND && !fits() {
            store.press();
            return Err(full(held));
        }
        Ok(())
    }

    /// Bytes held for jobs and queues, including memory of freed jobs until it is returned.
    pub fn held_bytes(&self, store: &Store) -> u64 {
        store.held_bytes().max(store.bytes()) + self.unsent.returning_bytes() as u64
    }
}
