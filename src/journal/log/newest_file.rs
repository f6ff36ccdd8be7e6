//! How the newest segment is known to exist: the file `newest` names it.
//!
//! Every other segment is missed by the one after it, which begins where it ends. The newest one has
//! none after it, and could be removed, or cut to nothing, without a trace. So the generation of a
//! segment is noted in a file of its own once its header is durable, and a generation that is noted
//! there and is in no header is missed. One write and one sync a segment.
//!
//! The file is a block as a segment's header is, with its own magic: generation and first index of
//! the newest segment, in the place of the size the number in its name, and in the place of the salt the key
//! of the hashes of ids (0: none yet). Facts and images know nothing of that key; it is kept so that a cursor of
//! SCAN means the same after a restart. A cluster has a key of its own, among its members.
//!
//! After a crash it names the newest segment or an earlier one, because it is written after the
//! header. Of two copies that differ the later one counts; if none is intact, nothing is known, as
//! in a journal of a version that did not write it.

use crate::journal::error::{JournalError, is_no_room};
use crate::journal::record::header::{FILE_VERSION, FoundHeader, HEADER_BYTES, Header, Magic};
use crate::journal::storage::{File, Storage};
use std::io;

/// The name of the file.
pub const NEWEST: &str = "newest";

/// The segment that is noted: its generation and first index, and its number in the place of the
/// size. None if there is no such note, or none that can be read.
pub fn read<S: Storage>(storage: &S) -> io::Result<Option<Header>> {
    let file = match storage.open(NEWEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut block = vec![0; HEADER_BYTES as usize];
    let filled = file.read_full(&mut block, 0)?;
    Ok(match Header::decode(&block[..filled], Magic::Newest) {
        FoundHeader::Header(header) => Some(header),
        FoundHeader::Version(_) | FoundHeader::Zeros | FoundHeader::Broken => None,
    })
}

/// The file, once it is open.
#[derive(Debug)]
pub struct Note<F> {
    file: F,
    key: u64,
}

/// Notes a segment; durable when this returns. `note` is the file once it was there.
pub fn write<S: Storage>(
    storage: &S,
    note: &mut Option<Note<S::File>>,
    number: u64,
    header: &Header,
) -> io::Result<()> {
    let (opened, made) = match note.take() {
        Some(opened) => (opened, false),
        None => match storage.open(NEWEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (Note { file: storage.create(NEWEST)?, key: 0 }, true)
            }
            file => (Note { file: file?, key: key(storage)? }, false),
        },
    };
    let header = Header { salt: opened.key, bytes: number, ..*header };
    opened.file.write_at(&header.encode(Magic::Newest)[..], 0)?;
    opened.file.sync()?;
    if made {
        storage.sync_dir()?;
    }
    *note = Some(opened);
    Ok(())
}

/// The stored key; 0 without one.
fn key<S: Storage>(storage: &S) -> io::Result<u64> {
    Ok(read(storage)?.map_or(0, |noted| noted.salt))
}

/// The key of the hashes of ids: that which is kept, or `drawn`, which is kept from here on. It is durable when this
/// returns, unless the disk is full. To be called before the log is opened.
///
/// # Errors
/// The file cannot be read or written.
pub fn hash_key<S: Storage>(storage: &S, drawn: u64) -> Result<u64, JournalError> {
    let kept = kept_key(storage)?;
    match kept {
        Some(kept) => Ok(kept),
        None => keep(storage, drawn).map(|()| drawn).map_err(JournalError::io(NEWEST, "write")),
    }
}

/// The key that is kept, if there is one.
///
/// # Errors
/// The file cannot be read.
pub fn kept_key<S: Storage>(storage: &S) -> Result<Option<u64>, JournalError> {
    let key = key(storage).map_err(JournalError::io(NEWEST, "read"))?;
    Ok(Some(key).filter(|key| *key > 0))
}

fn keep<S: Storage>(storage: &S, key: u64) -> io::Result<()> {
    // Generation 0: no segment is noted yet.
    let none =
        Header { version: FILE_VERSION, shard: 0, generation: 0, salt: 0, first: 0, bytes: 0 };
    let header = read(storage)?.unwrap_or(none);
    let opened = match storage.open(NEWEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(NEWEST),
        opened => opened,
    };
    let write = |file| write(storage, &mut Some(Note { file, key }), header.bytes, &header);
    match opened.and_then(write).and_then(|()| storage.sync_dir()) {
        // Cursors of this run are refused by the next.
        Err(error) if is_no_room(&error) => Ok(()),
        kept => kept,
    }
}
