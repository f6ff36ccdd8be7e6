//! COMMAND: the table about itself.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Commands, ListFilter};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::error::Error;

const SERVER: CommandSpec = CommandSpec {
    group: Group::Server,
    complexity: "O(N) where N is the number of commands",
    flags: &[Flag::Loading, Flag::Stale],
    categories: &["connection"],
    ..CommandSpec::BASE
};

const NAMES: &[Argument] = &[Argument::new("command-name", Kind::Bytes).optional().multiple()];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "command",
    summary: "Describes all commands",
    tips: &["nondeterministic_output_order"],
    reply: "Array, for each command: name, arity, flags, first key, last key, step, ACL categories, tips, \
            key specifications, subcommands.",
    example: &[("COMMAND INFO nothing", "1) (nil)")],
    parse: Some(|_| Ok(Action::Commands(Commands::All))),
    subcommands: &[
        CommandSpec {
            name: "command|count",
            summary: "Counts the commands",
            complexity: "O(1)",
            reply: "Integer.",
            example: &[("COMMAND COUNT", "(integer) 138")],
            parse: Some(|_| Ok(Action::Commands(Commands::Count))),
            ..SERVER
        },
        CommandSpec {
            name: "command|docs",
            summary: "Describes commands as the reference does",
            arguments: NAMES,
            tips: &["nondeterministic_output_order"],
            reply: "Map (in RESP2 a flat array) from names to maps; unknown names are left out.",
            example: &[("COMMAND DOCS nothing", "(empty array)")],
            parse: Some(|args| Ok(Action::Commands(Commands::Docs(args.rest())))),
            ..SERVER
        },
        CommandSpec {
            name: "command|getkeys",
            summary: "Names the queues that a command names",
            complexity: "O(N) where N is the number of arguments",
            arguments: &[
                Argument::new("command", Kind::Bytes),
                Argument::new("arg", Kind::Bytes).optional().multiple(),
            ],
            reply: "Array of bulk strings.",
            example: &[("COMMAND GETKEYS DELAY.POP a b 0", "1) \"a\"\n2) \"b\"")],
            parse: Some(|args| Ok(Action::Commands(Commands::GetKeys(args.rest())))),
            ..SERVER
        },
        CommandSpec {
            name: "command|getkeysandflags",
            summary: "Names the queues that a command names, and what it does to them",
            complexity: "O(N) where N is the number of arguments",
            arguments: &[
                Argument::new("command", Kind::Bytes),
                Argument::new("arg", Kind::Bytes).optional().multiple(),
            ],
            reply: "Array of arrays: the queue, and an array (in RESP3 a set) of simple strings.",
            example: &[(
                "COMMAND GETKEYSANDFLAGS DELAY.POP a 0",
                "1) 1) \"a\"\n   2) 1) RW\n      2) access\n      3) delete",
            )],
            parse: Some(|args| Ok(Action::Commands(Commands::GetKeysAndFlags(args.rest())))),
            ..SERVER
        },
        help("command|help", Group::Server),
        CommandSpec {
            name: "command|info",
            summary: "Describes commands",
            arguments: NAMES,
            tips: &["nondeterministic_output_order"],
            reply: "Array as COMMAND's; nil for an unknown name.",
            example: &[("COMMAND INFO nothing", "1) (nil)")],
            parse: Some(|args| Ok(Action::Commands(Commands::Info(args.rest())))),
            ..SERVER
        },
        CommandSpec {
            name: "command|list",
            summary: "Names the commands",
            arguments: &[Argument::one_of(
                "filterby",
                &[
                    Argument::new("module-name", Kind::Bytes).after("MODULE"),
                    Argument::new("category", Kind::Bytes).after("ACLCAT"),
                    Argument::new("pattern", Kind::Pattern).after("PATTERN"),
                ],
            )
            .after("FILTERBY")
            .optional()],
            tips: &["nondeterministic_output_order"],
            reply: "Array of bulk strings.",
            example: &[("COMMAND LIST FILTERBY PATTERN delay.l*", "1) \"delay.len\"")],
            parse: Some(parse_list),
            ..SERVER
        },
    ],
    ..SERVER
}];

fn parse_list<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut filter = ListFilter::All;
    while let Some(option) = args.option()? {
        if option != "FILTERBY" {
            return Err(args.unknown_option());
        }
        filter = match args.choice()? {
            "ACLCAT" => ListFilter::Category(args.word("category")?),
            "PATTERN" => ListFilter::Pattern(args.pattern("pattern")?),
            _ => {
                args.word("module-name")?;
                ListFilter::Module
            }
        };
    }
    Ok(Action::Commands(Commands::List(filter)))
}
