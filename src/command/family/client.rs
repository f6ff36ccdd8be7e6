//! CLIENT: this connection and the others.

use crate::command::family::connection::{check_client_name, check_length, is_plain};
use crate::command::family::help::help;
use crate::command::read::number;
use crate::command::spec::action::{
    Action, ClientFilter, ClientKind, Clients, Connection, ReplyMode,
};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::error::{Error, Shown};
use crate::ids::ClientId;

/// A subcommand about the own connection.
const OWN: CommandSpec = CommandSpec {
    group: Group::Connection,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    ..CommandSpec::BASE
};

/// A subcommand about other connections.
const OTHERS: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of connections",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    ..OWN
};

const ON_OFF: &[Argument] = &[Argument::word("on", "ON"), Argument::word("off", "OFF")];

const KINDS: Argument = Argument::one_of(
    "type",
    &[
        Argument::word("normal", "NORMAL"),
        Argument::word("master", "MASTER"),
        Argument::word("replica", "REPLICA"),
        Argument::word("slave", "SLAVE"),
        Argument::word("pubsub", "PUBSUB"),
    ],
)
.after("TYPE")
.optional();

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "client",
    summary: "This connection and the others",
    complexity: "Depends on the subcommand",
    reply: "Depends on the subcommand.",
    flags: &[],
    subcommands: &[
        CommandSpec {
            name: "client|caching",
            summary: "Refused: there is no tracking of keys",
            arguments: &[Argument::one_of(
                "mode",
                &[Argument::word("yes", "YES"), Argument::word("no", "NO")],
            )],
            reply: "An error that says so.",
            example: &[(
                "CLIENT CACHING YES",
                "(error) ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                 OPTIN or OPTOUT mode enabled",
            )],
            parse: Some(|args| {
                args.option()?;
                Err(Error::text(
                    "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                     OPTIN or OPTOUT mode enabled",
                ))
            }),
            ..OWN
        },
        CommandSpec {
            name: "client|getname",
            summary: "Shows the connection's name",
            reply: "Bulk string, or nil if it has none.",
            example: &[("CLIENT GETNAME", "(nil)")],
            parse: Some(|_| Ok(Action::Connection(Connection::GetName))),
            ..OWN
        },
        CommandSpec {
            name: "client|getredir",
            summary: "Says where invalidations go: nowhere, as there is no tracking",
            reply: "Integer: -1.",
            example: &[("CLIENT GETREDIR", "(integer) -1")],
            parse: Some(|_| Ok(Action::Connection(Connection::GetRedir))),
            ..OWN
        },
        help("client|help", Group::Connection),
        CommandSpec {
            name: "client|id",
            summary: "Shows the connection's number, which no other connection ever has",
            reply: "Integer.",
            example: &[("CLIENT ID", "(integer) 3")],
            parse: Some(|_| Ok(Action::Connection(Connection::Id))),
            ..OWN
        },
        CommandSpec {
            name: "client|info",
            summary: "Shows the connection as CLIENT LIST does",
            reply: "Text: one line of CLIENT LIST.",
            tips: &["nondeterministic_output"],
            example: &[(
                "CLIENT INFO",
                "id=3 addr=127.0.0.1:50418 laddr=127.0.0.1:6379 fd=12 name= ...",
            )],
            parse: Some(|_| Ok(Action::Connection(Connection::Info))),
            ..OWN
        },
        CommandSpec {
            name: "client|kill",
            summary: "Closes connections",
            arguments: &[Argument::one_of(
                "which",
                &[
                    Argument::new("addr", Kind::Bytes).shown("ip:port"),
                    Argument::one_of(
                        "filter",
                        &[
                            Argument::option("ID", "client-id", Kind::Integer),
                            KINDS,
                            Argument::option("USER", "username", Kind::Bytes),
                            Argument::option("ADDR", "addr", Kind::Bytes).shown("ip:port"),
                            Argument::option("LADDR", "laddr", Kind::Bytes).shown("ip:port"),
                            Argument::one_of(
                                "skipme",
                                &[Argument::word("yes", "YES"), Argument::word("no", "NO")],
                            )
                            .after("SKIPME")
                            .optional()
                            .about("Spare this connection. Default yes."),
                            Argument::option("MAXAGE", "maxage", Kind::Integer)
                                .shown("seconds")
                                .about("Only those connected for at least so long."),
                        ],
                    )
                    .multiple(),
                ],
            )],
            reply: "Integer: how many were closed. With an address alone: `OK`, or an error if there is none.",
            notes: "All filters must hold. A job handed to a waiting connection that is closed before the \
                    reply left goes back to its place.",
            example: &[("CLIENT KILL ID 999999", "(integer) 0")],
            parse: Some(parse_kill),
            ..OTHERS
        },
        CommandSpec {
            name: "client|list",
            summary: "Shows all connections",
            arguments: &[
                KINDS,
                Argument::new("client-id", Kind::Integer).after("ID").multiple().optional(),
            ],
            tips: &["nondeterministic_output"],
            reply: "Text: a line for each, fields `name=value` parted by blanks.",
            example: &[("CLIENT LIST ID 999999", "")],
            parse: Some(parse_list),
            ..OTHERS
        },
        CommandSpec {
            name: "client|no-evict",
            summary: "Notes that the connection should not be closed for its memory",
            arguments: &[Argument::one_of("enabled", ON_OFF)],
            flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
            reply: "Simple string: `OK`.",
            example: &[("CLIENT NO-EVICT on", "OK")],
            parse: Some(|args| {
                let on = args.option()? == Some("ON");
                Ok(Action::Connection(Connection::NoEvict(on)))
            }),
            ..OWN
        },
        CommandSpec {
            name: "client|no-touch",
            summary: "Notes that the connection's commands should not touch what they read",
            arguments: &[Argument::one_of("enabled", ON_OFF)],
            reply: "Simple string: `OK`. When a queue was last read is not recorded anyway.",
            example: &[("CLIENT NO-TOUCH on", "OK")],
            parse: Some(|args| {
                let on = args.option()? == Some("ON");
                Ok(Action::Connection(Connection::NoTouch(on)))
            }),
            ..OWN
        },
        CommandSpec {
            name: "client|pause",
            summary: "Keeps all clients' commands back for a while",
            complexity: "O(1)",
            arguments: &[
                Argument::new("timeout", Kind::Integer).shown("milliseconds"),
                Argument::one_of(
                    "mode",
                    &[
                        Argument::word("write", "WRITE").about("Those that write, and PUBLISH."),
                        Argument::word("all", "ALL").about("All but CLIENT UNPAUSE. The default."),
                    ],
                )
                .optional(),
            ],
            reply: "Simple string: `OK`.",
            notes: "Meanwhile nothing changes: no job falls due or is handed over, no lease ends. What was due \
                    happens when the pause is over; a lease that would have ended in it is extended by as \
                    much as was left of it. Consumers that wait can still time out. Another PAUSE takes \
                    the place of the one before.",
            example: &[("CLIENT PAUSE 100 WRITE", "OK")],
            parse: Some(parse_pause),
            ..OTHERS
        },
        CommandSpec {
            name: "client|reply",
            summary: "Says whether commands are answered",
            arguments: &[Argument::one_of(
                "mode",
                &[
                    Argument::word("on", "ON"),
                    Argument::word("off", "OFF").about("None is, until ON."),
                    Argument::word("skip", "SKIP").about("The next one is not."),
                ],
            )],
            flags: &[Flag::NoScript, Flag::NoMulti, Flag::Loading, Flag::Stale],
            reply: "Simple string: `OK` for ON; nothing for OFF and SKIP. Messages of channels, and what tells of \
                    subscriptions, come all the same.",
            example: &[("CLIENT REPLY ON", "OK")],
            parse: Some(|args| {
                let mode = match args.option()? {
                    Some("OFF") => ReplyMode::Off,
                    Some("SKIP") => ReplyMode::Skip,
                    _ => ReplyMode::On,
                };
                Ok(Action::Connection(Connection::Reply(mode)))
            }),
            ..OWN
        },
        CommandSpec {
            name: "client|setinfo",
            summary: "Notes the client library and its version",
            arguments: &[Argument::one_of(
                "attr",
                &[
                    Argument::new("libname", Kind::Bytes).after("LIB-NAME"),
                    Argument::new("libver", Kind::Bytes).after("LIB-VER"),
                ],
            )],
            reply: "Simple string: `OK`.",
            notes: "Each is visible ASCII without blanks, at most 1,024 bytes.",
            example: &[("CLIENT SETINFO LIB-NAME mylib", "OK")],
            parse: Some(parse_setinfo),
            ..OWN
        },
        CommandSpec {
            name: "client|setname",
            summary: "Gives the connection a name",
            arguments: &[Argument::new("connection-name", Kind::Bytes)
                .about("Visible ASCII without blanks, at most 1,024 bytes; empty for none.")],
            reply: "Simple string: `OK`.",
            example: &[("CLIENT SETNAME worker-1", "OK")],
            parse: Some(|args| {
                let name = check_client_name(args.word("connection-name")?)?;
                Ok(Action::Connection(Connection::SetName(name)))
            }),
            ..OWN
        },
        CommandSpec {
            name: "client|tracking",
            summary: "Refused: there is no tracking of keys",
            arguments: &[
                Argument::one_of("status", ON_OFF),
                Argument::new("option", Kind::Bytes).optional().multiple(),
            ],
            reply: "An error for ON; `OK` for OFF, as it is off.",
            example: &[("CLIENT TRACKING on", "(error) ERR CLIENT TRACKING is not supported")],
            parse: Some(|args| match args.option()? {
                Some("OFF") => Ok(Action::Connection(Connection::TrackingOff)),
                _ => Err(Error::text("ERR CLIENT TRACKING is not supported")),
            }),
            ..OWN
        },
        CommandSpec {
            name: "client|trackinginfo",
            summary: "Shows the connection's tracking: off",
            reply: "Map (in RESP2 a flat array): `flags`, `redirect`, `prefixes`.",
            example: &[(
                "CLIENT TRACKINGINFO",
                "1) \"flags\"\n2) 1) \"off\"\n3) \"redirect\"\n4) (integer) -1\n5) \"prefixes\"\n6) (empty array)",
            )],
            parse: Some(|_| Ok(Action::Connection(Connection::TrackingInfo))),
            ..OWN
        },
        CommandSpec {
            name: "client|unblock",
            summary: "Releases a waiting connection",
            arguments: &[
                Argument::new("client-id", Kind::Integer),
                Argument::one_of(
                    "reply",
                    &[
                        Argument::word("timeout", "TIMEOUT")
                            .about("As if its timeout were over. The default."),
                        Argument::word("error", "ERROR").about("With the error class `UNBLOCKED`."),
                    ],
                )
                .optional(),
            ],
            flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
            complexity: "O(N) where N is the number of queues it waits for",
            reply: "Integer: 1, or 0 if it does not wait.",
            example: &[("CLIENT UNBLOCK 999999", "(integer) 0")],
            parse: Some(parse_unblock),
            ..OWN
        },
        CommandSpec {
            name: "client|unpause",
            summary: "Ends CLIENT PAUSE",
            complexity: "O(N) where N is the number of clients kept back",
            reply: "Simple string: `OK`.",
            example: &[("CLIENT UNPAUSE", "OK")],
            parse: Some(|_| Ok(Action::Clients(Clients::Unpause))),
            ..OTHERS
        },
    ],
    ..OWN
}];

fn parse_kill<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    if args.left() == 1 {
        return Ok(Action::Clients(Clients::KillAddr(args.word("addr")?)));
    }
    let mut filter = ClientFilter { skip_me: true, ..ClientFilter::default() };
    while let Some(option) = args.option()? {
        match option {
            "ID" => {
                let id = number::signed(args.word("client-id")?).filter(|id| *id > 0);
                let id = id.ok_or_else(|| Error::text("ERR client-id should be greater than 0"))?;
                filter.ids = Some(vec![ClientId(id as u64)]);
            }
            "TYPE" => filter.kind = Some(client_kind(args)?),
            "USER" => filter.user = Some(args.word("username")?),
            "ADDR" => filter.addr = Some(args.word("addr")?),
            "LADDR" => filter.laddr = Some(args.word("laddr")?),
            "SKIPME" => filter.skip_me = args.choice()? == "YES",
            "MAXAGE" => filter.age_s_min = Some(args.integer("maxage", 1, i64::MAX as u64)?),
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Clients(Clients::Kill(filter)))
}

fn parse_list<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let mut filter = ClientFilter::default();
    while let Some(option) = args.option()? {
        match option {
            "TYPE" => filter.kind = Some(client_kind(args)?),
            "ID" => {
                let first = args.word("client-id")?;
                let words = std::iter::once(&first).chain(args.rest());
                let ids: Option<Vec<ClientId>> = words
                    .map(|word| number::signed(word).filter(|id| *id > 0))
                    .map(|id| id.map(|id| ClientId(id as u64)))
                    .collect();
                filter.ids = Some(ids.ok_or_else(|| Error::text("ERR Invalid client ID"))?);
            }
            _ => return Err(args.unknown_option()),
        }
    }
    Ok(Action::Clients(Clients::List(filter)))
}

fn client_kind(args: &mut Args<'_>) -> Result<ClientKind, Error> {
    let word = args.peek().unwrap_or_default();
    if args.left() == 0 {
        args.word("type")?;
    }
    match args.choice() {
        Ok("NORMAL") => Ok(ClientKind::Normal),
        Ok("MASTER") => Ok(ClientKind::Master),
        Ok("REPLICA" | "SLAVE") => Ok(ClientKind::Replica),
        Ok("PUBSUB") => Ok(ClientKind::PubSub),
        _ => Err(Error::text(format!("ERR Unknown client type {}", Shown::new(word)))),
    }
}

fn parse_setinfo<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let word = args.peek().unwrap_or_default();
    let option = args
        .option()
        .unwrap_or_default()
        .ok_or_else(|| Error::text(format!("ERR Unrecognized option {}", Shown::new(word))))?;
    let value = args.word("value")?;
    let name = option.to_ascii_lowercase();
    check_length(&name, value)?;
    if !is_plain(value) {
        return Err(Error::text(format!(
            "ERR {name} cannot contain spaces, newlines or special characters."
        )));
    }
    Ok(Action::Connection(match option {
        "LIB-NAME" => Connection::SetLibName(value),
        _ => Connection::SetLibVersion(value),
    }))
}

fn parse_pause<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let ms = match number::signed(args.word("timeout")?) {
        Some(ms @ 0..) => ms as u64,
        Some(_) => return Err(Error::text("ERR timeout is negative")),
        None => return Err(Error::text("ERR timeout is not an integer or out of range")),
    };
    let wrong = |_| Error::text("ERR CLIENT PAUSE mode must be WRITE or ALL");
    let writes_only = args.option().map_err(wrong)? == Some("WRITE");
    args.end_or_arity()?;
    Ok(Action::Clients(Clients::Pause { ms, writes_only }))
}

fn parse_unblock<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let id = number::signed(args.word("client-id")?)
        .ok_or_else(|| Error::text("ERR value is not an integer or out of range"))?;
    let unknown = |_| Error::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    let error = args.option().map_err(unknown)? == Some("ERROR");
    args.end()?;
    let id = u64::try_from(id).ok().filter(|id| *id > 0).map(ClientId);
    Ok(Action::Clients(Clients::Unblock { id, error }))
}
