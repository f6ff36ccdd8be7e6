//! ACL: what a command asks about users.

use crate::command::spec::CATEGORIES;
use crate::command::spec::action::Users;
use crate::command::table;
use crate::error::Shown;
use crate::ids::ClientId;
use crate::resp::Encoder;
use crate::server::admin::{ClientWorld, users};
use crate::server::core::Core;
use crate::server::observe::machine;
use crate::session::acl::selector::Selector;
use crate::session::acl::{DEFAULT, User};
use crate::session::world::Served;
use crate::session::{Session, denial_text};
use std::fmt::Write;

pub fn serve(
    world: &mut ClientWorld<'_>,
    asker: &Session,
    what: Users<'_>,
) -> Result<Served, String> {
    let changes = matches!(what, Users::Delete(_) | Users::Load | Users::Set { .. });
    if run(world.core, asker, what)? && changes {
        users::changed(world);
        return Ok(Served::UsersChanged);
    }
    Ok(Served::Done)
}

/// Whether users have changed, if it is a command that changes them.
fn run(core: &mut Core, asker: &Session, what: Users<'_>) -> Result<bool, String> {
    let class = |why: String| format!("ERR {why}");
    match what {
        Users::Delete(names) if names.contains(&DEFAULT) => {
            return Err("ERR The 'default' user cannot be removed".to_owned());
        }
        Users::Load => users::reload(core).map_err(class)?,
        Users::Save => users::save(core).map_err(class)?,
        Users::Set { name, rules } => {
            let set = core.users.acl.set_user(name, rules);
            set.map_err(|refused| class(refused.of_setuser()))?;
        }
        Users::ForgetLog => core.users.acl.log.clear(),
        Users::DryRun { name, command } => return dry_run(core, asker.id(), name, command),
        Users::Log(count) => {
            write_denials(core, asker.id(), count);
            return Ok(false);
        }
        _ => {}
    }
    let acl = &mut core.users.acl;
    let mut out = core.outputs.encoder(asker.id());
    match what {
        Users::Categories(category) => write_categories(category, &mut out)?,
        Users::Delete(names) => {
            let count = names.iter().filter(|name| acl.remove(name)).count();
            out.integer(count as i64);
            return Ok(count > 0);
        }
        Users::GeneratePassword { digits } => {
            let mut bytes = vec![0; digits.div_ceil(2)];
            machine::fill_random(&mut bytes);
            let mut password = bytes.iter().fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").expect("a String takes all");
                text
            });
            password.truncate(digits);
            out.bulk(password.as_bytes());
        }
        Users::Show(name) => match acl.get(name) {
            Some(user) => write_user(user, &mut out),
            None => out.null(),
        },
        Users::List => out.bulks(acl.describe().into_iter()),
        Users::Names => {
            let names: Vec<&[u8]> = acl.users().map(|user| user.name()).collect();
            out.bulks(names.into_iter());
        }
        Users::WhoAmI => out.bulk(asker.user_name()),
        _ => out.ok(),
    }
    Ok(true)
}

fn write_categories(category: Option<&[u8]>, out: &mut Encoder<'_>) -> Result<(), String> {
    let Some(name) = category else {
        out.bulks(CATEGORIES.iter());
        return Ok(());
    };
    let is = |category: &&&str| name.eq_ignore_ascii_case(category.as_bytes());
    let Some(category) = CATEGORIES.iter().find(is) else {
        return Err(format!("ERR Unknown category {}", Shown::new(name)));
    };
    let names: Vec<&str> = table::all_with_subcommands()
        .filter(|spec| spec.all_categories().contains(category))
        .map(|spec| spec.name)
        .collect();
    out.bulks(names.into_iter());
    Ok(())
}

fn dry_run(
    core: &mut Core,
    client: ClientId,
    name: &[u8],
    command: &[&[u8]],
) -> Result<bool, String> {
    let Some(user) = core.users.acl.get(name) else {
        return Err(format!("ERR User {} not found", Shown::new(name)));
    };
    let word = command.first().copied().unwrap_or_default();
    let spec = table::resolve(command).map_err(|error| match error.to_string() {
        text if text.starts_with("ERR unknown") => {
            format!("ERR Command {} not found", Shown::new(word))
        }
        text => text,
    })?;
    let mut out = core.outputs.encoder(client);
    match user.check(spec, command) {
        Ok(()) => out.ok(),
        Err(denied) => out.bulk(denial_text(user, spec, denied, Some(command)).as_bytes()),
    }
    Ok(false)
}

fn write_denials(core: &mut Core, client: ClientId, count: usize) {
    let now_ms = core.clock.now.floor().0;
    let entries: Vec<_> = core.users.acl.log.newest(count).collect();
    let mut out = core.outputs.encoder(client);
    out.array(entries.len());
    for entry in entries {
        out.map(10);
        out.field("count").unsigned(entry.count);
        out.field("reason").bulk(entry.reason.word().as_bytes());
        out.field("context").bulk(entry.context.word().as_bytes());
        out.field("object").bulk(&entry.object);
        out.field("username").bulk(&entry.user);
        out.field("age-seconds").double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1_000.0);
        out.field("client-info").bulk(entry.client.as_bytes());
        out.field("entry-id").unsigned(entry.id);
        out.field("timestamp-created").unsigned(entry.created_ms);
        out.field("timestamp-last-updated").unsigned(entry.updated_ms);
    }
}

fn write_user(user: &User, out: &mut Encoder<'_>) {
    out.map(6);
    let flags = user.flags();
    out.field("flags").set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.field("passwords").bulks(user.passwords().iter().map(|hash| hash.hex()));
    write_selector(user.root(), out);
    out.field("selectors").array(user.selectors().len());
    for selector in user.selectors() {
        out.map(3);
        write_selector(selector, out);
    }
}

fn write_selector(selector: &Selector, out: &mut Encoder<'_>) {
    out.field("commands").bulk(selector.describe_commands().as_bytes());
    out.field("keys").bulk(&selector.describe_keys());
    out.field("channels").bulk(&selector.describe_channels());
}
