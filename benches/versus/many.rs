//! Many of one thing: jobs out of which random ones are cancelled or moved, queues; and what a server
//! does when there is nothing to do.

use crate::flood::{Flood, Pace};
use crate::support::{Server, now_us};
use crate::system::{System, id};
use crate::wire::{Word, request};
use std::time::Duration;

/// Farther than any bench lasts, ms.
pub const FAR_MS: u64 = 3_600_000;

/// 100 bytes.
pub const BODY: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// Spread over a day by a multiplicative hash.
pub fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 86_400_000
}

/// Adds jobs `from` to `from + count`, each due at its time of the day that begins in an hour.
pub fn add(system: System, server: &Server, from: u64, count: u64, body: &str) -> Pace {
    let far_ms = now_us() / 1_000 + FAR_MS;
    add_due(system, server, from, count, body, &|job| far_ms + spread(job))
}

/// The same, with due times of their own.
pub fn add_due(
    system: System,
    server: &Server,
    from: u64,
    count: u64,
    body: &str,
    due_ms: &dyn Fn(u64) -> u64,
) -> Pace {
    let now_ms = now_us() / 1_000;
    let flood = Flood {
        system,
        connections: 50,
        pipeline: 16,
        replies: system.add_replies(),
        count,
        write: &mut |out, number| {
            let job = from + number;
            system.add(out, job, due_ms(job), now_ms, body);
        },
        check: &mut |_| (),
    };
    flood.run(server)
}

/// Adds without ids of the client's: `DELAY.ADD` against `LPUSH` and `put`.
pub fn push(system: System, server: &Server, count: u64, body: &str) -> Pace {
    let write = |out: &mut Vec<u8>, number: u64| match system {
        System::Redis => request(out, &["LPUSH".into(), "l".into(), body.into()]),
        System::Beanstalkd => system.add(out, number, FAR_MS + spread(number), 0, body),
        System::Delayd => {
            let delay_ms = Word::Number(FAR_MS + spread(number));
            request(out, &["DELAY.ADD".into(), "q".into(), delay_ms, body.into()]);
        }
    };
    let mut write = write;
    let (connections, pipeline, replies) = (50, 16, 1);
    let check = &mut |_: &[u8]| ();
    Flood { system, connections, pipeline, replies, count, write: &mut write, check }.run(server)
}

/// Cancels `count` random ones of the jobs 0 to `held`: those from `from` on of an order in which each
/// comes once.
pub fn cancel(system: System, server: &Server, held: u64, from: u64, count: u64) -> Pace {
    let mut gone = 0;
    let write = |out: &mut Vec<u8>, number: u64| {
        let id = id(shuffled(from + number, held));
        let id = Word::Text(&id);
        match system {
            System::Redis => {
                request(out, &["ZREM".into(), "z".into(), id]);
                request(out, &["HDEL".into(), "h".into(), id]);
            }
            _ => request(out, &["DELAY.CANCEL".into(), "q".into(), id]),
        }
    };
    let mut write = write;
    let check = &mut |reply: &[u8]| gone += u64::from(!matches!(reply, b":0\r\n" | b"$-1\r\n"));
    let (connections, pipeline, replies) = (50, 16, system.add_replies());
    let pace = Flood { system, connections, pipeline, replies, count, write: &mut write, check }
        .run(server);
    assert_eq!(gone, count * replies as u64, "every job was there");
    pace
}

/// Moves `count` of the jobs 0 to `held` to other times, chosen in the same way.
pub fn reschedule(system: System, server: &Server, held: u64, from: u64, count: u64) -> Pace {
    let far_ms = now_us() / 1_000 + FAR_MS;
    let write = |out: &mut Vec<u8>, number: u64| {
        let id = id(shuffled(from + number, held));
        let (id, due_ms) = (Word::Text(&id), far_ms + spread(number ^ 0x5555_5555));
        match system {
            System::Redis => {
                let words = ["ZADD", "z", "XX", "CH"].map(Word::from);
                request(out, &[&words[..], &[due_ms.into(), id]].concat());
            }
            _ => {
                let due = format!("@{due_ms}");
                let head = ["DELAY.RESCHEDULE", "q"].map(Word::from);
                request(out, &[&head[..], &[id, due.as_str().into()]].concat());
            }
        }
    };
    let mut write = write;
    let mut moved = 0;
    let check = &mut |reply: &[u8]| moved += u64::from(reply == b":1\r\n");
    let (connections, pipeline, replies) = (50, 16, 1);
    let pace = Flood { system, connections, pipeline, replies, count, write: &mut write, check }
        .run(server);
    assert!(moved * 100 >= count * 99, "{moved} of {count} jobs were moved");
    pace
}

/// A number below `of`, another for each `number` below it: a step that shares no factor with `of`.
fn shuffled(number: u64, of: u64) -> u64 {
    let mut step = (of as f64 * 0.618) as u64 | 1;
    while gcd(step, of) > 1 {
        step += 2;
    }
    (u128::from(number) * u128::from(step) % u128::from(of)) as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The share of a core that a server uses while nobody asks it anything, per cent.
pub fn idle(server: &Server, seconds: u64) -> f64 {
    let before = server.cpu_seconds();
    std::thread::sleep(Duration::from_secs(seconds));
    (server.cpu_seconds() - before) / seconds as f64 * 100.0
}

/// One job into each of `count` queues of their own.
pub fn queues(system: System, server: &Server, count: u64, body: &str) -> Pace {
    let far_ms = now_us() / 1_000 + FAR_MS;
    let write = |out: &mut Vec<u8>, number: u64| {
        let (due_ms, id) = (far_ms + spread(number), id(number));
        let (body, id) = (body.into(), Word::Text(&id));
        match system {
            System::Redis => {
                let (dues, bodies) = (format!("z:{number}"), format!("h:{number}"));
                request(out, &["ZADD".into(), dues.as_str().into(), due_ms.into(), id]);
                request(out, &["HSET".into(), bodies.as_str().into(), id, body]);
            }
            _ => {
                let (queue, due) = (format!("q:{number}"), format!("@{due_ms}"));
                let head = ["DELAY.ADD", &queue, &due].map(Word::from);
                request(out, &[&head[..], &[body, "ID".into(), id]].concat());
            }
        }
    };
    let mut write = write;
    let (connections, pipeline, replies) = (50, 16, system.add_replies());
    let check = &mut |_: &[u8]| ();
    Flood { system, connections, pipeline, replies, count, write: &mut write, check }.run(server)
}
