//! The connection itself: protocol, database, user.

use crate::command::read::number;
use crate::command::spec::action::{Action, Connection, Hello};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::{Error, Shown};
use crate::ids::{DATABASES, Db};
use crate::limits::CLIENT_NAME_BYTES_MAX;
use crate::resp::Protocol;

const CONNECTION: CommandSpec =
    CommandSpec::BASE.group(Group::Connection).flags(&[Flag::Loading, Flag::Stale, Flag::Fast]);

const EARLY: &[Flag] = &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoAuth];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("auth", "Logs in", CONNECTION)
        .arguments(&[
            Argument::new("username", ArgumentKind::Bytes).optional(),
            Argument::new("password", ArgumentKind::Bytes),
        ])
        .flags(EARLY)
        .reply("Simple string: `OK`. The error class `WRONGPASS` if the name or the password is wrong; the \
                connection's user does not change.")
        .notes("Without a name: the user `default`; an error if that has no password, as in Redis. After ten wrong \
                passwords the connection is closed. If a password is required, all commands except AUTH, HELLO, QUIT \
                and RESET answer `NOAUTH` until then, and a request may have 10 arguments of 16 KiB.")
        .example(&[("AUTH default secret", "OK")])
        .parse(parse_auth),
    row("echo", "Answers with the message", CONNECTION)
        .arguments(&[Argument::new("message", ArgumentKind::Bytes)])
        .reply("Bulk string: the message.")
        .example(&[("ECHO hello", "\"hello\"")])
        .parse(|args| Ok(Action::Connection(Connection::Echo(args.word("message")?)))),
    row("hello", "Chooses the protocol and introduces both sides", CONNECTION)
        .arguments(&[
            Argument::new("protover", ArgumentKind::Integer).optional().about("2 or 3."),
            Argument::block(
                "auth",
                &[
                    Argument::new("username", ArgumentKind::Bytes),
                    Argument::new("password", ArgumentKind::Bytes),
                ],
            )
            .after("AUTH")
            .optional(),
            Argument::option("SETNAME", "clientname", ArgumentKind::Bytes)
                .about("The connection's name, as with CLIENT SETNAME."),
        ])
        .flags(EARLY)
        .reply("Map (in RESP2 a flat array): `server`, `version`, `proto`, `id`, `mode`, `role`, `modules`.")
        .notes("Without a version, and after an error, the protocol does not change.")
        .example(&[("HELLO 4", "(error) NOPROTO unsupported protocol version")])
        .parse(parse_hello),
    row("ping", "Answers PONG, or with the message", CONNECTION)
        .arguments(&[Argument::new("message", ArgumentKind::Bytes).optional()])
        .flags(&[Flag::Fast])
        .reply("Simple string: `PONG`. With a message: bulk string.")
        .example(&[("PING", "PONG"), ("PING hello", "\"hello\"")])
        .parse(|args| {
            let message = if args.left() > 0 { Some(args.word("message")?) } else { None };
            args.end_or_arity()?;
            Ok(Action::Connection(Connection::Ping(message)))
        }),
    row("quit", "Closes the connection", CONNECTION)
        .flags(EARLY)
        .reply("Simple string: `OK`, then the connection closes. Later commands of the pipeline do not run.")
        .example(&[("QUIT", "OK")])
        .parse(|_| Ok(Action::Connection(Connection::Quit))),
    row("reset", "Resets the connection to its initial state", CONNECTION)
        .flags(EARLY)
        .reply("Simple string: `RESET`.")
        .notes("RESP2, database 0, no name, no transaction, the user `default` (AUTH may be required again); its \
                `BOUND` leases end.")
        .example(&[("RESET", "RESET")])
        .parse(|_| Ok(Action::Connection(Connection::Reset))),
    row("select", "Chooses the database", CONNECTION)
        .arguments(&[Argument::new("index", ArgumentKind::Integer).about("0 to 15.")])
        .reply("Simple string: `OK`.")
        .notes("Queues of the same name in different databases are independent.")
        .example(&[("SELECT 0", "OK")])
        .parse(parse_select),
];

fn parse_auth<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    if args.left() > 2 {
        return Err(Error::text("ERR syntax error"));
    }
    let user = if args.left() == 2 { Some(args.word("username")?) } else { None };
    Ok(Action::Connection(Connection::Auth { user, password: args.word("password")? }))
}

fn parse_hello<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut hello = Hello::default();
    if args.left() > 0 {
        hello.protocol = Some(match number::signed(args.word("protover")?) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(Error::text("NOPROTO unsupported protocol version")),
            None => {
                return Err(Error::text("ERR Protocol version is not an integer or out of range"));
            }
        });
    }
    while let Some(word) = args.peek() {
        let refused = |_| {
            let option = Shown::new(word);
            Error::text(format!("ERR Syntax error in HELLO option {option}"))
        };
        match args.option().map_err(refused)? {
            Some("AUTH") => {
                let user = args.word("username").map_err(refused)?;
                hello.auth = Some((user, args.word("password").map_err(refused)?));
            }
            Some("SETNAME") => {
                let name = args.word("clientname").map_err(refused)?;
                hello.name = Some(check_client_name(name)?);
            }
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Connection(Connection::Hello(hello)))
}

fn parse_select<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let index = args.signed("index")?;
    if !(0..i64::from(DATABASES)).contains(&index) {
        return Err(Error::text("ERR DB index is out of range"));
    }
    Ok(Action::Connection(Connection::Select(Db(index as u8))))
}

/// A connection's own information is kept as long as the connection.
pub(super) fn check_length(what: &str, text: &[u8]) -> Result<(), Error> {
    if text.len() > CLIENT_NAME_BYTES_MAX {
        let bytes = text.len();
        let text =
            format!("ERR {what} has {bytes} bytes; it can have at most {CLIENT_NAME_BYTES_MAX}");
        return Err(Error::text(text));
    }
    Ok(())
}

/// A connection's name is shown in CLIENT LIST, whose fields are separated by spaces.
pub(super) fn check_client_name(name: &[u8]) -> Result<&[u8], Error> {
    check_length("client name", name)?;
    if is_plain(name) {
        return Ok(name);
    }
    Err(Error::text("ERR Client names cannot contain spaces, newlines or special characters."))
}

/// Only visible ASCII.
pub(super) fn is_plain(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}
