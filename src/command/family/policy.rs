//! What is set for a queue: its policies and limits, and pausing it.

use crate::command::family::help::help;
use crate::command::family::produce::QUEUE;
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, Keys};
use crate::engine::model::queue_settings::{QueueSettings, Setting, Side};
use crate::engine::model::request::{Direction, Request};
use crate::error::Error;
use crate::limits::RATE_MAX;

const SETTINGS: &[Argument] = &[
    Argument::new("n", Kind::Integer)
        .after("attempts")
        .about("Deliveries before a new job is dead; 0 no limit. Default 20."),
    Argument::new("ladder", Kind::Backoff)
        .after("backoff")
        .about("What a failed delivery of a new job waits, as ADD takes it. Default `exp:1s:1h~`."),
    Argument::new("duration", Kind::Duration).after("lease").about(
        "The lease where neither RESERVE nor the job names one, 1ms to `max-lease` (24h). Default: \
         `default-lease` (60s).",
    ),
    Argument::new("0-9", Kind::Integer)
        .after("priority")
        .about("The priority of a new job; 0 is first. Default 5."),
    Argument::new("duration", Kind::Duration)
        .after("ttl")
        .about("A new job expires this long after its due time unless it was delivered; 0 never. Default 0."),
    Argument::new("n", Kind::Integer).after("max-jobs").about(
        "The most delayed, ready and leased jobs; beyond it ADD and pushes answer `FULL`. 0 no limit. Default 0.",
    ),
    Argument::new("n", Kind::Integer).after("max-leased").about(
        "The most leases at once: at it the queue counts as empty for whoever takes. 0 no limit. Default 0.",
    ),
    Argument::new("n", Kind::Integer).after("rate").about(
        "The most deliveries in any 1,000 ms, evenly spaced, up to 1000000. 0 no limit. Default 0.",
    ),
    Argument::new("duration", Kind::Duration)
        .after("dead-retention")
        .about("How long a job that dies from now on is kept, at least 1ms. Default 30d."),
    Argument::new("n", Kind::Integer)
        .after("dead-max")
        .about("How many dead jobs are kept; the oldest leave. 0 keeps none. Default 100000."),
    Argument::one_of("due-enters", SIDES).after("due-enters").about(
        "Where jobs that fall due enter the list of ready ones. With `left`, DELAY.POP and RESERVE take \
         from the right. Default `right`.",
    ),
];

const SIDES: &[Argument] = &[Argument::word("right", "right"), Argument::word("left", "left")];

const NAMES: &[Argument] = &[
    Argument::word("attempts", "attempts"),
    Argument::word("backoff", "backoff"),
    Argument::word("lease", "lease"),
    Argument::word("priority", "priority"),
    Argument::word("ttl", "ttl"),
    Argument::word("max-jobs", "max-jobs"),
    Argument::word("max-leased", "max-leased"),
    Argument::word("rate", "rate"),
    Argument::word("dead-retention", "dead-retention"),
    Argument::word("dead-max", "dead-max"),
    Argument::word("due-enters", "due-enters"),
];

const DIRECTION: Argument = Argument::one_of(
    "direction",
    &[
        Argument::word("in", "IN").about("Adding: ADD and pushes answer `PAUSED`."),
        Argument::word("out", "OUT").about("Taking: the queue counts as empty."),
        Argument::word("all", "ALL").about("Both. The default."),
    ],
)
.optional();

const OPENED: Argument = Argument::one_of(
    "direction",
    &[
        Argument::word("in", "IN").about("Adding."),
        Argument::word("out", "OUT").about("Taking."),
        Argument::word("all", "ALL").about("Both. The default."),
    ],
)
.optional();

const KEY: Keys = Keys::Range { first: 1, last: 1 };

const SUBCOMMAND: CommandSpec =
    CommandSpec { keys: Keys::Range { first: 2, last: 2 }, ..CommandSpec::BASE };

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "delay.config",
        summary: "A queue's policies and limits",
        subcommands: &[
            CommandSpec {
                name: "delay.config|get",
                summary: "Shows a queue's policies and limits",
                arguments: &[QUEUE, Argument::one_of("name", NAMES).optional()],
                flags: &[Flag::ReadOnly, Flag::Fast],
                access: Access::Look,
                reply: "Map (in RESP2 a flat array) from names to values, as SET takes them: what is set for \
                        the queue, else the default. Without a name all of them, and `set`: an array of the \
                        names that are set for the queue.",
                notes: "A queue that does not exist shows the defaults, which its first job would get.",
                example: &[
                    ("DELAY.CONFIG SET mail rate 50", "OK"),
                    ("DELAY.CONFIG GET mail rate", "1) \"rate\"\n2) \"50\""),
                ],
                parse: Some(parse_get),
                ..SUBCOMMAND
            },
            help("delay.config|help", Group::Delay),
            CommandSpec {
                name: "delay.config|reset",
                summary: "Sets a queue's policies and limits back to the defaults",
                arguments: &[QUEUE],
                flags: &[Flag::Write, Flag::Fast],
                access: Access::Update,
                reply: "Simple string: `OK`.",
                notes: "Jobs keep what they were added with.",
                example: &[("DELAY.CONFIG RESET mail", "OK")],
                parse: Some(|args| {
                    Ok(Action::Engine(Request::Unconfigure { queue: args.queue()? }))
                }),
                ..SUBCOMMAND
            },
            CommandSpec {
                name: "delay.config|set",
                summary: "Sets policies and limits of a queue, all that are named or none",
                complexity: "O(N) where N is the number of settings named",
                arguments: &[QUEUE, Argument::one_of("setting", SETTINGS).multiple()],
                flags: &[Flag::Write, Flag::Fast],
                access: Access::Update,
                reply: "Simple string: `OK`.",
                notes: "What is not named stays as it is. `attempts`, `backoff`, `priority` and `ttl` are for jobs \
                        added from now on; the others hold at once, `dead-retention` for jobs that die from now \
                        on. A queue for which something is set exists without a job, and survives a restart. A \
                        limit below what is there removes no job: `max-jobs` refuses new ones until there are \
                        fewer, `max-leased` lets running leases run. Only `dead-max` makes the oldest dead jobs \
                        leave, before it is set: with the reply there are no more than it says. Many leave in \
                        slices; a client that goes away meanwhile, or a journal without room, leaves it as it \
                        was with those dropped that have left.",
                example: &[
                    ("DELAY.CONFIG SET mail rate 50 max-leased 10 backoff 1s,10s,1m", "OK"),
                    (
                        "DELAY.CONFIG SET mail rate 50 lease 0s",
                        "(error) ERR lease '0s' is too short; the least is 1ms",
                    ),
                ],
                parse: Some(parse_set),
                ..SUBCOMMAND
            },
        ],
        reply: "Depends on the subcommand.",
        ..CommandSpec::BASE
    },
    CommandSpec {
        name: "delay.pause",
        summary: "Closes a queue for adding, for taking, or for both",
        arguments: &[
            QUEUE,
            DIRECTION,
            Argument::option("FOR", "duration", Kind::Duration)
                .about("It opens again by itself after this long, 1ms to `max-delay` (3650d)."),
        ],
        flags: &[Flag::Write, Flag::Fast],
        keys: KEY,
        access: Access::Update,
        reply: "Simple string: `OK`.",
        notes: "IN: ADD, pushes and moves into the queue answer the error class `PAUSED`; NACK, REDRIVE, \
                RESCHEDULE and leases go on. OUT: whoever takes sees an empty queue, and whoever waits is served \
                when it opens; LEN, PEEK and the like see it as it is. Jobs fall due and expire meanwhile. A \
                direction that was paused before is paused as this call says; the other one stays as it is. \
                Pauses survive a restart.",
        example: &[
            ("DELAY.PAUSE mail IN FOR 10m", "OK"),
            (
                "DELAY.ADD mail 5s hello",
                "(error) PAUSED queue 'mail' takes no jobs for 600000ms more",
            ),
        ],
        parse: Some(parse_pause),
        ..CommandSpec::BASE
    },
    CommandSpec {
        name: "delay.resume",
        summary: "Opens a paused queue",
        arguments: &[QUEUE, OPENED],
        flags: &[Flag::Write, Flag::Fast],
        keys: KEY,
        access: Access::Update,
        reply: "Simple string: `OK`, also if it was open.",
        notes: "Whoever waits is served at once, in the order in which they came.",
        example: &[("DELAY.RESUME mail", "OK")],
        parse: Some(parse_resume),
        ..CommandSpec::BASE
    },
];

fn parse_get<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let mut only = None;
    while let Some(option) = args.option()? {
        only = Setting::ALL.into_iter().find(|setting| setting.word() == option);
    }
    Ok(Action::Engine(Request::Settings { queue, only }))
}

fn parse_set<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let mut changes = Box::new(QueueSettings::default());
    while let Some(option) = args.option()? {
        let of_u32 = u64::from(u32::MAX);
        match option {
            "attempts" => changes.attempts = Some(args.integer("attempts", 0, of_u32)? as u32),
            "backoff" => changes.backoff = Some(args.backoff()?),
            "lease" => changes.lease_ms = Some(args.duration("lease", 1)?),
            "priority" => changes.priority = Some(args.priority()?),
            "ttl" => changes.ttl_ms = Some(args.duration("ttl", 0)?),
            "max-jobs" => changes.max_jobs = Some(args.integer("max-jobs", 0, of_u32)?),
            "max-leased" => changes.max_leased = Some(args.integer("max-leased", 0, of_u32)?),
            "rate" => changes.rate = Some(args.integer("rate", 0, RATE_MAX.into())? as u32),
            "dead-retention" => {
                changes.dead_retention_ms = Some(args.duration("dead-retention", 1)?);
            }
            "dead-max" => changes.dead_max = Some(args.integer("dead-max", 0, of_u32)?),
            "due-enters" => {
                let left = args.choice()? == Side::Left.word();
                changes.due_enters = Some(if left { Side::Left } else { Side::Right });
            }
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Engine(Request::Configure { queue, changes }))
}

fn parse_pause<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut direction, mut for_ms) = (Direction::All, None);
    while let Some(option) = args.option()? {
        match option {
            "FOR" => for_ms = Some(args.duration("FOR", 1)?),
            word => direction = direction_of(word),
        }
    }
    Ok(Action::Engine(Request::Pause { queue, direction, for_ms }))
}

fn parse_resume<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let mut direction = Direction::All;
    while let Some(option) = args.option()? {
        direction = direction_of(option);
    }
    Ok(Action::Engine(Request::Resume { queue, direction }))
}

fn direction_of(word: &str) -> Direction {
    match word {
        "IN" => Direction::In,
        "OUT" => Direction::Out,
        _ => Direction::All,
    }
}
