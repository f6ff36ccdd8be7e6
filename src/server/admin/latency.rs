//! What LATENCY and MEMORY STATS tell of the server.

use crate::observe::commands::up_to_us;
use crate::server::core::Core;
use crate::session::world::CallTimes;

/// `World::histograms`.
pub fn histograms(core: &Core, names: &[&[u8]]) -> Vec<CallTimes> {
    let named = |name: &str| {
        let container = name.split('|').next().unwrap_or_default();
        let is = |asked: &&[u8]| {
            asked.eq_ignore_ascii_case(name.as_bytes())
                || asked.eq_ignore_ascii_case(container.as_bytes())
        };
        names.is_empty() || names.iter().any(is)
    };
    let times = core.watch.commands.times().into_iter().filter(|(name, _)| named(name));
    let shown = |(name, times)| {
        let up_to_us = up_to_us(times);
        CallTimes { name, calls: times.total(), up_to_us }
    };
    times.map(shown).collect()
}

/// `World::memory_stats`.
pub fn memory_stats(core: &Core) -> Vec<(&'static str, u64)> {
    let used = core.memory_bytes();
    vec![
        ("peak.allocated", core.watch.memory_bytes_peak.max(used)),
        ("total.allocated", used),
        ("startup.allocated", 0),
        ("clients.normal", core.common.bytes as u64),
        ("overhead.total", core.common.bytes as u64),
        ("keys.count", core.engine.queue_counts().iter().sum()),
        ("dataset.bytes", core.engine.held_bytes()),
    ]
}
