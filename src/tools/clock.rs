//! `delayd check --clock` and `--lower-clock`

use super::check::{examine, exit, say, text};
use super::{Exit, confirmed};
use crate::ids::Index;
use crate::journal::offline::check::{Report, Verdict};
use crate::journal::offline::dump::written;
use crate::journal::offline::lower_clock::lower;
use crate::journal::{Disk, JournalError};
use crate::time::{Micros, Written};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

fn wall() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Micros(since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX)))
}

/// The journal's last instant and the wall clock: two lines.
pub fn compared(report: &Report) -> String {
    let (last, wall) = (report.now, wall());
    if report.index == Index(0) {
        return format!("clock    the wall clock is {}; there is no batch yet\n", written(wall));
    }
    let (instants, apart) =
        (format!("{}, the wall clock {}", written(last), written(wall)), |us: u64| {
            // To the second, where ms would only be read over.
            let ms = us.div_ceil(1_000);
            Written(if ms > 10_000 { ms / 1_000 * 1_000 } else { ms })
        });
    let verdict = match last.0.checked_sub(wall.0) {
        Some(ahead_us) if ahead_us > 0 => format!(
            "the journal is {} ahead: a server begins there and runs at half speed until the wall clock \
             has caught up; --lower-clock sets it",
            apart(ahead_us)
        ),
        _ => format!(
            "the journal is {} behind, as after a downtime: a server begins at the wall clock",
            apart(wall.0 - last.0)
        ),
    };
    format!("clock    the last instant is {instants}\n         {verdict}\n")
}

/// Takes the folder for itself and sets the journal's last instant to the wall clock, if that is earlier.
pub fn run(folder: &Path, yes: bool) -> Result<Exit, JournalError> {
    let disk = Arc::new(Disk::open(folder)?);
    let _lock = disk.lock()?;
    let report = examine(&disk);
    say(&text(&disk, &report, None));
    say(&compared(&report));
    if !matches!(report.verdict, Verdict::Good | Verdict::Torn(..)) {
        say("only a journal with which a server would start can be changed; nothing was changed\n");
        return exit(report.verdict, false);
    }
    let to = wall();
    if report.now <= to {
        say("it is not ahead; nothing was changed\n");
        return exit(report.verdict, false);
    }
    say(&format!(
        "\nThe clock will be set to {}, by a base of all data. Due times stay as they are, including\n\
         those that were counted from the wrong clock; so do UNIQUE windows and the retention of dead jobs.\n\
         Leases and pauses keep the time they had left. Tokens keep growing.\n",
        written(to)
    ));
    if !yes && !confirmed("set the clock?") {
        say("nothing was changed\n");
        return exit(report.verdict, false);
    }
    let was = lower(&disk, to)?;
    say(&format!("the clock is set from {} to {}\n\n", written(was), written(to)));
    let report = examine(&disk);
    say(&text(&disk, &report, None));
    say(&compared(&report));
    exit(report.verdict, false)
}
