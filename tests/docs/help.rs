//! What `--help` prints, taken apart: the program's calls and its tools.

use std::process::Command;

/// A tool such as `delayd check`.
#[derive(Debug, Default)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// How it is called.
    pub usage: String,
    /// What it does.
    pub paragraphs: Vec<String>,
    /// Its options, with what they take, and what they do.
    pub options: Vec<(String, String)>,
    /// Its exit codes and what they mean.
    pub exits: Vec<(String, String)>,
}

/// What a tool's first word names, that a shell can offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    Folders,
    Files,
    Nothing,
}

impl Tool {
    /// What stands first behind it, but for options.
    pub fn takes(&self) -> Takes {
        match &self.usage {
            usage if usage.contains(" [FILE]") => Takes::Files,
            usage if usage.contains(" DIR") => Takes::Folders,
            _ => Takes::Nothing,
        }
    }

    /// What it does, in one sentence.
    pub fn summary(&self) -> &str {
        self.paragraphs[0].split('.').next().expect("there is a first")
    }
}

/// All ways to call the program, and its tools.
pub fn calls() -> (Vec<String>, Vec<Tool>) {
    let help = printed(&["--help"]);
    let usage =
        help.lines().map_while(|line| line.strip_prefix("Usage:").or(line.strip_prefix("       ")));
    let usage: Vec<String> = usage.map(|line| line.trim().to_owned()).collect();
    let tool = |line: &String| {
        let name =
            line.split(' ').nth(1).filter(|word| word.bytes().all(|b| b.is_ascii_lowercase()))?;
        Some(tool(name))
    };
    let tools = usage.iter().filter_map(tool).collect();
    (usage, tools)
}

fn printed(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_delayd")).args(args).output().expect("it runs");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn tool(name: &str) -> Tool {
    let help = printed(&[name, "--help"]);
    let (usage, rest) = help.split_once('\n').expect("a first line");
    let usage = usage.strip_prefix("Usage: ").expect("how it is called").to_owned();
    let mut tool = Tool { name: name.to_owned(), usage, ..Tool::default() };
    for block in rest.split("\n\n") {
        match block.trim_start().split_once(|c: char| c.is_whitespace()) {
            Some(("Exit", _)) => tool.exits = items(block),
            Some((option, _)) if option.starts_with('-') => tool.options = items(block),
            _ => tool.paragraphs.push(block.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
    assert!(
        !tool.options.is_empty() && !tool.exits.is_empty() && !tool.paragraphs.is_empty(),
        "{tool:?}"
    );
    tool
}

/// Lines `  name   text`, each with the indented lines that go on with its text.
fn items(block: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in block.lines().filter(|line| line.starts_with(' ')) {
        let text = line.trim_start();
        match text.split_once("  ").filter(|_| line.len() - text.len() < 4) {
            Some((name, text)) => found.push((name.to_owned(), text.trim_start().to_owned())),
            None => {
                let last = &mut found.last_mut().expect("a line to go on with").1;
                *last = format!("{last} {text}");
            }
        }
    }
    found
}
