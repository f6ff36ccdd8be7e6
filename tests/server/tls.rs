//! TLS with real sockets and certificates made here.

use crate::support::http::{free_port, free_ports};
use crate::support::in_process::Running;
use crate::support::patience::limit;
use crate::support::program::{Folder, Program, Reply};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, version};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// An authority, and the files of a server's and a client's certificate.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: Folder,
}

impl Authority {
    fn new() -> Authority {
        let folder = Folder::new("tls");
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.0.join("ca.crt"), issuer.pem()).unwrap();
        let authority = Authority { issuer, folder };
        authority.issue("server");
        authority
    }

    /// Makes `name.crt` and `name.key`.
    fn issue(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{name}.crt")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.folder.0.join(name).to_str().unwrap().to_owned()
    }

    fn client(&self) -> ClientConfig {
        self.client_of(&[&version::TLS12, &version::TLS13], None)
    }

    fn client_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match own {
            Some((certificate, key)) => {
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
            None => builder.with_no_client_auth(),
        }
    }
}

/// A server with both kinds of ports, and the address of the one for TLS. Clients need no
/// certificate unless `options` say so.
fn start(authority: &Authority, options: &[(&str, &str)]) -> (Running, SocketAddr) {
    let (port, tls_port) = (free_port(), free_port());
    let (port, tls) = (port.to_string(), tls_port.to_string());
    let (crt, key) = (authority.path("server.crt"), authority.path("server.key"));
    let mut all = vec![
        ("port", port.as_str()),
        ("tls-port", &tls),
        ("tls-cert-file", &crt),
        ("tls-key-file", &key),
        ("tls-auth-clients", "no"),
    ];
    all.extend_from_slice(options);
    (Running::start(&all), ([127, 0, 0, 1], tls_port).into())
}

type Secure = BufReader<StreamOwned<ClientConnection, TcpStream>>;

fn connect(address: SocketAddr, config: ClientConfig) -> Secure {
    let name = ServerName::try_from("localhost").unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(limit())).unwrap();
    socket.set_write_timeout(Some(limit())).unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    BufReader::new(StreamOwned::new(session, socket))
}

fn line_of(client: &mut Secure, command: &str) -> Result<String, std::io::Error> {
    client.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    match client.read_line(&mut line)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// Where clients are served by TLS alone, so are those that ask who leads.
#[test]
fn a_node_without_a_plain_port_answers_as_a_sentinel_by_tls() {
    let authority = Authority::new();
    let (folder, peers, sentinel) = (Folder::new("tls-node"), free_port(), free_port());
    let (list, peers) = (format!("n1=127.0.0.1:{peers}"), peers.to_string());
    let options = [
        ("port", "0"),
        ("appendonly", "yes"),
        ("dir", folder.text()),
        ("cluster-node", "n1"),
        ("cluster-nodes", &list),
        ("cluster-port", &peers),
        ("cluster-announce-port", "7000"),
        ("sentinel-port", &sentinel.to_string()),
    ];
    let (_server, _) = start(&authority, &options);
    let mut client = connect(([127, 0, 0, 1], sentinel).into(), authority.client());
    let ask = "SENTINEL GET-MASTER-ADDR-BY-NAME delayd";
    let start = Instant::now();
    while line_of(&mut client, ask).unwrap() != "*2" {
        assert!(start.elapsed() < limit(), "it never leads");
    }
    let mut lines = [(); 4].map(|()| {
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        line
    });
    assert_eq!(lines.each_mut().map(|line| line.trim_end()), ["$9", "127.0.0.1", "$4", "7000"]);
}

#[test]
fn both_ports_serve_the_same_jobs() {
    let authority = Authority::new();
    let (server, address) = start(&authority, &[]);
    let mut plain = server.connect();
    for protocol in [&version::TLS12, &version::TLS13] {
        let mut secure = connect(address, authority.client_of(&[protocol], None));
        assert_eq!(line_of(&mut secure, "PING").unwrap(), "+PONG");
        plain.add("q", "0", "body");
        assert_eq!(line_of(&mut secure, "DELAY.LEN q").unwrap(), ":1");
        assert_eq!(line_of(&mut secure, "FLUSHALL").unwrap(), "+OK");
    }
}

/// Far more than a record, and than the kernel takes at once: pieces are written in order.
#[test]
fn large_requests_and_replies_pass() {
    let authority = Authority::new();
    let (_server, address) = start(&authority, &[]);
    let mut secure = connect(address, authority.client());
    let body: Vec<u8> = (0..8_000_000u32).map(|i| (i / 7 % 251) as u8).collect();
    let head = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", body.len());
    for _ in 0..2 {
        secure.get_mut().write_all(head.as_bytes()).unwrap();
        secure.get_mut().write_all(&body).unwrap();
        secure.get_mut().write_all(b"\r\n").unwrap();
        secure.get_mut().flush().unwrap();
        let mut line = String::new();
        secure.read_line(&mut line).unwrap();
        assert_eq!(line, format!("${}\r\n", body.len()));
        let mut echo = vec![0; body.len() + 2];
        secure.read_exact(&mut echo).unwrap();
        assert!(echo[..body.len()] == body);
    }
}

#[test]
fn a_pipeline_is_answered_in_order_and_the_end_is_said() {
    let authority = Authority::new();
    let (_server, address) = start(&authority, &[]);
    let mut secure = connect(address, authority.client());
    let commands: String = (0..10_000).map(|i| format!("ECHO {i:05}\r\n")).collect();
    let expected: String = (0..10_000).map(|i| format!("$5\r\n{i:05}\r\n")).collect();
    secure.get_mut().write_all(commands.as_bytes()).unwrap();
    secure.get_mut().write_all(b"QUIT\r\n").unwrap();
    let mut replies = String::new();
    // Without a farewell of TLS this would be an error.
    secure.read_to_string(&mut replies).unwrap();
    assert!(replies == expected + "+OK\r\n");
}

/// A client that waits is woken through TLS, and a job for one that is gone goes to the next.
#[test]
fn waiting_clients_get_their_jobs() {
    let authority = Authority::new();
    let (server, address) = start(&authority, &[]);
    let mut gone = connect(address, authority.client());
    gone.get_mut().write_all(b"DELAY.POP q 0\r\n").unwrap();
    gone.get_mut().flush().unwrap();
    server.wait_for("blocked_clients:1");
    let mut waiter = connect(address, authority.client());
    waiter.get_mut().write_all(b"DELAY.POP q 0\r\n").unwrap();
    waiter.get_mut().flush().unwrap();
    server.wait_for("blocked_clients:2");
    drop(gone);
    server.connect().add("q", "20ms", "body");
    let mut line = String::new();
    waiter.read_line(&mut line).unwrap();
    assert_eq!(line, "*3\r\n");
}

/// Behind 64 KiB nothing was read, so its end was not seen.
#[test]
fn a_waiting_client_that_hangs_up_behind_much_is_noticed() {
    let authority = Authority::new();
    let (server, address) = start(&authority, &[]);
    server.notices_hang_ups(
        || connect(address, authority.client()),
        |gone, bytes| gone.get_mut().write_all(bytes),
    );
}

/// All unread replies of a pipeline wait, also those that lie between two records.
#[test]
fn a_long_pipeline_is_written_before_it_is_read() {
    let authority = Authority::new();
    let (_server, address) = start(&authority, &[]);
    let mut client = connect(address, authority.client());
    let count = 200_000;
    for first in (0..count).step_by(1_000) {
        let commands: String =
            (first..first + 1_000).map(|i| format!("ECHO number:{i:08}\r\n")).collect();
        client.get_mut().write_all(commands.as_bytes()).unwrap();
    }
    for i in 0..count {
        let mut reply = [0; 22];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply[..], format!("$15\r\nnumber:{i:08}\r\n").as_bytes());
    }
}

/// An operator whose clients cannot connect finds out why; who connects again and again does not fill the disk.
#[test]
fn failed_handshakes_are_logged_with_their_reason_at_a_limited_rate() {
    let (authority, folder) = (Authority::new(), Folder::new("tls"));
    let tls_port = free_port();
    let (crt, key) = (authority.path("server.crt"), authority.path("server.key"));
    let ca = authority.path("ca.crt");
    let port = tls_port.to_string();
    let program = Program::start(
        &folder.0,
        &[
            "--appendonly", "no", "--tls-port", &port, "--tls-cert-file", &crt, "--tls-key-file",
            &key, "--tls-ca-cert-file", &ca,
        ],
    );
    let address = ([127, 0, 0, 1], tls_port).into();
    // It has no certificate of its own.
    assert!(line_of(&mut connect(address, authority.client()), "PING").is_err());
    let begun = Instant::now();
    for _ in 0..200 {
        let mut plain = TcpStream::connect(address).unwrap();
        plain.write_all(b"PING\r\n").unwrap();
        plain.set_read_timeout(Some(limit())).unwrap();
        let _ = plain.read_to_end(&mut Vec::new());
    }
    let lines = |of: &str| program.log().lines().filter(|line| line.contains(of)).count();
    while lines("left_out=") == 0 {
        assert!(begun.elapsed() < limit(), "{}", program.log());
        std::thread::yield_now();
    }
    let (log, written) = (program.log(), lines("a TLS handshake failed"));
    assert!(log.contains("peer sent no certificates") && log.contains("peer=127.0.0.1:"), "{log}");
    assert!(log.contains("InvalidContentType"), "{log}");
    assert!((5..=11 + begun.elapsed().as_secs() as usize).contains(&written), "{written}: {log}");
    program.stop();
}

#[test]
fn what_is_no_tls_closes_only_itself() {
    let authority = Authority::new();
    let (server, address) = start(&authority, &[]);
    let mut secure = connect(address, authority.client());
    assert_eq!(line_of(&mut secure, "PING").unwrap(), "+PONG");
    // One never says a word, for as long as the others talk.
    let _silent = TcpStream::connect(address).unwrap();
    for garbage in [b"PING\r\n".as_slice(), &[0; 100], &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3], b""] {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(limit())).unwrap();
        let _ = socket.write_all(garbage);
        let _ = socket.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"+PONG"), "no command runs without TLS");
        assert_eq!(line_of(&mut secure, "PING").unwrap(), "+PONG");
    }
    // Nor inside of a connection that was good.
    let mut broken = connect(address, authority.client());
    assert_eq!(line_of(&mut broken, "PING").unwrap(), "+PONG");
    broken.get_mut().sock.write_all(b"PING\r\nPING\r\n").unwrap();
    assert!(broken.read_to_end(&mut Vec::new()).is_err() || broken.buffer().is_empty());
    assert_eq!(line_of(&mut secure, "PING").unwrap(), "+PONG");
    assert_eq!(server.connect().line_of("PING"), "+PONG");
}

#[test]
fn clients_certificates_are_asked_for_as_the_option_says() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let versions = [&version::TLS12, &version::TLS13];
    let (own, foreign) = (authority.issue("client"), stranger.issue("client"));
    let ca = authority.path("ca.crt");
    for (asked, none, wrong) in [("yes", false, false), ("optional", true, false)] {
        let options = [("tls-auth-clients", asked), ("tls-ca-cert-file", ca.as_str())];
        let (_server, address) = start(&authority, &options);
        let answers = |own| {
            let mut client = connect(address, authority.client_of(&versions, own));
            line_of(&mut client, "PING").is_ok_and(|line| line == "+PONG")
        };
        let copy = |(crt, key): &(CertificateDer<'static>, PrivateKeyDer<'static>)| {
            Some((crt.clone(), key.clone_key()))
        };
        assert!(answers(copy(&own)), "{asked}");
        assert_eq!(answers(None), none, "{asked}: no certificate");
        assert_eq!(answers(copy(&foreign)), wrong, "{asked}: another authority's certificate");
    }
    // A folder of authorities, in which other files do not matter.
    let folder = authority.folder.text().to_owned();
    let (_server, address) =
        start(&authority, &[("tls-auth-clients", "yes"), ("tls-ca-cert-dir", &folder)]);
    let mut client = connect(address, authority.client_of(&versions, Some(own)));
    assert_eq!(line_of(&mut client, "PING").unwrap(), "+PONG");
}

#[test]
fn certificates_are_changed_while_clients_are_served() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (server, address) = start(&authority, &[]);
    let mut plain = server.connect();
    let mut before = connect(address, authority.client());
    assert_eq!(line_of(&mut before, "PING").unwrap(), "+PONG");

    // All or nothing: a key that does not fit, and a file that is not there.
    let (crt, key) = (other.path("server.crt"), other.path("server.key"));
    for (name, value, why) in [
        ("tls-key-file", key.as_str(), "the key does not belong to the certificate"),
        ("tls-cert-file", "/nonexistent.crt", "tls-cert-file /nonexistent.crt: "),
        ("tls-protocols", "TLSv1.1", "TLSv1.1 is not one of TLSv1.2, TLSv1.3"),
        ("tls-auth-clients", "yes", "tls-ca-cert-file or tls-ca-cert-dir must be set"),
        ("tls-key-file-pass", "secret", "encrypted private keys cannot be read"),
        ("tls-ciphers", "DEFAULT", "the ciphers are those of rustls"),
    ] {
        plain.command(&["CONFIG", "SET", name, value, "timeout", "7"]);
        let error = plain.line();
        assert!(error.contains(name) && error.contains(why), "{error}");
        plain.command(&["CONFIG", "GET", "timeout"]);
        plain.expect("*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n");
        let mut client = connect(address, authority.client());
        assert_eq!(line_of(&mut client, "PING").unwrap(), "+PONG", "after {name}");
    }

    plain.command(&["CONFIG", "SET", "tls-cert-file", &crt, "tls-key-file", &key]);
    plain.expect("+OK\r\n");
    assert_eq!(line_of(&mut before, "PING").unwrap(), "+PONG", "who is connected stays");
    assert!(line_of(&mut connect(address, authority.client()), "PING").is_err());
    assert_eq!(line_of(&mut connect(address, other.client()), "PING").unwrap(), "+PONG");

    // The same path, another file.
    std::fs::copy(authority.path("server.crt"), &crt).unwrap();
    std::fs::copy(authority.path("server.key"), &key).unwrap();
    plain.command(&["CONFIG", "SET", "tls-cert-file", &crt]);
    plain.expect("+OK\r\n");
    assert_eq!(line_of(&mut connect(address, authority.client()), "PING").unwrap(), "+PONG");
}

#[test]
fn protocols_that_are_not_named_are_not_spoken() {
    let authority = Authority::new();
    let (_server, address) = start(&authority, &[("tls-protocols", "TLSv1.3")]);
    let mut old = connect(address, authority.client_of(&[&version::TLS12], None));
    assert!(line_of(&mut old, "PING").is_err());
    let mut new = connect(address, authority.client_of(&[&version::TLS13], None));
    assert_eq!(line_of(&mut new, "PING").unwrap(), "+PONG");
}

#[test]
fn one_client_too_many_is_told_so_by_tls() {
    let authority = Authority::new();
    let (server, address) = start(&authority, &[("maxclients", "1")]);
    let mut first = server.connect();
    assert_eq!(first.line_of("PING"), "+PONG");
    let mut second = connect(address, authority.client());
    let mut text = String::new();
    second.get_mut().write_all(b"LPUSH q x\r\n").unwrap();
    second.read_to_string(&mut text).unwrap();
    assert_eq!(text, "-ERR max number of clients reached\r\n");
    assert_eq!(first.line_of("PING"), "+PONG");
}

#[test]
fn a_port_for_tls_without_what_it_needs_is_refused() {
    let authority = Authority::new();
    let (crt, key) = (authority.path("server.crt"), authority.path("server.key"));
    for (options, why) in [
        (vec![], "tls-ca-cert-file or tls-ca-cert-dir must be set"),
        (vec![("tls-auth-clients", "no")], "tls-cert-file must be set"),
        (vec![("tls-auth-clients", "no"), ("tls-cert-file", &*crt)], "tls-key-file must be set"),
        (
            vec![("tls-auth-clients", "no"), ("tls-cert-file", &*crt), ("tls-key-file", &*crt)],
            "no private key",
        ),
        (
            vec![("tls-auth-clients", "no"), ("tls-cert-file", &*key), ("tls-key-file", &*key)],
            "no certificate in it",
        ),
    ] {
        let mut config = delayd::config::Config::default();
        let own = [("port", "0"), ("tls-port", "1"), ("appendonly", "no")];
        for (name, value) in own.iter().chain(&options) {
            config.set(name, &[(*value).to_owned()]).unwrap();
        }
        let error = delayd::server::Server::bind(config).unwrap_err().to_string();
        assert!(error.contains(why), "{options:?}: {error}");
    }
}

/// Port 0 beside a port for TLS means none, as in Redis.
#[test]
fn tls_alone() {
    let authority = Authority::new();
    let (server, address) = start(&authority, &[("port", "0")]);
    assert_eq!(server.address, address);
    assert_eq!(line_of(&mut connect(address, authority.client()), "PING").unwrap(), "+PONG");
}

/// SIGHUP, as rotating tools send it, once ended the server without a word.
#[test]
fn a_hangup_reads_certificates_and_users_anew() {
    let authority = Authority::new();
    let (port, tls, console) = (free_port(), free_port(), free_port());
    let folder = Folder::new("hangup");
    let users = folder.0.join("users.acl");
    let all = "on ~* &* +@all";
    let write = |text: String| std::fs::write(&users, text).unwrap();
    write(format!("user default {all} nopass\nuser w {all} >one\nuser gone {all} >gone\n"));
    let (crt, key) = (authority.path("server.crt"), authority.path("server.key"));
    let (port, tls, console) = (port.to_string(), tls.to_string(), console.to_string());
    let options = [
        ["--port", &port],
        ["--tls-port", &tls],
        ["--tls-cert-file", &crt],
        ["--tls-key-file", &key],
        ["--tls-auth-clients", "no"],
        ["--console-port", &console],
        ["--aclfile", "users.acl"],
    ];
    let program = Program::start(&folder.0, options.as_flattened());
    let hang_up = |expected: &[&str]| {
        let before = program.log().len();
        program.signal(rustix::process::Signal::HUP);
        let begun = Instant::now();
        while expected.iter().any(|text| !program.log()[before..].contains(text)) {
            assert!(begun.elapsed() < limit(), "{expected:?} is not logged");
            std::thread::yield_now();
        }
    };
    let shown = |port: &str| {
        let mut client =
            connect(([127, 0, 0, 1], port.parse().unwrap()).into(), authority.client());
        client.get_mut().write_all(b"\r\n").unwrap();
        client.get_mut().conn.peer_certificates().unwrap()[0].to_vec()
    };
    let logs_in = |password: &str| {
        let reply = program.connect().ask(&format!("AUTH w {password}"));
        reply == Reply::Simple("OK".into())
    };
    let before = shown(&tls);
    assert_eq!(shown(&console), before);
    let (mut kept, mut gone) = (program.connect(), program.connect());
    let mut secure = connect(([127, 0, 0, 1], tls.parse().unwrap()).into(), authority.client());
    assert_eq!(line_of(&mut secure, "PING").unwrap(), "+PONG");
    assert_eq!(kept.ask("AUTH w one").text(), "OK");
    assert_eq!(gone.ask("AUTH gone gone").text(), "OK");
    gone.push_line("BLPOP q 0");
    gone.flush().unwrap();
    authority.issue("server");
    write(format!("user default {all} nopass\nuser w {all} >two\n"));
    hang_up(&["SIGHUP: reloaded: certificates, aclfile"]);
    let after = shown(&tls);
    assert!(after != before && shown(&console) == after);
    assert!(!logs_in("one") && logs_in("two"));
    // Who is there stays, but for users that are gone.
    assert_eq!(kept.ask("PING").text(), "PONG");
    assert_eq!(line_of(&mut secure, "PING").unwrap(), "+PONG");
    assert!(gone.read().is_err());
    // What is invalid changes nothing, and each is read by itself.
    std::fs::write(&key, "no key").unwrap();
    write("user w on >three +@nothing".to_owned());
    let stays =
        ["the certificates stay as they were: tls-key-file", "the users stay as they were: "];
    hang_up(&[stays[0], stays[1], "SIGHUP: nothing was reloaded"]);
    assert!(shown(&tls) == after && shown(&console) == after && logs_in("two"));
    write(format!("user default {all} nopass\nuser w {all} >three\n"));
    hang_up(&[stays[0], "SIGHUP: reloaded: aclfile"]);
    assert!(shown(&tls) == after && logs_in("three"));
    // CONFIG SET reads the same files, the console's among them.
    authority.issue("server");
    assert_eq!(kept.ask(&format!("CONFIG SET tls-key-file {key}")).text(), "OK");
    let newest = shown(&tls);
    assert!(newest != after && shown(&console) == newest);
    program.stop();
}

#[test]
fn a_hangup_ends_no_server_that_has_nothing_to_read() {
    let folder = Folder::new("hangup");
    let program = Program::start(&folder.0, &[]);
    for _ in 0..3 {
        program.signal(rustix::process::Signal::HUP);
    }
    let begun = Instant::now();
    while !program.log().contains("SIGHUP: nothing was reloaded") {
        assert!(begun.elapsed() < limit(), "nothing is logged");
        std::thread::yield_now();
    }
    assert_eq!(program.connect().ask("PING").text(), "PONG");
    program.stop();
}

#[test]
fn who_came_by_tls_is_sent_on_by_tls() {
    let (authority, folder) = (Authority::new(), Folder::new("tls"));
    let (plain, tls) = (free_ports(4), free_ports(4));
    let (crt, key) = (authority.path("server.crt"), authority.path("server.key"));
    let [plain_text, tls_text] = [plain, tls].map(|port| port.to_string());
    let program = Program::start(
        &folder.0,
        &[
            "--appendonly", "no", "--cluster-partitions", "4", "--port", &plain_text, "--tls-port",
            &tls_text, "--tls-cert-file", &crt, "--tls-key-file", &key, "--tls-auth-clients", "no",
        ],
    );
    // Slot 11958, of the third partition.
    let len = "DELAY.LEN q";
    let mut secure = connect(([127, 0, 0, 1], tls).into(), authority.client());
    assert_eq!(line_of(&mut secure, len).unwrap(), format!("-MOVED 11958 127.0.0.1:{}", tls + 2));
    let moved = program.connect().ask(len);
    assert_eq!(moved.text(), format!("MOVED 11958 127.0.0.1:{}", plain + 2));
    secure.get_mut().write_all(b"CLUSTER NODES\r\n").unwrap();
    let mut lines = secure.lines().map(Result::unwrap);
    let ports: Vec<String> = lines.by_ref().skip(1).take(4).collect();
    for (at, line) in ports.iter().enumerate() {
        assert!(line.contains(&format!(" 127.0.0.1:{}@", tls + at as u16)), "{line}");
    }
    program.stop();
}
