//! Who may speak to the console at all: hosts, sites, and how often a password may be wrong.

use crate::limits::CONSOLE_WRONG_MAX;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What every answer says. Nothing of another site is loaded, nothing written in a page runs, no other site frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// How long a wrong password counts.
const WRONG_COUNTS: Duration = Duration::from_secs(60);
/// Addresses remembered at most; beyond it all are slowed as one.
const ADDRESSES_MAX: usize = 10_000;

/// Whether the request's Host is a name of this console. A foreign page can point its own name at this address and
/// make the browser talk to it, but what the browser then sends as Host is that name: so addresses are fine, and only
/// names that were said to be ours.
pub fn is_ours(headers: &HeaderMap, hosts: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let host = without_port(host).trim_end_matches('.').to_ascii_lowercase();
    // No name leads elsewhere by an address, and which one a browser uses the server cannot know behind a port that is
    // handed on to a container.
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

/// Whether nobody stands between: who came through a proxy is not of this machine because the proxy is.
pub fn is_direct(headers: &HeaderMap) -> bool {
    let passed = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];
    let local = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(without_port);
    let by_address = local.is_some_and(|host| {
        host.eq_ignore_ascii_case("localhost")
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    });
    by_address && !passed.iter().any(|name| headers.contains_key(*name))
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

/// Wrong passwords of the last minute, by address.
#[derive(Debug, Default)]
pub struct Wrong(Mutex<HashMap<IpAddr, Vec<Instant>>>);

impl Wrong {
    /// Whether no more are heard from this address for now.
    pub fn is_full(&self, address: IpAddr, now: Instant) -> bool {
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.retain(|_, times| {
            times.retain(|time| now.duration_since(*time) < WRONG_COUNTS);
            !times.is_empty()
        });
        let full = wrong.get(&address).is_some_and(|times| times.len() >= CONSOLE_WRONG_MAX);
        full || wrong.len() >= ADDRESSES_MAX
    }

    /// One more. Counted before the password is looked at, so that many at once are no way round.
    pub fn count(&self, address: IpAddr, now: Instant) {
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.entry(address).or_default().push(now);
    }

    /// The password was right after all.
    pub fn forgive(&self, address: IpAddr) {
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = wrong.get_mut(&address) {
            times.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(host: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        is_ours(&headers, &["ops.example.com".to_owned()])
    }

    #[test]
    fn only_names_of_ours_and_the_address_itself_are_heard() {
        for host in [
            "127.0.0.1:9250",
            "192.0.2.1:9250",
            "[::1]:9250",
            "[::1]",
            "127.0.0.1",
            "localhost:9250",
            "LOCALHOST.",
            "ops.example.com",
            "Ops.Example.com:443",
        ] {
            assert!(asks(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "ops.example.com.evil.example"] {
            assert!(!asks(host), "{host}");
        }
    }

    #[test]
    fn the_eleventh_wrong_password_of_a_minute_is_not_heard() {
        let (wrong, now) = (Wrong::default(), Instant::now());
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for _ in 0..10 {
            assert!(!wrong.is_full(one, now));
            wrong.count(one, now);
        }
        assert!(wrong.is_full(one, now) && !wrong.is_full(other, now));
        wrong.forgive(one);
        assert!(!wrong.is_full(one, now));
        wrong.count(one, now);
        assert!(wrong.is_full(one, now + Duration::from_secs(59)));
        assert!(!wrong.is_full(one, now + Duration::from_secs(61)));
    }
}
