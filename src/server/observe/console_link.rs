//! The login of a console whose user has no password: a link with a token, in the log and in a file that only the
//! server's own user can read. A connection over loopback proves nothing: a proxy uses it too, for any visitor.
//!
//! Each start draws a new token: it is in the log, which is kept for longer and read by more people than the server
//! runs. Programs that are to get in over a restart read the file, or have a user with a password.

use crate::console::site::token::{Token, secret};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The file's name, in `dir`. `delayd console` reads it.
pub const FILE: &str = "console-link";

/// See the module. The file goes with it.
#[derive(Debug)]
pub struct ConsoleLink {
    pub token: Token,
    /// Where the console listens, with the token.
    pub urls: Vec<String>,
    file: Option<PathBuf>,
}

impl ConsoleLink {
    /// For a console at `places`. Without a file the link is only in the log.
    pub fn offer(dir: &Path, places: &[SocketAddr], tls: bool) -> ConsoleLink {
        let token = Token::draw();
        let urls: Vec<String> = places.iter().map(|place| link(place, tls, &token)).collect();
        let file = dir.join(FILE);
        let written = urls.first().map(|url| write(dir, &file, url));
        let file = match written {
            Some(Ok(())) => Some(file),
            Some(Err(error)) => {
                tracing::warn!(file = %file.display(), %error, "the console's link is only in this log");
                None
            }
            None => None,
        };
        ConsoleLink { token, urls, file }
    }

    /// The link left by a server that was killed is dead.
    pub fn withdraw(dir: &Path) {
        let _ = std::fs::remove_file(dir.join(FILE));
    }
}

impl Drop for ConsoleLink {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        // Another server in the same folder may have its own there by now.
        let is_own = |text: String| text.contains(self.token.as_str());
        if std::fs::read_to_string(file).is_ok_and(is_own) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A place that a browser can be led to: where all addresses are listened on, that of this machine.
fn link(place: &SocketAddr, tls: bool, token: &Token) -> String {
    let ip = match place.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let place = SocketAddr::new(ip, place.port());
    format!("{}login?token={}", super::console::url(&place, tls), token.as_str())
}

/// There whole or not at all, and never where a link of another user leads.
fn write(dir: &Path, file: &Path, url: &str) -> io::Result<()> {
    let fresh = dir.join(format!("{FILE}.{}", &secret()[..16]));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut opened = File::from(rustix::fs::open(&fresh, flags, Mode::RUSR | Mode::WUSR)?);
    let written = writeln!(opened, "{url}").and_then(|()| std::fs::rename(&fresh, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&fresh);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_file_is_of_one_user_and_follows_no_link() {
        let dir = std::env::temp_dir().join(format!("delayd-console-link-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let (file, victim) = (dir.join(FILE), dir.join("victim"));
        std::fs::write(&victim, "kept").unwrap();
        symlink(&victim, &file).unwrap();
        let places = ["0.0.0.0:9250".parse().unwrap(), "[::]:9250".parse().unwrap()];
        let link = ConsoleLink::offer(&dir, &places, false);
        let about = std::fs::symlink_metadata(&file).unwrap();
        assert!(about.is_file() && about.permissions().mode() & 0o777 == 0o600, "{about:?}");
        let url = format!("http://127.0.0.1:9250/login?token={}", link.token.as_str());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{url}\n"));
        assert!(link.urls[1].starts_with("http://[::1]:9250/login?token="), "{:?}", link.urls);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        // A second server's is left alone.
        let other = ConsoleLink::offer(&dir, &places, true);
        drop(link);
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("https://"));
        drop(other);
        assert!(!file.exists());
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing is left but the victim");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
