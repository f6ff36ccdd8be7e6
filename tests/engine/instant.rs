//! The same commands at one instant give the same, in a transaction and one by one.

use std::collections::BTreeSet;

use delayd::command::{self, Action, table};
use delayd::engine::model::request::Request;
use delayd::ids::Db;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::engine::bench::*;
use crate::support::seeds::for_each_seed;

fn words(line: &str) -> Vec<&[u8]> {
    line.split_ascii_whitespace().map(str::as_bytes).collect()
}

fn parsed<'w>(words: &'w [&'w [u8]]) -> Request<'w> {
    let spec = table::resolve(words).expect("a command with as many words as it takes");
    match command::parse(spec, words, Db(0)) {
        Ok(Action::Engine(request)) => request,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(&words.join(&b' '))),
    }
}

fn ask(bench: &mut Bench, line: &str) {
    let words = words(line);
    let request = parsed(&words);
    while bench.ask(1, request.clone()) == delayd::engine::Outcome::Again {
        bench.advance(1_000_000);
    }
}

fn transact(bench: &mut Bench, lines: &[String]) -> TransactionBegun {
    let words: Vec<_> = lines.iter().map(|line| words(line)).collect();
    let requests: Vec<_> = words.iter().map(|words| parsed(words)).collect();
    bench.transact(1, &requests)
}

/// What a seed leaves out, so that what others bring about is met more often.
struct Mix {
    random: SmallRng,
    left_out: BTreeSet<u32>,
}

impl Mix {
    fn of(seed: u64) -> Mix {
        let mut random = SmallRng::seed_from_u64(seed);
        let left_out = (0..24).filter(|_| random.random_ratio(1, 3)).collect();
        Mix { random, left_out }
    }

    fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        words.choose(&mut self.random).expect("there are some")
    }

    /// A command; tokens are those of `bench`.
    fn line(&mut self, bench: &Bench) -> String {
        let queue = self.one_of(&["q", "q", "q", "r"]);
        let other = self.one_of(&["q", "r"]);
        let id = self.one_of(&["a", "b", "c", "d"]);
        let when = self.one_of(&["0", "0", "1ms", "5ms", "@1735689600000"]);
        let mut given = bench.tokens.iter().rev().filter(|(of, _)| of == id);
        let newest = self.random.random_range(0..=1);
        let token = given.nth(newest).map_or(1, |(_, token)| token.0);
        let kind = loop {
            let kind = self.random.random_range(0..24);
            if !self.left_out.contains(&kind) {
                break kind;
            }
        };
        match kind {
            0 => {
                let taken = self.one_of(&["", "NX", "REPLACE"]);
                let attempts = self.one_of(&["", "ATTEMPTS 1", "ATTEMPTS 2"]);
                let backoff = self.one_of(&["", "BACKOFF 0,5ms", "BACKOFF 1ms", "TTL 1ms"]);
                let unique = self.one_of(&["", "", "UNIQUE 1ms"]);
                format!(
                    "DELAY.ADD {queue} {when} body ID {id} {taken} {attempts} {backoff} {unique}"
                )
            }
            1 => format!("DELAY.ADD {queue} {when} body"),
            2 => format!("DELAY.POP {queue} {other} NOWAIT"),
            3 => {
                let how = self.one_of(&["", "COUNT 3", "NOACK", "LEASE 1ms", "COUNT 2 LEASE 5ms"]);
                format!("DELAY.RESERVE NOWAIT 1 {queue} {how}")
            }
            4 => format!("DELAY.ACK {queue} {id} {token}"),
            5 | 6 => {
                let how =
                    self.one_of(&["", "BURY", "UNCOUNTED", "UNCOUNTED IN 0", "PRIORITY 1 IN 0"]);
                format!("DELAY.NACK {queue} {id} {token} {how}")
            }
            7 => format!("DELAY.NACK {queue} {id} {token} IN {when}"),
            8 => format!("DELAY.EXTEND {queue} {id} {token} 1ms"),
            9 => {
                let only = self.one_of(&["", "GT", "LT"]);
                format!("DELAY.RESCHEDULE {queue} {id} {when} {only}")
            }
            10 => {
                let how = self.one_of(&["", "COUNT 1", "KEEP-ATTEMPTS", "IDS 2 a b", "IN 5ms"]);
                format!("DELAY.REDRIVE {queue} {how}")
            }
            11 => format!("DELAY.CANCEL {queue} {id} {}", self.one_of(&["", "FORCE"])),
            12 => format!("{} {queue} x y", self.one_of(&["LPUSH", "RPUSH", "LPUSHX"])),
            13 => format!("{} {queue}", self.one_of(&["LPOP", "RPOP"])),
            14 => format!("LMOVE {queue} {other} {}", self.one_of(&["LEFT LEFT", "RIGHT LEFT"])),
            15 => format!("LLEN {queue}"),
            16 => format!("LRANGE {queue} 0 -1"),
            17 => format!("DELAY.PEEK {queue} {}", self.one_of(&["", "DELAYED", "LEASED", "DEAD"])),
            18 => format!("DELAY.GET {queue} {id}"),
            19 => {
                let setting = self.one_of(&[
                    "max-leased 1", "max-leased 0", "dead-max 1", "dead-retention 1ms",
                    "due-enters left", "due-enters right", "rate 2", "backoff 0", "priority 3",
                    "attempts 1",
                ]);
                format!("DELAY.CONFIG SET {queue} {setting}")
            }
            20 => {
                let how =
                    self.one_of(&["PAUSE q OUT", "PAUSE q OUT FOR 1ms", "RESUME q", "RESUME r"]);
                format!("DELAY.{how}")
            }
            21 => match self.one_of(&["purge", "rename", "del"]) {
                "purge" => format!("DELAY.PURGE {queue} {}", self.one_of(&["", "READY", "LEASED"])),
                "rename" => "RENAME q r".to_owned(),
                _ => format!("DEL {queue}"),
            },
            22 => {
                let how = self.one_of(&[
                    "SET q s body EVERY 100ms", "PAUSE q s", "RESUME q s", "DEL q s", "GET q s",
                ]);
                format!("DELAY.SCHEDULE {how}")
            }
            _ => "DELAY.SCHEDULE RUN q s FORCE".to_owned(),
        }
    }
}

#[test]
fn in_a_transaction_and_one_by_one_the_same_comes_of_it() {
    for_each_seed(3_000, |seed, _| {
        let mut mix = Mix::of(seed);
        let (mut whole, mut single) = (Bench::new(), Bench::new());
        let mut told = Vec::new();
        for _ in 0..mix.random.random_range(1..12) {
            let passes = [0, 0, 1, 2, 3, 100].choose(&mut mix.random).expect("there are some");
            let at_ms = whole.at_ms + passes;
            let at_us = mix.random.random_range(0..2) * 500;
            for bench in [&mut whole, &mut single] {
                bench.at(at_ms);
                bench.at_us = at_us;
            }
            let count = mix.random.random_range(1..9);
            let lines: Vec<_> = (0..count).map(|_| mix.line(&whole)).collect();
            told.push(format!("+{at_ms}.{at_us}: {}", lines.join("; ")));
            let begun = transact(&mut whole, &lines);
            if !matches!(begun, TransactionBegun::Begun(_)) {
                // Refused before it begins, for what could be; one by one it might go well.
                lines.iter().for_each(|line| ask(&mut whole, line));
            }
            lines.iter().for_each(|line| ask(&mut single, line));
            let (of_whole, of_single) = (whole.take_events(), single.take_events());
            assert_eq!(of_whole, of_single, "{}", told.join("\n"));
        }
        let at_ms = whole.at_ms;
        for bench in [&mut whole, &mut single] {
            bench.at_us = 0;
            bench.at(at_ms + 1);
        }
        assert_eq!(whole.engine.digest(), single.engine.digest(), "{}", told.join("\n"));
    });
}

/// A job that is given back for now is there for the next command, and does not keep what is added after it from
/// being there.
#[test]
fn what_is_given_back_for_now_is_there() {
    for when in ["IN 0", "IN @1735689600000", "", "UNCOUNTED IN 0"] {
        let mut bench = Bench::new();
        ask(&mut bench, "DELAY.ADD q 0 body ID a BACKOFF 0");
        ask(&mut bench, "DELAY.RESERVE NOWAIT 1 q");
        let token = bench.token("a").0;
        bench.take_events();
        let lines = [
            format!("DELAY.NACK q a {token} {when}"),
            "DELAY.ADD q 0 body ID b".into(),
            "LLEN q".into(),
            "DELAY.POP q NOWAIT".into(),
            "DELAY.POP q NOWAIT".into(),
        ];
        transact(&mut bench, &lines);
        bench.expect_events(&["1:1", "1:b", "1:2", "1:a", "1:b"]);
    }
}
