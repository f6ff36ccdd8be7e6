//! HTTP on the console's own thread: connections are accepted, held within limits, and asked of the [`Site`].

use super::link::Ends;
use super::patient::Patient;
use super::site::Site;
use crate::limits::{
    CONSOLE_CONNECTIONS_MAX, CONSOLE_HEAD_BYTES_MAX, HTTP_ACCEPT_PAUSE, HTTP_HEAD_TIME,
    HTTP_HEADERS_MAX, TLS_HANDSHAKE_MS_MAX,
};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// From one look for sessions that are over to the next.
const SWEEP: Duration = Duration::from_secs(10);

/// The running thread; it ends with this.
#[derive(Debug)]
pub struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Serves `site` on `listeners`, which do not block, by TLS if there is `tls`.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn start(
        listeners: Vec<TcpListener>,
        tls: Option<Arc<rustls::ServerConfig>>,
        site: Site,
    ) -> io::Result<Serving> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            let site = Arc::new(site);
            runtime.block_on(async {
                tokio::spawn(site.samples.clone().take());
                tokio::spawn(sweep(Arc::clone(&site)));
                for listener in listeners {
                    let tls = tls.clone().map(TlsAcceptor::from);
                    tokio::spawn(accept(listener, tls, Arc::clone(&site)));
                }
                // An error is the end, too.
                let _ = stopped.await;
            });
        })?;
        Ok(Serving { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been logged.
            let _ = thread.join();
        }
    }
}

/// Ends sessions that are over although nobody asks by them.
async fn sweep(site: Arc<Site>) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        site.sessions.sweep();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, site: Arc<Site>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the console cannot be served"),
    };
    let mut visits = Visits::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                visits.begin(stream, tls.clone(), &site);
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "no connection to the console can be accepted for a second");
                tokio::time::sleep(HTTP_ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Connections that are served, oldest first.
#[derive(Debug, Default)]
struct Visits(VecDeque<Visit>);

#[derive(Debug)]
struct Visit {
    task: AbortHandle,
    /// Requests that are being answered.
    busy: Arc<AtomicUsize>,
}

impl Visits {
    fn begin(&mut self, stream: TcpStream, tls: Option<TlsAcceptor>, site: &Arc<Site>) {
        self.0.retain(|visit| !visit.task.is_finished());
        if self.0.len() >= CONSOLE_CONNECTIONS_MAX {
            self.end_one();
        }
        let busy = Arc::<AtomicUsize>::default();
        let task = tokio::spawn(visit(stream, tls, Arc::clone(site), Arc::clone(&busy)));
        self.0.push_back(Visit { task: task.abort_handle(), busy });
    }

    /// Those that are asked nothing go first: they say little, or are kept open for later.
    fn end_one(&mut self) {
        let idle = self.0.iter().position(|visit| visit.busy.load(Ordering::Relaxed) == 0);
        if let Some(visit) = self.0.remove(idle.unwrap_or(0)) {
            visit.task.abort();
        }
    }
}

/// One connection from its beginning to its end. A peer that is too slow is no news; neither is one that left.
async fn visit(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    site: Arc<Site>,
    busy: Arc<AtomicUsize>,
) {
    let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return };
    let _ = stream.set_nodelay(true);
    let ends = Ends { peer, local, is_https: false, is_proven: false };
    match tls {
        None => serve(stream, ends, site, busy).await,
        Some(tls) => {
            let limit = Duration::from_millis(TLS_HANDSHAKE_MS_MAX);
            if let Ok(Ok(stream)) = tokio::time::timeout(limit, tls.accept(stream)).await {
                serve(stream, ends, site, busy).await;
            }
        }
    }
}

async fn serve<S>(stream: S, ends: Ends, site: Arc<Site>, busy: Arc<AtomicUsize>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let site = TowerToHyperService::new(site.router());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ends);
        let answering = Answering::begin(&busy);
        let answer = site.call(request);
        async move {
            let answer = answer.await;
            drop(answering);
            answer
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEAD_TIME)
        .max_buf_size(CONSOLE_HEAD_BYTES_MAX)
        .max_headers(HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream)), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the console broke");
    }
}

/// A request that is being answered, or was given up.
struct Answering(Arc<AtomicUsize>);

impl Answering {
    fn begin(busy: &Arc<AtomicUsize>) -> Answering {
        busy.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(busy))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
