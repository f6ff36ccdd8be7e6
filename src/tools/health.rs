//! `delayd health`: whether a server on this machine accepts requests, for health checks without a shell.

use super::check::say;
use super::{Exit, failed};
use crate::config::Config;
use crate::config::args::{Invocation, read_here};
use crate::config::options::Name;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The text of `--help`.
pub const HELP: &str = "\
Usage: delayd health [FILE] [--metrics-port PORT] [--metrics-bind ADDRESS]
Requests /readyz at the metrics-port of the server on this machine, and prints
the reply: whether the server accepts requests.

FILE is the server's configuration file, with metrics-port and metrics-bind;
without it the one named by the variable DELAYD_CONFIG.

  --metrics-port PORT     like the option; it comes before that in FILE
  --metrics-bind ADDRESS  likewise

Exit codes:
   0  it accepts requests
   1  it does not: it loads its journal, or gives another reason
   3  no reply: no server there, or one without a metrics-port
  64  the command line is wrong
";

/// Callers wait less.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The maximum size of a reply.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Runs it with the options of a server.
pub fn run(options: &[String]) -> Exit {
    let config = match config(options) {
        Ok(config) => config,
        Err(text) => {
            let text = format!("health: {text}; see delayd health --help");
            return failed(text, Exit::Usage);
        }
    };
    match ask(&config) {
        Ok((is_ready, text)) => {
            say(&text);
            if is_ready { Exit::Good } else { Exit::Failed }
        }
        Err(text) => failed(format_args!("health: {text}"), Exit::Unreadable),
    }
}

fn config(options: &[String]) -> Result<Config, String> {
    match read_here(options)? {
        Invocation::Run(config) => Ok(*config),
        Invocation::Help | Invocation::Version => {
            Err("expected an option of the server".to_owned())
        }
    }
}

/// Whether it accepts requests, and its text.
fn ask(config: &Config) -> Result<(bool, String), String> {
    let place = place(config)?;
    let failed = |error: io::Error| format!("{place}: {error}");
    let mut socket = TcpStream::connect_timeout(&place, ANSWERS_WITHIN).map_err(failed)?;
    socket.set_read_timeout(Some(ANSWERS_WITHIN)).map_err(failed)?;
    let request = format!("GET /readyz HTTP/1.0\r\nHost: {place}\r\n\r\n");
    socket.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    let strange = || format!("{place}: the reply is not from delayd");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(strange)?;
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    match status.ok_or_else(strange)? {
        "200" => Ok((true, body.to_owned())),
        "503" => Ok((false, body.to_owned())),
        _ => Err(strange()),
    }
}

/// Its address for HTTP; the loopback if it listens on all.
fn place(config: &Config) -> Result<SocketAddr, String> {
    let port = config.number(Name::MetricsPort) as u16;
    if port == 0 {
        return Err("the server has no metrics-port; set the option to check its health".to_owned());
    }
    let bind = config.text(Name::MetricsBind);
    let ip = match bind.split_whitespace().next().map(|word| word.trim_start_matches('-')) {
        None | Some("localhost") => Ipv4Addr::LOCALHOST.into(),
        Some("*") => Ipv4Addr::UNSPECIFIED.into(),
        Some("::*") => Ipv6Addr::UNSPECIFIED.into(),
        Some(word) => {
            word.parse().map_err(|_| format!("metrics-bind {word}: not an IP address"))?
        }
    };
    let ip = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_where_it_listens() {
        let at = |port: &str, bind: &str| {
            let mut config = Config::default();
            config.set("metrics-port", &[port.to_owned()]).unwrap();
            config.set("metrics-bind", &[bind.to_owned()]).unwrap();
            place(&config).map(|place| place.to_string())
        };
        assert_eq!(at("9249", "127.0.0.1").as_deref(), Ok("127.0.0.1:9249"));
        assert_eq!(at("9249", "0.0.0.0").as_deref(), Ok("127.0.0.1:9249"));
        assert_eq!(at("9249", "*").as_deref(), Ok("127.0.0.1:9249"));
        assert_eq!(at("9249", "::* 10.0.0.1").as_deref(), Ok("[::1]:9249"));
        assert_eq!(at("9249", "-10.1.2.3").as_deref(), Ok("10.1.2.3:9249"));
        assert!(at("0", "127.0.0.1").unwrap_err().contains("no metrics-port"));
        assert!(at("9249", "here").unwrap_err().contains("metrics-bind here"));
    }
}
