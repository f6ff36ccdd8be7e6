//! `delayd console`: prints the link into a running server's console, and opens it.

use super::args::Console;
use super::check::say;
use super::{Exit, failed};
use crate::config::args::{Invocation, read_here};
use crate::config::options::Name;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The server's name for the file in its `dir`.
const FILE: &str = "console-link";
/// No link is longer.
const LINK_BYTES_MAX: u64 = 1 << 10;
/// A console on this machine answers sooner.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

pub fn run(asked: &Console) -> Exit {
    let dir = match dir(&asked.options) {
        Ok(dir) => dir,
        Err(text) => {
            let text = format!("console: {text}; see delayd console --help");
            return failed(text, Exit::Usage);
        }
    };
    let link = match link(&dir.join(FILE)) {
        Ok(link) => link,
        Err(text) => return failed(format_args!("console: {text}"), Exit::Unreadable),
    };
    let token = link.split_once("token=").map_or("", |(_, token)| token);
    say(&format!("{}\n", if asked.token { token } else { &link }));
    if !asked.token && !asked.no_open && io::stdout().is_terminal() && has_display() {
        open(&link);
    }
    Exit::Good
}

/// As the server finds it.
fn dir(options: &[String]) -> Result<PathBuf, String> {
    let current =
        std::env::current_dir().map_err(|error| format!("no current directory: {error}"))?;
    match read_here(options)? {
        Invocation::Run(config) => Ok(current.join(config.text(Name::Dir)).components().collect()),
        Invocation::Help | Invocation::Version => {
            Err("expected an option of the server".to_owned())
        }
    }
}

/// The content of the file, if its console is there.
fn link(file: &Path) -> Result<String, String> {
    let name = file.display();
    let read = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no {name}: either no server with a console-port has its dir there (--dir names another), or its \
             default user has a password, which the console asks for"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{name} belongs to another user: run this as the server's own user or as root")
        }
        _ => format!("{name} cannot be read: {error}"),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened =
        rustix::fs::open(file, flags, Mode::empty()).map_err(|error| read(error.into()))?;
    let mut text = String::new();
    File::from(opened).take(LINK_BYTES_MAX).read_to_string(&mut text).map_err(read)?;
    let link = text.trim_end();
    let place = place(link).ok_or_else(|| format!("{name} does not contain a console link"))?;
    // A server that was killed leaves its file.
    match TcpStream::connect_timeout(&place, ANSWERS_WITHIN) {
        Ok(_) => Ok(link.to_owned()),
        Err(error) => Err(format!("the console of {name} does not answer at {place}: {error}")),
    }
}

/// Where a link leads: to an address of this machine, with nothing in it that a terminal or a browser takes for more.
fn place(link: &str) -> Option<SocketAddr> {
    let rest = link.strip_prefix("http://").or_else(|| link.strip_prefix("https://"))?;
    let (place, token) = rest.split_once("/login?token=")?;
    let is_token = token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    place.parse().ok().filter(|_| is_token)
}

fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Its output would hide the link, and where there is no browser there still is the link.
fn open(link: &str) {
    let mut opener = Command::new("xdg-open");
    opener.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = opener.spawn();
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_a_link_of_a_console_is_printed() {
        let token = "0f".repeat(32);
        let at = |place: &str| super::place(&format!("{place}/login?token={token}"));
        assert_eq!(at("http://127.0.0.1:9250"), "127.0.0.1:9250".parse().ok());
        assert_eq!(at("https://[::1]:9250"), "[::1]:9250".parse().ok());
        for wrong in ["javascript://127.0.0.1:9250", "http://evil.example", "", "http://127.0.0.1"]
        {
            assert_eq!(at(wrong), None, "{wrong}");
        }
        assert_eq!(super::place("http://127.0.0.1:9250/login?token=x"), None);
    }
}
