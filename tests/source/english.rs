//! Texts are written as an engineer would say them aloud: phrases of a translation stay out of everything that users
//! read, and rare in comments.

use crate::support::source::{code, source};
use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that users never read, in any case, as whole words.
const NEVER: [&str; 18] = [
    "whom", "whoever", "somebody", "nobody counts", "stand there", "stands there", "stood there",
    "of no use", "is none", "but for", "of late", "its kin", "their kin", "to be had",
    "takes no part", "all there is", "the most are", "the least is",
];

/// Words about things that are words about people, and other habits of comments.
const RARE: [&str; 18] = [
    "whom", "whoever", "whose", "who", "nobody", "somebody", "anybody", "everybody", "stands",
    "stood", "beside", "anew", "kin", "of no use", "is none", "but for", "of late", "all the same",
];

/// A comment's sentence begins with its subject or its verb, not with these.
const BEGINNINGS: [&str; 6] = ["of ", "with ", "what is ", "behind ", "who ", "whose "];

/// How many habits the comments of `src/` may have.
const COMMENT_HABITS_MAX: usize = 400;

/// How often a phrase is in a text as whole words; both in lower case.
fn count(text: &str, phrase: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole = |at: usize| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    };
    text.match_indices(phrase).filter(|(at, _)| is_whole(*at)).count()
}

/// Prose of a page: its lines in lower case without blocks of code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut kept = String::new();
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence && !line.starts_with("    ") {
            kept += &format!("{line} ");
        }
    }
    kept.to_lowercase()
}

/// The code of a file in lower case, where a text that goes on in the next line is one line.
fn joined(text: &str) -> String {
    code(text)
        .lines()
        .fold(String::new(), |all, line| match line.strip_suffix('\\') {
            Some(begun) => all + begun.trim_start(),
            None => all + line.trim_start() + "\n",
        })
        .to_lowercase()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn is_python(path: &Path) -> bool {
    let first = fs::read_to_string(path).unwrap_or_default();
    path.extension().is_some_and(|end| end == "py")
        || first.lines().next().is_some_and(|line| line.contains("python"))
}

#[test]
fn users_read_no_phrase_of_a_translation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
    let mut found: Vec<PathBuf> = pages.iter().map(|page| root.join(page)).collect();
    files(&root.join("docs"), &mut found);
    files(&root.join("deploy"), &mut found);
    // Licences are quoted there, and `is None` is Python.
    found.retain(|path| !path.starts_with(root.join("deploy/deb")) && !is_python(path));
    let read = |path: &PathBuf| Some((path.display().to_string(), fs::read_to_string(path).ok()?));
    let mut texts: Vec<(String, String)> = found
        .iter()
        .filter_map(read)
        // Programs are code: `is None` is no phrase.
        .filter(|(path, text)| !path.ends_with(".py") && !text.starts_with("#!"))
        .map(|(path, text)| {
            (path.clone(), if path.ends_with(".md") { prose(&text) } else { text.to_lowercase() })
        })
        .collect();
    texts.extend(source("src").into_iter().map(|(file, text)| (file, joined(&text))));
    let mut wrong = Vec::new();
    for (file, text) in &texts {
        let phrases = NEVER.iter().filter(|phrase| count(text, phrase) > 0);
        wrong.extend(phrases.map(|phrase| format!("{file} says '{phrase}'")));
    }
    assert!(texts.len() > 300, "{} texts", texts.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The comments of a file, each in lower case and in one line.
fn comments(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in text.lines() {
        match line.trim_start().strip_prefix("//") {
            Some(comment) => {
                let last = all.last_mut().expect("it begins with one");
                *last += comment.trim_start_matches(['/', '!']).trim();
                last.push(' ');
            }
            None if all.last().is_some_and(|last| !last.is_empty()) => all.push(String::new()),
            None => {}
        }
    }
    all.iter().map(|comment| comment.to_lowercase()).collect()
}

fn habits(comment: &str) -> usize {
    let begins = |start: &&&str| comment.starts_with(**start);
    let within = BEGINNINGS.iter().map(|start| comment.matches(&format!(". {start}")).count());
    RARE.iter().map(|phrase| count(comment, phrase)).sum::<usize>()
        + BEGINNINGS.iter().filter(begins).count()
        + within.sum::<usize>()
}

#[test]
fn comments_are_plain_english() {
    let mut worst: Vec<(usize, String)> = source("src")
        .into_iter()
        .map(|(file, text)| (comments(&text).iter().map(|comment| habits(comment)).sum(), file))
        .collect();
    worst.sort();
    let sum: usize = worst.iter().map(|(count, _)| count).sum();
    let most = &worst[worst.len().saturating_sub(10)..];
    assert!(sum <= COMMENT_HABITS_MAX, "{sum} habits; most in {most:?}");
}

#[test]
fn phrases_are_found_as_whole_words() {
    assert_eq!(count("there is none; the list is_none or is nonexistent", "is none"), 1);
    assert_eq!(habits("of a queue. with jobs, beside others: who knows"), 4);
    assert_eq!(comments("/// One\n/// line.\nfn x() {}\n//! Two.\n")[..2], ["one line. ", "two. "]);
    assert_eq!(prose("Some\n```py\nx is None\n```\ntext\n"), "some text ");
    assert_eq!(joined("let x = \"a b \\\n    c\";\n// d\n"), "let x = \"a b c\";\n");
}
