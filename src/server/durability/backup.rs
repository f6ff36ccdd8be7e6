//! DELAY.BACKUP: a client fetches a base of this server, piece by piece.
//!
//! ```text
//! BEGIN ──> Follows ──────> Awaits ──────────> Opens ──────────> Open ──> READ … READ ──> END
//!           a follower is   a base that        its file is       its file is kept open, also
//!           as far as the   begins after that  opened by a       when a newer base takes its
//!           leader was                         thread            place
//! ```
//!
//! Every request is answered at once, even with "not yet", so a client that vanishes leaves nothing waiting. One backup
//! at a time; one without requests for [`BACKUP_IDLE_US`] is ended, and one whose base was replaced as soon as the disk
//! needs its space. A thread reads the file, no faster than `cluster-sync-rate`, a piece ahead of the requests.

use crate::cluster::timing::freshness::as_of;
use crate::ids::{ClientId, Index};
use crate::journal::{BaseId, Disk, File, Offer};
use crate::limits::{BACKUP_FOLLOWS_US, BACKUP_IDLE_US, BACKUP_PIECE_BYTES};
use crate::lock::lock;
use crate::server::clock::turn_clock::TurnClock;
use crate::server::connection::wake::Notifier;
use crate::server::durability::{Durability, Journaling};
use crate::time::Micros;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What was acknowledged without this node would be missing in the backup, which nobody would notice.
const LACKS: &str = "this node may lack what its cluster has acknowledged: it has heard no leader, or lags behind; take it \
                     from another node, or once a leader is there";

/// A backup that a client fetches.
#[derive(Debug)]
pub struct Backup {
    owner: ClientId,
    /// When it was asked for something last; monotonic, µs.
    asked_us: u64,
    stage: BackupStage,
    /// Jobs by state as of the base, if that began for this backup.
    jobs: Option<[u64; 4]>,
}

#[derive(Debug)]
enum BackupStage {
    /// For a follower: everything that the leader answered before this instant must be applied first. Since when; boot
    /// clock.
    Follows(Micros),
    /// The base of this number must be complete first.
    Awaits(u64),
    /// The newest base is being opened; with the one of which the client has a part.
    Opens(Option<BaseId>, FileReader),
    Open(Offer, FileReader),
    /// The failure.
    Failed(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackupProgress {
    /// Its base is being written: this many bytes of about that many; none if it has not begun.
    Writes(Option<(u64, u64)>),
    /// It can be read.
    Ready {
        offer: Offer,
        /// Jobs by state that it has, if this server counted them.
        jobs: Option<[u64; 4]>,
    },
}

/// Why the backup that ended last did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EndedBackup {
    id: BaseId,
    why: &'static str,
}

#[derive(Debug, Default)]
pub struct Backups {
    running: Option<Backup>,
    ended: Option<EndedBackup>,
    /// Bytes a second that are read at most.
    pub rate: u64,
}

impl Backups {
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a base is being written for it, or is about to be.
    pub fn awaits_base(&self) -> bool {
        let stage = self.running.as_ref().map(|backup| &backup.stage);
        matches!(stage, Some(BackupStage::Awaits(_)))
    }

    /// A base has begun, the one of this number, with these numbers of jobs by state.
    pub fn base_began(&mut self, number: u64, jobs: [u64; 4]) {
        let Some(backup) = &mut self.running else { return };
        if matches!(backup.stage, BackupStage::Awaits(awaited) if awaited == number) {
            backup.jobs = Some(jobs);
        }
    }

    /// The base of this number is over.
    fn base_ended(
        &mut self,
        number: u64,
        failure: Option<&str>,
        disk: Option<&Arc<Disk>>,
        notifier: &Arc<Notifier>,
    ) {
        let Some(backup) = &mut self.running else { return };
        if !matches!(backup.stage, BackupStage::Awaits(awaited) if awaited <= number) {
            return;
        }
        let reader = disk.map(|disk| FileReader::start(Arc::clone(disk), self.rate, notifier));
        backup.stage = match (failure, reader) {
            (Some(cause), _) => BackupStage::Failed(format!("the base was not written: {cause}")),
            (None, Some(Ok(reader))) => BackupStage::Opens(None, reader),
            (None, Some(Err(error))) => BackupStage::Failed(error.to_string()),
            (None, None) => BackupStage::Failed("its journal is not on a disk".to_owned()),
        };
    }

    fn end(&mut self, why: &'static str) {
        let Some(backup) = self.running.take() else { return };
        if let BackupStage::Open(offer, _) = backup.stage {
            tracing::info!(index = offer.index.0, why, "a backup has ended");
            self.ended = Some(EndedBackup { id: offer.id(), why });
        }
    }

    /// Bytes of a base that a newer one than `newest` has replaced and that is kept for a backup.
    fn replaced_bytes(&self, newest: Index) -> u64 {
        match &self.running {
            Some(Backup { stage: BackupStage::Open(offer, _), .. }) if offer.index < newest => {
                offer.bytes
            }
            _ => 0,
        }
    }
}

impl Durability {
    /// BEGIN: another backup, or the progress of `client`'s. With `part` it continues with that base, if it can still
    /// be read.
    ///
    /// # Errors
    /// The failure.
    pub fn begin_backup(
        &mut self,
        client: ClientId,
        part: Option<BaseId>,
        is_there: impl Fn(ClientId) -> bool,
        clock: &TurnClock,
    ) -> Result<BackupProgress, String> {
        let (mono_us, boot) = (clock.mono_us, Micros(clock.timer.boot_us()));
        if let Some(backup) = &self.backups.running
            && backup.owner != client
            && is_there(backup.owner)
        {
            let other = backup.owner;
            return Err(format!(
                "ERR a backup is in progress for the connection with the id {other}"
            ));
        }
        self.take_up_backup(boot);
        let goes_on = self.backups.running.as_ref().is_some_and(|backup| {
            let is_part =
                matches!(&backup.stage, BackupStage::Open(offer, _) if part == Some(offer.id()));
            is_part || backup.owner == client
        });
        if !goes_on {
            let stage = self.first_stage(part, boot)?;
            let backup = Backup { owner: client, asked_us: mono_us, stage, jobs: None };
            self.backups.running = Some(backup);
        }
        self.take_up_backup(boot);
        let (begun, written) = (self.shown.bases_begun, self.base_written());
        let backup = self.backups.running.as_mut().expect("it has begun");
        (backup.owner, backup.asked_us) = (client, mono_us);
        match &backup.stage {
            BackupStage::Failed(why) => {
                let text = format!("ERR {why}");
                self.backups.running = None;
                Err(text)
            }
            BackupStage::Open(offer, _) => {
                Ok(BackupProgress::Ready { offer: *offer, jobs: backup.jobs })
            }
            BackupStage::Awaits(number) if *number <= begun => Ok(BackupProgress::Writes(written)),
            _ => Ok(BackupProgress::Writes(None)),
        }
    }

    /// READ: a piece of it, from `offset` on; none if it was not read yet.
    ///
    /// # Errors
    /// There is no such backup, and why; the file cannot be read.
    pub fn read_backup(
        &mut self,
        client: ClientId,
        id: BaseId,
        offset: u64,
        mono_us: u64,
    ) -> Result<Option<Vec<u8>>, String> {
        let is_its = |backup: &Backup| {
            let is_open = matches!(&backup.stage, BackupStage::Open(offer, _) if offer.id() == id);
            is_open && backup.owner == client
        };
        if !self.backups.running.as_ref().is_some_and(is_its) {
            return Err(self.no_backup(id));
        }
        let Some(Backup { stage: BackupStage::Open(offer, reader), asked_us, .. }) =
            &mut self.backups.running
        else {
            unreachable!("it was looked at")
        };
        if offset >= offer.bytes {
            let bytes = offer.bytes;
            return Err(format!("ERR offset {offset}: the backup has {bytes} bytes"));
        }
        *asked_us = mono_us;
        reader
            .piece(offset, offer.bytes)
            .map_err(|why| format!("ERR the base cannot be read: {why}"))
    }

    /// END: `client` needs it no more.
    pub fn end_backup(&mut self, client: ClientId) {
        if self.backups.running.as_ref().is_some_and(|backup| backup.owner == client) {
            self.backups.end("END was said");
        }
    }

    fn no_backup(&self, id: BaseId) -> String {
        let ended = self.backups.ended.filter(|ended| ended.id == id);
        let why =
            ended.map_or("it belongs to another connection, or ended long ago", |ended| ended.why);
        format!("ERR there is no backup {id}: {why}; DELAY.BACKUP BEGIN begins another")
    }

    /// A client that has a part is given the rest, if the newest base is the one; any other a base that begins now.
    fn first_stage(&mut self, part: Option<BaseId>, boot: Micros) -> Result<BackupStage, String> {
        if let (Some(part), Some(disk)) = (part, &self.disk)
            && self.shown.enabled
            && self.shown.base_index == part.index.0
        {
            let reader = FileReader::start(Arc::clone(disk), self.backups.rate, &self.notifier);
            return Ok(BackupStage::Opens(
                Some(part),
                reader.map_err(|error| format!("ERR {error}"))?,
            ));
        }
        match self.replicated().is_some_and(|node| !node.decides()) {
            true => Ok(BackupStage::Follows(boot)),
            false => self.await_base(),
        }
    }

    /// Whether this node has all that was committed at `at`, as far as it has heard.
    fn is_as_of(&mut self, at: Micros) -> bool {
        let Some(node) = self.replicated().filter(|node| !node.decides()) else { return true };
        let applied = node.position().index.0;
        let heard = node.mailbox.status().and_then(|status| as_of(&status.fresh, applied));
        heard.is_some_and(|heard| heard >= at)
    }

    fn await_base(&mut self) -> Result<BackupStage, String> {
        self.begin_base(true, "Background save")?;
        // One that runs already lacks what was changed since it began.
        Ok(BackupStage::Awaits(self.shown.bases_begun + 1))
    }

    /// Its progress since the last look.
    fn take_up_backup(&mut self, boot: Micros) {
        let Some(mut backup) = self.backups.running.take() else { return };
        backup.stage = match backup.stage {
            BackupStage::Follows(at) if self.is_as_of(at) => {
                self.await_base().unwrap_or_else(failed)
            }
            BackupStage::Follows(at) if boot.0 >= at.0 + BACKUP_FOLLOWS_US => {
                BackupStage::Failed(LACKS.to_owned())
            }
            BackupStage::Opens(part, reader) => match (reader.offer(), part) {
                (None, part) => BackupStage::Opens(part, reader),
                (Some(Ok(offer)), None) => BackupStage::Open(offer, reader),
                (Some(Ok(offer)), Some(part)) if offer.id() == part => {
                    BackupStage::Open(offer, reader)
                }
                (Some(Err(why)), None) => BackupStage::Failed(why),
                (Some(_), Some(_)) => self.first_stage(None, boot).unwrap_or_else(failed),
            },
            // It was given up with the engine that it was one of.
            BackupStage::Awaits(number)
                if number <= self.shown.bases_begun && !self.shown.is_base_in_progress() =>
            {
                self.await_base().unwrap_or_else(failed)
            }
            stage => stage,
        };
        self.backups.running = Some(backup);
    }

    fn base_written(&self) -> Option<(u64, u64)> {
        let compaction = &self.running()?.compaction;
        compaction.images_bytes().map(|bytes| (compaction.written_bytes(), bytes))
    }

    /// The base that was begun last is over.
    pub(super) fn backup_base_ended(&mut self) {
        let (number, failure) = (self.shown.bases_begun, self.shown.last_base_failure.as_deref());
        self.backups.base_ended(number, failure, self.disk.as_ref(), &self.notifier);
    }

    /// Ends a backup that is asked for nothing, or that takes room which the journal needs. Jobs there are make a base of
    /// `live_bytes`.
    pub(super) fn look_at_backup(&mut self, live_bytes: u64, mono_us: u64) {
        let Some(backup) = &self.backups.running else { return };
        if mono_us.saturating_sub(backup.asked_us) > BACKUP_IDLE_US {
            return self.backups.end("there was no request for a minute");
        }
        let Journaling::Running(running) = &self.journaling else { return };
        let bytes = self.backups.replaced_bytes(running.compaction.base_index);
        if bytes > 0 && !running.bears(bytes, live_bytes) {
            self.backups
                .end("the disk needs the space of its base, which a newer one has replaced");
        }
    }
}

fn failed(text: String) -> BackupStage {
    BackupStage::Failed(text.trim_start_matches("ERR ").to_owned())
}

/// A file that a thread reads. The thread ends with this.
#[derive(Debug)]
struct FileReader {
    asks: Sender<u64>,
    told: Arc<Mutex<BackupFindings>>,
    /// The offset that was asked for last.
    asked: Option<u64>,
}

/// The results of the thread; locked for no longer than it takes to move them.
#[derive(Debug, Default)]
struct BackupFindings {
    offer: Option<Result<Offer, String>>,
    /// From which byte on.
    piece: Option<(u64, Result<Vec<u8>, String>)>,
}

impl FileReader {
    fn start(disk: Arc<Disk>, rate: u64, notifier: &Arc<Notifier>) -> io::Result<FileReader> {
        let (asks, asked) = channel();
        let told = Arc::<Mutex<BackupFindings>>::default();
        let (theirs, notifier) = (Arc::clone(&told), Arc::clone(notifier));
        let thread = std::thread::Builder::new().name("backup".to_owned());
        thread.spawn(move || run(&disk, rate, &asked, &theirs, &notifier))?;
        Ok(FileReader { asks, told, asked: None })
    }

    fn offer(&self) -> Option<Result<Offer, String>> {
        lock(&self.told).offer.clone()
    }

    /// The bytes from `offset` on, if they have been read. The following ones are read next.
    fn piece(&mut self, offset: u64, end: u64) -> Result<Option<Vec<u8>>, String> {
        let piece = lock(&self.told).piece.take_if(|(at, _)| *at == offset);
        let Some((_, piece)) = piece else {
            self.ask(offset);
            return Ok(None);
        };
        self.asked = None;
        let piece = piece?;
        let next = offset + piece.len() as u64;
        if next < end {
            self.ask(next);
        }
        Ok(Some(piece))
    }

    fn ask(&mut self, offset: u64) {
        if self.asked.replace(offset) != Some(offset) {
            // A thread that is gone answers nothing: the backup is ended for that, in the end.
            let _ = self.asks.send(offset);
        }
    }
}

/// The thread.
fn run(
    disk: &Disk,
    rate: u64,
    asked: &Receiver<u64>,
    told: &Mutex<BackupFindings>,
    notifier: &Notifier,
) {
    let (offer, file) = match Offer::of_newest(disk) {
        Ok((offer, file)) => (Ok(offer), Some(file)),
        Err(error) => (Err(error.to_string()), None),
    };
    lock(told).offer = Some(offer);
    notifier.notify();
    let Some(file) = file else { return };
    let mut free_at = Instant::now();
    while let Ok(offset) = asked.recv() {
        let mut piece = vec![0; BACKUP_PIECE_BYTES];
        let read = file.read_full(&mut piece, offset).map(|bytes| {
            piece.truncate(bytes);
            piece
        });
        let read = read.map_err(|error| error.to_string());
        std::thread::sleep(free_at.saturating_duration_since(Instant::now()));
        let bytes = read.as_ref().map_or(0, Vec::len);
        free_at = Instant::now() + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        lock(told).piece = Some((offset, read));
        notifier.notify();
    }
}
