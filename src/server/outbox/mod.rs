//! What the clients are still to be sent. Kept apart from their sessions, so that while one client's
//! command runs, replies can be written to any client.

pub mod held;
pub mod messages;

use crate::command::show::render::render;
use crate::engine::model::reply::{Outbox, Reply};
use crate::ids::ClientId;
use crate::observe::errors::ErrorCounts;
use crate::pubsub::mail::{Letter, Subject};
use crate::resp::{Encoder, Protocol};
use crate::server::connection::buffers::Buffers;
use crate::server::connection::calls::{Call, Ending, Over};
use crate::server::connection::unsent::Unsent;
use crate::server::outbox::held::{Held, Run, Told, TurnNo};
use crate::time::Millis;
use bytes::BytesMut;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Room kept for the places of replies that hand over jobs while there are none.
const HANDED_KEPT: usize = 256;

/// The outputs of all clients, by slot.
#[derive(Debug)]
pub struct Outputs {
    by_slot: Vec<Output>,
    slots: HashMap<ClientId, u32>,
    /// Whose command runs: its replies, almost all there are, need no look-up.
    current: Option<(ClientId, u32)>,
    /// Slots with something to write, in the order in which they got it.
    dirty: VecDeque<u32>,
    /// Slots whose turn to be written did not come in the turn in which they had something.
    late: VecDeque<u32>,
    /// Slots whose client waited and has been answered.
    pub answered: Vec<u32>,
    /// Where the replies of muted clients go.
    nowhere: BytesMut,
    /// Bytes that went there before those that stand there now.
    thrown_bytes: u64,
    /// Buffers for outputs that have something to say.
    buffers: Buffers,
    /// Slots of muted clients whose jobs are handed over without a word leaving.
    pub unheard: Vec<u32>,
    /// Errors answered, by class: the engine's, which pass here, and those the sessions report.
    pub errors: ErrorCounts,
    /// How the engine's reply to the running command made it end; taken by whoever counts it.
    end: Ending,
    /// Commands that waited and are over, to be counted.
    pub over: Vec<Over>,
    /// What tells how long a reply to somebody who waited takes; monotonic, ns. None: no time.
    pub reply_clock: Option<fn() -> u64>,
    /// The number of the turn that replies written now belong to; 0 when there is no journal that
    /// they could wait for.
    pub turn: TurnNo,
    /// A reply of this turn waits for the journal.
    gated_in_turn: bool,
    /// When the jobs fell due that have just left, of those for which somebody was waiting then.
    pub left: Vec<Millis>,
    /// Replies of turns up to this one may leave.
    released: TurnNo,
    /// Slots with replies that wait for the journal, by the turn the first of them waits for.
    gated: BTreeMap<TurnNo, Vec<u32>>,
}

/// One client's output.
#[derive(Debug)]
pub struct Output {
    /// Encoded replies that have not left.
    pub unsent: Unsent,
    /// The client waits for a job, or for the journal.
    pub waiting: bool,
    /// The command it waits in.
    call: Option<Box<Call>>,
    /// Where the replies begin that hand over jobs and have not begun to leave: positions in all that
    /// was ever written to the client.
    handed_at: VecDeque<u64>,
    /// When jobs in them fell due for which the client was waiting then, and where their reply begins.
    prompt: VecDeque<(u64, Millis)>,
    /// How much the kernel has taken.
    sent_bytes: u64,
    /// The first of those replies goes to a client that had been waiting, perhaps for long: its
    /// peer may be gone without our having noticed.
    pub waited: bool,
    /// Replies that wait for the journal.
    held: Held,
    /// The turn under which the slot is listed in `gated`.
    gated_for: TurnNo,
    protocol: Protocol,
    muted: bool,
    dirty: bool,
}

impl Outputs {
    /// No clients.
    pub fn new() -> Outputs {
        Outputs {
            by_slot: Vec::new(),
            slots: HashMap::new(),
            current: None,
            dirty: VecDeque::new(),
            late: VecDeque::new(),
            answered: Vec::new(),
            nowhere: BytesMut::new(),
            thrown_bytes: 0,
            buffers: Buffers::default(),
            unheard: Vec::new(),
            errors: ErrorCounts::default(),
            end: Ending::Done,
            over: Vec::new(),
            reply_clock: None,
            turn: 0,
            gated_in_turn: false,
            left: Vec::new(),
            released: 0,
            gated: BTreeMap::new(),
        }
    }

    /// A client has taken `slot`.
    pub fn open(&mut self, client: ClientId, slot: u32) {
        let at = slot as usize;
        if self.by_slot.len() <= at {
            self.by_slot.resize_with(at + 1, Output::new);
        }
        self.by_slot[at] = Output::new();
        self.slots.insert(client, slot);
    }

    /// The client is gone; what was not sent is dropped.
    pub fn close(&mut self, client: ClientId, slot: u32) {
        let mut output = std::mem::replace(&mut self.by_slot[slot as usize], Output::new());
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

    /// Whose command runs.
    pub fn current(&self) -> Option<ClientId> {
        self.current.map(|(client, _)| client)
    }

    /// The slot of a client that is there.
    pub fn slot(&self, client: ClientId) -> Option<u32> {
        match self.current {
            Some((current, slot)) if current == client => Some(slot),
            _ => self.slots.get(&client).copied(),
        }
    }

    /// The output in a slot.
    pub fn at(&mut self, slot: u32) -> &mut Output {
        &mut self.by_slot[slot as usize]
    }

    /// Bytes that have not left a slot.
    pub fn unsent_bytes(&self, slot: u32) -> usize {
        self.by_slot[slot as usize].unsent.len()
    }

    /// What has not left a slot.
    pub fn unsent(&self, slot: u32) -> &Unsent {
        &self.by_slot[slot as usize].unsent
    }

    /// Bytes held for the output of a slot.
    pub fn held_bytes(&self, slot: u32) -> usize {
        let output = &self.by_slot[slot as usize];
        let call = output.call.as_ref().map_or(0, |call| call.bytes());
        output.unsent.held_bytes()
            + output.held.bytes()
            + output.handed_at.capacity() * size_of::<u64>()
            + output.prompt.capacity() * size_of::<(u64, Millis)>()
            + call
    }

    /// Where the output of a slot ends: a position in all that was ever written to its client.
    pub fn end(&self, slot: u32) -> u64 {
        self.by_slot[slot as usize].end()
    }

    /// Notes that the reply to a command begins at `start` and ends where the output ends now. With
    /// `asked` it tells what the engine holds and waits for the journal; with `wrote` it tells of a
    /// change.
    pub fn frame(&mut self, slot: u32, start: u64, asked: bool, wrote: bool) {
        let turn = if asked { self.turn } else { 0 };
        let output = &mut self.by_slot[slot as usize];
        if output.end() > start {
            let told = if wrote { Told::Change } else { Told::Nothing };
            output.held.push(start, turn, told);
            self.gated_in_turn |= turn > 0;
        }
    }

    /// Copies a letter into the output of one of its receivers, behind what stands there. Returns its slot;
    /// none if it is gone. Muted clients get messages of channels, but no commands that they monitor.
    pub fn bring(&mut self, client: ClientId, letter: &Letter) -> Option<u32> {
        let slot = self.slot(client)?;
        let turn = if letter.turn > self.released { letter.turn } else { 0 };
        let output = &mut self.by_slot[slot as usize];
        if output.muted && matches!(letter.subject, Subject::Command) {
            return None;
        }
        let pushes = output.protocol == Protocol::Resp3;
        output.held.push(output.end(), turn, Told::News);
        self.gated_in_turn |= turn > 0;
        let head = &[letter.heads[usize::from(pushes)]];
        output.unsent.append([head, &letter.body, &letter.tail]);
        self.mark_dirty(slot);
        Some(slot)
    }

    /// The newest turn whose facts a reply in a slot waits for; 0 for none.
    pub fn newest_turn(&self, slot: u32) -> TurnNo {
        self.by_slot[slot as usize].held.newest_turn()
    }

    /// Whether a reply of this turn waits for the journal.
    pub fn has_gated_in_turn(&self) -> bool {
        self.gated_in_turn
    }

    /// Replies written from here on belong to the next turn.
    pub fn end_turn(&mut self) {
        self.turn += 1;
        self.gated_in_turn = false;
    }

    /// Replies of turns up to this one may leave.
    pub fn released(&self) -> TurnNo {
        self.released
    }

    /// Whether replies wait for the journal, as far as it was tried to write them.
    pub fn has_gated(&self) -> bool {
        !self.gated.is_empty()
    }

    /// Replies of turns up to `released` may leave from here on.
    pub fn release(&mut self, released: TurnNo) {
        self.released = released;
        while let Some(first) = self.gated.first_entry()
            && *first.key() <= released
        {
            for slot in first.remove() {
                self.mark_dirty(slot);
            }
        }
    }

    /// How many bytes of a slot's output may leave now. The slot is looked at again when the rest
    /// may.
    pub fn sendable_bytes(&mut self, slot: u32) -> usize {
        let released = self.released;
        let output = &mut self.by_slot[slot as usize];
        match output.held.release(released) {
            None => output.unsent.len(),
            Some((start, turn)) => {
                if output.gated_for != turn {
                    output.gated_for = turn;
                    self.gated.entry(turn).or_default().push(slot);
                }
                (start - output.sent_bytes) as usize
            }
        }
    }

    /// The journal failed: replies that tell of changes which are not safe say `text` instead. All
    /// others may leave. Returns the clients that were to be handed something in them.
    pub fn fail(&mut self, text: &str) -> Vec<ClientId> {
        let slots: Vec<(ClientId, u32)> =
            self.slots.iter().map(|(id, slot)| (*id, *slot)).collect();
        let mut unhanded = Vec::new();
        for (client, slot) in slots {
            let output = &mut self.by_slot[slot as usize];
            if output.held.is_empty() {
                continue;
            }
            let runs = output.held.take(self.released, output.end());
            let first = runs.first().map_or(output.sent_bytes, |run| run.range.start);
            let sendable = (first - output.sent_bytes) as usize;
            let old = output.unsent.split_off(sendable, &mut self.buffers);
            for Run { range, told, count } in runs {
                match told {
                    Told::Change => {
                        for _ in 0..count {
                            let bytes = output.unsent.writer(&mut self.buffers);
                            Encoder::new(bytes, output.protocol).error(text);
                            self.errors.count(text);
                        }
                    }
                    Told::News => {}
                    Told::Nothing => {
                        let at = (range.start - first) as usize..(range.end - first) as usize;
                        output.unsent.append([&old[at]]);
                    }
                }
            }
            if output.handed_at.iter().any(|at| *at >= first) {
                output.handed_at.retain(|at| *at < first);
                output.prompt.retain(|(at, _)| *at < first);
                unhanded.push(client);
            }
            self.mark_dirty(slot);
        }
        self.gated.clear();
        unhanded
    }

    /// Bytes rendered for a client since the last write to it, and all ever thrown away.
    pub fn replied_bytes(&self, client: ClientId) -> u64 {
        let unsent = self.slot(client).map_or(0, |slot| self.unsent_bytes(slot));
        unsent as u64 + self.thrown_bytes + self.nowhere.len() as u64
    }

    /// Whether the client in `slot` waits for a job.
    pub fn is_waiting(&self, slot: u32) -> bool {
        self.by_slot[slot as usize].waiting
    }

    /// An encoder behind what is to be sent to `client`.
    pub fn encoder(&mut self, client: ClientId) -> Encoder<'_> {
        match self.slot(client) {
            Some(slot) => self.encoder_at(slot),
            // Closed in this turn.
            None => self.encoder_to_nowhere(Protocol::Resp2),
        }
    }

    /// From here on `client` is sent everything in this protocol.
    pub fn set_protocol(&mut self, client: ClientId, protocol: Protocol) {
        if let Some(slot) = self.slot(client) {
            self.by_slot[slot as usize].protocol = protocol;
        }
    }

    /// While muted, replies to `client` are thrown away.
    pub fn set_muted(&mut self, client: ClientId, muted: bool) {
        if let Some(slot) = self.slot(client) {
            self.by_slot[slot as usize].muted = muted;
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

    /// The command that the client in `slot` waits in, if it waits.
    pub fn call(&self, slot: u32) -> Option<&Call> {
        self.by_slot[slot as usize].call.as_deref()
    }

    /// How the engine's reply made the running command end, since this was last asked.
    pub fn take_end(&mut self) -> Ending {
        std::mem::replace(&mut self.end, Ending::Done)
    }

    /// `client` waits no longer; its command ends so.
    pub fn set_answered(&mut self, client: ClientId, end: Ending) {
        if let Some(slot) = self.slot(client) {
            let output = &mut self.by_slot[slot as usize];
            if std::mem::take(&mut output.waiting) {
                // What it is told needs no journal, but is no part of the reply before it.
                output.held.push(output.end(), 0, Told::Nothing);
                self.answered.push(slot);
                if let Some(call) = output.call.take() {
                    self.over.push(Over { client, slot, call, end, reply_ns: 0 });
                }
            }
        }
    }

    /// Sees to it that the slot is looked at when replies are released.
    pub fn mark_dirty(&mut self, slot: u32) {
        let output = &mut self.by_slot[slot as usize];
        if !output.dirty {
            output.dirty = true;
            self.dirty.push_back(slot);
        }
    }

    /// As [`Outputs::mark_dirty`], behind all that have something to write already.
    pub fn mark_late(&mut self, slot: u32) {
        let output = &mut self.by_slot[slot as usize];
        if !output.dirty {
            output.dirty = true;
            self.late.push_back(slot);
        }
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
        let output = &mut self.by_slot[slot as usize];
        output.unsent.drop_first(count, &mut self.buffers);
        output.sent_bytes += count as u64;
        let begun = output.handed_at.iter().take_while(|at| **at < output.sent_bytes).count();
        output.handed_at.drain(..begun);
        if output.handed_at.is_empty() && output.handed_at.capacity() > HANDED_KEPT {
            // A pipeline had taken many.
            output.handed_at = VecDeque::new();
        }
        while let Some((at, due)) = output.prompt.front().copied()
            && at < output.sent_bytes
        {
            output.prompt.pop_front();
            self.left.push(due);
        }
        if output.prompt.is_empty() && output.prompt.capacity() > HANDED_KEPT {
            output.prompt = VecDeque::new();
        }
        begun
    }

    /// A slot to write to: by turns one of those that had to wait and one of those of this turn, so
    /// that neither a large backlog nor fresh replies keep the others from leaving.
    pub fn next_dirty(&mut self, late_first: bool) -> Option<u32> {
        let slot = if late_first {
            self.late.pop_front().or_else(|| self.dirty.pop_front())
        } else {
            self.dirty.pop_front().or_else(|| self.late.pop_front())
        }?;
        self.by_slot[slot as usize].dirty = false;
        Some(slot)
    }

    /// What could not be written in this turn waits for the next.
    pub fn put_off(&mut self) {
        self.late.append(&mut self.dirty);
    }

    /// Whether slots wait to be written to.
    pub fn is_behind(&self) -> bool {
        !self.late.is_empty() || !self.dirty.is_empty()
    }

    fn encoder_at(&mut self, slot: u32) -> Encoder<'_> {
        let Output { muted, protocol, .. } = self.by_slot[slot as usize];
        if muted {
            return self.encoder_to_nowhere(protocol);
        }
        let output = &mut self.by_slot[slot as usize];
        if !output.dirty {
            output.dirty = true;
            self.dirty.push_back(slot);
        }
        Encoder::new(output.unsent.writer(&mut self.buffers), output.protocol)
    }

    fn encoder_to_nowhere(&mut self, protocol: Protocol) -> Encoder<'_> {
        self.thrown_bytes += self.nowhere.len() as u64;
        self.nowhere = BytesMut::new();
        Encoder::new(&mut self.nowhere, protocol)
    }
}

impl Default for Outputs {
    fn default() -> Outputs {
        Outputs::new()
    }
}

impl Output {
    /// Whether replies that hand over jobs have not begun to leave.
    pub fn has_jobs_in_hand(&self) -> bool {
        !self.handed_at.is_empty()
    }

    fn new() -> Output {
        Output {
            unsent: Unsent::default(),
            waiting: false,
            call: None,
            handed_at: VecDeque::new(),
            prompt: VecDeque::new(),
            sent_bytes: 0,
            waited: false,
            held: Held::default(),
            gated_for: 0,
            protocol: Protocol::Resp2,
            muted: false,
            dirty: false,
        }
    }

    fn end(&self) -> u64 {
        self.sent_bytes + self.unsent.len() as u64
    }
}

impl Outbox for Outputs {
    fn prompt(&mut self, client: ClientId, due: &[Millis]) {
        let Some(slot) = self.slot(client) else { return };
        let output = &mut self.by_slot[slot as usize];
        if output.muted {
            // Nothing of it leaves; it is as late as it will be.
            self.left.extend_from_slice(due);
            return;
        }
        let at = output.end();
        output.prompt.extend(due.iter().map(|due| (at, *due)));
    }

    fn reply(&mut self, client: ClientId, reply: Reply<'_>) {
        let Some(slot) = self.slot(client) else { return };
        let output = &mut self.by_slot[slot as usize];
        let muted = output.muted;
        if reply.hands_over() {
            let end = output.end();
            if output.handed_at.is_empty() {
                output.waited = output.waiting;
            }
            match output.muted {
                // No byte of its own: it leaves with the last of those before it, or at once.
                true if output.handed_at.is_empty() => self.unheard.push(slot),
                true => output.handed_at.push_back(end - 1),
                false => output.handed_at.push_back(end),
            }
        }
        let (end, call) = (Ending::of(&reply), output.call.take());
        if output.waiting {
            output.waiting = false;
            let told = if reply.tells_of_change() { Told::Change } else { Told::Nothing };
            // Whoever runs a command of its own has the frame made around the command.
            if !muted {
                output.held.push(output.end(), self.turn, told);
                self.gated_in_turn |= self.turn > 0;
            }
            self.answered.push(slot);
        } else if self.current == Some((client, slot)) {
            self.end = end;
        }
        if let Reply::Error(error) = &reply {
            self.errors.count(&error.to_string());
        }
        if !muted {
            self.by_slot[slot as usize].unsent.reserve(reply.large_bytes());
        }
        let Some(call) = call else {
            if !muted {
                render(&reply, &mut self.encoder_at(slot));
            }
            return;
        };
        let began_ns = self.reply_clock.map_or(0, |clock| clock());
        if !muted {
            render(&reply, &mut self.encoder_at(slot));
        }
        let reply_ns = self.reply_clock.map_or(0, |clock| clock().saturating_sub(began_ns));
        self.over.push(Over { client, slot, call, end, reply_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::reply::Delivered;
    use crate::engine::model::request::QueueName;
    use crate::ids::{Db, Token};
    use crate::pubsub::Kind;
    use crate::time::Millis;
    use bytes::Bytes;

    const CLIENT: ClientId = ClientId(9);
    const SLOT: u32 = 2;

    fn outputs() -> Outputs {
        let mut outputs = Outputs::new();
        outputs.open(CLIENT, SLOT);
        outputs
    }

    fn hand(outputs: &mut Outputs) {
        let queue = QueueName { db: Db(0), name: b"q" };
        let (due, lease_end) = (Millis(1), Millis(0));
        let job =
            Delivered { queue, id: b"i", body: b"b", token: None, attempt: 1, due, lease_end };
        outputs.reply(CLIENT, Reply::Popped(job));
    }

    /// `+OK` stands before the first job: a write that ends with it has handed nothing over.
    #[test]
    fn a_job_leaves_with_its_own_first_byte() {
        let mut outputs = outputs();
        outputs.encoder(CLIENT).ok();
        hand(&mut outputs);
        hand(&mut outputs);
        assert_eq!(outputs.sent(SLOT, 3), 0);
        assert_eq!(outputs.sent(SLOT, 2), 0);
        assert!(outputs.at(SLOT).has_jobs_in_hand());
        assert_eq!(outputs.sent(SLOT, 1), 1);
        let left = outputs.unsent_bytes(SLOT);
        // The second is as long as the first: its first byte is the one behind it.
        assert_eq!(outputs.sent(SLOT, left / 2), 0);
        assert!(outputs.at(SLOT).has_jobs_in_hand(), "the second has not begun to leave");
        assert_eq!(outputs.sent(SLOT, 1), 1);
        hand(&mut outputs);
        let left = outputs.unsent_bytes(SLOT);
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
            let job = Delivered { queue, id, body: &body, token, attempt: 1, due, lease_end };
            let mut outputs = outputs();
            // Something stands there already.
            (0..1_000).for_each(|_| outputs.encoder(CLIENT).ok());
            outputs.reply(CLIENT, Reply::Reserved(&vec![job; count]));
            let (len, held) = (outputs.unsent_bytes(SLOT), outputs.held_bytes(SLOT));
            assert!(held < len + len / 5 + 2 * 65_536, "{count} of {bytes}: {held} for {len}");
        }
    }

    #[test]
    fn a_job_is_as_late_as_its_first_byte_leaves() {
        let mut outputs = outputs();
        outputs.encoder(CLIENT).ok();
        for due in [7, 9] {
            outputs.prompt(CLIENT, &[Millis(due), Millis(due)]);
            hand(&mut outputs);
        }
        outputs.sent(SLOT, "+OK\r\n".len());
        assert!(outputs.left.is_empty());
        outputs.sent(SLOT, 1);
        assert_eq!(outputs.left, [Millis(7), Millis(7)]);
        // What leaves nothing behind on the wire is as late as it will be.
        outputs.set_muted(CLIENT, true);
        outputs.prompt(CLIENT, &[Millis(8)]);
        assert_eq!(outputs.left[2..], [Millis(8)]);
        let left = outputs.unsent_bytes(SLOT);
        outputs.sent(SLOT, left);
        assert_eq!(outputs.left[3..], [Millis(9), Millis(9)]);
    }

    #[test]
    fn a_muted_client_is_handed_its_job_at_once() {
        let mut outputs = outputs();
        outputs.set_muted(CLIENT, true);
        hand(&mut outputs);
        assert_eq!(outputs.unsent_bytes(SLOT), 0);
        assert!(!outputs.at(SLOT).has_jobs_in_hand());
        assert_eq!(outputs.unheard, [SLOT]);
    }

    #[test]
    fn an_answer_ends_the_waiting_and_is_marked_as_late() {
        let mut outputs = outputs();
        outputs.set_waiting(CLIENT);
        hand(&mut outputs);
        assert!(!outputs.is_waiting(SLOT) && outputs.at(SLOT).waited);
        assert_eq!(outputs.answered, [SLOT]);
        assert_eq!((outputs.next_dirty(false), outputs.next_dirty(false)), (Some(SLOT), None));
        // One that is gone gets nothing, and nothing breaks.
        outputs.close(CLIENT, SLOT);
        hand(&mut outputs);
        outputs.encoder(CLIENT).ok();
        assert_eq!(outputs.unsent_bytes(SLOT), 0);
    }

    /// A command of the client's own: `text` is its reply.
    fn reply(outputs: &mut Outputs, text: &str, asked: bool, wrote: bool) {
        let start = outputs.end(SLOT);
        outputs.encoder(CLIENT).simple(text);
        outputs.frame(SLOT, start, asked, wrote);
    }

    #[test]
    fn replies_wait_for_their_turn_and_keep_their_order() {
        let mut outputs = outputs();
        outputs.turn = 5;
        reply(&mut outputs, "PONG", false, false);
        assert!(!outputs.has_gated_in_turn());
        reply(&mut outputs, "added", true, true);
        reply(&mut outputs, "PONG", false, false);
        assert!(outputs.has_gated_in_turn());
        outputs.end_turn();
        reply(&mut outputs, "read", true, false);
        outputs.release(4);
        assert_eq!(outputs.sendable_bytes(SLOT), "+PONG\r\n".len());
        assert!(outputs.has_gated());
        outputs.sent(SLOT, "+PONG\r\n".len());
        assert_eq!(outputs.sendable_bytes(SLOT), 0);
        while outputs.next_dirty(false).is_some() {}
        outputs.release(5);
        assert_eq!(outputs.next_dirty(false), Some(SLOT), "it is looked at again");
        assert_eq!(outputs.sendable_bytes(SLOT), "+added\r\n+PONG\r\n".len());
        outputs.release(6);
        assert_eq!(outputs.sendable_bytes(SLOT), outputs.unsent_bytes(SLOT));
        assert!(!outputs.has_gated());
    }

    #[test]
    fn without_a_journal_nothing_waits() {
        let mut outputs = outputs();
        reply(&mut outputs, "added", true, true);
        assert_eq!(outputs.sendable_bytes(SLOT), outputs.unsent_bytes(SLOT));
        assert!(!outputs.has_gated_in_turn());
    }

    #[test]
    fn what_a_failed_journal_lost_is_told_and_the_rest_leaves() {
        let mut outputs = outputs();
        outputs.turn = 1;
        reply(&mut outputs, "safe", true, true);
        outputs.end_turn();
        outputs.release(1);
        reply(&mut outputs, "lost", true, true);
        reply(&mut outputs, "read", true, false);
        reply(&mut outputs, "PONG", false, false);
        // A waiter's job is lost, too, and is not in hand any more.
        outputs.set_waiting(CLIENT);
        hand(&mut outputs);
        outputs.end_turn();
        assert_eq!(outputs.sendable_bytes(SLOT), "+safe\r\n".len());
        assert_eq!(outputs.fail("MISCONF broken"), [CLIENT]);
        let text = String::from_utf8(outputs.at(SLOT).unsent.to_vec()).unwrap();
        let lost = "-MISCONF broken\r\n";
        assert_eq!(text, format!("+safe\r\n{lost}+read\r\n+PONG\r\n{lost}"));
        assert_eq!(outputs.sendable_bytes(SLOT), text.len());
        assert!(!outputs.at(SLOT).has_jobs_in_hand() && !outputs.has_gated());
    }

    /// What somebody else is told, with the turn it rests on.
    fn message(outputs: &mut Outputs, text: &str, turn: TurnNo) -> Option<u32> {
        let subject = Subject::Topic(Kind::Channel, b"c"[..].into());
        bring(outputs, text, turn, subject)
    }

    fn bring(outputs: &mut Outputs, text: &str, turn: TurnNo, subject: Subject) -> Option<u32> {
        let letter = Letter {
            to: [CLIENT].into(),
            next: 1,
            heads: *b"*>",
            body: format!("{text}\r\n").into_bytes().into(),
            tail: Bytes::new(),
            subject,
            turn,
            departures: 0,
        };
        outputs.bring(CLIENT, &letter)
    }

    #[test]
    fn a_message_leaves_behind_the_facts_that_it_rests_on() {
        let mut outputs = outputs();
        outputs.turn = 3;
        assert_eq!(message(&mut outputs, "free", 0), Some(SLOT));
        assert!(!outputs.has_gated_in_turn());
        assert_eq!(message(&mut outputs, "gated", 3), Some(SLOT));
        assert!(outputs.has_gated_in_turn(), "its facts are urgent");
        outputs.end_turn();
        message(&mut outputs, "behind", 0);
        outputs.release(2);
        assert_eq!(outputs.sendable_bytes(SLOT), "*free\r\n".len());
        outputs.release(3);
        assert_eq!(outputs.sendable_bytes(SLOT), outputs.unsent_bytes(SLOT));
        outputs.sent(SLOT, outputs.unsent_bytes(SLOT));
        // Of what a failed journal lost nobody is told.
        message(&mut outputs, "lost", 4);
        message(&mut outputs, "safe", 3);
        assert_eq!(outputs.fail("MISCONF broken"), []);
        assert_eq!(&outputs.at(SLOT).unsent.to_vec()[..], b"*safe\r\n");
    }

    #[test]
    fn a_muted_client_gets_messages_and_sees_no_commands() {
        let mut outputs = outputs();
        outputs.set_muted(CLIENT, true);
        assert_eq!(message(&mut outputs, "x", 0), Some(SLOT));
        assert_eq!(bring(&mut outputs, "PING", 0, Subject::Command), None);
        outputs.set_protocol(CLIENT, Protocol::Resp3);
        assert_eq!(message(&mut outputs, "y", 0), Some(SLOT));
        assert_eq!(bring(&mut outputs, "PING", 0, Subject::Command), None);
        assert_eq!(outputs.at(SLOT).unsent.to_vec(), b"*x\r\n>y\r\n");
        outputs.close(CLIENT, SLOT);
        assert_eq!(message(&mut outputs, "x", 0), None);
    }

    #[test]
    fn a_backlog_and_fresh_replies_leave_by_turns() {
        let mut outputs = Outputs::new();
        for slot in 0..5 {
            outputs.open(ClientId(slot), slot as u32);
            outputs.mark_dirty(slot as u32);
            if slot == 2 {
                outputs.put_off();
            }
        }
        outputs.mark_late(3);
        let left: Vec<u32> = (0..6).map_while(|i| outputs.next_dirty(i % 2 == 0)).collect();
        assert_eq!(left, [0, 3, 1, 4, 2]);
        assert!(!outputs.is_behind());
    }
}
