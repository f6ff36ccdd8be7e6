//! What LATENCY and MEMORY STATS tell of the server.

use crate::observe::commands::up_to_us;
use crate::server::core::Core;
use crate::session::world::CallTimes;

impl Core {
    /// `World::histograms`.
    pub fn histograms(&self, names: &[&[u8]]) -> Vec<CallTimes> {
        let named = |name: &str| {
            let container = name.split('|').next().unwrap_or_default();
            let is = |asked: &&[u8]| {
                asked.eq_ignore_ascii_case(name.as_bytes())
                    || asked.eq_ignore_ascii_case(container.as_bytes())
            };
            names.is_empty() || names.iter().any(is)
        };
        let times = self.commands.times().into_iter().filter(|(name, _)| named(name));
        let shown = |(name, times)| {
            let up_to_us = up_to_us(times);
            CallTimes { name, calls: times.total(), up_to_us }
        };
        times.map(shown).collect()
    }

    /// `World::memory_stats`.
    pub fn memory_stats(&self) -> Vec<(&'static str, u64)> {
        let used = self.memory_bytes();
        vec![
            ("peak.allocated", self.memory_bytes_peak.max(used)),
            ("total.allocated", used),
            ("startup.allocated", 0),
            ("clients.normal", self.clients_bytes as u64),
            ("overhead.total", self.clients_bytes as u64),
            ("keys.count", self.engine.queue_counts().iter().sum()),
            ("dataset.bytes", self.engine.held_bytes()),
        ]
    }
}
