//! Programs, kernels and their launches.

use operant_cuda::{CudaError, Device, Function, LaunchConfig, Plain, Program, Transfers};

use crate::{Scale, cuda, device, needs_stand_in, program, search_paths};

fn kernel(device: &Device, name: &str) -> Function {
    device.load(&program()).unwrap_or_else(|error| panic!("{error}")).function(name).expect("a kernel")
}

fn grid(blocks: u32, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { blocks, threads, shared }
}

/// Launches `scale` over 130 values.
fn scale(device: &Device, function: &Function, grid: LaunchConfig) -> Result<Vec<f32>, CudaError> {
    let stream = device.stream()?;
    let values: Vec<f32> = (0..130u16).map(f32::from).collect();
    let (from, to) = (device.alloc::<f32>(130)?, device.alloc::<f32>(130)?);
    from.write(&stream, &values)?;
    to.fill(&stream, 0xff)?;
    let params = Scale { from: from.pointer(), to: to.pointer(), count: 130, factor: 2.0 };
    // SAFETY: `scale` takes this struct, and both buffers have `count` elements.
    unsafe { function.launch(&stream, grid, &params) }?;
    to.read(&stream)
}

#[test]
fn a_kernel_runs_on_every_device_alike() {
    needs_stand_in!();
    let doubled: Vec<f32> = (0..130u16).map(|i| 2.0 * f32::from(i)).collect();
    for ordinal in [0, 1, 2, 4] {
        let device = device(ordinal);
        let function = kernel(&device, "scale");
        assert_eq!(scale(&device, &function, grid(3, 64, 0)).expect("run"), doubled);
        assert_eq!(device.transfers(), Transfers { bytes_h2d: 520, bytes_d2h: 520, launches: 1, graphs: 0 });
    }
}

#[test]
fn a_program_is_compiled_once_and_then_cached() {
    needs_stand_in!();
    let cache = tempfile::tempdir().expect("a temporary directory");
    let cuda = cuda().cached_in(Some(cache.path()));
    let load = || cuda.open(0).expect("a device").load(&program()).expect("a module");
    let (first, again) = (load(), load());
    assert!(!first.image().cached && again.image().cached);
    assert_eq!(first.image().code, again.image().code);
    assert_eq!(first.image().note, None);
    assert!(first.image().seconds > 0.0);
    let device = cuda.open(0).expect("a device");
    assert!(scale(&device, &again.function("scale").expect("a kernel"), grid(3, 64, 0)).is_ok());
    assert_eq!(cuda.compiler().cache_directory(), Some(cache.path()));
}

#[test]
fn what_does_not_compile_shows_its_log() {
    needs_stand_in!();
    let broken = Program { source: "KERNEL(scale, Missing, 64, 1) {}".to_owned(), ..program() };
    let text = device(0).load(&broken).map(|_| ()).expect_err("it is broken").to_string();
    assert!(text.starts_with("scale.cu does not compile for sm_90: NVRTC_ERROR_COMPILATION; "), "{text}");
    assert!(text.contains("Missing"), "{text}");
}

#[test]
fn a_kernel_that_is_not_there_is_named() {
    needs_stand_in!();
    let module = device(0).load(&program()).expect("a module");
    for name in ["skale", "", "a\0b"] {
        let error = module.function(name).map(|_| ()).expect_err("no such kernel");
        assert_eq!(error, CudaError::NoKernel { program: "scale.cu".to_owned(), kernel: name.to_owned() });
    }
}

#[test]
fn a_parameter_of_another_size_is_refused() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let function = kernel(&device, "scale");
    // SAFETY: it is refused, and that is what is tested.
    let error = unsafe { function.launch(&stream, grid(1, 64, 0), &[0u64; 2]) }.expect_err("16 bytes of 24");
    let text = error.to_string();
    assert!(text.contains("scale takes parameters of [24] bytes and was given one of 16; "), "{text}");
    assert_eq!(device.transfers().launches, 0);
}

#[test]
fn a_launch_that_the_driver_refuses_names_its_grid_and_harms_nothing() {
    needs_stand_in!();
    let device = device(0);
    let function = kernel(&device, "scale");
    for bad in [grid(1, 128, 0), grid(0, 64, 0), grid(1, 64, 64 << 10)] {
        let error = scale(&device, &function, bad).expect_err("more threads or shared memory than it allows");
        let text = error.to_string();
        assert!(text.starts_with("cuLaunchKernel failed with CUDA_ERROR_INVALID_VALUE (1: "), "{text}");
        assert!(text.contains("on device 0 (host, threads in order) while launching scale with"), "{text}");
        assert!(text.contains(&format!("{} threads and {} bytes", bad.threads, bad.shared)), "{text}");
        assert!(!error.is_lost());
    }
    assert_eq!(device.transfers().launches, 0);
    assert!(scale(&device, &function, grid(3, 64, 0)).is_ok());
}

#[test]
fn shared_memory_beyond_48_kib_is_asked_for() {
    needs_stand_in!();
    for ordinal in 0..3 {
        let device = device(ordinal);
        let stream = device.stream().expect("a stream");
        let mut function = kernel(&device, "turn");
        let to = device.alloc::<u32>(128).expect("a buffer");
        // SAFETY: `turn` takes the address of 2 x 64 numbers.
        let launch = |function: &Function, shared| unsafe {
            function.launch(&stream, grid(2, 64, shared), &to.pointer())
        };
        assert!(launch(&function, 100 << 10).is_err());
        function.shared(100 << 10).expect("the device has it");
        launch(&function, 100 << 10).expect("launched");
        let reversed: Vec<u32> = (0..2).flat_map(|_| (0..64).rev()).collect();
        assert_eq!(to.read(&stream).expect("read"), reversed);
        let text = function.shared(228 << 10).expect_err("more than it has").to_string();
        assert!(text.contains("turn needs 233472 bytes") && text.contains("has 232448"), "{text}");
        assert_eq!(function.blocks_per_multiprocessor(64, 100 << 10), Ok(2));
        assert!(function.registers().is_ok() && function.local_bytes() == Ok(0));
    }
}

/// The parameter of `meet`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Meet {
    numbers: u64,
    sums: u64,
    barrier: u64,
}

// SAFETY: numbers only.
unsafe impl Plain for Meet {}

/// Launches `meet`, whose blocks wait for each other: every block gets the sum of 1 to `blocks`.
fn meet(device: &Device, blocks: u32) -> Result<Vec<u32>, CudaError> {
    let stream = device.stream()?;
    let count = blocks as usize;
    let (numbers, sums) = (device.alloc::<u32>(count)?, device.alloc::<u32>(count)?);
    let barrier = device.alloc::<u32>(2)?;
    barrier.fill(&stream, 0)?;
    let function = kernel(device, "meet");
    let params = Meet { numbers: numbers.pointer(), sums: sums.pointer(), barrier: barrier.pointer() };
    // SAFETY: `meet` takes this struct, with one number and one sum a block.
    unsafe { function.launch_cooperative(&stream, grid(blocks, 64, 0), &params) }?;
    sums.read(&stream)
}

#[test]
fn the_blocks_of_a_cooperative_launch_wait_for_each_other() {
    needs_stand_in!();
    for ordinal in 0..3 {
        let device = device(ordinal);
        assert_eq!(meet(&device, 17).expect("run"), [17 * 18 / 2; 17]);
        assert_eq!(device.transfers().launches, 1);
    }
}

#[test]
fn a_cooperative_launch_that_cannot_be_says_why() {
    needs_stand_in!();
    let text = meet(&device(4), 2).expect_err("the device cannot").to_string();
    assert!(
        text.contains("device 4 (host, no cooperative launch) cannot keep all blocks of meet resident"),
        "{text}"
    );
    let text = meet(&device(0), 132 * 32 + 1).expect_err("too many blocks").to_string();
    assert!(text.contains("CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE (720: "), "{text}");
    assert!(text.ends_with("; launch no more blocks than fit on the device at once"), "{text}");
}

#[test]
fn a_kernel_outlives_its_module_and_its_device() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let (from, to) = (device.alloc::<f32>(1).expect("a buffer"), device.alloc::<f32>(1).expect("a buffer"));
    from.write(&stream, &[21.0]).expect("written");
    let function = kernel(&device, "scale");
    drop(device);
    let params = Scale { from: from.pointer(), to: to.pointer(), count: 1, factor: 2.0 };
    // SAFETY: `scale` takes this struct, and both buffers have one element.
    unsafe { function.launch(&stream, grid(1, 64, 0), &params) }.expect("launched");
    assert_eq!(to.read(&stream).expect("read"), [42.0]);
}

#[test]
fn threads_share_a_device() {
    needs_stand_in!();
    let device = device(2);
    let function = kernel(&device, "scale");
    let doubled: Vec<f32> = (0..130u16).map(|i| 2.0 * f32::from(i)).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(scale(&device, &function, grid(3, 64, 0)).expect("run"), doubled);
                }
            });
        }
    });
    assert_eq!(device.transfers().launches, 80);
}

#[test]
fn two_searches_find_the_same_driver() {
    needs_stand_in!();
    let again = operant_cuda::Cuda::find_at(&search_paths()).expect("the same").cached_in(None);
    assert_eq!(again.driver_path(), cuda().driver_path());
    let (one, other) = (device(1), again.open(1).expect("a device"));
    let stream = one.stream().expect("a stream");
    let buffer = other.alloc::<u8>(3).expect("a buffer");
    buffer.fill(&stream, 4).expect("it is the same context");
    assert_eq!(buffer.read(&stream).expect("read"), [4; 3]);
}
