//! Which fields a fact or an image has.

use super::Names;
use super::value::Value;
use crate::engine::model::fact::{Destination, Fact, FactId, Image as Popped};
use crate::engine::model::leading::{Leading, Stall};
use crate::engine::model::policy::Policy;
use crate::engine::model::queue_settings::{Pause, Pauses, QueueSettings, Setting};
use crate::engine::model::request::State;
use crate::engine::model::token;
use crate::engine::record::{Image, JobImage, QueueImage, totals};
use crate::ids::{PolicyNo, QueueNo};
use crate::journal::state::Vote;
use crate::time::Millis;
use std::borrow::Cow;
use std::io::{self, Write};

/// The fields of a line, in order.
pub(super) struct Fields<'a> {
    pub(super) names: &'a Names,
    fields: Vec<(&'static str, Value<'a>)>,
}

/// The totals of a queue, in the order of its image.
const TOTALS: [&str; 10] = [
    "added",
    "delivered",
    "acked",
    "nacked",
    "timeouts",
    "lost",
    "expired",
    "deleted",
    "died",
    "dropped",
];

impl<'a> Fields<'a> {
    pub fn new(names: &'a Names) -> Fields<'a> {
        Fields { names, fields: Vec::with_capacity(20) }
    }

    pub fn put(&mut self, name: &'static str, value: Value<'a>) -> &mut Self {
        self.fields.push((name, value));
        self
    }

    /// Writes the line.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &Value::Fields(self.fields))?;
        out.write_all(b"\n")
    }

    /// Puts what a node voted for; nulls if it never did.
    pub fn vote(&mut self, vote: Option<Vote>) -> &mut Self {
        self.put("vote_epoch", vote.map_or(Value::Null, |vote| Value::Count(vote.epoch)));
        self.put("vote_for", vote.map_or(Value::Null, |vote| Value::node(vote.node)))
    }

    /// Puts what a fact tells.
    pub fn fact(&mut self, fact: &Fact<'a>) {
        use Value::{At, Bytes, Count, Flag, Place};
        self.text("fact", word_of(fact));
        match *fact {
            Fact::QueueBound { queue, .. }
            | Fact::QueueRemoved { queue }
            | Fact::QueueForgotten { queue } => self.queue(queue),
            Fact::PolicyBound { number, ref policy } => self.policy(number, policy),
            Fact::PolicyForgotten { number } => self.put("policy", Count(number.0.into())),
            Fact::Flushed { db } => self.put("db", db.map_or(Value::Null, |db| Count(db.0.into()))),
            Fact::Added { queue, id, policy, priority, absolute, ready, left, due, body } => {
                self.queue(queue);
                match id {
                    FactId::Given(id) => self.put("id", Bytes(id)),
                    FactId::Made(made) => {
                        self.text("id", String::from_utf8_lossy(&token::written(made)).into_owned())
                    }
                };
                self.put("made", Flag(matches!(id, FactId::Made(_))));
                self.put("policy", Count(policy.0.into())).put("priority", Count(priority.into()));
                self.put("absolute", Flag(absolute)).put("ready", Flag(ready));
                self.put("left", Flag(left)).put("due", At(due)).put("body", Bytes(body))
            }
            Fact::Due { queue, place, count, left } => {
                self.queue(queue).put("place", Place(place)).put("count", Count(count.into()));
                self.put("left", Flag(left))
            }
            Fact::Leased { queue, id, token, lease_end, bound, on_time } => {
                self.job(queue, id).put("token", Value::digits(token.0));
                self.put("lease_end", At(lease_end));
                self.put("bound", Flag(bound)).put("prompt", Flag(on_time))
            }
            Fact::Popped { queue, id, window_end, on_time } => {
                self.job(queue, id).put("window_end", Value::at_or_none(window_end));
                self.put("prompt", Flag(on_time))
            }
            Fact::Unpopped { queue, image } => self.popped(queue, image),
            Fact::Acked { queue, id, window_end } | Fact::Expired { queue, id, window_end } => {
                self.job(queue, id).put("window_end", Value::at_or_none(window_end))
            }
            Fact::Nacked { queue, id, counted, priority, error, to } => {
                self.job(queue, id).put("counted", Flag(counted));
                self.put("priority", Count(priority.into()));
                self.put("error", Value::bytes_or_none(error)).destination(to)
            }
            Fact::Extended { queue, id, lease_end } => {
                self.job(queue, id).put("lease_end", At(lease_end))
            }
            Fact::LeaseOver { queue, id, lost, counted, to } => {
                self.job(queue, id).put("lost", Flag(lost)).put("counted", Flag(counted));
                self.destination(to)
            }
            Fact::Rescheduled { queue, id, absolute, ready, left, due } => {
                self.job(queue, id).put("absolute", Flag(absolute)).put("ready", Flag(ready));
                self.put("left", Flag(left)).put("due", At(due))
            }
            Fact::Redriven { queue, id, absolute, ready, left, keep_attempts, due } => {
                self.job(queue, id).put("absolute", Flag(absolute)).put("ready", Flag(ready));
                self.put("left", Flag(left)).put("keep_attempts", Flag(keep_attempts));
                self.put("due", At(due))
            }
            Fact::Purged { queue, purge, count } => {
                let states = State::ALL.into_iter().zip(purge.states);
                let words = states.filter(|(_, purged)| *purged).map(|(state, _)| state.word());
                self.queue(queue).text("states", words.collect::<Vec<_>>().join(" "));
                self.put("windows", Flag(purge.windows)).put("count", Count(count))
            }
            Fact::Renamed { queue, name, over } => {
                self.queue(queue).put("to", Bytes(name));
                self.put("over", over.map_or(Value::Null, |over| Count(over.0.into())))
            }
            Fact::Unleased { queue, id }
            | Fact::Deleted { queue, id }
            | Fact::Dropped { queue, id }
            | Fact::WindowOver { queue, id } => self.job(queue, id),
            Fact::Configured { queue, ref settings } => self.queue(queue).settings(settings),
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

    /// Puts what an image tells.
    pub fn image(&mut self, image: &Image<'a>) {
        match image {
            Image::Begin { number } => {
                self.text("image", "begin").put("number", Value::digits(*number))
            }
            Image::Leading(leading) => self.text("image", "leading").leading(*leading),
            Image::Policy { number, policy } => {
                self.text("image", "policy").policy(*number, policy)
            }
            Image::Queue(image) => self.text("image", "queue").queue_image(image),
            Image::QueueMore(more) => {
                self.text("image", "queue_more").queue(more.number).settings(&more.settings);
                self.pauses(more.pauses).put("first_place", Value::Place(more.first_place))
            }
            Image::Job(image) => self.text("image", "job").job_image(image),
            Image::Window { queue, id, policy, end } => {
                self.text("image", "window").job(*queue, id);
                self.put("policy", Value::Count(policy.0.into())).put("window_end", Value::At(*end))
            }
            Image::Schedule { queue, schedule } => {
                self.text("image", "schedule").schedule_image(*queue, schedule)
            }
            Image::ScheduleTotals { queue, made, missed } => {
                self.text("image", "schedule_totals").queue(*queue);
                self.put("made", Value::Count(*made)).put("missed", Value::Count(*missed))
            }
            Image::Schedules { count } => {
                self.text("image", "schedules").put("count", Value::Count(*count))
            }
            Image::End(counts) => {
                self.text("image", "end").put("policies", Value::Count(counts.policies));
                self.put("queues", Value::Count(counts.queues));
                self.put("jobs", Value::Count(counts.jobs))
            }
        };
    }

    fn leading(&mut self, leading: Leading) -> &mut Self {
        let Leading { term, node, level, stall } = leading;
        self.put("term", Value::Count(term)).put("node", Value::node(node));
        self.put("level", Value::Count(level.into()));
        let at = |at: Option<Millis>| at.map_or(Value::Null, Value::At);
        self.put("stall_from", at(stall.map(|stall| stall.from)));
        self.put("stall_to", at(stall.map(|stall| stall.to)))
    }

    pub(super) fn text(&mut self, name: &'static str, text: impl Into<Cow<'a, str>>) -> &mut Self {
        self.put(name, Value::Text(text.into()))
    }

    pub(super) fn queue(&mut self, queue: QueueNo) -> &mut Self {
        self.put("queue", Value::Count(queue.0.into()));
        match self.names.get(queue) {
            Some((db, name)) => {
                self.put("name", Value::Bytes(name)).put("db", Value::Count(db.0.into()))
            }
            None => self.put("name", Value::Null).put("db", Value::Null),
        }
    }

    pub(super) fn job(&mut self, queue: QueueNo, id: &'a [u8]) -> &mut Self {
        self.queue(queue).put("id", Value::Bytes(id))
    }

    fn policy(&mut self, number: PolicyNo, policy: &Policy) -> &mut Self {
        let Policy { attempts, backoff, lease_ms, ttl_ms, unique_ms } = policy;
        self.put("policy", Value::Count(number.0.into()));
        self.put("attempts", Value::Count((*attempts).into())).text("backoff", backoff.to_string());
        self.put("lease_ms", Value::Count(*lease_ms)).put("ttl_ms", Value::Count(*ttl_ms));
        self.put("unique_ms", Value::Count(*unique_ms))
    }

    /// What is set, under the names that users set it by.
    pub(super) fn settings(&mut self, settings: &QueueSettings) -> &mut Self {
        let set = Setting::ALL.into_iter().filter_map(|setting| {
            let value = setting.written(settings)?;
            Some((setting.word(), Value::Text(value.into())))
        });
        let set = set.collect();
        self.put("settings", Value::Fields(set))
    }

    fn pauses(&mut self, pauses: Pauses) -> &mut Self {
        let shown = |pause| match pause {
            Pause::None => Value::Null,
            Pause::Until(end) => Value::At(end),
            Pause::Endless => Value::Text("endless".into()),
        };
        self.put("in", shown(pauses.into)).put("out", shown(pauses.out))
    }

    fn destination(&mut self, to: Destination) -> &mut Self {
        match to {
            Destination::Ready => self.text("to", State::Ready.word()),
            Destination::Delayed { due } => {
                self.text("to", State::Delayed.word()).put("due", Value::At(due))
            }
            Destination::Dead { reason, kept_until } => {
                self.text("to", State::Dead.word()).text("reason", reason.word());
                self.put("kept_until", Value::At(kept_until))
            }
        }
    }

    fn popped(&mut self, queue: QueueNo, image: Popped<'a>) -> &mut Self {
        self.job(queue, image.id).put("policy", Value::Count(image.policy.0.into()));
        self.put("priority", Value::Count(image.priority.into()));
        self.put("added", Value::At(image.added)).put("due", Value::At(image.due));
        self.put("place", Value::Place(image.place));
        let counts = ["attempt", "deliveries", "nacks", "timeouts", "lost", "unanswered"];
        let history = image.history.map_or(Value::Null, |history| {
            let counted = counts.into_iter().zip(history);
            Value::Fields(counted.map(|(name, count)| (name, Value::Count(count.into()))).collect())
        });
        self.put("history", history).put("error", Value::bytes_or_none(image.error));
        self.put("body", Value::Bytes(image.body))
    }

    fn queue_image(&mut self, image: &QueueImage<'a>) -> &mut Self {
        let counted = TOTALS.into_iter().zip(totals(&image.totals));
        let counted = counted.map(|(name, count)| (name, Value::Count(count))).collect();
        self.queue(image.number).put("totals", Value::Fields(counted));
        self.put("sequence", Value::Place(image.sequence));
        self.put("last_place", Value::Place(image.last_place));
        self.put("used", Value::At(image.used))
            .put("lookalikes", Value::Flag(image.generated_form));
        let lateness = image.lateness.as_ref().map_or(Value::Null, |lateness| {
            let buckets = Value::Pairs(lateness.filled().collect());
            Value::Fields(vec![("buckets", buckets), ("max", Value::Count(lateness.max()))])
        });
        self.put("lateness", lateness)
    }

    fn job_image(&mut self, image: &JobImage<'a>) -> &mut Self {
        let state = image.stage.state().expect("the image of a job has a job's stage");
        self.job(image.queue, image.id).text("state", state.word());
        self.put("policy", Value::Count(image.policy.0.into()));
        self.put("priority", Value::Count(image.priority.into()));
        self.put("added", Value::At(image.added));
        let due = image.history.as_ref().map_or(image.timer, |history| history.due);
        self.put("due", Value::At(due));
        match state {
            State::Delayed | State::Ready => {}
            State::Leased => {
                self.put("lease_end", Value::At(image.timer));
            }
            State::Dead => {
                self.put("kept_until", Value::At(image.timer));
            }
        }
        self.put("order", Value::Place(image.order));
        let Some(history) = &image.history else {
            return self.put("history", Value::Null).put("body", Value::Bytes(image.body));
        };
        let count = |name, count: u32| (name, Value::Count(count.into()));
        let mut fields = vec![
            count("attempt", history.attempt),
            count("deliveries", history.deliveries),
            count("nacks", history.nacks),
            count("timeouts", history.timeouts),
            count("lost", history.lost),
            count("unanswered", history.unanswered),
            ("token", Value::digits(history.token)),
            ("armed", Value::Place(history.armed)),
            ("bound", Value::Flag(history.bound)),
        ];
        if let Some((reason, died)) = history.death {
            fields.push(("reason", Value::Text(reason.word().into())));
            fields.push(("died", Value::At(died)));
        }
        let error = history.error.as_ref();
        let error = error.map_or(Value::Null, |error| Value::Owned(error.clone()));
        fields.push(("error", error));
        self.put("history", Value::Fields(fields)).put("body", Value::Bytes(image.body))
    }
}

/// The job that a fact tells of, and its queue.
pub fn job_of<'f>(fact: &Fact<'f>, names: &Names) -> Option<(QueueNo, Cow<'f, [u8]>)> {
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

/// The word for a fact, as a line has it in its field `fact`.
pub fn word_of(fact: &Fact<'_>) -> &'static str {
    match fact {
        Fact::QueueBound { .. } => "queue_bound",
        Fact::QueueRemoved { .. } => "queue_removed",
        Fact::QueueForgotten { .. } => "queue_forgotten",
        Fact::PolicyBound { .. } => "policy_bound",
        Fact::PolicyForgotten { .. } => "policy_forgotten",
        Fact::Flushed { .. } => "flushed",
        Fact::Added { .. } => "added",
        Fact::Due { .. } => "due",
        Fact::Leased { .. } => "leased",
        Fact::Popped { .. } => "popped",
        Fact::Unleased { .. } => "unleased",
        Fact::Unpopped { .. } => "unpopped",
        Fact::Acked { .. } => "acked",
        Fact::Nacked { .. } => "nacked",
        Fact::Extended { .. } => "extended",
        Fact::LeaseOver { .. } => "lease_over",
        Fact::Deleted { .. } => "deleted",
        Fact::Expired { .. } => "expired",
        Fact::Dropped { .. } => "dropped",
        Fact::Rescheduled { .. } => "rescheduled",
        Fact::Redriven { .. } => "redriven",
        Fact::Renamed { .. } => "renamed",
        Fact::Purged { .. } => "purged",
        Fact::WindowOver { .. } => "window_over",
        Fact::Configured { .. } => "configured",
        Fact::Paused { .. } => "paused",
        Fact::At { .. } => "at",
        Fact::Led { .. } => "led",
        Fact::StallOver => "stall_over",
        Fact::Scheduled { .. } => "scheduled",
        Fact::Unscheduled { .. } => "unscheduled",
        Fact::Occurred { .. } => "occurred",
        Fact::Passed { .. } => "passed",
        Fact::GaveWay { .. } => "gave_way",
        Fact::SchedulePaused { .. } => "schedule_paused",
        Fact::ScheduleMoved { .. } => "schedule_moved",
        Fact::Ran { .. } => "ran",
    }
}
