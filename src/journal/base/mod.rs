//! Base files: the whole state as of an index, in addition to the log.
//!
//! ```text
//! base-0000-00000000000000000042.base    of shard 0, up to batch 42
//! offset 0     header, 4096 bytes: as a segment's, with its own magic; generation and first = 42
//! offset 4096  record 1: images        (kind 1, count 1; lsn 1, index and committed 42)
//!              record 2: images
//!              …
//!              the last record: count 0, the epoch and the time of batch 42 of the log, the sequence of
//!              the fact that follows; its body is the number of records before it, u64, and of a member
//!              of a cluster who the members are as of 42: u64 epoch, u64 index of the batch that told,
//!              and what it told
//! ```
//!
//! Version 1 is read: `base-00000000000000000042.base`, with 42 in place of `durable`, and without members.
//!
//! It is written as `….tmp`, synced and renamed, and the folder is synced; only then does the log
//! drop what the base covers. So a crash at any point leaves the old base with the whole log, or
//! the new one. A file called `.base` is complete: otherwise it is damaged.

pub mod counted;
pub(super) mod incoming;

use crate::engine::Engine;
use crate::ids::Index;
use crate::journal::base::incoming::remove_incoming;
use crate::journal::error::JournalError;
use crate::journal::log::segment::draw_salt;
use crate::journal::record::header::{FILE_VERSION, FoundHeader, HEADER_BYTES, Header, Magic};
use crate::journal::record::raft_state::{LogPosition, Members};
use crate::journal::record::stream::{FoundAt, RecordStream};
use crate::journal::record::{self, Head, RECORD_VERSION, RecordKind, Seed};
use crate::journal::storage::{File, Storage};
use crate::limits::{
    BASE_IMAGE_BYTES_AT_ONCE, BASE_IMAGES_AT_ONCE, BASE_SYNC_BYTES, FILE_PIECE_BYTES,
    MEMBERS_BYTES_MAX, REST_MAX, REST_TIMES,
};
use crate::time::Micros;
use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BaseHead {
    /// The last batch of the log that it covers.
    pub index: Index,
    /// The sequence of the next fact after that batch.
    pub first: u64,
    /// The time of that batch; no later time has been seen.
    pub now: Micros,
    pub epoch: u64,
    /// The shard; 0.
    pub shard: u16,
}

/// The shard of a journal that has one.
const SHARD: u16 = 0;

/// Makes way for a log on the same disk, after a piece of a base whose writing began then: rests [`REST_TIMES`] as long,
/// [`REST_MAX`] at most.
pub fn rest_after(began: Instant) {
    sleep((began.elapsed() * REST_TIMES).min(REST_MAX));
}

/// The name of the base up to `index`.
pub fn name_of(index: Index) -> String {
    format!("base-{SHARD:04}-{:020}.base", index.0)
}

/// Its name in version 1.
fn name_of_1(index: Index) -> String {
    format!("base-{:020}.base", index.0)
}

/// The index that a base covers, by its name; none for other files.
pub fn index_of(name: &str) -> Option<Index> {
    let digits = name.strip_prefix("base-")?.strip_suffix(".base")?;
    let digits = digits.split_once('-').map_or(digits, |(_, digits)| digits);
    let index = Index(digits.parse().ok()?);
    (name_of(index) == name || name_of_1(index) == name).then_some(index)
}

pub fn newest_of(names: impl Iterator<Item = String>) -> Option<String> {
    let bases = names.filter_map(|name| Some((index_of(&name)?, name)));
    bases.max().map(|(_, name)| name)
}

/// Whether a file is a base that was never finished.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with("base-") && name.ends_with(".tmp")
}

/// Removes the bases that the one up to `index` replaces.
pub(super) fn remove_before(storage: &impl Storage, index: Index) -> io::Result<()> {
    for name in storage.list()? {
        let of_its_own = name == name_of(index);
        if index_of(&name).is_some_and(|other| other <= index) && !of_its_own {
            storage.remove(&name)?;
        }
    }
    Ok(())
}

#[derive(Debug)]
pub struct BaseWriter<S: Storage> {
    storage: Arc<S>,
    file: S::File,
    unfinished: String,
    head: BaseHead,
    seed: Seed,
    at: u64,
    synced_at: u64,
    batches: u64,
    members: Option<Members>,
    buffer: Vec<u8>,
}

impl<S: Storage> BaseWriter<S> {
    pub fn begin(storage: &Arc<S>, head: BaseHead) -> io::Result<BaseWriter<S>> {
        let unfinished = name_of(head.index).replace(".base", ".tmp");
        let file = storage.create(&unfinished)?;
        let (BaseHead { index, shard, .. }, salt) = (head, draw_salt()?);
        let (version, generation, first) = (FILE_VERSION, index.0, index.0);
        let header = Header { version, shard, generation, salt, first, bytes: 0 };
        let mut writer = BaseWriter {
            storage: Arc::clone(storage),
            file,
            unfinished,
            head,
            seed: header.seed(),
            at: HEADER_BYTES,
            synced_at: 0,
            batches: 0,
            members: None,
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

    /// Appends whole images. After an error [abandon](Self::abandon) the base.
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

    /// The members as of its batch.
    ///
    /// # Panics
    /// If a later batch defined it, or the body is larger than [`MEMBERS_BYTES_MAX`].
    pub fn set_members(&mut self, members: Members) {
        assert!(members.index <= self.head.index, "members of a batch that it does not cover");
        assert!(members.body.len() <= MEMBERS_BYTES_MAX, "members of {} bytes", members.body.len());
        self.members = Some(members);
    }

    /// Completes the base, puts it in place and removes those before it. Returns what it covers and
    /// its size in bytes. After an error nothing of it is left, or it is in place as a whole.
    pub fn finish(mut self) -> io::Result<(Index, u64)> {
        let finished = self.put_in_place();
        if finished.is_err() {
            self.remove();
        }
        finished?;
        remove_before(&*self.storage, self.head.index)?;
        remove_incoming(&*self.storage, self.head.index)?;
        Ok((self.head.index, self.at))
    }

    pub fn abandon(mut self) {
        self.remove();
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        let mut body = self.batches.to_le_bytes().to_vec();
        if let Some(Members { epoch, index, body: told }) = &self.members {
            body.extend([*epoch, index.0].iter().flat_map(|value| value.to_le_bytes()));
            body.extend_from_slice(told);
        }
        self.push(0, &body)?;
        self.file.sync()?;
        self.storage.rename(&self.unfinished, &name_of(self.head.index))?;
        self.storage.sync_dir()
    }

    fn push(&mut self, count: u32, body: &[u8]) -> io::Result<()> {
        self.batches += 1;
        let BaseHead { index, first, now, epoch, shard, .. } = self.head;
        let head = Head {
            version: RECORD_VERSION,
            kind: RecordKind::Images,
            shard,
            lsn: self.batches,
            durable: 0,
            index,
            epoch,
            node: 0,
            first,
            now,
            committed: index,
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
        // A file that cannot be removed now is removed at the next start.
        let _ = self.storage.remove(&self.unfinished);
    }
}

/// Writes a base of all that an engine which does not run holds, puts it in place and removes those before it. A disk that is
/// full or fails leaves none. With `part`: of one partition of so many.
pub(super) fn write_all<S: Storage>(
    storage: &Arc<S>,
    engine: &mut Engine,
    head: BaseHead,
    members: Option<Members>,
    part: Option<(u16, u16)>,
) -> io::Result<()> {
    let mut base = BaseWriter::begin(storage, head)?;
    members.into_iter().for_each(|members| base.set_members(members));
    match part {
        None => engine.begin_base(),
        Some((partition, count)) => engine.begin_part(partition, count),
    }
    loop {
        let is_whole = engine.base_slice(BASE_IMAGES_AT_ONCE, BASE_IMAGE_BYTES_AT_ONCE);
        let images = std::mem::take(engine.base_output());
        if !images.is_empty()
            && let Err(error) = base.write(&images)
        {
            base.abandon();
            return Err(error);
        }
        if is_whole {
            return base.finish().map(drop);
        }
    }
}

#[derive(Debug)]
pub struct BaseReader<S: Storage> {
    file: S::File,
    name: String,
    seed: Seed,
    index: Index,
    bytes: u64,
    /// Where the next batch begins.
    at: u64,
    stream: RecordStream,
    batches: u64,
    head: Option<BaseHead>,
    members: Option<Members>,
}

impl<S: Storage> BaseReader<S> {
    pub fn open(storage: &S, name: &str) -> Result<BaseReader<S>, JournalError> {
        BaseReader::open_as(storage, name, index_of(name))
    }

    /// Opens a base that may have another name than is its own, and ends with batch `index`.
    pub(super) fn open_as(
        storage: &S,
        name: &str,
        index: Option<Index>,
    ) -> Result<BaseReader<S>, JournalError> {
        let file = storage.open(name).map_err(JournalError::io(name, "open"))?;
        let bytes = file.bytes().map_err(JournalError::io(name, "read"))?;
        let mut block = vec![0; HEADER_BYTES as usize];
        let length = file.read_full(&mut block, 0).map_err(JournalError::io(name, "read"))?;
        let damaged = |what: &str| {
            let (file, what) = (name.to_owned(), what.to_owned());
            Err(JournalError::Damaged { file, offset: 0, what })
        };
        let header = match Header::decode(&block[..length], Magic::Base) {
            FoundHeader::Header(header) => header,
            FoundHeader::Version(found) => {
                let known = crate::journal::record::header::FILE_VERSION;
                return Err(JournalError::Version { file: name.to_owned(), found, known });
            }
            FoundHeader::Zeros | FoundHeader::Broken => {
                return damaged("the header is not what was written");
            }
        };
        if index != Some(Index(header.first)) {
            return damaged("the header is that of another base");
        }
        Ok(BaseReader {
            file,
            name: name.to_owned(),
            seed: header.seed(),
            index: Index(header.first),
            bytes,
            at: HEADER_BYTES,
            stream: RecordStream::new(FILE_PIECE_BYTES),
            batches: 0,
            head: None,
            members: None,
        })
    }

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
            FoundAt::Record(head) => head,
            FoundAt::Bad(why) => return Err(self.damaged(offset, why)),
        };
        self.batches += 1;
        let of = if head.version == 1 { head.durable } else { head.index.0 };
        let fits =
            head.kind == RecordKind::Images && head.lsn == self.batches && of == self.index.0;
        if !fits {
            return Err(self.damaged(offset, "a batch that is not of this base"));
        }
        self.at += head.span();
        if head.count == 0 {
            return self.end(offset, &head).map(|()| None);
        }
        Ok(Some(self.stream.buffered(offset + head.body_at(), head.length as usize)))
    }

    /// The information at its end.
    pub fn head(&self) -> Option<BaseHead> {
        self.head
    }

    /// The members as of its last batch, once it was read to its end; none for a standalone server.
    pub fn members(&self) -> Option<&Members> {
        self.members.as_ref()
    }

    /// For an image that cannot be read though its checksum is right.
    pub fn damaged(&self, offset: u64, what: &str) -> JournalError {
        JournalError::Damaged { file: self.name.clone(), offset, what: what.to_owned() }
    }

    fn end(&mut self, offset: u64, head: &Head) -> Result<(), JournalError> {
        let body = self.stream.buffered(offset + head.body_at(), head.length as usize);
        let fits = body.starts_with(&(self.batches - 1).to_le_bytes()) && self.at == self.bytes;
        let members = body.get(8..).and_then(|told| members_of(told, self.index));
        let (Some(members), true) = (members, fits) else {
            return Err(self.damaged(offset, "its last batch does not fit"));
        };
        self.members = members;
        let Head { first, now, epoch, shard, .. } = *head;
        self.head = Some(BaseHead { index: self.index, first, now, epoch, shard });
        Ok(())
    }
}

/// The members at the end of a base, if any; nothing if that cannot be read.
fn members_of(told: &[u8], covered: Index) -> Option<Option<Members>> {
    if told.is_empty() {
        return Some(None);
    }
    let (numbers, body) = told.split_at_checked(16)?;
    let long = |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().expect("8 bytes"));
    let members = Members { epoch: long(0), index: Index(long(8)), body: body.to_vec() };
    let fits = members.index <= covered && body.len() <= MEMBERS_BYTES_MAX;
    fits.then_some(Some(members))
}

impl BaseHead {
    /// After the last batch that it covers.
    pub fn position(&self) -> LogPosition {
        LogPosition { index: self.index, epoch: self.epoch, first: self.first }
    }
}
