//! Commands: what they are called, what they take, how they are read and how they are answered.
//!
//! There is one [table](table). A [`CommandSpec`] stands in it for each command, in the file of its
//! parser; dispatch, arity errors, key extraction, COMMAND, HELP and the written reference all come
//! from it. [`table::resolve`] finds a command, [`parse`] reads its words into an
//! [`Action`], [`render`](render::render) writes the engine's reply.

pub mod action;
pub mod args;
pub mod argument;
pub mod describe;
pub mod duration;
pub mod help;
pub mod moment;
pub mod names;
pub mod number;
pub mod reference;
pub mod render;
pub mod secret;
pub mod spec;
pub mod table;

mod acl;
mod bulk;
mod client;
mod commands;
mod connection;
mod consume;
mod job;
mod journal;
mod keyspace;
mod list;
mod observe;
mod policy;
mod produce;
mod pubsub;
mod queue;
mod replication;
mod scripting;
mod server;
mod transaction;

pub use action::Action;
pub use spec::CommandSpec;

use crate::error::Error;
use crate::ids::Db;

/// Reads the words of a command that [`table::resolve`] found, in database `db`. The result
/// depends on nothing else.
pub fn parse<'a>(
    spec: &'static CommandSpec,
    words: &'a [&'a [u8]],
    db: Db,
) -> Result<Action<'a>, Error> {
    match spec.parse {
        Some(parse) => parse(&mut args::Args::new(spec, words, db)),
        None => Err(args::arity_error(spec.name)),
    }
}
