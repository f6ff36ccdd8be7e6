//! The table of metrics: all there is to know about each, stated once. It feeds the text of a scrape
//! and the written reference.

use super::Scrape;
use super::text::{Page, Value};
use super::top::{Row, sides};
use crate::cluster::health::Why;
use crate::engine::model::schedule::ScheduleState::{Active, Done, Held, Paused};
use crate::engine::model::schedule::{Miss, ScheduleCounts};
use crate::observe::cluster::{ClusterView, NodeView};
use crate::observe::persistence::Trouble;
use crate::words::words;
use Value::{Count, Float, Us};

words! {
    /// What a metric is.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Kind {
        /// Only grows, from 0 at the start of the server unless it says otherwise.
        Counter = "counter",
        /// Goes up and down.
        Gauge = "gauge",
        /// Counts below bounds, a sum and a count.
        Histogram = "histogram",
    }
}

/// Metrics that belong together have a part of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub enum Part {
    /// Are jobs on time, and how many are there?
    Jobs,
    Queues,
    /// Is what was acknowledged safe?
    Journal,
    /// Who leads, and have the others what it has? Only on nodes of a cluster.
    Cluster,
    /// Who is connected, and what do they ask?
    Clients,
    Server,
}

/// A metric with all its samples.
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Family {
    pub part: Part,
    pub name: &'static str,
    pub kind: Kind,
    /// Its labels; empty for none.
    pub labels: &'static str,
    pub help: &'static str,
    pub(super) write: fn(&Scrape, &mut Page<'_>),
}

const STATE_LABELS: [&str; 4] =
    [r#"state="delayed""#, r#"state="ready""#, r#"state="leased""#, r#"state="dead""#];

const fn gauge(
    part: Part,
    name: &'static str,
    labels: &'static str,
    help: &'static str,
    write: fn(&Scrape, &mut Page<'_>),
) -> Family {
    Family { part, name, kind: Kind::Gauge, labels, help, write }
}

const fn counter(
    part: Part,
    name: &'static str,
    labels: &'static str,
    help: &'static str,
    write: fn(&Scrape, &mut Page<'_>),
) -> Family {
    Family { part, name, kind: Kind::Counter, labels, help, write }
}

const fn histogram(
    part: Part,
    name: &'static str,
    help: &'static str,
    write: fn(&Scrape, &mut Page<'_>),
) -> Family {
    Family { part, name, kind: Kind::Histogram, labels: "", help, write }
}

/// All metrics, in the order of the text and of the reference.
#[rustfmt::skip]
pub static FAMILIES: [Family; 119] = [
    gauge(Part::Jobs, "delayd_jobs", "state", "Jobs of all queues by state: delayed, ready, leased, dead.",
        |s, page| (0..4).for_each(|i| page.labelled(STATE_LABELS[i], Count(s.jobs[i])))),
    gauge(Part::Jobs, "delayd_queues", "db", "Queues that have a job, by database.",
        |s, page| for (db, count) in s.queues.iter().enumerate().filter(|(db, count)| *db == 0 || **count > 0) {
            page.of("db", &db.to_string(), Count(*count));
        }),
    gauge(Part::Jobs, "delayd_waiters", "", "Clients that wait for a job.", |s, page| page.value(Count(s.waiters))),
    gauge(Part::Jobs, "delayd_oldest_ready_age_seconds", "", "How long ago the oldest ready job of all queues fell due; 0 when no job is ready. Jobs whose time has not come do not count.",
        |s, page| page.value(Us(s.oldest_ready_age_ms().unwrap_or(0) * 1_000))),
    gauge(Part::Jobs, "delayd_oldest_lease_age_seconds", "", "How long ago the oldest running lease began, to the second, up to a day; 0 when none runs. For a lease from before the last start: at least so long.",
        |s, page| page.value(Us(s.oldest_lease_age_us.unwrap_or(0)))),
    gauge(Part::Jobs, "delayd_next_wakeup_timestamp_seconds", "", "When the server has something to do next, unix time; a lower bound. Absent when nothing is planned.",
        |s, page| s.next_wakeup_ms.into_iter().filter(|ms| *ms > 0).for_each(|ms| page.value(Us(ms.saturating_mul(1_000))))),
    histogram(Part::Jobs, "delayd_lateness_seconds", "From the due time to the release of the reply, for jobs for which a consumer was waiting when they fell due.",
        |s, page| page.spread(&s.lateness)),
    gauge(Part::Jobs, "delayd_lateness_last_minute_max_seconds", "", "The greatest lateness of the last minute.",
        |s, page| page.value(Us(s.lateness_minute_us[3]))),
    histogram(Part::Jobs, "delayd_lease_duration_seconds", "From the delivery of a job to its acknowledgement.",
        |s, page| page.spread(&s.tally.until_ack)),
    counter(Part::Jobs, "delayd_jobs_added_total", "", "Jobs added.", |s, page| page.value(Count(s.tally.totals.added))),
    counter(Part::Jobs, "delayd_jobs_due_total", "", "Jobs whose time came while they were delayed. Those added for now are not among them.",
        |s, page| page.value(Count(s.tally.due))),
    counter(Part::Jobs, "delayd_jobs_delivered_total", "", "Jobs handed to consumers, retries and those that came back unsent included.",
        |s, page| page.value(Count(s.tally.totals.delivered))),
    counter(Part::Jobs, "delayd_jobs_returned_total", "", "Hand-offs to connections that were closed before the first byte of the reply left; such a job goes back to its place, uncounted.",
        |s, page| page.value(Count(s.tally.returned))),
    counter(Part::Jobs, "delayd_jobs_acked_total", "", "Jobs acknowledged.", |s, page| page.value(Count(s.tally.totals.acked))),
    counter(Part::Jobs, "delayd_jobs_nacked_total", "", "NACKs, counted and uncounted ones.", |s, page| page.value(Count(s.tally.totals.nacked))),
    counter(Part::Jobs, "delayd_lease_timeouts_total", "", "Leases that ran out.", |s, page| page.value(Count(s.tally.totals.timeouts))),
    counter(Part::Jobs, "delayd_leases_lost_total", "", "BOUND leases that ended with their connection.", |s, page| page.value(Count(s.tally.totals.lost))),
    counter(Part::Jobs, "delayd_jobs_died_total", "", "Jobs that became dead letters.", |s, page| page.value(Count(s.tally.totals.died))),
    counter(Part::Jobs, "delayd_jobs_dropped_total", "", "Dead letters that left by age or number.", |s, page| page.value(Count(s.tally.totals.dropped))),
    counter(Part::Jobs, "delayd_jobs_redriven_total", "", "Dead letters that DELAY.REDRIVE gave another try.", |s, page| page.value(Count(s.tally.redriven))),
    counter(Part::Jobs, "delayd_jobs_expired_total", "", "Jobs whose TTL passed before they were delivered.", |s, page| page.value(Count(s.tally.totals.expired))),
    counter(Part::Jobs, "delayd_jobs_deleted_total", "", "Jobs removed by DELAY.DEL, CANCEL, PURGE or REPLACE.", |s, page| page.value(Count(s.tally.totals.deleted))),
    counter(Part::Jobs, "delayd_jobs_removed_total", "", "Jobs removed with their queue by DEL, UNLINK, FLUSHDB, FLUSHALL or RENAME.", |s, page| page.value(Count(s.tally.removed))),

    gauge(Part::Jobs, "delayd_schedules", "state", "Schedules of all queues by state: active, paused, held (something is due that cannot be made), done (no instant is left).",
        |s, page| {
            let ScheduleCounts { active, paused, held, done, .. } = s.schedules;
            let counts = [(Active, active), (Paused, paused), (Held, held), (Done, done)];
            counts.into_iter().for_each(|(state, count)| page.of("state", state.word(), Count(count)));
        }),

    counter(Part::Jobs, "delayd_schedule_occurrences_total", "", "Occurrences that schedules made; those of RUN are not among them.", |s, page| page.value(Count(s.tally.outcomes.made))),
    counter(Part::Jobs, "delayd_schedule_missed_total", "reason", "Nominal instants of schedules that were missed: nothing was at work when they came due (downtime), they were later than their GRACE (grace), or they could not be made then (held).",
        |s, page| Miss::ALL.into_iter().zip(s.tally.missed).for_each(|(why, count)| page.of("reason", why.word(), Count(count)))),
    counter(Part::Jobs, "delayd_schedule_skipped_total", "", "Nominal instants of schedules that were skipped, since an earlier occurrence was open or the id was taken.", |s, page| page.value(Count(s.tally.outcomes.skipped))),

    gauge(Part::Queues, "delayd_queue_jobs", "db, queue, state", "A queue's jobs by state.", |s, page| {
        for (at, row) in s.rows.iter().enumerate() {
            let stats = &row.stats;
            let counts = [stats.delayed, stats.ready, stats.leased, stats.dead];
            STATE_LABELS.iter().zip(counts).for_each(|(state, count)| page.row(at, state, Count(count)));
        }
        STATE_LABELS.iter().zip(s.rest.jobs).for_each(|(state, count)| page.rest(state, Count(count)));
    }),
    gauge(Part::Queues, "delayd_queue_oldest_ready_age_seconds", "db, queue", "How long ago a queue's oldest ready job fell due; 0 when none is ready.",
        |s, page| {
            each(s, page, |row| Some(Us(row.stats.oldest_ready_age_ms.unwrap_or(0) * 1_000)));
            page.rest("", Us(s.rest.oldest_ready_age_ms.unwrap_or(0) * 1_000));
        }),
    gauge(Part::Queues, "delayd_queue_next_due_timestamp_seconds", "db, queue", "When a queue's next delayed job falls due, unix time; a lower bound for a queue whose next jobs are not in order yet. Absent without delayed jobs.",
        |s, page| {
            each(s, page, |row| row.stats.next_due.map(|due| Us(due.0.saturating_mul(1_000))));
            s.rest.next_due_ms.into_iter().for_each(|ms| page.rest("", Us(ms.saturating_mul(1_000))));
        }),
    gauge(Part::Queues, "delayd_queue_waiters", "db, queue", "Clients that wait for a job of a queue.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.waiters))); page.rest("", Count(s.rest.waiters)); }),
    gauge(Part::Queues, "delayd_queue_schedules", "db, queue", "Schedules of a queue.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.schedules))); page.rest("", Count(s.rest.schedules)); }),
    gauge(Part::Queues, "delayd_queue_paused", "db, queue, side", "Whether a queue takes jobs in (side in) and gives them out (side out): 1 while it is paused. For the queues without lines of their own: how many are.",
        |s, page| {
            for (at, row) in s.rows.iter().enumerate() {
                let (paused_in, paused_out) = sides(row.stats.paused);
                page.row(at, r#"side="in""#, Count(paused_in.into()));
                page.row(at, r#"side="out""#, Count(paused_out.into()));
            }
            page.rest(r#"side="in""#, Count(s.rest.paused_in));
            page.rest(r#"side="out""#, Count(s.rest.paused_out));
        }),
    gauge(Part::Queues, "delayd_queue_memory_bytes", "db, queue", "Memory held for a queue's jobs.",
        |s, page| { each(s, page, |row| Some(Count(row.stats.bytes))); page.rest("", Count(s.rest.bytes)); }),
    gauge(Part::Queues, "delayd_queue_lateness_p99_seconds", "db, queue", "99 of 100 deliveries of a queue were not later than this, of all since the queue was made; at the moment of the decision, before the reply's way through journal and socket.",
        |s, page| each(s, page, |row| Some(Us(row.stats.lateness_us[1])))),
    gauge(Part::Queues, "delayd_queue_lateness_max_seconds", "db, queue", "The greatest lateness of a queue since it was made.",
        |s, page| each(s, page, |row| Some(Us(row.stats.lateness_us[3])))),
    counter(Part::Queues, "delayd_queue_added_total", "db, queue", "Jobs added to a queue. As all of a queue's totals it survives restarts and begins at 0 again when the queue is removed.",
        |s, page| each(s, page, |row| Some(Count(row.stats.totals.added)))),
    counter(Part::Queues, "delayd_queue_delivered_total", "db, queue", "Jobs of a queue handed to consumers, those that came back unsent since the start included.",
        |s, page| each(s, page, |row| Some(Count(row.stats.totals.delivered + row.returned)))),
    counter(Part::Queues, "delayd_queue_acked_total", "db, queue", "Jobs of a queue acknowledged.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.acked)))),
    counter(Part::Queues, "delayd_queue_nacked_total", "db, queue", "NACKs of a queue's jobs.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.nacked)))),
    counter(Part::Queues, "delayd_queue_timeouts_total", "db, queue", "Leases of a queue's jobs that ran out.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.timeouts)))),
    counter(Part::Queues, "delayd_queue_lost_total", "db, queue", "Leases of a queue's jobs that ended with their connection.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.lost)))),
    counter(Part::Queues, "delayd_queue_expired_total", "db, queue", "Jobs of a queue whose TTL passed.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.expired)))),
    counter(Part::Queues, "delayd_queue_deleted_total", "db, queue", "Jobs of a queue removed by DELAY.DEL, CANCEL, PURGE or REPLACE.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.deleted)))),
    counter(Part::Queues, "delayd_queue_died_total", "db, queue", "Jobs of a queue that became dead letters.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.died)))),
    counter(Part::Queues, "delayd_queue_dropped_total", "db, queue", "Dead letters of a queue that left by age or number.", |s, page| each(s, page, |row| Some(Count(row.stats.totals.dropped)))),
    gauge(Part::Queues, "delayd_queues_unlisted", "", "Queues beyond metrics-queues-max: they are told together, with an empty queue label, and without totals.",
        |s, page| page.value(Count(s.rest.queues))),

    gauge(Part::Journal, "delayd_journal_enabled", "", "1 if changes are written to a journal (appendonly yes).", |s, page| page.value(Count(s.journal.enabled.into()))),
    gauge(Part::Journal, "delayd_journal_state", "state", "1 for the state the journal is in: ok, full (no room on the disk; it goes on by itself), failed (until a restart), loading.",
        |s, page| if s.journal.enabled {
            let is = journal_state(s);
            for state in ["ok", "full", "failed", "loading"] {
                page.of("state", state, Count(u64::from(state == is)));
            }
        }),
    gauge(Part::Journal, "delayd_journal_unsynced_bytes", "", "Bytes of the journal decided and not yet synced.", |s, page| journal(s, page, Count(s.journal.unsynced_bytes))),
    gauge(Part::Journal, "delayd_journal_unsynced_seconds", "", "Since when the oldest written byte of the journal waits for its sync.", |s, page| journal(s, page, Us(s.journal.unsynced_us))),
    gauge(Part::Journal, "delayd_journal_last_sync_timestamp_seconds", "", "When the journal was last synced, unix time.", |s, page| journal(s, page, Us(s.journal.last_sync_us))),
    histogram(Part::Journal, "delayd_journal_sync_seconds", "How long syncs of the journal took.", |s, page| if s.journal.enabled { page.spread(&s.syncs) }),
    counter(Part::Journal, "delayd_journal_slow_syncs_total", "", "Syncs of the journal that took longer than a second; while one does, no job is handed out.", |s, page| journal(s, page, Count(s.journal.syncs_delayed))),
    counter(Part::Journal, "delayd_journal_written_bytes_total", "", "Bytes written to the log.", |s, page| journal(s, page, Count(s.journal.written_bytes))),
    counter(Part::Journal, "delayd_journal_base_written_bytes_total", "", "Bytes written for base files.", |s, page| journal(s, page, Count(s.journal.base_written_bytes))),
    gauge(Part::Journal, "delayd_journal_disk_bytes", "", "Size of the journal's files.", |s, page| journal(s, page, Count(s.journal.disk_bytes))),
    gauge(Part::Journal, "delayd_journal_log_bytes", "", "Bytes of log since the newest base file: what a restart reads beside it.", |s, page| journal(s, page, Count(s.journal.log_bytes))),
    gauge(Part::Journal, "delayd_journal_base_bytes", "", "Size of the newest base file.", |s, page| journal(s, page, Count(s.journal.base_bytes))),
    gauge(Part::Journal, "delayd_journal_room_bytes", "", "Bytes reserved on the disk that can still be written to.", |s, page| journal(s, page, Count(s.journal.room_bytes))),
    counter(Part::Journal, "delayd_journal_bases_total", "", "Base files that became complete.", |s, page| journal(s, page, Count(s.journal.bases_complete))),
    gauge(Part::Journal, "delayd_journal_base_failed", "", "1 if the last base file could not be written; the log is kept, and grows.", |s, page| journal(s, page, Count(s.journal.last_base_failure.is_some().into()))),
    gauge(Part::Journal, "delayd_journal_last_base_timestamp_seconds", "", "When the newest base file became complete, unix time; at first, when the server started.", |s, page| journal(s, page, Count(s.journal.last_base_s))),

    gauge(Part::Cluster, "delayd_raft_leader", "", "1 on the node that leads: it decides what becomes of jobs.", |s, page| node(s, page, |view| Count(view.leads.into()))),
    gauge(Part::Cluster, "delayd_raft_led", "", "1 if this node leads, or has heard of a leader within twice the election timeout.", |s, page| node(s, page, |view| Count(view.is_led().into()))),
    gauge(Part::Cluster, "delayd_raft_sick", "why", "1 for the reason why this node is not to lead: disk-hangs, disk-full, disk-slow, stands-still; all are 0 while it is well.",
        |s, page| s.cluster.iter().for_each(|view| Why::ALL.into_iter().for_each(|why| page.of("why", why.word(), Count(view.health.sick.is_some_and(|sick| sick.why == why).into()))))),
    gauge(Part::Cluster, "delayd_raft_disk_waits_seconds", "", "For how long the oldest entry has waited that this node's disk does not have yet.", |s, page| node(s, page, |view| Us(view.health.waits_us))),
    gauge(Part::Cluster, "delayd_raft_sync_seconds", "", "What it took until the disk had what was written, median of the last 5 s; 0 where too little was.", |s, page| node(s, page, |view| Us(view.health.sync_us))),
    gauge(Part::Cluster, "delayd_raft_leaderless_seconds", "", "For how long this node has known of no leader; 0 while it knows one.", |s, page| node(s, page, |view| Us(view.leaderless_us.unwrap_or(0)))),
    gauge(Part::Cluster, "delayd_raft_epoch", "", "The newest epoch, in which one node at the most leads.", |s, page| node(s, page, |view| Count(view.epoch))),
    gauge(Part::Cluster, "delayd_raft_last_index", "", "Entries of the log that this node has.", |s, page| node(s, page, |view| Count(view.last))),
    gauge(Part::Cluster, "delayd_raft_committed_index", "", "Those that a majority has, as far as this node knows.", |s, page| node(s, page, |view| Count(view.committed))),
    gauge(Part::Cluster, "delayd_raft_applied_index", "", "Those that its jobs follow from.", |s, page| node(s, page, |view| Count(view.applied))),
    gauge(Part::Cluster, "delayd_raft_lease_seconds", "", "For how long the leader may still answer reads without asking the others; 0 where there is none.", |s, page| node(s, page, |view| Us(view.lease_us.unwrap_or(0)))),
    gauge(Part::Cluster, "delayd_raft_quorum_age_seconds", "", "How long ago the leader asked what a majority has answered. Absent on others.",
        |s, page| s.cluster.iter().filter_map(|view| view.quorum_us).for_each(|us| page.value(Us(us)))),
    gauge(Part::Cluster, "delayd_raft_leader_heard_age_seconds", "", "How long ago this node heard of another one that leads. Absent before it ever has.",
        |s, page| s.cluster.iter().filter_map(|view| view.leader_heard_us).for_each(|us| page.value(Us(us)))),
    gauge(Part::Cluster, "delayd_raft_read_age_seconds", "", "How old what a follower shows may be at most. Absent on the leader, and before it is known.",
        |s, page| s.cluster.iter().filter_map(|view| view.read_age_us).for_each(|us| page.value(Us(us)))),
    gauge(Part::Cluster, "delayd_raft_peer_online", "peer", "On the leader, for each other node: 1 if it was heard of within the election timeout.",
        |s, page| peers(s, page, |_, peer| peer.is_heard.map(|is| Count(is.into())))),
    gauge(Part::Cluster, "delayd_raft_peer_lag_entries", "peer", "On the leader, for each other node: entries of the log that it is not known to have.",
        |s, page| peers(s, page, |view, peer| view.behind(peer).map(Count))),
    gauge(Part::Cluster, "delayd_raft_voters", "", "Nodes with a vote; more than half of them must be there.",
        |s, page| node(s, page, |view| Count(view.nodes.iter().filter(|node| node.is_voter).count() as u64))),
    gauge(Part::Cluster, "delayd_raft_voters_connected", "", "Those that are connected to this node, itself among them.",
        |s, page| node(s, page, |view| Count(view.voters_connected() as u64))),
    gauge(Part::Cluster, "delayd_raft_clock_offset_seconds", "", "How far this node's wall clock is ahead of what most voters say; below 0: behind. Absent where more than half of their clocks are not known.",
        |s, page| s.cluster.iter().filter_map(|view| view.clock).for_each(|clock| page.value(Float(clock.ahead as f64 / 1e6)))),
    gauge(Part::Cluster, "delayd_raft_clock_wrong", "", "1 if that is more than cluster-max-clock-skew: the node leads only if no other can.",
        |s, page| node(s, page, |view| Count(u64::from(view.clock.is_some_and(|clock| clock.ahead.unsigned_abs() > view.max_skew_us))))),
    gauge(Part::Cluster, "delayd_raft_nodes_differing", "", "On the leader, once DELAY.CLUSTER VERIFY was said: nodes that hold something else than it does. Absent before and elsewhere.",
        |s, page| s.cluster.iter().filter_map(|view| view.verified()).for_each(|(_, tally)| page.value(Count(tally.differ as u64)))),
    counter(Part::Cluster, "delayd_raft_elections_total", "", "Leaders seen since the start of the process.", |s, page| node(s, page, |view| Count(view.elections))),
    counter(Part::Cluster, "delayd_raft_reloads_total", "", "Times at which this node read its jobs anew, since it had decided what was never committed.", |s, page| node(s, page, |view| Count(view.reloads))),

    gauge(Part::Clients, "delayd_clients", "", "Connections.", |s, page| page.value(Count(s.clients))),
    gauge(Part::Clients, "delayd_clients_max", "", "Connections there may be (maxclients).", |s, page| page.value(Count(s.clients_max))),
    gauge(Part::Clients, "delayd_clients_blocked", "on", "Clients that wait: for a job, or for the journal (WAITAOF, SAVE).",
        |s, page| { page.of("on", "job", Count(s.waiters)); page.of("on", "journal", Count(s.journal_waiters)); }),
    counter(Part::Clients, "delayd_connections_total", "", "Connections accepted. This and what follows begins at 0 again with CONFIG RESETSTAT.", |s, page| page.value(Count(s.counters.connections))),
    counter(Part::Clients, "delayd_connections_rejected_total", "", "Connections refused, for maxclients or by protected mode.", |s, page| page.value(Count(s.counters.connections_rejected))),
    counter(Part::Clients, "delayd_clients_closed_total", "reason", "Clients closed for what they held: input (a request too large), output (unread replies), memory (the most of all, beyond max-clients-memory).",
        |s, page| { page.of("reason", "input", Count(s.counters.closed_for_input)); page.of("reason", "output", Count(s.counters.closed_for_output)); page.of("reason", "memory", Count(s.counters.closed_for_memory)); }),
    counter(Part::Clients, "delayd_network_received_bytes_total", "", "Bytes read from clients.", |s, page| page.value(Count(s.counters.input_bytes))),
    counter(Part::Clients, "delayd_network_sent_bytes_total", "", "Bytes written to clients.", |s, page| page.value(Count(s.counters.output_bytes))),
    counter(Part::Clients, "delayd_commands_total", "command", "Commands that ran.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Count(counts.calls)))),
    counter(Part::Clients, "delayd_command_seconds_total", "command", "Time that commands ran.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Us(counts.took_ns / 1_000)))),
    counter(Part::Clients, "delayd_commands_failed_total", "command", "Commands that ran and were answered with an error.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Count(counts.failed)))),
    counter(Part::Clients, "delayd_commands_rejected_total", "command", "Commands refused before they ran.",
        |s, page| s.commands.sorted().iter().for_each(|(name, counts)| page.of("command", name, Count(counts.rejected)))),
    counter(Part::Clients, "delayd_errors_total", "class", "Error replies by the first word of their text.",
        |s, page| s.errors.iter().for_each(|(class, count)| page.of("class", class, Count(count)))),

    gauge(Part::Server, "delayd_build_info", "version, redis_version", "1; the labels tell the versions of delayd and of the Redis that it stands for.",
        |_, page| page.labelled(&format!("version=\"{}\",redis_version=\"{}\"", crate::VERSION, crate::REDIS_VERSION), Count(1))),
    gauge(Part::Server, "delayd_ready", "", "1 when /readyz says so: the journal is loaded and has not failed, and no stop was asked for.", |s, page| page.value(Count(s.ready.into()))),
    gauge(Part::Server, "delayd_start_time_seconds", "", "When the server started, unix time.", |s, page| page.value(Us(s.start_us))),
    gauge(Part::Server, "delayd_tzdata_info", "version, source", "1; the labels tell which tables of time zones are used, and whether they are bundled, the system's, or in which folder.",
        |s, page| page.two(("version", &s.zones.version), ("source", &s.zones.source), Count(1))),
    gauge(Part::Server, "delayd_tzdata_year", "", "The year that the version of these tables names: they are from none after it. Absent where it is not known.",
        |s, page| s.zones.year.into_iter().for_each(|year| page.value(Count(year.into())))),
    gauge(Part::Server, "delayd_memory_jobs_bytes", "", "Memory held for jobs and queues.", |s, page| page.value(Count(s.engine_bytes))),
    gauge(Part::Server, "delayd_memory_leases_bytes", "", "Memory that jobs take more once all of them have been delivered; adding keeps it back, but for a 16th of maxmemory.", |s, page| page.value(Count(s.lease_bytes))),
    gauge(Part::Server, "delayd_memory_jobs_max_bytes", "", "Memory there may be for jobs (maxmemory); 0 without a limit. Beyond it commands that add answer OOM.", |s, page| page.value(Count(s.memory_bytes_max))),
    gauge(Part::Server, "delayd_memory_clients_bytes", "", "Memory held for requests, replies and places in lines.", |s, page| page.value(Count(s.clients_bytes))),
    gauge(Part::Server, "delayd_memory_clients_max_bytes", "", "Memory there may be for clients (max-clients-memory).", |s, page| page.value(Count(s.clients_bytes_max))),
    gauge(Part::Server, "delayd_memory_peak_bytes", "", "The most memory ever held for jobs and clients.", |s, page| page.value(Count(s.memory_bytes_peak))),
    gauge(Part::Server, "delayd_memory_resident_bytes", "", "Resident memory of the process.", |s, page| page.value(Count(s.memory_bytes_resident))),
    counter(Part::Server, "delayd_cpu_seconds_total", "mode", "Processor time of the process: system, user.",
        |s, page| { page.of("mode", "system", Float(s.processor_s.0)); page.of("mode", "user", Float(s.processor_s.1)); }),
    histogram(Part::Server, "delayd_turn_seconds", "How long the turns of the loop took, waiting not included. No client waits longer than one or two of them.", |s, page| page.spread(&s.turns)),
    counter(Part::Server, "delayd_clock_steps_total", "", "Steps of the wall clock.", |s, page| page.value(Count(s.clock_steps))),
    gauge(Part::Server, "delayd_clock_ahead_seconds", "", "How far the server's clock is ahead of the wall clock, after that was set back: it runs at half speed until the wall clock has caught up.", |s, page| page.value(Us(s.clock_ahead_us))),
    gauge(Part::Server, "delayd_clock_doubted_seconds", "", "How far the wall clock is ahead of the server's clock, while that is more than max-clock-jump and has not stood for a minute: it is not believed yet.", |s, page| page.value(Us(s.clock_doubted_us))),
    counter(Part::Server, "delayd_standstills_total", "", "Times at which the process did nothing, or nothing else, for more than 50 ms: a suspended machine, swap, a stop. Leases that would have ended meanwhile are extended.", |s, page| page.value(Count(s.standstills))),
    counter(Part::Server, "delayd_standstill_seconds_total", "", "How long these were together.", |s, page| page.value(Us(s.standstill_us))),
    gauge(Part::Server, "delayd_time_seconds", "", "The server's clock, unix time.", |s, page| page.value(Us(s.now_us))),
];

/// A sample for each row that has a value.
fn each(scrape: &Scrape, page: &mut Page<'_>, value: impl Fn(&Row) -> Option<Value>) {
    for (at, row) in scrape.rows.iter().enumerate() {
        value(row).into_iter().for_each(|value| page.row(at, "", value));
    }
}

/// A sample that only a node of a cluster has.
fn node(scrape: &Scrape, page: &mut Page<'_>, value: fn(&ClusterView) -> Value) {
    scrape.cluster.iter().for_each(|view| page.value(value(view)));
}

/// A sample for each other node of which the leader knows one.
fn peers(
    scrape: &Scrape,
    page: &mut Page<'_>,
    value: fn(&ClusterView, &NodeView) -> Option<Value>,
) {
    let Some(view) = scrape.cluster.as_deref().filter(|view| view.leads) else { return };
    for peer in view.others() {
        value(view, peer).into_iter().for_each(|value| page.of("peer", &peer.name, value));
    }
}

/// A sample that there is only with a journal.
fn journal(scrape: &Scrape, page: &mut Page<'_>, value: Value) {
    if scrape.journal.enabled {
        page.value(value);
    }
}

fn journal_state(scrape: &Scrape) -> &'static str {
    match scrape.journal.trouble {
        _ if scrape.journal.loading.is_some() => "loading",
        Trouble::None => "ok",
        Trouble::Full(_) => "full",
        Trouble::Failed(_) => "failed",
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("name", &self.name).finish_non_exhaustive()
    }
}
