//! Channels: what a connection has subscribed to, and what it publishes.

use crate::command::CommandSpec;
use crate::command::spec::action::PubSub;
use crate::command::spec::{Flag, Group};
use crate::pubsub::SubscriptionKind;
use crate::resp::Protocol;
use crate::session::world::World;
use crate::session::{CommandPlace, CommandStep, Session};

impl Session {
    pub(super) fn pubsub(
        &mut self,
        what: PubSub<'_>,
        place: CommandPlace,
        world: &mut dyn World,
    ) -> CommandStep {
        match what {
            PubSub::Subscribe(kind, names) => return self.subscribe(kind, names, world),
            PubSub::Unsubscribe(kind, names) => self.unsubscribe(kind, names, world),
            PubSub::Publish { channel, message } => {
                let count = world.pubsub().publish_for(self.id, channel, message);
                world.encoder(self.id).integer(count as i64);
            }
            PubSub::Channels(pattern) => {
                let names: Vec<Box<[u8]>> = match world.pubsub().channels(pattern) {
                    Ok(names) => names.into_iter().map(Box::from).collect(),
                    Err(error) => return self.fail(&error.to_string(), world),
                };
                let mut out = world.encoder(self.id);
                out.array(names.len());
                names.iter().for_each(|name| out.bulk(name));
            }
            PubSub::Counts(channels) => {
                let pubsub = world.pubsub();
                let counts: Vec<usize> =
                    channels.iter().map(|name| pubsub.subscriber_count(name)).collect();
                let mut out = world.encoder(self.id);
                out.array(2 * channels.len());
                for (name, count) in channels.iter().zip(counts) {
                    out.bulk(name);
                    out.integer(count as i64);
                }
            }
            PubSub::PatternCount => {
                let count = world.pubsub().topic_counts()[SubscriptionKind::Pattern as usize];
                world.encoder(self.id).integer(count as i64);
            }
            PubSub::Monitor if place == CommandPlace::InExec => {
                return self.fail("ERR MONITOR isn't allowed for DENY BLOCKING client", world);
            }
            PubSub::Monitor => {
                world.pubsub().monitor(self.id);
                self.monitors = true;
                return self.ok(world);
            }
        }
        CommandStep::Done
    }

    /// Whether `spec` is not allowed because RESP2 could not distinguish its reply from a message.
    pub(super) fn is_barred(&self, spec: &CommandSpec) -> bool {
        self.protocol == Protocol::Resp2
            && self.subscriptions != [0; 2]
            && !(spec.group == Group::PubSub && spec.has(Flag::NoScript) && !spec.is_subcommand())
            && !matches!(spec.name, "ping" | "quit" | "reset")
    }

    /// Whether a PING is answered as a message would be.
    pub(super) fn pongs_as_message(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions != [0; 2]
    }

    /// RESET: nothing is subscribed to, nothing monitored.
    pub(super) fn forget_subscriptions(&mut self, world: &mut dyn World) {
        if self.monitors || self.subscriptions != [0; 2] {
            world.pubsub().forget(self.id);
            (self.monitors, self.subscriptions) = (false, [0; 2]);
        }
    }

    fn subscribe(
        &mut self,
        kind: SubscriptionKind,
        names: &[&[u8]],
        world: &mut dyn World,
    ) -> CommandStep {
        if let Err(error) = world.pubsub().check(self.id, kind, names) {
            return self.fail(&error.to_string(), world);
        }
        for name in names {
            world.pubsub().subscribe(self.id, kind, name);
            self.subscriptions = world.pubsub().counts(self.id);
            self.confirm("subscribe", kind, Some(name), world);
        }
        CommandStep::Done
    }

    fn unsubscribe(&mut self, kind: SubscriptionKind, names: &[&[u8]], world: &mut dyn World) {
        let all;
        let mut every = Vec::new();
        let mut names = names;
        if names.is_empty() {
            all = world.pubsub().subscriptions(self.id, kind);
            every.extend(all.iter().map(|name| &**name));
            names = &every;
        }
        for name in names {
            world.pubsub().unsubscribe(self.id, kind, name);
            self.subscriptions = world.pubsub().counts(self.id);
            self.confirm("unsubscribe", kind, Some(name), world);
        }
        if names.is_empty() {
            self.confirm("unsubscribe", kind, None, world);
        }
    }

    /// It is pushed, not answered: CLIENT REPLY OFF and SKIP do not silence it, nor the messages.
    fn confirm(
        &mut self,
        word: &str,
        kind: SubscriptionKind,
        name: Option<&[u8]>,
        world: &mut dyn World,
    ) {
        let count: usize = self.subscriptions.iter().sum();
        let muted = self.muted;
        self.mute(false, world);
        let mut out = world.encoder(self.id);
        out.push(3);
        out.bulk(format!("{}{word}", kind.prefix()).as_bytes());
        out.bulk_or_null(name);
        out.integer(count as i64);
        self.mute(muted, world);
    }
}
