//! Backups: what a client that fetches one may hold of the server, and what a restore keeps clear of.

/// Bytes that one DELAY.BACKUP READ answers at most; as much is read ahead.
pub const BACKUP_PIECE_BYTES: usize = 256 << 10;
/// A backup without a request for this long, µs, is ended: its client is gone, and its base may have been replaced by a
/// newer one on the disk.
pub const BACKUP_IDLE_US: u64 = 60_000_000;
/// A backup of a follower that has not all that was acknowledged before it was asked for, after this long, µs, is refused.
pub const BACKUP_FOLLOWS_US: u64 = 10_000_000;
/// How often the newest base is looked for again where another one takes its place meanwhile.
pub const BACKUP_OPENS: u32 = 8;

/// Tokens and generated ids of a restored journal begin this far above the clock, ms: a day, to cover machines whose
/// clocks were ahead.
pub const RESTORED_TOKENS_MS: u64 = 24 * 60 * 60 * 1_000;
