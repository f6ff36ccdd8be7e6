//! Numbers that name things, each its own type so that none is taken for another.

use std::fmt;

/// The number of Redis databases; `SELECT` takes 0 to 15.
pub const DATABASES: u8 = 16;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A connection, from 1, never reused while the process lives.
    ClientId(u64)
}
number! {
    /// A queue's number inside a partition. Facts name a queue by it, so that a rename is one fact.
    QueueNo(u32)
}
number! {
    /// An interned policy inside a partition (see `engine::policy`).
    PolicyNo(u32)
}
number! {
    /// A schedule's number inside its queue: those that were set first have the lower ones.
    ScheduleNo(u64)
}
number! {
    /// A database, 0 to 15.
    Db(u8)
}
number! {
    /// A fencing token: at most 63 bits, greater with every delivery.
    Token(u64)
}
number! {
    /// A batch of the journal: from 1, without gaps. 0 means none.
    Index(u64)
}

impl Index {
    /// The one that follows.
    pub fn next(self) -> Index {
        Index(self.0 + 1)
    }
}
