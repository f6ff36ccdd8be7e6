//! A client that looks for the leader, and keeps what it asked and was told.

use crate::processes::trio::leads;
use crate::support::patience::{pass, seconds};
use crate::support::program::{Reply, Wire, wall_ms};
use crate::support::seen::Label;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Queues whose jobs are taken with a lease only: none may ever be lost.
pub const WORK: [&str; 2] = ["work0", "work1"];
/// Its jobs are taken at most once: as many may be lost as pops were not answered.
pub const POPS: &str = "pops";
pub const QUEUES: [&str; 3] = [WORK[0], WORK[1], POPS];

/// The queue of a job.
pub fn queue_of(label: Label) -> &'static str {
    QUEUES[label as usize % QUEUES.len()]
}

/// An instant, by both clocks of this machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct At {
    /// Since the test began; never goes back.
    pub us: u64,
    /// Unix time, which the nodes read as well.
    pub ms: u64,
}

impl At {
    pub fn now() -> At {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        At { us: BEGIN.elapsed().as_micros() as u64, ms: wall_ms() }
    }
}

/// What is asked.
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// At a time by the wall clock. With an id, if that is not taken: may be repeated. Without, the server makes one.
    Add {
        label: Label,
        due_ms: u64,
        has_id: bool,
    },
    Cancel {
        label: Label,
    },
    Reserve {
        count: u64,
        lease_ms: u64,
        bound: bool,
    },
    Pop,
    Ack {
        label: Label,
        id: String,
        token: u64,
    },
    Nack {
        label: Label,
        id: String,
        token: u64,
        in_ms: u64,
    },
    Extend {
        label: Label,
        id: String,
        token: u64,
        ms: u64,
    },
}

/// Waiting for a job ends after this, if a client is not told otherwise.
const BLOCK_S: f64 = 0.2;

impl What {
    fn line(&self, block_s: f64) -> String {
        match self {
            What::Add { label, due_ms, has_id } => {
                let id = if *has_id { format!(" ID {label} NX UNIQUE 1h") } else { String::new() };
                format!("DELAY.ADD {} @{due_ms} {label}{id} BACKOFF 20ms", queue_of(*label))
            }
            What::Cancel { label } => format!("DELAY.CANCEL {} {label}", queue_of(*label)),
            What::Reserve { count, lease_ms, bound } => {
                let bound = if *bound { " BOUND" } else { "" };
                let queues = WORK.join(" ");
                format!(
                    "DELAY.RESERVE {block_s} 2 {queues} COUNT {count} LEASE {lease_ms}ms{bound}"
                )
            }
            What::Pop => format!("DELAY.POP {POPS} {block_s}"),
            What::Ack { label, id, token } => {
                format!("DELAY.ACK {} {id} {token}", queue_of(*label))
            }
            What::Nack { label, id, token, in_ms } => {
                format!("DELAY.NACK {} {id} {token} IN {in_ms}ms", queue_of(*label))
            }
            What::Extend { label, id, token, ms } => {
                format!("DELAY.EXTEND {} {id} {token} {ms}ms", queue_of(*label))
            }
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Told(Reply),
    /// It was not done: who was asked does not decide.
    TurnedAway,
    /// It may have been done.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub begin: At,
    pub end: At,
    /// Which one, of all that were ever opened.
    pub connection: u64,
    pub what: What,
    pub answer: Answer,
}

/// Finds who leads.
pub struct Finder {
    addresses: Vec<SocketAddr>,
    random: SmallRng,
}

impl Finder {
    pub fn new(addresses: &[SocketAddr], random: SmallRng) -> Finder {
        Finder { addresses: addresses.to_vec(), random }
    }

    /// A connection to a node that says that it leads. None, after a moment, if none does.
    pub fn find(&mut self) -> Option<Wire> {
        let first = self.random.random_range(0..self.addresses.len());
        let found = (0..self.addresses.len()).find_map(|i| {
            let address = self.addresses[(first + i) % self.addresses.len()];
            // One that answers nothing stands still, and is given up.
            let open = || -> io::Result<Wire> {
                let mut wire = Wire::connect_for(address, seconds(2))?;
                if !leads(&mut wire) {
                    return Err(io::ErrorKind::NotConnected.into());
                }
                Ok(wire)
            };
            open().ok()
        });
        if found.is_none() {
            pass(Duration::from_millis(20));
        }
        found
    }
}

/// Names with this in them, as clients of one of several partitions have them: its queues are all there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tag(&'static str);

impl Tag {
    /// `{` and `}` are around it.
    pub fn new(tag: &str) -> Tag {
        Tag(String::leak(format!("{{{tag}}}")))
    }

    pub fn names(self) -> [&'static str; 3] {
        QUEUES.map(|queue| &*String::leak(format!("{queue}{}", self.0)))
    }

    fn put_on(self, line: String) -> String {
        if self.0.is_empty() {
            return line;
        }
        QUEUES.iter().fold(line, |line, queue| line.replace(queue, &format!("{queue}{}", self.0)))
    }

    fn take_off(self, reply: Reply) -> Reply {
        match reply {
            Reply::Array(all) => {
                Reply::Array(all.into_iter().map(|one| self.take_off(one)).collect())
            }
            Reply::Bulk(bytes) => match bytes.strip_suffix(self.0.as_bytes()) {
                Some(name) if QUEUES.iter().any(|queue| queue.as_bytes() == name) => {
                    Reply::Bulk(name.to_vec())
                }
                _ => Reply::Bulk(bytes),
            },
            other => other,
        }
    }
}

/// See the module.
pub struct Client {
    finder: Finder,
    pub tag: Tag,
    wire: Option<(u64, Wire)>,
    /// Waiting for a job ends after this; 0 never.
    pub block_s: f64,
    /// Until a reply is given up.
    pub patience: Duration,
    pub random: SmallRng,
    pub calls: Vec<Call>,
}

impl Client {
    pub fn new(addresses: &[SocketAddr], mut random: SmallRng) -> Client {
        let finder = Finder::new(addresses, SmallRng::seed_from_u64(random.random()));
        let (wire, block_s, patience, calls) = (None, BLOCK_S, seconds(2), Vec::new());
        Client { finder, tag: Tag::default(), wire, block_s, patience, random, calls }
    }

    /// None while nobody is known to lead.
    pub fn ask(&mut self, what: What) -> Option<Answer> {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        let number = || CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let open = || {
            let mut wire = self.finder.find()?;
            wire.set_patience(self.patience).ok()?;
            Some((number(), wire))
        };
        let (connection, mut wire) = self.wire.take().or_else(open)?;
        let begin = At::now();
        let told = wire.try_ask(&self.tag.put_on(what.line(self.block_s)));
        let told = told.map(|reply| self.tag.take_off(reply));
        let end = At::now();
        let answer = Answer::of(told);
        if matches!(answer, Answer::Told(_)) {
            self.wire = Some((connection, wire));
        }
        self.calls.push(Call { begin, end, connection, what, answer: answer.clone() });
        Some(answer)
    }
}

impl Answer {
    /// What it means that this was read, or not.
    pub fn of(told: io::Result<Reply>) -> Answer {
        match told {
            Ok(Reply::Error(text)) if turns_away(&text) => Answer::TurnedAway,
            Ok(reply) => Answer::Told(reply),
            Err(_) => Answer::Unknown,
        }
    }
}

fn turns_away(text: &str) -> bool {
    let class = text.split(' ').next();
    ["READONLY", "MASTERDOWN", "CLUSTERDOWN", "LOADING", "UNBLOCKED", "MISCONF", "MOVED"]
        .map(Some)
        .contains(&class)
}
