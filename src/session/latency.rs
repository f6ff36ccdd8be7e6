//! LATENCY: what took long, and how long commands take.

use crate::command::spec::action::Server;
use crate::session::world::World;
use crate::session::{Session, Step};

impl Session {
    pub(super) fn latency(&mut self, what: Server<'_>, world: &mut dyn World) -> Step {
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        match what {
            Server::LatencyReset(events) => {
                let count = world.latency_reset(events);
                return self.integer(count, world);
            }
            Server::LatencyDoctor => {
                let text = world.latency_doctor();
                world.encoder(self.id).verbatim_txt(&text);
            }
            Server::LatencyGraph(event) => {
                let Some(text) = world.latency_graph(event) else {
                    let event = String::from_utf8_lossy(&event[..event.len().min(128)]);
                    let text = format!("ERR No samples available for event '{event}'");
                    return self.fail(&text, world);
                };
                world.encoder(self.id).verbatim_txt(&text);
            }
            Server::LatencyHistory(event) => {
                let samples = world.latency_history(event);
                let mut out = world.encoder(self.id);
                out.array(samples.len());
                for (at_s, took_ms) in samples {
                    out.array(2);
                    out.integer(integer(at_s));
                    out.integer(integer(took_ms));
                }
            }
            Server::LatencyHistogram(names) => {
                let all = world.histograms(names);
                let mut out = world.encoder(self.id);
                out.map(all.len());
                for CallTimes { name, calls, up_to_us } in all {
                    out.bulk(name.as_bytes());
                    out.map(2);
                    out.bulk(b"calls");
                    out.integer(integer(calls));
                    out.bulk(b"histogram_usec");
                    out.map(up_to_us.len());
                    for (us, count) in up_to_us {
                        out.integer(integer(us));
                        out.integer(integer(count));
                    }
                }
            }
            _ => {
                let latest = world.latency_latest();
                let mut out = world.encoder(self.id);
                out.array(latest.len());
                for LatestEvent { event, at_s, took_ms, max_ms } in latest {
                    out.array(4);
                    out.bulk(event.as_bytes());
                    out.integer(integer(at_s));
                    out.integer(integer(took_ms));
                    out.integer(integer(max_ms));
                }
            }
        }
        Step::Done
    }
}

/// The newest sample of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LatestEvent {
    /// What took long.
    pub event: &'static str,
    /// Unix seconds.
    pub at_s: u64,
    /// How long it took, ms.
    pub took_ms: u64,
    /// The longest of all, ms.
    pub max_ms: u64,
}

/// How long a command's calls took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallTimes {
    /// The command.
    pub name: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// How many of the calls took up to so many us; only where that grows.
    pub up_to_us: Vec<(u64, u64)>,
}
