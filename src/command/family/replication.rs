//! Replication: a leader hands over. Other commands of Sentinel and tools are answered as by a master without replicas;
//! what a replica of Redis sends is refused, as nodes of a cluster speak a protocol of their own.

use crate::command::family::help::refused;
use crate::command::family::server::{ADMIN, SERVER, WORDS};
use crate::command::read::number;
use crate::command::spec::action::{Action, Failover, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, row};
use crate::error::Error;
use crate::limits::{FAILOVER_MS_MAX, HAND_OVER_MS_MAX};

/// The refusal, with the alternative.
const NONE: &str = "ERR replication is between the nodes of a cluster, not by REPLICAOF or PSYNC; see cluster-node in docs/cluster.md";

const REPLICA_OF: CommandSpec = SERVER
    .arguments(&[
        Argument::new("host", ArgumentKind::Bytes).shown("NO"),
        Argument::new("port", ArgumentKind::Bytes).shown("ONE"),
    ])
    .flags(&[Flag::Admin, Flag::NoScript, Flag::Stale])
    .reply("Simple string: `OK` for NO ONE; an error for a host and a port, and in a cluster. Nodes with \
            `cluster-node` replicate by themselves: docs/cluster.md.")
    .parse(parse_replica_of);

const ANY: &[Argument] = &[Argument::new("arg", ArgumentKind::Bytes).optional().multiple()];

const fn replica(name: &'static str, call: &'static str) -> CommandSpec {
    refused(
        name,
        "Refused: only the nodes of a cluster replicate, by a protocol of their own (docs/cluster.md)",
        call,
        NONE,
        ADMIN,
    )
    .arguments(ANY)
}

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    refused(
        "debug",
        "Refused: nothing of DEBUG is supported",
        "DEBUG SLEEP 1",
        "ERR DEBUG is not supported; CLIENT PAUSE keeps commands back for a while",
        ADMIN,
    )
    .arguments(WORDS)
    .notes("DEBUG SLEEP would block every client and every job."),
    row("failover", "Hands leadership over to another node of the cluster", SERVER)
        .arguments(&[
            Argument::block(
                "target",
                &[
                    Argument::new("host", ArgumentKind::Bytes).after("TO"),
                    Argument::new("port", ArgumentKind::Integer),
                    Argument::word("force", "FORCE").optional(),
                ],
            )
            .optional(),
            Argument::word("abort", "ABORT").optional(),
            Argument::option("TIMEOUT", "milliseconds", ArgumentKind::Integer),
        ])
        .flags(&[Flag::Admin, Flag::NoScript, Flag::Stale])
        .notes("Send it to the leader. Commands that write are held back until everything decided is committed and \
                the other node leads: some ms. Then this node closes its clients' connections. Without TO the node \
                with most entries takes over. If no node has taken over by TIMEOUT (2000), this one goes on. FORCE \
                is refused: a node that lacks acknowledged changes never leads.")
        .reply("Simple string: `OK` when it has begun; `master_failover_state` in INFO shows the progress.")
        .example(&[("FAILOVER", "(error) ERR FAILOVER requires connected replicas.")])
        .parse(parse_failover),
    replica("psync", "PSYNC ? -1"),
    replica("replconf", "REPLCONF capa eof"),
    row("replicaof", "Stops being a replica of a Redis server, which delayd never is", REPLICA_OF)
        .example(&[("REPLICAOF NO ONE", "OK")]),
    row("slaveof", "The older name of REPLICAOF", REPLICA_OF).example(&[("SLAVEOF NO ONE", "OK")]),
    replica("sync", "SYNC").arguments(&[]),
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
    Ok(Action::Server(ServerRequest::Failover(failover)))
}

fn parse_replica_of<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (host, port) = (args.word("host")?, args.word("port")?);
    let nobody = host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one");
    if !nobody && !matches!(number::signed(port), Some(0..=65_535)) {
        return Err(Error::text("ERR Invalid master port"));
    }
    Ok(Action::Server(ServerRequest::ReplicaOf { nobody }))
}
