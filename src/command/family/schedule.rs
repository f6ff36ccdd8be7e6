//! Recurring jobs: DELAY.SCHEDULE.

mod parse;

use crate::command::family::help::help;
use crate::command::family::produce::{PRIORITY, QUEUE};
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, Keys};

const NAME: Argument =
    Argument::new("name", Kind::Bytes).about("1 to 480 bytes, unique in its queue.");

const EVERY: Argument = Argument::new("every", Kind::Duration).after("EVERY").shown("duration").about(
    "100ms to `max-delay` (3650d). The first occurrence comes this long after the schedule was made, or at FROM; \
     the others follow at even distances. `1d` is 24 hours, also when clocks change: for a time of day use CRON.",
);

const CRON: Argument = Argument::new("pattern", Kind::Cron).after("CRON").about(
    "Minute, hour, day of the month, month, day of the week; with six fields the second comes first. At most 256 \
     bytes. A field takes `*`, values, ranges `9-17`, steps `*/15`, lists `1,15`, and names such as `JAN` or \
     `MON`; Sunday is 0 and 7. Days of the month are also `L` (the last), `LW` (the last weekday), `15W` (the \
     weekday nearest to the 15th), days of the week `5L` (the last Friday) and `5#2` (the second one). If both \
     fields for days say something, a day matches that either of them names; `+` in front of the day of the week \
     asks for both. Or one of `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`.",
);

const TZ: Argument = Argument::option("TZ", "zone", Kind::Zone).about(
    "The zone whose clocks count: a name of the IANA database in any case, `UTC`, or an offset such as `+05:30`. \
     Default `UTC`, whatever the zone of the machine.",
);

const RULE: Argument = Argument::one_of("rule", &[EVERY, Argument::block("cron", &[CRON, TZ])]);

const SET_ARGUMENTS: &[Argument] = &[
    QUEUE,
    NAME,
    Argument::new("body", Kind::Bytes).about("Any bytes, at most 1mb: each job gets a copy."),
    RULE,
    Argument::option("FROM", "from", Kind::Instant).shown("instant").about(
        "No occurrence is before it: `@` and unix ms, or a date, time and offset such as `2030-01-31T12:30:00Z`, up \
         to the year 9999. With EVERY it is the first one, and in the past it says where the others lie.",
    ),
    Argument::option("UNTIL", "until", Kind::Instant)
        .shown("instant")
        .about("No occurrence is after it, as FROM; not before FROM."),
    Argument::option("RUNS", "runs", Kind::Integer).shown("n").about(
        "So many occurrences are made, 1 to 4294967295, then the schedule is done. Those that are missed or \
         skipped do not count.",
    ),
    Argument::option("SPREAD", "spread", Kind::Duration).shown("duration").about(
        "Each occurrence comes later by a share of this that follows from the name and is always the same. Up to \
         1d, and less than the duration of EVERY. Default 0.",
    ),
    Argument::one_of(
        "overlap",
        &[
            Argument::word("allow", "ALLOW").about("An occurrence is made whatever became of the one before."),
            Argument::word("skip", "SKIP")
                .about("It is skipped while an earlier one is delayed, ready or leased."),
            Argument::word("replace", "REPLACE")
                .about("Earlier ones that are delayed or ready are removed; one that is leased goes on."),
        ],
    )
    .after("OVERLAP")
    .optional()
    .about("What is done while an earlier occurrence is open. Default ALLOW."),
    Argument::option("CATCHUP", "catchup", Kind::Integer).shown("n").about(
        "How many of those that came due while they could not be made are made afterwards, 1 to 10000, the newest \
         ones. Default 1.",
    ),
    Argument::option("GRACE", "grace", Kind::Duration)
        .shown("duration")
        .about("What is later than this is missed, at least 1s. Default: nothing is too late."),
    PRIORITY.about("Of its jobs; 0 is first. Default: the queue's, else 5."),
    Argument::option("ATTEMPTS", "attempts", Kind::Integer)
        .shown("n")
        .about("Deliveries before a job is dead; 0 no limit. Default: the queue's, else 20."),
    Argument::option("BACKOFF", "backoff", Kind::Backoff)
        .about("What a failed delivery waits, as ADD takes it. Default: the queue's, else `exp:1s:1h~`."),
    Argument::option("LEASE", "lease", Kind::Duration).shown("duration").about(
        "How long a consumer has a job, 1ms to `max-lease` (24h). Default: the queue's, else `default-lease` (60s).",
    ),
    Argument::option("TTL", "ttl", Kind::Duration).shown("duration").about(
        "A job expires this long after its due time unless it was delivered; 0 never. Default: the queue's, else 0.",
    ),
];

const KEY: Keys = Keys::Range { first: 2, last: 2 };

/// What changes a schedule, or a queue by one.
const WRITES: CommandSpec = CommandSpec {
    flags: &[Flag::Write, Flag::Fast],
    keys: KEY,
    access: Access::Set,
    ..CommandSpec::BASE
};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "delay.schedule",
    summary: "Jobs that come again and again",
    subcommands: &[
        DEL,
        EXPLAIN,
        GET,
        help("delay.schedule|help", Group::Delay),
        LIST,
        NEXT,
        PAUSE,
        RESUME,
        RUN,
        SET,
        ZONES,
    ],
    reply: "Depends on the subcommand.",
    ..CommandSpec::BASE
}];

const SET: CommandSpec = CommandSpec {
    name: "delay.schedule|set",
    summary: "Makes a schedule, which adds a job at each of its instants, or changes it into exactly this",
    complexity: "O(1), and the search for the next instant",
    arguments: SET_ARGUMENTS,
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    reply: "Array: what happened (bulk string: `created`, `changed` or `same`), and the nominal instant of the next \
            occurrence (integer: unix ms; nil if none is left).",
    notes: "Saying the same again changes nothing, so every instance of a program may say it at every start; what is \
            not named goes back to its default. An occurrence is a job as any other, made when its time has come, with \
            the id `name@<unix ms of its nominal instant>`; what becomes of it changes nothing of the schedule. A \
            queue with a schedule exists without a job. A schedule without an instant left is `done` and stays until \
            it is removed; one that is paused stays paused.\n\n\
            When the clocks of a zone are set, a pattern whose second, minute or hour begins with `*` follows elapsed \
            time; every other pattern has each local time once: in a gap at the first instant after it, and of two \
            passes in the first.\n\n\
            When the rule, TZ, FROM or SPREAD changes, the next occurrence is the first of the new rule after now. \
            When only something else changes, it stays as it was. Names of weekdays mean the same everywhere, numbers \
            do not: in Quartz 2 is Monday.\n\n\
            A paused or full queue takes schedules; while it is paused or full, or memory is short, what comes due is \
            held, and CATCHUP says what is made of it afterwards. With OVERLAP SKIP a job that waits for its next \
            attempt is open, too. A server at `maxmemory` answers `OOM`.",
    example: &[
        (
            "DELAY.SCHEDULE SET reports daily build CRON \"0 8 * * 1-5\" TZ Europe/Berlin OVERLAP SKIP",
            "1) \"created\"\n2) (integer) 1800255600000",
        ),
        (
            "DELAY.SCHEDULE SET reports daily build CRON \"0 8 * * 1-5\" TZ Europe/Berlin OVERLAP SKIP",
            "1) \"same\"\n2) (integer) 1800255600000",
        ),
        (
            "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
            "1) \"created\"\n2) (integer) 1800000300000",
        ),
        (
            "DELAY.SCHEDULE SET poll bank \"\" CRON \"0 0 30 2 *\"",
            "(error) ERR cron '0 0 30 2 *' never occurs",
        ),
        (
            "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m TZ Europe/Berlin",
            "(error) ERR TZ goes with CRON; EVERY counts elapsed time",
        ),
    ],
    parse: Some(parse::set),
    ..WRITES
};

const GET: CommandSpec = CommandSpec {
    name: "delay.schedule|get",
    summary: "Shows all of a schedule",
    arguments: &[QUEUE, NAME],
    flags: &[Flag::ReadOnly, Flag::Fast],
    keys: KEY,
    reply: "Map (in RESP2 a flat array), nil if there is none: `name`, `state` (`active`, `paused`, `held`: something \
            is due that cannot be made, `done`: no instant is left), `every`, or `cron` and `tz`, `from`, `until`, \
            `runs`, `runs-left`, `spread`, `overlap`, `catchup`, `grace`, `priority`, `attempts`, `backoff`, `lease`, \
            `ttl`, `body`, `changed` (by SET), `next` (the nominal instant), `next-due` (with its share of SPREAD), \
            `last`, `last-made`, `last-id`, `open` (array: ids of those of the last 16 jobs that are delayed, ready or \
            leased), `paused-until`, `held` (why: `paused`, `full`, `memory`, `journal`, `zone`, `pattern`), and \
            totals `made`, `missed`, `skipped`, `replaced`. What is not set is nil, instants are unix ms.",
    notes: "Every nominal instant that came due is made, missed (it could not be made in time) or skipped (by \
            OVERLAP, or as its id was taken).",
    example: &[("DELAY.SCHEDULE GET poll nothing", "(nil)")],
    parse: Some(parse::get),
    ..CommandSpec::BASE
};

const DEL: CommandSpec = CommandSpec {
    name: "delay.schedule|del",
    summary: "Removes schedules; the jobs that they made stay",
    complexity: "O(N) where N is the number of names",
    arguments: &[QUEUE, NAME.multiple()],
    reply: "Integer: how many were removed.",
    notes: "A pause and the totals go with the schedule.",
    example: &[("DELAY.SCHEDULE DEL poll nothing", "(integer) 0")],
    parse: Some(parse::delete),
    ..WRITES
};

const LIST: CommandSpec = CommandSpec {
    name: "delay.schedule|list",
    summary: "Shows the schedules of a queue, in the order of their names",
    complexity: "O(N) where N is the number of schedules looked at",
    arguments: &[
        QUEUE,
        Argument::option("AFTER", "after", Kind::Bytes)
            .shown("name")
            .about("Goes on after this name, which may be gone by now; empty begins."),
        Argument::option("MATCH", "pattern", Kind::Pattern).shown("glob").about(
            "Only names that match: `*`, `?`, `[a-z]`, `\\` before a byte that means itself.",
        ),
        Argument::option("COUNT", "count", Kind::Integer)
            .shown("n")
            .about("The most to show, 1 to 10000. Default 100."),
    ],
    flags: &[Flag::ReadOnly],
    keys: KEY,
    reply: "Array of schedules, each an array: name, state, rule (`every 5m` or `cron 0 8 * * 1-5 Europe/Berlin`), \
            next nominal instant and last one (unix ms or nil).",
    notes: "Looks at 10,000 names at most. Without MATCH, fewer rows than COUNT are the last ones; with MATCH go on \
            until none come.",
    example: &[
        (
            "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
            "1) \"created\"\n2) (integer) 1800000300000",
        ),
        (
            "DELAY.SCHEDULE LIST poll",
            "1) 1) \"bank\"\n   2) \"active\"\n   3) \"every 5m\"\n   4) (integer) 1800000300000\n   5) (nil)",
        ),
    ],
    parse: Some(parse::list),
    ..CommandSpec::BASE
};

const PAUSE: CommandSpec = CommandSpec {
    name: "delay.schedule|pause",
    summary: "Makes no occurrences of a schedule until it is resumed",
    arguments: &[
        QUEUE,
        NAME,
        Argument::option("FOR", "duration", Kind::Duration)
            .about("It goes on by itself after this long, 1ms to `max-delay` (3650d)."),
    ],
    reply: "Integer: 1, also if it was paused; 0 if there is no such schedule.",
    notes: "While it is paused nothing is made and nothing counted, and afterwards nothing is made up for. A pause \
            survives SET, a restart and RENAME, not DEL.",
    example: &[
        (
            "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
            "1) \"created\"\n2) (integer) 1800000300000",
        ),
        ("DELAY.SCHEDULE PAUSE poll bank FOR 1h", "(integer) 1"),
    ],
    parse: Some(parse::pause),
    ..WRITES
};

const RESUME: CommandSpec = CommandSpec {
    name: "delay.schedule|resume",
    summary: "Lets a paused schedule go on with its first instant after now",
    complexity: "O(1), and the search for the next instant",
    arguments: &[QUEUE, NAME],
    reply: "Integer: 1, also if it was not paused; 0 if there is no such schedule.",
    example: &[("DELAY.SCHEDULE RESUME poll nothing", "(integer) 0")],
    parse: Some(parse::resume),
    ..WRITES
};

const RUN: CommandSpec = CommandSpec {
    name: "delay.schedule|run",
    summary: "Makes an occurrence of a schedule now, whatever the time",
    complexity: "O(1)",
    arguments: &[
        QUEUE,
        NAME,
        Argument::word("force", "FORCE")
            .optional()
            .about("Also under OVERLAP SKIP while an earlier one is open."),
    ],
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    reply: "Bulk string: the id, `name@<now>`, or the next one that is free. Nil under OVERLAP SKIP while an earlier \
            one is open.",
    notes: "Also of a schedule that is paused or done. Its own instants stay as they are, and RUNS does not count it. \
            Under OVERLAP REPLACE what waits gives way. A paused queue answers `PAUSED`, one at its `max-jobs` answers \
            `FULL`, and a server at `maxmemory` answers `OOM`.",
    example: &[
        (
            "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
            "1) \"created\"\n2) (integer) 1800000300000",
        ),
        ("DELAY.SCHEDULE RUN poll bank", "\"bank@1800000000000\""),
        ("DELAY.SCHEDULE RUN poll nothing", "(error) ERR no such schedule"),
    ],
    parse: Some(parse::run),
    ..WRITES
};

const INSTANTS: Argument = Argument::option("COUNT", "count", Kind::Integer)
    .shown("n")
    .about("How many, 1 to 1000. Default 1.");

const NEXT: CommandSpec = CommandSpec {
    name: "delay.schedule|next",
    summary: "Tells the next nominal instants of a schedule",
    complexity: "O(N) where N is the number of instants",
    arguments: &[QUEUE, NAME, INSTANTS],
    flags: &[Flag::ReadOnly],
    keys: KEY,
    reply: "Array of integers: unix ms; fewer if the schedule ends.",
    example: &[
        (
            "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
            "1) \"created\"\n2) (integer) 1800000300000",
        ),
        (
            "DELAY.SCHEDULE NEXT poll bank COUNT 2",
            "1) (integer) 1800000300000\n2) (integer) 1800000600000",
        ),
    ],
    parse: Some(parse::next),
    ..CommandSpec::BASE
};

const EXPLAIN: CommandSpec = CommandSpec {
    name: "delay.schedule|explain",
    summary: "Tells when a rule would make jobs, without setting it",
    complexity: "O(N) where N is the number of instants",
    arguments: &[
        Argument::one_of(
            "rule",
            &[EVERY.about(""), Argument::block("cron", &[CRON.about(""), TZ.about("")])],
        )
        .about("As SET takes it."),
        Argument::option("FROM", "from", Kind::Instant)
            .shown("instant")
            .about("Where to begin, as SET takes it; also in the past. Default now."),
        INSTANTS,
    ],
    flags: &[Flag::ReadOnly],
    reply: "Array of instants, each an array: unix ms (integer) and what the clocks of the zone show (bulk string).",
    example: &[(
        "DELAY.SCHEDULE EXPLAIN CRON \"30 2 * * *\" TZ Europe/Berlin FROM 2027-03-27T00:00:00Z COUNT 3",
        "1) 1) (integer) 1806111000000\n   2) \"2027-03-27T02:30:00+01:00\"\n\
         2) 1) (integer) 1806195600000\n   2) \"2027-03-28T03:00:00+02:00\"\n\
         3) 1) (integer) 1806280200000\n   2) \"2027-03-29T02:30:00+02:00\"",
    )],
    parse: Some(parse::explain),
    ..CommandSpec::BASE
};

const ZONES: CommandSpec = CommandSpec {
    name: "delay.schedule|zones",
    summary: "Tells the names of the time zones that TZ takes",
    complexity: "O(N) where N is the number of zones, about 600",
    arguments: &[Argument::option("MATCH", "pattern", Kind::Pattern)
        .shown("glob")
        .about("Only names that match, in this case.")],
    flags: &[Flag::ReadOnly],
    reply: "Array of bulk strings, in order.",
    notes: "Names are of the tables in use, which INFO names as `tzdata_version`; offsets such as `+05:30` are taken, \
            too.",
    example: &[("DELAY.SCHEDULE ZONES MATCH Europe/Ber*", "1) \"Europe/Berlin\"")],
    parse: Some(parse::zones),
    ..CommandSpec::BASE
};
