//! Numbers, sizes and times as people read them. Every text here is ASCII and short.

use std::time::Duration;

use operant_metrics::{ENV_GROUP, MetricInfo, MetricSummary};

/// A number in at most seven characters plus its sign (eight where its exponent has three digits): `0`, `0.0123`, `1.23`, `12.3`, `123`, `1.23k`, `12.3M`, `1.2e-5`.
/// NaN is empty: the caller chooses the text for a missing value.
pub fn short(value: f64) -> String {
    if value.is_nan() {
        return String::new();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".to_string() } else { "-inf".to_string() };
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_string();
    }
    if !(0.000_999_5..999.5e15).contains(&size) {
        return exponent(value);
    }
    if size < 999.5 {
        return plain(value);
    }
    for (unit, suffix) in [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P")] {
        if size < unit * 999.5 {
            return digits(value / unit) + suffix;
        }
    }
    exponent(value)
}

/// Three significant digits, no trailing zeros after the point.
fn plain(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.099_95 => 2 + usize::from(s < 0.999_5),
        s if s >= 0.009_995 => 4,
        _ => 5,
    };
    trim(format!("{value:.decimals$}"))
}

/// Three significant digits for a value of 1 to 999, trailing zeros kept, so that a changing value does not change its width.
fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = if size >= 99.95 { 0 } else { 1 + usize::from(size < 9.995) };
    format!("{value:.decimals$}")
}

fn exponent(value: f64) -> String {
    let text = format!("{value:.1e}");
    match text.split_once(".0e") {
        Some((mantissa, power)) => format!("{mantissa}e{power}"),
        None => text,
    }
}

fn trim(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A count with thousands set apart: `12 345 678`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Environment steps in running text: `512`, `12.3 M`.
pub fn steps(value: f64) -> String {
    let text = short(value);
    match text.char_indices().last() {
        Some((at, unit))
            if unit.is_ascii_alphabetic() && text.len() > 1 && text != "inf" && text != "-inf" =>
        {
            format!("{} {unit}", &text[..at])
        }
        _ => text,
    }
}

/// Bytes in binary units: `0 B`, `512 B`, `1.50 KiB`, `24.1 MiB`.
pub fn bytes(value: f64) -> String {
    if !value.is_finite() {
        return short(value);
    }
    let size = value.abs();
    if size < 1024.0 {
        return format!("{value:.0} B");
    }
    let mut scaled = value;
    let mut suffix = "B";
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        scaled /= 1024.0;
        suffix = unit;
        if scaled.abs() < 999.5 {
            break;
        }
    }
    format!("{} {suffix}", digits(scaled))
}

/// A share of 0 to 1 in percent: `0%`, `7%`, `100%`.
pub fn percent(share: f64) -> String {
    match share.is_nan() {
        true => String::new(),
        false => format!("{:.0}%", share * 100.0),
    }
}

/// A share in percent with decimals for small values: `0%`, `0.03%`, `4.2%`, `57%`.
pub fn rate(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent.is_nan() => String::new(),
        0.0 => "0%".to_string(),
        _ if percent < 0.995 => format!("{percent:.2}%"),
        _ if percent < 9.95 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

/// A metric of the environment's own: a rate in percent if all its values were from 0 to 1, and how much of a bar it fills.
pub fn own(info: &MetricInfo, value: f64, over: &MetricSummary) -> (String, f64) {
    let is_rate = info.group == ENV_GROUP && info.unit == "1" && over.min >= 0.0 && over.max <= 1.0;
    let text = match (is_rate, &*info.unit) {
        (true, _) => rate(value),
        (_, "%") if !value.is_nan() => format!("{}%", short(value)),
        (_, unit) => with_unit(value, unit),
    };
    // A bar needs a lower end.
    let most =
        if over.min >= 0.0 { over.max.max(if info.unit == "%" { 100.0 } else { 1.0 }) } else { f64::NAN };
    (text, value / most)
}

/// A duration, as a running clock: `0:07`, `12:34`, `3:25:45`, `2d 03:25`.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if days > 0 {
        format!("{days}d {:02}:{:02}", hours % 24, minutes % 60)
    } else if hours > 0 {
        format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60)
    } else {
        format!("{minutes}:{:02}", seconds % 60)
    }
}

/// An age, for running text: `0.4 s`, `12 s`, `3 min`, `2.1 h`, `3 days`.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 9.95 {
        format!("{seconds:.1} s")
    } else if seconds < 119.5 {
        format!("{seconds:.0} s")
    } else if seconds < 7_170.0 {
        format!("{:.0} min", seconds / 60.0)
    } else if seconds < 172_800.0 {
        format!("{:.1} h", seconds / 3600.0)
    } else {
        format!("{:.0} days", seconds / 86_400.0)
    }
}

/// A short time with its unit: `850 us`, `12.3 ms`, `1.20 s`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return short(value);
    }
    let size = value.abs();
    if size == 0.0 {
        "0 s".to_string()
    } else if size < 999.5e-9 {
        format!("{} ns", digits(value * 1e9))
    } else if size < 999.5e-6 {
        format!("{} us", digits(value * 1e6))
    } else if size < 0.9995 {
        format!("{} ms", digits(value * 1e3))
    } else {
        format!("{} s", digits(value))
    }
}

/// A value with the unit that the table of metrics gives it: `steps/s`, `B`, `s`, `W`, `degC`, `Hz`, `1`...
pub fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        _ if value.is_nan() => String::new(),
        // An infinite speed was measured over zero time.
        _ if value.is_infinite() && unit.ends_with("/s") => String::new(),
        "1" | "" => short(value),
        "B" => bytes(value),
        "s" if value.abs() < 60.0 => seconds(value),
        "s" if (0.0..1e9).contains(&value) => clock(Duration::from_secs_f64(value)),
        "degC" => format!("{} C", short(value)),
        "Hz" if value.abs() >= 1e6 => {
            let text = short(value);
            let (number, prefix) = text.split_at(text.len() - 1);
            format!("{number} {prefix}Hz")
        }
        _ => format!("{} {unit}", short(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers() {
        let cases: [(f64, &str); 30] = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (9.99, "9.99"),
            (9.996, "10"),
            (12.34, "12.3"),
            (99.96, "100"),
            (475.0, "475"),
            (487.34, "487"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1000.0, "1.00k"),
            (1234.0, "1.23k"),
            (12_345.0, "12.3k"),
            (999_499.0, "999k"),
            (999_600.0, "1.00M"),
            (12_300_000.0, "12.3M"),
            (2.5e9, "2.50G"),
            (3e17, "300P"),
            (1e18, "1e18"),
            (0.5, "0.5"),
            (0.693, "0.693"),
            (0.0123, "0.0123"),
            (0.00025, "2.5e-4"),
            (0.001, "0.001"),
            (-0.0042, "-0.0042"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, ""),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn no_short_number_is_long() {
        for power in -300..300 {
            for mantissa in [1.0, 1.2345, 9.9949, 9.995, 9.9999, 5.55555] {
                let value = mantissa * 10f64.powi(power);
                let text = short(-value);
                let most = if power.abs() < 99 { 8 } else { 9 };
                assert!(text.len() <= most, "{value:e} -> {text}");
            }
        }
    }

    #[test]
    fn other_units() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(12_345_678), "12 345 678");
        assert_eq!(steps(12_300_000.0), "12.3 M");
        assert_eq!(steps(512.0), "512");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(bytes(1023.9 * 1024.0), "1.00 MiB");
        assert_eq!(percent(0.876), "88%");
        assert_eq!(clock(Duration::from_secs(7)), "0:07");
        assert_eq!(clock(Duration::from_secs(12_345)), "3:25:45");
        assert_eq!(clock(Duration::from_secs(86_400 * 2 + 12_345)), "2d 03:25");
        assert_eq!(age(Duration::from_millis(400)), "0.4 s");
        assert_eq!(age(Duration::from_secs(30)), "30 s");
        assert_eq!(age(Duration::from_secs(600)), "10 min");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(1.2), "1.20 s");
        assert_eq!(seconds(0.00085), "850 us");
        assert_eq!(with_unit(1.41e9, "Hz"), "1.41 GHz");
        assert_eq!(with_unit(0.012, "s"), "12.0 ms");
        assert_eq!(with_unit(90.0, "s"), "1:30");
        assert_eq!(with_unit(3.5, "nat"), "3.5 nat");
        assert_eq!(with_unit(f64::NAN, "B"), "");
        assert_eq!(with_unit(f64::NAN, "steps/s"), "");
        assert_eq!(with_unit(f64::INFINITY, "steps/s"), "");
    }
}
