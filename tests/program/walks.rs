//! Walks that go on after the program was killed or stopped in order: whatever was there throughout is returned.
//! `tests/engine/walks.rs` has the same in virtual time, with changes of the leader.

use crate::support::program::{Folder, Program, Reply, Wire, seed};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;

const JOBS: usize = 2_000;
const QUEUES: usize = 300;
const SCHEDULES: usize = 60;

/// A command that walks; `{}` is where it goes on.
struct Walk {
    line: &'static str,
    /// Of a reply, the names and where it goes on; none at the end.
    read: fn(&Reply) -> (Vec<String>, Option<String>),
    place: Option<String>,
    owed: BTreeSet<String>,
}

impl Walk {
    fn step(&mut self, wire: &mut Wire) {
        let Some(place) = self.place.take() else { return };
        let reply = wire.ask(&self.line.replace("{}", &place));
        assert!(reply.array().is_some(), "{} at {place}: {reply:?}", self.line);
        let (names, next) = (self.read)(&reply);
        names.iter().for_each(|name| _ = self.owed.remove(name));
        self.place = next;
    }
}

fn all(prefix: &str, count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

/// A cursor and an array, whose elements are names or begin with one.
fn of_scan(reply: &Reply) -> (Vec<String>, Option<String>) {
    let [cursor, found] = reply.array().unwrap() else { panic!("{reply:?}") };
    let (names, cursor) = (names(found), cursor.text().to_owned());
    assert!(cursor.parse::<u64>().unwrap() < 1 << 53, "{cursor} is too large for a double");
    (names, (cursor != "0").then_some(cursor))
}

/// Rows that begin with a name, behind which it goes on.
fn of_rows(reply: &Reply) -> (Vec<String>, Option<String>) {
    let names = names(reply);
    let last = names.last().cloned();
    (names, last)
}

fn names(rows: &Reply) -> Vec<String> {
    let name = |row: &Reply| match row {
        // DELAY.QUEUES answers with maps, whose first field is the name.
        Reply::Array(row) if row[0].text() == "name" => row[1].text().to_owned(),
        Reply::Array(row) => row[0].text().to_owned(),
        name => name.text().to_owned(),
    };
    rows.array().unwrap().iter().map(name).collect()
}

fn walks() -> Vec<Walk> {
    let walk = |line, read, place: &str, owed| Walk { line, read, place: Some(place.into()), owed };
    vec![
        walk("DELAY.SCAN q {} COUNT 100", of_scan, "0", all("job:", JOBS)),
        walk("DELAY.SCAN q {} STATE DELAYED MATCH job:* COUNT 70", of_scan, "0", all("job:", JOBS)),
        walk("SCAN {} MATCH n* COUNT 20", of_scan, "0", all("n", QUEUES)),
        // A word is never empty here; `.` comes before all names.
        walk("DELAY.QUEUES BY NAME MATCH n* COUNT 20 AFTER {}", of_rows, ".", all("n", QUEUES)),
        walk("DELAY.SCHEDULE LIST s COUNT 5 AFTER {}", of_rows, ".", all("e", SCHEDULES)),
    ]
}

#[test]
fn walks_go_on_after_a_kill_and_a_stop() {
    let mut random = SmallRng::seed_from_u64(seed());
    let folder = Folder::new("walks");
    let mut program = Program::start(&folder.0, &[]);
    let mut wire = program.connect();
    let mut lines: Vec<String> =
        all("job:", JOBS).iter().map(|id| format!("DELAY.ADD q 1d x ID {id}")).collect();
    lines.extend(all("n", QUEUES).iter().map(|name| format!("DELAY.ADD {name} 1d x ID one")));
    lines.extend(
        all("e", SCHEDULES).iter().map(|name| format!("DELAY.SCHEDULE SET s {name} x EVERY 1d")),
    );
    lines.iter().for_each(|line| wire.push_line(line));
    wire.flush().unwrap();
    lines
        .iter()
        .for_each(|line| assert!(!matches!(wire.read().unwrap(), Reply::Error(_)), "{line}"));

    let (mut walks, mut more) = (walks(), 0);
    for round in 0.. {
        for walk in &mut walks {
            (0..random.random_range(0..4)).for_each(|_| walk.step(&mut wire));
        }
        if walks.iter().all(|walk| walk.place.is_none()) {
            break;
        }
        // What comes and goes meanwhile makes the tables larger, and moves jobs.
        for _ in 0..random.random_range(0..300) {
            more += 1;
            wire.ask(&format!("DELAY.ADD q 1d x ID more:{more}"));
        }
        wire.ask(&format!("DELAY.DEL q more:{}", random.random_range(0..more + 1)));
        program = match round % 4 {
            0 => {
                program.kill();
                Program::start(&folder.0, &[])
            }
            2 => {
                program.stop();
                Program::start(&folder.0, &[])
            }
            _ => continue,
        };
        wire = program.connect();
    }
    for walk in walks {
        assert!(walk.owed.is_empty(), "{} left out {:?}", walk.line, walk.owed);
    }
    let cursor = wire.ask("DELAY.SCAN q 0 COUNT 10").array().unwrap()[0].text().to_owned();
    program.stop();

    // With another journal the cursor means nothing, which is told.
    let other = Folder::new("walks");
    let program = Program::start(&other.0, &[]);
    let mut wire = program.connect();
    wire.ask("DELAY.ADD q 1d x ID a");
    for line in [format!("DELAY.SCAN q {cursor}"), format!("SCAN {cursor}"), "SCAN 5".to_owned()] {
        let refused = wire.ask(&line);
        assert!(refused.is_error("ERR"), "{line}: {refused:?}");
    }
    program.stop();
}
