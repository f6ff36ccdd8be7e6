//! Messages and events, from where they were published into the outputs of their receivers, so many a
//! turn.

use crate::command::CommandSpec;
use crate::command::spec::action;
use crate::config::events::Notify;
use crate::engine::model::event::{Event, Events, Told};
use crate::ids::Db;
use crate::limits::{
    DELIVERIES_PER_TURN, DELIVERY_BYTES_PER_TURN, EVENT_BYTES_MAX, MAIL_BYTES_MAX,
};
use crate::observe::monitor;
use crate::pubsub::{Kind, PubSub};
use crate::server::core::Core;
use crate::server::outbox::held::TurnNo;
use crate::server::turn::Turns;
use std::collections::VecDeque;

/// Receivers, and names of channels, that count as one entry in the cost of an EXEC.
const PER_ENTRY: usize = 8;
/// Bytes compared with patterns that take as long as looking at a name.
const COMPARED_PER_NAME: usize = 128;

impl Core {
    /// Channels, for the command of the client in `slot`: a message leaves no earlier than the replies to
    /// what that client has done before.
    pub fn pubsub_of(&mut self, slot: u32) -> &mut PubSub {
        let changed = self.facts.count > 0;
        self.pubsub.turn = if changed { self.outputs.turn } else { self.outputs.newest_turn(slot) };
        &mut self.pubsub
    }

    /// How many entries a command about channels may look at.
    pub fn pubsub_cost(&self, what: &action::PubSub<'_>) -> u64 {
        let kind = |sharded: bool| if sharded { Kind::Shard } else { Kind::Channel };
        let names = |kind: Kind| self.pubsub.topic_counts()[kind as usize];
        let looked = match *what {
            action::PubSub::Publish { sharded, channel, .. } => {
                let compared = self.pubsub.patterns_cost() / COMPARED_PER_NAME;
                self.pubsub.subscriber_count(kind(sharded), channel)
                    + names(Kind::Pattern)
                    + compared
            }
            action::PubSub::Channels { sharded, pattern } => {
                // It is run beforehand, too, for the length of its reply.
                let compared = 2 * self.pubsub.channels_cost(kind(sharded), pattern);
                names(kind(sharded)) + compared / COMPARED_PER_NAME
            }
            action::PubSub::Subscribe(_, names)
            | action::PubSub::Unsubscribe(_, names)
            | action::PubSub::Counts { channels: names, .. } => names.len(),
            action::PubSub::PatternCount | action::PubSub::Monitor => 0,
        };
        1 + (looked / PER_ENTRY) as u64
    }

    /// Shows a command that has run to those that monitor.
    pub fn show_command(&mut self, db: Db, addr: &str, spec: &CommandSpec, args: &[&[u8]]) {
        let line = monitor::line(self.clock.now, db, addr, spec, args);
        self.pubsub.show(&line);
    }

    /// Whether so many messages are on their way that no further commands are to run.
    pub fn is_mail_full(&self) -> bool {
        self.pubsub.mail.bytes() > MAIL_BYTES_MAX || self.news.bytes > EVENT_BYTES_MAX
    }

    /// Whether there is something to deliver.
    pub fn has_mail(&self) -> bool {
        !self.pubsub.mail.is_empty() || !self.news.batches.is_empty()
    }

    /// The journal failed: nobody is told of what is not safe.
    pub fn drop_news(&mut self) {
        let released = self.outputs.released();
        self.pubsub.mail.drop_after(released);
        self.news.batches.retain(|batch| batch.turn <= released);
        self.news.bytes = self.news.batches.iter().map(|batch| batch.events.len_bytes()).sum();
    }

    /// What the engine has told since the last time waits for the journal with this turn's facts.
    fn collect_news(&mut self) {
        let Some(events) = self.engine.take_events() else { return };
        // Nobody hears of it: the rest is spared.
        if self.pubsub.has_subscribers() {
            self.news.bytes += events.len_bytes();
            self.news.batches.push_back(Batch { turn: self.outputs.turn, events });
        }
    }

    /// Makes messages of the oldest event; false if there is none.
    fn publish_event(&mut self) -> bool {
        let News { batches, bytes } = &mut self.news;
        let Some(batch) = batches.front_mut() else { return false };
        let before = batch.events.len_bytes();
        if let Some(told) = batch.events.take() {
            self.pubsub.turn = batch.turn;
            publish(&told, &self.limits.notify, &mut self.pubsub);
        }
        *bytes -= before - batch.events.len_bytes();
        if batch.events.is_empty() {
            batches.pop_front();
        }
        true
    }

    /// Copies messages into outputs, a turn's share of them. Returns the slots that got one.
    pub fn deliver(&mut self) -> Vec<u32> {
        self.collect_news();
        let mut slots = Vec::new();
        let (mut left, mut bytes_left) = (DELIVERIES_PER_TURN, DELIVERY_BYTES_PER_TURN);
        while left > 0 && bytes_left > 0 {
            let Some(mut letter) = self.pubsub.mail.take() else {
                if !self.publish_event() {
                    break;
                }
                // Beside the receivers, the names are looked up and the patterns compared.
                let patterns = self.pubsub.topic_counts()[Kind::Pattern as usize];
                let compared = self.pubsub.patterns_cost() / COMPARED_PER_NAME;
                left = left.saturating_sub(1 + patterns / PER_ENTRY + compared);
                continue;
            };
            while let Some(client) = letter.next_receiver() {
                left -= 1;
                if self.pubsub.is_wanted(&letter, client)
                    && let Some(slot) = self.outputs.bring(client, &letter)
                {
                    bytes_left = bytes_left.saturating_sub(letter.wire_bytes());
                    slots.push(slot);
                }
                if left == 0 || bytes_left == 0 {
                    break;
                }
            }
            if !letter.is_delivered() {
                self.pubsub.mail.put_back(letter);
            }
        }
        slots
    }
}

/// Events that wait to become messages, oldest first.
#[derive(Debug, Default)]
pub struct News {
    batches: VecDeque<Batch>,
    bytes: usize,
}

/// Events of one turn.
#[derive(Debug)]
struct Batch {
    turn: TurnNo,
    events: Events,
}

/// Publishes an event on the channels that are switched on. Costs a few look-ups where nobody listens.
fn publish(told: &Told<'_>, notify: &Notify, pubsub: &mut PubSub) {
    let &Told { event, db, queue, id } = told;
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
        pubsub.publish(Kind::Channel, &channel, message);
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

impl Turns {
    /// Brings messages to those that have subscribed. Who does not read them is closed.
    pub(in crate::server) fn deliver(&mut self) {
        for slot in self.core.deliver() {
            self.account(slot);
        }
    }
}
