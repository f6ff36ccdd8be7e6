//! Live updates of an open page: a tick each second over an event stream, upon which it fetches its parts.

use crate::console::site::Site;
use crate::console::view::response::problem;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::Response;
use futures_util::stream::{Stream, StreamExt, unfold};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;

/// From one tick to the next.
pub const TICK: Duration = Duration::from_secs(1);

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
