//! Headers for pages of other origins that call the API.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::Response;

/// Headers that a page may send.
const KNOWN: [&str; 2] = ["authorization", "content-type"];
/// Upstash's client sends several of its own with each request, and more with each version.
const KNOWN_PREFIX: &str = "upstash-";

/// The answer to a browser that asks on behalf of a page whether it may.
pub(super) fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let said = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, headers(asked)),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
    ];
    for (name, value) in said {
        response.headers_mut().insert(name, value);
    }
    response
}

/// Lets pages of `origin` read an answer.
pub(super) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let shown = HeaderValue::from_static("retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, shown);
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
}

/// Those that are known, and those of Upstash's that the page wants to send.
fn headers(asked: &HeaderMap) -> HeaderValue {
    let wanted = asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let wanted = wanted.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let mut all: Vec<String> = KNOWN.iter().map(|name| (*name).to_owned()).collect();
    all.push("upstash-encoding".to_owned());
    for name in wanted.map(|name| name.trim().to_ascii_lowercase()) {
        if name.starts_with(KNOWN_PREFIX) && !all.contains(&name) {
            all.push(name);
        }
    }
    HeaderValue::from_str(&all.join(", ")).unwrap_or(HeaderValue::from_static("authorization"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_upstashs_client_sends_is_allowed_and_nothing_else() {
        let mut asked = HeaderMap::new();
        let wanted =
            "Upstash-Telemetry-Sdk,x-mine, upstash-sync-token, authorization, upstash-encoding";
        asked.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(wanted));
        let allowed = "authorization, content-type, upstash-encoding, upstash-telemetry-sdk, upstash-sync-token";
        assert_eq!(headers(&asked), allowed);
        assert_eq!(headers(&HeaderMap::new()), "authorization, content-type, upstash-encoding");
    }
}
