//! `delayd check`, `delayd dump`, `delayd cluster` and `delayd restore`: the journal looked at, repaired, told, made a
//! cluster's and made of a backup, without a server. `delayd backup`: a running one's state. `delayd console`: the way into a
//! running one's console.

mod args;
mod backup;
mod check;
mod client;
mod clock;
mod cluster;
mod console;
mod dump;
mod place;
mod progress;
mod repair;
mod restore;
mod table;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// What a tool ends with. `--help` of each tells the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// In order.
    Good = 0,
    /// A torn tail, which a start cuts by itself; a backup that was broken off and can be gone on with.
    Torn = 1,
    /// Damage.
    Damaged = 2,
    /// It could not be found out.
    Unreadable = 3,
    /// The command line was not understood.
    Usage = 64,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Asks on a terminal; without one nobody has agreed.
fn confirmed(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        eprintln!(
            "delayd: {question} There is no terminal to ask on: --yes agrees to it beforehand."
        );
        return false;
    }
    check::say(&format!("{question} [yes/no] "));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).is_ok() && answer.trim() == "yes"
}

/// Runs the tool that the first argument after the program's name asks for; none if it is the name of
/// no tool, and a server is to run.
pub fn run(args: &[String]) -> Option<ExitCode> {
    let asked = args::read(args)?;
    let exit = match asked {
        Ok(args::Asked::Check(asked)) => check::run(&asked),
        Ok(args::Asked::Dump(asked)) => dump::run(&asked),
        Ok(args::Asked::Cluster(asked)) => cluster::run(&asked),
        Ok(args::Asked::Dissolve(asked)) => restore::dissolve(&asked),
        Ok(args::Asked::Backup(asked)) => backup::run(&asked),
        Ok(args::Asked::Restore(asked)) => restore::run(&asked),
        Ok(args::Asked::Console(asked)) => console::run(&asked),
        Ok(args::Asked::Help(text)) => {
            // A reader that has seen enough, such as `head`, is no error.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            Exit::Good
        }
        Err(text) => {
            eprintln!("delayd: {text}");
            Exit::Usage
        }
    };
    Some(exit.into())
}
