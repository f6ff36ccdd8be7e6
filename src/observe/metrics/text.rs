//! The text that Prometheus reads: the text format 0.0.4, and OpenMetrics 1.0 on request.

use super::Scrape;
use super::families::{Family, MetricGroup, MetricKind};
use crate::engine::observe::histogram::CounterHistogram;
use std::fmt::Write;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// As HTTP names it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A number of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum SampleValue {
    /// A count, or bytes.
    Count(u64),
    /// µs, written in seconds.
    Us(u64),
    Float(f64),
}

pub(super) struct Page {
    format: Format,
    text: String,
    /// The family whose samples are being written,
    name: &'static str,
    /// and what its partition's samples have in common.
    labels: PartLabels,
}

/// A partition's part of the page.
pub(super) struct Part<'a> {
    scrape: &'a Scrape,
    labels: PartLabels,
}

#[derive(Default)]
struct PartLabels {
    /// All samples have it; empty in a process with one partition.
    partition: String,
    /// For each row, the labels of all its lines.
    rows: Vec<String>,
    has_rest: bool,
}

/// The labels of the queues without lines of their own. No queue's name is empty.
const REST: &str = r#"db="",queue="""#;

/// They are of the process: all of its partitions say the same.
const OF_PROCESS: [&str; 2] = ["delayd_memory_resident_bytes", "delayd_cpu_seconds_total"];

impl<'a> Part<'a> {
    /// `number`: of the partition, in a process with several.
    pub(super) fn new(scrape: &'a Scrape, number: Option<usize>) -> Part<'a> {
        let labels = |row: &super::Row| {
            let mut labels = format!("db=\"{}\",queue=\"", row.db);
            escape_into(&mut labels, &row.name);
            labels.push('"');
            labels
        };
        let rows = scrape.rows.iter().map(labels).collect();
        let partition = number.map_or(String::new(), |number| format!("partition=\"{number}\""));
        let labels = PartLabels { partition, rows, has_rest: scrape.rest.queues > 0 };
        Part { scrape, labels }
    }

    /// Jobs are the cluster's: counted on each node they would be there three times.
    fn has(&self, family: &Family) -> bool {
        let is_follower = self.scrape.cluster.as_ref().is_some_and(|view| !view.leads);
        !is_follower || !matches!(family.part, MetricGroup::Jobs | MetricGroup::Queues)
    }
}

impl Page {
    pub(super) fn new(format: Format, parts: &[Part<'_>]) -> Page {
        // About 25 lines a queue.
        let rows = parts.iter().flat_map(|part| &part.labels.rows);
        let bytes = 16_384 * parts.len() + rows.map(|row| 25 * (row.len() + 48)).sum::<usize>();
        let (text, labels) = (String::with_capacity(bytes), PartLabels::default());
        Page { format, text, name: "", labels }
    }

    /// A family with its samples of all partitions; nothing if it has none.
    pub(super) fn family(&mut self, family: &'static Family, parts: &mut [Part<'_>]) {
        let begin = self.text.len();
        let (name, kind) = (family.name, family.kind.word());
        let named = match (self.format, family.kind) {
            // Only the samples have the suffix there.
            (Format::OpenMetrics, MetricKind::Counter) => {
                name.strip_suffix("_total").unwrap_or(name)
            }
            _ => name,
        };
        let help = family.help;
        write!(self.text, "# HELP {named} {help}\n# TYPE {named} {kind}\n")
            .expect("a String takes all");
        let samples = self.text.len();
        self.name = name;
        if OF_PROCESS.contains(&name) {
            (family.write)(parts[0].scrape, self);
            return;
        }
        for part in parts.iter_mut().filter(|part| part.has(family)) {
            std::mem::swap(&mut self.labels, &mut part.labels);
            (family.write)(part.scrape, self);
            std::mem::swap(&mut self.labels, &mut part.labels);
        }
        if self.text.len() == samples {
            self.text.truncate(begin);
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// A sample without labels.
    pub(super) fn value(&mut self, value: SampleValue) {
        self.line("", "", value);
    }

    /// A sample with labels, written as they stand within the braces.
    pub(super) fn labelled(&mut self, labels: &str, value: SampleValue) {
        self.line("", labels, value);
    }

    /// A sample with one label, of a value that may be anything.
    pub(super) fn of(&mut self, label: &str, is: &str, value: SampleValue) {
        self.line("", &escaped(label, is), value);
    }

    /// A sample with two labels, of values that may be anything.
    pub(super) fn two(&mut self, first: (&str, &str), second: (&str, &str), value: SampleValue) {
        let labels = [first, second].map(|(label, is)| escaped(label, is)).join(",");
        self.line("", &labels, value);
    }

    /// A sample of the row numbered `row`; `more` are labels in addition to the queue's.
    pub(super) fn row(&mut self, row: usize, more: &str, value: SampleValue) {
        let labels = std::mem::take(&mut self.labels.rows[row]);
        self.joined(&labels, more, value);
        self.labels.rows[row] = labels;
    }

    /// A sample of the queues without lines of their own; nothing if there are none.
    pub(super) fn rest(&mut self, more: &str, value: SampleValue) {
        if self.labels.has_rest {
            self.joined(REST, more, value);
        }
    }

    /// The samples of a histogram, in seconds.
    pub(super) fn spread(&mut self, spread: &CounterHistogram) {
        for (bound_us, count) in spread.below() {
            let labels = format!("le=\"{:?}\"", bound_us as f64 / 1e6);
            self.line("_bucket", &labels, SampleValue::Count(count));
        }
        let count = SampleValue::Count(spread.count());
        self.line("_bucket", "le=\"+Inf\"", count);
        self.line("_sum", "", SampleValue::Us(spread.sum_us()));
        self.line("_count", "", count);
    }

    fn joined(&mut self, labels: &str, more: &str, value: SampleValue) {
        self.sample("", &[labels, more], value);
    }

    fn line(&mut self, suffix: &str, labels: &str, value: SampleValue) {
        self.sample(suffix, &[labels], value);
    }

    fn sample(&mut self, suffix: &str, labels: &[&str], value: SampleValue) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let mut before = '{';
        for labels in
            [&*self.labels.partition].iter().chain(labels).filter(|labels| !labels.is_empty())
        {
            self.text.push(before);
            self.text.push_str(labels);
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        self.number(value);
    }

    fn number(&mut self, value: SampleValue) {
        let written = match value {
            SampleValue::Count(count) => writeln!(self.text, " {count}"),
            SampleValue::Us(us) => {
                writeln!(self.text, " {}.{:06}", us / 1_000_000, us % 1_000_000)
            }
            SampleValue::Float(number) => writeln!(self.text, " {number}"),
        };
        written.expect("a String takes all");
    }
}

/// A label within the braces.
fn escaped(label: &str, is: &str) -> String {
    let mut text = format!("{label}=\"");
    escape_into(&mut text, is.as_bytes());
    text.push('"');
    text
}

// Names of queues as values of labels.

/// Any bytes as text that Prometheus takes: `\` becomes `\\`, and what is no printable text `\xNN`.
/// Two names never give the same text.
///
/// Within quotes Prometheus reads `\` as the beginning of an escape itself, so each is doubled
/// there.
pub fn escape_into(out: &mut String, name: &[u8]) {
    let byte = |out: &mut String, byte: u8| {
        write!(out, "\\\\x{byte:02x}").expect("a String takes all");
    };
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\\\\\"),
                '"' => out.push_str("\\\""),
                c if c.is_ascii_control() => byte(out, c as u8),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| byte(out, *b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(name: &[u8]) -> String {
        let mut out = String::new();
        escape_into(&mut out, name);
        out
    }

    #[test]
    fn any_bytes_become_text_and_no_two_names_the_same() {
        assert_eq!(escaped("mail:größe 5".as_bytes()), "mail:größe 5");
        assert_eq!(escaped(b"a\"b\nc"), r#"a\"b\\x0ac"#);
        assert_eq!(escaped(b"\xff\xfe\xc3"), r"\\xff\\xfe\\xc3");
        assert_eq!(escaped(br"\xff"), r"\\\\xff");
        assert_ne!(escaped(br"\xff"), escaped(b"\xff"));
    }
}
