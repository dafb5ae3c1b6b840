//! Converts a stored observation to the features that are the network's input.
//!
//! Real numbers and bits are stored as features. Indices and bytes are packed: an index below n becomes a one-hot
//! vector of n features, and a byte is divided by 255. If all features are 0 or 1, they are stored as bits, otherwise
//! as floats.

use std::fmt::Write;

use operant_lane::{Lane, Mask, Uint};

use crate::spec::ObsSpace;

/// The bit pattern of 1.0.
const ONE: u32 = 0x3f80_0000;

/// The stored fields of an observation space and the features computed from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    fields: Vec<Field>,
    words: usize,
    features: usize,
    is_binary: bool,
}

/// Items of one kind that are stored consecutively.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    word: usize,
    /// Bits per item: 1, 8, 16 or 32.
    bits: u32,
    /// Number of items.
    count: usize,
    feature: usize,
    /// Number of features of each item; the list repeats.
    below: Vec<u32>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Real,
    Bit,
    Index,
    Byte,
}

impl Field {
    /// First feature and number of features of an item.
    fn item(&self, item: usize) -> (usize, u32) {
        let period = self.below.len();
        let before: u32 = self.below[..item % period].iter().sum();
        let all: u32 = self.below.iter().sum();
        (self.feature + item / period * all as usize + before as usize, self.below[item % period])
    }

    fn mask(&self) -> u32 {
        u32::MAX >> (32 - self.bits)
    }
}

impl ObsSpace {
    /// How to compute the features; `None` if the observation is stored as features.
    pub fn packing(&self) -> Option<Packing> {
        if matches!(self, ObsSpace::Box { .. } | ObsSpace::Binary { .. }) || self.is_real() {
            return None;
        }
        let (mut fields, mut word, mut feature) = (Vec::new(), 0, 0);
        for (_, part) in self.parts() {
            let (kind, below) = match part {
                ObsSpace::Box { .. } => (Kind::Real, vec![1]),
                ObsSpace::Binary { .. } => (Kind::Bit, vec![1]),
                ObsSpace::Index { below, .. } => (Kind::Index, below.clone()),
                ObsSpace::Bytes { .. } => (Kind::Byte, vec![1]),
                ObsSpace::Parts(_) => unreachable!("parts have no parts"),
            };
            let bits = match part {
                ObsSpace::Box { .. } => 32,
                ObsSpace::Binary { .. } => 1,
                ObsSpace::Index { below, .. } if below.iter().any(|&below| below > 256) => 16,
                _ => 8,
            };
            fields.push(Field { word, bits, count: part.size(), feature, below, kind });
            (word, feature) = (word + part.words(), feature + part.features());
        }
        Some(Packing { fields, words: word, features: feature, is_binary: self.is_binary() })
    }
}

impl Packing {
    /// Words of a stored observation.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Words of the features: one per 32 bits, or one per float.
    pub fn input_words(&self) -> usize {
        if self.is_binary { self.features.div_ceil(32) } else { self.features }
    }

    /// Whether the features are bits.
    pub fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Writes the features (packed bits, or the bit patterns of floats) of the observations `obs`. Word k of both
    /// slices is at `k * stride + at`.
    #[inline(always)]
    pub fn expand<L: Lane>(&self, obs: &[L::Uint], input: &mut [L::Uint], stride: usize, at: usize) {
        if self.is_binary {
            (0..self.input_words()).for_each(|word| input[word * stride + at] = L::Uint::splat(0));
        }
        for field in &self.fields {
            let per_word = (32 / field.bits) as usize;
            for item in 0..field.count {
                let word = obs[(field.word + item / per_word) * stride + at];
                let shift = (item % per_word) as u32 * field.bits;
                let value = word.shr(shift) & L::Uint::splat(field.mask());
                let (first, below) = field.item(item);
                if self.is_binary {
                    let mut put = |word: usize, bits: L::Uint| {
                        let to = &mut input[word * stride + at];
                        *to = *to | bits;
                    };
                    if field.kind == Kind::Bit {
                        put(first / 32, value.shl(first as u32 % 32));
                        continue;
                    }
                    let bit = value + L::Uint::splat(first as u32);
                    let one = L::Uint::splat(1).shl_by(bit);
                    let (low, high) = (first / 32, (first + below as usize - 1) / 32);
                    for word in low..=high {
                        let here = bit.shr(5).eq(L::Uint::splat(word as u32));
                        put(word, if low == high { one } else { here.select(one, L::Uint::splat(0)) });
                    }
                } else {
                    let flag = |holds: L::Mask| holds.select(L::Uint::splat(ONE), L::Uint::splat(0));
                    for k in 0..below {
                        input[(first + k as usize) * stride + at] = match field.kind {
                            Kind::Real => value,
                            Kind::Bit => flag(value.eq(L::Uint::splat(1))),
                            Kind::Index => flag(value.eq(L::Uint::splat(k))),
                            Kind::Byte => L::Uint::gather(&PARTS_OF_255, value),
                        };
                    }
                }
            }
        }
    }

    /// CUDA C++ of `env_input`, which does the same for one observation, of `env_feature`, which returns one of its features as a float, and
    /// of `env_index`: of one of its indices, in their order, the index plus the bounds of those before it at its position.
    pub(crate) fn emit(&self) -> String {
        self.emit_input() + &self.emit_feature() + &self.emit_index()
    }

    fn emit_index(&self) -> String {
        let (mut body, mut start) = (String::new(), 0);
        for (number, field) in self.fields.iter().enumerate().filter(|(_, field)| field.kind == Kind::Index) {
            let Field { word, bits, count, below, .. } = field;
            let (per_word, mask, period, end) = (32 / bits, field.mask(), below.len(), start + count);
            let before = if period == 1 {
                String::new()
            } else {
                format!(" + input_offset_{number}(item % {period}u)")
            };
            write!(
                body,
                "    if (i < {end}u) {{\n        const unsigned item = i - {start}u;\n        \
                 return (__float_as_uint(obs[{word}u + item / {per_word}u]) >> item % {per_word}u * {bits}u & \
                 0x{mask:x}u){before};\n    }}\n"
            )
            .expect("writing to a string");
            start = end;
        }
        if body.is_empty() {
            return body;
        }
        let head = "__device__ __forceinline__ unsigned env_index(const float* obs, unsigned i)";
        format!("\n{head} {{\n{body}    return 0u;\n}}\n")
    }

    fn emit_feature(&self) -> String {
        let mut body = String::new();
        for (number, field) in self.fields.iter().enumerate() {
            let Field { word, bits, count, feature, below, kind, .. } = field;
            let (per_word, mask, period) = (32 / bits, field.mask(), below.len());
            let all: u32 = below.iter().sum();
            let end = feature + count / period * all as usize + prefix_sums(below)[count % period] as usize;
            let (item, first) = if period == 1 {
                (format!("(k - {feature}u) / {all}u"), format!("{feature}u + item * {all}u"))
            } else {
                let place = format!("input_place_{number}((k - {feature}u) % {all}u)");
                let offset = format!("input_offset_{number}(item % {period}u)");
                (
                    format!("(k - {feature}u) / {all}u * {period}u + {place}"),
                    format!("{feature}u + item / {period}u * {all}u + {offset}"),
                )
            };
            let word = format!("__float_as_uint(obs[{word}u + item / {per_word}u])");
            let value = format!("{word} >> item % {per_word}u * {bits}u & 0x{mask:x}u");
            let feature = match kind {
                Kind::Real => "__uint_as_float(value)".to_owned(),
                Kind::Bit => "__uint2float_rn(value)".to_owned(),
                Kind::Byte => "__fdiv_rn(__uint2float_rn(value), 255.0f)".to_owned(),
                Kind::Index => format!("value == k - ({first}) ? 1.0f : 0.0f"),
            };
            write!(
                body,
                "    if (k < {end}u) {{\n        const unsigned item = {item};\n        \
                 const unsigned value = {value};\n        return {feature};\n    }}\n"
            )
            .expect("writing to a string");
        }
        format!(
            "\n__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {{\n{body}    return 0.0f;\n}}\n"
        )
    }

    fn emit_input(&self) -> String {
        let mut body = String::new();
        let mut put = |depth: usize, line: &str| {
            writeln!(body, "{:indent$}{line}", "", indent = 4 * depth).expect("writing to a string");
        };
        let mut helpers = String::new();
        if self.is_binary {
            put(1, "#pragma unroll");
            put(1, "for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;");
        }
        for (number, field) in self.fields.iter().enumerate() {
            let Field { word, bits, count, feature, below, kind, .. } = field;
            let (per_word, mask) = (32 / bits, field.mask());
            let all: u32 = below.iter().sum();
            put(1, "#pragma unroll");
            put(1, &format!("for (unsigned i = 0u; i < {count}u; ++i) {{"));
            let shifted = format!("obs[{word}u + i / {per_word}u] >> i % {per_word}u * {bits}u");
            put(2, &format!("const unsigned value = {shifted} & 0x{mask:x}u;"));
            if below.len() == 1 {
                put(2, &format!("const unsigned first = {feature}u + i * {all}u;"));
            } else {
                let period = below.len();
                let offset = format!("input_offset_{number}(i % {period}u)");
                put(2, &format!("const unsigned first = {feature}u + i / {period}u * {all}u + {offset};"));
                helpers += &chain(&format!("input_offset_{number}"), &prefix_sums(below));
                // Maps a feature to its item by comparing with the first feature of the next item.
                let places: Vec<String> = prefix_sums(below)[1..]
                    .iter()
                    .enumerate()
                    .map(|(k, next)| format!("k < {next}u ? {k}u : "))
                    .collect();
                let (places, last) = (places.concat(), period - 1);
                let head = "__device__ __forceinline__ constexpr unsigned input_place";
                helpers += &format!("{head}_{number}(unsigned k) {{ return {places}{last}u; }}\n");
            }
            match (self.is_binary, kind) {
                (true, Kind::Bit) => put(2, "input[first / 32u] |= value << first % 32u;"),
                (true, _) => {
                    put(2, "const unsigned bit = first + value;");
                    put(2, "input[bit / 32u] |= 1u << bit % 32u;");
                }
                (false, Kind::Real) => put(2, "input[first] = value;"),
                (false, Kind::Bit) => put(2, &format!("input[first] = value ? 0x{ONE:x}u : 0u;")),
                (false, Kind::Byte) => {
                    put(2, "input[first] = __float_as_uint(__fdiv_rn(__uint2float_rn(value), 255.0f));");
                }
                (false, Kind::Index) => {
                    let count = if below.len() == 1 {
                        format!("{all}u")
                    } else {
                        let counts = format!("input_below_{number}");
                        helpers += &chain(&counts, below);
                        format!("{counts}(i % {}u)", below.len())
                    };
                    put(2, &format!("for (unsigned k = 0u; k < {count}; ++k)"));
                    put(3, &format!("input[first + k] = value == k ? 0x{ONE:x}u : 0u;"));
                }
            }
            put(1, "}");
        }
        let (words, bits) = (self.input_words(), u8::from(self.is_binary));
        format!(
            "\n#define ENV_PACKED 1   // env_input computes the network input\n\
             #define ENV_INPUT_BITS {bits}   // bits, or floats by their bits\n\
             constexpr unsigned ENV_INPUT_WORDS = {words}u;\n{helpers}\
             __device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {{\n{body}}}\n"
        )
    }
}

/// Bit patterns of byte / 255 as floats.
static PARTS_OF_255: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as f32 / 255.0).to_bits();
        byte += 1;
    }
    table
};

fn prefix_sums(below: &[u32]) -> Vec<u32> {
    below.iter().scan(0, |sum, below| Some(std::mem::replace(sum, *sum + below))).collect()
}

/// CUDA C++ of a constexpr function that maps a small index to its value.
fn chain(name: &str, values: &[u32]) -> String {
    let (last, others) = values.split_last().expect("an index has a bound");
    let chain: String =
        others.iter().enumerate().map(|(k, value)| format!("k == {k}u ? {value}u : ")).collect();
    format!("__device__ __forceinline__ constexpr unsigned {name}(unsigned k) {{ return {chain}{last}u; }}\n")
}

#[cfg(test)]
mod tests {
    use core::num::Wrapping;

    use operant_lane::{Packed, Wide};

    use super::*;

    fn space(mixed: bool) -> ObsSpace {
        let mut parts = vec![
            ("cells".to_owned(), ObsSpace::Index { shape: vec![5, 3], below: vec![11, 6, 40] }),
            ("flags".to_owned(), ObsSpace::Binary { shape: vec![35] }),
            ("state".to_owned(), ObsSpace::Index { shape: vec![], below: vec![500] }),
        ];
        if mixed {
            parts.push(("speed".to_owned(), ObsSpace::symmetric(&[1.0; 2])));
            parts.push(("picture".to_owned(), ObsSpace::Bytes { shape: vec![2, 3] }));
        }
        ObsSpace::Parts(parts)
    }

    /// Computes the features from the unpacked numbers of the observation, as a reference.
    fn features(space: &ObsSpace, words: &[u32]) -> Vec<f32> {
        let mut numbers = space.unpack(words).into_iter();
        let mut features = Vec::new();
        for (_, part) in space.parts() {
            let own = numbers.by_ref().take(part.size());
            match part {
                ObsSpace::Index { .. } => own.zip(part.bounds()).for_each(|(value, below)| {
                    features.extend((0..below).map(|k| f32::from(f64::from(k) == value)));
                }),
                ObsSpace::Bytes { .. } => features.extend(own.map(|value| value as f32 / 255.0)),
                _ => features.extend(own.map(|value| value as f32)),
            }
        }
        features
    }

    fn stored(value: <Wide<16> as Lane>::Uint) -> [u32; 16] {
        let mut words = [0; 16];
        Wide::<16>::store_uint(value, &mut words);
        words
    }

    fn observation(space: &ObsSpace, seed: u32) -> Vec<u32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
        let mut next = || {
            state = state.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
            state >> 8
        };
        let mut words = Vec::new();
        for (_, part) in space.parts() {
            let bits = match part {
                ObsSpace::Box { low, .. } => {
                    words.extend(low.iter().map(|_| (next() as f32 / 1e7).to_bits()));
                    continue;
                }
                ObsSpace::Binary { .. } => 1,
                _ if part.bounds().any(|below| below > 256) => 16,
                _ => 8,
            };
            let below: Vec<u32> = if part.bounds().next().is_some() {
                part.bounds().collect()
            } else {
                vec![1 << bits; part.size()]
            };
            let per_word = (32 / bits) as usize;
            words.extend(below.chunks(per_word).map(|items| {
                items.iter().enumerate().map(|(k, below)| (next() % below) << (k as u32 * bits)).sum::<u32>()
            }));
        }
        words
    }

    #[test]
    fn features_are_the_numbers_of_the_observation() {
        for mixed in [false, true] {
            let space = space(mixed);
            let packing = space.packing().expect("it is packed");
            assert_eq!(
                (packing.words(), packing.features),
                (space.words(), space.features()),
                "the sizes of the space"
            );
            let cases: Vec<Vec<u32>> = (0..16).map(|seed| observation(&space, seed)).collect();
            let mut wide_input = vec![<Wide<16> as Lane>::Uint::splat(0); packing.input_words() * 2];
            let wide: Vec<_> = (0..packing.words() * 2)
                .map(|k| {
                    Wide::<16>::load_uint(&core::array::from_fn::<u32, 16, _>(|lane| cases[lane][k / 2]))
                })
                .collect();
            packing.expand::<Wide<16>>(&wide, &mut wide_input, 2, 1);
            for (lane, words) in cases.iter().enumerate() {
                let mut input = vec![Wrapping(7); packing.input_words()];
                let words: Vec<Wrapping<u32>> = words.iter().map(|&word| Wrapping(word)).collect();
                packing.expand::<f32>(&words, &mut input, 1, 0);
                for (k, word) in input.iter().enumerate() {
                    assert_eq!(word.0, stored(wide_input[2 * k + 1])[lane], "word {k} on every lane");
                }
                let got: Vec<f32> = (0..packing.features)
                    .map(|k| match packing.is_binary() {
                        true => (input[k / 32].0 >> (k % 32) & 1) as f32,
                        false => f32::from_bits(input[k].0),
                    })
                    .collect();
                assert_eq!(got, features(&space, &cases[lane]));
            }
        }
    }
}
