//! The command line: a configuration file, then options as `--name value ...`, as Redis takes them.

use super::{Config, file};
use std::path::{Path, PathBuf};

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// Run with these options.
    Run(Box<Config>),
    /// Print the usage.
    Help,
    /// Print the version.
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
        file::read(&mut config, &path).map_err(|e| e.to_string())?;
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
        assert_eq!(text("--prot 7"), "command line: unknown option 'prot'");
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
