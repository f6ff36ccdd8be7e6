//! CLIENT PAUSE: commands are kept back, and nothing changes meanwhile.

/// Whether commands are kept back, and whose.
#[derive(Debug, Default)]
pub struct Pauses {
    running: Option<Pause>,
    /// Clients whose commands are kept back.
    pub postponed_count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    /// Monotonic, µs.
    until_us: u64,
    writes_only: bool,
}

impl Pauses {
    /// Clients are paused from `mono_us` on, for `ms`; a pause that runs is over.
    pub fn begin(&mut self, ms: u64, writes_only: bool, mono_us: u64) {
        let until_us = mono_us.saturating_add(ms.saturating_mul(1_000));
        self.running = Some(Pause { until_us, writes_only });
    }

    /// The pause is over.
    pub fn end(&mut self) {
        self.running = None;
    }

    /// Ends the pause when its time has come.
    pub fn end_late(&mut self, mono_us: u64) {
        if self.until_us() <= mono_us {
            self.end();
        }
    }

    /// Whether a pause runs.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// If a pause runs: whether only commands that write are kept back.
    pub fn writes_only(&self) -> Option<bool> {
        self.running.map(|pause| pause.writes_only)
    }

    /// When the pause is over; monotonic, µs. Without one: never.
    pub fn until_us(&self) -> u64 {
        self.running.map_or(u64::MAX, |pause| pause.until_us)
    }
}
