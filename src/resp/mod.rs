//! Redis protocol framing and encoding: bytes in, command arguments out; reply values in, bytes out.
//!
//! [`Framer`] finds the next request in a connection's read buffer, [`Encoder`] appends replies to
//! its write buffer. Neither knows sockets, clocks or commands, so both run as they stand in tests,
//! fuzzers and benchmarks.
//!
//! Requests have a parser of their own because they come from strangers: it has limits, keeps its
//! place between reads, and cannot recurse (a request is one array of bulk strings, never more).
//! `redis-protocol` decodes nested frames by recursion, without limits, from the first byte each
//! time; it serves as the oracle in tests and encodes the less frequent reply types.

#![warn(missing_docs)]

mod args;
mod error;
mod framer;
mod inline;
mod number;
mod reply;

pub use crate::resp::error::{
    ELEMENTS_MAX, FrameLimits, LINE_BYTES_MAX, UNAUTHENTICATED_BULK_BYTES_MAX,
    UNAUTHENTICATED_ELEMENTS_MAX,
};
pub use args::{Arg, Args};
pub use error::ProtocolError;
pub use framer::{Framed, Framer};
pub use reply::{Encoder, Protocol};
