//! The room on the disk that the journal's folder is on.

use crate::journal::base;
use crate::journal::disk::Disk;
use crate::journal::log::segment;
use crate::limits::DISK_LOOKS;
use rustix::fs::{StatVfs, statvfs};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit of `st_blocks`, bytes.
const BLOCK_BYTES: u64 = 512;

/// Room on a disk, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The disk space of the journal's segments and bases, and the free space for its writer.
    pub journal_max: u64,
    /// All that the disk has.
    pub total: u64,
}

impl Disk {
    /// The free space; none if the file system does not report it. Space reserved for the superuser does not count.
    /// Looks at each file of the folder.
    pub fn space(&self) -> io::Result<Option<Space>> {
        let mut before = free(self.path())?;
        let mut attempt = 1;
        loop {
            let own = own_bytes(self.path())?;
            let after = free(self.path())?;
            // A file that came or went meanwhile would be counted twice, or not at all.
            if before.f_bavail == after.f_bavail || attempt == DISK_LOOKS {
                let unit = after.f_frsize;
                let free = before.f_bavail.min(after.f_bavail).saturating_mul(unit);
                let total = after.f_blocks.saturating_mul(unit);
                let journal_max = free.saturating_add(own);
                return Ok((total > 0).then_some(Space { journal_max, total }));
            }
            (before, attempt) = (after, attempt + 1);
        }
    }
}

fn free(path: &Path) -> io::Result<StatVfs> {
    Ok(statvfs(path)?)
}

/// The size of segments and bases, including unfinished ones.
fn own_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let own = segment::segment_number(name).is_some()
            || base::index_of(name).is_some()
            || base::is_unfinished(name);
        // One that is gone meanwhile takes no room.
        if own && let Ok(metadata) = entry.metadata() {
            bytes += metadata.blocks() * BLOCK_BYTES;
        }
    }
    Ok(bytes)
}
