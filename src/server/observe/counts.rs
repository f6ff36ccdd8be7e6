//! Counters and data of the server for monitoring.

use crate::command::CommandSpec;
use crate::command::spec::Flag;
use crate::ids::ClientId;
use crate::observe::Counters;
use crate::observe::commands::CommandTotals;
use crate::observe::lateness::Lateness;
use crate::observe::rates::Rates;
use crate::observe::slowlog::{self, SlowLog};
use crate::server::clock::turn_clock::TurnClock;
use crate::server::connection::calls::{Call, Caller, Ending, Over};
use crate::server::observe::oldest_ready::OldestReady;
use crate::server::observe::resident::Resident;
use crate::server::outbox::Outputs;

#[derive(Debug, Default)]
pub struct Watch {
    pub counters: Counters,
    pub commands: CommandTotals,
    pub slow_log: SlowLog,
    pub rates: Rates,
    pub lateness: Lateness,
    /// Since when the oldest ready job is ready, as far as is known.
    pub oldest_ready: OldestReady,
    /// Watches what is resident, where the allocator is known.
    pub resident: Option<Resident>,
    /// The most memory ever used, bytes.
    pub memory_bytes_peak: u64,
    pub turns: u64,
}

/// Commands slow enough to be kept, by the options.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// `slowlog-log-slower-than`, ns.
    pub over_ns: Option<u64>,
    /// `slowlog-max-len`.
    pub len_max: usize,
    /// Bytes that those that are kept may take.
    pub bytes_max: usize,
}

impl Watch {
    /// A command ended, and ran for this long. True: log it as slow.
    #[inline]
    pub fn count_call(
        &mut self,
        spec: &'static CommandSpec,
        end: Ending,
        took_ns: u64,
        slow: Slow,
    ) -> bool {
        if end == Ending::Rejected {
            self.commands.rejected(spec);
            return false;
        }
        self.counters.commands += 1;
        self.commands.ran(spec, took_ns, end == Ending::Failed);
        let slow = slow.over_ns.is_some_and(|slow_ns| took_ns > slow_ns);
        slow && !spec.has(Flag::SkipSlowLog)
    }

    /// Counts the commands that waited and are over. `caller` gives details of a client that is still there.
    #[inline]
    pub fn count_over(
        &mut self,
        outputs: &mut Outputs,
        clock: &TurnClock,
        slow: Slow,
        caller: impl Fn(ClientId, u32) -> Option<Caller>,
    ) {
        // Asked before every command, and hardly ever is there one.
        if !outputs.over.is_empty() {
            self.count_calls(outputs, clock, slow, caller);
        }
    }

    #[cold]
    fn count_calls(
        &mut self,
        outputs: &mut Outputs,
        clock: &TurnClock,
        slow: Slow,
        caller: impl Fn(ClientId, u32) -> Option<Caller>,
    ) {
        for Over { client, slot, call, end, reply_ns } in std::mem::take(&mut outputs.over) {
            let Call { command, took_ns } = &*call;
            let took_ns = took_ns + reply_ns;
            if self.count_call(command.spec, end, took_ns, slow)
                && let Some((addr, name)) = caller(client, slot)
            {
                let (spec, args) = (command.spec, command.args().collect::<Vec<_>>());
                let entry = slowlog::SlowEntry::new(clock.now_s(), spec, &args, addr, took_ns);
                let entry = slowlog::SlowEntry { name, ..entry };
                self.slow_log.add(entry, slow.len_max, slow.bytes_max);
            }
        }
    }

    /// Counts how late the jobs are that have just left.
    pub fn note_lateness(&mut self, outputs: &mut Outputs, clock: &TurnClock) {
        if outputs.left.is_empty() {
            return;
        }
        let mono_us = clock.timer.mono_us();
        let now = clock.anchored.at(mono_us);
        for due in outputs.left.drain(..) {
            self.lateness.record(mono_us, now.0.saturating_sub(due.start().0));
        }
    }

    /// Whether requests are to wait for memory that is being given back.
    pub fn waits_for_memory(&self) -> bool {
        self.resident.as_ref().is_some_and(Resident::waits)
    }
}
