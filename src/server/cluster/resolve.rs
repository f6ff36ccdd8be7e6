//! Addresses of host names. The system is asked by threads of their own: it may take seconds.

use crate::cluster::members::names::{Address, Name};
use crate::lock::lock;
use crate::server::cluster::poll::Wakeup;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};

pub type Resolved = (Name, io::Result<Vec<SocketAddr>>);

pub struct Resolver {
    found: Arc<Mutex<Vec<Resolved>>>,
    wakeup: Arc<Wakeup>,
}

impl Resolver {
    /// `wakeup` is signalled when an answer is there.
    pub fn new(wakeup: Arc<Wakeup>) -> Resolver {
        Resolver { found: Arc::default(), wakeup }
    }

    /// Begins to resolve the addresses of a node. The caller ensures that there is only one request at a time for each;
    /// nothing waits for the thread.
    pub fn begin(&self, name: Name, address: &Address) -> io::Result<()> {
        let (found, wakeup) = (Arc::clone(&self.found), Arc::clone(&self.wakeup));
        let (host, port) = (address.host().to_owned(), address.port());
        let thread = std::thread::Builder::new().name("delayd-names".to_owned());
        thread.spawn(move || {
            let addresses = (&host[..], port).to_socket_addrs().map(Iterator::collect);
            lock(&found).push((name, addresses));
            wakeup.wake();
        })?;
        Ok(())
    }

    /// The results since the last call.
    pub fn take(&self) -> Vec<Resolved> {
        std::mem::take(&mut *lock(&self.found))
    }
}

/// The address of a host that needs not be looked for.
pub fn literal(address: &Address) -> Option<SocketAddr> {
    let ip: IpAddr = address.host().parse().ok()?;
    Some(SocketAddr::new(ip, address.port()))
}
