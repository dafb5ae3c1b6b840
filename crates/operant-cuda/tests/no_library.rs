//! Errors on a machine without the libraries, or with other files in their place. Nothing panics.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use operant_cuda::{
    COMPILER_SYMBOLS, Compiler, Cuda, CudaError, DRIVER_SYMBOLS, Inspection, MINIMUM_DRIVER, SearchPaths,
    Version, inspect_at,
};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Compiles C to a library. Cargo links with `cc` too, so it is wherever these tests are built.
fn library(directory: &Path, name: &str, text: &str) -> PathBuf {
    let source = directory.join(format!("{name}.c"));
    std::fs::write(&source, text).expect("a source file");
    let library = directory.join(name);
    let cc = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(cc.expect("`cc` runs").success(), "cc could not compile {name}");
    library
}

/// Every error is one line of problem and remedy, which the inspection also has.
fn parts(error: &CudaError) -> (String, String) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    let (problem, remedy) = error.parts();
    assert!(!problem.is_empty() && !remedy.is_empty(), "what and what to do: {text}");
    (problem, remedy)
}

fn driver_problem(paths: &SearchPaths) -> (String, String) {
    let error = Cuda::find_at(paths).map(|_| ()).expect_err("no driver");
    let expected = parts(&error);
    let Inspection { driver, devices, minimum_driver, .. } = inspect_at(paths);
    assert_eq!((driver.problem, driver.remedy), (Some(expected.0.clone()), Some(expected.1.clone())));
    assert!(devices.is_empty());
    assert_eq!(minimum_driver, MINIMUM_DRIVER);
    expected
}

#[test]
fn nowhere_to_look_is_an_error_with_a_remedy() {
    let nowhere = SearchPaths::only::<&Path>(&[]);
    let (problem, remedy) = driver_problem(&nowhere);
    assert!(problem.contains("no NVIDIA driver") && problem.contains("libcuda.so.1"), "{problem}");
    assert!(
        remedy.contains("install the NVIDIA driver") && remedy.contains("OPERANT_CUDA_LIBRARIES"),
        "{remedy}"
    );
    assert!(matches!(Cuda::find_at(&nowhere), Err(CudaError::NoDriver { .. })));

    let inspection = inspect_at(&nowhere);
    assert!(!inspection.usable());
    assert_eq!(inspection.driver.name, "CUDA driver (libcuda)");
    assert_eq!(inspection.compiler.name, "NVRTC");
    assert_eq!((inspection.driver.found, inspection.compiler.found), (None, None));
    assert!(inspection.compiler.problem.expect("a problem").contains("NVRTC"));
    let remedy = inspection.compiler.remedy.expect("a remedy");
    assert!(remedy.contains("`pip install nvidia-cuda-nvrtc`"), "{remedy}");
}

#[test]
fn an_empty_directory_is_named() {
    let empty = directory();
    let (problem, _) = driver_problem(&SearchPaths::only(&[empty.path()]));
    assert!(problem.contains(&empty.path().display().to_string()), "{problem}");
}

#[test]
fn the_remedy_for_a_missing_compiler_fits_the_driver() {
    let nowhere = SearchPaths::only::<&Path>(&[]);
    let remedy = |newest: Option<Version>| {
        let error = Compiler::find_at(&nowhere, newest).map(|_| ()).expect_err("no compiler");
        assert!(matches!(error, CudaError::NoCompiler { .. }));
        parts(&error).1
    };
    let version = |major| Some(Version { major, minor: 4 });
    assert!(remedy(version(12)).contains("`pip install nvidia-cuda-nvrtc-cu12`"));
    assert!(remedy(version(13)).contains("`pip install nvidia-cuda-nvrtc`"));
    let either = remedy(None);
    assert!(either.contains("`pip install nvidia-cuda-nvrtc`") && either.contains("nvrtc-cu12"), "{either}");
}

#[test]
fn a_text_file_in_place_of_a_library_is_named() {
    let place = directory();
    for name in ["libcuda.so.1", "libnvrtc.so.13"] {
        std::fs::write(place.path().join(name), "not a library\n").expect("a file");
    }
    let paths = SearchPaths::only(&[place.path()]);
    let (problem, _) = driver_problem(&paths);
    let file = place.path().join("libcuda.so.1").display().to_string();
    assert!(problem.contains(&file) && problem.contains("cannot be loaded"), "{problem}");
    assert_eq!(problem.matches(&file).count(), 1, "named once: {problem}");
    let problem = inspect_at(&paths).compiler.problem.expect("a problem");
    assert!(problem.contains("libnvrtc.so.13 cannot be loaded"), "{problem}");
}

#[test]
fn a_library_of_something_else_is_named_with_what_it_lacks() {
    let place = directory();
    library(place.path(), "libcuda.so.1", "int something_else(void) { return 1; }\n");
    library(place.path(), "libnvrtc.so.13", "int something_else(void) { return 1; }\n");
    let paths = SearchPaths::only(&[place.path()]);
    let (problem, _) = driver_problem(&paths);
    assert!(problem.contains("is not an NVIDIA driver") && problem.contains("lacks cuInit and"), "{problem}");
    let problem = inspect_at(&paths).compiler.problem.expect("a problem");
    assert!(problem.contains("libnvrtc.so.13 is not a usable NVRTC"), "{problem}");
    assert!(COMPILER_SYMBOLS.iter().all(|symbol| problem.contains(symbol)), "{problem}");
}

#[test]
fn a_library_is_found_behind_one_that_does_not_work() {
    let (bad, old) = (directory(), directory());
    std::fs::write(bad.path().join("libcuda.so.1"), "not a library\n").expect("a file");
    library(old.path(), "libcuda.so.1", "int cuDriverGetVersion(int* v) { *v = 11080; return 0; }\n");
    let error = Cuda::find_at(&SearchPaths::only(&[bad.path(), old.path()])).map(|_| ()).expect_err("old");
    assert!(matches!(error, CudaError::OldDriver { .. }), "{error}");
}

#[test]
fn an_old_driver_is_distinguished_from_none() {
    let place = directory();
    let file =
        library(place.path(), "libcuda.so.1", "int cuDriverGetVersion(int* v) { *v = 11080; return 0; }\n");
    let paths = SearchPaths::only(&[place.path()]);
    let (problem, remedy) = driver_problem(&paths);
    assert!(problem.contains("supports CUDA 11.8") && problem.contains("the minimum is 12.0"), "{problem}");
    assert!(remedy.contains("newer NVIDIA driver"), "{remedy}");
    let found = inspect_at(&paths).driver.found.expect("it is there");
    assert_eq!((found.path, found.version), (file, Some(Version { major: 11, minor: 8 })));
}

#[test]
fn the_toolkits_stub_is_no_driver() {
    let place = directory();
    let everything: String =
        DRIVER_SYMBOLS.iter().map(|symbol| format!("int {symbol}(void) {{ return 34; }}\n")).collect();
    library(place.path(), "libcuda.so.1", &everything);
    let (problem, _) = driver_problem(&SearchPaths::only(&[place.path()]));
    assert!(problem.contains("is the toolkit's stub"), "{problem}");
}

#[test]
fn a_driver_that_lacks_one_function_is_never_called() {
    let place = directory();
    // Every function but the one ends the process, so a call before the search is over would be seen.
    let mut everything =
        String::from("#include <stdlib.h>\nint cuDriverGetVersion(int* v) { *v = 12040; return 0; }\n");
    for symbol in DRIVER_SYMBOLS {
        if !["cuDriverGetVersion", "cuGraphLaunch"].contains(symbol) {
            everything.push_str(&format!("int {symbol}(void) {{ abort(); }}\n"));
        }
    }
    library(place.path(), "libcuda.so.1", &everything);
    let (problem, _) = driver_problem(&SearchPaths::only(&[place.path()]));
    assert!(problem.contains("(CUDA 12.4) lacks cuGraphLaunch"), "{problem}");
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    let place = directory();
    let mut everything = String::from(
        "int cuDriverGetVersion(int* v) { *v = 12040; return 0; }\n\
         int cuInit(unsigned flags) { return 100; }\n\
         int cuGetErrorName(int code, const char** t) { *t = \"CUDA_ERROR_NO_DEVICE\"; return 0; }\n\
         int cuGetErrorString(int code, const char** t) { *t = 0; return 1; }\n",
    );
    for symbol in DRIVER_SYMBOLS {
        if !everything.contains(&format!("int {symbol}(")) {
            everything.push_str(&format!("int {symbol}(void) {{ return 3; }}\n"));
        }
    }
    let file = library(place.path(), "libcuda.so.1", &everything);
    let paths = SearchPaths::only(&[place.path()]);
    let (problem, remedy) = driver_problem(&paths);
    assert!(problem.contains("cuInit failed with CUDA_ERROR_NO_DEVICE (100: "), "{problem}");
    assert!(remedy.contains("nvidia-smi"), "{remedy}");
    assert!(matches!(Cuda::find_at(&paths), Err(CudaError::NoDevice { .. })));
    assert_eq!(inspect_at(&paths).driver.found.expect("it is there").path, file);
}

#[test]
fn compilers_are_chosen_by_version() {
    let (one, two) = (directory(), directory());
    let nvrtc = |place: &TempDir, name: &str, major: u32, minor: u32| {
        let mut text = format!(
            "int nvrtcVersion(int* a, int* b) {{ *a = {major}; *b = {minor}; return 0; }}\n\
             int nvrtcGetNumSupportedArchs(int* n) {{ *n = 2; return 0; }}\n\
             int nvrtcGetSupportedArchs(int* a) {{ a[0] = 80; a[1] = 90; return 0; }}\n"
        );
        for symbol in COMPILER_SYMBOLS {
            if !text.contains(&format!("int {symbol}(")) {
                text.push_str(&format!("int {symbol}(void) {{ return 11; }}\n"));
            }
        }
        library(place.path(), name, &text)
    };
    let old = nvrtc(&one, "libnvrtc.so.12", 12, 4);
    let newer = nvrtc(&two, "libnvrtc.so.12", 12, 9);
    let newest = nvrtc(&one, "libnvrtc.so.13", 13, 1);
    let unnamed = nvrtc(&two, "libnvrtc.so", 14, 0);
    std::fs::write(one.path().join("libnvrtc.so.12.9.alt"), "text").expect("a file");
    let paths = SearchPaths::only(&[one.path(), two.path()]);
    let found = |newest: Option<Version>| {
        let compiler = Compiler::find_at(&paths, newest).expect("a compiler");
        assert_eq!(compiler.architectures(), [80, 90]);
        (compiler.path().to_path_buf(), compiler.version())
    };
    let version = |major, minor| Version { major, minor };
    assert_eq!(found(Some(version(12, 0))), (newer, version(12, 9)));
    assert_eq!(found(Some(version(13, 0))), (newest, version(13, 1)));
    assert_eq!(found(None), (unnamed, version(14, 0)));
    let error = Compiler::find_at(&paths, Some(version(11, 8))).map(|_| ()).expect_err("all are newer");
    let (problem, _) = parts(&error);
    assert!(
        problem.contains(&format!("{} is for CUDA 12, newer than the driver (CUDA 11.8)", old.display()))
    );

    let compiler = Compiler::find_at(&paths, Some(version(12, 4))).expect("a compiler").cached_in(None);
    let program = operant_cuda::Program { name: "one.cu".to_owned(), ..operant_cuda::Program::default() };
    let error = compiler.compile(&program, 120).expect_err("an unknown architecture");
    let (problem, remedy) = parts(&error);
    assert!(problem.contains("cannot compile for sm_120, it supports 80, 90"), "{problem}");
    assert!(remedy.contains("nvidia-cuda-nvrtc-cu12"), "{remedy}");
    let nearest = [75, 80, 86, 90, 100].map(|device| compiler.nearest(device));
    assert_eq!(nearest, [75, 80, 80, 90, 100]);
    let error = compiler.compile(&program, 90).expect_err("every call of it fails");
    let (problem, _) = parts(&error);
    assert!(problem.contains("nvrtcCreateProgram") && problem.contains("one.cu"), "{problem}");
}

#[test]
fn the_standard_paths_never_end_the_process() {
    // Whatever this machine has, the result is consistent.
    let inspection = operant_cuda::inspect(None);
    assert_eq!(inspection.driver.problem.is_some(), inspection.driver.remedy.is_some());
    assert_eq!(inspection.compiler.problem.is_some(), inspection.compiler.remedy.is_some());
    match Cuda::find() {
        Ok(cuda) => assert_eq!(inspection.devices, cuda.devices().expect("devices")),
        Err(error) => drop(parts(&error)),
    }
}
