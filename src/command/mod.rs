//! Commands: what they are called, what they take, how they are read and how they are answered.
//!
//! There is one [table](table). It has a [`CommandSpec`] for each command, in the file of its
//! parser; dispatch, arity errors, key extraction, COMMAND, HELP and the written reference all come
//! from it. [`table::resolve`] finds a command, [`parse`] reads its words into an [`Action`],
//! [`render`](show::render::render) writes the engine's reply.

pub mod read;
pub mod show;
pub mod spec;
pub mod table;

mod family;

pub use spec::CommandSpec;
pub use spec::action::Action;

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
        Some(parse) => parse(&mut spec::args::Args::new(spec, words, db)),
        None => Err(spec::args::arity_error(spec)),
    }
}
