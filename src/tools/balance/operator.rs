//! What an operator does to move a replica, done by a program: look at the partition, send its leader the next command, and
//! look again.

use super::plan::Move;
use crate::cluster::members::names::{Address, Name};
use crate::hash_slot::HASH_SLOTS;
use crate::limits::BALANCE_BEHIND_MAX;
use crate::tools::access::ServerAddress;
use crate::tools::check::say;
use crate::tools::client::Client;
use crate::tools::reply::Reply;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// From one node to the next that it names.
const HOPS_MAX: u32 = 4;
/// Without any progress for this long it stops, and says where.
const PATIENCE: Duration = Duration::from_secs(60);
/// The name of connections by which a run sees another one.
const CLIENT_NAME: &[u8] = b"delayd-balance";
/// How long to wait for what each node answers at once.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// How long the connections of a run that was killed may still be listed.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// After this long without progress it names the node that it waits for.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// A partition as its leader sees it.
pub(super) struct LedPartition {
    leader: Client,
    pub(super) replicas: Vec<Replica>,
}

/// A member, or a node that is to be one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Replica {
    pub(super) name: Name,
    leads: bool,
    /// It has a vote,
    pub(super) votes: bool,
    /// and is there.
    is_online: bool,
    /// It receives a base, as it lacks more than the log has.
    receives: bool,
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
            receives: text("state") == Some("base"),
            behind: reply.field("behind").number(),
            client: text("client").and_then(|client| Address::parse(client).ok()),
            peer: Address::parse(text("peer")?).ok()?,
        })
    }

    /// Whether it has a vote, is there and has about all jobs.
    fn is_whole(&self) -> bool {
        let is_near = self.behind.is_none_or(|behind| behind <= BALANCE_BEHIND_MAX);
        self.leads || self.votes && self.is_online && is_near
    }
}

impl LedPartition {
    fn replica(&self, name: &Name) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.name == *name)
    }

    /// Those that count: a node that was invited, or has no vote yet, would not be missed.
    pub(super) fn voters(&self) -> BTreeSet<Name> {
        let voters = self.replicas.iter().filter(|replica| replica.votes);
        voters.map(|replica| replica.name.clone()).collect()
    }

    fn ask(&mut self, words: &[&str]) -> Result<Next, String> {
        asked(&mut self.leader, words).map(|_| Next::Look)
    }

    fn whole_without(&self, from: &Name) -> usize {
        let others = self.replicas.iter().filter(|replica| replica.name != *from);
        others.filter(|replica| replica.is_whole()).count()
    }
}

/// Whether a step of a move makes progress: members change, one lacks fewer batches than ever before, or one receives a base.
/// While jobs come in, the number of batches that a node lacks rises and falls, so that fewer than a moment ago says nothing.
struct StepProgress {
    since: Instant,
    seen: Vec<Replica>,
    least: BTreeMap<Name, u64>,
}

impl StepProgress {
    fn begin(now: Instant) -> StepProgress {
        StepProgress { since: now, seen: Vec::new(), least: BTreeMap::new() }
    }

    /// For how long there has been none.
    fn look(&mut self, now: Instant, replicas: &[Replica]) -> Duration {
        let still = |replica: &Replica| Replica { behind: None, ..replica.clone() };
        let members: Vec<Replica> = replicas.iter().map(still).collect();
        if members != self.seen {
            *self = StepProgress { since: now, seen: members, least: BTreeMap::new() };
        }
        for replica in replicas {
            let least = self.least.entry(replica.name.clone()).or_insert(u64::MAX);
            let is_less = replica.behind.is_some_and(|behind| behind < *least);
            if is_less || replica.receives {
                (self.since, *least) = (now, replica.behind.unwrap_or(*least).min(*least));
            }
        }
        now.duration_since(self.since)
    }
}

pub(super) struct Operator {
    server: ServerAddress,
    /// Where each node listens for peers of partition 0,
    pub(super) peers: BTreeMap<Name, Address>,
    /// and for clients.
    clients: BTreeSet<Address>,
    /// To each node, as long as this runs.
    claims: Vec<(Address, Client)>,
}

impl Operator {
    pub(super) fn new(server: &ServerAddress) -> Operator {
        let (peers, clients) = (BTreeMap::new(), BTreeSet::new());
        Operator { server: server.clone(), peers, clients, claims: Vec::new() }
    }

    /// From here on other runs are refused. Two at a time would remove what each other has begun to add. To be said again
    /// before each move: a node that stops to lead, or starts anew, has closed its connections.
    ///
    /// # Errors
    /// Another one has begun earlier, or the user may not do this; the text says which.
    pub(super) fn claim(&mut self) -> Result<(), String> {
        self.claims.retain_mut(|(_, node)| node.ask(&[b"PING"]).is_ok());
        for place in &self.clients {
            if self.claims.iter().any(|(claimed, _)| claimed == place) {
                continue;
            }
            let server = ServerAddress { place: place.clone(), access: self.server.access.clone() };
            // A node that is down or stands still lists no other run, and may be the one to be replaced.
            let Ok(mut node) = Client::connect(&server) else { continue };
            let named = node.set_patience(Some(ANSWERS_WITHIN));
            let named = named.and_then(|()| node.ask(&[b"CLIENT", b"SETNAME", CLIENT_NAME]));
            if let Ok(reply) = named {
                reply.error().map_or(Ok(()), Err)?;
                self.claims.push((place.clone(), node));
            }
        }
        // All have the name before any list is read, so of two that begin together one at least sees the other.
        let began = Instant::now();
        for (_, node) in &mut self.claims {
            while let Some(other) = earlier_run(node)? {
                if began.elapsed() > GONE_WITHIN {
                    return Err(format!("another balance is running, connected from {other}"));
                }
                sleep(LOOKS_EVERY);
            }
        }
        Ok(())
    }

    /// All partitions, and where the nodes are.
    pub(super) fn look(&mut self) -> Result<Vec<LedPartition>, String> {
        let (count, _) = slots(&mut Client::connect(&self.server)?)?;
        let mut groups = Vec::new();
        for partition in 0..count {
            let group = self.group(partition)?;
            for replica in group.replicas.iter().filter(|replica| replica.votes) {
                let peer = first_of(partition, Some(&replica.peer));
                self.peers.extend(peer.map(|peer| (replica.name.clone(), peer)));
                self.clients.extend(first_of(partition, replica.client.as_ref()));
            }
            groups.push(group);
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

    /// The given node may know of none, if it does not hold the partition: others are asked, too.
    fn try_group(&self, partition: usize) -> Result<LedPartition, String> {
        let first = self.try_from(self.server.place.clone(), partition);
        let others = self.clients.iter().filter_map(|first| nth_of(partition, first));
        first.or_else(|text| {
            let mut found = others.map(|place| self.try_from(place, partition));
            found.find_map(Result::ok).ok_or(text)
        })
    }

    /// Any node names a member, which names the leader.
    fn try_from(&self, place: Address, partition: usize) -> Result<LedPartition, String> {
        let mut server = ServerAddress { place, access: self.server.access.clone() };
        for _ in 0..HOPS_MAX {
            let mut leader = Client::connect(&server)?;
            let place = slots(&mut leader)?.1.remove(&partition).ok_or("no node is known")?;
            let is_there = place == server.place;
            server.place = place;
            if !is_there {
                continue;
            }
            let reply = asked(&mut leader, &["DELAY.CLUSTER"])?;
            let replicas: Vec<Replica> = reply.items().iter().filter_map(Replica::read).collect();
            match replicas.iter().any(|replica| replica.leads) {
                true => return Ok(LedPartition { leader, replicas }),
                false => return Err("none is known".to_owned()),
            }
        }
        Err("the nodes name each other".to_owned())
    }

    /// `least`: so many whole replicas are left whenever one is removed.
    pub(super) fn carry_out(&mut self, one: &Move, least: usize) -> Result<(), String> {
        let partition = one.partition;
        self.claim()?;
        if let Some(to) = &one.to {
            let peer = nth_of(partition, &self.peers[to]).ok_or("its port is above 65535")?;
            self.step(partition, to, |group| match group.replica(to) {
                None => group.ask(&["DELAY.CLUSTER", "ADD", to.as_str(), &peer.to_string()]),
                Some(replica) if replica.is_whole() => Ok(Next::Done),
                Some(_) => Ok(Next::Look),
            })?;
            say(&format!("partition {partition}: {to} has it\n"));
        }
        if let Some(from) = &one.from {
            self.step(partition, from, |group| match group.replica(from) {
                None => Ok(Next::Done),
                Some(replica) if replica.votes && group.whole_without(from) < least => {
                    Err(format!("{from} cannot go: fewer than {least} others are whole"))
                }
                Some(replica) if replica.leads => group.hand_over(from),
                Some(_) => group.ask(&["DELAY.CLUSTER", "REMOVE", from.as_str()]),
            })?;
            say(&format!("partition {partition}: {from} gave it up\n"));
        }
        Ok(())
    }

    /// Looks at the partition and does what is next about a node, until that is done. Leaders may change at any time, so an
    /// error is only one that lasts, unless it is about rights.
    fn step(
        &self,
        partition: usize,
        node: &Name,
        mut next: impl FnMut(&mut LedPartition) -> Result<Next, String>,
    ) -> Result<(), String> {
        let mut progress = StepProgress::begin(Instant::now());
        let (mut is_told, mut is_base_told) = (false, false);
        loop {
            let mut group = self.group(partition)?;
            let receives = group.replica(node).is_some_and(|replica| replica.receives);
            if receives && !std::mem::replace(&mut is_base_told, true) {
                say(&format!("partition {partition}: {node} receives a copy of all jobs\n"));
            }
            let done = next(&mut group);
            match &done {
                Ok(Next::Done) => return Ok(()),
                Err(text) if text.starts_with("NOPERM") => return Err(text.clone()),
                _ => {}
            }
            let none_for = progress.look(Instant::now(), &group.replicas);
            let waits = || format!("waits for {}", described(&group.replicas, node));
            is_told &= none_for > TOLD_AFTER;
            if none_for > TOLD_AFTER && !std::mem::replace(&mut is_told, true) {
                say(&format!("partition {partition}: {}\n", waits()));
            }
            if none_for > PATIENCE {
                let text = || format!("no progress for a minute: {}", waits());
                return Err(done.err().unwrap_or_else(text));
            }
            sleep(LOOKS_EVERY);
        }
    }
}

/// What a step of a move comes to.
#[derive(PartialEq, Eq)]
enum Next {
    Done,
    /// It was begun, or goes on by itself.
    Look,
}

impl LedPartition {
    /// To another member, before this one goes.
    fn hand_over(&mut self, from: &Name) -> Result<Next, String> {
        let next = self.replicas.iter().find(|replica| replica.name != *from && replica.is_whole());
        let next =
            next.and_then(|replica| replica.client.clone()).ok_or("no other member can lead")?;
        let port = next.port().to_string();
        self.ask(&["FAILOVER", "TO", next.host(), &port, "TIMEOUT", "5000"])
    }
}

/// A node that is waited for, and what may be wrong with it.
fn described(replicas: &[Replica], node: &Name) -> String {
    let found = replicas.iter().find(|replica| replica.name == *node);
    match found.filter(|replica| replica.client.is_none()) {
        Some(Replica { peer, .. }) => format!(
            "{node}, which has not connected: does it run, and do the other nodes reach it at {peer}? DELAY.CLUSTER \
             REMOVE {node}, sent to the leader, withdraws its invitation"
        ),
        None => format!("{node}; its log may say why"),
    }
}

/// What a node answers, unless that is an error.
fn asked(node: &mut Client, words: &[&str]) -> Result<Reply, String> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = node.ask(&words).map_err(|error| error.to_string())?;
    reply.error().map_or(Ok(reply), Err)
}

/// The address of a run that has connected to this node before this one, if the node answers.
fn earlier_run(node: &mut Client) -> Result<Option<String>, String> {
    let Ok(own) = node.ask(&[b"CLIENT", b"ID"]) else { return Ok(None) };
    let Ok(list) = node.ask(&[b"CLIENT", b"LIST"]) else { return Ok(None) };
    if let Some(text) = own.error().or(list.error()) {
        return Err(text);
    }
    let earlier = |line: &str| {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        let is_earlier = field("id=")?.parse::<u64>().ok()? < own.number()?;
        let is_run = field("name=")?.as_bytes() == CLIENT_NAME;
        (is_earlier && is_run).then(|| field("addr=").unwrap_or_default().to_owned())
    };
    Ok(list.text().unwrap_or_default().lines().find_map(earlier))
}

/// A node's address for partition 0, from that for another partition.
fn first_of(partition: usize, address: Option<&Address>) -> Option<Address> {
    let address = address?;
    let port = address.port().checked_sub(partition as u16)?;
    Address::new(address.host(), port).ok()
}

/// The other way round.
fn nth_of(partition: usize, first: &Address) -> Option<Address> {
    let port = first.port().checked_add(partition as u16)?;
    Address::new(first.host(), port).ok()
}

/// Where the leader of each partition is, as far as this server knows, with their number. Each has as many slots.
fn slots(client: &mut Client) -> Result<(usize, BTreeMap<usize, Address>), String> {
    let reply = asked(client, &["CLUSTER", "SLOTS"])?;
    let rows = reply.items().iter().map(|row| master(row.items()));
    let rows = rows.collect::<Option<Vec<(u64, u64, Address)>>>().filter(|rows| !rows.is_empty());
    let rows = rows.ok_or("its answer to CLUSTER SLOTS cannot be read")?;
    let each = rows[0].1 + 1 - rows[0].0;
    let places = rows.into_iter().map(|(first, _, place)| ((first / each) as usize, place));
    Ok(((u64::from(HASH_SLOTS) / each) as usize, places.collect()))
}

/// The first and the last slot of a row, and where they are led.
fn master(row: &[Reply]) -> Option<(u64, u64, Address)> {
    let (first, last) = (row.first()?.number()?, row.get(1)?.number()?);
    let node = row.get(2)?.items();
    let port = u16::try_from(node.get(1)?.number()?).ok()?;
    let place = Address::new(node.first()?.text()?, port).ok()?;
    (first <= last).then_some((first, last, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(votes: bool, behind: u64) -> Replica {
        let address = Address::new("10.0.0.4", 19_251).ok();
        Replica {
            name: Name::new("n4").unwrap(),
            leads: false,
            votes,
            is_online: true,
            receives: false,
            behind: Some(behind),
            client: address.clone(),
            peer: address.unwrap(),
        }
    }

    #[test]
    fn what_a_node_lacks_makes_progress_only_when_it_is_less_than_ever() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut progress = StepProgress::begin(begun);
        let seen = [(1, 9), (2, 20), (3, 9), (4, 15), (5, 8), (6, 20), (7, 8)];
        // One that is away lacks ever more, which hides nothing.
        let away = |lacked| Replica { name: Name::new("n3").unwrap(), ..replica(true, lacked) };
        let none_for = seen.map(|(at_s, behind)| {
            progress.look(at(at_s), &[replica(false, behind), away(100 * at_s)]).as_secs()
        });
        assert_eq!(none_for, [0, 1, 2, 3, 0, 1, 2]);
        assert_eq!(progress.look(at(8), &[replica(true, 30)]).as_secs(), 0, "it has a vote now");
        let receiving = Replica { receives: true, ..replica(true, 30) };
        let none_for =
            [9, 99].map(|at_s| progress.look(at(at_s), std::slice::from_ref(&receiving)));
        assert_eq!(none_for, [Duration::ZERO; 2]);
    }

    #[test]
    fn a_node_that_has_not_connected_is_named_with_the_address_where_it_is_looked_for() {
        let node = Name::new("n4").unwrap();
        let invited = Replica { client: None, ..replica(false, 0) };
        let text = described(&[invited], &node);
        assert!(text.contains("do the other nodes reach it at 10.0.0.4:19251?"), "{text}");
        assert_eq!(described(&[replica(false, 0)], &node), "n4; its log may say why");
    }
}
