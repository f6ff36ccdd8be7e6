//! An engine with a journal, without a server: the same calls give the same facts.

use delayd::command::{self, Action, table};
use delayd::engine::model::fact::Fact;
use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::{Add, QueueName, Request, Reserve, Wait, When};
use delayd::engine::{Engine, Facts, Settings, Turn};
use delayd::ids::{ClientId, Db, Index, Token};
use delayd::journal::base::{BaseHead, BaseWriter};
use delayd::journal::record::RecordKind;
use delayd::journal::recovery::{Progress, Recovered, recover};
use delayd::journal::{Disk, Log, LogOptions, SegmentEntry};
use delayd::time::{Micros, Millis};
use std::path::Path;
use std::sync::Arc;

/// 2025-01-01.
pub const BEGIN: Micros = Micros(1_735_689_600_000_000);

pub const OPTIONS: LogOptions = LogOptions { segment_bytes: 64 << 10, shard: 0, spares_max: 2 };

/// Remembers the leases that were given.
#[derive(Default)]
struct Leases(Vec<(Vec<u8>, Token)>);

impl Outbox for Leases {
    fn reply(&mut self, _: ClientId, reply: Reply<'_>) {
        match reply {
            Reply::Reserved(jobs) => {
                let tokens = jobs.iter().filter_map(|job| Some((job.id.to_vec(), job.token?)));
                self.0.extend(tokens);
            }
            Reply::Error(error) => panic!("refused: {error}"),
            _ => {}
        }
    }
}

pub struct Desk {
    pub engine: Engine,
    pub now: Micros,
    storage: Arc<Disk>,
    log: Log<Disk>,
    /// The newest batch, and the sequence of the next fact.
    pub index: Index,
    first: u64,
    /// Of the leader, and its id; 0 for a node alone.
    epoch: u64,
    node: u64,
    leases: Leases,
}

pub fn name(db: u8, name: &[u8]) -> QueueName<'_> {
    QueueName { db: Db(db), name }
}

pub fn add<'a>(queue: QueueName<'a>, id: &'a [u8], in_ms: u64) -> Add<'a> {
    Add { id: Some(id), ..Add::new(queue, When::In(in_ms), b"body") }
}

pub fn reserve<'a>(db: u8, queues: &'a [&'a [u8]]) -> Reserve<'a> {
    Reserve {
        db: Db(db),
        queues,
        wait: Wait::No,
        count: 1,
        lease_ms: None,
        no_ack: false,
        bound: false,
        meta: false,
    }
}

impl Desk {
    /// Begins a journal in an empty folder.
    pub fn new(folder: &Path) -> Desk {
        let settings = Settings { token_floor: 1 << 60, ..Settings::default() };
        let storage = Arc::new(Disk::open(folder).unwrap());
        let (log, _) = Log::open(Arc::clone(&storage), OPTIONS, Index(0)).unwrap();
        Desk {
            engine: Engine::new(settings),
            now: BEGIN,
            storage,
            log,
            index: Index(0),
            first: 1,
            epoch: 1,
            node: 0,
            leases: Leases::default(),
        }
    }

    /// Goes on with a journal that is there, a second after its last instant.
    pub fn resume(folder: &Path) -> Desk {
        let settings = Settings { token_floor: 1 << 61, ..Settings::default() };
        let storage = Arc::new(Disk::open(folder).unwrap());
        let recovered = recover(&storage, OPTIONS, settings, &Progress::default()).unwrap();
        let Recovered { engine, log, index, first, now, .. } = recovered;
        let (now, leases) = (Micros(now.0 + 1_000_000), Leases::default());
        Desk { engine, now, storage, log, index, first, epoch: 1, node: 0, leases }
    }

    /// What it is at, from here on, as a member of a cluster: this node leads in this epoch.
    pub fn lead(&mut self, epoch: u64, node: u64) {
        (self.epoch, self.node) = (epoch, node);
    }

    /// A batch without facts; durable and committed.
    pub fn aside(&mut self, kind: RecordKind, body: &[u8]) {
        self.append(kind, 0, body);
        self.log.sync().unwrap();
        self.log.commit(self.index);
    }

    /// A batch with one fact that no engine has applied, and nothing says that it is committed.
    pub fn propose(&mut self, fact: &Fact<'_>) {
        let mut facts = Facts::default();
        facts.push(fact);
        self.append(RecordKind::Facts, 1, &facts.bytes);
    }

    /// Makes void what was proposed.
    pub fn cut(&mut self, batches: u64) {
        (self.index, self.first) = (Index(self.index.0 - batches), self.first - batches);
        self.log.cut_after(self.index).unwrap();
    }

    /// The log.
    pub fn log(&mut self) -> &mut Log<Disk> {
        &mut self.log
    }

    fn append(&mut self, kind: RecordKind, count: u32, body: &[u8]) {
        let Desk { epoch, node, first, now, .. } = *self;
        let index = self.index.next();
        self.log
            .append(&[SegmentEntry { kind, index, epoch, node, first, now, count, body }])
            .unwrap();
        (self.index, self.first) = (index, first + u64::from(count));
    }

    /// Does something and writes its facts as a batch, durably.
    pub fn turn(&mut self, work: impl FnOnce(&mut Engine, Micros, &mut Turn<'_>)) {
        let mut facts = Facts::default();
        let turn = &mut Turn { facts: &mut facts, outbox: &mut self.leases };
        work(&mut self.engine, self.now, turn);
        self.write(&facts);
    }

    /// Writes facts that have been applied.
    pub fn write(&mut self, facts: &Facts) {
        if facts.count == 0 {
            return;
        }
        self.append(RecordKind::Facts, facts.count as u32, &facts.bytes);
        self.log.sync().unwrap();
        if self.log.members().is_some() {
            self.log.commit(self.index);
        }
    }

    /// Goes on in a new segment.
    pub fn roll(&mut self) {
        self.log.begin_segment().unwrap();
    }

    /// Asks for something as a client.
    pub fn ask(&mut self, client: u64, request: &Request<'_>) {
        self.turn(|engine, now, turn| {
            engine.handle(now, ClientId(client), request, turn);
        });
    }

    /// As [`ask`](Desk::ask); what was handed over arrives.
    pub fn served(&mut self, client: u64, request: &Request<'_>) {
        self.ask(client, request);
        self.engine.sent(ClientId(client));
    }

    pub fn add(&mut self, add: Add<'_>) {
        self.ask(1, &Request::Add(add));
    }

    /// Says a line of DELAY.SCHEDULE; `"..."` holds blanks.
    pub fn schedule(&mut self, line: &str) {
        let mut parts = line.split('"');
        let mut words = vec![&b"DELAY.SCHEDULE"[..]];
        while let Some(bare) = parts.next() {
            words.extend(bare.split_ascii_whitespace().map(str::as_bytes));
            words.extend(parts.next().map(str::as_bytes));
        }
        let spec = table::resolve(&words).expect("a subcommand");
        match command::parse(spec, &words, Db(0)) {
            Ok(Action::Engine(request)) => self.ask(1, &request),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The token of the newest lease of a job.
    pub fn token(&self, id: &[u8]) -> Token {
        let given = self.leases.0.iter().rev().find(|(of, _)| of == id);
        given.unwrap_or_else(|| panic!("{} was never leased", id.escape_ascii())).1
    }

    /// Keeps the minutes of so many queues.
    pub fn keep_minutes(&mut self, queues_max: u32) {
        self.engine.settings_mut().history_queues_max = queues_max;
        self.pass(0);
    }

    /// Lets time pass.
    pub fn pass(&mut self, ms: u64) {
        self.now = Micros(self.now.0 + ms * 1_000);
        self.turn(|engine, now, turn| while engine.advance(now, 1_000_000, turn) {});
    }

    pub fn at(&self, ms: u64) -> When {
        When::At(Millis(self.now.0 / 1_000).plus(ms).0)
    }

    /// Writes a base of what is there now.
    pub fn base(&mut self) {
        self.engine.begin_base();
        while !self.engine.base_slice(100, 1_000) {}
        let images = std::mem::take(self.engine.base_output());
        let (index, first, now) = (self.index, self.first, self.now);
        let head = BaseHead { index, first, now, epoch: self.epoch, shard: 0 };
        let mut writer = BaseWriter::begin(&self.storage, head).unwrap();
        writer.write(&images).unwrap();
        self.log.members().into_iter().for_each(|members| writer.set_members(members.clone()));
        writer.finish().unwrap();
    }
}
