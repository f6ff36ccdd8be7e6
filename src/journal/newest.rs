//! How the newest segment is known to exist: the file `newest` names it.
//!
//! Every other segment is missed by the one after it, which begins where it ends. The newest one has
//! none after it, and could be removed, or cut to nothing, without a trace. So the generation of a
//! segment is noted in a file of its own once its header is durable, and a generation that is noted
//! there and is in no header is missed. One write and one sync a segment.
//!
//! The file is a block as a segment's header is, with its own magic: generation and first index of
//! the newest segment, and in the place of the size the number in its name.
//!
//! After a crash it names the newest segment or an earlier one, as it is written behind the header.
//! Of two copies that differ the later one counts; if none is whole, nothing is known, as in a
//! journal of a version that did not write it.

use crate::journal::header::{Found, HEADER_BYTES, Header, Magic};
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
        Found::Header(header) => Some(header),
        Found::Version(_) | Found::Zeros | Found::Broken => None,
    })
}

/// Notes a segment; durable when this returns. `opened` is the file once it was there.
pub fn write<S: Storage>(
    storage: &S,
    opened: &mut Option<S::File>,
    number: u64,
    header: &Header,
) -> io::Result<()> {
    let (file, made) = match opened.take() {
        Some(file) => (file, false),
        None => match storage.open(NEWEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (storage.create(NEWEST)?, true)
            }
            opened => (opened?, false),
        },
    };
    let header = Header { salt: 0, bytes: number, ..*header };
    file.write_at(&header.encode(Magic::Newest)[..], 0)?;
    file.sync()?;
    if made {
        storage.sync_dir()?;
    }
    *opened = Some(file);
    Ok(())
}
