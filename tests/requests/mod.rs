//! Requests and replies without a server: framing, parsing, rights, encoding.

mod acl;
mod commands;
mod framer;
mod reply;
mod schedules;
