//! A loaded program, its kernels, and their launch.

use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUmodule};

use crate::compiler::CompiledProgram;
use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::params::Params;
use crate::program::Program;
use crate::stream::Stream;
use crate::transfers::Transfers;

/// A launch configuration: blocks of threads, in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    pub blocks: u32,
    /// Threads per block.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
}

impl LaunchConfig {
    /// Enough blocks of `threads` threads to have a thread for each of `count` elements.
    pub fn covering(count: usize, threads: u32) -> Self {
        let blocks = u32::try_from(count.div_ceil(threads as usize)).unwrap_or(u32::MAX);
        Self { blocks, threads, shared: 0 }
    }
}

/// A program that is loaded on a device.
#[derive(Debug, Clone)]
pub struct Module(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    context: Arc<Context>,
    raw: Handle<CUmodule>,
    program: String,
    image: CompiledProgram,
}

impl Module {
    pub(crate) fn new(
        context: &Arc<Context>,
        program: &Program,
        image: CompiledProgram,
    ) -> Result<Module, CudaError> {
        if image.code.is_empty() {
            return Err(CudaError::Compiler {
                problem: format!("{} was compiled to an empty image", program.name),
                remedy: "reinstall NVRTC: `pip install --force-reinstall nvidia-cuda-nvrtc`".to_owned(),
            });
        }
        let mut raw = std::ptr::null_mut();
        context.call(format_args!("loading {}", program.name), |driver| {
            // SAFETY: the image is a whole CUBIN, which contains its own size, and the result outlives the call.
            unsafe { driver.cuModuleLoadData(&mut raw, image.code.as_ptr().cast()) }
        })?;
        let context = context.clone();
        Ok(Module(Arc::new(Loaded { context, raw: Handle(raw), program: program.name.clone(), image })))
    }

    /// The kernel of this name. Its code is loaded here, so that its first launch may be in a capture.
    ///
    /// # Errors
    /// [`CudaError::NoKernel`], and driver errors.
    pub fn function(&self, name: &str) -> Result<Function, CudaError> {
        use cudarc::driver::sys::CUresult;

        let missing = || CudaError::NoKernel { program: self.0.program.clone(), kernel: name.to_owned() };
        let text = CString::new(name).map_err(|_| missing())?;
        let mut raw = std::ptr::null_mut();
        let found = self.0.context.call(format_args!("looking for the kernel {name}"), |driver| {
            // SAFETY: the module is loaded as long as this lives, and the name and the result outlive the call.
            unsafe { driver.cuModuleGetFunction(&mut raw, self.0.raw.0, text.as_ptr()) }?;
            // SAFETY: the function was just found in a loaded module.
            unsafe { driver.load_function(raw) }?;
            // SAFETY: the same.
            Ok(unsafe { driver.parameter_sizes(raw) })
        });
        match found {
            Ok(parameters) => {
                Ok(Function { module: self.0.clone(), raw: Handle(raw), name: name.to_owned(), parameters })
            }
            Err(CudaError::Call { failure, .. }) if failure.code == CUresult::CUDA_ERROR_NOT_FOUND as u32 => {
                Err(missing())
            }
            Err(error) => Err(error),
        }
    }

    /// The compiled program, its log, and whether it came from the cache.
    pub fn image(&self) -> &CompiledProgram {
        &self.0.image
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: loaded by cuModuleLoadData and unloaded once. The driver waits for its running kernels.
        self.context.release(|driver| unsafe { driver.cuModuleUnload(self.raw.0) });
    }
}

/// A kernel of a loaded program; it keeps the program loaded.
#[derive(Debug, Clone)]
pub struct Function {
    module: Arc<Loaded>,
    raw: Handle<CUfunction>,
    name: String,
    /// Bytes of each parameter; None if the driver cannot report them.
    parameters: Option<Vec<usize>>,
}

impl Function {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Allows launches with `bytes` bytes of dynamic shared memory per block; the default limit is 48 KiB.
    ///
    /// # Errors
    /// More than the device has, and driver errors.
    pub fn shared(&mut self, bytes: usize) -> Result<(), CudaError> {
        let context = &self.module.context;
        let most = context.properties.shared_per_block;
        let (true, Ok(value)) = (bytes <= most, c_int::try_from(bytes)) else {
            return Err(CudaError::refused(
                format!(
                    "{} needs {bytes} bytes of shared memory per block and {} has {most}",
                    self.name,
                    context.name()
                ),
                "choose a smaller network or tile for this device",
            ));
        };
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        context.call(format_args!("allowing {} {bytes} bytes of shared memory", self.name), |driver| {
            // SAFETY: the function's module is loaded.
            unsafe { driver.cuFuncSetAttribute(self.raw.0, attribute, value) }
        })
    }

    /// Registers per thread.
    pub fn registers(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// Bytes of local memory per thread: spilled registers, and arrays that are indexed by variables.
    pub fn local_bytes(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32, CudaError> {
        let mut value: c_int = 0;
        self.module.context.call(format_args!("asking what {} uses", self.name), |driver| {
            // SAFETY: the function's module is loaded, and the result outlives the call.
            unsafe { driver.cuFuncGetAttribute(&mut value, attribute, self.raw.0) }
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// How many blocks of `threads` threads, each with `shared` bytes of dynamic shared memory, fit on a multiprocessor.
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared: usize) -> Result<u32, CudaError> {
        let mut blocks: c_int = 0;
        let requested = c_int::try_from(threads).unwrap_or(c_int::MAX);
        self.module.context.call(format_args!("asking how many blocks of {} fit", self.name), |driver| {
            // SAFETY: the function's module is loaded, and the result outlives the call.
            unsafe {
                driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.raw.0, requested, shared)
            }
        })?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Launches the kernel with checked buffers. Blocks run in any order and must not wait for each other. In a capture the graph
    /// keeps the buffers.
    ///
    /// # Errors
    /// A buffer of the wrong length, other parameters than the kernel takes, too many blocks, and errors of [`Function::launch`].
    pub fn run<P: Params>(
        &self,
        stream: &Stream,
        grid: LaunchConfig,
        params: &P,
        sizes: &P::Sizes,
    ) -> Result<(), CudaError> {
        let raw = self.checked(stream, grid, params, sizes)?;
        // SAFETY: the parameter is the kernel's, the launch has no more blocks than declared, and every buffer has the length that
        // the kernel's declaration guarantees it stays within; freeing one waits for the stream, and a graph keeps them.
        unsafe { self.launch(stream, grid, &raw) }
    }

    /// [`Function::run`] with all blocks resident at once, so that they may wait for each other.
    ///
    /// # Errors
    /// The errors of [`Function::run`] and of [`Function::launch_cooperative`].
    pub fn run_cooperative<P: Params>(
        &self,
        stream: &Stream,
        grid: LaunchConfig,
        params: &P,
        sizes: &P::Sizes,
    ) -> Result<(), CudaError> {
        let raw = self.checked(stream, grid, params, sizes)?;
        // SAFETY: as in [`Function::run`].
        unsafe { self.launch_cooperative(stream, grid, &raw) }
    }

    /// The kernel's parameter, if this kernel takes it with this many blocks.
    fn checked<P: Params>(
        &self,
        stream: &Stream,
        grid: LaunchConfig,
        params: &P,
        sizes: &P::Sizes,
    ) -> Result<P::Raw, CudaError> {
        if !P::KERNELS.contains(&self.name.as_str()) {
            return Err(CudaError::refused(
                format!("{} does not take {}", self.name, P::CUDA),
                "name the kernel in the declaration of its parameters",
            ));
        }
        let most = params.blocks(sizes);
        if grid.blocks as usize > most {
            return Err(CudaError::Length { what: "blocks", given: grid.blocks as usize, expected: most });
        }
        if stream.is_capturing() {
            params.keep_in(stream);
        }
        params.raw(sizes)
    }

    /// Launches the kernel. Blocks run in any order and must not wait for each other.
    ///
    /// # Errors
    /// A stream of another device, parameters of another size, and driver errors. An error while the kernel runs is
    /// reported by a later call.
    ///
    /// # Safety
    /// `params` is the kernel's one parameter, and its pointers are valid for what the kernel does until the
    /// stream is past it; when the stream is being captured, as long as the graph is launched ([`crate::Buffer::keep_in`]).
    pub unsafe fn launch<P: Copy>(
        &self,
        stream: &Stream,
        grid: LaunchConfig,
        params: &P,
    ) -> Result<(), CudaError> {
        // SAFETY: the caller guarantees it.
        unsafe { self.give(stream, grid, params, false) }
    }

    /// [`Function::launch`] with all blocks resident at once, so that they may wait for each other.
    ///
    /// # Errors
    /// The errors of [`Function::launch`], a device that cannot do it, and more blocks than fit on it at once.
    ///
    /// # Safety
    /// Same as [`Function::launch`].
    pub unsafe fn launch_cooperative<P: Copy>(
        &self,
        stream: &Stream,
        grid: LaunchConfig,
        params: &P,
    ) -> Result<(), CudaError> {
        let context = &self.module.context;
        if !context.properties.cooperative {
            return Err(CudaError::refused(
                format!(
                    "{} cannot keep all blocks of {} resident at once (no cooperative launch)",
                    context.name(),
                    self.name
                ),
                "choose another device, or one without MIG or MPS",
            ));
        }
        // SAFETY: the caller guarantees it.
        unsafe { self.give(stream, grid, params, true) }
    }

    /// # Safety
    /// Same as [`Function::launch`].
    unsafe fn give<P: Copy>(
        &self,
        stream: &Stream,
        grid: LaunchConfig,
        params: &P,
        cooperative: bool,
    ) -> Result<(), CudaError> {
        let context = &self.module.context;
        stream.must_be_on(context)?;
        if let Some(sizes) = &self.parameters
            && sizes.as_slice() != [size_of::<P>()]
        {
            return Err(CudaError::refused(
                format!(
                    "{} takes parameters of {sizes:?} bytes and was given one of {}",
                    self.name,
                    size_of::<P>()
                ),
                "give its one parameter the same fields in Rust and in CUDA",
            ));
        }
        let mut parameters: [*mut c_void; 1] = [std::ptr::from_ref(params).cast_mut().cast()];
        let LaunchConfig { blocks, threads, shared } = grid;
        let doing = format_args!(
            "launching {} with {blocks} blocks of {threads} threads and {shared} bytes of shared memory",
            self.name
        );
        context.call(doing, |driver| {
            let (function, to, stream) = (self.raw.0, parameters.as_mut_ptr(), stream.raw());
            if cooperative {
                // SAFETY: the function's module is loaded; the driver copies the parameter before it returns; the caller
                // guarantees the rest.
                unsafe {
                    driver
                        .cuLaunchCooperativeKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, to)
                }
            } else {
                let extra = std::ptr::null_mut();
                // SAFETY: the same.
                unsafe {
                    driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, to, extra)
                }
            }
        })?;
        stream.count(&Transfers { launches: 1, ..Transfers::default() });
        stream.keep(self.module.clone());
        Ok(())
    }
}
