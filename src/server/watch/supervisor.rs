//! Readiness for a service manager: systemd's notification protocol, `Type=notify` and `WatchdogSec`.
//!
//! `READY=1` is sent when the journal is loaded, so that what is ordered behind the unit starts when
//! requests are served. While it loads, the time limit of the start is pushed out. The watchdog is fed
//! by the turns: a loop that hangs feeds nobody.

use crate::limits::{ALIVE_LOADING_GOOD_US, ALIVE_LOADING_US, SUPERVISOR_MESSAGES_MAX};
use crate::server::watch::status::Standing;
use sd_notify::NotifyState;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// What is to be sent.
#[derive(Debug)]
enum Message {
    Standing(Standing),
    Alive,
}

/// See the module. Messages are sent by a thread of their own, so that a manager that does not listen
/// makes nobody wait.
#[derive(Debug)]
pub struct Supervisor {
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    sent: Option<Standing>,
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

    /// After a turn: how the server stands.
    pub fn report(&mut self, standing: &Standing, mono_us: u64) {
        let changed = self.sent.as_ref() != Some(standing);
        let loading = matches!(standing, Standing::Loading(_));
        let due = if loading { mono_us >= self.sent_us + ALIVE_LOADING_US } else { changed };
        if (due || self.sent.is_none()) && self.send(Message::Standing(standing.clone())) {
            (self.sent, self.sent_us) = (Some(standing.clone()), mono_us);
        }
        if let Some(alive_us) = self.alive_us
            && mono_us >= self.alive_at_us
            && self.send(Message::Alive)
        {
            self.alive_at_us = mono_us + alive_us;
        }
    }

    fn send(&self, message: Message) -> bool {
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

fn send_all(messages: &Receiver<Message>) {
    let mut ready = false;
    for message in messages {
        let sent = match message {
            Message::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
            Message::Standing(standing) => {
                let status = standing.to_string();
                let mut states = vec![NotifyState::Status(&status)];
                match standing {
                    Standing::Loading(_) => {
                        states.push(NotifyState::ExtendTimeoutUsec(ALIVE_LOADING_GOOD_US));
                    }
                    Standing::Stopping => states.push(NotifyState::Stopping),
                    // A server whose journal failed answers reads, and a node that waits for others, which may be
                    // started after it, can do no more: both have started.
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
