//! How minutes are counted, kept and shown.

use std::collections::VecDeque;

use crate::engine::model::lateness::Histogram;
use crate::engine::model::minutes::{MINUTE_MS, Minute, Span};
use crate::engine::model::stats::Totals;
use crate::engine::store::queue::Queue;
use crate::engine::store::snapshot::record;
use crate::limits::{DAY_MINUTES, MINUTES_PER_IMAGE};
use crate::time::Millis;

/// The minutes of one queue, or of all queues together.
#[derive(Default, Debug)]
pub struct Track {
    /// The first minute that was counted.
    pub since: u32,
    /// Those that are over and in which something happened, oldest first.
    pub past: VecDeque<Minute>,
    /// The counts when the open minute began.
    from: Counts,
    from_lateness: Option<Box<Histogram>>,
    /// What a base had of the open minute.
    carried: Minute,
    /// What the base with this number has of the minute that is open as of then.
    cut: Option<(u32, Minute)>,
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub totals: Totals,
    pub jobs: [u64; 4],
}

impl Counts {
    pub fn of(queue: &Queue) -> Counts {
        Counts { totals: queue.totals, jobs: queue.counts }
    }

    pub fn events(&self) -> u32 {
        let Totals { added, delivered, acked, nacked, .. } = self.totals;
        added.wrapping_add(delivered).wrapping_add(acked).wrapping_add(nacked) as u32
    }
}

fn failed(totals: &Totals) -> u64 {
    totals.nacked + totals.timeouts + totals.lost
}

/// Lateness p50 and p99 of two parts of a minute, each with its deliveries: about, as a row of several minutes has it.
fn joined(one: (u32, [u32; 2]), other: (u32, [u32; 2])) -> [u32; 2] {
    let mut span = Span::default();
    for (delivered, lateness_us) in [one, other] {
        span.add(&Minute { delivered, lateness_us, ..Minute::default() });
    }
    span.lateness_us.map(narrow)
}

fn narrow(value: u64) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

impl Track {
    /// Counts from the beginning of a minute on.
    pub fn new(since: u32, from: Counts, lateness: Option<&Histogram>) -> Track {
        let from_lateness = lateness.map(|lateness| Box::new(lateness.clone()));
        Track { since, from, from_lateness, ..Track::default() }
    }

    /// The minute `at`, of which nothing is closed yet.
    pub fn open(&self, at: u32, now: &Counts, lateness: Option<&Histogram>) -> Minute {
        let (totals, from, carried) = (&now.totals, &self.from.totals, &self.carried);
        // A hand-off that goes back takes a delivery away that an earlier minute may have counted.
        let grown = |now: u64, from: u64, carried: u32| {
            narrow(now.saturating_sub(from)).saturating_add(carried)
        };
        let lateness_us = match lateness {
            Some(now) if totals.delivered > from.delivered => {
                let since = match &self.from_lateness {
                    Some(from) => now.since(from),
                    None => now.clone(),
                };
                [500, 990].map(|permille| narrow(since.percentile(permille)))
            }
            _ => [0; 2],
        };
        Minute {
            at,
            added: grown(totals.added, from.added, carried.added),
            delivered: grown(totals.delivered, from.delivered, carried.delivered),
            acked: grown(totals.acked, from.acked, carried.acked),
            failed: grown(failed(totals), failed(from), carried.failed),
            died: grown(totals.died, from.died, carried.died),
            jobs: now.jobs.map(narrow),
            lateness_us: joined(
                (narrow(totals.delivered.saturating_sub(from.delivered)), lateness_us),
                (carried.delivered, carried.lateness_us),
            ),
        }
    }

    /// The minute `at` is over.
    pub fn close(&mut self, at: u32, now: Counts, lateness: Option<&Histogram>) {
        let minute = self.open(at, &now, lateness);
        let jobs = self.past.back().map_or([0; 4], |last| last.jobs);
        while self.past.front().is_some_and(|first| first.at + DAY_MINUTES <= at) {
            self.past.pop_front();
        }
        if !minute.is_quiet() || minute.jobs != jobs {
            if self.past.len() == self.past.capacity() {
                // As a Vec grows, but not beyond a day.
                let more = self.past.len().clamp(8, DAY_MINUTES as usize);
                self.past.reserve_exact(more.min(DAY_MINUTES as usize + 1 - self.past.len()));
            }
            self.past.push_back(minute);
        }
        if now.totals.delivered != self.from.totals.delivered {
            match (&mut self.from_lateness, lateness) {
                (Some(from), Some(now)) => (**from).clone_from(now),
                (from, now) => *from = now.map(|now| Box::new(now.clone())),
            }
        }
        (self.from, self.carried) = (now, Minute::default());
    }

    /// Goes on from what a base has, if anything, whose last minute is `at`.
    pub fn resume(&mut self, at: u32, now: Counts, lateness: Option<&Histogram>) {
        if self.since == 0 {
            self.since = at;
        }
        if self.past.back().is_some_and(|last| last.at >= at) {
            self.carried = self.past.pop_back().unwrap_or_default();
        }
        (self.from, self.from_lateness) = (now, lateness.map(|now| Box::new(now.clone())));
    }

    pub fn cut(&mut self, base: u32, at: u32, now: &Counts, lateness: Option<&Histogram>) {
        self.cut = Some((base, self.open(at, now, lateness)));
    }

    /// Its events in the last `span` minutes before `at`, up to a billion.
    pub fn events(&self, at: u32, span: u32) -> u32 {
        let begin = self.past.partition_point(|minute| minute.at + span < at);
        let of = |minute: &Minute| {
            let Minute { added, delivered, acked, failed, .. } = *minute;
            u64::from(added) + u64::from(delivered) + u64::from(acked) + u64::from(failed)
        };
        let events = self.past.range(begin..).chain([&self.carried]).map(of).sum::<u64>();
        narrow(events).min(1 << 30)
    }

    pub fn image_bytes(&self) -> u64 {
        record::minutes_bytes(self.past.len() as u64 + 1)
    }

    /// Up to an image of what the base has from the minute `from` on, and whether that is the end; none if the base does
    /// not have it at all.
    pub fn image(&self, base: u32, from: u32) -> Option<(Vec<Minute>, bool)> {
        let (_, cut) = self.cut.filter(|(of, _)| *of == base)?;
        let begin = self.past.partition_point(|minute| minute.at < from);
        let past = self.past.range(begin..).take_while(|minute| minute.at < cut.at);
        let minutes = past.copied().chain([cut]).take(MINUTES_PER_IMAGE);
        let minutes: Vec<Minute> = minutes.collect();
        let is_end = minutes.last().is_some_and(|last| last.at == cut.at);
        Some((minutes, is_end))
    }

    /// Rows from the minute `first` to `last`, which is not over, of `step` minutes.
    pub fn spans(&self, open: Minute, (first, last): (u32, u32), step: u32) -> Vec<Span> {
        let (mut minutes, mut jobs) = (self.past.iter().chain([&open]).peekable(), [0; 4]);
        let row = |number: u32| {
            let at = Millis(u64::from(number) * u64::from(step) * MINUTE_MS);
            let mut span = Span { at, ..Span::default() };
            while let Some(minute) = minutes.next_if(|minute| minute.at / step <= number) {
                if minute.at / step == number {
                    span.add(minute);
                }
                jobs = minute.jobs.map(u64::from);
            }
            // Where nothing happened there are as many as before.
            span.jobs = jobs;
            span
        };
        (first.max(self.since) / step..=last / step).map(row).collect()
    }
}
