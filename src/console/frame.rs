//! What stands around every page: who looks, what they may do, and how the server stands.

use super::live::Sample;
use super::value::{Command, Value, command};
use std::collections::BTreeSet;

/// What every page knows beside its own data.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Wall clock, ms since 1970.
    pub now_ms: u64,
    /// The path of the page with its query, as a link to itself.
    pub here: String,
    /// The user's name; empty where nobody has logged in.
    pub user: Vec<u8>,
    /// Stands in every form as `token`, and in the header `x-delayd-token` of what the script posts.
    pub token: String,
    /// `light`, `dark`, or empty for the system's.
    pub theme: String,
    /// Changes are refused for all: `console-readonly`.
    pub readonly: bool,
    /// How a shell reaches the server: `redis-cli -p 9248`, for empty states and "copy as".
    pub redis_cli: String,
    /// A dashboard elsewhere; empty without one.
    pub grafana: String,
    /// What is told once about the last action: done or refused.
    pub message: Option<Message>,
    /// What the user may run.
    pub may: May,
    /// The server in numbers; none where the user may not see INFO.
    pub state: Option<State>,
    /// The database looked at, 0 to 15.
    pub db: u8,
    /// The last ten minutes, one a second, oldest first.
    pub samples: Vec<Sample>,
}

/// What an action came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// It was done.
    pub fine: bool,
    /// In plain words, as for a person.
    pub text: String,
}

/// Commands a user may run, found out at login by `ACL DRYRUN`. What is not in it is not offered; NOPERM stays the
/// judge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct May(BTreeSet<&'static str>);

/// What the console offers to do or show: each is tried with a queue named `q`, and goes by its first word, or the
/// first two where the first has subcommands.
pub const OFFERED: [&[&str]; 34] = [
    &["INFO"],
    &["DELAY.QUEUES"],
    &["DELAY.FIND", "id"],
    &["DELAY.STATS", "q"],
    &["DELAY.PEEK", "q"],
    &["DELAY.SCAN", "q", "0"],
    &["DELAY.GET", "q", "id"],
    &["DELAY.FORECAST", "q", "1m", "60"],
    &["DELAY.ADD", "q", "1s", "body"],
    &["DELAY.RESCHEDULE", "q", "id", "0s"],
    &["DELAY.CANCEL", "q", "id"],
    &["DELAY.NACK", "q", "id", "1", "BURY"],
    &["DELAY.DEL", "q", "id"],
    &["DELAY.REDRIVE", "q"],
    &["DELAY.PURGE", "q"],
    &["DELAY.PAUSE", "q"],
    &["DELAY.RESUME", "q"],
    &["DELAY.CONFIG", "GET", "q"],
    &["DELAY.CONFIG", "SET", "q", "max-jobs", "1"],
    &["DELAY.SCHEDULE", "LIST", "q"],
    &["DELAY.SCHEDULE", "GET", "q", "s"],
    &["DELAY.SCHEDULE", "SET", "q", "s", "body", "EVERY", "1s"],
    &["DELAY.SCHEDULE", "RUN", "q", "s"],
    &["DELAY.SCHEDULE", "PAUSE", "q", "s"],
    &["DELAY.SCHEDULE", "RESUME", "q", "s"],
    &["DELAY.SCHEDULE", "DEL", "q", "s"],
    &["DEL", "q"],
    &["RENAMENX", "q", "q"],
    &["CLIENT", "LIST"],
    &["CLIENT", "KILL", "ID", "1"],
    &["CONFIG", "GET", "x"],
    &["CONFIG", "SET", "x", "y"],
    &["SLOWLOG", "GET"],
    &["ACL", "LOG"],
];

impl May {
    /// Of the replies to [`May::ask`], in its order. Who is refused the queue of the trial may run the command on
    /// others. To a user who may not even ask, all is offered, and the server says no.
    pub fn read(replies: &[Value]) -> May {
        if replies.iter().all(|reply| reply.error().is_some()) {
            return May::all();
        }
        let may = |reply: &Value| {
            reply.bytes().is_some_and(|said| said == b"OK" || said.ends_with(b"access the 'q' key"))
        };
        let allowed = OFFERED.iter().zip(replies).filter(|(_, reply)| may(reply));
        May(allowed.map(|(words, _)| key(words)).collect())
    }

    /// All of it.
    pub fn all() -> May {
        May(OFFERED.iter().map(|words| key(words)).collect())
    }

    /// What to ask the server of `user`.
    pub fn ask(user: &[u8]) -> Vec<Command> {
        let tried = |words: &&[&str]| {
            let mut asked = command!["ACL", "DRYRUN", user];
            asked.extend(words.iter().map(|word| bytes::Bytes::copy_from_slice(word.as_bytes())));
            asked
        };
        OFFERED.iter().map(tried).collect()
    }

    /// Whether the user may run it: `DELAY.PURGE`, `DELAY.SCHEDULE RUN`.
    pub fn run(&self, command: &str) -> bool {
        self.0.contains(command)
    }
}

/// The words that name what is offered, such as `DELAY.CONFIG SET`.
fn key(words: &[&'static str]) -> &'static str {
    match words {
        ["DELAY.CONFIG", "GET", ..] => "DELAY.CONFIG GET",
        ["DELAY.CONFIG", ..] => "DELAY.CONFIG SET",
        ["DELAY.SCHEDULE", "LIST", ..] => "DELAY.SCHEDULE LIST",
        ["DELAY.SCHEDULE", "GET", ..] => "DELAY.SCHEDULE GET",
        ["DELAY.SCHEDULE", "SET", ..] => "DELAY.SCHEDULE SET",
        ["DELAY.SCHEDULE", "RUN", ..] => "DELAY.SCHEDULE RUN",
        ["DELAY.SCHEDULE", "PAUSE", ..] => "DELAY.SCHEDULE PAUSE",
        ["DELAY.SCHEDULE", "RESUME", ..] => "DELAY.SCHEDULE RESUME",
        ["DELAY.SCHEDULE", ..] => "DELAY.SCHEDULE DEL",
        ["CLIENT", "LIST"] => "CLIENT LIST",
        ["CLIENT", ..] => "CLIENT KILL",
        ["CONFIG", "GET", ..] => "CONFIG GET",
        ["CONFIG", ..] => "CONFIG SET",
        ["SLOWLOG", ..] => "SLOWLOG GET",
        ["ACL", ..] => "ACL LOG",
        [word, ..] => word,
        [] => "",
    }
}

/// The server in numbers.
#[derive(Clone, PartialEq, Debug, Default)]
#[allow(missing_docs, reason = "what has no words here is the INFO field of its name")]
pub struct State {
    /// The sections of INFO that the header and the overview read, by field.
    pub info: std::collections::BTreeMap<String, String>,
}

impl State {
    /// Of the text of INFO: `field:value` lines.
    pub fn read(info: &Value) -> Option<State> {
        let lines = info.text()?.lines().filter_map(|line| line.split_once(':'));
        Some(State {
            info: lines.map(|(field, value)| (field.to_owned(), value.to_owned())).collect(),
        })
    }

    /// A number of INFO.
    pub fn number(&self, field: &str) -> Option<u64> {
        self.info.get(field)?.parse().ok()
    }

    /// A text of INFO; empty if it is not there.
    pub fn text(&self, field: &str) -> &str {
        self.info.get(field).map_or("", String::as_str)
    }
}
