//! A queue: its jobs by id, by time and by place, and its counts.

use crate::engine::model::lateness::Histogram;
use crate::engine::model::queue_settings::{Pauses, QueueSettings, Side};
use crate::engine::model::request::JobState;
use crate::engine::model::stats::Totals;
use crate::engine::store::errors::Errors;
use crate::engine::store::groups::Groups;
use crate::engine::store::jobs::JobStage;
use crate::engine::store::jobs::index::SlabIndex;
use crate::engine::store::memory::Footprints;
use crate::engine::store::minutes::Busyness;
use crate::engine::store::pace::Pace;
use crate::engine::store::purged::Purging;
use crate::engine::store::ready::{ReadyOrder, TAIL_PLACE_MIN};
use crate::engine::store::schedules::Schedules;
use crate::ids::{DATABASES, Db, QueueNo};
use crate::limits::DEAD_COUNT_DEFAULT;
use crate::time::{Micros, Millis};
use crate::wheel::Wheel;
use crate::wheel::list::List;

/// Bytes counted for a queue in addition to its name and its jobs.
pub const QUEUE_BYTES: u64 = size_of::<Queue>() as u64 + 320;

#[derive(Default, Debug)]
pub struct Queue {
    // Durable: equal after a replay of the facts.
    pub number: QueueNo,
    pub db: Db,
    pub name: Box<[u8]>,
    /// Jobs by state.
    pub counts: [u64; 4],
    /// All of them together.
    pub jobs: u64,
    /// Ids that are taken without a job.
    pub windows: u64,
    pub totals: Totals,
    /// All-time lateness; made on first use.
    pub lateness: Option<Box<Histogram>>,
    /// The sequence of the next job that is delayed: the order among equal due times.
    pub sequence: i64,
    /// The greatest place given so far.
    pub last_place: i64,
    /// The least place given so far; 1 until one was given at the head.
    pub first_place: i64,
    /// The queue's settings; none without any.
    pub settings: Option<Box<QueueSettings>>,
    pub pauses: Pauses,
    /// The schedules; none if there are none and never were.
    pub schedules: Option<Box<Schedules>>,
    /// The groups; none if no job has one, and nothing is set for any.
    pub groups: Option<Box<Groups>>,
    /// Which errors deliveries failed with; none if none has.
    pub errors: Option<Box<Errors>>,
    /// When a fact last named the queue.
    pub used: Millis,

    // Where the jobs are: follows from them.
    /// Jobs and windows by id.
    pub table: SlabIndex,
    /// Delayed jobs by due time.
    pub delayed: Wheel,
    /// Leased jobs by the end of their lease.
    pub leases: Wheel,
    /// Expiries of ready jobs, retentions of dead ones, ends of windows.
    pub ends: Wheel,
    /// Ready jobs by priority and place.
    pub ready: ReadyOrder,
    /// Dead jobs, oldest death first.
    pub dead: List,
    /// A client has chosen an id of the length of server-made ones, so that a new number's id may
    /// be taken. Without it there is nothing to look up.
    pub generated_form: bool,
    /// Purged jobs that are not freed yet.
    pub purging: Option<Box<Purging>>,
    /// Bytes counted for jobs and windows.
    pub bytes: u64,
    /// The part of its own bytes that is freed when memory is short: all while it has only totals.
    pub spare_bytes: u64,
    /// Their sizes, by stage.
    pub footprints: Footprints,
    /// When it has due work next; none is `NEVER`. Its timer in the partition's wheel is this or
    /// `opening`, whichever is earlier.
    pub wake: Millis,
    /// When slots of its delayed jobs must be opened early; `NEVER` for none.
    pub opening: Millis,
    /// A setting or a pause may keep its ready jobs from being taken.
    pub throttles: bool,

    // Volatile.
    /// The most bytes of id, META and body that a job of it has had since it is in memory.
    pub largest: u32,
    /// Which binding of its number this is: numbers are bound again, births never repeat.
    pub born: u64,
    /// Counts its changes.
    pub version: u64,
    /// The key of its timer in the partition's wheel.
    pub wake_key: u32,
    /// Bytes of its images in a base file, its jobs' included.
    pub image_bytes: u64,
    /// The number of the base file that its image has been written to.
    pub imaged: u32,
    /// The number of the base file that all its jobs' images have been written to.
    pub walked: u32,
    /// It is in the list of queues without a job, and may have one again.
    pub idle: bool,
    /// The decisions' notes about it.
    pub aside: Aside,
    /// The lists of theirs that it is in. Apart from the others, where it takes no room.
    pub marks: Marks,
}

#[derive(Default, Debug)]
pub struct Marks {
    /// For queues whose jobs became ready in this step.
    pub touched: bool,
    /// For queues with due work.
    pub sweeping: bool,
}

/// Volatile notes about a queue, apart from the state.
#[derive(Default, Debug)]
pub struct Aside {
    /// Its waiting clients: the number of a line.
    pub line: Option<u32>,
    /// The places that were given before this step.
    pub earlier: EarlierPlaces,
    /// Its use of its rate.
    pub pace: Pace,
    /// Hand-offs since the start that went back.
    pub returned: u64,
    /// The last job that a client took.
    pub taken: Use,
    /// The last one that a client acknowledged.
    pub acked: Use,
    /// How much it is used.
    pub busyness: Busyness,
}

/// When a client did something last; never is the default.
#[derive(Clone, Copy, Default, Debug)]
pub struct Use {
    at: Micros,
    /// The number of the client.
    pub client: u32,
}

impl Use {
    pub fn new(at: Micros, client: u32) -> Use {
        Use { at, client }
    }

    pub fn at(self) -> Option<Millis> {
        (self.at.0 > 0).then(|| self.at.floor())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlierPlaces {
    first: i64,
    last: i64,
}

impl EarlierPlaces {
    pub const ALL: EarlierPlaces = EarlierPlaces { first: i64::MIN, last: i64::MAX };

    /// A place is given, at the tail or at the head.
    pub fn give(&mut self, place: i64) {
        if place >= TAIL_PLACE_MIN {
            self.last = self.last.min(place - 1);
        } else {
            self.first = self.first.max(place + 1);
        }
    }

    pub fn contains(self, place: i64) -> bool {
        (self.first..=self.last).contains(&place)
    }
}

impl Default for EarlierPlaces {
    fn default() -> EarlierPlaces {
        EarlierPlaces::ALL
    }
}

/// No wake-up.
pub const NEVER: Millis = Millis(u64::MAX);

impl Queue {
    pub fn new(number: QueueNo, db: Db, name: &[u8], born: u64) -> Queue {
        Queue {
            number,
            db,
            name: name.into(),
            first_place: 1,
            wake: NEVER,
            opening: NEVER,
            born,
            ..Queue::default()
        }
    }

    /// Whether the key exists for users: it has a job, a setting, a pause or a schedule.
    pub fn exists(&self) -> bool {
        let groups = || self.groups.as_ref().is_some_and(|groups| groups.set().len() > 0);
        let set = || self.settings.is_some() || self.pauses.any() || groups();
        self.jobs > 0 || set() || self.schedules.as_ref().is_some_and(|all| !all.is_empty())
    }

    /// Whether only totals are left of it.
    pub fn has_only_totals(&self) -> bool {
        !self.exists() && self.windows == 0
    }

    /// Bytes counted for the queue in addition to its jobs.
    pub fn own_bytes(&self) -> u64 {
        let settings = self.settings.as_ref().map_or(0, |settings| settings.memory_bytes());
        let schedules = self.schedules.as_ref().map_or(0, |all| all.memory_bytes());
        let groups = self.groups.as_ref().map_or(0, |groups| groups.bytes);
        let errors = self.errors.as_ref().map_or(0, |errors| errors.bytes());
        QUEUE_BYTES + self.name.len() as u64 + settings + schedules + groups + errors
    }

    pub fn count(&self, state: JobState) -> u64 {
        self.counts[state as usize]
    }

    /// The group that is to be looked at next because of its rate, and when.
    pub fn next_paced(&self) -> Option<(Millis, u32)> {
        self.groups.as_ref()?.next_paced()
    }

    /// When the next pause of it or of a group ends by itself.
    pub fn next_pause_end(&self) -> Option<Millis> {
        let of_groups = self.groups.as_ref().and_then(|groups| groups.next_end());
        self.pauses.next_end().into_iter().chain(of_groups.map(|(end, _)| end)).min()
    }

    /// Where jobs that fall due, or are added for now, enter.
    pub fn due_enters(&self) -> Side {
        self.settings.as_ref().and_then(|settings| settings.due_enters).unwrap_or_default()
    }

    /// The side from which POP and RESERVE take: what became ready first.
    pub fn next_side(&self) -> Side {
        match self.due_enters() {
            Side::Right => Side::Left,
            Side::Left => Side::Right,
        }
    }

    pub fn next_place(&self, enters: Side) -> i64 {
        match enters {
            Side::Right => self.last_place + 1,
            Side::Left => self.first_place - 1,
        }
    }

    /// The wheel that holds the timer of a job in this stage.
    pub fn wheel(&mut self, stage: JobStage) -> &mut Wheel {
        match stage {
            JobStage::Delayed => &mut self.delayed,
            JobStage::Leased => &mut self.leases,
            JobStage::Ready | JobStage::Dead | JobStage::Window => &mut self.ends,
            JobStage::Vacant => unreachable!("a vacant number has no timer"),
        }
    }
}

/// The effect of its settings and pauses, read only when deciding.
impl Queue {
    /// The rate, if one is set.
    pub(in crate::engine) fn rate(&self) -> Option<u32> {
        self.settings.as_ref()?.rate.filter(|rate| *rate > 0)
    }

    pub(in crate::engine) fn max_leased(&self) -> Option<u64> {
        self.settings.as_ref()?.max_leased.filter(|max| *max > 0)
    }

    pub fn dead_max(&self) -> u64 {
        let own = self.settings.as_ref().and_then(|settings| settings.dead_max);
        own.unwrap_or(DEAD_COUNT_DEFAULT)
    }

    /// Whether anything set could keep its ready jobs from being taken.
    pub fn could_throttle(&self) -> bool {
        self.pauses.out != Default::default()
            || self.max_leased().is_some()
            || self.rate().is_some()
    }

    /// Whether its ready jobs may be taken at `now`, as far as pauses and the number of leases go.
    pub(in crate::engine) fn gives(&self, now: Micros) -> bool {
        !self.pauses.out.is_on(now)
            && self.max_leased().is_none_or(|max| self.count(JobState::Leased) < max)
    }
}

/// A queue's number contains its database and its place there.
pub(super) fn place_of(number: QueueNo) -> (usize, u32) {
    let databases = u32::from(DATABASES);
    ((number.0 % databases) as usize, number.0 / databases)
}

pub(super) fn number_at(db: usize, place: u32) -> QueueNo {
    let number = place as usize * usize::from(DATABASES) + db;
    QueueNo(number.try_into().expect("a database has less than 2^28 queues"))
}
