//! The resources the machine gives this process and their use by the process.

use crate::limits::{
    DESCRIPTORS_RESERVED, DESCRIPTORS_RESERVED_MIN, DESCRIPTORS_RESERVED_SHARE,
    PARTITION_DESCRIPTORS, WATCHERS_MIN, WATCHERS_SHARE,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::{Component, Path};

/// Bytes of memory this process may use: the machine's, or its control group's limit if that is
/// less.
pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit));
    let group = group_memory_bytes(Path::new("/"));
    group.map_or(machine, |limit| limit.min(machine))
}

/// Raises the limit of open files so that `clients` connections fit beside what `partitions` have open. Returns how many
/// do.
pub fn make_room_for(clients: u64, partitions: u16) -> u64 {
    let beside = u64::from(partitions - 1) * PARTITION_DESCRIPTORS;
    let wanted = clients + beside + DESCRIPTORS_RESERVED;
    let limit = getrlimit(Resource::Nofile);
    // `None` means no limit.
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return clients };
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let mut raised = [(wanted, hard.max(wanted)), (wanted.min(hard), hard)].into_iter().filter(
        |(soft, hard)| {
            let maximum = limit.maximum.map(|_| *hard);
            setrlimit(Resource::Nofile, Rlimit { current: Some(*soft), maximum }).is_ok()
        },
    );
    let now = raised.next().map_or(current, |(soft, _)| soft);
    clients_within(now).saturating_sub(beside).max(1).min(clients)
}

/// How many clients fit in this limit of open files.
fn clients_within(files: u64) -> u64 {
    let share = files / DESCRIPTORS_RESERVED_SHARE;
    let reserved = share.clamp(DESCRIPTORS_RESERVED_MIN, DESCRIPTORS_RESERVED);
    files.saturating_sub(reserved).max(1)
}

/// How many connections may watch the server at a time: `most`, or fewer where few files may be open.
pub fn watchers_max(most: usize) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / WATCHERS_SHARE).unwrap_or(most).clamp(WATCHERS_MIN, most)
}

/// Where the system says what memory this process has.
pub const STATM: &str = "/proc/self/statm";

/// Resident memory, bytes; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    fs::read_to_string(STATM).ok().and_then(|statm| resident_in(&statm)).unwrap_or(0)
}

/// The same, as the text of [`STATM`] says.
pub fn resident_in(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
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

/// The machine's name in its network.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// 64 bits of the kernel's randomness.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Fills `bytes` with the kernel's randomness, which cannot be predicted.
pub fn fill_random(bytes: &mut [u8]) {
    // The kernel gives up to 256 bytes in one go.
    for part in bytes.chunks_mut(256) {
        let filled = rustix::rand::getrandom(&mut *part, rustix::rand::GetRandomFlags::empty());
        assert_eq!(filled, Ok(part.len()), "the kernel has randomness");
    }
}

/// The least memory limit of the process's own control groups and those above them, of version 1, 2 or both.
/// `root` is the root folder.
///
/// `mountinfo` says where the groups are mounted, and which group is at the mount's root: in a container that is often
/// the container's own, while `/proc/self/cgroup` names it from the machine's root.
fn group_memory_bytes(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let groups = read("proc/self/cgroup");
    let mounts = read("proc/self/mountinfo");
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::read).collect();
    let limits = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let second = controllers.is_empty();
        if !second && !controllers.split(',').any(|controller| controller == "memory") {
            return None;
        }
        let file = if second { "memory.max" } else { "memory.limit_in_bytes" };
        let mount = mounts.iter().find(|mount| mount.second == second);
        let usual = if second { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/memory" };
        let (top, point) = mount.map_or(("/", usual), |mount| (mount.top, mount.point));
        let own = Path::new(group).strip_prefix(top).unwrap_or(Path::new(""));
        // A group outside of the visible hierarchy is shown with dots.
        let own = if own.components().any(|part| part == Component::ParentDir) {
            Path::new("")
        } else {
            own
        };
        let folder = root.join(point.trim_start_matches('/'));
        let limits = own.ancestors().filter_map(|group| {
            fs::read_to_string(folder.join(group.strip_prefix("/").unwrap_or(group)).join(file))
                .ok()
        });
        limits.filter_map(|limit| limit.trim().parse().ok()).min()
    });
    limits.min()
}

/// Where control groups are mounted that can limit memory.
struct Mount<'a> {
    /// Version 2.
    second: bool,
    /// The group that is seen at the mount point.
    top: &'a str,
    point: &'a str,
}

impl Mount<'_> {
    /// `36 25 0:31 /docker/4f /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory`
    fn read(line: &str) -> Option<Mount<'_>> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (top, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let second = match kind.next()? {
            "cgroup2" => true,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        Some(Mount { second, top, point })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_files_are_for_clients_however_few_there_are() {
        for (files, clients) in
            [(10_128, 10_000), (1_024, 896), (384, 256), (256, 171), (200, 134), (100, 52), (40, 1)]
        {
            assert_eq!(clients_within(files), clients, "{files} files");
        }
    }

    /// A root folder with these files.
    fn limit(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = std::env::temp_dir().join(format!("delayd-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let limit = group_memory_bytes(&root);
        fs::remove_dir_all(&root).unwrap();
        limit
    }

    const MOUNT_2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const MOUNTS_1: &str = "32 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        36 25 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n";
    const NONE_1: &str = "9223372036854771712\n";

    #[test]
    fn the_least_limit_of_the_group_and_those_above_it_counts() {
        let group = "0::/system.slice/delayd.service\n";
        let found = limit(
            "v2-nested",
            &[
                ("proc/self/cgroup", group),
                ("proc/self/mountinfo", MOUNT_2),
                ("sys/fs/cgroup/memory.max", "max\n"),
                ("sys/fs/cgroup/system.slice/memory.max", "400000000\n"),
                ("sys/fs/cgroup/system.slice/delayd.service/memory.max", "max\n"),
            ],
        );
        assert_eq!(found, Some(400_000_000));
        let found = limit(
            "v1-nested",
            &[
                ("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/jobs/delayd\n0::/\n"),
                ("proc/self/mountinfo", MOUNTS_1),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", NONE_1),
                ("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "500000000\n"),
                ("sys/fs/cgroup/memory/jobs/delayd/memory.limit_in_bytes", "300000000\n"),
            ],
        );
        assert_eq!(found, Some(300_000_000));
    }

    #[test]
    fn a_container_sees_its_group_at_the_root_of_the_mount() {
        let mounts = "36 25 0:31 /docker/4f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let found = limit(
            "v1-container",
            &[
                ("proc/self/cgroup", "4:memory:/docker/4f/inner\n"),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
                ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", NONE_1),
            ],
        );
        assert_eq!(found, Some(256 << 20));
        let found = limit(
            "v2-container",
            &[
                ("proc/self/cgroup", "0::/../other\n"),
                ("proc/self/mountinfo", MOUNT_2),
                ("sys/fs/cgroup/memory.max", "134217728\n"),
            ],
        );
        assert_eq!(found, Some(128 << 20));
    }

    #[test]
    fn without_a_limit_or_a_group_there_is_none() {
        assert_eq!(limit("v2-none", &[("proc/self/cgroup", "0::/\n")]), None);
        let both = [
            ("proc/self/cgroup", "4:memory:/a\n0::/b\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700\n"),
            ("sys/fs/cgroup/b/memory.max", "600\n"),
        ];
        assert_eq!(limit("both", &both), Some(600), "without mountinfo, at the usual places");
    }
}
