//! `delayd check --repair`

use super::check::{examine, exit, say, text};
use super::{Exit, confirmed};
use crate::engine::model::fact::{Fact, FactReader};
use crate::ids::Index;
use crate::journal::base::BaseReader;
use crate::journal::offline::check::{Spot, Verdict};
use crate::journal::offline::dump::{Dump, DumpError, DumpNames, job_of};
use crate::journal::offline::repair::{Piece, behind, cut, missing, pieces};
use crate::journal::record::RecordKind;
use crate::journal::recovery::newest_base;
use crate::journal::{
    Disk, JournalError, LogOptions, LogReader, SegmentEntry, make_file, open_file, segment_name,
};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many of the jobs that a cut would lose facts of are named before it is made.
const JOBS_SHOWN: usize = 20;

/// The folder inside the cut's that has all facts that could be read.
const FACTS: &str = "facts.jsonl";
/// The details of the cut.
const STORY: &str = "cut.txt";

/// Takes the folder for itself, checks it, and cuts what is damaged or torn.
pub fn run(folder: &Path, yes: bool) -> Result<Exit, JournalError> {
    let disk = Arc::new(Disk::open(folder)?);
    let _lock = disk.lock()?;
    let report = examine(&disk);
    say(&text(&disk, &report, None));
    let (why, spot) = match &report.verdict {
        Verdict::Torn(cut, spot) => (cut.to_string(), spot),
        Verdict::Damaged(error, Some(spot)) => (error.to_string(), spot),
        Verdict::Damaged(_, None) => {
            say("this cannot be repaired by a cut; nothing was changed\n");
            return exit(report.verdict, false);
        }
        Verdict::Good | Verdict::Unreadable(_) => return exit(report.verdict, false),
    };
    let base = report.base;
    let losses = Losses::find(&disk, base, spot)?;
    say(&losses.text(spot));
    if !yes && !confirmed("cut the log there?") {
        say("nothing was changed\n");
        return exit(report.verdict, false);
    }
    let saved = save(&disk, base, spot, &why, &losses)?;
    cut(&disk, base, spot)?;
    say(&format!("cut; what it made void is in {}\n\n", saved.display()));
    let report = examine(&disk);
    say(&text(&disk, &report, None));
    exit(report.verdict, false)
}

/// The loss of a cut, as far as it can be read.
struct Losses {
    batches: u64,
    facts: u64,
    /// The first of them, a line each.
    jobs: Vec<String>,
    /// How many different ones there are.
    jobs_count: usize,
    /// The newest segment and the number of its first record, if it is not there.
    missing: Option<(String, u64)>,
    /// Names of queues as of the batch before.
    names: DumpNames,
}

impl Losses {
    fn find(disk: &Arc<Disk>, base: Index, spot: &Spot) -> Result<Losses, JournalError> {
        let names = names_before(disk, base, spot.index)?;
        let (batches, facts, jobs, jobs_count) = (0, 0, Vec::new(), 0);
        let missing = missing(&**disk, base)?;
        let mut losses = Losses { batches, facts, jobs, jobs_count, missing, names };
        let (mut seen, mut names) = (HashSet::new(), losses.names.clone());
        behind(&**disk, base, spot, &mut |entry| {
            losses.batches += 1;
            losses.facts += u64::from(entry.count);
            let facts = &mut FactReader::new(entry.body);
            while let (false, Ok(fact)) = (facts.is_done(), Fact::decode(facts)) {
                names.learn(&fact);
                let Some((queue, id)) = job_of(&fact, &names) else { continue };
                if seen.insert((queue, id.to_vec())) && losses.jobs.len() < JOBS_SHOWN {
                    let queue = match names.get(queue) {
                        Some((_, name)) => name.escape_ascii().to_string(),
                        None => format!("number {queue}"),
                    };
                    let (id, word) = (id.escape_ascii(), fact.word());
                    losses.jobs.push(format!("queue {queue}, job {id}: {word}"));
                }
            }
        })?;
        losses.jobs_count = seen.len();
        Ok(losses)
    }

    fn text(&self, spot: &Spot) -> String {
        let Losses { batches, facts, jobs, jobs_count, missing, .. } = self;
        let mut text = format!(
            "\nThe cut keeps everything up to batch {}. The rest is lost; as far as it can still be read:\n\
             {batches} batches with {facts} facts about {jobs_count} jobs{}\n",
            spot.index.0 - 1,
            if jobs.is_empty() { "." } else { ":" }
        );
        jobs.iter().for_each(|job| writeln!(text, "  {job}").expect("a String takes all"));
        if jobs.len() < *jobs_count {
            let more = jobs_count - jobs.len();
            writeln!(text, "  and {more} more").expect("a String takes all");
        }
        if let Some((name, first)) = missing {
            writeln!(
                text,
                "Also lost is everything in {name}, which is missing or has no complete header: the records\n\
                 from lsn {first} on, an unknown number. If you still have the file, put it back instead."
            )
            .expect("a String takes all");
        }
        text
    }
}

/// The names of queues as of the batch before `index`.
fn names_before(disk: &Arc<Disk>, base: Index, index: Index) -> Result<DumpNames, JournalError> {
    let mut names = DumpNames::default();
    if let Some(name) = newest_base(&**disk)? {
        let mut reader = BaseReader::open(&**disk, &name)?;
        while let Some(images) = reader.next_images()? {
            names.learn_images(images).expect("the check has read them");
        }
    }
    let mut reader = LogReader::open(Arc::clone(disk), LogOptions::default(), base)?;
    // It ends with the damage.
    while let Ok(Some(SegmentEntry { kind, index: at, body, .. })) = reader.next_batch() {
        if at >= index {
            break;
        }
        if kind != RecordKind::Facts {
            continue;
        }
        names.learn_facts(body).expect("the check has applied them");
    }
    Ok(names)
}

/// Copies the parts that the cut makes void to a folder of its own, durably, with their known
/// details.
fn save(
    disk: &Arc<Disk>,
    base: Index,
    spot: &Spot,
    why: &str,
    losses: &Losses,
) -> Result<PathBuf, JournalError> {
    let pieces = pieces(&**disk, base, spot)?;
    let folder = make_folder(disk.path())?;
    let name = folder.display().to_string();
    let copied = pieces.iter().try_for_each(|piece| copy(disk.path(), &folder, piece));
    copied
        .and_then(|()| write(&folder, STORY, |out| story(out, spot, why, losses, &pieces)))
        .and_then(|()| {
            write(&folder, FACTS, |out| facts(out, disk, base, spot, losses.names.clone()))
        })
        .and_then(|()| File::open(&folder)?.sync_all())
        .and_then(|()| File::open(disk.path())?.sync_all())
        .map_err(JournalError::io(&name, "save the data to be cut to"))?;
    Ok(folder)
}

/// `cut-<unix time>`, or of the next second that has none.
fn make_folder(journal: &Path) -> Result<PathBuf, JournalError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for second in now.. {
        let folder = journal.join(format!("cut-{second}"));
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(JournalError::io(&folder.display().to_string(), "create")(error));
            }
        }
    }
    unreachable!("seconds do not end")
}

fn copy(journal: &Path, folder: &Path, piece: &Piece) -> io::Result<()> {
    let mut from = open_file(&journal.join(&piece.file), OpenOptions::new().read(true))?;
    from.seek(SeekFrom::Start(piece.offset))?;
    let mut to = make_file(&folder.join(saved_name(piece)))?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()
}

fn saved_name(piece: &Piece) -> String {
    format!("{}.from-{}", piece.file, piece.offset)
}

fn write(
    folder: &Path,
    name: &str,
    what: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::new(make_file(&folder.join(name))?);
    what(&mut out)?;
    out.flush()?;
    out.get_ref().sync_all()
}

fn story(
    out: &mut impl Write,
    spot: &Spot,
    why: &str,
    losses: &Losses,
    pieces: &[Piece],
) -> io::Result<()> {
    writeln!(out, "The log of delayd was cut before batch {}, with", spot.index)?;
    writeln!(out, "delayd check --repair (version {}).\n", crate::VERSION)?;
    writeln!(out, "Why: {why}")?;
    writeln!(out, "Where: {} at offset {}", segment_name(spot.segment), spot.offset)?;
    writeln!(out, "{}", losses.text(spot))?;
    writeln!(out, "{FACTS} has all of these facts, as delayd dump writes them.\n")?;
    writeln!(out, "The bytes that the cut made void, as they were:")?;
    for piece in pieces {
        let Piece { file, offset, seed } = piece;
        let name = saved_name(piece);
        write!(out, "  {name}: {file} from offset {offset} to its end")?;
        match seed {
            Some((generation, salt)) => {
                writeln!(out, " (generation {generation}, salt {salt:#018x})")?;
            }
            None => writeln!(out, " (without a whole header)")?,
        }
    }
    Ok(())
}

fn facts(
    out: &mut impl Write,
    disk: &Arc<Disk>,
    base: Index,
    spot: &Spot,
    names: DumpNames,
) -> io::Result<()> {
    let mut dump = Dump::new(out, names);
    let mut written = Ok(());
    behind(&**disk, base, spot, &mut |entry| {
        if written.is_ok() {
            written = match dump.entry(entry) {
                // A batch that cannot be read as facts is saved only as its bytes.
                Err(DumpError::Output(error)) => Err(error),
                _ => Ok(()),
            };
        }
    })?;
    written
}
