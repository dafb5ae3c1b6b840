//! A kernel's parameters, declared once. One declaration generates the struct that the host fills with buffers and numbers,
//! the check of every buffer's length, the list of buffers that a graph keeps, the kernel's struct, and its CUDA text.

use crate::error::CudaError;
use crate::plain::Plain;
use crate::stream::Stream;

/// A type that kernels can use: a number, or a struct that [`crate::plain_struct!`] declares.
pub trait CudaType: Plain {
    /// Its name in CUDA.
    const CUDA: &'static str;

    /// `double errors[2]`: a field of this type.
    fn field(name: &str) -> String {
        format!("{} {name}", Self::CUDA)
    }

    /// Adds the declarations that its name needs.
    fn declare(_: &mut Declarations) {}
}

macro_rules! numbers {
    ($($type:ty = $cuda:literal),*) => { $(
        impl CudaType for $type {
            const CUDA: &'static str = $cuda;
        }
    )* };
}
numbers! { f32 = "float", f64 = "double", u8 = "unsigned char", u16 = "unsigned short", u32 = "unsigned", u64 = "unsigned long long" }

impl<T: CudaType, const N: usize> CudaType for [T; N] {
    const CUDA: &'static str = T::CUDA;

    fn field(name: &str) -> String {
        T::field(&format!("{name}[{N}]"))
    }

    fn declare(to: &mut Declarations) {
        T::declare(to);
    }
}

/// CUDA texts of structs, each once, every struct after those that it contains.
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    names: Vec<&'static str>,
    text: String,
}

impl Declarations {
    /// Adds a struct of `bytes` bytes unless it is present. `fields` adds the declarations that its fields need and returns their
    /// lines.
    pub fn add(&mut self, name: &'static str, bytes: usize, fields: impl FnOnce(&mut Self) -> String) {
        if self.names.contains(&name) {
            return;
        }
        self.names.push(name);
        let fields = fields(self);
        self.text += &format!(
            "struct {name} {{\n{fields}}};\nstatic_assert(sizeof({name}) == {bytes}, \"{name} is the same to the host\");\n\n"
        );
    }

    /// The text of a header.
    pub fn header(&self) -> String {
        format!("// What kernels take, as the host declares it.\n#pragma once\n\n{}", self.text)
    }
}

/// The parameters of some kernels, as [`crate::params!`] declares them.
///
/// # Safety
/// A kernel of one of these names takes one `Raw`, and in launches of at most [`Params::blocks`] blocks it stays within the
/// lengths that [`Params::raw`] has checked. [`crate::params!`] implements it; the declaration guarantees this.
pub unsafe trait Params: Copy {
    /// The kernel's parameter: `#[repr(C)]`, with the fields of the CUDA text in their order.
    type Raw: Copy + Send + Sync + 'static;
    /// The sizes that determine lengths.
    type Sizes: ?Sized;
    /// The struct's name in CUDA.
    const CUDA: &'static str;
    /// The kernels that take it; empty if it is only a part of other structs.
    const KERNELS: &'static [&'static str];

    /// The maximum number of blocks of a launch.
    fn blocks(&self, sizes: &Self::Sizes) -> usize;

    /// The parameter.
    ///
    /// # Errors
    /// When a buffer has another length.
    fn raw(&self, sizes: &Self::Sizes) -> Result<Self::Raw, CudaError>;

    /// During a capture of the stream: makes the graph keep every buffer.
    fn keep_in(&self, stream: &Stream);

    /// Adds the struct's CUDA text, and those of the structs that it contains.
    fn declare(to: &mut Declarations);
}

/// The address of a buffer of exactly `len` elements.
#[doc(hidden)]
pub fn exactly<T: Plain>(
    what: &'static str,
    buffer: &crate::Buffer<T>,
    len: usize,
) -> Result<u64, CudaError> {
    if buffer.len() == len {
        Ok(buffer.pointer())
    } else {
        Err(CudaError::Length { what, given: buffer.len(), expected: len })
    }
}

/// Like `exactly`, for a buffer that is present if and only if `needed` holds; otherwise null.
#[doc(hidden)]
pub fn exactly_if<T: Plain>(
    what: &'static str,
    buffer: Option<&crate::Buffer<T>>,
    len: usize,
    needed: bool,
) -> Result<u64, CudaError> {
    match buffer {
        Some(buffer) if needed => exactly(what, buffer, len),
        None if !needed => Ok(0),
        given => Err(CudaError::Length {
            what,
            given: given.map_or(0, crate::Buffer::len),
            expected: if needed { len } else { 0 },
        }),
    }
}

/// Declares the parameters of kernels.
///
/// ```ignore
/// operant_cuda::params! {
///     /// Parameters of `scale`.
///     pub struct Scale<'a>(of: Sizes) for ["scale"], blocks of.blocks {
///         /// (N).
///         from: reads [f32; of.count],
///         to: writes [f32; of.count],
///         /// None without logging.
///         log: may_write [u32; of.count],
///         count: value [u32],
///     }
/// }
/// ```
///
/// A field is one of
///
/// - `reads [T; length]`, `writes [T; length]`: a buffer of exactly `length` elements, `const T*` and `T*` in CUDA;
/// - `reads_any`, `writes_any`: a buffer if the length is not 0, else None;
/// - `may_read`, `may_write`: a buffer or None;
/// - `value [T]`: a number or a struct, passed by value;
/// - `part [S, sizes]`: the fields of another such struct.
///
/// `[T as U; length]` names another CUDA type for the elements. The doc comment of a field is also emitted to the CUDA text.
#[macro_export]
macro_rules! params {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $name:ident<$life:lifetime>($of:ident: $sizes:ty) for [$($kernel:literal),*], blocks $blocks:expr,
        { $( $(#[doc = $doc:literal])* $field:ident: $kind:ident [$($spec:tt)*] ),* $(,)? }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $name<$life> {
            $( $(#[doc = $doc])* $vis $field: $crate::params!(@given $life $kind $($spec)*), )*
        }

        const _: () = {
            use $crate::macros::*;

            /// The kernel's parameter.
            #[repr(C)]
            #[derive(Clone, Copy)]
            #[allow(dead_code, reason = "the kernel reads them")]
            pub struct Raw {
                $( $field: $crate::params!(@raw $kind $($spec)*), )*
            }

            // SAFETY: the struct consists of numbers and addresses, the CUDA text below has the same fields in the same order, and
            // every address belongs to a buffer whose length was checked, or is null. The declaration guarantees that the kernels
            // stay within these lengths.
            unsafe impl<$life> Params for $name<$life> {
                type Raw = Raw;
                type Sizes = $sizes;
                const CUDA: &'static str = stringify!($name);
                const KERNELS: &'static [&'static str] = &[$($kernel),*];

                #[allow(unused_variables, reason = "lengths may be constants")]
                fn blocks(&self, $of: &$sizes) -> usize {
                    $blocks
                }

                #[allow(unused_variables, reason = "lengths may be constants")]
                fn raw(&self, $of: &$sizes) -> Result<Raw, CudaError> {
                    Ok(Raw { $( $field: $crate::params!(@check self $field $kind $($spec)*), )* })
                }

                #[allow(unused_variables, reason = "there may be no buffer")]
                fn keep_in(&self, stream: &Stream) {
                    $( $crate::params!(@keep self stream $field $kind); )*
                }

                fn declare(to: &mut Declarations) {
                    #[allow(unused_variables, reason = "buffers of built-in types need no declaration")]
                    to.add(stringify!($name), size_of::<Raw>(), |to| {
                        let mut lines = String::new();
                        $(
                            $crate::params!(@declare to $kind $($spec)*);
                            let field = $crate::params!(@cuda $field $kind $($spec)*);
                            lines += &$crate::line(&field, &[$($doc),*]);
                        )*
                        lines
                    });
                }
            }
        };
    };

    (@given $life:lifetime reads $type:ty $(as $cuda:ident)?; $len:expr) => { &$life $crate::Buffer<$type> };
    (@given $life:lifetime writes $type:ty $(as $cuda:ident)?; $len:expr) => { &$life $crate::Buffer<$type> };
    (@given $life:lifetime reads_any $type:ty $(as $cuda:ident)?; $len:expr) => { Option<&$life $crate::Buffer<$type>> };
    (@given $life:lifetime writes_any $type:ty $(as $cuda:ident)?; $len:expr) => { Option<&$life $crate::Buffer<$type>> };
    (@given $life:lifetime may_write $type:ty $(as $cuda:ident)?; $len:expr) => { Option<&$life $crate::Buffer<$type>> };
    (@given $life:lifetime may_read $type:ty $(as $cuda:ident)?; $len:expr) => { Option<&$life $crate::Buffer<$type>> };
    (@given $life:lifetime value $type:ty) => { $type };
    (@given $life:lifetime part $part:ident, $sizes:expr) => { $part<$life> };

    (@raw value $type:ty) => { $type };
    (@raw part $part:ident, $sizes:expr) => { <$part<'static> as Params>::Raw };
    (@raw $kind:ident $($spec:tt)*) => { u64 };

    (@check $self:ident $field:ident reads $type:ty $(as $cuda:ident)?; $len:expr) => {
        $crate::macros::exactly(stringify!($field), $self.$field, $len)?
    };
    (@check $self:ident $field:ident writes $type:ty $(as $cuda:ident)?; $len:expr) => {
        $crate::macros::exactly(stringify!($field), $self.$field, $len)?
    };
    (@check $self:ident $field:ident reads_any $type:ty $(as $cuda:ident)?; $len:expr) => {{
        let len = $len;
        $crate::macros::exactly_if(stringify!($field), $self.$field, len, len > 0)?
    }};
    (@check $self:ident $field:ident writes_any $type:ty $(as $cuda:ident)?; $len:expr) => {{
        let len = $len;
        $crate::macros::exactly_if(stringify!($field), $self.$field, len, len > 0)?
    }};
    (@check $self:ident $field:ident may_write $type:ty $(as $cuda:ident)?; $len:expr) => {
        $crate::macros::exactly_if(stringify!($field), $self.$field, $len, $self.$field.is_some())?
    };
    (@check $self:ident $field:ident may_read $type:ty $(as $cuda:ident)?; $len:expr) => {
        $crate::macros::exactly_if(stringify!($field), $self.$field, $len, $self.$field.is_some())?
    };
    (@check $self:ident $field:ident value $type:ty) => { $self.$field };
    (@check $self:ident $field:ident part $part:ident, $sizes:expr) => { $self.$field.raw($sizes)? };

    (@keep $self:ident $stream:ident $field:ident reads) => { $self.$field.keep_in($stream) };
    (@keep $self:ident $stream:ident $field:ident writes) => { $self.$field.keep_in($stream) };
    (@keep $self:ident $stream:ident $field:ident part) => { Params::keep_in(&$self.$field, $stream) };
    (@keep $self:ident $stream:ident $field:ident value) => {};
    (@keep $self:ident $stream:ident $field:ident $optional:ident) => {
        $self.$field.into_iter().for_each(|buffer| buffer.keep_in($stream))
    };

    (@declare $to:ident part $part:ident, $sizes:expr) => { <$part<'static> as Params>::declare($to) };
    (@declare $to:ident $kind:ident $type:ty as $cuda:ident; $len:expr) => {};
    (@declare $to:ident $kind:ident $type:ty $(; $len:expr)?) => { <$type as CudaType>::declare($to) };

    (@cuda $field:ident value $type:ty) => { <$type as CudaType>::field(stringify!($field)) };
    (@cuda $field:ident part $part:ident, $sizes:expr) => {
        format!("{} {}", <$part<'static> as Params>::CUDA, stringify!($field))
    };
    (@cuda $field:ident reads $($spec:tt)*) => { $crate::params!(@pointer $field "const " $($spec)*) };
    (@cuda $field:ident reads_any $($spec:tt)*) => { $crate::params!(@pointer $field "const " $($spec)*) };
    (@cuda $field:ident may_read $($spec:tt)*) => { $crate::params!(@pointer $field "const " $($spec)*) };
    (@cuda $field:ident $writes:ident $($spec:tt)*) => { $crate::params!(@pointer $field "" $($spec)*) };
    (@pointer $field:ident $const:literal $type:ty as $cuda:ident; $len:expr) => {
        format!("{}{}* {}", $const, stringify!($cuda), stringify!($field))
    };
    (@pointer $field:ident $const:literal $type:ty; $len:expr) => {
        format!("{}{}* {}", $const, <$type as CudaType>::CUDA, stringify!($field))
    };
}

/// A field's line of CUDA text, with its documentation.
#[doc(hidden)]
pub fn line(field: &str, docs: &[&str]) -> String {
    let about: String = docs.iter().map(|doc| doc.to_string()).collect();
    if docs.is_empty() { format!("    {field};\n") } else { format!("    {field};  //{about}\n") }
}

/// Declares a struct with the same layout on host and device: its Rust type, which is [`Plain`], and its CUDA text.
#[macro_export]
macro_rules! plain_struct {
    (
        $(#[doc = $about:literal])*
        $(#[derive($($derive:ident),*)])?
        $vis:vis struct $name:ident { $( $(#[doc = $doc:literal])* $field:ident: $type:ty ),* $(,)? }
    ) => {
        $(#[doc = $about])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq $($(, $derive)*)?)]
        $vis struct $name {
            $( $(#[doc = $doc])* $vis $field: $type, )*
        }

        const _: () = {
            use $crate::macros::*;

            assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "a struct for a device must have no padding");

            // SAFETY: `#[repr(C)]`, without padding by the assertion above, and every field is such a type by its use below.
            unsafe impl Plain for $name {}

            impl CudaType for $name {
                const CUDA: &'static str = stringify!($name);

                fn declare(to: &mut Declarations) {
                    to.add(stringify!($name), size_of::<$name>(), |to| {
                        let mut lines = String::new();
                        $(
                            <$type as CudaType>::declare(to);
                            lines += &$crate::line(&<$type as CudaType>::field(stringify!($field)), &[$($doc),*]);
                        )*
                        lines
                    });
                }
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::plain_struct! {
        struct Pair {
            /// Both.
            numbers: [f32; 2],
            count: u64,
        }
    }

    struct Sizes {
        count: usize,
    }

    crate::params! {
        /// A part of another.
        struct Inner<'a>(of: Sizes) for [], blocks 1, {
            scales: reads_any [f32 as float2; 2 * of.count],
        }
    }

    crate::params! {
        struct Outer<'a>(of: Sizes) for ["outer", "other"], blocks of.count, {
            /// (N).
            from: reads [f32; of.count],
            pairs: writes [Pair; 1],
            inner: part [Inner, of],
            scene: may_write [u8; 3],
            pair: value [Pair],
            count: value [u32],
        }
    }

    #[test]
    fn a_declaration_becomes_cuda_text_that_lays_it_out_alike() {
        let mut declarations = Declarations::default();
        Outer::declare(&mut declarations);
        Outer::declare(&mut declarations);
        let text = declarations.header();
        let expected = "struct Outer {
    const float* from;  // (N).
    Pair* pairs;
    Inner inner;
    unsigned char* scene;
    Pair pair;
    unsigned count;
};
static_assert(sizeof(Outer) == 56, \"Outer is the same to the host\");
";
        assert!(text.ends_with(&format!("{expected}\n")), "{text}");
        for other in ["struct Pair {\n    float numbers[2];  // Both.\n", "    const float2* scales;\n"] {
            assert_eq!(text.matches(other).count(), 1, "{text}");
        }
        assert_eq!(text.matches("static_assert").count(), 3);
        assert_eq!((Outer::KERNELS, Outer::CUDA), (&["outer", "other"][..], "Outer"));
    }
}
