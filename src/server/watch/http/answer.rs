//! What is answered under which path.

use crate::limits::{SCRAPE_TIME, SCRAPES_MAX};
use crate::observe::metrics::{Format, render};
use crate::server::clock::timer::mono_us;
use crate::server::watch::status::{Standing, StatusBoard};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::Semaphore;

const TEXT: &str = "text/plain; charset=utf-8";
const PATHS: &str = "delayd\n\
    /metrics  for Prometheus\n\
    /healthz  200 while the server works, 503 when it hangs\n\
    /readyz   200 while it takes requests, 503 when it does not, with the reason\n";

/// The pages, and what they are made of.
#[derive(Debug)]
pub struct Site {
    status_board: Arc<StatusBoard>,
    scrapes: Semaphore,
    rendering: Semaphore,
}

type Answer = Response<Full<Bytes>>;

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn said(fine: bool, words: &str) -> Answer {
    let status = if fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, TEXT, format!("{words}\n"))
}

impl Site {
    /// Tells what stands on `status_board`.
    pub fn new(status_board: Arc<StatusBoard>) -> Site {
        Site { status_board, scrapes: Semaphore::new(SCRAPES_MAX), rendering: Semaphore::new(1) }
    }

    /// The answer to a request; its body is never read.
    pub async fn answer<B>(&self, request: Request<B>) -> Result<Answer, Infallible> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused =
                answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned());
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refused);
        }
        Ok(match request.uri().path() {
            "/metrics" => self.metrics(format_of(request.headers().get(ACCEPT))).await,
            "/healthz" => self.health(),
            "/readyz" => self.readiness(),
            "/" => answer(StatusCode::OK, TEXT, PATHS.to_owned()),
            _ => answer(StatusCode::NOT_FOUND, TEXT, format!("no such page; there are\n{PATHS}")),
        })
    }

    fn hung(&self) -> Option<String> {
        let since_us = self.status_board.hung_us(mono_us())?;
        Some(format!("the server hangs: nothing was done for {:.1} s", since_us as f64 / 1e6))
    }

    fn health(&self) -> Answer {
        match (self.status_board.standing(), self.hung()) {
            // The last sync of a stop may take as long as the disk likes.
            (Standing::Stopping, _) => said(true, "ok: stopping"),
            (_, Some(hung)) => said(false, &hung),
            (standing, None) => said(true, &format!("ok: {standing}")),
        }
    }

    fn readiness(&self) -> Answer {
        match (self.status_board.standing(), self.hung()) {
            (_, Some(hung)) => said(false, &format!("not ready: {hung}")),
            (Standing::Serving, None) => said(true, "ready"),
            (standing, None) => said(false, &format!("not ready: {standing}")),
        }
    }

    async fn metrics(&self, format: Format) -> Answer {
        let Ok(_permit) = self.scrapes.try_acquire() else {
            return said(false, "too many scrapes at a time; 8 are answered");
        };
        match tokio::time::timeout(SCRAPE_TIME, self.status_board.ask()).await {
            Ok(Ok(scrape)) => {
                // On a thread of its own, one at a time: some 100,000 lines take longer than a probe waits.
                let _turn = self.rendering.acquire().await;
                match tokio::task::spawn_blocking(move || render(&scrape, format)).await {
                    Ok(text) => answer(StatusCode::OK, format.content_type(), text),
                    // It panicked, which has been logged, or the runtime ends.
                    Err(_) => said(false, "the metrics could not be written"),
                }
            }
            // The loop has ended.
            Ok(Err(_)) => said(false, "the server has stopped"),
            Err(_) => said(false, "the server did not tell its metrics within 8 s; see /healthz"),
        }
    }
}

/// OpenMetrics for those who name it.
fn format_of(accept: Option<&HeaderValue>) -> Format {
    let accepts = accept.and_then(|accept| accept.to_str().ok()).unwrap_or("");
    match accepts.contains("application/openmetrics-text") {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    }
}
