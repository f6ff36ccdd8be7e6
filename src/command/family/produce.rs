//! Adding jobs.

use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, row};
use crate::engine::model::request::{Add, Request, Taken, When};
use crate::error::Error;
use crate::time::Written;

/// The queue, as almost every command begins.
pub(super) const QUEUE: Argument =
    Argument::new("queue", ArgumentKind::Key).about("1 to 512 bytes.");

/// When a job is to fall due.
pub(super) const WHEN: Argument = Argument::new("when", ArgumentKind::When).about(
    "A duration from now (`30s`, `1h30m`, `15d`, a bare number is ms), or an absolute time: `@` and \
     unix ms, or a date, time and offset such as `2030-01-31T12:30:00Z`. A time in the past means now. `@` before \
     1973 (100000000000), except `@0`, can only be unix seconds and is refused. At most `max-delay` (3650d) from \
     now.",
);

pub(super) const PRIORITY: Argument =
    Argument::option("PRIORITY", "priority", ArgumentKind::Integer).shown("0-9");

/// The group of a job, or one group of a queue.
pub(super) const GROUP: Argument = Argument::option("GROUP", "group", ArgumentKind::Bytes);

/// Headers of a job.
pub(super) const META: Argument = Argument::block(
    "meta",
    &[
        Argument::new("numpairs", ArgumentKind::Integer).about("1 to 64."),
        Argument::block(
            "pair",
            &[
                Argument::new("name", ArgumentKind::Bytes)
                    .about("1 to 128 bytes, each once. Names and values have at most 8 KiB in all."),
                Argument::new("value", ArgumentKind::Bytes).about("Any bytes."),
            ],
        )
        .multiple(),
    ],
)
.after("META")
.optional()
.about(
    "Headers of the job, such as a trace context or a content type. They keep their order; GET shows them, and RESERVE \
     with META.",
);

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[row(
    "delay.add",
    "Adds a job that becomes available at a given time, never earlier",
    CommandSpec::OF_QUEUE,
)
.complexity("O(1)")
.arguments(&[
    QUEUE,
    WHEN,
    Argument::new("body", ArgumentKind::Bytes).about("Any bytes, at most `max-body-size` (16mb)."),
    Argument::option("ID", "id", ArgumentKind::Id).about(
        "1 to 512 bytes, unique in its queue. Without it the server generates one: short, sortable by creation, \
         never reused.",
    ),
    Argument::one_of(
        "taken",
        &[
            Argument::word("nx", "NX").about("If the id is taken: nil, and nothing changes."),
            Argument::word("replace", "REPLACE").about(
                "If the id is taken: the old job is removed, whatever its state, and its lease is void; the new \
                 one gets the id and a new place, the last.",
            ),
            Argument::word("latest", "LATEST").about(
                "As REPLACE, but a running lease goes on and its token stays valid: the new job follows when that delivery \
                 ends, however it ends, and the old job is not tried again. Another LATEST takes its place.",
            ),
        ],
    )
    .optional(),
    PRIORITY.about("0 is first. Default: the queue's, else 5."),
    Argument::option("ATTEMPTS", "attempts", ArgumentKind::Integer)
        .shown("n")
        .about("Deliveries before the job is dead; 0 no limit. Default: the queue's, else 20."),
    Argument::option("BACKOFF", "backoff", ArgumentKind::Backoff).about(
        "The delay after a failed delivery: a ladder `1s,5s,30s` of up to 64 steps, the last of which repeats, \
         or `exp:<first>:<max>[:<factor>]`; `~` at the end adds up to 20 %. \
         Default: the queue's, else `exp:1s:1h~`.",
    ),
    Argument::option("LEASE", "lease", ArgumentKind::Duration).shown("duration").about(
        "How long a consumer has the job, 1ms to `max-lease` (24h), unless RESERVE gives a lease. \
         Default: the queue's, else `default-lease` (60s).",
    ),
    Argument::option("TTL", "ttl", ArgumentKind::Duration).shown("duration").about(
        "The job expires this long after its due time unless it was delivered before; 0 never. \
         Default: the queue's, else 0.",
    ),
    Argument::option("UNIQUE", "unique", ArgumentKind::Duration).shown("duration").about(
        "The id stays taken this long after the job was acknowledged, popped or expired. Default 0: it is free \
         at once.",
    ),
    Argument::option("MAXDELAY", "maxdelay", ArgumentKind::Duration).shown("duration").about(
        "With REPLACE or LATEST: the job falls due at most this long after the first of those that replaced each other \
         before any was delivered, however often it is replaced. 1ms to `max-delay`, and at least as long as a relative `when`.",
    ),
    GROUP.about(
        "The group of the job in its queue, such as a customer, 1 to 512 bytes. Groups share the front of the queue, so \
         that one with many jobs does not make the others wait.",
    ),
    META,
])
.flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
.access(Access::Insert)
.reply("Bulk string: the id. Nil with NX if the id is taken.")
.notes("`NX`, `REPLACE`, `LATEST` and `UNIQUE` need `ID`. An id that is taken by a job in any state is refused with the \
        error class `EXISTS`. A paused queue answers `PAUSED`, one at its \
        `max-jobs` answers `FULL`, as does one for a group at its `group-max-jobs`, and a server at `maxmemory` answers `OOM`.")
.example(&[
    ("DELAY.ADD orders 30m \"close 7\" ID order:7", "\"order:7\""),
    ("DELAY.ADD orders 30m \"close 7\" ID order:7 NX", "(nil)"),
    (
        "DELAY.ADD orders 10m \"close 7\" ID order:7 REPLACE PRIORITY 0 BACKOFF 1s,5s,30s",
        "\"order:7\"",
    ),
    ("DELAY.ADD search 2s \"index 7\" ID index:7 LATEST MAXDELAY 30s", "\"index:7\""),
    ("DELAY.ADD orders 0ms \"mail 9\" ID mail:9 GROUP acme", "\"mail:9\""),
    ("DELAY.ADD orders 0ms hello ID h1 META 2 tenant acme content-type text/plain", "\"h1\""),
])
.parse(parse_add)];

fn parse_add<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut add = Add::new(args.queue()?, args.when()?, args.word("body")?);
    let mut needs_id = None;
    while let Some(option) = args.option()? {
        match option {
            "ID" => add.id = Some(args.id()?),
            "NX" => add.taken = Taken::Keep,
            "REPLACE" => add.taken = Taken::Replace,
            "LATEST" => add.taken = Taken::Latest,
            "MAXDELAY" => add.max_delay_ms = Some(args.duration("maxdelay", 1)?),
            "PRIORITY" => add.priority = Some(args.priority()?),
            "ATTEMPTS" => {
                add.attempts = Some(args.integer("attempts", 0, u64::from(u32::MAX))? as u32);
            }
            "BACKOFF" => add.backoff = Some(args.backoff()?),
            "LEASE" => add.lease_ms = Some(args.duration("lease", 1)?),
            "TTL" => add.ttl_ms = Some(args.duration("ttl", 0)?),
            "UNIQUE" => add.unique_ms = args.duration("unique", 0)?,
            "GROUP" => add.group = Some(args.group()?),
            "META" => add.meta = args.meta()?,
            _ => return Err(args.unknown_option()),
        }
        if matches!(option, "NX" | "REPLACE" | "LATEST" | "UNIQUE") {
            needs_id = Some(option);
        }
    }
    if let Some(max_ms) = add.max_delay_ms {
        check_max_delay(&add, max_ms)?;
    }
    match (needs_id, add.id) {
        (Some(option), None) => Err(Error::text(format!("ERR syntax error: {option} needs ID"))),
        _ => Ok(Action::Engine(Request::Add(add))),
    }
}

/// Checks of MAXDELAY that need no queue.
fn check_max_delay(add: &Add<'_>, max_ms: u64) -> Result<(), Error> {
    if !matches!(add.taken, Taken::Replace | Taken::Latest) {
        return Err(Error::text("ERR syntax error: MAXDELAY needs REPLACE or LATEST"));
    }
    match add.when {
        When::In(ms) if ms > max_ms => Err(Error::text(format!(
            "ERR MAXDELAY {} is shorter than the delay of {}: the job could never wait that long",
            Written(max_ms),
            Written(ms)
        ))),
        _ => Ok(()),
    }
}
