//! Pending output to the clients. Kept apart from their sessions, so that while one client's command runs, replies can
//! be written to any client.

pub mod gate;
pub mod messages;

mod output;
mod schedule;

use crate::command::show::render::render;
use crate::engine::model::reply::{self, Reply};
use crate::ids::ClientId;
use crate::limits::BUFFERS_KEPT_MAX;
use crate::observe::commands::ErrorCounts;
use crate::pubsub::outbox::{Message, Subject};
use crate::resp::{Encoder, Protocol};
use crate::server::connection::calls::{Call, Ending, Over};
use crate::server::connection::common::Buffers;
use crate::server::outbox::gate::{Content, Gate, TurnNo};
use crate::server::outbox::output::Handed;
use crate::server::outbox::schedule::Schedule;
use crate::time::Millis;
use bytes::BytesMut;
use std::collections::HashMap;

pub use output::Output;

/// The outputs of all clients, by slot.
#[derive(Debug, Default)]
pub struct Outputs {
    by_slot: Vec<Output>,
    slots: HashMap<ClientId, u32>,
    /// The client whose command is running: almost all replies are its own, and need no look-up.
    current: Option<(ClientId, u32)>,
    /// Slots with something to write.
    schedule: Schedule,
    /// Which of it may leave.
    pub gate: Gate,
    /// Slots whose waiting client has been answered.
    pub answered: Vec<u32>,
    /// Where the replies of muted clients go.
    nowhere: BytesMut,
    /// Bytes that were there before the current ones.
    thrown_bytes: u64,
    /// Buffers for outputs that have something to say.
    buffers: Buffers,
    /// Slots of muted clients whose jobs are handed over without a reply.
    pub unheard: Vec<u32>,
    /// Errors answered, by class: the engine's, which pass here, and those the sessions report.
    pub errors: ErrorCounts,
    /// How the engine's reply ended the running command; taken by the code that counts it.
    end: Ending,
    /// Commands that waited and are over, to be counted.
    pub over: Vec<Over>,
    /// The clock for the delay of replies to waiting clients; monotonic, ns. None: no time.
    pub reply_clock: Option<fn() -> u64>,
    /// The due times of the jobs that have just left, for those with a consumer waiting at that
    /// time.
    pub left: Vec<Millis>,
}

impl Outputs {
    pub fn open(&mut self, client: ClientId, slot: u32) {
        let at = slot as usize;
        if self.by_slot.len() <= at {
            self.by_slot.resize_with(at + 1, Output::default);
        }
        self.by_slot[at] = Output::default();
        self.slots.insert(client, slot);
    }

    /// The client is gone; what was not sent is dropped.
    pub fn close(&mut self, client: ClientId, slot: u32) {
        let mut output = std::mem::take(&mut self.by_slot[slot as usize]);
        output.unsent.clear(&mut self.buffers);
        self.slots.remove(&client);
        if self.current == Some((client, slot)) {
            self.current = None;
        }
    }

    /// From here on it is this client's command that runs.
    pub fn set_current(&mut self, client: ClientId, slot: u32) {
        self.current = Some((client, slot));
    }

    /// The client whose command is running.
    pub fn current(&self) -> Option<ClientId> {
        self.current.map(|(client, _)| client)
    }

    pub fn slot(&self, client: ClientId) -> Option<u32> {
        match self.current {
            Some((current, slot)) if current == client => Some(slot),
            _ => self.slots.get(&client).copied(),
        }
    }

    /// To read; [`Outputs::at`] to change.
    pub fn of(&self, slot: u32) -> &Output {
        &self.by_slot[slot as usize]
    }

    /// To change. A call is set by [`Outputs::set_call`], which looks whether the client waits.
    pub fn at(&mut self, slot: u32) -> &mut Output {
        &mut self.by_slot[slot as usize]
    }

    /// Frees the buffers that are kept for the next output.
    pub fn forget_buffers(&mut self) {
        self.buffers = Buffers::default();
    }

    /// The output of a slot gives back what buffer it does not need for the few bytes it holds.
    pub fn trim(&mut self, slot: u32) {
        self.by_slot[slot as usize].unsent.trim(&mut self.buffers);
    }

    /// Notes that the reply to a command begins at `start` and ends where the output ends now. With
    /// `asked` it shows data of the engine and waits for the journal; with `wrote` it reports a
    /// change.
    pub fn frame(&mut self, slot: u32, start: u64, asked: bool, wrote: bool) {
        let turn = if asked { self.gate.turn } else { 0 };
        let output = &mut self.by_slot[slot as usize];
        if output.end() > start {
            let content = if wrote { Content::Change } else { Content::Nothing };
            output.gated.push(start, turn, content);
            self.gate.note(turn);
        }
    }

    /// Copies a message into the output of one of its receivers, after its present content. Returns its slot; none if
    /// the client is gone. Muted clients get messages of channels, but no commands that they monitor.
    pub fn bring(&mut self, client: ClientId, message: &Message) -> Option<u32> {
        let slot = self.slot(client)?;
        let turn = self.gate.unreleased(message.turn);
        let output = &mut self.by_slot[slot as usize];
        if output.muted && matches!(message.subject, Subject::Command) {
            return None;
        }
        let pushes = output.protocol == Protocol::Resp3;
        output.gated.push(output.end(), turn, Content::Message);
        self.gate.note(turn);
        let head = &[message.heads[usize::from(pushes)]];
        output.unsent.append([head, &message.body, &message.tail]);
        self.mark_dirty(slot);
        Some(slot)
    }

    /// The newest turn whose facts a reply in a slot waits for; 0 for none.
    pub fn newest_turn(&self, slot: u32) -> TurnNo {
        self.by_slot[slot as usize].gated.newest_turn()
    }

    /// Replies of turns up to `released` may leave from here on.
    pub fn release(&mut self, released: TurnNo) {
        self.gate.release(released);
        while let Some(slots) = self.gate.take_released() {
            slots.into_iter().for_each(|slot| self.mark_dirty(slot));
        }
    }

    /// How many bytes of a slot's output may leave now. The slot is looked at again when the rest
    /// may.
    pub fn sendable_bytes(&mut self, slot: u32) -> usize {
        let output = &mut self.by_slot[slot as usize];
        match output.gated.starts_at(slot, &mut self.gate) {
            None => output.unsent.len(),
            Some(start) => (start - output.sent_bytes) as usize,
        }
    }

    /// The journal failed: replies that report changes which are not safe contain `text` instead.
    /// All others may leave. Returns the clients that would have received jobs in them.
    pub fn fail(&mut self, text: &str) -> Vec<ClientId> {
        let (released, mut unhanded) = (self.gate.released(), Vec::new());
        for (client, slot) in &self.slots {
            let output = &mut self.by_slot[*slot as usize];
            if output.gated.is_empty() {
                continue;
            }
            if output.fail(released, text, &mut self.buffers, &mut self.errors) {
                unhanded.push(*client);
            }
            self.schedule.add(*slot, &mut output.scheduled);
        }
        self.gate.clear();
        unhanded
    }

    /// Bytes rendered for a client since the last write to it, and all ever thrown away.
    pub fn replied_bytes(&self, client: ClientId) -> u64 {
        let unsent = self.slot(client).map_or(0, |slot| self.of(slot).unsent.len());
        unsent as u64 + self.thrown_bytes + self.nowhere.len() as u64
    }

    /// The turn that a slot's replies wait for first, if they wait for the journal.
    pub fn first_gated(&self, slot: u32) -> Option<TurnNo> {
        let (_, turn) = self.by_slot[slot as usize].gated.first_after(self.gate.released())?;
        Some(turn)
    }

    /// Whether all that has not left a slot waits for the journal.
    pub fn is_held(&self, slot: u32) -> bool {
        let output = &self.by_slot[slot as usize];
        let first = output.gated.first_after(self.gate.released());
        first.is_some_and(|(start, _)| start <= output.sent_bytes)
    }

    /// An encoder after the pending output to `client`.
    pub fn encoder(&mut self, client: ClientId) -> Encoder<'_> {
        match self.slot(client) {
            Some(slot) => self.encoder_at(slot),
            // Closed in this turn.
            None => self.encoder_to_nowhere(Protocol::Resp2),
        }
    }

    /// Answers `client` with an error, and counts it.
    pub fn refuse(&mut self, client: ClientId, text: &str) {
        self.errors.count(text);
        self.encoder(client).error(text);
    }

    /// From here on `client` is sent everything in this protocol, and while muted its replies are thrown away.
    pub fn set_replies(&mut self, client: ClientId, protocol: Protocol, muted: bool) {
        if let Some(slot) = self.slot(client) {
            let output = &mut self.by_slot[slot as usize];
            (output.protocol, output.muted) = (protocol, muted);
        }
    }

    /// `client` is in line for a job.
    pub fn set_waiting(&mut self, client: ClientId) {
        if let Some(slot) = self.slot(client) {
            self.by_slot[slot as usize].waiting = true;
        }
    }

    /// The command that the client in `slot` waits in.
    pub fn set_call(&mut self, slot: u32, call: Box<Call>) {
        let output = &mut self.by_slot[slot as usize];
        if output.waiting {
            output.call = Some(call);
        }
    }

    /// How the engine's reply made the running command end, since this was last asked.
    pub fn take_end(&mut self) -> Ending {
        std::mem::replace(&mut self.end, Ending::Done)
    }

    /// `client` waits no longer; its command ends so.
    pub fn set_answered(&mut self, client: ClientId, end: Ending) {
        if let Some(slot) = self.slot(client)
            // This output needs no journal, but is no part of the reply before it.
            && let Some(call) = self.end_wait(slot, 0, Content::Nothing)
        {
            self.over.push(Over { client, slot, call, end, reply_ns: 0 });
        }
    }

    /// Sees to it that the slot is looked at when replies are released.
    pub fn mark_dirty(&mut self, slot: u32) {
        self.schedule.add(slot, &mut self.by_slot[slot as usize].scheduled);
    }

    /// As [`Outputs::mark_dirty`], after all that have something to write already.
    pub fn mark_late(&mut self, slot: u32) {
        self.schedule.add_late(slot, &mut self.by_slot[slot as usize].scheduled);
    }

    /// The slot was woken: what the kernel did not take before, it may take now.
    pub fn try_again(&mut self, slot: u32) {
        if !self.by_slot[slot as usize].unsent.is_empty() {
            self.mark_dirty(slot);
        }
    }

    /// The kernel took `count` bytes of a slot's output. Returns how many replies that hand over jobs
    /// began to leave with them.
    pub fn sent(&mut self, slot: u32, count: usize) -> usize {
        self.by_slot[slot as usize].sent(count, &mut self.buffers, &mut self.left)
    }

    /// A slot to write to: by turns one of those that had to wait and one of those of this turn.
    pub fn next_dirty(&mut self, late_first: bool) -> Option<u32> {
        let slot = self.schedule.next(late_first)?;
        self.by_slot[slot as usize].scheduled = false;
        Some(slot)
    }

    /// Output that could not be written in this turn waits for the next.
    pub fn put_off(&mut self) {
        self.schedule.put_off();
    }

    /// Whether slots wait to be written to.
    pub fn is_behind(&self) -> bool {
        self.schedule.is_behind()
    }

    /// The client in `slot` no longer waits. If it did, its next output waits for `turn`; returns the command that it
    /// waited in.
    fn end_wait(&mut self, slot: u32, turn: TurnNo, content: Content) -> Option<Box<Call>> {
        let output = &mut self.by_slot[slot as usize];
        if !std::mem::take(&mut output.waiting) {
            return None;
        }
        if !output.muted {
            output.gated.push(output.end(), turn, content);
            self.gate.note(turn);
        }
        self.answered.push(slot);
        output.call.take()
    }

    /// Writes a reply; nothing to a muted client.
    fn write(&mut self, slot: u32, reply: &Reply<'_>) {
        let output = &mut self.by_slot[slot as usize];
        if !output.muted {
            output.unsent.reserve(reply.large_bytes());
            render(reply, &mut self.encoder_at(slot));
            // A herd: the buffers that are kept do not do for all.
            if self.schedule.len() > BUFFERS_KEPT_MAX {
                self.trim(slot);
            }
        }
    }

    fn reply_ns(&self) -> u64 {
        self.reply_clock.map_or(0, |clock| clock())
    }

    fn encoder_at(&mut self, slot: u32) -> Encoder<'_> {
        let Output { muted, protocol, .. } = self.by_slot[slot as usize];
        if muted {
            return self.encoder_to_nowhere(protocol);
        }
        let output = &mut self.by_slot[slot as usize];
        self.schedule.add(slot, &mut output.scheduled);
        Encoder::new(output.unsent.writer(&mut self.buffers), output.protocol)
    }

    fn encoder_to_nowhere(&mut self, protocol: Protocol) -> Encoder<'_> {
        self.thrown_bytes += self.nowhere.len() as u64;
        self.nowhere = BytesMut::new();
        Encoder::new(&mut self.nowhere, protocol)
    }
}

impl reply::Outbox for Outputs {
    fn on_time(&mut self, client: ClientId, due: &[Millis]) {
        let Some(slot) = self.slot(client) else { return };
        let output = &mut self.by_slot[slot as usize];
        match output.muted {
            // Nothing of it leaves; it is as late as it will be.
            true => self.left.extend_from_slice(due),
            false => output.hand_over_on_time(due),
        }
    }

    fn reply(&mut self, client: ClientId, reply: Reply<'_>) {
        let Some(slot) = self.slot(client) else { return };
        let output = &mut self.by_slot[slot as usize];
        if reply.hands_over() && output.hand_over() == Handed::AtOnce {
            self.unheard.push(slot);
        }
        if let Reply::Error(error) = &reply {
            self.errors.count(&error.to_string());
        }
        let end = Ending::of(&reply);
        if !output.waiting {
            // A caller that runs a command of its own has the frame made around the command.
            if self.current == Some((client, slot)) {
                self.end = end;
            }
            return self.write(slot, &reply);
        }
        let content = if reply.tells_of_change() { Content::Change } else { Content::Nothing };
        let Some(call) = self.end_wait(slot, self.gate.turn, content) else {
            return self.write(slot, &reply);
        };
        let began_ns = self.reply_ns();
        self.write(slot, &reply);
        let reply_ns = self.reply_ns().saturating_sub(began_ns);
        self.over.push(Over { client, slot, call, end, reply_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::meta::OwnMeta;
    use crate::engine::model::reply::Delivered;
    use crate::engine::model::reply::Outbox;
    use crate::engine::model::request::QueueName;
    use crate::ids::{Db, Token};
    use crate::pubsub::SubscriptionKind;
    use crate::time::Millis;
    use bytes::Bytes;

    const CLIENT: ClientId = ClientId(9);
    const SLOT: u32 = 2;

    fn outputs() -> Outputs {
        let mut outputs = Outputs::default();
        outputs.open(CLIENT, SLOT);
        outputs
    }

    fn hand(outputs: &mut Outputs) {
        let queue = QueueName { db: Db(0), name: b"q" };
        let (due, lease_end) = (Millis(1), Millis(0));
        let (id, body, token, meta) = (b"i", b"b", None, None);
        let job = Delivered { queue, id, body, token, attempt: 1, due, lease_end, meta };
        outputs.reply(CLIENT, Reply::Popped(job));
    }

    /// `+OK` comes before the first job: a write that ends with it has handed nothing over.
    #[test]
    fn a_job_leaves_with_its_own_first_byte() {
        let mut outputs = outputs();
        outputs.encoder(CLIENT).ok();
        hand(&mut outputs);
        hand(&mut outputs);
        assert_eq!(outputs.sent(SLOT, 3), 0);
        assert_eq!(outputs.sent(SLOT, 2), 0);
        assert!(outputs.at(SLOT).has_unsent_jobs());
        assert_eq!(outputs.sent(SLOT, 1), 1);
        let left = outputs.of(SLOT).unsent.len();
        // The second is as long as the first: its first byte is the one after it.
        assert_eq!(outputs.sent(SLOT, left / 2), 0);
        assert!(outputs.at(SLOT).has_unsent_jobs(), "the second has not begun to leave");
        assert_eq!(outputs.sent(SLOT, 1), 1);
        hand(&mut outputs);
        let left = outputs.of(SLOT).unsent.len();
        assert_eq!(outputs.sent(SLOT, left), 1);
    }

    #[test]
    fn a_large_reply_holds_no_more_than_it_is() {
        let queue = QueueName { db: Db(0), name: b"q" };
        let (due, lease_end, token) =
            (Millis(1), Millis(u64::MAX >> 1), Some(Token(u64::MAX >> 1)));
        for (count, bytes) in [(1, 70_000), (140, 30_000), (5_000, 800), (3, 3 << 20)] {
            let body = vec![b'x'; bytes];
            let id = &[b'i'; 512][..bytes.min(512)];
            // 64 pairs are mostly framing.
            let words = (b'0'..b'0' + 64).map(|name| [name]).collect::<Vec<_>>();
            let words: Vec<&[u8]> = words.iter().flat_map(|name| [&name[..], b""]).collect();
            let meta = OwnMeta::of(&words).unwrap();
            let meta = (count == 5_000).then(|| (None, meta.get()));
            let job = Delivered { queue, id, body: &body, token, attempt: 1, due, lease_end, meta };
            let mut outputs = outputs();
            // The output already has content.
            (0..1_000).for_each(|_| outputs.encoder(CLIENT).ok());
            outputs.reply(CLIENT, Reply::Reserved(&vec![job; count]));
            let (len, held) = (outputs.of(SLOT).unsent.len(), outputs.of(SLOT).held_bytes());
            assert!(held < len + len / 5 + 2 * 65_536, "{count} of {bytes}: {held} for {len}");
        }
    }

    #[test]
    fn a_job_is_as_late_as_its_first_byte_leaves() {
        let mut outputs = outputs();
        outputs.encoder(CLIENT).ok();
        for due in [7, 9] {
            outputs.on_time(CLIENT, &[Millis(due), Millis(due)]);
            hand(&mut outputs);
        }
        outputs.sent(SLOT, "+OK\r\n".len());
        assert!(outputs.left.is_empty());
        outputs.sent(SLOT, 1);
        assert_eq!(outputs.left, [Millis(7), Millis(7)]);
        // A reply with nothing after it on the wire is as late as it will be.
        outputs.set_replies(CLIENT, Protocol::Resp2, true);
        outputs.on_time(CLIENT, &[Millis(8)]);
        assert_eq!(outputs.left[2..], [Millis(8)]);
        let left = outputs.of(SLOT).unsent.len();
        outputs.sent(SLOT, left);
        assert_eq!(outputs.left[3..], [Millis(9), Millis(9)]);
    }

    #[test]
    fn a_muted_client_is_handed_its_job_at_once() {
        let mut outputs = outputs();
        outputs.set_replies(CLIENT, Protocol::Resp2, true);
        hand(&mut outputs);
        assert!(outputs.of(SLOT).unsent.is_empty());
        assert!(!outputs.at(SLOT).has_unsent_jobs());
        assert_eq!(outputs.unheard, [SLOT]);
    }

    #[test]
    fn an_answer_ends_the_waiting_and_is_marked_as_late() {
        let mut outputs = outputs();
        outputs.set_waiting(CLIENT);
        hand(&mut outputs);
        assert!(!outputs.of(SLOT).waiting && outputs.at(SLOT).waited);
        assert_eq!(outputs.answered, [SLOT]);
        assert_eq!((outputs.next_dirty(false), outputs.next_dirty(false)), (Some(SLOT), None));
        // One that is gone gets nothing, and nothing breaks.
        outputs.close(CLIENT, SLOT);
        hand(&mut outputs);
        outputs.encoder(CLIENT).ok();
        assert!(outputs.of(SLOT).unsent.is_empty());
    }

    /// A command of the client's own: `text` is its reply.
    fn reply(outputs: &mut Outputs, text: &str, asked: bool, wrote: bool) {
        let start = outputs.of(SLOT).end();
        outputs.encoder(CLIENT).simple(text);
        outputs.frame(SLOT, start, asked, wrote);
    }

    #[test]
    fn replies_wait_for_their_turn_and_keep_their_order() {
        let mut outputs = outputs();
        outputs.gate.turn = 5;
        reply(&mut outputs, "PONG", false, false);
        assert!(!outputs.gate.is_urgent());
        reply(&mut outputs, "added", true, true);
        reply(&mut outputs, "PONG", false, false);
        assert!(outputs.gate.is_urgent());
        outputs.gate.end_turn();
        reply(&mut outputs, "read", true, false);
        outputs.release(4);
        assert_eq!(outputs.sendable_bytes(SLOT), "+PONG\r\n".len());
        assert!(outputs.gate.has_waiting());
        outputs.sent(SLOT, "+PONG\r\n".len());
        assert_eq!(outputs.sendable_bytes(SLOT), 0);
        while outputs.next_dirty(false).is_some() {}
        outputs.release(5);
        assert_eq!(outputs.next_dirty(false), Some(SLOT), "it is looked at again");
        assert_eq!(outputs.sendable_bytes(SLOT), "+added\r\n+PONG\r\n".len());
        outputs.release(6);
        assert_eq!(outputs.sendable_bytes(SLOT), outputs.of(SLOT).unsent.len());
        assert!(!outputs.gate.has_waiting());
    }

    #[test]
    fn without_a_journal_nothing_waits() {
        let mut outputs = outputs();
        reply(&mut outputs, "added", true, true);
        assert_eq!(outputs.sendable_bytes(SLOT), outputs.of(SLOT).unsent.len());
        assert!(!outputs.gate.is_urgent());
    }

    #[test]
    fn what_a_failed_journal_lost_is_told_and_the_rest_leaves() {
        let mut outputs = outputs();
        outputs.gate.turn = 1;
        reply(&mut outputs, "safe", true, true);
        outputs.gate.end_turn();
        outputs.release(1);
        reply(&mut outputs, "lost", true, true);
        reply(&mut outputs, "read", true, false);
        reply(&mut outputs, "PONG", false, false);
        // A waiter's job is lost, too, and is not unsent any more.
        outputs.set_waiting(CLIENT);
        hand(&mut outputs);
        outputs.gate.end_turn();
        assert_eq!(outputs.sendable_bytes(SLOT), "+safe\r\n".len());
        assert_eq!(outputs.fail("MISCONF broken"), [CLIENT]);
        let text = String::from_utf8(outputs.at(SLOT).unsent.to_vec()).unwrap();
        let lost = "-MISCONF broken\r\n";
        assert_eq!(text, format!("+safe\r\n{lost}+read\r\n+PONG\r\n{lost}"));
        assert_eq!(outputs.sendable_bytes(SLOT), text.len());
        assert!(!outputs.at(SLOT).has_unsent_jobs() && !outputs.gate.has_waiting());
    }

    /// A message to another client, with the turn it rests on.
    fn message(outputs: &mut Outputs, text: &str, turn: TurnNo) -> Option<u32> {
        let subject = Subject::Topic(SubscriptionKind::Channel, b"c"[..].into());
        bring(outputs, text, turn, subject)
    }

    fn bring(outputs: &mut Outputs, text: &str, turn: TurnNo, subject: Subject) -> Option<u32> {
        let message = Message {
            to: [CLIENT].into(),
            next: 1,
            heads: *b"*>",
            body: format!("{text}\r\n").into_bytes().into(),
            tail: Bytes::new(),
            subject,
            turn,
            departures: 0,
            publisher: None,
        };
        outputs.bring(CLIENT, &message)
    }

    #[test]
    fn a_message_leaves_behind_the_facts_that_it_rests_on() {
        let mut outputs = outputs();
        outputs.gate.turn = 3;
        assert_eq!(message(&mut outputs, "free", 0), Some(SLOT));
        assert!(!outputs.gate.is_urgent());
        assert_eq!(message(&mut outputs, "gated", 3), Some(SLOT));
        assert!(outputs.gate.is_urgent(), "its facts are urgent");
        outputs.gate.end_turn();
        message(&mut outputs, "behind", 0);
        outputs.release(2);
        assert_eq!(outputs.sendable_bytes(SLOT), "*free\r\n".len());
        outputs.release(3);
        assert_eq!(outputs.sendable_bytes(SLOT), outputs.of(SLOT).unsent.len());
        outputs.sent(SLOT, outputs.of(SLOT).unsent.len());
        // Nothing lost by a failed journal is sent.
        message(&mut outputs, "lost", 4);
        message(&mut outputs, "safe", 3);
        assert_eq!(outputs.fail("MISCONF broken"), []);
        assert_eq!(&outputs.at(SLOT).unsent.to_vec()[..], b"*safe\r\n");
    }

    #[test]
    fn a_muted_client_gets_messages_and_sees_no_commands() {
        let mut outputs = outputs();
        outputs.set_replies(CLIENT, Protocol::Resp2, true);
        assert_eq!(message(&mut outputs, "x", 0), Some(SLOT));
        assert_eq!(bring(&mut outputs, "PING", 0, Subject::Command), None);
        outputs.set_replies(CLIENT, Protocol::Resp3, true);
        assert_eq!(message(&mut outputs, "y", 0), Some(SLOT));
        assert_eq!(bring(&mut outputs, "PING", 0, Subject::Command), None);
        assert_eq!(outputs.at(SLOT).unsent.to_vec(), b"*x\r\n>y\r\n");
        outputs.close(CLIENT, SLOT);
        assert_eq!(message(&mut outputs, "x", 0), None);
    }
}
