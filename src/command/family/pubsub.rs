//! Channels: SUBSCRIBE, PUBLISH and related commands, and MONITOR.

use crate::command::family::help::help;
use crate::command::spec::action::{Action, PubSub};
use crate::command::spec::args::Args;
use crate::command::spec::argument::{Argument, ArgumentKind as Takes};
use crate::command::spec::{Channels, CommandSpec, Flag, Group, row};
use crate::error::Error;
use crate::pubsub::{SubscriptionKind, check_name};

const PUBSUB: CommandSpec = CommandSpec::BASE.group(Group::PubSub).flags(&[
    Flag::PubSub,
    Flag::NoScript,
    Flag::Loading,
    Flag::Stale,
]);

const CHANNEL: Argument = Argument::new("channel", Takes::Bytes);
const PATTERN: Argument = Argument::new("pattern", Takes::Pattern);

const SUBSCRIBE: CommandSpec = PUBSUB
    .complexity("O(N) where N is the number of names")
    .reply("For each name an array, in RESP3 a push: the command's word, the name, how many channels and patterns \
            the client is subscribed to now.");

const UNSUBSCRIBE: CommandSpec = SUBSCRIBE
    .reply("For each name an array, in RESP3 a push, as SUBSCRIBE's; one with nil for the name if there is \
            nothing to unsubscribe from.");

const PUBLISH: CommandSpec = PUBSUB
    .arguments(&[CHANNEL, Argument::new("message", Takes::Bytes)])
    .flags(&[Flag::PubSub, Flag::Loading, Flag::Stale, Flag::Fast])
    .channels(Channels::Named { first: 1, last: 1 })
    .reply("Integer: how often it is sent.");

const LOOK: CommandSpec = PUBSUB
    .flags(&[Flag::PubSub, Flag::Loading, Flag::Stale])
    .complexity("O(N) where N is the number of channels");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row(
        "monitor",
        "Shows every command that the server runs, until the connection closes or is RESET",
        PUBSUB,
    )
    .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
    .group(Group::Server)
    .reply("Simple string: `OK`; then one for each command: time, database, client, the command.")
    .notes("Passwords are hidden; commands for operators are not shown. Shows the first KiB of an argument, and \
            the first 128 arguments of a command.")
    .example(&[("MONITOR", "OK\n1800000000.123456 [0 127.0.0.1:50418] \"dbsize\"")])
    .parse(|_| Ok(Action::PubSub(PubSub::Monitor))),
    row("psubscribe", "Subscribes to all channels that match", SUBSCRIBE)
        .arguments(&[PATTERN.multiple()])
        .channels(Channels::Patterns { first: 1, last: -1 })
        .notes("A message comes as an array, in RESP3 a push: `pmessage`, the pattern, the channel, the \
                message.")
        .example(&[("PSUBSCRIBE news.*", "1) \"psubscribe\"\n2) \"news.*\"\n3) (integer) 1")])
        .parse(|args| subscribe(SubscriptionKind::Pattern, args)),
    row("publish", "Sends a message to all current subscribers of a channel", PUBLISH)
        .complexity("O(N+M) where N is the number of subscribers and M that of patterns")
        .notes("Messages are not kept for clients that are not connected. For events of jobs see \
                `notify-keyspace-events`.")
        .example(&[("PUBLISH news hello", "(integer) 0")])
        .parse(parse_publish),
    row("pubsub", "Channels and who has subscribed to them", PUBSUB)
        .complexity("Depends on the subcommand")
        .reply("Depends on the subcommand.")
        .flags(&[])
        .subcommands(&[
            row("pubsub|channels", "Lists the channels that have subscribers by name", LOOK)
                .arguments(&[PATTERN.optional().about("Only channels that match.")])
                .reply("Array of bulk strings.")
                .example(&[("PUBSUB CHANNELS", "(empty array)")])
                .parse(parse_channels),
            help("pubsub|help", Group::PubSub),
            row("pubsub|numpat", "Counts the patterns that have subscribers", LOOK)
                .complexity("O(1)")
                .reply("Integer.")
                .example(&[("PUBSUB NUMPAT", "(integer) 0")])
                .parse(|_| Ok(Action::PubSub(PubSub::PatternCount))),
            row(
                "pubsub|numsub",
                "Counts the subscribers of channels, without those by pattern",
                LOOK,
            )
            .arguments(&[CHANNEL.optional().multiple()])
            .reply("Array: names and numbers, alternating.")
            .example(&[("PUBSUB NUMSUB news", "1) \"news\"\n2) (integer) 0")])
            .parse(|args| Ok(Action::PubSub(PubSub::Counts(args.rest())))),
        ]),
    row("punsubscribe", "Ends subscriptions of PSUBSCRIBE", UNSUBSCRIBE)
        .arguments(&[PATTERN.optional().multiple().about("Without one: all.")])
        .example(&[("PUNSUBSCRIBE", "1) \"punsubscribe\"\n2) (nil)\n3) (integer) 0")])
        .parse(|args| Ok(Action::PubSub(PubSub::Unsubscribe(SubscriptionKind::Pattern, args.rest())))),
    row("subscribe", "Subscribes to channels", SUBSCRIBE)
        .arguments(&[CHANNEL.multiple()])
        .channels(Channels::Named { first: 1, last: -1 })
        .notes("A message comes as an array, in RESP3 a push: `message`, the channel, the message. In RESP2 a client \
                with a subscription can run only SUBSCRIBE and related commands, PING, QUIT and RESET; in RESP3 any \
                command, and messages arrive even while it waits for a job. A client that does not read its messages \
                is disconnected: see `client-output-buffer-limit`.")
        .example(&[("SUBSCRIBE news", "1) \"subscribe\"\n2) \"news\"\n3) (integer) 1")])
        .parse(|args| subscribe(SubscriptionKind::Channel, args)),
    row("unsubscribe", "Ends subscriptions of SUBSCRIBE", UNSUBSCRIBE)
        .arguments(&[CHANNEL.optional().multiple().about("Without one: all.")])
        .example(&[("UNSUBSCRIBE", "1) \"unsubscribe\"\n2) (nil)\n3) (integer) 0")])
        .parse(|args| Ok(Action::PubSub(PubSub::Unsubscribe(SubscriptionKind::Channel, args.rest())))),
];

fn subscribe<'a>(kind: SubscriptionKind, args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    Ok(Action::PubSub(PubSub::Subscribe(kind, args.rest())))
}

fn parse_publish<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    let channel = args.word("channel")?;
    check_name(SubscriptionKind::Channel, channel)?;
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
