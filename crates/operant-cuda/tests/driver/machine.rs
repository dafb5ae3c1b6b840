//! Libraries, devices, and versions that do not match each other.

use std::path::Path;

use operant_cuda::{Cuda, CudaError, SearchPaths, Version, inspect, inspect_at};

use crate::{cuda, needs_stand_in, program, search_paths, stand_in};

#[test]
fn everything_is_found_and_reported() {
    needs_stand_in!();
    let inspection = inspect_at(&search_paths());
    assert!(inspection.usable(), "{inspection:?}");
    let driver = inspection.driver.found.expect("a driver");
    assert!(driver.path.starts_with(directory()));
    assert_eq!(driver.version, Some(Version { major: 13, minor: 0 }));
    let compiler = inspection.compiler.found.expect("a compiler");
    assert_eq!(compiler.version, Some(Version { major: 13, minor: 0 }));
    let cuda = cuda();
    assert_eq!(cuda.driver_path(), driver.path);
    assert_eq!(cuda.compiler().path(), compiler.path);
    assert_eq!(inspection.devices, cuda.devices().expect("devices"));
}

#[test]
fn devices_say_what_they_are() {
    needs_stand_in!();
    let devices = cuda().devices().expect("devices");
    assert_eq!(devices.len(), 6);
    for (ordinal, device) in devices.iter().enumerate() {
        assert_eq!((device.ordinal, device.architecture()), (ordinal, 90));
        assert_eq!((device.multiprocessors, device.threads_per_multiprocessor), (132, 2048));
        assert_eq!(
            (device.shared_per_block, device.shared_per_multiprocessor, device.registers_per_multiprocessor),
            (227 << 10, 228 << 10, 65_536)
        );
        assert!(device.uuid.starts_with("GPU-") && device.uuid.len() == 40, "{}", device.uuid);
        assert_eq!(device.cooperative, ordinal != 4);
        assert!(device.name.starts_with("host, "));
    }
    assert_eq!(devices[3].memory_bytes, 1 << 20);
    let mut uuids: Vec<&str> = devices.iter().map(|device| device.uuid.as_str()).collect();
    uuids.sort_unstable();
    uuids.dedup();
    assert_eq!(uuids.len(), 6);
}

#[test]
fn a_device_that_does_not_exist_is_named() {
    needs_stand_in!();
    let error = cuda().open(6).map(|_| ()).expect_err("there are six");
    assert_eq!(error, CudaError::NoSuchDevice { ordinal: 6, count: 6 });
    assert!(error.to_string().starts_with("there is no GPU 6: the driver sees 6, numbered from 0; "));
}

fn directory() -> &'static Path {
    crate::directory().expect("the stand-in")
}

#[test]
fn with_the_variable_set() {
    // Every such process has OPERANT_CUDA_LIBRARIES.
    if !stand_in::is_machine("machine::with_the_variable_set", &[]) {
        return;
    }
    let cuda = Cuda::find().unwrap_or_else(|error| panic!("{error}"));
    assert!(cuda.driver_path().starts_with(directory()) && cuda.compiler().path().starts_with(directory()));
    assert_eq!(inspect(None).driver.found.expect("a driver").path, cuda.driver_path());
    let given = Cuda::find_in(Some(directory())).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(given.driver_path(), cuda.driver_path());
}

#[test]
fn without_devices() {
    if !stand_in::is_machine("machine::without_devices", &[("OPERANT_HOST_DEVICES", "0")]) {
        return;
    }
    let error = Cuda::find_at(&search_paths()).map(|_| ()).expect_err("no device");
    assert!(matches!(error, CudaError::NoDevice { .. }));
    let text = error.to_string();
    assert!(text.contains("CUDA_ERROR_NO_DEVICE (100: ") && text.contains("`nvidia-smi -L`"), "{text}");
    let inspection = inspect_at(&search_paths());
    assert!(inspection.driver.found.is_some() && inspection.driver.problem.is_some());
    assert!(!inspection.usable());
}

#[test]
fn with_an_old_driver() {
    if !stand_in::is_machine("machine::with_an_old_driver", &[("OPERANT_HOST_DRIVER_VERSION", "11080")]) {
        return;
    }
    let error = Cuda::find_at(&search_paths()).map(|_| ()).expect_err("too old");
    let version = |major, minor| Version { major, minor };
    let CudaError::OldDriver { found, needed, .. } = error else { panic!("{error}") };
    assert_eq!((found, needed), (version(11, 8), version(12, 0)));
}

#[test]
fn with_a_compiler_newer_than_the_driver() {
    if !stand_in::is_machine(
        "machine::with_a_compiler_newer_than_the_driver",
        &[("OPERANT_HOST_DRIVER_VERSION", "12020")],
    ) {
        return;
    }
    let error = Cuda::find_at(&search_paths()).map(|_| ()).expect_err("13 is newer than 12.2");
    assert!(matches!(error, CudaError::NoCompiler { .. }));
    let text = error.to_string();
    assert!(text.contains("newer than the driver (CUDA 12.2)"), "{text}");
    assert!(text.contains("`pip install nvidia-cuda-nvrtc-cu12`"), "{text}");
    let inspection = inspect_at(&search_paths());
    assert_eq!(inspection.driver.problem, None);
    assert_eq!(inspection.devices.len(), 6);
    assert!(inspection.compiler.problem.is_some());
}

#[test]
fn if_the_driver_refuses_the_code_an_older_compiler_is_taken() {
    let name = "machine::if_the_driver_refuses_the_code_an_older_compiler_is_taken";
    if !stand_in::is_machine(name, &[("OPERANT_HOST_DRIVER_VERSION", "13010")]) {
        return;
    }
    let place = tempfile::tempdir().expect("a temporary directory");
    let copy = |name: &str| {
        std::fs::copy(directory().join("libnvrtc.so"), place.path().join(name)).expect("a copy");
    };
    std::os::unix::fs::symlink(directory().join("include"), place.path().join("include")).expect("a link");
    std::fs::copy(directory().join("libcuda.so"), place.path().join("libcuda.so.1")).expect("a copy");
    let cuda = || {
        let cuda =
            Cuda::find_at(&SearchPaths::only(&[place.path()])).unwrap_or_else(|error| panic!("{error}"));
        cuda.cached_in(None)
    };
    let version = |major, minor| Version { major, minor };
    copy("libnvrtc.so.13.3");
    let alone = cuda();
    let error = alone.open(0).expect("a device").load(&program()).map(|_| ()).expect_err("too new");
    assert!(error.to_string().contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222: "), "{error}");
    assert_eq!(alone.compiler().version(), version(13, 3));

    copy("libnvrtc.so.13.2");
    copy("libnvrtc.so.12.8");
    let several = cuda();
    assert_eq!(several.compiler().version(), version(13, 3));
    let device = several.open(0).expect("a device");
    let module = device.load(&program()).unwrap_or_else(|error| panic!("{error}"));
    module.function("scale").expect("the kernel");
    assert_eq!(several.compiler().version(), version(12, 8), "the newest of those that the driver takes");
}
