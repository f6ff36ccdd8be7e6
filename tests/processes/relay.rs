//! What lies between three nodes: each is reached through a relay, and each way from one to another can be cut by
//! itself. What is cut off is held, as by a network that loses packets and sends them again, or lost with its connection.

use crate::processes::trio::NODES;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Of the pieces that pass a node which loses packets, one in so many is lost.
const LOST_ONE_IN: u32 = 10;
/// A piece that is lost is sent again after this, and after twice as long each time it is lost again: as TCP does.
const SENT_AGAIN: Duration = Duration::from_millis(200);

/// From one node to another one, by their places.
pub type Way = (usize, usize);

/// See the module.
pub struct Net {
    /// Where each node is reached.
    pub ports: Vec<u16>,
    ways: Arc<Ways>,
}

#[derive(Default)]
struct Ways {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cut: [[bool; NODES]; NODES],
    lossy: [bool; NODES],
    /// With who called and who was.
    streams: Vec<(usize, usize, TcpStream)>,
    is_over: bool,
}

impl Net {
    /// Relays to the nodes, which listen at `targets`.
    pub fn start(targets: &[u16]) -> Net {
        let ways = Arc::<Ways>::default();
        let ports = (0..targets.len()).map(|to| serve(to, targets[to], &ways)).collect();
        Net { ports, ways }
    }

    /// Nothing passes these ways any more. Whoever calls is connected, and then hears nothing.
    pub fn cut(&self, ways: &[Way]) {
        self.ways.change(|state| ways.iter().for_each(|way| state.cut[way.0][way.1] = true));
    }

    /// Some of what passes from the node and to it comes late, and all that is behind it.
    pub fn lose(&self, node: usize, is_on: bool) {
        self.ways.change(|state| state.lossy[node] = is_on);
    }

    /// Everything passes, first what was held.
    pub fn mend(&self) {
        self.ways.change(|state| state.cut = Default::default());
    }

    /// Everything passes but what was held: connections over ways that were cut are at an end.
    pub fn mend_with_losses(&self) {
        self.ways.change(|state| {
            let cut = state.cut;
            state.streams.retain(|(one, other, stream)| {
                let is_kept = !cut[*one][*other] && !cut[*other][*one];
                if !is_kept {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                is_kept
            });
            state.cut = Default::default();
        });
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.ways.change(|state| {
            state.is_over = true;
            for (.., stream) in &state.streams {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        // Those that listen look around.
        self.ports.iter().for_each(|port| drop(TcpStream::connect(("127.0.0.1", *port))));
    }
}

fn serve(to: usize, target: u16, ways: &Arc<Ways>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let ways = Arc::clone(ways);
    thread::spawn(move || {
        for stream in listener.incoming() {
            if ways.state.lock().unwrap().is_over {
                return;
            }
            let ways = Arc::clone(&ways);
            // One that is not a node's call, or calls a node that is away, is at an end at once.
            thread::spawn(move || drop(ways.connect(stream.unwrap(), to, target)));
        }
    });
    port
}

/// Where the name of the caller stands in what it says first: behind the preface, the header of the frame, two
/// protocols, the lane, a nonce, the length and the name of two letters that is called, and the length of its own.
const NAME_AT: usize = 12 + 16 + 2 + 2 + 1 + 32 + 2 + 2 + 2;

impl Ways {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn connect(
        self: Arc<Ways>,
        mut caller: TcpStream,
        to: usize,
        target: u16,
    ) -> std::io::Result<()> {
        let mut hello = [0; NAME_AT + 2];
        caller.read_exact(&mut hello)?;
        // n1 to n3.
        let from = usize::from(hello[NAME_AT + 1] - b'1');
        self.wait((from, to));
        let mut called = TcpStream::connect(("127.0.0.1", target))?;
        for stream in [&caller, &called] {
            stream.set_nodelay(true)?;
            let stream = stream.try_clone()?;
            self.state.lock().unwrap().streams.push((from, to, stream));
        }
        called.write_all(&hello)?;
        let (answers, calls) = (called.try_clone()?, caller.try_clone()?);
        let back = Arc::clone(&self);
        thread::spawn(move || back.pass(answers, calls, (to, from)));
        self.pass(caller, called, (from, to));
        Ok(())
    }

    /// Until either end is closed.
    fn pass(&self, mut source: TcpStream, mut sink: TcpStream, way: Way) {
        let mut bytes = vec![0; 64 << 10];
        let mut random = SmallRng::seed_from_u64((way.0 * NODES + way.1) as u64);
        while let Ok(count @ 1..) = source.read(&mut bytes) {
            self.send_again(way, &mut random);
            self.wait(way);
            if sink.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = sink.shutdown(Shutdown::Both);
        let _ = source.shutdown(Shutdown::Both);
    }

    /// Takes the time until a piece has arrived that may be lost.
    fn send_again(&self, (from, to): Way, random: &mut SmallRng) {
        let is_lossy = || {
            let state = self.state.lock().unwrap();
            state.lossy[from] || state.lossy[to]
        };
        let mut after = SENT_AGAIN;
        while is_lossy() && random.random_ratio(1, LOST_ONE_IN) {
            thread::sleep(after);
            after *= 2;
        }
    }

    /// Until this way is open.
    fn wait(&self, (from, to): Way) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed.wait_while(state, |state| state.cut[from][to] && !state.is_over).unwrap(),
        );
    }
}
