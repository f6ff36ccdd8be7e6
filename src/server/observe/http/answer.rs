//! The answer of each path.

use crate::limits::{SCRAPE_BYTES_MAX, SCRAPE_FRESH, SCRAPE_TIME, SCRAPES_MAX};
use crate::observe::metrics::{Format, render};
use crate::server::clock::timer::mono_us;
use crate::server::observe::status::{ServiceState, StatusBoard};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

const TEXT: &str = "text/plain; charset=utf-8";
const PATHS: &str = "delayd\n\
    /metrics  for Prometheus\n\
    /healthz  200 while the server works, 503 when it hangs\n\
    /readyz   200 while it serves requests, otherwise 503 with the reason\n\
    /leaderz  200 where jobs are added and taken: on the leader of a cluster, or on a standalone server\n";

const LATE: &str = "the server did not report its metrics within 8 s; see /healthz";
const UNREAD: &str = "the unread texts of earlier scrapes use all available memory";

/// The pages, and what they are made of.
#[derive(Debug)]
pub struct MetricsPages {
    /// One for each partition of the process.
    boards: Vec<Arc<StatusBoard>>,
    scrapes: Semaphore,
    /// KiB that texts of metrics may have in all, until they have been read.
    room: Arc<Semaphore>,
    /// The newest text, while it is being read. The holder of this makes the next one.
    newest: Mutex<Option<Newest>>,
}

#[derive(Debug)]
struct Newest {
    text: Weak<Text>,
    format: Format,
    made_at: Instant,
}

/// All metrics, and the memory they take until they have been read to the end.
#[derive(Debug)]
struct Text {
    text: String,
    _room: OwnedSemaphorePermit,
}

/// hyper's body; dropped with the connection.
struct SharedText(Arc<Text>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

type HttpAnswer = Response<Full<Bytes>>;

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> HttpAnswer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn said(fine: bool, words: &str) -> HttpAnswer {
    let status = if fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, TEXT, format!("{words}\n"))
}

impl MetricsPages {
    pub fn new(boards: Vec<Arc<StatusBoard>>) -> MetricsPages {
        MetricsPages {
            boards,
            scrapes: Semaphore::new(SCRAPES_MAX),
            room: Arc::new(Semaphore::new(SCRAPE_BYTES_MAX >> 10)),
            newest: Mutex::new(None),
        }
    }

    /// The answer to a request; its body is never read.
    pub async fn answer<B>(&self, request: Request<B>) -> Result<HttpAnswer, Infallible> {
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
            "/leaderz" => self.leadership(),
            "/" => answer(StatusCode::OK, TEXT, PATHS.to_owned()),
            _ => {
                answer(StatusCode::NOT_FOUND, TEXT, format!("no such page; the pages are\n{PATHS}"))
            }
        })
    }

    /// The first partition's answer that is not fine, with its number where there are several; or that of the first.
    fn worst(&self, of: impl Fn(&StatusBoard) -> (bool, String)) -> HttpAnswer {
        let mut answers = self.boards.iter().map(|board| of(board)).enumerate();
        let first = answers.next().expect("a process has a partition");
        let (at, (fine, words)) = match first.1.0 {
            true => answers.find(|(_, (fine, _))| !fine).unwrap_or(first),
            false => first,
        };
        match fine || self.boards.len() == 1 {
            true => said(fine, &words),
            false => said(fine, &format!("partition {at}: {words}")),
        }
    }

    fn health(&self) -> HttpAnswer {
        self.worst(|board| match (board.standing(), hung(board)) {
            // The last sync of a stop may take as long as the disk likes.
            (ServiceState::Stopping, _) => (true, "ok: stopping".to_owned()),
            (_, Some(hung)) => (false, hung),
            (standing, None) => (true, format!("ok: {standing}")),
        })
    }

    fn readiness(&self) -> HttpAnswer {
        self.worst(|board| match (board.standing(), hung(board)) {
            (_, Some(hung)) => (false, format!("not ready: {hung}")),
            (ServiceState::Serving, None) => (true, "ready".to_owned()),
            (standing, None) if standing.is_ready() => (true, format!("ready: {standing}")),
            (standing, None) => (false, format!("not ready: {standing}")),
        })
    }

    fn leadership(&self) -> HttpAnswer {
        self.worst(|board| match (board.standing(), hung(board)) {
            (_, Some(hung)) => (false, format!("not the leader: {hung}")),
            (standing, None) if standing.leads() => (true, "leader".to_owned()),
            (standing, None) => (false, format!("not the leader: {standing}")),
        })
    }

    async fn metrics(&self, format: Format) -> HttpAnswer {
        let Ok(_permit) = self.scrapes.try_acquire() else {
            return said(false, "too many scrapes at a time; 8 are allowed");
        };
        // One at a time: some 100,000 lines take longer than a probe waits, and have some MB.
        let Ok(mut newest) = tokio::time::timeout(SCRAPE_TIME, self.newest.lock()).await else {
            return said(false, LATE);
        };
        let fresh = newest.as_ref().filter(|newest| newest.is_fresh(format));
        if let Some(text) = fresh.and_then(|newest| newest.text.upgrade()) {
            return text.answer(format);
        }
        match self.write(format).await {
            Ok(text) => {
                *newest =
                    Some(Newest { text: Arc::downgrade(&text), format, made_at: Instant::now() });
                text.answer(format)
            }
            Err(why) => said(false, why),
        }
    }

    /// All metrics as of now, or why not.
    async fn write(&self, format: Format) -> Result<Arc<Text>, &'static str> {
        if self.room.available_permits() == 0 {
            return Err(UNREAD);
        }
        // All at once: each collects in its own turns.
        let asked: Vec<_> = self.boards.iter().map(|board| board.ask()).collect();
        let collected = async {
            let mut scrapes = Vec::with_capacity(asked.len());
            for scrape in asked {
                scrapes.push(scrape.await?);
            }
            Ok::<_, RecvError>(scrapes)
        };
        let scrapes = match tokio::time::timeout(SCRAPE_TIME, collected).await {
            Ok(Ok(scrapes)) => scrapes,
            // The loop has ended.
            Ok(Err(_)) => return Err("the server has stopped"),
            Err(_) => return Err(LATE),
        };
        // On a thread of its own. It panicked, which has been logged, or the runtime ends.
        let text = tokio::task::spawn_blocking(move || render(&scrapes, format)).await;
        let text = text.map_err(|_| "the metrics could not be written")?;
        // One that is larger than all the room is alone in it.
        let kib = (text.len() >> 10) + 1;
        let kib = u32::try_from(kib.min(SCRAPE_BYTES_MAX >> 10)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(kib).map_err(|_| UNREAD)?;
        Ok(Arc::new(Text { text, _room: room }))
    }
}

/// Why, if the loop hangs.
fn hung(board: &StatusBoard) -> Option<String> {
    let since_us = board.hung_us(mono_us())?;
    Some(format!("the server hangs: it did nothing for {:.1} s", since_us as f64 / 1e6))
}

impl Newest {
    /// Whether it can be shared with a request of now.
    fn is_fresh(&self, format: Format) -> bool {
        self.format == format && self.made_at.elapsed() < SCRAPE_FRESH
    }
}

impl Text {
    fn answer(self: Arc<Text>, format: Format) -> HttpAnswer {
        answer(StatusCode::OK, format.content_type(), Bytes::from_owner(SharedText(self)))
    }
}

/// OpenMetrics for clients that name it.
fn format_of(accept: Option<&HeaderValue>) -> Format {
    let accepts = accept.and_then(|accept| accept.to_str().ok()).unwrap_or("");
    match accepts.contains("application/openmetrics-text") {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    }
}
