//! Messages on their way to their receivers.

use super::SubscriptionKind;
use crate::ids::ClientId;
use crate::limits::MESSAGE_BYTES;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
pub struct Message {
    /// All receivers at the time of publishing.
    pub to: Arc<[ClientId]>,
    /// How many of them it has been brought to.
    pub next: usize,
    /// Its first byte in RESP2 and in RESP3.
    pub heads: [u8; 2],
    /// The part after the first byte, specific to this receiver list: its receivers, and the name.
    pub body: Bytes,
    /// The payload, which all messages of one PUBLISH share: a thousand patterns may match a
    /// message of 16 MB.
    pub tail: Bytes,
    /// Why the receivers get it.
    pub subject: Subject,
    /// It leaves no earlier than the replies of this turn.
    pub turn: u64,
    /// How often subscriptions had ended when it was posted.
    pub departures: u64,
    pub publisher: Option<ClientId>,
}

/// Why a client gets a message.
#[derive(Debug)]
pub enum Subject {
    /// A command that ran, for those that monitor.
    Command,
    /// A subscription.
    Topic(SubscriptionKind, Box<[u8]>),
}

impl Message {
    pub fn next_receiver(&mut self) -> Option<ClientId> {
        let client = self.to.get(self.next).copied()?;
        self.next += 1;
        Some(client)
    }

    /// Whether it has been brought to all.
    pub fn is_delivered(&self) -> bool {
        self.next == self.to.len()
    }

    pub fn wire_bytes(&self) -> usize {
        1 + self.body.len() + self.tail.len()
    }

    /// Its memory, including everything it shares.
    fn bytes(&self) -> usize {
        self.wire_bytes() + MESSAGE_BYTES
    }
}

/// Messages on their way, oldest first.
#[derive(Debug, Default)]
pub struct Outbox {
    messages: VecDeque<Message>,
    bytes: usize,
}

impl Outbox {
    /// Adds one, after all others.
    pub fn post(&mut self, message: Message) {
        self.bytes += message.bytes();
        self.messages.push_back(message);
    }

    /// Takes the oldest.
    pub fn take(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.bytes();
        Some(message)
    }

    /// Puts one back that has receivers left.
    pub fn put_back(&mut self, message: Message) {
        self.bytes += message.bytes();
        self.messages.push_front(message);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops messages that wait for replies of turns after `turn`.
    pub fn drop_after(&mut self, turn: u64) {
        self.messages.retain(|message| message.turn <= turn);
        self.bytes = self.messages.iter().map(Message::bytes).sum();
    }
}
