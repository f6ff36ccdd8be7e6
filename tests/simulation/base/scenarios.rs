//! What base files and loading promise, one thing at a time.

use delayd::engine::model::fact::{Destination, Fact};
use delayd::engine::model::policy::{Backoff, Steps};
use delayd::engine::model::queue_settings::{Pause, Pauses, QueueSettings, Side};
use delayd::engine::model::request::{Add, JobState, QueueName, Request, Reserve, Wait, When};
use delayd::engine::{Engine, Facts, Loader, Outcome, Settings, Turn};
use delayd::ids::{ClientId, Db, QueueNo};
use delayd::time::Micros;

use crate::simulation::trace::{Recorder, Said};

/// 2025-01-01 in µs.
pub const BEGIN: Micros = Micros(1_735_689_600_000_000);

/// An engine, and what it said and decided last.
struct Desk {
    engine: Engine,
    now: Micros,
    facts: Facts,
}

pub fn add(queue: &'static [u8], in_ms: u64) -> Add<'static> {
    Add::new(QueueName { db: Db(0), name: queue }, When::In(in_ms), b"0123456789")
}

fn reserve(queue: &'static [&'static [u8]], bound: bool, count: u32) -> Request<'static> {
    let (db, wait) = (Db(0), Wait::No);
    Request::Reserve(Reserve {
        db,
        queues: queue,
        wait,
        count,
        lease_ms: None,
        no_ack: false,
        bound,
        meta: false,
    })
}

impl Desk {
    fn new() -> Desk {
        let engine = Engine::new(Settings::default());
        Desk { engine, now: BEGIN, facts: Facts::default() }
    }

    fn ask(&mut self, client: u64, request: &Request<'_>) -> Said {
        self.facts.clear();
        let mut outbox = Recorder::default();
        let turn = &mut Turn { facts: &mut self.facts, outbox: &mut outbox };
        let outcome = self.engine.handle(self.now, ClientId(client), request, turn);
        assert_eq!(outcome, Outcome::Replied);
        self.engine.sent(ClientId(client));
        outbox.0.remove(0).1
    }

    fn advance(&mut self) {
        let mut outbox = Recorder::default();
        let turn = &mut Turn { facts: &mut self.facts, outbox: &mut outbox };
        while self.engine.advance(self.now, 1_000_000, turn) {}
    }

    fn end_bound(&mut self, budget: u32) -> bool {
        let mut outbox = Recorder::default();
        let turn = &mut Turn { facts: &mut self.facts, outbox: &mut outbox };
        self.engine.end_bound(self.now, budget, turn)
    }

    /// The engine that is loaded from a base file of this one.
    fn reloaded(&mut self) -> Desk {
        self.engine.begin_base();
        while !self.engine.base_slice(100, 1_000) {}
        let images = std::mem::take(self.engine.base_output());
        let mut loader = Loader::new(Settings { hash_seed: 99, ..Settings::default() });
        loader.images(&images).expect("own images");
        let engine = Engine::loaded(loader).expect("own images");
        assert_eq!(engine.digest(), self.engine.digest());
        assert_eq!(self.engine.base_bytes(), images.len() as u64);
        assert_eq!(engine.base_bytes(), images.len() as u64);
        assert_eq!(engine.memory_bytes(), self.engine.memory_bytes());
        assert_eq!(engine.queue_counts(), self.engine.queue_counts());
        Desk { engine, now: self.now, facts: Facts::default() }
    }

    fn view(&mut self, id: &'static [u8]) -> crate::simulation::trace::View {
        let queue = QueueName { db: Db(0), name: b"q" };
        match self.ask(9, &Request::Get { queue, id }) {
            Said::Job(view) => *view,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn settings_and_pauses_are_there_after_loading_and_alone_make_a_queue_exist() {
    let mut desk = Desk::new();
    let queue = QueueNo(0);
    let apply = |desk: &mut Desk, fact: &Fact<'_>, exists: u64| {
        let mut facts = Facts::default();
        facts.push(fact);
        desk.engine.apply(desk.now, &facts).expect("own facts");
        assert_eq!(desk.engine.queue_counts()[0], exists, "after {fact:?}");
        desk.advance();
        desk.reloaded().engine.next_wakeup()
    };
    apply(&mut desk, &Fact::QueueBound { queue, db: Db(0), name: b"q" }, 0);
    let empty = desk.engine.memory_bytes();
    let backoff = Backoff { steps: Steps::Ladder([1; 64].into()), jitter: true };
    let some = QueueSettings { rate: Some(9), max_jobs: Some(0), ..QueueSettings::default() };
    let all = QueueSettings {
        attempts: Some(1),
        backoff: Some(backoff),
        lease_ms: Some(2),
        priority: Some(3),
        ttl_ms: Some(4),
        max_leased: Some(5),
        dead_retention_ms: Some(6),
        dead_max: Some(7),
        due_enters: Some(Side::Left),
        ..some.clone()
    };
    let configured = |settings| Fact::Configured { queue, settings: Box::new(settings) };
    apply(&mut desk, &configured(some), 1);
    apply(&mut desk, &configured(all), 1);
    assert!(desk.engine.memory_bytes() > empty + 64 * 8);
    let paused = |into, out| Fact::Paused { queue, pauses: Pauses { into, out } };
    let end = BEGIN.floor().plus(5);
    let wakes = apply(&mut desk, &paused(Pause::Until(end), Pause::Endless), 1);
    assert!(wakes.is_some_and(|at| at <= end), "{wakes:?}");
    apply(&mut desk, &configured(QueueSettings::default()), 1);
    apply(&mut desk, &paused(Pause::None, Pause::Endless), 1);
    apply(&mut desk, &paused(Pause::None, Pause::None), 0);
    assert_eq!(desk.engine.memory_bytes(), empty);
    apply(&mut desk, &paused(Pause::Endless, Pause::None), 1);
    apply(&mut desk, &Fact::QueueRemoved { queue }, 0);
    apply(&mut desk, &Fact::QueueBound { queue, db: Db(0), name: b"q" }, 0);
}

#[test]
fn who_leads_and_a_stall_that_is_not_over_are_there_after_loading() {
    let mut desk = Desk::new();
    desk.ask(1, &named(b"a"));
    let alone = desk.reloaded().engine.base_bytes();
    let (from, to) = (BEGIN.floor(), BEGIN.floor().plus(2_000));
    let led = |term| Fact::Led { term, node: 3, stall_from: from, stall_to: to, level: 1 };
    let mut seen = vec![desk.engine.digest()];
    for fact in [led(1), led(2), Fact::StallOver] {
        let mut facts = Facts::default();
        facts.push(&fact);
        desk.engine.apply(desk.now, &facts).expect("own facts");
        desk.reloaded();
        assert!(!seen.contains(&desk.engine.digest()), "{fact:?} changes nothing");
        seen.push(desk.engine.digest());
    }
    assert_eq!(desk.engine.base_bytes(), alone + 37);
}

fn named(id: &'static [u8]) -> Request<'static> {
    Request::Add(Add { id: Some(id), ..add(b"q", 0) })
}

#[test]
fn an_orderly_shutdown_gives_attempts_back() {
    let mut desk = Desk::new();
    for id in [&b"a"[..], b"b", b"c", b"d"] {
        desk.ask(1, &named(id));
    }
    desk.ask(7, &reserve(&[b"q"], true, 1));
    desk.ask(3, &reserve(&[b"q"], true, 2));
    desk.ask(3, &reserve(&[b"q"], false, 1));
    desk.facts.clear();
    let mut slices = 0;
    while !desk.end_bound(1) {
        slices += 1;
        assert!(slices < 20);
    }
    let ended: Vec<Vec<u8>> = desk
        .facts
        .iter()
        .map(|fact| match fact.expect("own facts") {
            Fact::LeaseOver { id, lost: true, counted: false, to: Destination::Ready, .. } => {
                id.to_vec()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ended, [b"b", b"c", b"a"], "clients in order");
    let view = desk.view(b"a");
    assert_eq!(
        (view.seen.state, view.attempt[0], view.deliveries),
        (JobState::Ready, 0, [1, 0, 0, 1])
    );
    assert_eq!(desk.view(b"d").seen.state, JobState::Leased, "a lease that is not bound goes on");
    // At its old place again, and no step towards its backoff.
    let mut loaded = desk.reloaded();
    loaded.engine.recovered();
    loaded.advance();
    let Said::Reserved(jobs) = loaded.ask(1, &reserve(&[b"q"], true, 9)) else { panic!() };
    assert_eq!(
        jobs.iter().map(|job| (job.id, job.attempt)).collect::<Vec<_>>(),
        [(&b"a"[..], 1), (b"b", 1), (b"c", 1)]
    );
}

#[test]
fn a_slice_is_no_longer_than_asked() {
    let mut desk = Desk::new();
    for _ in 0..2_000 {
        desk.ask(1, &Request::Add(add(b"q", 5)));
    }
    desk.engine.begin_base();
    let (mut slices, mut longest) = (0, 0);
    while !desk.engine.base_slice(u32::MAX, 500) {
        let bytes = std::mem::take(desk.engine.base_output()).len();
        assert!(bytes < 700, "{bytes} bytes");
        (slices, longest) = (slices + 1, longest.max(bytes));
    }
    assert!(slices > 200 && longest >= 500, "{slices} slices of up to {longest} bytes");
    desk.engine.begin_base();
    let mut slices = 0;
    while !desk.engine.base_slice(10, usize::MAX) {
        let bytes = std::mem::take(desk.engine.base_output()).len();
        assert!(bytes <= 10 * 150, "{bytes} bytes");
        slices += 1;
    }
    assert!((200..300).contains(&slices), "{slices} slices");
}

#[test]
fn a_removed_queue_is_kept_until_it_is_written_and_no_longer() {
    for ending in ["written", "abandoned"] {
        let mut desk = Desk::new();
        for _ in 0..1_000 {
            desk.ask(1, &Request::Add(add(b"q", 5)));
        }
        let (full, bytes) = (desk.engine.memory_bytes(), desk.engine.base_bytes());
        desk.engine.begin_base();
        desk.ask(1, &Request::Flush { db: None });
        desk.advance();
        assert_eq!(desk.engine.memory_bytes(), full, "kept");
        assert_eq!(desk.engine.next_wakeup(), None, "there is nothing that time could do");
        // What comes now is younger.
        desk.ask(1, &Request::Add(add(b"q", 5)));
        desk.ask(1, &Request::Flush { db: None });
        if ending == "written" {
            while !desk.engine.base_slice(100, usize::MAX) {}
            assert_eq!(desk.engine.base_output().len() as u64, bytes);
        } else {
            desk.engine.base_slice(100, usize::MAX);
            desk.engine.abandon_base();
        }
        desk.advance();
        assert!(desk.engine.memory_bytes() < 1_000, "freed when {ending}");
        // The next one has nothing of it.
        let mut again = desk.reloaded();
        assert_eq!(again.ask(1, &Request::QueueCount { db: Db(0) }), Said::Integer(0));
    }
}
