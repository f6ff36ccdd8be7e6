//! What a command asks of the server as a whole.

use crate::command::spec::action::Server;
use crate::session::world::{Served, World};
use crate::session::{Session, Step};

impl Session {
    pub(super) fn server(&mut self, what: Server<'_>, world: &mut dyn World) -> Step {
        match world.serve(self, what) {
            Ok(Served::Done) => Step::Done,
            Ok(Served::Waiting) => Step::Waiting,
            Ok(Served::Again) => Step::Again,
            Ok(Served::UsersChanged) => {
                self.take_up_own(world);
                self.ok(world)
            }
            Err(text) => self.fail(&text, world),
        }
    }
}
