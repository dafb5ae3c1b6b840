//! Machines without the library, or with one that is incomplete or does not match the driver.

use std::path::Path;

use operant_cuda::{
    BLAS_SYMBOLS, CudaError, Element, Epilogue, GemmShape, InputPrecision, SearchPaths, Version, inspect_at,
};
use tempfile::TempDir;

use crate::case::{Case, EPILOGUES, shape};
use crate::{cuda, device, directory, stand_in};

#[test]
fn without_an_epilogue() {
    if !stand_in::is_machine(
        "libraries::without_an_epilogue",
        &[("OPERANT_HOST_BLAS_REFUSES", "relu_bias,bias_gradient")],
    ) {
        return;
    }
    let Some((device, blas, stream)) = device(0) else { return };
    let shape = shape((4, 5, 6), InputPrecision::Tf32, Element::F32, 0);
    for epilogue in EPILOGUES {
        let shape = GemmShape { epilogue, ..shape };
        let gemm = blas.gemm(shape).expect("an answer");
        assert_eq!(gemm.is_some(), matches!(epilogue, Epilogue::None | Epilogue::Bias), "{shape}");
        if let Some(gemm) = gemm {
            let case = Case::new(&device, &stream, shape);
            case.launch(&gemm, &stream).expect("launched");
            case.check(&stream);
        }
    }
}

/// A directory with links to these libraries of the stand-in, each under the name given.
fn links(names: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().expect("a temporary directory");
    for (library, name) in names {
        let file = directory().expect("the stand-in").join(library);
        std::os::unix::fs::symlink(file, place.path().join(name)).expect("a link");
    }
    place
}

const DRIVER_AND_COMPILER: [(&str, &str); 2] = [("libcuda.so", "libcuda.so"), ("libnvrtc.so", "libnvrtc.so")];

/// The error of opening the library from this directory; the inspection must report the same.
#[track_caller]
fn no_blas(place: &Path) -> (String, String) {
    let device = cuda(place).open(0).expect("a device that works without the library");
    let error = device.blas().map(|_| ()).expect_err("no library");
    assert!(matches!(error, CudaError::NoBlas { .. }));
    let inspection = inspect_at(&SearchPaths::only(&[place]));
    assert!(inspection.usable(), "the library is optional");
    let (problem, remedy) = error.parts();
    assert_eq!(inspection.blas.found, None);
    assert_eq!(
        (inspection.blas.problem, inspection.blas.remedy),
        (Some(problem.clone()), Some(remedy.clone()))
    );
    (problem, remedy)
}

#[test]
fn without_the_library_all_else_works() {
    if directory().is_none() {
        return;
    }
    let place = links(&DRIVER_AND_COMPILER);
    let (problem, remedy) = no_blas(place.path());
    let shown = place.path().display().to_string();
    assert_eq!(problem, format!("no cuBLASLt here: libcublasLt.so.13 is not in {shown}"));
    assert!(
        remedy.starts_with("`pip install nvidia-cublas`, or install the CUDA toolkit, or set "),
        "{remedy}"
    );

    // Every call searches again, so the library may be installed meanwhile.
    let device = cuda(place.path()).open(0).expect("a device");
    assert!(device.blas().is_err());
    let library = place.path().join("libcublasLt.so.13");
    std::fs::write(&library, "no library").expect("a file");
    let (problem, _) = no_blas(place.path());
    assert!(
        problem.starts_with(&format!("no usable cuBLASLt: {shown}/libcublasLt.so.13 cannot be loaded ("))
    );
    std::fs::remove_file(&library).expect("removed");
    std::os::unix::fs::symlink(directory().expect("the stand-in").join("libcublasLt.so.13"), &library)
        .expect("a link");
    let found = device.blas().expect("it is there now").library();
    assert_eq!((found.path, found.version), (library.clone(), Some(Version { major: 13, minor: 0 })));
    assert_eq!(inspect_at(&SearchPaths::only(&[place.path()])).blas.found.expect("found").path, library);
}

#[test]
fn something_else_of_its_name_is_named_with_what_it_lacks() {
    if directory().is_none() {
        return;
    }
    let place =
        links(&[DRIVER_AND_COMPILER[0], DRIVER_AND_COMPILER[1], ("libnvrtc.so", "libcublasLt.so.12")]);
    let (problem, _) = no_blas(place.path());
    let more = BLAS_SYMBOLS.len() - 1;
    let lacks = format!(
        "libcublasLt.so.12 is not a usable cuBLASLt (it lacks cublasLtCreate and {more} more functions)"
    );
    assert!(problem.ends_with(&lacks), "{problem}");
}

#[test]
fn with_an_older_driver() {
    if !stand_in::is_machine("libraries::with_an_older_driver", &[("OPERANT_HOST_DRIVER_VERSION", "12040")]) {
        return;
    }
    // The stand-in for NVRTC is for CUDA 13, so `Cuda` cannot be opened here: only the inspection works.
    let Some(directory) = directory() else { return };
    let blas = inspect_at(&SearchPaths::only(&[directory])).blas;
    let expected = format!(
        "no usable cuBLASLt: {}/libcublasLt.so.13 is for CUDA 13, newer than the driver (CUDA 12.4)",
        directory.display()
    );
    assert_eq!(blas.problem, Some(expected));
    let remedy = blas.remedy.expect("a remedy");
    assert!(remedy.starts_with("`pip install nvidia-cublas-cu12`, or install the CUDA toolkit"), "{remedy}");

    // The file name says 12, and the library reports 13.
    let place = links(&[DRIVER_AND_COMPILER[0], ("libcublasLt.so.13", "libcublasLt.so.12")]);
    let problem = inspect_at(&SearchPaths::only(&[place.path()])).blas.problem.expect("a problem");
    assert!(problem.contains("libcublasLt.so.12 is for CUDA 13, newer than the driver"), "{problem}");
}

#[test]
fn of_an_unknown_version() {
    if !stand_in::is_machine("libraries::of_an_unknown_version", &[("OPERANT_HOST_BLAS_VERSION", "140000")]) {
        return;
    }
    let Some(directory) = directory() else { return };
    let (problem, _) = no_blas(directory);
    assert!(problem.ends_with("libcublasLt.so.13 has an unsupported version (140000)"), "{problem}");
}
