//! `delayd demo` and `delayd health`.

use crate::support::http::free_port;
use crate::support::patience::{limit, seconds};
use crate::support::program::{Folder, Program};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

fn delayd(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is(output: &Output, code: i32, stderr: &str) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains(stderr) && (told.is_empty() == stderr.is_empty()), "{told}");
    text(&output.stdout)
}

/// Whatever is running, is set or may be written here.
#[test]
fn a_demo_shows_a_job_arriving_and_leaves_nothing() {
    let folder = Folder::new("demo");
    let began = Instant::now();
    let mut command = delayd(&["demo", "--delay", "150ms"]);
    let output = command.current_dir(&folder.0).env("DELAYD_PASSWORD", "x").output().unwrap();
    let took = began.elapsed();
    let shown = is(&output, 0, "");
    let lines: Vec<&str> = shown.lines().collect();
    let late = lines[5]
        .strip_prefix("It came ")
        .and_then(|rest| rest.strip_suffix(" ms after it was due."));
    let late: f64 = late.and_then(|late| late.parse().ok()).unwrap_or_else(|| panic!("{shown}"));
    let want = format!(
        "delayd call DELAY.POP orders 0                                 # a consumer waits\n\
         delayd call DELAY.ADD orders 150ms \"close order 7\" ID order:7  # a producer says what, and when\n\
         1) \"orders\"\n2) \"order:7\"\n3) \"close order 7\"\n\
         It came {late:.1} ms after it was due.\n\
         To start a server, which keeps its jobs in ./journal:  delayd\n\
         To call it:  delayd call DELAY.ADD orders 30m \"close order 8\" ID order:8\n\
         To read on:  delayd call DELAY.HELP, and delayd --help\n"
    );
    assert_eq!(shown, want);
    assert!(took.as_millis() >= 150 && took < seconds(2) + limit(), "{took:?}");
    assert!(std::fs::read_dir(&folder.0).unwrap().next().is_none(), "it wrote something");
}

#[test]
fn a_demo_that_cannot_be_says_why() {
    // Too few files for the client, for the server.
    for files in [4, 8, 10] {
        let program = env!("CARGO_BIN_EXE_delayd");
        let line = format!("ulimit -n {files}; exec '{program}' demo --delay 10ms");
        let output = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output().unwrap();
        is(&output, 1, "Too many open files");
    }
    is(&delayd(&["demo", "--delay", "2h"]).output().unwrap(), 64, "between 0ms and 1h inclusive");
}

#[test]
fn health_is_what_readyz_says() {
    let folder = Folder::new("health");
    let port = free_port().to_string();
    let conf = folder.0.join("delayd.conf");
    std::fs::write(&conf, format!("metrics-port {port}\n")).unwrap();
    let program = Program::start(&folder.0, &["--metrics-port", &port]);
    program.connect();
    let asked = |words: &[&str]| delayd(&[&["health"], words].concat()).output().unwrap();
    let by_file = [conf.to_str().unwrap()];
    assert_eq!(is(&asked(&by_file), 0, ""), "ready\n");
    assert_eq!(is(&asked(&["--metrics-port", &port]), 0, ""), "ready\n");
    program.stop();
    is(&asked(&by_file), 3, "refused");
    is(&asked(&[]), 3, "no metrics-port");
    is(&asked(&["--metrics-prot", "1"]), 64, "did you mean 'metrics-port'?");
    // A node that waits for the others of its cluster.
    let [peers, others] = [free_port(), free_port()];
    let nodes = format!("n1=127.0.0.1:{peers},n2=127.0.0.1:{others}");
    let (node, log) = (Folder::new("health-node"), peers.to_string());
    let clients = free_port().to_string();
    let options = [
        "--port", &clients, "--cluster-node", "n1", "--cluster-nodes", &nodes, "--cluster-port",
        &log,
    ];
    let _node = Program::start(&node.0, &[&options[..], &["--metrics-port", &port]].concat());
    let told = is(&asked(&by_file), 1, "");
    assert!(told.contains("cluster is forming") || told.contains("loading"), "{told}");
}

#[test]
fn what_is_no_server_is_not_healthy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let answers = ["", "hello\r\n\r\n", "HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.0 200"];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut client, _) = listener.accept().unwrap();
            assert!(client.read(&mut [0; 999]).unwrap() > 0, "a request");
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    for _ in answers {
        let output = delayd(&["health", "--metrics-port", &port]).output().unwrap();
        is(&output, 3, "the reply is not from delayd");
    }
    server.join().unwrap();
}
