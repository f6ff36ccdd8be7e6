//! The raft thread: a loop around the [`Driver`], which decides everything, and the [`Transport`].
//!
//! ```text
//!  sleep ─> tick, messages, what the log has done, what the turn asks and proposes ─> the driver
//!    ^                                                                                  │
//!    └── sockets <─ messages <──────────── the log <─ writes, in order <────────────────┘
//!                   the turn <─ what is committed, the lease, how the node stands
//! ```
//!
//! It touches no file and waits for nobody: neither a long turn nor a slow disk keeps heartbeats back. What a wake-up
//! made leaves in the same wake-up, the writes before the messages, so that the disk works while the others do.

use crate::cluster::driver::{Driver, DriverOutput, MemberChange, Told, WrongChange};
use crate::cluster::entry::{Entry, Payload, Write};
use crate::cluster::hello::Secret;
use crate::cluster::output::{Fetch, Refused};
use crate::cluster::verify::VerifyNote;
use crate::limits::{ELECTION_TICKS, HEARTBEAT_TICKS, UNSYNCED_BYTES_MAX};
use crate::server::clock::timer::{boot_us, wall_us};
use crate::server::cluster::bases::{BaseEvent, Bases};
use crate::server::cluster::desk::{Ask, Desk};
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::transport::Transport;
use crate::time::Micros;
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The log as this thread has it: what is asked of it is done elsewhere, in order, and told by
/// [`Desk::wakeup`].
pub trait NodeLog: Send + 'static {
    /// Begins to make it durable.
    fn write(&mut self, write: Write);
    /// Begins to read.
    fn fetch(&mut self, fetch: Fetch);
    /// Everything up to this index is known committed, which nothing that was written says yet.
    fn stamp(&mut self, commit: u64);
    /// What is before this index is in a base: begins to give up as much of it as is not to be kept.
    fn drop_before(&mut self, index: u64);
    /// What was done since the last call, in order.
    fn take_done(&mut self) -> Vec<Done>;
}

/// What the log has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The writes up to this number are durable.
    Persisted(u64),
    /// What the fetch of this number asked for; nothing if the log no longer has it.
    Fetched(u64, Vec<Entry>),
    /// The log begins with this index now.
    Dropped(u64),
    /// It failed, and does nothing more.
    Failed(String),
}

/// A raft thread that runs.
#[derive(Debug)]
pub struct RaftThread<L> {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<L>>,
}

impl<L: NodeLog> RaftThread<L> {
    /// Starts it. Whatever works for `log` wakes `desk`'s wake-up when something is done.
    ///
    /// # Errors
    /// The system has no descriptor or thread for it.
    pub fn start(
        driver: Driver,
        log: L,
        desk: Arc<Desk>,
        listeners: Vec<TcpListener>,
        secret: Secret,
        tls: PeerTls,
        bases: Option<Arc<Bases>>,
    ) -> io::Result<RaftThread<L>> {
        let election_us = driver.tick_us() * ELECTION_TICKS as u64;
        let wakeup = Arc::clone(desk.wakeup());
        let mut transport =
            Transport::new(driver.claims(), secret, election_us, listeners, wakeup)?;
        transport.set_tls(tls);
        transport.set_bases(bases);
        let host = Host {
            driver,
            log,
            desk: Arc::clone(&desk),
            transport,
            told: VecDeque::new(),
            stamped: 0,
            ticks: 0,
            has_heard: false,
            unsynced: VecDeque::new(),
            unsynced_bytes: 0,
            lost: Vec::new(),
            not_sent: Vec::new(),
            is_awake: true,
        };
        // Whoever asks is answered from the beginning.
        desk.publish(host.driver.status());
        let thread = std::thread::Builder::new().name("raft".to_owned());
        let thread = thread.spawn(move || {
            // A thread that panics must not leave the turn waiting for ever.
            let _guard = FailOnPanic(Arc::clone(&host.desk));
            host.run()
        })?;
        Ok(RaftThread { desk, thread: Some(thread) })
    }

    /// Ends it, and gives the log back; nothing if it had panicked. What it has written to the sockets still leaves.
    pub fn stop(mut self) -> Option<L> {
        self.end()
    }
}

impl<L> RaftThread<L> {
    fn end(&mut self) -> Option<L> {
        self.desk.ask(Ask::Stop);
        // A panic has been logged and is a failure already.
        self.thread.take()?.join().ok()
    }
}

impl<L> Drop for RaftThread<L> {
    fn drop(&mut self) {
        self.end();
    }
}

struct FailOnPanic(Arc<Desk>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a bug of delayd's own; see the log");
        }
    }
}

struct Host<L> {
    driver: Driver,
    log: L,
    desk: Arc<Desk>,
    transport: Transport,
    /// For which the turn had no room.
    told: VecDeque<Told>,
    /// The newest commit that the log was told.
    stamped: u64,
    ticks: usize,
    /// Writes that are not durable, by their numbers, and their bytes.
    unsynced: VecDeque<(u64, usize)>,
    unsynced_bytes: usize,
    /// Nodes to which something was lost.
    lost: Vec<u64>,
    /// Nodes to which a base could not be sent.
    not_sent: Vec<u64>,
    /// Something came since the status was written.
    has_heard: bool,
    /// There is more to do at once.
    is_awake: bool,
}

/// Whether the loop goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Turn,
    Stop,
}

impl<L: NodeLog> Host<L> {
    fn run(mut self) -> L {
        self.follow_members();
        loop {
            match self.turn() {
                Ok(Next::Turn) => {}
                Ok(Next::Stop) => return self.log,
                Err(error) => {
                    tracing::error!(%error, "the node takes no part any more: it cannot wait for its peers");
                    self.desk.fail(&error.to_string());
                    return self.log;
                }
            }
        }
    }

    fn turn(&mut self) -> io::Result<Next> {
        let has_ticked = self.transport.wait(std::mem::take(&mut self.is_awake))?;
        let now = Micros(self.transport.now_us());
        if has_ticked {
            self.driver.set_wall(now, wall_us());
            self.driver.tick(now);
            let not_sent = std::mem::take(&mut self.not_sent);
            not_sent.into_iter().for_each(|node| self.driver.base_ended(node, false));
        }
        std::mem::take(&mut self.lost).into_iter().for_each(|node| self.driver.unreachable(node));
        self.hear(now);
        if let Err(cause) = self.log_done(now) {
            // As if the process had ended: the others go on without it.
            self.desk.fail(&cause);
            return Ok(Next::Stop);
        }
        let next = self.answer_asks(now);
        while self.driver.takes() {
            let Some(batch) = self.desk.take_batch() else { break };
            self.has_heard = true;
            self.driver.propose(batch);
        }
        self.carry_out(has_ticked);
        Ok(next)
    }

    /// What peers say.
    fn hear(&mut self, now: Micros) {
        let Host { transport, driver, desk, has_heard, .. } = self;
        for message in transport.work(&mut |claims| driver.met(now, claims)) {
            let heard = match message.head.is_base() {
                true => Err(Refused::Base { peer: message.peer }),
                false => driver.receive(now, message.peer, message.head, message.bodies),
            };
            *has_heard = true;
            if let Err(refused) = heard {
                transport.refuse(message.token, refused);
            }
        }
        for node in transport.take_parted() {
            driver.parted(node);
        }
        for (node, note) in transport.take_verify() {
            desk.tell_verify(node, note);
        }
        transport
            .take_clocks()
            .iter()
            .for_each(|(node, note)| driver.clock_heard(now, *node, note));
        transport.take_refused().into_iter().for_each(|text| driver.refused(now, text));
        for event in transport.take_base_events() {
            *has_heard = true;
            match event {
                BaseEvent::Moved { to } => driver.base_moves(to),
                BaseEvent::Ended { to, arrived } => driver.base_ended(to, arrived),
                BaseEvent::Arrived { peer, head, bodies } => {
                    if let Err(refused) = driver.receive(now, peer, head, bodies) {
                        tracing::warn!("a base that came is of no use: {refused}");
                    }
                }
            }
        }
    }

    fn log_done(&mut self, now: Micros) -> Result<(), String> {
        for done in self.log.take_done() {
            self.has_heard = true;
            match done {
                Done::Persisted(number) => {
                    while let Some((_, bytes)) =
                        self.unsynced.front().filter(|(of, _)| *of <= number)
                    {
                        self.unsynced_bytes -= bytes;
                        self.unsynced.pop_front();
                    }
                    self.driver.persisted(now, number);
                }
                Done::Fetched(number, entries) => self.driver.fetched(number, entries),
                Done::Dropped(first) => self.driver.log_dropped(first),
                Done::Failed(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    fn answer_asks(&mut self, now: Micros) -> Next {
        let mut next = Next::Turn;
        for ask in self.desk.take_asks() {
            self.has_heard = true;
            match ask {
                Ask::MayLead(may) => self.driver.set_may_lead(may),
                Ask::HasRoom(has) => self.driver.set_has_room(has),
                Ask::Priority(priority) => self.driver.set_priority(priority),
                Ask::Resign => self.driver.resign(),
                Ask::HandOver(to) => {
                    if !self.driver.hand_over(now, to) && !self.driver.is_handing_over() {
                        tracing::info!("there is nobody to hand leadership over to");
                    }
                }
                Ask::Change(change) => {
                    if let Err(wrong) = self.driver.change(change.clone()) {
                        log_given_up(&change, &wrong);
                    }
                }
                Ask::BaseMade(base) => {
                    let index = base.index;
                    self.driver.base_made(base);
                    self.log.drop_before(index + 1);
                }
                Ask::Verify(to, note) => {
                    // An answer that does not arrive is missed there.
                    if let (Err(why), VerifyNote::Asked { index }) =
                        (self.transport.send_verify(to, note), note)
                    {
                        self.desk.tell_verify(to, VerifyNote::Missed { index, why });
                    }
                }
                Ask::Stop => next = Next::Stop,
            }
        }
        next
    }

    fn carry_out(&mut self, has_ticked: bool) {
        let DriverOutput { writes, messages, fetches, bases, told, given_up } =
            self.driver.take_output();
        given_up.iter().for_each(|(change, wrong)| log_given_up(change, wrong));
        for write in writes {
            self.stamped = self.stamped.max(write.commit);
            let bytes = write.entries.iter().map(Entry::bytes).sum();
            self.unsynced.push_back((write.number, bytes));
            self.unsynced_bytes += bytes;
            self.log.write(write);
        }
        fetches.into_iter().for_each(|fetch| self.log.fetch(fetch));
        self.transport.send(messages);
        for (index, message) in bases {
            let to = message.to;
            if !self.transport.send_base(index, message) {
                // Raft hears it with the next tick, and begins anew.
                self.not_sent.push(to);
            }
        }
        let now = Micros(boot_us());
        if self.driver.tells_clock(now, has_ticked.then_some(self.ticks)) {
            self.transport.send_clocks(|peer| self.driver.clock_note(now, peer));
        }
        self.lost = self.transport.flush();
        self.is_awake = !self.lost.is_empty();
        let is_news = told.iter().any(changes_the_status);
        self.told.extend(told);
        self.ticks += usize::from(has_ticked);
        if is_news {
            self.follow_members();
        }
        if is_news || has_ticked {
            self.show(is_news);
        }
        let (until, heard) = self.driver.lease();
        self.desk.set_lease(Micros(boot_us()), until, heard);
        self.desk.tell(&mut self.told);
        // A disk that is full or stuck: the leader goes on to send a little at each heartbeat.
        let is_behind = self.unsynced_bytes > UNSYNCED_BYTES_MAX;
        self.transport.set_full(!self.told.is_empty() || is_behind);
    }

    /// How the node stands, before the turn is told what comes of it. It is written anew at a tick if anything came
    /// since the last one; what only time changes may wait for the next heartbeat.
    fn show(&mut self, is_news: bool) {
        let is_heartbeat = self.ticks.is_multiple_of(HEARTBEAT_TICKS);
        if !is_heartbeat && !is_news && !std::mem::take(&mut self.has_heard) {
            return;
        }
        let status = self.driver.status();
        if is_heartbeat {
            self.follow_members();
            // Once in E: what is written says it anyway.
            if self.ticks.is_multiple_of(ELECTION_TICKS) && status.commit > self.stamped {
                self.stamped = status.commit;
                self.log.stamp(status.commit);
            }
        }
        self.desk.publish(status);
    }

    fn follow_members(&mut self) {
        self.transport.set_claims(self.driver.claims());
        self.transport.set_peers(self.driver.peers_to_dial());
    }
}

/// Somebody was told OK.
fn log_given_up(change: &MemberChange, wrong: &WrongChange) {
    tracing::warn!("{change} is given up, and may not have been done: {wrong}");
}

fn changes_the_status(told: &Told) -> bool {
    match told {
        Told::Elected { .. } | Told::Followed { .. } | Told::Restored(_) => true,
        Told::Delivered(entry) => matches!(entry.payload, Payload::Members(_)),
        Told::Refused { .. } | Told::BaseWanted => false,
    }
}
