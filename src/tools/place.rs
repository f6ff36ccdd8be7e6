//! Where the journal is that a command line names.

use crate::config::folders;
use crate::journal::{JournalError, NEWEST, segment_number};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The journal's folder, if the options are the default ones.
pub const FOLDER: &str = "journal";

/// The folder of the journal: `dir/journal`, or `dir` itself if that is one.
///
/// # Errors
/// There is no journal, or `dir` cannot be read.
pub fn find(dir: &Path) -> Result<PathBuf, JournalError> {
    let name = dir.display().to_string();
    let entries = std::fs::read_dir(dir).map_err(JournalError::io(&name, "read"))?;
    let inner = dir.join(FOLDER);
    if inner.is_dir() {
        return Ok(inner);
    }
    for entry in entries {
        let file = entry.map_err(JournalError::io(&name, "read"))?.file_name();
        let file = file.to_string_lossy();
        if is_of_journal(&file) {
            return Ok(dir.to_owned());
        }
    }
    let text = match folders::count_in(dir) {
        Ok(Some(count)) => {
            format!("it has {count} partitions: name one of them, such as {name}/00")
        }
        _ => match first_part(dir) {
            Some(part) => format!("it has partitions: name one of them, such as {name}/{part}"),
            None => format!("it has no {FOLDER}/ and no file of a journal"),
        },
    };
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, text);
    Err(JournalError::io(&name, "find a journal")(source))
}

/// The first folder of a partition, where no server has been started since they were restored.
fn first_part(dir: &Path) -> Option<String> {
    let mut parts = (0..64).map(folders::name_of);
    parts.find(|part| dir.join(part).join(FOLDER).is_dir())
}

/// Whether a journal has files of this name: a segment, a base, the lock, the file that names the newest segment.
pub fn is_of_journal(file: &str) -> bool {
    let base = file.starts_with("base-") && file.ends_with(".base");
    file == "lock" || file == NEWEST || base || segment_number(file).is_some()
}

/// Whether `into` can become the data directory of a server: there is no journal in it.
///
/// # Errors
/// There is one, or it cannot be looked at.
pub fn check_free(into: &Path) -> Result<(), JournalError> {
    let name = into.display().to_string();
    if let Ok(Some(count)) = folders::count_in(into) {
        let text =
            format!("it has {count} partitions: name a folder for one of them, such as {name}/00");
        let source = std::io::Error::new(ErrorKind::AlreadyExists, text);
        return Err(JournalError::io(&name, "write a journal into")(source));
    }
    let entries = match std::fs::read_dir(into) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(JournalError::io(&name, "read")(error)),
    };
    for entry in entries {
        let file = entry.map_err(JournalError::io(&name, "read"))?.file_name();
        let file = file.to_string_lossy();
        let inner = into.join(FOLDER);
        let is_filled = || std::fs::read_dir(&inner).is_ok_and(|mut files| files.next().is_some());
        if is_of_journal(&file) || (file == FOLDER && (!inner.is_dir() || is_filled())) {
            let text = format!("it already has a journal ({file}): choose a folder without one");
            let source = std::io::Error::new(ErrorKind::AlreadyExists, text);
            return Err(JournalError::io(&name, "write a journal into")(source));
        }
    }
    Ok(())
}
