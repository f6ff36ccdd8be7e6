//! Looking at the server: its numbers, its memory, the commands that took long.

use crate::command::family::always::answered;
use crate::command::family::help::help;
use crate::command::family::produce::QUEUE;
use crate::command::family::server::{ADMIN, CONTAINER, SERVER};
use crate::command::read::number;
use crate::command::spec::action::{Action, Fixed, Latency, Server};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, Keys};
use crate::engine::model::request::Request;
use crate::error::Error;

const MEMORY_DOCTOR: &str = "INFO memory tells what is held; MEMORY USAGE, what for a queue. At maxmemory \
    commands that add are refused, and no job is evicted.\n";

const LATENCY_DOCTOR: &str = "There is no latency monitor. LATENCY HISTOGRAM tells how long commands take, \
    SLOWLOG GET which ones took long, DELAY.STATS how late a queue's deliveries are.\n";

const EVENT: &[Argument] = &[Argument::new("event", Kind::Bytes)];

/// A subcommand of MEMORY.
const UNFLAGGED: CommandSpec = CommandSpec { flags: &[], ..SERVER };

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
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
        summary: "How long commands take",
        subcommands: &[
            answered(
                "latency|doctor",
                "Says where to look for what took long",
                "LATENCY DOCTOR",
                Fixed::Text(LATENCY_DOCTOR),
                ADMIN,
            ),
            CommandSpec {
                name: "latency|graph",
                summary: "Refused: there is no latency monitor",
                arguments: EVENT,
                reply: "An error.",
                example: &[(
                    "LATENCY GRAPH command",
                    "(error) ERR No samples available for event 'command'",
                )],
                parse: Some(parse_latency_graph),
                ..ADMIN
            },
            help("latency|help", Group::Server),
            CommandSpec {
                name: "latency|histogram",
                summary: "Shows how long commands took since the start or CONFIG RESETSTAT",
                complexity: "O(N) where N is the number of commands",
                arguments: &[Argument::new("command", Kind::Bytes)
                    .optional()
                    .multiple()
                    .about("A container stands for its subcommands.")],
                reply: "Map (in RESP2 a flat array) from names to maps: `calls`, and `histogram_usec`, a map \
                        from us to how many calls took up to so long.",
                example: &[("LATENCY HISTOGRAM nothing", "(empty array)")],
                parse: Some(|args| {
                    Ok(Action::Server(Server::Latency(Latency::Histogram(args.rest()))))
                }),
                ..ADMIN
            },
            CommandSpec {
                arguments: EVENT,
                ..answered(
                    "latency|history",
                    "Shows no samples: there is no latency monitor",
                    "LATENCY HISTORY command",
                    Fixed::Empty,
                    ADMIN,
                )
            },
            answered(
                "latency|latest",
                "Shows no samples: there is no latency monitor",
                "LATENCY LATEST",
                Fixed::Empty,
                ADMIN,
            ),
            CommandSpec {
                arguments: &[Argument::new("event", Kind::Bytes).optional().multiple()],
                ..answered(
                    "latency|reset",
                    "Forgets samples, of which there are none",
                    "LATENCY RESET",
                    Fixed::Zero,
                    ADMIN,
                )
            },
        ],
        ..CONTAINER
    },
    CommandSpec {
        name: "memory",
        summary: "What is held in memory",
        subcommands: &[
            answered(
                "memory|doctor",
                "Says where to look",
                "MEMORY DOCTOR",
                Fixed::Text(MEMORY_DOCTOR),
                UNFLAGGED,
            ),
            help("memory|help", Group::Server),
            answered(
                "memory|malloc-stats",
                "Says that the allocator has no statistics",
                "MEMORY MALLOC-STATS",
                Fixed::Text("Stats not supported for the current allocator"),
                UNFLAGGED,
            ),
            answered(
                "memory|purge",
                "Does nothing: memory is given back as it is freed",
                "MEMORY PURGE",
                Fixed::Ok,
                UNFLAGGED,
            ),
            CommandSpec {
                name: "memory|stats",
                summary: "Shows how much is held for what",
                flags: &[],
                tips: &["nondeterministic_output"],
                reply: "Map (in RESP2 a flat array) from names to bytes, and `keys.count`.",
                example: &[("MEMORY STATS", "1) \"peak.allocated\"\n2) (integer) 1213\n...")],
                parse: Some(|_| Ok(Action::Server(Server::MemoryStats))),
                ..SERVER
            },
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
                notes: "A command that waits is there when it is over, with the time it ran and its reply \
                        took, not the time it waited. Of a transaction the commands are there, not EXEC.",
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

fn parse_latency_graph<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let event = args.word("event")?;
    let event = String::from_utf8_lossy(&event[..event.len().min(128)]);
    Err(Error::text(format!("ERR No samples available for event '{event}'")))
}

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
