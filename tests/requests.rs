//! Requests and replies without a server: framing, parsing, rights, encoding.

#[path = "requests/acl.rs"]
mod acl;
#[path = "requests/commands.rs"]
mod commands;
#[path = "requests/framer.rs"]
mod framer;
#[path = "requests/reply.rs"]
mod reply;
#[path = "requests/schedules.rs"]
mod schedules;
