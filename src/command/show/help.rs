//! HELP of a container: its subcommands as lines of text, from the table.

use crate::command::spec::CommandSpec;

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
