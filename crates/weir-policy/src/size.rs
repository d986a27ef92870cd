//! Sizes in bytes, as people write them.

/// The digits of a fraction that count: a byte is more than 10^-13 of the largest unit.
const MOST_DIGITS: usize = 15;

/// Parses a size as people write it: `65536`, `64K`, `1.5G`, `2T`. Returns bytes.
///
/// K, M, G and T are powers of 1024, in either case; `KB` and `KiB` mean the same (as in `pv`). A
/// fraction needs a unit, and is rounded down to whole bytes. `None` if the text is not a size, or
/// the size does not fit 64 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let Some((whole, fraction)) = number.split_once('.') else {
        return number.parse::<u64>().ok()?.checked_mul(1 << shift);
    };
    if shift == 0 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    // Further digits would be less than a byte.
    let fraction = &fraction[..fraction.len().min(MOST_DIGITS)];
    let parts = u128::from(fraction.parse::<u64>().ok()?) << shift;
    // Less than a unit, so less than 2^40.
    whole.checked_add((parts / 10_u128.pow(fraction.len() as u32)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let sizes =
            [("4096", 4096), ("64K", 65_536), ("1m", 1 << 20), ("2GiB", 2 << 30), ("7 ", 7)];
        let fractions = [("1.5G", 3 << 29), ("2T", 2 << 40), ("0.5tib", 1 << 39), ("1.0K", 1024)];
        let cut =
            [("0.1K", 102), ("1.99999999999999999999999K", 2047), ("16777215T", 0xff_ffff << 40)];
        let sizes = [&sizes[..], &fractions, &cut].concat();
        sizes.iter().for_each(|(text, bytes)| assert_eq!(parse_size(text), Some(*bytes), "{text}"));
        ["", "K", "-1", "1.5", "1.5B", ".5M", "1.M", "1.2.3M", "64X", "64KK", "1e3"]
            .iter()
            .chain(&["99999999999999999999", "99999999999999G", "16777216T", "+1K", "1. 5K"])
            .for_each(|text| assert_eq!(parse_size(text), None, "{text}"));
    }
}
