//! A set of commands with the keys and channels they may be used on. A user has one, and more in
//! parentheses; what one of them allows is allowed.

use crate::command::CommandSpec;
use crate::command::spec::{Access, Channels as Places};
use crate::glob;
use crate::limits::{CHANNEL_BYTES_MAX, NAME_BYTES_MAX};
use crate::session::acl::rights::Rights;
use crate::session::acl::rule::Why;

/// Commands, keys and channels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    rights: Rights,
    keys: KeyRights,
    channels: Channels,
}

/// The missing right, by the progress of the check: the first is the command itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    Command,
    /// The key at this argument.
    Key(usize),
    /// The channel at this argument.
    Channel(usize),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum KeyRights {
    All,
    Patterns(Vec<KeyPattern>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Channels {
    All,
    Patterns(Vec<Vec<u8>>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct KeyPattern {
    pattern: Vec<u8>,
    need: Need,
}

/// Reading and writing: what a command needs of a key, or what a pattern gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Need {
    read: bool,
    write: bool,
}

impl Need {
    /// The meaning of the flags of Redis's key specifications: `access` reads; `insert`, `delete` and `update` write.
    /// Metadata of a key needs neither, but a pattern that matches it.
    fn of(access: Access) -> Need {
        let words = access.words();
        let writes = |word| matches!(word, &"insert" | &"delete" | &"update");
        Need { read: words.contains(&"access"), write: words.iter().any(writes) }
    }

    fn gives(self, need: Need) -> bool {
        self.read >= need.read && self.write >= need.write
    }
}

impl Selector {
    /// Nothing but, perhaps, all channels: `acl-pubsub-default`.
    pub fn none(all_channels: bool) -> Selector {
        let channels = if all_channels { Channels::All } else { Channels::Patterns(Vec::new()) };
        Selector { rights: Rights::default(), keys: KeyRights::Patterns(Vec::new()), channels }
    }

    /// Everything.
    pub fn all() -> Selector {
        Selector { rights: Rights::all(), keys: KeyRights::All, channels: Channels::All }
    }

    /// Whether nothing is denied.
    pub fn is_all(&self) -> bool {
        self.rights.is_all() && self.keys == KeyRights::All && self.channels == Channels::All
    }

    /// Whether the command may run; `args` begin with its name.
    pub fn check(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> Result<(), Denied> {
        if !self.rights.allows(spec, args) {
            return Err(Denied::Command);
        }
        if let KeyRights::Patterns(patterns) = &self.keys
            && let Some(keys) = spec.find_keys(args)
        {
            for (nth, at) in keys.enumerate() {
                let need = Need::of(spec.access_of(nth));
                if !patterns.iter().any(|pattern| pattern.gives(args[at], need)) {
                    return Err(Denied::Key(at));
                }
            }
        }
        if !self.has_all_channels() {
            let are_patterns = matches!(spec.channels, Places::Patterns { .. });
            for at in spec.find_channels(args) {
                if !self.gives_channel(args[at], are_patterns) {
                    return Err(Denied::Channel(at));
                }
            }
        }
        Ok(())
    }

    /// Whether it gives the command, whatever it does to which queues.
    pub fn allows(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> bool {
        self.rights.allows(spec, args)
    }

    pub fn gives_admin(&self) -> bool {
        self.rights.is_all() || self.rights.have_category("admin")
    }

    /// Globs of the queues that can be read; none if all can.
    pub fn readable(&self) -> Option<impl Iterator<Item = &[u8]>> {
        let KeyRights::Patterns(patterns) = &self.keys else { return None };
        let readable = patterns.iter().filter(|key| key.need.read);
        Some(readable.map(|key| key.pattern.as_slice()))
    }

    pub fn has_all_channels(&self) -> bool {
        self.channels == Channels::All
    }

    /// Whether it gives this channel. A pattern is given by the very same pattern alone: of others it is
    /// not known whether they give all that it matches.
    pub fn gives_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let Channels::Patterns(patterns) = &self.channels else { return true };
        patterns.iter().any(|pattern| match is_pattern {
            true => pattern == name,
            false => name.len() <= CHANNEL_BYTES_MAX && glob::matches(pattern, name),
        })
    }

    /// Applies a rule, in any case: `allkeys`, `~pattern`, `%R~pattern`, `resetkeys`, `allchannels`,
    /// `&pattern`, `resetchannels`, `allcommands`, `nocommands`, and those of [`Rights::apply`].
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), Why> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.keys = KeyRights::All,
            b"resetkeys" => self.keys = KeyRights::Patterns(Vec::new()),
            b"allchannels" | b"&*" => self.channels = Channels::All,
            b"resetchannels" => self.channels = Channels::Patterns(Vec::new()),
            b"allcommands" => self.rights = Rights::all(),
            b"nocommands" => self.rights = Rights::default(),
            _ => return self.apply_pattern(rule),
        }
        Ok(())
    }

    /// The key patterns as rules, parted by blanks.
    pub fn describe_keys(&self) -> Vec<u8> {
        let KeyRights::Patterns(patterns) = &self.keys else { return b"~*".to_vec() };
        let rule = |key: &KeyPattern| {
            let kind: &[u8] = match (key.need.read, key.need.write) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                _ => b"~",
            };
            [kind, key.pattern.as_slice()].concat()
        };
        patterns.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// The channel patterns as rules, parted by blanks.
    pub fn describe_channels(&self) -> Vec<u8> {
        let Channels::Patterns(patterns) = &self.channels else { return b"&*".to_vec() };
        let rule = |pattern: &Vec<u8>| [b"&", pattern.as_slice()].concat();
        patterns.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// The commands as rules, parted by blanks.
    pub fn describe_commands(&self) -> String {
        self.rights.describe()
    }

    /// All of it as rules that make the same of a fresh selector.
    pub fn describe(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        let keys = self.describe_keys();
        if !keys.is_empty() {
            parts.push(keys);
        }
        if self.channels != Channels::All {
            parts.push(b"resetchannels".to_vec());
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            parts.push(channels);
        }
        parts.push(self.describe_commands().into_bytes());
        parts.join(&b' ')
    }

    fn apply_pattern(&mut self, rule: &[u8]) -> Result<(), Why> {
        match rule.first() {
            Some(b'~') => self.add_key(&rule[1..], Need { read: true, write: true }),
            Some(b'%') => {
                let letters = rule[1..].iter().position(|byte| *byte == b'~');
                let letters = &rule[1..letters.map_or(rule.len(), |at| at + 1)];
                let mut need = Need::default();
                for letter in letters {
                    let side = match letter.to_ascii_uppercase() {
                        b'R' => &mut need.read,
                        b'W' => &mut need.write,
                        _ => return Err(Why::Syntax),
                    };
                    if std::mem::replace(side, true) {
                        return Err(Why::Syntax);
                    }
                }
                let pattern = rule.get(letters.len() + 2..).ok_or(Why::Syntax)?;
                if need == Need::default() {
                    return Err(Why::Syntax);
                }
                self.add_key(pattern, need)
            }
            Some(b'&') => {
                let pattern = plain(&rule[1..])?;
                let Channels::Patterns(patterns) = &mut self.channels else {
                    return Err(Why::AllChannels);
                };
                if !patterns.iter().any(|known| known == pattern) {
                    patterns.push(pattern.to_vec());
                }
                Ok(())
            }
            _ => self.rights.apply(std::str::from_utf8(rule).map_err(|_| Why::Unknown)?),
        }
    }

    fn add_key(&mut self, pattern: &[u8], need: Need) -> Result<(), Why> {
        let KeyRights::Patterns(patterns) = &mut self.keys else { return Err(Why::AllKeys) };
        let pattern = plain(pattern)?;
        let given = match patterns.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.need.read |= need.read;
                known.need.write |= need.write;
                known.need
            }
            None => {
                patterns.push(KeyPattern { pattern: pattern.to_vec(), need });
                need
            }
        };
        // As `~*` is read.
        if pattern == b"*" && given.read && given.write {
            self.keys = KeyRights::All;
        }
        Ok(())
    }
}

impl KeyPattern {
    /// A name that is too long for a queue is compared with no pattern, which would take long.
    fn gives(&self, key: &[u8], need: Need) -> bool {
        self.need.gives(need) && key.len() <= NAME_BYTES_MAX && glob::matches(&self.pattern, key)
    }
}

/// Rules are parted by blanks when they are written.
pub(super) fn plain(text: &[u8]) -> Result<&[u8], Why> {
    let parts = |byte: &u8| byte.is_ascii_whitespace() || matches!(*byte, 0 | 0x0b);
    if text.iter().any(parts) { Err(Why::Syntax) } else { Ok(text) }
}
