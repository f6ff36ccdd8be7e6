//! A search: an id in all queues, or the jobs of one queue that a filter finds, for a while in each request.

use crate::console::pages::filter;
use crate::console::pages::queues;
use crate::console::pages::search::{self, Hit, Meant, SearchResult};
use crate::console::site::SessionRequest;
use crate::console::view::response::problem;
use crate::console::words::value::{Command, Value, command};
use crate::limits::{CONSOLE_BODIES_AT_ONCE, CONSOLE_HITS_MAX};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// How long one request looks, before it shows what it has.
const TIME: Duration = Duration::from_millis(1_500);
/// The jobs that one scan of [`filter`] looks at.
const STEP: u64 = 1_000;
/// Queues that are shown for a part of their name.
const NAMED_MAX: usize = 20;
/// Queues that are listed at once, to look through them.
const QUEUES_AT_ONCE: usize = 200;

/// A queue, and a text in it.
type InQueue = (Vec<u8>, Vec<u8>);

/// The page of what was found.
pub async fn answer(asked: SessionRequest) -> Response {
    // One at a time: a search costs the server more than all else here.
    let session = std::sync::Arc::clone(&asked.session);
    let Ok(_searching) = session.searching.try_lock() else {
        return problem(
            StatusCode::TOO_MANY_REQUESTS,
            "You are already running a search. Wait for its result, then repeat this one.",
        );
    };
    let meant = Meant::of(&asked.params);
    let found = match &meant {
        Meant::Nothing => Some(SearchResult::default()),
        Meant::Text(text) => by_text(&asked, text).await,
        Meant::Filter { queue } => {
            let params = asked.params.clone();
            scanned(&asked, queue, &params).await
        }
    };
    let info = asked.session.ask(asked.params.db(), vec![command!["INFO", "everything"]]).await;
    let (Some(found), Ok(info)) = (found, info) else { return asked.over() };
    let frame = asked.frame(&info[0]);
    Html(search::show(&frame, &asked.params, &meant, &found).into_string()).into_response()
}

/// The job with exactly this id; else, for `queue:text`, what that queue has of the text; else queues with this name,
/// and jobs with a part of this id.
async fn by_text(asked: &SessionRequest, text: &[u8]) -> Option<SearchResult> {
    if asked.params.has("in") {
        return by_part(asked, text).await;
    }
    let exact = by_id(asked, text).await?;
    if !exact.hits.is_empty() || exact.error.is_some() {
        return Some(exact);
    }
    match queue_of(asked, text).await? {
        Some((queue, rest)) => in_queue(asked, &queue, &rest).await,
        None => by_part(asked, text).await,
    }
}

/// In all queues that the user may read.
async fn by_id(asked: &SessionRequest, id: &[u8]) -> Option<SearchResult> {
    let reply =
        ask(asked, command!["DELAY.FIND", id, "COUNT", CONSOLE_HITS_MAX.to_string()]).await?;
    let hit = |row: &Value| Some(Hit { id: id.to_vec(), ..Hit::of_find(row)? });
    let hits = reply.items().iter().filter_map(hit).collect();
    Some(SearchResult { hits, error: reply.error(), ..SearchResult::default() })
}

async fn ask(asked: &SessionRequest, command: Command) -> Option<Value> {
    asked.session.ask(asked.params.db(), vec![command]).await.ok()?.pop()
}

/// The longest beginning of the text that is the name of a queue, with the rest: as it is written, else in any case.
async fn queue_of(asked: &SessionRequest, text: &[u8]) -> Option<Option<InQueue>> {
    let cuts = search::cuts(text);
    let stats = cuts.iter().map(|(queue, _)| command!["DELAY.STATS", queue]).collect();
    let replies = asked.session.ask(asked.params.db(), stats).await.ok()?;
    let is_there = |reply: &Value| matches!(reply, Value::Map(_));
    if let Some(at) = replies.iter().position(is_there) {
        return Some(Some((cuts[at].0.to_vec(), cuts[at].1.to_vec())));
    }
    for (queue, rest) in cuts {
        let found = named(asked, &search::any_case(queue), 1).await?;
        if let Some(queue) = found.into_iter().next() {
            return Some(Some((queue, rest.to_vec())));
        }
    }
    Some(None)
}

/// The names of queues that match.
async fn named(asked: &SessionRequest, glob: &[u8], most: usize) -> Option<Vec<Vec<u8>>> {
    let reply =
        ask(asked, command!["DELAY.QUEUES", "MATCH", glob, "COUNT", most.to_string()]).await?;
    Some(queues::read(&reply).into_iter().map(|queue| queue.name).collect())
}

/// Ids of a queue that have the text, else jobs that contain it.
async fn in_queue(asked: &SessionRequest, queue: &[u8], text: &[u8]) -> Option<SearchResult> {
    let filter = search::with_id(&asked.params, queue, text);
    let found = scanned(asked, queue, &filter).await?;
    if !found.hits.is_empty() || found.cursor.is_some() || found.error.is_some() {
        return Some(SearchResult { of: Some(filter), ..found });
    }
    let filter = search::containing(&asked.params, queue, text);
    let found = scanned(asked, queue, &filter).await?;
    Some(SearchResult { of: Some(filter), ..found })
}

/// Queues whose names have the text, and jobs of all queues whose ids have it, until the time is over or the page is
/// full.
async fn by_part(asked: &SessionRequest, text: &[u8]) -> Option<SearchResult> {
    let (began, glob) = (Instant::now(), search::within(&search::literal(text)));
    let mut found = SearchResult {
        is_part: true,
        queues_looked: asked.params.number("queues").unwrap_or(0),
        ..SearchResult::default()
    };
    let mut cursor = Bytes::copy_from_slice(asked.params.bytes("cursor").unwrap_or(b"0"));
    let mut waiting: Vec<Vec<u8>> = match asked.params.bytes("in") {
        Some(queue) => vec![queue.to_vec()],
        None => {
            found.named = named(asked, &search::within(&search::any_case(text)), NAMED_MAX).await?;
            queues_after(asked, b"").await?
        }
    };
    while !waiting.is_empty() {
        let last = waiting.last().cloned().unwrap_or_default();
        for queue in waiting {
            loop {
                let count = STEP.to_string();
                let scan = command!["DELAY.SCAN", queue, cursor, "MATCH", glob, "COUNT", count];
                let reply = ask(asked, scan).await?;
                // A queue that may not be read, or is gone, has nothing to be found.
                let [next, jobs] = reply.items() else { break };
                found.hits.extend(jobs.items().iter().filter_map(|job| Hit::of_scan(&queue, job)));
                cursor = Bytes::copy_from_slice(next.bytes()?);
                let is_over = &cursor[..] == b"0";
                if found.hits.len() >= CONSOLE_HITS_MAX || began.elapsed() >= TIME {
                    found.queues_looked += u64::from(is_over);
                    found.queue = match is_over {
                        false => Some(queue),
                        true => queues_after(asked, &queue).await?.into_iter().next(),
                    };
                    found.cursor = found.queue.as_ref().map(|_| cursor.to_vec());
                    return Some(found);
                }
                if is_over {
                    break;
                }
            }
            cursor = Bytes::from_static(b"0");
            found.queues_looked += 1;
        }
        waiting = queues_after(asked, &last).await?;
    }
    Some(found)
}

/// The next queues that the user may read, by name.
async fn queues_after(asked: &SessionRequest, name: &[u8]) -> Option<Vec<Vec<u8>>> {
    let count = QUEUES_AT_ONCE.to_string();
    let reply = ask(asked, command!["DELAY.QUEUES", "COUNT", count, "AFTER", name]).await?;
    Some(queues::read(&reply).into_iter().map(|queue| queue.name).collect())
}

/// From the cursor of the address on, until the time is over or the page is full.
async fn scanned(
    asked: &SessionRequest,
    queue: &[u8],
    params: &crate::console::words::params::Params,
) -> Option<SearchResult> {
    let db = asked.params.db();
    let began = Instant::now();
    let first = params.bytes("cursor").unwrap_or(b"0");
    let mut cursor = Bytes::copy_from_slice(first);
    let mut found =
        SearchResult { looked_at: params.number("looked").unwrap_or(0), ..SearchResult::default() };
    let stats = asked.session.ask(db, vec![command!["DELAY.STATS", queue]]).await.ok()?.pop()?;
    found.all = search::jobs_of(&stats);
    loop {
        let scan = filter::scan(params, queue, &cursor);
        let reply = asked.session.ask(db, vec![scan]).await.ok()?.pop()?;
        let [next, jobs] = reply.items() else {
            found.error = reply.error();
            return Some(found);
        };
        found.hits.extend(jobs.items().iter().filter_map(|job| Hit::of_scan(queue, job)));
        found.looked_at += STEP;
        cursor = Bytes::copy_from_slice(next.bytes()?);
        if &cursor[..] == b"0" {
            break;
        }
        if found.hits.len() >= CONSOLE_HITS_MAX || began.elapsed() >= TIME {
            found.cursor = Some(cursor.to_vec());
            break;
        }
    }
    learn(asked, queue, &mut found.hits).await?;
    Some(found)
}

/// Errors and bodies of the first hits.
async fn learn(asked: &SessionRequest, queue: &[u8], hits: &mut [Hit]) -> Option<()> {
    let shown = hits.len().min(CONSOLE_HITS_MAX);
    for some in hits[..shown].chunks_mut(CONSOLE_BODIES_AT_ONCE) {
        let commands = some.iter().map(|hit| command!["DELAY.GET", queue, hit.id]).collect();
        let jobs = asked.session.ask(asked.params.db(), commands).await.ok()?;
        some.iter_mut().zip(&jobs).for_each(|(hit, job)| hit.learn(job));
    }
    Some(())
}
