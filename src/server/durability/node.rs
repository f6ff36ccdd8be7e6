//! A node of a cluster in the journal's place: what the turn asks of it beyond what every journal does.

use crate::cluster;
use crate::cluster::driver::{Driver, NodeIdentity};
use crate::cluster::members::claims::version_text;
use crate::cluster::members::directory;
use crate::cluster::options::node_list;
use crate::cluster::raft::member::EnginePosition;
use crate::config::options::Name;
use crate::config::{Config, folders};
use crate::engine::{Engine, Settings};
use crate::ids::Index;
use crate::journal::record::raft_state::Members;
use crate::journal::recovery::{Progress, ReadBase, Recovered, Replay, recover_beside};
use crate::journal::{Disk, Log, LogView, Storage};
use crate::limits::{
    LEVEL, LOG_CACHE_BYTES, LOG_CACHE_SHARE, LOG_KEEP_SHARE, PARTITION_CACHE_BYTES_MIN,
    PARTITION_LOG_KEEP_BYTES_MIN,
};
use crate::observe::cluster::ClusterView;
use crate::server::clock::timer::{Timer, boot_us};
use crate::server::clock::turn_clock::TurnClock;
use crate::server::cluster::bases::ArrivedBases;
use crate::server::cluster::bases::Bases;
use crate::server::cluster::entry_log::EntryLog;
use crate::server::cluster::mailbox::Mailbox;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::start::{identify, node_start};
use crate::server::cluster::thread::RaftThread;
use crate::server::connection::wake::Notifier;
use crate::server::durability::commit::keeper::Keeper;
use crate::server::durability::commit::log_thread::LogThread;
use crate::server::durability::commit::replicated::{Own, Replicated};
use crate::server::durability::commit::shared::WriterShared;
use crate::server::durability::commit::{Commit, Journal};
use crate::server::durability::compaction::Compaction;
use crate::server::durability::loading::{EngineReader, Loading, Reloaded};
use crate::server::durability::running::RunningJournal;
use crate::server::durability::{Durability, Journaling};
use crate::server::observe::machine;
use crate::time::Micros;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a node was asked to be, and where its peers come in.
#[derive(Debug)]
pub struct Clustered {
    pub options: cluster::options::ClusterOptions,
    pub listeners: Vec<TcpListener>,
    pub tls: PeerTls,
}

impl Clustered {
    /// Its name and addresses.
    fn node(&self) -> directory::Node {
        let cluster::options::ClusterOptions { node, peer, client, tls, sentinel, .. } =
            self.options.clone();
        directory::Node { name: node, peer, client, tls, sentinel }
    }

    /// The state of the cluster before its journal is loaded: without a known leader.
    pub fn view(&self) -> ClusterView {
        ClusterView::begun(&self.node(), self.options.election_us)
    }
}

/// Bytes of batches that are kept in memory for followers.
fn log_cache_bytes(config: &Config) -> usize {
    let most = (LOG_CACHE_BYTES / usize::from(config.partitions())).max(PARTITION_CACHE_BYTES_MIN);
    match config.part(Name::MaxMemory, 0) as usize {
        0 => most,
        max => (max / LOG_CACHE_SHARE as usize).min(most),
    }
}

/// Goes on as a node with what was recovered.
///
/// # Errors
/// The folder is another's; the system has no thread or descriptor.
pub(super) fn start(
    mut recovered: Recovered<Disk>,
    storage: Arc<Disk>,
    config: &Config,
    clustered: Clustered,
    notifier: Arc<Notifier>,
) -> io::Result<(Engine, RunningJournal)> {
    let node = clustered.node();
    let Clustered { options, listeners, tls } = clustered;
    let drawn = machine::random().max(1);
    let id = identify(&mut recovered.log, recovered.base_index, &options.node, drawn);
    let id = id.map_err(io::Error::other)?;
    let mut start = node_start(&recovered, id, machine::random()).map_err(io::Error::other)?;
    start.cache_bytes = log_cache_bytes(config);
    let members = members_of(&recovered);
    let Recovered { engine, mut log, index, first, epoch, now, base_first, .. } = recovered;
    let Recovered { base_index, base_bytes, opened, .. } = recovered;
    let (view, segment_bytes) = (log.view(), log.options().segment_bytes);
    let mailbox = Mailbox::new(Arc::clone(&notifier))?;
    let shared = Arc::new(WriterShared::new(notifier, index));
    // The first turn sees what room there is.
    shared.publish(&log);
    let keeper = Keeper::start(Arc::clone(&storage), log.spare_maker(), Arc::clone(&shared))?;
    let removed = match config.partitions() {
        1 => None,
        _ => folders::removed(&config.folder())?,
    };
    let removed = removed.map(|list| node_list(&list)).transpose().map_err(io::Error::other)?;
    let identity = NodeIdentity {
        node: id,
        own: node.clone(),
        nodes: options.nodes.clone(),
        version: version_text(crate::VERSION, config.partition, config.partitions()),
        level: LEVEL,
        election_us: options.election_us,
        cluster: u128::from(machine::random().max(1)) << 64 | u128::from(machine::random()),
        hash_seed: machine::random(),
        removed,
    };
    let driver = Driver::new(start, identity, Micros(boot_us()));
    let mut driver = driver.map_err(io::Error::other)?;
    let max_skew_us = config.number(Name::ClusterMaxClockSkew) * 1_000;
    driver.set_max_skew(max_skew_us);
    let wakeup = Arc::clone(mailbox.wakeup());
    let arrived = ArrivedBases::default();
    let rate = config.number(Name::ClusterSyncRate);
    let bases = Bases::new(Arc::clone(&storage), Arc::clone(&wakeup), Arc::clone(&arrived), rate);
    // A small disk is not to be filled with what others may never need.
    let space = storage.space().ok().flatten().map_or(u64::MAX, |space| space.journal_max);
    let kept_bytes =
        config.part(Name::ClusterLogKeep, PARTITION_LOG_KEEP_BYTES_MIN).min(space / LOG_KEEP_SHARE);
    let log = EntryLog::new(log, Arc::clone(&storage), arrived, kept_bytes);
    let log = LogThread::start(log, Arc::clone(&shared), Arc::new(move || wakeup.wake()))?;
    let (secret, bases) = (options.secret, Some(bases));
    let raft = RaftThread::start(driver, log, Arc::clone(&mailbox), listeners, secret, tls, bases)?;
    let own = Own {
        id,
        node,
        election_us: options.election_us,
        lease_grace_us: options.lease_grace_us,
        max_skew_us,
        reader: reader(storage, view),
    };
    let position = position(index, epoch, first);
    let replicated = Replicated::new(own, mailbox, Some(raft), position, members, now);
    let journal = Journal::new(shared, keeper, Commit::Replicated(Box::new(replicated)));
    let compaction = Compaction::new(base_index, base_bytes, opened.bytes);
    let mut running = RunningJournal::new(journal, compaction, segment_bytes, base_first, config);
    running.kept_bytes = kept_bytes;
    Ok((engine, running))
}

/// Loads the engine of a node again whose journal is in `storage`; `view` reads its log.
pub fn reader<S: Storage + 'static>(storage: Arc<S>, view: LogView<S>) -> EngineReader {
    Arc::new(move |up_to, settings, progress: &Progress| {
        let (engine, replay, base) = recover_beside(&*storage, &view, up_to, settings, progress)?;
        let Replay { index, epoch, first, now } = replay;
        let position = position(index, epoch, first);
        Ok(Box::new(Reloaded { engine, position, last: now, base }))
    })
}

/// A node without threads, from what was recovered: the caller on the other side of `mailbox` is its Raft and its log.
/// There is space for everything, and no base is ever due.
pub(in crate::server) fn by_hand<S: Storage>(
    recovered: Recovered<S>,
    own: Own,
    mailbox: Arc<Mailbox>,
    config: &Config,
    notifier: Arc<Notifier>,
) -> (Engine, RunningJournal, Log<S>) {
    let members = members_of(&recovered);
    let Recovered { engine, log, index, first, epoch, now, base_first, .. } = recovered;
    let segment_bytes = log.options().segment_bytes;
    let shared = Arc::new(WriterShared::new(notifier, index));
    shared.capacity_bytes.store(u64::MAX / 2, Ordering::Relaxed);
    let position = position(index, epoch, first);
    let replicated = Replicated::new(own, mailbox, None, position, members, now);
    let commit = Commit::Replicated(Box::new(replicated));
    let journal = Journal::new(shared, Keeper::idle(), commit);
    let compaction = Compaction::new(recovered.base_index, 0, 0);
    (engine, RunningJournal::new(journal, compaction, segment_bytes, base_first, config), log)
}

fn members_of<S: Storage>(recovered: &Recovered<S>) -> Option<Members> {
    let members = recovered.log.state().members.into_iter().rev();
    let applied = members.into_iter().find(|noted| noted.index <= recovered.index);
    applied.or_else(|| recovered.base_members.clone())
}

/// An empty log has no epoch.
fn position(index: Index, epoch: u64, first: u64) -> EnginePosition {
    EnginePosition { index, epoch: if index == Index(0) { 0 } else { epoch }, first }
}

impl Durability {
    /// This node of a cluster; none for a standalone server, and while the journal is read at the start.
    pub fn replicated(&mut self) -> Option<&mut Replicated> {
        self.running_mut()?.journal.replicated()
    }

    /// Why this node has left the cluster: its log or the thread of Raft has failed.
    pub fn node_failure(&mut self) -> Option<Arc<str>> {
        let running = self.running_mut()?;
        let failure = running.failure().cloned();
        failure.or_else(|| running.journal.replicated()?.mailbox.failure().cloned())
    }

    pub fn is_committed(&mut self) -> bool {
        self.replicated().is_none_or(|node| node.is_safe())
    }

    /// Whether the disk has space for added jobs, as admission sees it: if ADD is refused for the disk, there is none.
    pub fn has_room(&self) -> bool {
        self.running().is_some_and(|running| running.shortage().is_none() && !running.failed)
    }

    /// Another engine replaces this one: a base that is being written of it is cancelled, and requested again.
    pub fn engine_gives_way(&mut self, engine: &mut Engine, clock: &TurnClock) {
        let Journaling::Running(running) = &mut self.journaling else { return };
        running.compaction.forget();
        if running.compaction.abandon(engine, &running.journal) {
            self.shown.base_ended(Some("it was one of no jobs".to_owned()), clock.now_s());
            self.shown.base_wanted = true;
        }
    }

    /// Begins to load an engine that replaces `lost`, which has facts that will never be committed, or lacks what a
    /// base from another node has. A base being written of that one is cancelled.
    pub fn begin_reload(
        &mut self,
        mut lost: Engine,
        settings: Settings,
        clock: &TurnClock,
    ) -> io::Result<()> {
        let notifier = Arc::clone(&self.notifier);
        let Journaling::Running(running) = &mut self.journaling else {
            unreachable!("only what runs loses facts")
        };
        running.journal.forget_turns();
        if running.compaction.abandon(&mut lost, &running.journal) {
            self.shown.base_ended(Some("facts in it were lost".to_owned()), clock.now_s());
        }
        let node = running.journal.replicated().expect("a server alone loses nothing");
        let (reader, up_to) = (Arc::clone(&node.own.reader), node.position().index);
        let load = move |progress: &Progress| {
            // Millions of jobs take their time, and both engines at once would need twice the memory.
            drop(lost);
            reader(up_to, settings, progress)
        };
        let mono_us = clock.timer.mono_us();
        let loading = match &clock.timer {
            Timer::Machine => Loading::begin(load, notifier, mono_us)?,
            // Without threads: it is done at once, and found in the next turn.
            Timer::ByHand(_) => Loading::at_once(load, &notifier, mono_us),
        };
        running.reloading = Some(Box::new(loading));
        Ok(())
    }

    /// The engine, if it has been read since this was last asked.
    pub fn reloaded(&mut self, clock: &TurnClock) -> io::Result<Option<Box<Reloaded>>> {
        let Some(running) = self.running_mut() else { return Ok(None) };
        let Some(loading) = &mut running.reloading else { return Ok(None) };
        loading.log(clock.timer.mono_us());
        let Some(reloaded) = loading.loaded().transpose()? else { return Ok(None) };
        running.reloading = None;
        if let Some(ReadBase { index, first, bytes }) = reloaded.base
            && index > running.compaction.base_index
        {
            running.compaction.restored(index, bytes, &running.journal);
            running.base_first = first;
        }
        if let Some((index, bytes)) = running.late_base.take() {
            running.compaction.complete(index, bytes, &running.journal);
        }
        Ok(Some(reloaded))
    }
}
