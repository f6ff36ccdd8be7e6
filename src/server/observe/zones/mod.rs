//! Tables of time zones: reading them for the engine, and finding newer ones. They are read on a thread of their own
//! that ends with that: it takes some ms for 600 files, but may take forever if a folder's disk does not answer, so the
//! keeper of the journal, which a server need not have, cannot do it.

mod folder;
mod source;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::config::options::Name;
use crate::engine::model::schedule::ZonesChange;
use crate::engine::{Missed, MissedNotes};
use crate::limits::ZONES_LOOK_US;
use crate::server::connection::wake::Notifier;
use source::Places;
pub use source::{SYSTEM, Tables, year};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Tables, none if nothing has changed, or why there are none.
type Looked = Result<Option<Tables>, String>;

#[derive(Debug)]
pub struct ZoneTables {
    pub used: Tables,
    system: Option<PathBuf>,
    /// Notified when tables have been read; without it they are read synchronously.
    notifier: Option<Arc<Notifier>>,
    /// When they are looked at next, monotonic, µs; none before the first turn.
    look_at_us: Option<u64>,
    reading: Option<Receiver<Looked>>,
}

impl Default for ZoneTables {
    /// Those in the program, without looking at the machine's.
    fn default() -> ZoneTables {
        ZoneTables {
            used: Tables::bundled(),
            system: None,
            notifier: None,
            look_at_us: None,
            reading: None,
        }
    }
}

impl ZoneTables {
    /// The tables selected by the options, at the start; the text says why there are none. Synchronous: no client waits
    /// yet.
    pub fn read(config: &Config, system: Option<&str>) -> Result<ZoneTables, String> {
        let zones = ZoneTables { system: system.map(PathBuf::from), ..ZoneTables::default() };
        let used = zones.places(config).read().map_err(|why| format!("tzdata {why}"))?;
        Ok(ZoneTables { used, ..zones })
    }

    /// From here on tables are read in the background.
    pub fn tell(&mut self, notifier: Arc<Notifier>) {
        self.notifier = Some(notifier);
    }

    /// Whether there are tables where the options say; the text says why not.
    pub fn check(&self, config: &Config) -> Result<(), String> {
        self.places(config).check()
    }

    /// Reads what the options mean, whether it has changed or not.
    pub fn read_again(&mut self, config: &Config, mono_us: u64) {
        self.begin(self.places(config), None, mono_us);
    }

    /// Once an hour: begins to look whether there are other tables.
    pub fn look(&mut self, config: &Config, mono_us: u64) {
        let at_us = *self.look_at_us.get_or_insert(mono_us + ZONES_LOOK_US);
        // Where one does not come to its end no other is begun.
        if mono_us >= at_us && self.reading.is_none() {
            self.begin(self.places(config), Some(self.used.clone()), mono_us);
        }
    }

    /// Whether other tables have come; they are used from here on.
    pub fn take(&mut self) -> bool {
        let Some(reading) = &self.reading else { return false };
        let looked = match reading.try_recv() {
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => Err("reading them has failed".to_owned()),
            Ok(looked) => looked,
        };
        self.reading = None;
        match looked {
            Ok(Some(tables)) => self.used = tables,
            Ok(None) => return false,
            Err(why) => {
                tracing::warn!("zones stay those of {}: {why}", self.used);
                return false;
            }
        }
        tracing::info!("zones are those of {}", self.used);
        true
    }

    fn places(&self, config: &Config) -> Places {
        Places { choice: config.text(Name::Tzdata).to_owned(), system: self.system.clone() }
    }

    fn begin(&mut self, places: Places, known: Option<Tables>, mono_us: u64) {
        self.look_at_us = Some(mono_us + ZONES_LOOK_US);
        let (sender, reading) = channel();
        self.reading = Some(reading);
        let notifier = self.notifier.clone();
        let read = move || {
            // A newer request does not wait for it.
            let _ = sender.send(places.read_if_other(known.as_ref()));
            notifier.iter().for_each(|notifier| notifier.notify());
        };
        if self.notifier.is_none() {
            return read();
        }
        if let Err(error) = std::thread::Builder::new().name("zones".to_owned()).spawn(read) {
            self.reading = None;
            tracing::warn!("zones stay those of {}: no thread to look: {error}", self.used);
        }
    }
}

/// Says which occurrences of schedules were missed.
pub fn log_missed(missed: &MissedNotes) {
    for Missed { queue, schedule, count, why, newest } in &missed.noted {
        let (queue, schedule) = (queue.escape_ascii(), schedule.escape_ascii());
        tracing::warn!(
            "schedule {schedule} of queue {queue}: {count} missed ({}), the newest was due @{}",
            why.word(),
            newest.0
        );
    }
    if missed.left_out > 0 {
        tracing::warn!("{} more were told of missed occurrences of schedules", missed.left_out);
    }
}

/// Tells the log what other tables came to.
pub fn log_change(change: ZonesChange, version: &str) {
    let ZonesChange { moved, unknown } = change;
    let schedules = |count: u64| if count == 1 { "schedule" } else { "schedules" };
    if moved > 0 {
        tracing::info!("{moved} {} moved by tzdata {version}", schedules(moved));
    }
    if unknown > 0 {
        let are = if unknown == 1 { "is" } else { "are" };
        tracing::warn!(
            "{unknown} {} {are} held: tzdata {version} does not know the zone, or the pattern cannot be read",
            schedules(unknown)
        );
    }
}
