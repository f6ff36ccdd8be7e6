//! The log: lines on stderr.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// How the log's level is changed while the server runs.
#[derive(Clone, Debug, Default)]
pub struct LogLevel(Option<reload::Handle<LevelFilter, Registry>>);

impl LogLevel {
    /// Sets the level by Redis's word for it. Without a log of our own (in tests) nothing happens.
    pub fn set(&self, word: &str) {
        if let Some(handle) = &self.0
            && let Err(error) = handle.modify(|level| *level = filter(word))
        {
            tracing::warn!(%error, "the log's level does not change");
        }
    }
}

/// Sends the log of this process to stderr.
pub fn start(level: &str, json: bool) -> LogLevel {
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    if json {
        registry.with(lines.json().flatten_event(true)).init();
    } else {
        let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
        registry.with(lines.with_ansi(color)).init();
    }
    LogLevel(Some(handle))
}

fn filter(word: &str) -> LevelFilter {
    match word {
        "debug" => LevelFilter::TRACE,
        "verbose" => LevelFilter::DEBUG,
        "warning" => LevelFilter::WARN,
        _ => LevelFilter::INFO,
    }
}
