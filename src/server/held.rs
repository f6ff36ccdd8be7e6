//! Replies that wait for the journal: which bytes of a client's output may leave.
//!
//! Every turn has a number, and a reply of turn 7 may leave once all facts of turns 1 to 7 are
//! committed: those it tells of, and those of others that it could have seen. What needs no journal
//! (PING, INFO, CONFIG …) waits only behind earlier replies of its own connection.
//!
//! ```text
//! output of a client:  +PONG | $13 …id… | +PONG | :1
//! frames:              (0,–)   (7,wrote)  (–)     (8,wrote)      released turn 6: +PONG may leave
//! ```

use std::collections::VecDeque;
use std::ops::Range;

/// A turn's number; 0 is before all turns.
pub type TurnNo = u64;

/// A reply in an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Frame {
    /// Where it begins: a position in all that was ever written to the client.
    start: u64,
    /// The turn whose facts it waits for; 0 for none.
    turn: TurnNo,
    told: Told,
}

/// What a reply, or a message, tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Of no change.
    Nothing,
    /// Of a change of the client's own: a lie if the change is lost.
    Change,
    /// Of somebody's change, to whom has not asked: if the change is lost it is not told.
    News,
}

/// The replies of one client from the first one on that waits.
#[derive(Debug, Default)]
pub struct Held {
    frames: VecDeque<Frame>,
}

impl Held {
    /// Notes a reply that begins at `start`. One that needs no journal is remembered only behind one
    /// that does.
    pub fn push(&mut self, start: u64, turn: TurnNo, told: Told) {
        if turn > 0 || !self.frames.is_empty() {
            self.frames.push_back(Frame { start, turn, told });
        }
    }

    /// Forgets the replies that wait for nothing beyond the turn `released`. Returns where the first
    /// of the others begins, and its turn; none if all may leave.
    pub fn release(&mut self, released: TurnNo) -> Option<(u64, TurnNo)> {
        while let Some(frame) = self.frames.front() {
            if frame.turn > released {
                return Some((frame.start, frame.turn));
            }
            self.frames.pop_front();
        }
        None
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes held to remember them.
    pub fn bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
    }

    /// The turn that the newest reply waits for; 0 if none waits.
    pub fn newest_turn(&self) -> TurnNo {
        self.frames.iter().rev().map(|frame| frame.turn).find(|turn| *turn > 0).unwrap_or(0)
    }

    /// The replies from the first one that waits on, with what each tells of changes that did not
    /// become safe; `end` is where the output ends. Forgets them.
    pub fn take(&mut self, released: TurnNo, end: u64) -> Vec<(Range<u64>, Told)> {
        let frames = std::mem::take(&mut self.frames);
        let ends = frames.iter().skip(1).map(|frame| frame.start).chain([end]);
        let lost = |frame: &Frame| if frame.turn > released { frame.told } else { Told::Nothing };
        frames.iter().zip(ends).map(|(frame, end)| (frame.start..end, lost(frame))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the module's documentation.
    #[test]
    fn replies_leave_in_order_up_to_the_first_that_waits() {
        let mut held = Held::default();
        held.push(0, 0, Told::Nothing);
        assert!(held.is_empty(), "a PING behind nothing is not remembered");
        held.push(7, 7, Told::Change);
        held.push(27, 0, Told::Nothing);
        held.push(34, 8, Told::Change);
        assert_eq!(held.release(6), Some((7, 7)));
        assert_eq!(held.release(7), Some((34, 8)), "the PING behind it leaves with it");
        assert_eq!(held.release(8), None);
        assert!(held.is_empty());
    }

    #[test]
    fn what_was_lost_is_told_reply_by_reply() {
        let mut held = Held::default();
        held.push(10, 7, Told::Change);
        held.push(20, 0, Told::Nothing);
        held.push(25, 8, Told::Nothing);
        held.push(40, 8, Told::Change);
        held.push(45, 8, Told::News);
        let told = held.take(7, 50);
        assert_eq!(
            told,
            [
                (10..20, Told::Nothing),
                (20..25, Told::Nothing),
                (25..40, Told::Nothing),
                (40..45, Told::Change),
                (45..50, Told::News)
            ]
        );
        assert!(held.is_empty());
    }
}
