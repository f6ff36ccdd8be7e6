//! Clients that wait for the journal: WAITAOF for a sync, SAVE for a base.

use crate::command::show::render::render;
use crate::engine::Engine;
use crate::error::Misconf;
use crate::ids::ClientId;
use crate::observe::persistence::Trouble;
use crate::server::connection::calls::Ending;
use crate::server::core::Core;
use crate::session::world::{BaseBegun, BaseRefused, Patience, UNBLOCKED, Unblock, WaitDurable};
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
    index: u64,
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
    pub fn wanted_index(&self) -> Option<u64> {
        match self.by_end.range(..(End::Base(0), ClientId(0))).next_back()? {
            (End::Durable(index), _) => Some(*index),
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
}

impl Core {
    /// `World::begin_base`.
    pub fn begin_base(&mut self, schedule: bool) -> Result<BaseBegun, BaseRefused> {
        if !self.journal.enabled {
            return Err(BaseRefused::NoJournal);
        }
        if let Trouble::Failed(cause) = &self.journal.trouble {
            return Err(BaseRefused::Failed(cause.clone()));
        }
        if self.journal.is_base_in_progress() && !schedule {
            return Err(BaseRefused::Running);
        }
        self.journal.base_wanted = true;
        let running = self.journal.base_began_s.is_some();
        Ok(if running { BaseBegun::Scheduled } else { BaseBegun::Started })
    }

    /// `World::wait_base`.
    pub fn wait_base(&mut self, client: ClientId) -> Result<(), BaseRefused> {
        self.begin_base(true)?;
        // The next to begin: one that runs already may lack what this client has just changed.
        let end = End::Base(self.journal.bases_begun + 1);
        self.wait(client, Wait { end, index: 0, limit_us: None });
        Ok(())
    }

    /// `World::wait_durable`.
    pub fn wait_durable(
        &mut self,
        client: ClientId,
        local: bool,
        replicas: u64,
        patience: Patience,
    ) -> WaitDurable {
        if local && !self.journal.enabled {
            return WaitDurable::NoJournal;
        }
        let index = self.current_index();
        let durable = self.is_durable(index);
        let held = (!local || durable) && replicas == 0;
        let limit_us = match patience {
            Patience::None => return WaitDurable::Now { local: durable.into(), replicas: 0 },
            _ if held => return WaitDurable::Now { local: durable.into(), replicas: 0 },
            Patience::Ms(ms) => Some(self.clock.mono_us.saturating_add(ms.saturating_mul(1_000))),
            Patience::Endless => None,
        };
        if local
            && !durable
            && let Trouble::Failed(cause) = &self.journal.trouble
        {
            return WaitDurable::Failed(cause.clone());
        }
        let end = if replicas > 0 { End::Never } else { End::Durable(index) };
        self.wait(client, Wait { end, index, limit_us });
        WaitDurable::Waiting
    }

    /// A base has begun: the one that was wanted, or one of the journal's own accord.
    pub fn base_began(&mut self) {
        let journal = &mut self.journal;
        journal.bases_begun += 1;
        journal.base_began_s = Some(self.clock.now_s());
        journal.base_wanted = false;
        journal.changes_since_base = 0;
    }

    /// The running base is complete, or failed for this cause. Whoever waits for it is answered.
    pub fn base_ended(&mut self, result: Result<(), String>) {
        let now_s = self.clock.now_s();
        let journal = &mut self.journal;
        let began_s = journal.base_began_s.take().expect("a base has begun");
        journal.last_base_took_s = Some(now_s.saturating_sub(began_s));
        if result.is_ok() {
            journal.bases_complete += 1;
            journal.last_base_s = now_s;
        }
        let end = End::Base(journal.bases_begun);
        journal.last_base_failure = result.err();
        let failure = journal.last_base_failure.clone();
        while let Some(client) = self.waits.ended(End::Base(0), end) {
            match &failure {
                None => {
                    self.end_wait(client, Ending::Done);
                    self.outputs.encoder(client).ok();
                }
                Some(cause) => {
                    self.fail_wait(client, &format!("ERR the base was not written: {cause}"));
                }
            }
        }
    }

    /// Everything up to batch `index` is synced. Whoever waits for it is answered.
    pub fn durable_to(&mut self, index: u64) {
        self.journal.durable = index;
        while let Some(client) = self.waits.ended(End::Durable(0), End::Durable(index)) {
            self.answer_durable(client);
        }
    }

    /// The journal has failed for good, for this cause: nobody will get what he waits for. A base that
    /// runs is to be ended first.
    pub fn journal_failed(&mut self, cause: &str) {
        self.journal.trouble = Trouble::Failed(cause.to_owned());
        self.journal.reads_unsafe = true;
        self.journal.base_wanted = false;
        let failed = Misconf::Failed { cause: cause.into() }.to_string();
        while let Some((client, _)) = self.waits.by_client.first_key_value() {
            let client = *client;
            self.fail_wait(client, &failed);
        }
    }

    /// Answers those whose time is up.
    pub fn end_late_waits(&mut self) {
        while let Some((limit_us, client)) = self.waits.by_limit_us.first().copied()
            && limit_us <= self.clock.mono_us
        {
            self.answer_durable(client);
        }
    }

    /// `World::unblock`, whatever `client` waits for.
    pub fn unblock(&mut self, client: ClientId, how: Unblock) -> bool {
        if self.unblock_wait(client, how) {
            return true;
        }
        if !self.engine.stop_waiting(client) {
            return false;
        }
        match how {
            Unblock::Timeout => {
                self.outputs.set_answered(client, Ending::Done);
                render(&Engine::TIMED_OUT, &mut self.outputs.encoder(client));
            }
            Unblock::Error => self.refuse_waiter(client, UNBLOCKED, Ending::Failed),
        }
        true
    }

    /// What `client` waits for it may not have any more: it is answered with this error, and gets no job.
    pub fn forbid_waiting(&mut self, client: ClientId, text: &str) {
        self.waits.remove(client);
        self.engine.stop_waiting(client);
        self.refuse_waiter(client, text, Ending::Rejected);
    }

    fn refuse_waiter(&mut self, client: ClientId, text: &str, end: Ending) {
        self.outputs.set_answered(client, end);
        self.outputs.errors.count(text);
        self.outputs.encoder(client).error(text);
    }

    /// `client` is gone.
    pub fn forget_wait(&mut self, client: ClientId) {
        self.waits.remove(client);
    }

    /// The same for those who wait for the journal.
    fn unblock_wait(&mut self, client: ClientId, how: Unblock) -> bool {
        match (self.waits.by_client.get(&client).map(|wait| wait.end), how) {
            (None, _) => return false,
            (Some(End::Durable(_) | End::Never), Unblock::Timeout) => self.answer_durable(client),
            // SAVE has no timeout, and so no reply for one.
            (Some(_), _) => self.fail_wait(client, UNBLOCKED),
        }
        true
    }

    /// The batch that everything done so far is in, this turn included.
    fn current_index(&self) -> u64 {
        self.journal.proposed + u64::from(self.facts.count > 0)
    }

    fn is_durable(&self, index: u64) -> bool {
        self.journal.enabled && self.journal.durable >= index
    }

    fn wait(&mut self, client: ClientId, wait: Wait) {
        self.waits.add(client, wait);
        self.outputs.set_waiting(client);
    }

    fn end_wait(&mut self, client: ClientId, end: Ending) -> Option<Wait> {
        self.outputs.set_answered(client, end);
        self.waits.remove(client)
    }

    fn answer_durable(&mut self, client: ClientId) {
        let index = self.end_wait(client, Ending::Done).map_or(0, |wait| wait.index);
        let local = self.is_durable(index);
        let mut out = self.outputs.encoder(client);
        out.array(2);
        out.integer(local.into());
        out.integer(0);
    }

    fn fail_wait(&mut self, client: ClientId, text: &str) {
        self.end_wait(client, Ending::Failed);
        self.outputs.errors.count(text);
        self.outputs.encoder(client).error(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_hears_what_is_wanted_and_the_loop_when_to_wake() {
        let mut waits = Waits::default();
        let wait = |end, limit_us| Wait { end, index: 0, limit_us };
        assert_eq!((waits.wanted_index(), waits.next_limit_us()), (None, None));
        waits.add(ClientId(1), wait(End::Base(9), None));
        waits.add(ClientId(2), wait(End::Never, Some(70)));
        assert_eq!((waits.wanted_index(), waits.next_limit_us()), (None, Some(70)));
        waits.add(ClientId(3), wait(End::Durable(5), Some(60)));
        waits.add(ClientId(u64::MAX), wait(End::Durable(4), None));
        assert_eq!((waits.wanted_index(), waits.next_limit_us()), (Some(5), Some(60)));
        assert_eq!(waits.ended(End::Durable(0), End::Durable(3)), None);
        let last = Some(ClientId(u64::MAX));
        assert_eq!(waits.ended(End::Durable(0), End::Durable(4)), last);
        assert_eq!(waits.ended(End::Base(0), End::Base(8)), None);
        waits.remove(ClientId(3));
        assert_eq!((waits.wanted_index(), waits.next_limit_us()), (Some(4), Some(70)));
        for client in [1, 2, 3, u64::MAX] {
            waits.remove(ClientId(client));
        }
        assert_eq!((waits.wanted_index(), waits.next_limit_us()), (None, None));
        assert!(waits.count() == 0 && waits.by_end.is_empty());
    }
}
