//! Base files: the whole state as of an index, beside the log.
//!
//! ```text
//! base-00000000000000000042.base
//! offset 0     header, 4096 bytes: as a segment's, with its own magic; generation and first = 42
//! offset 4096  batch 1: images        (kind 1, count 1)
//!              batch 2: images
//!              …
//!              the last batch: count 0, the sequence of the fact that follows, the time of batch 42
//!              of the log; its body is the number of batches before it, u64
//! ```
//!
//! It is written as `….tmp`, synced and renamed, and the folder is synced; only then the log loses
//! what the base covers. So a crash at any point leaves the old base with the whole log, or the new
//! one. What is called `.base` is complete: if it is not, it is damaged.

use crate::ids::Index;
use crate::journal::error::JournalError;
use crate::journal::header::{Found, HEADER_BYTES, Header, Magic};
use crate::journal::record::{self, HEAD_BYTES, Head, Kind, Seed};
use crate::journal::segment::draw_salt;
use crate::journal::storage::{File, Storage};
use crate::journal::stream::{Place, Stream};
use crate::limits::{BASE_SYNC_BYTES, FILE_PIECE_BYTES};
use crate::time::Micros;
use std::io;
use std::sync::Arc;

/// What a base begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct BaseHead {
    /// The last batch of the log that it covers.
    pub index: Index,
    /// The sequence of the fact behind that batch.
    pub first: u64,
    /// The time of that batch; no later time has been seen.
    pub now: Micros,
    pub epoch: u64,
    /// The shard; 0.
    pub shard: u16,
}

/// The name of the base up to `index`.
pub fn name_of(index: Index) -> String {
    format!("base-{:020}.base", index.0)
}

/// The index that a base covers, by its name; none for other files.
pub fn index_of(name: &str) -> Option<Index> {
    let digits = name.strip_prefix("base-")?.strip_suffix(".base")?;
    let index = Index(digits.parse().ok()?);
    (name_of(index) == name).then_some(index)
}

/// Whether a file is a base that was never finished.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with("base-") && name.ends_with(".tmp")
}

/// A base being written.
pub struct BaseWriter<S: Storage> {
    storage: Arc<S>,
    file: S::File,
    unfinished: String,
    head: BaseHead,
    seed: Seed,
    at: u64,
    synced_at: u64,
    batches: u64,
    buffer: Vec<u8>,
}

impl<S: Storage> BaseWriter<S> {
    /// Creates the file.
    pub fn begin(storage: &Arc<S>, head: BaseHead) -> io::Result<BaseWriter<S>> {
        let unfinished = name_of(head.index).replace(".base", ".tmp");
        let file = storage.create(&unfinished)?;
        let (BaseHead { index, shard, .. }, salt) = (head, draw_salt()?);
        let header = Header { shard, generation: index.0, salt, first: index.0, bytes: 0 };
        let mut writer = BaseWriter {
            storage: Arc::clone(storage),
            file,
            unfinished,
            head,
            seed: header.seed(),
            at: HEADER_BYTES,
            synced_at: 0,
            batches: 0,
            buffer: Vec::new(),
        };
        match writer.file.write_at(&header.encode(Magic::Base)[..], 0) {
            Ok(()) => Ok(writer),
            Err(error) => {
                writer.remove();
                Err(error)
            }
        }
    }

    /// Appends images, whole ones. After an error the base is to be [abandoned](Self::abandon).
    pub fn write(&mut self, images: &[u8]) -> io::Result<()> {
        self.push(1, images)?;
        if self.at - self.synced_at >= BASE_SYNC_BYTES {
            self.file.sync()?;
            self.synced_at = self.at;
        }
        Ok(())
    }

    /// Its size so far, bytes.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Completes the base, puts it in place and removes those before it. Returns what it covers and
    /// its size in bytes. After an error nothing of it is left, or it is in place as a whole.
    pub fn finish(mut self) -> io::Result<(Index, u64)> {
        let finished = self.put_in_place();
        if finished.is_err() {
            self.remove();
        }
        finished?;
        for name in self.storage.list()? {
            if index_of(&name).is_some_and(|index| index < self.head.index) {
                self.storage.remove(&name)?;
            }
        }
        Ok((self.head.index, self.at))
    }

    /// Gives the base up.
    pub fn abandon(mut self) {
        self.remove();
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        let batches = self.batches.to_le_bytes();
        self.push(0, &batches)?;
        self.file.sync()?;
        self.storage.rename(&self.unfinished, &name_of(self.head.index))?;
        self.storage.sync_dir()
    }

    fn push(&mut self, count: u32, body: &[u8]) -> io::Result<()> {
        self.batches += 1;
        let BaseHead { index, first, now, epoch, shard, .. } = self.head;
        let head = Head {
            kind: Kind::Images,
            shard,
            index: Index(self.batches),
            epoch,
            first,
            durable: index,
            now,
            count,
            length: 0,
            body_crc: 0,
        };
        self.buffer.clear();
        record::push(&mut self.buffer, head, body, self.seed);
        self.file.write_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        // A body of hundreds of MiB is not kept in memory for the sake of the next.
        self.buffer.shrink_to(FILE_PIECE_BYTES);
        Ok(())
    }

    fn remove(&mut self) {
        // What cannot be removed now is removed at the next start.
        let _ = self.storage.remove(&self.unfinished);
    }
}

/// A base being read.
pub struct BaseReader<S: Storage> {
    file: S::File,
    name: String,
    seed: Seed,
    index: Index,
    bytes: u64,
    /// Where the next batch begins.
    at: u64,
    stream: Stream,
    batches: u64,
    head: Option<BaseHead>,
}

impl<S: Storage> BaseReader<S> {
    /// Opens a base.
    pub fn open(storage: &S, name: &str) -> Result<BaseReader<S>, JournalError> {
        let file = storage.open(name).map_err(JournalError::io(name, "open"))?;
        let bytes = file.bytes().map_err(JournalError::io(name, "read"))?;
        let mut block = vec![0; HEADER_BYTES as usize];
        let length = file.read_full(&mut block, 0).map_err(JournalError::io(name, "read"))?;
        let damaged = |what: &str| {
            let (file, what) = (name.to_owned(), what.to_owned());
            Err(JournalError::Damaged { file, offset: 0, what })
        };
        let header = match Header::decode(&block[..length], Magic::Base) {
            Found::Header(header) => header,
            Found::Version(found) => {
                let known = crate::journal::header::FILE_VERSION;
                return Err(JournalError::Version { file: name.to_owned(), found, known });
            }
            Found::Zeros | Found::Broken => return damaged("the header is not what was written"),
        };
        if index_of(name) != Some(Index(header.first)) {
            return damaged("the header is that of another base");
        }
        Ok(BaseReader {
            file,
            name: name.to_owned(),
            seed: header.seed(),
            index: Index(header.first),
            bytes,
            at: HEADER_BYTES,
            stream: Stream::new(FILE_PIECE_BYTES),
            batches: 0,
            head: None,
        })
    }

    /// Its size, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How far it has been read, bytes.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// The next images; none at the end, where [`head`](Self::head) is known.
    pub fn next_images(&mut self) -> Result<Option<&[u8]>, JournalError> {
        if self.head.is_some() {
            return Ok(None);
        }
        let offset = self.at;
        let place = self.stream.examine(&self.file, offset, self.seed);
        let head = match place.map_err(JournalError::io(&self.name, "read"))? {
            Place::Batch(head) => head,
            Place::Bad(why) => return Err(self.damaged(offset, why)),
        };
        self.batches += 1;
        let fits = head.kind == Kind::Images
            && head.index == Index(self.batches)
            && head.durable == self.index;
        if !fits {
            return Err(self.damaged(offset, "a batch that is not of this base"));
        }
        self.at += head.span();
        if head.count == 0 {
            return self.end(offset, &head).map(|()| None);
        }
        Ok(Some(self.stream.buffered(offset + HEAD_BYTES as u64, head.length as usize)))
    }

    /// What its last batch tells.
    pub fn head(&self) -> Option<BaseHead> {
        self.head
    }

    /// For an image that cannot be read though its checksum is right.
    pub fn damaged(&self, offset: u64, what: &str) -> JournalError {
        JournalError::Damaged { file: self.name.clone(), offset, what: what.to_owned() }
    }

    fn end(&mut self, offset: u64, head: &Head) -> Result<(), JournalError> {
        let count = self.stream.buffered(offset + HEAD_BYTES as u64, head.length as usize);
        if count != (self.batches - 1).to_le_bytes() || self.at != self.bytes {
            return Err(self.damaged(offset, "its last batch does not fit"));
        }
        let Head { first, now, epoch, shard, .. } = *head;
        self.head = Some(BaseHead { index: self.index, first, now, epoch, shard });
        Ok(())
    }
}

impl<S: Storage> std::fmt::Debug for BaseWriter<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseWriter").finish_non_exhaustive()
    }
}

impl<S: Storage> std::fmt::Debug for BaseReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseReader").finish_non_exhaustive()
    }
}
