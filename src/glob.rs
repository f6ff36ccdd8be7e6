//! Patterns as KEYS, SCAN and CONFIG GET take them: `*`, `?`, `[a-z]`, `[^a]`, `\` before a byte
//! that means itself.

/// Whether all of `text` matches `pattern`. Byte by byte; a missing `]` ends the set at the end.
///
/// Time is at most O(pattern + text × the longest piece between two stars): after a mismatch only the last `*` takes
/// one byte more, because the last one can take everything that an earlier one could, and the part after the last star
/// is compared with the text's end.
///
/// ```
/// use delayd::glob::matches;
/// assert!(matches(b"order:*", b"order:7"));
/// assert!(matches(b"h[^x-z]llo", b"hello"));
/// assert!(!matches(b"h?llo", b"hllo"));
/// ```
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    compare(pattern, text, |byte| byte, &mut 0)
}

/// As [`matches`]; adds to `steps` how many bytes were compared, about a ns each.
pub fn matches_counted(pattern: &[u8], text: &[u8], steps: &mut u64) -> bool {
    compare(pattern, text, |byte| byte, steps)
}

/// As [`matches`], upper and lower case being the same.
pub fn matches_any_case(pattern: &[u8], text: &[u8]) -> bool {
    compare(pattern, text, |byte| byte.to_ascii_lowercase(), &mut 0)
}

fn compare(pattern: &[u8], text: &[u8], fold: fn(u8) -> u8, steps: &mut u64) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to continue after a mismatch: after the last star, with one byte more taken by it.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            if let Some(elements) = last_elements(&pattern[p..], fold) {
                // The part after the last star matches the text's end, element by element.
                *steps += (pattern.len() - p) as u64;
                let Some(start) = text.len().checked_sub(elements).filter(|start| *start >= t)
                else {
                    return false;
                };
                (t, retry) = (start, None);
            }
            continue;
        }
        let step = match text.get(t) {
            Some(byte) => one(&pattern[p..], *byte, fold, steps),
            None if p == pattern.len() => return true,
            None => return false,
        };
        match (step, retry) {
            (Some(len), _) => {
                p += len;
                t += 1;
            }
            (None, Some((behind, taken))) => {
                retry = Some((behind, taken + 1));
                (p, t) = (behind, taken + 1);
            }
            (None, None) => return false,
        }
    }
}

/// Bytes that are compared at the most with a text of `text_bytes`.
pub fn cost(pattern: &[u8], text_bytes: usize) -> usize {
    let mut pieces = pattern;
    let (mut longest, mut first) = (0, true);
    loop {
        let (_, bytes) = piece(pieces, |byte| byte);
        if bytes == pieces.len() {
            break;
        }
        longest = if first { 0 } else { longest.max(bytes) };
        first = false;
        pieces = &pieces[bytes + 1..];
    }
    2 * pattern.len() + longest * text_bytes
}

fn last_elements(pattern: &[u8], fold: fn(u8) -> u8) -> Option<usize> {
    let (elements, bytes) = piece(pattern, fold);
    (bytes == pattern.len()).then_some(elements)
}

/// How many elements, and bytes, stand before the first star, or in all of a pattern.
fn piece(pattern: &[u8], fold: fn(u8) -> u8) -> (usize, usize) {
    let (mut elements, mut bytes) = (0, 0);
    while bytes < pattern.len() {
        bytes += match pattern[bytes..] {
            [b'*', ..] => break,
            [b'[', ref rest @ ..] => 1 + set(rest, 0, fold).1.min(rest.len()),
            [b'\\', _, ..] => 2,
            _ => 1,
        };
        elements += 1;
    }
    (elements, bytes)
}

/// Whether the pattern's first element matches `byte`: its length if so.
fn one(pattern: &[u8], byte: u8, fold: fn(u8) -> u8, steps: &mut u64) -> Option<usize> {
    *steps += 1;
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref rest @ ..] => {
            let (inside, len) = set(rest, byte, fold);
            *steps += len as u64;
            inside.then_some(len + 1)
        }
        [b'\\', escaped, ..] => (fold(escaped) == fold(byte)).then_some(2),
        [plain, ..] => (fold(plain) == fold(byte)).then_some(1),
    }
}

/// Whether a set, begun after its `[`, contains `byte`, and its length up to and including the `]`.
fn set(pattern: &[u8], byte: u8, fold: fn(u8) -> u8) -> (bool, usize) {
    let negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match pattern[at.min(pattern.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= fold(escaped) == fold(byte);
                at += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (low.min(high), low.max(high));
                found |= (fold(low)..=fold(high)).contains(&fold(byte));
                at += 3;
            }
            [plain, ..] => {
                found |= fold(plain) == fold(byte);
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, want) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbb", false),
            ("*a*b*", "xxaxxbxx", true),
            ("?", "", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("[\\]]", "]", true),
            ("[abc", "c", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("A*", "abc", false),
            ("[", "[", false),
            ("[]", "]", false),
            ("*[", "[", false),
            ("*\\", "a\\", true),
            ("*\\*", "a*", true),
            ("*[a-c]?", "xxby", true),
            ("ab*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("a*b[*]c", "axb*c", true),
            ("*aab*b", "aaabab", true),
            ("*aab*b", "aaabaa", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), want, "{pattern} {text}");
        }
        assert!(matches_any_case(b"MAX*[A-Z]", b"maxmemory"));
    }

    /// The bound holds, and is within a small factor of the cost of the worst texts.
    #[test]
    fn no_text_costs_more_than_the_bound() {
        let long = "a".repeat(500);
        let set = format!("[{}]", "b".repeat(500));
        for (pattern, text, share) in [
            (format!("*{long}b*"), "a".repeat(1_000), 2),
            (format!("*{long}b"), "a".repeat(1_000), 4),
            (format!("*{set}c"), "a".repeat(1_000), 4),
            (format!("*{set}c*"), "a".repeat(1_000), 2),
            (format!("{long}b"), "a".repeat(1_000), 4),
            ("a*".repeat(200) + "b", "a".repeat(1_000), 8),
            (format!("x*{long}b*c{long}*"), "x".to_owned() + &long.repeat(2), 4),
        ] {
            let mut steps = 0;
            matches_counted(pattern.as_bytes(), text.as_bytes(), &mut steps);
            let cost = cost(pattern.as_bytes(), text.len()) as u64;
            assert!(steps <= cost + 2 * text.len() as u64, "{steps} of {cost}: {pattern}");
            assert!(steps >= cost / share / 2, "{steps} of {cost}: {pattern}");
        }
    }

    /// Many stars against a long text: a pattern of a client must not hold the turn up.
    #[test]
    fn many_stars_stay_polynomial() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(20_000).as_bytes()));
    }
}
