//! The engine at a virtual clock, driven by hand. All named scenarios go through it, so that they
//! say what is asked and what comes back and survive a rewrite.

use delayd::command::{self, Action, table};
pub use delayd::engine::decide::transaction::{Needs, TransactionBegun, WholeTransaction};
use delayd::engine::journal_room::Flow;
use delayd::engine::model::across::{FoundJob, QueueRow};
use delayd::engine::model::errors::ErrorCount;
use delayd::engine::model::group::GroupRow;
use delayd::engine::model::holder::{Holder, LeaseView};
use delayd::engine::model::minutes::Span;
use delayd::engine::model::policy::{Backoff, Steps};
use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::Purge;
use delayd::engine::model::request::{
    Add, JobState, ListPop, Move, Nack, Only, Push, QueueName, Redrive, Request, Reserve, Shape,
    Side, Wait, When, Which,
};
use delayd::engine::model::schedule::{Outcomes, ScheduleRow, ScheduleView};
use delayd::engine::model::stats::StatsView;
use delayd::engine::{Engine, Facts, Lead, Loader, Outcome, Settings, Turn};
use delayd::ids::{ClientId, Db, Token};
use delayd::time::{Micros, Millis};
use std::borrow::Cow;

/// 2025-01-01 in ms.
pub const BEGIN_MS: u64 = 1_735_689_600_000;

pub struct Bench {
    pub engine: Engine,
    /// ms since [`BEGIN_MS`].
    pub at_ms: u64,
    /// And so many µs.
    pub at_us: u64,
    /// Replies as text, with the client's number before, since the last [`Bench::expect_events`].
    log: Log,
    /// All facts with their instants.
    pub facts: Vec<(Micros, Facts)>,
    /// Tokens by id, from deliveries.
    pub tokens: Vec<(String, Token)>,
    pub stats: Option<StatsView>,
}

#[derive(Default)]
struct Log {
    lines: Vec<String>,
    tokens: Vec<(String, Token)>,
    stats: Option<StatsView>,
    rows: Vec<QueueRow>,
    cursor: u64,
    opens: Option<Millis>,
    spans: Vec<Span>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn word(state: JobState) -> &'static str {
    state.word()
}

/// ms since [`BEGIN_MS`], or nil.
fn since(at: Option<Millis>) -> String {
    at.map_or("nil".into(), |at| (at.0 as i64 - BEGIN_MS as i64).to_string())
}

/// What a test may ask of a schedule.
fn shown(view: &ScheduleView<'_>) -> String {
    let Outcomes { made, missed, skipped, replaced } = view.outcomes;
    let held = view.obstacle.map_or(String::new(), |obstacle| format!(" {}", obstacle.word()));
    let next = since(view.next.map(|next| next.nominal));
    let counts = format!("made {made} missed {missed} skipped {skipped} replaced {replaced}");
    format!("{}{held} next {next} {counts} open {}", view.state.word(), view.open.len())
}

/// Name, jobs by state, and why it is closed.
fn group(row: &GroupRow) -> String {
    let closed = Some(row.state.word()).filter(|word| *word != "open");
    let closed = closed.map(|word| format!(" {word}")).unwrap_or_default();
    format!("{}:{:?}{closed}", text(&row.name), row.counts)
}

/// The text, how often, how many are dead of it, the sample, first and last.
fn error(row: &ErrorCount<'_>) -> String {
    let [kind, sample] = [row.text, row.sample].map(|bytes| bytes.map_or("-".into(), text));
    let [first, last] = [row.first, row.last].map(|at| since(Some(at)));
    format!("{kind}: {}/{} {sample} {first} to {last}", row.count, row.dead)
}

/// Queue, id, client, its words, when it began and ends, and the attempt.
fn lease(LeaseView { row, holder }: &LeaseView<'_>) -> String {
    let holder = holder.map_or("nil".into(), |holder| text(&holder.short()));
    let (begun, end) = (since(row.since), since(Some(row.lease_end)));
    let names = format!("{} {} {}", text(&row.queue), text(&row.id), row.client);
    format!("{names} {holder} {begun} {end} {}", row.attempt)
}

impl Outbox for Log {
    fn reply(&mut self, client: ClientId, reply: Reply<'_>) {
        let said = match reply {
            Reply::Ok => "ok".into(),
            Reply::Nil | Reply::NilArray => "nil".into(),
            Reply::Integer(number) => number.to_string(),
            Reply::Counts(counts) => {
                counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
            }
            Reply::Id(id) => text(id),
            Reply::State(state) => word(state).into(),
            Reply::Popped(job) => text(job.id),
            Reply::Reserved(jobs) => {
                let ids = jobs.iter().map(|job| {
                    self.tokens.extend(job.token.map(|token| (text(job.id), token)));
                    format!("{}#{}", text(job.id), job.attempt)
                });
                ids.collect::<Vec<_>>().join(" ")
            }
            Reply::Listed(_, jobs) => {
                jobs.iter().map(|job| text(job.body)).collect::<Vec<_>>().join(" ")
            }
            Reply::Body(body) => text(body),
            Reply::Bodies(bodies) => {
                bodies.iter().map(|body| text(body)).collect::<Vec<_>>().join(" ")
            }
            Reply::Places(places) => format!("{places:?}"),
            Reply::Job(job) => {
                let end = job.lease.map(|(_, end, _)| format!(" until {}", end.0 - BEGIN_MS));
                let death = job.death.map(|(reason, _)| format!(" {}", reason.word()));
                let errors = job.errors.iter().flat_map(|errors| errors.all());
                let errors: Vec<String> = errors.map(|error| text(error.text)).collect();
                let error =
                    (!errors.is_empty()).then(|| format!(" '{}'", errors.join("' after '")));
                let due = job.due.0 - BEGIN_MS;
                let parts = [end, death, error].map(Option::unwrap_or_default).concat();
                format!("{} due {due} attempt {}{parts}", word(job.state), job.attempt)
            }
            Reply::Settings { values, .. } => {
                let set = values.iter().filter(|(_, _, is_set)| *is_set);
                let set = set.map(|(setting, value, _)| format!("{}={value}", setting.word()));
                set.collect::<Vec<_>>().join(" ")
            }
            Reply::Stats(stats) => {
                self.stats = Some(stats.clone());
                "stats".into()
            }
            Reply::GroupStats(view) => {
                self.opens = view.opens;
                group(&view.row)
            }
            Reply::Errors(rows) => rows.iter().map(error).collect::<Vec<_>>().join(", "),
            Reply::Groups(rows) => rows.iter().map(group).collect::<Vec<_>>().join(" "),
            Reply::Peeked(jobs) | Reply::Scanned(_, jobs) => {
                if let Reply::Scanned(cursor, _) = reply {
                    self.cursor = cursor.0;
                }
                jobs.iter().map(|job| text(job.id)).collect::<Vec<_>>().join(" ")
            }
            Reply::Names(names) | Reply::ScannedNames(_, names) => {
                if let Reply::ScannedNames(cursor, _) = reply {
                    self.cursor = cursor.0;
                }
                names.iter().map(|name| text(name)).collect::<Vec<_>>().join(" ")
            }
            Reply::Queues(rows) => {
                self.rows = rows.to_vec();
                "queues".into()
            }
            Reply::Found(jobs) => {
                let line = |job: &FoundJob| {
                    let due = since(Some(job.due));
                    format!("{} {} {due}", text(&job.queue), word(job.state))
                };
                jobs.iter().map(line).collect::<Vec<_>>().join(", ")
            }
            Reply::Minutes(spans) => {
                self.spans = spans.to_vec();
                "minutes".into()
            }
            Reply::Leases(leases) => leases.iter().map(lease).collect::<Vec<_>>().join(", "),
            Reply::ScheduleSet(change, next) => format!("{} {}", change.word(), since(next)),
            Reply::Schedule(view) => shown(view),
            Reply::Schedules(rows) => {
                let row =
                    |row: &ScheduleRow<'_>| format!("{} {}", text(row.name), row.state.word());
                rows.iter().map(row).collect::<Vec<_>>().join(" ")
            }
            Reply::Explained(rows) => {
                rows.iter().map(|(_, shown)| shown.clone()).collect::<Vec<_>>().join(" ")
            }
            Reply::Error(error) => {
                let error = error.to_string();
                error.split_once(' ').map_or(error.clone(), |(class, _)| class.into())
            }
        };
        self.lines.push(format!("{client}:{said}"));
    }
}

pub fn queue(name: &'static str) -> QueueName<'static> {
    QueueName { db: Db(0), name: name.as_bytes() }
}

/// A job `id` in queue `name`, `delay_ms` from now.
pub fn job(name: &'static str, id: &'static str, delay_ms: u64) -> Add<'static> {
    Add {
        id: Some(id.as_bytes()),
        backoff: Some(ladder([1_000].into())),
        ..Add::new(queue(name), When::In(delay_ms), b"body")
    }
}

pub fn ladder(steps: Box<[u64]>) -> Backoff {
    Backoff { steps: Steps::Ladder(steps), jitter: false }
}

pub fn reserve(queues: &'static [&'static [u8]], wait: Wait, count: u32) -> Reserve<'static> {
    let (lease_ms, no_ack, bound) = (Some(100), false, false);
    Reserve { db: Db(0), queues, wait, count, lease_ms, no_ack, bound, meta: false }
}

pub const Q: &[&[u8]] = &[b"q"];

pub fn pop(queues: &'static [&'static [u8]], wait: Wait) -> Request<'static> {
    Request::Pop { db: Db(0), queues, wait }
}

pub fn push<'a>(name: &'static str, side: Side, bodies: &'a [&'a [u8]]) -> Request<'a> {
    Request::Push(Push { queue: queue(name), bodies, side, only_existing: false })
}

pub fn list_pop(
    queues: &'static [&'static [u8]],
    side: Side,
    count: u32,
    wait: Wait,
) -> Request<'static> {
    let shape = if count == 1 { Shape::Named } else { Shape::NamedValues };
    Request::ListPop(ListPop { db: Db(0), queues, side, count, shape, wait })
}

pub fn rotate(
    from: &'static str,
    to: &'static str,
    (take, put): (Side, Side),
    wait: Wait,
) -> Request<'static> {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    Request::Move(Move { db: Db(0), from, to, take, put, wait })
}

pub fn list(name: &'static str) -> Request<'static> {
    Request::Range { queue: queue(name), start: 0, stop: -1 }
}

pub fn get(name: &'static str, id: &'static str) -> Request<'static> {
    Request::Get { queue: queue(name), id: id.as_bytes() }
}

pub fn cancel(name: &'static str, id: &'static str, force: bool) -> Request<'static> {
    Request::Cancel { queue: queue(name), id: id.as_bytes(), force }
}

pub fn delete(name: &'static str, ids: &'static [&'static [u8]]) -> Request<'static> {
    Request::Delete { queue: queue(name), ids }
}

pub fn reschedule(name: &'static str, id: &'static str, in_ms: u64) -> Request<'static> {
    let (queue, id) = (queue(name), id.as_bytes());
    Request::Reschedule { queue, id, when: When::In(in_ms), only: Only::Any }
}

pub fn peek(name: &'static str, count: u32) -> Request<'static> {
    Request::Peek { queue: queue(name), state: None, count, newest: false }
}

pub fn forecast(name: &'static str, span_ms: u64, count: u32) -> Request<'static> {
    Request::Forecast { queue: queue(name), span_ms, count, schedules: false }
}

pub fn redrive(name: &'static str, which: Which<'static>) -> Redrive<'static> {
    Redrive { queue: queue(name), which, when: When::In(0), keep_attempts: false }
}

pub fn rename(from: &'static str, to: &'static str) -> Request<'static> {
    Request::Rename { db: Db(0), queue: from.as_bytes(), to: to.as_bytes(), only_new: false }
}

pub fn purge(name: &'static str) -> Request<'static> {
    Request::Purge { queue: queue(name), purge: Purge::DEFAULT }
}

/// Purges one state.
pub fn purge_state(name: &'static str, state: JobState) -> Request<'static> {
    let states = JobState::ALL.map(|one| one == state);
    Request::Purge { queue: queue(name), purge: Purge { states, windows: false } }
}

pub fn len(name: &'static str, state: JobState) -> Request<'static> {
    Request::Len { queue: queue(name), state: Some(state) }
}

pub fn remove(queues: &'static [&'static [u8]]) -> Request<'static> {
    Request::Remove { db: Db(0), queues }
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Bench {
        let mut settings = Settings { token_floor: 1_000, ..Settings::default() };
        change(&mut settings);
        Bench {
            engine: Engine::new(settings),
            at_ms: 0,
            at_us: 0,
            log: Log::default(),
            facts: Vec::new(),
            tokens: Vec::new(),
            stats: None,
        }
    }

    pub fn now(&self) -> Micros {
        Micros((BEGIN_MS + self.at_ms) * 1000 + self.at_us)
    }

    /// What the last QUEUES answered.
    pub fn rows(&mut self) -> Vec<QueueRow> {
        std::mem::take(&mut self.log.rows)
    }

    /// What the last HISTORY answered.
    pub fn spans(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.log.spans)
    }

    /// When the group that was asked for last opens, ms since [`BEGIN_MS`].
    pub fn opens(&mut self) -> Option<u64> {
        self.log.opens.map(|at| at.0 - BEGIN_MS)
    }

    /// Where the last SCAN goes on.
    pub fn cursor(&self) -> u64 {
        self.log.cursor
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, Micros, &mut Turn<'_>) -> T) -> T {
        let (mut facts, now) = (Facts::default(), self.now());
        let turn = &mut Turn { facts: &mut facts, outbox: &mut self.log };
        let returned = call(&mut self.engine, now, turn);
        self.facts.push((now, facts));
        self.tokens.append(&mut self.log.tokens);
        self.stats = self.log.stats.take().or(self.stats.take());
        returned
    }

    pub fn ask(&mut self, client: u64, request: Request<'_>) -> Outcome {
        self.call(|engine, now, turn| engine.handle(now, ClientId(client), &request, turn))
    }

    pub fn ask_in_transaction(&mut self, client: u64, request: Request<'_>) -> Outcome {
        self.call(|engine, now, turn| {
            engine.handle_in_transaction(now, ClientId(client), &request, turn)
        })
    }

    /// Runs a transaction; its requests are answered if it has begun.
    pub fn transact(&mut self, client: u64, requests: &[Request<'_>]) -> TransactionBegun {
        let begun = self.begin(client, requests);
        if let TransactionBegun::Begun(_) = begun {
            for request in requests {
                let outcome = self.ask_in_transaction(client, request.clone());
                assert_eq!(outcome, Outcome::Replied, "{request:?}");
            }
            self.call(|engine, now, turn| engine.end_transaction(now, turn));
        }
        begun
    }

    /// Begins one.
    pub fn begin(&mut self, client: u64, requests: &[Request<'_>]) -> TransactionBegun {
        loop {
            match self.begin_once(client, requests) {
                TransactionBegun::Again => {}
                begun => return begun,
            }
        }
    }

    /// As [`Bench::begin`], with what it says in the first turn.
    pub fn begin_once(&mut self, client: u64, requests: &[Request<'_>]) -> TransactionBegun {
        let requests: Vec<_> = requests.iter().map(Cow::Borrowed).collect();
        let (watched, beside) = (&[][..], Needs::default());
        let whole =
            WholeTransaction { requests: &requests, watched, beside, answer_bytes_max: u64::MAX };
        self.call(|engine, now, turn| {
            engine.begin_transaction(now, ClientId(client), &whole, u64::MAX, turn)
        })
    }

    /// Why a transaction may not run; nothing of it is done.
    pub fn refusal(&mut self, client: u64, requests: &[Request<'_>]) -> String {
        let (made, digest) = (self.made(), self.engine.digest());
        let begun = self.begin(client, requests);
        let TransactionBegun::Refused(error) = begun else { panic!("{begun:?}") };
        assert_eq!((self.made(), self.engine.digest()), (made, digest), "nothing is done");
        error.to_string()
    }

    pub fn hand_off(&mut self) {
        self.call(|engine, now, turn| engine.hand_off(now, turn));
    }

    pub fn add(&mut self, add: Add<'_>) {
        self.ask(99, Request::Add(add));
        let said = self.log.lines.pop().expect("ADD is answered");
        assert!(said.starts_with("99:"), "{said}");
    }

    /// The token of the newest delivery of a job.
    pub fn token(&self, id: &str) -> Token {
        self.tokens.iter().rev().find(|(of, _)| of == id).expect("it was delivered").1
    }

    pub fn ack(&mut self, client: u64, id: &'static str, token: Token) {
        let jobs = vec![(id.as_bytes(), token)];
        self.ask(client, Request::Ack { queue: queue("q"), jobs });
    }

    pub fn nack(&mut self, client: u64, id: &'static str, change: impl FnOnce(&mut Nack<'static>)) {
        let mut nack = Nack {
            queue: queue("q"),
            id: id.as_bytes(),
            token: self.token(id),
            when: None,
            bury: false,
            uncounted: false,
            priority: None,
            error: None,
        };
        change(&mut nack);
        self.ask(client, Request::Nack(nack));
    }

    /// One slice; true if there is more to do.
    pub fn advance(&mut self, budget: u32) -> bool {
        self.call(|engine, now, turn| engine.advance(now, budget, turn))
    }

    /// Lets the clock jump to an instant and does all that is due then.
    pub fn at(&mut self, ms: u64) {
        assert!(ms >= self.at_ms, "the clock never goes back");
        self.at_ms = ms;
        while self.advance(1_000_000) {}
    }

    /// The engine, which only applied, decides from now on.
    pub fn lead(&mut self, lead: &Lead) {
        self.call(|engine, now, turn| engine.lead(now, lead, turn));
    }

    /// What the journal allows from here on.
    pub fn flow(&mut self, flow: Flow) {
        self.engine.set_flow(self.now(), flow);
    }

    /// Facts made so far: how many, and their bytes.
    pub fn made(&self) -> (u64, u64) {
        let sum = |of: fn(&Facts) -> u64| self.facts.iter().map(|(_, facts)| of(facts)).sum();
        (sum(|facts| facts.count), sum(|facts| facts.bytes.len() as u64))
    }

    pub fn unsent(&mut self, client: u64) {
        self.call(|engine, now, turn| engine.unsent(now, ClientId(client), turn));
        self.closed(client);
    }

    pub fn sent(&mut self, client: u64) {
        self.engine.sent(ClientId(client));
    }

    pub fn sent_first(&mut self, client: u64, replies: usize) {
        self.engine.sent_first(ClientId(client), replies);
    }

    /// A client says who it is: `name@address`.
    pub fn introduce(&mut self, client: u64, words: &str) {
        let (name, address) = words.split_once('@').expect("a name and an address");
        let holder = Holder::new(address.as_bytes(), name.as_bytes(), [b"", b""]);
        self.engine.introduce(ClientId(client), holder);
    }

    pub fn closed(&mut self, client: u64) {
        self.call(|engine, now, turn| engine.closed(now, ClientId(client), turn));
    }

    /// An orderly stop; whether it is done.
    pub fn end_bound(&mut self) -> bool {
        let mut done = false;
        self.call(|engine, now, turn| done = engine.end_bound(now, 100, turn));
        done
    }

    /// Asks what a line of DELAY.SCHEDULE says, as client 1: what is answered. `"..."` holds blanks.
    #[track_caller]
    pub fn say(&mut self, line: &str) -> String {
        let mut parts = line.split('"');
        let mut words = vec![&b"DELAY.SCHEDULE"[..]];
        while let Some(bare) = parts.next() {
            words.extend(bare.split_ascii_whitespace().map(str::as_bytes));
            words.extend(parts.next().map(str::as_bytes));
        }
        let spec = table::resolve(&words).expect("a subcommand with as many words as it takes");
        let request = match command::parse(spec, &words, Db(0)) {
            Ok(Action::Engine(request)) => request,
            other => panic!("{line}: {other:?}"),
        };
        self.log.lines.clear();
        self.ask(1, request);
        let said = self.log.lines.pop().expect("an answer");
        said.strip_prefix("1:").expect("to client 1").to_owned()
    }

    /// The ids of the ready jobs of queue `q`, in order, as ms since [`BEGIN_MS`] behind the `@`.
    pub fn ready(&mut self) -> Vec<i64> {
        let state = Some(JobState::Ready);
        self.log.lines.clear();
        self.ask(97, Request::Peek { queue: queue("q"), state, count: 10_000, newest: false });
        let said = self.log.lines.pop().expect("an answer");
        let ids = said.strip_prefix("97:").expect("to client 97").split_ascii_whitespace();
        let at = |id: &str| id.rsplit('@').next().and_then(|at| at.parse::<i64>().ok());
        ids.filter_map(at).map(|at| at - BEGIN_MS as i64).collect()
    }

    /// Everything said since the last time, in order.
    #[track_caller]
    pub fn expect_events(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.log.lines), expected);
    }

    /// The same, unchecked.
    pub fn take_events(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log.lines)
    }

    /// Asks, and checks what is said to all.
    #[track_caller]
    pub fn check(&mut self, client: u64, request: Request<'_>, expected: &[&str]) {
        self.ask(client, request);
        self.expect_events(expected);
    }

    pub fn stats(&mut self, name: &'static str) -> StatsView {
        while self.ask(98, Request::Stats { queue: queue(name) }) == Outcome::Again {}
        let said = self.log.lines.pop();
        assert_eq!(said.as_deref(), Some("98:stats"));
        self.stats.clone().expect("STATS was answered")
    }

    /// Goes on with an engine that was loaded from a base of now.
    pub fn restart(&mut self) {
        self.engine.begin_base();
        while !self.engine.base_slice(100, 1_000) {}
        let images = std::mem::take(self.engine.base_output());
        let token_floor = self.tokens.iter().map(|(_, token)| token.0).max().unwrap_or(0);
        let mut loader = Loader::new(Settings { token_floor, ..self.engine.settings().clone() });
        loader.images(&images).expect("own images");
        let digest = self.engine.digest();
        self.engine = Engine::loaded(loader).expect("a whole base");
        assert_eq!(self.engine.digest(), digest);
    }

    /// A fresh engine with the facts so far has the same digest.
    pub fn replayed(&self) -> Engine {
        let settings = Settings { hash_seed: 77, ..self.engine.settings().clone() };
        let mut engine = Engine::new(settings);
        for (now, facts) in &self.facts {
            engine.apply(*now, facts).expect("own facts are readable");
        }
        assert_eq!(engine.digest(), self.engine.digest(), "a replay gives the same state");
        engine
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Every scenario is a test of the replay, too.
        if !std::thread::panicking() {
            self.replayed();
        }
    }
}
