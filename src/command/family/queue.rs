//! One queue at a time: count, look, walk through.

use crate::command::family::produce::{GROUP, QUEUE};
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, row};
use crate::engine::model::bulk::Filter;
use crate::engine::model::group::Grouping;
use crate::engine::model::reply::Reason;
use crate::engine::model::request::{JobState, Request, Scan};
use crate::error::Error;
use crate::limits::SEARCH_BYTES_MAX;

/// How many jobs PEEK and SCAN look at when no COUNT is given.
const COUNT_DEFAULT: u32 = 10;

pub(super) const STATES: &[Argument] = &[
    Argument::word("delayed", "DELAYED").about("Not due yet."),
    Argument::word("ready", "READY").about("Due, waiting for a consumer."),
    Argument::word("leased", "LEASED").about("Being worked on by a consumer."),
    Argument::word("dead", "DEAD").about("Out of attempts, or buried."),
];

const REASONS: &[Argument] = &[
    Argument::word("attempts", "ATTEMPTS").about("Nacked at its last attempt."),
    Argument::word("timeout", "TIMEOUT").about("The lease of its last attempt ran out."),
    Argument::word("lost", "LOST").about("The connection of its last attempt closed (`BOUND`)."),
    Argument::word("buried", "BURIED").about("`NACK ... BURY`."),
];

/// What SCAN and BULK take to say which jobs are meant; [`filter`] reads it.
pub(super) const FILTER: [Argument; 7] = [
    Argument::one_of("state", STATES).after("STATE").optional().about("Only jobs in this state."),
    Argument::option("MATCH", "pattern", ArgumentKind::Pattern)
        .shown("glob")
        .about("Only jobs whose id matches: `*`, `?`, `[a-z]`, `\\` before a literal byte."),
    Argument::block(
        "due",
        &[
            Argument::new("from", ArgumentKind::Instant),
            Argument::new("until", ArgumentKind::Instant),
        ],
    )
    .after("DUE")
    .optional()
    .about("Only jobs due at or after the first instant and before the second: `@<unix-ms>`, or a date, time and offset."),
    Argument::option("CONTAINS", "text", ArgumentKind::Bytes)
        .about("Only jobs with these bytes, 1 to 1024, in id, body or the text of the last `NACK ... ERROR`."),
    Argument::option("ERROR", "error", ArgumentKind::Bytes).shown("text").about(
        "Only jobs whose text of the last `NACK ... ERROR` is exactly this, or that count under this error of \
         `DELAY.ERRORS`, 0 to 1024 bytes; empty for jobs without a text.",
    ),
    GROUP.about("Only jobs of this group."),
    Argument::one_of("reason", REASONS)
        .after("REASON")
        .optional()
        .about("Only dead jobs that died for this reason."),
];

const COUNT: Argument = Argument::option("COUNT", "count", ArgumentKind::Integer).shown("n");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("delay.stats", "Shows a queue's numbers", CommandSpec::OF_QUEUE)
        .arguments(&[QUEUE, GROUP.about("Only the numbers of this group.")])
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .reply("Map (in RESP2 a flat array): `delayed`, `ready`, `leased`, `dead`, `bytes`, `waiters`, \
                `paused` (`no`, `in`, `out`, `all`), `next-due` (unix ms or nil), `oldest-ready-age-ms` \
                (from its due time, or nil), `lateness-p50-us`, `lateness-p99-us`, `lateness-p999-us`, \
                `lateness-max-us`, and totals `added`, `delivered`, `acked`, `nacked`, `timeouts`, `lost`, \
                `expired`, `deleted`, `died`, `dropped`, `popped`: every added job still exists, or was acked, \
                popped, expired, deleted or dropped. Then `schedules`, and the totals `made` and `missed` of their \
                occurrences, including removed schedules; then `groups`, and `groups-closed`: those that are \
                closed and have ready jobs; then `last-reserve-at` (unix ms or nil) and `last-reserve-by`: when a client was \
                last given a job by RESERVE, POP or a list command, and which client (`name@addr`, `addr` without a name, or \
                nil); `last-ack-at` and `last-ack-by`: the same for ACK. Nil if the queue is unknown. With `GROUP` of that group: `name`, `ready`, \
                `delayed`, `leased`, `dead`, `state` (`open`, `paused`, `limit`: at its `group-max-leased`, `retry`: jobs that wait for \
                their next attempt hold it back, or `rate`: its `group-rate` lets none go yet), \
                `oldest-ready-age-ms`, `weight`, `max-leased`, `rate`, `max-jobs`, `retry`, `waiting-retries`, and `opens`: when its pause ends and \
                its rate lets the next job go (unix ms or nil); nil \
                if it has no job, nothing is set for it and its rate is past.")
        .notes("Lateness is measured from the due time to the release of the reply, for jobs for which a \
                consumer was waiting when they fell due. Jobs held back by a pause or a limit of the queue do not \
                count. The last clients are kept in memory alone: they are nil after a restart or on another node.")
        .example(&[("DELAY.STATS nothing", "(nil)")])
        .parse(parse_stats),
    row("delay.len", "Counts a queue's jobs", CommandSpec::OF_QUEUE)
        .arguments(&[QUEUE, Argument::one_of("state", STATES).optional()])
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .access(Access::Look)
        .reply("Integer: the jobs in that state, or in all states together.")
        .example(&[
            ("DELAY.ADD orders 30m x ID order:7", "\"order:7\""),
            ("DELAY.LEN orders", "(integer) 1"),
            ("DELAY.LEN orders READY", "(integer) 0"),
        ])
        .parse(parse_len),
    row("delay.peek", "Shows the next jobs without taking them", CommandSpec::OF_QUEUE)
        .complexity("O(N) where N is the number of jobs returned")
        .arguments(&[
            QUEUE,
            Argument::one_of("state", STATES).optional(),
            Argument::word("newest", "NEWEST")
                .optional()
                .about("With DEAD: the newest dead jobs first."),
            COUNT.about(
                "Maximum number of jobs, 1 to 10000. Default 10. The job whose body crosses 4 MiB in all \
                 is the last of the reply.",
            ),
        ])
        .flags(&[Flag::ReadOnly])
        .reply("Array of jobs in order, each an array: id, state, due (unix ms), body.")
        .notes("Without a state: ready jobs, then delayed ones. Dead jobs come in the order in which they died.")
        .example(&[
            ("DELAY.ADD orders @1893456000000 x ID order:7", "\"order:7\""),
            (
                "DELAY.PEEK orders COUNT 1",
                "1) 1) \"order:7\"\n   2) \"delayed\"\n   3) (integer) 1893456000000\n   4) \"x\"",
            ),
        ])
        .parse(parse_peek),
    row("delay.errors", "Shows which errors the deliveries of a queue fail with", CommandSpec::OF_QUEUE)
        .complexity("O(1): at most 65 elements")
        .arguments(&[QUEUE])
        .flags(&[Flag::ReadOnly])
        .access(Access::Read)
        .reply("Array, what most jobs are dead of first, each a map: error, count (deliveries that failed so), dead (jobs \
                that are dead because of it), first and last (unix ms), sample (the id of the job that failed so last; nil \
                if it has more than 48 bytes).")
        .notes("Texts of `NACK ... ERROR` that differ only in numbers, ids, addresses and quoted words count as one, with \
                `#` for what differs. What ended without a text counts as `lease timed out`, `connection closed` or `no \
                error text`; a job that its worker gives back UNCOUNTED without a text has not failed. An error is shown up to \
                128 bytes. A queue lists 64 errors; beyond these the rarest gives way, and the last element, whose error \
                is nil, has the sum of all that are not listed. `DELAY.SCAN queue 0 ERROR <error>` finds the jobs. The \
                counts survive restarts and changes of the leader; they go when the queue is deleted or forgotten.")
        .example(&[
            ("DELAY.ADD orders 0 x ID order:7 ATTEMPTS 1", "\"order:7\""),
            ("DELAY.ERRORS orders", "(empty array)"),
        ])
        .parse(|args| Ok(Action::Engine(Request::Errors { queue: args.queue()? }))),
    row("delay.scan", "Iterates over a queue's jobs in steps", CommandSpec::OF_QUEUE)
        .complexity("O(COUNT) for each step")
        .arguments(&[
            QUEUE,
            Argument::new("cursor", ArgumentKind::Integer).about("0 to begin, then the cursor of the last reply."),
            FILTER[0], FILTER[1], FILTER[2], FILTER[3], FILTER[4], FILTER[5], FILTER[6],
            COUNT.about("How many jobs to examine, 1 to 10000. Default 10."),
        ])
        .flags(&[Flag::ReadOnly])
        .tips(&["nondeterministic_output"])
        .reply("Array: the next cursor (bulk string, `0` at the end) and an array of jobs, each an array: \
                id, state, due (unix ms).")
        .notes("A job that exists from the first step to the last is returned at least once, whatever is added and \
                removed meanwhile, also across restarts of a server with a journal and changes of the leader. An \
                invalid cursor is an error: it came from a server with another journal, or from a build that hashes \
                differently. A step examines fewer than COUNT jobs if bodies or patterns are long: about 8 MiB of \
                bodies.")
        .example(&[
            ("DELAY.ADD orders @1893456000000 x ID order:7", "\"order:7\""),
            (
                "DELAY.SCAN orders 0 STATE delayed MATCH order:*",
                "1) \"0\"\n2) 1) 1) \"order:7\"\n      2) \"delayed\"\n      3) (integer) 1893456000000",
            ),
        ])
        .parse(parse_scan),
];

fn parse_stats<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    Ok(Action::Engine(match args.option()? {
        None => Request::Stats { queue },
        Some(_) => Request::Groups(Grouping::Stats { queue, group: args.last_group()? }),
    }))
}

fn parse_len<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let mut state = None;
    while let Some(option) = args.option()? {
        state = state_of(option);
    }
    Ok(Action::Engine(Request::Len { queue, state }))
}

fn parse_peek<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut state, mut newest, mut count) = (None, false, COUNT_DEFAULT);
    while let Some(option) = args.option()? {
        match option {
            "COUNT" => count = args.count("count")?,
            "NEWEST" => newest = true,
            _ => state = state_of(option),
        }
    }
    if newest && state != Some(JobState::Dead) {
        return Err(Error::text("ERR syntax error: NEWEST needs DEAD"));
    }
    Ok(Action::Engine(Request::Peek { queue, state, count, newest }))
}

fn parse_scan<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, cursor) = (args.queue()?, args.cursor()?);
    let mut scan = Scan::new(queue, cursor, COUNT_DEFAULT);
    while let Some(option) = args.option()? {
        match option {
            "COUNT" => scan.count = args.count("count")?,
            _ => filter(args, option, &mut scan.filter)?,
        }
    }
    Ok(Action::Engine(Request::Scan(scan)))
}

/// Reads an option of [`FILTER`].
pub(super) fn filter<'a>(
    args: &mut Args<'a>,
    option: &str,
    filter: &mut Filter<'a>,
) -> Result<(), Error> {
    match option {
        "STATE" => filter.state = state_of(args.choice()?),
        "MATCH" => filter.pattern = Some(args.pattern("pattern")?),
        "DUE" => filter.due = Some(parse_due(args)?),
        "ERROR" if args.peek() == Some(b"") => filter.error = Some(args.word("text")?),
        "ERROR" => filter.error = Some(args.text("text", SEARCH_BYTES_MAX)?),
        "REASON" => filter.reason = reason_of(args.choice()?),
        "GROUP" => filter.group = Some(args.group()?),
        "CONTAINS" => filter.contains = Some(args.text("text", SEARCH_BYTES_MAX)?),
        _ => return Err(args.unknown_option()),
    }
    Ok(())
}

fn parse_due(args: &mut Args<'_>) -> Result<(u64, u64), Error> {
    let (from, until) = (args.instant()?, args.instant()?);
    if from > until {
        return Err(Error::text(format!(
            "ERR DUE from @{from} until @{until}: the second is before the first"
        )));
    }
    Ok((from, until))
}

fn reason_of(token: &str) -> Option<Reason> {
    Reason::ALL.into_iter().find(|reason| token.eq_ignore_ascii_case(reason.word()))
}

pub(super) fn state_of(token: &str) -> Option<JobState> {
    JobState::ALL.into_iter().find(|state| token.eq_ignore_ascii_case(state.word()))
}
