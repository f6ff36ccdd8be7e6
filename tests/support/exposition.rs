//! The text that Prometheus reads, read strictly: the format's rules, and the conventions that its
//! own `promtool check metrics` looks for.

use std::collections::{BTreeMap, BTreeSet};

/// A scrape that kept all rules.
#[derive(Debug, Default)]
pub struct Exposition {
    /// The kind of each family, by name.
    pub families: BTreeMap<String, String>,
    /// Values by the name of the sample and its labels as text, such as `jobs{state="ready"}`.
    pub samples: BTreeMap<String, f64>,
}

type Labels = Vec<(String, String)>;

/// The family that is being read.
#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    /// Of a histogram: the last bound and its count.
    bucket: Option<(f64, f64)>,
    parts: BTreeSet<String>,
}

impl Exposition {
    /// Reads the text format 0.0.4. Panics at the first rule that is broken.
    pub fn read(text: &str) -> Exposition {
        assert!(text.ends_with('\n'), "the last line ends, too");
        let (mut all, mut family, mut help) = (Exposition::default(), Family::default(), None);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, words) = rest.split_once(' ').expect("a help text");
                assert!(words.ends_with('.') && !words.contains('\\'), "a sentence: {line}");
                help = Some(name.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                family.end();
                let (name, kind) = rest.split_once(' ').expect("a type");
                assert_eq!(help.take().as_deref(), Some(name), "HELP stands before TYPE");
                check_family(name, kind);
                let known = all.families.insert(name.to_owned(), kind.to_owned());
                assert_eq!(known, None, "{name} is one group");
                let (name, kind) = (name.to_owned(), kind.to_owned());
                family = Family { name, kind, ..Family::default() };
            } else {
                assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
                let (name, labels, value) = sample(line);
                family.take(&name, &labels, value, line);
                let key = line.rsplit_once(' ').expect("a value").0.to_owned();
                assert_eq!(all.samples.insert(key, value), None, "twice: {line}");
            }
        }
        family.end();
        all
    }

    pub fn value(&self, sample: &str) -> f64 {
        match self.samples.get(sample) {
            Some(value) => *value,
            None => panic!("no {sample} among {:#?}", self.samples.keys()),
        }
    }

    /// The sum over all samples that begin so.
    pub fn sum(&self, begin: &str) -> f64 {
        let begun = self.samples.iter().filter(|(name, _)| name.starts_with(begin));
        begun.map(|(_, value)| value).sum()
    }

    /// Whether samples of this name exist: a family's, or a part of a histogram.
    pub fn has(&self, name: &str) -> bool {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let of = |name: &str| self.families.get(name);
        of(name).is_some_and(|kind| kind != "histogram")
            || base.and_then(of).is_some_and(|kind| kind == "histogram")
    }
}

fn check_family(name: &str, kind: &str) {
    assert!(is_name(name) && name.starts_with("delayd_"), "{name}");
    assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
    for end in ["_count", "_sum", "_bucket", "_counter", "_gauge", "_histogram"] {
        assert!(!name.ends_with(end), "{name}");
    }
    let units = ["ms", "us", "ns", "milliseconds", "minutes", "kb", "mb", "percent", "percentage"];
    assert!(!name.split('_').any(|word| units.contains(&word)), "{name}: base units");
    assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} is a {kind}");
}

fn is_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit())
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(within) = rest.strip_prefix('{') {
        rest = within;
        while !rest.starts_with('}') {
            rest = label(rest, &mut labels, line);
        }
        rest = &rest[1..];
        assert!(!labels.is_empty(), "{line}");
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    (name.to_owned(), labels, value)
}

fn label<'a>(text: &'a str, labels: &mut Labels, line: &str) -> &'a str {
    let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
    assert!(is_name(name) && !name.starts_with("__"), "{line}");
    assert!(labels.iter().all(|(other, _)| other != name), "{name} twice: {line}");
    let (mut value, mut chars) = (String::new(), rest.char_indices());
    let end = loop {
        match chars.next() {
            Some((at, '"')) => break at + 1,
            Some((_, '\\')) => value.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, c @ ('\\' | '"'))) => c,
                other => panic!("no escape: {other:?} in {line}"),
            }),
            Some((_, c)) => value.push(c),
            None => panic!("no end: {line}"),
        }
    };
    labels.push((name.to_owned(), value));
    rest[end..].strip_prefix(',').unwrap_or(&rest[end..])
}

impl Family {
    fn take(&mut self, name: &str, labels: &Labels, value: f64, line: &str) {
        assert!(!value.is_nan(), "{line}");
        if self.kind == "counter" {
            assert!(value >= 0.0, "{line}");
        }
        let part = name.strip_prefix(&self.name).unwrap_or_else(|| panic!("a stray {line}"));
        self.parts.insert(part.to_owned());
        let bound = labels.iter().find(|(label, _)| label == "le").map(|(_, bound)| bound);
        assert_eq!(bound.is_some(), part == "_bucket", "{line}");
        match (self.kind.as_str(), part) {
            ("histogram", "_bucket") => {
                let bound = match bound.expect("it was looked at").as_str() {
                    "+Inf" => f64::INFINITY,
                    bound => bound.parse().unwrap(),
                };
                let (last, count) = self.bucket.unwrap_or((f64::NEG_INFINITY, 0.0));
                assert!(bound > last && value >= count, "buckets grow: {line}");
                self.bucket = Some((bound, value));
            }
            ("histogram", "_count") => {
                assert_eq!(self.bucket, Some((f64::INFINITY, value)), "the last holds all: {line}");
            }
            ("histogram", part) => assert_eq!(part, "_sum", "{line}"),
            (_, part) => assert_eq!(part, "", "{line}"),
        }
    }

    fn end(&self) {
        if self.kind == "histogram" {
            assert_eq!(self.parts.len(), 3, "{} has buckets, a sum and a count", self.name);
        } else if !self.name.is_empty() {
            assert_eq!(self.parts.len(), 1, "{} has samples", self.name);
        }
    }
}
