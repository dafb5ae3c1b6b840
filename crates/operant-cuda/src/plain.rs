//! Types that may be stored in device memory: any bit pattern is a valid value.

use crate::error::CudaError;

/// Types for which any bit pattern is a valid value, so that they may be copied back from a device.
///
/// # Safety
/// The type is a number, or an array or `#[repr(C)]` struct of such types; it holds no reference, pointer into the host,
/// `bool`, `char` or enumeration.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty)*) => { $(
        // SAFETY: a number, for which any bit pattern is valid.
        unsafe impl Plain for $type {}
    )* };
}
plain! { f32 f64 u8 i8 u16 i16 u32 i32 u64 i64 }

// SAFETY: an array of such values.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Bytes of `len` elements.
pub(crate) fn bytes_of<T>(len: usize) -> Result<usize, CudaError> {
    len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(|| {
        CudaError::refused(
            format!("{len} elements of {} bytes are more than memory can hold", size_of::<T>()),
            "use fewer elements",
        )
    })
}
