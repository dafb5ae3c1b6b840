//! The test programs of the workspace: built by one cargo command, run as many at a time as there are cores.

use std::collections::VecDeque;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Message, Metadata};

use super::times;

/// The packages whose tests take longest, in this order: they begin first, so that no long program is left for the end.
const FIRST: &[&str] = &["operant", "operant-learn", "operant-env", "operant-cuda"];

/// A compiled test program.
struct Program {
    package: String,
    /// `--lib`, `--test tests`, `--bin operant`: what selects it.
    target: String,
    executable: PathBuf,
    /// Where it runs: its package.
    directory: PathBuf,
}

impl Program {
    fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// Runs it and returns what it printed, and whether it passed.
    fn run(
        &self,
        arguments: &[&str],
        log: &Path,
        variables: &[(&'static str, std::ffi::OsString)],
    ) -> Result<(bool, Vec<u8>)> {
        let mut command = times::timed(log, &format!("run {}", self.name()))?;
        command.arg(&self.executable).args(arguments).current_dir(&self.directory).stdin(Stdio::null());
        command
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        // One pipe for both streams, so that their lines stay in order.
        let (mut reader, writer) = std::io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", self.executable.display()))?;
        drop(command); // it holds the writing ends
        let mut printed = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut printed)?;
        Ok((child.wait()?.success(), printed))
    }
}

/// Builds what `arguments` of `cargo test` select, and returns its test programs, the longest first.
fn build(metadata: &Metadata, build: &mut Command) -> Result<Vec<Program>> {
    let mut child = build
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else { continue };
        let package = &metadata[&artifact.package_id];
        let target = match artifact.target.kind.first().map(ToString::to_string).unwrap_or_default().as_str()
        {
            kind @ ("test" | "bin" | "example") => format!("--{kind} {}", artifact.target.name),
            _ => "--lib".to_owned(),
        };
        programs.push(Program {
            package: package.name.to_string(),
            target,
            executable: executable.into(),
            directory: package.manifest_path.parent().context("a manifest without directory")?.into(),
        });
    }
    ensure!(child.wait()?.success(), "the tests do not compile");
    ensure!(!programs.is_empty(), "no test program was built");
    let rank = |program: &Program| {
        let position = FIRST.iter().position(|package| *package == program.package).unwrap_or(FIRST.len());
        (position, program.target == "--lib", program.name())
    };
    programs.sort_by_key(rank);
    Ok(programs)
}

/// Arguments of test programs as a user types them after `cargo test ...`.
pub fn behind_dashes(arguments: &[&str]) -> String {
    let all: String = arguments.iter().map(|argument| format!(" {argument}")).collect();
    if all.is_empty() { all } else { format!(" --{all}") }
}

/// Builds the programs that `cargo test` with these arguments selects, and runs them side by side; returns the lines that say what was skipped.
///
/// # Errors
///
/// Tests that do not compile, or every program that failed, with the commands that repeat them.
pub fn run(
    metadata: &Metadata,
    cargo: &mut Command,
    arguments: &[&str],
    log: &Path,
    variables: &[(&'static str, std::ffi::OsString)],
) -> Result<Vec<String>> {
    let programs = build(metadata, cargo)?;
    let (count, begin) = (programs.len(), Instant::now());
    let queue = Mutex::new(VecDeque::from(programs));
    let (failed, skipped) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    eprintln!("running {count} test programs, {workers} at a time");
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no worker panics").pop_front();
                    let Some(program) = next else { return };
                    let start = Instant::now();
                    let (is_good, printed) = program
                        .run(arguments, log, variables)
                        .unwrap_or_else(|error| (false, format!("{error:#}\n").into_bytes()));
                    let printed = String::from_utf8_lossy(&printed);
                    let lines = || printed.lines();
                    // On one thread the test's name stands before it.
                    let of_tests =
                        lines().filter_map(|line| line.find("SKIPPED ").map(|at| line[at..].to_owned()));
                    skipped.lock().expect("no worker panics").extend(of_tests);
                    let result = lines()
                        .rfind(|line| line.starts_with("test result: "))
                        .unwrap_or("no result of tests");
                    let result = result
                        .trim_start_matches("test result: ")
                        .split("; finished")
                        .next()
                        .unwrap_or_default();
                    let (name, seconds) = (program.name(), start.elapsed().as_secs_f64());
                    // Arguments that select tests must select some.
                    let is_empty = result.starts_with("ok. 0 passed") && result.ends_with("filtered out");
                    let selects = arguments.iter().any(|argument| argument.ends_with("::"));
                    if is_good && !(selects && is_empty) {
                        eprintln!("{seconds:7.1} s  {name}: {result}");
                    } else {
                        eprintln!("{printed}{seconds:7.1} s  {name}: FAILED");
                        failed.lock().expect("no worker panics").push(name);
                    }
                }
            });
        }
    });
    eprintln!("{count} test programs ran in {:.0} s", begin.elapsed().as_secs_f64());
    let failed = failed.into_inner().expect("no worker panics");
    if !failed.is_empty() {
        let commands: Vec<String> = failed
            .iter()
            .map(|name| {
                format!("    cargo test --profile quick --package {name}{}", behind_dashes(arguments))
            })
            .collect();
        bail!(
            "{} of {count} test programs failed; to repeat only these:\n\n{}\n",
            failed.len(),
            commands.join("\n")
        );
    }
    Ok(skipped.into_inner().expect("no worker panics"))
}
