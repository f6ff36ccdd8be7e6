//! Users and what they may do, with Redis's rules, texts and files: pure state and decisions. The
//! server reads and writes the ACL file; a session asks for each command.
//!
//! A connection keeps its user ([`User`]); when users change, each connection gets its user again.
//! So a command of a user that may do everything costs one branch, and one of any other user the
//! test of a bit and a comparison of each key with its patterns.

pub mod log;
pub mod rights;
pub mod rule;
pub mod selector;
pub mod user;

pub use user::User;

use crate::limits::{ACL_USERS_MAX, NAME_BYTES_MAX, PASSWORD_BYTES_MAX};
use crate::session::acl::user::Hash;
use log::{DenialLog, Denials, DeniedEntry};
use rule::{RefusedRule, Why};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The user of connections that have not logged in.
pub const DEFAULT: &[u8] = b"default";

/// By name.
pub type AclUsers = BTreeMap<Vec<u8>, Arc<User>>;

/// All users.
#[derive(Debug)]
pub struct Acl {
    /// There always is one for [`DEFAULT`].
    users: AclUsers,
    /// `acl-pubsub-default` is `allchannels`.
    all_channels: bool,
    /// `acllog-max-len`.
    pub log_len_max: usize,
    /// Bytes that it may take.
    pub log_bytes_max: usize,
    pub log: DenialLog,
    /// How often.
    pub denials: Denials,
}

impl Default for Acl {
    /// One user, [`User::default_user`].
    fn default() -> Acl {
        let mut acl = Acl {
            users: BTreeMap::new(),
            all_channels: false,
            log_len_max: crate::limits::ACL_LOG_LEN_DEFAULT,
            log_bytes_max: crate::limits::LOG_BYTES_MAX,
            log: DenialLog::default(),
            denials: Denials::default(),
        };
        acl.put(User::default_user());
        acl
    }
}

impl Acl {
    /// The user of connections that have not logged in.
    pub fn default_user(&self) -> &Arc<User> {
        &self.users[DEFAULT]
    }

    /// Whether a connection must log in before it may do anything.
    pub fn needs_password(&self) -> bool {
        let user = self.default_user();
        !user.has_no_password() || !user.is_enabled()
    }

    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// The users, by name.
    pub fn by_name(&self) -> &AclUsers {
        &self.users
    }

    /// These users instead of those there are, as another partition of the process has them.
    pub fn take_over(&mut self, users: AclUsers) {
        self.users = users;
    }

    /// Changes `into` as these users have changed since they were as `before`.
    pub fn copy_changes(&self, before: &AclUsers, into: &mut AclUsers) {
        for (name, user) in &self.users {
            if before.get(name) != Some(user) {
                into.insert(name.clone(), Arc::clone(user));
            }
        }
        let gone = before.keys().filter(|name| !self.users.contains_key(*name));
        gone.for_each(|name| drop(into.remove(name)));
    }

    /// All users in the order of their names.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// The user of this name, if the password is right. Takes as long for one that does not exist.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        // Longer ones cannot be set, and would take long.
        if password.len() > PASSWORD_BYTES_MAX {
            return None;
        }
        let hash = Hash::of(password);
        match self.users.get(name) {
            Some(user) => user.accepts(&hash).then(|| Arc::clone(user)),
            None => {
                std::hint::black_box(hash.is(&Hash::of(b"")));
                None
            }
        }
    }

    /// ACL SETUSER: applies rules to a user, which is created if necessary; all of them or none.
    pub fn set_user(&mut self, name: &[u8], rules: &[&[u8]]) -> Result<(), RefusedRule> {
        let user = self.user_with(name, rules)?;
        self.put(user);
        Ok(())
    }

    /// The result of [`Acl::set_user`].
    pub fn user_with(&self, name: &[u8], rules: &[&[u8]]) -> Result<User, RefusedRule> {
        check_name(name)?;
        let mut user = match self.users.get(name) {
            Some(user) => User::clone(user).with_channels_of(self.all_channels),
            None if self.users.len() >= ACL_USERS_MAX => {
                return Err(RefusedRule::new(name, Why::TooMany));
            }
            None => User::new(name, self.all_channels),
        };
        user.apply(rules)?;
        Ok(user)
    }

    /// Removes a user; false if it does not exist. The default user cannot be removed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT && self.users.remove(name).is_some()
    }

    /// Counts and logs that something was denied.
    pub fn note(&mut self, entry: DeniedEntry) {
        self.denials.count(entry.reason);
        self.log.add(entry, self.log_len_max, self.log_bytes_max);
    }

    /// `requirepass`: the default user's only password; empty for none.
    pub fn set_default_password(&mut self, password: &[u8]) {
        let mut user = User::clone(self.default_user());
        let rule = match password {
            b"" => b"nopass".to_vec(),
            password => [b">", password].concat(),
        };
        user.apply(&[b"resetpass", &rule]).expect("these rules fit any user");
        self.put(user);
    }

    /// `acl-pubsub-default`: whether users made from now on begin with all channels.
    pub fn set_all_channels(&mut self, all_channels: bool) {
        self.all_channels = all_channels;
    }

    /// The lines of an ACL file, a user each.
    pub fn describe(&self) -> Vec<Vec<u8>> {
        self.users().map(|user| user.describe()).collect()
    }

    /// ACL LOAD: the users of a file instead of those there are, or, if a line is wrong, why; then
    /// nothing has changed. The default user, if the file has none, is as on a fresh server, but keeps
    /// a password that it has by `requirepass`. `path` is what the errors call the file.
    pub fn load(&mut self, text: &[u8], path: &str, password: &[u8]) -> Result<(), String> {
        let mut fresh = Acl { all_channels: self.all_channels, ..Acl::default() };
        fresh.set_default_password(password);
        let (mut named, mut errors) = (Vec::new(), String::new());
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let words: Vec<&[u8]> =
                line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
            if words.is_empty() {
                continue;
            }
            let place = format!("{path}:{}", number + 1);
            let error = match words.as_slice() {
                [b"user", name, ..] if named.contains(&name.to_vec()) => {
                    format!("{place}: {}", duplicate(name))
                }
                [b"user", name, rules @ ..] => {
                    named.push(name.to_vec());
                    match fresh.declare(name, rules) {
                        Ok(()) => continue,
                        Err(refused) => format!("{place}: {refused}"),
                    }
                }
                _ => format!("{place} should start with user keyword followed by username"),
            };
            errors.push_str(&error);
            errors.push_str(". ");
        }
        if !errors.is_empty() {
            errors.push_str(
                "WARNING: ACL errors detected, no change to the previously active ACL rules was \
                 performed",
            );
            return Err(errors);
        }
        let old = std::mem::take(&mut self.users);
        self.users = fresh.users;
        for (name, user) in &mut self.users {
            if let Some(same) = old.get(name).filter(|old| *old == user) {
                *user = Arc::clone(same);
            }
        }
        Ok(())
    }

    /// A user as a file declares it: all of it is said there.
    pub fn declare(&mut self, name: &[u8], rules: &[&[u8]]) -> Result<(), RefusedRule> {
        check_name(name)?;
        let mut user = User::new(name, self.all_channels);
        user.apply(rules)?;
        if self.users.len() >= ACL_USERS_MAX && !self.users.contains_key(name) {
            return Err(RefusedRule::new(name, Why::TooMany));
        }
        self.put(user);
        Ok(())
    }

    /// A user that is as it was stays the very same, so that its connections need not be looked at.
    fn put(&mut self, user: User) {
        if self.users.get(user.name()).is_none_or(|old| **old != user) {
            self.users.insert(user.name().to_vec(), Arc::new(user));
        }
    }
}

/// The error for a user that is in a file twice.
pub fn duplicate(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    format!("Duplicate user '{name}' found. A user can only be defined once in config files")
}

fn check_name(name: &[u8]) -> Result<(), RefusedRule> {
    if name.len() > NAME_BYTES_MAX {
        return Err(RefusedRule::new(b"", Why::LongName));
    }
    selector::plain(name).map(|_| ()).map_err(|_| RefusedRule::new(name, Why::Name))
}
