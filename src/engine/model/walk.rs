//! Where a walk goes on, as clients carry it about.
//!
//! A walk goes by name or by hash. DELAY.QUEUES and DELAY.SCHEDULE LIST go by name: AFTER is the last name of a page,
//! and every server honours it. SCAN and DELAY.SCAN go by the hash of a name or an id, and their place is a [`Cursor`].
//! It holds as long as the server hashes with the same key: over growth and shrinking, over restarts, since the
//! journal keeps the key, and over a change of the leader, since all nodes of a cluster have one key. A cursor of
//! another order is refused: going on with it would leave out some of what is there.

/// 0 begins a walk and ends it. In between:
///
/// ```text
/// bits 52 to 32   mark of the order, never 0
/// bits 31 to 0    place in the order: how many hashes come before
/// ```
///
/// 53 bits, because some clients read numbers as doubles.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cursor(pub u64);

impl Cursor {
    pub const BEGIN: Cursor = Cursor(0);
    pub const END: Cursor = Cursor(0);

    /// The place with this number in the order with this mark.
    pub(in crate::engine) fn new(mark: u32, place: u32) -> Cursor {
        debug_assert!(mark > 0 && mark >> Cursor::MARK_BITS == 0);
        Cursor(u64::from(mark) << 32 | u64::from(place))
    }

    /// Mark and place; that of the beginning is 0 and 0.
    pub(in crate::engine) fn parts(self) -> (u64, u32) {
        (self.0 >> 32, self.0 as u32)
    }

    pub(in crate::engine) const MARK_BITS: u32 = 21;
}
