//! What reaches a server as it listens: something to try, that can be pasted.

use crate::config::Config;
use crate::config::options::Name;
use crate::server::connection::listen::Listener;
use crate::session::acl::Acl;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `redis-cli` with the options that this server requires. Values that it cannot know are asked for (`--askpass`) or
/// written in capitals (a client's certificate).
pub fn redis_cli(listeners: &[Listener], config: &Config, acl: &Acl) -> String {
    let mut words = vec!["redis-cli".to_owned()];
    // The listener with the fewest requirements first.
    let asks = |listener: &&Listener| match listener {
        Listener::Tcp(_) => 0,
        Listener::Unix(..) => 1,
        Listener::Tls(_) => 2,
    };
    let has_host = |listener: &&Listener| listener.address().is_some_and(|at| host(at).is_some());
    let nearest = listeners.iter().min_by_key(|listener| (asks(listener), has_host(listener)));
    match nearest.and_then(Listener::address) {
        None => add("-s", config.text(Name::UnixSocket), &mut words),
        Some(address) => {
            if let Some(host) = host(address) {
                add("-h", &host, &mut words);
            }
            add("-p", &address.port().to_string(), &mut words);
        }
    }
    if let Some(Listener::Tls(_)) = nearest {
        add_tls(config, &mut words);
    }
    if acl.needs_password() {
        if !acl.default_user().is_enabled() {
            let user = acl.users().find(|user| user.is_enabled());
            let name = user.map_or(&b"USER"[..], |user| user.name());
            add("--user", &String::from_utf8_lossy(name), &mut words);
        }
        words.push("--askpass".to_owned());
    }
    words.join(" ")
}

/// The same with this program, where it asks for no password and no TLS.
pub fn call(listeners: &[Listener], config: &Config, acl: &Acl) -> String {
    let line = redis_cli(listeners, config, acl);
    let is_plain = listeners.iter().any(|listener| matches!(listener, Listener::Tcp(_)));
    match is_plain && !acl.needs_password() {
        true => line.replacen("redis-cli", "delayd call", 1),
        false => line,
    }
}

/// Which authority to trust: the one that the server trusts; and the client's own certificate.
fn add_tls(config: &Config, words: &mut Vec<String>) {
    words.push("--tls".to_owned());
    for (flag, name) in [("--cacert", Name::TlsCaCertFile), ("--cacertdir", Name::TlsCaCertDir)] {
        if !config.text(name).is_empty() {
            add(flag, config.text(name), words);
        }
    }
    if config.text(Name::TlsAuthClients) == "yes" {
        add("--cert", "CLIENT.crt", words);
        add("--key", "CLIENT.key", words);
    }
}

fn add(flag: &str, value: &str, words: &mut Vec<String>) {
    words.extend([flag.to_owned(), quoted(value)]);
}

/// The host to name for an address that is listened on; none where redis-cli finds it by itself.
fn host(address: SocketAddr) -> Option<String> {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST | Ipv4Addr::UNSPECIFIED) => None,
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Some(Ipv6Addr::LOCALHOST.to_string()),
        ip => Some(ip.to_string()),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn hint(kinds: &[fn(TcpListener) -> Listener], options: &[[&str; 2]], user: &str) -> String {
        let mut config = Config::default();
        for [word, value] in options {
            config.set(word, &[(*value).to_owned()]).unwrap();
        }
        let mut acl = Acl::default();
        let rules: Vec<&[u8]> = user.split(' ').map(str::as_bytes).collect();
        acl.set_user(rules[0], &rules[1..]).unwrap();
        let listen =
            |kind: &fn(TcpListener) -> Listener| kind(TcpListener::bind("127.0.0.1:0").unwrap());
        let listeners: Vec<Listener> = kinds.iter().map(listen).collect();
        let hint = redis_cli(&listeners, &config, &acl);
        let own = call(&listeners, &config, &acl);
        assert_eq!(own.replace("delayd call", "redis-cli"), hint);
        let is_simple = !hint.contains(" --") && !hint.contains(" -s ");
        assert_eq!(own.starts_with("delayd call"), is_simple, "{own}");
        let port = |listener: &Listener| listener.address().unwrap().port().to_string();
        let ports = ["FIRST", "SECOND"].into_iter().zip(listeners.iter().map(port));
        ports.fold(hint, |hint, (name, port)| hint.replace(&port, name))
    }

    #[test]
    fn it_fits_what_the_server_asks_of_a_client() {
        const OPEN: &str = "default on nopass";
        let ca = ["tls-ca-cert-file", "/etc/my ca.crt"];
        let no_certificate = ["tls-auth-clients", "no"];
        let at = ["unixsocket", "/run/delayd's.sock"];
        for (kinds, options, user, want) in [
            (
                &[Listener::Tcp as fn(TcpListener) -> Listener][..],
                &[][..],
                OPEN,
                "redis-cli -p FIRST",
            ),
            (&[Listener::Tls, Listener::Tcp], &[ca], OPEN, "redis-cli -p SECOND"),
            (&[Listener::Tls], &[no_certificate], OPEN, "redis-cli -p FIRST --tls"),
            (
                &[Listener::Tls],
                &[ca],
                OPEN,
                "redis-cli -p FIRST --tls --cacert '/etc/my ca.crt' --cert CLIENT.crt --key CLIENT.key",
            ),
            (&[], &[at], OPEN, "redis-cli -s '/run/delayd'\\''s.sock'"),
            (&[Listener::Tcp], &[], "default on >secret", "redis-cli -p FIRST --askpass"),
            (&[Listener::Tcp], &[], "default off", "redis-cli -p FIRST --user USER --askpass"),
        ] {
            assert_eq!(hint(kinds, options, user), want);
        }
    }

    #[test]
    fn a_host_is_named_where_redis_cli_would_not_try_it() {
        let host = |ip: &str| host(SocketAddr::new(ip.parse().unwrap(), 9248));
        assert_eq!((host("127.0.0.1"), host("0.0.0.0")), (None, None));
        for (ip, named) in
            [("127.0.0.2", "127.0.0.2"), ("10.1.2.3", "10.1.2.3"), ("::", "::1"), ("::1", "::1")]
        {
            assert_eq!(host(ip).as_deref(), Some(named));
        }
    }
}
