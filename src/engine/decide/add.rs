//! Adding jobs.

use crate::engine::model::fact::Fact;
use crate::engine::model::meta::Meta;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Add, JobState, Push, Taken, When};
use crate::engine::model::token;
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::add::Arrival;
use crate::engine::store::Located;
use crate::engine::store::groups::group_bytes;
use crate::engine::store::jobs::{
    JobIndex, JobStage, Successor, stored_group_bytes, stored_meta_bytes,
};
use crate::error::{Error, Shown};
use crate::ids::QueueNo;
use crate::limits::{LEVEL_GROUPS, LEVEL_LATEST, LEVEL_META};
use crate::time::Millis;

impl Step<'_, '_> {
    pub fn add(&mut self, add: &Add<'_>) -> Outcome {
        match self.decide_add(add) {
            Ok(Some(index)) => {
                let id = self.store.jobs().id(index);
                self.turn.outbox.reply(self.client, Reply::Id(id));
                Outcome::Replied
            }
            Ok(None) => self.reply(Reply::Nil),
            Err(error) => self.refuse(&error),
        }
    }

    /// The new job; none if NX kept the old one.
    fn decide_add(&mut self, add: &Add<'_>) -> Result<Option<JobIndex>, Error> {
        let due = self.live.settings.resolve("when", add.when, self.now)?;
        if let Some(lease_ms) = add.lease_ms {
            self.live.settings.check_lease("lease", lease_ms)?;
        }
        self.check_beside(add.group, add.meta.get())?;
        if add.taken == Taken::Latest || add.max_delay_ms.is_some() {
            self.check_level(LEVEL_LATEST, "LATEST and MAXDELAY")?;
        }
        let queue = self.queue(add.queue);
        let at = match (queue, add.id) {
            (Some(queue), Some(id)) => self.store.locate(queue, id),
            (None, Some(id)) => Located { hash: self.store.hasher().id(id), index: None },
            (_, None) => Located::NOTHING,
        };
        let old = queue.zip(at.index).map(|(queue, index)| (queue, at, index));
        if let (Some((queue, _, index)), Some(id)) = (old, add.id) {
            match add.taken {
                Taken::Keep => return Ok(None),
                Taken::Refuse => return Err(self.taken(queue, index, id)),
                Taken::Replace | Taken::Latest => {}
            }
        }
        let (due, added) = self.put_off(add, at.index, due)?;
        let in_place = added.and(at.index).filter(|index| self.keeps_place(*index, due));
        if add.taken == Taken::Latest
            && let Some((queue, at, index)) = old
            && self.store.jobs().get(index).stage == JobStage::Leased
        {
            self.add_successor(add, (queue, at), due, added)?;
            return Ok(Some(index));
        }
        let named = queue.zip(add.group);
        let group = named.and_then(|(queue, name)| self.store.find_group(queue, name));
        if let Some(queue) = queue {
            self.check_place(queue, group, at.index)?;
        }
        let id_bytes = add.id.map_or(token::ID_BYTES, <[u8]>::len);
        let beside = stored_group_bytes(add.group) + stored_meta_bytes(add.meta.get());
        self.check_memory(queue, add.queue, std::iter::once(id_bytes + beside + add.body.len()))?;
        let new_group = add.group.filter(|_| group.is_none() && !self.live.in_transaction);
        if let Some(name) = new_group {
            self.live.check_room_for(self.store, group_bytes(name))?;
        }
        if let (Some((queue, at, _)), Some(id), None) = (old, add.id, in_place) {
            self.commit(&Fact::Deleted { queue, id }, at);
            self.note_place_free(queue);
        }
        let queue = match queue {
            Some(queue) => queue,
            None => self.bind_queue(add.queue),
        };
        let enters = self.store.queue(queue).due_enters();
        let arrival = match in_place {
            Some(old) => Arrival::InPlaceOf(old),
            None if self.ready_at_once(queue, due) => Arrival::Ready(enters),
            None => Arrival::Delayed(due.max(self.now.floor())),
        };
        Ok(Some(self.add_job(add, at.hash, queue, arrival, added)))
    }

    /// Whether there is a place in the queue and the group for a job that takes that of `old`.
    fn check_place(
        &self,
        queue: QueueNo,
        group: Option<u32>,
        old: Option<JobIndex>,
    ) -> Result<(), Error> {
        let counted = old.filter(|index| {
            let state = self.store.jobs().get(*index).stage.state();
            state.is_some_and(|state| state != JobState::Dead)
        });
        self.check_admission(queue, u64::from(counted.is_none()))?;
        let Some(group) = group else { return Ok(()) };
        // Its place in the group is free then.
        let same = counted.is_some_and(|index| self.store.jobs().group(index) == group);
        if same { Ok(()) } else { self.check_group_admission(queue, group) }
    }

    /// When a job falls due that is bounded by MAXDELAY, and when the first of those was added whose place it takes, if
    /// that counts: then at most as long after that one, else from now on.
    fn put_off(
        &self,
        add: &Add<'_>,
        old: Option<JobIndex>,
        due: Millis,
    ) -> Result<(Millis, Option<Millis>), Error> {
        let Some(max_ms) = add.max_delay_ms else { return Ok((due, None)) };
        let longest = self.live.settings.resolve("MAXDELAY", When::In(max_ms), self.now)?;
        let added = old.and_then(|index| self.waits_since(index));
        let latest = added.map_or(longest, |added| added.plus(max_ms));
        Ok((due.min(latest), added))
    }

    /// Whether a change with MAXDELAY takes the place of the job that waits: if that job is ready and the change is due. If
    /// each change went to the end of the line, one that came more often than the line moves would never be seen.
    fn keeps_place(&self, old: JobIndex, due: Millis) -> bool {
        self.store.jobs().get(old).stage == JobStage::Ready && due <= self.now.floor()
    }

    /// For MAXDELAY: when the first change was added that this job stands for and no worker has seen. A worker that had
    /// the job has seen it. One that is ready was not seen: if it counted as seen, changes that come more often than
    /// workers do would put it off for ever.
    fn waits_since(&self, index: JobIndex) -> Option<Millis> {
        let (job, history) = (self.store.jobs().get(index), self.store.jobs().history(index));
        match job.stage {
            JobStage::Delayed | JobStage::Ready
                if history.is_none_or(|history| history.deliveries == 0) =>
            {
                Some(job.added)
            }
            JobStage::Leased => self.store.successor(index).map(|next| next.added),
            _ => None,
        }
    }

    /// Adds what follows a leased job. It is memory, and counts for no limit until the job is over: it is not refused then.
    fn add_successor(
        &mut self,
        add: &Add<'_>,
        (queue, at): (QueueNo, Located),
        due: Millis,
        added: Option<Millis>,
    ) -> Result<(), Error> {
        self.check_admission(queue, 0)?;
        if !self.live.in_transaction {
            let new = add.group.filter(|name| self.store.find_group(queue, name).is_none());
            let bytes = Successor::bytes_of(add.group, add.meta.get(), add.body) as u64;
            let bytes = bytes + new.map_or(0, group_bytes);
            self.live.check_room_for(self.store, bytes)?;
        }
        let (policy, priority) = self.terms(queue, add);
        let fact = Fact::SuccessorSet {
            queue,
            id: add.id.unwrap_or_default(),
            policy,
            priority,
            absolute: matches!(add.when, When::At(_)),
            added: added.unwrap_or(self.now.floor()),
            due,
            body: add.body,
            group: add.group,
            meta: add.meta.get(),
        };
        self.commit(&fact, at);
        Ok(())
    }

    pub fn push(&mut self, push: &Push<'_>) -> Outcome {
        let Push { queue: name, bodies, side, only_existing } = *push;
        let queue = self.queue(name);
        let exists = queue.is_some_and(|queue| self.store.queue(queue).exists());
        if only_existing && !exists {
            return self.reply(Reply::Integer(0));
        }
        let sizes = bodies.iter().map(|body| token::ID_BYTES + body.len());
        if let Err(error) = self.check_adding(queue, name, sizes) {
            return self.refuse(&error);
        }
        let queue = queue.unwrap_or_else(|| self.bind_queue(name));
        for body in bodies {
            let add = Add::new(name, When::In(0), body);
            self.add_job(&add, 0, queue, Arrival::Ready(side), None);
        }
        let ready = self.store.queue(queue).count(JobState::Ready);
        self.reply(Reply::Integer(ready as i64))
    }

    /// Whether all members of the cluster, if there is one, read this group and this META.
    pub fn check_beside(&self, group: Option<&[u8]>, meta: Meta<'_>) -> Result<(), Error> {
        if group.is_some() {
            self.check_level(LEVEL_GROUPS, "groups")?;
        }
        if meta.is_none() { Ok(()) } else { self.check_level(LEVEL_META, "META") }
    }

    /// Whether all members of the cluster, if there is one, read what this needs.
    pub fn check_level(&self, level: u32, what: &str) -> Result<(), Error> {
        let leading = self.store.leading();
        if leading.term > 0 && leading.level < level {
            return Err(Error::text(format!(
                "ERR not all nodes of the cluster support {what}; upgrade them, then run FAILOVER"
            )));
        }
        Ok(())
    }

    /// Whether a job due at `due` is ready now. It is not while earlier ones of its queue are still
    /// being swept: it takes its turn after them in the wheel.
    pub fn ready_at_once(&self, queue: QueueNo, due: Millis) -> bool {
        let now = self.now.floor();
        due <= now && (self.store.queue(queue).wake > now || self.is_swept(queue))
    }

    /// Whether none of its delayed jobs is due.
    pub fn is_swept(&self, queue: QueueNo) -> bool {
        let next = self.store.queue(queue).delayed.next_wakeup(self.store.timers());
        next.is_none_or(|at| at > self.now.floor())
    }

    fn taken(&self, queue: QueueNo, index: JobIndex, id: &[u8]) -> Error {
        let store = &*self.store;
        let (queue, id) = (Shown::new(&store.queue(queue).name), Shown::new(id));
        if store.jobs().get(index).stage == JobStage::Window {
            let left_ms = store.timers().due(index).0.saturating_sub(self.now.floor().0);
            return Error::Window { queue, id, left_ms };
        }
        Error::Exists { queue, id }
    }
}
