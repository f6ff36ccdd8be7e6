//! How long the longest takes that must not be noticed. Cargo runs one test program after the other, and here one test
//! runs after the other, so that nothing of ours is in the way; what else the machine does is measured meanwhile.

mod herd;
#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test for as long as it runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
