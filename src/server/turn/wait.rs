//! The loop around the turns: what wakes it, and how it ends.

use crate::console::http::listen::Serving;
use crate::limits::{SHUTDOWN_MS_MAX, TICK_US};
use crate::server::clock::timer::{self, Alarm, StepWatch};
use crate::server::connection::listen::{Door, Listener};
use crate::server::connection::wake::Notifier;
use crate::server::observe::console_link::ConsoleLink;
use crate::server::turn::Turns;
use crate::server::turn::succession::Succession;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::signal::unix::Signal;

pub struct Loop {
    turns: Turns,
    listeners: Vec<Door>,
    alarm: Alarm,
    step_watch: StepWatch,
    signals: Signals,
    notifier: Arc<Notifier>,
    woken: Vec<u32>,
    /// Ends with the loop.
    beside: Beside,
    /// How often a stop was asked for here,
    stops: u32,
    /// and of others, who ask this one, too.
    told: u32,
    /// A listener failed, as it does when there are no file descriptors: left alone until then.
    accept_from_us: u64,
}

/// Signals that the process listens to; none in a test.
#[derive(Debug, Default)]
pub struct Signals {
    pub stop: Vec<Signal>,
    pub reload: Option<Signal>,
}

/// Threads that run alongside the loop, and end with it.
#[derive(Debug, Default)]
pub struct Beside {
    pub http: Option<Serving>,
    pub console: Option<Serving>,
    pub console_link: Option<ConsoleLink>,
}

impl Loop {
    /// Opens the listeners and sets the alarms.
    pub fn new(
        turns: Turns,
        listeners: Vec<Listener>,
        beside: Beside,
        signals: Signals,
    ) -> io::Result<Loop> {
        Ok(Loop {
            notifier: Arc::clone(&turns.notifier),
            turns,
            listeners: listeners.into_iter().map(Door::open).collect::<io::Result<_>>()?,
            alarm: Alarm::new()?,
            step_watch: StepWatch::new()?,
            signals,
            woken: Vec::new(),
            stops: 0,
            told: 0,
            beside,
            accept_from_us: 0,
        })
    }

    /// Runs turns until a stop is asked for.
    pub async fn run(mut self) -> io::Result<()> {
        // Without a journal there may be nothing to wake the loop for a second.
        self.turns.report_standing();
        while self.asked() == 0 {
            self.wait_by(u64::MAX).await?;
            self.turns.turn()?;
            match self.turns.core.process.shutdown.take() {
                Some(true) => {
                    if let Some(siblings) = &self.turns.core.siblings {
                        siblings.stop_others(true);
                    }
                    return self.turns.core.durability.close();
                }
                Some(false) => self.stops += 1,
                None => {}
            }
        }
        self.drain().await
    }

    /// Finishes what is half done and sees the last replies out, within bounds.
    async fn drain(mut self) -> io::Result<()> {
        tracing::info!("stopping: no new commands are accepted");
        if let Some(siblings) = &self.turns.core.siblings
            && !siblings.leaves(siblings.own())
        {
            siblings.stop_others(false);
        }
        self.listeners.clear();
        self.turns.drain();
        // There may be nothing to drain, and no turn any more.
        self.turns.report_standing();
        let until_us = timer::mono_us() + SHUTDOWN_MS_MAX * 1_000;
        while !self.turns.is_drained() && timer::mono_us() < until_us && self.asked() < 2 {
            self.wait_by(until_us).await?;
            self.turns.turn()?;
        }
        self.turns.take_back();
        self.turns.end_bound()?;
        self.hand_over().await?;
        self.turns.core.durability.close()?;
        self.turns.log_left_out();
        drop(std::mem::take(&mut self.beside));
        tracing::info!("stopped");
        Ok(())
    }

    /// A node that leads goes when another one does.
    async fn hand_over(&mut self) -> io::Result<()> {
        let mut succession = Succession::begin(timer::mono_us());
        while self.asked() < 2 && self.turns.stays_for(&mut succession) {
            self.wait_by(succession.wake_by_us()).await?;
            self.turns.turn()?;
        }
        Ok(())
    }

    /// A first time stops in order, a second one at once.
    fn asked(&self) -> u32 {
        self.stops.max(self.told)
    }

    /// Until the next turn has something to do, and no longer than until then; monotonic, µs.
    async fn wait_by(&mut self, by_us: u64) -> io::Result<()> {
        if self.turns.is_behind() {
            // Sockets still get their chance: the driver is polled without waiting.
            tokio::task::yield_now().await;
        } else {
            self.alarm.wake_by(self.turns.wake_by_us().min(by_us))?;
        }
        poll_fn(|cx| self.poll_woken(cx)).await
    }

    /// Ready when the next turn has something to do. All that can wake the loop is asked each time,
    /// so that each registers its waker.
    fn poll_woken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let asked_before = self.asked();
        let notified = self.notifier.take(&mut self.woken, cx.waker());
        self.stops += u32::from(notified.stop);
        self.told = self.told.max(notified.told);
        self.turns.woken(&mut self.woken);
        self.accept(cx);
        let pending = self.alarm.poll_rung(cx)?.is_ready();
        while self.step_watch.poll_stepped(cx)?.is_ready() {
            self.turns.stepped = true;
        }
        for signal in &mut self.signals.stop {
            while signal.poll_recv(cx).is_ready() {
                self.stops += 1;
            }
        }
        while self.signals.reload.as_mut().is_some_and(|signal| signal.poll_recv(cx).is_ready()) {
            self.turns.hung_up = true;
        }
        let ready = pending
            || notified.notice
            || self.turns.stepped
            || self.turns.hung_up
            || self.asked() > asked_before
            || self.turns.is_behind();
        if ready { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        let now_us = self.turns.core.clock.mono_us;
        if now_us < self.accept_from_us {
            return;
        }
        let most = self.turns.accepts_max();
        for listener in &self.listeners {
            while self.turns.accepted.len() < most {
                match listener.poll_accept(cx) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(accepted)) => self.turns.accepted.push(accepted),
                    // The peer gave up before it was its turn.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    }
                    Poll::Ready(Err(error)) => {
                        tracing::warn!(%error, "accepting connections pauses for a second");
                        self.accept_from_us = now_us + TICK_US;
                        return;
                    }
                }
            }
        }
    }
}
