//! The few messages of TensorBoard's protocol buffers that a scalar needs, encoded and skimmed by hand.
//!
//! ```text
//! Event      { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log = 7; }
//! Summary    { repeated Value value = 1; }
//! Value      { string tag = 1; float simple_value = 2; SummaryMetadata metadata = 9; }
//! SummaryMetadata { PluginData plugin_data = 1; }
//! PluginData { string plugin_name = 1; bytes content = 2; }
//! SessionLog { SessionStatus status = 1; }                       START = 1
//! ```
//!
//! A field is a key (`number << 3 | wire type`, a varint) and its value: wire type 0 a varint, 1 eight bytes, 2 a varint
//! length and as many bytes, 5 four bytes.

/// The version every event file must begin with.
const FILE_VERSION: &str = "brain.Event:2";

/// The first event of a file.
pub fn file_version(wall_time: f64) -> Vec<u8> {
    let mut event = head(wall_time, 0);
    bytes(&mut event, 3, FILE_VERSION.as_bytes());
    event
}

/// The event that makes a reader discard events from `step` on.
pub fn session_start(wall_time: f64, step: u64) -> Vec<u8> {
    let mut event = head(wall_time, step);
    let mut log = Vec::new();
    key(&mut log, 1, 0);
    varint(&mut log, 1);
    bytes(&mut event, 7, &log);
    event
}

/// One event with every value that is not NaN, as the f32 that TensorBoard keeps.
pub fn scalars<'a>(wall_time: f64, step: u64, values: impl Iterator<Item = (&'a str, f64)>) -> Vec<u8> {
    let (mut event, mut summary, mut message) = (head(wall_time, step), Vec::new(), Vec::new());
    for (tag, value) in values.filter(|(_, value)| !value.is_nan()) {
        message.clear();
        bytes(&mut message, 1, tag.as_bytes());
        key(&mut message, 2, 5);
        message.extend((value as f32).to_le_bytes());
        bytes(&mut summary, 1, &message);
    }
    bytes(&mut event, 5, &summary);
    event
}

/// The event that shows a run's hyperparameters in TensorBoard's HParams view:
///
/// ```text
/// content: HParamsPluginData { int32 version = 1; SessionStartInfo session_start_info = 3; }
/// SessionStartInfo           { map<string, Value> hparams = 1; double start_time_secs = 5; }
/// Value                      { double number_value = 2; string string_value = 3; bool bool_value = 4; }
/// ```
pub fn hyperparameters(wall_time: f64, values: &[(String, toml::Value)]) -> Vec<u8> {
    let (mut start, mut entry, mut value) = (Vec::new(), Vec::new(), Vec::new());
    for (name, given) in values {
        entry.clear();
        value.clear();
        match given {
            toml::Value::Float(x) => real(&mut value, 2, *x),
            toml::Value::Integer(n) => real(&mut value, 2, *n as f64),
            toml::Value::Boolean(on) => {
                key(&mut value, 4, 0);
                varint(&mut value, u64::from(*on));
            }
            toml::Value::String(text) => bytes(&mut value, 3, text.as_bytes()),
            other => bytes(&mut value, 3, other.to_string().as_bytes()),
        }
        bytes(&mut entry, 1, name.as_bytes());
        bytes(&mut entry, 2, &value);
        bytes(&mut start, 1, &entry);
    }
    real(&mut start, 5, wall_time);
    let mut content = Vec::new();
    key(&mut content, 1, 0);
    varint(&mut content, 0);
    bytes(&mut content, 3, &start);
    let mut plugin = Vec::new();
    bytes(&mut plugin, 1, b"hparams");
    bytes(&mut plugin, 2, &content);
    let mut metadata = Vec::new();
    bytes(&mut metadata, 1, &plugin);
    let mut message = Vec::new();
    bytes(&mut message, 1, b"_hparams_/session_start_info");
    bytes(&mut message, 9, &metadata);
    let (mut event, mut summary) = (head(wall_time, 0), Vec::new());
    bytes(&mut summary, 1, &message);
    bytes(&mut event, 5, &summary);
    event
}

/// The step of an encoded event, 0 where it has none; `None` if the bytes are not a message.
pub fn step(event: &[u8]) -> Option<u64> {
    let (mut rest, mut step) = (event, 0);
    while !rest.is_empty() {
        match field(&mut rest)? {
            (2, Value::Varint(value)) => step = value,
            _ => continue,
        }
    }
    Some(step)
}

fn head(wall_time: f64, step: u64) -> Vec<u8> {
    let mut event = Vec::with_capacity(1024);
    real(&mut event, 1, wall_time);
    key(&mut event, 2, 0);
    varint(&mut event, step);
    event
}

fn key(to: &mut Vec<u8>, number: u64, wire_type: u64) {
    varint(to, number << 3 | wire_type);
}

fn real(to: &mut Vec<u8>, number: u64, value: f64) {
    key(to, number, 1);
    to.extend(value.to_le_bytes());
}

/// Seven bits a byte, least significant first; the top bit is set if more bytes follow.
fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn bytes(to: &mut Vec<u8>, number: u64, value: &[u8]) {
    key(to, number, 2);
    varint(to, value.len() as u64);
    to.extend_from_slice(value);
}

/// A field's value in wire format.
#[derive(Debug, PartialEq)]
pub enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire types 1, 2 and 5.
    Bytes(&'a [u8]),
}

/// Reads one field from the front of a message: its number and value.
pub fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = take_varint(rest)?;
    let value = match key & 7 {
        0 => Value::Varint(take_varint(rest)?),
        1 => Value::Bytes(rest.split_off(..8)?),
        2 => {
            let length = usize::try_from(take_varint(rest)?).ok()?;
            Value::Bytes(rest.split_off(..length)?)
        }
        5 => Value::Bytes(rest.split_off(..4)?),
        _ => return None,
    };
    Some((key >> 3, value))
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let &byte = rest.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        assert_eq!(
            scalars(1.0, 300, [("a/b", 0.5), ("gone", f64::NAN)].into_iter()),
            [
                &[0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f][..], // wall_time 1.0
                &[0x10, 0xac, 0x02],                       // step 300
                &[0x2a, 12, 0x0a, 10, 0x0a, 3],            // summary, value, tag
                b"a/b",
                &[0x15, 0, 0, 0, 0x3f], // simple_value 0.5
            ]
            .concat()
        );
        assert!(file_version(0.0).ends_with(b"\x1a\x0dbrain.Event:2"));
        assert!(session_start(0.0, 7).ends_with(&[0x10, 7, 0x3a, 2, 0x08, 1]));
    }

    #[test]
    fn a_step_reads_back_and_garbage_has_none() {
        for n in [0, 1, 127, 128, 1 << 40, i64::MAX as u64] {
            assert_eq!(step(&session_start(5.0, n)), Some(n));
            assert_eq!(step(&scalars(5.0, n, [("x", 1.0)].into_iter())), Some(n));
        }
        let event = scalars(5.0, 9, [("x", 1.0)].into_iter());
        for cut in 1..event.len() {
            let _ = step(&event[..cut]);
        }
        assert_eq!(step(&[0xff; 20]), None);
        assert_eq!(step(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), None);
        assert_eq!(step(&[0x0c]), None);
    }
}
