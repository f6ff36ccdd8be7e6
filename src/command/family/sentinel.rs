//! SENTINEL: what clients ask a Redis Sentinel, to find the node that leads. On the port for that alone.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, Sentinel, Server};
use crate::command::spec::args::{Args, check_pattern};
use crate::command::spec::argument::{Argument, Kind};
use crate::command::spec::{CommandSpec, Flag, Group};
use crate::error::Error;
use crate::limits::{CONFIG_PATTERNS_MAX, OPTION_PATTERN_BYTES_MAX};

const NAME: Argument = Argument::new("master-name", Kind::Bytes);
const PATTERN: Argument = Argument::new("pattern", Kind::Pattern);

const ASK: CommandSpec = CommandSpec {
    group: Group::Server,
    flags: &[Flag::Loading, Flag::Stale],
    arguments: &[NAME],
    tips: &["nondeterministic_output"],
    ..CommandSpec::BASE
};

const REPLICAS: CommandSpec = CommandSpec {
    summary: "Shows the other nodes that hold the jobs",
    complexity: "O(N) where N is the number of nodes",
    reply: "Array of maps (in RESP2 of flat arrays).",
    parse: Some(|args| asked(Sentinel::Replicas(args.word("master-name")?))),
    ..ASK
};

pub(in crate::command) static SENTINEL: CommandSpec = CommandSpec {
    name: "sentinel",
    summary: "What clients ask a Redis Sentinel",
    complexity: "Depends on the subcommand",
    reply: "Depends on the subcommand.",
    flags: &[],
    arguments: &[],
    subcommands: &[
        CommandSpec {
            name: "sentinel|ckquorum",
            summary: "Tells whether enough nodes are there to elect a leader",
            parse: Some(|args| asked(Sentinel::CheckQuorum(args.word("master-name")?))),
            ..ASK
        },
        CommandSpec {
            name: "sentinel|config",
            summary: "What a Sentinel can be set to",
            arguments: &[Argument::new("GET-or-SET", Kind::Bytes), PATTERN.multiple()],
            reply: "Map (in RESP2 a flat array) from names to values. SET is refused.",
            parse: Some(parse_config),
            ..ASK
        },
        CommandSpec {
            name: "sentinel|failover",
            summary: "Lets another node lead, as FAILOVER does",
            notes: "To be sent to the leader's Sentinel, by whoever may use FAILOVER.",
            reply: "Simple string: `OK` when it has begun.",
            flags: &[Flag::Admin, Flag::Loading, Flag::Stale],
            parse: Some(|args| asked(Sentinel::Failover(args.word("master-name")?))),
            ..ASK
        },
        CommandSpec {
            name: "sentinel|get-master-addr-by-name",
            summary: "Tells where clients reach the node that leads",
            reply: "Array of host and port; nil if the name is another, or none is known to lead now.",
            parse: Some(|args| asked(Sentinel::MasterAddress(args.word("master-name")?))),
            ..ASK
        },
        help("sentinel|help", Group::Server),
        CommandSpec {
            name: "sentinel|info-cache",
            summary: "Shows the INFO of the nodes; of this one, as it has no other's",
            arguments: &[NAME.multiple()],
            parse: Some(|args| asked(Sentinel::InfoCache(args.rest()))),
            ..ASK
        },
        CommandSpec {
            name: "sentinel|master",
            summary: "Shows the node that leads",
            reply: "Map (in RESP2 a flat array).",
            parse: Some(|args| asked(Sentinel::Master(args.word("master-name")?))),
            ..ASK
        },
        CommandSpec {
            name: "sentinel|masters",
            summary: "Shows the node that leads, as there is one name",
            arguments: &[],
            reply: "Array of one map (in RESP2 of one flat array).",
            parse: Some(|_| asked(Sentinel::Masters)),
            ..ASK
        },
        CommandSpec {
            name: "sentinel|myid",
            summary: "Tells this node's id as a Sentinel",
            arguments: &[],
            parse: Some(|_| asked(Sentinel::MyId)),
            ..ASK
        },
        CommandSpec { name: "sentinel|replicas", ..REPLICAS },
        CommandSpec {
            name: "sentinel|sentinels",
            summary: "Shows the other nodes that answer as Sentinels",
            parse: Some(|args| asked(Sentinel::Sentinels(args.word("master-name")?))),
            ..REPLICAS
        },
        CommandSpec { name: "sentinel|slaves", ..REPLICAS },
    ],
    parse: None,
    ..ASK
};

fn asked(what: Sentinel<'_>) -> Result<Action<'_>, Error> {
    Ok(Action::Server(Server::Sentinel(what)))
}

fn parse_config<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let word = args.word("GET-or-SET")?;
    if word.eq_ignore_ascii_case(b"set") {
        return asked(Sentinel::ConfigSet);
    }
    if !word.eq_ignore_ascii_case(b"get") {
        return Err(Error::text("ERR Only GET and SET are supported"));
    }
    let patterns = args.rest();
    if patterns.len() > CONFIG_PATTERNS_MAX {
        let count = patterns.len();
        return Err(Error::text(format!(
            "ERR {count} patterns; the most are {CONFIG_PATTERNS_MAX}"
        )));
    }
    for pattern in patterns {
        check_pattern(pattern, OPTION_PATTERN_BYTES_MAX)?;
    }
    asked(Sentinel::ConfigGet(patterns))
}
