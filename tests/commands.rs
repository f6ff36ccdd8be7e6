//! The table of commands against its own parsers, and every parser against its limits.

use delayd::command::spec::action::{Action, Clients, Connection, Server};
use delayd::command::spec::argument::{Argument, Kind};
use delayd::command::spec::{CATEGORIES, Flag, Group, Keys};
use delayd::command::{self, CommandSpec, table};
use delayd::engine::model::request::{Only, Request, State, Taken, Wait, When};
use delayd::error::Error;
use delayd::ids::{ClientId, Db, Token};

/// Splits at blanks, resolves and parses; `''` stands for an empty word.
fn read<T>(line: &str, look: impl FnOnce(Action<'_>) -> T) -> Result<T, String> {
    let words: Vec<&[u8]> =
        line.split(' ').map(|word| if word == "''" { b"" } else { word.as_bytes() }).collect();
    read_words(&words, look)
}

fn read_words<T>(words: &[&[u8]], look: impl FnOnce(Action<'_>) -> T) -> Result<T, String> {
    let text = |error: Error| error.to_string();
    let spec = table::resolve(words).map_err(text)?;
    command::parse(spec, words, Db(3)).map(look).map_err(text)
}

fn refused(line: &str) -> String {
    match read(line, |action| format!("{action:?}")) {
        Ok(action) => panic!("{line} was read as {action}"),
        Err(text) => text,
    }
}

fn accepted(line: &str) {
    if let Err(text) = read(line, |_| ()) {
        panic!("{line}: {text}");
    }
}

macro_rules! engine {
    ($line:expr, $pattern:pat => $check:expr) => {
        read($line, |action| match action {
            Action::Engine($pattern) => $check,
            other => panic!("{}: {other:?}", $line),
        })
        .unwrap_or_else(|text| panic!("{}: {text}", $line))
    };
}

// The table itself.

#[test]
fn every_command_is_described() {
    for spec in table::all_with_subcommands() {
        let name = spec.name;
        assert!(!spec.summary.is_empty() && !spec.summary.ends_with('.'), "{name}: summary");
        assert!(!spec.complexity.is_empty(), "{name}: complexity");
        assert!(spec.reply.ends_with('.'), "{name}: reply");
        assert!(!spec.since.is_empty(), "{name}: since");
        let help = name.ends_with("|help");
        let container = !spec.subcommands.is_empty();
        assert!(
            help || container || !spec.example.is_empty() || spec.always.is_some(),
            "{name}: example"
        );
        assert!(spec.parse.is_some() || container, "{name}: parser");
        for category in spec.all_categories() {
            assert!(CATEGORIES.contains(&category), "{name}: {category}");
        }
        let both = spec.has(Flag::Write) && spec.has(Flag::ReadOnly);
        assert!(!both, "{name}: writes and does not");
        assert_eq!(name.starts_with("delay."), spec.group == Group::Delay, "{name}: group");
        for subcommand in spec.subcommands {
            let inside = subcommand.name.strip_prefix(name).is_some_and(|n| n.starts_with('|'));
            assert!(inside, "{}: container", subcommand.name);
        }
    }
}

#[test]
fn the_example_counts_right() {
    let count = format!("(integer) {}", table::all().count());
    let spec = table::find(b"command|count").expect("it is in the table");
    assert_eq!(spec.example, [("COMMAND COUNT", count.as_str())]);
}

/// The position of the queues, which clients use for routing, is where the tree has them.
#[test]
fn keys_stand_where_the_tree_says() {
    for spec in table::all_with_subcommands() {
        let at = spec.arguments.iter().position(|argument| argument.kind == Kind::Key);
        let base = 1 + i64::from(spec.is_subcommand());
        let Some(at) = at else {
            assert_eq!(spec.keys, Keys::None, "{}", spec.name);
            continue;
        };
        let behind = spec.arguments[at + 1..].iter().map(Argument::words_min).sum::<usize>() as i64;
        let first = base + at as i64;
        if matches!(spec.keys, Keys::FromTo { .. }) {
            let second = &spec.arguments[at + 1];
            assert_eq!((first, second.kind, second.key_spec), (1, Kind::Key, 1), "{}", spec.name);
            continue;
        }
        let counted = at > 0 && ["numqueues", "numkeys"].contains(&spec.arguments[at - 1].name);
        // RENAME names two.
        let keys = spec.arguments[at..].iter().take_while(|argument| argument.kind == Kind::Key);
        let last = first + keys.count() as i64 - 1;
        let want = match spec.arguments[at].multiple {
            true if counted => Keys::Counted { at: first - 1 },
            true => Keys::Range { first, last: -1 - behind },
            false => Keys::Range { first, last },
        };
        assert_eq!(spec.keys, want, "{}", spec.name);
    }
}

#[test]
fn arities_are_those_of_redis() {
    for (name, arity) in [
        ("delay.add", -4),
        ("delay.pop", -3),
        ("delay.reserve", -4),
        ("delay.ack", -4),
        ("delay.extend", 5),
        ("delay.get", 3),
        ("get", 2),
        ("ping", -1),
        ("hello", -1),
        ("auth", -2),
        ("client", -2),
        ("client|kill", -3),
        ("client|list", -2),
        ("client|setinfo", 4),
        ("client|reply", 3),
        ("command", -1),
        ("command|list", -2),
        ("command|count", 2),
        ("config|get", -3),
        ("config|set", -4),
        ("scan", -2),
        ("exec", 1),
        ("object|encoding", 3),
        ("wait", 3),
        ("shutdown", -1),
        ("waitaof", 4),
        ("save", 1),
        ("bgsave", -1),
        ("bgrewriteaof", 1),
        ("lastsave", 1),
        ("slowlog|get", -2),
        ("expire", -3),
    ] {
        let spec = table::find(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(spec.arity(), arity, "{name}");
    }
}

fn sample(argument: &Argument) -> Vec<&'static str> {
    match argument.kind {
        Kind::Word => vec![],
        Kind::OneOf => match argument.arguments[0].token {
            Some(token) => {
                let mut words = vec![token];
                words.extend(sample(&argument.arguments[0]));
                words
            }
            None => sample(&argument.arguments[0]),
        },
        Kind::Block => argument.arguments.iter().flat_map(sample).collect(),
        Kind::Integer if argument.name == "protover" => vec!["3"],
        Kind::Integer if argument.name == "index" => vec!["0"],
        Kind::Integer => vec!["1"],
        Kind::Duration | Kind::When => vec!["30s"],
        Kind::Timeout => vec!["0.5"],
        Kind::Side => vec!["LEFT"],
        Kind::Token => vec!["42"],
        Kind::Backoff => vec!["1s,5s~"],
        Kind::Pattern => vec!["*"],
        Kind::Key | Kind::Id => vec!["x"],
        Kind::Bytes if argument.name == "username" => vec!["default"],
        Kind::Bytes => vec!["x"],
    }
}

/// What must be there, from the tree.
fn required(spec: &'static CommandSpec) -> Vec<&'static str> {
    let mut words: Vec<&str> = spec.name.split('|').collect();
    for argument in spec.arguments.iter().filter(|argument| !argument.optional) {
        words.extend(argument.token);
        words.extend(sample(argument));
    }
    words
}

/// Every option of the tree with what is to follow it.
fn options(arguments: &'static [Argument]) -> Vec<&'static Argument> {
    let inside = |argument: &'static Argument| match argument.token {
        Some(_) => vec![argument],
        None => options(argument.arguments),
    };
    arguments.iter().flat_map(inside).collect()
}

/// Commands that are refused whatever follows, and those that read no word of what follows.
fn takes_anything(spec: &CommandSpec) -> bool {
    let words = required(table::find(spec.name.as_bytes()).expect("it is in the table"));
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    read_words(&words, |_| ()).is_err() || spec.name == "lolwut"
}

fn try_words(words: &[&str]) -> Result<(), String> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    read_words(&words, |_| ())
}

#[test]
fn every_command_takes_what_its_tree_requires() {
    let refused: Vec<&str> = table::all_with_subcommands()
        .filter(|spec| spec.parse.is_some() && spec.subcommands.is_empty())
        .filter(|spec| try_words(&required(spec)).is_err())
        .map(|spec| spec.name)
        .collect();
    assert_eq!(
        refused,
        [
            "lset",
            "linsert",
            "ltrim",
            "expire",
            "pexpire",
            "expireat",
            "pexpireat",
            "dump",
            "restore",
            "move",
            "client|caching",
            "client|tracking",
            // No script is run.
            "eval",
            "eval_ro",
            "evalsha",
            "evalsha_ro",
            "fcall",
            "fcall_ro",
            "function|delete",
            "function|kill",
            "function|load",
            "script|kill",
            "script|load",
            "asking",
            "cluster",
            "readonly",
            "readwrite",
            "swapdb",
            // Nothing is replicated.
            "debug",
            "failover",
            "psync",
            "replconf",
            "replicaof",
            "slaveof",
            "sync",
            // Nothing is noted.
            "latency|graph"
        ]
    );
}

/// Each option of the tree is accepted in upper and lower case, and in front of itself refused; no
/// word that is not in the tree is.
#[test]
fn options_are_those_of_the_tree() {
    let mut count = 0;
    for spec in table::all_with_subcommands().filter(|spec| spec.parse.is_some()) {
        if !spec.subcommands.is_empty() || takes_anything(spec) {
            continue;
        }
        // A word that anything may be: nothing can be wrong there.
        let free = spec.arguments.iter().any(|argument| {
            argument.token.is_none() && argument.arguments.is_empty() && argument.optional
        });
        let alternatives = spec.arguments.iter().any(|argument| {
            !argument.optional && !options(std::slice::from_ref(argument)).is_empty()
        });
        for option in options(spec.arguments) {
            let mut words = required(spec);
            if alternatives {
                words.truncate(spec.name.split('|').count());
                let positional =
                    spec.arguments.iter().filter(|a| options(std::slice::from_ref(a)).is_empty());
                words.extend(positional.flat_map(sample));
            }
            let needs_id = ["NX", "REPLACE", "UNIQUE"];
            let token = option.token.expect("an option has a token");
            if spec.name == "delay.add" && needs_id.contains(&token) {
                words.extend(["ID", "x"]);
            }
            if spec.name == "hello" {
                words.push("3");
            }
            let lower: &'static str = token.to_lowercase().leak();
            for token in [token, lower] {
                let mut words = words.clone();
                words.push(token);
                words.extend(sample(option));
                assert_eq!(try_words(&words), Ok(()), "{words:?}");
                if !alternatives && !option.multiple {
                    words.push(token);
                    words.extend(sample(option));
                    let text = try_words(&words).expect_err(&format!("{words:?}"));
                    let named = text.contains(&token.to_uppercase()) || text.contains(token);
                    let refused = named && text.to_lowercase().contains("syntax error");
                    let flushes = matches!(spec.name, "function|flush" | "script|flush");
                    let refused = refused || flushes && text.ends_with("SYNC|ASYNC option");
                    // These have one such word at most, and Redis counts their words.
                    let too_many = matches!(spec.name, "acl|log" | "client|pause")
                        && text.starts_with("ERR wrong number of arguments");
                    assert!(refused || too_many, "{text}");
                }
            }
            count += 1;
        }
        let last = spec
            .arguments
            .last()
            .is_some_and(|argument| argument.multiple && argument.kind != Kind::Block);
        if !free && !last {
            let mut words = required(spec);
            words.push("NONSENSE");
            assert!(try_words(&words).is_err(), "{words:?}");
        }
    }
    assert!(count > 50, "{count} options");
}

// Producing.

#[test]
fn add_reads_all_of_it() {
    engine!("DELAY.ADD q 1h30m body", Request::Add(add) => {
        assert_eq!((add.queue.db, add.queue.name), (Db(3), &b"q"[..]));
        assert_eq!((add.when, add.body, add.id), (When::In(5_400_000), &b"body"[..], None));
        assert_eq!((add.taken, add.priority, add.attempts), (Taken::Refuse, None, None));
        assert_eq!((add.backoff, add.lease_ms, add.ttl_ms, add.unique_ms), (None, None, None, 0));
    });
    let line = "delay.add q @1893456000000 '' unique 1d ttl 0 lease 30s backoff 1s,5s~ attempts 0 \
                priority 9 replace id 7";
    engine!(line, Request::Add(add) => {
        assert_eq!((add.when, add.body, add.id), (When::At(1_893_456_000_000), &b""[..], Some(&b"7"[..])));
        assert_eq!((add.taken, add.priority, add.attempts), (Taken::Replace, Some(9), Some(0)));
        assert_eq!(add.backoff.map(|backoff| backoff.to_string()), Some("1s,5s~".to_string()));
        assert_eq!((add.lease_ms, add.ttl_ms, add.unique_ms), (Some(30_000), Some(0), 86_400_000));
    });
    engine!("DELAY.ADD q 000000000000 x ID 1 NX", Request::Add(add) => {
        assert_eq!((add.when, add.taken), (When::In(0), Taken::Keep));
    });
    // The word of an option is a body where a body stands.
    engine!("DELAY.ADD q 0 NX", Request::Add(add) => assert_eq!(add.body, b"NX"));
}

/// Every reply that ends early because of its size says so, with the limit; every command that moves or
/// replaces several says in which order.
#[test]
fn replies_that_end_early_say_so() {
    let most = format!("crosses {} MiB", delayd::limits::REPLY_BYTES_MAX >> 20);
    let about = |name: &str, argument: &str| {
        fn all(arguments: &'static [Argument]) -> Vec<&'static Argument> {
            let inner = arguments.iter().flat_map(|argument| all(argument.arguments));
            arguments.iter().chain(inner).collect()
        }
        let spec = table::find(name.as_bytes()).unwrap();
        let found = all(spec.arguments).into_iter().find(|found| found.name == argument);
        found.unwrap_or_else(|| panic!("{name}: {argument}")).about
    };
    for name in ["delay.reserve", "delay.peek", "lpop", "rpop", "lmpop", "blmpop"] {
        let said = about(name, "count");
        assert!(said.contains(&most), "{name}: {said}");
    }
    assert!(about("delay.redrive", "ids").contains("in this order"));
    assert!(about("delay.add", "replace").contains("a place of its own"));
}

#[test]
fn names_have_1_to_512_bytes() {
    let (long, longer) = ("a".repeat(512), "a".repeat(513));
    accepted(&format!("DELAY.ADD {long} 0 x ID {long}"));
    let shown = format!("'{}'...", "a".repeat(64));
    let text = |what: &str, shown: &str, bytes: usize| {
        format!("ERR {what} {shown} has {bytes} bytes; it must have 1 to 512")
    };
    assert_eq!(refused(&format!("DELAY.ADD {longer} 0 x")), text("queue", &shown, 513));
    assert_eq!(refused(&format!("DELAY.ADD q 0 x ID {longer}")), text("id", &shown, 513));
    assert_eq!(refused("DELAY.ADD '' 0 x"), text("queue", "''", 0));
    assert_eq!(refused("DELAY.ADD q 0 x ID ''"), text("id", "''", 0));
    assert_eq!(refused("DELAY.POP q '' 0"), text("queue", "''", 0));
    assert_eq!(refused("DELAY.DEL q a ''"), text("id", "''", 0));
    assert_eq!(refused("DEL a ''"), text("queue", "''", 0));
}

#[test]
fn errors_of_when_name_value_and_limit() {
    for (line, want) in [
        ("DELAY.ADD q -1 x", "ERR when '-1' is negative; the least is 0"),
        ("DELAY.ADD q @-1 x", "ERR when '@-1' is negative; the least is 0"),
        (
            "DELAY.ADD q 18446744073709551616 x",
            "ERR when '18446744073709551616' is too far away; the most that max-delay can be is 365000d",
        ),
        (
            "DELAY.ADD q 12:30 x",
            "ERR when '12:30' is not a duration; an absolute time needs @ and unix ms, or a date, time \
             and offset such as 2030-01-31T12:30:00Z",
        ),
        (
            "DELAY.ADD q soon x",
            "ERR when 'soon' is neither a duration such as 30s or 1h30m nor an absolute time, \
             @<unix-ms> or 2030-01-31T12:30:00Z",
        ),
    ] {
        assert_eq!(refused(line), want);
    }
    assert!(refused("DELAY.ADD q 2026-11-20T12:30:00 x").contains("needs @"));
    // The engine knows max-delay and the clock; all that fits is handed to it.
    engine!("DELAY.ADD q 18446744073709551615 x", Request::Add(add) => assert_eq!(add.when, When::In(u64::MAX)));
    for ms in [1u64 << 31, 1 << 32, 1 << 41] {
        engine!(&format!("DELAY.ADD q {ms} x"), Request::Add(add) => assert_eq!(add.when, When::In(ms)));
    }
}

#[test]
fn add_options_have_limits() {
    for (line, want) in [
        ("DELAY.ADD q 0 x PRIORITY 10", "ERR priority '10' is not an integer from 0 to 9"),
        ("DELAY.ADD q 0 x PRIORITY -1", "ERR priority '-1' is not an integer from 0 to 9"),
        (
            "DELAY.ADD q 0 x ATTEMPTS 4294967296",
            "ERR attempts '4294967296' is not an integer from 0 to 4294967295",
        ),
        ("DELAY.ADD q 0 x LEASE 0", "ERR lease '0' is too short; the least is 1ms"),
        ("DELAY.ADD q 0 x LEASE 365001d", "ERR lease '365001d' is too long; the most is 365000d"),
        ("DELAY.ADD q 0 x TTL -1", "ERR ttl '-1' is negative or malformed; the least is 0ms"),
        (
            "DELAY.ADD q 0 x TTL soon",
            "ERR ttl 'soon' is not a duration such as 500ms, 30s, 1h30m or 15d",
        ),
        (
            "DELAY.ADD q 0 x TTL 99999999999999999999d",
            "ERR ttl '99999999999999999999d' is too long; the most is 365000d",
        ),
        (
            "DELAY.ADD q 0 x BACKOFF 1x",
            "ERR backoff '1x': expected steps such as 1s,5s,1m or exp:<first>:<max>[:<factor>], then perhaps ~",
        ),
        ("DELAY.ADD q 0 x ID", "ERR syntax error: ID needs a value (id)"),
        ("DELAY.ADD q 0 x UNIQUE 1s", "ERR syntax error: UNIQUE needs ID"),
        ("DELAY.ADD q 0 x NX", "ERR syntax error: NX needs ID"),
        ("DELAY.ADD q 0 x REPLACE", "ERR syntax error: REPLACE needs ID"),
        (
            "DELAY.ADD q 0 x ID 1 NX REPLACE",
            "ERR syntax error: only one of NX, REPLACE can be given",
        ),
        ("DELAY.ADD q 0 x ID 1 NX nx", "ERR syntax error: NX stands there twice"),
        ("DELAY.ADD q 0 x ID 1 ID 1", "ERR syntax error: ID stands there twice"),
        ("DELAY.ADD q 0 x DELAY 5", "ERR syntax error: unknown option 'DELAY'"),
        ("DELAY.ADD q 0 x ''", "ERR syntax error: unknown option ''"),
        (
            "DELAY.CONFIG",
            "ERR wrong number of arguments for 'delay.config' command; try DELAY.CONFIG HELP",
        ),
    ] {
        assert_eq!(refused(line), want);
    }
    accepted("DELAY.ADD q 0 x ATTEMPTS 4294967295 TTL 365000d LEASE 1 ID 1 UNIQUE 0");
}

// Consuming.

#[test]
fn timeouts_are_those_of_blpop() {
    for (timeout, wait) in [
        ("0", Wait::Forever),
        ("0.0001", Wait::For(1)),
        ("1.5", Wait::For(1_500)),
        ("0x1p-1", Wait::For(500)),
        ("NOWAIT", Wait::No),
        ("nowait", Wait::No),
    ] {
        engine!(&format!("DELAY.POP a b {timeout}"), Request::Pop { queues, wait: read, .. } => {
            assert_eq!((queues, read), (&[&b"a"[..], b"b"][..], wait));
        });
        engine!(&format!("DELAY.RESERVE {timeout} 1 a"), Request::Reserve(reserve) => {
            assert_eq!(reserve.wait, wait);
        });
    }
    for (timeout, want) in [
        ("abc", "ERR timeout is not a float or out of range"),
        ("nan", "ERR timeout is not a float or out of range"),
        ("-1", "ERR timeout is negative"),
        ("inf", "ERR timeout is out of range"),
        ("1e300", "ERR timeout is out of range"),
    ] {
        assert_eq!(refused(&format!("DELAY.POP q {timeout}")), want);
    }
}

#[test]
fn reserve_counts_its_queues() {
    let line = "DELAY.RESERVE 0 2 a b BOUND noack LEASE 1m COUNT 10000";
    engine!(line, Request::Reserve(reserve) => {
        assert_eq!(reserve.queues, [&b"a"[..], b"b"]);
        assert_eq!((reserve.count, reserve.lease_ms), (10_000, Some(60_000)));
        assert!(reserve.no_ack && reserve.bound);
    });
    engine!("DELAY.RESERVE 0 1 COUNT", Request::Reserve(reserve) => {
        assert_eq!((reserve.queues, reserve.count, reserve.lease_ms), (&[&b"COUNT"[..]][..], 1, None));
    });
    for (line, want) in [
        ("DELAY.RESERVE 0 0 a", "ERR numqueues '0' is not an integer from 1 to 10000"),
        ("DELAY.RESERVE 0 x a", "ERR numqueues 'x' is not an integer from 1 to 10000"),
        ("DELAY.RESERVE 0 10001 a", "ERR numqueues '10001' is not an integer from 1 to 10000"),
        ("DELAY.RESERVE 0 2 a", "ERR syntax error: numqueues is 2, but 1 arguments follow"),
        ("DELAY.RESERVE 0 1 a b", "ERR syntax error: unknown option 'b'"),
        ("DELAY.RESERVE 0 1 a COUNT 0", "ERR count '0' is not an integer from 1 to 10000"),
        ("DELAY.RESERVE 0 1 a COUNT 10001", "ERR count '10001' is not an integer from 1 to 10000"),
        ("DELAY.RESERVE 0 1 a LEASE 0s", "ERR lease '0s' is too short; the least is 1ms"),
    ] {
        assert_eq!(refused(line), want);
    }
}

#[test]
fn tokens_have_63_bits() {
    engine!("DELAY.ACK q a 1 b 9223372036854775807", Request::Ack { jobs, .. } => {
        assert_eq!(jobs, [(&b"a"[..], Token(1)), (b"b", Token(i64::MAX as u64))]);
    });
    for token in ["9223372036854775808", "-1", "''", "1.0", "0x1"] {
        let shown = if token == "''" { "''".to_string() } else { format!("'{token}'") };
        assert_eq!(
            refused(&format!("DELAY.ACK q a {token}")),
            format!("ERR token {shown} is not an integer from 0 to 9223372036854775807")
        );
    }
    assert_eq!(refused("DELAY.ACK q a 1 b"), "ERR syntax error: every id needs its token");
}

#[test]
fn nack_and_extend_know_what_excludes_what() {
    let line = "DELAY.NACK q a 7 UNCOUNTED IN 5s PRIORITY 0 ERROR why";
    engine!(line, Request::Nack(nack) => {
        assert_eq!((nack.token, nack.when, nack.priority), (Token(7), Some(When::In(5_000)), Some(0)));
        assert_eq!((nack.uncounted, nack.bury, nack.error), (true, false, Some(&b"why"[..])));
    });
    let bury = "ERR syntax error: BURY excludes IN and UNCOUNTED";
    assert_eq!(refused("DELAY.NACK q a 7 BURY IN 5s"), bury);
    assert_eq!(refused("DELAY.NACK q a 7 UNCOUNTED BURY"), bury);
    engine!("DELAY.NACK q a 7 BURY ERROR x PRIORITY 3", Request::Nack(nack) => assert!(nack.bury));
    let trace = "e".repeat(5_000);
    engine!(&format!("DELAY.NACK q a 7 ERROR {trace}"), Request::Nack(nack) => {
        assert_eq!(nack.error.map(<[u8]>::len), Some(1024));
    });
    engine!("DELAY.EXTEND q a 7 1m", Request::Extend { lease_ms, .. } => assert_eq!(lease_ms, 60_000));
    assert_eq!(refused("DELAY.EXTEND q a 7 0"), "ERR lease '0' is too short; the least is 1ms");
}

// Looking and moving.

#[test]
fn jobs_and_queues_are_looked_at() {
    engine!("DELAY.RESCHEDULE q a 0 GT", Request::Reschedule { only, when, .. } => {
        assert_eq!((only, when), (Only::Later, When::In(0)));
    });
    assert_eq!(
        refused("DELAY.RESCHEDULE q a 0 GT LT"),
        "ERR syntax error: only one of GT, LT can be given"
    );
    engine!("DELAY.CANCEL q a force", Request::Cancel { force, .. } => assert!(force));
    engine!("DELAY.DEL q a b", Request::Delete { ids, .. } => assert_eq!(ids.len(), 2));
    engine!("DELAY.LEN q", Request::Len { state, .. } => assert_eq!(state, None));
    for state in State::ALL {
        engine!(&format!("DELAY.LEN q {}", state.word()), Request::Len { state: read, .. } => {
            assert_eq!(read, Some(state));
        });
        let scan = format!("DELAY.SCAN q 5 COUNT 3 MATCH a* STATE {}", state.word());
        engine!(&scan, Request::Scan { cursor, state: read, pattern, count, .. } => {
            assert_eq!((cursor, read, pattern, count), (5, Some(state), Some(&b"a*"[..]), 3));
        });
        engine!(&format!("DELAY.PEEK q COUNT 2 {}", state.word()), Request::Peek { state: read, count, .. } => {
            assert_eq!((read, count), (Some(state), 2));
        });
    }
    engine!("DELAY.SCAN q 18446744073709551615", Request::Scan { cursor, count, .. } => {
        assert_eq!((cursor, count), (u64::MAX, 10));
    });
    assert_eq!(refused("DELAY.SCAN q x"), "ERR invalid cursor");
    assert_eq!(
        refused("DELAY.SCAN q 0 STATE gone"),
        "ERR syntax error: state 'gone' is none of DELAYED, READY, LEASED, DEAD"
    );
    assert_eq!(
        refused("DELAY.LEN q READY DEAD"),
        "ERR syntax error: only one of DELAYED, READY, LEASED, DEAD can be given"
    );
}

#[test]
fn redis_commands_have_redis_errors() {
    for (line, want) in [
        ("SCAN x", "ERR invalid cursor"),
        ("SCAN 0 COUNT x", "ERR value is not an integer or out of range"),
        ("SCAN 0 COUNT 0", "ERR syntax error: the least COUNT is 1"),
        ("SCAN 0 FOO", "ERR syntax error: unknown option 'FOO'"),
        ("SELECT 16", "ERR DB index is out of range"),
        ("SELECT -1", "ERR DB index is out of range"),
        ("SELECT x", "ERR value is not an integer or out of range"),
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO 1", "NOPROTO unsupported protocol version"),
        ("HELLO x", "ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 FOO", "ERR Syntax error in HELLO option 'FOO'"),
        ("HELLO 3 AUTH a", "ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 3 SETNAME", "ERR Syntax error in HELLO option 'SETNAME'"),
        ("AUTH a b c", "ERR syntax error"),
        ("PING a b", "ERR wrong number of arguments for 'ping' command"),
        ("CLIENT KILL TYPE foo", "ERR Unknown client type 'foo'"),
        ("CLIENT KILL ID abc", "ERR client-id should be greater than 0"),
        ("CLIENT KILL ID 0", "ERR client-id should be greater than 0"),
        ("CLIENT KILL foo bar", "ERR syntax error: unknown option 'foo'"),
        ("CLIENT LIST ID a", "ERR Invalid client ID"),
        ("CLIENT LIST TYPE foo", "ERR Unknown client type 'foo'"),
        ("CLIENT LIST foo", "ERR syntax error: unknown option 'foo'"),
        ("CLIENT REPLY foo", "ERR syntax error: unknown option 'foo'"),
        ("CLIENT UNBLOCK a", "ERR value is not an integer or out of range"),
        ("CLIENT UNBLOCK 1 foo", "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        ("CLIENT SETINFO FOO x", "ERR Unrecognized option 'FOO'"),
        (
            "CLIENT SETINFO LIB-NAME a\nb",
            "ERR lib-name cannot contain spaces, newlines or special characters.",
        ),
        (
            "CLIENT SETNAME a\tb",
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ),
        (
            "CLIENT MAINT_NOTIFICATIONS ON",
            "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
        ),
        ("CLIENT TRACKING ON", "ERR CLIENT TRACKING is not supported"),
        ("SLOWLOG GET -2", "ERR count should be greater than or equal to -1"),
        ("SLOWLOG GET x", "ERR count should be greater than or equal to -1"),
        ("WAIT a 1", "ERR value is not an integer or out of range"),
        ("WAIT 1 a", "ERR timeout is not an integer or out of range"),
        ("WAIT 1 -1", "ERR timeout is negative"),
        ("MEMORY USAGE q SAMPLES x", "ERR value is not an integer or out of range"),
        ("MEMORY USAGE q SAMPLES -1", "ERR syntax error"),
        ("FLUSHALL NOW", "ERR syntax error: unknown option 'NOW'"),
        ("FLUSHALL ASYNC SYNC", "ERR syntax error: only one of ASYNC, SYNC can be given"),
        ("SHUTDOWN ABORT NOW", "ERR syntax error: ABORT stands alone"),
        ("CONFIG SET a b c", "ERR syntax error"),
        ("CLUSTER INFO", "ERR This instance has cluster support disabled"),
        ("READONLY", "ERR This instance has cluster support disabled"),
        (
            "SENTINEL MASTERS",
            "ERR unknown command 'SENTINEL', with args beginning with: 'MASTERS' ",
        ),
    ] {
        assert_eq!(refused(line), want, "{line}");
    }
    assert!(refused("EXPIRE q 5").contains("TTL"));
}

#[test]
fn redis_commands_are_read() {
    let kill = "CLIENT KILL ID 7 TYPE normal ADDR 1.2.3.4:5 SKIPME no MAXAGE 60 USER default";
    let filter = read(kill, |action| match action {
        Action::Clients(Clients::Kill(filter)) => {
            (filter.ids, filter.skip_me, filter.age_s_min, filter.addr.map(<[u8]>::to_vec))
        }
        other => panic!("{other:?}"),
    });
    let addr = Some(b"1.2.3.4:5".to_vec());
    assert_eq!(filter, Ok((Some(vec![ClientId(7)]), false, Some(60), addr)));
    let ids = read("CLIENT LIST ID 1 2 3", |action| match action {
        Action::Clients(Clients::List(filter)) => filter.ids.map(|ids| ids.len()),
        other => panic!("{other:?}"),
    });
    assert_eq!(ids, Ok(Some(3)));
    for (id, want) in [("-1", None), ("0", None), ("9", Some(ClientId(9)))] {
        let read = read(&format!("CLIENT UNBLOCK {id} error"), |action| match action {
            Action::Clients(Clients::Unblock { id, error: true }) => id,
            other => panic!("{other:?}"),
        });
        assert_eq!(read, Ok(want));
    }
    let hello = read("hello 03 setname me auth default x", |action| match action {
        Action::Connection(Connection::Hello(hello)) => {
            hello.protocol.is_some() && hello.auth.is_some() && hello.name == Some(b"me")
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(hello, Ok(true));
    let scan =
        read("SCAN 0 TYPE string", |action| matches!(action, Action::Server(Server::ScanNothing)));
    assert_eq!(scan, Ok(true));
    engine!("SCAN 7 TYPE LIST MATCH a COUNT 99999", Request::ScanQueues { cursor, count, .. } => {
        assert_eq!((cursor, count), (7, 99_999));
    });
    engine!("LLEN q", Request::Len { state, .. } => assert_eq!(state, Some(State::Ready)));
    engine!("FLUSHDB async", Request::Flush { db } => assert_eq!(db, Some(Db(3))));
    engine!("FLUSHALL", Request::Flush { db } => assert_eq!(db, None));
}

#[test]
fn keys_are_found() {
    let keys = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let spec = table::resolve(&words).expect(line);
        spec.find_keys(&words).map(|keys| words[keys].concat())
    };
    assert_eq!(keys("DELAY.POP a b c 0"), Some(b"abc".to_vec()));
    assert_eq!(keys("DELAY.RESERVE 0 2 a b COUNT 1"), Some(b"ab".to_vec()));
    assert_eq!(keys("DELAY.ADD q 0 x ID y"), Some(b"q".to_vec()));
    assert_eq!(keys("DEL a b"), Some(b"ab".to_vec()));
    assert_eq!(keys("MEMORY USAGE a"), Some(b"a".to_vec()));
    assert_eq!(keys("PING"), None);
    for broken in ["9", "x", "18446744073709551615", "0", "-1"] {
        assert_eq!(keys(&format!("DELAY.RESERVE 0 {broken} a b")), Some(vec![]), "{broken}");
    }
}
