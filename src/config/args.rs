//! The command line: a configuration file, then options as `--name value ...`, as Redis takes them.

use super::options::OPTIONS;
use super::{Config, file};
use crate::nearest::nearest;
use std::path::{Path, PathBuf};

/// The commands of the program; the server runs without one.
const COMMANDS: [&str; 10] = [
    "backup", "call", "check", "cluster", "console", "demo", "dump", "health", "restore", "spread",
];

/// The request of the command line.
#[derive(Debug)]
pub enum Invocation {
    Run(Box<Config>),
    Help,
    Version,
}

/// The variable that names the file of a command line without one: an image sets it, so that options alone keep its file.
pub const FILE_VARIABLE: &str = "DELAYD_CONFIG";

/// Reads this process's command line: `args` come after the program's name and its command.
pub fn read_here(args: &[String]) -> Result<Invocation, String> {
    let current_dir =
        std::env::current_dir().map_err(|error| format!("no current directory: {error}"))?;
    let file = std::env::var(FILE_VARIABLE).ok().filter(|file| !file.is_empty());
    read(args, &current_dir, file.as_deref())
}

/// Reads a command line that may begin with a file's name; `file` is read if it does not. Options win over the file.
fn read(args: &[String], current_dir: &Path, file: Option<&str>) -> Result<Invocation, String> {
    if args.iter().any(|a| a == "--help" || a == "-h") {
        return Ok(Invocation::Help);
    }
    if args.iter().any(|a| a == "--version" || a == "-v") {
        return Ok(Invocation::Version);
    }
    let mut config = Config::default();
    let mut rest = args;
    if let [first, after @ ..] = args
        && !first.starts_with("--")
    {
        read_file(&mut config, current_dir.join(first)).map_err(|error| {
            match current_dir.join(first).exists() {
                false if is_word(first) => no_command(first),
                _ => error,
            }
        })?;
        rest = after;
    } else if let Some(file) = file {
        read_file(&mut config, current_dir.join(file))
            .map_err(|error| format!("{FILE_VARIABLE}: {error}"))?;
    }
    while let [option, after @ ..] = rest {
        let Some(word) = option.strip_prefix("--") else {
            return Err(format!("expected an option such as --port, got '{option}'"));
        };
        let count = after.iter().take_while(|a| !a.starts_with("--")).count();
        config.set(word, &after[..count]).map_err(|e| format!("command line: {e}"))?;
        rest = &after[count..];
    }
    config.check().map_err(|e| e.to_string())?;
    Ok(Invocation::Run(Box::new(config)))
}

fn read_file(config: &mut Config, path: PathBuf) -> Result<(), String> {
    file::read(config, &path).map_err(|error| error.to_string())?;
    config.file = Some(path);
    Ok(())
}

/// Whether it looks less like a file's name than like a command or an option with one dash.
fn is_word(first: &str) -> bool {
    first.starts_with('-') || !first.contains(['/', '.'])
}

/// Suggestions for a first word that is not a file.
fn no_command(first: &str) -> String {
    let word = first.trim_start_matches('-');
    let options = OPTIONS.iter().flat_map(|spec| spec.words.iter().copied());
    let options = options.chain(["help", "version"]);
    let near = match first.starts_with('-') {
        true => nearest(word, options),
        false => nearest(word, options.chain(COMMANDS)),
    };
    let meant = match near {
        Some(near) if COMMANDS.contains(&near) => format!("; did you mean 'delayd {near}'?"),
        Some(near) => format!("; did you mean --{near}?"),
        None => String::new(),
    };
    match first.starts_with('-') {
        true => format!("unknown option '{first}'{meant}"),
        false => format!(
            "'{first}' is neither a file nor one of the commands {} and {}{} To start the server, give no command: \
             delayd [FILE] [--option value ...]",
            COMMANDS[..COMMANDS.len() - 1].join(", "),
            COMMANDS[COMMANDS.len() - 1],
            if meant.is_empty() { "." } else { &meant }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Name;
    use super::*;

    fn asked(line: &str) -> Result<Invocation, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&args, Path::new("/nonexistent"), None)
    }

    #[test]
    fn options_with_one_and_several_values() {
        let Ok(Invocation::Run(config)) =
            asked("--port 7 --bind 127.0.0.1 ::1 --slowlog-log-slower-than -1")
        else {
            panic!("refused")
        };
        assert_eq!(config.number(Name::Port), 7);
        assert_eq!(config.text(Name::Bind), "127.0.0.1 ::1");
        assert_eq!(config.signed(Name::SlowlogLogSlowerThan), -1);
    }

    #[test]
    fn a_file_of_the_environment_counts_where_the_line_names_none() {
        let dir = std::env::temp_dir().join(format!("delayd-args-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("image.conf"), "port 7\nmaxclients 50\n").unwrap();
        std::fs::write(dir.join("own.conf"), "maxclients 60\n").unwrap();
        let port_and_clients = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let Ok(Invocation::Run(config)) = read(&args, &dir, Some("image.conf")) else {
                panic!("refused: {line}")
            };
            (config.number(Name::Port), config.number(Name::MaxClients), config.file)
        };
        let file = |name: &str| Some(dir.join(name));
        assert_eq!(port_and_clients(""), (7, 50, file("image.conf")));
        assert_eq!(port_and_clients("--port 8"), (8, 50, file("image.conf")));
        let default = Config::default().number(Name::Port);
        assert_eq!(port_and_clients("own.conf"), (default, 60, file("own.conf")));
        let gone = read(&[], &dir, Some("gone.conf")).unwrap_err();
        assert!(gone.starts_with("DELAYD_CONFIG: ") && gone.contains("gone.conf"), "{gone}");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |line| asked(line).unwrap_err();
        assert_eq!(text("--prot 7"), "command line: unknown option 'prot'; did you mean 'port'?");
        assert_eq!(
            text("--port=7"),
            "command line: unknown option 'port=7'; write 'port 7' with a space between"
        );
        assert_eq!(text("--nothing=7"), "command line: unknown option 'nothing=7'");
        assert_eq!(text("-p 7"), "unknown option '-p'; did you mean --port?");
        assert_eq!(text("-x"), "unknown option '-x'");
        let usage = "To start the server, give no command: delayd [FILE] [--option value ...]";
        let none = "is neither a file nor one of the commands backup, call, check, cluster, console, demo, dump, health, restore \
            and spread";
        assert_eq!(text("serve"), format!("'serve' {none}. {usage}"));
        assert_eq!(
            text("chekc /var"),
            format!("'chekc' {none}; did you mean 'delayd check'? {usage}")
        );
        assert_eq!(
            text("clustr found"),
            format!("'clustr' {none}; did you mean 'delayd cluster'? {usage}")
        );
        assert_eq!(text("port 7"), format!("'port' {none}; did you mean --port? {usage}"));
        assert_eq!(text("help"), format!("'help' {none}; did you mean --help? {usage}"));
        assert!(
            text("--port 70000")
                .starts_with("command line: port 70000: argument must be between 0")
        );
        assert!(text("--port 7 -x").contains("one value expected, got 2"));
        assert!(text("--appenddirname a/b").contains("appenddirname a/b: can't be a path"));
        assert!(text("none.conf").starts_with("/nonexistent/none.conf: "));
        assert!(matches!(asked("--version"), Ok(Invocation::Version)));
        assert!(matches!(asked("x.conf --help"), Ok(Invocation::Help)));
    }
}
