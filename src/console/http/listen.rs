//! The common part of console and metrics: a thread of their own that accepts connections within limits.

use crate::limits::{HTTP_ACCEPT_PAUSE, HTTP_HEAD_TIME, HTTP_HEADERS_MAX};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task;

/// The running thread; it ends with this.
#[derive(Debug)]
pub struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// A thread of this name for the tasks that `begin` spawns.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn start(name: &str, begin: impl FnOnce() + Send + 'static) -> io::Result<Serving> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                begin();
                // An error is the end, too.
                let _ = stopped.await;
            });
        })?;
        Ok(Serving { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been logged.
            let _ = thread.join();
        }
    }
}

/// Where connections lead, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The service: `metrics`.
    pub what: &'static str,
    /// Its connections in words: `for metrics`.
    pub way: &'static str,
}

/// Begins each connection of a listener, which does not block.
pub async fn accept(listener: TcpListener, to: Served, mut begin: impl FnMut(TcpStream)) {
    let Served { what, way } = to;
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "{what} cannot be served"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                begin(stream);
                // Let each new connection send its request before accepting the next.
                task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "accepting connections {way} pauses for a second");
                tokio::time::sleep(HTTP_ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Connections that are served, oldest first, and whether each is busy.
#[derive(Debug, Default)]
pub struct Visits(VecDeque<(task::AbortHandle, Arc<AtomicBool>)>);

impl Visits {
    pub fn count(&mut self) -> usize {
        self.0.retain(|(task, _)| !task.is_finished());
        self.0.len()
    }

    pub fn add(&mut self, task: &task::JoinHandle<()>, busy: Arc<AtomicBool>) {
        self.0.push_back((task.abort_handle(), busy));
    }

    /// Ends the oldest that is not busy; false without one.
    pub fn end_idle(&mut self) -> bool {
        let idle = self.0.iter().position(|(_, busy)| !busy.load(Ordering::Relaxed));
        idle.and_then(|at| self.0.remove(at)).map(|(task, _)| task.abort()).is_some()
    }

    pub fn end_oldest(&mut self) {
        self.0.pop_front().into_iter().for_each(|(task, _)| task.abort());
    }
}

/// HTTP with a header of at most this many bytes.
pub fn http1(head_bytes_max: usize) -> http1::Builder {
    let mut http1 = http1::Builder::new();
    http1.timer(TokioTimer::new()).header_read_timeout(HTTP_HEAD_TIME);
    http1.max_buf_size(head_bytes_max).max_headers(HTTP_HEADERS_MAX);
    http1
}
