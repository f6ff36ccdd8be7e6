//! The output of Raft, and input for it when it can take it.

use super::roles::Resigns;
use super::{Driver, DriverEvent, Proposed, members_of, read};
use crate::cluster::members::claims::ClusterId;
use crate::cluster::peer::frame::Lane;
use crate::cluster::raft::entry::EpochFacts;
use crate::cluster::raft::member::DecidedBatch;
use crate::cluster::raft::output::{Output, RaftRole};
use crate::time::Micros;
use bytes::Bytes;

impl Driver {
    /// Takes all that Raft wants done, and gives it what has room now.
    pub(super) fn settle(&mut self) {
        self.absorb();
        while self.propose_next() {
            self.absorb();
        }
        if self.roles.begins_to_decide(self.node.is_leading()) {
            self.ask();
        }
    }

    fn absorb(&mut self) {
        let out = self.node.take_output();
        let Output { writes, messages, restored, committed, safe, confirmed, .. } = out;
        let (fetches, wants_base) = (out.fetches, out.wants_base);
        self.roles.look(&self.node, self.now, &mut self.lease, &mut self.out.told);
        for base in writes.iter().filter_map(|write| write.base.as_ref()) {
            self.learn_cluster(&base.members.directory);
        }
        for entry in writes.iter().flat_map(|write| &write.entries) {
            if let Some(members) = members_of(&entry.payload) {
                self.learn_cluster(&members.directory);
            }
        }
        if let Some(base) = restored {
            self.set_directory(read(&base.members.directory));
            self.roles.keep_heard(&base.members);
            self.out.told.push(DriverEvent::Restored(base));
        }
        self.freshness.applied(self.node.applied());
        for entry in committed {
            if let Some(members) = members_of(&entry.payload) {
                self.set_directory(read(&members.directory));
                self.roles.keep_heard(members);
                let all = members.all();
                self.clocks.keep(&all);
                // Reports of a node that was not a member were not trusted.
                self.clock_lacked = true;
                self.priorities.retain(|id, _| all.contains(id));
                self.sickness.keep(&all);
            }
            self.out.told.push(DriverEvent::Delivered(entry));
        }
        if let (Some(epoch), Some(end)) = (self.roles.led, safe) {
            self.out.told.push(DriverEvent::Safe { epoch, end });
        }
        confirmed.iter().for_each(|confirmed| self.lease.confirm(Micros(confirmed.asked)));
        writes.iter().for_each(|write| self.meter.wrote(write.number, self.now));
        self.out.writes.extend(writes);
        self.out.fetches.extend(fetches);
        if wants_base {
            self.out.told.push(DriverEvent::BaseWanted);
        }
        let tag = self.tag.unwrap_or(0);
        for mut message in messages {
            message.set_tag(tag);
            match message.lane {
                Lane::Base => self.out.bases.push((self.node.base().index, message)),
                Lane::Control | Lane::Data => self.out.messages.push(message),
            }
        }
    }

    /// For members that are recorded here for the first time.
    fn learn_cluster(&mut self, directory: &Bytes) {
        if self.cluster.is_none()
            && let Some(directory) = read(directory)
        {
            self.cluster = Some(ClusterId(directory.cluster));
            self.tag = self.cluster.map(ClusterId::tag);
        }
    }

    /// Gives Raft the next batch that waits, or refuses it; whether there may be more.
    fn propose_next(&mut self) -> bool {
        let Some(next) = self.waiting.front() else { return false };
        let Proposed { epoch, first, count, .. } = *next;
        let is_current = self.roles.led == Some(epoch);
        if is_current && (self.node.is_transferring() || !self.node.has_room(next.body.len())) {
            return false;
        }
        let Proposed { now, body, .. } = self.waiting.pop_front().expect("it was looked at");
        let batch = DecidedBatch { epoch, first, count: u64::from(count) };
        let facts = EpochFacts { first, now, count, body };
        let is_taken =
            self.proposals.admits(batch, self.roles.led) && self.node.propose(epoch, facts).is_ok();
        if !is_taken {
            self.proposals.refuse(batch);
            self.out.told.push(DriverEvent::Refused { epoch, first, count });
        }
        true
    }

    /// Asks the majority whether this node leads, at most once at a time.
    pub(super) fn ask(&mut self) {
        if self.roles.led.is_some() && self.asked < Some(self.now) {
            self.asked = Some(self.now);
            self.node.confirm(self.now.0);
            self.settle();
        }
    }

    pub(super) fn begin_to_hand_over(&mut self, to: Option<u64>) -> bool {
        let own = self.identity.node;
        let is_one = |id: &u64| *id != own && self.node.members().voters.contains(id);
        let asked = self.node.transferee();
        let to = to.map_or_else(|| self.successor(asked), |to| Some(to).filter(is_one));
        let is_leader = self.node.role() == RaftRole::Leader;
        let Some(to) = to.filter(|to| is_leader && asked != Some(*to)) else { return false };
        self.lease.end();
        let is_begun = self.node.transfer(to);
        self.settle();
        is_begun
    }

    pub(super) fn go_on_resigning(&mut self) {
        if self.node.is_transferring() {
            return;
        }
        match self.roles.resigns() {
            Resigns::No => {}
            Resigns::HandsOver if self.begin_to_hand_over(None) => {}
            Resigns::HandsOver | Resigns::StepsDown => {
                self.node.step_down();
                self.settle();
            }
        }
    }
}
