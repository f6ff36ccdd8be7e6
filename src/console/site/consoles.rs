//! The consoles of a cluster's nodes, as browsers reach them. No node can know that by itself: names, proxies and
//! certificates are in between.

use axum::http::Uri;
use std::collections::BTreeMap;

/// By the nodes' names, without a slash at the end: `console-nodes`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Consoles(BTreeMap<String, String>);

impl Consoles {
    /// From words such as `n1=https://ops.example.com:9250`, separated by spaces. Of several partitions a port is that of the
    /// first one, as with `console-port`; these are the consoles of the partition with this number.
    ///
    /// # Errors
    /// The error names a word that is no such address, or one that has no port where there are several partitions.
    pub fn read(text: &str, partition: u16, partitions: u16) -> Result<Consoles, String> {
        let console = |word: &str| {
            let expected = |what: &str| format!("console-nodes {word}: {what}");
            let form = || {
                expected(
                    "name=address is expected, such as n1=https://ops.example.com:9250, without a user and a path, \
                     separated by spaces",
                )
            };
            let (name, address) = word.split_once('=').ok_or_else(form)?;
            let (scheme, host, port) =
                read(address).filter(|_| !name.is_empty()).ok_or_else(form)?;
            let port = match port.map(|first| first.checked_add(partition)) {
                None if partitions > 1 => {
                    return Err(expected("the port of the first partition is expected"));
                }
                None => String::new(),
                Some(port) => format!(":{}", port.ok_or_else(form)?),
            };
            Ok((name.to_owned(), format!("{scheme}://{host}{port}")))
        };
        let mut all = BTreeMap::new();
        for word in text.split_ascii_whitespace() {
            let (name, console) = console(word)?;
            if all.insert(name, console).is_some() {
                return Err(format!("console-nodes {word}: the node is named twice"));
            }
        }
        Ok(Consoles(all))
    }

    /// Where the node shows the page that is here under `path`; empty if it is not known.
    pub fn page(&self, node: &str, path: &str) -> String {
        self.0.get(node).map(|console| format!("{console}{path}")).unwrap_or_default()
    }
}

/// Scheme, host and port of an address that has no more than these.
fn read(address: &str) -> Option<(String, String, Option<u16>)> {
    let text = address.strip_suffix('/').unwrap_or(address);
    let address: Uri = address.parse().ok()?;
    let scheme = address.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let authority = address.authority()?;
    let (host, port) = (authority.host(), authority.port_u16());
    let shown = port.map_or(host.to_owned(), |port| format!("{host}:{port}"));
    // No user, path, query or fragment, and not port 0.
    let is_all = format!("{scheme}://{shown}") == text && !host.is_empty() && port != Some(0);
    is_all.then(|| (scheme.to_owned(), host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_address_on_another_node() {
        let text = "n1=https://ops.example.com/ n2=http://[::1]:9250";
        let consoles = Consoles::read(text, 0, 1).unwrap();
        assert_eq!(consoles.page("n1", "/q?name=a"), "https://ops.example.com/q?name=a");
        assert_eq!(consoles.page("n2", "/"), "http://[::1]:9250/");
        assert_eq!(consoles.page("n3", "/"), "");
        let third = Consoles::read("n2=http://[::1]:9250", 3, 4).unwrap();
        assert_eq!(third.page("n2", "/"), "http://[::1]:9253/");
    }

    #[test]
    fn what_is_no_address_is_named() {
        for wrong in [
            "n1", "=http://h", "n1=h:1", "n1=ftp://h", "n1=http://u:p@h", "n1=http://h/x",
            "n1=http://h?x", "n1=http://h:70000", "n1=http://h:0", "n1=http://h#f",
            "n1=http://h,n2=http://i", "n1=javascript:alert(1)",
        ] {
            let text = Consoles::read(wrong, 0, 1).unwrap_err();
            assert!(text.starts_with(&format!("console-nodes {wrong}: name=address")), "{text}");
        }
        let text = Consoles::read("n1=https://h", 0, 4).unwrap_err();
        assert!(text.ends_with("the port of the first partition is expected"), "{text}");
        Consoles::read("n1=http://h:65535", 1, 2).unwrap_err();
        let text = Consoles::read("n1=http://h n1=http://i", 0, 1).unwrap_err();
        assert!(text.ends_with("n1=http://i: the node is named twice"), "{text}");
    }
}
