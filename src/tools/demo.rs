//! `delayd demo`: shows a job arriving, on a server in this process that leaves no data.

use super::access::{Access, ServerAddress};
use super::check::say;
use super::client::{ANSWERS_WITHIN, Client};
use super::reply::Reply;
use super::{Exit, failed};
use crate::cluster::members::names::Address;
use crate::config::Config;
use crate::config::value::{OptionKind, OptionValue};
use crate::time::Written;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text of `--help`.
pub const HELP: &str = "\
Usage: delayd demo [--delay DURATION]
Shows a job arriving: starts a server in memory on a free port of the loopback
interface, lets a consumer wait there, adds a job that is due after DURATION,
and prints both commands, the job the consumer received, and its lateness.
Writes nothing to disk.

  --delay DURATION    when the job is due, 0 to 1h; by default 2s

Exit codes:
   0  the job arrived
   1  it did not; standard error has the reason
  64  the command line is wrong
";

/// The next steps.
const FURTHER: &str = "\
To start a server, which keeps its jobs in ./journal:  delayd
To call it:  delayd call DELAY.ADD orders 30m \"close order 8\" ID order:8
To read on:  delayd call DELAY.HELP, and delayd --help
";

const DELAY_MS_MAX: i64 = 3_600_000;

/// A server in this process.
pub struct Serving {
    /// Its address.
    pub address: SocketAddr,
    /// Stops it, and waits for its end.
    pub stop: Box<dyn FnOnce() -> io::Result<()>>,
}

/// Starts a server; this module does not know how.
pub type Start = fn(Config) -> io::Result<Serving>;

/// Reads the arguments after `demo`: the delay, ms.
///
/// # Errors
/// They are wrong; the text says which.
pub fn read(args: &[String]) -> Result<u64, String> {
    match args {
        [] => Ok(2_000),
        [option] if option == "--delay" => Err("--delay needs a value".to_owned()),
        [option, value] if option == "--delay" => {
            match OptionKind::Span(0, DELAY_MS_MAX).read(&args[1..], None) {
                Ok(OptionValue::Number(ms)) => Ok(ms.unsigned_abs()),
                Ok(_) => Err(format!("--delay {value}: expected a duration")),
                Err(wrong) => Err(format!("--delay {value}: {wrong}")),
            }
        }
        [option, ..] if option != "--delay" => Err(format!("unknown option '{option}'")),
        [.., last] => Err(format!("expected one --delay, also got {last}")),
    }
}

/// Runs it.
pub fn run(delay_ms: u64, start: Start) -> Exit {
    match show(delay_ms, start) {
        Ok(()) => Exit::Good,
        Err(text) => failed(format_args!("demo: {text}"), Exit::Failed),
    }
}

fn show(delay_ms: u64, start: Start) -> Result<(), String> {
    let mut config = Config::default();
    for (option, value) in [("port", "0"), ("bind", "127.0.0.1"), ("appendonly", "no")] {
        config.set(option, &[value.to_owned()]).map_err(|wrong| wrong.to_string())?;
    }
    let failed = |error: io::Error| error.to_string();
    let serving = start(config).map_err(failed)?;
    let shown = arrival(serving.address, delay_ms);
    // A server that ended by itself is the reason for a failed demo: its error comes first.
    (serving.stop)().map_err(failed).and(shown)?;
    say(FURTHER);
    Ok(())
}

/// A consumer waits, a producer adds, the job arrives.
fn arrival(address: SocketAddr, delay_ms: u64) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let place = Address::parse(&address.to_string()).map_err(|wrong| wrong.to_string())?;
    let server = ServerAddress { place, access: Access::default() };
    let (mut consumer, mut producer) = (Client::open(&server)?, Client::open(&server)?);
    let patience = Duration::from_millis(delay_ms) + ANSWERS_WITHIN;
    consumer.set_patience(Some(patience)).map_err(failed)?;
    consumer.send(&[b"DELAY.POP", b"orders", b"0"]).map_err(failed)?;
    let delay = Written(delay_ms).to_string();
    let pop = "delayd call DELAY.POP orders 0";
    let add = format!("delayd call DELAY.ADD orders {delay} \"close order 7\" ID order:7");
    let width = add.len();
    say(&format!("{pop:width$}  # a consumer waits\n{add}  # a producer says what, and when\n"));
    // In one transaction, so that the job still exists when its due time is read, however early that is.
    let add = [&b"DELAY.ADD"[..], b"orders", delay.as_bytes(), b"close order 7", b"ID", b"order:7"];
    let mut replies = Vec::new();
    for words in [&[&b"MULTI"[..]][..], &add, &[b"DELAY.GET", b"orders", b"order:7"], &[b"EXEC"]] {
        let reply = producer.ask(words).map_err(failed)?;
        if let Some(text) = reply.error() {
            return Err(text);
        }
        replies = reply.items().to_vec();
    }
    let due_ms = replies.get(1).and_then(|job| job.field("due").number());
    let due_ms = due_ms.ok_or("the server does not say when the job is due")?;
    let reply = consumer.read().map_err(failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [queue, id, body] =
        ["orders", "order:7", "close order 7"].map(|text| Reply::Text(text.into()));
    if reply != Reply::Many(b'*', vec![queue, id, body]) {
        return Err(format!("the consumer got {}", reply.lines().join(" ")));
    }
    let late = now.saturating_sub(Duration::from_millis(due_ms)).as_secs_f64() * 1e3;
    say(&format!("{}\nIt came {late:.1} ms after it was due.\n", reply.lines().join("\n")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_read_and_what_is_none_is_named() {
        let asked = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            read(&args)
        };
        assert_eq!(asked(""), Ok(2_000));
        assert_eq!(asked("--delay 300ms"), Ok(300));
        assert_eq!(asked("--delay 0"), Ok(0));
        let text = |line| asked(line).unwrap_err();
        assert_eq!(text("--delay"), "--delay needs a value");
        assert!(text("--delay x").starts_with("--delay x: argument must be a duration"));
        assert!(text("--delay 2h").contains("between 0ms and 1h inclusive"));
        assert_eq!(text("--now"), "unknown option '--now'");
        assert_eq!(text("--delay 1s 2s"), "expected one --delay, also got 2s");
    }
}
