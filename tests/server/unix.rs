//! Unix sockets.

use crate::support::in_process::Running;
use crate::support::patience::limit;
use delayd::config::Config;
use delayd::server::Server;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// A path that is free, and short enough for a socket.
struct Path(PathBuf);

impl Path {
    fn new(name: &str) -> Path {
        let path = std::env::temp_dir().join(format!("delayd-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        Path(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn ask(stream: &mut UnixStream, command: &str, expected: &str) {
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(&path.0).unwrap();
    stream.set_read_timeout(Some(limit())).unwrap();
    stream
}

fn bind(options: &[(&str, &str)]) -> Result<Server, String> {
    let mut config = Config::default();
    for (name, value) in [("port", "0"), ("appendonly", "no")].iter().chain(options) {
        config.set(name, &[(*value).to_owned()]).unwrap();
    }
    Server::bind(config).map_err(|error| error.to_string())
}

#[test]
fn clients_come_by_the_socket_and_its_file_goes_with_the_server() {
    let path = Path::new("both");
    let port = crate::support::http::free_port().to_string();
    let options = [("port", &*port), ("unixsocket", path.text()), ("unixsocketperm", "750")];
    let mut server = Running::start(&options);
    assert_eq!(fs::metadata(&path.0).unwrap().permissions().mode() & 0o777, 0o750);
    let mut client = connect(&path);
    ask(&mut client, "PING", "+PONG\r\n");
    let mut plain = server.connect();
    plain.command(&["CLIENT", "LIST"]);
    let list = plain.bulk();
    let line = list.lines().next().unwrap();
    let shown = format!("addr={0}:0 laddr={0}:0 ", path.text());
    assert!(line.contains(&shown) && line.contains(" flags=U "), "{line}");
    plain.command(&["CLIENT", "KILL", &format!("{}:0", path.text())]);
    plain.expect("+OK\r\n");
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    server.stopper.stop();
    server.join();
    assert!(!path.0.exists());
}

/// Behind 64 KiB nothing was read, so its end was not seen.
#[test]
fn a_waiting_client_that_hangs_up_behind_much_is_noticed() {
    let path = Path::new("hangs-up");
    let port = crate::support::http::free_port().to_string();
    let options = [("unixsocket", path.text()), ("port", &*port)];
    let mut server = Running::start(&options);
    server.notices_hang_ups(|| connect(&path), |gone, bytes| gone.write_all(bytes));
    server.stopper.stop();
    server.join();
}

/// Port 0 beside a Unix socket means none, as in Redis.
#[test]
fn without_a_port_there_is_only_the_socket() {
    let path = Path::new("alone");
    let server = bind(&[("unixsocket", path.text()), ("maxclients", "1")]).unwrap();
    assert!(server.addresses().is_empty());
    assert_eq!(server.places(), [path.text()]);
    let stopper = server.stopper();
    let running = std::thread::spawn(move || server.run());
    let mut client = connect(&path);
    ask(&mut client, "PING", "+PONG\r\n");
    let (mut text, mut second) = (String::new(), connect(&path));
    second.write_all(b"LPUSH q x\r\n").unwrap();
    second.read_to_string(&mut text).unwrap();
    assert_eq!(text, "-ERR max number of clients reached\r\n");
    stopper.stop();
    running.join().unwrap().unwrap();
}

#[test]
fn only_what_a_dead_server_left_is_replaced() {
    let path = Path::new("taken");
    let refused = || bind(&[("unixsocket", path.text())]).unwrap_err();
    fs::write(&path.0, "somebody's").unwrap();
    assert!(refused().contains("there is a file of that name that is not a socket"));
    assert_eq!(fs::read_to_string(&path.0).unwrap(), "somebody's");
    fs::remove_file(&path.0).unwrap();
    let listener = UnixListener::bind(&path.0).unwrap();
    assert!(refused().contains("another server listens on it"));
    drop(listener);
    assert!(path.0.exists());
    bind(&[("unixsocket", path.text())]).unwrap();
    let long = format!("/tmp/{}", "x".repeat(200));
    assert!(bind(&[("unixsocket", &long)]).unwrap_err().starts_with("unixsocket /tmp/xxx"));
}

#[test]
fn permissions_are_octal() {
    let mut config = Config::default();
    for (value, why) in
        [("999", "octal"), ("1000", "between 0 and 777"), ("-1", "between 0 and 777")]
    {
        let error = config.set("unixsocketperm", &[value.to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("unixsocketperm {value}: ")), "{error}");
        assert!(error.contains(why), "{error}");
    }
    config.set("unixsocketperm", &["700".to_owned()]).unwrap();
    assert!(config.shown_all().contains(&("unixsocketperm", "700".to_owned())));
}
