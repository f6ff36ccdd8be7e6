//! The journal's status.

use super::info::Text;

/// The journal for INFO, LASTSAVE and WAITAOF. The server updates it; without a journal it is
/// empty.
///
/// A *base* is a file with the whole state, after which the log continues. To users of Redis it is
/// the result of BGSAVE and of BGREWRITEAOF, so both families of fields show it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Persistence {
    /// There is a journal (`appendonly yes`).
    pub enabled: bool,
    /// The journal is being read, as at the start.
    pub loading: Option<Loading>,
    /// Newest batch handed to the writer.
    pub proposed: u64,
    /// Newest batch up to which replies may leave.
    pub committed: u64,
    /// Newest batch that is synced.
    pub durable: u64,
    /// The positions that clients wait for: the number of the newest batch of this process, and of the newest one that
    /// is safe. Without a cluster they are indices.
    pub newest_batch: u64,
    pub safe_batch: u64,
    /// Facts since the newest base began.
    pub changes_since_base: u64,
    /// How many bases have begun since the start: the number of the running or the last one.
    pub bases_begun: u64,
    pub bases_complete: u64,
    /// The running base began then, unix seconds.
    pub base_began_s: Option<u64>,
    /// Another base is to begin: at once, or when the running one is over.
    pub base_wanted: bool,
    /// The newest base became complete then, unix seconds; at the start, when the server started.
    pub last_base_s: u64,
    /// How long the last one took, s.
    pub last_base_took_s: Option<u64>,
    /// Why the last one failed; none if it did not.
    pub last_base_failure: Option<String>,
    /// Newest batch that the newest base holds.
    pub base_index: u64,
    pub base_bytes: u64,
    pub log_bytes: u64,
    /// Files of the log.
    pub segments: u64,
    /// Files that are ready to be used.
    pub spares: u64,
    /// Preallocated bytes that can still be written to.
    pub room_bytes: u64,
    /// Bytes of the log's files and of the newest base.
    pub disk_bytes: u64,
    /// Bytes written to the log since the start.
    pub written_bytes: u64,
    /// Bytes written for bases since the start.
    pub base_written_bytes: u64,
    /// Bytes proposed that are not written yet.
    pub buffer_bytes: u64,
    /// Bytes proposed that are not synced yet.
    pub unsynced_bytes: u64,
    /// Since when the oldest byte that is written waits for its sync, µs; 0 when none does.
    pub unsynced_us: u64,
    /// When the last sync was over, unix µs; at first, when the journal was opened.
    pub last_sync_us: u64,
    /// Syncs that were asked for and are not over.
    pub syncs_pending: u64,
    /// Syncs under `everysec` that came later than they should, as the one before took long.
    pub syncs_delayed: u64,
    pub trouble: JournalTrouble,
    /// Data in reads may be unsafe, and stays so until a restart.
    pub reads_unsafe: bool,
}

/// How far the journal has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loading {
    pub began_s: u64,
    pub total_bytes: u64,
    pub loaded_bytes: u64,
}

/// The troubles of the journal. The texts are causes, such as `No space left on device`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum JournalTrouble {
    /// Nothing.
    #[default]
    None,
    /// No room on the disk; it goes on by itself when there is some.
    Full(String),
    /// A write or a sync failed: it goes on after a restart.
    Failed(String),
}

impl Persistence {
    /// Redis's offset of replication: the index of the newest batch of the journal; 0 without one.
    pub fn offset(&self) -> u64 {
        if self.enabled { self.proposed } else { 0 }
    }

    pub fn is_durable(&self, batch: u64) -> bool {
        self.enabled && self.safe_batch >= batch
    }

    /// A base has begun at `now_s`, unix seconds: the one that was wanted, or one of the journal's own accord.
    pub fn base_began(&mut self, now_s: u64) {
        self.bases_begun += 1;
        self.base_began_s = Some(now_s);
        self.base_wanted = false;
        self.changes_since_base = 0;
    }

    /// The running base is over at `now_s`, unix seconds: complete, or failed for this cause.
    pub fn base_ended(&mut self, failure: Option<String>, now_s: u64) {
        let began_s = self.base_began_s.take().expect("a base has begun");
        self.last_base_took_s = Some(now_s.saturating_sub(began_s));
        if failure.is_none() {
            self.bases_complete += 1;
            self.last_base_s = now_s;
        }
        self.last_base_failure = failure;
    }

    /// A base is being written, or is about to be.
    pub fn is_base_in_progress(&self) -> bool {
        self.base_began_s.is_some() || self.base_wanted
    }

    /// A base is to begin when the running one is over.
    pub fn is_base_scheduled(&self) -> bool {
        self.base_began_s.is_some() && self.base_wanted
    }

    /// INFO's section. `fsync` is the setting `appendfsync`, `now_s` the time in unix seconds.
    pub(super) fn write(&self, fsync: &str, now_s: u64, text: &mut Text) {
        let status = |ok: bool| if ok { "ok" } else { "err" };
        let seconds = |s: Option<u64>| s.map_or(-1, |s| i64::try_from(s).unwrap_or(i64::MAX));
        let in_progress = u8::from(self.is_base_in_progress());
        let base_status = status(self.last_base_failure.is_none());
        let took_s = seconds(self.last_base_took_s);
        let running_s = seconds(self.base_began_s.map(|began_s| now_s.saturating_sub(began_s)));
        text.lines(&[
            ("loading", &u8::from(self.loading.is_some())),
            ("async_loading", &0),
            ("current_cow_peak", &0),
            ("current_cow_size", &0),
            ("current_cow_size_age", &0),
            ("rdb_changes_since_last_save", &self.changes_since_base),
            ("rdb_bgsave_in_progress", &in_progress),
            ("rdb_last_save_time", &self.last_base_s),
            ("rdb_last_bgsave_status", &base_status),
            ("rdb_last_bgsave_time_sec", &took_s),
            ("rdb_current_bgsave_time_sec", &running_s),
            ("rdb_saves", &self.bases_complete),
            ("aof_enabled", &u8::from(self.enabled)),
            ("aof_rewrite_in_progress", &in_progress),
            ("aof_rewrite_scheduled", &u8::from(self.is_base_scheduled())),
            ("aof_last_rewrite_time_sec", &took_s),
            ("aof_current_rewrite_time_sec", &running_s),
            ("aof_last_bgrewrite_status", &base_status),
            ("aof_rewrites", &self.bases_complete),
            ("aof_last_write_status", &status(self.trouble == JournalTrouble::None)),
        ]);
        if self.enabled {
            self.write_own(fsync, text);
        }
        if let Some(loading) = &self.loading {
            text.lines(&[
                ("loading_start_time", &loading.began_s),
                ("loading_total_bytes", &loading.total_bytes),
                ("loading_loaded_bytes", &loading.loaded_bytes),
                ("loading_loaded_perc", &format_args!("{:.2}", loading.percent())),
                ("loading_eta_seconds", &loading.eta_s(now_s)),
            ]);
        }
    }

    /// Fields that only a server with a journal has: Redis's fields, then our own.
    fn write_own(&self, fsync: &str, text: &mut Text) {
        let (state, cause) = match &self.trouble {
            _ if self.loading.is_some() => ("loading", ""),
            JournalTrouble::None => ("ok", ""),
            JournalTrouble::Full(cause) => ("full", cause.as_str()),
            JournalTrouble::Failed(cause) => ("failed", cause.as_str()),
        };
        text.lines(&[
            ("aof_current_size", &(self.base_bytes + self.log_bytes)),
            ("aof_base_size", &self.base_bytes),
            ("aof_pending_rewrite", &u8::from(self.is_base_scheduled())),
            ("aof_buffer_length", &self.buffer_bytes),
            ("aof_pending_bio_fsync", &self.syncs_pending),
            ("aof_delayed_fsync", &self.syncs_delayed),
            ("journal_state", &state),
            ("journal_trouble", &one_line(cause)),
            ("journal_base_trouble", &one_line(self.last_base_failure.as_deref().unwrap_or(""))),
            ("journal_reads_unsafe", &u8::from(self.reads_unsafe)),
            ("journal_fsync", &fsync),
            ("journal_proposed_index", &self.proposed),
            ("journal_committed_index", &self.committed),
            ("journal_durable_index", &self.durable),
            ("journal_base_index", &self.base_index),
            ("journal_unsynced_bytes", &self.unsynced_bytes),
            ("journal_unsynced_ms", &(self.unsynced_us / 1_000)),
            ("journal_last_sync_time", &(self.last_sync_us / 1_000_000)),
            ("journal_log_bytes", &self.log_bytes),
            ("journal_segments", &self.segments),
            ("journal_spares", &self.spares),
            ("journal_room_bytes", &self.room_bytes),
            ("journal_disk_bytes", &self.disk_bytes),
            ("journal_written_bytes", &self.written_bytes),
            ("journal_base_written_bytes", &self.base_written_bytes),
        ]);
    }
}

impl Loading {
    /// How much of it has been read, %.
    pub fn percent(&self) -> f64 {
        self.loaded_bytes as f64 * 100.0 / self.total_bytes.max(1) as f64
    }

    /// How long the rest takes at the speed so far, s. In the first second, which has no speed: 1.
    pub fn eta_s(&self, now_s: u64) -> u64 {
        let elapsed_s = now_s.saturating_sub(self.began_s);
        let left_bytes = self.total_bytes.saturating_sub(self.loaded_bytes);
        if left_bytes == 0 {
            return 0;
        }
        if elapsed_s == 0 {
            return 1;
        }
        let eta_s =
            u128::from(elapsed_s) * u128::from(left_bytes) / u128::from(self.loaded_bytes.max(1));
        u64::try_from(eta_s).unwrap_or(u64::MAX)
    }
}

/// A cause may come from anywhere; a line break in it would begin a field of its own.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_how_long_the_rest_takes() {
        let loading = Loading { began_s: 100, total_bytes: 4_000, loaded_bytes: 1_000 };
        assert_eq!((loading.percent(), loading.eta_s(110)), (25.0, 30));
        assert_eq!(loading.eta_s(100), 1);
        // The clock went back.
        assert_eq!(loading.eta_s(90), 1);
        let begun = Loading { loaded_bytes: 0, ..loading };
        assert_eq!((begun.percent(), begun.eta_s(102)), (0.0, 8_000));
        let done = Loading { loaded_bytes: 4_000, ..loading };
        assert_eq!((done.percent(), done.eta_s(110)), (100.0, 0));
        assert_eq!((Loading::default().percent(), Loading::default().eta_s(5)), (0.0, 0));
    }

    #[test]
    fn a_base_that_waits_for_another_is_scheduled() {
        let mut journal = Persistence { base_wanted: true, ..Persistence::default() };
        assert!(journal.is_base_in_progress() && !journal.is_base_scheduled());
        journal.base_began_s = Some(5);
        assert!(journal.is_base_scheduled());
        journal.base_wanted = false;
        assert!(journal.is_base_in_progress() && !journal.is_base_scheduled());
    }
    fn rendered(journal: &Persistence) -> String {
        let mut text = Text::default();
        journal.write("always", 1_000, &mut text);
        format!("\r\n{}", text.0)
    }

    #[test]
    fn without_a_journal_nothing_is_saved_and_nothing_fails() {
        let text = rendered(&Persistence { last_base_s: 7, ..Persistence::default() });
        for line in [
            "loading:0",
            "rdb_last_save_time:7",
            "rdb_last_bgsave_status:ok",
            "aof_enabled:0",
            "aof_last_write_status:ok",
            "rdb_current_bgsave_time_sec:-1",
        ] {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line} in {text}");
        }
        assert!(!text.contains("journal_") && !text.contains("loading_"), "{text}");
    }

    #[test]
    fn a_journal_tells_of_its_bases_its_state_and_its_reading() {
        let mut journal = Persistence {
            enabled: true,
            base_began_s: Some(990),
            base_wanted: true,
            base_bytes: 500,
            log_bytes: 24,
            last_base_failure: Some("no\r\nroom".to_owned()),
            trouble: JournalTrouble::Full("No space left on device".to_owned()),
            ..Persistence::default()
        };
        let text = rendered(&journal);
        for line in [
            "rdb_bgsave_in_progress:1",
            "rdb_current_bgsave_time_sec:10",
            "rdb_last_bgsave_status:err",
            "aof_rewrite_in_progress:1",
            "aof_rewrite_scheduled:1",
            "aof_last_write_status:err",
            "aof_current_size:524",
            "aof_base_size:500",
            "journal_state:full",
            "journal_trouble:No space left on device",
            "journal_base_trouble:no  room",
            "journal_fsync:always",
        ] {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line} in {text}");
        }
        journal.loading = Some(Loading { began_s: 900, total_bytes: 800, loaded_bytes: 200 });
        let text = rendered(&journal);
        for line in ["loading:1\r\n", "journal_state:loading", "loading_start_time:900"] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let end = "loading_loaded_perc:25.00\r\nloading_eta_seconds:300\r\n";
        assert!(text.ends_with(end), "{text}");
    }
}
