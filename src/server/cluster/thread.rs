//! The raft thread: it sleeps until sockets, the log or the turn have something for it, and then does a step of the
//! [`RaftLoop`].
//!
//! It accesses no file and waits for nothing: neither a long turn nor a slow disk delays heartbeats.

use crate::cluster::driver::Driver;
use crate::cluster::peer::hello::Secret;
use crate::limits::ELECTION_TICKS;
use crate::server::clock::timer::wall_us;
use crate::server::cluster::bases::Bases;
use crate::server::cluster::mailbox::{Ask, Mailbox};
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::raft_loop::{LoopNext, NodeLog, RaftLoop};
use crate::server::cluster::transport::Transport;
use crate::time::Micros;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

#[derive(Debug)]
pub struct RaftThread<L> {
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<L>>,
}

impl<L: NodeLog + Send + 'static> RaftThread<L> {
    /// Starts it. Whatever works for `log` wakes `mailbox`'s wake-up when something is done.
    ///
    /// # Errors
    /// The system has no descriptor or thread for it.
    pub fn start(
        driver: Driver,
        log: L,
        mailbox: Arc<Mailbox>,
        listeners: Vec<TcpListener>,
        secret: Secret,
        tls: PeerTls,
        bases: Option<Arc<Bases>>,
    ) -> io::Result<RaftThread<L>> {
        let election_us = driver.tick_us() * ELECTION_TICKS as u64;
        let wakeup = Arc::clone(mailbox.wakeup());
        let mut transport =
            Transport::new(driver.claims(), secret, election_us, listeners, wakeup)?;
        transport.set_tls(tls);
        transport.set_bases(bases);
        let raft = RaftLoop::new(driver, log, transport, Arc::clone(&mailbox));
        let ends = Arc::clone(&mailbox);
        let thread = std::thread::Builder::new().name("raft".to_owned());
        let thread = thread.spawn(move || {
            // A thread that panics must not leave the turn waiting for ever.
            let _guard = FailOnPanic(Arc::clone(&ends));
            run(raft, &ends)
        })?;
        Ok(RaftThread { mailbox, thread: Some(thread) })
    }

    /// Ends it, and returns the log; nothing if it had panicked. Data it has written to the sockets still leaves.
    pub fn stop(mut self) -> Option<L> {
        self.end()
    }
}

impl<L> RaftThread<L> {
    fn end(&mut self) -> Option<L> {
        self.mailbox.ask(Ask::Stop);
        // A panic has been logged and is a failure already.
        self.thread.take()?.join().ok()
    }
}

impl<L> Drop for RaftThread<L> {
    fn drop(&mut self) {
        self.end();
    }
}

struct FailOnPanic(Arc<Mailbox>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a bug in delayd; see the log");
        }
    }
}

/// Until it is asked to end, or cannot go on.
fn run<L: NodeLog>(mut raft: RaftLoop<L, Transport>, mailbox: &Mailbox) -> L {
    loop {
        let (is_awake, by) = (raft.is_awake(), raft.wake_by());
        match raft.peers.wait(is_awake, by) {
            Ok(()) => {
                let now = Micros(raft.peers.now_us());
                if raft.step(now, wall_us(), |_| ()) == LoopNext::Stop {
                    return raft.log;
                }
            }
            Err(error) => {
                tracing::error!(%error, "this node has left the cluster: it cannot wait for its peers");
                mailbox.fail(&error.to_string());
                return raft.log;
            }
        }
    }
}
