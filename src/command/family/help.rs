//! The subcommand HELP of every container.

use crate::command::spec::action::{Action, Commands};
use crate::command::spec::{CommandSpec, Flag, Group};

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
