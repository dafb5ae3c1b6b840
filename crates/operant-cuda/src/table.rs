//! The macro that declares a table of foreign functions: each is looked up once, by name, before any is called.

/// A call that did not return success: its name and its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub call: &'static str,
    pub code: u32,
}

/// Declares `$table`, a struct of function pointers with a checked method for each, and `$symbols`, the list of their names.
///
/// The functions before `apart` have the types of those in `$sys`, which is checked at compile time; those after it are not
/// in `$sys`, or differ as noted there. All return a code; 0 is success. It is a `u32` here, because a newer library may
/// return a code that the enumeration `$code` lacks, and such a value would be undefined behaviour.
macro_rules! table {
    (
        $table:ident, $symbols:ident, $sys:path as $code:ident;
        $( fn $name:ident($($argument:ident: $type:ty),*); )*
        apart
        $( fn $own:ident($($own_argument:ident: $own_type:ty),*); )*
    ) => {
        /// The functions that are looked up in the library.
        pub const $symbols: &[&str] = &[$(stringify!($name),)* $(stringify!($own),)*];

        const _: () = {
            use $sys as raw;
            $( let _: unsafe fn($($type),*) -> raw::$code = raw::$name; )*
        };

        #[allow(non_snake_case)]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $table {
            $( $name: unsafe extern "C" fn($($type),*) -> u32, )*
            $( $own: unsafe extern "C" fn($($own_type),*) -> u32, )*
        }

        // The caller of a method guarantees what the library's documentation requires.
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc)]
        impl $table {
            /// Looks up every function; the error lists those that the library lacks.
            ///
            /// # Safety
            /// The library's functions of these names have the types given here, and it is never unloaded.
            pub(crate) unsafe fn bind(library: &::libloading::Library) -> Result<Self, Vec<&'static str>> {
                let lacks = |symbol: &&str| {
                    // SAFETY: the symbol's address is only checked for existence.
                    unsafe { library.get::<unsafe extern "C" fn()>(*symbol) }.is_err()
                };
                let missing: Vec<&'static str> = $symbols.iter().copied().filter(lacks).collect();
                if !missing.is_empty() {
                    return Err(missing);
                }
                Ok($table {
                    // SAFETY: the caller guarantees the types, and that the pointers stay valid.
                    $( $name: *unsafe { library.get(stringify!($name)) }.map_err(|_| vec![stringify!($name)])?, )*
                    // SAFETY: the same.
                    $( $own: *unsafe { library.get(stringify!($own)) }.map_err(|_| vec![stringify!($own)])?, )*
                })
            }

            $(
                pub(crate) unsafe fn $name(&self, $($argument: $type),*) -> Result<(), $crate::table::Status> {
                    // SAFETY: the caller guarantees it.
                    $crate::table::check(stringify!($name), unsafe { (self.$name)($($argument),*) })
                }
            )*
            $(
                pub(crate) unsafe fn $own(&self, $($own_argument: $own_type),*) -> Result<(), $crate::table::Status> {
                    // SAFETY: the caller guarantees it.
                    $crate::table::check(stringify!($own), unsafe { (self.$own)($($own_argument),*) })
                }
            )*
        }
    };
}
pub(crate) use table;

/// Names the call with its code unless that is success.
pub(crate) fn check(call: &'static str, code: u32) -> Result<(), Status> {
    if code == 0 { Ok(()) } else { Err(Status { call, code }) }
}
