//! Commands over HTTP: who may send them, which, and what comes back.

use crate::support::browser::{Console, Page, request};
use crate::support::patience::until;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn asked(console: &Console, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let mut all = vec![JSON];
    all.extend(headers);
    let page = console.send("POST", path, &all, body.as_bytes());
    (page.status, serde_json::from_slice(&page.bytes).unwrap_or(Value::Null))
}

fn command(console: &Console, words: &Value) -> (u16, Value) {
    asked(console, "/api/v1/command", &[], &words.to_string())
}

#[test]
fn commands_go_and_replies_come_as_json() {
    let console = Console::start(&[]);
    assert_eq!(command(&console, &json!(["PING"])), (200, json!({"result": "PONG"})));
    let added = command(&console, &json!(["DELAY.ADD", "q", 0, "b\u{e9}", "ID", "a"]));
    assert_eq!(added, (200, json!({"result": "a"})));
    let (status, job) =
        command(&console, &json!(["DELAY.RESERVE", "NOWAIT", 1, "q", "LEASE", "60s"]));
    let token = job["result"][0][3].clone();
    assert_eq!(status, 200);
    assert!(token.is_string(), "a token is greater than numbers of JSON are: {job}");
    assert_eq!(job["result"][0][2], "b\u{e9}");
    let acked = command(&console, &json!(["DELAY.ACK", "q", "a", token]));
    assert_eq!(acked, (200, json!({"result": 1})));
    let (status, stats) = command(&console, &json!(["DELAY.STATS", "q"]));
    assert_eq!((status, &stats["result"]["acked"]), (200, &json!(1)));
    let (status, error) = command(&console, &json!(["NOSUCH"]));
    assert!(status == 400 && error["error"].as_str().unwrap().starts_with("ERR"), "{error}");

    let several = json!([["DELAY.ADD", "p", 0, "x"], ["NOSUCH"], ["DELAY.LEN", "p"]]).to_string();
    let (status, replies) = asked(&console, "/api/v1/pipeline", &[], &several);
    assert_eq!((status, replies.as_array().map(Vec::len)), (200, Some(3)));
    assert!(replies[1]["error"].is_string() && replies[2] == json!({"result": 1}), "{replies}");
    let (status, none) = asked(&console, "/api/v1/multi-exec", &[], &several);
    assert!(status == 400 && none["error"].as_str().unwrap().starts_with("EXECABORT"), "{none}");
    let all = json!([["DELAY.ADD", "p", 0, "x"], ["DELAY.LEN", "p"]]).to_string();
    let (_, replies) = asked(&console, "/api/v1/multi-exec", &[], &all);
    assert_eq!(replies[1], json!({"result": 2}), "the one that was refused added nothing");

    let base64 = [("Upstash-Encoding", "base64")];
    let echo = json!(["ECHO", "b\u{e9}"]).to_string();
    let (_, coded) = asked(&console, "/api/v1/command", &base64, &echo);
    assert_eq!(coded, json!({"result": "YsOp"}));
    let (_, coded) = asked(&console, "/api/v1/command", &base64, r#"["SELECT","0"]"#);
    assert_eq!(coded, json!({"result": "OK"}));
}

/// A reader's 200 GETs of one large body were 6 KB of request and 7 GB of memory.
#[test]
fn replies_of_one_request_are_bounded() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let body = "x".repeat(900 << 10);
    wire.ask(&format!("DELAY.ADD q 0 {body} ID a"));
    let few = json!(vec![json!(["DELAY.GET", "q", "a"]); 3]).to_string();
    let (status, replies) = asked(&console, "/api/v1/pipeline", &[], &few);
    assert_eq!(
        (status, replies[2]["result"]["body"].as_str().map(str::len)),
        (200, Some(900 << 10))
    );
    let many = json!(vec![json!(["DELAY.GET", "q", "a"]); 200]).to_string();
    let (status, some) = asked(&console, "/api/v1/pipeline", &[], &many);
    let some = some.as_array().expect("as many as commands");
    let fit = some.iter().take_while(|reply| reply["result"].is_object()).count();
    assert_eq!((status, some.len()), (200, 200));
    assert!((70..=72).contains(&fit), "{fit} of 900 KiB are in 64 MiB");
    let is_refused = |reply: &Value| reply["error"].as_str().unwrap().starts_with("TOOLARGE ");
    assert!(some[fit..].iter().all(is_refused), "the rest is refused");
    assert_eq!(command(&console, &json!(["DELAY.LEN", "q"])), (200, json!({"result": 1})));
}

/// One GET of 3.5 MB took 33 MB: its reply as values, as text, and as JSON with six bytes for each control character.
#[test]
fn an_answer_takes_little_more_memory_than_its_replies() {
    const BODY: usize = 8 << 20;
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let body: Vec<u8> = (0..BODY).map(|at| at as u8).collect();
    wire.call(&[b"DELAY.ADD", b"q", b"1h", &body, b"ID", b"a"]);
    let jobs = 50_000;
    for _ in 0..jobs {
        wire.push(&[b"DELAY.ADD", b"small", b"1h", b"x"]);
    }
    wire.flush().unwrap();
    (0..jobs).for_each(|_| drop(wire.read().unwrap()));
    let get = json!([["DELAY.GET", "q", "a"]]).to_string();
    let peek = json!(vec![json!(["DELAY.PEEK", "small", "COUNT", 10_000]); 20]).to_string();
    for (asked_for, bytes) in [(get, BODY), (peek, 20 * 10_000 * 40)] {
        let pid = console.program.pid();
        let memory = |field: &str| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
        };
        // The peak begins anew.
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        let before = memory("VmRSS:");
        let (status, replies) = asked(&console, "/api/v1/pipeline", &[], &asked_for);
        assert_eq!(status, 200);
        let first = &replies[0]["result"];
        match first["body"].as_str() {
            Some(text) => assert_eq!(text, String::from_utf8_lossy(&body)),
            None => assert_eq!(first.as_array().map(Vec::len), Some(10_000)),
        }
        let took = memory("VmHWM:").saturating_sub(before);
        assert!(took < 4 * bytes, "{} KiB for {} KiB of replies", took >> 10, bytes >> 10);
    }
}

/// Unread replies count under `max-clients-memory`; answers over HTTP were bounded by the machine's memory alone.
#[test]
fn answers_fit_into_max_clients_memory() {
    let console = Console::start(&["--max-clients-memory", "8mb"]);
    let mut wire = console.program.connect();
    let body = vec![b'x'; 1_500_000];
    for id in [&b"a"[..], b"b", b"c", b"d"] {
        wire.call(&[b"DELAY.ADD", b"q", b"0", &body, b"ID", id]);
    }
    let gets: Vec<Value> = ["a", "b", "c", "d"].map(|id| json!(["DELAY.GET", "q", id])).into();
    let (status, replies) = asked(&console, "/api/v1/pipeline", &[], &json!(gets).to_string());
    let fit =
        |reply: &Value| reply["result"]["body"].as_str().is_some_and(|it| it.len() == 1_500_000);
    let replies = replies.as_array().unwrap();
    assert_eq!((status, replies.iter().filter(|reply| fit(reply)).count()), (200, 2), "of 4 MiB");
    let refused =
        |reply: &Value| reply["error"].as_str().is_some_and(|it| it.starts_with("TOOLARGE "));
    assert!(replies[2..].iter().all(refused), "{} {}", replies[2], replies[3]);
}

/// Each was told that a request has at most 1 MiB, and one that announced more was asked for all of it first.
#[test]
fn bodies_that_are_broken_or_too_long_are_told_apart() {
    let console = Console::start(&[]);
    let token = console.entry_token().unwrap();
    let send = |headers: &str, body: &str| {
        let head = format!(
            "POST /api/v1/command HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\n{headers}\r\n\r\n{body}"
        );
        let page = console.exchange(&head);
        (page.status, page.text())
    };
    let (status, text) = send("Transfer-Encoding: chunked", "zz\r\n");
    assert!(status == 400 && text.contains("malformed"), "{status} {text}");
    // Nothing of it is waited for, and nothing asked for.
    let begun = Instant::now();
    let (status, text) = send("Content-Length: 1048577\r\nExpect: 100-continue", "");
    assert!(status == 413 && text.contains("at most 1 MiB"), "{status} {text}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let long = format!("100001\r\n{}\r\n0\r\n\r\n", " ".repeat(0x10_0001));
    assert_eq!(send("Transfer-Encoding: chunked", &long).0, 413);
    assert_eq!(send("Transfer-Encoding: chunked", "8\r\n[\"PING\"]\r\n0\r\n\r\n").0, 200);
}

#[test]
fn what_does_not_fit_http_is_refused() {
    let console = Console::start(&[]);
    for words in [
        json!(["MONITOR"]),
        json!(["subscribe", "c"]),
        json!(["PSUBSCRIBE", "*"]),
        json!(["HELLO", 3]),
        json!(["AUTH", "x"]),
        json!(["QUIT"]),
        json!(["MULTI"]),
        json!(["CLIENT", "REPLY", "OFF"]),
    ] {
        let (status, error) = command(&console, &words);
        let text = error["error"].as_str().unwrap_or_default();
        assert!(status == 400 && text.contains("over HTTP"), "{words}: {error}");
    }
    for wrong in ["", "{}", "[]", "PING", "[[\"PING\"]]", "[null]"] {
        assert_eq!(asked(&console, "/api/v1/command", &[], wrong).0, 400, "{wrong}");
    }
    let many = |count: usize| json!(vec![json!(["PING"]); count]).to_string();
    assert_eq!(asked(&console, "/api/v1/pipeline", &[], &many(200)).0, 200);
    assert_eq!(asked(&console, "/api/v1/pipeline", &[], &many(201)).0, 400);
    let large = json!(["ECHO", "x".repeat(1 << 20)]).to_string();
    assert_eq!(asked(&console, "/api/v1/command", &[], &large).0, 413);
    let typed = |kind: &str| {
        let headers = [("Content-Type", kind)];
        console.send("POST", "/api/v1/command", &headers, b"[\"PING\"]").status
    };
    for kind in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"] {
        assert_eq!(typed(kind), 415, "{kind}");
    }
    assert_eq!(typed("application/json; charset=utf-8"), 200);
    for (method, path, allowed) in [
        ("GET", "/api/v1/command", "POST, OPTIONS"),
        ("GET", "/api/v1", "POST, OPTIONS"),
        ("PUT", "/api/v1/pipeline", "POST, OPTIONS"),
        ("POST", "/api/v1/events", "GET, OPTIONS"),
        ("PUT", "/queues", "GET, HEAD, POST"),
    ] {
        let page = console.send(method, path, &[JSON], b"[]");
        assert_eq!((page.status, page.header("allow")), (405, allowed), "{method} {path}");
    }
    for path in ["/api/v1/nothing", "/api/", "/api"] {
        let page = console.send("POST", path, &[JSON], b"[]");
        assert_eq!((page.status, page.header("content-type")), (404, "application/json"), "{path}");
    }
}

#[test]
fn what_is_not_the_clients_mistake_is_503_and_says_when_to_ask_again() {
    let console = Console::start(&["--maxmemory", "1mb"]);
    let large = json!(["DELAY.ADD", "q", 0, "x".repeat(800 << 10)]).to_string();
    let add = || console.send("POST", "/api/v1/command", &[JSON], large.as_bytes());
    let refused = (0..4).map(|_| add()).find(|page| page.status != 200).expect("it is full");
    assert!(refused.text().contains("OOM "), "{}", refused.text());
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    let several = format!("[{large}]");
    let page = console.send("POST", "/api/v1/multi-exec", &[JSON], several.as_bytes());
    assert_eq!((page.status, page.header("retry-after")), (503, "1"), "{}", page.text());
    // By another name the API answers in JSON, too.
    let mut stream = console.connect();
    let host = ("Host", "evil.example");
    stream.write_all(&request("POST", "/api/v1/command", &[host, JSON], b"[\"PING\"]")).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let page = Page::read(&all);
    assert_eq!((page.status, page.header("content-type")), (421, "application/json"));
    assert!(serde_json::from_slice::<Value>(&page.bytes).unwrap()["error"].is_string());
}

/// 64 clients that wait are left alone, and the next one is told.
#[test]
fn one_connection_too_many_is_answered() {
    let console = Console::start(&["--console-wait", "60s"]);
    let mut wire = console.program.connect();
    let pop = b"[\"DELAY.POP\",\"q\",0]";
    let wait = console.request("POST", "/api/v1/command", &[JSON], pop);
    let mut waiting: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = console.connect();
            stream.write_all(&wait).unwrap();
            stream
        })
        .collect();
    wire.wait_for("blocked_clients", |count| count == "64");
    let page = console.send("POST", "/api/v1/command", &[JSON], b"[\"PING\"]");
    assert_eq!((page.status, page.header("retry-after")), (503, "1"));
    assert_eq!(page.header("content-type"), "application/json");
    let page = console.send("GET", "/queues", &[], b"");
    assert_eq!((page.status, page.header("retry-after")), (503, "1"));
    assert!(page.header("content-type").starts_with("text/html"));
    for nth in 0..64 {
        wire.ask(&format!("DELAY.ADD q 0 x ID j{nth}"));
    }
    for stream in &mut waiting {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(Page::read(&all).status, 200);
    }
    assert_eq!(command(&console, &json!(["DELAY.LEN", "q"])), (200, json!({"result": 0})));
}

#[test]
fn users_log_in_with_each_request_and_never_by_cookie() {
    let console = Console::start(&["--requirepass", "sesame"]);
    let mut wire = console.program.connect();
    wire.ask("AUTH sesame");
    wire.ask("ACL SETUSER ann on >a:b ~* +@all");
    let who = |headers: &[(&str, &str)]| {
        asked(&console, "/api/v1/command", headers, r#"["ACL","WHOAMI"]"#)
    };
    let ann = who(&[("Authorization", "Basic YW5uOmE6Yg==")]);
    assert_eq!(ann, (200, json!({"result": "ann"})));
    assert_eq!(who(&[("Authorization", "Bearer ann:a:b")]), ann);
    assert_eq!(who(&[("Authorization", "Bearer sesame")]), (200, json!({"result": "default"})));
    for wrong in ["Bearer ann:x", "Basic YW5uOng="] {
        let begun = Instant::now();
        let (status, error) = who(&[("Authorization", wrong)]);
        assert!(status == 401 && error["error"].as_str().unwrap().starts_with("WRONGPASS"));
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    assert_eq!(who(&[("Authorization", "Digest x")]).0, 401);
    assert_eq!(who(&[]).0, 401, "nobody is not the default user, who has a password");
    let visitor = console.visitor("ann", "a:b");
    visitor.page("/queues");
    assert_eq!(who(&[("Cookie", &visitor.cookie)]).0, 401);
    let page = console.send("POST", "/api/v1/command", &[JSON], b"[\"PING\"]");
    assert!(page.header("www-authenticate").starts_with("Basic"));
    // Nobody stays connected, but for this one and the session; the server hears of an end a turn later.
    until("all others have left", || {
        (wire.ask("CLIENT LIST").text().lines().count() == 2).then_some(())
    });
}

#[test]
fn pages_of_other_origins_need_leave() {
    let console = Console::start(&["--console-cors", "https://ops.example.com"]);
    let ask = |method: &str, path: &str, origin: &str| {
        let headers = [JSON, ("Origin", origin)];
        console.send(method, path, &headers, b"[\"DELAY.ADD\",\"q\",\"0\",\"x\"]")
    };
    for origin in ["https://evil.example", "null", "https://ops.example.com.evil.example"] {
        for method in ["POST", "OPTIONS"] {
            let page = ask(method, "/api/v1/command", origin);
            assert_eq!((page.status, page.header("access-control-allow-origin")), (403, ""));
        }
    }
    let own = format!("http://127.0.0.1:{}", console.port);
    assert_eq!(ask("POST", "/api/v1/command", &own).status, 403, "the pages do not use it");
    let ops = "https://ops.example.com";
    let preflight = ask("OPTIONS", "/api/v1/command", ops);
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-headers").contains("authorization"));
    // What Upstash's client sends with each request, and what it does not.
    let wanted = "upstash-telemetry-runtime, upstash-telemetry-sdk, upstash-telemetry-platform, upstash-sync-token";
    let asks = format!("{wanted}, x-other");
    let headers = [("Origin", ops), ("Access-Control-Request-Headers", asks.as_str())];
    let preflight = console.send("OPTIONS", "/api/v1/pipeline", &headers, b"");
    let allowed = preflight.header("access-control-allow-headers");
    assert!(allowed.ends_with(wanted) && !allowed.contains("x-other"), "{allowed}");
    assert!(preflight.header("access-control-allow-methods").contains("POST"));
    let page = ask("POST", "/api/v1/command", ops);
    assert_eq!((page.status, page.header("access-control-allow-origin")), (200, ops));
    assert_eq!(page.header("vary"), "Origin");
    assert_eq!(page.header("access-control-allow-credentials"), "");
    // Pages are for no origin.
    assert_eq!(ask("GET", "/queues", ops).header("access-control-allow-origin"), "");
    assert_eq!(console.program.connect().ask("DELAY.LEN q").number(), 1);
}

#[test]
fn what_is_published_is_streamed() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let host = format!("127.0.0.1:{}", console.port);
    let mut stream = console.connect();
    let path = "/api/v1/events?pattern=news%3A*";
    let token = format!("Bearer {}", console.entry_token().unwrap());
    let headers = [("Host", host.as_str()), ("Authorization", &token)];
    stream.write_all(&request("GET", path, &headers, b"")).unwrap();
    wire.wait_for("pubsub_patterns", |count| count == "1");
    wire.ask("PUBLISH news:a one");
    wire.ask("PUBLISH other two");
    wire.call(&[b"PUBLISH", b"news:b", b"a\n\ndata: forged"]);
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&all).contains("forged") {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the stream ended: {}", String::from_utf8_lossy(&all));
        all.extend(&bytes[..count]);
    }
    let page = Page::read(&all);
    assert_eq!((page.status, page.header("content-type")), (200, "text/event-stream"));
    let text = page.text();
    let events: Vec<Value> = text
        .split("\n\n")
        .filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok())
        .collect();
    assert_eq!(events[0], json!({"channel": "news:a", "message": "one"}));
    assert_eq!(events[1], json!({"channel": "news:b", "message": "a\n\ndata: forged"}));
    assert_eq!(events.len(), 2);
    drop(stream);
    // The subscription goes with its reader, at the latest when something is to be told.
    until("its subscription is over", || {
        wire.ask("PUBLISH news:a again");
        (wire.field("pubsub_patterns") == "0").then_some(())
    });
    assert_eq!(console.send("GET", "/api/v1/events", &[], b"").status, 400);
}
