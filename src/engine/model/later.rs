//! Values that former versions did not know.

use std::hash::{Hash, Hasher};

/// A value that may be absent, and then adds nothing to a digest: a node whose version does not know it computes the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Later<T>(pub Option<T>);

impl<T> Default for Later<T> {
    fn default() -> Later<T> {
        Later(None)
    }
}

impl<T: Hash> Hash for Later<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|value| value.hash(state));
    }
}
