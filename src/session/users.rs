//! ACL: what a command asks about users.

use crate::command::spec::CATEGORIES;
use crate::command::spec::action::Users;
use crate::command::table;
use crate::error::Shown;
use crate::resp::Encoder;
use crate::session::acl::User;
use crate::session::acl::selector::Selector;
use crate::session::identity::denial_text;
use crate::session::world::World;
use crate::session::{Session, Step};
use std::fmt::Write;
use std::sync::Arc;

impl Session {
    pub(super) fn users(&mut self, what: Users<'_>, world: &mut dyn World) -> Step {
        match what {
            Users::Categories(category) => return self.categories(category, world),
            Users::Delete(names) => return self.delete_users(names, world),
            Users::DryRun { name, command } => return self.dry_run(name, command, world),
            Users::GeneratePassword { digits } => {
                let mut bytes = vec![0; digits.div_ceil(2)];
                world.draw_secret(&mut bytes);
                let mut password = bytes.iter().fold(String::new(), |mut text, byte| {
                    write!(text, "{byte:02x}").expect("a String takes all");
                    text
                });
                password.truncate(digits);
                world.encoder(self.id).bulk(password.as_bytes());
            }
            Users::Show(name) => {
                let user = world.acl().get(name).cloned();
                let mut out = world.encoder(self.id);
                match user {
                    Some(user) => write_user(&user, &mut out),
                    None => out.null(),
                }
            }
            Users::List => {
                let lines = world.acl().describe();
                self.bulks(lines.iter().map(Vec::as_slice), world);
            }
            Users::Names => {
                let users: Vec<Arc<User>> = world.acl().users().cloned().collect();
                self.bulks(users.iter().map(|user| user.name()), world);
            }
            Users::Load | Users::Save => {
                let done = match what {
                    Users::Load => world.load_users(),
                    _ => world.save_users(),
                };
                if let Err(why) = done {
                    return self.fail(&format!("ERR {why}"), world);
                }
                self.take_up_own(world);
                return self.ok(world);
            }
            Users::Log(count) => self.write_denials(count, world),
            Users::ForgetLog => {
                world.acl().log.clear();
                return self.ok(world);
            }
            Users::Set { name, rules } => {
                if let Err(refused) = world.acl().set_user(name, rules) {
                    return self.fail(&format!("ERR {}", refused.of_setuser()), world);
                }
                return self.users_changed(world);
            }
            Users::WhoAmI => {
                let user = Arc::clone(&self.identity.user);
                world.encoder(self.id).bulk(user.name());
            }
        }
        Step::Done
    }

    fn users_changed(&mut self, world: &mut dyn World) -> Step {
        world.users_changed();
        self.take_up_own(world);
        self.ok(world)
    }

    fn delete_users(&mut self, names: &[&[u8]], world: &mut dyn World) -> Step {
        if names.contains(&crate::session::acl::DEFAULT) {
            return self.fail("ERR The 'default' user cannot be removed", world);
        }
        let count = names.iter().filter(|name| world.acl().remove(name)).count();
        if count > 0 {
            world.users_changed();
            self.take_up_own(world);
        }
        world.encoder(self.id).integer(count as i64);
        Step::Done
    }

    fn categories(&mut self, category: Option<&[u8]>, world: &mut dyn World) -> Step {
        let Some(name) = category else {
            self.bulks(CATEGORIES.iter().map(|category| category.as_bytes()), world);
            return Step::Done;
        };
        let is = |category: &&&str| name.eq_ignore_ascii_case(category.as_bytes());
        let Some(category) = CATEGORIES.iter().find(is) else {
            let text = format!("ERR Unknown category {}", Shown::new(name));
            return self.fail(&text, world);
        };
        let names: Vec<&[u8]> = table::all_with_subcommands()
            .filter(|spec| spec.all_categories().contains(category))
            .map(|spec| spec.name.as_bytes())
            .collect();
        self.bulks(names.into_iter(), world);
        Step::Done
    }

    fn dry_run(&mut self, name: &[u8], command: &[&[u8]], world: &mut dyn World) -> Step {
        let Some(user) = world.acl().get(name).cloned() else {
            return self.fail(&format!("ERR User {} not found", Shown::new(name)), world);
        };
        let word = command.first().copied().unwrap_or_default();
        let spec = match table::resolve(command) {
            Ok(spec) => spec,
            Err(error) if error.to_string().starts_with("ERR unknown") => {
                let text = format!("ERR Command {} not found", Shown::new(word));
                return self.fail(&text, world);
            }
            Err(error) => return self.fail(&error.to_string(), world),
        };
        let mut out = world.encoder(self.id);
        match user.check(spec, command) {
            Ok(()) => out.ok(),
            Err(denied) => out.bulk(denial_text(&user, spec, denied, Some(command)).as_bytes()),
        }
        Step::Done
    }

    fn write_denials(&mut self, count: usize, world: &mut dyn World) {
        let now_ms = world.now().floor().0;
        let entries: Vec<_> = world.acl().log.newest(count).cloned().collect();
        let mut out = world.encoder(self.id);
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        out.array(entries.len());
        for entry in entries {
            out.map(10);
            out.bulk(b"count");
            out.integer(integer(entry.count));
            out.bulk(b"reason");
            out.bulk(entry.reason.word().as_bytes());
            out.bulk(b"context");
            out.bulk(entry.context.word().as_bytes());
            out.bulk(b"object");
            out.bulk(&entry.object);
            out.bulk(b"username");
            out.bulk(&entry.user);
            out.bulk(b"age-seconds");
            out.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1_000.0);
            out.bulk(b"client-info");
            out.bulk(entry.client.as_bytes());
            out.bulk(b"entry-id");
            out.integer(integer(entry.id));
            out.bulk(b"timestamp-created");
            out.integer(integer(entry.created_ms));
            out.bulk(b"timestamp-last-updated");
            out.integer(integer(entry.updated_ms));
        }
    }

    fn bulks<'a>(&self, texts: impl ExactSizeIterator<Item = &'a [u8]>, world: &mut dyn World) {
        let mut out = world.encoder(self.id);
        out.array(texts.len());
        texts.for_each(|text| out.bulk(text));
    }
}

/// ACL GETUSER.
fn write_user(user: &User, out: &mut Encoder<'_>) {
    out.map(6);
    out.bulk(b"flags");
    let flags = user.flags();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(user.passwords().len());
    user.passwords().iter().for_each(|hash| out.bulk(hash.hex().as_bytes()));
    write_selector(user.root(), out);
    out.bulk(b"selectors");
    out.array(user.selectors().len());
    for selector in user.selectors() {
        out.map(3);
        write_selector(selector, out);
    }
}

fn write_selector(selector: &Selector, out: &mut Encoder<'_>) {
    out.bulk(b"commands");
    out.bulk(selector.describe_commands().as_bytes());
    out.bulk(b"keys");
    out.bulk(&selector.describe_keys());
    out.bulk(b"channels");
    out.bulk(&selector.describe_channels());
}
