//! Several partitions in a process: the least that each has of what is divided among them, and what each adds.

/// Bytes of a partition's segments at least.
pub const PARTITION_SEGMENT_BYTES_MIN: u64 = 4 << 20;
/// Bytes of batches that a partition of a node keeps in memory for followers, at least.
pub const PARTITION_CACHE_BYTES_MIN: usize = 4 << 20;
/// Bytes of log that a partition of a node keeps for followers, at least.
pub const PARTITION_LOG_KEEP_BYTES_MIN: u64 = 16 << 20;
/// Bytes that the clients of a partition may have, at least.
pub const PARTITION_CLIENTS_BYTES_MIN: u64 = 16 << 20;
/// Resident memory that another partition takes without jobs and clients, bytes: some 1.2 MiB were measured.
pub const PARTITION_RESIDENT_BYTES: u64 = 2 << 20;
/// Files that another partition has open without clients: sockets, journal, timers, other nodes. Twelve were counted
/// without other nodes.
pub const PARTITION_DESCRIPTORS: u64 = 32;
/// A process with several partitions that has fewer places for clients does not start.
pub const PARTITIONS_CLIENTS_MIN: u64 = 32;
/// How long the other partitions may take to stop after one has failed, s.
pub const PARTITIONS_STOP_S: u64 = 20;
/// For how many E the node that should lead a partition must have been well before it is asked to: 9 s for E = 300 ms.
pub const BALANCE_STEADY_E: u64 = 30;
/// How many E pass between two hand-overs of a process, so that not all of its clients move at once.
pub const BALANCE_PAUSE_E: u64 = 10;
/// A partition whose leader has handed over, or tried to, stays where it is for so long, µs.
pub const BALANCE_AGAIN_US: u64 = 600_000_000;
/// By how many batches the node that is to lead may be behind.
pub const BALANCE_BEHIND_MAX: u64 = 1_000;
