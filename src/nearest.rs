//! Suggestions for mistyped words.

/// Longer words are none of ours, bytes; comparing costs the square.
const BYTES_MAX: usize = 48;

/// The candidate that `word` was probably meant to be, in any case: one that a slip or two makes of it, else
/// the shortest one that it begins. None if they are all far away.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.is_empty() || word.len() > BYTES_MAX {
        return None;
    }
    let word: Vec<char> = word.to_lowercase().chars().collect();
    let slips_max = (word.len() / 3).clamp(1, 3);
    let fit = |candidate: &'c str| {
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        let slips = slips(&word, &letters);
        let rank = match letters.starts_with(&word) {
            _ if slips <= slips_max => slips,
            true => slips_max + letters.len(),
            false => return None,
        };
        Some((rank, candidate))
    };
    let fitting = candidates.into_iter().filter_map(fit);
    fitting.min_by_key(|(rank, _)| *rank).map(|(_, candidate)| candidate)
}

/// How many letters must be put in, left out, replaced or swapped with the next to make `b` of `a`.
fn slips(a: &[char], b: &[char]) -> usize {
    let mut last: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut new = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let other = usize::from(a[i - 1] != b[j - 1]);
            new[j] = (row[j] + 1).min(new[j - 1] + 1).min(row[j - 1] + other);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                new[j] = new[j].min(last[j - 2] + 1);
            }
        }
        last = std::mem::replace(&mut row, new);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_or_a_beginning_is_understood() {
        let words = ["port", "protected-mode", "proto-max-bulk-len", "dir", "appendfsync", "bind"];
        for (word, meant) in [
            ("prot", Some("port")),
            ("PORT", Some("port")),
            ("p", Some("port")),
            ("protec", Some("protected-mode")),
            ("bnid", Some("bind")),
            ("dirr", Some("dir")),
            ("appendsync", Some("appendfsync")),
            ("serve", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, words), meant, "{word}");
        }
        assert_eq!(nearest(&"p".repeat(1 << 20), words), None);
    }

    #[test]
    fn slips_are_counted() {
        let count = |a: &str, b: &str| {
            slips(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        for (a, b, slips) in [
            ("", "", 0),
            ("ab", "ab", 0),
            ("ab", "ba", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((count(a, b), count(b, a)), (slips, slips), "{a} {b}");
        }
    }
}
