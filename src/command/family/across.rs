//! All queues of a database at once: the first of them in an order, a job wherever it is, and leases. And all groups of a
//! queue.

use crate::command::family::consume::ID;
use crate::command::family::produce::QUEUE;
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, OF_ALL, row};
use crate::engine::model::across::{Locate, Order, Queues};
use crate::engine::model::group::{GroupOrder, Grouping, ListGroups};
use crate::engine::model::holder::ListLeases;
use crate::engine::model::minutes::{ListMinutes, MINUTE_MS};
use crate::engine::model::request::Request;
use crate::error::Error;
use crate::limits::{DAY_MINUTES, NAME_BYTES_MAX, ROWS_MAX};
use crate::time::{Millis, Written};

/// How many rows there are when no COUNT is given.
const COUNT_DEFAULT: u32 = 50;

const COUNT: Argument = Argument::option("COUNT", "count", ArgumentKind::Integer).shown("n");

/// The order without BY.
const NAME: &str = "NAME";

const ORDERS: &[Argument] = &[
    Argument::word("name", NAME)
        .about("Ascending, byte by byte; the others are descending, then by name."),
    Argument::word("ready", "READY"),
    Argument::word("delayed", "DELAYED"),
    Argument::word("leased", "LEASED"),
    Argument::word("dead", "DEAD"),
    Argument::word("age", "AGE").about("Age of the oldest ready job."),
    Argument::word("bytes", "BYTES"),
    Argument::word("schedules", "SCHEDULES"),
];

/// Those up to the age.
const GROUP_ORDERS: &[Argument] = ORDERS.split_at(6).0;

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row(
        "delay.queues",
        "Lists the first queues in an order, with their numbers",
        CommandSpec::BASE,
    )
    .complexity("O(N) where N is the number of queues of the database")
    .arguments(&[
        Argument::option("MATCH", "pattern", ArgumentKind::Pattern).shown("glob").about(
            "Only queues whose name matches: `*`, `?`, `[a-z]`, `\\` before a literal byte.",
        ),
        Argument::one_of("order", ORDERS)
            .after("BY")
            .optional()
            .about("The order. Default NAME."),
        COUNT.about("Maximum number of queues, 1 to 1000. Default 50."),
        Argument::option("AFTER", "after", ArgumentKind::Bytes).shown("name").about(
            "BY NAME: continue after this name, which need not exist any more; empty begins.",
        ),
    ])
    .flags(&[Flag::ReadOnly])
    .tips(&["nondeterministic_output", "request_policy:all_shards"])
    .reply("Array of maps (in RESP2 of flat arrays): `name`, `ready`, `delayed`, `leased`, `dead`, `waiters`, \
            `paused` (`no`, `in`, `out`, `all`), `next-due` (unix ms or nil), `oldest-ready-age-ms` (from its \
            due time, or nil), `bytes`, `lateness-p99-us`, `schedules`, `groups`, \
            `last-reserve-at` (unix ms or nil): as in DELAY.STATS.")
    .notes("Only queues of the selected database that the user may read. Includes queues without a job that \
            DELAY.STATS still knows. Many queues are examined in slices, between which other clients are served: \
            each row is of one instant, but not all rows are of the same. `next-due` may be too early if jobs \
            far ahead are not in order yet.")
    .example(&[
        ("DELAY.ADD orders 30m x ID order:7", "\"order:7\""),
        (
            "DELAY.QUEUES MATCH orders BY DELAYED COUNT 1",
            "1)  1) \"name\"\n    2) \"orders\"\n    3) \"ready\"\n    4) (integer) 0\n    5) \"delayed\"\n    6) \
             (integer) 1\n    ...",
        ),
    ])
    .parse(parse_queues),
    row("delay.groups", "Lists the first groups of a queue in an order, with their numbers", CommandSpec::OF_QUEUE)
        .complexity("O(N) where N is the number of groups of the queue")
        .arguments(&[
            QUEUE,
            Argument::option("MATCH", "pattern", ArgumentKind::Pattern).shown("glob").about(
                "Only groups whose name matches: `*`, `?`, `[a-z]`, `\\` before a literal byte.",
            ),
            Argument::one_of("order", GROUP_ORDERS)
                .after("BY")
                .optional()
                .about("The order. Default NAME."),
            Argument::word("closed", "CLOSED")
                .optional()
                .about("Only groups that are closed and have ready jobs."),
            COUNT.about("Maximum number of groups, 1 to 1000. Default 50."),
            Argument::option("AFTER", "after", ArgumentKind::Bytes).shown("name").about(
                "BY NAME: continue after this name, which need not exist any more; empty begins.",
            ),
        ])
        .flags(&[Flag::ReadOnly])
        .tips(&["nondeterministic_output"])
        .reply("Array of maps (in RESP2 of flat arrays): `name`, `ready`, `delayed`, `leased`, `dead`, \
                `state` (`open`, `paused`, `limit`: at its `group-max-leased`, `retry`: jobs that wait for their \
                next attempt hold it back, or `rate`: its `group-rate` lets none go yet), `oldest-ready-age-ms` (from its due \
                time, or nil).")
        .notes("Groups with a job, and those for which something is set. Many groups are examined in slices, between \
                which other clients are served: each row is of one instant, but not all rows are of the same.")
        .example(&[
            ("DELAY.ADD mail 30m x GROUP acme ID m1", "\"m1\""),
            (
                "DELAY.GROUPS mail BY DELAYED COUNT 1",
                "1)  1) \"name\"\n    2) \"acme\"\n    3) \"ready\"\n    4) (integer) 0\n    5) \"delayed\"\n    6) \
                 (integer) 1\n    ...",
            ),
        ])
        .parse(parse_groups),
    row("delay.find", "Finds a job in all queues by its id", CommandSpec::BASE)
        .complexity("O(N) where N is the number of queues of the database")
        .arguments(&[
            ID,
            COUNT.about("Maximum number of jobs, 1 to 1000; then the search ends. Default 50."),
        ])
        .tips(OF_ALL)
        .flags(&[Flag::ReadOnly])
        .reply("Array of maps (in RESP2 of flat arrays), by the names of queues: `queue`, `state`, `due` (unix ms).")
        .notes("Only queues of the selected database that the user may read. Many queues are examined in slices, \
                between which other clients are served.")
        .example(&[
            ("DELAY.ADD orders @1893456000000 x ID order:7", "\"order:7\""),
            (
                "DELAY.FIND order:7",
                "1) 1) \"queue\"\n   2) \"orders\"\n   3) \"state\"\n   4) \"delayed\"\n   5) \"due\"\n   6) (integer) \
                 1893456000000",
            ),
        ])
        .parse(parse_find),
    row("delay.busy", "Lists leases, the first to end first, with the clients that hold them", CommandSpec::BASE)
        .complexity(
            "O(N) where N is the number of queues of the database, or 1 with a queue, plus the leases looked at",
        )
        .arguments(&[
            Argument::new("queue", ArgumentKind::Bytes)
                .optional()
                .about("Only leases of this queue."),
            COUNT.about("Maximum number of leases, 1 to 1000. Default 50."),
            Argument::block(
                "after",
                &[
                    Argument::new("lease-end", ArgumentKind::Integer),
                    Argument::new("queue", ArgumentKind::Bytes),
                    Argument::new("id", ArgumentKind::Id),
                ],
            )
            .after("AFTER")
            .optional()
            .about("Continue after this lease, the last one of a reply, which need not run any more."),
        ])
        .flags(&[Flag::ReadOnly])
        .tips(&["nondeterministic_output"])
        .reply("Array of maps (in RESP2 of flat arrays): `queue`, `id`, `client` (the number in CLIENT LIST, or nil), \
                `addr` (without a port), `name` (CLIENT SETNAME), `lib` (name and version by CLIENT SETINFO; these three \
                at most 64 bytes each, or nil), `since` (when this delivery began, unix ms or nil), `lease-end` (unix \
                ms), `attempt`.")
        .notes("Only queues of the selected database that the user may read. The client is shown as it was at its last \
                RESERVE, POP or ACK, also if it has disconnected since: the last 10000 such clients are known. `client`, \
                `addr`, `name` and `lib` are kept in memory alone: they are nil for leases from before a restart or from \
                another leader, and `since` may be. Many leases are examined in slices, between which other clients are served. Of each queue \
                the 8192 leases that end first are shown; DELAY.SCAN with STATE leased returns all. `COUNT` and `AFTER` \
                are queues if the number of words says so, as in `DELAY.BUSY count COUNT 10`.")
        .example(&[
            ("DELAY.ADD orders 0 x ID order:7", "\"order:7\""),
            ("DELAY.RESERVE NOWAIT 1 orders", "1) 1) \"orders\"\n   2) \"order:7\"\n   ..."),
            (
                "DELAY.BUSY orders",
                "1)  1) \"queue\"\n    2) \"orders\"\n    3) \"id\"\n    4) \"order:7\"\n    ...",
            ),
        ])
        .parse(parse_busy),
    row("delay.history", "Shows what happened in the last minutes, up to a day", CommandSpec::BASE)
        .complexity("O(N) where N is the number of minutes")
        .arguments(&[
            Argument::new("queue", ArgumentKind::Bytes)
                .optional()
                .about("Only this queue; without it all queues of all databases together, also those that the user may not read."),
            Argument::option("LAST", "last", ArgumentKind::Duration)
                .shown("duration")
                .about("How far back, whole minutes from 1m to 1d. Default 1h."),
            Argument::option("STEP", "step", ArgumentKind::Duration)
                .shown("duration")
                .about("The length of a row, whole minutes up to 1d. Default 1m."),
        ])
        .flags(&[Flag::ReadOnly])
        .tips(&["nondeterministic_output"])
        .reply("Array of maps (in RESP2 of flat arrays), oldest first: `at` (when the row begins, unix ms; a multiple of \
                the step), `added`, `delivered`, `acked`, `failed` (NACKs, leases that ran out or ended with their \
                connection), `died`, `delayed`, `ready`, `leased` and `dead` (jobs when it ended), `lateness-p50-us` and `lateness-p99-us` of its deliveries. \
                The last row is not over. Empty if the queue's minutes are not kept.")
        .notes("Minutes are kept of 200 queues, fewer if they took more than a 32nd part of `maxmemory` (69 KB each): where there are \
                more, of the busiest of the last half hour or so, which in a cluster each node finds by itself. A queue that gets a \
                place shows up within two minutes; its first row may cover only part of a step. In a row of several minutes p50 is \
                their mean, weighted by deliveries, and p99 that of the worst minute. A delivery that is taken back in a later minute stays \
                counted. Minutes survive restarts with a journal, unless a base is written while its disk is nearly full. \
                Minutes in which no server was running look idle. They go when the queue is deleted or forgotten. `LAST` and `STEP` are queues if the number of words says so, as in `DELAY.HISTORY last LAST 2h`.")
        .example(&[
            ("DELAY.ADD orders 0 x ID order:7", "\"order:7\""),
            (
                "DELAY.HISTORY orders LAST 1m",
                "1)  1) \"at\"\n    2) (integer) ...\n    3) \"added\"\n    4) (integer) 1\n    ...",
            ),
        ])
        .parse(parse_history),
];

fn parse_queues<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let Ranked { by, pattern, count, after, .. } = Ranked::read(args)?;
    let order = Order::ALL.into_iter().find(|order| by.eq_ignore_ascii_case(order.word()));
    let order = order.unwrap_or(Order::Name);
    // The user's rights are looked up when it runs.
    let queues = Queues { db: args.db(), readable: None, pattern, order, count, after };
    Ok(Action::AllQueues(Request::Queues(queues)))
}

fn parse_groups<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let Ranked { by, pattern, count, after, closed } = Ranked::read(args)?;
    let order = GroupOrder::ALL.into_iter().find(|order| by.eq_ignore_ascii_case(order.word()));
    let order = order.unwrap_or(GroupOrder::Name);
    let groups = ListGroups { queue, pattern, order, count, after, closed };
    Ok(Action::Engine(Request::Groups(Grouping::List(groups))))
}

/// The first of many in an order.
struct Ranked<'a> {
    by: &'static str,
    pattern: Option<&'a [u8]>,
    count: u32,
    after: Option<&'a [u8]>,
    closed: bool,
}

impl<'a> Ranked<'a> {
    fn read(args: &mut Args<'a>) -> Result<Ranked<'a>, Error> {
        let (pattern, after, closed) = (None, None, false);
        let mut read = Ranked { by: NAME, pattern, count: COUNT_DEFAULT, after, closed };
        while let Some(option) = args.option()? {
            match option {
                "MATCH" => read.pattern = Some(args.pattern("pattern")?),
                "BY" => read.by = args.choice()?,
                "COUNT" => read.count = rows(args)?,
                "CLOSED" => read.closed = true,
                "AFTER" if args.peek() == Some(b"") => read.after = Some(args.word("after")?),
                "AFTER" => read.after = Some(args.text("after", NAME_BYTES_MAX)?),
                _ => return Err(args.unknown_option()),
            }
        }
        if read.after.is_some() && read.by != NAME {
            let by = read.by;
            return Err(Error::text(format!("ERR syntax error: AFTER needs BY NAME, not BY {by}")));
        }
        Ok(read)
    }
}

fn parse_find<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (id, mut count) = (args.id()?, COUNT_DEFAULT);
    while args.option()?.is_some() {
        count = rows(args)?;
    }
    let locate = Locate { db: args.db(), readable: None, id, count };
    Ok(Action::AllQueues(Request::Locate(locate)))
}

fn parse_busy<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = queue_before(args, ["COUNT", "AFTER"])?;
    let (mut count, mut after) = (COUNT_DEFAULT, None);
    while let Some(option) = args.option()? {
        match option {
            "COUNT" => count = rows(args)?,
            _ => {
                let lease_end = args.integer("lease-end", 0, i64::MAX as u64)?;
                after = Some((Millis(lease_end), args.queue()?.name, args.id()?));
            }
        }
    }
    let leases = ListLeases { db: args.db(), queue, readable: None, count, after };
    Ok(Action::AllQueues(Request::Leases(leases)))
}

fn parse_history<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = queue_before(args, ["LAST", "STEP"])?;
    let (mut last, mut step) = (60, 1);
    while let Some(option) = args.option()? {
        match option {
            "LAST" => last = minutes(args, "last")?,
            _ => step = minutes(args, "step")?,
        }
    }
    let of = ListMinutes { db: args.db(), queue, readable: None, last, step };
    Ok(Action::AllQueues(Request::Minutes(of)))
}

/// The queue that may come before options. These have an even number of words: with an odd one a queue comes first, even if
/// its name is COUNT.
fn queue_before<'a>(args: &mut Args<'a>, options: [&str; 2]) -> Result<Option<&'a [u8]>, Error> {
    let is_option =
        |word: &[u8]| options.iter().any(|own| word.eq_ignore_ascii_case(own.as_bytes()));
    let names_queue = args.left() % 2 == 1 || args.peek().is_some_and(|word| !is_option(word));
    names_queue.then(|| args.queue().map(|queue| queue.name)).transpose()
}

/// Whole minutes.
fn minutes(args: &mut Args<'_>, name: &str) -> Result<u32, Error> {
    let ms = args.duration_to(name, MINUTE_MS, u64::from(DAY_MINUTES) * MINUTE_MS)?;
    match ms % MINUTE_MS {
        0 => Ok((ms / MINUTE_MS) as u32),
        _ => Err(Error::text(format!("ERR {name} {} is not whole minutes", Written(ms)))),
    }
}

fn rows(args: &mut Args<'_>) -> Result<u32, Error> {
    args.integer("count", 1, ROWS_MAX).map(|count| count as u32)
}
