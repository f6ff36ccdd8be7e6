//! What a command asks of the server as a whole.

use crate::session::world::{Admin, Served, World};
use crate::session::{Session, Step};

impl Session {
    pub(super) fn serve(&mut self, what: Admin<'_>, world: &mut dyn World) -> Step {
        match world.serve(self, what) {
            Ok(Served::Done) => Step::Done,
            Ok(Served::Waiting) => Step::Waiting,
            Ok(Served::Again) => Step::Again,
            Ok(Served::UsersChanged) => {
                self.take_up_own(world);
                Step::Done
            }
            Ok(Served::Killed) => {
                self.closing = true;
                Step::Done
            }
            Err(text) => self.fail(&text, world),
        }
    }
}
