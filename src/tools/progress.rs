//! How far a long reading is: one line on the terminal, drawn over itself.

use super::table::bytes;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the line is drawn.
const EVERY: Duration = Duration::from_millis(100);
/// How often a line is written where there is no terminal.
const LINES_EVERY: Duration = Duration::from_secs(10);
/// The bar's length, letters.
const BAR: u64 = 30;

/// A line on stderr, if that is a terminal.
pub struct Progress {
    begun: Instant,
    drawn: Option<Instant>,
    is_seen: bool,
    /// Where there is no terminal: when the next line is written.
    line_at: Option<Instant>,
}

impl Progress {
    /// Of a reading that begins now. Nothing is drawn yet.
    pub fn new() -> Progress {
        let is_seen = io::stderr().is_terminal();
        Progress { begun: Instant::now(), drawn: None, is_seen, line_at: None }
    }

    /// Of one that a timer may have begun: without a terminal it is a line from time to time.
    pub fn with_lines() -> Progress {
        let progress = Progress::new();
        let line_at = (!progress.is_seen).then(|| progress.begun + LINES_EVERY);
        Progress { line_at, ..progress }
    }

    /// So many bytes of `total` are read.
    pub fn tell(&mut self, read: u64, total: u64) {
        let now = Instant::now();
        if self.is_seen && self.drawn.is_none_or(|drawn| now - drawn >= EVERY) {
            self.drawn = Some(now);
            self.draw(&line(read, total, now - self.begun));
        }
        if self.line_at.is_some_and(|at| now >= at) {
            self.line_at = Some(now + LINES_EVERY);
            eprintln!("{} of {}", bytes(read), bytes(total));
        }
    }

    /// The reading is over; the line goes.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            self.draw("");
        }
    }

    /// A terminal that has gone is no error.
    fn draw(&self, line: &str) {
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }
}

fn line(read: u64, total: u64, took: Duration) -> String {
    let read = read.min(total);
    let done = (read * BAR).checked_div(total).unwrap_or(BAR) as usize;
    let bar = "█".repeat(done) + &"░".repeat(BAR as usize - done);
    let mut line = format!("{bar} {} of {}", bytes(read), bytes(total));
    if read > 0 {
        let per_s = read as f64 / took.as_secs_f64().max(0.001);
        let left_s = ((total - read) as f64 / per_s).ceil();
        line += &format!(", {}/s, about {left_s}s more", bytes(per_s as u64));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_how_long() {
        let bar = |done| "█".repeat(done) + &"░".repeat(30 - done);
        for (read, total, took_s, want) in [
            (0, 5 << 30, 1, format!("{} 0B of 5.0G", bar(0))),
            (1 << 30, 5 << 30, 2, format!("{} 1.0G of 5.0G, 512M/s, about 8s more", bar(6))),
            (5 << 30, 5 << 30, 10, format!("{} 5.0G of 5.0G, 512M/s, about 0s more", bar(30))),
            // What is read grows meanwhile.
            (7 << 20, 5 << 20, 1, format!("{} 5.0M of 5.0M, 5.0M/s, about 0s more", bar(30))),
        ] {
            assert_eq!(line(read, total, Duration::from_secs(took_s)), want);
        }
        assert!(line(0, 0, Duration::ZERO).starts_with(&bar(30)));
    }
}
