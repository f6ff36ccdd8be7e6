//! Waiting clients: one line per queue for all kinds of taking, first come first served.
//!
//! Volatile: nothing of it is in a fact. Deadlines stand in a wheel of their own, since what is not
//! in the journal must not share a wheel with what is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;
use smallvec::SmallVec;

use crate::engine::model::reply::Reply;
use crate::engine::model::request::{Shape, Side};
use crate::engine::store::jobs::index::SlabIndex;
use crate::ids::{ClientId, Db};
use crate::time::Millis;
use crate::wheel::{Peek, Timers, Wheel};

/// How a client takes jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taking {
    /// `DELAY.POP`: one, at most once.
    Pop,
    /// `DELAY.RESERVE`.
    Reserve {
        count: u32,
        /// Its leases; none for at most once.
        terms: Option<LeaseTerms>,
        /// The reply shows the META of each job.
        meta: bool,
    },
    /// `LPOP` and similar: of one queue, at most once.
    List { side: Side, count: u32, shape: Shape },
    /// `LMOVE` and similar: one.
    Move { side: Side, to: Arc<Target> },
}

/// A client's terms for its leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// How long they are, ms, if it says so.
    pub lease_ms: Option<u64>,
    /// They end with the connection.
    pub bound: bool,
}

/// Where a moved job goes.
#[derive(PartialEq, Eq, Debug)]
pub struct Target {
    /// The queue, in the database of the one it is taken from.
    pub name: Box<[u8]>,
    /// The side of its priority at which it enters.
    pub side: Side,
}

impl Taking {
    /// Most jobs at once.
    pub fn count(&self) -> usize {
        match *self {
            Taking::Pop | Taking::Move { .. } => 1,
            Taking::Reserve { count, .. } | Taking::List { count, .. } => count as usize,
        }
    }

    /// The side it takes from; none for the one at which the queue's jobs leave.
    pub fn side(&self) -> Option<Side> {
        match *self {
            Taking::Pop | Taking::Reserve { .. } => None,
            Taking::List { side, .. } | Taking::Move { side, .. } => Some(side),
        }
    }

    /// Whether the reply has the META of its jobs.
    pub fn shows_meta(&self) -> bool {
        matches!(self, Taking::Reserve { meta: true, .. })
    }

    /// The reply if there is no job, and no waiting.
    pub fn nothing(&self) -> Reply<'static> {
        match self {
            Taking::List { shape: Shape::Value, .. } | Taking::Move { .. } => Reply::Nil,
            _ => Reply::NilArray,
        }
    }

    /// Bytes held for it, in addition to itself.
    fn bytes(&self) -> usize {
        match self {
            Taking::Move { to, .. } => to.name.len(),
            _ => 0,
        }
    }
}

#[derive(Debug)]
struct Waiter {
    client: ClientId,
    taking: Taking,
    /// Its number in every line: lines are ordered by it.
    ticket: u64,
    lines: SmallVec<[u32; 2]>,
    /// Bytes held for its places in them.
    bytes: usize,
}

/// Bytes counted for a place in a line, in addition to the queue's name: a line of one is the usual
/// case.
const PLACE_BYTES: usize = 320;

/// The waiters for one queue name, whether the queue exists or not.
#[derive(Debug)]
struct WaiterLine {
    name: (Db, Box<[u8]>),
    waiters: BTreeMap<u64, u32>,
}

#[derive(Debug)]
pub struct Waiters {
    slots: Vec<Option<Waiter>>,
    free_slots: Vec<u32>,
    by_client: HashMap<ClientId, u32, RandomState>,
    lines: Vec<Option<WaiterLine>>,
    free_lines: Vec<u32>,
    /// Lines by the hash of database and name. A million names may be waited for, and one large map
    /// would stop the loop for 100 ms to grow.
    by_name: SlabIndex,
    hasher: RandomState,
    next_ticket: u64,
    timers: Timers,
    deadlines: Wheel,
}

impl Waiters {
    pub fn new(hasher: RandomState) -> Waiters {
        Waiters {
            slots: Vec::new(),
            free_slots: Vec::new(),
            by_client: HashMap::with_hasher(hasher.clone()),
            hasher,
            lines: Vec::new(),
            free_lines: Vec::new(),
            by_name: SlabIndex::default(),
            next_ticket: 0,
            timers: Timers::default(),
            deadlines: Wheel::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// All waiting clients, in no particular order.
    pub fn clients(&self) -> Vec<ClientId> {
        self.by_client.keys().copied().collect()
    }

    pub fn line_total(&self) -> usize {
        self.lines.len() - self.free_lines.len()
    }

    pub fn deadline_total(&self) -> usize {
        self.deadlines.len()
    }

    pub fn count(&self, db: Db, name: &[u8]) -> usize {
        self.line(db, name).map_or(0, |line| self.line_at(line).waiters.len())
    }

    /// The number of the line for this queue, if it is not empty.
    pub fn line(&self, db: Db, name: &[u8]) -> Option<u32> {
        if self.by_client.is_empty() {
            return None;
        }
        self.by_name.find(self.hash(db, name), |line| {
            let line = self.line_at(line);
            line.name.0 == db && *line.name.1 == *name
        })
    }

    pub fn line_count(&self, client: ClientId) -> u32 {
        self.by_client.get(&client).map_or(0, |slot| self.waiter(*slot).lines.len() as u32)
    }

    pub fn is_waiting(&self, client: ClientId) -> bool {
        self.by_client.contains_key(&client)
    }

    /// Bytes held for a client's places in lines.
    pub fn bytes(&self, client: ClientId) -> usize {
        self.by_client.get(&client).map_or(0, |slot| self.waiter(*slot).bytes)
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
        let (mut lines, mut bytes) = (SmallVec::new(), taking.bytes());
        for name in queues {
            let line = self.open_line(db, name);
            if self.line_mut(line).waiters.insert(ticket, slot).is_none() {
                lines.push(line);
                bytes += PLACE_BYTES + name.len();
            }
        }
        let waiter = Waiter { client, taking, ticket, lines: lines.clone(), bytes };
        self.slots[slot as usize] = Some(waiter);
        if let Some(deadline) = deadline {
            self.deadlines.insert(&mut self.timers, slot, deadline);
        }
        lines
    }

    pub fn first(&self, line: u32) -> Option<(ClientId, Taking)> {
        let (_, slot) = self.line_at(line).waiters.first_key_value()?;
        let waiter = self.waiter(*slot);
        Some((waiter.client, waiter.taking.clone()))
    }

    /// Takes a client out of all its lines. `emptied` is called for each line that ends, with its
    /// name. False if the client does not wait.
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
                let (db, name) = self.close_line(number).name;
                emptied(db, &name);
            }
        }
        true
    }

    /// A client whose deadline has come, if the budget is enough to find one.
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
        if let Some(line) = self.line(db, name) {
            return line;
        }
        let number = self.free_lines.pop().unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() as u32 - 1
        });
        let line = WaiterLine { name: (db, name.into()), waiters: BTreeMap::new() };
        self.lines[number as usize] = Some(line);
        let (hash, hasher, lines) = (self.hash(db, name), &self.hasher, &self.lines);
        self.by_name.insert(hash, number, |line| name_hash(hasher, lines, line));
        number
    }

    fn close_line(&mut self, number: u32) -> WaiterLine {
        let (hasher, lines) = (&self.hasher, &self.lines);
        let hash = name_hash(hasher, lines, number);
        let removed = self.by_name.remove(hash, number, |line| name_hash(hasher, lines, line));
        assert!(removed, "a line is found by its name");
        self.free_lines.push(number);
        self.lines[number as usize].take().expect("the line exists")
    }

    fn hash(&self, db: Db, name: &[u8]) -> u64 {
        self.hasher.hash_one((db.0, name))
    }

    fn waiter(&self, slot: u32) -> &Waiter {
        self.slots[slot as usize].as_ref().expect("a listed waiter has a slot")
    }

    fn line_at(&self, line: u32) -> &WaiterLine {
        self.lines[line as usize].as_ref().expect("the line exists")
    }

    fn line_mut(&mut self, line: u32) -> &mut WaiterLine {
        self.lines[line as usize].as_mut().expect("the line exists")
    }
}

fn name_hash(hasher: &RandomState, lines: &[Option<WaiterLine>], number: u32) -> u64 {
    let (db, name) = &lines[number as usize].as_ref().expect("a listed line exists").name;
    hasher.hash_one((db.0, &**name))
}
