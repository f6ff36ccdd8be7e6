//! Disk space: how large a base may become, and whether another segment fits in addition to the
//! next one.
//!
//! A disk that jobs fill must be drained by consumers, so there always has to be space for their writes. They are
//! small, but their space is freed only by a base: then segments are used again. So, with L the size that a base can
//! reach without a job being added, the disk has to hold at any time
//!
//! ```text
//! the newest base       L at most
//! the next one          L
//! three segments        the one in which the newest base began, the one that is written, and one that
//!                       the base gave back and that waits to be used
//! or one and L / 4      if that is more: what is written while a base is (4 bytes of base for one)
//! a turn's facts        which may need a file of their own
//! ```
//!
//! A request that would make L larger than this allows is refused. Example, for 64 MiB: segments of 1 MiB leave space
//! for an L of 25 MiB, those of 8 MiB for one of 17 MiB.

use crate::limits::{
    BASE_FRAMES_BYTES, BASE_FRAMES_PART, SEGMENT_BYTES_MIN, SEGMENT_BYTES_UNIT, SEGMENT_PART,
    TURNS_BYTES, TURNS_PART,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskRoom {
    /// The total size that the journal's files may have; `u64::MAX` if the file system does not
    /// report it.
    pub journal_max: u64,
    /// Their total size now.
    pub used_bytes: u64,
    pub segment_bytes: u64,
}

/// The size of segments on a disk of `total` bytes, if `asked` were wanted.
pub fn segment_bytes(asked: u64, total: u64) -> u64 {
    let most = total / SEGMENT_PART / SEGMENT_BYTES_UNIT * SEGMENT_BYTES_UNIT;
    asked.min(most.max(SEGMENT_BYTES_MIN))
}

fn base_file_bytes(images: u64) -> u64 {
    images + images / BASE_FRAMES_PART + BASE_FRAMES_BYTES
}

impl DiskRoom {
    /// The most bytes of images that the next base may have, see the module.
    pub fn base_bytes_max(&self) -> u64 {
        let &DiskRoom { journal_max, segment_bytes, .. } = self;
        if journal_max == u64::MAX {
            return u64::MAX;
        }
        let turns = TURNS_BYTES.min(journal_max / TURNS_PART);
        let rest = journal_max.saturating_sub(segment_bytes + turns);
        // Two files and the other two segments, or two and a quarter.
        let file = (rest.saturating_sub(2 * segment_bytes) / 2).min(rest / 9 * 4);
        file.saturating_sub(BASE_FRAMES_BYTES) / (BASE_FRAMES_PART + 1) * BASE_FRAMES_PART
    }

    /// Whether a base with this many bytes of images fits, of which `written` are written.
    pub fn has_base(&self, images: u64, written: u64) -> bool {
        self.free() >= base_file_bytes(images).saturating_sub(written)
    }

    /// Whether another segment fits in addition to such a base.
    pub fn has_segment_beside(&self, images: u64, written: u64) -> bool {
        let base = base_file_bytes(images).saturating_sub(written);
        self.free() >= base.saturating_add(self.segment_bytes)
    }

    /// Whether a base fits in addition to one of `images` bytes that has replaced the newest, and
    /// `log_bytes` of log.
    pub fn has_next(&self, images: u64, log_bytes: u64, next: u64) -> bool {
        let bases = base_file_bytes(images).saturating_add(base_file_bytes(next));
        self.journal_max >= bases.saturating_add(log_bytes)
    }

    fn free(&self) -> u64 {
        self.journal_max.saturating_sub(self.used_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn all_that_must_fit_does() {
        for journal_max in (0..400).map(|step| step * 777_777) {
            for segment_bytes in [64 << 10, MIB, 8 * MIB] {
                let room = DiskRoom { journal_max, used_bytes: 0, segment_bytes };
                let images = room.base_bytes_max();
                let file = base_file_bytes(images);
                let log = (3 * segment_bytes).max(segment_bytes + file / 4);
                assert!(images == 0 || 2 * file + log <= journal_max, "{room:?}: {images}");
                // Little is left unused.
                let turns = TURNS_BYTES.min(journal_max / TURNS_PART);
                let most = (2 * file + log + turns) * 11 / 10 + 4 * BASE_FRAMES_BYTES;
                assert!(images == 0 || most >= journal_max, "{room:?}: {images}");
            }
        }
    }

    #[test]
    fn worked_examples() {
        let room = |segment_bytes| DiskRoom { journal_max: 64 * MIB, used_bytes: 0, segment_bytes };
        assert_eq!(room(MIB).base_bytes_max() / MIB, 25);
        assert_eq!(room(8 * MIB).base_bytes_max() / MIB, 17);
        let unknown = DiskRoom { journal_max: u64::MAX, used_bytes: 9, segment_bytes: 64 * MIB };
        assert_eq!(unknown.base_bytes_max(), u64::MAX);
        assert!(unknown.has_segment_beside(1 << 50, 0));
        // Two bases of 17 MiB leave room for three segments of 8 MiB, those of 25 MiB not for two.
        assert!(room(8 * MIB).has_next(17 * MIB, 24 * MIB, 17 * MIB));
        assert!(!room(8 * MIB).has_next(25 * MIB, 16 * MIB, 25 * MIB));
    }

    #[test]
    fn a_segment_is_no_larger_than_the_disk_bears() {
        assert_eq!(segment_bytes(64 * MIB, 1 << 40), 64 * MIB);
        assert_eq!(segment_bytes(64 * MIB, 64 * MIB), 8 * MIB);
        assert_eq!(segment_bytes(MIB, 64 * MIB), MIB);
        assert_eq!(segment_bytes(MIB, 1_000_001), 122_880);
        assert_eq!(segment_bytes(MIB, 0), 64 << 10);
    }
}
