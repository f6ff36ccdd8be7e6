//! A connection whose client must read what it is sent: one that reads nothing for too long is closed, because the
//! waiting data uses memory. An answer with jobs is handed on with its first byte, to a client that is still connected.

use crate::console::site::client::HandOn;
use crate::limits::CONSOLE_STALL_TIME;
use crate::lock::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;

/// Answers of a connection of which no byte has left: one, but of a client that sends requests before it has its answers.
#[derive(Clone, Debug, Default)]
pub struct Leaving(Arc<Mutex<Vec<HandOn>>>);

impl Leaving {
    /// It leaves next.
    pub fn add(&self, answer: HandOn) {
        lock(&self.0).push(answer);
    }
}

/// A stream that can check whether its other end is still open.
pub trait Peered {
    /// Whether the peer still has its end open. Bytes it may have sent before do not matter.
    fn is_peer_there(&self) -> bool;
}

impl Peered for TcpStream {
    fn is_peer_there(&self) -> bool {
        let fd = self.as_fd();
        let mut fds = [PollFd::new(&fd, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().is_empty()
    }
}

impl Peered for TlsStream<TcpStream> {
    fn is_peer_there(&self) -> bool {
        self.get_ref().0.is_peer_there()
    }
}

#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    /// Runs while nothing is taken.
    patience: Pin<Box<Sleep>>,
    waits: bool,
    leaving: Leaving,
}

impl<S: AsyncWrite + Unpin + Peered> Patient<S> {
    /// Around a stream that was just opened, with `leaving` for its answers with jobs.
    pub fn new(stream: S, leaving: Leaving) -> Patient<S> {
        let patience = Box::pin(sleep(CONSOLE_STALL_TIME));
        Patient { stream, patience, waits: false, leaving }
    }

    /// Writes by `write`: the jobs of an answer are handed over, or the connection breaks and they go back.
    fn hand_on(
        &mut self,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let leaving = self.leaving.clone();
        let mut answers = lock(&leaving.0);
        let Some((next, later)) = answers.split_first() else {
            return write(Pin::new(&mut self.stream));
        };
        if !self.stream.is_peer_there() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        // One write may take the first bytes of all of them.
        for answer in later {
            ready!(answer.link.relay().hand_on(answer.position, || Poll::Ready(Ok(1))))?;
        }
        let stream = Pin::new(&mut self.stream);
        let written = next.link.relay().hand_on(next.position, || write(stream));
        if matches!(written, Poll::Ready(Ok(count)) if count > 0) {
            answers.clear();
        }
        written
    }

    /// The result of a write, or that it waited for too long.
    fn watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !self.waits {
            self.waits = true;
            self.patience.as_mut().reset(Instant::now() + CONSOLE_STALL_TIME);
        }
        ready!(self.patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, bytes)
    }
}

impl<S: AsyncWrite + Unpin + Peered> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.hand_on(|stream| stream.poll_write(cx, bytes));
        self.watched(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.hand_on(|stream| stream.poll_write_vectored(cx, pieces));
        self.watched(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watched(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watched(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    impl Peered for tokio::io::DuplexStream {
        fn is_peer_there(&self) -> bool {
            true
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_too_long_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut patient = Patient::new(ours, Leaving::default());
        patient.write_all(&[0; 16]).await.unwrap();
        let begun = Instant::now();
        // One that takes a little now and then is slow, not gone.
        let slow = async {
            for _ in 0..4 {
                sleep(CONSOLE_STALL_TIME / 2).await;
                theirs.read_exact(&mut [0; 4]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(patient.write_all(&[0; 16]), slow);
        written.unwrap();
        assert_eq!(begun.elapsed(), CONSOLE_STALL_TIME * 2);
        let error = patient.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(
            (error.kind(), begun.elapsed()),
            (io::ErrorKind::TimedOut, CONSOLE_STALL_TIME * 3)
        );
    }
}
