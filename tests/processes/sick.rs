//! One node of three is sick while clients work: its disk hangs, is slow or full, it stands still, is cut off, loses
//! packets or is killed, as leader and as follower. Adds go on within a bound, and nothing that a client was told turns
//! out to be false.
//!
//! `DELAYD_CASES=50 cargo test --locked --test it processes::sick::adds -- --nocapture` strikes so often with each kind
//! in each role, and prints a table: how long no add was answered, and consumers got no job.

use crate::processes::audit::{Clients, survives};
use crate::processes::calls::At;
use crate::processes::history::Clocks;
use crate::processes::silence::{Served, Watch, longest};
use crate::processes::trio::{NODES, Trio, name};
use crate::support::faults::{Faults, Harm};
use crate::support::patience::{Machine, pass};
use crate::support::program::seed;
use crate::support::seeds::{Telltale, number_of};
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The election timeout by default.
const ELECTION: Duration = Duration::from_millis(300);
/// The longest that no add is answered, whatever the node has.
const SILENCE: Duration = Duration::from_millis(2_000).saturating_add(ELECTION);
/// The same of a leader that is killed, where `DELAYD_CASES` measures: one kill of ten may be slower beside other work.
const KILLED: Duration = Duration::from_millis(800);
/// The most that a machine which is late adds to that.
const LATE: Duration = Duration::from_secs(1);
/// Longer than what is bounded, so that a cluster which waits for the end of a fault is noticed, ms.
const LASTS_MS: std::ops::Range<u64> = 3_500..4_000;
const DOWN_MS: std::ops::Range<u64> = 1_000..1_500;
/// How long syncs of a slow disk take, µs.
const SLOW_US: [u64; 3] = [20_000, 100_000, 400_000];
/// Of a node's file system. What its journal has takes a quarter of it at most.
const DISK_BYTES: u64 = 48 << 20;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Hung,
    /// Killed while it hangs: what was answered meanwhile is not in its log.
    HungAndKilled,
    Slow,
    Full,
    Stopped,
    CutOff,
    LosesPackets,
    Killed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Role {
    Leader,
    Follower,
}

type Case = (Kind, Role);

/// Those that every run of the tests strikes with.
const FEW: [Case; 5] = [
    (Kind::Hung, Role::Leader),
    (Kind::Full, Role::Leader),
    (Kind::Stopped, Role::Leader),
    (Kind::Killed, Role::Leader),
    (Kind::Hung, Role::Follower),
];
const KINDS: [Kind; 8] = [
    Kind::Hung,
    Kind::HungAndKilled,
    Kind::Slow,
    Kind::Full,
    Kind::Stopped,
    Kind::CutOff,
    Kind::LosesPackets,
    Kind::Killed,
];

/// One that struck, and until when what was served is counted as its own.
struct Struck {
    case: Case,
    text: String,
    from: At,
    to: At,
    /// The longest silence that is right, on a machine as late as this one was.
    allowed: Duration,
}

impl Kind {
    fn harm(self, random: &mut SmallRng) -> Harm {
        match self {
            Kind::Hung | Kind::HungAndKilled => Harm::Hang,
            Kind::Slow => Harm::Slow(*SLOW_US.choose(random).expect("some")),
            Kind::Full => Harm::Fill,
            Kind::Stopped => Harm::Pause,
            Kind::CutOff => Harm::Apart,
            Kind::LosesPackets => Harm::Lose,
            Kind::Killed => Harm::Kill,
        }
    }

    fn allowed(self) -> Duration {
        let measures = number_of("DELAYD_CASES").is_some();
        if self == Kind::Killed && measures { KILLED } else { SILENCE }
    }
}

/// In an order of the seed.
fn cases(random: &mut SmallRng) -> Vec<Case> {
    let all = KINDS.into_iter().flat_map(|kind| [(kind, Role::Leader), (kind, Role::Follower)]);
    let mut cases = match number_of("DELAYD_CASES") {
        Some(count) => all.flat_map(|case| (0..count).map(move |_| case)).collect(),
        None => FEW.to_vec(),
    };
    cases.shuffle(random);
    cases
}

struct Ward {
    trio: Trio,
    watch: Watch,
    faults: Faults,
    random: SmallRng,
    begin: Instant,
    wrong: Vec<String>,
}

impl Ward {
    fn strike(&mut self, case: Case) -> Struck {
        let (kind, role) = case;
        let leader = self.trio.leader();
        let at = match role {
            Role::Leader => leader,
            Role::Follower => (leader + self.random.random_range(1..NODES)) % NODES,
        };
        self.trio.hangs_whole = self.random.random_ratio(1, 2);
        self.trio.cuts_lose = self.random.random_ratio(1, 2);
        let ms = self.random.random_range(if kind == Kind::Killed { DOWN_MS } else { LASTS_MS });
        let harm = kind.harm(&mut self.random);
        let (from, machine) = (At::now(), Machine::watch());
        self.hit(at, harm, ms);
        pass(Duration::from_millis(ms));
        let mut text = format!("{}, {role:?}: {}", name(at), self.faults.newest());
        if kind == Kind::HungAndKilled {
            self.hit(at, Harm::Kill, 0);
            text += ", then kill it";
        }
        self.faults.heal(&mut self.trio);
        let healed = At::now();
        self.trio.wait_for_voters();
        if let Some(wrong) = self.watch.goes_on(healed) {
            self.wrong.push(format!("{text}: {wrong}"));
        }
        let allowed = machine.allows(kind.allowed()).min(kind.allowed() + LATE);
        Struck { case, text, from, to: At::now(), allowed }
    }

    fn hit(&mut self, at: usize, harm: Harm, ms: u64) {
        let now = self.begin.elapsed().as_micros() as u64;
        self.faults.hit(now, at, harm, ms * 1_000, &mut self.trio);
    }
}

/// By kind and role: how long no add was answered, and each consumer got no job.
type Rows = BTreeMap<Case, Vec<[Duration; 3]>>;

/// What took too long.
fn judge(struck: &[Struck], served: &Served) -> (Rows, Vec<String>) {
    let (mut rows, mut wrong) = (Rows::new(), Vec::new());
    for (number, Struck { case, text, from, to, allowed }) in struck.iter().enumerate() {
        let silent = [&served.adds, &served.bounded, &served.patient]
            .map(|served| longest(served, from.us, to.us));
        println!(
            "{number} {case:?}: adds {:?}, jobs {:?}, {:?}: {text}",
            silent[0], silent[1], silent[2]
        );
        if silent[0] > *allowed {
            wrong.push(format!("no add for {:?}, {allowed:?} at most: {text}", silent[0]));
        }
        rows.entry(*case).or_default().push(silent);
    }
    (rows, wrong)
}

fn print(rows: &Rows) {
    println!(
        "| | role | faults | no add: median | worst | bounded wait, no job: median | worst | endless: median | worst |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for ((kind, role), silent) in rows {
        let mut cells = format!("| {kind:?} | {role:?} | {} |", silent.len());
        for which in 0..3 {
            let mut all: Vec<Duration> = silent.iter().map(|silent| silent[which]).collect();
            all.sort_unstable();
            let [median, worst] = [all[(all.len() - 1) / 2], all[all.len() - 1]];
            cells += &format!(" {:.2} s | {:.2} s |", median.as_secs_f64(), worst.as_secs_f64());
        }
        println!("{cells}");
    }
}

#[test]
fn adds_go_on_while_one_node_is_sick() {
    let seed = seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let cases = cases(&mut random);
    let mut options = vec!["--cluster-lease-grace", "500ms"];
    // Little but what is needed, so that a disk which another program fills has no room for jobs.
    options.extend(["--journal-segment-size", "1mb", "--cluster-log-keep", "0"]);
    let trio = Trio::start_small("sick", &options, DISK_BYTES);
    let clients = Clients::start(&trio, seed);
    let watch = Watch::start(&trio.addresses);
    let faults = Faults::new(seed, Vec::new(), 0);
    let (begin, wrong) = (Instant::now(), Vec::new());
    let mut ward = Ward { trio, watch, faults, random, begin, wrong };
    let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
    if let Some(wrong) = ward.watch.goes_on(At::now()) {
        panic!("before anything: {wrong}");
    }
    let struck: Vec<Struck> = cases.into_iter().map(|case| ward.strike(case)).collect();
    let Ward { mut trio, watch, mut wrong, .. } = ward;
    let served = watch.stop();
    let (rows, late) = judge(&struck, &served);
    wrong.extend(late);
    print(&rows);
    let (seen, _) = clients.check(&trio, served.calls, Clocks::default());
    survives(&mut trio, &seen);
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), struck.len());
}
