//! A client's requests to a Sentinel: SENTINEL, INFO and ROLE on its port.

use crate::command::spec::action::{Failover, SentinelRequest as Asked};
use crate::config::options::Name;
use crate::glob;
use crate::ids::ClientId;
use crate::limits::HAND_OVER_MS_MAX;
use crate::observe::cluster::ClusterView;
use crate::observe::sentinel::{Sentinel, SentinelFields, run_id};
use crate::resp::Encoder;
use crate::server::admin::{cluster, info};
use crate::server::core::Core;
use crate::time::Micros;

const UNKNOWN: &str = "ERR No such master with that name";
const NO_SET: &str = "ERR SENTINEL CONFIG SET is not supported: a Sentinel's answers follow from the options of its \
                      node";

/// SENTINEL. An error's text begins with its class. `clients` is how many there are.
pub fn write(
    core: &mut Core,
    client: ClientId,
    asked: Asked<'_>,
    clients: usize,
) -> Result<(), String> {
    let view = view(core);
    let info = match asked {
        Asked::InfoCache(_) => info::info(core, clients, &[]),
        _ => String::new(),
    };
    let Core { sentinel, options, outputs, .. } = core;
    let sentinel = Sentinel { name: &sentinel.name, view: &view, watcher: &sentinel.watcher };
    let known = |name: &[u8]| name == sentinel.name.as_bytes();
    let check = |name| if known(name) { Ok(()) } else { Err(UNKNOWN.to_owned()) };
    let out = &mut outputs.encoder(client);
    match asked {
        Asked::MasterAddress(name) => match sentinel.master_address().filter(|_| known(name)) {
            Some(address) => {
                out.array(2);
                out.bulk(address.host().as_bytes());
                out.bulk_unsigned(address.port().into());
            }
            None => out.null_array(),
        },
        Asked::Masters => write_all(&[sentinel.master()], out),
        Asked::Master(name) => {
            check(name)?;
            write_fields(&sentinel.master(), out);
        }
        Asked::Replicas(name) => {
            check(name)?;
            write_all(&sentinel.replicas(), out);
        }
        Asked::Sentinels(name) => {
            check(name)?;
            write_all(&sentinel.sentinels(), out);
        }
        Asked::CheckQuorum(name) => {
            check(name)?;
            out.simple(&sentinel.check_quorum()?);
        }
        Asked::MyId => out.bulk(run_id(view.node).as_bytes()),
        Asked::InfoCache(names) if names.iter().any(|name| known(name)) => {
            out.array(2);
            out.bulk(sentinel.name.as_bytes());
            out.array(1);
            out.array(2);
            out.integer(0);
            out.bulk(info.as_bytes());
        }
        Asked::InfoCache(_) => out.array(0),
        Asked::ConfigGet(patterns) => {
            let options = settings(&view, options.config.text(Name::LogLevel));
            let is_asked = |name: &str| {
                patterns.iter().any(|pattern| glob::matches_any_case(pattern, name.as_bytes()))
            };
            let options: SentinelFields =
                options.into_iter().filter(|(name, _)| is_asked(name)).collect();
            write_fields(&options, out);
        }
        Asked::ConfigSet => return Err(NO_SET.to_owned()),
        Asked::Failover(name) => {
            check(name)?;
            cluster::fail_over(core, Failover::Begin { to: None, timeout_ms: HAND_OVER_MS_MAX })?;
            core.outputs.encoder(client).ok();
        }
    }
    Ok(())
}

/// ROLE of a Sentinel: the names of its masters.
pub fn write_role(core: &mut Core, client: ClientId) {
    let Core { outputs, sentinel, .. } = core;
    let mut out = outputs.encoder(client);
    out.array(2);
    out.bulk(b"sentinel");
    out.array(1);
    out.bulk(sentinel.name.as_bytes());
}

pub fn info(core: &mut Core, clients: usize, sections: &[&[u8]]) -> String {
    let view = view(core);
    let Core { sentinel, .. } = core;
    let sentinel = Sentinel { name: &sentinel.name, view: &view, watcher: &sentinel.watcher };
    let status = sentinel.status();
    info::info_of_sentinel(core, clients, sections, status)
}

/// The current state of the cluster. The turn's copy may be older: after a standstill a node must not report the
/// previous leader.
fn view(core: &mut Core) -> ClusterView {
    let (now, leads) = (Micros(core.clock.timer.boot_us()), core.standing.leads());
    if let Some(node) = core.durability.replicated()
        && let Some(status) = node.mailbox.status()
    {
        return ClusterView { leads, ..node.view(&status, now) };
    }
    core.view.as_deref().expect("a node of a cluster alone answers as a Sentinel").clone()
}

fn settings(view: &ClusterView, level: &str) -> SentinelFields {
    let own = view.nodes.iter().find(|node| node.id == view.node);
    let own = own.and_then(|node| node.sentinel.as_ref());
    let yes = || "yes".to_owned();
    vec![
        ("announce-ip", own.map_or(String::new(), |own| own.host().to_owned())),
        ("announce-port", own.map_or(0, |own| own.port()).to_string()),
        ("resolve-hostnames", yes()),
        ("announce-hostnames", yes()),
        ("sentinel-user", String::new()),
        ("sentinel-pass", String::new()),
        ("loglevel", level.to_owned()),
    ]
}

fn write_all(all: &[SentinelFields], out: &mut Encoder<'_>) {
    out.array(all.len());
    all.iter().for_each(|fields| write_fields(fields, out));
}

fn write_fields(fields: &SentinelFields, out: &mut Encoder<'_>) {
    out.map(fields.len());
    for (name, value) in fields {
        out.field(name).bulk(value.as_bytes());
    }
}
