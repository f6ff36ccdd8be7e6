//! Totals of the queues that are looked at, for the rates on their pages: a minute of each, fed by the pages themselves.

use crate::console::view::chrome::QueueSample;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// A page shows the rates of this long, ms.
const SPAN_MS: u64 = 60_000;
/// Two samples of a queue are at least this far apart, ms, however many look at it.
const APART_MS: u64 = 900;
/// Queues at a time; one more takes the place of the one that was looked at longest ago.
const QUEUES_MAX: usize = 64;

/// A database and a queue.
type QueueKey = (u8, Vec<u8>);

/// See the module: 64 queues of 67 samples of 48 bytes.
#[derive(Debug, Default)]
pub struct QueueSamples(Mutex<HashMap<QueueKey, VecDeque<QueueSample>>>);

impl QueueSamples {
    /// Those of the last minute, with this one.
    pub fn with(&self, db: u8, queue: &[u8], sample: QueueSample) -> Vec<QueueSample> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (db, queue.to_vec());
        if !all.contains_key(&key) && all.len() >= QUEUES_MAX {
            let newest = |kept: &VecDeque<QueueSample>| kept.back().map_or(0, |last| last.at_ms);
            let oldest = all.iter().min_by_key(|(_, kept)| newest(kept));
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| all.remove(&key));
        }
        let kept = all.entry(key).or_default();
        // Totals that fell are of another queue with the same name; a clock that was set back begins anew, too.
        let is_other = kept.back().is_some_and(|last| {
            sample.at_ms < last.at_ms
                || sample.totals.iter().zip(&last.totals).any(|(now, was)| now < was)
        });
        if is_other {
            kept.clear();
        }
        while kept.front().is_some_and(|first| first.at_ms + SPAN_MS < sample.at_ms) {
            kept.pop_front();
        }
        let mut shown: Vec<QueueSample> = kept.iter().copied().collect();
        if kept.back().is_none_or(|last| last.at_ms + APART_MS <= sample.at_ms) {
            kept.push_back(sample);
        }
        shown.push(sample);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, added: u64) -> QueueSample {
        QueueSample { at_ms, totals: [added, 0, 0, 0, 0] }
    }

    /// However long and however often somebody looks.
    #[test]
    fn a_minute_of_each_queue_is_kept_and_of_few_queues() {
        let samples = QueueSamples::default();
        for n in 0..1_000 {
            let shown = samples.with(0, b"q", sample(n * 250, n));
            let (first, last) = (shown[0].at_ms, shown[shown.len() - 1].at_ms);
            assert!(last == n * 250 && last - first <= SPAN_MS && shown.len() <= 68, "{n}");
        }
        for n in 0..1_000_u64 {
            samples.with(0, &n.to_be_bytes(), sample(300_000 + n, 1));
        }
        let kept = samples.0.lock().unwrap();
        assert_eq!((kept.len(), kept.contains_key(&(0, b"q".to_vec()))), (QUEUES_MAX, false));
    }

    #[test]
    fn a_queue_that_was_made_anew_has_no_rates_of_the_old_one() {
        let samples = QueueSamples::default();
        samples.with(0, b"q", sample(1_000, 500));
        assert_eq!(samples.with(1, b"q", sample(2_000, 600)).len(), 1, "another database");
        assert_eq!(samples.with(0, b"q", sample(2_000, 3)), [sample(2_000, 3)]);
        assert_eq!(samples.with(0, b"q", sample(4_000, 5)).len(), 2);
    }
}
