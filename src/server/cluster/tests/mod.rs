//! Nodes with real sockets on loopback.

mod door;
mod relay;
mod site;
mod transport;
