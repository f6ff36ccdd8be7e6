//! The journal: what keeps the facts of all turns across restarts.

pub mod base;
mod chain;
pub mod commit_log;
mod disk;
mod entry;
mod error;
mod header;
mod log;
mod reader;
pub mod record;
pub mod recovery;
mod scan;
mod segment;
mod storage;
mod stream;

pub use disk::{Disk, DiskFile, Lock};
pub use entry::{Entry, OwnedEntry};
pub use error::JournalError;
pub use header::{FILE_VERSION, Found, HEADER_BYTES, Header, Magic};
pub use log::{Log, LogOptions};
pub use reader::{Cut, LogReader, Opened};
pub use segment::{Spare, SpareMaker, draw_salt, segment_name};
pub use storage::{File, Storage};
