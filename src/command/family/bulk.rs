//! All jobs of a queue at once, or many of them.

use crate::command::family::produce::{GROUP, QUEUE};
use crate::command::family::queue::{FILTER, STATES, filter, state_of};
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, row};
use crate::engine::model::bulk::{Bulk, BulkAct, Filter, NewDue};
use crate::engine::model::group::Grouping;
use crate::engine::model::request::{JobState, Purge, Redrive, Request, When, Which};
use crate::error::Error;

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row(
        "delay.forecast",
        "Counts the jobs that fall due in each of the next spans of time",
        CommandSpec::OF_QUEUE,
    )
    .complexity("O(N) where N is the number of jobs in the queue; done in slices, between which other clients are \
                 served")
    .arguments(&[
        QUEUE,
        Argument::new("duration", ArgumentKind::Duration).about("The length of a span, at least 1ms."),
        Argument::new("n", ArgumentKind::Integer).about("How many spans, 1 to 10000."),
        Argument::word("schedules", "SCHEDULES")
            .optional()
            .about("Also count the future occurrences of the queue's schedules."),
    ])
    .flags(&[Flag::ReadOnly])
    .reply("Array of n integers: how many delayed jobs fall due in the first span from now, in the second, \
            and so on.")
    .notes("The counts are exact for the instant at which the command was received, even if counting takes several \
            turns. A job that is due at the end of a span belongs to it; jobs that are due already are ready and not \
            counted. With SCHEDULES every occurrence by the current schedules counts, as if each were made; n times \
            the number of schedules is then at most 5000000.")
    .example(&[
        ("DELAY.ADD orders 30m x ID order:7", "\"order:7\""),
        ("DELAY.ADD orders 90m x ID order:8", "\"order:8\""),
        ("DELAY.FORECAST orders 1h 3", "1) (integer) 1\n2) (integer) 1\n3) (integer) 0"),
    ])
    .parse(parse_forecast),
    row("delay.bulk", "Cancels, redrives or reschedules all jobs that are like this", CommandSpec::OF_QUEUE)
        .complexity("O(N) where N is the number of jobs in the queue, twice with OVER; done in slices, between which other \
                     clients are served")
        .arguments(&[
            QUEUE,
            Argument::one_of(
                "act",
                &[
                    Argument::word("cancel", "CANCEL")
                        .about("Remove delayed, ready and dead jobs; leased ones with FORCE."),
                    Argument::word("redrive", "REDRIVE").about("Move dead jobs back to be delivered again."),
                    Argument::word("reschedule", "RESCHEDULE")
                        .about("Give delayed and ready jobs another due time; needs IN or BY."),
                ],
            ),
            FILTER[0], FILTER[1], FILTER[2], FILTER[3], FILTER[4], FILTER[5], FILTER[6],
            Argument::one_of(
                "due-time",
                &[
                    Argument::option("IN", "when", ArgumentKind::When)
                        .about("When they fall due, counted from the receipt of the command. For REDRIVE default now."),
                    Argument::option("BY", "shift", ArgumentKind::Bytes).shown("[+|-]duration").about(
                        "So much later than each one's own due time, or earlier.",
                    ),
                ],
            )
            .optional(),
            Argument::option("OVER", "duration", ArgumentKind::Duration)
                .about("Spread them evenly over this span, from the time of IN or BY on."),
            Argument::option("LIMIT", "n", ArgumentKind::Integer).about("At most so many jobs. Default all."),
            Argument::word("keep-attempts", "KEEP-ATTEMPTS")
                .optional()
                .about("With REDRIVE: attempts go on, and a job that has used them up gets one more."),
            Argument::word("force", "FORCE").optional().about("With CANCEL: leased jobs, too; their tokens are void."),
            Argument::word("dryrun", "DRYRUN").optional().about("Do nothing, and reply how many jobs there are."),
        ])
        .flags(&[Flag::Write])
        .access(Access::Update)
        .reply("Integer: how many jobs it was done to, or with DRYRUN would have been.")
        .notes("At least one of STATE, MATCH, DUE, CONTAINS, ERROR, GROUP and REASON is needed: to remove all, use \
                `DELAY.PURGE`. It is atomic for each job, not for all of them, in no particular order, and not allowed in a \
                transaction. CANCEL removes what was there when it came. REDRIVE and RESCHEDULE take jobs that have not \
                changed since, so that none is moved twice; BY and OVER end at `max-delay` from now. `CLIENT KILL` stops it, \
                and so does the end of the server: what was done stays done, and the rest is left. That a client has gone \
                by itself may be noticed only with the reply. If the journal runs out of space, or the queue is renamed or \
                removed, the reply is the number done so far. To run a shift again that was broken off, give DUE so that it \
                leaves out what was moved already.")
        .example(&[
            ("DELAY.ADD mail 30m x ID order:7", "\"order:7\""),
            ("DELAY.BULK mail RESCHEDULE MATCH order:* BY +1h DRYRUN", "(integer) 1"),
            ("DELAY.BULK mail RESCHEDULE MATCH order:* BY +1h", "(integer) 1"),
            ("DELAY.BULK mail REDRIVE ERROR \"no route to #\" OVER 10m", "(integer) 0"),
            ("DELAY.BULK mail CANCEL STATE delayed CONTAINS x", "(integer) 1"),
        ])
        .parse(parse_bulk),
    row("delay.purge", "Removes all jobs of a queue in the given states", CommandSpec::OF_QUEUE)
        .complexity("O(1); memory is freed in slices afterwards and counts until then. With GROUP O(N) where N is the number of \
                     jobs in the queue, in slices")
        .arguments(&[
            QUEUE,
            Argument::one_of("state", STATES).optional().multiple(),
            GROUP.about("Only jobs of this group, and no windows. They are looked for among all of the queue, in slices: it is \
                         atomic for each job, removes those that were there when it came, and is not allowed in a transaction."),
        ])
        .flags(&[Flag::Write])
        .access(Access::Delete)
        .reply("Integer: how many were removed.")
        .notes("Without a state: delayed, ready and dead jobs, and the queue's UNIQUE windows end. Leased jobs are \
                removed only if LEASED is given; their tokens are then void. It takes effect at once, however many \
                jobs there are, and their ids are free. Settings, pauses and totals stay; \
                the jobs count as `deleted`. With GROUP a job that changes its state meanwhile goes if it is in one of the \
                states when its turn comes; if the queue is renamed or removed, or the journal runs out of space, the \
                reply is the number removed so far, and if the connection closes they stay removed.")
        .example(&[
            ("DELAY.ADD orders 30m x ID order:7", "\"order:7\""),
            ("DELAY.PURGE orders READY DEAD", "(integer) 0"),
            ("DELAY.PURGE orders", "(integer) 1"),
        ])
        .parse(parse_purge),
    row("delay.redrive", "Moves dead jobs back to be delivered again", CommandSpec::OF_QUEUE)
        .complexity("O(N) where N is the number of jobs moved; done in slices, between which other clients are \
                     served")
        .arguments(&[
            QUEUE,
            Argument::one_of(
                "which",
                &[
                    Argument::option("COUNT", "count", ArgumentKind::Integer)
                        .shown("n")
                        .about("Maximum number of jobs, 1 to 10000, those that died first. Default all."),
                    Argument::block(
                        "ids",
                        &[
                            Argument::new("numids", ArgumentKind::Integer).about("1 to 10000."),
                            Argument::new("id", ArgumentKind::Id).multiple(),
                        ],
                    )
                    .after("IDS")
                    .about(
                        "Move these jobs, in this order; those that are not dead are left alone.",
                    ),
                ],
            )
            .optional(),
            GROUP.about("Only jobs of this group, which are looked for among all dead ones of the queue. Not with IDS, and not in a \
                         transaction."),
            Argument::option("IN", "when", ArgumentKind::When)
                .about("When they fall due, counted from the receipt of the command. Default now."),
            Argument::word("keep-attempts", "KEEP-ATTEMPTS").optional().about(
                "Attempts continue: a job that has used up its attempts gets one more. Without it they begin at 0.",
            ),
        ])
        .flags(&[Flag::Write])
        .access(Access::Update)
        .reply("Integer: how many jobs were moved from dead to ready, or to delayed with IN.")
        .notes("Without IDS the jobs that died first come first. Every job gets a new place, in the order in which \
                they are moved, and its old token is void. REDRIVE is atomic for each job, not for all of them: \
                consumers get the first while the last are still dead. If the connection closes, jobs moved so far \
                stay moved; if the journal runs out of space, the reply is the number moved so far. A user that \
                loses the right meanwhile gets `NOPERM` without the number. Jobs that die meanwhile are left alone.")
        .example(&[
            ("DELAY.ADD pay 0 x ID p7", "\"p7\""),
            ("DELAY.REDRIVE pay IN 10m", "(integer) 0"),
            ("DELAY.REDRIVE pay IDS 2 p7 p8 KEEP-ATTEMPTS", "(integer) 0"),
        ])
        .parse(parse_redrive),
];

fn parse_forecast<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, span_ms) = (args.queue()?, args.duration("duration", 1)?);
    let (count, schedules) = (args.count("n")?, args.flag()?);
    Ok(Action::Engine(Request::Forecast { queue, span_ms, count, schedules }))
}

fn parse_bulk<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, mut act, mut meant) = (args.queue()?, None, Filter::default());
    let (mut due, mut over_ms, mut limit) = (None, 0, None);
    let [mut keep_attempts, mut force, mut dry_run] = [false; 3];
    while let Some(option) = args.option()? {
        match option {
            "CANCEL" | "REDRIVE" | "RESCHEDULE" => act = Some(option),
            "IN" => due = Some(NewDue::At(args.when()?)),
            "BY" => due = Some(NewDue::Shifted(args.shift("BY")?)),
            "OVER" => over_ms = args.duration("OVER", 1)?,
            "LIMIT" => limit = Some(args.integer("limit", 1, i64::MAX as u64)?),
            "KEEP-ATTEMPTS" => keep_attempts = true,
            "FORCE" => force = true,
            "DRYRUN" => dry_run = true,
            _ => filter(args, option, &mut meant)?,
        }
    }
    let wrong = |text: &str| Error::text(format!("ERR syntax error: {text}"));
    let act = match (act, due) {
        (Some("CANCEL"), None) if over_ms == 0 => BulkAct::Cancel { force },
        (Some("CANCEL"), _) => return Err(wrong("CANCEL takes no IN, BY and OVER")),
        (Some("REDRIVE"), None) => BulkAct::Redrive { when: When::In(0), keep_attempts },
        (Some("REDRIVE"), Some(NewDue::At(when))) => BulkAct::Redrive { when, keep_attempts },
        (Some("REDRIVE"), _) => return Err(wrong("REDRIVE takes IN, not BY")),
        (Some(_), Some(due)) => BulkAct::Reschedule(due),
        (Some(_), None) => return Err(wrong("RESCHEDULE needs IN or BY")),
        (None, _) => return Err(wrong("CANCEL, REDRIVE or RESCHEDULE is needed")),
    };
    if force && !matches!(act, BulkAct::Cancel { .. }) {
        return Err(wrong("FORCE needs CANCEL"));
    }
    if keep_attempts && !matches!(act, BulkAct::Redrive { .. }) {
        return Err(wrong("KEEP-ATTEMPTS needs REDRIVE"));
    }
    if meant == Filter::default() {
        let words = "STATE, MATCH, DUE, CONTAINS, ERROR, GROUP or REASON";
        return Err(wrong(&format!(
            "{words} is needed; DELAY.PURGE and DELAY.REDRIVE take all jobs"
        )));
    }
    if let Some(state) = meant.state.filter(|state| !act.takes(*state)) {
        let hint = if state == JobState::Leased && matches!(act, BulkAct::Cancel { .. }) {
            " without FORCE"
        } else {
            ""
        };
        let word = state.word();
        return Err(wrong(&format!("{} takes no {word} jobs{hint}", act.word())));
    }
    let bulk = Bulk { queue, filter: meant, act, limit, dry_run, over_ms };
    Ok(Action::Engine(Request::Bulk(bulk)))
}

fn parse_redrive<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut redrive = Redrive {
        queue: args.queue()?,
        which: Which::Oldest(None),
        when: When::In(0),
        keep_attempts: false,
    };
    let mut group = None;
    while let Some(option) = args.option()? {
        match option {
            "GROUP" => group = Some(args.group()?),
            "COUNT" => redrive.which = Which::Oldest(Some(args.count("count")?)),
            "IDS" => redrive.which = Which::Ids(args.counted_ids()?),
            "IN" => redrive.when = args.when()?,
            "KEEP-ATTEMPTS" => redrive.keep_attempts = true,
            _ => return Err(args.unknown_option()),
        }
    }
    redrive.which = match (group, redrive.which) {
        (None, which) => which,
        (Some(group), Which::Oldest(count)) => Which::InGroup { group, count },
        _ => return Err(Error::text("ERR syntax error: GROUP and IDS exclude each other")),
    };
    Ok(Action::Engine(Request::Redrive(redrive)))
}

fn parse_purge<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut purge, mut group) = (Purge { states: [false; 4], windows: false }, None);
    while let Some(option) = args.option()? {
        if option == "GROUP" {
            group = Some(args.group()?);
            continue;
        }
        let state = state_of(option).ok_or_else(|| args.unknown_option())?;
        purge.states[state as usize] = true;
    }
    if purge.states == [false; 4] {
        purge = Purge::DEFAULT;
    }
    Ok(Action::Engine(match group {
        Some(group) => Request::Groups(Grouping::Purge { queue, group, states: purge.states }),
        None => Request::Purge { queue, purge },
    }))
}
