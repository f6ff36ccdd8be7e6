//! What every client asked and was told, and what may follow from it. All clients share one auditor:
//! a job may be added by one and handed to another.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Longer than any reply is under way.
const LONG_AGO: Duration = Duration::from_secs(120);

/// A job as the test knows it: the first word of its body. Never used twice.
pub type Label = u64;

/// Whether a job was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sure {
    /// Nobody has read the answer.
    Maybe,
    Yes,
}

#[derive(Debug)]
struct Job {
    added: Sure,
    /// When its end was answered.
    ended_at: Option<Instant>,
    /// Requests to end it of which the answer has not come, or never will.
    unanswered: u32,
    /// The earliest due time that the server can have given it, unix ms.
    due_ms: u64,
    token: u64,
    /// Until then nobody else may get it, unix ms; 0 when the lease was given up or may have been.
    lease_end_ms: u64,
    /// When the reply with that token was read, unix ms.
    read_ms: u64,
    /// Nobody leases it: it is popped, or deleted, and a reply that is lost takes it along.
    at_most_once: bool,
}

/// A job that a client was handed.
#[derive(Clone, Copy, Debug)]
pub struct Handed {
    pub label: Label,
    /// 0 where there is no lease.
    pub token: u64,
    /// 0 where the lease ends with the connection.
    pub lease_end_ms: u64,
    /// When the client asked.
    pub asked: Instant,
    /// When it had the answer, unix ms.
    pub read_ms: u64,
}

impl Job {
    fn may_be_over(&self) -> bool {
        self.ended_at.is_some() || self.unanswered > 0
    }

    fn must_be_there(&self) -> bool {
        self.added == Sure::Yes && !self.may_be_over()
    }
}

#[derive(Debug, Default)]
struct Books {
    jobs: HashMap<Label, Job>,
    counts: BTreeMap<&'static str, u64>,
    /// What must never happen, and did.
    lost: u64,
    early: u64,
    doubled: u64,
    stories: Vec<String>,
    /// Jobs that requests in the air may have popped.
    popped_unread: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Auditor(Mutex<Books>);

impl Auditor {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap()
    }

    /// A job is about to be asked for.
    pub fn adding(&self, label: Label, due_ms: u64, at_most_once: bool) {
        let job = Job {
            added: Sure::Maybe,
            ended_at: None,
            unanswered: 0,
            due_ms,
            token: 0,
            lease_end_ms: 0,
            read_ms: 0,
            at_most_once,
        };
        assert!(self.books().jobs.insert(label, job).is_none(), "labels are used once");
    }

    pub fn added(&self, label: Label) {
        let mut books = self.books();
        books.count("added", 1);
        // It may have been handed out and be gone before its producer has read the answer.
        if let Some(job) = books.jobs.get_mut(&label) {
            job.added = Sure::Yes;
        }
    }

    /// It was answered with an error: it must never show.
    pub fn refused(&self, label: Label) {
        let mut books = self.books();
        books.count("refused", 1);
        books.jobs.remove(&label);
    }

    pub fn handed(&self, handed: Handed) {
        let Handed { label, token, lease_end_ms, asked, read_ms } = handed;
        let mut books = self.books();
        books.count("handed over", 1);
        let Some(job) = books.jobs.get_mut(&label) else {
            let story = format!("handed over, and refused or unknown: {handed:?}");
            return books.doubled(story);
        };
        let mut wrong = None;
        let due_ms = job.due_ms;
        // Who was handed it next has told it first: a thread may be kept from telling for as long as a lease.
        let told_late = token > 0 && token < job.token && read_ms <= job.read_ms;
        if job.ended_at.is_some_and(|ended| ended < asked) {
            wrong = Some(format!("handed over after its end: {handed:?} {job:?}"));
        } else if job.ended_at.is_some() && job.at_most_once {
            wrong = Some(format!("popped twice: {handed:?} {job:?}"));
        } else if told_late {
            if job.read_ms < lease_end_ms {
                wrong =
                    Some(format!("another was handed it while this lease ran: {handed:?} {job:?}"));
            }
        } else if token > 0 && token <= job.token {
            wrong = Some(format!("an old token: {handed:?} {job:?}"));
        } else if read_ms < job.lease_end_ms {
            wrong = Some(format!("handed over while another lease ran: {handed:?} {job:?}"));
        }
        job.added = Sure::Yes;
        if !told_late {
            job.token = job.token.max(token);
            (job.lease_end_ms, job.read_ms) = (lease_end_ms, read_ms);
        }
        if job.at_most_once {
            job.ended_at = Some(Instant::now());
        }
        if read_ms < due_ms {
            let story = format!("early: {handed:?}, due at {due_ms}");
            books.early += 1;
            books.tell(story);
        }
        if let Some(story) = wrong {
            books.doubled(story);
        }
    }

    /// A request that pops up to `most` jobs was not answered.
    pub fn pop_unread(&self, most: u64) {
        self.books().popped_unread += most;
    }

    /// An ACK or a removal is about to be sent.
    pub fn ending(&self, label: Label) {
        if let Some(job) = self.books().jobs.get_mut(&label) {
            job.unanswered += 1;
        }
    }

    /// It was answered with 1.
    pub fn ended(&self, label: Label) {
        let mut books = self.books();
        books.count("ended", 1);
        let Some(job) = books.jobs.get_mut(&label) else { return };
        job.unanswered -= 1;
        if job.ended_at.replace(Instant::now()).is_some() {
            books.doubled(format!("job {label} ended twice"));
        }
    }

    /// It was answered with 0 or an error.
    pub fn not_ended(&self, label: Label) {
        if let Some(job) = self.books().jobs.get_mut(&label) {
            job.unanswered -= 1;
        }
    }

    /// An ACK was answered with 0 before the lease was over.
    pub fn ack_lost(&self, label: Label, token: u64, read_ms: u64) {
        let mut books = self.books();
        let Some(job) = books.jobs.get(&label) else { return };
        if job.token == token && read_ms < job.lease_end_ms && !job.may_be_over() {
            let story = format!("an ACK of a running lease counted for nothing: {label} {job:?}");
            books.lost += 1;
            books.tell(story);
        }
    }

    /// The holder gave it back, or may have.
    pub fn given_back(&self, label: Label) {
        if let Some(job) = self.books().jobs.get_mut(&label) {
            job.lease_end_ms = 0;
        }
    }

    /// Something happened that the soak is for.
    pub fn note(&self, what: &'static str) {
        self.books().count(what, 1);
    }

    /// A promise was broken that is no job's.
    pub fn broken(&self, story: String) {
        let mut books = self.books();
        books.lost += 1;
        books.tell(story);
    }

    pub fn count_of(&self, what: &str) -> u64 {
        self.books().counts.get(what).copied().unwrap_or(0)
    }

    /// Jobs that are neither ended nor doubtful.
    pub fn live(&self) -> usize {
        self.books().jobs.values().filter(|job| job.must_be_there()).count()
    }

    /// Forgets what is over and can never be told of again: that was long ago.
    pub fn forget(&self) {
        let over = |job: &Job| job.ended_at.is_some_and(|ended| ended.elapsed() > LONG_AGO);
        self.books().jobs.retain(|_, job| !over(job));
    }

    /// Everything was taken out of every queue: what should have been there and was not is lost.
    /// Panics if anything was lost, early or doubled.
    pub fn settle(&self) {
        let mut books = self.books();
        let (mut missing, mut popped) = (Vec::new(), 0);
        for (label, job) in &books.jobs {
            if job.must_be_there() {
                match job.at_most_once {
                    true => popped += 1,
                    false => missing.push(format!("job {label} is lost: {job:?}")),
                }
            }
        }
        if popped > books.popped_unread {
            let (popped, most) = (popped, books.popped_unread);
            missing.push(format!("{popped} popped jobs are gone, {most} may be"));
        }
        books.lost += missing.len() as u64;
        missing.into_iter().for_each(|story| books.tell(story));
        println!("{:#?}", books.counts);
        println!("lost {}, early {}, doubled {}", books.lost, books.early, books.doubled);
        assert!(
            (books.lost, books.early, books.doubled) == (0, 0, 0),
            "{}",
            books.stories.join("\n")
        );
    }
}

impl Books {
    fn count(&mut self, what: &'static str, by: u64) {
        *self.counts.entry(what).or_default() += by;
    }

    fn doubled(&mut self, story: String) {
        self.doubled += 1;
        self.tell(story);
    }

    /// The first ones say enough.
    fn tell(&mut self, story: String) {
        if self.stories.len() < 20 {
            eprintln!("{story}");
            self.stories.push(story);
        }
    }
}
