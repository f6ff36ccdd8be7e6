//! Looking at the server: its numbers, its memory, the commands that took long.

use crate::command::family::help::answered;
use crate::command::family::help::help;
use crate::command::family::produce::QUEUE;
use crate::command::family::server::{ADMIN, CONTAINER, SERVER};
use crate::command::read::number;
use crate::command::spec::action::{Action, Fixed, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, KeyPositions, row};
use crate::engine::model::request::Request;
use crate::error::Error;

const MEMORY_DOCTOR: &str = "INFO memory tells what is held; MEMORY USAGE, what for a queue. At maxmemory \
    commands that add are refused, and no job is evicted.\n";

const LATENCY_DOCTOR: &str = "There is no latency monitor. LATENCY HISTOGRAM tells how long commands take, \
    SLOWLOG GET which ones took long, DELAY.STATS how late a queue's deliveries are.\n";

const EVENT: &[Argument] = &[Argument::new("event", ArgumentKind::Bytes)];

/// A subcommand of MEMORY.
const UNFLAGGED: CommandSpec = SERVER.flags(&[]);

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("info", "Shows the server's numbers", SERVER)
        .arguments(&[Argument::new("section", ArgumentKind::Bytes).optional().multiple()])
        .flags(&[Flag::Loading, Flag::Stale])
        .categories(&["dangerous"])
        .tips(&["nondeterministic_output"])
        .reply("Text: sections of lines `name:value`. Unknown sections are left out.")
        .example(&[("INFO nothing", "")])
        .parse(|args| Ok(Action::Server(ServerRequest::Info(args.rest())))),
    row("latency", "How long commands take", CONTAINER)
        .subcommands(&[
            answered(
                "latency|doctor",
                "Explains where to look for slow commands",
                "LATENCY DOCTOR",
                Fixed::Text(LATENCY_DOCTOR),
                ADMIN,
            ),
            row("latency|graph", "Refused: there is no latency monitor", ADMIN)
                .arguments(EVENT)
                .reply("An error.")
                .example(&[(
                    "LATENCY GRAPH command",
                    "(error) ERR No samples available for event 'command'",
                )])
                .parse(parse_latency_graph),
            help("latency|help", Group::Server),
            row(
                "latency|histogram",
                "Shows how long commands took since the start or CONFIG RESETSTAT",
                ADMIN,
            )
            .complexity("O(N) where N is the number of commands")
            .arguments(&[Argument::new("command", ArgumentKind::Bytes)
                .optional()
                .multiple()
                .about("A container command selects its subcommands.")])
            .reply("Map (in RESP2 a flat array) from names to maps: `calls`, and `histogram_usec`, a map from us \
                    to the number of calls that took at most that long.")
            .example(&[("LATENCY HISTOGRAM nothing", "(empty array)")])
            .parse(|args| Ok(Action::Server(ServerRequest::Latency(args.rest())))),
            answered(
                "latency|history",
                "Shows no samples: there is no latency monitor",
                "LATENCY HISTORY command",
                Fixed::Empty,
                ADMIN,
            )
            .arguments(EVENT),
            answered(
                "latency|latest",
                "Shows no samples: there is no latency monitor",
                "LATENCY LATEST",
                Fixed::Empty,
                ADMIN,
            ),
            answered(
                "latency|reset",
                "Removes samples, of which there are none",
                "LATENCY RESET",
                Fixed::Zero,
                ADMIN,
            )
            .arguments(&[Argument::new("event", ArgumentKind::Bytes).optional().multiple()]),
        ]),
    row("memory", "What is held in memory", CONTAINER)
        .subcommands(&[
            answered(
                "memory|doctor",
                "Explains where to look",
                "MEMORY DOCTOR",
                Fixed::Text(MEMORY_DOCTOR),
                UNFLAGGED,
            ),
            help("memory|help", Group::Server),
            answered(
                "memory|malloc-stats",
                "Reports that the allocator has no statistics",
                "MEMORY MALLOC-STATS",
                Fixed::Text("Stats not supported for the current allocator"),
                UNFLAGGED,
            ),
            answered(
                "memory|purge",
                "Does nothing: memory is returned as it is freed",
                "MEMORY PURGE",
                Fixed::Ok,
                UNFLAGGED,
            ),
            row("memory|stats", "Shows memory by use", SERVER)
                .flags(&[])
                .tips(&["nondeterministic_output"])
                .reply("Map (in RESP2 a flat array) from names to bytes, and `keys.count`.")
                .example(&[("MEMORY STATS", "1) \"peak.allocated\"\n2) (integer) 1213\n...")])
                .parse(|_| Ok(Action::Server(ServerRequest::MemoryStats))),
            row("memory|usage", "Shows the bytes of memory for a queue", SERVER)
                .arguments(&[
                    QUEUE,
                    Argument::option("SAMPLES", "count", ArgumentKind::Integer)
                        .about("No effect: the number is exact."),
                ])
                .flags(&[Flag::ReadOnly])
                .keys(KeyPositions::Range { first: 2, last: 2 })
                .access(Access::Look)
                .reply("Integer, or nil if there is no such queue.")
                .example(&[("MEMORY USAGE nothing", "(nil)")])
                .parse(parse_memory_usage),
        ]),
    row("slowlog", "The commands that took long", CONTAINER)
        .subcommands(&[
            row("slowlog|get", "Shows the newest entries", ADMIN)
                .complexity("O(N) where N is the number of entries")
                .arguments(&[Argument::new("count", ArgumentKind::Integer)
                    .optional()
                    .about("How many; -1 all. Default 10.")])
                .tips(&["nondeterministic_output"])
                .reply("Array of entries, each an array: number, unix seconds, duration in us, arguments, \
                        client address, client name.")
                .notes("A waiting command is listed when it is over, with the time of its execution and its reply, \
                        not the time it waited. For a transaction the commands are listed, not EXEC.")
                .example(&[("SLOWLOG GET 1", "(empty array)")])
                .parse(parse_slowlog_get),
            help("slowlog|help", Group::Server),
            row("slowlog|len", "Counts the entries", ADMIN)
                .tips(&["nondeterministic_output"])
                .reply("Integer.")
                .example(&[("SLOWLOG LEN", "(integer) 0")])
                .parse(|_| Ok(Action::Server(ServerRequest::SlowlogLen))),
            row("slowlog|reset", "Removes all entries", ADMIN)
                .complexity("O(N) where N is the number of entries")
                .reply("Simple string: `OK`.")
                .example(&[("SLOWLOG RESET", "OK")])
                .parse(|_| Ok(Action::Server(ServerRequest::SlowlogReset))),
        ]),
];

fn parse_latency_graph<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let event = args.word("event")?;
    let event = String::from_utf8_lossy(&event[..event.len().min(128)]);
    Err(Error::text(format!("ERR No samples available for event '{event}'")))
}

fn parse_memory_usage<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    while args.option()?.is_some() {
        if args.signed("count")? < 0 {
            return Err(Error::text("ERR syntax error"));
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
    Ok(Action::Server(ServerRequest::SlowlogGet(count)))
}
