//! `delayd restore` and `delayd cluster dissolve`: a new journal that begins with what another folder holds.

use super::args::{Dissolve, Restore};
use super::backup::file_of_server;
use super::check::say;
use super::cluster::{NewClusterIds, founder};
use super::{Exit, contents_text, ended, place};
use crate::cluster::members::Members;
use crate::engine::model::request::JobState;
use crate::journal::offline::dump::written;
use crate::journal::offline::new_cluster::{Founder, Refounded};
use crate::journal::offline::restore::{HeldFolder, OfNode, begin, read_backup, read_node};
use crate::journal::recovery::{Progress as Loaded, Replay};
use crate::journal::{Disk, JournalError, Storage, base};
use crate::time::Micros;
use crate::tools::terminal::Progress;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// Where a journal is written until all of it is there.
const UNFINISHED: &str = "journal.unfinished";
/// From one look how much has been read to the next.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// `delayd restore`
pub fn run(asked: &Restore) -> Exit {
    ended("restore", restore(asked).map(|()| Exit::Good))
}

/// `delayd cluster dissolve`
pub fn dissolve(asked: &Dissolve) -> Exit {
    ended("cluster", way_back(asked).map(|()| Exit::Good))
}

fn restore(asked: &Restore) -> Result<(), JournalError> {
    let (dir, name) = (&asked.dir, asked.dir.display().to_string());
    place::check_free(&asked.into)?;
    let disk = Disk::open_read_only(dir)?;
    let names = disk.list().map_err(JournalError::io(&name, "read"))?;
    let wrong = |text: String| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, text);
        Err(JournalError::io(&name, "restore")(source))
    };
    // Its newest base would pass for a backup, and what was done since for lost.
    if let Some(of_server) = file_of_server(&names) {
        return wrong(format!(
            "it is a server's folder, because it has {of_server}: restore from a folder that delayd backup has written"
        ));
    }
    let bases: Vec<&String> = names.iter().filter(|name| base::index_of(name).is_some()).collect();
    if let [one, other, ..] = bases[..] {
        return wrong(format!(
            "{one} and {other} are two backups: remove one of them, or choose another folder"
        ));
    }
    let mut held = read(&disk, &name)?;
    let Replay { index, now, .. } = held.at;
    let jobs = held.engine.job_counts();
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    held.void_tokens(Micros(u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)));
    let (begun, founder) = match &asked.own {
        Some(own) => {
            let begun = NewClusterIds::draw()?;
            let founder = founder(own, !asked.has_others, &begun);
            (Some(begun), Some(founder))
        }
        None => (None, None),
    };
    let (queues, schedules) = held.queues_and_schedules();
    write(&asked.into, held, founder)?;
    say(&format!("{}\n", asked.into.join(place::FOLDER).display()));
    say(&format!(
        "the state as of batch {index}, {}: everything done since is lost\n",
        written(now)
    ));
    say(&contents_text(jobs, queues, schedules));
    let leased = jobs[JobState::Leased as usize];
    if leased > 0 {
        say(&format!(
            "{leased} jobs were leased and are ready again; tokens from before are not accepted\n"
        ));
    }
    if let (Some(own), Some(begun)) = (&asked.own, begun) {
        let (cluster, id) = (begun.cluster, begun.id());
        say(&format!("{} is the only member of cluster {cluster}, with the id {id}\n", own.name));
    }
    Ok(())
}

/// With a bar on a terminal.
fn read(disk: &Disk, name: &str) -> Result<HeldFolder, JournalError> {
    let (loaded, mut progress) = (Loaded::default(), Progress::new());
    let held = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_backup(disk, name, &loaded));
        while !reading.is_finished() {
            std::thread::sleep(LOOKS_EVERY);
            let number = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
            progress.tell(number(&loaded.loaded_bytes), number(&loaded.total_bytes));
        }
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    progress.clear();
    held
}

fn way_back(asked: &Dissolve) -> Result<(), JournalError> {
    place::check_free(&asked.into)?;
    let folder = place::find(&asked.dir)?;
    let wrong = |text: String| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, text);
        Err(JournalError::io(&folder.display().to_string(), "dissolve the cluster of")(source))
    };
    let disk = Arc::new(Disk::open(&folder)?);
    let _lock = disk.lock()?;
    let OfNode { held, identity, members, uncommitted } = read_node(&disk)?;
    if identity.node == 0 {
        return wrong("it is already the journal of a standalone server".to_owned());
    }
    let members = members.and_then(|noted| Members::decode(&noted.body).ok());
    let is_last = members.is_some_and(|members| members.all() == [identity.node]);
    if !is_last && !asked.accepts {
        return wrong(
            "it has other members, which may have acknowledged changes that this node lacks: remove them with \
             DELAY.CLUSTER REMOVE while it leads, or use --i-accept-losses"
                .to_owned(),
        );
    }
    let Replay { index, now, .. } = held.at;
    let jobs = held.engine.job_counts();
    let (queues, schedules) = held.queues_and_schedules();
    write(&asked.into, held, None)?;
    say(&format!("{}\n", asked.into.join(place::FOLDER).display()));
    say(&format!("the state as of batch {index}, {}, for a standalone server\n", written(now)));
    say(&contents_text(jobs, queues, schedules));
    if uncommitted > 0 {
        say(&format!("{uncommitted} batches were not known to be committed, and are kept\n"));
    }
    say(&format!("never start a node with {} again\n", folder.display()));
    Ok(())
}

/// Writes the journal of the data directory `into`, which has none before this returns, whatever crash comes.
fn write(
    into: &Path,
    mut held: HeldFolder,
    founder: Option<Founder>,
) -> Result<Refounded, JournalError> {
    let name = into.display().to_string();
    if !into.is_dir() {
        fs::create_dir_all(into).map_err(JournalError::io(&name, "create the folder"))?;
    }
    // Two restores into one folder would remove what each other has begun.
    let folder = fs::File::open(into).map_err(JournalError::io(&name, "open"))?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        let error = match error {
            Errno::WOULDBLOCK => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another restore writes into it")
            }
            other => other.into(),
        };
        JournalError::io(&name, "restore into")(error)
    })?;
    // It may have written its journal since this one has looked.
    place::check_free(into)?;
    let unfinished: PathBuf = into.join(UNFINISHED);
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)
            .map_err(JournalError::io(&name, "remove an interrupted restore in"))?;
    }
    let disk = Arc::new(Disk::open(&unfinished)?);
    let lock = disk.lock()?;
    let begun = begin(&disk, &mut held, founder, None);
    drop(lock);
    let begun = begun.inspect_err(|_| {
        // A file that cannot be removed now is removed by the next attempt.
        let _ = fs::remove_dir_all(&unfinished);
    })?;
    let named = fs::rename(&unfinished, into.join(place::FOLDER));
    named
        .and_then(|()| folder.sync_all())
        .map_err(JournalError::io(&name, "put the journal into"))?;
    Ok(begun)
}
