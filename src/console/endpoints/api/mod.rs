//! Commands over HTTP, for what cannot hold a TCP connection: `POST /api/v1/command` with a command as a JSON array,
//! `/api/v1/pipeline` and `/api/v1/multi-exec` with an array of them, `/api/v1/events` for what is published.
//!
//! The shapes are those of Upstash's REST API, where its clients can carry them. Each request is a connection of its
//! own: it logs in, speaks and is closed. A job is handed over with the first byte of its answer; whatever keeps that
//! from its client leaves the job where it was.

mod cors;
mod events;
mod json;
mod pieces;
mod status;

use crate::command::spec::Flag;
use crate::command::table;
use crate::console::site::Site;
use crate::console::site::client::HandOn;
use crate::console::site::client::{Ends, Link, Replies, Until};
use crate::console::site::enter::{self, RefusedLogin};
use crate::console::site::guard;
use crate::console::site::relay::Relay;
use crate::console::words::reply;
use crate::console::words::value::{Command, command};
use crate::limits::{CONSOLE_PIPELINE_MAX, CONSOLE_REQUEST_TIME};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json::Texts;
use pieces::Pieces;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout;

/// Commands after which a connection no longer answers each request with one reply, or answers in another protocol; and
/// those that are for a connection that goes on.
const NOT_OVER_HTTP: [&str; 19] = [
    "delay.backup|begin", "delay.backup|end", "delay.backup|read", "watch", "unwatch", "auth",
    "hello", "quit", "reset", "monitor", "subscribe", "psubscribe", "ssubscribe", "unsubscribe",
    "punsubscribe", "sunsubscribe", "sync", "psync", "client|reply",
];
/// Commands that open or end a transaction, which `multi-exec` is for.
const IN_TRANSACTIONS: [&str; 3] = ["multi", "exec", "discard"];

/// A user and a password.
type Login = (Vec<u8>, Vec<u8>);

/// Why a request has no replies.
struct Failed(StatusCode, String);

/// The answer to a request below `/api/`.
pub async fn answer(site: Arc<Site>, request: Request, ends: Ends) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.as_ref().filter(|origin| is_allowed(&site, origin)).cloned();
    let mut response = match () {
        () if origin.is_some() && allowed.is_none() => failed(&Failed(
            StatusCode::FORBIDDEN,
            "ERR pages of this origin are not in console-cors".to_owned(),
        )),
        () if allowed.is_none() && guard::is_of_another_site(request.headers()) => failed(&Failed(
            StatusCode::FORBIDDEN,
            "ERR another site made your browser send this request".to_owned(),
        )),
        () if request.method() == Method::OPTIONS => cors::preflight(request.headers()),
        () => route(&site, request, ends).await,
    };
    if let Some(origin) = allowed {
        cors::allow(response.headers_mut(), origin);
    }
    response
}

/// An answer that says why there is no other; `text` begins with a class.
pub fn refusal(status: StatusCode, text: &str) -> Response {
    as_json(status, Body::from(json!({ "error": text }).to_string()))
}

fn is_allowed(site: &Site, origin: &HeaderValue) -> bool {
    site.options.cors.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
}

async fn route(site: &Arc<Site>, request: Request, ends: Ends) -> Response {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let (method, allowed) = match path.as_str() {
        "/api/v1/events" => (Method::GET, "GET, OPTIONS"),
        "/api/v1" | "/api/v1/command" | "/api/v1/pipeline" | "/api/v1/multi-exec" => {
            (Method::POST, "POST, OPTIONS")
        }
        _ => {
            return failed(&Failed(
                StatusCode::NOT_FOUND,
                "ERR no such path; the paths are /api/v1/command, /pipeline, /multi-exec and /events".to_owned(),
            ));
        }
    };
    if request.method() != method {
        let text = format!("ERR the method of {path} is {method}");
        let mut response = failed(&Failed(StatusCode::METHOD_NOT_ALLOWED, text));
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        return response;
    }
    let answered = if method == Method::GET {
        let (head, _) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        events::answer(site, query, &head.headers, ends).await
    } else {
        commands(site, &path, request, ends).await
    };
    answered.unwrap_or_else(|why| failed(&why))
}

async fn commands(
    site: &Arc<Site>,
    path: &str,
    request: Request,
    ends: Ends,
) -> Result<Response, Failed> {
    let wait_until = Instant::now() + site.options.wait;
    let until = Until { wait: Some(wait_until), answer: Some(wait_until + CONSOLE_REQUEST_TIME) };
    let (head, body) = request.into_parts();
    let texts = Texts::of(&head.headers);
    // A page of another site can send text without being asked whether it may; JSON it cannot.
    let kind = head.headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !kind.eq_ignore_ascii_case(b"application/json") {
        return Err(Failed(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "ERR the content-type must be application/json".to_owned(),
        ));
    }
    let login = login_of(&head.headers)?;
    let body = timeout(CONSOLE_REQUEST_TIME, guard::whole(body)).await;
    let slow = |_| Failed(StatusCode::REQUEST_TIMEOUT, "ERR the body took too long".to_owned());
    let unread = |(status, why)| Failed(status, format!("ERR {why}"));
    let body = body.map_err(slow)?.map_err(unread)?;
    let read = |text: String| Failed(StatusCode::BAD_REQUEST, text);
    let single = !path.ends_with("/pipeline") && !path.ends_with("/multi-exec");
    let commands = if single {
        vec![json::command(&body).map_err(read)?]
    } else {
        json::commands(&body).map_err(read)?
    };
    if commands.len() > CONSOLE_PIPELINE_MAX {
        return Err(read(format!(
            "ERR {} commands at once; at most {CONSOLE_PIPELINE_MAX} are allowed",
            commands.len()
        )));
    }
    for command in &commands {
        check(site, command)?;
    }
    let mut link = enter(site, ends, login.as_ref(), Relay::for_request()).await?;
    let count = commands.len();
    let replies = match path.ends_with("/multi-exec") {
        true => transaction(&mut link, commands, until).await?,
        false => link.ask_until(&commands, until, false).await,
    };
    let position = replies.end;
    if !link.relay().is_good(position) {
        return Err(Failed(
            StatusCode::SERVICE_UNAVAILABLE,
            "ERR the server ended the connection before its answer was handed over; jobs in it are back in their queues"
                .to_owned(),
        ));
    }
    let (status, pieces) = match (single, replies.all.first()) {
        (true, Some(reply)) => one(reply, texts),
        (true, None) => return Err(status::of_cut(replies.cut.as_ref(), until)),
        (false, _) => (StatusCode::OK, several(&replies, count, texts, until)),
    };
    // Large answers have their place until they are read.
    let body = pieces.into_body(link.take_permit()).map_err(|error| no_reply(&error))?;
    let mut response = as_json(status, body);
    response.extensions_mut().insert(HandOn { link: Arc::new(link), position });
    Ok(response)
}

/// The replies of EXEC; or why there was none.
async fn transaction(
    link: &mut Link,
    commands: Vec<Command>,
    until: Until,
) -> Result<Replies, Failed> {
    let mut asked = vec![command!["MULTI"]];
    asked.extend(commands);
    asked.push(command!["EXEC"]);
    let Replies { mut all, cut, end } = link.ask_until(&asked, until, true).await;
    if let Some(cut) = cut {
        return Err(status::of_cut(Some(&cut), until));
    }
    let exec = all.pop().unwrap_or_default();
    if let Some(mut text) = reply::error(&exec) {
        // A command that was refused when it was queued has the reason; EXEC says only that there
        // was one.
        if let Some(why) = all.iter().find_map(reply::error) {
            text = format!("EXECABORT Transaction discarded because of: {why}");
        }
        return Err(Failed(status::of_error(&text), text));
    }
    let all = reply::items(&exec).map_err(|error| no_reply(&error))?;
    Ok(Replies { all, cut: None, end })
}

fn one(reply: &Bytes, texts: Texts) -> (StatusCode, Pieces) {
    let status = reply::error(reply).map_or(StatusCode::OK, |error| status::of_error(&error));
    (status, Pieces::one(reply, texts))
}

/// The replies to all `count` commands; in the places of those that did not come, why.
fn several(replies: &Replies, count: usize, texts: Texts, until: Until) -> Pieces {
    let missing = count.saturating_sub(replies.all.len());
    let Failed(_, why) = status::of_cut(replies.cut.as_ref(), until);
    Pieces::several(&replies.all, missing, &why, texts)
}

/// The server has said something else than replies.
fn no_reply(error: &io::Error) -> Failed {
    Failed(StatusCode::BAD_GATEWAY, format!("ERR {error}"))
}

/// Whether a command can be carried, and may be.
fn check(site: &Site, command: &Command) -> Result<(), Failed> {
    let words: Vec<&[u8]> = command.iter().map(|word| &word[..]).collect();
    let refuse = |text: String| Err(Failed(StatusCode::BAD_REQUEST, text));
    let Some(name) = words.first() else { return refuse("ERR an empty command".to_owned()) };
    // Unknown commands are refused by the server in its own words.
    let Ok(spec) = table::resolve(&words) else { return Ok(()) };
    if NOT_OVER_HTTP.contains(&spec.name) {
        return refuse(format!("ERR {} is not available over HTTP", name.escape_ascii()));
    }
    if IN_TRANSACTIONS.contains(&spec.name) {
        return refuse(format!(
            "ERR {} is not available over HTTP; /api/v1/multi-exec is a transaction",
            name.escape_ascii()
        ));
    }
    let changes = spec
        .flags
        .iter()
        .any(|flag| matches!(flag, Flag::Write | Flag::Admin | Flag::PubSub | Flag::SkipSlowLog));
    if site.options.readonly && changes {
        let name = name.escape_ascii();
        let text = format!(
            "READONLY the console is read-only (console-readonly): {name} may change something"
        );
        return Err(Failed(StatusCode::FORBIDDEN, text));
    }
    Ok(())
}

/// User and password of the header; none without one.
fn login_of(headers: &HeaderMap) -> Result<Option<Login>, Failed> {
    let Some(said) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let wrong = || {
        Failed(
            StatusCode::UNAUTHORIZED,
            "WRONGPASS Authorization must be Basic or Bearer with user:password".to_owned(),
        )
    };
    let said = said.as_bytes();
    let pair = match said.iter().position(|byte| *byte == b' ').map(|at| said.split_at(at)) {
        Some((b"Basic" | b"basic", rest)) => {
            STANDARD.decode(rest.trim_ascii()).map_err(|_| wrong())?
        }
        Some((b"Bearer" | b"bearer", rest)) => rest.trim_ascii().to_vec(),
        _ => return Err(wrong()),
    };
    let Some(colon) = pair.iter().position(|byte| *byte == b':') else {
        // A token alone is the password of the default user, as AUTH has it.
        return Ok(Some((b"default".to_vec(), pair)));
    };
    Ok(Some((pair[..colon].to_vec(), pair[colon + 1..].to_vec())))
}

/// A fresh connection on which the request's user has logged in.
async fn enter(
    site: &Site,
    ends: Ends,
    login: Option<&Login>,
    relay: Relay,
) -> Result<Link, Failed> {
    let login = login.map(|(user, password)| (&user[..], &password[..]));
    let entered = timeout(CONSOLE_REQUEST_TIME, enter::enter(site, ends, login, relay)).await;
    let late =
        |_| Failed(StatusCode::SERVICE_UNAVAILABLE, "ERR the server does not answer".to_owned());
    let refused = match entered.map_err(late)? {
        Ok(link) => return Ok(link),
        Err(refused) => refused,
    };
    let by_token = "NOAUTH a user and a password are required, or as Bearer the token that `delayd console --token` \
                    prints";
    let (status, text) = match refused {
        RefusedLogin::Missing if site.options.token.is_some() => {
            (StatusCode::UNAUTHORIZED, by_token)
        }
        RefusedLogin::Missing => {
            (StatusCode::UNAUTHORIZED, "NOAUTH a user and a password are required")
        }
        RefusedLogin::Insecure => (
            StatusCode::FORBIDDEN,
            "ERR a password would cross the network as plain text; use TLS, or, behind a proxy, \
             console-trusted-proxies or console-insecure",
        ),
        RefusedLogin::Wrong => {
            (StatusCode::UNAUTHORIZED, "WRONGPASS the user or the password is wrong")
        }
        RefusedLogin::TooMany => (
            StatusCode::TOO_MANY_REQUESTS,
            "ERR too many wrong passwords for this user from this address; wait a few seconds",
        ),
        RefusedLogin::Server(text) => return Err(Failed(StatusCode::SERVICE_UNAVAILABLE, text)),
    };
    Err(Failed(status, text.to_owned()))
}

fn as_json(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn failed(Failed(status, text): &Failed) -> Response {
    let mut response = refusal(*status, text);
    if *status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Basic realm=\"delayd\", charset=\"UTF-8\""),
        );
    }
    if *status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, enter::retry_after());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(said: &str) -> Option<Login> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, said.parse().unwrap());
        login_of(&headers).ok().flatten()
    }

    #[test]
    fn users_log_in_by_basic_and_bearer() {
        let pair = |user: &str, password: &str| {
            Some((user.as_bytes().to_vec(), password.as_bytes().to_vec()))
        };
        assert_eq!(login("Basic d29ya2VyOmE6Yg=="), pair("worker", "a:b"));
        assert_eq!(login("Bearer worker:a:b"), pair("worker", "a:b"));
        assert_eq!(login("Bearer secret"), pair("default", "secret"));
        for wrong in ["Basic !", "Digest x", "Basic"] {
            assert_eq!(login(wrong), None, "{wrong}");
        }
    }
}
