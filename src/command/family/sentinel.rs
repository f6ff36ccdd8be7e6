//! SENTINEL: what clients ask a Redis Sentinel, to find the node that leads. On the port for that alone.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, SentinelRequest, ServerRequest};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind};
use crate::command::spec::{CommandSpec, Flag, Group, row};
use crate::error::Error;

const NAME: Argument = Argument::new("master-name", ArgumentKind::Bytes);
const PATTERN: Argument = Argument::new("pattern", ArgumentKind::Pattern);

const ASK: CommandSpec = CommandSpec::BASE
    .group(Group::Server)
    .flags(&[Flag::Loading, Flag::Stale])
    .arguments(&[NAME])
    .tips(&["nondeterministic_output"]);

const REPLICAS: CommandSpec = ASK
    .summary("Shows the other nodes that hold the jobs")
    .complexity("O(N) where N is the number of nodes")
    .reply("Array of maps (in RESP2 of flat arrays).")
    .parse(|args| asked(SentinelRequest::Replicas(args.word("master-name")?)));

pub(in crate::command) static SENTINEL: CommandSpec =
    row("sentinel", "What clients ask a Redis Sentinel", ASK)
        .complexity("Depends on the subcommand")
        .reply("Depends on the subcommand.")
        .flags(&[])
        .arguments(&[])
        .subcommands(&[
            row("sentinel|ckquorum", "Tells whether enough nodes are there to elect a leader", ASK)
                .parse(|args| asked(SentinelRequest::CheckQuorum(args.word("master-name")?))),
            row("sentinel|config", "What a Sentinel can be set to", ASK)
                .arguments(&[Argument::new("GET-or-SET", ArgumentKind::Bytes), PATTERN.multiple()])
                .reply("Map (in RESP2 a flat array) from names to values. SET is refused.")
                .parse(parse_config),
            row("sentinel|failover", "Lets another node lead, as FAILOVER does", ASK)
                .notes("Send it to the leader's Sentinel, as a user that may run FAILOVER.")
                .reply("Simple string: `OK` when it has begun.")
                .flags(&[Flag::Admin, Flag::Loading, Flag::Stale])
                .parse(|args| asked(SentinelRequest::Failover(args.word("master-name")?))),
            row(
                "sentinel|get-master-addr-by-name",
                "Tells where clients reach the node that leads",
                ASK,
            )
            .reply(
                "Array of host and port; nil if the name is another, or none is known to lead now.",
            )
            .parse(|args| asked(SentinelRequest::MasterAddress(args.word("master-name")?))),
            help("sentinel|help", Group::Server),
            row(
                "sentinel|info-cache",
                "Shows the INFO of the nodes; of this one, as it has no other's",
                ASK,
            )
            .arguments(&[NAME.multiple()])
            .parse(|args| asked(SentinelRequest::InfoCache(args.rest()))),
            row("sentinel|master", "Shows the node that leads", ASK)
                .reply("Map (in RESP2 a flat array).")
                .parse(|args| asked(SentinelRequest::Master(args.word("master-name")?))),
            row("sentinel|masters", "Shows the node that leads, as there is one name", ASK)
                .arguments(&[])
                .reply("Array of one map (in RESP2 of one flat array).")
                .parse(|_| asked(SentinelRequest::Masters)),
            row("sentinel|myid", "Tells this node's id as a Sentinel", ASK)
                .arguments(&[])
                .parse(|_| asked(SentinelRequest::MyId)),
            CommandSpec { name: "sentinel|replicas", ..REPLICAS },
            row("sentinel|sentinels", "Shows the other nodes that answer as Sentinels", REPLICAS)
                .parse(|args| asked(SentinelRequest::Sentinels(args.word("master-name")?))),
            CommandSpec { name: "sentinel|slaves", ..REPLICAS },
        ]);

fn asked(what: SentinelRequest<'_>) -> Result<Action<'_>, Error> {
    Ok(Action::Server(ServerRequest::Sentinel(what)))
}

fn parse_config<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let word = args.word("GET-or-SET")?;
    if word.eq_ignore_ascii_case(b"set") {
        return asked(SentinelRequest::ConfigSet);
    }
    if !word.eq_ignore_ascii_case(b"get") {
        return Err(Error::text("ERR Only GET and SET are supported"));
    }
    asked(SentinelRequest::ConfigGet(args.option_patterns()?))
}
