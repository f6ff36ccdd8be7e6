//! All counts, gathered from all over the server, and INFO's text.

use crate::config::options::Name;
use crate::engine::observe::survey::Oldest;
use crate::observe::info::{self, About};
use crate::observe::snapshot::{Snapshot, ZonesFrom};
use crate::server::core::Core;
use crate::server::observe::machine;
use crate::server::observe::zones;
use crate::server::siblings::Siblings;
use std::path::PathBuf;

pub fn info(core: &Core, clients: usize, sections: &[&[u8]]) -> String {
    let about = about(core);
    info::render(&about, &snapshot(core, clients), sections)
}

/// INFO's text on the port that answers as a Sentinel; `master` is what that says of the leader.
pub fn info_of_sentinel(core: &Core, clients: usize, sections: &[&[u8]], master: String) -> String {
    let port = core.sentinel.port.unwrap_or(0);
    let about = About { tcp_port: port, sentinel: Some(master), ..about(core) };
    info::render(&about, &snapshot(core, clients), sections)
}

fn about(core: &Core) -> About<'_> {
    let config = &core.options.config;
    let shown = |path: &PathBuf| path.display().to_string();
    About {
        os: machine::os(),
        process_id: std::process::id(),
        run_id: &core.process.run_id,
        tcp_port: core.process.port,
        uptime_s: core.clock.uptime_s(),
        executable: std::env::current_exe().as_ref().map_or(String::new(), shown),
        config_file: config.file.as_ref().map_or(String::new(), shown),
        memory_bytes_machine: config.machine_bytes,
        fsync: config.text(Name::AppendFsync),
        allocator: &core.process.allocator,
        clustered: core.options.limits.clustered,
        partition: (config.partition, config.partitions()),
        supervised: core.process.supervised,
        thread_processor_s: machine::thread_processor_s(),
        sentinel: None,
    }
}

pub fn snapshot(core: &Core, clients: usize) -> Snapshot {
    let Core { engine, clock, messages, durability, common, options, watch, .. } = core;
    let denials = core.users.acl.denials;
    Snapshot {
        now_us: clock.now.0,
        start_us: clock.start.0,
        queues: engine.queue_counts(),
        jobs: engine.job_counts(),
        waiters: engine.waiter_count() as u64,
        deadlines: engine.deadline_count() as u64,
        awaited: engine.awaited_count() as u64,
        journal_waiters: durability.waits.count() as u64,
        oldest_ready_age_ms: oldest_ready_age_ms(core),
        oldest_lease_age_us: oldest_lease_age_us(core),
        next_wakeup_ms: core.next_wakeup().map(|at| at.0),
        tally: engine.tally().clone(),
        lateness_ever_us: watch.lateness.ever_us(),
        lateness_minute_us: watch.lateness.minute_us(clock.mono_us),
        clients: clients as u64,
        clients_max: options.limits.clients_max,
        watching: common.watching.len() as u64,
        postponed: common.pauses.postponed_count as u64,
        subscribers: messages.pubsub.client_count() as u64,
        topics: messages.pubsub.topic_counts(),
        counters: watch.counters,
        rates: watch.rates.per_second(),
        commands: watch.commands.clone(),
        errors: core.outputs.errors.clone(),
        denials: [denials.auth, denials.commands, denials.keys, denials.channels],
        engine_bytes: engine.held_bytes(),
        lease_bytes: engine.lease_bytes_to_come(),
        clients_bytes: common.bytes as u64,
        memory_bytes_max: options.config.number(Name::MaxMemory),
        beside_bytes: core.others.engine_bytes + core.others.clients_bytes,
        beside_clients: core.siblings.as_ref().map_or(0, Siblings::other_clients),
        clients_bytes_max: options.limits.clients_bytes_max as u64,
        memory_bytes_peak: watch.memory_bytes_peak,
        memory_bytes_resident: machine::resident_bytes(),
        processor_s: machine::processor_s(),
        journal: durability.shown.clone(),
        turns: watch.turns,
        schedules: engine.schedule_counts(),
        groups: engine.group_count(),
        zones: zones_from(core),
        clock_steps: clock.anchored.step_count(),
        clock_ahead_us: clock.anchored.ahead_us(clock.mono_us),
        clock_doubted_us: clock.anchored.doubted_us(clock.mono_us),
        standstills: clock.standstills.count,
        standstill_us: clock.standstills.total_us,
        cluster: core.view.clone(),
    }
}

fn zones_from(core: &Core) -> ZonesFrom {
    let version = core.engine.zones().version().to_owned();
    ZonesFrom { year: zones::year(&version), source: core.zones.used.source.to_string(), version }
}

/// How long ago the oldest ready job fell due.
fn oldest_ready_age_ms(core: &Core) -> Option<u64> {
    let due = core.watch.oldest_ready.due(&core.engine)?;
    Some(core.clock.now.floor().0.saturating_sub(due.0))
}

/// The age of the oldest lease. If its beginning is unknown: a lower bound.
fn oldest_lease_age_us(core: &Core) -> Option<u64> {
    let since_us = match core.engine.oldest_lease() {
        Oldest::None => return None,
        Oldest::Since(second) => second * 1_000_000,
        Oldest::Before(second) if second > 0 => (second * 1_000_000).min(core.clock.start.0),
        Oldest::Before(_) => core.clock.start.0,
    };
    Some(core.clock.now.0.saturating_sub(since_us))
}
