//! Clients at work: they add, cancel, take, hold, extend, give back and acknowledge, and repeat what was not answered.

use crate::processes::calls::{Answer, At, Call, Client, Tag, What};
use crate::support::patience::pass;
use crate::support::program::Reply;
use crate::support::seen::{Label, label_of};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PRODUCERS: u64 = 3;
const WORKERS: u64 = 3;
/// A producer's jobs are numbered from its own number times this.
const LABELS: u64 = 1 << 32;
/// Longer than any due time or lease that is drawn.
const LEASES_MS: [u64; 4] = [150, 1_000, 3_000, 3_000];

/// See the module.
pub struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Call>>>,
}

impl Load {
    pub fn start(addresses: &[SocketAddr], seed: u64) -> Load {
        Load::start_in(addresses, Tag::default(), seed)
    }

    /// In queues with these names.
    pub fn start_in(addresses: &[SocketAddr], tag: Tag, seed: u64) -> Load {
        let is_over = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        for number in 0..PRODUCERS + WORKERS + 1 {
            let random = SmallRng::seed_from_u64(seed ^ number);
            let mut client = Client::new(addresses, random);
            client.tag = tag;
            let mut hand = Hand { client, is_over: Arc::clone(&is_over) };
            threads.push(std::thread::spawn(move || {
                match number {
                    number if number < PRODUCERS => hand.produce((number + 1) * LABELS),
                    number if number < PRODUCERS + WORKERS => hand.consume(),
                    _ => hand.pop(),
                }
                hand.client.calls
            }));
        }
        Load { is_over, threads }
    }

    /// All calls, once what was begun is at an end.
    pub fn stop(self) -> Vec<Call> {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

/// A job that a worker holds, and until when it does.
struct Held {
    label: Label,
    id: String,
    token: u64,
    until: At,
}

struct Hand {
    client: Client,
    is_over: Arc<AtomicBool>,
}

impl Hand {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Again and again until it is answered: an id makes that harmless.
    fn insist(&mut self, what: &What) -> Option<Reply> {
        while !self.is_over() {
            if let Some(Answer::Told(reply)) = self.client.ask(what.clone()) {
                return Some(reply);
            }
        }
        None
    }

    fn produce(&mut self, first: Label) {
        for label in first.. {
            if self.is_over() {
                return;
            }
            let random = &mut self.client.random;
            let in_ms = match random.random_range(0..10) {
                0..4 => 0,
                4..8 => random.random_range(1..100),
                _ => random.random_range(100..1_500),
            };
            let due_ms = At::now().ms + in_ms;
            let (has_id, cancels) = (random.random_ratio(4, 5), random.random_ratio(1, 10));
            let add = What::Add { label, due_ms, has_id };
            if has_id {
                self.insist(&add);
            } else {
                self.client.ask(add);
            }
            if has_id && cancels {
                self.client.ask(What::Cancel { label });
            }
            // So that a machine of two cores has something left for three nodes.
            pass(Duration::from_millis(5));
        }
    }

    fn consume(&mut self) {
        let mut held: Vec<Held> = Vec::new();
        while !self.is_over() {
            let random = &mut self.client.random;
            let lease_ms = LEASES_MS[random.random_range(0..LEASES_MS.len())];
            let (count, bound) = (random.random_range(1..8), random.random_ratio(1, 5));
            let answer = self.client.ask(What::Reserve { count, lease_ms, bound });
            let Some(Answer::Told(reply)) = answer else { continue };
            for job in Job::all(&reply) {
                let Job { label, id, token, .. } = job;
                match self.client.random.random_range(0..20) {
                    0..11 => drop(self.insist(&What::Ack { label, id, token })),
                    11..13 => {
                        let in_ms = [0, 100][self.client.random.random_range(0..2)];
                        self.client.ask(What::Nack { label, id, token, in_ms });
                    }
                    13..15 => {
                        let extend = What::Extend { label, id: id.clone(), token, ms: 4_000 };
                        self.client.ask(extend);
                        held.push(self.held(label, id, token));
                    }
                    15..19 => held.push(self.held(label, id, token)),
                    // Left alone.
                    _ => {}
                }
            }
            let now = At::now();
            let (done, rest) = held.into_iter().partition(|held| held.until <= now);
            held = rest;
            for Held { label, id, token, .. } in done {
                self.insist(&What::Ack { label, id, token });
            }
        }
    }

    fn held(&mut self, label: Label, id: String, token: u64) -> Held {
        let ms = self.client.random.random_range(0..3_000);
        let now = At::now();
        Held { label, id, token, until: At { us: now.us + ms * 1_000, ms: now.ms + ms } }
    }

    fn pop(&mut self) {
        while !self.is_over() {
            self.client.ask(What::Pop);
        }
    }
}

/// A job in a reply of RESERVE.
#[derive(Clone, Debug)]
pub struct Job {
    pub queue: String,
    pub label: Label,
    pub id: String,
    pub token: u64,
    pub attempt: u64,
    pub due_ms: u64,
    pub lease_end_ms: u64,
}

impl Job {
    pub fn all(reply: &Reply) -> Vec<Job> {
        let jobs = reply.array().unwrap_or(&[]);
        jobs.iter().map(|job| Job::one(job.array().expect("a job"))).collect()
    }

    fn one(parts: &[Reply]) -> Job {
        Job {
            queue: parts[0].text().to_owned(),
            id: parts[1].text().to_owned(),
            label: label_of(parts[2].bytes()),
            token: parts[3].text().parse().expect("a token"),
            attempt: parts[4].number() as u64,
            due_ms: parts[5].number() as u64,
            lease_end_ms: parts[6].number() as u64,
        }
    }
}
