//! A node's log, whose operations take the world's time.

use crate::support::lossy::Lossy;
use delayd::cluster::raft::entry::Write;
use delayd::cluster::raft::output::Fetch;
use delayd::server::cluster::entry_log::{EntryLog, Op};
use delayd::server::cluster::raft_loop::{LogDone, NodeLog};
use std::collections::VecDeque;
use std::mem::take;

pub struct SlowLog {
    pub entries: EntryLog<Lossy>,
    /// To be done.
    ops: VecDeque<Op>,
    /// Done and not told; what was read is told when the write is over that was begun with it.
    done: Vec<LogDone>,
    read: Vec<LogDone>,
    pub is_writing: bool,
}

impl NodeLog for SlowLog {
    fn write(&mut self, write: Write) {
        self.ops.push_back(Op::Write(write));
    }

    fn fetch(&mut self, fetch: Fetch) {
        self.ops.push_back(Op::Fetch(fetch));
    }

    fn stamp(&mut self, commit: u64) {
        self.ops.push_back(Op::Stamp(commit));
    }

    fn drop_before(&mut self, index: u64) {
        self.ops.push_back(Op::Drop(index));
    }

    fn take_done(&mut self) -> Vec<LogDone> {
        take(&mut self.done)
    }
}

impl SlowLog {
    pub fn new(entries: EntryLog<Lossy>) -> SlowLog {
        let (ops, done, read) = (VecDeque::new(), Vec::new(), Vec::new());
        SlowLog { entries, ops, done, read, is_writing: false }
    }

    /// It begins with all that it is asked to do, if it has nothing in hand.
    pub fn begin_to_write(&mut self) -> bool {
        if self.is_writing || self.ops.is_empty() {
            return false;
        }
        self.entries.carry_out(&mut self.ops, &mut self.read).expect("the disk works");
        self.is_writing = true;
        true
    }

    /// What it had in hand is done.
    pub fn end_write(&mut self) {
        self.is_writing = false;
        self.done.append(&mut self.read);
        if self.entries.is_unsynced() {
            self.entries.sync(&mut self.done).expect("the disk works");
        }
    }

    /// All is written that there is, as at an orderly end.
    pub fn close(&mut self) {
        self.end_write();
        if self.begin_to_write() {
            self.end_write();
        }
        self.entries.log.note_state().expect("the disk works");
        self.entries.log.sync().expect("the disk works");
    }
}
