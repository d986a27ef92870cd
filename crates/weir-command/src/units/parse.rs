//! Parses the sizes and times of all options.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Parses a size in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    weir_policy::size::parse_size(text)
        .ok_or_else(|| String::from("not a size; write 65536, 64K, 1.5G or 2T"))
}

/// Parses the id of a process.
pub fn process_id(text: &str) -> Result<i32, String> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| format!("'{text}' is not a process id"))
}

/// Makes a parser of whole numbers in this range. The error leaves out an end that nobody would reach.
pub fn whole<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: Copy + Display + FromStr + PartialOrd + Send + Sync + TryInto<u32> + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (*range.start(), *range.end());
        let has_end = most.try_into().is_ok_and(|most| most < u32::MAX);
        number.ok_or_else(|| match has_end {
            true => format!("not a whole number from {least} to {most}"),
            false => format!("not a whole number of at least {least}"),
        })
    }
}

/// Makes a parser of bytes a second: at least `least`; `why` is the error of fewer.
pub fn rate(least: u64, why: &'static str) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| match size(text)? {
        bytes if bytes < least => Err(why.to_owned()),
        bytes => Ok(bytes),
    }
}

/// Makes a parser of percentages in this range: `5%` or `5`; `why` is the error of others.
pub fn percent<N: Clone + FromStr + PartialOrd + Send + Sync + 'static>(
    range: RangeInclusive<N>,
    why: &'static str,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
        number.filter(|number| range.contains(number)).ok_or_else(|| why.to_owned())
    }
}

/// Parses a time: "5s", "200ms", "50us", "1.5m", "2h", "1d"; a number alone is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "us" => Some(1e-6),
        "ms" => Some(1e-3),
        "" | "s" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86_400.0),
        _ => None,
    };
    let seconds = seconds.and_then(|unit| Some(number.parse::<f64>().ok()? * unit));
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| String::from("not a time; write 20s, 500ms or 5m"))
}

/// Parses a time of at most a day, which may be none.
pub fn at_most_a_day(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time > DAY => Err(String::from("longer than a day")),
        time => Ok(time),
    }
}

/// Parses how long something may take: more than nothing, and at most a day.
pub fn budget(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(String::from("must be more than 0")),
        time if time > DAY => Err(String::from("longer than a day")),
        time => Ok(time),
    }
}

/// Parses the time between two updates: from 50 ms to a day.
pub fn period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < LEAST_PERIOD => Err(String::from("too short: at least 50ms")),
        time if time > DAY => Err(String::from("longer than a day")),
        time => Ok(time),
    }
}

const LEAST_PERIOD: Duration = Duration::from_millis(50);
const DAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let of = |text| duration(text).map(|time| time.as_millis());
        assert_eq!([of("5s"), of("200ms"), of("1.5m")], [Ok(5000), Ok(200), Ok(90_000)]);
        assert_eq!([of("2"), of("1h"), of("0")], [Ok(2000), Ok(3_600_000), Ok(0)]);
        assert_eq!([of("0.5d"), of("10min")], [Ok(43_200_000), Ok(600_000)]);
        for wrong in ["", "s", "5 s", "-1s", "5x", "1.2.3s", "99999999999999999999h", "NaN"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_out_of_range_are_refused_with_the_reason() {
        assert_eq!(budget("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(budget("0"), Err(String::from("must be more than 0")));
        assert_eq!(budget("25h"), Err(String::from("longer than a day")));
        assert_eq!(period("0.05"), Ok(LEAST_PERIOD));
        assert!(period("49ms").is_err_and(|why| why.contains("at least 50ms")));
        assert!(period("2d").is_err());
    }

    #[test]
    fn rates_and_percentages_out_of_range_are_refused_with_the_reason_given() {
        assert_eq!(rate(1024, "few")("1K"), Ok(1024));
        for slow in ["1023", "0"] {
            assert_eq!(rate(1024, "few")(slow), Err(String::from("few")));
        }
        assert!(rate(1, "few")("much").is_err_and(|why| why.starts_with("not a size; ")));
        let whole = |text| percent(1..=100_u8, "no share")(text);
        assert_eq!(["50%", "1", "100"].map(whole), [Ok(50), Ok(1), Ok(100)]);
        for wrong in ["0", "101%", "2.5", "-1", "%"] {
            assert_eq!(whole(wrong), Err(String::from("no share")));
        }
        let part = |text| percent(0.0..=100.0, "no share")(text);
        assert_eq!(["2.5%", "5 %", "0"].map(part), [Ok(2.5), Ok(5.0), Ok(0.0)]);
        assert!(part("NaN").is_err() && part("100.1").is_err());
    }

    #[test]
    fn whole_numbers() {
        assert_eq!([whole(1..=1000_u16)("1"), whole(0..=1000)("1000")], [Ok(1), Ok(1000)]);
        let refused = |text| whole(1..=1000_u16)(text).expect_err("refused");
        for wrong in ["", "abc", "0", "-1", "1001", "70000", "1.5"] {
            assert_eq!(refused(wrong), "not a whole number from 1 to 1000", "{wrong}");
        }
        let refused = whole(1..=u64::MAX)("0").expect_err("refused");
        assert_eq!(refused, "not a whole number of at least 1");
    }

    #[test]
    fn process_ids() {
        assert_eq!(process_id("4711"), Ok(4711));
        for wrong in ["abc", "", "0", "-3", "99999999999", "4711 "] {
            assert_eq!(process_id(wrong), Err(format!("'{wrong}' is not a process id")));
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(
            [size("2T"), size("1.5g"), size("10MB")],
            [Ok(2 << 40), Ok(3 << 29), Ok(10 << 20)]
        );
        assert!(size("much").is_err_and(|why| why.starts_with("not a size; ")));
    }
}
