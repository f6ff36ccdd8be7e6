//! Which tables are used: what the option `tzdata` comes to on this machine.

use crate::calendar::Zones;
use crate::server::observe::zones::folder::{self, Stamp};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const SYSTEM: &str = "/usr/share/zoneinfo";

/// Where tables may come from.
#[derive(Clone, Debug)]
pub struct Places {
    /// As the option says.
    pub choice: String,
    /// The system's; none where no file of the machine may be read.
    pub system: Option<PathBuf>,
}

/// Where tables are from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    Bundled,
    System,
    Folder(PathBuf),
}

/// Tables, and their version.
#[derive(Clone, Debug)]
pub struct Tables {
    pub zones: Arc<Zones>,
    pub source: Source,
    stamp: Option<Stamp>,
}

/// As INFO says it.
impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Source::Bundled => f.write_str("bundled"),
            Source::System => f.write_str("system"),
            Source::Folder(path) => write!(f, "{}", path.display()),
        }
    }
}

/// As the log says it.
impl Display for Tables {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "tzdata {} ({})", self.zones.version(), self.source)
    }
}

impl Tables {
    /// Those in the program.
    pub fn bundled() -> Tables {
        Tables { zones: Zones::bundled(), source: Source::Bundled, stamp: None }
    }
}

impl Places {
    /// Whether there are tables where the option says; the text says why not. Looks no further than the first one.
    pub fn check(&self) -> Result<(), String> {
        if self.choice == "auto" {
            return Ok(());
        }
        let source = self.source();
        let Some(folder) = self.folder(&source)? else { return Ok(()) };
        folder::check(folder).map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// The tables that the option means.
    pub fn read(&self) -> Result<Tables, String> {
        self.read_if_other(None).map(|tables| tables.unwrap_or_else(Tables::bundled))
    }

    /// The same; none if they are those that are `known`.
    pub fn read_if_other(&self, known: Option<&Tables>) -> Result<Option<Tables>, String> {
        let source = self.source();
        match self.read_from(source.clone(), known) {
            Err(why) if self.choice == "auto" => {
                tracing::warn!("the system's time-zone tables cannot be read: {why}");
                self.read_from(Source::Bundled, known)
            }
            read => read,
        }
    }

    fn read_from(&self, source: Source, known: Option<&Tables>) -> Result<Option<Tables>, String> {
        let is_known =
            |stamp| known.is_some_and(|known| (&known.source, &known.stamp) == (&source, stamp));
        let Some(folder) = self.folder(&source)? else {
            return Ok((!is_known(&None)).then(Tables::bundled));
        };
        let failed = |error| format!("{}: {error}", folder.display());
        // Before the tables: what is changed while they are read is read again an hour later.
        let stamp = Some(folder::stamp(folder).map_err(failed)?);
        if is_known(&stamp) {
            return Ok(None);
        }
        let tables = folder::read(folder).map_err(failed)?;
        let version = folder::version(folder).unwrap_or_else(|| "unknown".to_owned());
        let zones = Arc::new(Zones::new(&version, tables));
        Ok(Some(Tables { zones, source, stamp }))
    }

    fn source(&self) -> Source {
        match self.choice.as_str() {
            "auto" if self.is_system_newer() => Source::System,
            "auto" | "bundled" => Source::Bundled,
            "system" => Source::System,
            folder => Source::Folder(folder.into()),
        }
    }

    /// None where no folder is needed.
    fn folder<'a>(&'a self, source: &'a Source) -> Result<Option<&'a Path>, String> {
        match source {
            Source::Bundled => Ok(None),
            Source::Folder(path) => Ok(Some(path)),
            Source::System => match &self.system {
                Some(path) => Ok(Some(path)),
                None => Err("the system has no time-zone tables".to_owned()),
            },
        }
    }

    fn is_system_newer(&self) -> bool {
        let version = self.system.as_deref().and_then(folder::version);
        let bundled = Zones::bundled();
        version.is_some_and(|version| release(&version) > release(bundled.version()))
    }
}

/// Year and letters of a version. After `z` come `za`, `zb`, so that these are in the order of text; a build from
/// changes on the way to the next one has more after them.
fn release(version: &str) -> Option<(u16, &str)> {
    let (year, rest) = version.split_at_checked(4)?;
    let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
    let is_year = year.bytes().all(|byte| byte.is_ascii_digit());
    (is_year && letters > 0).then(|| Some((year.parse().ok()?, &rest[..letters])))?
}

/// The year that a version names: its tables are from none after that.
pub fn year(version: &str) -> Option<u16> {
    release(version).map(|(year, _)| year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_their_release() {
        let all = ["2025b", "2025c", "2025z", "2025za", "2026a", "2026e", "2026f-12-gabc"];
        assert!(all.iter().map(|version| release(version)).is_sorted_by(|a, b| a < b));
        for none in ["", "unknown", "202", "20266", "+026a", "2026-a", "äöüa", "2026E"] {
            assert_eq!(release(none), None, "{none}");
        }
        assert_eq!((year("2026e"), year("unknown")), (Some(2026), None));
    }
}
