//! DELAY.CLUSTER: the nodes that hold the same jobs, and who is one of them.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Membership, Server};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::error::Error;

const NAME: Argument = Argument::new("name", Kind::Bytes);

/// To be said to the leader.
const CHANGE: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of nodes",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
    reply: "Simple string: `OK` when it has begun; DELAY.CLUSTER shows how it goes.",
    ..CommandSpec::BASE
};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "delay.cluster",
    summary: "Shows the nodes of the cluster: who leads, who follows, and how far behind",
    complexity: "O(N) where N is the number of nodes",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &["nondeterministic_output"],
    reply: "Array, for each node in the order of their names a map (in RESP2 a flat array): `name`, `id`, `role` \
            (`leader`, `follower`; `learner` for one without a vote, `invited` for one that is to be taken in, `removed` for one that has left), `state`, `client` and `peer` (where clients \
            and other nodes reach it), `index` (how much of the log it has) and `behind` (entries that the leader \
            has beyond that), and `holds` (on the leader, once DELAY.CLUSTER VERIFY was said: `running`, `same at` an index, \
            `DIFFERS at` an index, `not known:` and why), and `health`: `well`, or why the node is not to lead (`disk-hangs`, `disk-full`, \
            `disk-slow`: its syncs take several times as long as those of others, `stands-still`: its process does). The states: `online`; `forming` and `loading` (this node, which does not answer for \
            jobs yet); `base` (it needs more than the leader's log has); `unreachable`. What only the leader knows of \
            another node is nil elsewhere, and so is what is not known of one that is invited, and `missing`. An error if the server is in no cluster.",
    example: &[("DELAY.CLUSTER", "(error) ERR this server runs alone: cluster-node is not set")],
    parse: Some(|_| Ok(Action::Server(Server::Cluster))),
    subcommands: &[
        CommandSpec {
            name: "delay.cluster|add",
            summary: "Takes a node into the cluster",
            arguments: &[
                NAME.about("Its `cluster-node`."),
                Argument::new("address", Kind::Bytes)
                    .about("host:port where other nodes reach it, its `cluster-port`."),
            ],
            notes: "To be sent to the leader. The node is started with an empty folder and with a `cluster-nodes` that has \
                    itself and members, before or after. It is sent all there is, and when it has that it gets a vote. All \
                    members have to be there. Again with another address: that one counts.",
            example: &[(
                "DELAY.CLUSTER ADD n4 10.0.0.4:19248",
                "(error) ERR this server runs alone: cluster-node is not set",
            )],
            parse: Some(parse_add),
            ..CHANGE
        },
        help("delay.cluster|help", Group::Delay),
        CommandSpec {
            name: "delay.cluster|remove",
            summary: "Takes a node out of the cluster",
            arguments: &[NAME.about("Its `cluster-node`.")],
            notes: "To be sent to the leader, which cannot remove itself: FAILOVER comes first. Refused where fewer than a \
                    majority of those that stay can be reached. What the node has on its disk stays there; it does not come \
                    back with it. An invitation is taken back.",
            example: &[(
                "DELAY.CLUSTER REMOVE n4",
                "(error) ERR this server runs alone: cluster-node is not set",
            )],
            parse: Some(parse_remove),
            ..CHANGE
        },
        CommandSpec {
            name: "delay.cluster|verify",
            summary: "Compares what all nodes hold",
            complexity: "O(N) where N is the number of jobs, beside the work of all nodes: each writes a base",
            notes: "To be sent to the leader. Each node sums up all its jobs as of the same index, as it writes a base of them: \
                    nobody waits for that. DELAY.CLUSTER shows what came of it as `holds`, and the log tells it. A node that \
                    holds something else has a damaged memory or disk, or met a bug: take it out, and in again with an \
                    empty folder.",
            example: &[(
                "DELAY.CLUSTER VERIFY",
                "(error) ERR this server runs alone: cluster-node is not set",
            )],
            parse: Some(|args| args.end_or_arity().map(|()| Action::Server(Server::Verify))),
            ..CHANGE
        },
    ],
    ..CommandSpec::BASE
}];

fn parse_add<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let (name, address) = (args.word("name")?, args.word("address")?);
    args.end_or_arity()?;
    Ok(Action::Server(Server::Members(Membership::Add { name, address })))
}

fn parse_remove<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let name = args.word("name")?;
    args.end_or_arity()?;
    Ok(Action::Server(Server::Members(Membership::Remove(name))))
}
