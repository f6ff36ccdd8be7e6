//! The core: jobs, queues, leases, retries, dead letters, waiters. A plain data structure without
//! clock, socket, file, thread or chance; see [`Engine`].

pub mod policy;
pub mod reply;
pub mod request;
pub mod stats;

use crate::ids::ClientId;
use crate::time::{Micros, Millis};
use reply::{Outbox, Reply};
use request::Request;

/// What the engine is told from outside. Consulted when deciding, never when applying.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of the id hash. An input, so that the engine's answers depend on its inputs alone.
    pub hash_seed: u64,
    /// The first token and server-made id are above this.
    pub token_floor: u64,
    /// `max-delay`, ms.
    pub delay_ms_max: u64,
    /// `default-lease`, ms.
    pub lease_ms_default: u64,
    /// `max-lease`, ms.
    pub lease_ms_max: u64,
    /// `maxmemory`, bytes; 0 for no limit.
    pub memory_bytes_max: u64,
    /// `stats-retention`, ms.
    pub stats_retention_ms: u64,
}

/// The facts of a turn, encoded, in order.
#[derive(Default, Debug)]
pub struct Facts {
    /// The encoded facts.
    pub bytes: Vec<u8>,
    /// How many.
    pub count: u64,
}

/// Where one turn's results go.
pub struct Turn<'t> {
    /// What was decided, for the journal.
    pub facts: &'t mut Facts,
    /// Replies, to the asking client and to waiters.
    pub outbox: &'t mut dyn Outbox,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A reply was sent.
    Replied,
    /// The client is in line; the reply comes in a later step. It has no other request meanwhile.
    Waiting,
    /// A slice of the work is done; ask the same again in the next turn. Nothing changed that
    /// anybody can see.
    Again,
}

/// What passing time left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advanced {
    /// When `advance` must be called next, at the latest; never too late.
    pub next_wakeup: Option<Millis>,
    /// The budget was used up: call again in the next turn.
    pub more: bool,
}

/// One partition: queues, their jobs, and who waits for them.
pub struct Engine {}

impl Engine {
    /// An empty engine.
    pub fn new(_settings: Settings) -> Engine {
        unimplemented!()
    }
    /// The settings, to be changed between turns.
    pub fn settings_mut(&mut self) -> &mut Settings {
        unimplemented!()
    }
    /// Decides and applies one request, then hands ready jobs to waiters.
    pub fn handle(
        &mut self,
        _now: Micros,
        _client: ClientId,
        _request: &Request<'_>,
        _turn: &mut Turn<'_>,
    ) -> Outcome {
        unimplemented!()
    }
    /// One request of a transaction: never waits and hands nothing to waiters; call [`Engine::hand_off`]
    /// after the last. Never `Waiting`; `Again` only if [`Engine::prepare`] was not asked before.
    pub fn handle_in_transaction(
        &mut self,
        _now: Micros,
        _client: ClientId,
        _request: &Request<'_>,
        _turn: &mut Turn<'_>,
    ) -> Outcome {
        unimplemented!()
    }
    /// Hands ready jobs to waiters: the end of a transaction.
    pub fn hand_off(&mut self, _now: Micros, _turn: &mut Turn<'_>) {
        unimplemented!()
    }
    /// Does a slice of what a request needs before it can be answered in one go; false: call again
    /// in the next turn.
    pub fn prepare(&mut self, _request: &Request<'_>) -> bool {
        unimplemented!()
    }
    /// Lets time pass, in at most `budget` steps.
    pub fn advance(&mut self, _now: Micros, _budget: u32, _turn: &mut Turn<'_>) -> Advanced {
        unimplemented!()
    }
    /// When `advance` must be called next.
    pub fn next_wakeup(&self) -> Option<Millis> {
        unimplemented!()
    }
    /// The first byte of what was handed to `client` reached the kernel: the hand-off stands.
    pub fn sent(&mut self, _client: ClientId) {
        unimplemented!()
    }
    /// What was handed to `client` in this turn never left: back to its old place, uncounted.
    /// To be followed by [`Engine::closed`].
    pub fn unsent(&mut self, _now: Micros, _client: ClientId, _turn: &mut Turn<'_>) {
        unimplemented!()
    }
    /// The connection is gone: it waits for nothing any more and its bound leases end.
    pub fn closed(&mut self, _now: Micros, _client: ClientId, _turn: &mut Turn<'_>) {
        unimplemented!()
    }
    /// Takes `client` out of the line without a reply; false if it does not wait.
    pub fn stop_waiting(&mut self, _client: ClientId) -> bool {
        unimplemented!()
    }
    /// Bytes held for jobs.
    pub fn memory_bytes(&self) -> u64 {
        unimplemented!()
    }
    /// How many queues exist in each database.
    pub fn queue_counts(&self) -> [u64; 16] {
        unimplemented!()
    }
    /// How many clients wait.
    pub fn waiter_count(&self) -> usize {
        unimplemented!()
    }
    /// Jobs by state (delayed, ready, leased, dead), all queues.
    pub fn job_counts(&self) -> [u64; 4] {
        unimplemented!()
    }
    /// A reply to be sent to a waiter that CLIENT UNBLOCK or a deadline released: a nil array.
    pub const TIMED_OUT: Reply<'static> = Reply::NilArray;
}
