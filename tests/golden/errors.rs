//! Whether the transcripts show every error text of the source. The texts are found in the source:
//! string literals that begin with an error class, and all literals of the few files that hold the
//! parts of one.

use std::collections::BTreeSet;

use crate::support::source::{code, source};

/// First words of error replies.
const CLASSES: [&str; 12] = [
    "ERR ", "EXECABORT ", "LOADING ", "MASTERDOWN ", "MISCONF ", "NOPROTO ", "NOSCRIPT ",
    "NOTBUSY ", "READONLY ", "UNBLOCKED ", "WRONGPASS ", "WRONGTYPE ",
];

/// Files all of whose texts are errors, or ends of errors.
const ALL_ERRORS: [&str; 3] = ["error.rs", "command/read/duration.rs", "resp/error.rs"];

/// Texts that no transcript can show, with the reason.
const UNSEEN: [(&str, &str); 25] = [
    ("the backup has {bytes} bytes", "a journal on a disk, and tests/processes/backup.rs shows it"),
    ("ERR the base cannot be read", "a disk that fails while a base is read"),
    ("ERR no help", "HELP is found by its container, which is therefore there"),
    ("unauthenticated multibulk length", "no password can be set in this version"),
    ("unauthenticated bulk length", "no password can be set in this version"),
    ("names matches, and a transaction", "10,001 schedules, and tests/engine/walks.rs shows it"),
    ("groups, the maximum; RESET one", "10,001 groups, and tests/engine/groups.rs shows it"),
    ("KEYS would answer with more than", "16 MiB of names"),
    ("the reply would have more than", "16 MiB of bodies, and tests/engine/lists.rs shows it"),
    ("jobs are equal; give a", "10,001 jobs, and tests/engine/lists.rs shows it"),
    ("names; at most", "1,001 arguments"),
    ("ERR the pattern has", "1,025 bytes, and tests/server/bounds.rs shows it"),
    ("patterns; at most", "257 arguments, and tests/server/bounds.rs shows it"),
    ("has {count} arguments", "65,537 arguments, and tests/server/bounds.rs shows it"),
    ("a transaction holds at most {TRANSACTION_ARGUMENTS_MAX}", "262,145 arguments"),
    ("a connection can watch at most", "10,001 names, and tests/server/session.rs shows it"),
    ("its client may hold", "16 MiB of jobs, and tests/server/bounds.rs shows it"),
    ("ERR {own} subscriptions and", "16,385 names"),
    ("ERR the patterns of all clients cost", "4 MiB of patterns, and src/pubsub/mod.rs shows it"),
    ("ERR comparing the pattern with all", "8 MiB of channels, and src/pubsub/mod.rs shows it"),
    ("ERR all clients together are subscribed to", "262,145 names"),
    ("TOOLARGE the answer may have", "over HTTP only, and tests/program/handed_over.rs shows it"),
    ("ERR BOUND is not available over HTTP", "over HTTP only, and tests/program/handed_over.rs"),
    (
        "ERR not all nodes of the cluster support",
        "an older node, and tests/engine/schedules.rs shows it",
    ),
    (
        "with SCHEDULES it can be at most",
        "501 schedules, and tests/engine/schedules_life.rs shows it",
    ),
];

pub fn every_error_has_a_transcript(seen: &BTreeSet<String>) {
    let missing: Vec<String> = texts()
        .into_iter()
        .filter(|(_, text)| !UNSEEN.iter().any(|(unseen, _)| text.contains(unseen)))
        .filter(|(_, text)| !seen.iter().any(|error| fits(error, text)))
        .map(|(file, text)| format!("{file}: {text}"))
        .collect();
    assert!(missing.is_empty(), "no transcript shows these errors:\n{}", missing.join("\n"));
}

/// Whether an error reply can stem from this text, whose `{...}` stand for anything.
fn fits(error: &str, text: &str) -> bool {
    let mut rest = error;
    let mut parts = Vec::new();
    let mut text = text;
    while let Some((part, behind)) = text.split_once('{') {
        parts.push(part);
        text = behind.split_once('}').map_or("", |(_, behind)| behind);
    }
    parts.push(text);
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

fn texts() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for (file, text) in source("src") {
        // HTTP has errors of its own, which `tests/program/console_api.rs` shows.
        if file.starts_with("src/console/") {
            continue;
        }
        let name = file.trim_start_matches("src/").to_owned();
        // What an attribute allows, and why, nobody is answered.
        let code: String =
            code(&text).split_inclusive('\n').filter(|line| !line.contains("allow(")).collect();
        let all = ALL_ERRORS.contains(&name.as_str());
        for literal in literals(&code) {
            let is_error =
                CLASSES.iter().any(|class| literal.starts_with(class) && literal != *class);
            let is_part = all && literal.trim().contains(' ');
            if is_error || is_part {
                texts.push((name.clone(), literal));
            }
        }
    }
    assert!(texts.len() > 80, "the texts are not where they are sought: {texts:?}");
    texts
}

/// The string literals of some code, with escapes resolved as far as errors use them.
fn literals(code: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // A character: '"' must not begin a string.
            '\'' => {
                let mut ahead = chars.clone();
                let first = ahead.next();
                let last = if first == Some('\\') { ahead.nth(1) } else { ahead.next() };
                if last == Some('\'') {
                    chars = ahead;
                }
            }
            '"' => {
                let mut literal = String::new();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    if c != '\\' {
                        literal.push(c);
                    } else if let Some(escaped) = chars.next() {
                        match escaped {
                            '\n' => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                            'n' => literal.push('\n'),
                            '\\' => literal.push_str("\\\\"),
                            other => literal.push(other),
                        }
                    }
                }
                literals.push(literal);
            }
            _ => {}
        }
    }
    literals
}
