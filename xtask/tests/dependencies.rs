//! Checks the allowed dependencies of docs/architecture.md (`a -> b`: a depends on b) and the forbidden ones, over `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};

/// What each member may depend on inside the workspace, at most: lane <- env <- learn <- run <- bench <- cli <- bin.
const ALLOWED_DEPENDENCIES: &[(&str, &[&[&str]])] = &[
    ("operant-lane", &[]),
    ("operant-cuda", &[]),
    ("operant-metrics", &[]),
    ("operant-host", &[]),
    ("operant-env", &[&["operant-lane", "operant-metrics"]]),
    ("operant-gym", &[&["operant-env", "operant-lane", "operant-metrics"]]),
    ("operant-bf16", &[]),
    ("operant-learn", &[&["operant-env", "operant-lane", "operant-metrics", "operant-cuda", "operant-bf16"]]),
    ("operant-mpi", &[&["operant-learn", "operant-host"]]),
    (
        "operant-parity",
        &[&["operant-learn", "operant-env", "operant-lane", "operant-metrics", "operant-cuda"]],
    ),
    (
        "operant-run",
        &[&[
            "operant-learn",
            "operant-gym",
            "operant-env",
            "operant-cuda",
            "operant-metrics",
            "operant-host",
        ]],
    ),
    ("operant-bench", &[UP_TO_RUN, &["operant-parity"]]),
    ("operant-page", &[&["operant-learn", "operant-env"]]),
    ("operant-sweep", &[UP_TO_RUN, &["operant-draw", "operant-page"]]),
    (
        "operant-cli",
        &[UP_TO_RUN, &["operant-bench", "operant-draw", "operant-sweep", "operant-monitor", "operant-mpi"]],
    ),
    ("operant-draw", &[&["operant-metrics"]]),
    ("operant-monitor", &[&["operant-draw", "operant-metrics"]]),
    ("operant-monitor-bin", &[&["operant-monitor"]]),
    ("operant-python", &[UP_TO_RUN, &["operant-bench", "operant-cli", "operant-draw", "operant-sweep"]]),
    ("operant", &[UP_TO_RUN, &["operant-bench", "operant-cli"]]),
    ("operant-portable", &[&["operant-cli"]]),
    ("benches", &[UP_TO_RUN, &["operant-bench"]]),
    ("xtask", &[]),
    ("xtask-kernels", &[&["operant-learn", "operant-env", "operant-cuda"]]),
];

const UP_TO_RUN: &[&str] = &[
    "operant-run",
    "operant-learn",
    "operant-gym",
    "operant-env",
    "operant-lane",
    "operant-cuda",
    "operant-metrics",
    "operant-host",
];

/// What may never be reached, however far down.
const ABSENT: &[(&str, &[&str])] = &[
    ("operant-lane", GPU),
    ("operant-env", GPU),
    ("operant-monitor", &["cudarc", "operant-cuda", "operant-learn"]),
];

const GPU: &[&str] = &[
    "operant-cuda",
    "cudarc",
    "cust",
    "rustacuda",
    "wgpu",
    "ash",
    "vulkano",
    "metal",
    "opencl3",
    "ocl",
    "cubecl",
];

/// Crates that may contain no unsafe block, not even an allowed one.
const FORBID_UNSAFE: &[&str] = &["operant-env"];

/// The workspace with everything it is built from on this platform.
fn metadata() -> Metadata {
    let version = Command::new("rustc").arg("-vV").output().expect("rustc -vV runs");
    let version = String::from_utf8(version.stdout).expect("rustc speaks UTF-8");
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc -vV names its host");
    // Without the filter cargo downloads the crates of every other platform first.
    MetadataCommand::new()
        .other_options(["--filter-platform".to_string(), host.to_string()])
        .exec()
        .expect("cargo metadata reads the workspace")
}

/// The members of the workspace, by name.
fn members(metadata: &Metadata) -> BTreeMap<&str, &Package> {
    metadata.workspace_packages().into_iter().map(|package| (package.name.as_str(), package)).collect()
}

/// A package's directory, relative to the root: `crates/operant-env`.
fn home(metadata: &Metadata, package: &Package) -> String {
    let dir = package.manifest_path.parent().expect("a manifest lies in a directory");
    dir.strip_prefix(&metadata.workspace_root).expect("members lie below the root").to_string()
}

/// The members that a package depends on, normally (not for its tests or its build script).
fn inner_dependencies<'a>(package: &'a Package, members: &BTreeMap<&str, &Package>) -> BTreeSet<&'a str> {
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
    normal.map(|dependency| dependency.name.as_str()).filter(|name| members.contains_key(name)).collect()
}

/// The way along normal dependencies from one member to the first of `targets`, if there is one.
fn path_to(metadata: &Metadata, from: &Package, targets: &[&str]) -> Option<String> {
    let resolve = metadata.resolve.as_ref().expect("cargo metadata resolves the dependencies");
    let nodes: BTreeMap<&PackageId, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut came_from: BTreeMap<&PackageId, Option<&PackageId>> = BTreeMap::from([(&from.id, None)]);
    let mut queue = VecDeque::from([&from.id]);
    while let Some(id) = queue.pop_front() {
        if id != &from.id && targets.contains(&metadata[id].name.as_str()) {
            let way = std::iter::successors(Some(id), |id| came_from[id]);
            let names: Vec<&str> = way.map(|id| metadata[id].name.as_str()).collect();
            return Some(names.into_iter().rev().collect::<Vec<_>>().join(" -> "));
        }
        for dependency in &nodes[id].deps {
            let normal = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if normal && !came_from.contains_key(&dependency.pkg) {
                came_from.insert(&dependency.pkg, Some(id));
                queue.push_back(&dependency.pkg);
            }
        }
    }
    None
}

/// Fails with every broken rule at once.
fn verdict(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}\n(the rules: docs/architecture.md)\n", broken.join("\n"));
}

#[test]
fn every_dependency_is_allowed() {
    let metadata = metadata();
    let members = members(&metadata);
    let mut broken = Vec::new();
    for (name, package) in &members {
        let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(from, _)| from == name) else {
            broken.push(format!("{name} has no row here: decide what it may depend on and add one"));
            continue;
        };
        let allowed = allowed.concat();
        for to in inner_dependencies(package, &members).iter().filter(|to| !allowed.contains(to)) {
            broken.push(format!(
                "{name} -> {to} is not an allowed dependency: remove it from {name}'s Cargo.toml"
            ));
        }
    }
    verdict(&broken);
}

/// All Rust code below a directory, without line comments.
fn rust_code(dir: &Path, code: &mut String) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.expect("directory entries can be read").path()) {
        if path.is_dir() {
            rust_code(&path, code);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).expect("a source file is UTF-8");
            code.extend(source.lines().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]));
        }
    }
}

#[test]
fn every_dependency_is_used() {
    let metadata = metadata();
    let mut broken = Vec::new();
    for (name, package) in members(&metadata) {
        let dir = package.manifest_path.parent().expect("a manifest lies in a directory");
        let mut code = String::new();
        // Tests have their own dependencies; measurements are what `benches` consists of.
        for folder in ["src", "benches"] {
            rust_code(dir.join(folder).as_std_path(), &mut code);
        }
        let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        // An optional one may be there for its features only.
        let normal =
            package.dependencies.iter().filter(|it| it.kind == DependencyKind::Normal && !it.optional);
        let unused = normal.filter(|it| !words.contains(it.name.replace('-', "_").as_str()));
        broken.extend(
            unused.map(|it| format!("{name} -> {}: no code uses it, drop it from Cargo.toml", it.name)),
        );
    }
    verdict(&broken);
}

/// Every package that a command of cargo compiles for this platform, with its features, as `cargo tree` prints it.
fn compiled(args: &[&str]) -> BTreeSet<String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--prefix", "none", "--no-dedupe", "--format", "{p} {f}"])
        .args(args)
        .output()
        .expect("cargo tree runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(ToString::to_string).collect()
}

#[test]
fn the_wheel_of_the_tests_compiles_what_the_tests_compile() {
    let wheel = ["--package", "operant-python", "--features", "test-features", "--edges", "normal"];
    let tests = compiled(&["--workspace", "--edges", "normal,dev"]);
    let other =
        compiled(&wheel).into_iter().filter(|it| !tests.contains(it) && !it.starts_with("operant-python "));
    let other = other.map(|it| {
        format!("{it}: the tests give it other features; name them at test-features of crates/operant-python")
    });
    verdict(&other.collect::<Vec<_>>());
}

#[test]
fn no_crate_reaches_what_it_must_not() {
    let metadata = metadata();
    let members = members(&metadata);
    let paths = ABSENT.iter().filter_map(|(name, targets)| path_to(&metadata, members.get(name)?, targets));
    let broken: Vec<String> =
        paths.map(|path| format!("{path}: the first may never reach the last")).collect();
    verdict(&broken);
}

#[test]
fn the_search_for_absent_crates_finds_present_ones() {
    let metadata = metadata();
    let members = members(&metadata);
    let path = path_to(&metadata, members["operant-learn"], &["operant-lane"]);
    assert!(path.is_some_and(|path| path.starts_with("operant-learn -> ") && path.ends_with("operant-lane")));
}

#[test]
fn no_library_depends_on_a_program_or_on_measurements() {
    let metadata = metadata();
    let members = members(&metadata);
    let mut broken = Vec::new();
    for (name, package) in
        members.iter().filter(|(_, package)| home(&metadata, package).starts_with("crates/"))
    {
        for dependency in &package.dependencies {
            let Some(to) = members.get(dependency.name.as_str()) else {
                continue;
            };
            let place = home(&metadata, to);
            if !place.starts_with("crates/") {
                broken.push(format!("{name} -> {} ({place}): a library depends on libraries only", to.name));
            }
        }
    }
    verdict(&broken);
}

#[test]
fn no_crate_is_a_drawer_for_odds_and_ends() {
    let metadata = metadata();
    let vague = ["core", "utils", "util", "common", "misc", "shared", "helpers"];
    let members = members(&metadata);
    let named =
        members.keys().filter(|name| name.rsplit('-').next().is_some_and(|last| vague.contains(&last)));
    verdict(&named.map(|name| format!("{name}: name it by what it does")).collect::<Vec<_>>());
}

#[test]
fn every_crate_refuses_unsafe_code() {
    let metadata = metadata();
    let read = |path: &str| -> String {
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path} cannot be read: {error}"))
    };
    let manifest =
        |path: &str| -> toml::Table { read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}")) };
    let root = manifest(metadata.workspace_root.join("Cargo.toml").as_str());
    let mut broken = Vec::new();
    if !matches!(root["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("deny" | "forbid")) {
        broken.push("Cargo.toml: [workspace.lints.rust] must deny unsafe_code".to_string());
    }
    for (name, package) in members(&metadata) {
        let own = manifest(package.manifest_path.as_str());
        let inherits = own.get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
        if inherits != Some(true) {
            broken.push(format!(
                "{name}: its Cargo.toml lacks `[lints] workspace = true`, which denies unsafe code"
            ));
        }
        let roots = package.targets.iter().filter(|target| target.is_lib() || target.is_bin());
        for target in roots.filter(|_| FORBID_UNSAFE.contains(&name)) {
            if !read(target.src_path.as_str()).contains("#![forbid(unsafe_code)]") {
                broken.push(format!("{}: lacks #![forbid(unsafe_code)]", target.src_path));
            }
        }
    }
    verdict(&broken);
}
