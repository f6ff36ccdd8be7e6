//! The table of options: everything about each, stated once. It feeds the file, the command line,
//! CONFIG GET, SET and REWRITE, `--help` and the written reference.

use super::value::OptionKind;
use crate::limits;

/// Makes the enum [`Name`] and the table, whose order is the enum's.
macro_rules! options {
    ($($change:ident $(($why:literal))? $name:ident($($spec:tt)+)),+ $(,)?) => {
        /// An option.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Name {
            $($name,)+
        }

        pub static OPTIONS: [Spec; [$(Name::$name),+].len()] =
            [$(of(Name::$name, OptionChange::$change $(($why))?, $($spec)+)),+];
    };
}

/// Whether CONFIG SET may change an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionChange {
    /// Give it another value.
    Live,
    /// Nothing.
    Fixed,
    /// Give it the value it has, as tools do. For any other, the reason why not.
    FixedAs(&'static str),
}

#[derive(Debug)]
pub struct Spec {
    pub name: Name,
    /// Its word, and an older word that means the same.
    pub words: &'static [&'static str],
    pub kind: OptionKind,
    pub default: &'static [&'static str],
    /// Whether CONFIG SET may change it while the server runs.
    pub change: OptionChange,
    pub doc: &'static str,
}

impl Spec {
    pub fn word(&self) -> &'static str {
        self.words[0]
    }

    /// Whether it concerns one start only, and is no part of a file.
    pub fn is_of_one_start(&self) -> bool {
        matches!(self.name, Name::ReadyFd | Name::UntilStdinCloses)
    }

    /// Whether its value is not to be repeated.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, OptionKind::Secret) || self.word().ends_with("-pass")
    }
}

/// The line of the table for an option.
pub fn spec(name: Name) -> &'static Spec {
    &OPTIONS[name as usize]
}

pub fn find(word: &str) -> Option<&'static Spec> {
    OPTIONS.iter().find(|spec| spec.words.iter().any(|w| w.eq_ignore_ascii_case(word)))
}

const fn of(
    name: Name,
    change: OptionChange,
    words: &'static [&'static str],
    kind: OptionKind,
    default: &'static [&'static str],
    doc: &'static str,
) -> Spec {
    Spec { name, words, kind, default, change, doc }
}

const PORT: OptionKind = OptionKind::Count(0, 65_535);
const MIB: i64 = 1 << 20;
const TIB: i64 = 1 << 40;
const DELAY_MS_MAX: i64 = limits::DELAY_MS_MAX as i64;

options! {
    Fixed Port(&["port"], OptionKind::Count(0, 65_535), &["9248"],
        "TCP port. 0 lets the system choose one, which the first line of the log names; with tls-port or unixsocket set, 0 means none."),
    Fixed Bind(&["bind"], OptionKind::Words, &["127.0.0.1", "-::1"],
        "Addresses to listen on. An address that begins with - may be missing on this machine. * means all IPv4 addresses, ::* all IPv6 addresses."),
    Live ProtectedMode(&["protected-mode"], OptionKind::YesNo, &["yes"],
        "Refuse connections from other machines, whatever bind says, while no password is set."),
    Fixed TcpBacklog(&["tcp-backlog"], OptionKind::Count(1, 65_535), &["511"],
        "Connections the kernel queues until they are accepted."),
    Live TcpKeepalive(&["tcp-keepalive"], OptionKind::Seconds(0, 32_767), &["300"],
        "Probe a silent peer after this many seconds, so that dead connections are noticed; 0 for never."),
    Live Timeout(&["timeout"], OptionKind::Seconds(0, 2_147_483_647), &["0"],
        "Close a client that has been idle for this many seconds; 0 for never. Blocked clients and subscribers are not idle."),
    Live MaxClients(&["maxclients"], OptionKind::Count(1, 1_000_000), &["10000"],
        "Maximum number of connections. Further ones get an error and are closed, except for eight from this machine that log in as users with `+@admin`. Lowered if the limit of open files requires it; CONFIG GET shows the lowered value."),
    Fixed MetricsPort(&["metrics-port"], OptionKind::Count(0, 65_535), &["0"],
        "TCP port for HTTP: /metrics for Prometheus, /healthz and /readyz for probes; 0 for none. It has no password."),
    Fixed MetricsBind(&["metrics-bind"], OptionKind::Words, &["127.0.0.1"],
        "Addresses to listen on for HTTP, written as for bind."),
    Live MetricsQueuesMax(&["metrics-queues-max"], OptionKind::Count(0, 100_000), &["1000"],
        "Queues with lines of their own in /metrics: those with the most jobs. All others are summed, with an empty queue label."),
    Fixed ConsolePort(&["console-port"], OptionKind::Count(0, 65_535), &["0"],
        "TCP port for the console (web pages and an HTTP API); 0 for none. Users log in with their name and password. While the default user has no password, a link logs in as that user; it is in the log, and `delayd console` prints it."),
    Fixed ConsoleBind(&["console-bind"], OptionKind::Words, &["127.0.0.1"],
        "Addresses of this machine the console listens on."),
    Fixed ConsoleHosts(&["console-hosts"], OptionKind::Words, &[""],
        "Host names of the console, in addition to localhost and the addresses it listens on. Any other name in a request's Host header is refused, so that a foreign web page that points its own name here reads nothing."),
    Fixed ConsoleTrustedProxies(&["console-trusted-proxies"], OptionKind::Words, &[""],
        "Trusted proxies in front of the console, as addresses or networks such as 10.0.0.0/8. Their X-Forwarded-For or Forwarded header gives the visitor's address, X-Forwarded-Proto or Forwarded the protocol."),
    Fixed ConsoleTls(&["console-tls"], OptionKind::Word(&["auto", "yes", "no"]), &["auto"],
        "Whether the console speaks TLS, with the files of tls-cert-file and tls-key-file. auto: if tls-port is set."),
    Fixed ConsoleInsecure(&["console-insecure"], OptionKind::YesNo, &["no"],
        "Whether the console accepts passwords without TLS from other machines, for example behind a proxy that speaks TLS."),
    Fixed ConsoleReadonly(&["console-readonly"], OptionKind::YesNo, &["no"],
        "Whether the console and its API refuse every change, for all users."),
    Fixed ConsoleCors(&["console-cors"], OptionKind::Words, &[""],
        "Origins whose pages may call the API from a browser, such as https://ops.example.com. They may never call the console's pages."),
    Fixed ConsoleWait(&["console-wait"], OptionKind::Span(1_000, limits::CONSOLE_WAIT_MS_MAX as i64), &["10s"],
        "How long a command over HTTP may wait for a job. A command that asks for longer, or for no limit, is answered null by then. Keep it below the timeouts of proxies and clients."),
    Fixed ConsoleNodes(&["console-nodes"], OptionKind::Words, &[""],
        "Where browsers reach the consoles of a cluster's nodes, such as `n1=https://ops1.example.com n2=https://ops2.example.com`: pages of a follower then link to the same page of the leader. Of several partitions the port is that of the first."),
    Fixed ConsoleGrafanaUrl(&["console-grafana-url"], OptionKind::Text, &[""],
        "A dashboard for data older than a day: the overview links to it."),
    Fixed Databases(&["databases"], OptionKind::Only(&["16"], "there are always 16 databases"), &["16"],
        "Number of databases."),
    Live MaxMemory(&["maxmemory"], OptionKind::Memory, &["80%"],
        "Memory for jobs, including memory of removed jobs that has not been returned yet. Beyond it, commands that add answer OOM, and the text of `NACK … ERROR` is not kept; taking and ending jobs go on, and no job is ever evicted. A job takes about 100 bytes more once it has been delivered. Adding reserves this memory for all jobs (INFO's `mem_kept_for_leases`), except for 1/16 of maxmemory, by which leases may exceed it. So jobs of 4 KiB can fill all of maxmemory, and jobs of 0 bytes half of it. A percentage refers to the machine's memory or the control group's limit, whichever is less."),
    Live MaxMemoryPolicy(&["maxmemory-policy"], OptionKind::Only(&["noeviction"], "a job is never evicted: noeviction is the only policy"), &["noeviction"],
        "What happens at maxmemory."),
    Live MaxBodySize(&["max-body-size"], OptionKind::Bytes(1024, 512 * MIB), &["16mb"],
        "Longest job body. A longer one is skipped, not stored, and answered with an error."),
    Live MaxDelay(&["max-delay"], OptionKind::Span(1, DELAY_MS_MAX), &["3650d"],
        "The furthest a due time may be ahead."),
    Live MaxLease(&["max-lease"], OptionKind::Span(1, DELAY_MS_MAX), &["24h"],
        "The longest lease."),
    Live DefaultLease(&["default-lease"], OptionKind::Span(1, DELAY_MS_MAX), &["60s"],
        "The lease if the call, the job and the queue give none; at most max-lease."),
    Live StatsRetention(&["stats-retention"], OptionKind::Span(1_000, DELAY_MS_MAX), &["24h"],
        "How long the totals of a queue without a job and a UNIQUE window are kept after its last use. They are dropped earlier, longest unused first, if they take more than an eighth of `maxmemory` or jobs need the memory."),
    Live MaxClockJump(&["max-clock-jump"], OptionKind::Span(0, DELAY_MS_MAX), &["10m"],
        "A wall clock that jumps ahead by more than this is trusted only after it has kept the new time for a minute; until then time follows the monotonic clock. 0: every step counts at once. A start always trusts the wall clock, because a downtime may have any length."),
    Live Tzdata(&["tzdata"], OptionKind::WordOrFolder(&["auto", "bundled", "system"]), &["auto"],
        "The time-zone tables that schedules use. auto: those in the program or the system's, whichever are newer. bundled: those in the program. system: those in /usr/share/zoneinfo, however old they are. A folder: the compiled tables (TZif) in it, named by their paths. delayd looks for newer ones once an hour; CONFIG SET reads them again, even with the same value, and they apply a few ms later. INFO's `tzdata_version` and `tzdata_source` show which are used."),
    Live MaxClientsMemory(&["max-clients-memory"], OptionKind::Share(MIB, TIB, 256 * MIB), &["8%"],
        "Memory for all partial requests, queued transactions, waiting clients, BOUND leases (16 to 32 bytes each) and unread replies together. Beyond it, the client that holds most is closed, unless the excess is only its unread replies, up to 9 MiB: one reply does not close a client that reads it. For bodies above 4 MiB set it to three times max-body-size. A percentage refers to the same memory as maxmemory's."),
    Live ProtoMaxBulkLen(&["proto-max-bulk-len"], OptionKind::Bytes(MIB, 512 * MIB), &["512mb"],
        "Longest argument the protocol allows; a longer one closes the connection."),
    Live ClientQueryBufferLimit(&["client-query-buffer-limit"], OptionKind::Bytes(MIB, TIB), &["1gb"],
        "Largest request of one client; a larger one closes the connection."),
    Live ClientOutputBufferLimit(&["client-output-buffer-limit"], OptionKind::OutputLimits,
        &["normal", "0", "0", "0", "slave", "268435456", "67108864", "60", "pubsub", "33554432", "8388608", "60"],
        "Unread output above which a client of a class is closed: at once above the hard limit, after this many seconds above the soft limit."),
    Fixed Hz(&["hz"], OptionKind::Only(&["10"], "there is no background cycle to tune"), &["10"],
        "Kept for tools that read it."),
    Live SlowlogLogSlowerThan(&["slowlog-log-slower-than"], OptionKind::Count(-1, i64::MAX), &["10000"],
        "Commands that take more microseconds than this enter the slow log; 0 logs all, -1 none."),
    Live SlowlogMaxLen(&["slowlog-max-len"], OptionKind::Count(0, 1_000_000), &["128"],
        "Entries the slow log keeps; fewer if they would take more than 1/64 of `maxmemory`."),
    Live LatencyMonitorThreshold(&["latency-monitor-threshold"], OptionKind::Only(&["0"], "there is no latency monitor: LATENCY HISTOGRAM shows how long commands take, SLOWLOG the slow ones"), &["0"],
        "Kept for tools that read it."),
    Live LogLevel(&["loglevel"], OptionKind::Word(&["debug", "verbose", "notice", "warning"]), &["notice"],
        "The least severe level that is logged."),
    Fixed LogFormat(&["log-format"], OptionKind::Word(&["text", "json"]), &["text"],
        "Text for people, or JSON for machines."),
    Fixed LogFile(&["logfile"], OptionKind::Only(&[""], "the log goes to stderr; redirect it there"), &[""],
        "Where the log goes: always stderr."),
    Fixed Daemonize(&["daemonize"], OptionKind::Only(&["no"], "delayd stays in the foreground; let a service manager run it"), &["no"],
        "Whether to detach: never."),
    Fixed ReadyFd(&["ready-fd"], OptionKind::Count(0, 65_535), &["0"],
        "A file descriptor opened by the program that starts the server, such as the end of a pipe. When the journal is loaded and commands are answered, the server writes the port and a line end to it, and closes it. 0 for none. Meant for the command line, with port 0."),
    Fixed UntilStdinCloses(&["until-stdin-closes"], OptionKind::YesNo, &["no"],
        "Whether the server stops, as after SIGTERM, when its standard input is closed. With yes it ends with the program that started it and holds the other end of a pipe, even if that program is killed. /dev/null counts as closed."),
    Fixed Dir(&["dir"], OptionKind::Text, &["."],
        "The data directory, which contains the journal's folder. It must exist."),
    Fixed DbFilename(&["dbfilename"], OptionKind::Text, &["dump.rdb"],
        "Kept for tools that read it."),
    FixedAs("the journal is opened only when the server starts: restart it with the other value")
    AppendOnly(&["appendonly"], OptionKind::YesNo, &["yes"],
        "Whether every change is written to a journal that a restart loads. With no, jobs are in memory only."),
    Live AppendFsync(&["appendfsync"], OptionKind::Word(&["always", "everysec", "no"]), &["always"],
        "When the journal is synced. always: before a change is answered, with one sync for all changes that arrive meanwhile. everysec: once a second, so a crash can lose what was answered in the last second. no: whenever the system writes by itself."),
    Fixed AppendDirName(&["appenddirname"], OptionKind::FolderName, &["journal"],
        "The journal's folder, in dir. Only one server at a time can use it."),
    Fixed JournalSegmentSize(&["journal-segment-size"], OptionKind::Bytes(MIB, 1024 * MIB), &["64mb"],
        "Size of the journal's files, a multiple of 4096, and at most an eighth of the disk. Space is reserved a file at a time."),
    Live Save(&["save"], OptionKind::Only(&[""], "there are no snapshots by time; only the empty value is allowed"), &[""],
        "Redis's snapshot schedule: always empty."),
    Fixed ClusterNode(&["cluster-node"], OptionKind::Text, &[""],
        "This node's name in its cluster; empty for a standalone server. `@hostname` in it stands for the first label of the machine's name. All \
         nodes hold the same jobs and one of them decides; acknowledged changes are on more than half of them."),
    Fixed ClusterNodes(&["cluster-nodes"], OptionKind::Words, &[""],
        "All nodes, this one included, as `name=host:port`, separated by commas or spaces, with the ports for other nodes. The same on all of them. Once the cluster has formed, its own list of members applies."),
    Fixed ClusterEnabled(&["cluster-enabled"], OptionKind::YesNo, &["no"],
        "Whether clients of a Redis Cluster find their way: CLUSTER is answered, and a follower sends commands on queues to the leader with MOVED. Only database 0 is served then. The same on all nodes. See [spread.md](spread.md)."),
    Fixed ClusterPartitions(&["cluster-partitions"], OptionKind::Word(&["1", "2", "4", "8", "16", "32", "64"]), &["1"],
        "How many partitions the queues are divided into: each has a thread, a journal and a port of its own, the ports from port on, and those clients of a Redis Cluster find. Not to be changed later. The same on all nodes. See [spread.md](spread.md#several-partitions)."),
    Live ClusterLeaderBalance(&["cluster-leader-balance"], OptionKind::YesNo, &["yes"],
        "Whether the partitions of a cluster are led by all nodes in turn: a leader that is not the one meant hands over when that one has been well and up to date for a while. Only with cluster-partitions."),
    Fixed ClusterPort(&["cluster-port"], PORT, &["0"],
        "The port where other nodes connect; 0 for port plus 10000."),
    Fixed ClusterBind(&["cluster-bind"], OptionKind::Words, &[""],
        "Addresses to listen on for other nodes, written as for bind; empty for those of bind."),
    Fixed ClusterAnnounceIp(&["cluster-announce-ip"], OptionKind::Text, &[""],
        "The address or host name at which clients and other nodes reach this node; empty for the one in cluster-nodes."),
    Fixed ClusterAnnouncePort(&["cluster-announce-port"], PORT, &["0"],
        "The port at which clients reach it; 0 for port."),
    Fixed ClusterAnnounceTlsPort(&["cluster-announce-tls-port"], PORT, &["0"],
        "The same with TLS; 0 for tls-port."),
    Fixed ClusterAnnounceBusPort(&["cluster-announce-bus-port"], PORT, &["0"],
        "The port at which other nodes reach it, if that differs from cluster-port, for example in a container's network; 0 if it does not."),
    Fixed ClusterSecret(&["cluster-secret"], OptionKind::Secret, &[""],
        "A secret that only the nodes know, the same on all of them, at least 16 bytes. It keeps other callers out. Needed unless all nodes are on this machine. Messages between nodes are signed with keys made from it, but not encrypted."),
    Fixed ClusterElectionTimeout(&["cluster-election-timeout"], OptionKind::Span(limits::ELECTION_MS_MIN as i64, limits::ELECTION_MS_MAX as i64), &["300ms"],
        "How long a node hears nothing from the leader before it starts an election: between this and twice this. The same on all nodes."),
    Fixed ClusterLeaseGrace(&["cluster-lease-grace"], OptionKind::Span(0, limits::LEASE_GRACE_MS_MAX as i64), &["2s"],
        "How long after a change of leader no lease ends that would have ended meanwhile, so that consumers can find the new leader and acknowledge."),
    Fixed ClusterAnnounceSentinelPort(&["cluster-announce-sentinel-port"], PORT, &["0"],
        "The port at which clients reach sentinel-port; 0 for sentinel-port."),
    Fixed SentinelPort(&["sentinel-port"], PORT, &["0"],
        "The port where a node of a cluster answers as a Redis Sentinel, on the addresses of bind, so that clients with Sentinel support find the leader; 0 for none. It speaks TLS if tls-port is set and port is 0. Users and passwords are those of port. See [cluster.md](cluster.md)."),
    Fixed SentinelMasterName(&["sentinel-master-name"], OptionKind::Text, &["delayd"],
        "The name by which clients ask for the leader there. The same on all nodes."),
    Fixed ClusterLogKeep(&["cluster-log-keep"], OptionKind::Bytes(0, TIB), &["256mb"],
        "How much of the log is kept for nodes that were away, in addition to what the newest base lacks. A node that is further behind receives a base. At most an eighth of the disk."),
    Fixed ClusterSyncRate(&["cluster-sync-rate"], OptionKind::Bytes(MIB, TIB), &["100mb"],
        "Maximum bytes per second for sending a base to a node that lacks it."),
    Fixed ClusterMaxClockSkew(&["cluster-max-clock-skew"], OptionKind::Span(limits::CLOCK_SKEW_MS_MIN as i64, limits::CLOCK_SKEW_MS_MAX as i64), &["50ms"],
        "How far a node's clock may differ from the majority's. No job is handed out earlier than that before its due time by the majority's clocks, and a node that differs more leads only if no other can."),
    Live ReplicaServeStaleData(&["replica-serve-stale-data", "slave-serve-stale-data"], OptionKind::YesNo, &["yes"],
        "Whether a follower answers reads from its own data, which may be a moment behind the leader. no: it answers MASTERDOWN."),
    Live ReplicaPriority(&["replica-priority", "slave-priority"], OptionKind::Count(0, limits::REPLICA_PRIORITY_MAX as i64), &["100"],
        "The preference for this node as a leader when another one hands over: of the nodes that have nearly all entries, the one with the lowest value takes over. 0: it leads only if no other can."),
    Live NotifyKeyspaceEvents(&["notify-keyspace-events"], OptionKind::EventClasses, &[""],
        "Which events are published, and on which channels. What: d events of jobs, g queues that are removed or renamed, n new queues; A is all of Redis's classes, d and g among them. Where: K, E, J. Without a letter for what and one for where, nothing is published, at no cost. See [events.md](events.md)."),
    Live RequirePass(&["requirepass"], OptionKind::Secret, &[""],
        "The password of the user default; empty for none. Without one, connections from other machines are refused \
         (protected-mode). For more users see ACL SETUSER."),
    Live ReplicaReadOnly(&["replica-read-only", "slave-read-only"], OptionKind::Only(&["yes"], "a replica is always read only"), &["yes"],
        "Kept for tools that read it."),
    Fixed AclFile(&["aclfile"], OptionKind::Text, &[""],
        "The file that ACL LOAD reads and ACL SAVE writes, also read at the start: lines of ACL LIST, in Redis's form. A relative path begins at dir. With it, the configuration file may not contain users."),
    Live AclPubsubDefault(&["acl-pubsub-default"], OptionKind::Word(&["resetchannels", "allchannels"]), &["resetchannels"],
        "Whether a new user may use all channels of pub/sub, or none."),
    Live AclLogMaxLen(&["acllog-max-len"], OptionKind::Count(0, 1_000_000), &["128"],
        "Entries ACL LOG keeps; fewer if they would take more than 1/64 of `maxmemory`."),
    Fixed UnixSocket(&["unixsocket"], OptionKind::Text, &[""],
        "The path of a Unix socket to listen on; removed when the server stops."),
    Fixed UnixSocketPerm(&["unixsocketperm"], OptionKind::Mode, &["0"],
        "Permissions of the Unix socket, as for chmod: 700 for the server's own user only. 0 leaves it to the system."),
    Fixed TlsPort(&["tls-port"], OptionKind::Count(0, 65_535), &["0"],
        "A port for TLS, in addition to port or, with port 0, instead of it; 0 for none."),
    Live TlsCertFile(&["tls-cert-file"], OptionKind::Text, &[""],
        "The server's certificate and its chain, PEM. CONFIG SET of this or any other tls- option reads all files again."),
    Live TlsKeyFile(&["tls-key-file"], OptionKind::Text, &[""],
        "The certificate's private key, PEM, not encrypted."),
    Live TlsKeyFilePass(&["tls-key-file-pass"], OptionKind::Only(&[""], "encrypted private keys cannot be read; decrypt the file and guard it by its permissions"), &[""],
        "Redis's password of the private key: always empty."),
    Live TlsCaCertFile(&["tls-ca-cert-file"], OptionKind::Text, &[""],
        "CA certificates, PEM, that clients' certificates must come from."),
    Live TlsCaCertDir(&["tls-ca-cert-dir"], OptionKind::Text, &[""],
        "A folder with files of such certificates."),
    Live TlsAuthClients(&["tls-auth-clients"], OptionKind::Word(&["yes", "no", "optional"]), &["yes"],
        "Whether clients must have a certificate. optional: it is checked if they have one."),
    Live TlsProtocols(&["tls-protocols"], OptionKind::Words, &[""],
        "TLSv1.2, TLSv1.3 or both; empty for both. Older versions are not safe and not supported."),
    Live TlsPreferServerCiphers(&["tls-prefer-server-ciphers"], OptionKind::YesNo, &["no"],
        "Whether the server's order of ciphers is used instead of the client's."),
    Live TlsCiphers(&["tls-ciphers"], OptionKind::Only(&[""], "the ciphers are those of rustls, all of them safe"), &[""],
        "Redis's choice of ciphers for TLS 1.2: always empty."),
    Live TlsCiphersuites(&["tls-ciphersuites"], OptionKind::Only(&[""], "the ciphers are those of rustls, all of them safe"), &[""],
        "Redis's choice of ciphers for TLS 1.3: always empty."),
    Live TlsDhParamsFile(&["tls-dh-params-file"], OptionKind::Only(&[""], "key agreement uses elliptic curves, which have no parameters"), &[""],
        "Redis's parameters for Diffie-Hellman: always empty."),
    Live TlsSessionCaching(&["tls-session-caching"], OptionKind::YesNo, &["yes"],
        "Whether returning clients may shorten the handshake."),
    Live TlsSessionCacheSize(&["tls-session-cache-size"], OptionKind::Count(1, 1_000_000), &["20480"],
        "How many clients are remembered for that."),
    Live TlsSessionCacheTimeout(&["tls-session-cache-timeout"], OptionKind::Only(&["300"], "sessions are remembered until tls-session-cache-size evicts them"), &["300"],
        "Kept for files that contain Redis's default."),
    Fixed TlsReplication(&["tls-replication"], OptionKind::Only(&["no"], "replication is between the nodes of a cluster; see tls-cluster"), &["no"],
        "TLS towards a master: delayd has none; see tls-cluster."),
    Fixed TlsCluster(&["tls-cluster"], OptionKind::YesNo, &["no"],
        "Whether the nodes of a cluster speak TLS with each other. Each presents its `tls-cert-file`, which must be valid for servers and clients, and accepts certificates from `tls-ca-cert-file`. The same on all nodes."),
    Live TlsClientCertFile(&["tls-client-cert-file"], OptionKind::Only(&[""], "delayd makes no connections of its own except between nodes, which use tls-cert-file"), &[""],
        "Redis's certificate for connections that it makes itself: always empty."),
    Live TlsClientKeyFile(&["tls-client-key-file"], OptionKind::Only(&[""], "delayd makes no connections of its own except between nodes, which use tls-cert-file"), &[""],
        "The private key of that certificate: always empty."),
    Live TlsClientKeyFilePass(&["tls-client-key-file-pass"], OptionKind::Only(&[""], "delayd makes no connections of its own except between nodes, which use tls-cert-file"), &[""],
        "The password of that private key: always empty."),
}
