//! Journals that earlier versions wrote are read for ever. `tests/journal/upgrade/README.md` says how they are
//! kept and how one is added.

pub mod desk;
pub mod history;

use crate::support::program::Folder;
use delayd::engine::Settings;
use delayd::ids::Index;
use delayd::journal::Disk;
use delayd::journal::offline::dump::{Dump, DumpNames};
use delayd::journal::record::raft_state::Vote;
use delayd::journal::recovery::{Progress, Recovered, recover};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Every word of a fact, and of an image.
const FACTS: [&str; 36] = [
    "queue_bound", "queue_removed", "queue_forgotten", "policy_bound", "policy_forgotten",
    "flushed", "added", "due", "leased", "popped", "unleased", "unpopped", "acked", "nacked",
    "extended", "lease_over", "deleted", "expired", "dropped", "rescheduled", "window_over",
    "configured", "paused", "scheduled", "unscheduled", "occurred", "passed", "gave_way",
    "schedule_paused", "schedule_moved", "ran", "group_set", "group_paced", "successor_set",
    "succeeded", "successor_removed",
];
/// ... and of a record that is no batch of facts.
const RECORDS: [&str; 5] = ["blank", "cut", "members", "state", "vote"];
const IMAGES: [&str; 14] = [
    "begin", "policy", "queue", "queue_more", "error", "group", "group_paced", "job", "window",
    "schedule", "schedule_totals", "minutes", "schedules", "end",
];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal/upgrade")
}

/// The folder of this name.
pub fn folder(name: &str) -> PathBuf {
    kept().join(name)
}

/// The folders of all versions.
fn versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(kept()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(!folders.is_empty(), "no journal is kept");
    folders
}

/// Copies the journal of a version to where it can be worked with; zeros at the end of segments, which
/// are left out of what is kept, come back.
pub fn unpacked(version: &Path, with_base: bool) -> Folder {
    let scratch = Folder::new("journal");
    fs::create_dir(scratch.journal()).unwrap();
    for entry in fs::read_dir(version.join("journal")).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        let mut bytes = fs::read(path).unwrap();
        if name.to_str().unwrap().starts_with("segment-") {
            // The size stands in the header.
            let size = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
            bytes.resize(size as usize, 0);
        } else if !with_base {
            continue;
        }
        fs::write(scratch.journal().join(name), bytes).unwrap();
    }
    scratch
}

fn dumped(scratch: &Folder, options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    let output = command.arg("dump").arg(&scratch.0).args(options).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a start finds, as text: the lines of a base of it, sorted. A hash would depend on the machine.
fn state(scratch: &Folder) -> String {
    let disk = Arc::new(Disk::open(&scratch.journal()).unwrap());
    let recovered = recover(&disk, desk::OPTIONS, Settings::default(), &Progress::default());
    let mut recovered = recovered.unwrap();
    assert_eq!(recovered.opened.cut, None);
    assert_eq!(recovered.opened.notices, [""; 0]);
    text_of(&mut recovered.engine, recovered.index)
}

fn text_of(engine: &mut delayd::engine::Engine, index: Index) -> String {
    engine.begin_base();
    while !engine.base_slice(100, 1_000) {}
    let images = std::mem::take(engine.base_output());
    let mut dump = Dump::new(Vec::new(), DumpNames::default());
    dump.images(index, &images).unwrap();
    let text = String::from_utf8(dump.into_output()).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

/// Before this folder errors were not counted: a log has the facts that they follow from, a base has none of them.
const WITH_ERRORS: u32 = 8;
/// Before this one a job had its last error alone.
const WITH_LAST_ERRORS: u32 = 10;

fn number(version: &Path) -> u32 {
    version.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
}

fn without_errors(state: &str) -> String {
    let lines = state.lines().filter(|line| !line.contains("\"image\":\"error\""));
    lines.map(|line| format!("{line}\n")).collect()
}

fn without_last_errors(state: &str) -> String {
    let line = |line: &str| match line.split_once(",\"errors\":[") {
        Some((before, rest)) => {
            let (_, behind) = rest.split_once(']').expect("the end of a list without lists");
            format!("{before}{behind}\n")
        }
        None => format!("{line}\n"),
    };
    state.lines().map(line).collect()
}

fn same(have: &str, file: &Path) {
    let want = fs::read_to_string(file).unwrap();
    let line = have.lines().zip(want.lines()).find(|(have, want)| have != want);
    assert!(have == want, "{} differs: {line:#?}", file.display());
}

#[test]
fn a_start_finds_what_earlier_versions_wrote() {
    for version in versions() {
        for with_base in [true, false] {
            let mut state = state(&unpacked(&version, with_base));
            if number(&version) < WITH_ERRORS {
                state = without_errors(&state);
            }
            if number(&version) < WITH_LAST_ERRORS {
                state = without_last_errors(&state);
            }
            same(&state, &version.join("state.jsonl"));
        }
    }
}

#[test]
fn a_dump_tells_what_earlier_versions_wrote() {
    for version in versions() {
        let facts = dumped(&unpacked(&version, true), &["--from", "1"]);
        same(&facts, &version.join("facts.jsonl"));
        assert_eq!(dumped(&unpacked(&version, false), &[]), facts, "with or without a base");
        same(&dumped(&unpacked(&version, true), &["--base"]), &version.join("base.jsonl"));
    }
}

/// What is kept of all folders in this file.
fn all(file: &str) -> String {
    versions().iter().map(|version| fs::read_to_string(version.join(file)).unwrap()).collect()
}

#[test]
fn every_fact_image_and_record_is_kept() {
    let words = |file: &str, field: &str| -> BTreeSet<String> {
        let text = all(file);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let words =
            lines.filter_map(|line: serde_json::Value| Some(line[field].as_str()?.to_owned()));
        words.collect()
    };
    assert_eq!(words("facts.jsonl", "fact"), FACTS.map(str::to_owned).into());
    assert_eq!(words("base.jsonl", "image"), IMAGES.map(str::to_owned).into());
    assert_eq!(words("facts.jsonl", "record"), RECORDS.map(str::to_owned).into());
    let facts = all("facts.jsonl");
    for kind in [
        r#""made":true"#,
        r#""made":false"#,
        r#""bound":true"#,
        r#""prompt":true"#,
        r#""absolute":true"#,
        r#""fact":"flushed","db":null"#,
        r#""fact":"flushed","db":4"#,
        r#""to":"ready""#,
        r#""to":"delayed""#,
        r#""reason":"attempts""#,
        r#""reason":"timeout""#,
        r#""reason":"lost""#,
        r#""counted":false,"to":"ready""#,
        r#""reason":"buried""#,
        r#""history":null"#,
        r#""history":{"#,
        r#""backoff":"1s,90s""#,
        r#""backoff":"exp:1s:1h~""#,
        r#""settings":{}"#,
        r#""due-enters":"left""#,
        r#""out":"endless""#,
        r#""in":null"#,
        r#""every_ms":60000"#,
        r#""cron":"30 2 * * 1-5","tz":"Europe/Berlin""#,
        r#""overlap":"replace""#,
        r#""paused":"endless""#,
        r#""next":null"#,
    ] {
        assert!(facts.contains(kind), "{kind}");
    }
}

#[test]
fn the_documentation_names_every_fact_image_and_field() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/journal.md");
    let docs = fs::read_to_string(docs).unwrap();
    let mut missing = BTreeSet::new();
    for file in ["facts.jsonl", "base.jsonl"] {
        let text = all(file);
        for line in text.lines() {
            let line: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(line).unwrap();
            let words =
                ["fact", "image", "record"].map(|field| line.get(field)).into_iter().flatten();
            let words = words.map(|word| word.as_str().unwrap().to_owned());
            let all = words.chain(line.keys().cloned());
            missing.extend(all.filter(|word| !docs.contains(&format!("`{word}`"))));
        }
    }
    assert!(missing.is_empty(), "docs/journal.md lacks {missing:?}");
}

#[test]
fn what_a_member_knew_is_known_after_a_start() {
    for with_base in [true, false] {
        let scratch = unpacked(&kept().join("3"), with_base);
        let disk = Arc::new(Disk::open(&scratch.journal()).unwrap());
        let recovered = recover(&disk, desk::OPTIONS, Settings::default(), &Progress::default());
        let Recovered { log, index, opened, .. } = recovered.unwrap();
        assert_eq!(log.voted(), Some(Vote { epoch: 6, node: 0 }));
        assert_eq!(log.members().unwrap().body, b"of 1, 2 and 3");
        assert_eq!(log.state().identity.name[..], b"n2"[..]);
        let [proposed] = &opened.uncommitted[..] else { panic!("{:?}", opened.uncommitted) };
        assert_eq!((proposed.index, proposed.epoch), (index.next(), 5));
        assert_eq!((log.committed(), log.bounds().1), (index, index.next()));
        let records = opened.records;
        // A node reads its log from its first batch on, whatever its base covers: others may need it.
        assert_eq!((records.cuts, records.void, records.votes), (2, 3, 4));
    }
}

#[test]
fn a_journal_of_each_kind_is_kept() {
    // With its base a start would use the first segment again.
    keep("2", || unpacked(&kept().join("1"), false), history::after_upgrade);
    keep("3", || Folder::new("journal"), history::of_a_member);
    keep("4", || Folder::new("journal"), history::with_schedules);
    keep("5", || Folder::new("journal"), history::with_meta);
    keep("6", || Folder::new("journal"), history::with_groups);
    keep("7", || Folder::new("journal"), history::with_latest);
    keep("8", || Folder::new("journal"), history::with_errors);
    keep("9", || Folder::new("journal"), history::with_minutes);
    keep("10", || Folder::new("journal"), history::with_last_errors);
}

/// A folder that is not there is missing, or is written (`make docs`): a journal behind what `scratch` has.
fn keep(name: &str, scratch: impl FnOnce() -> Folder, history: impl FnOnce(&mut desk::Desk)) {
    let kept = kept().join(name);
    if kept.exists() {
        return;
    }
    let writes = std::env::var_os("DELAYD_UPDATE").is_some();
    assert!(writes, "tests/journal/upgrade/{name} is missing; make docs");
    let scratch = scratch();
    let mut desk = desk::Desk::resume(&scratch.journal());
    history(&mut desk);
    drop(desk);
    fs::create_dir_all(kept.join("journal")).unwrap();
    for entry in fs::read_dir(scratch.journal()).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        let mut bytes = fs::read(path).unwrap();
        if name.to_str().unwrap().starts_with("segment-") {
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        }
        if !bytes.is_empty() {
            fs::write(kept.join("journal").join(name), bytes).unwrap();
        }
    }
    fs::write(kept.join("facts.jsonl"), dumped(&scratch, &["--from", "1"])).unwrap();
    fs::write(kept.join("base.jsonl"), dumped(&scratch, &["--base"])).unwrap();
    fs::write(kept.join("state.jsonl"), state(&scratch)).unwrap();
}
