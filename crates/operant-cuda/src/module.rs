//! A loaded program, its kernels, and their launch.

use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUmodule};

use crate::compiler::Image;
use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::params::Params;
use crate::program::Program;
use crate::stream::Stream;
use crate::transfers::Transfers;

/// How a kernel is launched: blocks of threads, in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
}

impl Grid {
    /// As many blocks of `threads` threads as have a thread for each of `count`.
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
    image: Image,
}

impl Module {
    pub(crate) fn new(context: &Arc<Context>, program: &Program, image: Image) -> Result<Module, CudaError> {
        if image.code.is_empty() {
            return Err(CudaError::Compiler {
                problem: format!("{} was compiled to no code at all", program.name),
                remedy: "install NVRTC anew: `pip install --force-reinstall nvidia-cuda-nvrtc`".to_owned(),
            });
        }
        let mut raw = std::ptr::null_mut();
        context.call(format_args!("loading {}", program.name), |driver| {
            // SAFETY: the image is a whole CUBIN, which tells its own size, and the result lives through the call.
            unsafe { driver.cuModuleLoadData(&mut raw, image.code.as_ptr().cast()) }
        })?;
        let context = context.clone();
        Ok(Module(Arc::new(Loaded { context, raw: Handle(raw), program: program.name.clone(), image })))
    }

    /// The kernel of this name, its code loaded, so that its first launch may be in a capture.
    ///
    /// # Errors
    /// [`CudaError::NoKernel`], and the driver's.
    pub fn function(&self, name: &str) -> Result<Function, CudaError> {
        use cudarc::driver::sys::CUresult;

        let missing = || CudaError::NoKernel { program: self.0.program.clone(), kernel: name.to_owned() };
        let text = CString::new(name).map_err(|_| missing())?;
        let mut raw = std::ptr::null_mut();
        let found = self.0.context.call(format_args!("looking for the kernel {name}"), |driver| {
            // SAFETY: the module is loaded as long as this lives, and the name and the result live through the call.
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

    /// What the program was compiled to, its log, and whether it came from the cache.
    pub fn image(&self) -> &Image {
        &self.0.image
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: loaded by cuModuleLoadData and unloaded once. The driver waits for kernels of it that run.
        self.context.release(|driver| unsafe { driver.cuModuleUnload(self.raw.0) });
    }
}

/// A kernel of a loaded program, which stays loaded.
#[derive(Debug, Clone)]
pub struct Function {
    module: Arc<Loaded>,
    raw: Handle<CUfunction>,
    name: String,
    /// Bytes of each parameter; None where the driver does not tell.
    parameters: Option<Vec<usize>>,
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Allows launches with so many bytes of dynamic shared memory a block; without this the limit is 48 KiB.
    ///
    /// # Errors
    /// More than the device has, and the driver's.
    pub fn shared(&mut self, bytes: usize) -> Result<(), CudaError> {
        let context = &self.module.context;
        let most = context.properties.shared_per_block;
        let (true, Ok(value)) = (bytes <= most, c_int::try_from(bytes)) else {
            return Err(CudaError::refused(
                format!(
                    "{} wants {bytes} bytes of shared memory a block and {} has {most}",
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

    /// Registers a thread.
    ///
    /// # Errors
    /// The driver's.
    pub fn registers(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// Bytes of local memory a thread: spilled registers, and arrays that are indexed by variables.
    ///
    /// # Errors
    /// The driver's.
    pub fn local_bytes(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32, CudaError> {
        let mut value: c_int = 0;
        self.module.context.call(format_args!("asking what {} uses", self.name), |driver| {
            // SAFETY: the function's module is loaded, and the result lives through the call.
            unsafe { driver.cuFuncGetAttribute(&mut value, attribute, self.raw.0) }
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// How many blocks of so many threads, each with so many bytes of dynamic shared memory, fit on a multiprocessor.
    ///
    /// # Errors
    /// The driver's.
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared: usize) -> Result<u32, CudaError> {
        let mut blocks: c_int = 0;
        let wanted = c_int::try_from(threads).unwrap_or(c_int::MAX);
        self.module.context.call(format_args!("asking how many blocks of {} fit", self.name), |driver| {
            // SAFETY: the function's module is loaded, and the result lives through the call.
            unsafe {
                driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.raw.0, wanted, shared)
            }
        })?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Gives the kernel to the stream, its buffers checked. Blocks run in any order, and may not wait for each other. In a capture
    /// the graph keeps the buffers.
    ///
    /// # Errors
    /// When a buffer has another length, the kernel takes other parameters or fewer blocks, and those of [`Function::launch`].
    pub fn run<P: Params>(
        &self,
        stream: &Stream,
        grid: Grid,
        params: &P,
        sizes: &P::Sizes,
    ) -> Result<(), CudaError> {
        let raw = self.checked(stream, grid, params, sizes)?;
        // SAFETY: the parameter is the kernel's, the launch has no more blocks than it may, and every buffer has the length within
        // which the kernel stays by its declaration; freeing one waits for the stream, and a graph keeps them.
        unsafe { self.launch(stream, grid, &raw) }
    }

    /// [`Function::run`] with all blocks alive at once, so that they may wait for each other.
    ///
    /// # Errors
    /// Those of [`Function::run`] and of [`Function::launch_cooperative`].
    pub fn run_cooperative<P: Params>(
        &self,
        stream: &Stream,
        grid: Grid,
        params: &P,
        sizes: &P::Sizes,
    ) -> Result<(), CudaError> {
        let raw = self.checked(stream, grid, params, sizes)?;
        // SAFETY: as above.
        unsafe { self.launch_cooperative(stream, grid, &raw) }
    }

    /// The kernel's parameter, where this kernel takes it in such a launch.
    fn checked<P: Params>(
        &self,
        stream: &Stream,
        grid: Grid,
        params: &P,
        sizes: &P::Sizes,
    ) -> Result<P::Raw, CudaError> {
        if !P::KERNELS.contains(&self.name.as_str()) {
            return Err(CudaError::refused(
                format!("{} does not take {}", self.name, P::CUDA),
                "name the kernel in the declaration of what it takes",
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

    /// Gives the kernel to the stream. Blocks run in any order, and may not wait for each other.
    ///
    /// # Errors
    /// A stream of another device, parameters of another size, and the driver's. What goes wrong while the kernel runs is
    /// an error of a later call.
    ///
    /// # Safety
    /// `params` is the kernel's one parameter, and its pointers are valid for what the kernel does until the
    /// stream is past it; when the stream is being captured, as long as the graph is launched ([`crate::Buffer::keep_in`]).
    pub unsafe fn launch<P: Copy>(&self, stream: &Stream, grid: Grid, params: &P) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.give(stream, grid, params, false) }
    }

    /// [`Function::launch`] with all blocks alive at once, so that they may wait for each other.
    ///
    /// # Errors
    /// Those of [`Function::launch`], a device that cannot do it, and more blocks than fit on it at once.
    ///
    /// # Safety
    /// That of [`Function::launch`].
    pub unsafe fn launch_cooperative<P: Copy>(
        &self,
        stream: &Stream,
        grid: Grid,
        params: &P,
    ) -> Result<(), CudaError> {
        let context = &self.module.context;
        if !context.properties.cooperative {
            return Err(CudaError::refused(
                format!(
                    "{} cannot keep all blocks of {} alive at once (no cooperative launch)",
                    context.name(),
                    self.name
                ),
                "choose another device, or without MIG or MPS",
            ));
        }
        // SAFETY: the caller's promise.
        unsafe { self.give(stream, grid, params, true) }
    }

    /// # Safety
    /// That of [`Function::launch`].
    unsafe fn give<P: Copy>(
        &self,
        stream: &Stream,
        grid: Grid,
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
                    "{} takes parameters of {sizes:?} bytes and is given one of {}",
                    self.name,
                    size_of::<P>()
                ),
                "give its one parameter the same fields in Rust and in CUDA",
            ));
        }
        let mut parameters: [*mut c_void; 1] = [std::ptr::from_ref(params).cast_mut().cast()];
        let Grid { blocks, threads, shared } = grid;
        let doing = format_args!(
            "launching {} with {blocks} blocks of {threads} threads and {shared} bytes of shared memory",
            self.name
        );
        context.call(doing, |driver| {
            let (function, to, stream) = (self.raw.0, parameters.as_mut_ptr(), stream.raw());
            if cooperative {
                // SAFETY: the function's module is loaded; the driver copies the parameter before it returns; the rest
                // is the caller's promise.
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
