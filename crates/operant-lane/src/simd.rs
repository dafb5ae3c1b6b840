//! SIMD lanes: [`Wide`] of 8 or 16 environments per instruction, on the `wide` crate.

use core::num::Wrapping;

use wide::bytemuck::{cast, cast_slice, cast_slice_mut};

use crate::bundle::{Bundle, leaf_bundle};
use crate::isa::{self, f32x8, f32x16, i32x8, i32x16, u32x8, u32x16};
use crate::lane::{Float, Int, Lane, Mask, Packed, Rule, Select, Uint, forward};
use crate::memory::{Addressed, Words};

/// The lane of N environments side by side; implemented for 8 and 16.
#[derive(Debug, Clone, Copy)]
pub struct Wide<const N: usize>;

macro_rules! mask_operators {
    ($mask:ident: $($operator:ident $method:ident),*) => {$(
        impl core::ops::$operator for $mask {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(core::ops::$operator::$method(self.0, other.0))
            }
        }
    )*};
}

/// Comparisons by those of the `wide` crate.
macro_rules! comparisons {
    ($mask:ident: $($method:ident $of:ident),*) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> $mask {
            $mask(cast(self.$of(other)))
        }
    )*};
}

/// Shifts by constants.
macro_rules! shifts {
    ($($method:ident $of:ident),*) => {$(
        #[inline(always)]
        fn $method(self, amount: u32) -> Self {
            self.$of(amount & 31)
        }
    )*};
}

macro_rules! simd_lane {
    ($width:literal, $mask:ident, $float:ident, $uint:ident, $int:ident, $from_int:ident) => {
        #[doc = concat!("Truth values of ", stringify!($width), " environments: all bits of a word set, or none.")]
        #[derive(Debug, Clone, Copy)]
        pub struct $mask($int);

        mask_operators!($mask: BitAnd bitand, BitOr bitor, BitXor bitxor);
        impl core::ops::Not for $mask {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Self(!self.0)
            }
        }
        impl Mask for $mask {
            #[inline(always)]
            fn splat(value: bool) -> Self {
                Self($int::splat(-i32::from(value)))
            }
        }
        impl Select<$mask> for $float {
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                cast::<$int, $float>(mask.0).select(yes, no)
            }
        }
        impl Select<$mask> for $uint {
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                cast::<$int, $uint>(mask.0).select(yes, no)
            }
        }
        impl Select<$mask> for $int {
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                mask.0.select(yes, no)
            }
        }
        impl Select<$mask> for $mask {
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                (mask & yes) | (!mask & no)
            }
        }

        impl Uint for $uint {
            type Mask = $mask;
            type Int = $int;

            #[inline(always)]
            fn splat(value: u32) -> Self {
                $uint::splat(value)
            }
            shifts!(shl unbounded_shl_scalar, shr unbounded_shr_scalar);
            #[inline(always)]
            fn shl_by(self, amount: Self) -> Self {
                self.unbounded_shl(amount & $uint::splat(31))
            }
            #[inline(always)]
            fn shr_by(self, amount: Self) -> Self {
                self.unbounded_shr(amount & $uint::splat(31))
            }
            #[inline(always)]
            fn mul_wide(self, other: Self) -> (Self, Self) {
                let (low, high) = self.mul_keep_low_high(other);
                (high, low)
            }
            comparisons!($mask: lt simd_lt, eq simd_eq);
            #[inline(always)]
            fn to_int(self) -> $int {
                cast(self)
            }
            #[inline(always)]
            fn gather(table: &[u32], index: Self) -> Self {
                let index: [u32; $width] = cast(index);
                cast(index.map(|i| table[(i as usize).min(table.len() - 1)]))
            }
        }

        impl Addressed<$mask> for $uint {
            #[inline(always)]
            fn read<const N: usize>(words: &[Self; N], index: Self) -> Self {
                let (words, index): (&[u32], [u32; $width]) = (cast_slice(words), cast(index));
                let mut read = [0; $width];
                for lane in 0..$width {
                    read[lane] = words[(index[lane] as usize).min(N - 1) * $width + lane];
                }
                cast(read)
            }
            #[inline(always)]
            fn write<const N: usize>(words: &mut [Self; N], at: $mask, index: Self, value: Self) {
                let at = at & Uint::lt(index, Uint::splat(N as u32));
                if !at.0.any() {
                    return;
                }
                // All lanes write; those that must not change write the current value.
                let value = at.select(value, Self::read(words, index));
                let words: &mut [u32] = cast_slice_mut(words);
                let (index, value): ([u32; $width], [u32; $width]) = (cast(index), cast(value));
                for lane in 0..$width {
                    words[(index[lane] as usize).min(N - 1) * $width + lane] = value[lane];
                }
            }
        }

        impl Int for $int {
            type Mask = $mask;
            type Uint = $uint;

            #[inline(always)]
            fn splat(value: i32) -> Self {
                $int::splat(value)
            }
            shifts!(shl unbounded_shl_scalar, shr unbounded_shr_scalar);
            comparisons!($mask: lt simd_lt, eq simd_eq);
            #[inline(always)]
            fn to_uint(self) -> $uint {
                cast(self)
            }
        }

        impl Float for $float {
            type Mask = $mask;
            type Uint = $uint;
            type Int = $int;
            const DOUBLE: bool = false;

            #[inline(always)]
            fn splat(value: f64) -> Self {
                $float::splat(value as f32)
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                // Without the instruction `wide` would round twice.
                if isa::SET.fused {
                    $float::mul_add(self, b, c)
                } else {
                    $float::from(isa::fused_all(self.to_array(), b.to_array(), c.to_array()))
                }
            }
            forward!($float: abs abs, sqrt sqrt, floor floor, round round_ties_even);
            comparisons!($mask: lt simd_lt, le simd_le, eq simd_eq);
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if isa::SET.takes_second {
                    self.fast_min(other)
                } else {
                    Float::lt(self, other).select(self, other)
                }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if isa::SET.takes_second {
                    self.fast_max(other)
                } else {
                    Float::gt(self, other).select(self, other)
                }
            }
            #[inline(always)]
            fn to_int(self) -> $int {
                self.trunc_int()
            }
            #[inline(always)]
            fn from_int(value: $int) -> Self {
                $float::$from_int(value)
            }
            #[inline(always)]
            fn from_uint(value: $uint) -> Self {
                // Both halves convert exactly, so the fused sum rounds once.
                let high = $float::$from_int(cast(Uint::shr(value, 16)));
                let low = $float::$from_int(cast(value & $uint::splat(0xffff)));
                Float::mul_add(high, $float::splat(65_536.0), low)
            }
            #[inline(always)]
            fn exp2i(exponent: $int) -> Self {
                cast(Int::shl(exponent + $int::splat(127), 23))
            }
            #[inline(always)]
            fn mantissa_exponent(self) -> (Self, $int) {
                let bits: $uint = cast(self);
                let exponent = Uint::to_int(Uint::shr(bits, 23)) - $int::splat(127);
                let mantissa = (bits & $uint::splat(0x007f_ffff)) | $uint::splat(0x3f80_0000);
                (cast(mantissa), exponent)
            }
            #[inline(always)]
            fn gather(table: &[f64], index: $uint) -> Self {
                let index: [u32; $width] = cast(index);
                $float::from(index.map(|i| table[(i as usize).min(table.len() - 1)] as f32))
            }
        }

        impl Lane for Wide<$width> {
            type Float = $float;
            type Uint = $uint;
            type Int = $int;
            type Mask = $mask;
            type Memory<const N: usize> = Words<$uint, N>;
            type Same = Wrapping<u32>;
            const UNROLLS: bool = true;

            #[inline(always)]
            fn when<B: Bundle<Self>>(mask: $mask, value: B, rule: impl FnOnce(B) -> B) -> B {
                if mask.0.any() { B::select(mask, rule(value), value) } else { value }
            }
            #[inline(always)]
            fn when_rule<B: Bundle<Self>>(mask: $mask, value: B, rule: impl Rule<B>) -> B {
                if mask.0.any() { B::select(mask, rule.apply(value), value) } else { value }
            }
            #[inline(always)]
            fn turns<B: Bundle<Self>>(count: u32, value: &mut B, rule: impl Fn(Self::Same, &mut B)) {
                (0..count).for_each(|turn| rule(Wrapping(turn), value));
            }
            #[inline(always)]
            fn spread(value: Wrapping<u32>) -> $uint {
                $uint::splat(value.0)
            }
            #[inline(always)]
            fn entry(table: &[f64], index: Wrapping<u32>) -> $float {
                Float::splat(table[(index.0 as usize).min(table.len() - 1)])
            }
            #[inline(always)]
            fn repeat_while<B: Bundle<Self>>(
                count: u32,
                mut value: B,
                active: impl Fn(&B) -> Self::Mask,
                rule: impl Fn(Self::Uint, B) -> B,
            ) -> B {
                for i in 0..count {
                    let mask = active(&value);
                    if !mask.0.any() {
                        break;
                    }
                    value = B::select(mask, rule($uint::splat(i), value), value);
                }
                value
            }
        }

        impl Packed for Wide<$width> {
            const WIDTH: usize = $width;

            #[inline(always)]
            fn load_float(from: &[f32]) -> $float {
                let from: &[f32; $width] = from.first_chunk().expect("a whole lane");
                $float::from(*from)
            }
            #[inline(always)]
            fn store_float(value: $float, to: &mut [f32]) {
                *to.first_chunk_mut().expect("a whole lane") = value.to_array();
            }
            #[inline(always)]
            fn load_uint(from: &[u32]) -> $uint {
                let from: &[u32; $width] = from.first_chunk().expect("a whole lane");
                $uint::from(*from)
            }
            #[inline(always)]
            fn store_uint(value: $uint, to: &mut [u32]) {
                *to.first_chunk_mut().expect("a whole lane") = value.to_array();
            }
            #[inline(always)]
            fn bits(mask: $mask) -> u32 {
                mask.0.to_bitmask()
            }
            #[inline(always)]
            fn from_bits(bits: u32) -> $mask {
                let places = $uint::from(core::array::from_fn::<u32, $width, _>(|i| 1 << i));
                !Uint::eq($uint::splat(bits) & places, $uint::splat(0))
            }
            #[inline(always)]
            fn to_words(value: $float) -> $uint {
                cast(value)
            }
            #[inline(always)]
            fn from_words(words: $uint) -> $float {
                cast(words)
            }
            #[inline(always)]
            fn mask_to_words(mask: $mask) -> $uint {
                cast(mask.0)
            }
            #[inline(always)]
            fn mask_from_words(words: $uint) -> $mask {
                $mask(cast(words))
            }
        }

        leaf_bundle!(Wide<$width>, $float, float, Float);
        leaf_bundle!(Wide<$width>, $uint, uint, Uint);
        leaf_bundle!(Wide<$width>, $int, int, Int);
        leaf_bundle!(Wide<$width>, $mask, mask, Mask);
    };
}

simd_lane!(8, Mask8, f32x8, u32x8, i32x8, from_i32x8);
simd_lane!(16, Mask16, f32x16, u32x16, i32x16, from_i32x16);
