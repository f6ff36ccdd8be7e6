//! The queues with lines of their own: the largest, so that the text is bounded however many queues
//! there are.

use crate::engine::model::stats::StatsView;
use crate::engine::observe::survey::QueueView;
use crate::limits::{QUEUE_LINE_BYTES, QUEUE_LINES, SCRAPE_BYTES_MAX};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue with lines of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub db: u8,
    pub name: Vec<u8>,
    pub stats: StatsView,
    pub returned: u64,
}

impl Row {
    fn jobs(&self) -> u64 {
        self.stats.delayed + self.stats.ready + self.stats.leased + self.stats.dead
    }

    /// About what its lines have, bytes. A byte that is no text takes five.
    fn lines_bytes(&self) -> usize {
        let plain = |byte: &&u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let plain_bytes = self.name.iter().filter(plain).count();
        let name_bytes = plain_bytes + 5 * (self.name.len() - plain_bytes);
        QUEUE_LINES * (name_bytes + QUEUE_LINE_BYTES)
    }
}

/// The other queues, together. Not their totals: whichever queues those are changes, and a counter
/// must not go down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rest {
    pub queues: u64,
    /// Delayed, ready, leased, dead.
    pub jobs: [u64; 4],
    pub bytes: u64,
    pub waiters: u64,
    pub schedules: u64,
    pub groups: u64,
    pub groups_closed: u64,
    pub paused_in: u64,
    pub paused_out: u64,
    pub next_due_ms: Option<u64>,
    pub oldest_ready_age_ms: Option<u64>,
}

/// A queue's jobs, then the order in which queues were met.
type RankKey = (u64, Reverse<u64>);

/// Keeps the largest of the queues it is shown.
#[derive(Debug)]
pub struct Top {
    rows_max: usize,
    /// The smallest first, with its place in `rows`.
    smallest: BinaryHeap<Reverse<(RankKey, usize)>>,
    rows: Vec<Row>,
    rest: Rest,
    met: u64,
}

/// Whether a pause shown as `paused` holds back what comes in, and what goes out.
pub fn sides(paused: &str) -> (bool, bool) {
    (matches!(paused, "in" | "all"), matches!(paused, "out" | "all"))
}

impl Top {
    /// At most `rows_max` of them.
    pub fn new(rows_max: usize) -> Top {
        let (smallest, rows) = (BinaryHeap::new(), Vec::new());
        Top { rows_max, smallest, rows, rest: Rest::default(), met: 0 }
    }

    /// Takes a queue in, or what it has into the rest.
    pub fn add(&mut self, queue: QueueView<'_>) {
        let QueueView { db, name, stats, returned } = queue;
        let jobs = stats.delayed + stats.ready + stats.leased + stats.dead;
        let key = (jobs, Reverse(self.met));
        self.met += 1;
        let row = |stats| Row { db: db.0, name: name.to_vec(), stats, returned };
        if self.rows.len() < self.rows_max {
            self.smallest.push(Reverse((key, self.rows.len())));
            self.rows.push(row(stats));
            return;
        }
        match self.smallest.peek() {
            Some(Reverse((least, at))) if key > *least => {
                let at = *at;
                self.smallest.pop();
                self.smallest.push(Reverse((key, at)));
                let out = std::mem::replace(&mut self.rows[at], row(stats));
                self.rest.add(&out.stats);
            }
            _ => self.rest.add(&stats),
        }
    }

    /// The largest, by database and name, and what all others have. Long names are fewer: their lines have
    /// [`SCRAPE_BYTES_MAX`].
    pub fn finish(mut self) -> (Vec<Row>, Rest) {
        self.rows.sort_by_key(|row| Reverse(row.jobs()));
        let mut bytes = 0;
        let fitting = self.rows.iter().take_while(|row| {
            bytes += row.lines_bytes();
            bytes <= SCRAPE_BYTES_MAX
        });
        let fitting = fitting.count();
        self.rows.drain(fitting..).for_each(|row| self.rest.add(&row.stats));
        self.rows.sort_unstable_by(|a, b| (a.db, &a.name).cmp(&(b.db, &b.name)));
        (self.rows, self.rest)
    }
}

impl Rest {
    fn add(&mut self, stats: &StatsView) {
        let counts = [stats.delayed, stats.ready, stats.leased, stats.dead];
        self.jobs.iter_mut().zip(counts).for_each(|(all, own)| *all += own);
        let (paused_in, paused_out) = sides(stats.paused);
        self.queues += 1;
        self.bytes += stats.bytes;
        self.waiters += stats.waiters;
        self.schedules += stats.schedules;
        self.groups += stats.groups;
        self.groups_closed += stats.groups_closed;
        self.paused_in += u64::from(paused_in);
        self.paused_out += u64::from(paused_out);
        let due_ms = stats.next_due.map(|due| due.0);
        self.next_due_ms = self.next_due_ms.into_iter().chain(due_ms).min();
        self.oldest_ready_age_ms = self.oldest_ready_age_ms.max(stats.oldest_ready_age_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Db;
    use crate::time::Millis;

    #[test]
    fn the_largest_stand_alone_and_nothing_is_lost() {
        let mut top = Top::new(2);
        for (at, (name, ready)) in
            [("a", 5), ("d", 1), ("c", 9), ("b", 5), ("e", 5)].iter().enumerate()
        {
            let stats = StatsView {
                ready: *ready,
                paused: if *name == "d" { "all" } else { "no" },
                next_due: Some(Millis(100 - at as u64)),
                oldest_ready_age_ms: Some(at as u64),
                ..StatsView::default()
            };
            top.add(QueueView { db: Db(0), name: name.as_bytes(), stats, returned: 0 });
        }
        let (rows, rest) = top.finish();
        // Among equals the first one met stays, so that lines do not come and go.
        let names: Vec<&[u8]> = rows.iter().map(|row| &row.name[..]).collect();
        assert_eq!(names, [b"a", b"c"]);
        assert_eq!((rest.queues, rest.jobs[1], rest.paused_in), (3, 11, 1));
        assert_eq!((rest.next_due_ms, rest.oldest_ready_age_ms), (Some(96), Some(4)));
        let mut none = Top::new(0);
        let stats = StatsView { ready: 3, paused: "no", ..StatsView::default() };
        none.add(QueueView { db: Db(0), name: b"q", stats, returned: 0 });
        assert_eq!(none.finish().1.jobs, [0, 3, 0, 0]);
    }
}
