//! `delayd check` and `delayd dump` as programs: exit codes, what they say, and what they leave.

use crate::journal::upgrade::desk::{Desk, OPTIONS, add, name};
use crate::support::program::Folder;
use delayd::engine::Settings;
use delayd::engine::model::request::Request;
use delayd::ids::Index;
use delayd::journal::recovery::{Progress, recover};
use delayd::journal::{Disk, HEADER_BYTES, Lock, segment_number};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What a run of the program left.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn delayd(tool: &str, dir: &Path, options: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    let output = command.arg(tool).arg(dir).args(options).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("no signal ended it");
    Ran { code, out: text(output.stdout), err: text(output.stderr) }
}

fn check(scratch: &Folder) -> Ran {
    delayd("check", &scratch.0, &[])
}

/// Ten batches with a job each in one segment, then ten in a second; the digests after each batch.
fn written() -> (Folder, Vec<u64>) {
    let scratch = Folder::new("journal");
    let mut desk = Desk::new(&scratch.journal());
    let mut digests = vec![desk.engine.digest()];
    for number in 1..=20 {
        if number == 11 {
            desk.roll();
        }
        let id = format!("job:{number}");
        desk.add(add(name(0, b"mail"), id.as_bytes(), 1_000));
        digests.push(desk.engine.digest());
    }
    assert_eq!(desk.index, Index(20));
    (scratch, digests)
}

/// All files of the journal, folders left out.
fn files(scratch: &Folder) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(scratch.journal()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, Vec<u8>)> = entries
        .filter(|path| path.is_file())
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The file that holds batches from `first` on.
fn segment_from(scratch: &Folder, first: u64) -> PathBuf {
    let found = files(scratch).into_iter().find(|(name, bytes)| {
        segment_number(name).is_some()
            && bytes.len() > 4128
            // The state that it begins with tells the batch before.
            && bytes[4120..4128] == (first - 1).to_le_bytes()
            && bytes[0] != 0
    });
    scratch.journal().join(found.expect("a segment").0)
}

/// Where each batch of a segment begins.
fn places(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    let (mut at, mut places) = (HEADER_BYTES as usize, Vec::new());
    while bytes.get(at + 4) == Some(&2) {
        // Not the state that it begins with.
        if bytes[at + 5] == 0 {
            places.push(at);
        }
        let length = u32::from_le_bytes(bytes[at + 76..at + 80].try_into().unwrap()) as usize;
        at += (88 + length).next_multiple_of(8);
    }
    places
}

fn change(path: &Path, work: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    work(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// What a server finds: the newest batch and the digest.
fn recovered(scratch: &Folder) -> (Index, u64) {
    let disk = Arc::new(Disk::open(&scratch.journal()).unwrap());
    let found = recover(&disk, OPTIONS, Settings::default(), &Progress::default()).unwrap();
    (found.index, found.engine.digest())
}

/// The folder that a repair left, and what is in it.
fn saved(scratch: &Folder) -> Vec<(String, Vec<u8>)> {
    let folders = fs::read_dir(scratch.journal()).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(name.strip_prefix("cut-").is_some_and(|time| time.parse::<u64>().is_ok()), "{name}");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut saved: Vec<(String, Vec<u8>)> = entries
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect();
    saved.sort();
    saved
}

/// Lines of a dump that tell of facts.
fn facts(ran: &Ran) -> usize {
    ran.out.lines().filter(|line| line.contains("\"fact\":")).count()
}

fn has(ran: &Ran, code: i32, texts: &[&str]) {
    let Ran { code: got, out, err } = ran;
    assert_eq!(*got, code, "{out}{err}");
    for text in texts {
        assert!(out.contains(text) || err.contains(text), "{text} is missing:\n{out}{err}");
    }
}

#[test]
fn a_journal_in_order_is_in_order_and_unchanged() {
    let (scratch, _) = written();
    let before = files(&scratch);
    for dir in [scratch.0.clone(), scratch.journal()] {
        let ran = delayd("check", &dir, &[]);
        let jobs = "jobs     20 delayed, 0 ready, 0 leased, 0 dead\nqueues   1\nschedules 0\n";
        has(&ran, 0, &[jobs, "newest   batch 20, 2025-01-01T00:00:00.000000Z\n", "\nin order\n"]);
        assert_eq!(ran.err, "");
        assert!(ran.out.lines().all(|line| line.starts_with('/') || line.chars().count() <= 80));
    }
    assert!(files(&scratch) == before);
    assert_eq!(delayd("check", &scratch.0, &["--repair"]).code, 0);
    let after = files(&scratch);
    let after: Vec<_> = after.into_iter().filter(|(name, _)| name != "lock").collect();
    assert!(after == before, "there was nothing to repair");
}

/// What a killed backup leaves, and a server that did not start.
#[test]
fn a_folder_without_base_and_log_is_not_in_order() {
    let scratch = Folder::new("journal");
    let journal = scratch.journal();
    std::fs::create_dir_all(&journal).unwrap();
    std::fs::write(journal.join("lock"), "").unwrap();
    has(&delayd("check", &scratch.0, &[]), 3, &["it has no base and no log\n"]);
    std::fs::write(journal.join("incoming-00000000000000000007-00000000000000aa.tmp"), "x")
        .unwrap();
    has(&delayd("check", &scratch.0, &[]), 3, &["run delayd backup again"]);
}

#[test]
fn the_records_of_a_file_are_counted() {
    let scratch = Folder::new("journal");
    let mut desk = Desk::new(&scratch.journal());
    // A queue, a policy, four jobs.
    for id in [&b"a"[..], b"b", b"c", b"d"] {
        desk.add(add(name(0, b"q"), id, 1_000));
    }
    desk.ask(1, &Request::Delete { queue: name(0, b"q"), ids: &[b"a"] });
    let row = |scratch: &Folder, file: &str| -> Vec<String> {
        let ran = check(scratch);
        has(&ran, 0, &[]);
        let row = ran.out.lines().find(|line| line.starts_with(file)).expect("a row").to_owned();
        row.split_whitespace().map(str::to_owned).skip(1).collect()
    };
    assert_eq!(row(&scratch, "segment-0000000001"), ["1", "1-5", "7", "64.0K"]);
    desk.base();
    desk.ask(1, &Request::Delete { queue: name(0, b"q"), ids: &[b"b"] });
    desk.add(add(name(0, b"q"), b"e", 1_000));
    assert_eq!(row(&scratch, "base-")[..3], ["-", "1-5", "5"]);
    assert_eq!(row(&scratch, "segment-0000000001"), ["1", "1-7", "9", "64.0K"]);
}

#[test]
fn a_torn_tail_is_told_and_cut_by_a_repair() {
    let (scratch, digests) = written();
    let last = segment_from(&scratch, 11);
    let at = *places(&last).last().unwrap();
    // The body of the last batch never arrived whole.
    change(&last, |bytes| bytes[at + 94] ^= 1);
    let before = files(&scratch);
    let place = format!("the log ends at offset {at}: batch 20 was never fully written");
    has(&check(&scratch), 1, &["torn     segment-", &place]);
    assert!(files(&scratch) == before);
    let ran = delayd("check", &scratch.0, &["--repair", "--yes"]);
    has(&ran, 0, &[&place, "The cut keeps everything up to batch 19", "\nin order\n"]);
    has(&check(&scratch), 0, &["newest   batch 19"]);
    assert_eq!(recovered(&scratch), (Index(19), digests[19]));
}

#[test]
fn damage_is_told_with_its_place_and_what_is_wrong() {
    let (scratch, _) = written();
    let first = segment_from(&scratch, 1);
    let file = first.file_name().unwrap().to_str().unwrap();
    let at = places(&first)[5];
    for (offset, what) in [(0, "its header does not match"), (88, "its body does not match")] {
        change(&first, |bytes| bytes[at + offset] ^= 1);
        let damage = format!("damage   {file}: damaged at offset {at}: batch 6: {what}");
        has(&check(&scratch), 2, &[&damage, "a server would not start", "as of batch 5"]);
        change(&first, |bytes| bytes[at + offset] ^= 1);
    }
    // In the last segment it is known by what stands behind it.
    let last = segment_from(&scratch, 11);
    let at = places(&last)[3];
    change(&last, |bytes| bytes[at + 88] ^= 1);
    has(&check(&scratch), 2, &[&format!("offset {at}: batch 14: "), "records it as durable"]);
}

#[test]
fn a_repair_saves_what_it_cuts_and_leaves_the_exact_prefix() {
    for damaged in [1, 6, 10, 11, 15] {
        let (scratch, digests) = written();
        let segment = segment_from(&scratch, if damaged <= 10 { 1 } else { 11 });
        let at = places(&segment)[(damaged - 1) % 10];
        change(&segment, |bytes| bytes[at + 88] ^= 1);
        let before = files(&scratch);

        let ran = delayd("check", &scratch.0, &["--repair"]);
        has(&ran, 2, &["confirm with --yes", "nothing was changed"]);
        let lost = 20 - damaged;
        let losses = format!("{lost} batches with {lost} facts about {lost} jobs");
        // Damage in the first batch takes the fact with it that names the queue.
        let queue = if damaged == 1 { "number 0" } else { "mail" };
        has(&ran, 2, &[&losses, &format!("queue {queue}, job job:20: added")]);
        let untouched: Vec<_> =
            files(&scratch).into_iter().filter(|(name, _)| name != "lock").collect();
        assert!(untouched == before, "nobody has agreed");

        let ran = delayd("check", &scratch.0, &["--repair", "--yes"]);
        has(&ran, 0, &[&losses, "\nin order\n"]);
        let saved = saved(&scratch);
        let names: Vec<&str> = saved.iter().map(|(name, _)| name.as_str()).collect();
        let damaged_name = segment.file_name().unwrap().to_str().unwrap();
        let later = segment_from(&scratch, 11);
        let later = later.file_name().unwrap().to_str().unwrap();
        let mut want = vec![
            "cut.txt".to_owned(),
            "facts.jsonl".to_owned(),
            format!("{damaged_name}.from-{at}"),
        ];
        if damaged <= 10 {
            want.push(format!("{later}.from-0"));
        }
        want.sort();
        assert_eq!(names, want);
        for (name, bytes) in &saved {
            let Some((file, from)) = name.split_once(".from-") else { continue };
            let (_, whole) = before.iter().find(|(name, _)| name == file).unwrap();
            assert!(whole[from.parse::<usize>().unwrap()..] == *bytes, "{name}");
        }
        let facts = saved.iter().find(|(name, _)| name == "facts.jsonl").unwrap();
        let facts = std::str::from_utf8(&facts.1).unwrap().lines();
        let lines: Vec<Value> = facts.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), lost);
        assert!(lines.iter().all(|line| line["fact"] == "added"));
        assert!(lines.iter().all(|line| line["name"] == "mail") || damaged == 1);

        let kept = damaged - 1;
        has(&check(&scratch), 0, &["in order"]);
        assert_eq!(recovered(&scratch), (Index(kept as u64), digests[kept]));
        has(&check(&scratch), 0, &["in order"]);
    }
}

#[test]
fn a_cut_never_brings_back_what_an_earlier_one_took() {
    let (scratch, digests) = written();
    let last = segment_from(&scratch, 11);
    let at = places(&last)[4];
    change(&last, |bytes| bytes[at + 88] ^= 1);
    has(&delayd("check", &scratch.0, &["--repair", "--yes"]), 0, &["in order"]);
    // Batches 16 to 20 are still in their segment; a second cut is before them.
    let first = segment_from(&scratch, 1);
    let at = places(&first)[7];
    change(&first, |bytes| bytes[at + 88] ^= 1);
    let ran = delayd("check", &scratch.0, &["--repair", "--yes"]);
    has(&ran, 0, &["6 batches with 6 facts about 6 jobs", "in order"]);
    assert_eq!(recovered(&scratch), (Index(7), digests[7]));
}

#[test]
fn a_damaged_base_cannot_be_repaired_but_what_can_be_done_is_told() {
    let scratch = Folder::new("journal");
    let mut desk = Desk::new(&scratch.journal());
    crate::journal::upgrade::history::write(&mut desk);
    drop(desk);
    let base = files(&scratch).into_iter().find(|(name, _)| name.starts_with("base-")).unwrap().0;
    let path = scratch.journal().join(&base);
    has(&check(&scratch), 0, &["in order"]);
    change(&path, |bytes| bytes[4096 + 200] ^= 1);
    let way = format!("move {base} out of the folder, and the server starts with all jobs");
    let damage = format!("damage   {base}: damaged at offset 4096: ");
    has(&check(&scratch), 2, &[&damage, "the log holds everything", &way]);
    let before = files(&scratch);
    let ran = delayd("check", &scratch.0, &["--repair", "--yes"]);
    has(&ran, 2, &["this cannot be repaired by a cut; nothing was changed"]);
    let after: Vec<_> = files(&scratch).into_iter().filter(|(name, _)| name != "lock").collect();
    assert!(after == before);
    // Without the beginning of the log there is no way.
    let first = segment_from(&scratch, 1);
    fs::rename(&first, scratch.0.join("first")).unwrap();
    has(&check(&scratch), 2, &[&damage, "an older copy of the folder"]);
    fs::rename(scratch.0.join("first"), &first).unwrap();
    // What was told is true.
    fs::remove_file(path).unwrap();
    has(&check(&scratch), 0, &["base     none", "in order"]);
}

#[test]
fn batches_missing_behind_the_base_are_damage() {
    let (scratch, _) = written();
    fs::remove_file(segment_from(&scratch, 1)).unwrap();
    has(&check(&scratch), 2, &["damage   ", "the log begins with batch 11"]);
}

#[test]
fn a_segment_without_its_header_is_saved_too() {
    let (scratch, digests) = written();
    let last = segment_from(&scratch, 11);
    let at = places(&segment_from(&scratch, 1))[9];
    change(&segment_from(&scratch, 1), |bytes| bytes[at + 88] ^= 1);
    change(&last, |bytes| bytes[..4096].fill(0xaa));
    has(&check(&scratch), 2, &["no header", "notice", &format!("offset {at}: batch 10")]);
    has(&delayd("check", &scratch.0, &["--repair", "--yes"]), 0, &["in order"]);
    let name = format!("{}.from-0", last.file_name().unwrap().to_str().unwrap());
    let bytes = fs::read(&last).unwrap();
    assert!(saved(&scratch).contains(&(name, bytes)));
    assert_eq!(recovered(&scratch), (Index(9), digests[9]));
}

/// Check, start and dump agree, and a repair says that it cannot tell what is lost.
#[test]
fn a_newest_segment_that_is_gone_is_damage_until_a_repair() {
    for left in [None, Some(0), Some(4096)] {
        let (scratch, digests) = written();
        let last = segment_from(&scratch, 11);
        let name = last.file_name().unwrap().to_str().unwrap().to_owned();
        match left {
            None => fs::remove_file(&last).unwrap(),
            Some(0) => fs::write(&last, "").unwrap(),
            Some(_) => fs::write(&last, vec![0; 65_536]).unwrap(),
        }
        let told = format!("batch 11: it is missing together with {name}");
        let before = files(&scratch);
        has(&check(&scratch), 2, &["damage   ", &told, "a server would not start", "batch 10;"]);
        let disk = Arc::new(Disk::open(&scratch.journal()).unwrap());
        let started = recover(&disk, OPTIONS, Settings::default(), &Progress::default());
        assert!(started.unwrap_err().to_string().contains(&told));
        let ran = delayd("dump", &scratch.0, &[]);
        has(&ran, 2, &[&told]);
        assert_eq!(facts(&ran), 12, "what stands before");
        let ran = delayd("check", &scratch.0, &["--lower-clock", "--yes"]);
        has(&ran, 2, &["nothing was"]);
        assert!(files(&scratch).iter().filter(|(name, _)| name != "lock").eq(&before));

        let ran = delayd("check", &scratch.0, &["--repair", "--yes"]);
        let lost = format!("everything in {name}");
        has(&ran, 0, &["keeps everything up to batch 10", &lost, "an unknown number", "in order"]);
        let after = files(&scratch);
        // What the repair began is noted in turn.
        let cut = segment_from(&scratch, 11);
        assert_ne!(cut, last);
        fs::remove_file(&cut).unwrap();
        has(&check(&scratch), 2, &[cut.file_name().unwrap().to_str().unwrap()]);
        let bytes = &after.iter().find(|(name, _)| cut.ends_with(name)).unwrap().1;
        fs::write(&cut, bytes).unwrap();
        assert_eq!(recovered(&scratch), (Index(10), digests[10]));
        has(&check(&scratch), 0, &["in order"]);
    }
}

#[test]
fn a_newest_segment_that_was_cut_short_is_damage_until_a_repair() {
    let (scratch, digests) = written();
    let last = segment_from(&scratch, 11);
    let at = places(&last)[4];
    // At the border of a batch, where nothing in the file tells that more followed.
    change(&last, |bytes| bytes.truncate(at));
    let told = format!("damaged at offset {at}: batch 15");
    has(&check(&scratch), 2, &[&told, "cut short", "65536"]);
    has(&delayd("check", &scratch.0, &["--repair", "--yes"]), 0, &["in order"]);
    assert_eq!(recovered(&scratch), (Index(14), digests[14]));
}

#[test]
fn what_cannot_be_read_is_told_apart_from_damage() {
    let scratch = Folder::new("journal");
    fs::create_dir(scratch.journal()).unwrap();
    has(&check(&scratch), 3, &["it has no base and no log"]);
    fs::remove_dir(scratch.journal()).unwrap();
    has(
        &check(&scratch),
        3,
        &["cannot find a journal: it has no journal/ and no file of a journal"],
    );
    let part = scratch.0.join("01");
    fs::create_dir_all(part.join("journal")).unwrap();
    has(&check(&scratch), 3, &["it has partitions: name one of them, such as", "/01"]);
    fs::remove_dir_all(part).unwrap();
    let missing = &scratch.0.join("missing");
    for tool in ["check", "dump"] {
        has(&delayd(tool, missing, &[]), 3, &["missing: cannot read: No such file"]);
        has(&delayd(tool, &scratch.0, &["--what"]), 64, &["unknown option '--what'"]);
        let help = delayd(tool, &scratch.0, &["--help"]);
        has(&help, 0, &[&format!("Usage: delayd {tool} DIR"), "Exit codes:"]);
    }
    let (scratch, _) = written();
    // The version stands at offset 8; the checksum behind the 48 bytes of a copy.
    change(&segment_from(&scratch, 11), |bytes| {
        for copy in [0, 2048] {
            bytes[copy + 8] = 99;
            let crc = crc32c::crc32c(&bytes[copy..copy + 48]);
            bytes[copy + 48..copy + 52].copy_from_slice(&crc.to_le_bytes());
        }
    });
    has(&check(&scratch), 3, &["format version 99"]);
    has(&delayd("dump", &scratch.0, &[]), 3, &["format version 99"]);
}

/// The lock's target was once overwritten, and a check waited for ever for the other end of a FIFO.
#[test]
fn nothing_but_a_regular_file_is_opened_in_the_folder() {
    let other = Folder::new("other");
    let target = other.0.join("target");
    let fifo = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let link = |path: &Path| std::os::unix::fs::symlink(&target, path).unwrap();
    let folder = |path: &Path| fs::create_dir(path).unwrap();
    type Make<'a> = &'a dyn Fn(&Path);
    let kinds: [(&str, Make<'_>); 3] =
        [("a FIFO", &fifo), ("a symbolic link", &link), ("a folder", &folder)];
    for (what, make) in kinds {
        let told = format!("it is {what}, not a regular file");
        let (scratch, digests) = written();
        fs::write(&target, "not the journal's").unwrap();
        let lock = scratch.journal().join("lock");
        _ = fs::remove_file(&lock);
        make(&lock);
        let disk = Disk::open(&scratch.journal()).unwrap();
        let refused = disk.lock().unwrap_err().to_string();
        assert!(
            refused.contains(&format!("{}: cannot write: {told}", lock.display())),
            "{refused}"
        );
        has(&check(&scratch), 0, &["in order"]);
        assert_eq!(fs::read(&target).unwrap(), b"not the journal's");
        fs::remove_dir(&lock).or_else(|_| fs::remove_file(&lock)).unwrap();
        assert_eq!(recovered(&scratch), (Index(20), digests[20]));
        let segment = segment_from(&scratch, 11);
        let name = segment.file_name().unwrap().to_str().unwrap();
        fs::rename(&segment, &target).unwrap();
        make(&segment);
        let bytes = fs::read(&target).unwrap();
        for tool in ["check", "dump"] {
            has(&delayd(tool, &scratch.0, &[]), 3, &[name, &told]);
        }
        has(&delayd("check", &scratch.0, &["--repair", "--yes"]), 3, &[name, &told]);
        let server = Command::new(env!("CARGO_BIN_EXE_delayd"))
            .args(["--port", "0", "--dir"])
            .arg(&scratch.0)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(server.stderr).unwrap();
        assert!(!server.status.success() && said.contains(name) && said.contains(&told), "{said}");
        assert!(fs::read(&target).unwrap() == bytes, "what a link leads to is not written to");
    }
}

#[test]
fn beside_a_server_a_check_looks_and_a_repair_is_refused() {
    let (scratch, _) = written();
    let last = segment_from(&scratch, 11);
    let at = *places(&last).last().unwrap();
    let disk = Disk::open(&scratch.journal()).unwrap();
    let lock: Lock = disk.lock().unwrap();
    let pid = format!("pid {}", std::process::id());
    has(&check(&scratch), 0, &["in use by a server", &pid, "in order"]);
    // What is being written is not torn.
    change(&last, |bytes| bytes[at + 94] ^= 1);
    let writing = format!("is being written at offset {at}");
    has(&check(&scratch), 0, &[&writing]);
    let before = files(&scratch);
    let ran = delayd("check", &scratch.0, &["--repair", "--yes"]);
    has(&ran, 3, &["is in use by another delayd", &pid]);
    assert!(files(&scratch) == before);
    // What is told again and again is damage all the same.
    let at = places(&last)[3];
    change(&last, |bytes| bytes[at + 88] ^= 1);
    has(&check(&scratch), 2, &["damage   "]);
    drop(lock);
    has(&check(&scratch), 2, &["damage   "]);
}

#[test]
fn a_dump_is_json_and_tells_every_fact_in_order() {
    let scratch = Folder::new("journal");
    let mut desk = Desk::new(&scratch.journal());
    crate::journal::upgrade::history::write(&mut desk);
    let lines = |options: &[&str]| -> Vec<Value> {
        let ran = delayd("dump", &scratch.0, options);
        has(&ran, 0, &[]);
        assert_eq!(ran.err, "");
        let lines = ran.out.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter(|line: &Value| line["record"].is_null()).collect()
    };
    let all = lines(&["--from", "1"]);
    for (at, line) in all.iter().enumerate() {
        assert_eq!(line["sequence"], at as u64 + 1);
        assert!(line["queue"].is_null() || !line["name"].is_null(), "{line}");
    }
    let indexes: Vec<u64> = all.iter().map(|line| line["index"].as_u64().unwrap()).collect();
    assert!(indexes.is_sorted() && indexes.first() == Some(&1));
    assert_eq!(indexes.last(), Some(&desk.index.0));
    let some = lines(&["--from", "7", "--to", "20"]);
    let want: Vec<&Value> =
        all.iter().filter(|line| (7..=20).contains(&line["index"].as_u64().unwrap())).collect();
    assert!(!want.is_empty() && some.iter().eq(want), "a part of it");
    // Without --from it begins behind the base, whose names it knows.
    let behind = lines(&[]);
    let images = lines(&["--base"]);
    let base = images[0]["base"].as_u64().unwrap();
    assert!(behind.iter().all(|line| line["index"].as_u64().unwrap() > base));
    assert!(!behind.is_empty() && all.ends_with(&behind) && images.ends_with(&behind));
    let images = &images[..images.len() - behind.len()];
    assert!(images.len() > 10 && images.iter().all(|line| line["image"].is_string()));
}

#[test]
fn a_dump_of_a_damaged_log_tells_what_stands_before() {
    let (scratch, _) = written();
    let first = segment_from(&scratch, 1);
    let at = places(&first)[5];
    change(&first, |bytes| bytes[at + 88] ^= 1);
    let ran = delayd("dump", &scratch.0, &[]);
    has(&ran, 2, &[&format!("damaged at offset {at}: batch 6")]);
    // A queue, a policy and five jobs.
    assert_eq!(facts(&ran), 7);
    change(&first, |bytes| bytes[at + 88] ^= 1);
    let last = segment_from(&scratch, 11);
    let at = *places(&last).last().unwrap();
    change(&last, |bytes| bytes[at + 88] ^= 1);
    let ran = delayd("dump", &scratch.0, &[]);
    has(&ran, 0, &["batch 20 was never fully written"]);
    assert_eq!(facts(&ran), 21);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let scratch = Folder::new("journal");
    let mut desk = Desk::new(&scratch.journal());
    let id = vec![b'x'; 500];
    for number in 0..2_000 {
        let id = [&id[..], format!("{number}").as_bytes()].concat();
        desk.add(add(name(0, b"mail"), &id, 0));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    command.arg("dump").arg(&scratch.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}
