//! Dates and times of day, as the C library finds them.

use std::fmt::{self, Display};

/// A date and a time of day. Displays as "2026-11-21 08:15:00".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CivilTime {
    /// The year of our era.
    pub year: i64,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
    /// The hour, from 0 to 23.
    pub hour: u8,
    /// The minute, from 0 to 59.
    pub minute: u8,
    /// The second, from 0; 60 in a leap second, where the time zone counts them.
    pub second: u8,
}

impl Display for CivilTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CivilTime { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Returns the time in UTC. `None`: the year is beyond what the C library counts.
pub fn utc(unix_s: i64) -> Option<CivilTime> {
    // SAFETY: both pointers are to live objects, and the call stores nothing beyond the second.
    broken_down(unix_s, |time, parts| unsafe { !libc::gmtime_r(time, parts).is_null() })
}

/// Returns the time in the time zone of this machine and user (`TZ`, else /etc/localtime; UTC where
/// neither can be read). `None`: the year is beyond what the C library counts.
pub fn local(unix_s: i64) -> Option<CivilTime> {
    // SAFETY: both pointers are to live objects, and the call stores nothing beyond the second. It
    // reads the environment; who changes that must see to it that no thread reads it (`set_var`).
    broken_down(unix_s, |time, parts| unsafe { !libc::localtime_r(time, parts).is_null() })
}

fn broken_down(
    unix_s: i64,
    convert: impl FnOnce(&libc::time_t, &mut libc::tm) -> bool,
) -> Option<CivilTime> {
    // SAFETY: all fields are numbers and a pointer that may be null.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    if !convert(&unix_s, &mut parts) {
        return None;
    }
    let small = |part: i32| u8::try_from(part).unwrap_or(0);
    Some(CivilTime {
        year: i64::from(parts.tm_year) + 1900,
        month: small(parts.tm_mon + 1),
        day: small(parts.tm_mday),
        hour: small(parts.tm_hour),
        minute: small(parts.tm_min),
        second: small(parts.tm_sec),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let shown = |unix_s| utc(unix_s).map(|time| time.to_string()).unwrap_or_default();
        assert_eq!(shown(0), "1970-01-01 00:00:00");
        assert_eq!(shown(-1), "1969-12-31 23:59:59");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(shown(1_795_248_901), "2026-11-21 08:15:01");
        assert_eq!(shown(253_402_300_800), "10000-01-01 00:00:00");
        assert_eq!(utc(i64::MAX), None);
        assert_eq!(local(i64::MIN), None);
    }

    /// The C library's own program is asked, since only it knows the machine's time zone.
    #[test]
    fn local_time_is_that_of_date() {
        for unix_s in [0, 1_795_248_901, 1_782_000_000, 4_102_444_800] {
            let date = std::process::Command::new("date")
                .args([format!("-d@{unix_s}"), "+%Y-%m-%d %H:%M:%S".into()])
                .output();
            let Ok(date) = date else {
                println!("SKIPPED: date is not installed");
                return;
            };
            let shown = local(unix_s).expect("a time").to_string();
            assert_eq!(shown, String::from_utf8_lossy(&date.stdout).trim_end());
        }
    }
}
