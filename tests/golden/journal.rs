//! A journal without files: it takes as long as the script says, and fails when the script says so.
//! Replies do not wait for it, as with `appendfsync everysec`.

use std::collections::VecDeque;

use delayd::observe::persistence::Loading;
use delayd::server::core::Core;
use delayd::time::Micros;

/// What a journal has under way.
#[derive(Debug)]
pub struct Journal {
    sync_us: u64,
    base_us: u64,
    /// Batches that will be synced, and when.
    syncs: VecDeque<(Micros, u64)>,
    base_ends: Option<Micros>,
    base_failure: Option<String>,
}

impl Journal {
    /// A sync takes `sync_us`, a base `base_us`.
    pub fn open(core: &mut Core, sync_us: u64, base_us: u64) -> Journal {
        core.journal.enabled = true;
        core.journal.segments = 1;
        core.journal.room_bytes = 1 << 20;
        Journal { sync_us, base_us, syncs: VecDeque::new(), base_ends: None, base_failure: None }
    }

    /// From here on bases fail.
    pub fn fail_bases(&mut self, cause: &str) {
        self.base_failure = Some(cause.to_owned());
    }

    /// Nothing is written any more.
    pub fn fail(&mut self, core: &mut Core, cause: &str) {
        self.syncs.clear();
        if self.base_ends.take().is_some() {
            core.base_ended(Err(cause.to_owned()));
        }
        core.journal_failed(cause);
    }

    /// The end of a turn: takes its facts. Whether anything ended or began.
    pub fn step(&mut self, core: &mut Core) -> bool {
        if core.facts.count > 0 {
            let journal = &mut core.journal;
            journal.proposed += 1;
            journal.changes_since_base += core.facts.count;
            journal.log_bytes += core.facts.bytes.len() as u64;
            core.facts.clear();
            self.syncs.push_back((Micros(core.clock.now.0 + self.sync_us), core.journal.proposed));
        }
        let mut worked = false;
        while let Some((at, index)) = self.syncs.front().copied()
            && at <= core.clock.now
        {
            self.syncs.pop_front();
            core.journal.committed = index;
            core.durable_to(index);
            worked = true;
        }
        core.journal.syncs_pending = self.syncs.len() as u64;
        if self.base_ends.is_some_and(|at| at <= core.clock.now) {
            self.base_ends = None;
            core.base_ended(self.base_failure.clone().map_or(Ok(()), Err));
            worked = true;
        }
        if self.base_ends.is_none() && core.journal.base_wanted {
            core.base_began();
            self.base_ends = Some(Micros(core.clock.now.0 + self.base_us));
            worked = true;
        }
        worked
    }

    /// When something ends by itself.
    pub fn next_event(&self) -> Option<Micros> {
        let sync = self.syncs.front().map(|(at, _)| *at);
        sync.into_iter().chain(self.base_ends).min()
    }
}

/// The journal is being read, so many seconds since.
pub fn load(core: &mut Core, total_bytes: u64, loaded_bytes: u64) {
    let began_s = core.clock.now_s();
    let began_s = core.journal.loading.map_or(began_s, |loading| loading.began_s);
    core.journal.loading = Some(Loading { began_s, total_bytes, loaded_bytes });
}
