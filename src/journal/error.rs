//! Why a journal could not be opened or read. Every text names the file, and the offset where there
//! is one.

use crate::ids::Index;
use std::io;
use std::path::PathBuf;

/// Why a journal could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused something.
    #[error("{file}: cannot {action}: {source}")]
    Io {
        /// The file or folder.
        file: String,
        /// The failed action, such as `read`.
        action: &'static str,
        source: io::Error,
    },
    /// Something that was durable is not what it was.
    #[error("{file}: damaged at offset {offset}: {what}")]
    Damaged {
        file: String,
        offset: u64,
        /// The damage, and how it was found.
        what: String,
    },
    /// Batches between the base and the log are missing.
    #[error(
        "{file}: the log begins with batch {first}, but the data before it ends with batch {after}"
    )]
    Gap {
        /// The oldest file of the log.
        file: String,
        first: Index,
        /// The last batch of the base; 0 if there is no base.
        after: Index,
    },
    /// Written by a version of delayd that this one does not know.
    #[error("{file}: format version {found} is unknown; this version of delayd knows {known}")]
    Version { file: String, found: u16, known: u16 },
    /// The reading was given up, since the server stops.
    #[error("loading the journal was cancelled")]
    Cancelled,
    /// Another server uses the folder.
    #[error("{path} is in use by another delayd ({holder})", path = path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
        /// The holder: `pid 1234`, or unknown.
        holder: String,
    },
}

impl JournalError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// For `map_err`: the error of the system, with the file and what was to be done.
    pub fn io(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> JournalError {
        move |source| JournalError::Io { file: file.to_owned(), action, source }
    }
}

impl From<JournalError> for io::Error {
    /// Keeps the kind of an error of the system; everything else is `InvalidData`.
    fn from(error: JournalError) -> io::Error {
        let kind = match &error {
            JournalError::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

/// Whether the disk has no room, or not for us: it goes on when there is some.
pub fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Whether what failed may be tried again, as it says nothing bad of the disk: there is no room, or
/// the system lacks memory or open files. Anything else, such as `EIO` or a folder that is gone, is a
/// disk that fails.
pub fn may_pass(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::INTR];
    let lacking = || lacks.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    is_no_room(error) || lacking()
}
