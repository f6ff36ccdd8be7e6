//! Recovery: the newest base, then the log after it.

use crate::engine::{Engine, Loader, Settings};
use crate::ids::Index;
use crate::journal::base::incoming::remove_incoming;
use crate::journal::base::{self, BaseHead, BaseReader};
use crate::journal::error::JournalError;
use crate::journal::log::concurrent_reader::LogView;
use crate::journal::log::reader::{LogReader, Opened};
use crate::journal::log::{Log, LogOptions};
use crate::journal::record::RecordKind;
use crate::journal::record::entry::SegmentEntry;
use crate::journal::record::raft_state::{LogPosition, Members};
use crate::journal::storage::Storage;
use crate::limits::{RELOAD_BYTES, TIDYING_STEPS_PER_FACT};
use crate::time::Micros;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a recovery is; read by another thread.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes to be read: the base, and about as much of the log as was filled.
    pub total_bytes: AtomicU64,
    pub loaded_bytes: AtomicU64,
    /// To be given up.
    pub cancelled: AtomicBool,
}

/// The result of a recovery.
#[derive(Debug)]
pub struct Recovered<S: Storage> {
    /// The state as it was.
    pub engine: Engine,
    pub log: Log<S>,
    /// The newest applied batch, or that of the base if the log ends before. Later batches of the log are not known to
    /// be committed: [`Opened::uncommitted`].
    pub index: Index,
    /// The sequence of the next fact.
    pub first: u64,
    /// The last instant the journal knows of.
    pub now: Micros,
    /// The last batch that the base covers; 0 without one.
    pub base_index: Index,
    /// The sequence of the first fact after the base.
    pub base_first: u64,
    /// Bytes of the base; 0 without one.
    pub base_bytes: u64,
    /// The epoch of the last batch that it covers, and the members as of that batch; none for a standalone server.
    pub base_epoch: u64,
    pub base_members: Option<Members>,
    /// The epoch of the newest batch that is applied.
    pub epoch: u64,
    pub opened: Opened,
    pub facts: u64,
}

/// Applies batches in order: one that was applied is passed over, one that does not follow is void.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replay {
    pub index: Index,
    /// The sequence of the next fact.
    pub first: u64,
    /// The epoch; batches of an earlier one are void.
    pub epoch: u64,
    /// The latest time seen.
    pub now: Micros,
}

/// The result of offering a batch to a [`Replay`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Offered {
    Applied,
    /// It had been applied before: nothing changed.
    Old,
    /// It does not follow; nothing changed. Says why.
    Void(String),
}

impl Replay {
    pub fn after(head: &BaseHead) -> Replay {
        Replay { index: head.index, first: head.first, epoch: head.epoch, now: head.now }
    }

    /// Applies a batch if it is the next one.
    pub fn offer(&mut self, engine: &mut Engine, entry: &SegmentEntry<'_>) -> Offered {
        if entry.index <= self.index {
            return Offered::Old;
        }
        let SegmentEntry { kind, index, epoch, first, now, count, body, .. } = *entry;
        if index.0 != self.index.0 + 1 {
            return Offered::Void(format!("batch {index} does not follow {}", self.index));
        }
        if epoch < self.epoch || first != self.first {
            let (of, next) = (self.epoch, self.first);
            return Offered::Void(format!(
                "batch {index} has epoch {epoch} and begins with fact {first}; epoch {of} and fact {next} come next"
            ));
        }
        if kind != RecordKind::Facts {
            // A new epoch, or other members: nothing of it is the engine's.
            *self = Replay { index, first, epoch, now: self.now };
            return Offered::Applied;
        }
        let last = match engine.apply_encoded(now, body, count.into()) {
            Ok(last) => last,
            Err(error) => return Offered::Void(format!("batch {index}: {error}")),
        };
        engine.tidy_applied(TIDYING_STEPS_PER_FACT.saturating_mul(count));
        *self = Replay { index, first: first + u64::from(count), epoch, now: self.now.max(last) };
        Offered::Applied
    }
}

/// Before the first batch.
impl Default for Replay {
    fn default() -> Replay {
        Replay { index: Index(0), first: 1, epoch: 1, now: Micros(0) }
    }
}

/// Reads the newest base and the log after it. `progress` is updated meanwhile.
///
/// # Errors
/// The damage, by file and offset. A torn tail is not an error: it is cut, and [`Opened::cut`]
/// reports it.
pub fn recover<S: Storage>(
    storage: &Arc<S>,
    options: LogOptions,
    settings: Settings,
    progress: &Progress,
) -> Result<Recovered<S>, JournalError> {
    let base = newest_base(&**storage)?;
    let (mut engine, mut replay, base_bytes, members) = match &base {
        Some(name) => load(&**storage, name, settings, progress)?,
        None => (Engine::new(settings), Replay::default(), 0, None),
    };
    let (base_index, base_first, base_epoch) = (replay.index, replay.first, replay.epoch);
    let base_members = members.clone();
    // Without a base nothing is known of the epoch.
    let epoch = if base.is_some() { replay.epoch } else { 0 };
    let behind = LogPosition { index: base_index, epoch, first: base_first };
    let mut reader = LogReader::open_behind(Arc::clone(storage), options, behind, members)?;
    let mut facts = 0;
    loop {
        let (read, total) = reader.progress();
        progress.loaded_bytes.store(base_bytes + read, Ordering::Relaxed);
        progress.total_bytes.store(base_bytes + total, Ordering::Relaxed);
        check(progress)?;
        let Some(entry) = reader.next_batch()? else { break };
        facts += u64::from(entry.count);
        match replay.offer(&mut engine, &entry) {
            Offered::Applied | Offered::Old => {}
            Offered::Void(what) => return Err(reader.damaged(what)),
        }
    }
    let (log, opened) = reader.finish()?;
    remove_leftovers(&**storage, base.as_deref())?;
    engine.recovered();
    let Replay { index, first, now, epoch } = replay;
    Ok(Recovered {
        engine,
        log,
        index,
        first,
        now,
        base_index,
        base_first,
        base_bytes,
        base_epoch,
        base_members,
        epoch,
        opened,
        facts,
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadBase {
    /// The last batch that it covers.
    pub index: Index,
    /// The sequence of the next fact.
    pub first: u64,
    pub bytes: u64,
}

/// A new engine, from the newest base and the log after it up to batch `up_to`, while the log is being written; and how
/// far that base goes, with its bytes. If the base goes further, the engine is as of the base.
///
/// # Errors
/// As of [`recover`]; a batch that is not there any more, too.
pub fn recover_beside<S: Storage>(
    storage: &S,
    view: &LogView<S>,
    up_to: Index,
    settings: Settings,
    progress: &Progress,
) -> Result<(Engine, Replay, Option<ReadBase>), JournalError> {
    let (mut engine, mut replay, base) = load_newest(storage, settings, progress)?;
    while replay.index < up_to {
        check(progress)?;
        let read = view.read(replay.index.next(), up_to, RELOAD_BYTES)?;
        let bytes: u64 = read.iter().map(|batch| batch.body.len() as u64).sum();
        for batch in &read {
            if let Offered::Void(what) = replay.offer(&mut engine, &batch.entry()) {
                let file = "the log".to_owned();
                return Err(JournalError::Damaged { file, offset: 0, what });
            }
        }
        progress.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
        progress
            .total_bytes
            .fetch_max(progress.loaded_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    Ok((engine, replay, base))
}

/// The content of the newest base, or an empty engine without one. The writer of bases may replace the base between
/// listing and opening: then the new one is read.
///
/// # Errors
/// As of [`recover`].
pub fn load_newest<S: Storage>(
    storage: &S,
    settings: Settings,
    progress: &Progress,
) -> Result<(Engine, Replay, Option<ReadBase>), JournalError> {
    let mut newest = newest_base(storage)?;
    while let Some(name) = newest {
        match load(storage, &name, settings.clone(), progress) {
            Ok((engine, replay, bytes, _)) => {
                let Replay { index, first, .. } = replay;
                return Ok((engine, replay, Some(ReadBase { index, first, bytes })));
            }
            Err(error) => {
                newest = newest_base(storage)?;
                let is_replaced = newest.as_ref().is_some_and(|now| *now != name);
                if !error.is_not_found() || !is_replaced {
                    return Err(error);
                }
            }
        }
    }
    Ok((Engine::new(settings), Replay::default(), None))
}

pub fn newest_base(storage: &impl Storage) -> Result<Option<String>, JournalError> {
    let names = storage.list().map_err(JournalError::io("the journal", "list"))?;
    Ok(base::newest_of(names.into_iter()))
}

fn load<S: Storage>(
    storage: &S,
    name: &str,
    settings: Settings,
    progress: &Progress,
) -> Result<(Engine, Replay, u64, Option<Members>), JournalError> {
    let mut reader = BaseReader::open(storage, name)?;
    progress.total_bytes.store(reader.bytes(), Ordering::Relaxed);
    let mut loader = Loader::new(settings);
    loop {
        let offset = reader.offset();
        progress.loaded_bytes.store(offset, Ordering::Relaxed);
        check(progress)?;
        let Some(images) = reader.next_images()? else { break };
        if let Err(error) = loader.images(images) {
            return Err(reader.damaged(offset, &error.to_string()));
        }
    }
    let head = reader.head().expect("a base that was read to its end has told its head");
    let bytes = reader.bytes();
    let engine =
        Engine::loaded(loader).map_err(|error| reader.damaged(bytes, &error.to_string()))?;
    Ok((engine, Replay::after(&head), bytes, reader.members().cloned()))
}

fn check(progress: &Progress) -> Result<(), JournalError> {
    if progress.cancelled.load(Ordering::Relaxed) {
        return Err(JournalError::Cancelled);
    }
    Ok(())
}

/// Bases that were never finished, and those that a newer one replaced.
fn remove_leftovers(storage: &impl Storage, newest: Option<&str>) -> Result<(), JournalError> {
    let names = storage.list().map_err(JournalError::io("the journal", "list"))?;
    for name in names {
        let replaced = base::index_of(&name).is_some() && Some(name.as_str()) != newest;
        if replaced || base::is_unfinished(&name) {
            storage.remove(&name).map_err(JournalError::io(&name, "remove"))?;
        }
    }
    let index = newest.and_then(base::index_of).unwrap_or_default();
    remove_incoming(storage, index).map_err(JournalError::io("the journal", "remove from"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Facts;
    use crate::engine::model::fact::Fact;
    use crate::ids::{Db, QueueNo};

    #[test]
    fn a_replay_is_at_the_instant_of_the_last_fact() {
        let (mut engine, mut replay) = (Engine::new(Settings::default()), Replay::default());
        let mut facts = Facts::default();
        facts.push(&Fact::QueueBound { queue: QueueNo(0), db: Db(0), name: b"q" });
        let mut later = Facts::default();
        later.push(&Fact::QueueRemoved { queue: QueueNo(0) });
        facts.append(Micros(9_000), &later);
        let entry = SegmentEntry {
            kind: RecordKind::Facts,
            index: Index(1),
            epoch: 1,
            node: 0,
            first: 1,
            now: Micros(5_000),
            count: 3,
            body: &facts.bytes,
        };
        assert_eq!(replay.offer(&mut engine, &entry), Offered::Applied);
        let after = Replay { index: Index(1), first: 4, epoch: 1, now: Micros(9_000) };
        assert_eq!(replay, after);
        // The clock of a batch never goes back.
        let mut back = Facts::default();
        back.append(Micros(8_999), &Facts::default());
        let (index, now, body) = (Index(2), Micros(9_000), &back.bytes[..]);
        let entry = SegmentEntry { index, first: 4, now, count: 1, body, ..entry };
        assert!(matches!(replay.offer(&mut engine, &entry), Offered::Void(_)));
        assert_eq!(replay, after);
    }
}
