//! `delayd check`, `delayd dump`, `delayd cluster` and `delayd restore`: the journal checked, repaired, printed,
//! converted to a cluster's and restored from a backup, without a server. `delayd spread`: divided into partitions. `delayd backup`: a running server's state.
//! `delayd console`: the link to a running server's console. `delayd call`: a command for one; `delayd health`: whether it
//! accepts requests. `delayd demo`: a job arriving, on a server of its own.

mod access;
mod args;
mod backup;
mod balance;
mod call;
mod check;
mod client;
mod clock;
mod cluster;
mod console;
mod demo;
mod dump;
mod health;
mod place;
mod repair;
pub mod reply;
mod restore;
mod spread;
mod terminal;

pub use demo::{Serving, Start};

use crate::engine::model::request::JobState;
use crate::journal::JournalError;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// A tool's exit code. `--help` of each lists the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exit {
    /// In order.
    Good = 0,
    /// Not as it was asked for: a torn tail, which a start cuts by itself; a backup that was broken off and can be gone
    /// on with; an error for an answer.
    Failed = 1,
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

/// Says why a tool ends, and returns how.
fn failed(why: impl Display, exit: Exit) -> Exit {
    eprintln!("delayd: {why}");
    exit
}

/// Asks on a terminal; without one the answer is no.
fn confirmed(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        eprintln!("delayd: {question} There is no terminal to ask on: confirm with --yes.");
        return false;
    }
    check::say(&format!("{question} [yes/no] "));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).is_ok() && answer.trim() == "yes"
}

/// The exit code of what was done to a journal; an error is printed.
fn ended(tool: &str, done: Result<Exit, JournalError>) -> Exit {
    done.unwrap_or_else(|error| {
        eprintln!("delayd: {tool}: {error}");
        match error {
            JournalError::Damaged { .. } | JournalError::Gap { .. } => Exit::Damaged,
            _ => Exit::Unreadable,
        }
    })
}

/// What a journal or a backup has, a line each.
fn contents_text(jobs: [u64; 4], queues: u64, schedules: u64) -> String {
    format!("jobs     {}\nqueues   {queues}\nschedules {schedules}\n", jobs_text(jobs))
}

/// `5 delayed, 0 ready, 2 leased, 0 dead`
fn jobs_text(jobs: [u64; 4]) -> String {
    let words =
        JobState::ALL.iter().zip(jobs).map(|(state, jobs)| format!("{jobs} {}", state.word()));
    words.collect::<Vec<_>>().join(", ")
}

/// Runs the tool that the first argument after the program's name asks for; none if it is the name of
/// no tool, and a server is to run. `start` starts one in this process.
pub fn run(args: &[String], start: Start) -> Option<ExitCode> {
    let asked = args::read(args)?;
    let exit = match asked {
        Ok(args::ToolInvocation::Check(asked)) => check::run(&asked),
        Ok(args::ToolInvocation::Dump(asked)) => dump::run(&asked),
        Ok(args::ToolInvocation::Cluster(asked)) => cluster::run(&asked),
        Ok(args::ToolInvocation::Dissolve(asked)) => restore::dissolve(&asked),
        Ok(args::ToolInvocation::Balance(asked)) => balance::run(&asked),
        Ok(args::ToolInvocation::Backup(asked)) => backup::run(&asked),
        Ok(args::ToolInvocation::Restore(asked)) => restore::run(&asked),
        Ok(args::ToolInvocation::Spread(asked)) => spread::run(&asked),
        Ok(args::ToolInvocation::Console(asked)) => console::run(&asked),
        Ok(args::ToolInvocation::Call(asked)) => call::run(&asked),
        Ok(args::ToolInvocation::Demo(delay_ms)) => demo::run(delay_ms, start),
        Ok(args::ToolInvocation::Health(options)) => health::run(&options),
        Ok(args::ToolInvocation::Help(text)) => {
            // A reader that has seen enough, such as `head`, is no error.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            Exit::Good
        }
        Err(text) => failed(text, Exit::Usage),
    };
    Some(exit.into())
}
