//! Which fields a fact or an image has.

use super::DumpNames;
use super::value::FieldValue;
use crate::engine::model::errors::ErrorCount;
use crate::engine::model::fact::{Destination, Fact, FactId, Image as Popped, Inherited};
use crate::engine::model::group::GroupSettings;
use crate::engine::model::last_errors::LastError;
use crate::engine::model::leading::{Leading, Stall};
use crate::engine::model::meta::Meta;
use crate::engine::model::minutes::{MINUTE_MS, Minute};
use crate::engine::model::policy::Policy;
use crate::engine::model::queue_settings::{Pauses, QueueSettings, Setting};
use crate::engine::model::request::JobState;
use crate::engine::model::token;
use crate::engine::record::{Image, ImageCounts, JobImage, QueueImage, Successor, totals};
use crate::ids::{PolicyNo, QueueNo};
use crate::journal::record::raft_state::Vote;
use crate::time::Millis;
use std::borrow::Cow;
use std::io::{self, Write};

/// Puts variables under their names.
macro_rules! put {
    ($line:expr; $($field:ident),+) => {
        $line$(.put(stringify!($field), $field))+
    };
}
pub(super) use put;

/// The fields of a line, in order.
pub(super) struct DumpFields<'a> {
    pub(super) names: &'a DumpNames,
    fields: Vec<(&'static str, FieldValue<'a>)>,
}

/// The totals of a queue, in the order of its image.
const TOTALS: [&str; 10] = [
    "added", "delivered", "acked", "nacked", "timeouts", "lost", "expired", "deleted", "died",
    "dropped",
];

impl<'a> DumpFields<'a> {
    pub fn new(names: &'a DumpNames) -> DumpFields<'a> {
        DumpFields { names, fields: Vec::with_capacity(20) }
    }

    pub fn put(&mut self, name: &'static str, value: impl Into<FieldValue<'a>>) -> &mut Self {
        self.fields.push((name, value.into()));
        self
    }

    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &FieldValue::Fields(self.fields))?;
        out.write_all(b"\n")
    }

    /// Puts what a node voted for; nulls if it never did.
    pub fn vote(&mut self, vote: Option<Vote>) -> &mut Self {
        self.put("vote_epoch", vote.map(|vote| vote.epoch));
        self.put("vote_for", vote.map(|vote| FieldValue::node(vote.node)))
    }

    pub fn fact(&mut self, fact: &Fact<'a>) {
        self.text("fact", fact.word());
        match *fact {
            Fact::QueueBound { queue, .. }
            | Fact::QueueRemoved { queue }
            | Fact::QueueForgotten { queue } => self.queue(queue),
            Fact::PolicyBound { number, ref policy } => self.policy(number, policy),
            Fact::PolicyForgotten { number } => self.put("policy", number),
            Fact::Flushed { db } => put!(self; db),
            Fact::Added {
                queue,
                id,
                policy,
                priority,
                absolute,
                ready,
                left,
                due,
                body,
                inherited,
                group,
                meta,
            } => {
                let made = matches!(id, FactId::Made(_));
                let id = match id {
                    FactId::Given(id) => FieldValue::Bytes(id),
                    FactId::Made(number) => FieldValue::Owned(token::written(number).into()),
                };
                put!(self.queue(queue); id, made, policy, priority, absolute, ready, left, due, body);
                if let Some(Inherited { added, place }) = inherited {
                    put!(self; added, place);
                }
                self.beside(group, meta)
            }
            Fact::SuccessorSet {
                queue, id, policy, priority, absolute, added, due, body, ..
            } => {
                put!(self.job(queue, id); policy, priority, absolute, added, due, body);
                let (group, meta) = fact.beside();
                self.beside(group, meta)
            }
            Fact::Succeeded { queue, id, acked, ready, left } => {
                put!(self.job(queue, id); acked, ready, left)
            }
            Fact::Due { queue, place, count, left } => put!(self.queue(queue); place, count, left),
            Fact::Leased { queue, id, token, lease_end, bound, on_time } => {
                self.job(queue, id).put("token", FieldValue::digits(token.0));
                put!(self; lease_end, bound).put("prompt", on_time)
            }
            Fact::Popped { queue, id, window_end, on_time } => {
                self.job(queue, id).put("window_end", FieldValue::at_or_none(window_end));
                self.put("prompt", on_time)
            }
            Fact::Unpopped { queue, image } => self.popped(queue, image),
            Fact::Acked { queue, id, window_end } | Fact::Expired { queue, id, window_end } => {
                self.job(queue, id).put("window_end", FieldValue::at_or_none(window_end))
            }
            Fact::Nacked { queue, id, counted, priority, error, to } => {
                put!(self.job(queue, id); counted, priority, error).destination(to)
            }
            Fact::Extended { queue, id, lease_end } => put!(self.job(queue, id); lease_end),
            Fact::LeaseOver { queue, id, lost, counted, to } => {
                put!(self.job(queue, id); lost, counted).destination(to)
            }
            Fact::Rescheduled { queue, id, absolute, ready, left, due } => {
                put!(self.job(queue, id); absolute, ready, left, due)
            }
            Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due } => {
                put!(self.job(queue, id); absolute, ready, left, keep_attempts, due)
            }
            Fact::Purged { queue, purge, count } => {
                let states = JobState::ALL.into_iter().zip(purge.states);
                let words = states.filter(|(_, purged)| *purged).map(|(state, _)| state.word());
                self.queue(queue).text("states", words.collect::<Vec<_>>().join(" "));
                self.put("windows", purge.windows).put("count", count)
            }
            Fact::Renamed { queue, name, over } => put!(self.queue(queue).put("to", name); over),
            Fact::Unleased { queue, id }
            | Fact::SuccessorRemoved { queue, id }
            | Fact::Deleted { queue, id }
            | Fact::Dropped { queue, id }
            | Fact::WindowOver { queue, id } => self.job(queue, id),
            Fact::Configured { queue, ref settings } => self.queue(queue).settings(settings),
            Fact::GroupSet { queue, group, settings } => {
                self.queue(queue).group_settings(group, settings)
            }
            Fact::GroupPaced { queue, group, gave } => self.queue(queue).group_pace(group, gave),
            Fact::Paused { queue, pauses } => self.queue(queue).pauses(pauses),
            Fact::At { .. } | Fact::StallOver => self,
            Fact::Led { term, node, stall_from, stall_to, level } => {
                let stall = Some(Stall { from: stall_from, to: stall_to });
                self.leading(Leading { term, node, level, stall })
            }
            Fact::Scheduled { .. }
            | Fact::Unscheduled { .. }
            | Fact::Occurred { .. }
            | Fact::Passed { .. }
            | Fact::GaveWay { .. }
            | Fact::SchedulePaused { .. }
            | Fact::ScheduleMoved { .. }
            | Fact::Ran { .. } => self.scheduling(fact),
        };
    }

    pub fn image(&mut self, image: &Image<'a>) {
        match *image {
            Image::Begin { number } => {
                self.text("image", "begin").put("number", FieldValue::digits(number))
            }
            Image::Leading(leading) => self.text("image", "leading").leading(leading),
            Image::Policy { number, ref policy } => {
                self.text("image", "policy").policy(number, policy)
            }
            Image::Queue(ref image) => self.text("image", "queue").queue_image(image),
            Image::QueueMore(ref more) => {
                self.text("image", "queue_more").queue(more.number).settings(&more.settings);
                self.pauses(more.pauses).put("first_place", more.first_place)
            }
            Image::Group { queue, name, settings } => {
                self.text("image", "group").queue(queue).group_settings(name, settings)
            }
            Image::GroupPaced { queue, name, gave } => {
                self.text("image", "group_paced").queue(queue).group_pace(name, gave)
            }
            Image::Error {
                queue,
                error: ErrorCount { text, count, dead, first, last, sample },
            } => {
                put!(self.text("image", "error").queue(queue); text, count, dead, first, last, sample)
            }
            Image::Minutes { queue, since, ref minutes } => {
                self.text("image", "minutes");
                let line = match queue {
                    Some(queue) => self.queue(queue),
                    None => self,
                };
                let since = Millis(u64::from(since) * MINUTE_MS);
                put!(line; since).put("minutes", minutes_value(minutes))
            }
            Image::Job(ref image) => self.text("image", "job").job_image(image),
            Image::Window { queue, id, policy, end } => {
                put!(self.text("image", "window").job(queue, id); policy).put("window_end", end)
            }
            Image::Schedule { queue, ref schedule } => {
                self.text("image", "schedule").schedule_image(queue, schedule)
            }
            Image::ScheduleTotals { queue, made, missed } => {
                put!(self.text("image", "schedule_totals").queue(queue); made, missed)
            }
            Image::Schedules { count } => put!(self.text("image", "schedules"); count),
            Image::End(ImageCounts { policies, queues, jobs, .. }) => {
                put!(self.text("image", "end"); policies, queues, jobs)
            }
        };
    }

    fn leading(&mut self, leading: Leading) -> &mut Self {
        let Leading { term, node, level, stall } = leading;
        put!(self; term).put("node", FieldValue::node(node));
        let (stall_from, stall_to) = (stall.map(|stall| stall.from), stall.map(|stall| stall.to));
        put!(self; level, stall_from, stall_to)
    }

    pub(super) fn text(&mut self, name: &'static str, text: impl Into<Cow<'a, str>>) -> &mut Self {
        self.put(name, FieldValue::Text(text.into()))
    }

    pub(super) fn queue(&mut self, queue: QueueNo) -> &mut Self {
        let (db, name) = self.names.get(queue).unzip();
        put!(self; queue, name, db)
    }

    pub(super) fn job(&mut self, queue: QueueNo, id: &'a [u8]) -> &mut Self {
        put!(self.queue(queue); id)
    }

    fn policy(&mut self, number: PolicyNo, policy: &Policy) -> &mut Self {
        let &Policy { attempts, ref backoff, lease_ms, ttl_ms, unique_ms } = policy;
        put!(self.put("policy", number); attempts).text("backoff", backoff.to_string());
        put!(self; lease_ms, ttl_ms, unique_ms)
    }

    /// The settings, under the names that users set them by.
    pub(super) fn settings(&mut self, settings: &QueueSettings) -> &mut Self {
        let set = Setting::ALL.into_iter().filter_map(|setting| {
            let value = setting.written(settings)?;
            Some((setting.word(), FieldValue::Text(value.into())))
        });
        let set = set.collect();
        self.put("settings", FieldValue::Fields(set))
    }

    fn group_settings(&mut self, name: &[u8], settings: GroupSettings) -> &mut Self {
        self.put("group", FieldValue::Owned(name.into()));
        self.settings(&settings.into());
        self.put("paused", settings.pause)
    }

    fn group_pace(&mut self, name: &[u8], gave: u64) -> &mut Self {
        self.put("group", FieldValue::Owned(name.into())).put("gave_ns", FieldValue::digits(gave))
    }

    fn pauses(&mut self, pauses: Pauses) -> &mut Self {
        self.put("in", pauses.into).put("out", pauses.out)
    }

    fn destination(&mut self, to: Destination) -> &mut Self {
        match to {
            Destination::Ready => self.text("to", JobState::Ready.word()),
            Destination::Delayed { due } => put!(self.text("to", JobState::Delayed.word()); due),
            Destination::Dead { reason, kept_until } => {
                let line = self.text("to", JobState::Dead.word()).text("reason", reason.word());
                put!(line; kept_until)
            }
        }
    }

    fn popped(&mut self, queue: QueueNo, image: Popped<'a>) -> &mut Self {
        let Popped { id, body, policy, priority, added, due, place, history, error, .. } = image;
        let counts = ["attempt", "deliveries", "nacks", "timeouts", "lost", "unanswered"];
        let history = history.map(|history| {
            let counted = counts.into_iter().zip(history);
            FieldValue::Fields(counted.map(|(name, count)| (name, count.into())).collect())
        });
        put!(self.job(queue, id); policy, priority, added, due, place, history, error, body);
        self.beside(image.group, image.meta)
    }

    /// Puts group and META, if there are any.
    pub(super) fn beside(&mut self, group: Option<&[u8]>, meta: Meta<'_>) -> &mut Self {
        if let Some(name) = group {
            self.put("group", FieldValue::Owned(name.into()));
        }
        if meta.is_none() { self } else { self.put("meta", meta_value(meta)) }
    }

    fn queue_image(&mut self, image: &QueueImage<'a>) -> &mut Self {
        let &QueueImage { number, sequence, last_place, used, generated_form, .. } = image;
        let counted = TOTALS.into_iter().zip(totals(&image.totals));
        let totals =
            FieldValue::Fields(counted.map(|(name, count)| (name, count.into())).collect());
        put!(self.queue(number); totals, sequence, last_place, used);
        let lateness = image.lateness.as_ref().map(|lateness| {
            let buckets = FieldValue::Pairs(lateness.filled().collect());
            FieldValue::Fields(vec![("buckets", buckets), ("max", lateness.max().into())])
        });
        put!(self.put("lookalikes", generated_form); lateness)
    }

    fn job_image(&mut self, image: &JobImage<'a>) -> &mut Self {
        let &JobImage { queue, id, policy, priority, added, timer, order, body, .. } = image;
        let state = image.stage.state().expect("the image of a job has a job's stage");
        self.job(queue, id).text("state", state.word());
        let due = image.history.as_ref().map_or(timer, |history| history.due);
        put!(self; policy, priority, added, due);
        match state {
            JobState::Delayed | JobState::Ready => &mut *self,
            JobState::Leased => self.put("lease_end", timer),
            JobState::Dead => self.put("kept_until", timer),
        };
        let history = image.history.as_ref().map(|history| {
            let mut fields: Vec<(&'static str, FieldValue<'a>)> = vec![
                ("attempt", history.attempt.into()),
                ("deliveries", history.deliveries.into()),
                ("nacks", history.nacks.into()),
                ("timeouts", history.timeouts.into()),
                ("lost", history.lost.into()),
                ("unanswered", history.unanswered.into()),
                ("token", FieldValue::digits(history.token)),
                ("armed", history.armed.into()),
                ("bound", history.bound.into()),
            ];
            if let Some((reason, died)) = history.death() {
                fields.push(("reason", FieldValue::Text(reason.word().into())));
                fields.push(("died", died.into()));
            }
            fields.push(("error", history.error().map(Box::<[u8]>::from).into()));
            let errors = history.errors.as_ref();
            if let Some(errors) = errors.filter(|errors| errors.newest().given.is_some()) {
                let all = errors.all().map(|error| error_fields(&error)).collect();
                fields.push(("errors", FieldValue::List(all)));
            }
            if let Some(successor) = &history.successor {
                fields.push(("latest", successor_fields(successor)));
            }
            FieldValue::Fields(fields)
        });
        put!(self; order, history, body).beside(image.group, image.meta)
    }
}

/// One of the last errors of a job.
fn error_fields<'a>(of: &LastError<'_>) -> FieldValue<'a> {
    FieldValue::Fields(vec![
        ("error", FieldValue::Owned(of.text.into())),
        ("at", of.given.map(|(at, _)| at).into()),
        ("attempt", of.given.map(|(_, attempt)| attempt).into()),
    ])
}

/// What follows a leased job.
fn successor_fields<'a>(of: &Successor) -> FieldValue<'a> {
    let Successor { policy, priority, added, due, group, meta, body } = of;
    let mut fields: Vec<(&'static str, FieldValue<'a>)> = vec![
        ("policy", (*policy).into()),
        ("priority", (*priority).into()),
        ("added", (*added).into()),
        ("due", (*due).into()),
        ("body", FieldValue::Owned(body.clone())),
    ];
    if let Some(name) = group {
        fields.push(("group", FieldValue::Owned(name.clone())));
    }
    if !meta.get().is_none() {
        fields.push(("meta", meta_value(meta.get())));
    }
    FieldValue::Fields(fields)
}

fn minutes_value<'a>(minutes: &[Minute]) -> FieldValue<'a> {
    let line = |minute: &Minute| {
        let &Minute { at, added, delivered, acked, failed, died, jobs, lateness_us } = minute;
        let ([delayed, ready, leased, dead], [p50, p99]) = (jobs, lateness_us);
        let fields: [(&'static str, u64); 11] = [
            ("added", added.into()),
            ("delivered", delivered.into()),
            ("acked", acked.into()),
            ("failed", failed.into()),
            ("died", died.into()),
            ("delayed", delayed.into()),
            ("ready", ready.into()),
            ("leased", leased.into()),
            ("dead", dead.into()),
            ("lateness_p50_us", p50.into()),
            ("lateness_p99_us", p99.into()),
        ];
        let at = FieldValue::At(Millis(u64::from(at) * MINUTE_MS));
        let counts = fields.into_iter().map(|(name, count)| (name, count.into()));
        FieldValue::Fields([("at", at)].into_iter().chain(counts).collect())
    };
    FieldValue::List(minutes.iter().map(line).collect())
}

/// Names and values by turns.
fn meta_value<'a>(meta: Meta<'_>) -> FieldValue<'a> {
    let words = meta.pairs().flat_map(|(name, value)| [name, value]);
    FieldValue::List(words.map(|word| FieldValue::Owned(word.into())).collect())
}

pub fn job_of<'f>(fact: &Fact<'f>, names: &DumpNames) -> Option<(QueueNo, Cow<'f, [u8]>)> {
    if let Some((queue, id)) = super::scheduling::occurrence_of(fact, names) {
        return Some((queue, id.into()));
    }
    match *fact {
        Fact::Added { queue, id: FactId::Made(made), .. } => {
            Some((queue, token::written(made).to_vec().into()))
        }
        _ => fact.subject().map(|(queue, id)| (queue, id.into())),
    }
}
