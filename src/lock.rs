//! The lock of a mutex, and what becomes of it if a thread panics that holds it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// After such a panic too: what that thread had changed by then stands. In release builds a panic ends the process, and a
/// holder only moves content in or out, so nothing is seen half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
