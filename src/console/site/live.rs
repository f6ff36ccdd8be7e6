//! Live updates of an open page: a tick each second over an event stream, upon which it fetches what has changed.

use crate::console::site::{SessionRequest, Site};
use crate::console::view::response::problem;
use crate::limits::CONSOLE_SENT_BYTES_MAX;
use crate::lock::lock;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{Html, IntoResponse, Response};
use futures_util::stream::{Stream, StreamExt, unfold};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::interval;

/// From one tick to the next.
pub const TICK: Duration = Duration::from_secs(1);

/// What each open page was sent last, by its session and the number of its stream.
#[derive(Debug, Default)]
pub struct SentPages(Mutex<SentState>);

#[derive(Debug, Default)]
struct SentState {
    pages: HashMap<(String, u64), SentPage>,
    /// No two streams and no two versions have the same number.
    last_number: u64,
}

#[derive(Debug, Default)]
struct SentPage {
    version: u64,
    text: String,
}

/// A page that is looked at; what it was sent is forgotten with it.
struct OpenPage {
    site: Arc<Site>,
    key: (String, u64),
    _permit: OwnedSemaphorePermit,
}

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
    let key = (session.key.clone(), site.sent.begin(&session.key));
    let open = OpenPage { site: Arc::clone(site), key, _permit: permit };
    stream(unfold((interval(TICK), open), |(mut ticks, open)| async move {
        ticks.tick().await;
        let tick = Bytes::from(format!("event: tick\ndata: {}\n\n", open.key.1));
        open.site.sessions.has(&open.key.0).then_some((tick, (ticks, open)))
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

/// A page; to the script of one that is open only its changes, if it has what was sent last: `x-delayd-parts` names the
/// stream and that version.
pub fn page(asked: &SessionRequest, text: String) -> Response {
    let named = asked.headers.get("x-delayd-parts").and_then(|named| named.to_str().ok());
    let renewed = named.and_then(|named| {
        let (stream, version) = named.split_once('.')?;
        let key = (asked.session.key.clone(), stream.parse().ok()?);
        asked.site.sent.renew(&key, version.parse().ok(), &text)
    });
    let Some((version, parts)) = renewed else { return Html(text).into_response() };
    let mut response = match parts {
        Some(parts) => (StatusCode::IM_USED, axum::Json(parts)).into_response(),
        None => Html(text).into_response(),
    };
    response.headers_mut().insert("x-delayd-version", HeaderValue::from(version));
    response
}

impl SentPages {
    /// The number of a new stream, which was sent nothing.
    fn begin(&self, session: &str) -> u64 {
        let mut state = lock(&self.0);
        state.last_number += 1;
        let number = state.last_number;
        state.pages.insert((session.to_owned(), number), SentPage::default());
        number
    }

    /// Keeps a page as sent to an open stream; its version, and how it differs from `version` if that was sent last.
    fn renew(
        &self,
        key: &(String, u64),
        version: Option<u64>,
        text: &str,
    ) -> Option<(u64, Option<Json>)> {
        let mut state = lock(&self.0);
        let next = state.last_number + 1;
        let sent = state.pages.get_mut(key)?;
        if text.len() > CONSOLE_SENT_BYTES_MAX {
            *sent = SentPage::default();
            return None;
        }
        let parts = (version == Some(sent.version)).then(|| changes(&sent.text, text));
        *sent = SentPage { version: next, text: text.to_owned() };
        state.last_number = next;
        Some((next, parts))
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        lock(&self.site.sent.0).pages.remove(&self.key);
    }
}

/// `text` as a list: new text as it is, and `[skipped, copied]` for tags of `sent`, each with what follows up to the next.
/// Counting from where the last copy ended makes the changes of all rows of a table alike, which compresses to a half.
///
/// Tags are compared in order. Where they differ, a tag that is in `sent` once says where it goes on: a row that was
/// inserted, removed or moved costs only itself.
fn changes(sent: &str, text: &str) -> Json {
    let had: Vec<&str> = tags(sent).collect();
    let mut once: HashMap<&str, Option<usize>> = HashMap::new();
    for (at, tag) in had.iter().enumerate() {
        once.entry(tag).and_modify(|place| *place = None).or_insert(Some(at));
    }
    let (mut parts, mut next): (Vec<Part>, usize) = (Vec::new(), 0);
    for tag in tags(text) {
        let here = (had.get(next) == Some(&tag)).then_some(next);
        let place = here.or_else(|| once.get(tag).copied().flatten());
        match (parts.last_mut(), place) {
            (Some(Part::Sent(_, until)), Some(at)) if *until == at => *until += 1,
            (Some(Part::New(text)), None) => text.push_str(tag),
            (_, Some(at)) => parts.push(Part::Sent(at, at + 1)),
            (_, None) => parts.push(Part::New(tag.to_owned())),
        }
        next = place.unwrap_or(next) + 1;
    }
    let mut end = 0;
    let written = |part| match part {
        Part::New(text) => Json::from(text),
        Part::Sent(from, until) => {
            let skipped = from as i64 - std::mem::replace(&mut end, until) as i64;
            json!([skipped, until - from])
        }
    };
    parts.into_iter().map(written).collect()
}

/// A piece of a page.
enum Part {
    /// Tags of what was sent before, from one to before another.
    Sent(usize, usize),
    New(String),
}

/// A text cut before each tag; the script cuts it likewise.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.match_indices('<').map(|(at, _)| at).chain([text.len()]);
    ends.scan(0, |from, end| Some(&text[std::mem::replace(from, end)..end]))
        .filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the script makes of changes.
    fn renewed(sent: &str, changes: &Json) -> String {
        let had: Vec<&str> = tags(sent).collect();
        let mut at = 0;
        let piece = |part: &Json| match part {
            Json::String(new) => new.clone(),
            place => {
                let from = at + place[0].as_i64().expect("a number");
                at = from + place[1].as_i64().expect("a number");
                had[from as usize..at as usize].concat()
            }
        };
        changes.as_array().expect("a list").iter().map(piece).collect()
    }

    fn rows(names: &[usize], value: usize) -> String {
        let row = |name: &usize| {
            format!(
                "<tr data-key=\"{name}\"><td class=\"num\">{}</td><td>{value} s ago</td></tr>",
                name * 7
            )
        };
        format!("<!DOCTYPE html><table>{}</table>", names.iter().map(row).collect::<String>())
    }

    #[test]
    fn changes_make_of_what_was_sent_what_is_to_be_seen() {
        let many: Vec<usize> = (0..50).collect();
        let turned: Vec<usize> = (0..50).rev().collect();
        let texts = [
            String::new(),
            "no tag".to_owned(),
            "é<b>\"1\"</b>\n\u{202e}<i></i>".to_owned(),
            rows(&many, 1),
            rows(&many[1..], 2),
            rows(&turned, 1),
            rows(&[7, 7, 7], 1),
        ];
        for sent in &texts {
            for text in &texts {
                assert_eq!(&renewed(sent, &changes(sent, text)), text, "{sent} -> {text}");
            }
        }
    }

    /// A row that comes, goes or moves costs itself, wherever it is; a value costs its tag.
    #[test]
    fn changes_are_as_large_as_what_has_changed() {
        let many: Vec<usize> = (100..150).collect();
        let sent = rows(&many, 1);
        let size = |names: &[usize], value| changes(&sent, &rows(names, value)).to_string().len();
        assert_eq!(changes(&sent, &sent), json!([[0, tags(&sent).count()]]));
        let came = [&many[..20], &[99], &many[20..]].concat();
        let moved = [&many[40..41], &many[..40], &many[41..]].concat();
        for (what, names) in [("came", &came[..]), ("went", &many[1..]), ("moved", &moved)] {
            assert!(size(names, 1) < 200, "{what}: {}", size(names, 1));
        }
        assert!(size(&many, 2) < 50 * 30, "{}", size(&many, 2));
    }

    #[test]
    fn only_an_open_page_that_has_what_was_sent_last_gets_changes() {
        let sent = SentPages::default();
        let key = ("session".to_owned(), sent.begin("session"));
        let whole = |key: &(String, u64), version| {
            sent.renew(key, version, "<p>1").map(|(_, parts)| parts.is_none())
        };
        assert_eq!(whole(&key, None), Some(true));
        let (first, _) = sent.renew(&key, None, "<p>1").expect("it is open");
        let (second, parts) = sent.renew(&key, Some(first), "<p>2<b>").expect("it is open");
        assert_eq!(parts, Some(json!(["<p>2<b>"])));
        // An answer was lost, a stream began, one ended, or the page is another user's.
        assert_eq!(whole(&key, Some(first)), Some(true));
        let other = ("session".to_owned(), sent.begin("session"));
        assert_eq!(whole(&other, Some(second)), Some(true));
        for unknown in [("session".to_owned(), 99), ("other".to_owned(), key.1)] {
            assert_eq!(whole(&unknown, Some(second)), None);
        }
    }

    #[test]
    fn of_a_large_page_nothing_is_kept() {
        let sent = SentPages::default();
        let key = (String::new(), sent.begin(""));
        let large = "x".repeat(CONSOLE_SENT_BYTES_MAX + 1);
        let (version, _) = sent.renew(&key, None, &large[1..]).expect("it fits");
        assert_eq!(sent.renew(&key, Some(version), &large), None);
        assert!(lock(&sent.0).pages[&key].text.is_empty());
    }
}
