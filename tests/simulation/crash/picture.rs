//! All that an engine shows of its queues and jobs, as text.

use delayd::engine::model::request::{JobState, QueueName, Request, Scan};
use delayd::engine::model::schedule::{ScheduleState, Scheduling};
use delayd::engine::model::walk::Cursor;
use delayd::engine::{Engine, Facts, Outcome, Turn};
use delayd::ids::{ClientId, DATABASES, Db};
use delayd::time::Micros;

use crate::simulation::trace::{Kept, Recorder, Said, View, keep, keep_list};

/// Who looks; no client of the simulation.
const LOOKER: ClientId = ClientId(u64::MAX);

/// What a queue shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    pub name: (u8, Kept),
    /// Clients wait for it: then it may be there for them alone, which no restart keeps.
    pub waited_for: bool,
    /// A line per request: what was asked and what was answered.
    pub lines: Vec<String>,
    /// Every job in full.
    pub jobs: Vec<View>,
}

/// What the engine shows at an instant at which nothing is left to be done.
pub fn of(engine: &mut Engine, now: Micros) -> Vec<Shown> {
    let mut look = Look { engine, now, facts: Facts::default() };
    let mut shown = Vec::new();
    for db in (0..DATABASES).map(Db) {
        let Said::Names(mut names) = look.ask(&Request::Keys { db, pattern: b"*" }) else {
            panic!("KEYS answers with names")
        };
        names.sort_unstable();
        shown.extend(names.into_iter().map(|name| look.queue(QueueName { db, name })));
    }
    let facts: Vec<_> = look.facts.iter().collect();
    assert!(facts.is_empty(), "looking changes nothing: {facts:?}");
    shown
}

/// Panics with the first difference, if there is one.
pub fn compare(before: &[Shown], after: &[Shown]) {
    let after_of = |name| after.iter().find(|shown| shown.name == name);
    for shown in before {
        match after_of(shown.name) {
            Some(other) => {
                for (line, other) in shown.lines.iter().zip(&other.lines) {
                    assert_eq!(line, other, "queue {:?}", shown.name);
                }
                assert_eq!(shown.lines.len(), other.lines.len(), "queue {:?}", shown.name);
                assert_eq!(shown.jobs, other.jobs, "queue {:?}", shown.name);
            }
            None => assert!(shown.waited_for, "queue {:?} is gone: {shown:#?}", shown.name),
        }
    }
    for shown in after {
        let was = before.iter().any(|before| before.name == shown.name);
        assert!(was, "queue {:?} was not there: {shown:#?}", shown.name);
    }
}

struct Look<'e> {
    engine: &'e mut Engine,
    now: Micros,
    facts: Facts,
}

impl Look<'_> {
    fn ask(&mut self, request: &Request<'_>) -> Said {
        let mut outbox = Recorder::default();
        let turn = &mut Turn { facts: &mut self.facts, outbox: &mut outbox };
        while self.engine.handle(self.now, LOOKER, request, turn) == Outcome::Again {}
        outbox.0.pop().expect("an answer").1
    }

    fn queue(&mut self, queue: QueueName<'static>) -> Shown {
        let (db, states) = (queue.db, JobState::ALL.map(Some));
        let mut asked = vec![
            Request::Stats { queue },
            Request::Exists { db, queues: keep_list(&[queue.name]) },
            Request::Peek { queue, state: None, count: 10_000, newest: false },
        ];
        for state in states.into_iter().chain([None]) {
            asked.push(Request::Len { queue, state });
        }
        asked.extend(states.map(|state| Request::Peek {
            queue,
            state,
            count: 10_000,
            newest: false,
        }));
        let (mut lines, mut waited_for, mut shared) = (Vec::new(), false, false);
        for request in asked {
            let mut said = self.ask(&request);
            match &mut said {
                Said::Stats(stats) => {
                    waited_for = std::mem::take(&mut stats.waiters) > 0;
                    // In which order groups come is not durable, nor how long purged ones are known.
                    shared = std::mem::take(&mut stats.groups) > 0;
                }
                Said::Peeked(jobs) if shared => jobs.sort_by_key(|job| job.id),
                _ => {}
            }
            lines.push(format!("{request:?}: {said:?}"));
        }
        lines.extend(self.schedules(queue));
        let (mut cursor, mut jobs) = (0, Vec::new());
        loop {
            let scan = Request::Scan(Scan::new(queue, Cursor(cursor), 100));
            let Said::Scanned(next, seen) = self.ask(&scan) else {
                panic!("SCAN answers with jobs")
            };
            for id in seen.iter().map(|seen| seen.id) {
                match self.ask(&Request::Get { queue, id }) {
                    Said::Job(view) => jobs.push(*view),
                    said => panic!("SCAN shows {id:?}, GET {said:?}"),
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        jobs.sort_by_key(|job| job.seen.id);
        jobs.dedup();
        Shown { name: (queue.db.0, keep(queue.name)), waited_for, lines, jobs }
    }

    /// A line for each schedule, in the order of their names. What keeps one from coming is a matter of the process.
    fn schedules(&mut self, queue: QueueName<'static>) -> Vec<String> {
        let list = Scheduling::List { queue, after: None, pattern: None, count: 1_000 };
        let Said::Schedules(rows) = self.ask(&Request::Schedule(list)) else {
            panic!("LIST answers with rows")
        };
        let shown = rows.into_iter().map(|row| {
            let get = Scheduling::Get { queue, name: row.name };
            let Said::Schedule(mut seen) = self.ask(&Request::Schedule(get)) else {
                panic!("LIST shows {row:?}, GET nothing")
            };
            if seen.state == ScheduleState::Held {
                seen.state = ScheduleState::Active;
            }
            format!("{seen:?}")
        });
        shown.collect()
    }
}
