//! The server as a whole: settings, flushing, shutting down, its place in replication.

use crate::command::family::always::{answered, refused};
use crate::command::family::help::help;
use crate::command::spec::action::{Action, Fixed, Server, Shutdown};
use crate::command::spec::args::{Args, check_pattern};
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::engine::model::request::Request;
use crate::error::Error;
use crate::limits::{CONFIG_PATTERNS_MAX, OPTION_PATTERN_BYTES_MAX};

const LOLWUT: &str = concat!("delayd ver. ", env!("CARGO_PKG_VERSION"), "\n");

/// What commands about the server begin from.
pub(super) const SERVER: CommandSpec = CommandSpec {
    group: Group::Server,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    ..CommandSpec::BASE
};

/// One for operators.
pub(super) const ADMIN: CommandSpec =
    CommandSpec { flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale], ..SERVER };

/// A subcommand and what follows it.
pub(super) const WORDS: &[Argument] = &[
    Argument::new("subcommand", Kind::Bytes),
    Argument::new("arg", Kind::Bytes).optional().multiple(),
];

/// A container.
pub(super) const CONTAINER: CommandSpec = CommandSpec {
    flags: &[],
    complexity: "Depends on the subcommand",
    reply: "Depends on the subcommand.",
    ..SERVER
};

/// A command that removes queues wholesale.
const FLUSH: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of queues; memory is freed in slices afterwards",
    arguments: &[Argument::one_of(
        "how",
        &[Argument::word("async", "ASYNC"), Argument::word("sync", "SYNC")],
    )
    .optional()
    .about("Without meaning: it takes effect at once, and memory is freed behind it.")],
    flags: &[Flag::Write],
    categories: &["keyspace", "dangerous"],
    reply: "Simple string: `OK`.",
    notes: "Every job goes, leased and dead ones included, with settings, pauses, UNIQUE windows and \
            totals. Consumers that wait go on waiting; tokens go on counting.",
    ..SERVER
};

/// What only a Redis Cluster has.
const fn cluster(name: &'static str, call: &'static str) -> CommandSpec {
    CommandSpec {
        flags: &[Flag::Loading, Flag::Stale],
        ..refused(
            name,
            "Refused: nodes of a delayd cluster all hold the same jobs, without slots (docs/cluster.md)",
            call,
            NO_CLUSTER,
            SERVER,
        )
    }
}

// It begins as Redis's does, by which clients know it.
const NO_CLUSTER: &str = "ERR This instance has cluster support disabled: a delayd cluster has no slots, clients find its leader through Sentinel; see docs/cluster.md";

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    cluster("asking", "ASKING"),
    CommandSpec { arguments: WORDS, ..cluster("cluster", "CLUSTER SLOTS") },
    CommandSpec {
        name: "config",
        summary: "The server's settings",
        subcommands: &[
            CommandSpec {
                name: "config|get",
                summary: "Shows settings",
                complexity: "O(N) where N is the number of settings",
                arguments: &[Argument::new("parameter", Kind::Pattern).multiple()],
                reply: "Map (in RESP2 a flat array) from names to values.",
                example: &[("CONFIG GET databases", "1) \"databases\"\n2) \"16\"")],
                parse: Some(config_get),
                ..ADMIN
            },
            help("config|help", Group::Server),
            CommandSpec {
                name: "config|resetstat",
                summary: "Sets the server's counters to zero; a queue's totals stay",
                reply: "Simple string: `OK`.",
                example: &[("CONFIG RESETSTAT", "OK")],
                parse: Some(|_| Ok(Action::Server(Server::ConfigResetStat))),
                ..ADMIN
            },
            CommandSpec {
                name: "config|rewrite",
                summary: "Writes the settings back to the file",
                reply: "Simple string: `OK`.",
                example: &[(
                    "CONFIG REWRITE",
                    "(error) ERR The server is running without a config file",
                )],
                parse: Some(|_| Ok(Action::Server(Server::ConfigRewrite))),
                ..ADMIN
            },
            CommandSpec {
                name: "config|set",
                summary: "Changes settings, all that are named or none",
                complexity: "O(N) where N is the number of settings",
                arguments: &[Argument::block(
                    "data",
                    &[Argument::new("parameter", Kind::Bytes), Argument::new("value", Kind::Bytes)],
                )
                .multiple()],
                reply: "Simple string: `OK`.",
                example: &[(
                    "CONFIG SET nothing 1",
                    "(error) ERR Unknown option or number of arguments for CONFIG SET - 'nothing'",
                )],
                parse: Some(|args| {
                    if !args.left().is_multiple_of(2) {
                        return Err(Error::text("ERR syntax error"));
                    }
                    Ok(Action::Server(Server::ConfigSet(args.rest())))
                }),
                ..ADMIN
            },
        ],
        ..CONTAINER
    },
    CommandSpec {
        name: "dbsize",
        summary: "Counts the queues of the database",
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &["keyspace"],
        reply: "Integer.",
        example: &[("DBSIZE", "(integer) 0")],
        parse: Some(|args| Ok(Action::Engine(Request::QueueCount { db: args.db() }))),
        ..SERVER
    },
    CommandSpec {
        name: "flushall",
        summary: "Removes the queues of all databases",
        example: &[("FLUSHALL", "OK")],
        parse: Some(|args| {
            flush_mode(args)?;
            Ok(Action::Engine(Request::Flush { db: None }))
        }),
        ..FLUSH
    },
    CommandSpec {
        name: "flushdb",
        summary: "Removes the queues of the database",
        example: &[("FLUSHDB", "OK")],
        parse: Some(|args| {
            flush_mode(args)?;
            Ok(Action::Engine(Request::Flush { db: Some(args.db()) }))
        }),
        ..FLUSH
    },
    CommandSpec {
        arguments: &[Argument::option("VERSION", "version", Kind::Integer)],
        flags: &[Flag::ReadOnly, Flag::Fast],
        ..answered("lolwut", "Shows the version", "LOLWUT", Fixed::Text(LOLWUT), SERVER)
    },
    CommandSpec {
        name: "module",
        summary: "Modules, of which there are none",
        subcommands: &[
            help("module|help", Group::Server),
            answered("module|list", "Shows no modules", "MODULE LIST", Fixed::Empty, ADMIN),
        ],
        ..CONTAINER
    },
    cluster("readonly", "READONLY"),
    cluster("readwrite", "READWRITE"),
    CommandSpec {
        name: "role",
        summary: "Says what the server is in replication: alone a master without replicas",
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &["admin", "dangerous"],
        reply: "Array: `master`, the index of the journal's newest batch, which is INFO's `master_repl_offset` too (0 without \
                a journal), the followers of a cluster's leader: host, port, index. On a follower `slave`, host and port of the leader, \
                `connected` or how it stands else, the index that it has applied.",
        example: &[("ROLE", "1) \"master\"\n2) (integer) 4711\n3) (empty array)")],
        parse: Some(|_| Ok(Action::Server(Server::Role))),
        ..SERVER
    },
    CommandSpec {
        name: "shutdown",
        summary: "Stops the server in good order",
        arguments: &[
            Argument::one_of(
                "save",
                &[Argument::word("nosave", "NOSAVE"), Argument::word("save", "SAVE")],
            )
            .optional()
            .about("Without meaning: the journal is synced in either case."),
            Argument::word("now", "NOW").optional().about("Does not wait."),
            Argument::word("force", "FORCE")
                .optional()
                .about("Even if the journal cannot be synced."),
            Argument::word("abort", "ABORT")
                .optional()
                .about("Takes back a SHUTDOWN that still waits."),
        ],
        flags: &[Flag::Admin, Flag::NoScript, Flag::NoMulti, Flag::Loading, Flag::Stale],
        reply: "None: the connection closes. An error if it is refused. For ABORT: `OK`.",
        example: &[("SHUTDOWN ABORT", "(error) ERR No shutdown in progress.")],
        parse: Some(parse_shutdown),
        ..SERVER
    },
    CommandSpec {
        arguments: &[
            Argument::new("index1", Kind::Integer),
            Argument::new("index2", Kind::Integer),
        ],
        flags: &[Flag::Write],
        categories: &["keyspace", "dangerous"],
        ..refused(
            "swapdb",
            "Refused: databases stay what they are",
            "SWAPDB 0 1",
            "ERR databases cannot be swapped",
            SERVER,
        )
    },
    CommandSpec {
        name: "time",
        summary: "Shows the server's clock, by which jobs fall due",
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        tips: &["nondeterministic_output"],
        reply: "Array of two bulk strings: unix seconds, us within the second.",
        example: &[("TIME", "1) \"1800000000\"\n2) \"123456\"")],
        parse: Some(|_| Ok(Action::Server(Server::Time))),
        ..SERVER
    },
];

fn flush_mode(args: &mut Args<'_>) -> Result<(), Error> {
    while args.option()?.is_some() {}
    Ok(())
}

fn parse_shutdown<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (mut how, mut abort) = (Shutdown::default(), false);
    while let Some(option) = args.option()? {
        match option {
            "NOSAVE" => how.save = Some(false),
            "SAVE" => how.save = Some(true),
            "NOW" => how.now = true,
            "FORCE" => how.force = true,
            "ABORT" => abort = true,
            _ => return Err(args.unknown_option()),
        }
    }
    match (abort, how == Shutdown::default()) {
        (true, true) => Ok(Action::Server(Server::ShutdownAbort)),
        (true, false) => Err(Error::text("ERR syntax error: ABORT stands alone")),
        (false, _) => Ok(Action::Server(Server::Shutdown(how))),
    }
}

fn config_get<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let patterns = args.rest();
    if patterns.len() > CONFIG_PATTERNS_MAX {
        let count = patterns.len();
        return Err(Error::text(format!(
            "ERR {count} patterns; the most are {CONFIG_PATTERNS_MAX}"
        )));
    }
    for pattern in patterns {
        check_pattern(pattern, OPTION_PATTERN_BYTES_MAX)?;
    }
    Ok(Action::Server(Server::ConfigGet(patterns)))
}
