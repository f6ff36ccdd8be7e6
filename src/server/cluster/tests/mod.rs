//! Nodes with real sockets on loopback.

mod authority;
mod cluster;
mod door;
mod relay;
mod site;
mod socket;
mod thread;
mod transport;
