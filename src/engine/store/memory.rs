//! Sizes of jobs: memory, and space in a base file.

use crate::engine::model::last_errors::LastErrors;
use crate::engine::model::request::JobState;
use crate::engine::store::jobs::bodies::stored_bytes;
use crate::engine::store::jobs::{
    HISTORY_BYTES, History, JOB_BYTES, Job, JobIndex, JobStage, Jobs, Successor,
};
use crate::engine::store::snapshot::record;

/// The size of a job: bytes counted as memory, and bytes of its image in a base file.
#[derive(Clone, Copy, Default, Debug)]
pub struct Footprint {
    pub(in crate::engine) bytes: u64,
    pub(in crate::engine) image_bytes: u64,
}

impl Footprint {
    pub fn of(job: &Job, history: Option<&History>) -> Footprint {
        Footprint { bytes: job_bytes(job, history), image_bytes: record::job_bytes(job, history) }
    }

    pub fn at(jobs: &Jobs, index: JobIndex) -> Footprint {
        let job = jobs.get(index);
        Footprint::of(job, jobs.history_of(job))
    }

    pub fn add(&mut self, other: Footprint) {
        self.bytes += other.bytes;
        self.image_bytes += other.image_bytes;
    }

    /// Takes another away that was added.
    pub fn remove(&mut self, other: Footprint) {
        self.bytes -= other.bytes;
        self.image_bytes -= other.image_bytes;
    }

    /// By how much a queue's lateness makes its image longer.
    pub fn of_lateness(image_bytes: u64) -> Footprint {
        Footprint { bytes: 0, image_bytes }
    }

    /// The additional size of a job with a history.
    pub fn of_history() -> Footprint {
        Footprint { bytes: HISTORY_BYTES as u64, image_bytes: record::history_bytes() }
    }
}

/// The sizes of the jobs and windows of a queue, by stage: all of one can then be removed at once.
#[derive(Clone, Copy, Default, Debug)]
pub struct Footprints([Footprint; 5]);

impl Footprints {
    pub fn of_state(&self, state: JobState) -> Footprint {
        self.0[state as usize]
    }

    /// The footprint of the jobs in this stage, or of the windows.
    pub fn of(&mut self, stage: JobStage) -> &mut Footprint {
        let at = stage.state().map_or(JobState::ALL.len(), |state| state as usize);
        &mut self.0[at]
    }
}

pub fn job_bytes(job: &Job, history: Option<&History>) -> u64 {
    let history = history.map_or(0, |history| {
        let successor = history.successor.as_deref().map_or(0, Successor::bytes);
        HISTORY_BYTES + errors_bytes(history.errors.as_ref().map(LastErrors::bytes)) + successor
    });
    (stored_bytes(job.data_bytes()) + JOB_BYTES + history) as u64
}

/// The allocator's size for this many bytes: four sizes between a power of two and the next.
pub fn allocated_bytes(bytes: usize) -> usize {
    let step = (bytes.max(1).next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

/// Bytes counted for the texts of failed deliveries, which have this many: an allocation of its own.
pub fn errors_bytes(bytes: Option<usize>) -> usize {
    bytes.map_or(0, |bytes| bytes + 16)
}
