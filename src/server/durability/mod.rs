//! The journal around the turns: what may be decided, what is proposed, and what may leave.

pub mod backup;
pub mod commit;
pub mod compaction;
pub(super) mod disk_room;
mod flow;
pub mod followers;
pub mod home;
pub mod loading;
pub mod node;
pub mod running;
pub mod verify;
pub mod waits;

use crate::cluster::driver::Status;
use crate::cluster::peer::verify::Verification;
use crate::cluster::raft::output::RaftRole;
use crate::command::spec::action::ReplicaWait;
use crate::config::Config;
use crate::config::options::Name;
use crate::engine::journal_room::Flow;
use crate::engine::observe::histogram::CounterHistogram;
use crate::engine::{Engine, Facts, Settings};
use crate::error::Misconf;
use crate::ids::ClientId;
use crate::journal::record::entry::TurnBatch;
use crate::journal::recovery::{Progress, Recovered, recover};
use crate::journal::{Disk, Lock, hash_key};
use crate::observe::metrics::SYNC_US;
use crate::observe::persistence::{JournalTrouble, Persistence};
use crate::server::clock::turn_clock::TurnClock;
use crate::server::cluster::start::{check_alone, hash_seed};
use crate::server::connection::wake::Notifier;
use crate::server::durability::backup::Backups;
use crate::server::durability::commit::keeper::{KeeperDone, Task};
use crate::server::durability::commit::replicated::OldestUncommitted;
use crate::server::durability::followers::Followers;
use crate::server::durability::home::Home;
use crate::server::durability::loading::Loading;
use crate::server::durability::node::Clustered;
use crate::server::durability::running::RunningJournal;
use crate::server::durability::waits::{For, Reached, Waits};
use crate::server::observe::status::ServiceState;
use crate::server::outbox::Outputs;
use crate::server::outbox::messages::Messages;
use std::io;
use std::sync::Arc;

/// The journal of a server, in one of its states.
#[derive(Debug)]
pub enum Journaling {
    /// No journal: jobs are in memory only.
    Absent,
    /// It is being read.
    Loading(Box<Loading>),
    /// It is written.
    Running(Box<RunningJournal>),
}

/// The journal, its waiting clients, and its status.
#[derive(Debug)]
pub struct Durability {
    /// Its state for INFO and for waiting clients.
    pub shown: Persistence,
    pub waits: Waits,
    /// Where facts go.
    pub journaling: Journaling,
    /// Whether clients are paused, and whether the node does not decide, as last reported to the engine while there is
    /// no journal.
    engine_told: (bool, bool),
    /// The configuration of a node until its journal is there.
    clustered: Option<Box<Clustered>>,
    /// The journal's folder, and what keeps it for this process.
    disk: Option<Arc<Disk>>,
    lock: Option<Lock>,
    /// Clients that fetch bases.
    backups: Backups,
    /// Wakes the loop.
    notifier: Arc<Notifier>,
}

impl Durability {
    /// Without a journal, at a start at `start_s`, unix seconds.
    pub fn new(start_s: u64, notifier: Arc<Notifier>) -> Durability {
        Durability {
            shown: Persistence { last_base_s: start_s, ..Persistence::default() },
            waits: Waits::default(),
            journaling: Journaling::Absent,
            engine_told: (false, false),
            clustered: None,
            disk: None,
            lock: None,
            backups: Backups::default(),
            notifier,
        }
    }

    /// The journal to be loaded is that of such a node.
    pub fn join(&mut self, clustered: Clustered) {
        self.clustered = Some(Box::new(clustered));
    }

    /// Begins to load the journal. A small one is returned.
    pub fn load(
        &mut self,
        home: Home,
        config: &Config,
        settings: Settings,
        clock: &TurnClock,
    ) -> io::Result<Option<Box<Recovered<Disk>>>> {
        let Home { disk, lock } = home;
        (self.disk, self.lock) = (Some(Arc::clone(&disk)), Some(lock));
        self.backups.rate = config.number(Name::ClusterSyncRate);
        let options = home::log_options(config, &disk);
        let notifier = Arc::clone(&self.notifier);
        let is_node = self.clustered.is_some();
        let load = move |progress: &Progress| {
            let drawn = settings.hash_seed;
            let hash_seed = match is_node {
                true => hash_seed(&disk, options)?.unwrap_or(drawn),
                false => hash_key(&*disk, drawn)?,
            };
            recover(&disk, options, Settings { hash_seed, ..settings }, progress).map(Box::new)
        };
        let loading = Loading::begin(load, notifier, clock.timer.mono_us())?;
        let loaded = loading.wait();
        self.shown.enabled = true;
        self.shown.loading = Some(loading.shown(clock.start_s()));
        self.journaling = Journaling::Loading(Box::new(loading));
        Ok(loaded.transpose()?)
    }

    /// The journal, if it has been read since this was last asked.
    pub fn loaded(&mut self, clock: &TurnClock) -> io::Result<Option<Box<Recovered<Disk>>>> {
        let Journaling::Loading(loading) = &mut self.journaling else { return Ok(None) };
        loading.log(clock.timer.mono_us());
        Ok(loading.loaded().transpose()?)
    }

    /// The journal, if it is written.
    pub fn running(&self) -> Option<&RunningJournal> {
        if let Journaling::Running(running) = &self.journaling { Some(running) } else { None }
    }

    pub fn running_mut(&mut self) -> Option<&mut RunningJournal> {
        if let Journaling::Running(running) = &mut self.journaling { Some(running) } else { None }
    }

    /// How long the journal has been read so far, µs.
    pub fn loading_us(&self, clock: &TurnClock) -> u64 {
        match &self.journaling {
            Journaling::Loading(loading) => clock.timer.mono_us() - loading.began_us,
            _ => 0,
        }
    }

    /// Goes on in the journal that was read; returns the engine as it was.
    pub fn start(&mut self, recovered: Recovered<Disk>, config: &Config) -> io::Result<Engine> {
        let disk = Arc::clone(self.disk.as_ref().expect("what was loaded came from a disk"));
        let notifier = Arc::clone(&self.notifier);
        let (engine, running) = match self.clustered.take() {
            Some(clustered) => node::start(recovered, disk, config, *clustered, notifier)?,
            None => {
                check_alone(&recovered.log).map_err(io::Error::other)?;
                RunningJournal::start(recovered, disk, config, notifier)?
            }
        };
        self.journaling = Journaling::Running(Box::new(running));
        Ok(engine)
    }

    /// Takes up what the keeper has done since the last turn.
    pub fn poll_keeper(&mut self, engine: &mut Engine, outputs: &mut Outputs, clock: &TurnClock) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        let mut ended = Vec::new();
        while let Some(done) = running.journal.keeper.done() {
            match done {
                KeeperDone::Spare(made) => running.note_spare(made, clock.mono_us),
                // It was cancelled while its last part was written: it is in place anyway. As long as the engine is
                // being loaded again, perhaps from the previous base, the log stays as it is.
                KeeperDone::Base(index, bytes) if running.reloading.is_some() => {
                    running.late_base = Some((index, bytes));
                }
                KeeperDone::Base(index, bytes) => {
                    let is_awaited = running.compaction.is_running_to(index);
                    running.compaction.complete(index, bytes, &running.journal);
                    ended.extend(is_awaited.then_some(Ok(())));
                }
                KeeperDone::BaseFailed(error) => {
                    if running.compaction.fail(&error, engine, clock.mono_us) {
                        ended.push(Err(error.to_string()));
                    }
                }
            }
        }
        ended.into_iter().for_each(|result| self.base_ended(result, outputs, clock));
    }

    /// If the journal has failed since the last call, replies that wait for it report the failure, and reads continue.
    /// Pass it on to the engine, too.
    pub fn poll_failure(
        &mut self,
        engine: &mut Engine,
        outputs: &mut Outputs,
        messages: &mut Messages,
        clock: &TurnClock,
    ) -> bool {
        let Journaling::Running(running) = &mut self.journaling else { return false };
        let Some(cause) = running.failure().filter(|_| !running.failed).cloned() else {
            return false;
        };
        running.failed = true;
        if running.compaction.abandon(engine, &running.journal) {
            self.base_ended(Err("the journal failed".to_owned()), outputs, clock);
        }
        self.shown.trouble = JournalTrouble::Failed(cause.to_string());
        self.shown.reads_unsafe = true;
        self.shown.base_wanted = false;
        let text = Misconf::Failed { cause }.to_string();
        self.waits.fail_all(&text, outputs);
        messages.drop_after(outputs.gate.released());
        for client in outputs.fail(&text) {
            engine.sent(client);
        }
        self.open_gate(outputs, clock);
        true
    }

    /// DELAY.CLUSTER VERIFY, of a node that leads.
    pub fn want_to_verify(&mut self) {
        if let Some(running) = self.running_mut() {
            running.verify.want();
        }
    }

    /// The data of the other nodes as a leading node knows it; nothing if it has not asked.
    pub fn verification(&self) -> Option<&Verification> {
        self.running()?.verify.asked()
    }

    /// The state of the cluster: a follower has sent no questions, and a node that is gone does not answer.
    pub fn follow_status(&mut self, status: &Status) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        if status.role != RaftRole::Leader {
            return running.verify.depose();
        }
        let gone = status.peers.iter().filter(|peer| !peer.is_heard).map(|peer| peer.id);
        running.verify.part(gone);
    }

    /// Tells the engine what the journal allows in this turn, and whether clients are paused. With `stopped` the
    /// node does not decide, whatever the journal allows.
    pub fn set_flow(
        &mut self,
        engine: &mut Engine,
        paused: bool,
        stopped: Option<Misconf>,
        clock: &TurnClock,
    ) {
        let told = (paused, stopped.is_some());
        let flow = match (&mut self.journaling, stopped) {
            (_, Some(cause)) => Flow::Stopped { cause },
            (Journaling::Running(running), None) => running.flow(clock.mono_us),
            _ if told == self.engine_told => return,
            _ => Flow::default(),
        };
        self.engine_told = told;
        engine.set_flow(clock.now, if paused { flow.paused() } else { flow });
    }

    /// Whether requests are to wait until the journal has caught up.
    pub fn is_flooded(&self, engine: &Engine) -> bool {
        let Journaling::Running(running) = &self.journaling else { return false };
        running.compaction.is_heavy(engine, &running.journal) || running.is_flooded()
    }

    /// For a leader: the oldest of what it has decided and is not committed.
    pub fn uncommitted(&self) -> Option<OldestUncommitted> {
        self.running()?.journal.uncommitted()
    }

    /// Whether this turn must not decide anything, so that a base may begin.
    pub fn is_settling(&self) -> bool {
        self.running().is_some_and(|running| running.journal.is_settling())
    }

    /// Whether there is work for the journal that nothing will wake the loop for.
    pub fn is_behind(&self, facts: &Facts) -> bool {
        let Journaling::Running(running) = &self.journaling else { return false };
        facts.count > 0
            || running.compaction.is_behind(&running.journal)
            || running.journal.is_behind()
    }

    /// Hands the facts decided since the last call to the journal. Replies written from here on
    /// belong to the next turn: the changes they report are proposed with that turn.
    pub fn propose(&mut self, facts: &mut Facts, outputs: &mut Outputs, clock: &TurnClock) {
        let Journaling::Running(running) = &mut self.journaling else { return facts.clear() };
        if facts.count > 0 {
            let (now, mono_us, urgent) = (clock.now, clock.mono_us, outputs.gate.is_urgent());
            running.journal.propose(TurnBatch { now, mono_us, facts, urgent }, outputs.gate.turn);
        }
        outputs.gate.end_turn();
        self.open_gate(outputs, clock);
    }

    /// Releases the replies whose facts are committed.
    fn open_gate(&mut self, outputs: &mut Outputs, clock: &TurnClock) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        let last = outputs.gate.turn - 1;
        let released = match running.failed {
            true => last,
            false => running.journal.released(last, clock.mono_us),
        };
        outputs.release(released);
    }

    /// Sees to it that replies which wait are not forgotten. To be called after the release.
    pub fn hurry(&mut self, outputs: &Outputs) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        if running.failed {
            return;
        }
        if outputs.gate.has_waiting() {
            running.journal.hurry();
        }
        if let Some(batch) = self.waits.wanted_batch() {
            running.journal.want(batch);
        }
    }

    /// The journal's share of a turn: room is made, a base goes on. All facts have been proposed.
    pub fn keep(
        &mut self,
        engine: &mut Engine,
        facts: &Facts,
        outputs: &mut Outputs,
        clock: &TurnClock,
    ) {
        if self.backups.is_running() {
            self.look_at_backup(engine.base_bytes(), clock.mono_us);
        }
        let Journaling::Running(running) = &mut self.journaling else { return };
        if running.failed || running.reloading.is_some() {
            return running.refuse_to_verify();
        }
        let mono_us = clock.mono_us;
        let live_bytes = engine.base_bytes();
        running.note_crowd(engine.base_bytes_later(), mono_us);
        // A requested base may fail, and report that.
        let wanted = self.shown.base_wanted || running.wants_to_verify();
        let due = wanted || running.is_base_due(live_bytes, mono_us);
        let RunningJournal { journal, compaction, .. } = &mut **running;
        let may_begin = due && compaction.is_clear(journal);
        // Facts that were applied and not proposed are in no batch that the base could name.
        let begins = journal.settle(may_begin, mono_us) && facts.count == 0;
        if begins {
            let index = compaction.begin(engine, journal, clock.now);
            running.begin_to_verify(index.0);
        }
        running.refuse_to_verify();
        let RunningJournal { journal, compaction, .. } = &mut **running;
        journal.keeper.set_rests(self.backups.awaits_base() && compaction.has_time(engine));
        let keeps_up = compaction.slice(engine, journal, mono_us);
        running.go_on_verifying(engine);
        running.make_room(live_bytes, due, mono_us);
        if begins {
            running.base_first = running.journal.position().first;
            self.shown.base_began(clock.now_s());
            self.backups.base_began(self.shown.bases_begun, engine.job_counts());
        }
        if !keeps_up {
            self.give_up_base(engine, outputs, clock);
        }
    }

    fn give_up_base(&mut self, engine: &mut Engine, outputs: &mut Outputs, clock: &TurnClock) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        let cause = "the disk does not keep up with the changes meanwhile";
        running.journal.keeper.send(Task::AbandonBase);
        if running.compaction.fail(&io::Error::other(cause), engine, clock.mono_us) {
            self.base_ended(Err(cause.to_owned()), outputs, clock);
        }
    }

    /// The running base is complete, or failed for this cause. Answers clients that wait for it.
    fn base_ended(&mut self, result: Result<(), String>, outputs: &mut Outputs, clock: &TurnClock) {
        self.shown.base_ended(result.err(), clock.now_s());
        let failure = self.shown.last_base_failure.as_deref();
        self.waits.end_bases(self.shown.bases_begun, failure, outputs);
        self.backup_base_ended();
    }

    /// Updates the journal's state for INFO and for waiting clients.
    pub fn show(&mut self, outputs: &mut Outputs, clock: &TurnClock) {
        match &self.journaling {
            Journaling::Absent => {}
            Journaling::Loading(loading) => {
                self.shown.enabled = true;
                self.shown.loading = Some(loading.shown(clock.start_s()));
            }
            Journaling::Running(running) => {
                let reloading = running.reloading.as_ref();
                self.shown.loading = reloading.map(|loading| loading.shown(clock.start_s()));
                running.show(&mut self.shown, clock.now, clock.mono_us);
            }
        }
        if self.waits.is_reached(self.shown.safe_batch) {
            let followers = self.followers();
            self.waits.end_durable(self.shown.safe_batch, &followers, outputs);
        }
        self.end_replicated_waits(outputs);
    }

    /// How long syncs took.
    pub fn syncs(&self) -> CounterHistogram {
        let running = self.running();
        running.map_or_else(|| CounterHistogram::new(&SYNC_US), |it| it.journal.shared().syncs())
    }

    pub fn standing(&self) -> ServiceState {
        match &self.journaling {
            Journaling::Absent => ServiceState::Serving,
            Journaling::Loading(_) => self.standing_loading(),
            Journaling::Running(running) => match running.failure() {
                None if running.reloading.is_some() => self.standing_loading(),
                None => ServiceState::Serving,
                Some(cause) => ServiceState::Failed(Arc::clone(cause)),
            },
        }
    }

    fn standing_loading(&self) -> ServiceState {
        let percent = self.shown.loading.map_or(0.0, |loading| loading.percent());
        ServiceState::Loading(percent as u8)
    }

    /// BGSAVE and BGREWRITEAOF, which `what` names: a base begins by the end of this turn. While one runs, or is
    /// about to begin, it is refused, or, with `schedule`, the next begins when that one is over. Tells when,
    /// or why not.
    pub fn begin_base(&mut self, schedule: bool, what: &str) -> Result<&'static str, String> {
        if !self.shown.enabled {
            let text =
                "ERR there is no journal to save to: appendonly is no, jobs are in memory only";
            return Err(text.to_owned());
        }
        if let JournalTrouble::Failed(cause) = &self.shown.trouble {
            let why = "ERR no base can be written: the journal has failed";
            return Err(format!("{why}: {cause}"));
        }
        if self.shown.is_base_in_progress() && !schedule {
            return Err(format!("ERR {what} already in progress"));
        }
        self.shown.base_wanted = true;
        Ok(if self.shown.base_began_s.is_some() { "scheduled" } else { "started" })
    }

    /// SAVE: as [`Durability::begin_base`], and `client` waits for the base that begins, without limit.
    pub fn wait_base(
        &mut self,
        client: ClientId,
        outputs: &mut Outputs,
        what: &str,
    ) -> Result<(), String> {
        self.begin_base(true, what)?;
        // The next to begin: one that runs already may lack what this client has just changed.
        self.waits.wait_base(client, self.shown.bases_begun + 1);
        outputs.set_waiting(client);
        Ok(())
    }

    /// WAIT and WAITAOF: `client` waits until everything done so far is synced here and on other nodes. That is in the
    /// batch after those that were proposed if anything `changed` since. How far it is, if that is enough or nothing is
    /// waited for; none if the client waits.
    pub fn wait_durable(
        &mut self,
        client: ClientId,
        wait: ReplicaWait,
        at_once: bool,
        changed: bool,
        mono_us: u64,
    ) -> Result<Option<Reached>, String> {
        let ReplicaWait { tells_local, local, replicas, timeout_ms } = wait;
        if local && !self.shown.enabled {
            let text =
                "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
            return Err(text.to_owned());
        }
        let batch = self.shown.newest_batch + u64::from(changed);
        let followers = self.followers();
        let is_clustered = followers.known() > 0;
        let durable = self.shown.is_durable(batch);
        let index = (durable && is_clustered).then(|| followers.committed());
        let reached = Reached { local: durable, replicas: followers.count(index) };
        let is_enough = (!local || durable) && reached.replicas >= replicas;
        // A standalone server has always answered this at once.
        if at_once || is_enough || !tells_local && !is_clustered {
            return Ok(Some(reached));
        }
        if local
            && !durable
            && let JournalTrouble::Failed(cause) = &self.shown.trouble
        {
            return Err(Misconf::Failed { cause: cause.clone().into() }.to_string());
        }
        let limit_us = mono_us.saturating_add(timeout_ms.saturating_mul(1_000));
        let limit_us = (timeout_ms > 0).then_some(limit_us);
        let needs_batch = is_clustered || replicas == 0;
        let for_what = For { batch, index, replicas, tells_local };
        self.waits.wait_durable(client, for_what, needs_batch, limit_us);
        Ok(None)
    }

    /// How much of this node's decisions the other nodes have; nothing unless it decides.
    pub fn followers(&mut self) -> Followers {
        let Some(node) = self.replicated().filter(|node| node.decides()) else {
            return Followers::default();
        };
        let committed = node.position().index.0;
        node.mailbox
            .status()
            .map_or_else(Followers::default, |status| Followers::of(&status, committed))
    }

    /// Answers clients that wait for other nodes which have the changes now.
    pub fn end_replicated_waits(&mut self, outputs: &mut Outputs) {
        if self.waits.wants_replicas() {
            let followers = self.followers();
            self.waits.end_replicated(&followers, outputs);
        }
    }

    /// Answers clients whose wait has timed out.
    pub fn end_late_waits(&mut self, outputs: &mut Outputs, mono_us: u64) {
        if self.waits.next_limit_us().is_some_and(|limit_us| limit_us <= mono_us) {
            let followers = self.followers();
            self.waits.end_late(mono_us, &self.shown, &followers, outputs);
        }
    }

    /// Ends the journal in order. Blocks until everything is on disk, or, on a node whose disk hangs, for a while: the
    /// other nodes have the missing entries.
    pub fn close(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.journaling, Journaling::Absent) {
            Journaling::Absent => Ok(()),
            Journaling::Loading(mut loading) => {
                loading.cancel();
                Ok(())
            }
            Journaling::Running(running) => {
                if !running.journal.stop().map_err(io::Error::other)? {
                    tracing::warn!(
                        "the disk does not answer: this node receives what it lacks from the others"
                    );
                    // The folder stays taken as long as something may still be written to it.
                    std::mem::forget(self.lock.take());
                }
                Ok(())
            }
        }
    }
}
