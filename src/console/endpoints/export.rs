//! Jobs of a filter as NDJSON, one a line, written as they are found: the whole is never in memory.

use crate::console::pages::filter;
use crate::console::site::SessionRequest;
use crate::console::site::client::is_too_large;
use crate::console::view::response::{attachment, problem};
use crate::console::words::value::{Command, Value, command};
use crate::limits::CONSOLE_BODIES_AT_ONCE;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::try_unfold;
use serde_json::{Map, Value as Json};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// The jobs that the filter of the address finds, with all fields of GET.
pub async fn answer(asked: SessionRequest) -> Response {
    let Ok(permit) = Arc::clone(&asked.site.streams).try_acquire_owned() else {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many pages are live or exporting; try again later.",
        );
    };
    let Some(queue) = asked.params.bytes("queue") else {
        return problem(StatusCode::BAD_REQUEST, "The address does not name a queue.");
    };
    // A refusal is reported, not written as an empty file.
    let (db, first) = (asked.params.db(), filter::scan(&asked.params, queue, b"0"));
    match asked.session.ask(db, vec![first]).await.map(|replies| replies[0].error()) {
        Ok(None) => {}
        Ok(Some(error)) => return problem(StatusCode::FORBIDDEN, &error),
        Err(_) => return asked.over(),
    }
    let left = Left { asked, cursor: Some(Bytes::from_static(b"0")), ids: VecDeque::new() };
    // The next are asked for when the browser has taken the last. After an error the connection breaks off, so that a part
    // is not taken for the whole.
    let lines = try_unfold((left, permit), |(left, permit)| async move {
        if left.cursor.is_none() && left.ids.is_empty() {
            return Ok(None);
        }
        let (left, lines) = part(left).await?;
        Ok::<_, io::Error>(Some((lines, (left, permit))))
    });
    attachment("jobs.ndjson", "application/x-ndjson", Body::from_stream(lines))
}

/// The rest to write.
struct Left {
    asked: SessionRequest,
    /// Where the scan goes on; none at its end.
    cursor: Option<Bytes>,
    /// Found, and not written yet.
    ids: VecDeque<Bytes>,
}

/// The next lines. For a few jobs at a time: a body may have 16 MiB.
///
/// # Errors
/// The session is over, or the server refuses.
async fn part(mut left: Left) -> io::Result<(Left, Bytes)> {
    let Left { asked, cursor, ids } = &mut left;
    let (db, queue) = (asked.params.db(), asked.params.bytes("queue").unwrap_or_default());
    if let Some(from) = cursor.take_if(|_| ids.is_empty()) {
        let scan = filter::scan(&asked.params, queue, &from);
        let replies = accepted(asked.session.ask(db, vec![scan]).await?)?;
        let [next, found] = replies[0].items() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let next = next.bytes().unwrap_or(b"0");
        *cursor = (next != b"0").then(|| Bytes::copy_from_slice(next));
        let found = found.items().iter().filter_map(|job| job.items().first()?.bytes());
        ids.extend(found.map(Bytes::copy_from_slice));
    }
    let some: Vec<Bytes> = ids.iter().take(CONSOLE_BODIES_AT_ONCE).cloned().collect();
    let commands: Vec<Command> = some.iter().map(|id| command!["DELAY.GET", queue, id]).collect();
    let jobs = asked.session.ask(db, commands).await?;
    // Those for which there was no room are asked for again; one alone has no more.
    let fit = jobs.iter().take_while(|job| !is_too_large(job)).count().max(1);
    let mut lines = Vec::new();
    for (job, id) in jobs.iter().zip(&some).take(fit) {
        match job.error() {
            Some(error) if is_too_large(job) => line(&unread(id, error), &mut lines),
            Some(error) => return Err(io::Error::other(error)),
            None => line(job, &mut lines),
        }
    }
    ids.drain(..fit.min(some.len()));
    Ok((left, lines.into()))
}

/// The replies, none of which is a refusal.
fn accepted(replies: Vec<Value>) -> io::Result<Vec<Value>> {
    match replies.iter().find_map(Value::error) {
        Some(error) => Err(io::Error::other(error)),
        None => Ok(replies),
    }
}

/// The line for a job that cannot be shown.
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
                // Values that JSON cannot express are added as base64.
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
