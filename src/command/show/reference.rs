//! The written reference, `docs/commands.md`, from the table.

use std::fmt::{self, Write};

use crate::command::spec::action::Fixed;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{Always, CommandSpec, Flag, Group};
use crate::command::table;

const HEAD: &str = "# Commands

Written by `make docs` from the table of commands; edits here are lost.

Square brackets enclose optional parts, `|` separates alternatives, `...` means that the part before it may be \
repeated.
Options follow the required arguments in any order and in any case, each at most once. A duration is a
whole number of milliseconds or terms of number and unit, `500ms`, `30s`, `1h30m`, `15d`, `2w`. Every
error begins with its class; a command that fails changes nothing.
";

/// The text of `docs/commands.md`.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for group in Group::ALL {
        let mut specs: Vec<&CommandSpec> = table::all_with_subcommands()
            .filter(|spec| table::find(first_word(spec)).is_some_and(|top| top.group == group))
            .filter(|spec| spec.subcommands.is_empty() || spec.parse.is_some())
            .collect();
        if group != Group::Delay {
            specs.sort_by_key(|spec| spec.name);
        }
        let _ = writeln!(page, "\n## {}", title(group));
        specs.iter().for_each(|spec| write_command(spec, &mut page));
    }
    page
}

fn first_word(spec: &CommandSpec) -> &'static [u8] {
    spec.name.split('|').next().unwrap_or_default().as_bytes()
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Delay => "Jobs and queues",
        Group::List => "Ready jobs as a list",
        Group::Generic => "Queues as keys",
        Group::Transactions => "Transactions",
        Group::PubSub => "Channels",
        Group::Scripting => "Scripts",
        Group::Connection => "Connections",
        Group::Server => "Server",
    }
}

fn write_command(spec: &CommandSpec, page: &mut String) {
    let _ =
        writeln!(page, "\n### {}\n\n    {}\n\n{}.", spec.written(), spec.syntax(), spec.summary);
    let abouts = abouts(spec.arguments);
    if !abouts.is_empty() {
        page.push('\n');
    }
    for (argument, about) in abouts {
        let _ = writeln!(page, "- `{argument}`: {about}");
    }
    if !spec.notes.is_empty() {
        let _ = writeln!(page, "\n{}", spec.notes);
    }
    let _ = writeln!(page, "\n- Reply: {}\n- Costs: {}.", spec.reply, spec.complexity);
    let categories: Vec<String> =
        spec.all_categories().iter().map(|category| format!("`@{category}`")).collect();
    let _ = writeln!(page, "- Since {}; categories {}.", spec.since, categories.join(" "));
    if spec.has(Flag::NoMulti) {
        page.push_str("- Not inside MULTI.\n");
    }
    let mut example = String::new();
    for (command, output) in spec.example {
        let _ = writeln!(example, "> {command}");
        if !output.is_empty() {
            let _ = writeln!(example, "{output}");
        }
    }
    if let Some((command, always)) = spec.always {
        let _ = writeln!(example, "> {command}\n{always}");
    }
    if !example.is_empty() {
        let _ = write!(page, "\n```\n{example}```\n");
    }
}

/// Each argument of which something is said, as it is written, with what is said of it.
pub(super) fn abouts(arguments: &[Argument]) -> Vec<(String, &'static str)> {
    let mut abouts = Vec::new();
    for argument in arguments {
        if !argument.about.is_empty() {
            abouts.push((alone(argument), argument.about));
        }
        abouts.extend(self::abouts(argument.arguments));
    }
    abouts
}

/// The syntax of an argument that is optional and repeatable, on its own.
fn alone(argument: &Argument) -> String {
    let mut syntax = String::new();
    let Argument { token, display, arguments, .. } = *argument;
    Argument { token, display, arguments, ..Argument::new(argument.name, argument.kind) }
        .write_syntax(&mut syntax);
    match argument.kind == ArgumentKind::OneOf && token.is_none() {
        true => syntax.trim_matches(['(', ')']).to_owned(),
        false => syntax,
    }
}

impl fmt::Display for Always {
    /// As redis-cli prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Always::Refused(error) => write!(f, "(error) {error}"),
            Always::Answered(Fixed::Ok) => f.write_str("OK"),
            Always::Answered(Fixed::Zero) => f.write_str("(integer) 0"),
            Always::Answered(Fixed::Empty | Fixed::Zeros(_)) => f.write_str("(empty array)"),
            Always::Answered(Fixed::Text(text)) => f.write_str(text.trim_end()),
        }
    }
}
