//! The raft thread: it sleeps until sockets, the log or the turn have something for it, and then does a step of the
//! [`RaftLoop`].
//!
//! It touches no file and waits for nobody: neither a long turn nor a slow disk keeps heartbeats back.

use crate::cluster::driver::Driver;
use crate::cluster::hello::Secret;
use crate::limits::ELECTION_TICKS;
use crate::server::clock::timer::wall_us;
use crate::server::cluster::bases::Bases;
use crate::server::cluster::desk::{Ask, Desk};
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::raft_loop::{Next, NodeLog, RaftLoop};
use crate::server::cluster::transport::Transport;
use crate::time::Micros;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A raft thread that runs.
#[derive(Debug)]
pub struct RaftThread<L> {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<L>>,
}

impl<L: NodeLog + Send + 'static> RaftThread<L> {
    /// Starts it. Whatever works for `log` wakes `desk`'s wake-up when something is done.
    ///
    /// # Errors
    /// The system has no descriptor or thread for it.
    pub fn start(
        driver: Driver,
        log: L,
        desk: Arc<Desk>,
        listeners: Vec<TcpListener>,
        secret: Secret,
        tls: PeerTls,
        bases: Option<Arc<Bases>>,
    ) -> io::Result<RaftThread<L>> {
        let election_us = driver.tick_us() * ELECTION_TICKS as u64;
        let wakeup = Arc::clone(desk.wakeup());
        let mut transport =
            Transport::new(driver.claims(), secret, election_us, listeners, wakeup)?;
        transport.set_tls(tls);
        transport.set_bases(bases);
        let raft = RaftLoop::new(driver, log, transport, Arc::clone(&desk));
        let ends = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("raft".to_owned());
        let thread = thread.spawn(move || {
            // A thread that panics must not leave the turn waiting for ever.
            let _guard = FailOnPanic(Arc::clone(&ends));
            run(raft, &ends)
        })?;
        Ok(RaftThread { desk, thread: Some(thread) })
    }

    /// Ends it, and gives the log back; nothing if it had panicked. What it has written to the sockets still leaves.
    pub fn stop(mut self) -> Option<L> {
        self.end()
    }
}

impl<L> RaftThread<L> {
    fn end(&mut self) -> Option<L> {
        self.desk.ask(Ask::Stop);
        // A panic has been logged and is a failure already.
        self.thread.take()?.join().ok()
    }
}

impl<L> Drop for RaftThread<L> {
    fn drop(&mut self) {
        self.end();
    }
}

struct FailOnPanic(Arc<Desk>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a bug of delayd's own; see the log");
        }
    }
}

/// Until it is asked to end, or cannot go on.
fn run<L: NodeLog>(mut raft: RaftLoop<L, Transport>, desk: &Desk) -> L {
    loop {
        let is_awake = raft.is_awake();
        match raft.peers.wait(is_awake) {
            Ok(has_ticked) => {
                let now = Micros(raft.peers.now_us());
                if raft.step(now, has_ticked.then(wall_us), |_| ()) == Next::Stop {
                    return raft.log;
                }
            }
            Err(error) => {
                tracing::error!(%error, "the node takes no part any more: it cannot wait for its peers");
                desk.fail(&error.to_string());
                return raft.log;
            }
        }
    }
}
