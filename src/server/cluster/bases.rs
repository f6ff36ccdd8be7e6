//! Base files between nodes: each over a connection and by a thread of its own, so that neither the log nor a heartbeat
//! waits for one.
//!
//! ```text
//! sender                                       receiver
//! a message: index u64, salt u64, bytes u64    a message: bytes that it has of this very file, u64
//! pieces, from there on
//!                                              messages of 0 while it reads the file through, then one of its bytes
//! the message of Raft for which it was sent
//! ```
//!
//! A transfer that breaks off is begun again by Raft, and goes on where it was. The receiver has nothing of the base in
//! place before the message, nor before the file was found whole.

mod line;
mod receive;
mod send;

use crate::cluster::members::claims::Claims;
use crate::cluster::peer::hello::{Called, Secret};
use crate::cluster::raft::codec::{Head, Outgoing};
use crate::journal::{Arrived, Disk};
use crate::lock::lock;
use crate::server::cluster::connection::Parts;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::poll::Wakeup;
use bytes::Bytes;
use line::BaseLine;
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Bases that have come from others, are whole, and have not taken the place of the log.
pub type ArrivedBases = Arc<Mutex<Vec<Arrived>>>;

/// Bases as the thread of Raft sees them.
#[derive(Debug)]
pub enum BaseEvent {
    /// The one to this node goes on.
    Moved { to: u64 },
    /// It has arrived whole, with its message; or it never will.
    Ended {
        to: u64,
        /// Which of both.
        arrived: bool,
    },
    /// One has come whole; this is its message.
    Arrived { peer: u64, head: Head, bodies: Vec<Bytes> },
}

/// Nothing in it is locked for longer than moving its content takes, except `arrived`: the log holds that while it puts a
/// base in place.
#[derive(Debug)]
pub struct Bases {
    storage: Arc<Disk>,
    wakeup: Arc<Wakeup>,
    arrived: ArrivedBases,
    /// Bytes a second that are sent at most.
    rate: u64,
    events: Mutex<Vec<BaseEvent>>,
    /// By receiver: set where it is to end.
    sending: Mutex<BTreeMap<u64, Arc<AtomicBool>>>,
    /// The connection over which one comes.
    receiving: Mutex<Option<TcpStream>>,
}

/// A base to be sent.
#[derive(Debug)]
pub struct Task {
    /// The last index in it.
    pub index: u64,
    /// The message that follows when it has arrived.
    pub message: Outgoing,
    /// Where the receiver is, ...
    pub place: SocketAddr,
    /// ... its claims, ...
    pub called: Called,
    /// ... and the caller's claims.
    pub own: Claims,
    /// The cluster's.
    pub secret: Secret,
    /// The encryption of the connection.
    pub tls: PeerTls,
}

impl Bases {
    /// Bases of the journal in `storage`. Those that come are laid down in `arrived`, for the log; the thread of Raft
    /// is woken by `wakeup`.
    pub fn new(
        storage: Arc<Disk>,
        wakeup: Arc<Wakeup>,
        arrived: ArrivedBases,
        rate: u64,
    ) -> Arc<Bases> {
        Arc::new(Bases {
            storage,
            wakeup,
            arrived,
            rate,
            events: Mutex::default(),
            sending: Mutex::default(),
            receiving: Mutex::default(),
        })
    }

    /// Begins to send; one that goes to the same node ends. [`BaseEvent::Ended`] follows.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn send(self: &Arc<Bases>, task: Task) -> io::Result<()> {
        let (bases, to) = (Arc::clone(self), task.message.to);
        let is_over = Arc::new(AtomicBool::new(false));
        let before = lock(&self.sending).insert(to, Arc::clone(&is_over));
        if let Some(before) = before {
            before.store(true, Ordering::Relaxed);
        }
        let thread = std::thread::Builder::new().name("base-out".to_owned());
        thread.spawn(move || {
            let arrived = send::run(&bases, &task, &is_over);
            // A receiver that was replaced gets no more messages.
            if !is_over.load(Ordering::Relaxed) {
                bases.tell(BaseEvent::Ended { to, arrived });
            }
        })?;
        Ok(())
    }

    /// Takes over a connection from the node `peer`, called `name`, which has identified itself. An existing one ends:
    /// the sender has started again, or another node leads.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn receive(self: &Arc<Bases>, parts: Parts, peer: u64, name: &str) -> io::Result<()> {
        let Parts { socket, inbox, sealer, unsent } = parts;
        socket.tcp().set_nonblocking(false)?;
        let before = lock(&self.receiving).replace(socket.tcp().try_clone()?);
        if let Some(before) = before {
            // It may be over already.
            let _ = before.shutdown(Shutdown::Both);
        }
        let mut line = BaseLine::new(socket, inbox)?;
        line.sealer = sealer;
        let (bases, name) = (Arc::clone(self), name.to_owned());
        let thread = std::thread::Builder::new().name("base-in".to_owned());
        thread.spawn(move || {
            // The end of the handshake, which the loop may have had no room for; if it fails, so does what follows.
            let _ = line.write(&unsent);
            receive::run(&bases, line, peer, &name);
        })?;
        Ok(())
    }

    /// The events since the last call.
    pub fn take_events(&self) -> Vec<BaseEvent> {
        std::mem::take(&mut lock(&self.events))
    }

    pub fn stop(&self) {
        lock(&self.sending).values().for_each(|is_over| is_over.store(true, Ordering::Relaxed));
        if let Some(stream) = lock(&self.receiving).take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn tell(&self, event: BaseEvent) {
        lock(&self.events).push(event);
        self.wakeup.wake();
    }
}
