//! Sets back the last instant that a journal knows of.
//!
//! A start begins at the latest instant in base and log, so a batch with an earlier one would have no effect. An empty
//! batch is appended, and a base is written that covers it and everything before it; its header has the lower instant,
//! and after a base only later records count. So no new kind of record is needed. A crash in between leaves the journal
//! as it was, with one more batch; once the base has its name, it is done.

use crate::engine::Settings;
use crate::journal::base::{self, BaseHead};
use crate::journal::error::JournalError;
use crate::journal::log::LogOptions;
use crate::journal::record::RecordKind;
use crate::journal::record::entry::SegmentEntry;
use crate::journal::recovery::{Progress, Recovered, recover};
use crate::journal::storage::Storage;
use crate::limits::SEGMENT_BYTES_MIN;
use crate::time::Micros;
use std::io;
use std::sync::Arc;

/// Makes `to` the journal's last instant if that is later, durably. Returns what it was. Opens the journal
/// as a start does: a torn tail is cut. Needs as much memory as the server, and room for a base.
///
/// # Errors
/// A journal that a start would refuse; or the disk fails or is full, and the journal is as it was.
pub fn lower<S: Storage>(storage: &Arc<S>, to: Micros) -> Result<Micros, JournalError> {
    let options = LogOptions { segment_bytes: SEGMENT_BYTES_MIN, ..LogOptions::default() };
    let recovered = recover(storage, options, Settings::default(), &Progress::default())?;
    let Recovered { mut engine, mut log, index, first, now: was, opened, .. } = recovered;
    if log.members().is_some() {
        // A batch of its own would not match the other members' logs.
        let text = "it belongs to a member of a cluster, and all members share one clock";
        let source = io::Error::new(io::ErrorKind::Unsupported, text);
        return Err(JournalError::io("the journal", "lower the clock of")(source));
    }
    if was <= to {
        return Ok(was);
    }
    let (index, epoch) = (index.next(), opened.last_epoch.max(1));
    let io = |action| JournalError::io("the journal", action);
    let (kind, node, now) = (RecordKind::Facts, 0, to);
    log.append(&[SegmentEntry { kind, index, epoch, node, first, now, count: 0, body: &[] }])
        .map_err(io("append to the log"))?;
    log.sync().map_err(io("sync the log"))?;
    engine.lower_clock(was, to);
    let head = BaseHead { index, first, now: to, epoch, shard: options.shard };
    base::write_all(storage, &mut engine, head, None, None).map_err(io("write a base"))?;
    Ok(was)
}
