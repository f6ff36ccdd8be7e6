//! CLIENT PAUSE: commands are kept back, and nothing changes meanwhile.

use crate::server::core::Core;
use crate::server::turn::Turns;

/// A pause.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// Monotonic, µs.
    pub until_us: u64,
    /// Only commands that write are kept back.
    pub writes_only: bool,
}

impl Core {
    /// Clients are paused from now on, for `ms`; a pause that runs is over.
    pub fn pause(&mut self, ms: u64, writes_only: bool) {
        let until_us = self.clock.mono_us.saturating_add(ms.saturating_mul(1_000));
        self.pause = Some(Pause { until_us, writes_only });
        // In this turn already, no time passes behind the command.
        self.set_flow();
    }

    /// The pause is over.
    pub fn unpause(&mut self) {
        self.pause = None;
    }

    /// Ends the pause when its time has come.
    pub fn end_late_pause(&mut self) {
        if self.pause.is_some_and(|pause| pause.until_us <= self.clock.mono_us) {
            self.unpause();
        }
    }
}

impl Turns {
    /// When no pause holds them back any more, those whose commands were kept back go on.
    pub(in crate::server) fn resume_postponed(&mut self) {
        self.core.end_late_pause();
        if self.core.pause.is_some() {
            return;
        }
        for slot in std::mem::take(&mut self.postponed) {
            if let Some(client) = self.clients.get_mut(slot)
                && std::mem::take(&mut client.socket.postponed)
            {
                self.core.postponed_count -= 1;
                self.list(slot);
            }
        }
    }
}
