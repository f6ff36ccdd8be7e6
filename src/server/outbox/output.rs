//! Pending output to one client, and which parts of it hand over jobs.

use crate::limits::HANDED_KEPT;
use crate::observe::commands::ErrorCounts;
use crate::resp::{Encoder, Protocol};
use crate::server::connection::calls::Call;
use crate::server::connection::common::Buffers;
use crate::server::connection::unsent::Unsent;
use crate::server::outbox::gate::{Content, Gated, Run, TurnNo};
use crate::time::Millis;
use std::collections::VecDeque;

/// One client's output.
#[derive(Debug, Default)]
pub struct Output {
    /// Encoded replies that have not left.
    pub unsent: Unsent,
    /// The client waits for a job, or for the journal.
    pub waiting: bool,
    /// The command it waits in.
    pub call: Option<Box<Call>>,
    /// Where the replies begin that hand over jobs and have not begun to leave: positions in all that
    /// was ever written to the client.
    handed_at: VecDeque<u64>,
    /// When jobs in them fell due for which the client was waiting then, and where their reply begins.
    on_time: VecDeque<(u64, Millis)>,
    /// How much the kernel has taken.
    pub(super) sent_bytes: u64,
    /// The first of those replies goes to a client that had been waiting, perhaps for long: its
    /// peer may be gone without our having noticed.
    pub waited: bool,
    /// Bytes in the kernel's hands are not handed over yet: [`Output::handed_on`] reports it.
    pub holds_jobs: bool,
    /// Replies that wait for the journal.
    pub(super) gated: Gated,
    pub(super) protocol: Protocol,
    /// Replies are thrown away.
    pub(super) muted: bool,
    pub(super) scheduled: bool,
}

/// The outcome of jobs that were handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handed {
    /// They leave with the first byte of their reply, or with the bytes before it.
    Later,
    /// The client is muted and there is nothing before them: there is no byte to wait for.
    AtOnce,
}

impl Output {
    /// Whether replies that hand over jobs have not begun to leave.
    pub fn has_unsent_jobs(&self) -> bool {
        !self.handed_at.is_empty()
    }

    /// Where it ends: a position in all that was ever written to the client.
    pub fn end(&self) -> u64 {
        self.sent_bytes + self.unsent.len() as u64
    }

    pub fn held_bytes(&self) -> usize {
        self.unsent.held_bytes()
            + self.gated.bytes()
            + self.handed_at.capacity() * size_of::<u64>()
            + self.on_time.capacity() * size_of::<(u64, Millis)>()
            + self.call.as_ref().map_or(0, |call| call.bytes())
    }

    /// The reply that is written next hands over jobs.
    pub(super) fn hand_over(&mut self) -> Handed {
        let end = self.end();
        if self.handed_at.is_empty() {
            self.waited = self.waiting;
        }
        match self.muted {
            true if self.handed_at.is_empty() => return Handed::AtOnce,
            // No byte of its own: it leaves with the last of those before it.
            true => self.handed_at.push_back(end - 1),
            false => self.handed_at.push_back(end),
        }
        Handed::Later
    }

    /// The reply that is written next hands over jobs that fell due then, on time.
    pub(super) fn hand_over_on_time(&mut self, due: &[Millis]) {
        let at = self.end();
        self.on_time.extend(due.iter().map(|due| (at, *due)));
    }

    /// The kernel took `count` bytes. Returns how many replies that hand over jobs began to leave with them;
    /// when jobs in them fell due goes to `left`.
    pub(super) fn sent(
        &mut self,
        count: usize,
        buffers: &mut Buffers,
        left: &mut Vec<Millis>,
    ) -> usize {
        self.unsent.drop_first(count, buffers);
        self.sent_bytes += count as u64;
        let begun = if self.holds_jobs { 0 } else { self.handed_on(self.sent_bytes) };
        while let Some((at, due)) = self.on_time.front().copied()
            && at < self.sent_bytes
        {
            self.on_time.pop_front();
            left.push(due);
        }
        if self.on_time.is_empty() && self.on_time.capacity() > HANDED_KEPT {
            self.on_time = VecDeque::new();
        }
        begun
    }

    /// All before `position` has begun to leave. Returns how many replies that hand over jobs begin there.
    pub fn handed_on(&mut self, position: u64) -> usize {
        let begun = self.handed_at.iter().take_while(|at| **at < position).count();
        self.handed_at.drain(..begun);
        if self.handed_at.is_empty() && self.handed_at.capacity() > HANDED_KEPT {
            // A pipeline had taken many.
            self.handed_at = VecDeque::new();
        }
        begun
    }

    /// The journal failed: replies that report changes which are not safe, those of turns after `released`, contain
    /// `text` instead. All others may leave. True if they would have handed over jobs.
    pub(super) fn fail(
        &mut self,
        released: TurnNo,
        text: &str,
        buffers: &mut Buffers,
        errors: &mut ErrorCounts,
    ) -> bool {
        let runs = self.gated.take(released, self.end());
        let first = runs.first().map_or(self.sent_bytes, |run| run.range.start);
        let old = self.unsent.split_off((first - self.sent_bytes) as usize, buffers);
        for Run { range, content, count } in runs {
            match content {
                Content::Change => {
                    for _ in 0..count {
                        Encoder::new(self.unsent.writer(buffers), self.protocol).error(text);
                        errors.count(text);
                    }
                }
                Content::Message => {}
                Content::Nothing => {
                    let at = (range.start - first) as usize..(range.end - first) as usize;
                    self.unsent.append([&old[at]]);
                }
            }
        }
        let handed = self.handed_at.iter().any(|at| *at >= first);
        self.handed_at.retain(|at| *at < first);
        self.on_time.retain(|(at, _)| *at < first);
        handed
    }
}
