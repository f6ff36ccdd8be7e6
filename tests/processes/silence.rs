//! How long no add is answered, and how long consumers that wait for jobs get none.

use crate::processes::calls::{Answer, At, Call, Client, What};
use crate::processes::load::Job;
use crate::processes::trio::wait_until;
use crate::support::patience::{limit, seconds, within};
use crate::support::program::Reply;
use crate::support::seen::Label;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Each node is asked to add so often.
const EACH: Duration = Duration::from_millis(20);
/// Jobs of the one that asks node n are numbered from so much and n times this.
const LABELS: Label = 1 << 32;
const FIRST_LABELS: Label = 100 * LABELS;
/// How long a consumer that bounds its wait waits for a job, seconds. It gives up a connection after two.
const BOUNDED_S: f64 = 1.0;
const LEASE_MS: u64 = 3_000;
/// A consumer without a job for longer has been forgotten.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Clients at work that notice silence: one for each node adds to that node and to no other, so that one which does not
/// answer keeps no other waiting. One consumer waits without end, one for a second at a time.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    has_enough: Arc<AtomicBool>,
    probes: Vec<Hand>,
    bounded: Hand,
    patient: Hand,
}

struct Hand {
    thread: JoinHandle<Vec<Call>>,
    /// When it was last answered by an add or a job, µs of [`At`].
    served_us: Arc<AtomicU64>,
}

/// When something was answered, µs of [`At`].
pub struct Served {
    pub adds: Vec<u64>,
    /// Jobs of the consumer that waits for a second at a time.
    pub bounded: Vec<u64>,
    /// And of the one that waits without end.
    pub patient: Vec<u64>,
    pub calls: Vec<Call>,
}

impl Watch {
    pub fn start(addresses: &[SocketAddr]) -> Watch {
        let (is_over, has_enough) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let probe = |node: usize| {
            let client = Client::new(&addresses[node..=node], SmallRng::seed_from_u64(node as u64));
            let first = FIRST_LABELS + node as Label * LABELS;
            Hand::start(&is_over, move |over, served| add(client, first, over, served))
        };
        let consumer = |block_s, patience| {
            let mut client = Client::new(addresses, SmallRng::seed_from_u64(3));
            client.block_s = block_s;
            client.patience = patience;
            Hand::start(&has_enough, move |over, served| consume(client, over, served))
        };
        let probes = (0..addresses.len()).map(probe).collect();
        let bounded = consumer(BOUNDED_S, seconds(2));
        let patient = consumer(0.0, limit());
        Watch { is_over, has_enough, probes, bounded, patient }
    }

    /// Adds are answered, and both consumers have got jobs, after `since`. What went wrong.
    pub fn goes_on(&self, since: At) -> Option<&'static str> {
        let is_later = |hand: &Hand| hand.served_us.load(Ordering::Relaxed) > since.us;
        wait_until("an add is answered", || self.probes.iter().any(is_later).then_some(()));
        let of = |hand: &Hand, what| {
            let is_served = within(FORGOTTEN, || is_later(hand).then_some(())).is_some();
            (!is_served).then_some(what)
        };
        let bounded = of(&self.bounded, "a consumer that waits for a second at a time got no job");
        bounded.or_else(|| of(&self.patient, "a consumer that waits without end got no job"))
    }

    pub fn stop(self) -> Served {
        self.has_enough.store(true, Ordering::Relaxed);
        let (bounded, patient) = (self.bounded.end(), self.patient.end());
        self.is_over.store(true, Ordering::Relaxed);
        let probes: Vec<Call> = self.probes.into_iter().flat_map(Hand::end).collect();
        let mut adds = served(&probes);
        adds.sort_unstable();
        let (bounded_us, patient_us) = (served(&bounded), served(&patient));
        let calls = [probes, bounded, patient].concat();
        Served { adds, bounded: bounded_us, patient: patient_us, calls }
    }
}

impl Hand {
    fn start(
        over: &Arc<AtomicBool>,
        work: impl FnOnce(&AtomicBool, &AtomicU64) -> Vec<Call> + Send + 'static,
    ) -> Hand {
        let (over, served_us) = (Arc::clone(over), Arc::<AtomicU64>::default());
        let served = Arc::clone(&served_us);
        Hand { thread: std::thread::spawn(move || work(&over, &served)), served_us }
    }

    fn end(self) -> Vec<Call> {
        self.thread.join().unwrap()
    }
}

fn add(mut client: Client, first: Label, over: &AtomicBool, served: &AtomicU64) -> Vec<Call> {
    for label in first.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let what = What::Add { label, due_ms: At::now().ms, has_id: true };
        if let Some(Answer::Told(_)) = client.ask(what) {
            served.store(At::now().us, Ordering::Relaxed);
        }
        std::thread::sleep(EACH);
    }
    client.calls
}

fn consume(mut client: Client, over: &AtomicBool, served: &AtomicU64) -> Vec<Call> {
    while !over.load(Ordering::Relaxed) {
        let reserve = What::Reserve { count: 1, lease_ms: LEASE_MS, bound: false };
        let Some(Answer::Told(reply)) = client.ask(reserve) else { continue };
        for Job { label, id, token, .. } in Job::all(&reply) {
            served.store(At::now().us, Ordering::Relaxed);
            client.ask(What::Ack { label, id, token });
        }
    }
    client.calls
}

/// When adds were answered, or jobs handed out.
fn served(calls: &[Call]) -> Vec<u64> {
    let is_served = |call: &&Call| match (&call.what, &call.answer) {
        (What::Add { .. }, Answer::Told(reply)) => !matches!(reply, Reply::Error(_)),
        (What::Reserve { .. }, Answer::Told(reply)) => matches!(reply, Reply::Array(_)),
        _ => false,
    };
    calls.iter().filter(is_served).map(|call| call.end.us).collect()
}

/// The longest time between two of these, in order, of which the later one is after `from` and not after `to`. All of it,
/// if there is none.
pub fn longest(served: &[u64], from: u64, to: u64) -> Duration {
    let [first, last] = [from, to].map(|end| served.partition_point(|us| *us <= end));
    let mut before = first.checked_sub(1).map_or(from, |at| served[at]);
    let ends = if first == last { &[to] } else { &served[first..last] };
    let mut longest = 0;
    for end in ends {
        longest = longest.max(end - before);
        before = *end;
    }
    Duration::from_micros(longest)
}

#[test]
fn the_longest_silence_is_found_in_its_own_time() {
    let served = [1_000, 1_010, 1_500, 1_510, 2_000];
    let us = |from, to| longest(&served, from, to).as_micros();
    assert_eq!(us(1_005, 1_520), 490);
    assert_eq!(us(1_500, 1_520), 10);
    // It ends in the next one's time.
    assert_eq!(us(1_500, 1_990), 10);
    assert_eq!(us(1_600, 2_100), 490);
    assert_eq!(us(1_600, 1_900), 390);
    assert_eq!(us(0, 1_005), 1_000);
}
