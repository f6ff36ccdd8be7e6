//! The argument tree of a command: the position of each argument, and the words of its options. The option reader of
//! [`Args`](crate::command::spec::args::Args) walks it, COMMAND DOCS and the written reference show it.

use crate::command::spec::CommandSpec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, lower case.
    pub name: &'static str,
    pub kind: ArgumentKind,
    /// The word before it; in upper case, read in any.
    pub token: Option<&'static str>,
    /// Limits and default, for the reference.
    pub about: &'static str,
    /// Replaces the name in the syntax line.
    pub display: Option<&'static str>,
    pub optional: bool,
    pub multiple: bool,
    /// The members of a group.
    pub arguments: &'static [Argument],
    /// For a queue: the index of its key specification in the command.
    pub key_spec: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// A queue's name.
    Key,
    Id,
    Bytes,
    Integer,
    /// A duration: `500ms`, `1h30m`.
    Duration,
    /// Deliveries in a span: `5`, `100/1m`.
    Rate,
    /// A duration from now, or an absolute time.
    When,
    /// An absolute time.
    Instant,
    Cron,
    /// A time zone: a name or an offset.
    Zone,
    /// Seconds with decimals, or NOWAIT.
    Timeout,
    Side,
    Token,
    /// A ladder of durations, or `exp:…`.
    Backoff,
    Pattern,
    /// A word by itself: the token.
    Word,
    /// One of its members.
    OneOf,
    /// Its members, one after another.
    Block,
}

impl ArgumentKind {
    /// The type as COMMAND DOCS names it.
    pub fn word(self) -> &'static str {
        match self {
            ArgumentKind::Key => "key",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Timeout => "double",
            ArgumentKind::Pattern => "pattern",
            ArgumentKind::Word => "pure-token",
            ArgumentKind::OneOf => "oneof",
            ArgumentKind::Block => "block",
            ArgumentKind::Id
            | ArgumentKind::Bytes
            | ArgumentKind::Token
            | ArgumentKind::Duration
            | ArgumentKind::Rate
            | ArgumentKind::When
            | ArgumentKind::Backoff
            | ArgumentKind::Side
            | ArgumentKind::Instant
            | ArgumentKind::Cron
            | ArgumentKind::Zone => "string",
        }
    }
}

impl Argument {
    /// An argument that must be there.
    pub const fn new(name: &'static str, kind: ArgumentKind) -> Argument {
        Argument {
            name,
            kind,
            token: None,
            about: "",
            display: None,
            optional: false,
            multiple: false,
            arguments: &[],
            key_spec: 0,
        }
    }

    /// An option without a value.
    pub const fn word(name: &'static str, token: &'static str) -> Argument {
        Argument { token: Some(token), ..Argument::new(name, ArgumentKind::Word) }
    }

    /// An option with a value; optional.
    pub const fn option(token: &'static str, name: &'static str, kind: ArgumentKind) -> Argument {
        Argument { token: Some(token), optional: true, ..Argument::new(name, kind) }
    }

    pub const fn one_of(name: &'static str, arguments: &'static [Argument]) -> Argument {
        Argument { arguments, ..Argument::new(name, ArgumentKind::OneOf) }
    }

    /// `arguments` one after another.
    pub const fn block(name: &'static str, arguments: &'static [Argument]) -> Argument {
        Argument { arguments, ..Argument::new(name, ArgumentKind::Block) }
    }

    /// The same, but can be left out.
    pub const fn optional(self) -> Argument {
        Argument { optional: true, ..self }
    }

    /// The same, but can be repeated.
    pub const fn multiple(self) -> Argument {
        Argument { multiple: true, ..self }
    }

    /// The same, of the second key specification.
    pub const fn second_key(self) -> Argument {
        Argument { key_spec: 1, ..self }
    }

    /// The same, after a word.
    pub const fn after(self, token: &'static str) -> Argument {
        Argument { token: Some(token), ..self }
    }

    /// The same, with limits and default.
    pub const fn about(self, about: &'static str) -> Argument {
        Argument { about, ..self }
    }

    /// The same, shown otherwise.
    pub const fn shown(self, display: &'static str) -> Argument {
        Argument { display: Some(display), ..self }
    }

    /// How many words it takes at least.
    pub fn words_min(&self) -> usize {
        if self.optional { 0 } else { self.words_given() }
    }

    /// How many words it takes at least if it is given. An alternative is given by being chosen.
    fn words_given(&self) -> usize {
        let value = match self.kind {
            ArgumentKind::Word => 0,
            ArgumentKind::OneOf => {
                self.arguments.iter().map(Argument::words_given).min().unwrap_or(0)
            }
            ArgumentKind::Block => self.arguments.iter().map(Argument::words_min).sum(),
            _ => 1,
        };
        usize::from(self.token.is_some()) + value
    }

    /// Whether it always takes the same number of words.
    pub fn is_fixed(&self) -> bool {
        let members_fixed = self.arguments.iter().all(Argument::is_fixed);
        let mut sizes = self.arguments.iter().map(Argument::words_given);
        let first = sizes.next();
        let even = self.kind != ArgumentKind::OneOf || sizes.all(|size| Some(size) == first);
        !self.optional && !self.multiple && members_fixed && even
    }

    /// Appends it as the syntax line shows it: `[ID id]`, `queue [queue ...]`.
    pub fn write_syntax(&self, line: &mut String) {
        let mut bare = String::new();
        self.write_bare(&mut bare);
        let choice = self.kind == ArgumentKind::OneOf && self.token.is_none();
        let body = match (self.multiple, self.token) {
            (true, _) if choice => format!("({bare}) ..."),
            // The token is written once.
            (true, Some(token)) => format!("{bare} [{} ...]", bare[token.len()..].trim_start()),
            (true, None) => format!("{bare} [{bare} ...]"),
            (false, _) if choice && !self.optional => format!("({bare})"),
            (false, _) => bare,
        };
        line.push_str(&if self.optional { format!("[{body}]") } else { body });
    }

    fn write_bare(&self, line: &mut String) {
        if let Some(token) = self.token {
            line.push_str(token);
            if self.kind == ArgumentKind::Word {
                return;
            }
            line.push(' ');
        }
        if self.arguments.is_empty() {
            line.push_str(self.display.unwrap_or(self.name));
            return;
        }
        let choice = self.kind == ArgumentKind::OneOf;
        let parted = choice && self.token.is_some();
        if parted {
            line.push('(');
        }
        for (i, member) in self.arguments.iter().enumerate() {
            if i > 0 {
                line.push_str(if choice { " | " } else { " " });
            }
            // An alternative is optional by being one.
            if choice && !member.multiple {
                member.write_bare(line);
            } else {
                member.write_syntax(line);
            }
        }
        if parted {
            line.push(')');
        }
    }
}

// Which arguments of a command are secret: they are shown nowhere, neither in the slow log nor by
// MONITOR.

const OPTIONS: [&str; 5] = [
    "requirepass", "masterauth", "cluster-secret", "tls-key-file-pass", "tls-client-key-file-pass",
];

/// The replacement for a secret.
pub const REDACTED: &[u8] = b"(redacted)";

/// Whether the argument at `at` is secret; `args` begin with the name.
pub fn is_secret(spec: &CommandSpec, args: &[&[u8]], at: usize) -> bool {
    match spec.name {
        "auth" => at >= 1,
        "acl|setuser" => at >= 2,
        "config|set" => {
            let name = args.get(at.wrapping_sub(1)).copied().unwrap_or_default();
            let secret = |option: &&str| name.eq_ignore_ascii_case(option.as_bytes());
            at >= 3 && at % 2 == 1 && OPTIONS.iter().any(secret)
        }
        // HELLO 3 AUTH user password: both after the first AUTH.
        "hello" => {
            let is_auth = |arg: &&[u8]| arg.eq_ignore_ascii_case(b"auth");
            let auth = args.iter().skip(1).position(is_auth);
            auth.is_some_and(|place| (place + 2..=place + 3).contains(&at))
        }
        _ => false,
    }
}
