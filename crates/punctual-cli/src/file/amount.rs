//! Durations and sizes as people write them: `1h30m`, `250ms`, `10MB`.

use std::time::Duration;

/// The units of a duration, longest name first where one begins with another.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 86_400 * 1_000_000_000),
];

pub(crate) const DURATION_HELP: &str =
    "write a duration such as \"500ms\", \"30s\", \"5m\", \"1h30m\" or \"2d\"";
pub(crate) const SIZE_HELP: &str = "write a size such as \"64KB\", \"10MB\" or \"1GB\"";

/// `1h30m`, `1.5s`, `2 h 5 m`: numbers each with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("an empty duration".to_owned());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        if number.is_empty() {
            return Err(format!("`{text}` is not a duration"));
        }
        let (unit, after) = split_unit(after.trim_start());
        let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(match unit {
                "" => format!("the duration `{text}` has a number without a unit"),
                _ => format!("the duration `{text}` has the unknown unit `{unit}`"),
            });
        };
        let part = scaled(number, *nanos).ok_or_else(|| format!("the duration `{text}` is too long"))?;
        total = total.checked_add(part).ok_or_else(|| format!("the duration `{text}` is too long"))?;
        rest = after.trim_start();
    }
    Ok(Duration::from_nanos(total))
}

/// `10MB`, `64 KB`, `4096`: powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, after) = split_number(text.trim());
    let factor = match after.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return Err(format!("`{text}` is not a size")),
    };
    if number.is_empty() {
        return Err(format!("`{text}` is not a size"));
    }
    scaled(number, factor).ok_or_else(|| format!("the size `{text}` is too large"))
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
    text.split_at(end.unwrap_or(text.len()))
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| character.is_ascii_digit() || character.is_whitespace());
    text.split_at(end.unwrap_or(text.len()))
}

/// A decimal number times `factor`, exactly, with what is below one cut off. `None` if it is no number or too large.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits beyond these are below everything.
    let digits = &fraction[..fraction.len().min(18)];
    let part: u64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let part = u128::from(part) * u128::from(factor) / 10_u128.pow(u32::try_from(digits.len()).ok()?);
    whole.checked_mul(factor)?.checked_add(u64::try_from(part).ok()?)
}

/// A duration as people read it: `1h30m`, `2.5s`, `310ms`; two units at most, none below a microsecond.
pub(crate) fn show(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let seconds = duration.as_secs();
    match seconds {
        0 if nanos < 1_000_000 => format!("{}us", nanos / 1_000),
        0 if nanos < 10_000_000 => tenths(nanos / 100_000, "ms"),
        0 => format!("{}ms", nanos / 1_000_000),
        1..60 => tenths(nanos / 100_000_000, "s"),
        60..3_600 => pair(seconds, 60, 'm', 1, 's'),
        3_600..86_400 => pair(seconds, 3_600, 'h', 60, 'm'),
        _ => pair(seconds, 86_400, 'd', 3_600, 'h'),
    }
}

fn tenths(tenths: u128, unit: &str) -> String {
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

fn pair(seconds: u64, large: u64, large_name: char, small: u64, small_name: char) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest:02}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        let cases = [
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("1h30m", 5_400_000_000_000),
            (" 2 h 5 m ", 7_500_000_000_000),
            ("7d", 604_800_000_000_000),
            ("0s", 0),
            ("3us 4ns", 3_004),
        ];
        for (text, nanos) in cases {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_text() {
        for text in ["", "10", "s", "1x", "1h30", "-5s", "1..5s", ".s", "99999999999d", "∞", "1e3s"] {
            let error = duration(text).unwrap_err();
            assert!(text.is_empty() || error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(
            (size("64KB"), size("1.5 m"), size("4096"), size("2GiB")),
            (Ok(65_536), Ok(1_572_864), Ok(4_096), Ok(2 << 30))
        );
        for text in ["", "MB", "1TB", "-1", "99999999999GB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_durations_are_short() {
        let cases = [
            (Duration::from_micros(12), "12us"),
            (Duration::from_micros(1_234), "1.2ms"),
            (Duration::from_millis(310), "310ms"),
            (Duration::from_secs(5), "5s"),
            (Duration::from_millis(2_500), "2.5s"),
            (Duration::from_millis(59_999), "59.9s"),
            (Duration::from_secs(90), "1m30s"),
            (Duration::from_secs(5_400), "1h30m"),
            (Duration::from_secs(86_400), "1d"),
            (Duration::MAX, "213503982334601d07h"),
        ];
        for (duration, text) in cases {
            assert_eq!(show(duration), text);
        }
    }
}
