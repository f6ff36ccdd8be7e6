//! `delayd cluster balance`: spreads the partitions of a cluster over its nodes, by the commands that operators have. It
//! keeps nothing: interrupted and run again, it goes on from what it finds.

mod operator;
mod plan;

use super::access::{Access, ServerAddress};
use super::check::say;
use super::{Exit, confirmed, failed};
use crate::cluster::members::names::{Address, Listed, Name};
use operator::{LedPartition, Operator};
use plan::{Move, Placement};
use std::collections::BTreeSet;

/// `delayd cluster balance`
#[derive(Debug, PartialEq)]
pub struct Balance {
    /// Any partition of any node.
    pub server: ServerAddress,
    /// Nodes that are to get partitions, with the address of partition 0 for peers.
    pub with: Vec<Listed>,
    /// Nodes that are to give up theirs.
    pub without: Vec<Name>,
    /// How many each partition is to have; none for three, or as many as there are nodes.
    pub replicas: Option<usize>,
    /// Only shows what it would do.
    pub dry_run: bool,
    /// Without asking.
    pub yes: bool,
}

const REPLICAS: usize = 3;

/// The text of `--help`.
pub const HELP: &str = "\
Usage: delayd cluster balance HOST:PORT [--with NAME=HOST:PORT] [--without NAME]
Spreads the partitions of a cluster evenly over its nodes: each on three nodes,
one replica after the other. HOST:PORT is any partition of any node. A replica
is added first, and another one removed when the new one has all jobs and a
vote; it ends with fewer only where --replicas asks for fewer. It shows what it
will do, and asks. If it is interrupted, run it again: it continues from where
the cluster is. While one runs, another one is refused.

A new node is started first, with the cluster's options and an empty folder. A
node whose last partition was removed can be stopped.

  --with NAME=HOST:PORT   also uses this node; the address is the one that other
                          nodes reach its partition 0 at. May be repeated
  --without NAME          moves everything away from this node. May be repeated
  --replicas N            nodes of each partition, 1 to 7; by default 3
  --dry-run               shows what it would do
  --yes                   does not ask
  --user NAME             the user, which needs +cluster, +delay.cluster,
                          +failover and +client; by default the default user
  --password-file FILE    a file whose first line is the password; by default
                          the variable DELAYD_PASSWORD or REDISCLI_AUTH
  --tls-ca-cert-file FILE  uses TLS, and accepts certificates of this authority
  --tls-cert-file FILE    the certificate to present to the servers
  --tls-key-file FILE     its key
  --sni NAME              the name in the servers' certificates, if not the host

Exit codes:
   0  the partitions are spread, or were before
   1  not done: it was not confirmed, or a partition made no progress
   3  refused: no server there, a wrong password, another balance is running,
      too few nodes for as many replicas
  64  the command line is wrong
";

/// Reads the arguments after `cluster balance`.
///
/// # Errors
/// They are wrong; the text says which.
pub fn read(args: &[String]) -> Result<Balance, String> {
    let (mut place, mut access) = (None, Access::default());
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut replicas, mut dry_run, mut yes) = (None, false, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--dry-run" => dry_run = true,
            "--yes" => yes = true,
            "--with" => with.push(listed(value()?)?),
            "--without" => without.push(Name::new(value()?).map_err(|wrong| wrong.to_string())?),
            "--replicas" => replicas = Some(count(value()?)?),
            option if option.starts_with("--") => {
                // That it is unknown comes before that it has no value.
                if !Access::default().take(option, "") {
                    return Err(format!("unknown option '{option}'"));
                }
                access.take(option, value()?);
            }
            _ if place.is_some() => return Err(format!("one HOST:PORT expected, also got {arg}")),
            _ => place = Some(Address::parse(arg).map_err(|wrong| wrong.to_string())?),
        }
    }
    access.check()?;
    let is_named = |listed: &&Listed, name: &Name| listed.name == *name;
    if let Some(both) = with.iter().find(|one| without.iter().any(|name| is_named(one, name))) {
        return Err(format!("{} is named by --with and by --without", both.name));
    }
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
    balance(asked).unwrap_or_else(|text| failed(format_args!("cluster: {text}"), Exit::Unreadable))
}

fn balance(asked: &Balance) -> Result<Exit, String> {
    let mut operator = Operator::new(&asked.server);
    let mut groups = operator.look()?;
    if !asked.dry_run {
        operator.claim()?;
        // The plan includes all that another run has just done.
        groups = operator.look()?;
    }
    operator.peers.extend(asked.with.iter().map(|with| (with.name.clone(), with.peer.clone())));
    for unknown in asked.without.iter().filter(|name| !operator.peers.contains_key(*name)) {
        say(&format!("{unknown} holds no partition\n"));
    }
    let nodes = operator.peers.keys().filter(|name| !asked.without.contains(name)).cloned();
    let nodes: BTreeSet<Name> = nodes.collect();
    if nodes.is_empty() {
        return Err("no node is left".to_owned());
    }
    let now: Placement = groups.iter().map(LedPartition::voters).collect();
    let replicas = asked.replicas.unwrap_or(REPLICAS);
    let then = plan::target(&now, &nodes, replicas);
    check_replicas(&now, &then, replicas)?;
    if nodes.len() < replicas {
        let text = format!("there are {} nodes for {replicas} replicas", nodes.len());
        if asked.replicas.is_some() {
            return Err(format!("{text}: add a node by --with, or ask for fewer"));
        }
        say(&format!("{text}\n"));
    }
    let mut moves: Vec<Move> = Vec::new();
    // Those that were begun to be added, by an interrupted run perhaps, and that nobody wants now: they have no vote.
    for (partition, group) in groups.iter().enumerate() {
        let begun = group.replicas.iter().filter(|replica| !replica.votes);
        let unwanted = begun.filter(|replica| !then[partition].contains(&replica.name));
        let from = unwanted.map(|replica| Some(replica.name.clone()));
        moves.extend(from.map(|from| Move { partition, to: None, from }));
    }
    moves.extend(plan::moves(&now, &then));
    say(&shown(&now, &then));
    if moves.is_empty() {
        say("\nnothing has to be moved\n");
        return Ok(Exit::Good);
    }
    if asked.dry_run || !asked.yes && !confirmed("move them?") {
        say("nothing was changed\n");
        return Ok(if asked.dry_run { Exit::Good } else { Exit::Failed });
    }
    for (done, one) in moves.iter().enumerate() {
        let (partition, all) = (one.partition, moves.len());
        if let Err(text) = operator.carry_out(one, then[partition].len()) {
            eprintln!(
                "delayd: cluster: partition {partition}: {text}; {done} of {all} moves are done"
            );
            return Ok(Exit::Failed);
        }
    }
    Ok(Exit::Good)
}

/// Too few nodes are no reason to end with fewer replicas than there are: one node that fails could be one too many then.
fn check_replicas(now: &Placement, then: &Placement, wanted: usize) -> Result<(), String> {
    let numbers = now.iter().zip(then).map(|(now, then)| (now.len(), then.len()));
    match numbers.enumerate().find(|(_, (now, then))| then < now && *then < wanted) {
        Some((partition, (now, then))) => Err(format!(
            "partition {partition} would have {then} replicas instead of {now}: add a node by --with, or ask for \
             that by --replicas {then}"
        )),
        None => Ok(()),
    }
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
        assert_eq!((found.replicas, found.dry_run, found.yes), (Some(5), true, true));
        assert_eq!(found.server.access.user.as_deref(), Some("ops"));
        for (wrong, text) in [
            ("", "HOST:PORT is missing"),
            ("h:1 h:2", "also got h:2"),
            ("h:1 --with n4", "--with n4: expected NAME=HOST:PORT"),
            ("h:1 --replicas 0", "--replicas 0: expected 1 to 7"),
            ("h:1 --without", "--without needs a value"),
            ("h:1 --sideways", "unknown option '--sideways'"),
            ("h:1 --user", "--user needs a value"),
            ("h:1 --with n1=h:2 --without n1", "n1 is named by --with and by --without"),
        ] {
            assert!(asked(wrong).unwrap_err().contains(text), "{wrong}");
        }
    }
}
