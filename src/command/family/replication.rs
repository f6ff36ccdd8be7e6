//! Replication, of which there is none: what Sentinel and tools send is answered as by a master without
//! replicas, the rest refused.

use crate::command::family::always::refused;
use crate::command::family::server::{ADMIN, SERVER, WORDS};
use crate::command::read::number;
use crate::command::spec::action::{Action, Server};
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
    reply: "Simple string: `OK` for NO ONE, as it is nobody's replica; for a host and a port, and in a cluster, an \
            error.",
    parse: Some(parse_replica_of),
    ..SERVER
};

const ANY: &[Argument] = &[Argument::new("arg", Kind::Bytes).optional().multiple()];

/// What a replica sends.
const fn replica(name: &'static str, call: &'static str) -> CommandSpec {
    CommandSpec {
        arguments: ANY,
        ..refused(name, "Refused: replication is not supported", call, NONE, ADMIN)
    }
}

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        arguments: WORDS,
        notes: "DEBUG SLEEP would hold up every client and every job.",
        ..refused(
            "debug",
            "Refused: nothing of DEBUG is supported",
            "DEBUG SLEEP 1",
            "ERR DEBUG is not supported; CLIENT PAUSE keeps commands back for a while",
            ADMIN,
        )
    },
    CommandSpec {
        name: "failover",
        summary: "Refused: the leader of a cluster hands over when it is stopped",
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
    replica("psync", "PSYNC ? -1"),
    replica("replconf", "REPLCONF capa eof"),
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
    CommandSpec { arguments: &[], ..replica("sync", "SYNC") },
];

fn parse_replica_of<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (host, port) = (args.word("host")?, args.word("port")?);
    let nobody = host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one");
    if !nobody && !matches!(number::signed(port), Some(0..=65_535)) {
        return Err(Error::text("ERR Invalid master port"));
    }
    Ok(Action::Server(Server::ReplicaOf { nobody }))
}
