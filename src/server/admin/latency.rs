//! What LATENCY and MEMORY STATS tell of the server.

use crate::observe::commands::up_to_us;
use crate::server::core::Core;
use crate::session::latency::{CallTimes, LatestEvent};

impl Core {
    /// `World::latency_latest`.
    pub fn latency_latest(&self) -> Vec<LatestEvent> {
        let events = self.latency.iter().filter_map(|(event, series)| {
            let last = series.samples.back()?;
            let (at_s, took_ms) = (last.at_s, last.took_ms);
            Some(LatestEvent { event, at_s, took_ms, max_ms: series.max_ms })
        });
        events.collect()
    }

    /// `World::latency_history`.
    pub fn latency_history(&self, event: &[u8]) -> Vec<(u64, u64)> {
        let series = self.latency.series(event);
        let samples = series.into_iter().flat_map(|series| &series.samples);
        samples.map(|sample| (sample.at_s, sample.took_ms)).collect()
    }

    /// `World::latency_graph`.
    pub fn latency_graph(&self, event: &[u8]) -> Option<String> {
        self.latency.graph(event, self.clock.now_s())
    }

    /// `World::latency_doctor`.
    pub fn latency_doctor(&self) -> String {
        let threshold_ns = self.limits.latency_ns;
        let off = threshold_ns == u64::MAX;
        self.latency.doctor(if off { 0 } else { threshold_ns / 1_000_000 })
    }

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
