//! From facts to events, while there are subscribers.

use crate::engine::model::event::{Event, Events, Happened};
use crate::engine::model::fact::{Destination, Fact, FactId};
use crate::engine::model::token;
use crate::engine::store::jobs::{JobIndex, JobStage};
use crate::engine::store::{Located, Store};
use crate::ids::QueueNo;

/// Notes the events of a fact that is about to be applied.
pub fn push(events: &mut Events, store: &Store, fact: &Fact<'_>, at: Located) {
    let mut push_of = |event, queue, id: &[u8]| {
        let queue = store.queue(queue);
        events.push(Happened { event, db: queue.db, queue: &queue.name, id });
    };
    match *fact {
        Fact::Added { queue, id, ready, .. } => {
            let written;
            let id = match id {
                FactId::Given(id) => id,
                FactId::Made(number) => {
                    written = token::written(number);
                    &written[..]
                }
            };
            // The job that it replaces in place.
            if at.index.is_some() {
                push_of(Event::Deleted, queue, id);
            }
            push_of(Event::Added, queue, id);
            if ready {
                push_of(Event::Due, queue, id);
            }
        }
        Fact::Leased { queue, id, .. } | Fact::Popped { queue, id, .. } => {
            push_of(Event::Delivered, queue, id);
        }
        Fact::Acked { queue, id, .. } => push_of(Event::Acked, queue, id),
        Fact::Succeeded { queue, id, acked, ready, .. } => {
            push_of(if acked { Event::Acked } else { Event::Deleted }, queue, id);
            push_of(Event::Added, queue, id);
            if ready {
                push_of(Event::Due, queue, id);
            }
        }
        Fact::Nacked { queue, id, to, .. } => {
            push_of(Event::Nacked, queue, id);
            if let Destination::Dead { .. } = to {
                push_of(Event::Dead, queue, id);
            }
        }
        Fact::LeaseOver { queue, id, to: Destination::Dead { .. }, .. } => {
            push_of(Event::Dead, queue, id);
        }
        Fact::Expired { queue, id, .. } => push_of(Event::Expired, queue, id),
        Fact::Rescheduled { queue, id, ready: true, .. }
        | Fact::Redriven { queue, id, ready: true, .. } => push_of(Event::Due, queue, id),
        // An id that is still taken is no job.
        Fact::Deleted { queue, id } if is_job(store, at) => push_of(Event::Deleted, queue, id),
        // At once, whatever their number: the ids are not looked at.
        Fact::Purged { queue, count, .. } if count > 0 => push_of(Event::Deleted, queue, b""),
        Fact::QueueRemoved { queue } if store.queue(queue).exists() => {
            push_of(Event::Removed, queue, b"");
        }
        Fact::Renamed { queue, name, .. } => {
            push_of(Event::RenamedFrom, queue, b"");
            let db = store.queue(queue).db;
            events.push(Happened { event: Event::RenamedTo, db, queue: name, id: b"" });
        }
        Fact::QueueBound { db, name, .. } => {
            events.push(Happened { event: Event::Begun, db, queue: name, id: b"" });
        }
        Fact::Scheduled { queue, name, .. } => push_of(Event::Scheduled, queue, name),
        _ => push_scheduling(events, store, fact),
    }
}

/// The same of a fact about a schedule that is there.
fn push_scheduling(events: &mut Events, store: &Store, fact: &Fact<'_>) {
    let Some((number, schedule)) = fact.schedule() else { return };
    let (queue, schedule) = (store.queue(number), store.schedule(number, schedule));
    let mut push_of = |event, id: &[u8]| {
        events.push(Happened { event, db: queue.db, queue: &queue.name, id });
    };
    let mut is_done = false;
    match *fact {
        Fact::Unscheduled { .. } => push_of(Event::Unscheduled, &schedule.name),
        Fact::Occurred { nominal, next, .. } => {
            push_of(Event::Added, &schedule.id_at(nominal));
            push_of(Event::Due, &schedule.id_at(nominal));
            is_done = next.is_none();
        }
        Fact::Ran { at, .. } => {
            push_of(Event::Added, &schedule.id_at(at));
            push_of(Event::Due, &schedule.id_at(at));
        }
        Fact::GaveWay { at, .. } => push_of(Event::Deleted, &schedule.id_at(at)),
        Fact::Passed { nominal, missed, next, .. } => {
            if missed > 0 {
                push_of(Event::Missed, &schedule.id_at(nominal));
            }
            is_done = next.is_none();
        }
        _ => {}
    }
    if is_done {
        push_of(Event::Unscheduled, &schedule.name);
    }
}

pub fn push_due(events: &mut Events, store: &Store, queue: QueueNo, index: JobIndex) {
    let (queue, id) = (store.queue(queue), store.jobs().id(index));
    events.push(Happened { event: Event::Due, db: queue.db, queue: &queue.name, id });
}

fn is_job(store: &Store, at: Located) -> bool {
    at.index.is_some_and(|index| store.jobs().get(index).stage != JobStage::Window)
}
