//! The command lines of the tools.

use crate::ids::Index;
use std::path::PathBuf;

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Asked {
    Check(Check),
    Dump(Dump),
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

/// Reads the arguments after the program's name; none if the first is no tool's name.
pub fn read(args: &[String]) -> Option<Result<Asked, String>> {
    let (tool, rest) = args.split_first()?;
    let help = match tool.as_str() {
        "check" => CHECK_HELP,
        "dump" => DUMP_HELP,
        _ => return None,
    };
    if rest.iter().any(|arg| arg == "--help" || arg == "-h") {
        return Some(Ok(Asked::Help(help)));
    }
    let asked = if tool == "check" { check(rest) } else { dump(rest) };
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
        for help in [CHECK_HELP, DUMP_HELP] {
            assert!(help.lines().all(|line| line.chars().count() <= 80));
        }
    }
}
