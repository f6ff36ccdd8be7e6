//! Where the journal keeps its files. One real implementation ([`Disk`](super::Disk)); the tests have
//! one that loses, tears and reorders what was not synced.

use std::fmt::Debug;
use std::io;

/// A folder of files, without folders in it.
///
/// The effect of a crash: a creation, renaming or removal that [`sync_dir`](Storage::sync_dir) has not covered is lost
/// or kept, each for itself.
pub trait Storage: Debug + Send + Sync + 'static {
    type File: File;

    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates a file for reading and writing; an error if it exists.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file for reading and writing; an error if it does not exist.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Gives a file another name; a file that had it is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all creations, renamings and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file, read and written at positions.
///
/// The effect of a crash: of the writes since the last [`sync`](File::sync) any are lost, kept or torn, in any order.
pub trait File: Debug + Send + Sync + 'static {
    fn bytes(&self) -> io::Result<u64>;
    /// Reads at `at` into `buffer`; how many bytes were read, 0 at the end of the file only.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `at`, or fails; short writes are gone on with.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Reserves room for `bytes` bytes, so that a full disk shows at once. Where the file system
    /// cannot do that nothing happens, and a full disk shows when the file is filled.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes all that was written durable. After an error nothing is known of what was written
    /// since the last success, and a second call must not be made to find out.
    fn sync(&self) -> io::Result<()>;

    /// Reads from `at` until `buffer` is full or the file ends; how many bytes were read.
    fn read_full(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], at + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}
