//! What LATENCY and MEMORY STATS tell of the server.

use crate::command::spec::action::Latency;
use crate::ids::ClientId;
use crate::observe::commands::up_to_us;
use crate::server::core::Core;

/// LATENCY.
pub fn write(core: &mut Core, client: ClientId, what: Latency<'_>) {
    match what {
        Latency::Histogram(names) => write_histograms(core, client, names),
    }
}

/// How long these commands took, or all that ran; a container stands for its subcommands.
fn write_histograms(core: &mut Core, client: ClientId, names: &[&[u8]]) {
    let named = |name: &str| {
        let container = name.split('|').next().unwrap_or_default();
        let is = |asked: &&[u8]| {
            asked.eq_ignore_ascii_case(name.as_bytes())
                || asked.eq_ignore_ascii_case(container.as_bytes())
        };
        names.is_empty() || names.iter().any(is)
    };
    let mut all = core.watch.commands.times();
    all.retain(|(name, _)| named(name));
    let mut out = core.outputs.encoder(client);
    out.map(all.len());
    for (name, times) in all {
        out.bulk(name.as_bytes());
        out.map(2);
        out.bulk(b"calls");
        out.unsigned(times.total());
        out.bulk(b"histogram_usec");
        let up_to_us = up_to_us(times);
        out.map(up_to_us.len());
        for (us, count) in up_to_us {
            out.unsigned(us);
            out.unsigned(count);
        }
    }
}

/// MEMORY STATS.
pub fn write_memory_stats(core: &mut Core, client: ClientId) {
    let used = core.memory_bytes();
    let stats = [
        ("peak.allocated", core.watch.memory_bytes_peak.max(used)),
        ("total.allocated", used),
        ("startup.allocated", 0),
        ("clients.normal", core.common.bytes as u64),
        ("overhead.total", core.common.bytes as u64),
        ("keys.count", core.engine.queue_counts().iter().sum()),
        ("dataset.bytes", core.engine.held_bytes()),
    ];
    let mut out = core.outputs.encoder(client);
    out.map(stats.len());
    for (name, value) in stats {
        out.bulk(name.as_bytes());
        out.unsigned(value);
    }
}
