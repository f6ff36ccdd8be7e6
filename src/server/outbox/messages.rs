//! Messages and events, copied from their publication into the outputs of their receivers, a limited number each turn.

use crate::command::CommandSpec;
use crate::command::spec::action;
use crate::config::events::Notify;
use crate::engine::Engine;
use crate::engine::model::event::{Event, Events, Happened};
use crate::ids::Db;
use crate::limits::{
    COMPARED_PER_NAME, DELIVERIES_PER_TURN, DELIVERY_BYTES_PER_TURN, EVENT_BYTES_MAX,
    OUTBOX_BYTES_MAX, TOPICS_PER_ENTRY,
};
use crate::observe::cluster::ClusterView;
use crate::observe::monitor;
use crate::observe::sentinel::Watcher;
use crate::pubsub::{PubSub, SubscriptionKind};
use crate::server::connection::stream::ConnectionEnds;
use crate::server::outbox::Outputs;
use crate::server::outbox::gate::TurnNo;
use crate::time::Micros;
use std::collections::VecDeque;

/// Channels, messages on their way, and events that wait to become messages.
#[derive(Debug, Default)]
pub struct Messages {
    /// Channels, and messages on their way.
    pub pubsub: PubSub,
    /// Events that wait, oldest first, and their bytes.
    batches: VecDeque<EventBatch>,
    event_bytes: usize,
}

/// Events of one turn.
#[derive(Debug)]
struct EventBatch {
    turn: TurnNo,
    events: Events,
}

impl Messages {
    /// Channels, for the command of the client in `slot`: a message leaves no earlier than the replies to that client's
    /// earlier commands. `changed` says whether anything has changed in this turn.
    pub fn of(&mut self, slot: u32, outputs: &Outputs, changed: bool) -> &mut PubSub {
        self.pubsub.turn = if changed { outputs.gate.turn } else { outputs.newest_turn(slot) };
        &mut self.pubsub
    }

    /// How many entries a command about channels may look at.
    pub fn cost(&self, what: &action::PubSub<'_>) -> u64 {
        let names = |kind: SubscriptionKind| self.pubsub.topic_counts()[kind as usize];
        let looked = match *what {
            action::PubSub::Publish { channel, .. } => {
                let compared = self.pubsub.patterns_cost() / COMPARED_PER_NAME;
                self.pubsub.subscriber_count(channel) + names(SubscriptionKind::Pattern) + compared
            }
            action::PubSub::Channels(pattern) => {
                // It is run beforehand, too, for the length of its reply.
                let compared = 2 * self.pubsub.channels_cost(pattern);
                names(SubscriptionKind::Channel) + compared / COMPARED_PER_NAME
            }
            action::PubSub::Subscribe(_, names)
            | action::PubSub::Unsubscribe(_, names)
            | action::PubSub::Counts(names) => names.len(),
            action::PubSub::PatternCount | action::PubSub::Monitor => 0,
        };
        1 + (looked / TOPICS_PER_ENTRY) as u64
    }

    pub fn show_command(
        &mut self,
        now: Micros,
        db: Db,
        addr: &str,
        spec: &CommandSpec,
        args: &[&[u8]],
    ) {
        let line = monitor::line(now, db, addr, spec, args);
        self.pubsub.show(&line);
    }

    /// Whether so many messages are in transit that no further commands may run.
    pub fn is_full(&self) -> bool {
        self.pubsub.outbox.bytes() > OUTBOX_BYTES_MAX || self.event_bytes > EVENT_BYTES_MAX
    }

    /// Whether there is something to deliver.
    pub fn is_waiting(&self) -> bool {
        !self.pubsub.outbox.is_empty() || !self.batches.is_empty()
    }

    /// The journal failed: nothing about unsafe changes is sent.
    pub fn drop_after(&mut self, released: TurnNo) {
        self.pubsub.outbox.drop_after(released);
        self.batches.retain(|batch| batch.turn <= released);
        self.event_bytes = self.batches.iter().map(|batch| batch.events.len_bytes()).sum();
    }

    /// The engine's events since the last call wait for the journal with this turn's facts.
    fn collect(&mut self, engine: &mut Engine, turn: TurnNo) {
        let Some(events) = engine.take_events() else { return };
        // Without subscribers the rest is skipped.
        if self.pubsub.has_subscribers() {
            self.event_bytes += events.len_bytes();
            self.batches.push_back(EventBatch { turn, events });
        }
    }

    /// Makes messages of the oldest event; false if there is none.
    fn publish_event(&mut self, notify: &Notify) -> bool {
        let Some(batch) = self.batches.front_mut() else { return false };
        let before = batch.events.len_bytes();
        if let Some(happened) = batch.events.take() {
            self.pubsub.turn = batch.turn;
            publish(&happened, notify, &mut self.pubsub);
        }
        self.event_bytes -= before - batch.events.len_bytes();
        if batch.events.is_empty() {
            self.batches.pop_front();
        }
        true
    }

    /// Copies messages into outputs, a turn's share of them. Returns the slots that got one.
    pub fn deliver(
        &mut self,
        engine: &mut Engine,
        outputs: &mut Outputs,
        notify: &Notify,
    ) -> Vec<u32> {
        self.collect(engine, outputs.gate.turn);
        let (mut slots, mut share) = (Vec::new(), Share::default());
        loop {
            bring_all(&mut self.pubsub, outputs, &mut share, &mut slots);
            if share.is_used() || !self.publish_event(notify) {
                return slots;
            }
            // The cost of looking up the names and comparing the patterns, in addition to the
            // receivers.
            let patterns = self.pubsub.topic_counts()[SubscriptionKind::Pattern as usize];
            let compared = self.pubsub.patterns_cost() / COMPARED_PER_NAME;
            share.left = share.left.saturating_sub(1 + patterns / TOPICS_PER_ENTRY + compared);
        }
    }
}

/// The number of bytes a turn may copy.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    left: usize,
    bytes_left: usize,
}

impl Default for Share {
    fn default() -> Share {
        Share { left: DELIVERIES_PER_TURN, bytes_left: DELIVERY_BYTES_PER_TURN }
    }
}

impl Share {
    fn is_used(&self) -> bool {
        self.left == 0 || self.bytes_left == 0
    }
}

/// Copies messages into outputs until there are none left or the share is used. Records the slots that got one.
pub fn bring_all(
    pubsub: &mut PubSub,
    outputs: &mut Outputs,
    share: &mut Share,
    slots: &mut Vec<u32>,
) {
    while !share.is_used() {
        let Some(mut message) = pubsub.outbox.take() else { return };
        while !share.is_used()
            && let Some(client) = message.next_receiver()
        {
            share.left -= 1;
            if pubsub.is_wanted(&message, client)
                && let Some(slot) = outputs.bring(client, &message)
            {
                share.bytes_left = share.bytes_left.saturating_sub(message.wire_bytes());
                slots.push(slot);
            }
        }
        if !message.is_delivered() {
            pubsub.outbox.put_back(message);
        }
    }
}

/// Publishes an event on the enabled channels. Costs a few look-ups without subscribers.
fn publish(happened: &Happened<'_>, notify: &Notify, pubsub: &mut PubSub) {
    let &Happened { event, db, queue, id } = happened;
    let wanted = match event {
        Event::Removed | Event::RenamedFrom | Event::RenamedTo => notify.queues,
        Event::Begun => notify.begun,
        _ => notify.jobs,
    };
    if !wanted {
        return;
    }
    let word = event.word().as_bytes();
    let mut channel = Vec::with_capacity(32 + word.len() + queue.len());
    let mut to = |place: &str, parts: &[&[u8]], message: &[u8]| {
        channel.clear();
        channel.extend_from_slice(format!("__{place}@{db}__:").as_bytes());
        parts.iter().for_each(|part| channel.extend_from_slice(part));
        pubsub.publish(&channel, message);
    };
    if notify.keyspace {
        to("keyspace", &[queue], word);
    }
    if notify.keyevent {
        to("keyevent", &[word], queue);
    }
    if notify.jobevent && !id.is_empty() {
        to("jobevent", &[word, b":", queue], id);
    }
}

// The port that answers as a Redis Sentinel: subscribers of its events, and the last events.
//
// Its channels are its own: what is published on the port for jobs does not come here, nor the other way round. Its
// events rest on no fact, so they wait for no journal.

#[derive(Debug, Default)]
pub struct SentinelChannels {
    /// The port; none where nothing answers as a Sentinel.
    pub port: Option<u16>,
    /// `sentinel-master-name`.
    pub name: Box<str>,
    pub pubsub: PubSub,
    pub watcher: Watcher,
}

impl SentinelChannels {
    /// On this port, 0 for none.
    pub fn new(port: u16, name: &str) -> SentinelChannels {
        SentinelChannels {
            port: Some(port).filter(|port| *port > 0),
            name: name.into(),
            ..SentinelChannels::default()
        }
    }

    /// Whether a connection came in by that port.
    pub fn is_at(&self, peer: &ConnectionEnds) -> bool {
        self.port.is_some() && peer.local_port() == self.port
    }

    /// Publishes how the cluster has changed.
    pub fn look(&mut self, view: &ClusterView) {
        if self.port.is_none() {
            return;
        }
        for event in self.watcher.look(&self.name, view) {
            tracing::debug!(event = event.channel, "{}", event.text);
            self.pubsub.publish(event.channel.as_bytes(), event.text.as_bytes());
        }
    }

    /// Copies messages into outputs, a turn's share of them. Returns the slots that got one.
    pub fn deliver(&mut self, outputs: &mut Outputs) -> Vec<u32> {
        let (mut share, mut slots) = (Share::default(), Vec::new());
        bring_all(&mut self.pubsub, outputs, &mut share, &mut slots);
        slots
    }
}
