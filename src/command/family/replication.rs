//! Replication: a leader hands over. Other commands of Sentinel and tools are answered as by a master without replicas;
//! what a replica of Redis sends is refused, as nodes of a cluster speak a protocol of their own.

use crate::command::family::always::refused;
use crate::command::family::server::{ADMIN, SERVER, WORDS};
use crate::command::read::number;
use crate::command::spec::action::{Action, Failover, Server};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag};
use crate::error::Error;
use crate::limits::{FAILOVER_MS_MAX, HAND_OVER_MS_MAX};

/// What there is instead.
const NONE: &str = "ERR replication is between the nodes of a cluster, not by REPLICAOF or PSYNC; see cluster-node in docs/cluster.md";

const REPLICA_OF: CommandSpec = CommandSpec {
    arguments: &[
        Argument::new("host", Kind::Bytes).shown("NO"),
        Argument::new("port", Kind::Bytes).shown("ONE"),
    ],
    flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
    reply: "Simple string: `OK` for NO ONE, as it is nobody's replica; for a host and a port, and in a cluster, an \
            error. Nodes with `cluster-node` replicate by themselves: docs/cluster.md.",
    parse: Some(parse_replica_of),
    ..SERVER
};

const ANY: &[Argument] = &[Argument::new("arg", Kind::Bytes).optional().multiple()];

/// What a replica sends.
const fn replica(name: &'static str, call: &'static str) -> CommandSpec {
    CommandSpec {
        arguments: ANY,
        ..refused(
            name,
            "Refused: only the nodes of a cluster replicate, by a protocol of their own (docs/cluster.md)",
            call,
            NONE,
            ADMIN,
        )
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
        summary: "Lets another node of the cluster lead",
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
        notes: "To be sent to the leader. Commands that change something are kept back meanwhile, until all that was decided is \
                committed and the other node leads: some ms. Then this one closes its clients' connections, as one that does \
                not lead any more. Without TO: whoever has most. If nobody has taken over by TIMEOUT (2000), it goes on. \
                FORCE is refused: who lacks something that was acknowledged never leads.",
        reply: "Simple string: `OK` when it has begun; `master_failover_state` in INFO tells of it.",
        example: &[("FAILOVER", "(error) ERR FAILOVER requires connected replicas.")],
        parse: Some(parse_failover),
        ..SERVER
    },
    replica("psync", "PSYNC ? -1"),
    replica("replconf", "REPLCONF capa eof"),
    CommandSpec {
        name: "replicaof",
        summary: "Ends being a replica of a Redis server, which no delayd is",
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

fn parse_failover<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (mut to, mut timeout_ms, mut aborts) = (None, None, false);
    while let Some(option) = args.option()? {
        match option {
            "TO" => {
                let (host, port) = (args.word("host")?, args.word("port")?);
                let port = number::signed(port).and_then(|port| u16::try_from(port).ok());
                let port = port.filter(|port| *port > 0);
                to = Some((host, port.ok_or_else(|| Error::text("ERR Invalid port"))?));
            }
            "TIMEOUT" => {
                let ms = number::signed(args.word("milliseconds")?).filter(|ms| *ms > 0);
                let wrong = || Error::text("ERR FAILOVER timeout must be greater than 0");
                timeout_ms = Some(ms.ok_or_else(wrong)? as u64);
            }
            "ABORT" => aborts = true,
            _ => {
                return Err(Error::text(
                    "ERR FAILOVER FORCE is not supported: a node that lacks something never leads",
                ));
            }
        }
    }
    let failover = match (aborts, to, timeout_ms) {
        (true, None, None) => Failover::Abort,
        (true, ..) => {
            return Err(Error::text("ERR FAILOVER with ABORT takes no other argument"));
        }
        (false, to, ms) => {
            let timeout_ms = ms.unwrap_or(HAND_OVER_MS_MAX).min(FAILOVER_MS_MAX);
            Failover::Begin { to, timeout_ms }
        }
    };
    Ok(Action::Server(Server::Failover(failover)))
}

fn parse_replica_of<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (host, port) = (args.word("host")?, args.word("port")?);
    let nobody = host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one");
    if !nobody && !matches!(number::signed(port), Some(0..=65_535)) {
        return Err(Error::text("ERR Invalid master port"));
    }
    Ok(Action::Server(Server::ReplicaOf { nobody }))
}
