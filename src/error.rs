//! Typed errors that become error replies: a class, then what was wrong, with value and limit.

use std::fmt;
use std::sync::Arc;

/// A user's mistake, or a state that forbids the request. The request changed nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The id is taken.
    #[error("EXISTS job {id} exists in queue {queue}; NX keeps it, REPLACE replaces it")]
    Exists { queue: Shown, id: Shown },
    #[error(
        "EXISTS id {id} of queue {queue} stays taken for {left_ms}ms more (UNIQUE); REPLACE overrides that"
    )]
    Window { queue: Shown, id: Shown, left_ms: u64 },
    /// The queue takes no jobs for now.
    #[error("PAUSED queue {queue} accepts no jobs{}", left(*left_ms))]
    Paused { queue: Shown, left_ms: Option<u64> },
    /// The queue has as many jobs as it may.
    #[error("FULL queue {queue} has {jobs} delayed, ready and leased jobs; its max-jobs is {max}")]
    Full { queue: Shown, jobs: u64, max: u64 },
    /// The group has as many jobs as it may.
    #[error(
        "FULL group {group} of queue {queue} has {jobs} delayed, ready and leased jobs; its group-max-jobs is {max}"
    )]
    GroupFull { group: Shown, queue: Shown, jobs: u64, max: u64 },
    /// It takes several turns, and a transaction has one.
    #[error("ERR {command} works in slices and cannot be part of a transaction")]
    InSlices { command: &'static str },
    /// Adding is refused until memory is freed.
    #[error(
        "OOM command not allowed when used memory > 'maxmemory'. ({used} of {max} bytes in use)"
    )]
    OutOfMemory {
        /// Bytes in use, the new job included.
        used: u64,
        max: u64,
    },
    /// The same, since the jobs there are take more memory once they are delivered.
    #[error(
        "OOM command not allowed when used memory > 'maxmemory'. ({used} of {max} bytes in use, {leases} more are \
         reserved for leases)"
    )]
    OutOfMemoryForLeases {
        /// Bytes in use, the new job included.
        used: u64,
        /// Bytes that leases could take, beyond which nothing is added.
        leases: u64,
        max: u64,
    },
    /// A delay or instant beyond `max-delay`.
    #[error("ERR {argument} is {asked_ms}ms from now; max-delay is {max_ms}ms ({max}){hint}")]
    DelayTooLong {
        /// `when`, or the option before it.
        argument: &'static str,
        asked_ms: u64,
        max_ms: u64,
        max: crate::time::Written,
        /// `; an absolute time needs @` where a duration looks like one, else nothing.
        hint: &'static str,
    },
    /// A lease beyond `max-lease`.
    #[error("ERR {argument} is {asked_ms}ms; max-lease is {max_ms}ms")]
    LeaseTooLong { argument: &'static str, asked_ms: u64, max_ms: u64 },
    /// A pause beyond `max-delay`.
    #[error("ERR FOR is {asked_ms}ms; max-delay is {max_ms}ms")]
    PauseTooLong { asked_ms: u64, max_ms: u64 },
    /// The entries that a transaction would examine or take.
    #[error(
        "EXECABORT Transaction discarded because of: its commands may examine or take {entries} entries together; at \
         most {max} are allowed"
    )]
    TransactionEntries { entries: u64, max: u64 },
    /// The replies of a transaction.
    #[error(
        "EXECABORT Transaction discarded because of: its replies may have {reply_bytes} bytes, {largest_bytes} of \
         them in one; without that one at most {max} are allowed"
    )]
    TransactionReplies { reply_bytes: u64, largest_bytes: u64, max: u64 },
    /// The memory that the client of a transaction would hold.
    #[error(
        "EXECABORT Transaction discarded because of: its client may hold {held_bytes} bytes of replies and leased \
         jobs; max-clients-memory and client-output-buffer-limit allow {max}"
    )]
    TransactionHeld { held_bytes: u64, max: u64 },
    /// The answer of a command through the console.
    #[error(
        "TOOLARGE the answer may have {bytes} bytes, but only {max} are left; nothing was done, request less at once"
    )]
    AnswerTooLarge { bytes: u64, max: u64 },
    /// A range in a transaction that would be refused at its turn.
    #[error(
        "EXECABORT Transaction discarded because of: the reply of a range may have more than {max} bytes; request a \
         shorter range"
    )]
    TransactionRange { max: u64 },
    /// Another node answers for this hash slot: `host:port`.
    #[error("MOVED {slot} {address}")]
    Moved { slot: u16, address: String },
    /// None does now, for this reason.
    #[error("CLUSTERDOWN {0}")]
    ClusterDown(String),
    /// The journal does not take what the request would record.
    #[error(transparent)]
    Misconf(#[from] Misconf),
    /// Anything found while reading the arguments; the text begins with its class.
    #[error("{0}")]
    Text(String),
}

/// How long a pause goes on.
fn left(ms: Option<u64>) -> String {
    match ms {
        Some(ms) => format!(" for {ms}ms more"),
        None => " until DELAY.RESUME".to_owned(),
    }
}

impl Error {
    /// An error with a text of its own, which begins with a class such as `ERR`.
    pub fn text(text: impl Into<String>) -> Error {
        Error::Text(text.into())
    }
}

/// Why no facts are taken. The first two have Redis's class for an append-only file that cannot be written, the
/// others those for a server that does not decide.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misconf {
    /// There is no room; it goes on by itself.
    #[error(
        "MISCONF the journal has no space: {cause}; this command is refused until there is some, which is checked \
         every second"
    )]
    NoRoom {
        /// A few words, such as the system's.
        cause: Arc<str>,
    },
    /// A write or a sync failed.
    #[error("MISCONF the journal failed: {cause}; nothing is acknowledged until a restart")]
    Failed { cause: Arc<str> },
    /// Another node of the cluster decides, or will.
    #[error("READONLY You can't write against a read only replica.")]
    Following,
    /// No node decides, as far as this one knows.
    #[error(
        "MASTERDOWN there is no leader: nothing is changed or handed out until a majority of the cluster has elected \
         one"
    )]
    Leaderless,
    /// This node decides, and hears too few others to know that it still does.
    #[error("MASTERDOWN no quorum of the cluster answers; nothing is decided until one does")]
    NoQuorum,
}

/// A user's bytes inside an error text: at most 64 of them, unprintable ones as `\xNN`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown(String);

impl Shown {
    pub fn new(bytes: &[u8]) -> Shown {
        const BYTES_MAX: usize = 64;
        let cut = &bytes[..bytes.len().min(BYTES_MAX)];
        let more = if cut.len() < bytes.len() { "..." } else { "" };
        Shown(format!("'{}'{more}", cut.escape_ascii()))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
