//! The loop around the turns: what wakes it, and how it ends.

use super::Server;
use super::core::{Core, Users};
use super::turn::Turns;
use crate::limits::{ACCEPTS_PER_TURN, SHUTDOWN_MS_MAX, TICK_US};
use crate::server::clock::timer;
use crate::server::clock::timer::{Alarm, StepWatch, Timer};
use crate::server::connection::handshake::Handshakes;
use crate::server::connection::listen::Door;
use crate::server::turn::observers::Observers;
use crate::server::watch::board::Board;
use crate::server::watch::http::Http;
use crate::server::watch::resident::Resident;
use crate::server::watch::supervisor::Supervisor;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::server::connection::wake::Bell;

/// Serves until a stop is asked for.
pub fn run(server: Server) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // Without this tokio would make the loop pause after 128 reads, as a task among others; there
    // are no others, and the turn has its own budgets.
    runtime.block_on(tokio::task::unconstrained(async { Loop::new(server)?.run().await }))
}

/// What the loop waits for.
struct Loop {
    turns: Turns,
    listeners: Vec<Door>,
    alarm: Alarm,
    step_watch: StepWatch,
    signals: Vec<Signal>,
    bell: Arc<Bell>,
    woken: Vec<u32>,
    /// Ends with the loop.
    http: Option<Http>,
    /// How often a stop was asked for.
    stops: u32,
    /// A listener failed, as it does when there are no file descriptors: left alone until then.
    accept_from_us: u64,
}

impl Loop {
    fn new(server: Server) -> io::Result<Loop> {
        let Server {
            config, acl, home, tls, listeners, addresses, bell, log_level, signals, ..
        } = server;
        let port = addresses.first().map_or(0, |address| address.port());
        let mut core = Core::new(config, port, log_level, Arc::clone(&bell), Timer::Machine);
        core.users = Users { acl, tls };
        core.outputs.reply_clock = Some(timer::mono_ns);
        // Before the journal is loaded: whoever asks is told that it is.
        let http = match server.http.is_empty() {
            true => None,
            false => {
                let board = Arc::new(Board::new(Arc::clone(&bell), core.clock.mono_us));
                Some((Http::start(server.http, Arc::clone(&board))?, board))
            }
        };
        let supervisor = server.supervised.then(Supervisor::from_environment).flatten();
        core.process.supervised = supervisor.is_some();
        let (http, board) = http.unzip();
        if let Some(give_back) = server.give_back {
            match Resident::start(give_back, Arc::clone(&bell)) {
                Ok(resident) => core.watch.resident = Some(resident),
                Err(error) => tracing::warn!("resident memory is not watched: {error}"),
            }
        }
        if let Some(home) = home {
            core.load(home)?;
        }
        let signals = match signals {
            true => vec![signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?],
            false => Vec::new(),
        };
        let mut turns = Turns::new(core, Arc::clone(&bell));
        turns.observers = Observers::new(board, supervisor);
        if turns.core.users.tls.is_some() {
            turns.handshakes = Some(Handshakes::start(Arc::clone(&bell))?);
        }
        Ok(Loop {
            turns,
            listeners: listeners.into_iter().map(Door::open).collect::<io::Result<_>>()?,
            alarm: Alarm::new()?,
            step_watch: StepWatch::new()?,
            signals,
            bell,
            woken: Vec::new(),
            stops: 0,
            http,
            accept_from_us: 0,
        })
    }

    async fn run(mut self) -> io::Result<()> {
        while self.stops == 0 {
            self.wait().await?;
            self.turns.turn()?;
            match self.turns.core.process.shutdown.take() {
                Some(true) => return self.turns.core.durability.close(),
                Some(false) => self.stops += 1,
                None => {}
            }
        }
        self.drain().await
    }

    /// Finishes what is half done and sees the last replies out, within bounds.
    async fn drain(mut self) -> io::Result<()> {
        tracing::info!("stopping: no new commands are taken");
        self.listeners.clear();
        self.turns.drain();
        // There may be nothing to drain, and no turn any more.
        self.turns.tell_standing();
        let until_us = timer::mono_us() + SHUTDOWN_MS_MAX * 1_000;
        while !self.turns.is_drained() && timer::mono_us() < until_us && self.stops < 2 {
            self.wait().await?;
            self.turns.turn()?;
        }
        self.turns.end_bound()?;
        self.turns.core.durability.close()?;
        drop(self.http.take());
        tracing::info!("stopped");
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<()> {
        if self.turns.is_behind() {
            // Sockets get their chance all the same: the driver is asked without waiting.
            tokio::task::yield_now().await;
        } else {
            self.alarm.wake_by(self.turns.wake_by_us())?;
        }
        poll_fn(|cx| self.poll_woken(cx)).await
    }

    /// Ready when the next turn has something to do. All that can wake the loop is asked each time,
    /// so that each registers its waker.
    fn poll_woken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let rang = self.bell.take(&mut self.woken, cx.waker());
        self.stops += u32::from(rang.stop);
        self.turns.woken(&mut self.woken);
        self.accept(cx);
        let rung = self.alarm.poll_rung(cx)?.is_ready();
        while self.step_watch.poll_stepped(cx)?.is_ready() {
            self.turns.stepped = true;
        }
        for signal in &mut self.signals {
            while signal.poll_recv(cx).is_ready() {
                self.stops += 1;
            }
        }
        let ready =
            rung || rang.news || self.turns.stepped || self.stops > 0 || self.turns.is_behind();
        if ready { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        let now_us = self.turns.core.clock.mono_us;
        if now_us < self.accept_from_us {
            return;
        }
        for listener in &self.listeners {
            while self.turns.accepted.len() < ACCEPTS_PER_TURN {
                match listener.poll_accept(cx) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(accepted)) => self.turns.accepted.push(accepted),
                    // The peer gave up before it was its turn.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    }
                    Poll::Ready(Err(error)) => {
                        tracing::warn!(%error, "no connection can be accepted for a second");
                        self.accept_from_us = now_us + TICK_US;
                        return;
                    }
                }
            }
        }
    }
}
