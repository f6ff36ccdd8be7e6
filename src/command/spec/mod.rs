//! The description of a command: [`CommandSpec`], the type of the one table.
//!
//! Arity, legacy key positions, ACL categories and the flag `movablekeys` follow from the rest and
//! are computed, so that they cannot contradict it.

pub mod action;
pub mod args;
pub mod argument;

use crate::command::spec::action::{Action, Fixed};
use crate::command::spec::args::Args;
use crate::command::spec::argument::Argument;
use crate::error::Error;
use crate::words::words;

/// Reads a command's arguments.
pub type Parse = for<'a> fn(&mut Args<'a>) -> Result<Action<'a>, Error>;

#[derive(Debug)]
pub struct CommandSpec {
    /// Full name, lower case; a subcommand's with its container: `client|kill`.
    pub name: &'static str,
    /// One sentence without a full stop.
    pub summary: &'static str,
    /// The version of delayd that brought it.
    pub since: &'static str,
    /// The chapter of the reference.
    pub group: Group,
    pub complexity: &'static str,
    /// Its arguments, in the order in which they are written.
    pub arguments: &'static [Argument],
    pub flags: &'static [Flag],
    /// Categories that do not follow from group, flags and keys.
    pub categories: &'static [&'static str],
    /// Hints for clients of a cluster.
    pub tips: &'static [&'static str],
    /// Where its queues stand.
    pub keys: KeyPositions,
    /// Its access to them.
    pub access: Access,
    pub channels: Channels,
    /// The reply in words, with types.
    pub reply: &'static str,
    /// Details beyond the summary; paragraphs of the reference.
    pub notes: &'static str,
    /// Commands, and what redis-cli prints for them.
    pub example: &'static [(&'static str, &'static str)],
    /// Reads the arguments; none in a container that is nothing by itself.
    pub parse: Option<Parse>,
    /// An example and what it is answered, where that is always the same.
    pub always: Option<(&'static str, Always)>,
    pub subcommands: &'static [CommandSpec],
}

/// The constant answer of a command, whatever its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Always {
    Refused(&'static str),
    Answered(Fixed),
}

words! {
    /// The chapters of the reference, in its order; `help @group` in redis-cli.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Group {
        /// The queue's own commands.
        Delay = "delay",
        /// Ready jobs as a list.
        List = "list",
        /// Redis's commands on keys.
        Generic = "generic",
        Transactions = "transactions",
        PubSub = "pubsub",
        Scripting = "scripting",
        Connection = "connection",
        Server = "server",
    }
}

words! {
    /// How a command behaves; the names are Redis's.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Flag {
        Write = "write",
        ReadOnly = "readonly",
        /// Refused with `OOM` when memory is used up.
        DenyOom = "denyoom",
        /// For operators.
        Admin = "admin",
        /// May wait.
        Blocking = "blocking",
        /// Allowed while the journal is read.
        Loading = "loading",
        /// Allowed on a replica that has lost its master.
        Stale = "stale",
        /// O(1), or O(log n).
        Fast = "fast",
        /// Allowed before AUTH.
        NoAuth = "no_auth",
        /// Not inside MULTI.
        NoMulti = "no_multi",
        /// Not inside a script.
        NoScript = "noscript",
        /// Not shown by MONITOR.
        SkipMonitor = "skip_monitor",
        /// Not in the slow log: what it runs is.
        SkipSlowLog = "skip_slowlog",
        /// About channels, or what is said in them.
        PubSub = "pubsub",
    }
}

/// Where the queues stand among the arguments; the name is at 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyPositions {
    None,
    /// From `first` to `last`; a negative `last` counts from the end, −1 being the last argument.
    Range {
        first: i64,
        last: i64,
    },
    /// Their number is at `at`, and they follow it.
    Counted {
        at: i64,
    },
    /// Two, at 1 and at 2, to which it does different things: each has a key specification of its own.
    FromTo {
        /// Its access to the second.
        to: Access,
    },
}

/// Where channels stand among the arguments; the name is at 0, a negative `last` counts from the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    None,
    /// Channels by name.
    Named {
        first: i64,
        last: i64,
    },
    Patterns {
        first: i64,
        last: i64,
    },
}

/// A command's access to its queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Looks at jobs.
    Read,
    /// Looks at what is known of the queue, not at jobs.
    Look,
    Insert,
    /// Takes away and returns.
    Take,
    Update,
    /// Updates without a look at jobs.
    Set,
    Delete,
    Remove,
}

impl Access {
    /// The flags of a key specification.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Access::Read => &["RO", "access"],
            Access::Look => &["RO"],
            Access::Insert => &["RW", "insert"],
            Access::Take => &["RW", "access", "delete"],
            Access::Update => &["RW", "access", "update"],
            Access::Set => &["RW", "update"],
            Access::Delete => &["RW", "delete"],
            Access::Remove => &["RM", "delete"],
        }
    }
}

/// Every ACL category: Redis's own, then ours.
pub const CATEGORIES: [&str; 22] = [
    "keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap",
    "hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous",
    "connection", "transaction", "scripting", "delay",
];

/// Tips of a command without a key that concerns all queues: a client of a Redis Cluster asks every leader.
pub const OF_ALL: &[&str] = &["request_policy:all_shards"];
/// The same, and all have to succeed.
pub const ALL_SUCCEED: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
/// The same, and the numbers are added.
pub const SUMMED: &[&str] = &["request_policy:all_shards", "response_policy:agg_sum"];
/// Tips of a command that such a client may split by the hash slots of its queues.
pub const SPLIT: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

/// A row of the table: what is not said of it is as in `base`.
pub const fn row(name: &'static str, summary: &'static str, base: CommandSpec) -> CommandSpec {
    CommandSpec { name, summary, ..base }
}

/// For each field a function that gives a row another value of it.
macro_rules! setters {
    ($($field:ident: $type:ty,)+) => {
        impl CommandSpec {
            $(pub const fn $field(self, $field: $type) -> CommandSpec {
                CommandSpec { $field, ..self }
            })+

            pub const fn parse(self, parse: Parse) -> CommandSpec {
                CommandSpec { parse: Some(parse), ..self }
            }
        }
    };
}

setters! {
    summary: &'static str,
    group: Group,
    complexity: &'static str,
    arguments: &'static [Argument],
    flags: &'static [Flag],
    categories: &'static [&'static str],
    tips: &'static [&'static str],
    keys: KeyPositions,
    access: Access,
    channels: Channels,
    reply: &'static str,
    notes: &'static str,
    example: &'static [(&'static str, &'static str)],
    subcommands: &'static [CommandSpec],
}

impl CommandSpec {
    /// The base of the table's entries.
    pub const BASE: CommandSpec = CommandSpec {
        name: "",
        summary: "",
        since: "0.1.0",
        group: Group::Delay,
        complexity: "O(1)",
        arguments: &[],
        flags: &[],
        categories: &[],
        tips: &[],
        keys: KeyPositions::None,
        access: Access::Read,
        channels: Channels::None,
        reply: "",
        notes: "",
        example: &[],
        parse: None,
        always: None,
        subcommands: &[],
    };

    /// The base of those about one queue, their first argument.
    pub const OF_QUEUE: CommandSpec = Self::BASE.keys(KeyPositions::Range { first: 1, last: 1 });

    /// The last word of the name: `kill` of `client|kill`.
    pub fn word(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// Whether it belongs to a container.
    pub fn is_subcommand(&self) -> bool {
        self.name.contains('|')
    }

    /// As users write it: `CLIENT KILL`.
    pub fn written(&self) -> String {
        self.name.replace('|', " ").to_uppercase()
    }

    /// Redis's arity: the number of arguments, including the name (and the container's); negative:
    /// at least that many.
    pub fn arity(&self) -> i64 {
        let words = 1 + i64::from(self.is_subcommand());
        if !self.subcommands.is_empty() {
            return if self.parse.is_some() { -words } else { -(words + 1) };
        }
        let least: usize = self.arguments.iter().map(Argument::words_min).sum();
        let fixed = self.arguments.iter().all(Argument::is_fixed);
        let least = words + least as i64;
        if fixed { least } else { -least }
    }

    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// ACL categories without the `@`.
    pub fn all_categories(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        let mut add = |holds: bool, word: &'static str| {
            if holds && !all.contains(&word) {
                all.push(word);
            }
        };
        // What changes the cluster is no worker's, whose right this is.
        add(self.group == Group::Delay && !self.has(Flag::Admin), "delay");
        add(self.group == Group::List, "list");
        add(self.group == Group::Connection, "connection");
        add(self.group == Group::Transactions, "transaction");
        add(self.group == Group::PubSub, "pubsub");
        add(self.group == Group::Scripting, "scripting");
        add(self.has(Flag::Write), "write");
        add(self.has(Flag::ReadOnly), "read");
        add(self.has(Flag::Fast), "fast");
        add(!self.has(Flag::Fast), "slow");
        add(self.has(Flag::Blocking), "blocking");
        add(self.has(Flag::Admin), "admin");
        add(self.has(Flag::Admin), "dangerous");
        for category in self.categories {
            add(true, category);
        }
        all
    }

    /// First key, last key and step as COMMAND showed them before key specifications.
    pub fn legacy_keys(&self) -> (i64, i64, i64) {
        match self.keys {
            KeyPositions::Range { first, last } => (first, last, 1),
            KeyPositions::FromTo { .. } => (1, 2, 1),
            KeyPositions::None | KeyPositions::Counted { .. } => (0, 0, 0),
        }
    }

    /// The queues that a whole command names: a range of `args`, the name at 0. None if the
    /// command names no queues; empty if it should and does not.
    pub fn find_keys(&self, args: &[&[u8]]) -> Option<std::ops::Range<usize>> {
        let count = args.len() as i64;
        let (first, end) = match self.keys {
            KeyPositions::None => return None,
            KeyPositions::Range { first, last } if last < 0 => (first, count + last + 1),
            KeyPositions::Range { first, last } => (first, last + 1),
            KeyPositions::FromTo { .. } => (1, 3),
            KeyPositions::Counted { at } => {
                let number = args.get(at as usize).copied().unwrap_or_default();
                let number = crate::command::read::number::unsigned(number).unwrap_or(0);
                (at + 1, (at + 1).saturating_add(number.min(i64::MAX as u64) as i64))
            }
        };
        let fits = first < end && end <= count;
        Some(if fits { first as usize..end as usize } else { 0..0 })
    }

    /// Its access to its `nth` queue, from 0.
    pub fn access_of(&self, nth: usize) -> Access {
        match self.keys {
            KeyPositions::FromTo { to } if nth > 0 => to,
            _ => self.access,
        }
    }

    /// The channels, or the patterns of channels, that a whole command names: a range of `args`, the
    /// name at 0; empty if it names none.
    pub fn find_channels(&self, args: &[&[u8]]) -> std::ops::Range<usize> {
        let (Channels::Named { first, last } | Channels::Patterns { first, last }) = self.channels
        else {
            return 0..0;
        };
        let count = args.len() as i64;
        let end = if last < 0 { count + last + 1 } else { last + 1 };
        let fits = first < end && end <= count;
        if fits { first as usize..end as usize } else { 0..0 }
    }

    /// The line of the reference: `DELAY.ADD queue when body [ID id] …`.
    pub fn syntax(&self) -> String {
        let mut line = self.written();
        for argument in self.arguments {
            line.push(' ');
            argument.write_syntax(&mut line);
        }
        line
    }
}
