//! Schedules of the real program: each instant is told of once, whatever a kill cut off, and programs that say what
//! they want at every start change nothing.
//!
//! `DELAYD_SEED=17 cargo test --test it program::recurring` replays the choices of one run (what the machine does at
//! which moment cannot be replayed), `DELAYD_CASES=1000` kills a tenth so often.

use crate::support::patience::{pass, until};
use crate::support::program::{Folder, Program, Reply, Wire, seed, wall_ms};
use crate::support::seeds::{Telltale, number_of};
use delayd::limits::LAZY_SYNC_US;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

const QUEUE: &str = "polls";
const EVERY_MS: u64 = 100;
const CONSUMERS: u64 = 2;
/// Each way of what becomes of instants that found nobody at work.
const SCHEDULES: [Words; 5] = [
    ("newest", "CATCHUP 1"),
    ("every", "CATCHUP 10000"),
    ("alone", "CATCHUP 5 OVERLAP SKIP"),
    ("latest", "CATCHUP 5 OVERLAP REPLACE"),
    ("later", "CATCHUP 3 SPREAD 60ms"),
];

/// A schedule's name, and what SET says of it beside.
type Words = (&'static str, &'static str);

/// What SET answers. A job whose consumer was killed with its server comes again soon.
fn set(wire: &mut Wire, (name, options): Words) -> io::Result<(String, u64)> {
    let of_jobs = "ATTEMPTS 0 LEASE 400ms BACKOFF 1ms";
    let line = format!("DELAY.SCHEDULE SET {QUEUE} {name} b EVERY {EVERY_MS} {options} {of_jobs}");
    let reply = wire.try_ask(&line)?;
    let Some([what, next]) = reply.array() else { panic!("{reply:?}") };
    Ok((what.text().to_owned(), next.number() as u64))
}

/// What GET shows of a schedule.
#[derive(Clone, Debug, Default)]
struct Shown {
    next: Option<u64>,
    next_due: Option<u64>,
    made: u64,
    missed: u64,
    skipped: u64,
    replaced: u64,
}

impl Shown {
    fn of(wire: &mut Wire, name: &str) -> Shown {
        let reply = wire.ask(&format!("DELAY.SCHEDULE GET {QUEUE} {name}"));
        let all = reply.array().expect("it is there");
        let of = |wanted: &str| {
            let mut pairs = all.chunks(2).filter(|pair| pair[0].text() == wanted);
            match &pairs.next().expect("GET shows it")[1] {
                Reply::Nil => None,
                number => Some(number.number() as u64),
            }
        };
        let count = |name: &str| of(name).expect("a total");
        Shown {
            next: of("next"),
            next_due: of("next-due"),
            made: count("made"),
            missed: count("missed"),
            skipped: count("skipped"),
            replaced: count("replaced"),
        }
    }

    /// How many instants it has told of.
    fn told(&self) -> u64 {
        self.made + self.missed + self.skipped
    }
}

/// A schedule as this test follows it.
#[derive(Debug)]
struct Followed {
    words: Words,
    /// Its first nominal instant: the others follow from it.
    first: u64,
    shown: Shown,
}

impl Followed {
    /// Each instant that came due was told of, and what was told before is not lost.
    fn look(&mut self, wire: &mut Wire) {
        let (name, asked_ms) = (self.words.0, wall_ms());
        let before = std::mem::replace(&mut self.shown, Shown::of(wire, name));
        let now = &self.shown;
        let next = self.first + now.told() * EVERY_MS;
        assert!(now.next.is_none_or(|shown| shown == next), "{name} from {}: {now:?}", self.first);
        // SPREAD lets it come later by less than the distance.
        let came_due = asked_ms - 2 * EVERY_MS..=wall_ms();
        assert!(came_due.contains(&(next - EVERY_MS)), "{name}: {came_due:?}, {now:?}");
        let totals = |of: &Shown| [of.made, of.missed, of.skipped, of.replaced];
        let pairs = totals(&before).into_iter().zip(totals(now));
        pairs.for_each(|(was, is)| assert!(was <= is, "{name}: {before:?}, then {now:?}"));
    }

    /// Nothing that should have come has not.
    fn look_at_work(&mut self, wire: &mut Wire) {
        let asked_ms = wall_ms();
        self.look(wire);
        assert!(self.shown.next_due.is_some_and(|due| due >= asked_ms), "at {asked_ms}: {self:?}");
    }
}

/// What consumers were told.
#[derive(Debug, Default)]
struct Ledger {
    /// How often each occurrence was handed out, by id.
    given: HashMap<String, u64>,
    /// The tokens of acknowledgements that were answered.
    acked: HashMap<String, i64>,
}

impl Ledger {
    /// A delivery that was read at `now_ms`.
    fn give(&mut self, id: &str, token: i64, due_ms: u64, now_ms: u64) {
        assert!(now_ms >= due_ms, "{id} was due at {due_ms}, and was there at {now_ms}");
        // What was decided before the acknowledgement may have been read after it: tokens tell.
        let acked = self.acked.get(id);
        assert!(acked.is_none_or(|acked| token < *acked), "{id} came again after its ACK");
        *self.given.entry(id.to_owned()).or_default() += 1;
    }

    /// The nominal instants of this schedule that were handed out.
    fn instants_of(&self, name: &str) -> Vec<u64> {
        let split = self.given.keys().map(|id| id.split_once('@').expect("name@instant"));
        split.filter(|(of, _)| *of == name).map(|(_, at)| at.parse().expect("an instant")).collect()
    }
}

/// Takes some jobs and acknowledges them, but for a share that is left to its lease.
fn consume(
    wire: &mut Wire,
    ledger: &Mutex<Ledger>,
    mut left: impl FnMut() -> bool,
) -> io::Result<()> {
    let reply = wire.try_ask(&format!("DELAY.RESERVE 1 1 {QUEUE} COUNT 4"))?;
    let now_ms = wall_ms();
    for job in reply.array().unwrap_or_default() {
        let job = job.array().expect("a job");
        let (id, token, due_ms) = (job[1].text(), job[3].number(), job[5].number() as u64);
        ledger.lock().unwrap().give(id, token, due_ms, now_ms);
        if left() {
            continue;
        }
        let acked = wire.try_ask(&format!("DELAY.ACK {QUEUE} {id} {token}"))?;
        if acked == Reply::Number(1) {
            ledger.lock().unwrap().acked.insert(id.to_owned(), token);
        }
    }
    Ok(())
}

/// A consumer, until the server is gone.
fn work(address: SocketAddr, seed: u64, ledger: &Mutex<Ledger>) -> io::Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut wire = Wire::connect(address)?;
    loop {
        consume(&mut wire, ledger, || random.random_bool(0.1))?;
    }
}

/// A program that starts again and again, also in the ms of an occurrence.
fn repeat(address: SocketAddr) -> io::Result<()> {
    let mut wire = Wire::connect(address)?;
    loop {
        for words in SCHEDULES {
            assert_eq!(set(&mut wire, words)?.0, "same", "{words:?}");
        }
    }
}

struct Play {
    random: SmallRng,
    followed: Vec<Followed>,
    ledger: Mutex<Ledger>,
    folder: Folder,
}

impl Play {
    fn start(&self) -> Program {
        Program::start(
            &self.folder.0,
            &["--appendfsync", "always", "--journal-segment-size", "1mb"],
        )
    }

    /// Every instance of a program says the same at its start.
    fn say_the_same(&mut self, wire: &mut Wire) {
        for followed in &mut self.followed {
            let (what, next) = set(wire, followed.words).expect("an answer");
            assert_eq!(what, "same", "{followed:?}");
            assert!(followed.shown.next.is_none_or(|before| before <= next), "{followed:?}");
            followed.look_at_work(wire);
        }
    }

    /// Work for a while, then a kill at any moment, and a while without a server.
    fn round(&mut self) {
        let program = self.start();
        let mut wire = program.connect();
        self.say_the_same(&mut wire);
        let (address, seed) = (program.address, self.random.random::<u64>());
        let [load, away] =
            [200..600, 150..450].map(|ms| Duration::from_millis(self.random.random_range(ms)));
        let ledger = &self.ledger;
        let log = std::thread::scope(|scope| {
            for number in 0..CONSUMERS {
                scope
                    .spawn(move || work(address, seed ^ number, ledger).expect_err("it is killed"));
            }
            scope.spawn(move || repeat(address).expect_err("it is killed"));
            pass(load);
            self.followed.iter_mut().for_each(|followed| followed.look_at_work(&mut wire));
            program.kill()
        });
        assert!(!log.contains("panicked"), "{log}");
        pass(away);
    }

    /// All that was made is handed out, and each of it is an instant that came due.
    fn finish(mut self) {
        let program = self.start();
        let mut wire = program.connect();
        self.say_the_same(&mut wire);
        for followed in &mut self.followed {
            wire.ask(&format!("DELAY.SCHEDULE PAUSE {QUEUE} {}", followed.words.0));
            followed.look(&mut wire);
        }
        while wire.ask(&format!("DELAY.LEN {QUEUE}")) != Reply::Number(0) {
            consume(&mut wire, &self.ledger, || false).expect("it is there");
        }
        let ledger = std::mem::take(&mut self.ledger).into_inner().unwrap();
        for Followed { words: (name, _), first, shown } in &self.followed {
            let given = ledger.instants_of(name);
            println!("{name}: {} handed out, {shown:?}", given.len());
            let span = *first..first + shown.told() * EVERY_MS;
            let fits = |at: &u64| span.contains(at) && (at - first).is_multiple_of(EVERY_MS);
            assert!(given.iter().all(fits), "{name}, {span:?}: {given:?}");
            let count = given.len() as u64;
            assert!((shown.made - shown.replaced..=shown.made).contains(&count), "{name}");
        }
        self.check_what_came_of_downtime();
    }

    /// A run in which nothing was missed, skipped or replaced proves nothing.
    fn check_what_came_of_downtime(&self) {
        let of = |name: &str| {
            let found = self.followed.iter().find(|followed| followed.words.0 == name);
            found.expect("it is one of them").shown.clone()
        };
        assert!(of("newest").missed > 0 && of("alone").skipped > 0 && of("latest").replaced > 0);
        let every = of("every");
        assert_eq!((every.missed, every.skipped, every.replaced), (0, 0, 0), "all are made up for");
    }
}

#[test]
fn each_instant_is_told_of_once_over_kills() {
    let seed = seed();
    let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
    let mut play = Play {
        random: SmallRng::seed_from_u64(seed),
        followed: Vec::new(),
        ledger: Mutex::default(),
        folder: Folder::new("recurring"),
    };
    let program = play.start();
    let mut wire = program.connect();
    for words in SCHEDULES {
        let (what, first) = set(&mut wire, words).expect("an answer");
        assert_eq!(what, "created");
        play.followed.push(Followed { words, first, shown: Shown::default() });
    }
    program.kill();
    for _ in 0..number_of("DELAYD_CASES").map_or(6, |cases| (cases / 10).max(6)) {
        play.round();
    }
    play.finish();
}

const INSTANCES: usize = 20;
/// What each instance of a program says: nothing of it comes due meanwhile.
const WANTED: [&[&str]; 3] = [
    &["hourly", "poll", "EVERY", "1h"],
    &["yearly", "sum up", "CRON", "0 8 1 1 *", "TZ", "Europe/Berlin", "OVERLAP", "SKIP"],
    &["spread", "", "EVERY", "1d", "SPREAD", "1h", "FROM", "@1800000000000", "ATTEMPTS", "3"],
];

fn say(wire: &mut Wire, words: &[&str]) -> Reply {
    let args = ["DELAY.SCHEDULE", "SET", QUEUE].iter().chain(words);
    wire.call(&args.map(|arg| arg.as_bytes()).collect::<Vec<_>>())
}

/// All instances say it at the same moment; what each was answered, and the journal's index before they said it again.
fn start_instances(program: &Program, again: usize) -> (Vec<Reply>, u64) {
    let [begin, end] = [INSTANCES, INSTANCES + 1].map(Barrier::new);
    std::thread::scope(|scope| {
        let instance = || {
            let mut wire = program.connect();
            begin.wait();
            let mut answers: Vec<Reply> = WANTED.map(|words| say(&mut wire, words)).into();
            end.wait();
            end.wait();
            for _ in 0..again {
                answers.extend(WANTED.map(|words| say(&mut wire, words)));
            }
            answers
        };
        let instances: Vec<_> = (0..INSTANCES).map(|_| scope.spawn(instance)).collect();
        end.wait();
        let index = program.connect().number("journal_proposed_index");
        end.wait();
        let answers = instances.into_iter().flat_map(|instance| instance.join().unwrap());
        (answers.collect(), index)
    })
}

/// No client waits for the fact of an occurrence, so it is not synced at once; but it is in the file, and the death of the
/// process alone cannot take it from there: to the next start the instant would be one that was missed. A program that wrote
/// it with the next sync would be late by [`LAZY_SYNC_US`] each time; a busy machine is now and then.
#[test]
fn an_occurrence_that_nobody_has_asked_for_is_in_the_file_at_once() {
    let folder = Folder::new("at-once");
    let program = Program::start(&folder.0, &["--appendfsync", "always"]);
    let mut wire = program.connect();
    let dumped = || {
        let mut dump = Command::new(env!("CARGO_BIN_EXE_delayd"));
        let facts = dump.args(["dump", folder.text()]).output().unwrap().stdout;
        String::from_utf8(facts).unwrap().matches("\"fact\":\"occurred\"").count()
    };
    let mut round = 0;
    until("it is in the file before it is synced", || {
        round += 1;
        let next = wall_ms() + 3_000;
        let from = next - 3_600_000;
        let reply = wire.ask(&format!("DELAY.SCHEDULE SET q s{round} b EVERY 1h FROM @{from}"));
        assert_eq!(reply.array().expect("two")[1].number() as u64, next);
        assert_eq!(dumped(), round - 1, "none before its time");
        until("it is in the file", || (dumped() == round).then_some(()));
        let was_ms = wall_ms();
        assert!(was_ms >= next);
        (was_ms < next + LAZY_SYNC_US / 1_000).then_some(())
    });
    program.kill();
}

/// How many of the answers say this, for each of what was said.
fn count_of(answers: &[Reply], what: &str) -> [usize; 3] {
    let mut counts = [0; 3];
    for (at, answer) in answers.iter().enumerate() {
        let said = answer.array().expect("what happened, and when it comes next")[0].text();
        counts[at % 3] += usize::from(said == what);
    }
    counts
}

#[test]
fn twenty_instances_that_say_the_same_at_every_start_change_nothing() {
    const AGAIN: usize = 25;
    let folder = Folder::new("instances");
    for start in 0..3 {
        let program = Program::start(&folder.0, &[]);
        let mut wire = program.connect();
        let (answers, index) = start_instances(&program, AGAIN);
        let created = usize::from(start == 0);
        assert_eq!(count_of(&answers, "created"), [created; 3], "start {start}");
        let same = INSTANCES * (AGAIN + 1) - created;
        assert_eq!(count_of(&answers, "same"), [same; 3], "start {start}");
        let next = |at: usize| &answers[at].array().expect("two")[1];
        assert!((0..answers.len()).all(|at| next(at) == next(at % 3)), "the next one moved");
        assert_eq!(wire.number("journal_proposed_index"), index, "the journal was written to");
        assert_eq!(wire.number("schedules"), 3);
        program.kill();
    }
    let mut dump = Command::new(env!("CARGO_BIN_EXE_delayd"));
    let facts = dump.args(["dump", folder.text()]).output().unwrap().stdout;
    let facts = String::from_utf8(facts).unwrap();
    assert_eq!(facts.matches("\"fact\":\"scheduled\"").count(), 3, "{facts}");
}
