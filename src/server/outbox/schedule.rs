//! Which client is written to next.

use std::collections::VecDeque;

/// Slots with data to write. A slot is on at most one list: the owner of the slots knows whether it is.
#[derive(Debug, Default)]
pub struct Schedule {
    /// In the order in which they got it.
    fresh: VecDeque<u32>,
    /// Slots that were not written to in the turn in which they got data.
    late: VecDeque<u32>,
}

impl Schedule {
    /// A slot has something to write.
    pub fn add(&mut self, slot: u32, is_listed: &mut bool) {
        if !std::mem::replace(is_listed, true) {
            self.fresh.push_back(slot);
        }
    }

    /// As [`Schedule::add`], after all that have something to write already.
    pub fn add_late(&mut self, slot: u32, is_listed: &mut bool) {
        if !std::mem::replace(is_listed, true) {
            self.late.push_back(slot);
        }
    }

    /// Takes a slot: by turns one of those that had to wait and one of those of this turn, so that neither
    /// a large backlog nor fresh replies keep the others from leaving.
    pub fn next(&mut self, late_first: bool) -> Option<u32> {
        if late_first {
            self.late.pop_front().or_else(|| self.fresh.pop_front())
        } else {
            self.fresh.pop_front().or_else(|| self.late.pop_front())
        }
    }

    /// Output that could not be written in this turn waits for the next.
    pub fn put_off(&mut self) {
        self.late.append(&mut self.fresh);
    }

    /// How many slots wait to be written to.
    pub fn len(&self) -> usize {
        self.late.len() + self.fresh.len()
    }

    /// Whether slots wait to be written to.
    pub fn is_behind(&self) -> bool {
        !self.late.is_empty() || !self.fresh.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_and_fresh_replies_leave_by_turns() {
        let (mut schedule, mut listed) = (Schedule::default(), [false; 5]);
        for slot in 0..5_u32 {
            schedule.add(slot, &mut listed[slot as usize]);
            if slot == 2 {
                schedule.put_off();
            }
        }
        schedule.add_late(3, &mut listed[3]);
        let left: Vec<u32> = (0..6).map_while(|i| schedule.next(i % 2 == 0)).collect();
        assert_eq!(left, [0, 3, 1, 4, 2]);
        assert!(!schedule.is_behind());
    }
}
