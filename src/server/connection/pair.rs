//! Connections made within the process: one end of a socket pair is an ordinary client, the other end speaks for a
//! remote visitor, such as a browser.

use crate::console::site::relay::Relay;
use crate::lock::lock;
use crate::server::connection::stream::{Accepted, ConnectionEnds, Stream};
use crate::server::connection::wake::Notifier;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

/// Where other threads leave their pairs, and the loop takes them.
#[derive(Debug)]
pub struct Pairs {
    made: Mutex<Vec<Made>>,
    notifier: Arc<Notifier>,
}

/// The server's end of a pair.
#[derive(Debug)]
struct Made {
    stream: UnixStream,
    peer: ConnectionEnds,
    relay: Arc<Relay>,
    is_proven: bool,
}

impl Pairs {
    /// Without connections; a new one wakes the loop through `notifier`.
    pub fn new(notifier: Arc<Notifier>) -> Pairs {
        Pairs { made: Mutex::default(), notifier }
    }

    /// Connects to the server as `peer`, which came in at `local`: CLIENT LIST and the rules for other machines use
    /// these. `maxclients` counts it, and refuses it with a line. Unless it `is_proven`, by a token of this machine, it
    /// must send a password even if the default user has none.
    ///
    /// Both ends agree in `relay`.
    ///
    /// # Errors
    /// There is no file descriptor left.
    pub fn connect(
        &self,
        peer: SocketAddr,
        local: SocketAddr,
        relay: Arc<Relay>,
        is_proven: bool,
    ) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let mut made = lock(&self.made);
        made.push(Made {
            stream: theirs,
            peer: ConnectionEnds::Tcp { peer, local },
            relay,
            is_proven,
        });
        drop(made);
        self.notifier.notify();
        Ok(ours)
    }

    /// New connections since the last time, as if they had been accepted.
    pub fn take(&self) -> Vec<Accepted> {
        let made = std::mem::take(&mut *lock(&self.made));
        let ready = |Made { stream, peer, relay, is_proven }| {
            let stream = Stream::Unix(tokio::net::UnixStream::from_std(stream)?);
            io::Result::Ok(Accepted::Relayed { stream, peer, relay, is_proven })
        };
        // Where the system has no room to watch it, it is closed, which the other end sees.
        made.into_iter().filter_map(|pair| ready(pair).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_connects_is_taken_once_and_is_whom_it_says() {
        let pairs = Pairs::new(Arc::default());
        let (browser, console) =
            ("192.0.2.7:5000".parse().unwrap(), "192.0.2.1:9250".parse().unwrap());
        let relay = || Arc::new(Relay::for_request());
        let _ours = pairs.connect(browser, console, relay(), true).unwrap();
        let _other = pairs.connect(browser, console, relay(), false).unwrap();
        let taken = pairs.take();
        let [
            Accepted::Relayed { stream: Stream::Unix(_), peer, is_proven: true, .. },
            Accepted::Relayed { is_proven: false, .. },
        ] = taken.as_slice()
        else {
            panic!("{taken:?}");
        };
        assert_eq!((peer.to_string().as_str(), peer.is_local()), ("192.0.2.7:5000", false));
        assert!(pairs.take().is_empty());
    }
}
