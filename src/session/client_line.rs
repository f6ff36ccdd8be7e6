//! One connection as CLIENT LIST and CLIENT INFO show it, and the filters that choose among them.

use std::fmt;

use crate::command::spec::action::{ClientFilter, ClientKind};
use crate::ids::{ClientId, Db};
use crate::pubsub::SubscriptionCounts;
use crate::resp::Protocol;

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLine {
    /// Known to its session: `Session::facts`.
    pub session: SessionFacts,
    /// Known to the server.
    pub socket: SocketFacts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    pub id: ClientId,
    /// The name given by CLIENT SETNAME; empty for none.
    pub name: Vec<u8>,
    pub db: Db,
    /// How many commands its transaction holds; none outside of one.
    pub multi_count: Option<usize>,
    pub watched_count: usize,
    pub multi_bytes: usize,
    /// The last command's full name, lower case; `NULL` before the first.
    pub command: &'static str,
    pub protocol: Protocol,
    pub lib_name: Vec<u8>,
    pub lib_version: Vec<u8>,
    pub no_evict: bool,
    pub no_touch: bool,
    pub user: Vec<u8>,
    /// How many channels and patterns it has subscribed to.
    pub subscriptions: SubscriptionCounts,
    /// It sees every command.
    pub monitors: bool,
}

/// The server's part of a [`ClientLine`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SocketFacts {
    pub addr: String,
    /// The address it connected to, `ip:port`.
    pub laddr: String,
    pub fd: i64,
    pub age_s: u64,
    pub idle_s: u64,
    pub waiting: bool,
    /// It is closed once its output has left.
    pub closing: bool,
    pub unix: bool,
    /// Bytes read and not yet consumed.
    pub input_bytes: usize,
    /// Room left in the read buffer.
    pub input_free_bytes: usize,
    /// Bytes of replies that have not left, of those in the buffer that is being written.
    pub output_bytes: usize,
    /// Full buffers of replies before that one.
    pub output_count: usize,
    /// Bytes allocated for all of them.
    pub output_held_bytes: usize,
    /// Everything held for the connection, bytes.
    pub memory_bytes: usize,
    /// It is being watched for reading.
    pub readable: bool,
    /// It is being watched for writing.
    pub writable: bool,
    /// The server's role in its cluster: `master` or `replica`; none outside a cluster.
    pub role: Option<&'static str>,
}

impl fmt::Display for ClientLine {
    /// As CLIENT LIST shows it: `name=value` parted by blanks, in Redis's order, without line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (session, socket) = (&self.session, &self.socket);
        let [channels, patterns] = session.subscriptions;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        write!(
            f,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub=0",
            session.id,
            socket.addr,
            socket.laddr,
            socket.fd,
            text(&session.name),
            socket.age_s,
            socket.idle_s,
            self.flags(),
            session.db,
            channels,
            patterns,
        )?;
        let multi = session.multi_count.map_or(-1, |count| count as i64);
        let (input, free) = (socket.input_bytes, socket.input_free_bytes);
        let watched = session.watched_count;
        write!(f, " multi={multi} watch={watched} qbuf={input} qbuf-free={free} argv-mem=0")?;
        let (output, whole) = (socket.output_bytes, socket.memory_bytes);
        let (queued, held) = (socket.output_count, socket.output_held_bytes);
        write!(
            f,
            " multi-mem={} rbs={output} rbp={output} obl={output} oll={queued} omem={held} tot-mem={whole}",
            session.multi_bytes
        )?;
        let readable = if socket.readable { "r" } else { "" };
        let writable = if socket.writable { "w" } else { "" };
        let resp = match session.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        write!(
            f,
            " events={readable}{writable} cmd={} user={} redir=-1 resp={resp} lib-name={} \
             lib-ver={}",
            session.command,
            text(&session.user),
            text(&session.lib_name),
            text(&session.lib_version),
        )?;
        socket.role.map_or(Ok(()), |role| write!(f, " role={role}"))
    }
}

impl ClientLine {
    fn is_subscribed(&self) -> bool {
        self.session.subscriptions != [0; 2]
    }

    /// A letter for each thing that holds; `N` if none does.
    fn flags(&self) -> String {
        let all = [
            (self.session.monitors, 'O'),
            (self.is_subscribed(), 'P'),
            (self.socket.waiting, 'b'),
            (self.session.multi_count.is_some(), 'x'),
            (self.socket.closing, 'c'),
            (self.socket.unix, 'U'),
            (self.session.no_evict, 'e'),
            (self.session.no_touch, 'T'),
        ];
        let flags: String = all.iter().filter(|(holds, _)| *holds).map(|(_, flag)| flag).collect();
        if flags.is_empty() { "N".to_string() } else { flags }
    }
}

impl ClientFilter<'_> {
    /// Whether `line` is meant; `skip_me` is the asking session's to heed.
    pub fn matches(&self, line: &ClientLine) -> bool {
        let ids = self.ids.as_ref().is_none_or(|ids| ids.contains(&line.session.id));
        let addr = self.addr.is_none_or(|addr| addr == line.socket.addr.as_bytes());
        let laddr = self.laddr.is_none_or(|laddr| laddr == line.socket.laddr.as_bytes());
        let user = self.user.is_none_or(|user| user == line.session.user);
        let age = self.age_s_min.is_none_or(|age| line.socket.age_s >= age);
        let kind = self.kind.is_none_or(|kind| match kind {
            ClientKind::Normal => !line.is_subscribed(),
            ClientKind::PubSub => line.is_subscribed(),
            // There are no Redis replicas.
            ClientKind::Master | ClientKind::Replica => false,
        });
        ids && addr && laddr && user && age && kind
    }
}
