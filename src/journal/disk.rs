//! The real storage: a folder of the file system. The only place of the journal that touches files.

use crate::journal::error::JournalError;
use crate::journal::storage::{File, Storage};
use crate::limits::{LOCK_PAUSE, LOCK_TRIES};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use rustix::io::Errno;
use std::fs::{self, FileType, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The name of the lock file.
const LOCK: &str = "lock";

/// Modes of created files: the bodies of jobs are private.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A folder of the file system.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    writes: bool,
    /// Device and inode of the lock file that was taken. A folder in place of this one has another.
    locked: OnceLock<(u64, u64)>,
}

/// Shows that this process alone uses the folder. Ends with the process at the latest, however that
/// ends.
#[derive(Debug)]
pub struct Lock {
    _file: fs::File,
}

#[derive(Debug)]
pub struct DiskFile(fs::File);

impl Disk {
    /// Opens the folder and creates it if it is not there.
    pub fn open(path: &Path) -> Result<Disk, JournalError> {
        if !path.is_dir() {
            let created = make_folder(path).and_then(|()| sync_folder(&parent(path)));
            created.map_err(JournalError::io(&path.display().to_string(), "create the folder"))?;
        }
        Ok(Disk { path: path.to_owned(), writes: true, locked: OnceLock::new() })
    }

    /// Opens a folder that is there, to look only: whatever would change it fails, and it can be
    /// opened so while a server uses it.
    pub fn open_read_only(path: &Path) -> Result<Disk, JournalError> {
        fs::read_dir(path).map_err(JournalError::io(&path.display().to_string(), "read"))?;
        Ok(Disk { path: path.to_owned(), writes: false, locked: OnceLock::new() })
    }

    /// Whether others than the owner of the folder may look into it.
    pub fn is_open_to_others(&self) -> io::Result<bool> {
        fs::metadata(&self.path).map(|metadata| metadata.mode() & 0o077 != 0)
    }

    /// Looks whether the lock that was taken is still in the folder, by one call of the system.
    ///
    /// # Errors
    /// If the folder was removed, emptied or replaced: what is written from here on would be found by no
    /// start. Or it cannot be looked at.
    pub fn check_place(&self) -> io::Result<()> {
        let Some(locked) = self.locked.get() else { return Ok(()) };
        let found = match fs::symlink_metadata(self.path.join(LOCK)) {
            Ok(found) => Some((found.dev(), found.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let what = match found {
            Some(found) if found == *locked => return Ok(()),
            Some(_) => "was replaced",
            None => "was removed",
        };
        let text = format!("the journal's folder {} {what} under the server", self.path.display());
        Err(io::Error::new(io::ErrorKind::NotFound, text))
    }

    /// Takes the folder for this process.
    ///
    /// # Errors
    /// [`JournalError::InUse`] if another server has it; [`JournalError::Io`] if the folder cannot
    /// be written to.
    pub fn lock(&self) -> Result<Lock, JournalError> {
        let path = self.path.join(LOCK);
        let name = path.display().to_string();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let opened = open_file(&path, &mut options);
        let mut file = opened.map_err(JournalError::io(&name, "write"))?;
        let mut tries = 1;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                // A process that checks the lock holds it for an instant.
                Err(Errno::WOULDBLOCK) if tries < LOCK_TRIES => tries += 1,
                Err(Errno::WOULDBLOCK) => {
                    return Err(JournalError::InUse { holder: holder(file), path });
                }
                Err(error) => return Err(JournalError::io(&name, "lock")(error.into())),
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(JournalError::io(&name, "write"))?;
        let taken = file.metadata().map_err(JournalError::io(&name, "look at"))?;
        self.locked.get_or_init(|| (taken.dev(), taken.ino()));
        Ok(Lock { _file: file })
    }

    /// The server that uses the folder now (`pid 1234`), if there is one. Changes nothing.
    pub fn user(&self) -> Option<String> {
        // Without permission to read the file it cannot know.
        let file = open_file(&self.path.join(LOCK), OpenOptions::new().read(true)).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Some(holder(file)),
            _ => None,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Storage for Disk {
    type File = DiskFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is not ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<DiskFile> {
        self.check_writes()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(FILE_MODE);
        options.open(self.path.join(name)).map(DiskFile)
    }

    fn open(&self, name: &str) -> io::Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(self.writes);
        open_file(&self.path.join(name), &mut options).map(DiskFile)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writes()?;
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writes()?;
        fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.check_writes()?;
        sync_folder(&self.path)
    }
}

impl Disk {
    fn check_writes(&self) -> io::Result<()> {
        if self.writes {
            return Ok(());
        }
        let text = format!("{} was opened read-only", self.path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }
}

impl File for DiskFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(&self.0, buffer, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        loop {
            match fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
                Err(Errno::INTR) => {}
                // Not every file system can.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Creates a folder, and those above it that are not there, which only we may look into.
fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Creates a file that only we may look into; an error if it exists.
pub fn make_file(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Opens a regular file of the folder, and nothing else: a symbolic link leads to a file that is not the journal's, and
/// opening a FIFO waits for its other end.
pub fn open_file(path: &Path, options: &mut OpenOptions) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let found = match &opened {
        Ok(file) => file.metadata()?,
        // The system's error for a link or a socket says too little.
        Err(_) => match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(_) => return opened,
        },
    };
    match found.is_file() {
        true => opened,
        false => Err(not_regular(found.file_type())),
    }
}

fn not_regular(found: FileType) -> io::Error {
    let what = match found {
        _ if found.is_symlink() => "a symbolic link",
        _ if found.is_dir() => "a folder",
        _ if found.is_fifo() => "a FIFO",
        _ if found.is_socket() => "a socket",
        _ => "a device",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}

fn holder(mut file: fs::File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => format!("pid {}", text.trim()),
        _ => "which one is not known".to_owned(),
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}
