//! What the machine gives this process and what the process has used of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

/// Descriptors that are not clients: listeners, timers, log, journal, and connections for metrics.
const DESCRIPTORS_RESERVED: u64 = 128;

/// Bytes of memory this process may use: the machine's, or its control group's limit if that is
/// less.
pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit));
    let group = group_file("memory.max", "memory/memory.limit_in_bytes");
    group.map_or(machine, |limit| limit.min(machine))
}

/// Raises the limit of open files so that `clients` connections fit. Returns how many do.
pub fn make_room_for(clients: u64) -> u64 {
    let wanted = clients + DESCRIPTORS_RESERVED;
    let limit = getrlimit(Resource::Nofile);
    // `None` stands for no limit.
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return clients };
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let mut raised = [(wanted, hard.max(wanted)), (wanted.min(hard), hard)].into_iter().filter(
        |(soft, hard)| {
            let maximum = limit.maximum.map(|_| *hard);
            setrlimit(Resource::Nofile, Rlimit { current: Some(*soft), maximum }).is_ok()
        },
    );
    let now = raised.next().map_or(current, |(soft, _)| soft);
    now.saturating_sub(DESCRIPTORS_RESERVED).max(1).min(clients)
}

/// Resident memory, bytes; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Processor time used so far, s: in the system, in the program.
pub fn processor_s() -> (f64, f64) {
    processor_of("/proc/self/stat")
}

/// The same of the calling thread.
pub fn thread_processor_s() -> (f64, f64) {
    processor_of("/proc/thread-self/stat")
}

fn processor_of(path: &str) -> (f64, f64) {
    let stat = fs::read_to_string(path).unwrap_or_default();
    // The second field is the program's name in parentheses and may hold spaces.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let seconds = |field: usize| {
        let ticks: f64 = fields.get(field).and_then(|n| n.parse().ok()).unwrap_or(0.0);
        ticks / rustix::param::clock_ticks_per_second() as f64
    };
    (seconds(12), seconds(11))
}

/// `Linux 6.1 x86_64`, as INFO's `os`.
pub fn os() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine()))
}

/// 64 bits of the kernel's randomness.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Fills `bytes` with the kernel's randomness, which nobody can guess.
pub fn fill_random(bytes: &mut [u8]) {
    // The kernel gives up to 256 bytes in one go.
    for part in bytes.chunks_mut(256) {
        let filled = rustix::rand::getrandom(&mut *part, rustix::rand::GetRandomFlags::empty());
        assert_eq!(filled, Ok(part.len()), "the kernel has randomness");
    }
}

/// The limit of the process's own control group or one above it, version 2 or 1.
fn group_file(v2: &str, v1: &str) -> Option<u64> {
    let read = |path: String| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let above = std::iter::successors(Some(own), |path| path.rsplit_once('/').map(|(up, _)| up));
    let limits =
        above.filter_map(|group| read(format!("/sys/fs/cgroup/{}/{v2}", group.trim_matches('/'))));
    limits.min().or_else(|| read(format!("/sys/fs/cgroup/{v1}")))
}
