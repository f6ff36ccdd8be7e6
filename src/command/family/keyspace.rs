//! Redis's commands on keys, where keys are queues.

use crate::command::family::help::help;
use crate::command::family::help::refused;
use crate::command::family::produce::QUEUE;
use crate::command::spec::action::{Action, Probe, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, KeyPositions, OF_ALL, SPLIT, row};
use crate::engine::model::request::Request;
use crate::error::Error;

const KEYS: KeyPositions = KeyPositions::Range { first: 1, last: -1 };
const QUEUES: Argument = Argument::new("queue", ArgumentKind::Key).multiple();

/// The base of commands on keys.
const GENERIC: CommandSpec = CommandSpec::OF_QUEUE
    .group(Group::Generic)
    .arguments(&[QUEUE])
    .flags(&[Flag::ReadOnly, Flag::Fast])
    .categories(&["keyspace"])
    .access(Access::Look);

const REMOVE: CommandSpec = GENERIC
    .complexity("O(N) where N is the number of queues; memory is freed in slices afterwards")
    .arguments(&[QUEUES])
    .flags(&[Flag::Write])
    .keys(KEYS)
    .access(Access::Remove)
    .tips(SPLIT)
    .reply("Integer: how many existed.")
    .notes("Removes every job, including leased and dead ones, with settings, pauses, UNIQUE windows and totals. \
            Waiting consumers keep waiting.")
    .parse(|args| {
        Ok(Action::Engine(Request::Remove { db: args.db(), queues: args.queues_but(0)? }))
    });

/// A command that counts the queues that there are.
const EXISTS: CommandSpec = GENERIC
    .complexity("O(N) where N is the number of queues")
    .arguments(&[QUEUES])
    .keys(KEYS)
    .tips(SPLIT)
    .reply("Integer: how many exist; a queue named twice counts twice.")
    .parse(|args| {
        Ok(Action::Engine(Request::Exists { db: args.db(), queues: args.queues_but(0)? }))
    });

/// A command that gives a queue another name.
const RENAME: CommandSpec = GENERIC
    .complexity("O(1); the memory of a replaced queue is freed in slices afterwards")
    .arguments(&[QUEUE, Argument::new("newqueue", ArgumentKind::Key).second_key()])
    .flags(&[Flag::Write])
    .keys(KeyPositions::FromTo { to: Access::Insert })
    .access(Access::Take)
    .notes("Everything moves: jobs, leases, dead jobs, UNIQUE windows, totals, settings and pauses. Consumers \
            acknowledge their leases under the new name. An existing queue of that name is removed as by DEL. \
            Consumers that wait under the new name are served, those under the old name keep waiting.");

/// A command that asks when a key expires.
const TTL: CommandSpec = GENERIC
    .access(Access::Read)
    .reply("Integer: -1 (a queue does not expire), or -2 if there is no such queue.")
    .parse(|args| Ok(Action::Probe(args.queue()?, Probe::Ttl)));

/// The arguments of EXPIRE and similar commands.
const EXPIRE: CommandSpec = GENERIC
    .arguments(&[
        QUEUE,
        Argument::new("time", ArgumentKind::Integer),
        Argument::one_of(
            "condition",
            &[
                Argument::word("nx", "NX"),
                Argument::word("xx", "XX"),
                Argument::word("gt", "GT"),
                Argument::word("lt", "LT"),
            ],
        )
        .optional(),
    ])
    .flags(&[Flag::Write, Flag::Fast])
    .access(Access::Update);

/// A command that counts the elements of a type that no queue has.
const OTHER_COUNT: CommandSpec = GENERIC
    .access(Access::Look)
    .categories(&[])
    .reply("Integer: 0, or the error class `WRONGTYPE` if there is a queue of that name.")
    .parse(|args| Ok(Action::Probe(args.queue()?, Probe::OtherCount)));

/// A command that would change a queue.
const UPDATE: CommandSpec = GENERIC.flags(&[Flag::Write]).access(Access::Update);

/// A command that would make a key expire.
const fn expire(name: &'static str) -> CommandSpec {
    let summary = "Refused: a queue does not expire";
    refused(name, summary, "EXPIRE orders 60", NO_EXPIRY, EXPIRE)
}

const NO_EXPIRY: &str =
    "ERR a queue does not expire; give its jobs a TTL (DELAY.ADD ... TTL) or remove it with DEL";

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("del", "Removes queues", REMOVE).example(&[("DEL nothing", "(integer) 0")]),
    row("unlink", "Removes queues; the same as DEL", REMOVE)
        .example(&[("UNLINK nothing", "(integer) 0")]),
    row("rename", "Gives a queue another name", RENAME)
        .reply("Simple string: `OK`. An error if there is no such queue.")
        .example(&[("RENAME nothing something", "(error) ERR no such key")])
        .parse(|args| parse_rename(args, false)),
    row("renamenx", "Gives a queue another name unless it is taken", RENAME)
        .reply("Integer: 1, or 0 if there is a queue of that name. An error if there is no such queue.")
        .example(&[("RENAMENX nothing something", "(error) ERR no such key")])
        .parse(|args| parse_rename(args, true)),
    row("exists", "Counts the queues that exist", EXISTS)
        .notes("A queue exists while it has a job, a setting or a pause.")
        .example(&[("EXISTS nothing", "(integer) 0")]),
    row("touch", "Counts the queues that exist; the same as EXISTS", EXISTS)
        .example(&[("TOUCH nothing", "(integer) 0")]),
    row("type", "Shows the type of a key", GENERIC)
        .reply("Simple string: `list` for a queue, otherwise `none`.")
        .example(&[("TYPE nothing", "none")])
        .parse(|args| Ok(Action::Probe(args.queue()?, Probe::Type))),
    row("ttl", "Shows after how many seconds a queue expires: never", TTL)
        .example(&[("TTL nothing", "(integer) -2")]),
    row("pttl", "Shows after how many ms a queue expires: never", TTL)
        .example(&[("PTTL nothing", "(integer) -2")]),
    row("expiretime", "Shows at which unix second a queue expires: never", TTL)
        .example(&[("EXPIRETIME nothing", "(integer) -2")]),
    row("pexpiretime", "Shows at which unix ms a queue expires: never", TTL)
        .example(&[("PEXPIRETIME nothing", "(integer) -2")]),
    expire("expire"),
    expire("pexpire"),
    expire("expireat"),
    expire("pexpireat"),
    row("persist", "Removes a queue's expiry, which it never has", GENERIC)
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Update)
        .reply("Integer: 0.")
        .example(&[("PERSIST nothing", "(integer) 0")])
        .parse(|args| Ok(Action::Probe(args.queue()?, Probe::Persist))),
    row("keys", "Lists all queues that match a pattern", GENERIC)
        .complexity("O(N) where N is the number of queues in the database")
        .arguments(&[Argument::new("pattern", ArgumentKind::Pattern)
            .about("`*`, `?`, `[a-z]`, `[^a]`, `\\` before a literal byte.")])
        .tips(OF_ALL)
        .flags(&[Flag::ReadOnly])
        .categories(&["keyspace", "dangerous"])
        .keys(KeyPositions::None)
        .reply("Array of bulk strings, in no particular order.")
        .notes("For use by hand; programs should use SCAN.")
        .example(&[("KEYS nothing*", "(empty array)")])
        .parse(|args| {
            Ok(Action::Engine(Request::Keys { db: args.db(), pattern: args.pattern("pattern")? }))
        }),
    row("scan", "Iterates over the queues in steps", GENERIC)
        .complexity("O(COUNT) for each step")
        .arguments(&[
            Argument::new("cursor", ArgumentKind::Integer)
                .about("0 to begin, then the cursor of the last reply."),
            Argument::option("MATCH", "pattern", ArgumentKind::Pattern)
                .about("Only names that match."),
            Argument::option("COUNT", "count", ArgumentKind::Integer)
                .about("How many queues to examine, at least 1. Default 10."),
            Argument::option("TYPE", "type", ArgumentKind::Bytes)
                .about("`list`: queues. Any other type: nothing."),
        ])
        .flags(&[Flag::ReadOnly])
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
        .keys(KeyPositions::None)
        .reply("Array: the next cursor (bulk string, `0` at the end) and an array of names.")
        .notes("A queue that exists from the first step to the last is returned at least once, also across restarts \
                of a server with a journal and changes of the leader. An invalid cursor is an error: it came from a \
                server with another journal, or from a build that hashes differently. Cursors are less than 2^53.")
        .example(&[("SCAN 0 MATCH nothing*", "1) \"0\"\n2) (empty array)")])
        .parse(parse_scan),
    row("randomkey", "Returns a random queue", GENERIC)
        .arguments(&[])
        .flags(&[Flag::ReadOnly])
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .keys(KeyPositions::None)
        .reply("Bulk string, or nil if the database has no queue.")
        .example(&[("RANDOMKEY", "(nil)")])
        .parse(|args| Ok(Action::Server(ServerRequest::RandomQueue(args.db())))),
    row("object", "Shows what Redis's tools ask about a key", GENERIC)
        .complexity("Depends on the subcommand")
        .arguments(&[])
        .flags(&[])
        .keys(KeyPositions::None)
        .reply("Depends on the subcommand.")
        .subcommands(&[
            row("object|encoding", "Shows how a queue is stored", GENERIC)
                .reply("Bulk string: `delayqueue`. Nil if there is no such queue.")
                .keys(KeyPositions::Range { first: 2, last: 2 })
                .example(&[("OBJECT ENCODING nothing", "(nil)")])
                .parse(|args| Ok(Action::Probe(args.queue()?, Probe::Encoding))),
            row("object|freq", "Refused: how often a queue is used is not counted", GENERIC)
                .reply("An error, or nil if there is no such queue.")
                .keys(KeyPositions::Range { first: 2, last: 2 })
                .example(&[("OBJECT FREQ nothing", "(nil)")])
                .parse(|args| Ok(Action::Probe(args.queue()?, Probe::Frequency))),
            help("object|help", Group::Generic),
            row(
                "object|idletime",
                "Shows how long a queue was idle, which is not recorded",
                GENERIC,
            )
            .reply("Integer: 0. Nil if there is no such queue.")
            .keys(KeyPositions::Range { first: 2, last: 2 })
            .example(&[("OBJECT IDLETIME nothing", "(nil)")])
            .parse(|args| Ok(Action::Probe(args.queue()?, Probe::IdleTime))),
            row("object|refcount", "Counts the references to a queue: one", GENERIC)
                .reply("Integer: 1. Nil if there is no such queue.")
                .keys(KeyPositions::Range { first: 2, last: 2 })
                .example(&[("OBJECT REFCOUNT nothing", "(nil)")])
                .parse(|args| Ok(Action::Probe(args.queue()?, Probe::RefCount))),
        ]),
    row("strlen", "Refused for a queue, which is not a string", OTHER_COUNT)
        .categories(&["string"])
        .example(&[("STRLEN nothing", "(integer) 0")]),
    row("hlen", "Refused for a queue, which is not a hash", OTHER_COUNT)
        .categories(&["hash"])
        .example(&[("HLEN nothing", "(integer) 0")]),
    row("scard", "Refused for a queue, which is not a set", OTHER_COUNT)
        .categories(&["set"])
        .example(&[("SCARD nothing", "(integer) 0")]),
    row("zcard", "Refused for a queue, which is not a sorted set", OTHER_COUNT)
        .categories(&["sortedset"])
        .example(&[("ZCARD nothing", "(integer) 0")]),
    row("get", "Refused: there are no strings", GENERIC)
        .access(Access::Read)
        .categories(&["string"])
        .reply("An error, of the class `WRONGTYPE` if there is a queue of that name.")
        .example(&[(
            "GET nothing",
            "(error) ERR 'nothing' is not a string: delayd has only queues; DELAY.GET queue id shows a job",
        )])
        .parse(|args| Ok(Action::Probe(args.queue()?, Probe::OtherValue))),
    refused(
        "dump",
        "Refused: a queue cannot be dumped",
        "DUMP orders",
        "ERR a queue cannot be dumped; DELAY.SCAN and DELAY.GET show its jobs",
        UPDATE,
    ),
    refused(
        "restore",
        "Refused: a queue cannot be restored",
        "RESTORE orders 0 x",
        "ERR a queue cannot be restored; add its jobs with DELAY.ADD",
        UPDATE,
    )
    .arguments(&[
        QUEUE,
        Argument::new("ttl", ArgumentKind::Integer),
        Argument::new("value", ArgumentKind::Bytes),
        Argument::new("option", ArgumentKind::Bytes).optional().multiple(),
    ]),
    refused(
        "move",
        "Refused: a queue stays in its database",
        "MOVE orders 1",
        "ERR a queue cannot be moved to another database",
        UPDATE,
    )
    .arguments(&[QUEUE, Argument::new("db", ArgumentKind::Integer)]),
];

fn parse_rename<'a>(args: &mut Args<'a>, only_new: bool) -> Result<Action<'a>, Error> {
    let (queue, to) = (args.queue()?.name, args.queue()?.name);
    Ok(Action::Engine(Request::Rename { db: args.db(), queue, to, only_new }))
}

fn parse_scan<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let cursor = args.cursor()?;
    let (mut pattern, mut count, mut queues) = (None, 10, true);
    while let Some(option) = args.option()? {
        match option {
            "MATCH" => pattern = Some(args.pattern("pattern")?),
            "COUNT" => count = parse_count(args)?,
            "TYPE" => queues = args.word("type")?.eq_ignore_ascii_case(b"list"),
            _ => return Err(args.unknown_option()),
        }
    }
    if !queues {
        return Ok(Action::Server(ServerRequest::ScanNothing));
    }
    Ok(Action::Engine(Request::ScanQueues { db: args.db(), cursor, pattern, count }))
}

/// Any count from 1, with Redis's two error texts.
fn parse_count(args: &mut Args<'_>) -> Result<u64, Error> {
    match args.signed("count")? {
        ..=0 => Err(Error::text("ERR syntax error: the least COUNT is 1")),
        count => Ok(count as u64),
    }
}
