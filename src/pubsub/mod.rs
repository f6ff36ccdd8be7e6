//! Channels: subscriptions, and messages in transit.
//!
//! Publishing finds the receivers of a message and puts one [`Message`](outbox::Message) for all of them into the
//! [`Outbox`]. It is encoded once, for both protocols; the owner of the connections copies it into their outputs, a
//! bounded number a turn. A client that has unsubscribed meanwhile does not get it, except for a client that published
//! it itself: its reply has counted it as a receiver, and it knows what it did after that.

pub mod outbox;

use crate::error::{Error, Shown};
use crate::glob;
use crate::ids::ClientId;
use crate::limits::{
    CHANNEL_BYTES_MAX, CHANNELS_COST_MAX, CHANNELS_MAX, PATTERNS_COST_MAX, PATTERNS_MAX,
    SUBSCRIPTION_BYTES, SUBSCRIPTIONS_PER_CLIENT_MAX,
};
use crate::resp::{Encoder, Protocol};
use bytes::{Buf, Bytes, BytesMut};
use outbox::{Message, Outbox, Subject};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The kind of subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionKind {
    /// SUBSCRIBE: a channel.
    Channel,
    /// PSUBSCRIBE: all channels that match.
    Pattern,
}

impl SubscriptionKind {
    /// Begins the words of its commands and messages.
    pub fn prefix(self) -> &'static str {
        match self {
            SubscriptionKind::Channel => "",
            SubscriptionKind::Pattern => "p",
        }
    }
}

/// How many subscriptions of each kind: channels, patterns.
pub type SubscriptionCounts = [usize; 2];

/// Everything about channels.
#[derive(Debug, Default)]
pub struct PubSub {
    topics: [BTreeMap<Box<[u8]>, Topic>; 2],
    subscribers: HashMap<ClientId, Subscriber>,
    /// Clients that monitor all commands, and the same as a list.
    monitors: Topic,
    /// The cost of the patterns together, by [`glob::cost`].
    patterns_cost: usize,
    pub outbox: Outbox,
    /// Messages published from here on leave no earlier than the replies of this turn; 0 at once.
    pub turn: u64,
    /// Grows with every end of a subscription.
    departures: u64,
    publisher: Option<ClientId>,
}

#[derive(Debug, Default)]
struct Topic {
    clients: BTreeSet<ClientId>,
    /// The same as a list that messages share; made when it is needed.
    list: Option<Arc<[ClientId]>>,
}

impl Topic {
    fn list(&mut self) -> Arc<[ClientId]> {
        let clients = &self.clients;
        Arc::clone(self.list.get_or_insert_with(|| clients.iter().copied().collect()))
    }

    fn add(&mut self, client: ClientId) -> bool {
        self.list = None;
        self.clients.insert(client)
    }

    fn remove(&mut self, client: ClientId) -> bool {
        self.list = None;
        self.clients.remove(&client)
    }
}

#[derive(Debug, Default)]
struct Subscriber {
    names: [BTreeSet<Box<[u8]>>; 2],
    bytes: usize,
}

impl PubSub {
    /// Whether `client` may subscribe to all of `names`.
    ///
    /// # Errors
    /// A name is too long, or there would be too many; the text names the limit.
    pub fn check(
        &self,
        client: ClientId,
        kind: SubscriptionKind,
        names: &[&[u8]],
    ) -> Result<(), Error> {
        names.iter().try_for_each(|name| check_name(kind, name))?;
        let own: usize = self.counts(client).iter().sum();
        if own + names.len() > SUBSCRIPTIONS_PER_CLIENT_MAX {
            return Err(Error::text(format!(
                "ERR {own} subscriptions and {} more; a client can have at most {SUBSCRIPTIONS_PER_CLIENT_MAX}",
                names.len()
            )));
        }
        let (all, max, what) = match kind {
            SubscriptionKind::Pattern => {
                (self.topics[kind as usize].len(), PATTERNS_MAX, "patterns")
            }
            _ => (self.topics[kind as usize].len(), CHANNELS_MAX, "channels"),
        };
        if all + names.len() > max {
            let more = names.len();
            return Err(Error::text(format!(
                "ERR all clients together are subscribed to {all} {what}, and these are {more} more; at most {max} \
                 are allowed"
            )));
        }
        if kind == SubscriptionKind::Pattern {
            let is_new = |name: &&&[u8]| !self.topics[kind as usize].contains_key(**name);
            let more: usize = names.iter().filter(is_new).map(|name| pattern_cost(name)).sum();
            let cost = self.patterns_cost;
            if more > 0 && cost + more > PATTERNS_COST_MAX {
                return Err(Error::text(format!(
                    "ERR the patterns of all clients cost {cost}, and these {more} more; at most {PATTERNS_COST_MAX} \
                     is allowed: short pieces between two stars cost less"
                )));
            }
        }
        Ok(())
    }

    /// Subscribes `client`, unless it has subscribed already. [`PubSub::check`] has passed.
    pub fn subscribe(&mut self, client: ClientId, kind: SubscriptionKind, name: &[u8]) {
        let subscriber = self.subscribers.entry(client).or_default();
        if subscriber.names[kind as usize].insert(name.into()) {
            subscriber.bytes += cost(name);
            let topic = self.topics[kind as usize].entry(name.into()).or_default();
            if kind == SubscriptionKind::Pattern && topic.clients.is_empty() {
                self.patterns_cost += pattern_cost(name);
            }
            topic.add(client);
        }
    }

    /// Ends a subscription, if there is one.
    pub fn unsubscribe(&mut self, client: ClientId, kind: SubscriptionKind, name: &[u8]) {
        let Some(subscriber) = self.subscribers.get_mut(&client) else { return };
        if !subscriber.names[kind as usize].remove(name) {
            return;
        }
        subscriber.bytes -= cost(name);
        if subscriber.names.iter().all(BTreeSet::is_empty) {
            self.subscribers.remove(&client);
        }
        self.leave(client, kind, name);
    }

    /// Ends all subscriptions of `client`, and its monitoring.
    pub fn forget(&mut self, client: ClientId) {
        if self.monitors.clients.contains(&client) {
            self.monitors.remove(client);
            self.departures += 1;
        }
        let Some(subscriber) = self.subscribers.remove(&client) else { return };
        for kind in [SubscriptionKind::Channel, SubscriptionKind::Pattern] {
            for name in &subscriber.names[kind as usize] {
                self.leave(client, kind, name);
            }
        }
    }

    /// The subscriptions of `client`, in order.
    pub fn subscriptions(&self, client: ClientId, kind: SubscriptionKind) -> Vec<Box<[u8]>> {
        let subscriber = self.subscribers.get(&client);
        subscriber.map_or_else(Vec::new, |s| s.names[kind as usize].iter().cloned().collect())
    }

    pub fn counts(&self, client: ClientId) -> SubscriptionCounts {
        self.subscribers.get(&client).map_or([0; 2], |s| s.names.each_ref().map(BTreeSet::len))
    }

    pub fn bytes(&self, client: ClientId) -> usize {
        self.subscribers.get(&client).map_or(0, |subscriber| subscriber.bytes)
    }

    pub fn client_count(&self) -> usize {
        self.subscribers.len()
    }

    /// How many channels and patterns have subscribers.
    pub fn topic_counts(&self) -> SubscriptionCounts {
        self.topics.each_ref().map(BTreeMap::len)
    }

    pub fn subscriber_count(&self, channel: &[u8]) -> usize {
        self.topics[SubscriptionKind::Channel as usize]
            .get(channel)
            .map_or(0, |topic| topic.clients.len())
    }

    /// The channels with subscribers by name, in order; only those that match.
    ///
    /// # Errors
    /// The pattern is too costly to be compared with all of them at once.
    pub fn channels(&self, pattern: Option<&[u8]>) -> Result<Vec<&[u8]>, Error> {
        let names = self.topics[SubscriptionKind::Channel as usize].keys().map(|name| &**name);
        let Some(pattern) = pattern else { return Ok(names.collect()) };
        let (mut fitting, mut steps) = (Vec::new(), 0);
        for name in names {
            if glob::matches_counted(pattern, name, &mut steps) {
                fitting.push(name);
            }
            if steps > CHANNELS_COST_MAX {
                return Err(Error::text(format!(
                    "ERR comparing the pattern with all channels takes more than {CHANNELS_COST_MAX} bytes; \
                     short pieces between two stars cost less"
                )));
            }
        }
        Ok(fitting)
    }

    /// Bytes that a message may be compared with, in all patterns.
    pub fn patterns_cost(&self) -> usize {
        self.patterns_cost
    }

    /// Bytes that PUBSUB CHANNELS may compare with `pattern`.
    pub fn channels_cost(&self, pattern: Option<&[u8]>) -> usize {
        let one = pattern.map_or(0, pattern_cost);
        one.saturating_mul(self.topics[SubscriptionKind::Channel as usize].len())
            .min(CHANNELS_COST_MAX as usize)
    }

    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// Sends what `client` publishes, as [`PubSub::publish`] does.
    pub fn publish_for(&mut self, client: ClientId, channel: &[u8], payload: &[u8]) -> usize {
        self.publisher = Some(client);
        let count = self.publish(channel, payload);
        self.publisher = None;
        count
    }

    /// Sends `payload` to all that have subscribed to `channel`; returns how often it is sent. Costs a
    /// comparison with every pattern.
    pub fn publish(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        let (mut count, mut tail) = (0, None);
        if let Some(topic) = self.topics[SubscriptionKind::Channel as usize].get_mut(channel) {
            let to = topic.list();
            count += to.len();
            let tail = tail.get_or_insert_with(|| encoded_tail(payload));
            let message =
                self.message(to, SubscriptionKind::Channel, channel, &[b"message", channel], tail);
            self.outbox.post(message);
        }
        if self.topics[SubscriptionKind::Pattern as usize].is_empty() {
            return count;
        }
        let patterns = &mut self.topics[SubscriptionKind::Pattern as usize];
        let fitting: Vec<_> = patterns
            .iter_mut()
            .filter(|(pattern, _)| glob::matches(pattern, channel))
            .map(|(pattern, topic)| (pattern.clone(), topic.list()))
            .collect();
        for (pattern, to) in fitting {
            count += to.len();
            let words: [&[u8]; 3] = [b"pmessage", &pattern, channel];
            let tail = tail.get_or_insert_with(|| encoded_tail(payload));
            let message = self.message(to, SubscriptionKind::Pattern, &pattern, &words, tail);
            self.outbox.post(message);
        }
        count
    }

    /// From here on `client` sees every command.
    pub fn monitor(&mut self, client: ClientId) {
        self.monitors.add(client);
    }

    /// Whether any client monitors all commands.
    pub fn is_monitored(&self) -> bool {
        !self.monitors.clients.is_empty()
    }

    pub fn show(&mut self, line: &str) {
        let body = format!("{line}\r\n").into_bytes().into();
        let to = self.monitors.list();
        let message = Message {
            to,
            next: 0,
            heads: [b'+'; 2],
            body,
            tail: Bytes::new(),
            subject: Subject::Command,
            turn: 0,
            departures: self.departures,
            publisher: None,
        };
        self.outbox.post(message);
    }

    /// Whether the next receiver of `message` still wants it.
    pub fn is_wanted(&self, message: &Message, client: ClientId) -> bool {
        if message.departures == self.departures || message.publisher == Some(client) {
            return true;
        }
        match &message.subject {
            Subject::Command => self.monitors.clients.contains(&client),
            Subject::Topic(kind, name) => self.topics[*kind as usize]
                .get(&**name)
                .is_some_and(|topic| topic.clients.contains(&client)),
        }
    }

    /// `tail` is the last word, encoded.
    fn message(
        &self,
        to: Arc<[ClientId]>,
        kind: SubscriptionKind,
        topic: &[u8],
        words: &[&[u8]],
        tail: &Bytes,
    ) -> Message {
        let bytes = words.iter().map(|word| word.len() + 16).sum::<usize>() + 16;
        let mut body = BytesMut::with_capacity(bytes);
        let mut out = Encoder::new(&mut body, Protocol::Resp3);
        out.push(words.len() + 1);
        words.iter().for_each(|word| out.bulk(word));
        // All but the first byte is the same in both protocols.
        body.advance(1);
        Message {
            to,
            next: 0,
            heads: [b'*', b'>'],
            body: body.freeze(),
            tail: tail.clone(),
            subject: Subject::Topic(kind, topic.into()),
            turn: self.turn,
            departures: self.departures,
            publisher: self.publisher,
        }
    }

    fn leave(&mut self, client: ClientId, kind: SubscriptionKind, name: &[u8]) {
        let topics = &mut self.topics[kind as usize];
        let topic = topics.get_mut(name).expect("a subscription's topic is there");
        topic.remove(client);
        if topic.clients.is_empty() {
            topics.remove(name);
            if kind == SubscriptionKind::Pattern {
                self.patterns_cost -= pattern_cost(name);
            }
        }
        self.departures += 1;
    }
}

/// The last word of what all receivers of a PUBLISH get.
fn encoded_tail(payload: &[u8]) -> Bytes {
    let mut tail = BytesMut::with_capacity(payload.len() + 25);
    Encoder::new(&mut tail, Protocol::Resp3).bulk(payload);
    tail.freeze()
}

/// The maximum cost of comparing a pattern with a channel.
fn pattern_cost(pattern: &[u8]) -> usize {
    glob::cost(pattern, CHANNEL_BYTES_MAX)
}

/// Bytes that a subscription holds.
fn cost(name: &[u8]) -> usize {
    2 * name.len() + SUBSCRIPTION_BYTES
}

/// Whether a channel, or a pattern, may have this name.
pub fn check_name(kind: SubscriptionKind, name: &[u8]) -> Result<(), Error> {
    if name.len() <= CHANNEL_BYTES_MAX {
        return Ok(());
    }
    let what = if kind == SubscriptionKind::Pattern { "pattern" } else { "channel" };
    let (shown, bytes) = (Shown::new(name), name.len());
    Err(Error::text(format!(
        "ERR {what} {shown} has {bytes} bytes; at most {CHANNEL_BYTES_MAX} are allowed"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    /// The receivers of messages, with the first word of each message; ended subscriptions are left out.
    fn delivered(pubsub: &mut PubSub) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        while let Some(mut message) = pubsub.outbox.take() {
            while let Some(client) = message.next_receiver() {
                if pubsub.is_wanted(&message, client) {
                    let text = String::from_utf8_lossy(&[&*message.body, &message.tail].concat())
                        .into_owned();
                    all.push((client.0, text.split("\r\n").nth(2).unwrap_or(&text).to_owned()));
                }
            }
        }
        all
    }

    #[test]
    fn messages_go_to_names_then_to_patterns() {
        let mut pubsub = PubSub::default();
        pubsub.subscribe(A, SubscriptionKind::Channel, b"news");
        pubsub.subscribe(B, SubscriptionKind::Pattern, b"n*");
        assert_eq!(pubsub.publish(b"news", b"x"), 2);
        assert_eq!(pubsub.publish(b"other", b"x"), 0);
        let words = |client: u64, word: &str| (client, word.to_owned());
        let expected = [words(1, "message"), words(2, "pmessage")];
        assert_eq!(delivered(&mut pubsub), expected);
        assert_eq!(pubsub.outbox.bytes(), 0);
    }

    #[test]
    fn a_client_gets_what_it_published_itself_before_it_unsubscribed() {
        let mut pubsub = PubSub::default();
        for client in [A, B] {
            pubsub.subscribe(client, SubscriptionKind::Channel, b"news");
            pubsub.subscribe(client, SubscriptionKind::Pattern, b"n*");
        }
        assert_eq!(pubsub.publish_for(A, b"news", b"x"), 4);
        for client in [A, B] {
            pubsub.unsubscribe(client, SubscriptionKind::Channel, b"news");
        }
        let expected = [(1, "message"), (1, "pmessage"), (2, "pmessage")];
        assert_eq!(
            delivered(&mut pubsub),
            expected.map(|(client, word)| (client, word.to_owned()))
        );
    }

    #[test]
    fn a_message_is_there_once_however_many_patterns_match() {
        let mut pubsub = PubSub::default();
        for pattern in 0..1_000 {
            pubsub.subscribe(
                A,
                SubscriptionKind::Pattern,
                format!("{}*", "n".repeat(pattern % 9)).as_bytes(),
            );
            pubsub.subscribe(B, SubscriptionKind::Pattern, format!("*{pattern}").as_bytes());
        }
        pubsub.subscribe(A, SubscriptionKind::Channel, b"nnnnnnnnn1");
        let count = pubsub.publish(b"nnnnnnnnn1", &[7; 100_000]);
        let messages: Vec<_> = std::iter::from_fn(|| pubsub.outbox.take()).collect();
        assert_eq!((count, messages.len()), (11, 11));
        let first = messages[0].tail.as_ptr();
        assert!(messages.iter().all(|message| message.tail.as_ptr() == first));
        assert!(messages.iter().all(|message| message.body.len() < 100));
    }

    #[test]
    fn who_left_gets_nothing_that_was_under_way() {
        let mut pubsub = PubSub::default();
        for client in [A, B] {
            pubsub.subscribe(client, SubscriptionKind::Channel, b"c");
            pubsub.monitor(client);
        }
        pubsub.publish(b"c", b"x");
        pubsub.show("line");
        pubsub.unsubscribe(A, SubscriptionKind::Channel, b"c");
        assert_eq!(delivered(&mut pubsub).iter().map(|(c, _)| *c).collect::<Vec<_>>(), [2, 1, 2]);
        pubsub.publish(b"c", b"x");
        pubsub.forget(B);
        pubsub.forget(A);
        assert_eq!(delivered(&mut pubsub), []);
        assert_eq!((pubsub.topic_counts(), pubsub.client_count()), ([0; 2], 0));
        assert!(!pubsub.is_monitored());
    }

    #[test]
    fn what_patterns_cost_together_is_bounded() {
        let mut pubsub = PubSub::default();
        let hostile = |number: usize| format!("*{}{number:05}*", "a".repeat(900)).into_bytes();
        let mut count = 0;
        while pubsub.check(A, SubscriptionKind::Pattern, &[&hostile(count)]).is_ok() {
            pubsub.subscribe(A, SubscriptionKind::Pattern, &hostile(count));
            pubsub.subscribe(B, SubscriptionKind::Pattern, &hostile(count));
            count += 1;
        }
        assert!((2..10).contains(&count), "{count}");
        // Existing ones cost nothing more, and other clients are not affected.
        assert!(pubsub.check(B, SubscriptionKind::Pattern, &[&hostile(0)]).is_ok());
        assert!(pubsub.check(B, SubscriptionKind::Channel, &[&hostile(count)]).is_ok());
        pubsub.forget(A);
        assert!(pubsub.check(A, SubscriptionKind::Pattern, &[&hostile(count)]).is_err());
        pubsub.forget(B);
        assert_eq!(pubsub.patterns_cost, 0);
        let usual: Vec<Vec<u8>> =
            (0..PATTERNS_MAX).map(|i| format!("news:user:{i}:*.created").into_bytes()).collect();
        let usual: Vec<&[u8]> = usual.iter().map(|name| &name[..]).collect();
        assert!(pubsub.check(A, SubscriptionKind::Pattern, &usual).is_ok());
    }

    #[test]
    fn channels_are_not_compared_without_end() {
        let mut pubsub = PubSub::default();
        for i in 0..1_000 {
            pubsub.subscribe(
                A,
                SubscriptionKind::Channel,
                format!("{}{i}", "a".repeat(1_000)).as_bytes(),
            );
        }
        let hostile = format!("*{}b*", "a".repeat(500));
        assert!(pubsub.channels(Some(hostile.as_bytes())).is_err());
        assert_eq!(pubsub.channels(Some(b"*a*7")).unwrap().len(), 100);
    }

    #[test]
    fn subscriptions_are_counted_once_and_limited() {
        let mut pubsub = PubSub::default();
        for _ in 0..2 {
            pubsub.subscribe(A, SubscriptionKind::Channel, b"c");
        }
        assert_eq!((pubsub.counts(A), pubsub.bytes(A)), ([1, 0], cost(b"c")));
        let long = vec![b'x'; CHANNEL_BYTES_MAX + 1];
        assert!(pubsub.check(A, SubscriptionKind::Channel, &[&long]).is_err());
        assert!(pubsub.check(A, SubscriptionKind::Channel, &[&long[1..]]).is_ok());
        let many = vec![&b"d"[..]; SUBSCRIPTIONS_PER_CLIENT_MAX];
        assert!(pubsub.check(A, SubscriptionKind::Channel, &many).is_err());
        assert!(pubsub.check(B, SubscriptionKind::Channel, &many).is_ok());
        pubsub.unsubscribe(A, SubscriptionKind::Channel, b"c");
        pubsub.unsubscribe(A, SubscriptionKind::Channel, b"c");
        assert_eq!((pubsub.bytes(A), pubsub.client_count()), (0, 0));
    }
}
