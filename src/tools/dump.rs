//! `delayd dump`

use super::args::Dump as Asked;
use super::{Exit, place};
use crate::ids::Index;
use crate::journal::base::BaseReader;
use crate::journal::dump::{Dump, DumpError, Names};
use crate::journal::record::Kind;
use crate::journal::recovery::newest_base;
use crate::journal::{Disk, JournalError, LogOptions, LogReader, base};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::Arc;

/// Why a dump ended early.
enum Stop {
    /// Nobody reads on.
    Enough,
    Output(io::Error),
    Journal(JournalError),
}

/// Writes the facts, and the images if they are asked for.
pub fn run(asked: &Asked) -> Exit {
    match dump(asked) {
        Ok(exit) => exit,
        Err(Stop::Enough) => Exit::Good,
        Err(Stop::Output(error)) => {
            eprintln!("delayd: the output cannot be written: {error}");
            Exit::Unreadable
        }
        Err(Stop::Journal(error)) => {
            eprintln!("delayd: {error}");
            exit_of(&error)
        }
    }
}

fn dump(asked: &Asked) -> Result<Exit, Stop> {
    let disk = Arc::new(Disk::open_read_only(&place::find(&asked.dir)?)?);
    let mut out = BufWriter::with_capacity(1 << 18, io::stdout().lock());
    let base = newest_base(&*disk)?;
    let covered = base.as_deref().and_then(base::index_of).unwrap_or_default();
    let mut exit = Exit::Good;
    let mut known = Names::default();
    if let Some(name) = &base {
        let read = read_base(&disk, name, asked.base.then_some(&mut out), &mut known);
        // The log can be told without its base.
        if let Err(Stop::Journal(error)) = read {
            eprintln!("delayd: {error}; names of queues may be missing");
            exit = exit_of(&error);
        } else {
            read?;
        }
    }
    let from = asked.from.unwrap_or(covered.next());
    let written = log(&disk, &mut out, from, asked.to, (covered, known));
    // What stands before an error is worth having.
    out.flush().map_err(stopped)?;
    written.map_err(|stop| match stop {
        Stop::Journal(JournalError::Gap { .. } | JournalError::Damaged { .. })
            if from <= covered =>
        {
            let text = format!(
                "the base covers the batches up to {covered}, and the log does not have all from \
                 {from} on any more; without --from it begins with {}",
                covered.next()
            );
            let source = io::Error::new(ErrorKind::NotFound, text);
            Stop::Journal(JournalError::io("the log", "begin there")(source))
        }
        other => other,
    })?;
    Ok(exit)
}

/// Reads the base: to the output, or the names of queues alone.
fn read_base(
    disk: &Disk,
    name: &str,
    out: Option<&mut impl Write>,
    known: &mut Names,
) -> Result<(), Stop> {
    let mut reader = BaseReader::open(disk, name)?;
    let index = base::index_of(name).unwrap_or_default();
    let mut dump = out.map(|out| Dump::new(out, Names::default()));
    loop {
        let offset = reader.offset();
        let Some(images) = reader.next_images()? else { break };
        let read = match &mut dump {
            Some(dump) => dump.images(index, images),
            None => known.learn_images(images).map_err(DumpError::Malformed),
        };
        read.map_err(|error| match error {
            DumpError::Output(error) => stopped(error),
            DumpError::Malformed(error) => {
                Stop::Journal(reader.damaged(offset, &error.to_string()))
            }
        })?;
    }
    if let Some(mut dump) = dump {
        known.take_over(std::mem::take(dump.names()));
    }
    Ok(())
}

/// Writes the facts of the log; `base` is the last batch of the base, and its names of queues.
fn log(
    disk: &Arc<Disk>,
    out: &mut impl Write,
    from: Index,
    to: Option<Index>,
    base: (Index, Names),
) -> Result<(), Stop> {
    if from > base.0 {
        return follow(disk, out, (base.0, from, to), base, &mut false);
    }
    // From the beginning, for the names of queues, if that is still there.
    let mut wrote = false;
    match follow(disk, out, (Index(0), from, to), base.clone(), &mut wrote) {
        Err(Stop::Journal(_)) if !wrote => {
            follow(disk, out, (Index(from.0 - 1), from, to), base, &mut wrote)
        }
        other => other,
    }
}

/// Reads the log behind batch `after`, and writes what stands between `from` and `to`; `wrote` is set
/// when something was written.
fn follow(
    disk: &Arc<Disk>,
    out: &mut impl Write,
    (after, from, to): (Index, Index, Option<Index>),
    (covered, mut known): (Index, Names),
    wrote: &mut bool,
) -> Result<(), Stop> {
    let mut reader = LogReader::open(Arc::clone(disk), LogOptions::default(), after)?;
    let mut dump = Dump::new(out, Names::default());
    while let Some(found) = reader.next_record()? {
        let entry = found.entry;
        let is_facts = entry.kind == Kind::Facts;
        // What stands between two batches goes with the one behind it.
        let index = if entry.kind.is_batch() { entry.index } else { entry.index.next() };
        if let Some(to) = to.filter(|to| entry.index > *to) {
            // Before it is committed a cut may follow, and other batches up to there.
            if found.committed > to {
                return Ok(());
            }
            continue;
        }
        if index <= after {
            continue;
        }
        if index > covered {
            // Names as of the base are not those of before: numbers are given again.
            dump.names().take_over(std::mem::take(&mut known));
        }
        let read = match index < from {
            true if !is_facts => Ok(()),
            true => dump.names().learn_facts(entry.body).map_err(DumpError::Malformed),
            false => {
                *wrote = true;
                dump.record(&found)
            }
        };
        read.map_err(|error| match error {
            DumpError::Output(error) => stopped(error),
            DumpError::Malformed(error) => Stop::Journal(reader.damaged(error.to_string())),
        })?;
    }
    let user = disk.user();
    if let (Some(cut), None) = (reader.survey()?.cut, user) {
        eprintln!("delayd: {cut}");
    }
    Ok(())
}

fn exit_of(error: &JournalError) -> Exit {
    match error {
        JournalError::Damaged { .. } | JournalError::Gap { .. } => Exit::Damaged,
        _ => Exit::Unreadable,
    }
}

fn stopped(error: io::Error) -> Stop {
    match error.kind() {
        ErrorKind::BrokenPipe => Stop::Enough,
        _ => Stop::Output(error),
    }
}

impl From<JournalError> for Stop {
    fn from(error: JournalError) -> Stop {
        Stop::Journal(error)
    }
}
