//! Requests that take several turns: how far each has come.

use crate::engine::step::across::Across;
use crate::ids::QueueNo;
use crate::time::Millis;

/// A client's request that is half done; it has no other meanwhile.
#[derive(Debug)]
pub enum Unfinished {
    /// A QUEUES or a FIND.
    Across(Box<Across>),
    Keys(Names),
    Redrive(Redriven),
    /// A LIST of schedules that has found none yet: the name that it has looked at last.
    Schedules(Box<[u8]>),
}

/// How far a KEYS has come.
#[derive(Debug, Default)]
pub struct Names {
    pub place: u64,
    pub names: Vec<Box<[u8]>>,
    pub bytes: usize,
}

/// How far a REDRIVE has come.
#[derive(Clone, Copy, Debug)]
pub struct Redriven {
    pub queue: QueueNo,
    pub born: u64,
    /// Jobs that died later, by the sequence of their death, are left alone: those that were moved
    /// may well be dead again before the end.
    pub before: i64,
    /// What IN said when the command was received.
    pub due: Millis,
    pub moved: u64,
}
