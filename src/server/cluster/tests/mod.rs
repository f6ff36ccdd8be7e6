//! Nodes with real sockets on loopback.

mod authority;
mod cluster;
mod listener;
mod relay;
mod site;
mod socket;
mod thread;
mod transport;
