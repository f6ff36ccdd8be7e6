//! Loading the journal on a thread of its own, while the server answers `LOADING`.

use crate::cluster::raft::member::EnginePosition;
use crate::engine::{Engine, Settings};
use crate::ids::Index;
use crate::journal::recovery::{Progress, ReadBase, Recovered};
use crate::journal::{Disk, JournalError};
use crate::limits::{LOADED_AT_ONCE, LOADING_LOG_US, RECOVERY_STACK_BYTES};
use crate::observe::persistence;
use crate::server::connection::wake::Notifier;
use crate::time::Micros;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The result. Every turn asks for it: with an engine by value each answer of *nothing yet*, and of *nothing is loaded*
/// for as long as the server runs, copied 41 KB.
pub type Loaded<T = Recovered<Disk>> = Result<Box<T>, JournalError>;

/// A journal being loaded: at a start to continue it, and on a node whose engine has lost facts, to get an engine
/// without them.
#[derive(Debug)]
pub struct Loading<T = Recovered<Disk>> {
    progress: Arc<Progress>,
    loaded: Receiver<Loaded<T>>,
    thread: Option<JoinHandle<()>>,
    /// When it began; monotonic, µs.
    pub began_us: u64,
    logged_us: u64,
}

impl<T: Send + 'static> Loading<T> {
    /// Begins to `load`, at `began_us` on the monotonic clock. `notifier` is rung when it is done.
    pub fn begin(
        load: impl FnOnce(&Progress) -> Loaded<T> + Send + 'static,
        notifier: Arc<Notifier>,
        began_us: u64,
    ) -> io::Result<Loading<T>> {
        let progress = Arc::<Progress>::default();
        let (sender, loaded) = channel();
        let shown = Arc::clone(&progress);
        let thread = std::thread::Builder::new().name("recovery".to_owned());
        // An engine is passed by value: in a build without optimizations some 2 MB of it were on the stack at once.
        let thread = thread.stack_size(RECOVERY_STACK_BYTES);
        let thread = thread.spawn(move || {
            let loaded = load(&shown);
            // The server may have stopped meanwhile.
            let _ = sender.send(loaded);
            notifier.notify();
        })?;
        Ok(Loading { progress, loaded, thread: Some(thread), began_us, logged_us: began_us })
    }

    /// Loads in this thread.
    pub fn at_once(
        load: impl FnOnce(&Progress) -> Loaded<T>,
        notifier: &Notifier,
        began_us: u64,
    ) -> Loading<T> {
        let (loading, sender) = Loading::by_hand(Arc::default(), began_us);
        let _ = sender.send(load(&loading.progress));
        notifier.notify();
        loading
    }

    /// The caller reports the progress.
    pub fn by_hand(progress: Arc<Progress>, began_us: u64) -> (Loading<T>, Sender<Loaded<T>>) {
        let (sender, loaded) = channel();
        let logged_us = began_us;
        (Loading { progress, loaded, thread: None, began_us, logged_us }, sender)
    }

    /// Waits a moment for a small journal.
    pub fn wait(&self) -> Option<Loaded<T>> {
        self.received(self.loaded.recv_timeout(LOADED_AT_ONCE))
    }

    /// The journal, if it has been loaded.
    pub fn loaded(&self) -> Option<Loaded<T>> {
        self.received(self.loaded.recv_timeout(Duration::ZERO))
    }

    /// How far it is, if it began at `began_s`.
    pub fn shown(&self, began_s: u64) -> persistence::Loading {
        let total_bytes = self.progress.total_bytes.load(Ordering::Relaxed);
        let loaded_bytes = self.progress.loaded_bytes.load(Ordering::Relaxed).min(total_bytes);
        persistence::Loading { began_s, total_bytes, loaded_bytes }
    }

    /// Tells the log how far it is, every now and then.
    pub fn log(&mut self, mono_us: u64) {
        if mono_us.saturating_sub(self.logged_us) >= LOADING_LOG_US {
            self.logged_us = mono_us;
            let shown = self.shown(0);
            let eta_s = shown.eta_s(mono_us.saturating_sub(self.began_us) / 1_000_000);
            let (loaded_mib, total_mib) = (shown.loaded_bytes >> 20, shown.total_bytes >> 20);
            let percent = shown.percent() as u64;
            tracing::info!(
                "loading the journal: {loaded_mib} of {total_mib} MiB ({percent} %), about {eta_s} s more"
            );
        }
    }

    pub fn cancel(&mut self) {
        self.progress.cancelled.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been logged, and nothing rests on what was loaded.
            let _ = thread.join();
        }
    }

    fn received(&self, received: Result<Loaded<T>, RecvTimeoutError>) -> Option<Loaded<T>> {
        match received {
            Ok(loaded) => Some(loaded),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                panic!("loading the journal met a bug in delayd; nothing was changed on disk")
            }
        }
    }
}

/// An engine that was read again from base and log.
#[derive(Debug)]
pub struct Reloaded {
    pub engine: Engine,
    /// How far it is.
    pub position: EnginePosition,
    /// The instant of its newest fact.
    pub last: Micros,
    /// The base from which that was.
    pub base: Option<ReadBase>,
}

/// Reads an engine from base and log up to an index, while the log is written.
pub type EngineReader =
    Arc<dyn Fn(Index, Settings, &Progress) -> Loaded<Reloaded> + Send + Sync + 'static>;
