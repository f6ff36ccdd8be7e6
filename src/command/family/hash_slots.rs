//! CLUSTER, READONLY, READWRITE and ASKING: how clients of a Redis Cluster find the node that leads.

use crate::command::family::help::help;
use crate::command::family::server::{ADMIN, CONTAINER, SERVER};
use crate::command::spec::action::{Action, Connection, HashSlotsRequest, ServerRequest};
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::Error;

const OFF: &str = "(error) ERR This instance has cluster support disabled: cluster-enabled is no; see docs/spread.md";

const NODE: Argument =
    Argument::new("node-id", ArgumentKind::Bytes).about("As CLUSTER NODES shows it.");
const SLOT: Argument = Argument::new("slot", ArgumentKind::Integer);

const ANY: &[Argument] = &[Argument::new("arg", ArgumentKind::Bytes).optional().multiple()];

/// A question that any node answers at any time.
const ASK: CommandSpec = SERVER
    .complexity("O(N) where N is the number of nodes")
    .flags(&[Flag::Loading, Flag::Stale])
    .tips(&["nondeterministic_output"]);

/// About the own connection.
const CONNECTION: CommandSpec = SERVER
    .group(Group::Connection)
    .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
    .reply("Simple string: `OK`.");

const NOT_BY_SLOT: &str = "ERR queues are not kept by slot; KEYS and SCAN show them";
const FIXED: &str = "ERR slots are fixed; members are changed with DELAY.CLUSTER and FAILOVER";

/// What an operator of a Redis Cluster would say, and what has another way here.
const fn refused(
    name: &'static str,
    example: &'static [(&'static str, &'static str)],
) -> CommandSpec {
    row(
        name,
        "Refused: slots are fixed; members are changed with DELAY.CLUSTER and FAILOVER",
        ADMIN,
    )
    .arguments(ANY)
    .reply("An error that says so.")
    .example(example)
    .parse(|_| asked(HashSlotsRequest::Refused(FIXED)))
}

const BY_SLOT: CommandSpec =
    ASK.reply("An error that says so.").parse(|_| asked(HashSlotsRequest::Refused(NOT_BY_SLOT)));

const REPLICAS: CommandSpec = ASK
    .arguments(&[NODE])
    .reply("Array of lines as in CLUSTER NODES. An error if the node is unknown, or a follower.")
    .parse(|args| asked(HashSlotsRequest::Replicas(args.word("node-id")?)));

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("asking", "No effect: no slot ever moves", CONNECTION)
        .example(&[("ASKING", OFF)])
        .parse(|_| Ok(Action::Connection(Connection::Asking))),
    row("cluster", "Shows which node answers for a queue, as a Redis Cluster would", CONTAINER)
        .subcommands(&[
            refused("cluster|addslots", &[("CLUSTER ADDSLOTS", OFF)]),
            refused("cluster|addslotsrange", &[("CLUSTER ADDSLOTSRANGE", OFF)]),
            refused("cluster|bumpepoch", &[("CLUSTER BUMPEPOCH", OFF)]),
            row("cluster|count-failure-reports", "Counts reports against a node: 0", ASK)
                .arguments(&[NODE])
                .reply("Integer: 0.")
                .example(&[("CLUSTER COUNT-FAILURE-REPORTS 0", OFF)])
                .parse(|args| asked(HashSlotsRequest::FailureReports(args.word("node-id")?))),
            row("cluster|countkeysinslot", "Refused: queues are not kept by slot", BY_SLOT)
                .arguments(&[SLOT])
                .example(&[("CLUSTER COUNTKEYSINSLOT 0", OFF)]),
            refused("cluster|delslots", &[("CLUSTER DELSLOTS", OFF)]),
            refused("cluster|delslotsrange", &[("CLUSTER DELSLOTSRANGE", OFF)]),
            refused("cluster|failover", &[("CLUSTER FAILOVER", OFF)]),
            refused("cluster|flushslots", &[("CLUSTER FLUSHSLOTS", OFF)]),
            refused("cluster|forget", &[("CLUSTER FORGET", OFF)]),
            row("cluster|getkeysinslot", "Refused: queues are not kept by slot", BY_SLOT)
                .arguments(&[SLOT, Argument::new("count", ArgumentKind::Integer)])
                .example(&[("CLUSTER GETKEYSINSLOT 0 10", OFF)]),
            help("cluster|help", Group::Server),
            row("cluster|info", "Tells whether all slots are served, and how many nodes there are", ASK)
                .reply("Text: lines of names and values. `cluster_state` is `fail` while no leader is known.")
                .example(&[("CLUSTER INFO", OFF)])
                .parse(|_| asked(HashSlotsRequest::Info)),
            row("cluster|keyslot", "Computes the hash slot of a queue", ASK)
                .complexity("O(N) where N is the length of the name")
                .arguments(&[Argument::new("key", ArgumentKind::Bytes)
                    .about("A queue's name. If it has a part in braces, only that is hashed.")])
                .tips(&[])
                .reply("Integer: 0 to 16383.")
                .example(&[("CLUSTER KEYSLOT mail", OFF)])
                .parse(|args| asked(HashSlotsRequest::SlotOf(args.word("key")?))),
            row("cluster|links", "Shows no links: nodes speak a protocol of their own", ASK)
                .reply("Array, empty.")
                .example(&[("CLUSTER LINKS", OFF)])
                .parse(|_| asked(HashSlotsRequest::Links)),
            refused("cluster|meet", &[("CLUSTER MEET", OFF)]),
            row("cluster|myid", "Tells this node's id in CLUSTER NODES", ASK)
                .reply("Bulk string: 40 hexadecimal digits.")
                .example(&[("CLUSTER MYID", OFF)])
                .parse(|_| asked(HashSlotsRequest::MyId)),
            row("cluster|myshardid", "Tells the id that all nodes with the same jobs have", ASK)
                .reply("Bulk string: 40 hexadecimal digits.")
                .example(&[("CLUSTER MYSHARDID", OFF)])
                .parse(|_| asked(HashSlotsRequest::MyShardId)),
            row("cluster|nodes", "Shows the nodes, as lines of text", ASK)
                .reply("Text in Redis's format. The leader is the `master`; the others are its `slave`s.")
                .example(&[("CLUSTER NODES", OFF)])
                .parse(|_| asked(HashSlotsRequest::Nodes)),
            row("cluster|replicas", "Shows the followers of a node", REPLICAS)
                .example(&[("CLUSTER REPLICAS 0", OFF)]),
            refused("cluster|replicate", &[("CLUSTER REPLICATE", OFF)]),
            refused("cluster|reset", &[("CLUSTER RESET", OFF)]),
            refused("cluster|saveconfig", &[("CLUSTER SAVECONFIG", OFF)]),
            refused("cluster|set-config-epoch", &[("CLUSTER SET-CONFIG-EPOCH", OFF)]),
            refused("cluster|setslot", &[("CLUSTER SETSLOT", OFF)]),
            row("cluster|shards", "Shows the nodes by what they serve", ASK)
                .reply("Array of maps (in RESP2 of flat arrays): `slots`, and `nodes`, each a map of `id`, `port` or \
                        `tls-port`, `ip`, `endpoint`, `role`, `replication-offset`, `health`.")
                .example(&[("CLUSTER SHARDS", OFF)])
                .parse(|_| asked(HashSlotsRequest::Shards)),
            row("cluster|slaves", "Shows the followers of a node; the same as REPLICAS", REPLICAS)
                .example(&[("CLUSTER SLAVES 0", OFF)]),
            row("cluster|slots", "Shows which nodes serve which hash slots", ASK)
                .reply("Array, for each range of slots: its first and last, then nodes, the leader first: host, port, \
                        id, and an empty array. A node that knows no leader yet names itself.")
                .example(&[("CLUSTER SLOTS", OFF)])
                .parse(|_| asked(HashSlotsRequest::Slots)),
        ]),
    row("readonly", "Lets this connection read from a follower", CONNECTION)
        .notes("With `cluster-enabled yes` a follower sends commands on queues to the leader with MOVED. After \
                READONLY it answers those that only read, as long as what it has is current.")
        .example(&[("READONLY", OFF)])
        .parse(|_| Ok(Action::Connection(Connection::ReadOnly(true)))),
    row("readwrite", "Ends READONLY", CONNECTION)
        .example(&[("READWRITE", OFF)])
        .parse(|_| Ok(Action::Connection(Connection::ReadOnly(false)))),
];

fn asked(what: HashSlotsRequest<'_>) -> Result<Action<'_>, Error> {
    Ok(Action::Server(ServerRequest::HashSlots(what)))
}
