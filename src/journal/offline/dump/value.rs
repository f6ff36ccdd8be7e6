//! Values as JSON has them.

use crate::engine::model::queue_settings::Pause;
use crate::ids::{Db, PolicyNo, QueueNo, ScheduleNo};
use crate::time::{Micros, Millis};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

/// The last second that RFC 3339 can write: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum FieldValue<'a> {
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
    Pairs(Vec<(u8, u32)>),
    List(Vec<FieldValue<'a>>),
    /// An object.
    Fields(Vec<(&'static str, FieldValue<'a>)>),
}

impl<'a> FieldValue<'a> {
    /// An instant for which 0 means none.
    pub fn at_or_none(at: Millis) -> FieldValue<'a> {
        if at == Millis(0) { FieldValue::Null } else { FieldValue::At(at) }
    }

    /// The id of a node, as `DELAY.CLUSTER` and the logs write it.
    pub fn node(id: u64) -> FieldValue<'a> {
        FieldValue::Text(format!("{id:016x}").into())
    }

    /// A number that has more digits than some readers of JSON keep, as text.
    pub fn digits(number: u64) -> FieldValue<'a> {
        FieldValue::Text(number.to_string().into())
    }
}

macro_rules! values {
    ($($type:ty: |$of:ident| $value:expr;)+) => {
        $(impl<'a> From<$type> for FieldValue<'a> {
            fn from($of: $type) -> FieldValue<'a> {
                $value
            }
        })+
    };
}

values! {
    bool: |flag| FieldValue::Flag(flag);
    u8: |count| FieldValue::Count(count.into());
    u32: |count| FieldValue::Count(count.into());
    u64: |count| FieldValue::Count(count);
    i32: |place| FieldValue::Place(place.into());
    i64: |place| FieldValue::Place(place);
    &'a [u8]: |bytes| FieldValue::Bytes(bytes);
    Box<[u8]>: |bytes| FieldValue::Owned(bytes);
    Millis: |at| FieldValue::At(at);
    Db: |db| FieldValue::Count(db.0.into());
    QueueNo: |queue| FieldValue::Count(queue.0.into());
    PolicyNo: |policy| FieldValue::Count(policy.0.into());
    ScheduleNo: |schedule| FieldValue::Count(schedule.0);
    Pause: |pause| match pause {
        Pause::None => FieldValue::Null,
        Pause::Until(end) => FieldValue::At(end),
        Pause::Endless => FieldValue::Text("endless".into()),
    };
}

impl<'a, T: Into<FieldValue<'a>>> From<Option<T>> for FieldValue<'a> {
    fn from(value: Option<T>) -> FieldValue<'a> {
        value.map_or(FieldValue::Null, T::into)
    }
}

impl Serialize for FieldValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            FieldValue::Null => to.serialize_none(),
            FieldValue::Flag(flag) => to.serialize_bool(*flag),
            FieldValue::Count(count) => to.serialize_u64(*count),
            FieldValue::Counts(counts) => to.collect_seq(counts),
            FieldValue::Place(place) => to.serialize_i64(*place),
            FieldValue::Text(text) => to.serialize_str(text),
            FieldValue::Bytes(bytes) => serialize_bytes(bytes, to),
            FieldValue::Owned(bytes) => serialize_bytes(bytes, to),
            FieldValue::At(at) => match rfc3339(Duration::from_millis(at.0), 3) {
                Some(text) => to.serialize_str(&text),
                None => to.serialize_u64(at.0),
            },
            FieldValue::Instant(at) => match rfc3339(Duration::from_micros(at.0), 6) {
                Some(text) => to.serialize_str(&text),
                None => to.serialize_u64(at.0),
            },
            FieldValue::Pairs(pairs) => to.collect_seq(pairs),
            FieldValue::List(values) => to.collect_seq(values),
            FieldValue::Fields(fields) => {
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

/// With this many digits after the second; nothing after the year 9999.
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

    fn json(value: &FieldValue<'_>) -> String {
        serde_json::to_string(value).expect("a value is written")
    }

    #[test]
    fn bytes_are_text_where_they_can_be() {
        assert_eq!(
            json(&FieldValue::Bytes("grün \"1\"\r\n\0".as_bytes())),
            r#""grün \"1\"\r\n\u0000""#
        );
        assert_eq!(json(&FieldValue::Bytes(&[255, 0])), r#"{"base64":"/wA="}"#);
        assert_eq!(json(&FieldValue::Bytes(b"")), r#""""#);
    }

    #[test]
    fn instants_are_written_as_far_as_the_calendar_goes() {
        assert_eq!(
            json(&FieldValue::At(Millis(1_735_689_600_007))),
            r#""2025-01-01T00:00:00.007Z""#
        );
        let now = Micros(1_735_689_600_000_042);
        assert_eq!(json(&FieldValue::Instant(now)), r#""2025-01-01T00:00:00.000042Z""#);
        let last = LAST_SECOND * 1_000 + 999;
        assert_eq!(json(&FieldValue::At(Millis(last))), r#""9999-12-31T23:59:59.999Z""#);
        assert_eq!(json(&FieldValue::At(Millis(last + 1))), (last + 1).to_string());
        assert_eq!(json(&FieldValue::At(Millis(u64::MAX))), u64::MAX.to_string());
        assert_eq!(json(&FieldValue::at_or_none(Millis(0))), "null");
    }
}
