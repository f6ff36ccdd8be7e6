//! The table of metrics: everything about each, stated once. It feeds the text of a scrape and the written reference.

use super::Scrape;
use super::text::{Page, SampleValue};
use super::top::{Row, sides};
use crate::cluster::timing::health::Why;
use crate::engine::model::schedule::ScheduleState::{Active, Done, Held, Paused};
use crate::engine::model::schedule::{Miss, ScheduleCounts};
use crate::observe::cluster::{ClusterView, NodeView};
use crate::observe::persistence::JournalTrouble;
use crate::words::words;
use SampleValue::{Count, Float, Us};
use std::fmt::Write;

words! {
    /// The type of a metric.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum MetricKind {
        /// Only grows, from 0 at the start of the server unless it says otherwise.
        Counter = "counter",
        /// Goes up and down.
        Gauge = "gauge",
        /// Counts below bounds, a sum and a count.
        Histogram = "histogram",
    }
}

words! {
    /// Metrics that belong together have a part of the reference, under this heading.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum MetricGroup {
        /// How many jobs there are, and whether they are on time.
        Jobs = "Jobs",
        Queues = "Each queue",
        /// Whether acknowledged changes are safe.
        Journal = "Journal",
        /// The leader, and whether the followers keep up.
        Cluster = "Cluster (nodes only)",
        Clients = "Clients and commands",
        Server = "Process",
    }
}

/// A metric with all its samples.
pub struct Family {
    pub part: MetricGroup,
    pub name: &'static str,
    pub kind: MetricKind,
    /// Its labels; empty for none.
    pub labels: &'static str,
    pub help: &'static str,
    pub(super) write: fn(&Scrape, &mut Page),
}

const STATE_LABELS: [&str; 4] =
    [r#"state="delayed""#, r#"state="ready""#, r#"state="leased""#, r#"state="dead""#];

const fn gauge(
    part: MetricGroup,
    name: &'static str,
    labels: &'static str,
    help: &'static str,
    write: fn(&Scrape, &mut Page),
) -> Family {
    Family { part, name, kind: MetricKind::Gauge, labels, help, write }
}

const fn counter(
    part: MetricGroup,
    name: &'static str,
    labels: &'static str,
    help: &'static str,
    write: fn(&Scrape, &mut Page),
) -> Family {
    Family { part, name, kind: MetricKind::Counter, labels, help, write }
}

const fn histogram(
    part: MetricGroup,
    name: &'static str,
    help: &'static str,
    write: fn(&Scrape, &mut Page),
) -> Family {
    Family { part, name, kind: MetricKind::Histogram, labels: "", help, write }
}

/// All metrics, in the order of the text and of the reference.
#[rustfmt::skip]
pub static FAMILIES: [Family; 122] = [
    gauge(MetricGroup::Jobs, "delayd_jobs", "state", "Jobs of all queues by state: delayed, ready, leased, dead.",
        |s, page| (0..4).for_each(|i| page.labelled(STATE_LABELS[i], Count(s.jobs[i])))),
    gauge(MetricGroup::Jobs, "delayd_queues", "db", "Queues that have a job, by database.",
        |s, page| for (db, count) in s.queues.iter().enumerate().filter(|(db, count)| *db == 0 || **count > 0) {
            page.of("db", &db.to_string(), Count(*count));
        }),
    gauge(MetricGroup::Jobs, "delayd_waiters", "", "Clients waiting for a job.", |s, page| page.value(Count(s.waiters))),
    gauge(MetricGroup::Jobs, "delayd_oldest_ready_age_seconds", "", "How long ago the oldest ready job of all queues fell due; 0 when no job is ready. Jobs that are not due yet do not count.",
        |s, page| page.value(Us(s.oldest_ready_age_ms().unwrap_or(0) * 1_000))),
    gauge(MetricGroup::Jobs, "delayd_oldest_lease_age_seconds", "", "How long ago the oldest running lease began, to the second, up to a day; 0 without one. A lower bound for leases from before the last start.",
        |s, page| page.value(Us(s.oldest_lease_age_us.unwrap_or(0)))),
    gauge(MetricGroup::Jobs, "delayd_next_wakeup_timestamp_seconds", "", "When the server's next timer fires, unix time; a lower bound. Absent without timers.",
        |s, page| s.next_wakeup_ms.into_iter().filter(|ms| *ms > 0).for_each(|ms| page.value(Us(ms.saturating_mul(1_000))))),
    histogram(MetricGroup::Jobs, "delayd_lateness_seconds", "Time from the due time to the release of the reply, for jobs for which a consumer was waiting when they fell due.",
        |s, page| page.spread(&s.lateness)),
    gauge(MetricGroup::Jobs, "delayd_lateness_last_minute_max_seconds", "", "The greatest lateness of the last minute.",
        |s, page| page.value(Us(s.lateness_minute_us[3]))),
    histogram(MetricGroup::Jobs, "delayd_lease_duration_seconds", "Time from the delivery of a job to its acknowledgement.",
        |s, page| page.spread(&s.tally.until_ack)),
    counter(MetricGroup::Jobs, "delayd_jobs_added_total", "", "Jobs added.", |s, page| page.value(Count(s.tally.totals.added))),
    counter(MetricGroup::Jobs, "delayd_jobs_due_total", "", "Delayed jobs that became due; without jobs added for now.",
        |s, page| page.value(Count(s.tally.due))),
    counter(MetricGroup::Jobs, "delayd_jobs_delivered_total", "", "Jobs handed to consumers, including retries and jobs that came back unsent.",
        |s, page| page.value(Count(s.tally.totals.delivered))),
    counter(MetricGroup::Jobs, "delayd_jobs_returned_total", "", "Hand-offs to connections that were closed before the first byte of the reply was sent; the job goes back to its place, and the attempt does not count.",
        |s, page| page.value(Count(s.tally.returned))),
    counter(MetricGroup::Jobs, "delayd_jobs_acked_total", "", "Jobs acknowledged.", |s, page| page.value(Count(s.tally.totals.acked))),
    counter(MetricGroup::Jobs, "delayd_jobs_nacked_total", "", "NACKs, counted and uncounted ones.", |s, page| page.value(Count(s.tally.totals.nacked))),
    counter(MetricGroup::Jobs, "delayd_lease_timeouts_total", "", "Leases that ran out.", |s, page| page.value(Count(s.tally.totals.timeouts))),
    counter(MetricGroup::Jobs, "delayd_leases_lost_total", "", "BOUND leases that ended with their connection.", |s, page| page.value(Count(s.tally.totals.lost))),
    counter(MetricGroup::Jobs, "delayd_jobs_died_total", "", "Jobs that became dead letters.", |s, page| page.value(Count(s.tally.totals.died))),
    counter(MetricGroup::Jobs, "delayd_jobs_dropped_total", "", "Dead letters dropped by age or number.", |s, page| page.value(Count(s.tally.totals.dropped))),
    counter(MetricGroup::Jobs, "delayd_jobs_redriven_total", "", "Dead letters moved back by DELAY.REDRIVE.", |s, page| page.value(Count(s.tally.redriven))),
    counter(MetricGroup::Jobs, "delayd_jobs_expired_total", "", "Jobs whose TTL passed before they were delivered.", |s, page| page.value(Count(s.tally.totals.expired))),
    counter(MetricGroup::Jobs, "delayd_jobs_deleted_total", "", "Jobs removed by DELAY.DEL, CANCEL, PURGE, REPLACE or LATEST.", |s, page| page.value(Count(s.tally.totals.deleted))),
    counter(MetricGroup::Jobs, "delayd_jobs_removed_total", "", "Jobs removed with their queue by DEL, UNLINK, FLUSHDB, FLUSHALL or RENAME.", |s, page| page.value(Count(s.tally.removed))),

    gauge(MetricGroup::Jobs, "delayd_schedules", "state", "Schedules of all queues by state: active, paused, held (an occurrence is due but cannot be made), done (no instant is left).",
        |s, page| {
            let ScheduleCounts { active, paused, held, done, .. } = s.schedules;
            let counts = [(Active, active), (Paused, paused), (Held, held), (Done, done)];
            counts.into_iter().for_each(|(state, count)| page.of("state", state.word(), Count(count)));
        }),

    counter(MetricGroup::Jobs, "delayd_schedule_occurrences_total", "", "Occurrences that schedules made, without those of RUN.", |s, page| page.value(Count(s.tally.outcomes.made))),
    counter(MetricGroup::Jobs, "delayd_schedule_missed_total", "reason", "Missed instants of schedules: the server was down when they came due (downtime), they were later than their GRACE (grace), or they could not be made then (held).",
        |s, page| Miss::ALL.into_iter().zip(s.tally.missed).for_each(|(why, count)| page.of("reason", why.word(), Count(count)))),
    counter(MetricGroup::Jobs, "delayd_schedule_skipped_total", "", "Skipped instants of schedules: an earlier occurrence was open, or the id was taken.", |s, page| page.value(Count(s.tally.outcomes.skipped))),

    gauge(MetricGroup::Queues, "delayd_queue_jobs", "db, queue, state", "A queue's jobs by state.", |s, page| {
        for (at, row) in s.rows.iter().enumerate() {
            let stats = &row.stats;
            let counts = [stats.delayed, stats.ready, stats.leased, stats.dead];
            STATE_LABELS.iter().zip(counts).for_each(|(state, count)| page.row(at, state, Count(count)));
        }
        STATE_LABELS.iter().zip(s.rest.jobs).for_each(|(state, count)| page.rest(state, Count(count)));
    }),
    gauge(MetricGroup::Queues, "delayd_queue_oldest_ready_age_seconds", "db, queue", "How long ago a queue's oldest ready job fell due; 0 when none is ready.",
        |s, page| {
            each(s, page, |row| Some(Us(row.stats.oldest_ready_age_ms.unwrap_or(0) * 1_000)));
            page.rest("", Us(s.rest.oldest_ready_age_ms.unwrap_or(0) * 1_000));
        }),
    gauge(MetricGroup::Queues, "delayd_queue_next_due_timestamp_seconds", "db, queue", "When a queue's next delayed job falls due, unix time; a lower bound for a queue whose next jobs are not in order yet. Absent without delayed jobs.",
        |s, page| {
            each(s, page, |row| row.stats.next_due.map(|due| Us(due.0.saturating_mul(1_000))));
            s.rest.next_due_ms.into_iter().for_each(|ms| page.rest("", Us(ms.saturating_mul(1_000))));
        }),
    gauge(MetricGroup::Queues, "delayd_queue_waiters", "db, queue", "Clients waiting for a job of a queue.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.waiters))); page.rest("", Count(s.rest.waiters)); }),
    gauge(MetricGroup::Queues, "delayd_queue_schedules", "db, queue", "Schedules of a queue.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.schedules))); page.rest("", Count(s.rest.schedules)); }),
    gauge(MetricGroup::Queues, "delayd_queue_groups", "db, queue", "Groups of a queue.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.groups))); page.rest("", Count(s.rest.groups)); }),
    gauge(MetricGroup::Queues, "delayd_queue_groups_closed", "db, queue", "Groups of a queue that have ready jobs and are paused or at their limit.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.groups_closed))); page.rest("", Count(s.rest.groups_closed)); }),
    gauge(MetricGroup::Queues, "delayd_queue_paused", "db, queue, side", "1 while a queue is paused for adding (side in) or for taking (side out). For the queues without lines of their own: how many are paused.",
        |s, page| {
            for (at, row) in s.rows.iter().enumerate() {
                let (paused_in, paused_out) = sides(row.stats.paused);
                page.row(at, r#"side="in""#, Count(paused_in.into()));
                page.row(at, r#"side="out""#, Count(paused_out.into()));
            }
            page.rest(r#"side="in""#, Count(s.rest.paused_in));
            page.rest(r#"side="out""#, Count(s.rest.paused_out));
        }),
    gauge(MetricGroup::Queues, "delayd_queue_memory_bytes", "db, queue", "Memory held for a queue's jobs.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.bytes))); page.rest("", Count(s.rest.bytes)); }),
    gauge(MetricGroup::Queues, "delayd_queue_lateness_p99_seconds", "db, queue", "99 % of a queue's deliveries since it was created were not later than this; measured at the decision, before the reply passes journal and socket.",
        |s, page| each(s, page, |row| Some(Us(row.stats.lateness_us[1])))),
    gauge(MetricGroup::Queues, "delayd_queue_lateness_max_seconds", "db, queue", "The greatest lateness of a queue since it was created.",
        |s, page| each(s, page, |row| Some(Us(row.stats.lateness_us[3])))),
    counter(MetricGroup::Queues, "delayd_queue_added_total", "db, queue", "Jobs added to a queue. Like all totals of a queue it survives restarts and begins at 0 again when the queue is removed.",
        |s, page| each(s, page, |row| Some(Count(row.stats.totals.added)))),
    counter(MetricGroup::Queues, "delayd_queue_delivered_total", "db, queue", "Jobs of a queue handed to consumers, including jobs that came back unsent since the start.",
        |s, page| each(s, page, |row| Some(Count(row.stats.totals.delivered + row.returned)))),
    counter(MetricGroup::Queues, "delayd_queue_acked_total", "db, queue", "Jobs of a queue acknowledged.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.acked)))),
    counter(MetricGroup::Queues, "delayd_queue_nacked_total", "db, queue", "NACKs of a queue's jobs.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.nacked)))),
    counter(MetricGroup::Queues, "delayd_queue_timeouts_total", "db, queue", "Leases of a queue's jobs that ran out.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.timeouts)))),
    counter(MetricGroup::Queues, "delayd_queue_lost_total", "db, queue", "Leases of a queue's jobs that ended with their connection.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.lost)))),
    counter(MetricGroup::Queues, "delayd_queue_expired_total", "db, queue", "Jobs of a queue whose TTL passed.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.expired)))),
    counter(MetricGroup::Queues, "delayd_queue_deleted_total", "db, queue", "Jobs of a queue removed by DELAY.DEL, CANCEL, PURGE, REPLACE or LATEST.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.deleted)))),
    counter(MetricGroup::Queues, "delayd_queue_died_total", "db, queue", "Jobs of a queue that became dead letters.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.died)))),
    counter(MetricGroup::Queues, "delayd_queue_dropped_total", "db, queue", "Dead letters of a queue dropped by age or number.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.dropped)))),
    gauge(MetricGroup::Queues, "delayd_queues_unlisted", "", "Queues beyond metrics-queues-max: they are summed under an empty queue label, without totals.",
        |s, page| page.value(Count(s.rest.queues))),

    gauge(MetricGroup::Journal, "delayd_journal_enabled", "", "1 if changes are written to a journal (appendonly yes).", |s, page| page.value(Count(s.journal.enabled.into()))),
    gauge(MetricGroup::Journal, "delayd_journal_state", "state", "1 for the current state of the journal: ok, full (no space on the disk; it resumes by itself), failed (until a restart), loading.",
        |s, page| if s.journal.enabled {
            let is = journal_state(s);
            for state in ["ok", "full", "failed", "loading"] {
                page.of("state", state, Count(u64::from(state == is)));
            }
        }),
    gauge(MetricGroup::Journal, "delayd_journal_unsynced_bytes", "", "Bytes of the journal that are decided but not synced.", |s, page| journal(s, page, Count(s.journal.unsynced_bytes))),
    gauge(MetricGroup::Journal, "delayd_journal_unsynced_seconds", "", "Age of the oldest journal byte that is written but not synced.", |s, page| journal(s, page, Us(s.journal.unsynced_us))),
    gauge(MetricGroup::Journal, "delayd_journal_last_sync_timestamp_seconds", "", "When the journal was last synced, unix time.", |s, page| journal(s, page, Us(s.journal.last_sync_us))),
    histogram(MetricGroup::Journal, "delayd_journal_sync_seconds", "How long syncs of the journal took.", |s, page| if s.journal.enabled { page.spread(&s.syncs) }),
    counter(MetricGroup::Journal, "delayd_journal_slow_syncs_total", "", "Syncs of the journal that took longer than a second; while one does, no job is handed out.", |s, page| journal(s, page, Count(s.journal.syncs_delayed))),
    counter(MetricGroup::Journal, "delayd_journal_written_bytes_total", "", "Bytes written to the log.", |s, page| journal(s, page, Count(s.journal.written_bytes))),
    counter(MetricGroup::Journal, "delayd_journal_base_written_bytes_total", "", "Bytes written for base files.", |s, page| journal(s, page, Count(s.journal.base_written_bytes))),
    gauge(MetricGroup::Journal, "delayd_journal_disk_bytes", "", "Size of the journal's files.", |s, page| journal(s, page, Count(s.journal.disk_bytes))),
    gauge(MetricGroup::Journal, "delayd_journal_log_bytes", "", "Bytes of log since the newest base file; a restart reads both.", |s, page| journal(s, page, Count(s.journal.log_bytes))),
    gauge(MetricGroup::Journal, "delayd_journal_base_bytes", "", "Size of the newest base file.", |s, page| journal(s, page, Count(s.journal.base_bytes))),
    gauge(MetricGroup::Journal, "delayd_journal_room_bytes", "", "Bytes reserved on the disk that are not written yet.", |s, page| journal(s, page, Count(s.journal.room_bytes))),
    counter(MetricGroup::Journal, "delayd_journal_bases_total", "", "Base files completed.", |s, page| journal(s, page, Count(s.journal.bases_complete))),
    gauge(MetricGroup::Journal, "delayd_journal_base_failed", "", "1 if the last base file could not be written; the log is kept and grows.", |s, page| journal(s, page, Count(s.journal.last_base_failure.is_some().into()))),
    gauge(MetricGroup::Journal, "delayd_journal_last_base_timestamp_seconds", "", "When the newest base file was completed, unix time; before the first one, when the server started.", |s, page| journal(s, page, Count(s.journal.last_base_s))),

    gauge(MetricGroup::Cluster, "delayd_raft_leader", "", "1 on the leader.", |s, page| node(s, page, |view| Count(view.leads.into()))),
    gauge(MetricGroup::Cluster, "delayd_raft_led", "", "1 if this node leads, or has heard a leader within twice the election timeout.", |s, page| node(s, page, |view| Count(view.is_led().into()))),
    gauge(MetricGroup::Cluster, "delayd_raft_sick", "why", "1 for the reason why this node should not lead: disk-hangs, disk-full, disk-slow, stands-still; all are 0 while it is healthy.",
        |s, page| s.cluster.iter().for_each(|view| Why::ALL.into_iter().for_each(|why| page.of("why", why.word(), Count(view.health.sick.is_some_and(|sick| sick.why == why).into()))))),
    gauge(MetricGroup::Cluster, "delayd_raft_disk_waits_seconds", "", "How long the oldest entry that this node's disk does not have yet has waited.", |s, page| node(s, page, |view| Us(view.health.waits_us))),
    gauge(MetricGroup::Cluster, "delayd_raft_sync_seconds", "", "Median time of a write to this node's disk in the last 5 s; 0 with too few writes.", |s, page| node(s, page, |view| Us(view.health.sync_us))),
    gauge(MetricGroup::Cluster, "delayd_raft_leaderless_seconds", "", "How long this node has known no leader; 0 while it knows one.", |s, page| node(s, page, |view| Us(view.leaderless_us.unwrap_or(0)))),
    gauge(MetricGroup::Cluster, "delayd_raft_stuck_seconds", "", "On a leader: how long what it has decided is not committed, because a majority of nodes does not accept it; 0 while that takes less than a second, or two election timeouts.", |s, page| node(s, page, |view| Us(view.stuck_us.unwrap_or(0)))),
    gauge(MetricGroup::Cluster, "delayd_raft_epoch", "", "The newest epoch; at most one node leads in an epoch.", |s, page| node(s, page, |view| Count(view.epoch))),
    gauge(MetricGroup::Cluster, "delayd_raft_last_index", "", "Index of the last log entry that this node has.", |s, page| node(s, page, |view| Count(view.last))),
    gauge(MetricGroup::Cluster, "delayd_raft_committed_index", "", "Index of the last entry that a majority has, as far as this node knows.", |s, page| node(s, page, |view| Count(view.committed))),
    gauge(MetricGroup::Cluster, "delayd_raft_applied_index", "", "Index of the last entry that this node has applied to its jobs.", |s, page| node(s, page, |view| Count(view.applied))),
    gauge(MetricGroup::Cluster, "delayd_raft_lease_seconds", "", "How long the leader may still answer reads without asking the others; 0 on other nodes.", |s, page| node(s, page, |view| Us(view.lease_us.unwrap_or(0)))),
    gauge(MetricGroup::Cluster, "delayd_raft_quorum_age_seconds", "", "Age of the leader's newest heartbeat that a majority has answered. Absent on other nodes.",
        |s, page| s.cluster.iter().filter_map(|view| view.quorum_us).for_each(|us| page.value(Us(us)))),
    gauge(MetricGroup::Cluster, "delayd_raft_leader_heard_age_seconds", "", "How long ago this node last heard another node that leads. Absent before the first time.",
        |s, page| s.cluster.iter().filter_map(|view| view.leader_heard_us).for_each(|us| page.value(Us(us)))),
    gauge(MetricGroup::Cluster, "delayd_raft_read_age_seconds", "", "How stale a follower's answers may be at most. Absent on the leader, and until it is known.",
        |s, page| s.cluster.iter().filter_map(|view| view.read_age_us).for_each(|us| page.value(Us(us)))),
    gauge(MetricGroup::Cluster, "delayd_raft_peer_online", "peer", "On the leader, for each other node: 1 if it was heard within the election timeout.",
        |s, page| peers(s, page, |_, peer| peer.is_heard.map(|is| Count(is.into())))),
    gauge(MetricGroup::Cluster, "delayd_raft_peer_lag_entries", "peer", "On the leader, for each other node: entries of the log that it is not known to have.",
        |s, page| peers(s, page, |view, peer| view.behind(peer).map(Count))),
    gauge(MetricGroup::Cluster, "delayd_raft_voters", "", "Nodes with a vote; more than half of them must be online.",
        |s, page| node(s, page, |view| Count(view.nodes.iter().filter(|node| node.is_voter).count() as u64))),
    gauge(MetricGroup::Cluster, "delayd_raft_voters_connected", "", "Voters that are connected to this node, including itself.",
        |s, page| node(s, page, |view| Count(view.voters_connected() as u64))),
    gauge(MetricGroup::Cluster, "delayd_raft_clock_offset_seconds", "", "How far this node's wall clock is ahead of the majority's; negative if it is behind. Absent if more than half of the voters' clocks are unknown.",
        |s, page| s.cluster.iter().filter_map(|view| view.clock).for_each(|clock| page.value(Float(clock.ahead as f64 / 1e6)))),
    gauge(MetricGroup::Cluster, "delayd_raft_clock_wrong", "", "1 if that exceeds cluster-max-clock-skew: the node leads only if no other can.",
        |s, page| node(s, page, |view| Count(u64::from(view.clock.is_some_and(|clock| clock.ahead.unsigned_abs() > view.max_skew_us))))),
    gauge(MetricGroup::Cluster, "delayd_raft_nodes_differing", "", "On the leader, after DELAY.CLUSTER VERIFY: nodes whose data differs from the leader's. Otherwise absent.",
        |s, page| s.cluster.iter().filter_map(|view| view.verified()).for_each(|(_, tally)| page.value(Count(tally.differ as u64)))),
    counter(MetricGroup::Cluster, "delayd_raft_elections_total", "", "Leaders seen since the start of the process.", |s, page| node(s, page, |view| Count(view.elections))),
    counter(MetricGroup::Cluster, "delayd_raft_reloads_total", "", "How often this node reloaded its jobs because a decision of its own was never committed.", |s, page| node(s, page, |view| Count(view.reloads))),

    gauge(MetricGroup::Clients, "delayd_clients", "", "Connections.", |s, page| page.value(Count(s.clients))),
    gauge(MetricGroup::Clients, "delayd_clients_max", "", "Maximum number of connections (maxclients); of a partition, what the others leave of it.", |s, page| page.value(Count(s.clients_max.saturating_sub(s.beside_clients)))),
    gauge(MetricGroup::Clients, "delayd_clients_blocked", "on", "Waiting clients: for a job, or for the journal (WAITAOF, SAVE).",
        |s, page| { page.of("on", "job", Count(s.waiters)); page.of("on", "journal", Count(s.journal_waiters)); }),
    counter(MetricGroup::Clients, "delayd_connections_total", "", "Connections accepted. CONFIG RESETSTAT resets this and the following counters to 0.", |s, page| page.value(Count(s.counters.connections))),
    counter(MetricGroup::Clients, "delayd_connections_rejected_total", "", "Connections refused, for maxclients or by protected mode.", |s, page| page.value(Count(s.counters.connections_rejected))),
    counter(MetricGroup::Clients, "delayd_clients_closed_total", "reason", "Clients closed for their memory: input (a request too large), output (unread replies), memory (the client that held most, beyond max-clients-memory).",
        |s, page| { page.of("reason", "input", Count(s.counters.closed_for_input)); page.of("reason", "output", Count(s.counters.closed_for_output)); page.of("reason", "memory", Count(s.counters.closed_for_memory)); }),
    counter(MetricGroup::Clients, "delayd_network_received_bytes_total", "", "Bytes read from clients.", |s, page| page.value(Count(s.counters.input_bytes))),
    counter(MetricGroup::Clients, "delayd_network_sent_bytes_total", "", "Bytes written to clients.", |s, page| page.value(Count(s.counters.output_bytes))),
    counter(MetricGroup::Clients, "delayd_commands_total", "command", "Commands executed.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Count(counts.calls)))),
    counter(MetricGroup::Clients, "delayd_command_seconds_total", "command", "Time spent executing commands.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Us(counts.took_ns / 1_000)))),
    counter(MetricGroup::Clients, "delayd_commands_failed_total", "command", "Commands executed and answered with an error.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Count(counts.failed)))),
    counter(MetricGroup::Clients, "delayd_commands_rejected_total", "command", "Commands refused before execution.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Count(counts.rejected)))),
    counter(MetricGroup::Clients, "delayd_errors_total", "class", "Error replies by the first word of their text.",
        |s, page| s.errors.iter().for_each(|(class, count)| page.of("class", class, Count(count)))),

    gauge(MetricGroup::Server, "delayd_build_info", "version, redis_version", "1; the labels are the versions of delayd and of the Redis that it emulates.",
        |_, page| page.labelled(&format!("version=\"{}\",redis_version=\"{}\"", crate::VERSION, crate::REDIS_VERSION), Count(1))),
    gauge(MetricGroup::Server, "delayd_ready", "", "1 when /readyz answers 200: the journal is loaded and has not failed, and no stop was requested.", |s, page| page.value(Count(s.ready.into()))),
    gauge(MetricGroup::Server, "delayd_start_time_seconds", "", "When the server started, unix time.", |s, page| page.value(Us(s.start_us))),
    gauge(MetricGroup::Server, "delayd_tzdata_info", "version, source", "1; the labels are the version of the time-zone tables in use, and their source: bundled, system, or a folder.",
        |s, page| page.two(("version", &s.zones.version), ("source", &s.zones.source), Count(1))),
    gauge(MetricGroup::Server, "delayd_tzdata_year", "", "The year in the version of the time-zone tables. Absent if it is unknown.",
        |s, page| s.zones.year.into_iter().for_each(|year| page.value(Count(year.into())))),
    gauge(MetricGroup::Server, "delayd_memory_jobs_bytes", "", "Memory held for jobs and queues.", |s, page| page.value(Count(s.engine_bytes))),
    gauge(MetricGroup::Server, "delayd_memory_leases_bytes", "", "Extra memory that jobs need once all of them have been delivered. Adding reserves it, except for 1/16 of maxmemory.", |s, page| page.value(Count(s.lease_bytes))),
    gauge(MetricGroup::Server, "delayd_memory_jobs_max_bytes", "", "Limit of memory for jobs (maxmemory), of a partition what the others leave of it; 0 without a limit. Beyond it commands that add answer OOM.", |s, page| page.value(Count(s.memory_bytes_left()))),
    gauge(MetricGroup::Server, "delayd_memory_clients_bytes", "", "Memory held for requests, replies and waiting clients.", |s, page| page.value(Count(s.clients_bytes))),
    gauge(MetricGroup::Server, "delayd_memory_clients_max_bytes", "", "Limit of memory for clients (max-clients-memory).", |s, page| page.value(Count(s.clients_bytes_max))),
    gauge(MetricGroup::Server, "delayd_memory_peak_bytes", "", "Peak memory held for jobs and clients.", |s, page| page.value(Count(s.memory_bytes_peak))),
    gauge(MetricGroup::Server, "delayd_memory_resident_bytes", "", "Resident memory of the process.", |s, page| page.value(Count(s.memory_bytes_resident))),
    counter(MetricGroup::Server, "delayd_cpu_seconds_total", "mode", "Processor time of the process: system, user.",
        |s, page| { page.of("mode", "system", Float(s.processor_s.0)); page.of("mode", "user", Float(s.processor_s.1)); }),
    histogram(MetricGroup::Server, "delayd_turn_seconds", "Duration of the turns of the main loop, without waiting. A client waits for one or two of them at most.", |s, page| page.spread(&s.turns)),
    counter(MetricGroup::Server, "delayd_clock_steps_total", "", "Steps of the wall clock (it was set).", |s, page| page.value(Count(s.clock_steps))),
    gauge(MetricGroup::Server, "delayd_clock_ahead_seconds", "", "How far the server's clock is ahead of a wall clock that was set back: it runs at half speed until the wall clock has caught up.", |s, page| page.value(Us(s.clock_ahead_us))),
    gauge(MetricGroup::Server, "delayd_clock_doubted_seconds", "", "How far the wall clock is ahead of the server's clock while it is not trusted: it jumped by more than max-clock-jump less than a minute ago.", |s, page| page.value(Us(s.clock_doubted_us))),
    counter(MetricGroup::Server, "delayd_standstills_total", "", "How often the process stalled for more than 50 ms: a suspended machine, swap, SIGSTOP, a long command. Leases that would have ended meanwhile are extended.", |s, page| page.value(Count(s.standstills))),
    counter(MetricGroup::Server, "delayd_standstill_seconds_total", "", "Total duration of these stalls.", |s, page| page.value(Us(s.standstill_us))),
    gauge(MetricGroup::Server, "delayd_time_seconds", "", "The server's clock, unix time.", |s, page| page.value(Us(s.now_us))),
];

fn each(scrape: &Scrape, page: &mut Page, value: impl Fn(&Row) -> Option<SampleValue>) {
    for (at, row) in scrape.rows.iter().enumerate() {
        value(row).into_iter().for_each(|value| page.row(at, "", value));
    }
}

/// A sample that only a node of a cluster has.
fn node(scrape: &Scrape, page: &mut Page, value: fn(&ClusterView) -> SampleValue) {
    scrape.cluster.iter().for_each(|view| page.value(value(view)));
}

/// A sample for each other node for which the leader has a value.
fn peers(
    scrape: &Scrape,
    page: &mut Page,
    value: fn(&ClusterView, &NodeView) -> Option<SampleValue>,
) {
    let Some(view) = scrape.cluster.as_deref().filter(|view| view.leads) else { return };
    for peer in view.others() {
        value(view, peer).into_iter().for_each(|value| page.of("peer", peer.name.as_str(), value));
    }
}

/// A sample that there is only with a journal.
fn journal(scrape: &Scrape, page: &mut Page, value: SampleValue) {
    if scrape.journal.enabled {
        page.value(value);
    }
}

fn journal_state(scrape: &Scrape) -> &'static str {
    match scrape.journal.trouble {
        _ if scrape.journal.loading.is_some() => "loading",
        JournalTrouble::None => "ok",
        JournalTrouble::Full(_) => "full",
        JournalTrouble::Failed(_) => "failed",
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("name", &self.name).finish_non_exhaustive()
    }
}

// The written reference of the metrics, from the table.

/// All metrics as tables in Markdown, a heading for each part.
pub fn markdown() -> String {
    let mut text = String::new();
    for part in MetricGroup::ALL {
        let title = part.word();
        write!(text, "### {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n")
            .expect("a String takes all");
        for Family { name, kind, labels, help, .. } in
            FAMILIES.iter().filter(|family| family.part == part)
        {
            let kind = kind.word();
            writeln!(text, "| `{name}` | {kind} | {labels} | {help} |")
                .expect("a String takes all");
        }
        text.push('\n');
    }
    text
}
