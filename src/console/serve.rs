//! HTTP on the console's own thread: connections are accepted, held within limits, and asked of the [`Site`].

use super::link::Ends;
use super::patient::{HandOn, Leaving, Patient, Peered};
use super::site::{self, Site};
use crate::limits::{
    CONSOLE_HEAD_BYTES_MAX, HTTP_ACCEPT_PAUSE, HTTP_HEAD_TIME, HTTP_HEADERS_MAX,
    TLS_HANDSHAKE_MS_MAX,
};
use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Body as Streamed, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
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
    /// Serves `site` on `listeners`, which do not block, by TLS if there is `tls`: each connection by its newest value.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn start(
        listeners: Vec<TcpListener>,
        tls: Option<watch::Receiver<Arc<rustls::ServerConfig>>>,
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
                    tokio::spawn(accept(listener, tls.clone(), Arc::clone(&site)));
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

async fn accept(
    listener: TcpListener,
    tls: Option<watch::Receiver<Arc<rustls::ServerConfig>>>,
    site: Arc<Site>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the console cannot be served"),
    };
    let mut visits = Visits::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let newest = tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.borrow())));
                visits.begin(stream, newest, &site);
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
struct Visits {
    all: VecDeque<Visit>,
    /// Connections that are only told that there are too many.
    refused: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Visit {
    task: AbortHandle,
    /// A request that has wholly come is being answered.
    busy: Arc<AtomicBool>,
}

impl Visits {
    fn begin(&mut self, stream: TcpStream, tls: Option<TlsAcceptor>, site: &Arc<Site>) {
        self.all.retain(|visit| !visit.task.is_finished());
        let most = site.options.connections_max;
        if self.all.len() >= most && !self.end_idle() {
            // A quarter more, since each takes a file.
            return self.refuse(stream, tls, most / 4);
        }
        let busy = Arc::<AtomicBool>::default();
        let task = tokio::spawn(visit(stream, tls, Arc::clone(site), Arc::clone(&busy)));
        self.all.push_back(Visit { task: task.abort_handle(), busy });
    }

    /// Ends the oldest that is asked nothing; false without one. A request that is being answered goes on.
    fn end_idle(&mut self) -> bool {
        let idle = self.all.iter().position(|visit| !visit.busy.load(Ordering::Relaxed));
        let Some(visit) = idle.and_then(|at| self.all.remove(at)) else { return false };
        visit.task.abort();
        true
    }

    /// Answers its first request that there are too many connections; `most` at a time, more are closed.
    fn refuse(&mut self, stream: TcpStream, tls: Option<TlsAcceptor>, most: usize) {
        let refusing = Counted::begin(&self.refused);
        if self.refused.load(Ordering::Relaxed) > most {
            return;
        }
        tokio::spawn(async move {
            let _refusing = refusing;
            let refused = async {
                match tls {
                    None => refuse(stream).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            refuse(stream).await;
                        }
                    }
                }
            };
            // A client that sends no request in time is closed without a word.
            let _ = tokio::time::timeout(HTTP_HEAD_TIME, refused).await;
        });
    }
}

/// One connection from its beginning to its end. A peer that is too slow is no news; neither is one that left.
async fn visit(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    site: Arc<Site>,
    busy: Arc<AtomicBool>,
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

async fn serve<S>(stream: S, ends: Ends, site: Arc<Site>, busy: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Peered + Unpin + 'static,
{
    let site = TowerToHyperService::new(site.router());
    let leaving = Leaving::default();
    let stream = Patient::new(stream, leaving.clone());
    speak(stream, move |mut request| {
        request.extensions_mut().insert(ends);
        let busy = Busy(Arc::clone(&busy));
        let request = request.map(|body| Arriving::new(body, &busy));
        let (answer, leaving) = (site.call(request), leaving.clone());
        async move {
            let mut answer = match answer.await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            answer.extensions_mut().remove::<HandOn>().into_iter().for_each(|it| leaving.add(it));
            answer.map(|body| Body::new(Answering { body, busy: Arc::new(busy) }))
        }
    })
    .await;
}

async fn refuse<S>(stream: S)
where
    S: AsyncRead + AsyncWrite + Peered + Unpin + 'static,
{
    let stream = Patient::new(stream, Leaving::default());
    speak(stream, |request| {
        let answer = site::crowded(request.uri().path());
        async move { answer }
    })
    .await;
}

/// Answers the requests of one connection.
async fn speak<S, A>(stream: S, answer: impl Fn(hyper::Request<Incoming>) -> A)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    A: Future<Output = Response>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEAD_TIME)
        .max_buf_size(CONSOLE_HEAD_BYTES_MAX)
        .max_headers(HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the console broke");
    }
}

/// One more, until it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn begin(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a connection's request is being answered, until this is dropped.
#[derive(Debug)]
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The body of a request. Until the last of it has come there is nothing to answer: a client that sends slowly has no
/// claim to its place.
#[derive(Debug)]
struct Arriving {
    body: Incoming,
    busy: Arc<AtomicBool>,
}

impl Arriving {
    fn new(body: Incoming, busy: &Busy) -> Arriving {
        let arriving = Arriving { body, busy: Arc::clone(&busy.0) };
        arriving.note_end();
        arriving
    }

    fn note_end(&self) {
        if self.body.is_end_stream() {
            self.busy.store(true, Ordering::Relaxed);
        }
    }
}

impl Streamed for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.busy.store(true, Ordering::Relaxed);
        }
        self.note_end();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer: its request is being answered until the last of it has left.
#[derive(Debug)]
struct Answering {
    body: Body,
    busy: Arc<Busy>,
}

impl Streamed for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let busy = &self.busy;
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| frame.map_data(|bytes| site::held_with(bytes, Arc::clone(busy))))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
