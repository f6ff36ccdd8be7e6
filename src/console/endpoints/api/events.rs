//! Published messages as a stream of events: `GET /api/v1/events?pattern=__delay@0__:emails`.

use super::{Failed, enter, login_of, status};
use crate::console::site::Site;
use crate::console::site::client::{Ends, Link};
use crate::console::site::live;
use crate::console::site::relay::Relay;
use crate::console::view::response::held_with;
use crate::console::words::params::Params;
use crate::console::words::value::{Value, command};
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::stream::unfold;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// After this long without an event a comment is sent, which keeps proxies from closing.
const QUIET: Duration = Duration::from_secs(15);

/// A stream of what is said in the channels and patterns that the address names.
pub(super) async fn answer(
    site: &Arc<Site>,
    query: &str,
    headers: &HeaderMap,
    ends: Ends,
) -> Result<Response, Failed> {
    let params = Params::read(query.as_bytes());
    let login = login_of(headers)?;
    let permit = Arc::clone(&site.streams).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Failed(StatusCode::SERVICE_UNAVAILABLE, "ERR 32 streams are open".to_owned())
    })?;
    let mut link = enter(site, ends, login.as_ref(), Relay::for_session()).await?;
    let subscribe = match (params.bytes("channel"), params.bytes("pattern")) {
        (Some(channel), None) => command!["SUBSCRIBE", channel],
        (None, Some(pattern)) => command!["PSUBSCRIBE", pattern],
        _ => {
            return Err(Failed(
                StatusCode::BAD_REQUEST,
                "ERR give a channel or a pattern".to_owned(),
            ));
        }
    };
    let failed =
        |_| Failed(StatusCode::BAD_GATEWAY, "ERR the server closed the connection".to_owned());
    if let Value::Error(text) = link.begin(&subscribe).await.map_err(failed)? {
        let text = String::from_utf8_lossy(&text).into_owned();
        return Err(Failed(status::of_error(&text), text));
    }
    Ok(live::stream(unfold((link, permit), |(link, permit)| async move {
        let (link, text) = next(link).await?;
        Some((text, (link, permit)))
    })))
}

/// The next message as an event, or a sign of life.
async fn next(mut link: Link) -> Option<(Link, Bytes)> {
    match tokio::time::timeout(QUIET, link.message()).await {
        Ok(Ok(message)) => {
            let text = event(&message);
            let text = match link.take_permit() {
                Some(permit) => held_with(text, permit),
                None => text,
            };
            Some((link, text))
        }
        Ok(Err(_)) => None,
        Err(_) => Some((link, Bytes::from_static(b": still here\n\n"))),
    }
}

/// `message`, channel and text, or `pmessage`, pattern, channel and text; nothing else comes.
fn event(message: &Value) -> Bytes {
    let words: Vec<_> = message
        .items()
        .iter()
        .map(|item| String::from_utf8_lossy(item.bytes().unwrap_or_default()))
        .collect();
    let (channel, text) = match words.as_slice() {
        [.., channel, text] => (channel.clone(), text.clone()),
        _ => Default::default(),
    };
    Bytes::from(format!("data: {}\n\n", json!({ "channel": channel, "message": text })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_event_whatever_it_holds() {
        let text = |text: &'static str| Value::Text(text.into());
        let message =
            Value::Array(vec![text("pmessage"), text("*"), text("c"), text("a\n\ndata: b")]);
        assert_eq!(event(&message), "data: {\"channel\":\"c\",\"message\":\"a\\n\\ndata: b\"}\n\n");
    }
}
