//! The server in this process, as clients see it: over sockets, and in memory where sockets do not matter.

#[path = "server/bounds.rs"]
mod bounds;
#[path = "server/channels.rs"]
mod channels;
#[path = "server/clients.rs"]
mod clients;
#[path = "server/cluster.rs"]
mod cluster;
#[path = "server/connections.rs"]
mod connections;
#[path = "support/disk.rs"]
mod disk;
#[path = "server/durability.rs"]
mod durability;
#[path = "support/http.rs"]
mod http;
#[path = "server/pipelines.rs"]
mod pipelines;
#[path = "support/program.rs"]
mod program;
#[path = "server/session.rs"]
mod session;
mod support;
#[path = "server/tls.rs"]
mod tls;
#[path = "server/unix.rs"]
mod unix;
#[path = "server/zones.rs"]
mod zones;
