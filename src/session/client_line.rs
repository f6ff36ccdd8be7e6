//! One connection as CLIENT LIST and CLIENT INFO show it, and the filters that choose among them.

use crate::ids::{ClientId, Db};
use crate::resp::Protocol;

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLine {
    /// What its session knows: `Session::facts`.
    pub session: SessionFacts,
    /// What the server knows.
    pub socket: SocketFacts,
}

/// The session's part of a [`ClientLine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// The connection's number.
    pub id: ClientId,
    /// What CLIENT SETNAME said; empty for none.
    pub name: Vec<u8>,
    /// The database.
    pub db: Db,
    /// How many commands its transaction holds; none outside of one.
    pub multi_count: Option<usize>,
    /// Bytes of those commands.
    pub multi_bytes: usize,
    /// The last command's full name, lower case; `NULL` before the first.
    pub command: &'static str,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// What CLIENT SETINFO LIB-NAME said.
    pub lib_name: Vec<u8>,
    /// What CLIENT SETINFO LIB-VER said.
    pub lib_version: Vec<u8>,
    /// CLIENT NO-EVICT ON.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH ON.
    pub no_touch: bool,
}

/// The server's part of a [`ClientLine`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SocketFacts {
    /// The peer, `ip:port`.
    pub addr: String,
    /// The address it connected to, `ip:port`.
    pub laddr: String,
    /// The file descriptor.
    pub fd: i64,
    /// Seconds since it connected.
    pub age_s: u64,
    /// Seconds since its last command.
    pub idle_s: u64,
    /// It waits for a job.
    pub waiting: bool,
    /// It is closed once its output has left.
    pub closing: bool,
    /// It came by a Unix socket.
    pub unix: bool,
    /// Bytes read and not yet consumed.
    pub input_bytes: usize,
    /// Room left in the read buffer.
    pub input_free_bytes: usize,
    /// Bytes of replies that have not left.
    pub output_bytes: usize,
    /// Everything held for the connection, bytes.
    pub memory_bytes: usize,
    /// It is being watched for reading.
    pub readable: bool,
    /// It is being watched for writing.
    pub writable: bool,
}
