//! INFO: sections of `name:value` lines, the names Redis's where they mean the same.

use super::snapshot::Snapshot;
use crate::engine::model::schedule::ScheduleCounts;
use std::fmt::Write;

/// INFO's fields about the process, in addition to the counts.
#[derive(Debug, Default)]
pub struct About<'a> {
    pub os: String,
    pub process_id: u32,
    pub run_id: &'a str,
    pub tcp_port: u16,
    pub uptime_s: u64,
    pub executable: String,
    pub config_file: String,
    pub memory_bytes_machine: u64,
    pub fsync: &'a str,
    pub allocator: &'a str,
    /// Clients of a Redis Cluster find their way.
    pub clustered: bool,
    /// Its number among the partitions of the process, and how many there are.
    pub partition: (u16, u16),
    /// A service manager started it and waits to hear from it.
    pub supervised: bool,
    /// For the thread that runs the turns.
    pub thread_processor_s: (f64, f64),
    /// On the port that answers as a Sentinel: what that says of its master.
    pub sentinel: Option<String>,
}

/// The data to write.
struct InfoFacts<'a> {
    about: &'a About<'a>,
    all: &'a Snapshot,
}

struct Section {
    name: &'static str,
    by_default: bool,
    write: fn(&InfoFacts<'_>, &mut Text),
}

/// Only a node of a cluster has it.
const RAFT: &str = "Raft";

#[rustfmt::skip]
const SECTIONS: [Section; 15] = [
    Section { name: "Server", by_default: true, write: server },
    Section { name: "Clients", by_default: true, write: clients },
    Section { name: "Memory", by_default: true, write: memory },
    Section { name: "Persistence", by_default: true, write: persistence },
    Section { name: "Stats", by_default: true, write: stats },
    Section { name: "Replication", by_default: true, write: replication },
    Section { name: RAFT, by_default: true, write: raft },
    Section { name: "CPU", by_default: true, write: processor },
    Section { name: "Modules", by_default: true, write: |_, _| {} },
    Section { name: "Commandstats", by_default: false, write: commandstats },
    Section { name: "Latencystats", by_default: false, write: latencystats },
    Section { name: "Errorstats", by_default: true, write: errorstats },
    Section { name: "Cluster", by_default: true, write: cluster },
    Section { name: "Keyspace", by_default: true, write: keyspace },
    Section { name: "Delay", by_default: true, write: delay },
];

#[rustfmt::skip]
const SENTINEL_SECTIONS: [Section; 5] = [
    Section { name: "Server", by_default: true, write: server },
    Section { name: "Clients", by_default: true, write: clients },
    Section { name: "CPU", by_default: true, write: processor },
    Section { name: "Stats", by_default: true, write: stats },
    Section { name: "Sentinel", by_default: true, write: sentinel },
];

/// The sections asked for, in the table's order; without any, the default ones.
pub fn render(about: &About<'_>, all: &Snapshot, asked: &[&[u8]]) -> String {
    let facts = InfoFacts { about, all };
    let is = |word: &str| asked.iter().any(|a| a.eq_ignore_ascii_case(word.as_bytes()));
    let all = is("all") || is("everything");
    let default = asked.is_empty() || is("default");
    let mut text = Text(String::with_capacity(4096));
    let sections: &[Section] =
        if about.sentinel.is_some() { &SENTINEL_SECTIONS } else { &SECTIONS };
    for section in sections {
        let is_asked = all || (default && section.by_default) || is(section.name);
        if is_asked && (section.name != RAFT || facts.all.cluster.is_some()) {
            if !text.0.is_empty() {
                text.0.push_str("\r\n");
            }
            text.0.push_str(&format!("# {}\r\n", section.name));
            (section.write)(&facts, &mut text);
        }
    }
    text.0
}

#[derive(Debug, Default)]
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        write!(self.0, "{name}:{value}\r\n").expect("a String takes all");
    }

    pub(super) fn lines(&mut self, lines: &[(&str, &dyn std::fmt::Display)]) {
        for (name, value) in lines {
            self.line(name, value);
        }
    }
}

fn server(facts: &InfoFacts<'_>, text: &mut Text) {
    text.lines(&[
        ("redis_version", &crate::REDIS_VERSION),
        ("delayd_version", &crate::VERSION),
        ("redis_git_sha1", &"00000000"),
        ("redis_git_dirty", &0),
        ("redis_build_id", &"0"),
        ("redis_mode", &mode(facts)),
        ("os", &facts.about.os),
        ("arch_bits", &usize::BITS),
        ("monotonic_clock", &"POSIX clock_gettime"),
        ("multiplexing_api", &"epoll"),
        ("process_id", &facts.about.process_id),
        ("process_supervised", &if facts.about.supervised { "systemd" } else { "no" }),
        ("run_id", &facts.about.run_id),
        ("tcp_port", &facts.about.tcp_port),
        ("server_time_usec", &facts.all.now_us),
        ("uptime_in_seconds", &facts.about.uptime_s),
        ("uptime_in_days", &(facts.about.uptime_s / 86_400)),
        ("hz", &10),
        ("configured_hz", &10),
        ("executable", &facts.about.executable),
        ("config_file", &facts.about.config_file),
        ("io_threads_active", &0),
    ]);
    if let (partition, partitions @ 2..) = facts.about.partition {
        text.lines(&[("partition", &partition), ("partitions", &partitions)]);
    }
}

fn clients(facts: &InfoFacts<'_>, text: &mut Text) {
    let blocked = facts.all.waiters + facts.all.journal_waiters + facts.all.postponed;
    text.lines(&[
        ("connected_clients", &facts.all.clients),
        ("cluster_connections", &0),
        ("maxclients", &facts.all.clients_max),
        ("client_recent_max_input_buffer", &facts.all.counters.input_bytes_largest),
        ("client_recent_max_output_buffer", &facts.all.counters.output_bytes_largest),
        ("blocked_clients", &blocked),
        ("tracking_clients", &0),
        ("pubsub_clients", &facts.all.subscribers),
        ("watching_clients", &facts.all.watching),
        ("clients_in_timeout_table", &facts.all.deadlines),
        ("total_blocking_keys", &facts.all.awaited),
        ("total_watched_keys", &0),
    ]);
}

fn memory(facts: &InfoFacts<'_>, text: &mut Text) {
    let used = facts.all.engine_bytes + facts.all.clients_bytes;
    let peak = facts.all.memory_bytes_peak.max(used);
    let all = used + facts.all.beside_bytes;
    let fragmentation = facts.all.memory_bytes_resident as f64 / all.max(1) as f64;
    text.lines(&[
        ("used_memory", &used),
        ("used_memory_human", &Human(used)),
        ("used_memory_rss", &facts.all.memory_bytes_resident),
        ("used_memory_rss_human", &Human(facts.all.memory_bytes_resident)),
        ("used_memory_peak", &peak),
        ("used_memory_peak_human", &Human(peak)),
        ("used_memory_peak_perc", &format_args!("{:.2}%", percent(used, peak))),
        ("used_memory_overhead", &facts.all.clients_bytes),
        ("used_memory_startup", &0),
        ("used_memory_dataset", &facts.all.engine_bytes),
        (
            "used_memory_dataset_perc",
            &format_args!("{:.2}%", percent(facts.all.engine_bytes, used)),
        ),
        ("total_system_memory", &facts.about.memory_bytes_machine),
        ("total_system_memory_human", &Human(facts.about.memory_bytes_machine)),
        ("used_memory_lua", &0),
        ("used_memory_scripts", &0),
        ("number_of_cached_scripts", &0),
        ("number_of_functions", &0),
        ("number_of_libraries", &0),
        ("maxmemory", &facts.all.memory_bytes_max),
        ("maxmemory_human", &Human(facts.all.memory_bytes_max)),
        ("maxmemory_policy", &"noeviction"),
        ("mem_fragmentation_ratio", &format_args!("{fragmentation:.2}")),
        ("mem_not_counted_for_evict", &0),
        ("mem_clients_slaves", &0),
        ("mem_clients_normal", &facts.all.clients_bytes),
        ("mem_kept_for_leases", &facts.all.lease_bytes),
        ("mem_aof_buffer", &facts.all.journal.buffer_bytes),
        ("mem_allocator", &facts.about.allocator),
        ("active_defrag_running", &0),
        ("lazyfree_pending_objects", &0),
        ("lazyfreed_objects", &0),
    ]);
    if facts.about.partition.1 > 1 {
        text.line("used_memory_process", all);
    }
}

fn cluster(facts: &InfoFacts<'_>, text: &mut Text) {
    text.line("cluster_enabled", u8::from(facts.about.clustered));
}

fn mode(facts: &InfoFacts<'_>) -> &'static str {
    match facts.about {
        About { sentinel: Some(_), .. } => "sentinel",
        About { clustered: true, .. } => "cluster",
        _ => "standalone",
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn persistence(facts: &InfoFacts<'_>, text: &mut Text) {
    facts.all.journal.write(facts.about.fsync, facts.all.now_us / 1_000_000, text);
}

fn stats(facts: &InfoFacts<'_>, text: &mut Text) {
    let (counters, rates) = (&facts.all.counters, &facts.all.rates);
    let kbps = |bytes: u64| bytes as f64 / 1024.0;
    text.lines(&[
        ("total_connections_received", &counters.connections),
        ("total_commands_processed", &counters.commands),
        ("instantaneous_ops_per_sec", &rates.commands),
        ("total_net_input_bytes", &counters.input_bytes),
        ("total_net_output_bytes", &counters.output_bytes),
        ("instantaneous_input_kbps", &format_args!("{:.2}", kbps(rates.input_bytes))),
        ("instantaneous_output_kbps", &format_args!("{:.2}", kbps(rates.output_bytes))),
        ("rejected_connections", &counters.connections_rejected),
        ("sync_full", &0),
        ("sync_partial_ok", &0),
        ("sync_partial_err", &0),
        ("expired_keys", &0),
        ("evicted_keys", &0),
        ("evicted_clients", &counters.closed_for_memory),
        ("keyspace_hits", &0),
        ("keyspace_misses", &0),
        ("pubsub_channels", &facts.all.topics[0]),
        ("pubsub_patterns", &facts.all.topics[1]),
        ("pubsubshard_channels", &0),
        ("latest_fork_usec", &0),
        ("total_forks", &0),
        ("total_error_replies", &facts.all.errors.total()),
        ("unexpected_error_replies", &0),
        ("client_query_buffer_limit_disconnections", &counters.closed_for_input),
        ("client_output_buffer_limit_disconnections", &counters.closed_for_output),
        ("acl_access_denied_auth", &facts.all.denials[0]),
        ("acl_access_denied_cmd", &facts.all.denials[1]),
        ("acl_access_denied_key", &facts.all.denials[2]),
        ("acl_access_denied_channel", &facts.all.denials[3]),
    ]);
}

fn sentinel(facts: &InfoFacts<'_>, text: &mut Text) {
    text.lines(&[
        ("sentinel_masters", &1),
        ("sentinel_tilt", &0),
        ("sentinel_tilt_since_seconds", &-1),
        ("sentinel_running_scripts", &0),
        ("sentinel_scripts_queue_length", &0),
        ("sentinel_simulate_failure_flags", &0),
        ("master0", &facts.about.sentinel.as_deref().unwrap_or_default()),
    ]);
}

fn raft(facts: &InfoFacts<'_>, text: &mut Text) {
    facts.all.cluster.iter().for_each(|view| view.write_raft(text));
}

fn replication(facts: &InfoFacts<'_>, text: &mut Text) {
    if let Some(view) = &facts.all.cluster {
        return view.write_replication(text);
    }
    text.lines(&[("role", &"master"), ("connected_slaves", &0)]);
    replication_end(text, "no-failover", facts.about.run_id, facts.all.journal.offset());
}

/// What the section of a node ends with, too.
pub(super) fn replication_end(text: &mut Text, failover: &str, replid: &str, offset: u64) {
    text.lines(&[
        ("master_failover_state", &failover),
        ("master_replid", &replid),
        ("master_replid2", &"0".repeat(40)),
        ("master_repl_offset", &offset),
        ("second_repl_offset", &-1),
        ("repl_backlog_active", &0),
        ("repl_backlog_size", &0),
        ("repl_backlog_first_byte_offset", &0),
        ("repl_backlog_histlen", &0),
    ]);
}

fn processor(facts: &InfoFacts<'_>, text: &mut Text) {
    let (system_s, user_s) = facts.all.processor_s;
    let (main_system_s, main_user_s) = facts.about.thread_processor_s;
    text.lines(&[
        ("used_cpu_sys", &format_args!("{system_s:.6}")),
        ("used_cpu_user", &format_args!("{user_s:.6}")),
        ("used_cpu_sys_children", &"0.000000"),
        ("used_cpu_user_children", &"0.000000"),
        ("used_cpu_sys_main_thread", &format_args!("{main_system_s:.6}")),
        ("used_cpu_user_main_thread", &format_args!("{main_user_s:.6}")),
    ]);
}

fn commandstats(facts: &InfoFacts<'_>, text: &mut Text) {
    for (name, counts) in facts.all.commands.sorted() {
        let took_us = counts.took_ns / 1_000;
        let each_us = counts.took_ns as f64 / 1_000.0 / counts.calls.max(1) as f64;
        let value = format!(
            "calls={},usec={took_us},usec_per_call={each_us:.2},rejected_calls={},failed_calls={}",
            counts.calls, counts.rejected, counts.failed
        );
        text.line(&format!("cmdstat_{name}"), value);
    }
}

fn latencystats(facts: &InfoFacts<'_>, text: &mut Text) {
    for (name, times) in facts.all.commands.times() {
        let us = |permille| times.percentile(permille) as f64 / 1_000.0;
        let value = format!("p50={:.3},p99={:.3},p99.9={:.3}", us(500), us(990), us(999));
        text.line(&format!("latency_percentiles_usec_{name}"), value);
    }
}

fn errorstats(facts: &InfoFacts<'_>, text: &mut Text) {
    for (class, count) in facts.all.errors.iter() {
        text.line(&format!("errorstat_{class}"), format_args!("count={count}"));
    }
}

fn keyspace(facts: &InfoFacts<'_>, text: &mut Text) {
    for (db, count) in facts.all.queues.iter().enumerate().filter(|(_, count)| **count > 0) {
        let value = format!("keys={count},expires=0,avg_ttl=0,subexpiry=0");
        text.line(&format!("db{db}"), value);
    }
}

fn delay(facts: &InfoFacts<'_>, text: &mut Text) {
    let [delayed, ready, leased, dead] = facts.all.jobs;
    let next = facts.all.next_wakeup_ms.map_or(-1, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let [ever_p50, ever_p99, ever_p999, ever_max] = facts.all.lateness_ever_us;
    let [p50, p99, p999, max] = facts.all.lateness_minute_us;
    let (tally, rates) = (&facts.all.tally, &facts.all.rates);
    let ScheduleCounts { active, paused, held, done, next_due } = facts.all.schedules;
    let schedules = active + paused + held + done;
    text.lines(&[
        ("queues", &facts.all.queues.iter().sum::<u64>()),
        ("jobs_delayed", &delayed),
        ("jobs_ready", &ready),
        ("jobs_leased", &leased),
        ("jobs_dead", &dead),
        ("job_bytes", &facts.all.engine_bytes),
        ("waiters", &facts.all.waiters),
        ("oldest_ready_age_ms", &facts.all.oldest_ready_age_ms.unwrap_or(0)),
        ("oldest_lease_age_ms", &(facts.all.oldest_lease_age_us.unwrap_or(0) / 1_000)),
        ("lateness_minute_p50_us", &p50),
        ("lateness_minute_p99_us", &p99),
        ("lateness_minute_p999_us", &p999),
        ("lateness_minute_max_us", &max),
        ("lateness_p50_us", &ever_p50),
        ("lateness_p99_us", &ever_p99),
        ("lateness_p999_us", &ever_p999),
        ("lateness_max_us", &ever_max),
        ("due_per_sec", &rates.due),
        ("delivered_per_sec", &rates.delivered),
        ("acked_per_sec", &rates.acked),
        ("total_added", &tally.totals.added),
        ("total_due", &tally.due),
        ("total_delivered", &tally.totals.delivered),
        ("total_returned", &tally.returned),
        ("total_acked", &tally.totals.acked),
        ("total_nacked", &tally.totals.nacked),
        ("total_timeouts", &tally.totals.timeouts),
        ("total_lost", &tally.totals.lost),
        ("total_expired", &tally.totals.expired),
        ("total_deleted", &tally.totals.deleted),
        ("total_removed", &tally.removed),
        ("total_died", &tally.totals.died),
        ("total_dropped", &tally.totals.dropped),
        ("total_redriven", &tally.redriven),
        ("schedules", &schedules),
        ("schedules_paused", &paused),
        ("schedules_held", &held),
        ("schedules_next_due", &next_due.map_or(0, |due| due.0)),
        ("schedule_made_total", &tally.outcomes.made),
        ("schedule_missed_total", &tally.outcomes.missed),
        ("schedule_skipped_total", &tally.outcomes.skipped),
        ("groups", &facts.all.groups),
        ("tzdata_version", &facts.all.zones.version),
        ("tzdata_source", &facts.all.zones.source),
        ("next_wakeup_ms", &next),
        ("clock_steps", &facts.all.clock_steps),
        ("clock_ahead_us", &facts.all.clock_ahead_us),
        ("clock_doubted_us", &facts.all.clock_doubted_us),
        ("standstills", &facts.all.standstills),
        ("standstill_us", &facts.all.standstill_us),
        ("client_bytes", &facts.all.clients_bytes),
        ("client_bytes_max", &facts.all.clients_bytes_max),
        ("turns", &facts.all.turns),
    ]);
}

/// A size as Redis writes it for people: `1.50M`.
struct Human(u64);

impl std::fmt::Display for Human {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
        match units.into_iter().find(|(bits, _)| self.0 >> bits > 0) {
            Some((bits, unit)) => write!(f, "{:.2}{unit}", self.0 as f64 / (1u64 << bits) as f64),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(asked: &[&[u8]]) -> String {
        let about = About { os: "Linux".to_owned(), uptime_s: 90_000, ..About::default() };
        let mut all = Snapshot::default();
        (all.clients, all.processor_s) = (1, (0.5, 0.25));
        (all.jobs, all.queues[1]) = ([1, 2, 3, 4], 7);
        (all.engine_bytes, all.memory_bytes_resident) = (3 << 19, 3 << 20);
        render(&about, &all, asked)
    }

    #[test]
    fn sections_by_name_default_and_all() {
        let default = rendered(&[]);
        assert_eq!(rendered(&[b"default"]), default);
        assert!(default.starts_with("# Server\r\nredis_version:7.2.4\r\ndelayd_version:"));
        assert!(default.contains("\r\n\r\n# Clients\r\nconnected_clients:1\r\n"));
        assert!(!default.contains("Commandstats"));
        assert!(rendered(&[b"ALL"]).contains("# Commandstats\r\n"));
        assert_eq!(
            rendered(&[b"keyspace"]),
            "# Keyspace\r\ndb1:keys=7,expires=0,avg_ttl=0,subexpiry=0\r\n"
        );
        assert_eq!(rendered(&[b"nothing"]), "");
        let two = rendered(&[b"cluster", b"cpu"]);
        assert!(two.starts_with("# CPU\r\nused_cpu_sys:0.500000\r\n"), "{two}");
        assert!(two.ends_with("\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n"), "{two}");
    }

    #[test]
    fn every_line_is_a_name_and_a_value() {
        for line in rendered(&[b"everything"]).split("\r\n").filter(|l| !l.is_empty()) {
            assert!(line.starts_with("# ") || line.split_once(':').is_some(), "{line}");
        }
        assert!(rendered(&[b"memory"]).contains("used_memory_human:1.50M\r\n"));
    }
}
