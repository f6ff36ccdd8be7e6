//! ACL: users and what they may do.

use crate::command::family::help::help;
use crate::command::read::number;
use crate::command::spec::action::{Action, Users};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::error::Error;

/// A subcommand for operators.
const ADMIN: CommandSpec = CommandSpec {
    group: Group::Server,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    ..CommandSpec::BASE
};

/// A subcommand that tells nothing of users.
const PLAIN: CommandSpec = CommandSpec {
    group: Group::Server,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    ..CommandSpec::BASE
};

const RULES: &str = "Rules, applied in their order, all or none: `on`, `off`; `>password`, `<password`, \
    `#sha256`, `!sha256`, `nopass`, `resetpass`; `+command`, `-command`, `+command|subcommand`, `+@category`, \
    `-@category`, `allcommands` (`+@all`), `nocommands` (`-@all`); `~pattern` for queues, `%R~pattern` to read, \
    `%W~pattern` to write, `allkeys` (`~*`), `resetkeys`; `&pattern` for channels, `allchannels` (`&*`), \
    `resetchannels`; `(rules)` for a further set of commands, queues and channels, `clearselectors`; `reset`. \
    `@delay` are the queue's own commands. A command that a user's rules allow in one set is allowed; AUTH, \
    HELLO, QUIT and RESET always are. A fresh user is off and may do nothing. Open connections of the user \
    have the new rules at once: a command that waits and would be denied now, or whose user is off, ends \
    with `NOPERM`, and who has subscribed to a channel or pattern that is not given any more, or monitors \
    and may not, is closed. `off` lets nobody in any more; open connections go on.";

const SAVED_BY: &str = "The file is named by `aclfile`, which begins at `dir` unless it is absolute, and holds the lines of ACL \
     LIST; Redis reads it, too.";

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "acl",
    summary: "Users and what they may do",
    complexity: "Depends on the subcommand",
    reply: "Depends on the subcommand.",
    flags: &[],
    subcommands: &[
        CommandSpec {
            name: "acl|cat",
            summary: "Lists the categories of commands, or the commands of one",
            arguments: &[Argument::new("category", Kind::Bytes).optional()],
            complexity: "O(N) where N is the number of commands",
            reply: "Array of bulk strings.",
            example: &[(
                "ACL CAT transaction",
                "1) \"discard\"\n2) \"exec\"\n3) \"multi\"\n4) \"unwatch\"\n5) \"watch\"",
            )],
            parse: Some(|args| {
                let category = if args.left() > 0 { Some(args.word("category")?) } else { None };
                if args.left() > 0 {
                    return Err(wrong_count(args));
                }
                Ok(Action::Users(Users::Categories(category)))
            }),
            ..PLAIN
        },
        CommandSpec {
            name: "acl|deluser",
            summary: "Removes users and closes their connections",
            arguments: &[Argument::new("username", Kind::Bytes).multiple()],
            complexity: "O(N) where N is the number of connections",
            reply: "Integer: how many there were.",
            example: &[("ACL DELUSER nobody", "(integer) 0")],
            parse: Some(|args| Ok(Action::Users(Users::Delete(args.rest())))),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|dryrun",
            summary: "Says whether a user may run a command, which is not run",
            arguments: &[
                Argument::new("username", Kind::Bytes),
                Argument::new("command", Kind::Bytes),
                Argument::new("arg", Kind::Bytes).optional().multiple(),
            ],
            reply: "Simple string: `OK`. Bulk string: why not.",
            notes: "Of itself a user may ask this without the right to do so of others, if it may say ACL WHOAMI.",
            example: &[("ACL DRYRUN default PING", "OK")],
            parse: Some(|args| {
                let name = args.word("username")?;
                Ok(Action::Users(Users::DryRun { name, command: args.rest() }))
            }),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|genpass",
            summary: "Makes a password from the system's randomness",
            arguments: &[Argument::new("bits", Kind::Integer)
                .optional()
                .about("1 to 4096, default 256; four of them make a digit.")],
            tips: &["nondeterministic_output"],
            reply: "Bulk string: hexadecimal digits.",
            example: &[(
                "ACL GENPASS",
                "\"dd721260bfe1b3d9601e7fbab36de6d04e2e67b0ef1c53de59d45950db0dd3cc\"",
            )],
            parse: Some(parse_genpass),
            ..PLAIN
        },
        CommandSpec {
            name: "acl|getuser",
            summary: "Shows a user",
            arguments: &[Argument::new("username", Kind::Bytes)],
            complexity: "O(N) where N is the number of its rules",
            reply: "Map (in RESP2 a flat array): `flags`, `passwords`, `commands`, `keys`, `channels`, `selectors`. Nil if there is none.",
            example: &[("ACL GETUSER nobody", "(nil)")],
            parse: Some(|args| Ok(Action::Users(Users::Show(args.word("username")?)))),
            ..ADMIN
        },
        help("acl|help", Group::Server),
        CommandSpec {
            name: "acl|list",
            summary: "Shows all users as lines of an ACL file",
            complexity: "O(N) where N is the number of users",
            reply: "Array of bulk strings. Of passwords only their SHA-256 is known.",
            example: &[("ACL LIST", "1) \"user default on nopass ~* &* +@all\"")],
            parse: Some(|_| Ok(Action::Users(Users::List))),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|load",
            summary: "Reads the users from the ACL file again",
            complexity: "O(N) where N is the number of users and connections",
            reply: "Simple string: `OK`. An error that names every wrong line; nothing has changed then.",
            notes: SAVED_BY,
            example: &[(
                "ACL LOAD",
                "(error) ERR This Redis instance is not configured to use an ACL file. ...",
            )],
            parse: Some(|_| Ok(Action::Users(Users::Load))),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|log",
            summary: "Shows what was denied of late",
            arguments: &[Argument::one_of(
                "operation",
                &[
                    Argument::new("count", Kind::Integer),
                    Argument::word("reset", "RESET").about("Forgets all."),
                ],
            )
            .optional()],
            complexity: "O(N) where N is the number of entries",
            reply: "Array of maps (in RESP2 flat arrays): `count`, `reason`, `context`, `object`, `username`, `age-seconds`, `client-info`, `entry-id`, `timestamp-created`, `timestamp-last-updated`. For RESET: `OK`.",
            notes: "The newest 10 entries unless a count is given; `acllog-max-len` are kept. What is denied again within a minute is counted. A wrong password is not shown.",
            example: &[("ACL LOG RESET", "OK")],
            parse: Some(parse_log),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|save",
            summary: "Writes the users to the ACL file",
            complexity: "O(N) where N is the number of users",
            reply: "Simple string: `OK`.",
            notes: SAVED_BY,
            example: &[(
                "ACL SAVE",
                "(error) ERR This Redis instance is not configured to use an ACL file. ...",
            )],
            parse: Some(|_| Ok(Action::Users(Users::Save))),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|setuser",
            summary: "Makes a user, or changes what it may do",
            arguments: &[
                Argument::new("username", Kind::Bytes),
                Argument::new("rule", Kind::Bytes).optional().multiple(),
            ],
            complexity: "O(N) where N is the number of rules and connections",
            reply: "Simple string: `OK`. An error that names the first rule that is wrong; nothing has changed then.",
            notes: RULES,
            example: &[
                ("ACL SETUSER worker on >secret ~mail* +@delay -@admin", "OK"),
                (
                    "ACL DRYRUN worker DELAY.LEN orders",
                    "\"User worker has no permissions to access the 'orders' key\"",
                ),
            ],
            parse: Some(|args| {
                let name = args.word("username")?;
                Ok(Action::Users(Users::Set { name, rules: args.rest() }))
            }),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|users",
            summary: "Lists the names of all users",
            complexity: "O(N) where N is the number of users",
            reply: "Array of bulk strings.",
            example: &[("ACL USERS", "1) \"default\"")],
            parse: Some(|_| Ok(Action::Users(Users::Names))),
            ..ADMIN
        },
        CommandSpec {
            name: "acl|whoami",
            summary: "Names the connection's user",
            reply: "Bulk string.",
            example: &[("ACL WHOAMI", "\"default\"")],
            parse: Some(|_| Ok(Action::Users(Users::WhoAmI))),
            ..PLAIN
        },
    ],
    ..PLAIN
}];

fn parse_genpass<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut bits = 256;
    if args.left() > 1 {
        return Err(wrong_count(args));
    }
    if args.left() == 1 {
        bits = number::signed(args.word("bits")?).ok_or_else(not_an_integer)?;
    }
    match usize::try_from(bits) {
        Ok(bits @ 1..=4096) => {
            Ok(Action::Users(Users::GeneratePassword { digits: bits.div_ceil(4) }))
        }
        _ => Err(Error::text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
             number up to 4096",
        )),
    }
}

fn parse_log<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    if args.left() > 1 {
        return Err(wrong_count(args));
    }
    Ok(Action::Users(match args.peek() {
        None => Users::Log(10),
        Some(word) if word.eq_ignore_ascii_case(b"reset") => Users::ForgetLog,
        Some(word) => {
            let count = number::signed(word).ok_or_else(not_an_integer)?;
            Users::Log(usize::try_from(count).unwrap_or(0))
        }
    }))
}

fn not_an_integer() -> Error {
    Error::text("ERR value is not an integer or out of range")
}

fn wrong_count(args: &Args<'_>) -> Error {
    crate::command::spec::args::arity_error(args.spec())
}
