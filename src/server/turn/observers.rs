//! The loop's side of what watches it: how it stands and that it turns is told after every turn, and
//! what a scrape wants is collected in slices, some queues a turn.

use crate::config::options::Name;
use crate::engine::watch::histogram::CounterHistogram;
use crate::engine::watch::survey::Walk;
use crate::limits::SCRAPED_PER_TURN;
use crate::observe::cluster::ClusterView;
use crate::observe::metrics::top::Top;
use crate::observe::metrics::{Scrape, TURN_US};
use crate::server::admin::info;
use crate::server::turn::Turns;
use crate::server::watch::status::{GAUGES, Standing, StatusBoard};
use crate::server::watch::supervisor::Supervisor;
use crate::session;
use std::sync::Arc;
use tokio::sync::oneshot::Sender;

/// Who watches, if anybody does.
#[derive(Debug)]
pub struct Observers {
    status: Option<Arc<StatusBoard>>,
    supervisor: Option<Supervisor>,
    sent: Option<Standing>,
    turns: CounterHistogram,
    collecting: Option<Collecting>,
}

/// A scrape on its way.
#[derive(Debug)]
struct Collecting {
    walk: Walk,
    top: Top,
    waiting: Vec<Sender<Arc<Scrape>>>,
}

impl Observers {
    /// None if nobody does.
    pub fn new(
        status: Option<Arc<StatusBoard>>,
        supervisor: Option<Supervisor>,
    ) -> Option<Box<Observers>> {
        if status.is_none() && supervisor.is_none() {
            return None;
        }
        let turns = CounterHistogram::new(&TURN_US);
        Some(Box::new(Observers { status, supervisor, sent: None, turns, collecting: None }))
    }

    /// Whether a scrape wants another turn.
    pub fn is_collecting(&self) -> bool {
        self.collecting.is_some()
    }

    /// Tells how the server stands.
    pub fn report(&mut self, standing: Standing, mono_us: u64) {
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.report(&standing, mono_us);
        }
        if self.sent.as_ref() != Some(&standing) {
            if let Some(status) = &self.status {
                status.set_standing(standing.clone());
            }
            self.sent = Some(standing);
        }
    }
}

impl Turns {
    /// When the turn began, if anybody wants to know; monotonic, µs.
    pub(in crate::server) fn begun_us(&self) -> Option<u64> {
        self.observers.is_some().then(|| self.core.clock.timer.mono_us())
    }

    /// Tells those who watch how the server stands.
    pub fn report_standing(&mut self) {
        let standing = self.standing(self.draining);
        if let Some(observers) = &mut self.observers {
            observers.report(standing, self.core.clock.timer.mono_us());
        }
    }

    /// Tells those who watch of the turn that began at `begun_us`.
    pub(in crate::server) fn report(&mut self, begun_us: Option<u64>) {
        let (Some(mut observers), Some(begun_us)) = (self.observers.take(), begun_us) else {
            return;
        };
        observers.report(self.standing(self.draining), self.core.clock.mono_us);
        self.collect(&mut observers);
        let mono_us = self.core.clock.timer.mono_us();
        observers.turns.record(mono_us.saturating_sub(begun_us));
        if let Some(status) = &observers.status {
            status.turned(mono_us);
            status.set_gauges(self.gauges());
        }
        self.observers = Some(observers);
    }

    /// What a console samples.
    fn gauges(&self) -> [u64; GAUGES] {
        let [delayed, ready, leased, dead] = self.core.engine.job_counts();
        let totals = &self.core.engine.tally().totals;
        [delayed, ready, leased, dead, totals.added, totals.delivered, totals.acked, totals.died]
    }

    /// A slice of what a scrape wants.
    fn collect(&mut self, observers: &mut Observers) {
        let Some(status) = &observers.status else { return };
        let collecting = match observers.collecting.take() {
            Some(collecting) => Some(collecting),
            None => {
                let waiting = status.take_asked();
                let rows_max = self.core.options.config.size(Name::MetricsQueuesMax);
                let (walk, top) = (Walk::default(), Top::new(rows_max));
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
                    // Who gave up meanwhile is not told.
                    let _ = waiting.send(Arc::clone(&scrape));
                }
            }
        }
    }

    /// How the server stands.
    pub(in crate::server) fn standing(&self, draining: bool) -> Standing {
        if draining || self.core.process.shutdown.is_some() {
            return Standing::Stopping;
        }
        let standing = self.core.durability.standing();
        match &self.core.view {
            Some(view) if standing == Standing::Serving => self.standing_among(view),
            _ => standing,
        }
    }

    /// How a node stands whose journal is there.
    fn standing_among(&self, view: &ClusterView) -> Standing {
        let apart = |why: &str| Standing::Apart(why.into());
        let sick = view.health.sick.map(|sick| sick.why.text());
        match &self.core.standing {
            session::Standing::Serving if self.troubles.is_stuck() => {
                apart("it leads, and the disks of a majority take nothing")
            }
            session::Standing::Serving if view.has_lease() => {
                let (leads, text) = match view.is_to_make_way() {
                    true => (false, "serving, until another node does"),
                    false => (true, "serving"),
                };
                sick.map_or(Standing::Serving, |why| Standing::Sick { leads, text, why })
            }
            session::Standing::Serving => Standing::Unsure,
            session::Standing::Loading => apart("not all jobs are there yet"),
            session::Standing::Forming { missing } => {
                Standing::Apart(format!("the cluster is forming: {missing}").into())
            }
            session::Standing::Following { .. } if view.is_led() => {
                let (leads, text) = (false, "following");
                sick.map_or(Standing::Following, |why| Standing::Sick { leads, text, why })
            }
            session::Standing::Following { .. } => apart("no leader was heard of lately"),
            session::Standing::Down => apart("no quorum of the cluster answers"),
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
