//! Replication, of which there is none: what Sentinel and tools send is answered as by a master without
//! replicas, the rest refused.

use crate::command::family::server::{ADMIN, SERVER};
use crate::command::read::number;
use crate::command::spec::action::{Action, Fixed, Server};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag};
use crate::error::Error;

const NONE: &str = "ERR replication is not supported in this version";

const REPLICA_OF: CommandSpec = CommandSpec {
    arguments: &[
        Argument::new("host", Kind::Bytes).shown("NO"),
        Argument::new("port", Kind::Bytes).shown("ONE"),
    ],
    flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
    reply: "Simple string: `OK` for NO ONE, as it is nobody's replica; for a host and a port an error.",
    parse: Some(parse_replica_of),
    ..SERVER
};

/// What a replica sends.
const REFUSED: CommandSpec = CommandSpec {
    arguments: &[Argument::new("arg", Kind::Bytes).optional().multiple()],
    reply: "An error that says so.",
    parse: Some(|_| Err(Error::text(NONE))),
    ..ADMIN
};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "debug",
        summary: "Refused: nothing of DEBUG is supported",
        arguments: &[
            Argument::new("subcommand", Kind::Bytes),
            Argument::new("arg", Kind::Bytes).optional().multiple(),
        ],
        reply: "An error that says so.",
        notes: "DEBUG SLEEP would hold up every client and every job.",
        example: &[(
            "DEBUG SLEEP 1",
            "(error) ERR DEBUG is not supported; CLIENT PAUSE keeps commands back for a while",
        )],
        parse: Some(|_| {
            Err(Error::text(
                "ERR DEBUG is not supported; CLIENT PAUSE keeps commands back for a while",
            ))
        }),
        ..ADMIN
    },
    CommandSpec {
        name: "failover",
        summary: "Refused: there are no replicas",
        arguments: &[
            Argument::block(
                "target",
                &[
                    Argument::new("host", Kind::Bytes).after("TO"),
                    Argument::new("port", Kind::Integer),
                    Argument::word("force", "FORCE").optional(),
                ],
            )
            .optional(),
            Argument::word("abort", "ABORT").optional(),
            Argument::option("TIMEOUT", "milliseconds", Kind::Integer),
        ],
        flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
        reply: "An error.",
        example: &[("FAILOVER", "(error) ERR FAILOVER requires connected replicas.")],
        parse: Some(|args| {
            let abort = args.rest().iter().any(|word| word.eq_ignore_ascii_case(b"abort"));
            Err(Error::text(match abort {
                true => "ERR No failover in progress.",
                false => "ERR FAILOVER requires connected replicas.",
            }))
        }),
        ..SERVER
    },
    CommandSpec {
        name: "psync",
        summary: "Refused: replication is not supported",
        example: &[("PSYNC ? -1", "(error) ERR replication is not supported in this version")],
        ..REFUSED
    },
    CommandSpec {
        name: "replconf",
        summary: "Refused: replication is not supported",
        example: &[(
            "REPLCONF capa eof",
            "(error) ERR replication is not supported in this version",
        )],
        ..REFUSED
    },
    CommandSpec {
        name: "replicaof",
        summary: "Ends being a replica, which no server is",
        example: &[("REPLICAOF NO ONE", "OK")],
        ..REPLICA_OF
    },
    CommandSpec {
        name: "slaveof",
        summary: "As REPLICAOF, whose older name it is",
        example: &[("SLAVEOF NO ONE", "OK")],
        ..REPLICA_OF
    },
    CommandSpec {
        name: "sync",
        summary: "Refused: replication is not supported",
        arguments: &[],
        example: &[("SYNC", "(error) ERR replication is not supported in this version")],
        ..REFUSED
    },
];

fn parse_replica_of<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (host, port) = (args.word("host")?, args.word("port")?);
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Action::Server(Server::Fixed(Fixed::Ok)));
    }
    match number::signed(port) {
        Some(0..=65_535) => Err(Error::text(NONE)),
        _ => Err(Error::text("ERR Invalid master port")),
    }
}
