//! Which errors a queue's deliveries failed with, how often, and how many jobs are dead because of each.
//!
//! The counts follow from the facts, so that every node and every restart has them. A queue lists at most
//! [`ERROR_KINDS_MAX`]: where one more comes, the rarest of them, of equals the one that was seen longest ago, is from then
//! on counted among the others. A flood of texts that are all different replaces only itself: what has been seen twice is
//! not the rarest.
//!
//! Which kind a dead job belongs to follows from the job: why it died, and the text of its last NACK. If its kind has
//! given way meanwhile, and even come back since, the job may be counted under the others when it leaves; the sum over all
//! stays right.

use crate::engine::model::errors::{CONNECTION_LOST, ErrorCount, NO_TEXT, TIMED_OUT};
use crate::engine::model::errors::{ErrorKindText, kind_of};
use crate::engine::model::reply::Reason;
use crate::engine::store::Store;
use crate::engine::store::jobs::{History, JobIndex};
use crate::engine::store::queue::{Queue, place_of};
use crate::engine::store::snapshot::record;
use crate::ids::QueueNo;
use crate::limits::{ERROR_KIND_BYTES_MAX, ERROR_KINDS_MAX, ERROR_SAMPLE_BYTES_MAX, LEVEL_ERRORS};
use crate::time::Millis;

/// Bytes counted for a kind in addition to its text.
const KIND_BYTES: u64 = size_of::<ErrorKind>() as u64 + 16;

// What one queue may take.
const _: () = assert!(
    ERROR_KINDS_MAX * (KIND_BYTES as usize + ERROR_KIND_BYTES_MAX) + size_of::<Errors>()
        <= 16 << 10
);

/// Bytes of memory, or of images, that a text given by a client takes at most.
pub const ERROR_KIND_ROOM: u64 = KIND_BYTES + ERROR_KIND_BYTES_MAX as u64;

/// Kinds that no client names, so that nothing can refuse them for lack of space: room for them, and for the others, is
/// kept from the beginning on.
const UNNAMED: [&[u8]; 3] = [NO_TEXT, TIMED_OUT, CONNECTION_LOST];
/// Bytes of the images of these.
pub const ERRORS_COMING_BYTES: u64 = 384;

/// The errors of a queue.
#[derive(Default, Debug)]
pub struct Errors {
    kinds: Vec<ErrorKind>,
    /// Those that are not listed.
    others: Failures,
    /// Of memory, and of images; and the part of these of kinds that no client names, and of the others.
    bytes: u64,
    image_bytes: u64,
    unnamed_image_bytes: u64,
}

#[derive(Debug)]
struct ErrorKind {
    /// Compared first.
    hash: u32,
    sample: SampleId,
    text: Box<[u8]>,
    failures: Failures,
}

#[derive(Clone, Copy, Default, Debug)]
struct Failures {
    count: u64,
    dead: u64,
    first: Millis,
    last: Millis,
}

/// An id that is not long.
#[derive(Clone, Copy, Debug)]
struct SampleId {
    len: u8,
    bytes: [u8; ERROR_SAMPLE_BYTES_MAX],
}

/// How a delivery failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedBy {
    Nack {
        /// It has a text, for which there is room.
        told: bool,
    },
    Timeout,
    Lost,
}

impl SampleId {
    const NONE: SampleId = SampleId { len: 0, bytes: [0; ERROR_SAMPLE_BYTES_MAX] };

    fn of(id: &[u8]) -> SampleId {
        let mut sample = SampleId::NONE;
        if let Some(room) = sample.bytes.get_mut(..id.len()) {
            room.copy_from_slice(id);
            sample.len = id.len() as u8;
        }
        sample
    }

    fn get(&self) -> Option<&[u8]> {
        (self.len > 0).then(|| &self.bytes[..usize::from(self.len)])
    }
}

impl Failures {
    fn add(&mut self, other: Failures) {
        self.count += other.count;
        self.dead += other.dead;
        self.first = if self.first.0 == 0 { other.first } else { self.first.min(other.first) };
        self.last = self.last.max(other.last);
    }

    fn shown<'a>(&self, text: Option<&'a [u8]>, sample: Option<&'a [u8]>) -> ErrorCount<'a> {
        let &Failures { count, dead, first, last } = self;
        ErrorCount { text, count, dead, first, last, sample }
    }
}

impl ErrorKind {
    fn shown(&self) -> ErrorCount<'_> {
        self.failures.shown(Some(&self.text), self.sample.get())
    }

    fn bytes(&self) -> u64 {
        KIND_BYTES + self.text.len() as u64
    }

    fn is_unnamed(&self) -> bool {
        UNNAMED.contains(&&*self.text)
    }
}

fn hash_of(text: &[u8]) -> u32 {
    crc32c::crc32c(text)
}

impl Errors {
    /// The kinds in no order, then the others, if there are any.
    pub fn all(&self) -> impl Iterator<Item = ErrorCount<'_>> {
        self.kinds.iter().map(ErrorKind::shown).chain(self.others())
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        size_of::<Errors>() as u64 + self.bytes
    }

    fn others(&self) -> Option<ErrorCount<'_>> {
        (self.others.count > 0).then(|| self.others.shown(None, None))
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let hash = hash_of(text);
        self.kinds.iter().position(|kind| kind.hash == hash && *kind.text == *text)
    }

    fn count(&mut self, text: &[u8], sample: Option<SampleId>, failures: Failures) {
        let at = self.find(text).unwrap_or_else(|| self.make(text));
        let kind = &mut self.kinds[at];
        kind.failures.add(failures);
        let Some(sample) = sample else { return };
        let (before, unnamed) = (std::mem::replace(&mut kind.sample, sample), kind.is_unnamed());
        self.grow(u64::from(sample.len), unnamed);
        self.shrink(u64::from(before.len), unnamed);
    }

    /// A kind of which nothing is counted, in the place of the rarest if there is no other.
    fn make(&mut self, text: &[u8]) -> usize {
        let (hash, sample) = (hash_of(text), SampleId::NONE);
        let kind = ErrorKind { hash, sample, text: text.into(), failures: Failures::default() };
        self.bytes += kind.bytes();
        self.grow(record::error_bytes(&kind.shown()), kind.is_unnamed());
        if self.kinds.len() < ERROR_KINDS_MAX {
            self.kinds.push(kind);
            return self.kinds.len() - 1;
        }
        let rareness = |kind: &ErrorKind| (kind.failures.count, kind.failures.last);
        let all = self.kinds.iter().enumerate();
        let (at, _) = all.min_by_key(|(_, kind)| rareness(kind)).expect("there are some");
        let gone = std::mem::replace(&mut self.kinds[at], kind);
        self.bytes -= gone.bytes();
        self.shrink(record::error_bytes(&gone.shown()), gone.is_unnamed());
        self.add_to_others(gone.failures);
        at
    }

    fn add_to_others(&mut self, failures: Failures) {
        let first = self.others.count == 0;
        self.others.add(failures);
        if first && let Some(others) = self.others() {
            let bytes = record::error_bytes(&others);
            self.grow(bytes, true);
        }
    }

    fn grow(&mut self, image_bytes: u64, unnamed: bool) {
        self.image_bytes += image_bytes;
        self.unnamed_image_bytes += image_bytes * u64::from(unnamed);
    }

    fn shrink(&mut self, image_bytes: u64, unnamed: bool) {
        self.image_bytes -= image_bytes;
        self.unnamed_image_bytes -= image_bytes * u64::from(unnamed);
    }

    fn leave_dead(&mut self, text: &[u8]) {
        let own = self.find(text).map(|at| &mut self.kinds[at].failures);
        let counted = own.filter(|failures| failures.dead > 0).unwrap_or(&mut self.others);
        // Those that died before errors were counted are in none.
        counted.dead = counted.dead.saturating_sub(1);
    }

    fn purge_dead(&mut self) {
        self.kinds.iter_mut().for_each(|kind| kind.failures.dead = 0);
        self.others.dead = 0;
    }
}

/// What a dead job died of: a text of NACK, or why there is none.
fn kind_of_death(reason: Reason, history: &History) -> ErrorKindText {
    match reason {
        Reason::Timeout => ErrorKindText::from_slice(TIMED_OUT),
        Reason::Lost => ErrorKindText::from_slice(CONNECTION_LOST),
        Reason::Attempts | Reason::Buried => kind_of_text(history),
    }
}

fn kind_of_text(history: &History) -> ErrorKindText {
    history.error().map_or_else(|| ErrorKindText::from_slice(NO_TEXT), kind_of)
}

impl Queue {
    /// By how much its errors can make its image larger, if no client names them.
    pub(super) fn coming_error_bytes(&self) -> u64 {
        let there = self.errors.as_ref().map_or(0, |errors| errors.unnamed_image_bytes);
        ERRORS_COMING_BYTES - there
    }

    /// Its kinds of errors, then the others, if there are any.
    pub fn error_counts(&self) -> impl Iterator<Item = ErrorCount<'_>> {
        self.errors.iter().flat_map(|errors| errors.all())
    }
}

impl Store {
    /// Whether a failure of the job counts under this kind: the one that it died of; of a job that is not dead any.
    pub fn counts_under(&self, index: JobIndex, kind: &[u8]) -> bool {
        let Some(history) = self.jobs.history(index) else { return false };
        match history.death() {
            Some((reason, _)) => *kind_of_death(reason, history) == *kind,
            None => {
                history.timeouts > 0 && kind == TIMED_OUT
                    || history.lost > 0 && kind == CONNECTION_LOST
                    || history.nacks > 0 && *kind_of_text(history) == *kind
            }
        }
    }

    /// A delivery has failed; the job may be dead of it.
    pub(super) fn count_error(
        &mut self,
        queue: QueueNo,
        index: JobIndex,
        by: FailedBy,
        at: Millis,
    ) {
        // Nodes that do not count would have other data.
        if self.leading.term > 0 && self.leading.level < LEVEL_ERRORS {
            return;
        }
        let Some(history) = self.jobs.history(index) else { return };
        let kind = match by {
            FailedBy::Nack { .. } => kind_of_text(history),
            FailedBy::Timeout => ErrorKindText::from_slice(TIMED_OUT),
            FailedBy::Lost => ErrorKindText::from_slice(CONNECTION_LOST),
        };
        let dead = u64::from(history.death().is_some());
        let failures = Failures { count: 1, dead, first: at, last: at };
        // Without a text it counts under the one before, whose image must not become larger.
        let fits = by != FailedBy::Nack { told: false } || *kind == *NO_TEXT;
        let sample = fits.then(|| SampleId::of(self.jobs.id(index)));
        self.change_errors(queue, |errors| errors.count(&kind, sample, failures));
    }

    /// A dead job leaves.
    pub(super) fn uncount_dead(&mut self, queue: QueueNo, index: JobIndex) {
        let Some(history) = self.jobs.history(index) else { return };
        let Some((reason, _)) = history.death() else { return };
        if self.queue(queue).errors.is_some() {
            let kind = kind_of_death(reason, history);
            self.change_errors(queue, |errors| errors.leave_dead(&kind));
        }
    }

    /// No job of the queue is dead any more.
    pub(super) fn uncount_all_dead(&mut self, queue: QueueNo) {
        if self.queue(queue).errors.is_some() {
            self.change_errors(queue, Errors::purge_dead);
        }
    }

    /// Loads what a base has of a kind, or of the others; false if it does not fit.
    pub(super) fn restore_error(&mut self, queue: QueueNo, of: &ErrorCount<'_>) -> bool {
        let &ErrorCount { text, count, dead, first, last, sample } = of;
        let errors = self.queue(queue).errors.as_deref();
        let known = match text {
            Some(text) => errors
                .is_some_and(|all| all.kinds.len() == ERROR_KINDS_MAX || all.find(text).is_some()),
            None => errors.is_some_and(|all| all.others.count > 0),
        };
        let long = text.is_some_and(|text| text.len() > ERROR_KIND_BYTES_MAX)
            || sample.is_some_and(|id| id.len() > ERROR_SAMPLE_BYTES_MAX);
        if known || long || count == 0 {
            return false;
        }
        let failures = Failures { count, dead, first, last };
        self.change_errors(queue, |errors| match text {
            Some(text) => errors.count(text, sample.map(SampleId::of), failures),
            None => errors.add_to_others(failures),
        });
        true
    }

    fn change_errors(&mut self, queue: QueueNo, change: impl FnOnce(&mut Errors)) {
        let (db, _) = place_of(queue);
        let of = self.queue_mut(queue);
        let sizes = |queue: &Queue| {
            let errors = queue.errors.as_deref();
            let own = errors.map_or((0, 0), |errors| (errors.bytes(), errors.image_bytes));
            (own, queue.coming_error_bytes())
        };
        let ((bytes_before, image_before), coming_before) = sizes(of);
        change(of.errors.get_or_insert_default());
        let ((bytes, image_bytes), coming) = sizes(of);
        of.image_bytes = of.image_bytes + image_bytes - image_before;
        let database = &mut self.databases[db];
        database.image_bytes = database.image_bytes + image_bytes - image_before;
        database.coming_image_bytes = database.coming_image_bytes + coming - coming_before;
        self.bytes = self.bytes + bytes - bytes_before;
    }
}
