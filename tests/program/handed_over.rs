//! Nothing is taken over HTTP that does not reach its client: not at the end of a wait, not by a client that is gone,
//! not by an answer that is too large.
//!
//! A poll of 10 s that got its job at 10 s was told 504, and the job was gone: 3 of 280. What was popped for answers of
//! more than 64 MiB was gone as well, and what was reserved for them died of its attempts without a consumer.

use crate::support::browser::{Console, Page, exchange};
use crate::support::patience::{limit, pass, seconds};
use crate::support::program::{Reply, Wire, seed};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(1);
/// Clients that wait at a time, half of them with POP and half with RESERVE, and those among them that vanish.
const WAITING: usize = 40;
const VANISHING: usize = 8;

fn body_of(console: &Console, path: &str, body: &Value) -> Vec<u8> {
    let json = [("Content-Type", "application/json")];
    console.request("POST", path, &json, body.to_string().as_bytes())
}

fn asked(console: &Console, path: &str, body: &Value) -> (Page, Value) {
    let page = exchange(console.connect(), &body_of(console, path, body));
    let json = serde_json::from_slice(&page.bytes).unwrap_or(Value::Null);
    (page, json)
}

/// What became of the jobs, by id.
#[derive(Default)]
struct Seen {
    /// How often each was popped.
    popped: BTreeMap<String, u32>,
    /// How often each was reserved.
    reserved: BTreeMap<String, u32>,
    /// Answers without a job, by status.
    without: BTreeMap<u16, u32>,
}

impl Seen {
    fn note(&mut self, status: u16, result: &Value) {
        let mut found = false;
        let (popped, reserved) = match result {
            // One popped job: queue, id, body. Reserved ones are arrays of more.
            Value::Array(all) if all.first().is_some_and(Value::is_string) => {
                (vec![result], vec![])
            }
            Value::Array(all) => (vec![], all.iter().collect()),
            _ => (vec![], vec![]),
        };
        for (jobs, seen) in [(popped, &mut self.popped), (reserved, &mut self.reserved)] {
            for job in jobs {
                *seen.entry(job[1].as_str().expect("an id").to_owned()).or_default() += 1;
                found = true;
            }
        }
        if !found {
            *self.without.entry(status).or_default() += 1;
        }
    }

    /// Each job was handed over once, or is there as if nothing had been.
    fn check(&self, wire: &mut Wire, ids: &[(String, String)]) -> usize {
        let mut there = 0;
        for (queue, id) in ids {
            let popped = self.popped.get(id).copied().unwrap_or(0);
            let reserved = self.reserved.get(id).copied().unwrap_or(0);
            assert!(popped + reserved <= 1, "{id} was handed over {popped} + {reserved} times");
            let job = wire.ask(&format!("DELAY.GET {queue} {id}"));
            let field = |name: &str| {
                let fields = job.array()?;
                let at = fields.iter().step_by(2).position(|field| field.text() == name)?;
                Some(fields[2 * at + 1].clone())
            };
            let state = field("state").map(|state| state.text().to_owned());
            let deliveries = field("deliveries").map(|count| count.number());
            let wanted = match (popped, reserved) {
                (1, _) => (None, None),
                (_, 1) => (Some("leased"), Some(1)),
                _ => (Some("ready"), Some(0)),
            };
            assert_eq!((state.as_deref(), deliveries), wanted, "{queue} {id}");
            there += usize::from(popped + reserved == 0);
        }
        let all = self.popped.len() + self.reserved.len();
        assert_eq!(all + there, ids.len(), "something was handed over that was not added");
        there
    }
}

/// Waits until `count` clients wait for jobs.
fn until_waiting(wire: &mut Wire, count: usize) {
    wire.wait_for("blocked_clients", |now| now == count.to_string());
}

fn waiting(queue: &str, nth: usize) -> Value {
    match nth % 2 {
        0 => json!(["DELAY.POP", queue, "0"]),
        _ => json!(["DELAY.RESERVE", "30", "1", queue, "LEASE", "1h"]),
    }
}

/// One round, on a queue of its own: clients wait, some vanish, and as many jobs come around the end of the waits.
fn round(console: &Console, rng: &mut SmallRng, seen: &mut Seen, ids: &mut Vec<(String, String)>) {
    let queue = format!("q{}", ids.len());
    let mut wire = console.program.connect();
    // First in line, and gone before a job comes.
    let mut vanishing: Vec<TcpStream> = (0..VANISHING)
        .map(|nth| {
            let mut stream = console.connect();
            stream.write_all(&body_of(console, "/api/v1/command", &waiting(&queue, nth))).unwrap();
            stream
        })
        .collect();
    until_waiting(&mut wire, VANISHING);
    let begun = Barrier::new(WAITING + 1);
    std::thread::scope(|scope| {
        let client = |nth: usize| {
            let (begun, queue) = (&begun, &queue);
            scope.spawn(move || {
                let stream = console.connect();
                begun.wait();
                exchange(stream, &body_of(console, "/api/v1/command", &waiting(queue, nth)))
            })
        };
        let clients: Vec<_> = (0..WAITING).map(client).collect();
        begun.wait();
        let end = Instant::now() + WAIT;
        let mut instants: Vec<i64> =
            (0..WAITING).map(|_| rng.random_range(-100_000..100_000)).collect();
        instants.sort_unstable();
        for us in instants {
            let at = if us < 0 {
                end - Duration::from_micros(us.unsigned_abs())
            } else {
                end + Duration::from_micros(us as u64)
            };
            pass(at.saturating_duration_since(Instant::now()));
            // At the instant at which the first job comes, which is for one of them.
            vanishing.clear();
            let id = format!("j{}", ids.len());
            wire.ask(&format!("DELAY.ADD {queue} 0 x ID {id} ATTEMPTS 1"));
            ids.push((queue.clone(), id));
        }
        for client in clients {
            let page = client.join().unwrap();
            let json: Value = serde_json::from_slice(&page.bytes).expect("JSON");
            seen.note(page.status, &json["result"]);
        }
    });
    until_waiting(&mut wire, 0);
}

/// `DELAYD_HANDED_JOBS=2000` runs as many; a few else.
#[test]
fn jobs_around_the_end_of_a_wait_are_handed_over_or_still_there() {
    let jobs = std::env::var("DELAYD_HANDED_JOBS").map_or(160, |text| text.parse().unwrap());
    let console = Console::start(&["--console-wait", "1s"]);
    let mut rng = SmallRng::seed_from_u64(seed());
    let (mut seen, mut ids) = (Seen::default(), Vec::new());
    while ids.len() < jobs {
        round(&console, &mut rng, &mut seen, &mut ids);
    }
    let mut wire = console.program.connect();
    let there = seen.check(&mut wire, &ids);
    let (popped, reserved) = (seen.popped.len(), seen.reserved.len());
    println!(
        "{} added = {popped} popped + {reserved} reserved + {there} still there; without a job {:?}",
        ids.len(),
        seen.without
    );
    // Each client was answered, in time: by a job or by null.
    assert_eq!(seen.without.keys().copied().filter(|status| *status != 200).count(), 0);
    assert!(popped > 0 && reserved > 0 && there > 0, "nothing was tested");
}

/// Clients ask for more than is handed on at a time, one alone and eight at once: each command is answered, or not
/// begun.
#[test]
fn answers_that_are_too_large_take_nothing() {
    const JOBS: usize = 60;
    let console = Console::start(&["--maxmemory", "1gb"]);
    let mut wire = console.program.connect();
    let body = vec![b'x'; 3 << 20];
    let mut ids = Vec::new();
    for nth in 0..JOBS {
        let id = format!("j{nth}");
        let args = [&b"DELAY.ADD"[..], b"q", b"0", &body, b"ID", id.as_bytes(), b"ATTEMPTS", b"1"];
        assert_eq!(wire.call(&args), Reply::Bulk(id.clone().into_bytes()));
        ids.push(("q".to_owned(), id));
    }
    let pops = json!(vec![json!(["DELAY.POP", "q", "NOWAIT"]); 30]);
    let leases =
        json!(vec![
            json!(["DELAY.RESERVE", "NOWAIT", "1", "q", "COUNT", "100", "LEASE", "1h"]);
            30
        ]);
    let mut seen = Seen::default();
    let (page, replies) = asked(&console, "/api/v1/pipeline", &pops);
    for reply in replies.as_array().expect("a reply to each") {
        seen.note(page.status, &reply["result"]);
    }
    let last = replies[29]["error"].as_str().unwrap_or_default();
    assert!(seen.popped.len() == 21 && last.starts_with("TOOLARGE "), "{:?} {last}", seen.popped);
    let mut refused = 0;
    std::thread::scope(|scope| {
        let (console, pops, leases) = (&console, &pops, &leases);
        let client = |nth: usize| {
            scope.spawn(move || match nth % 4 {
                0 => asked(console, "/api/v1/pipeline", pops),
                1 => asked(console, "/api/v1/pipeline", leases),
                2 => asked(console, "/api/v1/multi-exec", pops),
                _ => asked(console, "/api/v1/command", &leases[0]),
            })
        };
        let clients: Vec<_> = (0..8).map(client).collect();
        for client in clients {
            let (page, json) = client.join().unwrap();
            match &json {
                Value::Array(replies) => {
                    for reply in replies {
                        refused += u32::from(reply["error"].is_string());
                        seen.note(page.status, &reply["result"]);
                    }
                }
                reply => {
                    refused += u32::from(reply["error"].is_string());
                    seen.note(page.status, &reply["result"]);
                }
            }
        }
    });
    let there = seen.check(&mut wire, &ids);
    println!(
        "{JOBS} = {} popped + {} reserved + {there} still there; {refused} refused, without a job {:?}",
        seen.popped.len(),
        seen.reserved.len(),
        seen.without
    );
    assert!(refused > 0 && !seen.reserved.is_empty());
    assert_eq!(wire.ask("DELAY.LEN q DEAD"), Reply::Number(0));
}

/// What comes behind the answer for which there was no room is not run either: ADD and ACK tell what they did.
#[test]
fn what_is_refused_for_room_has_done_nothing() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let body = vec![b'x'; 1 << 20];
    wire.call(&[b"DELAY.ADD", b"q", b"0", &body, b"ID", b"a"]);
    let mut all = vec![json!(["DELAY.ADD", "p", 0, "x"])];
    all.extend(vec![json!(["DELAY.GET", "q", "a"]); 70]);
    all.extend([json!(["DELAY.ADD", "p", 0, "x"]), json!(["DELAY.POP", "q", "NOWAIT"])]);
    let (page, replies) = asked(&console, "/api/v1/pipeline", &json!(all));
    let replies = replies.as_array().expect("as many as commands").clone();
    let is_refused =
        |reply: &Value| reply["error"].as_str().is_some_and(|text| text.starts_with("TOOLARGE "));
    let first = replies.iter().position(is_refused).expect("70 MiB are too much");
    assert_eq!((page.status, replies.len()), (200, all.len()));
    assert!((60..=64).contains(&first), "{first} fit");
    assert!(replies[first..].iter().all(is_refused), "the rest is refused");
    assert_eq!(wire.ask("DELAY.LEN p"), Reply::Number(1));
    assert_eq!(wire.ask("DELAY.LEN q READY"), Reply::Number(1));
    let all = json!(vec![json!(["DELAY.GET", "q", "a"]); 70]);
    let (page, error) = asked(&console, "/api/v1/multi-exec", &all);
    let text = error["error"].as_str().unwrap();
    assert!(page.status == 400 && text.starts_with("EXECABORT"), "{text}");
}

/// Jobs whose client is gone are back at once where they were, also in the middle of a pipeline.
#[test]
fn a_client_that_vanishes_leaves_its_job_at_its_old_place() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    for (path, body) in [
        ("/api/v1/command", json!(["DELAY.POP", "q", "0"])),
        ("/api/v1/command", json!(["DELAY.RESERVE", "0", "1", "q"])),
        ("/api/v1/command", json!(["BLPOP", "q", "0"])),
        ("/api/v1/pipeline", json!([["DELAY.POP", "p", "NOWAIT"], ["DELAY.POP", "q", "0"]])),
    ] {
        wire.ask("FLUSHALL");
        wire.ask("DELAY.ADD p 0 x ID first");
        wire.ask("DELAY.ADD p 0 x ID second");
        let mut stream = console.connect();
        stream.write_all(&body_of(&console, path, &body)).unwrap();
        until_waiting(&mut wire, 1);
        drop(stream);
        wire.ask("DELAY.ADD q 0 x ID a ATTEMPTS 1");
        wire.ask("DELAY.ADD q 0 x ID b");
        until_waiting(&mut wire, 0);
        let ids = |wire: &mut Wire, queue: &str| -> Vec<String> {
            let peeked = wire.ask(&format!("DELAY.PEEK {queue} READY COUNT 10"));
            let jobs = peeked.array().unwrap().iter();
            jobs.map(|job| job.array().unwrap()[0].text().to_owned()).collect()
        };
        let begun = Instant::now();
        while (ids(&mut wire, "q").len(), ids(&mut wire, "p").len()) != (2, 2) {
            assert!(begun.elapsed() < limit(), "{body}: it stays away");
        }
        assert_eq!(ids(&mut wire, "q"), ["a", "b"], "{body}");
        assert_eq!(ids(&mut wire, "p"), ["first", "second"], "{body}");
    }
}

#[test]
fn a_wait_ends_with_null_at_the_limit_whatever_it_asks_for() {
    let console = Console::start(&["--console-wait", "1s"]);
    let mut wire = console.program.connect();
    for words in [
        json!(["DELAY.POP", "q", "0"]),
        json!(["DELAY.RESERVE", "10", "1", "q"]),
        json!(["BLPOP", "q", "2"]),
        json!(["BRPOP", "q", "0"]),
        json!(["BLMPOP", "0", "1", "q", "LEFT"]),
        json!(["BLMOVE", "q", "p", "LEFT", "RIGHT", "0"]),
        json!(["BRPOPLPUSH", "q", "p", "0"]),
    ] {
        let begun = Instant::now();
        let (page, answer) = asked(&console, "/api/v1/command", &words);
        assert_eq!((page.status, answer), (200, json!({"result": null})), "{words}");
        assert!(begun.elapsed() >= WAIT, "{words}: {:?}", begun.elapsed());
    }
    // All waits of a request together, and a shorter one is as long as it says.
    let begun = Instant::now();
    let three = json!(vec![json!(["DELAY.POP", "q", "0"]); 3]);
    let (_, answers) = asked(&console, "/api/v1/pipeline", &three);
    assert_eq!(answers, json!(vec![json!({"result": null}); 3]));
    let short = json!([
        ["DELAY.POP", "q", "0.1"],
        ["DELAY.ADD", "q", 0, "x", "ID", "a"],
        ["DELAY.POP", "q", "0"]
    ]);
    let (_, answers) = asked(&console, "/api/v1/pipeline", &short);
    assert_eq!(answers[2]["result"], json!(["q", "a", "x"]));
    assert!(begun.elapsed() < seconds(20), "{:?}", begun.elapsed());
    // A lease that would be over when it arrives.
    wire.ask("DELAY.ADD q 0 x ID b");
    let bound = json!(["DELAY.RESERVE", "NOWAIT", "1", "q", "BOUND"]);
    let (page, error) = asked(&console, "/api/v1/command", &bound);
    assert!(page.status == 400 && error["error"].as_str().unwrap().contains("BOUND"), "{error}");
    let (page, error) = asked(&console, "/api/v1/multi-exec", &json!([bound]));
    assert!(page.status == 400 && error["error"].as_str().unwrap().contains("BOUND"), "{error}");
    assert_eq!(wire.ask("DELAY.LEN q READY"), Reply::Number(1));
}

/// 20 bodies were asked for at once, and more than 64 MiB of them ended the export and the session.
#[test]
fn an_export_has_every_job_however_large_they_are() {
    let console = Console::start(&[]);
    let mut wire = console.program.connect();
    let body = vec![b'x'; 15 << 20];
    for id in 0..5 {
        wire.call(&[b"DELAY.ADD", b"q", b"1h", &body, b"ID", format!("j{id}").as_bytes()]);
    }
    let visitor = console.guest();
    let page = visitor.get("/export?queue=q");
    assert_eq!(page.status, 200);
    let lines = page.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let bodies = lines.map(|line| {
        let job: Value = serde_json::from_slice(line).expect("a line of JSON");
        job["body"].as_str().map_or(0, str::len)
    });
    assert_eq!(bodies.collect::<Vec<_>>(), [15 << 20; 5]);
    visitor.page("/queues");
}
