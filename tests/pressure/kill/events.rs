//! What a client asked, and what it was told.

use crate::support::program::{Reply, wall_ms};
pub use crate::support::seen::{Label, label_of};
use std::time::Instant;

/// Queues whose jobs are taken with a lease only: none may ever be lost.
pub const WORK: [&str; 2] = ["work0", "work1"];
/// Its jobs are taken at most once: as many may be lost as were asked for when the server died.
pub const POPS: &str = "pops";
/// Nobody takes from it; transactions add here.
pub const PAIRS: &str = "pairs";
pub const QUEUES: [&str; 4] = [WORK[0], WORK[1], POPS, PAIRS];

/// When a job is due.
#[derive(Clone, Copy, Debug)]
pub enum When {
    InMs(u64),
    AtMs(u64),
}

impl When {
    pub fn text(self) -> String {
        match self {
            When::InMs(ms) => format!("{ms}ms"),
            When::AtMs(ms) => format!("@{ms}"),
        }
    }

    /// The least and the greatest due time of what was asked and answered at these times.
    pub fn bounds(self, sent_ms: u64, read_ms: u64) -> (u64, u64) {
        match self {
            // The receipt is rounded up to the ms.
            When::InMs(ms) => (sent_ms + ms, read_ms.saturating_add(ms + 1)),
            When::AtMs(ms) => (ms.min(sent_ms), read_ms.saturating_add(1).max(ms)),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Add {
    pub label: Label,
    pub queue: &'static str,
    pub id: Option<String>,
    pub when: When,
    /// `NX`, `REPLACE` or nothing.
    pub mode: &'static str,
    pub attempts: u64,
    pub filler: usize,
}

#[derive(Clone, Debug)]
pub enum What {
    Add(Add),
    Cancel {
        queue: &'static str,
        id: String,
    },
    Delete {
        queue: &'static str,
        id: String,
    },
    Reschedule {
        queue: &'static str,
        id: String,
        when: When,
    },
    Reserve {
        queues: Vec<&'static str>,
        count: u64,
        lease_ms: u64,
        bound: bool,
    },
    /// At most once: POP, or RESERVE with NOACK.
    Pop {
        count: u64,
        noack: bool,
    },
    Ack {
        label: Label,
        queue: &'static str,
        id: String,
        token: u64,
    },
    Nack {
        label: Label,
        queue: &'static str,
        id: String,
        token: u64,
        uncounted: bool,
        in_ms: u64,
    },
    Extend {
        label: Label,
        queue: &'static str,
        id: String,
        token: u64,
        ms: u64,
    },
    /// A transaction.
    Exec(Vec<What>),
    Save,
}

impl What {
    /// The command's arguments; not for a transaction.
    pub fn args(&self) -> Vec<Vec<u8>> {
        let text = match self {
            What::Add(add) => return add.args(),
            What::Cancel { queue, id } => format!("DELAY.CANCEL {queue} {id}"),
            What::Delete { queue, id } => format!("DELAY.DEL {queue} {id}"),
            What::Reschedule { queue, id, when } => {
                format!("DELAY.RESCHEDULE {queue} {id} {}", when.text())
            }
            What::Reserve { queues, count, lease_ms, bound } => {
                let (names, number) = (queues.join(" "), queues.len());
                let bound = if *bound { " BOUND" } else { "" };
                format!(
                    "DELAY.RESERVE 0.05 {number} {names} COUNT {count} LEASE {lease_ms}ms{bound}"
                )
            }
            What::Pop { count, noack: true } => {
                format!("DELAY.RESERVE 0.05 1 {POPS} COUNT {count} NOACK")
            }
            What::Pop { .. } => format!("DELAY.POP {POPS} 0.05"),
            What::Ack { queue, id, token, .. } => format!("DELAY.ACK {queue} {id} {token}"),
            What::Nack { queue, id, token, uncounted: true, .. } => {
                format!("DELAY.NACK {queue} {id} {token} UNCOUNTED")
            }
            What::Nack { queue, id, token, in_ms, .. } => {
                format!("DELAY.NACK {queue} {id} {token} IN {in_ms}ms ERROR later")
            }
            What::Extend { queue, id, token, ms, .. } => {
                format!("DELAY.EXTEND {queue} {id} {token} {ms}ms")
            }
            What::Save => "BGSAVE".to_owned(),
            What::Exec(_) => panic!("a transaction is several commands"),
        };
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }
}

impl Add {
    fn args(&self) -> Vec<Vec<u8>> {
        let body = format!("{} {}", self.label, "x".repeat(self.filler));
        let mut text = vec!["DELAY.ADD".to_owned(), self.queue.to_owned(), self.when.text(), body];
        if let Some(id) = &self.id {
            text.extend(["ID".to_owned(), id.clone()]);
        }
        if !self.mode.is_empty() {
            text.push(self.mode.to_owned());
        }
        text.extend(["ATTEMPTS".to_owned(), self.attempts.to_string()]);
        if !self.label.is_multiple_of(3) {
            text.extend(["GROUP".to_owned(), format!("g{}", self.label % 3)]);
        }
        text.into_iter().map(String::into_bytes).collect()
    }
}

/// Something that was asked.
#[derive(Clone, Debug)]
pub struct Event {
    pub what: What,
    pub sent: Instant,
    pub sent_ms: u64,
    /// None if the server died before.
    pub answer: Option<Answer>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub reply: Reply,
    pub read: Instant,
    pub read_ms: u64,
}

impl Answer {
    pub fn now(reply: Reply) -> Answer {
        Answer { reply, read: Instant::now(), read_ms: wall_ms() }
    }
}

/// A job in a reply of RESERVE or POP.
#[derive(Clone, Debug)]
pub struct Handed {
    pub label: Label,
    pub queue: &'static str,
    pub id: String,
    /// 0 without a lease.
    pub token: u64,
    pub attempt: u64,
    pub due_ms: Option<u64>,
    pub lease_end_ms: u64,
}

pub fn queue_of(name: &str) -> &'static str {
    QUEUES.into_iter().find(|queue| *queue == name).expect("one of ours")
}

impl Handed {
    /// The jobs of a reply.
    pub fn all(what: &What, reply: &Reply) -> Vec<Handed> {
        let Some(parts) = reply.array() else { return Vec::new() };
        match what {
            What::Pop { noack: false, .. } => vec![Handed {
                label: label_of(parts[2].bytes()),
                queue: queue_of(parts[0].text()),
                id: parts[1].text().to_owned(),
                token: 0,
                attempt: 0,
                due_ms: None,
                lease_end_ms: 0,
            }],
            _ => parts.iter().map(|job| Handed::one(job.array().unwrap())).collect(),
        }
    }

    fn one(parts: &[Reply]) -> Handed {
        Handed {
            label: label_of(parts[2].bytes()),
            queue: queue_of(parts[0].text()),
            id: parts[1].text().to_owned(),
            token: parts[3].text().parse().unwrap_or(0),
            attempt: parts[4].number() as u64,
            due_ms: Some(parts[5].number() as u64),
            lease_end_ms: parts[6].number() as u64,
        }
    }
}
