//! The lane traits: what a rule may do with numbers.
//!
//! | corner case | definition, on every lane |
//! | --- | --- |
//! | `min(a, b)`, `max(a, b)` | `a < b ? a : b`, `a > b ? a : b`: `b` when either is NaN |
//! | float to integer | truncates, saturates, NaN gives 0 |
//! | integer overflow | wraps |
//! | shift by 32 or more | by the amount modulo 32 |
//! | table index past the end | the last entry |
//! | `mul_add` | one rounding, with or without hardware FMA |

use core::fmt::Debug;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use crate::bundle::Bundle;
use crate::math;
use crate::memory::Memory;
use crate::philox;

/// A way of doing arithmetic: one environment at a time, several, or none yet (a recording).
pub trait Lane: Copy {
    /// Real numbers.
    type Float: Float<Mask = Self::Mask, Uint = Self::Uint, Int = Self::Int> + Bundle<Self>;
    /// Unsigned 32-bit integers.
    type Uint: Uint<Mask = Self::Mask, Int = Self::Int> + Bundle<Self>;
    /// Signed 32-bit integers.
    type Int: Int<Mask = Self::Mask, Uint = Self::Uint> + Bundle<Self>;
    /// Truth values.
    type Mask: Mask + Bundle<Self>;
    /// Whether loops that the compiler does not unroll by itself are worth a copy of their body for each turn.
    const UNROLLS: bool = false;
    /// An array of N unsigned integers in memory.
    type Memory<const N: usize>: Memory<Self, N> + Debug;

    /// The cold path: `rule(value)` where `mask` holds and `value` elsewhere. `rule` costs nothing while no lane
    /// needs it. It may use only its argument and its captures.
    fn when<B: Bundle<Self>>(mask: Self::Mask, value: B, rule: impl FnOnce(B) -> B) -> B;

    /// [`Lane::when`] for a rule that is inlined wherever it stands, which a closure of several callers need not be: then what of
    /// its results nobody reads is not computed.
    #[inline(always)]
    fn when_rule<B: Bundle<Self>>(mask: Self::Mask, value: B, rule: impl Rule<B>) -> B {
        Self::when(mask, value, |value| rule.apply(value))
    }

    /// A whole number that is equal in all environments, such as one computed from the turn of a loop.
    type Same: Uint;

    /// The number in every environment.
    fn spread(value: Self::Same) -> Self::Uint;

    /// `table[min(index, len - 1)]`, rounded to the lane's precision: one load for all environments.
    fn entry(table: &[f64], index: Self::Same) -> Self::Float;

    /// The bounded loop: `rule(0, value)`, `rule(1, value)`, .. `count` times, which change `value` in place, so that large values are not copied.
    /// A recording unrolls a loop whose first value is constant, even if the rule captures values that are not.
    fn turns<B: Bundle<Self>>(count: u32, value: &mut B, rule: impl Fn(Self::Same, &mut B));

    /// [`Lane::turns`] as a fold, with the turn as a number of each environment.
    #[inline(always)]
    fn repeat<B: Bundle<Self>>(count: u32, mut value: B, rule: impl Fn(Self::Uint, B) -> B) -> B {
        Self::turns(count, &mut value, |turn, value| *value = rule(Self::spread(turn), *value));
        value
    }

    /// Four random words of Philox, a bijection of `counter` for each `key`.
    #[inline(always)]
    fn philox(counter: [Self::Uint; 4], key: [Self::Uint; 2]) -> [Self::Uint; 4] {
        philox::rounds::<Self>(counter, key)
    }

    /// [`Lane::repeat`] with [`Lane::when`]: an environment keeps its value from the first turn on in which `active` does not hold
    /// for it. On the CPU the loop ends when `active` holds for none, so `count` may be much larger than what is common.
    #[inline(always)]
    fn repeat_while<B: Bundle<Self>>(
        count: u32,
        value: B,
        active: impl Fn(&B) -> Self::Mask,
        rule: impl Fn(Self::Uint, B) -> B,
    ) -> B {
        Self::repeat(count, value, |turn, value| Self::when(active(&value), value, |value| rule(turn, value)))
    }

    /// The loop over two arrays: folds `rule(&read[k], &mut own[k], value)` for each k. On a recording both become memory, so that the rule
    /// is emitted once; elsewhere this is a plain loop.
    #[inline(always)]
    fn scan<const N: usize, A: Bundle<Self>, B: Bundle<Self>, V: Bundle<Self>>(
        read: &[A; N],
        own: &mut [B; N],
        mut value: V,
        rule: impl Fn(&A, &mut B, V) -> V,
    ) -> V {
        for k in 0..N {
            value = rule(&read[k], &mut own[k], value);
        }
        value
    }
}

/// A rule for [`Lane::when_rule`]; mark `apply` `#[inline(always)]`.
pub trait Rule<B> {
    /// The value after the rule.
    fn apply(self, value: B) -> B;
}

/// A lane whose environments are contiguous in memory, WIDTH at a time: `f32` and the SIMD lanes.
pub trait Packed: Lane + Send + Sync + 'static {
    /// Environments per lane.
    const WIDTH: usize;
    /// Reads the first WIDTH floats of `from`.
    fn load_float(from: &[f32]) -> Self::Float;
    /// Writes WIDTH floats to the start of `to`.
    fn store_float(value: Self::Float, to: &mut [f32]);
    /// Reads the first WIDTH integers of `from`.
    fn load_uint(from: &[u32]) -> Self::Uint;
    /// Writes WIDTH integers to the start of `to`.
    fn store_uint(value: Self::Uint, to: &mut [u32]);
    /// One bit per environment, the first lowest.
    fn bits(mask: Self::Mask) -> u32;
    /// The inverse of [`Packed::bits`].
    fn from_bits(bits: u32) -> Self::Mask;
    /// Floats by their bit patterns.
    fn to_words(value: Self::Float) -> Self::Uint;
    /// The inverse of [`Packed::to_words`].
    fn from_words(words: Self::Uint) -> Self::Float;
    /// All bits of a word where the mask holds, none elsewhere.
    fn mask_to_words(mask: Self::Mask) -> Self::Uint;
    /// The inverse of [`Packed::mask_to_words`].
    fn mask_from_words(words: Self::Uint) -> Self::Mask;
}

/// Chooses between two values by a mask.
pub trait Select<M>: Copy {
    /// `yes` where `mask` holds, `no` elsewhere.
    fn select(mask: M, yes: Self, no: Self) -> Self;
}

/// Methods of one argument that a type has itself.
macro_rules! forward {
    ($type:ident: $($method:ident $of:ident),*) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            $type::$of(self)
        }
    )*};
}
pub(crate) use forward;

/// The method that names a value.
macro_rules! naming {
    () => {
        /// Names the value in emitted code.
        #[inline(always)]
        fn named(self, _name: &'static str) -> Self {
            self
        }
    };
}

/// What follows from `lt` and `eq` of whole numbers.
macro_rules! whole_order {
    () => {
        /// `self != other`.
        #[inline(always)]
        fn ne(self, other: Self) -> Self::Mask {
            !self.eq(other)
        }
        /// `self <= other`.
        #[inline(always)]
        fn le(self, other: Self) -> Self::Mask {
            !other.lt(self)
        }
        /// `self >= other`.
        #[inline(always)]
        fn ge(self, other: Self) -> Self::Mask {
            !self.lt(other)
        }
        /// The smaller.
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            self.lt(other).select(self, other)
        }
        /// The larger.
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            other.lt(self).select(self, other)
        }
    };
}

/// Truth values, one per environment.
pub trait Mask:
    Copy + Debug + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    /// `value` in every lane.
    fn splat(value: bool) -> Self;

    /// `yes` where the mask holds, `no` elsewhere; both are computed.
    #[inline(always)]
    fn select<T: Select<Self>>(self, yes: T, no: T) -> T {
        T::select(self, yes, no)
    }

    naming!();
}

/// Real numbers: IEEE arithmetic, round to nearest, never contracted.
///
/// The primitive `f32` and `f64` have inherent methods of the same names (`sin`, `min`, ..); generic code never sees
/// them, and code about a concrete type should call `Float::sin(x)`.
pub trait Float:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Select<Self::Mask>
{
    /// Truth values of comparisons.
    type Mask: Mask;
    /// Unsigned integers of the same lane.
    type Uint: Uint<Mask = Self::Mask, Int = Self::Int>;
    /// Signed integers of the same lane.
    type Int: Int<Mask = Self::Mask, Uint = Self::Uint>;
    /// Whether the lane computes in double precision.
    const DOUBLE: bool;

    /// A constant, rounded to the lane's precision.
    fn splat(value: f64) -> Self;
    /// `self * b + c` with a single rounding.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Largest integer not above.
    fn floor(self) -> Self;
    /// Nearest integer, ties to even.
    fn round(self) -> Self;
    /// `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`.
    fn le(self, other: Self) -> Self::Mask;
    /// `self == other`.
    fn eq(self, other: Self) -> Self::Mask;
    /// Truncates; saturates; NaN gives 0.
    fn to_int(self) -> Self::Int;
    /// Nearest float.
    fn from_int(value: Self::Int) -> Self;
    /// Nearest float.
    fn from_uint(value: Self::Uint) -> Self;
    /// 2 to the power of `exponent`, which must be in the range of normal numbers: -126 ..= 127 in single precision.
    fn exp2i(exponent: Self::Int) -> Self;
    /// `(m, e)` with `self = m 2^e` and `1 <= m < 2`, of a positive normal number.
    fn mantissa_exponent(self) -> (Self, Self::Int);
    /// `table[min(index, len - 1)]`, rounded to the lane's precision.
    fn gather(table: &[f64], index: Self::Uint) -> Self;

    naming!();
    /// `self > other`.
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }
    /// `self >= other`.
    #[inline(always)]
    fn ge(self, other: Self) -> Self::Mask {
        other.le(self)
    }
    /// `self < other ? self : other`. A signalling NaN, which no arithmetic makes, may give NaN on ARM, whose instruction for the minimum
    /// differs in this case alone.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.lt(other).select(self, other)
    }
    /// `self > other ? self : other`; signalling NaNs as in [`Float::min`].
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.gt(other).select(self, other)
    }
    /// Into `low ..= high`; NaN stays NaN.
    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        high.min(low.max(self))
    }
    /// Sine and cosine; see [`math::trig`] for the error.
    #[inline(always)]
    fn sin_cos(self) -> (Self, Self) {
        math::trig::sin_cos(self)
    }
    /// Sine.
    #[inline(always)]
    fn sin(self) -> Self {
        math::trig::sin_cos(self).0
    }
    /// Cosine.
    #[inline(always)]
    fn cos(self) -> Self {
        math::trig::sin_cos(self).1
    }
    /// e to the `self`; see [`math::exp`].
    #[inline(always)]
    fn exp(self) -> Self {
        math::exp::exp(self)
    }
    /// Natural logarithm; see [`math::exp`].
    #[inline(always)]
    fn ln(self) -> Self {
        math::exp::ln(self)
    }
    /// Hyperbolic tangent; see [`math::tanh`].
    #[inline(always)]
    fn tanh(self) -> Self {
        math::tanh::tanh(self)
    }
}

/// Unsigned 32-bit integers; arithmetic wraps.
pub trait Uint:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Select<Self::Mask>
{
    /// Truth values of comparisons.
    type Mask: Mask;
    /// Signed integers of the same lane.
    type Int: Int<Mask = Self::Mask>;

    /// A constant.
    fn splat(value: u32) -> Self;
    /// Shift left by a constant below 32.
    fn shl(self, amount: u32) -> Self;
    /// Shift right by a constant below 32.
    fn shr(self, amount: u32) -> Self;
    /// Shift left by `amount` modulo 32.
    fn shl_by(self, amount: Self) -> Self;
    /// Shift right by `amount` modulo 32.
    fn shr_by(self, amount: Self) -> Self;
    /// The 64-bit product as (high, low) words.
    fn mul_wide(self, other: Self) -> (Self, Self);
    /// `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self == other`.
    fn eq(self, other: Self) -> Self::Mask;
    /// The bits reinterpreted as a signed integer.
    fn to_int(self) -> Self::Int;
    /// `table[min(index, len - 1)]`.
    fn gather(table: &[u32], index: Self) -> Self;

    naming!();
    /// Rotate left by a constant between 1 and 31.
    #[inline(always)]
    fn rotate_left(self, amount: u32) -> Self {
        self.shl(amount) | self.shr(32 - amount)
    }
    whole_order!();
    /// How many bits are set.
    #[inline(always)]
    fn count_ones(self) -> Self {
        // Sums bits in pairs, nibbles, bytes, then all bytes at once in the top byte of a product.
        let pairs = self - (self.shr(1) & Self::splat(0x5555_5555));
        let nibbles = (pairs & Self::splat(0x3333_3333)) + (pairs.shr(2) & Self::splat(0x3333_3333));
        let bytes = (nibbles + nibbles.shr(4)) & Self::splat(0x0f0f_0f0f);
        (bytes * Self::splat(0x0101_0101)).shr(24)
    }
}

/// Signed 32-bit integers; arithmetic wraps.
pub trait Int:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Select<Self::Mask>
{
    /// Truth values of comparisons.
    type Mask: Mask;
    /// Unsigned integers of the same lane.
    type Uint: Uint<Mask = Self::Mask>;

    /// A constant.
    fn splat(value: i32) -> Self;
    /// Shift left by a constant below 32.
    fn shl(self, amount: u32) -> Self;
    /// Shift right by a constant below 32, keeping the sign.
    fn shr(self, amount: u32) -> Self;
    /// `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self == other`.
    fn eq(self, other: Self) -> Self::Mask;
    /// The bits reinterpreted as an unsigned integer.
    fn to_uint(self) -> Self::Uint;

    naming!();
    whole_order!();
    /// `self > other`.
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }
    /// Magnitude; the least integer is its own.
    #[inline(always)]
    fn abs(self) -> Self {
        self.lt(Self::splat(0)).select(-self, self)
    }
}
