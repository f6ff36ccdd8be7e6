//! The engine's replies. Values borrow from the engine, so that a body is copied once: from the job
//! into the connection's output. The wire format is not known here.

use crate::engine::model::across::{FoundJob, QueueRow};
use crate::engine::model::errors::ErrorCount;
use crate::engine::model::group::{GroupRow, GroupView};
use crate::engine::model::holder::LeaseView;
use crate::engine::model::last_errors::LastErrors;
use crate::engine::model::meta::Meta;
use crate::engine::model::minutes::Span;
use crate::engine::model::queue_settings::Setting;
use crate::engine::model::request::Shape;
use crate::engine::model::schedule::{ScheduleChange, ScheduleRow, ScheduleView};
use crate::engine::model::stats::StatsView;
use crate::engine::model::terms::{JobState, QueueName};
use crate::engine::model::walk::Cursor;
use crate::error::Error;
use crate::ids::{ClientId, Token};
use crate::limits::HOLDER_TEXT_BYTES_MAX;
use crate::time::Millis;
use crate::words::words;

/// Where replies go. Called in the order in which replies are decided; a client that asked once is
/// answered once, at once or (a waiter) in a later step.
pub trait Outbox {
    /// Takes the reply to `client`'s request.
    fn reply(&mut self, client: ClientId, reply: Reply<'_>);

    /// The reply that comes next hands `client` jobs for which it was waiting when they fell due, at
    /// these times: how late they are shows when it leaves.
    fn on_time(&mut self, _client: ClientId, _due: &[Millis]) {}
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered<'a> {
    pub queue: QueueName<'a>,
    pub id: &'a [u8],
    pub body: &'a [u8],
    /// The fencing token; none when it was taken at most once.
    pub token: Option<Token>,
    /// Which delivery this is, from 1.
    pub attempt: u32,
    pub due: Millis,
    /// When the lease ends; 0 without one.
    pub lease_end: Millis,
    /// Group and META, if they are asked for.
    pub meta: Option<(Option<&'a [u8]>, Meta<'a>)>,
}

/// A job as PEEK and SCAN show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glimpse<'a> {
    pub id: &'a [u8],
    pub state: JobState,
    pub due: Millis,
    pub body: &'a [u8],
}

words! {
    /// Why a job is dead.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum Reason {
        /// Nacked at its last attempt.
        Attempts = "attempts",
        /// The last attempt's lease ran out.
        Timeout = "timeout",
        /// The last attempt's connection closed (`BOUND`).
        Lost = "lost",
        /// `NACK … BURY`.
        Buried = "buried",
    }
}

impl Reason {
    /// The reason with this number in facts and images.
    pub(in crate::engine) fn from_byte(byte: u8) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| *reason as u8 == byte)
    }
}

/// All of a job, as `DELAY.GET` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobView<'a> {
    pub id: &'a [u8],
    pub state: JobState,
    pub body: &'a [u8],
    pub due: Millis,
    pub added: Millis,
    /// 0 (first) to 9.
    pub priority: u8,
    /// Deliveries that count, so far.
    pub attempt: u32,
    /// Deliveries before it is dead; 0 no limit.
    pub attempts_max: u32,
    pub deliveries: u32,
    /// Deliveries that ended with a NACK.
    pub nacks: u32,
    /// Deliveries whose lease ran out.
    pub timeouts: u32,
    /// Deliveries whose connection closed.
    pub lost: u32,
    /// The backoff as ADD would write it.
    pub backoff: String,
    /// The job's own lease in ms; 0 when ADD named none.
    pub lease_ms: u64,
    /// TTL in ms; 0 never expires.
    pub ttl_ms: u64,
    /// When it expires; 0 never, or no longer.
    pub expires: Millis,
    pub unique_ms: u64,
    /// Leased: the token, the lease's end, and whether it ends with the connection.
    pub lease: Option<(Token, Millis, bool)>,
    /// Dead: why and since when.
    pub death: Option<(Reason, Millis)>,
    /// The texts of the last `NACK … ERROR`.
    pub errors: Option<&'a LastErrors>,
    /// The due time of the job that follows.
    pub latest: Option<Millis>,
    pub group: Option<&'a [u8]>,
    pub meta: Meta<'a>,
}

#[derive(Clone, Debug)]
pub enum Reply<'a> {
    Ok,
    /// No value (a single one).
    Nil,
    /// No value (where otherwise an array or a map is returned).
    NilArray,
    /// A count or an instant.
    Integer(i64),
    /// FORECAST.
    Counts(&'a [u64]),
    /// An id or a name.
    Id(&'a [u8]),
    State(JobState),
    /// One job taken by POP.
    Popped(Delivered<'a>),
    /// Jobs taken by RESERVE, at least one.
    Reserved(&'a [Delivered<'a>]),
    /// Jobs taken by a list pop, at least one.
    Listed(Shape, &'a [Delivered<'a>]),
    /// A body that was looked at, or moved.
    Body(&'a [u8]),
    /// Bodies in order.
    Bodies(&'a [&'a [u8]]),
    /// Places in a list.
    Places(&'a [i64]),
    Job(&'a JobView<'a>),
    /// A queue's settings: each name, its value as users write it, and whether it is set for the
    /// queue. `all` of them, or the requested one.
    Settings {
        /// In the order of [`Setting::ALL`].
        values: &'a [(Setting, String, bool)],
        all: bool,
    },
    Stats(&'a StatsView),
    GroupStats(&'a GroupView),
    Groups(&'a [GroupRow]),
    Errors(&'a [ErrorCount<'a>]),
    /// Jobs in order.
    Peeked(&'a [Glimpse<'a>]),
    Scanned(Cursor, &'a [Glimpse<'a>]),
    /// KEYS.
    Names(&'a [&'a [u8]]),
    ScannedNames(Cursor, &'a [&'a [u8]]),
    Queues(&'a [QueueRow]),
    /// DELAY.FIND.
    Found(&'a [FoundJob]),
    /// DELAY.BUSY.
    Leases(&'a [LeaseView<'a>]),
    /// DELAY.HISTORY.
    Minutes(&'a [Span]),
    /// DELAY.SCHEDULE SET: what it did, and the next nominal instant.
    ScheduleSet(ScheduleChange, Option<Millis>),
    Schedule(&'a ScheduleView<'a>),
    Schedules(&'a [ScheduleRow<'a>]),
    /// Nominal instants, and what the clocks of the zone show then.
    Explained(&'a [(Millis, String)]),
    /// Refused; nothing changed.
    Error(&'a Error),
}

impl Reply<'_> {
    /// Whether it hands jobs over, which go back if it never leaves.
    pub fn hands_over(&self) -> bool {
        matches!(self, Reply::Popped(_) | Reply::Reserved(_) | Reply::Listed(..))
    }

    /// About how many bytes it is on the wire, if it may be large; never less then.
    pub fn large_bytes(&self) -> usize {
        // Names, ids and bodies; a token, numbers, and the framing of all of them.
        const AROUND: usize = 160;
        let delivered = |jobs: &[Delivered<'_>]| -> usize {
            let job = |job: &Delivered<'_>| job.queue.name.len() + job.id.len() + job.body.len();
            let meta = |job: &Delivered<'_>| {
                job.meta.map_or(0, |(group, meta)| {
                    group.map_or(0, |name| name.len() + 16) + meta.shown_bytes()
                })
            };
            jobs.iter().map(|one| job(one) + meta(one) + AROUND).sum()
        };
        let texts = |texts: &[&[u8]]| texts.iter().map(|text| text.len() + 16).sum::<usize>();
        match *self {
            Reply::Popped(ref job) => delivered(std::slice::from_ref(job)),
            Reply::Reserved(jobs) | Reply::Listed(_, jobs) => delivered(jobs),
            Reply::Body(body) => body.len() + AROUND,
            Reply::Bodies(all) | Reply::Names(all) => texts(all) + AROUND,
            Reply::Peeked(jobs) => {
                jobs.iter().map(|job| job.id.len() + job.body.len() + AROUND).sum()
            }
            Reply::Schedule(view) => {
                let ids = view.open.iter().map(|id| id.len() + 16).sum::<usize>();
                let options = &view.definition.terms().options;
                let ladder =
                    options.backoff.as_ref().map_or(0, |backoff| backoff.written_bytes_max());
                let meta = view.definition.meta().shown_bytes();
                let group = view.definition.group().map_or(0, <[u8]>::len);
                view.name.len() + view.body.len() + group + meta + ids + ladder + 24 * AROUND
            }
            Reply::Schedules(rows) => {
                rows.iter().map(|row| row.name.len() + 2 * AROUND + 256).sum()
            }
            Reply::Explained(rows) => rows.len() * AROUND,
            Reply::Queues(rows) => rows.iter().map(|row| row.name.len() + 2 * AROUND).sum(),
            Reply::Groups(rows) => rows.iter().map(|row| row.name.len() + 2 * AROUND).sum(),
            Reply::Errors(rows) => rows.len() * 3 * AROUND,
            Reply::Minutes(rows) => rows.len() * 3 * AROUND,
            Reply::Found(rows) => rows.iter().map(|row| row.queue.len() + AROUND).sum(),
            Reply::Leases(leases) => {
                let texts = 3 * HOLDER_TEXT_BYTES_MAX;
                let names = |LeaseView { row, .. }: &LeaseView<'_>| row.queue.len() + row.id.len();
                leases.iter().map(|lease| names(lease) + texts + 2 * AROUND).sum()
            }
            _ => 0,
        }
    }

    /// Whether it reports a change to a client that waited.
    pub fn tells_of_change(&self) -> bool {
        self.hands_over() || matches!(self, Reply::Body(_))
    }
}
