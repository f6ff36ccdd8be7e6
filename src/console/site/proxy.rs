//! Proxies that are trusted to name the visitor.

use crate::console::site::client::Ends;
use axum::http::HeaderMap;
use std::net::{IpAddr, SocketAddr};

/// The networks of `console-trusted-proxies`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proxies(Vec<(IpAddr, u32)>);

impl Proxies {
    /// From addresses and networks such as `10.0.0.0/8`, separated by spaces.
    ///
    /// # Errors
    /// The error names a word that is neither.
    pub fn read(text: &str) -> Result<Proxies, String> {
        text.split_ascii_whitespace().map(network).collect::<Result<_, _>>().map(Proxies)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|(network, bits)| is_in(address, *network, *bits))
    }

    /// Where a request came from: the last address it passed that is not a trusted proxy. A header that a proxy appends
    /// to ends with the address that proxy saw; everything before may be forged.
    pub fn ends(&self, ends: Ends, headers: &HeaderMap) -> Ends {
        let proxy = ends.peer.ip().to_canonical();
        if !self.trusts(proxy) {
            return ends;
        }
        let passed = words(headers, "x-forwarded-for");
        let passed = self.client(proxy, passed.iter().map(|word| address(word)));
        let forwarded = forwarded(headers);
        let told = self.client(proxy, forwarded.iter().map(|hop| hop.address));
        // A proxy writes one of the two, and a client may add the other: neither is believed then.
        let client = match (passed, told) {
            (Some(one), Some(other)) if one != other => proxy,
            (one, other) => one.or(other).unwrap_or(proxy),
        };
        let by_word = words(headers, "x-forwarded-proto").pop();
        let by_word = by_word.map(|word| word.eq_ignore_ascii_case("https"));
        let by_hop = forwarded.last().and_then(|hop| hop.is_https);
        let is_https = [by_word, by_hop].into_iter().flatten().reduce(|one, other| one && other);
        let peer = SocketAddr::new(client, ends.peer.port());
        Ends { peer, is_https: is_https.unwrap_or(false), ..ends }
    }

    /// From the right; everything after an unreadable part is unknown. None without a statement.
    fn client(
        &self,
        proxy: IpAddr,
        hops: impl DoubleEndedIterator<Item = Option<IpAddr>>,
    ) -> Option<IpAddr> {
        let mut known = None;
        for hop in hops.rev() {
            let Some(address) = hop else { return Some(known.unwrap_or(proxy)) };
            known = Some(address);
            if !self.trusts(address) {
                break;
            }
        }
        known
    }
}

/// One proxy's statement about its visitor.
struct Hop {
    address: Option<IpAddr>,
    is_https: Option<bool>,
}

/// From `Forwarded: for="[2001:db8::1]:80";proto=https, for=192.0.2.1`. Quoted text has no commas or semicolons here:
/// addresses have none, and other values are ignored.
fn forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let hop = |word: &String| {
        let field = |name: &str| {
            let pairs = word.split(';').filter_map(|pair| pair.trim().split_once('='));
            let mut found = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.trim_matches('"').to_owned())
        };
        let address = field("for").as_deref().and_then(address);
        let is_https = field("proto").map(|proto| proto.eq_ignore_ascii_case("https"));
        Hop { address, is_https }
    };
    words(headers, "forwarded").iter().map(hop).collect()
}

/// The parts between commas, over all lines of a header.
fn words(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
    lines.flat_map(|line| line.split(',')).map(|word| word.trim().to_owned()).collect()
}

/// With or without a port.
fn address(word: &str) -> Option<IpAddr> {
    let bare = || word.trim_matches(['[', ']']).parse().ok();
    let address: Option<IpAddr> = word.parse::<SocketAddr>().ok().map(|whole| whole.ip());
    address.or_else(bare).map(|address| address.to_canonical())
}

fn network(word: &str) -> Result<(IpAddr, u32), String> {
    let (address, bits) = word.split_once('/').unwrap_or((word, ""));
    let read = || {
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = if word.contains('/') { bits.parse().ok()? } else { most };
        (bits <= most).then_some((address, bits))
    };
    read().ok_or_else(|| {
        format!("console-trusted-proxies {word}: an address such as 10.0.0.7 or a network such as 10.0.0.0/8 is expected")
    })
}

fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let same =
        |one: u128, other: u128, width: u32| bits == 0 || (one ^ other) >> (width - bits) == 0;
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            same(one.to_bits().into(), other.to_bits().into(), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    /// From a trusted proxy: the address that is believed, and whether it came by https.
    fn seen(lines: &[(&'static str, &str)]) -> (String, bool) {
        let proxies = Proxies::read("10.0.0.0/8 fd00::/8").unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let ends = Ends {
            peer: "10.0.0.1:99".parse().unwrap(),
            local: "10.0.0.9:9250".parse().unwrap(),
            is_https: false,
            is_proven: false,
        };
        let stranger = Ends { peer: "192.0.2.9:99".parse().unwrap(), ..ends };
        assert_eq!(proxies.ends(stranger, &headers), stranger, "who is no proxy is not believed");
        assert_eq!(Proxies::default().ends(ends, &headers), ends);
        let ends = proxies.ends(ends, &headers);
        (ends.peer.ip().to_string(), ends.is_https)
    }

    #[test]
    fn the_rightmost_that_is_no_proxy_is_who_came() {
        let address = |lines: &[(&'static str, &str)]| seen(lines).0;
        assert_eq!(address(&[]), "10.0.0.1");
        let passed = |text: &str| address(&[("x-forwarded-for", text)]);
        assert_eq!(passed("192.0.2.1"), "192.0.2.1");
        assert_eq!(passed("198.51.100.1, 192.0.2.1, 10.0.0.2"), "192.0.2.1");
        assert_eq!(passed("10.0.0.3,10.0.0.2"), "10.0.0.3", "all are proxies");
        assert_eq!(passed("192.0.2.1:4711"), "192.0.2.1");
        assert_eq!(passed("2001:db8::1, [fd00::2]:80"), "2001:db8::1");
        assert_eq!(passed("192.0.2.1, unknown"), "10.0.0.1");
        assert_eq!(passed("192.0.2.1, rubbish, 10.0.0.2"), "10.0.0.2");
        let lines = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "192.0.2.2")];
        assert_eq!(address(&lines), "192.0.2.2", "one appended a line");
        let told = |text: &str| address(&[("forwarded", text)]);
        assert_eq!(told("for=198.51.100.1, For=\"[2001:db8::1]:80\";proto=http"), "2001:db8::1");
        assert_eq!(told("for=192.0.2.1;by=10.0.0.2, for=10.0.0.2"), "192.0.2.1");
        assert_eq!(told("for=_hidden"), "10.0.0.1");
        let both = |one, other| address(&[("x-forwarded-for", one), ("forwarded", other)]);
        assert_eq!(both("192.0.2.1", "for=192.0.2.1"), "192.0.2.1");
        assert_eq!(both("192.0.2.1", "for=198.51.100.1"), "10.0.0.1", "one was forged");
    }

    #[test]
    fn https_is_what_the_nearest_proxy_says() {
        let https = |lines: &[(&'static str, &str)]| seen(lines).1;
        assert!(https(&[("x-forwarded-proto", "https")]));
        assert!(https(&[("forwarded", "for=192.0.2.1;proto=https")]));
        assert!(!https(&[("x-forwarded-proto", "https, http")]));
        assert!(!https(&[("x-forwarded-proto", "http"), ("forwarded", "proto=https")]));
        assert!(!https(&[]));
    }

    #[test]
    fn networks_are_read_or_refused() {
        for wrong in ["proxy.example", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/x"] {
            let text = Proxies::read(wrong).unwrap_err();
            assert!(text.starts_with(&format!("console-trusted-proxies {wrong}:")), "{text}");
        }
        let all = Proxies::read("0.0.0.0/0").unwrap();
        assert!(all.trusts("192.0.2.1".parse().unwrap()) && !all.trusts("::1".parse().unwrap()));
    }
}
