//! A connection's state where a transcript cannot show it: tables, limits, chance. The server is the real one,
//! in memory.

use std::collections::BTreeMap;

use delayd::command::spec::Flag;
use delayd::command::{CommandSpec, table};
use delayd::config::Config;
use delayd::server::in_memory::{FarEnd, InMemory};
use delayd::time::Millis;
use proptest::prelude::*;
use redis_protocol::resp2::types::OwnedFrame as Frame2;
use redis_protocol::resp3::types::OwnedFrame as Frame3;

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.~";

/// A server and one client of it.
struct Pair {
    server: InMemory,
    client: FarEnd,
}

impl Pair {
    fn new() -> Pair {
        let mut config = Config::default();
        config.set("appendonly", &["no".to_owned()]).expect("it takes no");
        let mut server = InMemory::new(config, Millis(1_893_456_000_000));
        let client = server.connect();
        Pair { server, client }
    }

    fn send(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend(format!("${}\r\n", arg.len()).bytes());
            request.extend(arg.iter().chain(b"\r\n"));
        }
        self.client.send(&request);
        self.server.run();
        self.client.receive()
    }

    /// What came, with `~` for the ends of lines.
    fn say_args(&mut self, args: &[&[u8]]) -> String {
        String::from_utf8_lossy(&self.send(args)).replace("\r\n", "~")
    }

    fn say(&mut self, line: &str) -> String {
        self.say_args(&words(line))
    }

    fn check(&mut self, script: &[(&str, &str)]) {
        for (line, want) in script {
            assert_eq!(self.say(line), *want, "{line}");
        }
    }

    /// A field of this client's line in CLIENT LIST.
    fn field(&mut self, name: &str) -> usize {
        let line = self.say("CLIENT INFO");
        let value = line.split(' ').find_map(|word| word.strip_prefix(&format!("{name}=")));
        value.expect(name).parse().expect("a number")
    }

    fn decode2(&mut self, line: &str) -> Vec<Frame2> {
        let out = self.send(&words(line));
        let (frame, len) = redis_protocol::resp2::decode::decode(&out).expect(line).expect(line);
        assert_eq!(len, out.len(), "{line}");
        let Frame2::Array(all) = frame else { panic!("{line}: {frame:?}") };
        all
    }

    fn decode3(&mut self, line: &str) -> Frame3 {
        let out = self.send(&words(line));
        let decoded = redis_protocol::resp3::decode::complete::decode(&out);
        let (frame, len) = decoded.expect(line).expect(line);
        assert_eq!(len, out.len(), "{line}");
        frame
    }
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// What goes on in the next turn has used nothing up.
#[test]
fn a_command_of_several_turns_is_skipped_once() {
    let mut pair = Pair::new();
    let adds: String = (0..30_000).map(|n| format!("RPUSH q{n} x\r\n")).collect();
    pair.client.send(adds.as_bytes());
    pair.server.run();
    pair.client.receive();
    let turns = |pair: &mut Pair| {
        let info = pair.say("INFO delay");
        let turns = info.split('~').find_map(|line| line.strip_prefix("turns:"));
        turns.expect("it is shown").parse::<u64>().expect("a number")
    };
    let before = turns(&mut pair);
    pair.client.send(b"CLIENT REPLY SKIP\r\nKEYS *\r\nPING\r\n");
    pair.server.run();
    assert_eq!(pair.client.receive(), b"+PONG\r\n");
    assert!(turns(&mut pair) - before >= 3);
}

// Transactions.

/// A full queue in which an earlier command makes room is looked at when all are together; any other
/// one refuses at once.
#[test]
fn a_full_queue_refuses_when_queued_unless_room_may_be_made() {
    let makes_room = ["LPOP dst", "DELAY.DEL dst x", "FLUSHALL", "DELAY.RESUME dst", "DEL a dst"];
    let makes_none = ["LPOP src", "DELAY.LEN dst", "LRANGE dst 0 -1", "PING"];
    for line in makes_room.into_iter().chain(makes_none) {
        let mut pair = Pair::new();
        for db in [1, 0] {
            pair.say(&format!("SELECT {db}"));
            pair.check(&[("RPUSH dst x", ":1~"), ("DELAY.CONFIG SET dst max-jobs 1", "+OK~")]);
        }
        pair.check(&[("MULTI", "+OK~"), (line, "+QUEUED~")]);
        let same = pair.say("RPUSH dst x");
        assert_eq!(same.starts_with("-FULL "), makes_none.contains(&line), "{line}: {same}");
        if makes_room.contains(&line) {
            pair.check(&[("SELECT 1", "+QUEUED~")]);
            let other = pair.say("RPUSH dst x");
            assert_eq!(other == "+QUEUED~", line == "FLUSHALL", "{line}: {other}");
        }
    }
}

#[test]
fn what_ends_a_transaction_ends_watching() {
    let cases: [(&[&str], usize); 7] = [
        (&["UNWATCH"], 0),
        (&["MULTI", "DISCARD"], 0),
        (&["MULTI", "EXEC"], 0),
        (&["MULTI", "NOSUCH", "EXEC"], 0),
        (&["MULTI", "EXEC now"], 0),
        (&["RESET"], 0),
        (&["EXEC", "DISCARD", "WATCH b", "WATCH"], 2),
    ];
    for (lines, left) in cases {
        let mut pair = Pair::new();
        pair.check(&[("WATCH a", "+OK~")]);
        let said: Vec<String> = lines.iter().map(|line| pair.say(line)).collect();
        assert_eq!(pair.field("watch"), left, "{lines:?}: {said:?}");
        let shown = format!("watching_clients:{}~", usize::from(left > 0));
        assert!(pair.say("INFO clients").contains(&shown), "{lines:?}");
    }
}

#[test]
fn so_many_queues_are_watched_and_no_more() {
    let mut pair = Pair::new();
    let names: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    pair.check(&[(&format!("WATCH {}", names.join(" ")), "+OK~"), ("WATCH 7 8 9", "+OK~")]);
    let refusal = "-ERR a connection can watch at most 10000 queues, not 10001~";
    pair.check(&[("WATCH 7 x", refusal)]);
    assert_eq!(pair.field("watch"), 10_000);
}

/// The flags are Redis's: what they allow runs, all else is refused before it is parsed or queued.
#[test]
fn while_the_journal_is_read_only_some_commands_run() {
    let loading = "-LOADING delayd is loading the journal into memory~";
    let mut pair = Pair::new();
    pair.server.load(0, 1_000);
    let may_not = ["delay.add", "delay.pop", "del", "keys", "ping", "wait", "waitaof", "save"];
    let may = ["echo", "info", "config|get", "client|id", "multi", "exec", "hello", "shutdown"];
    for spec in table::all_with_subcommands() {
        let word = spec.name;
        let runs = spec.flags.contains(&Flag::Loading);
        assert!(runs || !may.contains(&word), "{word}");
        assert!(!runs || !may_not.contains(&word), "{word}");
        if runs || spec.parse.is_none() {
            continue;
        }
        let mut words: Vec<&[u8]> = word.split('|').map(str::as_bytes).collect();
        words.resize(words.len().max(spec.arity().unsigned_abs() as usize), b"x");
        assert_eq!(pair.say_args(&words), loading, "{word}");
        pair.check(&[("MULTI", "+OK~")]);
        assert_eq!(pair.say_args(&words), loading, "{word}");
        pair.check(&[("EXEC", ABORTED)]);
    }
    pair.server.load(1_000, 1_000);
    pair.check(&[("DELAY.LEN q", ":0~"), ("PING", "+PONG~")]);
}

// COMMAND.

fn text3(frame: &Frame3) -> String {
    match frame {
        Frame3::BlobString { data, .. } => String::from_utf8_lossy(data).into_owned(),
        other => panic!("a bulk string, not {other:?}"),
    }
}

fn map3(frame: &Frame3) -> BTreeMap<String, Frame3> {
    let Frame3::Map { data, .. } = frame else { panic!("a map, not {frame:?}") };
    data.iter().map(|(key, value)| (text3(key), value.clone())).collect()
}

fn statuses(frame: &Frame3) -> Vec<String> {
    let Frame3::Set { data, .. } = frame else { panic!("a set, not {frame:?}") };
    let mut words: Vec<String> = data
        .iter()
        .map(|frame| match frame {
            Frame3::SimpleString { data, .. } => String::from_utf8_lossy(data).into_owned(),
            other => panic!("a status, not {other:?}"),
        })
        .collect();
    words.sort();
    words
}

fn check_docs(docs: &Frame3) -> usize {
    let mut count = 0;
    for (name, doc) in map3(docs) {
        let doc = map3(&doc);
        for field in ["summary", "since", "group", "complexity"] {
            assert!(!text3(&doc[field]).is_empty(), "{name} {field}");
        }
        if let Some(arguments) = doc.get("arguments") {
            check_arguments(&name, arguments);
        }
        count += 1 + doc.get("subcommands").map_or(0, check_docs);
    }
    count
}

fn check_arguments(name: &str, arguments: &Frame3) {
    let Frame3::Array { data, .. } = arguments else { panic!("{name}: {arguments:?}") };
    for argument in data {
        let argument = map3(argument);
        let kind = text3(&argument["type"]);
        assert!(!text3(&argument["name"]).is_empty());
        if let Some(flags) = argument.get("flags") {
            let flags = statuses(flags);
            assert!(flags.iter().all(|flag| flag == "optional" || flag == "multiple"));
        }
        assert_eq!(kind == "key", argument.contains_key("key_spec_index"), "{name}");
        let group = kind == "oneof" || kind == "block";
        assert_eq!(group, argument.contains_key("arguments"), "{name}");
        if let Some(members) = argument.get("arguments") {
            check_arguments(name, members);
        }
    }
}

#[test]
fn command_docs_have_the_types_that_redis_cli_asserts() {
    let mut pair = Pair::new();
    pair.say("HELLO 3");
    let all = table::all_with_subcommands().count();
    assert_eq!(check_docs(&pair.decode3("COMMAND DOCS")), all);
    let one = map3(&pair.decode3("COMMAND DOCS delay.len nothing client|kill"));
    assert_eq!(one.keys().collect::<Vec<_>>(), ["client|kill", "delay.len"]);
}

#[test]
fn command_info_has_ten_elements() {
    let mut pair = Pair::new();
    let all = pair.decode2("COMMAND");
    assert!(all.iter().all(|info| matches!(info, Frame2::Array(info) if info.len() == 10)));
    pair.check(&[("COMMAND COUNT", &format!(":{}~", all.len()))]);
}

proptest! {
    /// Whatever words come, each command is answered once and nothing panics.
    #[test]
    fn any_words_are_answered(
        at in any::<prop::sample::Index>(),
        words in prop::collection::vec(
            prop_oneof![
                "[-@0-9smhdw:.~,]{0,24}".prop_map(String::into_bytes),
                "(ID|NX|COUNT|TYPE|AUTH|ON|MATCH|IN|FILTERBY|LIB-NAME|exp:1s:)".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..700),
            ],
            0..8,
        ),
    ) {
        let specs: Vec<&CommandSpec> = table::all_with_subcommands().collect();
        let mut args: Vec<&[u8]> =
            specs[at.index(specs.len())].name.split('|').map(str::as_bytes).collect();
        args.extend(words.iter().map(Vec::as_slice));
        let mut pair = Pair::new();
        let out = pair.send(&args);
        // SUBSCRIBE and its kin confirm each name.
        let confirms = args[0].ends_with(b"subscribe");
        let is_waiting = pair.server.is_waiting(&pair.client);
        if out.is_empty() {
            let muted = args[0] == b"client" && pair.say("PING").len() < 8;
            prop_assert!(is_waiting || muted || pair.client.is_closed(), "no answer to {args:?}");
        } else if !confirms && out.is_ascii() {
            // A name that is not UTF-8 may stand in an error; this decoder wants none there.
            let (_, len) = redis_protocol::resp2::decode::decode(&out).unwrap().unwrap();
            prop_assert_eq!(len, out.len());
        }
        let mut pair = Pair::new();
        pair.say("MULTI");
        pair.send(&args);
        pair.say("EXEC");
    }
}
