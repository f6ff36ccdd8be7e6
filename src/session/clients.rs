//! What a command asks about other connections.

use crate::command::spec::action::{ClientFilter, Clients};
use crate::error::Shown;
use crate::session::client_line::ClientLine;
use crate::session::world::{Unblock, World};
use crate::session::{Session, Step};

impl Session {
    pub(super) fn clients(&mut self, what: Clients<'_>, world: &mut dyn World) -> Step {
        match what {
            Clients::List(filter) => {
                let lines: String = self
                    .lines(world)
                    .iter()
                    .filter(|line| filter.matches(line))
                    .map(|line| format!("{line}\n"))
                    .collect();
                world.encoder(self.id).verbatim_txt(&lines);
            }
            Clients::Kill(ClientFilter { user: Some(user), .. })
                if world.acl().get(user).is_none() =>
            {
                let text = format!("ERR No such user {}", Shown::new(user));
                return self.fail(&text, world);
            }
            Clients::Kill(filter) => {
                let count = self.kill(&filter, world);
                world.encoder(self.id).integer(count);
            }
            Clients::KillAddr(addr) => {
                let filter = ClientFilter { addr: Some(addr), ..ClientFilter::default() };
                if self.kill(&filter, world) == 0 {
                    return self.fail("ERR No such client", world);
                }
                return self.ok(world);
            }
            Clients::Pause { ms, writes_only } => {
                world.pause(ms, writes_only);
                return self.ok(world);
            }
            Clients::Unpause => {
                world.unpause();
                return self.ok(world);
            }
            Clients::Unblock { id, error } => {
                let how = if error { Unblock::Error } else { Unblock::Timeout };
                let released = id.is_some_and(|id| id != self.id && world.unblock(id, how));
                world.encoder(self.id).integer(released.into());
            }
        }
        Step::Done
    }

    /// CLIENT INFO.
    pub(super) fn own_line(&self, world: &mut dyn World) -> String {
        let lines = self.lines(world);
        let own = lines.iter().find(|line| line.session.id == self.id);
        own.map(|line| format!("{line}\n")).unwrap_or_default()
    }

    fn lines(&self, world: &mut dyn World) -> Vec<ClientLine> {
        let mut lines = world.clients();
        for line in lines.iter_mut().filter(|line| line.session.id == self.id) {
            line.session = self.facts();
        }
        lines
    }

    fn kill(&mut self, filter: &ClientFilter<'_>, world: &mut dyn World) -> i64 {
        let mut count = 0;
        for line in self.lines(world).iter().filter(|line| filter.matches(line)) {
            if line.session.id != self.id {
                count += i64::from(world.kill(line.session.id));
            } else if !filter.skip_me {
                // It reads this reply first.
                self.closing = true;
                count += 1;
            }
        }
        count
    }
}
