//! How often each class of error was answered.

use crate::limits::{ERROR_CLASS_BYTES_MAX, ERROR_CLASSES_MAX};
use std::collections::BTreeMap;

/// Error replies by the first word of their text.
#[derive(Clone, Debug, Default)]
pub struct ErrorCounts {
    by_class: BTreeMap<String, u64>,
    total: u64,
}

impl ErrorCounts {
    /// Counts an error reply by its text.
    pub fn count(&mut self, text: &str) {
        self.total += 1;
        let class = text.split(' ').next().unwrap_or_default();
        let own = !class.is_empty()
            && class.len() <= ERROR_CLASS_BYTES_MAX
            && class.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let class = if own { class } else { "ERR" };
        if let Some(count) = self.by_class.get_mut(class) {
            *count += 1;
        } else if self.by_class.len() < ERROR_CLASSES_MAX {
            self.by_class.insert(class.to_owned(), 1);
        }
    }

    /// All error replies.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Classes with their counts, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_class.iter().map(|(class, count)| (class.as_str(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_the_first_word() {
        let mut errors = ErrorCounts::default();
        for text in ["ERR a", "OOM b", "ERR c", "no class", ""] {
            errors.count(text);
        }
        assert_eq!(errors.iter().collect::<Vec<_>>(), [("ERR", 4), ("OOM", 1)]);
        assert_eq!(errors.total(), 5);
    }
}
