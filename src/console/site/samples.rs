//! What lives while somebody looks: samples of the last ten minutes for the lines of a page, and a tick each second upon
//! which it fetches its parts.

use crate::console::site::Site;
use crate::console::view::chrome::Sample;
use crate::console::view::response::problem;
use crate::limits::CONSOLE_SAMPLES;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::Response;
use futures_util::stream::{Stream, StreamExt, unfold};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::interval;

/// From one tick to the next, and from one sample to the next.
pub const TICK: Duration = Duration::from_secs(1);

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

// Live updates of an open page: a tick each second over an event stream, upon which a page fetches its parts.

/// A stream of ticks for one page; each page that is looked at has one.
pub fn answer(site: &Arc<Site>, headers: &HeaderMap) -> Response {
    let Some(session) = site.session_of(headers) else {
        return problem(StatusCode::UNAUTHORIZED, "The session is over.");
    };
    let Ok(permit) = Arc::clone(&site.streams).try_acquire_owned() else {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "32 live pages are open; this one polls instead.",
        );
    };
    let held = (interval(TICK), Arc::clone(site), session.key.clone(), permit);
    stream(unfold(held, |mut held| async move {
        held.0.tick().await;
        let goes_on = held.1.sessions.has(&held.2);
        goes_on.then_some((Bytes::from_static(b"event: tick\ndata: \n\n"), held))
    }))
}

/// An answer of events that never ends by itself.
pub fn stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(events.map(Ok::<_, Infallible>)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that gather answers are asked not to.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
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
