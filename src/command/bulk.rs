//! All jobs of a queue at once, or many of them.

use crate::command::action::Action;
use crate::command::args::Args;
use crate::command::argument::{Argument, Kind};
use crate::command::produce::QUEUE;
use crate::command::spec::{CommandSpec, Flag, Keys};
use crate::engine::request::Request;
use crate::error::Error;

const KEY: Keys = Keys::Range { first: 1, last: 1 };

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "delay.forecast",
    summary: "Tells how many jobs fall due in each of the next spans of time",
    complexity: "O(N) where N is the number of jobs in the queue; done in slices, between which others \
                 are served",
    arguments: &[
        QUEUE,
        Argument::new("duration", Kind::Duration).about("The length of a span, at least 1ms."),
        Argument::new("n", Kind::Integer).about("How many spans, 1 to 10000."),
    ],
    flags: &[Flag::ReadOnly],
    keys: KEY,
    reply: "Array of n integers: how many delayed jobs fall due in the first span from now, in the second, \
            and so on.",
    notes: "The counts are exact for the instant at which the command was received, also when counting \
            takes several turns. A job that is due at the end of a span belongs to it; what is due \
            already is ready and counted nowhere.",
    example: &[
        ("DELAY.ADD orders 30m x ID order:7", "\"order:7\""),
        ("DELAY.ADD orders 90m x ID order:8", "\"order:8\""),
        ("DELAY.FORECAST orders 1h 3", "1) (integer) 1\n2) (integer) 1\n3) (integer) 0"),
    ],
    parse: Some(parse_forecast),
    ..CommandSpec::BASE
}];

fn parse_forecast<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (queue, span_ms) = (args.queue()?, args.duration("duration", 1)?);
    Ok(Action::Engine(Request::Forecast { queue, span_ms, count: args.count("n")? }))
}
