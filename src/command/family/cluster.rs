//! DELAY.CLUSTER: the nodes that hold the same jobs, and changes of the members.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Membership, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::Error;

const NAME: Argument = Argument::new("name", ArgumentKind::Bytes);

/// To be said to the leader.
const CHANGE: CommandSpec = CommandSpec::BASE
    .complexity("O(N) where N is the number of nodes")
    .flags(&[Flag::Admin, Flag::NoScript, Flag::Stale])
    .reply("Simple string: `OK` when it has begun; DELAY.CLUSTER shows the progress.");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[row(
    "delay.cluster",
    "Shows the nodes of the cluster: the leader, the followers, and how far they are behind",
    CommandSpec::BASE,
)
.complexity("O(N) where N is the number of nodes")
.flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
.tips(&["nondeterministic_output"])
.reply("Array, for each node in the order of their names a map (in RESP2 a flat array): `name`, `id`, `role` \
        (`leader`, `follower`; `learner` without a vote yet, `invited` before it has connected, `removed` after \
        it has left), `state`, `client` and `peer` (where clients and other nodes reach it), `index` (how much \
        of the log it has), `behind` (how many more entries the leader has; both on a follower as nodes have reported, each \
        election timeout), `holds` (on the leader, after \
        DELAY.CLUSTER VERIFY: `running`, `same at` an index, `DIFFERS at` an index, `not known:` and why), and \
        `health`: `well`, or why the node should not lead (`disk-hangs`, `disk-full`, `disk-slow`: its syncs \
        take several times as long as the others', `stands-still`: its process stalls). The states: `online`; \
        `unknown` (this node does not lead, and has no report of it); \
        `forming` and `loading` (this node, which does not serve jobs yet); `base` (it needs more than the \
        leader's log has); `unreachable`; `missing`. Fields that this node does not know are nil. An error if \
        the server is not in a cluster.")
.example(&[(
    "DELAY.CLUSTER",
    "(error) ERR this is a standalone server: cluster-node is not set",
)])
.parse(|_| Ok(Action::Server(ServerRequest::Cluster)))
.subcommands(&[
    row("delay.cluster|add", "Adds a node to the cluster", CHANGE)
        .arguments(&[
            NAME.about("Its `cluster-node`."),
            Argument::new("address", ArgumentKind::Bytes)
                .about("host:port where other nodes reach it, its `cluster-port`."),
        ])
        .notes("Send it to the leader. Start the node before or after, with an empty folder and a \
                `cluster-nodes` that contains itself and members. It receives all data, and then gets a vote. \
                All members must be online. If sent again, the last address counts.")
        .example(&[(
            "DELAY.CLUSTER ADD n4 10.0.0.4:19248",
            "(error) ERR this is a standalone server: cluster-node is not set",
        )])
        .parse(parse_add),
    row("delay.cluster|all", "Shows the partitions of the cluster: who leads each, and which nodes hold it", CommandSpec::BASE)
        .complexity("O(N) where N is the number of partitions and their nodes")
        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
        .tips(&["nondeterministic_output"])
        .reply("Array, for each partition of this process a map (in RESP2 a flat array): `partition`, `slots`, \
                `leader` and `nodes` (names), `behind` (how many entries the node that is furthest behind lacks, as \
                far as this node knows), and `trouble`: nil, or what is wrong or waited for. Of a partition that other nodes \
                hold, those that this one knows. An error if the server is not in a cluster.")
        .example(&[(
            "DELAY.CLUSTER ALL",
            "(error) ERR this is a standalone server: cluster-node is not set",
        )])
        .parse(|args| args.end_or_arity().map(|()| Action::Server(ServerRequest::Partitions))),
    help("delay.cluster|help", Group::Delay),
    row("delay.cluster|remove", "Removes a node from the cluster", CHANGE)
        .arguments(&[NAME.about("Its `cluster-node`.")])
        .notes("Send it to the leader, which cannot remove itself: run FAILOVER first. Refused if less than a \
                majority of the remaining nodes can be reached. The data on the node's disk stays there, but it \
                cannot come back with it. Also revokes an invitation.")
        .example(&[(
            "DELAY.CLUSTER REMOVE n4",
            "(error) ERR this is a standalone server: cluster-node is not set",
        )])
        .parse(parse_remove),
    row("delay.cluster|verify", "Compares the data of all nodes", CHANGE)
        .complexity("O(N) where N is the number of jobs, in the background of all nodes: each writes a base")
        .notes("Send it to the leader. Each node computes a checksum of all its jobs as of the same index, while \
                it writes a base of them; clients do not wait for that. DELAY.CLUSTER shows the result as \
                `holds`, and the log reports it. A node that differs has damaged memory or a damaged disk, or \
                met a bug: remove it, and add it again with an empty folder.")
        .example(&[(
            "DELAY.CLUSTER VERIFY",
            "(error) ERR this is a standalone server: cluster-node is not set",
        )])
        .parse(|args| args.end_or_arity().map(|()| Action::Server(ServerRequest::Verify))),
])];

fn parse_add<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (name, address) = (args.word("name")?, args.word("address")?);
    args.end_or_arity()?;
    Ok(Action::Server(ServerRequest::Members(Membership::Add { name, address })))
}

fn parse_remove<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let name = args.word("name")?;
    args.end_or_arity()?;
    Ok(Action::Server(ServerRequest::Members(Membership::Remove(name))))
}
