//! What must hold at the end of a round.

use super::{Delivery, Job, Round, Sure};
use crate::pressure::kill::events::{Label, PAIRS, POPS, QUEUES};
use crate::support::program::wall_ms;
use crate::support::seen::{Seen, SeenJob};
use std::collections::HashMap;

impl Round<'_> {
    /// Attempts and leases of each job, in the order of its tokens.
    pub(super) fn check_deliveries(&self) {
        for (label, job) in &self.ledger.jobs {
            let newest = job.deliveries.last_key_value().map_or(0, |(token, _)| *token);
            let acked = job.acked.filter(|_| job.ended == Sure::Yes).unwrap_or(u64::MAX);
            assert!(newest <= acked, "job {label} came back after its ACK: {job:?}");
            let all: Vec<&Delivery> = job.deliveries.values().collect();
            for pair in all.windows(2) {
                let (before, after) = (pair[0], pair[1]);
                if before.unsure {
                    continue;
                }
                let least = before.attempt + u64::from(!before.uncounted);
                assert!(after.attempt >= least, "attempts of job {label} went back: {job:?}");
                let from_ms = before.lease_end_ms.max(before.not_before_ms);
                assert!(after.read_ms >= from_ms, "job {label} was leased twice: {job:?}");
            }
        }
    }

    /// Transactions in the air happened as a whole or not at all.
    pub(super) fn check_atomic(&self, seen: &Seen) {
        let is_seen = |label: &Label| seen.jobs.contains_key(label);
        let open = |label: &Label| self.ledger.jobs.get(label).is_some_and(|j| j.ended == Sure::No);
        for (first, second) in &self.both {
            if open(first) && open(second) {
                let half = is_seen(first) != is_seen(second);
                assert!(!half, "half a transaction: jobs {first} and {second}");
            }
        }
        for (old, new) in self.moved.iter().filter(|(_, new)| open(new)) {
            assert!(!(is_seen(old) && is_seen(new)), "jobs {old} and {new} are both there");
            let job = &self.ledger.jobs[old];
            // Nobody else can have taken it.
            if job.queue == PAIRS && job.ended != Sure::Yes {
                assert!(is_seen(old) || is_seen(new), "jobs {old} and {new} are both gone");
            }
        }
    }

    /// What one client asked in order happened up to some point.
    pub(super) fn check_rows(&self, seen: &Seen) {
        for row in &self.rows {
            let mut missing = None;
            for label in row {
                let job = &self.ledger.jobs[label];
                match seen.jobs.contains_key(label) {
                    true => {
                        let before = missing.map(|label| (label, &self.ledger.jobs[&label]));
                        assert!(before.is_none(), "is there without {before:?}: {label}, {job:?}");
                    }
                    false if job.ended == Sure::No && job.queue != POPS => {
                        missing = missing.or(Some(*label));
                    }
                    false => {}
                }
            }
        }
    }

    /// `DELAY.STATS` against what was answered, what was in the air, and what is there.
    pub(super) fn check_totals(&self, seen: &Seen) {
        for queue in QUEUES {
            let stats = &seen.stats[queue];
            let after = |name: &str| stats.get(name).copied().unwrap_or(0);
            let before = |name: &str| {
                self.ledger.totals.get(queue).and_then(|totals| totals.get(name)).copied()
            };
            for name in ["added", "acked"] {
                let (least, most) = self.bounds.get(&(queue, name)).copied().unwrap_or((0, 0));
                let from = before(name).unwrap_or(0);
                let (total, range) = (after(name), from + least..=from + most);
                assert!(range.contains(&total), "{name} of {queue} is {total}, not {range:?}");
            }
            let present: u64 = ["delayed", "ready", "leased", "dead"].map(after).iter().sum();
            let shown = seen.jobs.values().filter(|job| job.queue == queue).count() as u64;
            assert_eq!(present, shown, "jobs of {queue}");
            let gone: u64 = ["acked", "deleted", "expired", "dropped"].map(after).iter().sum();
            let popped = after("added").checked_sub(present + gone).expect("never negative");
            assert!(popped == 0 || queue == POPS, "{popped} jobs of {queue} got lost: {stats:?}");
        }
    }

    /// What is there against what must be, and what must not be. From here on it is known.
    pub(super) fn compare(&mut self, seen: &Seen) {
        let mut jobs = std::mem::take(&mut self.ledger.jobs);
        let mut kept = HashMap::new();
        for (label, there) in &seen.jobs {
            let job = jobs.remove(label);
            let job = job.unwrap_or_else(|| panic!("job {label} was gone and is back: {there:?}"));
            assert!(job.ended != Sure::Yes, "job {label} came back: {there:?} {job:?}");
            kept.insert(*label, known(*label, job, there));
        }
        for (label, job) in jobs {
            if job.added != Sure::Yes || job.ended != Sure::No {
                continue;
            }
            // It may have been in a reply that nobody read.
            assert!(job.queue == POPS && self.lost_max > 0, "job {label} is lost: {job:?}");
            self.lost_max -= 1;
        }
        self.ledger.jobs = kept;
    }
}

fn known(label: Label, job: Job, there: &SeenJob) -> Job {
    let SeenJob { queue, id, due_ms, .. } = there;
    assert_eq!(job.queue, *queue, "job {label}");
    assert!(job.id.as_ref().is_none_or(|known| known == id), "job {label}: {there:?} {job:?}");
    let mut dues = job.dues;
    let earliest = dues.iter().map(|(from, _)| *from).min().unwrap_or(0);
    // Nobody can have been handed it, which might have moved it.
    if earliest > wall_ms() {
        let fits = |(from, to): &(u64, u64)| (*from..=*to).contains(due_ms);
        assert!(dues.iter().any(fits), "job {label} is due at {due_ms}, not at {dues:?}");
        dues = vec![(*due_ms, *due_ms)];
    }
    Job {
        id: Some(id.clone()),
        added: Sure::Yes,
        ended: Sure::No,
        ended_at: None,
        acked: None,
        popped: false,
        moved: false,
        dues,
        ..job
    }
}
