//! Redis's commands on keys, where keys are queues.

use crate::command::family::always::refused;
use crate::command::family::help::help;
use crate::command::family::produce::QUEUE;
use crate::command::read::number;
use crate::command::spec::action::{Action, Probe, Server};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, Keys};
use crate::engine::model::request::Request;
use crate::error::Error;

const KEY: Keys = Keys::Range { first: 1, last: 1 };
const KEYS: Keys = Keys::Range { first: 1, last: -1 };
const QUEUES: Argument = Argument::new("queue", Kind::Key).multiple();

/// What commands on keys begin from.
const GENERIC: CommandSpec = CommandSpec {
    group: Group::Generic,
    arguments: &[QUEUE],
    flags: &[Flag::ReadOnly, Flag::Fast],
    categories: &["keyspace"],
    keys: KEY,
    access: Access::Look,
    ..CommandSpec::BASE
};

/// A command that removes queues.
const REMOVE: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of queues; memory is freed in slices afterwards",
    arguments: &[QUEUES],
    flags: &[Flag::Write],
    keys: KEYS,
    access: Access::Remove,
    reply: "Integer: how many there were.",
    notes: "Every job goes, leased and dead ones included, with settings, pauses, UNIQUE windows and \
            totals. Consumers that wait go on waiting.",
    parse: Some(parse_remove),
    ..GENERIC
};

/// A command that gives a queue another name.
const RENAME: CommandSpec = CommandSpec {
    complexity: "O(1); the memory of a queue that was in the way is freed in slices afterwards",
    arguments: &[QUEUE, Argument::new("newqueue", Kind::Key).second_key()],
    flags: &[Flag::Write],
    keys: Keys::FromTo { to: Access::Insert },
    access: Access::Take,
    notes: "Everything moves: jobs, leases, dead ones, UNIQUE windows, totals, settings and pauses. Holders \
            of leases acknowledge under the new name. A queue that had that name is removed as by DEL. \
            Consumers that wait under the new name are served, those under the old one go on waiting.",
    ..GENERIC
};

/// A command that asks when a key expires.
const TTL: CommandSpec = CommandSpec {
    access: Access::Read,
    reply: "Integer: -1 (a queue does not expire), or -2 if there is none.",
    parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::Ttl))),
    ..GENERIC
};

/// What EXPIRE and its kin take.
const EXPIRE: CommandSpec = CommandSpec {
    arguments: &[
        QUEUE,
        Argument::new("time", Kind::Integer),
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
    ],
    flags: &[Flag::Write, Flag::Fast],
    access: Access::Update,
    ..GENERIC
};

/// A command that counts the elements of a type that no queue has.
const OTHER_COUNT: CommandSpec = CommandSpec {
    access: Access::Look,
    categories: &[],
    reply: "Integer: 0, or the error class `WRONGTYPE` if there is a queue of that name.",
    parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::OtherCount))),
    ..GENERIC
};

/// A command that would change a queue.
const UPDATE: CommandSpec =
    CommandSpec { flags: &[Flag::Write], access: Access::Update, ..GENERIC };

/// A command that would make a key expire.
const fn expire(name: &'static str) -> CommandSpec {
    let summary = "Refused: a queue does not expire";
    refused(name, summary, "EXPIRE orders 60", NO_EXPIRY, EXPIRE)
}

const NO_EXPIRY: &str =
    "ERR a queue does not expire; give its jobs a TTL (DELAY.ADD ... TTL) or remove it with DEL";

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "del",
        summary: "Removes queues",
        example: &[("DEL nothing", "(integer) 0")],
        ..REMOVE
    },
    CommandSpec {
        name: "unlink",
        summary: "Removes queues; the same as DEL",
        example: &[("UNLINK nothing", "(integer) 0")],
        ..REMOVE
    },
    CommandSpec {
        name: "rename",
        summary: "Gives a queue another name",
        reply: "Simple string: `OK`. An error if there is no such queue.",
        example: &[("RENAME nothing something", "(error) ERR no such key")],
        parse: Some(|args| parse_rename(args, false)),
        ..RENAME
    },
    CommandSpec {
        name: "renamenx",
        summary: "Gives a queue another name that no queue has",
        reply: "Integer: 1, or 0 if there is a queue of that name. An error if there is no such queue.",
        example: &[("RENAMENX nothing something", "(error) ERR no such key")],
        parse: Some(|args| parse_rename(args, true)),
        ..RENAME
    },
    CommandSpec {
        name: "exists",
        summary: "Counts the queues that exist",
        complexity: "O(N) where N is the number of queues",
        arguments: &[QUEUES],
        keys: KEYS,
        reply: "Integer: how many exist; one named twice counts twice.",
        notes: "A queue exists while it has a job, a setting or a pause.",
        example: &[("EXISTS nothing", "(integer) 0")],
        parse: Some(parse_exists),
        ..GENERIC
    },
    CommandSpec {
        name: "touch",
        summary: "Counts the queues that exist; the same as EXISTS",
        complexity: "O(N) where N is the number of queues",
        arguments: &[QUEUES],
        keys: KEYS,
        reply: "Integer: how many exist; one named twice counts twice.",
        example: &[("TOUCH nothing", "(integer) 0")],
        parse: Some(parse_exists),
        ..GENERIC
    },
    CommandSpec {
        name: "type",
        summary: "Says what a key holds",
        reply: "Simple string: `list` for a queue, `none` if there is none.",
        example: &[("TYPE nothing", "none")],
        parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::Type))),
        ..GENERIC
    },
    CommandSpec {
        name: "ttl",
        summary: "Says after how many seconds a queue expires: never",
        example: &[("TTL nothing", "(integer) -2")],
        ..TTL
    },
    CommandSpec {
        name: "pttl",
        summary: "Says after how many ms a queue expires: never",
        example: &[("PTTL nothing", "(integer) -2")],
        ..TTL
    },
    CommandSpec {
        name: "expiretime",
        summary: "Says at which unix second a queue expires: never",
        example: &[("EXPIRETIME nothing", "(integer) -2")],
        ..TTL
    },
    CommandSpec {
        name: "pexpiretime",
        summary: "Says at which unix ms a queue expires: never",
        example: &[("PEXPIRETIME nothing", "(integer) -2")],
        ..TTL
    },
    expire("expire"),
    expire("pexpire"),
    expire("expireat"),
    expire("pexpireat"),
    CommandSpec {
        name: "persist",
        summary: "Takes away a queue's expiry, which it never has",
        flags: &[Flag::Write, Flag::Fast],
        access: Access::Update,
        reply: "Integer: 0.",
        example: &[("PERSIST nothing", "(integer) 0")],
        parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::Persist))),
        ..GENERIC
    },
    CommandSpec {
        name: "keys",
        summary: "Names all queues that match a pattern",
        complexity: "O(N) where N is the number of queues in the database",
        arguments: &[Argument::new("pattern", Kind::Pattern)
            .about("`*`, `?`, `[a-z]`, `[^a]`, `\\` before a byte that means itself.")],
        flags: &[Flag::ReadOnly],
        categories: &["keyspace", "dangerous"],
        keys: Keys::None,
        reply: "Array of bulk strings, in no order.",
        notes: "For a look by hand; a program walks with SCAN.",
        example: &[("KEYS nothing*", "(empty array)")],
        parse: Some(|args| {
            Ok(Action::Engine(Request::Keys { db: args.db(), pattern: args.pattern("pattern")? }))
        }),
        ..GENERIC
    },
    CommandSpec {
        name: "scan",
        summary: "Walks through the queues in steps",
        complexity: "O(COUNT) for each step",
        arguments: &[
            Argument::new("cursor", Kind::Integer)
                .about("0 to begin, then what the last reply named."),
            Argument::option("MATCH", "pattern", Kind::Pattern).about("Only names that match."),
            Argument::option("COUNT", "count", Kind::Integer)
                .about("How many queues to look at, at least 1. Default 10."),
            Argument::option("TYPE", "type", Kind::Bytes)
                .about("`list`: queues. Any other: nothing."),
        ],
        flags: &[Flag::ReadOnly],
        tips: &["nondeterministic_output"],
        keys: Keys::None,
        reply: "Array: the next cursor (bulk string, `0` at the end) and an array of names.",
        notes: "A queue that exists from the first step to the last is returned at least once, over restarts of a server \
                with a journal and changes of the leader, too. A cursor that cannot be honoured is an error: it came \
                from a server with another journal, or from a build that hashes in another way. Cursors are less \
                than 2^53.",
        example: &[("SCAN 0 MATCH nothing*", "1) \"0\"\n2) (empty array)")],
        parse: Some(parse_scan),
        ..GENERIC
    },
    CommandSpec {
        name: "randomkey",
        summary: "Names a queue by chance",
        arguments: &[],
        flags: &[Flag::ReadOnly],
        tips: &["nondeterministic_output"],
        keys: Keys::None,
        reply: "Bulk string, or nil if the database has no queue.",
        example: &[("RANDOMKEY", "(nil)")],
        parse: Some(|args| Ok(Action::Server(Server::RandomQueue(args.db())))),
        ..GENERIC
    },
    CommandSpec {
        name: "object",
        summary: "Shows what Redis's tools ask about a key",
        complexity: "Depends on the subcommand",
        arguments: &[],
        flags: &[],
        keys: Keys::None,
        reply: "Depends on the subcommand.",
        subcommands: &[
            CommandSpec {
                name: "object|encoding",
                summary: "Says how a queue is kept",
                reply: "Bulk string: `delayqueue`. Nil if there is none.",
                keys: Keys::Range { first: 2, last: 2 },
                example: &[("OBJECT ENCODING nothing", "(nil)")],
                parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::Encoding))),
                ..GENERIC
            },
            CommandSpec {
                name: "object|freq",
                summary: "Refused: how often a queue is used is not counted",
                reply: "An error, or nil if there is none.",
                keys: Keys::Range { first: 2, last: 2 },
                example: &[("OBJECT FREQ nothing", "(nil)")],
                parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::Frequency))),
                ..GENERIC
            },
            help("object|help", Group::Generic),
            CommandSpec {
                name: "object|idletime",
                summary: "Says how long a queue was not used, which is not recorded",
                reply: "Integer: 0. Nil if there is none.",
                keys: Keys::Range { first: 2, last: 2 },
                example: &[("OBJECT IDLETIME nothing", "(nil)")],
                parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::IdleTime))),
                ..GENERIC
            },
            CommandSpec {
                name: "object|refcount",
                summary: "Counts the references to a queue: one",
                reply: "Integer: 1. Nil if there is none.",
                keys: Keys::Range { first: 2, last: 2 },
                example: &[("OBJECT REFCOUNT nothing", "(nil)")],
                parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::RefCount))),
                ..GENERIC
            },
        ],
        ..GENERIC
    },
    CommandSpec {
        name: "strlen",
        categories: &["string"],
        summary: "Refused for a queue, which is no string",
        example: &[("STRLEN nothing", "(integer) 0")],
        ..OTHER_COUNT
    },
    CommandSpec {
        name: "hlen",
        categories: &["hash"],
        summary: "Refused for a queue, which is no hash",
        example: &[("HLEN nothing", "(integer) 0")],
        ..OTHER_COUNT
    },
    CommandSpec {
        name: "scard",
        categories: &["set"],
        summary: "Refused for a queue, which is no set",
        example: &[("SCARD nothing", "(integer) 0")],
        ..OTHER_COUNT
    },
    CommandSpec {
        name: "zcard",
        categories: &["sortedset"],
        summary: "Refused for a queue, which is no sorted set",
        example: &[("ZCARD nothing", "(integer) 0")],
        ..OTHER_COUNT
    },
    CommandSpec {
        name: "get",
        summary: "Refused: there are no strings",
        access: Access::Read,
        categories: &["string"],
        reply: "An error, of the class `WRONGTYPE` if there is a queue of that name.",
        example: &[(
            "GET nothing",
            "(error) ERR 'nothing' is no string: delayd has queues only; DELAY.GET queue id shows a job",
        )],
        parse: Some(|args| Ok(Action::Probe(args.queue()?, Probe::OtherValue))),
        ..GENERIC
    },
    refused(
        "dump",
        "Refused: a queue cannot be dumped",
        "DUMP orders",
        "ERR a queue cannot be dumped; DELAY.SCAN and DELAY.GET show its jobs",
        UPDATE,
    ),
    CommandSpec {
        arguments: &[
            QUEUE,
            Argument::new("ttl", Kind::Integer),
            Argument::new("value", Kind::Bytes),
            Argument::new("option", Kind::Bytes).optional().multiple(),
        ],
        ..refused(
            "restore",
            "Refused: a queue cannot be restored",
            "RESTORE orders 0 x",
            "ERR a queue cannot be restored; add its jobs with DELAY.ADD",
            UPDATE,
        )
    },
    CommandSpec {
        arguments: &[QUEUE, Argument::new("db", Kind::Integer)],
        ..refused(
            "move",
            "Refused: a queue stays in its database",
            "MOVE orders 1",
            "ERR a queue cannot be moved to another database",
            UPDATE,
        )
    },
];

fn parse_remove<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(Action::Engine(Request::Remove { db: args.db(), queues: args.queues_but(0)? }))
}

fn parse_rename<'a>(args: &mut Args<'a>, only_new: bool) -> Result<Action<'a>, Error> {
    let (queue, to) = (args.queue()?.name, args.queue()?.name);
    Ok(Action::Engine(Request::Rename { db: args.db(), queue, to, only_new }))
}

fn parse_exists<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(Action::Engine(Request::Exists { db: args.db(), queues: args.queues_but(0)? }))
}

fn parse_scan<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let cursor = args.cursor()?;
    let (mut pattern, mut count, mut queues) = (None, 10, true);
    while let Some(option) = args.option()? {
        match option {
            "MATCH" => pattern = Some(args.pattern("pattern")?),
            "COUNT" => count = parse_count(args.word("count")?)?,
            "TYPE" => queues = args.word("type")?.eq_ignore_ascii_case(b"list"),
            _ => return Err(args.unknown_option()),
        }
    }
    if !queues {
        return Ok(Action::Server(Server::ScanNothing));
    }
    Ok(Action::Engine(Request::ScanQueues { db: args.db(), cursor, pattern, count }))
}

/// Any count from 1, with Redis's two error texts.
fn parse_count(word: &[u8]) -> Result<u64, Error> {
    match number::signed(word) {
        None => Err(Error::text("ERR value is not an integer or out of range")),
        Some(..=0) => Err(Error::text("ERR syntax error: the least COUNT is 1")),
        Some(count) => Ok(count as u64),
    }
}
