//! Dates and times in UTC.

use std::fmt;

/// A moment of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millisecond: u64,
}

impl Date {
    /// The date and time `unix_ns` nanoseconds after the beginning of 1970.
    pub fn of_unix_ns(unix_ns: u64) -> Self {
        let milliseconds = unix_ns / 1_000_000;
        let seconds = milliseconds / 1000;
        // Days are counted from 1 March of the year 0, so that a leap day ends its year: 400 years are 146,097 days.
        let days = seconds / 86_400 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // From March on, months have 31, 30, 31, 30, 31 days repeatedly: 153 days in five.
        let march_month = (5 * of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Date {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * march_month + 2) / 5 + 1,
            hour: seconds / 3600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            millisecond: milliseconds % 1000,
        }
    }

    /// Nanoseconds since 1970 of a moment in UTC such as `2026-11-21T14:02:06.123Z`; none for any other text, and for
    /// moments before 1970.
    pub fn unix_ns_of(text: &str) -> Option<u64> {
        let (day, time) = text.strip_suffix('Z')?.split_once('T')?;
        let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
        let numbers = |text: &str, separator: char| -> Option<[u64; 3]> {
            let parsed: Vec<u64> =
                text.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
            parsed.try_into().ok()
        };
        let ([year, month, day], [hour, minute, second]) = (numbers(day, '-')?, numbers(clock, ':')?);
        let possible = (1970..2500).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        let nanoseconds: u64 = match fraction.len() {
            0 => 0,
            digits @ 1..=9 => fraction.parse::<u64>().ok()? * 10u64.pow(9 - digits as u32),
            _ => return None,
        };
        if !possible {
            return None;
        }
        // The inverse of `of_unix_ns`.
        let year = year - u64::from(month <= 2);
        let (era, of_era) = (year / 400, year % 400);
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        Some((days * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000_000 + nanoseconds)
    }

    /// As RFC 3339 has it: `2026-11-21T14:02:06.123Z`.
    pub fn rfc3339(&self) -> String {
        let Date { year, month, day, hour, minute, second, millisecond } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }

    /// The time of day: `14:02:06`.
    pub fn time_of_day(&self) -> String {
        format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
    }
}

/// To the second: `2026-11-21 14:02:06 UTC`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02} {} UTC", self.year, self.month, self.day, self.time_of_day())
    }
}

#[cfg(test)]
mod tests {
    use super::Date;

    #[test]
    fn moments_are_the_calendars() {
        // Seconds from `date -u -d ... +%s`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_799, "2000-02-29T23:59:59.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_795_269_726, "2026-11-21T14:02:06.000Z"),
            (1_830_297_599, "2027-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Date::of_unix_ns(seconds * 1_000_000_000).rfc3339(), text);
            assert_eq!(Date::unix_ns_of(text), Some(seconds * 1_000_000_000));
        }
        assert_eq!(Date::unix_ns_of("2026-11-21T14:02:06.1234567Z"), Some(1_795_269_726_123_456_700));
        for text in
            ["", "T", "2026-11-21", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z", "2026-11-21T14:02:06.Z2"]
        {
            assert_eq!(Date::unix_ns_of(text), None, "{text}");
        }
    }

    #[test]
    fn fractions_are_cut_to_milliseconds() {
        let date = Date::of_unix_ns(1_795_269_726_987_654_321);
        assert_eq!(date.rfc3339(), "2026-11-21T14:02:06.987Z");
        assert_eq!(date.to_string(), "2026-11-21 14:02:06 UTC");
        assert_eq!(date.time_of_day(), "14:02:06");
    }

    #[test]
    fn any_number_is_a_moment() {
        assert!(Date::of_unix_ns(u64::MAX).rfc3339().starts_with("2554-07-21"));
    }
}
