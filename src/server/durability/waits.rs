//! Clients that wait for the journal: WAITAOF for a sync, WAIT and WAITAOF for other nodes, SAVE for a base.

use crate::ids::ClientId;
use crate::observe::persistence::Persistence;
use crate::resp::Encoder;
use crate::server::connection::calls::Ending;
use crate::server::durability::followers::Followers;
use crate::server::outbox::Outputs;
use crate::session::world::UNBLOCKED;
use std::collections::{BTreeMap, BTreeSet};

/// Waiting clients, what they wait for, and until when. Each step costs O(log n).
#[derive(Debug, Default)]
pub struct Waits {
    by_client: BTreeMap<ClientId, DurabilityWait>,
    /// By what they wait for.
    by_end: BTreeSet<(End, ClientId)>,
    /// By when they give up; monotonic, µs.
    by_limit_us: BTreeSet<(u64, ClientId)>,
}

#[derive(Clone, Copy, Debug)]
struct DurabilityWait {
    end: End,
    for_what: For,
    limit_us: Option<u64>,
}

/// The conditions that answer a waiting client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct For {
    pub batch: u64,
    /// The entry of the log that has it, once it is committed.
    pub index: Option<u64>,
    /// How many other nodes are to have it.
    pub replicas: u64,
    /// WAITAOF, which also receives the progress of the journal here.
    pub tells_local: bool,
}

/// How far what a client has changed is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// Durable here.
    pub local: bool,
    /// So many other nodes have it.
    pub replicas: u64,
}

impl Reached {
    pub fn write(self, tells_local: bool, out: &mut Encoder<'_>) {
        if tells_local {
            out.array(2);
            out.integer(self.local.into());
        }
        out.unsigned(self.replicas);
    }
}

/// The ends of waits, those of one kind in the order in which they end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    /// The batch is durable.
    Durable(u64),
    /// The base of this number is over.
    Base(u64),
    /// So many other nodes have this entry.
    Replicas(u64, u64),
}

/// Waits for other nodes, which a standalone server does not have: only the limit ends it.
const NEVER: u64 = u64::MAX;

impl Waits {
    /// The newest batch whose sync a client waits for: under `everysec` and `no` the writer syncs
    /// for it.
    pub fn wanted_batch(&self) -> Option<u64> {
        match self.by_end.range(..(End::Base(0), ClientId(0))).next_back()? {
            (End::Durable(batch), _) => Some(*batch),
            _ => None,
        }
    }

    /// Whether any client waits for a batch up to this one.
    pub fn is_reached(&self, batch: u64) -> bool {
        self.ended(End::Durable(0), End::Durable(batch)).is_some()
    }

    pub fn count(&self) -> usize {
        self.by_client.len()
    }

    /// When the first of them gives up; monotonic, µs.
    pub fn next_limit_us(&self) -> Option<u64> {
        self.by_limit_us.first().map(|(limit_us, _)| *limit_us)
    }

    fn add(&mut self, client: ClientId, wait: DurabilityWait) {
        self.by_client.insert(client, wait);
        self.by_end.insert((wait.end, client));
        self.by_limit_us.extend(wait.limit_us.map(|limit_us| (limit_us, client)));
    }

    fn remove(&mut self, client: ClientId) -> Option<DurabilityWait> {
        let wait = self.by_client.remove(&client)?;
        self.by_end.remove(&(wait.end, client));
        if let Some(limit_us) = wait.limit_us {
            self.by_limit_us.remove(&(limit_us, client));
        }
        Some(wait)
    }

    fn ended(&self, from: End, end: End) -> Option<ClientId> {
        let over = (from, ClientId(0))..=(end, ClientId(u64::MAX));
        self.by_end.range(over).next().map(|(_, client)| *client)
    }

    pub fn wait_base(&mut self, client: ClientId, number: u64) {
        let for_what = For::default();
        self.add(client, DurabilityWait { end: End::Base(number), for_what, limit_us: None });
    }

    /// Lets a client wait for a batch, and then for other nodes, until `limit_us` at the latest. `needs_batch`: without
    /// it, a standalone server, which has no others, lets the client wait for the limit.
    pub fn wait_durable(
        &mut self,
        client: ClientId,
        for_what: For,
        needs_batch: bool,
        limit_us: Option<u64>,
    ) {
        let end = match (for_what.index, needs_batch) {
            (Some(index), _) => End::Replicas(for_what.replicas, index),
            (None, true) => End::Durable(for_what.batch),
            (None, false) => End::Replicas(for_what.replicas, NEVER),
        };
        self.add(client, DurabilityWait { end, for_what, limit_us });
    }

    /// Whether any client waits for other nodes.
    pub fn wants_replicas(&self) -> bool {
        self.by_end
            .last()
            .is_some_and(|(end, _)| matches!(end, End::Replicas(_, index) if *index < NEVER))
    }

    /// Bases up to the one of this number are over, the last one with this failure. Answers clients that wait for them.
    pub fn end_bases(&mut self, number: u64, failure: Option<&str>, outputs: &mut Outputs) {
        while let Some(client) = self.ended(End::Base(0), End::Base(number)) {
            match failure {
                None => {
                    self.end(client, Ending::Done, outputs);
                    outputs.encoder(client).ok();
                }
                Some(cause) => {
                    let text = format!("ERR the base was not written: {cause}");
                    self.fail(client, &text, outputs);
                }
            }
        }
    }

    /// Everything up to batch `batch` is synced. Clients that wait for it are answered, or wait for other nodes from
    /// here on.
    pub fn end_durable(&mut self, batch: u64, followers: &Followers, outputs: &mut Outputs) {
        while let Some(client) = self.ended(End::Durable(0), End::Durable(batch)) {
            let Some(mut wait) = self.remove(client) else { return };
            let index = followers.committed();
            let For { replicas, index: known, .. } = &mut wait.for_what;
            if followers.known() > 0 {
                *known = Some(index);
            }
            if *replicas > followers.count(*known) {
                wait.end = End::Replicas(*replicas, known.unwrap_or(NEVER));
                self.add(client, wait);
                continue;
            }
            self.answer(client, wait.for_what, true, followers, outputs);
        }
    }

    /// Answers clients that wait for other nodes which have the changes now.
    pub fn end_replicated(&mut self, followers: &Followers, outputs: &mut Outputs) {
        for count in 1..=followers.known() {
            let (from, to) = (End::Replicas(count, 0), followers.reached_by(count));
            while let Some(client) = self.ended(from, End::Replicas(count, to)) {
                let Some(wait) = self.remove(client) else { return };
                self.answer(client, wait.for_what, true, followers, outputs);
            }
        }
    }

    /// Answers clients whose wait has timed out.
    pub fn end_late(
        &mut self,
        mono_us: u64,
        shown: &Persistence,
        followers: &Followers,
        outputs: &mut Outputs,
    ) {
        while let Some((limit_us, client)) = self.by_limit_us.first().copied()
            && limit_us <= mono_us
        {
            let Some(wait) = self.remove(client) else { return };
            let local = shown.is_durable(wait.for_what.batch);
            self.answer(client, wait.for_what, local, followers, outputs);
        }
    }

    /// No waiting client will get what it waits for.
    pub fn fail_all(&mut self, text: &str, outputs: &mut Outputs) {
        while let Some((client, _)) = self.by_client.first_key_value() {
            let client = *client;
            self.fail(client, text, outputs);
        }
    }

    /// CLIENT UNBLOCK, with the reply of a timeout or an error; false if the client does not wait for the journal.
    pub fn unblock(
        &mut self,
        client: ClientId,
        error: bool,
        shown: &Persistence,
        followers: &Followers,
        outputs: &mut Outputs,
    ) -> bool {
        match (self.by_client.get(&client).copied(), error) {
            (None, _) => return false,
            (
                Some(DurabilityWait { end: End::Durable(_) | End::Replicas(..), for_what, .. }),
                false,
            ) => {
                self.remove(client);
                let local = shown.is_durable(for_what.batch);
                self.answer(client, for_what, local, followers, outputs);
            }
            // SAVE has no timeout, and so no reply for one.
            (Some(_), _) => self.fail(client, UNBLOCKED, outputs),
        }
        true
    }

    /// `client` is gone, or may not have what it waits for.
    pub fn forget(&mut self, client: ClientId) {
        self.remove(client);
    }

    fn end(&mut self, client: ClientId, end: Ending, outputs: &mut Outputs) {
        outputs.set_answered(client, end);
        self.remove(client);
    }

    fn answer(
        &mut self,
        client: ClientId,
        for_what: For,
        local: bool,
        followers: &Followers,
        outputs: &mut Outputs,
    ) {
        self.end(client, Ending::Done, outputs);
        let reached = Reached { local, replicas: followers.count(for_what.index) };
        reached.write(for_what.tells_local, &mut outputs.encoder(client));
    }

    fn fail(&mut self, client: ClientId, text: &str, outputs: &mut Outputs) {
        self.end(client, Ending::Failed, outputs);
        outputs.refuse(client, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_hears_what_is_wanted_and_the_loop_when_to_wake() {
        let mut waits = Waits::default();
        let wait = |end, limit_us| DurabilityWait { end, for_what: For::default(), limit_us };
        assert_eq!((waits.wanted_batch(), waits.next_limit_us()), (None, None));
        waits.add(ClientId(1), wait(End::Base(9), None));
        waits.add(ClientId(2), wait(End::Replicas(1, NEVER), Some(70)));
        assert_eq!((waits.wanted_batch(), waits.next_limit_us()), (None, Some(70)));
        waits.add(ClientId(3), wait(End::Durable(5), Some(60)));
        waits.add(ClientId(u64::MAX), wait(End::Durable(4), None));
        assert_eq!((waits.wanted_batch(), waits.next_limit_us()), (Some(5), Some(60)));
        assert_eq!(waits.ended(End::Durable(0), End::Durable(3)), None);
        let last = Some(ClientId(u64::MAX));
        assert_eq!(waits.ended(End::Durable(0), End::Durable(4)), last);
        assert_eq!(waits.ended(End::Base(0), End::Base(8)), None);
        waits.remove(ClientId(3));
        assert_eq!((waits.wanted_batch(), waits.next_limit_us()), (Some(4), Some(70)));
        for client in [1, 2, 3, u64::MAX] {
            waits.remove(ClientId(client));
        }
        assert_eq!((waits.wanted_batch(), waits.next_limit_us()), (None, None));
        assert!(waits.count() == 0 && waits.by_end.is_empty());
    }
}
