//! The journal as text: one JSON object a line for each fact of the log, other record of it, or image of a base.
//! `docs/journal.md` has the table of fields.

mod fields;
mod scheduling;
mod value;

use crate::engine::model::fact::{Fact, Malformed, Reader};
use crate::engine::record::Image;
use crate::ids::{Db, Index, QueueNo, ScheduleNo};
use crate::journal::entry::Entry;
use crate::journal::reader::Found;
use crate::journal::record::Kind;
use crate::journal::state::{State, Vote};
use fields::Fields;
pub use fields::{job_of, word_of};
use std::collections::HashMap;
use std::io::{self, Write};
use value::Value;
pub use value::written;

/// Why a line could not be written.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The output takes no more.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// What was to be written is no fact, or no image.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Which number stands for which queue, and for which of its schedules.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<QueueNo, Named>);

#[derive(Clone, Debug)]
struct Named {
    db: Db,
    name: Box<[u8]>,
    schedules: HashMap<ScheduleNo, Box<[u8]>>,
}

impl Names {
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
        let reader = &mut Reader::new(images);
        while !reader.is_done() {
            self.learn_image(&Image::read(reader)?);
        }
        Ok(())
    }

    /// Takes over what others know.
    pub fn take_over(&mut self, other: Names) {
        self.0.extend(other.0);
    }

    /// Learns from the facts of a batch, and forgets what they end.
    pub fn learn_facts(&mut self, facts: &[u8]) -> Result<(), Malformed> {
        let reader = &mut Reader::new(facts);
        while !reader.is_done() {
            let fact = Fact::decode(reader)?;
            self.learn(&fact);
            self.forget(&fact);
        }
        Ok(())
    }

    /// Learns from a fact.
    pub fn learn(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::QueueBound { queue, db, name } => self.bind(queue, db, name),
            Fact::Scheduled { queue, schedule, name, .. } => {
                self.learn_schedule(queue, schedule, name);
            }
            _ => {}
        }
    }

    /// Forgets what a fact ends.
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
    names: Names,
}

impl<W: Write> Dump<W> {
    /// Writes to `out`, which should be buffered; `names` are known from what comes before.
    pub fn new(out: W, names: Names) -> Dump<W> {
        Dump { out, names }
    }

    /// Writes a record: the facts of a batch, or what else it tells.
    pub fn record(&mut self, found: &Found<'_>) -> Result<(), DumpError> {
        match found.entry.kind {
            // In version 1 its number is the index.
            Kind::Facts => self.facts(&found.entry, Some(found.lsn).filter(|_| found.version > 1)),
            _ => self.aside(found),
        }
    }

    /// Writes the facts of a batch.
    pub fn entry(&mut self, entry: &Entry<'_>) -> Result<(), DumpError> {
        self.facts(entry, None)
    }

    fn facts(&mut self, entry: &Entry<'_>, lsn: Option<u64>) -> Result<(), DumpError> {
        let reader = &mut Reader::new(entry.body);
        let (mut sequence, mut now) = (entry.first, entry.now);
        while !reader.is_done() {
            let fact = Fact::decode(reader)?;
            self.names.learn(&fact);
            if let Fact::At { now: at } = fact {
                now = at;
            }
            let mut line = Fields::new(&self.names);
            if let Some(lsn) = lsn {
                line.put("lsn", Value::Count(lsn)).put("epoch", Value::Count(entry.epoch));
            }
            line.put("index", Value::Count(entry.index.0));
            line.put("sequence", Value::Count(sequence));
            line.put("at", Value::Instant(now));
            line.fact(&fact);
            line.write(&mut self.out)?;
            self.names.forget(&fact);
            sequence += 1;
        }
        Ok(())
    }

    /// A record without facts.
    fn aside(&mut self, found: &Found<'_>) -> Result<(), DumpError> {
        let Entry { kind, index, epoch, node, now, body, .. } = found.entry;
        let mut line = Fields::new(&self.names);
        line.put("lsn", Value::Count(found.lsn)).put("epoch", Value::Count(epoch));
        line.put("index", Value::Count(index.0)).put("at", Value::Instant(now));
        line.put("record", Value::Text(kind.word().into()));
        line.put("committed", Value::Count(found.committed.0));
        let unread = Malformed { at: 0 };
        match kind {
            Kind::State => {
                let state = State::decode(body).ok_or(unread)?;
                line.vote(state.vote).put("first", Value::Count(state.before.index.next().0));
                line.put("cluster", Value::Text(format!("{:032x}", state.identity.cluster).into()));
                line.put("node", Value::node(state.identity.node));
                line.put("called", Value::Owned(state.identity.name));
                let members = state.members.iter().map(|members| members.index.0);
                line.put("members", Value::Counts(members.collect()));
            }
            Kind::Vote => {
                line.vote(Some(Vote::decode(body).ok_or(unread)?));
            }
            Kind::Members => {
                line.put("leader", Value::node(node)).put("told", Value::Bytes(body));
            }
            Kind::Blank => {
                line.put("leader", Value::node(node));
            }
            Kind::Cut | Kind::Facts | Kind::Images => {}
        }
        Ok(line.write(&mut self.out)?)
    }

    /// Writes images of the base up to `base`.
    pub fn images(&mut self, base: Index, images: &[u8]) -> Result<(), DumpError> {
        let reader = &mut Reader::new(images);
        while !reader.is_done() {
            let image = Image::read(reader)?;
            self.names.learn_image(&image);
            let mut line = Fields::new(&self.names);
            line.put("base", Value::Count(base.0));
            line.image(&image);
            line.write(&mut self.out)?;
        }
        Ok(())
    }

    /// The names of queues as they are behind what was written.
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The output, with all that was written.
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
        let mut dump = Dump::new(Vec::new(), Names::default());
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
        let entry = Entry {
            kind: Kind::Facts,
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
