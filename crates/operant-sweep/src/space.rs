//! The settings that a sweep varies, and their possible values.

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::random::Random;

/// Values of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Values {
    List(Vec<Value>),
    /// A number between bounds.
    Range {
        /// Lowest and highest value.
        bounds: [f64; 2],
        /// Whether the logarithm is uniform, rather than the number.
        log: bool,
        /// Whether the number is rounded to a whole one.
        whole: bool,
    },
}

/// A setting and its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name of the setting, as in `--set`.
    pub key: String,
    pub values: Values,
}

/// One value for each axis.
pub type Point = Vec<Value>;

impl Values {
    /// The value at a place between 0 and 1.
    fn at(&self, place: f64) -> Value {
        match self {
            Values::List(list) => list[((place * list.len() as f64) as usize).min(list.len() - 1)].clone(),
            Values::Range { bounds: [low, high], log, whole } => {
                let place = place.clamp(0.0, 1.0);
                // Whole numbers have equal shares of the range.
                let (first, last) = if *whole { (low - 0.5, high + 0.5) } else { (*low, *high) };
                let first = if *log { first.max(low / 2.0) } else { first };
                let number =
                    if *log { first * (last / first).powf(place) } else { first + (last - first) * place };
                inside([*low, *high], *whole, number)
            }
        }
    }

    /// The values in a line: `0.001, 0.01`, or `0.9 to 0.99`, or `0.0001 to 0.01, log-uniform`.
    pub fn shown(&self) -> String {
        match self {
            Values::List(list) => {
                let plain: Vec<String> = list.iter().map(crate::search::plain).collect();
                plain.join(if list.iter().any(Value::is_array) { "; " } else { ", " })
            }
            Values::Range { bounds: [low, high], log, .. } => {
                format!("{low} to {high}{}", if *log { ", log-uniform" } else { "" })
            }
        }
    }

    /// Each value of a list, or the bounds of a range and a number between them.
    pub fn examples(&self) -> Vec<Value> {
        match self {
            Values::List(list) => list.clone(),
            Values::Range { .. } => vec![self.at(0.0), self.at(1.0), self.at(0.382)],
        }
    }

    /// The largest number, or the first value where values have no order.
    pub fn largest(&self) -> Value {
        match self {
            Values::List(list) => {
                let by_number =
                    list.iter().max_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
                by_number.unwrap_or(&list[0]).clone()
            }
            Values::Range { .. } => self.at(1.0),
        }
    }

    /// Where a value lies between 0 and 1.
    fn place(&self, value: &Value) -> f64 {
        match self {
            Values::List(list) => {
                let index = list.iter().position(|other| other == value).unwrap_or(0);
                (index as f64 + 0.5) / list.len() as f64
            }
            Values::Range { bounds: [low, high], log, .. } => {
                let number = number(value).unwrap_or(*low);
                let place = if *log {
                    (number / low).ln() / (high / low).ln()
                } else {
                    (number - low) / (high - low)
                };
                if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.5 }
            }
        }
    }

    /// Whether the list's values have no order.
    fn is_unordered(&self) -> bool {
        matches!(self, Values::List(list) if list.iter().any(|value| number(value).is_none()))
    }

    /// A value near this one: 0.8 or 1.2 times it, or a neighbour in the list.
    fn near(&self, value: &Value, random: &mut Random) -> Value {
        let up = random.uniform() < 0.5;
        match self {
            Values::List(list) => {
                let index = list.iter().position(|other| other == value).unwrap_or(0);
                let next = if up { (index + 1).min(list.len() - 1) } else { index.saturating_sub(1) };
                list[next].clone()
            }
            Values::Range { bounds: [low, high], whole, .. } => {
                inside([*low, *high], *whole, number(value).unwrap_or(*low) * if up { 1.2 } else { 0.8 })
            }
        }
    }
}

pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

/// A number of a range, to four digits or whole: what a person would write.
fn inside([low, high]: [f64; 2], whole: bool, number: f64) -> Value {
    if whole {
        return Value::Integer(number.clamp(low, high).round() as i64);
    }
    let rounded = format!("{number:.3e}").parse().unwrap_or(number);
    Value::Float(f64::clamp(rounded, low, high))
}

/// Number of combinations of lists; None if an axis is a range.
pub fn grid_size(axes: &[Axis]) -> Option<usize> {
    axes.iter().try_fold(1_usize, |size, axis| match &axis.values {
        Values::List(list) => Some(size.saturating_mul(list.len())),
        Values::Range { .. } => None,
    })
}

/// A combination of lists by its number; the last axis changes fastest. A range has its lowest value.
pub fn grid_point(axes: &[Axis], mut number: usize) -> Point {
    let mut point: Point = axes
        .iter()
        .rev()
        .map(|axis| match &axis.values {
            Values::List(list) => {
                let value = list[number % list.len()].clone();
                number /= list.len();
                value
            }
            range => range.at(0.0),
        })
        .collect();
    point.reverse();
    point
}

/// A point drawn at random.
pub fn sample(axes: &[Axis], random: &mut Random) -> Point {
    axes.iter().map(|axis| axis.values.at(random.uniform())).collect()
}

/// A point near this one, each value moved up or down.
pub fn explore(axes: &[Axis], point: &[Value], random: &mut Random) -> Point {
    axes.iter().zip(point).map(|(axis, value)| axis.values.near(value, random)).collect()
}

/// A point as features in [0, 1] for a model: one for each axis, or one for each value where values have no order.
pub fn coordinates(axes: &[Axis], point: &[Value]) -> Vec<f64> {
    let mut all = Vec::new();
    for (axis, value) in axes.iter().zip(point) {
        match &axis.values {
            Values::List(list) if axis.values.is_unordered() => {
                all.extend(list.iter().map(|other| f64::from(u8::from(other == value))));
            }
            values => all.push(values.place(value)),
        }
    }
    all
}
