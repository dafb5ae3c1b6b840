//! The page: one table of what a step executes, one of what each kernel uses, and how the numbers come about.

use std::fmt::Write;

use operant_cuda::Version;
use operant_learn::cuda::specialise::WeightsAt;

use super::Compiled;
use super::count::Counts;
use super::expected;
use super::matrix::NUM_ENVS;

/// Multiprocessors of an H200, schedulers of each, and its clock in GHz.
pub const MULTIPROCESSORS: f64 = 132.0;
pub const SCHEDULERS: f64 = 4.0;
pub const GHZ: f64 = 1.755;
/// Instructions a cycle and multiprocessor: a special function for 16 lanes of 32; m16n8k16 in bf16, or m16n8k8 in tf32, at
/// 1,024 or 512 multiply-adds.
pub const MUFU: f64 = 16.0 / 32.0;
pub const HMMA: f64 = 1_024.0 / (16.0 * 8.0 * 16.0);

/// The whole page.
pub fn page(compiled: &[Compiled], version: Version) -> String {
    let mut text = format!(
        "# What the kernels compile to\n\n\
         Written by `cargo xtask kernels`, which needs no GPU; `cargo xtask test` compares it. Do not edit.\n\n\
         {COMPILER}{version}, {} programs, specialised for {NUM_ENVS_SHOWN} environments.\n\n",
        compiled.len(),
    );
    text.push_str(HOW);
    text.push_str("\n## One step of a warp on sm_90\n\n");
    text.push_str(&steps(compiled));
    text.push_str("\nThe networks of the presets:\n\n");
    text.push_str(&presets(compiled));
    text.push_str("\n## One Adam step on sm_90\n\n");
    text.push_str(&expected::section(compiled));
    text.push_str("\n## What each kernel uses\n\n");
    text.push_str(RESOURCES);
    text.push_str(&resources(compiled));
    text
}

/// Begins the line that says which compiler the numbers are of.
const COMPILER: &str = "NVRTC ";
const NUM_ENVS_SHOWN: &str = "8,192";
const _: () = assert!(NUM_ENVS == 8_192, "the page says so");

const HOW: &str = "\
The first table counts the machine code (`nvdisasm`) of one turn of the loop over steps: the outermost loop that draws random
numbers. A warp plays 16 environments in `rollout` and 32 in `random_play`.

- An instruction counts once for the warp, whether or not a predicate switches it off. Loops inside are multiplied by their
  turns, which follow from constants in the code; what the network must execute by its sizes (HMMA, FFMA, MUFU) has to come
  out, FFMA within 2%, or the chore fails. The loop over set bits of an observation turns as often as the first observation of an
  episode says.
- Policy: from the head of the loop to the branch behind the network's last layer. Step: the turn in which no episode ends,
  policy included. A draw that every fourth step makes counts a quarter. What the learner's scene records counts, though it is
  usually skipped; a bootstrap's turn, slow paths of divisions and ways that reunite lanes do not.
- End: instructions on top when an episode of the warp ends (statistics, reset): the last branch that skips random numbers.
  Where there is no such branch, Step includes them and End is empty.
- HMMA, MUFU, FFMA, shared (LDS, STS) and global (LDG, STG) are those of Step.
- At most: what an H200 could do if nothing ever waited: 132 multiprocessors x 4 schedulers x 1.755 GHz, one instruction a
  cycle and scheduler (issue); a MUFU takes two cycles of a multiprocessor, and so does an HMMA (m16n8k16 in bf16 or m16n8k8
  in tf32). The least of the three limits, and which it is.

The last column is an upper bound and no forecast. It ignores every latency, the bandwidth of shared and global memory, the
ends of episodes and GAE. 8,192 environments are 512 warps of the rollout, one for each of 528 schedulers, so that
nothing hides a latency there: expect a fraction of the bound.
";

fn steps(compiled: &[Compiled]) -> String {
    let mut text = String::from(
        "| kernel | environment | network | precision | policy | step | end | HMMA | MUFU | FFMA | shared | global \
         | per env step | at most, G steps/s |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for one in compiled {
        let (Some(turn), Some(measured)) = (one.turn, &one.job.measured) else { continue };
        let number = |count: Option<Counts>| count.map_or("-".to_owned(), |count| rounded(count.all));
        let step = turn.step;
        let (bound, limit) = bound(&step, measured.environments);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {bound:.1} ({limit}) |",
            one.job.kernel,
            one.job.environment,
            one.job.network.unwrap_or("-"),
            one.job.precision.map_or("-", |precision| precision.name()),
            number(turn.policy),
            rounded(step.all),
            number(turn.end),
            rounded(step.hmma),
            rounded(step.mufu),
            rounded(step.ffma),
            rounded(step.shared),
            rounded(step.global),
            step.all / measured.environments,
        );
    }
    text
}

/// Each environment's preset in words.
fn presets(compiled: &[Compiled]) -> String {
    let mut shown = String::new();
    for job in compiled.iter().map(|one| &one.job) {
        let Some(preset) = &job.preset else { continue };
        let line = format!("- {}: {preset}\n", job.environment);
        if !shown.contains(&line) {
            shown.push_str(&line);
        }
    }
    shown
}

fn rounded(count: f64) -> String {
    format!("{count:.0}")
}

/// Steps a second in units of 10^9 that an H200 cannot exceed, and what limits them.
pub fn bound(step: &Counts, environments: f64) -> (f64, &'static str) {
    let limits = [(step.all / SCHEDULERS, "issue"), (step.mufu / MUFU, "MUFU"), (step.hmma / HMMA, "HMMA")];
    let (cycles, limit) =
        limits.into_iter().fold((0.0, "none"), |most, next| if next.0 > most.0 { next } else { most });
    (MULTIPROCESSORS * GHZ * environments / cycles, limit)
}

const RESOURCES: &str = "\
Registers, spilled bytes (stores and loads together) and stack bytes are a thread's, as the assembler reports them; shared
memory is a block's, in bytes, dynamic memory of rollout and update included. A spill in either, or a stack in the rollout, fails the chore.

";

fn resources(compiled: &[Compiled]) -> String {
    let mut text = String::from(
        "| kernel | environment | network | precision | sm | registers | spills | stack | shared | warps | weights at |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for one in compiled {
        for kernel in &one.resources {
            let job = &one.job;
            // A program of one kernel has its name; others say whose kernel it is.
            let form = job.kernel.split_once(", ").map_or(String::new(), |(_, form)| format!(", {form}"));
            let (dynamic, warps, place) = match &job.specialisation {
                None => (0, "-".to_owned(), "-"),
                Some(special) => (special.shared, special.warps.to_string(), place(special.weights_at)),
            };
            let _ = writeln!(
                text,
                "| {}{form} | {} | {} | {} | {} | {} | {} | {} | {} | {warps} | {place} |",
                kernel.kernel,
                job.environment,
                job.network.unwrap_or("-"),
                job.precision.map_or("-", |precision| precision.name()),
                job.architecture,
                kernel.registers,
                kernel.spill_stores + kernel.spill_loads,
                kernel.stack,
                kernel.shared as usize + dynamic,
            );
        }
    }
    text
}

fn place(weights_at: WeightsAt) -> &'static str {
    match weights_at {
        WeightsAt::Global => "global",
        WeightsAt::Shared => "shared",
        WeightsAt::Registers => "registers",
    }
}

/// The line of a page that says which compiler it is of, up to the version.
pub fn version_line(page: &str) -> Option<&str> {
    page.lines().find(|line| line.starts_with(COMPILER))?.split(',').next()
}

/// Lines that are on one page only, those of the first with `-` and those of the second with `+`, in their order.
pub fn differences(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // What the rows of both begin with tells which belong together: up to the precision, and up to the architecture.
    let key = |line: &str| {
        let columns = if line.split('|').count() > 14 { 5 } else { 6 };
        line.split('|').take(columns).collect::<Vec<_>>().join("|")
    };
    let mut lines = Vec::new();
    for line in old.iter().filter(|line| !new.contains(line)) {
        lines.push(format!("- {line}"));
        lines.extend(
            new.iter()
                .filter(|other| other.starts_with('|') && key(other) == key(line) && !old.contains(other))
                .map(|other| format!("+ {other}")),
        );
    }
    for line in new.iter().filter(|line| !old.contains(line)) {
        let shown = format!("+ {line}");
        if !lines.contains(&shown) {
            lines.push(shown);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_binds() {
        let step = Counts { all: 400.0, mufu: 40.0, hmma: 44.0, ..Counts::default() };
        let (bound_issue, limit) = bound(&step, 16.0);
        assert_eq!(limit, "issue");
        assert!((bound_issue - 132.0 * 1.755 * 16.0 / 100.0).abs() < 1e-9);
        assert_eq!(bound(&Counts { mufu: 64.0, ..step }, 16.0).1, "MUFU");
        assert_eq!(bound(&Counts { hmma: 64.0, ..step }, 16.0).1, "HMMA");
    }

    #[test]
    fn differences_show_old_and_new_rows_together() {
        let old = "| a | b | c | f32 | 90 | 128 |\n| a | b | c | f32 | 80 | 120 |\nsame";
        let new = "| a | b | c | f32 | 90 | 130 |\n| a | b | c | f32 | 80 | 120 |\nsame\nmore";
        assert_eq!(
            differences(old, new),
            ["- | a | b | c | f32 | 90 | 128 |", "+ | a | b | c | f32 | 90 | 130 |", "+ more"]
        );
        assert!(differences(new, new).is_empty());
    }

    #[test]
    fn the_version_is_read_back() {
        let text = page(&[], Version { major: 13, minor: 0 });
        assert_eq!(version_line(&text), Some("NVRTC 13.0"));
    }
}
