//! Jobs of a filter as NDJSON, one a line, written as they are found: the whole is never in memory.

use super::link::is_too_large;
use super::pages::filter;
use super::site::{Asked, attachment, problem};
use super::value::{Command, Value, command};
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::{Body as Streamed, Frame};
use serde_json::{Map, Value as Json};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;

/// The jobs that the filter of the address finds, with all that GET tells of each.
pub async fn answer(asked: Asked) -> Response {
    let Ok(permit) = Arc::clone(&asked.site.streams).try_acquire_owned() else {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many pages are live or exporting; try again later.",
        );
    };
    let Some(queue) = asked.params.bytes("queue") else {
        return problem(StatusCode::BAD_REQUEST, "The address names no queue.");
    };
    // What is refused is told, not written as an empty file.
    let (db, first) = (asked.params.db(), filter::scan(&asked.params, queue, b"0"));
    match asked.session.ask(db, vec![first]).await.map(|replies| replies[0].error()) {
        Ok(None) => {}
        Ok(Some(error)) => return problem(StatusCode::FORBIDDEN, &error),
        Err(_) => return asked.over(),
    }
    let state = Some((asked, Bytes::from_static(b"0")));
    let lines = Lines { next: None, state, _permit: permit };
    attachment("jobs.ndjson", "application/x-ndjson", Body::new(lines))
}

type Part = Pin<Box<dyn Future<Output = Option<(Asked, Bytes, Bytes)>> + Send>>;

/// Lines of one page of SCAN after the other; the next is asked for when the browser has taken the last.
struct Lines {
    next: Option<Part>,
    state: Option<(Asked, Bytes)>,
    _permit: OwnedSemaphorePermit,
}

impl Streamed for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some((asked, cursor)) = self.state.take() {
            self.next = Some(Box::pin(part(asked, cursor)));
        }
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let part = ready!(next.as_mut().poll(cx));
        self.next = None;
        let Some((asked, cursor, lines)) = part else { return Poll::Ready(None) };
        if &cursor[..] != b"0" {
            self.state = Some((asked, cursor));
        }
        Poll::Ready(Some(Ok(Frame::data(lines))))
    }
}

/// The lines from `cursor` on; none when the session is over or the server refuses.
async fn part(asked: Asked, cursor: Bytes) -> Option<(Asked, Bytes, Bytes)> {
    let (db, queue) = (asked.params.db(), asked.params.bytes("queue")?.to_vec());
    let scan = filter::scan(&asked.params, &queue, &cursor);
    let reply = asked.session.ask(db, vec![scan]).await.ok()?.into_iter().next()?;
    let [next, found] = reply.items() else { return None };
    let next = Bytes::copy_from_slice(next.bytes()?);
    let ids: Vec<&[u8]> =
        found.items().iter().filter_map(|job| job.items().first()?.bytes()).collect();
    let mut lines = Vec::new();
    let mut left = &ids[..];
    while !left.is_empty() {
        // Few at a time: a body may have 16 MiB.
        let some = &left[..left.len().min(20)];
        let commands: Vec<Command> =
            some.iter().map(|id| command!["DELAY.GET", queue, id]).collect();
        let jobs = asked.session.ask(db, commands).await.ok()?;
        // Those for which there was no room are asked for again; one alone has no more.
        let fit = jobs.iter().take_while(|job| !is_too_large(job)).count().max(1);
        for (job, id) in jobs.iter().zip(some).take(fit) {
            match job.error() {
                Some(error) => line(&unread(id, error), &mut lines),
                None => line(job, &mut lines),
            }
        }
        left = &left[fit..];
    }
    Some((asked, next, lines.into()))
}

/// What is told of a job that cannot be shown.
fn unread(id: &[u8], error: String) -> Value {
    let text = |text: &[u8]| Value::Text(Bytes::copy_from_slice(text));
    Value::Map(vec![(text(b"id"), text(id)), (text(b"error"), text(error.as_bytes()))])
}

/// One job; nothing of one that is gone by now.
fn line(job: &Value, lines: &mut Vec<u8>) {
    let mut fields = Map::new();
    for (name, value) in job.fields() {
        let Some(name) = name.text() else { continue };
        // A token is a right, not a fact.
        if name == "token" {
            continue;
        }
        match value {
            Value::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => fields.insert(name.to_owned(), text.into()),
                // What JSON cannot say stands beside as base64.
                Err(_) => fields.insert(format!("{name}-base64"), STANDARD.encode(text).into()),
            },
            Value::Int(number) => fields.insert(name.to_owned(), (*number).into()),
            _ => fields.insert(name.to_owned(), Json::Null),
        };
    }
    if !fields.is_empty() && serde_json::to_writer(&mut *lines, &fields).is_ok() {
        lines.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_line_without_its_token() {
        let text = |text: &'static [u8]| Value::Text(Bytes::from_static(text));
        let job = Value::Map(vec![
            (text(b"id"), text(b"\xff")),
            (text(b"body"), text(b"a\n\"b\"")),
            (text(b"due"), Value::Int(7)),
            (text(b"token"), Value::Int(9)),
        ]);
        let mut lines = Vec::new();
        line(&job, &mut lines);
        line(&Value::Null, &mut lines);
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "{\"body\":\"a\\n\\\"b\\\"\",\"due\":7,\"id-base64\":\"/w==\"}\n"
        );
    }
}
