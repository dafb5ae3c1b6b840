//! Every configuration key, and the parsing and checking of values.

use operant_learn::Config;
use operant_learn::algorithms::Algorithm;
use operant_learn::setting::{Key, Kind, MAX_KERNEL, MAX_LAYERS, MAX_WIDTH, Range, Refusal};
use toml::Value;

use super::RunConfig;

/// Value of a number that the device chooses.
pub(super) const AUTO: &str = "auto";

/// Every key, in display order.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    let of_algorithms = Algorithm::ALL.into_iter().flat_map(|algorithm| algorithm.declaration().keys);
    Config::KEYS.iter().chain(of_algorithms).chain(RunConfig::KEYS)
}

/// The key of this name, now or in earlier versions.
pub fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name || key.earlier == Some(name))
}

/// The value in the key's type, or why it is refused.
type Checked = std::result::Result<Value, Refusal>;

/// Converts a value to this key's type.
///
/// Whole numbers are accepted where reals are expected, whole reals such as `2e5` where counts are, and one width
/// where a list is.
///
/// # Errors
/// Why the value is refused.
pub(super) fn accept(key: &Key, value: Value) -> Checked {
    match key.kind {
        Kind::Count { least, most } => count(least, most, value, "give a whole number such as 64"),
        Kind::CountOr { word, .. } if value.as_str() == Some(word) => Ok(value),
        Kind::CountOr { word, least, most } => {
            count(least, most, value, &format!("give a whole number such as 64, or {word}"))
        }
        Kind::Size(sizes) => size(sizes, value),
        Kind::Real(range) => real(range, value),
        Kind::Switch if value.is_bool() => Ok(value),
        Kind::Switch => Err(Refusal::new("is neither true nor false", "give true or false")),
        Kind::Choice { words, earlier } => {
            // `DQN` too.
            let lower = value.as_str().map(str::to_ascii_lowercase);
            if let Some(word) = words.iter().find(|word| lower.as_deref() == Some(word)) {
                return Ok(Value::String((*word).to_owned()));
            }
            let before = value.as_bool().map_or(value.as_str(), |on| Some(if on { "true" } else { "false" }));
            match earlier.iter().find(|(word, _)| before == Some(word)) {
                Some((_, now)) => Ok(Value::String((*now).to_owned())),
                None => Err(Refusal::new(
                    "is not one of the choices",
                    format!("give one of: {}", words.join(", ")),
                )),
            }
        }
        Kind::Text(syntax) => match value.as_str() {
            Some(text) if !text.is_empty() => (syntax.check)(text).map(|()| value),
            _ => Err(Refusal::new("is not a string", "give a non-empty string in quotes")),
        },
        Kind::Widths => widths(value),
        Kind::Convs => convs(value),
    }
}

pub(super) fn count(least: i64, most: i64, value: Value, remedy: &str) -> Checked {
    let n = match value {
        Value::Integer(n) => n,
        #[allow(clippy::cast_possible_truncation)] // whole and below 2^53
        Value::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => x as i64,
        // TOML's whole numbers have 64 bits.
        Value::String(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'_') => {
            return Err(too_large(most));
        }
        _ => return Err(Refusal::new("is not a whole number", remedy)),
    };
    if n < least {
        return Err(Refusal::new("is too small", format!("give a whole number of at least {least}")));
    }
    if n > most {
        return Err(too_large(most));
    }
    Ok(Value::Integer(n))
}

fn too_large(most: i64) -> Refusal {
    Refusal::new("is too large", format!("give a whole number of at most {most}"))
}

fn size(sizes: &[usize], value: Value) -> Checked {
    let size = value.as_integer().and_then(|n| usize::try_from(n).ok());
    if size.is_some_and(|n| n == 0 || sizes.contains(&n)) {
        return Ok(value);
    }
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let remedy = format!("give 0 for the plan's, or one of: {}", sizes.join(", "));
    Err(Refusal::new("is not one of the sizes", remedy))
}

fn real(range: Range, value: Value) -> Checked {
    let x = match value {
        #[allow(clippy::cast_precision_loss)] // the key holds a real
        Value::Integer(n) => n as f64,
        Value::Float(x) => x,
        _ => return Err(Refusal::new("is not a number", format!("give {range}, such as 0.5"))),
    };
    #[allow(clippy::cast_possible_truncation)] // checked here
    let in_f32 = x as f32;
    if range.contains(x) && !in_f32.is_finite() {
        let most = f64::from(f32::MAX);
        return Err(Refusal::new("is infinite in single precision", format!("give at most {most:.1e}")));
    }
    if range.contains(x) && x != 0.0 && in_f32 == 0.0 {
        let least = f64::from(f32::MIN_POSITIVE);
        return Err(Refusal::new("is zero in single precision", format!("give at least {least:.1e}, or 0")));
    }
    if range.contains(x) {
        return Ok(Value::Float(x));
    }
    Err(Refusal::new(format!("is not {range}"), format!("give {range}")))
}

fn widths(value: Value) -> Checked {
    let remedy =
        || format!("give a list of 1 to {MAX_LAYERS} widths from 1 to {MAX_WIDTH}, such as [64, 64]");
    let widths = match value {
        Value::Integer(_) => vec![value],
        Value::Array(widths) => widths,
        _ => return Err(Refusal::new("is not a list of widths", remedy())),
    };
    if widths.is_empty() || widths.len() > MAX_LAYERS {
        return Err(Refusal::new(format!("is not a list of 1 to {MAX_LAYERS} layer widths"), remedy()));
    }
    let fits = |width: &&Value| width.as_integer().is_some_and(|n| (1..=MAX_WIDTH).contains(&n));
    match widths.iter().find(|width| !fits(width)) {
        Some(other) => Err(Refusal::new(format!("has a layer of width {other}"), remedy())),
        None => Ok(Value::Array(widths)),
    }
}

fn convs(value: Value) -> Checked {
    let remedy = || "give a list of [channels, kernel, stride], such as [[16, 3, 1]], or []".to_owned();
    let layers = match value {
        Value::Array(layers) => layers,
        _ => return Err(Refusal::new("is not a list of convolutions", remedy())),
    };
    // One convolution without the outer brackets.
    let layers = if layers.iter().any(Value::is_integer) { vec![Value::Array(layers)] } else { layers };
    if layers.len() > MAX_LAYERS {
        return Err(Refusal::new(format!("is a list of more than {MAX_LAYERS} convolutions"), remedy()));
    }
    let most = [MAX_WIDTH, MAX_KERNEL, MAX_KERNEL];
    let fits = |layer: &&Value| {
        let numbers = layer.as_array().map_or(&[][..], Vec::as_slice);
        let is_number =
            |(value, most): (&Value, i64)| value.as_integer().is_some_and(|n| (1..=most).contains(&n));
        numbers.len() == most.len() && numbers.iter().zip(most).all(is_number)
    };
    match layers.iter().find(|layer| !fits(layer)) {
        Some(other) => {
            let most = format!("up to {MAX_WIDTH}, {MAX_KERNEL} and {MAX_KERNEL}");
            Err(Refusal::new(
                format!("has {other}, which is not [channels, kernel, stride], {most}"),
                remedy(),
            ))
        }
        None => Ok(Value::Array(layers)),
    }
}

/// Parses a value from a variable or the command line: TOML if it parses, a bare word otherwise, and a comma-separated
/// list for widths.
pub(super) fn parse(key: &Key, text: &str) -> Value {
    let text = text.trim();
    match key.kind {
        Kind::Text(_) => Value::String(text.trim_matches('"').to_string()),
        Kind::Widths if !text.starts_with('[') => parse_value(&format!("[{text}]")),
        _ => parse_value(text),
    }
}

/// Parses the value of a key, or of an option of an environment, as `--set` does.
pub fn parsed(name: &str, text: &str) -> Value {
    find(name).map_or_else(|| parse_value(text), |key| parse(key, text))
}

/// Whether the key's value is a whole number.
pub fn is_whole(key: &Key) -> bool {
    matches!(key.kind, Kind::Count { .. } | Kind::CountOr { .. } | Kind::Size(_))
}

/// A whole number as keys take it: `200704`, `200_704` or `2e5`.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let number = count(0, i64::MAX, parse_value(text.trim()), "").ok()?;
    u64::try_from(number.as_integer()?).ok()
}

/// A TOML value, or the text itself as a string if it is not TOML.
pub(super) fn parse_value(text: &str) -> Value {
    // A newline would allow further lines of TOML.
    if !text.contains('\n')
        && let Ok(mut table) = format!("value = {text}").parse::<toml::Table>()
        && let Some(value) = table.remove("value")
    {
        return value;
    }
    Value::String(text.to_string())
}
