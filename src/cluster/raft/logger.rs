//! Raft's log goes to the general log.
//!
//! It logs every vote and change of role at the level that others keep for users: here one level below.

use slog::{Drain, Level, Logger, OwnedKVList, Record, o};
use std::convert::Infallible;

pub(in crate::cluster) fn logger(id: u64) -> Logger {
    Logger::root(ToTracing, o!("node" => id))
}

struct ToTracing;

impl Drain for ToTracing {
    type Ok = ();
    type Err = Infallible;

    fn log(&self, record: &Record<'_>, _: &OwnedKVList) -> Result<(), Infallible> {
        const TARGET: &str = "delayd::raft";
        match record.level() {
            Level::Critical | Level::Error => {
                tracing::error!(target: TARGET, "{}", record.msg());
            }
            Level::Warning => tracing::warn!(target: TARGET, "{}", record.msg()),
            Level::Info => tracing::debug!(target: TARGET, "{}", record.msg()),
            Level::Debug | Level::Trace => tracing::trace!(target: TARGET, "{}", record.msg()),
        }
        Ok(())
    }
}
