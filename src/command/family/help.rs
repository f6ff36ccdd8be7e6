//! DELAY.HELP, and the subcommand HELP of every container.

use crate::command::spec::action::{Action, Commands, Fixed, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Always, CommandSpec, Flag, Group};
use crate::error::Error;

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "delay.help",
    summary: "Shows the syntax of the DELAY commands, or one of them with its options",
    arguments: &[Argument::new("command", ArgumentKind::Bytes)
        .about("Its name in any case; `DELAY.` can be left out.")
        .optional()],
    complexity: "O(N) where N is the number of commands",
    flags: &[Flag::Loading, Flag::Stale],
    reply: "Array of simple strings.",
    example: &[(
        "DELAY.HELP del",
        "1) DELAY.DEL queue id [id ...]\n2)     Removes jobs that no consumer has leased.\n3)     queue: 1 to 512 bytes.\n4)     \
         Reply: Integer: how many were removed.",
    )],
    parse: Some(|args| {
        let command = match args.left() {
            0 => None,
            _ => Some(args.word("command")?),
        };
        args.end_or_arity()?;
        Ok(Action::Commands(Commands::Usage(command)))
    }),
    ..CommandSpec::BASE
}];

/// The subcommand HELP; `name` is `container|help`.
pub(super) const fn help(name: &'static str, group: Group) -> CommandSpec {
    CommandSpec {
        name,
        summary: "Shows the subcommands",
        group,
        flags: &[Flag::Loading, Flag::Stale],
        reply: "Array of simple strings.",
        parse: Some(|args| {
            let container = args.spec().name.split('|').next().unwrap_or_default();
            Ok(Action::Commands(Commands::Help(container)))
        }),
        ..CommandSpec::BASE
    }
}

// Commands that delayd does not have and that are always answered the same, as tools expect.

/// A command that is refused with `error` whatever follows; `call` is an example of one.
pub(super) const fn refused(
    name: &'static str,
    summary: &'static str,
    call: &'static str,
    error: &'static str,
    base: CommandSpec,
) -> CommandSpec {
    let always = Some((call, Always::Refused(error)));
    let reply = "An error that says so.";
    CommandSpec { name, summary, reply, always, parse: Some(parse), ..base }
}

/// A command that is answered with `reply` whatever follows; `call` is an example of one.
pub(super) const fn answered(
    name: &'static str,
    summary: &'static str,
    call: &'static str,
    reply: Fixed,
    base: CommandSpec,
) -> CommandSpec {
    let always = Some((call, Always::Answered(reply)));
    let reply = match reply {
        Fixed::Ok => "Simple string: `OK`.",
        Fixed::Zero => "Integer: 0.",
        Fixed::Empty => "Array, empty.",
        Fixed::Zeros(_) => "Array of zeros.",
        Fixed::Text(_) => "Text.",
    };
    CommandSpec { name, summary, reply, always, parse: Some(parse), ..base }
}

fn parse<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    match args.spec().always.as_ref().expect("it stands in the row").1 {
        Always::Refused(error) => Err(Error::text(error)),
        Always::Answered(reply) => Ok(Action::Server(ServerRequest::Fixed(reply))),
    }
}
