//! The program that started the server, such as a test runner: it receives the port once commands are answered, and the
//! server ends with it.

use crate::config::Config;
use crate::config::options::Name;
use crate::server::connection::wake::Notifier;
use filedescriptor::FileDescriptor;
use rustix::fs::OFlags;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::sync::Arc;

/// The option `ready-fd`: the descriptor for the port.
#[derive(Debug)]
pub struct ReadyFd(FileDescriptor);

impl ReadyFd {
    /// Takes the descriptor. Before anything else is opened: a number that the starter did not open could be a file of
    /// the journal by then.
    ///
    /// # Errors
    /// It is not open, or not for writing.
    pub fn take(config: &Config) -> io::Result<Option<ReadyFd>> {
        let number = config.number(Name::ReadyFd) as RawFd;
        if number == 0 || config.partition > 0 {
            return Ok(None);
        }
        let descriptor = FileDescriptor::new(number);
        let flags = rustix::fs::fcntl_getfl(&descriptor);
        let writes = |flags: OFlags| (flags & OFlags::ACCMODE) != OFlags::RDONLY;
        match flags.map(writes) {
            Ok(true) => Ok(Some(ReadyFd(descriptor))),
            Ok(false) => Err(refused(number, "it is open for reading only")),
            Err(error) => Err(refused(number, &io::Error::from(error).to_string())),
        }
    }

    /// Writes the port and closes. On a thread of its own: a starter that does not read must not block the server.
    pub fn tell(mut self, port: u16) {
        let told = std::thread::Builder::new().name("ready".to_owned()).spawn(move || {
            if let Err(error) = self.0.write_all(format!("{port}\n").as_bytes()) {
                tracing::warn!(%error, "the port could not be written to ready-fd");
            }
        });
        if let Err(error) = told {
            tracing::warn!(%error, "the port is not written to ready-fd");
        }
    }
}

fn refused(number: RawFd, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("ready-fd {number}: {why}"))
}

/// Asks the loop to stop when standard input ends. Input until then is discarded.
///
/// # Errors
/// The system has no thread left.
pub fn stop_with_stdin(notifier: Arc<Notifier>) -> io::Result<()> {
    let ends = move || {
        if let Err(error) = io::copy(&mut io::stdin().lock(), &mut io::sink()) {
            tracing::warn!(%error, "standard input cannot be read");
        }
        tracing::info!("standard input is closed");
        notifier.stop_at_least(1);
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(ends).map(drop)
}
