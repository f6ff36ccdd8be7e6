//! COMMAND: the table about itself.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Commands, ListFilter};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::Error;

const SERVER: CommandSpec = CommandSpec::BASE
    .group(Group::Server)
    .complexity("O(N) where N is the number of commands")
    .flags(&[Flag::Loading, Flag::Stale])
    .categories(&["connection"]);

const NAMES: &[Argument] =
    &[Argument::new("command-name", ArgumentKind::Bytes).optional().multiple()];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[row(
    "command", "Describes all commands", SERVER,
)
.tips(&["nondeterministic_output_order"])
.reply(
    "Array, for each command: name, arity, flags, first key, last key, step, ACL categories, tips, \
        key specifications, subcommands.",
)
.example(&[("COMMAND INFO nothing", "1) (nil)")])
.parse(|_| Ok(Action::Commands(Commands::All)))
.subcommands(&[
    row("command|count", "Counts the commands", SERVER)
        .complexity("O(1)")
        .reply("Integer.")
        .example(&[("COMMAND COUNT", "(integer) 144")])
        .parse(|_| Ok(Action::Commands(Commands::Count))),
    row("command|docs", "Describes commands as the reference does", SERVER)
        .arguments(NAMES)
        .tips(&["nondeterministic_output_order"])
        .reply("Map (in RESP2 a flat array) from names to maps; unknown names are left out.")
        .example(&[("COMMAND DOCS nothing", "(empty array)")])
        .parse(|args| Ok(Action::Commands(Commands::Docs(args.rest())))),
    row("command|getkeys", "Lists the queues that a command names", SERVER)
        .complexity("O(N) where N is the number of arguments")
        .arguments(&[
            Argument::new("command", ArgumentKind::Bytes),
            Argument::new("arg", ArgumentKind::Bytes).optional().multiple(),
        ])
        .reply("Array of bulk strings.")
        .example(&[("COMMAND GETKEYS DELAY.POP a b 0", "1) \"a\"\n2) \"b\"")])
        .parse(|args| Ok(Action::Commands(Commands::GetKeys(args.rest())))),
    row(
        "command|getkeysandflags",
        "Lists the queues that a command names, and what it does to them",
        SERVER,
    )
    .complexity("O(N) where N is the number of arguments")
    .arguments(&[
        Argument::new("command", ArgumentKind::Bytes),
        Argument::new("arg", ArgumentKind::Bytes).optional().multiple(),
    ])
    .reply("Array of arrays: the queue, and an array (in RESP3 a set) of simple strings.")
    .example(&[(
        "COMMAND GETKEYSANDFLAGS DELAY.POP a 0",
        "1) 1) \"a\"\n   2) 1) RW\n      2) access\n      3) delete",
    )])
    .parse(|args| Ok(Action::Commands(Commands::GetKeysAndFlags(args.rest())))),
    help("command|help", Group::Server),
    row("command|info", "Describes commands", SERVER)
        .arguments(NAMES)
        .tips(&["nondeterministic_output_order"])
        .reply("Array like COMMAND's; nil for an unknown name.")
        .example(&[("COMMAND INFO nothing", "1) (nil)")])
        .parse(|args| Ok(Action::Commands(Commands::Info(args.rest())))),
    row("command|list", "Lists the names of the commands", SERVER)
        .arguments(&[Argument::one_of(
            "filterby",
            &[
                Argument::new("module-name", ArgumentKind::Bytes).after("MODULE"),
                Argument::new("category", ArgumentKind::Bytes).after("ACLCAT"),
                Argument::new("pattern", ArgumentKind::Pattern).after("PATTERN"),
            ],
        )
        .after("FILTERBY")
        .optional()])
        .tips(&["nondeterministic_output_order"])
        .reply("Array of bulk strings.")
        .example(&[("COMMAND LIST FILTERBY PATTERN delay.l*", "1) \"delay.len\"")])
        .parse(parse_list),
])];

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
