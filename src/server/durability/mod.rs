//! The journal around the turns: what may be decided, what is proposed, and what may leave.

pub mod commit;
pub mod compaction;
pub(super) mod disk_room;
pub mod loading;
pub mod waits;

mod room;

use crate::config::Config;
use crate::config::options::Name;
use crate::engine::Engine;
use crate::engine::model::token::floor_at;
use crate::engine::room::Flow;
use crate::error::Misconf;
use crate::ids::Index;
use crate::journal::commit_log::{Batch, CommitLog};
use crate::journal::recovery::Recovered;
use crate::journal::{Disk, Lock, LogOptions};
use crate::limits::SPARES_MAX;
use crate::observe::persistence::{Persistence, Trouble};
use crate::server::connection::wake::Bell;
use crate::server::core::Core;
use crate::server::durability::commit::by_hand::{self, ByHand};
use crate::server::durability::commit::keeper::Done;
use crate::server::durability::commit::shared::Fsync;
use crate::server::durability::commit::{Journal, Position};
use crate::server::durability::compaction::Compaction;
use crate::server::durability::disk_room::segment_bytes;
use crate::time::Micros;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder of the journal, locked for this process.
#[derive(Debug)]
pub struct Home {
    /// The folder.
    pub disk: Arc<Disk>,
    /// Ends with this.
    pub lock: Lock,
}

impl Home {
    /// Opens and locks the folder that the options name; none without a journal.
    ///
    /// # Errors
    /// `dir` is no folder; the journal's cannot be made, or is in use by another server.
    pub fn open(config: &Config) -> io::Result<Option<Home>> {
        let dir = PathBuf::from(config.text(Name::Dir));
        // Made by us it would hide a mistyped path, or a volume that is not mounted.
        if !dir.is_dir() {
            let text = format!("dir: {} is no folder; make it, or name another", dir.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        if !config.flag(Name::AppendOnly) {
            return Ok(None);
        }
        let path = dir.join(config.text(Name::AppendDirName));
        let disk = Disk::open(&path)?;
        let lock = disk.lock()?;
        // Somebody may have opened it on purpose, for a backup: it is left as it is.
        if disk.is_open_to_others()? {
            let folder = path.display();
            tracing::warn!(
                "others than its owner may look into the journal's folder, {folder}, which holds the jobs' \
                 bodies; chmod -R go= {folder}"
            );
        }
        Ok(Some(Home { disk: Arc::new(disk), lock }))
    }
}

/// How the log is kept. On a small disk its segments are smaller than asked for.
pub fn log_options(config: &Config, disk: &Disk) -> LogOptions {
    let asked = config.number(Name::JournalSegmentSize);
    let space = disk.space().ok().flatten();
    let segment_bytes = space.map_or(asked, |space| segment_bytes(asked, space.total));
    if segment_bytes < asked {
        let folder = disk.path().display();
        tracing::warn!(
            "journal-segment-size is {asked}; {folder} is on a small disk, of which a segment may take an \
             eighth: segments of {segment_bytes} bytes are made"
        );
    }
    LogOptions { segment_bytes, shard: 0, spares_max: SPARES_MAX }
}

/// The journal of a server, in one of its states.
#[derive(Debug)]
pub enum Journaling {
    /// There is none: jobs are in memory only.
    Absent,
    /// It is being read.
    Loading(Box<loading::Loading>),
    /// It is written.
    Running(Box<Running>),
}

/// A journal that is written.
#[derive(Debug)]
pub struct Running {
    /// Where batches go.
    pub journal: Journal,
    /// Its bases.
    pub compaction: Compaction,
    segment_bytes: u64,
    /// Why there is no room for another segment, while none is left.
    full: Option<Arc<str>>,
    /// Why the last spare could not be made.
    no_spare: Option<Arc<str>>,
    /// Since when a segment would take the room of the next base, while no base is coming; monotonic,
    /// µs.
    short_since_us: Option<u64>,
    /// What is told of room that is kept for the next base, for how large a disk in MiB.
    kept: (u64, Arc<str>),
    /// Nothing may be added: the next base would be too large.
    crowded: bool,
    /// When the log was told of this last; monotonic, µs.
    crowded_told_us: u64,
    /// The sequence of the first fact behind the newest base, or the running one.
    base_first: u64,
    /// A spare is being made.
    making_spare: bool,
    retry_at_us: u64,
    /// The journal failed, and the replies that waited for it have been told.
    failed: bool,
}

impl Running {
    /// Goes on with what was recovered.
    pub fn start(
        recovered: Recovered<Disk>,
        storage: Arc<Disk>,
        config: &Config,
        bell: Arc<Bell>,
    ) -> io::Result<(Engine, Running)> {
        let Recovered {
            engine, log, index, first, base_first, base_index, base_bytes, opened, ..
        } = recovered;
        let position = Position { index, first };
        let segment_bytes = log.options().segment_bytes;
        let journal = Journal::start(log, storage, position, fsync(config), bell)?;
        let compaction = Compaction::new(base_index, base_bytes, opened.bytes);
        Ok((engine, Running::new(journal, compaction, segment_bytes, base_first, config)))
    }

    /// Begins with nothing, without files and threads: the caller is the disk.
    pub fn by_hand(
        times_us: (u64, u64),
        mono_us: u64,
        config: &Config,
        bell: Arc<Bell>,
    ) -> (Running, ByHand) {
        let segment_bytes = config.number(Name::JournalSegmentSize);
        let (journal, disk) = by_hand::journal(times_us, mono_us, fsync(config), bell);
        journal.shared().capacity_bytes.store(2 * segment_bytes, Ordering::Relaxed);
        let (compaction, first) = (Compaction::new(Index(0), 0, 0), journal.position().first);
        (Running::new(journal, compaction, segment_bytes, first, config), disk)
    }

    fn new(
        journal: Journal,
        compaction: Compaction,
        segment_bytes: u64,
        base_first: u64,
        config: &Config,
    ) -> Running {
        let mut running = Running {
            journal,
            compaction,
            segment_bytes,
            full: None,
            no_spare: None,
            short_since_us: None,
            kept: (u64::MAX, "".into()),
            crowded: false,
            crowded_told_us: 0,
            base_first,
            making_spare: false,
            retry_at_us: 0,
            failed: false,
        };
        running.reconfigure(config);
        running
    }

    /// Applies options that have changed.
    pub fn reconfigure(&mut self, config: &Config) {
        self.journal.set_fsync(fsync(config));
        let memory_max = match config.number(Name::MaxMemory) {
            0 => u64::MAX,
            max => max,
        };
        self.journal.set_memory_max(memory_max);
        self.compaction.set_memory_max(memory_max);
    }

    /// Why the journal takes nothing more, if it failed.
    pub fn failure(&self) -> Option<&Arc<str>> {
        self.journal.shared().failure()
    }

    /// What is shown of it as of `now`, which is `mono_us` on the monotonic clock.
    fn show(&self, shown: &mut Persistence, now: Micros, mono_us: u64) {
        let Running { journal, compaction, .. } = self;
        let shared = journal.shared();
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        shown.enabled = true;
        shown.proposed = journal.newest().0;
        shown.committed = journal.committed().0;
        shown.base_index = compaction.base_index.0;
        shown.base_bytes = compaction.base_bytes;
        shown.log_bytes = compaction.log_bytes(journal);
        shown.changes_since_base = journal.position().first - self.base_first;
        shown.room_bytes = journal.room_bytes();
        shown.spares = number(&shared.spares);
        shown.segments = number(&shared.segments);
        shown.written_bytes = number(&shared.written_bytes);
        shown.base_written_bytes = number(&shared.base_written_bytes);
        shown.disk_bytes = journal.disk_bytes() + compaction.base_bytes;
        shown.buffer_bytes = journal.unwritten_bytes();
        shown.unsynced_bytes = journal.proposed_bytes() - number(&shared.synced_bytes);
        let ago_us = |at_us: u64| mono_us.saturating_sub(at_us);
        shown.unsynced_us = match number(&shared.unsynced_since_us) {
            0 => 0,
            since_us => ago_us(since_us),
        };
        shown.last_sync_us = now.0.saturating_sub(ago_us(number(&shared.synced_us)));
        shown.syncs_pending = u64::from(number(&shared.sync_began_us) > 0);
        shown.syncs_delayed = number(&shared.slow_syncs);
        if self.failure().is_none() {
            shown.trouble = match self.shortage() {
                Some(cause) => Trouble::Full(cause.to_string()),
                None => Trouble::None,
            };
        }
    }
}

fn fsync(config: &Config) -> Fsync {
    match config.text(Name::AppendFsync) {
        "everysec" => Fsync::Everysec,
        "no" => Fsync::No,
        _ => Fsync::Always,
    }
}

impl Core {
    /// Takes up what the journal's threads and the recovery have done since the last turn. An error
    /// is a journal that cannot be loaded.
    pub fn hear_journal(&mut self) -> io::Result<()> {
        match &mut self.journaling {
            Journaling::Absent => Ok(()),
            Journaling::Loading(loading) => {
                loading.tell(self.clock.timer.mono_us());
                match loading.loaded() {
                    None => Ok(()),
                    Some(loaded) => self.install(loaded?),
                }
            }
            Journaling::Running(_) => {
                self.hear_keeper();
                self.hear_failure();
                Ok(())
            }
        }
    }

    /// Goes on with what was recovered.
    pub fn install(&mut self, recovered: Recovered<Disk>) -> io::Result<()> {
        let took_us = match &self.journaling {
            Journaling::Loading(loading) => self.clock.timer.mono_us() - loading.began_us,
            _ => 0,
        };
        if let Some(cut) = &recovered.opened.cut {
            tracing::warn!("{cut}");
        }
        for notice in &recovered.opened.notices {
            tracing::warn!("{notice}");
        }
        let (index, facts) = (recovered.index, recovered.facts);
        let last = recovered.now;
        let disk = Arc::clone(self.disk.as_ref().expect("what was loaded came from a disk"));
        let bell = Arc::clone(&self.bell);
        let (engine, running) = Running::start(recovered, disk, &self.config, bell)?;
        self.engine = engine;
        self.reconfigure();
        self.clock.restart(last, self.limits.clock_jump_us_max);
        // From the journal's last instant on even if the wall clock was set back since.
        self.engine.settings_mut().token_floor = floor_at(self.clock.now.floor().0);
        self.outputs.gate.turn = 1;
        let jobs: u64 = self.engine.job_counts().iter().sum();
        tracing::info!(jobs, facts, index = index.0, took_us, "the journal is loaded");
        self.journaling = Journaling::Running(Box::new(running));
        self.show_journal();
        Ok(())
    }

    /// Tells the engine what the journal allows in this turn.
    pub fn set_flow(&mut self) {
        let paused = self.pauses.is_running();
        let flow = match &mut self.journaling {
            Journaling::Running(running) => running.flow(self.clock.mono_us),
            _ if paused == self.told_paused => return,
            _ => Flow::default(),
        };
        self.told_paused = paused;
        self.engine.set_flow(self.clock.now, if paused { flow.paused() } else { flow });
    }

    /// Whether requests are to wait until the journal or the allocator has caught up.
    pub fn is_flooded(&self) -> bool {
        let Journaling::Running(running) = &self.journaling else { return self.waits_for_memory() };
        let is_heavy = running.compaction.is_heavy(&self.engine, &running.journal);
        self.waits_for_memory() || is_heavy || running.is_flooded()
    }

    /// Whether there is work for the journal that nothing will wake the loop for.
    pub fn is_journal_behind(&self) -> bool {
        let Journaling::Running(running) = &self.journaling else { return false };
        self.facts.count > 0 || running.compaction.is_behind(&running.journal)
    }

    /// Hands over what was decided since the last proposal, if anything was.
    pub fn propose_leftovers(&mut self) {
        if self.facts.count > 0 {
            self.propose();
        }
    }

    /// Hands the facts decided since the last call to the journal. Replies written from here on
    /// belong to the next turn: what they tell of is proposed with that.
    pub fn propose(&mut self) {
        let Journaling::Running(running) = &mut self.journaling else {
            self.facts.clear();
            return;
        };
        if self.facts.count > 0 {
            let (now, mono_us) = (self.clock.now, self.clock.mono_us);
            let urgent = self.outputs.gate.is_urgent();
            running.journal.propose(Batch { now, mono_us, facts: &mut self.facts, urgent });
            running.journal.note_turn(self.outputs.gate.turn);
        }
        self.outputs.gate.end_turn();
        self.open_gate();
    }

    /// Lets those replies go whose facts are committed.
    fn open_gate(&mut self) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        let last = self.outputs.gate.turn - 1;
        let released = match running.failed {
            true => last,
            false => running.journal.released(last, self.clock.mono_us),
        };
        self.outputs.release(released);
    }

    /// Sees to it that replies which wait are not forgotten. To be called after the release.
    pub fn hurry(&mut self) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        if running.failed {
            return;
        }
        if self.outputs.gate.has_waiting() {
            running.journal.hurry();
        }
        if let Some(index) = self.waits.wanted_index() {
            running.journal.want(Index(index));
        }
    }

    /// Brings up to date what INFO and those who wait for the journal see of it.
    pub fn show_journal(&mut self) {
        let (now, mono_us) = (self.clock.now, self.clock.mono_us);
        let durable = match &self.journaling {
            Journaling::Absent => return,
            Journaling::Loading(loading) => {
                self.journal.enabled = true;
                self.journal.loading = Some(loading.shown(self.clock.start.0 / 1_000_000));
                return;
            }
            Journaling::Running(running) => {
                self.journal.loading = None;
                running.show(&mut self.journal, now, mono_us);
                running.journal.shared().durable()
            }
        };
        self.durable_to(durable.0);
    }

    /// The journal's share of a turn: room is made, a base goes on. All facts have been proposed.
    pub fn keep_journal(&mut self) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        if running.failed {
            return;
        }
        let (engine, mono_us) = (&mut self.engine, self.clock.mono_us);
        let live_bytes = engine.base_bytes();
        running.note_crowd(engine.base_bytes_later(), mono_us);
        // One that somebody asked for may fail, and say so.
        let due = self.journal.base_wanted || running.is_base_due(live_bytes, mono_us);
        let Running { journal, compaction, .. } = &mut **running;
        // What has been applied and not proposed is in no batch that the base could name.
        let begins = due && compaction.is_clear(journal) && self.facts.count == 0;
        if begins {
            compaction.begin(engine, journal, self.clock.now);
        }
        let keeps_up = compaction.slice(engine, journal, mono_us);
        running.make_room(live_bytes, due, mono_us);
        if begins {
            running.base_first = running.journal.position().first;
            self.base_began();
        }
        if !keeps_up {
            self.give_up_base();
        }
    }

    fn give_up_base(&mut self) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        let cause = "the disk does not keep up with what changes meanwhile";
        running.journal.keeper.abandon_base();
        let error = io::Error::other(cause);
        if running.compaction.fail(&error, &mut self.engine, self.clock.mono_us) {
            self.base_ended(Err(cause.to_owned()));
        }
    }

    fn hear_keeper(&mut self) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        let mut ended = Vec::new();
        while let Some(done) = running.journal.keeper.done() {
            match done {
                Done::Spare(made) => running.note_spare(made, self.clock.mono_us),
                // The journal failed while the last of it was written.
                Done::Base(..) if !running.compaction.is_running() => {}
                Done::Base(index, bytes) => {
                    running.compaction.complete(index, bytes, &running.journal);
                    ended.push(Ok(()));
                }
                Done::BaseFailed(error) => {
                    if running.compaction.fail(&error, &mut self.engine, self.clock.mono_us) {
                        ended.push(Err(error.to_string()));
                    }
                }
            }
        }
        ended.into_iter().for_each(|result| self.base_ended(result));
    }

    /// The journal failed: replies that wait for it tell of it, and reads go on.
    fn hear_failure(&mut self) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        let Some(cause) = running.failure().filter(|_| !running.failed).cloned() else { return };
        running.failed = true;
        let abandoned = running.compaction.abandon(&mut self.engine, &running.journal);
        if abandoned {
            self.base_ended(Err("the journal failed".to_owned()));
        }
        self.journal_failed(&cause);
        let text = Misconf::Failed { cause }.to_string();
        self.messages.drop_after(self.outputs.gate.released());
        for client in self.outputs.fail(&text) {
            self.engine.sent(client);
        }
        self.set_flow();
        self.open_gate();
    }

    /// Ends the journal in good order. Blocks until everything is on disk.
    pub fn close_journal(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.journaling, Journaling::Absent) {
            Journaling::Absent => Ok(()),
            Journaling::Loading(mut loading) => {
                loading.cancel();
                Ok(())
            }
            Journaling::Running(running) => running.journal.stop().map_err(io::Error::other),
        }
    }
}
