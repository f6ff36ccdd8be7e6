//! The folders of a process with several partitions: `dir/00`, `dir/01` … with a journal each, and `dir/partitions`, a
//! line of text that says how many there are. It decides which queues each folder has, so it is written once, by rename,
//! when all folders are there.
//!
//! ```text
//! journal   partitions   asked for     then
//! -         -            1             made by the journal itself, unless there are folders
//! yes       -            1             as ever
//! yes       -            16            refused
//! -         16           16            opened; a folder that is missing is refused, on a node made anew
//! yes       16           16            `delayd spread` was cut off at its end, which is done now
//! any       16           another       refused
//! -         -            16            made, or all 16 were restored from backups; some of them are refused
//! ```
//!
//! `delayd spread` makes the folders in `dir/spread.unfinished`. Until it has written `dir/partitions` the journal of one
//! is what there is; from then on the folders are, wherever they stand.

use super::options::Name;
use super::{Config, file};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "partitions";

/// In a folder that was made when the partition's node was removed from its cluster: the members as of then.
const REMOVED: &str = "removed";

/// Where `delayd spread` makes the folders.
pub const UNFINISHED: &str = "spread.unfinished";

/// What becomes of the journal that was divided.
pub const DIVIDED: &str = "journal.one";

/// Whether the folders are those of as many partitions as the options say; makes them if there are none yet. Nothing is
/// looked at without a journal.
///
/// # Errors
/// They are others, see the module; a folder cannot be made or looked at.
pub fn prepare(config: &Config) -> io::Result<()> {
    let (dir, count) = (Path::new(config.text(Name::Dir)), config.partitions());
    // That `dir` is missing is for each journal to say.
    if !config.flag(Name::AppendOnly) || !dir.is_dir() {
        return Ok(());
    }
    let (found, journal) = (count_in(dir)?, config.text(Name::AppendDirName));
    let folders: Vec<PathBuf> = (0..count).map(|partition| dir.join(name_of(partition))).collect();
    match found {
        None if count == 1 => return check_one(dir, journal),
        Some(found) if found != count => {
            return Err(refused(format!(
                "the journal in {} has {found} partitions, but cluster-partitions is {count}: that cannot be changed",
                dir.display()
            )));
        }
        Some(_) => _ = complete(dir, count, journal)?,
        None if dir.join(journal).is_dir() => {
            return Err(refused(format!(
                "{dir} has the journal of one partition, and cluster-partitions is {count}: delayd spread --into {count} \
                 {dir} makes {count} of it",
                dir = dir.display()
            )));
        }
        None => check_restored(&folders, dir, journal)?,
    }
    for folder in folders {
        end_leaving(&folder)?;
        let is_alone = config.text(Name::ClusterNode).is_empty();
        if found.is_some() && is_alone && !is_there(&folder.join(journal))? {
            return Err(refused(format!("{} has no journal any more", folder.display())));
        }
        if !is_there(&folder)? {
            fs::create_dir(&folder).map_err(|error| of(&folder, &error))?;
        }
    }
    Ok(())
}

/// Notes that the folders of all partitions are there.
///
/// # Errors
/// The file cannot be written.
pub fn finish(config: &Config) -> io::Result<()> {
    let (dir, count) = (Path::new(config.text(Name::Dir)), config.partitions());
    if count == 1 || !config.flag(Name::AppendOnly) || count_in(dir)?.is_some() {
        return Ok(());
    }
    write_count(dir, count)
}

/// Notes, durably, that `dir` has so many partitions.
///
/// # Errors
/// The disk fails or is full.
pub fn write_count(dir: &Path, count: u16) -> io::Result<()> {
    let path = dir.join(FILE);
    let text = format!("delayd partitions {count}\n");
    file::replace(&path, text.as_bytes()).map_err(|error| of(&path, &error))?;
    File::open(dir)?.sync_all()
}

/// How many partitions `dir` is of; none if it says nothing, and then it is that of one.
///
/// # Errors
/// It says something else, or cannot be read.
pub fn count_in(dir: &Path) -> io::Result<Option<u16>> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(of(&path, &error)),
    };
    let count = text.strip_prefix("delayd partitions ").and_then(|count| count.trim().parse().ok());
    count.map(Some).ok_or_else(|| refused(format!("{} is not delayd's", path.display())))
}

/// The name of a partition's folder.
pub fn name_of(partition: u16) -> String {
    format!("{partition:02}")
}

/// Puts an empty folder in the place of a partition's whose node was removed from its cluster, which is kept: the name it
/// gets, `07.removed`. From then on the partition only waits for a cluster that has it already, see [`removed`]; `members`
/// are those that it has now, as `cluster-nodes` writes them.
///
/// # Errors
/// The disk fails or is full.
pub fn leave(folder: &Path, members: &str) -> io::Result<PathBuf> {
    let (kept, fresh) = (free_name(folder.with_extension("removed")), folder.with_extension("new"));
    if !fresh.is_dir() {
        fs::create_dir(&fresh).map_err(|error| of(&fresh, &error))?;
    }
    let marker = fresh.join(REMOVED);
    let text = format!("{members}\n");
    file::replace(&marker, text.as_bytes()).map_err(|error| of(&marker, &error))?;
    File::open(&fresh)?.sync_all()?;
    fs::rename(folder, &kept).map_err(|error| of(&kept, &error))?;
    end_leaving(folder)?;
    Ok(kept)
}

/// The members that the cluster had when the node of the partition in this folder was removed from it; none if it was not.
///
/// # Errors
/// The file cannot be read.
pub fn removed(folder: &Path) -> io::Result<Option<String>> {
    let path = folder.join(REMOVED);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(of(&path, &error)),
    }
}

/// The end of [`leave`], which may have been interrupted before it.
fn end_leaving(folder: &Path) -> io::Result<()> {
    let fresh = folder.with_extension("new");
    if fresh.is_dir() && !is_there(folder)? {
        fs::rename(&fresh, folder).map_err(|error| of(folder, &error))?;
        folder.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())?;
    }
    Ok(())
}

/// Checks that `dir` can be divided into `count` partitions.
///
/// # Errors
/// A file or folder stands where a partition's folder would; or `dir` is a partition's folder itself.
pub fn check_free(dir: &Path, count: u16) -> io::Result<()> {
    let taken = (0..count).map(|partition| dir.join(name_of(partition))).find(|path| path.exists());
    if let Some(taken) = taken {
        return Err(refused(format!(
            "{} is in the way of a partition: move it away",
            taken.display()
        )));
    }
    let whole = dir.canonicalize().map_err(|error| of(dir, &error))?;
    let parent = whole.parent().map_or(Ok(None), count_in)?;
    let is_part = |count: u16| (0..count).any(|part| whole.ends_with(name_of(part)));
    match parent.filter(|count| is_part(*count)) {
        Some(count) => Err(refused(format!("it is one of {count} partitions already"))),
        None => Ok(()),
    }
}

/// Puts the folders that `delayd spread` has made in place, and the journal that it has divided out of it. Whatever of
/// that is done already stays so. Returns where that journal is now, if this has moved it.
///
/// # Errors
/// The disk fails; a folder is in the way.
pub fn complete(dir: &Path, count: u16, journal: &str) -> io::Result<Option<PathBuf>> {
    let unfinished = dir.join(UNFINISHED);
    for name in (0..count).map(name_of) {
        let made = unfinished.join(&name);
        if made.is_dir() {
            let place = dir.join(name);
            fs::rename(made, &place).map_err(|error| of(&place, &error))?;
        }
    }
    let divided = dir.join(journal);
    let kept = divided.is_dir().then(|| free_name(dir.join(DIVIDED)));
    if let Some(kept) = &kept {
        fs::rename(&divided, kept).map_err(|error| of(&divided, &error))?;
        let (divided, kept) = (divided.display(), kept.display());
        tracing::warn!("{divided} was divided into partitions, and is kept as {kept}");
    }
    if unfinished.is_dir() {
        fs::remove_dir(unfinished)?;
    }
    File::open(dir)?.sync_all()?;
    Ok(kept)
}

/// The folders of several partitions are not left beside a journal of one.
fn check_one(dir: &Path, journal: &str) -> io::Result<()> {
    let first = dir.join(name_of(0)).join(journal);
    // A start that failed because its port was in use has left lock files.
    match !dir.join(journal).is_dir() && has_files(&first)? {
        true => Err(refused(format!(
            "{} has a journal, as with several partitions, but cluster-partitions is 1",
            first.display()
        ))),
        false => Ok(()),
    }
}

/// Without the file, the folders are new, or all of them were restored from backups. Which queues each may have is
/// checked when it is loaded.
fn check_restored(folders: &[PathBuf], dir: &Path, journal: &str) -> io::Result<()> {
    let is_filled = |folder: &PathBuf| has_files(&folder.join(journal));
    let filled = folders.iter().map(is_filled).collect::<io::Result<Vec<bool>>>()?;
    let next = dir.join(name_of(folders.len() as u16));
    let other = folders.iter().zip(&filled).find(|(_, is_filled)| !**is_filled);
    match other.map(|(folder, _)| folder.clone()).or(next.is_dir().then_some(next)) {
        Some(other) if filled.contains(&true) => Err(refused(format!(
            "{dir} has journals of partitions, but not those of {count}: see {other}. {file} is missing, which says \
             how many there are",
            dir = dir.display(),
            count = folders.len(),
            other = other.display(),
            file = dir.join(FILE).display()
        ))),
        _ => Ok(()),
    }
}

fn is_there(folder: &Path) -> io::Result<bool> {
    match fs::metadata(folder) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(of(folder, &error)),
    }
}

fn of(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// For a folder that is kept: the name of an earlier one is never taken.
fn free_name(wanted: PathBuf) -> PathBuf {
    let numbered = |number: u32| {
        let mut name = wanted.clone().into_os_string();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    };
    let mut names = std::iter::once(wanted.clone()).chain((2..).map(numbered));
    names.find(|path| !path.exists()).expect("there are names without end")
}

/// Whether there is more in a journal's folder than its lock.
fn has_files(journal: &Path) -> io::Result<bool> {
    match fs::read_dir(journal) {
        Ok(files) => {
            for file in files {
                if file?.file_name() != "lock" {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_removed(folder: &Path) -> bool {
        removed(folder).unwrap().as_deref() == Some("n1=h:1")
    }

    /// Interrupted at any point, a start finds either the partition with all it had, or an empty folder that waits.
    #[test]
    fn a_partition_that_was_removed_leaves_its_folder() {
        let dir = std::env::temp_dir().join(format!("delayd-leave-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let (folder, fresh) = (dir.join("07"), dir.join("07.new"));
        fs::create_dir_all(folder.join("journal")).unwrap();
        // Ended before the first rename, and run again.
        fs::create_dir(&fresh).unwrap();
        assert_eq!(leave(&folder, "n1=h:1").unwrap(), dir.join("07.removed"));
        assert!(is_removed(&folder) && !folder.join("journal").exists() && !fresh.exists());
        assert!(dir.join("07.removed").join("journal").is_dir());
        // An older folder is not overwritten.
        assert_eq!(leave(&folder, "n1=h:1").unwrap(), dir.join("07.removed-2"));
        // Ended between the renames.
        fs::rename(&folder, &fresh).unwrap();
        end_leaving(&folder).unwrap();
        assert!(is_removed(&folder));
        fs::remove_dir_all(&dir).unwrap();
    }
}
