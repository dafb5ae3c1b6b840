//! The compiler and the disassembler that the chore needs, and the compiled kernels in the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use operant_cuda::{Compiler, Places};

/// The directory of libnvrtc, before all other places.
const VARIABLE: &str = "OPERANT_NVRTC_DIR";

/// What brings both.
const REMEDY: &str = "`pip install nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvdisasm==13.5.37` brings both";

/// NVRTC and nvdisasm.
pub struct Tools {
    /// Compiles to machine code; no GPU is needed.
    pub compiler: Compiler,
    nvdisasm: PathBuf,
    directory: PathBuf,
}

impl Tools {
    /// Finds both; what they make is kept in `directory`.
    ///
    /// # Errors
    /// One of them is missing; the error says what installs both.
    pub fn find(directory: PathBuf) -> Result<Tools> {
        let compiler = compiler()?.cached_in(Some(&directory));
        let nvdisasm = nvdisasm(compiler.path()).with_context(|| {
            format!(
                "nvdisasm is neither on PATH nor beside {} nor in $CUDA_HOME; {REMEDY}",
                compiler.path().display()
            )
        })?;
        Ok(Tools { compiler, nvdisasm, directory })
    }

    /// The machine code of a CUBIN as text, which stays in the directory as `NAME.sass`.
    ///
    /// # Errors
    /// When nvdisasm fails, or there is no room.
    pub fn disassemble(&self, name: &str, code: &[u8]) -> Result<String> {
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        let place = |ending: &str| self.directory.join(format!("{name}.{ending}"));
        let cubin = place("cubin");
        std::fs::write(&cubin, code).with_context(|| format!("cannot write {}", cubin.display()))?;
        let shown = self.nvdisasm.display();
        let output = Command::new(&self.nvdisasm)
            .arg("-c")
            .arg(&cubin)
            .output()
            .with_context(|| format!("cannot start {shown}; {REMEDY}"))?;
        if !output.status.success() {
            let says = String::from_utf8_lossy(&output.stderr);
            bail!("{shown} cannot read {}: {}; {REMEDY}", cubin.display(), says.trim());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sass = place("sass");
        std::fs::write(&sass, &text).with_context(|| format!("cannot write {}", sass.display()))?;
        Ok(text)
    }
}

fn compiler() -> Result<Compiler> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = match &named {
        Some(directory) => Compiler::find_at(&Places::only(&[directory]), None),
        None => Compiler::find(None, None),
    };
    found.with_context(|| match named {
        Some(directory) => format!("NVRTC is not in {VARIABLE}={}; {REMEDY}", directory.display()),
        None => format!("NVRTC and nvdisasm are needed; {REMEDY}"),
    })
}

/// On PATH, beside NVRTC as the packages of Python and the toolkit install it, or in the toolkit's directory.
fn nvdisasm(nvrtc: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let beside = nvrtc.ancestors().skip(1).take(4);
    let directories = std::env::split_paths(&path)
        .chain(beside.map(|directory| directory.join("bin")))
        .chain(toolkits.map(|toolkit| toolkit.join("bin")));
    directories.map(|directory| directory.join("nvdisasm")).find(|file| file.is_file())
}
