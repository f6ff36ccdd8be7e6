//! The table of options: all there is to know about each, stated once. It feeds the file, the
//! command line, CONFIG GET, SET and REWRITE, `--help` and the written reference.

use super::value::Kind;
use crate::limits;

/// An option. The order is the table's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the table documents each")]
pub enum Name {
    Port,
    Bind,
    ProtectedMode,
    TcpBacklog,
    TcpKeepalive,
    Timeout,
    MaxClients,
    MetricsPort,
    MetricsBind,
    MetricsQueuesMax,
    Databases,
    MaxMemory,
    MaxMemoryPolicy,
    MaxBodySize,
    MaxDelay,
    MaxLease,
    DefaultLease,
    StatsRetention,
    MaxClockJump,
    Tzdata,
    MaxClientsMemory,
    ProtoMaxBulkLen,
    ClientQueryBufferLimit,
    ClientOutputBufferLimit,
    Hz,
    SlowlogLogSlowerThan,
    SlowlogMaxLen,
    LatencyMonitorThreshold,
    LogLevel,
    LogFormat,
    LogFile,
    Daemonize,
    Dir,
    DbFilename,
    AppendOnly,
    AppendFsync,
    AppendDirName,
    JournalSegmentSize,
    Save,
    ClusterNode,
    ClusterNodes,
    ClusterPort,
    ClusterBind,
    ClusterAnnounceIp,
    ClusterAnnouncePort,
    ClusterAnnounceTlsPort,
    ClusterAnnounceBusPort,
    ClusterSecret,
    ClusterElectionTimeout,
    ClusterLeaseGrace,
    ClusterAnnounceSentinelPort,
    SentinelPort,
    SentinelMasterName,
    ClusterLogKeep,
    ClusterSyncRate,
    ClusterMaxClockSkew,
    ReplicaServeStaleData,
    ReplicaPriority,
    NotifyKeyspaceEvents,
    RequirePass,
    ReplicaReadOnly,
    AclFile,
    AclPubsubDefault,
    AclLogMaxLen,
    UnixSocket,
    UnixSocketPerm,
    TlsPort,
    TlsCertFile,
    TlsKeyFile,
    TlsKeyFilePass,
    TlsCaCertFile,
    TlsCaCertDir,
    TlsAuthClients,
    TlsProtocols,
    TlsPreferServerCiphers,
    TlsCiphers,
    TlsCiphersuites,
    TlsDhParamsFile,
    TlsSessionCaching,
    TlsSessionCacheSize,
    TlsSessionCacheTimeout,
    TlsReplication,
    TlsCluster,
    TlsClientCertFile,
    TlsClientKeyFile,
    TlsClientKeyFilePass,
}

/// What CONFIG SET may do with an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Give it another value.
    Live,
    /// Nothing.
    Fixed,
    /// Give it the value it has, as tools do. For any other, the reason why not.
    FixedAs(&'static str),
}

/// One option.
#[derive(Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Spec {
    pub name: Name,
    /// Its word, and an older word that means the same.
    pub words: &'static [&'static str],
    pub kind: Kind,
    pub default: &'static [&'static str],
    /// Whether CONFIG SET may change it while the server runs.
    pub change: Change,
    pub doc: &'static str,
}

impl Spec {
    /// The option's own word.
    pub fn word(&self) -> &'static str {
        self.words[0]
    }

    /// Whether its value is not to be repeated.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret) || self.word().ends_with("-pass")
    }
}

/// The line of the table for an option.
pub fn spec(name: Name) -> &'static Spec {
    &OPTIONS[name as usize]
}

/// Finds an option by its word, in any case.
pub fn find(word: &str) -> Option<&'static Spec> {
    OPTIONS.iter().find(|spec| spec.words.iter().any(|w| w.eq_ignore_ascii_case(word)))
}

const fn fixed(
    name: Name,
    words: &'static [&'static str],
    kind: Kind,
    default: &'static [&'static str],
    doc: &'static str,
) -> Spec {
    Spec { name, words, kind, default, change: Change::Fixed, doc }
}

const fn live(
    name: Name,
    words: &'static [&'static str],
    kind: Kind,
    default: &'static [&'static str],
    doc: &'static str,
) -> Spec {
    Spec { name, words, kind, default, change: Change::Live, doc }
}

const PORT: Kind = Kind::Count(0, 65_535);
const MIB: i64 = 1 << 20;
const TIB: i64 = 1 << 40;
const DELAY_MS_MAX: i64 = limits::DELAY_MS_MAX as i64;

/// All options.
#[rustfmt::skip]
pub static OPTIONS: [Spec; 86] = [
    fixed(Name::Port, &["port"], Kind::Count(0, 65_535), &["9248"],
        "TCP port. 0 lets the system choose one, which the first line of the log names; with tls-port or unixsocket it means none."),
    fixed(Name::Bind, &["bind"], Kind::Words, &["127.0.0.1", "-::1"],
        "Addresses to listen on; one that begins with - may be missing on this machine. * stands for all IPv4 addresses, ::* for all IPv6 ones."),
    live(Name::ProtectedMode, &["protected-mode"], Kind::YesNo, &["yes"],
        "Refuse connections from other machines, whatever bind says, while no password is set."),
    fixed(Name::TcpBacklog, &["tcp-backlog"], Kind::Count(1, 65_535), &["511"],
        "Connections the kernel holds until they are accepted."),
    live(Name::TcpKeepalive, &["tcp-keepalive"], Kind::Seconds(0, 32_767), &["300"],
        "Probe a silent peer after so many seconds, so that dead ones are noticed; 0 for never."),
    live(Name::Timeout, &["timeout"], Kind::Seconds(0, 2_147_483_647), &["0"],
        "Close a client that has been idle for so many seconds; 0 for never. Blocked clients and subscribers are not idle."),
    live(Name::MaxClients, &["maxclients"], Kind::Count(1, 1_000_000), &["10000"],
        "Connections at a time; further ones get an error and are closed."),
    fixed(Name::MetricsPort, &["metrics-port"], Kind::Count(0, 65_535), &["0"],
        "TCP port for HTTP: /metrics for Prometheus, /healthz and /readyz for probes; 0 for none. There is no password on it."),
    fixed(Name::MetricsBind, &["metrics-bind"], Kind::Words, &["127.0.0.1"],
        "Addresses to listen on for HTTP, written as for bind."),
    live(Name::MetricsQueuesMax, &["metrics-queues-max"], Kind::Count(0, 100_000), &["1000"],
        "Queues with lines of their own in /metrics: those with the most jobs. The others are told together, with an empty queue label."),
    fixed(Name::Databases, &["databases"], Kind::Only(&["16"], "there are always 16 databases"), &["16"],
        "Number of databases."),
    live(Name::MaxMemory, &["maxmemory"], Kind::Memory, &["80%"],
        "Memory for jobs, with what jobs that are gone have left behind until it is given back. Beyond it commands that add answer OOM, and the text of `NACK … ERROR` is not kept; taking and ending go on, and no job is ever evicted. A job takes some 100 bytes more once it has been delivered: adding keeps them back for all jobs there are (INFO's `mem_kept_for_leases`), but for a 16th of maxmemory, by which leases may exceed it. So jobs of 4 KiB fill all of maxmemory, and those of 0 bytes half of it. A share is of the machine's memory or of the control group's limit, whichever is less."),
    live(Name::MaxMemoryPolicy, &["maxmemory-policy"], Kind::Only(&["noeviction"], "a job is never evicted: noeviction is the only policy"), &["noeviction"],
        "What happens at maxmemory."),
    live(Name::MaxBodySize, &["max-body-size"], Kind::Bytes(1024, 512 * MIB), &["16mb"],
        "Longest job body. A longer one is skipped, not stored, and answered with an error."),
    live(Name::MaxDelay, &["max-delay"], Kind::Span(1, DELAY_MS_MAX), &["3650d"],
        "The farthest a due time may lie ahead."),
    live(Name::MaxLease, &["max-lease"], Kind::Span(1, DELAY_MS_MAX), &["24h"],
        "The longest lease."),
    live(Name::DefaultLease, &["default-lease"], Kind::Span(1, DELAY_MS_MAX), &["60s"],
        "The lease when neither the call, nor the job, nor the queue names one; at most max-lease."),
    live(Name::StatsRetention, &["stats-retention"], Kind::Span(1_000, DELAY_MS_MAX), &["24h"],
        "How long the totals of a queue without a job and a UNIQUE window stay after its last use."),
    live(Name::MaxClockJump, &["max-clock-jump"], Kind::Span(0, DELAY_MS_MAX), &["1h"],
        "A wall clock that is found farther ahead than this is believed only after it has stood there for a minute; until then time goes on by the monotonic clock. 0: every step counts at once. A start believes the wall clock, as a downtime may be of any length."),
    live(Name::Tzdata, &["tzdata"], Kind::WordOrFolder(&["auto", "bundled", "system"]), &["auto"],
        "Whose tables of time zones schedules go by. auto: those in the program or the system's, whichever are newer. bundled: those in the program. system: those in /usr/share/zoneinfo, however old they are. A folder: compiled tables (TZif) in it, named by their paths. Newer ones are looked for once an hour; CONFIG SET reads them again, also when the value stays, and they are used some ms later. INFO's `tzdata_version` and `tzdata_source` tell which are used."),
    live(Name::MaxClientsMemory, &["max-clients-memory"], Kind::Share(MIB, TIB, 256 * MIB), &["8%"],
        "All partial requests, queued transactions, places in lines, BOUND leases (16 to 32 bytes each) and unread replies together; beyond it the client that holds most is closed, unless its unread replies alone, up to 9 MiB, are what is beyond: one reply closes nobody who reads it. For bodies above 4 MiB it should be three times max-body-size. A share is of the same memory as maxmemory's."),
    live(Name::ProtoMaxBulkLen, &["proto-max-bulk-len"], Kind::Bytes(MIB, 512 * MIB), &["512mb"],
        "Longest argument the protocol allows; a longer one closes the connection."),
    live(Name::ClientQueryBufferLimit, &["client-query-buffer-limit"], Kind::Bytes(MIB, TIB), &["1gb"],
        "Largest request of one client; a larger one closes the connection."),
    live(Name::ClientOutputBufferLimit, &["client-output-buffer-limit"], Kind::OutputLimits,
        &["normal", "0", "0", "0", "slave", "268435456", "67108864", "60", "pubsub", "33554432", "8388608", "60"],
        "Unread output above which a client of a class is closed: at once above the hard limit, after so many seconds above the soft one."),
    fixed(Name::Hz, &["hz"], Kind::Only(&["10"], "there is no background cycle to tune"), &["10"],
        "Kept for tools that read it."),
    live(Name::SlowlogLogSlowerThan, &["slowlog-log-slower-than"], Kind::Count(-1, i64::MAX), &["10000"],
        "Commands that take more microseconds than this enter the slow log; 0 logs all, -1 none."),
    live(Name::SlowlogMaxLen, &["slowlog-max-len"], Kind::Count(0, 1_000_000), &["128"],
        "Entries the slow log keeps."),
    live(Name::LatencyMonitorThreshold, &["latency-monitor-threshold"], Kind::Only(&["0"], "there is no latency monitor: LATENCY HISTOGRAM tells how long commands take, SLOWLOG which took long"), &["0"],
        "Kept for tools that read it."),
    live(Name::LogLevel, &["loglevel"], Kind::Word(&["debug", "verbose", "notice", "warning"]), &["notice"],
        "What is logged."),
    fixed(Name::LogFormat, &["log-format"], Kind::Word(&["text", "json"]), &["text"],
        "Lines for people, or JSON for machines."),
    fixed(Name::LogFile, &["logfile"], Kind::Only(&[""], "the log goes to stderr; redirect it there"), &[""],
        "Where the log goes: always stderr."),
    fixed(Name::Daemonize, &["daemonize"], Kind::Only(&["no"], "delayd stays in the foreground; let a service manager run it"), &["no"],
        "Whether to detach: never."),
    fixed(Name::Dir, &["dir"], Kind::Text, &["."],
        "Where data is kept: the journal's folder lies in it. It must exist."),
    fixed(Name::DbFilename, &["dbfilename"], Kind::Text, &["dump.rdb"],
        "Kept for tools that read it."),
    Spec {
        name: Name::AppendOnly, words: &["appendonly"], kind: Kind::YesNo, default: &["yes"],
        change: Change::FixedAs("the journal is opened when the server starts, or never: restart it with the other value"),
        doc: "Whether every change is written to a journal, from which a restart has it back. With no, jobs are in memory only.",
    },
    live(Name::AppendFsync, &["appendfsync"], Kind::Word(&["always", "everysec", "no"]), &["always"],
        "When the journal is synced. always: before a change is answered, one sync for all that come meanwhile. everysec: once a second, so that a crash can cost what was answered in the last second. no: whenever the system does it by itself."),
    fixed(Name::AppendDirName, &["appenddirname"], Kind::FolderName, &["journal"],
        "The journal's folder, in dir. One server at a time has it."),
    fixed(Name::JournalSegmentSize, &["journal-segment-size"], Kind::Bytes(MIB, 1024 * MIB), &["64mb"],
        "Size of the journal's files, a multiple of 4096, and at most an eighth of the disk. Room is reserved a file at a time."),
    live(Name::Save, &["save"], Kind::Only(&[""], "there are no snapshots by time; only the empty value is taken"), &[""],
        "Redis's snapshot schedule: always empty."),
    fixed(Name::ClusterNode, &["cluster-node"], Kind::Text, &[""],
        "This node's name in its cluster; empty for a server that runs alone. `@hostname` in it stands for the first label of the machine's name. All nodes hold the same jobs, one decides; what was acknowledged is on more than half of them."),
    fixed(Name::ClusterNodes, &["cluster-nodes"], Kind::Words, &[""],
        "All nodes, this one included, as `name=host:port`, with commas or spaces between; the ports are those for other nodes. The same on all of them. Once the cluster stands its own members count."),
    fixed(Name::ClusterPort, &["cluster-port"], PORT, &["0"],
        "The port where other nodes connect; 0 for port and 10000."),
    fixed(Name::ClusterBind, &["cluster-bind"], Kind::Words, &[""],
        "Addresses to listen on for other nodes, written as for bind; empty for those of bind."),
    fixed(Name::ClusterAnnounceIp, &["cluster-announce-ip"], Kind::Text, &[""],
        "The address or host name under which clients and other nodes find this node; empty for the one that cluster-nodes has."),
    fixed(Name::ClusterAnnouncePort, &["cluster-announce-port"], PORT, &["0"],
        "The port under which clients find it; 0 for port."),
    fixed(Name::ClusterAnnounceTlsPort, &["cluster-announce-tls-port"], PORT, &["0"],
        "The same with TLS; 0 for tls-port."),
    fixed(Name::ClusterAnnounceBusPort, &["cluster-announce-bus-port"], PORT, &["0"],
        "The port under which other nodes find it, where that is not cluster-port, as behind a container's network; 0 if it is."),
    fixed(Name::ClusterSecret, &["cluster-secret"], Kind::Secret, &[""],
        "What all nodes know and nobody else, so that no stranger is let in. Needed unless all nodes are on this machine. What nodes say to each other is not encrypted."),
    fixed(Name::ClusterElectionTimeout, &["cluster-election-timeout"], Kind::Span(limits::ELECTION_MS_MIN as i64, limits::ELECTION_MS_MAX as i64), &["300ms"],
        "After how long without a word of the leader another node offers itself, once to twice this. The same on all nodes."),
    fixed(Name::ClusterLeaseGrace, &["cluster-lease-grace"], Kind::Span(0, limits::LEASE_GRACE_MS_MAX as i64), &["2s"],
        "How long after another node has begun to lead no lease ends that would have ended meanwhile, so that consumers find it and acknowledge."),
    fixed(Name::ClusterAnnounceSentinelPort, &["cluster-announce-sentinel-port"], PORT, &["0"],
        "The port under which clients find sentinel-port; 0 for sentinel-port."),
    fixed(Name::SentinelPort, &["sentinel-port"], PORT, &["0"],
        "The port where a node of a cluster answers as a Redis Sentinel, on the addresses of bind, so that clients which speak to one find the node that leads; 0 for none. It speaks TLS if tls-port is set and port is 0. Users and passwords are those of port. See [cluster.md](cluster.md)."),
    fixed(Name::SentinelMasterName, &["sentinel-master-name"], Kind::Text, &["delayd"],
        "The name under which clients ask there for the leader. The same on all nodes."),
    fixed(Name::ClusterLogKeep, &["cluster-log-keep"], Kind::Bytes(0, TIB), &["256mb"],
        "How much of the log is kept for nodes that were away, beyond what the newest base lacks. Whoever is further behind is sent a base. At most an eighth of the disk."),
    fixed(Name::ClusterSyncRate, &["cluster-sync-rate"], Kind::Bytes(MIB, TIB), &["100mb"],
        "How many bytes a second a base is sent with to a node that lacks it, at most."),
    fixed(Name::ClusterMaxClockSkew, &["cluster-max-clock-skew"], Kind::Span(limits::CLOCK_SKEW_MS_MIN as i64, limits::CLOCK_SKEW_MS_MAX as i64), &["50ms"],
        "How far a node's clock may be from what most nodes say: no job is handed out earlier than that before its due time by their clocks, and a node beyond it leads only if no other can."),
    live(Name::ReplicaServeStaleData, &["replica-serve-stale-data", "slave-serve-stale-data"], Kind::YesNo, &["yes"],
        "Whether a node that does not lead answers reads, from what it has; they may be a moment behind the leader. no: it answers MASTERDOWN."),
    live(Name::ReplicaPriority, &["replica-priority", "slave-priority"], Kind::Count(0, limits::REPLICA_PRIORITY_MAX as i64), &["100"],
        "How much this node of a cluster is wanted as a leader when another one hands over: of those that have nearly all there is the one with the least takes over. 0: it leads only if no other can."),
    live(Name::NotifyKeyspaceEvents, &["notify-keyspace-events"], Kind::EventClasses, &[""],
        "Which events are published, and on which channels. What: d what happens to jobs, g queues that are removed or renamed, n new queues; A is all of Redis's classes, d and g among them. Where: K, E, J. Without a letter for what and one for where, nothing is published and nothing is spent. See [events.md](events.md)."),
    live(Name::RequirePass, &["requirepass"], Kind::Secret, &[""],
        "The password of the user default; empty for none. Connections of other machines are refused while there is none (protected-mode). ACL SETUSER knows more."),
    live(Name::ReplicaReadOnly, &["replica-read-only", "slave-read-only"], Kind::Only(&["yes"], "a replica is always read only"), &["yes"],
        "Kept for tools that read it."),
    fixed(Name::AclFile, &["aclfile"], Kind::Text, &[""],
        "The file that ACL LOAD reads and ACL SAVE writes, read at the start too: lines of ACL LIST, in Redis's form. A relative path begins at dir. With it no user may stand in the configuration file."),
    live(Name::AclPubsubDefault, &["acl-pubsub-default"], Kind::Word(&["resetchannels", "allchannels"]), &["resetchannels"],
        "Whether a new user may use all channels of pub/sub, or none."),
    live(Name::AclLogMaxLen, &["acllog-max-len"], Kind::Count(0, 1_000_000), &["128"],
        "Entries ACL LOG keeps."),
    fixed(Name::UnixSocket, &["unixsocket"], Kind::Text, &[""],
        "The path of a Unix socket to listen on; removed when the server stops."),
    fixed(Name::UnixSocketPerm, &["unixsocketperm"], Kind::Mode, &["0"],
        "Who may connect to the Unix socket, as chmod has it: 700 for the own user alone. 0 leaves it to the system."),
    fixed(Name::TlsPort, &["tls-port"], Kind::Count(0, 65_535), &["0"],
        "A port for TLS beside port, or, with port 0, instead of it; 0 for none."),
    live(Name::TlsCertFile, &["tls-cert-file"], Kind::Text, &[""],
        "The server's certificate and those above it, PEM. CONFIG SET of this or any other tls- option reads all files again."),
    live(Name::TlsKeyFile, &["tls-key-file"], Kind::Text, &[""],
        "The certificate's private key, PEM, not encrypted."),
    live(Name::TlsKeyFilePass, &["tls-key-file-pass"], Kind::Only(&[""], "encrypted private keys cannot be read; decrypt the file and guard it by its permissions"), &[""],
        "Redis's password of the private key: always empty."),
    live(Name::TlsCaCertFile, &["tls-ca-cert-file"], Kind::Text, &[""],
        "Certificates, PEM, that clients' ones must come from."),
    live(Name::TlsCaCertDir, &["tls-ca-cert-dir"], Kind::Text, &[""],
        "A folder with files of such certificates."),
    live(Name::TlsAuthClients, &["tls-auth-clients"], Kind::Word(&["yes", "no", "optional"]), &["yes"],
        "Whether clients must have a certificate. optional: it is checked if they have one."),
    live(Name::TlsProtocols, &["tls-protocols"], Kind::Words, &[""],
        "TLSv1.2, TLSv1.3 or both; empty for both. Older ones are not safe and not spoken."),
    live(Name::TlsPreferServerCiphers, &["tls-prefer-server-ciphers"], Kind::YesNo, &["no"],
        "Whether the server's order of ciphers counts, not the client's."),
    live(Name::TlsCiphers, &["tls-ciphers"], Kind::Only(&[""], "the ciphers are those of rustls, all of them safe"), &[""],
        "Redis's choice of ciphers for TLS 1.2: always empty."),
    live(Name::TlsCiphersuites, &["tls-ciphersuites"], Kind::Only(&[""], "the ciphers are those of rustls, all of them safe"), &[""],
        "Redis's choice of ciphers for TLS 1.3: always empty."),
    live(Name::TlsDhParamsFile, &["tls-dh-params-file"], Kind::Only(&[""], "keys are agreed on over elliptic curves, for which there are no parameters"), &[""],
        "Redis's parameters for Diffie-Hellman: always empty."),
    live(Name::TlsSessionCaching, &["tls-session-caching"], Kind::YesNo, &["yes"],
        "Whether clients that come again may shorten the handshake."),
    live(Name::TlsSessionCacheSize, &["tls-session-cache-size"], Kind::Count(1, 1_000_000), &["20480"],
        "How many clients are remembered for that."),
    live(Name::TlsSessionCacheTimeout, &["tls-session-cache-timeout"], Kind::Only(&["300"], "sessions are remembered until tls-session-cache-size pushes them out"), &["300"],
        "Kept for files that state Redis's default."),
    fixed(Name::TlsReplication, &["tls-replication"], Kind::Only(&["no"], "there is no replication in this version"), &["no"],
        "TLS towards a master: not in this version."),
    fixed(Name::TlsCluster, &["tls-cluster"], Kind::YesNo, &["no"],
        "Whether the nodes of a cluster speak TLS with each other: each shows its `tls-cert-file`, which is for servers and for clients, and takes those of `tls-ca-cert-file`. The same on all nodes."),
    live(Name::TlsClientCertFile, &["tls-client-cert-file"], Kind::Only(&[""], "delayd connects to no other server, so it is nobody's client"), &[""],
        "Redis's certificate for connections that it makes itself: always empty."),
    live(Name::TlsClientKeyFile, &["tls-client-key-file"], Kind::Only(&[""], "delayd connects to no other server, so it is nobody's client"), &[""],
        "The private key of that certificate: always empty."),
    live(Name::TlsClientKeyFilePass, &["tls-client-key-file-pass"], Kind::Only(&[""], "delayd connects to no other server, so it is nobody's client"), &[""],
        "The password of that private key: always empty."),
];
