//! A base that comes from another node, in pieces: it is kept under a name of its own until it is whole, so that a
//! transfer that was broken off is gone on with.
//!
//! ```text
//! incoming-00000000000000000042-5f0c….tmp    the base up to batch 42 whose header has that salt
//! ```
//!
//! Nothing reads it before it was found whole, and what it replaces stays until it is renamed.

use crate::ids::Index;
use crate::journal::base::{BaseHead, BaseReader, name_of, newest_of, remove_before};
use crate::journal::error::JournalError;
use crate::journal::header::{Found, HEADER_BYTES, Header, Magic};
use crate::journal::state::{Members, Position};
use crate::journal::storage::{File, Storage};
use crate::limits::BASE_SYNC_BYTES;
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
        let Found::Header(header) = Header::decode(&block[..length], Magic::Base) else {
            return Err(io::Error::other(format!("{name} has no whole header")));
        };
        Ok((Offer { index, salt: header.salt, bytes: file.bytes()? }, file))
    }

    fn name(&self) -> String {
        format!("{PREFIX}{:020}-{:016x}{SUFFIX}", self.index.0, self.salt)
    }
}

const PREFIX: &str = "incoming-";
const SUFFIX: &str = ".tmp";

/// The batch with which such a file would end, by its name; none of other files.
fn index_of(name: &str) -> Option<Index> {
    let (index, _) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    index.parse().ok().map(Index)
}

/// Removes what could not take the place of the base up to `index` any more.
pub(super) fn remove_incoming(storage: &impl Storage, index: Index) -> io::Result<()> {
    for name in storage.list()? {
        if index_of(&name).is_some_and(|other| other <= index) {
            storage.remove(&name)?;
        }
    }
    Ok(())
}

/// A base on its way here.
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
    /// Of the folder.
    pub fn begin(
        storage: &Arc<S>,
        offer: Offer,
        keep: &dyn Fn(Index) -> bool,
    ) -> io::Result<Incoming<S>> {
        let own = offer.name();
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

    /// How much of it is there, bytes.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Whether all of it is there.
    pub fn is_whole(&self) -> bool {
        self.at == self.offer.bytes
    }

    /// Appends the next piece.
    ///
    /// # Errors
    /// There is no room; or it is longer than was said, of which nothing is written.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.at + piece.len() as u64 > self.offer.bytes {
            return Err(io::Error::other("more came than was said"));
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

    /// Reads it through; `moves` is called now and then. It is durable when this returns, under its own name.
    ///
    /// # Errors
    /// It is not whole, or not what was written: then it is removed, so that another attempt begins anew.
    pub fn finish(self, moves: &mut dyn FnMut()) -> Result<Arrived, JournalError> {
        let name = self.offer.name();
        let read = self.read(&name, moves);
        if read.is_err() {
            // What cannot be removed now is removed by the next attempt.
            let _ = self.storage.remove(&name);
        }
        read
    }

    fn read(&self, name: &str, moves: &mut dyn FnMut()) -> Result<Arrived, JournalError> {
        self.file.sync().map_err(JournalError::io(name, "sync"))?;
        let index = self.offer.index;
        let mut reader = BaseReader::open_as(&*self.storage, name, Some(index))?;
        let mut moved_at = 0;
        while reader.next_images()?.is_some() {
            if reader.offset() - moved_at >= MOVE_BYTES {
                moved_at = reader.offset();
                moves();
            }
        }
        let head = reader.head().expect("a base that was read to its end has told its head");
        let members = reader.members().cloned();
        Ok(Arrived { offer: self.offer, head, members, is_in_place: false })
    }
}

/// Read between two signs of life: some 10 ms.
const MOVE_BYTES: u64 = 16 << 20;

impl<S: Storage> std::fmt::Debug for Incoming<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("offer", &self.offer).finish_non_exhaustive()
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
    /// The last batch that it covers, its epoch, and the sequence of the fact behind it.
    pub fn position(&self) -> Position {
        let BaseHead { index, epoch, first, .. } = self.head;
        Position { index, epoch, first }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.offer.bytes
    }

    /// Puts it in the place of this folder's own bases, durably; once, however often this is called. The log is to
    /// [begin behind it](crate::journal::Log::restart_behind) then: a start does so if a crash comes between.
    ///
    /// # Errors
    /// Of the folder.
    pub fn put_in_place(&mut self, storage: &impl Storage) -> io::Result<()> {
        if self.is_in_place {
            return Ok(());
        }
        storage.rename(&self.offer.name(), &name_of(self.offer.index))?;
        storage.sync_dir()?;
        self.is_in_place = true;
        remove_before(storage, self.offer.index)?;
        remove_incoming(storage, self.offer.index)
    }
}
