//! What is true of the code in a time of its own, over storages and links that the tests make: no socket, no server.
//! `make check` runs it.

mod calendar;
mod console;
mod docs;
mod engine;
mod golden;
mod journal;
mod nodes;
mod requests;
mod source;
mod support;
mod wheel;
