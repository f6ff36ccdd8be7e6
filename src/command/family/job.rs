//! One job at a time: remove it, move it, look at it.

use crate::command::family::consume::ID;
use crate::command::family::produce::{QUEUE, WHEN};
use crate::command::spec::action::Action;
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, Flag, row};
use crate::engine::model::request::{Only, Request};
use crate::error::Error;

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("delay.del", "Removes jobs that no consumer has leased", CommandSpec::OF_QUEUE)
        .complexity("O(N) where N is the number of ids")
        .arguments(&[QUEUE, Argument::new("id", ArgumentKind::Id).multiple()])
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Delete)
        .reply("Integer: how many were removed.")
        .notes("A removed job will not be delivered (again). A leased job is left alone and not \
                counted.")
        .example(&[
            ("DELAY.ADD orders 30m x ID order:7", "\"order:7\""),
            ("DELAY.DEL orders order:7 order:8", "(integer) 1"),
        ])
        .parse(|args| {
            Ok(Action::Engine(Request::Delete { queue: args.queue()?, ids: args.ids()? }))
        }),
    row("delay.cancel", "Removes a job and returns its state", CommandSpec::OF_QUEUE)
        .arguments(&[
            QUEUE,
            ID,
            Argument::word("force", "FORCE")
                .optional()
                .about("Also removes a leased job; its token is void."),
        ])
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Delete)
        .reply("Bulk string: `delayed`, `ready` or `dead` (removed), `leased` (left alone; with FORCE \
                removed). Nil if there is no such job.")
        .example(&[
            ("DELAY.ADD orders 30m x ID order:7", "\"order:7\""),
            ("DELAY.CANCEL orders order:7", "\"delayed\""),
            ("DELAY.CANCEL orders order:7", "(nil)"),
        ])
        .parse(parse_cancel),
    row("delay.reschedule", "Gives a delayed or ready job another due time", CommandSpec::OF_QUEUE)
        .arguments(&[
            QUEUE,
            ID,
            WHEN,
            Argument::one_of(
                "only",
                &[
                    Argument::word("gt", "GT")
                        .about("Only if the new time is later than its due time."),
                    Argument::word("lt", "LT").about("Only if the new time is earlier."),
                ],
            )
            .optional(),
        ])
        .flags(&[Flag::Write, Flag::Fast])
        .access(Access::Update)
        .reply("Integer: 1, or 0 if the job is leased, dead or missing, or the condition does not hold.")
        .notes("The job gets a new place; its attempts stay. A reply of 0 means that the timer has fired already. A \
                `when` of 0ms runs the job now.")
        .example(&[
            ("DELAY.ADD idle 30s close ID session:1", "\"session:1\""),
            ("DELAY.RESCHEDULE idle session:1 30s", "(integer) 1"),
        ])
        .parse(parse_reschedule),
    row("delay.get", "Shows all fields of a job", CommandSpec::OF_QUEUE)
        .arguments(&[QUEUE, ID])
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .access(Access::Read)
        .reply("Map (in RESP2 a flat array): `id`, `state`, `body`, `due`, `added` (unix ms), `priority`, \
                `attempt`, `max-attempts` (0 no limit), `deliveries`, `nacks`, `timeouts`, `lost`, \
                `backoff`, `lease-ms` (0 if it has none of its own), `ttl-ms` (0 never), `expires` (unix ms, 0 \
                never), `unique-ms`; while leased `token`, `lease-end` (unix ms), `bound` (0 or 1), and `latest`, the due time of the job that follows, if one does; when \
                dead `reason` (`attempts`, `timeout`, `lost`, `buried`) and `died` (unix ms); when a NACK gave one, \
                `error`, and `errors`: the last three, newest first, each a map of `error`, `at` (unix ms) and \
                `attempt`, of the earlier ones the first 128 bytes; last, if the job has them, `group`, and `meta`, a map. Nil if there is no such job.")
        .example(&[("DELAY.GET orders order:8", "(nil)")])
        .parse(|args| Ok(Action::Engine(Request::Get { queue: args.queue()?, id: args.id()? }))),
];

fn parse_cancel<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, id, force) = (args.queue()?, args.id()?, args.flag()?);
    Ok(Action::Engine(Request::Cancel { queue, id, force }))
}

fn parse_reschedule<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, id, when) = (args.queue()?, args.id()?, args.when()?);
    let mut only = Only::Any;
    while let Some(option) = args.option()? {
        match option {
            "GT" => only = Only::Later,
            "LT" => only = Only::Earlier,
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Engine(Request::Reschedule { queue, id, when, only }))
}
