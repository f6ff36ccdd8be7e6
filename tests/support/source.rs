//! The crate's own source, for tests of what it says.

use std::fs;
use std::path::{Path, PathBuf};

/// All Rust files below a folder of the crate: their names from the crate's root, and their text.
pub fn source(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = |path: &Path| path.strip_prefix(root).expect("below it").display().to_string();
    let read = |path: &Path| fs::read_to_string(path).expect("UTF-8");
    files(&root.join(folder)).iter().map(|path| (name(path), read(path))).collect()
}

/// The part of a file before its tests, without comments.
pub fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |code, line| code + line + "\n")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
