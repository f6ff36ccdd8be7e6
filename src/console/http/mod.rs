//! HTTP on the console's own thread: connections, routes, and how long a client may take to read.

pub mod listen;
pub mod route;
pub mod serve;
pub mod write_timeout;
