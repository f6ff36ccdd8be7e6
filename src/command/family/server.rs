//! The server as a whole: settings, flushing, shutting down, its place in replication.

use crate::command::family::help::help;
use crate::command::family::help::{answered, refused};
use crate::command::spec::action::{Action, Fixed, ServerRequest, Shutdown};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{ALL_SUCCEED, CommandSpec, Flag, Group, SUMMED, row};
use crate::engine::model::request::Request;
use crate::error::Error;

const LOLWUT: &str = concat!("delayd ver. ", env!("CARGO_PKG_VERSION"), "\n");

/// The base of commands about the server.
pub(super) const SERVER: CommandSpec =
    CommandSpec::BASE.group(Group::Server).flags(&[Flag::NoScript, Flag::Loading, Flag::Stale]);

/// One for operators.
pub(super) const ADMIN: CommandSpec =
    SERVER.flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale]);

/// A subcommand and what follows it.
pub(super) const WORDS: &[Argument] = &[
    Argument::new("subcommand", ArgumentKind::Bytes),
    Argument::new("arg", ArgumentKind::Bytes).optional().multiple(),
];

pub(super) const CONTAINER: CommandSpec =
    SERVER.flags(&[]).complexity("Depends on the subcommand").reply("Depends on the subcommand.");

/// A command that removes queues wholesale.
const FLUSH: CommandSpec = SERVER
    .complexity("O(N) where N is the number of queues; memory is freed in slices afterwards")
    .arguments(&[Argument::one_of(
        "how",
        &[Argument::word("async", "ASYNC"), Argument::word("sync", "SYNC")],
    )
    .optional()
    .about("No effect: it always takes effect at once, and memory is freed afterwards.")])
    .flags(&[Flag::Write])
    .categories(&["keyspace", "dangerous"])
    .tips(ALL_SUCCEED)
    .reply("Simple string: `OK`.")
    .notes("Removes every job, including leased and dead ones, with settings, pauses, UNIQUE windows and totals. \
            Waiting consumers keep waiting; tokens keep growing.");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("config", "The server's settings", CONTAINER)
        .subcommands(&[
            row("config|get", "Shows settings", ADMIN)
                .complexity("O(N) where N is the number of settings")
                .arguments(&[Argument::new("parameter", ArgumentKind::Pattern).multiple()])
                .reply("Map (in RESP2 a flat array) from names to values.")
                .example(&[("CONFIG GET databases", "1) \"databases\"\n2) \"16\"")])
                .parse(|args| {
                    Ok(Action::Server(ServerRequest::ConfigGet(args.option_patterns()?)))
                }),
            help("config|help", Group::Server),
            row(
                "config|resetstat",
                "Sets the server's counters to zero; a queue's totals stay",
                ADMIN,
            )
            .reply("Simple string: `OK`.")
            .example(&[("CONFIG RESETSTAT", "OK")])
            .parse(|_| Ok(Action::Server(ServerRequest::ConfigResetStat))),
            row("config|rewrite", "Writes the settings back to the file", ADMIN)
                .reply("Simple string: `OK`.")
                .example(&[(
                    "CONFIG REWRITE",
                    "(error) ERR The server is running without a config file",
                )])
                .parse(|_| Ok(Action::Server(ServerRequest::ConfigRewrite))),
            row("config|set", "Changes settings, all given ones or none", ADMIN)
                .complexity("O(N) where N is the number of settings")
                .arguments(&[Argument::block(
                    "data",
                    &[
                        Argument::new("parameter", ArgumentKind::Bytes),
                        Argument::new("value", ArgumentKind::Bytes),
                    ],
                )
                .multiple()])
                .reply("Simple string: `OK`.")
                .example(&[(
                    "CONFIG SET nothing 1",
                    "(error) ERR Unknown option or number of arguments for CONFIG SET - 'nothing'",
                )])
                .parse(|args| {
                    if !args.left().is_multiple_of(2) {
                        return Err(Error::text("ERR syntax error"));
                    }
                    Ok(Action::Server(ServerRequest::ConfigSet(args.rest())))
                }),
        ]),
    row("dbsize", "Counts the queues of the database", SERVER)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&["keyspace"])
        .tips(SUMMED)
        .reply("Integer.")
        .example(&[("DBSIZE", "(integer) 0")])
        .parse(|args| Ok(Action::Engine(Request::QueueCount { db: args.db() }))),
    row("flushall", "Removes the queues of all databases", FLUSH)
        .example(&[("FLUSHALL", "OK")])
        .parse(|args| {
            flush_mode(args)?;
            Ok(Action::Engine(Request::Flush { db: None }))
        }),
    row("flushdb", "Removes the queues of the database", FLUSH)
        .example(&[("FLUSHDB", "OK")])
        .parse(|args| {
            flush_mode(args)?;
            Ok(Action::Engine(Request::Flush { db: Some(args.db()) }))
        }),
    answered("lolwut", "Shows the version", "LOLWUT", Fixed::Text(LOLWUT), SERVER)
        .arguments(&[Argument::option("VERSION", "version", ArgumentKind::Integer)])
        .flags(&[Flag::ReadOnly, Flag::Fast]),
    row("module", "Modules, of which there are none", CONTAINER)
        .subcommands(&[
            help("module|help", Group::Server),
            answered("module|list", "Shows no modules", "MODULE LIST", Fixed::Empty, ADMIN),
        ]),
    row(
        "role",
        "Shows the server's role in replication; a standalone server is a master without replicas",
        SERVER,
    )
    .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast])
    .categories(&["admin", "dangerous"])
    .reply("Array: `master`, the index of the journal's newest batch, which is INFO's `master_repl_offset` too (0 without \
            a journal), and for the leader of a cluster its followers: host, port, index. On a follower `slave`, \
            host and port of the leader, `connected` or another state, the index that it has applied.")
    .example(&[("ROLE", "1) \"master\"\n2) (integer) 4711\n3) (empty array)")])
    .parse(|_| Ok(Action::Server(ServerRequest::Role))),
    row("shutdown", "Stops the server in order", SERVER)
        .arguments(&[
            Argument::one_of(
                "save",
                &[Argument::word("nosave", "NOSAVE"), Argument::word("save", "SAVE")],
            )
            .optional()
            .about("No effect: the journal is synced in either case."),
            Argument::word("now", "NOW").optional().about("Do not wait for replies to be sent."),
            Argument::word("force", "FORCE")
                .optional()
                .about("Stop even if the journal cannot be synced."),
            Argument::word("abort", "ABORT")
                .optional()
                .about("Cancel a SHUTDOWN that is still waiting."),
        ])
        .flags(&[Flag::Admin, Flag::NoScript, Flag::NoMulti, Flag::Loading, Flag::Stale])
        .reply("None: the connection closes. An error if SHUTDOWN is refused. For ABORT: `OK`.")
        .example(&[("SHUTDOWN ABORT", "(error) ERR No shutdown in progress.")])
        .parse(parse_shutdown),
    refused(
        "swapdb",
        "Refused: databases cannot be swapped",
        "SWAPDB 0 1",
        "ERR databases cannot be swapped",
        SERVER,
    )
    .arguments(&[
        Argument::new("index1", ArgumentKind::Integer),
        Argument::new("index2", ArgumentKind::Integer),
    ])
    .flags(&[Flag::Write])
    .categories(&["keyspace", "dangerous"]),
    row("time", "Shows the server's clock, by which jobs fall due", SERVER)
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .tips(&["nondeterministic_output"])
        .reply("Array of two bulk strings: unix seconds, us within the second.")
        .example(&[("TIME", "1) \"1800000000\"\n2) \"123456\"")])
        .parse(|_| Ok(Action::Server(ServerRequest::Time))),
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
        (true, true) => Ok(Action::Server(ServerRequest::ShutdownAbort)),
        (true, false) => Err(Error::text("ERR syntax error: ABORT stands alone")),
        (false, _) => Ok(Action::Server(ServerRequest::Shutdown(how))),
    }
}
