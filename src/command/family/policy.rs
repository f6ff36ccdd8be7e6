//! The settings of a queue: its policies and limits, and pausing it.

use crate::command::family::help::help;
use crate::command::family::produce::{GROUP, QUEUE};
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, KeyPositions, row};
use crate::engine::model::group::{GroupRetry, GroupSettings, Grouping};
use crate::engine::model::queue_settings::{Later, Pause, QueueSettings, Setting, Side};
use crate::engine::model::request::{Direction, Request};
use crate::error::Error;
use crate::limits::{GROUP_WEIGHT_MAX, RATE_MAX};

const SETTINGS: &[Argument] = &[
    Argument::new("n", ArgumentKind::Integer)
        .after("attempts")
        .about("Deliveries before a new job is dead; 0 no limit. Default 20."),
    Argument::new("ladder", ArgumentKind::Backoff)
        .after("backoff")
        .about("The delay after a failed delivery of a new job, as ADD takes it. Default `exp:1s:1h~`."),
    Argument::new("duration", ArgumentKind::Duration).after("lease").about(
        "The lease if neither RESERVE nor the job gives one, 1ms to `max-lease` (24h). Default: \
         `default-lease` (60s).",
    ),
    Argument::new("0-9", ArgumentKind::Integer)
        .after("priority")
        .about("The priority of a new job; 0 is first. Default 5."),
    Argument::new("duration", ArgumentKind::Duration)
        .after("ttl")
        .about("A new job expires this long after its due time unless it was delivered; 0 never. Default 0."),
    Argument::new("n", ArgumentKind::Integer).after("max-jobs").about(
        "Maximum number of delayed, ready and leased jobs; beyond it ADD and pushes answer `FULL`. 0 no limit. Default 0.",
    ),
    Argument::new("n", ArgumentKind::Integer).after("max-leased").about(
        "Maximum number of leases at once; at the limit consumers see an empty queue. 0 no limit. Default 0.",
    ),
    Argument::new("n", ArgumentKind::Integer).after("rate").about(
        "Maximum number of deliveries in any 1,000 ms, evenly spaced, up to 1000000. 0 no limit. Default 0.",
    ),
    Argument::new("duration", ArgumentKind::Duration)
        .after("dead-retention")
        .about("How long a job that dies from now on is kept, at least 1ms. Default 30d."),
    Argument::new("n", ArgumentKind::Integer)
        .after("dead-max")
        .about("How many dead jobs are kept; the oldest are dropped. 0 keeps none. Default 100000."),
    Argument::one_of("due-enters", SIDES).after("due-enters").about(
        "Where jobs that fall due enter the list of ready jobs. With `left`, DELAY.POP and RESERVE take \
         from the right. Default `right`.",
    ),
    Argument::new("n", ArgumentKind::Integer).after("group-weight").about(
        "How many jobs each group gives in its turn, and its share of consumers, 1 to 1000. Default 1.",
    ),
    Argument::new("n", ArgumentKind::Integer).after("group-max-leased").about(
        "Maximum number of leases of each group at once; at the limit its other jobs wait, and no other group does. \
         0 no limit. Default 0.",
    ),
    Argument::one_of("group-retry", RETRIES).after("group-retry").about(
        "With `block` a job counts for group-max-leased from its first delivery until it has ended, and comes before those \
         of its group that were never delivered: a job that waits for its next attempt is not overtaken. Default `pass`.",
    ),
    Argument::new("rate", ArgumentKind::Rate).after("group-rate").about(
        "Maximum number of deliveries of each group, evenly spaced: `5` in any second, `100/1m` in any minute; up to 1000000 \
         in 1s to 1d. It holds over restarts. 0 no limit. Default 0.",
    ),
    Argument::new("n", ArgumentKind::Integer).after("group-max-jobs").about(
        "Maximum number of delayed, ready and leased jobs of each group; beyond it ADD answers `FULL`. Occurrences of schedules and \
         redriven jobs are not refused. 0 no limit. Default 0.",
    ),
];

const SIDES: &[Argument] = &[Argument::word("right", "right"), Argument::word("left", "left")];
const RETRIES: &[Argument] = &[Argument::word("pass", "pass"), Argument::word("block", "block")];

/// The names of the settings, each as a word alone.
const NAMES: &[Argument] = &{
    let (mut names, mut at) = ([SETTINGS[0]; SETTINGS.len()], 0);
    while at < names.len() {
        let Some(name) = SETTINGS[at].token else { panic!("a setting has a name") };
        names[at] = Argument::word(name, name);
        at += 1;
    }
    names
};

const ONE_GROUP: Argument =
    GROUP.about("As it holds for this group of the queue: its own value, else the queue's.");

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

const SUBCOMMAND: CommandSpec = CommandSpec::BASE.keys(KeyPositions::Range { first: 2, last: 2 });

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("delay.config", "A queue's policies and limits", CommandSpec::BASE)
        .subcommands(&[
            row("delay.config|get", "Shows a queue's policies and limits", SUBCOMMAND)
                .arguments(&[QUEUE, ONE_GROUP, Argument::one_of("name", NAMES).optional()])
                .flags(&[Flag::ReadOnly, Flag::Fast])
                .access(Access::Look)
                .reply("Map (in RESP2 a flat array) from names to values, as SET takes them: the queue's own value, \
                        else the default. Without a name all of them, and `set`: an array of the names that are set \
                        for the queue.")
                .notes("A queue that does not exist shows the defaults that its first job would get.")
                .example(&[
                    ("DELAY.CONFIG SET mail rate 50", "OK"),
                    ("DELAY.CONFIG GET mail rate", "1) \"rate\"\n2) \"50\""),
                ])
                .parse(parse_get),
            help("delay.config|help", Group::Delay),
            row(
                "delay.config|reset",
                "Sets a queue's policies and limits back to the defaults",
                SUBCOMMAND,
            )
            .arguments(&[QUEUE, GROUP.about("Only what is set for this group; without it that stays.")])
            .flags(&[Flag::Write, Flag::Fast])
            .access(Access::Update)
            .reply("Simple string: `OK`.")
            .notes("Existing jobs keep their values.")
            .example(&[("DELAY.CONFIG RESET mail", "OK")])
            .parse(parse_reset),
            row(
                "delay.config|set",
                "Sets policies and limits of a queue, all given ones or none",
                SUBCOMMAND,
            )
            .complexity("O(N) where N is the number of settings named")
            .arguments(&[
                QUEUE,
                GROUP.about("For this group alone; then only group-weight, group-max-leased, group-retry, group-rate and group-max-jobs can be set. At most 10000 groups of a queue."),
                Argument::one_of("setting", SETTINGS).multiple(),
            ])
            .flags(&[Flag::Write, Flag::Fast])
            .access(Access::Update)
            .reply("Simple string: `OK`.")
            .notes("Settings that are not given stay as they are. `attempts`, `backoff`, `priority` and `ttl` \
                    apply to jobs added from now on, `dead-retention` to jobs that die from now on; the others \
                    apply at once. A queue with a setting exists without a job, and survives a restart. A limit \
                    below the current number removes no job: `max-jobs` refuses new ones until there are fewer, \
                    `max-leased` lets running leases run. Only `dead-max` drops jobs, the oldest dead ones, \
                    before it is set: when the reply is sent, no more are left than it allows. Many jobs are \
                    dropped in slices; if the client disconnects meanwhile, or the journal has no space, the \
                    setting stays as it was, and jobs dropped so far are gone.")
            .example(&[
                ("DELAY.CONFIG SET mail rate 50 max-leased 10 backoff 1s,10s,1m", "OK"),
                (
                    "DELAY.CONFIG SET mail rate 50 lease 0s",
                    "(error) ERR lease '0s' is too short; the minimum is 1ms",
                ),
            ])
            .parse(parse_set),
        ])
        .reply("Depends on the subcommand."),
    row("delay.pause", "Pauses a queue for adding, for taking, or for both", CommandSpec::OF_QUEUE)
        .arguments(&[
            QUEUE,
            DIRECTION,
            GROUP.about("Only this group, for taking: its jobs wait, and no other group does. OUT may be said."),
            Argument::option("FOR", "duration", ArgumentKind::Duration)
                .about("It resumes by itself after this long, 1ms to `max-delay` (3650d)."),
        ])
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Update)
        .reply("Simple string: `OK`.")
        .notes("IN: ADD, pushes and moves into the queue answer the error class `PAUSED`; NACK, REDRIVE, \
                RESCHEDULE and leases go on. OUT: consumers see an empty queue, and waiting ones are served when it \
                resumes; LEN, PEEK and similar commands show it as it is. Jobs still fall due and expire. A \
                direction that is already paused takes the new duration; the other one stays as it is. Pauses \
                survive a restart.")
        .example(&[
            ("DELAY.PAUSE mail IN FOR 10m", "OK"),
            (
                "DELAY.ADD mail 5s hello",
                "(error) PAUSED queue 'mail' accepts no jobs for 600000ms more",
            ),
        ])
        .parse(parse_pause),
    row("delay.resume", "Resumes a paused queue", CommandSpec::OF_QUEUE)
        .arguments(&[QUEUE, OPENED, GROUP.about("Only this group. OUT may be said.")])
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Update)
        .reply("Simple string: `OK`, even if it was not paused.")
        .notes("Waiting consumers are served at once, in the order in which they came.")
        .example(&[("DELAY.RESUME mail", "OK")])
        .parse(parse_resume),
];

fn parse_get<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut group, mut only) = (None, None);
    while let Some(option) = args.option()? {
        match option {
            "GROUP" => group = Some(args.group()?),
            name => only = Setting::ALL.into_iter().find(|setting| setting.word() == name),
        }
    }
    let Some(group) = group else {
        return Ok(Action::Engine(Request::Settings { queue, only }));
    };
    only.into_iter().try_for_each(check_of_groups)?;
    Ok(Action::Engine(Request::Groups(Grouping::Settings { queue, group, only })))
}

fn parse_reset<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    Ok(Action::Engine(match args.option()? {
        None => Request::Unconfigure { queue },
        Some(_) => Request::Groups(Grouping::Unconfigure { queue, group: args.last_group()? }),
    }))
}

/// Whether a setting can be that of one group.
fn check_of_groups(setting: Setting) -> Result<(), Error> {
    if setting.is_of_groups() {
        return Ok(());
    }
    let all = Setting::ALL.into_iter().filter(|setting| setting.is_of_groups());
    let words = all.map(Setting::word).collect::<Vec<_>>().join(", ");
    let word = setting.word();
    Err(Error::text(format!(
        "ERR '{word}' is a setting of the queue; for one group there are {words}"
    )))
}

fn parse_set<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut group, mut changes) = (None, Box::new(QueueSettings::default()));
    while let Some(option) = args.option()? {
        let of_u32 = u64::from(u32::MAX);
        match option {
            "GROUP" => group = Some(args.group()?),
            "group-weight" => {
                let weight = args.integer("group-weight", 1, GROUP_WEIGHT_MAX.into())?;
                changes.group_weight = Later(Some(weight as u32));
            }
            "group-max-leased" => {
                let most = args.integer("group-max-leased", 0, of_u32)?;
                changes.group_max_leased = Later(Some(most as u32));
            }
            "group-retry" => {
                let block = args.choice()? == GroupRetry::Block.word();
                let retry = if block { GroupRetry::Block } else { GroupRetry::Pass };
                changes.group_retry = Later(Some(retry));
            }
            "group-rate" => changes.group_rate = Later(Some(args.rate()?)),
            "group-max-jobs" => {
                let most = args.integer("group-max-jobs", 0, of_u32)?;
                changes.group_max_jobs = Later(Some(most as u32));
            }
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
    let Some(group) = group else {
        return Ok(Action::Engine(Request::Configure { queue, changes }));
    };
    if changes.is_empty() {
        return Err(Error::text("ERR syntax error: GROUP needs a setting, such as group-weight"));
    }
    let named = Setting::ALL.into_iter().filter(|setting| setting.written(&changes).is_some());
    named.into_iter().try_for_each(check_of_groups)?;
    let QueueSettings { group_weight, group_max_leased, group_retry, .. } = *changes;
    let (weight, max_leased, retry) = (group_weight.0, group_max_leased.0, group_retry.0);
    let (rate, max_jobs) = (changes.group_rate, changes.group_max_jobs);
    let changes = GroupSettings { weight, max_leased, retry, rate, max_jobs, pause: Pause::None };
    Ok(Action::Engine(Request::Groups(Grouping::Configure { queue, group, changes })))
}

fn parse_pause<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut direction, mut group, mut for_ms) = (None, None, None);
    while let Some(option) = args.option()? {
        match option {
            "FOR" => for_ms = Some(args.duration("FOR", 1)?),
            "GROUP" => group = Some(args.group()?),
            word => direction = Some(direction_of(word)),
        }
    }
    Ok(Action::Engine(match group {
        Some(group) => {
            check_out(direction)?;
            Request::Groups(Grouping::Pause { queue, group, for_ms })
        }
        None => Request::Pause { queue, direction: direction.unwrap_or(Direction::All), for_ms },
    }))
}

/// A group takes jobs, whatever happens.
fn check_out(direction: Option<Direction>) -> Result<(), Error> {
    match direction {
        None | Some(Direction::Out) => Ok(()),
        _ => Err(Error::text("ERR a group can be closed for taking alone: OUT")),
    }
}

fn parse_resume<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let queue = args.queue()?;
    let (mut direction, mut group) = (None, None);
    while let Some(option) = args.option()? {
        match option {
            "GROUP" => group = Some(args.group()?),
            word => direction = Some(direction_of(word)),
        }
    }
    Ok(Action::Engine(match group {
        Some(group) => {
            check_out(direction)?;
            Request::Groups(Grouping::Resume { queue, group })
        }
        None => Request::Resume { queue, direction: direction.unwrap_or(Direction::All) },
    }))
}

fn direction_of(word: &str) -> Direction {
    match word {
        "IN" => Direction::In,
        "OUT" => Direction::Out,
        _ => Direction::All,
    }
}
