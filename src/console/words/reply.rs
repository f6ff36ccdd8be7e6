//! Replies of the server out of bytes: RESP3 as its encoder writes it, nested as it may be.
//!
//! A library's frames are no help: theirs have sets only of what can be hashed, and COMMAND answers sets of maps.

use super::value::Value;
use bytes::{Buf, Bytes, BytesMut};
use std::io;

/// Levels of replies in replies. COMMAND with its subcommands has seven.
const DEPTH_MAX: usize = 32;

/// Texts of no more bytes are copied.
const SHORT_BYTES_MAX: usize = 1 << 10;

/// Where the first reply ends, found out as its bytes come: none of them is looked at twice.
#[derive(Debug, Default)]
pub struct ReplyScan {
    /// So far it is known.
    at: usize,
    /// How many replies are still to come within each one that has begun.
    open: Vec<u64>,
}

impl ReplyScan {
    /// Takes the next whole reply as its bytes; none before all of it is there.
    ///
    /// # Errors
    /// It is no RESP3.
    pub fn next(&mut self, input: &mut BytesMut) -> io::Result<Option<Bytes>> {
        while let Some(rest) = self.skip(input)? {
            if rest == 0 {
                let end = std::mem::take(self).at;
                return Ok(Some(input.split_to(end).freeze()));
            }
        }
        Ok(None)
    }

    /// Passes one element; whether more belong to the reply. None if it is not there yet.
    fn skip(&mut self, input: &[u8]) -> io::Result<Option<usize>> {
        let Some((kind, line, end)) = line(&input[self.at..])? else { return Ok(None) };
        let mut next = self.at + end;
        let mut items = 0;
        match kind {
            b'$' | b'=' | b'!' => {
                if let Some(length) = count(line)? {
                    next += length as usize + 2;
                }
                if next > input.len() {
                    return Ok(None);
                }
            }
            b'*' | b'~' | b'>' => items = count(line)?.unwrap_or(0),
            b'%' => items = count(line)?.unwrap_or(0).saturating_mul(2),
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => {}
            _ => return Err(malformed("a type that RESP3 has not")),
        }
        self.at = next;
        if items > 0 {
            if self.open.len() >= DEPTH_MAX {
                return Err(malformed("replies in too many replies"));
            }
            self.open.push(items);
        } else {
            while let Some(left) = self.open.last_mut() {
                *left -= 1;
                if *left > 0 {
                    break;
                }
                self.open.pop();
            }
        }
        Ok(Some(self.open.len()))
    }
}

/// An element of a reply; an array and a map are followed by as many items or fields.
#[derive(Debug)]
pub enum Element {
    Null,
    Int(i64),
    Double(f64),
    Bool(bool),
    Text(Bytes),
    Error(Bytes),
    Array(u64),
    Map(u64),
}

/// Whether a reply came unasked: a message of a channel.
pub fn is_unasked(whole: &[u8]) -> bool {
    whole.starts_with(b">")
}

/// Whether a reply is an error.
pub fn is_error(whole: &[u8]) -> bool {
    matches!(whole.first(), Some(b'-' | b'!'))
}

/// The text of a reply that is an error.
pub fn error(whole: &Bytes) -> Option<String> {
    match element(&mut whole.clone()) {
        Ok(Element::Error(text)) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    }
}

/// The items of a reply that is an array, as their bytes.
///
/// # Errors
/// It is no array.
pub fn items(whole: &Bytes) -> io::Result<Vec<Bytes>> {
    let mut rest = whole.clone();
    let Element::Array(count) = element(&mut rest)? else { return Err(malformed("no items")) };
    let item = |_| {
        let mut scan = ReplyScan::default();
        while scan.skip(&rest)?.ok_or_else(|| malformed("an end"))? > 0 {}
        Ok(rest.split_to(scan.at))
    };
    (0..count).map(item).collect()
}

/// A whole reply as a value.
///
/// # Errors
/// It is no RESP3.
pub fn value(mut whole: Bytes) -> io::Result<Value> {
    next_value(&mut whole)
}

fn next_value(whole: &mut Bytes) -> io::Result<Value> {
    Ok(match element(whole)? {
        Element::Null => Value::Null,
        Element::Int(number) => Value::Int(number),
        Element::Double(number) => Value::Double(number),
        Element::Bool(flag) => Value::Bool(flag),
        Element::Text(text) => Value::Text(alone(text)),
        Element::Error(text) => Value::Error(alone(text)),
        Element::Array(count) => {
            Value::Array((0..count).map(|_| next_value(whole)).collect::<io::Result<_>>()?)
        }
        Element::Map(count) => {
            let field = |_| Ok((next_value(whole)?, next_value(whole)?));
            Value::Map((0..count).map(field).collect::<io::Result<_>>()?)
        }
    })
}

/// Takes the element that `whole` begins with, all of which is there. Texts are parts of `whole`.
///
/// # Errors
/// It is no RESP3.
pub fn element(whole: &mut Bytes) -> io::Result<Element> {
    let Some((kind, line, end)) = line(whole)? else { return Err(malformed("an end")) };
    let length = match kind {
        b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' => count(line)?,
        _ => None,
    };
    let line = whole.slice(1..end - 2);
    whole.advance(end);
    let text = || String::from_utf8_lossy(&line);
    Ok(match (kind, length) {
        (b'+' | b'(', _) => Element::Text(line),
        (b'-', _) => Element::Error(line),
        (b':', _) => Element::Int(text().parse().map_err(|_| malformed("no number"))?),
        (b',', _) => Element::Double(text().parse().map_err(|_| malformed("no number"))?),
        (b'#', _) => Element::Bool(&line[..] == b"t"),
        (b'$', Some(length)) => Element::Text(bulk(whole, length)?),
        (b'!', Some(length)) => Element::Error(bulk(whole, length)?),
        // `txt:` and the text.
        (b'=', Some(length)) => {
            let text = bulk(whole, length)?;
            Element::Text(text.slice(text.len().min(4)..))
        }
        (b'*' | b'~' | b'>', Some(count)) => Element::Array(count),
        (b'%', Some(count)) => Element::Map(count),
        (b'_', _) | (b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%', None) => Element::Null,
        _ => return Err(malformed("a type that RESP3 has not")),
    })
}

fn bulk(whole: &mut Bytes, length: u64) -> io::Result<Bytes> {
    let length = length as usize;
    if whole.len() < length + 2 {
        return Err(malformed("an end"));
    }
    let text = whole.split_to(length);
    whole.advance(2);
    Ok(text)
}

/// A short text does not keep alive the large reply that it came with.
fn alone(text: Bytes) -> Bytes {
    if text.len() <= SHORT_BYTES_MAX { Bytes::copy_from_slice(&text) } else { text }
}

/// The type of an element, the rest of its line, and where the line ends.
fn line(input: &[u8]) -> io::Result<Option<(u8, &[u8], usize)>> {
    // Only errors and simple strings are long, and the longest are some KiB.
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    match input[..end].split_first() {
        Some((kind, [line @ .., b'\r'])) => Ok(Some((*kind, line, end + 1))),
        _ => Err(malformed("a line without its end")),
    }
}

/// A length; none where it says -1.
fn count(line: &[u8]) -> io::Result<Option<u64>> {
    let number = std::str::from_utf8(line).ok().and_then(|line| line.parse::<i64>().ok());
    match number {
        Some(-1) => Ok(None),
        Some(number) if (0..1 << 32).contains(&number) => Ok(Some(number as u64)),
        _ => Err(malformed("no length")),
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server's reply has {what}"))
}

#[cfg(test)]
mod tests {
    use super::super::value::tests::{map, text};
    use super::*;

    const ALL: &[u8] =
        b"*9\r\n+a\r\n$2\r\n\xff\n\r\n:-7\r\n,1.5\r\n#t\r\n_\r\n-ERR x\r\n=5\r\ntxt:b\r\n\
        ~2\r\n%1\r\n+k\r\n*0\r\n%0\r\n";

    fn all() -> Value {
        Value::Array(vec![
            text("a"),
            Value::Text(Bytes::from_static(b"\xff\n")),
            Value::Int(-7),
            Value::Double(1.5),
            Value::Bool(true),
            Value::Null,
            Value::Error("ERR x".into()),
            text("b"),
            // A set of maps, as COMMAND has it.
            Value::Array(vec![map(&[("k", Value::Array(vec![]))]), map(&[])]),
        ])
    }

    #[test]
    fn replies_are_read_wherever_they_are_cut() {
        for cut in 0..=ALL.len() {
            let (mut scan, mut input) = (ReplyScan::default(), BytesMut::from(&ALL[..cut]));
            let first = scan.next(&mut input).unwrap();
            assert_eq!(first.is_some(), cut == ALL.len(), "{cut}");
            input.extend_from_slice(&ALL[cut..]);
            input.extend_from_slice(b"$-1\r\n>1\r\n+m\r\n");
            let first = match first {
                Some(first) => first,
                None => scan.next(&mut input).unwrap().expect("it is whole"),
            };
            let mut next = || scan.next(&mut input).unwrap();
            let (null, told) = (next().unwrap(), next().unwrap());
            assert_eq!(next(), None);
            assert!(!is_unasked(&first) && !is_unasked(&null) && is_unasked(&told));
            assert_eq!(value(first).unwrap(), all());
            assert_eq!(value(null).unwrap(), Value::Null);
            assert_eq!(value(told).unwrap(), Value::Array(vec![text("m")]));
        }
    }

    #[test]
    fn items_of_a_reply_are_replies() {
        let whole = Bytes::from_static(ALL);
        let items = items(&whole).unwrap();
        let values: Vec<Value> = items.iter().cloned().map(|item| value(item).unwrap()).collect();
        assert_eq!(Value::Array(values), all());
        let errors: Vec<String> = items.iter().filter_map(error).collect();
        assert_eq!(errors, ["ERR x"]);
        assert_eq!(items.iter().filter(|item| is_error(item)).count(), 1);
        for wrong in ["+a\r\n", "*2\r\n+a\r\n", ""] {
            assert!(super::items(&Bytes::from_static(wrong.as_bytes())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        for wrong in [&b"hello\r\n"[..], b"$x\r\n", b"$-2\r\n", b"*99999999999\r\n", b"+a\n", &deep]
        {
            let read = ReplyScan::default().next(&mut BytesMut::from(wrong));
            assert!(read.is_err(), "{}", wrong.escape_ascii());
        }
        // Announced, and not there: nothing is allocated for it.
        assert_eq!(
            ReplyScan::default().next(&mut BytesMut::from("*4000000000\r\n")).unwrap(),
            None
        );
    }
}
