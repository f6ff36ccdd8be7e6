//! Golden transcripts: what clients send, when, and every byte they are answered, in `golden/*.txt`.
//! What the files may say stands above `golden/script.rs`.
//!
//! `make docs` writes the answers anew; the review reads the diff.

mod errors;
mod script;
mod shown;

use std::fs;
use std::path::PathBuf;

use delayd::command::table;
use script::Seen;

/// Differences shown of one file.
const SHOWN_MAX: usize = 40;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Runs all transcripts: name, text as it is, text as it should be.
fn run_all(seen: &mut Seen) -> Vec<(String, String, String)> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .expect("the folder of transcripts")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .filter(|name| name.ends_with(".txt"))
        .collect();
    names.sort();
    let run = |name: String| {
        let old = fs::read_to_string(folder().join(&name)).expect("UTF-8");
        let new = script::run(&name, &old, seen);
        (name, old, new)
    };
    names.into_iter().map(run).collect()
}

#[test]
fn every_answer_is_as_written() {
    let update = std::env::var_os("DELAYD_UPDATE").is_some();
    let mut seen = Seen::default();
    let mut report = String::new();
    for (name, old, new) in run_all(&mut seen) {
        if old == new {
            continue;
        }
        if update {
            fs::write(folder().join(&name), new).expect("the folder can be written to");
        } else {
            report.push_str(&difference(&name, &old, &new));
        }
    }
    assert!(report.is_empty(), "{report}\nmake docs writes what came instead\n");
    every_command_has_a_transcript(&seen);
    errors::every_error_has_a_transcript(&seen.errors);
}

/// A container's own row is never run: it has no parser.
fn every_command_has_a_transcript(seen: &Seen) {
    let missing: Vec<&str> = table::all_with_subcommands()
        .filter(|spec| spec.parse.is_some() && !seen.commands.contains(spec.name))
        .map(|spec| spec.name)
        .collect();
    assert!(missing.is_empty(), "no transcript runs {missing:?}");
}

/// The answers that differ, each under the line that was answered. The script's own lines are the
/// same in both texts.
fn difference(name: &str, old: &str, new: &str) -> String {
    let mut report = Vec::new();
    for (old, new) in steps(old).iter().zip(steps(new)) {
        let same = |(old, new): &(&&str, &&str)| old == new;
        let first = old.answers.iter().zip(&new.answers).take_while(same).count();
        let (gone, come) = (&old.answers[first..], &new.answers[first..]);
        let last = gone.iter().rev().zip(come.iter().rev()).take_while(same).count();
        let (gone, come) = (&gone[..gone.len() - last], &come[..come.len() - last]);
        if gone.is_empty() && come.is_empty() {
            continue;
        }
        report.push(format!("tests/golden/{name}:{}: {}", old.line, old.script));
        report.extend(gone.iter().map(|line| format!("  -{line}")));
        report.extend(come.iter().map(|line| format!("  +{line}")));
    }
    if report.is_empty() {
        report.push(format!("tests/golden/{name}: only blanks at the ends of lines differ"));
    }
    let more = report.len().saturating_sub(SHOWN_MAX);
    report.truncate(SHOWN_MAX);
    if more > 0 {
        report.push(format!("... and {more} lines more in {name}"));
    }
    report.join("\n") + "\n"
}

/// A line of the script and what stands under it.
struct Step<'t> {
    line: usize,
    script: &'t str,
    answers: Vec<&'t str>,
}

fn steps(text: &str) -> Vec<Step<'_>> {
    let mut steps = vec![Step { line: 1, script: "", answers: Vec::new() }];
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("    ") {
            steps.last_mut().expect("begun with one").answers.push(line);
        } else {
            steps.push(Step { line: at + 1, script: line, answers: Vec::new() });
        }
    }
    steps
}
