//! Whether the transcripts show every error text of the source. The texts are found in the source:
//! string literals that begin with an error class, and all literals of the few files that hold the
//! parts of one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// First words of error replies.
const CLASSES: [&str; 6] =
    ["ERR ", "EXECABORT ", "NOPROTO ", "UNBLOCKED ", "WRONGPASS ", "WRONGTYPE "];

/// Files all of whose texts are errors, or ends of errors.
const ALL_ERRORS: [&str; 3] = ["error.rs", "command/duration.rs", "resp/error.rs"];

/// Texts that no transcript can show, with the reason.
const UNSEEN: [(&str, &str); 3] = [
    ("ERR no help", "HELP is found by its container, which is therefore there"),
    ("unauthenticated multibulk length", "no password can be set in this version"),
    ("unauthenticated bulk length", "no password can be set in this version"),
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut texts = Vec::new();
    for path in files(&root) {
        let name = path.strip_prefix(&root).expect("below it").display().to_string();
        let code = fs::read_to_string(&path).expect("UTF-8");
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .fold(String::new(), |code, line| code + line + "\n");
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

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
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
