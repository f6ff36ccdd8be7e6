//! Lateness: when jobs arrive, against when they were due, at the consumer.
//!
//! A producer adds jobs about a second ahead of their time, `rate` falling due each second. delayd's
//! consumer is blocked in `DELAY.RESERVE`; Redis's asks by script every so many ms. Lateness is
//! receipt less due time: the server's timer and work, the loopback and the client's wake-up.

use crate::flood::Flood;
use crate::many;
use crate::support::{Server, now_us};
use crate::system::System;
use crate::wire::{Value, Wire, Word, bulks, number, request, values};
use rustix::event::{PollFd, PollFlags, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How jobs are awaited.
#[derive(Clone, Copy, Debug)]
pub struct Punctual {
    pub system: System,
    /// Jobs that fall due each second.
    pub rate: u64,
    /// For so long.
    pub seconds: u64,
    /// How often a consumer asks that has to; ms.
    pub poll_ms: u64,
    /// Jobs that a consumer of delayd takes at once.
    pub batch: u64,
    /// Whether somebody else adds far-off jobs at full speed all the while.
    pub is_busy: bool,
    /// Jobs that are due after the run, but within the 65.5 s of which the second half of it is a part:
    /// a timing wheel keeps them together until these begin.
    pub crowd: u64,
}

/// A slot of the third level of a wheel with 256 slots a level, ms.
const SLOT_MS: u64 = 65_536;

/// Lateness, ms.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    /// The server's CPU time a job, µs.
    pub cpu_us: f64,
}

impl Punctual {
    /// delayd with a consumer that takes 100 at once, for 4 s, with nothing beside.
    pub const DELAYD: Punctual = Punctual {
        system: System::Delayd,
        rate: 10_000,
        seconds: 4,
        poll_ms: 0,
        batch: 100,
        is_busy: false,
        crowd: 0,
    };

    pub fn run(self, server: &Server) -> Late {
        self.system.prepare(server);
        let total = self.rate * self.seconds;
        let first_ms = self.gather(server);
        let cpu = server.cpu_seconds();
        let stop = AtomicBool::new(false);
        let mut late = std::thread::scope(|scope| {
            let producer = self.system.connect(server);
            let consumer = self.system.connect(server);
            if self.is_busy {
                scope.spawn(|| self.keep_busy(server, &stop));
            }
            scope.spawn(move || self.produce(producer, first_ms, total));
            let late = self.consume(consumer, first_ms, total);
            stop.store(true, Ordering::Relaxed);
            late
        });
        let cpu_us = (server.cpu_seconds() - cpu) * 1e6 / total as f64;
        late.sort_unstable();
        let at = |permille: usize| late[(late.len() - 1) * permille / 1_000] as f64 / 1_000.0;
        assert!(late[0] >= 0, "a job came {} us early", -late[0]);
        Late { p50: at(500), p99: at(990), p999: at(999), cpu_us }
    }

    /// Adds the crowd, if there is one; returns when the first job is due, soon.
    fn gather(self, server: &Server) -> u64 {
        if self.crowd == 0 {
            return now_us() / 1_000 + 1_500;
        }
        // Time to add 200,000 a second.
        let ready_ms = now_us() / 1_000 + 5_000 + self.crowd / 200;
        let half_ms = self.seconds * 500;
        let slot_ms = (ready_ms + half_ms).next_multiple_of(SLOT_MS);
        let (from_ms, span_ms) = (slot_ms + half_ms + 1_000, SLOT_MS - half_ms - 1_000);
        let due_ms = |job| from_ms + many::spread(job) % span_ms;
        many::add_due(self.system, server, 1 << 40, self.crowd, "x", &due_ms);
        assert!(now_us() / 1_000 < ready_ms, "the crowd is there in time");
        slot_ms - half_ms
    }

    /// Each request is a job of its own that is due long after the bench.
    fn keep_busy(self, server: &Server, stop: &AtomicBool) {
        let far_ms = now_us() / 1_000 + many::FAR_MS;
        let flood = Flood {
            system: self.system,
            connections: 50,
            pipeline: 16,
            replies: self.system.add_replies(),
            count: u64::MAX,
            write: &mut |out, job| {
                self.system.add(out, (1 << 40) + job, far_ms + many::spread(job), 0, "x");
            },
            check: &mut |_| (),
        };
        flood.run_until(server, stop);
    }

    fn produce(self, mut wire: Wire, first_ms: u64, total: u64) {
        let mut added = 0;
        while added < total {
            let horizon_ms = now_us() / 1_000 + 1_000;
            let wanted = (horizon_ms.saturating_sub(first_ms) * self.rate / 1_000).min(total);
            let to = wanted.min(added + 200);
            wire.send((to - added) as usize * self.system.add_replies(), |out| {
                for job in added..to {
                    let due_ms = self.due_ms(first_ms, job);
                    // 100 bytes that tell a consumer of any system when the job was due.
                    self.system.add(out, job, due_ms, 0, &format!("{due_ms:<100}"));
                }
            });
            wait(&mut wire, |_| ());
            added = to;
            if added == wanted {
                // A pace, not a wait for something.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// By how many µs each job was late.
    fn consume(self, mut wire: Wire, first_ms: u64, total: u64) -> Vec<i64> {
        let mut late: Vec<i64> = Vec::with_capacity(total as usize);
        let mut came = 0u64;
        let mut next = Instant::now();
        while (late.len() as u64) < total {
            if self.system == System::Redis {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                next = Instant::now() + Duration::from_millis(self.poll_ms);
            }
            loop {
                let before = late.len();
                wire.send(1, |out| self.ask(out));
                wait(&mut wire, |reply| {
                    let received_us = now_us() as i64;
                    self.dues(reply, |due_ms| {
                        late.push(received_us - due_ms * 1_000);
                        came += due_ms as u64;
                    });
                });
                // Who polls takes all there is.
                if self.system != System::Redis || late.len() == before {
                    break;
                }
            }
        }
        // As many as were added, and in sum the due times of those: none twice, none left out.
        let all: u64 = (0..total).map(|job| self.due_ms(first_ms, job)).sum();
        assert_eq!((late.len() as u64, came), (total, all), "every job comes once");
        late
    }

    fn due_ms(self, first_ms: u64, job: u64) -> u64 {
        first_ms + job * 1_000 / self.rate
    }

    fn ask(self, out: &mut Vec<u8>) {
        match self.system {
            System::Delayd => {
                let [command, wait, queues, queue, count, noack] =
                    ["DELAY.RESERVE", "20", "1", "q", "COUNT", "NOACK"].map(Word::from);
                request(out, &[command, wait, queues, queue, count, self.batch.into(), noack]);
            }
            _ => self.system.take(out, 100, now_us() / 1_000),
        }
    }

    fn dues(self, reply: &[u8], mut each: impl FnMut(i64)) {
        match self.system {
            // The second of a job's three integers.
            System::Delayd => {
                let integers = values(reply).filter_map(|value| match value {
                    Value::Integer(value) => Some(value),
                    Value::Bulk(_) => None,
                });
                integers.skip(1).step_by(3).for_each(each);
            }
            _ => {
                // The jobs of one reply were due by now; which one when stands in the bodies.
                for body in bulks(reply).skip(1).step_by(2) {
                    each(number(body.split(|byte| *byte == b' ').next().expect("a word")));
                }
            }
        }
    }
}

/// Waits for all replies that are pending.
pub fn wait(wire: &mut Wire, mut each: impl FnMut(&[u8])) {
    while wire.pending > 0 {
        if let Some(reply) = wire.reply() {
            each(reply);
            continue;
        }
        let room = if wire.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
        poll(&mut [PollFd::new(&wire.stream, PollFlags::IN | room)], None).expect("poll");
        wire.flush();
        wire.fill();
    }
}
