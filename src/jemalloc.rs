//! jemalloc as the program's allocator, the feature `jemalloc`: it returns unused memory to the system, page by page
//! and within seconds. `docs/measurements.md` compares it with others.
//!
//! Known here alone: without it the library and its tests wait for no C but that of TLS.

use delayd::server::{Allocator, Keeping};
use std::ffi::CStr;
use tikv_jemalloc_ctl::{Access, AsName, Name};

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

/// Gives all pages back to the system that the allocator keeps to use them again, and says how long it keeps those that
/// are freed from now on: as it was built, or not at all. To set how long an arena keeps them to nothing makes it give
/// back at once; there is no safe way to ask for that alone.
fn give_back(keeping: Keeping) {
    let (Ok(arenas), Ok(usual_ms), Ok(mut decay_ms)) = (
        number::<u32>(c"arenas.narenas"),
        number::<isize>(c"arenas.dirty_decay_ms"),
        c"arena.0.dirty_decay_ms".to_bytes_with_nul().name().mib::<[usize; 3]>(),
    ) else {
        return;
    };
    for arena in 0..arenas {
        decay_ms[1] = arena as usize;
        // An arena that no thread has used has none. Memory that cannot be returned stays resident, and is visible
        // there.
        let gave: Result<(), _> = decay_ms.write(0_isize);
        if gave.is_ok() && keeping == Keeping::AsUsual {
            let _ = decay_ms.write(usual_ms);
        }
    }
}

fn number<T>(name: &'static CStr) -> tikv_jemalloc_ctl::Result<T>
where
    Name: Access<T>,
{
    name.to_bytes_with_nul().name().read()
}
