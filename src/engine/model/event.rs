//! Events of jobs, collected for subscribers. Off unless requested; then a turn's events follow
//! from its facts, and name the jobs that fell due, which no fact does.

use crate::words::words;

words! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Event {
        Added = "added",
        /// A job became ready because its time had come.
        Due = "due",
        /// A job was handed to a consumer.
        Delivered = "delivered",
        Acked = "acked",
        /// A job was given back.
        Nacked = "nacked",
        Dead = "dead",
        Expired = "expired",
        /// A job was removed by a client.
        Deleted = "deleted",
        /// A queue was removed; no job is named.
        Removed = "del",
        /// A queue began to be; no job is named.
        Begun = "new",
        /// A queue has this name no more; no job is named.
        RenamedFrom = "rename_from",
        /// A queue has this name from now on; no job is named.
        RenamedTo = "rename_to",
        /// A schedule was created or changed, with its name.
        Scheduled = "scheduled",
        /// A schedule was removed, or has no next instant; with its name.
        Unscheduled = "unscheduled",
        /// Due occurrences were not made, with the id of the newest.
        Missed = "missed",
    }
}

/// Events in order, packed: a million of them are published in slices, but a slice can be large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// For each: the event, the database, the lengths of queue and id, queue, id.
    bytes: Vec<u8>,
    /// Where the next one to be taken begins.
    at: usize,
}

/// One event, as it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Happened<'a> {
    pub event: Event,
    pub db: crate::ids::Db,
    pub queue: &'a [u8],
    /// The job; empty if the event is about the queue.
    pub id: &'a [u8],
}

const HEAD_BYTES: usize = 1 + 1 + 2 + 2;

impl Events {
    /// Appends one. Names have at most 512 bytes.
    pub fn push(&mut self, happened: Happened<'_>) {
        let Happened { event, db, queue, id } = happened;
        self.bytes.reserve(HEAD_BYTES + queue.len() + id.len());
        self.bytes.extend_from_slice(&[event as u8, db.0]);
        self.bytes.extend_from_slice(&(queue.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(id.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(queue);
        self.bytes.extend_from_slice(id);
    }

    pub fn take(&mut self) -> Option<Happened<'_>> {
        let (head, rest) = self.bytes.get(self.at..)?.split_first_chunk::<HEAD_BYTES>()?;
        let [event, db, queue_low, queue_high, id_low, id_high] = *head;
        let queue_len = usize::from(u16::from_le_bytes([queue_low, queue_high]));
        let id_len = usize::from(u16::from_le_bytes([id_low, id_high]));
        self.at += HEAD_BYTES + queue_len + id_len;
        let (queue, rest) = rest.split_at(queue_len);
        let event = Event::ALL[usize::from(event)];
        Some(Happened { event, db: crate::ids::Db(db), queue, id: &rest[..id_len] })
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Bytes held for those that are left.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() - self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Db;

    #[test]
    fn events_come_out_as_they_went_in() {
        let mut events = Events::default();
        assert_eq!(events.take(), None);
        assert!(events.is_empty());
        let long = vec![b'i'; crate::limits::NAME_BYTES_MAX];
        for (at, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, at);
            events.push(Happened { event, db: Db(at as u8), queue: b"q", id: &long[..at * 32] });
        }
        for (at, event) in Event::ALL.into_iter().enumerate() {
            let id = &long[..at * 32];
            assert_eq!(events.take(), Some(Happened { event, db: Db(at as u8), queue: b"q", id }));
        }
        assert_eq!(events.take(), None);
        assert_eq!(events.len_bytes(), 0);
    }
}
