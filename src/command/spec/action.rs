//! A parsed command: for the engine, for the connection itself, or for the server. A parser decides
//! everything that needs no state; the session does the rest.

use crate::engine::model::request::{QueueName, Request};
use crate::ids::{ClientId, Db};
use crate::pubsub::SubscriptionKind;
use crate::resp::Protocol;

/// A parsed command. Slices borrow from the connection's read buffer.
#[derive(Clone, Debug)]
pub enum Action<'a> {
    /// For the engine, which also answers it.
    Engine(Request<'a>),
    /// For the engine, once [`Request::for_reader`] says which queues the user may read.
    AllQueues(Request<'a>),
    /// Redis's commands on any key, answered from whether the queue exists.
    Probe(QueueName<'a>, Probe),
    Connection(Connection<'a>),
    PubSub(PubSub<'a>),
    /// About transactions; done at once, never queued.
    Transaction(Transaction<'a>),
    Clients(Clients<'a>),
    /// About the table of commands.
    Commands(Commands<'a>),
    Users(Users<'a>),
    Server(ServerRequest<'a>),
}

/// A question about a key of any type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// TYPE → `list` or `none`.
    Type,
    /// TTL and similar → −1 (does not expire) or −2 (does not exist).
    Ttl,
    /// PERSIST → 0.
    Persist,
    /// OBJECT ENCODING → `delayqueue`, or nil.
    Encoding,
    /// OBJECT IDLETIME → 0, or nil.
    IdleTime,
    /// OBJECT REFCOUNT → 1, or nil.
    RefCount,
    /// OBJECT FREQ → an error, or nil.
    Frequency,
    /// A reading command of another type → `WRONGTYPE`, or an error that says that there is no such type.
    OtherValue,
    /// A counting command of another type → `WRONGTYPE`, or 0.
    OtherCount,
}

/// Commands about the own connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection<'a> {
    Hello(Hello<'a>),
    /// AUTH, with or without a user.
    Auth {
        /// The user, if named.
        user: Option<&'a [u8]>,
        password: &'a [u8],
    },
    Ping(Option<&'a [u8]>),
    Echo(&'a [u8]),
    Select(Db),
    Quit,
    Reset,
    /// CLIENT SETNAME; empty for none.
    SetName(&'a [u8]),
    GetName,
    SetLibName(&'a [u8]),
    SetLibVersion(&'a [u8]),
    Id,
    Info,
    NoEvict(bool),
    NoTouch(bool),
    GetRedir,
    /// CLIENT TRACKING OFF → OK, as it is off.
    TrackingOff,
    TrackingInfo,
    Reply(ReplyMode),
    /// READONLY and READWRITE.
    ReadOnly(bool),
    Asking,
}

/// HELLO's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hello<'a> {
    /// 2 or 3; without it the protocol stays.
    pub protocol: Option<Protocol>,
    /// `AUTH user password`.
    pub auth: Option<(&'a [u8], &'a [u8])>,
    /// `SETNAME name`.
    pub name: Option<&'a [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyMode {
    /// Every command is answered.
    On,
    /// None is.
    Off,
    /// No reply to the next command.
    Skip,
}

/// Commands about channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PubSub<'a> {
    Subscribe(SubscriptionKind, &'a [&'a [u8]]),
    /// UNSUBSCRIBE and similar; no names: all.
    Unsubscribe(SubscriptionKind, &'a [&'a [u8]]),
    /// PUBLISH → how many get it.
    Publish {
        channel: &'a [u8],
        message: &'a [u8],
    },
    /// PUBSUB CHANNELS, of those that match.
    Channels(Option<&'a [u8]>),
    /// PUBSUB NUMSUB of these.
    Counts(&'a [&'a [u8]]),
    /// PUBSUB NUMPAT.
    PatternCount,
    Monitor,
}

/// MULTI and what ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transaction<'a> {
    Multi,
    Exec,
    Discard,
    Watch(&'a [&'a [u8]]),
    Unwatch,
}

/// Commands about other connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clients<'a> {
    List(ClientFilter<'a>),
    /// CLIENT KILL with filters → how many.
    Kill(ClientFilter<'a>),
    /// CLIENT KILL addr → OK or an error.
    KillAddr(&'a [u8]),
    Pause {
        ms: u64,
        writes_only: bool,
    },
    Unpause,
    /// CLIENT UNBLOCK → 1 or 0.
    Unblock {
        /// The client; `None` for a number that no connection can have.
        id: Option<ClientId>,
        /// With the error `UNBLOCKED` instead of a timeout's reply.
        error: bool,
    },
}

/// Which connections CLIENT LIST and CLIENT KILL mean; all that is named must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ClientFilter<'a> {
    pub ids: Option<Vec<ClientId>>,
    pub kind: Option<ClientKind>,
    /// This peer, `ip:port`.
    pub addr: Option<&'a [u8]>,
    /// Connected to this address, `ip:port`.
    pub laddr: Option<&'a [u8]>,
    pub user: Option<&'a [u8]>,
    /// Connected for at least this many seconds.
    pub age_s_min: Option<u64>,
    /// Not the asking connection.
    pub skip_me: bool,
}

/// `TYPE` of CLIENT LIST and CLIENT KILL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientKind {
    /// All other connections.
    Normal,
    PubSub,
    Master,
    Replica,
}

/// Commands about the table of commands.
#[derive(Clone, Debug)]
pub enum Commands<'a> {
    /// COMMAND.
    All,
    Count,
    /// COMMAND INFO; no names: all.
    Info(&'a [&'a [u8]]),
    /// COMMAND DOCS; no names: all.
    Docs(&'a [&'a [u8]]),
    List(ListFilter<'a>),
    /// COMMAND GETKEYS: a whole command.
    GetKeys(&'a [&'a [u8]]),
    /// COMMAND GETKEYSANDFLAGS: a whole command.
    GetKeysAndFlags(&'a [&'a [u8]]),
    /// HELP of the container with this name.
    Help(&'static str),
    /// DELAY.HELP: of one command, or of all.
    Usage(Option<&'a [u8]>),
}

/// `FILTERBY` of COMMAND LIST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListFilter<'a> {
    All,
    /// `MODULE`: there are no modules, so none.
    Module,
    Category(&'a [u8]),
    Pattern(&'a [u8]),
}

/// ACL's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users<'a> {
    Categories(Option<&'a [u8]>),
    Delete(&'a [&'a [u8]]),
    DryRun {
        name: &'a [u8],
        command: &'a [&'a [u8]],
    },
    /// ACL GENPASS: this many hexadecimal digits.
    GeneratePassword {
        /// 1 to 1024.
        digits: usize,
    },
    /// ACL GETUSER.
    Show(&'a [u8]),
    List,
    Load,
    /// ACL LOG: this many entries.
    Log(usize),
    /// ACL LOG RESET.
    ForgetLog,
    Save,
    Set {
        name: &'a [u8],
        rules: &'a [&'a [u8]],
    },
    /// ACL USERS.
    Names,
    WhoAmI,
}

/// Commands about the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRequest<'a> {
    ConfigGet(&'a [&'a [u8]]),
    /// CONFIG SET: names and values in turn.
    ConfigSet(&'a [&'a [u8]]),
    ConfigRewrite,
    ConfigResetStat,
    Info(&'a [&'a [u8]]),
    /// SLOWLOG GET: this many entries.
    SlowlogGet(usize),
    SlowlogLen,
    SlowlogReset,
    /// LATENCY HISTOGRAM of these commands; all that ran if none is named.
    Latency(&'a [&'a [u8]]),
    MemoryStats,
    /// A constant answer.
    Fixed(Fixed),
    Time,
    Save,
    BgSave {
        /// After the running one, if there is one.
        schedule: bool,
    },
    BgRewriteAof,
    Wait(ReplicaWait),
    LastSave,
    Cluster,
    /// DELAY.CLUSTER ADD and REMOVE.
    Members(Membership<'a>),
    /// DELAY.CLUSTER ALL.
    Partitions,
    /// DELAY.CLUSTER VERIFY.
    Verify,
    Backup(BackupRequest<'a>),
    Role,
    Sentinel(SentinelRequest<'a>),
    /// CLUSTER.
    HashSlots(HashSlotsRequest<'a>),
    /// REPLICAOF and SLAVEOF.
    ReplicaOf {
        /// NO ONE.
        nobody: bool,
    },
    Failover(Failover<'a>),
    Shutdown(Shutdown),
    ShutdownAbort,
    /// SCAN for a type that no key has → the end at once.
    ScanNothing,
    /// RANDOMKEY in this database; the session brings the chance.
    RandomQueue(Db),
}

/// A request to SENTINEL; words are the names of masters, except for those of CONFIG GET.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentinelRequest<'a> {
    /// GET-MASTER-ADDR-BY-NAME.
    MasterAddress(&'a [u8]),
    Masters,
    Master(&'a [u8]),
    Replicas(&'a [u8]),
    Sentinels(&'a [u8]),
    /// CKQUORUM.
    CheckQuorum(&'a [u8]),
    MyId,
    InfoCache(&'a [&'a [u8]]),
    /// Patterns.
    ConfigGet(&'a [&'a [u8]]),
    ConfigSet,
    Failover(&'a [u8]),
}

/// A request to CLUSTER, as clients of a Redis Cluster make it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashSlotsRequest<'a> {
    Slots,
    Shards,
    Nodes,
    Info,
    MyId,
    MyShardId,
    /// KEYSLOT of a name.
    SlotOf(&'a [u8]),
    /// COUNT-FAILURE-REPORTS of a node.
    FailureReports(&'a [u8]),
    Links,
    /// REPLICAS of a node.
    Replicas(&'a [u8]),
    /// This error, where the others are answered.
    Refused(&'static str),
}

/// How the members of the cluster are to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Membership<'a> {
    /// To take in this node, when it is there.
    Add {
        /// Its `cluster-node`.
        name: &'a [u8],
        /// Where the others find it.
        address: &'a [u8],
    },
    /// The node of this name is to leave.
    Remove(&'a [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackupRequest<'a> {
    /// One is to begin, or how far it is.
    Begin {
        part: Option<&'a [u8]>,
        /// Also of a node that leads others.
        leader: bool,
    },
    Read {
        id: &'a [u8],
        offset: u64,
    },
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failover<'a> {
    /// The hand-over that runs is given up.
    Abort,
    /// Another node is to lead.
    Begin {
        /// The target, as clients find it; without one, the node with most entries.
        to: Option<(&'a [u8], u16)>,
        /// For how long commands that change are kept back at most.
        timeout_ms: u64,
    },
}

/// A reply that is always the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fixed {
    Ok,
    Zero,
    Empty,
    Zeros(usize),
    Text(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaWait {
    /// WAITAOF, which also reports this server's journal.
    pub tells_local: bool,
    /// This server's journal.
    pub local: bool,
    /// So many other nodes' journals.
    pub replicas: u64,
    /// For how long, ms; 0 without limit.
    pub timeout_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shutdown {
    /// `SAVE` or `NOSAVE`, if named. The journal is synced in either case.
    pub save: Option<bool>,
    /// `NOW`: do not wait for anything.
    pub now: bool,
    /// `FORCE`: even if the last sync fails.
    pub force: bool,
}
