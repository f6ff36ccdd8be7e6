//! Bytes from outside as text that can be looked at without harm: names, ids, errors, bodies.
//!
//! Invalid UTF-8 is shown as `\xNN`, control characters as `\n` or `\xNN`, and characters that are invisible or change
//! the direction of the text as `‹U+202E›`: two names that look alike are alike.

mod body;
mod hex;
mod json;
mod kind;

pub use body::{ShownBody, Way, body, body_as};

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use std::fmt::Write as _;

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters of a name in a table; the title has all of them.
const NAME_CHARS: usize = 48;

/// On one line: no line breaks, no tabs.
pub fn text(bytes: &[u8]) -> String {
    shown(bytes, false)
}

/// As [`text`], with line breaks and tabs as they stand.
pub fn lines(bytes: &[u8]) -> String {
    shown(bytes, true)
}

/// `broken` leaves line breaks and tabs.
fn shown(bytes: &[u8], broken: bool) -> String {
    let mut shown = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|char| put_char(&mut shown, char, broken));
        chunk.invalid().iter().for_each(|byte| put_byte(&mut shown, *byte));
    }
    shown
}

/// A queue's name, a job's id, a schedule's: shortened in the middle if it is long, the whole in its title.
pub fn name(bytes: &[u8]) -> Markup {
    let whole = text(bytes);
    let short = shortened(&whole, NAME_CHARS);
    html! {
        @if whole.is_empty() { span class="name none" { "(no name)" } }
        @else if short == whole { bdi class="name" { (whole) } }
        @else { bdi class="name" title=(whole) { (short) } }
    }
}

/// At most this many characters: the first two thirds, an ellipsis, the last third.
pub fn shortened(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let end = chars / 3;
    let start = chars.saturating_sub(end + 1);
    let head = text.chars().take(start);
    head.chain(['…']).chain(text.chars().skip(count - end)).collect()
}

/// As a value in a URL, and in hidden fields of forms: all but letters, digits and `-._~` as `%NN`. A name of any
/// bytes comes back by `percent_decode`, as [`Params`](super::params::Params) reads it.
pub fn query(bytes: &[u8]) -> String {
    percent_encode(bytes, ENCODED).to_string()
}

/// A word for a shell, in quotes where it needs them; bytes that no UTF-8 has as `$'\xNN'`.
pub fn shell(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._/:@%+,=*".contains(byte);
    let harmless = |text: &str| text.chars().all(|char| !char.is_control() && !is_unseen(char));
    match std::str::from_utf8(bytes) {
        Ok(word) if !word.is_empty() && bytes.iter().all(plain) && !word.contains('*') => {
            word.to_owned()
        }
        Ok(word) if harmless(word) => format!("'{}'", word.replace('\'', r"'\''")),
        _ => {
            let mut quoted = String::from("$'");
            for &byte in bytes {
                match byte {
                    b'\'' | b'\\' => quoted.extend(['\\', char::from(byte)]),
                    0x20..=0x7e => quoted.push(char::from(byte)),
                    _ => put_byte(&mut quoted, byte),
                }
            }
            quoted + "'"
        }
    }
}

fn put_byte(shown: &mut String, byte: u8) {
    let _ = write!(shown, "\\x{byte:02x}");
}

/// A character as it is shown; `broken` leaves line breaks and tabs.
fn put_char(shown: &mut String, char: char, broken: bool) {
    match char {
        '\n' | '\t' if broken => shown.push(char),
        '\n' => shown.push_str("\\n"),
        '\t' => shown.push_str("\\t"),
        '\r' => shown.push_str("\\r"),
        '\0'..='\x1f' | '\x7f' => put_byte(shown, char as u8),
        ' '..='\x7e' => shown.push(char),
        _ if is_unseen(char) => {
            let _ = write!(shown, "‹U+{:04X}›", char as u32);
        }
        _ => shown.push(char),
    }
}

/// Whether a character cannot be seen, or changes how others are laid out.
fn is_unseen(char: char) -> bool {
    matches!(char,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_made_visible() {
        for (bytes, shown) in [
            (&b"emails"[..], "emails"),
            ("größe 日本".as_bytes(), "größe 日本"),
            (b"a\nb\tc\rd\0e\x1b[31m\x7f", r"a\nb\tc\rd\x00e\x1b[31m\x7f"),
            (b"\xff\xfeok\xc3", r"\xff\xfeok\xc3"),
            ("exe\u{202e}gpj".as_bytes(), "exe‹U+202E›gpj"),
            ("a\u{200b}b\u{feff}\u{61c}\u{2066}".as_bytes(), "a‹U+200B›b‹U+FEFF›‹U+061C›‹U+2066›"),
            ("\u{e0041}\u{85}".as_bytes(), "‹U+E0041›‹U+0085›"),
        ] {
            assert_eq!(text(bytes), shown);
        }
        assert_eq!(lines(b"a\n\tb\r\n\x01"), "a\n\tb\\r\n\\x01");
    }

    #[test]
    fn names_are_inert_and_short_with_the_whole_in_the_title() {
        let shown = name(b"<script>alert(1)</script>").into_string();
        assert!(!shown.contains("<script") && shown.contains("&lt;script&gt;"), "{shown}");
        let long = name(&[b'x'; 512]).into_string();
        assert!(long.contains(&format!("title=\"{}\"", "x".repeat(512))), "{long}");
        assert!(long.contains(&format!(">{}…{}<", "x".repeat(31), "x".repeat(16))), "{long}");
        assert_eq!(name(b"").into_string(), r#"<span class="name none">(no name)</span>"#);
        let any = (0..=255).cycle().take(512).collect::<Vec<u8>>();
        assert!(!name(&any).into_string().chars().any(|char| char.is_control() || is_unseen(char)));
    }

    #[test]
    fn any_bytes_go_through_a_url_and_back() {
        let unquery =
            |text: &str| percent_encoding::percent_decode(text.as_bytes()).collect::<Vec<u8>>();
        let any = (0..=255).collect::<Vec<u8>>();
        let encoded = query(&any);
        assert!(
            encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte))
        );
        assert_eq!(unquery(&encoded), any);
        assert_eq!(query(b"a/b c&d=%41"), "a%2Fb%20c%26d%3D%2541");
        assert_eq!(unquery("100%"), b"100%");
        assert_eq!(unquery("%zz%4"), b"%zz%4");
    }

    #[test]
    fn words_for_a_shell_do_nothing_but_stand_there() {
        for (bytes, word) in [
            (&b"emails"[..], "emails"),
            (b"a b", "'a b'"),
            (b"", "''"),
            (b"$(reboot)", "'$(reboot)'"),
            (b"it's", r"'it'\''s'"),
            (b"mail*", "'mail*'"),
            (b"a\nb'", r"$'a\x0ab\''"),
            ("\u{202e}x".as_bytes(), r"$'\xe2\x80\xaex'"),
        ] {
            assert_eq!(shell(bytes), word);
        }
    }
}
