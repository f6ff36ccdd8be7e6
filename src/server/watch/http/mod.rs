//! `/metrics`, `/healthz`, `/readyz` and `/leaderz`: HTTP on a port and a thread of their own, which never touch
//! the engine. What they tell stands on the [`StatusBoard`].

mod answer;

use crate::limits::{
    HTTP_ACCEPT_PAUSE, HTTP_CONNECTION_TIME, HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX,
    HTTP_HEAD_TIME, HTTP_HEADERS_MAX,
};
use crate::server::watch::machine;
use crate::server::watch::status::StatusBoard;
use answer::Site;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// The running thread; it ends with this.
#[derive(Debug)]
pub struct Http {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Serves on `listeners`, which do not block.
    pub fn start(listeners: Vec<TcpListener>, status: Arc<StatusBoard>) -> io::Result<Http> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            let site = Arc::new(Site::new(status));
            runtime.block_on(async {
                for listener in listeners {
                    tokio::spawn(accept(listener, Arc::clone(&site)));
                }
                // An error is the end, too.
                let _ = stopped.await;
            });
        })?;
        Ok(Http { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been logged.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "metrics cannot be served"),
    };
    let mut visits = Visits::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                visits.begin(stream, &site);
                // Of many that have come at once, each may say what it wants before the next has its place.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "no connection for metrics can be accepted for a second");
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
    /// Its request is here.
    asked: Arc<AtomicBool>,
}

impl Visits {
    fn begin(&mut self, stream: TcpStream, site: &Arc<Site>) {
        self.0.retain(|visit| !visit.task.is_finished());
        if self.0.len() >= machine::watchers_max(HTTP_CONNECTIONS_MAX) {
            self.end_one();
        }
        let (site, asked) = (Arc::clone(site), Arc::<AtomicBool>::default());
        let served = serve(stream, site, Arc::clone(&asked));
        // A peer that is too slow is no news; neither is one that left.
        let task = tokio::spawn(async move {
            let _ = tokio::time::timeout(HTTP_CONNECTION_TIME, served).await;
        });
        self.0.push_back(Visit { task: task.abort_handle(), asked });
    }

    /// Those that have asked come last: they are being answered, or read their answer slowly.
    fn end_one(&mut self) {
        let silent = self.0.iter().position(|visit| !visit.asked.load(Ordering::Relaxed));
        if let Some(visit) = self.0.remove(silent.unwrap_or(0)) {
            visit.task.abort();
        }
    }
}

async fn serve(stream: TcpStream, site: Arc<Site>, asked: Arc<AtomicBool>) {
    let service = service_fn(move |request| {
        asked.store(true, Ordering::Relaxed);
        let site = Arc::clone(&site);
        async move { site.answer(request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEAD_TIME)
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .max_headers(HTTP_HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection for metrics broke");
    }
}
