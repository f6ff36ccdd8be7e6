//! A network between nodes that can be cut.

use crate::cluster::members::names::Address;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The way to one node. Passes data on, both ways, except for callers that are cut off.
pub struct Relay {
    pub address: Address,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    to: Mutex<String>,
    /// Callers with names of two letters; empty: all.
    cut: Mutex<Vec<String>>,
    /// With the names of the callers.
    streams: Mutex<Vec<(Vec<u8>, TcpStream)>>,
    /// How many a millisecond each connection carries; 0: all.
    bytes_per_ms: AtomicU64,
}

/// The offset of the caller's name: after preface, header, protocols, lane, nonce and the called name of two letters,
/// and its own length.
const NAME_AT: usize = 12 + 16 + 2 + 2 + 1 + 32 + 2 + 2 + 2;

impl Relay {
    pub fn start(to: &Address) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let shared = Arc::new(Shared::default());
        *shared.to.lock().unwrap() = to.to_string();
        let mine = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(shared) = mine.upgrade() else { return };
                std::thread::spawn(move || shared.pass(stream.unwrap()));
            }
        });
        Relay { address, shared }
    }

    /// The new destination.
    pub fn lead_to(&self, to: &Address) {
        *self.shared.to.lock().unwrap() = to.to_string();
    }

    /// Ends the connections of this caller, or of all; none of them gets through until it is mended.
    pub fn cut(&self, caller: &str) {
        self.shared.cut.lock().unwrap().push(caller.to_owned());
        self.end(caller);
    }

    /// From here on each connection carries so many bytes a millisecond.
    pub fn slow(&self, bytes_per_ms: u64) {
        self.shared.bytes_per_ms.store(bytes_per_ms, Ordering::Relaxed);
    }

    pub fn mend(&self) {
        self.shared.cut.lock().unwrap().clear();
    }

    /// Ends the connections of this caller, or of all; new ones get through.
    pub fn end(&self, caller: &str) {
        for (name, stream) in &*self.shared.streams.lock().unwrap() {
            if caller.is_empty() || caller.as_bytes() == *name {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut("");
        // Its thread notices that it was dropped.
        let _ = TcpStream::connect(self.address.to_string());
    }
}

impl Shared {
    fn pass(self: &Arc<Shared>, mut stream: TcpStream) {
        let mut hello = [0; NAME_AT + 2];
        if stream.read_exact(&mut hello).is_err() {
            return;
        }
        let name = hello[NAME_AT..].to_vec();
        let is_of = |cut: &String| cut.is_empty() || cut.as_bytes() == name;
        let Ok(mut other) = TcpStream::connect(&*self.to.lock().unwrap()) else { return };
        {
            // No caller is accepted between the check and the note.
            let cut = self.cut.lock().unwrap();
            if cut.iter().any(is_of) {
                return;
            }
            let mut streams = self.streams.lock().unwrap();
            for stream in [&stream, &other] {
                stream.set_nodelay(true).unwrap();
                streams.push((name.clone(), stream.try_clone().unwrap()));
            }
        }
        if other.write_all(&hello).is_err() {
            return;
        }
        for (from, to) in [(&stream, &other), (&other, &stream)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let shared = Arc::clone(self);
            std::thread::spawn(move || {
                let mut bytes = vec![0; 256 << 10];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    let speed = shared.bytes_per_ms.load(Ordering::Relaxed);
                    let takes_ms = (count as u64).checked_div(speed).unwrap_or(0);
                    std::thread::sleep(Duration::from_millis(takes_ms));
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
            });
        }
    }
}
