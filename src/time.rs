//! Instants and spans: milliseconds for what users name, microseconds for what the server measures.

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Millis(pub u64);

/// Microseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// The millisecond that has fully begun: a job due at that millisecond may be delivered.
    pub fn floor(self) -> Millis {
        Millis(self.0 / 1000)
    }

    /// The first millisecond that is not before this instant: what a relative delay counts from,
    /// so that a delay of 5 ms asked for at 10.3 ms ends at 16 ms, never at 15 ms.
    pub fn ceil(self) -> Millis {
        Millis(self.0.div_ceil(1000))
    }
}

impl Millis {
    /// The instant at which this millisecond begins.
    pub fn start(self) -> Micros {
        Micros(self.0.saturating_mul(1000))
    }

    /// This instant moved later by `ms` milliseconds; stops at the end of the range.
    pub fn plus(self, ms: u64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }
}

/// A span of ms as users write it, in the largest unit that divides it: 90,000 is `90s`, 3,600,000 `1h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written(pub u64);

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units =
            [(604_800_000, "w"), (86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        match units.into_iter().find(|(ms, _)| self.0 != 0 && self.0.is_multiple_of(*ms)) {
            Some((ms, unit)) => write!(f, "{}{unit}", self.0 / ms),
            None => write!(f, "{}ms", self.0),
        }
    }
}
