//! The error type of all GPU operations. Each error has a problem and a remedy.

use std::fmt;
use std::path::PathBuf;

use crate::library::Version;

/// A driver call that failed: the call, the code's number and name, and the driver's description of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The call, `cuMemAlloc_v2`.
    pub call: &'static str,
    /// The driver's code, a `CUresult`.
    pub code: u32,
    /// The code's name, `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// The driver's description of the code.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} failed with {} ({}: {})", self.call, self.name, self.code, self.text)
    }
}

/// An error of a GPU operation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver library that could be used was found.
    NoDriver {
        /// Where the library was searched, or why the one found is unusable.
        problem: String,
        remedy: String,
    },
    /// The driver is older than [`crate::MINIMUM_DRIVER`].
    OldDriver {
        /// The driver's library.
        path: PathBuf,
        /// The CUDA version that it supports.
        found: Version,
        needed: Version,
    },
    /// There is a driver, but it does not start or sees no GPU.
    NoDevice {
        /// The driver's message.
        problem: String,
        remedy: String,
    },
    /// There is no GPU with that ordinal.
    NoSuchDevice {
        ordinal: usize,
        /// Number of GPUs.
        count: usize,
    },
    /// No compiler library (NVRTC) that could be used was found.
    NoCompiler {
        /// Where the library was searched, or why the one found is unusable.
        problem: String,
        remedy: String,
    },
    /// No library for matrix products (cuBLASLt) that could be used was found.
    NoBlas {
        /// Where the library was searched, or why the one found is unusable.
        problem: String,
        remedy: String,
    },
    /// The library for matrix products (cuBLASLt) failed.
    Blas {
        /// The failed call and its error.
        problem: String,
        remedy: String,
    },
    /// No library for sums between GPUs (NCCL) that could be used was found.
    NoNccl {
        /// Where the library was searched, or why the one found is unusable.
        problem: String,
        remedy: String,
    },
    /// The library for sums between GPUs (NCCL) failed.
    Nccl {
        /// The failed call and its error.
        problem: String,
        remedy: String,
    },
    /// The compiler does not support this architecture.
    Architecture {
        /// The architecture, 90 for compute capability 9.0.
        architecture: u32,
        /// The compiler and the architectures that it supports.
        problem: String,
        remedy: String,
    },
    /// A program does not compile.
    Compile {
        program: String,
        /// The architecture it was compiled for.
        architecture: u32,
        /// The compiler's error code.
        problem: String,
        log: String,
    },
    /// The compiler failed for a reason other than the program.
    Compiler {
        /// The failed call and its error.
        problem: String,
        remedy: String,
    },
    /// A driver call failed.
    Call {
        /// The call and its code.
        failure: Box<Failure>,
        device: String,
        /// The operation.
        doing: String,
    },
    /// The device is lost to this process because of an earlier failed call.
    Lost {
        /// The call that failed first.
        failure: Box<Failure>,
        device: String,
        /// The operation of the first failure.
        earlier: String,
        /// The current operation.
        doing: String,
    },
    /// Not enough device or pinned memory.
    OutOfMemory {
        device: String,
        /// `device` or `pinned host`.
        kind: &'static str,
        /// Bytes requested.
        requested: u64,
        /// Bytes of device memory that were free.
        free: u64,
        /// Total bytes of device memory.
        total: u64,
    },
    /// Not enough memory left in an arena.
    ArenaFull {
        /// Bytes requested, alignment included.
        requested: usize,
        /// Bytes left.
        left: usize,
        /// Bytes of the whole arena.
        size: usize,
    },
    /// Two lengths that must be equal differ.
    Length {
        /// What has the wrong length.
        what: &'static str,
        /// Elements given.
        given: usize,
        /// Elements needed.
        expected: usize,
    },
    /// A module has no kernel of this name.
    NoKernel { program: String, kernel: String },
    /// A call that this device, or its current state, does not allow.
    Refused {
        /// What was requested, and why it is refused.
        problem: String,
        remedy: String,
    },
}

impl CudaError {
    /// Whether the device is lost to this process: every later call on it fails too.
    pub fn is_lost(&self) -> bool {
        match self {
            CudaError::Lost { .. } => true,
            CudaError::Call { failure, .. } => is_fatal(failure.code),
            _ => false,
        }
    }

    /// Whether the driver refuses the compiler's output.
    pub(crate) fn is_refused_code(&self) -> bool {
        use cudarc::driver::sys::CUresult as Code;
        const REFUSED: [Code; 4] = [
            Code::CUDA_ERROR_INVALID_IMAGE,
            Code::CUDA_ERROR_NO_BINARY_FOR_GPU,
            Code::CUDA_ERROR_INVALID_PTX,
            Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        ];
        let CudaError::Call { failure, .. } = self else { return false };
        REFUSED.iter().any(|refused| *refused as u32 == failure.code)
    }

    /// The problem, and where it occurred.
    pub fn what(&self) -> String {
        match self {
            CudaError::NoDriver { problem, .. }
            | CudaError::NoDevice { problem, .. }
            | CudaError::NoCompiler { problem, .. }
            | CudaError::NoBlas { problem, .. }
            | CudaError::Blas { problem, .. }
            | CudaError::NoNccl { problem, .. }
            | CudaError::Nccl { problem, .. }
            | CudaError::Architecture { problem, .. }
            | CudaError::Compiler { problem, .. }
            | CudaError::Refused { problem, .. } => problem.clone(),
            CudaError::OldDriver { path, found, needed } => {
                let path = path.display();
                format!("the NVIDIA driver {path} supports CUDA {found}; the minimum is {needed}")
            }
            CudaError::NoSuchDevice { ordinal, count } => {
                format!("there is no GPU {ordinal}: the driver sees {count}, numbered from 0")
            }
            CudaError::Compile { program, architecture, problem, .. } => {
                format!("{program} does not compile for sm_{architecture}: {problem}")
            }
            CudaError::Call { failure, device, doing } => format!("{failure} on {device} while {doing}"),
            CudaError::Lost { failure, device, earlier, doing } => {
                format!("{device} was lost when {failure} while {earlier}, so it cannot continue {doing}")
            }
            CudaError::OutOfMemory { device, kind, requested, free, total } => format!(
                "{device} has no room for {requested} bytes of {kind} memory: {free} of its {total} bytes are free"
            ),
            CudaError::ArenaFull { requested, left, size } => {
                format!("an arena of {size} bytes has {left} left and {requested} were requested")
            }
            CudaError::Length { what, given, expected } => {
                format!("{what} has {given} elements where {expected} are needed")
            }
            CudaError::NoKernel { program, kernel } => format!("{program} has no kernel `{kernel}`"),
        }
    }

    /// Whether this machine lacks what the request needs, and nothing has failed.
    pub fn is_of_the_machine(&self) -> bool {
        matches!(
            self,
            CudaError::NoDriver { .. }
                | CudaError::OldDriver { .. }
                | CudaError::NoDevice { .. }
                | CudaError::NoSuchDevice { .. }
                | CudaError::NoCompiler { .. }
                | CudaError::NoNccl { .. }
                | CudaError::Architecture { .. }
        )
    }

    pub fn remedy(&self) -> String {
        match self {
            CudaError::NoDriver { remedy, .. }
            | CudaError::NoDevice { remedy, .. }
            | CudaError::NoCompiler { remedy, .. }
            | CudaError::NoBlas { remedy, .. }
            | CudaError::Blas { remedy, .. }
            | CudaError::NoNccl { remedy, .. }
            | CudaError::Nccl { remedy, .. }
            | CudaError::Architecture { remedy, .. }
            | CudaError::Compiler { remedy, .. }
            | CudaError::Refused { remedy, .. } => remedy.clone(),
            CudaError::OldDriver { .. } => "install a newer NVIDIA driver (525 or later)".to_owned(),
            CudaError::NoSuchDevice { .. } => {
                "choose another, or see `nvidia-smi -L` and CUDA_VISIBLE_DEVICES".to_owned()
            }
            CudaError::Compile { log, .. } => format!("see the compiler's log:\n{log}"),
            CudaError::Call { failure, .. } => advice(failure).to_owned(),
            CudaError::Lost { .. } => {
                "start the program again from its last checkpoint, and see `dmesg` for Xid messages"
                    .to_owned()
            }
            CudaError::OutOfMemory { .. } => {
                "ask for less (fewer environments), or end what else uses the device (`nvidia-smi` lists it)"
                    .to_owned()
            }
            CudaError::ArenaFull { .. } => "make the arena larger".to_owned(),
            CudaError::Length { .. } => "pass exactly that many".to_owned(),
            CudaError::NoKernel { .. } => {
                "declare it with KERNEL in that file, or correct the name".to_owned()
            }
        }
    }

    /// The problem and the remedy.
    pub fn parts(&self) -> (String, String) {
        (self.what(), self.remedy())
    }

    pub(crate) fn refused(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        CudaError::Refused { problem: problem.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.what(), self.remedy())
    }
}

impl std::error::Error for CudaError {}

/// Codes after which every call in the device's context fails with the same error.
pub(crate) fn is_fatal(code: u32) -> bool {
    use cudarc::driver::sys::CUresult as Code;
    const FATAL: &[Code] = &[
        Code::CUDA_ERROR_ECC_UNCORRECTABLE,
        Code::CUDA_ERROR_NVLINK_UNCORRECTABLE,
        Code::CUDA_ERROR_CONTAINED,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS,
        Code::CUDA_ERROR_LAUNCH_TIMEOUT,
        Code::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        Code::CUDA_ERROR_ASSERT,
        Code::CUDA_ERROR_HARDWARE_STACK_ERROR,
        Code::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        Code::CUDA_ERROR_MISALIGNED_ADDRESS,
        Code::CUDA_ERROR_INVALID_ADDRESS_SPACE,
        Code::CUDA_ERROR_INVALID_PC,
        Code::CUDA_ERROR_LAUNCH_FAILED,
        Code::CUDA_ERROR_TENSOR_MEMORY_LEAK,
        Code::CUDA_ERROR_MPS_CLIENT_TERMINATED,
        Code::CUDA_ERROR_EXTERNAL_DEVICE,
    ];
    FATAL.iter().any(|fatal| *fatal as u32 == code)
}

/// The remedy for an error code.
fn advice(failure: &Failure) -> &'static str {
    use cudarc::driver::sys::CUresult as Code;
    let is = |codes: &[Code]| codes.iter().any(|code| *code as u32 == failure.code);
    if is_fatal(failure.code) {
        "start the program again from its last checkpoint, and see `dmesg` for Xid messages"
    } else if is(&[Code::CUDA_ERROR_OUT_OF_MEMORY]) {
        "ask for less, or end what else uses the device (`nvidia-smi` lists it)"
    } else if is(&[Code::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE]) {
        "launch no more blocks than fit on the device at once"
    } else if is(&[Code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES]) {
        "launch smaller blocks, or with less shared memory"
    } else if is(&[Code::CUDA_ERROR_NO_BINARY_FOR_GPU, Code::CUDA_ERROR_INVALID_IMAGE]) {
        "delete the kernel cache (`operant info` names it), so that the kernels are compiled again"
    } else if is(&[Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH]) {
        "restart the machine, since the driver was updated while it ran"
    } else if is(&[Code::CUDA_ERROR_DEVICE_UNAVAILABLE]) {
        "end the process that holds the device exclusively (`nvidia-smi` lists it), or choose another device"
    } else {
        "see what `nvidia-smi` and `dmesg` say about the device"
    }
}
