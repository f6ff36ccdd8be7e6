//! `delayd spread`: a journal divided into those of several partitions. See [`folders`] for what a crash leaves.

use super::args::Spread;
use super::check::say;
use super::{Exit, confirmed, ended, jobs_text, place};
use crate::config::folders;
use crate::journal::offline::restore::{HeldFolder, OfNode, begin, read_backup, read_node};
use crate::journal::recovery::Progress as Loaded;
use crate::journal::{Disk, JournalError};
use crate::tools::terminal::Progress;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How many queues there are, and their digest.
type Counted = (u64, u64);

pub fn run(asked: &Spread) -> Exit {
    ended("spread", spread(asked))
}

fn spread(asked: &Spread) -> Result<Exit, JournalError> {
    let Spread { dir, count, yes } = asked;
    let name = dir.display().to_string();
    let failed = JournalError::io(&name, "divide the journal in");
    let wrong = |text: String| {
        Err(JournalError::io(&name, "divide")(io::Error::new(io::ErrorKind::InvalidInput, text)))
    };
    let found = folders::count_in(dir).map_err(JournalError::io(&name, "read"))?;
    if let Some(found) = found {
        if found == *count && dir.join(folders::UNFINISHED).is_dir() {
            folders::complete(dir, *count, place::FOLDER).map_err(failed)?;
            say("an interrupted spread is complete now\n");
            return Ok(Exit::Good);
        }
        return wrong(format!("it has {found} partitions already, which cannot be changed"));
    }
    let journal = dir.join(place::FOLDER);
    if !journal.is_dir() {
        return wrong(format!("it has no {}; DIR is the option dir of the server", place::FOLDER));
    }
    folders::check_free(dir, *count).map_err(JournalError::io(&name, "divide"))?;
    let disk = Arc::new(Disk::open(&journal)?);
    let lock = disk.lock()?;
    let OfNode { mut held, identity, .. } = read_node(&disk)?;
    if identity.node != 0 {
        return wrong(
            "it has the journal of a node of a cluster: delayd cluster dissolve DIR INTO makes a folder for a standalone \
             server of it, which can be divided"
                .to_owned(),
        );
    }
    if let Some((db, queues)) = (1..).zip(&held.engine.name_counts()[1..]).find(|(_, n)| **n > 0) {
        return wrong(format!(
            "there are {queues} queues in database {db}, and with several partitions only database 0 is served: move \
             or remove them first"
        ));
    }
    let whole = content(&held);
    let jobs = jobs_text(held.engine.job_counts());
    say(&format!("{jobs}, {} queues, into {count} partitions\n", whole.0));
    if !yes && !confirmed("divide the journal?") {
        say("nothing was changed\n");
        return Ok(Exit::Failed);
    }
    let written = write(dir, &mut held, *count);
    drop(held);
    let parts = written.and_then(|()| read_back(dir, *count)).inspect_err(|_| {
        // What cannot be removed now is removed by the next attempt.
        let _ = fs::remove_dir_all(dir.join(folders::UNFINISHED));
    })?;
    if parts != whole {
        return wrong("what was read back is not what was written: nothing was changed".to_owned());
    }
    folders::write_count(dir, *count).map_err(JournalError::io(&name, "write into"))?;
    // From here on the partitions are what there is.
    drop(lock);
    let kept = folders::complete(dir, *count, place::FOLDER).map_err(failed)?;
    let kept = kept.as_deref().unwrap_or(Path::new(folders::DIVIDED)).display();
    say(&format!(
        "start it with cluster-partitions {count}; the journal of before is kept as {kept}\n"
    ));
    Ok(Exit::Good)
}

/// Makes the journals of all, where nothing looks for them yet.
fn write(dir: &Path, held: &mut HeldFolder, count: u16) -> Result<(), JournalError> {
    let unfinished = dir.join(folders::UNFINISHED);
    let name = unfinished.display().to_string();
    let failed = || JournalError::io(&name, "write to");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(failed())?;
    }
    fs::create_dir(&unfinished).map_err(failed())?;
    let mut progress = Progress::new();
    for partition in 0..count {
        progress.tell(partition.into(), count.into());
        let folder = unfinished.join(folders::name_of(partition));
        fs::create_dir(&folder).map_err(failed())?;
        let disk = Arc::new(Disk::open(&folder.join(place::FOLDER))?);
        let _lock = disk.lock()?;
        begin(&disk, held, None, Some((partition, count)))?;
    }
    progress.clear();
    fs::File::open(&unfinished).and_then(|folder| folder.sync_all()).map_err(failed())?;
    fs::File::open(dir).and_then(|folder| folder.sync_all()).map_err(failed())
}

/// What the bases have that were written, all together.
fn read_back(dir: &Path, count: u16) -> Result<Counted, JournalError> {
    let mut sum = Counted::default();
    for partition in 0..count {
        let folder =
            dir.join(folders::UNFINISHED).join(folders::name_of(partition)).join(place::FOLDER);
        let disk = Disk::open_read_only(&folder)?;
        let held = read_backup(&disk, &folder.display().to_string(), &Loaded::default())?;
        let (queues, digest) = content(&held);
        sum = (sum.0 + queues, sum.1.wrapping_add(digest));
    }
    Ok(sum)
}

fn content(held: &HeldFolder) -> Counted {
    (held.engine.queue_counts().iter().sum(), held.engine.queues_digest())
}
