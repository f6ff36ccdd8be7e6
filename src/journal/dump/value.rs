//! Values as JSON has them.

use crate::time::{Micros, Millis};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

/// The last second that RFC 3339 can write: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The value of a field.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value<'a> {
    Null,
    Flag(bool),
    Count(u64),
    /// A place in an order.
    Place(i64),
    Text(Cow<'a, str>),
    /// Text where it is UTF-8, otherwise an object with the one field `base64`.
    Bytes(&'a [u8]),
    Owned(Box<[u8]>),
    /// To the millisecond.
    At(Millis),
    /// To the microsecond.
    Instant(Micros),
    Counts(Vec<u64>),
    /// Pairs of numbers.
    Pairs(Vec<(u8, u32)>),
    /// An object.
    Fields(Vec<(&'static str, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// An instant for which 0 stands for none.
    pub fn at_or_none(at: Millis) -> Value<'a> {
        if at == Millis(0) { Value::Null } else { Value::At(at) }
    }

    /// Bytes that may be absent.
    pub fn bytes_or_none(bytes: Option<&'a [u8]>) -> Value<'a> {
        bytes.map_or(Value::Null, Value::Bytes)
    }

    /// The id of a node, as `DELAY.CLUSTER` and the logs write it.
    pub fn node(id: u64) -> Value<'a> {
        Value::Text(format!("{id:016x}").into())
    }

    /// A number that has more digits than some readers of JSON keep, as text.
    pub fn digits(number: u64) -> Value<'a> {
        Value::Text(number.to_string().into())
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => to.serialize_none(),
            Value::Flag(flag) => to.serialize_bool(*flag),
            Value::Count(count) => to.serialize_u64(*count),
            Value::Counts(counts) => to.collect_seq(counts),
            Value::Place(place) => to.serialize_i64(*place),
            Value::Text(text) => to.serialize_str(text),
            Value::Bytes(bytes) => serialize_bytes(bytes, to),
            Value::Owned(bytes) => serialize_bytes(bytes, to),
            Value::At(at) => match rfc3339(Duration::from_millis(at.0), 3) {
                Some(text) => to.serialize_str(&text),
                None => to.serialize_u64(at.0),
            },
            Value::Instant(at) => match rfc3339(Duration::from_micros(at.0), 6) {
                Some(text) => to.serialize_str(&text),
                None => to.serialize_u64(at.0),
            },
            Value::Pairs(pairs) => to.collect_seq(pairs),
            Value::Fields(fields) => {
                to.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

fn serialize_bytes<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return to.serialize_str(text);
    }
    let mut map = to.serialize_map(Some(1))?;
    map.serialize_entry("base64", &BASE64_STANDARD.encode(bytes))?;
    map.end()
}

/// With so many digits behind the second; nothing after the year 9999.
fn rfc3339(since_epoch: Duration, digits: u32) -> Option<String> {
    if since_epoch.as_secs() > LAST_SECOND {
        return None;
    }
    let at = UNIX_EPOCH + since_epoch;
    Some(match digits {
        3 => humantime::format_rfc3339_millis(at).to_string(),
        _ => humantime::format_rfc3339_micros(at).to_string(),
    })
}

/// An instant as the reports of the tools write it.
pub fn written(at: Micros) -> String {
    let text = rfc3339(Duration::from_micros(at.0), 6);
    text.unwrap_or_else(|| format!("{} µs after 1970", at.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &Value<'_>) -> String {
        serde_json::to_string(value).expect("a value is written")
    }

    #[test]
    fn bytes_are_text_where_they_can_be() {
        assert_eq!(json(&Value::Bytes("grün \"1\"\r\n\0".as_bytes())), r#""grün \"1\"\r\n\u0000""#);
        assert_eq!(json(&Value::Bytes(&[255, 0])), r#"{"base64":"/wA="}"#);
        assert_eq!(json(&Value::Bytes(b"")), r#""""#);
    }

    #[test]
    fn instants_are_written_as_far_as_the_calendar_goes() {
        assert_eq!(json(&Value::At(Millis(1_735_689_600_007))), r#""2025-01-01T00:00:00.007Z""#);
        let now = Micros(1_735_689_600_000_042);
        assert_eq!(json(&Value::Instant(now)), r#""2025-01-01T00:00:00.000042Z""#);
        let last = LAST_SECOND * 1_000 + 999;
        assert_eq!(json(&Value::At(Millis(last))), r#""9999-12-31T23:59:59.999Z""#);
        assert_eq!(json(&Value::At(Millis(last + 1))), (last + 1).to_string());
        assert_eq!(json(&Value::At(Millis(u64::MAX))), u64::MAX.to_string());
        assert_eq!(json(&Value::at_or_none(Millis(0))), "null");
    }
}
