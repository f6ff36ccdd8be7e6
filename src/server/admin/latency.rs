//! LATENCY's, SLOWLOG's and MEMORY STATS's data about the server.

use crate::ids::ClientId;
use crate::observe::commands::up_to_us;
use crate::server::core::Core;

/// The durations of these commands, or of all that ran; a container selects its subcommands.
pub fn write_histograms(core: &mut Core, client: ClientId, names: &[&[u8]]) {
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
        out.field(name).map(2);
        out.field("calls").unsigned(times.total());
        let up_to_us = up_to_us(times);
        out.field("histogram_usec").map(up_to_us.len());
        for (us, count) in up_to_us {
            out.unsigned(us);
            out.unsigned(count);
        }
    }
}

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
        out.field(name).unsigned(value);
    }
}

/// SLOWLOG GET: the newest `count` entries, newest first.
pub fn write_slowlog(core: &mut Core, client: ClientId, count: usize) {
    let mut out = core.outputs.encoder(client);
    let log = &core.watch.slow_log;
    out.array(log.len().min(count));
    for entry in log.newest(count) {
        out.array(6);
        out.unsigned(entry.id);
        out.unsigned(entry.at_s);
        out.unsigned(entry.took_us);
        out.bulks(entry.args.iter());
        out.bulk(entry.addr.as_bytes());
        out.bulk(&entry.name);
    }
}
