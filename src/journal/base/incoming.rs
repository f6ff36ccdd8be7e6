//! A base that comes from another node, in pieces: it is kept under a name of its own until it is whole, so that a
//! transfer that was broken off is gone on with.
//!
//! ```text
//! incoming-00000000000000000042-5f0c….tmp    the base up to batch 42 whose header has that salt
//! ```
//!
//! Nothing reads it before it was found whole, and what it replaces stays until it is renamed.

use crate::ids::Index;
use crate::journal::base::{
    BaseHead, BaseReader, index_of as index_of_base, name_of, newest_of, remove_before,
};
use crate::journal::error::JournalError;
use crate::journal::record::header::{FoundHeader, HEADER_BYTES, Header, Magic};
use crate::journal::record::raft_state::{LogPosition, Members};
use crate::journal::storage::{File, Storage};
use crate::limits::{BACKUP_OPENS, BASE_SYNC_BYTES};
use crate::time::Micros;
use std::io;
use std::sync::Arc;

/// Which base file it is: no two have all of this in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The last batch that it covers.
    pub index: Index,
    /// Drawn when it was written.
    pub salt: u64,
    /// Its size.
    pub bytes: u64,
}

impl Offer {
    /// The base up to `index` of this folder, and its file.
    ///
    /// # Errors
    /// It is not there any more, or cannot be read.
    pub fn of<S: Storage>(storage: &S, index: Index) -> io::Result<(Offer, S::File)> {
        let name = newest_of(storage.list()?.into_iter().filter(|name| *name == name_of(index)));
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let file = storage.open(&name)?;
        let mut block = vec![0; HEADER_BYTES as usize];
        let length = file.read_full(&mut block, 0)?;
        let FoundHeader::Header(header) = Header::decode(&block[..length], Magic::Base) else {
            return Err(io::Error::other(format!("{name} has no complete header")));
        };
        Ok((Offer { index, salt: header.salt, bytes: file.bytes()? }, file))
    }

    /// The newest base of this folder, and its file. One that is replaced between the look and the opening is looked for again.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    pub fn of_newest<S: Storage>(storage: &S) -> io::Result<(Offer, S::File)> {
        let mut left = BACKUP_OPENS;
        loop {
            let index = storage.list()?.iter().filter_map(|name| index_of_base(name)).max();
            let index = index.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            match Offer::of(storage, index) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && left > 0 => left -= 1,
                found => return found,
            }
        }
    }

    pub fn id(&self) -> BaseId {
        BaseId { index: self.index, salt: self.salt }
    }
}

/// Which base it is, whatever its file is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BaseId {
    /// The last batch that it covers.
    pub index: Index,
    /// Drawn when it was written.
    pub salt: u64,
}

impl BaseId {
    /// Reads one as it is written.
    pub fn read(text: &str) -> Option<BaseId> {
        let (index, salt) = text.split_once('-')?;
        let read =
            BaseId { index: Index(index.parse().ok()?), salt: u64::from_str_radix(salt, 16).ok()? };
        (read.to_string() == text).then_some(read)
    }

    /// The file that a part of it is in.
    pub fn part_name(self) -> String {
        format!("{PREFIX}{:020}-{:016x}{SUFFIX}", self.index.0, self.salt)
    }
}

impl std::fmt::Display for BaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{:016x}", self.index, self.salt)
    }
}

const PREFIX: &str = "incoming-";
const SUFFIX: &str = ".tmp";

/// The batch with which such a file would end, by its name; none of other files.
fn index_of(name: &str) -> Option<Index> {
    part_of(name).map(|id| id.index)
}

fn part_of(name: &str) -> Option<BaseId> {
    let (index, salt) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    Some(BaseId { index: Index(index.parse().ok()?), salt: u64::from_str_radix(salt, 16).ok()? })
}

/// The base of which this folder has a part, from a transfer that was broken off: the newest.
///
/// # Errors
/// The part in the folder.
pub fn part_in<S: Storage>(storage: &S) -> io::Result<Option<BaseId>> {
    let parts = storage.list()?;
    Ok(parts.iter().filter_map(|name| part_of(name)).max_by_key(|id| id.index))
}

/// Removes what could not take the place of the base up to `index` any more.
pub(in crate::journal) fn remove_incoming(storage: &impl Storage, index: Index) -> io::Result<()> {
    for name in storage.list()? {
        if index_of(&name).is_some_and(|other| other <= index) {
            storage.remove(&name)?;
        }
    }
    Ok(())
}

/// A base on its way here.
#[derive(Debug)]
pub struct Incoming<S: Storage> {
    storage: Arc<S>,
    file: S::File,
    offer: Offer,
    at: u64,
    synced_at: u64,
}

impl<S: Storage> Incoming<S> {
    /// Goes on with what is there of it, or begins. Parts of others are removed, but those that `keep` says are whole.
    ///
    /// # Errors
    /// The part in the folder.
    pub fn begin(
        storage: &Arc<S>,
        offer: Offer,
        keep: &dyn Fn(Index) -> bool,
    ) -> io::Result<Incoming<S>> {
        let own = offer.id().part_name();
        let mut begun = None;
        for name in storage.list()? {
            let Some(index) = index_of(&name) else { continue };
            if name == own {
                let file = storage.open(&name)?;
                begun = Some((file.bytes()?, file));
            } else if !keep(index) {
                storage.remove(&name)?;
            }
        }
        let (at, file) = match begun {
            Some((at, file)) if at <= offer.bytes => (at, file),
            Some(_) => {
                storage.remove(&own)?;
                (0, storage.create(&own)?)
            }
            None => (0, storage.create(&own)?),
        };
        Ok(Incoming { storage: Arc::clone(storage), file, offer, at, synced_at: at })
    }

    pub fn bytes(&self) -> u64 {
        self.at
    }

    pub fn is_whole(&self) -> bool {
        self.at == self.offer.bytes
    }

    /// Appends the next piece.
    ///
    /// # Errors
    /// There is no room; or it is longer than was said, of which nothing is written.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.at + piece.len() as u64 > self.offer.bytes {
            return Err(io::Error::other("more data arrived than announced"));
        }
        self.file.write_at(piece, self.at)?;
        self.at += piece.len() as u64;
        // Not all at the end, where it would take seconds.
        if self.at - self.synced_at >= BASE_SYNC_BYTES {
            self.file.sync()?;
            self.synced_at = self.at;
        }
        Ok(())
    }

    /// Reads it through; `visit` is shown all images, and the offset where they begin. It is durable when this returns, under
    /// its own name.
    ///
    /// # Errors
    /// It is incomplete, or not what was written: then it is removed, so that another attempt begins from the start.
    pub fn finish(self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<Arrived, JournalError> {
        let name = self.offer.id().part_name();
        let read = self.read(&name, visit);
        if read.is_err() {
            // A file that cannot be removed now is removed by the next attempt.
            let _ = self.storage.remove(&name);
        }
        read
    }

    fn read(&self, name: &str, visit: &mut dyn FnMut(u64, &[u8])) -> Result<Arrived, JournalError> {
        self.file.sync().map_err(JournalError::io(name, "sync"))?;
        let index = self.offer.index;
        let mut reader = BaseReader::open_as(&*self.storage, name, Some(index))?;
        loop {
            let offset = reader.offset();
            let Some(images) = reader.next_images()? else { break };
            visit(offset, images);
        }
        let head = reader.head().expect("a base that was read to its end has told its head");
        let members = reader.members().cloned();
        Ok(Arrived { offer: self.offer, head, members, is_in_place: false })
    }
}

/// A base that has arrived whole.
#[derive(Clone, Debug)]
pub struct Arrived {
    offer: Offer,
    head: BaseHead,
    /// As of its last batch.
    pub members: Option<Members>,
    is_in_place: bool,
}

impl Arrived {
    /// The last batch that it covers, its epoch, and the sequence of the next fact.
    pub fn position(&self) -> LogPosition {
        let BaseHead { index, epoch, first, .. } = self.head;
        LogPosition { index, epoch, first }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.offer.bytes
    }

    /// The instant of its last batch.
    pub fn now(&self) -> Micros {
        self.head.now
    }

    /// Puts it in the place of this folder's own bases, durably; once, however often this is called. [Restart the log
    /// after it](crate::journal::Log::restart_behind) then: a start does so if a crash comes between.
    ///
    /// # Errors
    /// The part in the folder.
    pub fn put_in_place(&mut self, storage: &impl Storage) -> io::Result<()> {
        if self.is_in_place {
            return Ok(());
        }
        storage.rename(&self.offer.id().part_name(), &name_of(self.offer.index))?;
        storage.sync_dir()?;
        self.is_in_place = true;
        remove_before(storage, self.offer.index)?;
        remove_incoming(storage, self.offer.index)
    }
}
