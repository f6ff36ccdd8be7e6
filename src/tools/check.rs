//! `delayd check`

use super::args::{Check, JournalChange};
use super::{Exit, clock, contents_text, failed, place, repair};
use crate::config::folders;
use crate::ids::Index;
use crate::journal::offline::check::{FileReport, LogReport, Report, Use, Verdict, check};
use crate::journal::offline::dump::written;
use crate::journal::record::raft_state::{Members, Vote};
use crate::journal::{Disk, JournalError, NEWEST, Records, Storage, base, part_in, segment_number};
use crate::tools::terminal::Progress;
use crate::tools::terminal::{bytes, count, table};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// A journal smaller than this is read without a noticeable delay.
const PROGRESS_BYTES_MIN: u64 = 64 << 20;
/// How often a journal is read that a server changes meanwhile.
const READS_MAX: u32 = 5;

/// Checks, and changes what it is asked to. Of several partitions all are checked; one is changed at a time.
pub fn run(asked: &Check) -> Exit {
    match folders::count_in(&asked.dir) {
        Ok(Some(count)) if asked.change.is_none() => run_all(asked, count),
        Ok(_) => run_one(asked, &asked.dir),
        Err(error) => failed(error, Exit::Unreadable),
    }
}

/// The worst of what is found.
fn run_all(asked: &Check, count: u16) -> Exit {
    let (mut worst, mut bad) = (Exit::Good, Vec::new());
    for name in (0..count).map(folders::name_of) {
        let folder = asked.dir.join(&name);
        let exit = match folders::removed(&folder) {
            Ok(Some(_)) if !is_filled(&folder) => {
                let shown = folder.display();
                say(&format!(
                    "{shown}\n\nno journal: its node was removed from the partition's cluster\n"
                ));
                Exit::Good
            }
            _ => run_one(asked, &folder),
        };
        say("\n");
        worst = worst.max(exit);
        if exit != Exit::Good {
            bad.push(name);
        }
    }
    say(&match bad.len() {
        0 => format!("all {count} partitions are in order\n"),
        some => format!("not in order: {some} of {count} partitions: {}\n", bad.join(", ")),
    });
    worst
}

fn run_one(asked: &Check, dir: &Path) -> Exit {
    let exit = place::find(dir).and_then(|folder| match asked.change {
        Some(JournalChange::Repair) => repair::run(&folder, asked.yes),
        Some(JournalChange::LowerClock) => clock::run(&folder, asked.yes),
        None => {
            let disk = Arc::new(Disk::open_read_only(&folder)?);
            check_filled(&disk)?;
            let (report, user) = look(&disk);
            say(&text(&disk, &report, user.as_deref()));
            if asked.clock {
                say(&clock::compared(&report));
            }
            exit(report.verdict, user.is_some())
        }
    });
    exit.unwrap_or_else(|error| failed(error, Exit::Unreadable))
}

fn is_filled(dir: &Path) -> bool {
    let names = place::find(dir).and_then(|folder| Ok(Disk::open_read_only(&folder)?.list().ok()));
    names.is_ok_and(|names| names.into_iter().flatten().any(|name| is_of_content(&name)))
}

/// The file that names the newest segment is of a journal that had one.
fn is_of_content(name: &str) -> bool {
    segment_number(name).is_some() || base::index_of(name).is_some() || name == NEWEST
}

/// A lock alone, or part of a backup, is not a journal that is in order.
fn check_filled(disk: &Disk) -> Result<(), JournalError> {
    let name = disk.path().display().to_string();
    let names = disk.list().map_err(JournalError::io(&name, "read"))?;
    if names.iter().any(|name| is_of_content(name)) {
        return Ok(());
    }
    let text = match part_in(disk).map_err(JournalError::io(&name, "read"))? {
        Some(_) => {
            "it has no base and no log, only a part of one that was not received completely; if it is of a backup, run \
             delayd backup again to continue"
        }
        None => "it has no base and no log",
    };
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, text);
    Err(JournalError::io(&name, "check")(source))
}

/// Reads the journal and finds its user. Segments that a running server drops and reuses during the reading look like
/// damage: only damage found twice in a row counts.
fn look(disk: &Arc<Disk>) -> (Report, Option<String>) {
    let mut found = None;
    for read in 1.. {
        let before = disk.user();
        let mut report = examine(disk);
        let user = disk.user().or(before);
        let error = match &report.verdict {
            Verdict::Damaged(error, _) | Verdict::Unreadable(error) if user.is_some() => {
                error.to_string()
            }
            _ => return (report, user),
        };
        if found.as_ref() == Some(&error) {
            return (report, user);
        }
        if read == READS_MAX {
            let text = "a server changes it faster than it can be read; try again, or check a copy";
            let source = std::io::Error::new(std::io::ErrorKind::WouldBlock, text);
            let folder = disk.path().display().to_string();
            report.verdict = Verdict::Unreadable(JournalError::io(&folder, "check")(source));
            return (report, user);
        }
        found = Some(error);
    }
    unreachable!("the last read returns")
}

/// Reads the journal once, with a bar on a terminal.
pub fn examine(disk: &Arc<Disk>) -> Report {
    let mut progress = Progress::new();
    let report = check(disk, &mut |read, total| {
        if total >= PROGRESS_BYTES_MIN {
            progress.tell(read, total);
        }
    });
    progress.clear();
    report
}

/// Writes to stdout. A reader that has seen enough, such as `head`, is no error.
pub fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
}

/// The code of a verdict; `used` by a running server, which is about to write what seems torn.
pub fn exit(verdict: Verdict, used: bool) -> Result<Exit, JournalError> {
    match verdict {
        Verdict::Good => Ok(Exit::Good),
        Verdict::Torn(..) if used => Ok(Exit::Good),
        Verdict::Torn(..) => Ok(Exit::Failed),
        Verdict::Damaged(..) => Ok(Exit::Damaged),
        Verdict::Unreadable(error) => Err(error),
    }
}

pub fn text(disk: &Disk, report: &Report, user: Option<&str>) -> String {
    let mut text = format!("{}\n", disk.path().display());
    if let Some(user) = user {
        line(&mut text, &format!("in use by a server ({user}): the state when it was read"));
    }
    text.push('\n');
    let header = ["file", "gen", "batches", "records", "bytes"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.files.iter().map(row));
    text.push_str(&table(&rows));
    text.push('\n');
    text.push_str(&contents_text(report.jobs, report.queues, report.schedules));
    match report.index {
        Index(0) => line(&mut text, "newest   no batch yet"),
        newest => line(&mut text, &format!("newest   batch {newest}, {}", written(report.now))),
    }
    let (batches, facts) = report.replayed;
    let base = match report.base {
        Index(0) => "none".to_owned(),
        base => format!("up to batch {base}"),
    };
    line(
        &mut text,
        &format!("base     {base}; replayed after it: {batches} batches, {facts} facts"),
    );
    log(&mut text, &report.log);
    for notice in &report.notices {
        line(&mut text, &format!("notice   {notice}"));
    }
    verdict(&mut text, report, user.is_some());
    text
}

/// The log's information besides facts, including that of a member of a cluster.
fn log(text: &mut String, told: &LogReport) {
    let LogReport { last_lsn, records, state, uncommitted } = told;
    if *last_lsn == 0 {
        return;
    }
    let Records { facts, blanks, members, states, votes, cuts, void } = *records;
    let kinds = [
        (facts, "with facts"),
        (blanks, "blank"),
        (members, "of members"),
        (states, "states"),
        (votes, "votes"),
        (cuts, "cuts"),
        (void, "cut off"),
    ];
    let there = kinds.iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = there.map(|(count, what)| format!("{count} {what}")).collect();
    let epoch = state.last.epoch;
    line(text, &format!("log      up to lsn {last_lsn}, epoch {epoch}: {}", kinds.join(", ")));
    if let Some(Vote { epoch, node }) = state.vote {
        let candidate = if node == 0 { "no node".to_owned() } else { format!("node {node:016x}") };
        line(text, &format!("vote     in epoch {epoch} for {candidate}"));
    }
    if let Some(Members { epoch, index, body }) = state.members.last() {
        let bytes = body.len();
        line(text, &format!("members  of batch {index}, epoch {epoch}: {bytes} bytes"));
        let committed = state.committed;
        line(
            text,
            &format!(
                "commit   up to batch {committed}; {uncommitted} later ones are not known to be committed"
            ),
        );
    }
}

fn verdict(text: &mut String, report: &Report, used: bool) {
    match &report.verdict {
        Verdict::Good => line(text, "in order"),
        Verdict::Torn(cut, _) if used => {
            let (file, offset) = (&cut.file, cut.offset);
            line(text, &format!("in order; {file} is being written at offset {offset}"));
        }
        Verdict::Torn(cut, _) => {
            line(text, &format!("torn     {cut}"));
            line(text, "a server cuts it there when it starts: it was not acknowledged");
        }
        Verdict::Damaged(error, spot) => {
            line(text, &format!("damage   {error}"));
            line(text, "a server would not start");
            let Some(spot) = spot else { return };
            line(
                text,
                &format!(
                    "the figures above are as of batch {}; --repair cuts the log after it",
                    spot.index.0 - 1
                ),
            );
        }
        Verdict::Unreadable(_) => {}
    }
}

fn row(file: &FileReport) -> Vec<String> {
    let none = || "-".to_owned();
    let last = file.last.map_or_else(none, |index| index.to_string());
    let (read, batches) = match (file.used_as, file.first) {
        (Use::Base, _) => (true, format!("1-{last}")),
        (Use::OldBase, _) => (true, format!("old 1-{last}")),
        (Use::Log, Some(first)) if file.last.is_some() => (true, format!("{first}-{last}")),
        (Use::Log, first) => (true, format!("from {}", first.unwrap_or_default())),
        (Use::Unfinished, _) => (false, "unfinished".to_owned()),
        (Use::Used, _) => (false, "used up".to_owned()),
        (Use::Spare, _) => (false, "spare".to_owned()),
        (Use::Headless, _) => (false, "no header".to_owned()),
    };
    let counted = |number: u64| if read { count(number) } else { none() };
    vec![
        file.name.clone(),
        file.generation.map_or_else(none, |generation| generation.to_string()),
        batches,
        counted(file.records),
        bytes(file.bytes),
    ]
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a String takes all");
}
