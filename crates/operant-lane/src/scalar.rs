//! Scalar lanes: `f32`, the reference that every 32-bit lane equals bit for bit, and `f64`, for comparison with
//! references in double precision.

use core::num::Wrapping;

use crate::bundle::{Bundle, leaf_bundle};
use crate::lane::{Float, Int, Lane, Mask, Packed, Select, Uint, forward};
use crate::memory::{Addressed, Words};

impl Mask for bool {
    #[inline(always)]
    fn splat(value: bool) -> Self {
        value
    }
}

macro_rules! select_by_bool {
    ($($value:ty),*) => {$(
        impl Select<bool> for $value {
            #[inline(always)]
            fn select(mask: bool, yes: Self, no: Self) -> Self {
                if mask { yes } else { no }
            }
        }
    )*};
}
select_by_bool!(f32, f64, bool, Wrapping<u32>, Wrapping<i32>);

/// What signed and unsigned numbers share.
macro_rules! whole_number {
    ($number:ty) => {
        #[inline(always)]
        fn splat(value: $number) -> Self {
            Wrapping(value)
        }
        #[inline(always)]
        fn shl(self, amount: u32) -> Self {
            Wrapping(self.0.wrapping_shl(amount))
        }
        #[inline(always)]
        fn shr(self, amount: u32) -> Self {
            Wrapping(self.0.wrapping_shr(amount))
        }
        #[inline(always)]
        fn lt(self, other: Self) -> bool {
            self.0 < other.0
        }
        #[inline(always)]
        fn eq(self, other: Self) -> bool {
            self.0 == other.0
        }
    };
}

impl Uint for Wrapping<u32> {
    type Mask = bool;
    type Int = Wrapping<i32>;

    whole_number!(u32);
    #[inline(always)]
    fn shl_by(self, amount: Self) -> Self {
        Wrapping(self.0.wrapping_shl(amount.0))
    }
    #[inline(always)]
    fn shr_by(self, amount: Self) -> Self {
        Wrapping(self.0.wrapping_shr(amount.0))
    }
    #[inline(always)]
    fn mul_wide(self, other: Self) -> (Self, Self) {
        let product = u64::from(self.0) * u64::from(other.0);
        (Wrapping((product >> 32) as u32), Wrapping(product as u32))
    }
    #[inline(always)]
    fn to_int(self) -> Wrapping<i32> {
        Wrapping(self.0 as i32)
    }
    #[inline(always)]
    fn gather(table: &[u32], index: Self) -> Self {
        Wrapping(table[(index.0 as usize).min(table.len() - 1)])
    }
}

impl Addressed<bool> for Wrapping<u32> {
    #[inline(always)]
    fn read<const N: usize>(words: &[Self; N], index: Self) -> Self {
        words[(index.0 as usize).min(N - 1)]
    }
    #[inline(always)]
    fn write<const N: usize>(words: &mut [Self; N], at: bool, index: Self, value: Self) {
        if let Some(word) = words.get_mut(index.0 as usize)
            && at
        {
            *word = value;
        }
    }
}

impl Int for Wrapping<i32> {
    type Mask = bool;
    type Uint = Wrapping<u32>;

    whole_number!(i32);
    #[inline(always)]
    fn to_uint(self) -> Wrapping<u32> {
        Wrapping(self.0 as u32)
    }
}

macro_rules! scalar_lane {
    ($float:ident, $bits:ident, double: $double:expr, fused: $fused:path, mantissa: $mantissa:expr, bias: $bias:expr) => {
        impl Float for $float {
            type Mask = bool;
            type Uint = Wrapping<u32>;
            type Int = Wrapping<i32>;
            const DOUBLE: bool = $double;

            #[inline(always)]
            fn splat(value: f64) -> Self {
                value as $float
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                $fused(self, b, c)
            }
            forward!($float: abs abs, sqrt sqrt, floor floor, round round_ties_even);
            #[inline(always)]
            fn lt(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn le(self, other: Self) -> bool {
                self <= other
            }
            #[inline(always)]
            fn eq(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn to_int(self) -> Wrapping<i32> {
                Wrapping(self as i32)
            }
            #[inline(always)]
            fn from_int(value: Wrapping<i32>) -> Self {
                value.0 as $float
            }
            #[inline(always)]
            fn from_uint(value: Wrapping<u32>) -> Self {
                value.0 as $float
            }
            #[inline(always)]
            fn exp2i(exponent: Wrapping<i32>) -> Self {
                $float::from_bits((((exponent.0 + $bias) as u32) as $bits) << $mantissa)
            }
            #[inline(always)]
            fn mantissa_exponent(self) -> (Self, Wrapping<i32>) {
                let bits = self.to_bits();
                let exponent = (bits >> $mantissa) as i32 - $bias;
                let mantissa = (bits & (((1 as $bits) << $mantissa) - 1)) | (($bias as $bits) << $mantissa);
                ($float::from_bits(mantissa), Wrapping(exponent))
            }
            #[inline(always)]
            fn gather(table: &[f64], index: Wrapping<u32>) -> Self {
                table[(index.0 as usize).min(table.len() - 1)] as $float
            }
        }

        impl Lane for $float {
            type Float = $float;
            type Uint = Wrapping<u32>;
            type Int = Wrapping<i32>;
            type Mask = bool;
            type Memory<const N: usize> = Words<Wrapping<u32>, N>;
            type Same = Wrapping<u32>;

            #[inline(always)]
            fn when<B: Bundle<Self>>(mask: bool, value: B, rule: impl FnOnce(B) -> B) -> B {
                if mask { rule(value) } else { value }
            }
            #[inline(always)]
            fn turns<B: Bundle<Self>>(count: u32, value: &mut B, rule: impl Fn(Self::Same, &mut B)) {
                (0..count).for_each(|turn| rule(Wrapping(turn), value));
            }
            #[inline(always)]
            fn spread(value: Wrapping<u32>) -> Wrapping<u32> {
                value
            }
            #[inline(always)]
            fn entry(table: &[f64], index: Wrapping<u32>) -> $float {
                Float::gather(table, index)
            }
            #[inline(always)]
            fn repeat_while<B: Bundle<Self>>(
                count: u32,
                mut value: B,
                active: impl Fn(&B) -> Self::Mask,
                rule: impl Fn(Self::Uint, B) -> B,
            ) -> B {
                for i in 0..count {
                    if !active(&value) {
                        break;
                    }
                    value = rule(Wrapping(i), value);
                }
                value
            }
        }

        leaf_bundle!($float, $float, float, Float);
        leaf_bundle!($float, Wrapping<u32>, uint, Uint);
        leaf_bundle!($float, Wrapping<i32>, int, Int);
        leaf_bundle!($float, bool, mask, Mask);
    };
}
scalar_lane!(f32, u32, double: false, fused: crate::isa::fused, mantissa: 23, bias: 127);
scalar_lane!(f64, u64, double: true, fused: f64::mul_add, mantissa: 52, bias: 1023);

impl Packed for f32 {
    const WIDTH: usize = 1;

    #[inline(always)]
    fn load_float(from: &[f32]) -> f32 {
        from[0]
    }
    #[inline(always)]
    fn store_float(value: f32, to: &mut [f32]) {
        to[0] = value;
    }
    #[inline(always)]
    fn load_uint(from: &[u32]) -> Wrapping<u32> {
        Wrapping(from[0])
    }
    #[inline(always)]
    fn store_uint(value: Wrapping<u32>, to: &mut [u32]) {
        to[0] = value.0;
    }
    #[inline(always)]
    fn bits(mask: bool) -> u32 {
        u32::from(mask)
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> bool {
        bits & 1 == 1
    }
    #[inline(always)]
    fn to_words(value: f32) -> Wrapping<u32> {
        Wrapping(value.to_bits())
    }
    #[inline(always)]
    fn from_words(words: Wrapping<u32>) -> f32 {
        f32::from_bits(words.0)
    }
    #[inline(always)]
    fn mask_to_words(mask: bool) -> Wrapping<u32> {
        Wrapping(if mask { u32::MAX } else { 0 })
    }
    #[inline(always)]
    fn mask_from_words(words: Wrapping<u32>) -> bool {
        words.0 != 0
    }
}
