//! The console's doors: passwords, sessions, and that a session is a connection of the server.

use crate::support::browser::{Console, Page, Visitor, exchange, request};
use crate::support::http::free_port;
use crate::support::patience::limit;
use crate::support::program::{Folder, Program, Reply, Wire};
use delayd::limits::CONSOLE_WRONG_TIME;
use rustls::pki_types::ServerName;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

    // As many at once as may be: each takes its second, and none says more than another.
    let attempt = |user: &str| {
        let begun = Instant::now();
        let page = console.log_in(user, "wrong");
        (page, begun.elapsed())
    };
    let users = ["ann", "nobody"];
    let tried: Vec<(Page, Duration)> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..18).map(|at| scope.spawn(move || attempt(users[at % 2]))).collect();
        tries.into_iter().map(|each| each.join().unwrap()).collect()
    });
    let plain = |page: &Page, user: &str| page.text().replace(user, "USER");
    for (at, (page, took)) in tried.iter().enumerate() {
        assert_eq!(page.status, 401);
        assert!(*took >= CONSOLE_WRONG_TIME, "{took:?}");
        assert_eq!(plain(page, users[at % 2]), plain(&tried[0].0, "ann"));
        assert_eq!(page.header("set-cookie"), "");
    }
    let (page, took) = attempt("ann");
    assert_eq!((page.status, page.header("retry-after")), (429, "5"));
    assert!(took >= Duration::from_secs(5), "whoever guesses on is slowed: {took:?}");
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

/// Sixty at once tried 17 through the API, which counted after it had looked.
#[test]
fn so_many_wrong_passwords_at_once_are_looked_at_and_no_more() {
    let console = Console::start(&["--requirepass", "sesame", "--acllog-max-len", "1000"]);
    let mut wire = console.program.connect();
    wire.ask("AUTH sesame");
    wire.ask("ACL SETUSER ann on >pw ~* +@all");
    wire.ask("ACL SETUSER eve on >pw ~* +@all");
    let command = |login: &str| {
        let said = format!("Bearer {login}");
        let headers = [("Content-Type", "application/json"), ("Authorization", said.as_str())];
        console.send("POST", "/api/v1/command", &headers, b"[\"PING\"]")
    };
    let by_form = |user: &str| console.log_in(user, "wrong");
    let by_api = |user: &str| command(&format!("{user}:wrong"));
    type Try<'a> = &'a (dyn Fn(&str) -> Page + Sync);
    let both: [(&str, Try<'_>); 2] = [("ann", &by_form), ("eve", &by_api)];
    for (user, attempt) in both {
        wire.ask("ACL LOG RESET");
        let answers: Vec<Page> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..60).map(|_| scope.spawn(move || attempt(user))).collect();
            tries.into_iter().map(|each| each.join().unwrap()).collect()
        });
        let count = |status| answers.iter().filter(|page| page.status == status).count();
        let looked_at: usize = wire
            .ask("ACL LOG")
            .array()
            .expect("a list")
            .iter()
            .filter_map(|entry| Some(entry.array()?[1].number() as usize))
            .sum();
        assert!(looked_at <= 10, "{looked_at} were looked at");
        assert_eq!(count(401) + count(429), 60, "{:?}", answers.iter().map(|page| page.status));
        let refused = answers.iter().find(|page| page.status == 429).expect("most of them");
        assert_eq!(refused.header("retry-after"), "5");
        // The right password of the same user gets in, and so does anybody else.
        assert_eq!(command(&format!("{user}:pw")).status, 200, "{user}");
        assert_eq!(command("sesame").status, 200);
    }
}

/// Somebody behind the same proxy who guesses all the time.
#[test]
fn guessing_keeps_nobody_out_who_knows_the_password() {
    let console = Console::start(&["--requirepass", "sesame"]);
    let mut wire = console.program.connect();
    wire.ask("AUTH sesame");
    wire.ask("ACL SETUSER ann on >pw ~* +@all");
    assert_eq!(console.log_in("ann", "pw").status, 303);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    assert_ne!(console.log_in("ann", "wrong").status, 303);
                }
            });
        }
        let begun = Instant::now();
        while console.log_in("ann", "wrong").status != 429 {
            assert!(begun.elapsed() < limit());
        }
        for _ in 0..20 {
            let status = console.log_in("ann", "pw").status;
            over.fetch_or(status != 303, Ordering::Relaxed);
            assert_eq!(status, 303);
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// More logins than there may be sessions.
#[test]
fn one_users_logins_log_nobody_else_out() {
    let console = Console::start(&["--requirepass", "sesame"]);
    let mut wire = console.program.connect();
    wire.ask("AUTH sesame");
    wire.ask("ACL SETUSER viewer on >pw ~* +@all");
    let (admin, first) = (console.visitor("default", "sesame"), console.visitor("viewer", "pw"));
    for _ in 0..260 {
        console.visitor("viewer", "pw");
    }
    admin.page("/queues");
    assert_out(&first);
}

/// It has to be shown that one is of this machine: what comes over its loopback a proxy may have sent.
#[test]
fn without_a_password_only_the_token_lets_in() {
    let console = Console::start(&[]);
    let token = console.entry_token().expect("a link in the folder");
    let form = |user: &str, password: &str| console.log_in(user, password).status;
    assert_eq!(console.send("GET", "/login", &[], b"").header("set-cookie"), "");
    // A user without a password takes any.
    let mut wire = console.program.connect();
    wire.ask("ACL SETUSER anybody on nopass ~* +@all");
    for (user, password) in [("default", ""), ("default", "x"), ("anybody", ""), ("anybody", "x")] {
        assert_eq!(form(user, password), 401, "{user}, {password}");
    }
    assert_eq!(form("anybody", &token), 401);
    assert_eq!(form("default", &token), 303, "as a password");
    for wrong in ["x", &token[1..], &format!("{token}0"), &"0".repeat(64)] {
        let page = console.send("GET", &format!("/login?token={wrong}"), &[], b"");
        assert_eq!((page.status, page.header("set-cookie")), (401, ""), "{wrong}");
        assert!(!page.text().contains(&token), "{wrong}");
    }
    let api = |said: &str| {
        let json = ("Content-Type", "application/json");
        let headers = [json, ("Authorization", said)];
        console.send("POST", "/api/v1/command", &headers, b"[\"ACL\",\"WHOAMI\"]")
    };
    for wrong in ["Bearer x", "Bearer default:x", "Bearer anybody:x", "Basic ZGVmYXVsdDo="] {
        assert_eq!(api(wrong).status, 401, "{wrong}");
    }
    let page = api(&format!("Bearer {token}"));
    assert_eq!((page.status, page.text().as_str()), (200, "{\"result\":\"default\"}"));
    // With a password it opens nothing more.
    wire.ask("CONFIG SET requirepass sesame");
    assert_eq!(console.enter().status, 401);
    assert_eq!(api(&format!("Bearer {token}")).status, 401);
    assert_eq!(form("default", "sesame"), 303);
    let log = console.program.stop();
    assert!(log.contains(&format!("/login?token={token}")), "the link is in the log: {log}");
}

#[test]
fn the_link_is_printed_and_goes_with_the_server() {
    let console = Console::start(&[]);
    let dir = console.folder().text().to_owned();
    let ask = |options: &[&str]| {
        let mut asked = Command::new(env!("CARGO_BIN_EXE_delayd"));
        let output = asked.arg("console").args(options).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let token = console.entry_token().unwrap();
    let link = format!("http://127.0.0.1:{}/login?token={token}", console.port);
    assert_eq!(ask(&["--dir", &dir]), (Some(0), link, String::new()));
    assert_eq!(ask(&["--token", "--dir", &dir]).1, token);
    let conf = console.folder().0.join("delayd.conf");
    std::fs::write(&conf, format!("dir {dir}\n")).unwrap();
    assert_eq!(ask(&[conf.to_str().unwrap(), "--token"]).1, token, "as the server finds it");
    assert_eq!(ask(&["--dri", &dir]).0, Some(64));
    let file = console.folder().0.join("console-link");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    console.program.stop();
    let (status, out, why) = ask(&["--dir", &dir]);
    assert!(status == Some(3) && out.is_empty() && why.contains("console-link"), "{why}");
    // One that a killed server left leads nowhere.
    std::fs::write(&file, text).unwrap();
    let (status, out, why) = ask(&["--dir", &dir]);
    assert!(status == Some(3) && out.is_empty() && why.contains("does not answer"), "{why}");
    let locked = Console::start(&["--requirepass", "sesame"]);
    assert_eq!(locked.entry_token(), None);
    assert!(!locked.program.stop().contains("token"));
}

#[test]
fn who_has_the_link_gets_in_and_out() {
    let console = Console::start(&[]);
    let stranger = console.send("GET", "/queues?by=ready", &[], b"");
    assert_eq!(stranger.status, 303);
    assert_eq!(stranger.header("location"), "/login?back=%2Fqueues%3Fby%3Dready");
    // The token leaves the address. What follows is a page: of a link on another site the browser would not send the
    // cookie with a second redirect.
    let entrance = format!("/login?back=%2Fqueues&token={}", console.entry_token().unwrap());
    let page = console.send("GET", &entrance, &[], b"");
    assert_eq!((page.status, page.header("location")), (303, "/login?entered=1&back=%2Fqueues"));
    let onward = console.send("GET", page.header("location"), &[], b"");
    assert!(onward.status == 200 && onward.text().contains("url=/queues\""), "{onward:?}");
    let cookie = page.header("set-cookie").to_owned();
    for flag in ["Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.split("; ").any(|part| part == flag), "{cookie}");
    }
    let (key, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
    assert!(key.starts_with("delayd_session") && !cookie.contains("Secure"), "{cookie}");
    assert_eq!(value.len(), 64, "256 bits");
    let visitor = Visitor::of(&console, &page);
    assert!(visitor.page("/queues").contains("Log out"));
    assert_eq!(visitor.get(&entrance).header("location"), "/queues", "a session stays");
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
    let page = console.enter();
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
    let link = std::fs::read_to_string(folder.0.join("console-link")).unwrap();
    let entrance = link.trim_end().strip_prefix(&format!("https://127.0.0.1:{port}")).unwrap();
    let page = get(entrance, "");
    let cookie = page.header("set-cookie").to_owned();
    assert!(page.status == 303 && cookie.starts_with("__Host-"), "{cookie}");
    assert!(cookie.contains("; Secure") && !cookie.contains("Domain"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(get("/queues", pair).status, 200);
    assert_eq!(get("/queues", &pair.replace("__Host-", "")).status, 303);
    // In plain words there is nothing to be had.
    let plain = exchange(crate::support::http::connect(port), &request("GET", "/login", &[], b""));
    assert_eq!(plain.status, 0, "{plain:?}");
}
