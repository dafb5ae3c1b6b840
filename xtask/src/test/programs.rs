//! The test programs of the workspace: built by one cargo command, run as many at a time as there are cores.

use std::collections::{BTreeSet, VecDeque};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Message, Metadata};

use super::times;

/// The packages whose tests take longest, in this order: they begin first, so that no long program is left for the end.
const FIRST: &[&str] = &["operant", "operant-learn", "operant-env", "operant-cuda"];

/// Variables that name what was found on the machine.
type Variables = [(&'static str, std::ffi::OsString)];

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

    /// Runs it to its end.
    fn run(&self, arguments: &[&str], log: &Path, variables: &Variables) -> Result<Output> {
        let mut command = times::timed(log, &format!("run {}", self.name()))?;
        command.arg(&self.executable).args(arguments).current_dir(&self.directory).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.directory);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.output().with_context(|| format!("cannot start {}", self.executable.display()))
    }

    /// The names of its tests.
    fn tests(&self) -> Result<Vec<String>> {
        let mut command = Command::new(&self.executable);
        command.arg("--list").current_dir(&self.directory).stdin(Stdio::null());
        let output =
            command.output().with_context(|| format!("cannot start {}", self.executable.display()))?;
        ensure!(output.status.success(), "{} --list failed ({})", self.name(), output.status);
        let listed = String::from_utf8_lossy(&output.stdout);
        Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
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

/// The parts of tests' names that such arguments select, and those that they skip.
fn filters<'a>(arguments: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let before = std::iter::once("").chain(arguments.iter().copied());
    let named = arguments.iter().copied().zip(before).filter(|(it, _)| !it.starts_with('-'));
    let (skips, names): (Vec<_>, Vec<_>) = named.partition(|(_, before)| *before == "--skip");
    let first = |pairs: Vec<(&'a str, &str)>| pairs.into_iter().map(|(it, _)| it).collect();
    (first(names), first(skips))
}

/// Builds the programs that `cargo test` with these arguments selects, and runs them side by side; returns the lines that say what was skipped.
///
/// # Errors
///
/// Tests that do not compile, or every program that failed; `repeat` maps a program's name to the command that runs it again.
pub fn run(
    metadata: &Metadata,
    cargo: &mut Command,
    arguments: &[&str],
    log: &Path,
    variables: &Variables,
    repeat: impl Fn(&str) -> String,
) -> Result<Vec<String>> {
    let programs = build(metadata, cargo)?;
    let listed: Vec<Vec<String>> = programs.iter().map(Program::tests).collect::<Result<_>>()?;
    let (names, skips) = filters(arguments);
    let is_skipped = |test: &String| skips.iter().any(|skip| test.contains(skip));
    for name in &names {
        let found = listed.iter().flatten().any(|test| test.contains(name) && !is_skipped(test));
        ensure!(found, "no test name contains `{name}`; were tests renamed, or not built?");
    }
    for skip in skips.iter().filter(|skip| skip.contains("::")) {
        let found = listed.iter().flatten().any(|test| test.contains(skip));
        ensure!(found, "no test name contains `{skip}`, which is skipped; were tests renamed?");
    }
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
                    let (is_good, printed, said) = match program.run(arguments, log, variables) {
                        Ok(Output { status, stdout, stderr }) => {
                            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                            (status.success(), text(&stdout), text(&stderr))
                        }
                        Err(error) => (false, String::new(), format!("{error:#}\n")),
                    };
                    let of_tests =
                        said.lines().filter(|line| line.starts_with("SKIPPED ")).map(str::to_owned);
                    skipped.lock().expect("no worker panics").extend(of_tests);
                    // A program that ends without its result has not run all of its tests.
                    let result = printed.lines().rfind(|line| line.starts_with("test result: ok."));
                    let (name, seconds) = (program.name(), start.elapsed().as_secs_f64());
                    match result.and_then(|line| line["test result: ".len()..].split("; finished").next()) {
                        Some(result) if is_good => eprintln!("{seconds:7.1} s  {name}: {result}"),
                        _ => {
                            eprintln!("{printed}{said}{seconds:7.1} s  {name}: FAILED");
                            failed.lock().expect("no worker panics").push(name);
                        }
                    }
                }
            });
        }
    });
    eprintln!("{count} test programs ran in {:.0} s", begin.elapsed().as_secs_f64());
    let failed = failed.into_inner().expect("no worker panics");
    if !failed.is_empty() {
        let commands: BTreeSet<String> = failed.iter().map(|name| format!("    {}", repeat(name))).collect();
        let commands: Vec<String> = commands.into_iter().collect();
        bail!(
            "{} of {count} test programs failed; to repeat only these:\n\n{}\n",
            failed.len(),
            commands.join("\n")
        );
    }
    Ok(skipped.into_inner().expect("no worker panics"))
}
