//! What the console lets in at all: hosts, tokens, sizes, and how many.

use crate::support::browser::{Console, Page, Visitor, exchange, request};
use crate::support::patience::until;
use delayd::limits::{CONSOLE_CONNECTIONS_MAX, CONSOLE_REQUEST_TIME};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

fn asked_as(console: &Console, host: &str) -> u16 {
    exchange(console.connect(), &request("GET", "/login", &[("Host", host)], b"")).status
}

#[test]
fn other_names_are_not_answered() {
    let console = Console::start(&["--console-hosts", "ops.example.com"]);
    let port = console.port;
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "ops.example.com", "Ops.example.com."] {
        assert_eq!(asked_as(&console, host), 200, "{host}");
        assert_eq!(asked_as(&console, &format!("{host}:{port}")), 200, "{host}:{port}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "", "localhost@x"] {
        assert_eq!(asked_as(&console, host), 421, "{host}");
    }
    let none = exchange(console.connect(), &request("GET", "/login", &[], b""));
    assert_eq!(none.status, 421);
    // Neither the API nor a file is had by another name.
    for path in ["/api/v1/command", "/assets/x", "/live"] {
        let evil = [("Host", "evil.example"), ("Content-Type", "application/json")];
        let page = exchange(console.connect(), &request("POST", path, &evil, b"[\"PING\"]"));
        assert_eq!(page.status, 421, "{path}");
    }
}

/// What a proxy in its plainest setting sends, and what is sent to get past one.
#[test]
fn nothing_gets_in_by_the_shape_of_its_request() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let host = format!("127.0.0.1:{}", console.port);
    let body = "[\"DELAY.ADD\",\"q\",\"0\",\"x\"]";
    let sent = |version: &str, target: &str, headers: &str| {
        let more = "Connection: close\r\nContent-Type: application/json";
        let page = console
            .exchange(&format!("GET {target}/login HTTP/{version}\r\n{headers}{more}\r\n\r\n"));
        assert_eq!(page.header("set-cookie"), "", "{version} {target} {headers}");
        let length = body.len();
        let api = console.exchange(&format!(
            "POST {target}/api/v1/command HTTP/{version}\r\n{headers}{more}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        (page.status, api.status)
    };
    let own = format!("Host: {host}\r\n");
    let forwarded = format!("{own}X-Forwarded-For: 192.0.2.1\r\n");
    assert_eq!(sent("1.1", "", &own), (200, 401));
    assert_eq!(sent("1.1", "", &forwarded), (200, 401));
    assert_eq!(sent("1.1", "", "Host: localhost\r\n"), (200, 401));
    for headers in [&own, &forwarded, ""] {
        assert_eq!(sent("1.0", "", headers), (505, 505));
    }
    let evil = "Host: evil.example\r\n";
    assert_eq!(sent("1.1", "", &format!("{own}{evil}")), (400, 400));
    assert_eq!(sent("1.1", "", &format!("{own}{own}")), (400, 400));
    // The name that the first line has counts.
    assert_eq!(sent("1.1", "http://evil.example", &own), (421, 421));
    assert_eq!(sent("1.1", &format!("http://{host}"), evil), (200, 401));
    assert_eq!(wire.ask("DELAY.LEN q").number(), 0, "nothing was added");
}

/// As a proxy passes on that speaks https.
fn sealed(address: &str) -> [(&str, &str); 2] {
    [("X-Forwarded-For", address), ("X-Forwarded-Proto", "https")]
}

/// A password is counted by the address that the proxy tells, and the cookie is bound to https where it tells that.
#[test]
fn a_proxy_that_is_named_is_believed() {
    let console =
        Console::start(&["--requirepass", "sesame", "--console-trusted-proxies", "127.0.0.0/8"]);
    let log_in = |headers: &[(&str, &str)], password: &str| {
        let form = format!("user=default&password={password}");
        console.send("POST", "/login", headers, form.as_bytes())
    };
    let plain = [("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(log_in(&plain, "sesame").status, 403, "it would cross the network as plain text");
    let page = log_in(&sealed("192.0.2.1"), "sesame");
    assert!(page.status == 303 && page.header("set-cookie").ends_with("; Secure"), "{page:?}");
    let mut wire = console.program.connect();
    wire.ask("AUTH sesame");
    let list = wire.ask("CLIENT LIST").text().to_owned();
    assert!(list.contains(" addr=192.0.2.1:"), "{list}");
    let wrong = |address: &str| {
        std::thread::scope(|scope| {
            let tries: Vec<_> =
                (0..12).map(|_| scope.spawn(|| log_in(&sealed(address), "wrong").status)).collect();
            tries
                .into_iter()
                .map(|each| each.join().unwrap())
                .filter(|status| *status == 401)
                .count()
        })
    };
    assert!(wrong("192.0.2.2") < 10, "the tenth is one too many");
    assert_eq!(log_in(&sealed("192.0.2.3"), "wrong").status, 401, "another address is not slowed");
    let page = console.send("POST", "/login", &[], b"user=default&password=sesame");
    assert!(page.status == 303 && !page.header("set-cookie").contains("Secure"), "{page:?}");
}

#[test]
fn nothing_is_changed_but_by_a_form_of_the_session() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    for id in ["a", "b", "c"] {
        wire.ask(&format!("DELAY.ADD q 0 body ID {id}"));
    }
    let (visitor, other) = (console.guest(), console.guest());
    let (token, foreign) = (visitor.token(), other.token());
    assert_ne!(token, foreign);
    let path = "/do/purge?db=0&queue=q&ready=1&typed=q";
    let wrong = ["", "token=", "token=x", &format!("token={foreign}"), &format!("token={token}0")];
    for form in wrong {
        assert_eq!(visitor.send("POST", path, &[], form.as_bytes()).status, 403, "{form}");
    }
    assert_eq!(visitor.send("POST", path, &[("X-Delayd-Token", &foreign)], b"").status, 403);
    assert_eq!(console.send("POST", path, &[], format!("token={token}").as_bytes()).status, 303);
    for method in ["GET", "HEAD"] {
        let with_token = format!("{path}&token={token}");
        assert_eq!(visitor.send(method, &with_token, &[], b"").status, 404);
    }
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH"] {
        assert_eq!(visitor.send(method, path, &[], b"").status, 405, "{method}");
    }
    let form = format!("token={token}");
    let cross = [("Sec-Fetch-Site", "cross-site")];
    assert_eq!(visitor.send("POST", path, &cross, form.as_bytes()).status, 403);
    assert_eq!(wire.ask("DELAY.LEN q").number(), 3, "nothing was changed");
    // With its own it is done; from the same site, and by a browser that says nothing of sites.
    let same = [("Sec-Fetch-Site", "same-origin")];
    assert_eq!(visitor.send("POST", path, &same, form.as_bytes()).status, 303);
    assert_eq!(wire.ask("DELAY.LEN q").number(), 0);
    assert!(visitor.get("/").message().contains("3 jobs were removed"));
}

#[test]
fn every_answer_keeps_itself_to_itself() {
    let console = Console::start(&[]);
    let visitor = console.guest();
    let page = visitor.get("/");
    let answers = [
        ("a page", visitor.get("/queue?name=q")),
        ("a job", visitor.get("/job?queue=q&id=x")),
        ("no page", visitor.get("/nothing")),
        ("a stranger", console.send("GET", "/", &[], b"")),
        ("the login", console.send("GET", "/login?other=1", &[], b"")),
        ("a wrong form", visitor.send("POST", "/do/run", &[], b"")),
        ("an api error", console.send("GET", "/api/v1/command", &[], b"")),
        ("another host", console.send("GET", "/", &[("Host", "evil.example")], b"")),
        ("too long", visitor.send("POST", "/do/run", &[], &vec![b'a'; (1 << 20) + 1])),
        ("the overview", page),
    ];
    for (what, answer) in &answers {
        let policy = answer.header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{what}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{what}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{what}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{what}");
        assert_eq!(answer.header("cache-control"), "no-store", "{what}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{what}");
    }
    assert_eq!(answers[8].1.status, 413);
}

#[test]
fn files_are_kept_for_ever_and_change_their_names() {
    let console = Console::start(&[]);
    let text = console.guest().page("/");
    let paths: Vec<&str> = text.split('"').filter(|word| word.starts_with("/assets/")).collect();
    assert!(paths.len() >= 3, "{paths:?}");
    for path in paths {
        let plain = console.send("GET", path, &[], b"");
        let zipped = console.send("GET", path, &[("Accept-Encoding", "br, gzip")], b"");
        for file in [&plain, &zipped] {
            assert_eq!(file.status, 200, "{path}");
            assert!(file.header("cache-control").contains("immutable"), "{path}");
            assert_eq!(file.header("x-content-type-options"), "nosniff");
        }
        assert_eq!(plain.header("content-encoding"), "");
        assert_eq!(zipped.header("content-encoding"), "gzip");
        assert!(zipped.bytes.len() <= 8 << 10, "{path}: {}", zipped.bytes.len());
        let mut unzipped = Vec::new();
        flate2::read::GzDecoder::new(&zipped.bytes[..]).read_to_end(&mut unzipped).unwrap();
        assert_eq!(unzipped, plain.bytes);
    }
    for old in ["/assets/console-00000000.js", "/assets/", "/assets/../console.js"] {
        let page = console.send("GET", old, &[], b"");
        assert!(page.status == 404 && !page.header("cache-control").contains("immutable"), "{old}");
    }
}

#[test]
fn what_is_too_long_is_refused() {
    let console = Console::start(&[]);
    let visitor = console.guest();
    let form = format!("token={}&back=%2F&id=", visitor.token());
    let fill = |bytes: usize| [form.as_bytes(), &vec![b'a'; bytes - form.len()]].concat();
    let at_most = visitor.send("POST", "/do/run?queue=q", &[], &fill(1 << 20));
    assert_eq!(at_most.status, 303, "{}", at_most.text());
    let more = visitor.send("POST", "/do/run?queue=q", &[], &fill((1 << 20) + 1));
    assert_eq!(more.status, 413);
    let long = "x".repeat(17 << 10);
    let head = visitor.send("GET", "/", &[("X-Long", &long)], b"");
    assert!(matches!(head.status, 0 | 400..500), "{}", head.status);
    let path = visitor.get(&format!("/queue?name={long}"));
    assert!(matches!(path.status, 0 | 400..500), "{}", path.status);
    assert_eq!(visitor.get(&format!("/queue?name={}", &long[..8 << 10])).status, 200);
}

/// More connections than are served say nothing or half of a head; a visitor gets in at once all the same.
#[test]
fn the_slow_keep_nobody_out() {
    let console = Console::start(&[]);
    let visitor = console.guest();
    let says = ["", "GET / HT", "GET /queues HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "];
    let mut slow: Vec<TcpStream> = Vec::new();
    let (begun, mut got_in) = (Instant::now(), false);
    for at in 0..150 {
        let mut stream = console.connect();
        let _ = stream.write_all(says[at % 3].as_bytes());
        slow.push(stream);
        if at % 25 == 24 {
            visitor.page("/queues");
            // Else those that are late made room.
            let is_more = at >= CONSOLE_CONNECTIONS_MAX;
            got_in |= is_more && begun.elapsed() < CONSOLE_REQUEST_TIME;
        }
    }
    assert!(got_in, "{:?}", begun.elapsed());
    // Bodies that never come, too.
    for _ in 0..70 {
        let mut stream = console.connect();
        let head = "POST /do/run HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        slow.push(stream);
    }
    visitor.page("/queues");
    for mut stream in slow.drain(..150) {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert!(matches!(Page::read(&all).status, 0 | 408), "{all:?}");
    }
}

/// A stream of ticks, and what came of it up to the first.
fn live(console: &Console, visitor: &Visitor<'_>) -> (Page, TcpStream) {
    let host = format!("127.0.0.1:{}", console.port);
    let headers = [("Host", host.as_str()), ("Cookie", visitor.cookie.as_str())];
    let mut stream = console.connect();
    stream.write_all(&request("GET", "/live", &headers, b"")).unwrap();
    let (mut all, mut bytes) = (Vec::new(), [0; 1024]);
    loop {
        let count = stream.read(&mut bytes).unwrap();
        all.extend(&bytes[..count]);
        let page = Page::read(&all);
        if count == 0 || !matches!(page.status, 0 | 200) || page.text().contains("\n\n") {
            return (page, stream);
        }
    }
}

/// A page that changed in one number is sent as that number, to nobody but the page that has all else.
#[test]
fn an_open_page_is_sent_what_has_changed() {
    let console = Console::start(&[]);
    let (visitor, other) = (console.guest(), console.guest());
    let (page, stream) = live(&console, &visitor);
    let text = page.text();
    let number = text.split("data: ").nth(1).and_then(|rest| rest.split('\n').next()).unwrap();
    let update = |visitor: &Visitor<'_>, version: &str| {
        let named = format!("{number}.{version}");
        let page = visitor.send("GET", "/queues", &[("x-delayd-parts", &named)], b"");
        let version = page.header("x-delayd-version").to_owned();
        (page.status, version, page.bytes.len())
    };
    let (status, first, whole) = update(&visitor, "");
    assert_eq!(status, 200);
    console.program.connect().ask("DELAY.ADD mails 1h x");
    let (status, second, changed) = update(&visitor, &first);
    assert_eq!(status, 226);
    let (status, third, bytes) = update(&visitor, &second);
    assert!(status == 226 && bytes < changed && changed < whole, "{bytes} {changed} {whole}");
    // An answer was lost; another session names this stream; the stream has ended.
    assert_eq!(update(&visitor, &second).0, 200);
    let (status, version, _) = update(&other, &third);
    assert_eq!((status, version.as_str()), (200, ""));
    drop(stream);
    let is_forgotten = || update(&visitor, "").1.is_empty().then_some(());
    until("what was sent is forgotten", is_forgotten);
}

#[test]
fn so_many_pages_are_live_and_no_more() {
    let console = Console::start(&[]);
    let visitor = console.guest();
    let live = || live(&console, &visitor);
    assert_eq!(console.send("GET", "/live", &[], b"").status, 401);
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..32 {
        let (page, stream) = live();
        assert_eq!(page.status, 200);
        streams.push(stream);
    }
    assert_eq!(live().0.status, 503);
    visitor.page("/queues");
    streams.pop();
    // It is free once the server has seen that the reader is gone: at its next tick.
    until("a stream is free", || (live().0.status == 200).then_some(()));
}

#[test]
fn pages_are_compressed_for_browsers_that_say_they_take_it() {
    let console = Console::start(&[]);
    let visitor = console.guest();
    let get = |path: &str, takes: &str| {
        let headers = [("Cookie", visitor.cookie.as_str()), ("Accept-Encoding", takes)];
        console.send("GET", path, &headers, b"")
    };
    for path in ["/", "/queues", "/no-such-page"] {
        let (plain, zipped) = (get(path, "gzip;q=0, br"), get(path, "deflate, gzip;q=0.5"));
        assert_eq!(plain.header("content-encoding"), "", "{path}");
        assert_eq!(zipped.header("content-encoding"), "gzip", "{path}");
        assert_eq!((zipped.header("vary"), zipped.status), ("accept-encoding", plain.status));
        let mut text = String::new();
        flate2::read::GzDecoder::new(&zipped.bytes[..]).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"), "{path}");
        assert!(zipped.bytes.len() * 2 < text.len() || text.len() < 1_000, "{path}");
    }
    let cookie = ("Cookie", visitor.cookie.as_str());
    let head = console.send("HEAD", "/queues", &[cookie, ("Accept-Encoding", "GZIP")], b"");
    assert_eq!((head.header("content-encoding"), head.bytes.len()), ("gzip", 0));
    // Of a page that shows what another site asked for nobody learns the length.
    let asked_for = [cookie, ("Accept-Encoding", "gzip"), ("Sec-Fetch-Site", "same-site")];
    let plain = console.send("GET", "/queues?match=x", &asked_for, b"");
    assert_eq!((plain.header("content-encoding"), plain.status), ("", 200));
    let headers = [("Accept-Encoding", "gzip"), ("Content-Type", "application/json")];
    let answer = console.send("POST", "/api/v1/command", &headers, b"[\"PING\"]");
    assert_eq!((answer.header("content-encoding"), answer.status), ("", 200), "{}", answer.text());
}
