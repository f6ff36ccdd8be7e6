//! A server that another program starts: it tells its port when it answers commands, and ends with its starter.

use crate::support::patience::{limit, until, within};
use crate::support::program::{Folder, Program, Reply, Wire};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// With standard output for its `ready-fd`, and a pipe for its standard input.
fn command(folder: &Folder, options: &[&str]) -> Command {
    let mut command = Program::command(&folder.0, options);
    command.args(["--ready-fd", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// All that was written where the port is, up to the end of it.
fn told_by(child: &mut Child) -> String {
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    told
}

fn connect(told: &str) -> Wire {
    let port = told.strip_suffix('\n').expect("a line").parse().expect("a port");
    Wire::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap()
}

/// Ends it, and gives its log.
fn log(mut child: Child) -> String {
    drop(child.stdin.take());
    if within(limit(), || child.try_wait().unwrap()).is_none() {
        child.kill().unwrap();
        panic!("it goes on without its starter");
    }
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{} {log}", output.status);
    log
}

/// The journal holds so much that who came earlier would be answered LOADING.
#[test]
fn the_port_is_told_when_the_journal_is_loaded() {
    let folder = Folder::new("ready-fd");
    let program = Program::start(&folder.0, &["--appendfsync", "no"]);
    let mut wire = program.connect();
    for _ in 0..20 {
        (0..5_000).for_each(|_| wire.push_line("DELAY.ADD q 1h body"));
        wire.flush().unwrap();
        (0..5_000).for_each(|_| drop(wire.read().unwrap()));
    }
    program.stop();
    let mut child = command(&folder, &["--until-stdin-closes", "yes"]).spawn().unwrap();
    let told = told_by(&mut child);
    assert_eq!(connect(&told).ask("DELAY.LEN q"), Reply::Number(100_000));
    let log = log(child);
    assert!(log.contains(&format!("listens on 127.0.0.1:{}", told.trim())), "{log}");
}

#[test]
fn the_port_is_told_at_any_descriptor() {
    let folder = Folder::new("ready-fd-3");
    let command = Program::command(&folder.0, &["--appendonly", "no", "--ready-fd", "3"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" 3>&1 >/dev/null", "sh"]).arg(command.get_program());
    shell.args(command.get_args()).args(["--until-stdin-closes", "yes"]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let told = told_by(&mut child);
    assert_eq!(connect(&told).ask("PING"), Reply::Simple("PONG".into()));
    log(child);
}

/// A number of which the starter knows nothing could be a file of the journal.
#[test]
fn a_descriptor_that_cannot_be_written_to_stops_the_start() {
    let folder = Folder::new("ready-fd-none");
    let run = |redirected: &str, number: &str| {
        let command = Program::command(&folder.0, &["--ready-fd", number]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {redirected}"), "sh"]);
        let output = shell.arg(command.get_program()).args(command.get_args()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run("", "9").contains("ready-fd 9: Bad file descriptor"));
    assert!(run("4</dev/null", "4").contains("ready-fd 4: it is open for reading only"));
    assert!(!folder.journal().exists());
}

#[test]
fn a_server_ends_in_order_when_its_standard_input_closes() {
    let folder = Folder::new("until-stdin");
    let mut child = command(&folder, &["--until-stdin-closes", "yes"]).spawn().unwrap();
    let mut wire = connect(&told_by(&mut child));
    wire.ask("DELAY.ADD q 0 body ID x");
    // What is written there is no reason to end.
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"hello\n").unwrap();
    // Bound to its connection: an orderly stop gives it back uncounted.
    let taken = wire.ask("DELAY.RESERVE NOWAIT 1 q BOUND");
    assert_eq!(taken.array().unwrap().len(), 1);
    let log = log(child);
    let ends = ["standard input is closed", "stopping: ", "stopped"];
    assert!(ends.iter().all(|words| log.contains(words)), "{log}");
    let program = Program::start(&folder.0, &[]);
    let job = program.connect().ask("DELAY.RESERVE NOWAIT 1 q");
    assert_eq!(job.array().unwrap()[0].array().unwrap()[4].number(), 1, "the first attempt");
}

/// Killed, it has no time to end what it started.
#[test]
fn no_server_outlives_a_starter_that_is_killed() {
    let folder = Folder::new("killed-starter");
    let program = Program::command(&folder.0, &["--appendonly", "no"]);
    // The starter is all that is in one group of processes, the server is not.
    let mut starter = Command::new("sh");
    starter.args(["-c", "sleep 1000 | setsid \"$@\"", "sh"]).arg(program.get_program());
    starter.args(program.get_args()).args(["--ready-fd", "1", "--until-stdin-closes", "yes"]);
    starter.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    starter.process_group(0);
    let mut child = starter.spawn().unwrap();
    // The shell keeps its own copy of the descriptor, so there is no end to wait for.
    let mut told = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
    let mut wire = connect(&told);
    let pid: i32 = wire.field("process_id").parse().unwrap();
    let group = Pid::from_raw(child.id() as i32).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    child.wait().unwrap();
    until("the last answer", || wire.try_ask("PING").is_err().then_some(()));
    let gone = || !Path::new(&format!("/proc/{pid}/exe")).exists();
    until("the process's end", || gone().then_some(()));
}

#[test]
fn the_first_line_of_the_log_in_json_has_fields_for_programs() {
    let folder = Folder::new("start-line");
    let options = ["--appendonly", "no", "--until-stdin-closes", "yes"];
    let mut command = command(&folder, &[&options[..], &["--log-format", "json"]].concat());
    let mut child = command.args(["--bind", "127.0.0.1", "127.0.0.2"]).spawn().unwrap();
    let (pid, told) = (child.id(), told_by(&mut child));
    let log = log(child);
    let first: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let port = told.trim();
    assert_eq!(first["port"].to_string(), port);
    assert_eq!(first["pid"].as_u64(), Some(pid.into()));
    assert_eq!(first["addresses"], format!("127.0.0.1:{port} 127.0.0.2:{port}"));
    assert!(first["message"].as_str().unwrap().contains(" listens on "), "{first}");
}

#[test]
fn many_at_once_have_a_port_each() {
    let folder = Folder::new("many-at-once");
    let options = ["--appendonly", "no", "--until-stdin-closes", "yes"];
    let start = |_| command(&folder, &options).spawn().unwrap();
    let mut children: Vec<Child> = (0..20).map(start).collect();
    let mut ports: Vec<String> = children.iter_mut().map(told_by).collect();
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), 20);
    children.into_iter().for_each(|child| drop(log(child)));
}
