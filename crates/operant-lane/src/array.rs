//! Small per-lane arrays with a dynamic index.
//!
//! An array lives in registers, one value per element. A dynamic index is a chain of N selects: for the sizes meant
//! (up to about 32) that beats a gather on SIMD lanes and keeps CUDA arrays out of local memory.

use crate::lane::{Mask, Select, Uint};

/// `elements[index]`; an index past the end returns the last element.
#[inline(always)]
pub fn get<U: Uint, T: Select<U::Mask>, const N: usize>(elements: &[T; N], index: U) -> T {
    let mut value = elements[N - 1];
    for (position, &element) in elements.iter().enumerate().take(N - 1) {
        value = index.eq(U::splat(position as u32)).select(element, value);
    }
    value
}

/// `elements` with `elements[index] = value`; an index past the end changes nothing.
#[inline(always)]
pub fn set<U: Uint, T: Select<U::Mask>, const N: usize>(elements: &[T; N], index: U, value: T) -> [T; N] {
    core::array::from_fn(|position| index.eq(U::splat(position as u32)).select(value, elements[position]))
}
