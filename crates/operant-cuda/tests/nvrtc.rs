//! The real compiler, if `OPERANT_NVRTC_DIR` names the directory of libnvrtc. No driver is needed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

use operant_cuda::{
    CompiledProgram, Compiler, CudaError, FunctionUse, Program, Resources, SearchPaths, Version,
};

/// The directory; None, with a message, if the tests are skipped.
fn directory() -> Option<PathBuf> {
    static SAID: Once = Once::new();
    let directory =
        std::env::var_os("OPERANT_NVRTC_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
    if directory.is_none() {
        // Written directly, because the test harness would capture it.
        SAID.call_once(|| {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED the tests of the real NVRTC: no OPERANT_NVRTC_DIR with libnvrtc; cargo xtask python brings it"
            );
        });
    }
    directory
}

fn compiler(cache: Option<&Path>) -> Option<Compiler> {
    let places = SearchPaths::only(&[directory()?]);
    Some(Compiler::find_at(&places, None).expect("OPERANT_NVRTC_DIR has a compiler").cached_in(cache))
}

const SOURCE: &str = r#"
#include "scale.h"

extern "C" __global__ void scale(const __grid_constant__ Scale params) {
    __shared__ float tile[64];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x % 64] = params.from[i];
    __syncthreads();
    params.to[i] = tile[(threadIdx.x + 1) % 64] * FACTOR;
}

// More values alive at once than it has registers for.
extern "C" __global__ void __launch_bounds__(1024, 2) spill(const __grid_constant__ Scale params) {
    float values[64];
    #pragma unroll
    for (int k = 0; k < 64; ++k) values[k] = params.from[k * 1024 + threadIdx.x];
    for (int turn = 0; turn < 3; ++turn) {
        #pragma unroll
        for (int k = 0; k < 64; ++k) values[k] = values[k] * values[(k + 17) % 64] + values[(k + 5) % 64];
    }
    #pragma unroll
    for (int k = 0; k < 64; ++k) params.to[k * 1024 + threadIdx.x] = values[k];
}
"#;

fn program() -> Program {
    Program {
        name: "scale.cu".to_owned(),
        source: SOURCE.to_owned(),
        headers: vec![(
            "scale.h".to_owned(),
            "#pragma once\nstruct Scale { const float* from; float* to; };\n".to_owned(),
        )],
        defines: vec![("FACTOR".to_owned(), "3.0f".to_owned())],
    }
}

#[test]
fn a_program_becomes_code_for_each_architecture() {
    let Some(compiler) = compiler(None) else { return };
    assert!(compiler.version() >= Version { major: 12, minor: 0 }, "{}", compiler.version());
    for architecture in [80, 90, 100, 120] {
        if !compiler.architectures().contains(&architecture) {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED sm_{architecture}: NVRTC {} does not support it",
                compiler.version()
            );
            continue;
        }
        let CompiledProgram { code, log, cached, .. } =
            compiler.compile(&program(), architecture).unwrap_or_else(|error| panic!("{error}"));
        assert!(!cached);
        assert!(code.starts_with(b"\x7fELF"), "a CUBIN is an ELF file");
        assert!(log.contains(&format!("for 'sm_{architecture}'")), "{log}");
    }
}

#[test]
fn registers_and_spills_are_counted() {
    let Some(compiler) = compiler(None) else { return };
    let image = compiler.compile(&program(), 90).unwrap_or_else(|error| panic!("{error}"));
    let resources = image.resources();
    let of = |name: &str| {
        resources
            .iter()
            .find(|kernel| kernel.kernel == name)
            .unwrap_or_else(|| panic!("{name}: {}", image.log))
    };
    assert_eq!(resources.len(), 2, "{}", image.log);
    let scale = of("scale");
    assert!((4..64).contains(&scale.registers), "{scale:?}");
    let own = |kernel: &Resources, function: usize| {
        let FunctionUse { frame, spill_stores, spill_loads, .. } = kernel.functions[function];
        (frame, spill_stores, spill_loads)
    };
    assert_eq!((own(scale, 0), scale.stack, scale.shared), ((0, 0, 0), 0, 256));
    let spill = of("spill");
    assert_eq!(spill.registers, 32, "2 x 1024 threads share 65,536 registers: {spill:?}");
    let (frame, stores, loads) = own(spill, 0);
    assert!(stores > 0 && loads > 0 && frame > 0 && spill.stack >= frame, "{spill:?}");
}

#[test]
fn a_spill_in_a_called_function_is_seen() {
    let Some(compiler) = compiler(None) else { return };
    let called = SOURCE
        .replace(
            "extern \"C\" __global__ void __launch_bounds__(1024, 2) spill",
            "__device__ __noinline__ void busy",
        )
        .replace(
            "const __grid_constant__ Scale params) {\n    float values",
            "const Scale& params) {\n    float values",
        )
        + "extern \"C\" __global__ void __launch_bounds__(1024, 2) calls(const __grid_constant__ Scale params) { busy(params); }\n";
    let image = compiler
        .compile(&Program { source: called, ..program() }, 90)
        .unwrap_or_else(|error| panic!("{error}"));
    let resources = image.resources();
    let calls = resources.iter().find(|kernel| kernel.kernel == "calls").expect("it is there");
    let [kernel, busy] = &calls.functions[..] else { panic!("{calls:?}") };
    assert_eq!((kernel.name.as_str(), kernel.spill_stores), ("calls", 0), "{calls:?}");
    assert!(busy.name.contains("busy") && busy.spill_stores > 0 && calls.stack > 0, "{calls:?}");
}

#[test]
fn warnings_are_kept_with_what_was_compiled() {
    let Some(compiler) = compiler(None) else { return };
    let source = "extern \"C\" __global__ void k(int* to) { int unused; to[0] = 1; }\n".to_owned();
    let compile = |source| compiler.compile(&Program { source, ..program() }, 90);
    let image = compile(source).unwrap_or_else(|error| panic!("{error}"));
    let [warning] = image.warnings()[..] else { panic!("{}", image.log) };
    assert!(warning.starts_with("scale.cu(1): warning ") && warning.contains("unused"), "{warning}");
    assert!(compile(SOURCE.to_owned()).is_ok_and(|image| image.warnings().is_empty()));
}

#[test]
fn an_error_names_the_program_and_shows_the_log() {
    let Some(compiler) = compiler(None) else { return };
    let broken = Program { source: "__global__ void k() { missing_name(); }\n".to_owned(), ..program() };
    let error = compiler.compile(&broken, 90).expect_err("it is broken");
    let text = error.to_string();
    assert!(text.starts_with("scale.cu does not compile for sm_90: "), "{text}");
    assert!(text.contains("missing_name") && text.contains("scale.cu(1)"), "{text}");
    assert!(matches!(error, CudaError::Compile { architecture: 90, .. }));
}

#[test]
fn an_unknown_architecture_and_a_zero_byte_are_errors() {
    let Some(compiler) = compiler(None) else { return };
    let error = compiler.compile(&program(), 30).expect_err("Kepler is gone");
    assert!(error.to_string().contains("cannot compile for sm_30"), "{error}");
    let zero = Program { source: "a\0b".to_owned(), ..program() };
    assert!(compiler.compile(&zero, 90).expect_err("a zero byte").to_string().contains("zero byte"));
}

#[test]
fn a_definition_changes_the_code_and_the_cache_key() {
    let cache = tempfile::tempdir().expect("a temporary directory");
    let Some(compiler) = compiler(Some(cache.path())) else { return };
    let compile = |program: &Program| compiler.compile(program, 90).unwrap_or_else(|error| panic!("{error}"));
    let first = compile(&program());
    let again = compile(&program());
    assert!(!first.cached && again.cached);
    assert_eq!((&first.code, first.resources()), (&again.code, again.resources()));
    assert_eq!(first.note, None);
    let mut other = program();
    other.defines[0].1 = "4.0f".to_owned();
    let other = compile(&other);
    assert!(!other.cached && other.code != first.code);

    // Damage every file: all programs are compiled again and stored undamaged.
    let kernels = cache.path().join("kernels");
    for file in std::fs::read_dir(&kernels).expect("the cache").map(|entry| entry.expect("a file").path()) {
        std::fs::write(&file, b"damaged").expect("a file");
    }
    let recompiled = compile(&program());
    assert!(!recompiled.cached && recompiled.code == first.code);
    assert!(compile(&program()).cached);
}

#[test]
fn a_cache_that_cannot_be_written_is_a_note() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("file");
    std::fs::write(&file, "in the way").expect("a file");
    let Some(compiler) = compiler(Some(&file)) else { return };
    let image = compiler.compile(&program(), 90).unwrap_or_else(|error| panic!("{error}"));
    assert!(image.note.expect("a note").contains("cannot be kept"));
}
