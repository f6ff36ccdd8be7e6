//! Whole lives: a job is added with a short delay, falls due, is taken with a lease and acknowledged, in
//! a steady state.
//!
//! Producers keep a bounded number of jobs between ADD and ACK; consumers take batches, acknowledge each
//! and take the next. Who finds nothing asks again after a ms, as a consumer that polls does; delayd's
//! ask in the same way, so that the systems do the same work.

use crate::flood::Pace;
use crate::poller::Poller;
use crate::support::{Server, now_us};
use crate::system::{System, Taken};
use crate::wire::Wire;
use std::time::{Duration, Instant};

/// How the lives are led.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub system: System,
    pub producers: usize,
    pub consumers: usize,
    /// Jobs a consumer takes and acknowledges at a time, and a producer has in flight.
    pub batch: u64,
    /// How long after its ADD a job falls due, ms.
    pub delay_ms: u64,
    /// Most jobs between ADD and ACK.
    pub alive_max: u64,
    /// Jobs to add.
    pub count: u64,
}

/// What a consumer waits for.
enum Doing {
    /// Jobs.
    Taking,
    /// The replies to its ACKs; the first one counts the jobs.
    Acking { first: bool },
    /// Nothing was due; asks again then.
    Resting(Instant),
}

struct Run<'a> {
    life: Life,
    body: &'a str,
    /// When each job that was added falls due, ms; 0 when it was delivered.
    dues_ms: Vec<u64>,
    acked: u64,
    taken: Taken,
}

impl Life {
    /// Runs all of them; panics unless every job was delivered and acknowledged exactly once, and none
    /// early.
    pub fn run(self, server: &Server) -> Pace {
        self.system.prepare(server);
        let body = "x".repeat(100);
        let dues_ms = Vec::with_capacity(self.count as usize);
        let mut run = Run { life: self, body: &body, dues_ms, acked: 0, taken: Taken::default() };
        let connect = |_| self.system.connect(server);
        let mut wires: Vec<Wire> = (0..self.producers + self.consumers).map(connect).collect();
        let mut poller = Poller::new(&wires);
        let mut doing: Vec<Doing> =
            (0..self.consumers).map(|_| Doing::Resting(Instant::now())).collect();
        let (cpu, began) = (server.cpu_seconds(), Instant::now());
        while run.acked < self.count {
            for wire in &mut wires[..self.producers] {
                run.produce(wire);
            }
            let now = Instant::now();
            for (wire, doing) in wires[self.producers..].iter_mut().zip(&mut doing) {
                run.rouse(wire, doing, now);
            }
            for at in poller.ready(&wires, Some(1)) {
                wires[at].flush();
                wires[at].fill();
                match at.checked_sub(self.producers) {
                    None => while wires[at].pending > 0 && wires[at].reply().is_some() {},
                    Some(consumer) => run.hear_consumer(&mut wires[at], &mut doing[consumer]),
                }
            }
        }
        let (took, cpu) = (began.elapsed(), server.cpu_seconds() - cpu);
        assert!(run.dues_ms.iter().all(|due_ms| *due_ms == 0), "every job was delivered");
        Pace::of(self.count, took, cpu)
    }
}

impl Run<'_> {
    fn produce(&mut self, wire: &mut Wire) {
        let Life { system, batch, delay_ms, alive_max, count, .. } = self.life;
        let added = self.dues_ms.len() as u64;
        let batch = batch.min(count - added);
        if wire.pending > 0 || batch == 0 || added - self.acked + batch > alive_max {
            return;
        }
        let now_ms = now_us() / 1_000;
        wire.send(batch as usize * system.add_replies(), |out| {
            for job in added..added + batch {
                system.add(out, job, now_ms + delay_ms, now_ms, self.body);
            }
        });
        self.dues_ms.resize((added + batch) as usize, now_ms + delay_ms);
    }

    fn rouse(&mut self, wire: &mut Wire, doing: &mut Doing, now: Instant) {
        if matches!(doing, Doing::Resting(until) if *until <= now) {
            self.take(wire, doing);
        }
    }

    fn take(&mut self, wire: &mut Wire, doing: &mut Doing) {
        let Life { system, batch, .. } = self.life;
        wire.send(1, |out| system.take(out, batch, now_us() / 1_000));
        *doing = Doing::Taking;
    }

    fn hear_consumer(&mut self, wire: &mut Wire, doing: &mut Doing) {
        let system = self.life.system;
        while wire.pending > 0 {
            let Some(reply) = wire.reply() else { return };
            match doing {
                Doing::Taking => {
                    system.taken(reply, &mut self.taken);
                    if self.taken.len() == 0 {
                        *doing = Doing::Resting(Instant::now() + Duration::from_millis(1));
                        return;
                    }
                    self.note_delivered();
                    let mut replies = 0;
                    wire.send(0, |out| replies = system.ack(out, &self.taken));
                    wire.pending += replies;
                    *doing = Doing::Acking { first: true };
                }
                Doing::Acking { first } => {
                    self.acked += system.acked(reply, std::mem::replace(first, false));
                    if wire.pending == 0 {
                        self.take(wire, doing);
                    }
                }
                Doing::Resting(_) => unreachable!("who rests has asked nothing"),
            }
        }
    }

    fn note_delivered(&mut self) {
        let now_ms = now_us() / 1_000;
        for number in &self.taken.numbers {
            let due_ms = std::mem::take(&mut self.dues_ms[*number as usize]);
            assert!(due_ms > 0, "job {number} came twice");
            assert!(due_ms <= now_ms, "job {number} came {} ms early", due_ms - now_ms);
        }
    }
}
