//! A connection whose other end has to take what it is sent: one that takes nothing for too long is ended, since what
//! waits for it is memory.

use crate::limits::CONSOLE_STALL_TIME;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// See the module.
#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    /// Runs while nothing is taken.
    patience: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    /// Around a stream that was just opened.
    pub fn new(stream: S) -> Patient<S> {
        Patient { stream, patience: Box::pin(sleep(CONSOLE_STALL_TIME)), waits: false }
    }

    /// What a write came to, or that it waited for too long.
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watched(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
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

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_too_long_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut patient = Patient::new(ours);
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
