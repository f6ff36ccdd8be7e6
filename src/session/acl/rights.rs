//! Which commands: a bit for each, and the words that made them so.

use crate::command::spec::{CATEGORIES, CommandSpec, Flag};
use crate::command::table;
use crate::session::acl::rule::Why;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// Words of the set of bits; there are far fewer commands.
const WORDS: usize = 8;

/// All commands and subcommands, numbered, by where their rows of the table stand in memory.
static NUMBERS: LazyLock<HashMap<usize, usize, ahash::RandomState>> = LazyLock::new(|| {
    // Its keys are no client's, so the seeds need not be secret.
    let mut numbers = HashMap::with_hasher(ahash::RandomState::with_seeds(1, 2, 3, 4));
    for (number, spec) in table::all_with_subcommands().enumerate() {
        numbers.insert(std::ptr::from_ref(spec).addr(), number);
    }
    assert!(numbers.len() <= WORDS * 64, "there are more commands than bits");
    numbers
});

/// The commands that a selector allows.
///
/// Rules apply in the order in which they are given, so the order is kept, except for a rule that a
/// later one makes void: `+get -get` is `-get`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rights {
    bits: [u64; WORDS],
    /// The last of `+@all` and `-@all`; the bits began from it.
    all: bool,
    /// The rules since, lower case.
    rules: Vec<String>,
    /// First arguments that are allowed although their command is not, by its number.
    first_words: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Default for Rights {
    /// No command.
    fn default() -> Rights {
        Rights { bits: [0; WORDS], all: false, rules: Vec::new(), first_words: BTreeMap::new() }
    }
}

impl Rights {
    /// Every command.
    pub fn all() -> Rights {
        Rights { bits: [u64::MAX; WORDS], all: true, ..Rights::default() }
    }

    /// Whether every command is allowed.
    pub fn is_all(&self) -> bool {
        self.all && self.bits == [u64::MAX; WORDS]
    }

    /// Whether `spec` may be called with `args`, which begin with its name. The commands for logging in (AUTH, HELLO,
    /// QUIT, RESET) are always allowed. Costs a look-up and a test of a bit.
    pub fn allows(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> bool {
        let number = number_of(spec);
        if self.has(number) || spec.has(Flag::NoAuth) {
            return true;
        }
        let Some(words) = self.first_words.get(&number) else { return false };
        args.get(1).is_some_and(|first| words.iter().any(|word| word.eq_ignore_ascii_case(first)))
    }

    /// Whether every command of a category is allowed.
    pub fn have_category(&self, category: &str) -> bool {
        let mut specs =
            table::all_with_subcommands().filter(|spec| spec.all_categories().contains(&category));
        specs.all(|spec| self.has(number_of(spec)))
    }

    /// Applies a rule: `+cmd`, `-cmd`, `+cmd|sub`, `-cmd|sub`, `+cmd|first-argument`, `+@category`,
    /// `-@category`. Not one of these: a syntax error.
    pub fn apply(&mut self, rule: &str) -> Result<(), Why> {
        let (allow, name) = match rule.split_at_checked(1) {
            Some(("+", name)) => (true, name.to_ascii_lowercase()),
            Some(("-", name)) => (false, name.to_ascii_lowercase()),
            _ => return Err(Why::Syntax),
        };
        if name == "@all" {
            *self = if allow { Rights::all() } else { Rights::default() };
            return Ok(());
        }
        if let Some(category) = name.strip_prefix('@') {
            if !CATEGORIES.contains(&category) {
                return Err(Why::Unknown);
            }
            for spec in table::all_with_subcommands() {
                if spec.all_categories().contains(&category) {
                    self.set(spec, allow);
                }
            }
        } else if let Some(spec) = table::find(name.as_bytes()) {
            self.set(spec, allow);
            spec.subcommands.iter().for_each(|spec| self.set(spec, allow));
        } else {
            self.allow_first_word(&name, allow)?;
        }
        self.note(&name, allow);
        Ok(())
    }

    /// The rules, beginning with `+@all` or `-@all`: applied in this order to a fresh selector they
    /// give the same again.
    pub fn describe(&self) -> String {
        let mut text = String::from(if self.all { "+@all" } else { "-@all" });
        for rule in &self.rules {
            text.push(' ');
            text.push_str(rule);
        }
        text
    }

    /// `+select|0` for a command without subcommands.
    fn allow_first_word(&mut self, name: &str, allow: bool) -> Result<(), Why> {
        let (command, word) = name.rsplit_once('|').ok_or(Why::Unknown)?;
        let spec = table::find(command.as_bytes()).filter(|_| allow).ok_or(Why::Unknown)?;
        if spec.is_subcommand() {
            return Err(Why::FirstWordOfSubcommand);
        }
        if word.is_empty() {
            return Err(Why::Syntax);
        }
        if !spec.subcommands.is_empty() {
            return Err(Why::Unknown);
        }
        let words = self.first_words.entry(number_of(spec)).or_default();
        if !words.iter().any(|known| known == word.as_bytes()) {
            words.push(word.as_bytes().to_vec());
        }
        Ok(())
    }

    fn has(&self, number: usize) -> bool {
        self.bits[number / 64] & (1 << (number % 64)) != 0
    }

    fn set(&mut self, spec: &'static CommandSpec, allow: bool) {
        let number = number_of(spec);
        let bit = 1 << (number % 64);
        match allow {
            true => self.bits[number / 64] |= bit,
            false => self.bits[number / 64] &= !bit,
        }
        self.first_words.remove(&number);
    }

    /// Adds the rule to those that are kept; the same one and those of its subcommands leave.
    fn note(&mut self, name: &str, allow: bool) {
        let is_void = |rule: &String| match rule[1..].strip_prefix(name) {
            Some(rest) => rest.is_empty() || rest.starts_with('|'),
            None => false,
        };
        self.rules.retain(|rule| !is_void(rule));
        self.rules.push(format!("{}{name}", if allow { '+' } else { '-' }));
    }
}

fn number_of(spec: &'static CommandSpec) -> usize {
    *NUMBERS.get(&std::ptr::from_ref(spec).addr()).expect("every spec is a row of the table")
}
