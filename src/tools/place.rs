//! Where the journal is that a command line names.

use crate::journal::{JournalError, NEWEST, segment_number};
use std::path::{Path, PathBuf};

/// The journal's folder, if the options are the default ones.
const FOLDER: &str = "journal";

/// The folder of the journal: `dir/journal`, or `dir` itself if that is one.
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
        let base = file.starts_with("base-") && file.ends_with(".base");
        if file == "lock" || file == NEWEST || base || segment_number(&file).is_some() {
            return Ok(dir.to_owned());
        }
    }
    let text = format!("there is no {FOLDER}/ in it, and no file of a journal");
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, text);
    Err(JournalError::io(&name, "find a journal")(source))
}
