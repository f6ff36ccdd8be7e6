//! `delayd call`: sends commands to a running server and prints the replies.

use super::access::{Access, ServerAddress};
use super::client::Client;
use super::reply::{Reply, plain_lines};
use super::{Exit, failed};
use crate::cluster::members::names::Address;
use crate::config::options::{Name, spec};
use crate::resp::{Arg, FrameLimits, Framed, Framer};
use bytes::BytesMut;
use std::io::{self, BufRead, IsTerminal, Write};

/// `delayd call`
#[derive(Debug, PartialEq)]
pub struct Call {
    pub server: ServerAddress,
    pub database: Option<String>,
    /// One command; those of standard input if there are none.
    pub words: Vec<String>,
}

/// How often a command follows from one node to another.
const MOVES_MAX: u32 = 5;

/// The text of `--help`.
pub const HELP: &str = "\
Usage: delayd call [-h HOST] [-p PORT] [-n DB] [--user NAME] [WORD ...]
Sends one command to the server at HOST:PORT and prints the reply: on a terminal
as redis-cli prints it, otherwise its content, one item per line. Options come
before the command. Without a WORD it reads commands from standard input, one
per line, quoted as in redis-cli. SUBSCRIBE, PSUBSCRIBE and MONITOR print
messages until they are interrupted. There is no history and no completion.
Where a server answers MOVED it follows, as redis-cli -c does.

The password comes from the variable DELAYD_PASSWORD or REDISCLI_AUTH, or from
a file.

  -h HOST                 the server's host; by default 127.0.0.1
  -p PORT                 its port; by default 9248
  -n DB                   the database, 0 to 15
  --user NAME             the user; by default the default user
  --password-file FILE    a file whose first line is the password
  --tls-ca-cert-file FILE  uses TLS, and accepts certificates of this authority
  --tls-cert-file FILE    the certificate to present to the server
  --tls-key-file FILE     its key
  --sni NAME              the name in the server's certificate, if not HOST

Exit codes:
   0  answered
   1  a reply was an error
   3  no reply: no server there, a wrong password, the connection ended
  64  the command line is wrong
";

/// Reads the arguments after `call`; `None` if they ask for help.
///
/// # Errors
/// They are wrong; the text says which.
pub fn read(args: &[String]) -> Result<Option<Call>, String> {
    let (mut host, mut port, mut database) = ("127.0.0.1", spec(Name::Port).default[0], None);
    let mut access = Access::default();
    let mut rest = args;
    // Options end where the command begins: its arguments may look like options.
    while let [option, after @ ..] = rest
        && option.starts_with('-')
    {
        if option == "--help" {
            return Ok(None);
        }
        let [value, after @ ..] = after else { return Err(format!("{option} needs a value")) };
        match option.as_str() {
            "-h" => host = value,
            "-p" => port = value,
            "-n" => database = Some(value.clone()),
            _ if access.take(option, value) => {}
            _ => return Err(format!("unknown option '{option}'")),
        }
        rest = after;
    }
    access.check()?;
    let number = port.parse().map_err(|_| format!("-p {port}: expected a port, 1 to 65535"));
    let place = Address::new(host, number?).map_err(|wrong| wrong.to_string())?;
    let server = ServerAddress { place, access };
    Ok(Some(Call { server, database, words: rest.to_vec() }))
}

/// Runs it.
pub fn run(asked: &Call) -> Exit {
    if asked.words.is_empty() && io::stdin().is_terminal() {
        let text = "call: expected a command, such as PING; see delayd call --help";
        return failed(text, Exit::Usage);
    }
    talk(asked).unwrap_or_else(|text| failed(format_args!("call: {text}"), Exit::Unreadable))
}

fn talk(asked: &Call) -> Result<Exit, String> {
    let client = Client::connect(&asked.server)?;
    let (server, is_terminal) = (asked.server.clone(), io::stdout().is_terminal());
    let mut caller = Caller { client, server, is_terminal, exit: Exit::Good };
    if let Some(database) = &asked.database {
        let reply = caller.client.ask(&[b"SELECT", database.as_bytes()]);
        if let Some(text) = reply.map_err(|error| error.to_string())?.error() {
            return Err(format!("-n {database}: {text}"));
        }
    }
    // A command may wait for a job without a limit.
    caller.client.set_patience(None).map_err(|error| error.to_string())?;
    let done = match asked.words.as_slice() {
        [] => caller.all(&mut io::stdin().lock()),
        words => caller.one(&words.iter().map(String::as_bytes).collect::<Vec<_>>()),
    };
    match done {
        Ok(()) => Ok(caller.exit),
        // The reader of the output has closed it, such as `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(caller.exit),
        Err(error) => Err(error.to_string()),
    }
}

struct Caller {
    client: Client,
    /// Whose client it is.
    server: ServerAddress,
    is_terminal: bool,
    exit: Exit,
}

impl Caller {
    /// The commands in `input`, one after another.
    fn all(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        let (mut framer, mut buffer) = (Framer::new(), BytesMut::new());
        let mut has_ended = false;
        loop {
            match framer.next(&mut buffer, &FrameLimits::DEFAULT) {
                Framed::Command => {
                    let words: Option<Vec<&[u8]>> =
                        framer.args(&buffer).iter().map(Arg::bytes).collect();
                    let words = words.ok_or_else(|| {
                        io::Error::other("an argument on standard input has more than 16 MiB")
                    })?;
                    self.one(&words)?;
                    framer.consume(&mut buffer);
                }
                Framed::Incomplete if has_ended && buffer.is_empty() => return Ok(()),
                Framed::Incomplete if has_ended => {
                    return Err(io::Error::other("standard input ends within a command"));
                }
                Framed::Incomplete => {
                    let come = input.fill_buf()?;
                    let count = come.len();
                    buffer.extend_from_slice(come);
                    input.consume(count);
                    // The last line may lack its end.
                    has_ended = count == 0;
                    buffer.extend_from_slice(if has_ended { b"\n" } else { b"" });
                }
                Framed::Error(error) => return Err(io::Error::other(error)),
                Framed::Attack => {
                    return Err(io::Error::other("standard input does not contain commands"));
                }
            }
        }
    }

    /// Sends a command and prints its replies.
    fn one(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let lower = |at: usize| words.get(at).map(|word| word.to_ascii_lowercase());
        let names = [lower(0).unwrap_or_default(), lower(1).unwrap_or_default()];
        // Of another kind than what the reader of the output does when it has seen enough.
        self.client.send(words).map_err(io::Error::other)?;
        let mut moves = 0;
        loop {
            let reply = match self.client.read() {
                // The server has shut down, without a reply.
                Err(error) if names[0] == b"shutdown" && has_gone(&error) => return Ok(()),
                reply => reply?,
            };
            // The queue is in another partition, or another node leads: this and what follows goes there.
            if let Some(place) =
                reply.error().as_deref().and_then(moved_to).filter(|_| moves < MOVES_MAX)
            {
                moves += 1;
                self.go_to(place)?;
                self.client.send(words).map_err(io::Error::other)?;
                continue;
            }
            if reply.error().is_some() {
                self.exit = Exit::Failed;
            }
            self.print(&reply, is_text(&names))?;
            if !goes_on(&names[0]) || reply.error().is_some() {
                return Ok(());
            }
        }
    }

    fn go_to(&mut self, place: Address) -> io::Result<()> {
        self.server.place = place;
        self.client = Client::connect(&self.server).map_err(io::Error::other)?;
        self.client.set_patience(None)
    }

    fn print(&self, reply: &Reply, is_text: bool) -> io::Result<()> {
        let bytes = match reply {
            Reply::Text(text) if self.is_terminal && is_text => plain_lines(text).join("\n").into(),
            reply if self.is_terminal => reply.lines().join("\n").into_bytes(),
            reply => reply.raw(),
        };
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

/// The place that `MOVED 866 127.0.0.1:9249` names; an IPv6 address has no brackets there.
fn moved_to(error: &str) -> Option<Address> {
    let (_, place) = error.strip_prefix("MOVED ")?.split_once(' ')?;
    let (host, port) = place.rsplit_once(':')?;
    Address::new(host, port.parse().ok()?).ok()
}

/// Whether a command's reply is text of several lines, which is printed as it is.
fn is_text(names: &[Vec<u8>; 2]) -> bool {
    matches!(
        [names[0].as_slice(), names[1].as_slice()],
        [b"info" | b"lolwut", _]
            | [b"client", b"list" | b"info"]
            | [b"cluster", b"info" | b"nodes"]
            | [b"memory" | b"latency", b"doctor"]
            | [b"latency", b"graph"]
    )
}

fn has_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// Whether more replies follow the first one.
fn goes_on(name: &[u8]) -> bool {
    matches!(name, b"subscribe" | b"psubscribe" | b"ssubscribe" | b"monitor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Call, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&args).map(|call| call.expect("no help"))
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let at = |host: &str, port| Address::new(host, port).unwrap();
        let call = asked("-p 7 -h ::1 -n 3 --user u DELAY.ADD q 5s --help -h").unwrap();
        assert_eq!((call.server.place, call.database.as_deref()), (at("::1", 7), Some("3")));
        assert_eq!(call.server.access.user.as_deref(), Some("u"));
        assert_eq!(call.words, ["DELAY.ADD", "q", "5s", "--help", "-h"]);
        let call = asked("").unwrap();
        assert_eq!((call.server.place, call.words.len()), (at("127.0.0.1", 9_248), 0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |line| asked(line).unwrap_err();
        assert_eq!(text("-p"), "-p needs a value");
        assert_eq!(text("-p x PING"), "-p x: expected a port, 1 to 65535");
        assert!(text("-p 0 PING").contains("port"), "{}", text("-p 0 PING"));
        assert_eq!(text("-a secret PING"), "unknown option '-a'");
        assert!(text("--sni x PING").contains("need --tls-ca-cert-file"));
        assert_eq!(read(&["--help".to_owned()]), Ok(None));
    }
}
