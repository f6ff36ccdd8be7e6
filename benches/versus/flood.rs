//! Requests at full speed: each connection has a batch in flight, and sends the next when all of it
//! was answered. The requests are written before the clock starts.

use crate::poller::Poller;
use crate::support::Server;
use crate::system::System;
use crate::wire::Wire;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requests that are written ahead at a time, bytes.
const AHEAD: usize = 128 << 20;

/// The same where it is not known how many there will be: a fraction of a second.
const AHEAD_ENDLESS: usize = 4 << 20;

/// What is sent.
pub struct Flood<'a> {
    pub system: System,
    pub connections: usize,
    /// Requests that a connection has in flight.
    pub pipeline: usize,
    /// Replies to each.
    pub replies: usize,
    /// How many requests in all.
    pub count: u64,
    /// Writes the request of this number.
    pub write: &'a mut dyn FnMut(&mut Vec<u8>, u64),
    /// Sees every reply.
    pub check: &'a mut dyn FnMut(&[u8]),
}

/// How it went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Requests a second.
    pub rate: f64,
    /// The server's CPU time a request, µs.
    pub cpu_us: f64,
}

impl Pace {
    /// Of `count` requests.
    pub fn of(count: u64, took: Duration, cpu_seconds: f64) -> Pace {
        let count = count as f64;
        Pace { rate: count / took.as_secs_f64(), cpu_us: cpu_seconds * 1e6 / count }
    }
}

/// Requests that stand there, and where each batch ends, with the number of its replies.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    batches: Vec<(usize, usize)>,
}

impl Flood<'_> {
    pub fn run(self, server: &Server) -> Pace {
        self.run_until(server, &AtomicBool::new(false))
    }

    /// Ends before if `stop` says so, at the end of what was written ahead.
    pub fn run_until(self, server: &Server, stop: &AtomicBool) -> Pace {
        self.run_at(server, 0, stop)
    }

    /// The same with the partition of this number.
    pub fn run_at(mut self, server: &Server, partition: u16, stop: &AtomicBool) -> Pace {
        let connect = |_| Wire::connect(server.port + partition, self.system.protocol());
        let mut wires: Vec<Wire> = (0..self.connections).map(connect).collect();
        let (mut cpu, mut took) = (0.0, Duration::ZERO);
        let mut ahead = Ahead::default();
        let mut written = 0;
        while written < self.count && !stop.load(Ordering::Relaxed) {
            written = self.write_ahead(&mut ahead, written);
            let (cpu_before, began) = (server.cpu_seconds(), Instant::now());
            self.send(&mut wires, &ahead);
            took += began.elapsed();
            cpu += server.cpu_seconds() - cpu_before;
        }
        Pace::of(written, took, cpu)
    }

    fn write_ahead(&mut self, ahead: &mut Ahead, mut written: u64) -> u64 {
        ahead.bytes.clear();
        ahead.batches.clear();
        let most = if self.count == u64::MAX { AHEAD_ENDLESS } else { AHEAD };
        while written < self.count && ahead.bytes.len() < most {
            let batch = (self.pipeline as u64).min(self.count - written);
            (written..written + batch).for_each(|number| (self.write)(&mut ahead.bytes, number));
            ahead.batches.push((ahead.bytes.len(), batch as usize * self.replies));
            written += batch;
        }
        written
    }

    fn send(&mut self, wires: &mut [Wire], ahead: &Ahead) {
        let mut poller = Poller::new(wires);
        let (mut from, mut next) = (0, ahead.batches.iter());
        let mut busy = 0;
        let mut send_next = |wire: &mut Wire| match next.next() {
            Some((to, replies)) => {
                wire.send_bytes(*replies, &ahead.bytes[from..*to]);
                from = *to;
                true
            }
            None => false,
        };
        for wire in &mut *wires {
            busy += usize::from(send_next(wire));
        }
        while busy > 0 {
            for at in poller.ready(wires, None) {
                let wire = &mut wires[at];
                wire.flush();
                wire.fill();
                while wire.pending > 0 {
                    let Some(reply) = wire.reply() else { break };
                    (self.check)(reply);
                }
                if wire.pending == 0 && !send_next(wire) {
                    busy -= 1;
                }
            }
        }
    }
}
