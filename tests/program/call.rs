//! `delayd call`: what it prints without a terminal and on one, what it ends with, how it waits.

use crate::support::http::free_port;
use crate::support::patience::until;
use crate::support::program::{Folder, Program, Reply};
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn call(port: u16, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayd"));
    command.args(["call", "-p", &port.to_string()]).args(words);
    command.env_remove("DELAYD_PASSWORD").env_remove("REDISCLI_AUTH");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    // Both pipes may be full; one that ends early reads no more.
    let writes = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writes.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn in_memory(folder: &Folder, options: &[&str]) -> Program {
    Program::start(&folder.0, &[&["--appendonly", "no"], options].concat())
}

#[test]
fn an_answer_is_what_is_in_it_and_an_error_is_exit_code_1() {
    let folder = Folder::new("call");
    let program = in_memory(&folder, &[]);
    let port = program.address.port();
    for (words, stdout, code) in [
        (&["PING"][..], "PONG\n", 0),
        (&["DELAY.ADD", "orders", "30m", "close order 7", "ID", "order:7"], "order:7\n", 0),
        (&["DELAY.CANCEL", "orders", "order:7"], "delayed\n", 0),
        (&["DELAY.CANCEL", "orders", "order:7"], "\n", 0),
        (&["DELAY.ADD", "orders", "0", "--body", "ID", "-h"], "-h\n", 0),
        (&["DELAY.POP", "orders", "0"], "orders\n-h\n--body\n", 0),
        (&["DELAY.LEN", "orders"], "0\n", 0),
        (&["DELAY.CANCEL", "orders", "x", "y"], "ERR syntax error: unknown option 'y'\n", 1),
        (&["-n", "3", "DELAY.ADD", "other", "1h", "x", "ID", "a"], "a\n", 0),
        (&["-n", "3", "KEYS", "*"], "other\n", 0),
        (&["KEYS", "*"], "\n", 0),
    ] {
        let output = call(port, words).output().unwrap();
        assert_eq!(text(&output.stdout), stdout, "{words:?} {}", text(&output.stderr));
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(code), String::new()));
    }
}

/// Nothing else ends a connection without an answer.
#[test]
fn a_server_that_is_stopped_has_answered() {
    let folder = Folder::new("call-shutdown");
    let program = in_memory(&folder, &[]);
    let output = call(program.address.port(), &["SHUTDOWN"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert!(program.ended().0.success());
    let program = in_memory(&folder, &[]);
    let port = program.address.port();
    let waiting = call(port, &["DELAY.POP", "q", "0"]).spawn().unwrap();
    program.connect().wait_for("blocked_clients", |count| count == "1");
    program.kill();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let told = text(&output.stderr).to_lowercase();
    assert!(told.contains("connection"), "{told}");
}

/// One connection for all lines, so that transactions hold; words as redis-cli quotes them.
#[test]
fn commands_come_from_standard_input_a_line_each() {
    let folder = Folder::new("call-lines");
    let program = in_memory(&folder, &[]);
    let lines = b"DELAY.ADD q 0 \"a \\\"b\\\" \\xff\" ID x\r\n\nMULTI\nDELAY.LEN q\nEXEC\nNOPE\nDELAY.POP q 0";
    let output = said(call(program.address.port(), &[]), lines);
    let want = b"x\nOK\nQUEUED\n1\nERR unknown command 'NOPE', with args beginning with: \nq\nx\na \"b\" \xff\n";
    assert_eq!(output.stdout.escape_ascii().to_string(), want.escape_ascii().to_string());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));
    // What comes before a line that cannot be read is done.
    let output = said(call(program.address.port(), &[]), b"PING\nDELAY.LEN \"q\nPING\n");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("PONG\n", Some(3)));
    assert!(text(&output.stderr).contains("unbalanced quotes"), "{}", text(&output.stderr));
    let output = said(call(program.address.port(), &[]), b"PING\n*2\r\n$4\r\nPING");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("PONG\n", Some(3)));
    assert!(text(&output.stderr).contains("ends within a command"), "{}", text(&output.stderr));
    let output = said(call(program.address.port(), &[]), b"QUIT\nPING\nPING\n");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("OK\n", Some(3)));
    // More than a pipe holds, none of it twice.
    let many: String = (0..5_000).map(|at| format!("DELAY.ADD many 1h {at}\n")).collect();
    let output = said(call(program.address.port(), &[]), many.as_bytes());
    assert_eq!((text(&output.stdout).lines().count(), output.status.code()), (5_000, Some(0)));
    assert_eq!(program.connect().ask("DELAY.LEN many"), Reply::Number(5_000));
}

#[test]
fn a_job_is_waited_for_and_channels_are_listened_to() {
    let folder = Folder::new("call-waits");
    let program = in_memory(&folder, &[]);
    let mut wire = program.connect();
    let waiting = call(program.address.port(), &["DELAY.POP", "orders", "0"]).spawn().unwrap();
    wire.wait_for("blocked_clients", |count| count == "1");
    wire.ask("DELAY.ADD orders 50ms body ID x");
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("orders\nx\nbody\n", Some(0))
    );

    // The reader has seen enough, which ends it.
    let mut both = Command::new("sh");
    let line = format!(
        "{{ '{}' call -p {} SUBSCRIBE news weather; echo ended with $?; }} | head -n 9",
        env!("CARGO_BIN_EXE_delayd"),
        program.address.port()
    );
    let both = both.args(["-c", &line]).stdout(Stdio::piped()).spawn().unwrap();
    until("both channels", || (wire.number("pubsub_channels") == 2).then_some(()));
    wire.ask("PUBLISH weather sun");
    until("the end", || (wire.ask("PUBLISH weather rain") == Reply::Number(0)).then_some(()));
    let output = both.wait_with_output().unwrap();
    let want = "subscribe\nnews\n1\nsubscribe\nweather\n2\nmessage\nweather\nsun\n";
    assert_eq!(text(&output.stdout), want);
}

#[test]
fn passwords_come_from_the_environment() {
    let folder = Folder::new("call-password");
    let program = in_memory(&folder, &["--requirepass", "sesame"]);
    let with = |variables: &[(&str, &str)]| {
        let mut command = call(program.address.port(), &["PING"]);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let pong = (Some(0), "PONG\n".to_owned(), String::new());
    assert_eq!(with(&[("DELAYD_PASSWORD", "sesame")]), pong);
    assert_eq!(with(&[("REDISCLI_AUTH", "sesame")]), pong);
    assert_eq!(with(&[("DELAYD_PASSWORD", "sesame"), ("REDISCLI_AUTH", "x")]), pong);
    let (code, stdout, _) = with(&[]);
    assert_eq!((code, stdout.as_str()), (Some(1), "NOAUTH Authentication required.\n"));
    let (code, stdout, stderr) = with(&[("REDISCLI_AUTH", "wrong")]);
    assert_eq!((code, stdout.as_str()), (Some(3), ""));
    assert!(stderr.contains("WRONGPASS"), "{stderr}");
    let output = call(program.address.port(), &["-a", "sesame", "PING"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "a command line is seen by all");
}

#[test]
fn a_server_that_is_not_there_is_said_in_one_line() {
    let port = free_port();
    let output = call(port, &["PING"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), ""));
    let stderr = text(&output.stderr);
    assert!(stderr.contains(&format!("127.0.0.1:{port}")), "{stderr}");
    assert!(stderr.contains("`delayd` starts one"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// As redis-cli prints it there. `script` lends the terminal.
#[test]
fn on_a_terminal_an_answer_is_printed_for_people() {
    let folder = Folder::new("call-terminal");
    let program = in_memory(&folder, &[]);
    let port = program.address.port();
    let shown = |line: &str| {
        let line = format!("'{}' call -p {port} {line}", env!("CARGO_BIN_EXE_delayd"));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env_remove("REDISCLI_AUTH");
        let output = script.stdin(Stdio::null()).output().unwrap();
        (text(&output.stdout).replace("\r\n", "\n"), output.status.code())
    };
    let is = |line: &str, want: &str, code| {
        assert_eq!(shown(line), (format!("{want}\n"), Some(code)), "{line}");
    };
    is("PING", "PONG", 0);
    is("DELAY.ADD orders 0 'close \"order\" 7' ID order:7", "\"order:7\"", 0);
    is("DELAY.LEN orders", "(integer) 1", 0);
    is("DELAY.POP orders 0", "1) \"orders\"\n2) \"order:7\"\n3) \"close \\\"order\\\" 7\"", 0);
    is("DELAY.GET orders order:7", "(nil)", 0);
    is("DELAY.PEEK orders", "(empty array)", 0);
    is("DELAY.CANCEL orders x y", "(error) ERR syntax error: unknown option 'y'", 1);
    let (info, _) = shown("INFO server");
    assert!(info.starts_with("# Server\nredis_version:"), "{info}");
}

#[test]
fn it_speaks_tls() {
    let folder = Folder::new("call-tls");
    let made = rcgen::generate_simple_self_signed(vec!["delayd.example".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.0.join(name));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let port = free_port();
    let tls = ["--tls-port", &port.to_string(), "--tls-auth-clients", "no"].map(str::to_owned);
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let files = ["--tls-cert-file", cert, "--tls-key-file", key];
    let _program = in_memory(&folder, &[&tls[..], &files].concat());
    let trusted = ["--tls-ca-cert-file", cert, "--sni", "delayd.example"];
    let output =
        call(port, &[&trusted[..], &["DELAY.ADD", "q", "0", "x", "ID", "a"]].concat()).output();
    assert_eq!(text(&output.unwrap().stdout), "a\n");
    // It waits for ever there, too.
    let output = call(port, &[&trusted[..], &["DELAY.POP", "q", "0"]].concat()).output().unwrap();
    assert_eq!(text(&output.stdout), "q\na\nx\n");
    let output = call(port, &["--tls-ca-cert-file", cert, "PING"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "a certificate of another name");
}
