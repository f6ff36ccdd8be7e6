//! Looks at the state: statistics, scans, names.

use std::collections::BTreeMap;

use delayd::engine::model::request::JobState;
use delayd::ids::{ClientId, Db};
use delayd::limits::REPLY_BYTES_MAX;
use delayd::time::Millis;

use crate::simulation::auditor::Check;
use crate::simulation::model::{ModelJob, ModelQueue, QueueKey};
use crate::simulation::trace::{Kept, Said, Seen};

impl Check<'_> {
    pub fn exists(&self, key: QueueKey) -> bool {
        let queue = self.auditor.model.queues.get(&key);
        queue.is_some_and(ModelQueue::exists)
    }

    /// Names that exist, sorted. Patterns are `*`, `prefix*` or a name.
    pub fn existing(&self, db: Db, pattern: Option<Kept>) -> Vec<Kept> {
        let matches = |name: Kept| match pattern {
            None => true,
            Some(pattern) => match pattern.strip_suffix(b"*") {
                Some(prefix) => name.starts_with(prefix),
                None => name == pattern,
            },
        };
        let keys = self.auditor.model.queues.keys().filter(|key| key.0 == db.0);
        keys.filter(|key| self.exists(**key) && matches(key.1)).map(|key| key.1).collect()
    }

    /// Each dead job is dead of one error, and no delivery failed twice.
    pub fn errors(&mut self, key: QueueKey, client: ClientId) {
        let Some(Said::Errors(rows)) = self.answer_of(client) else {
            panic!("ERRORS has no answer")
        };
        let sums: [u64; 2] = [0, 1].map(|at: usize| rows.iter().map(|row| row[at]).sum());
        let listed = rows.len();
        self.replied_in_full();
        let queue = self.auditor.model.queues.get(&key);
        let totals = queue.map(|queue| queue.totals).unwrap_or_default();
        let dead = queue.map_or(0, |queue| queue.counts()[JobState::Dead as usize]);
        assert_eq!(sums[1], dead, "ERRORS dead");
        let failed = totals.nacked + totals.timeouts + totals.lost;
        assert!((dead..=failed).contains(&sums[0]), "ERRORS count {} of {failed}", sums[0]);
        if listed > 0 {
            self.auditor.note("errors");
        }
    }

    pub fn stats(&mut self, key: QueueKey, client: ClientId) {
        let now = self.now().0;
        let waiters = self.model().lines.get(&key).map_or(0, |line| line.len() as u64);
        let Some(said) = self.answer_of(client) else { panic!("STATS has no answer") };
        self.replied_in_full();
        let queue = self.auditor.model.queues.get(&key);
        let Said::Stats(stats) = said else {
            assert!(*said == Said::NilArray && waiters == 0 && queue.is_none(), "{said:?}");
            return;
        };
        assert!(queue.is_some() || waiters > 0, "STATS of a queue that nothing is known of");
        assert_eq!(stats.waiters, waiters, "STATS waiters");
        let Some(queue) = queue else { return };
        let counts = [stats.delayed, stats.ready, stats.leased, stats.dead];
        assert_eq!(counts, queue.counts(), "STATS counts");
        assert_eq!(stats.totals, queue.totals, "STATS totals");
        let schedules = [queue.schedules.len() as u64, queue.made, queue.missed];
        assert_eq!([stats.schedules, stats.made, stats.missed], schedules, "STATS of schedules");
        assert_eq!(stats.paused, queue.policies.pauses.word(self.step.now), "STATS paused");
        let empty = queue.jobs.is_empty() && queue.windows.is_empty();
        assert_eq!(stats.bytes == 0, empty, "STATS bytes {}", stats.bytes);
        let next = queue.delayed.first().map(|entry| Millis(entry.0));
        assert_eq!(stats.next_due, next, "STATS next-due");
        // Of those with a group the second is known.
        let due = |job: &ModelJob| match job.group.is_empty() {
            true => job.due,
            false => job.due / 1_000 * 1_000,
        };
        let oldest = queue.ready.iter().map(|entry| due(&queue.jobs[entry.2])).min();
        let (groups, known) = (queue.group_count(), queue.purged == 0);
        assert!(stats.groups == groups || !known && stats.groups > groups, "STATS groups");
        let closed = stats.groups_closed == queue.groups_closed();
        assert!(closed || queue.may_have_opened(self.now()), "STATS groups-closed");
        let age = oldest.map(|due| now.saturating_sub(due));
        // A push amid a sweep stands before jobs that were due earlier, and hides them.
        let hidden = stats.oldest_ready_age_ms.is_some() && stats.oldest_ready_age_ms < age;
        let right = stats.oldest_ready_age_ms == age || hidden && queue.pushed;
        assert!(right, "STATS oldest-ready-age-ms {:?}: {age:?}", stats.oldest_ready_age_ms);
        assert!(stats.lateness_us.is_sorted(), "{:?}", stats.lateness_us);
        assert_eq!(stats.lateness_us[3], queue.late_us_max, "STATS lateness-max-us");
        self.auditor.note("stats");
    }

    /// What FORECAST may answer if it was begun in this step.
    fn foreseen(&mut self, key: QueueKey, span_ms: u64, count: u32) -> Vec<u64> {
        let (now, ceil) = (self.now().0, self.ceil());
        let mut counts = vec![0; count as usize];
        let Some(queue) = self.auditor.model.queues.get(&key) else { return counts };
        for (due, ..) in queue.delayed.iter().filter(|entry| entry.0 > now) {
            let ends = (1..=u64::from(count)).map(|span| ceil + span * span_ms);
            // The first span that ends no earlier.
            if let Some(span) = ends.into_iter().position(|end| *due <= end) {
                counts[span] += 1;
            }
        }
        counts
    }

    /// A slice of a FORECAST was done, or it waits for another.
    pub fn forecast_again(&mut self, key: QueueKey, span_ms: u64, count: u32, client: ClientId) {
        let foreseen = self.foreseen(key, span_ms, count);
        self.auditor.forecasts.entry(client).or_default().push(foreseen);
        self.auditor.note("forecast again");
    }

    /// A forecast holds for the instant of one of the client's asks: the first, but that it begins
    /// anew when its queue is removed, and later if another forecast was being made.
    pub fn forecast(&mut self, key: QueueKey, span_ms: u64, count: u32, client: ClientId) {
        let mut allowed = self.auditor.forecasts.remove(&client).unwrap_or_default();
        allowed.push(self.foreseen(key, span_ms, count));
        match self.answer_of(client) {
            Some(Said::Counts(counts)) if allowed.contains(counts) => {}
            said => panic!("{said:?}, but foreseen were {allowed:?}"),
        }
        self.replied_in_full();
        self.auditor.note("forecast");
    }

    pub fn scan(
        &mut self,
        key: QueueKey,
        cursor: u64,
        state: Option<JobState>,
        pattern: Option<Kept>,
        count: u32,
        client: ClientId,
    ) {
        let Some(Said::Scanned(next, seen)) = self.answer_of(client) else { panic!("no scan") };
        self.replied_in_full();
        let jobs = self.auditor.model.queues.get(&key).map(|queue| &queue.jobs);
        let mut once = BTreeMap::new();
        for job in seen {
            let known = jobs.and_then(|jobs| jobs.get(job.id)).map(ModelJob::seen);
            assert_eq!(Some(job), known.as_ref(), "SCAN shows what there is");
            assert!(state.is_none_or(|state| state == job.state));
            assert!(once.insert(job.id, ()).is_none(), "SCAN shows {:?} twice", job.id);
        }
        // Ids of equal hash come together; with so few ids hardly ever two.
        assert!(seen.len() <= count as usize + 2, "{} of {count}", seen.len());
        if state.is_some() || pattern.is_some() {
            return;
        }
        let births = |jobs: &BTreeMap<Kept, ModelJob>| {
            jobs.values().map(|job| (job.id, (job.birth, false))).collect()
        };
        if cursor == 0 {
            let begun = (key, jobs.map_or_else(BTreeMap::new, births));
            self.auditor.scans.insert(client, begun);
        }
        let Some((begun_key, mut begun)) = self.auditor.scans.remove(&client) else { return };
        if begun_key != key {
            return;
        }
        for job in seen {
            begun.entry(job.id).and_modify(|entry| entry.1 = true);
        }
        if *next != 0 {
            self.auditor.scans.insert(client, (key, begun));
            return;
        }
        for (id, (birth, shown)) in begun {
            let still = self.model().job(key, id).is_some_and(|job| job.birth == birth);
            assert!(shown || !still, "SCAN missed {id:?}, which was there throughout");
        }
        self.auditor.note("scanned");
    }
}

pub fn peeked(
    queue: &ModelQueue,
    state: Option<JobState>,
    count: usize,
    newest: bool,
) -> Vec<Seen> {
    let delayed = queue.delayed.iter().map(|entry| entry.2);
    let mut ready: Vec<Kept> = queue.listed();
    if queue.due_left() {
        ready.reverse();
    }
    let ready = ready.into_iter();
    let ids: Vec<Kept> = match state {
        None => ready.chain(delayed).take(count).collect(),
        Some(JobState::Delayed) => delayed.take(count).collect(),
        Some(JobState::Ready) => ready.take(count).collect(),
        Some(JobState::Leased) => queue.leased.iter().map(|entry| entry.2).take(count).collect(),
        Some(JobState::Dead) if newest => {
            queue.dead.iter().rev().map(|entry| entry.1).take(count).collect()
        }
        Some(JobState::Dead) => queue.dead.iter().map(|entry| entry.1).take(count).collect(),
    };
    let (mut seen, mut bytes) = (Vec::new(), 0);
    for job in ids.into_iter().map(|id| &queue.jobs[id]) {
        if bytes >= REPLY_BYTES_MAX {
            break;
        }
        bytes += job.id.len() + job.body.len();
        seen.push(job.seen());
    }
    seen
}
