//! Channels: SUBSCRIBE, PUBLISH and their kin, and MONITOR.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, PubSub};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, Kind as Takes};
use crate::command::spec::{Channels, CommandSpec, Flag, Group};
use crate::error::Error;
use crate::pubsub::{Kind, check_name};

const PUBSUB: CommandSpec = CommandSpec {
    group: Group::PubSub,
    flags: &[Flag::PubSub, Flag::NoScript, Flag::Loading, Flag::Stale],
    ..CommandSpec::BASE
};

const CHANNEL: Argument = Argument::new("channel", Takes::Bytes);
const PATTERN: Argument = Argument::new("pattern", Takes::Pattern);

const SUBSCRIBE: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of names",
    reply: "For each name an array, in RESP3 a push: the command's word, the name, how many channels and \
            patterns the client has subscribed to by now.",
    ..PUBSUB
};

const UNSUBSCRIBE: CommandSpec = CommandSpec {
    reply: "For each name an array, in RESP3 a push, as SUBSCRIBE's; one with nil for the name if there is \
            nothing to unsubscribe from.",
    ..SUBSCRIBE
};

const PUBLISH: CommandSpec = CommandSpec {
    arguments: &[CHANNEL, Argument::new("message", Takes::Bytes)],
    flags: &[Flag::PubSub, Flag::Loading, Flag::Stale, Flag::Fast],
    channels: Channels::Named { first: 1, last: 1 },
    reply: "Integer: how often it is sent.",
    ..PUBSUB
};

/// A subcommand of PUBSUB.
const LOOK: CommandSpec = CommandSpec {
    flags: &[Flag::PubSub, Flag::Loading, Flag::Stale],
    complexity: "O(N) where N is the number of channels",
    ..PUBSUB
};

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "monitor",
        summary: "Shows every command that the server runs, until the connection closes or is RESET",
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
        group: Group::Server,
        reply: "Simple string: `OK`; then one for each command: time, database, client, the command.",
        notes: "Passwords are hidden, commands for operators are not shown. Of an argument the first KiB \
                is shown, of a command the first 128 arguments.",
        example: &[("MONITOR", "OK\n1800000000.123456 [0 127.0.0.1:50418] \"dbsize\"")],
        parse: Some(|_| Ok(Action::PubSub(PubSub::Monitor))),
        ..PUBSUB
    },
    CommandSpec {
        name: "psubscribe",
        summary: "Subscribes to all channels that match",
        arguments: &[PATTERN.multiple()],
        channels: Channels::Patterns { first: 1, last: -1 },
        notes: "A message comes as an array, in RESP3 a push: `pmessage`, the pattern, the channel, the \
                message.",
        example: &[("PSUBSCRIBE news.*", "1) \"psubscribe\"\n2) \"news.*\"\n3) (integer) 1")],
        parse: Some(|args| subscribe(Kind::Pattern, args)),
        ..SUBSCRIBE
    },
    CommandSpec {
        name: "publish",
        summary: "Sends a message to all that have subscribed to a channel now",
        complexity: "O(N+M) where N is the number of subscribers and M that of patterns",
        notes: "Messages are not kept: who is not connected does not get it. For what becomes of jobs \
                see `notify-keyspace-events`.",
        example: &[("PUBLISH news hello", "(integer) 0")],
        parse: Some(parse_publish),
        ..PUBLISH
    },
    CommandSpec {
        name: "pubsub",
        summary: "Channels and who has subscribed to them",
        complexity: "Depends on the subcommand",
        reply: "Depends on the subcommand.",
        flags: &[],
        subcommands: &[
            CommandSpec {
                name: "pubsub|channels",
                summary: "Names the channels that somebody has subscribed to by name",
                arguments: &[PATTERN.optional().about("Only those that match.")],
                reply: "Array of bulk strings.",
                example: &[("PUBSUB CHANNELS", "(empty array)")],
                parse: Some(parse_channels),
                ..LOOK
            },
            help("pubsub|help", Group::PubSub),
            CommandSpec {
                name: "pubsub|numpat",
                summary: "Counts the patterns that somebody has subscribed to",
                complexity: "O(1)",
                reply: "Integer.",
                example: &[("PUBSUB NUMPAT", "(integer) 0")],
                parse: Some(|_| Ok(Action::PubSub(PubSub::PatternCount))),
                ..LOOK
            },
            CommandSpec {
                name: "pubsub|numsub",
                summary: "Counts the subscribers of channels, those by pattern left out",
                arguments: &[CHANNEL.optional().multiple()],
                reply: "Array: names and numbers in turn.",
                example: &[("PUBSUB NUMSUB news", "1) \"news\"\n2) (integer) 0")],
                parse: Some(|args| Ok(Action::PubSub(PubSub::Counts(args.rest())))),
                ..LOOK
            },
        ],
        ..PUBSUB
    },
    CommandSpec {
        name: "punsubscribe",
        summary: "Ends subscriptions of PSUBSCRIBE",
        arguments: &[PATTERN.optional().multiple().about("Without one: all.")],
        example: &[("PUNSUBSCRIBE", "1) \"punsubscribe\"\n2) (nil)\n3) (integer) 0")],
        parse: Some(|args| Ok(Action::PubSub(PubSub::Unsubscribe(Kind::Pattern, args.rest())))),
        ..UNSUBSCRIBE
    },
    CommandSpec {
        name: "subscribe",
        summary: "Subscribes to channels",
        arguments: &[CHANNEL.multiple()],
        channels: Channels::Named { first: 1, last: -1 },
        notes: "A message comes as an array, in RESP3 a push: `message`, the channel, the message. In RESP2 a \
                client with a subscription can run only SUBSCRIBE and its kin, PING, QUIT and RESET; in RESP3 \
                anything, and messages come also while it waits for a job. Who does not read its messages is \
                closed: see `client-output-buffer-limit`.",
        example: &[("SUBSCRIBE news", "1) \"subscribe\"\n2) \"news\"\n3) (integer) 1")],
        parse: Some(|args| subscribe(Kind::Channel, args)),
        ..SUBSCRIBE
    },
    CommandSpec {
        name: "unsubscribe",
        summary: "Ends subscriptions of SUBSCRIBE",
        arguments: &[CHANNEL.optional().multiple().about("Without one: all.")],
        example: &[("UNSUBSCRIBE", "1) \"unsubscribe\"\n2) (nil)\n3) (integer) 0")],
        parse: Some(|args| Ok(Action::PubSub(PubSub::Unsubscribe(Kind::Channel, args.rest())))),
        ..UNSUBSCRIBE
    },
];

fn subscribe<'a>(kind: Kind, args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(Action::PubSub(PubSub::Subscribe(kind, args.rest())))
}

fn parse_publish<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let channel = args.word("channel")?;
    check_name(Kind::Channel, channel)?;
    let message = args.word("message")?;
    Ok(Action::PubSub(PubSub::Publish { channel, message }))
}

fn parse_channels<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let pattern = args.peek();
    if pattern.is_some() {
        args.pattern("pattern")?;
    }
    args.end_or_arity()?;
    Ok(Action::PubSub(PubSub::Channels(pattern)))
}
