//! What the partitions of a process know of each other: where each is served, how much memory and how many clients it
//! has, and the options and users, which are the same in all.
//!
//! Nothing of a sibling is waited for: numbers are atomics, and locks are held for a copy. Each partition writes after
//! a turn what it has, and reads before a turn what the others have changed. So a sum may be as old as a turn of each.
//!
//! Options and users have one newest version, which every change is applied to under a lock. So changes at two
//! partitions at a time end the same everywhere, whichever comes first.

use crate::cluster::members::names::{Address, Listed};
use crate::config::Config;
use crate::config::options::Name;
use crate::lock::lock;
use crate::observe::cluster::ClusterView;
use crate::server::clock::timer::mono_us;
use crate::server::connection::wake::Notifier;
use crate::server::observe::status::{ServiceState, StatusBoard};
use crate::session::acl::{Acl, AclUsers};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The siblings of one partition. A process with one partition has none.
#[derive(Debug)]
pub struct Siblings {
    own: u16,
    process: Arc<Shared>,
    /// The newest version that this partition has taken up, with its users,
    taken: (u64, AclUsers),
    /// and how often it had read each kind of file again.
    files: ReadAgain<u64>,
}

#[derive(Debug)]
struct Shared {
    partitions: Box<[Shown]>,
    /// When a leader of this process has handed over to even them out; monotonic, µs.
    handed_over_us: AtomicU64,
    /// The version of [`Shared::agreed`], which can be read without its lock.
    version: AtomicU64,
    agreed: Mutex<Agreed>,
}

/// What the others see of a partition.
#[derive(Debug)]
struct Shown {
    notifier: Arc<Notifier>,
    status: Arc<StatusBoard>,
    place: Mutex<PartitionPlace>,
    used: Used<AtomicU64>,
    clients: AtomicU64,
    /// Its node was removed from its cluster: the partition ends, and begins anew.
    leaves: AtomicBool,
}

/// What a partition uses of what the process may.
#[derive(Clone, Copy, Default, Debug)]
pub struct Used<N = u64> {
    /// For jobs, bytes.
    pub engine_bytes: N,
    /// For clients, bytes.
    pub clients_bytes: N,
    /// That clients have sent and were sent, bytes.
    pub moved_bytes: N,
}

/// Where a partition is served.
#[derive(Clone, Debug)]
pub enum PartitionPlace {
    Alone(Alone),
    Node(Arc<ClusterView>),
}

/// A partition without other nodes. A port that is not used is 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alone {
    /// 40 hexadecimal digits.
    pub id: String,
    pub port: u16,
    pub tls_port: u16,
    pub announced_port: u16,
    pub announced_tls_port: u16,
    pub loading: bool,
}

/// Options and users as the newest change left them.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// One more with each change.
    version: u64,
    pub config: Config,
    pub users: AclUsers,
    /// How often files were to be read again.
    files: ReadAgain<u64>,
}

/// Kinds of files that a change of options reads again, whatever the option's value was before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReadAgain<T = bool> {
    pub certificates: T,
    pub zones: T,
}

impl Alone {
    /// With these options, where `port` is the one that it listens on.
    pub fn of(config: &Config, id: &str, port: u16, loading: bool) -> Alone {
        Alone {
            id: id.to_owned(),
            port,
            tls_port: config.port(Name::TlsPort),
            announced_port: config.port(Name::ClusterAnnouncePort),
            announced_tls_port: config.port(Name::ClusterAnnounceTlsPort),
            loading,
        }
    }
}

impl Siblings {
    /// Those of each of the process's partitions, with the options and users that all begin with. `partitions`: what
    /// wakes each, and where it is served, in their order.
    pub fn of_process(
        config: &Config,
        users: &AclUsers,
        partitions: impl Iterator<Item = (Arc<Notifier>, PartitionPlace)>,
    ) -> Vec<Siblings> {
        let partitions = partitions.map(|(notifier, place)| {
            let status = Arc::new(StatusBoard::new(Arc::clone(&notifier), mono_us()));
            let (place, clients, leaves) =
                (Mutex::new(place), AtomicU64::new(0), AtomicBool::new(false));
            Shown { notifier, status, place, used: Used::default(), clients, leaves }
        });
        let (config, files) = (config.clone(), ReadAgain::default());
        let agreed = Mutex::new(Agreed { version: 0, config, users: users.clone(), files });
        let (partitions, version) = (partitions.collect(), AtomicU64::new(0));
        let handed_over_us = AtomicU64::new(0);
        let process = Arc::new(Shared { partitions, handed_over_us, version, agreed });
        let of = |own| {
            let (process, taken) = (Arc::clone(&process), (0, users.clone()));
            Siblings { own, process, taken, files }
        };
        (0..process.partitions.len() as u16).map(of).collect()
    }

    /// The same for a partition that begins anew: with the options that are newest now, and nothing taken up.
    pub fn again(&self, partition: u16) -> (Siblings, Config) {
        let agreed = lock(&self.process.agreed);
        let (users, config) = (agreed.users.clone(), agreed.config.clone());
        // The first turn takes up users.
        let taken = (agreed.version.wrapping_sub(1), users);
        let (process, files) = (Arc::clone(&self.process), agreed.files);
        let siblings = Siblings { own: partition, process: Arc::clone(&process), taken, files };
        siblings.shown().leaves.store(false, Relaxed);
        (siblings, config)
    }

    pub fn notifier(&self) -> &Arc<Notifier> {
        &self.shown().notifier
    }

    /// The other members of this partition's cluster, as `cluster-nodes` writes them.
    pub fn members(&self) -> String {
        let PartitionPlace::Node(view) = self.place(self.own) else { return String::new() };
        let others = view.others().filter(|node| !node.has_left);
        let listed = others.map(|node| format!("{}={}", node.name, node.peer));
        listed.collect::<Vec<_>>().join(",")
    }

    /// This partition's node was removed: it ends in order, and the process begins another one in an empty folder.
    pub fn leave(&self) {
        self.shown().leaves.store(true, Relaxed);
        self.shown().notifier.stop_at_least(1);
    }

    /// Whether a partition ends because its node was removed.
    pub fn leaves(&self, partition: u16) -> bool {
        self.process.partitions[usize::from(partition)].leaves.load(Relaxed)
    }

    /// Where nodes of the other partitions listen for this one's peers: as everywhere, partition k has the k-th port.
    pub fn nodes_of_others(&self) -> Vec<Listed> {
        let mut nodes = Vec::new();
        for (at, shown) in self.process.partitions.iter().enumerate() {
            let PartitionPlace::Node(view) = lock(&shown.place).clone() else { continue };
            let own = view.nodes.iter().filter(|node| view.cluster.is_some() && !node.has_left);
            let elsewhere = view.elsewhere.iter().flat_map(|there| &there.nodes);
            nodes.extend(own.chain(elsewhere).filter_map(|node| {
                let first = node.peer.port().checked_sub(at as u16)?;
                let peer = Address::new(node.peer.host(), first + self.own).ok()?;
                Some(Listed { name: node.name.clone(), peer })
            }));
        }
        nodes
    }

    pub fn own(&self) -> u16 {
        self.own
    }

    pub fn count(&self) -> u16 {
        self.process.partitions.len() as u16
    }

    /// Those of all partitions, in their order.
    pub fn boards(&self) -> Vec<Arc<StatusBoard>> {
        self.process.partitions.iter().map(|shown| Arc::clone(&shown.status)).collect()
    }

    /// The state of the process, if this partition's is `own`: that of the first that is not ready; none while one hangs.
    pub fn state(&self, own: &ServiceState) -> Option<ServiceState> {
        let now_us = mono_us();
        let others = || self.others().map(|shown| &shown.status);
        // The last sync of a stop may take as long as the disk likes.
        let hangs = |status: &Arc<StatusBoard>| {
            status.hung_us(now_us).is_some() && status.standing() != ServiceState::Stopping
        };
        if others().any(hangs) {
            return None;
        }
        if !own.is_ready() {
            return Some(own.clone());
        }
        let mut states = others().map(|status| status.standing());
        Some(states.find(|state| !state.is_ready()).unwrap_or_else(|| own.clone()))
    }

    /// The first partition waits for the others to be ready.
    pub fn notify_first(&self) {
        self.process.partitions[0].notifier.notify();
    }

    /// The other partitions are to stop in order, too; at once, if `now`.
    pub fn stop_others(&self, now: bool) {
        for shown in self.others() {
            shown.notifier.stop_at_least(if now { 2 } else { 1 });
        }
    }

    /// Whether this partition may hand over to even out the leaders: no other one has for `pause_us`. Then it has.
    pub fn may_hand_over(&self, now_us: u64, pause_us: u64) -> bool {
        let last = &self.process.handed_over_us;
        let is_due = |last_us| (now_us >= last_us + pause_us).then_some(now_us);
        last.fetch_update(Relaxed, Relaxed, is_due).is_ok()
    }

    /// Where a sibling is served.
    pub fn place(&self, partition: u16) -> PartitionPlace {
        lock(&self.process.partitions[usize::from(partition)].place).clone()
    }

    /// Where this partition is served from here on.
    pub fn move_to(&self, place: PartitionPlace) {
        *lock(&self.shown().place) = place;
    }

    /// What this partition uses.
    pub fn uses(&self, used: Used) {
        let own = &self.shown().used;
        own.engine_bytes.store(used.engine_bytes, Relaxed);
        own.clients_bytes.store(used.clients_bytes, Relaxed);
        own.moved_bytes.store(used.moved_bytes, Relaxed);
    }

    /// Connections of all partitions, if this one has `own`. Up to date: in a storm of them each partition would let in
    /// as many as the process may have.
    pub fn count_clients(&self, own: u64) -> u64 {
        self.shown().clients.store(own, Relaxed);
        own + self.other_clients()
    }

    /// Connections of the other partitions.
    pub fn other_clients(&self) -> u64 {
        self.others().map(|shown| shown.clients.load(Relaxed)).sum()
    }

    /// What the others use in all.
    pub fn others_use(&self) -> Used {
        self.others().map(|shown| &shown.used).fold(Used::default(), |sum, one| Used {
            engine_bytes: sum.engine_bytes + one.engine_bytes.load(Relaxed),
            clients_bytes: sum.clients_bytes + one.clients_bytes.load(Relaxed),
            moved_bytes: sum.moved_bytes + one.moved_bytes.load(Relaxed),
        })
    }

    /// The newest options and users, if a partition has changed some since the last time, and which files are to be read
    /// again.
    pub fn newer(&mut self) -> Option<(Agreed, ReadAgain)> {
        if self.process.version.load(Relaxed) == self.taken.0 {
            return None;
        }
        let agreed = lock(&self.process.agreed).clone();
        let files = ReadAgain {
            certificates: agreed.files.certificates > self.files.certificates,
            zones: agreed.files.zones > self.files.zones,
        };
        (self.taken, self.files) = ((agreed.version, agreed.users.clone()), agreed.files);
        Some((agreed, files))
    }

    /// Options have changed here: the words and values, as CONFIG SET takes them, and the files that were read again.
    pub fn options_changed(&mut self, pairs: &[(String, String)], read: ReadAgain) {
        self.files.certificates += u64::from(read.certificates);
        self.files.zones += u64::from(read.zones);
        self.change(|agreed| {
            // Another partition's options, changed at the same time, stay.
            if let Err(refused) = agreed.config.set_live(pairs) {
                tracing::warn!(
                    "options were changed in two partitions at the same time: {refused}"
                );
            }
            agreed.files.certificates += u64::from(read.certificates);
            agreed.files.zones += u64::from(read.zones);
        });
    }

    /// Users have changed here.
    pub fn users_changed(&self, acl: &Acl) {
        self.change(|agreed| acl.copy_changes(&self.taken.1, &mut agreed.users));
    }

    fn change(&self, change: impl FnOnce(&mut Agreed)) {
        let mut agreed = lock(&self.process.agreed);
        change(&mut agreed);
        agreed.version += 1;
        self.process.version.store(agreed.version, Relaxed);
        drop(agreed);
        self.process.partitions.iter().for_each(|shown| shown.notifier.notify());
    }

    fn shown(&self) -> &Shown {
        &self.process.partitions[usize::from(self.own)]
    }

    fn others(&self) -> impl Iterator<Item = &Shown> {
        let (before, rest) = self.process.partitions.split_at(self.own.into());
        before.iter().chain(&rest[1..])
    }
}
