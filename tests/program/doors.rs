//! The same commands through every door: RESP2, RESP3 and HTTP. Whatever RESP3 carries, the others say in their form.

use crate::support::browser::Console;
use crate::support::program::Reply;
use delayd::command::CommandSpec;
use delayd::command::table;
use serde_json::{Value as Json, json};

/// Not over HTTP: what begins or ends something on a connection that goes on.
const CONNECTIONS: [&str; 23] = [
    "delay.backup|begin", "delay.backup|end", "delay.backup|read", "watch", "unwatch", "auth",
    "hello", "quit", "reset", "monitor", "subscribe", "psubscribe", "ssubscribe", "unsubscribe",
    "punsubscribe", "sunsubscribe", "sync", "psync", "client|reply", "multi", "exec", "discard",
    // It would end the server.
    "shutdown",
];

/// Three servers, each asked by one door only, the same commands in the same order.
struct Doors {
    two: Console,
    three: Console,
    http: Console,
}

impl Doors {
    fn open() -> Doors {
        // On a busy machine a command of one of them may be slow, and SLOWLOG shows it.
        let options = ["--slowlog-log-slower-than", "-1"];
        let [two, three, http] = [(), (), ()].map(|()| Console::start(&options));
        Doors { two, three, http }
    }

    /// Asks all three, and compares.
    fn ask(&self, words: &[Vec<u8>]) {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let line = args.join(&b' ').escape_ascii().to_string();
        // Over HTTP each command has a connection of its own, and that a name.
        let ask = |console: &Console, hello: &str| {
            let mut wire = console.program.connect();
            wire.ask(hello);
            wire.call(&args)
        };
        let two = ask(&self.two, "HELLO 2 SETNAME console");
        let three = ask(&self.three, "HELLO 3 SETNAME console");
        assert_eq!(shape(&as_resp2(&three)), shape(&two), "RESP3 and RESP2: {line}");
        let texts: Vec<&str> = args.iter().map(|arg| std::str::from_utf8(arg).unwrap()).collect();
        let kind = [("Content-Type", "application/json")];
        let body = json!(texts).to_string();
        let page = self.http.send("POST", "/api/v1/command", &kind, body.as_bytes());
        let got: Json = serde_json::from_slice(&page.bytes)
            .unwrap_or_else(|error| panic!("{line}: {} {error} {}", page.status, page.text()));
        let wanted = match &three {
            Reply::Error(text) => json!({ "error": text }),
            reply => json!({ "result": as_json(reply) }),
        };
        assert_eq!(plain(&got), plain(&wanted), "HTTP and RESP3: {line}");
        let refused = matches!(three, Reply::Error(_));
        assert_eq!(page.status == 200, !refused, "{line}: {}", page.status);
    }
}

/// How RESP2 says what RESP3 said.
fn as_resp2(reply: &Reply) -> Reply {
    match reply {
        Reply::Map(fields) => {
            let flat = fields.iter().flat_map(|(name, value)| [as_resp2(name), as_resp2(value)]);
            Reply::Array(flat.collect())
        }
        Reply::Array(items) => Reply::Array(items.iter().map(as_resp2).collect()),
        Reply::Double(text) => Reply::Bulk(text.clone().into_bytes()),
        Reply::Bool(yes) => Reply::Number((*yes).into()),
        other => other.clone(),
    }
}

/// How HTTP says it.
fn as_json(reply: &Reply) -> Json {
    match reply {
        Reply::Simple(text) => json!(text),
        Reply::Error(text) => json!({ "error": text }),
        Reply::Number(number) if number.unsigned_abs() >= 1 << 53 => json!(number.to_string()),
        Reply::Number(number) => json!(number),
        Reply::Bulk(bytes) => json!(String::from_utf8_lossy(bytes)),
        Reply::Nil => Json::Null,
        Reply::Double(text) => json!(text.parse::<f64>().unwrap()),
        Reply::Bool(yes) => json!(yes),
        Reply::Array(items) => items.iter().map(as_json).collect(),
        Reply::Map(fields) => {
            let field = |(name, value): &(Reply, Reply)| {
                let Json::String(name) = as_json(name) else { panic!("a name: {name:?}") };
                (name, as_json(value))
            };
            Json::Object(fields.iter().map(field).collect())
        }
    }
}

/// Numbers differ from server to server where they are times, ports, bytes in use: what is compared of them is that
/// they are there.
fn masked(text: &str) -> String {
    // Random words of GENPASS, ids and run ids are hex and digits together.
    let mut all = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let has_digit = word.contains(|c: char| c.is_ascii_digit());
        match word.chars().last().filter(|c| !c.is_ascii_alphanumeric()) {
            _ if !has_digit => all.push_str(word),
            Some(end) => all.extend(['#', end]),
            None => all.push('#'),
        }
    }
    all
}

fn shape(reply: &Reply) -> Reply {
    match reply {
        Reply::Simple(text) => Reply::Simple(masked(text)),
        Reply::Error(text) => Reply::Error(masked(text)),
        Reply::Bulk(bytes) => Reply::Bulk(masked(&String::from_utf8_lossy(bytes)).into_bytes()),
        Reply::Number(number) if number.unsigned_abs() > 100 => Reply::Number(101),
        Reply::Array(items) => Reply::Array(items.iter().map(shape).collect()),
        other => other.clone(),
    }
}

fn plain(json: &Json) -> Json {
    match json {
        Json::String(text) => json!(masked(text)),
        Json::Number(number) if number.as_i64().is_none_or(|number| number.abs() > 100) => {
            json!(101)
        }
        Json::Array(items) => items.iter().map(plain).collect(),
        Json::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        other => other.clone(),
    }
}

/// Words of an example, as redis-cli takes them.
fn words(line: &str) -> Vec<Vec<u8>> {
    let (mut all, mut word, mut quote) = (Vec::new(), None, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_with(String::new);
            }
            None if c == ' ' => all.extend(word.take()),
            _ => word.get_or_insert_with(String::new).push(c),
        }
    }
    all.extend(word);
    all.into_iter().map(String::into_bytes).collect()
}

/// What each command is asked: its examples; without any, its name alone.
fn asked(spec: &CommandSpec) -> Vec<Vec<Vec<u8>>> {
    let always = spec.always.iter().map(|(line, _)| *line);
    let lines: Vec<&str> = spec.example.iter().map(|(line, _)| *line).chain(always).collect();
    if lines.is_empty() {
        return vec![spec.name.split('|').map(|word| word.as_bytes().to_vec()).collect()];
    }
    lines.into_iter().map(words).collect()
}

fn is_for_connections(words: &[Vec<u8>]) -> bool {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let spec = table::resolve(&words).ok().or_else(|| table::find(words[0]));
    spec.is_some_and(|spec| CONNECTIONS.contains(&spec.name))
}

#[test]
fn every_command_is_answered_alike_through_every_door() {
    let doors = Doors::open();
    let mut count = 0;
    for spec in table::all_with_subcommands() {
        for words in asked(spec) {
            if !is_for_connections(&words) {
                doors.ask(&words);
                count += 1;
            }
        }
        for again in ["FLUSHALL", "CONFIG RESETSTAT"] {
            doors.ask(&words(again));
        }
    }
    for all in ["COMMAND", "COMMAND DOCS", "COMMAND INFO delay.reserve lmpop xyz", "COMMAND LIST"] {
        doors.ask(&words(all));
    }
    assert!(count > 200, "{count} commands");
}
