//! Recurring jobs: DELAY.SCHEDULE.

mod parse;

use crate::command::family::help::help;
use crate::command::family::produce::{GROUP, META, PRIORITY, QUEUE};
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, Group, KeyPositions, row};

const NAME: Argument =
    Argument::new("name", ArgumentKind::Bytes).about("1 to 480 bytes, unique in its queue.");

const EVERY: Argument = Argument::new("every", ArgumentKind::Duration).after("EVERY").shown("duration").about(
    "100ms to `max-delay` (3650d). The first occurrence comes this long after the schedule was created, or at FROM; \
     the others follow at equal intervals. `1d` is 24 hours, also when clocks change: for a time of day use CRON.",
);

const CRON: Argument = Argument::new("pattern", ArgumentKind::Cron).after("CRON").about(
    "Minute, hour, day of the month, month, day of the week; with six fields the second comes first. At most 256 \
     bytes. A field takes `*`, values, ranges `9-17`, steps `*/15`, lists `1,15`, and names such as `JAN` or \
     `MON`; Sunday is 0 and 7. Days of the month are also `L` (the last), `LW` (the last weekday), `15W` (the \
     weekday nearest to the 15th), days of the week `5L` (the last Friday) and `5#2` (the second one). If both day \
     fields are restricted, a day matches if either one does; `+` in front of the day of the week requires both. Or one of `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`.",
);

const TZ: Argument = Argument::option("TZ", "zone", ArgumentKind::Zone).about(
    "The time zone: a name of the IANA database in any case, `UTC`, or an offset such as `+05:30`. \
     Default `UTC`, whatever the zone of the machine.",
);

const RULE: Argument = Argument::one_of("rule", &[EVERY, Argument::block("cron", &[CRON, TZ])]);

const SET_ARGUMENTS: &[Argument] = &[
    QUEUE,
    NAME,
    Argument::new("body", ArgumentKind::Bytes).about("Any bytes, at most 1mb: each job gets a copy."),
    RULE,
    Argument::option("FROM", "from", ArgumentKind::Instant).shown("instant").about(
        "No occurrence is before it: `@` and unix ms, or a date, time and offset such as `2030-01-31T12:30:00Z`, up \
         to the year 9999. With EVERY it is the first one; if it is in the past, it defines the grid.",
    ),
    Argument::option("UNTIL", "until", ArgumentKind::Instant)
        .shown("instant")
        .about("No occurrence is after it, as FROM; not before FROM."),
    Argument::option("RUNS", "runs", ArgumentKind::Integer).shown("n").about(
        "The schedule is done after this many occurrences, 1 to 4294967295. Missed and skipped ones do not count.",
    ),
    Argument::option("SPREAD", "spread", ArgumentKind::Duration).shown("duration").about(
        "Delays each occurrence by a share of this that is derived from the name and always the same. Up to \
         1d, and less than the duration of EVERY. Default 0.",
    ),
    Argument::one_of(
        "overlap",
        &[
            Argument::word("allow", "ALLOW").about("The occurrence is made anyway."),
            Argument::word("skip", "SKIP")
                .about("The occurrence is skipped while an earlier one is delayed, ready or leased."),
            Argument::word("replace", "REPLACE")
                .about("Earlier occurrences that are delayed or ready are removed; a leased one goes on."),
        ],
    )
    .after("OVERLAP")
    .optional()
    .about("What happens while an earlier occurrence is open. Default ALLOW."),
    Argument::option("CATCHUP", "catchup", ArgumentKind::Integer).shown("n").about(
        "How many of the occurrences that came due while they could not be made are made afterwards, 1 to 10000, \
         newest ones. Default 1.",
    ),
    Argument::option("GRACE", "grace", ArgumentKind::Duration)
        .shown("duration")
        .about("An occurrence that is later than this is missed, at least 1s. Default: no limit."),
    PRIORITY.about("The priority of its jobs; 0 is first. Default: the queue's, else 5."),
    Argument::option("ATTEMPTS", "attempts", ArgumentKind::Integer)
        .shown("n")
        .about("Deliveries before a job is dead; 0 no limit. Default: the queue's, else 20."),
    Argument::option("BACKOFF", "backoff", ArgumentKind::Backoff)
        .about("The delay after a failed delivery, as ADD takes it. Default: the queue's, else `exp:1s:1h~`."),
    Argument::option("LEASE", "lease", ArgumentKind::Duration).shown("duration").about(
        "How long a consumer has a job, 1ms to `max-lease` (24h). Default: the queue's, else `default-lease` (60s).",
    ),
    Argument::option("TTL", "ttl", ArgumentKind::Duration).shown("duration").about(
        "A job expires this long after its due time unless it was delivered; 0 never. Default: the queue's, else 0.",
    ),
    GROUP.about("The group of its jobs, 1 to 512 bytes."),
    META,
];

const KEY: KeyPositions = KeyPositions::Range { first: 2, last: 2 };

/// Commands that change a schedule, or a queue through one.
const WRITES: CommandSpec =
    CommandSpec::BASE.flags(&[Flag::Write, Flag::Fast]).keys(KEY).access(Access::Set);

pub(in crate::command) const COMMANDS: &[CommandSpec] =
    &[row("delay.schedule", "Jobs that come again and again", CommandSpec::BASE)
        .subcommands(&[
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
        ])
        .reply("Depends on the subcommand.")];

const SET: CommandSpec = row(
    "delay.schedule|set",
    "Creates a schedule, which adds a job at each of its instants, or changes it to exactly this definition",
    WRITES,
)
.complexity("O(1) plus the search for the next instant")
.arguments(SET_ARGUMENTS)
.flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
.reply("Array: the result (bulk string: `created`, `changed` or `same`), and the nominal instant of the next \
        occurrence (integer: unix ms; nil if none is left).")
.notes("An identical SET changes nothing, so every instance of a program may send it at every start; options \
        that are not given go back to their defaults. An occurrence is an ordinary job, made when its time has \
        come, with the id `name@<unix ms of its nominal instant>`; its fate does not affect the schedule. A \
        queue with a schedule exists without a job. A schedule without an instant left is `done` and stays until \
        it is removed; a paused one stays paused.\n\n\
        When the clocks of a zone change, a pattern whose second, minute or hour begins with `*` follows elapsed \
        time. Every other pattern has each local time once: in a gap at the first instant after it, in a fold at \
        the first of both.\n\n\
        If the rule, TZ, FROM or SPREAD changes, the next occurrence is the first of the new rule after now. \
        Otherwise it stays as it was. Names of weekdays mean the same everywhere, numbers \
        do not: in Quartz 2 is Monday.\n\n\
        A paused or full queue accepts schedules. While it is paused or full, or memory is short, due \
        occurrences are held, and CATCHUP defines how many are made afterwards. With OVERLAP SKIP a job that \
        waits for its next attempt is open, too. A server at `maxmemory` answers `OOM`.")
.example(&[
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
])
.parse(parse::set);

const GET: CommandSpec = row(
    "delay.schedule|get",
    "Shows all fields of a schedule",
    CommandSpec::BASE,
)
.arguments(&[QUEUE, NAME])
.flags(&[Flag::ReadOnly, Flag::Fast])
.keys(KEY)
.reply("Map (in RESP2 a flat array), nil if there is no such schedule: `name`, `state` (`active`, `paused`, `held`: an \
        occurrence is due but cannot be made, `done`: no instant is left), `every`, or `cron` and `tz`, `from`, `until`, \
        `runs`, `runs-left`, `spread`, `overlap`, `catchup`, `grace`, `priority`, `attempts`, `backoff`, `lease`, \
        `ttl`, `body`, `changed` (by SET), `next` (the nominal instant), `next-due` (with its share of SPREAD), \
        `last`, `last-made`, `last-id`, `open` (array: ids of its last 16 jobs that are delayed, ready or \
        leased), `paused-until`, `held` (why: `paused`, `full`, `memory`, `journal`, `zone`, `pattern`), and \
        totals `made`, `missed`, `skipped`, `replaced`; last `group` and `meta`, a map, if it has them. Other fields that are not set are nil; instants are unix ms.")
.notes("Every nominal instant that came due was made, missed (it could not be made in time) or skipped (by \
        OVERLAP, or because its id was taken).")
.example(&[("DELAY.SCHEDULE GET poll nothing", "(nil)")])
.parse(parse::get);

const DEL: CommandSpec =
    row("delay.schedule|del", "Removes schedules; jobs that they have made stay", WRITES)
        .complexity("O(N) where N is the number of names")
        .arguments(&[QUEUE, NAME.multiple()])
        .reply("Integer: how many were removed.")
        .notes("Its pause and its totals are removed too.")
        .example(&[("DELAY.SCHEDULE DEL poll nothing", "(integer) 0")])
        .parse(parse::delete);

const LIST: CommandSpec = row(
    "delay.schedule|list",
    "Lists the schedules of a queue, in the order of their names",
    CommandSpec::BASE,
)
.complexity("O(N) where N is the number of schedules examined")
.arguments(&[
    QUEUE,
    Argument::option("AFTER", "after", ArgumentKind::Bytes)
        .shown("name")
        .about("Continue after this name, which need not exist any more; empty begins."),
    Argument::option("MATCH", "pattern", ArgumentKind::Pattern)
        .shown("glob")
        .about("Only names that match: `*`, `?`, `[a-z]`, `\\` before a literal byte."),
    Argument::option("COUNT", "count", ArgumentKind::Integer)
        .shown("n")
        .about("Maximum number of schedules, 1 to 10000. Default 100."),
])
.flags(&[Flag::ReadOnly])
.keys(KEY)
.reply("Array of schedules, each an array: name, state, rule (`every 5m` or `cron 0 8 * * 1-5 Europe/Berlin`), \
        next nominal instant and last one (unix ms or nil).")
.notes("Examines 10,000 names at most. Without MATCH, fewer rows than COUNT mean the end; with MATCH continue \
        until the reply is empty.")
.example(&[
    (
        "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
        "1) \"created\"\n2) (integer) 1800000300000",
    ),
    (
        "DELAY.SCHEDULE LIST poll",
        "1) 1) \"bank\"\n   2) \"active\"\n   3) \"every 5m\"\n   4) (integer) 1800000300000\n   5) (nil)",
    ),
])
.parse(parse::list);

const PAUSE: CommandSpec = row(
    "delay.schedule|pause",
    "Pauses a schedule: it makes no occurrences until it is resumed",
    WRITES,
)
.arguments(&[
    QUEUE,
    NAME,
    Argument::option("FOR", "duration", ArgumentKind::Duration)
        .about("It resumes by itself after this long, 1ms to `max-delay` (3650d)."),
])
.reply("Integer: 1, even if it was paused already; 0 if there is no such schedule.")
.notes("During the pause nothing is made or counted, and afterwards nothing is caught up. A pause survives SET, \
        a restart and RENAME, but not DEL.")
.example(&[
    (
        "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
        "1) \"created\"\n2) (integer) 1800000300000",
    ),
    ("DELAY.SCHEDULE PAUSE poll bank FOR 1h", "(integer) 1"),
])
.parse(parse::pause);

const RESUME: CommandSpec = row(
    "delay.schedule|resume",
    "Resumes a paused schedule with its first instant after now",
    WRITES,
)
.complexity("O(1) plus the search for the next instant")
.arguments(&[QUEUE, NAME])
.reply("Integer: 1, even if it was not paused; 0 if there is no such schedule.")
.example(&[("DELAY.SCHEDULE RESUME poll nothing", "(integer) 0")])
.parse(parse::resume);

const RUN: CommandSpec = row(
    "delay.schedule|run",
    "Makes an occurrence of a schedule now, whatever the time",
    WRITES,
)
.complexity("O(1)")
.arguments(&[
    QUEUE,
    NAME,
    Argument::word("force", "FORCE")
        .optional()
        .about("Even under OVERLAP SKIP while an earlier one is open."),
])
.flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
.reply("Bulk string: the id, `name@<now>`, or the next one that is free. Nil under OVERLAP SKIP while an earlier \
        one is open.")
.notes("Works for a schedule that is paused or done, too. Its own instants stay as they are, and RUNS does not \
        count it. Under OVERLAP REPLACE it removes waiting occurrences. A paused queue answers `PAUSED`, one at its `max-jobs` answers \
        `FULL`, and a server at `maxmemory` answers `OOM`.")
.example(&[
    (
        "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
        "1) \"created\"\n2) (integer) 1800000300000",
    ),
    ("DELAY.SCHEDULE RUN poll bank", "\"bank@1800000000000\""),
    ("DELAY.SCHEDULE RUN poll nothing", "(error) ERR no such schedule"),
])
.parse(parse::run);

const INSTANTS: Argument = Argument::option("COUNT", "count", ArgumentKind::Integer)
    .shown("n")
    .about("How many, 1 to 1000. Default 1.");

const NEXT: CommandSpec =
    row("delay.schedule|next", "Shows the next nominal instants of a schedule", CommandSpec::BASE)
        .complexity("O(N) where N is the number of instants")
        .arguments(&[QUEUE, NAME, INSTANTS])
        .flags(&[Flag::ReadOnly])
        .keys(KEY)
        .reply("Array of integers: unix ms; fewer if the schedule ends.")
        .example(&[
            (
                "DELAY.SCHEDULE SET poll bank \"\" EVERY 5m",
                "1) \"created\"\n2) (integer) 1800000300000",
            ),
            (
                "DELAY.SCHEDULE NEXT poll bank COUNT 2",
                "1) (integer) 1800000300000\n2) (integer) 1800000600000",
            ),
        ])
        .parse(parse::next);

const EXPLAIN: CommandSpec = row(
    "delay.schedule|explain",
    "Shows when a rule would make jobs, without setting it",
    CommandSpec::BASE,
)
.complexity("O(N) where N is the number of instants")
.arguments(&[
    Argument::one_of(
        "rule",
        &[EVERY.about(""), Argument::block("cron", &[CRON.about(""), TZ.about("")])],
    )
    .about("As SET takes it."),
    Argument::option("FROM", "from", ArgumentKind::Instant)
        .shown("instant")
        .about("Where to begin, as SET takes it; may be in the past. Default now."),
    INSTANTS,
])
.flags(&[Flag::ReadOnly])
.reply("Array of instants, each an array: unix ms (integer) and the local time in the zone (bulk string).")
.example(&[(
    "DELAY.SCHEDULE EXPLAIN CRON \"30 2 * * *\" TZ Europe/Berlin FROM 2027-03-27T00:00:00Z COUNT 3",
    "1) 1) (integer) 1806111000000\n   2) \"2027-03-27T02:30:00+01:00\"\n\
     2) 1) (integer) 1806195600000\n   2) \"2027-03-28T03:00:00+02:00\"\n\
     3) 1) (integer) 1806280200000\n   2) \"2027-03-29T02:30:00+02:00\"",
)])
.parse(parse::explain);

const ZONES: CommandSpec = row(
    "delay.schedule|zones",
    "Lists the names of the time zones that TZ takes",
    CommandSpec::BASE,
)
.complexity("O(N) where N is the number of zones, about 600")
.arguments(&[Argument::option("MATCH", "pattern", ArgumentKind::Pattern)
    .shown("glob")
    .about("Only names that match, case-sensitive.")])
.flags(&[Flag::ReadOnly])
.reply("Array of bulk strings, in order.")
.notes("The names come from the tables in use, INFO's `tzdata_version`; TZ also takes offsets such as `+05:30`.")
.example(&[("DELAY.SCHEDULE ZONES MATCH Europe/Ber*", "1) \"Europe/Berlin\"")])
.parse(parse::zones);
