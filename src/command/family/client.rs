//! CLIENT: this connection and the others.

use crate::command::family::connection::{check_client_name, check_length, is_plain};
use crate::command::family::help::help;
use crate::command::read::number;
use crate::command::spec::action::{
    Action, ClientFilter, ClientKind, Clients, Connection, ReplyMode,
};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::{Error, Shown};
use crate::ids::ClientId;

/// A subcommand about the own connection.
const OWN: CommandSpec =
    CommandSpec::BASE.group(Group::Connection).flags(&[Flag::NoScript, Flag::Loading, Flag::Stale]);

/// A subcommand about other connections.
const OTHERS: CommandSpec = OWN.complexity("O(N) where N is the number of connections").flags(&[
    Flag::Admin,
    Flag::NoScript,
    Flag::Loading,
    Flag::Stale,
]);

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

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[row(
    "client",
    "This connection and the others",
    OWN,
)
.complexity("Depends on the subcommand")
.reply("Depends on the subcommand.")
.flags(&[])
.subcommands(&[
    row("client|caching", "Refused: there is no tracking of keys", OWN)
        .arguments(&[Argument::one_of(
            "mode",
            &[Argument::word("yes", "YES"), Argument::word("no", "NO")],
        )])
        .reply("An error that says so.")
        .example(&[(
            "CLIENT CACHING YES",
            "(error) ERR CLIENT CACHING can be called only when the client is in tracking mode with \
             OPTIN or OPTOUT mode enabled",
        )])
        .parse(|args| {
            args.option()?;
            Err(Error::text(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                 OPTIN or OPTOUT mode enabled",
            ))
        }),
    row("client|getname", "Shows the connection's name", OWN)
        .reply("Bulk string, or nil if it has none.")
        .example(&[("CLIENT GETNAME", "(nil)")])
        .parse(|_| Ok(Action::Connection(Connection::GetName))),
    row(
        "client|getredir",
        "Shows where invalidations go: nowhere, because there is no tracking",
        OWN,
    )
    .reply("Integer: -1.")
    .example(&[("CLIENT GETREDIR", "(integer) -1")])
    .parse(|_| Ok(Action::Connection(Connection::GetRedir))),
    help("client|help", Group::Connection),
    row("client|id", "Shows the connection's number, which no other connection ever has", OWN)
        .reply("Integer.")
        .example(&[("CLIENT ID", "(integer) 3")])
        .parse(|_| Ok(Action::Connection(Connection::Id))),
    row("client|info", "Shows the connection as CLIENT LIST does", OWN)
        .reply("Text: one line of CLIENT LIST.")
        .tips(&["nondeterministic_output"])
        .example(&[(
            "CLIENT INFO",
            "id=3 addr=127.0.0.1:50418 laddr=127.0.0.1:6379 fd=12 name= ...",
        )])
        .parse(|_| Ok(Action::Connection(Connection::Info))),
    row("client|kill", "Closes connections", OTHERS)
        .arguments(&[Argument::one_of(
            "which",
            &[
                Argument::new("addr", ArgumentKind::Bytes).shown("ip:port"),
                Argument::one_of(
                    "filter",
                    &[
                        Argument::option("ID", "client-id", ArgumentKind::Integer),
                        KINDS,
                        Argument::option("USER", "username", ArgumentKind::Bytes),
                        Argument::option("ADDR", "addr", ArgumentKind::Bytes).shown("ip:port"),
                        Argument::option("LADDR", "laddr", ArgumentKind::Bytes).shown("ip:port"),
                        Argument::one_of(
                            "skipme",
                            &[Argument::word("yes", "YES"), Argument::word("no", "NO")],
                        )
                        .after("SKIPME")
                        .optional()
                        .about("Spare this connection. Default yes."),
                        Argument::option("MAXAGE", "maxage", ArgumentKind::Integer)
                            .shown("seconds")
                            .about("Only connections that are at least this old."),
                    ],
                )
                .multiple(),
            ],
        )])
        .reply("Integer: how many were closed. With only an address: `OK`, or an error if there is no such \
                connection.")
        .notes("All filters must match. A job handed to a waiting connection that is closed before its reply was \
                sent goes back to its place.")
        .example(&[("CLIENT KILL ID 999999", "(integer) 0")])
        .parse(parse_kill),
    row("client|list", "Shows all connections", OTHERS)
        .arguments(&[
            KINDS,
            Argument::new("client-id", ArgumentKind::Integer).after("ID").multiple().optional(),
        ])
        .tips(&["nondeterministic_output"])
        .reply("Text: a line for each, with fields `name=value` separated by spaces.")
        .example(&[("CLIENT LIST ID 999999", "")])
        .parse(parse_list),
    row("client|no-evict", "Asks that the connection is not closed for its memory", OWN)
        .arguments(&[Argument::one_of("enabled", ON_OFF)])
        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
        .reply("Simple string: `OK`.")
        .example(&[("CLIENT NO-EVICT on", "OK")])
        .parse(|args| {
            let on = args.option()? == Some("ON");
            Ok(Action::Connection(Connection::NoEvict(on)))
        }),
    row(
        "client|no-touch",
        "Asks that the connection's commands do not touch what they read",
        OWN,
    )
    .arguments(&[Argument::one_of("enabled", ON_OFF)])
    .reply("Simple string: `OK`. The last access of a queue is not recorded anyway.")
    .example(&[("CLIENT NO-TOUCH on", "OK")])
    .parse(|args| {
        let on = args.option()? == Some("ON");
        Ok(Action::Connection(Connection::NoTouch(on)))
    }),
    row("client|pause", "Holds back all clients' commands for a while", OTHERS)
        .complexity("O(1)")
        .arguments(&[
            Argument::new("timeout", ArgumentKind::Integer).shown("milliseconds"),
            Argument::one_of(
                "mode",
                &[
                    Argument::word("write", "WRITE").about("Commands that write, and PUBLISH."),
                    Argument::word("all", "ALL")
                        .about("All commands except CLIENT UNPAUSE. The default."),
                ],
            )
            .optional(),
        ])
        .reply("Simple string: `OK`.")
        .notes("Time stops meanwhile: no job falls due or is handed over, no lease ends. Due events happen when \
                the pause is over; a lease that would have ended during the pause is extended by the time it had \
                left. Waiting consumers can still time out. Another PAUSE replaces the previous one.")
        .example(&[("CLIENT PAUSE 100 WRITE", "OK")])
        .parse(parse_pause),
    row("client|reply", "Turns replies on or off", OWN)
        .arguments(&[Argument::one_of(
            "mode",
            &[
                Argument::word("on", "ON"),
                Argument::word("off", "OFF").about("No replies until ON."),
                Argument::word("skip", "SKIP").about("No reply to the next command."),
            ],
        )])
        .flags(&[Flag::NoScript, Flag::NoMulti, Flag::Loading, Flag::Stale])
        .reply("Simple string: `OK` for ON; nothing for OFF and SKIP. Messages of channels and confirmations of \
                subscriptions are still sent.")
        .example(&[("CLIENT REPLY ON", "OK")])
        .parse(|args| {
            let mode = match args.option()? {
                Some("OFF") => ReplyMode::Off,
                Some("SKIP") => ReplyMode::Skip,
                _ => ReplyMode::On,
            };
            Ok(Action::Connection(Connection::Reply(mode)))
        }),
    row("client|setinfo", "Records the client library and its version", OWN)
        .arguments(&[Argument::one_of(
            "attr",
            &[
                Argument::new("libname", ArgumentKind::Bytes).after("LIB-NAME"),
                Argument::new("libver", ArgumentKind::Bytes).after("LIB-VER"),
            ],
        )])
        .reply("Simple string: `OK`.")
        .notes("Each is visible ASCII without spaces, at most 1,024 bytes.")
        .example(&[("CLIENT SETINFO LIB-NAME mylib", "OK")])
        .parse(parse_setinfo),
    row("client|setname", "Gives the connection a name", OWN)
        .arguments(&[Argument::new("connection-name", ArgumentKind::Bytes)
            .about("Visible ASCII without spaces, at most 1,024 bytes; empty for none.")])
        .reply("Simple string: `OK`.")
        .example(&[("CLIENT SETNAME worker-1", "OK")])
        .parse(|args| {
            let name = check_client_name(args.word("connection-name")?)?;
            Ok(Action::Connection(Connection::SetName(name)))
        }),
    row("client|tracking", "Refused: there is no tracking of keys", OWN)
        .arguments(&[
            Argument::one_of("status", ON_OFF),
            Argument::new("option", ArgumentKind::Bytes).optional().multiple(),
        ])
        .reply("An error for ON; `OK` for OFF.")
        .example(&[("CLIENT TRACKING on", "(error) ERR CLIENT TRACKING is not supported")])
        .parse(|args| match args.option()? {
            Some("OFF") => Ok(Action::Connection(Connection::TrackingOff)),
            _ => Err(Error::text("ERR CLIENT TRACKING is not supported")),
        }),
    row("client|trackinginfo", "Shows the connection's tracking: off", OWN)
        .reply("Map (in RESP2 a flat array): `flags`, `redirect`, `prefixes`.")
        .example(&[(
            "CLIENT TRACKINGINFO",
            "1) \"flags\"\n2) 1) \"off\"\n3) \"redirect\"\n4) (integer) -1\n5) \"prefixes\"\n6) (empty array)",
        )])
        .parse(|_| Ok(Action::Connection(Connection::TrackingInfo))),
    row("client|unblock", "Releases a waiting connection", OWN)
        .arguments(&[
            Argument::new("client-id", ArgumentKind::Integer),
            Argument::one_of(
                "reply",
                &[
                    Argument::word("timeout", "TIMEOUT")
                        .about("As if its timeout were over. The default."),
                    Argument::word("error", "ERROR").about("With the error class `UNBLOCKED`."),
                ],
            )
            .optional(),
        ])
        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
        .complexity("O(N) where N is the number of queues it waits for")
        .reply("Integer: 1, or 0 if it was not waiting.")
        .example(&[("CLIENT UNBLOCK 999999", "(integer) 0")])
        .parse(parse_unblock),
    row("client|unpause", "Ends CLIENT PAUSE", OTHERS)
        .complexity("O(N) where N is the number of clients held back")
        .reply("Simple string: `OK`.")
        .example(&[("CLIENT UNPAUSE", "OK")])
        .parse(|_| Ok(Action::Clients(Clients::Unpause))),
])];

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
    let ms = args.wait_ms()?;
    let wrong = |_| Error::text("ERR CLIENT PAUSE mode must be WRITE or ALL");
    let writes_only = args.option().map_err(wrong)? == Some("WRITE");
    args.end_or_arity()?;
    Ok(Action::Clients(Clients::Pause { ms, writes_only }))
}

fn parse_unblock<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let id = args.signed("client-id")?;
    let unknown = |_| Error::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    let error = args.option().map_err(unknown)? == Some("ERROR");
    args.end()?;
    let id = u64::try_from(id).ok().filter(|id| *id > 0).map(ClientId);
    Ok(Action::Clients(Clients::Unblock { id, error }))
}
