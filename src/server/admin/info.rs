//! INFO's facts, gathered from all over the server.

use crate::config::options::Name;
use crate::engine::watch::survey::Oldest;
use crate::observe::info::{self, Facts};
use crate::server::core::Core;
use crate::server::watch::machine;

impl Core {
    /// INFO's text.
    pub fn info(&self, clients_count: usize, sections: &[&[u8]]) -> String {
        let display = |path: std::io::Result<std::path::PathBuf>| {
            path.map_or(String::new(), |path| path.display().to_string())
        };
        let denials = self.acl.denials;
        let facts = Facts {
            os: machine::os(),
            process_id: std::process::id(),
            run_id: &self.run_id,
            tcp_port: self.port,
            server_time_us: self.clock.now.0,
            uptime_s: self.clock.uptime_s(),
            executable: display(std::env::current_exe()),
            config_file: self
                .config
                .file
                .as_ref()
                .map_or(String::new(), |f| f.display().to_string()),
            clients_count,
            clients_max: self.limits.clients_max,
            clients_bytes: self.clients_bytes,
            clients_bytes_max: self.config.number(Name::MaxClientsMemory),
            watching_count: self.watching.len(),
            waiters_count: self.engine.waiter_count(),
            postponed_count: self.pauses.postponed_count,
            deadlines_count: self.engine.deadline_count(),
            awaited_count: self.engine.awaited_count(),
            journal_waiters_count: self.waits.count(),
            engine_bytes: self.engine.held_bytes(),
            lease_bytes: self.engine.lease_bytes_to_come(),
            memory_bytes_peak: self.memory_bytes_peak,
            memory_bytes_resident: machine::resident_bytes(),
            memory_bytes_max: self.config.number(Name::MaxMemory),
            memory_bytes_machine: self.config.machine_bytes,
            journal: &self.journal,
            fsync: self.config.text(Name::AppendFsync),
            counters: &self.counters,
            rates: self.rates.per_second(),
            errors: &self.outputs.errors,
            subscribers_count: self.messages.pubsub.client_count(),
            topics: self.messages.pubsub.topic_counts(),
            commands: &self.commands,
            processor_s: machine::processor_s(),
            thread_processor_s: machine::thread_processor_s(),
            supervised: self.supervised,
            lateness_ever_us: self.lateness.ever_us(),
            lateness_minute_us: self.lateness.minute_us(self.clock.mono_us),
            tally: self.engine.tally(),
            oldest_ready_age_ms: self.oldest_ready_age_ms(),
            oldest_lease_age_ms: self.oldest_lease_age_us().map(|us| us / 1_000),
            jobs: self.engine.job_counts(),
            queues: self.engine.queue_counts(),
            clock_ahead_us: self.clock.anchored.ahead_us(self.clock.mono_us),
            clock_steps: self.clock.anchored.step_count(),
            clock_doubted_us: self.clock.anchored.doubted_us(self.clock.mono_us),
            standstills: self.clock.standstills.count,
            standstill_us: self.clock.standstills.total_us,
            next_wakeup_ms: self.next_wakeup().map(|at| at.0),
            turns: self.turns,
            denials: [denials.auth, denials.commands, denials.keys, denials.channels],
        };
        info::render(&facts, sections)
    }

    /// How long ago the oldest ready job fell due.
    pub(in crate::server) fn oldest_ready_age_ms(&self) -> Option<u64> {
        let due = self.eldest.due(&self.engine)?;
        Some(self.clock.now.floor().0.saturating_sub(due.0))
    }

    /// How long ago the oldest lease began. Of one whose beginning is not known: at least so long.
    pub(in crate::server) fn oldest_lease_age_us(&self) -> Option<u64> {
        let since_us = match self.engine.oldest_lease() {
            Oldest::None => return None,
            Oldest::Since(second) => second * 1_000_000,
            Oldest::Before(second) if second > 0 => (second * 1_000_000).min(self.clock.start.0),
            Oldest::Before(_) => self.clock.start.0,
        };
        Some(self.clock.now.0.saturating_sub(since_us))
    }
}
