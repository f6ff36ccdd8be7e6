//! A client's connection: how it comes in, what was read from it, and what it is still to be sent.

pub(super) mod calls;
pub mod client;
pub mod clients;
pub mod common;
pub(super) mod handshake;
pub mod hint;
pub mod input;
pub mod lines;
pub mod listen;
pub mod memory;
pub mod pair;
pub mod stream;
pub mod tls;
pub mod unsent;
pub mod wake;
