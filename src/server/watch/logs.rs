//! The log: lines on stderr.

use crate::server::clock::timer;
use std::sync::{Mutex, PoisonError};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// Lines of one kind that may be written at once.
const LINES_AT_ONCE: u64 = 10;
/// After which one more may be, µs.
const LINE_US: u64 = 1_000_000;

/// Bounds how often lines of one kind are written that whoever can connect can cause: ten at once, and one a
/// second. The others are counted.
#[derive(Debug, Default)]
pub struct LineRate(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
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
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(std::mem::take(&mut lines.left_out)).filter(|count| *count > 0)
    }

    fn admits_at(&self, mono_us: u64) -> bool {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earned_us = lines.earned_us.max(mono_us.saturating_sub((LINES_AT_ONCE - 1) * LINE_US));
        let admitted = earned_us <= mono_us;
        match admitted {
            true => lines.earned_us = earned_us + LINE_US,
            false => lines.left_out += 1,
        }
        admitted
    }
}

/// How the log's level is changed while the server runs.
#[derive(Clone, Debug, Default)]
pub struct LogLevel(Option<reload::Handle<LevelFilter, Registry>>);

impl LogLevel {
    /// Sets the level by Redis's word for it. Without a log of our own (in tests) nothing happens.
    pub fn set(&self, word: &str) {
        if let Some(handle) = &self.0
            && let Err(error) = handle.modify(|level| *level = filter(word))
        {
            tracing::warn!(%error, "the log's level stays");
        }
    }
}

/// Sends the log of this process to stderr.
pub fn start(level: &str, json: bool) -> LogLevel {
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    if json {
        registry.with(lines.json().flatten_event(true)).init();
    } else {
        let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
        registry.with(lines.with_ansi(color)).init();
    }
    LogLevel(Some(handle))
}

fn filter(word: &str) -> LevelFilter {
    match word {
        "debug" => LevelFilter::TRACE,
        "verbose" => LevelFilter::DEBUG,
        "warning" => LevelFilter::WARN,
        _ => LevelFilter::INFO,
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
