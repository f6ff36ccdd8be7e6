//! Clients that wait for the journal: WAITAOF for a sync, SAVE for a base.

use crate::ids::ClientId;
use crate::observe::persistence::Persistence;
use crate::server::connection::calls::Ending;
use crate::server::outbox::Outputs;
use crate::session::world::UNBLOCKED;
use std::collections::{BTreeMap, BTreeSet};

/// Who waits for what, and until when. Each step costs O(log n).
#[derive(Debug, Default)]
pub struct Waits {
    by_client: BTreeMap<ClientId, Wait>,
    /// By what they wait for.
    by_end: BTreeSet<(End, ClientId)>,
    /// By when they give up; monotonic, µs.
    by_limit_us: BTreeSet<(u64, ClientId)>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    end: End,
    /// WAITAOF: the batch with the client's changes.
    batch: u64,
    limit_us: Option<u64>,
}

/// What ends a wait, those of one kind in the order in which they end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    /// The batch is durable.
    Durable(u64),
    /// The base of this number is over.
    Base(u64),
    /// Replicas, which never come: only the limit ends it.
    Never,
}

impl Waits {
    /// The newest batch that somebody waits for to be synced: under `everysec` and `no` the writer
    /// syncs for it.
    pub fn wanted_batch(&self) -> Option<u64> {
        match self.by_end.range(..(End::Base(0), ClientId(0))).next_back()? {
            (End::Durable(batch), _) => Some(*batch),
            _ => None,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_client.len()
    }

    /// When the first of them gives up; monotonic, µs.
    pub fn next_limit_us(&self) -> Option<u64> {
        self.by_limit_us.first().map(|(limit_us, _)| *limit_us)
    }

    fn add(&mut self, client: ClientId, wait: Wait) {
        self.by_client.insert(client, wait);
        self.by_end.insert((wait.end, client));
        self.by_limit_us.extend(wait.limit_us.map(|limit_us| (limit_us, client)));
    }

    fn remove(&mut self, client: ClientId) -> Option<Wait> {
        let wait = self.by_client.remove(&client)?;
        self.by_end.remove(&(wait.end, client));
        if let Some(limit_us) = wait.limit_us {
            self.by_limit_us.remove(&(limit_us, client));
        }
        Some(wait)
    }

    /// The next one from `from` on that `end` ends.
    fn ended(&self, from: End, end: End) -> Option<ClientId> {
        let over = (from, ClientId(0))..=(end, ClientId(u64::MAX));
        self.by_end.range(over).next().map(|(_, client)| *client)
    }

    /// Lets a client wait for the base of this number.
    pub fn wait_base(&mut self, client: ClientId, number: u64) {
        self.add(client, Wait { end: End::Base(number), batch: 0, limit_us: None });
    }

    /// Lets a client wait for batch `batch`, or for replicas as well, until `limit_us` at the latest.
    pub fn wait_durable(
        &mut self,
        client: ClientId,
        batch: u64,
        replicas: bool,
        limit_us: Option<u64>,
    ) {
        let end = if replicas { End::Never } else { End::Durable(batch) };
        self.add(client, Wait { end, batch, limit_us });
    }

    /// Bases up to the one of this number are over, the last one for this failure. Whoever waits for them is
    /// answered.
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

    /// Everything up to batch `batch` is synced. Whoever waits for it is answered.
    pub fn end_durable(&mut self, batch: u64, outputs: &mut Outputs) {
        while let Some(client) = self.ended(End::Durable(0), End::Durable(batch)) {
            self.answer(client, |wanted| wanted <= batch, outputs);
        }
    }

    /// Answers those whose time is up.
    pub fn end_late(&mut self, mono_us: u64, shown: &Persistence, outputs: &mut Outputs) {
        while let Some((limit_us, client)) = self.by_limit_us.first().copied()
            && limit_us <= mono_us
        {
            self.answer(client, |batch| shown.is_durable(batch), outputs);
        }
    }

    /// Nobody will get what he waits for.
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
        outputs: &mut Outputs,
    ) -> bool {
        match (self.by_client.get(&client).map(|wait| wait.end), error) {
            (None, _) => return false,
            (Some(End::Durable(_) | End::Never), false) => {
                self.answer(client, |batch| shown.is_durable(batch), outputs);
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

    fn end(&mut self, client: ClientId, end: Ending, outputs: &mut Outputs) -> Option<Wait> {
        outputs.set_answered(client, end);
        self.remove(client)
    }

    fn answer(
        &mut self,
        client: ClientId,
        is_durable: impl Fn(u64) -> bool,
        outputs: &mut Outputs,
    ) {
        let batch = self.end(client, Ending::Done, outputs).map_or(0, |wait| wait.batch);
        let mut out = outputs.encoder(client);
        out.array(2);
        out.integer(is_durable(batch).into());
        out.integer(0);
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
        let wait = |end, limit_us| Wait { end, batch: 0, limit_us };
        assert_eq!((waits.wanted_batch(), waits.next_limit_us()), (None, None));
        waits.add(ClientId(1), wait(End::Base(9), None));
        waits.add(ClientId(2), wait(End::Never, Some(70)));
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
