//! Readiness for a service manager: systemd's notification protocol, `Type=notify` and `WatchdogSec`.
//!
//! `READY=1` is sent when the journal is loaded, so that units ordered after this one start when requests are served.
//! During loading the start timeout is extended. The watchdog is fed by the turns: a loop that hangs feeds nothing.

use crate::limits::{ALIVE_LOADING_GOOD_US, ALIVE_LOADING_US, SUPERVISOR_MESSAGES_MAX};
use crate::server::observe::status::ServiceState;
use sd_notify::NotifyState;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A message to send.
#[derive(Debug)]
enum SupervisorMessage {
    Standing(ServiceState),
    Alive,
}

/// See the module. Messages are sent by a thread of their own, so that a manager that does not listen blocks nothing.
#[derive(Debug)]
pub struct Supervisor {
    sender: Option<SyncSender<SupervisorMessage>>,
    thread: Option<JoinHandle<()>>,
    sent: Option<ServiceState>,
    sent_us: u64,
    /// From one sign of life to the next, µs; none without a watchdog.
    alive_us: Option<u64>,
    alive_at_us: u64,
}

impl Supervisor {
    /// For the manager that the environment names, if it does.
    pub fn from_environment() -> Option<Supervisor> {
        std::env::var_os("NOTIFY_SOCKET")?;
        let (sender, receiver) = sync_channel(SUPERVISOR_MESSAGES_MAX);
        let thread = std::thread::Builder::new().name("notify".to_owned());
        let thread = match thread.spawn(move || send_all(&receiver)) {
            Ok(thread) => thread,
            Err(error) => {
                tracing::warn!(%error, "the service manager is not notified");
                return None;
            }
        };
        // Three in the manager's time. The loop turns once a second at least.
        let alive_us = sd_notify::watchdog_enabled().map(|time| time.as_micros() as u64 / 3);
        let (sender, thread) = (Some(sender), Some(thread));
        Some(Supervisor { sender, thread, sent: None, sent_us: 0, alive_us, alive_at_us: 0 })
    }

    /// After a turn: the server's state.
    pub fn report(&mut self, standing: &ServiceState, mono_us: u64) {
        let changed = self.sent.as_ref() != Some(standing);
        let loading = matches!(standing, ServiceState::Loading(_));
        let due = if loading { mono_us >= self.sent_us + ALIVE_LOADING_US } else { changed };
        if (due || self.sent.is_none()) && self.send(SupervisorMessage::Standing(standing.clone()))
        {
            (self.sent, self.sent_us) = (Some(standing.clone()), mono_us);
        }
        if let Some(alive_us) = self.alive_us
            && mono_us >= self.alive_at_us
            && self.send(SupervisorMessage::Alive)
        {
            self.alive_at_us = mono_us + alive_us;
        }
    }

    fn send(&self, message: SupervisorMessage) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.try_send(message).is_ok())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been logged.
            let _ = thread.join();
        }
    }
}

fn send_all(messages: &Receiver<SupervisorMessage>) {
    let mut ready = false;
    for message in messages {
        let sent = match message {
            SupervisorMessage::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
            SupervisorMessage::Standing(standing) => {
                let status = standing.to_string();
                let mut states = vec![NotifyState::Status(&status)];
                match standing {
                    ServiceState::Loading(_) => {
                        states.push(NotifyState::ExtendTimeoutUsec(ALIVE_LOADING_GOOD_US));
                    }
                    ServiceState::Stopping => states.push(NotifyState::Stopping),
                    // A server whose journal failed answers reads, and a node that waits for others, which may be
                    // started after it, can do no more: both count as started.
                    _ if !ready => {
                        ready = true;
                        states.push(NotifyState::Ready);
                    }
                    _ => {}
                }
                sd_notify::notify(&states)
            }
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "the service manager could not be notified");
        }
    }
}
