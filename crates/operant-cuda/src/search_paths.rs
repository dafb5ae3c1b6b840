//! Where the driver, the compiler and the library for matrix products are searched on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::library::Candidate;

/// The variable that names the directory to search first.
pub(crate) const VARIABLE: &str = "OPERANT_CUDA_LIBRARIES";

/// The names of the driver's library.
pub(crate) const DRIVER: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// The names of the compiler's library for the loader.
const COMPILER: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// The library for matrix products, by major version, the newest first. A newer one may have other descriptors.
pub(crate) const BLAS: &[(u32, &str)] = &[(13, "libcublasLt.so.13"), (12, "libcublasLt.so.12")];

/// The library for sums between GPUs.
pub(crate) const NCCL: &str = "libnccl.so.2";

/// The directories to search, in order, and whether the loader also searches the libraries by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPaths {
    /// Before the loader.
    first: Option<PathBuf>,
    by_name: bool,
    driver: Vec<PathBuf>,
    /// For the compiler, and for the libraries for matrix products and for sums between GPUs, which are packaged the same way.
    compiler: Vec<PathBuf>,
}

impl SearchPaths {
    /// The standard paths: `first` (else `$OPERANT_CUDA_LIBRARIES`), the loader's paths, `$CUDA_HOME` and `$CUDA_PATH`,
    /// `/usr/local/cuda*`, the packages of the active Python and of the user, and, for the driver, the directories of containers
    /// and WSL.
    pub fn standard(first: Option<&Path>) -> SearchPaths {
        let first = first.map(Path::to_path_buf).or_else(|| variable(VARIABLE).map(PathBuf::from));
        let mut toolkits: Vec<PathBuf> =
            ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).map(PathBuf::from).collect();
        let mut installed = children(Path::new("/usr/local"), |name| name.starts_with("cuda"));
        installed.sort_by(|a, b| b.cmp(a)); // newer toolkits first
        toolkits.extend(installed);
        let toolkits: Vec<PathBuf> =
            toolkits.iter().flat_map(|toolkit| ["lib64", "lib"].map(|lib| toolkit.join(lib))).collect();

        let mut driver = toolkits.clone();
        driver.extend(["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"].map(PathBuf::from));
        let mut compiler = toolkits;
        compiler.extend(python_prefixes().iter().flat_map(|prefix| packages(prefix)));
        SearchPaths { first, by_name: true, driver, compiler }
    }

    /// Only these directories, for all libraries, without the loader. An empty list finds nothing.
    pub fn only<P: AsRef<Path>>(directories: &[P]) -> SearchPaths {
        let directories: Vec<PathBuf> =
            directories.iter().map(|place| place.as_ref().to_path_buf()).collect();
        SearchPaths { driver: directories.clone(), compiler: directories, ..SearchPaths::default() }
    }

    /// Where the driver may be, in order.
    pub(crate) fn drivers(&self) -> Vec<Candidate> {
        let within = |directory: &PathBuf| {
            let directory = directory.clone();
            DRIVER.iter().map(move |name| Candidate::File(directory.join(name)))
        };
        let names = DRIVER.iter().filter(|_| self.by_name).map(|name| Candidate::Name(name));
        self.first.iter().flat_map(within).chain(names).chain(self.driver.iter().flat_map(within)).collect()
    }

    /// Where compilers may be: in the first directory, which is preferred, and everywhere else.
    pub(crate) fn compilers(&self) -> [Vec<Candidate>; 2] {
        let within = |directory: &PathBuf| {
            let mut found = children(directory, |name| {
                name.strip_prefix("libnvrtc.so").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            found.sort();
            found.into_iter().map(Candidate::File)
        };
        let names = COMPILER.iter().filter(|_| self.by_name).map(|name| Candidate::Name(name));
        [
            self.first.iter().flat_map(within).collect(),
            names.chain(self.compiler.iter().flat_map(within)).collect(),
        ]
    }

    /// Where libraries for matrix products may be, with their major versions: the first directory, then all locations of the
    /// newest version, then those of older ones.
    pub(crate) fn blas(&self) -> Vec<(u32, Candidate)> {
        let within = |directory: &PathBuf| {
            let directory = directory.clone();
            BLAS.iter().map(move |(major, name)| (*major, Candidate::File(directory.join(name))))
        };
        let of = |(major, name): &'static (u32, &'static str)| {
            let by_name = self.by_name.then_some(Candidate::Name(name));
            let files = self.compiler.iter().map(move |directory| Candidate::File(directory.join(name)));
            by_name.into_iter().chain(files).map(|candidate| (*major, candidate))
        };
        self.first.iter().flat_map(within).chain(BLAS.iter().flat_map(of)).collect()
    }

    /// Where the library for sums between GPUs may be, in order.
    pub(crate) fn nccl(&self) -> Vec<Candidate> {
        let file = |directory: &PathBuf| Candidate::File(directory.join(NCCL));
        let by_name = self.by_name.then_some(Candidate::Name(NCCL));
        self.first.iter().map(file).chain(by_name).chain(self.compiler.iter().map(file)).collect()
    }

    /// The searched locations for a message: the existing directories, a few of them by name.
    fn describe(&self, directories: &[PathBuf]) -> String {
        const NAMED: usize = 4;
        let first = self.first.iter().map(|first| format!("not in {}", first.display()));
        let loader = self.by_name.then(|| "not found by the loader".to_owned());
        let there: Vec<String> =
            directories.iter().filter(|path| path.is_dir()).map(|path| path.display().to_string()).collect();
        let others = match there.as_slice() {
            [] if self.first.is_none() && !self.by_name => Some("no directory to search".to_owned()),
            [] => None,
            few if few.len() <= NAMED => Some(format!("not in {}", few.join(" nor in "))),
            [one, rest @ ..] => {
                Some(format!("not in {one} nor in {} more, which `operant info --verbose` names", rest.len()))
            }
        };
        first.chain(loader).chain(others).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn describe_drivers(&self) -> String {
        self.describe(&self.driver)
    }

    /// The same for the compiler, cuBLASLt and NCCL.
    pub(crate) fn describe_compilers(&self) -> String {
        self.describe(&self.compiler)
    }

    /// Every location that is searched for the driver, in order, including those that do not exist.
    pub(crate) fn list_drivers(&self) -> Vec<String> {
        self.list(&self.driver, DRIVER)
    }

    /// Like `list_drivers`, for the compiler.
    pub(crate) fn list_compilers(&self) -> Vec<String> {
        self.list(&self.compiler, COMPILER)
    }

    /// Like `list_drivers`, for cuBLASLt.
    pub(crate) fn list_blas(&self) -> Vec<String> {
        let names: Vec<&str> = BLAS.iter().map(|(_, name)| *name).collect();
        self.list(&self.compiler, &names)
    }

    /// Like `list_drivers`, for NCCL.
    pub(crate) fn list_nccl(&self) -> Vec<String> {
        self.list(&self.compiler, &[NCCL])
    }

    fn list(&self, directories: &[PathBuf], names: &[&str]) -> Vec<String> {
        let loader = self.by_name.then(|| format!("the loader's {}", names.join(", ")));
        let shown = |path: &PathBuf| path.display().to_string();
        let mut paths: Vec<String> = self.first.iter().map(shown).chain(loader).collect();
        for place in directories.iter().map(shown) {
            if !paths.contains(&place) {
                paths.push(place);
            }
        }
        paths
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The entries of a directory whose name passes; empty if there is no such directory.
fn children(directory: &Path, passes: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&passes)).collect()
}

/// The roots of Python installations: the active environment's, `./.venv`, the user's, those in `$PATH`.
fn python_prefixes() -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable).map(PathBuf::from).collect();
    prefixes.push(PathBuf::from(".venv"));
    prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
    let path = variable("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path).filter(|directory| directory.join("python3").exists()) {
        if let Some(prefix) = directory.parent() {
            prefixes.push(prefix.to_path_buf());
            prefixes.push(prefix.join("local")); // Debian's Python installs packages into `local`
        }
    }
    let mut unique = Vec::new();
    for prefix in prefixes {
        if !unique.contains(&prefix) {
            unique.push(prefix);
        }
    }
    unique
}

/// The directories of CUDA packages below a Python's root, and the library directory of a Conda environment.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    let mut found = Vec::new();
    for python in children(&lib, |name| name.starts_with("python3")) {
        for packages in ["site-packages", "dist-packages"] {
            let nvidia = python.join(packages).join("nvidia");
            found.extend(
                children(&nvidia, |name| name.starts_with("cu") || name == "nccl")
                    .iter()
                    .map(|part| part.join("lib")),
            );
        }
    }
    found.sort_by(|a, b| b.cmp(a)); // newer Pythons first
    found.push(lib);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path) {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, "").expect("a file");
    }

    #[test]
    fn pythons_packages_are_found() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let lib = |place: &str| root.path().join("lib").join(place).join("lib");
        let (thirteen, twelve, debian) = (
            lib("python3.12/site-packages/nvidia/cu13"),
            lib("python3.12/site-packages/nvidia/cuda_nvrtc"),
            lib("python3.11/dist-packages/nvidia/cuda_nvrtc"),
        );
        let products = lib("python3.12/site-packages/nvidia/cublas");
        for directory in [&thirteen, &twelve, &debian] {
            file(&directory.join("libnvrtc.so.13"));
        }
        file(&products.join("libcublasLt.so.12"));
        file(&root.path().join("lib/python3.12/site-packages/other/lib/libnvrtc.so.13"));
        assert_eq!(packages(root.path()), [twelve, products, thirteen, debian, root.path().join("lib")]);
        assert_eq!(packages(&root.path().join("missing")), [root.path().join("missing/lib")]);
    }

    #[test]
    fn the_first_directory_comes_before_the_loader_and_all_else() {
        let first = tempfile::tempdir().expect("a temporary directory");
        for name in
            ["libnvrtc.so.12", "libnvrtc.so", "libnvrtc-builtins.so.12.4", "libnvrtc.alt.so.12", "libnvrtcs"]
        {
            file(&first.path().join(name));
        }
        let paths = SearchPaths::standard(Some(first.path()));
        let drivers = paths.drivers();
        let expected = [
            Candidate::File(first.path().join("libcuda.so.1")),
            Candidate::File(first.path().join("libcuda.so")),
            Candidate::Name("libcuda.so.1"),
            Candidate::Name("libcuda.so"),
        ];
        assert_eq!(drivers[..4], expected);
        assert!(drivers[4..].iter().all(|candidate| matches!(candidate, Candidate::File(_))));
        assert!(drivers.contains(&Candidate::File("/usr/lib/wsl/lib/libcuda.so.1".into())));
        let [preferred, others] = paths.compilers();
        let within = ["libnvrtc.so", "libnvrtc.so.12"].map(|name| Candidate::File(first.path().join(name)));
        assert_eq!(preferred, within);
        assert!(others.contains(&Candidate::Name("libnvrtc.so.13")));
        let listed = paths.list_drivers();
        assert_eq!(listed[0], first.path().display().to_string());
        assert_eq!(listed[1], "the loader's libcuda.so.1, libcuda.so");
        assert!(listed.contains(&"/usr/lib/wsl/lib".to_owned()), "{listed:?}");
    }

    #[test]
    fn the_newest_library_for_products_comes_first_everywhere_but_in_the_first_directory() {
        let paths = SearchPaths {
            first: Some("/first".into()),
            by_name: true,
            driver: Vec::new(),
            compiler: vec!["/one".into(), "/two".into()],
        };
        let file = |path: &str| Candidate::File(path.into());
        let expected = [
            (13, file("/first/libcublasLt.so.13")),
            (12, file("/first/libcublasLt.so.12")),
            (13, Candidate::Name("libcublasLt.so.13")),
            (13, file("/one/libcublasLt.so.13")),
            (13, file("/two/libcublasLt.so.13")),
            (12, Candidate::Name("libcublasLt.so.12")),
            (12, file("/one/libcublasLt.so.12")),
            (12, file("/two/libcublasLt.so.12")),
        ];
        assert_eq!(paths.blas(), expected);
    }

    #[test]
    fn only_these_places_are_searched_when_that_is_said() {
        let only = SearchPaths::only(&["any"]);
        assert!(only.drivers().iter().all(|candidate| matches!(candidate, Candidate::File(_))));
        assert_eq!(only.drivers().len(), 2);
        assert_eq!(only.compilers(), [vec![], vec![]]);
    }
}
