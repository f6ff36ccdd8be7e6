//! `tests/README.md` names all that is in `tests/`, and nothing that is not there.

use std::collections::BTreeSet;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Paths of the page, as they are in backticks.
fn named(page: &str) -> BTreeSet<String> {
    let quoted = page.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    let is_path = |word: &&str| word.starts_with("tests/") || word.starts_with("src/");
    quoted.filter(is_path).map(|word| word.trim_end_matches('/').to_owned()).collect()
}

/// Programs and folders.
fn there() -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("tests")).expect("tests/ is there");
    let entries = entries.map(|entry| entry.expect("it can be listed").path());
    let is_one = |path: &std::path::PathBuf| {
        path.is_dir() || path.extension().is_some_and(|end| end == "rs")
    };
    let name = |path: std::path::PathBuf| {
        format!("tests/{}", path.file_name().expect("a name").to_string_lossy())
    };
    entries.filter(is_one).map(name).collect()
}

#[test]
fn each_program_and_folder_of_the_tests_is_named_and_each_that_is_named_is_there() {
    let page = std::fs::read_to_string(root().join("tests/README.md")).expect("tests/README.md");
    let (named, there) = (named(&page), there());
    assert!(there.len() > 15, "{there:?}");
    let missing: Vec<_> = there.difference(&named).collect();
    assert!(missing.is_empty(), "tests/README.md does not name {missing:?}");
    let gone: Vec<_> = named.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(gone.is_empty(), "tests/README.md names {gone:?}, which is not there");
    let lines = page.lines().count();
    assert!(lines <= 120, "tests/README.md has {lines} lines; it is for the first five minutes");
}

/// Of each program the folders that the page says it has.
#[test]
fn folders_are_those_of_the_program_that_the_page_names() {
    let page = std::fs::read_to_string(root().join("tests/README.md")).expect("tests/README.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `tests/")?.split_once("/` | "));
    let mut seen = 0;
    for (folder, rest) in rows {
        let program = rest.split(' ').next().expect("a word");
        let Ok(text) = std::fs::read_to_string(root().join(format!("tests/{program}.rs"))) else {
            continue;
        };
        assert!(text.contains(&format!("mod {folder};")), "{folder} is not in tests/{program}.rs");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}
