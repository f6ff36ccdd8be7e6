//! *Day two* of docs/cluster.md, each step as it is written there: the commands are read from the page and run by bash. Only
//! the ports are others, and `redis-cli` is one of a few lines, where there may be none.

use crate::support::http::free_pair;
use crate::support::patience::limit;
use crate::support::program::Folder;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../docs/cluster.md");

/// Jobs that there are before each section.
const JOBS: usize = 40;

/// The commands of the blocks marked `sh` under a heading, up to the next one of its depth or less.
fn commands(heading: &str) -> String {
    let depth = heading.split(' ').next().unwrap().len();
    let from = PAGE.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let mut lines = PAGE[from + 1..].lines().skip(1);
    let (mut found, mut is_inside) = (String::new(), false);
    for line in &mut lines {
        let marks = line.len() - line.trim_start_matches('#').len();
        if !is_inside && (1..=depth).contains(&marks) && line[marks..].starts_with(' ') {
            break;
        }
        match line {
            "```sh" => is_inside = true,
            "```" => is_inside = false,
            _ if is_inside => found += &format!("{line}\n"),
            _ => {}
        }
    }
    assert!(!found.is_empty(), "{heading} has no commands");
    found
}

/// What stands under `## Day two` before its first section.
fn helpers() -> String {
    let all = commands("## Day two");
    let first = commands("### Keep a backup");
    all[..all.find(&first).expect("the sections follow")].to_owned()
}

/// Nothing outlives the script; `gone` ends a node as a crash does. `leader` prints what the leader says, and asks again
/// while leadership moves, as it may at any time on a busy machine.
const PRELUDE: &str = r#"trap 'kill -9 $(jobs -p) || true' EXIT
gone() { kill -9 $(cat $1/journal/lock); wait $(cat $1/journal/lock) || true; }
leader() {
  local said
  until said=$(redis-cli -p "$(role master)" "$@") && [[ -n $said && ! $said =~ ^(READONLY|MASTERDOWN|LOADING) ]]; do sleep 0.2; done
  printf '%s\n' "$said"
}
"#;

const REDIS_CLI: &str = r#"#!/usr/bin/env bash
[[ $1 = -p && $2 =~ ^[0-9]+$ ]] || exit 1
port=$2; shift 2
exec 2>/dev/null 3<>/dev/tcp/127.0.0.1/$port || exit 1
{ printf '*%d\r\n' $#; for word; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done; } >&3
reply() {
  local line count
  IFS= read -r line <&3 || exit 0
  line=${line%$'\r'}
  case $line in
    '*-1' | '$-1') echo '(nil)' ;;
    '*'*) count=${line:1}; while ((count-- > 0)); do reply; done ;;
    '$'*) IFS= read -r -N $((${line:1} + 2)) line <&3; printf '%s\n' "${line%$'\r\n'}" ;;
    *) echo "${line:1}" ;;
  esac
}
reply
"#;

/// Runs scripts one after the other in a folder of its own, in one bash, with a cluster as *Start* begins it.
struct Shell {
    folder: Folder,
    script: String,
}

impl Shell {
    fn new(title: &str) -> Shell {
        let folder = Folder::new(title);
        let bin = folder.0.join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_delayd"), bin.join("delayd")).unwrap();
        let cli = bin.join("redis-cli");
        fs::write(&cli, REDIS_CLI).unwrap();
        fs::set_permissions(&cli, fs::Permissions::from_mode(0o755)).unwrap();
        let mut shell = Shell { folder, script: String::from(PRELUDE) };
        let start = commands("## Start");
        for line in start.lines().filter(|line| !line.starts_with("redis-cli")) {
            // What they log is shown if a test fails.
            let (line, behind) =
                line.split_once(" 2> ").map_or((line, ""), |(line, _)| (line, " &"));
            shell.script += &format!("{line}{behind}\n");
        }
        shell.script += &helpers();
        shell.say("until_voters 3");
        shell.say(&format!(
            "for job in $(seq {JOBS}); do leader DELAY.ADD q 1h body ID job:$job NX >/dev/null; done"
        ));
        shell
    }

    fn say(&mut self, line: &str) {
        self.script += &format!("{line}\n");
    }

    /// The section as it is written.
    fn section(&mut self, title: &str) {
        let text = commands(&format!("### {title}"));
        self.say(&format!("echo 'section {title}'"));
        self.script += &text;
    }

    /// All jobs are at this port.
    fn has_all(&mut self, port: u16, count: usize) {
        self.say(&format!(
            "until [ \"$(redis-cli -p {port} DELAY.LEN q)\" = {count} ]; do sleep 0.2; done; echo all at {port}"
        ));
    }

    /// Runs all of it; what it printed.
    fn run(self) -> String {
        let mut script = self.script.clone();
        for (at, port) in (9_248..=9_252).enumerate() {
            // What peers listen on first, as it ends with the other.
            script = script.replace(&(port + 10_000).to_string(), &format!("<peer {at}>"));
            script = script.replace(&port.to_string(), &format!("<client {at}>"));
        }
        for at in 0..5 {
            // `cluster-port` is not said on the page.
            let (client, peer) = free_pair(10_000);
            script = script.replace(&format!("<peer {at}>"), &peer.to_string());
            script = script.replace(&format!("<client {at}>"), &client.to_string());
        }
        let path = format!("{}/bin:{}", self.folder.text(), std::env::var("PATH").unwrap());
        let file = self.folder.0.join("script");
        fs::write(&file, &script).unwrap();
        let log = fs::File::create(self.folder.0.join("log")).unwrap();
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", &(2 * limit().as_secs()).to_string(), "bash", "-eu"])
            .arg(&file)
            .current_dir(&self.folder.0);
        command.env("PATH", path).stdin(Stdio::null()).stderr(log);
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let log = tail(&self.folder.0.join("log"));
        assert!(output.status.success(), "{}\n{printed}\n--- stderr:\n{log}", output.status);
        printed
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

#[test]
fn a_backup_is_kept_and_restored_into_a_server_and_into_a_cluster() {
    let mut shell = Shell::new("day-two-backup");
    shell.say("leader DELAY.ADD q 1h body ID kept NX >/dev/null");
    shell.section("Keep a backup");
    shell.say("leader DELAY.ADD q 1h body ID lost NX >/dev/null");
    shell.section("Restore it into a standalone server");
    shell.say("until_leads 9252");
    shell.has_all(9_252, JOBS + 1);
    shell.say("redis-cli -p 9252 SHUTDOWN; until_gone alone");
    for (node, port) in [("n1", 9_248), ("n2", 9_249), ("n3", 9_250)] {
        shell.say(&format!("redis-cli -p {port} SHUTDOWN; until_gone {node}"));
    }
    shell.section("Restore it into a new cluster");
    for port in [9_248, 9_249, 9_250] {
        shell.has_all(port, JOBS + 1);
    }
    shell.say("leader DELAY.GET q lost");
    let printed = shell.run();
    assert!(
        printed.contains(&format!("{} delayed, 0 ready, 0 leased, 0 dead", JOBS + 1)),
        "{printed}"
    );
    assert!(printed.ends_with("(nil)\n"), "{printed}");
}

#[test]
fn a_disk_is_lost_and_comes_back() {
    let mut shell = Shell::new("day-two-disk");
    shell.say("gone n2");
    shell.section("A disk is lost");
    shell.has_all(9_249, JOBS);
    shell.run();
}

#[test]
fn a_majority_is_lost_for_good() {
    let mut shell = Shell::new("day-two-majority");
    for (node, port) in [("n1", 9_248), ("n2", 9_249), ("n3", 9_250)] {
        shell.has_all(port, JOBS);
        shell.say(&format!("gone {node}"));
    }
    shell.section("A majority is lost for good");
    for port in [9_250, 9_251, 9_252] {
        shell.has_all(port, JOBS);
    }
    shell.run();
}

#[test]
fn another_version_comes_node_after_node() {
    let mut shell = Shell::new("day-two-version");
    shell.section("A new version");
    shell.say("leader DELAY.ADD q 1h body ID after NX");
    for port in [9_248, 9_249, 9_250] {
        shell.has_all(port, JOBS + 1);
    }
    shell.run();
}

#[test]
fn a_cluster_becomes_a_server_alone() {
    let mut shell = Shell::new("day-two-back");
    shell.say("leader DELAY.ADD q 0 body ID leased NX");
    shell.say("leader DELAY.RESERVE NOWAIT 1 q LEASE 1h > leased");
    shell.section("Back to a standalone server");
    shell.has_all(9_248, JOBS + 1);
    // The lease and its token are as they were.
    shell.say("redis-cli -p 9248 DELAY.ACK q leased $(sed -n 4p leased)");
    shell.say("redis-cli -p 9248 INFO raft; redis-cli -p 9248 DELAY.CLUSTER");
    let printed = shell.run();
    assert!(printed.contains("for a standalone server"), "{printed}");
    assert!(printed.contains("\n1\n"), "{printed}");
    assert!(
        printed.ends_with("ERR this is a standalone server: cluster-node is not set\n"),
        "{printed}"
    );
}
