//! The server's options: where they come from, what they are, how they change.
//!
//! A [`Config`] holds a checked value for every line of the table in [`options`]. It is filled from
//! a file and the command line, and changed by CONFIG SET, all or nothing.

pub mod args;
pub mod events;
pub mod file;
pub mod fixed;
pub mod folders;
pub mod options;
mod partitions;
pub mod reference;
pub mod value;

use crate::limits;
use crate::limits::SEGMENT_BYTES_UNIT;
use crate::nearest::nearest;
use options::{Name, OPTIONS, OptionChange, Spec};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use value::{OptionValue, OutputLimit};

const NO_RENAMES: &str = "commands keep their names; use the rules of users to forbid them, for all clients without \
    a password: user default on nopass ~* &* +@all -flushall";

/// A value for every option.
#[derive(Clone, Debug)]
pub struct Config {
    /// By [`Name`], in the order of the table.
    values: Vec<OptionValue>,
    /// The file the options came from, absolute; CONFIG REWRITE writes it.
    pub file: Option<PathBuf>,
    /// The memory that a percentage refers to; 0 until the server has found it out.
    pub machine_bytes: u64,
    /// The lines `user name rules` of the file, without their first word.
    pub users: Vec<Vec<String>>,
    /// The partition of the process that these are for.
    pub partition: u16,
    /// `cluster-enabled` was set, to whatever.
    clustering_set: bool,
}

/// Why options were refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RefusedOptions {
    #[error("unknown option '{word}'{hint}", word = .0, hint = meant(.0))]
    Unknown(String),
    #[error("{option} {given}: {reason}")]
    Value {
        option: String,
        given: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// Suggestions for an unknown option.
fn meant(word: &str) -> String {
    if let Some((option, value)) = word.split_once('=')
        && let Some(spec) = options::find(option)
    {
        return format!("; write '{} {value}' with a space between", spec.word());
    }
    let words = OPTIONS.iter().flat_map(|spec| spec.words.iter().copied());
    nearest(word, words).map_or_else(String::new, |word| format!("; did you mean '{word}'?"))
}

impl RefusedOptions {
    fn value(option: &str, args: &[String], reason: impl Into<String>) -> RefusedOptions {
        RefusedOptions::Value {
            option: option.to_owned(),
            given: args.join(" "),
            reason: reason.into(),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        let value = |spec: &Spec| {
            let args: Vec<String> = spec.default.iter().map(|a| (*a).to_owned()).collect();
            spec.kind.read(&args, None).expect("a test reads every default")
        };
        let values = OPTIONS.iter().map(value).collect();
        let (users, clustering_set) = (Vec::new(), false);
        Config { values, file: None, machine_bytes: 0, users, partition: 0, clustering_set }
    }
}

impl Config {
    /// Sets one option while starting, when those that stay fixed later can be set too. How the
    /// values fit together is checked by [`Config::check`] at the end.
    pub fn set(&mut self, word: &str, args: &[String]) -> Result<(), RefusedOptions> {
        if word.eq_ignore_ascii_case("user") {
            return self.add_user(word, args);
        }
        if word.eq_ignore_ascii_case("rename-command") {
            // The new name may be a secret.
            return Err(RefusedOptions::value(word, &args[..args.len().min(1)], NO_RENAMES));
        }
        let spec = options::find(word).ok_or_else(|| RefusedOptions::Unknown(word.to_owned()))?;
        let slot = &mut self.values[spec.name as usize];
        match spec.kind.read(args, Some(slot)) {
            Ok(value) => {
                *slot = value;
                self.clustering_set |= spec.name == Name::ClusterEnabled;
            }
            Err(reason) if spec.is_secret() => {
                return Err(RefusedOptions::value(word, &["(redacted)".to_owned()], reason));
            }
            Err(reason) => return Err(RefusedOptions::value(word, args, reason)),
        }
        Ok(())
    }

    /// Other modules interpret the rules.
    fn add_user(&mut self, word: &str, args: &[String]) -> Result<(), RefusedOptions> {
        if args.is_empty() {
            return Err(RefusedOptions::value(word, args, "a name and rules expected"));
        }
        if self.users.len() >= limits::ACL_USERS_MAX {
            let reason = format!("there are at most {} users", limits::ACL_USERS_MAX);
            return Err(RefusedOptions::value(word, &args[..1], reason));
        }
        self.users.push(args.to_vec());
        Ok(())
    }

    /// CONFIG SET: all of `pairs` or, when one does not fit, none.
    pub fn set_live(&mut self, pairs: &[(String, String)]) -> Result<(), RefusedOptions> {
        let mut new = self.clone();
        for (i, (word, arg)) in pairs.iter().enumerate() {
            let args = std::slice::from_ref(arg);
            let spec = options::find(word).ok_or_else(|| RefusedOptions::Unknown(word.clone()))?;
            match spec.change {
                OptionChange::Live => {}
                OptionChange::Fixed => {
                    return Err(RefusedOptions::value(word, args, "can't set immutable config"));
                }
                OptionChange::FixedAs(why) => {
                    let slot = &self.values[spec.name as usize];
                    let value = spec.kind.read(args, Some(slot));
                    let value =
                        value.map_err(|reason| RefusedOptions::value(word, args, reason))?;
                    if value != *slot {
                        return Err(RefusedOptions::value(word, args, why));
                    }
                }
            }
            let same = |(other, _): &(String, String)| {
                options::find(other).is_some_and(|o| o.name == spec.name)
            };
            if pairs[..i].iter().any(same) {
                return Err(RefusedOptions::value(word, args, "duplicate parameter"));
            }
            new.set(word, args)?;
        }
        new.check()?;
        *self = new;
        Ok(())
    }

    /// Checks what no option can see alone.
    pub fn check(&self) -> Result<(), RefusedOptions> {
        let at_most = |small: Name, large: Name| {
            if self.number(small) <= self.number(large) {
                return Ok(());
            }
            let (small, large) = (&OPTIONS[small as usize], &OPTIONS[large as usize]);
            let reason =
                format!("must be at most {}, which is {}", large.word(), self.shown(large));
            Err(RefusedOptions::value(small.word(), &[self.shown(small)], reason))
        };
        let segment = &OPTIONS[Name::JournalSegmentSize as usize];
        if !self.number(segment.name).is_multiple_of(SEGMENT_BYTES_UNIT) {
            let reason = format!("must be a multiple of {SEGMENT_BYTES_UNIT}");
            return Err(RefusedOptions::value(segment.word(), &[self.shown(segment)], reason));
        }
        at_most(Name::DefaultLease, Name::MaxLease)?;
        at_most(Name::MaxBodySize, Name::ProtoMaxBulkLen)?;
        partitions::check(self)
    }

    /// The same for another partition of the process.
    pub fn of_partition(self, partition: u16) -> Config {
        Config { partition, ..self }
    }

    /// How many partitions the process runs: 1, 2, 4 … 64.
    pub fn partitions(&self) -> u16 {
        self.text(Name::ClusterPartitions).parse().expect("the option's words are numbers")
    }

    /// The number of an option that names a port, for this partition: each has the next one. 0 stays none.
    pub fn port(&self, name: Name) -> u16 {
        match self.number(name) as u16 {
            0 => 0,
            first => first.saturating_add(self.partition),
        }
    }

    /// This partition's part of a number that is the process's, at least `least` or the whole.
    pub fn part(&self, name: Name, least: u64) -> u64 {
        let whole = self.number(name);
        (whole / u64::from(self.partitions())).max(least).min(whole)
    }

    /// The folder of this partition: `dir`, or one in it where there are several.
    pub fn folder(&self) -> PathBuf {
        let dir = PathBuf::from(self.text(Name::Dir));
        if self.partitions() == 1 { dir } else { dir.join(folders::name_of(self.partition)) }
    }

    /// All options, older words included, with their values as CONFIG GET shows them.
    pub fn shown_all(&self) -> Vec<(&'static str, String)> {
        let words = OPTIONS.iter().flat_map(|spec| spec.words.iter().map(move |w| (*w, spec)));
        words.map(|(word, spec)| (word, self.shown(spec))).collect()
    }

    /// The number of a count, size or duration; a share is turned into bytes.
    pub fn number(&self, name: Name) -> u64 {
        u64::try_from(self.signed(name)).expect("the option's least value is 0 or more")
    }

    /// The number of an option that may be negative.
    pub fn signed(&self, name: Name) -> i64 {
        match &self.values[name as usize] {
            OptionValue::Number(number) => *number,
            OptionValue::Percent(share) => {
                OPTIONS[name as usize].kind.share(*share, self.machine_bytes) as i64
            }
            other => panic!("{name:?} is no number: {other:?}"),
        }
    }

    /// The number of an option that counts things in memory.
    pub fn size(&self, name: Name) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// Yes or no.
    pub fn flag(&self, name: Name) -> bool {
        matches!(self.values[name as usize], OptionValue::Flag(true))
    }

    pub fn text(&self, name: Name) -> &str {
        match &self.values[name as usize] {
            OptionValue::Text(text) => text,
            other => panic!("{name:?} is no text: {other:?}"),
        }
    }

    /// The limits of unread output: normal, replica, pubsub.
    pub fn output_limits(&self) -> [OutputLimit; 3] {
        match self.values[Name::ClientOutputBufferLimit as usize] {
            OptionValue::OutputLimits(limits) => limits,
            ref other => panic!("client-output-buffer-limit is {other:?}"),
        }
    }

    /// The value as CONFIG GET shows it.
    fn shown(&self, spec: &Spec) -> String {
        spec.kind.show(&self.values[spec.name as usize], self.machine_bytes)
    }

    /// The value as a configuration file states it, and whether it is the default.
    fn written(&self, spec: &Spec) -> (String, bool) {
        let value = &self.values[spec.name as usize];
        let default = &Config::default().values[spec.name as usize];
        (spec.kind.write(value), value == default)
    }
}

/// The certificates of a PEM file, in its order; at least one.
///
/// # Errors
/// The file is missing, holds something else, or no certificate; the text begins with the option and the file.
pub fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn Display| format!("{option} {}: {error}", file.display());
    let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found.map_err(|error| wrong(&error))? {
        found if found.is_empty() => Err(wrong(&"no certificate in it")),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::value::OptionKind;
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn the_table_is_in_the_order_of_the_names_and_every_default_is_valid() {
        for (i, spec) in OPTIONS.iter().enumerate() {
            assert_eq!(spec.name as usize, i, "{}", spec.word());
            assert!(spec.doc.ends_with('.'), "{}", spec.word());
        }
        Config::default().check().unwrap();
    }

    #[test]
    fn what_is_written_is_read_back() {
        let config = Config::default();
        for spec in &OPTIONS {
            let line = format!("{} {}", spec.word(), config.written(spec).0);
            let words = file::split(&line).unwrap();
            let mut read = Config::default();
            read.set(&words[0], &words[1..]).unwrap();
            assert_eq!(read.written(spec), (config.written(spec).0, true), "{line}");
        }
    }

    #[test]
    fn out_of_bounds_is_refused_with_the_bounds() {
        for spec in &OPTIONS {
            let (low, high) = match spec.kind {
                OptionKind::Count(a, b)
                | OptionKind::Bytes(a, b)
                | OptionKind::Seconds(a, b)
                | OptionKind::Span(a, b) => (a, b),
                _ => continue,
            };
            let outside = [low.checked_sub(1).filter(|n| *n >= 0), high.checked_add(1)];
            for number in outside.into_iter().flatten() {
                let error = Config::default().set(spec.word(), &[number.to_string()]).unwrap_err();
                let text = error.to_string();
                assert!(text.starts_with(spec.word()), "{text}");
                assert!(text.contains("must be between"), "{text}");
            }
            let inside = if let OptionKind::Span(..) = spec.kind {
                format!("{low}ms")
            } else {
                low.to_string()
            };
            Config::default().set(spec.word(), &[inside]).unwrap();
        }
    }

    #[test]
    fn config_set_is_all_or_nothing() {
        let mut config = Config::default();
        config.set_live(&pairs(&[("maxclients", "5"), ("timeout", "x")])).unwrap_err();
        assert_eq!(config.number(Name::MaxClients), 10_000);
        config.set_live(&pairs(&[("maxclients", "5"), ("timeout", "7")])).unwrap();
        assert_eq!((config.number(Name::MaxClients), config.number(Name::Timeout)), (5, 7));
    }

    #[test]
    fn config_set_gives_redis_reasons() {
        let text =
            |p: &[(&str, &str)]| Config::default().set_live(&pairs(p)).unwrap_err().to_string();
        assert_eq!(text(&[("nope", "1")]), "unknown option 'nope'");
        assert_eq!(text(&[("port", "1")]), "port 1: can't set immutable config");
        assert_eq!(text(&[("timeout", "1"), ("TIMEOUT", "2")]), "TIMEOUT 2: duplicate parameter");
        assert_eq!(
            text(&[("timeout", "x")]),
            "timeout x: argument couldn't be parsed into an integer; 'x' is not between 0 and \
             2147483647 inclusive"
        );
        assert!(text(&[("appendfsync", "x")]).contains("one of the following: always, everysec"));
    }

    #[test]
    fn values_that_do_not_fit_together_are_refused() {
        let mut config = Config::default();
        let error = config.set_live(&pairs(&[("max-lease", "30s")])).unwrap_err();
        assert_eq!(error.to_string(), "default-lease 1m: must be at most max-lease, which is 30s");
        config.set_live(&pairs(&[("max-lease", "30s"), ("default-lease", "10s")])).unwrap();
    }

    #[test]
    fn the_journal_is_opened_at_the_start_or_never() {
        let mut config = Config::default();
        for value in ["no", "yes"] {
            config.set("appendonly", &[value.to_owned()]).unwrap();
            assert_eq!(config.flag(Name::AppendOnly), value == "yes");
            config.set_live(&pairs(&[("appendonly", value), ("appendfsync", "no")])).unwrap();
            let other = if value == "yes" { "no" } else { "yes" };
            let error = config.set_live(&pairs(&[("appendonly", other)])).unwrap_err();
            assert!(error.to_string().contains("restart it with the other value"), "{error}");
        }
        let error = config.set_live(&pairs(&[("appendonly", "maybe")])).unwrap_err();
        assert_eq!(error.to_string(), "appendonly maybe: argument must be 'yes' or 'no'");
        config.set_live(&pairs(&[("appenddirname", "journal")])).unwrap_err();
    }

    #[test]
    fn the_journal_is_in_one_folder_and_in_whole_blocks() {
        let mut config = Config::default();
        for name in ["", ".", "..", "a/b", "/"] {
            let error = config.set("appenddirname", &[name.to_owned()]).unwrap_err();
            assert!(error.to_string().contains("can't be a path"), "{error}");
        }
        config.set("appenddirname", &["jobs of today".to_owned()]).unwrap();
        assert_eq!(config.text(Name::AppendDirName), "jobs of today");
        config.set("journal-segment-size", &["1048577".to_owned()]).unwrap();
        let error = config.check().unwrap_err().to_string();
        assert_eq!(error, "journal-segment-size 1048577: must be a multiple of 4096");
        config.set("journal-segment-size", &["1052672".to_owned()]).unwrap();
        config.check().unwrap();
    }

    #[test]
    fn a_share_of_the_memory_is_shown_in_bytes() {
        let config = Config { machine_bytes: 1000, ..Config::default() };
        assert_eq!(config.number(Name::MaxMemory), 800);
        assert!(config.shown_all().contains(&("maxmemory", "800".to_owned())));
    }

    #[test]
    fn clients_get_a_share_of_little_memory_and_256mb_of_much() {
        let of = |bytes| {
            let config = Config { machine_bytes: bytes, ..Config::default() };
            let jobs = config.number(Name::MaxMemory);
            (config.number(Name::MaxClientsMemory), jobs)
        };
        assert_eq!(of(64 << 30).0, 256 << 20);
        assert_eq!(of(400_000_000), (32_000_000, 320_000_000));
        assert_eq!(of(1_000_000).0, 1 << 20, "its minimum");
        let mut config = Config { machine_bytes: 400_000_000, ..Config::default() };
        let mut set = |text: &str| config.set("max-clients-memory", &[text.to_owned()]);
        assert!(set("0").is_err() && set("101%").is_err() && set("5%").is_ok());
        assert_eq!(config.number(Name::MaxClientsMemory), 20_000_000);
        config.set("max-clients-memory", &["512mb".to_owned()]).unwrap();
        assert_eq!(config.number(Name::MaxClientsMemory), 512 << 20);
    }
}
