//! HTTP on the console's own thread: connections are accepted, held within limits, and asked of the [`Site`].

use crate::console::http::listen::{Served, Serving, Visits, accept, http1};
use crate::console::http::route;
use crate::console::http::write_timeout::{Leaving, Patient, Peered};
use crate::console::site::Site;
use crate::console::site::client::{Ends, HandOn};
use crate::console::view::response::held_with;
use crate::limits::{CONSOLE_HEAD_BYTES_MAX, HTTP_HEAD_TIME, TLS_HANDSHAKE_MS_MAX};
use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Body as Streamed, Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// From one look for sessions that are over to the next.
const SWEEP: Duration = Duration::from_secs(10);

const CONSOLE: Served = Served { what: "the console", way: "to the console" };

/// Serves `site` on `listeners`, which do not block, by TLS if there is `tls`: each connection by its newest value.
///
/// # Errors
/// The system has no room for another thread.
pub fn start(
    listeners: Vec<TcpListener>,
    tls: Option<watch::Receiver<Arc<rustls::ServerConfig>>>,
    site: Site,
) -> io::Result<Serving> {
    Serving::start("console", move || {
        let site = Arc::new(site);
        tokio::spawn(sweep(Arc::clone(&site)));
        for listener in listeners {
            let (tls, mut gate) = (tls.clone(), Gate::new(Arc::clone(&site)));
            tokio::spawn(accept(listener, CONSOLE, move |stream| {
                let newest = tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.borrow())));
                gate.begin(stream, newest);
            }));
        }
    })
}

/// Ends expired sessions that receive no requests.
async fn sweep(site: Arc<Site>) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        site.sessions.sweep();
    }
}

/// Who is let in.
#[derive(Debug)]
struct Gate {
    site: Arc<Site>,
    visits: Visits,
    /// Connections that are only refused.
    refused: Arc<AtomicUsize>,
}

impl Gate {
    fn new(site: Arc<Site>) -> Gate {
        Gate { site, visits: Visits::default(), refused: Arc::default() }
    }

    fn begin(&mut self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let most = self.site.options.connections_max;
        // A request that is being answered goes on.
        if self.visits.count() >= most && !self.visits.end_idle() {
            // A quarter more, since each takes a file.
            return self.refuse(stream, tls, most / 4);
        }
        let busy = Arc::<AtomicBool>::default();
        let task = tokio::spawn(visit(stream, tls, Arc::clone(&self.site), Arc::clone(&busy)));
        self.visits.add(&task, busy);
    }

    /// Answers its first request that there are too many connections; `most` at a time, more are closed.
    fn refuse(&mut self, stream: TcpStream, tls: Option<TlsAcceptor>, most: usize) {
        let refusing = CountGuard::begin(&self.refused);
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
    let site = TowerToHyperService::new(route::router(site));
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
        let answer = route::crowded(request.uri().path());
        async move { answer }
    })
    .await;
}

async fn speak<S, A>(stream: S, answer: impl Fn(hyper::Request<Incoming>) -> A)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    A: Future<Output = Response>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let served = http1(CONSOLE_HEAD_BYTES_MAX).serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to the console broke");
    }
}

/// One more, until it is dropped.
#[derive(Debug)]
struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    fn begin(count: &Arc<AtomicUsize>) -> CountGuard {
        count.fetch_add(1, Ordering::Relaxed);
        CountGuard(Arc::clone(count))
    }
}

impl Drop for CountGuard {
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
            frame.map(|frame| frame.map_data(|bytes| held_with(bytes, Arc::clone(busy))))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
