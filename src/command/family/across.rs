//! All queues of a database at once: the first of them in an order, and a job wherever it is.

use crate::command::family::consume::ID;
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, row};
use crate::engine::model::across::{Locate, Order, Queues};
use crate::engine::model::request::Request;
use crate::error::Error;
use crate::limits::{NAME_BYTES_MAX, ROWS_MAX};

/// How many rows there are when no COUNT is given.
const COUNT_DEFAULT: u32 = 50;

const COUNT: Argument = Argument::option("COUNT", "count", ArgumentKind::Integer).shown("n");

const ORDERS: &[Argument] = &[
    Argument::word("name", "NAME")
        .about("Ascending, byte by byte; the others are descending, then by name."),
    Argument::word("ready", "READY"),
    Argument::word("delayed", "DELAYED"),
    Argument::word("leased", "LEASED"),
    Argument::word("dead", "DEAD"),
    Argument::word("age", "AGE").about("Age of the oldest ready job."),
    Argument::word("bytes", "BYTES"),
    Argument::word("schedules", "SCHEDULES"),
];

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
    .tips(&["nondeterministic_output"])
    .reply("Array of maps (in RESP2 of flat arrays): `name`, `ready`, `delayed`, `leased`, `dead`, `waiters`, \
            `paused` (`no`, `in`, `out`, `all`), `next-due` (unix ms or nil), `oldest-ready-age-ms` (from its \
            due time, or nil), `bytes`, `lateness-p99-us`, `schedules`: as in DELAY.STATS.")
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
    row("delay.find", "Finds a job in all queues by its id", CommandSpec::BASE)
        .complexity("O(N) where N is the number of queues of the database")
        .arguments(&[
            ID,
            COUNT.about("Maximum number of jobs, 1 to 1000; then the search ends. Default 50."),
        ])
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
];

fn parse_queues<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (mut order, mut pattern, mut after) = (Order::Name, None, None);
    let mut count = COUNT_DEFAULT;
    while let Some(option) = args.option()? {
        match option {
            "MATCH" => pattern = Some(args.pattern("pattern")?),
            "BY" => order = order_of(args.choice()?),
            "COUNT" => count = rows(args)?,
            "AFTER" if args.peek() == Some(b"") => after = Some(args.word("after")?),
            "AFTER" => after = Some(args.text("after", NAME_BYTES_MAX)?),
            _ => return Err(args.unknown_option()),
        }
    }
    if after.is_some() && order != Order::Name {
        let by = order.word().to_uppercase();
        return Err(Error::text(format!("ERR syntax error: AFTER needs BY NAME, not BY {by}")));
    }
    // The user's rights are looked up when it runs.
    let queues = Queues { db: args.db(), readable: None, pattern, order, count, after };
    Ok(Action::AllQueues(Request::Queues(queues)))
}

fn parse_find<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (id, mut count) = (args.id()?, COUNT_DEFAULT);
    while args.option()?.is_some() {
        count = rows(args)?;
    }
    let locate = Locate { db: args.db(), readable: None, id, count };
    Ok(Action::AllQueues(Request::Locate(locate)))
}

fn rows(args: &mut Args<'_>) -> Result<u32, Error> {
    args.integer("count", 1, ROWS_MAX).map(|count| count as u32)
}

fn order_of(token: &str) -> Order {
    let is = |order: &Order| token.eq_ignore_ascii_case(order.word());
    Order::ALL.into_iter().find(is).unwrap_or(Order::Name)
}
