//! HELP of a container: its subcommands as lines of text, from the table.

use crate::command::action::{Action, Commands};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::command::table;
use crate::error::Error;

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
            table::find(container.as_bytes())
                .map(|spec| Action::Commands(Commands::Help(spec)))
                .ok_or_else(|| Error::text("ERR no help"))
        }),
        ..CommandSpec::BASE
    }
}

/// The lines that HELP shows.
pub fn lines(container: &CommandSpec) -> Vec<String> {
    let name = container.written();
    let mut lines =
        vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for subcommand in container.subcommands {
        let syntax = subcommand.syntax();
        lines.push(syntax.strip_prefix(&name).unwrap_or(&syntax).trim_start().to_string());
        lines.push(format!("    {}.", subcommand.summary));
    }
    lines
}
