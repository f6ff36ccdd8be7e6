//! `delayd dump`

use super::args::Dump as Asked;
use super::{Exit, place};
use crate::ids::Index;
use crate::journal::base::BaseReader;
use crate::journal::offline::dump::{Dump, DumpError, DumpNames};
use crate::journal::record::RecordKind;
use crate::journal::recovery::newest_base;
use crate::journal::{Disk, JournalError, LogOptions, LogReader, base};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::Arc;

/// Why a dump ended early.
enum DumpEnd {
    /// The output's reader has closed it.
    Enough,
    Output(io::Error),
    Journal(JournalError),
}

/// Writes the facts, and the images if they are asked for.
pub fn run(asked: &Asked) -> Exit {
    match dump(asked) {
        Ok(exit) => exit,
        Err(DumpEnd::Enough) => Exit::Good,
        Err(DumpEnd::Output(error)) => {
            eprintln!("delayd: the output cannot be written: {error}");
            Exit::Unreadable
        }
        Err(DumpEnd::Journal(error)) => {
            eprintln!("delayd: {error}");
            exit_of(&error)
        }
    }
}

fn dump(asked: &Asked) -> Result<Exit, DumpEnd> {
    let disk = Arc::new(Disk::open_read_only(&place::find(&asked.dir)?)?);
    let mut out = BufWriter::with_capacity(1 << 18, io::stdout().lock());
    let base = newest_base(&*disk)?;
    let covered = base.as_deref().and_then(base::index_of).unwrap_or_default();
    let mut exit = Exit::Good;
    let mut known = DumpNames::default();
    if let Some(name) = &base {
        let read = read_base(&disk, name, asked.base.then_some(&mut out), &mut known);
        // The log can be printed without its base.
        if let Err(DumpEnd::Journal(error)) = read {
            eprintln!("delayd: {error}; names of queues may be missing");
            exit = exit_of(&error);
        } else {
            read?;
        }
    }
    let from = asked.from.unwrap_or(covered.next());
    let written = log(&disk, &mut out, from, asked.to, (covered, known));
    // Output before an error is still useful.
    out.flush().map_err(stopped)?;
    written.map_err(|stop| match stop {
        DumpEnd::Journal(JournalError::Gap { .. } | JournalError::Damaged { .. })
            if from <= covered =>
        {
            let text = format!(
                "the base covers the batches up to {covered}, and the log no longer has all from {from} on; without \
                 --from it begins with {}",
                covered.next()
            );
            let source = io::Error::new(ErrorKind::NotFound, text);
            DumpEnd::Journal(JournalError::io("the log", "begin there")(source))
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
    known: &mut DumpNames,
) -> Result<(), DumpEnd> {
    let mut reader = BaseReader::open(disk, name)?;
    let index = base::index_of(name).unwrap_or_default();
    let mut dump = out.map(|out| Dump::new(out, DumpNames::default()));
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
                DumpEnd::Journal(reader.damaged(offset, &error.to_string()))
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
    base: (Index, DumpNames),
) -> Result<(), DumpEnd> {
    if from > base.0 {
        return follow(disk, out, (base.0, from, to), base, &mut false);
    }
    // From the beginning, for the names of queues, if that is still there.
    let mut wrote = false;
    match follow(disk, out, (Index(0), from, to), base.clone(), &mut wrote) {
        Err(DumpEnd::Journal(_)) if !wrote => {
            follow(disk, out, (Index(from.0 - 1), from, to), base, &mut wrote)
        }
        other => other,
    }
}

/// Reads the log after batch `after`, and writes the records between `from` and `to`; `wrote` is set when something was
/// written.
fn follow(
    disk: &Arc<Disk>,
    out: &mut impl Write,
    (after, from, to): (Index, Index, Option<Index>),
    (covered, mut known): (Index, DumpNames),
    wrote: &mut bool,
) -> Result<(), DumpEnd> {
    let mut reader = LogReader::open(Arc::clone(disk), LogOptions::default(), after)?;
    let mut dump = Dump::new(out, DumpNames::default());
    while let Some(found) = reader.next_record()? {
        let entry = found.entry;
        let is_facts = entry.kind == RecordKind::Facts;
        // Records between two batches are written with the later one.
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
            DumpError::Malformed(error) => DumpEnd::Journal(reader.damaged(error.to_string())),
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

fn stopped(error: io::Error) -> DumpEnd {
    match error.kind() {
        ErrorKind::BrokenPipe => DumpEnd::Enough,
        _ => DumpEnd::Output(error),
    }
}

impl From<JournalError> for DumpEnd {
    fn from(error: JournalError) -> DumpEnd {
        DumpEnd::Journal(error)
    }
}
