//! LATENCY: what took longer than `latency-monitor-threshold`, by kind of event.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

/// Samples kept of an event, one a second.
const SAMPLES_MAX: usize = 160;

/// Lines of a graph.
const GRAPH_LINES: usize = 4;

/// One second's worst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Unix seconds.
    pub at_s: u64,
    /// How long it took, ms.
    pub took_ms: u64,
}

/// Slow things by kind.
#[derive(Debug, Default)]
pub struct Latency {
    events: BTreeMap<&'static str, Series>,
}

/// What is known of an event.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The newest, oldest first.
    pub samples: VecDeque<Sample>,
    /// The longest since the start or the last reset, ms.
    pub max_ms: u64,
}

impl Latency {
    /// Notes that something took long.
    pub fn add(&mut self, event: &'static str, at_s: u64, took_ms: u64) {
        let series = self.events.entry(event).or_default();
        series.max_ms = series.max_ms.max(took_ms);
        if let Some(last) = series.samples.back_mut()
            && last.at_s == at_s
        {
            last.took_ms = last.took_ms.max(took_ms);
            return;
        }
        if series.samples.len() == SAMPLES_MAX {
            series.samples.pop_front();
        }
        series.samples.push_back(Sample { at_s, took_ms });
    }

    /// What is known of an event.
    pub fn series(&self, event: &[u8]) -> Option<&Series> {
        self.events.get(std::str::from_utf8(event).ok()?)
    }

    /// All events by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Series)> {
        self.events.iter().map(|(event, series)| (*event, series))
    }

    /// Forgets these events, or all if none is named; returns how many there were.
    pub fn reset(&mut self, events: &[&[u8]]) -> usize {
        let before = self.events.len();
        self.events.retain(|event, _| {
            !events.is_empty()
                && !events.iter().any(|named| named.eq_ignore_ascii_case(event.as_bytes()))
        });
        before - self.events.len()
    }

    /// A picture of an event's samples, a column for each: the higher the later in the text it fills,
    /// with how long ago below.
    pub fn graph(&self, event: &[u8], now_s: u64) -> Option<String> {
        let series = self.series(event)?;
        let shown = &series.samples;
        let (low, high) = bounds(series);
        let mut text = format!(
            "{} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
            String::from_utf8_lossy(event),
            series.max_ms,
            "-".repeat(80)
        );
        let level = |sample: &Sample| {
            let span = (high - low).max(1);
            ((sample.took_ms - low) * (GRAPH_LINES as u64 * 2 - 1) / span) as usize
        };
        for line in (0..GRAPH_LINES).rev() {
            for sample in shown {
                // Each line has two heights.
                text.push(match level(sample) {
                    level if level / 2 > line => '|',
                    level if level / 2 < line => ' ',
                    level if level % 2 == 1 => '#',
                    _ => '_',
                });
            }
            text.push('\n');
        }
        let ages: Vec<String> =
            shown.iter().map(|sample| age(now_s.saturating_sub(sample.at_s))).collect();
        for row in 0..ages.iter().map(String::len).max().unwrap_or(0) {
            let cell = |age: &String| age.chars().nth(row).unwrap_or(' ');
            text.push_str(ages.iter().map(cell).collect::<String>().trim_end());
            text.push('\n');
        }
        Some(text)
    }

    /// A report for people; `threshold_ms` is 0 while nothing is noted.
    pub fn doctor(&self, threshold_ms: u64) -> String {
        if threshold_ms == 0 {
            return "Latency monitoring is off. \"CONFIG SET latency-monitor-threshold <milliseconds>\" \
                    turns it on. DELAY.STATS shows the lateness of a queue's deliveries, LATENCY \
                    HISTOGRAM what each command costs.\n"
                .to_owned();
        }
        if self.events.is_empty() {
            return format!("Nothing has taken {threshold_ms} ms or more.\n");
        }
        let mut text = String::new();
        for (number, (event, series)) in self.events.iter().enumerate() {
            let count = series.samples.len() as u64;
            let sum: u64 = series.samples.iter().map(|sample| sample.took_ms).sum();
            let _ = writeln!(
                text,
                "{}. {event}: in {count} seconds something took {threshold_ms} ms or more, {} ms on \
                 average, {} ms at worst.",
                number + 1,
                sum / count.max(1),
                series.max_ms
            );
            let _ = writeln!(text, "   {}", advice(event));
        }
        text
    }
}

fn bounds(series: &Series) -> (u64, u64) {
    let took = || series.samples.iter().map(|sample| sample.took_ms);
    (took().min().unwrap_or(0), took().max().unwrap_or(0))
}

/// How long ago: `7s`, `3m`, `2h`, `5d`.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn advice(event: &str) -> &'static str {
    match event {
        "journal-sync" => {
            "The disk is slow to sync. Under appendfsync always every change waits for it; \
             everysec risks a second and does not wait."
        }
        "turn" => {
            "The server was busy, or its machine was: SLOWLOG GET shows commands that took long, \
             and processes beside it may take its processor."
        }
        _ => "SLOWLOG GET shows which commands it was.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeps_its_worst_and_old_ones_leave() {
        let mut latency = Latency::default();
        for (at_s, took_ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            latency.add("command", at_s, took_ms);
        }
        let series = latency.series(b"command").unwrap();
        let sample = |at_s, took_ms| Sample { at_s, took_ms };
        assert_eq!(series.samples, [sample(1, 9), sample(2, 3)]);
        assert_eq!(series.max_ms, 9);
        (3..1_000).for_each(|at_s| latency.add("command", at_s, 1));
        let series = latency.series(b"command").unwrap();
        assert_eq!((series.samples.len(), series.max_ms), (SAMPLES_MAX, 9));
        latency.add("turn", 1, 1);
        assert_eq!(latency.reset(&[b"nothing", b"TURN"]), 1);
        assert_eq!(latency.reset(&[]), 1);
        assert!(latency.iter().next().is_none() && latency.series(b"command").is_none());
    }

    #[test]
    fn a_graph_has_a_column_for_each_sample() {
        let mut latency = Latency::default();
        for (at_s, took_ms) in [(10, 10), (20, 40), (600, 80)] {
            latency.add("turn", at_s, took_ms);
        }
        let graph = latency.graph(b"turn", 605).unwrap();
        let lines: Vec<&str> = graph.lines().collect();
        assert_eq!(lines[0], "turn - high 80 ms, low 10 ms (all time high 80 ms)");
        assert_eq!(lines[2..6], ["  #", "  |", " #|", "_||"]);
        assert_eq!(lines[6..], ["995", "mms"]);
        assert_eq!(latency.graph(b"nothing", 605), None);
        assert!(
            latency.doctor(5).contains("1. turn: in 3 seconds something took 5 ms or more, 43 ms")
        );
        assert!(latency.doctor(0).starts_with("Latency monitoring is off."));
    }
}
