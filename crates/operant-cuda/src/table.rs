//! The macro that makes a table of foreign functions: each is looked up once, by name, before any is called.

/// A call that did not return success: its name and its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub call: &'static str,
    pub code: u32,
}

/// Makes `$table`, a struct of function pointers with a checked method for each, and `$symbols`, the list of their names.
///
/// The functions before `apart` have the types of those in `$sys`, or this does not compile; those after it are not in
/// `$sys`, or differ as said there. All return a code whose 0 is success. It is a `u32` here, because a newer library may
/// return a code that the enumeration `$code` does not have, and such a value would be undefined behaviour.
macro_rules! table {
    (
        $table:ident, $symbols:ident, $sys:path as $code:ident;
        $( fn $name:ident($($argument:ident: $type:ty),*); )*
        apart
        $( fn $own:ident($($own_argument:ident: $own_type:ty),*); )*
    ) => {
        /// The functions that are looked up in the library, all of them before any is called.
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

        // Whoever calls a method promises what the library's documentation asks of the call.
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc)]
        impl $table {
            /// Looks every function up; the error is the list of those that the library lacks.
            ///
            /// # Safety
            /// The library's functions of these names have the types given here, and it is never unloaded.
            pub(crate) unsafe fn bind(library: &::libloading::Library) -> Result<Self, Vec<&'static str>> {
                let lacks = |symbol: &&str| {
                    // SAFETY: the address is only looked at for being there.
                    unsafe { library.get::<unsafe extern "C" fn()>(*symbol) }.is_err()
                };
                let missing: Vec<&'static str> = $symbols.iter().copied().filter(lacks).collect();
                if !missing.is_empty() {
                    return Err(missing);
                }
                Ok($table {
                    // SAFETY: the caller promises the types, and that the pointers stay valid.
                    $( $name: *unsafe { library.get(stringify!($name)) }.map_err(|_| vec![stringify!($name)])?, )*
                    // SAFETY: the same.
                    $( $own: *unsafe { library.get(stringify!($own)) }.map_err(|_| vec![stringify!($own)])?, )*
                })
            }

            $(
                pub(crate) unsafe fn $name(&self, $($argument: $type),*) -> Result<(), $crate::table::Status> {
                    // SAFETY: the caller's promise.
                    $crate::table::check(stringify!($name), unsafe { (self.$name)($($argument),*) })
                }
            )*
            $(
                pub(crate) unsafe fn $own(&self, $($own_argument: $own_type),*) -> Result<(), $crate::table::Status> {
                    // SAFETY: the caller's promise.
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
