//! The loop's side of monitoring: its state and its turns are reported after every turn, and the data of a scrape is
//! collected in slices, some queues a turn.

use crate::config::options::Name;
use crate::engine::observe::histogram::CounterHistogram;
use crate::engine::observe::survey::QueueWalk;
use crate::limits::SCRAPED_PER_TURN;
use crate::observe::cluster::ClusterView;
use crate::observe::metrics::top::Top;
use crate::observe::metrics::{Scrape, TURN_US};
use crate::server::admin::info;
use crate::server::observe::starter::ReadyFd;
use crate::server::observe::status::{ServiceState, StatusBoard};
use crate::server::observe::supervisor::Supervisor;
use crate::server::siblings::Siblings;
use crate::server::turn::Turns;
use crate::session;
use std::sync::Arc;
use tokio::sync::oneshot::Sender;

/// The observers, if there are any.
#[derive(Debug)]
pub struct Observers {
    status: Option<Arc<StatusBoard>>,
    supervisor: Option<Supervisor>,
    /// With the port that is told there.
    starter: Option<(ReadyFd, u16)>,
    sent: Option<ServiceState>,
    turns: CounterHistogram,
    collecting: Option<Collecting>,
}

/// A scrape on its way.
#[derive(Debug)]
struct Collecting {
    walk: QueueWalk,
    top: Top,
    waiting: Vec<Sender<Arc<Scrape>>>,
}

impl Observers {
    /// None without observers.
    pub fn new(
        status: Option<Arc<StatusBoard>>,
        supervisor: Option<Supervisor>,
        starter: Option<(ReadyFd, u16)>,
    ) -> Option<Box<Observers>> {
        if status.is_none() && supervisor.is_none() && starter.is_none() {
            return None;
        }
        let turns = CounterHistogram::new(&TURN_US);
        let (sent, collecting) = (None, None);
        Some(Box::new(Observers { status, supervisor, starter, sent, turns, collecting }))
    }

    /// Whether a scrape wants another turn.
    pub fn is_collecting(&self) -> bool {
        self.collecting.is_some()
    }

    /// Reports the server's state, and to those that started the process the state of all its partitions.
    pub fn report(&mut self, standing: ServiceState, mono_us: u64, siblings: Option<&Siblings>) {
        if self.sent.as_ref() != Some(&standing) {
            if let Some(status) = &self.status {
                status.set_standing(standing.clone());
            }
            siblings.inspect(|siblings| siblings.notify_first());
            self.sent = Some(standing.clone());
        }
        if self.supervisor.is_none() && self.starter.is_none() {
            return;
        }
        let state = siblings.map_or(Some(standing.clone()), |siblings| siblings.state(&standing));
        let Some(state) = state else { return };
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.report(&state, mono_us);
        }
        if state.is_ready()
            && let Some((ready_fd, port)) = self.starter.take()
        {
            ready_fd.tell(port);
        }
    }
}

impl Turns {
    /// When the turn began, if an observer needs it; monotonic, µs.
    pub(in crate::server) fn begun_us(&self) -> Option<u64> {
        self.observers.is_some().then(|| self.core.clock.timer.mono_us())
    }

    /// Reports the server's state to observers.
    pub fn report_standing(&mut self) {
        let standing = self.standing(self.draining);
        if let Some(observers) = &mut self.observers {
            let mono_us = self.core.clock.timer.mono_us();
            observers.report(standing, mono_us, self.core.siblings.as_ref());
        }
    }

    /// Reports the turn that began at `begun_us` to observers.
    pub(in crate::server) fn report(&mut self, begun_us: Option<u64>) {
        let (Some(mut observers), Some(begun_us)) = (self.observers.take(), begun_us) else {
            return;
        };
        let (standing, mono_us) = (self.standing(self.draining), self.core.clock.mono_us);
        observers.report(standing, mono_us, self.core.siblings.as_ref());
        self.collect(&mut observers);
        let mono_us = self.core.clock.timer.mono_us();
        observers.turns.record(mono_us.saturating_sub(begun_us));
        if let Some(status) = &observers.status {
            status.turned(mono_us);
        }
        self.observers = Some(observers);
    }

    /// A slice of what a scrape wants.
    fn collect(&mut self, observers: &mut Observers) {
        let Some(status) = &observers.status else { return };
        let collecting = match observers.collecting.take() {
            Some(collecting) => Some(collecting),
            None => {
                let waiting = status.take_asked();
                let rows_max = self.core.options.config.size(Name::MetricsQueuesMax);
                let (walk, top) = (QueueWalk::default(), Top::new(rows_max));
                (!waiting.is_empty()).then_some(Collecting { walk, top, waiting })
            }
        };
        let Some(mut collecting) = collecting else { return };
        let (now, top) = (self.core.clock.now, &mut collecting.top);
        match self.core.engine.walk(collecting.walk, SCRAPED_PER_TURN, now, |queue| top.add(queue))
        {
            Some(next) => {
                collecting.walk = next;
                observers.collecting = Some(collecting);
            }
            None => {
                let scrape = Arc::new(self.scrape(collecting.top, &observers.turns));
                for waiting in collecting.waiting {
                    // Receivers that gave up meanwhile are skipped.
                    let _ = waiting.send(Arc::clone(&scrape));
                }
            }
        }
    }

    pub(in crate::server) fn standing(&self, draining: bool) -> ServiceState {
        if self.core.siblings.as_ref().is_some_and(|siblings| siblings.leaves(siblings.own())) {
            // The process goes on.
            return ServiceState::Apart("it was removed from its cluster, and begins anew".into());
        }
        if draining || self.core.process.shutdown.is_some() {
            return ServiceState::Stopping;
        }
        let standing = self.core.durability.standing();
        match &self.core.view {
            Some(view) if standing == ServiceState::Serving => self.standing_among(view),
            _ => standing,
        }
    }

    /// The standing of a node with a loaded journal.
    fn standing_among(&self, view: &ClusterView) -> ServiceState {
        let apart = |why: &str| ServiceState::Apart(why.into());
        let sick = view.health.sick.map(|sick| sick.why.text());
        match &self.core.standing {
            session::NodeStanding::Serving if self.troubles.is_stuck() => {
                apart("it leads, but a majority of disks accepts nothing")
            }
            session::NodeStanding::Serving if view.has_lease() => {
                let (leads, text) = match view.is_to_make_way() {
                    true => (false, "serving until another node leads"),
                    false => (true, "serving"),
                };
                sick.map_or(ServiceState::Serving, |why| ServiceState::Sick { leads, text, why })
            }
            session::NodeStanding::Serving => ServiceState::Unsure,
            session::NodeStanding::Loading => apart("not all jobs are loaded yet"),
            session::NodeStanding::Forming { .. }
                if view.elsewhere.is_some() && self.core.siblings.is_some() =>
            {
                ServiceState::Elsewhere
            }
            session::NodeStanding::Forming { missing } => {
                ServiceState::Apart(format!("the cluster is forming: {missing}").into())
            }
            session::NodeStanding::Following { .. } if view.is_led() => {
                let (leads, text) = (false, "following");
                sick.map_or(ServiceState::Following, |why| ServiceState::Sick { leads, text, why })
            }
            session::NodeStanding::Following { .. } => apart("no leader was heard recently"),
            session::NodeStanding::Down => apart("no quorum of the cluster answers"),
        }
    }

    pub(in crate::server) fn scrape(&self, top: Top, turns: &CounterHistogram) -> Scrape {
        let (rows, rest) = top.finish();
        Scrape {
            all: info::snapshot(&self.core, self.clients.count()),
            ready: self.standing(false).is_ready(),
            lateness: self.core.watch.lateness.spread().clone(),
            syncs: self.core.durability.syncs(),
            turns: turns.clone(),
            rows,
            rest,
        }
    }
}
