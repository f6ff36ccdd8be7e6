//! HELP as lines of text, from the table: of a container its subcommands, of DELAY the queue's own commands.

use crate::command::show::reference;
use crate::command::spec::CommandSpec;
use crate::command::table;
use crate::limits::NAME_BYTES_MAX;

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

/// The lines of DELAY.HELP: how each of the queue's own commands is called, and what it does.
pub fn usage_of_all() -> Vec<String> {
    let mut lines = vec!["DELAY.<command> [<arg> [value] [opt] ...]. Commands are:".to_owned()];
    for spec in table::all_with_subcommands().filter(|spec| is_ours(spec)) {
        lines.push(spec.syntax());
        lines.push(format!("    {}.", spec.summary));
    }
    lines
}

/// The lines of DELAY.HELP for one command, `word` being its name with or without `DELAY.`, in any case: how
/// it is called, what each argument is, what it answers. None if there is no such command.
pub fn usage_of(word: &[u8]) -> Option<Vec<String>> {
    if word.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = [b"delay.", word].concat();
    let spec = table::find(&name).or_else(|| table::find(word))?;
    let specs = std::iter::once(spec).chain(spec.subcommands).filter(|spec| is_ours(spec));
    let lines: Vec<String> = specs.flat_map(usage).collect();
    (!lines.is_empty()).then_some(lines)
}

/// One of the queue's own commands that does something by itself.
fn is_ours(spec: &CommandSpec) -> bool {
    spec.name.starts_with("delay.") && spec.parse.is_some() && !spec.name.ends_with("|help")
}

fn usage(spec: &CommandSpec) -> Vec<String> {
    let mut lines = vec![spec.syntax(), format!("    {}.", spec.summary)];
    for (argument, about) in reference::abouts(spec.arguments) {
        lines.push(format!("    {argument}: {about}"));
    }
    lines.push(format!("    Reply: {}", spec.reply));
    lines.iter_mut().for_each(|line| line.retain(|letter| letter != '`'));
    lines
}
