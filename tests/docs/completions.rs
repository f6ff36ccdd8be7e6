//! What the shells offer behind `delayd`: its tools, its options, and the values they take. An option that has one
//! value only is not offered.

use super::help::{Takes, Tool};
use super::sections::{sections, summary};
use delayd::config::options::Spec;
use delayd::config::value::OptionKind;

/// What stands above each file, behind the shell's mark of a comment.
const MADE: &str =
    "delayd's completions, made from the table of its options; `make docs` writes them anew.";

/// What a shell can offer as a value.
enum Values {
    Words(String),
    Files,
    Folders,
    Unknown,
}

fn values(spec: &Spec) -> Values {
    match spec.kind {
        OptionKind::YesNo => Values::Words("yes no".to_owned()),
        OptionKind::Word(words) | OptionKind::WordOrFolder(words) => Values::Words(words.join(" ")),
        OptionKind::Text if spec.word().ends_with("dir") => Values::Folders,
        OptionKind::Text if spec.word().starts_with("cluster-") => Values::Unknown,
        OptionKind::Text => Values::Files,
        _ => Values::Unknown,
    }
}

fn options() -> impl Iterator<Item = &'static Spec> {
    sections().into_iter().flat_map(|(_, options)| options)
}

/// The words of the tools, or of the options, in a row.
fn row<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

fn names(tools: &[Tool]) -> String {
    row(tools.iter().map(|tool| tool.name.as_str()))
}

/// A tool's options, each with what it takes, if anything, and what it does in one sentence.
fn options_of(tool: &Tool) -> impl Iterator<Item = (&str, Option<&str>, &str)> {
    tool.options.iter().map(|(option, does)| {
        let (word, value) = match option.split_once(' ') {
            Some((word, value)) => (word, Some(value)),
            None => (option.as_str(), None),
        };
        (word, value, does.split([';', ',']).next().expect("there is a first"))
    })
}

/// For bash.
pub fn bash(tools: &[Tool]) -> String {
    let mut text = format!(
        "# {MADE}\n\n_delayd_words() {{\n    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$word\")\n}}\n\n\
         # $1 is -f for files, -d for folders.\n_delayd_paths() {{\n    compopt -o filenames 2>/dev/null\n    \
         mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen \"$1\" -- \"$word\")\n}}\n\n\
         _delayd() {{\n    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}\n    \
         COMPREPLY=()\n    case $((COMP_CWORD > 1)):${{COMP_WORDS[1]}}:$before in\n"
    );
    for tool in tools {
        for (word, _, _) in options_of(tool).filter(|(_, value, _)| value.is_some()) {
            text.push_str(&format!("    1:{}:{word}) ;;\n", tool.name));
        }
        let paths = match tool.takes() {
            Takes::Folders => "; else _delayd_paths -d",
            Takes::Files => "; else _delayd_paths -f",
            Takes::Nothing => "",
        };
        let words = row(options_of(tool).map(|(word, _, _)| word).chain(["--help"]));
        text.push_str(&format!(
            "    1:{}:*) if [[ $word == -* ]]; then _delayd_words \"{words}\"{paths}; fi ;;\n",
            tool.name
        ));
    }
    for spec in options() {
        let offer = match values(spec) {
            Values::Words(words) => format!("_delayd_words \"{words}\" "),
            Values::Files => "_delayd_paths -f ".to_owned(),
            Values::Folders => "_delayd_paths -d ".to_owned(),
            Values::Unknown => String::new(),
        };
        text.push_str(&format!("    *:--{}) {offer};;\n", spec.word()));
    }
    let all: Vec<String> = options().map(|spec| format!("--{}", spec.word())).collect();
    text.push_str(&format!(
        "    1:*) _delayd_words \"{all}\" ;;\n    *)\n        _delayd_words \"{} {all} --help --version\"\n        \
         [[ $word == -* ]] || _delayd_paths -f\n        ;;\n    esac\n}}\ncomplete -F _delayd delayd\n",
        names(tools),
        all = all.join(" "),
    ));
    text
}

/// For zsh.
pub fn zsh(tools: &[Tool]) -> String {
    let argument =
        |word: &str, does: &str, values: &str| format!("'{word}[{}]{values}'", in_zsh(does));
    let joined = |arguments: Vec<String>| arguments.join(" \\\n            ");
    let mut text = format!("#compdef delayd\n# {MADE}\n\n_delayd() {{\n    local -a tools=(\n");
    for tool in tools {
        text.push_str(&format!("        '{}:{}'\n", tool.name, in_zsh(tool.summary())));
    }
    text.push_str(
        "    )\n    local tool=\n    (( CURRENT > 2 )) && tool=$words[2]\n    case $tool in\n",
    );
    for tool in tools {
        let options = options_of(tool).map(|(word, value, does)| {
            let takes = value.map_or_else(String::new, |value| format!(":{value}: "));
            argument(word, does, &takes)
        });
        let first = match tool.takes() {
            Takes::Folders => Some("'2:DIR:_directories'"),
            Takes::Files => Some("'2:FILE:_files'"),
            Takes::Nothing => None,
        };
        let own = ["'--help[print the usage]'"].into_iter().chain(first).map(str::to_owned);
        text.push_str(&format!(
            "    {})\n        _arguments \\\n            {}\n        ;;\n",
            tool.name,
            joined(options.chain(own).collect())
        ));
    }
    let options = options().map(|spec| {
        let takes = in_zsh(&spec.kind.describe());
        let values = match values(spec) {
            Values::Words(words) => format!(":{takes}:({words})"),
            Values::Files => ":file:_files".to_owned(),
            Values::Folders => ":folder:_directories".to_owned(),
            Values::Unknown => format!(":{takes}: "),
        };
        argument(&format!("--{}", spec.word()), &summary(spec), &values)
    });
    let own = ["'--help[print all options]'", "'--version[print the version]'"].map(str::to_owned);
    let first = "'1: :{ _describe command tools; _files }'".to_owned();
    text.push_str(&format!(
        "    *)\n        _arguments \\\n            {}\n        ;;\n    esac\n}}\n\n_delayd \"$@\"\n",
        joined(options.chain(own).chain([first]).collect())
    ));
    text
}

/// A text in single quotes, where brackets and colons have a meaning.
fn in_zsh(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.replace('`', "").chars() {
        match c {
            '\'' => escaped.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// For fish.
pub fn fish(tools: &[Tool]) -> String {
    let names = names(tools);
    let mut text = format!("# {MADE}\n\nset -l server 'not __fish_seen_subcommand_from {names}'\n");
    for tool in tools {
        let (name, does) = (&tool.name, in_fish(tool.summary()));
        text.push_str(&format!("complete -c delayd -n __fish_is_first_arg -a {name} -d {does}\n"));
        let here = format!("complete -c delayd -n '__fish_seen_subcommand_from {name}'");
        for (word, value, does) in options_of(tool) {
            let value = if value.is_some() { " -x" } else { "" };
            let (long, word) = match word.strip_prefix("--") {
                Some(word) => ("-l", word),
                None => ("-s", word.trim_start_matches('-')),
            };
            text.push_str(&format!("{here} {long} {word}{value} -d {}\n", in_fish(does)));
        }
        text.push_str(&match tool.takes() {
            Takes::Folders => format!("{here} -x -a '(__fish_complete_directories)'\n"),
            Takes::Files => format!("{here} -r -F\n"),
            Takes::Nothing => format!("{here} -f\n"),
        });
    }
    for spec in options() {
        let values = match values(spec) {
            Values::Words(words) => format!("-x -a '{words}'"),
            Values::Files => "-r -F".to_owned(),
            Values::Folders => "-x -a '(__fish_complete_directories)'".to_owned(),
            Values::Unknown => "-x".to_owned(),
        };
        let (word, does) = (spec.word(), in_fish(&summary(spec)));
        text.push_str(&format!("complete -c delayd -n $server -l {word} {values} -d {does}\n"));
    }
    text.push_str("complete -c delayd -n $server -l version -d 'print the version'\n");
    text.push_str("complete -c delayd -l help -d 'print the usage'\n");
    text
}

fn in_fish(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
