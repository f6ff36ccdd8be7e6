//! Partitions move between one, three and five nodes while these are killed, stopped and asked to hand over and clients
//! work in all partitions; and nothing that a client was told turns out to be false.
//!
//! `DELAYD_CASES=300` draws as many faults (2), `DELAYD_SEED=17` the same ones.

use crate::processes::calls::{Finder, QUEUES, Tag};
use crate::processes::history::{Clocks, History};
use crate::processes::load::Load;
use crate::processes::spread::{Nodes, PARTITIONS};
use crate::processes::totals;
use crate::processes::trio::wait_until;
use crate::support::patience::pass;
use crate::support::program::seed;
use crate::support::seeds::{Telltale, number_of};
use crate::support::seen::Seen;
use delayd::hash_slot::{hash_slot, partition_of};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const NODES: usize = 5;
/// A plan that was cut off by faults again and again is done by then once there are none.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(60);

/// Which nodes hold everything, one plan after the other. They begin as with the last one.
const PLANS: [&[usize]; 6] =
    [&[0, 1, 2, 3, 4], &[2, 3, 4], &[3], &[3, 4, 0], &[0, 1, 2, 3, 4], &[0, 1, 2]];

/// `delayd cluster balance`, begun again until it has done what it was asked for.
struct Mover {
    /// So many were carried out.
    plan: usize,
    running: Option<Child>,
}

impl Mover {
    fn begin(&mut self, nodes: &Nodes) {
        let (now, next) = (self.before(), PLANS[self.plan % PLANS.len()]);
        let mut command = nodes.balancing(*now.first().expect("a node"), &[]);
        for node in 0..NODES {
            let name = format!("n{node}");
            match (now.contains(&node), next.contains(&node)) {
                (false, true) => command.args(["--with", &nodes.place(node)]),
                (true, false) => command.args(["--without", &name]),
                _ => &mut command,
            };
        }
        command.args(["--replicas", &next.len().min(3).to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.running = Some(command.spawn().unwrap());
    }

    /// The nodes of the plan before.
    fn before(&self) -> &'static [usize] {
        PLANS[(self.plan + PLANS.len() - 1) % PLANS.len()]
    }

    /// Goes on; whether a plan was carried out.
    fn go_on(&mut self, nodes: &Nodes) -> bool {
        let Some(running) = &mut self.running else {
            self.begin(nodes);
            return false;
        };
        let Some(status) = running.try_wait().unwrap() else { return false };
        self.running = None;
        if status.success() {
            self.plan += 1;
        }
        status.success()
    }

    fn go_on_for(&mut self, lasts: Duration, nodes: &Nodes) {
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            self.go_on(nodes);
            pass(Duration::from_millis(20));
        }
    }

    fn interrupt(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.kill();
            let _ = running.wait();
        }
    }

    fn finish(&mut self, nodes: &Nodes) {
        let begin = Instant::now();
        while !self.go_on(nodes) {
            assert!(begin.elapsed() < CARRIED_OUT_WITHIN, "plan {} is not carried out", self.plan);
            pass(Duration::from_millis(20));
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.interrupt();
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Terminate,
    Pause,
    HandOver,
    /// The mover itself.
    Interrupt,
}

impl Fault {
    fn draw(random: &mut SmallRng) -> Fault {
        match random.random_range(0..10) {
            0..4 => Fault::Kill,
            4 | 5 => Fault::Terminate,
            6 | 7 => Fault::Pause,
            8 => Fault::HandOver,
            _ => Fault::Interrupt,
        }
    }

    /// Begins, lasts and ends; all nodes run then.
    fn happen(
        self,
        node: usize,
        partition: u16,
        lasts: Duration,
        nodes: &mut Nodes,
        mover: &mut Mover,
    ) {
        match self {
            Fault::Kill => drop(nodes.programs[node].take().unwrap().kill()),
            Fault::Terminate => drop(nodes.programs[node].take().unwrap().stop()),
            Fault::Pause => nodes.programs[node].as_ref().unwrap().pause(),
            // Refused unless it leads.
            Fault::HandOver => {
                drop(nodes.wire(node, partition).map(|mut wire| wire.try_ask("FAILOVER")))
            }
            Fault::Interrupt => mover.interrupt(),
        }
        mover.go_on_for(lasts, nodes);
        match self {
            Fault::Kill | Fault::Terminate => nodes.begin(node),
            Fault::Pause => nodes.programs[node].as_ref().unwrap().go_on(),
            Fault::HandOver | Fault::Interrupt => {}
        }
    }
}

/// What the partition's leader shows, twice, once no lease runs.
fn look(addresses: &[SocketAddr], tag: Tag) -> Seen {
    let mut finder = Finder::new(addresses, SmallRng::seed_from_u64(1));
    let (names, mut last) = (tag.names(), None);
    wait_until("the leader shows the same twice", || {
        let mut seen = Seen::try_look(finder.find().as_mut()?, &names)?;
        seen.stats.values_mut().for_each(|totals| _ = totals.remove("oldest-ready-age-ms"));
        let is_leased = seen.jobs.values().any(|job| job.state == "leased");
        let before = last.replace(seen.clone());
        (!is_leased && before.as_ref() == Some(&seen)).then_some(seen)
    })
    .renamed(&names, &QUEUES)
}

#[test]
fn what_clients_were_told_is_true_while_partitions_move_and_nodes_fail() {
    let seed = seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let small = ["--journal-segment-size", "1mb", "--cluster-lease-grace", "500ms"];
    let mut nodes = Nodes::start(&small);
    (3..NODES).for_each(|_| drop(nodes.join()));
    let partitions: Vec<(Tag, Vec<SocketAddr>)> = (0..PARTITIONS)
        .map(|partition| {
            let tag = (0..).map(|n| format!("t{n}"));
            let mut own =
                tag.filter(|tag| partition_of(hash_slot(tag.as_bytes()), PARTITIONS) == partition);
            let place = |port: &u16| SocketAddr::from(([127, 0, 0, 1], port + partition));
            (Tag::new(&own.next().unwrap()), nodes.ports.iter().map(place).collect())
        })
        .collect();
    for (_, addresses) in &partitions {
        let mut finder = Finder::new(addresses, SmallRng::seed_from_u64(seed));
        wait_until("each partition has a leader", || finder.find());
    }
    let loads: Vec<Load> = (0..)
        .zip(&partitions)
        .map(|(number, (tag, addresses))| Load::start_in(addresses, *tag, seed ^ number << 8))
        .collect();
    let mut mover = Mover { plan: 0, running: None };
    let mut happened = BTreeMap::<String, u64>::new();
    for number in 0..number_of("DELAYD_CASES").unwrap_or(2) {
        let (fault, node) = (Fault::draw(&mut random), random.random_range(0..NODES));
        let lasts = Duration::from_millis(random.random_range(0..2_500));
        let partition = random.random_range(0..PARTITIONS);
        println!(
            "{number}: {fault:?} of n{node} for {} ms, in plan {}",
            lasts.as_millis(),
            mover.plan
        );
        let _telltale =
            Telltale(format!("DELAYD_SEED={seed}, fault {number}, {fault:?} of n{node}"));
        fault.happen(node, partition, lasts, &mut nodes, &mut mover);
        *happened.entry(format!("{fault:?}")).or_default() += 1;
        // So that a plan gets somewhere between two faults.
        let rest = Duration::from_millis(random.random_range(500..3_000));
        mover.go_on_for(rest, &nodes);
    }
    mover.finish(&nodes);
    println!("{happened:?}, {} plans", mover.plan);
    let calls: Vec<_> = loads.into_iter().map(Load::stop).collect();
    for ((tag, addresses), calls) in partitions.iter().zip(calls) {
        let seen = look(addresses, *tag);
        let history = History::of(calls.clone(), Clocks::default());
        println!("{:?}", history.counts);
        assert!(history.counts.get("adds answered").is_some_and(|count| *count > 20), "few");
        let mut wrong = history.check(&seen);
        wrong.extend(totals::check(&calls, &seen));
        assert!(wrong.is_empty(), "{tag:?}: {:#?}", &wrong[..wrong.len().min(10)]);
    }
    let placed = nodes.placed();
    let plan = mover.before();
    let is_planned = |name: &String| plan.iter().any(|node| format!("n{node}") == *name);
    assert!(placed.iter().flatten().all(is_planned), "{placed:?}, not {plan:?}");
}
