//! A search: an id in all queues, or the jobs of one queue that a filter finds, for a while in each request.

use crate::console::pages::filter;
use crate::console::pages::search::{self, Hit, Meant, SearchResult};
use crate::console::site::SessionRequest;
use crate::console::view::response::problem;
use crate::console::words::value::{Value, command};
use crate::limits::{CONSOLE_BODIES_AT_ONCE, CONSOLE_HITS_MAX};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// How long one request looks, before it shows what it has.
const TIME: Duration = Duration::from_millis(1_500);
/// The jobs that one scan of [`filter`] looks at.
const STEP: u64 = 1_000;

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
        Meant::Id(id) => by_id(&asked, id).await,
        Meant::Prefix { queue, text } => by_prefix(&asked, queue, text).await,
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

/// In all queues that the user may read.
async fn by_id(asked: &SessionRequest, id: &[u8]) -> Option<SearchResult> {
    let find = command!["DELAY.FIND", id, "COUNT", CONSOLE_HITS_MAX.to_string()];
    let reply = asked.session.ask(asked.params.db(), vec![find]).await.ok()?.pop()?;
    let hits = reply.items().iter().filter_map(Hit::of_find).collect();
    Some(SearchResult { hits, error: reply.error(), ..SearchResult::default() })
}

/// `queue:text`: the job with exactly this id; else ids with this prefix, else jobs that contain the text.
async fn by_prefix(asked: &SessionRequest, queue: &[u8], text: &[u8]) -> Option<SearchResult> {
    let exact = by_id(asked, asked.params.bytes("q").unwrap_or_default().trim_ascii()).await?;
    let stats = command!["DELAY.STATS", queue];
    let stats = asked.session.ask(asked.params.db(), vec![stats]).await.ok()?.pop()?;
    if !exact.hits.is_empty() || !matches!(stats, Value::Map(_)) {
        return Some(exact);
    }
    let found = scanned(asked, queue, &search::beginning(&asked.params, queue, text)).await?;
    if !found.hits.is_empty() || found.cursor.is_some() || found.error.is_some() {
        return Some(SearchResult { of: Some("match"), ..found });
    }
    let found = scanned(asked, queue, &search::containing(&asked.params, queue, text)).await?;
    Some(SearchResult { of: Some("contains"), ..found })
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
