//! Looking at the server: its numbers, its memory, the commands that took long.

use crate::command::action::{Action, Server};
use crate::command::args::Args;
use crate::command::argument::{Argument, Kind};
use crate::command::help::help;
use crate::command::number;
use crate::command::produce::QUEUE;
use crate::command::server::{ADMIN, CONTAINER, SERVER};
use crate::command::spec::{Access, CommandSpec, Flag, Group, Keys};
use crate::engine::request::Request;
use crate::error::Error;

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "info",
        summary: "Shows the server's numbers",
        arguments: &[Argument::new("section", Kind::Bytes).optional().multiple()],
        flags: &[Flag::Loading, Flag::Stale],
        categories: &["dangerous"],
        tips: &["nondeterministic_output"],
        reply: "Text: sections of lines `name:value`. Unknown sections are left out.",
        example: &[("INFO nothing", "")],
        parse: Some(|args| Ok(Action::Server(Server::Info(args.rest())))),
        ..SERVER
    },
    CommandSpec {
        name: "latency",
        summary: "Redis's latency monitor, which has no events here",
        subcommands: &[
            CommandSpec {
                name: "latency|doctor",
                summary: "Says where latencies are measured",
                reply: "Text.",
                example: &[("LATENCY DOCTOR", "Latency events are not recorded. ...")],
                parse: Some(|_| Ok(Action::Server(Server::LatencyDoctor))),
                ..ADMIN
            },
            help("latency|help", Group::Server),
            CommandSpec {
                name: "latency|histogram",
                summary: "Shows no histograms",
                arguments: &[Argument::new("command", Kind::Bytes).optional().multiple()],
                reply: "Map (in RESP2 a flat array), empty.",
                example: &[("LATENCY HISTOGRAM", "(empty array)")],
                parse: Some(|_| Ok(Action::Server(Server::LatencyHistogram))),
                ..ADMIN
            },
            CommandSpec {
                name: "latency|history",
                summary: "Shows no events",
                arguments: &[Argument::new("event", Kind::Bytes)],
                reply: "Array, empty.",
                example: &[("LATENCY HISTORY command", "(empty array)")],
                parse: Some(|_| Ok(Action::Server(Server::LatencyNone))),
                ..ADMIN
            },
            CommandSpec {
                name: "latency|latest",
                summary: "Shows no events",
                reply: "Array, empty.",
                example: &[("LATENCY LATEST", "(empty array)")],
                parse: Some(|_| Ok(Action::Server(Server::LatencyNone))),
                ..ADMIN
            },
            CommandSpec {
                name: "latency|reset",
                summary: "Resets no events",
                arguments: &[Argument::new("event", Kind::Bytes).optional().multiple()],
                reply: "Integer: 0.",
                example: &[("LATENCY RESET", "(integer) 0")],
                parse: Some(|_| Ok(Action::Server(Server::LatencyReset))),
                ..ADMIN
            },
        ],
        ..CONTAINER
    },
    CommandSpec {
        name: "memory",
        summary: "What is held in memory",
        subcommands: &[
            help("memory|help", Group::Server),
            CommandSpec {
                name: "memory|usage",
                summary: "Says how many bytes are held for a queue",
                arguments: &[
                    QUEUE,
                    Argument::option("SAMPLES", "count", Kind::Integer)
                        .about("Without meaning: the number is exact."),
                ],
                flags: &[Flag::ReadOnly],
                keys: Keys::Range { first: 2, last: 2 },
                access: Access::Look,
                reply: "Integer, or nil if there is no such queue.",
                example: &[("MEMORY USAGE nothing", "(nil)")],
                parse: Some(parse_memory_usage),
                ..SERVER
            },
        ],
        ..CONTAINER
    },
    CommandSpec {
        name: "slowlog",
        summary: "The commands that took long",
        subcommands: &[
            CommandSpec {
                name: "slowlog|get",
                summary: "Shows the newest entries",
                complexity: "O(N) where N is the number of entries",
                arguments: &[Argument::new("count", Kind::Integer)
                    .optional()
                    .about("How many; -1 all. Default 10.")],
                tips: &["nondeterministic_output"],
                reply: "Array of entries, each an array: number, unix seconds, duration in us, arguments, \
                        client address, client name.",
                example: &[("SLOWLOG GET 1", "(empty array)")],
                parse: Some(parse_slowlog_get),
                ..ADMIN
            },
            help("slowlog|help", Group::Server),
            CommandSpec {
                name: "slowlog|len",
                summary: "Counts the entries",
                tips: &["nondeterministic_output"],
                reply: "Integer.",
                example: &[("SLOWLOG LEN", "(integer) 0")],
                parse: Some(|_| Ok(Action::Server(Server::SlowlogLen))),
                ..ADMIN
            },
            CommandSpec {
                name: "slowlog|reset",
                summary: "Removes all entries",
                complexity: "O(N) where N is the number of entries",
                reply: "Simple string: `OK`.",
                example: &[("SLOWLOG RESET", "OK")],
                parse: Some(|_| Ok(Action::Server(Server::SlowlogReset))),
                ..ADMIN
            },
        ],
        ..CONTAINER
    },
];

fn parse_memory_usage<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    while args.option()?.is_some() {
        match number::signed(args.word("count")?) {
            Some(0..) => {}
            Some(_) => return Err(Error::text("ERR syntax error")),
            None => return Err(Error::text("ERR value is not an integer or out of range")),
        }
    }
    Ok(Action::Engine(Request::Memory { queue }))
}

fn parse_slowlog_get<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut count = 10;
    if args.left() > 0 {
        count = match number::signed(args.word("count")?) {
            Some(-1) => usize::MAX,
            Some(count @ 0..) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => return Err(Error::text("ERR count should be greater than or equal to -1")),
        };
    }
    args.end_or_arity()?;
    Ok(Action::Server(Server::SlowlogGet(count)))
}
