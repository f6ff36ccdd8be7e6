//! A machine: a node, the disk it writes to, and its clock.

use super::world::E;
use delayd::cluster::raft::entry::{Base, LogEntry, Payload, Vote, Write};
use delayd::cluster::raft::node::Node;
use delayd::cluster::raft::start::Start;
use delayd::cluster::timing::lease::Lease;
use delayd::limits::MEMBERS_PENDING_MAX;
use std::collections::{BTreeMap, VecDeque};

pub struct Machine {
    pub id: u64,
    /// None while it is down.
    pub node: Option<Node>,
    /// Grows with each start and each kill.
    pub life: u64,
    pub disk: Disk,
    /// Of its clock, millionths: what passes on it in a second.
    pub rate: u64,
    /// It stands still until then; what comes meanwhile waits.
    pub paused_until: u64,
    pub inbox: VecDeque<super::world::Event>,
    /// While it runs nobody else leads.
    pub lease: Lease,
    /// Who and what it was when last looked at.
    pub led: Option<u64>,
    pub ticks: u64,
    pub applied: u64,
    /// Proposed here and not answered, by index.
    pub proposed: BTreeMap<u64, (u64, Payload)>,
    pub wants_base: bool,
}

/// What survives a kill, and what may.
pub struct Disk {
    pub base: Base,
    /// Index and term before the first entry.
    pub before: (u64, u64),
    pub entries: Vec<LogEntry>,
    pub vote: Vote,
    pub commit: u64,
    /// What of that is found after a kill.
    pub stamped: u64,
    /// Written and not synced, in order.
    pub queue: VecDeque<Write>,
    /// How many of them the sync that runs will make durable; 0 if none runs.
    pub syncing: usize,
    /// How long a sync takes, µs.
    pub sync_us: u64,
    /// Nothing that is written becomes durable.
    pub is_full: bool,
    /// No sync ends.
    pub is_hung: bool,
}

impl Disk {
    pub fn of(base: Base, sync_us: u64) -> Disk {
        Disk {
            vote: Vote { term: base.term, voted_for: 0 },
            commit: base.index,
            stamped: base.index,
            before: (base.index, base.term),
            base,
            entries: Vec::new(),
            queue: VecDeque::new(),
            syncing: 0,
            sync_us,
            is_full: false,
            is_hung: false,
        }
    }

    /// The first writes of the queue become durable; the number of the last of them.
    pub fn make_durable(&mut self, count: usize) -> Option<u64> {
        let mut last = None;
        for _ in 0..count {
            let write = self.queue.pop_front().expect("it was written");
            last = Some(write.number);
            if let Some(base) = write.base {
                self.entries.clear();
                self.before = (base.index, base.term);
                self.base = base;
            }
            if !write.entries.is_empty() || write.vote.is_some() {
                // A journal tells what is committed with what it writes next.
                self.stamped = self.commit;
            }
            if let Some(first) = write.entries.first() {
                self.entries.retain(|entry| entry.index < first.index);
            }
            for entry in write.entries {
                if matches!(entry.payload, Payload::Members(_)) {
                    let pending = self.members_pending();
                    assert!(
                        pending < MEMBERS_PENDING_MAX,
                        "entry {}: a journal refuses it",
                        entry.index
                    );
                }
                self.entries.push(entry);
            }
            self.vote = write.vote.unwrap_or(self.vote);
            self.commit = self.commit.max(write.commit);
        }
        last
    }

    /// What was not synced is gone, but for the first writes of it, and so is what was not told.
    pub fn lose(&mut self, kept: usize) {
        self.make_durable(kept.min(self.queue.len()));
        self.queue.clear();
        (self.syncing, self.commit) = (0, self.stamped.max(self.base.index));
    }

    /// Changes of members that a journal remembers: the newest that it knows committed, and those behind it.
    fn members_pending(&self) -> usize {
        let members =
            self.entries.iter().filter(|entry| matches!(entry.payload, Payload::Members(_)));
        let (before, after): (Vec<u64>, Vec<u64>) =
            members.map(|entry| entry.index).partition(|index| *index <= self.commit);
        usize::from(!before.is_empty() || self.base.index > 0) + after.len()
    }

    /// A base of what is durable takes its place; the log keeps what is from `first` on.
    pub fn put_base(&mut self, base: Base, first: u64) {
        let gone = self.entries.partition_point(|entry| entry.index < first);
        if let Some(last) = self.entries.drain(..gone).last() {
            self.before = (last.index, last.term);
        }
        self.base = base;
    }

    /// What a node begins with, and what of it was applied after the base: nothing, or all that is known committed.
    pub fn start(
        &self,
        id: u64,
        seed: u64,
        cache_bytes: usize,
        replay: bool,
    ) -> (Start, Vec<LogEntry>) {
        let base = self.base.clone();
        let commit = self.stamped.max(base.index);
        let applied = if replay { commit } else { base.index };
        let (before, entries): (Vec<LogEntry>, Vec<LogEntry>) =
            self.entries.iter().cloned().partition(|entry| entry.index <= applied);
        let mut terms: Vec<(u64, u64)> =
            before.iter().map(|entry| (entry.index, entry.term)).collect();
        terms.dedup_by_key(|(_, term)| *term);
        let replayed: Vec<LogEntry> =
            before.into_iter().filter(|entry| entry.index > base.index).collect();
        let mut members = base.members.clone();
        for entry in &replayed {
            if let Payload::Members(next) = &entry.payload {
                members = next.clone();
            }
        }
        let (vote, before) = (self.vote, self.before);
        let start = Start {
            id,
            vote,
            commit,
            base,
            before,
            terms,
            applied,
            members,
            entries,
            seed,
            cache_bytes,
        };
        (start, replayed)
    }

    /// Entries from `low` to before `high`, at most so many bytes of them but one.
    pub fn read(&self, low: u64, high: u64, bytes_max: usize) -> Vec<LogEntry> {
        let from = self.entries.partition_point(|entry| entry.index < low);
        let mut bytes = 0;
        let found = self.entries[from..].iter().take_while(|entry| {
            let is_first = bytes == 0;
            bytes += entry.bytes().max(1);
            entry.index < high && (is_first || bytes <= bytes_max)
        });
        found.cloned().collect()
    }
}

impl Machine {
    pub fn new(id: u64, disk: Disk, rate: u64) -> Machine {
        Machine {
            id,
            node: None,
            life: 0,
            disk,
            rate,
            paused_until: 0,
            inbox: VecDeque::new(),
            lease: Lease::new(E),
            led: None,
            ticks: 0,
            applied: 0,
            proposed: BTreeMap::new(),
            wants_base: false,
        }
    }

    /// Starts with what the disk has. `replay` says whether what is known committed was applied before, as a
    /// recovery does, or the state begins as of the base.
    pub fn start(&mut self, seed: u64, cache_bytes: usize, replay: bool) -> Vec<LogEntry> {
        let (start, replayed) = self.disk.start(self.id, seed, cache_bytes, replay);
        self.applied = start.base.index;
        self.node = Some(Node::new(start).expect("its disk is right"));
        self.life += 1;
        self.led = None;
        self.lease.lose();
        self.ticks = 0;
        replayed
    }

    /// Stops at once; of what was not synced the first `kept` writes are there all the same.
    pub fn kill(&mut self, kept: usize) {
        self.disk.lose(kept);
        self.node = None;
        self.life += 1;
        self.led = None;
        self.lease.lose();
        self.paused_until = 0;
        self.inbox.clear();
        self.proposed.clear();
        self.wants_base = false;
    }

    pub fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("it runs")
    }

    /// What its clock shows, µs.
    pub fn clock(&self, now: u64) -> u64 {
        now * self.rate / 1_000_000
    }

    /// When its lease runs out, by the world's time; 0 without one.
    pub fn lease_until(&self) -> u64 {
        self.lease.until().map_or(0, |clock| clock.0 * 1_000_000 / self.rate)
    }

    pub fn leads(&self) -> bool {
        self.node.as_ref().is_some_and(Node::is_leading)
    }
}
