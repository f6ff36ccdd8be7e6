//! DELAY.HELP, and the subcommand HELP of every container.

use crate::command::spec::action::{Action, Commands};
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "delay.help",
    summary: "Shows how the DELAY commands are called, or one of them with its options",
    arguments: &[Argument::new("command", Kind::Bytes)
        .about("Its name in any case; `DELAY.` can be left out.")
        .optional()],
    complexity: "O(N) where N is the number of commands",
    flags: &[Flag::Loading, Flag::Stale],
    reply: "Array of simple strings.",
    example: &[(
        "DELAY.HELP del",
        "1) DELAY.DEL queue id [id ...]\n2)     Removes jobs that nobody holds.\n3)     queue: 1 to 512 bytes.\n4)     \
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
