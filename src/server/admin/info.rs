//! INFO's facts, gathered from all over the server.

use crate::config::options::Name;
use crate::engine::watch::survey::Oldest;
use crate::observe::info::{self, Facts};
use crate::server::core::Core;
use crate::server::watch::machine;

/// INFO's text.
pub fn info(core: &Core, clients_count: usize, sections: &[&[u8]]) -> String {
    let display = |path: std::io::Result<std::path::PathBuf>| {
        path.map_or(String::new(), |path| path.display().to_string())
    };
    let denials = core.users.acl.denials;
    let facts = Facts {
        os: machine::os(),
        process_id: std::process::id(),
        run_id: &core.process.run_id,
        tcp_port: core.process.port,
        server_time_us: core.clock.now.0,
        uptime_s: core.clock.uptime_s(),
        executable: display(std::env::current_exe()),
        config_file: core
            .options
            .config
            .file
            .as_ref()
            .map_or(String::new(), |f| f.display().to_string()),
        clients_count,
        clients_max: core.options.limits.clients_max,
        clients_bytes: core.common.bytes,
        clients_bytes_max: core.options.config.number(Name::MaxClientsMemory),
        watching_count: core.common.watching.len(),
        waiters_count: core.engine.waiter_count(),
        postponed_count: core.common.pauses.postponed_count,
        deadlines_count: core.engine.deadline_count(),
        awaited_count: core.engine.awaited_count(),
        journal_waiters_count: core.durability.waits.count(),
        engine_bytes: core.engine.held_bytes(),
        lease_bytes: core.engine.lease_bytes_to_come(),
        memory_bytes_peak: core.watch.memory_bytes_peak,
        memory_bytes_resident: machine::resident_bytes(),
        memory_bytes_max: core.options.config.number(Name::MaxMemory),
        memory_bytes_machine: core.options.config.machine_bytes,
        journal: &core.durability.shown,
        fsync: core.options.config.text(Name::AppendFsync),
        counters: &core.watch.counters,
        rates: core.watch.rates.per_second(),
        errors: &core.outputs.errors,
        subscribers_count: core.messages.pubsub.client_count(),
        topics: core.messages.pubsub.topic_counts(),
        commands: &core.watch.commands,
        processor_s: machine::processor_s(),
        thread_processor_s: machine::thread_processor_s(),
        supervised: core.process.supervised,
        lateness_ever_us: core.watch.lateness.ever_us(),
        lateness_minute_us: core.watch.lateness.minute_us(core.clock.mono_us),
        tally: core.engine.tally(),
        oldest_ready_age_ms: oldest_ready_age_ms(core),
        oldest_lease_age_ms: oldest_lease_age_us(core).map(|us| us / 1_000),
        jobs: core.engine.job_counts(),
        queues: core.engine.queue_counts(),
        clock_ahead_us: core.clock.anchored.ahead_us(core.clock.mono_us),
        clock_steps: core.clock.anchored.step_count(),
        clock_doubted_us: core.clock.anchored.doubted_us(core.clock.mono_us),
        standstills: core.clock.standstills.count,
        standstill_us: core.clock.standstills.total_us,
        next_wakeup_ms: core.next_wakeup().map(|at| at.0),
        turns: core.watch.turns,
        denials: [denials.auth, denials.commands, denials.keys, denials.channels],
    };
    info::render(&facts, sections)
}

/// How long ago the oldest ready job fell due.
pub fn oldest_ready_age_ms(core: &Core) -> Option<u64> {
    let due = core.watch.oldest_ready.due(&core.engine)?;
    Some(core.clock.now.floor().0.saturating_sub(due.0))
}

/// How long ago the oldest lease began. Of one whose beginning is not known: at least so long.
pub fn oldest_lease_age_us(core: &Core) -> Option<u64> {
    let since_us = match core.engine.oldest_lease() {
        Oldest::None => return None,
        Oldest::Since(second) => second * 1_000_000,
        Oldest::Before(second) if second > 0 => (second * 1_000_000).min(core.clock.start.0),
        Oldest::Before(_) => core.clock.start.0,
    };
    Some(core.clock.now.0.saturating_sub(since_us))
}
