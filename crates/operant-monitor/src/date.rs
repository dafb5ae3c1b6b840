//! Dates and times in UTC.

use std::fmt;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date(OffsetDateTime);

impl Date {
    /// The date and time `unix_ns` nanoseconds after the beginning of 1970.
    pub fn of_unix_ns(unix_ns: u64) -> Self {
        // The last of them is in 2554, which the calendar has.
        let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ns));
        Date(moment.unwrap_or(OffsetDateTime::UNIX_EPOCH))
    }

    /// Nanoseconds since 1970 of a moment as RFC 3339 has it, such as `2026-11-21T14:02:06.123Z`; none for any other text, and
    /// for moments before 1970.
    pub fn unix_ns_of(text: &str) -> Option<u64> {
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        u64::try_from(moment.unix_timestamp_nanos()).ok()
    }

    /// As RFC 3339 has it: `2026-11-21T14:02:06.123Z`.
    pub fn rfc3339(&self) -> String {
        format!("{}T{}.{:03}Z", self.day(), self.time_of_day(), self.0.millisecond())
    }

    /// The time of day: `14:02:06`.
    pub fn time_of_day(&self) -> String {
        let (hour, minute, second) = self.0.to_hms();
        format!("{hour:02}:{minute:02}:{second:02}")
    }

    fn day(&self) -> String {
        let (year, month, day) = self.0.to_calendar_date();
        format!("{year:04}-{:02}-{day:02}", u8::from(month))
    }
}

/// To the second: `2026-11-21 14:02:06 UTC`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} UTC", self.day(), self.time_of_day())
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
