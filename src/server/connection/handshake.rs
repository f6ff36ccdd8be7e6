//! TLS handshakes, on a thread of their own: signing with a large key takes a millisecond, for which no
//! other client is to wait.

use crate::limits::TLS_HANDSHAKE_MS_MAX;
use crate::lock::lock;
use crate::server::connection::lines::LineRate;
use crate::server::connection::stream::{Accepted, ConnectionEnds, Stream};
use crate::server::connection::tls::Tls;
use crate::server::connection::wake::Notifier;
use rustls::{ServerConfig, ServerConnection};
use std::io;
use std::net;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;

/// The loop's end of it.
#[derive(Debug)]
pub struct Handshakes {
    /// Bounded by the caller, which knows how many handshakes are in progress.
    sender: UnboundedSender<BegunHandshake>,
    shared: Arc<SharedHandshakes>,
}

#[derive(Debug)]
struct BegunHandshake {
    socket: net::TcpStream,
    config: Arc<ServerConfig>,
}

#[derive(Debug)]
struct SharedHandshakes {
    done: Mutex<Vec<DoneHandshake>>,
    /// Begun, and not yet taken.
    count: AtomicUsize,
    notifier: Arc<Notifier>,
    /// Bounds what is said of those that failed.
    lines: LineRate,
}

type DoneHandshake = (net::TcpStream, ServerConnection);

impl Handshakes {
    /// Starts the thread, which ends with this.
    pub fn start(notifier: Arc<Notifier>) -> io::Result<Handshakes> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(SharedHandshakes {
            done: Mutex::default(),
            count: AtomicUsize::new(0),
            notifier,
            lines: LineRate::default(),
        });
        let (sender, receiver) = unbounded_channel();
        let mine = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("delayd-tls".to_owned())
            .spawn(move || runtime.block_on(serve(receiver, mine)))?;
        Ok(Handshakes { sender, shared })
    }

    pub fn count(&self) -> usize {
        self.shared.count.load(Ordering::Relaxed)
    }

    /// How many lines about failures were left out since the last time, if any was.
    pub fn left_out(&self) -> Option<u64> {
        self.shared.lines.left_out()
    }

    pub fn begin(&self, socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
        let socket = socket.into_std()?;
        self.shared.count.fetch_add(1, Ordering::Relaxed);
        // Fails only when the thread is gone; then nothing is counted on.
        let _ = self.sender.send(BegunHandshake { socket, config });
        Ok(())
    }

    /// Those that are over and went well.
    pub fn take(&self) -> Vec<Accepted> {
        let done = std::mem::take(&mut *lock(&self.shared.done));
        self.shared.count.fetch_sub(done.len(), Ordering::Relaxed);
        let ready = |(socket, session): DoneHandshake| {
            let socket = TcpStream::from_std(socket)?;
            let peer = ConnectionEnds::of(&socket)?;
            io::Result::Ok(Accepted::Ready(Stream::Tls(Box::new(Tls::new(socket, session))), peer))
        };
        // Clients that have disconnected by now are dropped.
        done.into_iter().filter_map(|done| ready(done).ok()).collect()
    }
}

async fn serve(mut receiver: UnboundedReceiver<BegunHandshake>, shared: Arc<SharedHandshakes>) {
    while let Some(begun) = receiver.recv().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let limit = Duration::from_millis(TLS_HANDSHAKE_MS_MAX);
            // Read now: a failed socket has no address any more.
            let peer = begun.socket.peer_addr();
            let shaken = tokio::time::timeout(limit, shake(begun)).await;
            let late = || io::Error::new(io::ErrorKind::TimedOut, "it took longer than 10 s");
            match shaken.unwrap_or_else(|_| Err(late())) {
                Ok(done) => {
                    lock(&shared.done).push(done);
                    shared.notifier.notify();
                }
                Err(error) => {
                    if shared.lines.admits() {
                        let peer = peer.map_or("gone".to_owned(), |peer| peer.to_string());
                        tracing::warn!(%error, %peer, "a TLS handshake failed");
                    }
                    shared.count.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
    }
}

async fn shake(begun: BegunHandshake) -> io::Result<DoneHandshake> {
    let socket = TcpStream::from_std(begun.socket)?;
    let stream = TlsAcceptor::from(begun.config).accept(socket).await?;
    let (socket, session) = stream.into_inner();
    Ok((socket.into_std()?, session))
}
