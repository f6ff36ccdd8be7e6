//! `delayd check` and `delayd dump`: the journal looked at, repaired and told without a server.

mod args;
mod check;
mod dump;
mod place;
mod repair;
mod table;

use std::process::ExitCode;

/// What a tool ends with. `--help` of each tells the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// In order.
    Good = 0,
    /// A torn tail, which a start cuts by itself.
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

/// Runs the tool that the first argument after the program's name asks for; none if it is the name of
/// no tool, and a server is to run.
pub fn run(args: &[String]) -> Option<ExitCode> {
    let asked = args::read(args)?;
    let exit = match asked {
        Ok(args::Asked::Check(asked)) => check::run(&asked),
        Ok(args::Asked::Dump(asked)) => dump::run(&asked),
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
