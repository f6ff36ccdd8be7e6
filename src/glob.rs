//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that stands for itself.

/// Whether `text` matches `pattern`. Cost: O(pattern × text) at worst; a `*` that fails is tried
/// again one byte later, and only the last one, so that `a*a*a*a*b` does not explode.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when the rest does not match: behind the last star, one byte further.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        let step =
            if t < text.len() && p < pattern.len() { one(&pattern[p..], text[t]) } else { None };
        match step {
            Some(length) => (p, t) = (p + length, t + 1),
            None if p == pattern.len() && t == text.len() => return true,
            None => match retry {
                Some((star, from)) if from < text.len() => {
                    retry = Some((star, from + 1));
                    (p, t) = (star, from + 1);
                }
                _ => return false,
            },
        }
    }
}

/// The length of the pattern's first item if it matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'[' => {
            let (length, held) = class(pattern, byte);
            held.then_some(length)
        }
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

/// The length of a `[…]` item (to the end if it is not closed), and whether it holds `byte`.
fn class(pattern: &[u8], byte: u8) -> (usize, bool) {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = 1 + usize::from(negated);
    let mut held = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            held |= pattern[at + 1] == byte;
            at += 2;
        } else if at + 2 < pattern.len() && pattern[at + 1] == b'-' {
            let (low, high) = (pattern[at].min(pattern[at + 2]), pattern[at].max(pattern[at + 2]));
            held |= (low..=high).contains(&byte);
            at += 3;
        } else {
            held |= pattern[at] == byte;
            at += 1;
        }
    }
    ((at + 1).min(pattern.len()), held != negated)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn matches_as_redis_does() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("order:*:[0-9]", "order:eu:7", true),
            ("order:*:[0-9]", "order:eu:x", false),
            ("h?llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[ab", "a", true),
            ("a\\", "a\\", true),
            ("**a**", "a", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5_000).as_bytes()));
    }
}
