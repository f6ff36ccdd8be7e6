//! Backups: what a client that fetches one may hold of the server, and what a restore keeps clear of.

/// Bytes that one DELAY.BACKUP READ answers at most; as much is read ahead.
pub const BACKUP_PIECE_BYTES: usize = 256 << 10;
/// A backup that was not asked for anything for so long, µs, is ended: its client is gone, and the base that it reads may be
/// one that a newer base has replaced on the disk.
pub const BACKUP_IDLE_US: u64 = 60_000_000;
/// A follower that hears of no leader for so long, µs, makes a backup of what it has.
pub const BACKUP_FOLLOWS_US: u64 = 2_000_000;
/// How often the newest base is looked for again where another one takes its place meanwhile.
pub const BACKUP_OPENS: u32 = 8;

/// Tokens and made ids of a restored journal begin so far above the clock, ms: a day, for those that were handed out by
/// machines whose clocks were ahead.
pub const RESTORED_TOKENS_MS: u64 = 24 * 60 * 60 * 1_000;
