//! DELAY.CLUSTER: the nodes that hold the same jobs.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Server};
use crate::command::spec::{CommandSpec, Flag, Group};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    name: "delay.cluster",
    summary: "Shows the nodes of the cluster: who leads, who follows, and how far behind",
    complexity: "O(N) where N is the number of nodes",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &["nondeterministic_output"],
    reply: "Array, for each node in the order of their names a map (in RESP2 a flat array): `name`, `id`, `role` \
            (`leader`, `follower`; `learner` for one without a vote), `state`, `client` and `peer` (where clients \
            and other nodes reach it), `index` (how much of the log it has) and `behind` (entries that the leader \
            has beyond that). The states: `online`; `forming` and `loading` (this node, which does not answer for \
            jobs yet); `base` (it needs more than the leader's log has); `unreachable`. What only the leader knows of \
            another node is nil elsewhere. An error if the server is in no cluster.",
    example: &[("DELAY.CLUSTER", "(error) ERR this server runs alone: cluster-node is not set")],
    parse: Some(|_| Ok(Action::Server(Server::Cluster))),
    subcommands: &[help("delay.cluster|help", Group::Delay)],
    ..CommandSpec::BASE
}];
