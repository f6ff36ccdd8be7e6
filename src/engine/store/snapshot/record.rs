//! The bytes of images: one piece of the state each, as in a base file. Written like facts: little-endian, a tag byte,
//! then the fields in the order written here, byte strings after a u32 length. The layout of a tag never changes.
//!
//! A job takes 43 bytes in addition to id and body, 61 more and its error text once it was
//! delivered.

use crate::engine::model::errors::ErrorCount;
use crate::engine::model::fact::{ByteCount, FactReader, Malformed, Sink, Writer};
use crate::engine::model::group::GroupSettings;
use crate::engine::model::last_errors::{LastError, LastErrors};
use crate::engine::model::lateness::Histogram;
use crate::engine::model::leading::{Leading, Stall};
use crate::engine::model::meta::Meta;
use crate::engine::model::minutes::Minute;
use crate::engine::model::policy::Policy;
use crate::engine::model::queue_settings::{Pause, Pauses, QueueSettings};
use crate::engine::model::reply::Reason;
use crate::engine::model::schedule::Outcomes;
use crate::engine::model::stats::Totals;
pub use crate::engine::store::jobs::Successor;
use crate::engine::store::jobs::{
    Content, GROUP_HEAD_BYTES, History, Job, JobStage, META_LENGTH_BYTES,
};
use crate::engine::store::queue::Queue;
pub use crate::engine::store::schedules::{Schedule, occurrence_id};
use crate::ids::{Db, PolicyNo, QueueNo, ScheduleNo};
use crate::limits::{MINUTES_PER_IMAGE, NAME_BYTES_MAX, OPEN_MAX};
use crate::time::Millis;

const BEGIN: u8 = 1;
const POLICY: u8 = 2;
const QUEUE: u8 = 3;
const JOB: u8 = 4;
const WINDOW: u8 = 5;
const END: u8 = 6;
const QUEUE_MORE: u8 = 7;
const LEADING: u8 = 8;
const SCHEDULE: u8 = 9;
const SCHEDULE_TOTALS: u8 = 10;
const SCHEDULES: u8 = 11;
// Before a group or META, in this order, and the job or the schedule that has it.
const WITH_META: u8 = 12;
const WITH_GROUP: u8 = 13;
// Before these: what follows a leased job.
const WITH_SUCCESSOR: u8 = 16;
const GROUP: u8 = 14;
const GROUP_PACED: u8 = 15;
const ERROR: u8 = 17;
const MINUTES: u8 = 18;
// Before these, and all else about a job: when its error was given, and the earlier ones.
const WITH_ERRORS: u8 = 19;

// The stage of a job is in the low bits of its flags.
const STAGES: u8 = 7;
const HAS_HISTORY: u8 = 8;
const BOUND: u8 = 16;
const HAS_ERROR: u8 = 32;
/// The two bits of [`History::rested`].
const RESTED: u8 = 6;

/// A span that ends before it begins.
const NO_STALL: (Millis, Millis) = (Millis(1), Millis(0));

/// The byte of a job that is not dead.
const ALIVE: u8 = u8::MAX;

/// Bytes of the first and the last image, and of the leader.
pub fn frame_bytes(leading: &Leading, counts: ImageCounts) -> u64 {
    let begin = ByteCount::of(|out| write_begin(out, 0, leading));
    begin + ByteCount::of(|out| write_end(out, counts))
}

/// Bytes of a job's or window's image.
pub fn job_bytes(job: &Job, history: Option<&History>) -> u64 {
    let beside = ByteCount::of(|out| {
        write_job(out, QueueNo(0), (job, PolicyNo(0), history), Millis(0), Content::of(&[]));
    });
    // In their slot group and META have other lengths before them.
    let meta = if job.has_meta() { META_LENGTH_BYTES } else { 0 };
    let group = if job.has_group() { GROUP_HEAD_BYTES } else { 0 };
    beside + (job.data_bytes() - meta - group) as u64
}

/// Bytes that a history adds to the image of a job, without the text of an error.
pub fn history_bytes() -> u64 {
    ByteCount::of(|out| write_history(out, &History::default()))
}

pub fn policy_bytes(policy: &Policy) -> u64 {
    ByteCount::of(|out| write_policy(out, PolicyNo(0), policy))
}

/// Bytes of the image of a queue without jobs and what [`more_bytes`] counts.
pub fn queue_bytes(queue: &Queue) -> u64 {
    ByteCount::of(|out| write_counted(out, queue))
}

/// Bytes of a queue's data other than its jobs, in an image of its own after the queue's; 0 if all of it has its
/// initial value.
pub fn more_bytes(queue: &Queue) -> u64 {
    ByteCount::of(|out| write_more(out, queue))
}

pub fn group_bytes(name: &[u8], settings: GroupSettings) -> u64 {
    ByteCount::of(|out| write_group(out, QueueNo(0), name, settings))
}

/// Bytes of the image of a group's pace.
pub fn pace_bytes(name: &[u8]) -> u64 {
    ByteCount::of(|out| write_pace(out, QueueNo(0), name, 0))
}

pub fn error_bytes(error: &ErrorCount<'_>) -> u64 {
    ByteCount::of(|out| write_error(out, QueueNo(0), error))
}

/// Bytes of the images of so many minutes.
pub fn minutes_bytes(count: u64) -> u64 {
    let images = count.div_ceil(MINUTES_PER_IMAGE as u64);
    let head = ByteCount::of(|out| write_minutes(out, None, 0, &[]));
    images * head + count * ByteCount::of(|out| write_minute(out, &Minute::default()))
}

pub fn schedule_bytes(schedule: &Schedule) -> u64 {
    ByteCount::of(|out| write_schedule(out, QueueNo(0), schedule))
}

/// By how much a value counted as lateness makes the image of its queue longer.
pub fn lateness_growth(made: bool, first_of_bucket: bool) -> u64 {
    u64::from(made) * 8 + u64::from(first_of_bucket) * 5
}

/// How many images of each kind there are: policies, queues, jobs and windows, schedules.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ImageCounts {
    pub policies: u64,
    pub queues: u64,
    pub jobs: u64,
    pub schedules: u64,
}

/// Appends the first image: the greatest number used for a token or an id; then the leader, if there ever was one.
pub fn write_begin(out: &mut impl Sink, number: u64, leading: &Leading) {
    let w = &mut Writer(out);
    w.u8(BEGIN).u64(number);
    if *leading == Leading::default() {
        return;
    }
    let &Leading { term, node, level, stall } = leading;
    let (from, to) = stall.map_or(NO_STALL, |stall| (stall.from, stall.to));
    w.u8(LEADING).u64(term).u64(node).u32(level).u64(from.0).u64(to.0);
}

/// Appends the last image. With schedules, an image with their number comes before it.
pub fn write_end(out: &mut impl Sink, counts: ImageCounts) {
    if counts.schedules > 0 {
        Writer(out).u8(SCHEDULES).u64(counts.schedules);
    }
    Writer(out).u8(END).u64(counts.policies).u64(counts.queues).u64(counts.jobs);
}

pub fn write_policy(out: &mut impl Sink, number: PolicyNo, policy: &Policy) {
    Writer(out).u8(POLICY).u32(number.0).policy(policy);
}

/// Appends a queue without its jobs.
pub fn write_queue(out: &mut Vec<u8>, queue: &Queue) {
    write_counted(out, queue);
    write_more(out, queue);
    for (name, settings) in queue.groups.iter().flat_map(|groups| groups.set()) {
        write_group(out, queue.number, name, settings);
    }
    for error in queue.error_counts() {
        write_error(out, queue.number, &error);
    }
}

/// How often deliveries failed with a kind of error; those that are not listed have no text.
fn write_error(out: &mut impl Sink, queue: QueueNo, error: &ErrorCount<'_>) {
    let w = &mut Writer(out);
    w.head(ERROR, queue).bytes(error.text.unwrap_or_default()).u64(error.count).u64(error.dead);
    w.u64(error.first.0).u64(error.last.0).bytes(error.sample.unwrap_or_default());
}

/// Some minutes of a queue, or of all queues together, in order.
pub fn write_minutes(out: &mut impl Sink, queue: Option<QueueNo>, since: u32, minutes: &[Minute]) {
    let number = queue.unwrap_or(QueueNo(0));
    let count = minutes.len() as u8;
    Writer(&mut *out).head(MINUTES, number).u8(queue.is_some().into()).u32(since).u8(count);
    minutes.iter().for_each(|minute| write_minute(out, minute));
}

fn write_minute(out: &mut impl Sink, minute: &Minute) {
    let &Minute { at, added, delivered, acked, failed, died, jobs, lateness_us } = minute;
    let w = &mut Writer(out);
    w.u32(at).u32(added).u32(delivered).u32(acked).u32(failed).u32(died);
    jobs.into_iter().chain(lateness_us).for_each(|number| _ = w.u32(number));
}

/// The settings of a group.
fn write_group(out: &mut impl Sink, queue: QueueNo, name: &[u8], settings: GroupSettings) {
    Writer(out).head(GROUP, queue).bytes(name).group_settings(settings);
}

/// When a group gave by its rate, ns.
pub fn write_pace(out: &mut impl Sink, queue: QueueNo, name: &[u8], gave: u64) {
    Writer(out).head(GROUP_PACED, queue).bytes(name).u64(gave);
}

fn write_more(out: &mut impl Sink, queue: &Queue) {
    write_settings(out, queue);
    let schedules = queue.schedules.as_deref();
    let (made, missed) = schedules.map_or((0, 0), |all| (all.made, all.missed));
    if made + missed > 0 {
        Writer(out).head(SCHEDULE_TOTALS, queue.number).u64(made).u64(missed);
    }
}

fn write_settings(out: &mut impl Sink, queue: &Queue) {
    if queue.settings.is_none() && !queue.pauses.any() && queue.first_place == 1 {
        return;
    }
    let (w, none) = (&mut Writer(out), QueueSettings::default());
    w.head(QUEUE_MORE, queue.number).settings(queue.settings.as_deref().unwrap_or(&none));
    w.pauses(queue.pauses).u64(queue.first_place as u64);
}

fn write_counted(out: &mut impl Sink, queue: &Queue) {
    let w = &mut Writer(out);
    w.head(QUEUE, queue.number).u8(queue.db.0).bytes(&queue.name);
    for total in totals(&queue.totals) {
        w.u64(total);
    }
    w.u64(queue.sequence as u64).u64(queue.last_place as u64).u64(queue.used.0);
    w.u8(queue.generated_form.into());
    let Some(lateness) = &queue.lateness else {
        w.u8(0);
        return;
    };
    // A histogram that exists has counted something, so 0 means that there is none.
    w.u8(lateness.filled().count() as u8);
    for (bucket, count) in lateness.filled() {
        w.u8(bucket).u32(count);
    }
    w.u64(lateness.max());
}

/// Appends a job with all that it has: `timer` is what its timer says, or its due time if it is ready.
pub fn write_job(
    out: &mut impl Sink,
    queue: QueueNo,
    (job, policy, history): (&Job, PolicyNo, Option<&History>),
    timer: Millis,
    content: Content<'_>,
) {
    let Content { id, meta, body, .. } = content;
    if let Some(errors) = history.and_then(|history| history.errors.as_ref())
        && let Some((at, attempt)) = errors.newest().given
    {
        Writer(&mut *out).u8(WITH_ERRORS).u64(at.0).u32(attempt).bytes(errors.earlier());
    }
    if let Some(successor) = history.and_then(|history| history.successor.as_deref()) {
        write_successor(out, successor);
    }
    let w = &mut Writer(&mut *out);
    if job.has_group() {
        w.u8(WITH_GROUP).bytes(content.group_name().unwrap_or_default());
    }
    if job.has_meta() {
        w.u8(WITH_META).bytes(meta.block());
    }
    if job.stage == JobStage::Window {
        w.head(WINDOW, queue).bytes(id).u32(policy.0).u64(timer.0);
        return;
    }
    let mut flags = job.stage as u8;
    if let Some(history) = history {
        flags |= HAS_HISTORY | (u8::from(history.bound) * BOUND);
        flags |= u8::from(history.errors.is_some()) * HAS_ERROR;
        flags |= history.rested << RESTED;
    }
    w.head(JOB, queue).u8(flags).u8(job.priority).u32(policy.0);
    w.u64(job.added.0).u64(timer.0).u64(job.order as u64).bytes(id).bytes(body);
    if let Some(history) = history {
        write_history(out, history);
    }
}

fn write_successor(out: &mut impl Sink, successor: &Successor) {
    let Successor { policy, priority, added, due, group, meta, body } = successor;
    let w = &mut Writer(out);
    w.u8(WITH_SUCCESSOR).u32(policy.0).u8(*priority).u64(added.0).u64(due.0);
    w.bytes(group.as_deref().unwrap_or_default()).bytes(meta.get().block()).bytes(body);
}

pub fn write_schedule(out: &mut impl Sink, queue: QueueNo, schedule: &Schedule) {
    let w = &mut Writer(out);
    if let Some(name) = schedule.definition.group() {
        w.u8(WITH_GROUP).bytes(name);
    }
    let meta = schedule.definition.meta();
    if !meta.is_none() {
        w.u8(WITH_META).bytes(meta.block());
    }
    w.head(SCHEDULE, queue).u64(schedule.number.0).bytes(&schedule.name).bytes(&schedule.body);
    w.definition(&schedule.definition).u64(schedule.anchor.0).u64(schedule.after.0);
    w.coming(schedule.next()).u64(schedule.last.0).u64(schedule.made_at.0);
    w.u32(schedule.offset_s as u32).u64(schedule.changed.0).u64(schedule.pause().number());
    let Outcomes { made, missed, skipped, replaced } = schedule.outcomes;
    w.u64(made).u64(missed).u64(skipped).u64(replaced).u8(schedule.recent.len() as u8);
    for at in &*schedule.recent {
        w.u64(at.0);
    }
}

fn write_history(out: &mut impl Sink, history: &History) {
    let w = &mut Writer(out);
    w.u64(history.token).u64(history.due.0).u64(history.armed as u64);
    w.u32(history.attempt).u32(history.deliveries).u32(history.nacks);
    w.u32(history.timeouts).u32(history.lost).u32(history.unanswered);
    let (reason, died) = history.death().map_or((ALIVE, 0), |(why, at)| (why as u8, at.0));
    w.u8(reason).u64(died).bytes(history.error().unwrap_or_default());
}

/// One piece of the state.
#[derive(Debug)]
pub enum Image<'a> {
    /// The first: the greatest number used for a token or an id.
    Begin {
        number: u64,
    },
    Policy {
        number: PolicyNo,
        policy: Policy,
    },
    Queue(Box<QueueImage<'a>>),
    /// The settings of a group of the previous queue.
    Group {
        queue: QueueNo,
        name: &'a [u8],
        settings: GroupSettings,
    },
    /// When a group gave by its rate, ns.
    GroupPaced {
        queue: QueueNo,
        name: &'a [u8],
        gave: u64,
    },
    /// How often deliveries of the previous queue failed with a kind of error.
    Error {
        queue: QueueNo,
        error: ErrorCount<'a>,
    },
    /// Some minutes of a queue, or of all together; they come after all of the state.
    Minutes {
        queue: Option<QueueNo>,
        /// The first that was counted.
        since: u32,
        minutes: Vec<Minute>,
    },
    /// The previous queue's data other than its jobs, if it does not have its initial values.
    QueueMore(Box<QueueMore>),
    Job(JobImage<'a>),
    /// An id that is taken without a job.
    Window {
        queue: QueueNo,
        id: &'a [u8],
        policy: PolicyNo,
        end: Millis,
    },
    /// The leader; after the first.
    Leading(Leading),
    Schedule {
        queue: QueueNo,
        schedule: Box<Schedule>,
    },
    /// The outcomes of the previous queue's schedules, including removed ones.
    ScheduleTotals {
        queue: QueueNo,
        made: u64,
        missed: u64,
    },
    /// How many schedules there are; right before the last.
    Schedules {
        count: u64,
    },
    /// The last.
    End(ImageCounts),
}

/// A queue without its jobs.
#[derive(Debug)]
pub struct QueueImage<'a> {
    pub number: QueueNo,
    pub db: Db,
    pub name: &'a [u8],
    pub totals: Totals,
    pub sequence: i64,
    pub last_place: i64,
    pub used: Millis,
    pub generated_form: bool,
    pub lateness: Option<Box<Histogram>>,
}

/// A queue's data other than its jobs.
#[derive(Debug)]
pub struct QueueMore {
    pub number: QueueNo,
    pub settings: QueueSettings,
    pub pauses: Pauses,
    pub first_place: i64,
}

#[derive(Debug)]
pub struct JobImage<'a> {
    pub queue: QueueNo,
    pub stage: JobStage,
    pub priority: u8,
    pub policy: PolicyNo,
    pub added: Millis,
    pub timer: Millis,
    pub order: i64,
    pub id: &'a [u8],
    pub group: Option<&'a [u8]>,
    pub meta: Meta<'a>,
    pub body: &'a [u8],
    pub history: Option<History>,
}

impl<'a> Image<'a> {
    pub fn read(r: &mut FactReader<'a>) -> Result<Image<'a>, Malformed> {
        let (mut tag, mut group, mut meta, mut successor) = (r.u8()?, None, None, None);
        let mut errors = None;
        if tag == WITH_ERRORS {
            (errors, tag) = (Some((r.millis()?, r.u32()?, r.bytes()?)), r.u8()?);
        }
        if tag == WITH_SUCCESSOR {
            (successor, tag) = (Some(Box::new(read_successor(r)?)), r.u8()?);
        }
        if tag == WITH_GROUP {
            (group, tag) = (Some(r.group()?), r.u8()?);
        }
        if tag == WITH_META {
            (meta, tag) = (Some(r.meta()?), r.u8()?);
        }
        let mut image = Image::read_tagged(tag, r)?;
        match &mut image {
            _ if group.is_none() && meta.is_none() && successor.is_none() && errors.is_none() => {}
            Image::Job(job) => {
                (job.group, job.meta) = (group, meta.unwrap_or_default());
                match &mut job.history {
                    Some(history) => {
                        history.successor = successor;
                        restore_errors(history, errors).ok_or_else(|| r.malformed())?;
                    }
                    None if successor.is_none() && errors.is_none() => {}
                    None => return Err(r.malformed()),
                }
            }
            Image::Schedule { schedule, .. } if successor.is_none() && errors.is_none() => {
                let definition = &mut schedule.definition;
                group.into_iter().for_each(|name| definition.set_group(name));
                meta.into_iter().for_each(|meta| definition.set_meta(meta));
            }
            _ => return Err(r.malformed()),
        }
        Ok(image)
    }

    fn read_tagged(tag: u8, r: &mut FactReader<'a>) -> Result<Image<'a>, Malformed> {
        Ok(match tag {
            BEGIN => Image::Begin { number: r.u64()? },
            POLICY => Image::Policy { number: PolicyNo(r.u32()?), policy: r.policy()? },
            QUEUE => Image::Queue(Box::new(read_queue(r)?)),
            QUEUE_MORE => {
                let (number, settings) = (QueueNo(r.u32()?), r.settings()?);
                let (pauses, first_place) = (r.pauses()?, r.u64()? as i64);
                Image::QueueMore(Box::new(QueueMore { number, settings, pauses, first_place }))
            }
            GROUP => {
                let (queue, name, settings) = (QueueNo(r.u32()?), r.group()?, r.group_settings()?);
                Image::Group { queue, name, settings }
            }
            GROUP_PACED => {
                Image::GroupPaced { queue: QueueNo(r.u32()?), name: r.group()?, gave: r.u64()? }
            }
            ERROR => Image::Error { queue: QueueNo(r.u32()?), error: read_error(r)? },
            MINUTES => {
                let (number, is_own, since) = (QueueNo(r.u32()?), r.flag()?, r.u32()?);
                let minutes: Result<Vec<Minute>, Malformed> =
                    (0..r.u8()?).map(|_| read_minute(r)).collect();
                Image::Minutes { queue: is_own.then_some(number), since, minutes: minutes? }
            }
            JOB => Image::Job(read_job(r)?),
            WINDOW => {
                let (queue, id) = (QueueNo(r.u32()?), r.bytes()?);
                Image::Window { queue, id, policy: PolicyNo(r.u32()?), end: r.millis()? }
            }
            LEADING => Image::Leading(read_leading(r)?),
            SCHEDULE => {
                Image::Schedule { queue: QueueNo(r.u32()?), schedule: Box::new(read_schedule(r)?) }
            }
            SCHEDULE_TOTALS => {
                let (queue, made, missed) = (QueueNo(r.u32()?), r.u64()?, r.u64()?);
                Image::ScheduleTotals { queue, made, missed }
            }
            SCHEDULES => Image::Schedules { count: r.u64()? },
            END => {
                let (policies, queues, jobs) = (r.u64()?, r.u64()?, r.u64()?);
                Image::End(ImageCounts { policies, queues, jobs, schedules: 0 })
            }
            _ => return Err(r.malformed()),
        })
    }
}

/// Adds to the newest error when it was given, and the earlier ones; none if these are not such.
fn restore_errors(history: &mut History, errors: Option<(Millis, u32, &[u8])>) -> Option<()> {
    let Some((at, attempt, earlier)) = errors else { return Some(()) };
    let given = Some((at, attempt)).filter(|_| at.0 > 0);
    let text = history.error()?;
    history.errors = Some(LastErrors::restored(LastError { text, given: Some(given?) }, earlier)?);
    Some(())
}

fn read_successor(r: &mut FactReader<'_>) -> Result<Successor, Malformed> {
    let (policy, priority) = (PolicyNo(r.u32()?), r.u8()?);
    let (added, due, group, meta) = (r.millis()?, r.millis()?, r.bytes()?, r.bytes()?);
    let meta = Meta::read(meta).ok_or_else(|| r.malformed())?.into();
    if group.len() > NAME_BYTES_MAX {
        return Err(r.malformed());
    }
    let group = (!group.is_empty()).then(|| group.into());
    Ok(Successor { policy, priority, added, due, group, meta, body: r.bytes()?.into() })
}

fn read_error<'a>(r: &mut FactReader<'a>) -> Result<ErrorCount<'a>, Malformed> {
    let text = Some(r.bytes()?).filter(|text| !text.is_empty());
    let (count, dead, first, last) = (r.u64()?, r.u64()?, r.millis()?, r.millis()?);
    let sample = Some(r.bytes()?).filter(|id| !id.is_empty());
    Ok(ErrorCount { text, count, dead, first, last, sample })
}

fn read_minute(r: &mut FactReader<'_>) -> Result<Minute, Malformed> {
    Ok(Minute {
        at: r.u32()?,
        added: r.u32()?,
        delivered: r.u32()?,
        acked: r.u32()?,
        failed: r.u32()?,
        died: r.u32()?,
        jobs: [r.u32()?, r.u32()?, r.u32()?, r.u32()?],
        lateness_us: [r.u32()?, r.u32()?],
    })
}

fn read_schedule(r: &mut FactReader<'_>) -> Result<Schedule, Malformed> {
    let (number, name, body) = (ScheduleNo(r.u64()?), r.bytes()?.into(), r.bytes()?.into());
    let (definition, anchor, after) = (r.definition()?, r.millis()?, r.millis()?);
    let (next, last, made_at) = (r.coming()?, r.millis()?, r.millis()?);
    let (offset_s, changed) = (r.u32()? as i32, r.millis()?);
    let pause = Pause::of_number(r.u64()?);
    let [made, missed, skipped, replaced] = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
    let open = usize::from(r.u8()?);
    if open > OPEN_MAX {
        return Err(r.malformed());
    }
    let recent: Result<Box<[Millis]>, Malformed> = (0..open).map(|_| r.millis()).collect();
    let mut schedule = Schedule::default();
    (schedule.number, schedule.name, schedule.body) = (number, name, body);
    (schedule.definition, schedule.anchor, schedule.last) = (definition, anchor, last);
    (schedule.made_at, schedule.changed, schedule.recent) = (made_at, changed, recent?);
    schedule.outcomes = Outcomes { made, missed, skipped, replaced };
    schedule.set_pause(pause);
    schedule.set_next(after, next);
    schedule.offset_s = offset_s;
    Ok(schedule)
}

fn read_leading(r: &mut FactReader<'_>) -> Result<Leading, Malformed> {
    let (term, node, level) = (r.u64()?, r.u64()?, r.u32()?);
    let (from, to) = (r.millis()?, r.millis()?);
    let stall = match (from, to) {
        NO_STALL => None,
        _ if from <= to => Some(Stall { from, to }),
        _ => return Err(r.malformed()),
    };
    Ok(Leading { term, node, level, stall })
}

fn read_queue<'a>(r: &mut FactReader<'a>) -> Result<QueueImage<'a>, Malformed> {
    let (number, db, name) = (QueueNo(r.u32()?), Db(r.u8()?), r.bytes()?);
    let mut counted = [0; 10];
    for total in &mut counted {
        *total = r.u64()?;
    }
    let (sequence, last_place) = (r.u64()? as i64, r.u64()? as i64);
    let (used, generated_form, filled) = (r.millis()?, r.flag()?, r.u8()?);
    let mut lateness = None;
    if filled > 0 {
        let histogram: &mut Box<Histogram> = lateness.insert(Box::default());
        for _ in 0..filled {
            let (bucket, count) = (r.u8()?, r.u32()?);
            if count == 0 || !histogram.restore(bucket, count) {
                return Err(r.malformed());
            }
        }
        histogram.restore_max(r.u64()?);
    }
    let totals = totals_of(counted);
    Ok(QueueImage {
        number,
        db,
        name,
        totals,
        sequence,
        last_place,
        used,
        generated_form,
        lateness,
    })
}

fn read_job<'a>(r: &mut FactReader<'a>) -> Result<JobImage<'a>, Malformed> {
    let (queue, flags, priority) = (QueueNo(r.u32()?), r.u8()?, r.u8()?);
    let (policy, added, timer) = (PolicyNo(r.u32()?), r.millis()?, r.millis()?);
    let (order, data) = (r.u64()? as i64, (r.bytes()?, r.bytes()?));
    let stages = [JobStage::Delayed, JobStage::Ready, JobStage::Leased, JobStage::Dead];
    let stage = stages.into_iter().find(|stage| *stage as u8 == flags & STAGES);
    let Some(stage) = stage else { return Err(r.malformed()) };
    let history = if flags & HAS_HISTORY != 0 {
        Some(read_history(r, flags)?)
    } else if flags & !(STAGES | HAS_HISTORY) != 0 {
        return Err(r.malformed());
    } else {
        None
    };
    let (group, meta) = (None, Meta::NONE);
    let (id, body) = data;
    Ok(JobImage {
        queue,
        stage,
        priority,
        policy,
        added,
        timer,
        order,
        id,
        group,
        meta,
        body,
        history,
    })
}

fn read_history(r: &mut FactReader<'_>, flags: u8) -> Result<History, Malformed> {
    let mut history = History::default();
    (history.token, history.due, history.armed) = (r.u64()?, r.millis()?, r.u64()? as i64);
    (history.attempt, history.deliveries, history.nacks) = (r.u32()?, r.u32()?, r.u32()?);
    (history.timeouts, history.lost, history.unanswered) = (r.u32()?, r.u32()?, r.u32()?);
    let (reason, died, error) = (r.u8()?, r.millis()?, r.bytes()?);
    if reason != ALIVE {
        let reason = Reason::from_byte(reason).ok_or_else(|| r.malformed())?;
        history.set_death(Some((reason, died)));
    }
    let said = flags & HAS_ERROR != 0;
    if (!said && !error.is_empty()) || (reason == ALIVE && died.0 != 0) {
        return Err(r.malformed());
    }
    history.bound = flags & BOUND != 0;
    history.rested = flags >> RESTED;
    let error = said.then_some(LastError { text: error, given: None });
    history.errors = error.map(|error| LastErrors::with(None, error));
    Ok(history)
}

pub fn totals(of: &Totals) -> [u64; 10] {
    let &Totals { added, delivered, acked, nacked, timeouts, .. } = of;
    let &Totals { lost, expired, deleted, died, dropped, .. } = of;
    [added, delivered, acked, nacked, timeouts, lost, expired, deleted, died, dropped]
}

fn totals_of(counted: [u64; 10]) -> Totals {
    let [added, delivered, acked, nacked, timeouts, lost, expired, deleted, died, dropped] =
        counted;
    Totals { added, delivered, acked, nacked, timeouts, lost, expired, deleted, died, dropped }
}
