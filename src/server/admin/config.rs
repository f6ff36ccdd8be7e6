//! CONFIG.

use crate::config::options::Name;
use crate::config::{Config, RefusedOptions, file};
use crate::glob;
use crate::ids::ClientId;
use crate::observe::Counters;
use crate::observe::commands::{CommandTotals, ErrorCounts};
use crate::server::admin::users;
use crate::server::cluster::{self, peer_tls};
use crate::server::connection::tls;
use crate::server::core::{Core, Users};
use crate::server::observe::machine;
use crate::server::siblings::{Agreed, ReadAgain};
use crate::session::acl::log::Denials;
use std::collections::HashSet;

/// CONFIG GET: all that match, in the order of the names.
pub fn write(core: &mut Core, client: ClientId, patterns: &[&[u8]]) {
    let mut settings = core.options.config.shown_all();
    // The value that the limit of open files allows. The file keeps its own, for a start with a higher limit.
    let clients_max = core.options.limits.clients_max;
    let maxclients = settings.iter_mut().find(|(name, _)| *name == "maxclients");
    maxclients.expect("it is an option").1 = clients_max.to_string();
    settings.sort_unstable_by_key(|(name, _)| *name);
    settings.retain(|(name, _)| {
        patterns.iter().any(|pattern| glob::matches_any_case(pattern, name.as_bytes()))
    });
    let mut out = core.outputs.encoder(client);
    out.map(settings.len());
    for (name, value) in settings {
        out.field(name).bulk(value.as_bytes());
    }
}

/// CONFIG SET of names and values in turn: all or none. Whether users have changed; the text says why not.
pub fn set(core: &mut Core, words: &[&[u8]]) -> Result<bool, String> {
    let lossy = |word: &[u8]| String::from_utf8_lossy(word).to_ascii_lowercase();
    let names: Vec<String> = words.chunks_exact(2).map(|pair| lossy(pair[0])).collect();
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(failed(name, "duplicate parameter"));
    }
    let mut pairs = Vec::with_capacity(names.len());
    for (name, pair) in names.into_iter().zip(words.chunks_exact(2)) {
        match std::str::from_utf8(pair[1]) {
            Ok(value) => pairs.push((name, value.to_owned())),
            Err(_) => return Err(failed(&name, "argument is not UTF-8")),
        }
    }
    let mut config = core.options.config.clone();
    config.set_live(&pairs).map_err(|refused| match refused {
        RefusedOptions::Unknown(name) => {
            format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
        }
        RefusedOptions::Value { option, reason, .. } => failed(&option, &reason),
    })?;
    if let Err(wrong) = cluster::options::read(&config) {
        let reason = wrong.to_string();
        let named = pairs.iter().find(|(name, _)| reason.starts_with(name.as_str()));
        return Err(failed(&named.unwrap_or(&pairs[0]).0, &reason));
    }
    let fitting = machine::make_room_for(config.number(Name::MaxClients), config.partitions());
    let is_asked = pairs.iter().any(|(name, _)| name == "maxclients");
    if is_asked && fitting < config.number(Name::MaxClients) {
        let reason = format!(
            "The operating system is not able to handle the specified number of clients, try \
             with {fitting}"
        );
        return Err(failed("maxclients", &reason));
    }
    let names_certificates = pairs.iter().find(|(name, _)| name.starts_with("tls-"));
    if let Some((name, _)) = names_certificates {
        // Also when a path stays as it is: the file may hold another certificate.
        let refused = |why| failed(name, &format!("Unable to update TLS configuration: {why}"));
        read_certificates(&mut core.users, &config).map_err(refused)?;
    }
    let names_zones = pairs.iter().any(|(name, _)| name == "tzdata");
    if names_zones {
        core.zones.check(&config).map_err(|why| failed("tzdata", &why))?;
    }
    core.options.config = config;
    core.reconfigure();
    if names_zones {
        read_zones(core);
    }
    let changed = pairs.iter().any(|(name, _)| name == "requirepass");
    if changed {
        core.users.require_password(&core.options.config);
    }
    if let Some(siblings) = &mut core.siblings {
        let certificates = names_certificates.is_some();
        siblings.options_changed(&pairs, ReadAgain { certificates, zones: names_zones });
    }
    Ok(changed)
}

/// Options and users as another partition of the process has changed them. They have been checked there.
pub fn take_up(core: &mut Core, agreed: Agreed, read: ReadAgain) {
    let Agreed { config, users, .. } = agreed;
    core.options.config = config.of_partition(core.options.config.partition);
    core.users.acl.take_over(users);
    core.reconfigure();
    if read.certificates
        && let Err(why) = read_certificates(&mut core.users, &core.options.config)
    {
        tracing::error!("the certificates stay as they were: {why}");
    }
    if read.zones {
        read_zones(core);
    }
}

/// Also when the folder stays as it is: it may hold other tables.
fn read_zones(core: &mut Core) {
    core.zones.read_again(&core.options.config, core.clock.mono_us);
    core.look_at_zones();
}

fn failed(name: &str, reason: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

/// CONFIG REWRITE: writes the settings back to the file; the text says why not, without a class.
pub fn rewrite(core: &Core) -> Result<(), String> {
    let config = &core.options.config;
    let Some(path) = &config.file else {
        return Err("The server is running without a config file".to_owned());
    };
    let users = users::lines(core)?;
    file::rewrite(config, &users, path).map_err(|error| {
        tracing::warn!(%error, path = %path.display(), "CONFIG REWRITE failed");
        format!("Rewriting config file: {error}")
    })
}

pub fn reset_stats(core: &mut Core) {
    core.watch.counters = Counters::default();
    core.watch.commands = CommandTotals::default();
    core.outputs.errors = ErrorCounts::default();
    core.users.acl.denials = Denials::default();
}

// Certificates that are loaded again while the server runs.

/// Loads the certificates for clients, for the console and for peers again. New connections use them.
///
/// # Errors
/// One of the files is missing or invalid: which and why. All certificates stay as they were.
pub fn read_certificates(users: &mut Users, config: &Config) -> Result<(), String> {
    let clients = tls::server_config(config)?;
    let peers = peer_tls::keys(config)?;
    let console = tls::console_config(config)?;
    users.tls = clients;
    users.peer_tls.set(peers);
    if let (Some(used), Some(read)) = (&users.console_tls, console) {
        used.send_replace(read);
    }
    Ok(())
}
