//! What goes into the engine and what comes out, in a form that can be kept and compared.

use std::cell::RefCell;
use std::collections::HashSet;

use delayd::engine::model::across::{FoundJob, QueueRow};
use delayd::engine::model::group::{GroupRow, GroupView};
use delayd::engine::model::holder::LeaseRow;
use delayd::engine::model::last_errors::LastError;
use delayd::engine::model::queue_settings::Pause;
use delayd::engine::model::queue_settings::Setting;
use delayd::engine::model::reply::{Delivered, Glimpse, Outbox, Reason, Reply};
use delayd::engine::model::request::{JobState, Shape};
use delayd::engine::model::schedule::{
    self, Coming, Definition, Outcomes, Rule, ScheduleChange, ScheduleState, ScheduleView,
};
use delayd::engine::model::stats::StatsView;
use delayd::ids::{ClientId, Token};
use delayd::time::Millis;

/// Bytes that live as long as the process, equal ones once: requests, replies and the model can then
/// be kept side by side without a lifetime. A run of a few thousand ids costs some 100 KB.
pub type Kept = &'static [u8];
/// A text of NACK, when it was given, and in which attempt, if that is known.
pub type ErrorSeen = (Kept, Option<(u64, u32)>);

thread_local! {
    static KEPT: RefCell<HashSet<Kept>> = RefCell::default();
}

/// Keeps bytes.
pub fn keep(bytes: &[u8]) -> Kept {
    KEPT.with_borrow_mut(|kept| {
        if let Some(found) = kept.get(bytes) {
            return *found;
        }
        let leaked: Kept = Box::leak(bytes.into());
        kept.insert(leaked);
        leaked
    })
}

/// A delivered job, kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    pub queue: (u8, Kept),
    pub id: Kept,
    pub body: Kept,
    pub token: Option<Token>,
    pub attempt: u32,
    pub due: Millis,
    pub lease_end: Millis,
    /// Group, empty without one, and META, if they were asked for.
    pub meta: Option<(Kept, Kept)>,
}

/// A glimpse, kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub id: Kept,
    pub state: JobState,
    pub due: Millis,
    pub body: Kept,
}

/// A job's view, kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    pub seen: Seen,
    pub added: Millis,
    pub priority: u8,
    pub attempt: [u32; 2],
    pub deliveries: [u32; 4],
    pub backoff: String,
    pub lease_ttl_unique_ms: [u64; 3],
    pub expires: Millis,
    pub lease: Option<(Token, Millis, bool)>,
    pub death: Option<(Reason, Millis)>,
    pub errors: Vec<ErrorSeen>,
    pub latest: Option<Millis>,
    pub group: Kept,
    pub meta: Kept,
}

/// A schedule's view, kept, but for what holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleSeen {
    pub name: Kept,
    pub body: Kept,
    pub state: ScheduleState,
    pub definition: Definition,
    pub runs_left: Option<u64>,
    pub changed: Millis,
    pub next: Option<Coming>,
    pub last: Option<(Millis, Millis)>,
    pub last_id: Option<Kept>,
    pub open: Vec<Kept>,
    pub pause: Pause,
    pub outcomes: Outcomes,
}

/// A row of schedules, kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRow {
    pub name: Kept,
    pub state: ScheduleState,
    pub rule: Rule,
    pub next: Option<Millis>,
    pub last: Option<Millis>,
}

/// A reply, kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Ok,
    Nil,
    NilArray,
    Integer(i64),
    Counts(Vec<u64>),
    Id(Kept),
    State(JobState),
    Popped(Job),
    Reserved(Vec<Job>),
    Listed(Shape, Vec<Job>),
    Body(Kept),
    Bodies(Vec<Kept>),
    Places(Vec<i64>),
    Job(Box<View>),
    /// Names and values, whether set; and whether all were asked for.
    Settings(Vec<(Setting, String, bool)>, bool),
    Stats(Box<StatsView>),
    GroupStats(Box<GroupView>),
    Groups(Vec<GroupRow>),
    /// How often deliveries failed with each error, and how many jobs are dead of it.
    Errors(Vec<[u64; 2]>),
    Peeked(Vec<Seen>),
    Scanned(u64, Vec<Seen>),
    Names(Vec<Kept>),
    ScannedNames(u64, Vec<Kept>),
    Queues(Vec<QueueRow>),
    Found(Vec<FoundJob>),
    Leases(Vec<LeaseRow>),
    ScheduleSet(ScheduleChange, Option<Millis>),
    Schedule(Box<ScheduleSeen>),
    Schedules(Vec<ScheduleRow>),
    Explained(Vec<Millis>),
    Error(String),
}

impl Said {
    /// The jobs that were handed over with it.
    pub fn jobs(&self) -> &[Job] {
        match self {
            Said::Popped(job) => std::slice::from_ref(job),
            Said::Reserved(jobs) | Said::Listed(_, jobs) => jobs,
            _ => &[],
        }
    }
}

impl From<&Delivered<'_>> for Job {
    fn from(job: &Delivered<'_>) -> Job {
        Job {
            queue: (job.queue.db.0, keep(job.queue.name)),
            id: keep(job.id),
            body: keep(job.body),
            token: job.token,
            attempt: job.attempt,
            due: job.due,
            lease_end: job.lease_end,
            meta: job
                .meta
                .map(|(group, meta)| (keep(group.unwrap_or_default()), keep(meta.block()))),
        }
    }
}

impl From<&Glimpse<'_>> for Seen {
    fn from(job: &Glimpse<'_>) -> Seen {
        Seen { id: keep(job.id), state: job.state, due: job.due, body: keep(job.body) }
    }
}

impl From<&ScheduleView<'_>> for ScheduleSeen {
    fn from(view: &ScheduleView<'_>) -> ScheduleSeen {
        ScheduleSeen {
            name: keep(view.name),
            body: keep(view.body),
            state: view.state,
            definition: view.definition.clone(),
            runs_left: view.runs_left,
            changed: view.changed,
            next: view.next,
            last: view.last,
            last_id: view.last_id.as_deref().map(keep),
            open: view.open.iter().map(|id| keep(id)).collect(),
            pause: view.pause,
            outcomes: view.outcomes,
        }
    }
}

impl From<&schedule::ScheduleRow<'_>> for ScheduleRow {
    fn from(row: &schedule::ScheduleRow<'_>) -> ScheduleRow {
        let &schedule::ScheduleRow { name, state, rule, next, last } = row;
        ScheduleRow { name: keep(name), state, rule: rule.clone(), next, last }
    }
}

impl From<Reply<'_>> for Said {
    fn from(reply: Reply<'_>) -> Said {
        let seen = |jobs: &[Glimpse<'_>]| jobs.iter().map(Seen::from).collect();
        let names = |names: &[&[u8]]| names.iter().map(|name| keep(name)).collect();
        match reply {
            Reply::Ok => Said::Ok,
            Reply::Nil => Said::Nil,
            Reply::NilArray => Said::NilArray,
            Reply::Integer(number) => Said::Integer(number),
            Reply::Counts(counts) => Said::Counts(counts.to_vec()),
            Reply::Id(id) => Said::Id(keep(id)),
            Reply::State(state) => Said::State(state),
            Reply::Popped(ref job) => Said::Popped(job.into()),
            Reply::Reserved(jobs) => Said::Reserved(jobs.iter().map(Job::from).collect()),
            Reply::Settings { values, all } => Said::Settings(values.to_vec(), all),
            Reply::Listed(shape, jobs) => Said::Listed(shape, jobs.iter().map(Job::from).collect()),
            Reply::Body(body) => Said::Body(keep(body)),
            Reply::Bodies(bodies) => Said::Bodies(names(bodies)),
            Reply::Places(places) => Said::Places(places.to_vec()),
            // Which clients were served last only the node knows that served them, until it is started again.
            Reply::Stats(stats) => {
                let (last_reserve, last_ack) = (None, None);
                Said::Stats(Box::new(StatsView { last_reserve, last_ack, ..stats.clone() }))
            }
            Reply::GroupStats(view) => Said::GroupStats(Box::new(view.clone())),
            Reply::Groups(rows) => Said::Groups(rows.to_vec()),
            Reply::Errors(rows) => {
                Said::Errors(rows.iter().map(|row| [row.count, row.dead]).collect())
            }
            Reply::Peeked(jobs) => Said::Peeked(seen(jobs)),
            Reply::Scanned(cursor, jobs) => Said::Scanned(cursor.0, seen(jobs)),
            Reply::Names(found) => Said::Names(names(found)),
            Reply::ScannedNames(cursor, found) => Said::ScannedNames(cursor.0, names(found)),
            Reply::Queues(rows) => Said::Queues(rows.to_vec()),
            Reply::Found(jobs) => Said::Found(jobs.to_vec()),
            Reply::Minutes(_) => unreachable!("tests/engine/minutes.rs asks for them"),
            Reply::Leases(leases) => {
                Said::Leases(leases.iter().map(|lease| lease.row.clone()).collect())
            }
            Reply::ScheduleSet(change, next) => Said::ScheduleSet(change, next),
            Reply::Schedule(view) => Said::Schedule(Box::new(view.into())),
            Reply::Schedules(rows) => Said::Schedules(rows.iter().map(ScheduleRow::from).collect()),
            Reply::Explained(rows) => Said::Explained(rows.iter().map(|row| row.0).collect()),
            Reply::Error(error) => Said::Error(error.to_string()),
            Reply::Job(view) => Said::Job(Box::new(View {
                seen: Seen {
                    id: keep(view.id),
                    state: view.state,
                    due: view.due,
                    body: keep(view.body),
                },
                added: view.added,
                priority: view.priority,
                attempt: [view.attempt, view.attempts_max],
                deliveries: [view.deliveries, view.nacks, view.timeouts, view.lost],
                backoff: view.backoff.clone(),
                lease_ttl_unique_ms: [view.lease_ms, view.ttl_ms, view.unique_ms],
                expires: view.expires,
                lease: view.lease,
                death: view.death,
                errors: view.errors.iter().flat_map(|errors| errors.all()).map(error).collect(),
                latest: view.latest,
                group: keep(view.group.unwrap_or_default()),
                meta: keep(view.meta.block()),
            })),
        }
    }
}

/// Keeps all replies.
#[derive(Default, Debug)]
pub struct Recorder(pub Vec<(ClientId, Said)>);

impl Outbox for Recorder {
    fn reply(&mut self, client: ClientId, reply: Reply<'_>) {
        self.0.push((client, reply.into()));
    }
}

fn error(of: LastError<'_>) -> ErrorSeen {
    (keep(of.text), of.given.map(|(at, attempt)| (at.0, attempt)))
}

/// Keeps a list of names or ids.
pub fn keep_list(list: &[Kept]) -> &'static [Kept] {
    thread_local! {
        static LISTS: RefCell<HashSet<&'static [Kept]>> = RefCell::default();
    }
    LISTS.with_borrow_mut(|lists| {
        if let Some(found) = lists.get(list) {
            return *found;
        }
        let leaked: &'static [Kept] = Box::leak(list.into());
        lists.insert(leaked);
        leaked
    })
}
