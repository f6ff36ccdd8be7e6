//! ACL: users and what they may do.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Users};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::Error;

/// A subcommand for operators.
const ADMIN: CommandSpec = CommandSpec::BASE.group(Group::Server).flags(&[
    Flag::Admin,
    Flag::NoScript,
    Flag::Loading,
    Flag::Stale,
]);

/// A subcommand that reveals nothing about users.
const PLAIN: CommandSpec =
    CommandSpec::BASE.group(Group::Server).flags(&[Flag::NoScript, Flag::Loading, Flag::Stale]);

const RULES: &str = "Rules, applied in their order, all or none: `on`, `off`; `>password`, `<password`, \
    `#sha256`, `!sha256`, `nopass`, `resetpass`; `+command`, `-command`, `+command|subcommand`, `+@category`, \
    `-@category`, `allcommands` (`+@all`), `nocommands` (`-@all`); `~pattern` for queues, `%R~pattern` to read, \
    `%W~pattern` to write, `allkeys` (`~*`), `resetkeys`; `&pattern` for channels, `allchannels` (`&*`), \
    `resetchannels`; `(rules)` for a further set of commands, queues and channels, `clearselectors`; `reset`. \
    `@delay` is all DELAY commands of a queue. A command is allowed if one of the user's sets allows it; AUTH, \
    HELLO, QUIT and RESET always are. A new user is off and may do nothing. The new rules apply to the user's open \
    connections at once: a waiting command that would be denied now, or whose user is off, ends with `NOPERM`; a \
    connection that has subscribed to a channel or pattern that is no longer allowed, or uses MONITOR and may not, \
    is closed. `off` prevents new logins; open connections go on.";

const SAVED_BY: &str = "The option `aclfile` names the file; a relative path begins at `dir`. It contains the lines \
     of ACL LIST; Redis reads it, too.";

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[row(
    "acl",
    "Users and what they may do",
    PLAIN,
)
.complexity("Depends on the subcommand")
.reply("Depends on the subcommand.")
.flags(&[])
.subcommands(&[
    row("acl|cat", "Lists the categories of commands, or the commands of one", PLAIN)
        .arguments(&[Argument::new("category", ArgumentKind::Bytes).optional()])
        .complexity("O(N) where N is the number of commands")
        .reply("Array of bulk strings.")
        .example(&[(
            "ACL CAT transaction",
            "1) \"discard\"\n2) \"exec\"\n3) \"multi\"\n4) \"unwatch\"\n5) \"watch\"",
        )])
        .parse(|args| {
            let category = if args.left() > 0 { Some(args.word("category")?) } else { None };
            if args.left() > 0 {
                return Err(wrong_count(args));
            }
            Ok(Action::Users(Users::Categories(category)))
        }),
    row("acl|deluser", "Removes users and closes their connections", ADMIN)
        .arguments(&[Argument::new("username", ArgumentKind::Bytes).multiple()])
        .complexity("O(N) where N is the number of connections")
        .reply("Integer: how many existed.")
        .example(&[("ACL DELUSER nobody", "(integer) 0")])
        .parse(|args| Ok(Action::Users(Users::Delete(args.rest())))),
    row("acl|dryrun", "Checks whether a user may run a command, without running it", ADMIN)
        .arguments(&[
            Argument::new("username", ArgumentKind::Bytes),
            Argument::new("command", ArgumentKind::Bytes),
            Argument::new("arg", ArgumentKind::Bytes).optional().multiple(),
        ])
        .reply("Simple string: `OK`. Or a bulk string: why not.")
        .notes("A user with ACL WHOAMI may ask about itself without further rights.")
        .example(&[("ACL DRYRUN default PING", "OK")])
        .parse(|args| {
            let name = args.word("username")?;
            Ok(Action::Users(Users::DryRun { name, command: args.rest() }))
        }),
    row("acl|genpass", "Makes a password from the system's randomness", PLAIN)
        .arguments(&[Argument::new("bits", ArgumentKind::Integer)
            .optional()
            .about("1 to 4096, default 256; one hexadecimal digit for each four.")])
        .tips(&["nondeterministic_output"])
        .reply("Bulk string: hexadecimal digits.")
        .example(&[(
            "ACL GENPASS",
            "\"dd721260bfe1b3d9601e7fbab36de6d04e2e67b0ef1c53de59d45950db0dd3cc\"",
        )])
        .parse(parse_genpass),
    row("acl|getuser", "Shows a user", ADMIN)
        .arguments(&[Argument::new("username", ArgumentKind::Bytes)])
        .complexity("O(N) where N is the number of its rules")
        .reply("Map (in RESP2 a flat array): `flags`, `passwords`, `commands`, `keys`, `channels`, `selectors`. \
                Nil if there is no such user.")
        .example(&[("ACL GETUSER nobody", "(nil)")])
        .parse(|args| Ok(Action::Users(Users::Show(args.word("username")?)))),
    help("acl|help", Group::Server),
    row("acl|list", "Shows all users as lines of an ACL file", ADMIN)
        .complexity("O(N) where N is the number of users")
        .reply("Array of bulk strings, with the SHA-256 of passwords.")
        .example(&[("ACL LIST", "1) \"user default on nopass ~* &* +@all\"")])
        .parse(|_| Ok(Action::Users(Users::List))),
    row("acl|load", "Reads the users from the ACL file again", ADMIN)
        .complexity("O(N) where N is the number of users and connections")
        .reply("Simple string: `OK`. An error that names every wrong line; nothing has changed then.")
        .notes(SAVED_BY)
        .example(&[(
            "ACL LOAD",
            "(error) ERR This Redis instance is not configured to use an ACL file. ...",
        )])
        .parse(|_| Ok(Action::Users(Users::Load))),
    row("acl|log", "Shows what was denied recently", ADMIN)
        .arguments(&[Argument::one_of(
            "operation",
            &[
                Argument::new("count", ArgumentKind::Integer),
                Argument::word("reset", "RESET").about("Removes all entries."),
            ],
        )
        .optional()])
        .complexity("O(N) where N is the number of entries")
        .reply("Array of maps (in RESP2 flat arrays): `count`, `reason`, `context`, `object`, `username`, `age-seconds`, `client-info`, `entry-id`, `timestamp-created`, `timestamp-last-updated`. For RESET: `OK`.")
        .notes("The newest 10 entries unless a count is given; `acllog-max-len` are kept. A denial that repeats \
                within a minute is counted in one entry. Wrong passwords are not shown.")
        .example(&[("ACL LOG RESET", "OK")])
        .parse(parse_log),
    row("acl|save", "Writes the users to the ACL file", ADMIN)
        .complexity("O(N) where N is the number of users")
        .reply("Simple string: `OK`.")
        .notes(SAVED_BY)
        .example(&[(
            "ACL SAVE",
            "(error) ERR This Redis instance is not configured to use an ACL file. ...",
        )])
        .parse(|_| Ok(Action::Users(Users::Save))),
    row("acl|setuser", "Creates a user, or changes what it may do", ADMIN)
        .arguments(&[
            Argument::new("username", ArgumentKind::Bytes),
            Argument::new("rule", ArgumentKind::Bytes).optional().multiple(),
        ])
        .complexity("O(N) where N is the number of rules and connections")
        .reply("Simple string: `OK`. An error that names the first wrong rule; nothing has changed then.")
        .notes(RULES)
        .example(&[
            ("ACL SETUSER worker on >secret ~mail* +@delay", "OK"),
            (
                "ACL DRYRUN worker DELAY.LEN orders",
                "\"User worker has no permissions to access the 'orders' key\"",
            ),
        ])
        .parse(|args| {
            let name = args.word("username")?;
            Ok(Action::Users(Users::Set { name, rules: args.rest() }))
        }),
    row("acl|users", "Lists the names of all users", ADMIN)
        .complexity("O(N) where N is the number of users")
        .reply("Array of bulk strings.")
        .example(&[("ACL USERS", "1) \"default\"")])
        .parse(|_| Ok(Action::Users(Users::Names))),
    row("acl|whoami", "Shows the connection's user", PLAIN)
        .reply("Bulk string.")
        .example(&[("ACL WHOAMI", "\"default\"")])
        .parse(|_| Ok(Action::Users(Users::WhoAmI))),
])];

fn parse_genpass<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut bits = 256;
    if args.left() > 1 {
        return Err(wrong_count(args));
    }
    if args.left() == 1 {
        bits = args.signed("bits")?;
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
        Some(_) => Users::Log(usize::try_from(args.signed("count")?).unwrap_or(0)),
    }))
}

fn wrong_count(args: &Args<'_>) -> Error {
    crate::command::spec::args::arity_error(args.spec())
}
