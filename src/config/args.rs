//! The command line: a configuration file, then options as `--name value ...`, as Redis takes them.

use super::options::OPTIONS;
use super::{Config, file};
use crate::nearest::nearest;
use std::path::{Path, PathBuf};

/// The commands of the program; the server runs without one.
const COMMANDS: [&str; 6] = ["backup", "check", "cluster", "console", "dump", "restore"];

/// What the command line asks for.
#[derive(Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub enum Asked {
    Run(Box<Config>),
    Help,
    Version,
}

/// Reads the arguments after the program's name. Options of the command line win over the file.
pub fn read(args: &[String], current_dir: &Path) -> Result<Asked, String> {
    if args.iter().any(|a| a == "--help" || a == "-h") {
        return Ok(Asked::Help);
    }
    if args.iter().any(|a| a == "--version" || a == "-v") {
        return Ok(Asked::Version);
    }
    let mut config = Config::default();
    let mut rest = args;
    if let [first, after @ ..] = args
        && !first.starts_with("--")
    {
        let path: PathBuf = current_dir.join(first);
        file::read(&mut config, &path).map_err(|error| match path.exists() {
            false if is_word(first) => no_command(first),
            _ => error.to_string(),
        })?;
        config.file = Some(path);
        rest = after;
    }
    while let [option, after @ ..] = rest {
        let Some(word) = option.strip_prefix("--") else {
            return Err(format!("'{option}' stands where an option such as --port is expected"));
        };
        let count = after.iter().take_while(|a| !a.starts_with("--")).count();
        config.set(word, &after[..count]).map_err(|e| format!("command line: {e}"))?;
        rest = &after[count..];
    }
    config.check().map_err(|e| e.to_string())?;
    Ok(Asked::Run(Box::new(config)))
}

/// Whether it looks less like a file's name than like a command or an option with one dash.
fn is_word(first: &str) -> bool {
    first.starts_with('-') || !first.contains(['/', '.'])
}

/// What to try instead of a first word that names no file.
fn no_command(first: &str) -> String {
    let word = first.trim_start_matches('-');
    let options = OPTIONS.iter().flat_map(|spec| spec.words.iter().copied());
    let options = options.chain(["help", "version"]);
    let near = match first.starts_with('-') {
        true => nearest(word, options),
        false => nearest(word, options.chain(COMMANDS)),
    };
    let meant = match near {
        Some(near) if COMMANDS.contains(&near) => format!("; was 'delayd {near}' meant?"),
        Some(near) => format!("; was --{near} meant?"),
        None => String::new(),
    };
    match first.starts_with('-') {
        true => format!("unknown option '{first}'{meant}"),
        false => format!(
            "'{first}' is neither a file nor one of the commands {} and {}{} The server starts without a \
             command: delayd [FILE] [--option value ...]",
            COMMANDS[..5].join(", "),
            COMMANDS[5],
            if meant.is_empty() { "." } else { &meant }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Name;
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&args, Path::new("/nonexistent"))
    }

    #[test]
    fn options_with_one_and_several_values() {
        let Ok(Asked::Run(config)) =
            asked("--port 7 --bind 127.0.0.1 ::1 --slowlog-log-slower-than -1")
        else {
            panic!("refused")
        };
        assert_eq!(config.number(Name::Port), 7);
        assert_eq!(config.text(Name::Bind), "127.0.0.1 ::1");
        assert_eq!(config.signed(Name::SlowlogLogSlowerThan), -1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |line| asked(line).unwrap_err();
        assert_eq!(text("--prot 7"), "command line: unknown option 'prot'; was 'port' meant?");
        assert_eq!(
            text("--port=7"),
            "command line: unknown option 'port=7'; 'port 7' has a blank between"
        );
        assert_eq!(text("--nothing=7"), "command line: unknown option 'nothing=7'");
        assert_eq!(text("-p 7"), "unknown option '-p'; was --port meant?");
        assert_eq!(text("-x"), "unknown option '-x'");
        let usage = "The server starts without a command: delayd [FILE] [--option value ...]";
        let none = "is neither a file nor one of the commands backup, check, cluster, console, dump and restore";
        assert_eq!(text("serve"), format!("'serve' {none}. {usage}"));
        assert_eq!(
            text("chekc /var"),
            format!("'chekc' {none}; was 'delayd check' meant? {usage}")
        );
        assert_eq!(
            text("clustr found"),
            format!("'clustr' {none}; was 'delayd cluster' meant? {usage}")
        );
        assert_eq!(text("port 7"), format!("'port' {none}; was --port meant? {usage}"));
        assert_eq!(text("help"), format!("'help' {none}; was --help meant? {usage}"));
        assert!(
            text("--port 70000")
                .starts_with("command line: port 70000: argument must be between 0")
        );
        assert!(text("--port 7 -x").contains("one value expected, got 2"));
        assert!(text("--appenddirname a/b").contains("appenddirname a/b: can't be a path"));
        assert!(text("none.conf").starts_with("/nonexistent/none.conf: "));
        assert!(matches!(asked("--version"), Ok(Asked::Version)));
        assert!(matches!(asked("x.conf --help"), Ok(Asked::Help)));
    }
}
