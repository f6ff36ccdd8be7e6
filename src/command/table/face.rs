//! Which commands a connection has: those of the port that it came in by.

use super::{CommandEntry, all, find, resolve, resolve_in, unknown};
use crate::command::family::sentinel;
use crate::command::spec::{CommandSpec, Group};
use crate::error::Error;
use std::sync::LazyLock;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Face {
    /// All of the table.
    #[default]
    Data,
    /// Those of a Redis Sentinel: SENTINEL, and what a client says of itself and asks of its connection.
    Sentinel,
}

/// Commands of the table that a Sentinel has, too.
const SHARED: [&str; 13] = [
    "auth", "client", "command", "hello", "info", "ping", "psubscribe", "punsubscribe", "quit",
    "reset", "role", "subscribe", "unsubscribe",
];

/// The one of SENTINEL that changes something.
const FAILOVER: &str = "sentinel|failover";

/// SENTINEL, which is in no table: on the port for jobs it is unknown.
static SENTINEL: LazyLock<CommandEntry> = LazyLock::new(|| CommandEntry::of(&sentinel::SENTINEL));

impl Face {
    /// As [`resolve`], of these commands.
    pub fn resolve(self, args: &[&[u8]]) -> Result<&'static CommandSpec, Error> {
        match self {
            Face::Data => resolve(args),
            Face::Sentinel => {
                let name = args.first().copied().unwrap_or_default();
                match is_sentinel(name) {
                    true => resolve_in(&SENTINEL, args),
                    false if is_shared(name) => resolve(args),
                    false => Err(self.unknown(args)),
                }
            }
        }
    }

    /// As [`find`], of these commands.
    pub fn find(self, name: &[u8]) -> Option<&'static CommandSpec> {
        if self == Face::Data {
            return find(name);
        }
        let mut words = name.splitn(2, |byte| *byte == b'|');
        let (container, word) = (words.next().unwrap_or_default(), words.next());
        if !is_sentinel(container) {
            return find(name).filter(|_| is_shared(container));
        }
        let subcommands = SENTINEL.spec.subcommands;
        match word {
            None => Some(SENTINEL.spec),
            Some(word) => {
                subcommands.iter().find(|spec| spec.word().as_bytes().eq_ignore_ascii_case(word))
            }
        }
    }

    /// All of them, containers without their subcommands.
    pub fn all(self) -> Vec<&'static CommandSpec> {
        match self {
            Face::Data => all().collect(),
            Face::Sentinel => {
                let shared = all().filter(|spec| is_shared(spec.name.as_bytes()));
                shared.chain([SENTINEL.spec]).collect()
            }
        }
    }

    /// As [`unknown`]. A client that asks a Sentinel for jobs is told that it is one.
    pub fn unknown(self, args: &[&[u8]]) -> Error {
        let name = args.first().copied().unwrap_or_default();
        match self {
            Face::Sentinel if find(name).is_some() => Error::text(format!(
                "ERR unknown command '{}': this port answers as a Redis Sentinel. SENTINEL GET-MASTER-ADDR-BY-NAME \
                 names the node that serves jobs",
                String::from_utf8_lossy(name)
            )),
            _ => unknown(args),
        }
    }

    /// The command whose rights are needed to run it: SENTINEL FAILOVER, which no rule names, does what FAILOVER does.
    pub fn stands_for<'a>(
        self,
        spec: &'static CommandSpec,
        args: &'a [&'a [u8]],
    ) -> (&'static CommandSpec, &'a [&'a [u8]]) {
        match find(b"failover") {
            Some(other) if spec.name == FAILOVER => (other, &[b"failover"]),
            _ => (spec, args),
        }
    }

    /// Whether any logged-in user may run it here, whatever its rules: it only reveals addresses.
    pub fn is_free(self, spec: &CommandSpec) -> bool {
        let container = spec.name.split('|').next().unwrap_or_default();
        let tells = spec.name != FAILOVER;
        self == Face::Sentinel
            && tells
            && (is_sentinel(container.as_bytes()) || spec.group == Group::PubSub)
    }
}

fn is_sentinel(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"sentinel")
}

fn is_shared(name: &[u8]) -> bool {
    let is_name = |shared: &str| shared.as_bytes().eq_ignore_ascii_case(name);
    SHARED.into_iter().any(is_name)
}
