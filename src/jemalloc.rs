//! jemalloc as the program's allocator, the feature `jemalloc`: it returns unused memory to the system, page by page
//! and within seconds. `docs/measurements.md` compares it with others.
//!
//! Known here alone: without it the library and its tests wait for no C but that of TLS.

use delayd::server::Allocator;
use tikv_jemalloc_ctl::{Access, AsName};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Starts a thread of the allocator's, without which memory goes back only as more is asked for.
pub fn start() -> Allocator {
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!("memory is returned to the system late: {error}");
    }
    // The version is followed by the commit: 5.3.1-0-g81034ce1.
    let version = tikv_jemalloc_ctl::version::read().unwrap_or_default();
    let number = version.split('-').next().unwrap_or_default();
    Allocator { name: format!("jemalloc-{number}"), give_back }
}

/// Gives all pages back to the system that the allocator keeps to use them again. To set how long an arena keeps them
/// to nothing makes it give back at once; there is no safe way to ask for that alone.
fn give_back() {
    let arenas: u32 = match c"arenas.narenas".to_bytes_with_nul().name().read() {
        Ok(arenas) => arenas,
        Err(_) => return,
    };
    let Ok(mut decay_ms) = c"arena.0.dirty_decay_ms".to_bytes_with_nul().name().mib::<[usize; 3]>()
    else {
        return;
    };
    for arena in 0..arenas {
        decay_ms[1] = arena as usize;
        // An arena that no thread has used has none.
        let kept_ms: Result<isize, _> = decay_ms.read();
        if let Ok(kept_ms) = kept_ms {
            // Memory that cannot be returned stays resident, and is visible there.
            let _ = decay_ms.write(0_isize);
            let _ = decay_ms.write(kept_ms);
        }
    }
}
