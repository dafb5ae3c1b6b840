//! The spaces of an environment of the user's as it declares them: what its observations look like, and what its actions must.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::spec::bounds;

/// Both spaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnSpaces {
    /// Of observations.
    pub observation: OwnSpace,
    /// Of actions.
    pub action: OwnSpace,
}

/// A space: arrays, in dictionaries and tuples. The engine has the arrays in this order, flat, with whole numbers from 0 on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum OwnSpace {
    /// A value for each key, which is a text or a whole number.
    Dict {
        /// In the order of the space.
        spaces: Vec<(Value, OwnSpace)>,
    },
    /// Values one after the other.
    Tuple {
        /// In order.
        spaces: Vec<OwnSpace>,
    },
    /// Numbers.
    Box(OwnArray),
    /// One whole number.
    Discrete(OwnArray),
    /// Whole numbers.
    MultiDiscrete(OwnArray),
    /// Bits.
    MultiBinary(OwnArray),
}

/// An array of a space.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnArray {
    /// Its extents; none for a number.
    pub shape: Vec<usize>,
    /// NumPy's name of its type, such as `float32`.
    pub dtype: String,
    /// How many values each whole number has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub n: Vec<u64>,
    /// The first of these values; empty if all are 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<i64>,
    /// Least values of an action.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "bounds")]
    pub low: Vec<f64>,
    /// Greatest values of an action.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "bounds")]
    pub high: Vec<f64>,
}

impl OwnArray {
    /// How many numbers it has.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

impl OwnSpace {
    /// The arrays in order, each with the keys and positions that lead to it.
    pub fn arrays(&self) -> Vec<(Vec<Value>, &OwnArray)> {
        match self {
            OwnSpace::Dict { spaces } => {
                spaces.iter().flat_map(|(key, space)| space.arrays_below(key.clone())).collect()
            }
            OwnSpace::Tuple { spaces } => {
                (0..).zip(spaces).flat_map(|(k, it)| it.arrays_below(k.into())).collect()
            }
            OwnSpace::Box(array)
            | OwnSpace::Discrete(array)
            | OwnSpace::MultiDiscrete(array)
            | OwnSpace::MultiBinary(array) => vec![(Vec::new(), array)],
        }
    }

    fn arrays_below(&self, key: Value) -> Vec<(Vec<Value>, &OwnArray)> {
        let under = |(mut path, array): (Vec<Value>, _)| {
            path.insert(0, key.clone());
            (path, array)
        };
        self.arrays().into_iter().map(under).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_in_order_and_read_back() {
        let text = r#"{"type":"Dict","spaces":[["arm",{"type":"Tuple","spaces":[
            {"type":"Discrete","shape":[],"dtype":"int64","n":[3],"start":[-1]},
            {"type":"Box","shape":[2],"dtype":"float64","low":["-inf",0.0],"high":[1.5,"inf"]}]}],
            [7,{"type":"MultiBinary","shape":[2,2],"dtype":"int8"}]]}"#;
        let space: OwnSpace = serde_json::from_str(text).expect("a space");
        let arrays = space.arrays();
        let paths: Vec<String> =
            arrays.iter().map(|(path, _)| Value::from(path.clone()).to_string()).collect();
        assert_eq!(paths, [r#"["arm",0]"#, r#"["arm",1]"#, "[7]"]);
        assert_eq!(
            (arrays[0].1.start[0], arrays[1].1.low[0], arrays[2].1.size()),
            (-1, f64::NEG_INFINITY, 4)
        );
        let again = serde_json::to_string(&space).expect("numbers and texts");
        assert_eq!(serde_json::from_str::<OwnSpace>(&again).expect("a space"), space);
    }
}
