//! Commands from JSON, and the form of replies.

use crate::console::words::value::Command;
use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::value::RawValue;

/// The greatest whole number that every reader of JSON keeps: 2^53 - 1. Tokens are greater, and come as text.
pub const EXACT_MAX: u64 = (1 << 53) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Texts {
    /// As they are; what is no UTF-8 with replacement characters.
    Plain,
    /// Base64 except for `OK`, as Upstash's clients ask with `Upstash-Encoding: base64`.
    Base64,
}

impl Texts {
    /// As a request asks for.
    pub fn of(headers: &HeaderMap) -> Texts {
        match headers.get("upstash-encoding").is_some_and(|asked| asked == "base64") {
            true => Texts::Base64,
            false => Texts::Plain,
        }
    }
}

/// A command: `["DELAY.STATS","emails"]`; numbers and true or false are taken as they are written.
///
/// # Errors
/// What was sent instead, in words.
pub fn command(body: &[u8]) -> Result<Command, String> {
    words(parsed(body)?)
}

/// Several: `[["DELAY.STATS","a"],["DELAY.STATS","b"]]`.
///
/// # Errors
/// As of [`command`].
pub fn commands(body: &[u8]) -> Result<Vec<Command>, String> {
    match list(parsed(body)?) {
        Some(commands) => commands.into_iter().map(words).collect(),
        None => Err("ERR the body must be a JSON array of commands, each an array".to_owned()),
    }
}

fn parsed(body: &[u8]) -> Result<&RawValue, String> {
    serde_json::from_slice(body).map_err(|error| format!("ERR the body is not JSON: {error}"))
}

/// The items of an array that has some.
fn list(json: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json.get()).ok().filter(|items: &Vec<&RawValue>| !items.is_empty())
}

fn words(command: &RawValue) -> Result<Command, String> {
    let Some(words) = list(command) else {
        return Err("ERR a command must be a JSON array of its words".to_owned());
    };
    let word = |word: &RawValue| match word.get().as_bytes().first() {
        Some(b'"') => {
            let text: String =
                serde_json::from_str(word.get()).map_err(|error| format!("ERR {error}"))?;
            Ok(Bytes::from(text))
        }
        Some(b'-' | b'0'..=b'9' | b't' | b'f') => Ok(Bytes::copy_from_slice(word.get().as_bytes())),
        _ => Err("ERR the words of a command must be strings or numbers".to_owned()),
    };
    words.into_iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_texts_and_numbers() {
        let words = command(br#"["DELAY.ADD", "q", 5, 1.5, true, "\u00e9"]"#).unwrap();
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        assert_eq!(words, [&b"DELAY.ADD"[..], b"q", b"5", b"1.5", b"true", "é".as_bytes()]);
        for wrong in ["", "{}", "[]", "\"PING\"", "[[\"PING\"]]", "[null]", "[\"PING\""] {
            assert!(command(wrong.as_bytes()).unwrap_err().starts_with("ERR"), "{wrong}");
        }
        // Numbers come as they were written, however large.
        let words = command(b"[\"A\", 18446744073709551616, -0, 1e3]").unwrap();
        assert_eq!(words[1..], [&b"18446744073709551616"[..], b"-0", b"1e3"]);
        assert_eq!(commands(br#"[["A"],["B","b"]]"#).unwrap().len(), 2);
        for wrong in ["[]", "[\"A\"]", "{}"] {
            assert!(commands(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
