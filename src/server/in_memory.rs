//! A server without sockets, files, threads and a time of its own. The turn is the real one, with its budgets, its
//! gate and its checks; what is around it is the caller: clients, the clock, the disk. Tests and transcripts
//! drive it.

use crate::cluster::driver::NodeIdentity;
use crate::cluster::peer::verify::Verification;
use crate::cluster::raft::member::Role;
use crate::config::Config;
use crate::config::options::Name;
use crate::engine::journal_room::Flow;
use crate::engine::observe::histogram::CounterHistogram;
use crate::engine::observe::survey::QueueWalk;
use crate::engine::{Engine, Settings};
use crate::ids::ClientId;
use crate::journal::recovery::{Progress, Recovered};
use crate::journal::{Log, Storage};
use crate::limits::{SCRAPED_PER_TURN, TICK_US};
use crate::observe::cluster::ClusterView;
use crate::observe::metrics::top::Top;
use crate::observe::metrics::{self, Format, TURN_US};
use crate::server::clock::timer::Timer;
use crate::server::cluster::mailbox::Mailbox;
use crate::server::connection::memory;
pub use crate::server::connection::memory::FarEnd;
use crate::server::connection::stream::{Accepted, ConnectionEnds, Stream};
use crate::server::connection::wake::Notifier;
use crate::server::core::Core;
use crate::server::durability::Journaling;
use crate::server::durability::commit::by_hand::ByHand;
use crate::server::durability::commit::replicated::Own;
use crate::server::durability::loading::{Loaded, Loading};
use crate::server::durability::node::{by_hand, reader};
use crate::server::durability::running::RunningJournal;
use crate::server::observe::logs::LogLevel;
use crate::server::observe::zones::ZoneTables;
use crate::server::turn::Turns;
use crate::server::turn::demotion::standing_of;
use crate::server::turn::succession::Succession;
use crate::session::NodeStanding;
use crate::time::{Micros, Millis};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::task::Waker;

/// Where nothing is said.
const SENTINEL_PORT: u16 = 26_379;

/// In a long span this many parts get a tick each instead of each second.
const TICKS_A_SPAN: u64 = 1 << 10;

/// See the module. Two that are asked the same answer the same.
///
/// ```
/// use delayd::config::Config;
/// use delayd::server::in_memory::InMemory;
/// use delayd::time::{Micros, Millis};
///
/// let start = Millis(1_893_456_000_000);
/// let mut config = Config::default();
/// config.set("appendonly", &["no".to_owned()]).unwrap();
/// let mut server = InMemory::new(config, start);
/// let client = server.connect();
/// client.send(b"DELAY.ADD mail 30s hello ID x\r\nDELAY.POP mail 0\r\n");
/// server.run();
/// assert_eq!(client.receive(), b"$1\r\nx\r\n");
/// assert!(server.is_waiting(&client));
/// server.go_to(Micros((start.0 + 30_000) * 1_000));
/// assert_eq!(client.receive(), b"*3\r\n$4\r\nmail\r\n$1\r\nx\r\n$5\r\nhello\r\n");
/// ```
#[derive(Debug)]
pub struct InMemory {
    turns: Turns,
    notifier: Arc<Notifier>,
    disk: Option<ByHand>,
    loading: Option<JournalReading>,
    /// On a node.
    mailbox: Option<Arc<Mailbox>>,
    /// On a node that is being stopped.
    succession: Option<Succession>,
}

/// A journal that is being read.
#[derive(Debug)]
struct JournalReading {
    progress: Arc<Progress>,
    then: Journaling,
    /// Nothing is sent, but the loading would notice its end.
    _sender: Sender<Loaded>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeProgress {
    /// How far its engine is, as far as that is committed.
    pub applied: u64,
    /// The engine has nothing beyond that.
    pub is_settled: bool,
    pub decides: bool,
    /// How often its engine had to be read again.
    pub reloads: u64,
    /// The time of its turn.
    pub now: Micros,
}

/// At one instant; the largest of the tests needs some thousands.
const TURNS_MAX: u32 = 1_000_000;

impl InMemory {
    /// A server whose clock starts at `start`, without a journal. Its time-zone tables are those in the program, unless
    /// the options name a folder.
    ///
    /// # Panics
    /// If there are no tables in it.
    pub fn new(config: Config, start: Millis) -> InMemory {
        let notifier = Arc::<Notifier>::default();
        let timer = Timer::by_hand(start.start().0);
        let port = u16::try_from(config.number(Name::Port)).unwrap_or_default();
        let mut core = Core::new(config, port, LogLevel::default(), Arc::clone(&notifier), timer);
        // The server's random values, fixed so that they are the same each time.
        let settings = Settings { hash_seed: 7, ..core.engine.settings().clone() };
        let zones = ZoneTables::read(&core.options.config, None);
        core.set_zones(zones.unwrap_or_else(|why| panic!("{why}")));
        core.replace_engine(Engine::new(settings));
        core.engine.collect_events(core.options.limits.notify.is_on());
        core.process.run_id = "0123456789abcdef".repeat(3)[..40].to_owned();
        core.process.chance = 7;
        let turns = Turns::new(core, Arc::clone(&notifier));
        let mut server = InMemory {
            turns,
            notifier,
            disk: None,
            loading: None,
            mailbox: None,
            succession: None,
        };
        server.run();
        server
    }

    /// A node of a cluster, whose wall clock shows `wall`, with what was recovered from `storage`; and its log, which
    /// the caller writes to, because the caller is the other side of [`InMemory::mailbox`].
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn node<S: Storage + 'static>(
        config: Config,
        wall: Micros,
        identity: &NodeIdentity,
        storage: Arc<S>,
        mut recovered: Recovered<S>,
    ) -> io::Result<(InMemory, Log<S>)> {
        let mut server = InMemory::new(config, wall.floor());
        let mailbox = Mailbox::new(Arc::clone(&server.notifier))?;
        server.mailbox = Some(Arc::clone(&mailbox));
        let core = &mut server.turns.core;
        let config = &core.options.config;
        let own = Own {
            id: identity.node,
            node: identity.own.clone(),
            election_us: identity.election_us,
            lease_grace_us: config.number(Name::ClusterLeaseGrace) * 1_000,
            max_skew_us: config.number(Name::ClusterMaxClockSkew) * 1_000,
            reader: reader(storage, recovered.log.view()),
        };
        let (last, notifier) = (recovered.now, Arc::clone(&server.notifier));
        let (engine, running, log) = by_hand(recovered, own, mailbox, config, notifier);
        core.replace_engine(engine);
        core.durability.journaling = Journaling::Running(Box::new(running));
        core.reconfigure();
        core.clock.restart(last, core.options.limits.clock_jump_us_max);
        core.outputs.gate.turn = 1;
        server.run();
        Ok((server, log))
    }

    /// On a node: the exchange between its turn and Raft.
    ///
    /// # Panics
    /// If it is not a node.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        self.mailbox.as_ref().expect("a node")
    }

    /// On a node: the progress of its turn.
    ///
    /// # Panics
    /// If it is not a node.
    pub fn progress(&mut self) -> NodeProgress {
        let now = self.now();
        let node = self.turns.core.durability.replicated().expect("a node");
        NodeProgress {
            applied: node.position().index.0,
            is_settled: node.is_committed() && !node.is_loading(),
            decides: node.decides(),
            reloads: node.reloads,
            now,
        }
    }

    /// Whether the other side of [`InMemory::mailbox`] has woken the turn since it last ran.
    pub fn has_news(&self) -> bool {
        self.notifier.has_news()
    }

    /// When a turn is to begin at the latest; of the monotonic clock, which begins with 1 s.
    pub fn wake_by_us(&self) -> u64 {
        self.turns.wake_by_us()
    }

    /// Moves the monotonic clock there, and lets everything happen that can.
    pub fn run_at(&mut self, mono_us: u64) {
        let Timer::ByHand(timer) = &mut self.turns.core.clock.timer else {
            unreachable!("made so")
        };
        timer.mono_us = mono_us;
        self.run();
    }

    /// Sets the wall clock: it is this many µs ahead of the monotonic one from here on.
    pub fn set_wall(&mut self, ahead_us: u64) {
        let Timer::ByHand(timer) = &mut self.turns.core.clock.timer else {
            unreachable!("made so")
        };
        timer.wall_ahead_us = ahead_us;
        let (clock, limits) = (&mut self.turns.core.clock, &self.turns.core.options.limits);
        clock.compare(clock.mono_us, limits.clock_jump_us_max);
    }

    /// A stop begins, as in a process that receives SIGTERM: no new command is taken. The caller continues until
    /// [`InMemory::is_drained`], and then with [`InMemory::end_bound`].
    pub fn drain(&mut self) {
        self.turns.drain();
        self.run();
    }

    /// Whether every reply has left.
    pub fn is_drained(&self) -> bool {
        self.turns.is_drained()
    }

    pub fn end_bound(&mut self) {
        self.turns.end_bound().expect("a journal by hand");
        self.run();
    }

    /// On a node that is being stopped: if it leads, another one is asked to. Returns whether it must not end yet.
    pub fn hands_over(&mut self) -> bool {
        let now_us = self.turns.core.clock.timer.mono_us();
        let succession = self.succession.get_or_insert_with(|| Succession::begin(now_us));
        self.turns.stays_for(succession)
    }

    /// A new client, which has been let in or refused.
    pub fn connect(&mut self) -> FarEnd {
        let port = self.turns.core.process.port;
        self.connect_to(port)
    }

    /// As [`InMemory::connect`], to the port that answers as a Sentinel: there is one from here on.
    pub fn connect_to_sentinel(&mut self) -> FarEnd {
        let port = *self.turns.core.sentinel.port.get_or_insert(SENTINEL_PORT);
        self.connect_to(port)
    }

    fn connect_to(&mut self, port: u16) -> FarEnd {
        let id = ClientId(self.turns.next_id);
        let (near, far) = memory::connection(id);
        let at = |port: u64| SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
        let peer = ConnectionEnds::Tcp { peer: at(50_000 + id.0), local: at(port.into()) };
        self.turns.accepted.push(Accepted::Ready(Stream::Memory(near), peer));
        self.run();
        far
    }

    /// As [`InMemory::connect`], by a client that speaks RESP3. Its HELLO leaves no trace in what is counted.
    pub fn connect_resp3(&mut self) -> FarEnd {
        let client = self.connect();
        self.speak_resp3(client)
    }

    /// As [`InMemory::connect_resp3`], for a client that has just connected.
    pub fn speak_resp3(&mut self, client: FarEnd) -> FarEnd {
        let watch = &mut self.turns.core.watch;
        let (counters, commands) = (watch.counters, std::mem::take(&mut watch.commands));
        let slow_log = std::mem::take(&mut watch.slow_log);
        client.send(b"HELLO 3\r\n");
        self.run();
        client.receive();
        let watch = &mut self.turns.core.watch;
        (watch.counters, watch.commands, watch.slow_log) = (counters, commands, slow_log);
        client
    }

    /// Everything happens that can happen at this instant.
    ///
    /// # Panics
    /// If that has no end.
    pub fn run(&mut self) {
        for turns in 0.. {
            assert!(turns < TURNS_MAX, "{turns} turns at one instant");
            self.turns.turn().expect("a journal by hand loads without an error");
            self.stop_if_asked();
            if let Some(disk) = &mut self.disk {
                disk.step(self.turns.core.clock.mono_us);
            }
            if !self.wake() && !self.turns.is_behind() {
                return;
            }
        }
    }

    /// The time of the turn.
    pub fn now(&self) -> Micros {
        self.turns.core.clock.now
    }

    /// When something happens next by itself, if that is not after `until`.
    pub fn next_event(&mut self, until: Micros) -> Option<Micros> {
        let Turns { core, tick_us, .. } = &mut self.turns;
        let tick_each_us = (until.0 - core.clock.now.0) / TICKS_A_SPAN;
        if tick_each_us > TICK_US {
            *tick_us = (*tick_us).max(core.clock.mono_us + tick_each_us);
            self.turns.note_turn_ended();
        }
        let disk_us = self.disk.as_ref().and_then(ByHand::next_us).unwrap_or(u64::MAX);
        let at = self.turns.core.clock.anchored.at(self.turns.wake_by_us().min(disk_us));
        Some(at.max(self.now())).filter(|at| *at <= until)
    }

    /// Moves the clock there; what is due until then happens at its time.
    ///
    /// # Panics
    /// If that is in the past.
    pub fn go_to(&mut self, until: Micros) {
        while let Some(at) = self.next_event(until) {
            self.set_time(at);
            self.run();
            if at == until {
                return;
            }
        }
        self.set_time(until);
        self.run();
    }

    pub fn is_waiting(&self, client: &FarEnd) -> bool {
        let outputs = &self.turns.core.outputs;
        outputs.slot(client.id).is_some_and(|slot| outputs.of(slot).waiting)
    }

    /// The names of the commands that have run since the last reset.
    pub fn commands(&self) -> impl Iterator<Item = &'static str> {
        let all = self.turns.core.watch.commands.sorted();
        all.into_iter().filter(|(_, stats)| stats.calls > 0).map(|(name, _)| name)
    }

    /// The limits of a simulated journal from here on.
    pub fn set_flow(&mut self, flow: Flow) {
        self.turns.core.engine.set_flow(self.now(), flow);
        self.run();
    }

    /// The server's role to its clients from here on, as a node of a cluster.
    pub fn stand(&mut self, standing: NodeStanding) {
        self.turns.stand(standing);
        self.run();
    }

    /// As [`InMemory::stand`], as follows from what a node of a cluster is and knows. It may answer reads as a follower
    /// if its engine has nothing but what is committed.
    pub fn join(&mut self, role: Role, is_committed: bool, view: ClusterView) {
        let standing = standing_of(role, is_committed, &view, true);
        self.show_cluster(view);
        self.stand(standing);
    }

    /// The status of a cluster from here on.
    pub fn show_cluster(&mut self, view: ClusterView) {
        self.turns.core.show_cluster(Box::new(view));
    }

    /// The answers of `/readyz` and `/leaderz`, and the server's state in words.
    pub fn probes(&self) -> (bool, bool, String) {
        let standing = self.turns.standing(false);
        (standing.is_ready(), standing.leads(), standing.to_string())
    }

    /// The current content of `/metrics`, with all queues.
    pub fn metrics(&mut self) -> String {
        let (mut top, mut walk) = (Top::new(0), Some(QueueWalk::default()));
        while let Some(from) = walk {
            let now = self.now();
            let engine = &mut self.turns.core.engine;
            walk = engine.walk(from, SCRAPED_PER_TURN, now, |queue| top.add(queue));
        }
        let scrape = self.turns.scrape(top, &CounterHistogram::new(&TURN_US));
        metrics::render(&[scrape], Format::Prometheus)
    }

    /// As [`InMemory::stand`], after which replies that still wait will never be confirmed.
    pub fn lose_replies(&mut self) {
        self.turns.close_leaving();
        self.run();
    }

    /// The state of the jobs, and how many facts were made that are in no batch yet.
    pub fn digest(&self) -> (u64, u64) {
        (self.turns.core.engine.digest(), self.turns.core.facts.count)
    }

    /// On a leader: asks the others to compare their data.
    pub fn verify(&mut self) {
        self.turns.core.durability.want_to_verify();
    }

    /// The result, as long as it leads.
    pub fn verification(&self) -> Option<&Verification> {
        self.turns.core.durability.verification()
    }

    /// On a node without a keeper: a base whose images are all made is cancelled.
    pub fn drop_base(&mut self) {
        let core = &mut self.turns.core;
        if let Some(running) = core.durability.running_mut()
            && running.compaction.is_imaged()
        {
            running.compaction.abandon(&mut core.engine, &running.journal);
            core.durability.shown.base_ended(None, 0);
        }
    }

    /// From here on there is a journal, whose syncs and bases take this long, µs.
    pub fn open_journal(&mut self, sync_us: u64, base_us: u64) {
        let core = &mut self.turns.core;
        core.options.config.set("appendonly", &["yes".to_owned()]).expect("it takes yes");
        let notifier = Arc::clone(&self.notifier);
        let (running, disk) = RunningJournal::by_hand(
            (sync_us, base_us),
            core.clock.mono_us,
            &core.options.config,
            notifier,
        );
        core.durability.journaling = Journaling::Running(Box::new(running));
        core.outputs.gate.turn = 1;
        self.disk = Some(disk);
        self.run();
    }

    /// From here on the journal's bases fail, for this cause.
    pub fn fail_bases(&mut self, cause: &str) {
        self.disk.as_mut().expect("a journal").fail_bases(cause);
    }

    pub fn fail_journal(&mut self, cause: &str) {
        self.disk.as_mut().expect("a journal").fail(cause);
        self.run();
    }

    /// A journal is being read, with this many bytes so far; all of them: it has been read.
    pub fn load(&mut self, loaded_bytes: u64, total_bytes: u64) {
        if self.disk.is_none() {
            self.open_journal(0, 0);
        }
        let core = &mut self.turns.core;
        let reading = self.loading.take().unwrap_or_else(|| {
            let progress = Arc::<Progress>::default();
            let (loading, _sender) = Loading::by_hand(Arc::clone(&progress), core.clock.mono_us);
            let loading = Journaling::Loading(Box::new(loading));
            JournalReading {
                progress,
                then: std::mem::replace(&mut core.durability.journaling, loading),
                _sender,
            }
        });
        reading.progress.total_bytes.store(total_bytes, Ordering::Relaxed);
        reading.progress.loaded_bytes.store(loaded_bytes, Ordering::Relaxed);
        if loaded_bytes < total_bytes {
            self.loading = Some(reading);
        } else {
            core.durability.journaling = reading.then;
            core.reconfigure();
        }
        self.run();
    }

    fn set_time(&mut self, at: Micros) {
        assert!(at >= self.now(), "the clock goes back");
        let Turns { core, .. } = &mut self.turns;
        let Timer::ByHand(timer) = &mut core.clock.timer else { unreachable!("made so") };
        timer.mono_us = core.clock.anchored.mono_us_of(at);
    }

    /// Takes up what was woken; false if nothing was.
    fn wake(&mut self) -> bool {
        let mut slots = Vec::new();
        let notified = self.notifier.take(&mut slots, Waker::noop());
        let woken = notified.notice || !slots.is_empty();
        self.turns.woken(&mut slots);
        woken
    }

    /// SHUTDOWN closes all connections.
    fn stop_if_asked(&mut self) {
        if self.turns.core.process.shutdown.take().is_some() {
            self.turns.drain();
            let slots: Vec<u32> = self.turns.clients.iter().map(|(slot, _)| slot).collect();
            slots.into_iter().for_each(|slot| self.turns.close(slot));
        }
    }
}
