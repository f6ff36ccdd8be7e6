//! DELAY.FORECAST's counts, cached and shared, and the windows that a timeline zooms through.

use crate::console::words::value::{Command, Value, command};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// The most spans one FORECAST counts.
const SPANS_MAX: u64 = 10_000;

/// Counts of spans from `as_of_ms` on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forecast {
    pub jobs: Vec<u64>,
    /// When they were counted, ms since 1970.
    pub as_of_ms: u64,
    /// How long that took, ms.
    pub took_ms: u64,
    /// Why there are none.
    pub error: Option<String>,
}

/// From a cached reply: the counts, when they were made, how long that took, ms.
pub fn read(reply: &Value) -> Forecast {
    match reply.items() {
        [counts, as_of, took] => Forecast {
            jobs: counts.items().iter().map(|count| count.number().unwrap_or(0)).collect(),
            as_of_ms: as_of.number().unwrap_or(0),
            took_ms: took.number().unwrap_or(0),
            error: counts.error(),
        },
        _ => Forecast { error: reply.error(), ..Forecast::default() },
    }
}

pub fn kept(reply: Value, as_of_ms: u64, took_ms: u64) -> Value {
    Value::Array(vec![reply, Value::Int(as_of_ms as i64), Value::Int(took_ms as i64)])
}

pub fn add(all: &mut [u64], counts: &[u64]) {
    all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// The schedules' part: counts with them, minus those of jobs alone, each made at another instant.
pub fn occurrences(with: &Forecast, jobs: &Forecast) -> Vec<u64> {
    with.jobs.iter().zip(&jobs.jobs).map(|(both, jobs)| both.saturating_sub(*jobs)).collect()
}

/// A part of the future in bars.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// ms from the count on to the first bar.
    pub after_ms: u64,
    /// ms of a bar.
    pub span_ms: u64,
    pub count: u64,
}

/// Where a timeline begins: its word in addresses, a bar, how many of them.
pub const ZOOMS: [(&str, u64, u64); 4] =
    [("minute", 1_000, 60), ("hour", MINUTE, 60), ("day", HOUR, 24), ("month", DAY, 30)];

impl Window {
    /// One of the [`ZOOMS`] from now on; an hour for another word.
    pub fn of(word: &str) -> Window {
        let zoom = ZOOMS.into_iter().find(|(zoom, ..)| *zoom == word).unwrap_or(ZOOMS[1]);
        Window { after_ms: 0, span_ms: zoom.1, count: zoom.2 }
    }

    /// The bars of a moment's `length_ms`; none when it is no longer than a second, or too far off to be counted in
    /// shorter spans: then its jobs are listed.
    pub fn within(after_ms: u64, length_ms: u64) -> Option<Window> {
        let span_ms = match length_ms {
            DAY.. => HOUR,
            HOUR.. => MINUTE,
            MINUTE.. => 1_000,
            _ => return None,
        };
        let count = (length_ms / span_ms).min(60);
        let window = Window { after_ms, span_ms, count };
        (window.spans() <= SPANS_MAX).then_some(window)
    }

    /// Spans that are counted from now on to its end.
    fn spans(&self) -> u64 {
        self.after_ms / self.span_ms + self.count
    }

    /// The counts of a queue's jobs, with occurrences of its schedules or without.
    pub fn ask(&self, queue: &[u8], schedules: bool) -> Command {
        let mut asked = command![
            "DELAY.FORECAST",
            queue,
            format!("{}ms", self.span_ms),
            self.spans().to_string()
        ];
        if schedules {
            asked.extend(command!["SCHEDULES"]);
        }
        asked
    }

    /// The counts of the window out of those from now on.
    pub fn cut<'a>(&self, counts: &'a [u64]) -> &'a [u64] {
        let first = (self.after_ms / self.span_ms) as usize;
        counts.get(first..).map_or(&[], |rest| &rest[..rest.len().min(self.count as usize)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_zooms_until_single_jobs() {
        let day = Window::within(3 * DAY, DAY).unwrap();
        assert_eq!((day.span_ms, day.count, day.spans()), (HOUR, 24, 96));
        let hour = Window::within(3 * DAY, HOUR).unwrap();
        assert_eq!((hour.span_ms, hour.count), (MINUTE, 60));
        assert_eq!(Window::within(HOUR, MINUTE).unwrap().span_ms, 1_000);
        assert_eq!(Window::within(HOUR, 1_000), None);
        assert_eq!(
            Window::within(10 * DAY, HOUR),
            None,
            "14,400 minutes are more than are counted"
        );
        let counts: Vec<u64> = (0..96).collect();
        assert_eq!(day.cut(&counts), &counts[72..96]);
        assert_eq!(day.cut(&counts[..80]), &counts[72..80]);
        assert!(day.cut(&counts[..10]).is_empty());
    }

    #[test]
    fn what_is_kept_says_when_it_was_counted() {
        let counts = Value::Array(vec![Value::Int(1), Value::Int(2)]);
        let forecast = read(&kept(counts, 7, 8));
        assert_eq!(
            (forecast.jobs.as_slice(), forecast.as_of_ms, forecast.took_ms),
            (&[1, 2][..], 7, 8)
        );
        assert!(read(&kept(Value::Error("ERR x".into()), 7, 8)).error.is_some());
    }
}
