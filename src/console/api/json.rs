//! Commands out of JSON, replies into JSON.

use crate::console::value::{Command, Value};
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};

/// The greatest whole number that every reader of JSON keeps: 2^53 - 1. Tokens are greater, and come as text.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// How texts are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Texts {
    /// As they are; what is no UTF-8 with replacement characters.
    Plain,
    /// Base64 but for `OK`, as Upstash's clients ask with `Upstash-Encoding: base64`.
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

    fn write(self, bytes: &[u8]) -> Json {
        match self {
            Texts::Base64 if bytes != b"OK" => STANDARD.encode(bytes).into(),
            _ => String::from_utf8_lossy(bytes).into(),
        }
    }
}

/// A command: `["DELAY.STATS","emails"]`; numbers and true or false are taken as they are written.
///
/// # Errors
/// What was sent is something else, in words.
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
        None => Err("ERR the body has to be a JSON array of commands, each an array".to_owned()),
    }
}

fn parsed(body: &[u8]) -> Result<&RawValue, String> {
    serde_json::from_slice(body).map_err(|error| format!("ERR the body is no JSON: {error}"))
}

/// The items of an array that has some.
fn list(json: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json.get()).ok().filter(|items: &Vec<&RawValue>| !items.is_empty())
}

fn words(command: &RawValue) -> Result<Command, String> {
    let Some(words) = list(command) else {
        return Err("ERR a command has to be a JSON array of its words".to_owned());
    };
    let word = |word: &RawValue| match word.get().as_bytes().first() {
        Some(b'"') => {
            let text: String =
                serde_json::from_str(word.get()).map_err(|error| format!("ERR {error}"))?;
            Ok(Bytes::from(text))
        }
        Some(b'-' | b'0'..=b'9' | b't' | b'f') => Ok(Bytes::copy_from_slice(word.get().as_bytes())),
        _ => Err("ERR the words of a command are texts and numbers".to_owned()),
    };
    words.into_iter().map(word).collect()
}

/// `{"result": …}` or `{"error": …}`.
pub fn wrapped(reply: &Value, texts: Texts) -> Json {
    match reply.error() {
        Some(error) => json!({ "error": error }),
        None => json!({ "result": json(reply, texts) }),
    }
}

/// A reply as JSON: maps as objects, for Upstash's clients as flat arrays.
pub fn json(reply: &Value, texts: Texts) -> Json {
    match reply {
        Value::Null => Json::Null,
        Value::Int(number) if number.unsigned_abs() > EXACT_MAX => number.to_string().into(),
        Value::Int(number) => (*number).into(),
        Value::Double(number) => serde_json::Number::from_f64(*number)
            .map_or_else(|| number.to_string().into(), Json::Number),
        Value::Bool(flag) => (*flag).into(),
        Value::Text(bytes) => texts.write(bytes),
        Value::Array(items) => items.iter().map(|item| json(item, texts)).collect(),
        // Upstash's clients know no maps.
        Value::Map(fields) if texts == Texts::Base64 => fields
            .iter()
            .flat_map(|(name, value)| [json(name, texts), json(value, texts)])
            .collect(),
        Value::Map(fields) => {
            let field = |(name, value): &(Value, Value)| {
                let name = String::from_utf8_lossy(name.bytes().unwrap_or_default()).into_owned();
                (name, json(value, texts))
            };
            Json::Object(fields.iter().map(field).collect::<Map<_, _>>())
        }
        Value::Error(text) => json!({ "error": String::from_utf8_lossy(text) }),
    }
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

    #[test]
    fn replies_keep_their_numbers() {
        let text = |text: &'static str| Value::Text(text.into());
        let reply = Value::Map(vec![
            (text("token"), Value::Int(1 << 60)),
            (text("due"), Value::Int(1_893_456_000_000)),
            (text("id"), text("a")),
        ]);
        let plain = wrapped(&reply, Texts::Plain).to_string();
        assert_eq!(
            plain,
            r#"{"result":{"due":1893456000000,"id":"a","token":"1152921504606846976"}}"#
        );
        let flat = wrapped(&Value::Map(vec![(text("due"), Value::Int(7))]), Texts::Base64);
        assert_eq!(flat.to_string(), r#"{"result":["ZHVl",7]}"#);
        let coded = wrapped(&Value::Array(vec![text("OK"), text("a"), Value::Null]), Texts::Base64);
        assert_eq!(coded.to_string(), r#"{"result":["OK","YQ==",null]}"#);
        assert_eq!(
            wrapped(&Value::Error("ERR x".into()), Texts::Plain).to_string(),
            r#"{"error":"ERR x"}"#
        );
    }
}
