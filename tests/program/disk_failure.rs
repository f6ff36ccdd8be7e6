//! The real program on a disk that fails: a shim makes writes and syncs fail, or write less than they
//! were asked to.

use crate::support::disk::Shim;
use crate::support::patience::{Machine, seconds};
use crate::support::program::{Folder, Program, Reply, Wire};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const OPTIONS: [&str; 2] = ["--journal-segment-size", "1mb"];

fn id_of(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Bulk(id) => Some(String::from_utf8(id.clone()).unwrap()),
        error => {
            assert!(error.is_error("MISCONF"), "{error:?}");
            None
        }
    }
}

fn add_many(wire: &mut Wire, when: &str, count: usize) -> Vec<String> {
    let body = "x".repeat(500);
    (0..count).for_each(|_| wire.push_line(&format!("DELAY.ADD q {when} {body}")));
    wire.flush().unwrap();
    (0..count).filter_map(|_| id_of(&wire.read().unwrap())).collect()
}

/// `what` fails: the shim notes each try in the file `tries`.
fn a_failure_stops_the_journal(what: &str, tries: &str) {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("failure");
    let program = shim.start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    let mut safe = add_many(&mut wire, "1h", 300);
    assert_eq!(safe.len(), 300);
    safe.extend(add_many(&mut wire, "0", 10));
    let mut waiter = program.connect();
    waiter.push_line("DELAY.POP other 0");
    waiter.flush().unwrap();
    wire.wait_for("blocked_clients", |count| count == "1");
    // While a spare is made beside the writer, its file is written and synced too.
    wire.wait_for("journal_spares", |count| count == "1");

    shim.set(what);
    let mut others: Vec<Wire> = (0..4).map(|_| program.connect()).collect();
    for other in &mut others {
        (0..20).for_each(|_| other.push_line("DELAY.ADD other 0 unsafe"));
        other.push_line("DELAY.RESERVE NOWAIT 1 q");
        other.push_line("PING");
        other.flush().unwrap();
    }
    for other in &mut others {
        for _ in 0..20 {
            assert_eq!(id_of(&other.read().unwrap()), None, "acknowledged and not safe");
        }
        // What was taken while the failure was not known yet is taken back, or nothing was there.
        let taken = other.read().unwrap();
        assert!(taken == Reply::Nil || taken.is_error("MISCONF"), "{taken:?}");
        assert_eq!(other.read().unwrap(), Reply::Simple("PONG".to_owned()));
    }
    assert_eq!(wire.field("journal_state"), "failed");
    assert_eq!(wire.field("aof_last_write_status"), "err");
    assert_eq!(wire.field("journal_reads_unsafe"), "1");
    assert!(wire.field("journal_trouble").contains("Input/output error"));

    // From here on: nothing is tried again, changed or handed out; reads go on.
    assert_eq!(shim.count(tries), 1);
    shim.clear(what);
    for _ in 0..20 {
        assert!(wire.ask("DELAY.ADD q 0 late").is_error("MISCONF"));
    }
    assert!(wire.ask(&format!("DELAY.DEL q {}", safe[0])).is_error("MISCONF"));
    assert!(wire.ask(&format!("DELAY.GET q {}", safe[0])).array().is_some());
    assert!(!matches!(wire.ask("DELAY.PEEK q"), Reply::Error(_)));
    for command in ["DELAY.RESERVE NOWAIT 1 q", "DELAY.POP q NOWAIT"] {
        let reply = wire.ask(command);
        assert!(reply == Reply::Nil || reply.is_error("MISCONF"), "{reply:?}");
    }
    assert_eq!(shim.count(tries), 1, "tried again");
    // The waiter got nothing: this is the first it hears.
    wire.ask("CLIENT UNBLOCK 2");
    drop(waiter);
    program.kill();

    let program = Program::start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    for id in &safe {
        assert!(wire.ask(&format!("DELAY.GET q {id}")).array().is_some(), "{id} is lost");
    }
    assert_eq!(add_many(&mut wire, "0", 10).len(), 10);
    program.stop();
}

#[test]
fn a_failed_sync_stops_the_journal_and_loses_nothing() {
    a_failure_stops_the_journal("sync", "syncs");
}

#[test]
fn a_failed_write_stops_the_journal_and_loses_nothing() {
    a_failure_stops_the_journal("write", "writes");
}

/// A failure met by SIGTERM: the program ends, and its status tells that not everything is safe.
#[test]
fn stopping_a_failed_journal_is_no_success() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("failure");
    let program = shim.start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    add_many(&mut wire, "1h", 10);
    shim.set("sync");
    assert!(wire.ask("DELAY.ADD q 0 x").is_error("MISCONF"));
    program.terminate();
    let (status, log) = program.ended();
    assert!(!status.success() && log.contains("Input/output error"), "{status}:\n{log}");
}

/// Asks for so long; none of it waits for the disk, which hangs until the test says otherwise.
fn ping_for(wire: &mut Wire, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        assert_eq!(wire.ask("PING"), Reply::Simple("PONG".to_owned()));
        assert_eq!(wire.field("journal_state"), "ok");
    }
}

#[test]
fn while_a_sync_hangs_replies_wait_and_no_job_is_handed_out() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("stuck");
    let program = shim.start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    assert_eq!(add_many(&mut wire, "0", 2).len(), 2);
    let (mut adder, mut reader, mut taker) =
        (program.connect(), program.connect(), program.connect());

    shim.set("stuck");
    adder.push_line("DELAY.ADD q 1h x ID later");
    adder.flush().unwrap();
    while shim.count("hangs") == 0 {
        ping_for(&mut wire, Duration::from_millis(1));
    }
    // A sync may take a second before anything but replies is held back.
    ping_for(&mut wire, Duration::from_millis(1_200));
    reader.push_line("DELAY.LEN q");
    reader.flush().unwrap();
    taker.push_line("DELAY.RESERVE NOWAIT 1 q");
    taker.flush().unwrap();
    ping_for(&mut wire, Duration::from_millis(100));
    for waiting in [&mut adder, &mut reader, &mut taker] {
        assert!(!waiting.has_reply(), "told before it was safe");
    }

    shim.clear("stuck");
    assert_eq!(adder.read().unwrap(), Reply::Bulk(b"later".to_vec()));
    assert_eq!(reader.read().unwrap(), Reply::Number(3), "it saw what was not safe yet");
    assert_eq!(taker.read().unwrap(), Reply::Nil, "handed out though nothing could be recorded");
    assert_eq!(taker.ask("DELAY.RESERVE NOWAIT 1 q").array().map(<[Reply]>::len), Some(1));
    program.stop();
}

#[test]
fn under_everysec_replies_wait_once_a_second_could_be_lost() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("behind");
    let program = shim.start(&folder.0, &[&OPTIONS[..], &["--appendfsync", "everysec"]].concat());
    let (mut wire, mut adder) = (program.connect(), program.connect());
    shim.set("stuck");
    // Nobody waits for the disk at first.
    assert_eq!(add_many(&mut wire, "1h", 100).len(), 100);
    while shim.count("hangs") == 0 {
        ping_for(&mut wire, Duration::from_millis(1));
    }
    ping_for(&mut wire, Duration::from_millis(1_100));
    adder.push_line("DELAY.ADD q 1h x ID later");
    adder.flush().unwrap();
    ping_for(&mut wire, Duration::from_millis(100));
    assert!(!adder.has_reply(), "more than a second could be lost");
    shim.clear("stuck");
    assert_eq!(adder.read().unwrap(), Reply::Bulk(b"later".to_vec()));
    program.stop();
}

#[test]
fn short_writes_are_gone_on_with() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("short");
    shim.set("short");
    let program = shim.start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.extend(add_many(&mut wire, "1h", 100));
    }
    wire.ask("BGSAVE");
    wire.wait_for("rdb_saves", |count| count != "0");
    ids.extend(add_many(&mut wire, "1h", 100));
    assert!(shim.count("shorts") > 1_000);
    drop(wire);
    program.kill();
    let program = Program::start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    assert_eq!(ids.len(), 2_100);
    assert_eq!(wire.ask("DELAY.LEN q"), Reply::Number(2_100));
    for id in ids {
        assert!(wire.ask(&format!("DELAY.GET q {id}")).array().is_some(), "{id} is lost");
    }
    program.stop();
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_by_name() {
    let folder = Folder::new("refused");
    fs::write(folder.journal(), "a file").unwrap();
    let log = Program::try_start(Program::command(&folder.0, &[])).unwrap_err();
    assert!(log.contains(folder.journal().to_str().unwrap()), "{log}");

    // One that is there and may only be read, where this can be had.
    let read_only = Folder::new("read-only");
    fs::create_dir(read_only.journal()).unwrap();
    let path = read_only.text();
    let script = format!(
        "mount --bind '{path}' '{path}' && mount -o remount,ro,bind '{path}' && exec \"$@\""
    );
    let plain = Program::command(&read_only.0, &[]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    let log = Program::try_start(command).unwrap_err();
    if log.contains("delayd") {
        assert!(log.contains(path) && log.contains("Read-only file system"), "{log}");
    } else {
        println!("SKIPPED: a folder that may only be read: {log}");
    }
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let folder = Folder::new("second");
    let program = Program::start(&folder.0, &[]);
    let mut wire = program.connect();
    let before = add_many(&mut wire, "1h", 10);
    let log = Program::try_start(Program::command(&folder.0, &[])).unwrap_err();
    let journal = folder.journal();
    assert!(log.contains(journal.to_str().unwrap()), "{log}");
    assert!(log.contains(&format!("pid {}", program.pid())), "{log}");
    // The first goes on, and still has its folder.
    assert_eq!(add_many(&mut wire, "1h", 10).len(), 10);
    drop(wire);
    program.kill();
    let program = Program::start(&folder.0, &[]);
    let mut wire = program.connect();
    assert_eq!(wire.ask("DELAY.LEN q"), Reply::Number(20));
    assert!(wire.ask(&format!("DELAY.GET q {}", before[0])).array().is_some());
    program.stop();
}

/// A file that cannot be made because the disk fails is not the same as no room for it.
#[test]
fn a_spare_that_cannot_be_made_for_an_error_stops_the_journal() {
    let Some(shim) = Shim::build() else { return };
    let folder = Folder::new("spare");
    let program = shim.start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    assert_eq!(add_many(&mut wire, "1h", 10).len(), 10);
    shim.set("create");
    // More than segments and spares hold.
    while shim.count("creates") == 0 {
        add_many(&mut wire, "1h", 100);
    }
    wire.wait_for("journal_state", |state| state == "failed");
    assert!(wire.field("journal_trouble").contains("Input/output error"));
    assert!(wire.ask("DELAY.ADD q 0 x").is_error("MISCONF"));
    program.kill();
}

#[test]
fn a_journal_folder_that_is_gone_stops_the_journal_within_seconds() {
    for replaced in [false, true] {
        let folder = Folder::new("gone");
        let program = Program::start(&folder.0, &OPTIONS);
        let mut wire = program.connect();
        assert_eq!(add_many(&mut wire, "1h", 10).len(), 10);
        let (journal, other) = (folder.0.join("journal"), folder.0.join("other"));
        if replaced {
            fs::create_dir(&other).unwrap();
            fs::write(other.join("lock"), "").unwrap();
        }
        // At once: whenever the server looks, there is one or the other.
        let how = if replaced { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        let (machine, began) = (Machine::watch(), Instant::now());
        renameat_with(CWD, &journal, CWD, &other, how).unwrap();
        wire.wait_for("journal_state", |state| state == "failed");
        let (took, allowed) = (began.elapsed(), machine.allows(seconds(5)));
        assert!(took < allowed, "after {took:?}, {allowed:?} are allowed");
        let trouble = wire.field("journal_trouble");
        assert!(
            trouble.contains(if replaced { "was replaced" } else { "was removed" }),
            "{trouble}"
        );
        assert!(wire.ask("DELAY.ADD q 0 x").is_error("MISCONF"));
        program.kill();
    }
}

#[test]
fn a_dir_that_is_not_there_is_refused_and_not_made() {
    let folder = Folder::new("dir");
    let dir = folder.0.join("mistyped");
    for options in [&[][..], &["--appendonly", "no"]] {
        let log = Program::try_start(Program::command(&dir, options)).expect_err("it started");
        assert!(log.contains("mistyped is not a folder"), "{log}");
        assert!(!dir.exists());
    }
}

/// The folder and all files in it are the owner's alone, bases and what is made later too; a folder
/// that somebody opened stays open, and the log says so.
#[test]
fn the_journal_is_for_its_owner_alone() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = Folder::new("modes");
    let journal = folder.0.join("journal");
    let program = Program::start(&folder.0, &OPTIONS);
    let mut wire = program.connect();
    assert_eq!(add_many(&mut wire, "1h", 10).len(), 10);
    assert!(!matches!(wire.ask("SAVE"), Reply::Error(_)));
    assert_eq!(mode(&journal), 0o700);
    let files: Vec<_> = fs::read_dir(&journal).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert!(!program.stop().contains("other users can read"));
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o750)).unwrap();
    let program = Program::start(&folder.0, &OPTIONS);
    program.connect();
    assert!(program.stop().contains("other users can read"));
    assert_eq!(mode(&journal), 0o750);
}
