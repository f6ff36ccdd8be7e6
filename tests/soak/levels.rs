//! What the process holds, as the system sees it.

use crate::support::program::Wire;
use std::path::Path;

/// A look at the process.
#[derive(Clone, Copy, Default, Debug)]
pub struct Levels {
    /// Resident memory, bytes.
    pub resident: u64,
    /// Open descriptors.
    pub files: u64,
    /// Files of the journal, bytes.
    pub disk: u64,
}

impl Levels {
    /// None if it is gone.
    pub fn of(pid: u32, journal: &Path) -> Option<Levels> {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        let entries = std::fs::read_dir(journal).ok()?;
        // One that is gone meanwhile takes no room.
        let disk =
            entries.filter_map(|file| file.ok()?.metadata().ok()).map(|meta| meta.len()).sum();
        Some(Levels { resident: pages * rustix::param::page_size() as u64, files, disk })
    }

    /// The greater of each.
    pub fn max(self, other: Levels) -> Levels {
        Levels {
            resident: self.resident.max(other.resident),
            files: self.files.max(other.files),
            disk: self.disk.max(other.disk),
        }
    }
}

/// What the server itself says it counts, for the log.
pub fn told(wire: &mut Wire) -> String {
    let fields = ["used_memory", "maxmemory", "journal_state", "connected_clients"];
    fields.map(|field| format!("{field} {}", wire.field(field))).join(", ")
}
