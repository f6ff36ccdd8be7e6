//! The command lines of the tools.

use crate::cluster::names::{Address, Listed, Name};
use crate::cluster::options::{node_list, node_name};
use crate::ids::Index;
use std::path::PathBuf;

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Asked {
    Check(Check),
    Dump(Dump),
    Cluster(Cluster),
    Dissolve(Dissolve),
    Backup(Backup),
    Restore(Restore),
    Console(Console),
    /// `--help` of one of them.
    Help(&'static str),
}

/// `delayd check`
#[derive(Debug, PartialEq)]
pub struct Check {
    /// The data directory, or the journal's folder in it.
    pub dir: PathBuf,
    /// Tells how the journal's last instant stands to the wall clock.
    pub clock: bool,
    pub change: Option<Change>,
    /// Without asking.
    pub yes: bool,
}

/// What `delayd check` can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
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
    /// Of a node whose others are lost; else of a server alone.
    pub recovers: bool,
    /// What the node is called from here on, and where others reach it.
    pub own: Listed,
    /// Others are to be members before anything is acknowledged.
    pub has_others: bool,
    /// Without asking.
    pub yes: bool,
}

/// `delayd cluster dissolve`
#[derive(Debug, PartialEq)]
pub struct Dissolve {
    /// The data directory of the last node, or the journal's folder in it.
    pub dir: PathBuf,
    /// The data directory of the server alone.
    pub into: PathBuf,
    /// Also of a node that had others, which may have more.
    pub accepts: bool,
}

/// A running server, and how it is spoken to.
#[derive(Debug, PartialEq)]
pub struct Server {
    pub place: Address,
    /// The default one without it.
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    /// Speaks TLS: whose certificates are taken.
    pub ca_cert_file: Option<PathBuf>,
    /// What is shown to a server that asks for it, with its key.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// The name that the server's certificate is for, if it is not its host's.
    pub sni: Option<String>,
}

/// `delayd backup`
#[derive(Debug, PartialEq)]
pub struct Backup {
    pub server: Server,
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
    /// Of the first node of a cluster: what it is called, and where others reach it.
    pub own: Option<Listed>,
    /// Others are to be members before anything is acknowledged.
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
Reads a journal as a start would and says what is in it. Changes nothing, and
may run beside a server; needs about as much memory as the server.

DIR is the data directory (option dir) or the journal's folder in it.

  --repair        if the log is damaged: saves what stands from the damage on
                  to cut-<unix time>/ in the journal's folder, then cuts the log
                  there, so that a server starts with all that was before it.
                  Not while a server runs.
  --clock         compares the journal's last instant with the wall clock: a
                  server begins at the later of them
  --lower-clock   sets the last instant to the wall clock if that is earlier,
                  after a server ran with a clock that was wrong. Due times stay
                  as they are. Not while a server runs.
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
nothing, and may run beside a server. docs/journal.md lists the fields.

DIR is the data directory (option dir) or the journal's folder in it.

  --from INDEX   begins with this batch; without it, behind the base
  --to INDEX     ends with this batch
  --base         writes first what the base holds: all queues and jobs

Exit codes:
   0  all was written; also if the log ends with a torn tail, or the reader of
      the output has seen enough
   2  damage: what stands before it was written
   3  cannot be read: no such directory, permission, unknown version
  64  the command line is wrong
";

const CLUSTER_HELP: &str = "\
Usage: delayd cluster (found | recover | dissolve) DIR ...
Makes what a journal holds the beginning of a new cluster with one member, or of
a server alone. Not while a server runs. Needs as much memory as the server, and
room for a base.

found DIR --cluster-node NAME --cluster-nodes LIST: from the journal of a server
alone. Start the node then with the same cluster-node and cluster-nodes, and the
others with empty folders: they are sent all there is. Nothing is lost. A server
alone does not open the folder any more.

recover DIR --cluster-node NAME --cluster-nodes LIST --i-accept-losses: from the
journal of a node of a cluster whose majority is lost for good. What that
majority had acknowledged and this node had not received is lost. All its log is
kept, committed or not; it says where it ends. It leads alone at once;
DELAY.CLUSTER ADD takes in others, with empty folders. The other nodes of the
old cluster must never be started again.

dissolve DIR INTO: from the journal of the last node of a cluster, from which
DELAY.CLUSTER REMOVE took all others, into the folder INTO, for a server alone.
Nothing is lost. DIR stays as it is; never start a node with it again.

DIR is the data directory (option dir) or the journal's folder in it. Of several
nodes that are left take the one whose log goes furthest: delayd check tells.

  --cluster-node NAME   as the option: what the node is called
  --cluster-nodes LIST  as the option: name=host:port, this node among them
  --i-accept-losses     recover does nothing without it; dissolve takes a node
                        that has other members only with it
  --yes                 found and recover do not ask before they change anything

Exit codes:
   0  done, and in order
   1  not done: it was not agreed to
   2  damage: a server would not start
   3  cannot be read, or is another's: permission, in use, of another kind
  64  the command line is wrong
";

const BACKUP_HELP: &str = "\
Usage: delayd backup HOST:PORT DIR [--user NAME] [--password-file FILE]
Fetches all jobs, queues, schedules and settings of the server at HOST:PORT, a
server alone or a node of a cluster, into the folder DIR, while it runs: the
state as of one batch, with all that was answered before. What has come is read
back and counted before it takes the place of an older backup in DIR. One that
was broken off goes on where it was when the same is said again.

The server sends no faster than its option cluster-sync-rate.

  --user NAME             the user, which needs +delay.backup; without it the
                          default one
  --password-file FILE    a file whose first line is the password; without it
                          the variable DELAYD_PASSWORD has it
  --tls-ca-cert-file FILE  speaks TLS, and takes a certificate of this authority
  --tls-cert-file FILE    the certificate that is shown to the server
  --tls-key-file FILE     its key
  --sni NAME              the name the server's certificate is for, if not HOST
  --from-leader           takes it from the node that leads, too, which a backup
                          from a follower leaves alone

Exit codes:
   0  the backup is whole
   1  it was broken off: the same again goes on with it
   2  what came is damaged; nothing of it is kept
   3  refused: no server there, a wrong password, a leader, no room for a base
  64  the command line is wrong
";

const RESTORE_HELP: &str = "\
Usage: delayd restore DIR INTO [--cluster-node NAME --cluster-nodes LIST]
Makes a server's folder INTO of the backup in DIR, which is read and checked as
a whole before anything is written. Start a server with the option dir INTO
then. Needs as much memory as the server, and room for a base.

With --cluster-node and --cluster-nodes it is the folder of the first node of a
new cluster. Start the others with empty folders: they are sent all there is.

What was done since the backup was made is lost: jobs that were done are there
again. What was leased then is ready again, and no token from before is taken.
Never start nodes of the cluster that it replaces again.

  --cluster-node NAME   as the option: what the node is called
  --cluster-nodes LIST  as the option: name=host:port, this node among them

Exit codes:
   0  done
   2  the backup is damaged: nothing was written
   3  not done: no backup in DIR, a journal in INTO, permission, no room
  64  the command line is wrong
";

const CONSOLE_HELP: &str = "\
Usage: delayd console [FILE] [--dir DIR] [--token] [--no-open]
Prints the link that leads into the console of the server running on this
machine while its default user has no password, and opens it where there is a
browser. It is read from DIR/console-link, which only the user that the server
runs as, and root, can do. Each start of the server makes a new one.

FILE is the server's file of options, if it has one: dir stands there.

  --dir DIR    as the option: the data directory; without it the current one
  --token      prints the token in it alone, as for Authorization: Bearer
  --no-open    opens no browser. One is opened if the output is a terminal and
               DISPLAY or WAYLAND_DISPLAY is set, by xdg-open, which other users
               of the machine can see with the link among the processes.

Exit codes:
   0  printed
   3  there is none: no such server runs, it has a password, or the file is
      another user's
  64  the command line is wrong
";

/// Reads the arguments after the program's name; none if the first is no tool's name.
pub fn read(args: &[String]) -> Option<Result<Asked, String>> {
    let (tool, rest) = args.split_first()?;
    let help = match tool.as_str() {
        "check" => CHECK_HELP,
        "dump" => DUMP_HELP,
        "cluster" => CLUSTER_HELP,
        "backup" => BACKUP_HELP,
        "restore" => RESTORE_HELP,
        "console" => CONSOLE_HELP,
        _ => return None,
    };
    if rest.iter().any(|arg| arg == "--help" || arg == "-h") {
        return Some(Ok(Asked::Help(help)));
    }
    let asked = match tool.as_str() {
        "check" => check(rest),
        "dump" => dump(rest),
        "console" => Ok(console(rest)),
        "backup" => backup(rest),
        "restore" => restore(rest),
        _ => cluster(rest),
    };
    Some(asked.map_err(|text| format!("{tool}: {text}; see delayd {tool} --help")))
}

fn check(args: &[String]) -> Result<Asked, String> {
    let (mut dir, mut clock, mut change, mut yes) = (None, false, None, false);
    for arg in args {
        let asked = match arg.as_str() {
            "--repair" => Change::Repair,
            "--lower-clock" => Change::LowerClock,
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
            return Err("--repair and --lower-clock are asked for one at a time".to_owned());
        }
    }
    if yes && change.is_none() {
        return Err("--yes goes with --repair or --lower-clock".to_owned());
    }
    let dir = dir.ok_or("DIR is missing")?;
    Ok(Asked::Check(Check { dir, clock, change, yes }))
}

fn dump(args: &[String]) -> Result<Asked, String> {
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
        return Err(format!("--from {from} is behind --to {to}"));
    }
    let dir = dir.ok_or("DIR is missing")?;
    Ok(Asked::Dump(Dump { dir, from, to, base }))
}

fn cluster(args: &[String]) -> Result<Asked, String> {
    let recovers = match args.first().map(String::as_str) {
        Some("found") => false,
        Some("recover") => true,
        Some("dissolve") => return dissolve(&args[1..]),
        _ => return Err("found, recover or dissolve is expected first".to_owned()),
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
        return Err("--i-accept-losses goes with recover, which does nothing without it".to_owned());
    }
    Ok(Asked::Cluster(Cluster { dir, recovers, own, has_others, yes }))
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

fn dissolve(args: &[String]) -> Result<Asked, String> {
    let (mut words, mut accepts) = (Vec::new(), false);
    for arg in args {
        match arg.as_str() {
            "--i-accept-losses" => accepts = true,
            _ => words.push(plain(arg)?),
        }
    }
    let [dir, into] = two(words, ["DIR", "INTO"])?;
    Ok(Asked::Dissolve(Dissolve { dir: dir.into(), into: into.into(), accepts }))
}

fn backup(args: &[String]) -> Result<Asked, String> {
    let (mut words, mut from_leader) = (Vec::new(), false);
    let (mut user, mut password_file, mut sni) = (None, None, None);
    let (mut ca_cert_file, mut cert_file, mut key_file) = (None, None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let option = arg.as_str();
        let mut value = || args.next().cloned().ok_or_else(|| format!("{option} needs a value"));
        match option {
            "--from-leader" => from_leader = true,
            "--user" => user = Some(value()?),
            "--sni" => sni = Some(value()?),
            "--password-file" => password_file = Some(value()?.into()),
            "--tls-ca-cert-file" => ca_cert_file = Some(value()?.into()),
            "--tls-cert-file" => cert_file = Some(value()?.into()),
            "--tls-key-file" => key_file = Some(value()?.into()),
            _ => words.push(plain(arg)?),
        }
    }
    let [place, dir] = two(words, ["HOST:PORT", "DIR"])?;
    let place = Address::parse(place).map_err(|wrong| wrong.to_string())?;
    if ca_cert_file.is_none() && (cert_file.is_some() || key_file.is_some() || sni.is_some()) {
        return Err(
            "--tls-cert-file, --tls-key-file and --sni go with --tls-ca-cert-file".to_owned()
        );
    }
    if cert_file.is_some() != key_file.is_some() {
        return Err("--tls-cert-file and --tls-key-file go together".to_owned());
    }
    let server = Server { place, user, password_file, ca_cert_file, cert_file, key_file, sni };
    Ok(Asked::Backup(Backup { server, dir: dir.into(), from_leader }))
}

fn restore(args: &[String]) -> Result<Asked, String> {
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
    Ok(Asked::Restore(Restore { dir, into, own, has_others }))
}

/// What is no option.
fn plain(arg: &str) -> Result<&str, String> {
    match arg.starts_with("--") {
        true => Err(format!("unknown option '{arg}'")),
        false => Ok(arg),
    }
}

fn two<'a>(words: Vec<&'a str>, names: [&str; 2]) -> Result<[&'a str; 2], String> {
    words.try_into().map_err(|words: Vec<&str>| match words.get(2) {
        Some(third) => format!("{} and {} are expected, got {third}, too", names[0], names[1]),
        None => format!("{} is missing", names[words.len()]),
    })
}

fn console(args: &[String]) -> Asked {
    let is = |word: &str| args.iter().any(|arg| arg == word);
    let (token, no_open) = (is("--token"), is("--no-open"));
    let own = |arg: &&String| !["--token", "--no-open"].contains(&arg.as_str());
    let options = args.iter().filter(own).cloned().collect();
    Asked::Console(Console { options, token, no_open })
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

    fn asked(line: &str) -> Option<Result<Asked, String>> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&args)
    }

    #[test]
    fn tools_are_told_from_the_server() {
        assert_eq!(asked(""), None);
        assert_eq!(asked("check.conf --port 7"), None);
        assert_eq!(asked("--port 7"), None);
        let dir = || PathBuf::from("x");
        let check =
            |clock, change, yes| Some(Ok(Asked::Check(Check { dir: dir(), clock, change, yes })));
        assert_eq!(asked("check x"), check(false, None, false));
        assert_eq!(asked("check --repair x --yes"), check(false, Some(Change::Repair), true));
        assert_eq!(asked("check --clock x"), check(true, None, false));
        let lower = Some(Change::LowerClock);
        assert_eq!(asked("check x --clock --lower-clock"), check(true, lower, false));
        let (from, to) = (Some(Index(2)), Some(Index(9)));
        let dump = |from, to, base| Some(Ok(Asked::Dump(Dump { dir: dir(), from, to, base })));
        assert_eq!(asked("dump x"), dump(None, None, false));
        assert_eq!(asked("dump --base --from 2 --to 9 x"), dump(from, to, true));
        assert_eq!(asked("check x --help"), Some(Ok(Asked::Help(CHECK_HELP))));
        assert_eq!(asked("dump -h"), Some(Ok(Asked::Help(DUMP_HELP))));
    }

    #[test]
    fn the_console_takes_options_of_the_server() {
        let line = asked("console x.conf --token --dir /data");
        let options = ["x.conf", "--dir", "/data"].map(str::to_owned).to_vec();
        let console = Console { options, token: true, no_open: false };
        assert_eq!(line, Some(Ok(Asked::Console(console))));
        assert_eq!(asked("console --help"), Some(Ok(Asked::Help(CONSOLE_HELP))));
    }

    #[test]
    fn a_cluster_is_founded_or_recovered() {
        let nodes = "--cluster-node n1 --cluster-nodes";
        let cluster = |recovers, has_others, yes| {
            let dir = PathBuf::from("x");
            let own = node_list("n1=h:1").unwrap().remove(0);
            Some(Ok(Asked::Cluster(Cluster { dir, recovers, own, has_others, yes })))
        };
        let line = format!("cluster found x {nodes} n1=h:1,n2=h:2 --yes");
        assert_eq!(asked(&line), cluster(false, true, true));
        let line = format!("cluster recover {nodes} n1=h:1 x --i-accept-losses");
        assert_eq!(asked(&line), cluster(true, false, false));
        let text = |line: &str| asked(line).expect("a tool").unwrap_err();
        assert!(text("cluster").contains("found, recover or dissolve is expected"));
        assert!(text("cluster lose x").contains("found, recover or dissolve is expected"));
        assert!(text(&format!("cluster recover x {nodes} n1=h:1")).contains("--i-accept-losses"));
        assert!(text(&format!("cluster found x {nodes} n2=h:1")).contains("n1 is not in"));
        assert!(text(&format!("cluster found x {nodes} n1")).contains("cluster-nodes"));
        assert!(text("cluster found x --cluster-node n1").contains("--cluster-nodes is missing"));
        assert_eq!(asked("cluster --help"), Some(Ok(Asked::Help(CLUSTER_HELP))));
    }

    #[test]
    fn a_backup_names_a_server_and_a_folder_and_no_password() {
        let place = Address::new("h", 9_248).unwrap();
        let server = |user: Option<&str>, file: Option<&str>| Server {
            place: place.clone(),
            user: user.map(str::to_owned),
            password_file: file.map(PathBuf::from),
            ca_cert_file: None,
            cert_file: None,
            key_file: None,
            sni: None,
        };
        let backup = |server, from_leader| {
            Some(Ok(Asked::Backup(Backup { server, dir: "d".into(), from_leader })))
        };
        assert_eq!(asked("backup h:9248 d"), backup(server(None, None), false));
        let line = "backup --user u h:9248 --password-file p d --from-leader";
        assert_eq!(asked(line), backup(server(Some("u"), Some("p")), true));
        let text = |line: &str| asked(line).expect("a tool").unwrap_err();
        assert!(text("backup").contains("HOST:PORT is missing"));
        assert!(text("backup h:1").contains("DIR is missing"));
        assert!(text("backup h d").contains("'h' is no host:port"), "{}", text("backup h d"));
        assert!(text("backup h:1 d e").contains("got e, too"));
        assert!(text("backup h:1 d --password x").contains("unknown option '--password'"));
        assert!(text("backup h:1 d --sni x").contains("go with --tls-ca-cert-file"));
        let tls = "backup h:1 d --tls-ca-cert-file c";
        assert!(text(&format!("{tls} --tls-key-file k")).contains("go together"));
        assert!(asked(tls).expect("a tool").is_ok());
    }

    #[test]
    fn a_backup_is_restored_for_a_server_or_for_a_first_node() {
        let own = || node_list("n1=h:1").unwrap().remove(0);
        let restore = |own, has_others| {
            let (dir, into) = ("x".into(), "y".into());
            Some(Ok(Asked::Restore(Restore { dir, into, own, has_others })))
        };
        assert_eq!(asked("restore x y"), restore(None, false));
        let line = "restore x y --cluster-node n1 --cluster-nodes n1=h:1,n2=h:2";
        assert_eq!(asked(line), restore(Some(own()), true));
        let dissolve = |accepts| {
            Some(Ok(Asked::Dissolve(Dissolve { dir: "x".into(), into: "y".into(), accepts })))
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
        assert!(text("check a --yes").contains("--yes goes with --repair or --lower-clock"));
        assert!(text("check a --clock --yes").contains("--yes goes with"));
        assert!(text("check a --repair --lower-clock").contains("one at a time"));
        assert!(text("dump a --from").contains("--from needs the number of a batch"));
        assert!(text("dump a --to 0").contains("--to 0: the number of a batch is expected"));
        assert!(text("dump a --from 5 --to 4").contains("--from 5 is behind --to 4"));
    }

    #[test]
    fn help_fits_80_columns() {
        for help in [CHECK_HELP, DUMP_HELP, CLUSTER_HELP, BACKUP_HELP, RESTORE_HELP] {
            assert!(help.lines().all(|line| line.chars().count() <= 80));
        }
    }
}
