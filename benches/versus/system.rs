//! The systems that are compared, and how each is asked for the same thing.
//!
//! Redis is driven as people do it today: a sorted set of due times, a hash of bodies, and a script that
//! moves due jobs into a sorted set of running leases. beanstalkd has whole seconds and no batches.

use crate::support::Server;
use crate::wire::{Protocol, Wire, Word, bulks, digits, line, number, request, request_of, word};
use redis_protocol::resp2::types::Resp2Frame;

/// When the journal is synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Never: nothing is written.
    Off,
    /// Once a second.
    Everysec,
    /// Before a reply.
    Always,
}

impl Sync {
    pub fn word(self) -> &'static str {
        match self {
            Sync::Off => "off",
            Sync::Everysec => "everysec",
            Sync::Always => "always",
        }
    }
}

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    Delayd,
    Redis,
    Beanstalkd,
}

/// Takes up to ARGV[2] due jobs: `{id, body, id, body, …}`. KEYS: due times, bodies, leases.
/// ARGV: now, count, end of the lease.
const CLAIM: &str = "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2]) \
    if #ids == 0 then return ids end \
    redis.call('ZREM', KEYS[1], unpack(ids)) \
    local leases = {} \
    for at, id in ipairs(ids) do leases[2 * at - 1] = ARGV[3] leases[2 * at] = id end \
    redis.call('ZADD', KEYS[3], unpack(leases)) \
    local bodies = redis.call('HMGET', KEYS[2], unpack(ids)) \
    local jobs = {} \
    for at, id in ipairs(ids) do jobs[2 * at - 1] = id jobs[2 * at] = bodies[at] end \
    return jobs";

/// Jobs as they were taken: what acknowledges them, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Words of the acknowledgement: ids, and tokens where there are any.
    words: Vec<u8>,
    ends: Vec<usize>,
    /// Their numbers, as they were given to [`System::add`]; beanstalkd counts by itself, from 1 on.
    pub numbers: Vec<u64>,
}

impl Taken {
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
        self.numbers.clear();
    }

    fn push(&mut self, word: &[u8]) {
        self.words.extend_from_slice(word);
        self.ends.push(self.words.len());
    }

    fn words(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(from, to)| &self.words[from..*to])
    }
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            System::Delayd => "delayd",
            System::Redis => "Redis",
            System::Beanstalkd => "beanstalkd",
        }
    }

    pub fn protocol(self) -> Protocol {
        if self == System::Beanstalkd { Protocol::Beanstalk } else { Protocol::Resp }
    }

    /// Starts it on a port and a folder of its own.
    pub fn start(self, sync: Sync) -> Server {
        const CLIENTS: [&str; 2] = ["--maxclients", "15000"];
        const OURS: [&str; 4] = ["--maxmemory", "0", CLIENTS[0], CLIENTS[1]];
        match (self, sync) {
            (System::Delayd, Sync::Off) => Server::delayd(&OURS),
            (System::Delayd, sync) => Server::durable_with(sync.word(), &OURS),
            (System::Redis, Sync::Off) => redis(&[&["--appendonly", "no"], &CLIENTS[..]].concat()),
            (System::Redis, sync) => {
                let log = ["--appendonly", "yes", "--appendfsync", sync.word()];
                redis(&[&log, &CLIENTS[..]].concat())
            }
            (System::Beanstalkd, Sync::Off) => Server::beanstalkd(None),
            (System::Beanstalkd, Sync::Everysec) => Server::beanstalkd(Some(1_000)),
            (System::Beanstalkd, Sync::Always) => Server::beanstalkd(Some(0)),
        }
    }

    pub fn connect(self, server: &Server) -> Wire {
        Wire::connect(server.port, self.protocol())
    }

    /// Replies to one [`System::add`].
    pub fn add_replies(self) -> usize {
        if self == System::Redis { 2 } else { 1 }
    }

    /// A job with an id of the client's that falls due at `due_ms`.
    pub fn add(self, out: &mut Vec<u8>, job: u64, due_ms: u64, now_ms: u64, body: &str) {
        let id = id(job);
        let id = Word::Text(&id);
        match self {
            System::Delayd => {
                let mut due = *b"@0000000000000";
                due[1..].copy_from_slice(digits(due_ms, &mut [0; 20]));
                let (head, due) = ("DELAY.ADD".into(), Word::Text(&due));
                request(out, &[head, "q".into(), due, body.into(), "ID".into(), id]);
            }
            System::Redis => {
                request(out, &["ZADD".into(), "z".into(), due_ms.into(), id]);
                request(out, &["HSET".into(), "h".into(), id, body.into()]);
            }
            System::Beanstalkd => {
                let delay_s = due_ms.saturating_sub(now_ms).div_ceil(1_000);
                out.extend_from_slice(b"put 1 ");
                out.extend_from_slice(digits(delay_s, &mut [0; 20]));
                out.extend_from_slice(b" 60 ");
                out.extend_from_slice(digits(body.len() as u64, &mut [0; 20]));
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(body.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Asks for up to `count` due jobs without waiting.
    pub fn take(self, out: &mut Vec<u8>, count: u64, now_ms: u64) {
        match self {
            System::Delayd => {
                let words = ["DELAY.RESERVE", "NOWAIT", "1", "q", "COUNT"].map(Word::from);
                request_of(out, words.len() + 1);
                words.into_iter().chain([count.into()]).for_each(|one| word(out, one));
            }
            System::Redis => {
                let words = ["EVALSHA", claim_digest(), "3", "z", "h", "leases"].map(Word::from);
                request_of(out, words.len() + 3);
                let numbers = [now_ms, count, now_ms + 60_000].map(Word::from);
                words.into_iter().chain(numbers).for_each(|one| word(out, one));
            }
            System::Beanstalkd => out.extend_from_slice(b"reserve-with-timeout 0\r\n"),
        }
    }

    /// Puts the jobs of a reply to [`System::take`] in place of those in `jobs`.
    pub fn taken(self, reply: &[u8], jobs: &mut Taken) {
        jobs.clear();
        match self {
            System::Delayd => {
                // Queue, id, body, attempt, due time, token, end of the lease.
                let mut all = bulks(reply);
                while let (Some(_queue), Some(id), Some(_body), Some(token)) =
                    (all.next(), all.next(), all.next(), all.next())
                {
                    jobs.push(id);
                    jobs.push(token);
                    jobs.numbers.push(job_of(id));
                }
            }
            System::Redis => {
                for id in bulks(reply).step_by(2) {
                    jobs.push(id);
                    jobs.numbers.push(job_of(id));
                }
            }
            System::Beanstalkd => {
                let (head, _) = line(reply).expect("a whole reply");
                let mut words = head.split(|byte| *byte == b' ');
                if words.next() == Some(b"RESERVED") {
                    let id = words.next().expect("an id");
                    jobs.push(id);
                    jobs.numbers.push(number(id) as u64 - 1);
                }
            }
        }
    }

    /// Acknowledges jobs; returns how many replies answer that.
    pub fn ack(self, out: &mut Vec<u8>, jobs: &Taken) -> usize {
        let mut of = |head: [&str; 2]| {
            request_of(out, 2 + jobs.ends.len());
            head.into_iter().for_each(|one| word(out, one.into()));
            jobs.words().for_each(|one| word(out, one.into()));
        };
        match self {
            System::Delayd => {
                of(["DELAY.ACK", "q"]);
                1
            }
            System::Redis => {
                of(["ZREM", "leases"]);
                of(["HDEL", "h"]);
                2
            }
            System::Beanstalkd => {
                for id in jobs.words() {
                    out.extend_from_slice(b"delete ");
                    out.extend_from_slice(id);
                    out.extend_from_slice(b"\r\n");
                }
                jobs.len()
            }
        }
    }

    /// Jobs that one reply to [`System::ack`] acknowledges: all of them in the first, and none in a
    /// second one.
    pub fn acked(self, reply: &[u8], first: bool) -> u64 {
        match self {
            System::Beanstalkd => u64::from(reply.starts_with(b"DELETED")),
            _ if first => number(line(reply).expect("a line").0.get(1..).expect("digits")) as u64,
            _ => 0,
        }
    }

    /// Makes it ready for [`System::take`].
    pub fn prepare(self, server: &Server) {
        if self == System::Redis {
            let reply = server.client().call(&["SCRIPT", "LOAD", CLAIM]);
            DIGEST.get_or_init(|| reply.as_str().expect("a digest").to_owned());
        }
    }
}

/// A job's id: 20 bytes.
pub fn id(job: u64) -> [u8; 20] {
    let mut id = *b"job:0000000000000000";
    let mut room = [0; 20];
    let digits = digits(job, &mut room);
    id[20 - digits.len()..].copy_from_slice(digits);
    id
}

/// The job of an id.
pub fn job_of(id: &[u8]) -> u64 {
    number(&id[4..]) as u64
}

fn redis(options: &[&str]) -> Server {
    Server::redis_with(options).expect("redis-server is installed")
}

/// The name under which Redis keeps [`CLAIM`], as it told when it was given it.
fn claim_digest() -> &'static str {
    DIGEST.get().expect("the script was loaded")
}

static DIGEST: std::sync::OnceLock<String> = std::sync::OnceLock::new();
