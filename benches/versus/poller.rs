//! Which connections have something to read: an epoll, so that a look costs what is ready and not what
//! there is.

use crate::wire::Wire;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::os::fd::OwnedFd;

pub struct Poller {
    epoll: OwnedFd,
    /// Whether a connection also waits for room to write.
    blocked: Vec<bool>,
    events: Vec<Event>,
}

impl Poller {
    pub fn new(wires: &[Wire]) -> Poller {
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll");
        for (at, wire) in wires.iter().enumerate() {
            let data = EventData::new_u64(at as u64);
            epoll::add(&epoll, &wire.stream, data, EventFlags::IN).expect("a socket");
        }
        Poller { epoll, blocked: vec![false; wires.len()], events: Vec::with_capacity(64) }
    }

    /// Waits until some have something to read, or room for what they have to send; at most so many ms.
    pub fn ready(&mut self, wires: &[Wire], ms: Option<u64>) -> Vec<usize> {
        for (at, wire) in wires.iter().enumerate() {
            if wire.is_blocked() != self.blocked[at] {
                self.blocked[at] = wire.is_blocked();
                let also = if self.blocked[at] { EventFlags::OUT } else { EventFlags::empty() };
                let data = EventData::new_u64(at as u64);
                epoll::modify(&self.epoll, &wire.stream, data, EventFlags::IN | also)
                    .expect("it was added");
            }
        }
        let limit = ms.map(|ms| Timespec {
            tv_sec: (ms / 1_000) as i64,
            tv_nsec: (ms % 1_000 * 1_000_000) as i64,
        });
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        epoll::wait(&self.epoll, room, limit.as_ref()).expect("epoll_wait");
        self.events.iter().map(|event| event.data.u64() as usize).collect()
    }
}
