//! One iteration of the raft thread: all input goes to the [`Driver`], which decides, and the results go to the log,
//! the peers and the turn.
//!
//! ```text
//!  sleep ─> tick, messages, what the log has done, what the turn asks and proposes ─> the driver
//!    ^                                                                                  │
//!    └── sockets <─ messages <──────────── the log <─ writes, in order <────────────────┘
//!                   the turn <─ what is committed, the lease, how the node stands
//! ```
//!
//! It accesses no file, socket or thread: [`NodeLog`] and [`Peers`] are around it, and `thread` waits. Tests of whole
//! nodes run it in virtual time. The output of a wake-up leaves in the same wake-up, the writes before the messages, so
//! that the disk works in parallel with the others.

use crate::cluster::driver::{
    Driver, DriverEvent, DriverOutput, MemberChange, Ticked, WrongChange,
};
use crate::cluster::peer::verify::VerifyNote;
use crate::cluster::raft::entry::{LogEntry, Payload, Write};
use crate::cluster::raft::output::{Fetch, RefusedMessage};
use crate::limits::{ELECTION_TICKS, HEARTBEAT_TICKS, QUIET_BEATS};
use crate::server::cluster::bases::BaseEvent;
use crate::server::cluster::mailbox::{Ask, Mailbox};
use crate::server::cluster::peers::{PeerNews, Peers};
use crate::time::Micros;
use std::collections::VecDeque;
use std::sync::Arc;

/// The log as the loop has it: what is asked of it is done elsewhere, in order, and the loop is woken when something
/// is done.
pub trait NodeLog {
    /// Begins to make it durable.
    fn write(&mut self, write: Write);
    /// Begins to read.
    fn fetch(&mut self, fetch: Fetch);
    /// Everything up to this index is known committed, which nothing that was written says yet.
    fn stamp(&mut self, commit: u64);
    /// Everything before this index is in a base: begins to drop as much of it as need not be kept.
    fn drop_before(&mut self, index: u64);
    /// The completed operations since the last call, in order.
    fn take_done(&mut self) -> Vec<LogDone>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDone {
    /// The writes up to this number are durable.
    Persisted(u64),
    /// The result of the fetch of this number; nothing if the log no longer has it.
    Fetched(u64, Vec<LogEntry>),
    /// The log begins with this index now.
    Dropped(u64),
    /// It failed, and does nothing more.
    Failed(String),
}

pub struct RaftLoop<L, P> {
    /// Raft, and what this node says of itself.
    pub driver: Driver,
    /// The log.
    pub log: L,
    /// The others.
    pub peers: P,
    mailbox: Arc<Mailbox>,
    /// For which the turn had no room.
    told: VecDeque<DriverEvent>,
    /// The newest commit position that was passed to the log.
    stamped: u64,
    /// Nodes to which something was lost.
    lost: Vec<u64>,
    /// Nodes to which a base could not be sent.
    not_sent: Vec<u64>,
    /// Something came since the status was written, other than heartbeats.
    has_heard: bool,
}

/// Whether the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopNext {
    /// It sleeps until something wakes it.
    Wait,
    /// The node has stopped: it was asked to end, or its log has failed, see [`Mailbox::failure`].
    Stop,
}

impl<L: NodeLog, P: Peers> RaftLoop<L, P> {
    /// For a node that has just started: publishes its status, and names its peers.
    pub fn new(driver: Driver, log: L, peers: P, mailbox: Arc<Mailbox>) -> RaftLoop<L, P> {
        // Status requests are answered from the beginning.
        mailbox.publish(driver.status());
        let mut raft = RaftLoop {
            driver,
            log,
            peers,
            mailbox,
            told: VecDeque::new(),
            stamped: 0,
            has_heard: false,
            lost: Vec::new(),
            not_sent: Vec::new(),
        };
        raft.follow_members();
        raft
    }

    /// Whether there is more to do without a wake-up.
    pub fn is_awake(&self) -> bool {
        !self.lost.is_empty()
    }

    /// When to go on if nothing wakes it before. To be asked before each sleep.
    pub fn wake_by(&mut self) -> Micros {
        // These wait for the next tick.
        let has_more = self.has_heard || !self.not_sent.is_empty() || !self.told.is_empty();
        if has_more { self.driver.next_tick() } else { self.driver.wake_by() }
    }

    /// Processes all input, at `now`; `wall_us` is the wall clock. `watch` sees the reports to the turn.
    pub fn step(&mut self, now: Micros, wall_us: u64, watch: impl FnMut(&DriverEvent)) -> LoopNext {
        self.driver.advance(now);
        // Before what has arrived: a leader was silent until now, and no longer.
        let ticked = self.driver.tick(now, Some(wall_us));
        if ticked.is_some() {
            let not_sent = std::mem::take(&mut self.not_sent);
            not_sent.into_iter().for_each(|node| self.driver.base_ended(node, false));
        }
        std::mem::take(&mut self.lost).into_iter().for_each(|node| self.driver.unreachable(node));
        self.hear(now);
        if let Err(cause) = self.log_done(now) {
            // As if the process had ended: the others go on without it.
            self.mailbox.fail(&cause);
            return LoopNext::Stop;
        }
        let next = self.answer_asks(now);
        while self.driver.takes() {
            let Some(batch) = self.mailbox.take_batch() else { break };
            self.has_heard = true;
            self.driver.propose(batch);
        }
        self.carry_out(ticked, watch);
        next
    }

    /// Peers' messages.
    fn hear(&mut self, now: Micros) {
        let RaftLoop { peers, driver, mailbox, has_heard, .. } = self;
        for message in peers.work(&mut |claims| driver.met(now, claims)) {
            *has_heard |= !message.head.is_heartbeat();
            let heard = match message.head.is_base() {
                true => Err(RefusedMessage::Base { peer: message.peer }),
                false => driver.receive(now, message.peer, message.head, message.bodies),
            };
            if let Err(refused) = heard {
                peers.refuse(message.token, refused);
            }
        }
        let PeerNews { parted, clocks, verify, refused } = peers.take_news();
        for node in parted {
            driver.parted(node);
        }
        for (node, conflict) in driver.unwanted() {
            peers.turn_away(node, conflict);
        }
        for (node, note) in verify {
            mailbox.tell_verify(node, note);
        }
        clocks.iter().for_each(|(node, note)| driver.clock_heard(now, *node, note));
        for (why, left_by) in refused {
            driver.refused(now, why, left_by);
        }
        for event in peers.take_base_events() {
            *has_heard = true;
            match event {
                BaseEvent::Moved { to } => driver.base_moves(to),
                BaseEvent::Ended { to, arrived } => driver.base_ended(to, arrived),
                BaseEvent::Arrived { peer, head, bodies } => {
                    if let Err(refused) = driver.receive(now, peer, head, bodies) {
                        tracing::warn!("received base rejected: {refused}");
                    }
                }
            }
        }
    }

    fn log_done(&mut self, now: Micros) -> Result<(), String> {
        for done in self.log.take_done() {
            self.has_heard = true;
            match done {
                LogDone::Persisted(number) => self.driver.persisted(now, number),
                LogDone::Fetched(number, entries) => self.driver.fetched(number, entries),
                LogDone::Dropped(first) => self.driver.log_dropped(first),
                LogDone::Failed(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    fn answer_asks(&mut self, now: Micros) -> LoopNext {
        let mut next = LoopNext::Wait;
        for ask in self.mailbox.take_asks() {
            self.has_heard = true;
            match ask {
                Ask::MayLead(may) => self.driver.set_may_lead(may),
                Ask::HasRoom(has) => self.driver.set_has_room(has),
                Ask::Priority(priority) => self.driver.set_priority(priority),
                Ask::Resign => self.driver.resign(),
                Ask::HandOver(to) => {
                    if !self.driver.hand_over(now, to) && !self.driver.is_handing_over() {
                        tracing::info!("there is no node to hand leadership over to");
                    }
                }
                Ask::Change(change) => {
                    if let Err(wrong) = self.driver.change(change.clone()) {
                        log_given_up(&change, &wrong);
                    }
                }
                Ask::Hint(nodes) => self.driver.hint(nodes),
                Ask::BaseMade(base) => {
                    let index = base.index;
                    self.driver.base_made(base);
                    self.log.drop_before(index + 1);
                }
                Ask::Verify(to, note) => {
                    // An answer that does not arrive is missed there.
                    if let (Err(why), VerifyNote::Asked { index }) =
                        (self.peers.send_verify(to, note), note)
                    {
                        self.mailbox.tell_verify(to, VerifyNote::Missed { index, why });
                    }
                }
                Ask::Stop => next = LoopNext::Stop,
            }
        }
        next
    }

    fn carry_out(&mut self, ticked: Option<Ticked>, watch: impl FnMut(&DriverEvent)) {
        let DriverOutput { writes, messages, fetches, bases, told, given_up } =
            self.driver.take_output();
        given_up.iter().for_each(|(change, wrong)| log_given_up(change, wrong));
        for write in writes {
            self.stamped = self.stamped.max(write.commit);
            self.log.write(write);
        }
        fetches.into_iter().for_each(|fetch| self.log.fetch(fetch));
        self.peers.send(messages);
        for (index, message) in bases {
            let to = message.to;
            if !self.peers.send_base(index, message) {
                // Raft notices it with the next tick, and starts again.
                self.not_sent.push(to);
            }
        }
        let now = self.peers.clock();
        if self.driver.tells_clock(now, ticked) {
            self.peers.send_clocks(|peer| self.driver.clock_note(now, peer));
        }
        self.lost = self.peers.flush();
        let members = told.iter().filter_map(of_members).max();
        if let Some(index) = members {
            self.stamped = self.stamped.max(index);
            self.log.stamp(index);
        }
        let is_news = told.iter().any(changes_the_status);
        told.iter().for_each(watch);
        self.told.extend(told);
        if is_news {
            self.follow_members();
        }
        if is_news || ticked.is_some() {
            self.show(is_news, ticked);
        }
        let (until, heard) = self.driver.lease();
        self.mailbox.set_lease(self.peers.clock(), until, heard);
        self.mailbox.tell(&mut self.told);
        // A disk that is full or stuck: the leader goes on to send a little at each heartbeat.
        self.peers.set_full(!self.told.is_empty() || self.driver.is_behind());
    }

    /// The node's status, before the turn is told the consequences. It is computed again at a tick if anything arrived
    /// since the last one; changes by time alone may wait for the next heartbeat, and while all is quiet for the third.
    fn show(&mut self, is_news: bool, ticked: Option<Ticked>) {
        let passes = |each| ticked.is_some_and(|ticked| ticked.passes(each));
        let beats = if self.driver.is_quiet() { QUIET_BEATS } else { 1 };
        let is_due = passes(beats * HEARTBEAT_TICKS);
        let has_heard = std::mem::take(&mut self.has_heard);
        if !is_due && !is_news && !has_heard {
            return;
        }
        let status = self.driver.status();
        if is_due {
            self.follow_members();
            // Once in E: what is written says it anyway.
            if passes(ELECTION_TICKS) && status.commit > self.stamped {
                self.stamped = status.commit;
                self.log.stamp(status.commit);
            }
        }
        self.mailbox.publish(status);
    }

    fn follow_members(&mut self) {
        self.peers.set_claims(self.driver.claims());
        self.peers.set_peers(self.driver.peers_to_dial());
    }
}

/// The requester was told OK.
fn log_given_up(change: &MemberChange, wrong: &WrongChange) {
    tracing::warn!("{change} is cancelled, and may not have been done: {wrong}");
}

/// The index of members that are committed.
fn of_members(told: &DriverEvent) -> Option<u64> {
    match told {
        DriverEvent::Delivered(entry) if matches!(entry.payload, Payload::Members(_)) => {
            Some(entry.index)
        }
        _ => None,
    }
}

fn changes_the_status(told: &DriverEvent) -> bool {
    match told {
        DriverEvent::Elected { .. } | DriverEvent::Followed { .. } | DriverEvent::Restored(_) => {
            true
        }
        DriverEvent::Delivered(_) => of_members(told).is_some(),
        DriverEvent::Safe { .. } | DriverEvent::Refused { .. } | DriverEvent::BaseWanted => false,
    }
}
