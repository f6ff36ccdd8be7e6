//! Which request goes where, and what all answers say.

use crate::console::endpoints::{act, api, export, login, search};
use crate::console::site::client::Ends;
use crate::console::site::live;
use crate::console::site::{SessionRequest, Site, guard, now_ms};
use crate::console::view::assets;
use crate::console::view::response::{problem, takes_gzip, zipped};
use crate::console::words::params::Params;
use crate::limits::{CONSOLE_REQUEST_TIME, CONSOLE_RETRY_S};
use axum::Router;
use axum::extract::{Request, State as Given};
use axum::http::header::{self, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use std::sync::Arc;

/// The console as a service.
pub fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(answer).with_state(site)
}

async fn answer(Given(site): Given<Arc<Site>>, request: Request) -> Response {
    let zips = takes_gzip(request.headers()) && guard::is_of_this_site(request.headers());
    let mut response = match request.extensions().get::<Ends>().copied() {
        Some(ends) => {
            let ends = site.options.proxies.ends(ends, request.headers());
            route(site, request, ends).await
        }
        None => refused(
            request.uri().path(),
            StatusCode::INTERNAL_SERVER_ERROR,
            "the connection is not known",
        ),
    };
    if zips {
        response = zipped(response).await;
    }
    finish(&mut response);
    response
}

/// Adds what all answers say.
fn finish(response: &mut Response) {
    let later = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let later = later.contains(&response.status());
    let headers = response.headers_mut();
    if later {
        headers.entry(header::RETRY_AFTER).or_insert(HeaderValue::from(CONSOLE_RETRY_S));
    }
    guard::protect(headers);
}

/// Whether a program asks, which reads JSON.
fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Why there is no answer, in the form that the path's are in.
fn refused(path: &str, status: StatusCode, text: &str) -> Response {
    if is_api(path) { api::refusal(status, &format!("ERR {text}")) } else { problem(status, text) }
}

/// The answer on a connection for which there is no place.
pub fn crowded(path: &str) -> Response {
    let text = "too many requests are being answered; try again later";
    let mut response = refused(path, StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    finish(&mut response);
    response
}

/// The answer of a request, before headers that all answers have.
async fn route(site: Arc<Site>, request: Request, ends: Ends) -> Response {
    if let Some((status, why)) = guard::refusal(&request, &site.options.hosts) {
        return refused(request.uri().path(), status, why);
    }
    let path = request.uri().path().to_owned();
    if let Some(name) = path.strip_prefix("/assets/") {
        return assets::answer(name, request.headers());
    }
    if is_api(&path) {
        return api::answer(site, request, ends).await;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::POST) {
        let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST");
        let allowed = HeaderValue::from_static("GET, HEAD, POST");
        response.headers_mut().insert(header::ALLOW, allowed);
        return response;
    }
    if request.method() == Method::POST && guard::is_of_another_site(request.headers()) {
        return problem(
            StatusCode::FORBIDDEN,
            "Another site made your browser send this request, so nothing was done.",
        );
    }
    if path == "/live" {
        return live::answer(&site, request.headers());
    }
    let late =
        || problem(StatusCode::SERVICE_UNAVAILABLE, "The server did not answer within 10 s.");
    let answered =
        tokio::time::timeout(CONSOLE_REQUEST_TIME, read_and_answer(site, request, ends)).await;
    answered.unwrap_or_else(|_| late())
}

async fn read_and_answer(site: Arc<Site>, request: Request, ends: Ends) -> Response {
    let (head, body) = request.into_parts();
    let body = match guard::whole(body).await {
        Ok(body) => body,
        Err((status, why)) => return problem(status, &format!("No answer: {why}.")),
    };
    let query = Params::read(head.uri.query().unwrap_or_default().as_bytes());
    let path = head.uri.path().to_owned();
    let mut params =
        if head.method == Method::POST { query.and(Params::read(&body)) } else { query };
    params.now_ms = now_ms();
    params.parts = head.headers.contains_key("x-delayd-parts");
    if params.names_no_db() {
        return problem(StatusCode::BAD_REQUEST, "Databases are numbered 0 to 15.");
    }
    if path == "/login" {
        let visit = login::Visit { site: &site, ends, headers: &head.headers, params: &params };
        return if head.method == Method::POST { visit.log_in().await } else { visit.form().await };
    }
    let Some(session) = site.session_of(&head.headers) else {
        return login::ask_for(&head.method, &head.headers, &head.uri);
    };
    let here = head.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
    let (method, headers) = (head.method, head.headers);
    let asked = SessionRequest { site, session, method, path, here, params, headers, body };
    if asked.method == Method::POST && !asked.is_own() {
        return problem(
            StatusCode::FORBIDDEN,
            "The form was made for an earlier session. Go back, load the page again and repeat it.",
        );
    }
    match (asked.path.as_str(), asked.method == Method::POST) {
        ("/logout", true) => login::log_out(&asked.site, &asked.session),
        ("/theme", true) => login::set_theme(&asked.site, asked.session.ends, &asked.params),
        (_, true) => act::answer(asked).await,
        ("/export", _) => export::answer(asked).await,
        ("/search", _) => search::answer(asked).await,
        _ => asked.page().await,
    }
}
