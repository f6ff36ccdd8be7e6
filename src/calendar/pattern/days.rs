//! The two fields for days: which days of a month they match.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct MonthDays {
    /// A plain star or question mark: it says nothing about days.
    pub any: bool,
    /// `5`, `1-15`, `*/2`: bit 1 is the first.
    pub days: u32,
    /// `15W`: the weekday nearest to each of these, within the month.
    pub nearest: u32,
    /// `L`.
    pub last: bool,
    /// `LW`.
    pub last_weekday: bool,
}

/// Day-of-week; 0 is Sunday.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct WeekDays {
    /// A plain star or question mark.
    pub any: bool,
    /// `+`: the day of the month has to match too.
    pub both: bool,
    /// `1-5`: bit 0 is Sunday.
    pub days: u8,
    /// `5L`, `5#L`: the last of the month.
    pub last: u8,
    /// `5#2`: the second one of the month is at `[1]`.
    pub nth: [u8; 5],
}

const SUNDAY: u32 = 0;
const SATURDAY: u32 = 6;

impl MonthDays {
    /// The days, bit 1 the first, of a month of this many days that begins on this day of the week.
    pub fn mask(&self, length: u32, first: u32) -> u32 {
        let all = ((1u64 << (length + 1)) - 2) as u32;
        let mut mask = self.days & all;
        mask |= u32::from(self.last) << length;
        if self.last_weekday {
            mask |= 1 << nearest_weekday(length, length, first);
        }
        let mut named = self.nearest & all;
        while named != 0 {
            let day = named.trailing_zeros();
            mask |= 1 << nearest_weekday(day, length, first);
            named &= named - 1;
        }
        mask
    }
}

impl WeekDays {
    /// As [`MonthDays::mask`].
    pub fn mask(&self, length: u32, first: u32) -> u32 {
        let mut mask = 0;
        for day in 1..=length {
            let bit = 1u8 << ((first + day - 1) % 7);
            let nth = self.nth[(day as usize - 1) / 7] & bit != 0;
            let last = self.last & bit != 0 && day + 7 > length;
            mask |= u32::from(self.days & bit != 0 || nth || last) << day;
        }
        mask
    }
}

/// The weekday nearest to a day, without leaving the month: for a Saturday the 1st it is Monday the 3rd.
fn nearest_weekday(day: u32, length: u32, first: u32) -> u32 {
    match (first + day - 1) % 7 {
        SATURDAY if day == 1 => 3,
        SATURDAY => day - 1,
        SUNDAY if day == length => day - 2,
        SUNDAY => day + 1,
        _ => day,
    }
}
