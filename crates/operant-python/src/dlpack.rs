//! DLPack: arrays as Python capsules that frameworks exchange without a copy, given and taken.
//!
//! Unsafe code of the package: here, in device.rs, which calls it, and the signal handlers of worker.rs. The structs are those of
//! dlpack.h 1.0, whose ABI is fixed; a capsule's name says which of two it points to. A capsule owns its tensor until a consumer renames it, and then the consumer does; either calls the deleter once.

#![allow(unsafe_code)] // Capsules of other libraries; every block has a SAFETY comment.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use operant_cuda::{Buffer, CudaError, Device};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

/// A kind of device and its number, as `__dlpack_device__` gives them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlDevice {
    pub kind: i32,
    pub number: i32,
}

/// The kind of device of ordinary memory.
pub const CPU: i32 = 1;
/// `kDLCUDA`: memory of a GPU.
pub const CUDA: i32 = 2;
/// `kDLCUDAManaged`: memory that GPU and CPU share.
pub const CUDA_MANAGED: i32 = 13;

/// The type of an element.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

impl DlType {
    pub const I8: Self = Self::new(0, 8);
    pub const I32: Self = Self::new(0, 32);
    pub const I64: Self = Self::new(0, 64);
    pub const F32: Self = Self::new(2, 32);
    pub const BOOL: Self = Self::new(6, 8);

    const fn new(code: u8, bits: u8) -> Self {
        Self { code, bits, lanes: 1 }
    }

    /// `int64`.
    pub fn name(self) -> String {
        let kinds = ["int", "uint", "float", "opaque", "bfloat", "complex", "bool"];
        match kinds.get(usize::from(self.code)) {
            Some(&"bool") if self.lanes == 1 => "bool".to_owned(),
            Some(kind) if self.lanes == 1 => format!("{kind}{}", self.bits),
            _ => format!("elements of type {}, {} bits and {} lanes", self.code, self.bits, self.lanes),
        }
    }
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`, in capsules named `dltensor`.
#[repr(C)]
struct Unversioned {
    tensor: Tensor,
    owner: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// `DLManagedTensorVersioned`, in capsules named `dltensor_versioned`.
#[repr(C)]
struct Versioned {
    version: [u32; 2],
    owner: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// The version of [`Versioned`].
const VERSION: [u32; 2] = [1, 0];
const IS_COPIED: u64 = 2;

/// One of the two structs.
trait Managed: Sized {
    const NAME: &'static CStr;
    const USED: &'static CStr;

    fn new(tensor: Tensor, owner: *mut c_void, is_copied: bool) -> Self;
    fn owner(&self) -> *mut c_void;
    fn tensor(&self) -> &Tensor;
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

/// The fields that both structs have.
macro_rules! accessors {
    () => {
        fn owner(&self) -> *mut c_void {
            self.owner
        }
        fn tensor(&self) -> &Tensor {
            &self.tensor
        }
        fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
            self.deleter
        }
    };
}

impl Managed for Unversioned {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";

    fn new(tensor: Tensor, owner: *mut c_void, _: bool) -> Self {
        Self { tensor, owner, deleter: Some(delete::<Self>) }
    }
    accessors!();
}

impl Managed for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";

    fn new(tensor: Tensor, owner: *mut c_void, is_copied: bool) -> Self {
        // Not read-only: environments never read what they gave.
        let flags = if is_copied { IS_COPIED } else { 0 };
        Self { version: VERSION, owner, deleter: Some(delete::<Self>), flags, tensor }
    }
    accessors!();
}

/// What an array to give consists of: C-contiguous elements at `data`, which `owner` keeps allocated.
pub struct Given {
    pub data: u64,
    pub device: DlDevice,
    pub dtype: DlType,
    pub shape: Vec<i64>,
    pub is_copied: bool,
    pub owner: Arc<dyn Any + Send + Sync>,
}

/// A given tensor with what it points to.
struct Holder<M> {
    managed: M,
    /// What the tensor's addresses of these point to.
    _axes: [Vec<i64>; 2],
    _owner: Arc<dyn Any + Send + Sync>,
}

/// The deleter of what this module gives. It touches nothing of Python, so any thread may call it, with or without the GIL.
unsafe extern "C" fn delete<M: Managed>(managed: *mut M) {
    // SAFETY: `managed` was made by `capsule`, whose holder it names, and a deleter is called once.
    drop(unsafe { Box::from_raw((*managed).owner().cast::<Holder<M>>()) });
}

/// The destructor of a capsule: deletes the tensor unless a consumer took it, and with it the name.
unsafe extern "C" fn drop_capsule<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with the capsule, holding the GIL; a valid name means that the pointer is `capsule`'s.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast::<M>());
        }
    }
}

fn capsule<M: Managed>(py: Python<'_>, given: Given) -> PyResult<Bound<'_, PyAny>> {
    let Given { data, device, dtype, mut shape, is_copied, owner } = given;
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let holder = Box::<Holder<M>>::new_uninit();
    let at = Box::into_raw(holder);
    let tensor = Tensor {
        data: data as usize as *mut c_void,
        device,
        ndim: shape.len() as i32,
        dtype,
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let managed = M::new(tensor, at.cast(), is_copied);
    // SAFETY: `at` is a box of this type and is written once; moving the vectors into it does not move their elements. The capsule
    // owns it from here on, and without a capsule the box is dropped at once.
    unsafe {
        (*at).write(Holder { managed, _axes: [shape, strides], _owner: owner });
        let holder = at.cast::<Holder<M>>();
        let managed = std::ptr::from_mut(&mut (*holder).managed);
        let made = ffi::PyCapsule_New(managed.cast(), M::NAME.as_ptr(), Some(drop_capsule::<M>));
        if made.is_null() {
            drop(Box::from_raw(holder));
        }
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// A capsule of this array, with the version in it or, for consumers from before 2024, without.
pub fn give(py: Python<'_>, given: Given, versioned: bool) -> PyResult<Bound<'_, PyAny>> {
    if versioned { capsule::<Versioned>(py, given) } else { capsule::<Unversioned>(py, given) }
}

/// An array that another library gave. It is deleted where this is dropped.
pub struct Taken {
    managed: Pointer,
}

enum Pointer {
    Unversioned(NonNull<Unversioned>),
    Versioned(NonNull<Versioned>),
}

// SAFETY: the tensor is only read, and the deleter is called with the GIL held, as Python's other consumers do.
unsafe impl Send for Taken {}
// SAFETY: the same.
unsafe impl Sync for Taken {}

impl Taken {
    /// Takes the tensor of a capsule.
    pub fn from(capsule: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        if let Some(managed) = take(capsule) {
            return Ok(Self { managed: Pointer::Unversioned(managed) });
        }
        let Some(managed) = take::<Versioned>(capsule) else {
            return Err(PyTypeError::new_err(format!(
                "{what}: expected a capsule of DLPack that was not taken before, got {}",
                capsule.repr()?
            )));
        };
        let taken = Self { managed: Pointer::Versioned(managed) };
        // SAFETY: the capsule's name says that it points to this struct, whose first fields all versions have.
        let [major, minor] = unsafe { managed.as_ref() }.version;
        if major != VERSION[0] {
            return Err(PyBufferError::new_err(format!(
                "{what}: expected DLPack 1, got DLPack {major}.{minor}"
            )));
        }
        Ok(taken)
    }

    fn tensor(&self) -> &Tensor {
        // SAFETY: the struct is valid until the deleter is called, where this is dropped.
        unsafe {
            match &self.managed {
                Pointer::Unversioned(managed) => managed.as_ref().tensor(),
                Pointer::Versioned(managed) => managed.as_ref().tensor(),
            }
        }
    }

    pub fn device(&self) -> DlDevice {
        self.tensor().device
    }

    pub fn dtype(&self) -> DlType {
        self.tensor().dtype
    }

    pub fn shape(&self) -> &[i64] {
        self.axes(self.tensor().shape)
    }

    /// The address of the first element.
    pub fn pointer(&self) -> u64 {
        (self.tensor().data as u64).wrapping_add(self.tensor().byte_offset)
    }

    /// Strides in elements, unless the array is C-contiguous.
    pub fn odd_strides(&self) -> Option<&[i64]> {
        if self.tensor().strides.is_null() {
            return None;
        }
        let strides = self.axes(self.tensor().strides);
        let mut expected = 1;
        for (&stride, &len) in strides.iter().zip(self.shape()).rev() {
            // An axis of one element is never stepped along.
            if len != 1 && stride != expected {
                return Some(strides);
            }
            expected *= len;
        }
        None
    }

    /// The elements as `words` 32-bit words of a device.
    ///
    /// # Safety
    /// The array is on this device, C-contiguous, and has that many words; and `self` is kept until work with the buffer is done.
    pub unsafe fn words(&self, device: &Device, words: usize) -> Result<Buffer<u32>, CudaError> {
        // SAFETY: the producer gave an array of this device and size, which it keeps until the deleter is called, and the caller
        // guarantees the rest.
        unsafe { device.borrow_memory(self.pointer(), words) }
    }

    fn axes(&self, from: *const i64) -> &[i64] {
        let count = usize::try_from(self.tensor().ndim).unwrap_or(0);
        if count == 0 || from.is_null() {
            return &[];
        }
        // SAFETY: the producer gave a number for each axis, which live as long as the struct.
        unsafe { std::slice::from_raw_parts(from, count) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Deleters of other libraries may need the GIL. Without an interpreter the array is leaked.
        let _ = Python::try_attach(|_| {
            // SAFETY: the tensor was taken from its capsule, so this is the one call of its deleter.
            unsafe {
                match &self.managed {
                    Pointer::Unversioned(managed) => call_deleter(managed.as_ptr()),
                    Pointer::Versioned(managed) => call_deleter(managed.as_ptr()),
                }
            }
        });
    }
}

/// # Safety
/// `managed` is valid and its deleter was not called.
unsafe fn call_deleter<M: Managed>(managed: *mut M) {
    // SAFETY: the caller guarantees it.
    unsafe {
        if let Some(deleter) = (*managed).deleter() {
            deleter(managed);
        }
    }
}

/// Takes what a capsule of this kind owns, and renames it so that it is taken only once.
fn take<M: Managed>(capsule: &Bound<'_, PyAny>) -> Option<NonNull<M>> {
    // SAFETY: any object may be asked whether it is such a capsule; a capsule of this name points to this struct.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), M::NAME.as_ptr()) != 1 {
            return None;
        }
        let managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), M::NAME.as_ptr());
        if ffi::PyCapsule_SetName(capsule.as_ptr(), M::USED.as_ptr()) != 0 {
            return None;
        }
        NonNull::new(managed.cast())
    }
}
