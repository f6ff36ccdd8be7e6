//! An engine that only applies what another one decides.

use delayd::engine::model::policy::{Backoff, Steps};
use delayd::engine::model::queue_settings::QueueSettings;
use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::{Add, Request, Reserve, Scan, Wait};
use delayd::engine::model::walk::Cursor;
use delayd::engine::{Applying, Engine, Facts, Lead, Settings, Turn};
use delayd::ids::{ClientId, Db};
use delayd::limits::SPARE_QUIET_MS;
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::engine::bench::{BEGIN_MS, Bench, Q, get, job, pop, queue, remove, reserve};
use crate::support::seeds::number_of;

/// All that was decided since the last time, in one batch: the instant of its first fact, and the facts.
fn batch(bench: &Bench, from: usize) -> (Micros, Facts) {
    let mut made = bench.facts[from..].iter().filter(|(_, facts)| facts.count > 0);
    let mut all = Facts::default();
    let Some((first, facts)) = made.next() else { return (bench.now(), all) };
    all.bytes.extend_from_slice(&facts.bytes);
    all.count = facts.count;
    made.for_each(|(now, facts)| all.append(*now, facts));
    (*first, all)
}

fn follower() -> Engine {
    Engine::new(Settings { hash_seed: 5, token_floor: 1_000, ..Settings::default() })
}

/// Applies a batch in slices of so many steps: in how many.
fn apply(engine: &mut Engine, (first, facts): &(Micros, Facts), budget: u32) -> u32 {
    let (mut applying, mut slices) = (Applying::new(*first), 1);
    while !engine
        .apply_slice(&mut applying, &facts.bytes, facts.count, budget)
        .expect("own facts are readable")
    {
        slices += 1;
    }
    assert_eq!(applying.applied(), facts.count);
    slices
}

#[test]
fn a_batch_of_many_turns_is_as_the_turns_were_whatever_the_slices() {
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new();
        for _ in 0..200 {
            match rng.random_range(0..6) {
                0..3 => bench.add(Add {
                    id: None,
                    ..job("q", "-", [0, 5, 300, 70_000][rng.random_range(0..4)])
                }),
                3 => drop(bench.ask(1, Request::Reserve(reserve(Q, Wait::No, 3)))),
                4 => drop(bench.ask(1, pop(Q, Wait::No))),
                _ => {}
            }
            bench.sent(1);
            let at = bench.at_ms + rng.random_range(0..2_000);
            bench.at(at);
        }
        let all = batch(&bench, 0);
        for budget in [1, 7, 1_000, u32::MAX] {
            let mut engine = follower();
            apply(&mut engine, &all, budget);
            assert_eq!(engine.digest(), bench.engine.digest(), "seed {seed}, {budget} steps");
        }
    }
}

/// A slot of 65 s with many jobs is opened in slices before the first of them falls due.
#[test]
fn no_slice_opens_a_slot_of_many_jobs_at_once() {
    const JOBS: u32 = 50_000;
    let mut bench = Bench::new();
    // Two slots of 4.7 hours ahead; each second some thousand.
    for at in 0..JOBS {
        let delay = 40_000_000 + u64::from(at % 10) * 1_000;
        bench.add(Add { id: None, ..job("q", "-", delay) });
    }
    let mut engine = follower();
    apply(&mut engine, &batch(&bench, 0), 256);
    let from = bench.facts.len();
    bench.at(40_000_000);
    let due = batch(&bench, from);
    assert!(due.1.count < 50, "{} facts", due.1.count);
    let slices = apply(&mut engine, &due, 256);
    assert!(slices > JOBS / 256 && slices < JOBS / 50, "{slices} slices");
    assert_eq!(engine.digest(), bench.engine.digest());
    let from = bench.facts.len();
    bench.at(40_009_000);
    apply(&mut engine, &batch(&bench, from), 256);
    assert_eq!(engine.digest(), bench.engine.digest());
}

/// A policy whose last jobs are removed but not freed is forgotten once they are.
#[test]
fn no_slice_frees_all_that_was_removed_at_once() {
    const JOBS: u32 = 20_000;
    let ladder = |step| Some(Backoff { steps: Steps::Ladder([step].into()), jitter: false });
    for base in [false, true] {
        let mut bench = Bench::new();
        for _ in 0..JOBS {
            bench.add(Add { id: None, backoff: ladder(7), ..job("q", "-", 9_000) });
        }
        let mut engine = follower();
        apply(&mut engine, &batch(&bench, 0), u32::MAX);
        if base {
            engine.begin_base();
        }
        let from = bench.facts.len();
        bench.check(1, remove(Q), &["1:1"]);
        bench.at(1);
        for step in 0..delayd::limits::UNUSED_POLICIES_MAX as u64 + 10 {
            bench.add(Add { backoff: ladder(100 + step), ..job("other", "x", 9_000) });
            bench.check(1, crate::engine::bench::delete("other", &[b"x"]), &["1:1"]);
        }
        let later = batch(&bench, from);
        let slices = apply(&mut engine, &later, 256);
        let needed = later.1.count as u32 / 256 + JOBS / 256;
        assert!(slices >= needed, "{slices} slices, {needed} needed");
        assert_eq!(engine.digest(), bench.engine.digest());
    }
}

#[test]
fn an_instant_that_goes_back_is_refused() {
    let now = Micros(BEGIN_MS * 1_000);
    let mut facts = Facts::default();
    facts.append(Micros(now.0 - 1), &Facts::default());
    let refused = follower().apply_encoded(now, &facts.bytes, facts.count);
    assert!(refused.is_err(), "{refused:?}");
}

/// Applies all that was decided so far to a follower, and does what it has to do beside.
fn told(bench: &Bench) -> Engine {
    let mut engine = follower();
    apply(&mut engine, &batch(bench, 0), 64);
    while engine.follow(bench.now(), 100) {}
    engine
}

fn lead(bench: &Bench, term: u64, from_ms: u64, to_ms: u64) -> Lead {
    let at = |ms| Micros((BEGIN_MS + ms) * 1_000);
    assert!(bench.at_ms <= to_ms);
    Lead { term, node: term, level: 1, from: at(from_ms), to: at(to_ms) }
}

/// The follower goes on for the engine that decided, whose clients are gone.
pub fn changed(bench: &mut Bench, term: u64, from_ms: u64, to_ms: u64) {
    let engine = told(bench);
    bench.engine = engine;
    let lead = lead(bench, term, from_ms, to_ms);
    bench.lead(&lead);
}

fn leased(bench: &mut Bench, id: &'static str, lease_ms: u64, bound: bool) {
    bench.add(job("q", id, 0));
    let terms = Reserve { lease_ms: Some(lease_ms), bound, ..reserve(Q, Wait::No, 1) };
    bench.ask(7, Request::Reserve(terms));
    bench.sent(7);
    bench.take_events();
}

#[test]
fn leases_live_through_a_change_of_the_leader_and_have_what_they_had_left() {
    let mut bench = Bench::new();
    for (id, ms) in [("before", 900), ("first", 1_000), ("left", 2_000), ("last", 4_000)] {
        leased(&mut bench, id, ms, false);
    }
    leased(&mut bench, "after", 4_001, false);
    bench.at_ms = 1_500;
    changed(&mut bench, 1, 1_000, 4_000);
    bench.at(1_500);
    let until = |bench: &mut Bench, id, end: u64| {
        let said = format!("2:leased due 0 attempt 1 until {end}");
        bench.check(2, get("q", id), &[&said]);
    };
    // It had ended before.
    bench.check(2, get("q", "before"), &["2:ready due 0 attempt 1"]);
    // Nothing was left of it, so it has until the end of the stall.
    until(&mut bench, "first", 4_001);
    until(&mut bench, "left", 2_000);
    bench.at(2_000);
    // A second of three was left: until 3,000, which is in the stall.
    until(&mut bench, "left", 4_001);
    bench.at(4_000);
    until(&mut bench, "last", 7_000);
    assert!(bench.engine.leading().stall.is_some());
    bench.at(4_001);
    assert_eq!(bench.engine.leading().stall, None);
    for id in ["first", "left", "after"] {
        bench.check(2, get("q", id), &["2:ready due 0 attempt 1"]);
    }
    bench.at(6_999);
    until(&mut bench, "last", 7_000);
    bench.at(7_000);
    bench.check(2, get("q", "last"), &["2:ready due 0 attempt 1"]);
    let told = told(&bench);
    assert_eq!(told.digest(), bench.engine.digest());
}

/// Leases that ended in the stall are extended in slices as time passes. A holder who comes earlier was told that its
/// lease was over, and its job was handed to another one.
#[test]
fn who_comes_before_its_lease_is_extended_holds_it_still() {
    const JOBS: u32 = 5_000;
    let mut bench = Bench::new();
    for _ in 1..JOBS {
        bench.add(Add { id: None, ..job("q", "-", 0) });
    }
    bench.add(job("q", "extended", 0));
    bench.add(job("q", "acked", 0));
    bench.add(job("q", "given back", 0));
    let terms = Reserve { lease_ms: Some(1_000), ..reserve(Q, Wait::No, JOBS + 2) };
    bench.ask(7, Request::Reserve(terms));
    bench.sent(7);
    bench.take_events();
    bench.at_ms = 1_500;
    changed(&mut bench, 1, 900, 4_000);
    let [token, acked] = ["extended", "acked"].map(|id| bench.token(id));
    let extend = Request::Extend { queue: queue("q"), id: b"extended", token, lease_ms: 60_000 };
    let end = (BEGIN_MS + 61_500).to_string();
    bench.check(7, extend, &[&format!("7:{end}")]);
    bench.ack(7, "acked", acked);
    bench.nack(7, "given back", |nack| nack.uncounted = true);
    bench.expect_events(&["7:1", "7:1"]);
    let told = told(&bench);
    assert_eq!(told.digest(), bench.engine.digest());
}

#[test]
fn a_leader_that_dies_in_the_stall_leaves_the_rest_to_the_next() {
    let mut bench = Bench::new();
    leased(&mut bench, "a", 2_000, false);
    bench.at_ms = 1_500;
    changed(&mut bench, 1, 1_000, 4_000);
    bench.at_ms = 2_500;
    // The first of them had met nothing; the lease ended before the second was last heard.
    changed(&mut bench, 2, 2_400, 4_500);
    let stall = bench.engine.leading().stall.expect("it lasts");
    assert_eq!((stall.from.0 - BEGIN_MS, stall.to.0 - BEGIN_MS), (1_000, 4_500));
    assert_eq!((bench.engine.leading().term, bench.engine.leading().node), (2, 2));
    bench.at(2_500);
    bench.check(2, get("q", "a"), &["2:leased due 0 attempt 1 until 4501"]);
    bench.at(4_501);
    bench.check(2, get("q", "a"), &["2:ready due 0 attempt 1"]);
}

/// A former leader may have its connections open until the stall is over; those to the new one are its own matter.
#[test]
fn bound_leases_of_the_former_leader_end_with_the_stall_and_no_others() {
    for many in [0, 600] {
        let mut bench = Bench::new();
        for _ in 0..many {
            bench.add(Add { id: None, ..job("q", "-", 0) });
        }
        let all = Reserve { lease_ms: Some(60_000), ..reserve(Q, Wait::No, many) };
        if many > 0 {
            bench.ask(8, Request::Reserve(all));
            bench.sent(8);
        }
        leased(&mut bench, "old", 60_000, true);
        leased(&mut bench, "short", 2_000, true);
        bench.at_ms = 1_500;
        changed(&mut bench, 1, 1_000, 4_000);
        // Before anything is collected.
        leased(&mut bench, "new", 60_000, true);
        bench.at(4_000);
        bench.check(2, get("q", "old"), &["2:leased due 0 attempt 1 until 60000"]);
        bench.at(4_001);
        bench.check(2, get("q", "old"), &["2:ready due 0 attempt 1"]);
        bench.check(2, get("q", "short"), &["2:ready due 0 attempt 1"]);
        bench.check(2, get("q", "new"), &["2:leased due 1500 attempt 1 until 61500"]);
        assert_eq!(bench.stats("q").totals.lost, 2);
        bench.closed(7);
        bench.check(2, get("q", "new"), &["2:ready due 1500 attempt 1"]);
        bench.take_events();
    }
}

#[test]
fn rates_are_closed_for_a_second_after_the_former_leader_was_heard() {
    let mut bench = Bench::new();
    let changes = QueueSettings { rate: Some(100), ..QueueSettings::default() };
    bench.ask(1, Request::Configure { queue: queue("q"), changes: Box::new(changes) });
    for id in ["a", "b", "c"] {
        bench.add(job("q", id, 0));
    }
    bench.take_events();
    bench.check(1, pop(Q, Wait::No), &["1:a"]);
    bench.at_ms = 300;
    changed(&mut bench, 1, 200, 300);
    bench.at(1_199);
    bench.check(1, pop(Q, Wait::No), &["1:nil"]);
    bench.ask(1, pop(Q, Wait::Forever));
    assert_eq!(bench.engine.next_wakeup().map(|at| at.0 - BEGIN_MS), Some(1_200));
    bench.at(1_200);
    bench.expect_events(&["1:b"]);
}

#[test]
fn nothing_of_a_leader_is_left_when_it_follows_and_it_may_lead_again() {
    let mut bench = Bench::new();
    bench.ask(1, pop(Q, Wait::For(1_000)));
    bench.ask(2, pop(&[b"other", b"q"], Wait::Forever));
    for id in ["x", "y"] {
        bench.add(job("taken", id, 0));
    }
    bench.ask(3, pop(&[b"taken"], Wait::No));
    bench.ask(3, Request::Reserve(Reserve { bound: true, ..reserve(&[b"taken"], Wait::No, 1) }));
    assert!(bench.engine.unsent_jobs_bytes(ClientId(3)) > 0);
    bench.take_events();
    let digest = bench.engine.digest();
    bench.engine.unlead();
    let engine = &bench.engine;
    assert_eq!((engine.waiter_count(), engine.awaited_count(), engine.deadline_count()), (0, 0, 0));
    assert_eq!(engine.unsent_jobs_bytes(ClientId(3)), 0);
    assert_eq!(engine.bound_bytes(ClientId(3)), 0);
    assert_eq!(engine.digest(), digest, "no fact is made");
    // Another one leads for a while.
    let mut other = Bench::new();
    other.engine = told(&bench);
    other.at_ms = 50;
    other.lead(&lead(&other, 1, 40, 60));
    other.add(job("q", "z", 0));
    other.take_events();
    let (first, facts) = batch(&other, 0);
    assert!(bench.engine.may_follow(first));
    apply(&mut bench.engine, &(first, facts), 1);
    assert_eq!(bench.engine.digest(), other.engine.digest());
    bench.facts.append(&mut other.facts);
    other.engine = Engine::new(Settings::default());
    // And this one again.
    bench.at(70);
    bench.lead(&lead(&bench, 2, 60, 80));
    bench.at(70);
    bench.expect_events(&[]);
    bench.check(4, pop(Q, Wait::No), &["4:z"]);
}

/// Time has passed beyond the next leader's: an order among jobs may be another one.
#[test]
fn an_engine_that_led_beyond_the_next_leaders_clock_may_not_follow_it() {
    let mut bench = Bench::new();
    bench.add(job("q", "a", 5_000));
    assert!(bench.engine.may_follow(bench.now()));
    bench.at(100);
    assert!(bench.engine.may_follow(bench.now()));
    bench.add(job("q", "b", 100));
    bench.at(200);
    bench.engine.unlead();
    assert!(!bench.engine.may_follow(Micros((BEGIN_MS + 199) * 1_000)));
    assert!(bench.engine.may_follow(bench.now()));
    bench.take_events();
}

/// Bytes held, turn by turn.
#[derive(Default)]
struct Held {
    sum: u64,
    peak: u64,
}

impl Held {
    fn note(&mut self, bytes: u64) {
        self.sum += bytes;
        self.peak = self.peak.max(bytes);
    }
}

/// What was decided since the last time is applied, with a slice of housekeeping for each of the facts.
fn keep_up(bench: &mut Bench, engine: &mut Engine) -> u64 {
    let (first, made) = batch(bench, 0);
    bench.facts.clear();
    let mut batch = Applying::new(first);
    while !engine.apply_slice(&mut batch, &made.bytes, made.count, 256).expect("own facts") {
        engine.follow(bench.now(), 512);
    }
    engine.follow(bench.now(), 4_096);
    made.count
}

/// Nobody asks for anything until neither has more to tidy up.
fn rest(bench: &mut Bench, engine: &mut Engine) {
    let until = bench.at_ms + 2 * SPARE_QUIET_MS;
    loop {
        while engine.follow(bench.now(), 4_096) {}
        let asks = [bench.engine.next_following(), engine.next_following()];
        let Some(at) = asks.into_iter().flatten().min() else { return };
        assert!(bench.at_ms < until, "asked for at {at:?} still, at {:?}", bench.now());
        bench.at(at.0.saturating_sub(BEGIN_MS).max(bench.at_ms + 1));
        keep_up(bench, engine);
    }
}

/// What a node follows with: jobs that come and go, queues that are purged, removed and forgotten; three million facts
/// with 6,000 cases.
///
/// Both move jobs together when a tenth of what is held could be given back and jobs were left alone for a second. Who
/// follows looks at other instants, within batches too, so that one may be about to when the other just did. So at rest
/// they hold the same but for what is not worth it; over time, and at most, the same.
#[test]
fn who_follows_holds_what_the_leader_holds_and_does_little_at_once() {
    const UNWORTHY_BYTES: u64 = 1 << 18;
    let turns = number_of("DELAYD_CASES").unwrap_or(400).max(100);
    let retention = |settings: &mut Settings| {
        settings.stats_retention_ms = 60_000;
        settings.spare_bytes_min = UNWORTHY_BYTES as usize;
    };
    let mut bench = Bench::with(retention);
    let mut rng = SmallRng::seed_from_u64(turns);
    let settings = Settings { hash_seed: 3, ..bench.engine.settings().clone() };
    let mut engine = Engine::new(settings);
    let (mut facts, mut compared) = (0, 0);
    let (mut led, mut followed) = (Held::default(), Held::default());
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    for turn in 0..turns {
        let name = NAMES[rng.random_range(0..NAMES.len())];
        for _ in 0..200 {
            let delay = [0, 10, 3_000, 90_000][rng.random_range(0..4)];
            let body = &[b'b'; 900][..rng.random_range(1..900)];
            bench.add(Add { id: None, body, ..job(name, "-", delay) });
        }
        let own = format!("once{turn}").leak();
        bench.add(job(own, "x", 0));
        bench.ask(1, crate::engine::bench::delete(own, &[b"x"]));
        match rng.random_range(0..10) {
            0 => drop(bench.ask(1, crate::engine::bench::purge(name))),
            1 => drop(bench.ask(1, Request::Remove { db: Db(0), queues: &[name.as_bytes()] })),
            _ => {
                let queues = &[name.as_bytes()];
                let taking =
                    Reserve { queues, no_ack: true, count: 150, ..reserve(&[], Wait::No, 1) };
                bench.ask(1, Request::Reserve(taking));
            }
        }
        bench.sent(1);
        bench.take_events();
        let at = bench.at_ms + rng.random_range(0..1_000);
        bench.at(at);
        facts += keep_up(&mut bench, &mut engine);
        led.note(bench.engine.held_bytes());
        followed.note(engine.held_bytes());
        if turn % 50 == 49 {
            rest(&mut bench, &mut engine);
            let (leads, follows) = (bench.engine.held_bytes(), engine.held_bytes());
            // A tenth of the data, and of what is held for numbers, which is less than this.
            let unworthy = leads.max(follows) / 10 + UNWORTHY_BYTES;
            assert!(leads.abs_diff(follows) <= unworthy, "{leads}, {follows} bytes");
            assert_eq!(engine.memory_bytes(), bench.engine.memory_bytes());
            assert_eq!(engine.named_count(), bench.engine.named_count());
            assert_eq!(engine.digest(), bench.engine.digest());
            compared += 1;
        }
    }
    println!("{facts} facts, compared {compared} times");
    for (leads, follows) in [(led.sum / turns, followed.sum / turns), (led.peak, followed.peak)] {
        println!("{leads} and {follows} bytes");
        assert!(leads.abs_diff(follows) <= leads / 50, "{leads}, {follows} bytes");
    }
    assert!(compared > 0);
    // There is no replay of it.
    bench.engine = Engine::new(Settings::default());
}

/// What a SCAN has told so far.
#[derive(Default)]
struct Scanned {
    cursor: Cursor,
    ids: Vec<Vec<u8>>,
}

impl Outbox for Scanned {
    fn reply(&mut self, _client: ClientId, reply: Reply<'_>) {
        let Reply::Scanned(cursor, jobs) = reply else { panic!("a SCAN is asked") };
        self.cursor = cursor;
        self.ids.extend(jobs.iter().map(|job| job.id.to_vec()));
    }
}

fn scan(engine: &mut Engine, now: Micros, scanned: &mut Scanned) {
    let (queue, cursor) = (queue("q"), scanned.cursor);
    let request = Request::Scan(Scan::new(queue, cursor, 100));
    let mut facts = Facts::default();
    let turn = &mut Turn { facts: &mut facts, outbox: scanned };
    engine.handle(now, ClientId(1), &request, turn);
}

/// Nodes of a cluster have one key; `walks.rs` has what another one leads to.
#[test]
fn a_scan_goes_on_at_the_next_leader() {
    let mut bench = Bench::with(|settings| settings.hash_seed = 5);
    for _ in 0..3_000 {
        bench.add(Add { id: None, ..job("q", "-", 1_000) });
    }
    let mut engine = follower();
    apply(&mut engine, &batch(&bench, 0), 1_000);
    let mut scanned = Scanned::default();
    while scanned.ids.len() < 1_500 {
        let now = bench.now();
        scan(&mut bench.engine, now, &mut scanned);
    }
    engine.lead(
        bench.now(),
        &lead(&bench, 1, 0, 0),
        &mut Turn { facts: &mut Facts::default(), outbox: &mut Scanned::default() },
    );
    while scanned.cursor != Cursor::END {
        scan(&mut engine, bench.now(), &mut scanned);
    }
    let told = scanned.ids.len();
    scanned.ids.sort_unstable();
    scanned.ids.dedup();
    assert_eq!((scanned.ids.len(), told), (3_000, 3_000));
}
