//! Golden transcripts: what clients send, when, and every byte they are answered, in `golden/*.txt`.
//! What the files may say stands above `golden/script.rs`.
//!
//! `DELAYD_UPDATE=1 cargo test --test golden` writes the answers anew; the review reads the diff.

#[path = "golden/errors.rs"]
mod errors;
#[path = "golden/script.rs"]
mod script;
#[path = "golden/shown.rs"]
mod shown;
#[path = "golden/world.rs"]
mod world;

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
    assert!(report.is_empty(), "{report}\nDELAYD_UPDATE=1 writes what came instead\n");
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

/// The lines that differ, with file and line.
fn difference(name: &str, old: &str, new: &str) -> String {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let mut report = Vec::new();
    let (mut at, mut to) = (0, 0);
    while at < old.len() || to < new.len() {
        if old.get(at) == new.get(to) {
            (at, to) = (at + 1, to + 1);
            continue;
        }
        // The nearest pair of lines that are equal again; script lines are always among them.
        let meets = |skip: usize| {
            (0..=skip).map(move |first| (first, skip - first)).find(|(gone, come)| {
                let (gone, come) = (old.get(at + gone), new.get(to + come));
                gone == come && gone.is_none_or(|line| !line.trim().is_empty())
            })
        };
        let left = old.len() - at + new.len() - to;
        let (gone, come) = (1..=left).find_map(meets).unwrap_or((old.len() - at, new.len() - to));
        if let Some(step) = old[..at].iter().rposition(|line| !line.starts_with("    ")) {
            report.push(format!("tests/golden/{name}:{}: {}", step + 1, old[step]));
        }
        let gone = (at..(at + gone).min(old.len())).map(|line| (line, '-', old[line]));
        let come_at = at;
        let come = (to..(to + come).min(new.len())).map(|line| (come_at, '+', new[line]));
        let changed: Vec<_> = gone.chain(come).collect();
        at += changed.iter().filter(|(_, sign, _)| *sign == '-').count();
        to += changed.iter().filter(|(_, sign, _)| *sign == '+').count();
        for (line, sign, text) in changed {
            report.push(format!("{:>6} {sign}{text}", line + 1));
        }
    }
    let more = report.len().saturating_sub(SHOWN_MAX);
    report.truncate(SHOWN_MAX);
    if more > 0 {
        report.push(format!("... and {more} lines more in {name}"));
    }
    report.join("\n") + "\n"
}
