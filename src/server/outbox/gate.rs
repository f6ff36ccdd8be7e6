//! The gate: replies that wait for the journal. Which bytes of a client's output may leave.
//!
//! Every turn has a number, and a reply of turn 7 may leave once all facts of turns 1 to 7 are
//! committed: those it reports, and those of others that it could have seen. Replies that need no
//! journal (PING, INFO, CONFIG …) wait only behind earlier replies of their own connection.
//!
//! ```text
//! output of a client:  +PONG | $13 …id… | +PONG | :1
//! frames:              (0,–)   (7,wrote)  (–)     (8,wrote)      released turn 6: +PONG may leave
//! ```

use crate::limits::GATED_KEPT;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A turn's number; 0 is before all turns.
pub type TurnNo = u64;

/// Consecutive replies in an output that wait for the same turn and report the same: of a pipeline of ADDs there is one
/// for each turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct GatedReplies {
    /// Where they begin: a position in all that was ever written to the client.
    start: u64,
    /// The turn whose facts they wait for; 0 for none.
    turn: TurnNo,
    content: Content,
    count: u32,
}

/// The content of a reply, or a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Of no change.
    Nothing,
    /// Reports a change by the client itself: it would be wrong if the change is lost.
    Change,
    /// Reports another client's change, unsolicited: if the change is lost it is not sent.
    Message,
}

/// Consecutive replies that report the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where they stand in all that was ever written to the client.
    pub range: Range<u64>,
    /// Whether they report changes that did not become safe.
    pub content: Content,
    pub count: u32,
}

/// Which replies may leave, and which have to wait.
#[derive(Debug, Default)]
pub struct Gate {
    /// The number of the turn that replies written now belong to; 0 when there is no journal that
    /// they could wait for.
    pub turn: TurnNo,
    /// A reply of this turn waits for the journal.
    is_urgent: bool,
    /// Replies of turns up to this one may leave.
    released: TurnNo,
    /// Slots with replies that wait, by the turn the first of them waits for.
    slots: BTreeMap<TurnNo, Vec<u32>>,
}

impl Gate {
    /// A reply was written that waits for `turn`; 0 for none.
    pub fn note(&mut self, turn: TurnNo) {
        self.is_urgent |= turn > 0;
    }

    /// Whether a reply of this turn waits for the journal.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Replies written from here on belong to the next turn.
    pub fn end_turn(&mut self) {
        self.turn += 1;
        self.is_urgent = false;
    }

    /// Replies of turns up to this one may leave.
    pub fn released(&self) -> TurnNo {
        self.released
    }

    /// The turn to wait for where something depends on `turn`; 0 for none.
    pub fn unreleased(&self, turn: TurnNo) -> TurnNo {
        if turn > self.released { turn } else { 0 }
    }

    /// Whether replies wait, as far as it was tried to write them.
    pub fn has_waiting(&self) -> bool {
        !self.slots.is_empty()
    }

    /// A slot's replies wait for `turn`.
    fn list(&mut self, turn: TurnNo, slot: u32) {
        self.slots.entry(turn).or_default().push(slot);
    }

    /// Replies of turns up to `released` may leave from here on.
    pub fn release(&mut self, released: TurnNo) {
        self.released = released;
    }

    /// Takes slots whose replies may leave now.
    pub fn take_released(&mut self) -> Option<Vec<u32>> {
        let first = self.slots.first_entry()?;
        (*first.key() <= self.released).then(|| first.remove())
    }

    /// No client waits any more.
    pub fn clear(&mut self) {
        self.slots.clear();
    }
}

/// The replies of one client from the first one on that waits.
#[derive(Debug, Default)]
pub struct Gated {
    frames: VecDeque<GatedReplies>,
    listed_for: TurnNo,
}

impl Gated {
    /// Notes a reply that begins at `start`. One that needs no journal is remembered only after one that does.
    pub fn push(&mut self, start: u64, turn: TurnNo, content: Content) {
        match self.frames.back_mut() {
            None if turn == 0 => {}
            // One that waits for nothing leaves with those before it.
            Some(last)
                if last.content == content
                    && (last.turn == turn || turn == 0 && content == Content::Nothing)
                    && last.count < u32::MAX =>
            {
                last.count += 1;
            }
            _ => self.frames.push_back(GatedReplies { start, turn, content, count: 1 }),
        }
    }

    /// Forgets the replies that wait for nothing beyond the turn `released`. Returns where the first
    /// of the others begins, and its turn; none if all may leave.
    fn release(&mut self, released: TurnNo) -> Option<(u64, TurnNo)> {
        while let Some(frame) = self.frames.front() {
            if frame.turn > released {
                return Some((frame.start, frame.turn));
            }
            self.frames.pop_front();
        }
        if self.frames.capacity() > GATED_KEPT {
            self.frames = VecDeque::new();
        }
        None
    }

    /// Where the replies of the client in `slot` begin that have to wait, if some have to. The gate gives the
    /// slot back when the first of them may leave.
    pub fn starts_at(&mut self, slot: u32, gate: &mut Gate) -> Option<u64> {
        let (start, turn) = self.release(gate.released)?;
        if std::mem::replace(&mut self.listed_for, turn) != turn {
            gate.list(turn, slot);
        }
        Some(start)
    }

    /// The first of those that wait for a turn after `released`: where it begins, and that turn.
    pub fn first_after(&self, released: TurnNo) -> Option<(u64, TurnNo)> {
        let first = self.frames.iter().find(|frame| frame.turn > released)?;
        Some((first.start, first.turn))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes held to remember them.
    pub fn bytes(&self) -> usize {
        self.frames.capacity() * size_of::<GatedReplies>()
    }

    /// The turn that the newest reply waits for; 0 if none waits.
    pub fn newest_turn(&self) -> TurnNo {
        self.frames.iter().rev().map(|frame| frame.turn).find(|turn| *turn > 0).unwrap_or(0)
    }

    /// The replies from the first waiting one on, in runs of this length, with the changes each reports that did not
    /// become safe; `end` is the end of the output. Forgets them.
    pub fn take(&mut self, released: TurnNo, end: u64) -> Vec<Run> {
        let frames = std::mem::take(&mut self.frames);
        let ends = frames.iter().skip(1).map(|frame| frame.start).chain([end]);
        let lost = |frame: &GatedReplies| {
            if frame.turn > released { frame.content } else { Content::Nothing }
        };
        let run = |(frame, end): (&GatedReplies, u64)| Run {
            range: frame.start..end,
            content: lost(frame),
            count: frame.count,
        };
        frames.iter().zip(ends).map(run).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the module's documentation.
    #[test]
    fn replies_leave_in_order_up_to_the_first_that_waits() {
        let mut gated = Gated::default();
        gated.push(0, 0, Content::Nothing);
        assert!(gated.is_empty(), "a PING behind nothing is not remembered");
        gated.push(7, 7, Content::Change);
        gated.push(27, 0, Content::Nothing);
        gated.push(34, 8, Content::Change);
        assert_eq!(gated.release(6), Some((7, 7)));
        assert_eq!(gated.release(7), Some((34, 8)), "the PING behind it leaves with it");
        assert_eq!(gated.release(8), None);
        assert!(gated.is_empty());
    }

    #[test]
    fn what_was_lost_is_told_reply_by_reply() {
        let mut gated = Gated::default();
        gated.push(10, 7, Content::Change);
        gated.push(20, 0, Content::Nothing);
        gated.push(25, 8, Content::Nothing);
        gated.push(40, 8, Content::Change);
        gated.push(43, 8, Content::Change);
        gated.push(45, 8, Content::Message);
        let run = |range, content, count| Run { range, content, count };
        assert_eq!(
            gated.take(7, 50),
            [
                run(10..20, Content::Nothing, 1),
                run(20..25, Content::Nothing, 1),
                run(25..40, Content::Nothing, 1),
                run(40..45, Content::Change, 2),
                run(45..50, Content::Message, 1)
            ]
        );
        assert!(gated.is_empty());
    }

    /// Half a million replies of a few turns hold next to nothing, and nothing at all afterwards.
    #[test]
    fn a_pipeline_is_one_frame_a_turn() {
        let mut gated = Gated::default();
        for reply in 0..500_000_u64 {
            gated.push(10 * reply, 1 + reply / 1_000, Content::Change);
        }
        assert!(gated.bytes() <= 40_000, "{}", gated.bytes());
        assert_eq!(gated.release(250), Some((2_500_000, 251)));
        assert_eq!(gated.newest_turn(), 500);
        assert_eq!(gated.release(500), None);
        assert_eq!(gated.bytes(), 0);
    }
}
