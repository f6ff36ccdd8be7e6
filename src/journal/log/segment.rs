//! Files of the log: their names, those with batches, and how spares are made.

use crate::ids::Index;
use crate::journal::record::header::{FILE_VERSION, HEADER_BYTES, Header, Magic};
use crate::journal::record::raft_state::{LogPosition, LogState};
use crate::journal::record::stream::{FoundAt, RecordStream};
use crate::journal::record::{HEAD_BYTES, RecordKind, Seed};
use crate::journal::storage::{File, Storage};
use crate::limits::FILE_PIECE_BYTES;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub fn segment_name(number: u64) -> String {
    format!("segment-{number:010}.log")
}

/// The number in the name of a segment file; nothing if it is no such name.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("segment-")?.strip_suffix(".log")?;
    let plain = digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    (segment_name(number) == name).then_some(number)
}

/// A number no client can guess, for the header of a file.
pub fn draw_salt() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bytes[filled..], flags) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(u64::from_le_bytes(bytes))
}

/// How much of a segment is read at once to learn its first state: a standalone server has less.
const STATE_READ_BYTES: usize = 1 << 10;

/// A segment that holds records of the log, or the next ones.
#[derive(Debug)]
pub(in crate::journal) struct Segment<F> {
    pub number: u64,
    pub file: Arc<F>,
    pub header: Header,
    pub seed: Seed,
    /// The size of the file as it is, which is below that in the header if it was cut short.
    pub bytes: u64,
    /// Where the last record ends.
    pub end: u64,
    /// The `lsn` after the last record.
    pub next: u64,
    /// The position before its first batch. Unknown for a segment that does not begin with a state, as a crash leaves
    /// it.
    pub before: Option<LogPosition>,
    /// The state that it begins with is that of a node of a cluster.
    pub is_of_node: bool,
    /// That state's number for the batch before the first one of the log; 0 on a standalone server.
    pub log_from: Index,
}

impl<F: File> Segment<F> {
    /// A segment of which no record is known yet.
    pub fn new(number: u64, file: Arc<F>, header: Header, bytes: u64) -> Segment<F> {
        let (seed, next, end) = (header.seed(), header.first, HEADER_BYTES);
        // In version 1 records were numbered by their index.
        let index = Index(next.saturating_sub(1));
        let before =
            (header.version == 1).then_some(LogPosition { index, ..LogPosition::default() });
        Segment {
            number,
            file,
            header,
            seed,
            bytes,
            end,
            next,
            before,
            is_of_node: false,
            log_from: Index(0),
        }
    }

    /// Reads the state that it begins with: the position before its first batch, and the log's
    /// owner.
    pub fn learn(&mut self) -> io::Result<()> {
        if self.header.version == 1 {
            return Ok(());
        }
        let mut stream = RecordStream::new(STATE_READ_BYTES);
        if let FoundAt::Record(head) = stream.examine(&*self.file, HEADER_BYTES, self.seed)?
            && head.kind == RecordKind::State
            && head.lsn == self.first()
        {
            let body = stream.buffered(HEADER_BYTES + head.body_at(), head.length as usize);
            let state = LogState::decode(body);
            let of_node = state.as_ref().filter(|state| state.identity.node > 0);
            self.is_of_node = of_node.is_some();
            self.log_from = of_node.map_or(Index(0), |state| state.before.index);
            self.before = state.map(|state| state.last);
        }
        Ok(())
    }

    pub fn name(&self) -> String {
        segment_name(self.number)
    }

    /// The `lsn` of its first record.
    pub fn first(&self) -> u64 {
        self.header.first
    }

    /// Its first batch would be this one or a later one, if that is known.
    pub fn first_batch(&self) -> Option<Index> {
        self.before.map(|before| before.index.next())
    }

    /// A record of `span` bytes is, or is about to be, at its end.
    pub fn push(&mut self, span: u64) {
        self.end += span;
        self.next += 1;
    }

    /// Bytes that records can still be written to: none in one of an older version, nor in one that does not
    /// begin with its state, as a crash leaves it right after its header.
    pub fn room_bytes(&self) -> u64 {
        if self.header.version < FILE_VERSION || self.before.is_none() {
            return 0;
        }
        self.bytes.saturating_sub(self.end)
    }
}

/// A file that is ready to become a segment: all its bytes are on the disk, and so is its name.
#[derive(Debug)]
pub struct Spare<S: Storage> {
    pub(in crate::journal) number: u64,
    pub(in crate::journal) file: Arc<S::File>,
    pub(in crate::journal) bytes: u64,
}

impl<S: Storage> Spare<S> {
    pub fn room_bytes(&self) -> u64 {
        self.bytes - HEADER_BYTES
    }

    /// Writes the header of its next use, without making it durable; its state will take up to `state` bytes. Record
    /// headers of its last use at the places of the state and of the record after it are overwritten with it: if that
    /// was cut there and named the record that comes next, it would look torn.
    pub(in crate::journal) fn begin(
        self,
        shard: u16,
        generation: u64,
        first: u64,
        state: u64,
    ) -> io::Result<Segment<S::File>> {
        let (salt, bytes) = (draw_salt()?, self.bytes);
        let version = FILE_VERSION;
        let header = Header { version, shard, generation, salt, first, bytes };
        let mut block = header.encode(Magic::Segment).to_vec();
        block.resize((HEADER_BYTES + state) as usize + HEAD_BYTES, 0);
        self.file.write_at(&block, 0)?;
        Ok(Segment::new(self.number, self.file, header, bytes))
    }
}

#[derive(Debug)]
pub struct SpareMaker<S: Storage> {
    storage: Arc<S>,
    numbers: Arc<AtomicU64>,
    bytes: u64,
}

impl<S: Storage> SpareMaker<S> {
    /// Makes spares of `bytes` bytes in `storage`; `next` is a number above those of all files there.
    pub(in crate::journal) fn new(storage: Arc<S>, next: u64, bytes: u64) -> SpareMaker<S> {
        SpareMaker { storage, numbers: Arc::new(AtomicU64::new(next)), bytes }
    }

    /// A maker of spares that draws its numbers from the same row.
    pub(in crate::journal) fn sharing(&self) -> SpareMaker<S> {
        let (storage, numbers) = (Arc::clone(&self.storage), Arc::clone(&self.numbers));
        SpareMaker { storage, numbers, bytes: self.bytes }
    }

    /// Makes a spare of the standard size: reserves its room, fills it with zeros, makes both and its
    /// name durable. Takes as long as writing the bytes does.
    ///
    /// # Errors
    /// Such as a full disk. The unfinished file is removed.
    pub fn make(&self) -> io::Result<Spare<S>> {
        self.make_of(self.bytes)
    }

    /// As [`make`](SpareMaker::make), of another size.
    pub(in crate::journal) fn make_of(&self, bytes: u64) -> io::Result<Spare<S>> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let name = segment_name(number);
        let file = self.storage.create(&name)?;
        match fill(&file, bytes).and_then(|()| self.storage.sync_dir()) {
            Ok(()) => Ok(Spare { number, file: Arc::new(file), bytes }),
            Err(error) => {
                drop(file);
                // The first error is reported; remains are removed by the next opening.
                let _ = self.storage.remove(&name);
                Err(error)
            }
        }
    }
}

fn fill(file: &impl File, bytes: u64) -> io::Result<()> {
    file.allocate(bytes)?;
    let zeros = vec![0; FILE_PIECE_BYTES.min(bytes as usize)];
    let mut at = 0;
    while at < bytes {
        let piece = &zeros[..zeros.len().min((bytes - at) as usize)];
        file.write_at(piece, at)?;
        at += piece.len() as u64;
    }
    file.sync()
}
