//! `delayd cluster balance`: spreads the partitions of a cluster over its nodes, by the commands that operators have. It
//! keeps nothing: interrupted and run again, it goes on from what it finds.

mod plan;

use super::access::{Access, ServerAddress};
use super::check::say;
use super::client::Client;
use super::reply::Reply;
use super::{Exit, confirmed};
use crate::cluster::members::names::{Address, Listed, Name};
use crate::limits::BALANCE_BEHIND_MAX;
use plan::{Move, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// `delayd cluster balance`
#[derive(Debug, PartialEq)]
pub struct Balance {
    /// Any partition of any node.
    pub server: ServerAddress,
    /// Nodes that are to get partitions, with the address of partition 0 for peers.
    pub with: Vec<Listed>,
    /// Nodes that are to give up theirs.
    pub without: Vec<Name>,
    pub replicas: usize,
    /// Only shows what it would do.
    pub dry_run: bool,
    /// Without asking.
    pub yes: bool,
}

const REPLICAS: usize = 3;
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// From one node to the next that it names.
const HOPS_MAX: u32 = 4;
/// Without any progress for this long it stops, and says where.
const PATIENCE: Duration = Duration::from_secs(60);

/// The text of `--help`.
pub const HELP: &str = "\
Usage: delayd cluster balance HOST:PORT [--with NAME=HOST:PORT] [--without NAME]
Spreads the partitions of a cluster evenly over its nodes: each on three nodes,
one replica after the other. HOST:PORT is any partition of any node. A replica
is added first, and another one removed when the new one has all jobs and a
vote, so no partition ever has fewer. It shows what it will do, and asks. If it
is interrupted, run it again: it continues from where the cluster is.

A new node is started first, with the cluster's options and an empty folder. A
node whose last partition was removed can be stopped.

  --with NAME=HOST:PORT   also uses this node; the address is the one that other
                          nodes reach its partition 0 at. May be repeated
  --without NAME          moves everything away from this node. May be repeated
  --replicas N            nodes of each partition, 1 to 7; by default 3
  --dry-run               shows what it would do
  --yes                   does not ask
  --user NAME             the user, which needs +cluster, +delay.cluster and
                          +failover; by default the default user
  --password-file FILE    a file whose first line is the password; by default
                          the variable DELAYD_PASSWORD or REDISCLI_AUTH
  --tls-ca-cert-file FILE  uses TLS, and accepts certificates of this authority
  --tls-cert-file FILE    the certificate to present to the servers
  --tls-key-file FILE     its key
  --sni NAME              the name in the servers' certificates, if not the host

Exit codes:
   0  the partitions are spread, or were before
   1  not done: it was not confirmed, or a partition made no progress
   3  refused: no server there, a wrong password, a name that is unknown
  64  the command line is wrong
";

/// Reads the arguments after `cluster balance`.
///
/// # Errors
/// They are wrong; the text says which.
pub fn read(args: &[String]) -> Result<Balance, String> {
    let (mut place, mut access) = (None, Access::default());
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut replicas, mut dry_run, mut yes) = (REPLICAS, false, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--dry-run" => dry_run = true,
            "--yes" => yes = true,
            "--with" => with.push(listed(value()?)?),
            "--without" => without.push(Name::new(value()?).map_err(|wrong| wrong.to_string())?),
            "--replicas" => replicas = count(value()?)?,
            option if option.starts_with("--") => {
                if !access.take(option, value()?) {
                    return Err(format!("unknown option '{option}'"));
                }
            }
            _ if place.is_some() => return Err(format!("one HOST:PORT expected, also got {arg}")),
            _ => place = Some(Address::parse(arg).map_err(|wrong| wrong.to_string())?),
        }
    }
    access.check()?;
    let place = place.ok_or("HOST:PORT is missing")?;
    let server = ServerAddress { place, access };
    Ok(Balance { server, with, without, replicas, dry_run, yes })
}

fn listed(text: &str) -> Result<Listed, String> {
    let (name, peer) =
        text.split_once('=').ok_or(format!("--with {text}: expected NAME=HOST:PORT"))?;
    let wrong = |wrong| format!("--with {text}: {wrong}");
    Ok(Listed { name: Name::new(name).map_err(wrong)?, peer: Address::parse(peer).map_err(wrong)? })
}

fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=7).contains(count));
    count.ok_or_else(|| format!("--replicas {text}: expected 1 to 7"))
}

/// Runs it.
pub fn run(asked: &Balance) -> Exit {
    match balance(asked) {
        Ok(exit) => exit,
        Err(text) => {
            eprintln!("delayd: cluster: {text}");
            Exit::Unreadable
        }
    }
}

fn balance(asked: &Balance) -> Result<Exit, String> {
    let mut operator = Operator { server: asked.server.clone(), peers: BTreeMap::new() };
    let groups = operator.look()?;
    operator.peers.extend(asked.with.iter().map(|with| (with.name.clone(), with.peer.clone())));
    if let Some(unknown) = asked.without.iter().find(|name| !operator.peers.contains_key(*name)) {
        return Err(format!("--without {unknown}: no partition is on such a node"));
    }
    let nodes = operator.peers.keys().filter(|name| !asked.without.contains(name)).cloned();
    let nodes: BTreeSet<Name> = nodes.collect();
    if nodes.is_empty() {
        return Err("no node is left".to_owned());
    }
    let now: Placement = groups.iter().map(LedPartition::placed).collect();
    let then = plan::target(&now, &nodes, asked.replicas);
    let mut moves = plan::moves(&now, &then);
    // Those that an interrupted run has begun to add.
    for (partition, group) in groups.iter().enumerate() {
        let begun = group
            .replicas
            .iter()
            .filter(|replica| !replica.is_whole() && then[partition].contains(&replica.name));
        moves.extend(begun.map(|replica| Move {
            partition,
            to: Some(replica.name.clone()),
            from: None,
        }));
    }
    say(&shown(&now, &then));
    if moves.is_empty() {
        say("\nnothing has to be moved\n");
        return Ok(Exit::Good);
    }
    if asked.dry_run || !asked.yes && !confirmed("move them?") {
        say("nothing was changed\n");
        return Ok(if asked.dry_run { Exit::Good } else { Exit::Failed });
    }
    moves.sort_by_key(|one| one.partition);
    for (done, one) in moves.iter().enumerate() {
        if let Err(text) = operator.carry_out(one) {
            eprintln!(
                "delayd: cluster: partition {}: {text}; {done} of {} moves are done",
                one.partition,
                moves.len()
            );
            return Ok(Exit::Failed);
        }
    }
    Ok(Exit::Good)
}

fn shown(now: &Placement, then: &Placement) -> String {
    let names = |own: &BTreeSet<Name>| own.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
    let width = now.iter().map(|own| names(own).len()).max().unwrap_or(0).max(3);
    let row = |(partition, (now, then)): (usize, (&BTreeSet<Name>, &BTreeSet<Name>))| {
        let then = if now == then { "the same".to_owned() } else { names(then) };
        format!("{partition:>9}  {:width$}  {then}\n", names(now))
    };
    let rows: String = now.iter().zip(then).enumerate().map(row).collect();
    format!("partition  {:width$}  then\n{rows}", "now")
}

/// A partition as its leader sees it.
struct LedPartition {
    leader: Client,
    replicas: Vec<Replica>,
}

/// A member, or a node that is to be one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Replica {
    name: Name,
    leads: bool,
    /// It has a vote,
    votes: bool,
    /// and is there.
    is_online: bool,
    /// Batches that it lacks.
    behind: Option<u64>,
    client: Option<Address>,
    peer: Address,
}

impl Replica {
    /// Nothing, if it has left.
    fn read(reply: &Reply) -> Option<Replica> {
        let text = |name| reply.field(name).text();
        let role = text("role").filter(|role| *role != "removed")?;
        Some(Replica {
            name: Name::new(text("name")?).ok()?,
            leads: role == "leader",
            votes: matches!(role, "leader" | "follower"),
            is_online: text("state") == Some("online"),
            behind: reply.field("behind").number(),
            client: text("client").and_then(|client| Address::parse(client).ok()),
            peer: Address::parse(text("peer")?).ok()?,
        })
    }

    /// Whether a member that is removed now would not be missed.
    fn is_whole(&self) -> bool {
        let is_near = self.behind.is_none_or(|behind| behind <= BALANCE_BEHIND_MAX);
        self.leads || self.votes && self.is_online && is_near
    }
}

impl LedPartition {
    fn replica(&self, name: &Name) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.name == *name)
    }

    fn placed(&self) -> BTreeSet<Name> {
        self.replicas.iter().map(|replica| replica.name.clone()).collect()
    }

    fn ask(&mut self, words: &[&str]) -> Result<(), String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let reply = self.leader.ask(&words).map_err(|error| error.to_string())?;
        reply.error().map_or(Ok(()), Err)
    }
}

struct Operator {
    server: ServerAddress,
    /// Where each node listens for peers of partition 0.
    peers: BTreeMap<Name, Address>,
}

impl Operator {
    /// All partitions, and where the nodes are.
    fn look(&mut self) -> Result<Vec<LedPartition>, String> {
        let count = slots(&mut Client::connect(&self.server)?)?.len();
        let groups = (0..count).map(|partition| self.group(partition));
        let groups = groups.collect::<Result<Vec<LedPartition>, String>>()?;
        for (partition, group) in groups.iter().enumerate() {
            for Replica { name, peer, .. } in &group.replicas {
                let first = peer.port().checked_sub(partition as u16);
                let first = first.and_then(|port| Address::new(peer.host(), port).ok());
                self.peers.extend(first.map(|first| (name.clone(), first)));
            }
        }
        Ok(groups)
    }

    /// A partition, when its leader answers.
    fn group(&self, partition: usize) -> Result<LedPartition, String> {
        let began = Instant::now();
        loop {
            match self.try_group(partition) {
                Ok(group) => return Ok(group),
                Err(text) if began.elapsed() > PATIENCE => {
                    return Err(format!(
                        "partition {partition} has had no leader for a minute: {text}"
                    ));
                }
                Err(_) => sleep(LOOKS_EVERY),
            }
        }
    }

    /// Any node names a member, which names the leader.
    fn try_group(&self, partition: usize) -> Result<LedPartition, String> {
        let mut server = self.server.clone();
        for _ in 0..HOPS_MAX {
            let mut leader = Client::connect(&server)?;
            let place = slots(&mut leader)?.get(partition).cloned().ok_or("no such partition")?;
            let is_there = place == server.place;
            server.place = place;
            if !is_there {
                continue;
            }
            let reply = leader.ask(&[b"DELAY.CLUSTER"]).map_err(|error| error.to_string())?;
            let replicas: Vec<Replica> = reply.items().iter().filter_map(Replica::read).collect();
            match replicas.iter().any(|replica| replica.leads) {
                true => return Ok(LedPartition { leader, replicas }),
                false => return Err(reply.error().unwrap_or_else(|| "none is known".to_owned())),
            }
        }
        Err("the nodes name each other".to_owned())
    }

    fn carry_out(&self, one: &Move) -> Result<(), String> {
        let partition = one.partition;
        if let Some(to) = &one.to {
            let peer = &self.peers[to];
            let port = peer.port() + partition as u16;
            let peer = Address::new(peer.host(), port).map_err(|wrong| wrong.to_string())?;
            self.step(partition, |group| match group.replica(to) {
                None => group
                    .ask(&["DELAY.CLUSTER", "ADD", to.as_str(), &peer.to_string()])
                    .map(|()| false),
                Some(replica) => Ok(replica.is_whole()),
            })
            .map_err(|text| format!("{text}; the log of {to} may say why"))?;
            say(&format!("partition {partition}: {to} has it\n"));
        }
        if let Some(from) = &one.from {
            self.step(partition, |group| match group.replica(from) {
                None => Ok(true),
                Some(replica) if replica.leads => group.hand_over(from).map(|()| false),
                Some(_) => group.ask(&["DELAY.CLUSTER", "REMOVE", from.as_str()]).map(|()| false),
            })?;
            say(&format!("partition {partition}: {from} gave it up\n"));
        }
        Ok(())
    }

    /// Looks at the partition and does what is next, until that is done. Leaders may change at any time, so an error is
    /// only one that lasts.
    fn step(
        &self,
        partition: usize,
        mut next: impl FnMut(&mut LedPartition) -> Result<bool, String>,
    ) -> Result<(), String> {
        let (mut since, mut seen) = (Instant::now(), Vec::new());
        loop {
            let mut group = self.group(partition)?;
            let done = next(&mut group);
            if done == Ok(true) {
                return Ok(());
            }
            if group.replicas != seen {
                (since, seen) = (Instant::now(), group.replicas);
            }
            if since.elapsed() > PATIENCE {
                return Err(done.err().unwrap_or_else(|| "no progress for a minute".to_owned()));
            }
            sleep(LOOKS_EVERY);
        }
    }
}

impl LedPartition {
    /// To another member, before this one goes.
    fn hand_over(&mut self, from: &Name) -> Result<(), String> {
        let next = self.replicas.iter().find(|replica| replica.name != *from && replica.is_whole());
        let next =
            next.and_then(|replica| replica.client.clone()).ok_or("no other member can lead")?;
        let port = next.port().to_string();
        self.ask(&["FAILOVER", "TO", next.host(), &port, "TIMEOUT", "5000"])
    }
}

/// Who leads each partition, as far as this server knows.
fn slots(client: &mut Client) -> Result<Vec<Address>, String> {
    let reply = client.ask(&[b"CLUSTER", b"SLOTS"]).map_err(|error| error.to_string())?;
    if let Some(text) = reply.error() {
        return Err(text);
    }
    let mut ranges: Vec<&[Reply]> = reply.items().iter().map(Reply::items).collect();
    ranges.sort_by_key(|range| range.first().and_then(Reply::number));
    let master = |range: &&[Reply]| {
        let node = range.get(2)?.items();
        let port = u16::try_from(node.get(1)?.number()?).ok()?;
        Address::new(node.first()?.text()?, port).ok()
    };
    let masters = ranges.iter().map(master).collect::<Option<Vec<Address>>>();
    masters
        .filter(|masters| !masters.is_empty())
        .ok_or("its answer to CLUSTER SLOTS cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Balance, String> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_read() {
        let line =
            "h:1 --with n4=h4:5 --without n1 --without n2 --replicas 5 --dry-run --yes --user ops";
        let found = asked(line).unwrap();
        assert_eq!((found.with[0].to_string().as_str(), found.without.len()), ("n4=h4:5", 2));
        assert_eq!((found.replicas, found.dry_run, found.yes), (5, true, true));
        assert_eq!(found.server.access.user.as_deref(), Some("ops"));
        for (wrong, text) in [
            ("", "HOST:PORT is missing"),
            ("h:1 h:2", "also got h:2"),
            ("h:1 --with n4", "--with n4: expected NAME=HOST:PORT"),
            ("h:1 --replicas 0", "--replicas 0: expected 1 to 7"),
            ("h:1 --without", "--without needs a value"),
            ("h:1 --sideways x", "unknown option '--sideways'"),
        ] {
            assert!(asked(wrong).unwrap_err().contains(text), "{wrong}");
        }
    }
}
