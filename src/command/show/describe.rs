//! COMMAND and COMMAND DOCS: the table as clients read it. The types matter: redis-cli asserts
//! that names and texts are bulk strings and that flags are simple strings.

use crate::command::show::reference;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Access, CommandSpec, KeyPositions};
use crate::command::table;
use crate::limits::NAME_BYTES_MAX;
use crate::resp::Encoder;

/// One element of COMMAND's reply.
pub fn write_info(spec: &CommandSpec, out: &mut Encoder<'_>) {
    out.array(10);
    out.bulk(spec.name.as_bytes());
    out.integer(spec.arity());
    let movable = matches!(spec.keys, KeyPositions::Counted { .. });
    out.set(spec.flags.len() + usize::from(movable));
    for flag in spec.flags {
        out.simple(flag.word());
    }
    if movable {
        out.simple("movablekeys");
    }
    let (first, last, step) = spec.legacy_keys();
    out.integer(first);
    out.integer(last);
    out.integer(step);
    let categories = spec.all_categories();
    out.set(categories.len());
    for category in categories {
        out.simple(&format!("@{category}"));
    }
    out.set(spec.tips.len());
    for tip in spec.tips {
        out.bulk(tip.as_bytes());
    }
    write_key_specs(spec, out);
    if spec.subcommands.is_empty() {
        out.set(0);
        return;
    }
    out.array(spec.subcommands.len());
    for subcommand in spec.subcommands {
        write_info(subcommand, out);
    }
}

/// One pair of COMMAND DOCS' reply: the name and what is said of it.
pub fn write_docs(spec: &CommandSpec, out: &mut Encoder<'_>) {
    out.bulk(spec.name.as_bytes());
    let arguments = !spec.arguments.is_empty();
    let subcommands = !spec.subcommands.is_empty();
    out.map(4 + usize::from(arguments) + usize::from(subcommands));
    for (field, text) in [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group.word()),
        ("complexity", spec.complexity),
    ] {
        write_text(field, text, out);
    }
    if arguments {
        write_arguments(spec.arguments, out.field("arguments"));
    }
    if subcommands {
        out.field("subcommands").map(spec.subcommands.len());
        for subcommand in spec.subcommands {
            write_docs(subcommand, out);
        }
    }
}

fn write_text(field: &str, text: &str, out: &mut Encoder<'_>) {
    out.field(field).bulk(text.as_bytes());
}

fn write_arguments(arguments: &[Argument], out: &mut Encoder<'_>) {
    out.array(arguments.len());
    for argument in arguments {
        write_argument(argument, out);
    }
}

fn write_argument(argument: &Argument, out: &mut Encoder<'_>) {
    let key = argument.kind == ArgumentKind::Key;
    let flags = usize::from(argument.optional) + usize::from(argument.multiple);
    let members = !argument.arguments.is_empty();
    let fields = [
        argument.display.is_some(),
        key,
        argument.token.is_some(),
        !argument.about.is_empty(),
        flags > 0,
        members,
    ];
    out.map(2 + fields.iter().filter(|there| **there).count());
    write_text("name", argument.name, out);
    write_text("type", argument.kind.word(), out);
    if let Some(display) = argument.display {
        write_text("display_text", display, out);
    }
    if key {
        out.field("key_spec_index").integer(argument.key_spec.into());
    }
    if let Some(token) = argument.token {
        write_text("token", token, out);
    }
    if !argument.about.is_empty() {
        write_text("summary", argument.about, out);
    }
    if flags > 0 {
        out.field("flags").set(flags);
        if argument.optional {
            out.simple("optional");
        }
        if argument.multiple {
            out.simple("multiple");
        }
    }
    if members {
        write_arguments(argument.arguments, out.field("arguments"));
    }
}

fn write_key_specs(spec: &CommandSpec, out: &mut Encoder<'_>) {
    let range = |last| ("range", [("lastkey", last), ("keystep", 1), ("limit", 0)]);
    match spec.keys {
        KeyPositions::None => out.set(0),
        KeyPositions::Range { first, last } => {
            out.set(1);
            // Counted from the first key, or from the end.
            let last = if last < 0 { last } else { last - first };
            write_key_spec(spec.access, first, range(last), out);
        }
        KeyPositions::Counted { at } => {
            out.set(1);
            let found = ("keynum", [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)]);
            write_key_spec(spec.access, at, found, out);
        }
        KeyPositions::FromTo { to } => {
            out.set(2);
            write_key_spec(spec.access, 1, range(0), out);
            write_key_spec(to, 2, range(0), out);
        }
    }
}

fn write_key_spec(
    access: Access,
    begin: i64,
    (kind, fields): (&str, [(&str, i64); 3]),
    out: &mut Encoder<'_>,
) {
    out.map(3);
    let words = access.words();
    out.field("flags").set(words.len());
    for word in words {
        out.simple(word);
    }
    out.field("begin_search").map(2);
    write_text("type", "index", out);
    out.field("spec").map(1);
    out.field("index").integer(begin);
    out.field("find_keys").map(2);
    write_text("type", kind, out);
    out.field("spec").map(fields.len());
    for (name, value) in fields {
        out.field(name).integer(value);
    }
}

// HELP as lines of text, from the table: of a container its subcommands, of DELAY the queue's own commands.

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
