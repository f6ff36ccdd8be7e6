//! A storage that loses, tears and reorders what was not synced, and fails where it is told to.

use delayd::journal::{File, Storage};
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk writes whole or not at all, most of the time.
const SECTOR: u64 = 512;

/// What happens at an operation that changes something: creating, removing, writing, allocating,
/// syncing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process dies in it: it may have happened in part, and so fails everything after it.
    Death,
    /// It fails, this once. Of a write a part may have happened.
    Error(ErrorKind),
}

#[derive(Debug)]
pub struct Lossy(Arc<Mutex<State>>);

#[derive(Debug)]
pub struct LossyFile {
    state: Arc<Mutex<State>>,
    file: usize,
}

#[derive(Clone, Default, Debug)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Not yet covered by a sync of the folder: a name and what it stands for from then on.
    changes: Vec<(String, Option<usize>)>,
    operations: u64,
    fault: Option<(u64, Fault)>,
    dead: bool,
    /// A read gives at most this many bytes, 0 for all.
    read_max: usize,
    reads: u64,
}

#[derive(Clone, Default, Debug)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Write>,
}

#[derive(Clone, Debug)]
enum Write {
    Bytes(u64, Vec<u8>),
    Size(u64),
}

impl Lossy {
    pub fn new() -> Arc<Lossy> {
        Arc::new(Lossy(Arc::default()))
    }

    /// A storage of these durable files.
    pub fn of(files: &BTreeMap<String, Vec<u8>>) -> Arc<Lossy> {
        let lossy = Lossy::new();
        for (name, bytes) in files {
            let mut state = lossy.state();
            let content =
                Content { now: bytes.clone(), durable: bytes.clone(), unsynced: Vec::new() };
            let file = state.files.len();
            state.files.push(content);
            state.names.insert(name.clone(), file);
            state.durable_names.insert(name.clone(), file);
        }
        lossy
    }

    /// All files as they are seen now.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(name, at)| (name.clone(), state.files[*at].now.clone())).collect()
    }

    /// The files of the log as they are seen now.
    pub fn segments(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.files();
        files.retain(|name, _| name.starts_with("segment-"));
        files
    }

    /// How many operations changed something, or tried to.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// How often something was read.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Lets the operation after `count` more of them meet a fault.
    pub fn fail_after(&self, count: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.operations + count, fault));
    }

    /// Reads give at most so many bytes.
    pub fn short_reads(&self, bytes: usize) {
        self.state().read_max = bytes;
    }

    /// The process died, the system did not: what was written is there, synced or not.
    pub fn kill(&self) -> Arc<Lossy> {
        let mut state = self.state().clone();
        (state.dead, state.fault, state.operations) = (false, None, 0);
        Arc::new(Lossy(Arc::new(Mutex::new(state))))
    }

    /// The power failed: of what was not synced anything may be there.
    pub fn crash(&self, rng: &mut SmallRng) -> Arc<Lossy> {
        // Each crash has its own character, so that rare cases come up together.
        let kept = [0.0, 0.1, 0.5, 0.9, 1.0][rng.random_range(0..5)];
        self.crash_keeping(|bytes| match rng.random_bool(0.5) {
            true if rng.random_bool(kept) => vec![0..bytes.end],
            true => Vec::new(),
            false => torn(bytes, kept, rng),
        })
    }

    /// The power failed: `keeps` says, for the range in its file of each unsynced write, in order,
    /// which parts are kept. Unsynced names are kept if the range `0..0` is.
    pub fn crash_keeping(
        &self,
        mut keeps: impl FnMut(std::ops::Range<u64>) -> Vec<std::ops::Range<u64>>,
    ) -> Arc<Lossy> {
        let mut state = self.state().clone();
        for content in &mut state.files {
            let mut bytes = std::mem::take(&mut content.durable);
            for write in content.unsynced.drain(..) {
                match write {
                    Write::Size(size) if !keeps(0..0).is_empty() => {
                        bytes.resize(bytes.len().max(size as usize), 0);
                    }
                    Write::Size(_) => {}
                    Write::Bytes(at, written) => {
                        let range = at..at + written.len() as u64;
                        for part in keeps(range.clone()) {
                            let (from, to) = (part.start.max(at), part.end.min(range.end));
                            if from < to {
                                let part = &written[(from - at) as usize..(to - at) as usize];
                                put(&mut bytes, from, part);
                            }
                        }
                    }
                }
            }
            content.durable = bytes.clone();
            content.now = bytes;
        }
        let changes = std::mem::take(&mut state.changes);
        for (name, file) in changes {
            if !keeps(0..0).is_empty() {
                rename(&mut state.durable_names, name, file);
            }
        }
        state.names = state.durable_names.clone();
        (state.dead, state.fault, state.operations) = (false, None, 0);
        Arc::new(Lossy(Arc::new(Mutex::new(state))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn handle(&self, file: usize) -> LossyFile {
        LossyFile { state: Arc::clone(&self.0), file }
    }
}

/// The sectors of a write that are kept, one of them perhaps in part.
fn torn(bytes: std::ops::Range<u64>, kept: f64, rng: &mut SmallRng) -> Vec<std::ops::Range<u64>> {
    if bytes.is_empty() {
        return if rng.random_bool(kept) { vec![bytes] } else { Vec::new() };
    }
    let sectors = bytes.start / SECTOR..=(bytes.end - 1) / SECTOR;
    let mut parts: Vec<_> = sectors
        .filter(|_| rng.random_bool(kept))
        .map(|sector| sector * SECTOR..(sector + 1) * SECTOR)
        .collect();
    if rng.random_bool(0.3) {
        let at = rng.random_range(bytes.clone());
        parts.push(if rng.random_bool(0.5) { bytes.start..at } else { at..bytes.end });
    }
    parts
}

fn put(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    content.resize(content.len().max(end), 0);
    content[at as usize..end].copy_from_slice(bytes);
}

fn rename(names: &mut BTreeMap<String, usize>, name: String, file: Option<usize>) {
    match file {
        Some(file) => names.insert(name, file),
        None => names.remove(&name),
    };
}

impl State {
    /// Counts an operation. Says whether it happens, happens in part and fails, or is not reached.
    fn meet(&mut self) -> Result<Option<io::Error>, io::Error> {
        if self.dead {
            return Err(io::Error::other("the process is dead"));
        }
        let operation = self.operations;
        self.operations += 1;
        match self.fault {
            Some((at, Fault::Death)) if at == operation => {
                self.dead = true;
                Ok(Some(io::Error::other("the process died")))
            }
            Some((at, Fault::Error(kind))) if at == operation => {
                Ok(Some(io::Error::new(kind, "a fault of the test")))
            }
            _ => Ok(None),
        }
    }

    fn change(&mut self, name: &str, file: Option<usize>) {
        rename(&mut self.names, name.to_owned(), file);
        self.changes.push((name.to_owned(), file));
    }

    fn read(&self) -> io::Result<()> {
        if self.dead { Err(io::Error::other("the process is dead")) } else { Ok(()) }
    }
}

impl Storage for Lossy {
    type File = LossyFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.read()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<LossyFile> {
        let mut state = self.state();
        let fault = state.meet()?;
        if state.names.contains_key(name) {
            // Segments are numbered so that this never happens.
            assert!(!name.starts_with("segment"), "{name} exists");
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = state.files.len();
        if fault.is_none() || state.dead {
            state.files.push(Content::default());
            state.change(name, Some(file));
        }
        drop(state);
        fault.map_or(Ok(self.handle(file)), Err)
    }

    fn open(&self, name: &str) -> io::Result<LossyFile> {
        let state = self.state();
        state.read()?;
        let file = *state.names.get(name).ok_or(ErrorKind::NotFound)?;
        drop(state);
        Ok(self.handle(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.meet()?;
        if fault.is_none() || state.dead {
            let file = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
            state.change(to, Some(file));
            state.change(from, None);
        }
        fault.map_or(Ok(()), Err)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.meet()?;
        if fault.is_none() || state.dead {
            if !state.names.contains_key(name) {
                // Of a base in place its name while it was written is gone.
                assert!(!name.starts_with("segment"), "{name} does not exist");
                return Err(ErrorKind::NotFound.into());
            }
            state.change(name, None);
        }
        fault.map_or(Ok(()), Err)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.meet()? {
            return Err(error);
        }
        state.changes.clear();
        state.durable_names = state.names.clone();
        Ok(())
    }
}

impl LossyFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn write(&self, mut write: Write) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.meet()?;
        if fault.is_some()
            && let Write::Bytes(at, bytes) = &mut write
        {
            // Half of it got through.
            bytes.truncate(bytes.len() / 2 + *at as usize % 2);
        }
        let content = &mut state.files[self.file];
        match &write {
            Write::Size(size) if fault.is_none() => {
                content.now.resize(content.now.len().max(*size as usize), 0);
            }
            Write::Size(_) => {}
            Write::Bytes(at, bytes) => put(&mut content.now, *at, bytes),
        }
        content.unsynced.push(write);
        fault.map_or(Ok(()), Err)
    }
}

impl File for LossyFile {
    fn bytes(&self) -> io::Result<u64> {
        let state = self.state();
        state.read()?;
        Ok(state.files[self.file].now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.reads += 1;
        state.read()?;
        let content = &state.files[self.file].now;
        let rest = &content[(at as usize).min(content.len())..];
        let max = if state.read_max == 0 { usize::MAX } else { state.read_max };
        let count = rest.len().min(buffer.len()).min(max);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write(Write::Bytes(at, bytes.to_vec()))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.write(Write::Size(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.meet()? {
            return Err(error);
        }
        let content = &mut state.files[self.file];
        content.durable = content.now.clone();
        content.unsynced.clear();
        Ok(())
    }
}
