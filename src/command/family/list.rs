//! Ready jobs as a Redis list, so that workers, exporters and autoscalers made for lists fit.

use crate::command::family::help::refused;
use crate::command::family::produce::QUEUE;
use crate::command::read::number;
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, KeyPositions, row};
use crate::engine::model::request::{
    Find, JobState, ListPop, Move, Push, Request, Shape, Side, Wait,
};
use crate::error::Error;
use crate::limits::COUNT_MAX;

const QUEUES: Argument =
    Argument::new("queue", ArgumentKind::Key).multiple().about("Tried in this order.");

const TIMEOUT: Argument = Argument::new("timeout", ArgumentKind::Timeout)
    .about("Seconds to wait for a job, decimals allowed, rounded up to the ms; 0 waits forever.");

const BODY: Argument = Argument::new("body", ArgumentKind::Bytes);

const BODIES: Argument = Argument::new("body", ArgumentKind::Bytes)
    .multiple()
    .about("Any bytes; each body becomes a job.");

const SIDE: Argument = Argument::new("side", ArgumentKind::Side)
    .shown("LEFT|RIGHT")
    .about("LEFT: priority 0 first, in order. RIGHT: priority 9 first, in the opposite order.");

const SOURCE: Argument = Argument::new("source", ArgumentKind::Key);
const DESTINATION: Argument =
    Argument::new("destination", ArgumentKind::Key).second_key().about("May be the source.");

const TAKE_SIDE: Argument = Argument::new("from", ArgumentKind::Side).shown("LEFT|RIGHT");
const PUT_SIDE: Argument = Argument::new("to", ArgumentKind::Side).shown("LEFT|RIGHT");

const COUNT: Argument = Argument::option("COUNT", "count", ArgumentKind::Integer)
    .shown("n")
    .about(
        "Maximum number of jobs, 1 to 10000; takes what is ready and does not wait for more. Default 1. The job \
         whose body crosses 4 MiB in all is the last of the reply.",
    );

const AT_MOST_ONCE: &str = "The job is gone once it was handed over: for work that must not be lost, DELAY.RESERVE \
                            gives a lease, and LMOVE keeps a copy.";

const LOOKED_AT: &str = "At most 20,000 jobs are examined. 32 skipped jobs count as one, and each KiB of a body that \
                         begins like the requested one counts as one more. Beyond that it is an error; DELAY.SCAN \
                         iterates over any number of jobs. In a transaction EXEC's limits apply instead. While a \
                         ready job has a GROUP, jobs are counted from the side from which POP takes, and all on the \
                         way are examined.";

const LIST: CommandSpec = CommandSpec::OF_QUEUE.group(Group::List);

/// A command that adds jobs.
const PUSH: CommandSpec = LIST
    .complexity("O(N) where N is the number of bodies")
    .arguments(&[QUEUE, BODIES])
    .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
    .access(Access::Insert)
    .reply("Integer: the number of ready jobs afterwards. The error classes `PAUSED`, `FULL` and `OOM` as with \
            DELAY.ADD; then none is added.")
    .notes("The jobs are due now and have generated ids and the queue's settings. LPUSH puts them before all jobs of \
            their priority, RPUSH after them.");

/// A command that takes jobs of one queue.
const POP: CommandSpec = LIST
    .complexity("O(N) where N is the number of jobs taken")
    .arguments(&[
        QUEUE,
        Argument::new("count", ArgumentKind::Integer)
            .optional()
            .about(
                "Maximum number of jobs, 0 to 10000. The job whose body crosses 4 MiB in all is the last of the \
                 reply.",
            ),
    ])
    .flags(&[Flag::Write, Flag::Fast])
    .access(Access::Take)
    .reply("Bulk string: the body; nil if no job is ready. With a count an array of bodies, or nil. A body that \
            brings it to 4 MiB ends it early. An error while a ready job has a GROUP and this is not the side from \
            which POP takes.")
    .notes(AT_MOST_ONCE);

/// A command that waits for a job of several queues.
const BLOCKING_POP: CommandSpec = POP
    .complexity("O(N) where N is the number of queues")
    .arguments(&[QUEUES, TIMEOUT])
    .flags(&[Flag::Write, Flag::Blocking, Flag::NoScript])
    .keys(KeyPositions::Range { first: 1, last: -2 })
    .reply("Array: queue, body. Nil after the timeout.")
    .notes("Inside MULTI it never waits. Clients that wait for a queue are served first come, first served, \
            whichever command they wait with. The job is gone once it was handed over; DELAY.RESERVE gives a lease.");

/// A command that moves a job.
const MOVE: CommandSpec = LIST
    .arguments(&[SOURCE, DESTINATION, TAKE_SIDE, PUT_SIDE])
    .flags(&[Flag::Write, Flag::DenyOom])
    .keys(KeyPositions::FromTo { to: Access::Insert })
    .access(Access::Take)
    .reply("Bulk string: the body. Nil if no job is ready. The error classes `PAUSED`, `FULL`, `OOM` and `MISCONF` \
            if the destination does not accept it; the job then stays where it is.")
    .notes("One step: the body is always in exactly one of the queues. The destination's job is a new one, with a \
            generated id and that queue's settings.");

const BLOCKING_MOVE_REPLY: &str = "Bulk string: the body. Nil after the timeout. The error classes `PAUSED`, `FULL`, \
                                   `OOM` and `MISCONF`, at once or after waiting, if the destination does not accept \
                                   it; the job then stays where it is.";

const LOOK: CommandSpec = LIST.flags(&[Flag::ReadOnly]).access(Access::Read);

const REFUSED: CommandSpec = LIST.flags(&[Flag::Write, Flag::DenyOom]).access(Access::Update);

/// A command that counts ready jobs.
const LEN: CommandSpec = LOOK
    .flags(&[Flag::ReadOnly, Flag::Fast])
    .arguments(&[QUEUE])
    .access(Access::Look)
    .reply("Integer: the ready jobs.")
    .parse(|args| {
        Ok(Action::Engine(Request::Len { queue: args.queue()?, state: Some(JobState::Ready) }))
    });

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("lpush", "Adds jobs that are ready at once, each at the head of its priority", PUSH)
        .example(&[("LPUSH mail a b", "(integer) 2"), ("LRANGE mail 0 -1", "1) \"b\"\n2) \"a\"")])
        .parse(|args| push(args, Side::Left, false)),
    row("rpush", "Adds jobs that are ready at once, each at the tail of its priority", PUSH)
        .example(&[("RPUSH mail a b", "(integer) 2"), ("LRANGE mail 0 -1", "1) \"a\"\n2) \"b\"")])
        .parse(|args| push(args, Side::Right, false)),
    row("lpushx", "LPUSH, if the queue exists", PUSH)
        .example(&[("LPUSHX nothing a", "(integer) 0")])
        .parse(|args| push(args, Side::Left, true)),
    row("rpushx", "RPUSH, if the queue exists", PUSH)
        .example(&[("RPUSHX nothing a", "(integer) 0")])
        .parse(|args| push(args, Side::Right, true)),
    row("lpop", "Takes ready jobs from the left, at most once", POP)
        .example(&[("RPUSH mail a b c", "(integer) 3"), ("LPOP mail 2", "1) \"a\"\n2) \"b\"")])
        .parse(|args| pop(args, Side::Left)),
    row("rpop", "Takes ready jobs from the right, at most once", POP)
        .example(&[("RPUSH mail a b c", "(integer) 3"), ("RPOP mail", "\"c\"")])
        .parse(|args| pop(args, Side::Right)),
    row("blpop", "Takes a ready job from the left, at most once, or waits for one", BLOCKING_POP)
        .example(&[("RPUSH mail a", "(integer) 1"), ("BLPOP mail 5", "1) \"mail\"\n2) \"a\"")])
        .parse(|args| blocking_pop(args, Side::Left)),
    row("brpop", "Takes a ready job from the right, at most once, or waits for one", BLOCKING_POP)
        .example(&[("LPUSH mail a", "(integer) 1"), ("BRPOP mail 5", "1) \"mail\"\n2) \"a\"")])
        .parse(|args| blocking_pop(args, Side::Right)),
    row("lmpop", "Takes ready jobs of the first queue that has any, at most once", POP)
        .complexity("O(N+M) where N is the number of queues and M the number of jobs")
        .arguments(&[
            Argument::new("numqueues", ArgumentKind::Integer).about("1 to 10000."),
            QUEUES,
            SIDE,
            COUNT,
        ])
        .flags(&[Flag::Write])
        .keys(KeyPositions::Counted { at: 1 })
        .reply("Array: queue, array of bodies. Nil if no job is ready.")
        .example(&[
            ("RPUSH mail a b", "(integer) 2"),
            ("LMPOP 2 urgent mail LEFT COUNT 10", "1) \"mail\"\n2) 1) \"a\"\n   2) \"b\""),
        ])
        .parse(|args| pop_many(args, Wait::No)),
    row(
        "blmpop",
        "Takes ready jobs of the first queue that has any, at most once, or waits for one",
        BLOCKING_POP,
    )
    .complexity("O(N+M) where N is the number of queues and M the number of jobs")
    .arguments(&[
        TIMEOUT,
        Argument::new("numqueues", ArgumentKind::Integer).about("1 to 10000."),
        QUEUES,
        SIDE,
        COUNT,
    ])
    .flags(&[Flag::Write, Flag::Blocking])
    .keys(KeyPositions::Counted { at: 2 })
    .reply("Array: queue, array of bodies. Nil after the timeout.")
    .example(&[
        ("RPUSH mail a", "(integer) 1"),
        ("BLMPOP 5 1 mail LEFT", "1) \"mail\"\n2) 1) \"a\""),
    ])
    .parse(|args| {
        let wait = args.seconds()?;
        pop_many(args, wait)
    }),
    row("llen", "Counts a queue's ready jobs", LEN).example(&[("LLEN nothing", "(integer) 0")]),
    row(
        "xlen",
        "Counts a queue's ready jobs; the same as LLEN, for autoscalers that query streams",
        LEN,
    )
    .group(Group::Generic)
    .categories(&["stream"])
    .example(&[("XLEN nothing", "(integer) 0")]),
    row("lrange", "Shows ready jobs from one place to another", LOOK)
        .complexity("O(S+N) where S is the distance from the nearer side and N the number of jobs shown")
        .arguments(&[
            QUEUE,
            Argument::new("start", ArgumentKind::Integer)
                .about("From 0; negative places count from the right, -1 is the last."),
            Argument::new("stop", ArgumentKind::Integer).about("Inclusive."),
        ])
        .reply("Array of bodies; an error if it would have more than 16 MiB.")
        .notes(LOOKED_AT)
        .example(&[("RPUSH mail a b c", "(integer) 3"), ("LRANGE mail 0 1", "1) \"a\"\n2) \"b\"")])
        .parse(|args| {
            let (queue, start) = (args.queue()?, args.signed("start")?);
            Ok(Action::Engine(Request::Range { queue, start, stop: args.signed("stop")? }))
        }),
    row("lindex", "Shows the ready job at a place", LOOK)
        .complexity("O(S) where S is the distance from the nearer side")
        .arguments(&[
            QUEUE,
            Argument::new("place", ArgumentKind::Integer)
                .about("From 0; negative places count from the right, -1 is the last."),
        ])
        .reply("Bulk string: the body. Nil if there is no job at that place.")
        .notes(LOOKED_AT)
        .example(&[("RPUSH mail a b", "(integer) 2"), ("LINDEX mail -1", "\"b\"")])
        .parse(|args| {
            Ok(Action::Engine(Request::At { queue: args.queue()?, place: args.signed("place")? }))
        }),
    row("lpos", "Finds ready jobs by their body", LOOK)
        .complexity("O(N) where N is the number of jobs examined")
        .arguments(&[
            QUEUE,
            BODY,
            Argument::option("RANK", "rank", ArgumentKind::Integer)
                .shown("n")
                .about("Which match to begin with: 1 the first, 2 the second, -1 the last. Default 1."),
            Argument::option("COUNT", "count", ArgumentKind::Integer)
                .shown("n")
                .about("Maximum number of matches, up to 10000; 0 for all."),
            Argument::option("MAXLEN", "maxlen", ArgumentKind::Integer)
                .shown("n")
                .about("How many jobs to examine; 0 for all. Default 0."),
        ])
        .reply("Integer: the place. Nil without a match. With COUNT an array of places; an error if there \
                are more than 10000.")
        .notes(LOOKED_AT)
        .example(&[("RPUSH mail a b a", "(integer) 3"), ("LPOS mail a RANK -1", "(integer) 2")])
        .parse(parse_find),
    row("lrem", "Removes ready jobs by their body", LIST)
        .complexity("O(N) where N is the number of jobs examined")
        .arguments(&[
            QUEUE,
            Argument::new("count", ArgumentKind::Integer).about(
                "Maximum number to remove, up to 10000, from the left; negative: from the right; 0: all.",
            ),
            BODY,
        ])
        .flags(&[Flag::Write])
        .access(Access::Delete)
        .reply("Integer: how many were removed; an error, and none, if more than 10000 would be.")
        .notes("They count as deleted, as with DELAY.DEL, which removes by id without a search. LRANGE's limit on \
                long lists applies here, too; then none is removed.")
        .example(&[("RPUSH mail a b a", "(integer) 3"), ("LREM mail 1 a", "(integer) 1")])
        .parse(parse_remove),
    row("lmove", "Moves a ready job from one queue to another", MOVE)
        .example(&[
            ("RPUSH mail a b", "(integer) 2"),
            ("LMOVE mail taken LEFT RIGHT", "\"a\""),
            ("LRANGE taken 0 -1", "1) \"a\""),
        ])
        .parse(|args| parse_move(args, None, false)),
    row("blmove", "Moves a ready job from one queue to another, or waits for one", MOVE)
        .arguments(&[SOURCE, DESTINATION, TAKE_SIDE, PUT_SIDE, TIMEOUT])
        .flags(&[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking])
        .reply(BLOCKING_MOVE_REPLY)
        .example(&[("RPUSH mail a", "(integer) 1"), ("BLMOVE mail taken LEFT RIGHT 5", "\"a\"")])
        .parse(|args| parse_move(args, None, true)),
    row("rpoplpush", "Moves a ready job; the same as LMOVE with RIGHT LEFT", MOVE)
        .arguments(&[SOURCE, DESTINATION])
        .example(&[("RPUSH mail a b", "(integer) 2"), ("RPOPLPUSH mail taken", "\"b\"")])
        .parse(|args| parse_move(args, Some((Side::Right, Side::Left)), false)),
    row("brpoplpush", "Moves a ready job; the same as BLMOVE with RIGHT LEFT", MOVE)
        .arguments(&[SOURCE, DESTINATION, TIMEOUT])
        .flags(&[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking])
        .reply(BLOCKING_MOVE_REPLY)
        .example(&[("RPUSH mail a", "(integer) 1"), ("BRPOPLPUSH mail taken 5", "\"a\"")])
        .parse(|args| parse_move(args, Some((Side::Right, Side::Left)), true)),
    refused(
        "lset",
        "Refused: a job's body stays as it is",
        "LSET mail 0 x",
        "ERR LSET is refused: a job's body stays as it is; remove it with LREM and add another",
        REFUSED,
    )
    .arguments(&[QUEUE, Argument::new("place", ArgumentKind::Integer), BODY]),
    refused(
        "linsert",
        "Refused: jobs enter at the head or the tail of their priority",
        "LINSERT mail BEFORE a b",
        "ERR LINSERT is refused: jobs enter at the head or the tail of their priority; use LPUSH or RPUSH",
        REFUSED,
    )
    .arguments(&[
        QUEUE,
        Argument::new("where", ArgumentKind::Bytes).shown("BEFORE|AFTER"),
        Argument::new("pivot", ArgumentKind::Bytes),
        BODY,
    ])
    .access(Access::Insert),
    refused(
        "ltrim",
        "Refused: it would drop jobs silently",
        "LTRIM mail 0 99",
        "ERR LTRIM is refused: it would drop jobs unseen; DELAY.CONFIG SET max-jobs limits a queue, LPOP and RPOP take jobs away",
        REFUSED,
    )
    .arguments(&[
        QUEUE,
        Argument::new("start", ArgumentKind::Integer),
        Argument::new("stop", ArgumentKind::Integer),
    ])
    .flags(&[Flag::Write])
    .access(Access::Delete),
];

fn push<'a>(args: &mut Args<'a>, side: Side, only_existing: bool) -> Result<Action<'a>, Error> {
    let (queue, bodies) = (args.queue()?, args.rest());
    Ok(Action::Engine(Request::Push(Push { queue, bodies, side, only_existing })))
}

fn pop<'a>(args: &mut Args<'a>, side: Side) -> Result<Action<'a>, Error> {
    let queues = args.queues_of(1)?;
    let (mut count, mut shape) = (1, Shape::Value);
    if let Some(word) = args.peek() {
        // Redis's text for what is no count; the limit is ours.
        if number::unsigned_or_more(word).is_none() {
            return Err(Error::text("ERR value is out of range, must be positive"));
        }
        (count, shape) = (args.integer("count", 0, COUNT_MAX)? as u32, Shape::Values);
    }
    args.end_or_arity()?;
    Ok(popping(ListPop { db: args.db(), queues, side, count, shape, wait: Wait::No }))
}

fn blocking_pop<'a>(args: &mut Args<'a>, side: Side) -> Result<Action<'a>, Error> {
    let queues = args.queues_but(1)?;
    let (wait, count, shape) = (args.seconds()?, 1, Shape::Named);
    Ok(popping(ListPop { db: args.db(), queues, side, count, shape, wait }))
}

fn pop_many<'a>(args: &mut Args<'a>, wait: Wait) -> Result<Action<'a>, Error> {
    let numqueues = positive(args, "numqueues", "ERR numkeys should be greater than 0")?;
    let (queues, side) = (args.queues_of(numqueues)?, args.side()?);
    let mut count = 1;
    while let Some(option) = args.option()? {
        match option {
            "COUNT" => count = positive(args, "count", "ERR count should be greater than 0")?,
            _ => return Err(args.unknown_option()),
        }
    }
    let shape = Shape::NamedValues;
    Ok(popping(ListPop { db: args.db(), queues, side, count, shape, wait }))
}

fn popping(pop: ListPop<'_>) -> Action<'_> {
    Action::Engine(Request::ListPop(pop))
}

/// A count from 1 to 10,000; `text` is Redis's error for other values.
fn positive(args: &mut Args<'_>, name: &str, text: &str) -> Result<u32, Error> {
    let is_positive = |word: &[u8]| match number::unsigned_or_more(word) {
        None | Some(number::Whole::Fits(0)) => false,
        Some(_) => true,
    };
    if args.peek().is_some_and(|word| !is_positive(word)) {
        return Err(Error::text(text));
    }
    args.count(name)
}

fn parse_find<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, body) = (args.queue()?, args.word("body")?);
    let mut find =
        Find { queue, body, from: Side::Left, skipped: 0, count: None, inspected_max: 0 };
    while let Some(option) = args.option()? {
        match option {
            "RANK" => {
                let rank = args.signed("rank")?;
                if rank == 0 {
                    return Err(Error::text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or \
                         use negative to start from the end of the list",
                    ));
                }
                if rank == i64::MIN {
                    return Err(Error::text(format!(
                        "ERR value is out of range, value must between {} and {}",
                        -i64::MAX,
                        i64::MAX
                    )));
                }
                find.from = if rank > 0 { Side::Left } else { Side::Right };
                find.skipped = rank.unsigned_abs() - 1;
            }
            "COUNT" => {
                let count = args.signed("count")?;
                let known = u64::try_from(count).map_err(|_| negative("COUNT"))?;
                if known > COUNT_MAX {
                    return Err(Error::text(format!(
                        "ERR count '{known}' is not an integer from 0 to {COUNT_MAX}"
                    )));
                }
                find.count = Some(known);
            }
            "MAXLEN" => {
                let most = args.signed("maxlen")?;
                find.inspected_max = u64::try_from(most).map_err(|_| negative("MAXLEN"))?;
            }
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Engine(Request::Find(find)))
}

fn negative(option: &str) -> Error {
    Error::text(format!("ERR {option} can't be negative"))
}

fn parse_remove<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, count, body) = (args.queue()?, args.signed("count")?, args.word("body")?);
    let from = if count < 0 { Side::Right } else { Side::Left };
    if count.unsigned_abs() > COUNT_MAX {
        return Err(Error::text(format!(
            "ERR count '{count}' is not an integer from -{COUNT_MAX} to {COUNT_MAX}"
        )));
    }
    let count = count.unsigned_abs();
    Ok(Action::Engine(Request::DeleteEqual { queue, body, from, count }))
}

/// The sides are those given, or named by the command.
fn parse_move<'a>(
    args: &mut Args<'a>,
    sides: Option<(Side, Side)>,
    waits: bool,
) -> Result<Action<'a>, Error> {
    let (from, to) = (args.queue()?.name, args.queue()?.name);
    let (take, put) = match sides {
        Some(sides) => sides,
        None => (args.side()?, args.side()?),
    };
    let wait = if waits { args.seconds()? } else { Wait::No };
    args.end_or_arity()?;
    Ok(Action::Engine(Request::Move(Move { db: args.db(), from, to, take, put, wait })))
}
