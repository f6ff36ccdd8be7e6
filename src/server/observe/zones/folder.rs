//! Compiled tables of zones in a folder, as the system has them in `/usr/share/zoneinfo`. The folder may be any:
//! what is no table is passed over, and there is an end to what is looked at.

use crate::calendar::Zones;
use crate::limits::{
    ZONE_FILE_BYTES_MAX, ZONE_FILES_MAX, ZONE_FOLDERS_DEEP_MAX, ZONE_NAME_BYTES_MAX,
    ZONE_TABLES_BYTES_MAX,
};
use rustix::fs::OFlags;
use std::borrow::Cow;
use std::fs::{self, DirEntry, Metadata, OpenOptions};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes when the tables of a folder do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamp {
    version: Option<String>,
    files: usize,
    /// When a file was last changed: s and ns. Packages keep the time at which a file was written, so that is not
    /// enough.
    changed: (i64, i64),
    /// The sum of the files' numbers: another file in the place of one may be of the same few ms, in which the file
    /// system's clock stands.
    inodes: u64,
}

pub type Tables = Vec<(Arc<str>, Cow<'static, [u8]>)>;

/// A file that may be a table.
struct Candidate {
    name: String,
    path: PathBuf,
    metadata: Metadata,
}

/// Files next to the zones that are not part of the database: the same zones counted in other ways, and the machine's
/// own choice.
const NO_ZONES: [&str; 4] = ["posix", "right", "localtime", "posixrules"];

/// The version that the folder says it is of, such as `2026e`.
pub fn version(folder: &Path) -> Option<String> {
    let said = |file: &str| {
        let bytes = read_up_to(&folder.join(file), 128).ok()?;
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        Some(String::from_utf8_lossy(line).trim().to_owned())
    };
    let of_source =
        said("tzdata.zi").and_then(|line| Some(line.strip_prefix("# version ")?.to_owned()));
    let version = of_source.or_else(|| said("+VERSION"))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let is_one = (1..=32).contains(&version.len()) && version.chars().all(is_plain);
    is_one.then_some(version)
}

/// The folder as it is now, without reading its tables.
pub fn stamp(folder: &Path) -> io::Result<Stamp> {
    let mut stamp = Stamp { version: version(folder), files: 0, changed: (0, 0), inodes: 0 };
    walk(folder, |Candidate { metadata, .. }| {
        stamp.files += 1;
        stamp.changed = stamp.changed.max((metadata.ctime(), metadata.ctime_nsec()));
        stamp.inodes = stamp.inodes.wrapping_add(metadata.ino());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(stamp)
}

/// Whether it contains a table; the error says why not.
pub fn check(folder: &Path) -> io::Result<()> {
    let mut found = false;
    walk(folder, |candidate| {
        found = table(&candidate).is_some();
        Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if found { Ok(()) } else { Err(none()) }
}

/// All tables, at least one.
pub fn read(folder: &Path) -> io::Result<Tables> {
    let (mut tables, mut bytes) = (Tables::new(), 0);
    walk(folder, |candidate| {
        if let Some(data) = table(&candidate) {
            bytes += data.len() as u64;
            tables.push((candidate.name.into(), data.into()));
        }
        if bytes > ZONE_TABLES_BYTES_MAX {
            let most = ZONE_TABLES_BYTES_MAX >> 20;
            return Err(io::Error::other(format!("its tables have more than {most} MiB in all")));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    // Of names that differ only in case the first one counts, whatever the order on the disk is.
    tables.sort_by(|(a, _), (b, _)| a.cmp(b));
    if tables.is_empty() { Err(none()) } else { Ok(tables) }
}

fn none() -> io::Error {
    io::Error::other("it contains no compiled time-zone table (TZif)")
}

/// Its bytes, if it is one.
fn table(candidate: &Candidate) -> Option<Vec<u8>> {
    if candidate.metadata.len() > ZONE_FILE_BYTES_MAX {
        return None;
    }
    let data = read_up_to(&candidate.path, ZONE_FILE_BYTES_MAX).ok()?;
    (data.starts_with(b"TZif") && Zones::is_table(&data)).then_some(data)
}

fn read_up_to(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // A pipe that replaced a file may have no writer.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut data = Vec::new();
    file.take(bytes_max).read_to_end(&mut data)?;
    Ok(data)
}

/// Visits the files of a folder and those below it that have the name of a zone, until it is stopped. A folder that is
/// a symbolic link is not entered, so that no path leads back or out.
fn walk(
    root: &Path,
    mut meet: impl FnMut(Candidate) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let (mut folders, mut entries) = (vec![(root.to_owned(), String::new(), 0)], 0);
    while let Some((folder, prefix, depth)) = folders.pop() {
        let listed = match fs::read_dir(&folder) {
            Err(error) if depth == 0 => return Err(error),
            // One that may not be read has no zones for us.
            listed => listed.into_iter().flatten(),
        };
        for entry in listed.flatten() {
            let Some(part) = part_of_name(&entry, depth) else { continue };
            entries += 1;
            if entries > ZONE_FILES_MAX {
                let text =
                    format!("more than {ZONE_FILES_MAX} files: it is not a folder of time zones");
                return Err(io::Error::other(text));
            }
            let name = format!("{prefix}{part}");
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth < ZONE_FOLDERS_DEEP_MAX {
                    folders.push((entry.path(), format!("{name}/"), depth + 1));
                }
                continue;
            }
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let is_meant = metadata.is_file() && name.len() <= ZONE_NAME_BYTES_MAX;
            if is_meant && meet(Candidate { name, path, metadata })?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The entry as a part of a zone's name; none if it cannot be one.
fn part_of_name(entry: &DirEntry, depth: usize) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_+-".contains(c));
    (is_plain && !(depth == 0 && NO_ZONES.contains(&name.as_str()))).then_some(name)
}
