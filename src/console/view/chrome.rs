//! The chrome around every page: the user, its rights, and the server's state.

use crate::console::words::value::{Command, Value, command};
use std::collections::BTreeSet;

/// Data that every page has, in addition to its own.
#[derive(Clone, Debug, Default)]
pub struct PageFrame {
    /// Wall clock, ms since 1970.
    pub now_ms: u64,
    /// The path of the page with its query, as a link to itself.
    pub here: String,
    /// The user's name; empty before login.
    pub user: Vec<u8>,
    /// In every form as `token`, and in the header `x-delayd-token` of the script's requests.
    pub token: String,
    /// `light`, `dark`, or empty for the system's.
    pub theme: String,
    /// All changes are refused: `console-readonly`.
    pub readonly: bool,
    /// How a shell reaches the server: `redis-cli -p 9248`, for empty states and "copy as".
    pub redis_cli: String,
    /// A dashboard elsewhere; empty without one.
    pub grafana: String,
    /// This page on the leader's console; empty if that is not known, or this one.
    pub on_leader: String,
    /// A message about the last action, shown once: done or refused.
    pub message: Option<ActionResult>,
    /// The commands the user may run.
    pub may: May,
    /// The server in numbers; none where the user may not see INFO.
    pub state: Option<ServerState>,
    /// The database looked at, 0 to 15.
    pub db: u8,
}

/// The result of an action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionResult {
    /// It was done.
    pub fine: bool,
    /// In plain words, as for a person.
    pub text: String,
}

impl ActionResult {
    /// It was done.
    pub fn done(text: impl Into<String>) -> ActionResult {
        ActionResult { fine: true, text: text.into() }
    }

    /// It was not done.
    pub fn refused(text: &str) -> ActionResult {
        ActionResult { fine: false, text: text.to_owned() }
    }
}

/// Commands a user may run, found out at login by `ACL DRYRUN`. Other commands are not offered; the server still
/// decides.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct May(BTreeSet<&'static str>);

/// The actions that the console offers: the name that each is known by, and the arguments it is tried with, of a
/// queue named `q`.
pub const OFFERED: [(&str, &str); 37] = [
    ("INFO", ""),
    ("DELAY.QUEUES", ""),
    ("DELAY.FIND", "id"),
    ("DELAY.BUSY", ""),
    ("DELAY.HISTORY", ""),
    ("DELAY.STATS", "q"),
    ("DELAY.PEEK", "q"),
    ("DELAY.SCAN", "q 0"),
    ("DELAY.GET", "q id"),
    ("DELAY.FORECAST", "q 1m 60"),
    ("DELAY.ADD", "q 1s body"),
    ("DELAY.RESCHEDULE", "q id 0s"),
    ("DELAY.CANCEL", "q id"),
    ("DELAY.NACK", "q id 1 BURY"),
    ("DELAY.DEL", "q id"),
    ("DELAY.REDRIVE", "q"),
    ("DELAY.BULK", "q REDRIVE STATE dead"),
    ("DELAY.PURGE", "q"),
    ("DELAY.PAUSE", "q"),
    ("DELAY.RESUME", "q"),
    ("DELAY.CONFIG GET", "q"),
    ("DELAY.CONFIG SET", "q max-jobs 1"),
    ("DELAY.SCHEDULE LIST", "q"),
    ("DELAY.SCHEDULE GET", "q s"),
    ("DELAY.SCHEDULE SET", "q s body EVERY 1s"),
    ("DELAY.SCHEDULE RUN", "q s"),
    ("DELAY.SCHEDULE PAUSE", "q s"),
    ("DELAY.SCHEDULE RESUME", "q s"),
    ("DELAY.SCHEDULE DEL", "q s"),
    ("DEL", "q"),
    ("RENAMENX", "q q"),
    ("CLIENT LIST", ""),
    ("CLIENT KILL", "ID 1"),
    ("CONFIG GET", "x"),
    ("CONFIG SET", "x y"),
    ("SLOWLOG GET", ""),
    ("ACL LOG", ""),
];

impl May {
    /// From the replies to [`May::ask`], in its order. A user that may not run the command on the test queue may run it
    /// on others. To a user that may not even ask, everything is offered, and the server refuses.
    pub fn read(replies: &[Value]) -> May {
        if replies.iter().all(|reply| reply.error().is_some()) {
            return May::all();
        }
        let may = |reply: &Value| {
            reply.bytes().is_some_and(|said| said == b"OK" || said.ends_with(b"access the 'q' key"))
        };
        let allowed = OFFERED.iter().zip(replies).filter(|(_, reply)| may(reply));
        May(allowed.map(|((command, _), _)| *command).collect())
    }

    pub fn all() -> May {
        May(OFFERED.map(|(command, _)| command).into())
    }

    pub fn ask(user: &[u8]) -> Vec<Command> {
        let tried = |(name, arguments): (&'static str, &'static str)| {
            let mut asked = command!["ACL", "DRYRUN", user];
            let words = name.split(' ').chain(arguments.split_whitespace());
            asked.extend(words.map(|word| bytes::Bytes::from_static(word.as_bytes())));
            asked
        };
        OFFERED.into_iter().map(tried).collect()
    }

    /// Whether the user may run it: `DELAY.PURGE`, `DELAY.SCHEDULE RUN`.
    pub fn run(&self, command: &str) -> bool {
        self.0.contains(command)
    }
}

/// The server in numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServerState {
    /// The sections of INFO that the header and the overview read, by field.
    pub info: std::collections::BTreeMap<String, String>,
}

impl ServerState {
    /// From the text of INFO: `field:value` lines.
    pub fn read(info: &Value) -> Option<ServerState> {
        let lines = info.text()?.lines().filter_map(|line| line.split_once(':'));
        Some(ServerState {
            info: lines.map(|(field, value)| (field.to_owned(), value.to_owned())).collect(),
        })
    }

    pub fn number(&self, field: &str) -> Option<u64> {
        self.info.get(field)?.parse().ok()
    }

    /// A number of INFO; 0 if it is not there.
    pub fn number_of(&self, field: &str) -> u64 {
        self.number(field).unwrap_or(0)
    }

    /// A text of INFO; empty if it is not there.
    pub fn text(&self, field: &str) -> &str {
        self.info.get(field).map_or("", String::as_str)
    }
}
