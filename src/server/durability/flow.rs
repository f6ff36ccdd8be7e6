//! Space for future writes: how much a turn may decide, when requests wait, when to make a segment or a base.

use crate::engine::journal_room::{Flow, Room};
use crate::error::Misconf;
use crate::journal::record::HEAD_BYTES;
use crate::limits::{
    BASE_GROWTH_BYTES_MIN, FULL_LOG_US, ROOM_RETRY_US, SHORTAGE_US, TURN_ROOM_BYTES,
};
use crate::server::durability::commit::keeper::Task;
use crate::server::durability::disk_room::DiskRoom;
use crate::server::durability::running::RunningJournal;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a batch in addition to its facts, at most.
const FRAME_BYTES: u64 = 2 * HEAD_BYTES as u64;

impl RunningJournal {
    /// Whether requests are to wait until the journal has caught up.
    pub fn is_flooded(&self) -> bool {
        let low = self.journal.room_bytes() < self.least_room_bytes();
        // On a full disk what is not written yet may stay so for long, and ending jobs goes on.
        let passes = (low || self.journal.is_heavy()) && self.full.is_none();
        !self.failed && (self.journal.is_flooded() || passes)
    }

    /// Room below which no turn takes requests: enough for two, as at a change of segments up to the
    /// size of a batch is left unused.
    fn least_room_bytes(&self) -> u64 {
        (2 * TURN_ROOM_BYTES).min(self.segment_bytes / 2)
    }

    /// How much may be decided in this turn.
    pub(super) fn flow(&mut self, mono_us: u64) -> Flow {
        if let Some(cause) = self.failure() {
            return Flow::Stopped { cause: Misconf::Failed { cause: Arc::clone(cause) } };
        }
        let room = match &self.full {
            None => {
                let base_bytes_max = self.disk_room().base_bytes_max();
                let cause = (base_bytes_max < u64::MAX).then(|| self.kept_for_base());
                Room { base_bytes_max, cause, ..Room::UNLIMITED }
            }
            Some(cause) => {
                let room = self.journal.room_bytes();
                // Perhaps no base comes to free space. Nothing is added from here on, and half of the room there was
                // is kept for commands that end jobs.
                let reserve_bytes = room.min(self.ends_bytes);
                // The head and the padding of the batch.
                let bytes = (room - reserve_bytes).saturating_sub(FRAME_BYTES);
                let reserve_bytes = reserve_bytes.saturating_sub(FRAME_BYTES);
                Room { bytes, reserve_bytes, base_bytes_max: 0, cause: Some(Arc::clone(cause)) }
            }
        };
        if self.journal.is_stuck(mono_us) { Flow::Stalled { room } } else { Flow::Running { room } }
    }

    /// The space on the disk. Other programs' files are checked every second.
    fn disk_room(&self) -> DiskRoom {
        let base_bytes = self.compaction.base_bytes + self.compaction.written_bytes();
        // The writer counts a spare once it has it.
        let under_way = self.making_spare || self.journal.shared().has_spares_under_way();
        let spare_bytes = if under_way { self.segment_bytes } else { 0 };
        let used_bytes = self.journal.disk_bytes() + spare_bytes + base_bytes;
        let (journal_max, segment_bytes) = (self.journal.journal_max(), self.segment_bytes);
        DiskRoom { journal_max, used_bytes, segment_bytes }
    }

    /// Why nothing may be added while there is room.
    fn kept_for_base(&mut self) -> Arc<str> {
        let mib = self.journal.journal_max() >> 20;
        if self.kept.0 != mib {
            let text = format!(
                "the rest of its {mib} MiB of disk is reserved for its next base and segment"
            );
            self.kept = (mib, text.into());
        }
        Arc::clone(&self.kept.1)
    }

    /// Why not all commands are taken, if they are not.
    pub(super) fn shortage(&self) -> Option<&Arc<str>> {
        self.full.as_ref().or(self.crowded.then_some(&self.kept.1))
    }

    /// Notes whether anything may be added, where a base can become `later_bytes` long.
    pub(super) fn note_crowd(&mut self, later_bytes: u64, mono_us: u64) {
        let most = self.disk_room().base_bytes_max();
        self.crowded = later_bytes.saturating_add(BASE_GROWTH_BYTES_MIN) > most;
        if self.crowded && self.full.is_none() && mono_us >= self.crowded_logged_us {
            let cause = self.kept_for_base();
            tracing::warn!(%cause, "nothing can be added until jobs are taken, or there is space");
        }
        if self.crowded {
            self.crowded_logged_us = mono_us + FULL_LOG_US;
        }
    }

    /// Whether a base should begin by itself. Without space for one it would fail, and without space for the next one
    /// and for the log it would be the last. While the log before the last base is being removed, it is not known yet
    /// whether another one is needed.
    pub(super) fn is_base_due(&self, live_bytes: u64, mono_us: u64) -> bool {
        let RunningJournal { journal, compaction, segment_bytes, .. } = self;
        let due = || compaction.is_due(live_bytes, journal, *segment_bytes);
        let (room, log_bytes) = (self.disk_room(), segment_bytes + journal.room_bytes());
        compaction.may_begin(mono_us)
            && !self.is_dropping()
            && room.has_base(live_bytes, compaction.written_bytes())
            && room.has_next(live_bytes, log_bytes, live_bytes)
            && (due()
                || self.is_beyond_promise(live_bytes)
                || self.is_short_of_room(live_bytes)
                || self.is_short_of_disk(live_bytes))
    }

    /// Whether a base should free segments that were promised when there was more live data. Example, with segments of
    /// 4 MiB: a PURGE of 1 MB of jobs is a fact of a few bytes, so with 1 MB of log after the newest base none would be
    /// due for another MiB, and until then the segment of the base, the one that is written and a spare would stay:
    /// three where two are promised.
    fn is_beyond_promise(&self, live_bytes: u64) -> bool {
        let kept = self.journal.disk_bytes() + self.compaction.base_bytes;
        self.gives_back() && kept > live_bytes * 7 / 2 + 2 * self.segment_bytes + self.kept_bytes
    }

    /// Whether a base that is made now gives segments back.
    fn gives_back(&self) -> bool {
        let kept = self.kept_bytes.div_ceil(self.segment_bytes);
        self.journal.shared().segments.load(Ordering::Acquire) > kept + 1
    }

    /// Sees to it that there is room for what comes.
    ///
    /// The files stay within 3.5 L and two segments, L being the live data. With little of it the current segment and
    /// the previous one are all there may be: the base that frees the older one begins half a segment after the last
    /// one, and is complete a few ms later. With much of it a base takes long; 2.1 L + L + 0.25 L then leave space for
    /// a third, if the disk has that much.
    pub(super) fn make_room(&mut self, live_bytes: u64, base_due: bool, mono_us: u64) {
        if self.making_spare || self.failed {
            return;
        }
        if self.has_spares() {
            self.note_room();
        }
        // One that was made and that the writer has not taken up is room too.
        if self.journal.shared().has_spares_under_way() {
            return;
        }
        let (room, segment) = (self.journal.room_bytes(), self.segment_bytes);
        let coming = base_due || self.compaction.is_running() || self.is_dropping();
        let fits = self.has_segment_beside(live_bytes);
        // A segment that took the room of the base would be the last one.
        let soon = coming && (live_bytes < 2 * segment || !fits);
        let promised = self.is_segment_promised(live_bytes);
        // Above what lets requests wait, so that they do not wait for nothing.
        let urgent = room < self.least_room_bytes().max(segment / 4);
        let wanted = fits && ((urgent && !soon) || (room < segment && promised));
        self.note_shortage(urgent && !soon && !fits, mono_us);
        if wanted && mono_us >= self.retry_at_us {
            self.making_spare = true;
            self.journal.keeper.send(Task::MakeSpare);
        } else if wanted && !self.has_spares() {
            // Tried less than a second ago, while there was one.
            self.note_full();
        }
    }

    /// No base is coming, and a segment would take the space of the next one: then nothing would ever be freed. The
    /// rest is for commands that end jobs, until a base fits. The threads report their work piece by piece, so only a
    /// lasting shortage counts.
    fn note_shortage(&mut self, short: bool, mono_us: u64) {
        if !short || self.has_spares() {
            self.short_since_us = None;
        } else if mono_us - *self.short_since_us.get_or_insert(mono_us) >= SHORTAGE_US {
            self.no_spare = Some(self.kept_for_base());
            self.note_full();
        }
    }

    /// Whether another segment fits on the disk in addition to the base being written and the next one.
    ///
    /// Jobs that consumers take while a base is written make the next one smaller, not this one.
    /// Worked: of 25 MB 3 are gone before the last third is written; with room for 25 and no segment,
    /// three segments of 1 MiB would seem to fit, and the base would fail at its last 3 MB.
    ///
    /// The next base is as large as the data when it begins, and that may be more by then: the space that the log has,
    /// that segment and a turn may be filled with jobs. And it exists at the same time as the one being written now,
    /// and the log since that began. Worked: on 25 MB, with 5 of jobs, a base of them and three segments of 3 MB fit;
    /// with 8 MB of jobs two bases and three segments would not.
    fn has_segment_beside(&self, live_bytes: u64) -> bool {
        let (room, log_room) = (self.disk_room(), self.journal.room_bytes());
        let later_bytes = live_bytes + log_room + self.segment_bytes + TURN_ROOM_BYTES;
        let next_bytes = later_bytes.min(room.base_bytes_max()).max(live_bytes);
        let Some(images_bytes) = self.compaction.images_bytes() else {
            return room.has_segment_beside(next_bytes, 0);
        };
        // Part of the segment in which it began is before it.
        let beside_bytes = self.compaction.log_beside_bytes(&self.journal);
        let log_bytes = self.segment_bytes + beside_bytes + log_room + self.segment_bytes;
        room.has_segment_beside(images_bytes, self.compaction.written_bytes())
            && room.has_next(images_bytes, log_bytes, next_bytes)
    }

    /// Whether this many bytes of a replaced base may stay on the disk while a backup is read from it, if the next base
    /// would have `live_bytes`: as much space as they take must be free in addition to that and a segment.
    pub(super) fn bears(&self, bytes: u64, live_bytes: u64) -> bool {
        let is_short = self.shortage().is_some() || self.short_since_us.is_some();
        !is_short && self.disk_room().has_segment_beside(live_bytes.saturating_add(bytes), 0)
    }

    /// Whether the log's part before the newest base is being removed.
    fn is_dropping(&self) -> bool {
        self.journal.shared().dropping.load(Ordering::Acquire)
    }

    /// Whether another segment, and a base in addition to the newest one, stay within the promised
    /// limit.
    fn is_segment_promised(&self, live_bytes: u64) -> bool {
        let kept = self.journal.disk_bytes() + self.compaction.base_bytes + live_bytes;
        kept + self.segment_bytes <= live_bytes * 7 / 2 + 2 * self.segment_bytes + self.kept_bytes
    }

    /// Whether a base is to give room back, as no other segment is promised: with little live data
    /// it does so at once. It costs L after at least half a segment of log, and after more where L is
    /// more, as more segments are promised then.
    fn is_short_of_room(&self, live_bytes: u64) -> bool {
        let segment = self.segment_bytes;
        live_bytes < 2 * segment
            && self.journal.room_bytes() < segment / 4 * 3
            && self.compaction.log_bytes(&self.journal) >= live_bytes.max(segment / 5)
            && !self.is_segment_promised(live_bytes)
    }

    /// Whether a base is to give room back, as another segment would take the room of the next base.
    /// It costs L, and gives back the segments before the one that is written: at least one.
    fn is_short_of_disk(&self, live_bytes: u64) -> bool {
        self.journal.room_bytes() < self.segment_bytes / 4 * 3
            && self.gives_back()
            && !self.has_segment_beside(live_bytes)
    }

    /// The keeper has made a spare, or could not.
    pub(super) fn note_spare(&mut self, made: io::Result<()>, mono_us: u64) {
        self.making_spare = false;
        match made {
            Ok(()) => {
                (self.no_spare, self.retry_at_us) = (None, 0);
                self.note_room();
            }
            Err(error) => {
                self.retry_at_us = mono_us + ROOM_RETRY_US;
                self.no_spare = Some(error.to_string().into());
                if !self.has_spares() {
                    self.note_full();
                }
            }
        }
    }

    fn has_spares(&self) -> bool {
        self.journal.shared().spares.load(Ordering::Acquire) > 0
    }

    /// There is no segment after the current one to continue in. Usually most of that one is left; if the keeper needed
    /// long to find out, jobs were added meanwhile, down to [`least_room_bytes`](RunningJournal::least_room_bytes) and a
    /// turn. So taking jobs and ending them share what is left: with segments of 1 MiB, and 400 KiB left, half a
    /// segment for ending would leave consumers without jobs, and so without anything to end.
    fn note_full(&mut self) {
        if let (Some(cause), None) = (&self.no_spare, &self.full) {
            tracing::warn!(%cause, "the journal has no space for another segment");
            self.ends_bytes = self.journal.room_bytes().min(self.segment_bytes) / 2;
        }
        self.full.clone_from(&self.no_spare);
    }

    /// There is a segment to go on in.
    fn note_room(&mut self) {
        if self.full.take().is_some() {
            tracing::info!("the journal has space again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::server::connection::wake::Notifier;

    /// Three segments, of which the log fills two.
    #[test]
    fn what_removed_jobs_had_been_promised_is_given_back() {
        let notifier = Arc::new(Notifier::default());
        let (mut running, _disk) = RunningJournal::by_hand((0, 0), 0, &Config::default(), notifier);
        let (segment, shared) = (running.segment_bytes, Arc::clone(running.journal.shared()));
        shared.disk_bytes.store(3 * segment, Ordering::Relaxed);
        shared.segments.store(2, Ordering::Relaxed);
        running.compaction.base_bytes = segment / 4;
        let enough = segment / 2;
        assert!(!running.is_base_due(enough, 0), "3.25 segments are promised");
        assert!(running.is_base_due(0, 0));
        // It has done what a base can do.
        shared.segments.store(1, Ordering::Relaxed);
        assert!(!running.is_base_due(0, 0));
    }

    /// Seen beside busy loops: 20 batches of 50 KB were added while the keeper waited for a core to find out.
    #[test]
    fn taking_has_room_however_late_the_journal_is_found_full() {
        let notifier = Arc::new(Notifier::default());
        let (mut running, _disk) = RunningJournal::by_hand((0, 0), 0, &Config::default(), notifier);
        let (segment, shared) = (running.segment_bytes, Arc::clone(running.journal.shared()));
        for (left_bytes, half_bytes) in [(segment, segment / 2), (segment / 4, segment / 8)] {
            shared.capacity_bytes.store(left_bytes, Ordering::Relaxed);
            running.note_spare(Err(io::Error::other("no space")), 0);
            let Flow::Running { room } = running.flow(0) else { panic!("it is not stuck") };
            let kept = half_bytes - FRAME_BYTES;
            assert_eq!((room.bytes, room.reserve_bytes), (kept, kept), "of {left_bytes}");
            // Taking jobs leaves the other half as it was.
            shared.capacity_bytes.store(half_bytes, Ordering::Relaxed);
            let Flow::Running { room } = running.flow(0) else { panic!("it is not stuck") };
            assert_eq!((room.bytes, room.reserve_bytes), (0, kept), "of {left_bytes}");
            running.note_spare(Ok(()), 0);
        }
    }
}
