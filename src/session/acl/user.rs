//! One user: on or off, passwords, what it may do.

use crate::command::{CommandSpec, table};
use crate::limits::{ACL_USER_BYTES_MAX, PASSWORD_BYTES_MAX};
use crate::session::acl::rule::{RefusedRule, Why};
use crate::session::acl::selector::{Denied, Selector};
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    name: Vec<u8>,
    enabled: bool,
    no_password: bool,
    /// A flag of Redis's for RESTORE, which there is not; kept for the ACL file.
    skip_sanitize: bool,
    passwords: Vec<Hash>,
    /// `acl-pubsub-default` says that selectors begin with all channels.
    all_channels: bool,
    root: Selector,
    selectors: Vec<Selector>,
}

impl User {
    /// A fresh user: off, without a password, and it may do nothing.
    pub fn new(name: &[u8], all_channels: bool) -> User {
        User {
            name: name.to_vec(),
            enabled: false,
            no_password: false,
            skip_sanitize: false,
            passwords: Vec::new(),
            all_channels,
            root: Selector::none(all_channels),
            selectors: Vec::new(),
        }
    }

    /// The user of connections that have not logged in, on a new server: it needs no password and may do everything.
    pub fn default_user() -> User {
        let mut user = User::new(b"default", false);
        (user.enabled, user.no_password, user.root) = (true, true, Selector::all());
        user
    }

    /// The same; from here on its selectors begin with all channels, or with none.
    pub fn with_channels_of(self, all_channels: bool) -> User {
        User { all_channels, ..self }
    }

    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it may be used at all.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub fn has_no_password(&self) -> bool {
        self.no_password
    }

    /// Whether it may do everything.
    pub fn is_unrestricted(&self) -> bool {
        self.root.is_all()
    }

    /// Whether it may operate the server: `+@admin`.
    pub fn is_operator(&self) -> bool {
        let selectors = || std::iter::once(&self.root).chain(&self.selectors);
        selectors().any(Selector::gives_admin)
    }

    /// Whether `password` is right. All of its passwords are compared, however early one fits.
    pub fn accepts(&self, password: &Hash) -> bool {
        let fits = self.passwords.iter().fold(false, |fits, known| fits | known.is(password));
        self.enabled & (self.no_password | fits)
    }

    /// Whether a command may run; `args` begin with its name. Denied: what came closest.
    pub fn check(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> Result<(), Denied> {
        let rank = |denied: &Denied| match *denied {
            Denied::Command => (0, 0),
            Denied::Key(at) => (1, at),
            Denied::Channel(at) => (2, at),
        };
        if self.tries_own_rights(spec, args) {
            return Ok(());
        }
        let mut closest = match self.root.check(spec, args) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        for selector in &self.selectors {
            match selector.check(spec, args) {
                Ok(()) => return Ok(()),
                Err(denied) if rank(&denied) > rank(&closest) => closest = denied,
                Err(_) => {}
            }
        }
        Err(closest)
    }

    /// Whether the command is ACL DRYRUN of this very user, which may run it if it may run ACL WHOAMI: it learns
    /// nothing that it could not try.
    fn tries_own_rights(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> bool {
        let who_am_i = [&b"ACL"[..], b"WHOAMI"];
        spec.name == "acl|dryrun"
            && args.get(2).is_some_and(|name| *name == self.name)
            && table::resolve(&who_am_i).is_ok_and(|spec| self.check(spec, &who_am_i).is_ok())
    }

    /// Globs of the queues that it may read by a command which names none of them; none if it may read all.
    /// `args` begin with the command's name.
    pub fn readable(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> Option<Vec<&[u8]>> {
        let mut globs = Vec::new();
        for selector in std::iter::once(&self.root).chain(&self.selectors) {
            if selector.allows(spec, args) {
                globs.extend(selector.readable()?);
            }
        }
        Some(globs)
    }

    /// The globs of all its selectors, whatever they give: as many as a name is compared with at the most.
    pub fn key_globs(&self) -> Vec<&[u8]> {
        let all = std::iter::once(&self.root).chain(&self.selectors);
        all.filter_map(Selector::readable).flatten().collect()
    }

    /// Whether it may use every channel, whatever it may do.
    pub fn has_all_channels(&self) -> bool {
        self.root.has_all_channels() || self.selectors.iter().any(Selector::has_all_channels)
    }

    /// Whether any of its selectors gives it this channel, or pattern of channels.
    pub fn has_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let gives = |selector: &Selector| selector.gives_channel(name, is_pattern);
        gives(&self.root) || self.selectors.iter().any(gives)
    }

    /// Applies rules in their order; discard a user for which one fails. Selectors may come as
    /// several words.
    pub fn apply(&mut self, rules: &[&[u8]]) -> Result<(), RefusedRule> {
        for rule in merged(rules)? {
            self.apply_one(&rule).map_err(|why| RefusedRule::new(&rule, why))?;
        }
        match self.describe_rules().len() > ACL_USER_BYTES_MAX {
            true => Err(RefusedRule::new(b"", Why::TooLong)),
            false => Ok(()),
        }
    }

    /// `on`, `nopass` and similar flags, as GETUSER shows them.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        if self.skip_sanitize {
            flags.push("skip-sanitize-payload");
        }
        flags
    }

    pub fn passwords(&self) -> &[Hash] {
        &self.passwords
    }

    /// The rights outside of parentheses.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// Additional rights.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The line of an ACL file: `user name rules`.
    pub fn describe(&self) -> Vec<u8> {
        [b"user ", self.name.as_slice(), b" ", &self.describe_rules()].concat()
    }

    /// The rules that make the same of a fresh user.
    pub fn describe_rules(&self) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> =
            self.flags().iter().map(|flag| flag.as_bytes().to_vec()).collect();
        parts.extend(self.passwords.iter().map(|hash| format!("#{}", hash.hex()).into_bytes()));
        parts.push(self.root.describe());
        for selector in &self.selectors {
            parts.push([b"(", selector.describe().as_slice(), b")"].concat());
        }
        parts.join(&b' ')
    }

    fn apply_one(&mut self, rule: &[u8]) -> Result<(), Why> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"nopass" => (self.no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.no_password, self.passwords) = (false, Vec::new()),
            b"sanitize-payload" => self.skip_sanitize = false,
            b"skip-sanitize-payload" => self.skip_sanitize = true,
            b"clearselectors" => self.selectors.clear(),
            b"reset" => *self = User::new(&self.name, self.all_channels),
            _ => return self.apply_argument(rule),
        }
        Ok(())
    }

    fn apply_argument(&mut self, rule: &[u8]) -> Result<(), Why> {
        let (kind, rest) = (rule[0], &rule[1..]);
        match kind {
            b'>' if rest.len() > PASSWORD_BYTES_MAX => return Err(Why::LongPassword),
            b'>' => self.add_password(Hash::of(rest)),
            b'#' => self.add_password(Hash::from_hex(rest).ok_or(Why::Hash)?),
            b'<' => return self.remove_password(&Hash::of(rest)),
            b'!' => return self.remove_password(&Hash::from_hex(rest).ok_or(Why::Hash)?),
            b'(' if rest.last() == Some(&b')') => {
                let mut selector = Selector::none(self.all_channels);
                let inside = &rest[..rest.len() - 1];
                for rule in inside.split(u8::is_ascii_whitespace).filter(|rule| !rule.is_empty()) {
                    selector.apply(rule)?;
                }
                self.selectors.push(selector);
            }
            _ => return self.root.apply(rule),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.no_password = false;
    }

    fn remove_password(&mut self, hash: &Hash) -> Result<(), Why> {
        let at = self.passwords.iter().position(|known| known == hash);
        self.passwords.remove(at.ok_or(Why::NoSuchPassword)?);
        Ok(())
    }
}

/// Words from one that begins with a parenthesis up to one that ends with it are one rule.
fn merged(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, RefusedRule> {
    let mut merged: Vec<Vec<u8>> = Vec::with_capacity(rules.len());
    let mut open: Option<&[u8]> = None;
    for rule in rules {
        match (open, merged.last_mut()) {
            (Some(_), Some(selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(rule);
            }
            _ => merged.push(rule.to_vec()),
        }
        open = match open {
            None if rule.starts_with(b"(") && !rule.ends_with(b")") => Some(rule),
            Some(_) if rule.ends_with(b")") => None,
            open => open,
        };
    }
    match open {
        Some(first) => Err(RefusedRule::new(first, Why::Unmatched)),
        None => Ok(merged),
    }
}

// Passwords, which are only kept as SHA-256, as in Redis's ACL files.

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    pub fn of(password: &[u8]) -> Hash {
        Hash(Sha256::digest(password).into())
    }

    /// Reads 64 hexadecimal digits in lower case.
    pub fn from_hex(text: &[u8]) -> Option<Hash> {
        if text.len() != 64 {
            return None;
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Hash(hash))
    }

    /// As 64 hexadecimal digits in lower case.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether both are of the same password; the time it takes reveals nothing.
    pub fn is(&self, other: &Hash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Hash {
    /// Not the hash: weak passwords can be found from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}
