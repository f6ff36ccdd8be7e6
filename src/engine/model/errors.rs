//! Why deliveries fail, counted by text: two texts count as one if they differ only in numbers, ids, addresses and
//! quoted words.

use smallvec::SmallVec;

use crate::limits::ERROR_KIND_BYTES_MAX;
use crate::time::Millis;

/// Under which a job counts that was given back, or died so, without a text.
pub const NO_TEXT: &[u8] = b"no error text";
/// ... whose lease ran out.
pub const TIMED_OUT: &[u8] = b"lease timed out";
/// ... whose lease was bound to a connection that closed.
pub const CONNECTION_LOST: &[u8] = b"connection closed";

/// A text with `#` for what differs from job to job, at most [`ERROR_KIND_BYTES_MAX`] bytes.
pub type ErrorKindText = SmallVec<[u8; ERROR_KIND_BYTES_MAX]>;

/// How often deliveries failed with texts of a kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ErrorCount<'a> {
    /// None for all those that are not listed.
    pub text: Option<&'a [u8]>,
    /// Deliveries that failed so.
    pub count: u64,
    /// Jobs that are dead because of it.
    pub dead: u64,
    /// When a delivery failed so first.
    pub first: Millis,
    /// And last.
    pub last: Millis,
    /// The id of the job that failed last, unless it is long.
    pub sample: Option<&'a [u8]>,
}

/// What stays of an error's text:
///
/// ```text
/// timeout after 1500ms on 10.0.0.7:5432          timeout after #ms on #
/// order 4711 of bob@example.org: no "red shoe"    order # of #: no "#"
/// 550e8400-e29b-41d4-a716-446655440000 is gone    # is gone
/// ```
///
/// Cost: one pass, until the kind is full; 0.3 µs for a line.
pub fn kind_of(text: &[u8]) -> ErrorKindText {
    let (mut kind, mut at) = (ErrorKindText::new(), 0);
    while at < text.len() && kind.len() < ERROR_KIND_BYTES_MAX {
        let room = ERROR_KIND_BYTES_MAX - kind.len();
        let plain = if kind.ends_with(b"#-") { 0 } else { plain_bytes(&text[at..], room) };
        kind.extend_from_slice(&text[at..at + plain]);
        at += plain;
        at += match text.get(at).filter(|_| plain < room) {
            None => 0,
            Some(byte) if is_of_word(*byte) => push_word(&mut kind, &text[at..]),
            Some(quote @ (b'"' | b'\'' | b'`')) => push_quoted(&mut kind, *quote, text, at),
            Some(b'@') => push_address(&mut kind, &text[at..]),
            Some(byte) if is_space(*byte) => {
                if kind.last().is_some_and(|last| *last != b' ') {
                    kind.push(b' ');
                }
                1
            }
            Some(byte) => {
                kind.push(*byte);
                1
            }
        };
    }
    cut(&mut kind);
    if kind.is_empty() { ErrorKindText::from_slice(NO_TEXT) } else { kind }
}

/// How many of a text's first bytes, up to `max`, stay as they are: words of letters and what stands between them, up to
/// the word that needs a closer look.
fn plain_bytes(text: &[u8], max: usize) -> usize {
    let mut before = b' ';
    let mut is_plain = |byte: &u8| {
        let spaces = *byte == b' ' && before == b' ';
        before = *byte;
        PLAIN[usize::from(*byte)] && !spaces
    };
    let near = &text[..max.min(text.len())];
    let end = near.iter().position(|byte| !is_plain(byte)).unwrap_or(near.len());
    if end == text.len() {
        return end;
    }
    near[..end].iter().rposition(|byte| !is_of_word(*byte)).map_or(0, |at| at + 1)
}

/// What may be between the numbers of a date, a time, an address or a list.
const WITHIN_VALUES: &[u8] = b"-.:/,+";

/// The bytes that mean nothing, wherever they stand.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < plain.len() {
        let own = byte as u8;
        let means = matches!(own, b'0'..=b'9' | b'"' | b'\'' | b'`' | b'@' | b'-');
        plain[byte] = !means && (own == b' ' || !is_space(own));
        byte += 1;
    }
    plain
};

/// At most the bytes that are allowed, no half character and no space at the end.
fn cut(kind: &mut ErrorKindText) {
    if kind.len() > ERROR_KIND_BYTES_MAX {
        let end = end_of_character(kind, ERROR_KIND_BYTES_MAX);
        kind.truncate(end.unwrap_or(ERROR_KIND_BYTES_MAX - 3));
    }
    while kind.last() == Some(&b' ') {
        kind.pop();
    }
}

/// Where the last whole character of a longer text ends that ends at `at` or up to three bytes before it: a character has
/// four bytes at most. None in what is not UTF-8.
pub(super) fn end_of_character(text: &[u8], at: usize) -> Option<usize> {
    (at - 3..=at).rev().find(|end| text[*end] & 0xc0 != 0x80)
}

const fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control()
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The word that a text begins with; returns its length.
fn push_word(kind: &mut ErrorKindText, text: &[u8]) -> usize {
    let len = text.iter().position(|byte| !is_of_word(*byte)).unwrap_or(text.len());
    let (word, after) = (&text[..len], text.get(len));
    let is_hex = || word.iter().all(u8::is_ascii_hexdigit);
    // A part of a UUID may have letters only: 8 before the first dash, 4 or 12 after one.
    if (len == 8 && after == Some(&b'-') || kind.ends_with(b"#-")) && is_hex() {
        push_value(kind);
        return len;
    }
    let Some(begin) = word.iter().position(u8::is_ascii_digit) else {
        kind.extend_from_slice(word);
        return len;
    };
    let end = word.iter().rposition(u8::is_ascii_digit).map_or(len, |last| last + 1);
    let is_number = word[begin..end].iter().all(u8::is_ascii_digit);
    // Ids of other alphabets have letters and digits by turns, or are long.
    if !is_number || len >= 16 || word.starts_with(b"0x") || is_hex() {
        push_value(kind);
        // A kind that is full with the next byte ends with that, and not with what that would be joined to.
        let has_room = kind.len() + 1 < ERROR_KIND_BYTES_MAX;
        return if has_room { len + numbers_after(&text[len..]) } else { len };
    }
    kind.extend_from_slice(&word[..begin]);
    push_value(kind);
    kind.extend_from_slice(&word[end..]);
    len
}

/// Bytes of the numbers that are one value with that before: all of `:07:31.250` in a time, or of `.0.0.7:5432` in an
/// address. Each by itself would be joined to it by [`push_value`]: 430 ns instead of 260 for a line of 80 bytes with an
/// address and four more numbers.
fn numbers_after(text: &[u8]) -> usize {
    let mut all = 0;
    while let [between, rest @ ..] = &text[all..]
        && WITHIN_VALUES.contains(between)
    {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || rest.get(digits).is_some_and(|byte| is_of_word(*byte)) {
            break;
        }
        all += 1 + digits;
    }
    all
}

/// Something that differs. Dates, times, addresses and lists of numbers become one: `#.#.#.#:#` is `#`.
fn push_value(kind: &mut ErrorKindText) {
    let between = |bytes: &[u8]| match bytes {
        [one] => WITHIN_VALUES.contains(one),
        b", " | b"::" => true,
        _ => false,
    };
    let joined = [1, 2].into_iter().find(|len| {
        let Some(at) = kind.len().checked_sub(len + 1) else { return false };
        kind[at] == b'#' && between(&kind[at + 1..])
    });
    match joined {
        Some(len) => kind.truncate(kind.len() - len),
        None => kind.push(b'#'),
    }
}

/// Quoted words, if the quote at `at` begins some; returns how many bytes they are with their quotes. One within a word,
/// as in *can't*, is none.
fn push_quoted(kind: &mut ErrorKindText, quote: u8, text: &[u8], at: usize) -> usize {
    let opens = at.checked_sub(1).is_none_or(|before| !is_of_word(text[before]));
    let closes = |place: &usize| {
        text[*place] == quote && text.get(place + 1).is_none_or(|byte| !is_of_word(*byte))
    };
    match (at + 1..text.len()).find(closes).filter(|_| opens) {
        Some(end) if end > at + 1 => {
            kind.extend_from_slice(&[quote, b'#', quote]);
            end + 1 - at
        }
        _ => {
            kind.push(quote);
            1
        }
    }
}

/// An `@` with what follows; in an address of a person, what stands before it goes, too.
fn push_address(kind: &mut ErrorKindText, text: &[u8]) -> usize {
    let of_name = |byte: &u8| is_of_word(*byte) || b"#.+-".contains(byte);
    let name = kind.iter().rev().take_while(|byte| of_name(byte)).count();
    let is_host = |byte: &&u8| is_of_word(**byte) || **byte == b'-';
    let mut host = text[1..].iter().take_while(|byte| is_host(byte) || **byte == b'.').count();
    // A full stop behind it ends the sentence.
    while host > 0 && text[host] == b'.' {
        host -= 1;
    }
    if name == 0 || host == 0 {
        kind.push(b'@');
        return 1;
    }
    kind.truncate(kind.len() - name);
    push_value(kind);
    host + 1
}
