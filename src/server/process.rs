//! A process with its partitions: a server each, on a thread of its own, with its own ports, folder and journal. A process
//! is whole or not there: nothing runs before all have their ports and folders, and the first that ends ends all.
//!
//! By default there is one partition, and the server runs on the calling thread.

use super::observe::{logs::LogLevel, machine};
use super::siblings::Siblings;
use super::{Allocator, Server, admin};
use crate::config::options::Name;
use crate::config::{Config, folders};
use crate::limits::{
    DESCRIPTORS_RESERVED, PARTITION_DESCRIPTORS, PARTITIONS_CLIENTS_MIN, PARTITIONS_STOP_S,
};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// See the module. Its partitions listen and do not serve yet.
#[derive(Debug)]
pub struct Partitions(Vec<Server>);

impl Partitions {
    /// Takes the folders and opens the listeners of all.
    ///
    /// # Errors
    /// As of [`Server::bind`]; the folders are those of another number of partitions. Then nothing is open.
    pub fn bind(mut config: Config) -> io::Result<Partitions> {
        config.check().map_err(io::Error::other)?;
        if config.partitions() > 1 {
            config.set("cluster-enabled", &["yes".to_owned()]).map_err(io::Error::other)?;
        }
        check_descriptors(&config)?;
        folders::prepare(&config)?;
        if config.partitions() == 1 {
            return Ok(Partitions(vec![Server::bind(config)?]));
        }
        let users = admin::users::read(&config).map_err(io::Error::other)?;
        let all =
            (0..config.partitions()).map(|own| Server::bind(config.clone().of_partition(own)));
        let all = all.collect::<io::Result<Vec<Server>>>()?;
        let places = all.iter().map(|server| (Arc::clone(&server.notifier), server.place()));
        let siblings = Siblings::of_process(&config, users.by_name(), places);
        let all = all.into_iter().zip(siblings).map(|(server, siblings)| server.among(siblings));
        folders::finish(&config)?;
        Ok(Partitions(all.collect()))
    }

    /// What the process is to be, of all partitions alike, see [`Server`]; the first one greets and tells a service
    /// manager of all.
    pub fn with(
        self,
        log_level: &LogLevel,
        greeting: fn(&Server),
        allocator: Option<&Allocator>,
    ) -> Partitions {
        let with = |server: Server| {
            let is_first = server.config.partition == 0;
            let server = server.with_log(log_level.clone()).with_signals();
            let server = server.with_allocator(allocator.cloned());
            if is_first { server.with_supervisor().with_greeting(greeting) } else { server }
        };
        Partitions(self.0.into_iter().map(with).collect())
    }

    /// Serves until it is asked to stop.
    ///
    /// # Errors
    /// The first of a partition, after which the others were stopped in order, within 20 s.
    pub fn run(mut self) -> io::Result<()> {
        if self.0.len() == 1 {
            return self.0.remove(0).run();
        }
        let stoppers: Vec<_> = self.0.iter().map(Server::stopper).collect();
        let (ends, ended) = channel();
        for server in self.0 {
            let (partition, ends) = (server.config.partition, ends.clone());
            let name = format!("part-{partition:02}");
            thread::Builder::new().name(name).spawn(move || {
                let _of = tracing::info_span!("partition", number = partition).entered();
                let folder = server.config.folder();
                let how = server.run().map_err(|error| {
                    let text = format!("partition {partition}, {}: {error}", folder.display());
                    io::Error::new(error.kind(), text)
                });
                if let Err(error) = &how {
                    tracing::error!("the process ends: {error}");
                }
                // Received as long as the process is there.
                let _ = ends.send(how);
            })?;
        }
        let mut how = Ok(());
        let mut until: Option<Instant> = None;
        for left in (0..stoppers.len()).rev() {
            let end = match until {
                None => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => ended.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match end {
                Ok(end) => how = how.and(end),
                // The process ends, and they with it: what was answered is safe.
                Err(_) => {
                    return how.and(Err(io::Error::other(format!(
                        "{} partitions did not stop in time",
                        left + 1
                    ))));
                }
            }
            if how.is_err() && until.is_none() {
                until = Some(Instant::now() + Duration::from_secs(PARTITIONS_STOP_S));
            }
            stoppers.iter().for_each(|stopper| stopper.stop_once());
        }
        how
    }
}

/// Whether the partitions leave files for clients: without one, a journal could fail.
fn check_descriptors(config: &Config) -> io::Result<()> {
    let (count, clients) = (config.partitions(), config.number(Name::MaxClients));
    let least = clients.min(PARTITIONS_CLIENTS_MIN);
    if count == 1 || machine::make_room_for(clients, count) >= least {
        return Ok(());
    }
    let needed = least + u64::from(count - 1) * PARTITION_DESCRIPTORS + DESCRIPTORS_RESERVED;
    Err(io::Error::other(format!(
        "cluster-partitions is {count}: the limit of open files (ulimit -n, LimitNOFILE) is too low; it must be {needed} \
         at least"
    )))
}
