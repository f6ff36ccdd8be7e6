//! The facts of a turn, encoded, and how far they are applied.

use crate::engine::model::fact::{Fact, FactReader, Malformed};
use crate::time::Micros;

/// The facts of a turn, encoded, in order.
#[derive(Default, Debug)]
pub struct Facts {
    pub bytes: Vec<u8>,
    pub count: u64,
}

impl Facts {
    /// Forgets all of them; keeps the memory up to 1 MiB.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 20);
        self.count = 0;
    }

    pub fn push(&mut self, fact: &Fact<'_>) {
        fact.encode(&mut self.bytes);
        self.count += 1;
    }

    /// Appends those of a later turn, which happened at `now`.
    pub fn append(&mut self, now: Micros, later: &Facts) {
        self.push(&Fact::At { now });
        self.bytes.extend_from_slice(&later.bytes);
        self.count += later.count;
    }

    /// Reads them back, in order. The error says at which byte reading stopped.
    pub fn iter(&self) -> impl Iterator<Item = Result<Fact<'_>, Malformed>> {
        let mut reader = FactReader::new(&self.bytes);
        std::iter::from_fn(move || (!reader.is_done()).then(|| Fact::decode(&mut reader)))
    }
}

/// A batch that is applied in slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Applying {
    now: Micros,
    at: usize,
    applied: u64,
}

impl Applying {
    /// Nothing of it is; its first fact happened at `now`.
    pub fn new(now: Micros) -> Applying {
        Applying { now, at: 0, applied: 0 }
    }

    /// The instant of the fact applied last.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// How many of its facts are applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The next fact of the batch with these bytes and this many facts, and where it ends; none when it is applied
    /// whole.
    pub(in crate::engine) fn next<'b>(
        &self,
        bytes: &'b [u8],
        count: u64,
    ) -> Result<Option<(Fact<'b>, usize)>, Malformed> {
        let mut reader = FactReader::from(bytes, self.at);
        if reader.is_done() {
            let whole = self.applied == count;
            return if whole { Ok(None) } else { Err(Malformed { at: self.at }) };
        }
        let fact = Fact::decode(&mut reader)?;
        match fact {
            Fact::At { now } if now < self.now => Err(Malformed { at: self.at }),
            _ => Ok(Some((fact, reader.at()))),
        }
    }

    /// That fact has been applied.
    pub(in crate::engine) fn pass(&mut self, fact: &Fact<'_>, end: usize) {
        if let Fact::At { now } = *fact {
            self.now = now;
        }
        (self.at, self.applied) = (end, self.applied + 1);
    }
}
