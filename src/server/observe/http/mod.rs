//! `/metrics`, `/healthz`, `/readyz` and `/leaderz`: HTTP on a port and a thread of their own, which never touch the
//! engine. They show the content of the [`StatusBoard`] of each partition of the process.

mod answer;

use crate::console::http::listen::{Served, Serving, Visits, accept, http1};
use crate::limits::{HTTP_CONNECTION_TIME, HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX};
use crate::server::observe::machine;
use crate::server::observe::status::StatusBoard;
use answer::MetricsPages;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpStream;

const METRICS: Served = Served { what: "metrics", way: "for metrics" };

/// Serves on `listeners`, which do not block.
pub fn start(listeners: Vec<TcpListener>, boards: Vec<Arc<StatusBoard>>) -> io::Result<Serving> {
    Serving::start("http", move || {
        let site = Arc::new(MetricsPages::new(boards));
        for listener in listeners {
            let (site, mut visits) = (Arc::clone(&site), Visits::default());
            tokio::spawn(accept(listener, METRICS, move |stream| {
                begin(stream, &site, &mut visits)
            }));
        }
    })
}

/// Connections are busy once their request is here: those come last, since they are being answered, or read their
/// answer slowly.
fn begin(stream: TcpStream, site: &Arc<MetricsPages>, visits: &mut Visits) {
    if visits.count() >= machine::watchers_max(HTTP_CONNECTIONS_MAX) && !visits.end_idle() {
        visits.end_oldest();
    }
    let asked = Arc::<AtomicBool>::default();
    let served = serve(stream, Arc::clone(site), Arc::clone(&asked));
    // A peer that is too slow is no news; neither is one that left.
    let task = tokio::spawn(async move {
        let _ = tokio::time::timeout(HTTP_CONNECTION_TIME, served).await;
    });
    visits.add(&task, asked);
}

async fn serve(stream: TcpStream, site: Arc<MetricsPages>, asked: Arc<AtomicBool>) {
    let service = service_fn(move |request| {
        asked.store(true, Ordering::Relaxed);
        let site = Arc::clone(&site);
        async move { site.answer(request).await }
    });
    let mut http1 = http1(HTTP_HEAD_BYTES_MAX);
    let served = http1.keep_alive(false).serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection for metrics broke");
    }
}
