//! Names of nodes and addresses, as options and peers give them.

use crate::error::Shown;
use crate::limits::{HOST_BYTES_MAX, NODE_NAME_BYTES_MAX};
use core::net::{IpAddr, Ipv6Addr};
use std::fmt;
use thiserror::Error;

/// The name of a node: letters, digits, `-`, `_` and `.`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(Box<str>);

/// Where a node listens: a host name or an address of the Internet Protocol, and a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    host: Box<str>,
    port: u16,
}

/// Why a text is no name or no address.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Misnamed {
    #[error("a node's name has 1 to {NODE_NAME_BYTES_MAX} bytes, {0} has {1}")]
    NameLength(Shown, usize),
    #[error("a node's name may contain letters, digits, '-', '_' and '.'; {0} does not")]
    NameLetters(Shown),
    #[error("{0} is not host:port")]
    NoPort(Shown),
    #[error("the port of {0} is not between 1 and 65535")]
    Port(Shown),
    #[error("a host has 1 to {HOST_BYTES_MAX} bytes, {0} has {1}")]
    HostLength(Shown, usize),
    #[error(
        "{0} is neither a host name nor an address; write IPv6 addresses in brackets: [::1]:19248"
    )]
    Host(Shown),
}

impl Name {
    pub fn new(text: &str) -> Result<Name, Misnamed> {
        let shown = || Shown::new(text.as_bytes());
        if text.is_empty() || text.len() > NODE_NAME_BYTES_MAX {
            return Err(Misnamed::NameLength(shown(), text.len()));
        }
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            return Err(Misnamed::NameLetters(shown()));
        }
        Ok(Name(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Address {
    /// From a host without brackets, and a port.
    pub fn new(host: &str, port: u16) -> Result<Address, Misnamed> {
        let shown = || Shown::new(host.as_bytes());
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            return Err(Misnamed::HostLength(shown(), host.len()));
        }
        let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !is_name && host.parse::<Ipv6Addr>().is_err() {
            return Err(Misnamed::Host(shown()));
        }
        if port == 0 {
            return Err(Misnamed::Port(shown()));
        }
        Ok(Address { host: host.into(), port })
    }

    /// Reads `host:port`, `[::1]:port` included.
    pub fn parse(text: &str) -> Result<Address, Misnamed> {
        let shown = || Shown::new(text.as_bytes());
        let (host, port) = text.rsplit_once(':').ok_or_else(|| Misnamed::NoPort(shown()))?;
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(Misnamed::Host(shown()));
        }
        let is_number = port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port > 0);
        Address::new(bare.unwrap_or(host), port.ok_or_else(|| Misnamed::Port(shown()))?)
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, from 1 on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it can only be this machine: what goes there crosses no network.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or(self.host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A node as `cluster-nodes` lists it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listed {
    pub name: Name,
    /// Where peers reach it.
    pub peer: Address,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for text in ["n1", "delayd-0.delayd", "A_b", &"x".repeat(64)] {
            assert_eq!(Name::new(text).unwrap().as_str(), text);
        }
        for text in ["", "a b", "n1=", "é", "n1\n", &"x".repeat(65)] {
            Name::new(text).unwrap_err();
        }
        let text = Name::new("a b").unwrap_err().to_string();
        assert!(text.ends_with("'-', '_' and '.'; 'a b' does not"), "{text}");
    }

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["127.0.0.1:19248", "[::1]:1", "n1:65535", "delayd-0.delayd.svc:19248"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        let wrong =
            ["", "n1", ":1", "n1:", "n1:0", "n1:65536", "n1:+1", "::1:1", "[n 1]:1", "[]:1"];
        for text in wrong {
            Address::parse(text).unwrap_err();
        }
        Address::parse(&format!("{}:1", "x".repeat(254))).unwrap_err();
        let text = Address::parse("::1:19248").unwrap_err().to_string();
        assert!(text.contains("'::1:19248'") && text.contains("in brackets"), "{text}");
    }

    #[test]
    fn loopback_is_this_machine() {
        for (text, is) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("LocalHost:1", true),
            ("10.0.0.1:1", false),
            ("0.0.0.0:1", false),
            ("n1:1", false),
            ("localhost.example.com:1", false),
        ] {
            assert_eq!(Address::parse(text).unwrap().is_loopback(), is, "{text}");
        }
    }
}
