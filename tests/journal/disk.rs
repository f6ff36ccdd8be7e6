//! The real storage.

use crate::journal::batches::{Maker, append, start};
use crate::support::program::Folder;
use delayd::ids::Index;
use delayd::journal::record::RecordKind;
use delayd::journal::{Disk, File, JournalError, Storage};
use std::path::PathBuf;
use std::sync::Arc;

#[test]
fn a_log_on_a_disk() {
    let folder = Folder::new("log");
    let disk = Arc::new(Disk::open(&folder.0.join("a/b")).unwrap());
    let (mut log, _, _) = start(&disk, Index(0)).unwrap();
    let mut maker = Maker::new(1);
    let members = maker.aside(RecordKind::Members, 9);
    let batches: Vec<_> = [members].into_iter().chain((1..100).map(|_| maker.any())).collect();
    append(&mut log, &batches[..50]).unwrap();
    log.sync().unwrap();
    log.add_spare(log.spare_maker().make().unwrap());
    append(&mut log, &batches[50..60]).unwrap();
    log.commit(Index(60));
    append(&mut log, &batches[60..]).unwrap();
    drop(log);
    let (mut log, opened, read) = start(&disk, Index(0)).unwrap();
    assert!(read == batches[..60] && opened.uncommitted == batches[60..]);
    log.cut_after(Index(70)).unwrap();
    log.drop_before(Index(60)).unwrap();
    let files: u64 = disk
        .list()
        .unwrap()
        .iter()
        .filter(|n| n.starts_with("segment"))
        .map(|n| disk.open(n).unwrap().bytes().unwrap())
        .sum();
    assert_eq!(log.disk_bytes(), files);
    let (_, opened, read) = start(&disk, Index(59)).unwrap();
    assert!(read[..] == batches[59..60] && opened.uncommitted == batches[60..70]);

    // A tool reads while the server has the folder.
    let _lock = disk.lock().unwrap();
    let look = Disk::open_read_only(disk.path()).unwrap();
    let name = &look.list().unwrap()[0];
    assert!(look.open(name).unwrap().read_at(&mut [0; 8], 0).is_ok());
    assert!(look.open("segment-0000000001.log").map_or(true, |f| f.write_at(b"x", 0).is_err()));
    for refused in [look.create("x").map(drop), look.remove(name), look.rename(name, "x")] {
        assert!(refused.unwrap_err().to_string().contains("opened read-only"));
    }
}

#[test]
fn one_server_per_folder() {
    let folder = Folder::new("lock");
    let disk = Disk::open(&folder.0).unwrap();
    let lock = disk.lock().unwrap();
    let second = Disk::open(&folder.0).unwrap().lock().unwrap_err();
    assert!(matches!(second, JournalError::InUse { .. }));
    let text = second.to_string();
    assert!(text.contains(folder.0.to_str().unwrap()), "{text}");
    assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
    drop(lock);
    disk.lock().unwrap();
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = Folder::new("file");
    let file = folder.0.join("file");
    std::fs::write(&file, "a file").unwrap();
    let error = Disk::open(&file.join("journal")).err().unwrap().to_string();
    assert!(error.contains("journal: cannot create the folder: "), "{error}");
    let missing = Disk::open_read_only(&PathBuf::from("/nonexistent/journal"));
    assert!(missing.err().unwrap().to_string().contains("/nonexistent/journal: cannot read"));
}

#[test]
fn files_are_made_renamed_and_removed() {
    let folder = Folder::new("files");
    let disk = Disk::open(&folder.0).unwrap();
    let file = disk.create("a").unwrap();
    assert!(disk.create("a").is_err());
    file.allocate(10_000).unwrap();
    file.write_at(b"text", 9_998).unwrap();
    file.sync().unwrap();
    assert_eq!(file.bytes().unwrap(), 10_002);
    let mut bytes = [0; 10];
    assert_eq!(file.read_full(&mut bytes, 9_996).unwrap(), 6);
    assert_eq!(&bytes[..6], b"\0\0text");
    disk.rename("a", "b").unwrap();
    disk.sync_dir().unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    disk.remove("b").unwrap();
    assert!(disk.list().unwrap().is_empty());
    assert!(disk.open("b").is_err());
}
