//! The key of the hashes of ids: once it was given it is the same after every crash, in whichever segment the log is.

use crate::journal::batches::{Maker, append, start};
use crate::support::lossy::{Fault, Lossy};
use crate::support::seeds::{Telltale, seeds};
use delayd::ids::Index;
use delayd::journal::{NEWEST, hash_key, kept_key};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::ErrorKind;

#[test]
fn a_key_that_was_given_is_kept() {
    for seed in seeds(200) {
        let _telltale = Telltale(format!("DELAYD_SEED={seed}"));
        let (mut rng, mut maker) = (SmallRng::seed_from_u64(seed), Maker::new(seed));
        let mut disk = Lossy::new();
        // A journal of a version that kept none has a log already.
        if rng.random_bool(0.5) {
            start(&disk, Index(0)).unwrap();
            assert_eq!(kept_key(&*disk).unwrap(), None);
        }
        // The first start may be cut off anywhere.
        disk.fail_after(rng.random_range(0..6), Fault::Death);
        let cut_off = hash_key(&*disk, 7).is_err();
        disk = disk.crash(&mut rng);
        let key = hash_key(&*disk, 8).unwrap();
        assert!(key == 7 || cut_off && key == 8, "{key}");
        for drawn in 9..15 {
            disk = if rng.random_bool(0.5) { disk.crash(&mut rng) } else { disk.kill() };
            assert_eq!(hash_key(&*disk, drawn).unwrap(), key);
            let (mut log, _, _) = start(&disk, Index(0)).unwrap();
            for _ in 0..rng.random_range(0..4) {
                let batch = maker.sized(30_000);
                append(&mut log, &[batch]).unwrap();
                log.sync().unwrap();
            }
        }
        let mut files = disk.files();
        files.remove(NEWEST);
        let other = Lossy::of(&files);
        start(&other, Index(0)).unwrap();
        assert_eq!(hash_key(&*other, 15).unwrap(), 15, "a key that is lost is drawn anew");
        assert_eq!(hash_key(&*other.crash(&mut rng), 16).unwrap(), 15);
    }
}

#[test]
fn a_full_disk_keeps_no_key_and_ends_no_start() {
    let disk = Lossy::new();
    disk.fail_after(0, Fault::Error(ErrorKind::StorageFull));
    assert_eq!(hash_key(&*disk, 7).unwrap(), 7);
}
