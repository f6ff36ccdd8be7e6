//! `delayd backup`: fetches a base from a running server, goes on where it was broken off, and reads it back.

use super::args::BackupArgs;
use super::check::say;
use super::client::Client;
use super::place::is_of_journal;
use super::reply::Reply;
use super::{Exit, contents_text, failed};
use crate::journal::base;
use crate::journal::base::counted::BaseCounts;
use crate::journal::offline::dump::written;
use crate::journal::{BaseId, Disk, Incoming, JournalError, Offer, Storage, part_in};
use crate::tools::terminal::Progress;
use crate::tools::terminal::bytes;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// From one look whether the base is there to the next.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// The niceness of the process, 0 to 19.
const POLITE: i32 = 10;
/// From one question for a piece that was not read yet to the next.
const ASKS_EVERY: Duration = Duration::from_millis(2);
/// A server that gives no more of its base for so long has a disk that hangs.
const GIVES_WITHIN: Duration = Duration::from_secs(120);
/// An older part is not continued.
const CONTINUES_WITHIN: Duration = Duration::from_secs(3600);
/// How long another backup is waited for. A server notices only a moment later that a client was killed, and whoever runs
/// the same command again is not to be refused because of it.
const OTHER_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Why there is no backup.
enum NoBackup {
    /// There is a part, which the next call goes on with.
    BrokenOff(String),
    Damaged(JournalError),
    Refused(String),
}

impl NoBackup {
    fn of_folder(dir: &Path, action: &'static str) -> impl FnOnce(io::Error) -> NoBackup {
        let name = dir.display().to_string();
        move |error| NoBackup::Refused(JournalError::io(&name, action)(error).to_string())
    }
}

pub fn run(asked: &BackupArgs) -> Exit {
    // On a machine that also has a server requests go first: a million jobs are read back in a second of processor time.
    let _ = rustix::process::nice(POLITE);
    let (text, exit) = match take(asked) {
        Ok(()) => return Exit::Good,
        Err(NoBackup::BrokenOff(text)) => (
            text + "; the received data is kept: run the same command again to continue",
            Exit::Failed,
        ),
        Err(NoBackup::Damaged(error)) => (format!("{error}; nothing of it is kept"), Exit::Damaged),
        Err(NoBackup::Refused(text)) => (text, Exit::Unreadable),
    };
    failed(format_args!("backup: {text}"), exit)
}

fn take(asked: &BackupArgs) -> Result<(), NoBackup> {
    let dir = &asked.dir;
    let refused = |error: JournalError| NoBackup::Refused(error.to_string());
    let disk = Arc::new(Disk::open(dir).map_err(refused)?);
    check_folder(&disk)?;
    let _lock = disk.lock().map_err(refused)?;
    let mut client = Client::connect(&asked.server).map_err(NoBackup::Refused)?;
    let mut progress = Progress::with_lines();
    let part = part_to_continue(&disk).map_err(NoBackup::of_folder(dir, "read"))?;
    let (offer, jobs) = begin(&mut client, part, asked.from_leader, &mut progress)?;
    let incoming = Incoming::begin(&disk, offer, &|_| false);
    let mut incoming = incoming.map_err(NoBackup::of_folder(dir, "write to"))?;
    if incoming.bytes() > 0 {
        let received = bytes(incoming.bytes());
        eprintln!(
            "delayd: backup: continues after {received}: the state will be that of when the earlier command began; for a new \
             one remove {} first",
            offer.id().part_name()
        );
    }
    fetch(&mut client, offer, &mut incoming, &mut progress)?;
    progress.clear();
    // Whatever becomes of it here, the server need not keep it.
    let _ = client.ask(&[b"DELAY.BACKUP", b"END"]);
    let mut counted = BaseCounts::default();
    let arrived = incoming.finish(&mut |offset, images| counted.add(offset, images));
    let mut arrived = arrived.map_err(NoBackup::Damaged)?;
    let name = base::name_of(offer.index);
    counted.check(&name, jobs).map_err(NoBackup::Damaged)?;
    let kept = arrived.put_in_place(&*disk).and_then(|()| remove_others(&disk, &name));
    kept.map_err(NoBackup::of_folder(dir, "write to"))?;
    let (index, now) = (offer.index, written(arrived.now()));
    say(&format!("{}\n", dir.join(&name).display()));
    say(&format!("the state as of batch {index}, {now}\n"));
    say(&contents_text(counted.jobs, counted.queues, counted.schedules));
    let counted = if jobs.is_some() { ", and all jobs were counted" } else { "" };
    say(&format!("{} were read back{counted}\n", bytes(arrived.bytes())));
    Ok(())
}

/// What an earlier command has received, unless that was long ago: what is wanted now is a backup of now.
fn part_to_continue(disk: &Disk) -> io::Result<Option<BaseId>> {
    let Some(part) = part_in(disk)? else { return Ok(None) };
    let written = disk.path().join(part.part_name()).metadata()?.modified()?;
    let age = written.elapsed().unwrap_or_default();
    Ok(Some(part).filter(|_| age < CONTINUES_WITHIN))
}

/// A server's folder is no place for a backup, which would pass for its newest base.
fn check_folder(disk: &Disk) -> Result<(), NoBackup> {
    let (dir, names) =
        (disk.path(), disk.list().map_err(NoBackup::of_folder(disk.path(), "read"))?);
    match file_of_server(&names) {
        Some(name) => Err(NoBackup::Refused(format!(
            "{} is a server's folder, because it has {name}: choose another",
            dir.display()
        ))),
        None => Ok(()),
    }
}

/// What a server's folder has and a backup has not.
pub fn file_of_server(names: &[String]) -> Option<&String> {
    names.iter().find(|name| {
        *name == "journal"
            || (is_of_journal(name) && base::index_of(name).is_none() && *name != "lock")
    })
}

/// From another server, or from before a restore: one with a greater index would pass for the newest.
fn remove_others(disk: &Disk, kept: &str) -> io::Result<()> {
    for name in disk.list()? {
        if base::index_of(&name).is_some() && name != kept {
            disk.remove(&name)?;
        }
    }
    disk.sync_dir()
}

/// Waits until the server has a base that can be read.
fn begin(
    client: &mut Client,
    part: Option<BaseId>,
    from_leader: bool,
    progress: &mut Progress,
) -> Result<(Offer, Option<[u64; 4]>), NoBackup> {
    let part = part.map(|part| part.to_string());
    let mut words: Vec<&[u8]> = vec![b"DELAY.BACKUP", b"BEGIN"];
    words.extend(part.iter().flat_map(|part| [&b"PART"[..], part.as_bytes()]));
    words.extend(from_leader.then_some(&b"LEADER"[..]));
    let begun = Instant::now();
    let (mut last, mut given) = (None, begun);
    loop {
        let reply = client.ask(&words).map_err(|error| NoBackup::Refused(error.to_string()))?;
        if let Some(text) = reply.error() {
            if text.contains("a backup is in progress") && begun.elapsed() < OTHER_ENDS_WITHIN {
                sleep(LOOKS_EVERY);
                continue;
            }
            return Err(NoBackup::Refused(hinted(&text)));
        }
        let number = |name| reply.field(name).number();
        if reply.field("state").text() == Some("ready") {
            progress.clear();
            let id = reply.field("id").text().and_then(BaseId::read);
            let (Some(BaseId { index, salt }), Some(bytes)) = (id, number("bytes")) else {
                return Err(NoBackup::Refused("the server's answer cannot be read".to_owned()));
            };
            return Ok((Offer { index, salt, bytes }, jobs(reply.field("jobs"))));
        }
        let written = number("written");
        // Nothing, while the server writes another base first.
        if written.is_none() || written != last {
            (last, given) = (written, Instant::now());
        }
        if let Some(at) = written.filter(|_| given.elapsed() > GIVES_WITHIN) {
            return Err(NoBackup::Refused(stopped("has written no more of its base", at)));
        }
        if let (Some(written), Some(bytes)) = (written, number("bytes")) {
            progress.tell(written, bytes);
        }
        sleep(LOOKS_EVERY);
    }
}

fn stopped(what: &str, at: u64) -> String {
    let (after, seconds) = (bytes(at), GIVES_WITHIN.as_secs());
    format!(
        "the server {what} after {after} for {seconds} s: its disk may hang; another node may have a healthy one"
    )
}

fn hinted(text: &str) -> String {
    match text.contains("add LEADER") {
        true => text.replace("add LEADER", "add --from-leader"),
        false => text.to_owned(),
    }
}

fn jobs(reply: &Reply) -> Option<[u64; 4]> {
    let counts: Option<Vec<u64>> = reply.items().iter().map(Reply::number).collect();
    counts?.try_into().ok()
}

fn fetch(
    client: &mut Client,
    offer: Offer,
    incoming: &mut Incoming<Disk>,
    progress: &mut Progress,
) -> Result<(), NoBackup> {
    let id = offer.id().to_string();
    let mut given = Instant::now();
    while !incoming.is_whole() {
        let offset = incoming.bytes().to_string();
        let words = [&b"DELAY.BACKUP"[..], b"READ", id.as_bytes(), offset.as_bytes()];
        let reply = client.ask(&words).map_err(|error| NoBackup::BrokenOff(error.to_string()))?;
        match reply {
            Reply::Text(piece) if !piece.is_empty() => {
                let began = Instant::now();
                incoming.write(&piece).map_err(|error| NoBackup::BrokenOff(error.to_string()))?;
                given = Instant::now();
                progress.tell(incoming.bytes(), offer.bytes);
                // It may be the disk of a server, whose log goes first.
                base::rest_after(began);
            }
            Reply::Nil if given.elapsed() > GIVES_WITHIN => {
                let text = stopped("could not read more of its base", incoming.bytes());
                return Err(NoBackup::BrokenOff(text));
            }
            Reply::Nil => sleep(ASKS_EVERY),
            reply => {
                let short = || "the base is shorter than announced".to_owned();
                return Err(NoBackup::BrokenOff(reply.error().unwrap_or_else(short)));
            }
        }
    }
    Ok(())
}
