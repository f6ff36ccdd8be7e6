//! Passwords and users through the real program: files, names, limits, and that no password comes to
//! light anywhere.

use crate::support::patience::limit;
use crate::support::program::{Folder, Program, Reply};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// Passwords that are tried and set; each is searched for in everything that comes out.
const PASSWORDS: [&str; 6] =
    ["sesame-one", "sesame-two", "sesame-three", "sesame-four", "sesame-five", "sesame-six"];

fn config(folder: &Folder, text: &str) -> String {
    let path = folder.0.join("delayd.conf");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// All that a reply shows.
fn text(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) | Reply::Error(text) => format!("{text}\n"),
        Reply::Bulk(bytes) => format!("{}\n", String::from_utf8_lossy(bytes)),
        Reply::Number(number) => format!("{number}\n"),
        Reply::Nil => "nil\n".to_owned(),
        Reply::Array(all) => all.iter().map(text).collect(),
        other => panic!("not of RESP2: {other:?}"),
    }
}

/// Starts the program with a configuration file.
fn start(folder: &Folder, text: &str, options: &[&str]) -> Result<Program, String> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_delayd"));
    command.arg(config(folder, text));
    command.args(["--port", "0", "--bind", "127.0.0.1", "--dir", folder.text()]).args(options);
    Program::try_start(command)
}

#[test]
fn no_password_is_shown_anywhere() {
    let folder = Folder::new("secrets");
    let file = "requirepass sesame-one\nuser old on >sesame-two ~* +@all\n\
                slowlog-log-slower-than 0\nloglevel debug\n";
    let program = start(&folder, file, &[]).unwrap();
    let mut seen = String::new();
    let mut guest = program.connect();
    let mut client = program.connect();
    let mut ask = |line: &str| {
        let reply = text(&client.ask(line));
        seen.push_str(&reply);
        reply
    };
    assert!(ask("AUTH sesame-three").contains("WRONGPASS"));
    assert!(ask("AUTH old sesame-three").contains("WRONGPASS"));
    assert!(ask("HELLO 2 AUTH old sesame-three").contains("WRONGPASS"));
    assert!(ask("AUTH sesame-one").contains("OK"));
    assert!(ask("ACL SETUSER new on >sesame-four <sesame-five").contains("Error in ACL SETUSER"));
    assert!(ask("ACL SETUSER new on >sesame-four").contains("OK"));
    assert!(ask("ACL SETUSER new !sesame-five #sesame-five").contains("Error in ACL SETUSER"));
    assert!(ask("CONFIG SET requirepass sesame-six port 1").contains("immutable"));
    assert!(ask("CONFIG SET requirepass sesame-six").contains("OK"));
    assert!(ask("MULTI").contains("OK"));
    ask("AUTH new sesame-four");
    ask("AUTH new sesame-three");
    ask("EXEC");
    assert!(ask("ACL WHOAMI").contains("NOPERM"));
    ask("AUTH sesame-six");
    for line in [
        "SLOWLOG GET 100", "ACL LOG 100", "ACL LIST", "ACL GETUSER new", "CLIENT LIST",
        "CLIENT INFO", "INFO everything", "COMMAND DOCS", "CONFIG GET *file*",
    ] {
        ask(line);
    }
    assert!(seen.contains("(redacted)") && seen.contains("AUTH"));
    assert!(guest.ask("PING").is_error("NOAUTH"));
    let log = program.stop();
    assert!(log.contains("a wrong user name or password"));
    for password in PASSWORDS {
        assert!(!seen.contains(password), "{password} in a reply");
        assert!(!log.contains(password), "{password} in the log:\n{log}");
    }
    // What is wrong at the start is told without it, too.
    let told = start(&folder, "requirepass sesame-one sesame-two\n", &[]).unwrap_err();
    assert!(told.contains("requirepass (redacted): one value expected, got 2"), "{told}");
    let told = start(&folder, "user u on >sesame-one #sesame-two\n", &[]).unwrap_err();
    assert!(told.contains("Error in user declaration 'u'"), "{told}");
    assert!(!told.contains("sesame"), "{told}");
}

#[test]
fn users_stay_in_the_configuration_file() {
    let folder = Folder::new("users");
    let program = start(&folder, "user gone on\nrequirepass sesame-one\n", &[]).unwrap();
    let mut client = program.connect();
    assert_eq!(client.ask("AUTH sesame-one"), Reply::Simple("OK".to_owned()));
    client.ask("ACL SETUSER worker on >sesame-two %R~mail:* +@delay -@admin (~log +delay.add)");
    assert_eq!(client.ask("ACL DELUSER gone"), Reply::Number(1));
    let list = client.ask("ACL LIST");
    assert_eq!(client.ask("CONFIG REWRITE"), Reply::Simple("OK".to_owned()));
    program.stop();
    let text = fs::read_to_string(folder.0.join("delayd.conf")).unwrap();
    assert!(text.contains("requirepass sesame-one\n") && !text.contains("gone"), "{text}");
    assert!(!text.contains("sesame-two"), "{text}");
    let program = start(&folder, &text, &[]).unwrap();
    let mut client = program.connect();
    client.ask("AUTH sesame-one");
    assert_eq!(client.ask("ACL LIST"), list);
    assert_eq!(client.ask("AUTH worker sesame-two"), Reply::Simple("OK".to_owned()));
}

#[test]
fn users_stay_in_the_acl_file() {
    let folder = Folder::new("aclfile");
    let path = folder.0.join("users.acl");
    fs::write(&path, "user default on nopass ~* &* +@all\nuser a on >sesame-one +ping\n").unwrap();
    let option = format!("aclfile {}\n", path.display());
    let program = start(&folder, &option, &[]).unwrap();
    let (mut client, mut user) = (program.connect(), program.connect());
    assert_eq!(user.ask("AUTH a sesame-one"), Reply::Simple("OK".to_owned()));
    assert_eq!(client.ask("ACL SAVE"), Reply::Simple("OK".to_owned()));
    let saved = fs::read_to_string(&path).unwrap();
    assert!(saved.starts_with("user a on #") && !saved.contains("sesame"), "{saved}");
    assert_eq!(client.ask("ACL LOAD"), Reply::Simple("OK".to_owned()));
    assert_eq!(user.ask("PING"), Reply::Simple("PONG".to_owned()), "it is still there");

    fs::write(&path, "user default on nopass ~* &* +@all\nuser b foo\n").unwrap();
    assert!(
        client.ask("ACL LOAD").text().contains("users.acl:2: Error in applying operation 'foo'")
    );
    assert_eq!(user.ask("PING"), Reply::Simple("PONG".to_owned()), "nothing has changed");
    fs::write(&path, "user default on nopass ~* &* +@all\nuser b on\n").unwrap();
    assert_eq!(client.ask("ACL LOAD"), Reply::Simple("OK".to_owned()));
    user.push_line("PING");
    let _ = user.flush();
    assert!(user.read().is_err(), "its user is gone");
    program.stop();

    let told = start(&folder, &format!("{option}user c on\n"), &[]).unwrap_err();
    assert!(told.contains("keep them in only one of the two"), "{told}");
    fs::remove_file(&path).unwrap();
    let told = start(&folder, &option, &[]).unwrap_err();
    assert!(told.contains("Error loading ACLs, opening file"), "{told}");
}

/// Redis goes into `dir` before it opens the file.
#[test]
fn a_relative_acl_file_lies_in_dir() {
    let folder = Folder::new("aclfile-in-dir");
    let path = folder.0.join("users.acl");
    fs::write(&path, "user default on nopass ~* &* +@all\nuser a on >sesame-one +ping\n").unwrap();
    let program = start(&folder, "aclfile users.acl\n", &[]).unwrap();
    let mut client = program.connect();
    assert_eq!(client.ask("AUTH a sesame-one"), Reply::Simple("OK".to_owned()));
    let mut client = program.connect();
    assert_eq!(client.ask("ACL SETUSER late on"), Reply::Simple("OK".to_owned()));
    assert_eq!(client.ask("ACL SAVE"), Reply::Simple("OK".to_owned()));
    assert!(fs::read_to_string(&path).unwrap().contains("\nuser late on "));
    fs::write(&path, "user default on nopass ~* &* +@all\nuser fresh on\n").unwrap();
    assert_eq!(client.ask("ACL LOAD"), Reply::Simple("OK".to_owned()));
    assert_eq!(client.ask("ACL USERS").array().unwrap().len(), 2);
    assert_eq!(
        client.ask("CONFIG GET aclfile").array().unwrap()[1],
        Reply::Bulk(b"users.acl".to_vec())
    );
}

#[test]
fn commands_are_taken_away_by_rules_not_by_names() {
    let folder = Folder::new("renames");
    let told = start(&folder, "rename-command CONFIG cfg77\n", &[]).unwrap_err();
    assert!(
        told.contains("delayd.conf:1: rename-command CONFIG: commands keep their names"),
        "{told}"
    );
    assert!(!told.contains("cfg77"), "{told}");
    // What the error advises.
    let rules = told.rsplit(": ").next().unwrap().trim();
    let program = start(&folder, &format!("{rules}\n"), &[]).unwrap();
    let mut client = program.connect();
    assert!(client.ask("FLUSHALL").text().starts_with("NOPERM"));
    assert_eq!(client.ask("FLUSHDB"), Reply::Simple("OK".to_owned()));
}

/// Whoever can connect could fill the disk with lines about wrong passwords, and about HTTP.
#[test]
fn lines_about_strangers_come_at_a_limited_rate() {
    let folder = Folder::new("secrets");
    let program = start(&folder, "requirepass sesame-one\n", &["--appendonly", "no"]).unwrap();
    let start = Instant::now();
    for _ in 0..60 {
        let mut guest = program.connect();
        (0..5).for_each(|_| assert!(guest.ask("AUTH sesame-two").is_error("WRONGPASS")));
        let mut browser = TcpStream::connect(program.address).unwrap();
        browser.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(browser.read(&mut [0]).unwrap_or(0), 0);
    }
    let lines = |of: &str| program.log().lines().filter(|line| line.contains(of)).count();
    let written = || lines("a wrong user name or password") + lines("an HTTP request came in");
    assert!(written() >= 10, "{}", program.log());
    // Those that were left out are counted.
    while lines("were left out") == 0 {
        assert!(start.elapsed() < limit(), "{}", program.log());
        std::thread::yield_now();
    }
    let seconds = start.elapsed().as_secs() as usize + 1;
    assert!(written() <= 10 + seconds, "{}", program.log());
    assert!(lines("were left out") <= seconds);
    let log = program.stop();
    let left_out = |line: &str| {
        let (_, rest) = line.split_once("left_out=")?;
        rest.split(' ').next()?.parse::<usize>().ok()
    };
    let told: usize = log.lines().filter_map(left_out).sum();
    let count = log
        .lines()
        .filter(|line| line.contains("a wrong user") || line.contains("an HTTP request came in"))
        .count();
    assert_eq!(told + count, 360, "{log}");
}
