//! The console's doors: passwords, sessions, and that a session is a connection of the server.

use crate::support::browser::{Console, Page, Visitor, exchange, request};
use crate::support::http::free_port;
use crate::support::patience::{limit, until};
use crate::support::program::{Folder, Program, Reply, Wire};
use delayd::limits::CONSOLE_WRONG_TIME;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The line of CLIENT LIST about the console's only session.
fn session_line(wire: &mut Wire) -> Option<String> {
    let list = wire.ask("CLIENT LIST").text().to_owned();
    list.lines().find(|line| line.contains(" name=console ")).map(str::to_owned)
}

fn assert_out(visitor: &Visitor<'_>) {
    let page = visitor.get("/queues");
    assert_eq!(page.status, 303, "{}", page.text());
    assert!(page.header("location").starts_with("/login"), "{page:?}");
    let again = visitor.get("/queues");
    assert!(again.status == 303 && again.header("location").contains("back="), "{again:?}");
}

#[test]
fn wrong_passwords_are_slow_counted_and_written_down() {
    let console = Console::start(&["--requirepass", "sesame"]);
    let mut wire = console.program.connect();
    wire.ask("AUTH sesame");
    wire.ask("ACL SETUSER ann on >pw ~* +@all");
    let page = console.log_in("ann", "pw");
    assert_eq!((page.status, page.header("location")), (303, "/queues"));
    assert!(Visitor::of(&console, &page).page("/queues").contains(">ann<"));

    // Ten at once: each takes its second, and none says more than another.
    let attempt = |user: &str| {
        let begun = Instant::now();
        let page = console.log_in(user, "wrong");
        (page, begun.elapsed())
    };
    let users = ["ann", "nobody"];
    let tried: Vec<(Page, Duration)> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..10).map(|at| scope.spawn(move || attempt(users[at % 2]))).collect();
        tries.into_iter().map(|each| each.join().unwrap()).collect()
    });
    let plain = |page: &Page, user: &str| page.text().replace(user, "USER");
    for (at, (page, took)) in tried.iter().enumerate() {
        assert_eq!(page.status, 401);
        assert!(*took >= CONSOLE_WRONG_TIME, "{took:?}");
        assert_eq!(plain(page, users[at % 2]), plain(&tried[0].0, "ann"));
        assert_eq!(page.header("set-cookie"), "");
    }
    // Nothing is looked up for it, so that it is told at once; a busy machine may take its time now and then.
    until("one too many is refused at once", || {
        let (page, took) = attempt("ann");
        assert_eq!(page.status, 429);
        (took < CONSOLE_WRONG_TIME).then_some(())
    });
    assert_eq!(console.log_in("ann", "pw").status, 429, "neither is the right one heard");
    let log = texts(&wire.ask("ACL LOG"));
    for part in ["auth", "nobody", " addr=127.0.0.1:"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!console.program.stop().contains("sesame"));
}

/// All texts of a reply, a line each.
fn texts(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => format!("{}\n", String::from_utf8_lossy(bytes)),
        Reply::Array(all) => all.iter().map(texts).collect(),
        _ => String::new(),
    }
}

#[test]
fn who_needs_no_password_gets_in_and_out() {
    let console = Console::start(&[]);
    let stranger = console.send("GET", "/queues?by=ready", &[], b"");
    assert_eq!(stranger.status, 303);
    assert_eq!(stranger.header("location"), "/login?back=%2Fqueues%3Fby%3Dready");
    // No redirect: of a link on another site the browser would not send the cookie with it.
    let page = console.send("GET", "/login?back=%2Fqueues", &[], b"");
    assert_eq!(page.status, 200);
    let cookie = page.header("set-cookie").to_owned();
    for flag in ["Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.split("; ").any(|part| part == flag), "{cookie}");
    }
    let (key, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
    assert!(key.starts_with("delayd_session") && !cookie.contains("Secure"), "{cookie}");
    assert_eq!(value.len(), 64, "256 bits");
    let visitor = Visitor::of(&console, &page);
    assert!(visitor.page("/queues").contains("Log out"));
    // One of another's making is none.
    let forged = format!("{key}={}", "0".repeat(64));
    assert_eq!(console.send("GET", "/", &[("Cookie", &forged)], b"").status, 303);
    let token = visitor.token();
    assert_eq!(visitor.send("POST", "/logout", &[], b"token=x").status, 403);
    visitor.page("/");
    let form = format!("token={token}");
    let out = visitor.send("POST", "/logout", &[], form.as_bytes());
    assert!(out.status == 303 && out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_out(&visitor);
    // `back` leads nowhere else.
    let away = console.send("GET", "/login?back=%2F%2Fevil.example", &[], b"").text();
    assert!(!away.contains("evil"), "{away}");
}

#[test]
fn a_session_ends_with_its_connection() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let clients = wire.number("connected_clients");
    let visitor = console.guest();
    visitor.page("/");
    assert_eq!(wire.number("connected_clients"), clients + 1);
    let line = session_line(&mut wire).expect("a session is a client");
    assert!(line.contains(" addr=127.0.0.1:") && line.contains(" user=default "), "{line}");
    let id = line.split([' ', '=']).nth(1).unwrap().to_owned();
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")).number(), 1);
    assert_out(&visitor);
    assert_eq!(session_line(&mut wire), None);

    for end in ["ACL DELUSER ann", "CLIENT KILL USER ann"] {
        wire.ask("ACL SETUSER ann reset on >pw ~* +@all");
        let ann = console.visitor("ann", "pw");
        ann.page("/queues");
        wire.ask(end);
        assert_out(&ann);
    }
    // As of any client: rules hold at once, and who is switched off does not get in again.
    let ann = console.visitor("ann", "pw");
    wire.ask("ACL SETUSER ann off -@all");
    assert!(ann.get("/queue?name=q").text().contains("NOPERM"));
    assert!(ann.act("/do/add?queue=q", "when=0&body=x").contains("NOPERM"));
    assert_eq!(console.log_in("ann", "pw").status, 401);
}

#[test]
fn what_the_console_asks_is_seen_as_of_any_client() {
    let console = Console::start(&["--slowlog-log-slower-than", "0", "--maxclients", "4"]);
    let (mut wire, mut monitor) = (console.program.connect(), console.program.connect());
    monitor.ask("MONITOR");
    let visitor = console.guest();
    visitor.page("/queues");
    let begun = Instant::now();
    while !monitor.read().unwrap().text().contains("\"DELAY.QUEUES\"") {
        assert!(begun.elapsed() < limit());
    }
    let log = texts(&wire.ask("SLOWLOG GET 128"));
    assert!(log.contains("DELAY.QUEUES") && log.contains("console"), "{log}");
    // Two clients and two sessions are all there may be.
    let _other = console.guest();
    let page = console.send("GET", "/login", &[], b"");
    assert_eq!(page.status, 503, "{}", page.text());
    assert_eq!(page.header("set-cookie"), "");
    visitor.page("/");
}

#[test]
fn with_tls_the_cookie_is_bound_to_it() {
    let folder = Folder::new("console-tls");
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let path = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("crt"), certificate.pem()).unwrap();
    std::fs::write(path("key"), key.serialize_pem()).unwrap();
    let (port, tls_port) = (free_port(), free_port().to_string());
    let (port_text, crt, key) = (port.to_string(), path("crt"), path("key"));
    let options = ["--console-port", &port_text, "--tls-port", &tls_port, "--tls-cert-file", &crt];
    let more = ["--tls-key-file", &key, "--tls-auth-clients", "no"];
    let _program = Program::start(&folder.0, &[&options[..], &more[..]].concat());

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let get = |path: &str, cookie: &str| {
        let name = ServerName::try_from("localhost").unwrap();
        let session = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
        let stream = rustls::StreamOwned::new(session, crate::support::http::connect(port));
        exchange(stream, &request("GET", path, &[("Host", "localhost"), ("Cookie", cookie)], b""))
    };
    let page = get("/login", "");
    let cookie = page.header("set-cookie").to_owned();
    assert!(page.status == 200 && cookie.starts_with("__Host-"), "{cookie}");
    assert!(cookie.contains("; Secure") && !cookie.contains("Domain"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(get("/queues", pair).status, 200);
    assert_eq!(get("/queues", &pair.replace("__Host-", "")).status, 303);
    // In plain words there is nothing to be had.
    let plain = exchange(crate::support::http::connect(port), &request("GET", "/login", &[], b""));
    assert_eq!(plain.status, 0, "{plain:?}");
}
