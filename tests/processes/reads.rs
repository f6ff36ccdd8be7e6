//! H9: what a follower shows was committed, and is no older than it says.

use crate::processes::calls::{Answer, At, Finder};
use crate::processes::trio::{NODES, Trio, leads, wait_until};
use crate::support::patience::{haste, pass, seconds};
use crate::support::program::{Reply, Wire};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const QUEUE: &str = "counted";
/// What a follower says of its leader is in whole seconds. It applies what it has heard within one more, on two cores
/// that three nodes and some twenty clients share.
const SLACK_US: u64 = 2_000_000;
/// A follower that has heard nobody yet does not say how old it is: it shows jobs only when it has, at most four election
/// timeouts of 300 ms ago.
const UNHEARD_S: u64 = 1;

/// A number that was written, once that was answered.
#[derive(Clone, Copy, Debug)]
struct Written {
    end: At,
    number: u64,
}

/// What a node showed.
#[derive(Clone, Copy, Debug)]
struct Read {
    begin: At,
    number: u64,
    /// How long ago it heard its leader; nothing: it leads.
    heard_s: Option<u64>,
    /// What the leader showed after that.
    then: Option<u64>,
}

/// One who counts, and one who reads that everywhere.
pub struct Reader {
    is_over: Arc<AtomicBool>,
    writes: JoinHandle<Vec<Written>>,
    reads: JoinHandle<Vec<Read>>,
}

impl Reader {
    pub fn start(addresses: &[SocketAddr], seed: u64) -> Reader {
        let is_over = Arc::<AtomicBool>::default();
        let finder =
            |number: u64| Finder::new(addresses, SmallRng::seed_from_u64(seed ^ number << 24));
        let (one, other) = (finder(1), finder(2));
        let (over, also) = (Arc::clone(&is_over), Arc::clone(&is_over));
        let all = addresses.to_vec();
        let random = SmallRng::seed_from_u64(seed ^ 3 << 24);
        let writes = std::thread::spawn(move || write(one, &over));
        let reads = std::thread::spawn(move || read(&all, other, random, &also));
        Reader { is_over, writes, reads }
    }

    /// How often a follower was read, and what is wrong.
    pub fn stop(self) -> (usize, Vec<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        let (writes, reads) = (self.writes.join().unwrap(), self.reads.join().unwrap());
        let followers = reads.iter().filter(|read| read.heard_s.is_some()).count();
        (followers, check(&writes, &reads))
    }
}

/// Each number takes the place of the one before, so a node shows how far it has come.
fn write(mut finder: Finder, is_over: &AtomicBool) -> Vec<Written> {
    let (mut wire, mut writes) = (None, Vec::new());
    for number in 1.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let Some(mut open) = wire.take().or_else(|| finder.find()) else { continue };
        // Not as patient as others: it writes to the next leader while they still ask the one before.
        let _ = open.set_patience(haste());
        let told = open.try_ask(&format!("DELAY.ADD {QUEUE} 20d {number} ID x REPLACE"));
        if let Answer::Told(Reply::Bulk(_)) = Answer::of(told) {
            writes.push(Written { end: At::now(), number });
            wire = Some(open);
        }
        // Two cores have three nodes and twenty other clients to run.
        pass(Duration::from_millis(10));
    }
    writes
}

fn read(
    addresses: &[SocketAddr],
    mut finder: Finder,
    mut random: SmallRng,
    is_over: &AtomicBool,
) -> Vec<Read> {
    let mut reads = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        pass(Duration::from_millis(20));
        let node = random.random_range(0..addresses.len());
        let begin = At::now();
        let look = || {
            // One that stands still is waited for: what it shows as it goes on may be old.
            let mut wire = Wire::connect_for(addresses[node], seconds(2)).ok()?;
            // Before the number: what is said of the leader is no younger than that.
            let heard_s = heard(&mut wire)?;
            let number = number(&mut wire)?;
            // It led, and leads: in between it may have become a follower.
            let leads = heard_s.is_none() && heard(&mut wire)?.is_none();
            Some((number, (!leads).then(|| heard_s.unwrap_or(UNHEARD_S))))
        };
        let Some((number, heard_s)) = look() else { continue };
        let then = finder.find().and_then(|mut wire| self::number(&mut wire));
        reads.push(Read { begin, number, heard_s, then });
    }
    reads
}

/// 0 before there is one.
fn number(wire: &mut Wire) -> Option<u64> {
    let told = wire.try_ask(&format!("DELAY.GET {QUEUE} x"));
    match Answer::of(told) {
        Answer::Told(Reply::Nil) => Some(0),
        Answer::Told(Reply::Array(parts)) => {
            let body = parts.chunks(2).find(|pair| pair[0].text() == "body")?;
            body[1].text().parse().ok()
        }
        _ => None,
    }
}

/// What a node says of its leader: how many seconds ago it heard it; nothing if it leads itself.
fn heard(wire: &mut Wire) -> Option<Option<u64>> {
    let info = wire.try_ask("INFO replication").ok()?;
    let Reply::Bulk(_) = info else { return None };
    let text = info.text();
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    if field("role")? == "master" {
        return Some(None);
    }
    Some(Some(field("master_last_io_seconds_ago")?.parse().unwrap_or(UNHEARD_S)))
}

fn check(writes: &[Written], reads: &[Read]) -> Vec<String> {
    let mut wrong = Vec::new();
    for read in reads {
        let age_us = read.heard_s.map_or(0, |s| (s + 1) * 1_000_000 + SLACK_US);
        let told = writes.partition_point(|write| write.end.us + age_us < read.begin.us);
        let least = told.checked_sub(1).map_or(0, |at| writes[at].number);
        if read.number < least {
            wrong.push(format!("H9: {read:?} is older than it says: {least} was written"));
        }
        if read.then.is_some_and(|then| then < read.number) {
            wrong.push(format!("H9: {read:?} was not committed"));
        }
    }
    wrong
}

#[test]
fn a_read_that_is_wrong_is_found() {
    let at = |s: u64| At { us: s * 1_000_000, ms: 0 };
    let writes: Vec<_> = (1..9).map(|s| Written { end: at(s), number: s }).collect();
    let read = |s, number, heard_s, then| Read { begin: at(s), number, heard_s, then };
    let wrong = |read| check(&writes, &[read]).len();
    assert_eq!(wrong(read(6, 6, None, Some(6))), 0);
    assert_eq!(wrong(read(6, 3, Some(0), Some(6))), 0);
    assert_eq!(wrong(read(9, 3, Some(3), Some(6))), 0);
    // A leader shows what was answered; a follower says how old it may be; nothing goes back.
    assert_eq!(wrong(read(6, 4, None, Some(6))), 1);
    assert_eq!(wrong(read(6, 1, Some(0), Some(6))), 1);
    assert_eq!(wrong(read(6, 6, Some(0), Some(5))), 1);
}

/// It had no lease when it went on, and another node has led since. What it read then was to wait for a majority to confirm
/// it, and went out when it heard of the other one.
#[test]
fn a_leader_that_stood_still_shows_nothing_old() {
    let trio = Trio::start("reads", &[]);
    let mut closed = 0;
    for round in 0..8 {
        let leader = trio.leader();
        let mut wires: Vec<Wire> = (0..8).map(|_| trio.wire(leader)).collect();
        let read = format!("EXISTS q{round}");
        for wire in &mut wires {
            assert_eq!(wire.ask(&read).number(), 0);
        }
        trio.pause(leader);
        let others = (0..NODES).filter(|node| *node != leader);
        let next = wait_until("another one leads", || {
            others.clone().find(|node| leads(&mut trio.wire(*node)))
        });
        assert!(!trio.wire(next).ask(&format!("DELAY.ADD q{round} 1h x")).is_error("ERR"));
        for wire in &mut wires {
            wire.push_line(&read);
            wire.flush().unwrap();
        }
        trio.go_on(leader);
        for wire in &mut wires {
            match wire.read() {
                Ok(Reply::Number(shown)) => {
                    assert_eq!(shown, 1, "round {round}: it was added before")
                }
                Ok(Reply::Error(_)) => {}
                Ok(other) => panic!("{other:?}"),
                Err(_) => closed += 1,
            }
        }
        trio.wait_for_voters();
    }
    assert!(closed > 0, "no request arrived before it heard of the other leader");
}
