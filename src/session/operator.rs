//! Connections beyond `maxclients`. A few from this machine are let in, so that workers that use up all places do not
//! keep an operator out.
//!
//! ```text
//! it says first     AUTH or HELLO … AUTH of a user with +@admin, or anything where `default` is one without a password
//! it may            all but what adds or takes jobs: that needs a place within `maxclients`
//! otherwise         the error that the others get, and the connection is closed
//! ```

use crate::command::CommandSpec;
use crate::command::spec::Flag;
use crate::error::Error;
use crate::session::Session;

/// The error beyond `maxclients`.
pub const MAX_CLIENTS: &str = "ERR max number of clients reached";

/// The state of a connection beyond `maxclients`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Seat {
    /// It has a place like all others.
    #[default]
    Own,
    /// One of those kept for operators.
    Spare,
    /// The same, and it has logged in, or given a command for operators.
    Proven,
}

impl Session {
    /// Gives it a place that is kept for operators.
    pub fn take_spare_seat(&mut self) {
        self.seat = Seat::Spare;
    }

    /// Gives it a place like all others.
    pub fn take_own_seat(&mut self) {
        self.seat = Seat::Own;
    }

    /// Whether an operator is on a place that is kept for one, as far as is known.
    pub fn is_proven_operator(&self) -> bool {
        self.seat == Seat::Proven
    }

    /// Whether a command may run on the connection's place. The error is the last reply on it.
    pub(super) fn check_seat(
        &mut self,
        spec: &'static CommandSpec,
        args: &[&[u8]],
    ) -> Result<(), Error> {
        if self.seat == Seat::Own {
            return Ok(());
        }
        let logs_in = match spec.name {
            "auth" | "quit" => true,
            "hello" => args.iter().any(|word| word.eq_ignore_ascii_case(b"AUTH")),
            _ => false,
        };
        let works = spec.has(Flag::Write) || spec.has(Flag::Blocking);
        let is_admin = spec.all_categories().contains(&"dangerous");
        if logs_in || (self.is_operator() && (is_admin || !works)) {
            self.prove_if(spec.has(Flag::Admin));
            return Ok(());
        }
        self.closing = true;
        Err(Error::text(MAX_CLIENTS))
    }

    /// After AUTH and HELLO: whether the user that has logged in may stay.
    pub(super) fn check_login(&mut self) -> Result<(), Error> {
        if self.seat == Seat::Own || self.is_operator() {
            self.prove_if(true);
            return Ok(());
        }
        self.closing = true;
        Err(Error::text(MAX_CLIENTS))
    }

    /// A wrong password is the last thing that it says.
    pub(super) fn note_failed_login(&mut self) {
        self.closing |= self.seat != Seat::Own;
    }

    fn prove_if(&mut self, proven: bool) {
        if proven && self.seat == Seat::Spare {
            self.seat = Seat::Proven;
        }
    }

    fn is_operator(&self) -> bool {
        !self.is_locked() && self.identity.user.is_operator()
    }
}
