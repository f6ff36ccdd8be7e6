//! The command lines of the tools. `call`, `demo` and `health` parse their own.

use super::access::{Access, ServerAddress};
use super::{balance, call, demo, health};
use crate::cluster::members::names::{Address, Listed, Name};
use crate::cluster::options::{node_list, node_name};
use crate::ids::Index;
use std::path::PathBuf;

/// The parsed command line.
#[derive(Debug, PartialEq)]
pub enum ToolInvocation {
    Check(Check),
    Dump(Dump),
    Cluster(Cluster),
    Dissolve(Dissolve),
    Balance(balance::Balance),
    Backup(BackupArgs),
    Restore(Restore),
    Spread(Spread),
    Console(Console),
    Call(call::Call),
    /// With the delay, ms.
    Demo(u64),
    /// With the options of the server.
    Health(Vec<String>),
    /// `--help` of one of them.
    Help(&'static str),
}

/// `delayd check`
#[derive(Debug, PartialEq)]
pub struct Check {
    /// The data directory, or the journal's folder in it.
    pub dir: PathBuf,
    /// Shows the journal's last instant and the wall clock.
    pub clock: bool,
    pub change: Option<JournalChange>,
    /// Without asking.
    pub yes: bool,
}

/// The changes `delayd check` can make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalChange {
    /// Cuts what is damaged or torn.
    Repair,
    /// Sets the journal's last instant back to the wall clock.
    LowerClock,
}

/// `delayd dump`
#[derive(Debug, PartialEq)]
pub struct Dump {
    /// The data directory, or the journal's folder in it.
    pub dir: PathBuf,
    pub from: Option<Index>,
    pub to: Option<Index>,
    /// The images of the base first.
    pub base: bool,
}

/// `delayd cluster found` and `delayd cluster recover`
#[derive(Debug, PartialEq)]
pub struct Cluster {
    /// The data directory, or the journal's folder in it.
    pub dir: PathBuf,
    /// For a node whose others are lost; otherwise for a standalone server.
    pub recovers: bool,
    /// The node's name from here on, and its addresses for others.
    pub own: Listed,
    /// Others must be members before anything is acknowledged.
    pub has_others: bool,
    /// Without asking.
    pub yes: bool,
}

/// `delayd cluster dissolve`
#[derive(Debug, PartialEq)]
pub struct Dissolve {
    /// The data directory of the last node, or the journal's folder in it.
    pub dir: PathBuf,
    /// The data directory of the standalone server.
    pub into: PathBuf,
    /// Also of a node that had others, which may have more.
    pub accepts: bool,
}

/// `delayd spread`
#[derive(Debug, PartialEq)]
pub struct Spread {
    /// The data directory.
    pub dir: PathBuf,
    pub count: u16,
    /// Without asking.
    pub yes: bool,
}

/// `delayd backup`
#[derive(Debug, PartialEq)]
pub struct BackupArgs {
    pub server: ServerAddress,
    /// The folder of the backup.
    pub dir: PathBuf,
    /// Also from a node that leads others.
    pub from_leader: bool,
}

/// `delayd restore`
#[derive(Debug, PartialEq)]
pub struct Restore {
    /// The folder of the backup.
    pub dir: PathBuf,
    /// The data directory of the server.
    pub into: PathBuf,
    /// For the first node of a cluster: its name, and its address for the others.
    pub own: Option<Listed>,
    /// Others must be members before anything is acknowledged.
    pub has_others: bool,
}

/// `delayd console`
#[derive(Debug, PartialEq)]
pub struct Console {
    /// As the server is started: a file of options, and options.
    pub options: Vec<String>,
    /// The token alone, for a program.
    pub token: bool,
    /// A browser is left alone.
    pub no_open: bool,
}

const CHECK_HELP: &str = "\
Usage: delayd check DIR [--clock] [--repair | --lower-clock] [--yes]
Reads a journal as a start would and shows its content. Changes nothing, and
may run while a server does. Needs about as much memory as the server.

DIR is the data directory (option dir) or the journal's folder in it. Of a
server with several partitions all are checked, and the highest exit code of
them counts; name one of them, such as DIR/02, to change it.

  --repair        if the log is damaged: saves everything from the damage on to
                  cut-<unix time>/ in the journal's folder, then cuts the log
                  there, so that a server starts with all data before it. Not
                  while a server runs.
  --clock         compares the journal's last instant with the wall clock; a
                  server begins at the later of them
  --lower-clock   sets the last instant to the wall clock if that is earlier,
                  after a server ran with a wrong clock. Due times stay as they
                  are. Not while a server runs.
  --yes           does not ask before it changes anything

Exit codes:
   0  in order (with --repair: now)
   1  a torn tail, which the server cuts by itself when it starts
   2  damage: the server would not start
   3  cannot be read: no such directory, permission, in use, unknown version
  64  the command line is wrong
";

const DUMP_HELP: &str = "\
Usage: delayd dump DIR [--from INDEX] [--to INDEX] [--base]
Writes the facts of a journal as JSON, one object a line, oldest first. Changes
nothing, and may run while a server does. docs/journal.md lists the fields.

DIR is the data directory (option dir) or the journal's folder in it.

  --from INDEX   begins with this batch; by default after the base
  --to INDEX     ends with this batch
  --base         first writes the content of the base: all queues and jobs

Exit codes:
   0  everything was written; also if the log ends with a torn tail, or the
      reader of the output closes it
   2  damage: everything before it was written
   3  cannot be read: no such directory, permission, unknown version
  64  the command line is wrong
";

const CLUSTER_HELP: &str = "\
Usage: delayd cluster (found | recover | dissolve) DIR ...
       delayd cluster balance HOST:PORT ...
Turns a journal into that of a new cluster with one member, or of a standalone
server. Not while a server runs. Needs as much memory as the server, and space
for a base. balance is about a running cluster, and has a --help of its own.

found DIR --cluster-node NAME --cluster-nodes LIST: from the journal of a
standalone server. Then start the node with the same cluster-node and
cluster-nodes, and the others with empty folders: they receive all data. Nothing
is lost. A standalone server can no longer open the folder.

recover DIR --cluster-node NAME --cluster-nodes LIST --i-accept-losses: from the
journal of a node of a cluster whose majority is lost for good. Everything that
the majority had acknowledged and this node had not received is lost. The whole
log of this node is kept, committed or not; recover shows where it ends. The
node leads alone at once; DELAY.CLUSTER ADD adds others, with empty folders.
Never start the other nodes of the old cluster again.

dissolve DIR INTO: from the journal of the last node of a cluster, after
DELAY.CLUSTER REMOVE has removed all others, into the folder INTO, for a
standalone server. Nothing is lost. DIR stays as it is; never start a node with
it again.

DIR is the data directory (option dir) or the journal's folder in it. If several
nodes are left, take the one whose log ends in the highest epoch; of equal ones,
the one with the highest batch. delayd check shows both.

  --cluster-node NAME   like the option: the node's name
  --cluster-nodes LIST  like the option: name=host:port, including this node
  --i-accept-losses     required for recover; for dissolve if the node still has
                        other members
  --yes                 found and recover do not ask before they change anything

Exit codes:
   0  done, and in order
   1  not done: it was not confirmed
   2  damage: a server would not start
   3  cannot be read, or does not fit: permission, in use, another kind
  64  the command line is wrong
";

const SPREAD_HELP: &str = "\
Usage: delayd spread DIR --into COUNT [--yes]
Divides the journal of a server with one partition into COUNT partitions, for a
start with cluster-partitions COUNT: each queue goes to the partition of its
hash slot, with its jobs, schedules and settings. Not while a server runs.
Leases and their tokens stay valid. Needs as much memory as the server, and
space for another base. The result is read back and compared before it counts.

DIR is the data directory (option dir). Run it as the server's user, who has to
own the folders. The journal is kept as journal.one. To go back, without what
was done since, remove partitions and the folders 00, 01 ... and rename it to
journal. If the command is interrupted, DIR has either still its
journal, or the partitions.

  --into COUNT  2, 4, 8, 16, 32 or 64
  --yes         does not ask

Exit codes:
   0  done
   1  not done: it was not confirmed
   2  damage: a server would not start
   3  cannot be read, or does not fit: permission, in use, another kind
  64  the command line is wrong
";

const BACKUP_HELP: &str = "\
Usage: delayd backup HOST:PORT DIR [--user NAME] [--password-file FILE]
Fetches all jobs, queues, schedules and settings of the running server at
HOST:PORT, a standalone server or a node of a cluster, into the folder DIR: the
state as of one batch, with everything that was answered before. The backup is
read back and counted before it replaces an older one in DIR. If it is
interrupted, the same command continues it within an hour; the state is then
that of when the first command began.

The server sends no faster than its option cluster-sync-rate.

  --user NAME             the user, which needs +delay.backup; by default the
                          default user
  --password-file FILE    a file whose first line is the password; by default
                          the variable DELAYD_PASSWORD or REDISCLI_AUTH
  --tls-ca-cert-file FILE  uses TLS, and accepts certificates of this authority
  --tls-cert-file FILE    the certificate to present to the server
  --tls-key-file FILE     its key
  --sni NAME              the name in the server's certificate, if not HOST
  --from-leader           allows a backup from the leader, too; a backup from a
                          follower does not load the leader

Exit codes:
   0  the backup is complete
   1  it was interrupted: the same command continues it
   2  the received data is damaged; nothing of it is kept
   3  refused: no server there, a wrong password, a leader, no space for a base
  64  the command line is wrong
";

const RESTORE_HELP: &str = "\
Usage: delayd restore DIR INTO [--cluster-node NAME --cluster-nodes LIST]
Makes a server's folder INTO from the backup in DIR. The whole backup is read
and checked before anything is written. Then start a server with the option dir
INTO. Needs as much memory as the server, and space for a base.

With --cluster-node and --cluster-nodes it is the folder of the first node of a
new cluster. Start the others with empty folders: they receive all data.

Everything done since the backup is lost: jobs acknowledged since then come
again. Jobs leased at the time of the backup are ready again, and tokens from
before are not accepted. Never start nodes of the replaced cluster again.

  --cluster-node NAME   like the option: the node's name
  --cluster-nodes LIST  like the option: name=host:port, including this node

Exit codes:
   0  done
   2  the backup is damaged: nothing was written
   3  not done: no backup in DIR, a journal in INTO, permission, no space
  64  the command line is wrong
";

const CONSOLE_HELP: &str = "\
Usage: delayd console [FILE] [--dir DIR] [--token] [--no-open]
Prints the login link of the console of the server on this machine, while its
default user has no password, and opens it if there is a browser. The link is in
DIR/console-link, which only the server's own user and root can read. Each start
of the server makes a new one.

FILE is the server's configuration file, if it has one, for its option dir.

  --dir DIR    like the option: the data directory; by default the current one
  --token      prints only the token of the link, as for Authorization: Bearer
  --no-open    opens no browser. By default one is opened by xdg-open if the
               output is a terminal and DISPLAY or WAYLAND_DISPLAY is set; other
               users of the machine can see the link in the list of processes.

Exit codes:
   0  printed
   3  there is no link: no such server runs, it has a password, or the file
      belongs to another user
  64  the command line is wrong
";

/// Reads the arguments after the program's name; none if the first is no tool's name.
pub fn read(args: &[String]) -> Option<Result<ToolInvocation, String>> {
    let (tool, rest) = args.split_first()?;
    let help = match tool.as_str() {
        "check" => CHECK_HELP,
        "dump" => DUMP_HELP,
        "cluster" if rest.first().is_some_and(|word| word == "balance") => balance::HELP,
        "cluster" => CLUSTER_HELP,
        "backup" => BACKUP_HELP,
        "restore" => RESTORE_HELP,
        "spread" => SPREAD_HELP,
        "console" => CONSOLE_HELP,
        "call" => call::HELP,
        "demo" => demo::HELP,
        "health" => health::HELP,
        _ => return None,
    };
    // A command's arguments may look like options.
    let is_help = |arg: &String| tool != "call" && (arg == "--help" || arg == "-h");
    if rest.iter().any(is_help) {
        return Some(Ok(ToolInvocation::Help(help)));
    }
    let asked = match tool.as_str() {
        "check" => check(rest),
        "dump" => dump(rest),
        "console" => Ok(console(rest)),
        "backup" => backup(rest),
        "restore" => restore(rest),
        "spread" => spread(rest),
        "call" => call::read(rest)
            .map(|call| call.map_or(ToolInvocation::Help(help), ToolInvocation::Call)),
        "demo" => demo::read(rest).map(ToolInvocation::Demo),
        "health" => Ok(ToolInvocation::Health(rest.to_vec())),
        _ => cluster(rest),
    };
    let named = if help == balance::HELP { "cluster balance" } else { tool };
    Some(asked.map_err(|text| format!("{named}: {text}; see delayd {named} --help")))
}

fn check(args: &[String]) -> Result<ToolInvocation, String> {
    let (mut dir, mut clock, mut change, mut yes) = (None, false, None, false);
    for arg in args {
        let asked = match arg.as_str() {
            "--repair" => JournalChange::Repair,
            "--lower-clock" => JournalChange::LowerClock,
            "--clock" => {
                clock = true;
                continue;
            }
            "--yes" => {
                yes = true;
                continue;
            }
            _ => {
                take_dir(&mut dir, arg)?;
                continue;
            }
        };
        if change.replace(asked).is_some_and(|before| before != asked) {
            return Err("--repair and --lower-clock cannot be combined".to_owned());
        }
    }
    if yes && change.is_none() {
        return Err("--yes needs --repair or --lower-clock".to_owned());
    }
    let dir = dir.ok_or("DIR is missing")?;
    Ok(ToolInvocation::Check(Check { dir, clock, change, yes }))
}

fn dump(args: &[String]) -> Result<ToolInvocation, String> {
    let (mut dir, mut from, mut to, mut base) = (None, None, None, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--from" => from = Some(index("--from", args.next())?),
            "--to" => to = Some(index("--to", args.next())?),
            "--base" => base = true,
            _ => take_dir(&mut dir, arg)?,
        }
    }
    if let (Some(Index(from)), Some(Index(to))) = (from, to)
        && from > to
    {
        return Err(format!("--from {from} is after --to {to}"));
    }
    let dir = dir.ok_or("DIR is missing")?;
    Ok(ToolInvocation::Dump(Dump { dir, from, to, base }))
}

fn cluster(args: &[String]) -> Result<ToolInvocation, String> {
    let recovers = match args.first().map(String::as_str) {
        Some("found") => false,
        Some("recover") => true,
        Some("dissolve") => return dissolve(&args[1..]),
        Some("balance") => return balance::read(&args[1..]).map(ToolInvocation::Balance),
        _ => return Err("expected found, recover, dissolve or balance first".to_owned()),
    };
    let (mut dir, mut node, mut nodes, mut accepts, mut yes) = (None, None, None, false, false);
    let mut args = args[1..].iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--cluster-node" => node = Some(args.next().ok_or("--cluster-node needs a name")?),
            "--cluster-nodes" => nodes = Some(args.next().ok_or("--cluster-nodes needs a list")?),
            "--i-accept-losses" => accepts = true,
            "--yes" => yes = true,
            _ => take_dir(&mut dir, arg)?,
        }
    }
    let dir = dir.ok_or("DIR is missing")?;
    let (own, has_others) = own_of(node, nodes)?;
    if accepts != recovers {
        return Err("recover needs --i-accept-losses, and found does not take it".to_owned());
    }
    Ok(ToolInvocation::Cluster(Cluster { dir, recovers, own, has_others, yes }))
}

/// The node of this name in the list, and whether it has others.
fn own_of(node: Option<&String>, nodes: Option<&String>) -> Result<(Listed, bool), String> {
    let node = node.ok_or("--cluster-node is missing")?;
    let nodes = nodes.ok_or("--cluster-nodes is missing")?;
    let text = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let node: Name = node_name(node, &text).map_err(|wrong| wrong.to_string())?;
    let nodes = node_list(nodes).map_err(|wrong| wrong.to_string())?;
    let has_others = nodes.len() > 1;
    let own = nodes.into_iter().find(|listed| listed.name == node);
    Ok((own.ok_or_else(|| format!("{node} is not in --cluster-nodes"))?, has_others))
}

fn spread(args: &[String]) -> Result<ToolInvocation, String> {
    let (mut dir, mut count, mut yes) = (None, None, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--into" if count.is_some() => return Err("--into is given twice".to_owned()),
            "--into" => count = Some(args.next().ok_or("--into needs a number")?),
            "--yes" => yes = true,
            _ => take_dir(&mut dir, arg)?,
        }
    }
    let dir = dir.ok_or("DIR is missing")?;
    let text = count.ok_or("--into is missing")?;
    let count: Option<u16> =
        text.parse().ok().filter(|count| [2, 4, 8, 16, 32, 64].contains(count));
    let count = count.ok_or_else(|| format!("--into {text}: expected 2, 4, 8, 16, 32 or 64"))?;
    Ok(ToolInvocation::Spread(Spread { dir, count, yes }))
}

fn dissolve(args: &[String]) -> Result<ToolInvocation, String> {
    let (mut words, mut accepts) = (Vec::new(), false);
    for arg in args {
        match arg.as_str() {
            "--i-accept-losses" => accepts = true,
            _ => words.push(plain(arg)?),
        }
    }
    let [dir, into] = two(words, ["DIR", "INTO"])?;
    Ok(ToolInvocation::Dissolve(Dissolve { dir: dir.into(), into: into.into(), accepts }))
}

fn backup(args: &[String]) -> Result<ToolInvocation, String> {
    let (mut words, mut from_leader) = (Vec::new(), false);
    let mut access = Access::default();
    let mut rest = args;
    while let [arg, after @ ..] = rest {
        rest = after;
        let value = after.first().map_or("", String::as_str);
        if arg == "--from-leader" {
            from_leader = true;
        } else if access.take(arg, value) {
            rest = after.get(1..).ok_or_else(|| format!("{arg} needs a value"))?;
        } else {
            words.push(plain(arg)?);
        }
    }
    let [place, dir] = two(words, ["HOST:PORT", "DIR"])?;
    let place = Address::parse(place).map_err(|wrong| wrong.to_string())?;
    access.check()?;
    let server = ServerAddress { place, access };
    Ok(ToolInvocation::Backup(BackupArgs { server, dir: dir.into(), from_leader }))
}

fn restore(args: &[String]) -> Result<ToolInvocation, String> {
    let (mut words, mut node, mut nodes) = (Vec::new(), None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--cluster-node" => node = Some(args.next().ok_or("--cluster-node needs a name")?),
            "--cluster-nodes" => nodes = Some(args.next().ok_or("--cluster-nodes needs a list")?),
            _ => words.push(plain(arg)?),
        }
    }
    let [dir, into] = two(words, ["DIR", "INTO"])?;
    let (dir, into) = (dir.into(), into.into());
    let (own, has_others) = match (node, nodes) {
        (None, None) => (None, false),
        (node, nodes) => own_of(node, nodes).map(|(own, others)| (Some(own), others))?,
    };
    Ok(ToolInvocation::Restore(Restore { dir, into, own, has_others }))
}

/// An argument that is not an option.
fn plain(arg: &str) -> Result<&str, String> {
    match arg.starts_with("--") {
        true => Err(format!("unknown option '{arg}'")),
        false => Ok(arg),
    }
}

fn two<'a>(words: Vec<&'a str>, names: [&str; 2]) -> Result<[&'a str; 2], String> {
    words.try_into().map_err(|words: Vec<&str>| match words.get(2) {
        Some(third) => format!("expected {} and {}, also got {third}", names[0], names[1]),
        None => format!("{} is missing", names[words.len()]),
    })
}

fn console(args: &[String]) -> ToolInvocation {
    let is = |word: &str| args.iter().any(|arg| arg == word);
    let (token, no_open) = (is("--token"), is("--no-open"));
    let own = |arg: &&String| !["--token", "--no-open"].contains(&arg.as_str());
    let options = args.iter().filter(own).cloned().collect();
    ToolInvocation::Console(Console { options, token, no_open })
}

fn take_dir(dir: &mut Option<PathBuf>, arg: &str) -> Result<(), String> {
    if arg.starts_with("--") {
        return Err(format!("unknown option '{arg}'"));
    }
    match dir.replace(arg.into()) {
        None => Ok(()),
        Some(before) => Err(format!("one DIR expected, got {} and {arg}", before.display())),
    }
}

fn index(option: &str, value: Option<&String>) -> Result<Index, String> {
    let Some(value) = value else { return Err(format!("{option} needs the number of a batch")) };
    match value.parse() {
        Ok(index) if index >= 1 => Ok(Index(index)),
        _ => Err(format!("{option} {value}: the number of a batch is expected, 1 or more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<Result<ToolInvocation, String>> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&args)
    }

    #[test]
    fn tools_are_told_from_the_server() {
        assert_eq!(asked(""), None);
        assert_eq!(asked("check.conf --port 7"), None);
        assert_eq!(asked("--port 7"), None);
        let dir = || PathBuf::from("x");
        let check = |clock, change, yes| {
            Some(Ok(ToolInvocation::Check(Check { dir: dir(), clock, change, yes })))
        };
        assert_eq!(asked("check x"), check(false, None, false));
        assert_eq!(
            asked("check --repair x --yes"),
            check(false, Some(JournalChange::Repair), true)
        );
        assert_eq!(asked("check --clock x"), check(true, None, false));
        let lower = Some(JournalChange::LowerClock);
        assert_eq!(asked("check x --clock --lower-clock"), check(true, lower, false));
        let (from, to) = (Some(Index(2)), Some(Index(9)));
        let dump =
            |from, to, base| Some(Ok(ToolInvocation::Dump(Dump { dir: dir(), from, to, base })));
        assert_eq!(asked("dump x"), dump(None, None, false));
        assert_eq!(asked("dump --base --from 2 --to 9 x"), dump(from, to, true));
        assert_eq!(asked("check x --help"), Some(Ok(ToolInvocation::Help(CHECK_HELP))));
        assert_eq!(asked("dump -h"), Some(Ok(ToolInvocation::Help(DUMP_HELP))));
    }

    #[test]
    fn the_console_takes_options_of_the_server() {
        let line = asked("console x.conf --token --dir /data");
        let options = ["x.conf", "--dir", "/data"].map(str::to_owned).to_vec();
        let console = Console { options, token: true, no_open: false };
        assert_eq!(line, Some(Ok(ToolInvocation::Console(console))));
        assert_eq!(asked("console --help"), Some(Ok(ToolInvocation::Help(CONSOLE_HELP))));
    }

    #[test]
    fn a_cluster_is_founded_or_recovered() {
        let nodes = "--cluster-node n1 --cluster-nodes";
        let cluster = |recovers, has_others, yes| {
            let dir = PathBuf::from("x");
            let own = node_list("n1=h:1").unwrap().remove(0);
            Some(Ok(ToolInvocation::Cluster(Cluster { dir, recovers, own, has_others, yes })))
        };
        let line = format!("cluster found x {nodes} n1=h:1,n2=h:2 --yes");
        assert_eq!(asked(&line), cluster(false, true, true));
        let line = format!("cluster recover {nodes} n1=h:1 x --i-accept-losses");
        assert_eq!(asked(&line), cluster(true, false, false));
        let text = |line: &str| asked(line).expect("a tool").unwrap_err();
        assert!(text("cluster").contains("expected found, recover, dissolve or balance"));
        assert!(text("cluster lose x").contains("expected found, recover, dissolve or balance"));
        assert!(text("cluster balance").ends_with("is missing; see delayd cluster balance --help"));
        assert!(text(&format!("cluster recover x {nodes} n1=h:1")).contains("--i-accept-losses"));
        assert!(text(&format!("cluster found x {nodes} n2=h:1")).contains("n1 is not in"));
        assert!(text(&format!("cluster found x {nodes} n1")).contains("cluster-nodes"));
        assert!(text("cluster found x --cluster-node n1").contains("--cluster-nodes is missing"));
        assert_eq!(asked("cluster --help"), Some(Ok(ToolInvocation::Help(CLUSTER_HELP))));
    }

    #[test]
    fn a_backup_names_a_server_and_a_folder_and_no_password() {
        let place = Address::new("h", 9_248).unwrap();
        let server = |user: Option<&str>, file: Option<&str>| {
            let (user, password_file) = (user.map(str::to_owned), file.map(PathBuf::from));
            let access = Access { user, password_file, ..Access::default() };
            ServerAddress { place: place.clone(), access }
        };
        let backup = |server, from_leader| {
            Some(Ok(ToolInvocation::Backup(BackupArgs { server, dir: "d".into(), from_leader })))
        };
        assert_eq!(asked("backup h:9248 d"), backup(server(None, None), false));
        let line = "backup --user u h:9248 --password-file p d --from-leader";
        assert_eq!(asked(line), backup(server(Some("u"), Some("p")), true));
        let text = |line: &str| asked(line).expect("a tool").unwrap_err();
        assert!(text("backup").contains("HOST:PORT is missing"));
        assert!(text("backup h:1").contains("DIR is missing"));
        assert!(text("backup h d").contains("'h' is not host:port"), "{}", text("backup h d"));
        assert!(text("backup h:1 d e").contains("also got e"));
        assert!(text("backup h:1 d --password x").contains("unknown option '--password'"));
        assert!(text("backup h:1 d --sni x").contains("need --tls-ca-cert-file"));
        let tls = "backup h:1 d --tls-ca-cert-file c";
        assert!(text(&format!("{tls} --tls-key-file k")).contains("must be given together"));
        assert!(asked(tls).expect("a tool").is_ok());
    }

    #[test]
    fn a_backup_is_restored_for_a_server_or_for_a_first_node() {
        let own = || node_list("n1=h:1").unwrap().remove(0);
        let restore = |own, has_others| {
            let (dir, into) = ("x".into(), "y".into());
            Some(Ok(ToolInvocation::Restore(Restore { dir, into, own, has_others })))
        };
        assert_eq!(asked("restore x y"), restore(None, false));
        let line = "restore x y --cluster-node n1 --cluster-nodes n1=h:1,n2=h:2";
        assert_eq!(asked(line), restore(Some(own()), true));
        let dissolve = |accepts| {
            Some(Ok(ToolInvocation::Dissolve(Dissolve {
                dir: "x".into(),
                into: "y".into(),
                accepts,
            })))
        };
        assert_eq!(asked("cluster dissolve x y"), dissolve(false));
        assert_eq!(asked("cluster dissolve --i-accept-losses x y"), dissolve(true));
        let text = |line: &str| asked(line).expect("a tool").unwrap_err();
        assert!(text("restore x").contains("INTO is missing"));
        assert!(text("restore x y --cluster-node n1").contains("--cluster-nodes is missing"));
        assert!(text("restore x y --yes").contains("unknown option '--yes'"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |line| asked(line).expect("a tool").unwrap_err();
        assert_eq!(text("check"), "check: DIR is missing; see delayd check --help");
        assert!(text("check a b").contains("one DIR expected, got a and b"));
        assert!(text("check a --now").contains("unknown option '--now'"));
        assert!(text("check a --yes").contains("--yes needs --repair or --lower-clock"));
        assert!(text("check a --clock --yes").contains("--yes needs"));
        assert!(text("check a --repair --lower-clock").contains("cannot be combined"));
        assert!(text("dump a --from").contains("--from needs the number of a batch"));
        assert!(text("dump a --to 0").contains("--to 0: the number of a batch is expected"));
        assert!(text("dump a --from 5 --to 4").contains("--from 5 is after --to 4"));
    }

    #[test]
    fn help_fits_80_columns() {
        let newer = [call::HELP, demo::HELP, health::HELP, CONSOLE_HELP];
        for help in [CHECK_HELP, DUMP_HELP, CLUSTER_HELP, BACKUP_HELP, RESTORE_HELP, SPREAD_HELP]
            .iter()
            .chain(&newer)
        {
            let long = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None);
        }
    }
}
