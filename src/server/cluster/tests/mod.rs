//! Nodes with real sockets on loopback.

mod cluster;
mod door;
mod relay;
mod site;
mod thread;
mod transport;
