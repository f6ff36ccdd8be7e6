//! Who waits for jobs: one line per queue for all kinds of taking, first come first served.
//!
//! Volatile: nothing of it is in a fact. Deadlines stand in a wheel of their own, since what is not
//! in the journal must not share a wheel with what is.

use std::collections::{BTreeMap, HashMap};

use ahash::RandomState;
use smallvec::SmallVec;

use crate::ids::{ClientId, Db};
use crate::time::Millis;
use crate::wheel::{Peek, Timers, Wheel};

/// How a client takes jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taking {
    /// `DELAY.POP`'s reply, not `DELAY.RESERVE`'s.
    pub pop: bool,
    /// Most jobs at once.
    pub count: u32,
    /// The lease it asked for, ms.
    pub lease_ms: Option<u64>,
    /// At most once.
    pub no_ack: bool,
    /// Leases end with the connection.
    pub bound: bool,
}

#[derive(Debug)]
struct Waiter {
    client: ClientId,
    taking: Taking,
    /// Its number in every line it stands in: lines are ordered by it.
    ticket: u64,
    lines: SmallVec<[u32; 2]>,
}

/// The waiters for one queue name, whether the queue exists or not.
#[derive(Debug)]
struct Line {
    name: (Db, Box<[u8]>),
    waiters: BTreeMap<u64, u32>,
}

/// All waiters of a partition.
#[derive(Debug)]
pub struct Waiters {
    slots: Vec<Option<Waiter>>,
    free_slots: Vec<u32>,
    by_client: HashMap<ClientId, u32, RandomState>,
    lines: Vec<Option<Line>>,
    free_lines: Vec<u32>,
    by_name: HashMap<(Db, Box<[u8]>), u32, RandomState>,
    next_ticket: u64,
    timers: Timers,
    deadlines: Wheel,
}

impl Waiters {
    /// Nobody waits.
    pub fn new(hasher: RandomState) -> Waiters {
        Waiters {
            slots: Vec::new(),
            free_slots: Vec::new(),
            by_client: HashMap::with_hasher(hasher.clone()),
            lines: Vec::new(),
            free_lines: Vec::new(),
            by_name: HashMap::with_hasher(hasher),
            next_ticket: 0,
            timers: Timers::new(),
            deadlines: Wheel::new(),
        }
    }

    /// How many clients wait.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// How many wait for this queue.
    pub fn count(&self, db: Db, name: &[u8]) -> usize {
        self.line(db, name).map_or(0, |line| self.line_at(line).waiters.len())
    }

    /// The number of the line for this queue, if anybody stands in it.
    pub fn line(&self, db: Db, name: &[u8]) -> Option<u32> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&(db, name.into())).copied()
    }

    /// Puts a client at the end of the lines of `queues`; a name twice is once. Returns the lines.
    pub fn wait(
        &mut self,
        client: ClientId,
        db: Db,
        queues: &[&[u8]],
        taking: Taking,
        deadline: Option<Millis>,
    ) -> SmallVec<[u32; 2]> {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        let earlier = self.by_client.insert(client, slot);
        assert!(earlier.is_none(), "a client that waits asks for nothing else");
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let mut lines = SmallVec::new();
        for name in queues {
            let line = self.open_line(db, name);
            if self.line_mut(line).waiters.insert(ticket, slot).is_none() {
                lines.push(line);
            }
        }
        let waiter = Waiter { client, taking, ticket, lines: lines.clone() };
        self.slots[slot as usize] = Some(waiter);
        if let Some(deadline) = deadline {
            self.deadlines.insert(&mut self.timers, slot, deadline);
        }
        lines
    }

    /// The first client in a line and how it takes.
    pub fn first(&self, line: u32) -> Option<(ClientId, Taking)> {
        let (_, slot) = self.line_at(line).waiters.first_key_value()?;
        let waiter = self.waiter(*slot);
        Some((waiter.client, waiter.taking))
    }

    /// Takes a client out of all its lines. `emptied` is told each line that is no more, with the
    /// name it was for. False if the client does not wait.
    pub fn leave(&mut self, client: ClientId, mut emptied: impl FnMut(Db, &[u8])) -> bool {
        let Some(slot) = self.by_client.remove(&client) else { return false };
        let waiter = self.slots[slot as usize].take().expect("a listed waiter has a slot");
        self.free_slots.push(slot);
        if self.timers.is_armed(slot) {
            self.deadlines.cancel(&mut self.timers, slot);
        }
        for number in waiter.lines {
            let line = self.line_mut(number);
            line.waiters.remove(&waiter.ticket);
            if line.waiters.is_empty() {
                let line = self.lines[number as usize].take().expect("the line exists");
                self.by_name.remove(&line.name);
                self.free_lines.push(number);
                emptied(line.name.0, &line.name.1);
            }
        }
        true
    }

    /// A client whose deadline has come, if the budget allows to know.
    pub fn late(&mut self, now: Millis, budget: &mut u32) -> Result<Option<ClientId>, ()> {
        match self.deadlines.peek(&mut self.timers, now, budget) {
            Peek::Due(slot) => Ok(Some(self.waiter(slot).client)),
            Peek::Empty => Ok(None),
            Peek::More => Err(()),
        }
    }

    /// The next deadline at the latest.
    pub fn next_wakeup(&self) -> Option<Millis> {
        self.deadlines.next_wakeup(&self.timers)
    }

    fn open_line(&mut self, db: Db, name: &[u8]) -> u32 {
        let key = (db, Box::from(name));
        if let Some(line) = self.by_name.get(&key) {
            return *line;
        }
        let number = self.free_lines.pop().unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() as u32 - 1
        });
        self.lines[number as usize] = Some(Line { name: key.clone(), waiters: BTreeMap::new() });
        self.by_name.insert(key, number);
        number
    }

    fn waiter(&self, slot: u32) -> &Waiter {
        self.slots[slot as usize].as_ref().expect("a listed waiter has a slot")
    }

    fn line_at(&self, line: u32) -> &Line {
        self.lines[line as usize].as_ref().expect("the line exists")
    }

    fn line_mut(&mut self, line: u32) -> &mut Line {
        self.lines[line as usize].as_mut().expect("the line exists")
    }
}
