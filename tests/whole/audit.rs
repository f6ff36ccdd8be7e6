//! What must hold whatever happens: what nodes decide is one history, and what clients were told of it stays true.

use crate::support::seeds::Seen;
use delayd::cluster::raft::entry::LogEntry;
use std::collections::BTreeMap;

pub struct Audit {
    pub seen: Seen,
    /// Who leads an epoch, of all that was committed, and the engine's digest by index.
    leaders: BTreeMap<u64, usize>,
    entries: BTreeMap<u64, LogEntry>,
    digests: BTreeMap<u64, (usize, u64)>,
    pub jobs: Vec<Job>,
    tokens: BTreeMap<(usize, u64), usize>,
    /// By queue, the greatest token that anybody has read.
    pub greatest: [u64; QUEUES],
    /// By queue, pops of which the reply was never read.
    pub unread_pops: [u64; QUEUES],
    /// Between the wall clock that is most behind and the one most ahead, µs.
    skew: (i64, i64),
    /// By how much a leader's clock was behind at most, µs: what it was told to delay counts from there, and is early by the
    /// clock of the next one.
    lag: u64,
    grace_us: u64,
}

pub const QUEUES: usize = 2;

pub struct Job {
    pub queue: usize,
    /// When its request was sent, and its delay, µs.
    sent: u64,
    delay: u64,
    /// Its client was told that it is there.
    pub is_added: bool,
    /// When it was told so.
    added: Option<u64>,
    /// Somebody asked after that and was told that it is not there.
    was_missing: bool,
    /// When a client was told that it is gone for good.
    pub gone: Option<u64>,
    acked: Option<u64>,
    /// A request that ends it was sent, of which the reply was not read.
    pub may_be_gone: bool,
    deliveries: Vec<Delivery>,
}

/// Instants are the engine's, µs.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub token: u64,
    pub attempt: u64,
    pub decided: u64,
    pub lease_end: u64,
    /// Since when the node decides that handed it over.
    pub promoted: u64,
}

impl Audit {
    pub fn new(skew: (i64, i64), grace_us: u64) -> Audit {
        Audit {
            seen: Seen::default(),
            leaders: BTreeMap::new(),
            entries: BTreeMap::new(),
            digests: BTreeMap::new(),
            jobs: Vec::new(),
            tokens: BTreeMap::new(),
            greatest: [0; QUEUES],
            unread_pops: [0; QUEUES],
            skew,
            lag: 0,
            grace_us,
        }
    }

    /// A leader's clock is so much behind.
    pub fn decides_at(&mut self, lag: u64) {
        self.lag = self.lag.max(lag);
    }

    pub fn leads(&mut self, epoch: u64, at: usize) {
        let before = *self.leaders.entry(epoch).or_insert(at);
        assert_eq!(before, at, "two lead epoch {epoch}");
    }

    pub fn delivers(&mut self, at: usize, entry: &LogEntry) {
        let before = self.entries.entry(entry.index).or_insert_with(|| entry.clone());
        assert_eq!(before, entry, "node {at} has another entry {}", entry.index);
    }

    /// The newest index that is known committed.
    pub fn last(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(index, _)| *index)
    }

    /// The engine of a node has all up to `applied` and nothing beyond.
    pub fn digest(&mut self, at: usize, applied: u64, digest: u64) {
        let (other, before) = *self.digests.entry(applied).or_insert((at, digest));
        assert_eq!(before, digest, "engines of nodes {other} and {at} differ at index {applied}");
        self.seen.note("digests compared");
    }

    pub fn adds(&mut self, queue: usize, sent: u64, delay: u64) -> usize {
        self.jobs.push(Job {
            queue,
            sent,
            delay,
            is_added: false,
            added: None,
            was_missing: false,
            gone: None,
            acked: None,
            may_be_gone: false,
            deliveries: Vec::new(),
        });
        self.jobs.len() - 1
    }

    /// Its client is told that a job is there.
    pub fn added(&mut self, job: usize, now: u64) {
        let it = &mut self.jobs[job];
        (it.is_added, it.added) = (true, it.added.or(Some(now)));
    }

    /// Whoever leads was asked at `asked` for a job, and said whether it is there: what somebody had read before that holds.
    pub fn looked(&mut self, job: usize, asked: u64, is_there: bool) {
        self.seen.note("jobs looked at");
        let it = &mut self.jobs[job];
        if let Some(gone) = it.gone.filter(|_| is_there) {
            assert!(asked < gone, "job {job} was gone at {gone}, and is shown as of {asked}");
        }
        // One that is popped for a client that is gone by then comes back.
        let is_popped = it.queue == 1;
        it.was_missing |= !is_there && !is_popped && it.added.is_some_and(|added| added <= asked);
    }

    /// A client reads that it was handed a job, for which it had asked at `asked`.
    fn handed(&mut self, job: usize, asked: u64, now: u64) {
        let (least, most) = self.skew;
        let it = &self.jobs[job];
        if let Some(gone) = it.gone {
            assert!(asked < gone, "job {job} was gone at {gone} and is handed over at {now}");
        }
        let due = (it.sent + it.delay).saturating_add_signed(least - most).saturating_sub(self.lag);
        assert!(due <= now + 2_000, "job {job} is due at {due} and came at {now}: {:?}", self.skew);
        // It is there, as its client may have been told by nobody.
        self.jobs[job].is_added = true;
    }

    pub fn reserved(&mut self, job: usize, asked: u64, now: u64, delivery: Delivery) {
        self.handed(job, asked, now);
        let it = &mut self.jobs[job];
        let Delivery { token, .. } = delivery;
        if let Some(acked) = it.acked {
            assert!(token <= acked, "job {job} was acknowledged and is delivered again");
        }
        let twice = self.tokens.insert((it.queue, token), job);
        assert_eq!(twice, None, "token {token} of job {job} was given before");
        self.seen.note(if it.deliveries.is_empty() {
            "jobs delivered"
        } else {
            "jobs delivered again"
        });
        it.deliveries.push(delivery);
        self.greatest[it.queue] = self.greatest[it.queue].max(token);
    }

    pub fn popped(&mut self, job: usize, asked: u64, now: u64) {
        self.handed(job, asked, now);
        let before = self.jobs[job].gone.replace(now);
        assert_eq!(before, None, "job {job} was gone, and is popped");
        self.seen.note("jobs popped");
    }

    pub fn acked(&mut self, job: usize, token: u64, now: u64) {
        let it = &mut self.jobs[job];
        assert_eq!(it.gone, None, "job {job} was gone, and is acknowledged");
        (it.gone, it.acked) = (Some(now), Some(token));
        self.seen.note("jobs acknowledged");
    }

    pub fn cancelled(&mut self, job: usize, now: u64) {
        let it = &mut self.jobs[job];
        assert_eq!(it.gone, None, "job {job} was gone, and is cancelled");
        (it.gone, it.is_added) = (Some(now), true);
        self.seen.note("jobs cancelled");
    }

    /// The leases of each job as clients were told of them, at the end.
    pub fn check_leases(&mut self) {
        for (job, it) in self.jobs.iter_mut().enumerate() {
            it.deliveries.sort_by_key(|delivery| delivery.token);
            for pair in it.deliveries.windows(2) {
                let [one, two] = pair else { unreachable!("two of them") };
                // Of both the ms are told.
                assert!(
                    one.lease_end <= two.decided + 1_000,
                    "job {job} has two leases at once: {one:?} and {two:?}"
                );
                assert!(one.attempt < two.attempt, "job {job}: attempts {one:?} and {two:?}");
                let promoted = two.promoted;
                let over = promoted + self.grace_us;
                // At the very end the leader before may have ended it.
                let runs = one.decided < promoted && promoted < one.lease_end;
                if runs && one.lease_end < over && promoted <= two.decided {
                    self.seen.note("leases over a promotion");
                    assert!(
                        over <= two.decided + 1_000,
                        "job {job}: a lease ended in the grace of a leader: {one:?} and {two:?}"
                    );
                }
            }
        }
    }

    /// Whether each job is there of which that was told; `is_there` by job.
    pub fn check_kept(&self, is_there: &[bool]) {
        let mut missing = [0; QUEUES];
        for ((job, it), is_there) in self.jobs.iter().enumerate().zip(is_there) {
            assert!(!(it.gone.is_some() && *is_there), "job {job} was gone and is there");
            assert!(
                !(it.was_missing && *is_there),
                "job {job} was added, was not shown, and is there"
            );
            if it.is_added && it.gone.is_none() && !it.may_be_gone && !is_there {
                missing[it.queue] += 1;
                let (lost, may) = (missing[it.queue], self.unread_pops[it.queue]);
                assert!(
                    lost <= may,
                    "job {job} was acknowledged and is lost, {lost} so, and {may} pops were not read"
                );
            }
        }
    }
}

/// An instant that a client was told in ms, in µs of the wall clock: it may be before virtual time began, by a leader's clock
/// that is behind.
pub fn told_us(ms: u64) -> u64 {
    ms * 1_000
}
