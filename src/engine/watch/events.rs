//! From facts to events, while somebody wants to hear of them.

use crate::engine::Engine;
use crate::engine::model::event::{Event, Events, Told};
use crate::engine::model::fact::{Destination, Fact, FactId};
use crate::engine::model::token;
use crate::engine::store::Located;
use crate::engine::store::jobs::{JobIndex, Stage};
use crate::ids::QueueNo;

impl Engine {
    /// From here on events are collected, or not. What was collected before and not taken is lost.
    pub fn collect_events(&mut self, on: bool) {
        if on != self.events.is_some() {
            self.events = on.then(Box::default);
        }
    }

    /// The events since this was last asked; none if there are none.
    pub fn take_events(&mut self) -> Option<Events> {
        let events = self.events.as_deref_mut().filter(|events| !events.is_empty())?;
        Some(std::mem::take(events))
    }

    /// Notes what a fact that is about to be applied tells.
    pub(in crate::engine) fn tell(&mut self, fact: &Fact<'_>, at: Located) {
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
                self.tell_of(Event::Added, queue, id);
                if ready {
                    self.tell_of(Event::Due, queue, id);
                }
            }
            Fact::Leased { queue, id, .. } | Fact::Popped { queue, id, .. } => {
                self.tell_of(Event::Delivered, queue, id);
            }
            Fact::Acked { queue, id, .. } => self.tell_of(Event::Acked, queue, id),
            Fact::Nacked { queue, id, to, .. } => {
                self.tell_of(Event::Nacked, queue, id);
                self.tell_of_death(queue, id, to);
            }
            Fact::LeaseOver { queue, id, to, .. } => self.tell_of_death(queue, id, to),
            Fact::Expired { queue, id, .. } => self.tell_of(Event::Expired, queue, id),
            Fact::Rescheduled { queue, id, ready: true, .. }
            | Fact::Redriven { queue, id, ready: true, .. } => {
                self.tell_of(Event::Due, queue, id);
            }
            // An id that is still taken is no job.
            Fact::Deleted { queue, id } if self.is_job(at) => {
                self.tell_of(Event::Deleted, queue, id);
            }
            // At once, whatever their number: the ids are not looked at.
            Fact::Purged { queue, count, .. } if count > 0 => {
                self.tell_of(Event::Deleted, queue, b"");
            }
            Fact::QueueRemoved { queue } if self.store.queue(queue).exists() => {
                self.tell_of(Event::Removed, queue, b"");
            }
            Fact::Renamed { queue, name, .. } => {
                self.tell_of(Event::RenamedFrom, queue, b"");
                let db = self.store.queue(queue).db;
                self.push_event(Told { event: Event::RenamedTo, db, queue: name, id: b"" });
            }
            Fact::QueueBound { db, name, .. } => {
                let told = Told { event: Event::Begun, db, queue: name, id: b"" };
                self.push_event(told);
            }
            _ => {}
        }
    }

    /// Notes that a job fell due.
    pub(in crate::engine) fn tell_due(&mut self, queue: QueueNo, index: JobIndex) {
        let Engine { store, events: Some(events), .. } = self else { return };
        let (queue, id) = (store.queue(queue), store.jobs.id(index));
        events.push(Told { event: Event::Due, db: queue.db, queue: &queue.name, id });
    }

    fn tell_of_death(&mut self, queue: QueueNo, id: &[u8], to: Destination) {
        if let Destination::Dead { .. } = to {
            self.tell_of(Event::Dead, queue, id);
        }
    }

    fn tell_of(&mut self, event: Event, queue: QueueNo, id: &[u8]) {
        let Engine { store, events: Some(events), .. } = self else { return };
        let queue = store.queue(queue);
        events.push(Told { event, db: queue.db, queue: &queue.name, id });
    }

    fn push_event(&mut self, told: Told<'_>) {
        if let Some(events) = &mut self.events {
            events.push(told);
        }
    }

    fn is_job(&self, at: Located) -> bool {
        at.index.is_some_and(|index| self.store.jobs.get(index).stage != Stage::Window)
    }
}
