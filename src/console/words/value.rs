//! Replies as plain values, and how commands are put together.

use bytes::Bytes;

/// A command: its name and arguments.
pub type Command = Vec<Bytes>;

/// A reply of the server, RESP3.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    Int(i64),
    /// A number that may have a fraction.
    Double(f64),
    /// Yes or no.
    Bool(bool),
    /// Bytes from outside: shown only through [`shown`](crate::console::words::escape).
    Text(Bytes),
    /// In order; sets and pushes, too.
    Array(Vec<Value>),
    /// Fields in the order in which they came.
    Map(Vec<(Value, Value)>),
    /// Why the command was refused, its first word a class: `NOPERM …`.
    Error(Bytes),
}

static NULL: Value = Value::Null;

impl Value {
    /// The value of a field of a map; null without one, and of what is no map.
    pub fn field(&self, name: &str) -> &Value {
        let Value::Map(fields) = self else { return &NULL };
        let found = fields.iter().find(|(key, _)| key.bytes() == Some(name.as_bytes()));
        found.map_or(&NULL, |(_, value)| value)
    }

    /// A number: an integer that is not negative, or text that reads as one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Value::Int(number) => u64::try_from(*number).ok(),
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// A number that may have a fraction.
    pub fn fraction(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Double(number) => Some(*number),
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text, if it is UTF-8; words of our own always are.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// The number of a field; 0 without one.
    pub fn number_of(&self, field: &str) -> u64 {
        self.field(field).number().unwrap_or(0)
    }

    /// The text of a field; empty without one.
    pub fn word(&self, field: &str) -> &str {
        self.field(field).text().unwrap_or_default()
    }

    /// The bytes of a field; empty without one.
    pub fn raw(&self, field: &str) -> &[u8] {
        self.field(field).bytes().unwrap_or_default()
    }

    /// The items of an array; none of what is no array.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::Array(items) => items,
            _ => &[],
        }
    }

    /// The fields of a map; none of what is no map.
    pub fn fields(&self) -> &[(Value, Value)] {
        match self {
            Value::Map(fields) => fields,
            _ => &[],
        }
    }

    /// Cuts the body of a job, as in GET's and PEEK's replies, to `most` bytes; returns the number of bytes cut.
    pub fn cut_bodies(&mut self, most: usize) {
        let cut = |body: &mut Value| {
            if let Value::Text(text) = body
                && text.len() > most
            {
                *body = Value::Text(Bytes::copy_from_slice(&text[..most]));
            }
        };
        match self {
            Value::Map(fields) => {
                let body = fields.iter_mut().find(|(name, _)| name.bytes() == Some(b"body"));
                body.into_iter().for_each(|(_, body)| cut(body));
            }
            Value::Array(items) => match items.as_mut_slice() {
                [Value::Text(_), _, _, body] => cut(body),
                items => items.iter_mut().for_each(|item| item.cut_bodies(most)),
            },
            _ => {}
        }
    }

    /// Its approximate memory.
    pub fn memory_bytes(&self) -> usize {
        let held = match self {
            Value::Text(text) | Value::Error(text) => text.len(),
            Value::Array(items) => items.iter().map(Value::memory_bytes).sum(),
            Value::Map(fields) => {
                fields.iter().map(|(name, value)| name.memory_bytes() + value.memory_bytes()).sum()
            }
            _ => 0,
        };
        size_of::<Value>() + held
    }

    /// Why the command was refused, if it was.
    pub fn error(&self) -> Option<String> {
        match self {
            Value::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }
}

/// A command of words and bytes: `command!["DELAY.GET", queue, id]`. Anything that turns into `Vec<u8>` or is a
/// number by `to_string` first.
macro_rules! command {
    ($($word:expr),+ $(,)?) => {
        vec![$(bytes::Bytes::copy_from_slice(AsRef::<[u8]>::as_ref(&$word))),+]
    };
}
pub(crate) use command;

#[cfg(test)]
pub mod tests {
    use super::Value;

    pub fn text(text: &'static str) -> Value {
        Value::Text(bytes::Bytes::from_static(text.as_bytes()))
    }

    /// A map in its order.
    pub fn map(fields: &[(&'static str, Value)]) -> Value {
        Value::Map(fields.iter().map(|(name, value)| (text(name), value.clone())).collect())
    }
}
