//! Commands that delayd does not have and that are always answered the same, as tools expect.

use crate::command::spec::action::{Action, Fixed, Server};
use crate::command::spec::args::Args;
use crate::command::spec::{Always, CommandSpec};
use crate::error::Error;

/// A command that is refused with `error` whatever follows; `call` is an example of one.
pub(super) const fn refused(
    name: &'static str,
    summary: &'static str,
    call: &'static str,
    error: &'static str,
    base: CommandSpec,
) -> CommandSpec {
    let always = Some((call, Always::Refused(error)));
    let reply = "An error that says so.";
    CommandSpec { name, summary, reply, always, parse: Some(parse), ..base }
}

/// A command that is answered with `reply` whatever follows; `call` is an example of one.
pub(super) const fn answered(
    name: &'static str,
    summary: &'static str,
    call: &'static str,
    reply: Fixed,
    base: CommandSpec,
) -> CommandSpec {
    let always = Some((call, Always::Answered(reply)));
    let reply = match reply {
        Fixed::Ok => "Simple string: `OK`.",
        Fixed::Zero => "Integer: 0.",
        Fixed::Empty => "Array, empty.",
        Fixed::Zeros(_) => "Array of zeros.",
        Fixed::Text(_) => "Text.",
    };
    CommandSpec { name, summary, reply, always, parse: Some(parse), ..base }
}

fn parse<'a>(args: &mut Args<'a>) -> Result<Action<'a>, Error> {
    match args.spec().always.as_ref().expect("it stands in the row").1 {
        Always::Refused(error) => Err(Error::text(error)),
        Always::Answered(reply) => Ok(Action::Server(Server::Fixed(reply))),
    }
}
