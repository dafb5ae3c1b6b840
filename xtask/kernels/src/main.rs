//! `cargo xtask kernels`: compiles every kernel with the run-time compiler alone, without a GPU, and checks what each function uses:
//! registers, spills, stack, shared memory. A warning of the compiler is a failure.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use operant_cuda::{Compiler, SearchPaths, Version};

mod functions;
mod matrix;
mod page;

use functions::Usage;
use matrix::{Job, ProgramSelection};

/// The page, below the root.
const PAGE: &str = "docs/results/kernels.md";

/// The directory of libnvrtc, which takes precedence.
const VARIABLE: &str = "OPERANT_NVRTC_DIR";

/// A program that was compiled.
struct Compiled {
    job: Job,
    functions: Vec<Usage>,
    /// The compiler's seconds.
    seconds: f64,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles the kernels and writes the page, compares it with the one that is checked in (`--check`), checks every environment
/// with every network for every architecture (`--all`), or shows what programs with large rules use, MuJoCo's tasks and Craftax (`--large [--all] [FAMILY]`).
///
/// # Errors
///
/// No compiler, a kernel that does not compile or compiles with a warning, a spill or a stack that is not allowed, or a page that
/// is not the one checked in.
fn run(args: &[&str]) -> Result<()> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cannot read the workspace; run this inside it, where `cargo metadata` works")?;
    if let ["--large", rest @ ..] = args {
        let (every_architecture, rest) = match rest {
            ["--all", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        ensure!(rest.len() < 2, "`--large` takes --all, and a family");
        return large(&compiler()?, every_architecture, rest.first().copied());
    }
    let compiler = compiler()?.cached_in(Some(metadata.target_directory.join("kernels").as_std_path()));
    let all = args.contains(&"--all");
    let extent = if all { ProgramSelection::All } else { ProgramSelection::Page };
    let jobs = matrix::jobs(extent, &compiler.architectures())?;
    let check = match args {
        [] | ["--all"] => false,
        ["--check"] => true,
        // What `fill_cache` starts.
        ["--share", share, ..] => {
            for job in jobs.iter().skip(share.parse()?).step_by(processors()) {
                // The process that started this one compiles again what fails here, and reports it.
                let _ = compiler.compile(&job.program, job.architecture);
            }
            return Ok(());
        }
        _ => bail!("`{}` is not understood; give nothing, --check, --all or --large", args.join(" ")),
    };
    fill_cache(extent);
    let compiled: Vec<Compiled> = jobs.into_iter().map(|job| one(&compiler, job)).collect::<Result<_>>()?;
    let broken = functions::not_allowed(&compiled);
    ensure!(
        broken.is_empty(),
        "spills and stacks that xtask/kernels/src/functions.rs does not allow:\n{}",
        broken.join("\n")
    );
    let version = compiler.version();
    if all {
        eprintln!("{} programs compiled with NVRTC {version}; no spill that is not allowed", compiled.len());
        return Ok(());
    }
    let text = page::page(&compiled, version);
    let file = metadata.workspace_root.join(PAGE);
    if check {
        return compare(file.as_std_path(), &text, version, compiled.len());
    }
    std::fs::write(&file, &text).with_context(|| format!("cannot write {file}"))?;
    eprintln!("{} programs compiled with NVRTC {version}; {PAGE} is written", compiled.len());
    Ok(())
}

fn compiler() -> Result<Compiler> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = match &named {
        Some(directory) => Compiler::find_at(&SearchPaths::only(&[directory]), None),
        None => Compiler::find(None, None),
    };
    found.with_context(|| match named {
        Some(directory) => format!("NVRTC is not in {VARIABLE}={}", directory.display()),
        None => "NVRTC is needed: `cargo xtask python` brings it, and `cargo xtask test` finds it; or set OPERANT_NVRTC_DIR".to_owned(),
    })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Fills the cache from other processes, since NVRTC compiles one program at a time in each. It only saves time.
fn fill_cache(extent: ProgramSelection) {
    let Ok(program) = std::env::current_exe() else { return };
    let start = |share: usize| {
        let mut command = Command::new(&program);
        command.args(["--share", &share.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        command.args((extent == ProgramSelection::All).then_some("--all"));
        command.spawn().ok()
    };
    let started: Vec<Child> = (0..processors()).filter_map(start).collect();
    for mut child in started {
        let _ = child.wait();
    }
}

fn one(compiler: &Compiler, job: Job) -> Result<Compiled> {
    let image = compiler.compile(&job.program, job.architecture).with_context(|| job.name())?;
    let warnings = image.warnings();
    ensure!(warnings.is_empty(), "{}: the compiler warns:\n{}", job.name(), warnings.join("\n"));
    let functions = functions::usages(&job, &image).with_context(|| job.name())?;
    Ok(Compiled { job, functions, seconds: image.seconds })
}

/// Compiles the programs with large rules, and prints for each the compiler's seconds, and the most that one of its functions uses.
fn large(compiler: &Compiler, every_architecture: bool, family: Option<&str>) -> Result<()> {
    println!(
        "| environment | program | bytes of rules | architecture | seconds | registers | bytes of stack | of spills |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (env, job) in matrix::large(every_architecture, family, &compiler.architectures())? {
        let Compiled { job, functions, seconds } = one(compiler, job).with_context(|| env.clone())?;
        let most = |of: fn(&Usage) -> u32| functions.iter().map(of).max().unwrap_or(0);
        // Such as `rollout for hopper`.
        let program = job.program.name.split(' ').next().unwrap_or_default();
        let rules =
            job.program.headers.iter().find(|(name, _)| name == "env.cuh").map_or(0, |(_, text)| text.len());
        let architecture = job.architecture;
        let (registers, stack, spills) = (most(|it| it.registers), most(|it| it.stack), most(|it| it.spills));
        println!(
            "| {env} | {program} | {rules} | sm_{architecture} | {seconds:.1} | {registers} | {stack} | {spills} |"
        );
    }
    Ok(())
}

/// Compares the committed page with a new one.
fn compare(file: &Path, text: &str, version: Version, programs: usize) -> Result<()> {
    let checked_in = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}; `cargo xtask kernels` writes it", file.display()))?;
    if page::version_line(&checked_in) != page::version_line(text) {
        eprintln!(
            "{PAGE} was made with another compiler than the NVRTC {version} here: {programs} programs compile without a \
             warning or a spill that is not allowed, and the numbers were not compared"
        );
        return Ok(());
    }
    let differences = page::differences(&checked_in, text);
    if differences.is_empty() {
        eprintln!("{programs} programs compiled with NVRTC {version}; {PAGE} is what it should be");
        return Ok(());
    }
    bail!(
        "{PAGE} is not what the kernels compile to now (- checked in, + now). If that is intended, run `cargo xtask kernels` \
         and check the page in.\n{}",
        differences.join("\n")
    )
}
