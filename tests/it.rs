//! The server as clients see it, in this process and as the real program: over sockets, killed, stopped, its disk and
//! its memory full, three of them as a cluster.

mod pressure;
mod processes;
mod program;
mod server;
mod support;
