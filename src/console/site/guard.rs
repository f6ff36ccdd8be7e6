//! Which requests are heard at all: of which hosts, of which sites.

use crate::limits::CONSOLE_FORM_BYTES_MAX;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Request, StatusCode, Version};
use http_body_util::LengthLimitError;
use hyper::body::Body as Streamed;
use std::error::Error;
use std::net::IpAddr;

/// Headers of every answer. Nothing of another site is loaded, no script in a page runs, no other site frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Why a request is not heard; none if it is.
pub fn refusal<B>(request: &Request<B>, hosts: &[String]) -> Option<(StatusCode, &'static str)> {
    if request.version() < Version::HTTP_11 {
        let text = "HTTP/1.0 is not supported. A proxy must speak HTTP/1.1: for nginx set proxy_http_version 1.1.";
        return Some((StatusCode::HTTP_VERSION_NOT_SUPPORTED, text));
    }
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Some((StatusCode::BAD_REQUEST, "A request must have one Host header."));
    }
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    // The host in the request line counts, as in RFC 9112.
    let host = request.uri().authority().map(|authority| authority.as_str()).or(host);
    if host.is_some_and(|host| is_ours(host, hosts)) {
        return None;
    }
    let text = "Open this console by an address, by localhost, or by a name in console-hosts. The name in this \
        request is not one of these.";
    Some((StatusCode::MISDIRECTED_REQUEST, text))
}

/// All of a request's body, or why it is missing. Refuse one that announces too much before any of it is read.
pub async fn whole(body: Body) -> Result<Bytes, (StatusCode, &'static str)> {
    let long = (StatusCode::PAYLOAD_TOO_LARGE, "a request may have at most 1 MiB");
    if body.size_hint().lower() > CONSOLE_FORM_BYTES_MAX as u64 {
        return Err(long);
    }
    to_bytes(body, CONSOLE_FORM_BYTES_MAX).await.map_err(|error| {
        match error.source().is_some_and(<dyn Error>::is::<LengthLimitError>) {
            true => long,
            false => (StatusCode::BAD_REQUEST, "the request's body is malformed or incomplete"),
        }
    })
}

/// Whether a request's Host is a name of this console. A foreign page can point its own name at this address and
/// make the browser talk to it, but what the browser then sends as Host is that name: so addresses are fine, and only
/// names that were said to be ours.
fn is_ours(host: &str, hosts: &[String]) -> bool {
    let host = without_port(host).trim_end_matches('.').to_ascii_lowercase();
    // An address as a host name leads nowhere else; and the server cannot know which one a browser uses if a port is
    // forwarded to a container.
    if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return true;
    }
    host == "localhost" || hosts.iter().any(|ours| ours.eq_ignore_ascii_case(&host))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}

/// Whether the browser says that another site made it ask.
pub fn is_of_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site")
}

/// Whether no other site, port or domain made the browser ask, as far as it says.
pub fn is_of_this_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none")
}

/// Adds what keeps a page to itself.
pub fn protect(headers: &mut HeaderMap) {
    let said = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in said {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(host: &str) -> bool {
        is_ours(host, &["ops.example.com".to_owned()])
    }

    #[test]
    fn only_names_of_ours_and_the_address_itself_are_heard() {
        for host in [
            "127.0.0.1:9250", "192.0.2.1:9250", "[::1]:9250", "[::1]", "127.0.0.1",
            "localhost:9250", "LOCALHOST.", "ops.example.com", "Ops.Example.com:443",
        ] {
            assert!(asks(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "ops.example.com.evil.example"] {
            assert!(!asks(host), "{host}");
        }
    }
}
