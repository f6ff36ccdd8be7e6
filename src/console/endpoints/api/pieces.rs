//! Replies as JSON, written a piece at a time while the client reads: besides the replies themselves an answer holds one
//! piece. A body of 16 MiB is up to 96 MiB of JSON.

use super::json::{EXACT_MAX, Texts};
use crate::console::words::reply::{self, Element};
use axum::body::{Body, Bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use serde::Serialize;
use serde_json::json;
use std::collections::VecDeque;
use std::io;
use std::str::from_utf8;
use tokio::sync::OwnedSemaphorePermit;

/// Bytes of a piece. One is complete with the text that crosses it.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of a text that are written at once; a multiple of three, which base64 writes without padding. In JSON each is
/// up to six.
const TEXT_BYTES: usize = 12 << 10;

#[derive(Debug)]
pub struct Pieces {
    parts: VecDeque<AnswerPart>,
    texts: Texts,
    /// Arrays and objects that have begun, the innermost last.
    open: Vec<OpenValue>,
    /// The rest of the text that is being written, and how.
    text: Option<(Bytes, Texts)>,
}

#[derive(Debug)]
enum AnswerPart {
    Json(String),
    /// A whole reply, RESP3; then what is left of it.
    Reply(Bytes),
}

#[derive(Debug)]
struct OpenValue {
    is_object: bool,
    is_first: bool,
    /// Names and values that are still to come.
    left: u64,
    end: &'static [u8],
}

impl Pieces {
    /// `{"result": …}` or `{"error": …}`.
    pub fn one(reply: &Bytes, texts: Texts) -> Pieces {
        let mut pieces = Pieces::new(texts);
        pieces.wrap("", reply);
        pieces
    }

    /// The same of several in an array; each of `missing` others is this error.
    pub fn several(replies: &[Bytes], missing: usize, why: &str, texts: Texts) -> Pieces {
        let mut pieces = Pieces::new(texts);
        let mut before = "[";
        for reply in replies {
            pieces.wrap(before, reply);
            before = ",";
        }
        for _ in 0..missing {
            pieces.push(format!("{before}{}", json!({ "error": why })));
            before = ",";
        }
        pieces.push(if before == "[" { "[]" } else { "]" }.to_owned());
        pieces
    }

    fn new(texts: Texts) -> Pieces {
        Pieces { parts: VecDeque::new(), texts, open: Vec::new(), text: None }
    }

    fn push(&mut self, json: String) {
        self.parts.push_back(AnswerPart::Json(json));
    }

    fn wrap(&mut self, before: &str, reply: &Bytes) {
        // An error is an object by itself.
        let (name, end) = if reply::is_error(reply) { ("", "") } else { ("{\"result\":", "}") };
        self.push(format!("{before}{name}"));
        self.parts.push_back(AnswerPart::Reply(reply.clone()));
        self.push(end.to_owned());
    }

    /// A body of these: as one if that is little, else as the client takes it. It keeps `permit` until it is read.
    ///
    /// # Errors
    /// A reply is no RESP3.
    pub fn into_body(mut self, permit: Option<OwnedSemaphorePermit>) -> io::Result<Body> {
        let first = self.next()?.unwrap_or_default();
        if self.parts.is_empty() {
            return Ok(Body::from(first));
        }
        let rest = std::iter::from_fn(move || {
            let _held = &permit;
            self.next().transpose()
        });
        Ok(Body::from_stream(stream::iter(std::iter::once(Ok(first)).chain(rest))))
    }

    /// The next piece; none after the last.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut out = Vec::with_capacity(PIECE_BYTES + 6 * TEXT_BYTES);
        while out.len() < PIECE_BYTES {
            if self.text.is_some() {
                self.write_text(&mut out);
                continue;
            }
            match self.parts.front_mut() {
                None => break,
                Some(AnswerPart::Json(json)) => {
                    out.extend_from_slice(json.as_bytes());
                    self.parts.pop_front();
                }
                Some(AnswerPart::Reply(rest)) if rest.is_empty() && self.open.is_empty() => {
                    self.parts.pop_front();
                }
                Some(AnswerPart::Reply(rest)) => {
                    let element = reply::element(rest)?;
                    self.write(element, &mut out);
                }
            }
        }
        Ok(Some(out).filter(|out| !out.is_empty()))
    }

    fn write(&mut self, element: Element, out: &mut Vec<u8>) {
        let is_name = self.separate(out);
        let texts = if is_name { Texts::Plain } else { self.texts };
        match element {
            Element::Text(text) => return self.begin_text(text, texts, out),
            // A name is a text.
            _ if is_name => out.extend_from_slice(b"\"\""),
            Element::Null => out.extend_from_slice(b"null"),
            Element::Bool(flag) => put(out, &flag),
            Element::Int(number) if number.unsigned_abs() > EXACT_MAX => {
                put(out, &number.to_string());
            }
            Element::Int(number) => put(out, &number),
            Element::Double(number) if number.is_finite() => put(out, &number),
            Element::Double(number) => put(out, &number.to_string()),
            Element::Error(text) => {
                put(out, &json!({ "error": String::from_utf8_lossy(&text) }));
            }
            Element::Array(count) => self.begin(false, count, out),
            // Upstash's clients know no maps.
            Element::Map(count) => self.begin(self.texts == Texts::Plain, 2 * count, out),
        }
        self.end_full(out);
    }

    /// The separator before an element; whether it is a name in an object.
    fn separate(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(open) = self.open.last_mut() else { return false };
        let is_name = open.is_object && open.left.is_multiple_of(2);
        if open.is_object && !is_name {
            out.push(b':');
        } else if !open.is_first {
            out.push(b',');
        }
        open.is_first = false;
        open.left -= 1;
        is_name
    }

    fn begin(&mut self, is_object: bool, left: u64, out: &mut Vec<u8>) {
        let (begin, end): (u8, &[u8]) = if is_object { (b'{', b"}") } else { (b'[', b"]") };
        out.push(begin);
        self.open.push(OpenValue { is_object, is_first: true, left, end });
    }

    /// Ends those of which all has been written.
    fn end_full(&mut self, out: &mut Vec<u8>) {
        while let Some(full) = self.open.pop_if(|open| open.left == 0) {
            out.extend_from_slice(full.end);
        }
    }

    fn begin_text(&mut self, text: Bytes, texts: Texts, out: &mut Vec<u8>) {
        out.push(b'"');
        let texts = if text == "OK" { Texts::Plain } else { texts };
        self.text = Some((text, texts));
    }

    fn write_text(&mut self, out: &mut Vec<u8>) {
        let Some((text, texts)) = &mut self.text else { return };
        let some = &text[..text.len().min(TEXT_BYTES)];
        let taken = match texts {
            Texts::Base64 => {
                out.extend_from_slice(STANDARD.encode(some).as_bytes());
                some.len()
            }
            Texts::Plain => put_plain(some, some.len() == text.len(), out),
        };
        let rest = text.split_off(taken);
        if rest.is_empty() {
            self.text = None;
            out.push(b'"');
            self.end_full(out);
        } else {
            *text = rest;
        }
    }
}

/// Writes `some` of a text, `is_last` with its end, as `String::from_utf8_lossy` reads it. A character that is cut is
/// left for the next time. Returns how many bytes were taken.
fn put_plain(mut some: &[u8], is_last: bool, out: &mut Vec<u8>) -> usize {
    let length = some.len();
    loop {
        let error = match from_utf8(some) {
            Ok(text) => {
                put_inner(text, out);
                return length;
            }
            Err(error) => error,
        };
        let (valid, rest) = some.split_at(error.valid_up_to());
        put_inner(from_utf8(valid).unwrap_or_default(), out);
        let Some(bytes) = error.error_len().or(is_last.then_some(rest.len())) else {
            return length - rest.len();
        };
        out.extend_from_slice("\u{fffd}".as_bytes());
        some = &rest[bytes..];
    }
}

/// A text without the quotes around it.
fn put_inner(text: &str, out: &mut Vec<u8>) {
    let begin = out.len();
    put(out, text);
    out.pop();
    out.remove(begin);
}

fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // A vector takes all that is written.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    /// Random data here follows from a number.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % most
        }

        /// Cut characters, bytes that are none, and what JSON escapes.
        fn text(&mut self) -> Vec<u8> {
            let some: [&[u8]; 8] = [
                b"a",
                b"\"",
                b"\n",
                b"\x01",
                "é".as_bytes(),
                "😀".as_bytes(),
                b"\xff",
                b"\xf0\x9f\x98",
            ];
            let most = if self.below(8) == 0 { 20_000 } else { 20 };
            let count = self.below(most);
            (0..count).flat_map(|_| some[self.below(8) as usize]).copied().collect()
        }
    }

    fn written(text: &[u8], texts: Texts) -> Json {
        match texts {
            Texts::Base64 if text != b"OK" => STANDARD.encode(text).into(),
            _ => String::from_utf8_lossy(text).into(),
        }
    }

    fn reply(dice: &mut Dice, depth: u64, texts: Texts, out: &mut Vec<u8>) -> Json {
        let count = dice.below(4);
        match dice.below(if depth == 0 { 6 } else { 8 }) {
            0 => {
                out.extend(b"_\r\n");
                Json::Null
            }
            1 => {
                let number: i64 = (1 << dice.below(62)) - 1;
                out.extend(format!(":{number}\r\n").as_bytes());
                if number >= 1 << 53 { number.to_string().into() } else { number.into() }
            }
            2 => {
                out.extend(b",1.5\r\n");
                json!(1.5)
            }
            3 => {
                out.extend(b"-ERR \"x\"\r\n");
                json!({ "error": "ERR \"x\"" })
            }
            4 | 5 => {
                let text = if dice.below(9) == 0 { b"OK".to_vec() } else { dice.text() };
                bulk(&text, out);
                written(&text, texts)
            }
            6 => {
                out.extend(format!("*{count}\r\n").as_bytes());
                (0..count).map(|_| reply(dice, depth - 1, texts, out)).collect()
            }
            _ => {
                out.extend(format!("%{count}\r\n").as_bytes());
                let field = |number: u64, out: &mut Vec<u8>, dice: &mut Dice| {
                    let name = format!("é{number}");
                    bulk(name.as_bytes(), out);
                    (name, reply(dice, depth - 1, texts, out))
                };
                let fields: Vec<_> = (0..count).map(|number| field(number, out, dice)).collect();
                match texts {
                    Texts::Plain => Json::Object(fields.into_iter().collect()),
                    Texts::Base64 => fields
                        .into_iter()
                        .flat_map(|(name, value)| [written(name.as_bytes(), texts), value])
                        .collect(),
                }
            }
        }
    }

    fn bulk(text: &[u8], out: &mut Vec<u8>) {
        out.extend(format!("${}\r\n", text.len()).as_bytes());
        out.extend(text);
        out.extend(b"\r\n");
    }

    fn all(mut pieces: Pieces) -> String {
        let mut whole = Vec::new();
        while let Some(piece) = pieces.next().unwrap() {
            assert!(piece.len() <= PIECE_BYTES + 6 * TEXT_BYTES + 1_000, "{}", piece.len());
            whole.extend(piece);
        }
        String::from_utf8(whole).unwrap()
    }

    fn whole(json: &Json, reply: &[u8]) -> Json {
        let is_error = reply.starts_with(b"-");
        if is_error { json.clone() } else { json!({ "result": json }) }
    }

    #[test]
    fn replies_are_the_same_json_however_they_are_cut() {
        for seed in 0..2_000 {
            for texts in [Texts::Plain, Texts::Base64] {
                let (mut dice, mut bytes) = (Dice(seed), Vec::new());
                let json = reply(&mut dice, 4, texts, &mut bytes);
                let json = whole(&json, &bytes);
                let reply = Bytes::from(bytes);
                let one = all(Pieces::one(&reply, texts));
                assert_eq!(serde_json::from_str::<Json>(&one).unwrap(), json, "seed {seed}");
                let several = all(Pieces::several(&[reply.clone(), reply], 1, "ERR y", texts));
                let parsed: Json = serde_json::from_str(&several).unwrap();
                assert_eq!(parsed, json!([json, json, { "error": "ERR y" }]), "seed {seed}");
            }
        }
        assert_eq!(all(Pieces::several(&[], 1, "ERR y", Texts::Plain)), r#"[{"error":"ERR y"}]"#);
        assert_eq!(all(Pieces::several(&[], 0, "", Texts::Plain)), "[]");
    }

    #[test]
    fn fields_keep_their_order_and_numbers_all_digits() {
        let reply = Bytes::from_static(
            b"%3\r\n+token\r\n:1152921504606846976\r\n+due\r\n:1893456000000\r\n:1\r\n,inf\r\n",
        );
        assert_eq!(
            all(Pieces::one(&reply, Texts::Plain)),
            r#"{"result":{"token":"1152921504606846976","due":1893456000000,"":"inf"}}"#
        );
        let ok = Bytes::from_static(b"*3\r\n+OK\r\n$1\r\na\r\n_\r\n");
        assert_eq!(all(Pieces::one(&ok, Texts::Base64)), r#"{"result":["OK","YQ==",null]}"#);
    }

    #[test]
    fn a_reply_that_is_none_is_an_error() {
        for wrong in ["?\r\n", "*2\r\n+a\r\n", "$5\r\nab\r\n"] {
            let mut pieces = Pieces::one(&Bytes::from_static(wrong.as_bytes()), Texts::Plain);
            let written = loop {
                match pieces.next() {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert!(written.is_err(), "{wrong}");
        }
    }
}
