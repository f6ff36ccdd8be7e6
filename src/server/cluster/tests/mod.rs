//! Nodes with real sockets on loopback.

mod cluster;
mod listener;
mod relay;
mod site;
mod socket;
mod thread;
mod transport;
