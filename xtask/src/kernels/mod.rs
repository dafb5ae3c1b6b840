//! `cargo xtask kernels`: every kernel to machine code, with the run-time compiler alone and no GPU, and what that code
//! says: registers, spills, and the instructions of a step.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use operant_cuda::Resources;

mod adam_step;
mod constants;
mod count;
mod expected;
mod graph;
mod matrix;
mod page;
mod sass;
mod tools;
mod trips;
mod work;

use adam_step::AdamStep;
use constants::Launch;
use count::Turn;
use expected::Grid;
use matrix::{Extent, Job};
use sass::Kernel;
use tools::Tools;

/// The page, below the root.
const PAGE: &str = "docs/results/kernels.md";

/// What became of a job.
struct Compiled {
    job: Job,
    resources: Vec<Resources>,
    turn: Option<Turn>,
    grid: Option<Grid>,
    adam: Option<AdamStep>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Write,
    Check,
    Print,
    /// Compile every so manieth program, this being the first, and say nothing.
    Fill(usize),
}

/// Compiles the matrix and writes the page, compares it with the one that is checked in (`--check`), or prints that of every
/// environment for every architecture (`--all`).
///
/// # Errors
///
/// No compiler, a kernel that does not compile, a spill or a stack in rollout or update, a loop that cannot be counted, or a page
/// that is not the one checked in.
pub fn run(args: &[&str]) -> Result<()> {
    let (wish, extent) = match args {
        [] => (Wish::Write, Extent::Usual),
        ["--check"] => (Wish::Check, Extent::Usual),
        ["--all"] => (Wish::Print, Extent::All),
        // What `fill` starts.
        ["--share", share, all @ ..] => {
            (Wish::Fill(share.parse()?), if all.is_empty() { Extent::Usual } else { Extent::All })
        }
        _ => bail!("`{}` is not understood; give nothing, --check or --all", args.join(" ")),
    };
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cannot read the workspace; run this inside it, where `cargo metadata` works")?;
    let tools = Tools::find(metadata.target_directory.join("kernels").into_std_path_buf())?;
    let jobs = matrix::jobs(extent, &tools.compiler.architectures())?;
    if let Wish::Fill(first) = wish {
        for job in jobs.iter().skip(first).step_by(processors()) {
            // Whoever started this compiles again what fails here, and says so.
            let _ = tools.compiler.compile(&job.program, job.architecture);
        }
        return Ok(());
    }
    fill(extent);
    let compiled = compile(&tools, jobs)?;
    let broken = spills(&compiled);
    let version = tools.compiler.version();
    let text = page::page(&compiled, version);
    if wish == Wish::Print {
        print!("{text}");
    }
    let file = metadata.workspace_root.join(PAGE);
    if wish == Wish::Write {
        std::fs::write(&file, &text).with_context(|| format!("cannot write {file}"))?;
        eprintln!("{} programs compiled with NVRTC {version}; {PAGE} is written", compiled.len());
    }
    if !broken.is_empty() {
        bail!("rollout and update may not spill, nor have a stack:\n{}", broken.join("\n"));
    }
    if wish == Wish::Check {
        compare(file.as_std_path(), &text, version, compiled.len())?;
    }
    Ok(())
}

/// Whether a line that says why nothing was checked is due instead of [`run`].
pub fn missing() -> Option<String> {
    Tools::find(std::env::temp_dir()).err().map(|error| format!("{error:#}"))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Fills the cache by other processes, since NVRTC compiles one program at a time in each. Nothing depends on it but the time.
fn fill(extent: Extent) {
    let Ok(program) = std::env::current_exe() else { return };
    let start = |share: usize| {
        let mut command = Command::new(&program);
        command.args(["kernels", "--share", &share.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        if extent == Extent::All {
            command.arg("--all");
        }
        command.spawn().ok()
    };
    let started: Vec<Child> = (0..processors()).filter_map(start).collect();
    for mut child in started {
        let _ = child.wait();
    }
}

/// Compiles and counts everything, on all processors.
fn compile(tools: &Tools, jobs: Vec<Job>) -> Result<Vec<Compiled>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { break };
            let result = one(tools, job).with_context(|| job.name());
            results.lock().unwrap_or_else(|poison| poison.into_inner()).push((number, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poison| poison.into_inner());
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

fn one(tools: &Tools, job: &Job) -> Result<Compiled> {
    let image = tools.compiler.compile(&job.program, job.architecture)?;
    let resources = image.resources();
    let turn = match &job.measured {
        None => None,
        Some(measured) => {
            let text = tools.disassemble(&job.name(), &image.code)?;
            let turn = count::turn(&Kernel::parse(&text, measured.kernel)?, measured.facts)?;
            if let (Some(work), Some(policy)) = (&measured.work, &turn.policy) {
                work.check(policy)?;
            }
            Some(turn)
        }
    };
    let grid = match (&job.adam, resources.iter().find(|kernel| kernel.kernel == "ppo_update")) {
        (Some(measurement), Some(kernel)) => Some(Grid::of(measurement, kernel.registers)),
        _ => None,
    };
    let adam = match (&job.adam, grid) {
        (Some(measurement), Some(grid)) => {
            let text = tools.disassemble(&job.name(), &image.code)?;
            let launch = Launch {
                threads: measurement.update.threads(),
                blocks: grid.blocks as u32,
                busy: grid.busy() as u32,
            };
            Some(adam_step::count(&text, adam_step::Facts { launch, tile: measurement.tile })?)
        }
        _ => None,
    };
    Ok(Compiled { job: job.clone(), resources, turn, grid, adam })
}

/// Kernels that may not spill, and the bytes of stack that they may have: calls of double precision's divisions and roots,
/// once a minibatch, keep 16 in the update.
const TIGHT: [(&str, u32); 2] = [("rollout", 0), ("ppo_update", 16)];

/// Those of them that do.
fn spills(compiled: &[Compiled]) -> Vec<String> {
    let mut broken = Vec::new();
    let tight = |one: &&Compiled| TIGHT.iter().find(|(kernel, _)| *kernel == one.job.kernel).copied();
    for (one, (_, most)) in compiled.iter().filter_map(|one| Some((one, tight(&one)?))) {
        for kernel in &one.resources {
            let Resources { spill_stores, spill_loads, stack, .. } = kernel;
            if spill_stores + spill_loads > 0 || *stack > most {
                broken.push(format!(
                    "  {} ({}): {spill_stores} bytes of spill stores, {spill_loads} of spill loads, {stack} of stack",
                    kernel.kernel,
                    one.job.name()
                ));
            }
        }
    }
    broken
}

/// Compares the page that is checked in with what it would be now.
fn compare(file: &Path, text: &str, version: operant_cuda::Version, programs: usize) -> Result<()> {
    let checked_in = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}; `cargo xtask kernels` writes it", file.display()))?;
    if page::version_line(&checked_in) != page::version_line(text) {
        eprintln!(
            "{PAGE} was made with another compiler than the NVRTC {version} here: {programs} programs compile, no rollout \
             spills, and the numbers were not compared"
        );
        return Ok(());
    }
    let differences = page::differences(&checked_in, text);
    if differences.is_empty() {
        eprintln!("{programs} programs compiled with NVRTC {version}; {PAGE} is what it should be");
        return Ok(());
    }
    bail!(
        "{PAGE} is not what the kernels compile to now (- checked in, + now). If that is meant, run `cargo xtask kernels` \
         and check the page in.\n{}",
        differences.join("\n")
    )
}
