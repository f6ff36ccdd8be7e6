//! What lives while somebody looks: a tick each second over an event stream, upon which a page fetches its parts, and
//! samples of the last ten minutes for its lines.

use super::site::{Site, problem};
use crate::limits::CONSOLE_SAMPLES;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::Response;
use hyper::body::{Body as Streamed, Frame};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, interval};

/// From one tick to the next, and from one sample to the next.
pub const TICK: Duration = Duration::from_secs(1);

/// What is counted in a second. The last four are since the start of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Sample {
    pub delayed: u64,
    pub ready: u64,
    pub leased: u64,
    pub dead: u64,
    pub added: u64,
    pub delivered: u64,
    pub done: u64,
    pub died: u64,
}

/// The samples of the last ten minutes, one a second: 600 × 64 bytes.
#[derive(Clone, Default)]
pub struct Samples {
    kept: Arc<Mutex<VecDeque<Sample>>>,
    look: Option<Arc<dyn Fn() -> Sample + Send + Sync>>,
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Samples")
    }
}

impl Samples {
    /// Taken by `look`, which neither waits nor makes others wait.
    pub fn new(look: impl Fn() -> Sample + Send + Sync + 'static) -> Samples {
        Samples { kept: Arc::default(), look: Some(Arc::new(look)) }
    }

    /// Takes one each second for as long as it is polled.
    pub async fn take(self) {
        let mut ticks = interval(TICK);
        while let Some(look) = &self.look {
            ticks.tick().await;
            self.keep(look());
        }
    }

    /// Oldest first.
    pub fn newest(&self) -> Vec<Sample> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn keep(&self, sample: Sample) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= CONSOLE_SAMPLES {
            kept.pop_front();
        }
        kept.push_back(sample);
    }
}

/// A stream of ticks for one page; each page that is looked at has one.
pub fn answer(site: &Arc<Site>, headers: &HeaderMap) -> Response {
    let Some(session) = site.session_of(headers) else {
        return problem(StatusCode::UNAUTHORIZED, "The session is over.");
    };
    let Ok(permit) = Arc::clone(&site.streams).try_acquire_owned() else {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "32 live pages are open; this one asks by itself.",
        );
    };
    let (site, key) = (Arc::clone(site), session.key.clone());
    stream(Ticks { ticks: interval(TICK), site, key, _permit: permit })
}

/// An answer of events that never ends by itself.
pub fn stream(body: impl Streamed<Data = Bytes, Error = Infallible> + Send + 'static) -> Response {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that gather answers are asked not to.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[derive(Debug)]
struct Ticks {
    ticks: Interval,
    site: Arc<Site>,
    key: String,
    _permit: OwnedSemaphorePermit,
}

impl Streamed for Ticks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.ticks.poll_tick(cx));
        if !self.site.sessions.has(&self.key) {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"event: tick\ndata: \n\n")))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_minutes_are_kept() {
        let samples = Samples::default();
        for added in 0..700 {
            samples.keep(Sample { added, ..Sample::default() });
        }
        let kept = samples.newest();
        assert_eq!((kept.len(), kept[0].added, kept[599].added), (600, 100, 699));
    }
}
