//! How many log lines unauthenticated clients may cause.

use crate::limits::{STRANGER_LINE_US, STRANGER_LINES_AT_ONCE};
use crate::lock::lock;
use crate::server::clock::timer;
use std::sync::Mutex;

/// Bounds how often lines of one kind are written that any caller can cause: ten at once, and one a second. The others
/// are counted.
#[derive(Debug, Default)]
pub struct LineRate(Mutex<LineCredit>);

#[derive(Debug, Default)]
struct LineCredit {
    /// When as many lines as have been written could have been written one by one; monotonic, µs.
    earned_us: u64,
    left_out: u64,
}

impl LineRate {
    /// Whether a line may be written now. If not it is counted.
    pub fn admits(&self) -> bool {
        self.admits_at(timer::mono_us())
    }

    /// How many lines were left out since this was last asked, if any was.
    pub fn left_out(&self) -> Option<u64> {
        let mut lines = lock(&self.0);
        Some(std::mem::take(&mut lines.left_out)).filter(|count| *count > 0)
    }

    fn admits_at(&self, mono_us: u64) -> bool {
        let mut lines = lock(&self.0);
        let earned_us = lines
            .earned_us
            .max(mono_us.saturating_sub((STRANGER_LINES_AT_ONCE - 1) * STRANGER_LINE_US));
        let admitted = earned_us <= mono_us;
        match admitted {
            true => lines.earned_us = earned_us + STRANGER_LINE_US,
            false => lines.left_out += 1,
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_at_once_and_one_a_second() {
        let rate = LineRate::default();
        let written = |us| (0..1_000).filter(|_| rate.admits_at(us)).count();
        assert_eq!(rate.left_out(), None);
        assert_eq!(written(50_000_000), 10);
        assert_eq!(rate.left_out(), Some(990));
        assert_eq!(rate.left_out(), None);
        assert_eq!(written(50_999_999), 0);
        assert_eq!(written(51_000_000), 1);
        assert_eq!(written(54_500_000), 3);
        // However long it was quiet.
        assert_eq!(written(5_000_000_000), 10);
    }
}
