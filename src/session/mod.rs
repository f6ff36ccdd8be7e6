//! One connection's state machine, from a framed command to its reply, without a socket.

pub mod client_line;
pub mod world;

pub use client_line::{ClientLine, SessionFacts, SocketFacts};
pub use world::World;

use crate::ids::{ClientId, Db};
use crate::resp::Protocol;

/// What the server does after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It is over: take the next one.
    Done,
    /// The client waits in line: hold back its further bytes until it is answered.
    Waiting,
    /// Nothing visible happened: call [`Session::execute`] with the same in the next turn, before
    /// anything else of this client.
    Again,
    /// Close once what was written has left; further bytes are not read.
    CloseAfterReply,
}

/// One connection: what it chose (protocol, database, name) and the transaction it collects.
#[derive(Debug)]
pub struct Session {
    id: ClientId,
    protocol: Protocol,
    db: Db,
}

impl Session {
    /// A fresh connection: RESP2, database 0, no name.
    pub fn new(id: ClientId) -> Session {
        Session { id, protocol: Protocol::Resp2, db: Db(0) }
    }

    /// Runs one command. `args` begins with its name and is not empty. The reply, if there is one
    /// now, is in the client's output when this returns.
    pub fn execute(&mut self, _args: &[&[u8]], _world: &mut dyn World) -> Next {
        unimplemented!()
    }

    /// Refuses a command of which an argument was too long to be kept: `args` holds it as empty.
    /// Inside MULTI the transaction is lost, as with any command refused when queued.
    pub fn refuse_oversized(
        &mut self,
        _args: &[&[u8]],
        _bytes: u64,
        _bytes_max: u64,
        _world: &mut dyn World,
    ) -> Next {
        unimplemented!()
    }

    /// What CLIENT LIST shows of it.
    pub fn facts(&self) -> SessionFacts {
        unimplemented!()
    }

    /// The protocol it speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Its database.
    pub fn db(&self) -> Db {
        self.db
    }

    /// Its number.
    pub fn id(&self) -> ClientId {
        self.id
    }
}
