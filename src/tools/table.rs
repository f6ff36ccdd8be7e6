//! A table of text that fits a terminal.

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

#[cfg(test)]
mod tests {
    use super::*;

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
