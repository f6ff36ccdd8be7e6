//! Walks: whatever is there from the first step to the last is returned, whatever comes and goes meanwhile, over
//! restarts and changes of the leader. One property for all commands that give a place to go on from.
//!
//! `DELAYD_SEED=17 cargo test --test pure walks` runs one seed again.

use crate::engine::bench::{BEGIN_MS, Bench, TransactionBegun, job, queue};
use crate::support::lossy::Lossy;
use crate::support::seeds::{Seen, for_each_seed};
use delayd::engine::model::across::{Order, Queues};
use delayd::engine::model::bulk::Filter;
use delayd::engine::model::request::{Add, QueueName, Request, Scan};
use delayd::engine::model::schedule::Scheduling;
use delayd::engine::model::walk::Cursor;
use delayd::engine::{Engine, Lead, Loader, Outcome, Settings};
use delayd::ids::Db;
use delayd::journal::hash_key;
use delayd::limits::{LEVEL_SCHEDULES, SCHEDULES_LISTED_MAX};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is walked over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    /// Of queue `q`.
    Jobs,
    /// Queues whose name begins with `n`.
    Names,
    /// Of queue `s`.
    Schedules,
}

/// By which command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Scan,
    ScanMatch,
    ScanQueues,
    Queues,
    List,
    ListMatch,
}

const ALL: [By; 6] = [By::Scan, By::ScanMatch, By::ScanQueues, By::Queues, By::List, By::ListMatch];

/// What a walk with a pattern looks for.
const PATTERN: &str = "*7";

impl By {
    fn of(self) -> Of {
        match self {
            By::Scan | By::ScanMatch => Of::Jobs,
            By::ScanQueues | By::Queues => Of::Names,
            By::List | By::ListMatch => Of::Schedules,
        }
    }

    fn fits(self, name: &str) -> bool {
        !matches!(self, By::ScanMatch | By::ListMatch) || name.ends_with('7')
    }

    /// Goes by hash, so that another key has another order.
    fn has_cursor(self) -> bool {
        matches!(self, By::Scan | By::ScanMatch | By::ScanQueues)
    }
}

#[derive(Debug)]
struct Walk {
    by: By,
    count: u32,
    cursor: Cursor,
    after: String,
    /// There since it began, and not returned yet.
    owed: BTreeSet<String>,
    /// The key when the cursor was given.
    key: u64,
    steps: u32,
    restarts: u32,
}

struct World {
    rng: SmallRng,
    bench: Bench,
    /// Follows, and has the facts up to here.
    replica: Engine,
    told: usize,
    /// Where the key is kept.
    disk: Arc<Lossy>,
    key: u64,
    there: [BTreeSet<String>; 3],
    walks: Vec<Walk>,
    made: u64,
    term: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = Lossy::new();
        let key = hash_key(&*disk, rng.random()).expect("a key");
        let bench = Bench::with(|settings| settings.hash_seed = key);
        let replica = Engine::new(bench.engine.settings().clone());
        let (there, walks) = (Default::default(), Vec::new());
        World { rng, bench, replica, told: 0, disk, key, there, walks, made: 0, term: 0 }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.random_range(0..count) == 0
    }

    fn come(&mut self, of: Of, name: String) {
        self.there[of as usize].insert(name);
    }

    fn go(&mut self, of: Of, name: &str) {
        assert!(self.there[of as usize].remove(name), "{name} was there");
        let walks = self.walks.iter_mut().filter(|walk| walk.by.of() == of);
        walks.for_each(|walk| _ = walk.owed.remove(name));
    }

    /// As many as there are, or some of them, by chance.
    fn some(&mut self, of: Of, share: u32) -> Vec<String> {
        let rng = &mut self.rng;
        let all = self.there[of as usize].iter();
        all.filter(|_| rng.random_range(0..100) < share).cloned().collect()
    }

    /// What is said to client 1.
    fn ask(&mut self, request: Request<'_>) -> String {
        while self.bench.ask(1, request.clone()) == Outcome::Again {}
        let said = self.bench.take_events().pop().expect("an answer");
        said.strip_prefix("1:").expect("to client 1").to_owned()
    }

    fn change_jobs(&mut self, seen: &mut Seen) {
        if self.one_in(2) {
            for _ in 0..self.rng.random_range(0..120) {
                self.made += 1;
                let id = format!(
                    "{}{}",
                    ["job:", "", "a-rather-long-id-"][self.made as usize % 3],
                    self.made
                );
                let id = (!self.made.is_multiple_of(4)).then_some(id);
                let delay_ms = self.rng.random_range(0..5_000);
                let id = id.as_ref().map(|id| id.as_bytes());
                let id = self.ask(Request::Add(Add { id, ..job("q", "-", delay_ms) }));
                self.come(Of::Jobs, id);
            }
        } else {
            let share = [2, 20, 97][self.rng.random_range(0..3)];
            if share == 97 {
                seen.note("shrunk");
            }
            for id in self.some(Of::Jobs, share) {
                let ids = [id.as_bytes()];
                let deleted = self.ask(Request::Delete { queue: queue("q"), ids: &ids });
                assert_eq!(deleted, "1", "{id}");
                self.go(Of::Jobs, &id);
            }
        }
    }

    fn change_queues(&mut self) {
        for _ in 0..self.rng.random_range(0..20) {
            self.made += 1;
            let name = format!("n{}", self.made);
            let of = QueueName { db: Db(0), name: name.as_bytes() };
            self.ask(Request::Add(Add { queue: of, ..job("q", "one", 1_000_000) }));
            self.come(Of::Names, name);
        }
        let share = [0, 5, 80][self.rng.random_range(0..3)];
        for name in self.some(Of::Names, share) {
            if self.one_in(3) {
                self.made += 1;
                let to = format!("n{}", self.made);
                let (from, name) = (name.as_bytes(), to.as_bytes());
                let rename = Request::Rename { db: Db(0), queue: from, to: name, only_new: false };
                assert_eq!(self.ask(rename), "ok");
                self.come(Of::Names, to);
            } else {
                let removed = self.ask(Request::Remove { db: Db(0), queues: &[name.as_bytes()] });
                assert_eq!(removed, "1");
            }
            self.go(Of::Names, &name);
        }
    }

    fn change_schedules(&mut self) {
        for _ in 0..self.rng.random_range(0..8) {
            self.made += 1;
            let name = format!("every{}", self.made);
            self.bench.say(&format!("SET s {name} body EVERY 30d"));
            self.come(Of::Schedules, name);
        }
        let share = [0, 10, 60][self.rng.random_range(0..3)];
        for name in self.some(Of::Schedules, share) {
            assert_eq!(self.bench.say(&format!("DEL s {name}")), "1");
            self.go(Of::Schedules, &name);
        }
    }

    /// The replica gets what it has not been told.
    fn tell(&mut self) {
        for (now, facts) in &self.bench.facts[self.told..] {
            self.replica.apply(*now, facts).expect("own facts are readable");
        }
        self.told = self.bench.facts.len();
    }

    /// The settings of a process that begins now: it draws a key, and takes the one that is kept.
    fn settings(&mut self) -> Settings {
        let drawn = self.rng.random();
        self.key = hash_key(&*self.disk, drawn).expect("a key");
        Settings { hash_seed: self.key, ..self.bench.engine.settings().clone() }
    }

    /// A new process reads the base and the log, or the log alone.
    fn restart(&mut self, seen: &mut Seen) {
        self.disk = match self.one_in(2) {
            true => self.disk.crash(&mut self.rng),
            false => self.disk.kill(),
        };
        if self.one_in(12) {
            self.disk = Lossy::new();
            seen.note("the key was lost");
        }
        let settings = self.settings();
        let before = self.bench.engine.digest();
        self.bench.engine = if self.one_in(2) {
            seen.note("restarted from a base");
            from_base(&mut self.bench.engine, settings)
        } else {
            let mut engine = Engine::new(settings);
            for (now, facts) in &self.bench.facts {
                engine.apply(*now, facts).expect("own facts are readable");
            }
            engine
        };
        assert_eq!(self.bench.engine.digest(), before);
        // Another node of the same cluster, with its key.
        let settings = self.bench.engine.settings().clone();
        if self.replica.settings().hash_seed != self.key {
            self.replica = Engine::new(settings);
            self.told = 0;
        }
        self.walks.iter_mut().for_each(|walk| walk.restarts += 1);
        seen.note("restarted");
    }

    fn change_leader(&mut self, seen: &mut Seen) {
        self.tell();
        std::mem::swap(&mut self.bench.engine, &mut self.replica);
        self.term += 1;
        let now = Micros((BEGIN_MS + self.bench.at_ms) * 1_000);
        let lead = Lead {
            term: self.term,
            node: self.term % 3 + 1,
            level: LEVEL_SCHEDULES,
            from: now,
            to: now,
        };
        self.bench.lead(&lead);
        self.replica.unlead();
        self.walks.iter_mut().for_each(|walk| walk.restarts += 1);
        seen.note("another leader");
    }

    fn begin(&mut self) {
        let by = ALL[self.rng.random_range(0..ALL.len())];
        let count = [1, 3, 10, 100, 1_000][self.rng.random_range(0..5)];
        let there = self.there[by.of() as usize].iter();
        let owed = there.filter(|name| by.fits(name)).cloned().collect();
        let (cursor, after, key) = (Cursor::BEGIN, String::new(), self.key);
        self.walks.push(Walk { by, count, cursor, after, owed, key, steps: 0, restarts: 0 });
    }

    /// Asks for the next page of a walk, which is checked.
    fn walk(&mut self, at: usize, seen: &mut Seen) {
        let mut walk = self.walks.swap_remove(at);
        let Walk { by, count, cursor, .. } = walk;
        let after = (!walk.after.is_empty()).then_some(walk.after.as_bytes());
        let pattern = matches!(by, By::ScanMatch).then_some(PATTERN.as_bytes());
        let said = match by {
            By::Scan | By::ScanMatch => {
                let scan = Scan {
                    filter: Filter { pattern, ..Filter::default() },
                    ..Scan::new(queue("q"), cursor, count)
                };
                self.ask(Request::Scan(scan))
            }
            By::ScanQueues => {
                let (db, count, pattern) = (Db(0), count.into(), Some(&b"n*"[..]));
                self.ask(Request::ScanQueues { db, cursor, pattern, count })
            }
            By::Queues => {
                let (db, order, pattern) = (Db(0), Order::Name, Some(&b"n*"[..]));
                let of = Queues { db, readable: None, pattern, order, count, after };
                self.ask(Request::Queues(of));
                let rows = self.bench.rows();
                let names = rows.iter().map(|row| String::from_utf8_lossy(&row.name).into_owned());
                names.collect::<Vec<_>>().join(" ")
            }
            By::List | By::ListMatch => {
                let after = after.map_or(String::new(), |_| format!("AFTER {}", walk.after));
                let of =
                    if by == By::ListMatch { format!("MATCH {PATTERN}") } else { String::new() };
                let said = self.bench.say(&format!("LIST s {after} {of} COUNT {count}"));
                said.split(' ').step_by(2).collect::<Vec<_>>().join(" ")
            }
        };
        let is_stale = by.has_cursor() && cursor != Cursor::BEGIN && walk.key != self.key;
        assert_eq!(said == "ERR", is_stale, "{walk:?} with the key {}: {said}", self.key);
        if is_stale {
            seen.note("a stale cursor was refused");
            return;
        }
        let names: Vec<&str> = said.split(' ').filter(|name| !name.is_empty()).collect();
        let there = &self.there[by.of() as usize];
        for name in &names {
            assert!(there.contains(*name) && by.fits(name), "{name} is not there: {walk:?}");
            walk.owed.remove(*name);
        }
        walk.steps += 1;
        walk.after = names.last().map_or(String::new(), |name| (*name).to_owned());
        (walk.cursor, walk.key) = (Cursor(self.bench.cursor()), self.key);
        let is_over = match by {
            By::ListMatch => names.is_empty(),
            _ if by.has_cursor() => walk.cursor == Cursor::END,
            _ => names.len() < count as usize,
        };
        if !is_over {
            assert!(walk.cursor.0 < 1 << 53, "clients with doubles hold it: {walk:?}");
            return self.walks.push(walk);
        }
        assert!(walk.owed.is_empty(), "left out: {walk:?}");
        seen.note("walked to the end");
        if walk.restarts > 0 && walk.steps > 1 {
            seen.note(match by {
                By::Scan => "SCAN of jobs over a restart",
                By::ScanMatch => "SCAN with MATCH over a restart",
                By::ScanQueues => "SCAN of queues over a restart",
                By::Queues => "QUEUES over a restart",
                By::List => "LIST over a restart",
                By::ListMatch => "LIST with MATCH over a restart",
            });
        }
    }

    fn turn(&mut self, seen: &mut Seen) {
        match self.rng.random_range(0..20) {
            0..4 => self.change_jobs(seen),
            4..6 => self.change_queues(),
            6 => self.change_schedules(),
            7 => self.restart(seen),
            8 => self.change_leader(seen),
            9 => self.bench.at(self.bench.at_ms + 300),
            10..13 if self.walks.len() < 8 => self.begin(),
            _ if self.walks.is_empty() => self.begin(),
            _ => {
                let at = self.rng.random_range(0..self.walks.len());
                self.walk(at, seen);
            }
        }
    }
}

/// As a start reads a base.
fn from_base(engine: &mut Engine, settings: Settings) -> Engine {
    let mut loader = Loader::new(settings);
    engine.begin_base();
    loop {
        let is_whole = engine.base_slice(1_000, 1 << 20);
        loader.images(engine.base_output()).expect("own images are readable");
        engine.base_output().clear();
        if is_whole {
            return Engine::loaded(loader).expect("a whole base");
        }
    }
}

fn run(seed: u64, seen: &mut Seen) {
    let mut world = World::new(seed);
    for _ in 0..world.rng.random_range(0..1_200) {
        world.made += 1;
        let id = format!("first:{}", world.made);
        let id = world.ask(Request::Add(Add { id: Some(id.as_bytes()), ..job("q", "-", 5_000) }));
        world.come(Of::Jobs, id);
    }
    (0..5).for_each(|_| world.change_queues());
    (0..5).for_each(|_| world.change_schedules());
    (0..300).for_each(|_| world.turn(seen));
    while !world.walks.is_empty() {
        world.walk(0, seen);
    }
}

/// A page without rows is the end of a LIST with MATCH, so a transaction, which looks at so many names only, says so.
#[test]
fn a_list_in_a_transaction_never_ends_early_without_a_word() {
    let mut bench = Bench::new();
    for number in 0..=SCHEDULES_LISTED_MAX {
        bench.say(&format!("SET s e{number:06} body EVERY 30d"));
    }
    bench.say("SET s last body EVERY 30d");
    let (queue, after, pattern) = (queue("s"), None, Some(&b"last"[..]));
    let list = Request::Schedule(Scheduling::List { queue, after, pattern, count: 10 });
    while bench.ask(1, list.clone()) == Outcome::Again {}
    bench.expect_events(&["1:last active"]);
    assert!(matches!(bench.transact(1, &[list]), TransactionBegun::Begun(_)));
    bench.expect_events(&["1:ERR"]);
}

#[test]
fn walks_return_what_is_there_throughout() {
    let seen = for_each_seed(200, run);
    seen.check(&[
        "shrunk",
        "restarted",
        "restarted from a base",
        "another leader",
        "the key was lost",
        "a stale cursor was refused",
        "walked to the end",
        "SCAN of jobs over a restart",
        "SCAN with MATCH over a restart",
        "SCAN of queues over a restart",
        "QUEUES over a restart",
        "LIST over a restart",
        "LIST with MATCH over a restart",
    ]);
}
