//! Measures the disk alone: writes as many bytes as a run has written, evenly over its time, each synced as soon as the
//! sync before it is over. So bytes that come due during a sync wait for it, as facts do under `appendfsync always`.

use crate::support::place;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Lateness of the bytes of each ms, from its end to the end of their sync; p99.9, ms. The file has its size before, as
/// a segment of the journal has.
pub fn raw_p999_ms(bytes: u64, seconds: u64) -> f64 {
    let (_, folder) = place();
    let mut file = File::create(folder.join("raw")).expect("a file in a temporary folder");
    let block = vec![b'x'; 1 << 20];
    for _ in 0..bytes.div_ceil(block.len() as u64) {
        file.write_all(&block).expect("room for the file");
    }
    file.sync_all().expect("a disk that syncs");
    let (began, total_ms) = (Instant::now(), seconds * 1_000);
    let at = |ms: u64| bytes * ms / total_ms;
    let (mut late_us, mut done) = (Vec::with_capacity(total_ms as usize), 0);
    while done < total_ms {
        let due = (began.elapsed().as_millis() as u64).min(total_ms);
        if due == done {
            let next = began + Duration::from_millis(done + 1);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            continue;
        }
        for from in (at(done)..at(due)).step_by(block.len()) {
            let length = (at(due) - from).min(block.len() as u64) as usize;
            file.write_all_at(&block[..length], from).expect("the file has its size");
        }
        file.sync_data().expect("a disk that syncs");
        let now_us = began.elapsed().as_micros() as u64;
        late_us.extend((done..due).map(|ms| now_us - (ms + 1) * 1_000));
        done = due;
    }
    std::fs::remove_dir_all(folder).expect("our own folder");
    late_us.sort_unstable();
    late_us[(late_us.len() - 1) * 999 / 1_000] as f64 / 1_000.0
}
