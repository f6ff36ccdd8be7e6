//! The server in this process, as clients see it: over sockets, and in memory where sockets do not matter.

mod bounds;
mod channels;
mod clients;
mod cluster;
mod connections;
mod durability;
mod pipelines;
mod session;
mod tls;
mod unix;
mod zones;
