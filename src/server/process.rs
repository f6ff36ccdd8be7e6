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
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// See the module. Its partitions listen and do not serve yet.
#[derive(Debug)]
pub struct Partitions {
    servers: Vec<Server>,
    log_level: LogLevel,
    allocator: Option<Allocator>,
}

/// What a partition's thread says at its end: which one it was, and how it ended.
type End = (u16, io::Result<()>);

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
            return Ok(Partitions::of(vec![Server::bind(config)?]));
        }
        let users = admin::users::read(&config).map_err(io::Error::other)?;
        let all =
            (0..config.partitions()).map(|own| Server::bind(config.clone().of_partition(own)));
        let all = all.collect::<io::Result<Vec<Server>>>()?;
        let places = all.iter().map(|server| (Arc::clone(&server.notifier), server.place()));
        let siblings = Siblings::of_process(&config, users.by_name(), places);
        let all = all.into_iter().zip(siblings);
        let all = all.map(|(server, own)| Server { siblings: Some(own), ..server });
        folders::finish(&config)?;
        Ok(Partitions::of(all.collect()))
    }

    fn of(servers: Vec<Server>) -> Partitions {
        Partitions { servers, log_level: LogLevel::default(), allocator: None }
    }

    /// What the process is to be, of all partitions alike, see [`Server`]; the first one greets and tells a service
    /// manager of all.
    pub fn with(
        self,
        log_level: &LogLevel,
        greeting: fn(&Server),
        allocator: Option<&Allocator>,
    ) -> Partitions {
        let Partitions { servers, .. } = self;
        let (log_level, allocator) = (log_level.clone(), allocator.cloned());
        let mut all = Partitions { servers: Vec::new(), log_level, allocator };
        all.servers = servers.into_iter().map(|server| all.of_process(server)).collect();
        if let Some(first) = all.servers.first_mut() {
            first.greeting = Some(greeting);
        }
        all
    }

    fn of_process(&self, server: Server) -> Server {
        Server {
            supervised: server.config.partition == 0,
            log_level: self.log_level.clone(),
            signals: true,
            allocator: self.allocator.clone(),
            ..server
        }
    }

    /// Serves until it is asked to stop.
    ///
    /// # Errors
    /// The first of a partition, after which the others were stopped in order, within 20 s.
    pub fn run(mut self) -> io::Result<()> {
        if self.servers.len() == 1 {
            return self.servers.remove(0).run();
        }
        let servers = std::mem::take(&mut self.servers);
        let stoppers: Vec<_> = servers.iter().map(Server::stopper).collect();
        let process = servers[0].siblings.as_ref().map(|first| first.again(0).0);
        let process = process.expect("several partitions know each other");
        let (ends, ended) = channel();
        for server in servers {
            serve(server, &ends)?;
        }
        let (mut how, mut left) = (Ok(()), stoppers.len());
        let mut until: Option<Instant> = None;
        while left > 0 {
            let end = match until {
                None => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => ended.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            // The process ends, and they with it: what was answered is safe.
            let Ok((partition, mut end)) = end else {
                let text = format!("{left} partitions did not stop in time");
                return how.and(Err(io::Error::other(text)));
            };
            if left == stoppers.len() && end.is_ok() && process.leaves(partition) {
                end = self.begin_anew(&process, partition).and_then(|server| serve(server, &ends));
                if end.is_ok() {
                    continue;
                }
            }
            (how, left) = (how.and(end), left - 1);
            if how.is_err() && until.is_none() {
                until = Some(Instant::now() + Duration::from_secs(PARTITIONS_STOP_S));
            }
            stoppers.iter().for_each(|stopper| stopper.stop_once());
        }
        how
    }

    /// A partition in the place of one whose node was removed from its cluster: with the same ports and an empty folder,
    /// where it waits to be added again.
    fn begin_anew(&self, process: &Siblings, partition: u16) -> io::Result<Server> {
        let (siblings, config) = process.again(partition);
        let config = config.of_partition(partition);
        let kept = folders::leave(&config.folder(), &siblings.members())?;
        tracing::warn!(
            "partition {partition} waits to be added to its cluster again; what it had is kept in {}",
            kept.display()
        );
        let notifier = Arc::clone(siblings.notifier());
        let server = Server { notifier, siblings: Some(siblings), ..Server::bind(config)? };
        Ok(self.of_process(server))
    }
}

/// Runs a partition on a thread of its own.
fn serve(server: Server, ends: &Sender<End>) -> io::Result<()> {
    let (partition, ends) = (server.config.partition, ends.clone());
    let name = format!("part-{partition:02}");
    let run = move || {
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
        let _ = ends.send((partition, how));
    };
    thread::Builder::new().name(name).spawn(run).map(drop)
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
