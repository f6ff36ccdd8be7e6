//! The journal's folder and how its log is kept, as the options say.

use crate::config::Config;
use crate::config::options::Name;
use crate::journal::{Disk, Lock, LogOptions};
use crate::limits::{PARTITION_SEGMENT_BYTES_MIN, SEGMENT_BYTES_UNIT, SPARES_MAX};
use crate::server::durability::disk_room::segment_bytes;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The folder of the journal, locked for this process.
#[derive(Debug)]
pub struct Home {
    pub disk: Arc<Disk>,
    /// Ends with this.
    pub lock: Lock,
}

impl Home {
    /// Opens and locks the folder that the options name; none without a journal.
    ///
    /// # Errors
    /// `dir` is no folder; the journal's cannot be made, or is in use by another server.
    pub fn open(config: &Config) -> io::Result<Option<Home>> {
        let dir = Path::new(config.text(Name::Dir));
        // Made by us it would hide a mistyped path, or a volume that is not mounted.
        if !dir.is_dir() {
            let text =
                format!("dir: {} is not a folder; create it, or choose another", dir.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        if !config.flag(Name::AppendOnly) {
            return Ok(None);
        }
        let path = config.folder().join(config.text(Name::AppendDirName));
        let disk = Disk::open(&path)?;
        let lock = disk.lock()?;
        // It may be open on purpose, for a backup: it is left as it is.
        if disk.is_open_to_others()? {
            let folder = path.display();
            tracing::warn!(
                "other users can read the journal's folder, {folder}, which contains the jobs' bodies; run chmod -R \
                 go= {folder}"
            );
        }
        Ok(Some(Home { disk: Arc::new(disk), lock }))
    }
}

/// How the log is kept. On a small disk its segments are smaller than asked for.
pub fn log_options(config: &Config, disk: &Disk) -> LogOptions {
    let asked = segment_bytes_asked(config);
    let space = disk.space().ok().flatten();
    let own_part = |total: u64| total / u64::from(config.partitions());
    let segment_bytes = space.map_or(asked, |space| segment_bytes(asked, own_part(space.total)));
    if segment_bytes < asked {
        let folder = disk.path().display();
        tracing::warn!(
            "journal-segment-size is {asked}, but {folder} is on a small disk, of which a segment may take an \
             eighth: segments have {segment_bytes} bytes"
        );
    }
    LogOptions { segment_bytes, shard: 0, spares_max: SPARES_MAX }
}

/// This partition's part of `journal-segment-size`.
fn segment_bytes_asked(config: &Config) -> u64 {
    config.part(Name::JournalSegmentSize, PARTITION_SEGMENT_BYTES_MIN) / SEGMENT_BYTES_UNIT
        * SEGMENT_BYTES_UNIT
}
