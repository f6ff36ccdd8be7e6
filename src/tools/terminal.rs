//! What tools show on a terminal: tables, and how far a long reading is, on one line drawn over itself.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Columns of which the first is aligned left, the others right. Widths are those of the contents.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    // Two spaces between columns where 80 columns of a terminal have room for them.
    let narrow = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1) > 80;
    let gap = if narrow { " " } else { "  " };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match at {
                0 => line.push_str(&format!("{cell:<width$}")),
                _ => line.push_str(&format!("{gap}{cell:>width$}")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A count in at most six characters: 999999, 1.2M, 150M, 2.5G.
pub fn count(number: u64) -> String {
    if number < 1_000_000 {
        return number.to_string();
    }
    scaled(number as f64, 1_000.0, 2)
}

/// Bytes in at most six characters: 512B, 64.0M, 1.5G.
pub fn bytes(number: u64) -> String {
    if number < 1_024 {
        return format!("{number}B");
    }
    scaled(number as f64, 1_024.0, 1)
}

fn scaled(number: f64, step: f64, least: usize) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let mut at = least;
    while at + 1 < units.len() && number / step.powi(at as i32) >= 999.5 {
        at += 1;
    }
    let value = number / step.powi(at as i32);
    let digits = usize::from(value < 99.95);
    format!("{value:.digits$}{}", units[at])
}

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
    /// For a reading that begins now. Nothing is drawn yet.
    pub fn new() -> Progress {
        let is_seen = io::stderr().is_terminal();
        Progress { begun: Instant::now(), drawn: None, is_seen, line_at: None }
    }

    /// For a reading that may run unattended: without a terminal it prints a line from time to
    /// time.
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
            // The file grows meanwhile.
            (7 << 20, 5 << 20, 1, format!("{} 5.0M of 5.0M, 5.0M/s, about 0s more", bar(30))),
        ] {
            assert_eq!(line(read, total, Duration::from_secs(took_s)), want);
        }
        assert!(line(0, 0, Duration::ZERO).starts_with(&bar(30)));
    }

    #[test]
    fn numbers_are_short() {
        let counts = [0, 999_999, 1_000_000, 1_249_000, 150_000_000, 999_900_000, u64::MAX];
        let written = counts.map(count);
        assert_eq!(written, ["0", "999999", "1.0M", "1.2M", "150M", "1.0G", "18.4E"]);
        let sizes = [0, 1_023, 1_024, 65_536, 67_108_864, 1_073_741_824, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0B", "1023B", "1.0K", "64.0K", "64.0M", "1.0G", "16.0E"]);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["file", "bytes"], ["a-long-name", "7"], ["b", "123456"]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        let want = "file          bytes\na-long-name       7\nb            123456\n";
        assert_eq!(table(&rows), want);
    }
}
