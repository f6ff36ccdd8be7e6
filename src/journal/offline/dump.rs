//! The journal as text: one JSON object a line for each fact of the log, other record of it, or image of a base.
//! `docs/journal.md` has the table of fields.

mod fields;
mod scheduling;
mod value;

use crate::engine::model::fact::{Fact, FactReader, Malformed};
use crate::engine::record::Image;
use crate::ids::{Db, Index, QueueNo, ScheduleNo};
use crate::journal::log::reader::FoundRecord;
use crate::journal::record::RecordKind;
use crate::journal::record::entry::SegmentEntry;
use crate::journal::record::raft_state::{LogState, Vote};
use fields::DumpFields;
pub use fields::job_of;
use std::collections::HashMap;
use std::io::{self, Write};
use value::FieldValue;
pub use value::written;

/// Why a line could not be written.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The output takes no more.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The data to write is not a fact or an image.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// The queue of each number, and of each number of its schedules.
#[derive(Clone, Debug, Default)]
pub struct DumpNames(HashMap<QueueNo, Named>);

#[derive(Clone, Debug)]
struct Named {
    db: Db,
    name: Box<[u8]>,
    schedules: HashMap<ScheduleNo, Box<[u8]>>,
}

impl DumpNames {
    /// The queue's database and name, if they are known.
    pub fn get(&self, queue: QueueNo) -> Option<(Db, &[u8])> {
        self.0.get(&queue).map(|named| (named.db, &*named.name))
    }

    /// The schedule's name, if it is known.
    pub fn schedule(&self, queue: QueueNo, schedule: ScheduleNo) -> Option<&[u8]> {
        self.0.get(&queue)?.schedules.get(&schedule).map(|name| &**name)
    }

    /// Learns the names of queues in the images of a base.
    pub fn learn_images(&mut self, images: &[u8]) -> Result<(), Malformed> {
        let reader = &mut FactReader::new(images);
        while !reader.is_done() {
            self.learn_image(&Image::read(reader)?);
        }
        Ok(())
    }

    /// Takes over what others know.
    pub fn take_over(&mut self, other: DumpNames) {
        self.0.extend(other.0);
    }

    /// Learns from the facts of a batch, and forgets what they end.
    pub fn learn_facts(&mut self, facts: &[u8]) -> Result<(), Malformed> {
        let reader = &mut FactReader::new(facts);
        while !reader.is_done() {
            let fact = Fact::decode(reader)?;
            self.learn(&fact);
            self.forget(&fact);
        }
        Ok(())
    }

    pub fn learn(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::QueueBound { queue, db, name } => self.bind(queue, db, name),
            Fact::Scheduled { queue, schedule, name, .. } => {
                self.learn_schedule(queue, schedule, name);
            }
            _ => {}
        }
    }

    pub fn forget(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Renamed { queue, name, over } => {
                over.map(|over| self.0.remove(&over));
                if let Some(known) = self.0.get_mut(&queue) {
                    known.name = name.into();
                }
            }
            Fact::Unscheduled { queue, schedule } => {
                self.0.get_mut(&queue).map(|known| known.schedules.remove(&schedule));
            }
            Fact::QueueRemoved { queue } | Fact::QueueForgotten { queue } => {
                self.0.remove(&queue);
            }
            Fact::Flushed { db } => self.0.retain(|_, of| db.is_some_and(|db| db != of.db)),
            _ => {}
        }
    }

    fn learn_image(&mut self, image: &Image<'_>) {
        match image {
            Image::Queue(queue) => self.bind(queue.number, queue.db, queue.name),
            Image::Schedule { queue, schedule } => {
                self.learn_schedule(*queue, schedule.number, &schedule.name);
            }
            _ => {}
        }
    }

    fn bind(&mut self, queue: QueueNo, db: Db, name: &[u8]) {
        self.0.insert(queue, Named { db, name: name.into(), schedules: HashMap::new() });
    }

    fn learn_schedule(&mut self, queue: QueueNo, schedule: ScheduleNo, name: &[u8]) {
        if let Some(known) = self.0.get_mut(&queue) {
            known.schedules.insert(schedule, name.into());
        }
    }
}

/// Writes lines. Keeps nothing in memory but the names of queues.
#[derive(Debug)]
pub struct Dump<W> {
    out: W,
    names: DumpNames,
}

impl<W: Write> Dump<W> {
    /// Writes to `out`, which should be buffered; `names` are known from what comes before.
    pub fn new(out: W, names: DumpNames) -> Dump<W> {
        Dump { out, names }
    }

    /// Writes a record: the facts of a batch, or the content of another record.
    pub fn record(&mut self, found: &FoundRecord<'_>) -> Result<(), DumpError> {
        match found.entry.kind {
            // In version 1 its number is the index.
            RecordKind::Facts => {
                self.facts(&found.entry, Some(found.lsn).filter(|_| found.version > 1))
            }
            _ => self.aside(found),
        }
    }

    /// Writes the facts of a batch.
    pub fn entry(&mut self, entry: &SegmentEntry<'_>) -> Result<(), DumpError> {
        self.facts(entry, None)
    }

    fn facts(&mut self, entry: &SegmentEntry<'_>, lsn: Option<u64>) -> Result<(), DumpError> {
        let reader = &mut FactReader::new(entry.body);
        let (mut sequence, mut now) = (entry.first, entry.now);
        while !reader.is_done() {
            let fact = Fact::decode(reader)?;
            self.names.learn(&fact);
            if let Fact::At { now: at } = fact {
                now = at;
            }
            let mut line = DumpFields::new(&self.names);
            if let Some(lsn) = lsn {
                line.put("lsn", lsn).put("epoch", entry.epoch);
            }
            line.put("index", entry.index.0).put("sequence", sequence);
            line.put("at", FieldValue::Instant(now)).fact(&fact);
            line.write(&mut self.out)?;
            self.names.forget(&fact);
            sequence += 1;
        }
        Ok(())
    }

    /// A record without facts.
    fn aside(&mut self, found: &FoundRecord<'_>) -> Result<(), DumpError> {
        let SegmentEntry { kind, index, epoch, node, now, body, .. } = found.entry;
        let mut line = DumpFields::new(&self.names);
        line.put("lsn", found.lsn).put("epoch", epoch);
        line.put("index", index.0).put("at", FieldValue::Instant(now));
        line.text("record", kind.word()).put("committed", found.committed.0);
        let unread = Malformed { at: 0 };
        match kind {
            RecordKind::State => {
                let state = LogState::decode(body).ok_or(unread)?;
                line.vote(state.vote).put("first", state.before.index.next().0);
                line.text("cluster", format!("{:032x}", state.identity.cluster));
                line.put("node", FieldValue::node(state.identity.node));
                line.put("called", FieldValue::Owned(state.identity.name));
                let members = state.members.iter().map(|members| members.index.0);
                line.put("members", FieldValue::Counts(members.collect()));
            }
            RecordKind::Vote => {
                line.vote(Some(Vote::decode(body).ok_or(unread)?));
            }
            RecordKind::Members => {
                line.put("leader", FieldValue::node(node)).put("told", body);
            }
            RecordKind::Blank => {
                line.put("leader", FieldValue::node(node));
            }
            RecordKind::Cut | RecordKind::Facts | RecordKind::Images => {}
        }
        Ok(line.write(&mut self.out)?)
    }

    pub fn images(&mut self, base: Index, images: &[u8]) -> Result<(), DumpError> {
        let reader = &mut FactReader::new(images);
        while !reader.is_done() {
            let image = Image::read(reader)?;
            self.names.learn_image(&image);
            let mut line = DumpFields::new(&self.names);
            line.put("base", base.0).image(&image);
            line.write(&mut self.out)?;
        }
        Ok(())
    }

    /// The names of queues as they are after the written records.
    pub fn names(&mut self) -> &mut DumpNames {
        &mut self.names
    }

    pub fn into_output(self) -> W {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Facts;
    use crate::engine::{Engine, Settings};
    use crate::time::{Micros, Millis};

    fn lines(write: impl FnOnce(&mut Dump<Vec<u8>>)) -> Vec<String> {
        let mut dump = Dump::new(Vec::new(), DumpNames::default());
        write(&mut dump);
        let text = String::from_utf8(dump.into_output()).expect("JSON is text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_fact_has_its_own_instant_and_who_leads_is_told() {
        let (stall_from, stall_to) = (Millis(1_000), Millis(3_000));
        let mut facts = Facts::default();
        let bound = Fact::QueueBound { queue: QueueNo(0), db: Db(0), name: b"q" };
        facts.push(&Fact::Led { term: 7, node: 9, stall_from, stall_to, level: 2 });
        let mut later = Facts::default();
        later.push(&bound);
        later.push(&Fact::StallOver);
        facts.append(Micros(3_500_001), &later);
        let entry = SegmentEntry {
            kind: RecordKind::Facts,
            index: Index(5),
            epoch: 7,
            node: 9,
            first: 40,
            now: Micros(1_250_000),
            count: facts.count as u32,
            body: &facts.bytes,
        };
        let told = lines(|dump| dump.entry(&entry).expect("own facts"));
        assert_eq!(
            told,
            [
                r#"{"index":5,"sequence":40,"at":"1970-01-01T00:00:01.250000Z","fact":"led","term":7,"node":"0000000000000009","level":2,"stall_from":"1970-01-01T00:00:01.000Z","stall_to":"1970-01-01T00:00:03.000Z"}"#,
                r#"{"index":5,"sequence":41,"at":"1970-01-01T00:00:03.500001Z","fact":"at"}"#,
                r#"{"index":5,"sequence":42,"at":"1970-01-01T00:00:03.500001Z","fact":"queue_bound","queue":0,"name":"q","db":0}"#,
                r#"{"index":5,"sequence":43,"at":"1970-01-01T00:00:03.500001Z","fact":"stall_over"}"#,
            ]
        );
        let mut engine = Engine::new(Settings::default());
        engine.apply_encoded(entry.now, entry.body, 4).expect("own facts");
        engine.begin_base();
        while !engine.base_slice(9, usize::MAX) {}
        let images = std::mem::take(engine.base_output());
        let told = lines(|dump| dump.images(Index(5), &images).expect("own images"));
        assert_eq!(
            told[1],
            r#"{"base":5,"image":"leading","term":7,"node":"0000000000000009","level":2,"stall_from":null,"stall_to":null}"#
        );
    }
}
