//! The table of scalar operations. One row declares an operation: its name in files, its kinds, the CUDA expression and
//! the lane arithmetic, from which constant folding ([`Operation::fold`]) and the row interpreter ([`crate::rows`]) follow.

use serde::{Deserialize, Serialize};

use super::graph::Literal;
use crate::bundle::Kind;
use crate::lane::{Float, Int, Mask, Packed, Select, Uint};

/// The arithmetic of an operation on 32-bit words: floats and signed integers by their bits, masks as all bits or none.
/// Arguments beyond those of the operation are ignored.
pub(crate) trait Arithmetic {
    /// Number of arguments.
    const ARITY: usize;
    /// The result.
    fn words<L: Packed>(args: [L::Uint; 3]) -> L::Uint;
}

/// A function that is generic over an operation.
pub(crate) trait OperationVisitor {
    type Result;
    fn visit<A: Arithmetic>(self) -> Self::Result;
}

macro_rules! lane_type {
    ($l:ident Float) => {
        <$l as crate::Lane>::Float
    };
    ($l:ident Uint) => {
        <$l as crate::Lane>::Uint
    };
    ($l:ident Int) => {
        <$l as crate::Lane>::Int
    };
    ($l:ident Mask) => {
        <$l as crate::Lane>::Mask
    };
}

macro_rules! from_word {
    ($l:ident Float $word:expr) => {
        $l::from_words($word)
    };
    ($l:ident Uint $word:expr) => {
        $word
    };
    ($l:ident Int $word:expr) => {
        Uint::to_int($word)
    };
    ($l:ident Mask $word:expr) => {
        $l::mask_from_words($word)
    };
}

macro_rules! to_word {
    ($l:ident Float $value:expr) => {
        $l::to_words($value)
    };
    ($l:ident Uint $value:expr) => {
        $value
    };
    ($l:ident Int $value:expr) => {
        Int::to_uint($value)
    };
    ($l:ident Mask $value:expr) => {
        $l::mask_to_words($value)
    };
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ident),+) -> $result:ident, $text:literal, $body:expr;)+) => {
        /// A scalar operation: arithmetic, comparison, conversion or choice.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Operation {
            $($(#[$doc])* #[doc = concat!("CUDA: `", $text, "`.")] $name,)+
        }

        impl Operation {
            /// All operations.
            pub const ALL: &[Operation] = &[$(Operation::$name,)+];

            /// The kinds of its arguments.
            pub fn kinds(self) -> &'static [Kind] {
                match self { $(Operation::$name => &[$(Kind::$kind,)+],)+ }
            }

            /// The kind of its result.
            pub fn result(self) -> Kind {
                match self { $(Operation::$name => Kind::$result,)+ }
            }

            /// The CUDA expression: `$0` stands for an argument and `%0` for one in parentheses where it is not a plain
            /// name or call.
            pub(super) fn cuda(self) -> &'static str {
                match self { $(Operation::$name => $text,)+ }
            }

            pub(crate) fn visit<V: OperationVisitor>(self, visitor: V) -> V::Result {
                match self { $(Operation::$name => visitor.visit::<arithmetic::$name>(),)+ }
            }
        }

        mod arithmetic {
            use super::*;
            $(
                pub(crate) struct $name;

                impl Arithmetic for $name {
                    const ARITY: usize = [$(stringify!($arg)),+].len();
                    #[inline(always)]
                    fn words<L: Packed>(args: [L::Uint; 3]) -> L::Uint {
                        let mut args = args.into_iter();
                        $(let $arg: lane_type!(L $kind) = from_word!(L $kind args.next().expect("an argument"));)+
                        let result: lane_type!(L $result) = $body;
                        to_word!(L $result result)
                    }
                }
            )+
        }
    };
}

operations! {
    FloatAdd(a: Float, b: Float) -> Float, "__fadd_rn($0, $1)", a + b;
    FloatSub(a: Float, b: Float) -> Float, "__fsub_rn($0, $1)", a - b;
    FloatMul(a: Float, b: Float) -> Float, "__fmul_rn($0, $1)", a * b;
    FloatDiv(a: Float, b: Float) -> Float, "__fdiv_rn($0, $1)", a / b;
    FloatNeg(a: Float) -> Float, "-%0", -a;
    FloatMulAdd(a: Float, b: Float, c: Float) -> Float, "__fmaf_rn($0, $1, $2)", a.mul_add(b, c);
    FloatAbs(a: Float) -> Float, "fabsf($0)", a.abs();
    FloatSqrt(a: Float) -> Float, "__fsqrt_rn($0)", a.sqrt();
    FloatFloor(a: Float) -> Float, "floorf($0)", a.floor();
    FloatRound(a: Float) -> Float, "rintf($0)", a.round();
    FloatLt(a: Float, b: Float) -> Mask, "%0 < %1", a.lt(b);
    FloatLe(a: Float, b: Float) -> Mask, "%0 <= %1", a.le(b);
    FloatEq(a: Float, b: Float) -> Mask, "%0 == %1", a.eq(b);
    /// Saturates and maps NaN to 0, as Rust's `as` does.
    FloatToInt(a: Float) -> Int, "__float2int_rz($0)", a.to_int();
    FloatFromInt(a: Int) -> Float, "__int2float_rn($0)", L::Float::from_int(a);
    FloatFromUint(a: Uint) -> Float, "__uint2float_rn($0)", L::Float::from_uint(a);
    FloatFromBits(a: Uint) -> Float, "__uint_as_float($0)", L::from_words(a);
    FloatToBits(a: Float) -> Uint, "__float_as_uint($0)", L::to_words(a);
    FloatSelect(m: Mask, a: Float, b: Float) -> Float, "%0 ? %1 : %2", Select::select(m, a, b);

    UintAdd(a: Uint, b: Uint) -> Uint, "%0 + %1", a + b;
    UintSub(a: Uint, b: Uint) -> Uint, "%0 - %1", a - b;
    UintMul(a: Uint, b: Uint) -> Uint, "%0 * %1", a * b;
    UintMulHigh(a: Uint, b: Uint) -> Uint, "__umulhi($0, $1)", a.mul_wide(b).0;
    UintAnd(a: Uint, b: Uint) -> Uint, "%0 & %1", a & b;
    UintOr(a: Uint, b: Uint) -> Uint, "%0 | %1", a | b;
    UintXor(a: Uint, b: Uint) -> Uint, "%0 ^ %1", a ^ b;
    UintNot(a: Uint) -> Uint, "~%0", !a;
    /// By a literal below 32.
    UintShl(a: Uint, n: Uint) -> Uint, "%0 << $1", a.shl_by(n);
    /// By a literal below 32.
    UintShr(a: Uint, n: Uint) -> Uint, "%0 >> $1", a.shr_by(n);
    UintShlBy(a: Uint, n: Uint) -> Uint, "%0 << (%1 & 31u)", a.shl_by(n);
    UintShrBy(a: Uint, n: Uint) -> Uint, "%0 >> (%1 & 31u)", a.shr_by(n);
    UintLt(a: Uint, b: Uint) -> Mask, "%0 < %1", a.lt(b);
    UintEq(a: Uint, b: Uint) -> Mask, "%0 == %1", a.eq(b);
    UintToInt(a: Uint) -> Int, "(int)%0", a.to_int();
    UintSelect(m: Mask, a: Uint, b: Uint) -> Uint, "%0 ? %1 : %2", Select::select(m, a, b);

    // Signed overflow is undefined in C++, so signed sums go through unsigned words.
    IntAdd(a: Int, b: Int) -> Int, "(int)((unsigned)%0 + (unsigned)%1)", a + b;
    IntSub(a: Int, b: Int) -> Int, "(int)((unsigned)%0 - (unsigned)%1)", a - b;
    IntMul(a: Int, b: Int) -> Int, "(int)((unsigned)%0 * (unsigned)%1)", a * b;
    IntNeg(a: Int) -> Int, "(int)(0u - (unsigned)%0)", -a;
    IntAnd(a: Int, b: Int) -> Int, "%0 & %1", a & b;
    IntOr(a: Int, b: Int) -> Int, "%0 | %1", a | b;
    IntXor(a: Int, b: Int) -> Int, "%0 ^ %1", a ^ b;
    IntNot(a: Int) -> Int, "~%0", !a;
    /// By a literal below 32.
    IntShl(a: Int, n: Uint) -> Int, "(int)((unsigned)%0 << $1)", a.to_uint().shl_by(n).to_int();
    /// By a literal below 32, keeping the sign: the shifted sign bit is subtracted.
    IntShr(a: Int, n: Uint) -> Int, "%0 >> $1", {
        let sign = L::Uint::splat(1 << 31).shr_by(n);
        ((a.to_uint().shr_by(n) ^ sign) - sign).to_int()
    };
    IntLt(a: Int, b: Int) -> Mask, "%0 < %1", a.lt(b);
    IntEq(a: Int, b: Int) -> Mask, "%0 == %1", a.eq(b);
    IntToUint(a: Int) -> Uint, "(unsigned)%0", a.to_uint();
    IntSelect(m: Mask, a: Int, b: Int) -> Int, "%0 ? %1 : %2", Select::select(m, a, b);

    MaskAnd(a: Mask, b: Mask) -> Mask, "%0 && %1", a & b;
    MaskOr(a: Mask, b: Mask) -> Mask, "%0 || %1", a | b;
    MaskXor(a: Mask, b: Mask) -> Mask, "%0 != %1", a ^ b;
    MaskNot(a: Mask) -> Mask, "!%0", !a;
    MaskSelect(m: Mask, a: Mask, b: Mask) -> Mask, "%0 ? %1 : %2", m.select(a, b);
}

impl Operation {
    /// The operation that chooses between two values of a kind.
    pub fn select(kind: Kind) -> Self {
        match kind {
            Kind::Float => Operation::FloatSelect,
            Kind::Uint => Operation::UintSelect,
            Kind::Int => Operation::IntSelect,
            Kind::Mask => Operation::MaskSelect,
        }
    }

    /// Whether the second argument must be a literal below 32.
    pub(super) fn shifts_by_literal(self) -> bool {
        use Operation::{IntShl, IntShr, UintShl, UintShr};
        matches!(self, UintShl | UintShr | IntShl | IntShr)
    }

    /// Whether the result has the bits of the argument.
    pub(crate) fn keeps_bits(self) -> bool {
        use Operation::{FloatFromBits, FloatToBits, IntToUint, UintToInt};
        matches!(self, FloatFromBits | FloatToBits | IntToUint | UintToInt)
    }

    /// The result for constants.
    pub(super) fn fold(self, args: &[Literal]) -> Literal {
        struct Fold([core::num::Wrapping<u32>; 3]);
        impl OperationVisitor for Fold {
            type Result = u32;
            fn visit<A: Arithmetic>(self) -> u32 {
                A::words::<f32>(self.0).0
            }
        }
        let words = core::array::from_fn(|k| core::num::Wrapping(args.get(k).map_or(0, |arg| arg.word())));
        Literal::of_word(self.result(), self.visit(Fold(words)))
    }
}
