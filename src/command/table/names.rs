//! Commands under other names, or under none: `rename-command`.

use crate::command::spec::CommandSpec;
use crate::command::table;
use crate::error::Error;
use smallvec::SmallVec;
use std::collections::HashMap;

/// What differs from the table. Errors and help still tell a command's own name, and so do rules of
/// users.
#[derive(Debug, Default)]
pub struct Names {
    /// By name in lower case. None: the command has another name now, or none.
    by_name: HashMap<Vec<u8>, Option<&'static CommandSpec>>,
}

impl Names {
    /// Old and new names in the order of the file; an empty new one hides the command.
    ///
    /// # Errors
    /// There is no command of the old name, or there is one of the new name.
    pub fn new(renames: &[(String, String)]) -> Result<Names, String> {
        let mut names = Names::default();
        for (old, new) in renames {
            let wrong = |why: &str| format!("rename-command {old} {new}: {why}");
            let spec = names.find(old.as_bytes()).filter(|spec| !spec.is_subcommand());
            let spec = spec.ok_or_else(|| wrong("No such command in rename-command"))?;
            names.by_name.insert(old.to_ascii_lowercase().into(), None);
            if new.is_empty() {
                continue;
            }
            if names.find(new.as_bytes()).is_some() {
                return Err(wrong("Target command name already exists"));
            }
            names.by_name.insert(new.to_ascii_lowercase().into(), Some(spec));
        }
        Ok(names)
    }

    /// As [`table::find`].
    pub fn find(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        let end = name.iter().position(|byte| *byte == b'|').unwrap_or(name.len());
        match self.by_name.get(&name[..end].to_ascii_lowercase()) {
            Some(spec) => table::find(&[(*spec)?.name.as_bytes(), &name[end..]].concat()),
            None => table::find(name),
        }
    }

    /// As [`table::resolve`].
    pub fn resolve(&self, args: &[&[u8]]) -> Result<&'static CommandSpec, Error> {
        let name = args.first().copied().unwrap_or_default();
        match self.by_name.get(&name.to_ascii_lowercase()) {
            None => table::resolve(args),
            Some(None) => Err(table::unknown(args)),
            Some(Some(spec)) => {
                let mut args: SmallVec<[&[u8]; 16]> = args.into();
                args[0] = spec.name.as_bytes();
                table::resolve(&args)
            }
        }
    }

    /// Whether a command has the name that the table gives it. The others are not listed: who was told
    /// another name knows it.
    pub fn lists(&self, spec: &CommandSpec) -> bool {
        let name = spec.name.split('|').next().unwrap_or_default();
        !self.by_name.contains_key(name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pairs: &[(&str, &str)]) -> Result<Names, String> {
        let own = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
        Names::new(&pairs.iter().map(own).collect::<Vec<_>>())
    }

    fn resolved(names: &Names, line: &str) -> Result<&'static str, String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        names.resolve(&args).map(|spec| spec.name).map_err(|error| error.to_string())
    }

    #[test]
    fn commands_are_found_under_their_new_names_alone() {
        let names = names(&[("CONFIG", "cfg77"), ("flushall", ""), ("ping", "CONFIG")]).unwrap();
        assert_eq!(resolved(&names, "CFG77 GET x"), Ok("config|get"));
        assert_eq!(resolved(&names, "config"), Ok("ping"));
        assert_eq!(resolved(&names, "ECHO x"), Ok("echo"));
        for gone in ["PING", "FlushAll"] {
            let text = resolved(&names, gone).unwrap_err();
            assert_eq!(text, format!("ERR unknown command '{gone}', with args beginning with: "));
        }
        assert_eq!(names.find(b"cfg77|get").map(|spec| spec.name), Some("config|get"));
        assert!(names.find(b"flushall").is_none());
        let listed: Vec<&str> = ["config", "config|get", "flushall", "ping", "echo"]
            .into_iter()
            .filter(|name| names.lists(table::find(name.as_bytes()).unwrap()))
            .collect();
        assert_eq!(listed, ["echo"]);
    }

    #[test]
    fn names_that_are_wrong() {
        let why = |pairs: &[(&str, &str)]| names(pairs).unwrap_err();
        let none = "No such command in rename-command";
        assert_eq!(why(&[("nosuch", "x")]), format!("rename-command nosuch x: {none}"));
        assert_eq!(why(&[("config|get", "x")]), format!("rename-command config|get x: {none}"));
        assert_eq!(
            why(&[("config", "PING")]),
            "rename-command config PING: Target command name already exists"
        );
        assert_eq!(why(&[("ping", ""), ("ping", "")]), format!("rename-command ping : {none}"));
    }
}
