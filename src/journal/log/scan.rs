//! Finds the segments of a log and their order.

use crate::ids::Index;
use crate::journal::error::JournalError;
use crate::journal::log::newest_file::{self, NEWEST};
use crate::journal::log::segment::{Segment, Spare, segment_name, segment_number};
use crate::journal::record::header::{FILE_VERSION, FoundHeader, HEADER_BYTES, Header, Magic};
use crate::journal::storage::{File, Storage};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::journal) struct Files<S: Storage> {
    /// Those with batches after the base, of a node all, oldest first; the last one may be empty.
    pub segments: VecDeque<Segment<S::File>>,
    /// All others: never used, covered by the base, or void.
    pub idle: Vec<Spare<S>>,
    /// The greatest one of any header, or that is noted.
    pub generation: u64,
    /// The newest segment, by its number and the `lsn` of its first record, if no segment is that new.
    pub missing: Option<(u64, u64)>,
    /// Above the numbers of all files.
    pub numbers_from: u64,
    /// Those of the idle ones that have no whole header, though they are not empty.
    pub headless: Vec<u64>,
    /// Notices for an operator.
    pub notices: Vec<String>,
}

/// Finds the segments after batch `after`.
pub(in crate::journal) fn scan<S: Storage>(
    storage: &S,
    shard: u16,
    after: Index,
) -> Result<Files<S>, JournalError> {
    let (mut used, mut files) = (Vec::new(), Files::empty());
    // Before the headers: a server that writes meanwhile only makes newer ones.
    let noted = newest_file::read(storage).map_err(JournalError::io(NEWEST, "read"))?;
    let names = storage.list().map_err(JournalError::io("the log", "list its files"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    for number in numbers {
        files.numbers_from = number + 1;
        let name = segment_name(number);
        let io = |action| JournalError::io(&name, action);
        let file = storage.open(&name).map_err(io("open"))?;
        let bytes = file.bytes().map_err(io("get its size"))?;
        let mut block = vec![0; HEADER_BYTES as usize];
        let filled = file.read_full(&mut block, 0).map_err(io("read"))?;
        match Header::decode(&block[..filled], Magic::Segment) {
            // No crash shortens a file, and a spare is durable before its header is written.
            FoundHeader::Header(_) if filled < block.len() => {
                let what = "it ends within its header".to_owned();
                return Err(JournalError::Damaged { file: name, offset: filled as u64, what });
            }
            FoundHeader::Header(header) => {
                check_shard(&name, &header, shard)?;
                let mut segment = Segment::new(number, Arc::new(file), header, bytes);
                segment.learn().map_err(io("read"))?;
                used.push(segment);
            }
            FoundHeader::Version(found) => {
                return Err(JournalError::Version { file: name, found, known: FILE_VERSION });
            }
            found => {
                if found != FoundHeader::Zeros {
                    files.headless.push(number);
                    files.notices.push(format!(
                        "{name}: no complete header at offset 0; nothing before or after it is missing, so it counts \
                         as never used"
                    ));
                }
                files.idle.push(Spare { number, file: Arc::new(file), bytes });
            }
        }
    }
    files.order(used, after)?;
    if let Some(noted) = noted.filter(|noted| noted.generation > files.generation) {
        files.generation = noted.generation;
        // If the file turns up again, it can be put back next to the new files.
        files.numbers_from = files.numbers_from.max(noted.bytes.saturating_add(1));
        files.missing = Some((noted.bytes, noted.first));
    }
    Ok(files)
}

impl<S: Storage> Files<S> {
    fn empty() -> Files<S> {
        Files {
            segments: VecDeque::new(),
            idle: Vec::new(),
            generation: 0,
            missing: None,
            numbers_from: 1,
            headless: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Tells the segments that are needed from the others. A segment makes void everything with the `lsn` of its first
    /// record or a later one in segments of lower generation: from the newest to the oldest, each must begin before all
    /// later ones. A standalone server does not need segments before one whose state says that the base covers them;
    /// from a node's log other nodes may need them.
    fn order(&mut self, mut used: Vec<Segment<S::File>>, after: Index) -> Result<(), JournalError> {
        used.sort_by_key(|segment| segment.header.generation);
        if let Some(pair) =
            used.windows(2).find(|p| p[0].header.generation == p[1].header.generation)
        {
            let what = format!(
                "it is of the same generation, {}, as {}: one of them is a copy",
                pair[1].header.generation,
                pair[0].name()
            );
            return Err(JournalError::Damaged { file: pair[1].name(), offset: 0, what });
        }
        self.generation = used.last().map_or(0, |segment| segment.header.generation);
        // The first segment of all was begun before it was known.
        let is_of_node = used.iter().any(|segment| segment.is_of_node);
        // A node's log records itself what it has dropped.
        let log_from = used.iter().map(|segment| segment.log_from).max().unwrap_or_default();
        let needed_from = if is_of_node { log_from.next() } else { after.next() };
        for segment in used.into_iter().rev() {
            match self.segments.front() {
                // All of this one is void.
                Some(next) if segment.first() >= next.first() => self.idle(segment),
                // The one after it begins at or before the first batch needed.
                Some(next) if next.first_batch().is_some_and(|first| first <= needed_from) => {
                    self.idle(segment);
                }
                _ => self.segments.push_front(segment),
            }
        }
        let Some(oldest) = self.segments.front() else { return Ok(()) };
        match oldest.first_batch() {
            Some(first) if first > after.next() => {
                Err(JournalError::Gap { file: oldest.name(), first, after })
            }
            // The first segment of all, whose state was lost in a crash.
            None if oldest.first() == 1 => Ok(()),
            None => {
                let what = "the state that it begins with is missing, and so is the data before it";
                let (file, offset) = (oldest.name(), HEADER_BYTES);
                Err(JournalError::Damaged { file, offset, what: what.to_owned() })
            }
            Some(_) => Ok(()),
        }
    }

    /// The oldest ones are not needed.
    pub fn give_up(&mut self, count: usize) {
        for segment in self.segments.drain(..count).collect::<Vec<_>>() {
            self.idle(segment);
        }
    }

    fn idle(&mut self, segment: Segment<S::File>) {
        let Segment { number, file, bytes, .. } = segment;
        self.idle.push(Spare { number, file, bytes });
    }
}

fn check_shard(name: &str, header: &Header, shard: u16) -> Result<(), JournalError> {
    if header.shard == shard {
        return Ok(());
    }
    let what = format!("it belongs to shard {}, not {shard}", header.shard);
    Err(JournalError::Damaged { file: name.to_owned(), offset: 10, what })
}
