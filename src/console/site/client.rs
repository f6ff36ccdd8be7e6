//! A connection to the server from within its process: commands go, replies come, RESP3.

use super::relay::Relay;
use crate::console::words::reply::{self, ReplyScan};
use crate::console::words::value::{Command, Value};
use crate::limits::{
    CONSOLE_LARGE_BYTES, CONSOLE_LARGE_MACHINE_BYTES, CONSOLE_LARGE_MAX, CONSOLE_REPLIES_BYTES_MAX,
    CONSOLE_REPLIES_BYTES_MIN, CONSOLE_REPLIES_SHARE, CONSOLE_SESSIONS_MAX,
};
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::unix;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// The client's address, and the server's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The browser.
    pub peer: SocketAddr,
    /// The address it connected to.
    pub local: SocketAddr,
    /// A proxy that is believed has said that it came by https.
    pub is_https: bool,
    /// It has shown the token, so it need not say a password if the default user has none.
    pub is_proven: bool,
}

/// Makes connections to the server: the other end of each is a client of it.
#[derive(Clone)]
pub struct Connector {
    connect: Arc<Connect>,
    large: Arc<Semaphore>,
    replies_bytes_max: usize,
    /// Sessions at a time, each of which keeps a connection.
    pub sessions_max: usize,
}

type Connect = dyn Fn(Ends, Arc<Relay>) -> io::Result<unix::net::UnixStream> + Send + Sync;

impl Connector {
    /// With `connect`, whose streams do not block.
    pub fn new(
        connect: impl Fn(Ends, Arc<Relay>) -> io::Result<unix::net::UnixStream> + Send + Sync + 'static,
    ) -> Connector {
        Connector {
            connect: Arc::new(connect),
            large: Arc::new(Semaphore::new(CONSOLE_LARGE_MAX)),
            replies_bytes_max: CONSOLE_REPLIES_BYTES_MAX,
            sessions_max: CONSOLE_SESSIONS_MAX,
        }
    }

    /// The same for a machine, or a control group, with this much memory: a small one uses little. There are files for
    /// this many sessions.
    pub fn within(self, machine_bytes: u64, sessions_max: usize) -> Connector {
        let share = |part: u64| usize::try_from(machine_bytes / part).unwrap_or(usize::MAX);
        let large = share(CONSOLE_LARGE_MACHINE_BYTES).clamp(1, CONSOLE_LARGE_MAX);
        let replies_bytes_max = share(CONSOLE_REPLIES_SHARE)
            .clamp(CONSOLE_REPLIES_BYTES_MIN, CONSOLE_REPLIES_BYTES_MAX);
        let large = Arc::new(Semaphore::new(large));
        Connector { large, replies_bytes_max, sessions_max, ..self }
    }

    /// A new connection whose user is not known yet, under the rules of `relay`.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn open(&self, ends: Ends, relay: Relay) -> io::Result<Link> {
        self.open_under(ends, Arc::new(relay))
    }

    /// One that goes on in place of another, which the server [left](Relay::leave).
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn open_after(&self, link: &Link) -> io::Result<Link> {
        self.open_under(link.ends, Arc::clone(&link.relay))
    }

    fn open_under(&self, ends: Ends, relay: Arc<Relay>) -> io::Result<Link> {
        let stream = UnixStream::from_std((self.connect)(ends, Arc::clone(&relay))?)?;
        Ok(Link {
            stream,
            ends,
            relay,
            large: Arc::clone(&self.large),
            permit: None,
            is_queued: false,
            came: 0,
            replies_bytes_max: self.replies_bytes_max,
            read: 0,
            scan: ReplyScan::default(),
            input: BytesMut::new(),
        })
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// See the module. Dropped midway it ends the connection, as a client does that vanishes.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    ends: Ends,
    relay: Arc<Relay>,
    /// Places for large answers.
    large: Arc<Semaphore>,
    /// Held from the first MiB of replies on.
    permit: Option<OwnedSemaphorePermit>,
    /// It waits for one, and nothing that needs it has run.
    is_queued: bool,
    /// Bytes of replies to the request that is being answered.
    came: usize,
    /// How many there may be.
    replies_bytes_max: usize,
    /// Bytes of whole replies since the connection began.
    read: u64,
    /// How far the reply is known that has not wholly come.
    scan: ReplyScan,
    /// Came, and is no whole reply yet.
    input: BytesMut,
}

/// An answer that may hold jobs: it reaches its client, or they go back.
#[derive(Clone, Debug)]
pub struct HandOn {
    /// The connection to the server that it came by, which ends when the answer has begun to leave or is given up.
    pub link: Arc<Link>,
    /// Where it ends there.
    pub position: u64,
}

/// The deadlines of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// No command waits longer for a job.
    pub wait: Option<Instant>,
    /// Replies that are not there by then are not waited for.
    pub answer: Option<Instant>,
}

/// The result of a request.
#[derive(Debug)]
pub struct Replies {
    /// To its commands, in order, as their bytes; fewer if it was cut.
    pub all: Vec<Bytes>,
    /// Why there are fewer.
    pub cut: Option<Cut>,
    /// They end here; for [`Relay::hand_on`].
    pub end: u64,
}

/// Why not all replies came.
#[derive(Debug)]
pub enum Cut {
    /// The server has ended the connection.
    Closed(io::Error),
    /// The replies are larger than these bytes, the most that is handed on.
    TooLarge(usize),
    /// Others have all places for large answers; nothing more was run.
    Busy,
    /// The next reply did not come in time.
    Late,
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Cut {
        Cut::Closed(error)
    }
}

impl From<Cut> for io::Error {
    fn from(cut: Cut) -> io::Error {
        match cut {
            Cut::Closed(error) => error,
            Cut::TooLarge(_) => io::ErrorKind::FileTooLarge.into(),
            Cut::Busy => io::ErrorKind::ResourceBusy.into(),
            Cut::Late => io::ErrorKind::TimedOut.into(),
        }
    }
}

impl Link {
    /// The agreement with the server.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Whether the server still has its end open. Unsolicited data is kept for the next request.
    pub fn is_open(&mut self) -> bool {
        let mut bytes = [0; 512];
        loop {
            match self.stream.try_read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Sends `commands` and waits for a reply to each, in order. Not to be dropped before it is done, unless the link
    /// is dropped, too: what is still to come would be taken for replies to others.
    ///
    /// # Errors
    /// The server has ended the connection.
    pub async fn ask(&mut self, commands: &[Command]) -> io::Result<Vec<Value>> {
        let Replies { all, cut, .. } = self.ask_until(commands, Until::default(), false).await;
        match cut {
            Some(cut) => Err(cut.into()),
            None => all.into_iter().map(reply::value).collect(),
        }
    }

    /// As [`ask`](Link::ask), with the replies that came in time. The server runs no command whose answer is too large
    /// for the rest of the request's allowance, and none after it; they are sent again when there is a place for a
    /// large answer, all of them if they run as a `whole`. Drop a link whose replies were cut.
    pub async fn ask_until(&mut self, commands: &[Command], until: Until, whole: bool) -> Replies {
        (self.came, self.permit, self.is_queued) = (0, None, false);
        let mut all = Vec::with_capacity(commands.len());
        let cut = {
            let asking = self.ask_all(commands, until.wait, whole, &mut all);
            match until.answer {
                Some(at) => timeout_at(at.into(), asking).await.unwrap_or(Err(Cut::Late)),
                None => asking.await,
            }
        };
        let cut = match cut.err() {
            Some(Cut::Late) if self.is_queued => Some(Cut::Busy),
            cut => cut,
        };
        Replies { all, cut, end: self.read }
    }

    async fn ask_all(
        &mut self,
        commands: &[Command],
        wait: Option<Instant>,
        whole: bool,
        all: &mut Vec<Bytes>,
    ) -> Result<(), Cut> {
        loop {
            let is_large = self.permit.is_some();
            let most = if is_large { self.replies_bytes_max } else { CONSOLE_LARGE_BYTES };
            self.relay.begin(self.read, most.saturating_sub(self.came), wait);
            self.exchange(commands, all).await?;
            let refused = all.iter().position(is_refused);
            let Some(refused) = refused.filter(|_| !is_large) else { return Ok(()) };
            all.truncate(if whole { 0 } else { refused });
            self.is_queued = true;
            self.take_place().await?;
            self.is_queued = false;
        }
    }

    /// Sends those that have no reply yet, and reads the replies.
    async fn exchange(&mut self, commands: &[Command], all: &mut Vec<Bytes>) -> Result<(), Cut> {
        let output = encode(&commands[all.len()..]);
        let mut written = 0;
        while all.len() < commands.len() {
            // Both at once: the server reads no more of a client that does not read.
            poll_fn(|cx| self.poll_either(cx, &output, &mut written)).await?;
            self.bound().await?;
            while all.len() < commands.len() {
                match self.decode()? {
                    // Nothing was subscribed to by this connection; a message is no reply.
                    Some(message) if reply::is_unasked(&message) => {}
                    Some(reply) => all.push(reply),
                    None => break,
                }
            }
        }
        // A server that answers before it has heard all of it is to hear the rest.
        poll_fn(|cx| self.poll_write(cx, &output, &mut written)).await?;
        Ok(())
    }

    /// Waits for a place among those with large replies.
    async fn bound(&mut self) -> Result<(), Cut> {
        // Refusals are short, and come on top.
        if self.came > self.replies_bytes_max + CONSOLE_LARGE_BYTES {
            return Err(Cut::TooLarge(self.replies_bytes_max));
        }
        if self.came > CONSOLE_LARGE_BYTES {
            self.take_place().await?;
        }
        Ok(())
    }

    async fn take_place(&mut self) -> io::Result<()> {
        if self.permit.is_none() {
            let permit = Arc::clone(&self.large).acquire_owned().await;
            self.permit = Some(permit.map_err(io::Error::other)?);
        }
        Ok(())
    }

    /// The place that large replies have, for as long as they are kept; none if they were not large.
    pub fn take_permit(&mut self) -> Option<OwnedSemaphorePermit> {
        self.permit.take()
    }

    /// Sends what begins a subscription; the first that comes back is what became of it.
    ///
    /// # Errors
    /// The server has ended the connection.
    pub async fn begin(&mut self, command: &Command) -> io::Result<Value> {
        let output = encode(std::slice::from_ref(command));
        let mut written = 0;
        loop {
            if let Some(reply) = self.decode()? {
                return reply::value(reply);
            }
            poll_fn(|cx| self.poll_either(cx, &output, &mut written)).await?;
        }
    }

    /// The next message of what the connection has subscribed to. A large one has its place like a large answer.
    ///
    /// # Errors
    /// The server has ended the connection, or the message is larger than what is handed on.
    pub async fn message(&mut self) -> io::Result<Value> {
        loop {
            if let Some(reply) = self.decode()? {
                return reply::value(reply);
            }
            self.came = self.input.len();
            self.bound().await?;
            poll_fn(|cx| self.poll_read(cx)).await?;
        }
    }

    fn poll_either(
        &mut self,
        cx: &mut Context<'_>,
        output: &[u8],
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        // Where the kernel takes no more for now, something may have come.
        if let Poll::Ready(Err(_)) = self.poll_write(cx, output, written) {
            // Closed before all was heard, as above maxclients: why, the server has said before.
            *written = output.len();
        }
        self.poll_read(cx)
    }

    /// Ready when all is written.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        output: &[u8],
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        while *written < output.len() {
            let stream = Pin::new(&mut self.stream);
            match std::task::ready!(stream.poll_write(cx, &output[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when something has come.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_BYTES];
        let mut read = ReadBuf::new(&mut bytes);
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        if read.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.input.extend_from_slice(read.filled());
        self.came += read.filled().len();
        Poll::Ready(Ok(()))
    }

    fn decode(&mut self) -> io::Result<Option<Bytes>> {
        let before = self.input.len();
        let next = self.scan.next(&mut self.input)?;
        self.read += (before - self.input.len()) as u64;
        Ok(next)
    }
}

/// Whether a command was not run, as its answer might be larger than there is room for.
pub fn is_too_large(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if says_too_large(text))
}

fn is_refused(reply: &Bytes) -> bool {
    reply::is_error(reply)
        && reply::error(reply).is_some_and(|text| says_too_large(text.as_bytes()))
}

fn says_too_large(error: &[u8]) -> bool {
    error.starts_with(b"TOOLARGE ")
        || error.starts_with(b"EXECABORT ") && error.windows(11).any(|at| at == b": TOOLARGE ")
}

/// As clients send it: arrays of bulk strings.
pub fn encode(commands: &[Command]) -> BytesMut {
    let bytes = commands.iter().flatten().map(|word| word.len() + 32).sum();
    let mut output = BytesMut::with_capacity(bytes);
    for command in commands {
        output.put_slice(format!("*{}\r\n", command.len()).as_bytes());
        for word in command {
            output.put_slice(format!("${}\r\n", word.len()).as_bytes());
            output.put_slice(word);
            output.put_slice(b"\r\n");
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::value::command;
    use std::io::{Read, Write};

    fn ends() -> Ends {
        let at = |text: &str| text.parse().unwrap();
        let (peer, local) = (at("127.0.0.1:5"), at("127.0.0.1:6"));
        Ends { peer, local, is_https: false, is_proven: false }
    }

    /// A link, and the end that a server would have.
    fn linked() -> (Link, unix::net::UnixStream) {
        let (ours, theirs) = unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = std::sync::Mutex::new(Some(ours));
        let connector = Connector::new(move |_, _| Ok(ours.lock().unwrap().take().expect("once")));
        (connector.open(ends(), Relay::for_request()).unwrap(), theirs)
    }

    #[tokio::test]
    async fn replies_come_in_order_whatever_is_told_between_them() {
        let (mut link, mut server) = linked();
        server
            .write_all(
                b">2\r\n+invalidate\r\n_\r\n:7\r\n%1\r\n+a\r\n$2\r\n\xff\x00\r\n-NOPERM no\r\n",
            )
            .unwrap();
        let replies = link.ask(&[command!["A"], command!["B", "b"], command!["C"]]).await.unwrap();
        let map =
            Value::Map(vec![(Value::Text("a".into()), Value::Text(b"\xff\0".to_vec().into()))]);
        assert_eq!(replies, [Value::Int(7), map, Value::Error("NOPERM no".into())]);
        let mut sent = [0; 40];
        server.read_exact(&mut sent).unwrap();
        assert_eq!(&sent[..], b"*1\r\n$1\r\nA\r\n*2\r\n$1\r\nB\r\n$1\r\nb\r\n*1\r\n$1\r\nC\r\n");
    }

    /// A request of 4 MiB to a server that writes as much before it reads it.
    #[tokio::test]
    async fn what_is_sent_and_what_comes_may_both_be_larger_than_the_kernel_holds() {
        let (mut link, mut server) = linked();
        let large = vec![b'x'; 4 << 20];
        let body = large.clone();
        let other = std::thread::spawn(move || {
            server.write_all(format!("${}\r\n", body.len()).as_bytes()).unwrap();
            server.write_all(&body).unwrap();
            server.write_all(b"\r\n").unwrap();
            let mut sent = vec![0; body.len()];
            server.read_exact(&mut sent).unwrap();
        });
        let replies = link.ask(&[command!["SET", large]]).await.unwrap();
        assert_eq!(replies[0].bytes().map(<[u8]>::len), Some(4 << 20));
        other.join().unwrap();
    }

    /// A pipeline of few bytes may ask for gigabytes.
    #[tokio::test]
    async fn replies_that_are_too_large_end_the_link() {
        let (mut link, mut server) = linked();
        let other = std::thread::spawn(move || {
            let body = vec![b'x'; 16 << 20];
            // It fails once the link is dropped.
            for _ in 0..10 {
                let _ = server
                    .write_all(b"$16777216\r\n")
                    .and_then(|()| server.write_all(&body))
                    .and_then(|()| server.write_all(b"\r\n"));
            }
        });
        let asked = vec![command!["GET"]; 10];
        let error = link.ask(&asked).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        drop(link);
        other.join().unwrap();
    }

    #[tokio::test]
    async fn an_end_is_an_error() {
        let (mut link, server) = linked();
        assert!(link.is_open());
        drop(server);
        // The end is noticed without a request, once the kernel has reported it.
        let _ = link.stream.readable().await;
        assert!(!link.is_open());
        assert!(link.ask(&[command!["PING"]]).await.is_err());
    }
}
