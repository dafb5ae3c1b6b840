//! Bundles: structures of lane values, such as the state of an environment.
//!
//! A bundle is a fixed sequence of leaves. Storing and loading that sequence is all that buffers, checkpoints, the
//! auto-reset and the CUDA emitter need of a state.

use serde::{Deserialize, Serialize};

use crate::lane::{Lane, Select};
use crate::memory::Memory;

/// The type of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A real number.
    Float,
    /// An unsigned 32-bit integer.
    Uint,
    /// A signed 32-bit integer.
    Int,
    /// A truth value.
    Mask,
}

/// Name and kind of a leaf; elements of an array are `name[0]`, `name[1]`, ...
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    /// Path of field names from the root.
    pub name: String,
    /// Type of the value.
    pub kind: Kind,
}

/// Receives the leaves of a bundle in order.
pub trait Sink<L: Lane> {
    /// Next leaf, a float.
    fn float(&mut self, value: L::Float);
    /// Next leaf, an unsigned integer.
    fn uint(&mut self, value: L::Uint);
    /// Next leaf, a signed integer.
    fn int(&mut self, value: L::Int);
    /// Next leaf, a truth value.
    fn mask(&mut self, value: L::Mask);
    /// The next N leaves as unsigned integers.
    #[inline(always)]
    fn memory<const N: usize>(&mut self, value: &L::Memory<N>) {
        for k in 0..N {
            self.uint(value.word(k));
        }
    }
}

/// Supplies the leaves of a bundle in order.
pub trait Source<L: Lane> {
    /// Next leaf, a float.
    fn float(&mut self) -> L::Float;
    /// Next leaf, an unsigned integer.
    fn uint(&mut self) -> L::Uint;
    /// Next leaf, a signed integer.
    fn int(&mut self) -> L::Int;
    /// Next leaf, a truth value.
    fn mask(&mut self) -> L::Mask;
    /// The next N leaves as unsigned integers.
    #[inline(always)]
    fn memory<const N: usize>(&mut self) -> L::Memory<N> {
        let mut words = [crate::lane::Uint::splat(0); N];
        for word in &mut words {
            *word = self.uint();
        }
        L::Memory::<N>::from_words(words)
    }
}

/// A structure of lane values. Implemented for the values themselves, arrays and tuples of bundles, and by
/// [`bundle!`](crate::bundle!) for named structures.
pub trait Bundle<L: Lane>: Copy + Select<L::Mask> {
    /// Appends the bundle's leaves; `name` is the path so far.
    fn leaves(name: &str, out: &mut Vec<Leaf>);
    /// Passes every leaf to `sink`, in the order of [`Bundle::leaves`].
    fn store(&self, sink: &mut impl Sink<L>);
    /// Takes every leaf from `source`, in the same order.
    fn load(source: &mut impl Source<L>) -> Self;
    /// The same in place, which spares copies of large bundles.
    #[inline(always)]
    fn reload(&mut self, source: &mut impl Source<L>) {
        *self = Self::load(source);
    }
}

/// The leaves of a bundle.
pub fn leaves_of<L: Lane, B: Bundle<L>>() -> Vec<Leaf> {
    let mut out = Vec::new();
    B::leaves("", &mut out);
    out
}

/// A path with one more field.
pub fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}_{field}") }
}

macro_rules! leaf_bundle {
    ($lane:ty, $value:ty, $method:ident, $kind:ident $(, $life:lifetime)?) => {
        impl<$($life)?> $crate::bundle::Bundle<$lane> for $value {
            fn leaves(name: &str, out: &mut Vec<$crate::bundle::Leaf>) {
                let name = if name.is_empty() { "value" } else { name };
                out.push($crate::bundle::Leaf { name: name.to_owned(), kind: $crate::bundle::Kind::$kind });
            }
            #[inline(always)]
            fn store(&self, sink: &mut impl $crate::bundle::Sink<$lane>) {
                sink.$method(*self);
            }
            #[inline(always)]
            fn load(source: &mut impl $crate::bundle::Source<$lane>) -> Self {
                source.$method()
            }
        }
    };
}
pub(crate) use leaf_bundle;

impl<M: Copy, T: Select<M>, const N: usize> Select<M> for [T; N] {
    #[inline(always)]
    fn select(mask: M, mut yes: Self, no: Self) -> Self {
        // A loop is inlined where a closure of `from_fn` would be a call.
        for i in 0..N {
            yes[i] = T::select(mask, yes[i], no[i]);
        }
        yes
    }
}

impl<L: Lane, T: Bundle<L>, const N: usize> Bundle<L> for [T; N] {
    fn leaves(name: &str, out: &mut Vec<Leaf>) {
        for i in 0..N {
            T::leaves(&format!("{name}[{i}]"), out);
        }
    }
    #[inline(always)]
    fn store(&self, sink: &mut impl Sink<L>) {
        for element in self {
            element.store(sink);
        }
    }
    #[inline(always)]
    fn load(source: &mut impl Source<L>) -> Self {
        if N == 0 {
            return core::array::from_fn(|_| unreachable!("it has no elements"));
        }
        // A loop is inlined where a closure of `from_fn` would be a call.
        let mut all = [T::load(source); N];
        for element in &mut all[1..] {
            *element = T::load(source);
        }
        all
    }
    #[inline(always)]
    fn reload(&mut self, source: &mut impl Source<L>) {
        for element in self {
            element.reload(source);
        }
    }
}

impl<M: Copy> Select<M> for () {
    #[inline(always)]
    fn select(_: M, (): Self, (): Self) -> Self {}
}

impl<L: Lane> Bundle<L> for () {
    fn leaves(_: &str, _: &mut Vec<Leaf>) {}
    #[inline(always)]
    fn store(&self, _: &mut impl Sink<L>) {}
    #[inline(always)]
    fn load(_: &mut impl Source<L>) -> Self {}
}

macro_rules! tuple_bundle {
    ($($t:ident $i:tt),*) => {
        impl<Mk: Copy, $($t: Select<Mk>),*> Select<Mk> for ($($t,)*) {
            #[inline(always)]
            fn select(mask: Mk, yes: Self, no: Self) -> Self {
                ($($t::select(mask, yes.$i, no.$i),)*)
            }
        }
        impl<L: Lane, $($t: Bundle<L>),*> Bundle<L> for ($($t,)*) {
            fn leaves(name: &str, out: &mut Vec<Leaf>) {
                $($t::leaves(&join(name, stringify!($i)), out);)*
            }
            #[inline(always)]
            fn store(&self, sink: &mut impl Sink<L>) {
                $(self.$i.store(sink);)*
            }
            #[inline(always)]
            fn load(source: &mut impl Source<L>) -> Self {
                ($($t::load(source),)*)
            }
        }
    };
}
tuple_bundle!(A 0, B 1);
tuple_bundle!(A 0, B 1, C 2);
tuple_bundle!(A 0, B 1, C 2, D 3);

/// Declares a structure of lane values, generic over the lane, whose fields have the same names in every lane. A field
/// is a `Float`, `Uint`, `Int` or `Mask`, an array such as `[Uint; 8]`, N words of memory, `(Memory N)`, or another such
/// structure, `(Of Ball)`. The structure may have constant parameters: `struct Board<const N: usize>`.
///
/// ```
/// operant_lane::bundle! {
///     /// A ball.
///     pub struct Ball {
///         /// Height, m.
///         height: Float,
///         /// Bounces so far, by wall.
///         bounces: [Uint; 2],
///     }
/// }
/// let ball: Ball<f32> = Ball { height: 1.0, bounces: [core::num::Wrapping(0); 2] };
/// assert_eq!(ball.height, 1.0);
/// ```
#[macro_export]
macro_rules! bundle {
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(<$(const $c:ident: usize),+>)? { $($(#[$doc:meta])* $field:ident: $ty:tt),* $(,)? }) => {
        $(#[$meta])*
        $vis struct $name<L: $crate::Lane $($(, const $c: usize)+)?> {
            $($(#[$doc])* pub $field: $crate::bundle!(@ty L $ty),)*
        }
        impl<L: $crate::Lane $($(, const $c: usize)+)?> Clone for $name<L $($(, $c)+)?> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L: $crate::Lane $($(, const $c: usize)+)?> Copy for $name<L $($(, $c)+)?> {}
        impl<L: $crate::Lane $($(, const $c: usize)+)?> core::fmt::Debug for $name<L $($(, $c)+)?> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))*.finish()
            }
        }
        impl<L: $crate::Lane $($(, const $c: usize)+)?> $crate::Select<L::Mask> for $name<L $($(, $c)+)?> {
            #[inline(always)]
            fn select(mask: L::Mask, yes: Self, no: Self) -> Self {
                Self { $($field: $crate::Select::select(mask, yes.$field, no.$field),)* }
            }
        }
        impl<L: $crate::Lane $($(, const $c: usize)+)?> $crate::Bundle<L> for $name<L $($(, $c)+)?> {
            fn leaves(name: &str, out: &mut Vec<$crate::Leaf>) {
                $(<$crate::bundle!(@ty L $ty) as $crate::Bundle<L>>::leaves(
                    &$crate::bundle::join(name, stringify!($field)), out);)*
            }
            #[inline(always)]
            fn store(&self, sink: &mut impl $crate::Sink<L>) {
                $($crate::Bundle::<L>::store(&self.$field, sink);)*
            }
            #[inline(always)]
            fn load(source: &mut impl $crate::Source<L>) -> Self {
                Self { $($field: $crate::Bundle::<L>::load(source),)* }
            }
            #[inline(always)]
            fn reload(&mut self, source: &mut impl $crate::Source<L>) {
                $($crate::Bundle::<L>::reload(&mut self.$field, source);)*
            }
        }
    };
    (@ty $l:ident Float) => { <$l as $crate::Lane>::Float };
    (@ty $l:ident Uint) => { <$l as $crate::Lane>::Uint };
    (@ty $l:ident Int) => { <$l as $crate::Lane>::Int };
    (@ty $l:ident Mask) => { <$l as $crate::Lane>::Mask };
    (@ty $l:ident (Memory $n:expr)) => { <$l as $crate::Lane>::Memory<{ $n }> };
    (@ty $l:ident (Of $of:ident<$($n:literal),+>)) => { $of<$l, $($n),+> };
    (@ty $l:ident (Of $of:ident)) => { $of<$l> };
    (@ty $l:ident [$of:tt; $n:expr]) => { [$crate::bundle!(@ty $l $of); $n] };
}
