//! What the server tells those who watch it: `/metrics`, `/healthz`, `/readyz`, INFO's own section, and
//! the service manager.

use crate::support::disk::Shim;
use crate::support::exposition::Exposition;
use crate::support::http::{free_port, get, page, send};
use crate::support::patience::{limit, pass, seconds};
use crate::support::program::{Folder, Program, Reply, Wire};
use delayd::limits::SCRAPE_FRESH;
use delayd::observe::metrics::families::{FAMILIES, MetricGroup};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

/// A program that tells metrics, and the port it tells them on.
fn watched(folder: &Folder, options: &[&str]) -> (Program, u16) {
    let port = free_port();
    let port_text = port.to_string();
    let mut all = vec!["--metrics-port", &port_text];
    all.extend(options);
    (Program::start(&folder.0, &all), port)
}

fn scrape(port: u16) -> Exposition {
    Exposition::read(&page(port, "/metrics"))
}

/// Id and token of a reserved job.
fn reserve(wire: &mut Wire, queue: &str) -> (String, String) {
    let reply = wire.ask(&format!("DELAY.RESERVE NOWAIT 1 {queue}"));
    let job = reply.array().expect("a job is there")[0].array().unwrap().to_vec();
    (job[1].text().to_owned(), job[3].text().to_owned())
}

/// Something of everything.
fn work(wire: &mut Wire, other: &mut Wire) {
    other.push_line("DELAY.POP mail 0");
    other.flush().unwrap();
    wire.wait_for("blocked_clients", |count| count == "1");
    wire.ask("DELAY.ADD mail 20 hello");
    assert!(other.read().unwrap().array().is_some());
    for body in ["a", "b", "c", "d"] {
        wire.ask(&format!("DELAY.ADD mail 0 {body}"));
    }
    wire.ask("DELAY.ADD mail 1h later");
    wire.call(&[b"DELAY.ADD", b"\xffdark\n\"matter\"\\", b"0", b"x"]);
    let (id, token) = reserve(wire, "mail");
    assert_eq!(wire.ask(&format!("DELAY.ACK mail {id} {token}")), Reply::Number(1));
    let (id, token) = reserve(wire, "mail");
    assert_eq!(wire.ask(&format!("DELAY.NACK mail {id} {token} BURY")), Reply::Number(1));
    reserve(wire, "mail");
    assert!(wire.ask("NOSUCH").is_error("ERR"));
}

#[test]
fn the_text_keeps_all_rules_and_its_values_are_true() {
    let folder = Folder::new("metrics");
    let (program, port) = watched(&folder, &[]);
    let (mut wire, mut other) = (program.connect(), program.connect());
    work(&mut wire, &mut other);
    let all = scrape(port);
    for (sample, value) in [
        (r#"delayd_jobs{state="delayed"}"#, 1.0),
        (r#"delayd_jobs{state="ready"}"#, 2.0),
        (r#"delayd_jobs{state="leased"}"#, 1.0),
        (r#"delayd_jobs{state="dead"}"#, 1.0),
        (r#"delayd_queues{db="0"}"#, 2.0),
        (r#"delayd_queue_jobs{db="0",queue="mail",state="ready"}"#, 1.0),
        (r#"delayd_queue_jobs{db="0",queue="\\xffdark\\x0a\"matter\"\\\\",state="ready"}"#, 1.0),
        (r#"delayd_queue_delivered_total{db="0",queue="mail"}"#, 4.0),
        (r#"delayd_queue_paused{db="0",queue="mail",side="out"}"#, 0.0),
        ("delayd_jobs_added_total", 7.0),
        ("delayd_jobs_due_total", 1.0),
        ("delayd_jobs_delivered_total", 4.0),
        ("delayd_jobs_acked_total", 1.0),
        ("delayd_jobs_died_total", 1.0),
        ("delayd_lateness_seconds_count", 1.0),
        ("delayd_lease_duration_seconds_count", 1.0),
        ("delayd_clients", 2.0),
        ("delayd_ready", 1.0),
        (r#"delayd_commands_total{command="delay.pop"}"#, 1.0),
        (r#"delayd_errors_total{class="ERR"}"#, 1.0),
        (r#"delayd_journal_state{state="ok"}"#, 1.0),
        (r#"delayd_journal_state{state="failed"}"#, 0.0),
    ] {
        assert_eq!(all.value(sample), value, "{sample}");
    }
    assert!(all.value("delayd_journal_sync_seconds_count") > 0.0);
    // In its first ms a job is 0 s old.
    let is_aged = || scrape(port).value("delayd_oldest_ready_age_seconds") > 0.0;
    assert!((0..200).any(|_| is_aged()), "the oldest ready job does not age");
    let max = all.value("delayd_lateness_last_minute_max_seconds");
    assert!(max > 0.0 && max == all.value("delayd_lateness_seconds_sum"), "{max}");
    // Only what is there after a moment: the second scrape is later, and no counter has gone down.
    wire.ask("DEL mail");
    let later = scrape(port);
    for (name, kind) in &all.families {
        let server_wide = kind == "counter" && !name.starts_with("delayd_queue_");
        if server_wide {
            assert!(later.sum(name) >= all.sum(name), "{name} went down");
        }
    }
    assert_eq!(later.value("delayd_jobs_removed_total"), 4.0);
    program.stop();
}

/// Every family of the table is there on a server that has done something of everything, those of a cluster on its
/// nodes alone (`tests/server/cluster.rs`).
#[test]
fn no_metric_of_the_table_is_missing() {
    let folder = Folder::new("metrics");
    let (program, port) = watched(&folder, &["--metrics-queues-max", "1"]);
    let (mut wire, mut other) = (program.connect(), program.connect());
    work(&mut wire, &mut other);
    let all = scrape(port);
    let here = || FAMILIES.iter().filter(|family| family.part != MetricGroup::Cluster);
    for family in here() {
        assert!(all.families.contains_key(family.name), "{}", family.name);
    }
    assert_eq!(all.families.len(), here().count());
    // The labels are those that the table names.
    for family in here() {
        let begin = format!("{}{{", family.name);
        for sample in all.samples.keys().filter(|sample| sample.starts_with(&begin)) {
            for label in family.labels.split(", ").filter(|label| !label.is_empty()) {
                assert!(sample.contains(&format!("{label}=\"")), "{sample} has no {label}");
            }
        }
    }
    program.stop();
}

#[test]
fn beyond_the_limit_queues_are_told_together() {
    let folder = Folder::new("metrics");
    let options = ["--appendonly", "no", "--metrics-queues-max", "3"];
    let (program, port) = watched(&folder, &options);
    let mut wire = program.connect();
    // More queues than a slice has.
    let queues = 150;
    for queue in 0..queues {
        for _ in 0..=queue {
            wire.push_line(&format!("DELAY.ADD q{queue:03} 0 x"));
        }
    }
    wire.flush().unwrap();
    let jobs = queues * (queues + 1) / 2;
    (0..jobs).for_each(|_| drop(wire.read().unwrap()));
    let all = scrape(port);
    let ready = |labels: &str| all.value(&format!("delayd_queue_jobs{{{labels},state=\"ready\"}}"));
    for queue in [149, 148, 147] {
        assert_eq!(ready(&format!("db=\"0\",queue=\"q{queue}\"")), f64::from(queue + 1));
    }
    assert_eq!(ready(r#"db="",queue="""#), f64::from(jobs - 150 - 149 - 148));
    assert_eq!(all.sum("delayd_queue_jobs{"), f64::from(jobs));
    assert_eq!(all.value("delayd_queues_unlisted"), f64::from(queues - 3));
    // While the server runs.
    assert_eq!(wire.ask("CONFIG SET metrics-queues-max 0"), Reply::Simple("OK".to_owned()));
    let all = scrape(port);
    assert_eq!(all.value("delayd_queues_unlisted"), f64::from(queues));
    program.stop();
}

#[test]
fn who_asks_for_open_metrics_gets_it() {
    let folder = Folder::new("metrics");
    let (program, port) = watched(&folder, &["--appendonly", "no"]);
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
    let answer = send(port, request.as_bytes());
    assert!(answer.head.contains("application/openmetrics-text; version=1.0.0"), "{}", answer.head);
    assert!(answer.body.ends_with("# EOF\n"));
    assert!(answer.body.contains("# TYPE delayd_jobs_added counter\ndelayd_jobs_added_total 0\n"));
    assert!(!answer.body.contains("# TYPE delayd_jobs_added_total"));
    program.stop();
}

#[test]
fn http_is_bounded() {
    let folder = Folder::new("metrics");
    let (program, port) = watched(&folder, &["--appendonly", "no"]);
    let refused = send(port, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert!(refused.status == 405 && refused.head.to_lowercase().contains("allow: get, head"));
    assert_eq!(get(port, "/nothing").status, 404);
    assert!(page(port, "/").contains("/readyz"));
    let head = send(port, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.status == 200 && head.body.is_empty(), "{head:?}");
    assert!(head.head.contains("text/plain; version=0.0.4"), "{head:?}");
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(matches!(send(port, long.as_bytes()).status, 400..500 | 0));
    assert_ne!(send(port, b"\x16\x03\x01 no HTTP\r\n\r\n").status, 200);
    program.stop();
}

/// Some say nothing, some half of a request, some ask for much and do not read it, some come again and again: the
/// 65th was closed at once, and with it every probe.
#[test]
fn probes_are_answered_beside_a_thousand_slow_connections() {
    let folder = Folder::new("metrics");
    let (program, port) =
        watched(&folder, &["--appendonly", "no", "--metrics-queues-max", "10000"]);
    let mut wire = program.connect();
    // A long text, which those who do not read hold up.
    for queue in 0..5_000 {
        wire.push_line(&format!("DELAY.ADD {:060} 1h x", queue));
    }
    wire.flush().unwrap();
    (0..5_000).for_each(|_| drop(wire.read().unwrap()));
    let says = ["", "GET /heal", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"];
    let mut slow = Vec::new();
    let mut took = Vec::new();
    for i in 0..1_000 {
        let mut stream = crate::support::http::connect(port);
        let _ = stream.write_all(says[i % 3].as_bytes());
        slow.push(stream);
        if i % 50 == 49 {
            for (path, body) in [("/healthz", "ok: serving\n"), ("/readyz", "ready\n")] {
                let start = Instant::now();
                assert_eq!(page(port, path), body);
                took.push(start.elapsed());
            }
        }
    }
    took.sort();
    // One that waits for a place waits until the head of another is late, 5 s. Load may hold up one in four.
    assert!(took[took.len() * 3 / 4] < seconds(2), "{took:?}");
    drop(slow);
    // A scrape, too, once they are gone.
    let start = Instant::now();
    while get(port, "/metrics").status != 200 {
        assert!(start.elapsed() < limit());
    }
    program.stop();
}

#[test]
fn a_failed_journal_is_alive_and_not_ready() {
    let Some(shim) = Shim::build() else { return };
    let (folder, port) = (Folder::new("metrics"), free_port());
    let program = shim.start(&folder.0, &["--metrics-port", &port.to_string()]);
    let mut wire = program.connect();
    assert_eq!(page(port, "/readyz"), "ready\n");
    shim.set("sync");
    assert!(wire.ask("DELAY.ADD q 0 x").is_error("MISCONF"));
    assert_eq!(wire.field("journal_state"), "failed");
    let ready = get(port, "/readyz");
    assert!(ready.status == 503 && ready.body.contains("the journal failed"), "{ready:?}");
    assert!(page(port, "/healthz").contains("the journal failed"));
    let all = scrape(port);
    assert_eq!(all.value(r#"delayd_journal_state{state="failed"}"#), 1.0);
    assert_eq!(all.value("delayd_ready"), 0.0);
    program.kill();
}

/// The disk hangs: whoever asks how the server is does not wait for it.
#[test]
fn a_sync_that_hangs_holds_no_probe_up() {
    let Some(shim) = Shim::build() else { return };
    let (folder, port) = (Folder::new("metrics"), free_port());
    let program = shim.start(&folder.0, &["--metrics-port", &port.to_string()]);
    let mut wire = program.connect();
    shim.set("stuck");
    wire.push_line("DELAY.ADD q 0 x");
    wire.flush().unwrap();
    let start = Instant::now();
    while shim.count("hangs") == 0 {
        assert!(start.elapsed() < limit(), "no sync was tried");
        std::thread::yield_now();
    }
    assert_eq!(page(port, "/healthz"), "ok: serving\n");
    assert_eq!(page(port, "/readyz"), "ready\n");
    let all = scrape(port);
    assert!(all.value("delayd_journal_unsynced_bytes") > 0.0);
    shim.clear("stuck");
    assert!(matches!(wire.read().unwrap(), Reply::Bulk(_)));
    wire.wait_for("journal_unsynced_bytes", |bytes| bytes == "0");
    program.stop();
}

/// Next message, as lines.
fn heard(socket: &UnixDatagram) -> Vec<String> {
    let mut bytes = [0; 4096];
    let count = socket.recv(&mut bytes).expect("the service manager hears something");
    let text = std::str::from_utf8(&bytes[..count]).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_service_manager_hears_of_readiness_life_and_stopping() {
    let folder = Folder::new("notify");
    let path = folder.0.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(limit())).unwrap();
    let mut command = Program::command(&folder.0, &[]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000");
    let program = Program::start_as(command);
    let begun = Instant::now();
    let has = |lines: &[String], line: &str| lines.iter().any(|other| other == line);
    let (mut ready, mut alive) = (false, 0);
    while !ready || alive < 3 {
        let lines = heard(&socket);
        if has(&lines, "READY=1") {
            assert!(!ready, "it is ready once");
            assert!(has(&lines, "STATUS=serving"), "{lines:?}");
            ready = true;
        }
        alive += u32::from(has(&lines, "WATCHDOG=1"));
    }
    // Nobody asks anything of it meanwhile, and it lives all the same.
    assert!(begun.elapsed().as_millis() > 1_500, "{:?}", begun.elapsed());
    assert_eq!(program.connect().field("process_supervised"), "systemd");
    program.terminate();
    while !has(&heard(&socket), "STOPPING=1") {}
    assert!(program.ended().0.success());
}

#[test]
fn info_tells_how_late_jobs_are_and_what_is_oldest() {
    let folder = Folder::new("metrics");
    let program = Program::start(&folder.0, &[]);
    let (mut wire, mut other) = (program.connect(), program.connect());
    work(&mut wire, &mut other);
    let max = wire.number("lateness_minute_max_us");
    assert!(max > 0 && max == wire.number("lateness_max_us"), "{max}");
    assert!(wire.number("oldest_ready_age_ms") < limit().as_millis() as u64);
    for (field, value) in [("total_added", 7), ("total_due", 1), ("total_acked", 1)] {
        assert_eq!(wire.number(field), value, "{field}");
    }
    other.push_line("DELAY.POP nothing 30");
    other.flush().unwrap();
    wire.wait_for("total_blocking_keys", |count| count == "1");
    assert_eq!(wire.number("clients_in_timeout_table"), 1);
    wire.ask("CLIENT UNBLOCK 2");
    assert!(wire.number("journal_last_sync_time") * 1_000 <= crate::support::program::wall_ms());
    wire.wait_for("journal_unsynced_bytes", |bytes| bytes == "0");
    // With more queues than are looked at when somebody asks, a walk goes round.
    for queue in 0..1_500 {
        wire.push_line(&format!("DELAY.ADD walk:{queue} 0 x"));
    }
    wire.flush().unwrap();
    (0..1_500).for_each(|_| drop(wire.read().unwrap()));
    wire.ask("DEL mail");
    wire.wait_for("oldest_ready_age_ms", |age| age.parse::<u64>().unwrap() > 0);
    program.stop();
}

/// 13 MB of text for each who asks, and nobody reads: 64 of them held 766 MiB for half a minute.
#[test]
fn scrapers_that_do_not_read_hold_one_text_together() {
    let folder = Folder::new("unread");
    let (program, port) = watched(&folder, &["--appendonly", "no"]);
    let mut wire = program.connect();
    for number in 0..1_000 {
        wire.push_line(&format!("DELAY.ADD {number:0>512} 1h x"));
    }
    wire.flush().unwrap();
    (0..1_000).for_each(|_| assert!(matches!(wire.read().unwrap(), Reply::Bulk(_))));
    let before = wire.number("used_memory_rss");
    let mut unread = Vec::new();
    for _ in 0..4 {
        for _ in 0..15 {
            let mut stream = crate::support::http::connect(port);
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            unread.push(stream);
        }
        assert_eq!(get(port, "/healthz").status, 200);
        // The next ones do not share the text of these.
        pass(SCRAPE_FRESH * 2);
    }
    let held = wire.number("used_memory_rss").saturating_sub(before);
    assert!(held <= 80 << 20, "{held} bytes are held for scrapers");
    drop(unread);
    let began = Instant::now();
    while get(port, "/metrics").status != 200 {
        assert!(began.elapsed() < limit(), "nobody gets metrics any more");
    }
    program.stop();
}
