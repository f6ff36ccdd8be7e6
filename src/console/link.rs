//! A connection to the server from within its process: commands go, replies come, RESP3.

use super::value::{Command, Value};
use crate::limits::{CONSOLE_LARGE_BYTES, CONSOLE_LARGE_MAX, CONSOLE_REPLIES_BYTES_MAX};
use bytes::{BufMut, BytesMut};
use redis_protocol::resp3::decode::complete::decode_bytes_mut;
use redis_protocol::resp3::types::BytesFrame;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::unix;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Who came, and where.
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
    connect: Arc<dyn Fn(Ends) -> io::Result<unix::net::UnixStream> + Send + Sync>,
    large: Arc<Semaphore>,
}

impl Connector {
    /// By `connect`, whose streams do not block.
    pub fn new(
        connect: impl Fn(Ends) -> io::Result<unix::net::UnixStream> + Send + Sync + 'static,
    ) -> Connector {
        Connector { connect: Arc::new(connect), large: Arc::new(Semaphore::new(CONSOLE_LARGE_MAX)) }
    }

    /// A fresh connection, of which nobody knows yet whose it is.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn open(&self, ends: Ends) -> io::Result<Link> {
        let stream = UnixStream::from_std((self.connect)(ends)?)?;
        let large = Arc::clone(&self.large);
        Ok(Link { stream, large, permit: None, came: 0, input: BytesMut::new() })
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
    /// Who may have large replies.
    large: Arc<Semaphore>,
    /// Held from the first MiB of replies on.
    permit: Option<OwnedSemaphorePermit>,
    /// Bytes of replies to the request that is being answered.
    came: usize,
    /// Came, and is no whole reply yet.
    input: BytesMut,
}

impl Link {
    /// Whether the server has its end open still. What came unasked is kept for the next request.
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
        let output = encode(commands);
        let mut written = 0;
        (self.came, self.permit) = (0, None);
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            // Both at once: the server reads no more of somebody who does not read.
            poll_fn(|cx| self.poll_either(cx, &output, &mut written)).await?;
            self.bound().await?;
            while replies.len() < commands.len() {
                match self.decode()? {
                    // Nothing was subscribed to by this connection; what is told unasked is no reply.
                    Some((_, true)) => {}
                    Some((value, false)) => replies.push(value),
                    None => break,
                }
            }
        }
        // Whoever answers before he has heard all of it is to hear the rest.
        poll_fn(|cx| self.poll_write(cx, &output, &mut written)).await?;
        Ok(replies)
    }

    /// Waits for a place among those with large replies.
    async fn bound(&mut self) -> io::Result<()> {
        if self.came > CONSOLE_REPLIES_BYTES_MAX {
            let text = format!(
                "the replies have more than {} MiB; ask for less at once",
                CONSOLE_REPLIES_BYTES_MAX >> 20
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        if self.came > CONSOLE_LARGE_BYTES && self.permit.is_none() {
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
            if let Some((value, _)) = self.decode()? {
                return Ok(value);
            }
            poll_fn(|cx| self.poll_either(cx, &output, &mut written)).await?;
        }
    }

    /// The next message of what the connection has subscribed to.
    ///
    /// # Errors
    /// The server has ended the connection.
    pub async fn message(&mut self) -> io::Result<Value> {
        loop {
            if let Some((value, _)) = self.decode()? {
                return Ok(value);
            }
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

    fn decode(&mut self) -> io::Result<Option<(Value, bool)>> {
        decode(&mut self.input)
    }
}

/// Takes the next whole reply, and whether it came unasked; none before all of it is there.
///
/// # Errors
/// It is no RESP3.
pub fn decode(input: &mut BytesMut) -> io::Result<Option<(Value, bool)>> {
    let decoded = decode_bytes_mut(input);
    let frame =
        decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    Ok(frame.map(|(frame, ..)| {
        let unasked = matches!(frame, BytesFrame::Push { .. });
        (value(frame), unasked)
    }))
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

fn value(frame: BytesFrame) -> Value {
    match frame {
        BytesFrame::BlobString { data, .. }
        | BytesFrame::SimpleString { data, .. }
        | BytesFrame::BigNumber { data, .. }
        | BytesFrame::VerbatimString { data, .. } => Value::Text(data),
        BytesFrame::ChunkedString(data) => Value::Text(data),
        BytesFrame::BlobError { data, .. } => Value::Error(data),
        BytesFrame::SimpleError { data, .. } => Value::Error(data.into_inner()),
        BytesFrame::Boolean { data, .. } => Value::Bool(data),
        BytesFrame::Number { data, .. } => Value::Int(data),
        BytesFrame::Double { data, .. } => Value::Double(data),
        BytesFrame::Null | BytesFrame::Hello { .. } => Value::Null,
        BytesFrame::Array { data, .. } | BytesFrame::Push { data, .. } => {
            Value::Array(data.into_iter().map(value).collect())
        }
        BytesFrame::Set { data, .. } => Value::Array(data.into_iter().map(value).collect()),
        BytesFrame::Map { data, .. } => {
            Value::Map(data.into_iter().map(|(key, field)| (value(key), value(field))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::command;
    use super::*;
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
        let connector = Connector::new(move |_| Ok(ours.lock().unwrap().take().expect("once")));
        (connector.open(ends()).unwrap(), theirs)
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

    /// A request of 4 MiB to somebody who writes as much before he reads it.
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
        // The end is seen without a request, once the kernel has told of it.
        let _ = link.stream.readable().await;
        assert!(!link.is_open());
        assert!(link.ask(&[command!["PING"]]).await.is_err());
    }
}
