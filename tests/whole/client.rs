//! A client: it looks for whoever leads, asks one thing after the other, and connects again when it is let down.

use super::audit::{Audit, Delivery, QUEUES, told_us};
use super::reply::{Reply, take};
use super::world::{MS, SECOND};
use delayd::server::in_memory::FarEnd;
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::VecDeque;

pub struct Client {
    pub kind: Kind,
    pub link: Option<Link>,
    pub asked: Option<Asked>,
    /// Of the next request or connection.
    pub next_node: usize,
    held: VecDeque<Held>,
    /// Counts requests, so that a deadline knows its own.
    pub number: u64,
}

pub struct Link {
    pub node: usize,
    pub life: u64,
    pub far: FarEnd,
    input: Vec<u8>,
    pub leads: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Producer,
    Worker,
    Popper,
}

pub struct Asked {
    what: Ask,
    at: u64,
    /// The greatest token of the queue that anybody had read by then.
    floor: u64,
    pub until: u64,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Role,
    Add { job: usize },
    Cancel { job: usize },
    Reserve { queue: usize, lease: u64 },
    Ack { job: usize, token: u64 },
    Pop { queue: usize },
}

#[derive(Clone, Copy)]
struct Held {
    job: usize,
    token: u64,
    ack_at: u64,
}

/// What a client does next.
pub enum Next {
    /// It has sent something.
    Sent,
    /// It has nothing to do for so long, µs.
    Idle(u64),
}

/// Where a reply came from.
#[derive(Clone, Copy)]
pub struct From {
    pub now: u64,
    pub promoted: u64,
}

pub fn queue_name(queue: usize) -> &'static str {
    ["work", "once"][queue]
}

impl Client {
    pub fn new(at: usize) -> Client {
        let kind = [Kind::Producer, Kind::Worker, Kind::Worker, Kind::Popper][at % 4];
        let (link, asked, held) = (None, None, VecDeque::new());
        Client { kind, link, asked, next_node: at % 3, held, number: 0 }
    }

    pub fn connected(&mut self, node: usize, life: u64, far: FarEnd, now: u64) {
        self.link = Some(Link { node, life, far, input: Vec::new(), leads: false });
        self.send("ROLE\r\n", Ask::Role, now, 0, SECOND);
    }

    fn send(&mut self, line: &str, what: Ask, now: u64, floor: u64, patience: u64) {
        let link = self.link.as_ref().expect("it is connected");
        link.far.send(line.as_bytes());
        self.number += 1;
        self.asked = Some(Asked { what, at: now, floor, until: now + patience });
    }

    /// Asks for something, if it has something to ask for.
    pub fn act(&mut self, now: u64, audit: &mut Audit, chance: &mut SmallRng) -> Next {
        if self.held.front().is_some_and(|held| held.ack_at <= now) {
            let Held { job, token, .. } = self.held.pop_front().expect("it was there");
            let line = format!("DELAY.ACK work j{job} {token}\r\n");
            self.send(&line, Ask::Ack { job, token }, now, 0, 3 * SECOND);
            return Next::Sent;
        }
        match self.kind {
            Kind::Producer if chance.random_ratio(1, 12) && !audit.jobs.is_empty() => {
                let job = chance.random_range(0..audit.jobs.len());
                let line = format!("DELAY.CANCEL {} j{job}\r\n", queue_name(audit.jobs[job].queue));
                self.send(&line, Ask::Cancel { job }, now, 0, 3 * SECOND);
            }
            Kind::Producer => {
                let ms = match chance.random_range(0..10) {
                    0..3 => 0,
                    3..8 => chance.random_range(1..1_500),
                    _ => chance.random_range(1_500..20_000),
                };
                let queue = usize::from(chance.random_ratio(1, 3));
                let job = audit.adds(queue, now, ms * MS);
                let line =
                    format!("DELAY.ADD {} {ms}ms body-{job} ID j{job}\r\n", queue_name(queue));
                self.send(&line, Ask::Add { job }, now, 0, 3 * SECOND);
            }
            Kind::Worker if self.held.len() >= 8 => {
                let at = self.held.front().expect("some").ack_at;
                return Next::Idle(at.saturating_sub(now).max(1));
            }
            Kind::Worker => {
                let (queue, lease) = (0, chance.random_range(1_000..5_000) * MS);
                let wait = chance.random_range(100..1_000) * MS;
                let line = format!(
                    "DELAY.RESERVE {}.{:03} 1 work LEASE {}ms\r\n",
                    wait / SECOND,
                    wait / MS % 1_000,
                    lease / MS
                );
                let floor = audit.greatest[queue];
                self.send(&line, Ask::Reserve { queue, lease }, now, floor, wait + 3 * SECOND);
            }
            Kind::Popper => {
                let queue = 1;
                let line = "DELAY.POP once 0.8\r\n";
                self.send(line, Ask::Pop { queue }, now, 0, 4 * SECOND);
            }
        }
        Next::Sent
    }

    /// Reads what has come; whether a whole reply was among it, and the connection is of use.
    pub fn read(
        &mut self,
        from: From,
        audit: &mut Audit,
        chance: &mut SmallRng,
        trace: &mut dyn FnMut(&Reply),
    ) -> Option<bool> {
        let link = self.link.as_mut()?;
        link.input.extend(link.far.receive());
        let reply = take(&mut link.input)?;
        trace(&reply);
        if self.asked.is_none() {
            // A last word before the connection is closed.
            assert!(matches!(reply, Reply::Error(_)), "nobody asked for {reply:?}");
            return Some(false);
        }
        let asked = self.asked.take().expect("just seen");
        Some(self.hear(&asked, &reply, from, audit, chance))
    }

    /// Whether the connection is of use.
    fn hear(
        &mut self,
        asked: &Asked,
        reply: &Reply,
        from: From,
        audit: &mut Audit,
        chance: &mut SmallRng,
    ) -> bool {
        let From { now, promoted } = from;
        if let Reply::Error(text) = reply {
            let is_refused =
                ["READONLY", "LOADING", "MASTERDOWN"].iter().any(|class| text.starts_with(class));
            if !is_refused {
                audit.seen.note("other errors");
                self.unknown(asked, audit);
            }
            return false;
        }
        match asked.what {
            Ask::Role => {
                let leads = reply.array()[0].text() == "master";
                self.link.as_mut().expect("it reads").leads = leads;
                return leads;
            }
            Ask::Add { job } => {
                assert_eq!(reply.text(), format!("j{job}"));
                audit.added(job, now);
                audit.seen.note("jobs added");
            }
            Ask::Cancel { job } => match reply {
                Reply::Bulk(state) if state != "leased" => audit.cancelled(job, now),
                _ => {}
            },
            Ask::Reserve { queue, lease } => {
                if *reply == Reply::Nil {
                    return true;
                }
                for one in reply.array() {
                    let one = one.array();
                    let job = number_of(&one[1]);
                    assert_eq!(one[2].text(), format!("body-{job}"));
                    let token: u64 = one[3].text().parse().expect("a token");
                    assert!(token > asked.floor, "token {token} of job {job} is below one before");
                    let (attempt, lease_end) = (one[4].number(), told_us(one[6].number()));
                    let decided = lease_end - lease;
                    assert_eq!(audit.jobs[job].queue, queue);
                    let due = told_us(one[5].number());
                    assert!(
                        due <= decided + MS,
                        "job {job} is due at {due} by what is told with it"
                    );
                    let delivery = Delivery { token, attempt, decided, lease_end, promoted };
                    audit.reserved(job, asked.at, now, delivery);
                    let ack_at = match chance.random_range(0..10) {
                        // It forgets it, and is late.
                        0 => continue,
                        1 => now + lease + chance.random_range(0..SECOND),
                        2..7 => now + chance.random_range(0..50 * MS),
                        _ => now + chance.random_range(0..lease),
                    };
                    self.held.push_back(Held { job, token, ack_at });
                }
            }
            Ask::Ack { job, token } => {
                if reply.number() == 1 {
                    audit.acked(job, token, now);
                }
            }
            Ask::Pop { .. } => {
                if *reply != Reply::Nil {
                    let job = number_of(&reply.array()[1]);
                    assert_eq!(reply.array()[2].text(), format!("body-{job}"));
                    audit.popped(job, asked.at, now);
                }
            }
        }
        true
    }

    fn unknown(&mut self, asked: &Asked, audit: &mut Audit) {
        audit.seen.note("requests without an answer");
        match asked.what {
            Ask::Role | Ask::Add { .. } | Ask::Reserve { .. } => {}
            Ask::Cancel { job } | Ask::Ack { job, .. } => audit.jobs[job].may_be_gone = true,
            Ask::Pop { queue } => audit.unread_pops[queue] += 1,
        }
    }

    /// The connection is gone, or it gives it up.
    pub fn let_down(&mut self, audit: &mut Audit) {
        if let Some(asked) = self.asked.take() {
            self.unknown(&asked, audit);
        }
        if let Some(link) = self.link.take() {
            link.far.close();
        }
    }
}

const _: () = assert!(QUEUES == 2);

fn number_of(id: &Reply) -> usize {
    id.text().strip_prefix('j').and_then(|text| text.parse().ok()).expect("an id of ours")
}
