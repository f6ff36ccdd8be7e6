//! What clients ask for: random requests, drawn by the options of the run. Knows nothing of the
//! model; all it remembers are tokens that replies told.

use delayd::engine::model::group::{
    GroupOrder, GroupRate, GroupRetry, GroupSettings, Grouping, ListGroups,
};
use delayd::engine::model::meta::OwnMeta;
use delayd::engine::model::policy::{Backoff, Steps};
use delayd::engine::model::queue_settings::{Later, Pause, QueueSettings, Setting};
use delayd::engine::model::request::Purge;
use delayd::engine::model::request::{
    Add, Direction, Find, JobState, ListPop, Move, Nack, Only, Push, QueueName, Redrive, Request,
    Reserve, Scan, Shape, Side, Taken, Wait, When, Which,
};
use delayd::engine::model::schedule::SetSchedule;
use delayd::engine::model::walk::Cursor;
use delayd::ids::{Db, Token};
use delayd::limits::{DAY_MS, DELAY_MS_MAX};
use rand::Rng;
use rand::rngs::SmallRng;

use crate::simulation::trace::{Kept, keep, keep_list};

/// Kinds of things that clients do. Each has a weight, which may be 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Add,
    AddHerd,
    Pop,
    Reserve,
    Ack,
    Nack,
    Extend,
    Delete,
    Cancel,
    Reschedule,
    Redrive,
    Purge,
    Rename,
    Push,
    ListPop,
    Move,
    List,
    DeleteEqual,
    Look,
    Scan,
    Remove,
    Flush,
    Keys,
    Transaction,
    Close,
    Unblock,
    Settings,
    Policies,
    Schedule,
    Groups,
}

pub const OPS: [Op; 30] = [
    Op::Add,
    Op::AddHerd,
    Op::Pop,
    Op::Reserve,
    Op::Ack,
    Op::Nack,
    Op::Extend,
    Op::Delete,
    Op::Cancel,
    Op::Reschedule,
    Op::Redrive,
    Op::Purge,
    Op::Rename,
    Op::Push,
    Op::ListPop,
    Op::Move,
    Op::List,
    Op::DeleteEqual,
    Op::Look,
    Op::Scan,
    Op::Remove,
    Op::Flush,
    Op::Keys,
    Op::Transaction,
    Op::Close,
    Op::Unblock,
    Op::Settings,
    Op::Policies,
    Op::Schedule,
    Op::Groups,
];

/// What is drawn once for a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub turns: u32,
    pub clients: usize,
    pub queues: usize,
    pub databases: u8,
    pub ids: u32,
    /// Of 100 ADDs, how many name an id.
    pub ids_given: u32,
    pub delay_bits_max: u32,
    pub herd_max: u32,
    pub weights: [u32; OPS.len()],
    /// Of 100 ADDs, how many have a TTL; how many a UNIQUE window.
    pub ttl_share: u32,
    pub unique_share: u32,
    pub attempts_max: u32,
    pub memory_bytes_max: u64,
    pub stats_retention_ms: u64,
    pub lease_ms_default: u64,
    /// 0: any; otherwise at most this.
    pub budget_max: u32,
    /// Of 100 turns, how many jump far.
    pub leaps: u32,
    /// Most requests in one turn.
    pub crowd: u32,
    /// Of 100 turns, in how many the journal allows something else from there on.
    pub flows: u32,
    /// How many names of schedules there are in a queue.
    pub schedules: usize,
    /// How many groups there are in a queue.
    pub groups: usize,
    /// Of 100 turns, before how many other tables of zones come.
    pub swaps: u32,
}

impl Options {
    pub fn draw(rng: &mut SmallRng) -> Options {
        let mut weights = OPS.map(|_| match rng.random_range(0..4) {
            0 => 0,
            _ => rng.random_range(1..=10u32),
        });
        weights[Op::Add as usize] = rng.random_range(5..40);
        let taking = if rng.random() { Op::Reserve } else { Op::Pop };
        weights[taking as usize] = rng.random_range(5..30);
        weights[Op::AddHerd as usize] = weights[Op::AddHerd as usize].min(1);
        weights[Op::Flush as usize] = u32::from(rng.random_ratio(1, 4));
        weights[Op::Ack as usize] *= 3;
        weights[Op::Remove as usize] /= 3;
        weights[Op::Rename as usize] /= 3;
        weights[Op::Policies as usize] /= 2;
        weights[Op::Purge as usize] /= 3;
        weights[Op::Groups as usize] /= 3;
        let pick = |rng: &mut SmallRng, from: &[u64]| from[rng.random_range(0..from.len())];
        Options {
            turns: rng.random_range(100..600),
            clients: rng.random_range(3..100),
            queues: pick(rng, &[1, 2, 3, 5, 10, 50]) as usize,
            databases: rng.random_range(1..=2),
            ids: pick(rng, &[3, 10, 50, 1_000]) as u32,
            ids_given: pick(rng, &[0, 50, 100]) as u32,
            delay_bits_max: rng.random_range(1..=45),
            herd_max: pick(rng, &[10, 100, 500, 3_000]) as u32,
            weights,
            ttl_share: pick(rng, &[0, 10, 90]) as u32,
            unique_share: pick(rng, &[0, 30, 90]) as u32,
            attempts_max: pick(rng, &[1, 3, 20]) as u32,
            memory_bytes_max: pick(rng, &[0, 0, 0, 30_000, 300_000]),
            stats_retention_ms: pick(rng, &[1_000, 60_000, DAY_MS]),
            lease_ms_default: pick(rng, &[1, 50, 5_000, 60_000]),
            budget_max: pick(rng, &[0, 0, 0, 1, 7, 300]) as u32,
            leaps: pick(rng, &[0, 1, 10]) as u32,
            crowd: pick(rng, &[1, 3, 20]) as u32,
            flows: pick(rng, &[0, 0, 2, 20]) as u32,
            schedules: pick(rng, &[1, 3, 10]) as usize,
            groups: pick(rng, &[0, 0, 1, 2, 5]) as usize,
            swaps: pick(rng, &[0, 1, 10]) as u32,
        }
    }
}

/// A lease that some reply told of.
pub type Held = (QueueName<'static>, Kept, Token);

pub struct Workload {
    pub rng: SmallRng,
    pub options: Options,
    /// Tokens of others and of former days.
    pub old: Vec<Held>,
    /// The lease whose job was last asked for by other means.
    pub meddled: Option<Held>,
    /// The schedule set last, and occurrences that replies told of.
    pub set_last: Option<SetSchedule<'static>>,
    pub occurrences: Vec<(QueueName<'static>, Kept)>,
    /// Without what depends on the hash seed.
    pub ordered_only: bool,
}

impl Workload {
    pub fn new(rng: SmallRng, options: Options) -> Workload {
        let (old, occurrences) = (Vec::new(), Vec::new());
        let (meddled, set_last, ordered_only) = (None, None, false);
        Workload { rng, options, old, meddled, set_last, occurrences, ordered_only }
    }

    pub fn op(&mut self) -> Op {
        let sum: u32 = self.options.weights.iter().sum();
        let mut drawn = self.rng.random_range(0..sum);
        for (op, weight) in OPS.into_iter().zip(self.options.weights) {
            if drawn < weight {
                return op;
            }
            drawn -= weight;
        }
        unreachable!("drawn below the sum")
    }

    pub fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_ratio(1, n)
    }

    pub fn percent(&mut self, share: u32) -> bool {
        self.rng.random_range(0..100) < share
    }

    /// A span of any magnitude.
    pub fn span_ms(&mut self) -> u64 {
        match self.rng.random_range(0..20) {
            0..3 => 0,
            3..5 => 1,
            5 => *[1 << 31, 1 << 32, 1 << 41, DELAY_MS_MAX, DELAY_MS_MAX + 1, u64::MAX]
                .get(self.rng.random_range(0..6))
                .expect("six of them"),
            6..10 => self.rng.random_range(0..20),
            _ => {
                let bits = self.rng.random_range(0..=self.options.delay_bits_max);
                self.rng.random_range(0..=1 << bits)
            }
        }
    }

    pub fn short_ms(&mut self) -> u64 {
        let bits = self.rng.random_range(0..16);
        self.rng.random_range(1..=1 << bits)
    }

    fn when(&mut self, now_ms: u64) -> When {
        let span = self.span_ms();
        match self.rng.random_range(0..10) {
            0 => When::At(now_ms.saturating_sub(span)),
            // The same instant for many.
            1..3 => When::At((now_ms / 1_000 + 1) * 1_000),
            3 => When::At(now_ms.saturating_add(span)),
            _ => When::In(span),
        }
    }

    pub fn queue(&mut self) -> QueueName<'static> {
        let db = Db(self.rng.random_range(0..self.options.databases));
        let number = self.rng.random_range(0..self.options.queues);
        QueueName { db, name: keep(format!("q{number}").as_bytes()) }
    }

    fn queues(&mut self) -> (Db, &'static [Kept]) {
        let count = *[1, 1, 2, 3].get(self.rng.random_range(0..4)).expect("four of them");
        let first = self.queue();
        let mut names = vec![first.name];
        names.resize_with(count, || self.queue().name);
        (first.db, keep_list(&names))
    }

    fn id(&mut self) -> Kept {
        keep(format!("j{}", self.rng.random_range(0..self.options.ids)).as_bytes())
    }

    /// An id that may well be there.
    fn some_id(&mut self, held: &[Held]) -> (QueueName<'static>, Kept) {
        if !held.is_empty() && self.percent(30) {
            let lease = held[self.rng.random_range(0..held.len())];
            self.meddled = Some(lease);
            return (lease.0, lease.1);
        }
        if !self.old.is_empty() && self.percent(30) {
            let (queue, id, _) = self.old[self.rng.random_range(0..self.old.len())];
            return (queue, id);
        }
        let occurrence = self.occurrence_id().filter(|_| self.percent(20));
        occurrence.unwrap_or_else(|| (self.queue(), self.id()))
    }

    pub fn backoff(&mut self) -> Backoff {
        let steps = match self.rng.random_range(0..3) {
            0 => Steps::Ladder([1, 20, 3_000].into()),
            1 => Steps::Ladder([0].into()),
            _ => Steps::Exponential { first: 10, max: 5_000, factor: 3 },
        };
        Backoff { steps, jitter: self.rng.random() }
    }

    pub fn add(&mut self, now_ms: u64) -> Add<'static> {
        let id = self.percent(self.options.ids_given).then(|| self.id());
        let taken = match self.rng.random_range(0..4) {
            0 if id.is_some() => Taken::Keep,
            1 if id.is_some() => Taken::Replace,
            2 if id.is_some() => Taken::Latest,
            _ => Taken::Refuse,
        };
        let body = self.body();
        let rare = self.rng.random_range(0..4) == 0;
        let occurrence = self.occurrence_id().filter(|_| id.is_some() && self.percent(10));
        let (queue, id) = match occurrence {
            Some((queue, id)) => (queue, Some(id)),
            None => (self.queue(), id),
        };
        let when = self.when(now_ms);
        let newer = matches!(taken, Taken::Replace | Taken::Latest) && self.one_in(2);
        let least = if let When::In(ms) = when { ms } else { 0 };
        let max_delay_ms = newer.then(|| least.max([1, 40, 2_000][self.pick(3)]));
        Add {
            queue,
            when,
            body,
            id,
            taken,
            max_delay_ms,
            priority: rare.then(|| self.rng.random_range(0..=9)),
            attempts: self.rng.random::<bool>().then_some(self.options.attempts_max),
            backoff: self.rng.random::<bool>().then(|| self.backoff()),
            lease_ms: self.one_in(4).then(|| self.lease_ms()),
            ttl_ms: self.percent(self.options.ttl_share).then(|| [0, 1, 30, 5_000][self.pick(4)]),
            unique_ms: match id {
                Some(_) if self.percent(self.options.unique_share) => {
                    [1, 100, 60_000][self.pick(3)]
                }
                _ => 0,
            },
            group: self.group(),
            meta: self.meta(),
        }
    }

    /// None, or one of a few.
    pub fn group(&mut self) -> Option<Kept> {
        let named = self.options.groups > 0 && self.percent(70);
        named.then(|| keep(format!("g{}", self.pick(self.options.groups)).as_bytes()))
    }

    fn retry(&mut self) -> GroupRetry {
        if self.one_in(3) { GroupRetry::Pass } else { GroupRetry::Block }
    }

    fn groups(&mut self) -> Request<'static> {
        let (queue, group) = (self.queue(), self.group().unwrap_or(b"other"));
        Request::Groups(match self.pick(10) {
            9 => Grouping::Purge { queue, group, states: self.rng.random() },
            0 => {
                let (pattern, order, after) = (None, GroupOrder::Name, None);
                let (count, closed) = ([1, 2, 1_000][self.pick(3)], self.one_in(3));
                Grouping::List(ListGroups { queue, pattern, order, count, after, closed })
            }
            1 => Grouping::Stats { queue, group },
            2 => Grouping::Settings { queue, group, only: None },
            3 => Grouping::Unconfigure { queue, group },
            4 => Grouping::Resume { queue, group },
            5 => {
                let for_ms = [None, Some(1), Some(20), Some(5_000), Some(DELAY_MS_MAX + 1)];
                Grouping::Pause { queue, group, for_ms: for_ms[self.pick(5)] }
            }
            _ => {
                let weight = self.one_in(2).then(|| [1, 2, 3][self.pick(3)]);
                let max_leased = self.one_in(2).then(|| [0, 1, 2, 3][self.pick(4)]);
                let retry = self.one_in(2).then(|| self.retry());
                let (rate, pause) = (Later(self.group_rate()), Pause::None);
                let max_jobs = Later(self.one_in(4).then(|| [0, 1, 5, 1_000][self.pick(4)]));
                let changes = GroupSettings { weight, max_leased, retry, rate, max_jobs, pause };
                Grouping::Configure { queue, group, changes }
            }
        })
    }

    /// None, or of 1 to 64 pairs.
    pub fn meta(&mut self) -> OwnMeta {
        if !self.one_in(4) {
            return OwnMeta::NONE;
        }
        let values: [&[u8]; 4] = [b"", b"acme", &[0, 255, b'\r', b'\n'], &[b'v'; 100]];
        let pairs = [1, 2, 64][self.pick(3)];
        let names: Vec<String> = (0..pairs).map(|at| format!("n{at}")).collect();
        let words: Vec<&[u8]> =
            names.iter().flat_map(|name| [name.as_bytes(), values[self.pick(4)]]).collect();
        OwnMeta::of(&words).expect("META within its limits")
    }

    pub fn body(&mut self) -> Kept {
        let sizes = [0, 5, 5, 60, 2_000];
        let body = [b'x'; 2_000];
        keep(&body[..sizes[self.rng.random_range(0..sizes.len())]])
    }

    fn side(&mut self) -> Side {
        if self.rng.random() { Side::Left } else { Side::Right }
    }

    fn list_pop(&mut self) -> Request<'static> {
        let side = self.side();
        let (shape, wait) = match self.pick(4) {
            0 => (Shape::Value, Wait::No),
            1 => (Shape::Values, Wait::No),
            2 => (Shape::Named, self.wait()),
            _ => (Shape::NamedValues, self.wait()),
        };
        let (db, mut queues) = self.queues();
        if matches!(shape, Shape::Value | Shape::Values) {
            queues = keep_list(&queues[..1]);
        }
        let count = match shape {
            Shape::Value | Shape::Named => 1,
            Shape::Values => [0, 1, 3, 300][self.pick(4)],
            Shape::NamedValues => [1, 3, 300][self.pick(3)],
        };
        Request::ListPop(ListPop { db, queues, side, count, shape, wait })
    }

    fn look_at_list(&mut self) -> Request<'static> {
        let queue = self.queue();
        let places = [0, 1, 5, 100, -1, -2, -100];
        match self.pick(3) {
            0 => Request::At { queue, place: places[self.pick(7)] },
            1 => {
                let (start, stop) = (places[self.pick(7)], places[self.pick(7)]);
                Request::Range { queue, start, stop }
            }
            _ => Request::Find(Find {
                queue,
                body: self.body(),
                from: self.side(),
                skipped: [0, 0, 2][self.pick(3)],
                count: [None, Some(0), Some(3)][self.pick(3)].filter(|_| self.one_in(3)),
                inspected_max: [0, 0, 10][self.pick(3)],
            }),
        }
    }

    pub fn pick(&mut self, count: usize) -> usize {
        self.rng.random_range(0..count)
    }

    pub fn lease_ms(&mut self) -> u64 {
        [1, 2, 100, 7_000, DAY_MS, DAY_MS + 1][self.pick(6)]
    }

    fn wait(&mut self) -> Wait {
        match self.pick(4) {
            // In which order queues are swept, and so which of two waiters gets the smaller token,
            // is in no fact.
            _ if self.ordered_only => Wait::No,
            0 => Wait::No,
            1 => Wait::Forever,
            _ => Wait::For(self.short_ms()),
        }
    }

    /// A lease: mostly one of the client's own, taken from `held`.
    fn lease(&mut self, held: &mut Vec<Held>) -> Held {
        let all = held.len();
        let likely = self.one_in(2);
        if let Some(lease) = self.meddled.take().filter(|_| likely) {
            return lease;
        }
        match self.pick(8) {
            0 if !self.old.is_empty() => self.old[self.rng.random_range(0..self.old.len())],
            1 if all > 0 => {
                let (queue, id, token) = held[self.rng.random_range(0..all)];
                (queue, id, Token((token.0 + self.rng.random_range(0..3)).saturating_sub(1)))
            }
            2 => (self.queue(), self.id(), Token(self.rng.random_range(0..3))),
            3 if all > 0 => held[self.rng.random_range(0..all)],
            _ if all > 0 => {
                let lease = held.swap_remove(self.rng.random_range(0..all));
                self.old.push(lease);
                lease
            }
            _ => (self.queue(), self.id(), Token(7)),
        }
    }

    pub fn request(&mut self, op: Op, held: &mut Vec<Held>, now_ms: u64) -> Request<'static> {
        match op {
            Op::Pop => {
                let (db, queues) = self.queues();
                Request::Pop { db, queues, wait: self.wait() }
            }
            Op::Reserve => {
                let (db, queues) = self.queues();
                Request::Reserve(Reserve {
                    db,
                    queues,
                    wait: self.wait(),
                    count: [1, 1, 2, 5, 300][self.pick(5)],
                    lease_ms: self.one_in(3).then(|| self.lease_ms()),
                    no_ack: self.one_in(6),
                    bound: self.one_in(3),
                    meta: self.rng.random(),
                })
            }
            Op::Ack => {
                let (queue, id, token) = self.lease(held);
                let mut jobs = vec![(id, token)];
                for _ in 0..self.pick(4) {
                    let (_, id, token) = self.lease(held);
                    jobs.push((id, token));
                }
                if self.one_in(5) {
                    jobs.push(jobs[0]);
                }
                Request::Ack { queue, jobs }
            }
            Op::Nack => {
                let (queue, id, token) = self.lease(held);
                let bury = self.one_in(6);
                Request::Nack(Nack {
                    queue,
                    id,
                    token,
                    when: (!bury && self.one_in(3)).then(|| self.when(now_ms)),
                    bury,
                    uncounted: !bury && self.one_in(3),
                    priority: self.one_in(5).then(|| self.rng.random_range(0..=9)),
                    error: self.one_in(3).then_some(b"no luck"),
                })
            }
            Op::Extend => {
                let (queue, id, token) = self.lease(held);
                held.push((queue, id, token));
                Request::Extend { queue, id, token, lease_ms: self.lease_ms() }
            }
            Op::Delete => {
                let (queue, first) = self.some_id(held);
                let mut ids = vec![first];
                ids.resize_with(1 + self.pick(3), || self.id());
                Request::Delete { queue, ids: keep_list(&ids) }
            }
            Op::Cancel => {
                let (queue, id) = self.some_id(held);
                Request::Cancel { queue, id, force: self.one_in(3) }
            }
            Op::Reschedule => {
                let (queue, id) = self.some_id(held);
                let only = [Only::Any, Only::Later, Only::Earlier][self.pick(3)];
                Request::Reschedule { queue, id, when: self.when(now_ms), only }
            }
            Op::Redrive => {
                let (queue, first) = self.some_id(held);
                let ids = [first, self.id(), self.id()];
                let which = match self.pick(5) {
                    4 => {
                        let count = self.one_in(2).then(|| [1, 2, 10_000][self.pick(3)]);
                        Which::InGroup { group: self.group().unwrap_or(b"other"), count }
                    }
                    0 => Which::Ids(keep_list(&ids[..1 + self.pick(3)])),
                    1 => Which::Oldest(Some([1, 2, 10_000][self.pick(3)])),
                    _ => Which::Oldest(None),
                };
                let when = if self.one_in(2) { When::In(0) } else { self.when(now_ms) };
                Request::Redrive(Redrive { queue, which, when, keep_attempts: self.one_in(2) })
            }
            Op::Purge => {
                let mut purge = Purge::DEFAULT;
                if self.one_in(2) {
                    purge = Purge { states: self.rng.random(), windows: false };
                }
                Request::Purge { queue: self.queue(), purge }
            }
            Op::Rename => {
                let QueueName { db, name } = self.queue();
                let to = self.queue().name;
                Request::Rename { db, queue: name, to, only_new: self.one_in(4) }
            }
            Op::Look => self.look(held),
            Op::Scan => {
                let (queue, count) = (self.queue(), [1, 10, 10_000][self.pick(3)]);
                Request::Scan(Scan::new(queue, Cursor::BEGIN, count))
            }
            Op::Push => {
                let most = [1, 3, 40][self.pick(3)];
                let count = self.rng.random_range(1..=most);
                let bodies: Vec<Kept> = (0..count).map(|_| self.body()).collect();
                let (queue, side, only_existing) = (self.queue(), self.side(), self.one_in(5));
                Request::Push(Push { queue, bodies: keep_list(&bodies), side, only_existing })
            }
            Op::ListPop => self.list_pop(),
            Op::Move => {
                let (from, to) = (self.queue(), self.queue().name);
                let (take, put, wait) = (self.side(), self.side(), self.wait());
                Request::Move(Move { db: from.db, from: from.name, to, take, put, wait })
            }
            Op::List => self.look_at_list(),
            Op::DeleteEqual => {
                let (queue, body, from) = (self.queue(), self.body(), self.side());
                Request::DeleteEqual { queue, body, from, count: [0, 1, 3][self.pick(3)] }
            }
            Op::Remove => {
                let (db, queues) = self.queues();
                Request::Remove { db, queues }
            }
            Op::Flush => {
                let db = self.queue().db;
                Request::Flush { db: self.rng.random::<bool>().then_some(db) }
            }
            Op::Keys => self.keys(),
            Op::Policies => self.policies(),
            Op::Schedule => self.scheduling(now_ms),
            Op::Groups => self.groups(),
            _ => {
                let mut add = self.add(now_ms);
                // To follow a job that is at work.
                if add.taken == Taken::Latest && !held.is_empty() && self.one_in(2) {
                    let (queue, id) = self.some_id(held);
                    (add.queue, add.id) = (queue, Some(id));
                }
                Request::Add(add)
            }
        }
    }

    fn policies(&mut self) -> Request<'static> {
        let queue = self.queue();
        let direction = [Direction::In, Direction::Out, Direction::All][self.pick(3)];
        match self.pick(8) {
            0 => {
                let only =
                    self.rng.random::<bool>().then(|| Setting::ALL[self.pick(Setting::ALL.len())]);
                Request::Settings { queue, only }
            }
            1 => Request::Unconfigure { queue },
            2 => {
                let for_ms = match self.pick(8) {
                    0 => None,
                    1 => Some(DELAY_MS_MAX + 1),
                    _ => Some(self.short_ms()),
                };
                Request::Pause { queue, direction, for_ms }
            }
            3 => Request::Resume { queue, direction },
            _ => Request::Configure { queue, changes: Box::new(self.settings()) },
        }
    }

    fn settings(&mut self) -> QueueSettings {
        QueueSettings {
            attempts: self.one_in(4).then(|| [0, 1, 2][self.pick(3)]),
            backoff: self.one_in(4).then(|| self.backoff()),
            lease_ms: self.one_in(4).then(|| self.lease_ms()),
            priority: self.one_in(4).then(|| self.rng.random_range(0..=9)),
            ttl_ms: self.one_in(8).then(|| [0, 1, 5_000][self.pick(3)]),
            max_jobs: self.one_in(4).then(|| [0, 1, 10, 1_000][self.pick(4)]),
            max_leased: self.one_in(4).then(|| [0, 1, 2, 20][self.pick(4)]),
            rate: self.one_in(4).then(|| [0, 1, 7, 100, 1_000, 100_000, 1_000_000][self.pick(7)]),
            dead_retention_ms: self.one_in(4).then(|| [1, 1_000, DAY_MS][self.pick(3)]),
            dead_max: self.one_in(4).then(|| [0, 1, 100, 100_000][self.pick(4)]),
            due_enters: self.one_in(4).then(|| self.side()),
            group_weight: Later(self.one_in(4).then(|| [1, 2, 5][self.pick(3)])),
            group_max_leased: Later(self.one_in(4).then(|| [0, 1, 2, 9][self.pick(4)])),
            group_retry: Later(self.one_in(4).then(|| self.retry())),
            group_rate: Later(self.group_rate()),
            group_max_jobs: Later(self.one_in(6).then(|| [0, 1, 10, 1_000][self.pick(4)])),
        }
    }

    fn group_rate(&mut self) -> Option<GroupRate> {
        let rates =
            [(0, 1_000), (1, 1_000), (3, 1_000), (2, 60_000), (700, 1_000), (1_000_000, 1_000)];
        let (count, span_ms) = rates[self.pick(6)];
        self.one_in(4).then_some(GroupRate { count, span_ms })
    }

    fn look(&mut self, held: &[Held]) -> Request<'static> {
        let states = [None, Some(0), Some(1), Some(2), Some(3)];
        let state = states[self.pick(5)].map(|number: usize| JobState::ALL[number]);
        let (queue, id) = self.some_id(held);
        match self.pick(7) {
            0 if self.one_in(3) => Request::Errors { queue },
            0 => Request::Stats { queue },
            6 => {
                let span_ms = [1, 20, 1_000, DAY_MS, DELAY_MS_MAX][self.pick(5)];
                let (count, schedules) = ([1, 7, 300][self.pick(3)], false);
                Request::Forecast { queue, span_ms, count, schedules }
            }
            1 => Request::Len { queue, state },
            2..4 => {
                let newest = state == Some(JobState::Dead) && self.one_in(2);
                Request::Peek { queue, state, count: [1, 3, 10_000][self.pick(3)], newest }
            }
            _ => Request::Get { queue, id },
        }
    }

    fn keys(&mut self) -> Request<'static> {
        let QueueName { db, name } = self.queue();
        let pattern = [&b"*"[..], b"q1*", name][self.pick(3)];
        let choices = if self.ordered_only { 2 } else { 6 };
        match self.pick(choices) {
            0 => Request::QueueCount { db },
            1 => Request::Exists { db, queues: self.queues().1 },
            2 => Request::Keys { db, pattern },
            3 => {
                let count = [1, 10, u64::MAX][self.pick(3)];
                let pattern = self.rng.random::<bool>().then_some(pattern);
                Request::ScanQueues { db, cursor: Cursor::BEGIN, pattern, count }
            }
            4 => Request::RandomQueue { db, draw: self.rng.random() },
            _ => Request::Memory { queue: QueueName { db, name } },
        }
    }
}
