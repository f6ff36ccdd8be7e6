//! Where jobs stand: each in exactly one place, with a timer in the wheel of its stage, and counted there.

use crate::engine::model::reply::Reason;
use crate::engine::model::request::Side;
use crate::engine::store::Store;
use crate::engine::store::jobs::{Content, History, Job, JobIndex, JobStage};
use crate::engine::store::memory::Footprint;
use crate::engine::store::queue::place_of;
use crate::ids::QueueNo;
use crate::time::{Micros, Millis};

impl Store {
    /// Stores a new job, which is too young for a base file that is being written.
    pub(super) fn put_job(&mut self, job: Job) -> JobIndex {
        let index = self.jobs.put(job);
        self.bases.pass_over(index);
        index
    }

    /// Puts a job without a place into the delayed ones, last among those of its due time.
    pub(super) fn delay(&mut self, queue: QueueNo, index: JobIndex, due: Millis, at: Millis) {
        let (queue_ref, jobs, timers, _) = self.parts(queue);
        let job = jobs.get_mut(index);
        job.stage = JobStage::Delayed;
        job.order = queue_ref.sequence;
        queue_ref.sequence += 1;
        queue_ref.delayed.pass(timers, at);
        let opening = queue_ref.delayed.insert(timers, index, due);
        self.count(queue, JobStage::Delayed, index, 1);
        self.wake_by(queue, due);
        if let Some(opening) = opening {
            self.open_by(queue, opening);
        }
    }

    /// Puts a job without a place at the tail or the head of its priority.
    pub(super) fn make_ready(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        enters: Side,
        due: Millis,
        at: Millis,
    ) {
        let place = self.queue(queue).next_place(enters);
        // Those at the right begin at 1. The first one at the left makes the queue's image longer.
        if place == 0 {
            self.change_own(queue, |queue| queue.first_place = place);
        }
        let (queue_ref, jobs, timers, chunks) = self.parts(queue);
        let tiers = queue_ref.tiers(jobs.group(index));
        let job = jobs.get_mut(index);
        job.stage = JobStage::Ready;
        job.order = place;
        match enters {
            Side::Right => {
                queue_ref.last_place = place;
                queue_ref.ready.push_back(jobs, chunks, index, tiers);
            }
            Side::Left => {
                queue_ref.first_place = place;
                queue_ref.ready.push_front(jobs, chunks, index, tiers);
            }
        }
        queue_ref.ready.count_due(tiers.group, due, 1);
        if jobs.history(index).is_none() {
            timers.set_due(index, due);
        }
        self.count(queue, JobStage::Ready, index, 1);
        self.arm_expiry(queue, index, at);
    }

    pub(super) fn arm_expiry(&mut self, queue: QueueNo, index: JobIndex, at: Millis) {
        if let Some(expiry) = self.expiry(index) {
            self.arm(queue, JobStage::Ready, index, expiry, at);
        }
    }

    /// Arms a job's timer in the wheel of its stage, which is not that of delayed ones.
    pub(super) fn arm(
        &mut self,
        queue: QueueNo,
        stage: JobStage,
        index: JobIndex,
        due: Millis,
        at: Millis,
    ) {
        let (queue_ref, _, timers, _) = self.parts(queue);
        let wheel = queue_ref.wheel(stage);
        wheel.pass(timers, at);
        wheel.insert(timers, index, due);
        self.wake_by(queue, due);
    }

    /// Sets the end of a lease, last among those of its time. The order is kept with the job, so that
    /// it is the same after loading a base file.
    pub(super) fn arm_lease(&mut self, queue: QueueNo, index: JobIndex, end: Millis, at: Millis) {
        let (queue_ref, jobs, _, _) = self.parts(queue);
        jobs.history_mut(index).0.armed = queue_ref.sequence;
        queue_ref.sequence += 1;
        self.arm(queue, JobStage::Leased, index, end, at);
    }

    /// Notes which client has a leased job.
    pub fn note_holder(&mut self, index: JobIndex, client: u32) {
        debug_assert_eq!(self.jobs.get(index).stage, JobStage::Leased, "it was just leased");
        self.jobs.get_mut(index).spot = client;
    }

    /// Puts a job without a place back to its old place.
    pub(super) fn put_back(&mut self, queue: QueueNo, index: JobIndex) {
        let due = self.due(index);
        let (queue_ref, jobs, _, chunks) = self.parts(queue);
        let tiers = queue_ref.tiers(jobs.group(index));
        jobs.get_mut(index).stage = JobStage::Ready;
        queue_ref.ready.put_back(jobs, chunks, index, tiers);
        queue_ref.ready.count_due(tiers.group, due, 1);
        self.count(queue, JobStage::Ready, index, 1);
    }

    /// Puts a new job at the place of a ready one with its id, which it removes. In its group it comes before the other one
    /// leaves: a group that had no ready job meanwhile would come to the end of its rota.
    pub(super) fn take_place(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        old: JobIndex,
        due: Millis,
        at: Millis,
    ) {
        self.jobs.get_mut(index).order = self.jobs.get(old).order;
        self.timers.set_due(index, due);
        if self.lane_of(queue, index) == self.lane_of(queue, old) {
            let due_before = self.disarm(queue, old);
            let (queue_ref, jobs, _, chunks) = self.parts(queue);
            let spot = std::mem::take(&mut jobs.get_mut(old).spot);
            let job = jobs.get_mut(index);
            (job.stage, job.spot) = (JobStage::Ready, spot);
            queue_ref.ready.rename(jobs, chunks, old, index);
            let group = jobs.group(index);
            queue_ref.ready.count_due(group, due, 1);
            queue_ref.ready.count_due(group, due_before, -1);
            self.count(queue, JobStage::Ready, index, 1);
            self.count(queue, JobStage::Ready, old, -1);
        } else {
            self.detach(queue, old);
            self.put_back(queue, index);
        }
        self.arm_expiry(queue, index, at);
        let (old, _) = self.forget_job(queue, old);
        self.jobs.discard(old);
    }

    pub(super) fn die(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        death: (Reason, Millis),
        until: Millis,
        at: Millis,
    ) {
        self.jobs.history_mut(index).0.set_death(Some(death));
        let (queue_ref, jobs, _, chunks) = self.parts(queue);
        let job = jobs.get_mut(index);
        job.stage = JobStage::Dead;
        // The order of death, among equal instants too.
        job.order = queue_ref.sequence;
        queue_ref.sequence += 1;
        queue_ref.dead.push_back(chunks, 0, index, |key, place| {
            jobs.get_mut(key).spot = place.number();
        });
        self.count_totals(queue, |totals| totals.died += 1);
        self.count(queue, JobStage::Dead, index, 1);
        self.arm(queue, JobStage::Dead, index, until, at);
    }

    /// Delayed again, or ready where it enters.
    pub(super) fn reschedule(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        ready: Option<Side>,
        due: Millis,
        at: Millis,
    ) {
        self.detach(queue, index);
        if self.jobs.history(index).is_some() {
            let (history, _) = self.jobs.history_mut(index);
            (history.due, history.token) = (due, 0);
        }
        match ready {
            Some(enters) => self.make_ready(queue, index, enters, due, at),
            None => self.delay(queue, index, due, at),
        }
    }

    /// Takes a job out of its place; it keeps its number and its id.
    pub(super) fn detach(&mut self, queue: QueueNo, index: JobIndex) {
        let stage = self.jobs.get(index).stage;
        let due = self.disarm(queue, index);
        if stage == JobStage::Dead {
            self.uncount_dead(queue, index);
        }
        let (queue_ref, jobs, _, chunks) = self.parts(queue);
        match stage {
            JobStage::Ready => {
                queue_ref.ready.remove(jobs, chunks, index);
                queue_ref.ready.count_due(jobs.group(index), due, -1);
            }
            JobStage::Dead => {
                let spot = std::mem::take(&mut jobs.get_mut(index).spot);
                let place = crate::wheel::list::Place::from_number(spot)
                    .expect("a dead job stands among the dead");
                queue_ref.dead.remove(chunks, place, index, |key, place| {
                    jobs.get_mut(key).spot = place.number();
                });
                jobs.history_mut(index).0.set_death(None);
            }
            JobStage::Window => queue_ref.windows -= 1,
            JobStage::Leased => {
                jobs.get_mut(index).spot = 0;
                let begun = self.jobs.history(index).map_or(Micros(0), |history| history.begun);
                self.ages.end(begun);
            }
            _ => {}
        }
        self.count(queue, stage, index, -1);
    }

    /// Takes a job's timer out of the wheel of its stage. A ready job that was armed has its due time in what is armed: it
    /// is kept. Returns its due time.
    fn disarm(&mut self, queue: QueueNo, index: JobIndex) -> Millis {
        let (stage, due) = (self.jobs.get(index).stage, self.due(index));
        let (queue_ref, _, timers, _) = self.parts(queue);
        if timers.is_armed(index) {
            queue_ref.wheel(stage).cancel(timers, index);
        }
        if stage == JobStage::Ready {
            timers.set_due(index, due);
        }
        due
    }

    /// The same for a job that is not needed any more.
    pub(super) fn drop_job(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        window_end: Millis,
        at: Millis,
    ) {
        let (job, _) = self.end(queue, index, window_end, at);
        self.jobs.discard(job);
    }

    /// The job is gone; its id stays taken until `window_end`, unless that is 0. The caller discards its id and body.
    #[must_use]
    pub(super) fn end(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        window_end: Millis,
        at: Millis,
    ) -> (Job, Option<History>) {
        self.detach(queue, index);
        if window_end.0 == 0 {
            return self.forget_job(queue, index);
        }
        let group = self.jobs.group(index);
        let sequence = self.queue(queue).sequence;
        let history = self.jobs.forget_history(index);
        let id = self.jobs.id(index).to_vec();
        let mut window = self.jobs.make(Content::of(&id), self.jobs.get(index).policy());
        let job = self.jobs.get_mut(index);
        (window.stage, window.hash, window.order) = (JobStage::Window, job.hash, sequence);
        let job = std::mem::replace(job, window);
        self.uncount_bytes(queue, Footprint::of(&job, history.as_ref()));
        self.count_bytes(queue, Footprint::of(self.jobs.get(index), None));
        self.queue_mut(queue).windows += 1;
        self.count(queue, JobStage::Window, index, 1);
        self.arm(queue, JobStage::Window, index, window_end, at);
        self.leave_group(queue, group);
        (job, history)
    }

    /// A job without a place, and its id, are gone.
    fn forget_job(&mut self, queue: QueueNo, index: JobIndex) -> (Job, Option<History>) {
        let group = self.jobs.group(index);
        self.unindex_job(queue, index);
        let (job, history) = self.jobs.take(index);
        self.uncount_bytes(queue, Footprint::of(&job, history.as_ref()));
        self.policies.release_of(&job, history.as_ref());
        self.leave_group(queue, group);
        (job, history)
    }

    /// A job has come to a stage or leaves it.
    pub(super) fn count(&mut self, queue: QueueNo, stage: JobStage, index: JobIndex, by: i64) {
        let footprint = Footprint::at(&self.jobs, index);
        let (db, place) = place_of(queue);
        let database = &mut self.databases[db];
        let queue_ref = database.queues.get_mut(place).expect("the queue's number is bound");
        let footprints = queue_ref.footprints.of(stage);
        if by > 0 {
            footprints.add(footprint)
        } else {
            footprints.remove(footprint)
        }
        let Some(state) = stage.state() else { return self.recount_spare(queue) };
        let add = |count: &mut u64| {
            *count = count.checked_add_signed(by).expect("counts are never negative");
        };
        let existed = queue_ref.exists();
        add(&mut queue_ref.counts[state as usize]);
        add(&mut queue_ref.jobs);
        add(&mut database.counts[state as usize]);
        let comes_or_goes = existed != queue_ref.exists();
        let (shared, scheduled) = (queue_ref.groups.is_some(), queue_ref.schedules.is_some());
        if comes_or_goes {
            add(&mut database.existing);
            self.recount_spare(queue);
        }
        if shared {
            self.count_in_group(queue, state, index, by);
        }
        // There may be room for an occurrence now.
        if by < 0 && scheduled {
            self.release_schedules(queue);
        }
    }

    pub(super) fn count_bytes(&mut self, queue: QueueNo, footprint: Footprint) {
        let queue_ref = self.queue_mut(queue);
        queue_ref.bytes += footprint.bytes;
        queue_ref.image_bytes += footprint.image_bytes;
        self.databases[place_of(queue).0].image_bytes += footprint.image_bytes;
        self.bytes += footprint.bytes;
        self.job_bytes += footprint.bytes;
    }

    pub(super) fn uncount_bytes(&mut self, queue: QueueNo, footprint: Footprint) {
        let queue_ref = self.queue_mut(queue);
        queue_ref.bytes -= footprint.bytes;
        queue_ref.image_bytes -= footprint.image_bytes;
        self.databases[place_of(queue).0].image_bytes -= footprint.image_bytes;
        self.bytes -= footprint.bytes;
        self.job_bytes -= footprint.bytes;
    }
}
